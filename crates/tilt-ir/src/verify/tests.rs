//! One test for each rule: a small valid program, broken by hand.

use super::*;
use crate::{
    calendar::Calendar,
    expr::{BinaryOp, Node, QuantileMethod, Ratio, UnaryOp, Window},
    ids::{FuncId, ReducerId},
    parse::parse,
    program::Overlap,
    types::{Field, Scalar},
};

mod declarations;
mod reports;

const VALID: &str = "query q unit s {
  extern fn f(f64) -> f64
  reducer total(f64) {
    state {sum: f64}
    init = {sum: 0.0}
    acc(s, v, from, to) = {sum: s.sum + v}
    merge(a, b) = {sum: a.sum + b.sum}
    deacc(s, v, from, to) = {sum: s.sum - v}
    result(s) = s.sum
  }
  input ~x: f64 point
  input ~tx: {card: utf8, amount: f64} point key card
  ~y[t] = ~x[t] + 1.0
  ~z[t every 10s] = let m = reduce mean ~y[t-10s : t] in @f(m) * m + reduce @total ~y[t-5s : t]
  output ~z
}";

fn valid() -> Program {
    parse(VALID).unwrap_or_else(|e| panic!("{e}"))
}

/// The violations of the valid program after `breaks`.
fn violations(breaks: impl FnOnce(&mut Program)) -> Vec<Violation> {
    let mut program = valid();
    breaks(&mut program);
    match verify(&program) {
        Ok(()) => Vec::new(),
        Err(error) => error.0,
    }
}

/// Asserts that `breaks` causes just one violation, and which.
#[track_caller]
fn assert_breaks(
    breaks: impl FnOnce(&mut Program),
    rule: Rule,
    place: &str,
    expr: Option<&str>,
    message: &str,
) {
    let expected = Violation {
        rule,
        place: place.to_owned(),
        expr: expr.map(str::to_owned),
        message: message.to_owned(),
    };
    assert_eq!(violations(breaks), [expected]);
}

fn stream(program: &Program, name: &str) -> StreamId {
    program.stream_named(name).expect("the stream is there")
}

fn add(program: &mut Program, expr: Expr) -> ExprId {
    program.add(expr).expect("the node is well-typed")
}

fn float(program: &mut Program, value: f64) -> ExprId {
    add(program, Expr::Const(Scalar::Float(value), DType::F64))
}

/// Gives `~y` another body, on its own clock.
fn set_body(program: &mut Program, expr: Expr) {
    let body = add(program, expr);
    let y = stream(program, "y");
    let clock = Clock::At(stream(program, "x"));
    program.redefine(y, clock, body);
}

/// Gives `~y` another clock.
fn set_clock(program: &mut Program, clock: Clock) {
    let y = stream(program, "y");
    let body = program.streams[y].as_temporal().expect("a temporal").body;
    program.redefine(y, clock, body);
}

fn sessions(stream: StreamId, gap: i64, max: Option<i64>) -> Clock {
    Clock::Sessions { stream, gap, max }
}

fn input<'a>(program: &'a mut Program, name: &str) -> &'a mut Input {
    let id = stream(program, name);
    match &mut program.streams[id] {
        Stream::Input(input) => input,
        Stream::Temporal(_) => panic!("~{name} is an input"),
    }
}

fn reducer(program: &mut Program) -> &mut Reducer {
    &mut program.reducers[ReducerId::new(0)]
}

fn reduce(stream: StreamId, agg: Agg, lo: i64, hi: i64) -> Expr {
    let bounds = Bounds::Time { lo: Some(lo), hi };
    Expr::Reduce {
        agg,
        window: Window { stream, bounds },
        map: None,
    }
}

#[test]
fn a_valid_program_verifies() {
    assert_eq!(verify(&valid()), Ok(()));
}

// ── Ids ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn ids_of_operands_name_nodes_defined_before() {
    let last = valid().exprs.len();
    for operand in [last, last + 1, last + 1000] {
        assert_breaks(
            |p| {
                p.exprs.push(Node {
                    expr: Expr::IsNull(ExprId::new(operand)),
                    dtype: DType::Bool,
                });
            },
            Rule::Ids,
            "the program",
            None,
            &format!("e{last} has an operand that is not defined before it"),
        );
    }
}

#[test]
fn ids_of_streams_variables_functions_and_reducers_exist() {
    let last = valid().exprs.len();
    let offset = 0;
    let nonsense = [
        Expr::At {
            stream: StreamId::new(99),
            offset,
        },
        Expr::Var(VarId::new(99)),
        Expr::Call {
            func: FuncId::new(99),
            args: Vec::new(),
        },
        reduce(StreamId::new(0), Agg::Custom(ReducerId::new(99)), -1, 0),
        reduce(StreamId::new(99), Agg::Sum, -1, 0),
    ];
    for expr in nonsense {
        let dtype = DType::F64;
        assert_breaks(
            |p| {
                p.exprs.push(Node { expr, dtype });
            },
            Rule::Ids,
            "the program",
            None,
            &format!("e{last} names something that does not exist"),
        );
    }
}

#[test]
fn ids_of_clocks_and_bodies_exist() {
    let nowhere = StreamId::new(99);
    let clocks = [
        Clock::At(nowhere),
        Clock::OnChange(vec![Source::Value {
            stream: nowhere,
            offset: 0,
        }]),
        sessions(nowhere, 5, None),
    ];
    for clock in clocks {
        assert_breaks(
            |p| set_clock(p, clock),
            Rule::Ids,
            "~y",
            None,
            "the clock names a stream that does not exist",
        );
    }
    assert_breaks(
        |p| {
            let y = stream(p, "y");
            p.redefine(y, Clock::At(StreamId::new(0)), ExprId::new(999));
        },
        Rule::Ids,
        "~y",
        None,
        "the body names no expression",
    );
    assert_breaks(
        |p| reducer(p).acc.body = ExprId::new(999),
        Rule::Ids,
        "reducer total",
        None,
        "a body or parameter does not exist",
    );
    assert_breaks(
        |p| reducer(p).result.params = vec![VarId::new(999)],
        Rule::Ids,
        "reducer total",
        None,
        "a body or parameter does not exist",
    );
}

// ── The other rules, in the order of the module's table ─────────────────────────────────────────────────────────────

/// `levels` negations of a constant.
fn nested(program: &mut Program, levels: usize) {
    let mut expr = float(program, 1.0);
    for _ in 0..levels {
        expr = add(program, Expr::Unary(UnaryOp::Neg, expr));
    }
}

#[test]
fn depth_is_limited() {
    assert_eq!(violations(|p| nested(p, MAX_DEPTH - 1)), []);
    assert_breaks(
        |p| nested(p, 3 * MAX_DEPTH),
        Rule::Depth,
        "the program",
        None,
        "an expression is nested deeper than 256; define parts of it as streams of their own",
    );
}

#[test]
fn names_are_unique_among_their_kind() {
    assert_breaks(
        |p| input(p, "tx").name = "x".to_owned(),
        Rule::Names,
        "the program",
        None,
        "two streams are called `x`; rename one",
    );
    assert_breaks(
        |p| {
            let copy = p.functions[FuncId::new(0)].clone();
            p.functions.push(copy);
        },
        Rule::Names,
        "the program",
        None,
        "two functions are called `f`; rename one",
    );
    assert_breaks(
        |p| {
            let copy = reducer(p).clone();
            p.reducers.push(copy);
        },
        Rule::Names,
        "the program",
        None,
        "two reducers are called `total`; rename one",
    );
    // Different kinds do not get in each other's way.
    assert_eq!(violations(|p| reducer(p).name = "x".to_owned()), []);
}

#[test]
fn names_are_not_empty() {
    assert_breaks(
        |p| input(p, "tx").name.clear(),
        Rule::Names,
        "the program",
        None,
        "a stream has no name",
    );
    assert_breaks(
        |p| p.functions[FuncId::new(0)].name.clear(),
        Rule::Names,
        "the program",
        None,
        "a function has no name",
    );
    assert_breaks(
        |p| reducer(p).name.clear(),
        Rule::Names,
        "the program",
        None,
        "a reducer has no name",
    );
}

#[test]
fn types_of_nodes_are_those_of_their_operands() {
    assert_breaks(
        |p| {
            p.exprs.push(Node {
                expr: Expr::Const(Scalar::Float(1.5), DType::F64),
                dtype: DType::Bool,
            });
        },
        Rule::Types,
        "the program",
        Some("1.5"),
        "the node says bool but its operands give f64",
    );
    assert_breaks(
        |p| {
            let operand = float(p, 1.5);
            p.exprs.push(Node {
                expr: Expr::Unary(UnaryOp::Not, operand),
                dtype: DType::Bool,
            });
        },
        Rule::Types,
        "the program",
        Some("!1.5"),
        "`!` takes bools, not f64",
    );
}

#[test]
fn types_of_streams_are_those_of_their_bodies() {
    assert_breaks(
        |p| {
            let y = stream(p, "y");
            let Stream::Temporal(temporal) = &mut p.streams[y] else {
                unreachable!("~y is a temporal expression")
            };
            temporal.dtype = DType::F32;
            // What reads it is as wrong as it is.
            let x = stream(p, "x");
            let z = stream(p, "z");
            let body = add(p, reduce(x, Agg::Sum, -1, 0));
            p.redefine(z, Clock::At(x), body);
            for id in p.exprs.ids().collect::<Vec<_>>() {
                if p.exprs[id].expr.stream() == Some(y) {
                    p.exprs[id] = p.exprs[body].clone();
                }
            }
        },
        Rule::Types,
        "~y",
        Some("~x[t] + 1.0"),
        "the stream is declared f32 but its body is f64",
    );
}

#[test]
fn order_of_definition_is_kept() {
    assert_breaks(
        |p| {
            let z = stream(p, "z");
            set_body(
                p,
                Expr::At {
                    stream: z,
                    offset: -1,
                },
            );
        },
        Rule::Order,
        "~y",
        Some("~z[t-1s]"),
        "~z is defined later",
    );
    assert_breaks(
        |p| {
            let z = stream(p, "z");
            set_clock(p, Clock::At(z));
        },
        Rule::Order,
        "~y",
        None,
        "the clock reads ~z, which is defined later",
    );
}

#[test]
fn recurrences_read_strictly_the_past() {
    let message = "a stream can read only its own past: a negative offset, `prev(1)` or more, a window that ends before t";
    let y = stream(&valid(), "y");
    let at = |offset| Expr::At { stream: y, offset };
    let hold = |offset| Expr::Hold {
        stream: y,
        offset,
        max_age: None,
    };
    let prev = |n| Expr::Prev { stream: y, n };
    let ordinal = |hi| Expr::Reduce {
        agg: Agg::Sum,
        window: Window {
            stream: y,
            bounds: Bounds::Ordinal { lo: None, hi },
        },
        map: None,
    };
    for (expr, text) in [
        (at(0), "~y[t]"),
        (at(1), "~y[t+1s]"),
        (hold(0), "hold(~y[t])"),
        (prev(0), "~y.prev(0)"),
        (reduce(y, Agg::Sum, -5, 0), "reduce sum ~y[t-5s : t]"),
        (ordinal(0), "reduce sum ~y[-inf : #]"),
    ] {
        assert_breaks(
            |p| set_body(p, expr),
            Rule::Recurrence,
            "~y",
            Some(text),
            message,
        );
    }
    for expr in [
        at(-1),
        hold(-1),
        prev(1),
        reduce(y, Agg::Sum, -5, -1),
        ordinal(-1),
    ] {
        assert_eq!(violations(|p| set_body(p, expr)), []);
    }
}

#[test]
fn recurrences_are_in_neither_clocks_nor_maps() {
    assert_breaks(
        |p| {
            let y = stream(p, "y");
            set_clock(p, Clock::At(y));
        },
        Rule::Recurrence,
        "~y",
        None,
        "the clock reads the stream itself",
    );
    assert_breaks(
        |p| {
            let (x, y) = (stream(p, "x"), stream(p, "y"));
            let own = Expr::At {
                stream: y,
                offset: -1,
            };
            let map = add(p, own);
            let Expr::Reduce { agg, window, .. } = reduce(x, Agg::Sum, -5, 0) else {
                unreachable!("just built")
            };
            let map = Some(map);
            set_body(p, Expr::Reduce { agg, window, map });
        },
        Rule::Recurrence,
        "~y",
        Some("~y[t-1s]"),
        "a map reads the stream itself",
    );
}

#[test]
fn scopes_bind_every_variable() {
    assert_breaks(
        |p| set_body(p, Expr::Var(VarId::new(p.vars.len() - 1))),
        Rule::Scope,
        "~y",
        Some("m"),
        "`m` is not bound here",
    );
    // Not in its own value either.
    assert_breaks(
        |p| {
            let var = p.var("v", DType::F64);
            let read = add(p, Expr::Var(var));
            let body = float(p, 1.0);
            let value = read;
            set_body(p, Expr::Let { var, value, body });
        },
        Rule::Scope,
        "~y",
        Some("v"),
        "`v` is not bound here",
    );
}

#[test]
fn scopes_bind_a_variable_once() {
    assert_breaks(
        |p| {
            let var = p.var("v", DType::F64);
            let value = float(p, 1.0);
            let body = add(p, Expr::Var(var));
            let body = add(p, Expr::Let { var, value, body });
            set_body(p, Expr::Let { var, value, body });
        },
        Rule::Scope,
        "~y",
        Some("let v = 1.0 in v"),
        "`v` is bound twice",
    );
}

#[test]
fn windows_are_not_empty() {
    let message = "the window is empty: its lower bound must be below its upper bound";
    let x = stream(&valid(), "x");
    for (lo, hi, text) in [
        (0, 0, "reduce sum ~x[t : t]"),
        (5, -5, "reduce sum ~x[t+5s : t-5s]"),
    ] {
        assert_breaks(
            |p| set_body(p, reduce(x, Agg::Sum, lo, hi)),
            Rule::Window,
            "~y",
            Some(text),
            message,
        );
    }
    let source = Source::Window {
        stream: x,
        lo: 0,
        hi: 0,
    };
    assert_breaks(
        |p| set_clock(p, Clock::OnChange(vec![source])),
        Rule::Window,
        "~y",
        None,
        message,
    );
}

#[test]
fn calendars_have_cells_and_sessions_lengths() {
    let calendar = Calendar::parse("1mo").expect("a length");
    let none = Calendar {
        count: 0,
        ..calendar.clone()
    };
    let nowhere = Calendar {
        zone: Some("Atlantis".to_owned()),
        ..calendar
    };
    for (calendar, message) in [
        (none, "a cell of a calendar has at least one unit"),
        (
            nowhere,
            "there is no time zone `Atlantis`; write a name of the tz database, for example `Europe/Paris`",
        ),
    ] {
        assert_breaks(
            |p| set_clock(p, Clock::Calendar(calendar)),
            Rule::Clock,
            "~y",
            None,
            message,
        );
    }
    let x = stream(&valid(), "x");
    for (gap, max, message) in [
        (0, None, "the gap of 0 ticks is not positive"),
        (
            5,
            Some(-1),
            "the longest session of -1 ticks is not positive",
        ),
    ] {
        assert_breaks(
            |p| set_clock(p, sessions(x, gap, max)),
            Rule::Instant,
            "~y",
            None,
            message,
        );
    }
    assert_breaks(
        |p| {
            let y = stream(p, "y");
            set_clock(p, sessions(y, 5, None));
        },
        Rule::Recurrence,
        "~y",
        None,
        "the clock reads the stream itself",
    );
}

#[test]
fn clocks_tick() {
    for (period, message) in [
        (0, "the period 0 is not positive"),
        (-5, "the period -5 is not positive"),
    ] {
        let offset = 0;
        assert_breaks(
            |p| set_clock(p, Clock::Every { period, offset }),
            Rule::Clock,
            "~y",
            None,
            message,
        );
    }
    assert_breaks(
        |p| set_clock(p, Clock::OnChange(Vec::new())),
        Rule::Clock,
        "~y",
        None,
        "an `on` clock needs at least one source",
    );
    let source = Source::Value {
        stream: stream(&valid(), "x"),
        offset: 0,
    };
    assert_breaks(
        |p| set_clock(p, Clock::OnChange(vec![source, source])),
        Rule::Clock,
        "~y",
        None,
        "an `on` clock names a source twice",
    );
}

#[test]
fn instants_are_within_reach() {
    let far = (1 << 62) + 1;
    let x = stream(&valid(), "x");
    assert_breaks(
        |p| {
            set_body(
                p,
                Expr::At {
                    stream: x,
                    offset: -far,
                },
            );
        },
        Rule::Instant,
        "~y",
        Some("~x[t-4611686018427387905s]"),
        "the offset of -4611686018427387905 ticks is beyond 2^62; give the query a coarser unit",
    );
    assert_breaks(
        |p| set_body(p, reduce(x, Agg::Sum, -far, 0)),
        Rule::Instant,
        "~y",
        Some("reduce sum ~x[t-4611686018427387905s : t]"),
        "a window bound of -4611686018427387905 ticks is beyond 2^62; give the query a coarser unit",
    );
    assert_breaks(
        |p| {
            set_clock(
                p,
                Clock::Every {
                    period: 10,
                    offset: far,
                },
            );
        },
        Rule::Instant,
        "~y",
        None,
        "the offset of 4611686018427387905 ticks is beyond 2^62; give the query a coarser unit",
    );
}

#[test]
fn ages_and_spans_are_positive() {
    let x = stream(&valid(), "x");
    let (offset, max_age) = (0, Some(0));
    assert_breaks(
        |p| {
            set_body(
                p,
                Expr::Hold {
                    stream: x,
                    offset,
                    max_age,
                },
            );
        },
        Rule::Instant,
        "~y",
        Some("hold(~x[t], 0s)"),
        "the age of 0 ticks is not positive",
    );
    let source = Source::Hold {
        stream: x,
        offset,
        max_age,
    };
    assert_breaks(
        |p| set_clock(p, Clock::OnChange(vec![source])),
        Rule::Instant,
        "~y",
        None,
        "the age of 0 ticks is not positive",
    );
    assert_breaks(
        |p| input(p, "x").span = SpanRule::Fixed(-1),
        Rule::Instant,
        "~x",
        None,
        "the span of -1 ticks is not positive",
    );
    assert_breaks(
        |p| input(p, "x").period = Some(0),
        Rule::Instant,
        "~x",
        None,
        "the period of 0 ticks is not positive",
    );
}

#[test]
fn aggs_have_parameters_in_range() {
    let x = stream(&valid(), "x");
    let quantile = |q| Agg::Quantile {
        q: Ratio::new(q),
        method: QuantileMethod::Linear,
    };
    let ewm = |alpha| Agg::Ewm {
        alpha: Ratio::new(alpha),
    };
    for (agg, text, message) in [
        (
            quantile(1.5),
            "reduce quantile(1.5) ~x[t-1s : t]",
            "the quantile 1.5 is not in [0, 1]",
        ),
        (
            quantile(f64::NAN),
            "reduce quantile(nan) ~x[t-1s : t]",
            "the quantile NaN is not in [0, 1]",
        ),
        (
            ewm(0.0),
            "reduce ewm(0.0) ~x[t-1s : t]",
            "the smoothing factor 0 is not in (0, 1]",
        ),
        (
            ewm(1.25),
            "reduce ewm(1.25) ~x[t-1s : t]",
            "the smoothing factor 1.25 is not in (0, 1]",
        ),
    ] {
        assert_breaks(
            |p| set_body(p, reduce(x, agg, -1, 0)),
            Rule::Agg,
            "~y",
            Some(text),
            message,
        );
    }
    for agg in [quantile(0.0), quantile(1.0), ewm(1.0)] {
        assert_eq!(violations(|p| set_body(p, reduce(x, agg, -1, 0))), []);
    }
    // A list is not the f64 that ~z reads, so ~z must go.
    assert_breaks(
        |p| {
            let body = add(p, reduce(x, Agg::TopK { k: 0 }, -1, 0));
            p.define("top", Clock::At(x), body).expect("a body");
        },
        Rule::Agg,
        "~top",
        Some("reduce top_k(0) ~x[t-1s : t]"),
        "top_k needs a k of at least 1",
    );
}
