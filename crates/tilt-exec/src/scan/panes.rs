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
    run::Piece,
    series::{Axis, Series},
    view,
    window::{Cut, Guard, Measure, PanePlan, WindowPlan},
};

/// Both parts of so many positions are folded before those after them: they are still in the second cache then.
const NEAR: usize = 1 << 15;

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
        let edge = |pane: usize| self.edges(axis, &(pane..pane))[0];
        let whole = self.whole(panes.clone());
        if let (Some(number), false) = (self.plan.short, whole.is_empty()) {
            let views = calls.shifted(&[edge(whole.start)]);
            let targets = self.targets(columns, 0, whole.start);
            calls.panes(number, &views, whole.len(), &targets);
        }
        let parts = self.parts();
        for rest in [panes.start..whole.start, whole.end..panes.end] {
            // Not those of the short ones: finding them would take longer than folding these.
            let edges = self.edges(axis, &rest);
            let mut pane = rest.start;
            while pane < rest.end {
                let at = |pane: usize| edges[parts * (pane - rest.start)];
                let near = at(pane) + NEAR as i64;
                let mut until = pane + 1;
                while until < rest.end && (parts == 1 || at(until + 1) <= near) {
                    until += 1;
                }
                let of_panes = parts * (pane - rest.start)..=parts * (until - rest.start);
                for part in 0..parts {
                    self.fold(calls, (pane, part), &edges[of_panes.clone()], columns);
                }
                pane = until;
            }
        }
        edge(panes.start) as usize..edge(panes.end) as usize
    }

    /// Folds one part of the panes from one on, between edges of their parts.
    fn fold(
        &self,
        calls: &Calls,
        (pane, part): (usize, usize),
        edges: &[i64],
        columns: &PaneColumns,
    ) {
        let between = edges.windows(2).skip(part).step_by(self.parts());
        let ranges: Vec<i64> = between.flatten().copied().collect();
        let targets = self.targets(columns, part, pane);
        calls.fold(self.plan.fold, &ranges, &targets, None);
    }

    fn parts(&self) -> usize {
        1 + usize::from(self.plan.cut.rest > 0)
    }

    /// The positions at which the parts of panes begin, and the last ends.
    fn edges(&self, axis: &Axis, panes: &Range<usize>) -> Vec<i64> {
        let Cut {
            measure,
            every,
            rest,
            ..
        } = self.plan.cut;
        let ends: &[i64] = match measure {
            Measure::Positions => &[],
            Measure::Ticks => axis.ends(),
        };
        let mut edges = Vec::with_capacity(self.parts() * panes.len() + 1);
        let mut last = None;
        let mut push = |edge: i128| {
            let position = match (measure, last) {
                (Measure::Positions, _) => edge.clamp(0, self.positions as i128) as usize,
                (Measure::Ticks, None) => axis.timeline.ends_until(cursor::saturate(edge)),
                (Measure::Ticks, Some(last)) => {
                    let edge = cursor::saturate(edge);
                    gallop(last, ends.len(), |i| ends[i] <= edge)
                }
            };
            last = Some(position);
            edges.push(position as i64);
        };
        for pane in panes.start..=panes.end {
            let start = self.first + pane as i128 * i128::from(every);
            push(start);
            if rest > 0 && pane < panes.end {
                push(start + i128::from(every - rest));
            }
        }
        edges
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

/// Room for so many panes, and what a group reads beyond them.
fn column(panes: usize, ty: Ty) -> (Returned, Ty) {
    (Returned::new((panes + LANES) * ty.bytes()), ty)
}
