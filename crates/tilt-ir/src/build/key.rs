//! The identity of a definition: a 128-bit hash of what it says, over the keys of the streams it reads.
//!
//! Names of temporal expressions and of variables do not count, so that equal parts of two queries are one part of their
//! combination. An input is its declaration, name included.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    expr::{Agg, Expr},
    ids::{ExprId, Id, ReducerId, StreamId, VarId},
    program::{Clock, Input, Lambda, Program, Source, Stream},
};

pub(super) type Key = u128;

/// What stands for the stream being defined.
const SELF: Key = Key::MAX;

/// The keys of all streams of a program.
pub(super) fn keys(program: &Program) -> Vec<Key> {
    let mut keys = Vec::with_capacity(program.streams.len());
    for (_, stream) in program.streams.iter() {
        let key = match stream {
            Stream::Input(input) => of_input(input),
            Stream::Temporal(temporal) => {
                of_definition(program, &keys, &temporal.clock, temporal.body)
            }
        };
        keys.push(key);
    }
    keys
}

/// The key of an input.
pub(super) fn of_input(input: &Input) -> Key {
    digest(&(
        (&input.name, &input.dtype, input.unit, input.span),
        (input.period, &input.key, input.overlap),
    ))
}

/// The key of a temporal expression. Streams that have no key yet are the expression itself.
pub(super) fn of_definition(program: &Program, keys: &[Key], clock: &Clock, body: ExprId) -> Key {
    let mut walk = Walk::new(program, keys);
    let clock = walk.clock(clock);
    let body = walk.expr(body);
    digest(&("temporal", clock, body))
}

/// The key of a reducer.
pub(super) fn of_reducer(program: &Program, id: ReducerId) -> Key {
    let mut walk = Walk::new(program, &[]);
    walk.reducer(id)
}

fn digest(value: &impl Hash) -> Key {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        value.hash(&mut hasher);
        Key::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

struct Walk<'a> {
    program: &'a Program,
    keys: &'a [Key],
    /// Variables by the order in which they are met.
    vars: HashMap<VarId, usize>,
    exprs: HashMap<ExprId, Key>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, keys: &'a [Key]) -> Self {
        Self {
            program,
            keys,
            vars: HashMap::new(),
            exprs: HashMap::new(),
        }
    }

    fn stream(&self, id: StreamId) -> Key {
        self.keys.get(id.index()).copied().unwrap_or(SELF)
    }

    fn var(&mut self, id: VarId) -> Key {
        let next = self.vars.len();
        *self.vars.entry(id).or_insert(next) as Key
    }

    fn clock(&self, clock: &Clock) -> Key {
        match clock {
            Clock::At(stream) => digest(&("at", self.stream(*stream))),
            Clock::Every { period, offset } => digest(&("every", period, offset)),
            Clock::Calendar(calendar) => digest(&("calendar", calendar)),
            Clock::Sessions { stream, gap, max } => {
                digest(&("sessions", self.stream(*stream), gap, max))
            }
            Clock::OnChange(sources) => {
                let sources: Vec<_> = sources
                    .iter()
                    .map(|source| {
                        let (kind, offset, more) = match *source {
                            Source::Value { offset, .. } => (0, offset, None),
                            Source::Hold {
                                offset, max_age, ..
                            } => (1, offset, max_age),
                            Source::Window { lo, hi, .. } => (2, lo, Some(hi)),
                        };
                        (kind, self.stream(source.stream()), offset, more)
                    })
                    .collect();
                digest(&("on", sources))
            }
        }
    }

    fn expr(&mut self, id: ExprId) -> Key {
        if let Some(known) = self.exprs.get(&id) {
            return *known;
        }
        let program = self.program;
        let node = &program.exprs[id];
        let mut shape = node.expr.map_operands(|_| ExprId::new(0));
        // What the ids in the node stand for; the ids themselves do not count.
        let meant = match &mut shape {
            Expr::At { stream, .. }
            | Expr::Hold { stream, .. }
            | Expr::Prev { stream, .. }
            | Expr::Edge { stream, .. } => {
                let key = self.stream(*stream);
                *stream = StreamId::new(0);
                vec![key]
            }
            Expr::Reduce { window, agg, .. } => {
                let mut keys = vec![self.stream(window.stream)];
                window.stream = StreamId::new(0);
                if let Agg::Custom(reducer) = agg {
                    keys.push(of_reducer(program, *reducer));
                    *reducer = ReducerId::new(0);
                }
                keys
            }
            Expr::Var(var) | Expr::Let { var, .. } => {
                let key = self.var(*var);
                *var = VarId::new(0);
                vec![key]
            }
            Expr::Call { func, .. } => {
                let function = &program.functions[*func];
                *func = Id::new(0);
                vec![digest(&(
                    &function.name,
                    &function.params,
                    &function.result,
                ))]
            }
            _ => Vec::new(),
        };
        let mut operands = Vec::new();
        node.expr
            .for_each_operand(|operand| operands.push(self.expr(operand)));
        let key = digest(&(shape, &node.dtype, meant, operands));
        self.exprs.insert(id, key);
        key
    }

    fn reducer(&mut self, id: ReducerId) -> Key {
        let reducer = &self.program.reducers[id];
        let init = self.expr(reducer.init);
        let acc = self.lambda(&reducer.acc);
        let merge = reducer.merge.as_ref().map(|l| self.lambda(l));
        let deacc = reducer.deacc.as_ref().map(|l| self.lambda(l));
        let result = self.lambda(&reducer.result);
        digest(&(
            (&reducer.input, &reducer.state),
            (init, acc, merge, deacc, result),
        ))
    }

    fn lambda(&mut self, lambda: &Lambda) -> Key {
        let params: Vec<Key> = lambda.params.iter().map(|v| self.var(*v)).collect();
        digest(&(params, self.expr(lambda.body)))
    }
}
