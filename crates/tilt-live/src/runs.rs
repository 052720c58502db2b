//! Rows that go on together: one after the other as they came, or mixed.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef};
use arrow_schema::ArrowError;
use arrow_select::{concat::concat, interleave::interleave};
use tilt_data::Timeline;
use tilt_exec::{EndsOf, Live};
use tilt_ir::Span;

use crate::row::Row;

/// The events of rows that follow each other.
#[derive(Clone, Debug)]
pub(crate) enum Events {
    /// As they were read: of one length, and none overlaps another if the input's events do not.
    Read(Timeline),
    Listed(Vec<Span>),
}

impl Events {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Read(timeline) => timeline.len(),
            Self::Listed(events) => events.len(),
        }
    }

    pub(crate) fn at(&self, row: usize) -> Span {
        match self {
            Self::Read(timeline) => timeline.event(row),
            Self::Listed(events) => events[row],
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        (0..self.len()).map(|row| self.at(row))
    }

    /// Whether none overlaps the next, where that matters.
    pub(crate) fn are_apart(&self) -> bool {
        match self {
            Self::Read(_) => true,
            Self::Listed(events) => events.windows(2).all(|w| w[1].start >= w[0].end),
        }
    }

    /// How many start at or before `t`.
    pub(crate) fn starts_until(&self, t: i64) -> usize {
        match self {
            Self::Read(timeline) => timeline.starts_before(t.saturating_add(1)),
            Self::Listed(events) => events.partition_point(|event| event.start <= t),
        }
    }

    /// The first, which are then no longer here.
    fn split_to(&mut self, rows: usize) -> Self {
        let rest = match self {
            Self::Read(timeline) => Self::Read(timeline.slice(rows, timeline.len() - rows)),
            Self::Listed(events) => Self::Listed(events.split_off(rows)),
        };
        let first = std::mem::replace(self, rest);
        match first {
            Self::Read(timeline) => Self::Read(timeline.slice(0, rows)),
            listed @ Self::Listed(_) => listed,
        }
    }
}

/// Rows of a batch one after the other, in order of start.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The number of the first.
    pub(crate) seq: u64,
    pub(crate) events: Events,
    pub(crate) chunk: Arc<Vec<ArrayRef>>,
    /// Where in the chunk the first is.
    pub(crate) place: usize,
}

impl Run {
    /// The first rows, which are then no longer here.
    pub(crate) fn split_to(&mut self, rows: usize) -> Self {
        let first = Self {
            seq: self.seq,
            events: self.events.split_to(rows),
            chunk: Arc::clone(&self.chunk),
            place: self.place,
        };
        self.seq += rows as u64;
        self.place += rows;
        first
    }

    /// Whether a row comes next, in number and in its chunk.
    fn is_followed_by(&self, row: &Row) -> bool {
        let rows = self.events.len();
        self.seq + rows as u64 == row.seq && self.place + rows == row.place
    }

    /// Appends a row if it comes next.
    pub(crate) fn append(&mut self, row: &Row) -> bool {
        let follows = self.is_followed_by(row);
        match &mut self.events {
            Events::Listed(events) if follows => events.push(row.event),
            _ => return false,
        }
        true
    }

    pub(crate) fn row(&self, number: usize) -> Row {
        let event = self.events.at(number);
        Row {
            at: event.start,
            seq: self.seq + number as u64,
            event,
            closes: None,
            key: None,
            chunk: Arc::clone(&self.chunk),
            place: self.place + number,
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.events.len()).map(|number| self.row(number))
    }

    /// Appends the rows to those that a live run has of an input, if it takes them as they are.
    pub(crate) fn append_to(&self, live: &mut Live, input: usize) -> bool {
        let Events::Read(timeline) = &self.events else {
            return false;
        };
        let columns: Vec<ArrayRef> = self.columns().collect();
        let ends = EndsOf::of(timeline);
        ends.is_some_and(|(ends, length)| live.append(input, ends, length, columns.iter()))
    }

    /// The values of its rows.
    pub(crate) fn columns(&self) -> impl Iterator<Item = ArrayRef> + '_ {
        let columns = self.chunk.iter();
        columns.map(|column| column.slice(self.place, self.events.len()))
    }
}

/// Rows of several chunks in an order of their own.
#[derive(Debug, Default)]
pub(crate) struct Mixed {
    pub(crate) events: Vec<Span>,
    chunks: Vec<Arc<Vec<ArrayRef>>>,
    /// The chunk and the place in it of each row.
    places: Vec<(usize, usize)>,
    numbers: HashMap<*const Vec<ArrayRef>, usize>,
}

impl Mixed {
    /// The number of a chunk.
    pub(crate) fn chunk(&mut self, chunk: &Arc<Vec<ArrayRef>>) -> usize {
        *self.numbers.entry(Arc::as_ptr(chunk)).or_insert_with(|| {
            self.chunks.push(Arc::clone(chunk));
            self.chunks.len() - 1
        })
    }

    /// Adds a row: its event, its chunk and the place in that.
    pub(crate) fn push(&mut self, event: Span, place: (usize, usize)) {
        self.events.push(event);
        self.places.push(place);
    }

    /// The values of its rows.
    pub(crate) fn columns(&self) -> Result<Vec<ArrayRef>, ArrowError> {
        let width = self.chunks.first().map_or(0, |chunk| chunk.len());
        let column = |i: usize| {
            let arrays: Vec<&dyn Array> = self.chunks.iter().map(|c| c[i].as_ref()).collect();
            interleave(&arrays, &self.places)
        };
        (0..width).map(column).collect()
    }
}

/// The values of runs, column by column. There is at least one.
pub(crate) fn joined(runs: &[Run]) -> Result<Vec<ArrayRef>, ArrowError> {
    let width = runs.first().map_or(0, |run| run.chunk.len());
    let column = |i: usize| {
        let arrays = runs.iter();
        let arrays = arrays.map(|run| run.chunk[i].slice(run.place, run.events.len()));
        let arrays: Vec<ArrayRef> = arrays.collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
        concat(&arrays)
    };
    (0..width).map(column).collect()
}
