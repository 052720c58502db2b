//! Cases of Trill's own tests and sources. Trill's `[s, e)` is `(s-1, e-1]` here; a window result, which Trill keeps for
//! one hop *after* the window, is the held value of the grid cell.

use super::{half_open, inputs, output, output_with, points};
use crate::{Event, Inputs, Options, Value};
use tilt_ir::Span;

fn until_100() -> Options {
    Options {
        span: Some(Span::new(-100, 100)),
        ..Options::default()
    }
}

const BAG: &str = "input ~x: i64 interval overlap bag";
const X: &str = "input ~x: i64 point";

/// Events in the order in which they end.
fn by_end(mut events: Vec<Event>) -> Inputs {
    events.sort_by_key(|event| event.end);
    inputs([events])
}

#[test]
fn hopping_equal_neighbours_not_merged() {
    let x = inputs([points(&[(11, 1), (12, 1), (21, 2), (25, 2)])]);
    let max = format!("{X}\n ~w[t every 10] = reduce max ~x[t-20 : t]\n~o[t] = hold(~w[t], 10)");
    assert_eq!(
        output_with(&max, &x, &until_100()),
        "(19,29]1 (29,39]2 (39,49]2"
    );
}

#[test]
fn tumbling_sum() {
    let x = inputs([points(&[(3, 1), (8, 2), (14, 5)])]);
    let sum = format!("{X}\n ~w[t every 10] = reduce sum ~x[t-10 : t]\n~o[t] = hold(~w[t], 10)");
    assert_eq!(output_with(&sum, &x, &until_100()), "(9,19]3 (19,29]5");
}

#[test]
fn tumbling_with_offset() {
    let x = inputs([points(&[(3, 1), (4, 2), (13, 4)])]);
    let window = "~w[t every 10 offset 3] = reduce sum ~x[t-10 : t]";
    let sum = format!("{X}\n {window}\n~o[t] = hold(~w[t], 10)");
    assert_eq!(output_with(&sum, &x, &until_100()), "(2,12]1 (12,22]6");
}

#[test]
fn running_sum() {
    let x = inputs([points(&[(1, 2), (4, 3), (4, 5), (9, 1)])]);
    let sum = format!("{X} overlap bag\n ~s[t] = reduce sum ~x[-inf : t]\n~o[t] = hold(~s[t])");
    assert_eq!(
        output_with(&sum, &x, &until_100()),
        "(0,3]2 (3,8]10 (8,100]11"
    );
}

#[test]
fn snapshots_of_overlapping_intervals() {
    let x = by_end(half_open(&[
        (1, 5, 10),
        (1, 3, 20),
        (2, 3, 30),
        (2, 4, 40),
        (3, 4, 50),
    ]));
    let snapshot = |body: &str| output(&format!("{BAG}\n~o[t on ~x[t-1 : t]] = {body}"), &x);
    assert_eq!(
        snapshot("reduce len ~x[t-1 : t]"),
        "(0,1]2 (1,2]4 (2,3]3 (3,4]1"
    );
    assert_eq!(
        snapshot("reduce max ~x[t-1 : t]"),
        "(0,1]20 (1,2]40 (2,3]50 (3,4]10"
    );
    let filtered = "{all: reduce len ~x[t-1 : t],
        big: coalesce(reduce len ~x[t-1 : t] map (if ~x[t] >= 30 then 1 else null), 0)}";
    assert_eq!(
        snapshot(filtered),
        "(0,1]{2, 0} (1,2]{4, 2} (2,3]{3, 2} (3,4]{1, 0}"
    );
}

#[test]
fn min_with_removals() {
    let x = by_end(half_open(&[
        (1, 5, 50),
        (1, 3, 40),
        (2, 3, 30),
        (2, 4, 20),
        (3, 4, 10),
    ]));
    let min = format!("{BAG}\n~o[t on ~x[t-1 : t]] = reduce min ~x[t-1 : t]");
    assert_eq!(output(&min, &x), "(0,1]40 (1,2]20 (2,3]10 (3,4]50");
}

#[test]
fn max_duplicate_values_removed_one_by_one() {
    let x = by_end(half_open(&[(1, 6, 7), (2, 4, 7), (3, 5, 7)]));
    let max = format!("{BAG}\n~o[t on ~x[t-1 : t]] = reduce max ~x[t-1 : t]");
    assert_eq!(output(&max, &x), "(0,1]7 (1,2]7 (2,3]7 (3,4]7 (4,5]7");
}

#[test]
fn topk_snapshots() {
    let x = by_end(half_open(&[(0, 5, 9), (0, 5, 7), (0, 5, 3), (2, 4, 8)]));
    let top = format!("{BAG}\n~o[t on ~x[t-1 : t]] = reduce top_k(2) ~x[t-1 : t]");
    assert_eq!(output(&top, &x), "(-1,1][9, 7] (1,3][9, 8] (3,4][9, 7]");
}

#[test]
fn nulls_skipped() {
    let row = |v: Option<i64>| Value::record([v.into()]);
    let x = by_end(half_open(&[
        (0, 10, row(None)),
        (2, 8, row(Some(4))),
        (4, 6, row(Some(6))),
    ]));
    let counts = "input ~x: {v: i64} interval overlap bag
        ~o[t on ~x[t-1 : t]] = {rows: reduce len ~x[t-1 : t],
          values: coalesce(reduce len ~x[t-1 : t] map (~x[t].v), 0),
          mean: reduce mean ~x[t-1 : t] map (~x[t].v)}";
    assert_eq!(
        output(&counts.replace("\n        ~o", "\n~o"), &x),
        "(-1,1]{1, 0, null} (1,3]{2, 1, 4.0} (3,5]{3, 2, 5.0} (5,7]{2, 1, 4.0} (7,9]{1, 0, null}"
    );
}

#[test]
fn shift_forward() {
    let x = inputs([half_open(&[(0, 120, 1), (4, 130, 2)])]);
    assert_eq!(
        output(&format!("{BAG}\n~o[t] = ~x[t-1]"), &x),
        "(0,120]1 (4,130]2"
    );
}

#[test]
fn chop_offset() {
    // Trill's boundaries at 2 and 7 are the ends 1 and 6 of cells.
    let x = inputs([half_open(&[(0, 12, 1)])]);
    let chop = format!("{BAG}\n ~g[t every 5 offset 1] = true\n~o[t on ~x[t], ~g[t]] = ~x[t]");
    assert_eq!(output(&chop, &x), "(-1,1]1 (1,6]1 (6,11]1");
}

#[test]
fn consecutive_pairs() {
    let x = inputs([points(&[(1, 5), (4, 9), (9, 2)])]);
    let pairs = "if is_null(~x.prev(1)) then null else {before: ~x.prev(1), now: ~x[t]}";
    assert_eq!(
        output(&format!("{X}\n~o[t] = {pairs}"), &x),
        "(3,4]{5, 9} (8,9]{9, 2}"
    );
}

const LEFT_RIGHT: &str = "input ~x: utf8 interval overlap bag\ninput ~y: utf8 interval overlap bag";

#[test]
fn join_multiplicity() {
    let data = inputs([
        half_open(&[(0, 10, "x"), (0, 10, "x")]),
        half_open(&[(5, 6, "y"), (5, 8, "y")]),
    ]);
    let pair = "if is_null(~x[t]) || is_null(~y[t]) then null else {x: ~x[t], y: ~y[t]}";
    assert_eq!(
        output(&format!("{LEFT_RIGHT}\n~o[t] = {pair}"), &data),
        r#"(4,5]{"x", "y"} (4,5]{"x", "y"} (4,7]{"x", "y"} (4,7]{"x", "y"}"#
    );
}

#[test]
fn full_outer_join() {
    let data = inputs([half_open(&[(10, 20, "v1")]), half_open(&[(15, 25, "v1")])]);
    let tag = r#"if is_null(~x[t]) then "R" else if is_null(~y[t]) then "L" else "LR""#;
    assert_eq!(
        output(&format!("{LEFT_RIGHT}\n~o[t] = {tag}"), &data),
        r#"(9,14]"L" (14,19]"LR" (19,24]"R""#
    );
}

#[test]
fn anti_join() {
    let keep = format!("{LEFT_RIGHT}\n~o[t] = if is_null(~y[t]) then ~x[t] else null");
    let adjacent = inputs([
        half_open(&[(0, 20, "x")]),
        half_open(&[(5, 8, "r"), (8, 12, "r")]),
    ]);
    assert_eq!(output(&keep, &adjacent), r#"(-1,4]"x" (11,19]"x""#);
    let empty = inputs([half_open(&[(3, 5, "y"), (0, 10, "x")]), vec![]]);
    assert_eq!(output(&keep, &empty), r#"(2,4]"y" (-1,9]"x""#);
}

#[test]
fn join_one_side_empty() {
    let data = inputs([half_open(&[(0, 10, "x")]), vec![]]);
    assert_eq!(
        output(&format!("{LEFT_RIGHT}\n~o[t] = ~x[t] == ~y[t]"), &data),
        ""
    );
}

#[test]
fn timeslices_per_core() {
    let row = |core: &str, process: &str| Value::record([core.into(), process.into()]);
    let x = inputs([points(&[
        (0, row("c1", "W")),
        (0, row("c2", "X")),
        (120, row("c1", "E")),
        (180, row("c2", "V")),
        (300, row("c1", "W")),
    ])]);
    let slices = "input ~x: {core: utf8, process: utf8} point key core
        ~e[t] = end(~x[t])
        ~o[t] = if is_null(~e.prev(1)) then null
          else {core: ~x[t].core, process: ~x.prev(1).process, length: ~e[t] - ~e.prev(1)}";
    assert_eq!(
        output(&slices.replace("\n        ~o", "\n~o"), &x),
        r#"(119,120]{"c1", "W", 120} (179,180]{"c2", "X", 180} (299,300]{"c1", "E", 180}"#
    );
}

#[test]
fn group_hopping_sum() {
    let row = |key: &str, v: i64| Value::record([key.into(), v.into()]);
    let x = inputs([points(&[
        (11, row("A", 1)),
        (12, row("A", 1)),
        (21, row("A", 2)),
        (25, row("D", 2)),
    ])]);
    let sum = "input ~x: {k: utf8, v: i64} point key k
        ~w[t every 10] = reduce sum ~x[t-20 : t] map (~x[t].v)\n~o[t] = hold(~w[t], 10)";
    assert_eq!(
        output_with(sum, &x, &until_100()),
        "(19,29]2 (29,39]4 (29,39]2 (39,49]2 (39,49]2"
    );
}
