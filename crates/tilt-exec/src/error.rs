//! Errors, by who must act.

use tilt_interp::RunError;
use tilt_ir::{ParseError, VerifyError};

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
    /// A bug in tilt.
    #[error("internal error, please report it: {0}")]
    Internal(String),
}
