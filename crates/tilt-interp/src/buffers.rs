//! The oracle over Arrow: snapshot buffers in, a snapshot buffer out.
//!
//! [`events_of`] and [`buffer_of`] convert between the oracle's events and buffers, value by value. [`run_buffers`] puts
//! them around a run, which makes the oracle a backend: slow, but with the same interface as any other.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, ListArray, OffsetSizeTrait, PrimitiveArray,
    StringArray, StructArray,
    cast::AsArray,
    types::{
        DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
        DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field as ArrowField, TimeUnit};
use half::f16;
use tilt_data::{
    Column, Shape, SnapshotBuffer, Spans, TimeColumn, TimeColumns, Timeline,
    dtype::{accepts, from_arrow, to_arrow},
};
use tilt_ir::{
    Clock, DType, Field, FloatWidth, Input, Lineage, Program, Source, Span, SpanRule, Stream,
    StreamId, Timelines, Unit, Width,
};

use crate::{
    Event, Inputs, Options, Value,
    error::{DataError, RunError},
    run::{Watch, run_keys},
};

/// A buffer that is not what was declared, or events that no buffer of the type can hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BufferError {
    /// A buffer that counts time in another unit than the query.
    #[error(
        "input ~{input} counts {found}, but the query counts {expected}; ingest it in the query's unit"
    )]
    Unit {
        /// The input.
        input: String,
        /// The buffer's unit.
        found: Unit,
        /// The query's unit.
        expected: Unit,
    },
    /// A buffer whose events have other lengths than the declared span gives them.
    #[error(
        "input ~{input} is declared `{declared}`, but its buffer has events of other lengths; ingest it as declared"
    )]
    Span {
        /// The input.
        input: String,
        /// The declared span, as in the query's text.
        declared: String,
    },
    /// A record without one of the declared fields.
    #[error("input ~{input} has no column `{column}`, a field of its declared type {expected}")]
    MissingColumn {
        /// The input.
        input: String,
        /// The field.
        column: String,
        /// The declared type.
        expected: DType,
    },
    /// A scalar where a record is declared, or the other way round.
    #[error("input ~{input} is declared {expected}, but its buffer is a {found}")]
    Shape {
        /// The input.
        input: String,
        /// "record" or "scalar".
        found: &'static str,
        /// The declared type.
        expected: DType,
    },
    /// A column of another type than the declared one.
    #[error(
        "input ~{input}: column `{column}` has type {found}, but {expected} is declared; cast the column or change the declaration"
    )]
    ColumnType {
        /// The input.
        input: String,
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// The declared type.
        expected: DType,
    },
    /// A column whose type no stream can have.
    #[error("column `{column}` has type {found}, which no stream can have; cast or leave it out")]
    Unsupported {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
    /// A value that the type does not have.
    #[error("event {row}: {value} is not a value of type {expected}")]
    Value {
        /// The event's number, from zero.
        row: usize,
        /// The value.
        value: String,
        /// The type asked for.
        expected: DType,
    },
    /// An event that is not of the length asked for.
    #[error("event {row}: {event} does not last {expected} ticks")]
    Length {
        /// The event's number, from zero.
        row: usize,
        /// Its interval.
        event: Span,
        /// The length of all events.
        expected: i64,
    },
    /// Events not in order of their ends, or one that does not start before it ends.
    #[error("event {row}: {event} is empty or ends before the event before it")]
    Order {
        /// The event's number, from zero.
        row: usize,
        /// Its interval.
        event: Span,
    },
    /// A field of the output that is named like the key but holds something else.
    #[error(
        "the output's field `{key}` is named like the key, but is {found} where the key is {expected}; rename the field"
    )]
    KeyField {
        /// The name.
        key: String,
        /// The field's value in the first such event.
        found: String,
        /// The event's key.
        expected: String,
    },
}

/// Runs a program on buffers. Each input's buffer is what [`tilt_data::ingest`] makes of rows for its declaration.
///
/// The result is one column named like the output stream, or a column for each field of a record. Its times are named
/// like those of the input it gets its events from; where all events have one length, which the clocks tell and not the
/// data, [`Layout::Auto`](tilt_data::Layout::Auto) gives it one time column. If an input is keyed, the key comes first, in
/// a column named like it, unless the output has a field of that name, which must then be the key. Rows are ordered by
/// end, then key, then input order.
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
/// use tilt_data::{IngressOptions, Layout, ingest};
/// use tilt_data::arrow::array::{Array, Float64Array, Int64Array, RecordBatch};
/// use tilt_interp::{Options, run_buffers};
///
/// let program = tilt_ir::parse(
///     "query q unit tick { input ~x: f64 point  ~y[t] = reduce sum ~x[t-2 : t]  output ~y }",
/// )?;
/// let rows = RecordBatch::try_from_iter([
///     ("at", Arc::new(Int64Array::from(vec![1, 2, 7])) as _),
///     ("x", Arc::new(Float64Array::from(vec![0.5, 1.0, 2.0])) as _),
/// ])?;
/// let (_, input) = program.inputs().next().expect("an input");
/// let x = ingest(&rows, input, program.unit, &IngressOptions::stamp("at"))?;
///
/// let y = run_buffers(&program, &BTreeMap::from([("x".to_owned(), x)]), &Options::default())?;
/// let rows = y.to_record_batch(Layout::Auto)?;
/// assert_eq!(rows.schema().field(0).name(), "at");
/// assert_eq!(rows["y"].as_ref(), &Float64Array::from(vec![0.5, 1.5, 2.0]) as &dyn Array);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When a buffer is not what the program declares, and as [`run`](crate::run).
pub fn run_buffers(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &Options,
) -> Result<SnapshotBuffer, RunError> {
    run_buffers_watched(program, inputs, options, &|_| true)
}

/// As [`run_buffers`], but tells `watch` now and then which share of the work is done, from 0 to 1, and stops if it says no.
///
/// # Errors
/// [`RunError::Stopped`] if `watch` says no, and as [`run_buffers`].
pub fn run_buffers_watched(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &Options,
    watch: Watch,
) -> Result<SnapshotBuffer, RunError> {
    let mut events = Inputs::new();
    for (_, input) in program.inputs() {
        let stream = || input.name.clone();
        let buffer = inputs
            .get(&input.name)
            .ok_or_else(|| DataError::Missing { stream: stream() })?;
        events.insert(stream(), input_events(program, input, buffer)?);
    }
    let rows = run_keys(program, &events, options, program.output, watch)?;
    let (keys, events): (Vec<Value>, Vec<Event>) = rows.into_iter().unzip();

    let (name, dtype) = (
        program.streams[program.output].name(),
        program.stream_dtype(program.output),
    );
    let length = event_length(program, &Timelines::new(program), program.output);
    let timeline = timeline_of(&events, length)?;
    let mut columns = columns_of(&events, name, dtype)?;
    let mut is_record = matches!(dtype, DType::Record(_));
    if let Some((key, key_dtype)) = key_of(program) {
        match field_index(dtype, key) {
            Some(field) => check_key_field(key, field, &keys, &events)?,
            None => columns.insert(0, Column::new(key, array_of(&keys, key_dtype)?)),
        }
        is_record = true;
    }
    let output = if is_record {
        SnapshotBuffer::record(timeline, columns, None, program.unit)
    } else {
        SnapshotBuffer::scalar(timeline, columns.remove(0), program.unit)
    };
    let output = output.map_err(|error| RunError::Internal(error.to_string()))?;
    Ok(with_time_of(program, inputs, output))
}

/// The output of a program with its times named and typed like those of the input that its clock comes from.
#[must_use]
pub fn with_time_of(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    output: SnapshotBuffer,
) -> SnapshotBuffer {
    let length = event_length(program, &Timelines::new(program), program.output);
    let source = time_source(program).and_then(|id| inputs.get(program.streams[id].name()));
    let one_length = length.is_some();
    let derived = |end: TimeColumn| TimeColumns::Derived { end, one_length };
    let unit = program.unit;
    output.with_time_columns(match source.map(SnapshotBuffer::time_columns) {
        Some(TimeColumns::Interval { start, end }) if !one_length => TimeColumns::Interval {
            start: start.clone(),
            end: end.clone(),
        },
        Some(time) => derived(time.end().clone()),
        None if one_length => derived(TimeColumns::stamp("time", unit).end().clone()),
        None => TimeColumns::interval("start", "end", unit),
    })
}

/// The events of a buffer, those that are not known to end with [`OPEN`](tilt_ir::OPEN) ends. Rows that are φ or were
/// replaced at their own stamp are none.
///
/// # Errors
/// When a column has a type that no stream can have.
pub fn events_of(buffer: &SnapshotBuffer) -> Result<Vec<Event>, BufferError> {
    events_from(buffer, buffer.columns().iter())
}

/// A buffer of events, which must be ordered by end: one column called `name`, or a column for each field of a record.
/// Given a `length`, all events must have it, and starts are not stored: 1 for points, the period for samples.
///
/// # Errors
/// When a value is not one of `dtype`, or an event is out of order or not of that length.
pub fn buffer_of(
    events: &[Event],
    name: &str,
    dtype: &DType,
    unit: Unit,
    length: Option<i64>,
) -> Result<SnapshotBuffer, BufferError> {
    let timeline = timeline_of(events, length)?;
    let mut columns = columns_of(events, name, dtype)?;
    let buffer = if let DType::Record(_) = dtype {
        let valid: NullBuffer = events.iter().map(|e| !e.value.is_null()).collect();
        SnapshotBuffer::record(timeline, columns, Some(valid), unit)
    } else {
        SnapshotBuffer::scalar(timeline, columns.remove(0), unit)
    };
    Ok(buffer.expect("every column has a row for each event"))
}

/// The events of an input, whose buffer must be as declared.
fn input_events(
    program: &Program,
    input: &Input,
    buffer: &SnapshotBuffer,
) -> Result<Vec<Event>, BufferError> {
    check_buffer(program, input, buffer)?;
    match &input.dtype {
        DType::Record(fields) => {
            let columns = fields.iter().filter_map(|f| buffer.column(&f.name));
            events_from(buffer, columns)
        }
        _ => events_of(buffer),
    }
}

/// Checks that a buffer is what an input of a program declares: unit, lengths of events, columns and their types.
///
/// # Errors
/// When it is not.
pub fn check_buffer(
    program: &Program,
    input: &Input,
    buffer: &SnapshotBuffer,
) -> Result<(), BufferError> {
    let name = || input.name.clone();
    if buffer.unit() != program.unit {
        return Err(BufferError::Unit {
            input: name(),
            found: buffer.unit(),
            expected: program.unit,
        });
    }
    let length = match input.span {
        SpanRule::Point => Some(1),
        SpanRule::Fixed(length) => Some(length),
        SpanRule::UntilNext | SpanRule::Interval => None,
    };
    if let Some(length) = length
        && !matches!(buffer.timeline().spans(), Spans::Fixed(d) if *d == length)
    {
        let declared = match input.span {
            SpanRule::Point => "point".to_owned(),
            _ => format!("fixed {}", tilt_ir::format_duration(length, program.unit)),
        };
        let input = name();
        return Err(BufferError::Span { input, declared });
    }
    let check = |column: &Column, expected: &DType| {
        let found = column.array().data_type();
        if accepts(expected, found) {
            return Ok(());
        }
        Err(BufferError::ColumnType {
            input: name(),
            column: column.name().to_owned(),
            found: found.clone(),
            expected: expected.clone(),
        })
    };
    let shape = |found| BufferError::Shape {
        input: name(),
        found,
        expected: input.dtype.clone(),
    };
    match (&input.dtype, buffer.shape()) {
        (DType::Record(fields), Shape::Record) => {
            for field in fields {
                let missing = || BufferError::MissingColumn {
                    input: name(),
                    column: field.name.clone(),
                    expected: input.dtype.clone(),
                };
                let column = buffer.column(&field.name).ok_or_else(missing)?;
                check(column, &field.dtype)?;
            }
            Ok(())
        }
        (DType::Record(_), Shape::Scalar) => Err(shape("scalar")),
        (_, Shape::Record) => Err(shape("record")),
        (dtype, Shape::Scalar) => check(&buffer.columns()[0], dtype),
    }
}

/// The events of a buffer with the values of some of its columns.
fn events_from<'a>(
    buffer: &SnapshotBuffer,
    columns: impl Iterator<Item = &'a Column>,
) -> Result<Vec<Event>, BufferError> {
    let mut values = Vec::new();
    for column in columns {
        if from_arrow(column.array().data_type()).is_none() {
            return Err(BufferError::Unsupported {
                column: column.name().to_owned(),
                found: column.array().data_type().clone(),
            });
        }
        values.push(values_of(column.array()));
    }
    let event = |i: usize| {
        let Span { start, end } = buffer.event(i);
        let value = match buffer.shape() {
            Shape::Scalar => values[0][i].clone(),
            Shape::Record => Value::record(values.iter().map(|column| column[i].clone())),
        };
        Event { start, end, value }
    };
    Ok(buffer.positions().map(event).collect())
}

/// The key of a keyed program, and its type.
fn key_of(program: &Program) -> Option<(&str, &DType)> {
    let mut keyed = program.inputs().filter_map(|(_, input)| {
        let key = input.key.as_deref()?;
        Some((key, input.dtype.field(key)?))
    });
    keyed.next()
}

fn field_index(dtype: &DType, name: &str) -> Option<usize> {
    match dtype {
        DType::Record(fields) => fields.iter().position(|f| f.name == name),
        _ => None,
    }
}

/// Refuses an output whose field `key` is not the key.
fn check_key_field(
    key: &str,
    field: usize,
    keys: &[Value],
    events: &[Event],
) -> Result<(), BufferError> {
    for (expected, event) in keys.iter().zip(events) {
        if let Value::Record(fields) = &event.value
            && !fields[field].same(expected)
        {
            return Err(BufferError::KeyField {
                key: key.to_owned(),
                found: fields[field].to_string(),
                expected: expected.to_string(),
            });
        }
    }
    Ok(())
}

/// The length that all events of a stream have, where the clocks tell.
fn event_length(program: &Program, timelines: &Timelines, stream: StreamId) -> Option<i64> {
    let timeline = timelines.of(stream);
    match timeline {
        tilt_ir::Timeline::Grid { period, .. } => Some(period),
        tilt_ir::Timeline::Input(id) => match program.streams[id].as_input()?.span {
            SpanRule::Point => Some(1),
            SpanRule::Fixed(d) => Some(d),
            SpanRule::UntilNext | SpanRule::Interval => None,
        },
        tilt_ir::Timeline::Own(id) => {
            // One timeline, moved, keeps its lengths; events that cannot last longer than a tick last one.
            let moved = match &program.streams[id] {
                Stream::Temporal(temporal) => moved_source(timelines, &temporal.clock),
                Stream::Input(_) => None,
            };
            match moved {
                Some(source) => event_length(program, timelines, source),
                None => (timelines.stretch(timeline) == Some(0)).then_some(1),
            }
        }
    }
}

/// A stream on the only timeline that a clock reads, if it does so at one offset.
fn moved_source(timelines: &Timelines, clock: &Clock) -> Option<StreamId> {
    let Clock::OnChange(sources) = clock else {
        return None;
    };
    let mut groups = sources.iter().map(|source| match source {
        Source::Value { stream, offset } => Some((*stream, timelines.of(*stream), *offset)),
        _ => None,
    });
    let (stream, timeline, offset) = groups.next()??;
    let same = |other| matches!(other, Some((_, t, o)) if (t, o) == (timeline, offset));
    groups.all(same).then_some(stream)
}

/// The input whose times the output's are named after: one its events come from, or else one it depends on.
fn time_source(program: &Program) -> Option<StreamId> {
    let lineage = Lineage::new(program);
    let changes = lineage.changes(program.output).inputs.first().copied();
    changes
        .or_else(|| lineage.halos().next().map(|(id, _)| id))
        .or_else(|| program.inputs().next().map(|(id, _)| id))
}

fn timeline_of(events: &[Event], length: Option<i64>) -> Result<Timeline, BufferError> {
    let mut previous = i64::MIN;
    for (row, event) in events.iter().enumerate() {
        let span = event.span();
        if span.start >= span.end || span.end < previous {
            return Err(BufferError::Order { row, event: span });
        }
        previous = span.end;
        if let Some(expected) = length
            && span.end.saturating_sub(expected) != span.start
        {
            return Err(BufferError::Length {
                row,
                event: span,
                expected,
            });
        }
    }
    let ends = events.iter().map(|e| e.end).collect();
    let contiguous = || events.windows(2).all(|w| w[0].end == w[1].start);
    Ok(match (length, events.first()) {
        (Some(length), first) => match (first, period(events)) {
            (Some(first), Some(period)) => {
                Timeline::regular(first.end, period, events.len(), Spans::Fixed(length))
            }
            _ => Timeline::explicit(ends, Spans::Fixed(length)),
        },
        (None, Some(first)) if contiguous() => {
            let first_start = first.start;
            Timeline::explicit(ends, Spans::Contiguous { first_start })
        }
        (None, _) => Timeline::intervals(events.iter().map(|e| e.start).collect(), ends),
    })
}

/// The distance between neighbouring ends, if it is always the same.
fn period(events: &[Event]) -> Option<i64> {
    let mut gaps = events
        .windows(2)
        .map(|w| w[1].end.checked_sub(w[0].end).filter(|gap| *gap > 0));
    let first = gaps.next()??;
    gaps.all(|gap| gap == Some(first)).then_some(first)
}

fn columns_of(events: &[Event], name: &str, dtype: &DType) -> Result<Vec<Column>, BufferError> {
    let misfit = events.iter().position(|e| !e.value.fits(dtype));
    if let Some(row) = misfit {
        return Err(misfit_error(row, &events[row].value, dtype));
    }
    let DType::Record(fields) = dtype else {
        let values: Vec<Value> = events.iter().map(|e| e.value.clone()).collect();
        return Ok(vec![Column::new(name, array(&values, dtype))]);
    };
    let rows: Vec<Value> = events.iter().map(|e| e.value.clone()).collect();
    let column = |(i, f): (usize, &Field)| Column::new(&f.name, field_array(&rows, i, &f.dtype));
    Ok(fields.iter().enumerate().map(column).collect())
}

fn misfit_error(row: usize, value: &Value, expected: &DType) -> BufferError {
    BufferError::Value {
        row,
        value: value.to_string(),
        expected: expected.clone(),
    }
}

/// An array of values, which are checked.
fn array_of(values: &[Value], dtype: &DType) -> Result<ArrayRef, BufferError> {
    match values.iter().position(|v| !v.fits(dtype)) {
        Some(row) => Err(misfit_error(row, &values[row], dtype)),
        None => Ok(array(values, dtype)),
    }
}

/// An array of values that fit the type.
fn array(values: &[Value], dtype: &DType) -> ArrayRef {
    fn ints<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(values: &[Value]) -> ArrayRef {
        let native = |v: &Value| match v {
            Value::Int(v) => T::Native::try_from(*v).ok(),
            _ => None,
        };
        Arc::new(values.iter().map(native).collect::<PrimitiveArray<T>>())
    }
    fn uints<T: ArrowPrimitiveType<Native: TryFrom<u64>>>(values: &[Value]) -> ArrayRef {
        let native = |v: &Value| match v {
            Value::UInt(v) => T::Native::try_from(*v).ok(),
            _ => None,
        };
        Arc::new(values.iter().map(native).collect::<PrimitiveArray<T>>())
    }
    fn floats<T: ArrowPrimitiveType>(values: &[Value], narrow: fn(f64) -> T::Native) -> ArrayRef {
        let native = |v: &Value| match v {
            Value::Float(v) => Some(narrow(*v)),
            _ => None,
        };
        Arc::new(values.iter().map(native).collect::<PrimitiveArray<T>>())
    }
    match dtype {
        DType::Bool => {
            let value = |v: &Value| match v {
                Value::Bool(v) => Some(*v),
                _ => None,
            };
            Arc::new(values.iter().map(value).collect::<BooleanArray>())
        }
        DType::Int(Width::W8) => ints::<Int8Type>(values),
        DType::Int(Width::W16) => ints::<Int16Type>(values),
        DType::Int(Width::W32) => ints::<Int32Type>(values),
        DType::Int(Width::W64) => ints::<Int64Type>(values),
        DType::UInt(Width::W8) => uints::<UInt8Type>(values),
        DType::UInt(Width::W16) => uints::<UInt16Type>(values),
        DType::UInt(Width::W32) => uints::<UInt32Type>(values),
        DType::UInt(Width::W64) => uints::<UInt64Type>(values),
        DType::Float(FloatWidth::W16) => floats::<Float16Type>(values, f16::from_f64),
        DType::Float(FloatWidth::W32) => floats::<Float32Type>(values, |v| v as f32),
        DType::Float(FloatWidth::W64) => floats::<Float64Type>(values, |v| v),
        DType::Timestamp(unit) => match unit {
            Unit::Tick => ints::<Int64Type>(values),
            Unit::Second => ints::<TimestampSecondType>(values),
            Unit::Milli => ints::<TimestampMillisecondType>(values),
            Unit::Micro => ints::<TimestampMicrosecondType>(values),
            Unit::Nano => ints::<TimestampNanosecondType>(values),
        },
        DType::Duration(unit) => match unit {
            Unit::Tick => ints::<Int64Type>(values),
            Unit::Second => ints::<DurationSecondType>(values),
            Unit::Milli => ints::<DurationMillisecondType>(values),
            Unit::Micro => ints::<DurationMicrosecondType>(values),
            Unit::Nano => ints::<DurationNanosecondType>(values),
        },
        DType::Utf8 => {
            let value = |v: &Value| match v {
                Value::Str(v) => Some(Arc::clone(v)),
                _ => None,
            };
            Arc::new(values.iter().map(value).collect::<StringArray>())
        }
        DType::Record(fields) => {
            let DataType::Struct(arrow_fields) = to_arrow(dtype) else {
                unreachable!("a record's columns are a struct")
            };
            let valid = values.iter().map(|v| !v.is_null()).collect();
            let arrays = fields.iter().enumerate();
            let arrays = arrays.map(|(i, f)| field_array(values, i, &f.dtype));
            let arrays: Vec<ArrayRef> = arrays.collect();
            // A record without fields has no column to take its length from.
            let records = if arrays.is_empty() {
                StructArray::new_empty_fields(values.len(), Some(valid))
            } else {
                StructArray::new(arrow_fields, arrays, Some(valid))
            };
            Arc::new(records)
        }
        DType::List(item) => {
            let items = |v: &Value| match v {
                Value::List(items) => items.to_vec(),
                _ => Vec::new(),
            };
            let rows: Vec<Vec<Value>> = values.iter().map(items).collect();
            let field = ArrowField::new_list_field(to_arrow(item), true);
            Arc::new(ListArray::new(
                Arc::new(field),
                OffsetBuffer::from_lengths(rows.iter().map(Vec::len)),
                array(&rows.concat(), item),
                Some(values.iter().map(|v| !v.is_null()).collect()),
            ))
        }
    }
}

/// Field `i` of every record.
fn field_array(records: &[Value], i: usize, dtype: &DType) -> ArrayRef {
    let field = |v: &Value| match v {
        Value::Record(fields) => fields[i].clone(),
        _ => Value::Null,
    };
    let values: Vec<Value> = records.iter().map(field).collect();
    array(&values, dtype)
}

/// The values of an array of a type that streams can have.
fn values_of(array: &dyn Array) -> Vec<Value> {
    fn primitives<T: ArrowPrimitiveType>(
        array: &dyn Array,
        value: impl Fn(T::Native) -> Value,
    ) -> Vec<Value> {
        let array = array.as_primitive::<T>();
        array
            .iter()
            .map(|v| v.map_or(Value::Null, &value))
            .collect()
    }
    fn ints<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array) -> Vec<Value> {
        primitives::<T>(array, |v| Value::Int(v.into()))
    }
    fn uints<T: ArrowPrimitiveType<Native: Into<u64>>>(array: &dyn Array) -> Vec<Value> {
        primitives::<T>(array, |v| Value::UInt(v.into()))
    }
    fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &dyn Array) -> Vec<Value> {
        primitives::<T>(array, |v| Value::Float(v.into()))
    }
    fn strings<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Vec<Value> {
        values.map(Value::from).collect()
    }
    fn lists<O: OffsetSizeTrait>(array: &dyn Array) -> Vec<Value> {
        let array = array.as_list::<O>();
        let item = |v: Option<ArrayRef>| v.map_or(Value::Null, |v| Value::list(values_of(&v)));
        array.iter().map(item).collect()
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().iter().map(Value::from).collect(),
        DataType::Int8 => ints::<Int8Type>(array),
        DataType::Int16 => ints::<Int16Type>(array),
        DataType::Int32 => ints::<Int32Type>(array),
        DataType::Int64 => ints::<Int64Type>(array),
        DataType::UInt8 => uints::<UInt8Type>(array),
        DataType::UInt16 => uints::<UInt16Type>(array),
        DataType::UInt32 => uints::<UInt32Type>(array),
        DataType::UInt64 => uints::<UInt64Type>(array),
        DataType::Float16 => floats::<Float16Type>(array),
        DataType::Float32 => floats::<Float32Type>(array),
        DataType::Float64 => floats::<Float64Type>(array),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => ints::<TimestampSecondType>(array),
            TimeUnit::Millisecond => ints::<TimestampMillisecondType>(array),
            TimeUnit::Microsecond => ints::<TimestampMicrosecondType>(array),
            TimeUnit::Nanosecond => ints::<TimestampNanosecondType>(array),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => ints::<DurationSecondType>(array),
            TimeUnit::Millisecond => ints::<DurationMillisecondType>(array),
            TimeUnit::Microsecond => ints::<DurationMicrosecondType>(array),
            TimeUnit::Nanosecond => ints::<DurationNanosecondType>(array),
        },
        DataType::Utf8 => strings(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => strings(array.as_string::<i64>().iter()),
        DataType::Utf8View => strings(array.as_string_view().iter()),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let entries = values_of(dictionary.values());
            if entries.is_empty() {
                return vec![Value::Null; array.len()];
            }
            let keys = dictionary.normalized_keys();
            let nulls = array.nulls();
            let is_valid = |row| nulls.is_none_or(|nulls| nulls.is_valid(row));
            let word = |(row, key): (usize, usize)| {
                let word = is_valid(row).then(|| entries[key].clone());
                word.unwrap_or(Value::Null)
            };
            keys.into_iter().enumerate().map(word).collect()
        }
        DataType::Struct(_) => {
            let records = array.as_struct();
            let fields: Vec<Vec<Value>> = records.columns().iter().map(|c| values_of(c)).collect();
            let record = |row: usize| {
                let values = || Value::record(fields.iter().map(|column| column[row].clone()));
                records.is_valid(row).then(values).unwrap_or(Value::Null)
            };
            (0..records.len()).map(record).collect()
        }
        DataType::List(_) => lists::<i32>(array),
        DataType::LargeList(_) => lists::<i64>(array),
        other => unreachable!("{other} is no type of a stream"),
    }
}

#[cfg(test)]
mod tests;
