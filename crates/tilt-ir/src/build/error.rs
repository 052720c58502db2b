//! What is wrong with an operation, where, and what to do about it.

use std::fmt;

use crate::{
    calendar::CalendarError, parse::ParseError, time::DurationError, typing::TypeError,
    verify::VerifyError,
};

/// An operation on streams that has no meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildError {
    /// What it is about.
    pub kind: ErrorKind,
    /// The operation, as it is called: `+`, `window`, `join_asof`.
    pub operation: String,
    /// What is wrong.
    pub problem: String,
    /// The streams it was applied to, in the notation of the text form.
    pub operands: Vec<String>,
    /// What to do.
    pub hint: Option<String>,
}

/// What an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// Operands of types that do not fit, or a field that a record does not have.
    Type,
    /// A duration, count or other parameter out of its range.
    Parameter,
    /// Streams that cannot be in one query: two inputs of one name, units that do not convert.
    Conflict,
    /// The query needs what has not happened yet.
    Lookahead,
    /// Text that is not a query.
    Text,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.problem)?;
        for operand in &self.operands {
            write!(f, "\n    {operand}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildError {}

/// The part of an error that is known where it is found, which is neither the operation nor its operands.
#[derive(Debug)]
pub(super) struct Problem {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

pub(super) type Checked<T> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn parameter(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Parameter, message)
    }

    pub(super) fn types(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Type, message)
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn of(self, operation: &str, operands: Vec<String>) -> BuildError {
        BuildError {
            kind: self.kind,
            operation: operation.to_owned(),
            problem: self.message,
            operands,
            hint: self.hint,
        }
    }
}

impl From<CalendarError> for Problem {
    fn from(error: CalendarError) -> Self {
        Self::parameter(error.to_string())
    }
}

impl From<TypeError> for Problem {
    fn from(error: TypeError) -> Self {
        let hint = match &error {
            TypeError::Operand { found, .. } if !found.is_scalar() => {
                Some("take one of its fields first, for example `field(\"price\")`")
            }
            TypeError::Field { .. } => Some("`schema()` lists the fields there are"),
            _ => None,
        };
        Self {
            kind: ErrorKind::Type,
            message: error.to_string(),
            hint: hint.map(str::to_owned),
        }
    }
}

impl From<DurationError> for Problem {
    fn from(error: DurationError) -> Self {
        Self::parameter(error.to_string())
    }
}

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        let message = match error.0.first() {
            Some(violation) => violation.to_string(),
            None => error.to_string(),
        };
        Self::parameter(message)
    }
}

impl From<ParseError> for Problem {
    fn from(error: ParseError) -> Self {
        Self::new(ErrorKind::Text, error.to_string())
    }
}
