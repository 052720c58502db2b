//! The ingress cases of Trill's tests and guides. Its `[s, e)` is `(s-1, e-1]` here, which `closed_left` reads.
//!
//! Where they differ on purpose, `docs/semantics.md` says why, and the tests here what happens instead.

use std::sync::Arc;

use tilt::{
    Query,
    arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray},
    data::{IngressOptions, Layout},
    live::{Completion, InputOptions, Policy, Session, SessionOptions},
};

const ROWS: &str = "~y[t] = ~x[t]";
const COUNT: &str = "~y[t on ~x[t-1 : t]] = reduce len ~x[t-1 : t]";
const SESSIONS: &str = "~y[t sessions ~x gap 5] = reduce len ~x[event]";

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
    /// How many rows are left out, which are counted and can be read.
    left_out: u64,
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
        left_out: 0,
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
        left_out: 1,
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
        left_out: 1,
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
        left_out: 0,
    },
    Case {
        name: "punctuation_only, of session windows",
        query: SESSIONS,
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
        left_out: 0,
    },
    Case {
        // An open event stays open; when its end comes, it is moved, too.
        name: "shift_forward",
        query: "~y[t] = ~x[t-1]",
        options: |x| x,
        input: &[
            Row(0, 120, 1),
            Start(4, 2),
            Punctuation(120),
            End(4, 300, 2),
        ],
        completion: Completion::End,
        expected: &[(1, 121, 1), (5, 301, 2)],
        watermarks: &[],
        left_out: 0,
    },
    Case {
        // Trill's windows have an event in the window of its start alone; here it is in all that it is active in.
        name: "window_ignores_input_end",
        query: "~y[t every 10 offset 9] = reduce len ~x[t-10 : t]",
        options: |x| x,
        input: &[Row(1, 25, 1), Start(2, 2), End(2, 15, 2)],
        completion: Completion::End,
        expected: &[(0, 10, 2), (10, 20, 2), (20, 30, 1)],
        watermarks: &[],
        left_out: 0,
    },
    Case {
        name: "completion_end_of_stream",
        query: COUNT,
        options: |x| x,
        input: &[Row(0, 10, 1), Row(1, 11, 2)],
        completion: Completion::End,
        expected: &[(0, 1, 1), (1, 10, 2), (10, 11, 1)],
        watermarks: &[],
        left_out: 0,
    },
    Case {
        name: "completion_flush",
        query: COUNT,
        options: |x| x,
        input: &[Row(0, 10, 1), Row(1, 11, 2)],
        completion: Completion::Flush,
        expected: &[(0, 1, 1)],
        watermarks: &[],
        left_out: 0,
    },
    Case {
        name: "completion_none",
        query: COUNT,
        options: |x| x,
        input: &[Row(0, 10, 1), Row(1, 11, 2)],
        completion: Completion::Drop,
        expected: &[],
        watermarks: &[],
        left_out: 0,
    },
    Case {
        // Trill makes up punctuations at 10 and 40.
        name: "periodic_punctuation",
        query: ROWS,
        options: |x| x,
        input: &[Row(0, 1, 1), Row(12, 13, 2), Row(19, 20, 3), Row(47, 48, 4)],
        completion: Completion::End,
        expected: &[(0, 1, 1), (12, 13, 2), (19, 20, 3), (47, 48, 4)],
        watermarks: &[0, 12, 19, 47],
        left_out: 0,
    },
    Case {
        name: "late_punctuation_raised",
        query: ROWS,
        options: |x| x,
        input: &[Row(90, 91, 1), Punctuation(80), Row(110, 111, 2)],
        completion: Completion::End,
        expected: &[(90, 91, 1), (110, 111, 2)],
        watermarks: &[90, 90, 110],
        left_out: 0,
    },
    Case {
        name: "disorder_drop_edges",
        query: ROWS,
        options: |x| x.policy(Policy::Drop),
        input: &[Start(9, 1), Start(5, 2), End(5, 20, 2), End(9, 22, 1)],
        completion: Completion::End,
        expected: &[(9, 22, 1)],
        watermarks: &[],
        left_out: 2,
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
        let late = session.take_late_of("x").expect("an input");
        let late = late.iter().flat_map(|rows| {
            let fates: &StringArray = rows["late"].as_any().downcast_ref().expect("texts");
            let fates: Vec<bool> = fates.iter().map(|fate| fate == Some("dropped")).collect();
            fates
        });
        let late = late.filter(|is_dropped| *is_dropped).count() as u64;
        let counted = session.status().inputs[0].counts.dropped;
        let all = (case.left_out, case.left_out);
        if case.completion != Completion::Drop {
            assert_eq!((counted, late), all, "{}", case.name);
        }
    }
}

/// `constant_duration_overrides_end` and `window_ignores_input_end`: of what matters by its start alone, only that is read. A length is then one of the input, and no end can come later.
#[test]
fn what_has_one_length_is_read_by_its_start() {
    for (declared, query, expected) in [
        ("fixed 5", "~y[t] = ~x[t] + 0", &[(3, 8, 1), (7, 12, 2)][..]),
        (
            "fixed 5",
            "~y[t every 10 offset 9] = reduce len ~x[t-10 : t]",
            &[(0, 10, 2), (10, 20, 1)],
        ),
        (
            "point",
            "~y[t every 10 offset 9] = reduce len ~x[t-10 : t]",
            &[(0, 10, 2)],
        ),
    ] {
        let text = format!(
            "query q unit tick {{ input ~x: i64 {declared} overlap bag {query} output ~y }}"
        );
        let compiled = Query::parse(&text).expect("a query").compile();
        let options = SessionOptions::new().egress(Layout::Interval);
        let options = options.input("x", InputOptions::new(IngressOptions::stamp("t")));
        let session = Session::new(&compiled.expect("compiles"), options);
        let mut session = session.expect("a session");
        // A stamp is the end: of Trill's `[s, s + 5)` the tick before.
        let last = if declared == "point" { 0 } else { 4 };
        for (start, value) in [(3, 1), (7, 2)] {
            let number = |n: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![n])) };
            let columns = [("t", number(start + last)), ("x", number(value))];
            let batch = RecordBatch::try_from_iter(columns).expect("a row");
            session.push("x", &batch).expect("taken");
        }
        let found = session.close(Completion::End).expect("runs");
        assert_eq!(rows(&found), expected, "{text}");
    }
}

/// `punctuation_forces_release`: what is before a punctuation is given when it comes.
#[test]
fn a_promise_releases_what_is_before_it() {
    let text =
        format!("query q unit tick {{ input ~x: i64 interval overlap bag {ROWS} output ~y }}");
    let compiled = Query::parse(&text).expect("a query").compile();
    let x = InputOptions::new(IngressOptions::interval("start", "end").closed_left());
    let options = SessionOptions::new().egress(Layout::Interval);
    let options = options.input("x", x.lateness(10));
    let session = Session::new(&compiled.expect("compiles"), options);
    let mut session = session.expect("a session");
    let taken = |session: &mut Session| rows(&session.take().expect("runs"));
    session.push("x", &row(30, Some(31), 1)).expect("taken");
    session.push("x", &row(25, Some(26), 2)).expect("taken");
    assert_eq!(taken(&mut session), []);
    session.advance_input("x", 30).expect("an input");
    assert_eq!(taken(&mut session), [(25, 26, 2)]);
    session.advance_input("x", 31).expect("an input");
    assert_eq!(taken(&mut session), [(30, 31, 1)]);
}

/// `partitions_progress_independently`: partitions are keys of one input, which have one watermark.
#[test]
fn keys_have_one_watermark() {
    let text = "query q unit tick { input ~x: {k: i64, v: i64} interval key k ~y[t] = ~x[t].v + 0 output ~y }";
    let compiled = Query::parse(text).expect("a query").compile();
    let compiled = compiled.expect("compiles");
    let arriving = [(30, 0), (25, 0), (20, 0), (9, 0), (1, 1), (10, 1), (5, 1)];
    // What Trill leaves out is one row of the first partition; a lateness as large as their drift takes it as well.
    for (lateness, starts, dropped) in [
        (10, &[20, 25, 30][..], 4),
        (29, &[1, 5, 9, 10, 20, 25, 30], 0),
    ] {
        let x = InputOptions::new(IngressOptions::interval("start", "end").closed_left());
        let x = x.policy(Policy::Drop).lateness(lateness);
        let options = SessionOptions::new().egress(Layout::Interval);
        let session = Session::new(&compiled, options.input("x", x));
        let mut session = session.expect("a session");
        for (start, key) in arriving {
            let number = |n: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![n])) };
            let columns = [
                ("start", start),
                ("end", start + 1),
                ("k", key),
                ("v", start),
            ];
            let columns = columns.map(|(name, n)| (name, number(n)));
            let batch = RecordBatch::try_from_iter(columns).expect("a row");
            session.push("x", &batch).expect("taken");
        }
        let found = session.close(Completion::End).expect("runs");
        let found: &Int64Array = found["start"].as_any().downcast_ref().expect("numbers");
        let found: Vec<i64> = found.values().iter().map(|start| start + 1).collect();
        assert_eq!(found, starts);
        assert_eq!(session.status().inputs[0].counts.dropped, dropped);
    }
}

/// `chop_open_event_bounded`, with the open event as an edge.
#[test]
fn an_open_event_is_chopped_up_to_where_another_one_bounds_it() {
    let text = "query q unit tick { input ~p: i64 interval input ~b: i64 interval ~g[t every 100 offset 99] = 0 ~y[t] = ~p[t] + 0 * ~b[t] + ~g[t] output ~y }";
    let compiled = Query::parse(text).expect("a query").compile();
    let side = || InputOptions::new(IngressOptions::interval("start", "end").closed_left());
    let options = SessionOptions::new().egress(Layout::Interval);
    let options = options.input("p", side().edges()).input("b", side());
    let session = Session::new(&compiled.expect("compiles"), options.start(-1));
    let mut session = session.expect("a session");
    session.push("b", &row(0, Some(250), 2)).expect("taken");
    session.push("p", &row(100, None, 1)).expect("taken");
    session.advance(1000).expect("open");
    let found = session.close(Completion::End).expect("runs");
    assert_eq!(rows(&found), [(100, 200, 1), (200, 250, 1)]);
}

/// `clip_self_per_key`, which is what open events of a key are.
#[test]
fn an_open_event_lasts_until_the_next_one_of_its_key() {
    let text = "query q unit tick { input ~x: {k: i64, v: i64} interval key k ~y[t] = ~x[t].v + 0 output ~y }";
    let compiled = Query::parse(text).expect("a query").compile();
    let x = InputOptions::new(IngressOptions::interval("start", "end").closed_left());
    let options = SessionOptions::new().egress(Layout::Interval);
    let options = options.input("x", x.edges());
    let session = Session::new(&compiled.expect("compiles"), options);
    let mut session = session.expect("a session");
    for (start, key, value) in [(0, 1, 10), (0, 2, 20), (120, 1, 11), (1800, 2, 21)] {
        let number = |n: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![n])) };
        let columns = [
            ("start", Some(start)),
            ("end", None),
            ("k", Some(key)),
            ("v", Some(value)),
        ];
        let columns = columns.map(|(name, n)| (name, number(n)));
        let batch = RecordBatch::try_from_iter(columns).expect("a row");
        session.push("x", &batch).expect("taken");
    }
    session.advance(2000).expect("open");
    let found = session.close(Completion::End).expect("runs");
    let column = |name: &str| -> Vec<i64> {
        let column: &Int64Array = found[name].as_any().downcast_ref().expect("numbers");
        column.values().to_vec()
    };
    let lasts = column("start").into_iter().zip(column("end"));
    let lasts: Vec<(i64, i64)> = lasts.map(|(start, end)| (start + 1, end + 1)).collect();
    // The last ones are open to the end of the run.
    assert_eq!(lasts, [(0, 120), (0, 1800), (120, 2001), (1800, 2001)]);
    assert_eq!(column("k"), [1, 2, 1, 2]);
}
