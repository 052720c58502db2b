//! Extremes of windows that move by one unit from row to row.
//!
//! Each unit gets the extreme of itself and a few before it: with one before, of that with two before, with four: eight units, and up to seven more, so
//! that whole eights are left of the window. Those are every eighth unit, and where each has the extreme of the last eight, a window is a row of
//! such units: in blocks of its length, the suffix from its first one and the prefix up to its last. Eight windows that follow each other are
//! combined lane by lane; nothing moves between lanes but in the first three steps.
//!
//! An extreme may be taken twice, and in any order: blocks begin wherever it suits.

use std::ops::Range;

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, LANES, Ty},
};

use super::{
    calls::{Calls, Next},
    held::{Held, Stand},
};
use crate::{memory::Scratch, range::Steady, run::CHUNK, view, window::DoublingPlan};

/// Blocks from so many units on are kept in a ring. Two of them hold what is read and what is written between two chunks.
const LONG: usize = 8 * CHUNK;

pub(super) struct Doubling {
    plan: DoublingPlan,
    steady: Steady,
    slots: Vec<(Combine, Ty)>,
    /// A unit that begins a block, at most 0 and a multiple of eight.
    origin: i64,
    /// Prefixes, or the extremes of a few units if those are the window.
    late: Vec<Held>,
    /// Extremes of a few units; their suffixes in blocks that rows have come to.
    early: Vec<Held>,
    /// The unit up to which extremes are known, a multiple of eight; none at first. What goes on from there.
    scanned: Option<usize>,
    state: Vec<u64>,
    /// The unit up to which suffixes are known, none at first.
    kept: Option<usize>,
    /// Whether more units may come after the last.
    open: bool,
}

impl Doubling {
    /// Bytes of its columns.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.late.iter().chain(&self.early);
        columns.map(Held::bytes).sum()
    }

    pub(super) fn new(
        plan: DoublingPlan,
        steady: Steady,
        slots: &[(Combine, Ty)],
        open: bool,
    ) -> Self {
        let block = plan.block;
        let early = |slot: &(Combine, Ty)| match plan.suffixes {
            None => None,
            // The block that rows begin in, and the one that they end in.
            Some(_) if block >= LONG => Some(Held::ring(*slot, 2 * block)),
            Some(_) => Some(Held::new(*slot, 2 * block + 4 * CHUNK)),
        };
        Self {
            plan,
            steady,
            slots: slots.to_vec(),
            origin: 0,
            late: slots.iter().map(|s| Held::new(*s, 4 * CHUNK)).collect(),
            early: slots.iter().filter_map(early).collect(),
            scanned: None,
            state: neutral(&plan, slots),
            kept: None,
            open,
        }
    }

    /// The same for the rows after, over more units.
    pub(super) fn resume(self, steady: Steady, open: bool) -> Self {
        Self {
            steady,
            open,
            ..self
        }
    }

    /// Whether anything was computed.
    pub(super) fn has_begun(&self) -> bool {
        self.scanned.is_some()
    }

    /// The first units, a multiple of eight, are there no longer; all others are numbered anew.
    pub(super) fn forget(&mut self, units: usize) {
        let held = self.late.iter_mut().chain(&mut self.early);
        held.for_each(|held| held.forget(units));
        self.scanned = self.scanned.map(|scanned| scanned - units);
        self.kept = self.kept.map(|kept| kept.saturating_sub(units));
        self.origin = (self.origin - units as i64) % self.plan.block as i64;
    }

    /// The unit that the next chunk reads first.
    pub(super) fn next(&self) -> usize {
        self.scanned.unwrap_or(0)
    }

    /// The units that rows end with, those before the first left out.
    fn ends(&self, rows: &Range<usize>) -> Range<usize> {
        let unit = |row: usize| (row as i64 + self.steady.hi - 1).max(0) as usize;
        unit(rows.start)..unit(rows.end)
    }

    /// The end of the block that a unit is in.
    fn block_end(&self, unit: usize) -> usize {
        let block = self.plan.block as i64;
        let inside = (unit as i64 - self.origin).rem_euclid(block);
        (unit as i64 - inside + block) as usize
    }

    /// Computes what a chunk of rows reads.
    pub(super) fn advance(&mut self, calls: &Calls, rows: &Range<usize>) {
        let ends = self.ends(rows);
        if self.steady.len == 0 || ends.is_empty() {
            return;
        }
        let behind = self.plan.block - LANES;
        let begin = ends.start.saturating_sub(behind) / LANES * LANES;
        let begins = begin..ends.end.saturating_sub(behind);
        self.scan(calls, &ends, begins.start);
        if self.plan.suffixes.is_some() && !begins.is_empty() {
            self.suffixes(calls, begins);
        }
    }

    /// Extremes of a few units, and prefixes, up to where rows end. Suffixes are read from `begin` on.
    fn scan(&mut self, calls: &Calls, ends: &Range<usize>, begin: usize) {
        // The first few look back at most two groups. Prefixes are read in the block after that of `begin`, or from its first group on.
        let mut scanned = self
            .scanned
            .unwrap_or_else(|| begin.saturating_sub(2 * LANES));
        let end = ends.end.next_multiple_of(LANES);
        // A group with units still to come is computed again when they have come.
        let settled = if self.open {
            end.min(self.steady.len / LANES * LANES)
        } else {
            end
        };
        let mut state = std::mem::take(&mut self.state);
        scanned = self.scan_parts(calls, scanned..settled, (ends.start, begin), &mut state);
        let mut further = state.clone();
        self.state = state;
        self.scan_parts(calls, scanned..end, (ends.start, begin), &mut further);
        self.scanned = Some(scanned);
    }

    /// Chunk by chunk; returns how far that went. Prefixes are read from the first of `read` on, suffixes from the second.
    fn scan_parts(
        &mut self,
        calls: &Calls,
        units: Range<usize>,
        read: (usize, usize),
        state: &mut [u64],
    ) -> usize {
        let mut scanned = units.start;
        while scanned < units.end {
            let until = units.end.min(scanned + CHUNK).min(self.lap_end(scanned));
            self.scan_part(calls, scanned..until, read, state);
            scanned = until;
        }
        scanned
    }

    fn scan_part(
        &mut self,
        calls: &Calls,
        part: Range<usize>,
        (end, begin): (usize, usize),
        state: &mut [u64],
    ) {
        let start = part.start;
        let (late, early) = (&mut self.late, &mut self.early);
        let keep = |held: &mut Held, from: usize| held.keep(from.min(start), part.end);
        for held in late.iter_mut() {
            keep(held, end);
        }
        for held in early.iter_mut() {
            keep(held, begin);
        }
        let mut pairs = vec![0, self.steady.len as i64];
        let mut unit = start;
        while unit < part.end {
            let until = match self.plan.suffixes {
                Some(_) => self.block_end(unit).min(part.end),
                None => part.end,
            };
            pairs.extend([unit as i64, until as i64]);
            unit = until;
        }
        let late = self.late.iter().map(Held::target);
        let targets: Vec<Target> = if self.early.is_empty() {
            late.collect()
        } else {
            let early = self.early.iter().map(|held| held.target_from(start));
            early.zip(late).flat_map(|(a, b)| [a, b]).collect()
        };
        // What runs has to begin anew with a block, also if that is the first of the call.
        if self.is_begin(start) {
            restart(&self.plan, &self.slots, state);
        }
        let calls = calls.with_next(Next {
            row: part.end,
            first: start,
        });
        calls.over_ranges(self.plan.forward, &pairs, &targets, state);
        let held = self.late.iter_mut().chain(&mut self.early);
        held.for_each(|held| held.extend(part.end));
    }

    /// The end of the units from `unit` on that lie side by side.
    fn lap_end(&self, unit: usize) -> usize {
        self.early
            .first()
            .map_or(usize::MAX, |held| held.lap_end(unit))
    }

    fn is_begin(&self, unit: usize) -> bool {
        (unit as i64 - self.origin).rem_euclid(self.plan.block as i64) == 0
    }

    /// Suffixes of blocks, in place of the extremes of a few units.
    fn suffixes(&mut self, calls: &Calls, begins: Range<usize>) {
        let Some(number) = self.plan.suffixes else {
            return;
        };
        let mut kept = self.kept.unwrap_or(begins.start).max(begins.start);
        let settled = self.scanned.unwrap_or(0);
        let mut next = kept;
        while next < begins.end {
            let (first, lap) = (next, self.lap_end(next));
            let mut pairs = Vec::with_capacity(2 * (begins.len() / self.plan.block + 2));
            while next < begins.end.min(lap) {
                let end = self.block_end(next);
                pairs.extend([next as i64, end as i64]);
                next = end;
                // Where the last group is not complete, this is done again: what was found stays true.
                if end <= settled {
                    kept = end;
                }
            }
            let early = self.early.iter();
            let targets: Vec<Target> = early.map(|held| held.target_from(first)).collect();
            let views = targets.iter().map(|target| View {
                values: target.values,
                len: target.len,
                ..view::nothing()
            });
            let words = self.slots.iter().flat_map(|(op, ty)| {
                let neutral = op.neutral(*ty).bits;
                [neutral; LANES]
            });
            let (views, mut state): (Vec<View>, Vec<u64>) = (views.collect(), words.collect());
            calls.over_columns(number, &views, &pairs, &targets, &mut state);
        }
        self.kept = Some(kept);
    }

    /// A column for a chunk of rows: `2k` is slot `k`'s early part, `2k + 1` its late part.
    pub(super) fn view(&self, column: usize, rows: &Range<usize>, scratch: &mut Scratch) -> View {
        let stands = [(0, Stand::Neutral), (i64::MAX, Stand::Own)];
        let stands = match self.steady.len {
            0 => [(i64::MAX, Stand::Neutral); 2],
            _ => stands,
        };
        let end = rows.start as i64 + self.steady.hi - 1;
        let (held, first) = if column.is_multiple_of(2) {
            let behind = (self.plan.block - LANES) as i64;
            (&self.early[column / 2], end - behind)
        } else {
            (&self.late[column / 2], end)
        };
        let len = match self.steady.len {
            0 => 0,
            _ => usize::MAX >> 2,
        };
        held.view((first, rows.len()), len, &stands, scratch)
    }
}

/// The state before the first unit.
fn neutral(plan: &DoublingPlan, slots: &[(Combine, Ty)]) -> Vec<u64> {
    let words = slots.iter().flat_map(|(op, ty)| {
        let word = op.neutral(*ty).bits;
        std::iter::repeat_n(word, plan.vectors * LANES)
    });
    words.collect()
}

/// Makes the running combination of each slot, its last vector, neutral.
fn restart(plan: &DoublingPlan, slots: &[(Combine, Ty)], state: &mut [u64]) {
    if plan.suffixes.is_none() {
        return;
    }
    let words = state.chunks_exact_mut(plan.vectors * LANES);
    for (words, (op, ty)) in words.zip(slots) {
        words[(plan.vectors - 1) * LANES..].fill(op.neutral(*ty).bits);
    }
}
