//! Files in and out.

mod errors;
mod formats;
mod scans;

use std::{path::Path, sync::Arc};

use tempfile::TempDir;
use tilt_data::arrow::array::{
    ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use tilt_io::{Format, Scan, WriteOptions, Writer};

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn text(path: &Path) -> String {
    path.to_str().expect("a name in UTF-8").to_owned()
}

/// Rows with times in milliseconds of UTC, a value that may be missing, and a name.
fn rows(times: impl IntoIterator<Item = i64>) -> RecordBatch {
    let times: Vec<i64> = times.into_iter().collect();
    let values = times
        .iter()
        .map(|t| (t % 3 != 0).then_some(*t as f64 / 2.0));
    let values: ArrayRef = Arc::new(values.collect::<Float64Array>());
    let names = times.iter().map(|t| (t % 5 != 0).then(|| format!("n{t}")));
    let names: ArrayRef = Arc::new(names.collect::<StringArray>());
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(times).with_timezone("UTC"));
    RecordBatch::try_from_iter_with_nullable([
        ("time", times, true),
        ("value", values, true),
        ("name", names, true),
    ])
    .expect("columns of one length")
}

fn write(path: &Path, rows: &RecordBatch, options: WriteOptions) {
    let mut writer = Writer::create(path, &rows.schema(), &options).expect("a writer");
    writer.write(rows).expect("rows are written");
    writer.finish().expect("the file is complete");
}

fn read(scan: &Scan) -> Vec<RecordBatch> {
    let batches = scan.batches().expect("files can be opened");
    batches
        .collect::<Result<_, _>>()
        .expect("files can be read")
}

fn join(batches: &[RecordBatch]) -> RecordBatch {
    let schema = batches[0].schema();
    arrow_select::concat::concat_batches(&schema, batches).expect("batches of one schema")
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Parquet => "rows.parquet",
        Format::Csv => "rows.csv",
        Format::Ipc => "rows.arrow",
        Format::IpcStream => "rows.arrows",
        Format::JsonLines => "rows.jsonl",
    }
}
