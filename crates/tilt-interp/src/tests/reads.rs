//! Section 4: what is read at an instant.

use super::{failure, inputs, output, points, spans};
use crate::{Event, QueryError, RunError, Value};

const X: &str = "input ~x: i64 interval";

#[test]
fn an_unbound_read_takes_the_active_event() {
    let x = inputs([spans(&[(0, 3, 1), (4, 8, 2)])]);
    let read = format!("{X}\n~o[t every 2] = ~x[t]");
    assert_eq!(output(&read, &x), "(0,2]1 (4,6]2 (6,8]2");
}

#[test]
fn the_overlap_rule_of_the_root_decides_between_active_events() {
    let bag = inputs([spans(&[(0, 4, 1), (2, 6, 2)])]);
    let read =
        |rule: &str| format!("{X} overlap {rule}\n ~m[t] = ~x[t] * 10\n~o[t every 3] = ~m[t]");
    assert_eq!(output(&read("first"), &bag), "(0,3]10 (3,6]20");
    assert_eq!(output(&read("last"), &bag), "(0,3]20 (3,6]20");
    let RunError::Query(QueryError::Ambiguous {
        stream, instant, ..
    }) = failure(&read("bag"), &bag)
    else {
        panic!("reading a bag is the query's fault")
    };
    assert_eq!((stream.as_str(), instant), ("m", 3));
}

#[test]
fn a_join_of_bags_has_no_root_to_decide() {
    let bags = inputs([spans(&[(0, 4, 1), (2, 6, 2)]), spans(&[(0, 6, 1)])]);
    let read = format!(
        "{X} overlap last\ninput ~y: i64 interval\n ~j[t] = ~x[t] * ~y[t]\n~o[t every 3] = ~j[t]"
    );
    assert!(failure(&read, &bags).to_string().contains("~j at 3"));
}

#[test]
fn events_of_a_filtered_bag_are_not_ambiguous() {
    let bag = inputs([spans(&[(0, 4, 1), (2, 6, 2)])]);
    let read = format!(
        "{X} overlap bag\n ~f[t] = if ~x[t] == 2 then ~x[t] else null\n~o[t every 3] = ~f[t]"
    );
    assert_eq!(output(&read, &bag), "(0,3]2 (3,6]2");
}

#[test]
fn edges_are_those_of_the_event_read() {
    let x = inputs([spans(&[(0, 3, 1), (4, 8, 2)])]);
    let read = format!("{X}\n~o[t at ~x] = {{s: start(~x[t]), e: end(~x[t-5])}}");
    assert_eq!(output(&read, &x), "(0,3]{0, null} (4,8]{4, 3}");
}

#[test]
fn prev_counts_events_that_have_a_value() {
    let x = inputs([points(&[(1, 10), (2, 20), (3, 30), (4, 40)])]);
    let prev = |clock: &str, body: &str| {
        let filter = "~f[t] = if ~x[t] != 20 then ~x[t] else null";
        output(
            &format!("input ~x: i64 point\n {filter}\n~o[t {clock}] = {body}"),
            &x,
        )
    };
    assert_eq!(prev("at ~x", "~f.prev(1)"), "(2,3]10 (3,4]30");
    assert_eq!(prev("at ~x", "~f.prev(0)"), "(0,1]10 (2,3]30 (3,4]40");
    assert_eq!(prev("at ~x", "~f.prev(2)"), "(3,4]10");
    assert_eq!(
        prev("every 2", "~x.prev(1)"),
        "(0,2]10 (2,4]30",
        "of the active event"
    );
    assert_eq!(
        prev("every 2", "~f.prev(1)"),
        "(2,4]30",
        "φ where none is active"
    );
}

#[test]
fn prev_of_a_bag_goes_back_from_the_bound_event() {
    let bag = inputs([points(&[(5, 1), (5, 2), (6, 3)])]);
    let prev = "input ~x: i64 point overlap bag\n~o[t] = ~x.prev(1)";
    assert_eq!(output(prev, &bag), "(4,5]1 (5,6]2");
}

#[test]
fn hold_is_a_backward_as_of_join_with_exact_matches() {
    let data = inputs([
        points(&[(2, 1), (7, 2)]),
        points(&[(1, 0), (2, 0), (6, 0), (7, 0), (12, 0)]),
    ]);
    let asof = |hold: &str| {
        let streams = "input ~x: i64 point\ninput ~y: i64 point";
        output(&format!("{streams}\n~o[t at ~y] = {hold}"), &data)
    };
    assert_eq!(asof("hold(~x[t])"), "(1,2]1 (5,6]1 (6,7]2 (11,12]2");
    assert_eq!(asof("hold(~x[t], 5)"), "(1,2]1 (5,6]1 (6,7]2");
    assert_eq!(asof("hold(~x[t], 4)"), "(1,2]1 (6,7]2");
    assert_eq!(asof("hold(~x[t-1])"), "(5,6]1 (6,7]1 (11,12]2");
    assert_eq!(
        asof("hold(~x[t+1])"),
        "(0,1]1 (1,2]1 (5,6]2 (6,7]2",
        "not beyond the run"
    );
}

#[test]
fn a_phi_choice_is_read_as_phi_whatever_else_is_active() {
    let data = inputs([points(&[(1, 1), (2, 2)]), points(&[(1, 0), (2, 0)])]);
    let read = "input ~x: i64 point\ninput ~y: i64 point
        ~f[t] = if ~x[t] == 2 then ~x[t] else null\n~o[t on ~f[t], ~y[t]] = {x: ~x[t]}";
    assert_eq!(output(read, &data), "(0,1]{null} (1,2]{2}");
}

#[test]
fn conditions_that_are_phi_count_as_false() {
    let data = inputs([points(&[(1, 1), (2, 2)]), points(&[(2, 5)])]);
    let body = |body: &str| {
        let streams = "input ~x: i64 point\ninput ~y: i64 point";
        output(&format!("{streams}\n~o[t at ~x] = {body}"), &data)
    };
    assert_eq!(body("if ~y[t] > 0 then 1 else 2"), "(0,1]2 (1,2]1");
    assert_eq!(body("~y[t] > 0 || ~x[t] == 1"), "(0,1]true (1,2]true");
    assert_eq!(body("~y[t] > 0 && ~x[t] == 1"), "(1,2]false");
    assert_eq!(body("is_null(~y[t])"), "(0,1]true (1,2]false");
    assert_eq!(body("coalesce(~y[t], ~x[t])"), "(0,1]1 (1,2]5");
    assert_eq!(body("clip(~y[t], 0, 3)"), "(1,2]3");
    assert_eq!(body("~x[t] / (~x[t] - 1)"), "(1,2]2");
    assert_eq!(body("let v = ~x[t] + 1 in v * v"), "(0,1]4 (1,2]9");
}

#[test]
fn a_record_is_never_phi_but_its_fields_may_be() {
    let x = inputs([vec![
        Event::point(1, Value::record([1.into(), Value::Null])),
        Event::point(2, Value::record([Value::Null, Value::Null])),
    ]]);
    let record = |body: &str| {
        let streams = "input ~x: {a: i64, b: f64} point";
        output(&format!("{streams}\n~o[t] = {body}"), &x)
    };
    assert_eq!(record("~x[t]"), "(0,1]{1, null} (1,2]{null, null}");
    assert_eq!(record("~x[t].a"), "(0,1]1");
    assert_eq!(record("{c: ~x[t].b}"), "(0,1]{null} (1,2]{null}");
    assert_eq!(record("is_null({c: ~x[t].b})"), "(0,1]false (1,2]false");
    assert_eq!(record("is_null(~x.prev(1).a)"), "(0,1]true (1,2]false");
}

#[test]
fn time_is_the_end_of_the_event() {
    let x = inputs([spans(&[(0, 3, 1), (4, 8, 2)])]);
    let time = |body: &str| output(&format!("{X}\n~o[t at ~x] = {body}"), &x);
    assert_eq!(time("t"), "(0,3]3 (4,8]8");
    assert_eq!(time("t - start(~x[t])"), "(0,3]3 (4,8]4");
}

#[test]
fn the_branch_not_taken_is_not_observed() {
    let bag = inputs([spans(&[(0, 4, 1), (2, 6, 2)])]);
    let read = format!("{X} overlap bag\n~o[t every 3] = if t > ts(5, tick) then ~x[t] else 0");
    assert_eq!(output(&read, &bag), "(0,3]0 (3,6]2");
}
