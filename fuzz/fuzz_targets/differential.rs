//! Random programs on random data: no pass changes what the oracle makes of them.

#![no_main]

#[path = "../bytes.rs"]
mod bytes;
#[path = "../../tests/it/generate.rs"]
#[allow(dead_code)]
mod generate;
#[path = "../../tests/it/text.rs"]
#[allow(dead_code)]
mod text;

use generate::{Choices, Scope};
use libfuzzer_sys::fuzz_target;
use tilt::{
    interp::{self, Event, Options},
    ir::{self, Pipeline, Program, pass::PASSES},
};

fuzz_target!(|data: &[u8]| {
    let choices = bytes::choices(data);
    let program = generate::program(&mut Choices::new(&choices), Scope { instants: true });
    let inputs = generate::inputs(&mut Choices::reversed(&choices), &program, 0);
    let options = Options {
        span: interp::hull(&inputs),
        part: None,
        functions: generate::functions(),
    };
    let Ok(expected) = interp::run(&program, &inputs, &options) else {
        return;
    };
    let check = |pipeline: &Pipeline, what: &str| {
        let mut rewritten: Program = program.clone();
        pipeline.run(&mut rewritten);
        if let Err(error) = ir::verify(&rewritten) {
            panic!("after {what}: {error}\n{program}\n{rewritten}");
        }
        let found = interp::run(&rewritten, &inputs, &options);
        let same = |found: &Vec<Event>| {
            found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| a.same(b))
        };
        if !found.as_ref().is_ok_and(same) {
            let found = found.map_or_else(|e| e.to_string(), |f| text::format_events(&f));
            panic!(
                "after {what}\n{}{program}\n// gives     {}\n// but here  {found}\n{rewritten}",
                text::format_inputs(&inputs),
                text::format_events(&expected)
            );
        }
    };
    for pass in PASSES {
        check(&Pipeline::of(&[*pass]), pass.name());
    }
    check(&Pipeline::standard(), "all passes");
});
