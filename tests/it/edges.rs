//! Inputs at the edges: nothing, one row, the ends of time, and what is not as declared.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::events_of,
    ir::Unit,
};

const QUERIES: [&str; 6] = [
    "~y[t] = ~x[t] * 2.0",
    "~y[t] = reduce mean ~x[t-10 : t]",
    "~y[t every 10] = reduce sum ~x[t-10 : t]",
    "~y[t every 5] = reduce max ~x[t-100 : t]",
    "~a[t] = ~x[t-1]  ~y[t] = coalesce(~x[t], 0.0) - coalesce(~a[t], 0.0)",
    "~y[t at ~x]: f64 = coalesce(~y.prev(1), 0.0) + ~x[t]",
];

fn query(body: &str) -> Query {
    Query::parse(&format!(
        "query q unit tick {{ input ~x: f64 point  {body}  output ~y }}"
    ))
    .unwrap()
}

fn points(stamps: Vec<i64>, values: ArrayRef) -> BTreeMap<String, SnapshotBuffer> {
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    let x = SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).unwrap();
    BTreeMap::from([("x".to_owned(), x)])
}

fn agree(stamps: &[i64]) {
    let values: Vec<f64> = (0..stamps.len()).map(|i| i as f64 + 0.25).collect();
    let inputs = points(stamps.to_vec(), Arc::new(Float64Array::from(values)));
    for body in QUERIES {
        let compiled = query(body).compile().unwrap();
        let run = |options: RunOptions| compiled.run(&inputs, &options).map_err(|e| e.to_string());
        let oracle = run(RunOptions::default().backend(tilt::Backend::Interpreter));
        for threads in [1, 2] {
            let found = run(RunOptions::default().threads(threads).piece_rows(8));
            match (&oracle, &found) {
                (Ok(a), Ok(b)) => {
                    let (a, b) = (events_of(a).unwrap(), events_of(b).unwrap());
                    assert_eq!(a.len(), b.len(), "{body} on {stamps:?}");
                    assert!(
                        a.iter().zip(&b).all(|(a, b)| a.same(b)),
                        "{body} on {stamps:?}"
                    );
                }
                (a, b) => assert_eq!(a.as_ref().err(), b.as_ref().err(), "{body} on {stamps:?}"),
            }
        }
    }
}

#[test]
fn nothing_and_one_row() {
    agree(&[]);
    agree(&[7]);
}

#[test]
fn the_ends_of_time() {
    agree(&[i64::MIN + 2, i64::MIN + 5]);
    agree(&[i64::MAX - 5, i64::MAX - 2]);
    agree(&[-4_000_000_000_000_000_000, 4_000_000_000_000_000_000]);
}

#[test]
fn what_is_not_as_declared_is_an_error_that_says_so() {
    let compiled = query(QUERIES[0]).compile().unwrap();
    let missing = compiled.run(&BTreeMap::new(), &RunOptions::default());
    assert!(missing.unwrap_err().to_string().contains("~x"));
    let typed = points(vec![1], Arc::new(Int64Array::from(vec![1])));
    let error = compiled.run(&typed, &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("column `x`"), "{error}");
    assert!(Query::parse("query q {").is_err());
}
