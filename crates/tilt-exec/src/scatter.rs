//! Windows by key in one pass over the rows of all keys.
//!
//! Time is cut into panes of the grid's period. A pane has one state for each key and slot, in dense arrays: a loop computes what
//! a chunk of rows contributes and which of them count, and each contribution is joined to the state of its row's key. Where most rows
//! count, all are joined, those that do not as neutral elements, otherwise only those that do: without a branch on a row either way. A
//! window joins the states of its panes; the stage's main loop then runs over the keys.
//!
//! Doubles are joined in the pinned order ([`ordered`]), which counts places from where a window is split. So their windows are single
//! panes that begin there: rows come from the split on, and pieces hold whole panes.

use std::{collections::HashMap, ops::Range, time::Instant};

use rayon::prelude::*;
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{AccessId, Combine, Inst, Loop, ParamId, Sink, Slot as Combined, Store, Ty, ValueId},
};
use tilt_data::{Spans, Timeline};
use tilt_ir::{Bounds, Clock, Id, Program, Span, StreamId, is_strict};

use crate::{
    code::Code,
    control::Control,
    keyed::{Output, RowKeys, leaf_types},
    keys::{Ids, Keys},
    pieces::pool,
    plan::{Domain, ParamSource, Plan, Source, Stage},
    reads::SAME,
    run::Trouble,
    scatter::{cells::Cells, ordered::Ordered, piece::Piece},
    series::Series,
    stats,
    window::{Algorithm, Guard},
};

mod cells;
mod columns;
mod contributions;
mod ordered;
mod piece;

/// Windows of more panes are left to the general path.
const MAX_PANES: i64 = 1 << 10;
/// States that need more memory are left to the general path.
const MAX_BYTES: usize = 1 << 30;

/// How the windows of a plan's only stage are computed in one pass.
#[derive(Debug)]
pub(crate) struct ScatterPlan {
    period: i64,
    /// Pane `p` is `(phase + p·period, phase + (p+1)·period]`.
    phase: i64,
    /// Window `j` belongs to the cell that ends at `phase + j·period - lead`.
    lead: i64,
    /// The panes of each range of window `j`, less `j`.
    ranges: Vec<Range<i64>>,
    contributions: Contributing,
    slots: Vec<Slot>,
}

/// What rows contribute to all windows of the stage. One loop says which rows count and computes what they do not hold themselves.
#[derive(Default, Debug)]
struct Contributing {
    /// The loop's number, unless there is nothing to compute.
    number: Option<usize>,
    sources: Vec<Source>,
    params: Vec<ParamSource>,
    /// How many columns of the loop say which rows count: the first ones.
    masks: usize,
    columns: Vec<Column>,
    /// The columns of each window's slots.
    of_windows: Vec<Vec<usize>>,
}

/// What rows contribute to a state.
#[derive(Clone, Copy, Debug)]
struct Column {
    op: Combine,
    ty: Ty,
    values: Values,
    /// The mask of rows that count, if not all do.
    counts: Option<usize>,
    /// Whether a total of it may overflow.
    watched: bool,
}

/// Where the values of a column are.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// In a leaf of the input, words.
    Held(usize),
    /// They are all the same.
    Same(u64),
    /// In a column of the loop.
    Computed(usize),
    /// Nobody asks.
    Unread,
}

/// A state of every key and pane.
#[derive(PartialEq, Debug)]
struct Slot {
    range: usize,
    op: Combine,
    ty: Ty,
    /// What is contributed, a column; if nothing, how many rows there are.
    of: Option<usize>,
}

impl ScatterPlan {
    /// Whether rows of a key are joined in order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.slots.iter().any(Slot::is_ordered)
    }
}

impl Slot {
    /// Whether rows are joined in order.
    fn is_ordered(&self) -> bool {
        Ordered::supports(self.op, self.ty)
    }
}

/// Whether it is worth asking for a plan: a grid that reads one keyed input and nothing else.
pub(crate) fn may_apply(program: &Program) -> Option<StreamId> {
    let temporal = program.streams[program.output].as_temporal()?;
    let mut streams = Vec::new();
    program.walk(temporal.body, &mut |_, expr| streams.extend(expr.stream()));
    let input = *streams.first()?;
    let is_keyed = program.streams[input].as_input()?.key.is_some();
    let only = streams.iter().all(|stream| *stream == input);
    (is_keyed && only && matches!(temporal.clock, Clock::Every { .. })).then_some(input)
}

/// The plan for one pass, whose loops it adds; `None` if the stages need more than that.
pub(crate) fn plan(
    program: &Program,
    stages: &[Stage],
    loops: &mut Vec<Loop>,
) -> Option<ScatterPlan> {
    let input = may_apply(program)?;
    let [stage] = stages else { return None };
    let Domain::Grid { period, offset } = stage.domain else {
        return None;
    };
    // A key without contributions to a window has no event there.
    let temporal = program.streams[stage.stream].as_temporal()?;
    let is_constant = |p: &ParamSource| {
        matches!(
            p,
            ParamSource::Text(_) | ParamSource::RunStart | ParamSource::RunEnd
        )
    };
    if !is_strict(program, temporal.body)
        || !stage.calls.is_empty()
        || !stage.facts.nullable
        || !stage.params.iter().all(is_constant)
    {
        return None;
    }
    let mut lead = None;
    let mut ranges = Vec::new();
    for range in &stage.ranges {
        let Bounds::Time { hi, .. } = range.bounds else {
            return None;
        };
        let lead = *lead.get_or_insert(hi);
        let (length, distance) = (range.length()?, hi.checked_sub(lead)?);
        if range.stream != input
            || range.is_steady()
            || length % period != 0
            || distance % period != 0
        {
            return None;
        }
        let end = distance / period;
        ranges.push(end - length / period..end);
    }
    let lead = lead?;
    let phase = (i128::from(offset) + i128::from(lead)).rem_euclid(i128::from(period)) as i64;
    // Windows are split where they begin, so all of a pane is the late part of one.
    let in_order = |range: usize| ranges[range].end - ranges[range].start == 1 && phase == 0;
    let contributions = contributing(stage, input, loops)?;
    let mut slots: Vec<Slot> = Vec::new();
    for source in &stage.sources {
        let slot = match source {
            Source::Window { window, column } => {
                let range = stage.windows[*window].range;
                let of = contributions.of_windows[*window][column / 2];
                let Column { op, ty, .. } = contributions.columns[of];
                let of = Some(of);
                let slot = Slot { range, op, ty, of };
                let is_in_order = slot.is_ordered() && in_order(range);
                (Cells::supports(op, ty) || is_in_order).then_some(slot)
            }
            Source::RangeFirst(range) | Source::RangeEnd(range) => Some(Slot {
                range: *range,
                op: Combine::Add,
                ty: Ty::U32,
                of: None,
            }),
            _ => None,
        }?;
        if !slots.contains(&slot) {
            slots.push(slot);
        }
    }
    Some(ScatterPlan {
        period,
        phase,
        lead,
        ranges,
        contributions,
        slots,
    })
}

/// The loop that computes what rows contribute to all windows of a stage.
fn contributing(stage: &Stage, input: StreamId, loops: &mut Vec<Loop>) -> Option<Contributing> {
    let mut all: Option<Loop> = None;
    let (mut sources, mut params, mut of_windows) = (Vec::new(), Vec::new(), Vec::new());
    for window in &stage.windows {
        let from_row = |source: &Source| matches!(source, Source::Leaf { stream, locate, .. } if *stream == input && *locate == SAME);
        let is_text = |p: &ParamSource| matches!(p, ParamSource::Text(_));
        // Windows that are computed row by row combine nothing.
        let by_rows = matches!(window.algorithm, Algorithm::Rows { .. });
        if by_rows || !window.sources.iter().all(from_row) || !window.params.iter().all(is_text) {
            return None;
        }
        let mut body = loops[window.contributions()].clone();
        let (Sink::Fold { slots, .. } | Sink::Scan { slots, .. } | Sink::Slide { slots, .. }) =
            body.sink
        else {
            return None;
        };
        let (slots, backward) = (slots, false);
        body.sink = Sink::Fold { slots, backward };
        let place = |at: Option<usize>| at.map(AccessId::new);
        let accesses: Vec<_> = window
            .sources
            .iter()
            .map(|s| place(find(&sources, s)))
            .collect();
        let place = |at: Option<usize>| at.map(ParamId::new);
        let given: Vec<_> = window
            .params
            .iter()
            .map(|p| place(find(&params, p)))
            .collect();
        let added = |source: &&Source| !sources.contains(source);
        let added: Vec<Source> = window.sources.iter().filter(added).cloned().collect();
        sources.extend(added);
        let added = |param: &&ParamSource| !params.contains(param);
        let added: Vec<ParamSource> = window.params.iter().filter(added).cloned().collect();
        params.extend(added);
        let (body, columns) = match all {
            None => (body, (0..window.slots.len()).collect()),
            Some(all) => all.beside(&body, &accesses, &given)?,
        };
        all = Some(body);
        of_windows.push(columns);
    }
    let Some(mut all) = all else {
        return Some(Contributing::default());
    };
    let Sink::Fold { slots, .. } = &all.sink else {
        return None;
    };
    let (mut masks, mut computed, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for slot in slots {
        let (value, counts) = chosen(&all, *slot);
        let counts = counts.map(|counts| find_or_add(&mut masks, counts));
        let ty = all.ty(value);
        let values = match all.values[value].inst {
            // Magnitudes: those of the sum tell.
            _ if slot.op == Combine::Or => Values::Unread,
            Inst::Load(access) if ty.bits() == 64 => match sources[access.index()] {
                Source::Leaf { leaf, .. } => Values::Held(leaf),
                _ => return None,
            },
            Inst::Const(imm) => Values::Same(imm.bits),
            _ => {
                computed.push(value);
                Values::Computed(computed.len() - 1)
            }
        };
        columns.push(Column {
            op: slot.op,
            ty,
            values,
            counts,
            watched: false,
        });
    }
    for (window, slots) in stage.windows.iter().zip(&of_windows) {
        if window.guard == Guard::Slot {
            columns[slots[0]].watched = true;
        }
    }
    for column in &mut columns {
        if let Values::Computed(number) = &mut column.values {
            *number += masks.len();
        }
    }
    let valid = None;
    let stores = masks.iter().chain(&computed);
    let stores: Vec<Store> = stores
        .map(|value| Store {
            value: *value,
            valid,
        })
        .collect();
    let number = (!stores.is_empty()).then(|| {
        all.sink = Sink::Store {
            columns: stores,
            streaming: false,
        };
        loops.push(all);
        loops.len() - 1
    });
    Some(Contributing {
        number,
        sources,
        params,
        masks: masks.len(),
        columns,
        of_windows,
    })
}

fn find<T: PartialEq>(all: &[T], one: &T) -> Option<usize> {
    all.iter().position(|other| other == one)
}

fn find_or_add(all: &mut Vec<ValueId>, one: ValueId) -> usize {
    find(all, &one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// What a slot combines, and where, if not everywhere.
fn chosen(body: &Loop, slot: Combined) -> (ValueId, Option<ValueId>) {
    let neutral = Inst::Const(slot.op.neutral(body.ty(slot.value)));
    match body.values[slot.value].inst {
        Inst::Select(counts, value, otherwise) if body.values[otherwise].inst == neutral => {
            (value, Some(counts))
        }
        _ => (slot.value, None),
    }
}

/// A run in one pass.
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) plan: &'a Plan,
    pub(crate) scatter: &'a ScatterPlan,
    pub(crate) code: &'a Code,
    /// The rows, points in time.
    pub(crate) series: &'a Series,
    pub(crate) keys: &'a Keys,
    pub(crate) ids: &'a Ids,
    pub(crate) run: Span,
    pub(crate) part: Span,
    pub(crate) texts: &'a HashMap<String, u32>,
    pub(crate) threads: usize,
    pub(crate) control: &'a Control,
}

impl Job<'_> {
    /// The output, or `None` where the general path does better or may know more.
    pub(crate) fn run(&self) -> Option<Output> {
        let scatter = self.scatter;
        let first = scatter.ranges.iter().map(|r| r.start).min()?;
        let end = scatter.ranges.iter().map(|r| r.end).max()?;
        if end - first > MAX_PANES {
            return None;
        }
        let timeline = &self.series.axis.timeline;
        let rows = timeline.len();
        let last = rows.checked_sub(1)?;
        let (low, high) = (self.pane_of(0)?, self.pane_of(last)?);
        // From the first window that ends in the first pane to the last one that begins in the last.
        let mut windows =
            low.checked_sub(end)?.checked_add(1)?..high.checked_sub(first)?.checked_add(1)?;
        // All edges that are computed are times.
        self.end_of(windows.start)?;
        self.end_of(windows.end)?;
        self.edge(windows.start.checked_add(first)?)?;
        self.edge(windows.end.checked_add(end)?)?;
        let after = |t: i64| {
            let distance = i128::from(t) + i128::from(scatter.lead) - i128::from(scatter.phase);
            distance.div_euclid(i128::from(scatter.period)) + 1
        };
        let clamp = |j: i128| j.clamp(windows.start.into(), windows.end.into()) as i64;
        windows = clamp(after(self.part.start))..clamp(after(self.part.end));

        let panes = (end - first) as usize;
        let keys = self.keys.len();
        let bytes: usize = scatter.slots.iter().map(|slot| slot.ty.bytes()).sum();
        let bytes = bytes.max(1).checked_mul(keys)?.checked_mul(panes + 1)?;
        let ordered = scatter.slots.iter().filter(|s| s.is_ordered()).count();
        let ordered = keys.checked_mul(ordered * Ordered::BYTES)?;
        if bytes.checked_add(ordered)? > MAX_BYTES {
            return None;
        }
        // Keys that most panes have no row of are marked where they have one.
        let visited = u64::try_from(high - low + 1)
            .unwrap_or(u64::MAX)
            .min(rows as u64);
        let is_sparse = self.keys.len() as u64 > 2 * (rows as u64 / visited);
        if is_sparse
            && (self.keys.len() as u64 / 64).saturating_mul(visited) > (1 << 20) + 64 * rows as u64
        {
            return None;
        }
        let pieces = self.pieces(&windows, end);
        let piece = |windows: &Range<i64>| {
            let mut piece = Piece::new(self, first..end, is_sparse);
            let begun = self.control.stats().map(|_| Instant::now());
            piece.run(windows.clone())?;
            if let (Some(stats), Some(begun)) = (self.control.stats(), begun) {
                let stage = &self.plan.stages[0];
                let read = stats::bytes_of(stage, self.series) / pieces.len() as u64;
                let bits = stats::row_bits(&self.plan.loops[stage.main]);
                stats.piece();
                stats.stage(0, 1, piece.out.ends.len(), read, bits, begun.elapsed());
            }
            Ok(piece)
        };
        let done: Result<Vec<Piece>, Trouble> = if pieces.len() > 1 {
            pool(self.threads).install(|| pieces.par_iter().map(piece).collect())
        } else {
            pieces.iter().map(piece).collect()
        };
        let done = done.ok()?;
        let magnitude = done.iter().fold(0, |all, piece| all | piece.magnitude);
        let widest = done.iter().map(|piece| piece.widest).max().unwrap_or(0);
        // No total is greater than all bits of its terms times their count.
        if magnitude > 0 && 64 - magnitude.leading_zeros() + 64 - widest.leading_zeros() > 62 {
            return None;
        }
        let mut columns = done.into_iter().map(|piece| piece.out);
        let mut all = columns.next()?;
        if pieces.len() > 1 {
            pool(self.threads).install(|| columns.for_each(|next| all.append(next)));
        }
        let types = leaf_types(self.program.stream_dtype(self.program.output));
        Some(Output {
            timeline: Timeline::explicit(
                std::mem::take(&mut all.ends).into(),
                Spans::Fixed(scatter.period),
            ),
            keys: RowKeys::Ids(std::mem::take(&mut all.ids)),
            leaves: all.into_arrays(&types),
        })
    }

    /// Windows with about as many rows for each thread.
    fn pieces(&self, windows: &Range<i64>, end: i64) -> Vec<Range<i64>> {
        let rows = self.series.axis.len();
        let mut pieces = Vec::new();
        let mut start = windows.start;
        for i in 1..=self.threads {
            let stop = if i == self.threads {
                windows.end
            } else {
                let pane = self.pane_of(rows * i / self.threads).unwrap_or(windows.end);
                pane.saturating_sub(end)
                    .saturating_add(1)
                    .clamp(start, windows.end)
            };
            if start < stop || i == self.threads && pieces.is_empty() {
                pieces.push(start..stop);
            }
            start = stop.max(start);
        }
        pieces
    }

    /// The pane that a row is in.
    fn pane_of(&self, row: usize) -> Option<i64> {
        let end = self.series.axis.timeline.end(row);
        let distance = i128::from(end) - 1 - i128::from(self.scatter.phase);
        i64::try_from(distance.div_euclid(i128::from(self.scatter.period))).ok()
    }

    /// Where a pane begins.
    fn edge(&self, pane: i64) -> Option<i64> {
        self.scatter
            .phase
            .checked_add(pane.checked_mul(self.scatter.period)?)
    }

    /// Where the cell of a window ends.
    fn end_of(&self, window: i64) -> Option<i64> {
        self.edge(window)?.checked_sub(self.scatter.lead)
    }
}

impl Job<'_> {
    fn param(&self, param: &ParamSource) -> u64 {
        match param {
            ParamSource::Text(text) => u64::from(self.texts[text]),
            ParamSource::RunStart => self.run.start as u64,
            ParamSource::RunEnd => self.run.end as u64,
            other => unreachable!("{other:?} is no parameter of a window by key"),
        }
    }

    /// Calls a loop over some rows.
    ///
    /// # Safety
    /// Views and targets cover the rows up to a whole group.
    unsafe fn call(
        &self,
        number: usize,
        views: &[View],
        targets: &[Target],
        params: &[u64],
        rows: usize,
    ) {
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first: 0,
            rows: rows as u64,
            ahead: tilt_codegen::abi::nothing_ahead(),
            step: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { self.code.call(&self.plan.loops, number, &args) }
    }
}
