//! Programs that must be compiled, on random data, against the oracle: shapes that random programs have rarely or never.

use tilt::{
    Backend, Query, RunOptions,
    interp::{self, Event, Functions, Inputs, Options, Value, events_of},
    ir::parse,
};

use crate::{
    generate::{self, Choices, buffers},
    properties::BASES,
    text::{format_events, format_inputs},
};

fn functions() -> Functions {
    let mut functions = generate::functions();
    functions.register("half", |args: &[Value]| match args {
        [Value::Float(v)] if *v > 5.0 => Value::Null,
        [Value::Float(v)] => Value::Float(v / 2.0),
        _ => Value::Null,
    });
    functions.register("less", |args: &[Value]| match args {
        [Value::Int(a), Value::Int(b)] => Value::Bool(a < b),
        _ => Value::Null,
    });
    functions.register("narrow", |args: &[Value]| match args {
        [Value::Float(v)] => Value::Float(f64::from(*v as f32)),
        _ => Value::Null,
    });
    functions.register("length", |args: &[Value]| match args {
        [Value::Str(text)] => Value::UInt(text.len() as u64 % 256),
        _ => Value::Null,
    });
    functions.register("seven", |_: &[Value]| Value::Int(7));
    functions
}

/// Runs a program on random inputs, by the oracle and by both kinds of loops.
fn check(inputs: &str, text: &str) {
    let text = format!("query q unit tick {{ {inputs} {text} }}");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut state = 7u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u16
    };
    for optimize in [false, true] {
        let compiled = Query::new(program.clone())
            .expect("verified")
            .optimize(optimize);
        let compiled = compiled.compile().expect("compiles");
        let explained = compiled.explain();
        assert!(!explained.contains("interpreted, because"), "{explained}");
        for round in 0..60 {
            let choices: Vec<u16> = (0..150).map(|_| next()).collect();
            let base = BASES[round % BASES.len()];
            let inputs = generate::inputs(&mut Choices::new(&choices), &program, base);
            let span = interp::hull(&inputs);
            let options = Options {
                span,
                part: None,
                functions: functions(),
            };
            let Ok(expected) = interp::run(&program, &inputs, &options) else {
                continue;
            };
            let arrays = buffers(&program, &inputs);
            let ways = [
                (Backend::Loops, 1 << 20),
                (Backend::Native, 1 << 20),
                (Backend::Native, 8),
            ];
            for (backend, rows) in ways {
                let mut options = RunOptions::default()
                    .backend(backend)
                    .piece_rows(rows)
                    .functions(functions());
                if let Some(span) = span {
                    options = options.span(span);
                }
                let found = compiled
                    .run(&arrays, &options)
                    .unwrap_or_else(|e| panic!("{e}\n{program}"));
                let found = events_of(&found).expect("a buffer of events");
                let same = found.len() == expected.len()
                    && found.iter().zip(&expected).all(|(a, b)| a.same(b));
                assert!(
                    same,
                    "{backend:?} pieces of {rows}\n{}{program}\n// gives     {}\n// but here  {}\n{explained}",
                    format_inputs(&inputs),
                    format_events(&expected),
                    format_events(&found),
                );
            }
        }
    }
}

const TWO: &str = "input ~x: f64 interval  input ~y: f64 fixed 4";

/// Windows that move by several samples: panes by vectors (2, 4, 16), by ranges (3, 20), none (1, 5), and ends that cut the first one.
#[test]
fn windows_on_a_grid_of_samples() {
    let cases = [
        ("i32", "min", 1, -3, 0),
        ("i64", "mean", 1, -7, 2),
        ("i32", "min", 2, -16, 0),
        ("f64", "max", 2, -13, 5),
        ("i64", "sum", 2, -18, 0),
        ("f64", "sum", 2, -16, 0),
        ("i32", "mean", 3, -26, 1),
        ("i64", "max", 4, -32, 0),
        ("i32", "sum", 4, -29, 3),
        ("i64", "sum", 5, -10, 0),
        ("f64", "min", 16, -32, 0),
        ("i32", "mean", 16, -43, 5),
        ("f64", "mean", 16, -32, 0),
        ("i64", "len", 20, -60, 0),
    ];
    for (ty, agg, every, lo, hi) in cases {
        let end = match hi {
            0 => "t".to_owned(),
            hi => format!("t+{hi}"),
        };
        check(
            &format!("input ~x: {ty} fixed 1 period 1"),
            &format!("~y[t every {every}] = reduce {agg} ~x[t{lo} : {end}]  output ~y"),
        );
    }
}

#[test]
fn maps_read_other_streams() {
    check(
        TWO,
        "~z[t] = reduce sum ~x[t-20:t] map (~x[t] * coalesce(~y[t], 1.0))  output ~z",
    );
    check(
        TWO,
        "~z[t] = reduce max ~x[t-20:t] map (hold(~y[t-1], 6) - ~x[t])  output ~z",
    );
    check(
        TWO,
        "~z[t every 5] = reduce sum ~x[t-9:t] map (~x[t] - ~x.prev(1))  output ~z",
    );
    check(
        TWO,
        "~z[t every 5] = reduce sum ~x[t-9:t] map (cast(cast(end(~x[t]) - start(~x[t]), i64), f64))  output ~z",
    );
}

#[test]
fn maps_reduce() {
    check(
        TWO,
        "~z[t] = reduce sum ~x[t-20:t] map (reduce mean ~y[t-7:t])  output ~z",
    );
    check(
        TWO,
        "~z[t] = reduce max ~x[t-20:t] map (reduce sum ~x[t-5:t] map (~x[t] + coalesce(hold(~y[t]), 0.5)))  output ~z",
    );
}

#[test]
fn maps_over_grids_and_joins() {
    check(
        TWO,
        "~g[t every 3] = reduce sum ~x[t-6:t]  ~z[t every 4] = reduce sum ~g[t-9:t] map (~g[t] * ~y[t-1])  output ~z",
    );
    check(
        TWO,
        "~j[t on ~x[t], ~y[t]] = ~x[t] + coalesce(~y[t], 2.0)  ~z[t at ~j] = reduce max ~j[t-9:t] map (~j[t] - ~y[t])  output ~z",
    );
}

/// A map is evaluated at the end of its event, which may lie far beyond the piece that the event is read in.
#[test]
fn maps_read_grids_beyond_their_piece() {
    check(
        "input ~x: bool interval",
        "~g[t every 5 offset -5] = 1
         ~y[t on ~g[t]] = reduce sum ~x[t-1 : t] map (~g[t]) - reduce sum ~x[t-6 : t] map (~g[t])
         output ~y",
    );
}

#[test]
fn grids_reach_beyond_the_run() {
    check(
        TWO,
        "~z[t every 3] = coalesce(hold(~x[t-7]), ~y[t+4])  output ~z",
    );
    check(
        TWO,
        "~h[t on ~x[t-40]] = 1.5  ~z[t every 5] = ~h[t] + 1.0  output ~z",
    );
    check(
        TWO,
        "~h[t on ~x[t-40:t]] = 1.5  ~z[t every 5] = coalesce(~h[t+3], 0.0)  output ~z",
    );
    check(TWO, "~z[t every 3] = coalesce(~x.prev(2), 0.25)  output ~z");
    check(
        TWO,
        "~g[t every 3] = reduce sum ~x[t-6:t]
         ~z[t every 3 offset 1] = coalesce(~g.prev(2), 0.25)
         output ~z",
    );
}

#[test]
fn maps_with_variables() {
    check(
        TWO,
        "~z[t] = let c = 2.0 in reduce sum ~x[t-20:t] map (~x[t] * c)  output ~z",
    );
    check(
        TWO,
        "~z[t] = let c = 2.0 in let d = c + 1.0 in reduce sum ~x[t-20:t] map (~y[t] * d)  output ~z",
    );
}

#[test]
fn external_functions() {
    let declared = "input ~x: f64 interval  input ~n: i64 fixed 3  input ~s: utf8 interval
        extern fn half(f64) -> f64  extern fn less(i64, i64) -> bool  extern fn narrow(f64) -> f32
        extern fn length(utf8) -> u8  extern fn seven() -> i64";
    check(declared, "~z[t] = @half(~x[t]) + 1.0  output ~z");
    check(
        declared,
        "~z[t] = @half(@half(~x[t]) + @half(~x[t]))  output ~z",
    );
    check(
        declared,
        "~z[t on ~x[t], ~n[t]] = if @less(~n[t], @seven()) then @half(~x[t]) else -1.0  output ~z",
    );
    check(
        declared,
        "~z[t] = @narrow(let v = ~x[t] in v * v + @half(v))  output ~z",
    );
    check(
        declared,
        "~z[t] = {a: @length(~s[t]), b: @less(~n.prev(1), ~n[t])}  output ~z",
    );
    check(
        declared,
        "~z[t every 4] = reduce sum ~x[t-9:t] map (@half(~x[t]))  output ~z",
    );
    check(
        declared,
        "~z[t]: f64 = coalesce(~z.prev(1), 0.0) + @half(~x[t])  output ~z",
    );
}

#[test]
fn wrong_functions_are_errors() {
    let query = "query q unit tick { input ~x: f64 point  extern fn odd(f64) -> i8  ~z[t] = @odd(~x[t])  output ~z }";
    let program = parse(query).expect("a query");
    let event = |value: f64| Event {
        start: 0,
        end: 1,
        value: Value::Float(value),
    };
    let inputs = Inputs::from([("x".to_owned(), vec![event(1.0)])]);
    let arrays = buffers(&program, &inputs);
    let compiled = Query::new(program)
        .expect("verified")
        .compile()
        .expect("compiles");
    let run = |functions: Functions| {
        let options = RunOptions::default().functions(functions);
        compiled.run(&arrays, &options).map_err(|e| e.to_string())
    };
    let unknown = run(Functions::default()).expect_err("there is no such function");
    assert!(unknown.contains("odd"), "{unknown}");
    let mut functions = Functions::default();
    functions.register("odd", |_: &[Value]| Value::Int(1000));
    let wrong = run(functions).expect_err("1000 is no i8");
    assert!(wrong.contains("1000"), "{wrong}");
}

#[test]
fn recurrences_by_time() {
    check(
        TWO,
        "~z[t at ~x]: f64 = coalesce(~z[t-2], 0.0) + ~x[t]  output ~z",
    );
    check(
        TWO,
        "~z[t at ~x]: f64 = if ~x[t] > 0.0 then coalesce(~z[t-5], 1.0) + ~x[t] else null  output ~z",
    );
    check(
        TWO,
        "~z[t on ~x[t], ~y[t]]: f64 = coalesce(~z[t-3], 0.0) + coalesce(~y[t], 1.0)  output ~z",
    );
    check(
        TWO,
        "~z[t every 2]: f64 = coalesce(~z[t-3], 0.0) + ~x[t]  output ~z",
    );
    check(
        TWO,
        "~z[t every 2]: f64 = coalesce(~x[t], ~z[t-2])  output ~z",
    );
}

#[test]
fn recurrences_by_hold() {
    check(
        TWO,
        "~z[t at ~x]: f64 = coalesce(hold(~z[t-1]), 0.0) + ~x[t]  output ~z",
    );
    check(
        TWO,
        "~z[t at ~x]: f64 = if ~x[t] > 0.5 then coalesce(hold(~z[t-2], 9), 1.0) * 2.0 else null  output ~z",
    );
    check(
        TWO,
        "~z[t every 3]: f64 = if ~x[t] > 0.5 then coalesce(hold(~z[t-2], 9), 1.0) * 2.0 else null  output ~z",
    );
    let bag = "input ~x: f64 interval overlap bag";
    check(
        bag,
        "~z[t at ~x]: f64 = coalesce(hold(~z[t-1], 12), 0.0) + ~x[t]  output ~z",
    );
    check(
        bag,
        "~z[t at ~x]: f64 = if ~x[t] > 0.5 then coalesce(hold(~z[t-1]), 0.0) + 1.0 else null  output ~z",
    );
}

#[test]
fn recurrences_with_gaps() {
    check(
        TWO,
        "~z[t at ~x]: f64 = if ~x[t] > 0.0 then coalesce(~z.prev(1), 0.0) + 1.0 else null  output ~z",
    );
    check(
        TWO,
        "~z[t at ~x]: f64 = if ~x[t] > 0.0 then coalesce(~z.prev(3), 0.0) + ~x[t] else null  output ~z",
    );
    check(
        TWO,
        "~z[t on ~x[t], ~y[t]]: f64 = ~x[t] + coalesce(~z.prev(1), 0.0) - coalesce(~z.prev(2), 1.0)  output ~z",
    );
    check(
        TWO,
        "~z[t every 2]: i64 = if ~x[t] < 2.0 then coalesce(~z.prev(1), 0) + 1 else null  output ~z",
    );
}

#[test]
fn recurrences_of_bools_and_records() {
    check(
        TWO,
        "~z[t at ~x]: bool = coalesce(~z.prev(1), false) ^^ (~x[t] > 0.5)  output ~z",
    );
    check(
        TWO,
        "~z[t at ~x]: bool = if ~x[t] > 0.0 then coalesce(hold(~z[t-1]), true) ^^ (~x[t] > 1.0) else null  output ~z",
    );
    check(
        TWO,
        "~z[t at ~x]: {n: i64, up: bool, v: f64} = let p = ~z.prev(1) in
           {n: coalesce(p.n, 0) + 1, up: coalesce(p.v, 0.0) < ~x[t], v: if ~x[t] > 0.0 then ~x[t] else null}
         output ~z",
    );
    check(
        TWO,
        "~z[t at ~x]: {n: i64, v: f64} = let p = ~z.prev(1) in
           if ~x[t] > 0.0 then {n: coalesce(p.n, 0) + 1, v: ~y[t]} else null
         output ~z",
    );
}

#[test]
fn records_in_records() {
    let flat = "input ~x: {a: f64, b: i64, s: utf8, c: bool} interval  input ~y: f64 fixed 4";
    check(
        flat,
        "~z[t] = {u: ~x[t], v: if ~x[t].a > 0.5 then {c: ~x[t].c} else null, w: ~y[t]}  output ~z",
    );
    check(
        flat,
        "~h[t] = {u: {x: ~x[t], k: ~x[t].b}, w: {}}  ~z[t on ~y[t]] = {u: ~h[t-1].u, v: hold(~h[t]).u.x.s}  output ~z",
    );
    check(
        flat,
        "~h[t] = {p: {v: ~y[t], w: {k: ~y.prev(1)}}}  ~z[t at ~x] = ~h[t].p.w.k + ~x[t].a  output ~z",
    );
    check(
        flat,
        "~h[t] = {p: if ~y[t] > 0.5 then {v: ~y[t]} else null}  ~z[t] = {n: is_null(~h[t].p), p: ~h.prev(1).p}  output ~z",
    );
    check(
        flat,
        "~z[t] = is_null(if ~y[t] > 0.5 then {p: ~y[t]} else null)  output ~z",
    );
}

#[test]
fn half_floats() {
    let halves = "input ~x: f16 interval  input ~y: {a: f16, b: f64} fixed 4";
    check(halves, "~z[t] = ~x[t] * ~x[t] + 0.1f16  output ~z");
    check(
        halves,
        "~z[t] = {a: sqrt(~y[t].a), b: cast(~y[t].b, f16) / 3.0f16, c: sin(~y[t].a) % 0.3f16}  output ~z",
    );
    check(
        halves,
        "~z[t] = cast(~x[t], f64) + cast(cast(~x[t], i64), f64)  output ~z",
    );
    check(
        halves,
        "~z[t] = reduce max ~x[t-9:t] + cast(reduce sum ~x[t-9:t], f16)  output ~z",
    );
    check(
        halves,
        "~z[t at ~x]: f16 = coalesce(~z.prev(1), 0.0f16) * 0.9f16 + ~x[t]  output ~z",
    );
    check(halves, "~z[t] = clip(~x[t], -1.0f16, 2.5f16)  output ~z");
}
