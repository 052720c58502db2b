//! What is wrong, where, and what to do.

use std::{fs, sync::Arc};

use tilt_data::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tilt_io::{Format, Scan, TimeRange, WriteOptions, Writer};
use tilt_ir::Unit;

use crate::{directory, name, rows, text, write};

#[track_caller]
fn assert_says(error: &impl std::fmt::Display, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn names_that_lead_nowhere() {
    let directory = directory();
    let open = |name: &str| Scan::open(&[text(&directory.path().join(name))], None);
    let missing = open("none.parquet").unwrap().schema().unwrap_err();
    assert_says(&missing, &["none.parquet", "No such file"]);
    assert_says(
        &open("*.parquet").unwrap_err(),
        &["no file matches", "*.parquet", "check the path"],
    );
    assert_says(
        &open("rows.xlsx").unwrap_err(),
        &["rows.xlsx", "give the format"],
    );
    assert_says(&open("[.parquet").unwrap_err(), &["is not a pattern"]);
    let nothing: [&str; 0] = [];
    assert_says(
        &Scan::open(&nothing, None).unwrap_err(),
        &["no file matches"],
    );
}

#[test]
fn content_of_another_format() {
    let directory = directory();
    for format in [
        Format::Parquet,
        Format::Ipc,
        Format::IpcStream,
        Format::JsonLines,
    ] {
        let path = directory.path().join(name(format));
        for content in [
            "",
            "x",
            "this is no table at all, but a text of some length\n",
        ] {
            fs::write(&path, content).unwrap();
            let scan = Scan::open(&[text(&path)], None).unwrap();
            let failed = scan
                .schema()
                .and_then(|_| scan.batches()?.collect::<Result<Vec<_>, _>>());
            match failed {
                Err(error) => assert_says(&error, &[name(format)]),
                // A file of no lines has no columns.
                Ok(rows) => assert!(rows.is_empty() && format == Format::JsonLines),
            }
        }
    }
}

#[test]
fn a_value_of_another_type_than_the_rows_before() {
    let directory = directory();
    let path = directory.path().join("rows.csv");
    let mut lines = String::from("t,x\n");
    (0..10_001).for_each(|t| lines.push_str(&format!("{t},1\n")));
    fs::write(&path, lines + "10001,high\n").unwrap();
    let scan = Scan::open(&[text(&path)], None).unwrap();
    let error = scan
        .batches()
        .unwrap()
        .find_map(Result::err)
        .expect("an error");
    assert_says(&error, &["rows.csv", "high", "first 10000 rows"]);
}

#[test]
fn columns_that_are_missing_or_differ() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    write(&path("a.parquet"), &rows(1..=3), WriteOptions::default());
    let scan = Scan::open(&[text(&path("a.parquet"))], None).unwrap();
    let error = scan.clone().columns(["prize"]).schema().unwrap_err();
    assert_says(&error, &["a.parquet", "`prize`", "`time`, `value`, `name`"]);
    let unbounded = TimeRange {
        after: None,
        until: None,
        unit: Unit::Tick,
    };
    let error = scan.clone().range(unbounded).batches().unwrap_err();
    assert_says(&error, &["column of times"]);
    let error = scan
        .time("name")
        .range(unbounded)
        .batches()
        .unwrap()
        .next()
        .unwrap()
        .unwrap_err();
    assert_says(&error, &["a.parquet", "`name`", "Utf8"]);

    let other: ArrayRef = Arc::new(Int64Array::from(vec![4]));
    let other =
        RecordBatch::try_from_iter([("time", Arc::clone(&other)), ("value", other)]).unwrap();
    write(&path("b.parquet"), &other, WriteOptions::default());
    let both = Scan::open(&[text(&path("*.parquet"))], None).unwrap();
    assert_says(
        &both.batches().unwrap_err(),
        &["b.parquet", "`time`", "Int64", "a.parquet"],
    );
}

#[test]
fn a_directory_that_is_not_there() {
    let directory = directory();
    let path = directory.path().join("none/rows.parquet");
    let error = Writer::create(&path, &rows([]).schema(), &WriteOptions::default()).unwrap_err();
    assert_says(&error, &["none/rows.parquet", "No such file"]);
}
