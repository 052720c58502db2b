//! Calls of scans and folds over ranges of units.

use std::{collections::BTreeMap, ops::Range};

use tilt_codegen::{
    abi::{Args, Target, View, nothing_ahead},
    lir::{By, Loop, Sink, Ty},
};
use tilt_ir::StreamId;

use crate::{
    plan::Source,
    run::{CHUNK, Piece},
    series::{Leaf, Series},
    view,
    window::WindowPlan,
};

/// Bytes between what is computed and what is asked memory for: enough for its latency, and for the loops in between to find it in a cache.
const AHEAD: usize = 8 * CHUNK;

/// The loops of a window, with what they read.
pub(super) struct Calls<'c> {
    piece: &'c Piece<'c>,
    plan: &'c WindowPlan,
    /// One of the loops, for the types of what all read.
    number: usize,
    views: &'c [View],
    params: &'c [u64],
    /// The column that anchors are taken from.
    anchor: Option<&'c Leaf>,
    /// What scans of the chunk ask memory for.
    next: Option<Next>,
    /// What is scanned backward has left the caches.
    far: bool,
}

/// Rows of a loop: where the next chunk begins, and where this one does.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) row: usize,
    pub(super) first: usize,
}

/// Ranges of units, each with the unit that its anchor is taken from.
#[derive(Default)]
pub(super) struct Ranges {
    /// Where each begins and ends.
    pairs: Vec<i64>,
    anchors: Vec<usize>,
}

impl Ranges {
    pub(super) fn one(units: Range<usize>, anchor: usize) -> Self {
        let mut ranges = Self::default();
        ranges.push(units, anchor);
        ranges
    }

    pub(super) fn push(&mut self, units: Range<usize>, anchor: usize) {
        self.pairs.extend([units.start as i64, units.end as i64]);
        self.anchors.push(anchor);
    }

    /// Forgets all, but not where they were: short blocks are many.
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
        self.anchors.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.anchors.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.anchors.is_empty()
    }

    /// From the begin of the first to the end of the last.
    pub(super) fn units(&self) -> Range<usize> {
        match self.pairs[..] {
            [start, .., end] => start as usize..end as usize,
            _ => 0..0,
        }
    }

    /// Where one begins.
    pub(super) fn start(&self, number: usize) -> usize {
        self.pairs[2 * number] as usize
    }
}

/// How many bytes of each element of the next chunk are left to the loop that stores results: it waits for memory anyway.
pub(super) fn left(bytes: usize) -> usize {
    bytes * 3 / 8
}

impl<'c> Calls<'c> {
    pub(super) fn new(
        piece: &'c Piece<'c>,
        plan: &'c WindowPlan,
        number: usize,
        views: &'c [View],
        params: &'c [u64],
        all: &'c BTreeMap<StreamId, Series>,
    ) -> Self {
        Self {
            piece,
            plan,
            number,
            views,
            params,
            anchor: plan.anchor.map(|(stream, leaf)| &all[&stream].leaves[leaf]),
            next: None,
            far: false,
        }
    }

    /// The same calls, scans of which ask memory for the next chunk.
    pub(super) fn with_next(&self, next: Next) -> Self {
        Self {
            next: Some(next),
            ..*self
        }
    }

    /// The same calls, for scans backward of what has left the caches.
    pub(super) fn far(&self) -> Self {
        Self { far: true, ..*self }
    }

    /// Scans ranges of units.
    pub(super) fn scan(
        &self,
        number: usize,
        ranges: &Ranges,
        targets: &[Target],
        carry: &mut [u64],
    ) {
        let Some(leaf) = self.anchor else {
            return self.call(self.views, number, counted(&ranges.pairs), targets, carry);
        };
        let bytes = leaf.ty.bytes();
        let mut anchors = Vec::with_capacity(ranges.len() * bytes);
        for unit in &ranges.anchors {
            let element = leaf.at(*unit as isize);
            // SAFETY: anchors are positions of the column.
            anchors.extend_from_slice(unsafe { std::slice::from_raw_parts(element, bytes) });
        }
        let views = self.with_anchor(View {
            len: ranges.len() as u64,
            ..view::column(&anchors)
        });
        self.call(&views, number, counted(&ranges.pairs), targets, carry);
    }

    /// Scans units `rows` of views that are not those of all units.
    pub(super) fn scan_of(
        &self,
        views: &[View],
        number: usize,
        rows: Range<usize>,
        targets: &[Target],
        carry: &mut [u64],
    ) {
        let pair = [rows.start as i64, rows.end as i64];
        self.call(views, number, counted(&pair), targets, carry);
    }

    /// The views once for each offset, row `i` being that of unit `i + offset`.
    pub(super) fn shifted(&self, offsets: &[i64]) -> Vec<View> {
        let loops = &self.piece.plan.loops;
        let accesses = &loops[self.number].accesses;
        let mut shifted = Vec::with_capacity(offsets.len() * self.views.len());
        for offset in offsets {
            for (view, (_, access)) in self.views.iter().zip(accesses.iter()) {
                let bytes = *offset as isize * access.ty.bytes() as isize;
                shifted.push(View {
                    values: view.values.wrapping_offset(bytes),
                    lead: view.lead.saturating_add_signed(*offset),
                    len: view.len.saturating_add_signed(-offset),
                    ..*view
                });
            }
        }
        shifted
    }

    /// Folds ranges, given as pairs.
    pub(super) fn fold(
        &self,
        number: usize,
        ranges: &[i64],
        targets: &[Target],
        anchors: Option<View>,
    ) {
        match anchors {
            Some(anchors) => {
                let views = self.with_anchor(anchors);
                self.call(&views, number, counted(ranges), targets, &mut []);
            }
            None => self.call(self.views, number, counted(ranges), targets, &mut []),
        }
    }

    /// Calls a loop over ranges, given as pairs.
    pub(super) fn over_ranges(
        &self,
        number: usize,
        ranges: &[i64],
        targets: &[Target],
        state: &mut [u64],
    ) {
        self.call(self.views, number, counted(ranges), targets, state);
    }

    /// Calls a loop over ranges of other columns.
    pub(super) fn over_columns(
        &self,
        number: usize,
        views: &[View],
        ranges: &[i64],
        targets: &[Target],
        state: &mut [u64],
    ) {
        self.call(views, number, counted(ranges), targets, state);
    }

    /// Calls a loop of panes, the first of which begins with row 0 of the views.
    pub(super) fn panes(&self, number: usize, views: &[View], panes: usize, targets: &[Target]) {
        let none = (std::ptr::null(), panes);
        self.call(views, number, none, targets, &mut []);
    }

    /// The views with this one as the anchor.
    fn with_anchor(&self, anchor: View) -> Vec<View> {
        let views = self.views.iter().zip(&self.plan.sources);
        let views = views.map(|(view, source)| match source {
            Source::Anchor { .. } => anchor,
            _ => *view,
        });
        views.collect()
    }

    /// What a scan or fold asks memory for: what its first access reads later. Scans of a chunk leave some of that to the loop after them.
    fn ahead(&self, number: usize, views: &[View]) -> (*const u8, u64) {
        let Loop { accesses, sink, .. } = &self.piece.plan.loops[number];
        let (Some(view), Some((_, access))) = (views.first(), accesses.iter().next()) else {
            return (nothing_ahead(), 0);
        };
        if access.by != By::Row || access.ty == Ty::Bool {
            return (nothing_ahead(), 0);
        }
        let bytes = access.ty.bytes();
        match (sink, self.next) {
            (Sink::Scan { backward: true, .. }, _) if self.far => {
                (view.values.wrapping_sub(AHEAD), bytes as u64)
            }
            // What is scanned backward has just been read forward.
            (Sink::Scan { backward: true, .. } | Sink::Comb { .. }, _) => (nothing_ahead(), 0),
            (Sink::Scan { .. } | Sink::Slide { .. }, Some(Next { row, first })) => {
                let step = bytes - left(bytes);
                let next = view.values.wrapping_add(row * bytes);
                (next.wrapping_sub(first * step), step as u64)
            }
            _ => (view.values.wrapping_add(AHEAD), bytes as u64),
        }
    }

    fn call(
        &self,
        views: &[View],
        number: usize,
        (ranges, rows): (*const i64, usize),
        targets: &[Target],
        carry: &mut [u64],
    ) {
        let (ahead, step) = self.ahead(number, views);
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: self.params.as_ptr(),
            state: carry.as_mut_ptr(),
            ranges,
            first: 0,
            rows: rows as u64,
            ahead,
            step,
        };
        // SAFETY: ranges are units of the columns, of which the views show all, and targets have room for them.
        unsafe { self.piece.code.call(&self.piece.plan.loops, number, &args) }
    }
}

/// Ranges, given as pairs, and how many there are.
fn counted(pairs: &[i64]) -> (*const i64, usize) {
    (pairs.as_ptr(), pairs.len() / 2)
}
