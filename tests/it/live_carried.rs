//! Live runs and runs over chunks that carry what they look back to without a bound.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use tilt::{
    Backend, Compiled, Error, LiveError, Query, RunOptions,
    arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, UInt64Array},
    data::{Column, Layout, SnapshotBuffer, Spans, Timeline},
    interp::{Options, events_of, run_buffers},
    ir::Unit,
};

use crate::text::format_events;

const ROWS: usize = 5000;

/// Numbers below others that look random.
fn noise(seed: u64) -> impl FnMut(i64) -> i64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as i64 % below
    }
}

/// Rows of a key, a double, an integer and a flag; values are null now and then from the middle on.
fn rows(seed: u64, most: i64) -> SnapshotBuffer {
    let mut next = noise(seed);
    let (mut stamps, mut t) = (Vec::new(), 0);
    let (mut keys, mut doubles, mut integers, mut flags) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in 0..ROWS {
        t += 1 + next(most);
        stamps.push(t);
        let mut some = || row < ROWS / 2 || next(9) > 0;
        let (a, n, f) = (some(), some(), some());
        keys.push(next(7));
        doubles.push(a.then(|| next(100_000) as f64 / 977.0 - 40.0));
        integers.push(n.then(|| next(1000) - 300));
        flags.push(f.then(|| next(3) > 0));
    }
    let columns = vec![
        Column::new("k", Arc::new(Int64Array::from(keys))),
        Column::new("a", Arc::new(Float64Array::from(doubles))),
        Column::new("n", Arc::new(Int64Array::from(integers))),
        Column::new("f", Arc::new(BooleanArray::from(flags))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

fn compiled(text: &str) -> Compiled {
    let query = Query::parse(&format!("query q unit tick {{ {text} }}"));
    let query = query.unwrap_or_else(|error| panic!("{text}: {error}"));
    query.compile().expect("compiles")
}

/// The rows of a buffer as texts, which tell bits apart.
fn listed(buffer: &SnapshotBuffer) -> Vec<String> {
    let batch = buffer.to_record_batch(Layout::Interval).expect("rows");
    let row = |i: usize| format!("{:?}", batch.slice(i, 1).columns());
    (0..batch.num_rows()).map(row).collect()
}

const INPUT: &str = "input ~x: {k: i64, a: f64, n: i64, f: bool} point";

const BODIES: [&str; 16] = [
    "~y[t] = reduce sum ~x[-inf : t] map (~x[t].a)",
    "~y[t] = reduce mean ~x[-inf : t-7] map (~x[t].a)",
    "~y[t] = {s: reduce sum ~x[-inf : t] map (~x[t].n), m: reduce mean ~x[-inf : t] map (~x[t].n), l: reduce len ~x[-inf : t]}",
    "~y[t] = {lo: reduce min ~x[-inf : t] map (~x[t].a), hi: reduce max ~x[-inf : t] map (~x[t].n), any: reduce any ~x[-inf : t] map (~x[t].f)}",
    "~v[t] = ~x[t].a  ~y[t] = reduce sum ~v[-inf : #]",
    "~v[t] = ~x[t].a  ~y[t] = reduce sum ~v[-inf : #-3]",
    "~y[t every 50] = reduce sum ~x[-inf : t] map (~x[t].a * 2.0)",
    "~y[t]: f64 = 0.9 * coalesce(~y.prev(1), 0.0) + 0.1 * coalesce(~x[t].a, 1.0)",
    "~v[t] = ~x[t].a  ~y[t at ~x]: f64 = if is_null(~v[t]) then null else 0.9 * coalesce(~y.prev(1), 0.0) + ~v[t]",
    "~v[t] = ~x[t].a  ~y[t at ~x]: f64 = if is_null(~v[t]) then null else coalesce(~y.prev(1), 0.0) - 0.3 * coalesce(~y.prev(3), 0.0) + ~v[t]",
    "~y[t at ~x]: bool = coalesce(~x[t].f, true) != coalesce(~y.prev(1), false)",
    "~y[t at ~x]: {n: i64, s: f64} = {n: coalesce(~y.prev(1).n, 0) + 1, s: coalesce(~y.prev(2).s, 0.0) + coalesce(~x[t].a, 0.0)}",
    "~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) + coalesce(~x[t].a, 0.0)  ~y[t at ~x] = reduce max ~low[-inf : t] - reduce mean ~low[t-40 : t]",
    "~v[t] = ~x[t].a  ~d[t] = ~v[t] - ~v.prev(1)  ~y[t] = reduce sum ~d[-inf : t]",
    "~m[t every 20] = reduce mean ~x[t-20 : t] map (~x[t].a)  ~y[t every 20]: f64 = 0.8 * coalesce(~y[t-20], 0.0) + coalesce(~m[t], 0.0)",
    "~s[t] = reduce sum ~x[-inf : t] map (~x[t].n)  ~y[t] = ~s[t] - ~s.prev(5)",
];

/// Takes rows in pushes of some size, goes on from saved states, and gives all that was told with the sizes of these states and the most rows held.
fn taken(
    query: &Compiled,
    rows: &SnapshotBuffer,
    size: usize,
) -> Result<(Vec<String>, Vec<usize>, usize), String> {
    let options = |threads| RunOptions::default().threads(threads);
    let mut live = query.live(&options(1)).expect("a live run");
    if let Some(why) = live.holds_all() {
        return Err(why.to_owned());
    }
    let (mut found, mut sizes, mut most) = (Vec::new(), Vec::new(), 0);
    let (mut at, mut saved) = (0, 0);
    let mut next = noise(size as u64);
    while at < rows.len() {
        let len = (1 + next(2 * size as i64) as usize).min(rows.len() - at);
        live.push("x", &rows.slice(at, len)).expect("in order");
        at += len;
        if next(3) > 0 {
            found.extend(listed(&live.take().map_err(|error| error.to_string())?));
            most = most.max(live.held()[0].rows);
        }
        if at > saved + 700 {
            saved = at;
            if next(2) > 0 {
                found.extend(listed(&live.take().map_err(|error| error.to_string())?));
                let state = live.save().expect("a state");
                sizes.extend(state.carried.as_ref().map(Vec::len));
            }
            let state = live.save().expect("a state");
            live = query.resume(state, &options(1 + at % 3)).expect("goes on");
        }
    }
    found.extend(listed(&live.finish(None).expect("runs")));
    Ok((found, sizes, most))
}

/// What is wrong with a query on some rows.
fn wrong(text: &str, rows: &SnapshotBuffer) -> Vec<String> {
    let query = compiled(text);
    let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
    let options = RunOptions::default().threads(1);
    let expected = listed(&query.run(&inputs, &options).expect("runs"));
    let mut wrong = Vec::new();
    for size in [3, 90, 700] {
        let (found, sizes, most) = match taken(&query, rows, size) {
            Ok(taken) => taken,
            Err(why) => {
                wrong.push(format!("{why}: pushes of about {size} of {text}"));
                continue;
            }
        };
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(row) = first {
            let (found, expected) = (&found[row], &expected[row]);
            wrong.push(format!(
                "row {row} is {found} and not {expected}: pushes of about {size} of {text}"
            ));
        } else if found.len() != expected.len() {
            wrong.push(format!("too few rows: pushes of about {size} of {text}"));
        }
        // States do not grow.
        let largest = sizes.iter().max().copied().unwrap_or(0);
        let first = sizes.first().copied().unwrap_or(0);
        if largest > first + 3000 || most > 2048 + 4 * size {
            wrong.push(format!(
                "states of {sizes:?} bytes, {most} rows: pushes of about {size} of {text}"
            ));
        }
    }
    wrong
}

#[test]
fn what_is_carried_gives_what_a_run_in_one_go_gives() {
    let rows = rows(1, 4);
    let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
    let mut all = Vec::new();
    for body in BODIES {
        let text = format!("{INPUT} {body} output ~y");
        let query = compiled(&text);
        let options = RunOptions::default().threads(1);
        let found = query.run(&inputs, &options).expect("runs");
        let oracle = run_buffers(query.program(), &inputs, &Options::default());
        let oracle = events_of(&oracle.expect("runs")).expect("events");
        let found = events_of(&found).expect("events");
        assert_eq!(format_events(&oracle), format_events(&found), "{text}");
        all.extend(wrong(&text, &rows));
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn each_key_carries_its_own() {
    let rows = rows(2, 2);
    let mut all = Vec::new();
    for body in [
        "~v[t] = ~x[t].a  ~y[t] = reduce sum ~v[-inf : t]",
        "~v[t] = ~x[t].n  ~y[t] = {m: reduce mean ~v[-inf : t], hi: reduce max ~v[-inf : t]}",
        "~y[t at ~x]: f64 = 0.9 * coalesce(~y.prev(1), 0.0) + 0.1 * coalesce(~x[t].a, 1.0)",
        "~v[t] = ~x[t].a  ~y[t at ~x]: f64 = if is_null(~v[t]) then null else 0.9 * coalesce(~y.prev(1), 0.0) + ~v[t]",
    ] {
        all.extend(wrong(&format!("{INPUT} key k {body} output ~y"), &rows));
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn chunks_go_on_with_what_is_carried() {
    let rows = rows(3, 4);
    let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
    for (key, bodies) in [("", &BODIES[..]), ("key k", &BODIES[7..8])] {
        for body in bodies {
            let text = format!("{INPUT} {key} {body} output ~y");
            let query = compiled(&text);
            let options = RunOptions::default().threads(1);
            let expected = listed(&query.run(&inputs, &options).expect("runs"));
            for size in [64, 1500] {
                let starts = (0..rows.len()).step_by(size);
                let chunks = starts.map(|at| rows.slice(at, size.min(rows.len() - at)));
                let chunks = chunks.map(Ok::<_, Infallible>);
                let chunks = BTreeMap::from([("x".to_owned(), chunks)]);
                let parts = query.stream(chunks, &options);
                let parts = parts.unwrap_or_else(|error| panic!("{text}: {error}"));
                let parts: Result<Vec<_>, _> = parts.collect();
                let parts = parts.unwrap_or_else(|error| panic!("{text}: {error}"));
                let found: Vec<String> = parts.iter().flat_map(listed).collect();
                assert!(found == expected, "chunks of {size} of {text}");
                assert!(parts.len() > 2, "{text}");
            }
        }
    }
}

/// Rows of integers that look random, below so many by their magnitudes, signed ones and unsigned ones.
fn large_rows(most: i64) -> SnapshotBuffer {
    let mut next = noise(5);
    let stamps: Vec<i64> = (1..=ROWS as i64).collect();
    let keys: Vec<i64> = stamps.iter().map(|_| next(3)).collect();
    let step = most >> 30;
    let signed = stamps.iter().map(|_| (next(1 << 31) - (1 << 30)) * step);
    let signed: Vec<i64> = signed.collect();
    let unsigned = signed.iter().map(|n| n.unsigned_abs() / 16);
    let columns = vec![
        Column::new("k", Arc::new(Int64Array::from(keys))),
        Column::new("u", Arc::new(UInt64Array::from_iter_values(unsigned))),
        Column::new("n", Arc::new(Int64Array::from(signed))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

const LARGE: &str = "input ~x: {k: i64, u: u64, n: i64} point";

#[test]
fn totals_that_fit_are_told_however_much_their_rows_could_add() {
    // 5000 rows below 2⁵⁴ may come to 67 bits; these do not.
    let rows = large_rows(1 << 54);
    let mut all = Vec::new();
    for body in [
        "~y[t] = {s: reduce sum ~x[-inf : t] map (~x[t].n), m: reduce mean ~x[-inf : t-3] map (~x[t].n)}",
        "~y[t] = reduce sum ~x[-inf : t] map (~x[t].n / 2 * 2 + 1)",
        "~v[t] = ~x[t].n  ~y[t] = reduce sum ~v[-inf : #]",
        "~y[t every 50] = reduce sum ~x[-inf : t] map (~x[t].n)",
        "~y[t] = reduce sum ~x[-inf : t] map (~x[t].u)",
    ] {
        all.extend(wrong(&format!("{LARGE} {body} output ~y"), &rows));
    }
    let by_key = "~v[t] = ~x[t].n  ~y[t] = reduce sum ~v[-inf : t]";
    all.extend(wrong(&format!("{LARGE} key k {by_key} output ~y"), &rows));
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn a_total_may_be_the_largest_number_and_no_larger() {
    for (dtype, most) in [
        ("i64", i64::MAX as u64),
        ("i64", i64::MIN as u64),
        ("u64", u64::MAX),
    ] {
        let text = format!("input ~x: {dtype} point ~y[t] = reduce sum ~x[-inf : t] output ~y");
        let query = compiled(&text);
        let mut live = query.live(&RunOptions::default()).expect("a live run");
        let step = if most as i64 == i64::MIN && dtype == "i64" {
            -1_i64 as u64
        } else {
            1
        };
        for (t, value) in [(1, step), (2, most.wrapping_sub(step)), (3, 0), (4, step)] {
            let values: ArrayRef = match dtype {
                "u64" => Arc::new(UInt64Array::from(vec![value])),
                _ => Arc::new(Int64Array::from(vec![value as i64])),
            };
            let timeline = Timeline::explicit(vec![t].into(), Spans::Fixed(1));
            let rows = SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick);
            live.push("x", &rows.expect("a row")).expect("in order");
            let told = live.take();
            let fits = t < 4;
            assert_eq!(told.is_ok(), fits, "{text} of {value} at {t}");
            if let Err(error) = told {
                let is_unsettled = matches!(error, Error::Live(LiveError::Unsettled { .. }));
                assert!(is_unsettled, "{error}");
            }
        }
    }
}

#[test]
fn what_cannot_be_settled_by_what_is_carried_ends_the_run() {
    let query = compiled("input ~x: i64 point ~y[t] = reduce sum ~x[-inf : t] output ~y");
    let mut live = query.live(&RunOptions::default()).expect("a live run");
    let push = |live: &mut tilt::Live, t: i64, value: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let timeline = Timeline::explicit(vec![t].into(), Spans::Fixed(1));
        let rows = SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick);
        live.push("x", &rows.expect("a row")).expect("in order");
    };
    push(&mut live, 1, 7);
    live.take().expect("runs");
    for t in 2..4 {
        push(&mut live, t, i64::MAX);
        let error = live.take().expect_err("too large");
        let is_unsettled = matches!(error, Error::Live(LiveError::Unsettled { .. }));
        assert!(is_unsettled, "{error}");
        let text = "the run met an integer total that may not fit into 64 bits, and carries what came before instead of all its rows, so that nothing else can settle \
                    it; a run on all rows can";
        assert_eq!(error.to_string(), text);
    }
    live.save().expect_err("nothing to go on with");
}

#[test]
fn what_another_plan_carried_is_refused() {
    let rows = rows(4, 4);
    let query = |body: &str| compiled(&format!("{INPUT} {body} output ~y"));
    let sum = query(BODIES[0]);
    let mut live = sum.live(&RunOptions::default()).expect("a live run");
    live.push("x", &rows).expect("in order");
    live.take().expect("runs");
    let state = live.save().expect("a state");
    let options = RunOptions::default();
    sum.resume(state.clone(), &options).expect("goes on");
    let refused = |query: &Compiled, state, options: &RunOptions| {
        let error = query.resume(state, options).expect_err("refused");
        assert!(matches!(error, Error::Live(LiveError::Carried)), "{error}");
    };
    refused(&query(BODIES[7]), state.clone(), &options);
    let interpreted = options.clone().backend(Backend::Interpreter);
    refused(&sum, state.clone(), &interpreted);
    let mut short = state.clone();
    short.carried.as_mut().expect("bytes").pop();
    refused(&sum, short, &options);
    let mut long = state;
    long.carried.as_mut().expect("bytes").push(0);
    refused(&sum, long, &options);
}
