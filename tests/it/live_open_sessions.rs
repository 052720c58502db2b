//! Live runs and runs over chunks of sessions hold those that have not ended, and give what a run on all rows gives.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use tilt::{
    Compiled, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array},
    data::{Column, Layout, SnapshotBuffer, Spans, Timeline},
    interp::{Options, events_of, run_buffers},
    ir::Unit,
};

use crate::text::format_events;

const ROWS: usize = 6000;
/// A session has this many rows on average, of each of so many keys.
const LENGTH: i64 = 25;
const KEYS: i64 = 5;

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

/// Rows of a key, a double that may be null and an integer. Most are near those before them; of pauses some are longer than a hundred ticks for all keys.
fn record(timeline: Timeline, mut next: impl FnMut(i64) -> i64) -> SnapshotBuffer {
    let rows = timeline.len();
    let keys: Vec<i64> = (0..rows).map(|_| next(KEYS)).collect();
    let doubles = (0..rows).map(|_| (next(6) > 0).then(|| next(1000) as f64 / 7.0));
    let doubles: Float64Array = doubles.collect();
    let integers: Vec<i64> = (0..rows).map(|_| next(10)).collect();
    let columns = vec![
        Column::new("k", Arc::new(Int64Array::from(keys)) as ArrayRef),
        Column::new("a", Arc::new(doubles)),
        Column::new("n", Arc::new(Int64Array::from(integers))),
    ];
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

fn stamps(next: &mut impl FnMut(i64) -> i64) -> Vec<i64> {
    let mut t = 0;
    let stamps = (0..ROWS).map(|_| {
        t += 1 + next(3) + if next(LENGTH) == 0 { 60 + next(200) } else { 0 };
        t
    });
    stamps.collect()
}

pub(crate) fn points(seed: u64) -> SnapshotBuffer {
    let mut next = noise(seed);
    let timeline = Timeline::explicit(stamps(&mut next).into(), Spans::Fixed(1));
    record(timeline, next)
}

/// Intervals of up to forty ticks, in order of their ends.
fn intervals(seed: u64) -> SnapshotBuffer {
    let mut next = noise(seed);
    let ends = stamps(&mut next);
    let starts: Vec<i64> = ends.iter().map(|end| end - 1 - next(40)).collect();
    record(Timeline::intervals(starts.into(), ends.into()), next)
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

fn options(threads: usize) -> RunOptions {
    RunOptions::default().threads(threads)
}

/// What a run in one go gives, if it gives what the oracle does.
fn whole(query: &Compiled, rows: &SnapshotBuffer, text: &str) -> Vec<String> {
    let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
    let found = query.run(&inputs, &options(2)).expect("runs");
    let oracle = run_buffers(query.program(), &inputs, &Options::default());
    let oracle = events_of(&oracle.expect("runs")).expect("events");
    let events = events_of(&found).expect("events");
    assert_eq!(format_events(&oracle), format_events(&events), "{text}");
    listed(&found)
}

/// All that was told of rows that come in pushes of some size, going on from saved states, and the most rows that were held.
fn taken(query: &Compiled, rows: &SnapshotBuffer, size: usize) -> (Vec<String>, usize) {
    let mut live = query.live(&options(1)).expect("a live run");
    let (mut found, mut most, mut at, mut saved) = (Vec::new(), 0, 0, 0);
    let mut next = noise(size as u64);
    while at < rows.len() {
        let len = (1 + next(2 * size as i64) as usize).min(rows.len() - at);
        live.push("x", &rows.slice(at, len)).expect("in order");
        at += len;
        // None is longer than forty ticks.
        let last = rows.event(at - 1).end;
        live.advance("x", last - 40).expect("an input");
        if next(3) > 0 {
            found.extend(listed(&live.take().expect("runs")));
            most = most.max(live.held()[0].rows);
        }
        if at > saved + 700 {
            saved = at;
            let state = live.save().expect("a state");
            live = query.resume(state, &options(1 + at % 3)).expect("goes on");
        }
    }
    found.extend(listed(&live.finish(None).expect("runs")));
    (found, most)
}

/// What reads sessions, with points and with intervals.
const BODIES: [&str; 9] = [
    "~y[t sessions ~x gap 50] = {n: reduce len ~x[event], a: reduce sum ~x[event] map (~x[t].a), hi: reduce max ~x[event] map (~x[t].n)}",
    "~y[t sessions ~x gap 50 max 30] = {n: reduce len ~x[event], a: reduce mean ~x[event] map (~x[t].a), first: reduce first ~x[event] map (~x[t].n)}",
    "~y[t sessions ~x gap 7 max 90] = reduce median ~x[event] map (~x[t].n)",
    "~v[t] = if ~x[t].n > 6 then ~x[t].a else null  ~y[t sessions ~v gap 40] = {n: reduce len ~v[event], all: reduce len ~x[event]}",
    "~y[t sessions ~x gap 50] = {m: reduce mean ~x[t-200 : t] map (~x[t].a), n: reduce len ~x[event]}",
    // Sessions that others read, also after they have ended.
    "~s[t sessions ~x gap 30] = reduce len ~x[event]  ~y[t at ~s] = {s: reduce sum ~s[t-1000 : t], n: reduce len ~x[t-500 : t]}",
    "~s[t sessions ~x gap 30 max 60] = reduce len ~x[event]  ~y[t] = if ~s[t] > 3 then ~s[t] * 2 else null",
    "~s[t sessions ~x gap 30] = reduce sum ~x[event] map (~x[t].a)  ~y[t at ~s] = ~s[t] + coalesce(hold(~s[t-1], 300), 0.0)",
    "~s[t sessions ~x gap 20] = reduce sum ~x[event] map (~x[t].a)  ~r[t sessions ~x gap 45] = reduce len ~x[event]  ~y[t at ~s] = {s: reduce max ~s[t-400 : t], r: coalesce(hold(~r[t-1], 900), 0)}",
];

/// What is wrong with queries on some rows, of which no more than `seen` are in sessions that may be needed.
fn wrong(declared: &str, rows: &SnapshotBuffer, bodies: &[&str], seen: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for body in bodies {
        let text = format!("input ~x: {{k: i64, a: f64, n: i64}} {declared} {body} output ~y");
        let query = compiled(&text);
        let expected = whole(&query, rows, &text);
        assert!(expected.len() > 20, "{text}");
        let live = query.live(&options(1)).expect("a live run");
        if let Some(why) = live.holds_all() {
            wrong.push(format!("{why}: {text}"));
            continue;
        }
        for size in [4, 90, 700] {
            let (found, most) = taken(&query, rows, size);
            if found != expected {
                wrong.push(format!("pushes of about {size} of {text}"));
            }
            // Twice as many as are needed, or what is not worth a look, and what has come since.
            if most > 1024.max(2 * seen) + 4 * size {
                wrong.push(format!("{most} rows: pushes of about {size} of {text}"));
            }
        }
        // Of intervals that overlap, one that is still to come may have begun at any time.
        let sizes: &[usize] = if declared.starts_with("point") {
            &[64, 1500]
        } else {
            &[]
        };
        for size in sizes.iter().copied() {
            let starts = (0..rows.len()).step_by(size);
            let chunks = starts.map(|at| rows.slice(at, size.min(rows.len() - at)));
            let chunks = BTreeMap::from([("x".to_owned(), chunks.map(Ok::<_, Infallible>))]);
            let parts = query.stream(chunks, &options(1).piece_rows(size));
            let parts = parts.unwrap_or_else(|error| panic!("{text}: {error}"));
            let parts: Result<Vec<_>, _> = parts.collect();
            let parts = parts.unwrap_or_else(|error| panic!("{text}: {error}"));
            let found: Vec<String> = parts.iter().flat_map(listed).collect();
            if found != expected || parts.len() < 3 {
                wrong.push(format!("chunks of {size} of {text}"));
            }
        }
    }
    wrong
}

pub(crate) fn check(declared: &str, rows: &SnapshotBuffer, bodies: &[&str], seen: usize) {
    let wrong = wrong(declared, rows, bodies, seen);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sessions_of_points() {
    check("point", &points(1), &BODIES, 900);
}

#[test]
fn sessions_of_intervals() {
    check("interval overlap bag", &intervals(2), &BODIES, 900);
}

#[test]
fn sessions_of_keys() {
    check("point key k", &points(3), &BODIES, 1500);
    check("interval overlap bag key k", &intervals(4), &BODIES, 1500);
}

/// What else looks back without a bound holds all rows, as it did.
#[test]
fn what_reads_all_sessions_holds_all_rows() {
    for body in [
        "~s[t sessions ~x gap 30] = reduce len ~x[event]  ~y[t] = ~s[t] - ~s.prev(1)",
        "~y[t sessions ~x gap 30] = reduce len ~x[-inf : t]",
        "~s[t sessions ~x gap 30] = reduce len ~x[event]  ~c[t at ~x] = coalesce(hold(~s[t], 300), 0)  ~y[t] = ~c.prev(2)",
        "~c[t every 10] = coalesce(hold(~x[t], 5).n, 0)  ~y[t sessions ~c gap 30 max 50] = reduce len ~c[event]",
    ] {
        let text = format!("input ~x: {{k: i64, a: f64, n: i64}} point {body} output ~y");
        let live = compiled(&text).live(&options(1)).expect("a live run");
        assert!(live.holds_all().is_some(), "{text}");
    }
}
