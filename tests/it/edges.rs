//! Inputs at the edges: nothing, one row, the ends of time, and what is not as declared.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::{
        ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
        types::Int32Type,
    },
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

fn agree(stamps: &[i64], queries: &[&str]) {
    // Sums of these depend on their order.
    let value = |i: usize| (i * 7919 % 101) as f64 / 7.0;
    let values: Vec<f64> = (0..stamps.len()).map(value).collect();
    let inputs = points(stamps.to_vec(), Arc::new(Float64Array::from(values)));
    for body in queries {
        let compiled = query(body).compile().unwrap();
        let run = |options: RunOptions| compiled.run(&inputs, &options).map_err(|e| e.to_string());
        let oracle = run(RunOptions::default().backend(Backend::Interpreter));
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
    agree(&[], &QUERIES);
    agree(&[7], &QUERIES);
}

#[test]
fn the_ends_of_time() {
    agree(&[i64::MIN + 2, i64::MIN + 5], &QUERIES);
    agree(&[i64::MAX - 5, i64::MAX - 2], &QUERIES);
    agree(
        &[-4_000_000_000_000_000_000, 4_000_000_000_000_000_000],
        &QUERIES,
    );
}

#[test]
fn windows_that_the_ends_of_time_make_shorter() {
    let queries = [
        "~y[t] = reduce sum ~x[t-20 : t]",
        "~y[t] = reduce kurtosis ~x[t-20 : t]",
        "~y[t] = reduce mean ~x[t-3 : t+20]",
        "~y[t] = reduce sum ~x[t-9 : t] - reduce slope ~x[t-20 : t+20]",
    ];
    for step in [1, 2, 3] {
        let from = |first: i64| -> Vec<i64> { (0..40).map(|i| first + step * i).collect() };
        agree(&from(i64::MIN + 2), &queries);
        agree(&from(i64::MAX - 2 - step * 40), &queries);
    }
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

/// Nulls of a column of codes: among the codes, among what they stand for, and codes for nothing at all.
#[test]
fn nulls_of_dictionaries() {
    let dictionary = |keys: Vec<Option<i32>>, words: Vec<Option<&str>>| -> ArrayRef {
        let (keys, words) = (Int32Array::from(keys), StringArray::from(words));
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(words)))
    };
    let columns = [
        dictionary(
            vec![Some(0), Some(1), Some(2), Some(1)],
            vec![Some("b"), None, Some("a")],
        ),
        dictionary(vec![None, Some(1), Some(0), Some(1)], vec![Some("a"), None]),
        dictionary(vec![Some(0), Some(0), Some(1), Some(1)], vec![None, None]),
        dictionary(vec![None; 4], Vec::new()),
        dictionary(Vec::new(), Vec::new()),
    ];
    let bodies = [
        "~y[t] = {s: ~x[t].s, n: is_null(~x[t].s), a: ~x[t].s == \"a\"}",
        "~y[t] = {l: reduce last ~x[t-3 : t] map (~x[t].s), n: reduce n_unique ~x[t-3 : t] map (~x[t].s)}",
        "~p[t] = ~x[t].s  ~y[t] = reduce max ~p[t-2 : t]",
    ];
    for (column, body) in columns.iter().flat_map(|c| bodies.map(|body| (c, body))) {
        let text =
            format!("query q unit tick {{ input ~x: {{s: utf8}} point  {body}  output ~y }}");
        let compiled = Query::parse(&text).unwrap().compile().unwrap();
        let rows = |from: usize, to: usize| {
            let stamps: Vec<i64> = (from as i64..to as i64).collect();
            let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
            let column = Column::new("s", column.slice(from, to - from));
            SnapshotBuffer::record(timeline, vec![column], None, Unit::Tick).unwrap()
        };
        let inputs = BTreeMap::from([("x".to_owned(), rows(0, column.len()))]);
        let run = |backend| {
            let output = compiled.run(&inputs, &RunOptions::default().backend(backend));
            events_of(&output.unwrap()).unwrap()
        };
        let right = run(Backend::Interpreter);
        let mut live = compiled.live(&RunOptions::default()).unwrap();
        let mut pushed = Vec::new();
        for row in 0..column.len() {
            live.push("x", &rows(row, row + 1)).unwrap();
            pushed.extend(events_of(&live.take().unwrap()).unwrap());
        }
        pushed.extend(events_of(&live.finish(None).unwrap()).unwrap());
        for found in [run(Backend::Native), run(Backend::Loops), pushed] {
            let same = found.len() == right.len();
            let same = same && found.iter().zip(&right).all(|(a, b)| a.same(b));
            assert!(same, "{text} on {column:?}\n{found:?}\nfor {right:?}");
        }
    }
}
