//! Errors, by who must act.

use arrow_schema::{ArrowError, DataType};
use tilt_data::DataError;

/// What can go wrong in a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The caller: an input without options, or options without an input.
    #[error("input ~{input} {what}; the inputs of the query are {known}")]
    Input {
        /// The name.
        input: String,
        /// What is wrong with it.
        what: &'static str,
        /// The names of all inputs.
        known: String,
    },
    /// The caller: an option that has no meaning.
    #[error("input ~{input}: {what}")]
    Option {
        /// The input.
        input: String,
        /// What is wrong with it.
        what: String,
    },
    /// The caller: rows after the end.
    #[error("the session was closed; begin another one")]
    Closed,
    /// The data's owner: rows are not what the query declares. Nothing of the batch was taken.
    #[error("input ~{input}: {source}")]
    Data {
        /// The input.
        input: String,
        /// What is wrong.
        source: Box<DataError>,
    },
    /// The data's owner: a column has another type than in the batches before. Nothing of the batch was taken.
    #[error(
        "input ~{input}: column `{column}` has type {found}, but {expected} in the batches before; cast it to that type"
    )]
    Schema {
        /// The input.
        input: String,
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// Its type before.
        expected: DataType,
    },
    /// The data's owner: a row later than the watermark. Nothing of the batch was taken.
    #[error(
        "input ~{input}, row {row}: {time} is {by} ticks behind the watermark {watermark}; allow more lateness, or choose the policy `drop`, `adjust` or `revise`"
    )]
    Late {
        /// The input.
        input: String,
        /// The row in its batch, from zero.
        row: usize,
        /// Its time.
        time: i64,
        /// The watermark.
        watermark: i64,
        /// The distance.
        by: i64,
    },
    /// The data's owner: two events at once of an input that promises to have one at most. The second is left out, and is among the late rows.
    #[error(
        "input ~{input}: the event ({start}, {end}] overlaps the previous one, which ends at {previous}; it was left out. Declare `overlap bag`, `first` or `last`, or choose the policy `drop`"
    )]
    Overlap {
        /// The input.
        input: String,
        /// Where the event starts.
        start: i64,
        /// Where it ends.
        end: i64,
        /// Where the one before it ends.
        previous: i64,
    },
    /// The caller: bytes that are no checkpoint, or not all of one.
    #[error("this is no checkpoint of a session, or not a whole one: {what}")]
    Corrupt {
        /// What is wrong with it.
        what: String,
    },
    /// The caller: a checkpoint of a version that this one does not know.
    #[error(
        "the checkpoint has version {found}, but only {known} is known; use the program that wrote it, or a newer one"
    )]
    Version {
        /// The version of the checkpoint.
        found: u32,
        /// The version that is known.
        known: u32,
    },
    /// The caller: a checkpoint of another query, or of other options.
    #[error(
        "the checkpoint was taken from another session: {what}; restore it with the query and the options that it had"
    )]
    Other {
        /// What differs.
        what: String,
    },
    /// The query, or the data, as in any run.
    #[error(transparent)]
    Run(Box<tilt_exec::Error>),
    /// The environment: Arrow refused.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

impl From<tilt_exec::Error> for SessionError {
    fn from(error: tilt_exec::Error) -> Self {
        Self::Run(Box::new(error))
    }
}
