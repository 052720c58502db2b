//! Live runs by key whose output is cells of a grid: each key goes on when time has passed the end of a cell.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Compiled, Live, Query, RunOptions,
    arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringArray},
    data::{Column, Layout, SnapshotBuffer, Spans, Timeline},
    ir::Unit,
};

/// Numbers below others that look random.
fn noise(seed: u64) -> impl FnMut(i64) -> i64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) % below as u64) as i64
    }
}

/// Rows of keys that come, are quiet for a while, come again, and go; the time between some is longer than windows are.
fn rows(count: usize, key: &str, seed: u64) -> SnapshotBuffer {
    let mut next = noise(seed);
    let (mut stamps, mut keys, mut values, mut t) = (Vec::new(), Vec::new(), Vec::new(), 100);
    for row in 0..count as i64 {
        t += match next(300) {
            0 => 700,
            _ => next(3),
        };
        stamps.push(t);
        let often = (row / 400) % 3;
        let of_row = if next(4) > 0 {
            often
        } else {
            row / 100 + next(9)
        };
        keys.push((next(50) > 0).then_some(of_row));
        values.push((next(9) > 0).then(|| next(1000) as f64 / 7.0));
    }
    let keys: ArrayRef = if key == "utf8" {
        let words = keys.iter().map(|key| key.map(|key| format!("key {key}")));
        Arc::new(words.collect::<StringArray>())
    } else {
        Arc::new(Int64Array::from(keys))
    };
    let whole = (0..count as i64).map(|row| row * row % 1009);
    let columns = vec![
        Column::new("k", keys),
        Column::new("v", Arc::new(Float64Array::from(values))),
        Column::new("n", Arc::new(Int64Array::from_iter_values(whole))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

fn compiled(key: &str, body: &str) -> Compiled {
    let text = format!(
        "query q unit tick {{ input ~x: {{k: {key}, v: f64, n: i64}} point key k overlap bag ~v[t] = ~x[t].v ~n[t] = ~x[t].n {body} output ~y }}"
    );
    let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    query.compile().expect("compiles")
}

/// The rows of a buffer as texts.
fn listed(buffer: &SnapshotBuffer) -> Vec<String> {
    let batch = buffer.to_record_batch(Layout::Interval).expect("rows");
    let row = |i: usize| format!("{:?}", batch.slice(i, 1).columns());
    (0..batch.num_rows()).map(row).collect()
}

const BODIES: &[&str] = &[
    "~y[t every 20] = reduce mean ~v[t-20 : t]",
    "~y[t every 20] = reduce sum ~v[t-200 : t]",
    "~y[t every 7] = reduce std ~v[t-64 : t] + reduce max ~v[t-30 : t-5]",
    "~y[t every 50 offset 3] = reduce median ~v[t-400 : t]",
    "~l[t every 10] = reduce last ~v[t-35 : t] ~y[t] = if ~l[t] >= 0.0 then {last: ~l[t], many: reduce len ~v[t-35 : t]} else null",
    "~y[t every 20] = reduce sum ~n[t-200 : t]",
    "~y[t every 20] = reduce last ~v[t-3 : t]",
    "~y[t every 20] = reduce mean ~v[#-5 : #]",
    "~w[t every 20] = reduce mean ~v[t-60 : t] ~y[t] = if ~w[t] > 60.0 then ~w[t] else null",
    "~w[t every 20] = reduce mean ~v[t-60 : t] ~y[t every 40] = reduce max ~w[t-120 : t]",
    "~w[t every 5] = reduce mean ~v[t-30 : t] ~y[t every 10] = reduce sum ~v[t-50 : t] - ~w[t-10]",
];

/// Pushes rows a few at a time, with what happens between pushes.
fn pushed(
    compiled: &Compiled,
    rows: &SnapshotBuffer,
    size: usize,
    mut between: impl FnMut(Live, i64) -> Live,
) -> Vec<String> {
    let options = RunOptions::default().threads(1);
    let mut live = compiled.live(&options).expect("a live run");
    let (mut found, mut at) = (Vec::new(), 0);
    while at < rows.len() {
        let len = size.min(rows.len() - at);
        live.push("x", &rows.slice(at, len)).expect("in order");
        at += len;
        found.extend(listed(&live.take().expect("runs")));
        if at < rows.len() {
            live = between(live, rows.event(at).start);
        }
    }
    found.extend(listed(&live.finish(None).expect("runs")));
    found
}

fn expected(compiled: &Compiled, rows: &SnapshotBuffer) -> Vec<String> {
    let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
    let options = RunOptions::default().threads(1);
    listed(&compiled.run(&inputs, &options).expect("runs"))
}

#[test]
fn cells_of_keys_are_those_of_a_run_in_one_go() {
    for (number, body) in BODIES.iter().enumerate() {
        let key = ["i64", "utf8"][number % 2];
        let (compiled, rows) = (compiled(key, body), rows(3000, key, number as u64));
        let expected = expected(&compiled, &rows);
        assert!(expected.len() > 50, "{body}");
        for size in [1, 7, 60, 900] {
            let found = pushed(&compiled, &rows, size, |live, _| live);
            assert_eq!(found, expected, "{size} rows at a time, of {body}");
        }
    }
}

#[test]
fn cells_of_keys_come_as_far_as_is_promised_and_go_on_where_a_state_was_saved() {
    for (number, body) in BODIES.iter().enumerate() {
        let (compiled, rows) = (compiled("i64", body), rows(1500, "i64", number as u64 + 50));
        let expected = expected(&compiled, &rows);
        let mut next = noise(number as u64);
        let options = RunOptions::default().threads(1);
        let mut promised = i64::MIN;
        let found = pushed(&compiled, &rows, 5, |mut live, start| {
            match next(8) {
                0 => {
                    let state = live.save().expect("a state");
                    live = compiled.resume(state, &options).expect("goes on");
                }
                1 | 2 => {
                    promised = promised.max(start - next(30));
                    live.advance("x", promised).expect("an input");
                }
                _ => {}
            }
            live
        });
        assert_eq!(found, expected, "{body}");
    }
}

/// A promise lets cells be told that end after all rows, as soon as it is made.
#[test]
fn cells_after_the_last_row_are_told_when_that_is_promised() {
    for (key, text) in [
        ("", "~y[t every 10] = reduce sum ~x[t-30 : t]"),
        (
            " key k",
            "~v[t] = ~x[t].v ~y[t every 10] = reduce sum ~v[t-30 : t]",
        ),
    ] {
        let dtype = if key.is_empty() {
            "f64"
        } else {
            "{k: i64, v: f64}"
        };
        let text = format!("query q unit tick {{ input ~x: {dtype} point{key} {text} output ~y }}");
        let compiled = Query::parse(&text).expect("a query").compile();
        let compiled = compiled.expect("compiles");
        let options = RunOptions::default().threads(1);
        let mut live = compiled.live(&options).expect("a live run");
        let timeline = Timeline::explicit(vec![5, 15, 31].into(), Spans::Fixed(1));
        let v = Column::new("v", Arc::new(Float64Array::from(vec![1.0, 2.0, 4.0])));
        let rows = if key.is_empty() {
            SnapshotBuffer::scalar(timeline, v, Unit::Tick)
        } else {
            let k = Column::new("k", Arc::new(Int64Array::from(vec![1, 2, 1])));
            SnapshotBuffer::record(timeline, vec![k, v], None, Unit::Tick)
        };
        live.push("x", &rows.expect("as many rows")).expect("taken");
        let mut ends = Vec::new();
        for promised in [31, 40, 45, 52, 400] {
            live.advance("x", promised).expect("an input");
            let told = live.take().expect("runs");
            let told = told.to_record_batch(Layout::Interval).expect("rows");
            let told: &Int64Array = told["end"].as_any().downcast_ref().expect("instants");
            ends.push(told.values().to_vec());
        }
        let all = if key.is_empty() {
            [vec![10, 20, 30], vec![40], vec![], vec![50], vec![60]]
        } else {
            [
                vec![10, 20, 20, 30, 30],
                vec![40, 40],
                vec![],
                vec![50],
                vec![60],
            ]
        };
        assert_eq!(ends, all, "{text}");
        assert!(live.finish(None).expect("runs").is_empty());
    }
}

#[test]
fn cells_read_several_inputs_of_which_one_may_be_behind() {
    let text = "query q unit tick {
        input ~x: {k: i64, v: f64, n: i64} point key k overlap bag
        input ~z: {k: i64, v: f64, n: i64} fixed 12 key k overlap bag
        ~v[t] = ~x[t].v ~w[t] = ~z[t].v
        ~y[t every 20] = reduce sum ~v[t-90 : t] + reduce mean ~w[t-150 : t]
        output ~y }";
    let compiled = Query::parse(text).expect("a query").compile();
    let compiled = compiled.expect("compiles");
    let options = RunOptions::default().threads(1);
    let (x, z) = (rows(2000, "i64", 5), rows(1000, "i64", 6));
    let timeline = Timeline::explicit(z.timeline().ends().to_vec().into(), Spans::Fixed(12));
    let z = SnapshotBuffer::record(timeline, z.columns().to_vec(), None, Unit::Tick);
    let z = z.expect("as many rows");
    let inputs = BTreeMap::from([("x".to_owned(), x.clone()), ("z".to_owned(), z.clone())]);
    let expected = listed(&compiled.run(&inputs, &options).expect("runs"));
    assert!(expected.len() > 50);
    for size in [3, 40] {
        let mut next = noise(size as u64);
        let mut live = compiled.live(&options).expect("a live run");
        let (mut found, mut at) = (Vec::new(), [0, 0]);
        while at[0] < x.len() || at[1] < z.len() {
            let which = next(3).min(1) as usize;
            let (name, of) = [("x", &x), ("z", &z)][which];
            if at[which] == of.len() {
                continue;
            }
            let len = size.min(of.len() - at[which]);
            live.push(name, &of.slice(at[which], len))
                .expect("in order");
            at[which] += len;
            if at[which] == of.len() {
                live.close(name).expect("an input");
            }
            found.extend(listed(&live.take().expect("runs")));
        }
        found.extend(listed(&live.finish(None).expect("runs")));
        assert_eq!(found, expected, "{size} rows at a time");
    }
}
