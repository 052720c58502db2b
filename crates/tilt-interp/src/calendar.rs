//! Calendar fields of a timestamp: the proleptic Gregorian calendar in UTC, for every 64-bit tick.

use tilt_ir::{TimePart, Unit};

const SECONDS_PER_DAY: i64 = 86_400;

/// The field `part` of the instant `ticks`, or `None` where it does not fit into 32 bits (years beyond ±2^31) or the
/// unit has no relation to seconds.
pub(crate) fn part(part: TimePart, ticks: i64, unit: Unit) -> Option<i64> {
    let per_second = unit.per_second()?;
    let second = ticks.div_euclid(per_second);
    let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let day = second.div_euclid(SECONDS_PER_DAY);
    let second_of_day = second.rem_euclid(SECONDS_PER_DAY);
    let date = civil_from_days(day);
    let field = match part {
        TimePart::Year => date.year,
        TimePart::Month => date.month,
        TimePart::Day => date.day,
        TimePart::Hour => second_of_day / 3600,
        TimePart::Minute => second_of_day / 60 % 60,
        TimePart::Second => second_of_day % 60,
        TimePart::Millisecond => nanos / 1_000_000,
        TimePart::Microsecond => nanos / 1_000,
        TimePart::Nanosecond => nanos,
        // 1970-01-01 was a Thursday, the fourth day of its week.
        TimePart::Weekday => (day + 3).rem_euclid(7) + 1,
        TimePart::OrdinalDay => day - days_before_year(date.year) + 1,
    };
    i32::try_from(field).ok().map(i64::from)
}

struct Date {
    year: i64,
    month: i64,
    day: i64,
}

/// The date `days` after 1970-01-01 (Howard Hinnant, `civil_from_days`). Years are counted from March, so that the leap
/// day is the last of its year.
fn civil_from_days(days: i64) -> Date {
    let days = days + 719_468; // since 0000-03-01
    let era = days.div_euclid(146_097); // 400 years
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    Date {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day,
    }
}

/// Days from 1970-01-01 to the first of January of `year`.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    365 * past + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 719_162
}

#[cfg(test)]
mod tests {
    use TimePart::*;

    use super::*;

    fn fields(ticks: i64, unit: Unit) -> Vec<Option<i64>> {
        [Year, Month, Day, Hour, Minute, Second, Weekday, OrdinalDay]
            .map(|p| part(p, ticks, unit))
            .to_vec()
    }

    fn some(fields: [i64; 8]) -> Vec<Option<i64>> {
        fields.map(Some).to_vec()
    }

    #[test]
    fn dates_around_the_epoch_and_leap_days() {
        // Python: datetime.fromtimestamp(…, utc), isoweekday(), timetuple().tm_yday
        assert_eq!(fields(0, Unit::Second), some([1970, 1, 1, 0, 0, 0, 4, 1]));
        assert_eq!(
            fields(-1, Unit::Second),
            some([1969, 12, 31, 23, 59, 59, 3, 365])
        );
        assert_eq!(
            fields(951_782_400, Unit::Second),
            some([2000, 2, 29, 0, 0, 0, 2, 60])
        );
        assert_eq!(
            fields(1_735_603_199, Unit::Second),
            some([2024, 12, 30, 23, 59, 59, 1, 365])
        );
        assert_eq!(
            fields(-2_203_891_200, Unit::Second),
            some([1900, 3, 1, 0, 0, 0, 4, 60])
        );
    }

    #[test]
    fn fractions_count_within_the_second() {
        let ticks = 1_700_000_000_123_456_789;
        assert_eq!(part(Millisecond, ticks, Unit::Nano), Some(123));
        assert_eq!(part(Microsecond, ticks, Unit::Nano), Some(123_456));
        assert_eq!(part(Nanosecond, ticks, Unit::Nano), Some(123_456_789));
        assert_eq!(part(Nanosecond, -1, Unit::Milli), Some(999_000_000));
        assert_eq!(part(Second, -1, Unit::Milli), Some(59));
    }

    #[test]
    fn every_tick_of_64_bits_has_a_date() {
        // 2262-04-11T23:47:16.854775807 and 1677-09-21T00:12:43.145224192, the ends of nanosecond time.
        assert_eq!(
            fields(i64::MAX, Unit::Nano),
            some([2262, 4, 11, 23, 47, 16, 5, 101])
        );
        assert_eq!(
            fields(i64::MIN, Unit::Nano),
            some([1677, 9, 21, 0, 12, 43, 2, 264])
        );
        // 292277026596-12-04T15:30:07 is the end of 64-bit seconds; that year does not fit into 32 bits.
        assert_eq!(part(Year, i64::MAX, Unit::Second), None);
        assert_eq!(part(Month, i64::MAX, Unit::Second), Some(12));
        assert_eq!(part(Day, i64::MAX, Unit::Second), Some(4));
        assert_eq!(part(Hour, i64::MAX, Unit::Second), Some(15));
        assert_eq!(part(Month, i64::MIN, Unit::Second), Some(1));
        assert_eq!(part(Day, i64::MIN, Unit::Second), Some(27));
        assert_eq!(part(Hour, i64::MIN, Unit::Second), Some(8));
    }

    #[test]
    fn plain_ticks_have_no_date() {
        assert_eq!(part(Year, 0, Unit::Tick), None);
    }
}
