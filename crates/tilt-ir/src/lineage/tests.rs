//! What golden files do not show. The rules of boundary resolution stand in `tests/golden/lineage`.

use super::*;
use crate::parse::parse;

fn lineage(text: &str) -> (Program, Lineage) {
    let program = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let lineage = Lineage::new(&program);
    (program, lineage)
}

fn bounded(ticks: i64, events: u64) -> Reach {
    Reach::Bounded { ticks, events }
}

#[test]
fn reaches_read_like_durations() {
    let text = |reach: Reach, unit| reach.display(unit).to_string();
    assert_eq!(text(Reach::NONE, Unit::Second), "0s");
    assert_eq!(text(Reach::NONE, Unit::Tick), "0");
    assert_eq!(text(bounded(90, 0), Unit::Second), "90s");
    assert_eq!(text(bounded(120_000, 0), Unit::Milli), "2m");
    assert_eq!(text(bounded(20, 1), Unit::Second), "20s + 1 event");
    assert_eq!(text(bounded(0, 3), Unit::Nano), "0ns + 3 events");
    assert_eq!(text(bounded(7, 2), Unit::Tick), "7 + 2 events");
    assert_eq!(text(Reach::Unbounded, Unit::Second), "unbounded");
}

#[test]
fn the_longest_reach_is_over_all_inputs_and_both_parts() {
    let (_, lineage) = lineage(
        "query q unit s {
           input ~a: f64 point
           input ~b: f64 point
           ~out[t at ~a] = {a: reduce sum ~a[t-10s : t+2s], b: hold(~b[t]), c: ~b[t+5s]}
           output ~out }",
    );
    assert_eq!(lineage.lookback(), bounded(10, 1));
    assert_eq!(lineage.lookahead(), bounded(5, 0));
}

#[test]
fn one_unbounded_input_makes_the_whole_unbounded() {
    let (_, lineage) = lineage(
        "query q unit s {
           input ~a: f64 point
           input ~b: f64 point
           ~out[t at ~a] = {a: ~a[t], b: reduce sum ~b[-inf : t]}
           output ~out }",
    );
    assert_eq!(lineage.lookback(), Reach::Unbounded);
    assert_eq!(lineage.lookahead(), Reach::NONE);
}

#[test]
fn an_output_that_is_an_input_needs_just_itself() {
    let (program, lineage) = lineage("query q unit s { input ~a: f64 interval output ~a }");
    let here = Halo {
        lookback: Reach::NONE,
        lookahead: Reach::NONE,
    };
    assert_eq!(lineage.halo(program.output), Some(here));
    assert_eq!(lineage.halos().count(), 1);
}

#[test]
fn an_output_that_reads_nothing_needs_nothing() {
    let (program, lineage) =
        lineage("query q unit s { input ~a: f64 point ~out[t every 5s] = 1 output ~out }");
    assert_eq!(lineage.halos().count(), 0);
    assert_eq!(lineage.lookback(), Reach::NONE);
    let changes = lineage.changes(program.output);
    assert!(changes.grid && changes.inputs.is_empty());
}

#[test]
fn changes_come_from_the_clock_and_not_from_what_is_read() {
    let (program, lineage) = lineage(
        "query q unit s {
           input ~a: f64 point
           input ~b: f64 point
           ~grid[t every 5s] = reduce sum ~b[t-5s : t]
           ~at[t at ~a] = ~grid[t]
           ~join[t] = ~b[t] + ~at[t] + ~grid[t]
           output ~join }",
    );
    let changes = |name: &str| {
        let id = program.stream_named(name).expect("the stream is there");
        let changes = lineage.changes(id);
        let names: Vec<&str> = changes
            .inputs
            .iter()
            .map(|id| program.streams[*id].name())
            .collect();
        (names, changes.grid)
    };
    assert_eq!(changes("grid"), (vec![], true));
    assert_eq!(changes("at"), (vec!["a"], false));
    assert_eq!(changes("join"), (vec!["a", "b"], true));
}

#[test]
fn distances_beyond_64_bits_saturate() {
    let far = (1_i64 << 62).to_string();
    let (program, lineage) = lineage(&format!(
        "query q unit tick {{
           input ~a: f64 point
           ~b[t] = ~a[t-{far}]
           ~c[t] = ~b[t-{far}]
           ~d[t] = ~c[t-{far}]
           output ~d }}"
    ));
    let input = program.stream_named("a").expect("the input");
    let halo = lineage.halo(input).expect("it is read");
    assert_eq!(halo.lookback, bounded(i64::MAX, 0));
    assert_eq!(halo.lookahead, Reach::NONE);
}

#[test]
fn values_of_a_column_are_counted_by_rows_that_have_all_columns() {
    let reach = |body: &str| {
        let text = format!(
            "query q unit s {{ input ~x: {{k: i64, a: f64, n: i64}} point key k {body} output ~y }}"
        );
        let program = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let complete = Lineage::of_complete_rows(&program, None);
        (Lineage::new(&program).lookback(), complete.lookback())
    };
    let counts = |events| (Reach::Unbounded, bounded(0, events));
    assert_eq!(
        reach("~v[t] = ~x[t].a ~y[t] = reduce std ~v[#-20 : #]"),
        counts(20)
    );
    assert_eq!(
        reach("~v[t] = ~x[t].a * 2.0 ~y[t] = ~v[t] - ~v.prev(3)"),
        counts(3)
    );
    let both = reach("~v[t] = ~x[t].a ~m[t] = reduce mean ~v[t-9s : t] ~y[t] = ~m.prev(2)");
    assert_eq!(both, (Reach::Unbounded, bounded(9, 2)));
    // Rows are events whatever they have.
    assert_eq!(
        reach("~y[t] = ~x.prev(2).a"),
        (bounded(0, 2), bounded(0, 2))
    );
    // Which rows have no value is not known of these.
    let all = (Reach::Unbounded, Reach::Unbounded);
    assert_eq!(
        reach("~v[t] = if ~x[t].a > 1.0 then ~x[t].a else null ~y[t] = ~v.prev(1)"),
        all
    );
    assert_eq!(reach("~v[t] = ~x[t].n / ~x[t].n ~y[t] = ~v.prev(1)"), all);
    assert_eq!(reach("~v[t] = ~x[t].k ~y[t] = ~v.prev(1)"), all);
}
