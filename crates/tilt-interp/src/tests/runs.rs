//! Sections 2 and 5: spans, parts, keys; the invariances.

use super::{inputs, output, output_with, points, program, spans, text};
use crate::{Event, HostError, Inputs, Options, RunError, Value, hull, run, run_keyed, run_stream};
use tilt_ir::{OPEN, Span};

const X: &str = "input ~x: i64 point";

#[test]
fn no_events_give_no_output() {
    let empty = inputs([vec![]]);
    assert_eq!(hull(&empty), None);
    for body in [
        "[t] = ~x[t]",
        "[t every 5] = 1",
        "[t] = reduce len ~x[t-5 : t]",
        "[t] = hold(~x[t])",
    ] {
        assert_eq!(output(&format!("{X}\n~o{body}"), &empty), "");
    }
    let options = Options {
        span: Some(Span::new(0, 7)),
        ..Options::default()
    };
    let grid = format!("{X}\n~o[t every 5] = coalesce(~x[t], 0)");
    assert_eq!(output_with(&grid, &empty, &options), "(0,5]0 (5,10]0");
}

#[test]
fn phi_is_no_event_and_does_not_count_for_the_span() {
    let x = inputs([vec![
        Event::point(1, Value::Null),
        Event::point(3, 7),
        Event::point(9, Value::Null),
    ]]);
    assert_eq!(hull(&x), Some(Span::new(2, 3)));
    assert_eq!(
        output(&format!("{X}\n~o[t] = reduce len ~x[t-9 : t]"), &x),
        "(2,3]1"
    );
}

#[test]
fn an_open_event_lasts_to_the_end_of_the_run() {
    let data = inputs([spans(&[(1, 6, 1), (6, OPEN, 2)]), points(&[(9, 0)])]);
    assert_eq!(hull(&data), Some(Span::new(1, 9)));
    let copy = "input ~x: i64 until_next\ninput ~y: i64 point\n~o[t] = ~x[t]";
    assert_eq!(output(copy, &data), "(1,6]1 (6,9]2");
    let alone = inputs([spans(&[(1, 6, 1), (6, OPEN, 2)])]);
    assert_eq!(hull(&alone), Some(Span::new(1, 7)));
    let until = |end| Options {
        span: Some(Span::new(0, end)),
        ..Options::default()
    };
    let copy = "input ~x: i64 until_next\n~o[t] = ~x[t]";
    assert_eq!(output_with(copy, &alone, &until(20)), "(1,6]1 (6,20]2");
    assert_eq!(
        output_with(copy, &alone, &until(6)),
        "(1,6]1",
        "it starts at the end"
    );
}

#[test]
fn parts_emit_the_events_that_end_in_them() {
    let data = inputs([
        spans(&[(0, 3, 1), (2, 7, 2), (7, 11, 3)]),
        points(&[(1, 10), (4, 20), (8, 30), (9, 40)]),
    ]);
    let streams = "input ~x: i64 interval overlap bag\ninput ~y: i64 point";
    for body in [
        "[t] = coalesce(~x[t], 0) + coalesce(~y[t], 0)",
        "[t every 3] = reduce len ~x[t-4 : t]",
        "[t] = hold(~y[t], 3)",
        "[t at ~y]: i64 = coalesce(~o.prev(1), 0) + ~y[t]",
        "[t on ~x[t-3 : t]] = reduce sum ~x[t-3 : t]",
    ] {
        let program = program(&format!("{streams}\n~o{body}"));
        let part = |part| {
            let options = Options {
                part,
                ..Options::default()
            };
            run(&program, &data, &options).unwrap()
        };
        let whole = text(&part(None));
        for cut in -2..16 {
            let mut parts = part(Some(Span::new(-100, cut)));
            parts.extend(part(Some(Span::new(cut, 100))));
            assert_eq!(text(&parts), whole, "~o{body} cut at {cut}");
        }
    }
}

#[test]
fn moving_the_input_moves_the_output() {
    let streams = "input ~x: f64 interval
        ~a[t] = ~x[t] - hold(~x[t-2])
        ~b[t every 10] = reduce slope ~x[t-15 : t]
        ~c[t] = coalesce(~a[t], 0.0) + ~b[t]\n~o[t] = reduce mean ~c[t-20 : t]";
    let program = program(streams);
    let moved = |by: i64| {
        let x = [(0, 3, 1.5), (5, 9, 2.5), (9, 14, -1.0), (20, 30, 8.0)];
        let x = x.map(|(s, e, v)| (s + by, e + by, v));
        let mut events = run(&program, &inputs([spans(&x)]), &Options::default()).unwrap();
        for event in &mut events {
            event.start -= by;
            event.end -= by;
        }
        text(&events)
    };
    let here = moved(0);
    assert!(here.contains(']'));
    // Multiples of the grid's period and of the windows' lengths, at which windows are split.
    for by in [
        60,
        -60,
        1_700_000_000_000_000_000 / 60 * 60,
        (1 << 62) / 60 * 60,
        -(1 << 62) / 60 * 60,
    ] {
        assert_eq!(moved(by), here, "moved by {by}");
    }
}

#[test]
fn instants_at_the_edge_of_64_bits_saturate() {
    let x = inputs([points(&[(i64::MIN + 1, 1), (i64::MAX - 1, 2)])]);
    let far = |body: &str| output(&format!("{X}\n~o[t at ~x] = {body}"), &x);
    let (first, last) = (i64::MIN + 1, i64::MAX - 1);
    let both = |a: &str, b: &str| format!("({},{first}]{a} ({},{last}]{b}", first - 1, last - 1);
    assert_eq!(far("reduce len ~x[t-100 : t+100]"), both("1", "1"));
    assert_eq!(far("reduce len ~x[-inf : t+100]"), both("1", "2"));
    assert_eq!(far("coalesce(~x[t+100], 0)"), both("0", "0"));
    assert_eq!(far("hold(~x[t])"), both("1", "2"));
    let shifted = format!("{X}\n~o[t] = ~x[t-100]");
    let moved = first + 100;
    assert_eq!(
        output(&shifted, &x),
        format!("({},{moved}]1", moved - 1),
        "the other leaves time"
    );
}

fn keyed() -> Inputs {
    let row = |t, key: Option<&str>, v: i64| Event::point(t, Value::record([key.into(), v.into()]));
    inputs([
        vec![
            row(1, Some("b"), 1),
            row(2, Some("a"), 2),
            row(2, Some("b"), 4),
            row(3, None, 8),
            row(3, Some("a"), 16),
        ],
        points(&[(2, 100), (3, 200)]),
    ])
}

const KEYED: &str = "input ~x: {k: utf8, v: i64} point key k\ninput ~y: i64 point";

#[test]
fn a_keyed_query_is_the_query_on_each_key() {
    let sum = program(&format!(
        "{KEYED}\n~o[t] = reduce sum ~x[-inf : t] map (~x[t].v)"
    ));
    let rows = run_keyed(&sum, &keyed(), &Options::default()).unwrap();
    let rows = rows
        .iter()
        .map(|(key, e)| format!("{key}@{}={}", e.end, e.value));
    let rows: Vec<String> = rows.collect();
    assert_eq!(
        rows,
        [
            "\"b\"@1=1",
            "\"a\"@2=2",
            "\"b\"@2=5",
            "null@3=8",
            "\"a\"@3=18"
        ]
    );
}

#[test]
fn streams_without_a_key_are_seen_by_every_key() {
    let join = format!("{KEYED}\n~o[t] = ~x[t].v + ~y[t]");
    assert_eq!(
        output(&join, &keyed()),
        "(1,2]102 (1,2]104 (2,3]208 (2,3]216",
        "run gives the rows of run_keyed"
    );
    let grid = format!("{KEYED}\n~o[t every 2] = coalesce(reduce len ~x[t-2 : t], 0)");
    let rows = run_keyed(&program(&grid), &keyed(), &Options::default()).unwrap();
    assert_eq!(
        rows.len(),
        2 * 3,
        "the span is that of all rows, so each key has the cells (0, 2] and (2, 4]"
    );
}

#[test]
fn without_a_keyed_input_the_key_is_null() {
    let rows = run_keyed(
        &program(&format!("{X}\n~o[t] = ~x[t]")),
        &inputs([points(&[(1, 1)])]),
        &Options::default(),
    );
    assert!(matches!(rows.unwrap()[..], [(Value::Null, _)]));
}

#[test]
fn any_stream_can_be_asked_for() {
    let program = program(&format!("{X}\n ~a[t] = ~x[t] * 2\n~o[t] = ~a[t] + 1"));
    let x = inputs([points(&[(1, 1)])]);
    let stream = |name| {
        let id = program.stream_named(name).unwrap();
        text(&run_stream(&program, &x, &Options::default(), id).unwrap())
    };
    assert_eq!(stream("x"), "(0,1]1");
    assert_eq!(stream("a"), "(0,1]2");
    assert_eq!(stream("o"), "(0,1]3");
}

#[test]
fn external_functions_are_strict_and_checked() {
    let call = program(
        "extern fn half(i64) -> i64
         input ~x: i64 point\n ~p[t] = @half(~x.prev(1))\n~o[t at ~x] = {h: ~p[t]}",
    );
    let x = inputs([points(&[(1, 4), (2, 3), (3, 0)])]);
    let run = |options: &Options| run(&call, &x, options);
    let mut options = Options::default();
    assert!(matches!(
        run(&options),
        Err(RunError::Host(HostError::UnknownFunction { .. }))
    ));
    options.functions.register("half", |args| match args {
        [Value::Int(v)] if v % 2 == 0 => Value::Int(v / 2),
        [Value::Int(_)] => Value::Null,
        _ => panic!("called with {args:?}"),
    });
    assert_eq!(
        text(&run(&options).unwrap()),
        "(0,1]{null} (1,2]{2} (2,3]{null}"
    );
    options.functions.register("half", |_| Value::Float(0.5));
    let error = run(&options).unwrap_err();
    assert!(matches!(
        error,
        RunError::Host(HostError::FunctionResult { .. })
    ));
    assert!(
        error.to_string().contains("@half returned 0.5 at 2"),
        "{error}"
    );
}
