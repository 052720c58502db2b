//! From a query's text to an optimised program: what a user waits for before the first row.

use std::{fs, hint::black_box, path::Path, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use tilt::ir::{Lineage, Pipeline, parse, verify};

/// Each stage on the nine queries of `tests/apps`.
fn compile(criterion: &mut Criterion) {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/apps");
    for name in [
        "trend",
        "rsi",
        "normalize",
        "impute",
        "resample",
        "pan_tompkins",
        "vibration",
        "fraud",
        "ysb",
    ] {
        let path = apps.join(format!("{name}.tilt"));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let program = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let pipeline = Pipeline::standard();

        let mut group = criterion.benchmark_group(format!("compile/{name}"));
        group.bench_function("parse", |b| b.iter(|| parse(black_box(&text))));
        group.bench_function("verify", |b| b.iter(|| verify(black_box(&program))));
        group.bench_function("optimize", |b| {
            b.iter(|| {
                let mut program = black_box(&program).clone();
                pipeline.run(&mut program);
                program
            });
        });
        group.bench_function("lineage", |b| b.iter(|| Lineage::new(black_box(&program))));
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300));
    targets = compile
}
criterion_main!(benches);
