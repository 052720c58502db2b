//! Values between events: interpolation, resampling, filling of gaps.

use super::{
    Stream,
    draft::Draft,
    error::{Checked, Problem},
    length::Length,
    literal::{Literal, Operand},
    operators::{self, Arg, Binary},
};
use crate::{
    expr::{self, Agg, BinaryOp, Bounds, Edge, Expr},
    ids::{ExprId, StreamId},
    program::Clock,
    types::DType,
};

/// How a value between two samples comes about. A sample stands at the end of its event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// On the line between the two.
    Linear,
    /// The nearer one, of two the earlier; nothing comes before the first of all.
    Nearest,
}

/// How a stream is brought to a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resampling {
    /// The last value before or at the grid point.
    Hold,
    /// Between the samples around the grid point.
    Interpolate(Interpolation),
    /// The mean of the events of the cell.
    Mean,
}

/// What a gap is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// The last value before it.
    Forward,
    /// The first value after it; nothing comes before the first of all.
    Backward,
    /// The line between the two.
    Linear,
}

impl Stream {
    /// A value at every instant between samples that are at most `max_gap` apart (for [`Nearest`](Interpolation::Nearest): at most
    /// `max_gap` away). On its own it has the events of this stream; [`at`](Self::at) and [`every`](Self::every) look at it elsewhere.
    /// It looks ahead as far as the gap.
    #[must_use]
    pub fn interpolate(&self, method: Interpolation, max_gap: impl Into<Length>) -> Self {
        let max_gap = max_gap.into();
        Self::combine("interpolate", &[self], |draft, ids| {
            let gap = max_gap.positive("max_gap", draft.unit())?;
            let body = draft.interpolated(ids[0], method, gap)?;
            draft.define("interpolate", Clock::At(ids[0]), body)
        })
    }

    /// The stream at multiples of `period`. Interpolation needs a `max_gap`; of [`Hold`](Resampling::Hold) it limits the age.
    #[must_use]
    pub fn resample(
        &self,
        period: impl Into<Length>,
        method: Resampling,
        max_gap: Option<Length>,
    ) -> Self {
        let period = period.into();
        match method {
            Resampling::Mean => self.tumbling(period).mean(),
            Resampling::Interpolate(method) => match max_gap {
                Some(gap) => self.interpolate(method, gap).every(period, None),
                None => self.failed("resample", needs_a_bound("max_gap")),
            },
            Resampling::Hold => Self::combine("resample", &[self], |draft, ids| {
                let clock = draft.grid(&period, None)?;
                let body = draft.held(ids[0], max_gap.as_ref())?;
                draft.define("resample", clock, body)
            }),
        }
    }

    /// The value, or `filler` where there could be a value and is none: in the null field of a record, in an empty cell of a grid.
    /// A filler computed from windows is evaluated there. With `max_gap` only between values that are at most that far apart: a longer gap stays.
    #[must_use]
    pub fn fill_null(&self, filler: impl Into<Operand>, max_gap: Option<Length>) -> Self {
        let filler = filler.into();
        let mut operands = vec![self];
        if let Operand::Stream(filler) = &filler {
            operands.push(filler);
        }
        Self::combine("fill_null", &operands, |draft, ids| {
            let clock = draft.clock_with_gaps(ids[0]);
            let own = draft.value_on(ids[0], &clock)?;
            let mut filler = match &filler {
                Operand::Stream(_) => Arg::Expr(draft.value_on(ids[1], &clock)?),
                Operand::Literal(literal) => Arg::Literal(literal.clone()),
            };
            if let Some(gap) = &max_gap {
                let gap = gap.positive("max_gap", draft.unit())?;
                let short = draft.in_short_gap(ids[0], gap)?;
                let dtype = draft.program.dtype(own).clone();
                let value = match filler {
                    Arg::Expr(value) => value,
                    literal @ Arg::Literal(_) => {
                        operators::converted(&mut draft.program, &literal, &dtype)?
                    }
                };
                filler = draft.only_if(short, value)?.into();
            }
            let body = operators::coalesce(&mut draft.program, &own.into(), &filler)?;
            draft.define("fill", clock, body)
        })
    }

    /// The value, or one from around the gap where there could be one and is none. `max_gap` is how far apart the values around a gap may be: a longer one
    /// stays. Only [`Forward`](Fill::Forward) goes without.
    #[must_use]
    pub fn fill_gaps(&self, with: Fill, max_gap: Option<Length>) -> Self {
        Self::combine("fill_null", &[self], |draft, ids| {
            let x = ids[0];
            let clock = draft.clock_with_gaps(x);
            let own = draft.value_on(x, &clock)?;
            let bound = |draft: &Draft| match &max_gap {
                Some(gap) => gap.positive("max_gap", draft.unit()),
                None => Err(needs_a_bound("max_gap")),
            };
            let filler = match with {
                Fill::Forward if max_gap.is_none() => draft.held(x, None)?,
                Fill::Forward => {
                    let gap = bound(draft)?;
                    let short = draft.in_short_gap(x, gap)?;
                    let last = draft.held(x, Some(&Length::Ticks(gap)))?;
                    draft.only_if(short, last)?
                }
                Fill::Backward => {
                    let gap = bound(draft)?;
                    let short = draft.in_short_gap(x, gap)?;
                    let next = draft.next(x, 0, gap)?.0;
                    draft.only_if(short, next)?
                }
                Fill::Linear => {
                    let gap = bound(draft)?;
                    draft.interpolated(x, Interpolation::Linear, gap)?
                }
            };
            let body = operators::coalesce(&mut draft.program, &own.into(), &filler.into())?;
            draft.define("fill", clock, body)
        })
    }
}

/// What looks for the next event must know how far.
pub(super) fn needs_a_bound(what: &str) -> Problem {
    Problem::parameter(format!("it looks for the next event and needs a `{what}`"))
        .hint(format!("`{what}` bounds how far the query looks ahead"))
}

impl Draft {
    /// The last value, at most `max_age` old.
    pub(super) fn held(&mut self, stream: StreamId, max_age: Option<&Length>) -> Checked<ExprId> {
        let unit = self.unit();
        let max_age = match max_age {
            // `hold` lapses when the age is reached.
            Some(age) => Some(age.positive("max_gap", unit)?.saturating_add(1)),
            None => None,
        };
        self.add(Expr::Hold {
            stream,
            offset: 0,
            max_age,
        })
    }

    /// The ends of a stream's events, as a stream.
    pub(super) fn ends(&mut self, stream: StreamId) -> Checked<StreamId> {
        let end = self.edge(stream, Edge::End)?;
        self.define("time", Clock::At(stream), end)
    }

    /// The first event that ends in `(t+lo, t+hi]`: its value and its end.
    pub(super) fn next(&mut self, stream: StreamId, lo: i64, hi: i64) -> Checked<(ExprId, ExprId)> {
        let window = expr::Window {
            stream,
            bounds: Bounds::Time { lo: Some(lo), hi },
        };
        let first = |map| Expr::Reduce {
            agg: Agg::First,
            window,
            map,
        };
        let value = self.add(first(None))?;
        let end = self.edge(stream, Edge::End)?;
        let end = self.add(first(Some(end)))?;
        if self.longest_event(stream) == Some(1) {
            return Ok((value, end));
        }
        // An event that begins in the window may end after it.
        let now = self.add(Expr::Time)?;
        let away = self.add(Expr::Binary(BinaryOp::Sub, end, now))?;
        let limit = self.duration(hi)?;
        let near = self.add(Expr::Binary(BinaryOp::Le, away, limit))?;
        Ok((self.only_if(near, value)?, self.only_if(near, end)?))
    }

    /// The last event that ended at or before `t`, at most `gap` ago: its value and its end.
    pub(super) fn last(&mut self, stream: StreamId, gap: i64) -> Checked<(ExprId, ExprId)> {
        let ends = self.ends(stream)?;
        let age = Length::Ticks(gap);
        Ok((self.held(stream, Some(&age))?, self.held(ends, Some(&age))?))
    }

    /// Whether the last event ended and the next one ends at most `gap` apart; φ if there is none so near.
    fn in_short_gap(&mut self, stream: StreamId, gap: i64) -> Checked<ExprId> {
        let (_, begin) = self.last(stream, gap)?;
        let end = self.edge(stream, Edge::End)?;
        let end = self.add(Expr::Reduce {
            agg: Agg::First,
            window: expr::Window {
                stream,
                bounds: Bounds::Time {
                    lo: Some(0),
                    hi: gap,
                },
            },
            map: Some(end),
        })?;
        let whole = self.add(Expr::Binary(BinaryOp::Sub, end, begin))?;
        let limit = self.duration(gap)?;
        self.add(Expr::Binary(BinaryOp::Le, whole, limit))
    }

    /// The nearer of the last and the next event, within `gap`.
    pub(super) fn nearest(&mut self, stream: StreamId, gap: i64) -> Checked<ExprId> {
        let (before, begin) = self.last(stream, gap)?;
        let (after, end) = self.next(stream, 0, gap)?;
        self.bound("next", end, |draft, end| {
            let now = draft.add(Expr::Time)?;
            let since = draft.add(Expr::Binary(BinaryOp::Sub, now, begin))?;
            let until = draft.add(Expr::Binary(BinaryOp::Sub, end, now))?;
            let earlier = draft.add(Expr::Binary(BinaryOp::Le, since, until))?;
            let alone = draft.add(Expr::IsNull(end))?;
            let cond = draft.add(Expr::Coalesce(earlier, alone))?;
            draft.add(Expr::When {
                cond,
                then: before,
                otherwise: after,
            })
        })
    }

    fn interpolated(
        &mut self,
        stream: StreamId,
        method: Interpolation,
        gap: i64,
    ) -> Checked<ExprId> {
        if method == Interpolation::Nearest {
            let nearest = self.nearest(stream, gap)?;
            return self.after_the_first(stream, nearest);
        }
        let (before, begin) = self.last(stream, gap)?;
        let (after, end) = self.next(stream, 0, gap)?;
        self.bound("before", before, |draft, before| {
            draft.bound("since", begin, |draft, begin| {
                let now = draft.add(Expr::Time)?;
                let part = draft.ticks_between(begin, now)?;
                let whole = draft.ticks_between(begin, end)?;
                let line = draft.bound("gap", whole, |draft, whole| {
                    let rise = draft.binary(Binary::Plain(BinaryOp::Sub), after, before)?;
                    let share = draft.add(Expr::Binary(BinaryOp::Div, part, whole))?;
                    let climbed = draft.binary(Binary::Plain(BinaryOp::Mul), rise, share)?;
                    let line = draft.binary(Binary::Plain(BinaryOp::Add), before, climbed)?;
                    let near = Binary::Plain(BinaryOp::Le);
                    let near = draft.binary(near, whole, Literal::Int(gap))?;
                    draft.only_if(near, line)
                })?;
                let hit = draft.add(Expr::Binary(BinaryOp::Eq, now, begin))?;
                let (hit, before, line) = (hit.into(), before.into(), line.into());
                operators::when(&mut draft.program, &hit, &before, &line)
            })
        })
    }

    /// `value` where the stream has had an event. A grid has cells wherever its body reads a value, so what looks ahead would add
    /// cells before all data.
    fn after_the_first(&mut self, stream: StreamId, value: ExprId) -> Checked<ExprId> {
        let before = self.held(stream, None)?;
        let none = self.add(Expr::IsNull(before))?;
        let some = self.add(Expr::Unary(expr::UnaryOp::Not, none))?;
        self.only_if(some, value)
    }

    /// `let name = value in body`.
    pub(super) fn bound(
        &mut self,
        name: &str,
        value: ExprId,
        body: impl FnOnce(&mut Self, ExprId) -> Checked<ExprId>,
    ) -> Checked<ExprId> {
        let dtype = self.program.dtype(value).clone();
        let var = self.program.var(name, dtype);
        let read = self.add(Expr::Var(var))?;
        let body = body(self, read)?;
        self.add(Expr::Let { var, value, body })
    }

    /// `to - from` in ticks, as a float.
    pub(super) fn ticks_between(&mut self, from: ExprId, to: ExprId) -> Checked<ExprId> {
        let distance = self.add(Expr::Binary(BinaryOp::Sub, to, from))?;
        let ticks = self.add(Expr::Cast(distance, DType::I64))?;
        self.add(Expr::Cast(ticks, DType::F64))
    }
}
