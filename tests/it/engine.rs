//! The compiled engine against the oracle: random programs, data, cuts, threads and backends, bit for bit.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};
use tilt::{
    Backend, Query, RunOptions,
    interp::{self, Event, Inputs, Options, events_of},
};

use crate::{
    generate::{self, Choices, Scope, buffers},
    properties::{BASES, choices, config},
    text::{format_events, format_inputs},
};

fn same(a: &[Event], b: &[Event]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}

/// Fewer than for the oracle alone: every program is compiled to machine code.
fn fewer() -> ProptestConfig {
    let all = config();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if asked { all.cases } else { 300 },
        ..all
    }
}

proptest! {
    #![proptest_config(fewer())]

    #[test]
    fn loops_and_machine_code_agree_with_the_oracle(choices in choices()) {
        let (mut of_program, mut of_data) = (Choices::new(&choices), Choices::reversed(&choices));
        let program = generate::program(&mut of_program, Scope { instants: true });
        let base = BASES[of_data.below(BASES.len())];
        let inputs = generate::inputs(&mut of_data, &program, base);
        let span = interp::hull(&inputs);
        let options = Options { span, part: None, functions: generate::functions() };
        let Ok(expected) = interp::run(&program, &inputs, &options) else { return Ok(()) };
        let arrays = buffers(&program, &inputs);
        for optimize in [false, true] {
            let query = Query::new(program.clone()).expect("verified").optimize(optimize);
            let compiled = query.compile().expect("compiles");
            let ways = [
                (Backend::Loops, 1, 1 << 20),
                (Backend::Loops, 1, 8),
                (Backend::Native, 1, 1 << 20),
                (Backend::Native, 2, 8),
                (Backend::Native, 8, 16),
            ];
            for (backend, threads, rows) in ways {
                let mut options = RunOptions::default()
                    .backend(backend)
                    .threads(threads)
                    .piece_rows(rows)
                    .functions(generate::functions());
                if let Some(span) = span {
                    options = options.span(span);
                }
                let found = compiled.run(&arrays, &options).map_err(|e| e.to_string());
                let found = found.map(|buffer| events_of(&buffer).expect("a buffer of events"));
                let agrees = found.as_ref().is_ok_and(|found| same(found, &expected));
                if !agrees {
                    let found = found.map_or_else(|e| e, |f| format_events(&f));
                    return Err(TestCaseError::fail(format!(
                        "{backend:?} optimize {optimize} pieces of {rows}\n{}{}\n// gives     {}\n// but here  {found}\n{}",
                        format_inputs(&inputs), program, format_events(&expected), compiled.explain(),
                    )));
                }
            }
        }
    }
}

/// What keeps random programs from being compiled, most frequent first: `cargo test -p tilt --test it coverage -- --ignored --nocapture`.
#[test]
#[ignore = "a report of what falls back: there is no right number"]
fn coverage_of_random_programs() {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u16
    };
    for _ in 0..2_000 {
        let choices: Vec<u16> = (0..200).map(|_| next()).collect();
        let program = generate::program(&mut Choices::new(&choices), Scope { instants: true });
        let compiled = Query::new(program)
            .expect("verified")
            .compile()
            .expect("compiles");
        let text = compiled.explain();
        let reason = text
            .lines()
            .find(|l| l.starts_with("interpreted"))
            .unwrap_or("compiled");
        let reason = reason.split(" in ~").next().unwrap_or(reason);
        *reasons.entry(reason.to_owned()).or_default() += 1;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (reason, n) in reasons {
        println!("{n:5} {reason}");
    }
}

/// What reductions over a thousand events cost: `cargo test -p tilt --test it speed -- --ignored --nocapture`.
#[test]
#[ignore = "a report of times: a test must not fail because the machine is busy"]
fn speed_of_reductions_over_long_windows() {
    let count = 1_000_000u32;
    let mut state = 1u64;
    let events: Vec<Event> = (1..=i64::from(count))
        .map(|t| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            Event::point(t, (state >> 33) as f64 * 1e-3)
        })
        .collect();
    let inputs = Inputs::from([("x".to_owned(), events)]);
    let rounded = "map (floor(~x[t] / 20000.0))";
    let reductions = [
        ("mean", "1000", ""),
        ("median", "1000", ""),
        ("median", "100000", ""),
        ("mode", "1000", rounded),
        ("n_unique", "1000", rounded),
        ("arg_max", "1000", ""),
        ("std", "1000", rounded),
        ("slope", "1000", ""),
        ("twa", "1000", ""),
        ("last", "1000", rounded),
    ];
    for (agg, length, map) in reductions {
        let text = format!(
            "query q unit s {{ input ~x: f64 point  ~y[t] = reduce {agg} ~x[t-{length}s : t] {map}  output ~y }}"
        );
        let query = Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let arrays = buffers(query.program(), &inputs);
        let compiled = query.compile().expect("compiles");
        assert!(
            !compiled.explain().contains("interpreted"),
            "{}",
            compiled.explain()
        );
        let options = RunOptions::default();
        let start = std::time::Instant::now();
        compiled.run(&arrays, &options).expect("runs");
        let each = start.elapsed().as_nanos() as f64 / f64::from(count);
        println!("{each:8.1} ns/event  {agg} over {length} {map}");
    }
}
