//! Snapshot buffers: a timeline and the values on it.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field as ArrowField, FieldRef};
use arrow_select::{nullif::nullif, take::take};
use tilt_ir::{DType, Field, Span, Unit};

use crate::{
    dtype::from_arrow,
    error::{DataError, Result},
    time_column::TimeColumns,
    timeline::{Spans, Timeline},
};

/// Whether a stream's value is one column or a record of columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One column; a null is no event.
    Scalar,
    /// Several columns, each of which may be null inside an event.
    Record,
}

/// A column of values.
#[derive(Clone, Debug)]
pub struct Column {
    pub(crate) field: FieldRef,
    pub(crate) array: ArrayRef,
}

impl Column {
    /// A column that may hold nulls.
    pub fn new(name: &str, array: ArrayRef) -> Self {
        let field = ArrowField::new(name, array.data_type().clone(), true);
        Self {
            field: Arc::new(field),
            array,
        }
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// The Arrow field the column came with.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The values, as many as the timeline has rows.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// The values alone.
    pub fn into_array(self) -> ArrayRef {
        self.array
    }

    pub(crate) fn slice(&self, offset: usize, len: usize) -> Self {
        Self {
            field: Arc::clone(&self.field),
            array: self.array.slice(offset, len),
        }
    }

    pub(crate) fn take(&self, rows: &UInt64Array) -> Result<Self> {
        Ok(Self {
            field: Arc::clone(&self.field),
            array: take(&self.array, rows, None)?,
        })
    }
}

/// A stream's events over Arrow arrays.
///
/// Row `i` is the event [`event(i)`](Self::event) with the values at `i` of every column. A row is *no* event where it is
/// φ ([`is_valid`](Self::is_valid) is false: a null of a scalar stream, or a record that a filter dropped) and where it
/// was replaced at its own stamp; [`positions`](Self::positions) lists the rows that are events. Cloning and slicing
/// copy no values.
#[derive(Clone, Debug)]
pub struct SnapshotBuffer {
    timeline: Timeline,
    columns: Vec<Column>,
    shape: Shape,
    /// Rows with a value; of a scalar stream the column's own validity.
    rows: Option<NullBuffer>,
    unit: Unit,
    time: TimeColumns,
    bag: OnceLock<bool>,
    superseded: OnceLock<usize>,
}

impl SnapshotBuffer {
    /// A stream of one column.
    ///
    /// # Errors
    /// When the column is not as long as the timeline.
    pub fn scalar(timeline: Timeline, column: Column, unit: Unit) -> Result<Self> {
        let rows = column.array.logical_nulls();
        Self::build(timeline, vec![column], Shape::Scalar, rows, unit)
    }

    /// A stream of records. `rows` tells where there is one; without it, everywhere.
    ///
    /// # Errors
    /// When a column or `rows` is not as long as the timeline.
    pub fn record(
        timeline: Timeline,
        columns: Vec<Column>,
        rows: Option<NullBuffer>,
        unit: Unit,
    ) -> Result<Self> {
        Self::build(timeline, columns, Shape::Record, rows, unit)
    }

    fn build(
        timeline: Timeline,
        columns: Vec<Column>,
        shape: Shape,
        rows: Option<NullBuffer>,
        unit: Unit,
    ) -> Result<Self> {
        let expected = timeline.len();
        let lengths = columns.iter().map(|c| (c.name(), c.array.len()));
        let lengths = lengths.chain(rows.iter().map(|r| ("the rows' validity", r.len())));
        for (what, found) in lengths {
            if found != expected {
                return Err(DataError::Length {
                    what: what.to_owned(),
                    found,
                    expected,
                });
            }
        }
        let time = match timeline.spans() {
            Spans::Fixed(_) => TimeColumns::stamp("time", unit),
            _ => TimeColumns::interval("start", "end", unit),
        };
        Ok(Self {
            timeline,
            columns,
            shape,
            rows: rows.filter(|r| r.null_count() > 0),
            unit,
            time,
            bag: OnceLock::new(),
            superseded: OnceLock::new(),
        })
    }

    /// The same stream, its times named and typed like `time` on the way out.
    #[must_use]
    pub fn with_time_columns(mut self, time: TimeColumns) -> Self {
        self.time = time;
        self
    }

    /// Other rows of the same columns: names, types and times are as here. `rows` tells where there is a record; without it, everywhere.
    ///
    /// # Errors
    /// When a column or `rows` is not as long as the timeline.
    pub fn with_rows(
        &self,
        timeline: Timeline,
        arrays: Vec<ArrayRef>,
        rows: Option<NullBuffer>,
    ) -> Result<Self> {
        let lengths = arrays.iter().map(arrow_array::Array::len);
        let lengths = lengths.chain(rows.iter().map(NullBuffer::len));
        let mut others = lengths.filter(|len| *len != timeline.len());
        if let Some(found) = others.next() {
            return Err(DataError::Length {
                what: "a column".to_owned(),
                found,
                expected: timeline.len(),
            });
        }
        let rows = match self.shape {
            Shape::Scalar => arrays.first().and_then(arrow_array::Array::logical_nulls),
            Shape::Record => rows,
        };
        let columns = self
            .columns
            .iter()
            .zip(arrays)
            .map(|(column, array)| Column {
                field: Arc::clone(&column.field),
                array,
            });
        Ok(Self {
            timeline,
            columns: columns.collect(),
            shape: self.shape,
            rows: rows.filter(|rows| rows.null_count() > 0),
            unit: self.unit,
            time: self.time.clone(),
            bag: OnceLock::new(),
            superseded: OnceLock::new(),
        })
    }

    /// The same records with other values in a column, of any type.
    ///
    /// # Errors
    /// When the column is not as long as the timeline.
    ///
    /// # Panics
    /// If there is no such column, or the stream is not one of records: what its column holds says where it has events.
    pub fn with_column(&self, at: usize, array: ArrayRef) -> Result<Self> {
        assert_eq!(self.shape, Shape::Record, "a stream of records");
        if array.len() != self.len() {
            return Err(DataError::Length {
                what: self.columns[at].name().to_owned(),
                found: array.len(),
                expected: self.len(),
            });
        }
        let mut same = self.clone();
        same.columns[at] = Column::new(self.columns[at].name(), array);
        Ok(same)
    }

    /// Says whether several events are active at one instant ([`is_bag`](Self::is_bag)), where a pass over the data has told.
    #[must_use]
    pub fn with_bag(mut self, bag: bool) -> Self {
        self.bag = OnceLock::from(bag);
        self
    }

    /// How many rows, φ included.
    pub fn len(&self) -> usize {
        self.timeline.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.timeline.is_empty()
    }

    /// When the events are.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The columns of values: one of a scalar stream, the fields of a record.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name() == name)
    }

    /// One column or a record of columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What a tick is.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The time zone the times came in, for display and calendar windows.
    pub fn tz(&self) -> Option<&str> {
        self.time.end().tz()
    }

    /// How the times came in.
    pub fn time_columns(&self) -> &TimeColumns {
        &self.time
    }

    /// The type of a value; `None` if a column has a type that no stream can have.
    pub fn dtype(&self) -> Option<DType> {
        let dtype = |c: &Column| from_arrow(c.array.data_type());
        if self.shape == Shape::Scalar {
            return dtype(&self.columns[0]);
        }
        let field = |c: &Column| {
            Some(Field {
                name: c.name().to_owned(),
                dtype: dtype(c)?,
            })
        };
        let fields: Option<_> = self.columns.iter().map(field).collect();
        fields.map(DType::Record)
    }

    /// The interval of row `i`.
    #[inline]
    pub fn event(&self, i: usize) -> Span {
        self.timeline.event(i)
    }

    /// Whether row `i` has a value. A record has one even if all its fields are null.
    #[inline]
    pub fn is_valid(&self, i: usize) -> bool {
        self.rows.as_ref().is_none_or(|rows| rows.is_valid(i))
    }

    /// Which rows have a value; `None` means all.
    pub fn validity(&self) -> Option<&NullBuffer> {
        self.rows.as_ref()
    }

    /// Whether row `i` is an event: it has a value and an interval that is not empty.
    #[inline]
    pub fn is_event(&self, i: usize) -> bool {
        self.is_valid(i) && !self.timeline.is_superseded(i)
    }

    /// The rows that are events, in order.
    pub fn positions(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.len()).filter(|i| self.is_event(*i))
    }

    /// How many rows have no value (and so are no events).
    pub fn null_rows(&self) -> usize {
        self.rows.as_ref().map_or(0, NullBuffer::null_count)
    }

    /// How many rows were replaced at their own stamp (and so are no events). Found once.
    pub fn superseded(&self) -> usize {
        *self.superseded.get_or_init(|| self.timeline.superseded())
    }

    /// Whether several events are active at one instant. Found once, at ingress where the data came from there.
    pub fn is_bag(&self) -> bool {
        *self
            .bag
            .get_or_init(|| self.timeline.first_overlap(self.validity()).is_some())
    }

    /// Whether no two events are active at one instant, and that is known already.
    pub(crate) fn is_known_disjoint(&self) -> bool {
        self.bag.get() == Some(&false)
    }

    /// From the earliest start to the latest end of all events; `None` if there is none. An open event counts with its
    /// first instant.
    pub fn hull(&self) -> Option<Span> {
        // Of equal lengths, or one after the other, the first event starts first and the last ends last.
        let in_order =
            matches!(self.timeline.spans(), Spans::Fixed(_)) || self.bag.get() == Some(&false);
        if in_order {
            let first = (0..self.len()).find(|i| self.is_event(*i));
            let last = (0..self.len()).rev().find(|i| self.is_event(*i));
            return self.timeline.hull_of(first.into_iter().chain(last));
        }
        match &self.rows {
            None => self.timeline.hull(),
            Some(rows) => self.timeline.hull_of(rows.valid_indices()),
        }
    }

    /// The same stream with the events whose end is not known ended at `end`: see [`Timeline::close`].
    #[must_use]
    pub fn close(&self, end: i64) -> Self {
        Self {
            timeline: self.timeline.close(end),
            superseded: OnceLock::new(),
            ..self.clone()
        }
    }

    /// The rows `offset .. offset + len`, sharing all buffers.
    ///
    /// # Panics
    /// When there are not so many rows.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        let bag = match self.bag.get() {
            Some(false) => OnceLock::from(false),
            _ => OnceLock::new(),
        };
        let rows = self.rows.as_ref().map(|rows| rows.slice(offset, len));
        Self {
            timeline: self.timeline.slice(offset, len),
            columns: self.columns.iter().map(|c| c.slice(offset, len)).collect(),
            shape: self.shape,
            rows: rows.filter(|r| r.null_count() > 0),
            unit: self.unit,
            time: self.time.clone(),
            bag,
            superseded: match self.superseded.get() {
                Some(0) => OnceLock::from(0),
                _ => OnceLock::new(),
            },
        }
    }

    /// The same timeline with φ wherever `keep` is false or null: a filter that copies no values. The timeline keeps
    /// its rows, so streams on it still combine row by row.
    ///
    /// # Errors
    /// When `keep` is not as long as the timeline.
    pub fn masked(&self, keep: &BooleanArray) -> Result<Self> {
        if keep.len() != self.len() {
            return Err(DataError::Length {
                what: "the mask".to_owned(),
                found: keep.len(),
                expected: self.len(),
            });
        }
        let keep = NullBuffer::new(match keep.nulls() {
            Some(nulls) => keep.values() & nulls.inner(),
            None => keep.values().clone(),
        });
        let mut masked = self.clone();
        masked.rows =
            NullBuffer::union(self.rows.as_ref(), Some(&keep)).filter(|r| r.null_count() > 0);
        if self.bag.get() != Some(&false) {
            masked.bag = OnceLock::new();
        }
        if self.shape == Shape::Scalar {
            masked.columns[0] = with_nulls(&self.columns[0], &keep)?;
        }
        Ok(masked)
    }

    /// The events of the given rows, copied, each with the interval it has here. Rows may repeat, but must keep the
    /// order by end.
    ///
    /// # Errors
    /// When a row is out of bounds or ends before the one listed before it.
    pub fn gather(&self, rows: &[usize]) -> Result<Self> {
        let mut latest = i64::MIN;
        for (position, row) in rows.iter().copied().enumerate() {
            if row >= self.len() || self.timeline.end(row) < latest {
                return Err(DataError::GatherOrder { position, row });
            }
            latest = self.timeline.end(row);
        }
        self.gather_onto(self.timeline.gather(rows), rows)
    }

    /// The events for which `keep` is true, copied.
    ///
    /// # Errors
    /// When `keep` is not as long as the timeline.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self> {
        if keep.len() != self.len() {
            return Err(DataError::Length {
                what: "the filter".to_owned(),
                found: keep.len(),
                expected: self.len(),
            });
        }
        let kept = (0..keep.len()).filter(|i| keep.is_valid(*i) && keep.value(*i));
        self.gather(&kept.collect::<Vec<_>>())
    }

    /// The same values on another timeline of the same length.
    pub(crate) fn on(mut self, timeline: Timeline) -> Self {
        debug_assert_eq!(self.len(), timeline.len());
        self.timeline = timeline;
        self.bag = OnceLock::new();
        self.superseded = OnceLock::new();
        self
    }

    /// The values of `rows` on another timeline.
    pub(crate) fn gather_onto(&self, timeline: Timeline, rows: &[usize]) -> Result<Self> {
        let indices = UInt64Array::from_iter_values(rows.iter().map(|r| *r as u64));
        let columns: Vec<Column> = self
            .columns
            .iter()
            .map(|c| c.take(&indices))
            .collect::<Result<_>>()?;
        let valid = self
            .rows
            .as_ref()
            .map(|valid| rows.iter().map(|r| valid.is_valid(*r)).collect());
        let gathered = Self::build(timeline, columns, self.shape, valid, self.unit)?;
        Ok(gathered.with_time_columns(self.time.clone()))
    }
}

/// `column` with nulls where `valid` is false, sharing its values.
pub(crate) fn with_nulls(column: &Column, valid: &NullBuffer) -> Result<Column> {
    let null = BooleanArray::new(!valid.inner(), None);
    let field = column.field.as_ref().clone().with_nullable(true);
    Ok(Column {
        field: Arc::new(field),
        array: nullif(&column.array, &null)?,
    })
}
