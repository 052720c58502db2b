//! Windows while a stage runs: scans over blocks, totals, folds.
//!
//! | module | subject |
//! |---|---|
//! | [`blocks`], [`doubling`], [`totals`] | windows that move by one unit from row to row: a position of the source, or a pane |
//! | [`panes`] | positions that are folded into one before anything else |
//! | [`columns`] | all other scans: whole columns, which rows read by index |
//! | [`begin`] | windows that begin at any row |
//! | [`held`], [`calls`] | what the others share: memory for a chunk, calls of loops over ranges |

mod begin;
mod blocks;
mod calls;
mod columns;
mod doubling;
mod held;
mod panes;
mod totals;

use std::{collections::BTreeMap, ops::Range};

use arrow_buffer::BooleanBuffer;
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{Combine, Imm, LANES, Ty},
};

use tilt_ir::StreamId;

use crate::{
    bytes::{Reader, Writer},
    memory::Scratch,
    plan::{ParamSource, Source},
    range::RangeRun,
    rows::{RowsKept, RowsRun},
    run::{CHUNK, Piece, Trouble},
    series::{Leaf, Series},
    view,
    window::{Algorithm, Guard, WindowPlan},
};
pub(crate) use begin::{Begin, Done, Task};

use begin::Start;
use blocks::BlockScans;
use calls::{Calls, left};
use columns::Columns;
use doubling::Doubling;
use panes::Panes;
use totals::Totals;

/// A window while a stage runs.
pub(crate) struct WindowRun<'a> {
    pub(crate) plan: &'a WindowPlan,
    /// The source of the window.
    series: &'a Series,
    /// All series, for maps that read others on the source's timeline.
    all: &'a BTreeMap<StreamId, Series>,
    /// What the loops over contributions read and are given, the same for every call: whole columns.
    views: Vec<View>,
    params: Vec<u64>,
    /// The largest number of positions in a window so far.
    widest: u64,
    /// Bits of all magnitudes so far.
    magnitude: u64,
    /// Of totals that are looked at position by position, and not guessed from widths and magnitudes: whether one did not fit.
    overflowed: Option<bool>,
    panes: Option<Panes>,
    state: State<'a>,
    /// Whether nothing reads what it comes to for the chunk.
    is_idle: bool,
    /// Keeps what the views point to.
    _bits: Scratch,
}

/// What a window keeps from one run of its stage to the next, which goes on with the rows after.
pub(crate) struct Kept {
    widest: u64,
    magnitude: u64,
    /// `None` if it is made anew.
    scans: Option<Scans>,
    /// What scans are over, if not positions.
    panes: Option<Panes>,
    /// What is known if it is.
    start: Start,
}

enum Scans {
    Blocks(BlockScans),
    Doubling(Doubling),
    Totals(Totals),
    Columns(Columns),
    Rows(Box<RowsKept>),
}

// SAFETY: addresses that scans hold are those of a chunk's memory, and the next chunk sets them before anybody follows one; those that panes hold are of their own columns.
unsafe impl Send for Kept {}

impl Kept {
    /// The first position that what is kept of a window without a beginning does not tell.
    pub(crate) fn carried_from(&self) -> usize {
        match &self.scans {
            Some(Scans::Columns(columns)) => columns.told(),
            _ => 0,
        }
    }

    /// Bytes of its columns.
    pub(crate) fn bytes(&self) -> usize {
        let scans = match &self.scans {
            Some(Scans::Blocks(blocks)) => blocks.bytes(),
            Some(Scans::Doubling(doubling)) => doubling.bytes(),
            Some(Scans::Columns(columns)) => columns.bytes(),
            Some(Scans::Rows(rows)) => rows.bytes(),
            Some(Scans::Totals(_)) | None => 0,
        };
        scans + self.panes.as_ref().map_or(0, Panes::bytes)
    }

    /// Writes what a window without a beginning carries, and what is known of the others.
    pub(crate) fn save(&mut self, out: &mut Writer) {
        // Between these was a count that nothing needs any more.
        for word in [self.widest, 0, self.magnitude] {
            out.word(word);
        }
        match &mut self.scans {
            Some(Scans::Columns(columns)) if columns.is_running() => {
                out.word(1);
                columns.save(out);
            }
            _ => out.word(0),
        }
    }

    /// What was [written](Self::save) of a window; other scans are made anew.
    pub(crate) fn restore(plan: &WindowPlan, from: &mut Reader) -> Option<Self> {
        let (widest, _, magnitude) = (from.word()?, from.word()?, from.word()?);
        let scans = match from.word()? {
            0 => None,
            _ => Some(Scans::Columns(Columns::restore(plan, from)?)),
        };
        Some(Self {
            widest,
            magnitude,
            scans,
            panes: None,
            start: Start::Anew,
        })
    }

    /// The first positions of the source, a multiple of eight, are there no longer. Nothing asks for them any more.
    pub(crate) fn forget(&mut self, positions: usize) {
        // Panes would have to be cut.
        if self.panes.take().is_some() {
            self.scans = None;
        }
        match &mut self.scans {
            Some(Scans::Blocks(blocks)) => blocks.forget(positions),
            Some(Scans::Doubling(doubling)) => doubling.forget(positions),
            Some(Scans::Columns(columns)) => columns.forget(positions),
            Some(Scans::Rows(rows)) => rows.forget(positions),
            Some(Scans::Totals(_)) | None => {}
        }
    }
}

/// What an algorithm keeps from chunk to chunk.
enum State<'a> {
    Blocks(BlockScans),
    Doubling(Doubling),
    Totals(Totals),
    Columns(Columns),
    /// Two columns a slot for the chunk.
    Folded(Vec<*const u8>),
    Rows {
        run: Box<RowsRun<'a>>,
        stored: usize,
    },
}

impl<'a> WindowRun<'a> {
    /// For rows up to one; those after it, if there are any, may have windows with positions that are still to come.
    pub(crate) fn new(
        piece: &Piece,
        plan: &'a WindowPlan,
        range: &RangeRun,
        all: &'a BTreeMap<StreamId, Series>,
        kept: Option<Kept>,
        until: usize,
    ) -> Self {
        let series = &all[&range.plan.stream];
        let before = kept.as_ref();
        let (widest, magnitude) = before.map_or((0, 0), |k| (k.widest, k.magnitude));
        let (mut scans, before, start) = match kept {
            Some(kept) => (kept.scans, kept.panes, kept.start),
            None => (None, None, Start::Anew),
        };
        let mut bits = Scratch::default();
        let main = &piece.plan.loops[plan.contributions()];
        let accesses = plan.sources.iter().zip(main.accesses.iter());
        let views = accesses
            .map(|(source, (_, access))| whole(source, access.nullable, series, all, &mut bits));
        let before = before.filter(|panes| panes.goes_on_in(range));
        let open = piece.open.then_some(until);
        // A stretch of a stage sees some of the positions only.
        let is_whole = !matches!(start, Start::Running { .. });
        let is_exact = range.plan.is_running() && is_whole && plan.guard != Guard::None;
        let panes = plan.panes.map(|panes| match (before, &start) {
            (Some(before), _) => before.resume(range, open),
            (None, start) => {
                scans = None;
                let panes = Panes::new(panes, range, &plan.slots, open);
                match start {
                    Start::Panes(columns) => panes.folded(columns.clone()),
                    _ => panes,
                }
            }
        });
        let steady = panes.as_ref().map(Panes::steady).or_else(|| range.steady());
        let state = match (plan.algorithm, steady, scans) {
            (Algorithm::Blocks { .. }, Some(steady), Some(Scans::Blocks(blocks))) => {
                State::Blocks(blocks.resume(steady, piece.open))
            }
            (Algorithm::Doubling(_), Some(steady), Some(Scans::Doubling(doubling))) => {
                State::Doubling(doubling.resume(steady, piece.open))
            }
            (Algorithm::Totals { .. }, Some(steady), Some(Scans::Totals(totals))) => {
                State::Totals(totals.resume(steady))
            }
            (
                Algorithm::Blocks { .. } | Algorithm::Prefix { .. },
                _,
                Some(Scans::Columns(columns)),
            ) => State::Columns(columns.resume(series.axis.len(), piece.open)),
            (Algorithm::Blocks { forward, backward }, Some(steady), _) => {
                let loops = (forward, backward);
                let blocks = BlockScans::new(steady, loops, &plan.slots, piece.open);
                State::Blocks(match start {
                    Start::Blocks {
                        scanned,
                        carry,
                        suffixes,
                    } => blocks.starting(scanned, carry, suffixes),
                    _ => blocks,
                })
            }
            (Algorithm::Doubling(doubling), Some(steady), _) => {
                State::Doubling(Doubling::new(doubling, steady, &plan.slots, piece.open))
            }
            (
                Algorithm::Totals {
                    forward,
                    difference,
                },
                Some(steady),
                _,
            ) => {
                let totals = Totals::new(steady, (forward, difference), &plan.slots);
                State::Totals(match start {
                    Start::Totals(carry) => totals.starting(carry),
                    _ => totals,
                })
            }
            (Algorithm::Fold { .. }, ..) => State::Folded(Vec::new()),
            (Algorithm::Rows { .. }, _, scans) => {
                let rows = plan.rows.as_ref().expect("windows by rows have a plan");
                let (run, stored) = match scans {
                    Some(Scans::Rows(kept)) => RowsRun::resume(rows, series, *kept, piece.open),
                    _ => (RowsRun::new(rows, series, piece.open), 0),
                };
                let run = Box::new(run);
                State::Rows { run, stored }
            }
            _ => {
                let columns = Columns::new(plan, range, piece.open);
                State::Columns(match start {
                    Start::Running { scanned, carry } => {
                        columns.starting(scanned, carry, range.len())
                    }
                    _ => columns,
                })
            }
        };
        Self {
            plan,
            series,
            all,
            views: views.collect(),
            params: plan
                .params
                .iter()
                .map(|p| param(piece, p, series))
                .collect(),
            widest,
            magnitude,
            overflowed: is_exact.then_some(false),
            panes,
            state,
            is_idle: false,
            _bits: bits,
        }
    }

    /// What the next run of the stage goes on from, if positions stay what they are.
    pub(crate) fn keep(self, stay: bool) -> Kept {
        let scans = match self.state {
            _ if !stay => None,
            State::Blocks(blocks) => blocks.has_begun().then_some(Scans::Blocks(blocks)),
            State::Doubling(doubling) => doubling.has_begun().then_some(Scans::Doubling(doubling)),
            State::Totals(totals) => Some(Scans::Totals(totals)),
            State::Columns(columns) => Some(Scans::Columns(columns)),
            State::Rows { run, stored } => Some(Scans::Rows(Box::new(run.keep(stored)))),
            State::Folded(_) => None,
        };
        Kept {
            widest: self.widest,
            magnitude: self.magnitude,
            panes: self
                .panes
                .filter(|panes| scans.is_some() && panes.has_units()),
            scans,
            start: Start::Anew,
        }
    }

    /// Whether a 64-bit total may have overflowed.
    pub(crate) fn may_overflow(&self) -> bool {
        if self.plan.guard == Guard::None {
            return false;
        }
        if let Some(overflowed) = self.overflowed {
            return overflowed;
        }
        // The magnitude of a total is less than that of all bits times the count.
        let bits = 64 - self.magnitude.leading_zeros() + (64 - self.widest.leading_zeros());
        bits > 62
    }

    /// Whether it counts events, and there is one at every position of the windows of some rows. These lie whole in the source.
    pub(crate) fn is_known(&self, range: &RangeRun, rows: &Range<usize>) -> bool {
        let (Some(_), Some(steady)) = (self.plan.count, range.steady()) else {
            return false;
        };
        let first = (rows.start as i64 + steady.lo) as usize;
        let positions = (rows.end as i64 - 1 + steady.hi) as usize - first;
        let is_set = |bits: Option<&BooleanBuffer>| {
            bits.is_none_or(|bits| bits.slice(first, positions).count_set_bits() == positions)
        };
        self.plan.sources.iter().all(|source| match source {
            Source::Leaf { stream, leaf, .. } => {
                is_set(self.all[stream].leaves[*leaf].valid.as_ref())
            }
            Source::Present { stream, .. } => is_set(self.all[stream].presence()),
            _ => true,
        })
    }

    /// Leaves out a chunk of rows that do not read the window.
    pub(crate) fn rest(&mut self) {
        self.is_idle = true;
    }

    /// Brings the window up to date for a chunk of rows.
    pub(crate) fn advance(
        &mut self,
        piece: &Piece,
        range: &mut RangeRun,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        self.is_idle = false;
        if let Some(width) = range.width() {
            self.widest = self.widest.max(width);
        }
        let has_panes = self.panes.is_some();
        let number = self.plan.contributions();
        let mut calls = Calls::new(
            piece,
            self.plan,
            number,
            &self.views,
            &self.params,
            self.all,
        );
        if let Some(panes) = &mut self.panes {
            let folded = panes.advance(&calls, &self.series.axis, &rows);
            self.magnitude |= panes.magnitude(self.plan.guard);
            self.magnitude |= leaf_magnitude(self.plan.guard, self.all, folded);
            if self.plan.guard != Guard::None && range.width().is_none() {
                self.widest = self.widest.max(range.widest(scratch));
            }
            calls = panes.calls(piece, self.plan, self.all);
        }
        match &mut self.state {
            State::Blocks(blocks) => blocks.advance(&calls, &rows),
            State::Doubling(doubling) => doubling.advance(&calls, &rows),
            State::Totals(totals) => {
                if !has_panes {
                    let entering = totals.entering(&rows);
                    self.magnitude |= leaf_magnitude(self.plan.guard, self.all, entering);
                }
                totals.advance(&calls, &rows, scratch);
                if self.plan.guard == Guard::Slot {
                    self.magnitude |= totals.last();
                }
            }
            State::Columns(columns) if let Some(overflowed) = &mut self.overflowed => {
                let before = columns.total();
                let scanned = columns.advance(&calls, range, &rows, scratch);
                *overflowed |= columns.overflows(&scanned, before);
            }
            State::Columns(columns) => {
                let scanned = columns.advance(&calls, range, &rows, scratch);
                if self.plan.guard == Guard::Slot {
                    self.magnitude |= columns.last();
                }
                self.magnitude |= leaf_magnitude(self.plan.guard, self.all, scanned);
                if self.plan.guard != Guard::None && range.width().is_none() {
                    self.widest = self.widest.max(range.widest(scratch));
                }
            }
            State::Folded(_) => self.fold(piece, range, rows.len(), scratch),
            State::Rows { .. } => {
                self.store(piece);
                if let State::Rows { run, .. } = &mut self.state {
                    run.advance(piece, range, rows, scratch)?;
                }
            }
        }
        Ok(())
    }

    /// Loops over contributions.
    fn calls<'c>(&'c self, piece: &'c Piece<'c>) -> Calls<'c> {
        let number = self.plan.contributions();
        Calls::new(
            piece,
            self.plan,
            number,
            &self.views,
            &self.params,
            self.all,
        )
    }

    /// Stores what all positions contribute, once.
    fn store(&mut self, piece: &Piece) {
        let len = self.series.axis.len();
        let mut scratch = Scratch::default();
        while let State::Rows { run, stored } = &mut self.state
            && *stored < len
        {
            let part = *stored..len.min(*stored + CHUNK);
            *stored = part.end;
            let targets = run.targets(part.start);
            scratch.reset();
            self.call_store(piece, &part, &targets, &mut scratch);
        }
    }

    /// What the loop that stores results asks memory for: an address, and bytes of a row.
    pub(crate) fn ahead(&self, rows: usize) -> Option<(*const u8, u64)> {
        let view = self.views.first()?;
        let Source::Leaf { leaf, .. } = self.plan.sources.first()? else {
            return None;
        };
        let bytes = self.series.leaves.get(*leaf)?.ty.bytes();
        let (position, step) = match &self.state {
            State::Blocks(blocks) if self.panes.is_none() => (blocks.next(), left(bytes)),
            State::Doubling(doubling) if self.panes.is_none() => (doubling.next(), left(bytes)),
            State::Totals(totals) if self.panes.is_none() => (totals.next(), left(bytes)),
            State::Columns(columns) => (columns.scanned(), bytes),
            _ => return None,
        };
        let at = view
            .values
            .wrapping_add(position * bytes + (bytes - step) * rows);
        (position < self.series.axis.len()).then_some((at, step as u64))
    }

    /// Calls a loop that stores what some positions contribute.
    fn call_store(
        &mut self,
        piece: &Piece,
        positions: &Range<usize>,
        targets: &[Target],
        scratch: &mut Scratch,
    ) {
        let number = self.plan.contributions();
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

    /// Folds the parts of each row's window.
    fn fold(&mut self, piece: &Piece, range: &mut RangeRun, n: usize, scratch: &mut Scratch) {
        let Algorithm::Fold { forward, backward } = self.plan.algorithm else {
            unreachable!("only folds are folded")
        };
        let (first, end) = range.bounds(scratch);
        let (first, end) = (first.to_vec(), end.to_vec());
        self.widest = self.widest.max(range.widest(scratch));
        // Where the order does not matter there is only one part.
        let ordered = self.plan.slots.iter().any(|(_, ty)| ty.is_float());
        let split = if ordered {
            range.split(scratch).to_vec()
        } else {
            first.clone()
        };
        let slots = &self.plan.slots;
        let mut folded: Vec<*const u8> = vec![std::ptr::null(); 2 * slots.len()];
        for (side, number) in [(0, backward), (1, forward)] {
            let targets: Vec<Target> = slots
                .iter()
                .map(|(_, ty)| Target {
                    values: scratch.take(n.next_multiple_of(LANES) * ty.bytes()),
                    validity: std::ptr::null_mut(),
                    len: n.next_multiple_of(LANES) as u64,
                })
                .collect();
            for (slot, target) in targets.iter().enumerate() {
                folded[2 * slot + side] = target.values;
            }
            if side == 0 && !ordered {
                for ((op, ty), target) in slots.iter().zip(&targets) {
                    fill(target.values, n, *ty, op.neutral(*ty));
                }
                continue;
            }
            let mut ranges = Vec::with_capacity(2 * n);
            for row in 0..n {
                let (from, to) = if side == 0 {
                    (first[row], split[row])
                } else {
                    (split[row], end[row])
                };
                ranges.extend([i64::from(from), i64::from(to.max(from))]);
            }
            let anchors = self.plan.anchor.map(|(stream, leaf)| {
                let leaf = &self.all[&stream].leaves[leaf];
                range.anchors(leaf, side == 0, scratch)
            });
            let calls = self.calls(piece);
            calls.fold(number, &ranges, &targets, anchors);
        }
        if self.plan.guard == Guard::Slot {
            #[expect(clippy::cast_ptr_alignment, reason = "a slot of words")]
            // SAFETY: the last slot of the late part was written for `n` rows.
            let bits =
                unsafe { std::slice::from_raw_parts(folded[folded.len() - 1].cast::<u64>(), n) };
            self.magnitude |= bits.iter().fold(0, |all, bits| all | bits);
        }
        if let (Some(from), Some(to)) = (first.iter().min(), end.iter().take(n).max()) {
            let positions = *from as usize..*to.max(from) as usize;
            self.magnitude |= leaf_magnitude(self.plan.guard, self.all, positions);
        }
        self.state = State::Folded(folded);
    }

    /// A column of results for the rows of a chunk: `2k` is slot `k`'s early part, `2k + 1` its late part.
    pub(crate) fn view(
        &self,
        column: usize,
        range: &RangeRun,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) -> View {
        let slots = self.plan.slots.len();
        match &self.state {
            _ if self.is_idle => view::nothing(),
            _ if let (Some(panes), true) = (&self.panes, column >= 2 * slots) => {
                panes.rests(column - 2 * slots, rows, scratch)
            }
            State::Blocks(blocks) => blocks.view(column, rows, scratch),
            State::Doubling(doubling) => doubling.view(column, rows, scratch),
            State::Totals(totals) => totals.view(column, rows.len()),
            State::Columns(columns) => columns.view(column, range, rows, scratch),
            State::Folded(folded) => View {
                values: folded[column],
                len: rows.len().next_multiple_of(LANES) as u64,
                ..view::nothing()
            },
            State::Rows { run, .. } => run.view(column, scratch),
        }
    }
}

/// The neutral element of each slot, as a word.
fn neutral_words(slots: &[(Combine, Ty)]) -> Vec<u64> {
    slots.iter().map(|(op, ty)| op.neutral(*ty).bits).collect()
}

/// Writes `n` times the constant.
fn fill(at: *mut u8, n: usize, ty: Ty, value: Imm) {
    match ty.bytes() {
        1 => fill_with(at, n, value.bits as u8),
        2 => fill_with(at, n, value.bits as u16),
        4 => fill_with(at, n, value.bits as u32),
        _ => fill_with(at, n, value.bits),
    }
}

fn fill_with<T: Copy>(at: *mut u8, n: usize, value: T) {
    for i in 0..n {
        // SAFETY: callers pass memory of at least `n` elements.
        unsafe { at.cast::<T>().add(i).write_unaligned(value) }
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
        ParamSource::Text(text) => u64::from(piece.dictionary.codes[text]),
        ParamSource::FirstEnd => series.axis.regular_ends().unwrap_or(0) as u64,
        other => unreachable!("{other:?} is no parameter of a contribution"),
    }
}

/// The magnitudes of some positions, if the guard looks at a column of the source.
fn leaf_magnitude(guard: Guard, all: &BTreeMap<StreamId, Series>, positions: Range<usize>) -> u64 {
    match guard {
        Guard::Leaf(stream, leaf) => magnitude(&all[&stream].leaves[leaf], positions),
        Guard::None | Guard::Slot => 0,
    }
}

/// Bits above which no magnitude of some 64-bit integers has any.
pub(crate) fn magnitude(leaf: &Leaf, positions: Range<usize>) -> u64 {
    debug_assert_eq!(leaf.ty.bits(), 64);
    #[expect(clippy::cast_ptr_alignment, reason = "a column of words")]
    let at = leaf.at(positions.start as isize).cast::<i64>();
    // SAFETY: positions of the column, whose elements have 64 bits and the alignment of one.
    let values = unsafe { std::slice::from_raw_parts(at, positions.len()) };
    let signed = leaf.ty.is_signed();
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has what the function needs.
        return unsafe { joined_avx2(values, signed) };
    }
    joined(values, signed)
}

/// [`joined`] by wider vectors: it reads every value that a total adds.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn joined_avx2(values: &[i64], signed: bool) -> u64 {
    joined(values, signed)
}

#[inline]
fn joined(values: &[i64], signed: bool) -> u64 {
    if signed {
        // A number and its double first differ above its magnitude: cheaper than its absolute value.
        values.iter().fold(0, |all, v| all | (v ^ (v << 1)) as u64) >> 1
    } else {
        values.iter().fold(0, |all, v| all | *v as u64)
    }
}
