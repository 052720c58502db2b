//! What moves a stream in time or says when it is looked at.

use super::{
    Stream,
    draft::{Draft, OWN_PAST},
    error::{Checked, Problem},
    length::Length,
    literal::Literal,
    operators::{self, Arg, Binary},
};
use crate::{
    clock::default_clock,
    expr::{BinaryOp, Bounds, Edge, Expr, Window},
    ids::{ExprId, StreamId},
    program::{Clock, Source},
    timeline::Timeline,
    types::{DType, Scalar},
};

impl Stream {
    /// The value `length` before: `shift("5s")` is `~x[t-5s]`.
    #[must_use]
    pub fn shift(&self, length: impl Into<Length>) -> Self {
        self.moved("shift", &length.into(), -1)
    }

    /// The value at a signed distance: `at_offset("-5s")` is `~x[t-5s]`, `at_offset("+1m")` looks ahead.
    #[must_use]
    pub fn at_offset(&self, offset: impl Into<Length>) -> Self {
        self.moved("at_offset", &offset.into(), 1)
    }

    fn moved(&self, operation: &str, length: &Length, sign: i64) -> Self {
        Self::combine(operation, &[self], |draft, ids| {
            let offset = length.ticks(draft.unit())?.saturating_mul(sign);
            let body = draft.read_at(ids[0], offset)?;
            draft.define_derived("shift", body)
        })
    }

    /// The value `n` events before.
    #[must_use]
    pub fn prev(&self, n: u32) -> Self {
        Self::combine("prev", &[self], |draft, ids| {
            let body = draft.add(Expr::Prev { stream: ids[0], n })?;
            draft.define_derived("prev", body)
        })
    }

    /// The difference to the value `n` events before.
    #[must_use]
    pub fn diff(&self, n: u32) -> Self {
        self - self.prev(n)
    }

    /// The value `n` samples away, at the samples of this stream: `sample(-6)` is the sixth before. Only for streams of a known period.
    #[must_use]
    pub fn sample(&self, n: i64) -> Self {
        Self::combine("sample", &[self], |draft, ids| {
            let x = ids[0];
            let input = draft.program.streams[x].as_input();
            let body = if input.is_some_and(|input| input.name.starts_with(OWN_PAST)) {
                let n = u32::try_from(-n).ok().filter(|n| *n > 0);
                let n = n.ok_or_else(|| {
                    Problem::parameter("a recurrence reads its own past only")
                        .hint("write `sample(-1)` or further back")
                })?;
                draft.add(Expr::Prev { stream: x, n })?
            } else {
                let offset = draft.period(x)?.checked_mul(n);
                let offset = offset.ok_or_else(|| Problem::parameter("the offset is too far"))?;
                draft.read_at(x, offset)?
            };
            draft.define("sample", Clock::At(x), body)
        })
    }

    /// The last value, from its event's end on until the next; with `max_age` only while `t - end < max_age`.
    #[must_use]
    pub fn hold(&self, max_age: Option<Length>) -> Self {
        Self::combine("hold", &[self], |draft, ids| {
            let unit = draft.unit();
            let max_age = max_age.map(|age| age.positive("the age", unit));
            let body = draft.add(Expr::Hold {
                stream: ids[0],
                offset: 0,
                max_age: max_age.transpose()?,
            })?;
            draft.define_derived("hold", body)
        })
    }

    /// The end of each event, as a timestamp.
    #[must_use]
    pub fn time(&self) -> Self {
        self.edge(Edge::End)
    }

    /// The start of each event's interval `(start, end]`.
    #[must_use]
    pub fn start(&self) -> Self {
        self.edge(Edge::Start)
    }

    fn edge(&self, edge: Edge) -> Self {
        let stem = if edge == Edge::Start { "start" } else { "time" };
        Self::combine(stem, &[self], |draft, ids| {
            let body = draft.edge(ids[0], edge)?;
            draft.define_derived(stem, body)
        })
    }

    /// Looked at the events of `other`.
    #[must_use]
    pub fn at(&self, other: &Self) -> Self {
        Self::combine("at", &[self, other], |draft, ids| {
            if ids[0] == ids[1] {
                return Ok(ids[0]);
            }
            let clock = Clock::At(ids[1]);
            let body = draft.value_on(ids[0], &clock)?;
            draft.define("at", clock, body)
        })
    }

    /// Looked at the ends of the cells of a grid: multiples of `period`, moved by `offset`.
    #[must_use]
    pub fn every(&self, period: impl Into<Length>, offset: Option<Length>) -> Self {
        let period = period.into();
        Self::combine("every", &[self], |draft, ids| {
            let clock = draft.grid(&period, offset.as_ref())?;
            let body = draft.value_on(ids[0], &clock)?;
            draft.define("every", clock, body)
        })
    }

    /// Looked at wherever an event enters or leaves one of its windows.
    #[must_use]
    pub fn on_change(&self) -> Self {
        Self::combine("on_change", &[self], |draft, ids| {
            if !draft.is_floating(ids[0]) {
                return Ok(ids[0]);
            }
            let body = draft.value(ids[0])?;
            let clock = Clock::OnChange(draft.changes_of(body));
            draft.define("on_change", clock, body)
        })
    }

    /// The events whose value differs from the one before, and the first.
    #[must_use]
    pub fn changes(&self) -> Self {
        Self::combine("changes", &[self], |draft, ids| {
            let value = draft.read(ids[0])?;
            let before = draft.add(Expr::Prev {
                stream: ids[0],
                n: 1,
            })?;
            let differs = draft.add(Expr::Binary(BinaryOp::Ne, value, before))?;
            let first = draft.truth(true)?;
            let differs = draft.add(Expr::Coalesce(differs, first))?;
            let body = draft.only_if(differs, value)?;
            draft.define("changes", Clock::At(ids[0]), body)
        })
    }

    /// Where a condition has been true without a break for at least `length`: true there, φ elsewhere.
    ///
    /// Of points it counts the time since the first of those that are true in a row. Events with a length must follow each other
    /// without a gap; then it is true from exactly `length` after the start of the first on.
    #[must_use]
    pub fn held_for(&self, length: impl Into<Length>) -> Self {
        let length = length.into();
        Self::combine("held_for", &[self], |draft, ids| {
            let condition = ids[0];
            if *draft.program.stream_dtype(condition) != DType::Bool {
                return Err(Problem::types("the stream is not a condition")
                    .hint("compare it with something first, for example `x.gt(3.0)`"));
            }
            let length = length.positive("the duration", draft.unit())?;
            let points = draft.longest_event(condition) == Some(1);
            let since = draft.true_since(condition, points)?;
            if points {
                let begin = draft.read(since)?;
                let now = draft.edge(condition, Edge::End)?;
                let passed = draft.add(Expr::Binary(BinaryOp::Sub, now, begin))?;
                let length = draft.duration(length)?;
                let held = draft.add(Expr::Binary(BinaryOp::Ge, passed, length))?;
                let value = draft.truth(true)?;
                let body = draft.only_if(held, value)?;
                draft.define("held_for", Clock::At(since), body)
            } else {
                let now = draft.read(since)?;
                let before = draft.read_at(since, -length)?;
                let held = draft.add(Expr::Binary(BinaryOp::Eq, now, before))?;
                let value = draft.truth(true)?;
                let body = draft.only_if(held, value)?;
                draft.define_derived("held_for", body)
            }
        })
    }
}

impl Draft {
    /// Defines a stream on the clock that its body gives.
    pub(super) fn define_derived(&mut self, stem: &str, body: ExprId) -> Checked<StreamId> {
        match default_clock(&self.program, body, None) {
            Some(clock) => self.define(stem, clock, body),
            None => Err(Problem::types("nothing says when the result has events")
                .hint("use `at` or `every`")),
        }
    }

    /// A grid.
    pub(super) fn grid(&self, period: &Length, offset: Option<&Length>) -> Checked<Clock> {
        let offset = offset.map(|offset| offset.ticks(self.unit()));
        Ok(Clock::Every {
            period: period.positive("the period", self.unit())?,
            offset: offset.transpose()?.unwrap_or(0),
        })
    }

    /// The distance between the samples of a stream.
    pub(super) fn period(&self, stream: StreamId) -> Checked<i64> {
        let period = match self.timeline(stream) {
            Timeline::Input(input) => self.program.streams[input]
                .as_input()
                .and_then(|input| input.period),
            Timeline::Grid { period, .. } => Some(period),
            Timeline::Own(_) => None,
        };
        period.ok_or_else(|| {
            Problem::parameter("samples are counted on streams of a known period only").hint(
                "`prev(n)` counts events, a window of `count` events holds the last of them; or declare the input's `period`",
            )
        })
    }

    pub(super) fn edge(&mut self, stream: StreamId, edge: Edge) -> Checked<ExprId> {
        self.add(Expr::Edge {
            stream,
            offset: 0,
            edge,
        })
    }

    pub(super) fn truth(&mut self, value: bool) -> Checked<ExprId> {
        self.add(Expr::Const(Scalar::Bool(value), DType::Bool))
    }

    pub(super) fn duration(&mut self, ticks: i64) -> Checked<ExprId> {
        let dtype = DType::Duration(self.unit());
        self.add(Expr::Const(Scalar::Int(ticks), dtype))
    }

    /// `if cond then value else null`.
    pub(super) fn only_if(&mut self, cond: ExprId, value: ExprId) -> Checked<ExprId> {
        let null = Arg::Literal(Literal::Null);
        operators::when(&mut self.program, &cond.into(), &value.into(), &null)
    }

    pub(super) fn binary(
        &mut self,
        op: Binary,
        a: impl Into<Arg>,
        b: impl Into<Arg>,
    ) -> Checked<ExprId> {
        operators::binary(&mut self.program, op, &a.into(), &b.into())
    }

    /// Since when a condition is true without a break; φ where it is not.
    fn true_since(&mut self, condition: StreamId, points: bool) -> Checked<StreamId> {
        let edge = if points { Edge::End } else { Edge::Start };
        let ends = self.edge(condition, Edge::End)?;
        let ends = self.define("time", Clock::At(condition), ends)?;
        let instant = DType::Timestamp(self.unit());
        self.define_recurrence(
            "true_since",
            Clock::At(condition),
            instant,
            |draft, this| {
                let now = draft.read(condition)?;
                let begin = draft.edge(condition, edge)?;
                let mut goes_on = draft.add(Expr::Prev {
                    stream: condition,
                    n: 1,
                })?;
                if !points {
                    let last_end = draft.add(Expr::Prev { stream: ends, n: 1 })?;
                    let no_gap = draft.add(Expr::Binary(BinaryOp::Eq, last_end, begin))?;
                    goes_on = draft.add(Expr::Binary(BinaryOp::And, goes_on, no_gap))?;
                }
                let earlier = draft.add(Expr::Prev { stream: this, n: 1 })?;
                let since = draft.add(Expr::When {
                    cond: goes_on,
                    then: earlier,
                    otherwise: begin,
                })?;
                draft.only_if(now, since)
            },
        )
    }

    /// Everything whose changes change the value of a body.
    fn changes_of(&self, body: ExprId) -> Vec<Source> {
        let mut sources: Vec<Source> = Vec::new();
        let mut pending = vec![body];
        while let Some(id) = pending.pop() {
            let expr = self.program.expr(id);
            let source = match *expr {
                Expr::Reduce {
                    window: Window { stream, bounds },
                    ..
                } => Some(match bounds {
                    Bounds::Time { lo: Some(lo), hi } => Source::Window { stream, lo, hi },
                    Bounds::Time { lo: None, hi } => Source::Hold {
                        stream,
                        offset: hi,
                        max_age: None,
                    },
                    Bounds::Ordinal { .. } | Bounds::Event => Source::Value { stream, offset: 0 },
                }),
                ref expr => Source::of_element(expr),
            };
            if let Some(source) = source {
                if !sources.contains(&source) {
                    sources.push(source);
                }
            } else {
                let first = pending.len();
                expr.for_each_operand(|operand| pending.push(operand));
                pending[first..].reverse();
            }
        }
        sources
    }
}
