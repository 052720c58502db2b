//! Period detection, bags, sorting and what is inferred.

use std::sync::Arc;

use arrow_array::{
    DictionaryArray, Float64Array, Int32Array, StringArray, TimestampMillisecondArray,
};
use tilt_data::{IngressOptions, Stamps, TIME_LIMIT, infer_input, ingest, ingest_chunks};
use tilt_ir::{DType, Field, Overlap, Span, SpanRule, Unit};

use crate::support::{
    Rng, batch, events, input, interval_stream, intervals, ints, stamped, stream,
};

#[test]
fn a_period_is_found_exactly_where_stamps_are_equidistant() {
    let mut rng = Rng(4);
    for _ in 0..300 {
        let len = rng.range(0, 6) as usize;
        let mut t = rng.range(-100, 100);
        let step = rng.range(0, 4);
        let times: Vec<i64> = (0..len)
            .map(|_| {
                t += if rng.chance(10) {
                    rng.range(0, 4)
                } else {
                    step
                };
                t
            })
            .collect();
        let mut gaps: Vec<i64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        gaps.dedup();
        let expected = (gaps.len() == 1 && gaps[0] > 0).then(|| gaps[0]);
        for span in [SpanRule::Point, SpanRule::Fixed(2), SpanRule::UntilNext] {
            let buffer = stream(&times, span);
            assert_eq!(buffer.timeline().period(), expected, "{times:?}");
            let kept = IngressOptions::stamp("t").keep_stamps();
            let kept = ingest(
                &stamped(&times),
                &input(DType::F64, span),
                Unit::Tick,
                &kept,
            )
            .unwrap();
            assert_eq!(kept.timeline().period(), None);
            assert_eq!(events(&kept), events(&buffer));
        }
    }
}

#[test]
fn a_declared_period_allows_gaps_and_then_stays_explicit() {
    let mut declared = input(DType::F64, SpanRule::Fixed(10));
    declared.period = Some(10);
    let options = IngressOptions::stamp("t");
    let period = |times: &[i64]| {
        let buffer = ingest(&stamped(times), &declared, Unit::Tick, &options).unwrap();
        buffer.timeline().period()
    };
    assert_eq!(period(&[-10, 0, 10]), Some(10));
    assert_eq!(period(&[7]), Some(10), "one row is on any grid");
    assert_eq!(period(&[]), None);
    assert_eq!(period(&[0, 10, 40]), None);
    assert_eq!(period(&[0, 20, 40]), None, "the period is 10, not 20");
    assert_eq!(period(&[0, 0, 10]), None);
}

#[test]
fn intervals_of_one_length_on_a_grid_store_nothing() {
    let samples = interval_stream(&[(0, 5), (5, 10), (10, 15)]);
    assert_eq!(samples.timeline().period(), Some(5));
    assert_eq!(events(&samples)[2], Span::new(10, 15));
    let ragged = interval_stream(&[(0, 5), (6, 10), (10, 15)]);
    assert!(matches!(ragged.timeline().stamps(), Stamps::Regular { .. }));
    assert_eq!(events(&ragged)[1], Span::new(6, 10));
}

#[test]
fn a_bag_is_a_stream_with_two_events_at_one_instant() {
    let mut rng = Rng(5);
    for _ in 0..500 {
        let len = rng.range(0, 5) as usize;
        let mut t = 0;
        let times: Vec<i64> = (0..len)
            .map(|_| {
                t += rng.range(0, 6);
                t
            })
            .collect();
        let nulls: Vec<bool> = (0..len).map(|_| rng.chance(30)).collect();
        let values: Float64Array = nulls.iter().map(|n| (!n).then_some(1.0)).collect();
        let spans: Vec<i64> = times.iter().map(|t| t - rng.range(1, 5)).collect();
        let rows = batch(vec![
            ("s", ints(&spans)),
            ("t", ints(&times)),
            ("x", Arc::new(values)),
        ]);
        for span in [
            SpanRule::Point,
            SpanRule::Fixed(3),
            SpanRule::UntilNext,
            SpanRule::Interval,
        ] {
            let options = match span {
                SpanRule::Interval => IngressOptions::interval("s", "t"),
                _ => IngressOptions::stamp("t").value("x"),
            };
            let buffer = ingest(&rows, &input(DType::F64, span), Unit::Tick, &options).unwrap();
            let positions: Vec<usize> = buffer.positions().collect();
            let together = |t: i64| {
                positions
                    .iter()
                    .filter(|i| buffer.event(**i).contains(t))
                    .count()
            };
            let expected = (-10..40).any(|t| together(t) > 1);
            assert_eq!(
                buffer.is_bag(),
                expected,
                "{span:?} {times:?} {spans:?} {nulls:?}"
            );
            let half = buffer.slice(len / 2, len - len / 2);
            let again = half.gather(&(0..half.len()).collect::<Vec<_>>()).unwrap();
            assert_eq!(half.is_bag(), again.is_bag());
            let mut disjoint = input(DType::F64, span);
            disjoint.overlap = Overlap::Disjoint;
            assert_eq!(
                ingest(&rows, &disjoint, Unit::Tick, &options).is_err(),
                expected
            );
        }
    }
}

#[test]
fn sorting_is_stable_and_leaves_sorted_rows_alone() {
    let rows = stamped(&[5, 1, 5, 3, 1]);
    let options = IngressOptions::stamp("t").sort();
    let declared = input(DType::F64, SpanRule::Point);
    let buffer = ingest(&rows, &declared, Unit::Tick, &options).unwrap();
    assert_eq!(
        events(&buffer).iter().map(|e| e.end).collect::<Vec<_>>(),
        [1, 1, 3, 5, 5]
    );
    let values: Float64Array = buffer.columns()[0].array().to_data().into();
    assert_eq!(values.values().to_vec(), [1.0, 4.0, 3.0, 0.0, 2.0]);

    let sorted = stamped(&[1, 2, 7]);
    let buffer = ingest(&sorted, &declared, Unit::Tick, &options).unwrap();
    let (inside, outside) = (
        buffer.columns()[0].array().to_data(),
        sorted.column(1).to_data(),
    );
    assert_eq!(inside.buffers()[0].as_ptr(), outside.buffers()[0].as_ptr());

    let by_end = intervals(&[(0, 9), (1, 2)]);
    let options = IngressOptions::interval("s", "e").sort();
    let buffer = ingest(
        &by_end,
        &input(DType::I64, SpanRule::Interval),
        Unit::Tick,
        &options,
    )
    .unwrap();
    assert_eq!(events(&buffer), [Span::new(1, 2), Span::new(0, 9)]);
}

#[test]
fn chunks_are_one_stream() {
    let options = IngressOptions::stamp("t");
    let declared = input(DType::F64, SpanRule::UntilNext);
    let chunks = [stamped(&[1, 2]), stamped(&[]), stamped(&[2, 7])];
    let buffer = ingest_chunks(&chunks, &declared, Unit::Tick, &options).unwrap();
    assert_eq!(buffer.len(), 4);
    assert_eq!(buffer.superseded(), 1);
    let none = ingest_chunks(&[], &declared, Unit::Tick, &options).unwrap();
    assert!(none.is_empty());
    assert_eq!(none.dtype(), Some(DType::F64));
    let unsorted = [stamped(&[1, 2]), stamped(&[0])];
    let error = ingest_chunks(&unsorted, &declared, Unit::Tick, &options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("row 2 (0) comes after row 1 (2)")
    );

    // Dictionaries that differ from chunk to chunk are merged.
    let text = |words: Vec<&str>, at: i64| {
        let words: DictionaryArray<arrow_array::types::Int8Type> = words.into_iter().collect();
        batch(vec![("t", ints(&[at, at + 1])), ("x", Arc::new(words))])
    };
    let chunks = [text(vec!["a", "b"], 1), text(vec!["c", "a"], 5)];
    let buffer = ingest_chunks(
        &chunks,
        &input(DType::Utf8, SpanRule::Point),
        Unit::Tick,
        &options,
    )
    .unwrap();
    let keys = buffer.split_by_key("x").unwrap();
    assert_eq!(
        keys.iter().map(|(_, s)| s.len()).collect::<Vec<_>>(),
        [2, 1, 1]
    );
}

#[test]
fn the_limit_itself_is_in_range() {
    let times = [-TIME_LIMIT, 0, TIME_LIMIT];
    for span in [
        SpanRule::Point,
        SpanRule::Fixed(TIME_LIMIT),
        SpanRule::UntilNext,
    ] {
        let buffer = stream(&times, span);
        assert_eq!(buffer.len(), 3);
        assert!(buffer.hull().unwrap().end >= TIME_LIMIT);
    }
    let wide = interval_stream(&[(-TIME_LIMIT, TIME_LIMIT)]);
    assert_eq!(wide.event(0), Span::new(-TIME_LIMIT, TIME_LIMIT));
    assert!(wide.timeline().starts_before(0) == 1);
}

#[test]
fn the_value_column_is_named_like_the_input_or_the_only_one() {
    let two = batch(vec![
        ("t", ints(&[1])),
        ("x", ints(&[2])),
        ("y", ints(&[3])),
    ]);
    let options = IngressOptions::stamp("t");
    let column = |name: &str, options: &IngressOptions| {
        let mut declared = input(DType::I64, SpanRule::Point);
        declared.name = name.to_owned();
        ingest(&two, &declared, Unit::Tick, options).map(|b| b.columns()[0].name().to_owned())
    };
    assert_eq!(column("y", &options).unwrap(), "y");
    assert_eq!(column("z", &options.clone().value("x")).unwrap(), "x");
    assert_eq!(
        column("z", &options).unwrap_err().to_string(),
        "input ~z: its values could be in any of the columns `x` and `y`; name one"
    );
}

#[test]
fn an_input_is_inferred_from_a_batch() {
    let rows = batch(vec![
        (
            "ts",
            Arc::new(TimestampMillisecondArray::from(vec![1]).with_timezone("UTC")),
        ),
        ("sym", Arc::new(StringArray::from(vec!["a"]))),
        ("n", Arc::new(Int32Array::from(vec![1]))),
    ]);
    let options = IngressOptions::stamp("ts");
    let inferred = infer_input("q", &rows, SpanRule::Point, Some("sym"), &options).unwrap();
    let field = |name: &str, dtype| Field {
        name: name.to_owned(),
        dtype,
    };
    assert_eq!(
        inferred.dtype,
        DType::Record(vec![field("sym", DType::Utf8), field("n", DType::I32)])
    );
    assert_eq!(
        (inferred.unit, inferred.overlap),
        (Unit::Milli, Overlap::Bag)
    );
    assert_eq!(inferred.key.as_deref(), Some("sym"));
    let one = infer_input("n", &rows, SpanRule::Fixed(10), None, &options.value("n")).unwrap();
    assert_eq!(
        (one.dtype, one.period, one.overlap),
        (DType::I32, Some(10), Overlap::Disjoint)
    );
}
