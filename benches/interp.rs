//! The oracle, end to end over Arrow: slow on purpose, but not slower than it was.

use std::{collections::BTreeMap, hint::black_box, sync::Arc, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tilt::{
    arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampMillisecondArray},
    data::{IngressOptions, ingest},
    interp::{Options, run_buffers},
    ir::{optimize, parse},
};

const ROWS: usize = 2_000;

/// The trend query on a price a second, as written and optimised.
fn trend(criterion: &mut Criterion) {
    let program = parse(include_str!("../tests/apps/trend.tilt")).unwrap_or_else(|e| panic!("{e}"));
    let times = (0..ROWS as i64).map(|i| 1000 * i);
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(times));
    let prices = (0..ROWS).map(|i| 100.0 + (i as f64 / 17.0).sin());
    let prices: ArrayRef = Arc::new(Float64Array::from_iter_values(prices));
    let rows = RecordBatch::try_from_iter([("time", times), ("stock", prices)]).expect("a batch");
    let (_, input) = program.inputs().next().expect("an input");
    let options = IngressOptions::stamp("time");
    let stock = ingest(&rows, input, program.unit, &options).expect("a stream");
    let inputs = BTreeMap::from([("stock".to_owned(), stock)]);

    let mut group = criterion.benchmark_group("interp/trend");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, program) in [("written", &program), ("optimised", &optimize(&program))] {
        group.bench_with_input(BenchmarkId::from_parameter(name), program, |b, program| {
            b.iter(|| run_buffers(black_box(program), &inputs, &Options::default()));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    targets = trend
}
criterion_main!(benches);
