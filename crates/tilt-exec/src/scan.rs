//! Windows while a stage runs: scans over blocks, running totals, folds.

use std::{collections::BTreeMap, ops::Range};

use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{Combine, Imm, LANES, Ty},
};

use tilt_ir::StreamId;

use crate::{
    memory::{Returned, Scratch},
    plan::{ParamSource, Source},
    range::{Parts, RangeRun},
    rows::RowsRun,
    run::{CHUNK, Piece, Trouble},
    series::{Leaf, Series},
    view,
    window::{Algorithm, Guard, RangePlan, WindowPlan},
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
    /// What the loops read and are given, the same for every call: whole columns.
    views: Vec<View>,
    params: Vec<u64>,
    /// Positions that are scanned, and the block that the next one is in.
    scanned: usize,
    block: Range<usize>,
    carry: Vec<u64>,
    /// The ranges of a call.
    ranges: Vec<i64>,
    /// The largest number of positions in a window so far.
    widest: u64,
    /// Bits of all magnitudes so far.
    magnitude: u64,
    /// Results of the chunk, for folds: two columns a slot.
    folded: Vec<*const u8>,
    /// For index accesses: which element of the columns each row reads.
    early: *const u32,
    late: *const u32,
    /// Keeps what the views point to.
    _bits: Scratch,
    /// For windows that are computed row by row.
    rows: Option<RowsRun<'a>>,
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
        piece: &Piece,
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
                Algorithm::Fold { .. } | Algorithm::Rows { .. } => (None, None),
            };
            Column {
                op: *op,
                ty: *ty,
                suffix,
                prefix,
            }
        });
        let mut bits = Scratch::default();
        let main = &piece.plan.loops[plan.algorithm.forward()];
        let accesses = plan.sources.iter().zip(main.accesses.iter());
        let views = accesses
            .map(|(source, (_, access))| whole(source, access.nullable, series, all, &mut bits));
        Self {
            plan,
            series,
            all,
            columns: columns.collect(),
            views: views.collect(),
            params: plan
                .params
                .iter()
                .map(|p| param(piece, p, series))
                .collect(),
            scanned: 0,
            block: 0..0,
            carry: neutral_words(plan),
            ranges: Vec::new(),
            widest: 0,
            magnitude: 0,
            folded: Vec::new(),
            early: std::ptr::null(),
            late: std::ptr::null(),
            _bits: bits,
            rows: plan.rows.as_ref().map(|rows| RowsRun::new(rows, series)),
        }
    }

    /// Whether a 64-bit total may have overflowed.
    pub(crate) fn may_overflow(&self) -> bool {
        if self.plan.guard == Guard::None {
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
    ) -> Result<(), Trouble> {
        match self.plan.algorithm {
            Algorithm::Fold { forward, backward } => {
                self.fold(piece, range, rows.len(), forward, backward, scratch);
            }
            Algorithm::Prefix { forward } => {
                let target = self.target(range, &rows, scratch);
                self.extend(piece, forward, target);
                self.index_prefix(range, rows.len(), scratch);
            }
            Algorithm::Blocks { forward, backward } => {
                let target = self.target(range, &rows, scratch);
                self.scan_blocks(piece, range, forward, backward, target, scratch);
                if !range.is_steady() {
                    let Parts { early, late } = range.parts(PAD as u32, scratch);
                    (self.early, self.late) = (early, late);
                }
            }
            Algorithm::Rows { store } => {
                self.store(piece, store);
                if let Some(run) = &mut self.rows {
                    run.advance(piece, range, rows, scratch)?;
                }
            }
        }
        Ok(())
    }

    /// Stores what all positions contribute, once.
    fn store(&mut self, piece: &Piece, number: usize) {
        let len = self.series.axis.len();
        let mut scratch = Scratch::default();
        while self.scanned < len {
            let part = self.scanned..len.min(self.scanned + CHUNK);
            let targets = self.rows.as_ref().map(|rows| rows.targets(part.start));
            scratch.reset();
            self.call_store(
                piece,
                number,
                &part,
                &targets.unwrap_or_default(),
                &mut scratch,
            );
            self.scanned = part.end;
        }
    }

    /// The end of the positions that the chunk's windows cover.
    fn target(
        &mut self,
        range: &mut RangeRun,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) -> usize {
        if range.is_steady() {
            let (lo, hi) = range.steady();
            self.widest = self.widest.max((hi - lo).unsigned_abs());
            return (rows.end as i64 - 1 + hi).clamp(0, range.len() as i64) as usize;
        }
        let (first, end) = range.bounds(scratch);
        if self.plan.guard != Guard::None {
            let pairs = first.iter().zip(end);
            let widest = pairs.map(|(first, end)| end.saturating_sub(*first)).max();
            self.widest = self.widest.max(u64::from(widest.unwrap_or(0)));
        }
        // Windows never end before those of earlier rows.
        end[..rows.len()].last().map_or(0, |end| *end as usize)
    }

    /// Scans forward to `to` without blocks.
    fn extend(&mut self, piece: &Piece, forward: usize, to: usize) {
        if to <= self.scanned {
            return;
        }
        self.ranges.clear();
        self.ranges.extend([self.scanned as i64, to as i64]);
        let targets = self.targets(|column| column.prefix.as_ref());
        self.call(piece, forward, &targets, None);
        match self.plan.guard {
            Guard::Slot => self.magnitude |= self.carry[self.carry.len() - 1],
            Guard::Leaf(stream, leaf) => {
                self.magnitude |= magnitude(&self.all[&stream].leaves[leaf], self.scanned..to);
            }
            Guard::None => {}
        }
        self.scanned = to;
    }

    /// Scans blocks until all positions before `target` are: one call for the prefixes of all, one for the suffixes of those that end.
    fn scan_blocks(
        &mut self,
        piece: &Piece,
        range: &RangeRun,
        forward: usize,
        backward: usize,
        target: usize,
        scratch: &mut Scratch,
    ) {
        if self.scanned >= target {
            return;
        }
        self.ranges.clear();
        let mut anchors = Vec::new();
        let mut ended: Vec<Range<usize>> = Vec::new();
        while self.scanned < target {
            if self.scanned == self.block.end {
                self.block = self.scanned..self.next_block_end(range);
                if self.ranges.is_empty() {
                    self.carry = neutral_words(self.plan);
                }
            }
            let start = self.block.start;
            // Whole groups, counted from the block's start, so that the next call goes on with one.
            let end = start + (target - start).next_multiple_of(LANES);
            let end = end.min(self.block.end);
            self.ranges.extend([self.scanned as i64, end as i64]);
            anchors.push(start);
            self.scanned = end;
            if end == self.block.end {
                ended.push(self.block.clone());
            }
        }
        let targets = self.targets(|column| column.prefix.as_ref());
        let views = self.anchored(&anchors, scratch);
        self.call(piece, forward, &targets, views.as_deref());
        if ended.is_empty() {
            return;
        }
        let carry = std::mem::replace(&mut self.carry, neutral_words(self.plan));
        self.ranges.clear();
        anchors.clear();
        for block in &ended {
            self.ranges.extend([block.start as i64, block.end as i64]);
            anchors.push(block.end - 1);
        }
        let targets = self.targets(|column| column.suffix.as_ref());
        let views = self.anchored(&anchors, scratch);
        self.call(piece, backward, &targets, views.as_deref());
        self.carry = carry;
        if range.is_steady() {
            // At a block's start a steady range reads the neutral element: the whole block is a prefix.
            for column in &self.columns {
                let neutral = column.op.neutral(column.ty);
                // The first block may have begun before the first position.
                let begun = |block: &&Range<usize>| block.start > 0 || range.begins_block(0);
                for block in ended.iter().filter(begun) {
                    let target = target_at(column.suffix.as_ref(), column.ty, block.start);
                    fill(target.values, 1, column.ty, neutral);
                }
            }
        }
    }

    /// The end of the block that begins with the next position. All blocks of a steady range but the first are as long as its windows.
    fn next_block_end(&self, range: &RangeRun) -> usize {
        let (lo, hi) = range.steady();
        if range.is_steady() && self.scanned > 0 {
            (self.scanned + (hi - lo).unsigned_abs() as usize).min(range.len())
        } else {
            range.block_end(self.scanned)
        }
    }

    /// Where the loops write, by position.
    fn targets(&self, memory: impl Fn(&Column) -> Option<&Returned>) -> Vec<Target> {
        let targets = self.columns.iter();
        targets.map(|c| target_at(memory(c), c.ty, 0)).collect()
    }

    /// The views with an anchor for each range, if there is one.
    fn anchored(&self, anchors: &[usize], scratch: &mut Scratch) -> Option<Vec<View>> {
        let (stream, leaf) = self.plan.anchor?;
        let leaf = &self.all[&stream].leaves[leaf];
        let bytes = leaf.ty.bytes();
        let out = scratch.slice::<u8>(anchors.len() * bytes);
        for (position, target) in anchors.iter().zip(out.chunks_exact_mut(bytes)) {
            let element = leaf.at(*position as isize);
            // SAFETY: anchors are positions of the column.
            target.copy_from_slice(unsafe { std::slice::from_raw_parts(element, bytes) });
        }
        Some(self.with_anchor(view::column(out)))
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

    /// What the next chunk reads first: an address and the bytes of a position.
    pub(crate) fn ahead(&self) -> Option<(*const u8, u64)> {
        let view = self.views.first()?;
        let access = self.plan.sources.first()?;
        let bytes = match access {
            Source::Leaf { leaf, .. } => self.series.leaves.get(*leaf)?.ty.bytes(),
            _ => return None,
        };
        let at = view.values.wrapping_add(self.scanned * bytes);
        (self.scanned < self.series.axis.len()).then_some((at, bytes as u64))
    }

    /// Calls a loop that stores what some positions contribute.
    fn call_store(
        &mut self,
        piece: &Piece,
        number: usize,
        positions: &Range<usize>,
        targets: &[Target],
        scratch: &mut Scratch,
    ) {
        let main = &piece.plan.loops[number];
        let accesses = self.plan.sources.iter().zip(main.accesses.iter());
        let (first, n) = (positions.start as i64, positions.len());
        let views: Vec<View> = accesses
            .map(|(source, (_, access))| match source {
                Source::Leaf { stream, leaf, .. } => {
                    let leaf = &self.all[stream].leaves[*leaf];
                    view::rows(leaf, first, n, access.nullable, scratch)
                }
                Source::Present { stream, .. } => {
                    let (present, len) = (self.all[stream].presence(), self.series.axis.len());
                    View {
                        validity: view::bit_rows(present, len, first, n, scratch),
                        ..view::nothing()
                    }
                }
                Source::Ends => {
                    let ends = scratch.slice::<i64>(n.next_multiple_of(LANES));
                    ends[..n].copy_from_slice(&self.series.axis.ends()[positions.clone()]);
                    view::column(ends)
                }
                other => unreachable!("{other:?} is nothing that an event contributes"),
            })
            .collect();
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: self.params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first,
            rows: n as u64,
            ahead: tilt_codegen::abi::nothing_ahead(),
            step: 0,
        };
        // SAFETY: views cover the positions up to a whole group, and targets have room for as many.
        unsafe { piece.code.call(&piece.plan.loops, number, &args) }
    }

    /// Calls a loop over `self.ranges`.
    fn call(&mut self, piece: &Piece, number: usize, targets: &[Target], views: Option<&[View]>) {
        let args = Args {
            views: views.map_or(self.views.as_ptr(), <[View]>::as_ptr),
            targets: targets.as_ptr(),
            params: self.params.as_ptr(),
            state: self.carry.as_mut_ptr(),
            ranges: self.ranges.as_ptr(),
            first: 0,
            rows: (self.ranges.len() / 2) as u64,
            ahead: tilt_codegen::abi::nothing_ahead(),
            step: 0,
        };
        // SAFETY: ranges are positions of the columns, of which the views show all, and targets have room for them.
        unsafe { piece.code.call(&piece.plan.loops, number, &args) }
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
        let widest = first
            .iter()
            .zip(&end)
            .map(|(f, e)| e.saturating_sub(*f))
            .max();
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
            self.ranges.clear();
            for row in 0..n {
                let (from, to) = if side == 0 {
                    (first[row], split[row])
                } else {
                    (split[row], end[row])
                };
                self.ranges
                    .extend([i64::from(from), i64::from(to.max(from))]);
            }
            let views = self.plan.anchor.map(|(stream, leaf)| {
                let leaf = &self.all[&stream].leaves[leaf];
                self.with_anchor(range.anchors(leaf, side == 0, scratch))
            });
            self.call(piece, number, &targets, views.as_deref());
        }
        match self.plan.guard {
            Guard::Slot => {
                #[expect(clippy::cast_ptr_alignment, reason = "a slot of words")]
                // SAFETY: the last slot of the late part was written for `n` rows.
                let bits = unsafe {
                    std::slice::from_raw_parts(self.folded[self.folded.len() - 1].cast::<u64>(), n)
                };
                self.magnitude |= bits.iter().fold(0, |all, bits| all | bits);
            }
            Guard::Leaf(stream, leaf) => {
                let (from, to) = (first.iter().min(), end.iter().take(n).max());
                if let (Some(from), Some(to)) = (from, to) {
                    let positions = *from as usize..*to.max(from) as usize;
                    self.magnitude |= magnitude(&self.all[&stream].leaves[leaf], positions);
                }
            }
            Guard::None => {}
        }
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
        if let Some(run) = &self.rows {
            return run.view(column, scratch);
        }
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
            (true | false, true) => hi - 1,
            (false, false) => lo,
        };
        let first = rows.start as i64 + offset;
        let len = range.len() as i64;
        let padded = n.next_multiple_of(LANES) as i64;
        let bytes = slot.ty.bytes();
        if first >= 0 && first + n as i64 <= len {
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
            let element = Self::beyond(p, len, is_prefix, late, range);
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
    fn beyond(p: i64, len: i64, is_prefix: bool, late: bool, range: &RangeRun) -> Option<i64> {
        if (0..len).contains(&p) {
            return Some(p);
        }
        let last = len - 1;
        match (p < 0, is_prefix, late) {
            _ if len == 0 => None,
            (true, true, _) | (true, false, true) => None,
            (false, true, _) => Some(last),
            // A part that begins before the first position of its own block.
            (true, false, false) if range.begins_block(p) => None,
            (true, false, false) => range.same_block(p, 0).then_some(0),
            (false, false, true) => range.same_block(p, last).then_some(last),
            (false, false, false) => None,
        }
    }
}

/// The neutral carry of each slot.
fn neutral_words(plan: &WindowPlan) -> Vec<u64> {
    plan.slots
        .iter()
        .map(|(op, ty)| op.neutral(*ty).bits)
        .collect()
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

/// A whole column as a view. Anchors are put in for each call.
fn whole(
    source: &Source,
    nullable: bool,
    series: &Series,
    all: &BTreeMap<StreamId, Series>,
    bits: &mut Scratch,
) -> View {
    let len = series.axis.len();
    match source {
        Source::Leaf { stream, leaf, .. } => all[stream].leaves[*leaf].whole(nullable, bits),
        Source::Present { stream, .. } => View {
            validity: view::bit_rows(all[stream].presence(), len, 0, len, bits),
            ..view::nothing()
        },
        Source::Ends => view::column(series.axis.ends()),
        Source::Anchor { .. } => view::nothing(),
        other => unreachable!("{other:?} is nothing that an event contributes"),
    }
}

fn param(piece: &Piece, param: &ParamSource, series: &Series) -> u64 {
    match param {
        ParamSource::Text(text) => u64::from(piece.texts[text]),
        ParamSource::FirstEnd => series.axis.regular_ends().unwrap_or(0) as u64,
        other => unreachable!("{other:?} is no parameter of a contribution"),
    }
}

/// Bits above which no magnitude of some 64-bit integers has any.
pub(crate) fn magnitude(leaf: &Leaf, positions: Range<usize>) -> u64 {
    debug_assert_eq!(leaf.ty.bits(), 64);
    #[expect(clippy::cast_ptr_alignment, reason = "a column of words")]
    let at = leaf.at(positions.start as isize).cast::<i64>();
    // SAFETY: positions of the column, whose elements have 64 bits and the alignment of one.
    let values = unsafe { std::slice::from_raw_parts(at, positions.len()) };
    if leaf.ty.is_signed() {
        // A number and its double first differ above its magnitude: cheaper than its absolute value.
        values.iter().fold(0, |all, v| all | (v ^ (v << 1)) as u64) >> 1
    } else {
        values.iter().fold(0, |all, v| all | *v as u64)
    }
}
