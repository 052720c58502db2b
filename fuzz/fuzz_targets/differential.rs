//! Random programs on random data: no pass changes what the oracle makes of them, and the compiled engine makes the same.

#![no_main]

#[path = "../bytes.rs"]
mod bytes;
#[path = "../../tests/it/generate/mod.rs"]
#[allow(dead_code)]
mod generate;
#[path = "../../tests/it/text.rs"]
#[allow(dead_code)]
mod text;

use std::collections::BTreeMap;

use generate::{Choices, Pieces, Scope};
use libfuzzer_sys::fuzz_target;
use tilt::{
    Backend, Query, RunOptions,
    data::SnapshotBuffer,
    interp::{self, Event, Inputs, Options, run_buffers},
    ir::{self, Pipeline, Program, pass::PASSES},
};

fuzz_target!(|data: &[u8]| {
    let choices = bytes::choices(data);
    let (mut of_program, mut of_run) = (Choices::new(&choices), Choices::reversed(&choices));
    let mut program = generate::program(&mut of_program, Scope { instants: true });
    let ways = [(); 3].map(|()| Way::random(&mut of_run));
    if of_run.below(2) == 1 {
        generate::key_the_records(&mut program);
    }
    let inputs = generate::inputs(&mut of_run, &program, 0);
    let case = Case {
        arrays: generate::buffers(&program, &inputs),
        inputs,
        program,
    };
    let options = Options {
        span: interp::hull(&case.inputs),
        part: None,
        functions: generate::functions(),
    };
    let Ok(expected) = case.interpreted(&case.program, &options) else {
        return;
    };
    let rewritten_by = |pipeline: &Pipeline, what: &str| {
        let mut rewritten: Program = case.program.clone();
        pipeline.run(&mut rewritten);
        if let Err(error) = ir::verify(&rewritten) {
            panic!("after {what}: {error}\n{}\n{rewritten}", case.program);
        }
        let found = case.interpreted(&rewritten, &options);
        case.check(&expected, found, &format!("after {what}"), &rewritten);
    };
    for pass in PASSES {
        rewritten_by(&Pipeline::of(&[*pass]), pass.name());
    }
    rewritten_by(&Pipeline::standard(), "all passes");
    case.compiled(&expected, &options, &ways);
});

/// A program, with keys or without, and its data as events and as the engine reads them.
struct Case {
    program: Program,
    inputs: Inputs,
    arrays: BTreeMap<String, SnapshotBuffer>,
}

/// How the engine runs.
#[derive(Debug)]
struct Way {
    backend: Backend,
    threads: usize,
    pieces: Pieces,
}

impl Way {
    fn random(choices: &mut Choices) -> Self {
        Self {
            backend: [Backend::Native, Backend::Loops][choices.below(2)],
            threads: [1, 2, 8][choices.below(3)],
            pieces: Pieces::random(choices),
        }
    }
}

/// The events of a result; those of keyed programs have their key as a field.
fn events(result: Result<SnapshotBuffer, impl ToString>) -> Result<Vec<Event>, String> {
    let events = |buffer| interp::events_of(&buffer).expect("a buffer of events");
    result.map(events).map_err(|e| e.to_string())
}

impl Case {
    fn interpreted(&self, program: &Program, options: &Options) -> Result<Vec<Event>, String> {
        events(run_buffers(program, &self.arrays, options))
    }

    /// One program in all ways, fused and as written.
    fn compiled(&self, expected: &[Event], options: &Options, ways: &[Way]) {
        for optimize in [true, false] {
            let query = Query::new(self.program.clone()).expect("verified");
            let compiled = query.optimize(optimize).compile().expect("compiles");
            for way in ways {
                let run = RunOptions::default()
                    .backend(way.backend)
                    .threads(way.threads)
                    .functions(options.functions.clone());
                let run = options.span.into_iter().fold(run, RunOptions::span);
                let found = events(compiled.run(&self.arrays, &way.pieces.ask(run)));
                let what = format!("{way:?} optimize {optimize}");
                self.check(expected, found, &what, &compiled.explain());
            }
        }
    }

    fn check(
        &self,
        expected: &[Event],
        found: Result<Vec<Event>, String>,
        what: &str,
        how: &dyn std::fmt::Display,
    ) {
        let same = |found: &Vec<Event>| {
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a.same(b))
        };
        if !found.as_ref().is_ok_and(same) {
            let found = found.map_or_else(|e| e, |f| text::format_events(&f));
            panic!(
                "{what}\n{}{}\n// gives     {}\n// but here  {found}\n{how}",
                text::format_inputs(&self.inputs),
                self.program,
                text::format_events(expected)
            );
        }
    }
}
