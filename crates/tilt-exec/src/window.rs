//! Windows: which algorithm computes a reduction, and what its result is made of.
//!
//! | algorithm | for | what the main loop reads |
//! |---|---|---|
//! | `blocks` | order-sensitive and merely associative reductions at many instants | the suffix of the early part and the prefix of the late part, from scans over blocks of the window's length (van Herk/Gil-Werman) |
//! | `prefix` | integers and counts | running totals at both ends, which it subtracts |
//! | `fold` | windows that hardly overlap, and floats by count | the early and the late part folded for each window |
//!
//! Sums of floats follow the order that `docs/ir.md` pins, whichever algorithm computes them.

use tilt_codegen::{
    lir::{Binary, By, Combine, Compare, Inst, Lanes, Sink, Slot, Ty, Unary, ValueId},
    lower::{Body, Lowering, Result, Term, Unsupported, Valid},
};
use tilt_ir::{Agg, Bounds, Expr, ExprId, Id, StreamId, Timeline};

use crate::{
    plan::{Domain, Locate, ParamSource, Source},
    reads::StageReads,
};

/// The positions that the windows of a stage cover.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RangePlan {
    pub(crate) stream: StreamId,
    pub(crate) bounds: Bounds,
    /// The window of the next row is that of this row moved by one position.
    pub(crate) steady: bool,
}

impl RangePlan {
    /// The length of a time window, if it has a beginning.
    pub(crate) fn length(&self) -> Option<i64> {
        match self.bounds {
            Bounds::Time { lo: Some(lo), hi } => hi.checked_sub(lo),
            _ => None,
        }
    }
}

/// A reduction over a range.
#[derive(Debug)]
pub(crate) struct WindowPlan {
    pub(crate) range: usize,
    pub(crate) algorithm: Algorithm,
    /// What the accesses of the loops read, all at the source's own positions.
    pub(crate) sources: Vec<Source>,
    pub(crate) params: Vec<ParamSource>,
    /// The column whose value next to the split is subtracted before anything is added.
    pub(crate) anchor: Option<usize>,
    /// How an overflow is noticed.
    pub(crate) guard: Guard,
    pub(crate) slots: Vec<(Combine, Ty)>,
    /// For people.
    pub(crate) what: String,
}

/// Where the magnitudes of 64-bit integers are found, whose total may overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guard {
    /// Nowhere: nothing can overflow.
    None,
    /// In a column of the source, as it is.
    Leaf(usize),
    /// Joined in the last slot.
    Slot,
}

/// How a window is computed; loops by their numbers. Columns of slot `k` are `2k` and `2k + 1`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    /// Suffixes (early) and prefixes (late) of blocks.
    Blocks { forward: usize, backward: usize },
    /// Running totals before the first position and before the end.
    Prefix { forward: usize },
    /// Both parts of each window.
    Fold { forward: usize, backward: usize },
}

impl Algorithm {
    /// The loop that goes forward.
    pub(crate) fn forward(self) -> usize {
        match self {
            Self::Blocks { forward, .. } | Self::Prefix { forward } | Self::Fold { forward, .. } => {
                forward
            }
        }
    }
}

/// The positions of a range for a row, and how many there are.
struct Extent {
    count: ValueId,
    nonempty: Valid,
}

/// Lowers a reduction.
pub(crate) fn reduce(reads: &mut StageReads, body: &mut Body, id: ExprId) -> Result<Term> {
    let program = reads.planner.program;
    let Expr::Reduce { agg, window, map } = program.expr(id) else {
        unreachable!("only reductions are reduced")
    };
    if window.stream == reads.stream {
        return Err(Unsupported("a recurrence over a window".into()));
    }
    let facts = reads.planner.facts[&window.stream].clone();
    if !facts.axis.ordered {
        return Err(Unsupported("a window over overlapping intervals".into()));
    }
    let mapped = match map {
        Some(map) if reads.needs_stage(window.stream, *map) => {
            Some(reads.planner.map_stage(window.stream, *map)?)
        }
        _ => None,
    };
    let range = range(reads, window.stream, window.bounds)?;
    let extent = extent(reads, body, range)?;
    if matches!(window.bounds, Bounds::Time { lo: Some(_), .. }) {
        reads.note_window((!facts.nullable).then_some(extent.nonempty));
    }
    let mut reduction = Reduction {
        reads,
        body,
        range,
        stream: window.stream,
        map: *map,
        mapped,
        extent,
        contributes: Valid::Never,
        what: format!("{} {}", agg.name(), program.expr_text(id)),
    };
    reduction.lower(*agg)
}

/// Adds a range, once.
fn range(reads: &mut StageReads, stream: StreamId, bounds: Bounds) -> Result<usize> {
    let facts = &reads.planner.facts[&stream];
    let same_axis = matches!(reads.domain(), Domain::On(here)
        if reads.planner.timelines.of(*here) == reads.planner.timelines.of(stream));
    let steady = match bounds {
        Bounds::Ordinal { lo: None, .. } => {
            return Err(Unsupported("a running reduction by count".into()));
        }
        Bounds::Ordinal { .. } if same_axis && !facts.nullable => true,
        Bounds::Ordinal { .. } => {
            return Err(Unsupported("a window by count over another clock's events".into()));
        }
        Bounds::Time { lo: None, .. } if facts.nullable => {
            return Err(Unsupported("a running reduction over φ".into()));
        }
        Bounds::Time { lo: None, .. } => false,
        Bounds::Time { lo: Some(lo), hi } => {
            let length = hi.checked_sub(lo).filter(|length| *length > 0);
            let length = length.ok_or_else(|| Unsupported("an empty window".into()))?;
            match (reads.axis.regular, facts.axis.regular) {
                (Some(here), Some(there)) => {
                    // The window begins at the end of an event, so that no event is split between two windows.
                    here.period == there.period
                        && length % there.period == 0
                        && (i128::from(here.phase) + i128::from(hi) - i128::from(there.phase))
                            % i128::from(there.period)
                            == 0
                        && facts.axis.disjoint
                }
                _ => false,
            }
        }
    };
    let plan = RangePlan {
        stream,
        bounds,
        steady,
    };
    let ranges = &mut reads.found().ranges;
    let known = ranges.iter().position(|r| *r == plan);
    Ok(known.unwrap_or_else(|| {
        ranges.push(plan);
        ranges.len() - 1
    }))
}

/// How many positions the window of a row has.
fn extent(reads: &mut StageReads, body: &mut Body, range: usize) -> Result<Extent> {
    let count = if reads.found().ranges[range].steady {
        let lo = reads.param(body, "window_first", Ty::I64, ParamSource::RangeLo(range));
        let hi = reads.param(body, "window_end", Ty::I64, ParamSource::RangeHi(range));
        let len = reads.param(body, "positions", Ty::I64, ParamSource::RangeLen(range));
        let row = body.row();
        let zero = body.int(Ty::I64, 0);
        let mut clamped = |offset| {
            let position = body.binary(Binary::Add, row, offset);
            let position = body.binary(Binary::Max, position, zero);
            body.binary(Binary::Min, position, len)
        };
        let (first, end) = (clamped(lo), clamped(hi));
        body.binary(Binary::Sub, end, first)
    } else {
        let first = reads.access(
            body,
            Source::RangeFirst(range),
            "window_first",
            Ty::U32,
            By::Row,
            false,
        );
        let end = reads.access(
            body,
            Source::RangeEnd(range),
            "window_end",
            Ty::U32,
            By::Row,
            false,
        );
        let (first, end) = (body.load(first), body.load(end));
        let count = body.binary(Binary::Sub, end, first);
        body.convert(count, Ty::I64)
    };
    let zero = body.int(Ty::I64, 0);
    let nonempty = body.compare(Compare::Gt, count, zero);
    Ok(Extent {
        count,
        nonempty: body.valid_if(nonempty),
    })
}

/// A reduction being lowered.
struct Reduction<'r, 'a, 'p> {
    reads: &'r mut StageReads<'a, 'p>,
    body: &'r mut Body,
    range: usize,
    stream: StreamId,
    map: Option<ExprId>,
    /// The stream that the map is, if it is a stage of its own.
    mapped: Option<StreamId>,
    extent: Extent,
    contributes: Valid,
    what: String,
}

/// What a part of a window sums, for the moments.
struct Part {
    n: ValueId,
    anchor: ValueId,
    /// Σd, Σd², Σd³, Σd⁴ as far as asked for.
    sums: Vec<ValueId>,
}

impl Reduction<'_, '_, '_> {
    fn lower(&mut self, agg: Agg) -> Result<Term> {
        let (ty, contributes) = self.contribution()?;
        self.contributes = contributes;
        let (count, nonempty) = self.count(contributes)?;
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
            Agg::First | Agg::Last if contributes == Valid::Always && self.map.is_none() => {
                let range = self.range;
                let last = agg == Agg::Last;
                let locates = &mut self.reads.found().locates;
                locates.push(Locate::Range { range, last });
                let locate = locates.len() - 1;
                return self.reads.term(self.body, self.stream, locate);
            }
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
                let moments = self.moments(2, contributes)?;
                return Ok(self.variance(&moments, ddof, matches!(agg, Agg::Std { .. })));
            }
            Agg::Skew { bias } => {
                let moments = self.moments(3, contributes)?;
                return Ok(self.skew(&moments, bias));
            }
            Agg::Kurtosis { fisher, bias } => {
                let moments = self.moments(4, contributes)?;
                return Ok(self.kurtosis(&moments, fisher, bias));
            }
            other => return Err(Unsupported(format!("the reduction {}", other.name()))),
        };
        Ok(Term::Scalar {
            value,
            valid: nonempty,
        })
    }

    /// The type of what events contribute, and whether all do.
    fn contribution(&mut self) -> Result<(Ty, Valid)> {
        let mut found = (Ty::Bool, Valid::Never);
        self.build(|_, body, value, valid| {
            found = (body.ty(value), valid);
            Ok(Sink::Store {
                columns: Vec::new(),
                streaming: false,
            })
        })?;
        self.reads.planner.loops.pop();
        Ok((found.0, found.1))
    }

    /// A loop over the contributions; returns its number and what it reads.
    fn build(
        &mut self,
        sink: impl FnOnce(&mut StageReads, &mut Body, ValueId, Valid) -> Result<Sink>,
    ) -> Result<(usize, Vec<Source>, Vec<ParamSource>)> {
        let program = self.reads.planner.program;
        let axis = self.reads.planner.facts[&self.stream].axis.clone();
        let domain = Domain::On(self.stream);
        let dtype = self.reads.dtype();
        let reads = StageReads::map(&mut *self.reads.planner, self.stream, dtype, &domain, axis);
        let mut lowering = Lowering::new(program, reads);
        let mut body = Body::default();
        let own = self.mapped.unwrap_or(self.stream);
        let own = lowering.reads.term(&mut body, own, crate::reads::SAME)?;
        let term = match self.map {
            Some(map) if self.mapped.is_none() => lowering.lower(&mut body, map)?,
            _ => own.clone(),
        };
        let (value, valid) = match term {
            Term::Scalar { value, valid } => (value, valid),
            // Only counted, if anything.
            Term::Record { present, .. } => (body.truth(present), present),
        };
        // An event that is not there contributes nothing, whatever the map says.
        let valid = body.both(own.valid(), valid);
        let sink = sink(&mut lowering.reads, &mut body, value, valid)?;
        let found = lowering.reads.finish()?;
        let finished = body.finish(self.what.clone(), Lanes::Eight, sink);
        let sources = finished.accesses.iter();
        let sources = sources.map(|a| found.sources[a.index()].clone()).collect();
        let params = finished.params.iter();
        let params = params.map(|p| found.params[p.index()].clone()).collect();
        self.reads.planner.loops.push(finished.body);
        Ok((self.reads.planner.loops.len() - 1, sources, params))
    }

    /// Whether each window is folded on its own: windows hardly overlap, or an event may reach beyond its window, where it would belong to
    /// another block.
    fn is_sparse(&mut self) -> bool {
        let domain = self.reads.domain();
        let range = self.reads.found().ranges[self.range].clone();
        let axis = &self.reads.planner.facts[&self.stream].axis;
        let timelines = self.reads.planner.timelines;
        let on_itself = matches!(domain, Domain::On(here)
            if timelines.of(*here) == timelines.of(self.stream));
        let ends_inside = range.steady
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

    fn by_count(&mut self) -> bool {
        let range = &self.reads.found().ranges[self.range];
        matches!(range.bounds, Bounds::Ordinal { .. })
    }

    /// Adds a window with the given slots and returns the columns: two of each slot.
    fn window(
        &mut self,
        kind: Kind,
        slots: &dyn Fn(&mut StageReads, &mut Body, ValueId, Valid) -> Result<Vec<(Combine, ValueId)>>,
        guard: Guard,
        anchor: Option<usize>,
    ) -> Result<Vec<ValueId>> {
        let mut shape = Vec::new();
        let mut sources = Vec::new();
        let mut params = Vec::new();
        let mut loop_of = |this: &mut Self, backward: bool| -> Result<usize> {
            let (number, s, p) = this.build(|reads, body, value, valid| {
                let slots = slots(reads, body, value, valid)?;
                let mut finished = Vec::new();
                shape = slots.iter().map(|(op, v)| (*op, body.ty(*v))).collect();
                for (op, value) in slots {
                    let ty = body.ty(value);
                    let neutral = body.constant(op.neutral(ty));
                    let counts = body.truth(valid);
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
        let algorithm = match kind {
            Kind::Prefix => Algorithm::Prefix { forward },
            Kind::Blocks => Algorithm::Blocks {
                forward,
                backward: loop_of(self, true)?,
            },
            Kind::Fold => Algorithm::Fold {
                forward,
                backward: loop_of(self, true)?,
            },
        };
        let plan = WindowPlan {
            range: self.range,
            algorithm,
            sources,
            params,
            anchor,
            guard,
            slots: shape.clone(),
            what: self.what.clone(),
        };
        let steady = self.reads.found().ranges[self.range].steady;
        let windows = &mut self.reads.found().windows;
        windows.push(plan);
        let window = windows.len() - 1;
        let by = if steady || kind == Kind::Fold {
            By::Row
        } else {
            By::Index
        };
        let mut columns = Vec::new();
        for (slot, (_, ty)) in shape.iter().enumerate() {
            for (side, name) in [(0, "early"), (1, "late")] {
                let source = Source::Window {
                    window,
                    column: 2 * slot + side,
                };
                let access = self.reads.access(self.body, source, name, *ty, by, false);
                columns.push(self.body.load(access));
            }
        }
        Ok(columns)
    }

    /// A combination of doubles in the pinned order.
    fn float(
        &mut self,
        op: Combine,
        of: fn(&mut Body, ValueId) -> ValueId,
    ) -> Result<ValueId> {
        self.check_places()?;
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

    /// Whether places of contributions are positions, as loops take them.
    fn check_places(&mut self) -> Result<()> {
        let timeline = self.reads.planner.timelines.of(self.stream);
        let running = matches!(
            self.reads.found().ranges[self.range].bounds,
            Bounds::Time { lo: None, .. }
        );
        match timeline {
            Timeline::Grid { .. } if running => {
                Err(Unsupported("a running reduction of floats over a grid".into()))
            }
            Timeline::Own(_) if self.contributes != Valid::Always => {
                Err(Unsupported("a reduction of floats over φ in a join".into()))
            }
            _ => Ok(()),
        }
    }

    /// The exact total of integers, as a 64-bit one.
    fn integer_sum(&mut self, ty: Ty) -> Result<ValueId> {
        let wide = if ty.is_int() && !ty.is_signed() {
            Ty::U64
        } else {
            Ty::I64
        };
        let guard = match (ty.bits(), self.contributes, self.plain_leaf()?) {
            (64, Valid::Always, Some(leaf)) => Guard::Leaf(leaf),
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

    /// The leaf that the map merely reads, if it does.
    fn plain_leaf(&mut self) -> Result<Option<usize>> {
        let mut leaf = None;
        let stream = self.stream;
        self.build(|reads, body, value, _| {
            if let Inst::Load(access) = body.inst(value)
                && let Source::Leaf {
                    leaf: read,
                    stream: of,
                    ..
                } = reads.found().sources[access.index()]
                && of == stream
            {
                leaf = Some(read);
            }
            Ok(Sink::Store {
                columns: Vec::new(),
                streaming: false,
            })
        })?;
        self.reads.planner.loops.pop();
        Ok(leaf)
    }

    /// A total by subtracting running ones, or by folding.
    fn difference(
        &mut self,
        slots: &dyn Fn(&mut StageReads, &mut Body, ValueId, Valid) -> Result<Vec<(Combine, ValueId)>>,
        guard: Guard,
    ) -> Result<ValueId> {
        if self.is_sparse() {
            let columns = self.window(Kind::Fold, slots, guard, None)?;
            return Ok(self.body.binary(Binary::Add, columns[0], columns[1]));
        }
        let columns = self.window(Kind::Prefix, slots, guard, None)?;
        Ok(self.body.binary(Binary::Sub, columns[1], columns[0]))
    }

    /// How many contributions, and where there is one.
    fn count(&mut self, contributes: Valid) -> Result<(ValueId, Valid)> {
        if contributes == Valid::Always {
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
        let kind = if self.is_sparse() {
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
        let found = self.body.binary(op, columns[0], columns[1]);
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

/// Which kind of loops a window has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blocks,
    Prefix,
    Fold,
}

fn identity(_: &mut Body, value: ValueId) -> ValueId {
    value
}

fn square(body: &mut Body, value: ValueId) -> ValueId {
    body.binary(Binary::Mul, value, value)
}

/// Bits that are zero above the magnitude of an integer.
fn magnitude(body: &mut Body, value: ValueId) -> ValueId {
    if body.ty(value) == Ty::U64 {
        return value;
    }
    let sign = body.int(Ty::I64, 63);
    let sign = body.binary(Binary::Shr, value, sign);
    let magnitude = body.binary(Binary::Xor, value, sign);
    body.bits(magnitude, Ty::U64)
}

/// A signed integer that orders like the float: -0 below +0, and NaN such that it loses.
fn key_of(body: &mut Body, value: ValueId, op: Combine) -> ValueId {
    let ty = body.ty(value);
    let (int, top) = if ty == Ty::F32 {
        (Ty::I32, 31)
    } else {
        (Ty::I64, 63)
    };
    let bits = body.bits(value, int);
    let shift = body.int(int, top);
    let sign = body.binary(Binary::Shr, bits, shift);
    let low = body.int(int, (1i64 << top).wrapping_sub(1));
    let flip = body.binary(Binary::And, sign, low);
    let key = body.binary(Binary::Xor, bits, flip);
    let neutral = body.constant(op.neutral(int));
    let is_nan = body.compare(Compare::Ne, value, value);
    body.select(is_nan, neutral, key)
}

/// The float of a key; the neutral key, which only NaN has, is NaN.
fn value_of(body: &mut Body, key: ValueId, ty: Ty) -> ValueId {
    let int = body.ty(key);
    let top = i64::from(int.bits() - 1);
    let shift = body.int(int, top);
    let sign = body.binary(Binary::Shr, key, shift);
    let low = body.int(int, (1i64 << top).wrapping_sub(1));
    let flip = body.binary(Binary::And, sign, low);
    let bits = body.binary(Binary::Xor, key, flip);
    body.bits(bits, ty)
}

mod moments;
