//! Suffixes and prefixes of blocks for windows that move by one unit from row to row.
//!
//! A chunk of rows reads the suffixes of consecutive units and the prefixes of others, as many as it has rows, so no more is kept of either. Prefixes
//! are scanned as rows advance. Suffixes are scanned backward, block by block, when rows come to a block; of a long block only a *portion* at a time,
//! from a carry that one pass over the block has left at the end of each portion.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, LANES, Ty},
};

use super::{
    calls::{Calls, Next, Ranges},
    held::{Held, Stand},
    neutral_words,
};
use crate::{memory::Scratch, range::Steady, run::CHUNK};

/// Units of a long block whose suffixes are kept together: they stay in the second cache.
const PORTION: usize = 1 << 16;

/// Carries of long blocks at the ends of their portions, the last portion's first, by the first units of the blocks.
pub(super) type Passed = BTreeMap<usize, Vec<Vec<u64>>>;

pub(super) struct BlockScans {
    steady: Steady,
    forward: usize,
    backward: usize,
    slots: Vec<(Combine, Ty)>,
    late: Vec<Held>,
    /// The unit up to which prefixes are scanned, none at first, and the carry there.
    scanned: Option<usize>,
    carry: Vec<u64>,
    early: Vec<Held>,
    /// The unit up to which suffixes are kept, none at first.
    kept: Option<usize>,
    /// Of the long block that the next unit is in: carries at the ends of its portions, the last portion's first.
    carries: Vec<Vec<u64>>,
    /// Those of blocks that were passed before.
    passed: Arc<Passed>,
    /// Whether more units may come after the last.
    open: bool,
    /// Room for a list of blocks.
    ranges: Ranges,
}

impl BlockScans {
    /// Bytes of its columns.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.late.iter().chain(&self.early);
        columns.map(Held::bytes).sum()
    }

    pub(super) fn new(
        steady: Steady,
        (forward, backward): (usize, usize),
        slots: &[(Combine, Ty)],
        open: bool,
    ) -> Self {
        let most = if open { usize::MAX } else { steady.len };
        let width = (steady.width() as usize).min(most).min(PORTION);
        let held = |room: usize| slots.iter().map(|slot| Held::new(*slot, room)).collect();
        Self {
            steady,
            forward,
            backward,
            slots: slots.to_vec(),
            late: held(2 * CHUNK + LANES),
            scanned: None,
            carry: Vec::new(),
            early: held(4 * CHUNK + 2 * width),
            kept: None,
            carries: Vec::new(),
            passed: Arc::default(),
            open,
            ranges: Ranges::default(),
        }
    }

    /// The same scans, going on with prefixes at a whole group of a block.
    pub(super) fn starting(self, scanned: usize, carry: Vec<u64>, passed: Arc<Passed>) -> Self {
        Self {
            scanned: Some(scanned),
            carry,
            passed,
            ..self
        }
    }

    pub(super) fn has_units(&self) -> bool {
        self.steady.len > 0
    }

    /// The block in which the window of a row ends, and the unit up to which its prefixes are scanned before that row.
    pub(super) fn cut(&self, row: usize) -> (Range<usize>, usize) {
        let unit = self.units(&(row..row + 1), self.steady.hi - 1).start;
        let block = self.block(unit);
        let cut = block.start + (unit - block.start) / LANES * LANES;
        (block, cut)
    }

    /// The blocks in which windows of some rows begin, as far as they have several portions.
    pub(super) fn long_blocks(&self, rows: &Range<usize>) -> Vec<Range<usize>> {
        let units = self.units(rows, self.steady.lo);
        let mut blocks = Vec::new();
        let mut unit = units.start;
        while unit < units.end && self.steady.width() as usize > PORTION {
            let block = self.block(unit);
            unit = block.end;
            if block.len() > PORTION {
                blocks.push(block);
            }
        }
        blocks
    }

    /// The carries of a long block.
    pub(super) fn carries_of(&mut self, calls: &Calls, block: &Range<usize>) -> Vec<Vec<u64>> {
        self.pass(calls, block, (block.len() - 1) / PORTION);
        std::mem::take(&mut self.carries)
    }

    /// The same scans for the rows after, over more units.
    pub(super) fn resume(self, steady: Steady, open: bool) -> Self {
        // Blocks of windows by count begin wherever the first one did.
        let origin = self.steady.origin;
        Self {
            steady: Steady { origin, ..steady },
            open,
            ..self
        }
    }

    /// Whether anything was scanned: before that there may have been no unit to tell where blocks begin.
    pub(super) fn has_begun(&self) -> bool {
        self.scanned.is_some()
    }

    /// The first units are there no longer; all others are numbered anew.
    pub(super) fn forget(&mut self, units: usize) {
        let held = self.late.iter_mut().chain(&mut self.early);
        held.for_each(|held| held.forget(units));
        self.scanned = self.scanned.map(|scanned| scanned - units);
        self.kept = self.kept.map(|kept| kept.saturating_sub(units));
        self.steady.origin -= units as i64;
    }

    /// Scans what a chunk of rows reads.
    pub(super) fn advance(&mut self, calls: &Calls, rows: &Range<usize>) {
        if self.steady.len > 0 {
            self.advance_prefixes(calls, self.units(rows, self.steady.hi - 1));
            self.advance_suffixes(calls, self.units(rows, self.steady.lo));
        }
    }

    /// The unit that the next chunk reads first.
    pub(super) fn next(&self) -> usize {
        self.scanned.unwrap_or(0)
    }

    /// The units that rows read, so far away; at least one, because the first and the last stand for some that do not exist.
    fn units(&self, rows: &Range<usize>, offset: i64) -> Range<usize> {
        let len = self.steady.len as i64;
        let from = (rows.start as i64 + offset).clamp(0, len - 1);
        let to = (rows.end as i64 + offset).clamp(from + 1, len);
        from as usize..to as usize
    }

    /// The existing units of the block that a unit is in.
    fn block(&self, unit: usize) -> Range<usize> {
        let start = self.steady.block_start(unit as i64);
        let end = (start + self.steady.width()).min(self.steady.len as i64);
        start.max(0) as usize..end as usize
    }

    fn advance_prefixes(&mut self, calls: &Calls, needed: Range<usize>) {
        let mut scanned = self.scanned.unwrap_or_else(|| {
            self.carry = neutral_words(&self.slots);
            self.block(needed.start).start
        });
        let mut block = self.block(scanned);
        while scanned < needed.end {
            let until = needed.end.min(scanned + CHUNK);
            self.late
                .iter_mut()
                .for_each(|held| held.keep(needed.start.min(scanned), until + LANES));
            let mut ranges = std::mem::take(&mut self.ranges);
            ranges.clear();
            // A group that goes on with units still to come is scanned again when they have.
            let mut rest = None;
            while scanned < until {
                if scanned == block.end {
                    block = scanned..(scanned + self.steady.width() as usize).min(self.steady.len);
                }
                if ranges.is_empty() && scanned == block.start {
                    self.carry = neutral_words(&self.slots);
                }
                // Whole groups, counted from the block's start, so that the next call goes on with one.
                let end = block.start + (until - block.start).next_multiple_of(LANES);
                let mut end = end.min(block.end);
                if end == block.end && !self.is_over(&block) {
                    let cut = block.start + (end - block.start) / LANES * LANES;
                    rest = (cut < end).then_some(cut.max(scanned)..end);
                    end = cut.max(scanned);
                }
                if scanned < end {
                    ranges.push(scanned..end, block.start);
                    scanned = end;
                }
                if rest.is_some() {
                    break;
                }
            }
            let targets: Vec<Target> = self.late.iter().map(Held::target).collect();
            if !ranges.is_empty() {
                let (row, first) = (scanned, ranges.start(0));
                let calls = calls.with_next(Next { row, first });
                calls.scan(self.forward, &ranges, &targets, &mut self.carry);
            }
            self.ranges = ranges;
            let mut end = scanned;
            if let Some(rest) = rest {
                let mut carry = if rest.start == block.start {
                    neutral_words(&self.slots)
                } else {
                    self.carry.clone()
                };
                end = rest.end;
                let ranges = Ranges::one(rest, block.start);
                calls.scan(self.forward, &ranges, &targets, &mut carry);
            }
            self.late.iter_mut().for_each(|held| held.extend(end));
            if scanned < end {
                break;
            }
        }
        self.scanned = Some(scanned);
    }

    /// Whether no unit that is still to come is one of a block.
    fn is_over(&self, block: &Range<usize>) -> bool {
        // Short blocks are many: no division for each.
        if !self.open {
            return true;
        }
        let end = self.steady.block_start(block.end as i64 - 1) + self.steady.width();
        end <= self.steady.len as i64
    }

    fn advance_suffixes(&mut self, calls: &Calls, needed: Range<usize>) {
        let mut kept = self.kept.unwrap_or(0).max(needed.start);
        if kept >= needed.end {
            return;
        }
        let width = self.steady.width() as usize;
        // Whole blocks, or a portion; or what a pass writes.
        let until = needed.end + width.clamp(CHUNK, PORTION);
        self.early
            .iter_mut()
            .for_each(|held| held.keep(needed.start, until));
        let mut blocks = std::mem::take(&mut self.ranges);
        blocks.clear();
        let mut block = self.block(kept);
        while kept < needed.end {
            if kept == block.end {
                block = kept..(kept + width).min(self.steady.len);
            }
            // No window that begins here ends beyond the block before that is over.
            if !self.is_over(&block) {
                break;
            }
            if block.len() <= PORTION {
                blocks.push(kept..block.end, block.end - 1);
                kept = block.end;
            } else {
                self.scan_suffixes(calls, &blocks);
                blocks.clear();
                kept = self.portion(&calls.far(), &block, kept);
            }
        }
        self.scan_suffixes(calls, &blocks);
        self.ranges = blocks;
        self.kept = Some(kept);
    }

    /// Scans suffixes up to the ends of blocks that follow each other.
    fn scan_suffixes(&mut self, calls: &Calls, blocks: &Ranges) {
        if blocks.is_empty() {
            return;
        }
        let targets: Vec<Target> = self.early.iter().map(Held::target).collect();
        let mut neutral = neutral_words(&self.slots);
        calls.scan(self.backward, blocks, &targets, &mut neutral);
        let units = blocks.units();
        self.early
            .iter_mut()
            .for_each(|held| held.extend(units.end));
        // Of the first block earlier units may be kept already; all others begin here, each a window's length after the one before.
        self.begin_block(units.start);
        if blocks.len() > 1 {
            let starts = (blocks.start(1)..units.end).step_by(self.steady.width() as usize);
            self.early
                .iter()
                .for_each(|held| held.set_neutral(starts.clone()));
        }
    }

    /// The whole of a block is a prefix: a window that begins with it has no early part.
    fn begin_block(&self, unit: usize) {
        if self.steady.block_start(unit as i64) == unit as i64 {
            self.early
                .iter()
                .for_each(|held| held.set_neutral(std::iter::once(unit)));
        }
    }

    /// Scans the suffixes of units of a long block from `from` to where its portion ends, which is returned.
    fn portion(&mut self, calls: &Calls, block: &Range<usize>, from: usize) -> usize {
        let portion = (block.end - 1 - from) / PORTION;
        if portion >= self.carries.len() {
            match self.passed.get(&block.start) {
                Some(carries) => self.carries = carries[..=portion].to_vec(),
                None => self.pass(calls, block, portion),
            }
        }
        let mut carry = self.carries[portion].clone();
        self.carries.truncate(portion);
        let end = block.end - portion * PORTION;
        let targets: Vec<Target> = self.early.iter().map(Held::target).collect();
        let units = Ranges::one(from..end, block.end - 1);
        calls.scan(self.backward, &units, &targets, &mut carry);
        self.early.iter_mut().for_each(|held| held.extend(end));
        self.begin_block(from);
        end
    }

    /// Scans a block backward as far as its portion number `portion` goes, for the carries only.
    fn pass(&mut self, calls: &Calls, block: &Range<usize>, portion: usize) {
        let mut carry = neutral_words(&self.slots);
        self.carries = vec![carry.clone()];
        let mut end = block.end;
        while self.carries.len() <= portion {
            let start = end - CHUNK;
            let targets: Vec<Target> = self.early.iter().map(|held| held.spare(start)).collect();
            let units = Ranges::one(start..end, block.end - 1);
            calls.scan(self.backward, &units, &targets, &mut carry);
            end = start;
            if (block.end - end).is_multiple_of(PORTION) {
                self.carries.push(carry.clone());
            }
        }
    }

    /// A column for a chunk of rows: `2k` is slot `k`'s early part, `2k + 1` its late part.
    pub(super) fn view(&self, column: usize, rows: &Range<usize>, scratch: &mut Scratch) -> View {
        let Steady { lo, hi, len, .. } = self.steady;
        let (end, all) = (len as i64, (i64::MAX, Stand::Neutral));
        if column.is_multiple_of(2) {
            // Windows that begin before the first unit, but in its block, have all of it that exists in their early part.
            let block = self.steady.block_start(0);
            let stands = [
                (block + 1, Stand::Neutral),
                (0, Stand::Of(0)),
                (end, Stand::Own),
                all,
            ];
            let first = rows.start as i64 + lo;
            let stands = if len == 0 { &stands[3..] } else { &stands[..] };
            return self.early[column / 2].view((first, rows.len()), len, stands, scratch);
        }
        let block = self.steady.block_start(end - 1) + self.steady.width();
        let stands = [
            (0, Stand::Neutral),
            (end, Stand::Own),
            (block, Stand::Of(len.saturating_sub(1))),
            all,
        ];
        let first = rows.start as i64 + hi - 1;
        let stands = if len == 0 { &stands[3..] } else { &stands[..] };
        self.late[column / 2].view((first, rows.len()), len, stands, scratch)
    }
}
