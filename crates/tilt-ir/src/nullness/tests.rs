use super::*;
use crate::parse::parse;

/// Some inputs, then `~y` with the given clock and body.
fn program(clock: &str, body: &str) -> Program {
    let text = format!(
        "query q unit s {{
           extern fn f(f64) -> f64
           reducer last(f64) {{
             state {{v: f64}} init = {{v: 0.0}} acc(s, v, from, to) = {{v: v}} result(s) = s.v
           }}
           input ~a: f64 interval
           input ~b: f64 interval
           input ~n: i64 interval
           input ~c: bool interval
           input ~r: {{p: f64}} interval
           ~filter[t] = if ~a[t] > 0.0 then ~a[t] else null
           ~square[t] = ~a[t] * ~a[t]
           ~grid[t every 5s] = 1.0
           ~y[t {clock}] = {body}
           output ~y }}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn body(program: &Program) -> (&Clock, ExprId) {
    let temporal = program.streams[program.output]
        .as_temporal()
        .expect("~y is a temporal expression");
    (&temporal.clock, temporal.body)
}

// ── Strictness: is `~y` φ wherever ~a[t] is? ────────────────────────────────────────────────────────────────────────

fn is_strict_in_a(text: &str) -> bool {
    let program = program("on ~a[t], ~b[t], ~c[t]", text);
    let source = Source::Value {
        stream: program.stream_named("a").expect("the input"),
        offset: 0,
    };
    strict_in_source(&program, body(&program).1, source)
}

#[test]
fn operators_and_calls_are_strict() {
    for text in [
        "~a[t]",
        "~a[t] + ~b[t]",
        "sqrt(-~a[t])",
        "clip(1.0, ~b[t], ~a[t])",
        "cast(~a[t], i64)",
        "@f(~a[t])",
        "let v = ~a[t] * 2.0 in ~b[t] + v",
        "~a[t] < ~b[t]",
        "cast(cast(end(~a[t]) - start(~a[t]), i64), f64)",
        "~a.prev(2)",
        "null(f64)",
        "{p: ~b[t]}.p + ~a[t]",
    ] {
        assert!(is_strict_in_a(text), "{text}");
    }
}

#[test]
fn what_sees_null_is_not_strict() {
    for text in [
        "~b[t]",
        "1.0",
        "coalesce(~a[t], 0.0)",
        "coalesce(~a[t], ~b[t])",
        "is_null(~a[t])",
        "{p: ~a[t]}",
        "~c[t] && ~a[t] > 0.0",
        "~a[t-1s]",
        "hold(~a[t])",
        "reduce sum ~a[t-5s : t]",
        "let v = ~a[t] in ~b[t]",
        "if ~a[t] > 0.0 then ~b[t] else 0.0",
        "if ~c[t] then ~a[t] else ~b[t]",
    ] {
        assert!(!is_strict_in_a(text), "{text}");
    }
}

#[test]
fn conditions_that_cannot_hold_without_a_value_make_branches_strict() {
    for text in [
        "if ~a[t] > 0.0 then ~b[t] else null",
        "if !is_null(~a[t]) then ~b[t] else null",
        "if !is_null(~a[t]) && ~c[t] then ~b[t] else null",
        "if ~c[t] && ~a[t] > 0.0 then ~b[t] else null",
        "if ~a[t] > 0.0 || ~a[t] < -1.0 then ~b[t] else null",
        "if ~c[t] then ~a[t] else ~a[t] + ~b[t]",
        "if is_null(~b[t]) then ~a[t] else -~a[t]",
        "coalesce(~a[t], ~a[t] + ~b[t])",
    ] {
        assert!(is_strict_in_a(text), "{text}");
    }
    for text in [
        "if is_null(~a[t]) then ~b[t] else null",
        "if !is_null(~a[t]) || ~c[t] then ~b[t] else null",
        "if !(is_null(~a[t]) && ~c[t]) then ~b[t] else null",
    ] {
        assert!(!is_strict_in_a(text), "{text}");
    }
}

#[test]
fn sources_of_other_kinds_match_their_own_reads() {
    let program = program(
        "on hold(~a[t], 5s), ~b[t-9s : t]",
        "hold(~a[t], 5s) + reduce sum ~b[t-9s : t]",
    );
    let (clock, root) = body(&program);
    let Clock::OnChange(sources) = clock else {
        panic!("the clock is as written")
    };
    for source in sources {
        assert!(strict_in_source(&program, root, *source), "{source:?}");
    }
    let other_age = Source::Hold {
        stream: sources[0].stream(),
        offset: 0,
        max_age: None,
    };
    assert!(!strict_in_source(&program, root, other_age));
}

// ── Presence: does `~y` have a value wherever its clock ticks? ──────────────────────────────────────────────────────

fn is_never_null(clock: &str, text: &str) -> bool {
    let program = program(clock, text);
    let timelines = Timelines::new(&program);
    let totality = Totality::new(&program, &timelines);
    let (clock, root) = body(&program);
    let here = Here::of_clock(&timelines, clock);
    never_null(&program, &timelines, &totality, root, &here)
}

#[test]
fn what_ticks_is_present() {
    for text in [
        "~a[t]",
        "~a.prev(0)",
        "~square[t] + ~a[t]",
        "coalesce(~b[t], ~a[t])",
        "is_null(~b[t])",
        "{p: ~b[t]}",
        "{p: ~a[t], q: ~b[t]}.p",
        "if ~b[t] > 0.0 then ~a[t] else 1.0",
        "let v = ~a[t] in v * v",
        "reduce sum ~a[t-5s : t]",
        "reduce max ~a[#-3 : #]",
        "reduce var(0) ~a[t-5s : t]",
        "reduce sum ~a[-inf : t] map (~a[t] * 2.0)",
        "~a[t] / 0.0",
        "cast(~a[t], f32)",
        "cast(t, i64) / 2",
    ] {
        assert!(is_never_null("at ~a", text), "{text}");
    }
    assert!(is_never_null("at ~filter", "~filter[t] + ~a[t]"));
    assert!(is_never_null("at ~n", "~n[t] % 7 + ~n[t] / -1"));
}

#[test]
fn what_may_be_null_is_known() {
    for text in [
        "~b[t]",
        "~a[t-1s]",
        "~a.prev(1)",
        "hold(~a[t])",
        "~filter[t]",
        "~grid[t]",
        "coalesce(~b[t], ~filter[t])",
        "{p: ~a[t], q: ~b[t]}.q",
        "@f(~a[t])",
        "reduce @last ~a[t-5s : t]",
        "reduce sum ~a[t-5s : t-1s]",
        "reduce std ~a[t-5s : t]",
        "reduce slope ~a[t-5s : t]",
        "reduce kurtosis(fisher, unbiased) ~a[t-5s : t]",
        "reduce sum ~b[t-5s : t]",
        "reduce sum ~a[t-5s : t] map (if ~a[t] > 0.0 then ~a[t] else null)",
        "cast(~a[t], i64)",
        "year(cast(cast(~n[t], i64), timestamp(s)))",
    ] {
        assert!(!is_never_null("at ~a", text), "{text}");
    }
    for text in [
        "1 / ~n[t]",
        "~n[t] / 0",
        "1 << ~n[t]",
        "pow(2, ~n[t])",
        "cast(~n[t], i8)",
    ] {
        assert!(!is_never_null("at ~n", text), "{text}");
    }
    assert!(!is_never_null("at ~r", "~r[t].p"));
    assert!(!is_never_null("on ~a[t], ~b[t]", "~a[t]"));
    assert!(!is_never_null("every 5s", "~a[t]"));
}

// ── Totality ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn total_streams_have_a_value_at_every_position() {
    let program = program("at ~filter", "~filter[t]");
    let timelines = Timelines::new(&program);
    let totality = Totality::new(&program, &timelines);
    let is_total = |name: &str| {
        let id = program.stream_named(name).expect("the stream is there");
        totality.is_total(id)
    };
    assert!(is_total("a") && is_total("square"));
    // A filter's positions are those of its input; a grid's depend on the run.
    assert!(!is_total("filter") && !is_total("y") && !is_total("grid"));
}

#[test]
fn a_recurrence_is_total_if_it_fills_its_past() {
    let of = |body: &str| {
        let text =
            format!("query q unit s {{ input ~x: f64 point ~y[t at ~x]: f64 = {body} output ~y }}");
        let program = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let timelines = Timelines::new(&program);
        Totality::new(&program, &timelines).is_total(program.output)
    };
    assert!(of("~x[t] + coalesce(~y.prev(1), 0.0)"));
    assert!(!of("~x[t] + ~y.prev(1)"));
}

#[test]
fn casts_that_always_fit() {
    use crate::types::Width::{W8, W16, W32, W64};
    let fits = [
        (DType::Int(W8), DType::Int(W64)),
        (DType::UInt(W32), DType::Int(W64)),
        (DType::UInt(W8), DType::UInt(W16)),
        (DType::Bool, DType::Int(W8)),
        (DType::F64, DType::F32),
        (DType::I64, DType::F32),
        (DType::Timestamp(Unit::Nano), DType::Timestamp(Unit::Second)),
        (DType::Timestamp(Unit::Nano), DType::I64),
        (DType::F64, DType::F64),
    ];
    for (from, to) in fits {
        assert!(always_casts(&from, &to), "{from} to {to}");
    }
    let may_not_fit = [
        (DType::Int(W64), DType::Int(W8)),
        (DType::Int(W8), DType::UInt(W64)),
        (DType::UInt(W64), DType::Int(W64)),
        (DType::F64, DType::I64),
        (DType::Timestamp(Unit::Second), DType::Timestamp(Unit::Nano)),
        (DType::Duration(Unit::Milli), DType::Duration(Unit::Micro)),
    ];
    for (from, to) in may_not_fit {
        assert!(!always_casts(&from, &to), "{from} to {to}");
    }
}
