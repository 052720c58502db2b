//! Lengths of time and counts of events, before it is known what a tick is.

use std::time::Duration;

use super::error::{Checked, Problem};
use crate::time::{DurationError, Unit, format_duration, parse_duration};

/// A length of time or a number of events, with a sign: `"10s"`, `"-1h30m"`, `"20i"`, or ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Length {
    /// Polars' grammar: `10s`, `1h30m`, `3d12h`, `1w`, `250ms`; `20i` is a number of events.
    Text(String),
    /// Ticks of the query's unit.
    Ticks(i64),
    /// Nanoseconds.
    Nanos(i128),
    /// A number of events.
    Events(i64),
}

impl From<&str> for Length {
    fn from(text: &str) -> Self {
        let events = text.trim().strip_suffix('i').map(str::parse);
        match events {
            Some(Ok(events)) => Self::Events(events),
            _ => Self::Text(text.trim().to_owned()),
        }
    }
}

impl From<&String> for Length {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Length> for Length {
    fn from(length: &Length) -> Self {
        length.clone()
    }
}

impl From<i64> for Length {
    fn from(ticks: i64) -> Self {
        Self::Ticks(ticks)
    }
}

impl From<Duration> for Length {
    fn from(length: Duration) -> Self {
        // At most 2^64 seconds, so it fits.
        Self::Nanos(length.as_nanos() as i128)
    }
}

impl Length {
    /// The number of events, if it is one.
    pub(super) fn events(&self) -> Option<i64> {
        match self {
            Self::Events(events) => Some(*events),
            _ => None,
        }
    }

    /// As far in the other direction.
    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(match text.strip_prefix('-') {
                Some(rest) => rest.to_owned(),
                None => format!("-{}", text.strip_prefix('+').unwrap_or(text)),
            }),
            Self::Ticks(ticks) => Self::Ticks(ticks.saturating_neg()),
            Self::Nanos(nanos) => Self::Nanos(nanos.saturating_neg()),
            Self::Events(events) => Self::Events(events.saturating_neg()),
        }
    }

    /// The ticks of `unit`, if it is a length of time.
    pub(super) fn ticks(&self, unit: Unit) -> Checked<i64> {
        match self {
            Self::Text(text) => Ok(parse_duration(text, unit)?),
            Self::Ticks(ticks) => Ok(*ticks),
            Self::Nanos(nanos) => {
                let text = || format!("{nanos}ns");
                let per_second = unit
                    .per_second()
                    .ok_or_else(|| DurationError::Tick(text()))?;
                let tick = 1_000_000_000 / i128::from(per_second);
                if nanos % tick != 0 {
                    return Err(DurationError::Inexact { text: text(), unit }.into());
                }
                i64::try_from(nanos / tick).map_err(|_| DurationError::Overflow(text()).into())
            }
            Self::Events(events) => Err(Problem::parameter(format!(
                "`{events}i` is a number of events where a length of time is needed"
            ))
            .hint("write for example `10s`; `prev(n)` and windows by count take events")),
        }
    }

    /// The ticks of `unit`, which must be more than none.
    pub(super) fn positive(&self, what: &str, unit: Unit) -> Checked<i64> {
        match self.ticks(unit)? {
            ticks @ 1.. => Ok(ticks),
            ticks => Err(Problem::parameter(format!(
                "{what} of {} is not positive",
                format_duration(ticks, unit)
            ))),
        }
    }
}
