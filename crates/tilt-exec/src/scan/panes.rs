//! Panes: as many positions as windows move by from row to row, folded into one element.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, LANES, Ty},
};
use tilt_ir::StreamId;

use super::calls::Calls;
use crate::{
    memory::Returned,
    range::{RangeRun, Steady},
    run::Piece,
    series::Series,
    view,
    window::{Guard, PanePlan, WindowPlan},
};

/// An element of each pane, for each slot.
#[derive(Clone)]
pub(crate) struct PaneColumns(Arc<Vec<(Returned, Ty)>>);

pub(super) struct Panes {
    plan: PanePlan,
    steady: Steady,
    /// The position that pane 0 begins with, at most 0.
    first: i64,
    positions: usize,
    columns: PaneColumns,
    views: Vec<View>,
    /// Panes from the first that a row reads to this one are folded; none at first.
    folded: Option<usize>,
    /// Those that were folded last.
    latest: Range<usize>,
}

impl Panes {
    /// No panes are folded. While more positions may come, only those panes count that have all of theirs.
    pub(super) fn new(
        plan: PanePlan,
        range: &RangeRun,
        slots: &[(Combine, Ty)],
        open: bool,
    ) -> Self {
        let (steady, first) = panes_of(range, plan, open);
        let columns = slots.iter().map(|(_, ty)| column(steady.len, *ty));
        let columns = PaneColumns(Arc::new(columns.collect()));
        let this = Self {
            plan,
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
        let (_, first) = panes_of(range, self.plan, true);
        first == self.first && range.len() >= self.positions
    }

    /// The same panes, and those of positions that have come since.
    pub(super) fn resume(mut self, range: &RangeRun, open: bool) -> Self {
        (self.steady, _) = panes_of(range, self.plan, open);
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
        panes: Range<usize>,
        columns: &PaneColumns,
        guard: Guard,
    ) -> (Range<usize>, u64) {
        self.fold_panes(calls, &panes, columns);
        let magnitude = magnitude(columns, &panes, guard);
        (self.positions_of(panes), magnitude)
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
    pub(super) fn advance(&mut self, calls: &Calls, rows: &Range<usize>) -> Range<usize> {
        let len = self.steady.len as i64;
        let pane = |row: usize, offset: i64| (row as i64 + offset).clamp(0, len) as usize;
        // Prefixes are scanned by whole groups, which may reach beyond what rows read.
        let end = pane(rows.end, self.steady.hi - 1 + LANES as i64);
        // Totals subtract the pane before a window from what they had.
        let start = self
            .folded
            .unwrap_or_else(|| pane(rows.start, self.steady.lo - 1));
        self.latest = start..end.max(start);
        self.folded = Some(self.latest.end);
        self.fold_panes(calls, &self.latest, &self.columns);
        self.positions_of(self.latest.clone())
    }

    fn fold_panes(&self, calls: &Calls, panes: &Range<usize>, columns: &PaneColumns) {
        let whole = self.whole(panes.clone());
        if let (Some(number), false) = (self.plan.short, whole.is_empty()) {
            let first = self.positions_of(whole.clone()).start;
            let views = calls.shifted(&[first as i64]);
            let targets = self.targets(columns, whole.start);
            calls.panes(number, &views, whole.len(), &targets);
        }
        self.fold(calls, panes.start..whole.start, columns);
        self.fold(calls, whole.end..panes.end, columns);
    }

    /// Of some panes those that the loop for short ones folds: whole ones, a multiple of eight.
    fn whole(&self, panes: Range<usize>) -> Range<usize> {
        let is_cut = self.first < 0 && panes.start == 0;
        let start = panes.end.min(panes.start + usize::from(is_cut));
        let all = (self.positions as i64 - self.first) / self.plan.every;
        let end = panes.end.min(all as usize).max(start);
        match self.plan.short {
            Some(_) => start..start + (end - start) / LANES * LANES,
            None => start..start,
        }
    }

    fn fold(&self, calls: &Calls, panes: Range<usize>, columns: &PaneColumns) {
        let mut ranges = Vec::with_capacity(2 * panes.len());
        for pane in panes.clone() {
            let positions = self.positions_of(pane..pane + 1);
            ranges.extend([positions.start as i64, positions.end as i64]);
        }
        if !ranges.is_empty() {
            let targets = self.targets(columns, panes.start);
            calls.fold(self.plan.fold, &ranges, &targets, None);
        }
    }

    fn positions_of(&self, panes: Range<usize>) -> Range<usize> {
        let position = |pane: usize| {
            let position = self.first + pane as i64 * self.plan.every;
            position.clamp(0, self.positions as i64) as usize
        };
        position(panes.start)..position(panes.end)
    }

    fn targets(&self, columns: &PaneColumns, pane: usize) -> Vec<Target> {
        let targets = columns.0.iter().map(|(memory, ty)| Target {
            values: memory.as_ptr().wrapping_add(pane * ty.bytes()),
            validity: std::ptr::null_mut(),
            len: (self.steady.len + LANES - pane) as u64,
        });
        targets.collect()
    }

    /// The bits of magnitudes that the last slot of the latest panes has joined, if the guard looks there.
    pub(super) fn magnitude(&self, guard: Guard) -> u64 {
        magnitude(&self.columns, &self.latest, guard)
    }
}

/// How windows move over panes, and the position that pane 0 begins with.
fn panes_of(range: &RangeRun, plan: PanePlan, open: bool) -> (Steady, i64) {
    let (mut steady, first) = range.panes().expect("ranges with panes are regular");
    if open {
        let whole = (range.len() as i64 - first) / plan.every;
        steady.len = steady.len.min(whole as usize);
    }
    (steady, first)
}

/// Room for so many panes, and what a group reads beyond them.
fn column(panes: usize, ty: Ty) -> (Returned, Ty) {
    (Returned::new((panes + LANES) * ty.bytes()), ty)
}

fn magnitude(columns: &PaneColumns, panes: &Range<usize>, guard: Guard) -> u64 {
    let (Guard::Slot, Some((memory, _))) = (guard, columns.0.last()) else {
        return 0;
    };
    #[expect(clippy::cast_ptr_alignment, reason = "a slot of words")]
    let at = memory.as_ptr().cast::<u64>();
    // SAFETY: the panes were written.
    let bits = unsafe { std::slice::from_raw_parts(at.add(panes.start), panes.len()) };
    bits.iter().fold(0, |all, bits| all | bits)
}
