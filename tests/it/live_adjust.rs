//! What sessions do about late rows that are moved: against a model that moves them, and a run on all rows that it has then.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use tilt::{
    Compiled, Query, RunOptions,
    arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray},
    data::{IngressOptions, Layout, ingest},
    ir::Unit,
    live::{Completion, Counts, InputOptions, Policy, Session, SessionOptions},
};

use crate::properties::config;

/// A row of a key, from its start (of a stamp its length before) to its end.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Given {
    key: i64,
    start: i64,
    end: i64,
    value: f64,
}

/// How rows become events.
#[derive(Clone, Copy, Debug)]
struct Kind {
    input: &'static str,
    /// The length of all events, if they have one.
    length: Option<i64>,
    period: Option<i64>,
    is_keyed: bool,
    is_exclusive: bool,
}

const KINDS: &[Kind] = &[
    kind("point overlap bag", Some(1), None, false, false),
    kind("point", Some(1), None, false, true),
    kind("point", Some(1), None, true, true),
    kind("point period 4 overlap bag", Some(1), Some(4), false, false),
    kind("fixed 5 period 5", Some(5), Some(5), false, true),
    kind(
        "fixed 5 period 5 overlap bag",
        Some(5),
        Some(5),
        true,
        false,
    ),
    kind("fixed 3 period 5", Some(3), Some(5), true, true),
    kind("fixed 7 overlap bag", Some(7), None, false, false),
    kind("until_next", None, None, false, true),
    kind("until_next", None, None, true, true),
    kind("interval overlap bag", None, None, false, false),
    kind("interval", None, None, false, true),
    kind("interval", None, None, true, true),
];

const fn kind(
    input: &'static str,
    length: Option<i64>,
    period: Option<i64>,
    is_keyed: bool,
    is_exclusive: bool,
) -> Kind {
    Kind {
        input,
        length,
        period,
        is_keyed,
        is_exclusive,
    }
}

impl Kind {
    fn is_interval(self) -> bool {
        self.input.starts_with("interval")
    }

    fn is_state(self) -> bool {
        self.input.starts_with("until_next")
    }

    /// The length of events that have one; of a state the instant at which it begins, which is what it keeps others from.
    fn length(self) -> Option<i64> {
        self.length.or(self.is_state().then_some(1))
    }

    fn compiled(self) -> Compiled {
        let key = if self.is_keyed { " key k" } else { "" };
        let text = format!(
            "query q unit tick {{ input ~x: {{k: i64, v: f64}} {}{key} ~s[t] = ~x[t].v + 0.0 output ~s }}",
            self.input
        );
        let query = Query::parse(&text).expect("a query");
        query.compile().expect("compiles")
    }

    fn ingress(self) -> IngressOptions {
        if self.is_interval() {
            IngressOptions::interval("start", "end")
        } else {
            IngressOptions::stamp("t")
        }
    }

    fn rows(self, rows: &[Given]) -> RecordBatch {
        let numbers = |of: &dyn Fn(&Given) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let mut columns = if self.is_interval() {
            vec![
                ("start", numbers(&|r| r.start)),
                ("end", numbers(&|r| r.end)),
            ]
        } else {
            vec![("t", numbers(&|r| r.start + self.length.unwrap_or(1)))]
        };
        let values = rows.iter().map(|row| row.value);
        columns.push(("k", numbers(&|row| row.key)));
        columns.push(("v", Arc::new(Float64Array::from_iter_values(values))));
        RecordBatch::try_from_iter(columns).expect("as many rows")
    }

    /// Whether a row takes something of another one's place.
    fn meets(self, row: &Given, other: &Given) -> bool {
        let of_one = !self.is_keyed || row.key == other.key;
        let at_once = if self.is_state() {
            row.start == other.start
        } else {
            row.start < other.end && other.start < row.end
        };
        of_one && at_once
    }

    /// The rows that count, in time and moved, and how many were moved and left out.
    fn moved(self, rows: &[Given], lateness: i64) -> (Vec<Given>, u64, u64) {
        let (mut high, mut firsts) = (i64::MIN, BTreeMap::new());
        let (mut in_time, mut moved) = (Vec::new(), Vec::new());
        let mut dropped = 0;
        for row in rows {
            let key = if self.is_keyed { row.key } else { 0 };
            let first = *firsts.entry(key).or_insert(row.start);
            let watermark = high.saturating_sub(if high > i64::MIN { lateness } else { 0 });
            if row.start >= watermark {
                high = high.max(row.start);
                in_time.push(*row);
                continue;
            }
            let mut start = watermark;
            if let Some(period) = self.period {
                start += (first - start).rem_euclid(period);
            }
            let end = self.length().map_or(row.end, |length| start + length);
            if start < end {
                moved.push(Given { start, end, ..*row });
            } else {
                dropped += 1;
            }
        }
        let mut kept: Vec<Given> = Vec::new();
        if self.is_interval() && self.is_exclusive {
            moved.sort_by_key(|row| row.end);
        }
        let all = moved.len();
        for row in moved {
            let is_free = !in_time.iter().any(|other| self.meets(&row, other));
            let is_first = self.is_state() || !kept.iter().any(|other| self.meets(&row, other));
            if !self.is_exclusive || is_free && is_first {
                kept.push(row);
            }
        }
        dropped += (all - kept.len()) as u64;
        let count = kept.len() as u64;
        in_time.extend(kept);
        (in_time, count, dropped)
    }

    fn options(self, lateness: i64, policy: Policy) -> SessionOptions {
        let x = InputOptions::new(self.ingress());
        let x = x.lateness(lateness).policy(policy);
        SessionOptions::new().egress(Layout::Interval).input("x", x)
    }
}

/// Rows as texts, in an order of their own: rows that end at once may come in any.
fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let mut texts = Vec::new();
    for batch in batches {
        let row = |row: usize| {
            let cells = batch.columns().iter().map(|column| column.slice(row, 1));
            format!("{:?}", cells.collect::<Vec<ArrayRef>>())
        };
        texts.extend((0..batch.num_rows()).map(row));
    }
    texts.sort();
    texts
}

fn check(kind: Kind, rows: &[Given], lateness: i64, choices: &[u8]) -> Result<(), String> {
    let compiled = kind.compiled();
    let (counted, moved, dropped) = kind.moved(rows, lateness);
    let (_, input) = compiled.program().inputs().next().expect("an input");
    let buffer = ingest(
        &kind.rows(&counted),
        input,
        Unit::Tick,
        &kind.ingress().sort(),
    );
    let buffer = buffer.map_err(|error| format!("rows that were moved are refused: {error}"))?;
    let inputs = BTreeMap::from([("x".to_owned(), buffer)]);
    let expected = compiled.run(&inputs, &RunOptions::default());
    let expected = expected.expect("runs").to_record_batch(Layout::Interval);
    let expected = texts(&[expected.expect("rows")]);

    let options = || kind.options(lateness, Policy::Adjust);
    let mut session = Session::new(&compiled, options()).expect("a session");
    let (mut found, mut late) = (Vec::new(), Vec::new());
    let (mut at, mut next) = (0, choices.iter().cycle());
    while at < rows.len() {
        let choice = *next.next().expect("a cycle") as usize;
        let len = (1 + choice % 4).min(rows.len() - at);
        let batch = kind.rows(&rows[at..at + len]);
        session
            .push("x", &batch)
            .map_err(|error| error.to_string())?;
        at += len;
        if choice & 8 > 0 {
            found.push(session.take().map_err(|error| error.to_string())?);
        }
        if choice & 16 > 0 {
            late.extend(session.take_late_of("x").expect("an input"));
        }
        if choice & 32 > 0 {
            let bytes = session.checkpoint().expect("bytes");
            session = Session::restore(&compiled, &bytes, options()).expect("goes on");
        }
    }
    found.push(session.close(Completion::End).map_err(|e| e.to_string())?);
    late.extend(session.take_late_of("x").expect("an input"));
    let given = texts(&found);
    if given != expected {
        return Err(format!("gives {given:#?}\n, expected {expected:#?}"));
    }
    let fates = late.iter().flat_map(|rows| {
        let fates: &StringArray = rows["late"].as_any().downcast_ref().expect("texts");
        fates
            .iter()
            .flatten()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    let fates: Vec<String> = fates.collect();
    let of = |fate: &str| fates.iter().filter(|found| *found == fate).count() as u64;
    let counts = session.status().inputs[0].counts;
    let is_told = (of("adjusted"), of("dropped")) == (moved, dropped);
    if !is_told || (counts.adjusted, counts.dropped) != (moved, dropped) {
        return Err(format!(
            "{moved} moved, {dropped} dropped, but {fates:?}, {counts:?}"
        ));
    }
    if counts.accepted + counts.dropped != rows.len() as u64 || counts.overlapping > 0 {
        return Err(format!("{counts:?} of {} rows", rows.len()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn late_rows_take_no_place_of_rows_in_time(
        kind in prop::sample::select(KINDS),
        drawn in prop::collection::vec((0..3i64, 0..60i64, 1..9i64, 0..25i64), 1..30),
        lateness in prop::sample::select(vec![0, 3, 11]),
        choices in prop::collection::vec(any::<u8>(), 1..12),
    ) {
        // What is given excludes each other where events do, and is on its grid.
        let mut rows: Vec<(i64, Given)> = Vec::new();
        for (number, (key, t, length, delay)) in drawn.into_iter().enumerate() {
            let key = if kind.is_keyed { key } else { 0 };
            let start = kind.period.map_or(t, |period| t * period + key);
            let end = start + kind.length().unwrap_or(length);
            let row = Given { key, start, end, value: number as f64 };
            let is_free = !rows.iter().any(|(_, other)| kind.meets(&row, other));
            if is_free || !kind.is_exclusive {
                rows.push((start + delay * i64::from(delay > 12), row));
            }
        }
        rows.sort_by_key(|(arrives, _)| *arrives);
        let rows: Vec<Given> = rows.into_iter().map(|(_, row)| row).collect();
        if let Err(error) = check(kind, &rows, lateness, &choices) {
            return Err(TestCaseError::fail(format!("{kind:?} lateness {lateness}\n{rows:?}\n{error}")));
        }
    }
}

#[test]
fn a_moved_sample_is_on_its_grid_and_yields_to_one_in_time() {
    let kind = KINDS[4];
    let compiled = kind.compiled();
    let options = kind.options(3, Policy::Adjust);
    let mut session = Session::new(&compiled, options).expect("a session");
    let sample = |end: i64| Given {
        key: 0,
        start: end - 5,
        end,
        value: end as f64,
    };
    // The watermark is 7 then: the next sample is at 10, and is in time.
    session
        .push("x", &kind.rows(&[sample(5), sample(10), sample(-5)]))
        .expect("taken");
    let found = session.close(Completion::End).expect("runs");
    assert_eq!(
        found["end"].as_ref(),
        &Int64Array::from(vec![5, 10]) as &dyn Array
    );
    let counts = session.status().inputs[0].counts;
    let expected = Counts {
        accepted: 2,
        dropped: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
}

/// Nothing could tell in time whether a row takes the place of another one.
#[test]
fn rows_are_not_moved_where_events_exclude_each_other_and_last() {
    let refused = |text: &str, x: InputOptions| {
        let query = Query::parse(text).expect("a query");
        let compiled = query.compile().expect("compiles");
        let options = SessionOptions::new().input("x", x.policy(Policy::Adjust));
        let error = Session::new(&compiled, options).expect_err("refused");
        error.to_string()
    };
    let stamp = || InputOptions::new(IngressOptions::stamp("t"));
    let edges = InputOptions::new(IngressOptions::interval("from", "to")).edges();
    for (text, x) in [
        (
            "query q unit tick { input ~x: f64 fixed 5 ~s[t] = ~x[t] output ~s }",
            stamp(),
        ),
        (
            "query q unit tick { input ~x: f64 interval ~s[t] = ~x[t] output ~s }",
            edges,
        ),
    ] {
        let error = refused(text, x);
        assert!(
            error.contains("a late row cannot be moved where events exclude each other"),
            "{error}"
        );
    }
}

/// Intervals that begin and end by rows of their own, behind a watermark of 10.
#[test]
fn late_edges_are_left_out_or_moved() {
    let text =
        "query q unit tick { input ~x: f64 interval overlap bag ~s[t] = ~x[t] + 0.0 output ~s }";
    let query = Query::parse(text).expect("a query");
    let compiled = query.compile().expect("compiles");
    let row = |(start, end, value): (i64, Option<i64>, f64)| {
        let times = |t: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![t])) };
        let value: ArrayRef = Arc::new(Float64Array::from(vec![value]));
        let columns = [
            ("from", times(Some(start))),
            ("to", times(end)),
            ("v", value),
        ];
        RecordBatch::try_from_iter(columns).expect("a row")
    };
    let late_end = [
        (2, None, 1.0),
        (10, None, 2.0),
        (2, Some(6), 1.0),
        (10, Some(20), 2.0),
    ];
    let late_start = [
        (10, None, 2.0),
        (2, None, 1.0),
        (10, Some(20), 2.0),
        (2, Some(25), 1.0),
    ];
    let both_late = [
        (10, None, 2.0),
        (2, None, 1.0),
        (2, Some(6), 1.0),
        (10, Some(20), 2.0),
    ];
    let end_at_start = [
        (10, None, 2.0),
        (2, None, 1.0),
        (2, Some(10), 1.0),
        (10, Some(20), 2.0),
    ];
    for (rows, policy, expected, counted) in [
        // An event whose end is left out lasts for ever.
        (
            late_end,
            Policy::Drop,
            "(2, 10] 1, (10, 20] 2, (10, 60] 1",
            (3, 1, 0),
        ),
        (late_end, Policy::Adjust, "(2, 10] 1, (10, 20] 2", (4, 0, 1)),
        (late_start, Policy::Drop, "(10, 20] 2", (2, 2, 0)),
        (
            late_start,
            Policy::Adjust,
            "(10, 20] 2, (10, 25] 1",
            (4, 0, 1),
        ),
        (both_late, Policy::Drop, "(10, 20] 2", (2, 2, 0)),
        // Nothing is left of what was moved and has ended by then.
        (both_late, Policy::Adjust, "(10, 20] 2", (3, 1, 1)),
        (end_at_start, Policy::Adjust, "(10, 20] 2", (3, 1, 1)),
    ] {
        for cut in 0..=rows.len() {
            let options = || {
                let x = InputOptions::new(IngressOptions::interval("from", "to"));
                let x = x.edges().policy(policy);
                SessionOptions::new().egress(Layout::Interval).input("x", x)
            };
            let mut session = Session::new(&compiled, options()).expect("a session");
            let mut found = Vec::new();
            for (number, of) in rows.iter().enumerate() {
                if number == cut {
                    let bytes = session.checkpoint().expect("bytes");
                    session = Session::restore(&compiled, &bytes, options()).expect("goes on");
                }
                session.push("x", &row(*of)).expect("taken");
                if number % 2 == cut % 2 {
                    found.push(session.take().expect("runs"));
                }
            }
            session.advance(60).expect("open");
            found.push(session.close(Completion::End).expect("runs"));
            let mut given = Vec::new();
            for part in &found {
                let numbers = |i: usize| part.column(i).as_any().downcast_ref::<Int64Array>();
                let values: &Float64Array = part.column(2).as_any().downcast_ref().expect("floats");
                let (starts, ends) = numbers(0).zip(numbers(1)).expect("instants");
                for i in 0..part.num_rows() {
                    given.push((starts.value(i), ends.value(i), values.value(i)));
                }
            }
            let counts = session.status().inputs[0].counts;
            let told = format!("{rows:?} {policy:?} {cut}: {given:?}");
            let total = |given: &[(i64, i64, f64)]| -> Vec<(i64, i64)> {
                (0..60)
                    .map(|t| {
                        let active = given.iter().filter(|e| e.0 < t && t <= e.1);
                        (t, active.map(|e| e.2 as i64).sum())
                    })
                    .collect()
            };
            let expected: Vec<(i64, i64, f64)> = expected
                .split(", (")
                .map(|event| {
                    let numbers = event.trim_start_matches('(').replace([',', ']'], "");
                    let numbers: Vec<i64> = numbers
                        .split(' ')
                        .map(|n| n.parse().expect("a number"))
                        .collect();
                    (numbers[0], numbers[1], numbers[2] as f64)
                })
                .collect();
            assert_eq!(total(&given), total(&expected), "{told}");
            let found = (counts.accepted, counts.dropped, counts.adjusted);
            assert_eq!(found, counted, "{told}");
        }
    }
}
