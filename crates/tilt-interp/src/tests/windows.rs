//! Section 4: windows and reductions.

use super::{failure, inputs, output, points, program, spans};
use crate::{Options, QueryError, RunError, Value, run};
use tilt_ir::Span;

const X: &str = "input ~x: i64 point";

#[test]
fn events_are_clipped_to_a_time_window_and_count_once() {
    let x = inputs([spans(&[(0, 10, 4.0)])]);
    let reduce = |agg: &str| {
        output(
            &format!("input ~x: f64 interval\n~o[t every 4] = reduce {agg} ~x[t-4 : t]"),
            &x,
        )
    };
    assert_eq!(reduce("integral"), "(0,4]16.0 (4,8]16.0 (8,12]8.0");
    assert_eq!(reduce("twa"), "(0,4]4.0 (4,8]4.0 (8,12]4.0");
    assert_eq!(reduce("len"), "(0,4]1 (4,8]1 (8,12]1");
    assert_eq!(reduce("arg_max"), "(0,4]10 (4,8]10 (8,12]10");
}

#[test]
fn a_window_holds_its_upper_and_not_its_lower_bound() {
    let x = inputs([points(&[(1, 1), (2, 2), (3, 4), (5, 8)])]);
    let sum = |bounds: &str| output(&format!("{X}\n~o[t] = reduce sum ~x[{bounds}]"), &x);
    assert_eq!(sum("t-2 : t"), "(0,1]1 (1,2]3 (2,3]6 (4,5]8");
    assert_eq!(sum("t : t+2"), "(0,1]6 (1,2]4 (2,3]8");
    assert_eq!(sum("t-3 : t-1"), "(1,2]1 (2,3]3 (4,5]4");
    assert_eq!(sum("-inf : t"), "(0,1]1 (1,2]3 (2,3]7 (4,5]15");
    assert_eq!(sum("-inf : t-1"), "(1,2]1 (2,3]3 (4,5]7");
}

#[test]
fn a_reduction_sees_every_event_of_a_bag() {
    let bag = inputs([points(&[(1, 1), (2, 2), (2, 4)])]);
    let sum = format!("{X} overlap bag\n~o[t] = reduce sum ~x[t-2 : t]");
    assert_eq!(output(&sum, &bag), "(0,1]1 (1,2]7 (1,2]7");
}

#[test]
fn ordinal_windows_count_from_the_bound_event() {
    let x = inputs([points(&[(1, 1), (2, 2), (5, 3), (9, 4)])]);
    let sum = |bounds: &str| output(&format!("{X}\n~o[t] = reduce sum ~x[{bounds}]"), &x);
    assert_eq!(sum("#-3 : #"), "(0,1]1 (1,2]3 (4,5]6 (8,9]9");
    assert_eq!(sum("#-1 : #+1"), "(0,1]3 (1,2]5 (4,5]7 (8,9]4");
    assert_eq!(sum("-inf : #-1"), "(1,2]1 (4,5]3 (8,9]6");
    assert_eq!(sum("# : #+1"), "(0,1]2 (1,2]3 (4,5]4");
    let bag = inputs([points(&[(5, 1), (5, 2), (5, 3)])]);
    let pairs = format!("{X} overlap bag\n~o[t] = reduce sum ~x[#-2 : #]");
    assert_eq!(output(&pairs, &bag), "(4,5]1 (4,5]3 (4,5]5");
}

#[test]
fn ordinal_windows_count_from_the_last_event_where_there_is_none() {
    let x = points(&[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]);
    let filtered = "~f[t] = if ~x[t] != 2 then ~x[t] else null";
    let own = format!("{X}\n {filtered}\n~o[t at ~x] = reduce sum ~f[#-2 : #]");
    assert_eq!(
        output(&own, &inputs([x.clone()])),
        "(0,1]1 (1,2]1 (2,3]4 (3,4]7 (4,5]9"
    );
    let data = inputs([x, points(&[(0, 0), (3, 0), (10, 0)])]);
    let last_two = |clock: &str| {
        let streams = format!("{X}\ninput ~y: i64 point");
        output(
            &format!("{streams}\n~o[t {clock}] = reduce collect ~x[#-2 : #]"),
            &data,
        )
    };
    assert_eq!(last_two("at ~y"), "(2,3][2, 3] (9,10][4, 5]");
    assert!(
        last_two("on ~x[t], ~y[t]").ends_with("(4,5][4, 5] (9,10][4, 5]"),
        "also where the source is φ"
    );
}

#[test]
fn a_running_interval_event_is_the_last_one_started() {
    let data = inputs([spans(&[(0, 5, 1), (5, 20, 2)]), points(&[(5, 0), (6, 0)])]);
    let last = "input ~x: i64 interval\ninput ~y: i64 point\n~o[t at ~y] = reduce sum ~x[#-1 : #]";
    assert_eq!(output(last, &data), "(4,5]1 (5,6]2");
}

#[test]
fn a_map_is_evaluated_at_the_end_of_its_event() {
    let data = inputs([
        points(&[(1, 1), (2, 2), (3, 3)]),
        points(&[(2, 100), (3, 200)]),
    ]);
    let reduce = |reduction: &str| {
        let streams = format!("{X}\ninput ~y: i64 point");
        output(&format!("{streams}\n~o[t at ~x] = {reduction}"), &data)
    };
    assert_eq!(
        reduce("let k = ~x[t] in reduce sum ~x[t-2 : t] map (~x[t] * k)"),
        "(0,1]1 (1,2]6 (2,3]15"
    );
    assert_eq!(
        reduce("reduce sum ~x[t-2 : t] map (if ~x[t] > 1 then ~x[t] else null)"),
        "(1,2]2 (2,3]5"
    );
    assert_eq!(
        reduce("reduce sum ~x[t-2 : t] map (~y[t])"),
        "(1,2]100 (2,3]300"
    );
    assert_eq!(
        reduce("reduce sum ~x[t-2 : t] map (cast(t, i64) + ~x.prev(1))"),
        "(1,2]3 (2,3]8",
        "2+1, then (2+1) + (3+2)"
    );
}

#[test]
fn a_map_binds_each_event_of_a_bag_to_itself() {
    let bag = inputs([points(&[(5, 1), (5, 2)])]);
    let sum =
        format!("{X} overlap bag\n~o[t every 5] = reduce sum ~x[t-5 : t] map (~x[t] * ~x[t])");
    assert_eq!(output(&sum, &bag), "(0,5]5");
}

#[test]
fn an_integer_overflow_names_reduction_and_window() {
    let x = inputs([points(&[(1, i64::MAX), (2, 1)])]);
    let sum = format!("{X}\n~o[t] = reduce sum ~x[t-5 : t]");
    let RunError::Query(QueryError::Overflow {
        reduction,
        window,
        instant,
        ..
    }) = failure(&sum, &x)
    else {
        panic!("an overflow is the query's fault")
    };
    assert_eq!(reduction, "reduce sum ~x[t-5 : t]");
    assert_eq!((window, instant), (Span::new(0, 2), 2));
}

#[test]
fn one_nan_leaves_no_trace_after_its_window() {
    let x = inputs([points(&[(1, f64::NAN), (2, 1e300), (3, 0.5), (4, 0.25)])]);
    let sum = "input ~x: f64 point\n~o[t] = reduce sum ~x[t-2 : t]";
    assert_eq!(output(sum, &x), "(0,1]NaN (1,2]NaN (2,3]1e300 (3,4]0.75");
}

#[test]
fn every_reduction_can_be_written() {
    let x = inputs([points(&[(1, 4.0), (2, 1.0)])]);
    for (agg, last) in [
        ("sum", 5.0.into()),
        ("product", 4.0.into()),
        ("mean", 2.5.into()),
        ("min", 1.0.into()),
        ("max", 4.0.into()),
        ("len", 2.into()),
        ("first", 4.0.into()),
        ("last", 1.0.into()),
        ("var", 4.5.into()),
        ("std(0)", 1.5.into()),
        ("skew", 0.0.into()),
        ("kurtosis(pearson, biased)", 1.0.into()),
        ("median", 2.5.into()),
        ("quantile(0.5, lower)", 1.0.into()),
        ("mode", 4.0.into()),
        ("n_unique", 2.into()),
        ("top_k(1)", Value::list([4.0.into()])),
        ("arg_min", 2.into()),
        ("arg_max", 1.into()),
        ("collect", Value::list([4.0.into(), 1.0.into()])),
        ("twa", 2.5.into()),
        ("integral", 5.0.into()),
        ("slope", (-3.0).into()),
        ("ewm(1.0)", 1.0.into()),
        ("rms", Value::Float(libm::sqrt(8.5))),
        ("crest_factor", Value::Float(4.0 / libm::sqrt(8.5))),
        ("any map (~x[t] > 3.0)", true.into()),
        ("all map (~x[t] > 3.0)", false.into()),
    ] {
        let (agg, map) = agg
            .split_once(" map")
            .map_or((agg, String::new()), |(agg, map)| {
                (agg, format!("map {map}"))
            });
        let streams = format!("input ~x: f64 point\n~o[t] = reduce {agg} ~x[t-5 : t] {map}");
        let events = run(&program(&streams), &x, &Options::default()).unwrap();
        let found = &events.last().expect("an event").value;
        assert!(found.same(&last), "{agg}: {found}, not {last}");
    }
}

#[test]
fn custom_reductions_fold_clipped_events_in_order() {
    let area = "reducer area(f64) {
        state {total: f64, n: i64}
        init = {total: 0.0, n: 0}
        acc(s, v, from, to) = {total: s.total + v * cast(cast(to - from, i64), f64), n: s.n + 1}
        result(s) = if s.n > 1 then s.total else null
      }
      input ~x: f64 interval
      ~o[t every 4] = reduce @area ~x[t-4 : t]";
    let area = area.replace("\n      ~o", "\n~o");
    let x = inputs([spans(&[(0, 3, 2.0), (3, 6, 5.0)])]);
    // (0, 3] and (3, 4]: 6 + 5; in (4, 8] is only one event
    assert_eq!(output(&area, &x), "(0,4]11.0");
}
