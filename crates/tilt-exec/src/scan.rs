//! Windows while a stage runs: scans over blocks, running totals, folds.

use std::{collections::BTreeMap, ops::Range};

use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{By, Combine, Imm, LANES, Ty},
};

use tilt_ir::StreamId;

use crate::{
    memory::{Returned, Scratch},
    plan::{ParamSource, Source},
    range::{Parts, RangeRun},
    run::Piece,
    series::{Leaf, Series},
    view,
    window::{Algorithm, RangePlan, WindowPlan},
};

/// Elements before the first position: neutral ones, and room for what a group writes too much.
const PAD: usize = 8;

/// A window while a stage runs.
pub(crate) struct WindowRun<'a> {
    pub(crate) plan: &'a WindowPlan,
    /// The source of the window.
    series: &'a Series,
    /// All series, for maps that read others on the source's timeline.
    all: &'a BTreeMap<StreamId, Series>,
    columns: Vec<Column>,
    /// Positions that are scanned, and the block that the next one is in.
    scanned: usize,
    block: Range<usize>,
    carry: Vec<u64>,
    /// The largest number of positions in a window so far.
    widest: u64,
    /// Bits of all magnitudes so far.
    magnitude: u64,
    /// Results of the chunk, for folds: two columns a slot.
    folded: Vec<*const u8>,
    /// For index accesses: which element of the columns each row reads.
    early: *const u32,
    late: *const u32,
}

/// What is scanned of a slot, by position: element `p + PAD`.
struct Column {
    op: Combine,
    ty: Ty,
    /// Suffixes of blocks, from the position to the block's end.
    suffix: Option<Returned>,
    /// Prefixes of blocks, or running totals, up to the position.
    prefix: Option<Returned>,
}

impl<'a> WindowRun<'a> {
    pub(crate) fn new(
        plan: &'a WindowPlan,
        range: &RangePlan,
        all: &'a BTreeMap<StreamId, Series>,
    ) -> Self {
        let series = &all[&range.stream];
        let len = series.axis.len() + 2 * PAD + LANES;
        let columns = plan.slots.iter().map(|(op, ty)| {
            let neutral = op.neutral(*ty);
            let array = || {
                let memory = Returned::new(len * ty.bytes());
                fill(memory.as_ptr(), PAD, *ty, neutral);
                memory
            };
            let (suffix, prefix) = match plan.algorithm {
                Algorithm::Blocks { .. } => (Some(array()), Some(array())),
                Algorithm::Prefix { .. } => (None, Some(array())),
                Algorithm::Fold { .. } => (None, None),
            };
            Column {
                op: *op,
                ty: *ty,
                suffix,
                prefix,
            }
        });
        Self {
            plan,
            series,
            all,
            columns: columns.collect(),
            scanned: 0,
            block: 0..0,
            carry: neutral_words(plan),
            widest: 0,
            magnitude: 0,
            folded: Vec::new(),
            early: std::ptr::null(),
            late: std::ptr::null(),
        }
    }

    /// Whether a 64-bit total may have overflowed.
    pub(crate) fn may_overflow(&self) -> bool {
        if !self.plan.guarded {
            return false;
        }
        // The magnitude of a total is less than that of all bits times the count.
        let bits = 64 - self.magnitude.leading_zeros() + (64 - self.widest.leading_zeros());
        bits > 62
    }

    /// Brings the window up to date for a chunk of rows.
    pub(crate) fn advance(
        &mut self,
        piece: &Piece,
        range: &mut RangeRun,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) {
        match self.plan.algorithm {
            Algorithm::Fold { forward, backward } => {
                self.fold(piece, range, rows.len(), forward, backward, scratch);
            }
            Algorithm::Prefix { forward } => {
                let target = self.target(range, &rows, scratch);
                self.extend(piece, forward, target.next_multiple_of(LANES).min(range.len()));
                self.index_prefix(range, rows.len(), scratch);
            }
            Algorithm::Blocks { forward, backward } => {
                let target = self.target(range, &rows, scratch);
                self.scan_blocks(piece, range, forward, backward, target);
                if !range.is_steady() {
                    let Parts { early, late } = range.parts(PAD as u32, scratch);
                    (self.early, self.late) = (early, late);
                }
            }
        }
    }

    /// The end of the positions that the chunk's windows cover.
    fn target(&mut self, range: &mut RangeRun, rows: &Range<usize>, scratch: &mut Scratch) -> usize {
        if range.is_steady() {
            let (lo, hi) = range.steady();
            self.widest = self.widest.max((hi - lo).unsigned_abs());
            return (rows.end as i64 - 1 + hi).clamp(0, range.len() as i64) as usize;
        }
        let (first, end) = range.bounds(scratch);
        if self.plan.guarded {
            let pairs = first.iter().zip(end);
            let widest = pairs.map(|(first, end)| end.saturating_sub(*first)).max();
            self.widest = self.widest.max(u64::from(widest.unwrap_or(0)));
        }
        // Windows never end before those of earlier rows.
        end[..rows.len()].last().map_or(0, |end| *end as usize)
    }

    /// Scans forward to `to` without blocks.
    fn extend(&mut self, piece: &Piece, forward: usize, to: usize) {
        if to > self.scanned {
            self.forward(piece, forward, self.scanned..to, 0);
            self.scanned = to;
            self.note_magnitude();
        }
    }

    fn note_magnitude(&mut self) {
        if self.plan.guarded {
            self.magnitude |= self.carry[self.carry.len() - 1];
        }
    }

    /// Scans blocks until all positions before `target` are.
    fn scan_blocks(
        &mut self,
        piece: &Piece,
        range: &RangeRun,
        forward: usize,
        backward: usize,
        target: usize,
    ) {
        while self.scanned < target {
            if self.scanned == self.block.end {
                self.block = self.scanned..range.block_end(self.scanned);
                self.carry = neutral_words(self.plan);
            }
            let start = self.block.start;
            // Whole groups, counted from the block's start, so that the next call goes on with one.
            let end = start + (target - start).next_multiple_of(LANES);
            let end = end.min(self.block.end);
            self.forward(piece, forward, self.scanned..end, start);
            self.scanned = end;
            if end == self.block.end {
                self.backward(piece, backward, self.block.clone(), range.is_steady());
            }
        }
    }

    /// Prefixes of some positions, which begin at a whole group.
    fn forward(&mut self, piece: &Piece, number: usize, positions: Range<usize>, anchor: usize) {
        let whole = positions.len() / LANES * LANES;
        let middle = positions.start + whole;
        let mut scratch = Scratch::default();
        for part in [positions.start..middle, middle..positions.end] {
            if part.is_empty() {
                continue;
            }
            let targets: Vec<Target> = self
                .columns
                .iter()
                .map(|c| target_at(c.prefix.as_ref(), c.ty, part.start))
                .collect();
            self.call(piece, number, &part, 0, anchor, &targets, &mut scratch);
        }
    }

    /// Suffixes of a block. At its start a steady range reads the neutral element: the whole block is a prefix.
    fn backward(&mut self, piece: &Piece, number: usize, block: Range<usize>, steady: bool) {
        let forward_carry = std::mem::replace(&mut self.carry, neutral_words(self.plan));
        let anchor = block.end - 1;
        let rest = block.len() % LANES;
        let middle = block.start + rest;
        let mut scratch = Scratch::default();
        if middle < block.end {
            let part = middle..block.end;
            let targets: Vec<Target> = self
                .columns
                .iter()
                .map(|c| target_at(c.suffix.as_ref(), c.ty, part.start))
                .collect();
            self.call(piece, number, &part, 0, anchor, &targets, &mut scratch);
        }
        if rest > 0 {
            // The group reaches before the block, whose neighbour's suffixes must stay.
            let part = block.start..middle;
            let copies: Vec<*mut u8> = self.columns.iter().map(|c| scratch.take(2 * LANES * c.ty.bytes())).collect();
            let targets: Vec<Target> = self
                .columns
                .iter()
                .zip(&copies)
                .map(|(c, copy)| Target {
                    values: copy.wrapping_add(LANES * c.ty.bytes()),
                    validity: std::ptr::null_mut(),
                    len: LANES as u64,
                })
                .collect();
            self.call(piece, number, &part, LANES, anchor, &targets, &mut scratch);
            for (column, copy) in self.columns.iter().zip(copies) {
                let bytes = column.ty.bytes();
                let target = target_at(column.suffix.as_ref(), column.ty, part.start);
                // SAFETY: `rest` elements were written after the lead of the copy; the target has room for them.
                unsafe {
                    std::ptr::copy_nonoverlapping(copy.add(LANES * bytes), target.values, rest * bytes);
                }
            }
        }
        if steady {
            for column in &self.columns {
                let target = target_at(column.suffix.as_ref(), column.ty, block.start);
                fill(target.values, 1, column.ty, column.op.neutral(column.ty));
            }
        }
        self.carry = forward_carry;
        self.note_magnitude();
    }

    /// Calls a scan over some positions; `lead` elements before them must be readable.
    #[allow(clippy::too_many_arguments)]
    fn call(
        &mut self,
        piece: &Piece,
        number: usize,
        positions: &Range<usize>,
        lead: usize,
        anchor: usize,
        targets: &[Target],
        scratch: &mut Scratch,
    ) {
        let main = &piece.plan.loops[number];
        let views: Vec<View> = self
            .plan
            .sources
            .iter()
            .zip(main.accesses.iter())
            .map(|(source, (_, access))| {
                self.source_view(source, positions, lead, access.nullable, scratch)
            })
            .collect();
        let params: Vec<u64> = self
            .plan
            .params
            .iter()
            .map(|p| self.param(piece, p, anchor))
            .collect();
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: self.carry.as_mut_ptr(),
            ranges: std::ptr::null(),
            first: positions.start as i64,
            rows: positions.len() as u64,
        };
        // SAFETY: views and targets cover the positions up to whole groups.
        unsafe { piece.code.call(&piece.plan.loops, number, &args) }
    }

    fn source_view(
        &self,
        source: &Source,
        positions: &Range<usize>,
        lead: usize,
        nullable: bool,
        scratch: &mut Scratch,
    ) -> View {
        let first = positions.start as i64;
        match source {
            Source::Leaf { stream, leaf, .. } => {
                let leaf = &self.all[stream].leaves[*leaf];
                if lead == 0 {
                    return view::rows(leaf, first, positions.len(), nullable, scratch);
                }
                // With the lead, but φ and zero where the column has nothing.
                let with_lead = positions.len() + lead;
                let mut view = view::rows(leaf, first - lead as i64, with_lead, nullable, scratch);
                if leaf.ty == Ty::Bool {
                    view.values = view.values.wrapping_add(lead / 8);
                } else {
                    view.values = view.values.wrapping_add(lead * leaf.ty.bytes());
                    view.lead += lead as u64;
                    view.len -= lead as u64;
                }
                if nullable {
                    view.validity = view.validity.wrapping_add(lead / 8);
                }
                view
            }
            Source::Present { stream, .. } => {
                let rows = positions.len() + lead;
                let bits = view::bit_rows(
                    self.all[stream].presence(),
                    self.series.axis.len(),
                    first - lead as i64,
                    rows,
                    scratch,
                );
                View {
                    validity: bits.wrapping_add(lead / 8),
                    ..view::nothing()
                }
            }
            Source::Ends => {
                let ends = self.series.axis.ends();
                let mut leaf = Leaf::written(Ty::I64, ends.len(), ends.inner().clone(), None);
                leaf.room = ends.len();
                let mut view = view::rows(&leaf, first - lead as i64, positions.len() + lead, false, scratch);
                view.values = view.values.wrapping_add(lead * 8);
                view.lead += lead as u64;
                view.len -= lead as u64;
                view
            }
            other => unreachable!("{other:?} is nothing that an event contributes"),
        }
    }

    fn param(&self, piece: &Piece, param: &ParamSource, anchor: usize) -> u64 {
        match param {
            ParamSource::Text(text) => u64::from(piece.texts[text]),
            ParamSource::FirstEnd => self.series.axis.regular_ends().unwrap_or(0) as u64,
            ParamSource::Anchor => {
                let leaf = &self.series.leaves[self.plan.anchor.unwrap_or(0)];
                word_at(leaf, anchor)
            }
            other => unreachable!("{other:?} is no parameter of a contribution"),
        }
    }

    /// Folds the parts of each row's window.
    fn fold(
        &mut self,
        piece: &Piece,
        range: &mut RangeRun,
        n: usize,
        forward: usize,
        backward: usize,
        scratch: &mut Scratch,
    ) {
        let (first, end) = range.bounds(scratch);
        let (first, end) = (first.to_vec(), end.to_vec());
        let widest = first.iter().zip(&end).map(|(f, e)| e.saturating_sub(*f)).max();
        self.widest = self.widest.max(u64::from(widest.unwrap_or(0)));
        // Where the order does not matter there is only one part.
        let ordered = self.plan.slots.iter().any(|(_, ty)| ty.is_float());
        let split = if ordered {
            range.split(scratch).to_vec()
        } else {
            first.clone()
        };
        self.folded = vec![std::ptr::null(); 2 * self.columns.len()];
        for (side, number) in [(0, backward), (1, forward)] {
            let targets: Vec<Target> = self
                .columns
                .iter()
                .map(|c| Target {
                    values: scratch.take(n.next_multiple_of(LANES) * c.ty.bytes()),
                    validity: std::ptr::null_mut(),
                    len: n.next_multiple_of(LANES) as u64,
                })
                .collect();
            for (slot, target) in targets.iter().enumerate() {
                self.folded[2 * slot + side] = target.values;
            }
            if side == 0 && !ordered {
                for (column, target) in self.columns.iter().zip(&targets) {
                    fill(target.values, n, column.ty, column.op.neutral(column.ty));
                }
                continue;
            }
            let ranges = scratch.slice::<i64>(2 * n);
            for (row, pair) in ranges.chunks_exact_mut(2).enumerate() {
                let (from, to) = if side == 0 {
                    (first[row], split[row])
                } else {
                    (split[row], end[row])
                };
                pair.copy_from_slice(&[i64::from(from), i64::from(to.max(from))]);
            }
            self.call_fold(piece, number, range, side == 0, ranges, &targets, scratch);
        }
        if self.plan.guarded {
            // SAFETY: the last slot of the late part was written for `n` rows.
            let bits = unsafe {
                std::slice::from_raw_parts(self.folded[self.folded.len() - 1].cast::<u64>(), n)
            };
            self.magnitude |= bits.iter().fold(0, |all, bits| all | bits);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn call_fold(
        &mut self,
        piece: &Piece,
        number: usize,
        range: &mut RangeRun,
        early: bool,
        ranges: &[i64],
        targets: &[Target],
        scratch: &mut Scratch,
    ) {
        let main = &piece.plan.loops[number];
        let len = self.series.axis.len();
        let views: Vec<View> = self
            .plan
            .sources
            .iter()
            .zip(main.accesses.iter())
            .map(|(source, (_, access))| match source {
                Source::Anchor { leaf, .. } => {
                    debug_assert_eq!(access.by, By::Range);
                    range.anchors(&self.series.leaves[*leaf], early, scratch)
                }
                Source::Leaf { stream, leaf, .. } => {
                    self.all[stream].leaves[*leaf].whole(access.nullable, scratch)
                }
                Source::Present { stream, .. } => View {
                    validity: view::bit_rows(self.all[stream].presence(), len, 0, len, scratch),
                    ..view::nothing()
                },
                other => self.source_view(other, &(0..len), 0, access.nullable, scratch),
            })
            .collect();
        let params: Vec<u64> = self.plan.params.iter().map(|p| self.param(piece, p, 0)).collect();
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: self.carry.as_mut_ptr(),
            ranges: ranges.as_ptr(),
            first: 0,
            rows: (ranges.len() / 2) as u64,
        };
        // SAFETY: ranges are positions of the columns, and targets have room for one element each.
        unsafe { piece.code.call(&piece.plan.loops, number, &args) }
    }

    /// Which running totals rows read: before the first position and before the end.
    fn index_prefix(&mut self, range: &mut RangeRun, n: usize, scratch: &mut Scratch) {
        if range.is_steady() {
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

    /// A column of results for the rows of a chunk: `2k` is slot `k`'s early part, `2k + 1` its late part.
    pub(crate) fn view(
        &self,
        column: usize,
        range: &mut RangeRun,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) -> View {
        let (slot, late) = (&self.columns[column / 2], column % 2 == 1);
        let n = rows.len();
        if matches!(self.plan.algorithm, Algorithm::Fold { .. }) {
            return View {
                values: self.folded[column],
                len: n.next_multiple_of(LANES) as u64,
                ..view::nothing()
            };
        }
        let is_prefix = matches!(self.plan.algorithm, Algorithm::Prefix { .. });
        let memory = if late || is_prefix {
            &slot.prefix
        } else {
            &slot.suffix
        };
        let memory = memory.as_ref().expect("every scan has its column");
        if !range.is_steady() {
            return View {
                values: memory.as_ptr(),
                index: if late { self.late } else { self.early },
                len: (memory.len() / slot.ty.bytes()) as u64,
                ..view::nothing()
            };
        }
        let (lo, hi) = range.steady();
        // Running totals are read before a position, prefixes at the last position.
        let offset = match (is_prefix, late) {
            (true, false) => lo - 1,
            (true, true) | (false, true) => hi - 1,
            (false, false) => lo,
        };
        let first = rows.start as i64 + offset;
        let len = range.len() as i64;
        let padded = n.next_multiple_of(LANES) as i64;
        let bytes = slot.ty.bytes();
        if first >= 0 && first + padded <= len {
            return View {
                values: memory.as_ptr().wrapping_add((first as usize + PAD) * bytes),
                len: padded as u64,
                ..view::nothing()
            };
        }
        let out = scratch.take(padded as usize * bytes);
        let neutral = slot.op.neutral(slot.ty);
        for row in 0..padded {
            let p = first + row;
            let element = self.beyond(p, len, is_prefix, late, range);
            let target = out.wrapping_add(row as usize * bytes);
            match element {
                Some(p) => {
                    let from = memory.as_ptr().wrapping_add((p as usize + PAD) * bytes);
                    // SAFETY: an element of the column, copied to one of the chunk.
                    unsafe { std::ptr::copy_nonoverlapping(from, target, bytes) }
                }
                None => fill(target, 1, slot.ty, neutral),
            }
        }
        View {
            values: out,
            len: padded as u64,
            ..view::nothing()
        }
    }

    /// The position whose element stands for position `p`, which may not exist; `None` is the neutral element.
    fn beyond(&self, p: i64, len: i64, is_prefix: bool, late: bool, range: &RangeRun) -> Option<i64> {
        if (0..len).contains(&p) {
            return Some(p);
        }
        let last = len - 1;
        match (p < 0, is_prefix, late) {
            _ if len == 0 => None,
            (true, true, _) | (true, false, true) => None,
            (false, true, _) => Some(last),
            // A part that begins before the first position of its own block.
            (true, false, false) => range.same_block(p, 0).then_some(0),
            (false, false, true) => range.same_block(p, last).then_some(last),
            (false, false, false) => None,
        }
    }
}

/// The neutral carry of each slot.
fn neutral_words(plan: &WindowPlan) -> Vec<u64> {
    plan.slots.iter().map(|(op, ty)| op.neutral(*ty).bits).collect()
}

fn target_at(memory: Option<&Returned>, ty: Ty, position: usize) -> Target {
    let memory = memory.expect("every scan has its column");
    Target {
        values: memory.as_ptr().wrapping_add((position + PAD) * ty.bytes()),
        validity: std::ptr::null_mut(),
        len: (memory.len() / ty.bytes() - position - PAD) as u64,
    }
}

/// Writes `n` times the constant.
fn fill(at: *mut u8, n: usize, ty: Ty, value: Imm) {
    let bytes = value.bits.to_le_bytes();
    let width = ty.bytes();
    for i in 0..n {
        // SAFETY: callers pass memory of at least `n` elements.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(i * width), width) }
    }
}

/// An element as a word.
fn word_at(leaf: &Leaf, position: usize) -> u64 {
    let bytes = leaf.ty.bytes();
    let mut word = [0; 8];
    if position < leaf.len {
        // SAFETY: an element of the column.
        let element = unsafe { std::slice::from_raw_parts(leaf.at(position as isize), bytes) };
        word[..bytes].copy_from_slice(element);
    }
    let word = u64::from_le_bytes(word);
    if leaf.ty.is_signed() {
        Imm::int(leaf.ty, word as i64).bits
    } else {
        word
    }
}
