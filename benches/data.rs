//! Ingress and egress against the memory they read.
//!
//! Ingress copies nothing, but looks at every timestamp once: order, range, period. The yardsticks in the same run are a
//! copy of the timestamp column and a plain loop over it. Throughput counts the bytes of the timestamps, of intervals
//! those of starts and ends.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilt::{
    arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray},
    data::{IngressOptions, Layout, SnapshotBuffer, ingest},
    ir::{DType, Field, Input, Overlap, Reach, Span, SpanRule, Unit},
};

/// More than the last level of cache holds: 64 MB a column.
const ROWS: usize = 1 << 23;
/// Keys are grouped by hashing, far from the speed of memory.
const KEYED_ROWS: usize = 1 << 17;

fn input(span: SpanRule, overlap: Overlap) -> Input {
    Input {
        name: "x".to_owned(),
        dtype: DType::F64,
        unit: Unit::Tick,
        span,
        period: None,
        key: None,
        overlap,
    }
}

/// Increasing stamps with gaps of 1 to 8 ticks.
fn irregular(rows: usize) -> Vec<i64> {
    let mut t = 0;
    let gap = |i: usize| 1 + ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as i64;
    let stamps = (0..rows).map(|i| {
        t += gap(i);
        t
    });
    stamps.collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn ints(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn floats(rows: usize) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..rows).map(|i| i as f64)))
}

fn read(rows: &RecordBatch, input: &Input, options: &IngressOptions) -> SnapshotBuffer {
    ingest(rows, input, Unit::Tick, options).unwrap_or_else(|e| panic!("{e}"))
}

fn ingress(criterion: &mut Criterion) {
    let stamps = irregular(ROWS);
    let mut group = criterion.benchmark_group("ingress");
    group.throughput(Throughput::Bytes(8 * ROWS as u64));

    let mut copy = vec![0; ROWS];
    group.bench_function("yardstick/memcpy", |b| {
        b.iter(|| copy.copy_from_slice(black_box(&stamps)));
    });
    group.bench_function("yardstick/loop", |b| {
        b.iter(|| black_box(&stamps).windows(2).all(|w| w[0] <= w[1]));
    });

    let stamp = IngressOptions::stamp("t");
    let irregular = batch(vec![("t", ints(stamps.clone())), ("x", floats(ROWS))]);
    let regular = (0..ROWS as i64).map(|i| 5 * i).collect();
    let regular = batch(vec![("t", ints(regular)), ("x", floats(ROWS))]);
    let points = input(SpanRule::Point, Overlap::Disjoint);
    for (name, rows, input) in [
        ("points", &irregular, &points),
        ("points, a period found", &regular, &points),
        (
            "samples of 10 that overlap",
            &irregular,
            &input(SpanRule::Fixed(10), Overlap::Bag),
        ),
        (
            "until_next",
            &irregular,
            &input(SpanRule::UntilNext, Overlap::Disjoint),
        ),
    ] {
        group.bench_function(name, |b| b.iter(|| read(black_box(rows), input, &stamp)));
    }
    let periodic = Input {
        period: Some(1),
        ..input(SpanRule::Point, Overlap::Disjoint)
    };
    group.bench_function("points on a grid with gaps", |b| {
        b.iter(|| read(black_box(&irregular), &periodic, &stamp));
    });

    group.throughput(Throughput::Bytes(16 * ROWS as u64));
    let starts = stamps.iter().map(|t| t - 1).collect();
    let rows = batch(vec![
        ("s", ints(starts)),
        ("e", ints(stamps)),
        ("x", floats(ROWS)),
    ]);
    let intervals = input(SpanRule::Interval, Overlap::Disjoint);
    let interval = IngressOptions::interval("s", "e");
    group.bench_function("intervals", |b| {
        b.iter(|| read(black_box(&rows), &intervals, &interval));
    });
    group.finish();

    let mut group = criterion.benchmark_group("ingress");
    group.throughput(Throughput::Elements(KEYED_ROWS as u64));
    let keys = (0..KEYED_ROWS).map(|i| format!("key {}", i % 100));
    let rows = batch(vec![
        ("t", ints(self::irregular(KEYED_ROWS))),
        ("k", Arc::new(StringArray::from_iter_values(keys))),
        ("x", floats(KEYED_ROWS)),
    ]);
    let field = |name: &str, dtype| Field {
        name: name.to_owned(),
        dtype,
    };
    let keyed = Input {
        dtype: DType::Record(vec![field("k", DType::Utf8), field("x", DType::F64)]),
        key: Some("k".to_owned()),
        ..input(SpanRule::Point, Overlap::Bag)
    };
    group.bench_function("points of 100 keys", |b| {
        b.iter(|| read(black_box(&rows), &keyed, &stamp));
    });
    group.finish();
}

/// A thousand parts with a lookback, of streams that are searched in different ways.
fn cut(criterion: &mut Criterion) {
    const PARTS: i64 = 1000;
    let rows = batch(vec![("t", ints(irregular(ROWS))), ("x", floats(ROWS))]);
    let read = |span| {
        read(
            &rows,
            &input(span, Overlap::Bag),
            &IngressOptions::stamp("t"),
        )
    };
    let ticks = Reach::Bounded {
        ticks: 200,
        events: 0,
    };
    let events = Reach::Bounded {
        ticks: 200,
        events: 20,
    };
    let mut group = criterion.benchmark_group("cut");
    group.throughput(Throughput::Elements(PARTS as u64));
    for (name, stream, lookback) in [
        ("points", read(SpanRule::Point), ticks),
        ("points, counting events", read(SpanRule::Point), events),
        ("until_next", read(SpanRule::UntilNext), ticks),
    ] {
        let last = stream.hull().expect("events").end;
        group.bench_function(name, |b| {
            b.iter(|| {
                let rows = |part| {
                    let span = Span::new(part * last / PARTS, (part + 1) * last / PARTS);
                    stream.cut(span, lookback, Reach::NONE).len()
                };
                (0..PARTS).map(rows).sum::<usize>()
            });
        });
    }
    group.finish();
}

fn egress(criterion: &mut Criterion) {
    let options = IngressOptions::stamp("t");
    let rows = batch(vec![("t", ints(irregular(ROWS))), ("x", floats(ROWS))]);
    let nulls = (0..ROWS).map(|i| (i % 3 != 0).then_some(i as f64));
    let nulls: ArrayRef = Arc::new(nulls.collect::<Float64Array>());
    let with_nulls = batch(vec![("t", Arc::clone(&rows["t"])), ("x", nulls)]);
    let points = input(SpanRule::Point, Overlap::Disjoint);
    let mut group = criterion.benchmark_group("egress");
    group.throughput(Throughput::Bytes(16 * ROWS as u64));
    for (name, stream) in [
        ("points", read(&rows, &points, &options)),
        (
            "points, a third of them null",
            read(&with_nulls, &points, &options),
        ),
        (
            "until_next",
            read(
                &rows,
                &input(SpanRule::UntilNext, Overlap::Disjoint),
                &options,
            ),
        ),
    ] {
        group.bench_function(name, |b| b.iter(|| stream.to_record_batch(Layout::Auto)));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    targets = ingress, cut, egress
}
criterion_main!(benches);
