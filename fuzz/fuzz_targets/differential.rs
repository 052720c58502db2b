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

use generate::{Choices, Scope};
use libfuzzer_sys::fuzz_target;
use tilt::{
    Backend, Query, RunOptions,
    interp::{self, Event, Inputs, Options},
    ir::{self, Pipeline, Program, pass::PASSES},
};

fuzz_target!(|data: &[u8]| {
    let choices = bytes::choices(data);
    let (mut of_program, mut of_run) = (Choices::new(&choices), Choices::reversed(&choices));
    let program = generate::program(&mut of_program, Scope { instants: true });
    let way = Way::random(&mut of_run);
    let case = Case {
        inputs: generate::inputs(&mut of_run, &program, 0),
        program,
    };
    let options = Options {
        span: interp::hull(&case.inputs),
        part: None,
        functions: generate::functions(),
    };
    let Ok(expected) = interp::run(&case.program, &case.inputs, &options) else {
        return;
    };
    let rewritten_by = |pipeline: &Pipeline, what: &str| {
        let mut rewritten: Program = case.program.clone();
        pipeline.run(&mut rewritten);
        if let Err(error) = ir::verify(&rewritten) {
            panic!("after {what}: {error}\n{}\n{rewritten}", case.program);
        }
        let found = interp::run(&rewritten, &case.inputs, &options).map_err(|e| e.to_string());
        case.check(&expected, found, &format!("after {what}"), &rewritten);
    };
    for pass in PASSES {
        rewritten_by(&Pipeline::of(&[*pass]), pass.name());
    }
    rewritten_by(&Pipeline::standard(), "all passes");
    case.compiled(&expected, &options, &way);
});

struct Case {
    program: Program,
    inputs: Inputs,
}

/// How the engine runs.
#[derive(Debug)]
struct Way {
    backend: Backend,
    optimize: bool,
    threads: usize,
    piece_rows: usize,
}

impl Way {
    fn random(choices: &mut Choices) -> Self {
        Self {
            backend: [Backend::Native, Backend::Loops][choices.below(2)],
            optimize: choices.below(4) > 0,
            threads: [1, 2, 8][choices.below(3)],
            piece_rows: [1 << 20, 1, 3, 8, 16, 64][choices.below(6)],
        }
    }
}

impl Case {
    fn compiled(&self, expected: &[Event], options: &Options, way: &Way) {
        let query = Query::new(self.program.clone()).expect("verified");
        let compiled = query.optimize(way.optimize).compile().expect("compiles");
        let mut run = RunOptions::default()
            .backend(way.backend)
            .threads(way.threads)
            .piece_rows(way.piece_rows)
            .functions(options.functions.clone());
        if let Some(span) = options.span {
            run = run.span(span);
        }
        let found = compiled.run(&generate::buffers(&self.program, &self.inputs), &run);
        let found = found
            .map(|buffer| interp::events_of(&buffer).expect("a buffer of events"))
            .map_err(|e| e.to_string());
        self.check(expected, found, &format!("{way:?}"), &compiled.explain());
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
