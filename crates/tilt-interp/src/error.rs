//! Why a run failed, grouped by who must act.

use tilt_ir::{DType, Span, VerifyError};

use crate::buffers::BufferError;

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The author of the query must change it.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The owner of the data must change it, or the way it is read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The owner of the data must ingest it as the query declares it.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The program that runs the query must provide something else.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The caller has stopped the run.
    #[error("the run was stopped; start it again to get a result")]
    Stopped,
    /// Never the caller's fault.
    #[error("internal error, please report it: {0}")]
    Internal(String),
}

/// A query that has no meaning, or none on this data.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueryError {
    /// *The* value of a bag was read where it has several.
    #[error(
        "`{expr}` in ~{reader} reads the value of ~{stream} at {instant}, where several events are active; declare \
         `overlap first` or `overlap last` on the input, or reduce over a window of ~{stream}"
    )]
    Ambiguous {
        /// The bag.
        stream: String,
        /// The instant read.
        instant: i64,
        /// The read as written.
        expr: String,
        /// The temporal expression that reads it.
        reader: String,
    },
    /// The total of an integer reduction does not fit into 64 bits.
    #[error(
        "`{reduction}` in ~{reader} at {instant} overflows 64 bits over its events in {window}; cast the values to f64 or \
         narrow the window"
    )]
    Overflow {
        /// The reduction as written.
        reduction: String,
        /// From the first start to the last end of what was folded.
        window: Span,
        /// The instant of evaluation.
        instant: i64,
        /// The temporal expression that contains it.
        reader: String,
    },
    /// A grid with too many cells to hold.
    #[error(
        "~{stream} has {cells} grid cells in the run's span, more than {limit}; choose a longer period or a shorter span"
    )]
    GridTooFine {
        /// The temporal expression.
        stream: String,
        /// How many cells it has.
        cells: u128,
        /// How many are allowed.
        limit: u128,
    },
    /// A run in years that a calendar does not have.
    #[error(
        "~{stream} has the cells of a calendar, which has the years -9999 to 9999, but the run's span is {span}; check \
         the unit of the timestamps"
    )]
    BeyondCalendar {
        /// The temporal expression.
        stream: String,
        /// The run's span.
        span: Span,
    },
    /// A program that breaks rules of the IR.
    #[error("the program is not valid: {0}")]
    Invalid(#[from] VerifyError),
}

/// Input that is not what the query declares.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DataError {
    /// No events were given for a declared input.
    #[error("input ~{stream} is missing; give it a list of events, which may be empty")]
    Missing {
        /// The input.
        stream: String,
    },
    /// Events not in order of their ends.
    #[error(
        "input ~{stream}, row {row}: the event ends at {end}, before the previous one at {previous}; sort the rows by end"
    )]
    Unsorted {
        /// The input.
        stream: String,
        /// The first offending row, from zero.
        row: usize,
        /// Its end.
        end: i64,
        /// The previous row's end.
        previous: i64,
    },
    /// An event without a length.
    #[error(
        "input ~{stream}, row {row}: the event {event} does not start before it ends; drop or repair the row"
    )]
    Empty {
        /// The input.
        stream: String,
        /// The first offending row, from zero.
        row: usize,
        /// Its interval.
        event: Span,
    },
    /// An event outside of the span given to the run.
    #[error(
        "input ~{stream}, row {row}: the event {event} is not inside the run's span {span}; widen the span or drop the row"
    )]
    OutsideSpan {
        /// The input.
        stream: String,
        /// The first offending row, from zero.
        row: usize,
        /// Its interval.
        event: Span,
        /// The span of the run.
        span: Span,
    },
    /// A value of another type.
    #[error(
        "input ~{stream}, row {row}: {value} is not a value of type {expected}; cast the column or change the declaration"
    )]
    Value {
        /// The input.
        stream: String,
        /// The first offending row, from zero.
        row: usize,
        /// The value.
        value: String,
        /// The declared type.
        expected: DType,
    },
    /// Two events active at once in an input that promises not to have such.
    #[error(
        "input ~{stream}, row {row}: the event {event} overlaps the previous one {previous}; repair the rows, or declare \
         `overlap bag`, `first` or `last`"
    )]
    Overlap {
        /// The input.
        stream: String,
        /// The second of the two rows, from zero.
        row: usize,
        /// Its interval.
        event: Span,
        /// The earlier event.
        previous: Span,
    },
}

/// Something that the program which runs the query must provide.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// A declared function that was not registered.
    #[error(
        "~{reader} calls @{name}, which is not registered; register it in `Options::functions`"
    )]
    UnknownFunction {
        /// The function.
        name: String,
        /// The temporal expression that calls it.
        reader: String,
    },
    /// A function returned something it does not declare.
    #[error(
        "@{name} returned {value} at {instant} in ~{reader}, which is no {expected}; return the declared type"
    )]
    FunctionResult {
        /// The function.
        name: String,
        /// What it returned.
        value: String,
        /// What it declares.
        expected: DType,
        /// The instant of evaluation.
        instant: i64,
        /// The temporal expression that calls it.
        reader: String,
    },
}
