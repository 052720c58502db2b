//! The rules of inputs, reducers and outputs.

use super::*;

#[test]
fn inputs_have_a_unit_that_converts() {
    assert_breaks(
        |p| input(p, "x").unit = Unit::Tick,
        Rule::Input,
        "~x",
        None,
        "its unit tick does not convert to the query's unit s",
    );
    assert_eq!(violations(|p| input(p, "x").unit = Unit::Nano), []);
}

#[test]
fn inputs_have_types_that_data_can_have() {
    let list = DType::List(Box::new(DType::F64));
    let field = |name: &str, dtype: &DType| Field {
        name: name.to_owned(),
        dtype: dtype.clone(),
    };
    for (dtype, text) in [
        (list.clone(), "list(f64)"),
        (DType::Record(Vec::new()), "{}"),
        (DType::Record(vec![field("a", &list)]), "{a: list(f64)}"),
        (
            DType::Record(vec![field("a", &DType::F64), field("a", &DType::F64)]),
            "{a: f64, a: f64}",
        ),
    ] {
        assert_breaks(
            |p| {
                p.input(Input {
                    name: "odd".to_owned(),
                    dtype,
                    unit: Unit::Second,
                    span: SpanRule::Point,
                    period: None,
                    key: None,
                    overlap: Overlap::Bag,
                });
            },
            Rule::Input,
            "~odd",
            None,
            &format!(
                "{text} cannot be an input; use a scalar or a record of scalars with different names"
            ),
        );
    }
}

#[test]
fn inputs_have_keys_that_are_scalar_fields() {
    assert_breaks(
        |p| input(p, "tx").key = Some("user".to_owned()),
        Rule::Input,
        "~tx",
        None,
        "the key `user` is not a scalar field of {card: utf8, amount: f64}",
    );
    assert_breaks(
        |p| input(p, "x").key = Some("card".to_owned()),
        Rule::Input,
        "~x",
        None,
        "the key `card` is not a scalar field of f64",
    );
}

#[test]
fn reducers_have_a_record_for_a_state() {
    let found = violations(|p| reducer(p).state = DType::F64);
    assert_eq!(found[0].rule, Rule::Reducer);
    assert_eq!(found[0].place, "reducer total");
    assert_eq!(found[0].message, "its state is f64, not a record");
    // The parameters and results that were right for the old state are wrong for this one.
    let messages: Vec<&str> = found[1..].iter().map(|v| v.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`init` gives {sum: f64}, not the state f64",
            "`acc` takes (f64, f64, timestamp(s), timestamp(s)), not ({sum: f64}, f64, timestamp(s), timestamp(s))",
            "`acc` gives {sum: f64}, not the state f64",
            "`merge` takes (f64, f64), not ({sum: f64}, {sum: f64})",
            "`merge` gives {sum: f64}, not the state f64",
            "`deacc` takes (f64, f64, timestamp(s), timestamp(s)), not ({sum: f64}, f64, timestamp(s), timestamp(s))",
            "`deacc` gives {sum: f64}, not the state f64",
            "`result` takes (f64), not ({sum: f64})",
        ]
    );
}

#[test]
fn reducers_have_bodies_of_the_state() {
    assert_breaks(
        |p| {
            let body = float(p, 1.0);
            reducer(p).init = body;
        },
        Rule::Reducer,
        "reducer total",
        Some("1.0"),
        "`init` gives f64, not the state {sum: f64}",
    );
    assert_breaks(
        |p| {
            let init = reducer(p).init;
            let merge = reducer(p).merge.as_mut().expect("it has one");
            merge.params.pop();
            merge.body = init;
        },
        Rule::Reducer,
        "reducer total",
        None,
        "`merge` takes ({sum: f64}, {sum: f64}), not ({sum: f64})",
    );
}

#[test]
fn reducers_read_only_their_parameters() {
    let result = |p: &mut Program, expr: Expr| {
        let body = add(p, expr);
        let lambda = &mut reducer(p).result;
        lambda.body = body;
    };
    assert_breaks(
        |p| {
            let stream = stream(p, "x");
            result(p, Expr::At { stream, offset: 0 });
        },
        Rule::Reducer,
        "reducer total",
        Some("~x[t]"),
        "a reducer's body reads only its parameters, not streams",
    );
    assert_breaks(
        |p| {
            let t = add(p, Expr::Time);
            let ticks = add(p, Expr::Cast(t, DType::I64));
            result(p, Expr::Cast(ticks, DType::F64));
        },
        Rule::Reducer,
        "reducer total",
        Some("t"),
        "a reducer's body has no t; use its start and end parameters",
    );
    // The parameters of another part are not bound.
    assert_breaks(
        |p| {
            let value = reducer(p).acc.params[1];
            result(p, Expr::Var(value));
        },
        Rule::Scope,
        "reducer total",
        Some("v"),
        "`v` is not bound here",
    );
}

#[test]
fn outputs_name_a_stream() {
    assert_breaks(
        |p| p.output = StreamId::new(99),
        Rule::Output,
        "the program",
        None,
        "the output names no stream",
    );
    let empty = verify(&Program::new("q", Unit::Second)).expect_err("it has no streams");
    assert_eq!(empty.0[0].rule, Rule::Output);
}
