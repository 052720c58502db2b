//! How violations are told, and that nonsense is told and does not panic.

use super::*;

#[test]
fn all_violations_are_collected_in_order_of_definition() {
    let found = violations(|p| {
        let x = stream(p, "x");
        input(p, "x").span = SpanRule::Fixed(0);
        input(p, "tx").key = Some("user".to_owned());
        set_body(p, reduce(x, Agg::Sum, 0, 0));
        let clock = Clock::Every {
            period: 0,
            offset: 0,
        };
        let y = stream(p, "y");
        let body = p.streams[y].as_temporal().expect("a temporal").body;
        p.redefine(y, clock, body);
    });
    let rules: Vec<(&str, Rule)> = found.iter().map(|v| (v.place.as_str(), v.rule)).collect();
    assert_eq!(
        rules,
        [
            ("~x", Rule::Instant),
            ("~tx", Rule::Input),
            ("~y", Rule::Clock),
            ("~y", Rule::Window),
        ]
    );
}

#[test]
fn a_message_shows_the_place_and_the_expression() {
    let mut program = valid();
    let x = stream(&program, "x");
    input(&mut program, "x").key = Some("k".to_owned());
    set_body(&mut program, reduce(x, Agg::Max, 0, 0));
    let error = verify(&program).expect_err("it is broken");
    assert_eq!(
        error.to_string(),
        "in ~x: the key `k` is not a scalar field of f64
in ~y: the window is empty: its lower bound must be below its upper bound
    reduce max ~x[t : t]"
    );
}

#[test]
fn a_shared_expression_is_reported_once_for_each_scope() {
    let found = violations(|p| {
        let x = stream(p, "x");
        let empty = add(p, reduce(x, Agg::Sum, 0, 0));
        set_body(p, Expr::Binary(BinaryOp::Add, empty, empty));
    });
    assert_eq!(found.len(), 1);
}

#[test]
fn what_is_shared_too_often_must_be_bound() {
    // As a tree the body has 2^doublings leaves.
    let doubled = |doublings: usize| {
        violations(|p| {
            let var = p.var("v", DType::F64);
            let value = float(p, 1.0);
            let mut body = add(p, Expr::Var(var));
            for _ in 0..doublings {
                body = add(p, Expr::Binary(BinaryOp::Add, body, body));
            }
            set_body(p, Expr::Let { var, value, body });
        })
    };
    assert_eq!(doubled(16), []);
    let found = doubled(60);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, Rule::Size);
    assert_eq!(
        found[0].message,
        "written out, the body has more than 262144 nodes; bind what it shares with `let`"
    );
}

#[test]
fn hand_made_nonsense_does_not_panic() {
    let program = valid();
    let nodes: Vec<ExprId> = program.exprs.ids().collect();
    let targets = [0, 1, nodes.len() / 2, nodes.len() - 1, nodes.len(), 1 << 20];
    for id in &nodes {
        for target in targets {
            let mut broken = program.clone();
            let expr = &program.exprs[*id].expr;
            broken.exprs[*id].expr = expr.map_operands(|_| ExprId::new(target));
            let _ = verify(&broken);
        }
        for other in &nodes {
            let mut broken = program.clone();
            broken.exprs[*id].expr = program.exprs[*other].expr.clone();
            let _ = verify(&broken);
            broken.exprs[*id] = program.exprs[*other].clone();
            let _ = verify(&broken);
        }
    }
    for (id, _) in program.temporals() {
        for stream in [0, 1, 2, 3, 4, 1 << 20] {
            for body in targets {
                let mut broken = program.clone();
                broken.redefine(id, Clock::At(StreamId::new(stream)), ExprId::new(body));
                broken.output = StreamId::new(stream);
                let _ = verify(&broken);
            }
        }
    }
}

#[test]
fn constants_of_the_wrong_kind_do_not_panic() {
    let scalars = [
        Scalar::Bool(true),
        Scalar::Int(i64::MIN),
        Scalar::UInt(u64::MAX),
        Scalar::Float(f64::NAN),
        Scalar::Str("x".into()),
    ];
    let dtypes = [
        DType::Bool,
        DType::I32,
        DType::U64,
        DType::F32,
        DType::Utf8,
        DType::Timestamp(Unit::Second),
        DType::Duration(Unit::Tick),
        DType::Record(Vec::new()),
        DType::List(Box::new(DType::Bool)),
    ];
    for scalar in scalars {
        for dtype in &dtypes {
            let expr = Expr::Const(scalar.clone(), dtype.clone());
            let dtype = dtype.clone();
            let found = violations(|p| {
                p.exprs.push(Node { expr, dtype });
            });
            assert!(found.iter().all(|v| v.rule == Rule::Types), "{found:?}");
        }
    }
}
