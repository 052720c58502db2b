//! Every refusal with its exact text.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use tilt_data::{
    Column, DataError, IngressOptions, Layout, SnapshotBuffer, Spans, TIME_LIMIT, TimeColumns,
    Timeline, infer_input, ingest, ingest_chunks, ingest_keyed,
};
use tilt_ir::{DType, Input, Overlap, SpanRule, Unit};

use crate::support::{batch, input, intervals, ints, stamped};

fn refused(rows: &RecordBatch, declared: &Input, unit: Unit, options: &IngressOptions) -> String {
    ingest(rows, declared, unit, options)
        .unwrap_err()
        .to_string()
}

/// For plain ticks in column `t`.
fn stamps(times: &[i64], declared: &Input) -> String {
    refused(
        &stamped(times),
        declared,
        Unit::Tick,
        &IngressOptions::stamp("t"),
    )
}

fn points() -> Input {
    input(DType::F64, SpanRule::Point)
}

fn disjoint(span: SpanRule) -> Input {
    let dtype = if span == SpanRule::Interval {
        DType::I64
    } else {
        DType::F64
    };
    Input {
        overlap: Overlap::Disjoint,
        ..input(dtype, span)
    }
}

#[test]
fn times_out_of_order() {
    assert_eq!(
        stamps(&[1, 5, 4, 0], &points()),
        "time column `t` is not sorted: row 2 (4) comes after row 1 (5); sort the data or set the option `sort`"
    );
    assert_eq!(
        stamps(&[i64::MAX, i64::MIN], &points()),
        "time column `t` is not sorted: row 1 (-9223372036854775808) comes after row 0 (9223372036854775807); sort the data or set the option `sort`"
    );
    let seconds = TimestampSecondArray::from(vec![7, 6]);
    let rows = batch(vec![
        ("t", Arc::new(seconds)),
        ("x", Arc::new(Float64Array::from(vec![0.0; 2]))),
    ]);
    assert_eq!(
        refused(&rows, &points(), Unit::Milli, &IngressOptions::stamp("t")),
        "time column `t` is not sorted: row 1 (6000 ms) comes after row 0 (7000 ms); sort the data or set the option `sort`"
    );
}

#[test]
fn events_that_overlap_though_declared_disjoint() {
    assert_eq!(
        stamps(&[1, 5, 5], &disjoint(SpanRule::Point)),
        "input ~x: row 2 (4, 5] overlaps row 1 (4, 5] (time column `t`); correct the data, or declare overlap=\"bag\", \"first\" or \"last\""
    );
    assert_eq!(
        stamps(&[1, 11, 15], &disjoint(SpanRule::Fixed(10))),
        "input ~x: row 2 (5, 15] overlaps row 1 (1, 11] (time column `t`); correct the data, or declare overlap=\"bag\", \"first\" or \"last\""
    );
    let declared = disjoint(SpanRule::Interval);
    let options = IngressOptions::interval("s", "e");
    assert_eq!(
        refused(
            &intervals(&[(0, 4), (4, 6), (5, 9)]),
            &declared,
            Unit::Tick,
            &options
        ),
        "input ~x: row 2 (5, 9] overlaps row 1 (4, 6] (time column `s`); correct the data, or declare overlap=\"bag\", \"first\" or \"last\""
    );
    // Rows keep the numbers they were given with.
    assert_eq!(
        refused(
            &intervals(&[(0, 40), (5, 9)]),
            &declared,
            Unit::Tick,
            &options.sort()
        ),
        "input ~x: row 0 (0, 40] overlaps row 1 (5, 9] (time column `s`); correct the data, or declare overlap=\"bag\", \"first\" or \"last\""
    );
}

#[test]
fn times_that_are_null() {
    let t = Int64Array::from(vec![Some(1), None, None]);
    let rows = batch(vec![
        ("t", Arc::new(t)),
        ("x", Arc::new(Float64Array::from(vec![0.0; 3]))),
    ]);
    assert_eq!(
        refused(
            &rows,
            &points(),
            Unit::Tick,
            &IngressOptions::stamp("t").sort()
        ),
        "time column `t` is null in row 1; drop such rows or give them a time"
    );
}

#[test]
fn times_beyond_the_limit() {
    assert_eq!(
        stamps(&[0, TIME_LIMIT + 1, TIME_LIMIT + 2], &points()),
        "time column `t`, row 1: 4611686018427387905 is beyond ±2^62 ticks; give the query a coarser unit or correct the row"
    );
    assert_eq!(
        stamps(&[-TIME_LIMIT - 1, 0], &points()),
        "time column `t`, row 0: -4611686018427387905 is beyond ±2^62 ticks; give the query a coarser unit or correct the row"
    );
    let options = IngressOptions::interval("s", "e");
    assert_eq!(
        refused(
            &intervals(&[(0, 1), (i64::MIN, 2)]),
            &input(DType::I64, SpanRule::Interval),
            Unit::Tick,
            &options
        ),
        "time column `s`, row 1: -9223372036854775808 is beyond ±2^62 ticks; give the query a coarser unit or correct the row"
    );
}

#[test]
fn intervals_without_an_instant() {
    let declared = input(DType::I64, SpanRule::Interval);
    for options in [
        IngressOptions::interval("s", "e"),
        IngressOptions::interval("s", "e").closed_left(),
    ] {
        assert_eq!(
            refused(
                &intervals(&[(0, 4), (6, 6)]),
                &declared,
                Unit::Tick,
                &options
            ),
            "row 1: its end `e` (6) is not after its start `s` (6); drop or correct such rows"
        );
    }
}

#[test]
fn rows_off_the_declared_grid() {
    let declared = Input {
        period: Some(10),
        ..points()
    };
    assert_eq!(
        stamps(&[5, 15, 35, 44, 50], &declared),
        "time column `t`, row 3: 44 is not a whole number of periods (10 ticks) after the first row (5); round the column, or do not declare a period"
    );
}

#[test]
fn units_that_do_not_convert() {
    let x: ArrayRef = Arc::new(Float64Array::from(vec![0.0; 2]));
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001]));
    let options = IngressOptions::stamp("t");
    let of = |t: &ArrayRef| batch(vec![("t", Arc::clone(t)), ("x", Arc::clone(&x))]);
    assert_eq!(
        refused(&of(&nanos), &points(), Unit::Micro, &options),
        "time column `t`, row 1: 1001 ns is not a whole number of us; give the query a finer unit or round the column"
    );
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, 10_000_000_000]));
    assert_eq!(
        refused(&of(&seconds), &points(), Unit::Nano, &options),
        "time column `t`, row 1: 10000000000 s does not fit into 64 bits of ns; give the query a coarser unit"
    );
    assert_eq!(
        refused(&of(&seconds), &points(), Unit::Tick, &options),
        "time column `t` (Timestamp(s)) counts s, which does not convert to the query's unit tick; give the query a unit (s, ms, us or ns) or cast the column to Int64"
    );
    assert_eq!(
        refused(&stamped(&[1]), &points(), Unit::Second, &options),
        "time column `t` (Int64) counts tick, which does not convert to the query's unit s; declare the input's unit or cast the column to Timestamp"
    );
}

#[test]
fn columns_that_are_missing_doubled_or_of_the_wrong_type() {
    let rows = batch(vec![
        ("time", ints(&[1])),
        ("price", Arc::new(StringArray::from(vec!["a"]))),
    ]);
    assert_eq!(
        refused(&rows, &points(), Unit::Tick, &IngressOptions::stamp("tme")),
        "there is no column `tme`, did you mean `time`?; the columns are `time` and `price`"
    );
    assert_eq!(
        refused(
            &rows,
            &points(),
            Unit::Tick,
            &IngressOptions::stamp("time").value("volume")
        ),
        "there is no column `volume`; the columns are `time` and `price`"
    );
    assert_eq!(
        refused(
            &rows,
            &points(),
            Unit::Tick,
            &IngressOptions::stamp("price").value("price")
        ),
        "time column `price` has type Utf8; accepted are Timestamp, Date32, Date64, Duration, Int64 and Int32: cast it to one of them"
    );
    assert_eq!(
        refused(&rows, &points(), Unit::Tick, &IngressOptions::stamp("time")),
        "column `price` has type Utf8, but f64 is declared, which accepts Float64: cast the column or change the declaration"
    );
    assert_eq!(
        refused(
            &stamped(&[1]),
            &input(DType::Utf8, SpanRule::Point),
            Unit::Tick,
            &IngressOptions::stamp("t")
        ),
        "column `x` has type Float64, but utf8 is declared, which accepts Utf8, LargeUtf8, Utf8View and dictionaries of them: cast the column or change the declaration"
    );
    assert_eq!(
        refused(
            &stamped(&[1]).project(&[0]).unwrap(),
            &points(),
            Unit::Tick,
            &IngressOptions::stamp("t")
        ),
        "there is no column `x`; the columns are `t`"
    );
    let fields = vec![
        Field::new("t", DataType::Int64, true),
        Field::new("t", DataType::Int64, true),
    ];
    let doubled = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![ints(&[1]), ints(&[1])]);
    assert_eq!(
        refused(
            &doubled.unwrap(),
            &points(),
            Unit::Tick,
            &IngressOptions::stamp("t")
        ),
        "there are several columns `t`; rename all but one"
    );
    let decimals = Decimal128Array::from(vec![1])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let rows = batch(vec![("t", ints(&[1])), ("d", Arc::new(decimals))]);
    assert_eq!(
        infer_input(
            "d",
            &rows,
            SpanRule::Point,
            None,
            &IngressOptions::stamp("t")
        )
        .unwrap_err()
        .to_string(),
        "column `d` has type Decimal128(5, 2), which no stream can have; accepted are booleans, integers, floats, strings, timestamps and durations: cast or leave out the column"
    );
}

#[test]
fn options_that_do_not_fit_the_declaration() {
    let stamp = IngressOptions::stamp("t");
    let interval = IngressOptions::interval("s", "e");
    assert_eq!(
        refused(
            &stamped(&[1]),
            &disjoint(SpanRule::Interval),
            Unit::Tick,
            &stamp
        ),
        "input ~x has intervals, but one time column `t` was named; name the start and the end column"
    );
    assert_eq!(
        refused(&stamped(&[1]), &points(), Unit::Tick, &interval),
        "input ~x has one stamp a row, but the columns `s` and `e` were named; name one time column or declare the input as interval"
    );
    assert_eq!(
        refused(
            &stamped(&[1]),
            &points(),
            Unit::Tick,
            &stamp.clone().closed_left()
        ),
        "input ~x: closed=\"left\" is for intervals given by two columns; leave it out"
    );
    assert_eq!(
        stamps(&[1], &input(DType::F64, SpanRule::Fixed(0))),
        "input ~x: its span of 0 ticks is not between 1 and 2^62"
    );
    assert_eq!(
        stamps(
            &[1],
            &Input {
                period: Some(-5),
                ..points()
            }
        ),
        "input ~x: its period of -5 ticks is not between 1 and 2^62"
    );
    let keyed = |key: Option<&str>| {
        let declared = Input {
            key: key.map(str::to_owned),
            ..points()
        };
        ingest_keyed(&[stamped(&[1])], &declared, Unit::Tick, &stamp)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        keyed(None),
        "input ~x has no key; read it with `ingest` or declare one"
    );
    assert_eq!(
        keyed(Some("k")),
        "input ~x: the key `k` is not a field of f64; add it to the record"
    );
}

#[test]
fn chunks_that_differ() {
    let other = batch(vec![("t", ints(&[9])), ("x", ints(&[1]))]);
    let options = IngressOptions::stamp("t");
    let error = ingest_chunks(
        &[stamped(&[1]), other.clone()],
        &points(),
        Unit::Tick,
        &options,
    );
    assert!(matches!(error, Err(DataError::ValueType { .. })));
    let text = |words: Vec<&str>| {
        batch(vec![
            ("t", ints(&[1])),
            ("x", Arc::new(StringArray::from(words))),
        ])
    };
    let large = batch(vec![
        ("t", ints(&[2])),
        (
            "x",
            Arc::new(arrow_array::LargeStringArray::from(vec!["b"])),
        ),
    ]);
    let declared = input(DType::Utf8, SpanRule::Point);
    assert_eq!(
        ingest_chunks(&[text(vec!["a"]), large], &declared, Unit::Tick, &options)
            .unwrap_err()
            .to_string(),
        "column `x` has type LargeUtf8 in chunk 1, but Utf8 in the chunks before; cast it to one type"
    );
}

#[test]
fn rows_that_cannot_go_out() {
    let point = |t: i64, time: TimeColumns, unit| {
        let timeline = Timeline::explicit(vec![t].into(), Spans::Fixed(1));
        let buffer = SnapshotBuffer::scalar(timeline, Column::new("x", ints(&[1])), unit).unwrap();
        buffer.with_time_columns(time)
    };
    let coarse = point(1_500, TimeColumns::stamp("t", Unit::Second), Unit::Milli);
    assert_eq!(
        coarse
            .to_record_batch(Layout::AsGiven)
            .unwrap_err()
            .to_string(),
        "1500 ms does not fit into the type Timestamp(s) that column `t` came in; choose another layout"
    );
    assert!(coarse.to_record_batch(Layout::Auto).is_ok());
    let doubled = point(1, TimeColumns::stamp("x", Unit::Tick), Unit::Tick);
    assert_eq!(
        doubled
            .to_record_batch(Layout::Auto)
            .unwrap_err()
            .to_string(),
        "there are several columns `x`; rename all but one"
    );
    let timeline = Timeline::explicit(vec![1].into(), Spans::Fixed(1));
    assert_eq!(
        SnapshotBuffer::scalar(timeline, Column::new("x", ints(&[])), Unit::Tick)
            .unwrap_err()
            .to_string(),
        "bug in the caller: x has 0 rows, its timeline 1"
    );
}
