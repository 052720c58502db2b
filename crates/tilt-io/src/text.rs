//! Times in text.

use arrow_schema::{DataType, TimeUnit};

/// The type that holds what `text` says, if it is a date or a timestamp in the form of RFC 3339 (`T` may be a space, the offset is optional).
pub(crate) fn temporal(text: &str) -> Option<DataType> {
    let bytes = text.as_bytes();
    if !matches(bytes.get(..10)?, b"0000-00-00") {
        return None;
    }
    if bytes.len() == 10 {
        return Some(DataType::Date32);
    }
    if !matches!(bytes[10], b'T' | b' ') || !matches(bytes.get(11..19)?, b"00:00:00") {
        return None;
    }
    let mut rest = &bytes[19..];
    let mut digits = 0;
    if let [b'.', fraction @ ..] = rest {
        digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        rest = &fraction[digits..];
        if digits == 0 {
            return None;
        }
    }
    let zoned = match rest {
        [] => false,
        b"Z" | b"z" => true,
        [b'+' | b'-', offset @ ..] => matches(offset, b"00:00") || matches(offset, b"0000"),
        _ => return None,
    };
    if !zoned && !rest.is_empty() {
        return None;
    }
    let unit = match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    Some(DataType::Timestamp(unit, zoned.then(|| "UTC".into())))
}

/// The type that holds values of both: the finer unit, with a time zone if one of them has it.
pub(crate) fn common(a: DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Date32, Timestamp};
    match (a, b) {
        (Date32, Date32) => Some(Date32),
        (Date32, Timestamp(unit, tz)) => Some(Timestamp(*unit, tz.clone())),
        (Timestamp(unit, tz), Date32) => Some(Timestamp(unit, tz)),
        (Timestamp(a, tz), Timestamp(b, other)) => {
            Some(Timestamp(a.max(*b), tz.or_else(|| other.clone())))
        }
        _ => None,
    }
}

/// Whether `text` is like `form`, in which `0` stands for any digit.
fn matches(text: &[u8], form: &[u8]) -> bool {
    text.len() == form.len()
        && text.iter().zip(form).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_tell_the_unit_and_an_offset_the_zone() {
        let stamp =
            |unit, zoned: bool| Some(DataType::Timestamp(unit, zoned.then(|| "UTC".into())));
        assert_eq!(temporal("2026-03-29"), Some(DataType::Date32));
        assert_eq!(
            temporal("2026-03-29 01:02:03"),
            stamp(TimeUnit::Second, false)
        );
        assert_eq!(
            temporal("2026-03-29T01:02:03.5Z"),
            stamp(TimeUnit::Millisecond, true)
        );
        assert_eq!(
            temporal("2026-03-29T01:02:03.123456+02:00"),
            stamp(TimeUnit::Microsecond, true)
        );
        assert_eq!(
            temporal("2026-03-29T01:02:03.1234567"),
            stamp(TimeUnit::Nanosecond, false)
        );
        for other in [
            "",
            "2026",
            "2026-03-29T",
            "2026-03-29T01:02:03.",
            "2026-03-29T01:02:03 noon",
            "2026-3-29",
            "price",
        ] {
            assert_eq!(temporal(other), None, "{other}");
        }
    }
}
