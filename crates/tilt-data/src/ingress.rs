//! From rows to events: `RecordBatch` to [`SnapshotBuffer`].
//!
//! Values and times are shared with the batch, not copied, with these exceptions: times in another unit than the query's
//! or narrower than 64 bits are converted; several chunks are joined; `sort` has to move rows; keyed inputs whose rows are in order
//! only within their keys are grouped by key. Everything that semantics §7 calls bad input is found here, before anything runs.

mod raw;

pub use raw::{RawRows, RowReader, Stamped};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, new_empty_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field as ArrowField, FieldRef};
use arrow_select::concat::concat;
use tilt_ir::{DType, Field, Input, OPEN, Overlap, SpanRule, Unit};

use crate::{
    dtype::{accepts, from_arrow, to_arrow},
    error::{DataError, Result},
    gaps::{Gaps, KnownGaps},
    keys::{Groups, Key},
    snapshot::{Column, Shape, SnapshotBuffer},
    time_column::{TimeColumn, TimeColumns},
    timeline::{Spans, Stamps, Timeline},
};

/// Instants and lengths are at most this far from zero, so that their sums with offsets fit into 64 bits.
pub const TIME_LIMIT: i64 = 1 << 62;

/// Where the times are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TimeNames {
    /// In one column.
    Stamp(String),
    /// In a column of starts and a column of ends.
    Interval(String, String),
}

/// How to read an input's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IngressOptions {
    /// The columns of times.
    pub time: TimeNames,
    /// The column of values of a scalar input. By default the one named like the input, or else the only one that is not
    /// a time.
    pub value: Option<String>,
    /// Sort rows by time (intervals by end), equal ones in the order given, instead of refusing them.
    pub sort: bool,
    /// Intervals are `[start, end)`: the same as `(start-1, end-1]`.
    pub closed_left: bool,
    /// Look for a period where none is declared.
    pub detect_period: bool,
    /// How many threads look through the times.
    pub threads: usize,
    /// Times that were looked through already.
    pub known: Option<KnownGaps>,
}

impl IngressOptions {
    /// Times in one column.
    pub fn stamp(column: impl Into<String>) -> Self {
        Self::new(TimeNames::Stamp(column.into()))
    }

    /// Times in two columns.
    pub fn interval(start: impl Into<String>, end: impl Into<String>) -> Self {
        Self::new(TimeNames::Interval(start.into(), end.into()))
    }

    fn new(time: TimeNames) -> Self {
        Self {
            time,
            value: None,
            sort: false,
            closed_left: false,
            detect_period: true,
            threads: 1,
            known: None,
        }
    }

    /// Values in this column.
    #[must_use]
    pub fn value(mut self, column: impl Into<String>) -> Self {
        self.value = Some(column.into());
        self
    }

    /// Sorts.
    #[must_use]
    pub fn sort(mut self) -> Self {
        self.sort = true;
        self
    }

    /// Intervals include their start instead of their end.
    #[must_use]
    pub fn closed_left(mut self) -> Self {
        self.closed_left = true;
        self
    }

    /// Keeps timestamps even where they are regular, so that they go out as the buffer they came in.
    #[must_use]
    pub fn keep_stamps(mut self) -> Self {
        self.detect_period = false;
        self
    }

    /// Looks through the times on so many threads, if there are many.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Does not look through these times again, where they are those of the rows.
    #[must_use]
    pub fn known(mut self, known: KnownGaps) -> Self {
        self.known = Some(known);
        self
    }

    fn is_time(&self, column: &str) -> bool {
        match &self.time {
            TimeNames::Stamp(name) => name == column,
            TimeNames::Interval(start, end) => start == column || end == column,
        }
    }
}

/// Reads one batch as the stream that `input` declares, in ticks of the query's `unit`.
///
/// The streams of a keyed input come in one buffer: as they are if the rows are in order as a whole, otherwise checked key by key and
/// [merged](SnapshotBuffer::merge). [`ingest_keyed`] keeps them apart.
///
/// # Errors
/// When the rows are not what was declared; see [`DataError`].
pub fn ingest(
    batch: &RecordBatch,
    input: &Input,
    unit: Unit,
    options: &IngressOptions,
) -> Result<SnapshotBuffer> {
    ingest_chunks(std::slice::from_ref(batch), input, unit, options)
}

/// [`ingest`] for rows that come in several batches. More than one are joined, which copies the columns read.
///
/// # Errors
/// As [`ingest`], also when a column has different types in different batches.
pub fn ingest_chunks(
    batches: &[RecordBatch],
    input: &Input,
    unit: Unit,
    options: &IngressOptions,
) -> Result<SnapshotBuffer> {
    let reader = Reader::new(input, unit, options)?;
    let mut rows = reader.read(batches)?;
    if let Some(key) = reader.key(&rows)? {
        if let Some(buffer) = reader.build_in_order(&rows)? {
            return Ok(buffer);
        }
        let streams = reader.build_keyed(&rows, key)?;
        if !streams.is_empty() {
            let streams: Vec<SnapshotBuffer> = streams.into_iter().map(|(_, s)| s).collect();
            return SnapshotBuffer::merge(&streams);
        }
    }
    let mut order = Vec::new();
    if options.sort && !rows.stamps.is_sorted() {
        order = (0..rows.stamps.len() as u64).collect();
        order.sort_by_key(|row| rows.stamps[*row as usize]);
        rows = rows.take(&order)?;
    }
    reader.build(&rows, &order)
}

/// Reads the rows of a keyed input: a stream for each key, ordered by key with null first. Rows must be sorted within
/// their key only, and stamps, overlaps and periods are those within the key. Copies each column once.
///
/// # Errors
/// As [`ingest_chunks`].
pub fn ingest_keyed(
    batches: &[RecordBatch],
    input: &Input,
    unit: Unit,
    options: &IngressOptions,
) -> Result<Vec<(Key, SnapshotBuffer)>> {
    let reader = Reader::new(input, unit, options)?;
    let rows = reader.read(batches)?;
    match reader.key(&rows)? {
        Some(key) => reader.build_keyed(&rows, key),
        None => Err(DataError::NotKeyed {
            input: input.name.clone(),
        }),
    }
}

/// The input that a batch looks like: a scalar if one column (or `options.value`) is left beside the times, otherwise a
/// record of all of them. Only points may coincide; a fixed span is also the period.
///
/// # Errors
/// When a column is missing or has a type that no stream can have.
pub fn infer_input(
    name: &str,
    batch: &RecordBatch,
    span: SpanRule,
    key: Option<&str>,
    options: &IngressOptions,
) -> Result<Input> {
    let time = match &options.time {
        TimeNames::Stamp(time) => time,
        TimeNames::Interval(start, end) => {
            find(batch, start)?;
            end
        }
    };
    let time = TimeColumn::given(find(batch, time)?.0, Unit::Tick)?;
    let schema = batch.schema_ref();
    let values: Vec<&FieldRef> = match &options.value {
        Some(value) => vec![find(batch, value)?.0],
        None => schema
            .fields()
            .iter()
            .filter(|f| !options.is_time(f.name()))
            .collect(),
    };
    let mut fields = Vec::with_capacity(values.len());
    for field in values {
        let dtype = from_arrow(field.data_type()).filter(DType::is_scalar);
        fields.push(Field {
            name: field.name().clone(),
            dtype: dtype.ok_or_else(|| DataError::UnsupportedType {
                column: field.name().clone(),
                found: field.data_type().clone(),
            })?,
        });
    }
    if let Some(key) = key {
        find(batch, key)?;
    }
    let dtype = match fields.as_slice() {
        [one] if key.is_none() => one.dtype.clone(),
        _ => DType::Record(fields),
    };
    Ok(Input {
        name: name.to_owned(),
        dtype,
        unit: time.unit(),
        span,
        period: match span {
            SpanRule::Fixed(d) => Some(d),
            _ => None,
        },
        key: key.map(str::to_owned),
        overlap: match span {
            SpanRule::Point => Overlap::Bag,
            _ => Overlap::Disjoint,
        },
    })
}

/// An input with its options, checked against each other.
struct Reader<'a> {
    input: &'a Input,
    unit: Unit,
    options: &'a IngressOptions,
    /// Whether the end of an interval may be null.
    open_ends: bool,
}

/// Rows as they are stored: times in the query's unit but not shifted, not checked yet.
struct Rows {
    stamps: ScalarBuffer<i64>,
    starts: Option<ScalarBuffer<i64>>,
    columns: Vec<Column>,
    time: TimeColumns,
}

impl Rows {
    fn take(&self, order: &[u64]) -> Result<Self> {
        let pick = |b: &ScalarBuffer<i64>| order.iter().map(|r| b[*r as usize]).collect();
        let indices = UInt64Array::from(order.to_vec());
        Ok(Self {
            stamps: pick(&self.stamps),
            starts: self.starts.as_ref().map(pick),
            columns: self
                .columns
                .iter()
                .map(|c| c.take(&indices))
                .collect::<Result<_>>()?,
            time: self.time.clone(),
        })
    }

    fn slice(&self, offset: usize, len: usize) -> Self {
        Self {
            stamps: self.stamps.slice(offset, len),
            starts: self.starts.as_ref().map(|s| s.slice(offset, len)),
            columns: self.columns.iter().map(|c| c.slice(offset, len)).collect(),
            time: self.time.clone(),
        }
    }
}

impl<'a> Reader<'a> {
    fn new(input: &'a Input, unit: Unit, options: &'a IngressOptions) -> Result<Self> {
        let name = || input.name.clone();
        match (&options.time, input.span) {
            (TimeNames::Stamp(column), SpanRule::Interval) => {
                return Err(DataError::NeedsInterval {
                    input: name(),
                    column: column.clone(),
                });
            }
            (TimeNames::Interval(..), SpanRule::Interval) | (TimeNames::Stamp(_), _) => {}
            (TimeNames::Interval(start, end), _) => {
                return Err(DataError::NeedsStamp {
                    input: name(),
                    start: start.clone(),
                    end: end.clone(),
                });
            }
        }
        if options.closed_left && input.span != SpanRule::Interval {
            return Err(DataError::ClosedLeft { input: name() });
        }
        let span = match input.span {
            SpanRule::Fixed(d) => Some(("span", d)),
            _ => None,
        };
        for (what, ticks) in span.into_iter().chain(input.period.map(|p| ("period", p))) {
            if !(1..=TIME_LIMIT).contains(&ticks) {
                return Err(DataError::BadLength {
                    input: name(),
                    what,
                    ticks,
                });
            }
        }
        Ok(Self {
            input,
            unit,
            options,
            open_ends: false,
        })
    }

    /// The declared columns of all batches, their types checked.
    fn read(&self, batches: &[RecordBatch]) -> Result<Rows> {
        let time_column = |name: &str, is_end: bool| -> Result<(TimeColumn, ScalarBuffer<i64>)> {
            let empty = TimeColumn::named(name, self.input.unit);
            let (field, array) = join(batches, name, empty.data_type(), |field| {
                TimeColumn::given(field, self.input.unit)?.check_unit(self.unit)
            })?;
            let column = TimeColumn::given(&field, self.input.unit)?;
            let ticks = if is_end && self.open_ends {
                column.read_open(&array, self.unit)?
            } else {
                column.read(&array, self.unit)?
            };
            Ok((column, ticks))
        };
        let value_column = |name: &str, dtype: &DType| -> Result<Column> {
            let (field, array) = join(batches, name, &to_arrow(dtype), |field| {
                if dtype.is_scalar() && accepts(dtype, field.data_type()) {
                    return Ok(());
                }
                Err(DataError::ValueType {
                    column: name.to_owned(),
                    found: field.data_type().clone(),
                    expected: dtype.clone(),
                })
            })?;
            Ok(Column { field, array })
        };

        let (stamps, starts, time) = match &self.options.time {
            TimeNames::Stamp(name) => {
                let (column, stamps) = time_column(name, false)?;
                (stamps, None, TimeColumns::Stamp(column))
            }
            TimeNames::Interval(start, end) => {
                let (start, starts) = time_column(start, false)?;
                let (end, ends) = time_column(end, true)?;
                (ends, Some(starts), TimeColumns::Interval { start, end })
            }
        };
        let columns = match &self.input.dtype {
            DType::Record(fields) => fields
                .iter()
                .map(|f| value_column(&f.name, &f.dtype))
                .collect::<Result<_>>()?,
            dtype => vec![value_column(&self.value_name(batches)?, dtype)?],
        };
        Ok(Rows {
            stamps,
            starts,
            columns,
            time,
        })
    }

    /// The column of a scalar input.
    fn value_name(&self, batches: &[RecordBatch]) -> Result<String> {
        let name = &self.input.name;
        if let Some(value) = &self.options.value {
            return Ok(value.clone());
        }
        let Some(batch) = batches.first() else {
            return Ok(name.clone());
        };
        let names = batch.schema_ref().fields().iter().map(|f| f.name());
        let mut candidates: Vec<String> = names
            .filter(|n| !self.options.is_time(n))
            .cloned()
            .collect();
        if candidates.contains(name) {
            return Ok(name.clone());
        }
        match candidates.len() {
            0 => Err(missing(batch, name)),
            1 => Ok(candidates.remove(0)),
            _ => Err(DataError::AmbiguousValue {
                input: name.clone(),
                candidates,
            }),
        }
    }

    /// The column of keys of a keyed input.
    fn key<'r>(&self, rows: &'r Rows) -> Result<Option<&'r Column>> {
        let Some(key) = &self.input.key else {
            return Ok(None);
        };
        let column = rows.columns.iter().find(|c| c.name() == key);
        column.map(Some).ok_or_else(|| DataError::KeyNotAField {
            input: self.input.name.clone(),
            key: key.clone(),
            dtype: self.input.dtype.clone(),
        })
    }

    /// The rows of a keyed input as they came, if they are in order as a whole and nothing has to be known of each key by itself.
    fn build_in_order(&self, rows: &Rows) -> Result<Option<SnapshotBuffer>> {
        let of_keys = self.input.period.is_some() || self.input.span == SpanRule::UntilNext;
        if of_keys {
            return Ok(None);
        }
        // A period would be one of all keys together.
        let options = self.options.clone().keep_stamps();
        let reader = Reader {
            options: &options,
            ..*self
        };
        match reader.build(rows, &[]) {
            // Each key by itself may be in order all the same, and disjoint.
            Err(DataError::Unsorted { .. } | DataError::Overlapping { .. }) => Ok(None),
            built => built.map(Some),
        }
    }

    /// A stream for each key.
    fn build_keyed(&self, rows: &Rows, key: &Column) -> Result<Vec<(Key, SnapshotBuffer)>> {
        let mut groups = Groups::of(key.name(), key.array())?;
        let mut order = std::mem::take(&mut groups.rows);
        if self.options.sort {
            for (_, range) in groups.iter() {
                order[range].sort_by_key(|row| rows.stamps[*row as usize]);
            }
        }
        let grouped = rows.take(&order)?;
        let streams = groups.iter().map(|(key, range)| {
            let rows = grouped.slice(range.start, range.len());
            let stream = self.build(&rows, &order[range])?;
            Ok((key.clone(), stream))
        });
        streams.collect()
    }

    /// Checks rows and makes events of them. `order` has each row's number as it was given; empty means in order.
    fn build(&self, rows: &Rows, order: &[u64]) -> Result<SnapshotBuffer> {
        let given = |i: usize| order.get(i).map_or(i, |row| *row as usize);
        let gaps = self.check_stamps(rows, given)?;
        let lengths = match &rows.starts {
            Some(starts) => self.check_starts(rows, starts, given)?,
            None => Lengths::none(),
        };
        let period = self.check_period(rows, gaps, given)?;

        let stamps = match period {
            Some(period) => Stamps::Regular {
                t0: rows.stamps[0],
                period,
                len: rows.stamps.len(),
            },
            None => Stamps::Explicit(rows.stamps.clone()),
        };
        let spans = match (self.input.span, &rows.starts) {
            (SpanRule::UntilNext, _) => Spans::UntilNext { next: OPEN },
            (SpanRule::Fixed(d), _) => Spans::Fixed(d),
            // Intervals of one length on a grid are samples of a signal: nothing need be stored.
            (SpanRule::Interval, Some(_)) if period.is_some() && lengths.min == lengths.max => {
                Spans::Fixed(lengths.max)
            }
            (SpanRule::Interval, Some(starts)) => Spans::Starts {
                starts: starts.clone(),
                longest: lengths.max,
            },
            (SpanRule::Point | SpanRule::Interval, _) => Spans::Fixed(1),
        };
        let shift = -i64::from(self.options.closed_left);
        let timeline = Timeline::new(stamps, shift, spans).given_as(&rows.stamps);

        let shape = match self.input.dtype {
            DType::Record(_) => Shape::Record,
            _ => Shape::Scalar,
        };
        let buffer = match shape {
            Shape::Scalar => SnapshotBuffer::scalar(timeline, rows.columns[0].clone(), self.unit),
            Shape::Record => {
                SnapshotBuffer::record(timeline, rows.columns.clone(), None, self.unit)
            }
        }?;
        let overlap = match buffer.timeline().spans() {
            Spans::Fixed(d) if gaps.min >= *d => None,
            _ => buffer.timeline().first_overlap(buffer.validity()),
        };
        if let (Some((previous, row)), Overlap::Disjoint) = (overlap, self.input.overlap) {
            return Err(DataError::Overlapping {
                input: self.input.name.clone(),
                column: rows.time.start().name().to_owned(),
                row: given(row),
                span: buffer.event(row),
                previous_row: given(previous),
                previous: buffer.event(previous),
            });
        }
        Ok(buffer
            .with_bag(overlap.is_some())
            .with_time_columns(rows.time.clone()))
    }

    /// Stamps in order and in range; the pass that also finds the period and coinciding points.
    fn check_stamps(&self, rows: &Rows, given: impl Fn(usize) -> usize) -> Result<Gaps> {
        let (stamps, column) = (&rows.stamps, rows.time.end().name());
        let known = self.options.known.as_ref();
        let gaps = known
            .and_then(|known| known.gaps_of(stamps))
            .unwrap_or_else(|| Gaps::of(stamps, self.options.threads));
        if gaps.min < 0 {
            let row = 1 + stamps
                .windows(2)
                .position(|w| w[1] < w[0])
                .expect("a negative gap");
            return Err(DataError::Unsorted {
                column: column.to_owned(),
                row: given(row),
                value: stamps[row],
                previous_row: given(row - 1),
                previous: stamps[row - 1],
                unit: self.unit,
            });
        }
        // Sorted: only the edges can be out of range.
        let low = stamps.first().filter(|t| **t < -TIME_LIMIT).map(|_| 0);
        let high = || {
            let row = stamps.partition_point(|t| *t <= TIME_LIMIT);
            (row < stamps.len()).then_some(row)
        };
        match low.or_else(high) {
            Some(row) => Err(DataError::OutOfRange {
                column: column.to_owned(),
                row: given(row),
                value: stamps[row],
                unit: self.unit,
            }),
            None => Ok(gaps),
        }
    }

    /// Starts in range and before their ends.
    fn check_starts(
        &self,
        rows: &Rows,
        starts: &[i64],
        given: impl Fn(usize) -> usize,
    ) -> Result<Lengths> {
        let none = (i64::MAX, Lengths::none());
        let (earliest, lengths) =
            starts
                .iter()
                .zip(&rows.stamps)
                .fold(none, |(earliest, lengths), (start, end)| {
                    let length = end.saturating_sub(*start);
                    (earliest.min(*start), lengths.with(length))
                });
        if lengths.min > 0 && earliest >= -TIME_LIMIT {
            return Ok(lengths);
        }
        let bad = |(start, end): (&i64, &i64)| end <= start || *start < -TIME_LIMIT;
        let row = starts.iter().zip(&rows.stamps).position(bad);
        let row = row.expect("an empty or early interval");
        let (start, end) = (starts[row], rows.stamps[row]);
        let start_column = rows.time.start().name().to_owned();
        Err(if end <= start {
            DataError::EmptyInterval {
                row: given(row),
                start_column,
                end_column: rows.time.end().name().to_owned(),
                start,
                end,
                unit: self.unit,
            }
        } else {
            DataError::OutOfRange {
                column: start_column,
                row: given(row),
                value: start,
                unit: self.unit,
            }
        })
    }

    /// The period, if the stamps need not be stored.
    fn check_period(
        &self,
        rows: &Rows,
        gaps: Gaps,
        given: impl Fn(usize) -> usize,
    ) -> Result<Option<i64>> {
        let stamps = &rows.stamps;
        let Some(period) = self.input.period else {
            let regular = self.options.detect_period && stamps.len() > 1;
            let regular = regular && gaps.min == gaps.max && (1..=TIME_LIMIT).contains(&gaps.min);
            return Ok(regular.then_some(gaps.min));
        };
        if stamps.is_empty() {
            return Ok(None);
        }
        if stamps.len() == 1 || (gaps.min == period && gaps.max == period) {
            return Ok(self.options.detect_period.then_some(period));
        }
        // Sorted: the distance fits into 64 bits without a sign.
        let distance = |t: i64| t.wrapping_sub(stamps[0]) as u64;
        let off = |t: &i64| !distance(*t).is_multiple_of(period.unsigned_abs());
        match stamps.iter().position(off) {
            Some(row) => Err(DataError::OffGrid {
                column: rows.time.end().name().to_owned(),
                row: given(row),
                value: stamps[row],
                first: stamps[0],
                period,
                unit: self.unit,
            }),
            None => Ok(None),
        }
    }
}

/// The least and the largest length of intervals.
#[derive(Clone, Copy)]
struct Lengths {
    min: i64,
    max: i64,
}

impl Lengths {
    fn none() -> Self {
        Self {
            min: i64::MAX,
            max: 0,
        }
    }

    fn with(self, length: i64) -> Self {
        Self {
            min: self.min.min(length),
            max: self.max.max(length),
        }
    }
}

/// The column `name` of a batch.
fn find<'b>(batch: &'b RecordBatch, name: &str) -> Result<(&'b FieldRef, &'b ArrayRef)> {
    let mut found = batch
        .schema_ref()
        .fields()
        .iter()
        .zip(batch.columns())
        .filter(|(field, _)| field.name() == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => Err(missing(batch, name)),
        _ => Err(DataError::DuplicateColumn {
            column: name.to_owned(),
        }),
    }
}

fn missing(batch: &RecordBatch, name: &str) -> DataError {
    let names = batch.schema_ref().fields().iter().map(|f| f.name().clone());
    DataError::MissingColumn {
        column: name.to_owned(),
        columns: names.collect(),
    }
}

/// The column `name` of all batches as one array; one batch's own array if there is only one.
fn join(
    batches: &[RecordBatch],
    name: &str,
    if_none: &DataType,
    check: impl Fn(&FieldRef) -> Result<()>,
) -> Result<(FieldRef, ArrayRef)> {
    let mut columns = Vec::with_capacity(batches.len());
    for (chunk, batch) in batches.iter().enumerate() {
        let (field, array) = find(batch, name)?;
        check(field)?;
        let expected = find(&batches[0], name)?.0.data_type();
        if field.data_type() != expected {
            return Err(DataError::ChunkType {
                column: name.to_owned(),
                chunk,
                found: field.data_type().clone(),
                expected: expected.clone(),
            });
        }
        columns.push((field, array));
    }
    match columns.as_slice() {
        [] => {
            let field = ArrowField::new(name, if_none.clone(), true);
            Ok((field.into(), new_empty_array(if_none)))
        }
        [(field, array)] => Ok(((*field).clone(), (*array).clone())),
        [(field, _), ..] => {
            let nullable = columns.iter().any(|(f, _)| f.is_nullable());
            let arrays: Vec<&dyn Array> = columns.iter().map(|(_, a)| a.as_ref()).collect();
            let field = field.as_ref().clone().with_nullable(nullable);
            Ok((field.into(), concat(&arrays)?))
        }
    }
}
