//! What sessions do about late rows that are moved: against a model that moves them, and a run on all rows that it has then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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

    /// The rows that count, in time and moved, and how many were moved and left out; given is before which rows the watermark caught up.
    fn moved(
        self,
        rows: &[Given],
        lateness: i64,
        caught_up: &BTreeSet<usize>,
    ) -> (Vec<Given>, u64, u64) {
        let (mut high, mut firsts) = (i64::MIN, BTreeMap::new());
        let (mut in_time, mut moved) = (Vec::new(), Vec::new());
        let (mut dropped, mut promised) = (0, i64::MIN);
        for (number, row) in rows.iter().enumerate() {
            let key = if self.is_keyed { row.key } else { 0 };
            let first = *firsts.entry(key).or_insert(row.start);
            if caught_up.contains(&number) {
                promised = high + 1;
            }
            let by_rows = high.saturating_sub(if high > i64::MIN { lateness } else { 0 });
            let watermark = by_rows.max(promised);
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

/// Rows of results that end up to an instant.
fn until(rows: &RecordBatch, end: i64) -> RecordBatch {
    let ends: &Int64Array = rows["end"].as_any().downcast_ref().expect("instants");
    rows.slice(0, ends.values().partition_point(|known| *known <= end))
}

fn check(
    kind: Kind,
    rows: &[Given],
    lateness: i64,
    choices: &[u8],
    completion: Completion,
) -> Result<(), String> {
    let compiled = kind.compiled();
    // How many rows are pushed together, and what is done after them.
    let (mut batches, mut caught_up) = (Vec::new(), BTreeSet::new());
    let (mut at, mut next) = (0, choices.iter().cycle());
    while at < rows.len() {
        let choice = *next.next().expect("a cycle") as usize;
        let len = (1 + choice % 4).min(rows.len() - at);
        batches.push((at..at + len, choice));
        at += len;
        if choice & 64 > 0 {
            caught_up.insert(at);
        }
    }
    let (counted, moved, dropped) = kind.moved(rows, lateness, &caught_up);
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
    let expected = expected.expect("rows");

    let options = || kind.options(lateness, Policy::Adjust);
    let mut session = Session::new(&compiled, options()).expect("a session");
    let (mut found, mut late) = (Vec::new(), Vec::new());
    for (of_batch, choice) in batches {
        session
            .push("x", &kind.rows(&rows[of_batch]))
            .map_err(|error| error.to_string())?;
        if choice & 64 > 0 {
            session.catch_up().expect("open");
        }
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
    found.push(session.close(completion).map_err(|e| e.to_string())?);
    late.extend(session.take_late_of("x").expect("an input"));
    let last = counted.iter().map(|row| row.start).max();
    let all = texts(std::slice::from_ref(&expected));
    let given = texts(&found);
    let is_right = match last.filter(|_| completion == Completion::Flush) {
        // What time has passed when it has come to the last row, but for a state that is open, is given; of the rest some is certain as well.
        Some(last) => {
            let passed = texts(&[until(&expected, last + i64::from(!kind.is_state()))]);
            let is_in = |some: &[String], all: &[String]| some.iter().all(|row| all.contains(row));
            is_in(&passed, &given) && is_in(&given, &all)
        }
        None => given == all,
    };
    if !is_right {
        return Err(format!("gives {given:#?}\n, expected {all:#?}"));
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
        completion in prop::sample::select(vec![Completion::End, Completion::Flush]),
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
        if let Err(error) = check(kind, &rows, lateness, &choices, completion) {
            return Err(TestCaseError::fail(format!("{kind:?} {completion:?} lateness {lateness}\n{rows:?}\n{error}")));
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

/// Where a row was moved to says nothing about the rows that are still to come.
#[test]
fn watermarks_do_not_catch_up_with_rows_that_were_moved() {
    let kind = KINDS[3];
    let compiled = kind.compiled();
    let options = kind.options(0, Policy::Adjust);
    let mut session = Session::new(&compiled, options).expect("a session");
    let point = |end: i64| Given {
        key: 0,
        start: end - 1,
        end,
        value: end as f64,
    };
    // The second row is late once the watermark has caught up with the first, and moved to 8.
    session.push("x", &kind.rows(&[point(4)])).expect("taken");
    session.catch_up().expect("open");
    session.push("x", &kind.rows(&[point(0)])).expect("taken");
    session.catch_up().expect("open");
    assert_eq!(session.status().inputs[0].watermark, Some(5));
    session.push("x", &kind.rows(&[point(8)])).expect("taken");
    assert_eq!(session.status().inputs[0].counts.adjusted, 1);
    let found = session.close(Completion::Flush).expect("runs");
    assert_eq!(
        found["end"].as_ref(),
        &Int64Array::from(vec![4, 8, 8]) as &dyn Array
    );
}

/// Intervals that were moved count in the end, though they end later than the last row begins.
#[test]
fn what_becomes_of_moved_intervals_is_decided_in_the_end() {
    let kind = KINDS[11];
    let text = "query q unit tick { input ~x: {k: i64, v: f64} interval ~v[t] = ~x[t].v ~s[t every 1] = reduce sum ~v[t-1 : t] output ~s }";
    let compiled = Query::parse(text).expect("a query").compile();
    let compiled = compiled.expect("compiles");
    let interval = |start: i64, end: i64, value: f64| Given {
        key: 0,
        start,
        end,
        value,
    };
    let options = kind.options(0, Policy::Adjust);
    let mut session = Session::new(&compiled, options).expect("a session");
    let rows = [
        interval(0, 3, 1.0),
        interval(10, 12, 2.0),
        interval(3, 30, 4.0),
        interval(4, 40, 8.0),
        interval(20, 21, 16.0),
    ];
    session.push("x", &kind.rows(&rows)).expect("taken");
    session.close(Completion::Flush).expect("runs");
    let counts = session.status().inputs[0].counts;
    assert_eq!(
        (counts.accepted, counts.adjusted, counts.dropped),
        (3, 0, 2)
    );
    let late = session.take_late_of("x").expect("an input").expect("rows");
    assert_eq!(late.num_rows(), 2);

    let options = kind.options(0, Policy::Adjust);
    let mut session = Session::new(&compiled, options).expect("a session");
    let rows = [
        interval(0, 3, 1.0),
        interval(10, 12, 2.0),
        interval(12, 13, 2.0),
        interval(4, 40, 8.0),
        interval(3, 30, 4.0),
        interval(16, 17, 2.0),
    ];
    session.push("x", &kind.rows(&rows[..5])).expect("taken");
    session.close(Completion::Flush).expect("runs");
    let counts = session.status().inputs[0].counts;
    assert_eq!(
        (counts.accepted, counts.adjusted, counts.dropped),
        (3, 0, 2)
    );
}
