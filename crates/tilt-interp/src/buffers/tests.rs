//! Buffers and events are two forms of one thing.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampMillisecondArray,
    types::Int8Type,
};
use tilt_data::{IngressOptions, Layout, ingest};
use tilt_ir::{OPEN, Scalar, parse};

use super::*;
use crate::run;

fn same(found: &[Event], expected: &[Event]) {
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a.same(b)),
        "{found:#?}\nis not\n{expected:#?}"
    );
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// The only input of a program, read from rows with times in `t`.
fn read(program: &Program, rows: &RecordBatch) -> SnapshotBuffer {
    let (_, input) = program.inputs().next().expect("an input");
    let options = match input.span {
        SpanRule::Interval => IngressOptions::interval("s", "e"),
        _ => IngressOptions::stamp("t"),
    };
    ingest(rows, input, program.unit, &options).expect("rows as declared")
}

fn query(unit: &str, streams: &str) -> Program {
    parse(&format!("query q unit {unit} {{ {streams} }}")).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a program of one input `~x` through Arrow and checks that events give the same.
fn output(program: &Program, x: SnapshotBuffer) -> SnapshotBuffer {
    let events = Inputs::from([("x".to_owned(), events_of(&x).expect("events"))]);
    let expected = run(program, &events, &Options::default()).expect("a run on events");
    let inputs = BTreeMap::from([("x".to_owned(), x)]);
    let found = run_buffers(program, &inputs, &Options::default()).expect("a run on buffers");
    if key_of(program).is_none() {
        same(&events_of(&found).expect("events"), &expected);
    }
    assert_eq!(found.len(), expected.len());
    found
}

fn names(rows: &RecordBatch) -> Vec<String> {
    let schema = rows.schema();
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

/// Every scalar type with its extreme values.
fn scalars() -> Vec<(DType, Vec<Value>)> {
    let mut types: Vec<(DType, Vec<Value>)> = vec![
        (DType::Bool, vec![true.into(), false.into()]),
        (
            DType::Utf8,
            ["", "ü", "a string that no view holds inline"]
                .map(Value::from)
                .to_vec(),
        ),
    ];
    for width in Width::ALL {
        let shift = 64 - width.bits();
        let ints = [i64::MIN >> shift, -1, 0, i64::MAX >> shift];
        types.push((DType::Int(width), ints.map(Value::Int).to_vec()));
        let uints = [0, 1, u64::MAX >> shift];
        types.push((DType::UInt(width), uints.map(Value::UInt).to_vec()));
    }
    for (width, tiny, huge) in [
        (FloatWidth::W16, 2f64.powi(-24), 65504.0),
        (FloatWidth::W32, 2f64.powi(-149), f64::from(f32::MAX)),
        (FloatWidth::W64, 5e-324, f64::MAX),
    ] {
        let floats = [0.0, -0.0, tiny, -huge, f64::NAN, f64::INFINITY];
        types.push((DType::Float(width), floats.map(Value::Float).to_vec()));
    }
    for unit in Unit::ALL {
        let ticks = [i64::MIN, -1, i64::MAX].map(Value::Int).to_vec();
        types.push((DType::Timestamp(unit), ticks.clone()));
        types.push((DType::Duration(unit), ticks));
    }
    types
}

/// What the type of a column says; a plain axis has no type of its own.
fn plain(dtype: &DType) -> DType {
    match dtype {
        DType::Timestamp(Unit::Tick) | DType::Duration(Unit::Tick) => DType::I64,
        other => other.clone(),
    }
}

#[test]
fn events_of_every_type_come_back_from_their_buffer() {
    for (dtype, values) in scalars() {
        let events: Vec<Event> = (1..)
            .zip(&values)
            .map(|(t, v)| Event::point(2 * t, v.clone()))
            .collect();
        let buffer = buffer_of(&events, "x", &dtype, Unit::Milli, Some(1)).expect("values fit");
        assert_eq!(buffer.dtype(), Some(plain(&dtype)));
        same(&events_of(&buffer).expect("events"), &events);

        let list = DType::List(Box::new(dtype.clone()));
        let lists = [
            Event::point(1, Value::list(values.clone())),
            Event::point(2, Value::list([])),
            Event::point(3, Value::list(values.clone())),
        ];
        let buffer = buffer_of(&lists, "x", &list, Unit::Milli, Some(1)).expect("values fit");
        same(&events_of(&buffer).expect("events"), &lists);
    }
}

#[test]
fn records_keep_fields_that_are_null_and_rows_that_are_not() {
    let types = scalars();
    let field = |(i, dtype): (usize, DType)| Field {
        name: format!("f{i}"),
        dtype,
    };
    let mut fields: Vec<DType> = types.iter().map(|(dtype, _)| dtype.clone()).collect();
    fields.push(DType::Record(
        fields.clone().into_iter().enumerate().map(field).collect(),
    ));
    fields.push(DType::Record(vec![]));
    let record = DType::Record(fields.into_iter().enumerate().map(field).collect());
    let nulls = || types.iter().map(|_| Value::Null);
    let firsts = || types.iter().map(|(_, values)| values[0].clone());
    let (empty, null) = (Value::record([]), Value::Null);
    let events = [
        Event::new(0, 4, Value::record(nulls().chain([null.clone(), null]))),
        Event::new(
            3,
            4,
            Value::record(firsts().chain([Value::record(nulls()), empty.clone()])),
        ),
        Event::new(
            4,
            OPEN,
            Value::record(firsts().chain([Value::record(firsts()), empty])),
        ),
    ];
    let buffer = buffer_of(&events, "x", &record, Unit::Nano, None).expect("values fit");
    same(&events_of(&buffer).expect("events"), &events);

    let with_null = [events[0].clone(), Event::new(3, 4, Value::Null)];
    let buffer = buffer_of(&with_null, "x", &record, Unit::Nano, None).expect("values fit");
    assert_eq!(buffer.len(), 2);
    same(&events_of(&buffer).expect("events"), &events[..1]);
}

#[test]
fn a_timeline_stores_no_more_than_it_must() {
    let events = |spans: &[(i64, i64)]| -> Vec<Event> {
        spans.iter().map(|(s, e)| Event::new(*s, *e, 1)).collect()
    };
    let timeline = |spans: &[(i64, i64)], length| {
        let buffer = buffer_of(&events(spans), "x", &DType::I64, Unit::Tick, length);
        buffer.expect("events in order").timeline().clone()
    };
    let regular = timeline(&[(0, 5), (5, 10), (10, 15)], Some(5));
    assert_eq!(regular.period(), Some(5));
    assert_eq!(
        timeline(&[(0, 5), (5, 10), (15, 20)], Some(5)).period(),
        None
    );
    let held = timeline(&[(0, 5), (5, 6), (6, OPEN)], None);
    assert!(matches!(held.spans(), Spans::Contiguous { first_start: 0 }));
    let bag = timeline(&[(0, 5), (2, 5), (1, 6)], None);
    assert!(matches!(bag.spans(), Spans::Starts { .. }));
    assert!(timeline(&[], None).is_empty());
    assert!(timeline(&[], Some(1)).is_empty());
}

#[test]
fn what_a_buffer_cannot_hold_is_refused() {
    let refused = |events: &[Event], dtype: &DType, length| {
        buffer_of(events, "x", dtype, Unit::Tick, length).expect_err("refused")
    };
    let i8 = DType::Int(Width::W8);
    let error = refused(&[Event::point(1, 1), Event::point(2, 200)], &i8, Some(1));
    assert_eq!(error.to_string(), "event 1: 200 is not a value of type i8");
    let error = refused(&[Event::point(1, 0.1)], &DType::F32, Some(1));
    assert!(matches!(error, BufferError::Value { row: 0, .. }));
    let error = refused(&[Event::point(1, "a")], &DType::Bool, Some(1));
    assert!(matches!(error, BufferError::Value { row: 0, .. }));
    let error = refused(&[Event::new(0, 2, 1)], &DType::I64, Some(1));
    assert_eq!(error.to_string(), "event 0: (0, 2] does not last 1 ticks");
    let error = refused(&[Event::point(2, 1), Event::point(1, 1)], &DType::I64, None);
    assert!(matches!(error, BufferError::Order { row: 1, .. }));
    let error = refused(&[Event::new(2, 2, 1)], &DType::I64, None);
    assert!(matches!(error, BufferError::Order { row: 0, .. }));

    let decimals = Column::new("d", Arc::new(Decimal128Array::from(vec![1])));
    let timeline = Timeline::regular(0, 1, 1, Spans::Fixed(1));
    let buffer = SnapshotBuffer::scalar(timeline, decimals, Unit::Tick).expect("one row");
    let error = events_of(&buffer).expect_err("refused");
    assert!(
        error
            .to_string()
            .starts_with("column `d` has type Decimal128")
    );
}

#[test]
fn points_come_back_as_one_time_column_named_like_the_input() {
    let program = query(
        "ms",
        "input ~x: f64 point overlap bag  ~m[t] = reduce mean ~x[t-10ms : t]  output ~m",
    );
    let times = TimestampMillisecondArray::from(vec![1, 1, 7, 30]).with_timezone("UTC");
    let x = Float64Array::from(vec![Some(1.0), Some(3.0), None, Some(5.0)]);
    let rows = batch(vec![("t", Arc::new(times)), ("x", Arc::new(x))]);
    let means = output(&program, read(&program, &rows));
    assert!(means.is_bag());
    let rows = means.to_record_batch(Layout::Auto).expect("rows");
    let times = TimestampMillisecondArray::from(vec![1, 1, 30]).with_timezone("UTC");
    let expected = batch(vec![
        ("t", Arc::new(times)),
        ("m", Arc::new(Float64Array::from(vec![2.0, 2.0, 5.0]))),
    ]);
    assert_eq!(rows.columns(), expected.columns());
    assert_eq!(names(&rows), names(&expected));
}

#[test]
fn the_clock_decides_about_time_columns_and_not_the_data() {
    let spans = |streams: &str, rows: &RecordBatch| {
        let program = query("tick", streams);
        let buffer = output(&program, read(&program, rows));
        let length = match buffer.timeline().spans() {
            Spans::Fixed(d) => Some(*d),
            _ => None,
        };
        (
            length,
            names(&buffer.to_record_batch(Layout::Auto).expect("rows")),
        )
    };
    let text = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let points = batch(vec![("t", ints(&[1, 2, 3])), ("x", ints(&[1, 2, 3]))]);
    let intervals = batch(vec![
        ("s", ints(&[0, 1, 2])),
        ("e", ints(&[1, 2, 3])),
        ("x", ints(&[1, 2, 3])),
    ]);
    for (streams, rows, length, columns) in [
        // The timeline of an input.
        (
            "input ~x: i64 point ~y[t] = ~x[t] + 1 output ~y",
            &points,
            Some(1),
            &["t", "y"][..],
        ),
        (
            "input ~x: i64 fixed 3 overlap bag output ~x",
            &points,
            Some(3),
            &["t", "x"],
        ),
        (
            "input ~x: i64 until_next ~y[t] = ~x[t] + 1 output ~y",
            &points,
            None,
            &["start", "end", "y"],
        ),
        (
            "input ~x: i64 interval ~y[t] = ~x[t] + 1 output ~y",
            &intervals,
            None,
            &["s", "e", "y"],
        ),
        // Moved.
        (
            "input ~x: i64 point ~y[t] = ~x[t-5] output ~y",
            &points,
            Some(1),
            &["t", "y"],
        ),
        (
            "input ~x: i64 fixed 1 ~y[t] = ~x[t-5] output ~y",
            &points,
            Some(1),
            &["t", "y"],
        ),
        // Joined: points last one tick whatever they meet, unlike samples.
        (
            "input ~x: i64 point ~y[t] = ~x[t-1] + ~x[t] output ~y",
            &points,
            Some(1),
            &["t", "y"],
        ),
        (
            "input ~x: i64 fixed 2 overlap bag ~y[t on ~x[t], ~x[t-1]] = reduce sum ~x[t-1 : t] output ~y",
            &points,
            None,
            &["start", "end", "y"],
        ),
        // A grid.
        (
            "input ~x: i64 point ~y[t every 2] = reduce sum ~x[t-2 : t] output ~y",
            &points,
            Some(2),
            &["t", "y"],
        ),
        (
            "input ~x: i64 interval ~y[t every 2] = reduce sum ~x[t-2 : t] output ~y",
            &intervals,
            Some(2),
            &["e", "y"],
        ),
    ] {
        assert_eq!(spans(streams, rows), (length, text(columns)), "{streams}");
    }
}

#[test]
fn an_open_event_lasts_to_the_end_of_the_run() {
    let program = query("tick", "input ~x: utf8 until_next output ~x");
    let words = StringArray::from(vec![Some("a"), Some("b"), None, Some("c"), Some("d")]);
    let rows = batch(vec![("t", ints(&[1, 4, 6, 8, 8])), ("x", Arc::new(words))]);
    let x = read(&program, &rows);
    let events = events_of(&x).expect("events");
    let expected = [
        Event::new(0, 3, "a"),
        Event::new(3, 5, "b"),
        Event::new(7, OPEN, "d"),
    ];
    same(&events, &expected);
    let inputs = BTreeMap::from([("x".to_owned(), x)]);
    let options = Options {
        span: Some(Span::new(0, 20)),
        ..Options::default()
    };
    let out = run_buffers(&program, &inputs, &options).expect("a run");
    assert_eq!(out.event(2), Span::new(7, 20));
}

#[test]
fn a_run_that_is_watched_tells_how_far_it_is_and_stops_when_told() {
    let program = query(
        "tick",
        "input ~x: f64 point  ~m[t] = reduce mean ~x[t-3 : t]  ~y[t] = ~m[t] * 2.0  output ~y",
    );
    let times: Vec<i64> = (1..=1000).collect();
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 1000]));
    let x = read(&program, &batch(vec![("t", ints(&times)), ("x", values)]));
    let inputs = BTreeMap::from([("x".to_owned(), x)]);
    let shares = std::cell::RefCell::new(Vec::new());
    let run = |until: f64| {
        shares.borrow_mut().clear();
        let watch = |share: f64| {
            shares.borrow_mut().push(share);
            share < until
        };
        run_buffers_watched(&program, &inputs, &Options::default(), &watch)
    };
    assert_eq!(run(1.0).expect("a run").len(), 1000);
    assert!(shares.borrow().is_sorted() && shares.borrow().len() > 4);
    assert!(
        shares
            .borrow()
            .iter()
            .all(|share| (0.0..1.0).contains(share))
    );
    assert_eq!(run(0.3).expect_err("stopped"), RunError::Stopped);
    assert!(
        shares
            .borrow()
            .last()
            .is_some_and(|last| (0.3..0.7).contains(last))
    );
}

#[test]
fn strings_are_read_however_they_are_stored() {
    let program = query(
        "tick",
        "input ~x: utf8 point  ~y[t] = if ~x[t] == \"b\" then ~x[t] else null  output ~y",
    );
    let words = [Some("a"), Some("b"), None, Some("b")];
    let dictionary: DictionaryArray<Int8Type> = words.into_iter().collect();
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from(words.to_vec())),
        Arc::new(LargeStringArray::from(words.to_vec())),
        Arc::new(StringViewArray::from(words.to_vec())),
        Arc::new(dictionary),
    ];
    for column in columns {
        let rows = batch(vec![("t", ints(&[0, 1, 2, 3])), ("x", column)]).slice(1, 3);
        let out = output(&program, read(&program, &rows));
        same(
            &events_of(&out).expect("events"),
            &[Event::point(1, "b"), Event::point(3, "b")],
        );
    }
    let none: DictionaryArray<Int8Type> = [None::<&str>, None].into_iter().collect();
    let rows = batch(vec![("t", ints(&[0, 1])), ("x", Arc::new(none))]);
    assert!(output(&program, read(&program, &rows)).is_empty());
}

#[test]
fn lists_and_records_come_out_as_columns() {
    let program = query(
        "tick",
        "input ~x: {a: i64, b: bool} point
         ~y[t] = {all: reduce collect ~x[t-2 : t] map (~x[t].a), b: ~x[t].b}
         output ~y",
    );
    let rows = batch(vec![
        ("t", ints(&[1, 2, 3])),
        (
            "b",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        ("a", ints(&[7, 8, 9])),
    ]);
    let out = output(&program, read(&program, &rows));
    let rows = out.to_record_batch(Layout::Auto).expect("rows");
    assert_eq!(names(&rows), ["t", "all", "b"]);
    assert_eq!(
        rows["all"].as_list::<i32>().value(2).as_ref(),
        ints(&[8, 9]).as_ref()
    );
    assert_eq!(rows["b"].null_count(), 1);
}

#[test]
fn the_key_is_a_column_and_rows_are_ordered_by_end_then_key() {
    let input = "input ~x: {k: utf8, v: i64} until_next key k";
    let keys = StringArray::from(vec![Some("b"), Some("a"), None, Some("b"), Some("a")]);
    let rows = batch(vec![
        ("t", ints(&[1, 1, 1, 4, 4])),
        ("k", Arc::new(keys)),
        ("v", ints(&[1, 10, 100, 2, 20])),
    ]);
    let scalar = query("tick", &format!("{input}  ~y[t] = ~x[t].v  output ~y"));
    let out = output(&scalar, read(&scalar, &rows));
    let out = out.to_record_batch(Layout::Auto).expect("rows");
    assert_eq!(names(&out), ["start", "end", "k", "y"]);
    assert_eq!(out["end"].as_ref(), ints(&[3, 3, 4, 4, 4]).as_ref());
    let keys = StringArray::from(vec![Some("a"), Some("b"), None, Some("a"), Some("b")]);
    assert_eq!(out["k"].as_ref(), &keys as &dyn Array);
    assert_eq!(out["y"].as_ref(), ints(&[10, 1, 100, 20, 2]).as_ref());

    // A field that is the key need not be there twice; one that is not must have another name.
    let whole = query("tick", &format!("{input}  output ~x"));
    let out = output(&whole, read(&whole, &rows));
    let out = out.to_record_batch(Layout::Auto).expect("rows");
    assert_eq!(names(&out), ["start", "end", "k", "v"]);
    let other = query(
        "tick",
        &format!("{input}  ~y[t] = {{k: ~x[t].v}}  output ~y"),
    );
    let inputs = BTreeMap::from([("x".to_owned(), read(&other, &rows))]);
    let error = run_buffers(&other, &inputs, &Options::default()).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the output's field `k` is named like the key, but is 10 where the key is \"a\"; rename the field"
    );
}

#[test]
fn an_empty_input_gives_an_empty_output_of_the_right_type() {
    let program = query(
        "s",
        "input ~x: {k: i32, v: f16} point key k  ~y[t] = {top: reduce top_k(2) ~x[t-1s : t] map (~x[t].v)}  output ~y",
    );
    let fields = [("t", DType::Timestamp(Unit::Second)), ("k", DType::I32)];
    let columns = fields.map(|(name, dtype)| (name, array(&[], &dtype)));
    let v = ("v", array(&[], &DType::Float(FloatWidth::W16)));
    let rows = batch(columns.into_iter().chain([v]).collect());
    let out = output(&program, read(&program, &rows));
    assert_eq!(out.len(), 0);
    let dtype = out.dtype().expect("a type").to_string();
    assert_eq!(dtype, "{k: i32, top: list(f16)}");
}

#[test]
fn buffers_that_are_not_as_declared_are_refused() {
    let refused = |program: &Program, x: SnapshotBuffer| {
        let inputs = BTreeMap::from([("x".to_owned(), x)]);
        match run_buffers(program, &inputs, &Options::default()) {
            Err(RunError::Buffer(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let points = |dtype: &DType| {
        let zero = Value::from(&Scalar::Int(0));
        buffer_of(&[Event::point(1, zero)], "x", dtype, Unit::Tick, Some(1)).expect("a zero")
    };
    let program = query("tick", "input ~x: i64 point output ~x");
    assert_eq!(
        refused(&program, points(&DType::I32)),
        "input ~x: column `x` has type Int32, but i64 is declared; cast the column or change the declaration"
    );
    assert_eq!(
        refused(
            &query("s", "input ~x: i64 point output ~x"),
            points(&DType::I64)
        ),
        "input ~x counts tick, but the query counts s; ingest it in the query's unit"
    );
    assert_eq!(
        refused(
            &query("tick", "input ~x: i64 fixed 2 output ~x"),
            points(&DType::I64)
        ),
        "input ~x is declared `fixed 2`, but its buffer has events of other lengths; ingest it as declared"
    );
    let record = query("tick", "input ~x: {x: i64, y: i64} point output ~x");
    assert_eq!(
        refused(&record, points(&DType::I64)),
        "input ~x is declared {x: i64, y: i64}, but its buffer is a scalar"
    );
    let x = Column::new("x", ints(&[1]));
    let timeline = Timeline::regular(1, 1, 1, Spans::Fixed(1));
    let x = SnapshotBuffer::record(timeline, vec![x], None, Unit::Tick).expect("one row");
    assert_eq!(
        refused(&record, x.clone()),
        "input ~x has no column `y`, a field of its declared type {x: i64, y: i64}"
    );
    assert_eq!(
        refused(&program, x),
        "input ~x is declared i64, but its buffer is a record"
    );
    let none = run_buffers(&program, &BTreeMap::new(), &Options::default());
    assert!(matches!(
        none,
        Err(RunError::Data(DataError::Missing { .. }))
    ));
}
