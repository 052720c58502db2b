//! One test for each rule of the verifier.

use super::parsed;
use crate::lir::{Binary, Imm, Inst, Loop, Node, Sink, Ty, verify};
use tilt_ir::Id;

fn violations(l: &Loop) -> Vec<String> {
    verify(l).expect_err("is not well formed").violations
}

/// A loop with accesses and values of several types and the lines of `body`.
fn with(body: &str) -> Loop {
    parsed(&format!(
        "loop l lanes 8 {{
           access r: f64 row access n: i64 row nullable access i: i8 index access t: f32 table
           param p: i64
           %0 = load r %1 = load n %2 = valid n %3 = load i
           {body}
         }}"
    ))
}

#[track_caller]
fn breaks(body: &str, violation: &str) {
    assert_eq!(violations(&with(body)), [violation]);
}

#[test]
fn names_are_distinct_and_not_empty() {
    let mut l = with("store %0");
    l.name.clear();
    l.accesses[Id::new(1)].name = "r".into();
    l.params[Id::new(0)].name.clear();
    assert_eq!(
        violations(&l),
        [
            "names: the loop has none",
            "names: two of the accesses have the name `r`",
            "names: one of the parameters has none",
        ]
    );
}

#[test]
fn ids_exist_and_are_defined_before_use() {
    let mut l = with("%4 = add %0, %0 %5 = load r %6 = param p store %0 if %2");
    l.values[Id::new(4)].inst = Inst::Binary(Binary::Add, Id::new(4), Id::new(77));
    l.values[Id::new(5)].inst = Inst::Load(Id::new(9));
    l.values[Id::new(6)].inst = Inst::Param(Id::new(9));
    if let Sink::Store { columns, .. } = &mut l.sink {
        columns[0].value = Id::new(70);
        columns[0].valid = Some(Id::new(71));
    }
    assert_eq!(
        violations(&l),
        [
            "`%4 = add %4, %77`: the operand %4 is not defined before it",
            "`%4 = add %4, %77`: the operand %77 is not defined before it",
            "`%5 = load <a9?>`: there is no such access or parameter",
            "`%6 = param <p9?>`: there is no such access or parameter",
            "store: there is no value %70",
            "store: there is no value %71",
        ]
    );
}

#[test]
fn types_are_those_of_the_instruction() {
    for (body, declared) in [
        ("%4 = const 1: i8", "i8"),
        ("%4 = param p", "i64"),
        ("%4 = row", "i64"),
        ("%4 = load r", "f64"),
        ("%4 = valid n", "bool"),
        ("%4 = lookup t[%1]", "f32"),
        ("%4 = neg %0", "f64"),
        ("%4 = add %0, %0", "f64"),
        ("%4 = lt %0, %0", "bool"),
        ("%4 = select %2, %1, %1", "i64"),
        ("%4 = call f(%1: i64): f64", "f64"),
    ] {
        let mut l = with(&format!("{body} store %0"));
        l.values[Id::new(4)].ty = Ty::U16;
        assert_eq!(
            violations(&l),
            [format!(
                "`{body}`: the result is {declared}, but is declared u16"
            )]
        );
    }
}

#[test]
fn a_table_is_not_nullable() {
    let mut l = with("store %0");
    l.accesses[Id::new(3)].nullable = true;
    assert_eq!(
        violations(&l),
        ["access `t`: a table is not nullable: validity belongs to rows"]
    );
}

#[test]
fn a_fold_has_no_access_by_index() {
    breaks("fold add %0", "access `i`: a fold has no index column");
}

#[test]
fn slides_are_short_and_of_extremes() {
    let sink = |sink: &str| {
        parsed(&format!(
            "loop l lanes 8 {{ access x: i64 row %0 = load x {sink} %0 }}"
        ))
    };
    verify(&sink("slide 1 min")).unwrap();
    verify(&sink("slide 15 running or")).unwrap();
    verify(&sink("comb max")).unwrap();
    for rows in [0, 16] {
        let wrong = format!("slide: a slide combines 1 to 15 rows, not {rows}");
        assert_eq!(violations(&sink(&format!("slide {rows} min"))), [wrong]);
    }
    for kind in ["slide 8", "comb"] {
        let name = kind.split(' ').next().unwrap();
        assert_eq!(
            violations(&sink(&format!("{kind} add"))),
            [format!(
                "{name}: rows may be combined more than once, which `add` would count"
            )]
        );
    }
    let by_index = "loop l lanes 8 { access x: i64 index %0 = load x comb min %0 }";
    assert_eq!(
        violations(&parsed(by_index)),
        ["access `x`: slides and combs read by row"]
    );
}

#[test]
fn panes_are_short_and_of_integers() {
    let panes = |ty: &str, rows: u32| {
        parsed(&format!(
            "loop l lanes 8 {{ access x: {ty} row %0 = load x panes {rows} add %0 }}"
        ))
    };
    verify(&panes("i64", 16)).unwrap();
    assert_eq!(
        violations(&panes("f64", 4)),
        ["panes: panes combine integers, in any order, not f64"]
    );
    for rows in [0, 1, 3, 32] {
        let wrong = format!("panes: a pane has 2, 4, 8 or 16 rows, not {rows}");
        assert_eq!(violations(&panes("i64", rows)), [wrong]);
    }
}

#[test]
fn only_a_fold_has_an_access_by_range() {
    let l = |sink: &str| {
        parsed(&format!(
            "loop l lanes 8 {{ access r: i64 range nullable %0 = load r {sink} }}"
        ))
    };
    verify(&l("fold add %0")).unwrap();
    assert_eq!(
        violations(&l("store %0")),
        ["access `r`: only scans and folds have ranges"]
    );
}

#[test]
fn constants_are_extended_to_a_word() {
    let mut l = with("store %0");
    let imm = Imm {
        ty: Ty::I8,
        bits: 0xff,
    };
    l.values.push(Node {
        inst: Inst::Const(imm),
        ty: Ty::I8,
    });
    assert_eq!(
        violations(&l),
        ["`%4 = const bits 0xff: i8`: the bits of this constant are 0xffffffffffffffff"]
    );
}

#[test]
fn reads_fit_their_access() {
    breaks(
        "%4 = load t store %4",
        "`%4 = load t`: a table is read by `lookup`",
    );
    breaks(
        "%4 = valid r store %4",
        "`%4 = valid r`: the access is not nullable",
    );
    breaks(
        "%4 = lookup r[%1] store %4",
        "`%4 = lookup r[%1]`: only a table is read by `lookup`",
    );
    breaks(
        "%4 = lookup t[%3] store %4",
        "`%4 = lookup t[%3]`: the index of `lookup` is i64, not i8",
    );
}

#[test]
fn unary_operands_are_of_the_right_kind() {
    for (op, operand, kind, ty) in [
        ("neg", "%2", "a number", "bool"),
        ("abs", "%2", "a number", "bool"),
        ("not", "%0", "an integer or a bool", "f64"),
        ("sqrt", "%1", "a float", "i64"),
        ("floor", "%1", "a float", "i64"),
        ("ceil", "%2", "a float", "bool"),
        ("trunc", "%1", "a float", "i64"),
        ("round", "%1", "a float", "i64"),
    ] {
        breaks(
            &format!("%4 = {op} {operand} store %4"),
            &format!("`%4 = {op} {operand}`: `{op}` takes {kind}, not {ty}"),
        );
    }
}

#[test]
fn binary_operands_are_of_the_right_kind() {
    for (op, operand, kind, ty) in [
        ("add", "%2", "a number", "bool"),
        ("sub", "%2", "a number", "bool"),
        ("mul", "%2", "a number", "bool"),
        ("div", "%2", "a number", "bool"),
        ("rem", "%0", "an integer", "f64"),
        ("and", "%0", "an integer or a bool", "f64"),
        ("or", "%0", "an integer or a bool", "f64"),
        ("xor", "%0", "an integer or a bool", "f64"),
        ("shl", "%2", "an integer", "bool"),
        ("shr", "%0", "an integer", "f64"),
        ("min", "%0", "an integer", "f64"),
        ("max", "%2", "an integer", "bool"),
    ] {
        breaks(
            &format!("%4 = {op} {operand}, {operand} store %4"),
            &format!("`%4 = {op} {operand}, {operand}`: `{op}` takes {kind}, not {ty}"),
        );
    }
}

#[test]
fn operands_have_one_type() {
    for inst in ["add %1, %3", "lt %1, %3", "select %2, %1, %3"] {
        breaks(
            &format!("%4 = {inst} store %4"),
            &format!("`%4 = {inst}`: the operands have the types i64 and i8"),
        );
    }
}

#[test]
fn bools_are_not_compared() {
    breaks(
        "%4 = eq %2, %2 store %4",
        "`%4 = eq %2, %2`: bools are not compared; use `xor`",
    );
}

#[test]
fn conditions_are_bools() {
    breaks(
        "%4 = select %1, %0, %0 store %4",
        "`%4 = select %1, %0, %0`: the condition is i64, not bool",
    );
}

#[test]
fn nothing_converts_to_bool() {
    breaks(
        "%4 = convert %1: bool store %4",
        "`%4 = convert %1: bool`: nothing converts to bool; compare with zero",
    );
}

#[test]
fn bits_have_the_same_width() {
    breaks(
        "%4 = bits_of %0: u32 store %4",
        "`%4 = bits_of %0: u32`: f64 and u32 differ in width",
    );
    breaks(
        "%4 = bits_of %2: bool store %4",
        "`%4 = bits_of %2: bool`: a bool has no bits in memory of its own",
    );
}

#[test]
fn calls_fit_their_function() {
    breaks(
        "%4 = call f(%0: i64): f64 store %4",
        "`%4 = call f(%0: i64): f64`: the function takes (i64), not (f64)",
    );
    breaks(
        "%4 = call f(%1: i64, %1: i64, %1: i64, %1: i64): f64 store %4",
        "`%4 = call f(%1: i64, %1: i64, %1: i64, %1: i64): f64`: a call has at most 3 operands",
    );
    breaks(
        "%4 = call f(%3: i8): f64 store %4",
        "`%4 = call f(%3: i8): f64`: functions take and give i64, f32 and f64, not i8",
    );
    breaks(
        "%4 = call ``(): f64 store %4",
        "`%4 = call ``(): f64`: the function has no name",
    );
}

#[test]
fn a_sink_has_columns() {
    let mut l = with("store %0");
    l.sink = Sink::Store {
        columns: Vec::new(),
        streaming: false,
    };
    assert_eq!(violations(&l), ["store: there is nothing to store"]);
    l.sink = Sink::Scan {
        slots: Vec::new(),
        backward: false,
    };
    assert_eq!(violations(&l), ["scan: there is nothing to combine"]);
}

#[test]
fn a_validity_is_a_bool() {
    breaks("store %0 if %1", "store: a validity is a bool, not i64");
}

#[test]
fn slots_are_of_the_right_kind() {
    breaks("scan add %2", "scan: `add` takes a number, not bool");
    breaks("scan min %0", "scan: `min` takes an integer, not f64");
    breaks("scan max %0", "scan: `max` takes an integer, not f64");
    breaks("scan or %2", "scan: `or` takes an integer, not bool");
}

#[test]
fn one_lane_is_for_plain_stores() {
    let one = |sink: &str| parsed(&format!("loop l lanes 1 {{ %0 = row {sink} %0 }}"));
    verify(&one("store")).unwrap();
    assert_eq!(
        violations(&one("streaming store")),
        ["store: streaming needs eight lanes"]
    );
    assert_eq!(
        violations(&one("scan add")),
        ["scan: one lane is for `store` only"]
    );
    assert_eq!(
        violations(&one("fold add")),
        ["fold: one lane is for `store` only"]
    );
}

#[test]
fn what_is_read_back_is_the_first_column_of_a_store_of_one_lane() {
    let of = |lanes: u32, ty: &str, back: u32, sink: &str| {
        parsed(&format!(
            "loop l lanes {lanes} {{ access y: {ty} back {back} %0 = row {sink} %0 }}"
        ))
    };
    verify(&of(1, "i64", 3, "store")).unwrap();
    let first = "access `y`: what is read back is the first column of a store of one lane, no bool";
    assert_eq!(violations(&of(8, "i64", 1, "store")), [first]);
    assert_eq!(violations(&of(8, "i64", 1, "scan add")), [first]);
    assert_eq!(violations(&of(1, "i32", 1, "store")), [first]);
    assert_eq!(violations(&of(1, "bool", 1, "store")), [first]);
    assert_eq!(
        violations(&of(1, "i64", 0, "store")),
        ["access `y`: a row does not read what it stores itself"]
    );
}

#[test]
fn all_violations_are_shown() {
    let error = verify(&with("%4 = not %0 %5 = sqrt %1 store %4 if %5")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the loop l is not well formed:
  `%4 = not %0`: `not` takes an integer or a bool, not f64
  `%5 = sqrt %1`: `sqrt` takes a float, not i64
  store: a validity is a bool, not i64"
    );
}
