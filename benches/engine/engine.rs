//! The engine under test, and the oracle. The only file that knows the engine's interface.

use tilt::{
    data::SnapshotBuffer,
    interp::{Options, run_buffers},
    ir::{Program, optimize, parse, verify},
};

use crate::data::Inputs;

/// Whether a run over so many events ends in reasonable time.
pub(crate) fn can_run(events: usize) -> bool {
    events <= 20_000
}

/// A query ready to run on `inputs` with so many threads, fused or as written.
pub(crate) fn engine(
    text: &str,
    inputs: &Inputs,
    _threads: usize,
    fused: bool,
) -> impl Fn() -> SnapshotBuffer {
    let program = read(text);
    let program = if fused { optimize(&program) } else { program };
    move || run_buffers(&program, inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// From text to what can run: without anything kept from before, or from the cache.
pub(crate) fn compile(text: &str, _cached: bool) -> Program {
    optimize(&read(text))
}

/// What the query means.
pub(crate) fn oracle(text: &str, inputs: &Inputs) -> SnapshotBuffer {
    run_buffers(&read(text), inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn read(text: &str) -> Program {
    let program = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    program
}
