//! Where φ comes from: which reads an expression is strict in, and which expressions never give φ.

use rustc_hash::FxHashMap as HashMap;

use crate::{
    expr::{Agg, BinaryOp, Bounds, Expr, TimePart, UnaryOp},
    ids::{ExprId, Id, StreamId, VarId},
    program::{Clock, Program, Source, Stream},
    time::Unit,
    timeline::{Timeline, Timelines},
    types::{DType, Scalar},
};

/// Whether an expression is φ whenever everything it reads is φ (reads in maps and windows without beginning aside, which do not count).
pub fn is_strict(program: &Program, root: ExprId) -> bool {
    strict_in(program, root, &|_, expr| match expr {
        Expr::At { .. } | Expr::Hold { .. } | Expr::Prev { .. } | Expr::Edge { .. } => true,
        Expr::Reduce { window, .. } => {
            matches!(
                window.bounds,
                Bounds::Time { lo: Some(_), .. } | Bounds::Event
            )
        }
        _ => false,
    })
}

/// Whether `root` is φ whenever every node for which `target` holds is φ. Maps of reductions are not looked into.
pub fn strict_in(program: &Program, root: ExprId, target: &impl Fn(ExprId, &Expr) -> bool) -> bool {
    strict(program, root, target, &mut HashMap::default())
}

fn strict(
    program: &Program,
    id: ExprId,
    target: &impl Fn(ExprId, &Expr) -> bool,
    vars: &mut HashMap<VarId, bool>,
) -> bool {
    let expr = program.expr(id);
    if target(id, expr) {
        return true;
    }
    match expr {
        Expr::Null(_) => true,
        Expr::Const(..)
        | Expr::Time
        | Expr::At { .. }
        | Expr::Hold { .. }
        | Expr::Prev { .. }
        | Expr::Edge { .. }
        | Expr::Reduce { .. }
        | Expr::IsNull(_)
        | Expr::Record(_) => false,
        Expr::Var(var) => vars.get(var).copied().unwrap_or(false),
        Expr::Let { var, value, body } => {
            let value = strict(program, *value, target, vars);
            vars.insert(*var, value);
            strict(program, *body, target, vars)
        }
        Expr::Unary(_, a) | Expr::Field(a, _) | Expr::Cast(a, _) => {
            strict(program, *a, target, vars)
        }
        Expr::Coalesce(a, b) | Expr::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
            strict(program, *a, target, vars) && strict(program, *b, target, vars)
        }
        Expr::Binary(_, a, b) => {
            strict(program, *a, target, vars) || strict(program, *b, target, vars)
        }
        Expr::Clip { value, lo, hi } => [value, lo, hi]
            .into_iter()
            .any(|e| strict(program, *e, target, vars)),
        // A φ condition takes the second branch.
        Expr::When {
            cond,
            then,
            otherwise,
        } => {
            strict(program, *otherwise, target, vars)
                && (strict(program, *then, target, vars)
                    || never_true(program, *cond, target, vars))
        }
        Expr::Call { args, .. } => args.iter().any(|e| strict(program, *e, target, vars)),
    }
}

/// Whether a condition is false or φ whenever every target is φ.
fn never_true(
    program: &Program,
    id: ExprId,
    target: &impl Fn(ExprId, &Expr) -> bool,
    vars: &mut HashMap<VarId, bool>,
) -> bool {
    match program.expr(id) {
        Expr::Unary(UnaryOp::Not, inner) => match program.expr(*inner) {
            Expr::IsNull(x) => strict(program, *x, target, vars),
            _ => strict(program, id, target, vars),
        },
        Expr::Binary(BinaryOp::And, a, b) => {
            never_true(program, *a, target, vars) || never_true(program, *b, target, vars)
        }
        Expr::Binary(BinaryOp::Or, a, b) => {
            never_true(program, *a, target, vars) && never_true(program, *b, target, vars)
        }
        _ => strict(program, id, target, vars),
    }
}

/// Whether `body` is φ wherever `source` has no choice.
pub(crate) fn strict_in_source(program: &Program, body: ExprId, source: Source) -> bool {
    strict_in(program, body, &|_, expr| match (source, expr) {
        (
            Source::Value { stream, offset },
            Expr::At {
                stream: s,
                offset: o,
            }
            | Expr::Edge {
                stream: s,
                offset: o,
                ..
            },
        ) => stream == *s && offset == *o,
        (Source::Value { stream, offset: 0 }, Expr::Prev { stream: s, .. }) => stream == *s,
        (
            Source::Hold {
                stream,
                offset,
                max_age,
            },
            Expr::Hold {
                stream: s,
                offset: o,
                max_age: a,
            },
        ) => stream == *s && offset == *o && max_age == *a,
        (Source::Window { stream, lo, hi }, Expr::Reduce { window, .. }) => {
            stream == window.stream && window.bounds == (Bounds::Time { lo: Some(lo), hi })
        }
        _ => false,
    })
}

/// Which streams have a value at every position of their timeline.
#[derive(Clone, Debug)]
pub(crate) struct Totality {
    total: Vec<bool>,
    /// Whether only those positions of inputs count at which each column has a value.
    if_complete: bool,
}

impl Totality {
    pub(crate) fn new(program: &Program, timelines: &Timelines) -> Self {
        Self::of(program, timelines, false)
    }

    /// The same of positions at which rows of inputs have a value in each column but that of the key.
    pub(crate) fn if_complete(program: &Program, timelines: &Timelines) -> Self {
        Self::of(program, timelines, true)
    }

    fn of(program: &Program, timelines: &Timelines, if_complete: bool) -> Self {
        let mut this = Self {
            total: Vec::new(),
            if_complete,
        };
        for (_, stream) in program.streams.iter() {
            let total = match stream {
                Stream::Input(_) => true,
                Stream::Temporal(temporal) => {
                    let present = match &temporal.clock {
                        Clock::At(stream) => this.is_total(*stream),
                        Clock::OnChange(sources) => {
                            sources.iter().any(|s| this.is_total(s.stream()))
                        }
                        // Cells are limited by the range of each stream on them, and at the end of a session nothing is
                        // known to have a value.
                        Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. } => false,
                    };
                    let here = Here::of_clock(timelines, &temporal.clock);
                    present
                        && here.timeline.is_some()
                        && never_null(program, timelines, &this, temporal.body, &here)
                }
            };
            this.total.push(total);
        }
        this
    }

    /// Whether `stream` has a value at every position of its timeline.
    pub(crate) fn is_total(&self, stream: StreamId) -> bool {
        self.total.get(stream.index()).copied().unwrap_or(false)
    }
}

/// Where an expression is evaluated: at the end of an event of a timeline, with some streams known to have a value there.
pub(crate) struct Here {
    pub(crate) timeline: Option<Timeline>,
    pub(crate) present: Option<StreamId>,
}

impl Here {
    pub(crate) fn of_clock(timelines: &Timelines, clock: &Clock) -> Self {
        let present = match clock {
            Clock::At(stream) => Some(*stream),
            Clock::OnChange(sources) => match sources[..] {
                [Source::Value { stream, offset: 0 }] => Some(stream),
                _ => None,
            },
            Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. } => None,
        };
        let timeline = match clock {
            Clock::Every { .. } => None,
            clock => timelines.aligned(clock),
        };
        Self { timeline, present }
    }
}

/// Whether `root`, evaluated `here`, has a value whatever the data.
pub(crate) fn never_null(
    program: &Program,
    timelines: &Timelines,
    totality: &Totality,
    root: ExprId,
    here: &Here,
) -> bool {
    NeverNull {
        program,
        timelines,
        totality,
        here,
        vars: HashMap::default(),
    }
    .check(root)
}

struct NeverNull<'a> {
    program: &'a Program,
    timelines: &'a Timelines,
    totality: &'a Totality,
    here: &'a Here,
    vars: HashMap<VarId, bool>,
}

impl NeverNull<'_> {
    /// Whether `~stream[t]` has a value here.
    fn is_present(&self, stream: StreamId) -> bool {
        // A stream that reads itself is not known yet; its own index is past the end of `total`.
        self.here.timeline.is_some_and(|here| {
            self.totality.total.len() > stream.index() && self.timelines.of(stream) == here
        }) && (self.here.present == Some(stream) || self.totality.is_total(stream))
    }

    fn check(&mut self, id: ExprId) -> bool {
        match self.program.expr(id) {
            Expr::Const(..) | Expr::Time | Expr::IsNull(_) | Expr::Record(_) => true,
            Expr::Null(_) | Expr::Hold { .. } | Expr::Call { .. } => false,
            Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => {
                *offset == 0 && self.is_present(*stream)
            }
            Expr::Prev { stream, n } => *n == 0 && self.is_present(*stream),
            Expr::Reduce { agg, window, map } => {
                let holds_current = match window.bounds {
                    Bounds::Time { lo, hi } => lo.is_none_or(|lo| lo < 0) && hi >= 0,
                    Bounds::Ordinal { lo, hi } => lo.is_none_or(|lo| lo < 0) && hi >= 0,
                    Bounds::Event => true,
                };
                holds_current
                    && self.is_present(window.stream)
                    && map.is_none_or(|map| self.check_map(map, window.stream))
                    && gives_value_on_any_window(*agg)
            }
            Expr::Var(var) => self.vars.get(var).copied().unwrap_or(false),
            Expr::Let { var, value, body } => {
                let value = self.check(*value);
                self.vars.insert(*var, value);
                self.check(*body)
            }
            // The years of 64 bits of seconds do not fit into 32.
            Expr::Unary(UnaryOp::Part(TimePart::Year), a)
                if *self.program.dtype(*a) == DType::Timestamp(Unit::Second) =>
            {
                false
            }
            Expr::Unary(_, a) => self.check(*a),
            Expr::Binary(op, a, b) => {
                self.check(*a) && self.check(*b) && self.is_defined(*op, *a, *b)
            }
            Expr::Clip { value, lo, hi } => {
                self.check(*value) && self.check(*lo) && self.check(*hi)
            }
            Expr::When {
                then, otherwise, ..
            } => self.check(*then) && self.check(*otherwise),
            Expr::Coalesce(a, b) => self.check(*b) || self.check(*a),
            Expr::Field(record, name) => match self.program.expr(*record) {
                Expr::Record(fields) => fields
                    .iter()
                    .find(|f| f.0 == *name)
                    .is_some_and(|f| self.check(f.1)),
                // A null is a key like any other, and a column that is a record has fields that may be φ.
                Expr::At { stream, offset: 0 } => {
                    let input = self.program.streams[*stream].as_input();
                    self.totality.if_complete
                        && input.is_some_and(|input| input.key.as_deref() != Some(name))
                        && self.is_present(*stream)
                }
                _ => false,
            },
            Expr::Cast(a, to) => self.check(*a) && always_casts(self.program.dtype(*a), to),
        }
    }

    /// A map sees the event it is applied to and nothing else for certain.
    fn check_map(&self, map: ExprId, stream: StreamId) -> bool {
        let here = Here {
            timeline: Some(self.timelines.of(stream)),
            present: Some(stream),
        };
        never_null(self.program, self.timelines, self.totality, map, &here)
    }

    /// Whether the operator has a value for all operands (that are not φ).
    fn is_defined(&self, op: BinaryOp, a: ExprId, b: ExprId) -> bool {
        let by_nonzero = || match self.program.expr(b) {
            Expr::Const(Scalar::Int(v), _) => *v != 0,
            Expr::Const(Scalar::UInt(v), _) => *v != 0,
            _ => false,
        };
        match op {
            BinaryOp::Div | BinaryOp::Rem => self.program.dtype(a).is_float() || by_nonzero(),
            BinaryOp::Pow | BinaryOp::Shl | BinaryOp::Shr => self.program.dtype(a).is_float(),
            _ => true,
        }
    }
}

/// Whether the reduction has a value for every window that is not empty.
fn gives_value_on_any_window(agg: Agg) -> bool {
    match agg {
        Agg::Var { ddof } | Agg::Std { ddof } => ddof == 0,
        Agg::Skew { bias } | Agg::Kurtosis { bias, .. } => bias,
        Agg::Slope | Agg::Custom(_) => false,
        _ => true,
    }
}

/// Whether every value of `from` has a counterpart in `to`.
pub(crate) fn always_casts(from: &DType, to: &DType) -> bool {
    match (from, to) {
        (from, to) if from == to => true,
        (DType::Bool, _) | (_, DType::Float(_)) => true,
        (DType::Int(a), DType::Int(b)) | (DType::UInt(a), DType::UInt(b)) => a <= b,
        (DType::UInt(a), DType::Int(b)) => a < b,
        // To and from raw ticks, the only integers that times cast to.
        (DType::Timestamp(_) | DType::Duration(_), DType::Int(_))
        | (DType::Int(_), DType::Timestamp(_) | DType::Duration(_)) => true,
        (DType::Timestamp(a), DType::Timestamp(b)) | (DType::Duration(a), DType::Duration(b)) => {
            a.per_second() >= b.per_second()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
