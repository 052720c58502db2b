//! The ingress cases of Trill's tests and guides. Its `[s, e)` is `(s-1, e-1]` here, which `closed_left` reads.
//!
//! Two of them differ on purpose (`docs/live.md`): `periodic_punctuation`, because a watermark follows every row and no punctuation has to be made up, and
//! `partitions_progress_independently`, because all keys of an input have one watermark.

use std::sync::Arc;

use tilt::{
    Query,
    arrow::array::{Array, ArrayRef, Int64Array, RecordBatch},
    data::{IngressOptions, Layout},
    live::{Completion, InputOptions, Policy, Session, SessionOptions},
};

const ROWS: &str = "~y[t] = ~x[t]";
const COUNT: &str = "~y[t on ~x[t-1 : t]] = reduce len ~x[t-1 : t]";

/// What comes in.
#[derive(Clone, Copy)]
enum Arrives {
    Row(i64, i64, i64),
    /// The start of an event, and its end.
    Start(i64, i64),
    End(i64, i64, i64),
    Punctuation(i64),
}
use Arrives::*;

struct Case {
    name: &'static str,
    query: &'static str,
    options: fn(InputOptions) -> InputOptions,
    input: &'static [Arrives],
    completion: Completion,
    expected: &'static [(i64, i64, i64)],
    /// The watermark after each arrival, where that is what the case is about.
    watermarks: &'static [i64],
}

const CASES: &[Case] = &[
    Case {
        name: "reorder_within_latency",
        query: ROWS,
        options: |x| x.policy(Policy::Drop).lateness(10),
        input: &[
            Row(30, 31, 1),
            Row(25, 26, 2),
            Row(20, 21, 3),
            Row(40, 41, 4),
        ],
        completion: Completion::End,
        expected: &[(20, 21, 3), (25, 26, 2), (30, 31, 1), (40, 41, 4)],
        watermarks: &[20, 20, 20, 30],
    },
    Case {
        name: "disorder_adjust",
        query: ROWS,
        options: |x| x.policy(Policy::Adjust),
        input: &[
            Row(10, 100, 1),
            Row(0, 50, 2),
            Row(0, 10, 3),
            Row(11, 90, 4),
        ],
        completion: Completion::End,
        // In order of end.
        expected: &[(10, 50, 2), (11, 90, 4), (10, 100, 1)],
        watermarks: &[],
    },
    Case {
        name: "punctuation_forces_release",
        query: ROWS,
        options: |x| x.policy(Policy::Drop).lateness(10),
        input: &[
            Row(30, 31, 1),
            Row(25, 26, 2),
            Punctuation(30),
            Row(27, 28, 3),
            Row(30, 31, 4),
        ],
        completion: Completion::End,
        expected: &[(25, 26, 2), (30, 31, 1), (30, 31, 4)],
        watermarks: &[20, 20, 30, 30, 30],
    },
    Case {
        name: "punctuation_only",
        query: COUNT,
        options: |x| x,
        input: &[
            Punctuation(1),
            Punctuation(5),
            Punctuation(5),
            Punctuation(3),
            Punctuation(9),
        ],
        completion: Completion::End,
        expected: &[],
        watermarks: &[1, 5, 5, 5, 9],
    },
    Case {
        name: "completion_end_of_stream",
        query: COUNT,
        options: |x| x,
        input: &[Row(0, 10, 1), Row(1, 11, 2)],
        completion: Completion::End,
        expected: &[(0, 1, 1), (1, 10, 2), (10, 11, 1)],
        watermarks: &[],
    },
    Case {
        name: "completion_flush",
        query: COUNT,
        options: |x| x,
        input: &[Row(0, 10, 1), Row(1, 11, 2)],
        completion: Completion::Flush,
        expected: &[(0, 1, 1)],
        watermarks: &[],
    },
    Case {
        name: "completion_none",
        query: COUNT,
        options: |x| x,
        input: &[Row(0, 10, 1), Row(1, 11, 2)],
        completion: Completion::Drop,
        expected: &[],
        watermarks: &[],
    },
    Case {
        name: "late_punctuation_raised",
        query: ROWS,
        options: |x| x,
        input: &[Row(90, 91, 1), Punctuation(80), Row(110, 111, 2)],
        completion: Completion::End,
        expected: &[(90, 91, 1), (110, 111, 2)],
        watermarks: &[90, 90, 110],
    },
    Case {
        name: "disorder_drop_edges",
        query: ROWS,
        options: |x| x.policy(Policy::Drop),
        input: &[Start(9, 1), Start(5, 2), End(5, 20, 2), End(9, 22, 1)],
        completion: Completion::End,
        expected: &[(9, 22, 1)],
        watermarks: &[],
    },
];

fn row(start: i64, end: Option<i64>, value: i64) -> RecordBatch {
    let number = |n: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![n])) };
    let columns = [
        ("start", number(Some(start))),
        ("end", number(end)),
        ("x", number(Some(value))),
    ];
    RecordBatch::try_from_iter(columns).expect("a row")
}

/// Rows as `(start, end, value)`, `[start, end)`.
fn rows(batch: &RecordBatch) -> Vec<(i64, i64, i64)> {
    let column = |i: usize| -> Vec<i64> {
        let column: &Int64Array = batch.column(i).as_any().downcast_ref().expect("numbers");
        column.values().to_vec()
    };
    let (starts, ends, values) = (column(0), column(1), column(2));
    let both = starts.into_iter().zip(ends).zip(values);
    both.map(|((start, end), value)| (start + 1, end + 1, value))
        .collect()
}

/// `union_waits_for_quiet_side`, which is about watermarks as well; a merge looks one tick ahead, so a flush is one tick short of telling its last event.
#[test]
fn the_later_side_of_a_union_waits_for_the_quiet_one() {
    let text = "query q unit tick { input ~l: i64 interval input ~r: i64 interval ~y[t] = coalesce(~l[t], ~r[t]) output ~y }";
    let compiled = Query::parse(text).expect("a query").compile();
    let side = || InputOptions::new(IngressOptions::interval("start", "end").closed_left());
    let options = SessionOptions::new().egress(Layout::Interval);
    let options = options.input("l", side()).input("r", side());
    let session = Session::new(&compiled.expect("compiles"), options);
    let mut session = session.expect("a session");
    session.push("l", &row(100, Some(101), 1)).expect("taken");
    session.push("r", &row(50, Some(51), 2)).expect("taken");
    let taken = |session: &mut Session| rows(&session.take().expect("runs"));
    session.catch_up().expect("open");
    assert_eq!(taken(&mut session), []);
    session.advance_input("r", 52).expect("an input");
    assert_eq!(taken(&mut session), [(50, 51, 2)]);
    assert_eq!(session.status().holding_back.as_deref(), Some("r"));
    session.advance(102).expect("open");
    assert_eq!(taken(&mut session), [(100, 101, 1)]);
}

#[test]
fn trills_ingress_cases() {
    for case in CASES {
        let text = format!(
            "query q unit tick {{ input ~x: i64 interval overlap bag {} output ~y }}",
            case.query
        );
        let compiled = Query::parse(&text)
            .expect("a query")
            .compile()
            .expect("compiles");
        let ingress = IngressOptions::interval("start", "end").closed_left();
        let x = (case.options)(InputOptions::new(ingress).edges());
        let options = SessionOptions::new().input("x", x).egress(Layout::Interval);
        let mut session = Session::new(&compiled, options).expect("a session");
        for (i, arrives) in case.input.iter().enumerate() {
            match *arrives {
                Row(start, end, value) | End(start, end, value) => {
                    session
                        .push("x", &row(start, Some(end), value))
                        .expect("taken");
                }
                Start(start, value) => session.push("x", &row(start, None, value)).expect("taken"),
                Punctuation(t) => session.advance_input("x", t).expect("an input"),
            }
            if let Some(watermark) = case.watermarks.get(i) {
                let found = session.status().inputs[0].watermark;
                assert_eq!(found, Some(*watermark), "{} {i}", case.name);
            }
        }
        let found = session.close(case.completion).expect("runs");
        assert_eq!(rows(&found), case.expected, "{}", case.name);
    }
}
