//! Every format gives back what was written.

use std::fs;

use tilt_data::arrow::{
    array::{Array, Int64Array, RecordBatch, cast::AsArray, types::Float64Type},
    schema::{DataType, TimeUnit},
};
use tilt_io::{Compression, Format, IoError, Scan, WriteOptions, Writer};

use crate::{directory, join, name, read, rows, text, write};

#[test]
fn every_format_gives_back_rows_nulls_and_time_zones() {
    let directory = directory();
    let rows = rows(1..=200);
    for format in Format::ALL {
        let path = directory.path().join(name(format));
        write(&path, &rows, WriteOptions::default());
        // JSON has no order of columns.
        let scan = Scan::open(&[text(&path)], None)
            .unwrap()
            .columns(["time", "value", "name"]);
        assert_eq!(scan.format(), format);
        assert_eq!(join(&read(&scan)), rows, "{format:?}");
        let small = join(&read(&scan.clone().batch_rows(7)));
        assert_eq!(small, rows, "{format:?}");
        let two = read(&scan.columns(["name", "time"]));
        assert_eq!(join(&two), rows.project(&[2, 0]).unwrap(), "{format:?}");
    }
}

#[test]
fn compressions_that_a_format_has_are_read_back_and_others_refused() {
    let directory = directory();
    let rows = rows(1..=50);
    for format in Format::ALL {
        for compression in Compression::ALL {
            let path = directory.path().join(name(format));
            let options = WriteOptions {
                compression: Some(compression),
                ..WriteOptions::default()
            };
            let allowed = match format {
                Format::Parquet => true,
                Format::Ipc | Format::IpcStream => {
                    matches!(
                        compression,
                        Compression::None | Compression::Zstd | Compression::Lz4
                    )
                }
                Format::Csv | Format::JsonLines => compression == Compression::None,
            };
            if allowed {
                write(&path, &rows, options);
                let scan = Scan::open(&[text(&path)], None).unwrap();
                assert_eq!(join(&read(&scan.columns(["time", "value", "name"]))), rows);
            } else {
                let error = Writer::create(&path, &rows.schema(), &options).unwrap_err();
                assert!(matches!(error, IoError::Compression { .. }), "{error}");
            }
        }
    }
}

#[test]
fn a_mapped_file_is_shared_and_not_copied() {
    let directory = directory();
    let path = directory.path().join("rows.arrow");
    write(&path, &rows(1..=1000), WriteOptions::default());
    let scan = Scan::open(&[text(&path)], None).unwrap();
    let address = |batch: &RecordBatch| {
        let values = batch["value"].as_primitive::<Float64Type>().values();
        values.as_ptr() as usize
    };
    // Two halves of one batch are one allocation: nothing was moved into a new one.
    let halves = read(&scan.batch_rows(500));
    assert_eq!(address(&halves[1]) - address(&halves[0]), 500 * 8);
}

#[test]
fn csv_infers_types_and_times() {
    let directory = directory();
    let path = directory.path().join("rows.csv");
    fs::write(
        &path,
        "day,local,instant,n,x,ok,word,nothing\n\
         2026-01-01,2026-01-01 10:00:00,2026-01-01T10:00:00.5Z,1,1.5,true,a,\n\
         2026-01-02,2026-01-02 10:00:00,2026-01-02T10:00:00+02:00,2,2,false,b,\n",
    )
    .unwrap();
    let scan = Scan::open(&[text(&path)], None).unwrap();
    let schema = scan.schema().unwrap();
    let types: Vec<&DataType> = schema.fields().iter().map(|f| f.data_type()).collect();
    let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let expected = [
        &DataType::Date32,
        &DataType::Timestamp(TimeUnit::Second, None),
        &zoned,
        &DataType::Int64,
        &DataType::Float64,
        &DataType::Boolean,
        &DataType::Utf8,
        &DataType::Utf8,
    ];
    assert_eq!(types, expected);
    let batch = join(&read(&scan));
    // 2026-01-01T10:00:00.5Z and 2026-01-02T08:00:00Z.
    let instants = batch["instant"].to_data();
    assert_eq!(
        instants.buffer::<i64>(0)[..2],
        [1_767_261_600_500, 1_767_340_800_000]
    );
}

#[test]
fn json_infers_times_and_fills_what_a_line_leaves_out() {
    let directory = directory();
    let path = directory.path().join("rows.jsonl");
    fs::write(
        &path,
        "{\"t\": \"2026-01-01T00:00:00Z\", \"n\": 1, \"w\": \"2026-01-01\"}\n{\"t\": \"2026-01-01T00:00:00.25Z\", \"w\": \"soon\"}\n",
    )
    .unwrap();
    let scan = Scan::open(&[text(&path)], None).unwrap();
    let batch = join(&read(&scan));
    let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    assert_eq!(batch["t"].data_type(), &zoned);
    assert_eq!(batch["w"].data_type(), &DataType::Utf8);
    assert_eq!(
        batch["n"].as_ref(),
        &Int64Array::from(vec![Some(1), None]) as &dyn Array
    );
}

#[test]
fn a_file_appears_when_it_is_complete_and_an_older_one_stays_until_then() {
    let directory = directory();
    let path = directory.path().join("rows.parquet");
    write(&path, &rows(1..=3), WriteOptions::default());
    let newer = rows(1..=9);
    let mut writer = Writer::create(&path, &newer.schema(), &WriteOptions::default()).unwrap();
    writer.write(&newer).unwrap();
    let scan = Scan::open(&[text(&path)], None).unwrap();
    assert_eq!(scan.rows().unwrap(), Some(3));
    drop(writer);
    assert_eq!(scan.rows().unwrap(), Some(3));
    write(&path, &newer, WriteOptions::default());
    assert_eq!(scan.rows().unwrap(), Some(9));
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "temporary files are removed");
}

#[test]
fn files_without_rows_have_columns() {
    let directory = directory();
    for format in [Format::Parquet, Format::Ipc, Format::IpcStream] {
        let path = directory.path().join(name(format));
        write(&path, &rows([]), WriteOptions::default());
        let scan = Scan::open(&[text(&path)], None).unwrap();
        assert_eq!(scan.schema().unwrap(), rows([]).schema());
        assert!(read(&scan).is_empty());
    }
}
