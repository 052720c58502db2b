//! Windows that move by several positions, or by several ticks over events that come at any time: folded by panes, whether the panes divide the window or not.
//! The oracle's bits in pieces of all sizes, on several threads, cut by rows and by time.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::events_of,
    ir::{Span, Unit},
};

use crate::text::format_events;

/// Numbers that look random.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// When points come.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stamps {
    /// At every tick.
    Regular,
    /// One to five ticks apart.
    Near,
    /// Many at one instant, none for long.
    Spiky,
}

fn points(stamps: Stamps, ty: &str, rows: usize, gaps: bool) -> SnapshotBuffer {
    let mut next = random(rows as u64 + 3);
    let mut t = 1_000_003;
    let ends: Vec<i64> = (0..rows)
        .map(|_| {
            t += match stamps {
                Stamps::Regular => 1,
                Stamps::Near => 1 + next(5) as i64,
                Stamps::Spiky => match next(100) {
                    0 => 1000 + next(3000) as i64,
                    n if n < 40 => 1,
                    _ => 0,
                },
            };
            t
        })
        .collect();
    let timeline = match stamps {
        Stamps::Regular => Timeline::regular(1_000_004, 1, rows, Spans::Fixed(1)),
        _ => Timeline::explicit(ends.into(), Spans::Fixed(1)),
    };
    let mut value = || (!gaps || next(7) > 0).then(|| next(2_000_001) as i64 - 1_000_000);
    let values: Vec<Option<i64>> = (0..rows).map(|_| value()).collect();
    let values: ArrayRef = match ty {
        "i32" => {
            let of = |v: &Option<i64>| v.map(|v| v as i32);
            Arc::new(values.iter().map(of).collect::<Int32Array>())
        }
        "i64" => Arc::new(values.into_iter().collect::<Int64Array>()),
        _ => {
            let of = |v: &Option<i64>| v.map(|v| v as f64 / 7.0);
            Arc::new(values.iter().map(of).collect::<Float64Array>())
        }
    };
    SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).expect("points in order")
}

/// Compares with the oracle; returns what `explain` says.
fn check(ty: &str, stamps: Stamps, body: &str, rows: usize) -> String {
    let declared = match stamps {
        Stamps::Regular => "fixed 1 period 1",
        Stamps::Near => "point",
        Stamps::Spiky => "point overlap bag",
    };
    let text = format!("query q unit tick {{ input ~x: {ty} {declared}  {body}  output ~y }}");
    let query = Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = query.compile().expect("compiles");
    let explained = compiled.explain();
    for gaps in [false, true] {
        let x = points(stamps, ty, rows, gaps);
        let last = x.timeline().end(rows - 1);
        let inputs = BTreeMap::from([("x".to_owned(), x)]);
        for part in [None, Some(Span::new(last - 1100, last - 37))] {
            let with = |options: RunOptions| part.into_iter().fold(options, RunOptions::part);
            let oracle = with(RunOptions::default().backend(Backend::Interpreter));
            let expected = compiled.run(&inputs, &oracle).expect("the oracle's result");
            let expected = events_of(&expected).expect("events");
            let ways = [
                RunOptions::default().backend(Backend::Loops).threads(1),
                RunOptions::default().threads(1),
                RunOptions::default().threads(2).piece_rows(8),
                RunOptions::default().threads(3).piece_rows(40),
                RunOptions::default().threads(2).piece_interval(700),
                RunOptions::default().threads(1).piece_interval(64),
            ];
            for options in ways {
                let options = with(options);
                let found = compiled.run(&inputs, &options);
                let found = found.unwrap_or_else(|e| panic!("{e}\n{text}"));
                let found = events_of(&found).expect("events");
                let same = found.len() == expected.len()
                    && found.iter().zip(&expected).all(|(a, b)| a.same(b));
                assert!(
                    same,
                    "{text}\n{stamps:?}, gaps {gaps}, {options:?}\n// gives     {}\n// but here  {}\n{explained}",
                    format_events(&expected),
                    format_events(&found),
                );
            }
        }
    }
    explained
}

#[test]
fn windows_that_strides_do_not_divide_are_those_of_the_oracle() {
    for (length, stride, extremes, sums) in [
        (1024, 96, true, true),
        (3000, 2000, true, true),
        (4000, 1100, true, true),
        (190, 40, true, false),
        (1000, 300, false, false),
        (300, 200, false, false),
        (31, 16, false, false),
        (7, 3, false, false),
        (10, 4, false, false),
        (100, 7, false, false),
    ] {
        for (ty, agg, is_cut) in [
            ("i32", "min", extremes),
            ("i32", "sum", sums),
            ("i64", "sum", sums),
            ("f64", "max", extremes),
            ("i64", "mean", sums),
        ] {
            let body = format!("~y[t every {stride}] = reduce {agg} ~x[t-{length} : t]");
            let explained = check(ty, Stamps::Regular, &body, 5000);
            let panes = format!(
                "over panes of {stride} positions, each in two parts, the later one of {}",
                length % stride
            );
            assert_eq!(explained.contains(&panes), is_cut, "{body}\n{explained}");
        }
    }
}

#[test]
fn windows_over_panes_may_lie_before_or_around_their_row() {
    for (every, window) in [
        ("40", "t-200 : t-7"),
        ("20 offset 3", "t-50 : t+20"),
        ("100", "t-450 : t+65"),
        ("16", "t-47 : t"),
    ] {
        for (ty, agg) in [("i32", "max"), ("i64", "sum"), ("i64", "len")] {
            let body = format!("~y[t every {every}] = reduce {agg} ~x[{window}]");
            for stamps in [Stamps::Regular, Stamps::Near, Stamps::Spiky] {
                check(ty, stamps, &body, 3000);
            }
        }
    }
}

#[test]
fn panes_of_time_hold_points_that_come_at_any_time() {
    for (length, stride, panes) in [
        (640, 10, Some("panes of 10")),
        (64, 64, None),
        (
            100,
            30,
            Some("panes of 30, each in two parts, the later one of 10"),
        ),
        (3000, 1000, Some("panes of 1000")),
        (
            12,
            5,
            Some("panes of 5, each in two parts, the later one of 2"),
        ),
        (9, 1, Some("panes of 1")),
    ] {
        for (ty, agg) in [
            ("i32", "min"),
            ("i64", "sum"),
            ("f64", "max"),
            ("i32", "mean"),
            ("f64", "std"),
        ] {
            let body = format!("~y[t every {stride}] = reduce {agg} ~x[t-{length} : t]");
            for stamps in [Stamps::Near, Stamps::Spiky] {
                let explained = check(ty, stamps, &body, 3000);
                if let (Some(panes), false) = (panes, agg == "std") {
                    let panes = format!("over {panes}");
                    assert!(explained.contains(&panes), "{body}\n{explained}");
                }
            }
        }
    }
}

#[test]
fn several_reductions_over_cut_panes() {
    let body = "~low[t every 110] = reduce min ~x[t-540 : t]
                ~sum[t every 110] = reduce sum ~x[t-540 : t]
                ~near[t every 110] = reduce max ~x[t-460 : t]
                ~filtered[t] = if ~x[t] > 0 then ~x[t] else null
                ~some[t every 110] = reduce sum ~filtered[t-540 : t]
                ~y[t] = {low: ~low[t], sum: ~sum[t], near: ~near[t], some: ~some[t]}";
    for stamps in [Stamps::Regular, Stamps::Near] {
        check("i64", stamps, body, 3000);
    }
}

/// A total of 64 bits that does not fit is an error, wherever panes have it.
#[test]
fn totals_over_panes_that_overflow_are_errors() {
    for declared in ["fixed 1 period 1", "point"] {
        let text = format!(
            "query q unit tick {{ input ~x: i64 {declared}  ~y[t every 110] = reduce sum ~x[t-540 : t]  output ~y }}"
        );
        let compiled = Query::parse(&text).unwrap().compile().unwrap();
        let values: Vec<i64> = (0..500)
            .map(|i| if i / 100 == 2 { i64::MAX / 50 } else { i })
            .collect();
        let values = Arc::new(Int64Array::from(values));
        let ends: Vec<i64> = (1..=500).collect();
        let timeline = match declared {
            "point" => Timeline::explicit(ends.into(), Spans::Fixed(1)),
            _ => Timeline::regular(1, 1, 500, Spans::Fixed(1)),
        };
        let x = SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).unwrap();
        let inputs = BTreeMap::from([("x".to_owned(), x)]);
        for backend in [Backend::Interpreter, Backend::Native] {
            let options = RunOptions::default().backend(backend);
            let error = compiled.run(&inputs, &options).expect_err("an overflow");
            assert!(error.to_string().contains("overflow"), "{error}");
        }
    }
}
