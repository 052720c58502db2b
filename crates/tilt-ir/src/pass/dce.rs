//! Dead code.

use rustc_hash::FxHashSet as HashSet;

use super::{Pass, rewrite::rebuild};
use crate::{
    ids::StreamId,
    program::{Program, Stream},
};

/// Removes what the output does not need.
///
/// ```text
/// ~a[t] = ~x[t] + 1.0            ~c[t] = ~x[t] * 2.0
/// ~c[t] = ~x[t] * 2.0      =>    output ~c
/// output ~c
/// ```
/// Inputs stay: they are the query's signature.
pub struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn run(&self, program: &mut Program) -> bool {
        let live = live_streams(program);
        let order: Vec<StreamId> = program
            .streams
            .iter()
            .filter(|(id, stream)| matches!(stream, Stream::Input(_)) || live.contains(id))
            .map(|(id, _)| id)
            .collect();
        let new = rebuild(program, &order);
        let changed = new.streams.len() != program.streams.len()
            || new.exprs.len() != program.exprs.len()
            || new.reducers.len() != program.reducers.len()
            || new.functions.len() != program.functions.len();
        *program = new;
        changed
    }
}

/// The streams that the output depends on, itself included.
pub(crate) fn live_streams(program: &Program) -> HashSet<StreamId> {
    let mut live = HashSet::default();
    let mut pending = vec![program.output];
    while let Some(id) = pending.pop() {
        if live.insert(id) {
            pending.extend(streams_read(program, id));
        }
    }
    live
}

/// The streams that the definition of `id` names, maps and clock included.
pub(crate) fn streams_read(program: &Program, id: StreamId) -> HashSet<StreamId> {
    let mut read = HashSet::default();
    if let Stream::Temporal(temporal) = &program.streams[id] {
        program.walk(temporal.body, &mut |_, expr| read.extend(expr.stream()));
        read.extend(temporal.clock.streams());
    }
    read
}
