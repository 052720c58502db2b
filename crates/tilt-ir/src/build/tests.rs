//! Each operation's program and each error's message.

use super::*;
use crate::{
    expr::{Agg, UnaryOp},
    program::{Overlap, SpanRule},
    time::Unit,
    types::{Field, Width},
};

fn x() -> Stream {
    Stream::input(Input::point("x", DType::F64, Unit::Second))
}

fn y() -> Stream {
    Stream::input(Input::point("y", DType::F64, Unit::Second))
}

fn of(name: &str, dtype: DType) -> Stream {
    Stream::input(Input::point(name, dtype, Unit::Second))
}

fn samples() -> Stream {
    Stream::input(Input::samples("s", DType::F64, Unit::Milli, 5))
}

fn trades() -> Stream {
    let field = |name: &str, dtype| Field {
        name: name.to_owned(),
        dtype,
    };
    Stream::input(Input {
        key: Some("sym".to_owned()),
        overlap: Overlap::Bag,
        ..Input::point(
            "trades",
            DType::Record(vec![
                field("sym", DType::Utf8),
                field("px", DType::F64),
                field("qty", DType::I32),
            ]),
            Unit::Second,
        )
    })
}

/// The definitions of a stream's program, one a line.
fn text(stream: &Stream) -> String {
    let program = stream.program("q").unwrap_or_else(|e| panic!("{e}"));
    let text = program.to_string();
    let read = Stream::parse(&text);
    assert!(read.same(stream), "what is read back is the same query");
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.starts_with('~') || line.starts_with("reducer"));
    lines.collect::<Vec<_>>().join("\n")
}

fn error(stream: &Stream) -> String {
    stream.error().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn numbers_of_different_types_meet_in_a_common_one() {
    let (i32s, i64s) = (of("a", DType::I32), of("b", DType::I64));
    let (u8s, f32s) = (of("c", DType::UInt(Width::W8)), of("d", DType::F32));
    let dtype = |stream: &Stream| match stream.dtype() {
        Ok(dtype) => dtype.to_string(),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(text(&(&i32s + &x())), "~v[t] = cast(~a[t], f64) + ~x[t]");
    assert_eq!(text(&(&i32s + &i64s)), "~v[t] = cast(~a[t], i64) + ~b[t]");
    assert_eq!(dtype(&(&u8s * &i32s)), "i32");
    assert_eq!(dtype(&(&u8s + &of("e", DType::Int(Width::W8)))), "i16");
    assert_eq!(dtype(&(&of("f", DType::U64) + &i64s)), "f64");
    assert_eq!(dtype(&(&u8s + &f32s)), "f32");
    assert_eq!(dtype(&(&i32s + &f32s)), "f64");
    assert_eq!(
        text(&(&i32s / &i64s)),
        "~v[t] = cast(~a[t], f64) / cast(~b[t], f64)"
    );
    assert_eq!(text(&i32s.floordiv(2)), "~v[t] = ~a[t] / 2i32");
    assert_eq!(text(&x().floordiv(2)), "~v[t] = floor(~x[t] / 2.0)");
    assert_eq!(text(&i32s.pow(2)), "~v[t] = pow(~a[t], 2i32)");
    assert_eq!(
        text(&i32s.unary(UnaryOp::Sqrt)),
        "~sqrt[t] = sqrt(cast(~a[t], f64))"
    );
}

#[test]
fn constants_take_the_type_of_what_they_meet() {
    let (i32s, f32s) = (of("a", DType::I32), of("d", DType::F32));
    assert_eq!(text(&(&x() + 1)), "~v[t] = ~x[t] + 1.0");
    assert_eq!(text(&(1.5 - &f32s)), "~v[t] = 1.5f32 - ~d[t]");
    assert_eq!(text(&(&i32s * 2)), "~v[t] = ~a[t] * 2i32");
    assert_eq!(text(&(&i32s * 0.5)), "~v[t] = cast(~a[t], f64) * 0.5");
    assert_eq!(
        text(&(&i32s + 3_000_000_000_i64)),
        "~v[t] = cast(~a[t], i64) + 3000000000"
    );
    assert_eq!(
        text(&of("n", DType::Utf8).eq("a")),
        "~v[t] = ~n[t] == \"a\""
    );
    let age = x().time() - Operand::Literal(Literal::Timestamp(5, Unit::Milli));
    assert_eq!(
        text(&age),
        "~time[t] = end(~x[t])\n~v[t] = cast(~time[t], timestamp(ms)) - ts(5, ms)"
    );
    let word = when(x().gt(1))
        .then("up")
        .when(x().lt(1))
        .then(Literal::Null);
    assert_eq!(word.otherwise("flat").dtype(), Ok(&DType::Utf8));
    let half = when(x().gt(1)).then(1).otherwise(0.5);
    assert_eq!(half.dtype(), Ok(&DType::F64));
    assert_eq!(
        text(&x().clip(Some(0.into()), None)),
        "~clip[t] = clip(~x[t], 0.0, inf)"
    );
}

#[test]
fn equal_definitions_are_one_whatever_they_are_called() {
    let one = x().window("10s").mean().alias("fast");
    let two = x().window("10000ms").mean();
    assert!(one.same(&two));
    assert_eq!(
        text(&(&one / &two)),
        "~fast[t] = reduce mean ~x[t-10s : t]\n~v[t] = ~fast[t] / ~fast[t]"
    );
    let clash = x().window("20s").mean().alias("fast");
    assert_eq!(
        text(&(one - clash)),
        "~fast[t] = reduce mean ~x[t-10s : t]
~fast_2[t] = reduce mean ~x[t-20s : t]
~v[t] = ~fast[t] - ~fast_2[t]"
    );
    assert_eq!(text(&x().alias("price")), "~price[t] = ~x[t]");
}

#[test]
fn windows_add_nothing_to_the_clock_of_a_stream_with_events() {
    let mean = y().window("10s").mean();
    assert_eq!(
        text(&(x() - &mean)),
        "~v[t] = ~x[t] - reduce mean ~y[t-10s : t]"
    );
    let steps = x().hold(None);
    assert_eq!(
        text(&((&steps - &mean) * of("z", DType::F64))),
        "~v_2[t] = (hold(~x[t]) - reduce mean ~y[t-10s : t]) * ~z[t]",
        "what has events inside a floating stream changes the result, too"
    );
    assert_eq!(
        text(&mean.at(&x())),
        "~at[t at ~x] = reduce mean ~y[t-10s : t]"
    );
    let both = x().window("5s").sum() - &mean;
    assert_eq!(
        text(&both),
        "~v[t on ~x[t], ~y[t]] = reduce sum ~x[t-5s : t] - reduce mean ~y[t-10s : t]"
    );
    assert_eq!(
        text(&both.every("1m", Some("5s".into()))),
        "~every[t every 1m offset 5s] = reduce sum ~x[t-5s : t] - reduce mean ~y[t-10s : t]"
    );
    assert_eq!(
        text(&both.on_change()),
        "~on_change[t on ~x[t-5s : t], ~y[t-10s : t]] = reduce sum ~x[t-5s : t] - reduce mean ~y[t-10s : t]"
    );
    assert_eq!(
        text(&(x() - x().tumbling("10m").mean())),
        "~mean_x[t every 10m] = reduce mean ~x[t-10m : t]\n~v[t] = ~x[t] - ~mean_x[t]",
        "a window on a grid is valid for its cell"
    );
}

#[test]
fn windows_have_bounds_closures_and_conditions() {
    let of = |window: Window| text(&window.sum());
    assert_eq!(of(x().window("3i")), "~sum_x[t] = reduce sum ~x[#-3 : #]");
    assert_eq!(
        of(x().between("-10s", "+5s")),
        "~sum_x[t] = reduce sum ~x[t-10s : t+5s]"
    );
    assert_eq!(
        of(x().window("10s").closed(Closed::Left)),
        "~sum_x[t] = reduce sum ~x[t-11s : t-1s]"
    );
    assert_eq!(
        of(x().window("10s").closed(Closed::Both)),
        "~sum_x[t] = reduce sum ~x[t-11s : t]"
    );
    assert_eq!(
        of(x().window("10s").closed(Closed::Neither)),
        "~sum_x[t] = reduce sum ~x[t-10s : t-1s]"
    );
    assert_eq!(
        of(x().window("10s").min_samples(2)),
        "~sum_x[t] = if reduce len ~x[t-10s : t] >= 2 then reduce sum ~x[t-10s : t] else null"
    );
    assert_eq!(
        of(x().hopping("1h", "5m").offset("1m")),
        "~sum_x[t every 5m offset 1m] = reduce sum ~x[t-1h : t]"
    );
    assert_eq!(
        of(x().window("20i").each_nth(5)),
        "~sum_x[t] = if reduce len ~x[-inf : #] % 5 == 0 then reduce sum ~x[#-20 : #] else null"
    );
    assert_eq!(
        of(samples().samples(30)),
        "~sum_s[t] = reduce sum ~s[t-150ms : t]"
    );
    assert_eq!(
        of(x().window("10s").map(Stream::abs)),
        "~abs[t] = abs(~x[t])\n~sum_abs[t] = reduce sum ~x[t-10s : t] map (~abs[t])"
    );
    assert_eq!(
        of(x().between("-1s", "1s").prevailing()),
        "~hold[t] = hold(~x[t])\n~sum_hold[t] = reduce sum ~hold[t-1s : t+1s]"
    );
    assert_eq!(text(&x().cum_max()), "~max_x[t] = reduce max ~x[-inf : #]");
    assert_eq!(
        text(&x().window("1h").integral(Some("1m".into()))),
        "~integral_x[t] = reduce integral ~x[t-1h : t]\n~integral[t] = ~integral_x[t] / 60.0"
    );
}

#[test]
fn several_reductions_are_a_record() {
    let window = trades().tumbling("1m").field("px");
    let bars = window.agg([
        ("high", window.max()),
        ("range", window.max() - window.min()),
    ]);
    assert_eq!(
        text(&bars),
        "~px[t] = ~trades[t].px
~len_px[t every 1m] = reduce len ~trades[t-1m : t] map (~px[t])
~max_px[t every 1m] = reduce max ~trades[t-1m : t] map (~px[t])
~min_px[t every 1m] = reduce min ~trades[t-1m : t] map (~px[t])
~v[t] = ~max_px[t] - ~min_px[t]
~agg[t] = if ~len_px[t] > 0 then {high: ~max_px[t], range: ~v[t]} else null"
    );
}

#[test]
fn records_are_taken_apart_and_put_together() {
    let t = trades();
    assert_eq!(text(&t.field("px")), "~px[t] = ~trades[t].px");
    assert_eq!(
        text(&t.select(&["qty", "px"])),
        "~select[t] = {qty: ~trades[t].qty, px: ~trades[t].px}"
    );
    assert_eq!(
        text(&t.drop(&["sym"]).rename(&[("px", "price")])),
        "~drop[t] = {px: ~trades[t].px, qty: ~trades[t].qty}
~rename[t] = {price: ~drop[t].px, qty: ~drop[t].qty}"
    );
    let wide = t.with_columns([
        ("px", t.field("px") * 2.0),
        ("mean", x().window("5s").mean()),
    ]);
    assert_eq!(
        text(&wide),
        "~px[t] = ~trades[t].px
~v[t] = ~px[t] * 2.0
~with_columns[t at ~trades] = {sym: ~trades[t].sym, px: ~v[t], qty: ~trades[t].qty, mean: reduce mean ~x[t-5s : t]}"
    );
    assert_eq!(
        text(&struct_of([("a", x()), ("b", y())])),
        "~struct[t] = {a: ~x[t], b: ~y[t]}"
    );
}

#[test]
fn reads_around_an_instant() {
    assert_eq!(text(&x().shift("5s")), "~shift[t] = ~x[t-5s]");
    assert_eq!(text(&x().at_offset("+1m")), "~shift[t] = ~x[t+1m]");
    assert_eq!(
        text(&x().diff(1)),
        "~prev[t] = ~x.prev(1)\n~v[t] = ~x[t] - ~prev[t]"
    );
    assert_eq!(text(&samples().sample(-6)), "~sample[t at ~s] = ~s[t-30ms]");
    assert_eq!(
        text(&x().hold(Some("5s".into()))),
        "~hold[t] = hold(~x[t], 5s)"
    );
    let held = y().hold(Some("5s".into())).at(&x());
    assert_eq!(text(&held), "~at[t at ~x] = hold(~y[t], 5s)");
    assert_eq!(held.assert_causal(), Ok(()));
    assert_eq!(text(&x().start()), "~start[t] = start(~x[t])");
    assert_eq!(
        text(&x().changes()),
        "~changes[t] = if coalesce(~x[t] != ~x.prev(1), true) then ~x[t] else null"
    );
}

#[test]
fn gaps_are_where_a_timeline_has_no_value() {
    let px = trades().field("px");
    assert_eq!(
        text(&px.fill_null(0, None)),
        "~px[t] = ~trades[t].px\n~fill[t at ~trades] = coalesce(~px[t], 0.0)"
    );
    let large = px.filter(px.gt(3.0));
    assert!(
        text(&large.fill_null(0, None)).ends_with("~fill[t] = coalesce(~filter[t], 0.0)"),
        "what a filter dropped is no gap"
    );
    assert_eq!(
        text(&x().tumbling("1m").sum().fill_null(0, None)),
        "~sum_x[t every 1m] = reduce sum ~x[t-1m : t]\n~fill[t every 1m] = coalesce(~sum_x[t], 0.0)"
    );
    assert_eq!(
        text(&(x() + y()).is_null()),
        "~v[t] = ~x[t] + ~y[t]\n~is_null[t on ~x[t], ~y[t]] = is_null(~v[t])"
    );
    assert_eq!(
        text(
            &x().every("5s", None)
                .fill_gaps(Fill::Forward, Some("20s".into()))
        ),
        "~every[t every 5s] = ~x[t]
~time[t] = end(~every[t])
~fill[t every 5s] = coalesce(~every[t], if reduce first ~every[t : t+20s] map (end(~every[t])) - hold(~time[t], 21s) <= dur(20, s) then hold(~every[t], 21s) else null)"
    );
}

#[test]
fn conditions_choose_where_they_could_have_a_value() {
    let (px, qty) = (trades().field("px"), trades().field("qty"));
    let choice = |condition: &Stream| when(condition.clone()).then(1).otherwise(0);
    assert!(text(&choice(&px.gt(3.0))).ends_with("~v_2[t at ~trades] = if ~v[t] then 1 else 0"));
    let large = px.filter(px.gt(3.0));
    assert!(
        text(&choice(&large.gt(5.0))).ends_with("~v_3[t] = if ~v_2[t] then 1 else 0"),
        "what a filter dropped is no gap"
    );
    assert!(
        text(
            &when(large.gt(5.0))
                .then(&qty)
                .when(px.gt(1.0))
                .then(0)
                .otherwise(&qty)
        )
        .contains("[t at ~trades] = if"),
        "one condition that was not filtered suffices"
    );
    assert_eq!(
        text(&when(x().gt(0.0)).then(y()).otherwise(0.0)),
        "~v[t] = ~x[t] > 0.0\n~v_2[t] = if ~v[t] then ~y[t] else 0.0",
        "streams with events of their own choose wherever one changes"
    );
}

#[test]
fn columns_that_follow_a_stream_are_computed_at_its_events() {
    let slip = trades().field("px") - y().hold(None);
    let wide = trades().with_columns([("slip", &slip), ("twice", &(&slip * 2.0))]);
    assert!(
        text(&wide).ends_with("slip: ~px[t] - hold(~y[t]), twice: (~px[t] - hold(~y[t])) * 2.0}")
    );
    assert_eq!(wide.assert_causal(), Ok(()));
    let either = coalesce([&trades().field("px"), &y().hold(None)]);
    assert!(
        text(&trades().with_columns([("either", &either)])).contains("either: ~v[t]"),
        "an event of it may outlast the trade"
    );
}

#[test]
fn interpolation_is_looked_at_where_one_asks() {
    let line = x().interpolate(Interpolation::Linear, "20s");
    let body = "let before = hold(~x[t], 21s) in let since = hold(~time[t], 21s) in \
        if t == since then before else let gap = cast(cast(reduce first ~x[t : t+20s] map (end(~x[t])) - since, i64), f64) in \
        if gap <= 20.0 then before + (reduce first ~x[t : t+20s] - before) * (cast(cast(t - since, i64), f64) / gap) else null";
    assert_eq!(
        text(&line.at(&y())),
        format!("~time[t] = end(~x[t])\n~at[t at ~y] = {body}")
    );
    assert_eq!(
        text(&line),
        format!("~time[t] = end(~x[t])\n~interpolate[t at ~x] = {body}")
    );
}

#[test]
fn a_recurrence_reads_its_own_past() {
    let s = samples();
    let low = recur(&DType::F64, Some(0.0.into()), |y| {
        2.0 * y.sample(-1) - y.sample(-2) + &s - s.sample(-6).fill_null(0.0, None)
    });
    assert_eq!(
        text(&low),
        "~sample_3[t at ~s] = ~s[t-30ms]
~fill[t at ~s] = coalesce(~sample_3[t], 0.0)
~recur[t]: f64 = 2.0 * coalesce(~recur.prev(1), 0.0) - coalesce(~recur.prev(2), 0.0) + ~s[t] - ~fill[t]"
    );
    let again = recur(&DType::F64, Some(0.0.into()), |y| {
        2.0 * y.sample(-1) - y.sample(-2) + &s - s.sample(-6).fill_null(0.0, None)
    });
    assert!(low.same(&again));
    let ticks = Stream::input(Input::point("n", DType::I64, Unit::Tick));
    let count = recur(&DType::I64, None, |y| coalesce([y.prev(1) + 1, &ticks - 1]));
    assert_eq!(
        text(&count),
        "~v_2[t] = ~n[t] - 1\n~recur[t]: i64 = coalesce(~recur.prev(1) + 1, ~v_2[t])"
    );
    assert_eq!(
        text(&x().lfilter(&[1.0, 0.0, -2.0], &[2.0, -1.0])),
        "~lfilter[t]: f64 = ~x[t] * 0.5 + coalesce(~x.prev(2), 0.0) * -1.0 + coalesce(~lfilter.prev(1), 0.0) * 0.5"
    );
}

#[test]
fn a_reducer_is_traced_once() {
    let mean = || {
        Reducer::new(
            "vwap",
            trades().dtype().unwrap_or(&DType::F64),
            Unit::Second,
            [("pv", 0.0.into()), ("vol", 0.0.into())],
        )
        .acc(|state, trade, _, _| {
            let volume = trade.field("qty");
            vec![
                ("pv", state.field("pv") + trade.field("px") * &volume),
                ("vol", state.field("vol") + volume),
            ]
        })
        .merge(|a, b| {
            vec![
                ("pv", a.field("pv") + b.field("pv")),
                ("vol", a.field("vol") + b.field("vol")),
            ]
        })
        .result(|state| state.field("pv") / state.field("vol"))
    };
    let window = trades().window("5m");
    let twice = window.reduce_with(&mean()) - trades().window("1m").reduce_with(&mean());
    let program = twice.program("q").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(program.reducers.len(), 1);
    assert!(
        program
            .to_string()
            .contains("acc(state, value, start, end) = {pv: state.pv + value.px * cast(value.qty, f64), vol: state.vol + cast(value.qty, f64)}"),
        "{program}"
    );
}

#[test]
fn the_finest_unit_is_the_querys() {
    let fine = Stream::input(Input::samples("fine", DType::F64, Unit::Milli, 5));
    let slow = x().window("10s").integral(None) + x().window("10s").slope();
    let joined = &fine + slow.at(&x());
    assert_eq!(joined.program("q").map(|p| p.unit), Ok(Unit::Milli));
    assert_eq!(
        text(&(&fine - x().time().cast(&DType::I64))),
        "~time[t] = cast(end(~x[t]), timestamp(s))
~v[t] = cast(~time[t], i64)
~v_2[t] = ~fine[t] - cast(~v[t], f64)"
    );
    assert!(text(&joined).contains("reduce integral ~x[t-10s : t] / 1000.0"));
}

#[test]
fn reach_is_what_the_program_says() {
    let x = x();
    let ahead = x.between("-10s", "5s").mean();
    assert_eq!(
        ahead
            .lookback()
            .map(|r| r.display(Unit::Second).to_string()),
        Ok("10s".to_owned())
    );
    assert_eq!(
        ahead
            .lookahead()
            .map(|r| r.display(Unit::Second).to_string()),
        Ok("5s".to_owned())
    );
    let error = ahead.assert_causal().map_err(|e| e.to_string());
    assert_eq!(
        error,
        Err("assert_causal: the query is not causal: ~x is read 5s ahead
    ~mean_x[t] = reduce mean ~x[t-10s : t+5s]    // f64
  hint: look for positive offsets, for windows that end after t, and for values of tumbling windows that are read inside the window"
            .to_owned())
    );
    assert_eq!(x.window("10s").mean().assert_causal(), Ok(()));
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    let cases: &[(Stream, &str)] = &[
        (
            x() + "a",
            "+: `+` has no common type for f64 and utf8
    input ~x: f64 point
  hint: `cast` one of them",
        ),
        (
            trades().window("5s").mean(),
            "mean: `reduce mean` takes numbers, not {sym: utf8, px: f64, qty: i32}
    input ~trades: {sym: utf8, px: f64, qty: i32} point key sym overlap bag
  hint: take one of its fields first, for example `field(\"price\")`",
        ),
        (
            trades().field("price"),
            "field: there is no field `price` in {sym: utf8, px: f64, qty: i32}
    input ~trades: {sym: utf8, px: f64, qty: i32} point key sym overlap bag
  hint: `schema()` lists the fields there are",
        ),
        (
            x().window("1mo").mean(),
            "window: `1mo` has a calendar unit (mo, q, y), whose length varies; use it with calendar windows only
    input ~x: f64 point",
        ),
        (
            x().window("250ms").mean(),
            "window: `250ms` is not a whole number of s; give the query a finer unit
    input ~x: f64 point",
        ),
        (
            x().shift("5i"),
            "shift: `5i` is a number of events where a length of time is needed
    input ~x: f64 point
  hint: write for example `10s`; `prev(n)` and windows by count take events",
        ),
        (
            x().sample(-6),
            "sample: samples are counted on streams of a known period only
    input ~x: f64 point
  hint: `prev(n)` counts events, a window of `count` events holds the last of them; or declare the input's `period`",
        ),
        (
            x() + of("x", DType::I64),
            "+: two different inputs are called `x`
    input ~x: f64 point
    input ~x: i64 point
  hint: an input is declared once and then used as often as needed; give one of them another name",
        ),
        (
            x() + Stream::input(Input::point("n", DType::I64, Unit::Tick)),
            "+: one stream counts plain ticks and another seconds
    input ~x: f64 point
    input ~n: i64 point
  hint: declare both inputs with a unit of seconds, or both with `tick`",
        ),
        (
            x().ewm(1.5),
            "ewm: in ~ewm_x: the smoothing factor 1.5 is not in (0, 1]
    reduce ewm(1.5) ~x[-inf : #]
    input ~x: f64 point",
        ),
        (
            x().between("5s", "-5s").mean(),
            "mean: in ~mean_x: the window is empty: its lower bound must be below its upper bound
    reduce mean ~x[t+5s : t-5s]
    input ~x: f64 point",
        ),
        (
            x().join_asof(&y(), AsOf::Forward, None, "_y"),
            "join_asof: it looks for the next event and needs a `tolerance`
    input ~x: f64 point
    input ~y: f64 point
  hint: `tolerance` bounds how far the query looks ahead",
        ),
        (
            x().held_for("5s"),
            "held_for: the stream is not a condition
    input ~x: f64 point
  hint: compare it with something first, for example `x.gt(3.0)`",
        ),
        (
            recur(&DType::F64, None, |y| (y + x()).prev(1) + x()),
            "recur: a recurrence reads the past of itself, not `~v.prev(1)`
    ~v_2[t] = ~prev[t] + ~x[t]    // f64
  hint: apply `prev`, `sample` or `shift` to the stream that the function was given, and compute with the result",
        ),
        (
            x().hold(None).peaks("5s", None),
            "peaks: the events have no fixed length
    ~hold[t] = hold(~x[t])    // f64
  hint: peaks are those of points or samples; `resample` the stream first",
        ),
        (
            x().lfilter(&[1.0], &[0.0]),
            "lfilter: a filter needs finite coefficients, at least one in `b`, and an `a[0]` that is not zero
    input ~x: f64 point",
        ),
        (
            trades().drop(&["price"]),
            "drop: there is no column `price`
    input ~trades: {sym: utf8, px: f64, qty: i32} point key sym overlap bag
  hint: there are sym, px, qty",
        ),
        (
            x().window("5s").closed(Closed::Left).offset("1s").mean(),
            "offset: only windows on a grid have an offset
    input ~x: f64 point
  hint: use `tumbling`, `hopping` or `calendar`",
        ),
    ];
    for (stream, expected) in cases {
        assert_eq!(error(stream), *expected);
    }
}

#[test]
fn the_first_error_is_carried_on() {
    let wrong = (x() + "a").window("5s").mean() * y().shift("nonsense");
    assert!(error(&wrong).starts_with("+: "));
    assert_eq!(wrong.error().map(|e| e.kind), Some(ErrorKind::Type));
    assert!(wrong.program("q").is_err());
    let integer = Reducer::new("r", &DType::F64, Unit::Second, [("n", 0.into())])
        .acc(|state, value, _, _| vec![("n", state.field("n") + value)])
        .result(|state| state.field("n"));
    assert_eq!(
        error(&x().window("5s").reduce_with(&integer)),
        "@r: in `acc`: the field `n` of the state is i64, but is set to f64
    input ~x: f64 point
  hint: give `init` a value of the wider type, for example 0.0 instead of 0, or `cast`"
    );
}

#[test]
fn many_operations_stay_quick_and_shared() {
    let mut sum = x();
    for i in 0..300 {
        sum = sum + x().window(Length::Ticks(1 + i)).reduce(Agg::Mean);
    }
    let program = sum.program("q").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(program.inputs().count(), 1);
    assert_eq!(program.streams.len(), 1 + 2 * 300);
    let span = Stream::input(Input {
        span: SpanRule::Fixed(0),
        ..Input::point("z", DType::F64, Unit::Second)
    });
    assert!(error(&span).contains("the span of 0 ticks is not positive"));
}
