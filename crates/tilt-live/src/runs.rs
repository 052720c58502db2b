//! Rows that go on together: one after the other as they came, or mixed.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef};
use arrow_schema::ArrowError;
use arrow_select::{concat::concat, interleave::interleave};
use tilt_ir::Span;

use crate::row::Row;

/// Rows of a batch one after the other, in order of start.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The number of the first.
    pub(crate) seq: u64,
    pub(crate) events: Vec<Span>,
    pub(crate) chunk: Arc<Vec<ArrayRef>>,
    /// Where in the chunk the first is.
    pub(crate) place: usize,
}

impl Run {
    /// The first rows, which are then no longer here.
    pub(crate) fn split_to(&mut self, rows: usize) -> Self {
        let rest = self.events.split_off(rows);
        let first = Self {
            seq: self.seq,
            events: std::mem::replace(&mut self.events, rest),
            chunk: Arc::clone(&self.chunk),
            place: self.place,
        };
        self.seq += rows as u64;
        self.place += rows;
        first
    }

    /// Whether a row comes next, in number and in its chunk.
    pub(crate) fn is_followed_by(&self, row: &Row) -> bool {
        let rows = self.events.len();
        self.seq + rows as u64 == row.seq && self.place + rows == row.place
    }

    pub(crate) fn row(&self, number: usize) -> Row {
        let event = self.events[number];
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
