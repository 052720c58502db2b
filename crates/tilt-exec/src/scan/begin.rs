//! Windows that begin at any row: what they need of the rows before, computed for all stretches of a stage in one parallel pass.
//!
//! | windows | what is known before rows are computed |
//! |---|---|
//! | `blocks` that follow each other regularly | the carry of prefixes where each stretch begins, those of suffixes at the end of each portion of a long block |
//! | `totals` | the totals of the row before each stretch |
//! | without a beginning | the running total where each stretch begins |
//! | otherwise scanned | the scans, in columns that stretches share |
//! | of panes | the panes |
//!
//! A carry is what the scan of a run in one piece has at that position: blocks are those of absolute time, groups of eight are counted from their beginnings, and the
//! sums of groups are added in order. So stretches give its bits.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use tilt_codegen::{
    abi::Target,
    lir::{Combine, LANES, Ty},
};

use super::{
    Kept, Scans, State, WindowRun,
    blocks::Passed,
    calls::{Calls, Ranges},
    columns::Columns,
    leaf_magnitude, neutral_words,
    panes::PaneColumns,
};
use crate::{
    memory::Scratch,
    range::RangeRun,
    run::{CHUNK, Piece},
    window::Guard,
};

/// Positions that are scanned together, if there are enough of them.
const POSITIONS: usize = 1 << 16;

/// What the stretches of a stage begin a window with.
pub(crate) struct Begin {
    slots: Vec<(Combine, Ty)>,
    known: Known,
    tasks: Vec<Task>,
    magnitude: u64,
}

enum Known {
    Nothing,
    Blocks {
        /// For each stretch the position up to which prefixes are scanned.
        scanned: Vec<usize>,
        prefixes: BTreeMap<usize, Vec<u64>>,
        suffixes: Arc<Passed>,
    },
    Totals {
        /// The window of the row before each stretch.
        windows: Vec<Range<usize>>,
        /// Sums from each position to the next.
        sums: BTreeMap<usize, Vec<u64>>,
    },
    Running {
        /// For each stretch the position up to which it is scanned.
        scanned: Vec<usize>,
        carries: BTreeMap<usize, Vec<u64>>,
    },
    Shared {
        columns: Lent,
        /// Positions that are scanned.
        to: usize,
    },
    Panes(PaneColumns),
}

/// Columns that several threads write, each its own positions, or read.
#[derive(Clone)]
pub(crate) struct Lent(Columns);

// SAFETY: which addresses its rows read, a copy sets itself; everything else is not changed while it is lent.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// A part of the pass, independent of all others.
pub(crate) enum Task {
    /// The carries of a block at some of its positions.
    Forward {
        block: Range<usize>,
        cuts: Vec<usize>,
    },
    /// The carries of a block at the ends of its portions.
    Backward(Range<usize>),
    /// What some positions come to, whatever is before them.
    Sum(Range<usize>),
    /// What each group of eight positions comes to.
    Groups(Range<usize>),
    /// Running totals from a carry on, into shared columns.
    Scan {
        positions: Range<usize>,
        carry: Vec<u64>,
        columns: Lent,
    },
    /// Whole blocks, into shared columns.
    Whole {
        blocks: Vec<Range<usize>>,
        columns: Lent,
    },
    Panes {
        panes: Range<usize>,
        columns: PaneColumns,
    },
}

/// What a task found: carries one after the other, a word for each slot.
#[derive(Default)]
pub(crate) struct Done {
    words: Vec<u64>,
    magnitude: u64,
}

/// What one stretch begins a window with.
pub(super) enum Start {
    Anew,
    Blocks {
        scanned: usize,
        carry: Vec<u64>,
        suffixes: Arc<Passed>,
    },
    Totals(Vec<u64>),
    Running {
        scanned: usize,
        carry: Vec<u64>,
    },
    Panes(PaneColumns),
}

impl Begin {
    /// What has to be done next; nothing when all is known.
    pub(crate) fn tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Takes what the tasks have found.
    pub(crate) fn done(&mut self, tasks: &[Task], done: &[Done]) {
        let n = self.slots.len();
        self.magnitude |= done.iter().fold(0, |all, done| all | done.magnitude);
        let sums = tasks.iter().zip(done);
        match &mut self.known {
            Known::Nothing | Known::Panes(_) => {}
            Known::Blocks {
                prefixes, suffixes, ..
            } => {
                let mut passed = Passed::new();
                for (task, done) in sums {
                    let carries = done.words.chunks(n.max(1)).map(<[u64]>::to_vec);
                    match task {
                        Task::Forward { cuts, .. } => {
                            prefixes.extend(cuts.iter().copied().zip(carries));
                        }
                        Task::Backward(block) => {
                            passed.insert(block.start, carries.collect());
                        }
                        _ => {}
                    }
                }
                *suffixes = Arc::new(passed);
            }
            Known::Totals { sums: known, .. } => {
                for (task, done) in sums {
                    if let Task::Sum(positions) = task {
                        known.insert(positions.start, done.words.clone());
                    }
                }
            }
            Known::Running { carries, .. } => {
                let mut carry = neutral_words(&self.slots);
                for (task, done) in sums {
                    if let Task::Sum(positions) | Task::Groups(positions) = task {
                        carries.insert(positions.start, carry.clone());
                        add_all(&self.slots, &mut carry, &done.words);
                        carries.insert(positions.end, carry.clone());
                    }
                }
            }
            Known::Shared { columns, .. } => {
                let mut carry = neutral_words(&self.slots);
                for (task, done) in sums {
                    if let Task::Sum(positions) = task {
                        self.tasks.push(Task::Scan {
                            positions: positions.clone(),
                            carry: carry.clone(),
                            columns: columns.clone(),
                        });
                        add_all(&self.slots, &mut carry, &done.words);
                    }
                }
            }
        }
    }

    /// What a task works on: columns that are shared are not made again.
    pub(crate) fn lent(&self) -> Option<Kept> {
        let Known::Shared { columns, .. } = &self.known else {
            return None;
        };
        Some(Kept {
            widest: 0,
            magnitude: 0,
            scans: Some(Scans::Columns(columns.0.clone())),
            panes: None,
            start: Start::Anew,
        })
    }

    /// What the stretch of this number begins with.
    pub(crate) fn kept(&self, stretch: usize) -> Kept {
        let mut scans = None;
        let start = match &self.known {
            Known::Shared { columns, to } => {
                scans = Some(Scans::Columns(columns.0.clone().scanned_to(*to)));
                Start::Anew
            }
            Known::Panes(columns) => Start::Panes(columns.clone()),
            Known::Blocks {
                scanned,
                prefixes,
                suffixes,
            } => {
                let neutral = || neutral_words(&self.slots);
                let scanned = scanned[stretch];
                Start::Blocks {
                    scanned,
                    carry: prefixes.get(&scanned).cloned().unwrap_or_else(neutral),
                    suffixes: Arc::clone(suffixes),
                }
            }
            Known::Totals { windows, sums } => {
                let mut carry = neutral_words(&self.slots);
                let window = windows[stretch].clone();
                if !window.is_empty() {
                    for (_, words) in sums.range(window) {
                        add_all(&self.slots, &mut carry, words);
                    }
                }
                Start::Totals(carry)
            }
            Known::Running { scanned, carries } => {
                let scanned = scanned[stretch];
                match carries.get(&scanned) {
                    Some(carry) => Start::Running {
                        scanned,
                        carry: carry.clone(),
                    },
                    None => Start::Anew,
                }
            }
            Known::Nothing => Start::Anew,
        };
        Kept {
            widest: 0,
            magnitude: self.magnitude,
            scans,
            panes: None,
            start,
        }
    }
}

/// Combines a carry with words that follow it, one group after the other.
fn add_all(slots: &[(Combine, Ty)], carry: &mut [u64], words: &[u64]) {
    let n = slots.len();
    for (k, (op, ty)) in slots.iter().enumerate() {
        let words = words.iter().skip(k).step_by(n);
        if (*op, *ty) == (Combine::Add, Ty::F64) {
            let sum = words.fold(f64::from_bits(carry[k]), |sum, word| {
                sum + f64::from_bits(*word)
            });
            carry[k] = sum.to_bits();
        } else {
            carry[k] = words.fold(carry[k], |all, word| op.words(*ty, all, *word));
        }
    }
}

/// Parts of so many positions each begin at a multiple of eight.
fn parts(positions: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let size = size.next_multiple_of(LANES);
    (0..positions)
        .step_by(size)
        .map(move |start| start..positions.min(start + size))
}

impl WindowRun<'_> {
    /// What has to be known for the window to begin at each of `starts`, the first rows of stretches in order.
    pub(crate) fn begin(
        &self,
        range: &mut RangeRun,
        rows: &Range<usize>,
        starts: &[usize],
        scratch: &mut Scratch,
    ) -> Begin {
        let mut begin = Begin {
            slots: self.plan.slots.clone(),
            known: Known::Nothing,
            tasks: Vec::new(),
            magnitude: 0,
        };
        let share = |positions: usize| positions.div_ceil(starts.len()).max(CHUNK);
        if let Some(panes) = &self.panes {
            let columns = panes.columns();
            let all = panes.steady().len;
            begin.tasks = parts(all, all.div_ceil(starts.len()).max(LANES))
                .map(|panes| Task::Panes {
                    panes,
                    columns: columns.clone(),
                })
                .collect();
            begin.known = Known::Panes(columns);
            return begin;
        }
        match &self.state {
            State::Blocks(blocks) if blocks.has_units() => {
                let mut cuts: BTreeMap<usize, (Range<usize>, BTreeSet<usize>)> = BTreeMap::new();
                let mut scanned = Vec::with_capacity(starts.len());
                for start in starts {
                    let (block, cut) = blocks.cut(*start);
                    scanned.push(cut);
                    if block.start < cut {
                        let of_block = cuts.entry(block.start);
                        let (_, cuts) = of_block.or_insert((block, BTreeSet::new()));
                        cuts.insert(cut);
                    }
                }
                let forward = cuts.into_values().map(|(block, cuts)| Task::Forward {
                    block,
                    cuts: cuts.into_iter().collect(),
                });
                let backward = blocks.long_blocks(rows).into_iter().map(Task::Backward);
                begin.tasks = forward.chain(backward).collect();
                begin.known = Known::Blocks {
                    scanned,
                    prefixes: BTreeMap::new(),
                    suffixes: Arc::default(),
                };
            }
            State::Totals(totals) => {
                let windows: Vec<Range<usize>> =
                    starts.iter().map(|start| totals.window(*start)).collect();
                let cuts = windows.iter().flat_map(|w| [w.start, w.end]);
                let cuts: Vec<usize> = cuts.collect::<BTreeSet<_>>().into_iter().collect();
                let between = cuts.windows(2).map(|pair| Task::Sum(pair[0]..pair[1]));
                begin.tasks = between.collect();
                begin.known = Known::Totals {
                    windows,
                    sums: BTreeMap::new(),
                };
            }
            State::Columns(_) if range.plan.is_running() => {
                let mut scanned = Vec::with_capacity(starts.len());
                for start in starts {
                    range.locate(*start..*start + 1, scratch);
                    let (_, end) = range.bounds(scratch);
                    scanned.push(end[0].saturating_sub(1) as usize / LANES * LANES);
                    scratch.reset();
                }
                let cuts: Vec<usize> = [0].into_iter().chain(scanned.iter().copied()).collect();
                let between = cuts.windows(2).filter(|pair| pair[0] < pair[1]);
                let is_float = self.plan.slots.iter().any(|(_, ty)| ty.is_float());
                begin.tasks = between
                    .map(|pair| {
                        if is_float {
                            Task::Groups(pair[0]..pair[1])
                        } else {
                            Task::Sum(pair[0]..pair[1])
                        }
                    })
                    .collect();
                begin.known = Known::Running {
                    scanned,
                    carries: BTreeMap::new(),
                };
            }
            State::Columns(columns) => {
                let last = rows.end.saturating_sub(1);
                range.locate(last..rows.end, scratch);
                let to = range.end(&(last..rows.end), scratch);
                scratch.reset();
                let lent = Lent(columns.clone());
                if columns.is_prefix() {
                    begin.tasks = parts(to, share(to)).map(Task::Sum).collect();
                } else {
                    let (mut blocks, mut start) = (Vec::new(), 0);
                    let mut from = 0;
                    while start < to {
                        let end = range.block_end(start);
                        blocks.push(start..end);
                        start = end;
                        if end - from >= POSITIONS.min(share(to)) || end >= to {
                            from = end;
                            begin.tasks.push(Task::Whole {
                                blocks: std::mem::take(&mut blocks),
                                columns: lent.clone(),
                            });
                        }
                    }
                }
                begin.known = Known::Shared { columns: lent, to };
            }
            State::Blocks(_) | State::Doubling(_) | State::Folded(_) | State::Rows { .. } => {}
        }
        begin
    }

    /// Does a task; if the run is cancelled meanwhile, not all of it.
    pub(crate) fn pass(&mut self, piece: &Piece, task: &Task) -> Done {
        let mut done = Done::default();
        match task {
            Task::Forward { block, cuts } => {
                let mut carry = neutral_words(&self.plan.slots);
                let mut from = block.start;
                for cut in cuts {
                    self.scan(piece, from..*cut, block.start, &mut carry);
                    done.words.extend_from_slice(&carry);
                    from = *cut;
                }
            }
            Task::Backward(block) => {
                let number = self.plan.contributions();
                let (views, params) = (&self.views, &self.params);
                let calls = Calls::new(piece, self.plan, number, views, params, self.all);
                if let State::Blocks(blocks) = &mut self.state {
                    let carries = blocks.carries_of(&calls.far(), block);
                    done.words = carries.into_iter().flatten().collect();
                }
            }
            Task::Sum(positions) => {
                let mut carry = neutral_words(&self.plan.slots);
                self.scan(piece, positions.clone(), 0, &mut carry);
                done.magnitude = leaf_magnitude(self.plan.guard, self.all, positions.clone());
                if self.plan.guard == Guard::Slot {
                    done.magnitude |= carry.last().copied().unwrap_or(0);
                }
                done.words = carry;
            }
            Task::Groups(positions) => done.words = self.groups(piece, positions.clone()),
            Task::Scan {
                positions,
                carry,
                columns,
            } => {
                let (calls, mut carry) = (self.calls(piece), carry.clone());
                columns.0.scan_part(&calls, positions.clone(), &mut carry);
            }
            Task::Whole { blocks, columns } => {
                columns.0.scan_whole(&self.calls(piece), blocks);
            }
            Task::Panes { panes, columns } => {
                let calls = self.calls(piece);
                let axis = &self.series.axis;
                if let Some(of_window) = &self.panes {
                    let (positions, magnitude) =
                        of_window.fold_into(&calls, axis, panes.clone(), columns, self.plan.guard);
                    done.magnitude = magnitude;
                    done.magnitude |= leaf_magnitude(self.plan.guard, self.all, positions);
                }
            }
        }
        done
    }

    /// Scans positions for the carry only.
    fn scan(&self, piece: &Piece, positions: Range<usize>, anchor: usize, carry: &mut [u64]) {
        let calls = self.calls(piece);
        let mut scratch = Scratch::default();
        for start in positions.clone().step_by(CHUNK) {
            if piece.control.check().is_err() {
                return;
            }
            scratch.reset();
            let part = start..positions.end.min(start + CHUNK);
            let targets = self.spare(start, &mut scratch);
            let forward = self.plan.algorithm.forward();
            calls.scan(forward, &Ranges::one(part, anchor), &targets, carry);
        }
    }

    /// What each group of eight positions comes to; there are no others.
    fn groups(&self, piece: &Piece, positions: Range<usize>) -> Vec<u64> {
        let slots = &self.plan.slots;
        let mut words = vec![0; positions.len() / LANES * slots.len()];
        let calls = self.calls(piece);
        let mut scratch = Scratch::default();
        for start in positions.clone().step_by(CHUNK) {
            if piece.control.check().is_err() {
                break;
            }
            scratch.reset();
            let end = positions.end.min(start + CHUNK);
            let mut ranges = Ranges::default();
            for group in (start..end).step_by(LANES) {
                ranges.push(group..group + LANES, 0);
            }
            let targets = self.spare(start, &mut scratch);
            let mut carry = neutral_words(slots);
            calls.scan(self.plan.algorithm.forward(), &ranges, &targets, &mut carry);
            let first = (start - positions.start) / LANES;
            for (k, target) in targets.iter().enumerate() {
                debug_assert_eq!(slots[k].1, Ty::F64, "only doubles are added in order");
                #[expect(clippy::cast_ptr_alignment, reason = "a column of words")]
                let column = target.values.cast::<u64>();
                for group in 0..ranges.len() {
                    let last = start + group * LANES + LANES - 1;
                    // SAFETY: the scan has written it.
                    words[(first + group) * slots.len() + k] =
                        unsafe { *column.wrapping_add(last) };
                }
            }
        }
        words
    }

    /// Where a scan of a chunk from `start` on writes what nobody reads.
    fn spare(&self, start: usize, scratch: &mut Scratch) -> Vec<Target> {
        let slots = self.plan.slots.iter();
        let targets = slots.map(|(_, ty)| Target {
            values: scratch
                .take(CHUNK * ty.bytes())
                .wrapping_sub(start * ty.bytes()),
            validity: std::ptr::null_mut(),
            len: (start + CHUNK) as u64,
        });
        targets.collect()
    }
}
