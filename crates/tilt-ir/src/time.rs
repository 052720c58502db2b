//! Units, durations and their text form.

use std::fmt;

/// What one tick of a time axis is. Instants and durations are `i64` ticks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Unit {
    /// A plain integer with no relation to seconds.
    Tick,
    /// Second.
    Second,
    /// Millisecond.
    Milli,
    /// Microsecond.
    Micro,
    /// Nanosecond.
    Nano,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 5] = [
        Self::Tick,
        Self::Second,
        Self::Milli,
        Self::Micro,
        Self::Nano,
    ];

    /// Ticks a second, or `None` for plain integers.
    pub fn per_second(self) -> Option<i64> {
        match self {
            Self::Tick => None,
            Self::Second => Some(1),
            Self::Milli => Some(1_000),
            Self::Micro => Some(1_000_000),
            Self::Nano => Some(1_000_000_000),
        }
    }

    /// `ticks` of this unit counted in `to`, if that is exact and fits.
    pub fn convert(self, ticks: i64, to: Self) -> Option<i64> {
        if self == to {
            return Some(ticks);
        }
        let (from, to) = (self.per_second()?, to.per_second()?);
        if to >= from {
            ticks.checked_mul(to / from)
        } else {
            let ratio = from / to;
            (ticks % ratio == 0).then(|| ticks / ratio)
        }
    }

    /// The unit written `name`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|u| u.to_string() == name)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tick => "tick",
            Self::Second => "s",
            Self::Milli => "ms",
            Self::Micro => "us",
            Self::Nano => "ns",
        })
    }
}

/// The instant "not known yet": the end of an event that lasts until the run's end.
pub const OPEN: i64 = i64::MAX;

/// An interval of time `(start, end]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// Exclusive.
    pub start: i64,
    /// Inclusive.
    pub end: i64,
}

impl Span {
    /// `(start, end]`.
    pub fn new(start: i64, end: i64) -> Self {
        Self { start, end }
    }

    /// Whether `t` lies inside.
    pub fn contains(self, t: i64) -> bool {
        self.start < t && t <= self.end
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}]", self.start, self.end)
    }
}

/// Parts a duration is written in: name, nanoseconds. Large first.
const DURATION_PARTS: [(&str, i128); 8] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Why a duration's text was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DurationError {
    /// Not of the form `1h30m`.
    #[error("`{0}` is not a duration; write for example `10s`, `1h30m`, `250ms` or `3d12h`")]
    Syntax(String),
    /// A calendar unit where a fixed length is needed.
    #[error(
        "`{0}` has a calendar unit (mo, q, y), whose length varies; use it with calendar windows only"
    )]
    Calendar(String),
    /// Not a whole number of ticks.
    #[error("`{text}` is not a whole number of {unit}; give the query a finer unit")]
    Inexact {
        /// The duration.
        text: String,
        /// The unit it does not fit.
        unit: Unit,
    },
    /// More than 64 bits of ticks.
    #[error("`{0}` does not fit into 64 bits of ticks; give the query a coarser unit")]
    Overflow(String),
    /// A unit of seconds on an axis of plain integers.
    #[error("`{0}` is in seconds, but the query counts plain ticks; write a bare integer")]
    Tick(String),
}

/// Ticks of `unit` in a duration such as `10s`, `1h30m` or, on a plain axis, `10`.
///
/// ```
/// use tilt_ir::{Unit, parse_duration};
/// assert_eq!(parse_duration("1m30s", Unit::Milli), Ok(90_000));
/// assert_eq!(parse_duration("-5", Unit::Tick), Ok(-5));
/// ```
pub fn parse_duration(text: &str, unit: Unit) -> Result<i64, DurationError> {
    let syntax = || DurationError::Syntax(text.to_owned());
    let overflow = || DurationError::Overflow(text.to_owned());
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if body.is_empty() {
        return Err(syntax());
    }
    let mut rest = body;
    let mut ticks: i128 = 0;
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        if digits == 0 {
            return Err(syntax());
        }
        let count: i128 = rest[..digits].parse().map_err(|_| overflow())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (name, tail) = rest.split_at(letters);
        rest = tail;
        match name {
            "" if count == 0 || unit == Unit::Tick => {
                ticks = ticks.checked_add(count).ok_or_else(overflow)?;
            }
            "" => return Err(syntax()),
            "mo" | "q" | "y" => return Err(DurationError::Calendar(text.to_owned())),
            name => {
                let (_, length) = DURATION_PARTS
                    .iter()
                    .find(|part| part.0 == name)
                    .ok_or_else(syntax)?;
                nanos = count
                    .checked_mul(*length)
                    .and_then(|n| nanos.checked_add(n))
                    .ok_or_else(overflow)?;
            }
        }
    }
    if nanos != 0 {
        let per_second = unit
            .per_second()
            .ok_or_else(|| DurationError::Tick(text.to_owned()))?;
        let tick = 1_000_000_000 / i128::from(per_second);
        if nanos % tick != 0 {
            return Err(DurationError::Inexact {
                text: text.to_owned(),
                unit,
            });
        }
        ticks += nanos / tick;
    }
    i64::try_from(if negative { -ticks } else { ticks }).map_err(|_| overflow())
}

/// The shortest exact text of a length of time: one part, the largest that divides it (`90s`, `250ms`), or a bare
/// integer on a plain axis. The inverse of [`parse_duration`] for the same unit.
pub fn format_duration(ticks: i64, unit: Unit) -> String {
    let Some(per_second) = unit.per_second() else {
        return ticks.to_string();
    };
    let nanos = i128::from(ticks) * (1_000_000_000 / i128::from(per_second));
    if nanos == 0 {
        return format!("0{unit}");
    }
    let (name, length) = DURATION_PARTS
        .iter()
        .find(|(name, length)| nanos % length == 0 && *name != "w")
        .expect("every duration is a whole number of nanoseconds");
    format!("{}{name}", nanos / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_in_parts_and_print_in_one() {
        assert_eq!(parse_duration("1h30m", Unit::Second), Ok(5400));
        assert_eq!(parse_duration("3d12h", Unit::Second), Ok(302_400));
        assert_eq!(parse_duration("2w", Unit::Second), Ok(1_209_600));
        assert_eq!(parse_duration("-250ms", Unit::Micro), Ok(-250_000));
        assert_eq!(parse_duration("0", Unit::Nano), Ok(0));
        assert_eq!(format_duration(5400, Unit::Second), "90m");
        assert_eq!(format_duration(-250_000, Unit::Micro), "-250ms");
        assert_eq!(format_duration(i64::MIN, Unit::Tick), i64::MIN.to_string());
    }

    #[test]
    fn bad_durations_say_what_to_do() {
        let text = |t: &str, u| parse_duration(t, u).unwrap_err().to_string();
        assert!(text("ten", Unit::Second).contains("1h30m"));
        assert!(text("1mo", Unit::Second).contains("calendar"));
        assert!(text("1ms", Unit::Second).contains("finer unit"));
        assert!(text("10s", Unit::Tick).contains("bare integer"));
        assert!(text("5", Unit::Second).contains("1h30m"));
        assert!(text("400000000000000y", Unit::Nano).contains("calendar"));
        assert!(text("300000w", Unit::Nano).contains("coarser unit"));
        assert!(text("99999999999999999999999999999999999999999w", Unit::Nano).contains("64 bits"));
    }

    #[test]
    fn units_print_as_they_are_written() {
        let names: Vec<String> = Unit::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["tick", "s", "ms", "us", "ns"]);
        for unit in Unit::ALL {
            assert_eq!(Unit::parse(&unit.to_string()), Some(unit));
        }
        assert_eq!(Unit::parse("sec"), None);
    }

    #[test]
    fn spans_hold_their_end_and_not_their_start() {
        let span = Span::new(-1, 3);
        assert_eq!(span.to_string(), "(-1, 3]");
        assert!(!span.contains(-1) && span.contains(0) && span.contains(3) && !span.contains(4));
    }

    #[test]
    fn units_convert_exactly_or_not_at_all() {
        assert_eq!(Unit::Second.convert(3, Unit::Nano), Some(3_000_000_000));
        assert_eq!(Unit::Nano.convert(1_500, Unit::Micro), None);
        assert_eq!(Unit::Nano.convert(-2_000, Unit::Micro), Some(-2));
        assert_eq!(Unit::Second.convert(i64::MAX, Unit::Milli), None);
        assert_eq!(Unit::Tick.convert(1, Unit::Second), None);
    }
}
