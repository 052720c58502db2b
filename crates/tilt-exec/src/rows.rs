//! Windows row by row: reductions that no scan computes, over contributions that a loop has stored.
//!
//! A loop stores what each position of the source contributes, once. Then every row's window is a range of positions, and as windows
//! move forward what was computed for one is brought up to date for the next: `push` at the end, `pop` at the beginning. Sums of doubles,
//! whose order is pinned, are shared by split instead (`parts`).

mod custom;
mod engine;
mod extreme;
mod formula;
mod frequency;
mod list;
mod order;
mod parts;
mod places;

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use tilt_codegen::{
    abi::{Target, View},
    lir::{LANES, Ty},
};
use tilt_data::Timeline;
use tilt_ir::{Agg, Bounds, DType};

use crate::{
    memory::{Returned, Scratch},
    range::RangeRun,
    run::{CHUNK, Piece, Trouble},
    series::Series,
    view,
};
use custom::{Calls, CustomRun};
pub(crate) use custom::{CustomPlan, MergeLoops, StateLoop, StateSource};
use engine::{Engine, Found};

/// A reduction that is computed row by row.
#[derive(Debug)]
pub(crate) struct RowsPlan {
    pub(crate) agg: Agg,
    /// What is reduced, as a word: a double, an integer, or a key that orders as the reduction does.
    pub(crate) word: Option<Ty>,
    /// What the result is picked from, and whether that may be φ: the contribution itself, or the fields of a record.
    pub(crate) leaves: Vec<(Ty, bool)>,
    /// Whether every position contributes. If not the loop stores in the end where.
    pub(crate) always: bool,
    pub(crate) counted: Counted,
    /// Whether starts are in order, so that the events of a window are neighbours.
    pub(crate) ordered: bool,
    /// The functions of a custom reducer.
    pub(crate) custom: Option<CustomPlan>,
    /// What the items are if the result is a list.
    pub(crate) list: Option<DType>,
}

/// How the places of a window are counted (`docs/ir.md`, Places).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    /// Positions, from the split or the first of all.
    Positions,
    /// Cells of a grid, by their own numbers.
    Cells { period: i64, offset: i64 },
    /// What contributes.
    Contributions,
    /// The events of the window.
    Events,
}

/// As [`Counted`], on a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbering {
    Positions,
    /// The number of the cell at position 0.
    Cells(i64),
    Contributions,
    Events,
}

/// The positions of one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) first: usize,
    /// The first position of the late part.
    pub(crate) split: usize,
    pub(crate) end: usize,
    /// The edges that clip events.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Only those of the positions belong to it that start before `to`.
    pub(crate) is_list: bool,
}

/// What the positions of a source contribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contributions<'a> {
    words: &'a [u64],
    contributes: Option<&'a [u8]>,
    events: Option<&'a BooleanBuffer>,
    timeline: &'a Timeline,
}

impl Contributions<'_> {
    #[inline]
    pub(crate) fn contributes(&self, p: usize) -> bool {
        self.contributes
            .is_none_or(|bits| bits[p / 8] & (1 << (p % 8)) != 0)
    }

    #[inline]
    pub(crate) fn word(&self, p: usize) -> u64 {
        self.words.get(p).copied().unwrap_or(0)
    }

    /// A contribution that is a double.
    #[inline]
    pub(crate) fn double(&self, p: usize) -> Option<f64> {
        self.contributes(p).then(|| f64::from_bits(self.words[p]))
    }

    pub(crate) fn len(&self) -> usize {
        self.timeline.len()
    }

    /// Whether there is an event, whatever the map makes of it.
    pub(crate) fn is_event(&self, p: usize) -> bool {
        self.events.is_none_or(|events| events.value(p))
    }

    /// Start and end of a position.
    pub(crate) fn span(&self, p: usize) -> (i64, i64) {
        (self.timeline.start(p), self.timeline.end(p))
    }
}

/// A column that the loop stores.
struct Stored {
    ty: Ty,
    values: Returned,
    validity: Option<Returned>,
}

impl Stored {
    fn new(ty: Ty, nullable: bool, len: usize) -> Self {
        let (values, bits) = sizes(ty, len);
        Self {
            ty,
            values: Returned::new(values),
            validity: nullable.then(|| Returned::new(bits)),
        }
    }

    /// Makes room for as many rows.
    fn reserve(&mut self, len: usize) {
        let (values, bits) = sizes(self.ty, len);
        let has_bits = self.validity.as_ref().is_none_or(|v| v.len() >= bits);
        if self.values.len() >= values && has_bits {
            return;
        }
        let grown = Self::new(self.ty, self.validity.is_some(), 2 * len);
        let copy = |from: &Returned, to: &Returned| {
            // SAFETY: memory of different columns, of which the new one is longer.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) }
        };
        copy(&self.values, &grown.values);
        if let (Some(from), Some(to)) = (&self.validity, &grown.validity) {
            copy(from, to);
        }
        *self = grown;
    }

    /// Forgets the first rows of `len`, a multiple of eight.
    fn forget(&mut self, len: usize, rows: usize) {
        let forget = |memory: &Returned, ty: Ty| {
            let bytes = |rows: usize| match ty {
                Ty::Bool => rows.div_ceil(8),
                ty => rows * ty.bytes(),
            };
            let kept = bytes(len).saturating_sub(bytes(rows));
            let at = memory.as_ptr();
            // SAFETY: both lie in what is stored.
            unsafe { std::ptr::copy(at.wrapping_add(bytes(rows)), at, kept) }
        };
        forget(&self.values, self.ty);
        if let Some(validity) = &self.validity {
            forget(validity, Ty::Bool);
        }
    }

    /// The rows from a multiple of eight on.
    fn view(&self, position: usize) -> View {
        let Target {
            values, validity, ..
        } = self.target(position, position);
        let bytes = if self.ty == Ty::Bool {
            1
        } else {
            self.ty.bytes()
        };
        View {
            values,
            validity,
            len: (self.values.len() / bytes - position) as u64,
            ..view::nothing()
        }
    }

    /// Where the rows from a multiple of eight on go.
    fn target(&self, position: usize, len: usize) -> Target {
        let at = if self.ty == Ty::Bool {
            position / 8
        } else {
            position * self.ty.bytes()
        };
        let validity = self.validity.as_ref();
        Target {
            values: self.values.as_ptr().wrapping_add(at),
            validity: validity.map_or(std::ptr::null_mut(), |v| {
                v.as_ptr().wrapping_add(position / 8)
            }),
            len: (len - position).next_multiple_of(LANES) as u64,
        }
    }
}

/// The bytes of values and of bits that so many rows need.
fn sizes(ty: Ty, len: usize) -> (usize, usize) {
    let len = len.next_multiple_of(LANES) + LANES;
    let bits = len / 8 + 8;
    let values = match ty {
        Ty::Bool => bits,
        ty => len * ty.bytes(),
    };
    (values, bits)
}

/// What is kept of rows from one run of their stage to the next.
pub(crate) struct RowsKept {
    columns: Vec<Stored>,
    /// `None` if it begins anew with the positions of the next window.
    engine: Option<Engine>,
    custom: Option<Box<CustomRun>>,
    numbering: Numbering,
    held: Range<usize>,
    /// Positions whose contributions are stored.
    stored: usize,
}

impl RowsKept {
    /// Bytes of what is stored, without what the reduction makes of it.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| {
            let validity = column.validity.as_ref().map_or(0, Returned::len);
            column.values.len() + validity
        });
        columns.sum()
    }

    /// The first positions, a multiple of eight, are there no longer.
    pub(crate) fn forget(&mut self, positions: usize) {
        for column in &mut self.columns {
            column.forget(self.stored, positions);
        }
        self.stored = self.stored.saturating_sub(positions);
        (self.engine, self.custom) = (None, None);
    }
}

/// Rows while a stage runs.
pub(crate) struct RowsRun<'a> {
    plan: &'a RowsPlan,
    series: &'a Series,
    columns: Vec<Stored>,
    engine: Engine,
    custom: Option<Box<CustomRun>>,
    numbering: Numbering,
    /// The positions that the engine has seen.
    held: Range<usize>,
    /// Results of the chunk: words, or positions of the contributions.
    words: &'static mut [u64],
    positions: &'static mut [u32],
    found: &'static mut [u8],
}

impl<'a> RowsRun<'a> {
    /// Rows of a source that has not been looked at; it may grow, or is known as a whole.
    pub(crate) fn new(plan: &'a RowsPlan, series: &'a Series, grows: bool) -> Self {
        let len = series.axis.len();
        let word = plan.word.map(|ty| Stored::new(ty, false, len));
        let leaves = plan
            .leaves
            .iter()
            .map(|(ty, nullable)| Stored::new(*ty, *nullable, len));
        let contributes = (!plan.always).then(|| Stored::new(Ty::Bool, false, len));
        let numbering = numbering(plan, series);
        Self {
            plan,
            series,
            columns: word.into_iter().chain(leaves).chain(contributes).collect(),
            engine: Engine::new(plan.agg, plan.word, numbering, grows),
            custom: custom(plan, None),
            numbering,
            held: 0..0,
            words: &mut [],
            positions: &mut [],
            found: &mut [],
        }
    }

    /// Goes on with what was kept, and how many positions are stored of those that there are now.
    pub(crate) fn resume(
        plan: &'a RowsPlan,
        series: &'a Series,
        kept: RowsKept,
        grows: bool,
    ) -> (Self, usize) {
        let numbering = numbering(plan, series);
        let mut columns = kept.columns;
        for column in &mut columns {
            column.reserve(series.axis.len());
        }
        let is_same = kept.numbering == numbering;
        let engine = kept.engine.filter(|_| is_same);
        let run = Self {
            plan,
            series,
            columns,
            held: engine.as_ref().map_or(0..0, |_| kept.held),
            engine: engine.unwrap_or_else(|| Engine::new(plan.agg, plan.word, numbering, grows)),
            custom: custom(plan, kept.custom.filter(|_| is_same)),
            numbering,
            words: &mut [],
            positions: &mut [],
            found: &mut [],
        };
        // Loops store whole groups.
        (run, kept.stored / LANES * LANES)
    }

    /// What the next run of the stage goes on from, when so many positions are stored.
    pub(crate) fn keep(self, stored: usize) -> RowsKept {
        RowsKept {
            columns: self.columns,
            engine: Some(self.engine),
            custom: self.custom,
            numbering: self.numbering,
            held: self.held,
            stored,
        }
    }

    /// Where the loop stores the contributions of the positions from `position` on, a multiple of eight.
    pub(crate) fn targets(&self, position: usize) -> Vec<Target> {
        let len = self.series.axis.len();
        self.columns
            .iter()
            .map(|column| column.target(position, len))
            .collect()
    }

    /// Computes the windows of a chunk of rows.
    pub(crate) fn advance(
        &mut self,
        piece: &Piece,
        range: &mut RangeRun,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        let n = rows.len();
        let padded = n.next_multiple_of(LANES);
        self.found = scratch.slice::<u8>(padded / 8 + 8);
        self.found.fill(0);
        let picks = !self.plan.leaves.is_empty() && self.plan.list.is_none();
        if picks {
            self.positions = scratch.slice::<u32>(padded);
            self.positions.fill(0);
        } else {
            self.words = scratch.slice::<u64>(padded);
            self.words.fill(0);
        }
        let windows = windows(range, &rows, self.plan.ordered, scratch);
        let len = self.series.axis.len();
        let words = match self.plan.word {
            Some(_) => {
                let at: *const () = self.columns[0].values.as_ptr().cast();
                // SAFETY: the loop has stored a word for each position, aligned to a cache line.
                unsafe { std::slice::from_raw_parts(at.cast::<u64>(), len) }
            }
            None => &[],
        };
        let contributes = (!self.plan.always).then(|| {
            let column = &self.columns[self.columns.len() - 1];
            // SAFETY: the loop has stored a bit for each position.
            unsafe { std::slice::from_raw_parts(column.values.as_ptr(), len.div_ceil(8)) }
        });
        let all = Contributions {
            words,
            contributes,
            events: self.series.presence(),
            timeline: &self.series.axis.timeline,
        };
        if let (Some(custom), Some(plan)) = (&mut self.custom, &self.plan.custom) {
            let calls = Calls {
                piece,
                plan,
                all: &all,
                leaves: &self.columns[..self.plan.leaves.len()],
            };
            custom.begin(&calls, n, scratch);
            let bounds = range.plan.bounds;
            custom.windows(&calls, &windows, bounds, self.numbering, self.found)?;
            return Ok(());
        }
        if let Some(item) = &self.plan.list {
            let mut lists = list::Chunk::default();
            for (row, window) in windows.iter().enumerate() {
                piece.control.check()?;
                slide(&mut self.engine, &mut self.held, window, &all, piece)?;
                if lists.push(&self.engine) {
                    self.found[row / 8] |= 1 << (row % 8);
                }
            }
            let stored = &self.columns[usize::from(self.plan.word.is_some())];
            let first = lists.finish(stored, item, piece.dictionary)?;
            for (word, number) in self.words.iter_mut().zip(first..) {
                *word = number;
            }
            return Ok(());
        }
        for (row, window) in windows.iter().enumerate() {
            piece.control.check()?;
            if !self.engine.is_summed_by_parts() {
                slide(&mut self.engine, &mut self.held, window, &all, piece)?;
            }
            match self.engine.result(window, &all)? {
                Found::Nothing => continue,
                Found::Word(word) => self.words[row] = word,
                Found::At(position) => self.positions[row] = position,
            }
            self.found[row / 8] |= 1 << (row % 8);
        }
        Ok(())
    }

    /// Results for the rows of the chunk: the word, or a leaf of what was picked; after the leaves whether anything was.
    pub(crate) fn view(&self, column: usize, scratch: &mut Scratch) -> View {
        if let (Some(custom), Some(plan)) = (&self.custom, &self.plan.custom)
            && column < plan.fields.len()
        {
            return custom.view(column, (self.found.len() - 8) * 8);
        } else if self.custom.is_some() {
            return View {
                validity: self.found.as_ptr(),
                ..view::nothing()
            };
        }
        if column == self.plan.leaves.len() && column > 0 && self.plan.list.is_none() {
            return View {
                validity: self.found.as_ptr(),
                ..view::nothing()
            };
        }
        if self.plan.leaves.is_empty() || self.plan.list.is_some() {
            return View {
                validity: self.found.as_ptr(),
                ..view::column(self.words)
            };
        }
        let stored = &self.columns[usize::from(self.plan.word.is_some()) + column];
        let len = self.series.axis.len();
        let mut view = View {
            values: stored.values.as_ptr(),
            validity: self.found.as_ptr(),
            index: self.positions.as_ptr(),
            lead: 0,
            len: len.max(1) as u64,
        };
        if let Some(validity) = &stored.validity {
            // SAFETY: the loop has stored a bit for each position.
            let bits = unsafe { std::slice::from_raw_parts(validity.as_ptr(), len.div_ceil(8)) };
            let valid = scratch.slice::<u8>(self.found.len());
            valid.copy_from_slice(self.found);
            for (row, position) in self.positions.iter().enumerate() {
                let (byte, at) = (&mut valid[row / 8], *position as usize);
                if *byte & (1 << (row % 8)) != 0 && bits[at / 8] & (1 << (at % 8)) == 0 {
                    *byte &= !(1 << (row % 8));
                }
            }
            view.validity = valid.as_ptr();
        }
        view
    }
}

/// A custom reducer, if the plan has one, that goes on with what was kept.
fn custom(plan: &RowsPlan, kept: Option<Box<CustomRun>>) -> Option<Box<CustomRun>> {
    let plan = plan.custom.as_ref()?;
    Some(kept.unwrap_or_else(|| Box::new(CustomRun::new(plan))))
}

fn numbering(plan: &RowsPlan, series: &Series) -> Numbering {
    match plan.counted {
        Counted::Positions => Numbering::Positions,
        Counted::Contributions => Numbering::Contributions,
        Counted::Events => Numbering::Events,
        Counted::Cells { period, offset } => {
            let timeline = &series.axis.timeline;
            let end = if timeline.is_empty() {
                0
            } else {
                timeline.end(0)
            };
            let number = (i128::from(end) - i128::from(offset)).div_euclid(i128::from(period));
            Numbering::Cells(number as i64)
        }
    }
}

/// Brings the engine from the positions it holds to those of a window.
fn slide(
    engine: &mut Engine,
    held: &mut Range<usize>,
    window: &Window,
    all: &Contributions,
    piece: &Piece,
) -> Result<(), Trouble> {
    let (first, end) = (window.first, window.end.max(window.first));
    let moves_on = held.start <= first && held.end <= end && first <= held.end;
    let pops = held.start < first && !engine.can_pop();
    if window.is_list || !moves_on || pops {
        engine.clear();
        *held = first..first;
    }
    for p in held.start..first {
        if all.contributes(p) {
            engine.pop(p, all);
        }
    }
    for p in held.end..end {
        if p % CHUNK == 0 {
            piece.control.check()?;
        }
        if all.contributes(p) && !(window.is_list && all.span(p).0 >= window.to) {
            engine.push(p, all);
        }
    }
    *held = first..end;
    Ok(())
}

/// The windows of a chunk of rows.
fn windows(
    range: &mut RangeRun,
    rows: &Range<usize>,
    ordered: bool,
    scratch: &mut Scratch,
) -> Vec<Window> {
    let n = rows.len();
    let (first, end) = range.bounds(scratch);
    let (first, end) = (first[..n].to_vec(), end[..n].to_vec());
    let bounds = range.plan.bounds;
    let edges = first.iter().zip(&end);
    let window = |first: u32, split: u32, end: u32, from: i64, to: i64, is_list: bool| Window {
        first: first as usize,
        split: split as usize,
        end: end as usize,
        from,
        to,
        is_list,
    };
    match bounds {
        Bounds::Ordinal { lo, .. } => edges
            .map(|(first, end)| {
                // Without a beginning places count from the first position of all.
                let first = if lo.is_some() { *first } else { 0 };
                window(first, first, (*end).max(first), i64::MIN, i64::MAX, false)
            })
            .collect(),
        Bounds::Event => edges
            .enumerate()
            .map(|(row, (first, end))| {
                let event = range.event(rows.start + row);
                window(*first, *first, *end, event.start, event.end, !ordered)
            })
            .collect(),
        Bounds::Time { lo: None, hi } => {
            let to = |row: usize| range.instant(rows.start + row).saturating_add(hi);
            edges
                .enumerate()
                .map(|(row, (_, end))| window(0, 0, *end, i64::MIN, to(row), !ordered))
                .collect()
        }
        Bounds::Time { lo: Some(lo), hi } => {
            let split = range.split(scratch)[..n].to_vec();
            edges
                .enumerate()
                .map(|(row, (first, end))| {
                    let t = range.instant(rows.start + row);
                    let (from, to) = (t.saturating_add(lo), t.saturating_add(hi));
                    let saturated = to.checked_sub(from) != hi.checked_sub(lo);
                    let split = if saturated && from < to {
                        range.split_of(from, to).clamp(*first, (*end).max(*first))
                    } else {
                        split[row]
                    };
                    window(*first, split, *end, from, to, !ordered)
                })
                .collect()
        }
    }
}
