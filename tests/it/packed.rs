//! Results without rows that have no value: the rows that a table would have, whoever leaves them out.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::array::{
        ArrayRef, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
    },
    data::{IngressOptions, Layout, ingest},
};

/// Long enough for several parts.
const ROWS: usize = 70_001;

/// Rows at times that are regular or not, of columns of several widths.
fn rows(regular: bool) -> RecordBatch {
    let time = |i: usize| 10 * i + if regular { 0 } else { i % 7 };
    let times = Int64Array::from_iter_values((0..ROWS).map(|i| time(i) as i64));
    let x = (0..ROWS).map(|i| (i % 11 > 0).then_some((i % 101) as f64));
    let x: Float64Array = x.collect();
    let n = Int16Array::from_iter_values((0..ROWS).map(|i| (i % 1000) as i16));
    let b: BooleanArray = (0..ROWS).map(|i| Some(i % 3 == 0)).collect();
    let s = StringArray::from_iter_values((0..ROWS).map(|i| format!("{}", i % 13)));
    RecordBatch::try_from_iter([
        ("t", Arc::new(times) as ArrayRef),
        ("x", Arc::new(x)),
        ("n", Arc::new(n)),
        ("b", Arc::new(b)),
        ("s", Arc::new(s)),
    ])
    .expect("columns of one length")
}

fn check(span: &str, body: &str) {
    let text = format!(
        "query q unit tick {{ input ~r: {{x: f64, n: i16, b: bool, s: utf8}} {span}  ~o[t] = {body}  output ~o }}"
    );
    let compiled = Query::parse(&text).expect("a query").compile().unwrap();
    for regular in [true, false] {
        let (_, input) = compiled.program().inputs().next().expect("an input");
        let unit = compiled.program().unit;
        let read = ingest(&rows(regular), input, unit, &IngressOptions::stamp("t"));
        let inputs = BTreeMap::from([("r".to_owned(), read.expect("rows as declared"))]);
        let all = RunOptions::default().threads(1);
        let all = compiled.run(&inputs, &all).expect("a result");
        for layout in [Layout::Auto, Layout::Interval, Layout::AsGiven] {
            let expected = all.to_record_batch(layout).expect("rows");
            assert!(
                expected.num_rows() < ROWS && expected.num_rows() > 0,
                "{body}"
            );
            for threads in [1, 2, 8] {
                let options = RunOptions::default().threads(threads).events_only();
                let found = compiled.run(&inputs, &options).expect("a result");
                let found = found.to_record_batch(layout).expect("rows");
                assert_eq!(found, expected, "{body}, {span}, {threads} threads");
            }
        }
    }
}

#[test]
fn rows_left_out_by_a_run_are_those_that_a_table_leaves_out() {
    for span in ["point", "fixed 3", "until_next"] {
        check(span, "if cast(~r[t].n, i64) > 300 then ~r[t].x else null");
        check(span, "if ~r[t].b then ~r[t].n else null");
        check(span, "if cast(~r[t].n, i64) < 500 then ~r[t].s else null");
        check(span, "if cast(~r[t].n, i64) < 500 then ~r[t] else null");
        // All rows but the first ones.
        check(
            span,
            "reduce kurtosis(fisher, unbiased) ~r[t-100 : t] map (~r[t].n)",
        );
        check(span, "~r.prev(60000)");
    }
}
