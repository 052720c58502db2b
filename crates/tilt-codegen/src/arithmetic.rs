//! Integer and calendar functions that loops call: what has no instruction.

use crate::jit::runtime::Entry;

/// By the names that lowering uses.
pub(crate) const TABLE: &[(&str, Entry)] = &[
    ("tilt_python_remainder", Entry::Float2(python_remainder)),
    ("tilt_integer_power", Entry::Int2(integer_power)),
    ("tilt_round_f16", Entry::Float1(round_f16)),
    ("tilt_year", Entry::Int1(year)),
    ("tilt_month", Entry::Int1(month)),
    ("tilt_day", Entry::Int1(day)),
    ("tilt_ordinal_day", Entry::Int1(ordinal_day)),
];

/// The exact remainder of truncated division, moved to the divisor's sign; a zero takes that sign.
extern "C" fn python_remainder(a: f64, b: f64) -> f64 {
    let rest = libm::fmod(a, b);
    if rest == 0.0 {
        0f64.copysign(b)
    } else if (rest < 0.0) == (b < 0.0) {
        rest
    } else {
        rest + b
    }
}

/// The nearest half float, ties to even.
extern "C" fn round_f16(value: f64) -> f64 {
    tilt_ir::round_to(tilt_ir::FloatWidth::W16, value)
}

/// `base` to the power of `exponent`, both as 64 bits, wrapping. The exponent counts as unsigned.
extern "C" fn integer_power(base: i64, exponent: i64) -> i64 {
    let (mut base, mut exponent, mut power) = (base, exponent as u64, 1i64);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    power
}

/// The year in which the day after 1970-01-01 lies.
extern "C" fn year(day: i64) -> i64 {
    civil(day).0
}

extern "C" fn month(day: i64) -> i64 {
    civil(day).1
}

extern "C" fn day(day: i64) -> i64 {
    civil(day).2
}

/// From 1.
extern "C" fn ordinal_day(day: i64) -> i64 {
    const FIRST: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let (year, month, day) = civil(day);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    FIRST[(month - 1) as usize] + day + i64::from(leap && month > 2)
}

/// Year, month and day of the proleptic Gregorian calendar. Centuries are cut off first, then years, both from the first of March, after which
/// months have a regular pattern.
fn civil(day: i64) -> (i64, i64, i64) {
    let since_march = day + 719_468;
    let (era, day) = (
        since_march.div_euclid(146_097),
        since_march.rem_euclid(146_097),
    );
    let century = ((4 * day + 3) / 146_097).min(3);
    let day = day - century * 36_524;
    let year = ((4 * day + 3) / 1_461).min(99);
    let day = day - year * 1_461 / 4;
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + century * 100 + year;
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other_through_four_centuries() {
        let mut expected = (1970, 1, 1);
        for number in 0..146_097 {
            assert_eq!(civil(number), expected, "day {number}");
            let (year, month, day) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, d) if d == length => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(ordinal_day(59), 60);
    }

    #[test]
    fn powers_wrap() {
        assert_eq!(integer_power(3, 4), 81);
        assert_eq!(integer_power(2, 64), 0);
        assert_eq!(integer_power(-1, 3), -1);
    }

    #[test]
    fn remainders_take_the_divisors_sign() {
        assert_eq!(python_remainder(-7.0, 3.0), 2.0);
        assert_eq!(python_remainder(7.0, -3.0), -2.0);
        assert!(python_remainder(6.0, -3.0).is_sign_negative());
    }
}
