//! Properties that hold for every program and all data. A failure prints the program and its data as text that a golden file
//! can hold.

use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestCaseError},
};
use tilt::{
    interp::{self, Event, Inputs, Options, RunError, Value},
    ir::{self, Bounds, Expr, Halo, Lineage, OPEN, Pipeline, Program, Reach, Span, pass::PASSES},
};

use crate::{
    generate::{self, COMMON_PERIOD, Choices, Scope, key_the_records},
    text::{format_events, format_inputs},
};

const ANYTHING: Scope = Scope { instants: true };
const TIMELESS: Scope = Scope { instants: false };

/// Where time starts: also far from zero, where wrapping and rounding would show, and just before clocks are changed in Paris.
pub(crate) const BASES: [i64; 6] = [
    0,
    -50,
    1_700_000_000_000_000_000,
    -(1 << 61),
    1_711_846_770,
    1_729_990_750,
];

pub(crate) fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..220)
}

/// The same cases in every run: `PROPTEST_CASES` asks for more of them, `PROPTEST_RNG_SEED` for others.
pub(crate) fn config() -> ProptestConfig {
    let given = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if asked { given.cases } else { 2_000 },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(20_240_229),
            seed @ RngSeed::Fixed(_) => seed,
        },
        ..given
    }
}

/// A program with its data.
struct Case {
    program: Program,
    inputs: Inputs,
    options: Options,
}

impl Case {
    fn new(choices: &[u16], scope: Scope) -> Self {
        let (mut of_program, mut of_data) = (Choices::new(choices), Choices::reversed(choices));
        let program = generate::program(&mut of_program, scope);
        ir::verify(&program).unwrap_or_else(|e| panic!("the generator made\n{program}\n{e}"));
        let base = BASES[of_data.below(BASES.len())];
        let inputs = generate::inputs(&mut of_data, &program, base);
        let options = Options {
            span: interp::hull(&inputs),
            part: None,
            functions: generate::functions(),
        };
        Self {
            program,
            inputs,
            options,
        }
    }

    fn run(&self) -> Result<Vec<Event>, RunError> {
        interp::run(&self.program, &self.inputs, &self.options)
    }

    /// What `program` gives on the same data must be `expected`.
    fn must_give(
        &self,
        program: &Program,
        inputs: &Inputs,
        part: Option<Span>,
        expected: &[Event],
        what: &str,
    ) -> Result<(), TestCaseError> {
        let options = Options {
            part,
            ..self.options.clone()
        };
        let found = interp::run(program, inputs, &options).map_err(|e| e.to_string());
        let same = found.as_ref().is_ok_and(|f| {
            f.len() == expected.len() && f.iter().zip(expected).all(|(a, b)| a.same(b))
        });
        if same {
            return Ok(());
        }
        let found = found.map_or_else(|e| e, |f| format_events(&f));
        Err(TestCaseError::fail(format!(
            "{what}\n{}{}\n// gives     {}\n// but here  {found}\n{}",
            format_inputs(inputs),
            self.program,
            format_events(expected),
            program
        )))
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn printing_and_parsing_are_inverse(choices in choices()) {
        let case = Case::new(&choices, ANYTHING);
        let text = case.program.to_string();
        let parsed = ir::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(parsed.to_string(), text.clone());
        if let Err(error) = ir::verify(&parsed) {
            return Err(TestCaseError::fail(format!("{error}\n{text}")));
        }
        if let Ok(expected) = case.run() {
            case.must_give(&parsed, &case.inputs, None, &expected, "after printing and parsing")?;
        }
    }

    #[test]
    fn passes_keep_the_meaning(choices in choices()) {
        let case = Case::new(&choices, ANYTHING);
        let Ok(expected) = case.run() else { return Ok(()) };
        for pass in PASSES {
            let mut program = case.program.clone();
            Pipeline::of(&[*pass]).run(&mut program);
            case.must_give(&program, &case.inputs, None, &expected, &format!("after {}", pass.name()))?;
        }
        let mut program = case.program.clone();
        Pipeline::standard().run(&mut program);
        case.must_give(&program, &case.inputs, None, &expected, "after all passes")?;
        let text = program.to_string();
        let parsed = ir::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(parsed.to_string(), text);
    }

    /// Twice is enough for most programs, but a pass can always leave work for an earlier one: only the sizes must not grow.
    #[test]
    fn optimising_again_changes_no_meaning_and_adds_no_stream(choices in choices()) {
        let case = Case::new(&choices, ANYTHING);
        let Ok(expected) = case.run() else { return Ok(()) };
        let mut once = case.program.clone();
        Pipeline::standard().run(&mut once);
        let mut twice = once.clone();
        Pipeline::standard().run(&mut twice);
        prop_assert!(twice.temporals().count() <= once.temporals().count(), "{}\n{}", once, twice);
        case.must_give(&twice, &case.inputs, None, &expected, "after all passes twice")?;
    }

    #[test]
    fn optimising_does_not_lengthen_the_lineage(choices in choices()) {
        let program = generate::program(&mut Choices::new(&choices), ANYTHING);
        let mut optimized = program.clone();
        Pipeline::standard().run(&mut optimized);
        let (before, after) = (Lineage::new(&program), Lineage::new(&optimized));
        for (id, input) in program.inputs() {
            let Some(new) = optimized.stream_named(&input.name).and_then(|id| after.halo(id)) else {
                continue;
            };
            let old = before.halo(id);
            let within = old.is_some_and(|old| {
                new.lookback.is_within(old.lookback) && new.lookahead.is_within(old.lookahead)
            });
            prop_assert!(within, "{:?} becomes {:?}\n{}\n{}", old, new, program, optimized);
        }
    }

    #[test]
    fn parts_of_a_run_need_only_their_halo(choices in choices(), cuts in prop::collection::vec(0.0..1.0f64, 0..4)) {
        let case = Case::new(&choices, ANYTHING);
        let Ok(expected) = case.run() else { return Ok(()) };
        let Some(span) = case.options.span else { return Ok(()) };
        let mut optimized = case.program.clone();
        Pipeline::standard().run(&mut optimized);
        for program in [&case.program, &optimized] {
            let lineage = Lineage::new(program);
            for part in parts(span, &cuts) {
                let inputs = within_halo(&case, program, &lineage, part);
                let expected: Vec<Event> =
                    expected.iter().filter(|e| part.contains(e.end)).cloned().collect();
                // Outside the part the interpreter evaluates on incomplete data, which may be ambiguous.
                let options = Options { part: Some(part), ..case.options.clone() };
                if interp::run(program, &inputs, &options).is_err() {
                    continue;
                }
                case.must_give(program, &inputs, Some(part), &expected, &format!("part {part}"))?;
            }
        }
    }

    #[test]
    fn moving_the_data_moves_the_result(choices in choices(), about in prop::sample::select(vec![1i64, -200, 60_000_180, 1_680_000_000_000_000_000])) {
        let case = Case::new(&choices, TIMELESS);
        let Ok(expected) = case.run() else { return Ok(()) };
        let Some(step) = step_of_time(&case.program) else { return Ok(()) };
        let Some(d) = step.checked_mul((about / step).abs().max(1) * about.signum()) else { return Ok(()) };
        let base = case.options.span.map_or(0, |s| s.start);
        if base.checked_add(d).is_none_or(|t| t.abs() >= 1 << 61) {
            return Ok(());
        }
        let moved = |event: &Event| Event {
            start: event.start + d,
            end: if event.end == OPEN { OPEN } else { event.end + d },
            value: event.value.clone(),
        };
        let inputs: Inputs = case.inputs.iter()
            .map(|(name, events)| (name.clone(), events.iter().map(moved).collect()))
            .collect();
        let case = Case {
            options: Options { span: interp::hull(&inputs), ..case.options.clone() },
            ..case
        };
        let expected: Vec<Event> = expected.iter().map(moved).collect();
        case.must_give(&case.program, &inputs, None, &expected, &format!("moved by {d}"))?;
    }

    #[test]
    fn a_keyed_run_is_the_run_of_each_key(choices in choices()) {
        let mut case = Case::new(&choices, ANYTHING);
        let keyed = key_the_records(&mut case.program);
        if keyed.is_empty() {
            return Ok(());
        }
        let Ok(found) = interp::run_keyed(&case.program, &case.inputs, &case.options) else { return Ok(()) };
        let key_of = |event: &Event| match &event.value {
            Value::Record(fields) => fields[1].clone(),
            _ => Value::Null,
        };
        // A row without a value is no event, and has no key.
        let rows = keyed.iter().flat_map(|name| &case.inputs[name]).filter(|e| !e.value.is_null());
        let mut keys: Vec<Value> = rows.map(key_of).collect();
        keys.sort_by(Value::order);
        keys.dedup_by(|a, b| a.same(b));
        let mut total = 0;
        for key in keys {
            let mut inputs = case.inputs.clone();
            for name in &keyed {
                let rows = inputs.get_mut(name).expect("the keyed input has data");
                rows.retain(|event| key_of(event).same(&key));
            }
            let of_key: Vec<Event> = found.iter()
                .filter(|(k, _)| k.same(&key))
                .map(|(_, e)| e.clone())
                .collect();
            total += of_key.len();
            let mut unkeyed = case.program.clone();
            unkey(&mut unkeyed);
            case.must_give(&unkeyed, &inputs, None, &of_key, "one key alone")?;
        }
        prop_assert_eq!(total, found.len());
        let order = |(key, event): &(Value, Event)| (event.end, key.clone());
        let sorted = found.windows(2).all(|w| {
            let (a, b) = (order(&w[0]), order(&w[1]));
            a.0.cmp(&b.0).then_with(|| a.1.order(&b.1)).is_le()
        });
        prop_assert!(sorted);
    }
}

/// A distance by which time can move: grids keep their cells, windows without beginning the groups of cells that they
/// combine, and windows with one where they are split. `None` if 64 bits cannot hold it.
fn step_of_time(program: &Program) -> Option<i64> {
    let mut step = 8 * COMMON_PERIOD;
    for (_, node) in program.exprs.iter() {
        if let Expr::Reduce { window, .. } = &node.expr
            && let Bounds::Time { lo: Some(lo), hi } = window.bounds
        {
            step = least_common_multiple(step, hi - lo)?;
        }
    }
    Some(step)
}

fn least_common_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut gcd, mut rest) = (a, b);
    while rest != 0 {
        (gcd, rest) = (rest, gcd % rest);
    }
    (a / gcd).checked_mul(b)
}

/// Cuts a run, with everything before and after it, into parts.
fn parts(span: Span, cuts: &[f64]) -> Vec<Span> {
    let length = (span.end - span.start) as f64;
    let mut at: Vec<i64> = cuts
        .iter()
        .map(|c| span.start + (c * length * 1.4 - 0.2 * length) as i64)
        .collect();
    at.sort_unstable();
    at.dedup();
    at.insert(0, i64::MIN);
    at.push(i64::MAX);
    at.windows(2).map(|w| Span::new(w[0], w[1])).collect()
}

/// The events of each input that the lineage says can matter to a part.
fn within_halo(case: &Case, program: &Program, lineage: &Lineage, part: Span) -> Inputs {
    let end = case.options.span.map_or(OPEN, |span| span.end);
    program
        .inputs()
        .map(|(id, input)| {
            // A row that is φ is no event; it counts for nothing.
            let events: Vec<Event> = case.inputs[&input.name]
                .iter()
                .filter(|event| !event.value.is_null())
                .cloned()
                .collect();
            let events = &events;
            let kept = match lineage.halo(id) {
                None => Vec::new(),
                Some(halo) => events
                    .iter()
                    .filter(|event| {
                        let ends = event.end.min(end);
                        ends > earliest(events, end, part, halo)
                            && event.start < latest(events, end, part, halo)
                    })
                    .cloned()
                    .collect(),
            };
            (input.name.clone(), kept)
        })
        .collect()
}

/// How far into the past the halo reaches, by its definition: the walk may cover `ticks`, and skip `events` gaps.
fn earliest(events: &[Event], span_end: i64, part: Span, halo: Halo) -> i64 {
    let Reach::Bounded {
        ticks,
        events: skips,
    } = halo.lookback
    else {
        return i64::MIN;
    };
    if part.start == i64::MIN {
        return i64::MIN;
    }
    let ends = events.iter().map(|e| e.end.min(span_end)).collect();
    furthest(part.start, ticks, skips, ends)
}

fn latest(events: &[Event], span_end: i64, part: Span, halo: Halo) -> i64 {
    let Reach::Bounded {
        ticks,
        events: skips,
    } = halo.lookahead
    else {
        return i64::MAX;
    };
    if part.end == i64::MAX {
        return i64::MAX;
    }
    // The future is the past of a mirrored time, in which a step from just above `1 - end` leads to `-end`.
    let ends = events.iter().map(|e| 1 - e.end.min(span_end)).collect();
    -furthest(-part.end, ticks, skips, ends)
}

/// The least instant that a walk of `ticks` and `skips` free steps reaches from `from`, in any order. A step leads from `p` to
/// just before the greatest end that is not above `p`.
fn furthest(from: i64, ticks: i64, skips: u64, mut ends: Vec<i64>) -> i64 {
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends.dedup();
    // The least time spent to stand just before each end, after any number of steps so far.
    let mut best = from.saturating_sub(ticks);
    let mut standing: Vec<(i64, i64)> = vec![(from, 0)];
    for _ in 0..skips.min(ends.len() as u64) {
        let mut next: Vec<(i64, i64)> = Vec::new();
        for (i, end) in ends.iter().enumerate() {
            // A step lands here from anywhere between this end and the one above it.
            let below = if i == 0 { i64::MAX } else { ends[i - 1] - 1 };
            let spent = standing
                .iter()
                .filter(|(p, _)| p >= end)
                .map(|(p, spent)| spent.saturating_add(p.saturating_sub(below).max(0)))
                .min();
            if let Some(spent) = spent.filter(|spent| *spent <= ticks) {
                next.push((end - 1, spent));
                best = best.min((end - 1).saturating_sub(ticks - spent));
            }
        }
        standing.extend(next);
    }
    best
}

/// A program, keyed in one case of four, its inputs, and random numbers below a bound.
pub(crate) fn maybe_keyed(choices: &[u16]) -> (Program, Inputs, impl FnMut(usize) -> usize) {
    let (mut of_program, mut of_data) = (Choices::new(choices), Choices::reversed(choices));
    let mut program = generate::program(&mut of_program, ANYTHING);
    let base = BASES[of_data.below(BASES.len())];
    let inputs = generate::inputs(&mut of_data, &program, base);
    let fold = |state: u64, c: &u16| state.wrapping_mul(31).wrapping_add(u64::from(*c));
    let mut state = choices.iter().fold(1, fold);
    let mut roll = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    if roll(4) == 0 {
        key_the_records(&mut program);
    }
    (program, inputs, roll)
}

fn unkey(program: &mut Program) {
    for id in program.streams.ids().collect::<Vec<_>>() {
        if let ir::Stream::Input(input) = &mut program.streams[id] {
            input.key = None;
        }
    }
}
