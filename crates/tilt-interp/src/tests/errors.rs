//! Inputs and programs that are refused, and what the messages say.

use super::{failure, inputs, points, program, spans};
use crate::{DataError, Event, Inputs, Options, QueryError, RunError, Value, run};
use tilt_ir::{Clock, Expr, Id, Span, StreamId};

const X: &str = "input ~x: i64 interval\n~o[t] = ~x[t]";

#[track_caller]
fn refused(streams: &str, inputs: &Inputs) -> (DataError, String) {
    match failure(streams, inputs) {
        RunError::Data(error) => (error.clone(), error.to_string()),
        error => panic!("not the data's fault: {error}"),
    }
}

#[test]
fn a_missing_input_is_named() {
    let (error, text) = refused(X, &inputs([]));
    assert_eq!(error, DataError::Missing { stream: "x".into() });
    assert!(text.contains("~x"));
}

#[test]
fn rows_must_be_sorted_by_end_and_have_a_length() {
    let (error, text) = refused(X, &inputs([spans(&[(0, 5, 1), (0, 4, 2)])]));
    assert!(matches!(
        error,
        DataError::Unsorted {
            row: 1,
            end: 4,
            previous: 5,
            ..
        }
    ));
    assert!(text.contains("row 1") && text.contains("sort"));
    let (error, _) = refused(X, &inputs([spans(&[(5, 5, 1)])]));
    assert!(matches!(error, DataError::Empty { row: 0, .. }));
}

#[test]
fn values_must_have_the_declared_type() {
    let (error, text) = refused(X, &inputs([vec![Event::point(1, 1), Event::point(2, 0.5)]]));
    assert!(matches!(error, DataError::Value { row: 1, .. }));
    assert!(text.contains("0.5 is not a value of type i64"), "{text}");
    let record = "input ~x: {a: i64} point\n~o[t] = ~x[t]";
    let row = Event::point(1, Value::record([1.into(), 2.into()]));
    let (error, _) = refused(record, &inputs([vec![row]]));
    assert!(matches!(error, DataError::Value { row: 0, .. }));
}

#[test]
fn events_of_a_disjoint_input_must_not_overlap() {
    let (error, text) = refused(X, &inputs([spans(&[(0, 5, 1), (5, 8, 2), (7, 9, 2)])]));
    assert!(matches!(error, DataError::Overlap { row: 2, .. }));
    assert!(text.contains("(7, 9]") && text.contains("(5, 8]") && text.contains("overlap bag"));
    let points_at_one_instant = inputs([points(&[(1, 1), (1, 2)])]);
    assert!(matches!(
        refused(X, &points_at_one_instant).0,
        DataError::Overlap { row: 1, .. }
    ));
}

#[test]
fn keys_are_disjoint_each_on_its_own() {
    let row = |t, key: i64| Event::point(t, Value::record([key.into()]));
    let keyed = "input ~x: {k: i64} point key k\n~o[t] = ~x[t]";
    let apart = inputs([vec![row(1, 1), row(1, 2)]]);
    assert!(run(&program(keyed), &apart, &Options::default()).is_ok());
    let twice = inputs([vec![row(1, 1), row(1, 2), row(1, 1)]]);
    assert!(matches!(
        refused(keyed, &twice).0,
        DataError::Overlap { row: 2, .. }
    ));
}

#[test]
fn a_span_must_contain_every_event() {
    let options = Options {
        span: Some(Span::new(0, 10)),
        ..Options::default()
    };
    let early = inputs([spans(&[(-1, 3, 1)])]);
    let error = run(&program(X), &early, &options).unwrap_err();
    assert!(matches!(
        error,
        RunError::Data(DataError::OutsideSpan { row: 0, .. })
    ));
    assert!(
        error
            .to_string()
            .contains("(-1, 3] is not inside the run's span (0, 10]")
    );
}

#[test]
fn a_grid_that_would_not_fit_into_memory_is_refused() {
    let far = inputs([points(&[(0, 1), (1 << 60, 1)])]);
    let grid = "input ~x: i64 point\n~o[t every 1] = ~x[t]";
    assert!(matches!(
        failure(grid, &far),
        RunError::Query(QueryError::GridTooFine { .. })
    ));
}

#[test]
fn a_program_is_verified_before_it_runs() {
    let mut broken = program(X);
    let body = broken.add(Expr::Time).unwrap();
    broken
        .define("late", Clock::At(StreamId::new(2)), body)
        .unwrap();
    let x = inputs([points(&[(1, 1)])]);
    assert!(matches!(
        run(&broken, &x, &Options::default()),
        Err(RunError::Query(QueryError::Invalid(_)))
    ));
}

#[test]
fn streams_that_the_output_does_not_need_cannot_fail() {
    let bag = inputs([points(&[(1, 1), (1, 2)])]);
    let unused = "input ~x: i64 point overlap bag
        ~bad[t every 1] = ~x[t]\n~o[t] = ~x[t]";
    assert!(run(&program(unused), &bag, &Options::default()).is_ok());
}
