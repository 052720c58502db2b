//! Scans of which rows read by index: windows that follow no pattern, and windows without a beginning.
//!
//! Windows with a beginning have columns of all positions. Those without read the running total at their end alone, so of these no more is kept than a chunk of
//! rows reads, and a scan can begin at any position whose carry is known.

use std::{ops::Range, sync::Arc};

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, Imm, LANES, Ty},
};

use super::{
    calls::{Calls, Ranges},
    fill, neutral_words,
};
use crate::{
    bytes::{Reader, Writer},
    memory::{Returned, Scratch},
    range::{Parts, RangeRun},
    view,
    window::{Algorithm, WindowPlan},
};

/// Elements before the first position: neutral ones, and room for what a group writes too much.
const PAD: usize = 8;

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the plan")]
pub(super) struct Columns {
    kind: Kind,
    slots: Vec<(Combine, Ty)>,
    /// Suffixes of blocks, for each slot: element `p - base + PAD` from position `p` to the block's end.
    suffixes: Vec<Arc<Returned>>,
    /// Prefixes of blocks, or running totals, up to the position.
    prefixes: Vec<Arc<Returned>>,
    /// The first position that has an element.
    base: usize,
    /// Whether windows have no beginning: nobody reads suffixes, or what earlier chunks have read.
    running: bool,
    /// Positions that are scanned, and the block that the next one is in.
    scanned: usize,
    block: Range<usize>,
    carry: Vec<u64>,
    /// Positions that have an element, some of which are scanned again when more have come.
    filled: usize,
    /// Whether the block's suffixes are scanned.
    has_suffixes: bool,
    /// Whether more positions may come after the last.
    open: bool,
    /// Whether there are positions that were not there when the block was found.
    has_more: bool,
    /// Which element of the columns each row reads.
    early: *const u32,
    late: *const u32,
}

/// What is scanned, by loops of these numbers.
#[derive(Clone, Copy)]
enum Kind {
    Blocks { forward: usize, backward: usize },
    Prefix { forward: usize },
}

impl Columns {
    pub(super) fn new(plan: &WindowPlan, range: &RangeRun, open: bool) -> Self {
        let running = range.plan.is_running();
        let len = if running { 0 } else { range.len() };
        let kind = match plan.algorithm {
            Algorithm::Blocks { forward, backward } => Kind::Blocks { forward, backward },
            other => Kind::Prefix {
                forward: other.forward(),
            },
        };
        let columns = || {
            let columns = plan.slots.iter().map(|(op, ty)| {
                let memory = Returned::new(room(len) * ty.bytes());
                fill(memory.as_ptr(), PAD, *ty, op.neutral(*ty));
                Arc::new(memory)
            });
            columns.collect()
        };
        Self {
            kind,
            slots: plan.slots.clone(),
            suffixes: match kind {
                Kind::Blocks { .. } if !running => columns(),
                Kind::Blocks { .. } | Kind::Prefix { .. } => Vec::new(),
            },
            prefixes: columns(),
            base: 0,
            running,
            scanned: 0,
            block: 0..0,
            carry: neutral_words(&plan.slots),
            filled: 0,
            has_suffixes: false,
            open,
            has_more: false,
            early: std::ptr::null(),
            late: std::ptr::null(),
        }
    }

    /// Bytes of its columns.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.suffixes.iter().chain(&self.prefixes);
        columns.map(|memory| memory.len()).sum()
    }

    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    /// Writes running totals: the carry, and the last ones, which rows to come may read.
    pub(super) fn save(&mut self, out: &mut Writer) {
        self.drop_before(self.scanned.saturating_sub(LANES));
        for position in [self.base, self.scanned, self.filled] {
            out.count(position);
        }
        out.words(&self.carry);
        for (memory, (_, ty)) in self.prefixes.iter().zip(&self.slots) {
            let from = memory.as_ptr().wrapping_add(PAD * ty.bytes());
            let len = (self.filled - self.base) * ty.bytes();
            // SAFETY: what is filled, which nobody writes meanwhile.
            out.bytes(unsafe { std::slice::from_raw_parts(from, len) });
        }
    }

    /// Running totals that were [written](Self::save).
    pub(super) fn restore(plan: &WindowPlan, from: &mut Reader) -> Option<Self> {
        let (base, scanned, filled) = (from.count()?, from.count()?, from.count()?);
        let carry = from.words()?;
        let kind = match plan.algorithm {
            Algorithm::Blocks { forward, backward } => Kind::Blocks { forward, backward },
            Algorithm::Prefix { forward } => Kind::Prefix { forward },
            _ => return None,
        };
        if base > scanned || scanned > filled || carry.len() != plan.slots.len() {
            return None;
        }
        let mut prefixes = Vec::with_capacity(plan.slots.len());
        for (op, ty) in &plan.slots {
            let elements = from.bytes()?;
            if elements.len() != (filled - base).checked_mul(ty.bytes())? {
                return None;
            }
            let memory = Returned::new(room(filled - base) * ty.bytes());
            fill(memory.as_ptr(), PAD, *ty, op.neutral(*ty));
            let to = memory.as_ptr().wrapping_add(PAD * ty.bytes());
            // SAFETY: there is room for as many elements.
            unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), to, elements.len()) }
            prefixes.push(Arc::new(memory));
        }
        Some(Self {
            kind,
            slots: plan.slots.clone(),
            suffixes: Vec::new(),
            prefixes,
            base,
            running: true,
            scanned,
            block: 0..filled,
            carry,
            filled,
            has_suffixes: false,
            open: true,
            has_more: false,
            early: std::ptr::null(),
            late: std::ptr::null(),
        })
    }

    /// Scans of windows without a beginning that go on at a multiple of eight, with the carry there; the source has `len` positions.
    pub(super) fn starting(self, position: usize, carry: Vec<u64>, len: usize) -> Self {
        debug_assert!(self.running && position.is_multiple_of(LANES));
        Self {
            base: position,
            scanned: position,
            filled: position,
            block: 0..len,
            carry,
            ..self
        }
    }

    /// The same scans for the rows after, over more positions.
    pub(super) fn resume(mut self, len: usize, open: bool) -> Self {
        (self.open, self.has_more) = (open, true);
        if !self.running {
            self.reserve(len);
        }
        self
    }

    /// Makes room for the positions up to `end`.
    fn reserve(&mut self, end: usize) {
        let (filled, room) = (self.filled - self.base + PAD, room(end - self.base));
        let columns = self.suffixes.iter_mut().zip(&self.slots);
        for (memory, (_, ty)) in columns.chain(self.prefixes.iter_mut().zip(&self.slots)) {
            if memory.len() < room * ty.bytes() {
                let more = Returned::new(2 * room * ty.bytes());
                // SAFETY: both have room for what is filled.
                unsafe {
                    let (from, to) = (memory.as_ptr(), more.as_ptr());
                    std::ptr::copy_nonoverlapping(from, to, filled * ty.bytes());
                }
                *memory = Arc::new(more);
            }
        }
    }

    /// Gives up the elements of the positions before `from`.
    fn drop_before(&mut self, from: usize) {
        let dropped = from.saturating_sub(self.base).min(self.filled - self.base);
        if dropped == 0 {
            return;
        }
        let kept = self.filled - self.base - dropped;
        let columns = self.suffixes.iter().zip(&self.slots);
        for (memory, (_, ty)) in columns.chain(self.prefixes.iter().zip(&self.slots)) {
            let bytes = ty.bytes();
            let to = memory.as_ptr().wrapping_add(PAD * bytes);
            // SAFETY: both lie in what is filled.
            unsafe { std::ptr::copy(to.wrapping_add(dropped * bytes), to, kept * bytes) }
        }
        self.base += dropped;
    }

    /// The first positions are there no longer; all others are numbered anew.
    pub(super) fn forget(&mut self, positions: usize) {
        self.drop_before(positions);
        let moved = |position: usize| position.saturating_sub(positions);
        self.base = moved(self.base);
        self.filled = moved(self.filled);
        self.scanned = moved(self.scanned);
        // A block that began with the first position of all goes on for ever; groups are counted from any multiple of eight.
        self.block = moved(self.block.start)..moved(self.block.end);
    }

    pub(super) fn is_prefix(&self) -> bool {
        matches!(self.kind, Kind::Prefix { .. })
    }

    /// Scans of which others have done these positions.
    pub(super) fn scanned_to(self, positions: usize) -> Self {
        Self {
            scanned: positions,
            filled: positions,
            ..self
        }
    }

    /// Scans running totals of some positions.
    pub(super) fn scan_part(&self, calls: &Calls, positions: Range<usize>, carry: &mut [u64]) {
        let Kind::Prefix { forward } = self.kind else {
            unreachable!("blocks are scanned as a whole")
        };
        let targets = self.targets(&self.prefixes);
        calls.scan(forward, &Ranges::one(positions, 0), &targets, carry);
    }

    /// Scans whole blocks that follow each other.
    pub(super) fn scan_whole(&self, calls: &Calls, blocks: &[Range<usize>]) {
        let Kind::Blocks { forward, backward } = self.kind else {
            unreachable!("running totals have no blocks")
        };
        for (number, columns) in [(forward, &self.prefixes), (backward, &self.suffixes)] {
            let mut ranges = Ranges::default();
            for block in blocks {
                let anchor = if number == forward {
                    block.start
                } else {
                    block.end - 1
                };
                ranges.push(block.clone(), anchor);
            }
            let targets = self.targets(columns);
            calls.scan(number, &ranges, &targets, &mut neutral_words(&self.slots));
        }
    }

    /// Of windows without a beginning, the first position whose total is not in the carry, or is kept to be read. Where none is scanned that is the first of all.
    pub(super) fn told(&self) -> usize {
        if self.running {
            self.scanned.saturating_sub(LANES)
        } else {
            0
        }
    }

    pub(super) fn scanned(&self) -> usize {
        self.scanned
    }

    /// What the carry of the last slot has gathered.
    pub(super) fn last(&self) -> u64 {
        self.carry.last().map_or(0, |word| *word)
    }

    /// What the first slot has come to, of 64 bits.
    pub(super) fn total(&self) -> u64 {
        self.carry.first().map_or(0, |word| *word)
    }

    /// Whether a running total of the first slot, of 64 bits, is more than these hold at one of the positions that were scanned last. `before` is the one before
    /// them. Each adds 64 bits at most, so the step to a total that does not fit shows by signs.
    pub(super) fn overflows(&self, positions: &Range<usize>, mut before: u64) -> bool {
        let (memory, (_, ty)) = (&self.prefixes[0], self.slots[0]);
        debug_assert_eq!(ty.bits(), 64, "other totals are not guarded");
        #[expect(clippy::cast_ptr_alignment, reason = "columns are aligned to vectors")]
        let first = memory.as_ptr().cast::<u64>();
        let first = first.wrapping_add(PAD + positions.start - self.base);
        // SAFETY: what was scanned last is held, and nobody writes it meanwhile.
        let totals = unsafe { std::slice::from_raw_parts(first, positions.len()) };
        let is_signed = ty.is_signed();
        let lost = totals.iter().fold(0, |lost, total| {
            let before = std::mem::replace(&mut before, *total);
            let carried = if is_signed {
                (before ^ total) & (total.wrapping_sub(before) ^ total)
            } else {
                // The bit above the highest.
                u64::from(*total < before) << 63
            };
            lost | carried
        });
        lost >> 63 != 0
    }

    /// Scans what a chunk of rows reads; returns the positions that are new.
    pub(super) fn advance(
        &mut self,
        calls: &Calls,
        range: &mut RangeRun,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) -> Range<usize> {
        let from = self.scanned;
        let target = range.end(rows, scratch);
        if self.running {
            // Rows to come read from the last position that this chunk reads on, which is in the last group.
            self.drop_before(self.scanned.saturating_sub(LANES));
            self.reserve(self.scanned.max(target) + LANES);
        }
        match self.kind {
            Kind::Prefix { forward } => self.extend(calls, forward, target),
            Kind::Blocks { forward, backward } => {
                self.scan_blocks(calls, range, (forward, backward), target);
            }
        }
        match self.kind {
            _ if self.running => self.index_ends(range, rows.len(), scratch),
            Kind::Prefix { .. } => self.index_totals(range, rows.len(), scratch),
            Kind::Blocks { .. } => {
                let Parts { early, late } = range.parts(PAD as u32, scratch);
                (self.early, self.late) = (early, late);
            }
        }
        from..self.scanned
    }

    /// Scans forward to `to` without blocks.
    fn extend(&mut self, calls: &Calls, forward: usize, to: usize) {
        if to > self.scanned {
            let targets = self.targets(&self.prefixes);
            let ranges = Ranges::one(self.scanned..to, 0);
            calls.scan(forward, &ranges, &targets, &mut self.carry);
            self.scanned = to;
            self.filled = to;
        }
    }

    /// Scans blocks until all positions before `target` are: one call for the prefixes of all, one for the suffixes of those that are over.
    fn scan_blocks(
        &mut self,
        calls: &Calls,
        range: &RangeRun,
        (forward, backward): (usize, usize),
        target: usize,
    ) {
        let (mut prefixes, mut suffixes) = (Ranges::default(), Ranges::default());
        // A group that goes on with positions still to come is scanned again when they have.
        let mut rest = None;
        if std::mem::take(&mut self.has_more) && !self.block.is_empty() {
            self.block.end = range.block_end(self.block.end - 1);
        }
        loop {
            let is_over = !self.open || range.is_over(&self.block);
            if self.scanned == self.block.end || rest.is_some() {
                let is_new = !self.running && !self.has_suffixes && !self.block.is_empty();
                if is_over && is_new {
                    suffixes.push(self.block.clone(), self.block.end - 1);
                    self.has_suffixes = true;
                }
                if self.scanned >= target || rest.is_some() {
                    break;
                }
                self.block = self.scanned..range.block_end(self.scanned);
                self.has_suffixes = false;
                continue;
            }
            if self.scanned >= target {
                break;
            }
            let start = self.block.start;
            if prefixes.is_empty() && self.scanned == start {
                self.carry = neutral_words(&self.slots);
            }
            // Whole groups, counted from the block's start, so that the next call goes on with one.
            let end = start + (target - start).next_multiple_of(LANES);
            let mut end = end.min(self.block.end);
            if end == self.block.end && !is_over {
                let cut = (start + (end - start) / LANES * LANES).max(self.scanned);
                rest = (cut < end).then_some(cut..end);
                end = cut;
            }
            if self.scanned < end {
                prefixes.push(self.scanned..end, start);
                self.scanned = end;
            }
        }
        let targets = self.targets(&self.prefixes);
        if !prefixes.is_empty() {
            calls.scan(forward, &prefixes, &targets, &mut self.carry);
        }
        self.filled = self.filled.max(self.scanned);
        if let Some(rest) = rest {
            let mut carry = if rest.start == self.block.start {
                neutral_words(&self.slots)
            } else {
                self.carry.clone()
            };
            self.filled = self.filled.max(rest.end);
            let ranges = Ranges::one(rest, self.block.start);
            calls.scan(forward, &ranges, &targets, &mut carry);
        }
        if !suffixes.is_empty() {
            let targets = self.targets(&self.suffixes);
            let mut carry = neutral_words(&self.slots);
            calls.scan(backward, &suffixes, &targets, &mut carry);
        }
    }

    /// Where the loops write, by position.
    fn targets(&self, columns: &[Arc<Returned>]) -> Vec<Target> {
        let columns = columns.iter().zip(&self.slots);
        let targets = columns.map(|(memory, (_, ty))| Target {
            values: memory
                .as_ptr()
                .wrapping_add(PAD * ty.bytes())
                .wrapping_sub(self.base * ty.bytes()),
            validity: std::ptr::null_mut(),
            len: (memory.len() / ty.bytes() - PAD + self.base) as u64,
        });
        targets.collect()
    }

    /// Which running totals rows of windows without a beginning read: before the end, and nothing before that.
    fn index_ends(&mut self, range: &mut RangeRun, n: usize, scratch: &mut Scratch) {
        let padded = n.next_multiple_of(LANES);
        let [early, late] = [(); 2].map(|()| scratch.slice::<u32>(padded));
        early.fill(0);
        let (first, end) = range.bounds(scratch);
        let before_base = self.base as u32;
        for (late, (first, end)) in late.iter_mut().zip(first.iter().zip(end)) {
            *late = if first < end {
                end - 1 - before_base + PAD as u32
            } else {
                0
            };
        }
        late[n..].fill(0);
        (self.early, self.late) = (early.as_ptr(), late.as_ptr());
    }

    /// Which running totals rows read: before the first position and before the end.
    fn index_totals(&mut self, range: &mut RangeRun, n: usize, scratch: &mut Scratch) {
        if range.steady().is_some() {
            return;
        }
        let (first, end) = range.bounds(scratch);
        let index = |positions: &[u32], scratch: &mut Scratch| {
            let out = scratch.slice::<u32>(n.next_multiple_of(LANES));
            for (out, p) in out.iter_mut().zip(positions) {
                *out = p + PAD as u32 - 1;
            }
            out
        };
        let (first, end) = (index(first, scratch), index(end, scratch));
        (self.early, self.late) = (first.as_ptr(), end.as_ptr());
    }

    /// As [`WindowRun::view`](super::WindowRun::view).
    pub(super) fn view(
        &self,
        column: usize,
        range: &RangeRun,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) -> View {
        let (slot, is_late) = (column / 2, column % 2 == 1);
        let (op, ty) = self.slots[slot];
        let memory = match self.kind {
            Kind::Blocks { .. } if !is_late && !self.running => &self.suffixes[slot],
            _ => &self.prefixes[slot],
        };
        let Some(steady) = range.steady() else {
            return View {
                values: memory.as_ptr(),
                index: if is_late { self.late } else { self.early },
                len: (memory.len() / ty.bytes()) as u64,
                ..view::nothing()
            };
        };
        // Only running totals are read by row: those before a position, after the last one that of all.
        let offset = if is_late { steady.hi } else { steady.lo } - 1;
        let first = rows.start as i64 + offset;
        let padded = rows.len().next_multiple_of(LANES);
        let bytes = ty.bytes();
        let element = |p: i64| {
            memory
                .as_ptr()
                .wrapping_add((p + PAD as i64) as usize * bytes)
        };
        let values = if first >= 0 && first + rows.len() as i64 <= self.scanned as i64 {
            element(first)
        } else {
            let out = scratch.take(padded * bytes);
            let neutral: Imm = op.neutral(ty);
            for row in 0..rows.len() {
                let p = first + row as i64;
                let target = out.wrapping_add(row * bytes);
                if p < 0 || self.scanned == 0 {
                    fill(target, 1, ty, neutral);
                } else {
                    let from = element(p.min(self.scanned as i64 - 1));
                    // SAFETY: an element of the column, copied to one of the chunk.
                    unsafe { std::ptr::copy_nonoverlapping(from, target, bytes) }
                }
            }
            out
        };
        View {
            values,
            len: padded as u64,
            ..view::nothing()
        }
    }
}

/// Elements that columns of so many positions have.
fn room(len: usize) -> usize {
    len + 2 * PAD + LANES
}
