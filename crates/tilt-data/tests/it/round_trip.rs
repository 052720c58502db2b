//! Batch to buffer to batch, for every rule and type, and what is shared on the way.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, Date64Array, DurationNanosecondArray, Int32Array, Int64Array,
    RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, cast::AsArray, types::Int64Type,
};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, TimeUnit};
use tilt_data::{
    EgressOptions, IngressOptions, Layout, SnapshotBuffer, Spans, Timeline, infer_input, ingest,
};
use tilt_ir::{DType, Span, SpanRule, Unit};

use crate::support::{Rng, batch, column_of_every_type, events, ints, stamped, stream};

const AS_GIVEN: EgressOptions = EgressOptions {
    layout: Layout::AsGiven,
    keep_null: true,
};

/// Every rule with its options.
fn rules() -> Vec<(SpanRule, IngressOptions)> {
    let stamp = || IngressOptions::stamp("t");
    let interval = || IngressOptions::interval("s", "t");
    vec![
        (SpanRule::Point, stamp()),
        (SpanRule::Fixed(5), stamp()),
        (SpanRule::UntilNext, stamp()),
        (SpanRule::Interval, interval()),
        (SpanRule::Interval, interval().closed_left()),
    ]
}

/// The time columns first, and only `columns` besides.
fn select(batch: &RecordBatch, options: &IngressOptions, columns: &[&str]) -> RecordBatch {
    let mut names = match &options.time {
        tilt_data::TimeNames::Stamp(t) => vec![t.as_str()],
        tilt_data::TimeNames::Interval(s, e) => vec![s.as_str(), e.as_str()],
    };
    names.extend(columns);
    let indices: Vec<usize> = names
        .iter()
        .map(|n| batch.schema_ref().index_of(n).unwrap())
        .collect();
    batch.project(&indices).unwrap()
}

#[test]
fn every_type_and_rule_comes_back_as_it_went_in_also_sliced_at_odd_offsets() {
    let mut rng = Rng(2);
    for round in 0..40 {
        let len = [0, 1, 2, 9, 70][round % 5];
        let mut t = [-50, 1_700_000_000_000_000_000, -4_000_000_000_000_000_000][round % 3];
        let times: Vec<i64> = (0..len)
            .map(|_| {
                t += rng.range(1, 9);
                t
            })
            .collect();
        let starts: Vec<i64> = times.iter().map(|t| t - rng.range(1, 9)).collect();
        let values = column_of_every_type(len, &mut rng);
        let names: Vec<&str> = values.iter().map(|(n, _)| *n).collect();
        let mut columns = vec![("s", ints(&starts)), ("t", ints(&times))];
        columns.extend(values);
        let mut whole = batch(columns);
        if len > 3 {
            let offset = rng.range(1, 3) as usize;
            whole = whole.slice(offset, len - offset - 1);
        }
        for (span, options) in rules() {
            let given = select(&whole, &options, &names);
            let mut declared = infer_input("all", &given, span, None, &options).unwrap();
            declared.period = None;
            declared.overlap = tilt_ir::Overlap::Bag;
            let buffer = ingest(&given, &declared, Unit::Tick, &options).unwrap();
            assert_eq!(buffer.dtype(), Some(declared.dtype.clone()));
            assert_eq!(buffer.to_record_batch(AS_GIVEN).unwrap(), given);

            for name in &names {
                let given = select(&given, &options, &[name]);
                let mut scalar = declared.clone();
                scalar.dtype = declared.dtype.field(name).unwrap().clone();
                let buffer = ingest(&given, &scalar, Unit::Tick, &options).unwrap();
                assert_eq!(buffer.to_record_batch(AS_GIVEN).unwrap(), given, "{name}");
                let values = given.column(given.num_columns() - 1);
                assert_eq!(buffer.null_rows(), values.logical_null_count(), "{name}");
                for i in 0..given.num_rows() {
                    assert_eq!(buffer.is_valid(i), values.is_valid(i), "{name}");
                }
                let dense = buffer.to_record_batch(Layout::Auto).unwrap();
                assert_eq!(
                    dense.num_rows(),
                    given.num_rows() - values.logical_null_count()
                );
            }
        }
    }
}

fn pointers(array: &dyn Array) -> Vec<*const u8> {
    array
        .to_data()
        .buffers()
        .iter()
        .map(Buffer::as_ptr)
        .collect()
}

#[test]
fn nothing_is_copied_on_the_way_in_or_out() {
    let micros = |v: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(v).with_timezone("UTC"));
    let mut rng = Rng(3);
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("s", micros(vec![0, 1, 3, 5, 10, 11, 15])),
        ("t", micros(vec![1, 2, 4, 8, 11, 15, 30])),
    ];
    columns.extend(column_of_every_type(7, &mut rng));
    let whole = batch(columns).slice(1, 5);
    let names: Vec<String> = whole.schema_ref().fields()[2..]
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (span, options) in rules() {
        let given = select(&whole, &options, &names);
        let mut declared = infer_input("all", &given, span, None, &options).unwrap();
        declared.overlap = tilt_ir::Overlap::Bag;
        declared.period = None;
        let buffer = ingest(&given, &declared, Unit::Micro, &options).unwrap();
        for name in &names {
            let inside = buffer.column(name).unwrap().array();
            let outside = given.column_by_name(name).unwrap();
            assert_eq!(pointers(inside), pointers(outside), "{span:?} {name}");
        }
        let rows = buffer.to_record_batch(AS_GIVEN).unwrap();
        assert_eq!(rows, given);
        for (before, after) in given.columns().iter().zip(rows.columns()) {
            assert_eq!(pointers(before), pointers(after), "{span:?}");
        }
        // A cut and the layouts that need no other times share them, too.
        let rows = buffer.slice(1, 3).to_record_batch(Layout::Auto).unwrap();
        assert_eq!(
            pointers(rows.column(rows.num_columns() - 1)),
            pointers(&given.column(given.num_columns() - 1).slice(1, 3))
        );
        if matches!(span, SpanRule::Point | SpanRule::Fixed(_)) {
            assert_eq!(
                pointers(rows.column(0)),
                pointers(&given.column(0).slice(1, 3))
            );
        }
        if span == SpanRule::Interval && !options.closed_left {
            assert_eq!(
                pointers(rows.column(0)),
                pointers(&given.column(0).slice(1, 3))
            );
            assert_eq!(
                pointers(rows.column(1)),
                pointers(&given.column(1).slice(1, 3))
            );
        }
    }
}

#[test]
fn closed_left_intervals_are_shifted_by_one_tick_without_copying() {
    let given = batch(vec![
        ("s", ints(&[0, 4])),
        ("t", ints(&[4, 9])),
        ("x", ints(&[1, 2])),
    ]);
    let options = IngressOptions::interval("s", "t").closed_left();
    let declared = infer_input("x", &given, SpanRule::Interval, None, &options).unwrap();
    let buffer = ingest(&given, &declared, Unit::Tick, &options).unwrap();
    assert_eq!(events(&buffer), [Span::new(-1, 3), Span::new(3, 8)]);
    let rows = buffer.to_record_batch(Layout::Auto).unwrap();
    let column = |i: usize| rows.column(i).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!((column(0), column(1)), (vec![-1, 3], vec![3, 8]));
    let gathered = buffer.gather(&[1]).unwrap();
    assert_eq!(events(&gathered), [Span::new(3, 8)]);
    assert_eq!(
        gathered.to_record_batch(AS_GIVEN).unwrap(),
        given.slice(1, 1)
    );
}

#[test]
fn every_time_type_converts_to_the_querys_unit_and_comes_back() {
    let seconds = |v: &[i64], f: i64| v.iter().map(|s| s * f).collect::<Vec<i64>>();
    let day = 86_400;
    let at = [-3 * day, 0, day, 19_000 * day];
    let columns: Vec<(ArrayRef, bool)> = vec![
        (Arc::new(TimestampSecondArray::from(at.to_vec())), true),
        (
            Arc::new(TimestampMillisecondArray::from(seconds(&at, 1_000))),
            false,
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(seconds(&at, 1_000_000))),
            false,
        ),
        (
            Arc::new(
                TimestampNanosecondArray::from(seconds(&at, 1_000_000_000))
                    .with_timezone("Asia/Tokyo"),
            ),
            false,
        ),
        (
            Arc::new(DurationNanosecondArray::from(seconds(&at, 1_000_000_000))),
            false,
        ),
        (Arc::new(Date32Array::from(vec![-3, 0, 1, 19_000])), false),
        (Arc::new(Date64Array::from(seconds(&at, 1_000))), false),
        (Arc::new(Int64Array::from(at.to_vec())), true),
        (
            Arc::new(Int32Array::from(at.map(|t| t as i32).to_vec())),
            true,
        ),
    ];
    for (column, seconds) in columns {
        let data_type = column.data_type().clone();
        let given = batch(vec![("when", column), ("x", ints(&[1, 2, 3, 4]))]);
        let options = IngressOptions::stamp("when");
        let mut declared = infer_input("x", &given, SpanRule::Point, None, &options).unwrap();
        if data_type.is_integer() {
            declared.unit = Unit::Second;
        }
        assert_eq!(
            declared.unit == Unit::Second,
            seconds || data_type == DataType::Date32
        );
        let buffer = ingest(&given, &declared, Unit::Second, &options).unwrap();
        let ends: Vec<i64> = events(&buffer).iter().map(|e| e.end).collect();
        assert_eq!(ends, at, "{data_type}");
        assert_eq!(
            buffer.to_record_batch(AS_GIVEN).unwrap(),
            given,
            "{data_type}"
        );

        let out = buffer.to_record_batch(Layout::Auto).unwrap();
        let expected = match &data_type {
            DataType::Timestamp(_, tz) => DataType::Timestamp(TimeUnit::Second, tz.clone()),
            DataType::Duration(_) => DataType::Duration(TimeUnit::Second),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Second, None),
            _ => DataType::Int64,
        };
        assert_eq!(out.column(0).data_type(), &expected);
        assert_eq!(out.schema_ref().field(0).name(), "when");
        assert_eq!(
            buffer.tz(),
            match &data_type {
                DataType::Timestamp(_, tz) => tz.as_deref(),
                _ => None,
            }
        );
    }
}

#[test]
fn layouts_name_their_columns_by_the_declaration_not_by_the_data() {
    let names = |buffer: &SnapshotBuffer, layout| -> Vec<String> {
        let rows = buffer.to_record_batch(layout).unwrap();
        rows.schema_ref()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect()
    };
    let points = stream(&[1, 5, 6], SpanRule::Point);
    assert_eq!(names(&points, Layout::Auto), ["t", "x"]);
    assert_eq!(names(&points, Layout::Interval), ["start", "end", "x"]);
    let held = stream(&[1, 5, 6], SpanRule::UntilNext);
    assert_eq!(names(&held, Layout::Auto), ["start", "end", "x"]);
    assert_eq!(names(&held, Layout::Point), ["t", "x"]);
    assert_eq!(names(&held, Layout::AsGiven), ["t", "x"]);
    // Intervals that happen to be periodic stay intervals.
    let periodic = crate::support::interval_stream(&[(0, 5), (5, 10)]);
    assert_eq!(periodic.timeline().period(), Some(5));
    assert_eq!(names(&periodic, Layout::Auto), ["s", "e", "x"]);
    assert_eq!(names(&periodic, Layout::Point), ["e", "x"]);
}

#[test]
fn an_end_that_is_not_known_is_null_and_replaced_rows_are_no_rows() {
    let held = stream(&[1, 5, 5], SpanRule::UntilNext);
    let rows = held.to_record_batch(Layout::Auto).unwrap();
    assert_eq!(rows.num_rows(), 2);
    let ends = rows.column(1).as_primitive::<Int64Type>();
    assert_eq!(ends.iter().collect::<Vec<_>>(), [Some(4), None]);
    let closed = held.close(9).to_record_batch(Layout::Auto).unwrap();
    let ends = closed.column(1).as_primitive::<Int64Type>();
    assert_eq!(ends.iter().collect::<Vec<_>>(), [Some(4), Some(9)]);
    assert!(!closed.schema_ref().field(1).is_nullable());
    assert_eq!(held.to_record_batch(AS_GIVEN).unwrap(), stamped(&[1, 5, 5]));
}

#[test]
fn a_masked_record_keeps_its_timeline_and_loses_its_rows() {
    use arrow_array::BooleanArray;
    use arrow_buffer::NullBuffer;
    use tilt_data::Column;

    let columns = vec![
        Column::new("a", ints(&[1, 2, 3])),
        Column::new("b", ints(&[4, 5, 6])),
    ];
    let timeline = Timeline::regular(10, 10, 3, Spans::Fixed(10));
    let record = SnapshotBuffer::record(timeline, columns, None, Unit::Second).unwrap();
    let keep = BooleanArray::from(vec![Some(true), None, Some(false)]);
    let masked = record.masked(&keep).unwrap();
    assert_eq!((masked.len(), masked.null_rows()), (3, 2));
    assert_eq!(masked.positions().collect::<Vec<_>>(), [0]);
    assert_eq!(masked.to_record_batch(Layout::Auto).unwrap().num_rows(), 1);
    let nulls = masked
        .to_record_batch(EgressOptions {
            keep_null: true,
            ..EgressOptions::default()
        })
        .unwrap();
    assert_eq!(
        nulls.column_by_name("b").unwrap().logical_nulls(),
        Some(NullBuffer::from(vec![true, false, false]))
    );
    assert_eq!(
        nulls.column(0).data_type(),
        &DataType::Timestamp(TimeUnit::Second, None)
    );
    assert_eq!(nulls.schema_ref().field(0).name(), "time");

    let scalar = stream(&[1, 2, 9], SpanRule::Point).masked(&keep).unwrap();
    assert_eq!(
        (scalar.null_rows(), scalar.columns()[0].array().null_count()),
        (2, 2)
    );
}

#[test]
fn filter_and_gather_keep_the_intervals_events_had() {
    use arrow_array::BooleanArray;

    let held = stream(&[1, 5, 5, 9], SpanRule::UntilNext).close(20);
    let kept = held
        .filter(&BooleanArray::from(vec![true, true, false, true]))
        .unwrap();
    assert_eq!(
        events(&kept),
        [Span::new(0, 4), Span::new(4, 4), Span::new(8, 20)]
    );
    assert_eq!(kept.superseded(), 1);
    let twice = stream(&[1, 5, 9], SpanRule::Point)
        .gather(&[0, 0, 2])
        .unwrap();
    assert_eq!(
        events(&twice),
        [Span::new(0, 1), Span::new(0, 1), Span::new(8, 9)]
    );
    assert!(twice.is_bag());
    assert_eq!(
        held.gather(&[3, 0]).unwrap_err().to_string(),
        "bug in the caller: row 0 gathered at position 1 is out of bounds or breaks the time order"
    );
    assert!(held.gather(&[4]).is_err());
}

#[test]
fn a_record_field_may_be_null_inside_an_event() {
    let given = batch(vec![
        ("t", ints(&[1, 2])),
        ("a", Arc::new(Int64Array::from(vec![None, Some(1)]))),
        ("b", Arc::new(Int64Array::from(vec![None, Some(1)]))),
    ]);
    let options = IngressOptions::stamp("t");
    let declared = infer_input("r", &given, SpanRule::Point, None, &options).unwrap();
    assert!(matches!(declared.dtype, DType::Record(_)));
    let buffer = ingest(&given, &declared, Unit::Tick, &options).unwrap();
    assert_eq!((buffer.null_rows(), buffer.positions().count()), (0, 2));
    assert_eq!(buffer.to_record_batch(Layout::Auto).unwrap(), given);
}
