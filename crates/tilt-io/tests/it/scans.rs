//! Ranges, patterns, and files in order of time.

use tilt_data::arrow::array::{Array, RecordBatch};
use tilt_io::{Format, Scan, TimeRange, WriteOptions};
use tilt_ir::Unit;

use crate::{directory, join, name, read, rows, text, write};

fn range(after: i64, until: i64) -> TimeRange {
    TimeRange {
        after: Some(after),
        until: Some(until),
        unit: Unit::Milli,
    }
}

fn times(batches: &[RecordBatch]) -> Vec<i64> {
    let all = join(batches);
    let data = all["time"].to_data();
    data.buffer::<i64>(0)[..all.num_rows()].to_vec()
}

#[test]
fn a_range_holds_its_end_and_not_its_start_in_every_format() {
    let directory = directory();
    for format in Format::ALL {
        let path = directory.path().join(name(format));
        write(&path, &rows(1..=100), WriteOptions::default());
        let scan = Scan::open(&[text(&path)], None).unwrap().time("time");
        let found = times(&read(&scan.clone().range(range(10, 13))));
        assert_eq!(found, [11, 12, 13], "{format:?}");
        let seconds = TimeRange {
            after: None,
            until: Some(0),
            unit: Unit::Second,
        };
        assert!(read(&scan.range(seconds)).is_empty(), "{format:?}");
    }
}

#[test]
fn rows_in_no_order_are_chosen_one_by_one() {
    let directory = directory();
    let path = directory.path().join("rows.parquet");
    write(&path, &rows([5, 1, 4, 2, 3]), WriteOptions::default());
    let scan = Scan::open(&[text(&path)], None).unwrap().time("time");
    assert_eq!(times(&read(&scan.range(range(1, 4)))), [4, 2, 3]);
}

#[test]
fn the_column_of_times_need_not_be_asked_for() {
    let directory = directory();
    let path = directory.path().join("rows.parquet");
    write(&path, &rows(1..=10), WriteOptions::default());
    let scan = Scan::open(&[text(&path)], None).unwrap().time("time");
    let found = read(&scan.columns(["value"]).range(range(8, 10)));
    assert_eq!((found[0].num_rows(), found[0].num_columns()), (2, 1));
}

#[test]
fn row_groups_outside_of_the_range_are_not_read() {
    let directory = directory();
    let path = directory.path().join("rows.parquet");
    let options = WriteOptions {
        row_group_rows: Some(10),
        ..WriteOptions::default()
    };
    write(&path, &rows(1..=1000), options);
    // The first row groups are destroyed; their statistics are in the footer.
    let mut bytes = std::fs::read(&path).unwrap();
    let quarter = bytes.len() / 4;
    bytes[4..quarter].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let scan = Scan::open(&[text(&path)], None).unwrap().time("time");
    assert_eq!(
        times(&read(&scan.clone().range(range(900, 905)))),
        [901, 902, 903, 904, 905]
    );
    let error = scan
        .batches()
        .unwrap()
        .find_map(Result::err)
        .expect("an error");
    assert!(
        error.to_string().contains("rows.parquet, row group 0: "),
        "{error}"
    );
}

#[test]
fn several_files_come_in_order_of_their_first_times() {
    let directory = directory();
    for format in Format::ALL {
        let ending = name(format).strip_prefix("rows").unwrap();
        for (file, from) in [("a", 200), ("b", 1), ("c", 100)] {
            let path = directory.path().join(format!("{file}{ending}"));
            write(&path, &rows(from..from + 50), WriteOptions::default());
        }
        let pattern = text(&directory.path().join(format!("*{ending}")));
        let scan = Scan::open(&[pattern], None).unwrap();
        let by_name = times(&read(&scan));
        assert_eq!((by_name[0], by_name.len()), (200, 150), "{format:?}");
        let by_time = times(&read(&scan.clone().time("time")));
        assert!(by_time.is_sorted() && by_time.len() == 150, "{format:?}");
        assert_eq!(
            times(&read(&scan.time("time").range(range(149, 201)))),
            [200, 201]
        );
    }
}
