//! The loops of a plan as something that can be called.

use std::{sync::OnceLock, thread};

use tilt_codegen::{
    abi::Args,
    jit::{self, JitError, Module},
    lir::{self, Loop},
};

/// Loops with fewer instructions are compiled sooner than another thread has begun.
const INSTRUCTIONS: usize = 24;
/// More threads than this find too little to compile.
const THREADS: usize = 4;

/// What runs loops.
#[derive(Debug)]
pub(crate) enum Code {
    /// Machine code.
    Native(Native),
    /// The loops' own interpreter, which checks every access.
    Interpreted,
}

/// Machine code in several modules.
#[derive(Debug)]
pub(crate) struct Native {
    modules: Vec<Part>,
    /// Of each loop its module, and its number there.
    places: Vec<(usize, usize)>,
}

/// Some of the loops, compiled together.
#[derive(Debug)]
struct Part {
    /// Their numbers among all.
    loops: Vec<usize>,
    /// Empty until one of them is called, if they are late; `None` if they cannot be compiled and so are interpreted.
    module: OnceLock<Option<Module>>,
}

impl Code {
    /// Machine code of loops, compiled on some threads. Those that are `late` are compiled when they are called first.
    pub(crate) fn compile(
        loops: &[Loop],
        late: &[usize],
        threads: usize,
    ) -> Result<Self, JitError> {
        let early: Vec<usize> = (0..loops.len()).filter(|n| !late.contains(n)).collect();
        let parts = balanced(loops, &early, threads.min(THREADS));
        let compiled: Vec<Result<Module, JitError>> = match &parts[..] {
            [all] => vec![compile(loops, all)],
            parts => thread::scope(|scope| {
                let started = parts
                    .iter()
                    .map(|part| scope.spawn(|| compile(loops, part)));
                let started: Vec<_> = started.collect();
                let joined = started.into_iter().map(thread::ScopedJoinHandle::join);
                joined
                    .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            }),
        };
        let mut modules = Vec::with_capacity(parts.len() + late.len());
        for (loops, module) in parts.into_iter().zip(compiled) {
            let module = OnceLock::from(Some(module?));
            modules.push(Part { loops, module });
        }
        modules.extend(late.iter().map(|number| Part {
            loops: vec![*number],
            module: OnceLock::new(),
        }));
        let mut places = vec![(0, 0); loops.len()];
        for (number, part) in modules.iter().enumerate() {
            for (at, body) in part.loops.iter().enumerate() {
                places[*body] = (number, at);
            }
        }
        Ok(Self::Native(Native { modules, places }))
    }

    /// Calls a loop.
    ///
    /// # Safety
    /// The arguments keep the contract of [`tilt_codegen::abi`] for this loop.
    pub(crate) unsafe fn call(&self, loops: &[Loop], number: usize, args: &Args) {
        let compiled = match self {
            Self::Native(native) => {
                let (module, at) = native.places[number];
                let part = &native.modules[module];
                let module = part.module.get_or_init(|| compile(loops, &part.loops).ok());
                module.as_ref().map(|module| module.kernel(at))
            }
            Self::Interpreted => None,
        };
        match compiled {
            // SAFETY: the caller's promise, and the module lives as long as this.
            Some(kernel) => unsafe { kernel(args) },
            // SAFETY: the caller's promise.
            None => unsafe { lir::interpret(&loops[number], args) },
        }
    }
}

/// Machine code of some of the loops.
fn compile(loops: &[Loop], numbers: &[usize]) -> Result<Module, JitError> {
    let loops: Vec<Loop> = numbers.iter().map(|n| loops[*n].clone()).collect();
    jit::compile(&loops, &jit::Options::from_env())
}

/// Loops in about equal parts, as many as threads have something to do for.
fn balanced(loops: &[Loop], numbers: &[usize], threads: usize) -> Vec<Vec<usize>> {
    // What comes with every loop counts like some instructions.
    let weight = |number: &usize| 8 + loops[*number].values.len();
    let all: usize = numbers.iter().map(weight).sum();
    let parts = threads
        .min(all / INSTRUCTIONS)
        .clamp(1, numbers.len().max(1));
    let mut parts = vec![(0, Vec::new()); parts];
    let mut heaviest_first = numbers.to_vec();
    heaviest_first.sort_by_key(|number| std::cmp::Reverse(weight(number)));
    for number in heaviest_first {
        if let Some((held, part)) = parts.iter_mut().min_by_key(|(held, _)| *held) {
            *held += weight(&number);
            part.push(number);
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_is_in_one_of_about_equal_parts() {
        let body = |instructions: usize| {
            let more: Vec<String> = (1..instructions)
                .map(|i| format!("%{i} = add %{}, %0", i - 1))
                .collect();
            let more = more.join("\n");
            let last = instructions - 1;
            let text = format!(
                "loop f lanes 8 {{ access x: f64 row\n%0 = load x\n{more}\nstore %{last} }}"
            );
            lir::parse(&text).expect("a loop")
        };
        let loops: Vec<Loop> = [40, 2, 30, 3, 60, 1].map(body).to_vec();
        for (threads, parts) in [(1, 1), (2, 2), (4, 4)] {
            let found = balanced(&loops, &[0, 1, 2, 3, 4], threads);
            assert_eq!(found.len(), parts);
            let mut all: Vec<usize> = found.concat();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
        assert_eq!(balanced(&loops, &[5], 4), [[5]]);
        assert_eq!(balanced(&loops, &[], 4), [[0usize; 0]]);
    }
}
