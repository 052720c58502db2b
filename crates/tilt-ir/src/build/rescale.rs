//! A program in a finer unit.
//!
//! Lengths of time are multiplied. Values keep their types and meaning: an instant is read in the new unit and cast to the old one
//! (rounded down where the streams it meets are finer), and what counts ticks, as `integral` and `slope` do, is divided
//! or multiplied.

use std::collections::HashSet;

use super::error::{Checked, Problem};
use crate::{
    expr::{Agg, BinaryOp, Bounds, Expr, Node},
    ids::{Arena, ExprId, Id, VarId},
    program::{Clock, Program, Source, SpanRule, Stream},
    time::{Unit, format_duration},
    types::{DType, Scalar},
};

/// `program` counted in `unit`.
pub(super) fn rescaled(program: &Program, unit: Unit) -> Checked<Program> {
    let scale = Scale {
        from: program.unit,
        to: unit,
    };
    let mut new = program.clone();
    new.unit = unit;

    // Parameters that are instants of events. Their type is the program's.
    let mut edges: HashSet<VarId> = HashSet::new();
    for (_, reducer) in program.reducers.iter() {
        let lambdas = std::iter::once(&reducer.acc).chain(&reducer.deacc);
        edges.extend(lambdas.flat_map(|lambda| lambda.params.iter().skip(2)));
    }
    for var in &edges {
        new.vars[*var].dtype = DType::Timestamp(unit);
    }

    new.exprs = Arena::default();
    let mut moved: Vec<ExprId> = Vec::with_capacity(program.exprs.len());
    for (_, node) in program.exprs.iter() {
        let expr = scale.expr(&node.expr.map_operands(|operand| moved[operand.index()]))?;
        let dtype = node.dtype.clone();
        let is_instant = match &expr {
            Expr::Time | Expr::Edge { .. } => true,
            Expr::Reduce {
                agg: Agg::ArgMin | Agg::ArgMax,
                ..
            } => true,
            Expr::Var(var) => edges.contains(var),
            _ => false,
        };
        let per_tick = match &expr {
            Expr::Reduce {
                agg: Agg::Integral, ..
            } => Some(BinaryOp::Div),
            Expr::Reduce {
                agg: Agg::Slope, ..
            } => Some(BinaryOp::Mul),
            _ => None,
        };
        let mut push = |expr, dtype| new.exprs.push(Node { expr, dtype });
        moved.push(if is_instant {
            let instant = push(expr, DType::Timestamp(unit));
            push(Expr::Cast(instant, dtype.clone()), dtype)
        } else if let Some(op) = per_tick {
            let value = push(expr, DType::F64);
            let ratio = Scalar::Float(scale.ticks(1)? as f64);
            let ratio = push(Expr::Const(ratio, DType::F64), DType::F64);
            push(Expr::Binary(op, value, ratio), DType::F64)
        } else {
            push(expr, dtype)
        });
    }
    let to = |id: &mut ExprId| *id = moved[id.index()];
    let ids: Vec<_> = new.streams.ids().collect();
    for id in ids {
        match &mut new.streams[id] {
            Stream::Input(input) => {
                if let SpanRule::Fixed(length) = &mut input.span {
                    *length = scale.ticks(*length)?;
                }
                input.period = input.period.map(|p| scale.ticks(p)).transpose()?;
                if (input.unit == Unit::Tick) != (unit == Unit::Tick) {
                    // Only the stand-in for a recurrence's own past, which has no data.
                    input.unit = unit;
                }
            }
            Stream::Temporal(temporal) => {
                to(&mut temporal.body);
                scale.clock(&mut temporal.clock)?;
            }
        }
    }
    let ids: Vec<_> = new.reducers.ids().collect();
    for id in ids {
        let reducer = &mut new.reducers[id];
        to(&mut reducer.init);
        to(&mut reducer.acc.body);
        to(&mut reducer.result.body);
        reducer.merge.iter_mut().for_each(|l| to(&mut l.body));
        reducer.deacc.iter_mut().for_each(|l| to(&mut l.body));
    }
    Ok(new)
}

#[derive(Clone, Copy)]
struct Scale {
    from: Unit,
    to: Unit,
}

impl Scale {
    fn ticks(self, ticks: i64) -> Checked<i64> {
        if ticks == 0 {
            return Ok(0);
        }
        self.from.convert(ticks, self.to).ok_or_else(|| {
            let length = format_duration(ticks, self.from);
            Problem::parameter(format!(
                "{length} cannot be counted in the query's unit {}",
                self.to
            ))
            .hint("declare the inputs with one unit")
        })
    }

    fn expr(self, expr: &Expr) -> Checked<Expr> {
        let mut expr = expr.clone();
        match &mut expr {
            Expr::At { offset, .. } | Expr::Edge { offset, .. } => *offset = self.ticks(*offset)?,
            Expr::Hold {
                offset, max_age, ..
            } => {
                *offset = self.ticks(*offset)?;
                *max_age = max_age.map(|age| self.ticks(age)).transpose()?;
            }
            Expr::Reduce { window, .. } => {
                if let Bounds::Time { lo, hi } = &mut window.bounds {
                    *lo = lo.map(|lo| self.ticks(lo)).transpose()?;
                    *hi = self.ticks(*hi)?;
                }
            }
            _ => {}
        }
        Ok(expr)
    }

    fn clock(self, clock: &mut Clock) -> Checked<()> {
        match clock {
            Clock::At(_) => {}
            Clock::Calendar(calendar) => calendar.offset = self.ticks(calendar.offset)?,
            Clock::Sessions { gap, max, .. } => {
                *gap = self.ticks(*gap)?;
                *max = max.map(|max| self.ticks(max)).transpose()?;
            }
            Clock::Every { period, offset } => {
                *period = self.ticks(*period)?;
                *offset = self.ticks(*offset)?;
            }
            Clock::OnChange(sources) => {
                for source in sources {
                    match source {
                        Source::Value { offset, .. } => *offset = self.ticks(*offset)?,
                        Source::Hold {
                            offset, max_age, ..
                        } => {
                            *offset = self.ticks(*offset)?;
                            *max_age = max_age.map(|age| self.ticks(age)).transpose()?;
                        }
                        Source::Window { lo, hi, .. } => {
                            *lo = self.ticks(*lo)?;
                            *hi = self.ticks(*hi)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
