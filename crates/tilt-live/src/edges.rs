//! Events whose end comes later than their start.

use std::collections::{HashMap, VecDeque};

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::ArrowError;

/// Values of rows as bytes, equal if the values are.
pub(crate) fn as_bytes(columns: &[ArrayRef]) -> Result<Rows, ArrowError> {
    let fields = columns
        .iter()
        .map(|c| SortField::new(c.data_type().clone()));
    RowConverter::new(fields.collect())?.convert_columns(columns)
}

/// An event that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The number of its row.
    pub(crate) seq: u64,
    /// Where it starts, which is later than its row said if it was moved.
    pub(crate) start: i64,
}

/// Events that have begun, by the start that their rows had and by values: a row that has both and an end tells the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    begun: HashMap<(i64, Box<[u8]>), VecDeque<Begun>>,
}

impl Edges {
    pub(crate) fn begin(&mut self, start: i64, values: &[u8], begun: Begun) {
        let key = (start, values.into());
        self.begun.entry(key).or_default().push_back(begun);
    }

    /// The event that began first of those that a row may end.
    pub(crate) fn find(&self, start: i64, values: &[u8]) -> Option<Begun> {
        let events = self.begun.get(&(start, values.into()))?;
        events.front().copied()
    }

    /// The event that [`find`](Self::find) gives has an end.
    pub(crate) fn end(&mut self, start: i64, values: &[u8]) {
        let key = (start, values.into());
        if let Some(events) = self.begun.get_mut(&key) {
            events.pop_front();
            if events.is_empty() {
                self.begun.remove(&key);
            }
        }
    }

    /// All that have begun: the number of the row, and the start that it had.
    pub(crate) fn given_starts(&self) -> HashMap<u64, i64> {
        let all = self.begun.iter();
        let starts = all.flat_map(|((start, _), events)| events.iter().map(|e| (e.seq, *start)));
        starts.collect()
    }
}
