//! The pipeline's switches. What each pass does stands in `tests/golden/passes`.

use super::*;
use crate::{ids::Id, parse::parse};

/// A query on which `simplify`, `fuse` and `dce` have work.
fn trend() -> Program {
    parse(
        "query trend unit s {
           input ~x: f64 point
           ~a[t] = reduce sum ~x[t-10s : t]
           ~b[t] = reduce sum ~x[t-20s : t]
           ~join[t] = if !is_null(~a[t]) && !is_null(~b[t]) then ~a[t] / 10.0 - ~b[t] / 20.0 else null
           ~out[t] = if ~join[t] > 0.0 then ~join[t] else null
           output ~out }",
    )
    .unwrap_or_else(|e| panic!("{e}"))
}

/// Each pass that changed the program, with the text after it.
fn stages(pipeline: &Pipeline) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    pipeline.run_observed(&mut trend(), |pass, program| {
        seen.push((pass.to_owned(), program.to_string()));
    });
    seen
}

fn names(pipeline: &Pipeline) -> Vec<String> {
    stages(pipeline).into_iter().map(|stage| stage.0).collect()
}

fn text_after(pipeline: &Pipeline) -> String {
    let mut program = trend();
    pipeline.run(&mut program);
    program.to_string()
}

fn with_variables(variables: &[(&str, &str)]) -> Pipeline {
    Pipeline::from_variables(|name| {
        let found = variables.iter().find(|v| v.0 == name)?;
        Some(found.1.to_owned())
    })
}

#[test]
fn only_passes_that_changed_something_are_observed() {
    assert_eq!(names(&Pipeline::standard()), ["simplify", "fuse", "dce"]);
    assert_eq!(names(&Pipeline::of(&[])), [""; 0]);
    assert_eq!(names(&Pipeline::of(&[&Dce, &Split])), [""; 0]);
}

#[test]
fn a_second_run_changes_nothing() {
    let mut program = trend();
    Pipeline::standard().run(&mut program);
    let text = program.to_string();
    // `dce` may still clear away nodes that other passes tried and did not use.
    Pipeline::standard()
        .without("dce")
        .run_observed(&mut program, |pass, after| {
            panic!("{pass} changed\n{text}\nto\n{after}");
        });
}

#[test]
fn a_pass_that_reports_no_change_makes_none() {
    let idle = "query idle unit s { input ~x: f64 point ~out[t] = ~x[t] output ~out }";
    let before = parse(idle).unwrap_or_else(|e| panic!("{e}"));
    for pass in PASSES {
        let mut program = before.clone();
        assert!(!pass.run(&mut program), "{}", pass.name());
        assert_eq!(program.to_string(), before.to_string(), "{}", pass.name());
    }
}

#[test]
fn a_disabled_pass_is_left_out_wherever_it_stands() {
    assert_eq!(
        names(&Pipeline::standard().without("fuse").without("dce")),
        ["simplify"]
    );
    assert_eq!(
        names(&Pipeline::standard().without("simplify")),
        ["fuse", "dce"]
    );
    let none = PASSES
        .iter()
        .fold(Pipeline::standard(), |p, pass| p.without(pass.name()));
    assert_eq!(text_after(&none), trend().to_string());
}

#[test]
fn a_limit_stops_after_so_many_changes() {
    let all = stages(&Pipeline::standard());
    assert_eq!(
        text_after(&Pipeline::standard().limited(0)),
        trend().to_string()
    );
    for (i, (_, text)) in all.iter().enumerate() {
        assert_eq!(
            text_after(&Pipeline::standard().limited(i + 1)),
            *text,
            "the stage that bisecting by {} finds",
            i + 1
        );
    }
    let more = Pipeline::standard().limited(all.len() + 1);
    assert_eq!(stages(&more), all);
}

#[test]
fn variables_switch_passes() {
    assert_eq!(names(&with_variables(&[])), ["simplify", "fuse", "dce"]);
    let disabled = with_variables(&[("TILT_DISABLE_PASS", "dce, simplify ,unknown,")]);
    assert_eq!(names(&disabled), ["fuse"]);
    let limited = with_variables(&[("TILT_PASS_LIMIT", " 1 ")]);
    assert_eq!(names(&limited), ["simplify"]);
    let not_a_number = with_variables(&[("TILT_PASS_LIMIT", "some")]);
    assert_eq!(names(&not_a_number), ["simplify", "fuse", "dce"]);
}

#[test]
fn variables_choose_what_is_dumped() {
    assert_eq!(
        with_variables(&[("TILT_DUMP", "fuse, cse")]).dump,
        ["fuse", "cse"]
    );
    assert_eq!(with_variables(&[("TILT_DUMP", "all")]).dump, ["all"]);
}

#[test]
fn names_in_the_documentation_are_those_of_the_passes() {
    let mut names: Vec<&str> = PASSES.iter().map(|pass| pass.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(
        names,
        [
            "cse",
            "dce",
            "fold",
            "fuse",
            "share_windows",
            "simplify",
            "split"
        ]
    );
}

/// A pass with a bug.
struct LoseOutput;

impl Pass for LoseOutput {
    fn name(&self) -> &'static str {
        "lose_output"
    }

    fn run(&self, program: &mut Program) -> bool {
        program.streams[program.output] = program.streams[Id::new(0)].clone();
        true
    }
}

#[test]
#[cfg_attr(
    debug_assertions,
    should_panic(
        expected = "pass lose_output broke the program (this is a bug in tilt):\nin the program: two streams are called `x`"
    )
)]
fn a_pass_that_breaks_a_rule_is_found_out() {
    Pipeline::of(&[&LoseOutput]).run(&mut trend());
}
