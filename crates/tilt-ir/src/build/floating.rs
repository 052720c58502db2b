//! Which streams are floating.
//!
//! A stream that is computed from windows has a value at every instant, and its clock only says at which instants it is looked at. Combined
//! with streams that have events of their own it is looked at theirs, which is rule 1 of the default clocks in `docs/ir.md` (windows add
//! nothing), and `at` or `every` gives it another clock. So the definition of a floating stream is copied to where it is used, unless it is on
//! that timeline already. Whether a stream floats is read off its definition: its clock must be the one that its body gives.

use std::collections::HashSet;

use crate::{
    clock::default_clock,
    expr::{Bounds, Expr, Window},
    ids::{ExprId, Id, StreamId},
    program::{Clock, Program, Stream},
};

/// Which streams of a program are floating.
#[derive(Debug)]
pub(super) struct Floating(Vec<bool>);

impl Floating {
    pub(super) fn of(program: &Program) -> Self {
        let mut known = Vec::with_capacity(program.streams.len());
        for (id, stream) in program.streams.iter() {
            let floats = match stream {
                Stream::Input(_) => false,
                Stream::Temporal(temporal) => {
                    let reads = Reads::of(program, temporal.body, &known);
                    reads.floating && !reads.own_interval && !reads.streams.contains(&id) && {
                        match default_clock(program, temporal.body, Some(id)) {
                            Some(derived) if derived == temporal.clock => true,
                            None => !matches!(temporal.clock, Clock::Every { .. }),
                            // Interpolation, which holds what came before.
                            Some(_) => match temporal.clock {
                                Clock::At(stream) => reads.around.contains(&stream),
                                _ => false,
                            },
                        }
                    }
                }
            };
            known.push(floats);
        }
        Self(known)
    }

    pub(super) fn contains(&self, stream: StreamId) -> bool {
        self.0[stream.index()]
    }
}

/// What a body reads, maps aside.
struct Reads {
    streams: HashSet<StreamId>,
    /// Read through windows or held.
    around: HashSet<StreamId>,
    /// Whether there is a window, or the value of a floating stream at `t`.
    floating: bool,
    /// Whether a window is the interval of the event: elsewhere it would be another one.
    own_interval: bool,
}

impl Reads {
    fn of(program: &Program, body: ExprId, known: &[bool]) -> Self {
        let mut reads = Self {
            streams: HashSet::new(),
            around: HashSet::new(),
            floating: false,
            own_interval: false,
        };
        let mut seen = HashSet::new();
        let mut pending = vec![body];
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            let expr = program.expr(id);
            reads.streams.extend(expr.stream());
            match expr {
                Expr::Reduce {
                    window: Window { stream, bounds },
                    ..
                } => {
                    reads.own_interval |= *bounds == Bounds::Event;
                    reads.floating = true;
                    reads.around.insert(*stream);
                }
                Expr::Hold { stream, .. } => {
                    reads.around.insert(*stream);
                }
                Expr::At { stream, offset: 0 } => {
                    reads.floating |= known.get(stream.index()).copied().unwrap_or(false);
                }
                expr => expr.for_each_operand(|operand| pending.push(operand)),
            }
        }
        reads
    }
}
