//! Section 4: expressions that read their own past.

use super::{inputs, output, output_with, points, spans};
use crate::Options;
use tilt_ir::Span;

#[test]
fn prev_of_itself_is_the_event_before_the_one_being_computed() {
    let x = inputs([points(&[(1, 1), (3, 2), (4, 3)])]);
    let sum = "input ~x: i64 point\n~s[t at ~x]: i64 = coalesce(~s.prev(1), 0) + ~x[t]";
    assert_eq!(output(sum, &x), "(0,1]1 (2,3]3 (3,4]6");
    let fibonacci = "input ~x: i64 point
~s[t at ~x]: i64 = coalesce(~s.prev(1), 1) + coalesce(~s.prev(2), 0)";
    assert_eq!(output(fibonacci, &x), "(0,1]1 (2,3]1 (3,4]2");
}

#[test]
fn prev_of_itself_skips_events_without_a_value() {
    let x = inputs([points(&[(1, 1), (2, -1), (3, 5)])]);
    let sum = "input ~x: i64 point
~s[t at ~x]: i64 = if ~x[t] > 0 then coalesce(~s.prev(1), 0) + ~x[t] else null";
    assert_eq!(output(sum, &x), "(0,1]1 (2,3]6");
}

#[test]
fn a_running_count_numbers_the_events_of_a_bag() {
    let bag = inputs([points(&[(1, 0), (1, 0), (2, 0)])]);
    let count = "input ~x: i64 point overlap bag
~n[t at ~x]: i64 = coalesce(~n.prev(1), 0) + 1";
    assert_eq!(output(count, &bag), "(0,1]1 (0,1]2 (1,2]3");
}

#[test]
fn a_read_by_time_sees_no_event_that_overlaps_the_one_being_computed() {
    let x = inputs([spans(&[(0, 5, 1), (5, 10, 2)])]);
    let sum = |d: i64| {
        let body = format!("coalesce(~s[t-{d}], 0) + ~x[t]");
        output(
            &format!("input ~x: i64 interval\n~s[t at ~x]: i64 = {body}"),
            &x,
        )
    };
    assert_eq!(sum(1), "(0,5]1 (5,10]2", "9 lies inside the event itself");
    assert_eq!(sum(6), "(0,5]1 (5,10]3");
    let bag = inputs([spans(&[(0, 5, 1), (3, 6, 2), (6, 9, 4)])]);
    let held = "input ~x: i64 interval overlap bag
~s[t at ~x]: i64 = coalesce(hold(~s[t-1]), 0) + ~x[t]";
    // At 6 the event that ended at 5 overlaps; at 9 the last that ended is (3, 6].
    assert_eq!(output(held, &bag), "(0,5]1 (3,6]2 (6,9]6");
}

#[test]
fn hold_of_itself_is_the_last_value_before() {
    let x = inputs([points(&[(1, 8.0), (5, 4.0), (6, 0.0)])]);
    let smooth = "input ~x: f64 point
~s[t at ~x]: f64 = 0.5 * coalesce(hold(~s[t-1]), ~x[t]) + 0.5 * ~x[t]";
    assert_eq!(output(smooth, &x), "(0,1]8.0 (4,5]6.0 (5,6]3.0");
}

#[test]
fn windows_over_itself_end_before_t() {
    let x = inputs([points(&[(1, 1), (2, 1), (3, 1), (9, 1)])]);
    let sum = |bounds: &str| {
        let body = format!("coalesce(reduce sum ~s[{bounds}], 0) + ~x[t]");
        output(
            &format!("input ~x: i64 point\n~s[t at ~x]: i64 = {body}"),
            &x,
        )
    };
    assert_eq!(sum("t-5 : t-1"), "(0,1]1 (1,2]2 (2,3]4 (8,9]1");
    assert_eq!(sum("-inf : t-1"), "(0,1]1 (1,2]2 (2,3]4 (8,9]8");
    assert_eq!(sum("#-3 : #-1"), "(0,1]1 (1,2]2 (2,3]4 (8,9]7");
}

#[test]
fn a_grid_can_count_itself() {
    let options = Options {
        span: Some(Span::new(0, 30)),
        ..Options::default()
    };
    let count = "input ~x: i64 point\n~n[t every 10]: i64 = coalesce(~n[t-10], 0) + 1";
    let count = output_with(count, &inputs([vec![]]), &options);
    assert_eq!(count, "(0,10]1 (10,20]2 (20,30]3");
}

#[test]
fn a_recurrence_on_a_join_follows_its_events() {
    let data = inputs([spans(&[(0, 4, 1), (4, 8, 2)]), spans(&[(2, 6, 10)])]);
    let sum = "input ~x: i64 interval\ninput ~y: i64 interval
~s[t]: i64 = coalesce(~s.prev(1), 0) + ~x[t] + ~y[t]";
    assert_eq!(output(sum, &data), "(2,4]11 (4,6]23");
}
