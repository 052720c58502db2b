//! The compiled engine against the oracle: random programs, data, cuts, threads and backends, bit for bit.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use tilt::{
    Backend, Query, RunOptions,
    interp::{self, Event, Inputs, Options, events_of, run_buffers},
    ir::Span,
};

use crate::{
    child,
    generate::{self, Choices, Pieces, Scope, buffers, key_the_records},
    keyed::is_same,
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
        // Drawn before the data, which may use up all choices.
        let [a, b, c, d] = [(); 4].map(|()| Pieces::random(&mut of_data));
        let inputs = generate::inputs(&mut of_data, &program, base);
        let span = interp::hull(&inputs);
        let options = Options { span, part: None, functions: generate::functions() };
        let Ok(expected) = interp::run(&program, &inputs, &options) else { return Ok(()) };
        let arrays = buffers(&program, &inputs);
        for optimize in [false, true] {
            let query = Query::new(program.clone()).expect("verified").optimize(optimize);
            let compiled = query.compile().expect("compiles");
            let ways = [
                (Backend::Loops, 1, Pieces::AsUsual),
                (Backend::Loops, 1, Pieces::OfRows(8)),
                (Backend::Loops, 2, a),
                (Backend::Native, 1, Pieces::AsUsual),
                (Backend::Native, 1, b),
                (Backend::Native, 2, c),
                (Backend::Native, 8, d),
            ];
            for (backend, threads, pieces) in ways {
                let options = RunOptions::default()
                    .backend(backend)
                    .threads(threads)
                    .functions(generate::functions());
                let mut options = pieces.ask(options);
                if let Some(span) = span {
                    options = options.span(span);
                }
                if threads > 1 {
                    options = options.events_only();
                }
                let found = compiled.run(&arrays, &options).map_err(|e| e.to_string());
                let again = compiled.run_briefly(&arrays, &options).map(Ok);
                for (found, brief) in [(Some(found), false), (again, true)] {
                    let Some(found) = found else { continue };
                    let found = found.map(|buffer| events_of(&buffer).expect("a buffer of events"));
                    let agrees = found.as_ref().is_ok_and(|found| same(found, &expected));
                    if !agrees {
                        let found = found.map_or_else(|e| e, |f| format_events(&f));
                        return Err(TestCaseError::fail(format!(
                            "{backend:?} optimize {optimize} threads {threads} {pieces:?} brief {brief}\n{}{}\n// gives     {}\n// but here  {found}\n{}",
                            format_inputs(&inputs), program, format_events(&expected), compiled.explain(),
                        )));
                    }
                }
            }
        }
    }
}

/// Numbers that look random.
pub(crate) struct Random(u64);

impl Random {
    /// Those of a program of its own number, so that one that fails can be made again without those before it.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut random = Self(seed.rotate_left(40) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.choices(4);
        random
    }

    fn next(&mut self) -> u16 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 40) as u16
    }

    pub(crate) fn choices(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// A number that the environment asks for.
pub(crate) fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What a long run has come across.
#[derive(Default, Debug)]
struct Tally {
    /// Pairs of a program and data on which machine code gave what the oracle gives.
    agreed: u64,
    /// Of these, with no event at all.
    empty: u64,
    /// Of these, by programs with a key.
    keyed: u64,
    /// Of these, by programs that are not compiled at all.
    interpreted: u64,
    /// Of these, with loops that were interpreted, too.
    by_loops: u64,
    /// Pairs for which the oracle has no result, only an error.
    without_result: u64,
    /// Programs that differed on some data.
    failed: u64,
}

/// Of so many data sets of a program the first is run by the interpreter of loops as well, which is slow.
const BY_LOOPS: u64 = 8;

/// Each random program is compiled once and run on many data sets, cuts and numbers of threads. One million pairs:
///
/// ```text
/// TILT_PROGRAMS=1100 TILT_DATA_PER_PROGRAM=1000 cargo test --release -p tilt --test it many_data_sets -- --nocapture
/// ```
///
/// `TILT_SEED` asks for other programs, `TILT_FIRST_PROGRAM` to begin with a later one.
#[test]
fn machine_code_agrees_with_the_oracle_on_many_data_sets() {
    let (programs, data_sets) = (
        asked("TILT_PROGRAMS", 50),
        asked("TILT_DATA_PER_PROGRAM", 20),
    );
    let (seed, first) = (asked("TILT_SEED", 1), asked("TILT_FIRST_PROGRAM", 0));
    println!("seed {seed}: {programs} programs from {first} on, {data_sets} data sets each");
    let (begun, mut tally) = (Instant::now(), Tally::default());
    let mut told = begun;
    for number in first..first + programs {
        let mut random = Random::new(seed, number);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            on_many_data_sets(&mut random, data_sets, &mut tally)
        }));
        if let Some(difference) = outcome.unwrap_or_else(|_| Some("it panics".to_owned())) {
            println!("seed {seed}, program {number}: {difference}");
            tally.failed += 1;
        }
        if told.elapsed().as_secs() >= 30 {
            told = Instant::now();
            let programs = number + 1 - first;
            println!("{:7.1?}: {programs} programs, {tally:?}", begun.elapsed());
        }
    }
    let rate = tally.agreed as f64 / begun.elapsed().as_secs_f64();
    println!("{tally:?}, {rate:.0} pairs/s");
    assert_eq!(tally.failed, 0);
}

const MANY: &str = "engine::machine_code_agrees_with_the_oracle_on_many_data_sets";

/// Vectors of other widths, without fused multiplication, without masks: what a host has not, its CPU leaves out.
#[cfg(target_arch = "x86_64")]
#[test]
fn machine_code_for_other_cpus_agrees_with_the_oracle() {
    let mut cpus = vec!["x86-64"];
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        cpus.push("x86-64-v3");
    }
    for (cpu, seed) in cpus.into_iter().zip(["11", "12"]) {
        let environment = [
            ("TILT_CPU", cpu),
            ("TILT_SEED", seed),
            ("TILT_PROGRAMS", "60"),
            ("TILT_DATA_PER_PROGRAM", "20"),
        ];
        child::run(MANY, &environment);
    }
}

#[test]
fn checked_machine_code_agrees_with_the_oracle_and_stays_within_its_columns() {
    let environment = [
        ("TILT_CHECKED", "1"),
        ("TILT_SEED", "13"),
        ("TILT_PROGRAMS", "60"),
        ("TILT_DATA_PER_PROGRAM", "20"),
    ];
    child::run(MANY, &environment);
}

#[test]
fn the_environment_asks_for_checks() {
    let text = "query q unit tick { input ~x: f64 point  ~y[t] = ~x[t] * 2.0  output ~y }";
    let compiled = Query::parse(text).expect("a query").compile();
    let code = compiled.expect("compiles").llvm_ir().expect("a listing");
    let asked = std::env::var("TILT_CHECKED").is_ok_and(|text| text == "1");
    assert_eq!(code.contains("call void @tilt_check("), asked, "{code}");
    if !child::is_child() {
        child::run(
            "engine::the_environment_asks_for_checks",
            &[("TILT_CHECKED", "1")],
        );
    }
}

/// One program on data sets that differ in base, length, φ, span, part, cuts and threads; the first difference.
fn on_many_data_sets(random: &mut Random, data_sets: u64, tally: &mut Tally) -> Option<String> {
    let length = 20 + usize::from(random.next()) % 200;
    let choices = random.choices(length);
    let mut program = generate::program(&mut Choices::new(&choices), Scope { instants: true });
    let is_keyed = random.next().is_multiple_of(2) && !key_the_records(&mut program).is_empty();
    let optimize = !random.next().is_multiple_of(4);
    let query = Query::new(program.clone())
        .expect("verified")
        .optimize(optimize);
    let compiled = query.compile().expect("compiles");
    let is_interpreted = compiled.explain().contains("interpreted, because");
    for number in 0..data_sets {
        let choices = random.choices(200);
        let mut choices = Choices::new(&choices);
        let base = BASES[choices.below(BASES.len())] + choices.below(1000) as i64;
        let threads = [1, 1, 2, 8][choices.below(4)];
        let pieces = Pieces::random(&mut choices);
        let (whole, cut) = (choices.below(4) > 0, choices.below(4) > 0);
        let (after, length) = (choices.below(60) as i64, choices.below(100) as i64);
        let inputs = generate::inputs(&mut choices, &program, base);
        let options = Options {
            span: interp::hull(&inputs).filter(|_| whole),
            part: (!cut).then(|| Span::new(base + after, base + after + length)),
            functions: generate::functions(),
        };
        let arrays = buffers(&program, &inputs);
        let Ok(expected) = run_buffers(&program, &arrays, &options) else {
            tally.without_result += 1;
            continue;
        };
        let right = events_of(&expected).expect("a buffer of events");
        let mut asked = RunOptions::default()
            .threads(threads)
            .functions(options.functions.clone());
        asked = pieces.ask(asked);
        asked = options.span.into_iter().fold(asked, RunOptions::span);
        asked = options.part.into_iter().fold(asked, RunOptions::part);
        let is_by_loops = number.is_multiple_of(BY_LOOPS);
        let backends = [Backend::Native, Backend::Loops];
        let differs = |backend: &Backend| {
            let found = match compiled.run(&arrays, &asked.clone().backend(*backend)) {
                Ok(found) if is_same(&found, &expected, &right) => return None,
                Ok(found) => format_events(&events_of(&found).expect("a buffer of events")),
                Err(error) => error.to_string(),
            };
            Some((*backend, found))
        };
        let asked_for = &backends[..=usize::from(is_by_loops)];
        let Some((backend, found)) = asked_for.iter().find_map(differs) else {
            tally.agreed += 1;
            tally.empty += u64::from(right.is_empty());
            tally.keyed += u64::from(is_keyed);
            tally.interpreted += u64::from(is_interpreted);
            tally.by_loops += u64::from(is_by_loops && !is_interpreted);
            continue;
        };
        return Some(format!(
            "{backend:?} optimize {optimize} threads {threads} {pieces:?} span {:?} part {:?}\n{}{program}\n// gives     {}\n// but here  {found}\n{}",
            options.span,
            options.part,
            format_inputs(&inputs),
            format_events(&right),
            compiled.explain(),
        ));
    }
    None
}

/// What keeps random programs from being compiled, most frequent first: `cargo test -p tilt --test it coverage -- --ignored --nocapture`.
#[test]
#[ignore = "a report of what falls back: there is no right number"]
fn coverage_of_random_programs() {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut random = Random(1);
    for _ in 0..2_000 {
        let choices = random.choices(200);
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
        let start = Instant::now();
        compiled.run(&arrays, &options).expect("runs");
        let each = start.elapsed().as_nanos() as f64 / f64::from(count);
        println!("{each:8.1} ns/event  {agg} over {length} {map}");
    }
}
