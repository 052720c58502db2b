//! From errors of the crates to exceptions. These are Python classes, with their documentation in `python/tilt/errors.py`; each is made of a
//! message, and if they are known a column, a row and a hint.

use std::fmt::Display;

use arrow_schema::DataType;
use pyo3::{
    exceptions::{PyFileNotFoundError, PyOSError, PyValueError},
    prelude::*,
};
use tilt::{
    LiveError,
    build::{BuildError, ErrorKind},
    data::DataError,
    interp::{DataError as RowsError, RunError},
    ir::{self, Unit},
    live::SessionError,
};
use tilt_io::IoError;

pyo3::import_exception!(tilt.errors, CheckpointError);
pyo3::import_exception!(tilt.errors, FileError);
pyo3::import_exception!(tilt.errors, InternalError);
pyo3::import_exception!(tilt.errors, LateDataError);
pyo3::import_exception!(tilt.errors, LookaheadError);
pyo3::import_exception!(tilt.errors, OverlapError);
pyo3::import_exception!(tilt.errors, QueryError);
pyo3::import_exception!(tilt.errors, SchemaError);
pyo3::import_exception!(tilt.errors, TiltError);
pyo3::import_exception!(tilt.errors, UnsortedError);
pyo3::import_exception!(tilt.errors, WholeError);

/// The arguments of an exception.
type Arguments = (String, Option<String>, Option<usize>, Option<String>);

/// Messages say what is wrong, and after the last semicolon what to do about it.
fn arguments(error: &dyn Display, column: Option<&str>, row: Option<usize>) -> Arguments {
    let message = error.to_string();
    let hint = message.rsplit_once("; ").map(|(_, hint)| hint.to_owned());
    (message, column.map(str::to_owned), row, hint)
}

/// The query is wrong.
pub(crate) fn query_error(error: &dyn Display) -> PyErr {
    QueryError::new_err(arguments(error, None, None))
}

/// An operation on streams is wrong.
pub(crate) fn build_error(error: &BuildError) -> PyErr {
    let column: Option<String> = None;
    let row: Option<usize> = None;
    let arguments = (error.to_string(), column, row, error.hint.clone());
    let raised = match error.kind {
        ErrorKind::Type => SchemaError::new_err(arguments),
        ErrorKind::Lookahead => LookaheadError::new_err(arguments),
        ErrorKind::Parameter | ErrorKind::Conflict | ErrorKind::Text => {
            QueryError::new_err(arguments)
        }
    };
    if error.operands.is_empty() {
        return raised;
    }
    with(raised, "expression", &error.operands.join("\n"))
}

/// The data or their description are wrong.
pub(crate) fn schema_error(error: &dyn Display, column: Option<&str>, row: Option<usize>) -> PyErr {
    SchemaError::new_err(arguments(error, column, row))
}

/// The exception of an error of ingress or egress.
pub(crate) fn data_error(error: &DataError) -> PyErr {
    use DataError::*;
    let (column, row) = place(error);
    let arguments = match error {
        TimeType { column, found } => {
            let message = format!(
                "time column `{column}` has type {found}, and times are timestamps, dates, durations or integers; {}",
                made_times(found)
            );
            arguments(&message, Some(column), None)
        }
        _ => arguments(error, column, row),
    };
    match error {
        Unsorted { .. } | ChunkOrder { .. } => UnsortedError::new_err(arguments),
        Overlapping { .. } => OverlapError::new_err(arguments),
        Length { .. } | GatherOrder { .. } | ChunkShape { .. } => InternalError::new_err(arguments),
        _ => SchemaError::new_err(arguments),
    }
}

/// The exception of rows that are not in order, in the words of Python; of others as [`data_error`]. Instants are written as `time` writes them.
pub(crate) fn ingress_error(error: &DataError, time: impl Fn(i64, Unit) -> String) -> PyErr {
    let DataError::Unsorted {
        column,
        row,
        value,
        previous_row,
        previous,
        unit,
    } = error
    else {
        return data_error(error);
    };
    let message = format!(
        "time column `{column}` is not sorted: row {row} ({}) comes after row {previous_row} ({}); sort the data, or have it sorted: sort=True",
        time(*value, *unit),
        time(*previous, *unit),
    );
    UnsortedError::new_err(arguments(&message, Some(column), Some(*row)))
}

/// How a column of another type becomes one of times.
fn made_times(found: &DataType) -> &'static str {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            "parse it: pd.to_datetime(column), or column.str.to_datetime() of Polars"
        }
        DataType::Float32 | DataType::Float64 => {
            "make seconds integers: (column * 1e6).astype(\"int64\"), and unit=\"us\""
        }
        _ => "cast it to one of these",
    }
}

/// Where in the data an error is.
fn place(error: &DataError) -> (Option<&str>, Option<usize>) {
    use DataError::*;
    match error {
        NullTime { column, row }
        | TimeOverflow { column, row, .. }
        | TimeInexact { column, row, .. }
        | OutOfRange { column, row, .. }
        | Unsorted { column, row, .. }
        | Overlapping { column, row, .. }
        | OffGrid { column, row, .. }
        | EmptyInterval {
            start_column: column,
            row,
            ..
        } => (Some(column), Some(*row)),
        NeedsInterval { column, .. }
        | KeyNotAField { key: column, .. }
        | UnitMismatch { column, .. }
        | MissingColumn { column, .. }
        | DuplicateColumn { column }
        | TimeType { column, .. }
        | ValueType { column, .. }
        | UnsupportedType { column, .. }
        | ChunkType { column, .. }
        | NotAsGiven { column, .. } => (Some(column), None),
        _ => (None, None),
    }
}

/// The exception of a run that failed.
pub(crate) fn run_error(error: &tilt::Error) -> PyErr {
    use tilt::Error::*;
    match error {
        Parse(_) | Verify(_) => query_error(error),
        Run(RunError::Query(_) | RunError::Host(_)) => query_error(error),
        Live(LiveError::Unsettled { .. }) => query_error(error),
        Run(RunError::Data(rows)) => rows_error(rows),
        Run(RunError::Buffer(_)) => schema_error(error, None, None),
        Run(RunError::Internal(_)) | Internal(_) => InternalError::new_err(error.to_string()),
        Cancelled { .. } | Memory { .. } | Live(_) | Run(RunError::Stopped) => {
            TiltError::new_err(arguments(error, None, None))
        }
        Whole { .. } => WholeError::new_err(arguments(error, None, None)),
        Source { .. } => schema_error(error, None, None),
    }
}

fn rows_error(error: &RowsError) -> PyErr {
    use RowsError::*;
    let (stream, raised) = match error {
        Missing { stream } => (stream, schema_error(error, None, None)),
        Unsorted { stream, row, .. } => {
            let arguments = arguments(error, None, Some(*row));
            (stream, UnsortedError::new_err(arguments))
        }
        Overlap { stream, row, .. } => {
            let arguments = arguments(error, None, Some(*row));
            (stream, OverlapError::new_err(arguments))
        }
        Empty { stream, row, .. } | OutsideSpan { stream, row, .. } | Value { stream, row, .. } => {
            (stream, schema_error(error, None, Some(*row)))
        }
    };
    of_input(raised, stream)
}

/// The exception, which knows then of which input its row and column are.
pub(crate) fn of_input(raised: PyErr, name: &str) -> PyErr {
    with(raised, "input", name)
}

/// The exception with an attribute, which those that are not tilt's do not have.
fn with(raised: PyErr, attribute: &str, text: &str) -> PyErr {
    Python::attach(|py| {
        let value = raised.value(py);
        if value.is_instance_of::<TiltError>() {
            value.setattr(attribute, text).ok();
        }
    });
    raised
}

/// The exception of a live session. Instants and lengths of time are written as `time` writes them.
pub(crate) fn session_error(
    error: &SessionError,
    time: impl Fn(&str, i64) -> String,
    unit: Unit,
) -> PyErr {
    let length = |ticks: i64| ir::format_duration(ticks, unit);
    match error {
        SessionError::Input { .. } => query_error(error),
        SessionError::Option { .. } => PyValueError::new_err(error.to_string()),
        SessionError::Closed => TiltError::new_err(arguments(error, None, None)),
        SessionError::Data { input, source } => of_input(data_error(source), input),
        SessionError::Schema { input, column, .. } => {
            of_input(schema_error(error, Some(column), None), input)
        }
        SessionError::Late {
            input,
            row,
            time: at,
            watermark,
            by,
        } => {
            let message = format!(
                "stream `{input}`, row {row}: {} is {} behind the watermark {}; allow a lateness of {} or more, or say what becomes of late rows: late=\"drop\", \"adjust\" or \"revise\"",
                time(input, *at),
                length(*by),
                time(input, *watermark),
                length(*by),
            );
            of_input(
                LateDataError::new_err(arguments(&message, None, Some(*row))),
                input,
            )
        }
        SessionError::Overlap {
            input,
            start,
            end,
            previous,
        } => {
            let message = format!(
                "stream `{input}`: the event ({}, {}] overlaps the previous one, which ends at {}, and was left out; declare overlap=\"bag\", \"first\" or \"last\", or late=\"drop\"",
                time(input, *start),
                time(input, *end),
                time(input, *previous),
            );
            of_input(
                OverlapError::new_err(arguments(&message, None, None)),
                input,
            )
        }
        SessionError::Corrupt { .. }
        | SessionError::Version { .. }
        | SessionError::Other { .. } => CheckpointError::new_err(arguments(error, None, None)),
        SessionError::Run(source) => run_error(source),
        SessionError::Arrow(_) => schema_error(error, None, None),
    }
}

/// The exception of a file. What the file system refuses is an `OSError`, as it is for `open`.
pub(crate) fn io_error(error: &IoError) -> PyErr {
    match error {
        IoError::File { path, source } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, plain(source), path.display().to_string())),
            None => PyOSError::new_err(error.to_string()),
        },
        IoError::NoFiles { .. } => PyFileNotFoundError::new_err(error.to_string()),
        IoError::MissingColumn { column, .. }
        | IoError::Differs { column, .. }
        | IoError::TimeType { column, .. } => schema_error(error, Some(column), None),
        _ => FileError::new_err(arguments(error, None, None)),
    }
}

/// The message without the number that Python adds again.
fn plain(error: &std::io::Error) -> String {
    let message = error.to_string();
    match message.rsplit_once(" (os error") {
        Some((plain, _)) => plain.to_owned(),
        None => message,
    }
}
