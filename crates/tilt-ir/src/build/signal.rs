//! Recurrences and what is built from them: filters, means that fade with time; peaks.

use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::{
    Stream,
    draft::{Built, Draft, OWN_PAST},
    error::{Checked, Problem},
    length::Length,
    literal::{Literal, Operand},
    operators::{self, Arg, Binary},
};
use crate::{
    clock::default_clock,
    expr::{self, Agg, BinaryOp, Bounds, Expr, UnaryOp},
    ids::{ExprId, StreamId},
    program::{Clock, Input, Program, SpanRule},
    time::Unit,
    types::{DType, Scalar},
};

/// A stream defined from its own past. `definition` gets the stream itself, which it may read by [`prev`](Stream::prev),
/// [`sample`](Stream::sample), [`shift`](Stream::shift) or [`hold`](Stream::hold) of an earlier instant, at the events of the other streams it
/// reads. Before the first value those reads are `initial`, or φ.
///
/// ```
/// # use tilt_ir::{DType, Input, Unit, build::{Stream, recur}};
/// let x = Stream::input(Input::point("x", DType::F64, Unit::Second));
/// let total = recur(&DType::F64, Some(0.0.into()), |y| y.prev(1) + &x);
/// assert!(total.to_string().contains("~recur[t]: f64 = coalesce(~recur.prev(1), 0.0) + ~x[t]"));
/// ```
pub fn recur(
    dtype: &DType,
    initial: Option<Literal>,
    definition: impl FnOnce(&Stream) -> Stream,
) -> Stream {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("{OWN_PAST}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut program = Program::new("query", Unit::Second);
    program.input(Input {
        span: SpanRule::Interval,
        ..Input::point(name.clone(), dtype.clone(), Unit::Second)
    });
    let own = Stream(Ok(std::sync::Arc::new(Built::new(program))));
    let result = definition(&own);
    Stream::combine("recur", &[&result], |draft, ids| {
        let Some(own) = draft.program.stream_named(&name) else {
            // It does not read its own past after all.
            return Ok(ids[0]);
        };
        let dependent = draft.dependents(own);
        let value = draft.read(ids[0])?;
        let body = draft.inlined_expr(
            value,
            &|id| dependent.contains(&id),
            &mut HashMap::default(),
        )?;
        draft.check_own_reads(body, own, &dependent)?;
        let body = operators::converted(&mut draft.program, &body.into(), dtype)?;
        let clock = default_clock(&draft.program, body, Some(own)).ok_or_else(|| {
            Problem::types("nothing says when the recurrence has events")
                .hint("read a stream in it besides its own past")
        })?;
        draft.define_recurrence("recur", clock, dtype.clone(), |draft, this| {
            draft.renamed(body, own, this, initial.as_ref(), &mut HashMap::default())
        })
    })
}

impl Stream {
    /// A linear filter of the events, as `scipy.signal.lfilter(b, a, x)`: `a[0]·y[n] = Σ b[k]·x[n-k] - Σ a[k]·y[n-k]`, zero before the first.
    #[must_use]
    pub fn lfilter(&self, b: &[f64], a: &[f64]) -> Self {
        Self::combine("lfilter", &[self], |draft, ids| {
            let finite = b.iter().chain(a).all(|c| c.is_finite());
            let lead = a.first().copied().unwrap_or(0.0);
            if b.is_empty() || lead == 0.0 || !finite {
                return Err(Problem::parameter(
                    "a filter needs finite coefficients, at least one in `b`, and an `a[0]` that is not zero",
                ));
            }
            let x = ids[0];
            draft.define_recurrence("lfilter", Clock::At(x), DType::F64, |draft, this| {
                let current = draft.read(x)?;
                let current =
                    operators::converted(&mut draft.program, &current.into(), &DType::F64)?;
                let mut sum = draft.binary(MUL, current, b[0] / lead)?;
                let past = |stream, coefficients: &'_ [f64], sign: f64| {
                    let terms = coefficients.iter().zip(0u32..).skip(1);
                    let terms = terms.filter(|(c, _)| **c != 0.0);
                    terms
                        .map(|(c, n)| (stream, n, sign * c / lead))
                        .collect::<Vec<_>>()
                };
                let mut terms = past(x, b, 1.0);
                terms.extend(past(this, a, -1.0));
                for (stream, n, coefficient) in terms {
                    let before = draft.add(Expr::Prev { stream, n })?;
                    let before =
                        operators::converted(&mut draft.program, &before.into(), &DType::F64)?;
                    let before = draft.or_zero(before)?;
                    let term = draft.binary(MUL, before, coefficient)?;
                    sum = draft.add(Expr::Binary(BinaryOp::Add, sum, term))?;
                }
                Ok(sum)
            })
        })
    }

    /// The exponentially weighted mean of all events so far by time: what is `half_life` older weighs half. One step an event.
    #[must_use]
    pub fn ewm_by_time(&self, half_life: impl Into<Length>) -> Self {
        let half_life = half_life.into();
        Self::combine("ewm_by_time", &[self], |draft, ids| {
            let x = ids[0];
            let half_life = half_life.positive("the half-life", draft.unit())?;
            let ends = draft.ends(x)?;
            let now = draft.read(ends)?;
            let before = draft.add(Expr::Prev { stream: ends, n: 1 })?;
            let passed = draft.ticks_between(now, before)?;
            let halvings = draft.binary(Binary::Divide, passed, half_life as f64)?;
            let decay = draft.add(Expr::Unary(UnaryOp::Exp2, halvings))?;
            let decay = draft.define("decay", Clock::At(x), decay)?;
            let value = draft.read(x)?;
            let value = operators::converted(&mut draft.program, &value.into(), &DType::F64)?;
            let one = draft.add(Expr::Const(Scalar::Float(1.0), DType::F64))?;
            let total = draft.faded_sum("weighted", x, value, decay)?;
            let weights = draft.faded_sum("weight", x, one, decay)?;
            let total = draft.read(total)?;
            let weights = draft.read(weights)?;
            let body = draft.add(Expr::Binary(BinaryOp::Div, total, weights))?;
            draft.define("ewm", Clock::At(x), body)
        })
    }

    /// The local maxima above `threshold` that no higher one is closer to than `min_distance`; of equal ones the first. A local maximum is
    /// higher than the event before it and not lower than the one after it. It looks one event and `min_distance` ahead.
    #[must_use]
    pub fn peaks(&self, min_distance: impl Into<Length>, threshold: Option<Operand>) -> Self {
        let min_distance = min_distance.into();
        let operands = threshold.into_iter().collect();
        self.beside("peaks", operands, |draft, x, args| {
            let distance = min_distance.positive("min_distance", draft.unit())?;
            let Some(length) = draft.longest_event(x) else {
                return Err(Problem::types("the events have no fixed length")
                    .hint("peaks are those of points or samples; `resample` the stream first"));
            };
            let maximum = draft.local_maximum(x, args.first())?;
            let maxima = draft.define("maximum", Clock::At(x), maximum)?;
            if distance <= length {
                return Ok(maxima);
            }
            let value = draft.read(maxima)?;
            let highest = |lo: i64, hi: i64| Expr::Reduce {
                agg: Agg::Max,
                window: expr::Window {
                    stream: maxima,
                    bounds: Bounds::Time { lo: Some(lo), hi },
                },
                map: None,
            };
            // Events that end in (t-distance, t), and in (t, t+distance).
            let before = draft.add(highest(-distance, -length))?;
            let after = draft.add(highest(0, distance - length))?;
            let higher = draft.add(Expr::Binary(BinaryOp::Gt, value, before))?;
            let not_lower = draft.add(Expr::Binary(BinaryOp::Ge, value, after))?;
            let alone = draft.truth(true)?;
            let higher = draft.add(Expr::Coalesce(higher, alone))?;
            let not_lower = draft.add(Expr::Coalesce(not_lower, alone))?;
            let both = draft.add(Expr::Binary(BinaryOp::And, higher, not_lower))?;
            let body = draft.only_if(both, value)?;
            draft.define("peaks", Clock::At(maxima), body)
        })
    }
}

const MUL: Binary = Binary::Plain(BinaryOp::Mul);

impl Draft {
    /// All streams that depend on `root`, itself aside.
    fn dependents(&self, root: StreamId) -> HashSet<StreamId> {
        let mut dependent = HashSet::from_iter([root]);
        for (id, _) in self.program.temporals() {
            let reads = crate::pass::dce::streams_read(&self.program, id);
            if reads.iter().any(|read| dependent.contains(read)) {
                dependent.insert(id);
            }
        }
        dependent.remove(&root);
        dependent
    }

    /// Checks that a recurrence's body reads its own past itself, and not the past of what is computed from it.
    fn check_own_reads(
        &self,
        body: ExprId,
        own: StreamId,
        dependent: &HashSet<StreamId>,
    ) -> Checked<()> {
        let mut wrong = None;
        self.program.walk(body, &mut |id, expr| {
            if expr.stream().is_some_and(|s| dependent.contains(&s)) {
                wrong = Some(id);
            }
            if let Expr::At { stream, offset: 0 } = expr
                && *stream == own
            {
                wrong = Some(id);
            }
        });
        match wrong {
            None => Ok(()),
            Some(id) => Err(Problem::types(format!(
                "a recurrence reads the past of itself, not `{}`",
                self.program.expr_text(id)
            ))
            .hint("apply `prev`, `sample` or `shift` to the stream that the function was given, and compute with the result")),
        }
    }

    /// A copy of `id` that reads `new` in the place of `old`, and `initial` where that is φ.
    fn renamed(
        &mut self,
        id: ExprId,
        old: StreamId,
        new: StreamId,
        initial: Option<&Literal>,
        done: &mut HashMap<ExprId, ExprId>,
    ) -> Checked<ExprId> {
        if let Some(known) = done.get(&id) {
            return Ok(*known);
        }
        let expr = self.program.expr(id).clone();
        let mut operands = HashMap::default();
        let mut list = Vec::new();
        expr.for_each_operand(|operand| list.push(operand));
        for operand in list {
            let copy = self.renamed(operand, old, new, initial, done)?;
            operands.insert(operand, copy);
        }
        let mut copy = expr.map_operands(|operand| operands[&operand]);
        let mut is_value = false;
        match &mut copy {
            Expr::At { stream, .. } | Expr::Hold { stream, .. } | Expr::Prev { stream, .. }
                if *stream == old =>
            {
                *stream = new;
                is_value = true;
            }
            Expr::Edge { stream, .. } if *stream == old => *stream = new,
            Expr::Reduce { window, .. } if window.stream == old => window.stream = new,
            _ => {}
        }
        let mut result = if copy == expr { id } else { self.add(copy)? };
        if let (true, Some(initial)) = (is_value, initial) {
            let initial = Arg::Literal(initial.clone());
            result = operators::coalesce(&mut self.program, &result.into(), &initial)?;
        }
        done.insert(id, result);
        Ok(result)
    }

    fn or_zero(&mut self, value: ExprId) -> Checked<ExprId> {
        operators::coalesce(&mut self.program, &value.into(), &0.0.into())
    }

    /// `~y[t at ~x] = value + ~y.prev(1) · ~decay[t]`.
    fn faded_sum(
        &mut self,
        stem: &str,
        x: StreamId,
        value: ExprId,
        decay: StreamId,
    ) -> Checked<StreamId> {
        self.define_recurrence(stem, Clock::At(x), DType::F64, |draft, this| {
            let before = draft.add(Expr::Prev { stream: this, n: 1 })?;
            let decay = draft.read(decay)?;
            let faded = draft.add(Expr::Binary(BinaryOp::Mul, before, decay))?;
            let faded = draft.or_zero(faded)?;
            draft.add(Expr::Binary(BinaryOp::Add, value, faded))
        })
    }

    /// The value where it is a local maximum above the threshold.
    fn local_maximum(&mut self, x: StreamId, threshold: Option<&Arg>) -> Checked<ExprId> {
        let value = self.read(x)?;
        let before = self.add(Expr::Prev { stream: x, n: 1 })?;
        let after = self.add(Expr::Reduce {
            agg: Agg::First,
            window: expr::Window {
                stream: x,
                bounds: Bounds::Ordinal { lo: Some(0), hi: 1 },
            },
            map: None,
        })?;
        let higher = self.add(Expr::Binary(BinaryOp::Gt, value, before))?;
        let not_lower = self.add(Expr::Binary(BinaryOp::Ge, value, after))?;
        let mut cond = self.add(Expr::Binary(BinaryOp::And, higher, not_lower))?;
        if let Some(threshold) = threshold {
            let above = Binary::Plain(BinaryOp::Gt);
            let above = operators::binary(&mut self.program, above, &value.into(), threshold)?;
            cond = self.add(Expr::Binary(BinaryOp::And, above, cond))?;
        }
        self.only_if(cond, value)
    }
}
