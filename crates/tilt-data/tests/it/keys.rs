//! Keyed streams.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int8Array, RecordBatch, StringArray,
};
use tilt_data::{IngressOptions, Key, Layout, SnapshotBuffer, infer_input, ingest, ingest_keyed};
use tilt_ir::{OPEN, Scalar, Span, SpanRule, Unit};

use crate::support::{Rng, batch, column_of_every_type, events, ints};

fn keyed(
    rows: &RecordBatch,
    span: SpanRule,
    options: &IngressOptions,
) -> Vec<(Key, SnapshotBuffer)> {
    let declared = infer_input("x", rows, span, Some("k"), options).unwrap();
    ingest_keyed(std::slice::from_ref(rows), &declared, Unit::Tick, options).unwrap()
}

#[test]
fn each_key_is_a_stream_of_its_own() {
    let rows = batch(vec![
        ("t", ints(&[1, 2, 5, 3, 9])),
        (
            "k",
            Arc::new(StringArray::from(vec![
                Some("b"),
                Some("a"),
                Some("b"),
                None,
                Some("b"),
            ])),
        ),
        ("x", ints(&[10, 20, 30, 40, 50])),
    ]);
    // The third and fourth rows are out of order as a whole, but not within their keys.
    let streams = keyed(&rows, SpanRule::UntilNext, &IngressOptions::stamp("t"));
    let keys: Vec<Key> = streams.iter().map(|(k, _)| k.clone()).collect();
    let text = |key: &str| Some(Scalar::Str(key.to_owned()));
    assert_eq!(keys, [None, text("a"), text("b")]);
    assert_eq!(events(&streams[0].1), [Span::new(2, OPEN)]);
    assert_eq!(events(&streams[1].1), [Span::new(1, OPEN)]);
    assert_eq!(
        events(&streams[2].1),
        [Span::new(0, 4), Span::new(4, 8), Span::new(8, OPEN)]
    );
    let b = streams[2].1.to_record_batch(Layout::AsGiven).unwrap();
    assert_eq!(b.column_by_name("x").unwrap(), &ints(&[10, 30, 50]));
}

#[test]
fn errors_of_a_keyed_input_name_the_row_as_given() {
    let rows = batch(vec![
        ("t", ints(&[1, 9, 2, 8])),
        ("k", ints(&[1, 2, 1, 2])),
        ("x", ints(&[0; 4])),
    ]);
    let options = IngressOptions::stamp("t");
    let declared = infer_input("x", &rows, SpanRule::Fixed(1), Some("k"), &options).unwrap();
    let read = |options: &IngressOptions| {
        ingest_keyed(std::slice::from_ref(&rows), &declared, Unit::Tick, options)
    };
    assert_eq!(
        read(&options).unwrap_err().to_string(),
        "time column `t` is not sorted: row 3 (8) comes after row 1 (9); sort the data or set the option `sort`"
    );
    let sorted = read(&options.clone().sort()).unwrap();
    assert_eq!(events(&sorted[1].1), [Span::new(7, 8), Span::new(8, 9)]);
}

#[test]
fn a_keyed_input_in_one_buffer_is_ordered_by_end_then_key_and_splits_again() {
    let rows = batch(vec![
        ("t", ints(&[1, 1, 3, 2, 5])),
        ("k", ints(&[2, 1, 2, 1, 2])),
        ("x", ints(&[10, 20, 30, 40, 50])),
    ]);
    let options = IngressOptions::stamp("t");
    for span in [SpanRule::Point, SpanRule::UntilNext] {
        let declared = infer_input("x", &rows, span, Some("k"), &options).unwrap();
        let merged = ingest(&rows, &declared, Unit::Tick, &options).unwrap();
        let apart = keyed(&rows, span, &options);
        let split = merged.split_by_key("k").unwrap();
        assert_eq!(split.len(), apart.len());
        for ((key, a), (other, b)) in split.iter().zip(&apart) {
            assert_eq!((key, events(a)), (other, events(b)));
            let x = |s: &SnapshotBuffer| Arc::clone(s.column("x").unwrap().array());
            assert_eq!(&x(a), &x(b));
        }
        let (ends, xs): (&[_], _) = match span {
            SpanRule::Point => (
                &[(0, 1), (0, 1), (1, 2), (2, 3), (4, 5)],
                [20, 10, 40, 30, 50],
            ),
            _ => (
                &[(0, 1), (0, 2), (2, 4), (1, OPEN), (4, OPEN)],
                [20, 10, 30, 40, 50],
            ),
        };
        let ends: Vec<Span> = ends.iter().map(|(s, e)| Span::new(*s, *e)).collect();
        assert_eq!(events(&merged), ends);
        assert_eq!(merged.column("x").unwrap().array(), &ints(&xs));
    }
    let declared = infer_input("x", &rows, SpanRule::Point, Some("k"), &options).unwrap();
    let none = ingest(&rows.slice(0, 0), &declared, Unit::Tick, &options).unwrap();
    assert!(none.is_empty());
    assert_eq!(none.columns().len(), 2);
}

#[test]
fn a_merged_stream_goes_out_with_starts_where_a_stamp_would_not_tell_them() {
    let rows = batch(vec![
        ("t", ints(&[1, 2, 3])),
        ("k", ints(&[1, 2, 1])),
        ("x", ints(&[0; 3])),
    ]);
    let options = IngressOptions::stamp("t");
    let declared = infer_input("x", &rows, SpanRule::UntilNext, Some("k"), &options).unwrap();
    let merged = ingest(&rows, &declared, Unit::Tick, &options).unwrap();
    let out = merged.to_record_batch(Layout::AsGiven).unwrap();
    assert_eq!(out.column_by_name("start").unwrap(), &ints(&[0, 2, 1]));
    assert_eq!(out.column_by_name("end").unwrap().null_count(), 2);
}

#[test]
fn every_type_can_be_a_key_and_rows_keep_their_order() {
    let mut rng = Rng(9);
    let len = 60;
    let times: Vec<i64> = (0..len as i64).map(|i| i * 3).collect();
    for (name, keys) in column_of_every_type(len, &mut rng) {
        let rows = batch(vec![
            ("t", ints(&times)),
            ("k", Arc::clone(&keys)),
            ("x", ints(&times)),
        ])
        .slice(3, len - 5);
        let streams = keyed(&rows, SpanRule::Point, &IngressOptions::stamp("t"));
        let options = IngressOptions::stamp("t");
        let whole = infer_input("x", &rows, SpanRule::Point, None, &options).unwrap();
        let whole = ingest(&rows, &whole, Unit::Tick, &options).unwrap();
        let split = whole.split_by_key("k").unwrap();
        assert_eq!(streams.len(), split.len(), "{name}");
        let mut count = 0;
        for ((key, a), (other, b)) in streams.iter().zip(&split) {
            assert_eq!(key, other);
            assert_eq!(
                a.to_record_batch(Layout::Auto).unwrap(),
                b.to_record_batch(Layout::Auto).unwrap(),
                "{name}"
            );
            assert!(events(a).windows(2).all(|w| w[0].end < w[1].end));
            count += a.len();
        }
        assert_eq!(count, len - 5);
        let nulls = keys.slice(3, len - 5).logical_null_count();
        assert_eq!(streams[0].0.is_none(), nulls > 0);
        assert!(streams[1..].iter().all(|(k, _)| k.is_some()));
    }
}

#[test]
fn equal_keys_are_one_key_however_they_are_stored() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, -0.0, -f64::NAN]));
    let rows = |k: ArrayRef| {
        batch(vec![
            ("t", ints(&[1, 2, 3, 4])),
            ("k", k),
            ("x", ints(&[0; 4])),
        ])
    };
    let options = IngressOptions::stamp("t");
    let lengths = |k: ArrayRef| -> Vec<usize> {
        keyed(&rows(k), SpanRule::Point, &options)
            .iter()
            .map(|(_, s)| s.len())
            .collect()
    };
    assert_eq!(lengths(floats), [1, 1, 2], "-0, +0 and NaN");
    // A dictionary may hold one word twice, or null as a word.
    let words = Arc::new(StringArray::from(vec![Some("a"), Some("a"), None]));
    let codes = Int8Array::from(vec![Some(0), Some(1), Some(2), None]);
    let repeated = DictionaryArray::<Int8Type>::new(codes, words);
    assert_eq!(lengths(Arc::new(repeated)), [2, 2]);
    let none = DictionaryArray::<Int8Type>::new(
        Int8Array::from(vec![None; 4]),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    assert_eq!(lengths(Arc::new(none)), [4]);
}

#[test]
fn splitting_keeps_closed_ends_and_regular_keys_store_nothing() {
    let rows = batch(vec![
        ("t", ints(&[1, 2, 3, 4, 5, 6])),
        ("k", ints(&[1, 2, 1, 2, 1, 2])),
        ("x", ints(&[0; 6])),
    ]);
    let options = IngressOptions::stamp("t");
    for (_, stream) in keyed(&rows, SpanRule::UntilNext, &options) {
        assert_eq!(stream.timeline().period(), Some(2));
    }
    let whole = infer_input("x", &rows, SpanRule::UntilNext, None, &options).unwrap();
    let whole = ingest(&rows, &whole, Unit::Tick, &options)
        .unwrap()
        .close(9);
    let split = whole.split_by_key("k").unwrap();
    assert_eq!(
        events(&split[0].1),
        [Span::new(0, 2), Span::new(2, 4), Span::new(4, 9)]
    );
    assert!(whole.split_by_key("q").is_err());
}
