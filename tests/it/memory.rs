//! How much memory runs take beside their inputs.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::array::{Float64Array, cast::AsArray, types::Float64Type},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    ir::Unit,
};

use crate::child;

/// Three stages, none of which looks back further than `HALO` rows.
const STAGES: &str =
    "~a[t] = ~x[t] * 2.0  ~b[t] = reduce sum ~a[t-64 : t]  ~y[t] = ~b[t] - ~a[t-32]";
const HALO: usize = 96;
/// Rows of a piece, unless a run says otherwise.
const PIECE: usize = 32_768;

fn points(rows: usize, regular: bool) -> SnapshotBuffer {
    let values: Vec<f64> = (0..rows).map(|i| (i % 101) as f64).collect();
    let timeline = if regular {
        Timeline::regular(1, 1, rows, Spans::Fixed(1))
    } else {
        let stamps: Vec<i64> = (0..rows as i64).map(|i| 4 * i + i % 3).collect();
        Timeline::explicit(stamps.into(), Spans::Fixed(1))
    };
    let column = Column::new("x", Arc::new(Float64Array::from(values)));
    SnapshotBuffer::scalar(timeline, column, Unit::Tick).expect("a column")
}

/// What is in use is counted for the process, so the test has one of its own.
#[test]
fn peak_memory_is_the_output_and_pieces_with_their_halo() {
    if !child::is_child() {
        child::run(
            "memory::peak_memory_is_the_output_and_pieces_with_their_halo",
            &[],
        );
        return;
    }
    for regular in [true, false] {
        let declared = if regular { "point period 1" } else { "point" };
        let text = format!("query q unit tick {{ input ~x: f64 {declared}  {STAGES}  output ~y }}");
        let query = Query::parse(&text).expect("a query").optimize(false);
        let compiled = query.compile().expect("compiles");
        for threads in [1, 2, 8] {
            for rows in [1 << 20, 1 << 22] {
                let inputs = BTreeMap::from([("x".to_owned(), points(rows, regular))]);
                let options = RunOptions::default().threads(threads);
                let (output, stats) = compiled.run_with_stats(&inputs, &options).expect("runs");
                assert_eq!((output.len(), stats.stages.len()), (rows, 3));
                // Values and a bit each, with the room that huge pages leave.
                let result = rows * 8 + rows / 8 + (4 << 20);
                let beside = stats.peak_bytes.saturating_sub(result);
                // Of each stage that is computed: values, validity, times, positions.
                let piece = 3 * 4 * 8 * (PIECE + HALO);
                assert!(
                    beside <= threads * piece,
                    "{rows} rows, {threads} threads: {} bytes, {result} of them the result",
                    stats.peak_bytes
                );
            }
        }
    }
}

/// A running total and so many stages after it, each of which reads the one before. What looks back without end runs stage by stage.
fn chain(stages: usize) -> String {
    let mut text = "~s0[t] = reduce sum ~x[-inf : t]".to_owned();
    for stage in 1..=stages {
        text += &format!("  ~s{stage}[t] = ~s{}[t] * 0.5 + 1.0", stage - 1);
    }
    format!("query q unit tick {{ input ~x: f64 point period 1  {text}  output ~s{stages} }}")
}

#[test]
fn runs_by_stages_keep_what_is_still_read() {
    if !child::is_child() {
        child::run("memory::runs_by_stages_keep_what_is_still_read", &[]);
        return;
    }
    let rows = 1 << 20;
    let inputs = BTreeMap::from([("x".to_owned(), points(rows, true))]);
    // Values and a bit each, with the room that huge pages and whole groups leave. There are two at once: that of a stage, and the one that it reads.
    let result = rows * 8 + rows / 8 + (2 << 20) + (1 << 12);
    for threads in [1, 2] {
        for stages in [2, 4, 12] {
            let query = Query::parse(&chain(stages)).expect("a query");
            let compiled = query.optimize(false).compile().expect("compiles");
            let explained = compiled.explain();
            assert!(explained.contains("stage by stage"), "{explained}");
            let options = RunOptions::default().threads(threads);
            let (output, stats) = compiled.run_with_stats(&inputs, &options).expect("runs");
            assert_eq!((output.len(), stats.stages.len()), (rows, stages + 1));
            let total: f64 = (0..rows).map(|i| (i % 101) as f64).sum();
            let last = (0..stages).fold(total, |value, _| value * 0.5 + 1.0);
            let column = output.columns()[0].array().as_primitive::<Float64Type>();
            assert_eq!(column.value(rows - 1), last);
            assert!(
                stats.peak_bytes <= 2 * result,
                "{stages} stages, {threads} threads: {} bytes, a result has {result}",
                stats.peak_bytes
            );
        }
    }
}
