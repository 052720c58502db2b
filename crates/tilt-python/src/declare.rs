//! What rows look like as an input of a query.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use pyo3::{exceptions::PyValueError, prelude::*};
use tilt::{
    data::{KnownGaps, TimeColumn, infer_input},
    ir::{self, Arena, DType, Field, Overlap, SpanRule, Stream, Unit},
};

use crate::{
    errors::{data_error, query_error},
    files::parse_unit,
    input::{ONLY_TIMES, Times},
    program::Program,
    table::Table,
};

/// The program that has only the input which a table's columns fit, and gives it back as it is.
///
/// `valid` is `point`, `until_next`, `interval` or a duration. With `value` the input is that column, otherwise a record of all columns but the times.
/// The program's unit is that of the column of times, or `unit` if that has plain integers.
#[pyfunction]
#[pyo3(signature = (name, rows, time, *, value=None, valid="point", unit=None, period=None, key=None, overlap="disjoint"))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn declare(
    name: &str,
    rows: &Table,
    time: Times,
    value: Option<String>,
    valid: &str,
    unit: Option<&str>,
    period: Option<&str>,
    key: Option<&str>,
    overlap: &str,
) -> PyResult<Program> {
    let mut options = time.options();
    let is_record = value.is_none();
    options.value = value;
    let unit = unit.map(parse_unit).transpose()?;
    let unit = unit_of(rows, &time, unit.unwrap_or(Unit::Tick));
    // A bare number counts ticks, whatever they are.
    let ticks = |text: &str| match text.parse() {
        Ok(ticks) => Ok(ticks),
        Err(_) => ir::parse_duration(text, unit).map_err(|error| query_error(&error)),
    };
    let span = match valid {
        "point" => SpanRule::Point,
        "until_next" => SpanRule::UntilNext,
        "interval" => SpanRule::Interval,
        length => SpanRule::Fixed(ticks(length)?),
    };
    let batch = RecordBatch::new_empty(rows.schema.clone());
    let mut input =
        infer_input(name, &batch, span, key, &options).map_err(|error| data_error(&error))?;
    let columns = rows.schema.fields().iter().map(|f| f.name());
    let mut columns = columns.filter(|c| !time.names().contains(&c.as_str()));
    let column = columns.next();
    let one = |name: String, dtype: DType| DType::Record(vec![Field { name, dtype }]);
    if column.is_none() {
        // Rows that have only times are something that happens.
        input.dtype = one(ONLY_TIMES.to_owned(), DType::Bool);
    } else if is_record && input.dtype.is_scalar() {
        input.dtype = one(column.cloned().unwrap_or_default(), input.dtype);
    }
    input.unit = unit;
    if let Some(period) = period {
        input.period = Some(ticks(period)?);
    }
    input.overlap = parse_overlap(overlap)?;
    let mut streams = Arena::default();
    let output = streams.push(Stream::Input(input));
    let program = ir::Program {
        name: "source".to_owned(),
        unit,
        streams,
        exprs: Arena::default(),
        vars: Arena::default(),
        functions: Arena::default(),
        reducers: Arena::default(),
        output,
    };
    ir::verify(&program).map_err(|error| query_error(&error))?;
    Ok(Program(program))
}

/// What the column of times counts, `plain` if that is integers. A column that is missing is reported later, by name.
fn unit_of(rows: &Table, time: &Times, plain: Unit) -> Unit {
    let column = time
        .names()
        .last()
        .and_then(|name| rows.schema.fields().find(name));
    let known = column.and_then(|(_, field)| TimeColumn::given(field, plain).ok());
    known.map_or(plain, |column| column.unit())
}

fn parse_overlap(name: &str) -> PyResult<Overlap> {
    match name {
        "disjoint" => Ok(Overlap::Disjoint),
        "bag" => Ok(Overlap::Bag),
        "first" => Ok(Overlap::First),
        "last" => Ok(Overlap::Last),
        other => Err(PyValueError::new_err(format!(
            "no overlap is called {other:?}; there are disjoint, bag, first and last"
        ))),
    }
}

/// Whether every row of a column of times is later than the one before it, looked through on so many threads. Columns without times, and nulls, are not.
#[pyfunction]
#[pyo3(signature = (rows, time, threads=None))]
pub(crate) fn increasing(py: Python<'_>, rows: &Table, time: &str, threads: Option<usize>) -> bool {
    let Some((index, _)) = rows.schema.fields().find(time) else {
        return false;
    };
    let threads = threads.unwrap_or_else(tilt::default_threads);
    let mut last = i64::MIN;
    py.detach(|| {
        rows.batches.iter().all(|batch| {
            let column = batch.column(index);
            let Some(times) = ticks(column) else {
                return false;
            };
            // Nothing is earlier than the earliest, which no time may be.
            let follows = times.first().is_none_or(|first| last < *first);
            last = times.last().copied().unwrap_or(last);
            let gaps = rows.known().and_then(|known| known.gaps_of(&times));
            let gaps = gaps.unwrap_or_else(|| {
                let known = KnownGaps::of(times, threads);
                let gaps = known.gaps();
                if rows.batches.len() == 1 {
                    rows.remember(known);
                }
                gaps
            });
            follows && gaps.min > 0
        })
    })
}

/// The numbers of a column of times, none of which is null.
fn ticks(column: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    if column.null_count() > 0 {
        return None;
    }
    match column.data_type() {
        DataType::Int64 | DataType::Timestamp(..) | DataType::Date64 | DataType::Duration(_) => {
            let data = column.to_data();
            let (buffer, offset) = (data.buffers()[0].clone(), data.offset());
            Some(ScalarBuffer::new(buffer, offset, data.len()))
        }
        DataType::Int32 | DataType::Date32 => {
            let data = column.to_data();
            let times = &data.buffer::<i32>(0)[..data.len()];
            Some(times.iter().map(|t| i64::from(*t)).collect())
        }
        _ => None,
    }
}

/// Ticks of `unit` in a duration such as `1h30m`.
#[pyfunction]
pub(crate) fn duration(text: &str, unit: &str) -> PyResult<i64> {
    ir::parse_duration(text, parse_unit(unit)?).map_err(|error| query_error(&error))
}
