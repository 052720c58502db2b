//! The engine under test, and the oracle. The only file that knows the engine's interface.

use tilt::{
    Compiled, Query, RunOptions,
    data::SnapshotBuffer,
    interp::{Options, run_buffers},
    ir::{Program, parse, verify},
};

use crate::data::Inputs;

/// Whether a run over so many events ends in reasonable time: what is interpreted does not.
pub(crate) fn can_run(text: &str, events: usize) -> bool {
    let query = Query::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = query.compile().unwrap_or_else(|e| panic!("{e}\n{text}"));
    events <= 20_000 || !compiled.explain().contains("interpreted, because")
}

/// A query ready to run on `inputs` with so many threads, fused or as written.
pub(crate) fn engine(
    text: &str,
    inputs: &Inputs,
    threads: usize,
    fused: bool,
) -> impl Fn() -> SnapshotBuffer {
    let query = Query::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = query.optimize(fused).compile();
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}\n{text}"));
    let options = RunOptions::default().threads(threads);
    move || {
        compiled
            .run(inputs, &options)
            .unwrap_or_else(|e| panic!("{e}\n{text}"))
    }
}

/// From text to what can run: without anything kept from before, or from the cache.
pub(crate) fn compile(text: &str, cached: bool) -> Compiled {
    if !cached {
        tilt::forget_compiled();
    }
    let query = Query::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    query.compile().unwrap_or_else(|e| panic!("{e}\n{text}"))
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
