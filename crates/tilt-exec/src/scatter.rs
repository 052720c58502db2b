//! Windows by key in one pass over the rows of all keys.
//!
//! Time is cut into panes of the grid's period. A pane has one state for each key and slot, in dense arrays: a loop computes what
//! a chunk of rows contributes (the neutral element where a row does not count), and each contribution is joined to the state of
//! its row's key, without a branch. A window joins the states of its panes; the stage's main loop then runs over the keys.

use std::{collections::HashMap, ops::Range};

use rayon::prelude::*;
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{By, Combine, LANES, Loop, Sink, Store, Ty},
};
use tilt_data::{Spans, Timeline};
use tilt_ir::{Bounds, Clock, Program, Span, StreamId, is_strict};

use crate::{
    code::Code,
    keyed::{Output, leaf_types},
    keys::{Ids, Keys},
    memory::Scratch,
    pieces::pool,
    plan::{Domain, ParamSource, Plan, Source, Stage},
    reads::SAME,
    run::{CHUNK, Shared},
    scatter::{
        cells::{Cells, combine, gather, scatter},
        columns::Columns,
    },
    series::Series,
    view,
    window::Algorithm,
};

mod cells;
mod columns;

/// Windows of more panes are left to the general path.
const MAX_PANES: i64 = 1 << 10;
/// States that need more memory are left to the general path.
const MAX_BYTES: usize = 1 << 30;

/// How the windows of a plan's only stage are computed in one pass.
#[derive(Debug)]
pub(crate) struct ScatterPlan {
    pub(crate) input: StreamId,
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
pub(crate) fn plan(program: &Program, stages: &[Stage], loops: &mut Vec<Loop>) -> Option<ScatterPlan> {
    let input = may_apply(program)?;
    let [stage] = stages else { return None };
    let Domain::Grid { period, offset } = stage.domain else {
        return None;
    };
    // A key without contributions to a window has no event there.
    let temporal = program.streams[stage.stream].as_temporal()?;
    let is_constant = |p: &ParamSource| {
        matches!(p, ParamSource::Text(_) | ParamSource::RunStart | ParamSource::RunEnd)
    };
    if !is_strict(program, temporal.body) || !stage.facts.nullable || !stage.params.iter().all(is_constant) {
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
        if range.stream != input || range.steady || length % period != 0 || distance % period != 0 {
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
                let (op, ty) = plan.slots[column / 2];
                let of = Some((*window, column / 2));
                (Cells::supports(op, ty)).then_some(Slot { range: plan.range, op, ty, of })
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
        let from_row = |source: &Source| {
            matches!(source, Source::Leaf { stream, locate, .. } if *stream == input && *locate == SAME)
        };
        let is_text = |p: &ParamSource| matches!(p, ParamSource::Text(_));
        if !window.sources.iter().all(from_row) || !window.params.iter().all(is_text) {
            return None;
        }
        let (Algorithm::Fold { forward, .. } | Algorithm::Blocks { forward, .. } | Algorithm::Prefix { forward }) =
            window.algorithm;
        let mut body = loops[forward].clone();
        let (Sink::Fold { slots, .. } | Sink::Scan { slots, .. }) = &body.sink else {
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
        input,
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
        let (low, high) = (self.pane_of(0)?, self.pane_of(rows.checked_sub(1)?)?);
        // From the first window that ends in the first pane to the last one that begins in the last.
        let mut windows = low.checked_sub(end)?.checked_add(1)?..high.checked_sub(first)?.checked_add(1)?;
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
        if bytes.max(1).checked_mul(self.keys.len())?.checked_mul(panes + 1)? > MAX_BYTES {
            return None;
        }
        // Keys that most panes have no row of are marked where they have one.
        let visited = u64::try_from(high - low + 1).unwrap_or(u64::MAX).min(rows as u64);
        let is_sparse = self.keys.len() as u64 > 2 * (rows as u64 / visited);
        if is_sparse && (self.keys.len() as u64 / 64).saturating_mul(visited) > (1 << 20) + 64 * rows as u64 {
            return None;
        }
        let pieces = self.pieces(&windows, end);
        let piece = |windows: &Range<i64>| {
            let mut piece = Piece::new(self, first..end, is_sparse);
            piece.run(windows.clone());
            piece
        };
        let done: Vec<Piece> = if pieces.len() > 1 {
            pool(self.threads).install(|| pieces.par_iter().map(piece).collect())
        } else {
            pieces.iter().map(piece).collect()
        };
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
            timeline: Timeline::explicit(std::mem::take(&mut all.ends).into(), Spans::Fixed(scatter.period)),
            ids: std::mem::take(&mut all.ids),
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
                pane.saturating_sub(end).saturating_add(1).clamp(start, windows.end)
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
        self.scatter.phase.checked_add(pane.checked_mul(self.scatter.period)?)
    }

    /// Where the cell of a window ends.
    fn end_of(&self, window: i64) -> Option<i64> {
        self.edge(window)?.checked_sub(self.scatter.lead)
    }
}

/// Some windows while they are computed, with states of their own.
struct Piece<'a> {
    job: &'a Job<'a>,
    stage: &'a Stage,
    /// The panes of a window, less its number.
    reach: Range<i64>,
    is_sparse: bool,
    /// Pane `p` is at `p` modulo their number.
    panes: Vec<Pane>,
    /// What windows read: states of several panes joined, or those of some keys.
    totals: Vec<Cells>,
    neutral: Vec<Cells>,
    contributions: Vec<Vec<Cells>>,
    ids: Vec<u32>,
    /// The keys that a window is computed for, if not all.
    candidates: Vec<u32>,
    /// Where the main loop writes, and what is kept of it.
    written: Vec<Shared>,
    out: Columns,
    magnitude: u64,
    widest: u64,
    scratch: Scratch,
}

struct Pane {
    states: Vec<Cells>,
    /// A bit for each key that has a row, if that is kept.
    touched: Vec<u64>,
    rows: usize,
}

impl<'a> Piece<'a> {
    fn new(job: &'a Job<'a>, reach: Range<i64>, is_sparse: bool) -> Self {
        let stage = &job.plan.stages[0];
        let slots = &job.scatter.slots;
        let keys = job.keys.len();
        let states = |len: usize| -> Vec<Cells> {
            slots.iter().map(|slot| Cells::new(slot.op, slot.ty, len)).collect()
        };
        let pane = || Pane {
            states: states(keys),
            touched: vec![0; if is_sparse { keys.div_ceil(64) } else { 0 }],
            rows: 0,
        };
        let direct = reach.end - reach.start == 1 && !is_sparse;
        let contributions = stage.windows.iter().map(|window| {
            let cells = window.slots.iter().map(|(op, ty)| Cells::new(*op, *ty, CHUNK));
            cells.collect()
        });
        let main = &job.plan.loops[stage.main];
        let Sink::Store { columns, .. } = &main.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let written = columns
            .iter()
            .map(|c| Shared::new(main.ty(c.value), c.valid.is_some(), CHUNK));
        let written: Vec<Shared> = written.collect();
        Self {
            job,
            stage,
            is_sparse,
            panes: reach.clone().map(|_| pane()).collect(),
            reach,
            totals: states(if direct { 0 } else { keys }),
            neutral: states(CHUNK),
            contributions: contributions.collect(),
            ids: vec![0; CHUNK],
            candidates: Vec::new(),
            out: Columns::new(&written, stage.facts.leaves.len()),
            written,
            magnitude: 0,
            widest: 0,
            scratch: Scratch::default(),
        }
    }

    fn run(&mut self, windows: Range<i64>) {
        let timeline = &self.job.series.axis.timeline;
        let mut next = windows.start + self.reach.start;
        let mut row = timeline.ends_until(self.job.edge(next).unwrap_or(i64::MIN));
        let mut window = windows.start;
        while window < windows.end {
            if self.panes.iter().all(|pane| pane.rows == 0) {
                // Nothing until the window that ends in the next row's pane.
                let Some(pane) = (row < timeline.len()).then(|| self.job.pane_of(row)).flatten() else {
                    return;
                };
                window = window.max(pane - self.reach.end + 1);
                next = next.max(window + self.reach.start);
                if window >= windows.end {
                    return;
                }
            }
            while next < window + self.reach.end {
                let edge = self.job.edge(next + 1).unwrap_or(i64::MAX);
                let rows = row..row + rows_until(timeline, row, edge);
                row = rows.end;
                self.fill(next, rows);
                next += 1;
            }
            let rows: usize = self.panes.iter().map(|pane| pane.rows).sum();
            self.widest = self.widest.max(rows as u64);
            if rows > 0 {
                self.emit(window);
            }
            window += 1;
        }
    }

    fn at(&self, pane: i64) -> usize {
        pane.rem_euclid(self.panes.len() as i64) as usize
    }

    /// Forgets the pane that was in the same place, and joins the rows of this one to its states.
    fn fill(&mut self, pane: i64, rows: Range<usize>) {
        let at = self.at(pane);
        let pane = &mut self.panes[at];
        if pane.rows > 0 {
            if self.is_sparse {
                let touched = &mut pane.touched;
                for state in &mut pane.states {
                    bits(touched).for_each(|key| state.clear(key));
                }
                touched.fill(0);
            } else {
                pane.states.iter_mut().for_each(Cells::clear_all);
            }
        }
        pane.rows = rows.len();
        for start in rows.clone().step_by(CHUNK) {
            let chunk = start..rows.end.min(start + CHUNK);
            self.job.ids.read(chunk.clone(), &mut self.ids);
            self.contribute(&chunk);
            let ids = &self.ids[..chunk.len()];
            let pane = &mut self.panes[at];
            if self.is_sparse {
                for id in ids {
                    pane.touched[*id as usize / 64] |= 1 << (id % 64);
                }
            }
            for (slot, state) in self.job.scatter.slots.iter().zip(&mut pane.states) {
                let values = slot.of.map(|(window, slot)| &self.contributions[window][slot]);
                scatter(ids, values, state);
            }
        }
    }

    /// What rows contribute to each window of the stage.
    fn contribute(&mut self, rows: &Range<usize>) {
        let job = self.job;
        for (number, window) in self.stage.windows.iter().enumerate() {
            self.scratch.reset();
            let scratch = &mut self.scratch;
            let body = &job.plan.loops[job.scatter.loops[number]];
            let views: Vec<View> = window
                .sources
                .iter()
                .zip(body.accesses.iter())
                .map(|(source, (_, access))| {
                    let Source::Leaf { leaf, .. } = source else {
                        unreachable!("rows contribute what they hold")
                    };
                    let leaf = &job.series.leaves[*leaf];
                    view::rows(leaf, rows.start as i64, rows.len(), access.nullable, scratch)
                })
                .collect();
            let targets = self.contributions[number].iter_mut().map(Cells::target);
            let targets: Vec<Target> = targets.collect();
            let params: Vec<u64> = window.params.iter().map(|p| self.job.param(p)).collect();
            // SAFETY: views and targets cover the rows up to a whole group.
            unsafe {
                job.call(job.scatter.loops[number], &views, &targets, &params, rows.len());
            }
            if window.guarded {
                let bits = self.contributions[number].last().map_or(0, |c| c.join_bits(rows.len()));
                self.magnitude |= bits;
            }
        }
    }

    /// Computes a window for all keys that may have an event.
    fn emit(&mut self, window: i64) {
        let job = self.job;
        let keys = job.keys.len();
        let mut rows = keys;
        if self.is_sparse {
            let mut all = self.panes[0].touched.clone();
            for pane in &self.panes[1..] {
                all.iter_mut().zip(&pane.touched).for_each(|(a, b)| *a |= b);
            }
            self.candidates.clear();
            self.candidates.extend(bits(&all).map(|key| key as u32));
            rows = self.candidates.len();
        }
        let direct = self.panes.len() == 1 && !self.is_sparse;
        if !direct {
            for (number, slot) in job.scatter.slots.iter().enumerate() {
                self.totals[number].clear_first(rows);
                let range = &job.scatter.ranges[slot.range];
                for pane in window + range.start..window + range.end {
                    let pane = &self.panes[self.at(pane)];
                    let total = &mut self.totals[number];
                    if pane.rows == 0 {
                        continue;
                    }
                    if self.is_sparse {
                        gather(total, &pane.states[number], &self.candidates);
                    } else {
                        combine(total, &pane.states[number]);
                    }
                }
            }
        }
        let end = job.end_of(window).unwrap_or(i64::MAX);
        for start in (0..rows).step_by(CHUNK) {
            let chunk = start..rows.min(start + CHUNK);
            self.compute(chunk.clone(), direct);
            let candidates = self.is_sparse.then_some(&self.candidates[..]);
            self.out.keep(&self.written, chunk, candidates, end);
        }
    }

    /// The main loop for some keys.
    fn compute(&mut self, rows: Range<usize>, direct: bool) {
        let job = self.job;
        let states = if direct { &self.panes[0].states } else { &self.totals };
        let main = &job.plan.loops[self.stage.main];
        let slot_of = |wanted: Option<(usize, usize)>, range: usize| {
            let is = |slot: &Slot| slot.of == wanted && (wanted.is_some() || slot.range == range);
            job.scatter.slots.iter().position(is).expect("a slot for every source")
        };
        self.scratch.reset();
        let index = self.scratch.slice::<u32>(CHUNK);
        index.iter_mut().enumerate().for_each(|(row, index)| *index = row as u32);
        let views: Vec<View> = self
            .stage
            .sources
            .iter()
            .zip(main.accesses.iter())
            .map(|(source, (_, access))| {
                // The late part is all of a window, the early part and its first position are nothing.
                let (slot, is_late) = match source {
                    Source::Window { window, column } => {
                        (slot_of(Some((*window, column / 2)), 0), column % 2 == 1)
                    }
                    Source::RangeFirst(range) => (slot_of(None, *range), false),
                    Source::RangeEnd(range) => (slot_of(None, *range), true),
                    _ => unreachable!("windows by key read nothing else"),
                };
                let mut view = if is_late {
                    states[slot].view(rows.start)
                } else {
                    self.neutral[slot].view(0)
                };
                if access.by == By::Index {
                    view.index = index.as_ptr();
                }
                view
            })
            .collect();
        let targets: Vec<Target> = self
            .written
            .iter()
            .map(|column| Target {
                values: column.values.as_ptr(),
                validity: column.validity.as_ref().map_or(std::ptr::null_mut(), |v| v.as_ptr()),
                len: CHUNK as u64,
            })
            .collect();
        let params: Vec<u64> = self.stage.params.iter().map(|p| job.param(p)).collect();
        // SAFETY: states and what is written have room for whole groups, and the index names rows of the chunk.
        unsafe { job.call(self.stage.main, &views, &targets, &params, rows.len()) }
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
    unsafe fn call(&self, number: usize, views: &[View], targets: &[Target], params: &[u64], rows: usize) {
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first: 0,
            rows: rows as u64,
        };
        // SAFETY: the caller's promise.
        unsafe { self.code.call(&self.plan.loops, number, &args) }
    }
}

/// How many rows from `row` on end by `t`, found near `row`.
fn rows_until(timeline: &Timeline, row: usize, t: i64) -> usize {
    let len = timeline.len() - row;
    let (mut low, mut step) = (0, LANES);
    while low + step <= len && timeline.end(row + low + step - 1) <= t {
        low += step;
        step *= 2;
    }
    let mut high = len.min(low + step);
    while low < high {
        let middle = low.midpoint(high);
        if timeline.end(row + middle) <= t {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The numbers of the bits that are set.
fn bits(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut word = *word;
        std::iter::from_fn(move || {
            (word != 0).then(|| {
                let bit = word.trailing_zeros() as usize;
                word &= word - 1;
                at * 64 + bit
            })
        })
    })
}
