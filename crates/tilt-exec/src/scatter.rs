//! Windows by key in one pass over the rows of all keys.
//!
//! Time is cut into panes of the grid's period. A pane has one state for each key and slot, in dense arrays: a loop computes what
//! a chunk of rows contributes (the neutral element where a row does not count), and each contribution is joined to the state of
//! its row's key, without a branch. A window joins the states of its panes; the stage's main loop then runs over the keys.

use std::{collections::HashMap, ops::Range, time::Instant};

use rayon::prelude::*;
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{Combine, Loop, Sink, Store, Ty},
};
use tilt_data::{Spans, Timeline};
use tilt_ir::{Bounds, Clock, Program, Span, StreamId, is_strict};

use crate::{
    code::Code,
    control::Control,
    keyed::{Output, RowKeys, leaf_types},
    keys::{Ids, Keys},
    pieces::pool,
    plan::{Domain, ParamSource, Plan, Source, Stage},
    reads::SAME,
    run::Trouble,
    scatter::{cells::Cells, piece::Piece},
    series::Series,
    stats,
    window::Algorithm,
};

mod cells;
mod columns;
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
    /// What computes the contributions to each window of the stage.
    loops: Vec<usize>,
    slots: Vec<Slot>,
}

/// A state of every key and pane.
#[derive(PartialEq, Debug)]
struct Slot {
    range: usize,
    op: Combine,
    ty: Ty,
    /// A slot of a window, or how many rows there are.
    of: Option<(usize, usize)>,
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
    let mut slots: Vec<Slot> = Vec::new();
    for source in &stage.sources {
        let slot = match source {
            Source::Window { window, column } => {
                let plan = &stage.windows[*window];
                // Windows that are computed row by row have none.
                let (op, ty) = *plan.slots.get(column / 2)?;
                let of = Some((*window, column / 2));
                (Cells::supports(op, ty)).then_some(Slot {
                    range: plan.range,
                    op,
                    ty,
                    of,
                })
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
    let mut numbers = Vec::new();
    for window in &stage.windows {
        let from_row = |source: &Source| matches!(source, Source::Leaf { stream, locate, .. } if *stream == input && *locate == SAME);
        let is_text = |p: &ParamSource| matches!(p, ParamSource::Text(_));
        if !window.sources.iter().all(from_row) || !window.params.iter().all(is_text) {
            return None;
        }
        if matches!(window.algorithm, Algorithm::Rows { .. }) {
            return None;
        }
        let mut body = loops[window.contributions()].clone();
        let (Sink::Fold { slots, .. } | Sink::Scan { slots, .. } | Sink::Slide { slots, .. }) =
            &body.sink
        else {
            return None;
        };
        let columns = slots.iter().map(|slot| Store {
            value: slot.value,
            valid: None,
        });
        body.sink = Sink::Store {
            columns: columns.collect(),
            streaming: false,
        };
        loops.push(body);
        numbers.push(loops.len() - 1);
    }
    let lead = lead?;
    let phase = (i128::from(offset) + i128::from(lead)).rem_euclid(i128::from(period));
    Some(ScatterPlan {
        period,
        phase: phase as i64,
        lead,
        ranges,
        loops: numbers,
        slots,
    })
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
        let bytes: usize = scatter.slots.iter().map(|slot| slot.ty.bytes()).sum();
        if bytes
            .max(1)
            .checked_mul(self.keys.len())?
            .checked_mul(panes + 1)?
            > MAX_BYTES
        {
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
                let bits = stats::row_bits(self.plan, stage);
                stats.piece();
                stats.stage(0, piece.out.ends.len(), read, bits, begun.elapsed());
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
        columns.for_each(|next| all.append(next));
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
