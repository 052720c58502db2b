//! Errors, by who must act.

use tilt_interp::RunError;
use tilt_ir::{ParseError, VerifyError};

use crate::live::error::LiveError;

/// What can go wrong when a query is compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query's author: the text is no query.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The query's author: the query has no meaning.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The query's author or the data's owner: the query has no meaning on these data.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The caller: the run was cancelled.
    #[error("the run was cancelled after {:.0} % of the time range; start it again to get a result", done * 100.0)]
    Cancelled {
        /// The share that was done, from 0 to 1.
        done: f64,
    },
    /// The caller: chunks of the input do not suffice for a part of the output.
    #[error(
        "~{stream} cannot be computed from chunks, because {why}; run the query on all input at once"
    )]
    Whole {
        /// The input, or the output.
        stream: String,
        /// What stands against it.
        why: String,
    },
    /// The caller: what has to be held of the inputs does not fit into the memory that the run was allowed.
    #[error(
        "{bytes} bytes of input, most of them of ~{input}, have to be held for a lookback of {lookback} and a lookahead of {lookahead}, but a run that \
         may use {budget} bytes holds at most half of them; allow more memory, or shorten what the query looks back and ahead"
    )]
    Memory {
        /// The input of which most is held.
        input: String,
        /// How far the query looks back.
        lookback: String,
        /// How far the query looks ahead.
        lookahead: String,
        /// Bytes that are held.
        bytes: usize,
        /// Bytes that the run may use.
        budget: usize,
    },
    /// The data's owner: an input could not be read, or its chunks do not follow each other.
    #[error("input ~{input}: {source}")]
    Source {
        /// The input.
        input: String,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller: rows and promises of a live run contradict each other.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A bug in tilt.
    #[error("internal error, please report it: {0}")]
    Internal(String),
}
