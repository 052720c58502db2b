//! Section 3: clocks and their combinations; ranges of grids.

use super::{inputs, output, output_with, points, spans};
use crate::{Inputs, Options};
use tilt_ir::Span;

const TWO: &str = "input ~x: i64 interval\ninput ~y: i64 interval";
const TWO_BAGS: &str = "input ~x: i64 interval overlap bag\ninput ~y: i64 interval overlap bag";

fn steps() -> Inputs {
    inputs([spans(&[(0, 5, 1), (5, 9, 2)]), spans(&[(3, 7, 10)])])
}

#[test]
fn a_strict_join_has_events_where_both_sides_have() {
    let join = format!("{TWO}\n~o[t] = ~x[t] + ~y[t]");
    assert_eq!(output(&join, &steps()), "(3,5]11 (5,7]12");
}

#[test]
fn an_outer_join_has_events_where_either_side_has() {
    let join = format!("{TWO}\n~o[t] = coalesce(~x[t], 0) + coalesce(~y[t], 0)");
    assert_eq!(output(&join, &steps()), "(0,3]1 (3,5]11 (5,7]12 (7,9]2");
}

#[test]
fn neighbours_with_equal_values_stay_two_events() {
    let data = inputs([spans(&[(0, 2, 1), (2, 4, 1)]), spans(&[(0, 4, 0)])]);
    let join = format!("{TWO}\n~o[t] = ~x[t] + ~y[t]");
    assert_eq!(output(&join, &data), "(0,2]1 (2,4]1");
}

#[test]
fn a_bag_is_paired_with_what_is_active_on_the_other_side() {
    let data = inputs([spans(&[(0, 4, 1), (2, 6, 2)]), spans(&[(1, 5, 10)])]);
    let inner = format!("{TWO_BAGS}\n~o[t] = ~x[t] + ~y[t]");
    assert_eq!(output(&inner, &data), "(1,4]11 (2,5]12");
    let outer = format!("{TWO_BAGS}\n~o[t] = coalesce(~x[t], 0) + coalesce(~y[t], 0)");
    assert_eq!(output(&outer, &data), "(0,1]1 (1,4]11 (2,5]12 (5,6]2");
}

#[test]
fn two_bags_give_all_pairs_in_order_of_the_sources() {
    let bags = inputs([points(&[(5, 1), (5, 2)]), points(&[(5, 10), (5, 20)])]);
    let pairs = "(4,5]{1, 10} (4,5]{1, 20} (4,5]{2, 10} (4,5]{2, 20}";
    let join = |clock: &str| format!("{TWO_BAGS}\n~o[t on {clock}] = {{x: ~x[t], y: ~y[t]}}");
    assert_eq!(output(&join("~x[t], ~y[t]"), &bags), pairs);
    assert_eq!(
        output(&join("~y[t], ~x[t]"), &bags),
        "(4,5]{1, 10} (4,5]{2, 10} (4,5]{1, 20} (4,5]{2, 20}"
    );
}

#[test]
fn clocks_with_the_same_sources_share_their_timeline() {
    let bags = inputs([points(&[(5, 1), (5, 2)]), points(&[(5, 10), (5, 20)])]);
    let twins = format!(
        "{TWO_BAGS}
        ~a[t on ~x[t], ~y[t]] = if ~x[t] == 1 then ~x[t] else null
        ~b[t on ~x[t], ~y[t]] = ~y[t]\n~o[t] = {{a: ~a[t], b: ~b[t]}}"
    );
    let positions = "(4,5]{1, 10} (4,5]{1, 20} (4,5]{null, 10} (4,5]{null, 20}";
    assert_eq!(output(&twins, &bags), positions);
}

#[test]
fn a_shifted_self_join_pairs_now_with_then() {
    let x = inputs([spans(&[(0, 3, 5), (3, 6, 9)])]);
    let join = "input ~x: i64 interval\n~o[t] = ~x[t] - ~x[t-2]";
    assert_eq!(output(join, &x), "(2,3]0 (3,5]4 (5,6]0");
    let bag = inputs([spans(&[(0, 3, 1), (0, 3, 2)])]);
    let join = "input ~x: i64 interval overlap bag\n~o[t] = ~x[t] - ~x[t-2]";
    assert_eq!(output(join, &bag), "(2,3]0 (2,3]-1 (2,3]1 (2,3]0");
}

#[test]
fn a_shift_moves_intervals_and_keeps_the_order_of_equal_ends() {
    let bag = inputs([spans(&[(3, 5, 1), (1, 5, 2)])]);
    let shift = "input ~x: i64 interval overlap bag\n~o[t] = ~x[t-5]";
    assert_eq!(output(shift, &bag), "(8,10]1 (6,10]2");
    let ahead = "input ~x: i64 interval overlap bag\n~o[t] = ~x[t+5]";
    assert_eq!(output(ahead, &bag), "(-2,0]1 (-4,0]2");
}

#[test]
fn streams_on_one_timeline_combine_event_by_event_also_in_bags() {
    let bag = inputs([points(&[(5, 1), (5, 2)])]);
    let own = "input ~x: i64 point overlap bag
        ~a[t] = ~x[t] * 2
        ~b[t] = if ~x[t] > 1 then ~x[t] else null\n~o[t] = ~a[t] + coalesce(~b[t], 0)";
    assert_eq!(output(own, &bag), "(4,5]2 (4,5]6");
}

#[test]
fn one_timeline_ticks_where_at_least_one_source_has_a_value() {
    let x = inputs([points(&[(1, 1), (2, 2), (3, 3)])]);
    let own = "input ~x: i64 point
        ~a[t] = if ~x[t] == 1 then ~x[t] else null
        ~b[t] = if ~x[t] == 3 then ~x[t] else null\n~o[t] = is_null(~a[t]) && ~b[t] == 3";
    assert_eq!(output(own, &x), "(0,1]false (2,3]true");
}

#[test]
fn a_window_source_ticks_where_events_enter_and_leave() {
    let x = inputs([points(&[(1, 0), (3, 0), (9, 0)])]);
    let count = "input ~x: i64 point\n~o[t on ~x[t-5 : t]] = reduce len ~x[t-5 : t]";
    assert_eq!(output(count, &x), "(0,2]1 (2,5]2 (5,7]1 (8,13]1");
}

#[test]
fn a_hold_source_lasts_until_replaced_expired_or_the_end_of_the_run() {
    let x = inputs([points(&[(2, 1), (7, 2)])]);
    let until_10 = Options {
        span: Some(Span::new(0, 10)),
        ..Options::default()
    };
    let held = |read: &str| {
        let streams = format!("input ~x: i64 point\n~o[t] = {read}");
        output_with(&streams, &x, &until_10)
    };
    assert_eq!(held("hold(~x[t])"), "(1,6]1 (6,10]2");
    assert_eq!(held("hold(~x[t], 3)"), "(1,4]1 (6,9]2");
    assert_eq!(held("hold(~x[t], 100)"), "(1,6]1 (6,10]2");
    assert_eq!(held("hold(~x[t-1])"), "(2,7]1 (7,11]2");
    assert_eq!(held("hold(~x[t+1])"), "(0,5]1 (5,9]2");
}

#[test]
fn of_events_with_one_end_the_last_is_held() {
    let bag = inputs([points(&[(2, 1), (2, 5), (4, 6)])]);
    let held = "input ~x: i64 point overlap bag\n~o[t] = hold(~x[t])";
    assert_eq!(output(held, &bag), "(1,3]5 (3,4]6");
}

#[test]
fn a_grid_has_the_cells_of_the_run_and_those_where_it_reads_something() {
    let x = inputs([points(&[(3, 1), (12, 1)])]);
    // The run is (2, 12].
    let sum = |body: &str| format!("input ~x: i64 point\n~o[t every 10] = {body}");
    assert_eq!(
        output(&sum("reduce sum ~x[t-10 : t]"), &x),
        "(0,10]1 (10,20]1"
    );
    assert_eq!(
        output(&sum("coalesce(reduce sum ~x[t-10 : t], 0)"), &x),
        "(0,10]1 (10,20]1"
    );
    assert_eq!(
        output(&sum("coalesce(reduce sum ~x[t-20 : t], 0)"), &x),
        "(0,10]1 (10,20]2 (20,30]1",
        "the window is not empty at 30"
    );
    assert_eq!(
        output(&sum("coalesce(reduce sum ~x[-inf : t-7], 0)"), &x),
        "(0,10]1 (10,20]2",
        "a running total ends with the run"
    );
    assert_eq!(
        output(&sum("7"), &x),
        "(0,10]7 (10,20]7",
        "the span of the run"
    );
    assert_eq!(
        output(&sum("coalesce(hold(~x[t], 5), 0)"), &x),
        "(0,10]0 (10,20]0"
    );
    assert_eq!(
        output(&sum("coalesce(~x[t+10], 0)"), &x),
        "(0,10]0 (10,20]0",
        "no point is at a grid point"
    );
    assert_eq!(
        output(&sum("coalesce(~x[t+13], 0)"), &x),
        "(-20,-10]1 (0,10]0 (10,20]0",
        "the point at 3 is read at -10"
    );
}

#[test]
fn a_grid_goes_as_far_as_the_cells_of_a_coarser_one_that_it_reads() {
    let x = inputs([points(&[(6, 1), (8, 3)])]);
    let impute = "input ~x: i64 point
        ~m[t every 10] = reduce sum ~x[t-10 : t]\n~o[t every 1] = coalesce(~x[t], ~m[t])";
    // The value of ~m is that of its whole cell (0, 10].
    assert_eq!(
        output(impute, &x),
        "(0,1]4 (1,2]4 (2,3]4 (3,4]4 (4,5]4 (5,6]1 (6,7]4 (7,8]3 (8,9]4 (9,10]4"
    );
}

#[test]
fn reads_in_maps_give_a_grid_no_cells() {
    let data = inputs([points(&[(3, 1)]), points(&[(3, 1)])]);
    let sum = "input ~x: i64 point\ninput ~y: i64 point
        ~o[t every 4] = coalesce(reduce sum ~x[t-1 : t] map (~y[t-100]), 0)";
    let sum = sum.replace("\n        ~o", "\n~o");
    assert_eq!(output(&sum, &data), "(0,4]0");
}

#[test]
fn equal_grids_share_positions_though_not_cells() {
    let x = inputs([points(&[(3, 1)])]);
    let two = "input ~x: i64 point
        ~a[t every 5] = coalesce(~x[t], 0)
        ~b[t every 5 offset 10] = coalesce(~x[t-20], 0)\n~o[t] = {a: ~a[t], b: ~b[t]}";
    assert_eq!(output(two, &x), "(0,5]{0, 0}");
    let apart = two.replace("t-20", "t-17");
    assert_eq!(output(&apart, &x), "(0,5]{0, 0} (15,20]{null, 1}");
}

#[test]
fn a_tumbling_value_joined_back_is_that_of_the_samples_own_window() {
    let x = inputs([points(&[(1, 2), (3, 4), (6, 10)])]);
    let back = "input ~x: i64 point
        ~m[t every 5] = reduce max ~x[t-5 : t]\n~o[t] = ~m[t] - ~x[t]";
    assert_eq!(output(back, &x), "(0,1]2 (2,3]0 (5,6]0");
}
