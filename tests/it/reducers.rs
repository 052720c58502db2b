//! Custom reducers over windows that hold many groups of places, against the oracle.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::Float64Array,
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::{Event, Options, events_of, run_buffers},
    ir::Unit,
};

/// A reducer whose result tells in which order states were merged: the exact bits of a sum, the first, the last, and the number.
const ORDERED: &str = "reducer ordered(f64) {
    state {s: f64, a: f64, z: f64, n: i64}
    init = {s: 0.0, a: 0.0, z: 0.0, n: 0}
    acc(st, v, from, to) = {s: st.s + v, a: v, z: v, n: st.n + 1}
    merge(o, w) = {s: o.s * 0.75 + w.s, a: o.a, z: w.z, n: o.n + w.n}
    result(st) = st
}";

/// Integers that can be taken out again; a state of floats that nobody takes out.
const EXACT: &str = "reducer exact(f64) {
    state {n: i64, x: i64}
    init = {n: 7, x: 0}
    acc(st, v, from, to) = {n: st.n + coalesce(cast(v * 3.0, i64), 0), x: st.x ^ coalesce(cast(v, i64), 0)}
    deacc(st, v, from, to) = {n: st.n - coalesce(cast(v * 3.0, i64), 0), x: st.x ^ coalesce(cast(v, i64), 0)}
    result(st) = st
}
reducer floats(f64) {
    state {s: f64}
    init = {s: 0.0}
    acc(st, v, from, to) = {s: st.s + v}
    deacc(st, v, from, to) = {s: st.s - v}
    result(st) = st.s
}";

/// As many stamps, with steps of up to `step` ticks.
fn stamps(n: usize, step: u64, start: i64) -> Vec<i64> {
    let mut state = 11u64;
    let mut at = start;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        at += 1 + ((state >> 40) % step) as i64;
        at
    };
    (0..n).map(|_| next()).collect()
}

/// Runs a query over points at these instants: the oracle, both kinds of loops, whole and in pieces, and rows that are pushed.
fn check(text: &str, stamps: &[i64], says: &str) {
    let text =
        format!("query q unit tick {{ {ORDERED} {EXACT} input ~x: f64 point {text} output ~y }}");
    let compiled = Query::parse(&text).unwrap().compile().unwrap();
    let explained = compiled.explain();
    assert!(explained.contains(says), "{explained}");
    let values: Vec<f64> = (0..stamps.len()).map(|i| (i % 97) as f64 + 0.1).collect();
    let column = Column::new("x", Arc::new(Float64Array::from(values)));
    let timeline = Timeline::explicit(stamps.to_vec().into(), Spans::Fixed(1));
    let buffer = SnapshotBuffer::scalar(timeline, column, Unit::Tick).unwrap();
    let inputs = BTreeMap::from([("x".to_owned(), buffer)]);
    let expected = run_buffers(compiled.program(), &inputs, &Options::default()).unwrap();
    let expected = events_of(&expected).unwrap();
    for (backend, rows) in [
        (Backend::Loops, 1 << 20),
        (Backend::Native, 1 << 20),
        (Backend::Native, 64),
        (Backend::Native, 8),
    ] {
        let options = RunOptions::default().backend(backend).piece_rows(rows);
        let found = compiled.run(&inputs, &options).unwrap();
        are_same(&events_of(&found).unwrap(), &expected, &text);
    }
    for size in [1, 13, 300] {
        let mut live = compiled.live(&RunOptions::default().threads(1)).unwrap();
        let mut found = Vec::new();
        for at in (0..stamps.len()).step_by(size) {
            let rows = inputs["x"].slice(at, size.min(stamps.len() - at));
            live.push("x", &rows).unwrap();
            found.extend(events_of(&live.take().unwrap()).unwrap());
        }
        found.extend(events_of(&live.finish(None).unwrap()).unwrap());
        are_same(&found, &expected, &format!("{size} at a time of {text}"));
    }
}

fn are_same(found: &[Event], expected: &[Event], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.same(expected), "{found:?} {expected:?} {what}");
    }
}

const SHARED: &str = "two states of blocks merged for each window";

#[test]
fn windows_share_states() {
    for window in [1, 2, 7, 8, 9, 16, 63, 64, 65, 200, 1000, 100_000] {
        let text = format!("~y[t] = reduce @ordered ~x[t-{window}:t]");
        for start in [0, -3000, i64::MIN + 5] {
            check(&text, &stamps(700, 4, start), SHARED);
        }
    }
}

#[test]
fn windows_into_the_future_and_on_grids() {
    let stamps = stamps(500, 9, -700);
    check("~y[t] = reduce @ordered ~x[t-30:t+25]", &stamps, SHARED);
    check("~y[t] = reduce @ordered ~x[t+3:t+90]", &stamps, SHARED);
    check(
        "~y[t every 7] = reduce @ordered ~x[t-100:t]",
        &stamps,
        SHARED,
    );
    check(
        "~y[t every 100] = reduce @ordered ~x[t-7:t]",
        &stamps,
        SHARED,
    );
    check(
        "~y[t] = reduce @ordered ~x[t-50:t] map (~x[t] * 3.0)",
        &stamps,
        SHARED,
    );
    check("~y[t] = reduce @ordered ~x[t-9:t]", &stamps[..1], SHARED);
}

#[test]
fn windows_that_cannot_share() {
    let stamps = stamps(300, 3, 0);
    let anew = "states merged anew for each window";
    check(
        "~y[t] = reduce @ordered ~x[t-50:t] map (if ~x[t] > 30.0 then ~x[t] else null)",
        &stamps,
        anew,
    );
    check("~y[t] = reduce @ordered ~x[#-20:#]", &stamps, anew);
}

#[test]
fn contributions_are_taken_out_of_integers_only() {
    let stamps = stamps(700, 4, -900);
    let exact = "contributions added and taken out again";
    for window in [1, 9, 200, 100_000] {
        let text = format!("~y[t] = reduce @exact ~x[t-{window}:t]");
        check(&text, &stamps, exact);
        let text = format!(
            "~y[t] = reduce @exact ~x[t-{window}:t+3] map (if ~x[t] > 30.0 then ~x[t] else null)"
        );
        check(&text, &stamps, exact);
    }
    check("~y[t every 40] = reduce @exact ~x[t-3:t]", &stamps, exact);
    let anew = "without merge, folded anew for each window";
    check("~y[t] = reduce @floats ~x[t-40:t]", &stamps, anew);
}
