//! Rows of an input that wait, and what is released of them when the watermark has passed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef};
use arrow_row::Rows;
use arrow_schema::{ArrowError, DataType};
use tilt_ir::{Input, OPEN, Overlap, SpanRule};

use crate::{
    edges::as_bytes,
    options::{InputOptions, Policy},
    row::Row,
    runs::{Mixed, Run},
};

/// How events of an input end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ends {
    /// In the order in which they start.
    #[default]
    InOrder,
    /// In any order, each by itself.
    Apart,
    /// Where the next one of the key starts.
    WithKey,
}

/// Rows that wait. Cheap to clone, as far as there are few: values are shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) ends: Ends,
    /// Rows that came in order of start, where events end in that order: each run follows the one before.
    pub(crate) runs: VecDeque<Run>,
    /// All other rows that the watermark has not passed.
    pub(crate) pending: BinaryHeap<Reverse<Row>>,
    /// Rows that it has passed, but which end after it, by number.
    pub(crate) begun: BTreeMap<u64, Row>,
    /// Which events do not overlap, and the end of the last; of states the end of the instant at which the last one in time began.
    pub(crate) disjoint: Disjoint,
    pub(crate) last_end: i64,
    /// The end of the last event of each key that has events which end after the watermark.
    pub(crate) key_ends: HashMap<Arc<[u8]>, i64>,
    /// Which column of a chunk is the key.
    pub(crate) key: Option<usize>,
    /// Whether a row takes the place of the one before it at its own instant.
    pub(crate) are_states: bool,
    /// Whether rows that are moved [yield](Row::yields).
    pub(crate) are_exclusive: bool,
    /// The last event that went on, if no other ends after it starts: the column of its key, its place there, and its end. It is not in `key_ends` yet.
    pub(crate) last_of_key: Option<(ArrayRef, usize, i64)>,
}

/// Which events of an input do not overlap, and are told apart by that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Disjoint {
    #[default]
    None,
    /// All of them.
    All,
    /// Those of a key.
    OfKey,
}

/// What is released.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// Rows in order of end.
    pub(crate) ended: Vec<Row>,
    /// Instead of those, runs of rows.
    pub(crate) runs: Vec<Run>,
    /// Or rows of several runs, and others between them.
    pub(crate) mixed: Mixed,
    /// Rows that overlap one before, where that is not declared, and where that one ends. Rows that were moved to where another one in time is.
    pub(crate) overlapping: Vec<(Row, i64)>,
    /// Rows that were moved and go on, by number, if they might have been left out.
    pub(crate) moved: Vec<u64>,
}

impl Queue {
    pub(crate) fn new(input: &Input, options: &InputOptions) -> Self {
        let is_disjoint = input.overlap == Overlap::Disjoint && input.key.is_none();
        let disjoint = match input.span {
            SpanRule::UntilNext => Disjoint::None,
            _ if is_disjoint => Disjoint::All,
            _ if input.overlap == Overlap::Disjoint => Disjoint::OfKey,
            _ => Disjoint::None,
        };
        let is_moved = options.policy == Policy::Adjust;
        let are_states = input.span == SpanRule::UntilNext;
        let ends = match input.span {
            SpanRule::Point | SpanRule::Fixed(_) => Ends::InOrder,
            SpanRule::UntilNext if input.key.is_none() => Ends::InOrder,
            SpanRule::UntilNext => Ends::WithKey,
            SpanRule::Interval if is_disjoint && !options.edges && !is_moved => Ends::InOrder,
            SpanRule::Interval => Ends::Apart,
        };
        Self {
            ends,
            runs: VecDeque::new(),
            pending: BinaryHeap::new(),
            begun: BTreeMap::new(),
            disjoint,
            last_end: i64::MIN,
            key_ends: HashMap::new(),
            key: None,
            are_states,
            are_exclusive: is_moved && (are_states || disjoint != Disjoint::None),
            last_of_key: None,
        }
    }

    /// Where the last one starts of rows that wait by themselves, or have begun.
    pub(crate) fn last_start(&self) -> Option<i64> {
        let pending = self.pending.iter().map(|Reverse(row)| row);
        let rows = pending.chain(self.begun.values());
        rows.map(|row| row.event.start).max()
    }

    /// Where rows start that were moved and may still be left out.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = i64> {
        moved(&self.pending, self.are_exclusive).map(|row| row.event.start)
    }

    /// Whether a row goes on to the run as soon as the watermark has passed its start.
    pub(crate) fn is_in_order(&self) -> bool {
        self.ends == Ends::InOrder
    }

    /// Whether at most one event of the input, or of a key, is active at an instant.
    pub(crate) fn is_disjoint(&self) -> bool {
        self.disjoint != Disjoint::None
    }

    /// Whether rows are told apart by their keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.ends == Ends::WithKey || self.disjoint == Disjoint::OfKey
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.pending.is_empty() && self.begun.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        let runs: usize = self.runs.iter().map(|run| run.events.len()).sum();
        runs + self.pending.len() + self.begun.len()
    }

    /// The rows that end, or in order of which others end, up to `until`, before which nothing changes any more.
    pub(crate) fn release(&mut self, until: i64) -> Result<Released, ArrowError> {
        let mut released = Released::default();
        while let Some(run) = self.runs.front_mut() {
            let passed = run.events.starts_until(until);
            if passed < run.events.len() {
                released
                    .runs
                    .extend((passed > 0).then(|| run.split_to(passed)));
                break;
            }
            released.runs.extend(self.runs.pop_front());
        }
        let is_passed = |Reverse(row): &Reverse<Row>| row.at <= until;
        if self.is_in_order()
            && !self.pending.peek().is_some_and(is_passed)
            && self.follow(&released)
        {
            return Ok(released);
        }
        if self.is_in_order() {
            self.mix(&mut released, until)?;
            return Ok(released);
        }
        let mut last_of_key: HashMap<Arc<[u8]>, u64> = HashMap::new();
        if self.ends == Ends::WithKey {
            let keys = self.begun.iter();
            last_of_key = keys
                .filter_map(|(seq, row)| Some((row.key.clone()?, *seq)))
                .collect();
        }
        while let Some(Reverse(row)) = self.pending.peek()
            && row.at <= until
        {
            let Some(Reverse(row)) = self.pending.pop() else {
                break;
            };
            match (self.ends, row.closes, &row.key) {
                (_, Some(closed), _) => {
                    if let Some(begun) = self.begun.get_mut(&closed) {
                        begun.event.end = row.event.end;
                        // It was moved, and has ended before that.
                        if begun.event.start >= begun.event.end {
                            self.begun.remove(&closed);
                        }
                    }
                }
                (Ends::WithKey, _, Some(key)) => {
                    let last = last_of_key.get(key).and_then(|seq| self.begun.get(seq));
                    let has_place =
                        |last: &Row| !last.yields() && last.event.start == row.event.start;
                    if row.yields() {
                        if last.is_some_and(has_place) {
                            let end = row.event.start + 1;
                            released.overlapping.push((row, end));
                            continue;
                        }
                        released.moved.push(row.seq);
                    }
                    let before = last_of_key.insert(Arc::clone(key), row.seq);
                    if let Some(seq) = before
                        && let Some(begun) = self.begun.get_mut(&seq)
                    {
                        begun.event.end = row.event.start;
                        begun.key = None;
                        // Replaced at its own stamp.
                        if begun.event.start >= begun.event.end {
                            self.begun.remove(&seq);
                        }
                    }
                    self.begun.insert(row.seq, row);
                }
                _ => {
                    self.begun.insert(row.seq, row);
                }
            }
        }
        if self.disjoint != Disjoint::None {
            end_open(self.begun.values_mut(), until);
        }
        // A row that ends an open event at `until` may still come, and of events with one end those come first that began first.
        let mut open = self.begun.values().filter(|row| row.event.end == OPEN);
        let first_open = match self.ends {
            Ends::WithKey => None,
            _ => open.next().map(|row| row.seq),
        };
        self.begun.retain(|_, row| {
            let may_come_after = first_open.is_some_and(|open| open < row.seq);
            let has_ended = row.event.end < until || row.event.end == until && !may_come_after;
            if has_ended {
                released.ended.push(row.clone());
            }
            !has_ended
        });
        released
            .ended
            .sort_by_key(|row| (row.event.end, row.yields(), row.seq));
        if self.disjoint != Disjoint::None {
            let ended = std::mem::take(&mut released.ended);
            for (number, row) in ended.iter().enumerate() {
                // Those that end later have not been looked at.
                let in_time = || {
                    let others = ended[number + 1..].iter().chain(self.begun.values());
                    let mut others = others.filter(|other| !other.yields() && other.key == row.key);
                    let other = others.find(|other| other.event.start < row.event.end);
                    other.map(|other| other.event.end)
                };
                let other = row.yields().then(in_time).flatten();
                if let Some(end) = other.or_else(|| self.overlapped(row)) {
                    released.overlapping.push((row.clone(), end));
                    continue;
                }
                released.moved.extend(row.yields().then_some(row.seq));
                released.ended.push(row.clone());
            }
            // Rows that are pending start after all that has ended, but for those that were moved.
            let moved = moved(&self.pending, self.are_exclusive);
            let keys = self.begun.values().chain(moved);
            let begun: HashSet<&Arc<[u8]>> = keys.filter_map(|row| row.key.as_ref()).collect();
            self.key_ends.retain(|key, _| begun.contains(key));
        }
        Ok(released)
    }

    /// No row comes any more: intervals that were moved and may be left out either are, and are given back, or have begun and are given back by number.
    pub(crate) fn decide_all(&mut self) -> Result<Released, ArrowError> {
        if !self.are_exclusive || self.ends != Ends::Apart {
            return Ok(Released::default());
        }
        let mut decided = self.clone().release(OPEN - 1)?;
        decided.overlapping.retain(|(row, _)| row.yields());
        let stays: HashSet<u64> = decided.moved.iter().copied().collect();
        for Reverse(row) in std::mem::take(&mut self.pending) {
            if !row.yields() {
                self.pending.push(Reverse(row));
            } else if stays.contains(&row.seq) {
                self.begun.insert(row.seq, row);
            }
        }
        Ok(decided)
    }

    /// The keys of a run's rows, if rows are told apart by them.
    pub(crate) fn keys_of(&self, run: &Run) -> Result<Option<Rows>, ArrowError> {
        let keys = self.keys_in(&run.chunk);
        let keys = keys.map(|keys| as_bytes(&[keys.slice(run.place, run.events.len())]));
        keys.transpose()
    }

    /// Lists the last event by its key, as all others.
    pub(crate) fn list_last(&mut self) -> Result<(), ArrowError> {
        if let Some((keys, place, end)) = self.last_of_key.take() {
            let keys = as_bytes(&[keys.slice(place, 1)])?;
            self.key_ends.insert(keys.row(0).as_ref().into(), end);
        }
        Ok(())
    }

    /// The column of keys, if rows are told apart by them.
    pub(crate) fn keys_in(&self, columns: &[ArrayRef]) -> Option<ArrayRef> {
        self.key_column().map(|key| Arc::clone(&columns[key]))
    }

    /// Which column that is.
    pub(crate) fn key_column(&self) -> Option<usize> {
        self.key.filter(|_| self.has_keys())
    }

    /// The last event that goes on has a key at this place of a column, and no other ends after it starts.
    pub(crate) fn ends_with(&mut self, keys: Option<ArrayRef>, place: usize, end: i64) {
        self.last_end = end;
        if self.has_keys() {
            self.key_ends.clear();
            self.last_of_key = keys.map(|keys| (keys, place, end));
        }
    }

    /// Puts rows that are pending up to `until` between those of the runs.
    fn mix(&mut self, released: &mut Released, until: i64) -> Result<(), ArrowError> {
        self.list_last()?;
        let mut mixed = Mixed::default();
        for run in std::mem::take(&mut released.runs) {
            let chunk = mixed.chunk(&run.chunk);
            let keys = self.keys_of(&run)?;
            for (i, event) in run.events.iter().enumerate() {
                while let Some(Reverse(row)) = self.pending.peek()
                    && row.turn() < (event.start, true, run.seq + i as u64)
                {
                    self.mix_next(&mut mixed, released);
                }
                let place = run.place + i;
                if self.are_states {
                    self.last_end = event.start + 1;
                }
                if self.is_disjoint() {
                    let mut row = run.row(i);
                    row.key = keys.as_ref().map(|keys| keys.row(i).as_ref().into());
                    if let Some(end) = self.overlapped(&row) {
                        released.overlapping.push((row, end));
                        continue;
                    }
                }
                mixed.push(event, (chunk, place));
            }
        }
        while let Some(Reverse(row)) = self.pending.peek()
            && row.at <= until
        {
            self.mix_next(&mut mixed, released);
        }
        released.mixed = mixed;
        self.key_ends.retain(|_, end| *end > until);
        Ok(())
    }

    /// Adds the next row that is pending.
    fn mix_next(&mut self, mixed: &mut Mixed, released: &mut Released) {
        let Some(Reverse(row)) = self.pending.pop() else {
            return;
        };
        let end = if !self.are_states {
            let overlapped = self.is_disjoint().then(|| self.overlapped(&row));
            overlapped.flatten()
        } else if row.yields() {
            Some(self.last_end).filter(|end| row.event.start < *end)
        } else {
            self.last_end = row.event.start + 1;
            None
        };
        if let Some(end) = end {
            released.overlapping.push((row, end));
            return;
        }
        released.moved.extend(row.yields().then_some(row.seq));
        let chunk = mixed.chunk(&row.chunk);
        mixed.push(row.event, (chunk, row.place));
    }

    /// Whether no event of the runs overlaps one before, where that matters; then the last is the last of all.
    fn follow(&mut self, released: &Released) -> bool {
        if !self.is_disjoint() {
            if let Some(run) = released.runs.last().filter(|_| self.are_states) {
                self.last_end = run.events.at(run.events.len() - 1).start + 1;
            }
            return true;
        }
        // A null of a scalar is no event.
        let has_nulls = |run: &Run| {
            self.disjoint == Disjoint::All
                && run.chunk.len() == 1
                && run.chunk[0].logical_null_count() > 0
        };
        let mut last_end = self.last_end;
        let follow = released.runs.iter().all(|run| {
            let last = run.events.len() - 1;
            let follows = run.events.are_apart() && run.events.at(0).start >= last_end;
            last_end = run.events.at(last).end;
            follows
        });
        let follow = follow && !released.runs.iter().any(has_nulls);
        if let Some(run) = released.runs.last().filter(|_| follow) {
            let last = run.place + run.events.len() - 1;
            self.ends_with(self.keys_in(&run.chunk), last, last_end);
        }
        follow
    }

    /// Where the last event ends, if one that is to follow overlaps it; otherwise that one is the last now.
    fn overlapped(&mut self, row: &Row) -> Option<i64> {
        let is_of_nobody = self.disjoint == Disjoint::OfKey && row.key.is_none();
        if is_of_nobody || !has_value(&row.chunk, row.place) {
            return None;
        }
        let last_end = match &row.key {
            Some(key) => self.key_ends.entry(Arc::clone(key)).or_insert(i64::MIN),
            None => &mut self.last_end,
        };
        if row.event.start < *last_end {
            return Some(*last_end);
        }
        *last_end = row.event.end;
        self.last_end = self.last_end.max(row.event.end);
        None
    }
}

/// Of events that do not overlap, one without an end ends where the next one of its key starts, at the latest; looked at are next ones that start before `until`.
pub(crate) fn end_open<'a>(rows: impl Iterator<Item = &'a mut Row>, until: i64) {
    let mut rows: Vec<&mut Row> = rows.collect();
    rows.sort_by(|a, b| (&a.key, b.event.start).cmp(&(&b.key, a.event.start)));
    let mut next: Option<(Option<Arc<[u8]>>, i64)> = None;
    for row in rows {
        let start = row.event.start;
        if let Some((key, next)) = &next
            && *key == row.key
            && row.event.end == OPEN
            && (start + 1..until).contains(next)
        {
            row.event.end = *next;
        }
        next = Some((row.key.clone(), start));
    }
}

/// Rows that wait and were moved to where others exclude them, without a look at all that wait where none can have been.
fn moved(pending: &BinaryHeap<Reverse<Row>>, are_exclusive: bool) -> impl Iterator<Item = &Row> {
    let pending = are_exclusive.then(|| pending.iter());
    let rows = pending.into_iter().flatten().map(|Reverse(row)| row);
    rows.filter(|row| row.yields())
}

/// Whether a row is an event: not one of a scalar that is null.
fn has_value(chunk: &[ArrayRef], place: usize) -> bool {
    let [column] = chunk else { return true };
    // A key of a dictionary may stand for null.
    let is_coded = matches!(column.data_type(), DataType::Dictionary(..));
    column.is_valid(place) && !(is_coded && column.slice(place, 1).logical_null_count() > 0)
}

#[cfg(test)]
mod tests {
    use arrow_array::{DictionaryArray, Int32Array, StringArray};

    use super::*;

    #[test]
    fn a_key_that_stands_for_null_is_no_value() {
        let keys = Int32Array::from(vec![Some(1), Some(0), None]);
        let words = StringArray::from(vec![None, Some("a")]);
        let column: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(words)));
        let scalar = [Arc::clone(&column)];
        let has_values: Vec<bool> = (0..3).map(|row| has_value(&scalar, row)).collect();
        assert_eq!(has_values, [true, false, false]);
        assert!(has_value(&[Arc::clone(&column), column], 1));
    }
}
