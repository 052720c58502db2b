//! What a session can tell about itself.

/// Rows of an input, by what became of them. Every row is counted once in `accepted`, `dropped` or `overlapping`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Rows that count, late ones that were adjusted or revise results among them.
    pub accepted: u64,
    /// Late rows that were left out.
    pub dropped: u64,
    /// Late rows that were moved to the watermark.
    pub adjusted: u64,
    /// Late rows by which results are revised.
    pub revised: u64,
    /// Rows that were left out because they overlap another one, where that is not declared.
    pub overlapping: u64,
}

/// An input of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputStatus {
    /// The input.
    pub input: String,
    /// No row of an earlier time counts any more; `None` before the first row.
    pub watermark: Option<i64>,
    /// Whether it is left out of account until it has rows again.
    pub is_idle: bool,
    /// Rows that wait for the watermark.
    pub buffered: usize,
    /// Rows that results still to come depend on.
    pub held: usize,
    /// Bytes of all these rows and of late ones that nobody has taken, about; of the first input also those of what the run keeps besides rows, which is what stages and windows go on from, of
    /// keys, and of results that may be revised.
    pub bytes: usize,
    /// What became of its rows.
    pub counts: Counts,
}

/// How far a session has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Results that end up to here were taken; `None` before the first.
    pub until: Option<i64>,
    /// The inputs, in order of declaration.
    pub inputs: Vec<InputStatus>,
    /// The input that results wait for: of those that the output reads and that are not idle the one that lets it come least far, after what is looked at ahead.
    pub holding_back: Option<String>,
    /// Why all rows are held, of one input or more, if they are.
    pub holds_all: Option<String>,
    /// Why there is no result before the session is closed, if so.
    pub waits: Option<String>,
}
