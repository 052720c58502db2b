//! Windows that are longer than pieces, windows without a beginning, and lists, in stretches of any size: the oracle's bits, whatever begins where.

use std::collections::BTreeMap;

use tilt::{
    Backend, Query, RunOptions,
    data::SnapshotBuffer,
    interp::{Event, Value, buffer_of, events_of},
    ir::{DType, Unit, parse},
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

/// Doubles whose sums depend on the order of additions, now and then a NaN or a large one.
fn double(next: &mut impl FnMut(u64) -> u64) -> Value {
    Value::Float(match next(60) {
        0 => f64::NAN,
        1 => 1e16,
        2 => -0.0,
        n => (n as f64 - 30.0) / 7.0 + next(1000) as f64 / 3.0,
    })
}

fn value(dtype: &DType, next: &mut impl FnMut(u64) -> u64) -> Value {
    match dtype {
        DType::Float(_) => double(next),
        DType::Utf8 => Value::Str(["b", "", "long enough", "a"][next(4) as usize].into()),
        DType::Bool => Value::Bool(next(3) == 0),
        _ => Value::Int(next(2001) as i64 - 1000),
    }
}

/// How far apart events are.
#[derive(Clone, Copy, PartialEq)]
enum Gaps {
    Periodic,
    Irregular,
}

fn stream(name: &str, dtype: &DType, rows: usize, gaps: Gaps, seed: u64) -> SnapshotBuffer {
    let mut next = random(seed);
    let mut t = 1000 + seed as i64 % 7;
    let events: Vec<Event> = (0..rows)
        .map(|_| {
            t += match gaps {
                Gaps::Periodic => 1,
                Gaps::Irregular => 1 + next(4) as i64 * next(2) as i64,
            };
            Event {
                start: t - 1,
                end: t,
                value: value(dtype, &mut next),
            }
        })
        .collect();
    buffer_of(&events, name, dtype, Unit::Tick, Some(1)).expect("events in order")
}

/// Runs a program in pieces of all sizes, by threads of all numbers, and compares with the oracle.
fn check(declared: &str, dtype: &DType, body: &str) -> String {
    let text = format!("query q unit tick {{ input ~x: {declared}  {body} }}");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = Query::new(program).expect("verified");
    let compiled = compiled.compile().expect("compiles");
    let explained = compiled.explain();
    assert!(!explained.contains("interpreted, because"), "{explained}");
    for (rows, gaps) in [
        (0, Gaps::Irregular),
        (1, Gaps::Periodic),
        (77, Gaps::Irregular),
        (413, Gaps::Periodic),
        (410, Gaps::Irregular),
    ] {
        if declared.contains("period") && gaps == Gaps::Irregular && rows > 1 {
            continue;
        }
        let buffer = stream("x", dtype, rows, gaps, rows as u64);
        let inputs = BTreeMap::from([("x".to_owned(), buffer)]);
        let oracle = RunOptions::default().backend(Backend::Interpreter);
        let expected = compiled.run(&inputs, &oracle).expect("the oracle's result");
        let expected = events_of(&expected).expect("events");
        for (backend, threads, pieces) in [
            (Backend::Loops, 1, 8),
            (Backend::Native, 1, 64),
            (Backend::Native, 2, 8),
            (Backend::Native, 3, 40),
            (Backend::Native, 2, 1 << 20),
        ] {
            let options = RunOptions::default()
                .backend(backend)
                .threads(threads)
                .piece_rows(pieces);
            let (found, how) = compiled
                .run_with_stats(&inputs, &options)
                .unwrap_or_else(|e| panic!("{e}\n{text}"));
            let found = events_of(&found).expect("events");
            assert!(
                rows == 0 || how.interpreted.is_none(),
                "{text}\n{rows} rows, pieces of {pieces}: {:?}",
                how.interpreted
            );
            let same = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(a, b)| a.same(b));
            assert!(
                same,
                "{text}\n{rows} rows, {backend:?}, {threads} threads, pieces of {pieces}\n// gives     {}\n// but here  {}\n{explained}",
                format_events(&expected),
                format_events(&found),
            );
        }
    }
    explained
}

const AGGS: [&str; 13] = [
    "sum",
    "mean",
    "min",
    "max",
    "len",
    "std",
    "skew(unbiased)",
    "kurtosis",
    "kurtosis(fisher, unbiased)",
    "kurtosis(pearson, unbiased)",
    "rms",
    "median",
    "slope",
];

#[test]
fn long_windows_of_doubles() {
    for agg in AGGS {
        for window in ["t-100 : t", "t-37 : t-5", "t-1000 : t", "t-256 : t+3"] {
            for declared in ["f64 point", "f64 fixed 1 period 1"] {
                let body = format!("~y[t] = reduce {agg} ~x[{window}]  output ~y");
                check(declared, &DType::F64, &body);
            }
        }
    }
}

#[test]
fn long_windows_of_integers() {
    for agg in ["sum", "mean", "min", "max", "len", "std", "product"] {
        for window in ["t-100 : t", "t-1000 : t", "t-300 : t-7"] {
            for declared in ["i64 point", "i64 fixed 1 period 1"] {
                let map = if agg == "product" {
                    " map (~x[t] % 3)"
                } else {
                    ""
                };
                let body = format!("~y[t] = reduce {agg} ~x[{window}]{map}  output ~y");
                check(declared, &DType::I64, &body);
            }
        }
    }
}

#[test]
fn long_windows_on_grids_and_by_count() {
    for declared in ["i64 point", "i64 fixed 1 period 1"] {
        for agg in ["sum", "max", "mean"] {
            let body = format!("~y[t every 4] = reduce {agg} ~x[t-200 : t]  output ~y");
            check(declared, &DType::I64, &body);
            let body = format!("~y[t] = reduce {agg} ~x[#-150 : #]  output ~y");
            check(declared, &DType::I64, &body);
        }
    }
    let body = "~y[t every 8] = reduce mean ~x[t-200 : t]  output ~y";
    check("f64 fixed 1 period 1", &DType::F64, body);
}

/// Stages that read each other, some rows without an event.
#[test]
fn long_windows_over_stages() {
    check(
        "f64 fixed 1 period 1",
        &DType::F64,
        "~m[t] = ~x[t] - reduce mean ~x[t-100 : t]
         ~f[t] = if ~m[t] > 0.0 then ~m[t] else null
         ~y[t] = reduce std ~m[t-60 : t] + coalesce(reduce sum ~f[t-200 : t], 0.0) + hold(~f[t-1])
         output ~y",
    );
    check(
        "f64 point",
        &DType::F64,
        "~f[t] = if ~x[t] > 20.0 then ~x[t] else null
         ~s[t] = reduce sum ~f[t-150 : t]
         ~n[t] = reduce len ~f[-inf : t]
         ~y[t] = {s: ~s[t], n: ~n[t], of: ~x.prev(2)}
         output ~y",
    );
}

/// Events of a merge, of which windows of other streams are read.
#[test]
fn long_windows_of_a_join() {
    for agg in ["sum", "max", "len"] {
        let body = format!(
            "~a[t every 7] = reduce mean ~x[t-7 : t]
             ~j[t on ~x[t], ~a[t]] = ~x[t] + ~a[t]
             ~y[t] = reduce {agg} ~j[t-90 : t]
             output ~y"
        );
        check("f64 point", &DType::F64, &body);
    }
}

#[test]
fn windows_without_a_beginning() {
    for window in ["-inf : t", "-inf : #", "-inf : #-3", "-inf : t-10"] {
        for agg in AGGS {
            let body = format!("~y[t] = reduce {agg} ~x[{window}]  output ~y");
            check("f64 point", &DType::F64, &body);
            check("f64 fixed 1 period 1", &DType::F64, &body);
        }
        // Sums in order beside extremes, whose order does not matter.
        let body = format!("~y[t] = reduce sum ~x[{window}] - reduce max ~x[{window}]  output ~y");
        check("f64 point", &DType::F64, &body);
        for agg in ["sum", "min", "max", "len", "mean"] {
            let body = format!("~y[t] = reduce {agg} ~x[{window}]  output ~y");
            check("i64 point", &DType::I64, &body);
            let body = format!(
                "~f[t] = if ~x[t] % 3 != 0 then ~x[t] else null
                 ~y[t] = reduce {agg} ~f[{window}]  output ~y"
            );
            check("i64 point", &DType::I64, &body);
        }
        for agg in ["any", "all"] {
            let body = format!("~y[t] = reduce {agg} ~x[{window}] map (~x[t] > -990)  output ~y");
            check("i64 fixed 1 period 1", &DType::I64, &body);
        }
    }
    let explained = check(
        "f64 point",
        &DType::F64,
        "~s[t] = reduce sum ~x[-inf : #]  ~y[t] = ~s[t] - ~s.prev(1)  output ~y",
    );
    assert!(explained.contains("stage by stage"), "{explained}");
    check(
        "f64 point",
        &DType::F64,
        "~y[t every 5] = reduce sum ~x[-inf : t]  output ~y",
    );
}

#[test]
fn lists_of_windows() {
    let types = [
        ("f64", DType::F64),
        ("i64", DType::I64),
        ("utf8", DType::Utf8),
        ("bool", DType::Bool),
    ];
    for (name, dtype) in types {
        for agg in ["collect", "top_k(3)", "top_k(1)"] {
            for window in ["t-12 : t", "t-40 : t-3", "#-4 : #"] {
                let body = format!("~y[t] = reduce {agg} ~x[{window}]  output ~y");
                check(&format!("{name} point"), &dtype, &body);
            }
            let body = format!("~y[t every 6] = reduce {agg} ~x[t-9 : t]  output ~y");
            check(&format!("{name} point"), &dtype, &body);
        }
    }
}

#[test]
fn lists_that_loops_pass_on() {
    check(
        "f64 point",
        &DType::F64,
        "~l[t] = reduce collect ~x[t-5 : t] map (if ~x[t] > 0.0 then ~x[t] else null)
         ~y[t] = {now: coalesce(~l[t], ~l.prev(1)), then: hold(~l[t-3]), n: ~x[t],
                  big: if ~x[t] > 30.0 then reduce top_k(2) ~x[t-20 : t] else null}
         output ~y",
    );
    check(
        "f64 point",
        &DType::F64,
        "~l[t every 9] = reduce collect ~x[t-9 : t]
         ~y[t] = reduce last ~l[t-30 : t]
         output ~y",
    );
}
