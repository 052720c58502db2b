//! Rows as they come, before they are events: what a stream that is not in order needs.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tilt_ir::{Input, OPEN, Span, SpanRule, Unit};

use super::{IngressOptions, Reader, Rows, TIME_LIMIT};
use crate::{
    error::{DataError, Result},
    gaps::Gaps,
    snapshot::Column,
    time_column::{TimeColumn, TimeColumns},
};

/// Rows as they are read, before they are events: times and columns as they were declared, in the order given and not checked against each other.
#[derive(Clone, Debug)]
pub struct RawRows {
    /// The interval of each row in ticks of the query, [`OPEN`] if it has no end: an `until_next` row, or one whose end is null.
    pub events: Vec<Span>,
    /// The declared columns of values.
    pub columns: Vec<Column>,
    /// The columns the times came in.
    pub time: TimeColumns,
}

/// Reads rows in the order given, as a stream that is not in order needs it: nothing is checked but columns, types and the range of times. Batches of one schema are
/// looked through once.
#[derive(Debug)]
pub struct RowReader {
    input: Input,
    unit: Unit,
    options: IngressOptions,
    open_ends: bool,
    found: Option<Found>,
}

/// Where the columns of a schema are.
#[derive(Debug)]
struct Found {
    schema: SchemaRef,
    time: TimeColumns,
    /// The columns of values, as they are when there are no rows.
    columns: Vec<Column>,
    places: Vec<usize>,
    /// Where stamps or ends are.
    stamps: usize,
}

/// Rows of a batch one after the other, each with a stamp.
#[derive(Clone, Debug)]
pub struct Stamped<'a> {
    /// Ticks of the query.
    pub stamps: Cow<'a, ScalarBuffer<i64>>,
    /// The distances between them.
    pub gaps: Gaps,
    batch: &'a RecordBatch,
    places: &'a [usize],
}

impl<'a> Stamped<'a> {
    /// The declared columns of values, in the order of [`RawRows::columns`].
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &'a ArrayRef> + Clone + use<'a> {
        let batch = self.batch;
        self.places.iter().map(|at| batch.column(*at))
    }
}

impl RowReader {
    /// A reader of an input's rows. Where `open_ends` says so, the end of an interval may be null.
    pub fn new(input: &Input, unit: Unit, options: &IngressOptions, open_ends: bool) -> Self {
        Self {
            input: input.clone(),
            unit,
            options: options.clone(),
            open_ends,
            found: None,
        }
    }

    /// The rows of a batch.
    ///
    /// # Errors
    /// As [`ingest`](super::ingest), for what is checked.
    pub fn read(&mut self, batch: &RecordBatch) -> Result<RawRows> {
        let schema = batch.schema_ref();
        let found = match self.found.take() {
            Some(found) if Arc::ptr_eq(&found.schema, schema) || found.schema == *schema => found,
            _ => self.find(batch)?,
        };
        let found = self.found.insert(found);
        let ticks = |column: &TimeColumn, is_end: bool| {
            let at = schema.index_of(column.name())?;
            let array = batch.column(at);
            if is_end && self.open_ends {
                column.read_open(array, self.unit)
            } else {
                column.read(array, self.unit)
            }
        };
        let starts = match &found.time {
            TimeColumns::Stamp(_) | TimeColumns::Derived { .. } => None,
            TimeColumns::Interval { start, .. } => Some(ticks(start, false)?),
        };
        let stamps = ticks(found.time.end(), starts.is_some())?;
        let columns = found.columns.iter().zip(&found.places);
        let columns = columns.map(|(column, place)| Column {
            field: Arc::clone(&column.field),
            array: Arc::clone(batch.column(*place)),
        });
        let columns = columns.collect();
        let time = found.time.clone();
        Ok(RawRows {
            events: self.events(&time, &stamps, starts.as_deref())?,
            columns,
            time,
        })
    }

    /// The rows of a batch with the schema of the one before, if each has one stamp in range and they are in order. Otherwise [`read`](Self::read) tells more.
    pub fn read_in_order<'a>(&'a self, batch: &'a RecordBatch) -> Option<Stamped<'a>> {
        let schema = batch.schema_ref();
        let found = self.found.as_ref()?;
        if !Arc::ptr_eq(&found.schema, schema) && found.schema != *schema {
            return None;
        }
        let TimeColumns::Stamp(time) = &found.time else {
            return None;
        };
        let column = batch.column(found.stamps).as_ref();
        let stamps = match time.lent(column, self.unit) {
            Some(stamps) => Cow::Borrowed(stamps),
            None => Cow::Owned(time.read(column, self.unit).ok()?),
        };
        let (first, last) = (*stamps.first()?, *stamps.last()?);
        let gaps = Gaps::of(&stamps, 1);
        if first < -TIME_LIMIT || last > TIME_LIMIT || gaps.min < 0 {
            return None;
        }
        let places = &found.places;
        Some(Stamped {
            stamps,
            gaps,
            batch,
            places,
        })
    }

    /// Looks through the schema of the next batch, also if it is the same.
    pub fn forget(&mut self) {
        self.found = None;
    }

    /// Looks through a schema.
    fn find(&self, batch: &RecordBatch) -> Result<Found> {
        let reader = Reader {
            open_ends: self.open_ends,
            ..Reader::new(&self.input, self.unit, &self.options)?
        };
        let schema = batch.schema_ref();
        let Rows { columns, time, .. } = reader.read(&[batch.slice(0, 0)])?;
        let places = columns.iter().map(|column| schema.index_of(column.name()));
        Ok(Found {
            schema: Arc::clone(schema),
            stamps: schema.index_of(time.end().name())?,
            time,
            places: places.collect::<std::result::Result<_, _>>()?,
            columns,
        })
    }

    fn events(
        &self,
        time: &TimeColumns,
        stamps: &[i64],
        starts: Option<&[i64]>,
    ) -> Result<Vec<Span>> {
        let unit = self.unit;
        let shift = i64::from(self.options.closed_left);
        let limits = -TIME_LIMIT..=TIME_LIMIT;
        let mut events = Vec::with_capacity(stamps.len());
        for (row, stamp) in stamps.iter().copied().enumerate() {
            let start = starts.map(|starts| starts[row]);
            let is_open = stamp == OPEN && self.open_ends;
            let bad = |value: &i64| !limits.contains(value);
            if let Some(value) = start
                .filter(bad)
                .or(Some(stamp).filter(|t| !is_open && bad(t)))
            {
                let column = if start == Some(value) {
                    time.start()
                } else {
                    time.end()
                };
                return Err(DataError::OutOfRange {
                    column: column.name().to_owned(),
                    row,
                    value,
                    unit,
                });
            }
            if let Some(start) = start.filter(|start| stamp <= *start) {
                return Err(DataError::EmptyInterval {
                    row,
                    start_column: time.start().name().to_owned(),
                    end_column: time.end().name().to_owned(),
                    start,
                    end: stamp,
                    unit,
                });
            }
            events.push(match (self.input.span, start) {
                (SpanRule::Interval, Some(start)) => {
                    Span::new(start - shift, if is_open { OPEN } else { stamp - shift })
                }
                (SpanRule::UntilNext, _) => Span::new(stamp - 1, OPEN),
                (SpanRule::Fixed(length), _) => Span::new(stamp - length, stamp),
                (SpanRule::Point | SpanRule::Interval, _) => Span::new(stamp - 1, stamp),
            });
        }
        Ok(events)
    }
}
