//! Panes: as many positions as windows move by from row to row, or those of as much time, folded into one element. Where windows begin inside of panes,
//! these are folded in two parts, the later of which is what such a window has of it: no position is read twice.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, LANES, Ty},
};
use tilt_ir::StreamId;

use super::{calls::Calls, fill};
use crate::{
    cursor,
    memory::{Returned, Scratch},
    range::{RangeRun, Steady, gallop},
    run::{CHUNK, Piece},
    series::{Axis, Series},
    view,
    window::{Cut, Guard, Measure, PanePlan, WindowPlan},
};

/// An element of each pane for each slot; of cut panes one of each part, those of the first parts before all others.
#[derive(Clone)]
pub(crate) struct PaneColumns(Arc<Vec<(Returned, Ty)>>);

pub(super) struct Panes {
    plan: PanePlan,
    slots: Vec<(Combine, Ty)>,
    steady: Steady,
    /// Where pane 0 begins: at a position, at most 0, or after an instant.
    first: i128,
    positions: usize,
    columns: PaneColumns,
    views: Vec<View>,
    /// Panes from the first that a row reads to this one are folded; none at first.
    folded: Option<usize>,
    /// Those that were folded last.
    latest: Range<usize>,
}

impl Panes {
    /// Bytes of its columns.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.columns.0.iter();
        columns.map(|(memory, _)| memory.len()).sum()
    }

    /// No panes are folded. While more positions may come, only those panes count that have all of theirs: those of rows before `open`.
    pub(super) fn new(
        plan: PanePlan,
        range: &RangeRun,
        slots: &[(Combine, Ty)],
        open: Option<usize>,
    ) -> Self {
        let (steady, first) = panes_of(range, plan.cut, open, None);
        let parts = 1 + usize::from(plan.cut.rest > 0);
        let types = slots.iter().map(|(_, ty)| *ty).cycle();
        let columns = types
            .take(parts * slots.len())
            .map(|ty| column(steady.len, ty));
        let columns = PaneColumns(Arc::new(columns.collect()));
        let this = Self {
            plan,
            slots: slots.to_vec(),
            steady,
            first,
            positions: range.len(),
            views: Vec::new(),
            columns: PaneColumns(Arc::new(Vec::new())),
            folded: None,
            latest: 0..0,
        };
        this.of(columns)
    }

    /// Whether these are panes of a range that may have more positions than before.
    pub(super) fn goes_on_in(&self, range: &RangeRun) -> bool {
        let (_, first) = panes_of(range, self.plan.cut, Some(0), Some(self.first));
        first == self.first && range.len() >= self.positions
    }

    /// The same panes, and those of positions that have come since.
    pub(super) fn resume(mut self, range: &RangeRun, open: Option<usize>) -> Self {
        (self.steady, _) = panes_of(range, self.plan.cut, open, Some(self.first));
        self.positions = range.len();
        let needed = self.steady.len + LANES;
        let has_room = |(memory, ty): &(Returned, Ty)| memory.len() >= needed * ty.bytes();
        let columns = if self.columns.0.iter().all(has_room) {
            self.columns.clone()
        } else {
            let columns = self.columns.0.iter().map(|(memory, ty)| {
                let grown = column(2 * needed, *ty);
                let bytes = memory.len().min(grown.0.len());
                // SAFETY: different memory, of at least so many bytes.
                unsafe {
                    std::ptr::copy_nonoverlapping(memory.as_ptr(), grown.0.as_ptr(), bytes);
                }
                grown
            });
            PaneColumns(Arc::new(columns.collect()))
        };
        self.of(columns)
    }

    /// The same panes in other columns.
    fn of(self, columns: PaneColumns) -> Self {
        let len = (self.steady.len + LANES) as u64;
        let views = columns.0.iter().map(|(memory, _)| View {
            values: memory.as_ptr(),
            len,
            ..view::nothing()
        });
        Self {
            views: views.collect(),
            columns,
            ..self
        }
    }

    /// Panes that are all folded already.
    pub(super) fn folded(self, columns: PaneColumns) -> Self {
        let folded = Some(self.steady.len);
        Self {
            folded,
            ..self.of(columns)
        }
    }

    pub(super) fn columns(&self) -> PaneColumns {
        self.columns.clone()
    }

    /// Folds some panes into columns; returns their positions, and the bits of magnitudes where the guard looks.
    pub(super) fn fold_into(
        &self,
        calls: &Calls,
        axis: &Axis,
        panes: Range<usize>,
        columns: &PaneColumns,
        guard: Guard,
    ) -> (Range<usize>, u64) {
        let positions = self.fold_panes(calls, axis, &panes, columns);
        (positions, self.magnitude_of(columns, &panes, guard))
    }

    pub(super) fn has_units(&self) -> bool {
        self.steady.len > 0
    }

    pub(super) fn steady(&self) -> Steady {
        self.steady
    }

    /// Loops over the panes instead of the positions.
    pub(super) fn calls<'c>(
        &'c self,
        piece: &'c Piece<'c>,
        plan: &'c WindowPlan,
        all: &'c BTreeMap<StreamId, Series>,
    ) -> Calls<'c> {
        Calls::new(piece, plan, plan.algorithm.forward(), &self.views, &[], all)
    }

    /// Folds the panes that rows read first; returns their positions.
    pub(super) fn advance(
        &mut self,
        calls: &Calls,
        axis: &Axis,
        rows: &Range<usize>,
    ) -> Range<usize> {
        let len = self.steady.len as i64;
        let pane = |row: usize, offset: i64| (row as i64 + offset).clamp(0, len) as usize;
        // Prefixes are scanned by whole groups, which may reach beyond what rows read.
        let end = pane(rows.end, self.steady.hi - 1 + LANES as i64);
        // Totals subtract the pane before a window from what they had, and windows begin inside of it.
        let start = self
            .folded
            .unwrap_or_else(|| pane(rows.start, self.steady.lo - 1));
        self.latest = start..end.max(start);
        self.folded = Some(self.latest.end);
        self.fold_panes(calls, axis, &self.latest, &self.columns)
    }

    fn fold_panes(
        &self,
        calls: &Calls,
        axis: &Axis,
        panes: &Range<usize>,
        columns: &PaneColumns,
    ) -> Range<usize> {
        let whole = self.whole(panes.clone());
        if let (Some(number), false) = (self.plan.short, whole.is_empty()) {
            let views = calls.shifted(&[self.edge(axis, whole.start)]);
            let targets = self.targets(columns, 0, whole.start);
            calls.panes(number, &views, whole.len(), &targets);
        }
        for rest in [panes.start..whole.start, whole.end..panes.end] {
            // Not those of the short ones: finding them would take longer than folding these.
            for first in rest.clone().step_by(CHUNK) {
                let panes = first..rest.end.min(first + CHUNK);
                self.fold(calls, &panes, &self.ranges(axis, &panes), columns);
            }
        }
        self.edge(axis, panes.start) as usize..self.edge(axis, panes.end) as usize
    }

    /// Folds some panes, given as ranges. Parts are folded one after the other, because memory is read best in order, and then put apart.
    fn fold(&self, calls: &Calls, panes: &Range<usize>, ranges: &[i64], columns: &PaneColumns) {
        let first = self.targets(columns, 0, panes.start);
        if self.parts() == 1 {
            return calls.fold(self.plan.fold, ranges, &first, None);
        }
        let types = self.slots.iter().map(|(_, ty)| *ty);
        let both: Vec<(Returned, Ty)> = types.map(|ty| column(2 * panes.len(), ty)).collect();
        let targets = both.iter().map(|(memory, _)| Target {
            values: memory.as_ptr(),
            validity: std::ptr::null_mut(),
            len: 2 * panes.len() as u64,
        });
        calls.fold(self.plan.fold, ranges, &targets.collect::<Vec<_>>(), None);
        let second = self.targets(columns, 1, panes.start);
        for ((memory, ty), (first, second)) in both.iter().zip(first.iter().zip(&second)) {
            let (from, to) = (memory.as_ptr(), [first.values, second.values]);
            // SAFETY: a loop has written two elements for each pane, and both columns have room for one.
            unsafe {
                match ty.bytes() {
                    1 => apart::<u8>(from, to, panes.len()),
                    2 => apart::<u16>(from, to, panes.len()),
                    4 => apart::<u32>(from, to, panes.len()),
                    _ => apart::<u64>(from, to, panes.len()),
                }
            }
        }
    }

    fn parts(&self) -> usize {
        1 + usize::from(self.plan.cut.rest > 0)
    }

    /// The position at which a pane begins.
    fn edge(&self, axis: &Axis, pane: usize) -> i64 {
        let Cut { measure, every, .. } = self.plan.cut;
        let edge = self.first + pane as i128 * i128::from(every);
        match measure {
            Measure::Positions => edge.clamp(0, self.positions as i128) as i64,
            Measure::Ticks => axis.timeline.ends_until(cursor::saturate(edge)) as i64,
        }
    }

    /// The positions of some panes, part by part, as pairs.
    fn ranges(&self, axis: &Axis, panes: &Range<usize>) -> Vec<i64> {
        let Cut {
            measure,
            every,
            rest,
            ..
        } = self.plan.cut;
        let mut ranges = Vec::with_capacity(2 * self.parts() * panes.len());
        let first = self.edge(axis, panes.start);
        let mut start = first;
        let mut push = |end: i64| {
            ranges.extend([start, end]);
            start = end;
        };
        match measure {
            // Pane 0 begins at most a pane before position 0, and the last ends at most a pane after all.
            Measure::Positions => {
                let len = self.positions as i64;
                let mut end = self.first as i64 + panes.start as i64 * every;
                for _ in panes.clone() {
                    end = end.saturating_add(every);
                    if rest > 0 {
                        push((end - rest).clamp(0, len));
                    }
                    push(end.clamp(0, len));
                }
            }
            Measure::Ticks => {
                let ends: &[i64] = axis.ends();
                let mut last = first as usize;
                let mut push_until = |edge: i128| {
                    let edge = cursor::saturate(edge);
                    last = gallop(last, ends.len(), |i| ends[i] <= edge);
                    push(last as i64);
                };
                for pane in panes.clone() {
                    let end = self.first + (pane as i128 + 1) * i128::from(every);
                    if rest > 0 {
                        push_until(end - i128::from(rest));
                    }
                    push_until(end);
                }
            }
        }
        ranges
    }

    /// Of some panes those that the loop for short ones folds: whole ones, a multiple of eight.
    fn whole(&self, panes: Range<usize>) -> Range<usize> {
        if self.plan.short.is_none() {
            return panes.start..panes.start;
        }
        let is_cut = self.first < 0 && panes.start == 0;
        let start = panes.end.min(panes.start + usize::from(is_cut));
        let all = (self.positions as i128 - self.first) / i128::from(self.plan.cut.every);
        let end = panes.end.min(all as usize).max(start);
        start..start + (end - start) / LANES * LANES
    }

    fn targets(&self, columns: &PaneColumns, part: usize, pane: usize) -> Vec<Target> {
        let of_part = columns.0.iter().skip(part * self.slots.len());
        let targets = of_part.take(self.slots.len()).map(|(memory, ty)| Target {
            values: memory.as_ptr().wrapping_add(pane * ty.bytes()),
            validity: std::ptr::null_mut(),
            len: (self.steady.len + LANES - pane) as u64,
        });
        targets.collect()
    }

    /// What the windows of some rows have of the panes that they begin inside of.
    pub(super) fn rests(&self, slot: usize, rows: &Range<usize>, scratch: &mut Scratch) -> View {
        let (op, ty) = self.slots[slot];
        let padded = rows.len().next_multiple_of(LANES);
        let values = scratch.take(padded * ty.bytes());
        let len = self.steady.len as i64;
        let first = rows.start as i64 + self.steady.lo - 1;
        let from = first.clamp(0, len);
        let to = (first + rows.len() as i64).clamp(from, len);
        if to - from < padded as i64 {
            fill(values, padded, ty, op.neutral(ty));
        }
        let (memory, _) = &self.columns.0[self.slots.len() + slot];
        let bytes = |panes: i64| panes as usize * ty.bytes();
        if from < to {
            // SAFETY: these panes are folded, and as many rows read them.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    memory.as_ptr().add(bytes(from)),
                    values.add(bytes(from - first)),
                    bytes(to - from),
                );
            }
        }
        View {
            values,
            len: padded as u64,
            ..view::nothing()
        }
    }

    /// The bits of magnitudes that the last slot of the latest panes has joined, if the guard looks there.
    pub(super) fn magnitude(&self, guard: Guard) -> u64 {
        self.magnitude_of(&self.columns, &self.latest, guard)
    }

    fn magnitude_of(&self, columns: &PaneColumns, panes: &Range<usize>, guard: Guard) -> u64 {
        if guard != Guard::Slot {
            return 0;
        }
        let of_slots = columns.0.chunks_exact(self.slots.len());
        let last = of_slots.filter_map(|part| part.last());
        last.fold(0, |all, (memory, _)| {
            #[expect(clippy::cast_ptr_alignment, reason = "a slot of words")]
            let at = memory.as_ptr().cast::<u64>();
            // SAFETY: the panes were written.
            let bits = unsafe { std::slice::from_raw_parts(at.add(panes.start), panes.len()) };
            bits.iter().fold(all, |all, bits| all | bits)
        })
    }
}

/// How windows move over panes, and where pane 0 begins.
fn panes_of(
    range: &RangeRun,
    cut: Cut,
    open: Option<usize>,
    known: Option<i128>,
) -> (Steady, i128) {
    let (mut steady, first) = range.panes(cut, known);
    let whole = match (cut.measure, open) {
        (_, None) => return (steady, first),
        (Measure::Positions, _) => (range.len() as i128 - first) / i128::from(cut.every),
        (Measure::Ticks, Some(rows)) => i128::from(steady.hi) + rows as i128 - 1,
    };
    steady.len = steady.len.min(usize::try_from(whole).unwrap_or(0));
    (steady, first)
}

/// Puts elements that come by twos into two columns.
///
/// # Safety
/// There are two elements at `from` for each of the `len` at both places, which lie apart and are aligned.
unsafe fn apart<T: Copy>(from: *const u8, [first, second]: [*mut u8; 2], len: usize) {
    let (from, first, second) = (from.cast::<[T; 2]>(), first.cast::<T>(), second.cast::<T>());
    for i in 0..len {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b] = *from.add(i);
            first.add(i).write(a);
            second.add(i).write(b);
        }
    }
}

/// Room for so many panes, and what a group reads beyond them.
fn column(panes: usize, ty: Ty) -> (Returned, Ty) {
    (Returned::new((panes + LANES) * ty.bytes()), ty)
}
