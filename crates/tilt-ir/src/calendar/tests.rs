//! Boundaries that were looked up elsewhere: Python's `zoneinfo` and `calendar`.

use super::*;

/// The cells that intersect a span, in seconds, as `start+length`.
fn cells(length: &str, zone: &str, from: i64, to: i64) -> Vec<(i64, i64)> {
    let calendar = Calendar {
        zone: Some(zone.to_owned()),
        ..Calendar::parse(length).expect("a length")
    };
    let cells = calendar.cells(Unit::Second).expect("a zone");
    let numbers = cells.between(Span::new(from, to)).expect("within range");
    let spans = numbers.filter_map(|number| cells.cell(number));
    spans
        .map(|span| (span.start, span.end - span.start))
        .collect()
}

const HOUR: i64 = 3_600;

#[test]
fn days_have_23_or_25_hours_where_clocks_change() {
    // 2024-03-30T23:00Z is midnight in Paris; clocks go forward on the 31st.
    let spring = 1_711_753_200 + DAY;
    assert_eq!(
        cells("1d", "Europe/Paris", spring - 1, spring + DAY),
        [
            (spring - DAY, 24 * HOUR),
            (spring, 23 * HOUR),
            (spring + 23 * HOUR, 24 * HOUR)
        ]
    );
    // 2024-10-26T22:00Z; clocks go back on the 27th.
    let autumn = 1_729_980_000;
    assert_eq!(
        cells("1d", "Europe/Paris", autumn, autumn + 25 * HOUR),
        [(autumn, 25 * HOUR)]
    );
}

#[test]
fn an_hour_that_clocks_skip_is_no_cell_and_one_they_repeat_is_longer() {
    // 2024-03-31T00:00Z: 01:00 in Paris, and 03:00 an hour later.
    let spring = 1_711_843_200;
    assert_eq!(
        cells("1h", "Europe/Paris", spring, spring + 2 * HOUR),
        [(spring, HOUR), (spring + HOUR, HOUR)]
    );
    // 2024-10-27T00:00Z: 02:00 in Paris, shown again at 01:00Z.
    let autumn = 1_729_987_200;
    assert_eq!(
        cells("1h", "Europe/Paris", autumn, autumn + 3 * HOUR),
        [(autumn, 2 * HOUR), (autumn + 2 * HOUR, HOUR)]
    );
}

#[test]
fn a_midnight_that_clocks_skip_is_where_they_jump() {
    // Toronto, 1919-03-30: from 23:30 to 00:30. Beirut, 2022-03-27: from 00:00 to 01:00.
    let toronto = -1_601_753_400;
    let days = cells("1d", "America/Toronto", toronto, toronto + DAY);
    assert_eq!(days[0].0, toronto);
    let beirut = 1_648_332_000;
    let days = cells("1d", "Asia/Beirut", beirut - 1, beirut + 1);
    assert_eq!(days, [(beirut - DAY, DAY), (beirut, 23 * HOUR)]);
    // Apia had no 30th of December 2011: 10:00Z of that day ends the 29th and begins the 31st.
    let apia = 1_325_239_200;
    let days = cells("1d", "Pacific/Apia", apia - 1, apia + 1);
    assert_eq!(days, [(apia - DAY, DAY), (apia, DAY)]);
}

#[test]
fn months_quarters_years_and_weeks_begin_where_people_say() {
    let jan = 1_704_067_200; // 2024-01-01, a Monday
    assert_eq!(
        cells("1mo", "UTC", jan, jan + 90 * DAY),
        [
            (jan, 31 * DAY),
            (jan + 31 * DAY, 29 * DAY),
            (jan + 60 * DAY, 31 * DAY)
        ]
    );
    assert_eq!(cells("1q", "UTC", jan, jan + DAY), [(jan, 91 * DAY)]);
    assert_eq!(cells("1y", "UTC", jan, jan + DAY), [(jan, 366 * DAY)]);
    assert_eq!(
        cells("1w", "UTC", jan - 1, jan + DAY),
        [(jan - 7 * DAY, 7 * DAY), (jan, 7 * DAY)]
    );
    // Sydney goes back in April: 2024-03-31T13:00Z to 2024-04-30T14:00Z.
    assert_eq!(
        cells("1mo", "Australia/Sydney", 1_711_890_000, 1_711_890_001),
        [(1_711_890_000, 30 * DAY + HOUR)]
    );
    // Before the epoch, and several units.
    assert_eq!(cells("1y", "UTC", -2, -1), [(-365 * DAY, 365 * DAY)]);
    assert_eq!(cells("10y", "UTC", 0, 1), [(0, 3_652 * DAY)]);
    // Polars 2.1: `dt.truncate` of 1970-01-01 and of the 31st.
    assert_eq!(cells("7mo", "UTC", 0, 1)[0].0, 0);
    assert_eq!(cells("3w", "UTC", 0, 1)[0].0, -17 * DAY);
    assert_eq!(cells("5d", "UTC", 30 * DAY, 30 * DAY + 1)[0].0, 30 * DAY);
}

#[test]
fn offsets_are_civil_and_closed_left_is_one_tick_earlier() {
    let calendar = Calendar {
        zone: Some("Europe/Paris".to_owned()),
        offset: 6 * HOUR,
        closed: Closed::Left,
        ..Calendar::parse("1d").expect("a length")
    };
    let cells = calendar.cells(Unit::Second).expect("a zone");
    // The gas day that begins at 06:00 on 2024-03-30 (05:00Z) ends at 06:00 (04:00Z).
    let six = 1_711_753_200 + 6 * HOUR;
    let number = cells.number(six).expect("in range");
    assert_eq!(
        cells.cell(number),
        Some(Span::new(six - 1, six - 1 + 23 * HOUR))
    );
    assert_eq!(cells.number(six - 1), Some(number - 1));
}

#[test]
fn units_of_time_agree() {
    let calendar = Calendar {
        zone: Some("Asia/Kathmandu".to_owned()),
        ..Calendar::parse("1mo").expect("a length")
    };
    for unit in [Unit::Second, Unit::Milli, Unit::Micro, Unit::Nano] {
        let per_second = unit.per_second().expect("seconds");
        let cells = calendar.cells(unit).expect("a zone");
        let number = cells.number(1_700_000_000 * per_second).expect("in range");
        let span = cells.cell(number).expect("a cell");
        // 2023-10-31T18:15Z, +05:45.
        assert_eq!(span.start, 1_698_776_100 * per_second, "{unit}");
        assert_eq!(span.end - span.start, 30 * DAY * per_second, "{unit}");
    }
}

#[test]
fn no_cell_is_longer_than_the_longest() {
    let longest = |length: &str, zone: &str| {
        let calendar = Calendar {
            zone: Some(zone.to_owned()),
            ..Calendar::parse(length).expect("a length")
        };
        calendar.cells(Unit::Second).expect("a zone").longest()
    };
    assert_eq!(longest("1d", "UTC"), Some(DAY));
    assert_eq!(longest("1d", "Europe/Paris"), Some(25 * HOUR));
    assert_eq!(longest("1mo", "UTC"), Some(31 * DAY));
    assert_eq!(longest("2mo", "UTC"), Some(62 * DAY));
    assert_eq!(longest("1q", "UTC"), Some(92 * DAY));
    assert_eq!(longest("1y", "UTC"), Some(366 * DAY));
    // Kwajalein had one day twice.
    assert_eq!(longest("1d", "Pacific/Kwajalein"), Some(47 * HOUR));
    for zone in [
        "Europe/Paris",
        "America/Juneau",
        "Pacific/Apia",
        "Africa/Casablanca",
    ] {
        for length in ["1h", "5h", "1d", "1w", "1mo", "1y"] {
            let (mut t, end) = (-3_400_000_000, 4_100_000_000);
            let limit = longest(length, zone).expect("fits");
            let calendar = Calendar {
                zone: Some(zone.to_owned()),
                ..Calendar::parse(length).expect("a length")
            };
            let cells = calendar.cells(Unit::Second).expect("a zone");
            while t < end {
                let number = cells.number(t).expect("in range");
                let span = cells.cell(number).expect("t lies in it");
                assert!(span.contains(t), "{length} {zone}: {t} is not in {span}");
                assert!(span.end - span.start <= limit, "{length} {zone}: {span}");
                t = span.end + 1 + (limit * 7 / 3).max(17 * DAY + 5 * HOUR);
            }
        }
    }
}

#[test]
fn what_is_no_calendar_says_so() {
    let text = |length: &str| Calendar::parse(length).unwrap_err().to_string();
    assert!(text("0d").contains("1mo"));
    assert!(text("1m").contains("1mo"));
    assert!(text("mo").contains("1mo"));
    let calendar = Calendar::parse("3mo").expect("a length");
    assert_eq!(calendar.to_string(), "3mo");
    assert_eq!(calendar.cells(Unit::Tick).err(), Some(CalendarError::Tick));
    let zone = Some("Europe/Pariss".to_owned());
    let error = Calendar { zone, ..calendar }.cells(Unit::Second).err();
    assert!(error.is_some_and(|e| e.to_string().contains("Europe/Paris")));
}

#[test]
fn there_are_no_cells_beyond_the_calendar() {
    let cells = Calendar::parse("1d").expect("a length").cells(Unit::Second);
    let cells = cells.expect("UTC");
    assert_eq!(cells.number(i64::MAX), None);
    assert_eq!(cells.number(-(1 << 61)), None);
    assert_eq!(cells.cell(i64::MAX), None);
    let cells = Calendar::parse("4000000000y")
        .expect("a length")
        .cells(Unit::Nano);
    assert_eq!(cells.expect("UTC").longest(), None);
}
