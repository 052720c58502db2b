//! What can go wrong in a live run, besides what can in any.

use tilt_ir::Span;

/// The caller: rows and promises of a live run contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// A name that no input has.
    #[error("the query has no input ~{input}; its inputs are {known}")]
    Unknown {
        /// The name.
        input: String,
        /// The names of all inputs.
        known: String,
    },
    /// Input after the end of all input.
    #[error("input ~{input} was closed, and takes no more rows")]
    Exhausted {
        /// The input.
        input: String,
    },
    /// An event before a watermark that was promised.
    #[error(
        "input ~{input}, row {row}: the event {event} comes too late, because no change before {watermark} was to come; advance the input less far"
    )]
    Late {
        /// The input.
        input: String,
        /// The row, from zero, of all that have come.
        row: usize,
        /// Its interval.
        event: Span,
        /// What was promised.
        watermark: i64,
    },
    /// A start of the run after events, or after results.
    #[error(
        "the run cannot start at {start}, because it was known to start at {known}; say where it starts before pushing rows"
    )]
    Start {
        /// The start that was asked for.
        start: i64,
        /// The start that is known.
        known: i64,
    },
    /// An end of the run before events, or before where it was said to go on to.
    #[error(
        "the run cannot end at {end}, because it is known to go on to {known}; end it there or later"
    )]
    End {
        /// The end that was asked for.
        end: i64,
        /// How far the run is known to go on.
        known: i64,
    },
    /// Something that loops do not settle, in a run that does not hold the rows which would.
    #[error(
        "the run met {what}, and carries what came before instead of all its rows, so that nothing else can settle it; a run on all rows can"
    )]
    Unsettled {
        /// What it is.
        what: &'static str,
    },
    /// A state that carries what another version or backend carries.
    #[error(
        "the state carries what its results look back to in a form that this version or backend does not know; resume it with those that saved it, or begin anew"
    )]
    Carried,
    /// A state of another query.
    #[error(
        "the state has the inputs {found}, but the query has {known}; resume the query that was saved"
    )]
    State {
        /// The inputs of the state.
        found: String,
        /// The inputs of the query.
        known: String,
    },
}
