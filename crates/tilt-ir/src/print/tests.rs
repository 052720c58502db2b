//! What the printer prints, and that the parser reads it back.

use std::collections::HashMap;

use crate::{
    expr::{Agg, BinaryOp, Bounds, Expr, QuantileMethod, Ratio, UnaryOp, Window},
    ids::{ExprId, Id, StreamId, VarId},
    parse,
    program::{
        Clock, Function, Input, Lambda, Overlap, Program, Reducer, Source, SpanRule, Stream,
    },
    time::Unit,
    types::{DType, Field, FloatWidth, Scalar, Width, round_to},
};

const HEAD: &str = "query q unit s {
  extern fn f(f64, i64) -> f64
  reducer r(f64) {
    state {n: i64, s: f64}
    init = {n: 0, s: 0.0}
    acc(state, v, start, end) = {n: state.n + 1, s: state.s + v}
    merge(a, b) = {n: a.n + b.n, s: a.s + b.s}
    deacc(state, v, start, end) = {n: state.n - 1, s: state.s - v}
    result(s) = if s.n > 0 then s.s / cast(s.n, f64) else null
  }
  input ~x: f64 point
  input ~i: i32 fixed 5s period 5s
  input ~b: bool until_next
  input ~s: utf8 interval overlap bag
  input ~p: {price: f64, `a b`: i64} point unit ms key price overlap last
  input ~at: timestamp(s) point overlap first
  input ~d: duration(s) point

";

/// Every body here is in the printer's own form.
const BODIES: &[&str] = &[
    // Literals.
    "~x[t] + 1.0",
    "~x[t] * -0.0 + 1e300 - 1e-7 + -2.5",
    "if ~b[t] then -inf else inf",
    "~x[t] == nan",
    "~i[t] + 1i32 - -2147483648i32",
    "{a: -128i8, b: 255u8, c: 1i16, d: 1u16, e: 1u32, f: 18446744073709551615u64, g: -9223372036854775808, p: ~x[t]}",
    "{a: 0.1f32, b: 0.0999755859375f16, c: nanf32, d: -inff16, e: ~x[t]}",
    r#"~s[t] == "a \"quoted\" \\ line\n\ttab \r and \u{1} é""#,
    "~b[t] == true || ~b[t] != false",
    "if ~b[t] then ts(-5, ms) else ts(5, ms)",
    "~d[t] + dur(-9223372036854775808, s)",
    "~at[t] + dur(10, s) - ~at[t] == ~d[t] * 2",
    "coalesce(~x[t], null)",
    "coalesce(null, ~x[t])",
    "if ~b[t] then null(f64) else null(f64)",
    "if ~b[t] then null else 1",
    "{a: null({x: list(f64), y: timestamp(us)}), b: ~x[t]}",
    // Reads.
    "~x[t-10s] + ~x[t+1m] + ~x[t]",
    "~x.prev(0) + ~x.prev(4294967295)",
    "hold(~x[t]) + hold(~x[t-5s]) + hold(~x[t], 1m) + hold(~x[t+1d], 90s)",
    "start(~x[t-5s]) - end(~x[t]) < dur(5, s)",
    "t - end(~x[t]) + dur(1, s)",
    "~p[t].price + ~p.prev(1).price",
    "~p[t].`a b`",
    // Operators by falling looseness; the right one binds tighter.
    "~b[t] || ~b[t] ^^ ~b[t] && ~b[t]",
    "(~b[t] || ~b[t]) && (~b[t] ^^ ~b[t])",
    "1 + ~p[t].`a b` * 2 == 3 | 4 ^ 5 & 6 << 7",
    "((1 + ~p[t].`a b`) * 2 | 4) ^ 5",
    "~x[t] - 1.0 - 2.0",
    "~x[t] - (1.0 - 2.0)",
    "~x[t] / 1.0 * 2.0 % 3.0",
    "~x[t] / (1.0 * 2.0) % 3.0",
    "(~x[t] < 1.0) == (2.0 > ~x[t])",
    "(~x[t] < 1.0) == ~b[t]",
    "1 << (2 >> ~p[t].`a b`)",
    "~x[t] <= 1.0 && ~x[t] >= 2.0 && !(~x[t] == 1.0 && ~x[t] != 2.0)",
    "!!~b[t]",
    "--~x[t]",
    "-(1.0) + ~x[t]",
    "--(-1.0) + ~x[t]",
    "-(nan) + ~x[t]",
    "-(~x[t] + 1.0)",
    "-~x[t] * -1.0 - -1.0",
    "~~~i[t] & ~~~~~i[t]",
    "~~-1 + ~p[t].`a b`",
    "-abs(~x[t])",
    // Functions.
    "sqrt(abs(~x[t])) + pow(~x[t], 2.0) + atan2(~x[t], 1.0) + hypot(~x[t], 1.0)",
    "min(~x[t], max(~x[t], 0.0))",
    "is_nan(~x[t]) || is_finite(~x[t]) || is_infinite(~x[t])",
    "year(~at[t]) + month(t) + ordinal_day(t)",
    "clip(~x[t], 0.0, 1.0)",
    "is_null(~x[t])",
    "cast(~x[t], i8)",
    "cast(cast(~at[t], i64), duration(ns))",
    "@f(~x[t], 3)",
    // Let and if.
    "let a = ~x[t] in let b = a * a in a + b",
    "(let a = ~x[t] in a + 1.0) + (let a = ~x[t] in a)",
    "let a = let b = ~x[t] in b in a",
    "if ~b[t] then ~x[t] else if ~x[t] > 0.0 then 1.0 else null",
    "(if ~b[t] then ~x[t] else 0.0) + 1.0",
    "(if ~b[t] then ~p[t] else null).price",
    "-(if ~b[t] then ~x[t] else 0.0)",
    "{}",
    "{price: ~x[t], let: ~b[t], in: 1, `a``b`: 2, ``: 3}.price",
    "let start = ~x[t] in let sum = start in sum - start",
    // Reductions.
    "reduce sum ~x[t-10s : t] + reduce product ~x[t-10s : t+5s]",
    "reduce mean ~x[-inf : t] + reduce last ~x[-inf : #]",
    "reduce max ~x[#-3 : #] + reduce min ~x[#-9223372036854775808 : #+1]",
    "reduce var ~x[t-1s : t] + reduce var(0) ~x[t-1s : t] + reduce std ~x[t-1s : t] + reduce std(2) ~x[t-1s : t]",
    "reduce skew ~x[t-1s : t] + reduce skew(unbiased) ~x[t-1s : t]",
    "reduce kurtosis ~x[t-1s : t] + reduce kurtosis(fisher, unbiased) ~x[t-1s : t] + reduce kurtosis(pearson, biased) ~x[t-1s : t]",
    "reduce quantile(0.9) ~x[t-1s : t] + reduce quantile(0.5, lower) ~x[t-1s : t]",
    "reduce top_k(3) ~x[t-1s : t]",
    "reduce ewm(0.1) ~x[t-1s : t]",
    "reduce @r ~x[t-1m : t]",
    "reduce @r ~i[t-1m : t] map (cast(~i[t], f64))",
    "reduce sum ~x[t-1m : t] map (let a = ~x[t] in if a > 0.0 then a else null)",
    "reduce len ~x[t-1m : t] + 1",
    "reduce last ~p[t-1m : t].price",
    "let m = reduce mean ~x[t-1m : t] in reduce sum ~x[t-1m : t] map ((~x[t] - m) * (~x[t] - m))",
];

/// Bodies whose parentheses the printer leaves out.
const TIDIED: &[(&str, &str)] = &[
    ("((~x[t])) + (2.0 * 3.0)", "~x[t] + 2.0 * 3.0"),
    (
        "(reduce len ~x[t-60s : t]) + 1",
        "reduce len ~x[t-1m : t] + 1",
    ),
    ("~x[t] + 1 - 2.50", "~x[t] + 1.0 - 2.5"),
    ("1 + ~i[t]", "1i32 + ~i[t]"),
    (
        "if ~b[t] then 1 else if ~b[t] then ~i[t] else 2",
        "if ~b[t] then 1i32 else if ~b[t] then ~i[t] else 2i32",
    ),
    ("@f(1, 2)", "@f(1.0, 2)"),
    ("- 1 * - ~x[t]", "-1.0 * -~x[t]"),
    ("~x[t + 0s] + ~x[t - 1h30m]", "~x[t] + ~x[t-90m]"),
    ("null == ~i[t]", "null(i32) == ~i[t]"),
    (
        "~x[t] > (if ~b[t] then 1 else 2)",
        "~x[t] > (if ~b[t] then 1.0 else 2.0)",
    ),
    (
        "reduce quantile(1, linear) ~x[-inf:t]",
        "reduce quantile(1.0) ~x[-inf : t]",
    ),
];

fn program_text(body: &str) -> String {
    format!("{HEAD}  ~y[t every 10s] = {body}\n\n  output ~y\n}}\n")
}

fn read(text: &str) -> Program {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Reads back what is printed and compares text and structure.
fn assert_round_trip(program: &Program) {
    let text = program.to_string();
    let again = read(&text);
    assert_eq!(again.to_string(), text);
    assert_same(program, &again);
}

/// Two programs that differ in nothing but the numbers of nodes and variables, and the names of variables.
fn assert_same(p: &Program, q: &Program) {
    assert_eq!((&p.name, p.unit, p.output), (&q.name, q.unit, q.output));
    assert_eq!(p.functions, q.functions);
    assert_eq!(p.streams.len(), q.streams.len());
    assert_eq!(p.reducers.len(), q.reducers.len());
    for (id, a) in p.streams.iter() {
        match (a, &q.streams[id]) {
            (Stream::Input(a), Stream::Input(b)) => assert_eq!(a, b),
            (Stream::Temporal(a), Stream::Temporal(b)) => {
                assert_eq!((&a.name, &a.dtype, &a.clock), (&b.name, &b.dtype, &b.clock));
                let mut vars = HashMap::new();
                assert!(same_expr(p, a.body, q, b.body, &mut vars), "{p}");
            }
            (a, b) => panic!("{a:?} is not {b:?}"),
        }
    }
    for (id, a) in p.reducers.iter() {
        let b = &q.reducers[id];
        assert_eq!((&a.name, &a.input, &a.state), (&b.name, &b.input, &b.state));
        assert!(same_expr(p, a.init, q, b.init, &mut HashMap::new()));
        assert!(same_lambda(p, Some(&a.acc), q, Some(&b.acc)));
        assert!(same_lambda(p, a.merge.as_ref(), q, b.merge.as_ref()));
        assert!(same_lambda(p, a.deacc.as_ref(), q, b.deacc.as_ref()));
        assert!(same_lambda(p, Some(&a.result), q, Some(&b.result)));
    }
}

fn same_lambda(p: &Program, a: Option<&Lambda>, q: &Program, b: Option<&Lambda>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let pairs = a.params.iter().copied().zip(b.params.iter().copied());
            let mut vars: HashMap<VarId, VarId> = pairs.collect();
            a.params.len() == b.params.len() && same_expr(p, a.body, q, b.body, &mut vars)
        }
        _ => false,
    }
}

fn same_expr(
    p: &Program,
    a: ExprId,
    q: &Program,
    b: ExprId,
    vars: &mut HashMap<VarId, VarId>,
) -> bool {
    if p.dtype(a) != q.dtype(b) {
        return false;
    }
    match (p.expr(a), q.expr(b)) {
        (Expr::Var(v), Expr::Var(w)) => vars.get(v) == Some(w),
        (
            Expr::Let { var, value, body },
            Expr::Let {
                var: var2,
                value: value2,
                body: body2,
            },
        ) => {
            if !same_expr(p, *value, q, *value2, vars) {
                return false;
            }
            let outer = vars.insert(*var, *var2);
            let same = same_expr(p, *body, q, *body2, vars);
            match outer {
                Some(outer) => vars.insert(*var, outer),
                None => vars.remove(var),
            };
            same
        }
        (x, y) => {
            let (mut below_x, mut below_y) = (Vec::new(), Vec::new());
            let bare = |e: &Expr, below: &mut Vec<ExprId>| {
                e.map_operands(|operand| {
                    below.push(operand);
                    ExprId::new(0)
                })
            };
            bare(x, &mut below_x) == bare(y, &mut below_y)
                && below_x
                    .iter()
                    .zip(&below_y)
                    .all(|(x, y)| same_expr(p, *x, q, *y, vars))
        }
    }
}

/// A program with inputs `~x: f64` and `~b: bool` to which `build` adds the body of `~y`.
fn built(build: impl FnOnce(&mut Program) -> ExprId) -> Program {
    let mut program = Program::new("q", Unit::Second);
    for (name, dtype) in [("x", DType::F64), ("b", DType::Bool)] {
        program.input(Input {
            name: name.to_owned(),
            dtype,
            unit: Unit::Second,
            span: SpanRule::Point,
            period: None,
            key: None,
            overlap: Overlap::Disjoint,
        });
    }
    let body = build(&mut program);
    let clock = Clock::Every {
        period: 10,
        offset: 0,
    };
    program.define("y", clock, body).expect("the body exists");
    program
}

fn float(program: &mut Program, value: f64) -> ExprId {
    let expr = Expr::Const(Scalar::Float(value), DType::F64);
    program.add(expr).expect("a float")
}

fn body_text(program: &Program) -> String {
    let body = program.streams[program.output]
        .as_temporal()
        .expect("a temporal")
        .body;
    program.expr_text(body)
}

#[test]
fn the_reference_page_example_prints_as_it_is_written() {
    let text = "query trend unit s {
  input ~stock: f64 point

  ~sum10[t] = reduce sum ~stock[t-10s : t]
  ~sum20[t] = reduce sum ~stock[t-20s : t]
  ~join[t] = ~sum10[t] / 10.0 - ~sum20[t] / 20.0
  ~filter[t] = if ~join[t] > 0.0 then ~join[t] else null

  output ~filter
}
";
    assert_eq!(read(text).to_string(), text);
}

#[test]
fn every_construct_survives_printing_and_reading() {
    for body in BODIES {
        let text = program_text(body);
        let program = read(&text);
        assert_eq!(program.to_string(), text);
        assert_round_trip(&program);
    }
}

#[test]
fn other_spellings_are_printed_in_the_one_form() {
    for (body, printed) in TIDIED {
        let program = read(&program_text(body));
        assert_eq!(body_text(&program), *printed);
        assert_round_trip(&program);
    }
}

#[test]
fn clocks_are_written_unless_the_body_implies_them() {
    let clocks = [
        ("[t]", "~x[t]", "[t]"),
        ("[t at ~x]", "~x[t]", "[t]"),
        ("[t on ~x[t]]", "~x[t]", "[t on ~x[t]]"),
        ("[t on ~x[t-5s], ~z[t]]", "~x[t-5s] + ~z[t]", "[t]"),
        (
            "[t on ~z[t], ~x[t-5s]]",
            "~x[t-5s] + ~z[t]",
            "[t on ~z[t], ~x[t-5s]]",
        ),
        (
            "[t on hold(~x[t]), hold(~x[t+1s], 5s), ~z[t-10s : t]]",
            "1.0",
            "[t on hold(~x[t]), hold(~x[t+1s], 5s), ~z[t-10s : t]]",
        ),
        ("[t at ~z]", "reduce sum ~x[t-1s : t]", "[t at ~z]"),
        ("[t every 60s]", "~x[t]", "[t every 1m]"),
        (
            "[t every 1m offset -5s]",
            "~x[t]",
            "[t every 1m offset -5s]",
        ),
    ];
    for (clock, body, printed) in clocks {
        let text = |clock: &str| {
            format!(
                "query q unit s {{\n  input ~x: f64 point\n  input ~z: f64 point\n\n  ~y{clock} = {body}\n\n  output ~y\n}}\n"
            )
        };
        let program = read(&text(clock));
        assert_eq!(program.to_string(), text(printed));
        assert_round_trip(&program);
    }
}

#[test]
fn streams_keep_their_order_and_a_recurrence_its_type() {
    let text = "query sums unit tick {
  input ~x: i64 point period 3

  ~total[t]: i64 = ~x[t] + coalesce(~total.prev(1), 0)
  ~late[t]: i64 = coalesce(hold(~late[t-1]), reduce sum ~late[t-9 : t-1] map (~late[t])) + ~x[t-3]

  input ~w: f64 fixed 4

  ~sum[t] = cast(~total[t], f64) + ~w[t]

  output ~total
}
";
    let program = read(text);
    assert_eq!(program.to_string(), text);
    assert_round_trip(&program);
}

#[test]
fn definitions_may_stand_in_any_order_that_defines_before_use() {
    let program = read(
        "query q unit s { input ~x: f64 point ~y[t] = ~x[t] extern fn f(f64) -> f64 ~z[t] = @f(~y[t])
           input ~w: i64 point reducer r(i64) { state {n: i64} init = {n: 0} acc(s, v, a, b) = s result(s) = s.n }
           ~v[t] = reduce @r ~w[t-1s : t] output ~z }",
    );
    assert_eq!(
        program.to_string(),
        "query q unit s {
  extern fn f(f64) -> f64
  reducer r(i64) {
    state {n: i64}
    init = {n: 0}
    acc(s, v, a, b) = s
    result(s) = s.n
  }
  input ~x: f64 point

  ~y[t] = ~x[t]
  ~z[t] = @f(~y[t])

  input ~w: i64 point

  ~v[t] = reduce @r ~w[t-1s : t]

  output ~z
}
"
    );
    assert_round_trip(&program);
}

#[test]
fn names_that_are_no_words_are_quoted() {
    let mut program = Program::new("my query", Unit::Second);
    let dtype = DType::Record(vec![
        Field {
            name: "a b".to_owned(),
            dtype: DType::F64,
        },
        Field {
            name: String::new(),
            dtype: DType::F64,
        },
    ]);
    let func = program.functions.push(Function {
        name: "1st`".to_owned(),
        params: vec![DType::F64],
        result: DType::F64,
    });
    let state = DType::Record(Vec::new());
    let params: Vec<VarId> = [
        &state,
        &DType::F64,
        &DType::Timestamp(Unit::Second),
        &DType::Timestamp(Unit::Second),
        &state,
    ]
    .into_iter()
    .map(|dtype| program.var("v", dtype.clone()))
    .collect();
    let init = program.add(Expr::Record(Vec::new())).expect("a record");
    let kept = program.add(Expr::Var(params[0])).expect("a variable");
    let result = float(&mut program, 1.0);
    let reducer = program.reducers.push(Reducer {
        name: "é".to_owned(),
        input: DType::F64,
        state,
        init,
        acc: Lambda {
            params: params[..4].to_vec(),
            body: kept,
        },
        merge: None,
        deacc: None,
        result: Lambda {
            params: vec![params[4]],
            body: result,
        },
    });
    let stream = program.input(Input {
        name: "my\nstream".to_owned(),
        dtype,
        unit: Unit::Nano,
        span: SpanRule::Fixed(i64::MAX),
        period: Some(-1),
        key: Some("a b".to_owned()),
        overlap: Overlap::Bag,
    });
    let record = program
        .add(Expr::At {
            stream,
            offset: i64::MIN,
        })
        .expect("a read");
    let field = program
        .add(Expr::Field(record, "a b".to_owned()))
        .expect("a field");
    let called = program
        .add(Expr::Call {
            func,
            args: vec![field],
        })
        .expect("a call");
    let reduced = Expr::Reduce {
        agg: Agg::Custom(reducer),
        window: Window {
            stream,
            bounds: Bounds::Ordinal {
                lo: Some(i64::MIN),
                hi: i64::MAX,
            },
        },
        map: Some(field),
    };
    let reduced = program.add(reduced).expect("a reduction");
    let sum = program
        .add(Expr::Binary(BinaryOp::Add, called, reduced))
        .expect("a sum");
    let clock = Clock::OnChange(vec![Source::Window {
        stream,
        lo: i64::MIN,
        hi: i64::MAX,
    }]);
    program.define("", clock, sum).expect("a stream");
    assert_round_trip(&program);
    let text = program.to_string();
    assert!(text.contains("~`my\nstream`"), "{text}");
    assert!(text.contains("acc(v, v_1, v_2, v_3) = v\n"), "{text}");
    assert!(text.contains("@`1st```(~"), "{text}");
    assert!(text.contains("output ~``\n"), "{text}");
}

#[test]
fn variables_are_renamed_so_that_none_hides_another() {
    let program = built(|p| {
        let names = ["v", "v", "let", "t", "a b", "1", "", "v_1", "abs"];
        let vars: Vec<VarId> = names.iter().map(|n| p.var(*n, DType::F64)).collect();
        let mut body = float(p, 0.0);
        for var in &vars {
            let read = p.add(Expr::Var(*var)).expect("a variable");
            body = p
                .add(Expr::Binary(BinaryOp::Add, body, read))
                .expect("a sum");
        }
        for (i, var) in vars.iter().enumerate().rev() {
            let value = match i {
                0 => float(p, 1.0),
                i => p.add(Expr::Var(vars[i - 1])).expect("a variable"),
            };
            body = p
                .add(Expr::Let {
                    var: *var,
                    value,
                    body,
                })
                .expect("a let");
        }
        body
    });
    assert_eq!(
        body_text(&program),
        "let v = 1.0 in let v_1 = v in let let_1 = v_1 in let t_1 = let_1 in let a_b = t_1 in let _1 = a_b in \
         let _ = _1 in let v_1_1 = _ in let abs = v_1_1 in \
         0.0 + v + v_1 + let_1 + t_1 + a_b + _1 + _ + v_1_1 + abs"
    );
    assert_round_trip(&program);
}

#[test]
fn a_variable_bound_twice_belongs_to_the_inner_let() {
    let program = built(|p| {
        let v = p.var("v", DType::F64);
        let read = p.add(Expr::Var(v)).expect("a variable");
        let one = float(p, 1.0);
        let more = p
            .add(Expr::Binary(BinaryOp::Add, read, one))
            .expect("a sum");
        let inner = p
            .add(Expr::Let {
                var: v,
                value: more,
                body: more,
            })
            .expect("a let");
        let both = p
            .add(Expr::Binary(BinaryOp::Mul, inner, read))
            .expect("a product");
        p.add(Expr::Let {
            var: v,
            value: one,
            body: both,
        })
        .expect("a let")
    });
    assert_eq!(
        body_text(&program),
        "let v = 1.0 in (let v_1 = v + 1.0 in v_1 + 1.0) * v"
    );
    assert_round_trip(&program);
}

#[test]
fn floats_of_every_width_read_back_bit_by_bit() {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        1e16,
        1e-5,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1.0 / 3.0,
        65504.0,
        6e-8,
        3.402_823_4e38,
        1e22,
        9_007_199_254_740_993.0,
    ];
    for width in [FloatWidth::W16, FloatWidth::W32, FloatWidth::W64] {
        for value in specials {
            let scalar = Scalar::Float(round_to(width, value));
            let expr = Expr::Const(scalar, DType::Float(width));
            let program = built(|p| {
                let a = p.add(expr.clone()).expect("a constant");
                let b = p.add(Expr::Unary(UnaryOp::Neg, a)).expect("a negation");
                p.add(Expr::Binary(BinaryOp::Sub, a, b))
                    .expect("a difference")
            });
            assert_round_trip(&program);
        }
    }
}

#[test]
fn integers_at_the_edges_read_back() {
    for width in Width::ALL {
        let shift = 64 - width.bits();
        let signed = [i64::MIN >> shift, -1, 0, i64::MAX >> shift].map(Scalar::Int);
        let unsigned = [0, 1, u64::MAX >> shift].map(Scalar::UInt);
        for (values, dtype) in [
            (&signed[..], DType::Int(width)),
            (&unsigned[..], DType::UInt(width)),
        ] {
            for value in values {
                let program = built(|p| {
                    let expr = Expr::Const(value.clone(), dtype.clone());
                    let a = p.add(expr).expect("a constant");
                    p.add(Expr::Binary(BinaryOp::Sub, a, a))
                        .expect("a difference")
                });
                assert_round_trip(&program);
            }
        }
    }
}

#[test]
fn parameters_of_reductions_read_back() {
    let level = |value| Ratio::new(value);
    let methods = [
        QuantileMethod::Linear,
        QuantileMethod::Lower,
        QuantileMethod::Higher,
        QuantileMethod::Nearest,
        QuantileMethod::Midpoint,
    ];
    let mut aggs: Vec<Agg> = methods
        .into_iter()
        .map(|method| Agg::Quantile {
            q: level(0.1),
            method,
        })
        .collect();
    aggs.extend([
        Agg::Ewm { alpha: level(-0.0) },
        Agg::Ewm {
            alpha: level(f64::NEG_INFINITY),
        },
        Agg::Ewm {
            alpha: level(f64::NAN),
        },
        Agg::Std { ddof: u32::MAX },
        Agg::TopK { k: 0 },
    ]);
    for agg in aggs {
        let bounds = Bounds::Time { lo: None, hi: -3 };
        let program = built(|p| {
            let window = Window {
                stream: StreamId::new(0),
                bounds,
            };
            p.add(Expr::Reduce {
                agg,
                window,
                map: None,
            })
            .expect("a reduction")
        });
        assert_round_trip(&program);
    }
}

#[test]
fn ids_that_name_nothing_are_shown_as_such() {
    let mut program = built(|p| float(p, 1.0));
    let dangling = |expr| crate::Node {
        expr,
        dtype: DType::F64,
    };
    let stream = StreamId::new(9);
    let mut text = |expr| {
        let id = program.exprs.push(dangling(expr));
        program.expr_text(id)
    };
    let missing = ExprId::new(99);
    assert_eq!(text(Expr::Unary(UnaryOp::Neg, missing)), "-<e99?>");
    assert_eq!(text(Expr::Var(VarId::new(7))), "<v7?>");
    assert_eq!(text(Expr::At { stream, offset: -5 }), "<s9?>[t-5s]");
    assert_eq!(
        text(Expr::Call {
            func: Id::new(3),
            args: vec![missing]
        }),
        "<f3?>(<e99?>)"
    );
    let window = Window {
        stream,
        bounds: Bounds::Time {
            lo: Some(-1),
            hi: 0,
        },
    };
    assert_eq!(
        text(Expr::Reduce {
            agg: Agg::Custom(Id::new(2)),
            window,
            map: None
        }),
        "reduce <r2?> <s9?>[t-1s : t]"
    );
    assert_eq!(
        text(Expr::Const(Scalar::Bool(true), DType::F64)),
        "<Bool(true): f64?>"
    );
    assert_eq!(
        text(Expr::Let {
            var: VarId::new(7),
            value: missing,
            body: missing
        }),
        "let unknown7 = <e99?> in <e99?>"
    );
    assert_eq!(program.stream_text(stream), "<s9?>");
    assert_eq!(program.clock_text(&Clock::At(stream)), "at <s9?>");
    program.output = stream;
    assert!(program.to_string().contains("output <s9?>"));
    assert_eq!(
        Program::new("e", Unit::Tick).to_string(),
        "query e unit tick {\n  output <s0?>\n}\n"
    );
}

#[test]
fn a_node_that_contains_itself_is_cut() {
    let mut program = built(|p| float(p, 1.0));
    let id = ExprId::new(program.exprs.len());
    program.exprs.push(crate::Node {
        expr: Expr::Binary(BinaryOp::Add, id, id),
        dtype: DType::F64,
    });
    let again = format!("<{id:?} again>");
    assert_eq!(program.expr_text(id), format!("{again} + {again}"));
    program.redefine(program.output, Clock::At(StreamId::new(0)), id);
    assert!(program.to_string().contains(&again));
}

#[test]
fn texts_for_messages_are_cut_where_sharing_would_blow_them_up() {
    let program = built(|p| {
        let mut id = float(p, 1.0);
        for _ in 0..200 {
            id = p.add(Expr::Binary(BinaryOp::Add, id, id)).expect("a sum");
        }
        id
    });
    let text = body_text(&program);
    assert!(text.ends_with('…') && text.len() < 500, "{text}");
    let text = program.stream_text(program.output);
    assert!(text.ends_with('…') && text.len() < 20_000);
}

#[test]
fn trees_of_any_height_print() {
    let program = built(|p| {
        let mut id = float(p, 1.0);
        for _ in 0..100_000 {
            id = p.add(Expr::Unary(UnaryOp::Neg, id)).expect("a negation");
        }
        id
    });
    assert!(program.to_string().contains("---(1.0)\n"));
}

#[test]
fn single_streams_print_as_in_the_program() {
    let text = program_text("~x[t] + 1.0");
    let program = read(&text);
    for id in program.streams.ids() {
        let line = format!("  {}\n", program.stream_text(id));
        assert!(text.contains(&line), "{line}");
    }
}
