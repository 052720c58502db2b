//! Some windows of a run, with states of their own.

use std::ops::Range;

use tilt_codegen::{
    abi::{Target, View},
    lir::{By, Combine, LANES, Sink},
};
use tilt_data::Timeline;

use crate::{
    control::{ALL_WORK, share},
    memory::{Returned, Scratch, prefetch},
    plan::{Source, Stage},
    run::{CHUNK, Shared, Trouble},
    scan::magnitude,
    scatter::{
        Column, Job, Slot, Values,
        cells::{Cells, combine, count, gather, scatter},
        columns::Columns,
        contributions::{Contributions, Listed, Mask, bits},
        ordered::{Ordered, Places},
    },
    view,
    window::Guard,
};

/// Some windows while they are computed, with states of their own.
pub(super) struct Piece<'a> {
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
    masks: Vec<Mask>,
    contributions: Vec<Contributions>,
    /// What the pane that is filled has of doubles, for each slot of such.
    ordered: Vec<Option<Ordered>>,
    /// If there are any.
    places: Option<Places>,
    ids: Vec<u32>,
    listed: Listed,
    /// The keys that a window is computed for, if not all.
    candidates: Vec<u32>,
    /// Where the main loop writes, and what is kept of it.
    written: Vec<Shared>,
    pub(super) out: Columns,
    pub(super) magnitude: u64,
    pub(super) widest: u64,
    scratch: Scratch,
}

struct Pane {
    states: Vec<Cells>,
    /// A bit for each key that has a row, if that is kept.
    touched: Vec<u64>,
    rows: usize,
}

impl<'a> Piece<'a> {
    pub(super) fn new(job: &'a Job<'a>, reach: Range<i64>, is_sparse: bool) -> Self {
        let stage = &job.plan.stages[0];
        let slots = &job.scatter.slots;
        let keys = job.keys.len();
        let states = |len: usize| -> Vec<Cells> {
            slots
                .iter()
                .map(|slot| Cells::new(slot.op, slot.ty, len))
                .collect()
        };
        let pane = || Pane {
            states: states(keys),
            touched: vec![0; if is_sparse { keys.div_ceil(64) } else { 0 }],
            rows: 0,
        };
        let ordered = |slot: &Slot| slot.is_ordered().then(|| Ordered::new(slot.op, keys));
        let direct = reach.end - reach.start == 1 && !is_sparse;
        let contributing = &job.scatter.contributions;
        let columns = contributing.columns.iter();
        let main = &job.plan.loops[stage.main];
        let Sink::Store {
            columns: results, ..
        } = &main.sink
        else {
            unreachable!("the main loop of a stage stores")
        };
        let written = results
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
            masks: (0..contributing.masks).map(|_| Mask::new()).collect(),
            contributions: columns.map(|plan| Contributions::new(*plan)).collect(),
            ordered: slots.iter().map(ordered).collect(),
            places: job.scatter.is_ordered().then(|| Places::new(keys)),
            ids: vec![0; CHUNK],
            listed: Listed::default(),
            candidates: Vec::new(),
            out: Columns::new(&written, stage.facts.leaves.len()),
            written,
            magnitude: 0,
            widest: 0,
            scratch: Scratch::default(),
        }
    }

    pub(super) fn run(&mut self, windows: Range<i64>) -> Result<(), Trouble> {
        let timeline = &self.job.series.axis.timeline;
        let mut next = windows.start + self.reach.start;
        let mut row = timeline.ends_until(self.job.edge(next).unwrap_or(i64::MIN));
        let mut window = windows.start;
        while window < windows.end {
            if self.panes.iter().all(|pane| pane.rows == 0) {
                // Nothing until the window that ends in the next row's pane.
                let Some(pane) = (row < timeline.len())
                    .then(|| self.job.pane_of(row))
                    .flatten()
                else {
                    return Ok(());
                };
                window = window.max(pane - self.reach.end + 1);
                next = next.max(window + self.reach.start);
                if window >= windows.end {
                    return Ok(());
                }
            }
            while next < window + self.reach.end {
                let edge = self.job.edge(next + 1).unwrap_or(i64::MAX);
                let rows = row..row + rows_until(timeline, row, edge);
                row = rows.end;
                self.fill(next, rows)?;
                next += 1;
            }
            let rows: usize = self.panes.iter().map(|pane| pane.rows).sum();
            self.widest = self.widest.max(rows as u64);
            if rows > 0 {
                self.emit(window);
            }
            window += 1;
        }
        Ok(())
    }

    fn at(&self, pane: i64) -> usize {
        pane.rem_euclid(self.panes.len() as i64) as usize
    }

    /// Forgets the pane that was in the same place, and joins the rows of this one to its states.
    fn fill(&mut self, pane: i64, rows: Range<usize>) -> Result<(), Trouble> {
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
            let Pane {
                states, touched, ..
            } = &mut self.panes[at];
            let mut ahead = Ahead::new(self.job, chunk.end);
            self.listed.clear();
            // Of all rows at most once.
            let mut is_touched = !self.is_sparse;
            let mut touch = |ids: &[u32], all: bool| {
                if !is_touched {
                    is_touched = all;
                    for id in ids {
                        touched[*id as usize / 64] |= 1 << (id % 64);
                    }
                }
            };
            let slots = &self.job.scatter.slots;
            let leaves = &self.job.series.leaves;
            if let Some(places) = &mut self.places {
                touch(ids, true);
                places.place(ids, |rows| ahead.fetch(rows));
            }
            let mut next = 0;
            while let Some(slot) = slots.get(next) {
                let number = next;
                next += 1;
                let Some(column) = slot.of else {
                    // Places tell in the end.
                    if self.places.is_none() {
                        touch(ids, true);
                        count(ids, &mut states[number]);
                    }
                    continue;
                };
                let contributions = &self.contributions[column];
                let values = contributions.values(leaves, &chunk);
                let fetch = |rows: usize| ahead.fetch(rows);
                if let (Some(ordered), Some(places)) = (&mut self.ordered[number], &self.places) {
                    match contributions.listed(&self.masks) {
                        None => ordered.join_all(places, ids, values),
                        Some(counts) => {
                            self.listed.list(counts, ids);
                            self.listed.join(places, ids, values, ordered);
                        }
                    }
                    continue;
                }
                let Some(counts) = contributions.listed(&self.masks) else {
                    touch(ids, true);
                    self.magnitude |= contributions.magnitude(values, None, ids.len());
                    scatter(ids, values, &mut states[number], fetch);
                    continue;
                };
                if self.listed.list(counts, ids) {
                    touch(&self.listed.ids, false);
                }
                let listed = &self.listed;
                self.magnitude |= contributions.magnitude(values, Some(listed), ids.len());
                let beside = slots.get(next).and_then(|slot| slot.of);
                let beside = beside.map(|column| &self.contributions[column]);
                let beside = beside.filter(|other| {
                    let both = [contributions, other].iter().all(|c| is_sum(&c.plan));
                    both && other.plan.counts == contributions.plan.counts
                });
                if let (Some(other), [a, b, ..]) = (beside, &mut states[number..]) {
                    next += 1;
                    let others = other.values(leaves, &chunk);
                    self.magnitude |= other.magnitude(others, Some(listed), ids.len());
                    listed.scatter_sums([values, others], [a, b], fetch);
                } else {
                    listed.scatter(values, &mut states[number], fetch);
                }
            }
            let work = share(ALL_WORK, chunk.len(), self.job.series.axis.len());
            self.job.control.advance(work, 0)?;
        }
        if !rows.is_empty() {
            self.finish(at);
        }
        Ok(())
    }

    /// Makes what a pane has in order its states, and of how many rows if that is asked for.
    fn finish(&mut self, at: usize) {
        let Some(places) = &mut self.places else {
            return;
        };
        let Pane {
            states, touched, ..
        } = &mut self.panes[at];
        let keys = 0..self.job.keys.len();
        let slots = self.job.scatter.slots.iter().zip(states);
        for ((slot, state), ordered) in slots.zip(&mut self.ordered) {
            match ordered {
                Some(ordered) => {
                    let of_key = |key: usize| ordered.finish(key).to_bits();
                    if self.is_sparse {
                        state.set(bits(touched), of_key);
                    } else {
                        state.set(keys.clone(), of_key);
                    }
                }
                None if slot.of.is_none() => {
                    let of_key = |key: usize| places.rows(key).into();
                    if self.is_sparse {
                        state.set(bits(touched), of_key);
                    } else {
                        state.set(keys.clone(), of_key);
                    }
                }
                None => {}
            }
        }
        if self.is_sparse {
            places.begin(bits(touched));
        } else {
            places.begin(keys);
        }
    }

    /// What rows contribute to the windows of the stage.
    fn contribute(&mut self, rows: &Range<usize>) {
        let job = self.job;
        self.compute_contributions(rows);
        self.masks
            .iter_mut()
            .for_each(|mask| mask.settle(rows.len()));
        for contributions in &mut self.contributions {
            let mask = contributions.plan.counts.map(|mask| &self.masks[mask]);
            contributions.settle(mask, &job.series.leaves, rows);
        }
        for window in &self.stage.windows {
            if let Guard::Leaf(_, leaf) = window.guard {
                self.magnitude |= magnitude(&job.series.leaves[leaf], rows.clone());
            }
        }
    }

    /// Calls the loop over the rows.
    fn compute_contributions(&mut self, rows: &Range<usize>) {
        let job = self.job;
        let contributing = &job.scatter.contributions;
        let Some(number) = contributing.number else {
            return;
        };
        let body = &job.plan.loops[number];
        self.scratch.reset();
        let scratch = &mut self.scratch;
        let sources = contributing.sources.iter().zip(body.accesses.iter());
        let views: Vec<View> = sources
            .map(|(source, (_, access))| {
                let Source::Leaf { leaf, .. } = source else {
                    unreachable!("rows contribute what they hold")
                };
                let leaf = &job.series.leaves[*leaf];
                let (first, n) = (rows.start as i64, rows.len());
                view::rows(leaf, first, n, access.nullable, scratch)
            })
            .collect();
        let computed = self.contributions.iter_mut();
        let computed = computed.filter_map(|c| match c.plan.values {
            Values::Computed(at) => Some((at, c.target())),
            _ => None,
        });
        let mut targets: Vec<Target> = self.masks.iter_mut().map(Mask::target).collect();
        let mut computed: Vec<(usize, Target)> = computed.collect();
        computed.sort_unstable_by_key(|(at, _)| *at);
        targets.extend(computed.into_iter().map(|(_, target)| target));
        let params: Vec<u64> = contributing.params.iter().map(|p| job.param(p)).collect();
        // SAFETY: views and targets cover the rows up to a whole group.
        unsafe { job.call(number, &views, &targets, &params, rows.len()) }
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
        let states = if direct {
            &self.panes[0].states
        } else {
            &self.totals
        };
        let main = &job.plan.loops[self.stage.main];
        let slot_of = |wanted: Option<usize>, range: usize| {
            let is = |slot: &Slot| slot.of == wanted && slot.range == range;
            job.scatter
                .slots
                .iter()
                .position(is)
                .expect("a slot for every source")
        };
        self.scratch.reset();
        let index = self.scratch.slice::<u32>(CHUNK);
        index
            .iter_mut()
            .enumerate()
            .for_each(|(row, index)| *index = row as u32);
        let views: Vec<View> = self
            .stage
            .sources
            .iter()
            .zip(main.accesses.iter())
            .map(|(source, (_, access))| {
                // The late part is all of a window, the early part and its first position are nothing.
                let (slot, is_late) = match source {
                    Source::Window { window, column } => {
                        let of = job.scatter.contributions.of_windows[*window][column / 2];
                        let range = self.stage.windows[*window].range;
                        (slot_of(Some(of), range), column % 2 == 1)
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
                validity: column
                    .validity
                    .as_ref()
                    .map_or(std::ptr::null_mut(), Returned::as_ptr),
                len: CHUNK as u64,
            })
            .collect();
        let params: Vec<u64> = self.stage.params.iter().map(|p| job.param(p)).collect();
        // SAFETY: states and what is written have room for whole groups, and the index names rows of the chunk.
        unsafe { job.call(self.stage.main, &views, &targets, &params, rows.len()) }
    }
}

/// Whether words are added up, in any order.
fn is_sum(column: &Column) -> bool {
    column.op == Combine::Add && column.ty.bits() == 64 && column.ty.is_int()
}

/// Asks memory for the rows of the next chunk while this one's are joined: computing contributions waits for memory, joining them for the
/// caches.
struct Ahead {
    /// Where the next rows of each column are, and the bytes of a row.
    columns: Vec<(*const u8, usize)>,
    /// Rows that are still to be asked for.
    rows: usize,
}

impl Ahead {
    fn new(job: &Job, row: usize) -> Self {
        let sources = job.scatter.contributions.sources.iter();
        let mut leaves: Vec<usize> = sources
            .filter_map(|source| match source {
                Source::Leaf { leaf, .. } => Some(*leaf),
                _ => None,
            })
            .collect();
        leaves.sort_unstable();
        leaves.dedup();
        let leaves = leaves.iter().map(|leaf| &job.series.leaves[*leaf]);
        let keys = job.ids.column();
        let columns = leaves.chain(keys).filter(|leaf| leaf.bits().is_none());
        Self {
            columns: columns
                .map(|leaf| (leaf.at(row as isize), leaf.ty.bytes()))
                .collect(),
            rows: CHUNK.min(job.series.axis.len() - row),
        }
    }

    /// Asks for some more rows.
    fn fetch(&mut self, rows: usize) {
        let rows = rows.min(self.rows);
        self.rows -= rows;
        for (at, bytes) in &mut self.columns {
            let end = at.wrapping_add(rows * *bytes);
            *at = prefetch(*at..end);
        }
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
