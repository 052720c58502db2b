//! Rows of a live run that stay grouped by key from one part to the next.
//!
//! A part looks back to rows that parts before it have grouped. They are copied, key by key, to where new rows leave room for them: only these are joined, told apart by key and
//! brought to their places.

use std::{ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use tilt_data::{Column, SnapshotBuffer};
use tilt_ir::{DType, Program, SpanRule};

use super::{
    Run, grouped::Grouped, is_plain, line::OnLines, linked::finds_by_key, places::Before,
    read_leaves,
};
use crate::{
    keys::{Ids, Keys},
    plan::Plan,
    scatter,
    series::Leaf,
    text::is_text,
};

/// The rows of a run's only input, grouped by key.
pub(crate) struct Past {
    /// The words that keys are codes of, if they are strings.
    words: Option<ArrayRef>,
    /// The word of the first key, and how far each key is moved.
    first: u64,
    moves: Vec<i64>,
    grouped: Grouped,
    /// The columns that are grouped.
    read: Vec<usize>,
    /// Rows that end in here count.
    from: i64,
    until: i64,
}

/// Whether the rows of a program may stay grouped: those of one input with keys, all of one length, without other values that are codes.
pub(crate) fn may_stay_grouped(program: &Program) -> bool {
    let mut inputs = program.inputs().map(|(_, input)| input);
    let (Some(input), None) = (inputs.next(), inputs.next()) else {
        return false;
    };
    let (DType::Record(fields), Some(key)) = (&input.dtype, &input.key) else {
        return false;
    };
    let is_value = |dtype: &DType| is_plain(dtype) && !is_text(dtype);
    matches!(input.span, SpanRule::Point | SpanRule::Fixed(_))
        && fields.iter().all(|f| f.name == *key || is_value(&f.dtype))
        && scatter::may_apply(program).is_none()
        && !finds_by_key(program)
}

impl Past {
    /// What a run leaves behind. `None` if the next one could not go on with it.
    pub(super) fn of(run: &Run, lines: OnLines) -> Option<Self> {
        let (id, _) = run.columns.first()?;
        let column = run.buffers[id].column(run.key.name)?;
        let grouped = lines.groups.into_values().next()?;
        let is_value = |i: &usize| {
            let leaf = &grouped.leaves[*i];
            leaf.valid.is_none() && leaf.bits().is_none() && !run.facts[id].is_coded(*i)
        };
        if grouped.axis.length.is_none() || !lines.read.iter().all(is_value) {
            return None;
        }
        let words = words_of(column.array());
        if words.is_some() != is_text(run.key.dtype) {
            return None;
        }
        Some(Self {
            words,
            first: lines.keys.first_word()?,
            moves: lines.moves,
            grouped,
            read: lines.read,
            from: i64::MIN,
            until: i64::MAX,
        })
    }

    /// The same, of rows that end up to an instant.
    pub(crate) fn until(self, until: i64) -> Self {
        Self { until, ..self }
    }

    /// Whether it has all rows that end up to an instant, and rows that follow have the same codes.
    pub(crate) fn is_followed_by(&self, rows: &SnapshotBuffer, key: &str, until: i64) -> bool {
        let column = rows.column(key).map(Column::array);
        let words = column.and_then(words_of);
        let same = match (&self.words, &words) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        same && self.until == until
    }

    /// Leaves out rows that end up to an instant.
    pub(crate) fn forget(&mut self, from: i64) {
        self.from = from;
    }

    /// The rows that are left, by key.
    pub(super) fn kept(&self) -> Kept<'_> {
        let of_key = |key: usize| {
            let rows = self.grouped.range(key);
            let ends = &self.grouped.ends[rows.clone()];
            let end = |end: &i64| end.wrapping_sub(self.moves[key]);
            let first = rows.start + ends.partition_point(|e| end(e) <= self.from);
            // Mostly all of them: the part went on to where the rows did.
            let last = match ends.last() {
                Some(e) if end(e) > self.until => {
                    rows.start + ends.partition_point(|e| end(e) <= self.until)
                }
                _ => rows.end,
            };
            first..last.max(first)
        };
        let mut rows: Vec<Range<usize>> = (0..self.moves.len()).map(of_key).collect();
        // Keys that have no rows any more are not numbered for ever.
        let last = rows.iter().rposition(|rows| !rows.is_empty());
        rows.truncate(last.map_or(0, |last| last + 1));
        let gone = rows.iter().take_while(|rows| rows.is_empty()).count();
        rows.drain(..gone);
        Kept {
            past: self,
            gone,
            rows,
            skipped: 0,
        }
    }
}

/// The words of a column of strings that are codes.
fn words_of(column: &ArrayRef) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::Dictionary(..) => Some(Arc::clone(column.as_any_dictionary().values())),
        _ => None,
    }
}

/// Rows of the past that a run goes on with.
pub(super) struct Kept<'a> {
    past: &'a Past,
    /// So many keys of the past have no rows any more, and those of the next ones.
    gone: usize,
    rows: Vec<Range<usize>>,
    /// So many keys come before them now.
    skipped: usize,
}

impl Kept<'_> {
    /// Numbers the keys of rows that follow together with those that are kept. `None` if keys are not their own numbers.
    pub(super) fn number(&mut self, keys: &Leaf, threads: usize) -> Option<(Keys, Ids)> {
        let first = self.past.first + self.gone as u64;
        let before = (!self.rows.is_empty()).then(|| (first, first + self.rows.len() as u64 - 1));
        let rows = keys.len + self.past.grouped.len();
        let (keys, ids) = Keys::number_among(before, keys, rows, threads)?;
        self.skipped = first.saturating_sub(keys.first_word()?) as usize;
        Some((keys, ids))
    }

    /// The rows of a key, if each key is moved so far.
    pub(super) fn of_key(&self, key: usize, moves: &[i64]) -> Before {
        let at = key.checked_sub(self.skipped);
        let Some(rows) = at.and_then(|at| self.rows.get(at)) else {
            return Before::default();
        };
        let moved = self.past.moves[key - self.skipped + self.gone];
        Before::new(rows.clone(), moves[key].wrapping_sub(moved))
    }

    /// Whether no two of the same key overlap.
    pub(super) fn are_disjoint(&self) -> bool {
        self.past.grouped.axis.disjoint
    }

    /// Where all rows of the past end, moved as they were.
    pub(super) fn ends(&self) -> &[i64] {
        &self.past.grouped.ends
    }

    /// A column of the past, which is grouped.
    pub(super) fn leaf(&self, leaf: usize) -> &Leaf {
        &self.past.grouped.leaves[leaf]
    }

    /// Whether all columns that a plan reads are grouped, and those of rows that follow go on in the same way.
    pub(super) fn has(&self, run: &Run, plan: &Plan) -> bool {
        let goes_on = |(id, _): &(_, usize)| {
            let leaves = &run.series[id].leaves;
            let is_kept =
                |leaf: &usize| self.past.read.contains(leaf) && leaves[*leaf].valid.is_none();
            read_leaves(plan, *id).iter().all(is_kept)
        };
        run.columns.iter().all(goes_on)
    }
}
