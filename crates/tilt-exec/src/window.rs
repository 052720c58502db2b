//! Windows: which algorithm computes a reduction, and what its result is made of.
//!
//! | algorithm | for | what the main loop reads |
//! |---|---|---|
//! | `blocks` | order-sensitive and merely associative reductions at many instants | the suffix of the early part and the prefix of the late part, from scans over blocks of the window's length (van Herk/Gil-Werman) |
//! | `doubling` | extremes over windows that move by one position | the same, of every eighth position, each of which has the extreme of the last eight |
//! | `totals` | sums of integers and counts over windows that move by one position | the window's total, to which each row adds what enters and from which it takes what leaves |
//! | `prefix` | integers and counts otherwise | running totals at both ends, which it subtracts |
//! | `fold` | windows that hardly overlap, and floats by count | the early and the late part folded for each window |
//! | `rows` | everything else: order statistics, frequencies, regressions; overlapping events, events counted by number, φ among moments | the result |
//!
//! Where windows move by several positions and the order does not matter, `blocks` and `totals` are those of *panes*: as many positions, folded into one.
//!
//! Sums of floats follow the order that `docs/ir.md` pins, whichever algorithm computes them.

mod beside;
mod contribution;
mod custom;
mod doubling;
mod keys;
mod moments;
mod panes;
mod plan;
mod range;
mod rows;

use tilt_codegen::{
    lir::{Binary, By, Combine, Compare, Inst, Loop, Sink, Slot, Ty, Unary, ValueId},
    lower::{Body, Lowering, Result, Term, Unsupported, Valid},
};
use tilt_ir::{Agg, Bounds, DType, Expr, ExprId, StreamId, Timeline};

use self::{
    keys::{key_of, magnitude, value_of},
    panes::over_panes,
    range::{Extent, extent, range},
};
use crate::{
    gaps,
    plan::{Domain, Locate, ParamSource, Source},
    reads::StageReads,
};
pub(crate) use plan::{
    Algorithm, Current, Cut, DoublingPlan, Guard, Measure, PanePlan, RangePlan, WindowPlan,
};

/// Lowers a reduction.
pub(crate) fn reduce(reads: &mut StageReads, body: &mut Body, id: ExprId) -> Result<Term> {
    let program = reads.planner.program;
    let Expr::Reduce { window, .. } = program.expr(id) else {
        unreachable!("only reductions are reduced")
    };
    let input = program.streams[window.stream].as_input();
    let facts = input.and_then(|_| reads.planner.facts.get(&window.stream));
    let Some(facts) = facts.filter(|facts| facts.nullable).cloned() else {
        return reduce_events(reads, body, id);
    };
    // Of an input that keeps its gaps, windows have nothing but events.
    let events = gaps::packed_facts(&facts);
    reads.planner.facts.insert(window.stream, events);
    reads.planner.packed = Some(window.stream);
    let reduced = reduce_events(reads, body, id);
    reads.planner.packed = None;
    reads.planner.facts.insert(window.stream, facts);
    reduced
}

/// Lowers a reduction over a stream that has no gaps, or of which they are left out.
fn reduce_events(reads: &mut StageReads, body: &mut Body, id: ExprId) -> Result<Term> {
    let program = reads.planner.program;
    let Expr::Reduce { agg, window, map } = program.expr(id) else {
        unreachable!("only reductions are reduced")
    };
    if window.stream == reads.stream {
        return Err(Unsupported("a recurrence over a window".into()));
    }
    let facts = reads.planner.facts[&window.stream].clone();
    let mapped = match map {
        Some(map) if reads.needs_stage(window.stream, *map) => {
            Some(reads.planner.map_stage(window.stream, *map)?)
        }
        _ => None,
    };
    let range = range(reads, window.stream, window.bounds)?;
    let extent = extent(reads, body, range);
    let minds = reads.minds_windows();
    let mut reduction = Reduction {
        reads,
        body,
        range,
        stream: window.stream,
        map: *map,
        mapped,
        extent,
        contributes: Valid::Never,
        all_events: false,
        trimmed: false,
        what: format!("{} {}", agg.name(), program.expr_text(id)),
    };
    if matches!(
        window.bounds,
        Bounds::Time { lo: Some(_), .. } | Bounds::Event
    ) {
        let inhabited = if !facts.nullable && facts.axis.ordered {
            Some(reduction.extent.nonempty)
        } else if minds {
            reduction.map = None;
            let events = reduction.rows(Agg::Len)?.valid();
            reduction.map = *map;
            Some(events)
        } else {
            None
        };
        reduction.reads.note_window(inhabited);
    }
    reduction.lower(*agg)
}

/// A reduction being lowered.
struct Reduction<'r, 'a, 'p> {
    reads: &'r mut StageReads<'a, 'p>,
    body: &'r mut Body,
    range: usize,
    stream: StreamId,
    map: Option<ExprId>,
    /// The map as a stream on the timeline of the events.
    mapped: Option<StreamId>,
    extent: Extent,
    contributes: Valid,
    /// Whether every event contributes.
    all_events: bool,
    /// Whether windows see contributions only, so that no loop has to ask.
    trimmed: bool,
    what: String,
}

impl Reduction<'_, '_, '_> {
    fn lower(&mut self, agg: Agg) -> Result<Term> {
        let (ty, contributes) = match self.contribution() {
            Err(_) if self.map.is_some() => {
                self.materialise()?;
                self.contribution()?
            }
            found => found?,
        };
        self.contributes = contributes;
        if self.is_by_rows(agg, ty) {
            return self.rows(agg);
        }
        self.trimmed = self.is_trimmed(agg, ty);
        let (count, nonempty) = if self.trimmed {
            (self.extent.count, self.extent.nonempty)
        } else {
            self.count(contributes)?
        };
        let value = match agg {
            Agg::Len => count,
            Agg::Sum if ty.is_float() => self.float(Combine::Add, identity)?,
            Agg::Mean if ty.is_float() => {
                let sum = self.float(Combine::Add, identity)?;
                self.per(sum, count)
            }
            Agg::Product if ty.is_float() => self.float(Combine::Mul, identity)?,
            Agg::Sum => self.integer_sum(ty)?,
            Agg::Mean => {
                let sum = self.integer_sum(ty)?;
                let sum = self.body.convert(sum, Ty::F64);
                self.per(sum, count)
            }
            Agg::Min => self.extreme(Combine::Min, ty, identity)?,
            Agg::Max => self.extreme(Combine::Max, ty, identity)?,
            Agg::Any | Agg::All => {
                let combine = if agg == Agg::Any {
                    Combine::Max
                } else {
                    Combine::Min
                };
                let found = self.extreme(combine, Ty::U8, |body, v| body.convert(v, Ty::U8))?;
                let zero = self.body.int(Ty::U8, 0);
                self.body.compare(Compare::Ne, found, zero)
            }
            Agg::First | Agg::Last => return self.at_edge(agg == Agg::Last),
            Agg::Rms => {
                let squares = self.float(Combine::Add, square)?;
                self.root_of_mean(squares, count)
            }
            Agg::CrestFactor => {
                let squares = self.float(Combine::Add, square)?;
                let rms = self.root_of_mean(squares, count);
                let peak = self.extreme(Combine::Max, Ty::F64, |body, v| {
                    let v = body.convert(v, Ty::F64);
                    body.unary(Unary::Abs, v)
                })?;
                self.body.binary(Binary::Div, peak, rms)
            }
            Agg::Var { ddof } | Agg::Std { ddof } => {
                let moments = self.moments(2)?;
                return Ok(self.variance(&moments, ddof, matches!(agg, Agg::Std { .. })));
            }
            Agg::Skew { bias } => {
                let moments = self.moments(3)?;
                return Ok(self.skew(&moments, bias));
            }
            Agg::Kurtosis { fisher, bias } => {
                let moments = self.moments(4)?;
                return Ok(self.kurtosis(&moments, fisher, bias));
            }
            other => return Err(Unsupported(format!("the reduction {}", other.name()))),
        };
        Ok(Term::Scalar {
            value,
            valid: nonempty,
        })
    }

    /// What the first event of a window contributes, or the last, where every event contributes something.
    fn at_edge(&mut self, last: bool) -> Result<Term> {
        let is_record = |map: ExprId| {
            let dtype = self.reads.planner.program.dtype(map);
            matches!(dtype, DType::Record(_))
        };
        let read = match self.map {
            Some(map) if !is_record(map) => self.read_leaf()?,
            _ => None,
        };
        if read.is_none() {
            self.materialise()?;
        }
        let range = self.range;
        let locates = &mut self.reads.found().locates;
        locates.push(Locate::Range { range, last });
        let locate = locates.len() - 1;
        if let Some((stream, leaf)) = read {
            let (value, valid) = self.reads.column(self.body, stream, leaf, locate);
            return Ok(Term::Scalar { value, valid });
        }
        let stream = self.mapped.unwrap_or(self.stream);
        self.reads.term(self.body, stream, locate)
    }

    /// Whether each window is folded on its own: windows hardly overlap, or an event may reach beyond its window, where it would belong to
    /// another block.
    fn is_sparse(&mut self) -> bool {
        let domain = self.reads.domain();
        let range = self.reads.found().ranges[self.range].clone();
        let axis = &self.reads.planner.facts[&self.stream].axis;
        if range.bounds == Bounds::Event {
            return true;
        }
        let timelines = self.reads.planner.timelines;
        let on_itself = matches!(domain, Domain::On(here)
            if timelines.of(*here) == timelines.of(self.stream));
        let ends_inside = range.every.is_some()
            || range.length().is_none()
            || axis.length == Some(1)
            || on_itself && axis.disjoint && matches!(range.bounds, Bounds::Time { hi: 0, .. });
        if !ends_inside {
            return true;
        }
        let length = self.reads.found().ranges[self.range].length();
        match (domain, length) {
            (Domain::Grid { period, .. }, Some(length)) => length <= period.saturating_mul(4),
            _ => false,
        }
    }

    /// Whether rows of its windows may have been forgotten when they are computed.
    fn forgets(&mut self) -> bool {
        let range = &self.reads.found().ranges[self.range];
        range.is_running() && self.reads.planner.carried
    }

    /// Whether windows are counted out and have a beginning.
    fn by_count(&mut self) -> bool {
        let range = &self.reads.found().ranges[self.range];
        matches!(range.bounds, Bounds::Ordinal { lo: Some(_), .. })
    }

    /// Adds a window with the given slots and returns the columns: two of each slot.
    fn window(
        &mut self,
        kind: Kind,
        slots: &Slots,
        guard: Guard,
        anchor: Option<(StreamId, usize)>,
    ) -> Result<Vec<ValueId>> {
        let (_, columns) = self.window_of(kind, slots, guard, anchor)?;
        Ok(columns)
    }

    /// As [`Reduction::window`], with the algorithm; of totals there is one column a slot.
    fn window_of(
        &mut self,
        kind: Kind,
        slots: &Slots,
        guard: Guard,
        anchor: Option<(StreamId, usize)>,
    ) -> Result<(Algorithm, Vec<ValueId>)> {
        let mut sources = Vec::new();
        let mut params = Vec::new();
        let trimmed = self.trimmed;
        let mut loop_of = |this: &mut Self, backward: bool| -> Result<usize> {
            let (number, s, p) = this.build(|reads, body, value, valid| {
                let slots = slots(reads, body, value, valid)?;
                let mut finished = Vec::new();
                for (op, value) in slots {
                    let ty = body.ty(value);
                    let neutral = body.constant(op.neutral(ty));
                    // Windows that add floats are those that see them trimmed.
                    let counts = if trimmed && ty.is_float() {
                        Valid::Always
                    } else {
                        valid
                    };
                    let counts = body.truth(counts);
                    let value = body.select(counts, value, neutral);
                    finished.push(Slot { op, value });
                }
                Ok(if kind == Kind::Fold {
                    Sink::Fold {
                        slots: finished,
                        backward,
                    }
                } else {
                    Sink::Scan {
                        slots: finished,
                        backward,
                    }
                })
            })?;
            sources = s;
            params = p;
            Ok(number)
        };
        let forward = loop_of(self, false)?;
        let shape = slots_of(&self.reads.planner.loops[forward]);
        let panes = if kind == Kind::Fold || !shape.iter().all(|(_, ty)| ty.is_int()) {
            None
        } else {
            self.panes(forward, kind == Kind::Prefix)
        };
        let algorithm = match (kind, panes) {
            (Kind::Fold, _) => Algorithm::Fold {
                forward,
                backward: loop_of(self, true)?,
            },
            (Kind::Blocks, _) if let Some(units) = self.doubles(&shape, panes) => {
                let forward = match panes {
                    Some(panes) => self.add_loop(over_panes(&self.what, &shape, false, panes)),
                    None => forward,
                };
                Algorithm::Doubling(self.doubling(forward, &shape, units))
            }
            (Kind::Blocks, Some(panes)) => Algorithm::Blocks {
                forward: self.add_loop(over_panes(&self.what, &shape, false, panes)),
                backward: self.add_loop(over_panes(&self.what, &shape, true, panes)),
            },
            (Kind::Blocks, None) => Algorithm::Blocks {
                forward,
                backward: loop_of(self, true)?,
            },
            (Kind::Prefix, Some(panes)) => {
                let forward = self.add_loop(over_panes(&self.what, &shape, false, panes));
                self.totals(forward)
            }
            (Kind::Prefix, None) if self.reads.found().ranges[self.range].is_steady() => {
                self.totals(forward)
            }
            (Kind::Prefix, None) => Algorithm::Prefix { forward },
        };
        let plan = WindowPlan {
            range: self.range,
            algorithm,
            sources,
            params,
            anchor,
            guard,
            panes,
            slots: shape.clone(),
            // Where the order does not matter, neither does what is between contributions.
            gapless: self.is_counted()
                && self.contributes != Valid::Always
                && shape.iter().any(|(_, ty)| ty.is_float()),
            count: self.full_count(algorithm),
            rows: None,
            what: self.what.clone(),
        };
        let steady = self.reads.found().ranges[self.range].is_steady() || panes.is_some();
        let (window, of_slots) = if let Some(joined) = self.beside(&plan) {
            self.reads.planner.loops.truncate(forward);
            joined
        } else {
            let windows = &mut self.reads.found().windows;
            windows.push(plan);
            (windows.len() - 1, (0..shape.len()).collect())
        };
        let by = if steady || kind == Kind::Fold {
            By::Row
        } else {
            By::Index
        };
        let sides: &[(usize, &str)] = match algorithm {
            Algorithm::Totals { .. } => &[(1, "total")],
            Algorithm::Doubling(DoublingPlan { suffixes: None, .. }) => &[(1, "late")],
            _ => &[(0, "early"), (1, "late")],
        };
        let mut columns = Vec::new();
        let begins_inside = panes.is_some_and(|panes| panes.cut.rest > 0);
        for (slot, (op, ty)) in of_slots.into_iter().zip(&shape) {
            let mut read = |column, name| {
                let source = Source::Window { window, column };
                let access = self.reads.access(self.body, source, name, *ty, by, false);
                self.body.load(access)
            };
            for (side, name) in sides {
                columns.push(read(2 * slot + *side, *name));
            }
            if begins_inside {
                let rest = read(2 * shape.len() + slot, "rest");
                let late = columns.pop().expect("a column of the slot");
                columns.push(self.body.binary(op.binary(), late, rest));
            }
        }
        Ok((algorithm, columns))
    }

    /// A combination of doubles in the pinned order.
    fn float(&mut self, op: Combine, of: fn(&mut Body, ValueId) -> ValueId) -> Result<ValueId> {
        let kind = if self.by_count() || self.is_sparse() {
            Kind::Fold
        } else {
            Kind::Blocks
        };
        let slots = move |_: &mut StageReads, body: &mut Body, value: ValueId, _: Valid| {
            let value = body.convert(value, Ty::F64);
            Ok(vec![(op, of(body, value))])
        };
        let columns = self.window(kind, &slots, Guard::None, None)?;
        let op = match op {
            Combine::Mul => Binary::Mul,
            _ => Binary::Add,
        };
        Ok(self.body.binary(op, columns[0], columns[1]))
    }

    /// The exact total of integers, as a 64-bit one.
    fn integer_sum(&mut self, ty: Ty) -> Result<ValueId> {
        let wide = if ty.is_int() && !ty.is_signed() {
            Ty::U64
        } else {
            Ty::I64
        };
        let guard = match (ty.bits(), self.contributes, self.read_leaf()?) {
            (64, Valid::Always, Some((stream, leaf))) => Guard::Leaf(stream, leaf),
            (64, ..) => Guard::Slot,
            _ => Guard::None,
        };
        let slots = move |_: &mut StageReads, body: &mut Body, value: ValueId, _: Valid| {
            let value = body.convert(value, wide);
            let mut slots = vec![(Combine::Add, value)];
            if guard == Guard::Slot {
                slots.push((Combine::Or, magnitude(body, value)));
            }
            Ok(slots)
        };
        self.difference(&slots, guard)
    }

    /// A total kept from row to row, by subtracting running ones, or by folding.
    fn difference(&mut self, slots: &Slots, guard: Guard) -> Result<ValueId> {
        if self.is_sparse() && !self.has_panes(true) {
            let columns = self.window(Kind::Fold, slots, guard, None)?;
            return Ok(self.body.binary(Binary::Add, columns[0], columns[1]));
        }
        let (algorithm, columns) = self.window_of(Kind::Prefix, slots, guard, None)?;
        match algorithm {
            Algorithm::Totals { .. } => Ok(columns[0]),
            _ => Ok(self.body.binary(Binary::Sub, columns[1], columns[0])),
        }
    }

    /// Whether the reduction has a window that sees its source trimmed to the events of a join, each of which contributes: then positions
    /// are contributions.
    fn is_trimmed(&self, agg: Agg, ty: Ty) -> bool {
        let in_order = match agg {
            Agg::Sum | Agg::Mean | Agg::Product => ty.is_float(),
            Agg::Rms | Agg::CrestFactor => true,
            _ => false,
        };
        in_order && self.reads.planner.gapless && self.is_counted() && self.all_events
    }

    /// How many contributions, and where there is one.
    fn count(&mut self, contributes: Valid) -> Result<(ValueId, Valid)> {
        if contributes == Valid::Always && !self.forgets() {
            return Ok((self.extent.count, self.extent.nonempty));
        }
        let slots = |_: &mut StageReads, body: &mut Body, _: ValueId, _: Valid| {
            Ok(vec![(Combine::Add, body.int(Ty::I64, 1))])
        };
        let count = self.difference(&slots, Guard::None)?;
        let zero = self.body.int(Ty::I64, 0);
        let nonempty = self.body.compare(Compare::Gt, count, zero);
        Ok((count, self.body.valid_if(nonempty)))
    }

    /// The least or greatest; floats by keys that order them as `minimumNumber` and `maximumNumber` do.
    fn extreme(
        &mut self,
        op: Combine,
        ty: Ty,
        of: fn(&mut Body, ValueId) -> ValueId,
    ) -> Result<ValueId> {
        let kind = if self.is_sparse() && !self.has_panes(false) {
            Kind::Fold
        } else {
            Kind::Blocks
        };
        let slots = move |_: &mut StageReads, body: &mut Body, value: ValueId, _: Valid| {
            let value = of(body, value);
            let value = if body.ty(value).is_float() {
                key_of(body, value, op)
            } else if body.ty(value) == Ty::Bool {
                body.convert(value, Ty::U8)
            } else {
                value
            };
            Ok(vec![(op, value)])
        };
        let columns = self.window(kind, &slots, Guard::None, None)?;
        let op = match op {
            Combine::Max => Binary::Max,
            _ => Binary::Min,
        };
        let found = match columns[..] {
            [early, late, ..] => self.body.binary(op, early, late),
            _ => columns[0],
        };
        Ok(if ty.is_float() {
            value_of(self.body, found, ty)
        } else if ty == Ty::Bool {
            let zero = self.body.int(Ty::U8, 0);
            self.body.compare(Compare::Ne, found, zero)
        } else {
            found
        })
    }

    fn per(&mut self, total: ValueId, count: ValueId) -> ValueId {
        let count = self.body.convert(count, Ty::F64);
        self.body.binary(Binary::Div, total, count)
    }

    fn root_of_mean(&mut self, total: ValueId, count: ValueId) -> ValueId {
        let mean = self.per(total, count);
        self.body.unary(Unary::Sqrt, mean)
    }
}

/// What a window combines of a contribution.
type Slots<'a> =
    dyn Fn(&mut StageReads, &mut Body, ValueId, Valid) -> Result<Vec<(Combine, ValueId)>> + 'a;

/// Which kind of loops a window has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blocks,
    Prefix,
    Fold,
}

/// What a scan or fold combines.
fn slots_of(body: &Loop) -> Vec<(Combine, Ty)> {
    match &body.sink {
        Sink::Scan { slots, .. } | Sink::Fold { slots, .. } | Sink::Slide { slots, .. } => {
            slots.iter().map(|s| (s.op, body.ty(s.value))).collect()
        }
        Sink::Store { .. } | Sink::Panes { .. } | Sink::Comb { .. } => Vec::new(),
    }
}

fn identity(_: &mut Body, value: ValueId) -> ValueId {
    value
}

fn square(body: &mut Body, value: ValueId) -> ValueId {
    body.binary(Binary::Mul, value, value)
}
