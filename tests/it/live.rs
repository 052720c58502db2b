//! Live runs against the oracle: random programs, rows pushed in random chunks, promises, runs that are saved and resumed.

use std::{collections::BTreeMap, sync::Arc};

use proptest::{prelude::*, test_runner::TestCaseError};
use tilt::{
    Backend, Compiled, EndsOf, Error, Live, LiveError, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray},
    data::{Column, Layout, SnapshotBuffer, Spans, Timeline},
    interp::{self, Event, Options, RunError, events_of, run_buffers},
    ir::{
        Clock, Expr, Halo, Lineage, OPEN, Program, Reach, Source, Span, SpanRule, StreamId, Unit,
    },
};

use crate::{
    generate::{self, buffers},
    properties::{choices, config, maybe_keyed},
    streams::until_next,
    text::{format_events, format_inputs},
};

type Buffers = BTreeMap<String, SnapshotBuffer>;

/// Random numbers below a bound.
type Roll<'a> = &'a mut dyn FnMut(usize) -> usize;

/// The earliest start of the rows from `row` on. One without a value counts too: it ends what lasts until the next.
fn next_start(buffer: &SnapshotBuffer, row: usize) -> i64 {
    let starts = (row..buffer.len()).map(|i| buffer.event(i).start);
    starts.min().unwrap_or(OPEN)
}

/// The lookahead of each input, if results depend on nothing else: neither on where the run ends nor on how many events follow.
fn lookaheads(compiled: &Compiled) -> Option<Vec<(String, i64)>> {
    let program = compiled.program();
    let mut depends = program
        .inputs()
        .any(|(_, input)| input.span == SpanRule::UntilNext || input.key.is_some());
    for (_, temporal) in program.temporals() {
        depends |= match &temporal.clock {
            Clock::OnChange(sources) => {
                let holds = |source: &Source| matches!(source, Source::Hold { .. });
                sources.iter().any(holds)
            }
            clock => clock.has_cells(),
        };
        program.walk(temporal.body, &mut |_, expr| {
            depends |= matches!(expr, Expr::Hold { .. });
        });
    }
    let lineage = Lineage::new(program);
    let lookahead = |(id, halo): (StreamId, Halo)| match halo.lookahead {
        Reach::Bounded { ticks, events: 0 } => Some((program.streams[id].name().to_owned(), ticks)),
        _ => None,
    };
    let all: Option<Vec<_>> = lineage.halos().map(lookahead).collect();
    all.filter(|all| !depends && !all.is_empty())
}

/// Pushes all rows in some order, with promises, and takes what is told in between. What the steps were, and all events.
fn pushed(
    compiled: &Compiled,
    inputs: &Buffers,
    options: &RunOptions,
    end: Option<i64>,
    roll: Roll,
) -> (Vec<String>, Result<Vec<Event>, Box<Error>>) {
    let mut steps = Vec::new();
    let mut found = Vec::new();
    let mut run = || -> Result<(), Box<Error>> {
        let mut live = compiled.live(options)?;
        let mut at: BTreeMap<&String, usize> = inputs.keys().map(|name| (name, 0)).collect();
        let stamped: Vec<&String> = compiled
            .program()
            .inputs()
            .filter(|(_, i)| i.span == SpanRule::UntilNext && i.key.is_none() && roll(2) == 0)
            .filter_map(|(_, i)| inputs.keys().find(|name| **name == i.name))
            .collect();
        let most = [1, 3, 8][roll(3)];
        let lookaheads = lookaheads(compiled);
        let take = |live: &mut Live, steps: &mut Vec<String>, found: &mut Vec<Event>| {
            let part = live.take()?;
            found.extend(events_of(&part).expect("a buffer of events"));
            steps.push(format!("take to {} gives {}", live.until(), part.len()));
            if let Some(lookaheads) = &lookaheads {
                let certain =
                    |(name, ticks): &(String, i64)| match live.watermark(name).expect("an input") {
                        None | Some(OPEN) => OPEN,
                        Some(come) => come.saturating_sub(*ticks),
                    };
                let certain = lookaheads.iter().map(certain).min();
                // Lineage is sound but not tight: what goes on in steps may be certain before it says so.
                assert!(Some(live.until()) >= certain, "{certain:?} {steps:?}");
            }
            Ok::<(), Box<Error>>(())
        };
        loop {
            let left: Vec<&String> = at
                .iter()
                .filter(|(name, at)| **at < inputs[**name].len())
                .map(|(name, _)| *name)
                .collect();
            let Some(name) = left.get(roll(left.len())) else {
                break;
            };
            let (buffer, from) = (&inputs[*name], at[*name]);
            let len = (1 + roll(most)).min(buffer.len() - from);
            let chunk = buffer.slice(from, len);
            let chunk = if stamped.contains(name) {
                until_next(&chunk)
            } else {
                chunk
            };
            steps.push(format!("push {len} of {name}"));
            let values = chunk.columns().iter().map(Column::array);
            let are_events = chunk.null_rows() == 0 && roll(2) == 0;
            let number = live.held().iter().position(|held| held.input == **name);
            let is_appended = number.zip(EndsOf::of(chunk.timeline()));
            let is_appended = is_appended.is_some_and(|(number, (ends, length))| {
                are_events && live.append(number, ends, length, values)
            });
            if !is_appended {
                live.push(name, &chunk)?;
            }
            at.insert(*name, from + len);
            if roll(4) == 0 {
                let name = inputs.keys().nth(roll(inputs.len())).expect("an input");
                let t = next_start(&inputs[name], at[name]).saturating_sub(roll(3) as i64);
                steps.push(format!("advance {name} to {t}"));
                live.advance(name, t)?;
            }
            if roll(2) == 0 {
                take(&mut live, &mut steps, &mut found)?;
            }
            if roll(8) == 0 {
                steps.push("save".to_owned());
                live = compiled.resume(live.save()?, options)?;
            }
        }
        let rest = live.finish(end)?;
        found.extend(events_of(&rest).expect("a buffer of events"));
        Ok(())
    };
    let done = run();
    (steps, done.map(|()| found))
}

/// Pushes a program's inputs in several ways; the first result that is not `expected`.
fn difference(
    program: &Program,
    inputs: &Buffers,
    options: &Options,
    end: Option<i64>,
    expected: &[Event],
    roll: Roll,
) -> Result<(), String> {
    let query = Query::new(program.clone()).expect("verified");
    let compiled = query.compile().expect("compiles");
    // Machine code takes long to make, and differs from loops in nothing that matters here.
    let native = (roll(4) == 0).then_some(Backend::Native);
    for backend in [Backend::Loops, Backend::Interpreter]
        .into_iter()
        .chain(native)
    {
        let mut asked = RunOptions::default()
            .backend(backend)
            .threads(1)
            .functions(options.functions.clone());
        if end.is_none() {
            asked = options.span.into_iter().fold(asked, RunOptions::span);
        }
        asked = options.part.into_iter().fold(asked, RunOptions::part);
        let (steps, found) = pushed(&compiled, inputs, &asked, end, roll);
        let found = match found {
            Ok(found) => found,
            // Away from its part a run sees too little, and may read several values where a read that is preferred would have one.
            Err(error) if matches!(*error, Error::Run(RunError::Query(_))) => return Ok(()),
            // The rows that would settle a total that may be too large are gone.
            Err(error) if matches!(*error, Error::Live(LiveError::Unsettled { .. })) => {
                return Ok(());
            }
            Err(error) => return Err(format!("{backend:?} {steps:?} fails: {error}")),
        };
        let same =
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a.same(b));
        if !same {
            return Err(format!(
                "{backend:?} {steps:?} {:?}\n// gives     {}\n// but here  {}\n",
                options.span,
                format_events(expected),
                format_events(&found),
            ));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases / 2, ..config() })]

    #[test]
    fn rows_that_are_pushed_give_what_a_run_in_one_go_gives(choices in choices()) {
        let (program, inputs, mut roll) = maybe_keyed(&choices);
        let hull = interp::hull(&inputs);
        let (span, part, end) = match (roll(5), hull) {
            (0, Some(hull)) => (Some(Span::new(hull.start - 3, hull.end + 5)), None, None),
            (1, Some(hull)) => (None, Some(Span::new(hull.start + 4, hull.start + 20)), None),
            (2, Some(hull)) => (Some(Span::new(hull.start, hull.end + 7)), None, Some(hull.end + 7)),
            _ => (None, None, None),
        };
        let options = Options { span, part, functions: generate::functions() };
        let arrays = buffers(&program, &inputs);
        let Ok(expected) = run_buffers(&program, &arrays, &options) else { return Ok(()) };
        let expected = events_of(&expected).expect("a buffer of events");
        if let Err(difference) = difference(&program, &arrays, &options, end, &expected, &mut roll) {
            return Err(TestCaseError::fail(format!("{}{program}\n{difference}", format_inputs(&inputs))));
        }
    }
}

fn live(text: &str) -> Live {
    let query = Query::parse(&format!("query q unit tick {{ {text} }}")).expect("a query");
    let compiled = query.compile().expect("compiles");
    compiled.live(&RunOptions::default()).expect("a live run")
}

fn rows(timeline: Timeline, values: &[f64]) -> SnapshotBuffer {
    let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).expect("as many rows")
}

fn points(stamps: &[i64]) -> SnapshotBuffer {
    let values: Vec<f64> = stamps.iter().map(|t| *t as f64).collect();
    let timeline = Timeline::explicit(stamps.to_vec().into(), Spans::Fixed(1));
    rows(timeline, &values)
}

fn intervals(events: &[(i64, i64)]) -> SnapshotBuffer {
    let values: Vec<f64> = events.iter().map(|(start, _)| *start as f64).collect();
    let (starts, ends): (Vec<i64>, Vec<i64>) = events.iter().copied().unzip();
    rows(Timeline::intervals(starts.into(), ends.into()), &values)
}

/// The events that can be taken, as text.
fn taken(live: &mut Live) -> String {
    format_events(&events_of(&live.take().expect("runs")).expect("a buffer of events"))
}

/// Cells are there from the start of the run on, and a session that is cut by its length begins where the one before ends.
#[test]
fn sessions_of_cells_are_those_of_the_whole_run() {
    let text = "input ~x: f64 point ~c[t every 1] = 1.0 ~s[t sessions ~c gap 5 max 3] = hold(~x[t], 1) output ~s";
    let query = Query::parse(&format!("query q unit tick {{ {text} }}")).expect("a query");
    let compiled = query.compile().expect("compiles");
    let stamps = [2, 4, 5, 30, 31, 52, 54, 60];
    let inputs = BTreeMap::from([("x".to_owned(), points(&stamps))]);
    let whole = compiled.run(&inputs, &RunOptions::default()).expect("runs");
    let mut run = live(text);
    let mut parts = Vec::new();
    for stamp in stamps {
        run.push("x", &points(&[stamp])).expect("in order");
        parts.push(taken(&mut run));
    }
    let rest = run.finish(None).expect("runs");
    parts.push(format_events(&events_of(&rest).expect("events")));
    parts.retain(|part| !part.is_empty());
    let whole = format_events(&events_of(&whole).expect("events"));
    assert!(!whole.is_empty());
    assert_eq!(parts.join(" "), whole);
}

#[test]
fn results_come_as_soon_as_nothing_can_change_them() {
    // A sum of what has come, of events that promise to be apart: at once.
    let mut run = live("input ~x: f64 point ~s[t] = reduce sum ~x[t-3:t] output ~s");
    run.push("x", &points(&[4])).expect("in order");
    assert_eq!(taken(&mut run), "(3,4]=4.0");
    // Where another one may come at the same instant, with the next, or when none is promised.
    let mut run = live("input ~x: f64 point overlap bag ~s[t] = reduce sum ~x[t-3:t] output ~s");
    run.push("x", &points(&[4])).expect("in order");
    assert_eq!(taken(&mut run), "");
    run.push("x", &points(&[5])).expect("in order");
    assert_eq!((taken(&mut run), run.until()), ("(3,4]=4.0".to_owned(), 4));
    run.advance("x", 5).expect("an input");
    assert_eq!(taken(&mut run), "(4,5]=9.0");
    // A cell, when nothing that is in it can come any more.
    let mut run = live("input ~x: f64 point ~s[t every 5] = reduce sum ~x[t-5:t] output ~s");
    run.push("x", &points(&[4])).expect("in order");
    assert_eq!(taken(&mut run), "");
    run.advance("x", 5).expect("an input");
    assert_eq!(taken(&mut run), "(0,5]=4.0");
    // A cell that is there for the run's sake, when the run is known to reach it.
    let text = "input ~x: f64 point ~s[t every 5] = coalesce(reduce sum ~x[t-5:t], 0.0) output ~s";
    let mut run = live(text);
    run.push("x", &points(&[4])).expect("in order");
    run.advance("x", 50).expect("an input");
    assert_eq!(taken(&mut run), "(0,5]=4.0");
    run.lasts(10);
    assert_eq!(taken(&mut run), "(5,10]=0.0");
    // What is looked ahead for, when that has come.
    let mut run = live("input ~x: f64 point ~s[t] = reduce sum ~x[t-1:t+2] output ~s");
    run.push("x", &points(&[4, 5])).expect("in order");
    assert_eq!(taken(&mut run), "");
    run.push("x", &points(&[7])).expect("in order");
    assert_eq!(
        (taken(&mut run), run.until()),
        ("(3,4]=9.0 (4,5]=12.0".to_owned(), 5)
    );
}

#[test]
fn the_slowest_input_decides() {
    let text = "input ~x: f64 point input ~y: f64 until_next ~s[t at ~x] = ~x[t] + ~y[t] output ~s";
    let mut run = live(text);
    let prices = |stamps: &[i64]| until_next(&points(stamps));
    run.push("x", &points(&[4, 5, 6])).expect("in order");
    assert_eq!(taken(&mut run), "");
    run.push("y", &prices(&[3])).expect("in order");
    assert_eq!(taken(&mut run), "");
    run.push("y", &prices(&[5])).expect("in order");
    assert_eq!(taken(&mut run), "(3,4]=7.0");
    run.advance("y", 20).expect("an input");
    // The run may end at 6, and so may the price.
    assert_eq!(taken(&mut run), "(4,5]=10.0");
    run.lasts(7);
    assert_eq!(taken(&mut run), "(5,6]=11.0");
    assert_eq!(run.watermark("y").expect("an input"), Some(20));
    run.close("y").expect("an input");
    assert_eq!(run.watermark("y").expect("an input"), None);
}

#[test]
fn events_may_end_later_than_they_are_told() {
    let text = "input ~x: f64 interval overlap bag input ~y: f64 point ~s[t at ~y] = reduce sum ~x[t-1:t] map (cast(~x[t], i64)) output ~s";
    let mut run = live(text);
    let y = |run: &mut Live, t: i64| {
        run.push("y", &points(&[t])).expect("in order");
        run.advance("x", t).expect("an input");
        taken(run)
    };
    run.begun("x", &intervals(&[(2, OPEN)])).expect("begun");
    assert_eq!(y(&mut run, 4), "");
    run.begun("x", &intervals(&[(2, OPEN), (4, OPEN)]))
        .expect("begun");
    assert_eq!(y(&mut run, 5), "(3,4]=2");
    assert_eq!(y(&mut run, 8), "(4,5]=6");
    // The end of the first.
    let error = run.push("x", &intervals(&[(2, 7)])).expect_err("too late");
    assert!(
        matches!(error, Error::Live(LiveError::Late { watermark: 8, .. })),
        "{error}"
    );
    run.push("x", &intervals(&[(2, 9)])).expect("in order");
    run.begun("x", &intervals(&[(4, OPEN)])).expect("begun");
    assert_eq!(y(&mut run, 10), "(7,8]=6");
    let rest = run.finish(None).expect("runs");
    assert_eq!(
        format_events(&events_of(&rest).expect("events")),
        "(9,10]=4"
    );
}

/// Events come in order of their ends, so of two that have begun nobody knows the order before one of them has ended.
#[test]
fn the_order_of_events_is_known_when_they_end() {
    let reads = [
        ("last", "~x[t]", "(3,4]=2.0 (4,5]=2.0"),
        ("bag", "reduce last ~x[t-1:t]", "(3,4]=2.0 (4,5]=2.0"),
        ("bag", "reduce sum ~x[t-1:t]", "(3,4]=5.0 (4,5]=5.0"),
    ];
    for (overlap, read, expected) in reads {
        let text = format!(
            "input ~x: f64 interval overlap {overlap} input ~y: f64 point ~s[t at ~y] = {read} output ~s"
        );
        let mut run = live(&text);
        run.push("y", &points(&[4, 5])).expect("in order");
        run.begun("x", &intervals(&[(2, OPEN), (3, OPEN)]))
            .expect("begun");
        run.advance("x", 6).expect("an input");
        assert_eq!(taken(&mut run), "", "{read}");
        // The second ends first.
        run.push("x", &intervals(&[(3, 7)])).expect("in order");
        run.begun("x", &intervals(&[(2, OPEN)])).expect("begun");
        run.advance("x", 8).expect("an input");
        run.push("y", &points(&[8])).expect("in order");
        assert_eq!(taken(&mut run), expected, "{read}");
    }
}

#[test]
fn programs_without_a_bounded_past_carry_it_or_hold_all_input_and_say_why() {
    let mut run = live("input ~x: f64 point ~s[t] = reduce sum ~x[-inf:t] output ~s");
    assert_eq!((run.holds_all(), run.waits()), (None, None));
    run.push("x", &points(&[1, 2])).expect("in order");
    assert_eq!(taken(&mut run), "(0,1]=1.0 (1,2]=3.0");
    run.push("x", &points(&[9])).expect("in order");
    assert_eq!(taken(&mut run), "(8,9]=12.0");

    // The median of everything is told by nothing less than everything.
    let mut run = live("input ~x: f64 point ~s[t] = reduce median ~x[-inf:t] output ~s");
    assert_eq!(
        run.holds_all(),
        Some("a result may depend on the whole past of ~x")
    );
    run.push("x", &points(&[1, 2])).expect("in order");
    assert_eq!(taken(&mut run), "(0,1]=1.0 (1,2]=1.5");
    run.push("x", &points(&[9])).expect("in order");
    assert_eq!(taken(&mut run), "(8,9]=2.0");
    assert_eq!(run.held()[0].rows, 3);

    let text = "input ~x: {a: f64, b: i64} point key b ~s[t every 4] = coalesce(reduce sum ~x[t-4:t] map (~x[t].a), 0.0) output ~s";
    let run = live(text);
    assert!(
        run.waits()
            .is_some_and(|why| why.contains("keys without rows nearby"))
    );
    assert_eq!(run.holds_all(), run.waits());
}

#[test]
fn no_more_is_held_than_the_query_looks_back() {
    let mut run = live("input ~x: f64 point ~s[t] = reduce sum ~x[t-10:t] output ~s");
    for t in 1..1000 {
        run.push("x", &points(&[t])).expect("in order");
        run.take().expect("runs");
        assert!(run.held()[0].rows <= 10, "{:?}", run.held());
    }
    assert_eq!(run.holds_all(), None);
    assert_eq!(run.save().expect("rows").inputs["x"].rows.len(), 10);
}

#[test]
fn promises_that_are_broken_are_errors() {
    let text = "input ~x: f64 point ~s[t every 5] = coalesce(reduce sum ~x[t-5:t], 0.0) output ~s";
    let mut run = live(text);
    let message = |result: Result<(), Error>| result.expect_err("an error").to_string();
    assert_eq!(
        message(run.push("z", &points(&[1]))),
        "the query has no input ~z; its inputs are ~x"
    );
    run.advance("x", 7).expect("an input");
    assert_eq!(
        message(run.push("x", &points(&[7]))),
        "input ~x, row 0: the event (6, 7] comes too late, because no change before 7 was to come; advance the input less far"
    );
    run.push("x", &points(&[8, 9])).expect("in order");
    assert_eq!(
        message(run.push("x", &points(&[8]))),
        "input ~x, row 2: the event ends at 8, before the previous one at 9; sort the rows by end"
    );
    assert_eq!(
        message(run.start_at(8)),
        "the run cannot start at 8, because it was known to start at 7; say where it starts before pushing rows"
    );
    run.start_at(1).expect("nothing was told");
    run.lasts(30);
    assert_eq!(
        message(run.finish(Some(20)).map(|_| ())),
        "the run cannot end at 20, because it is known to go on to 30; end it there or later"
    );
    let rest = run.finish(Some(31)).expect("runs");
    let rest = format_events(&events_of(&rest).expect("events"));
    assert_eq!(
        rest,
        "(0,5]=0.0 (5,10]=17.0 (10,15]=0.0 (15,20]=0.0 (20,25]=0.0 (25,30]=0.0 (30,35]=0.0"
    );
    assert_eq!(
        message(run.push("x", &points(&[40]))),
        "input ~x was closed, and takes no more rows"
    );
    assert!(run.finish(None).expect("runs").is_empty());
}

#[test]
fn a_few_rows_are_appended_to_those_before() {
    let text = "input ~x: f64 point ~s[t] = reduce sum ~x[t-3:t] output ~s";
    let (mut run, mut other) = (live(text), live(text));
    let append = |run: &mut Live, rows: &SnapshotBuffer| {
        let values = rows.columns().iter().map(Column::array);
        let ends = EndsOf::of(rows.timeline());
        ends.is_some_and(|(ends, length)| run.append(0, ends, length, values))
    };
    // Nothing is known yet of what rows are like.
    assert!(!append(&mut run, &points(&[1, 2])));
    for stamps in [&[1, 2][..], &[3], &[6, 7, 9], &[10]] {
        if !append(&mut run, &points(stamps)) {
            run.push("x", &points(stamps)).expect("in order");
        }
        other.push("x", &points(stamps)).expect("in order");
        assert_eq!(taken(&mut run), taken(&mut other));
    }
    // There is more to tell of rows that do not follow, and of others than before.
    let pushed = points(&[11, 12]);
    run.push("x", &pushed).expect("in order");
    assert!(!append(&mut run, &points(&[5])));
    assert!(!append(&mut run, &points(&[14, 14])));
    assert!(!append(&mut run, &points(&[])));
    assert!(!append(&mut run, &intervals(&[(13, 15)])));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let next = points(&[13]);
    let append_all = |run: &mut Live, values: &[ArrayRef]| {
        run.append(0, EndsOf::Explicit(&[13]), 1, values.iter())
    };
    assert!(!append_all(&mut run, std::slice::from_ref(&numbers)));
    assert!(!append_all(&mut run, &[]));
    let null: ArrayRef = Arc::new(Float64Array::from(vec![None]));
    assert!(!append_all(&mut run, &[null]));
    run.advance("x", 13).expect("an input");
    assert!(!append(&mut run, &next));
    assert!(append(&mut run, &points(&[14, 15])));
    let values = next.columns().iter().map(Column::array);
    assert!(!run.append(1, EndsOf::Explicit(&[16]), 1, values.clone()));
    assert!(!run.append(0, EndsOf::Explicit(&[]), 1, values.clone()));
    assert!(append(&mut run, &points(&[16])));
    run.close("x").expect("an input");
    assert!(!run.append(0, EndsOf::Explicit(&[17]), 1, values));
}

#[test]
fn a_state_of_another_query_is_refused() {
    let mut run = live("input ~x: f64 point ~s[t] = reduce sum ~x[t-10:t] output ~s");
    run.push("x", &points(&[1, 2])).expect("in order");
    let other = "query q unit tick { input ~z: f64 point ~s[t] = ~z[t] output ~s }";
    let other = Query::parse(other)
        .expect("a query")
        .compile()
        .expect("compiles");
    let error = other.resume(run.save().expect("rows"), &RunOptions::default());
    let error = error.expect_err("another query").to_string();
    assert_eq!(
        error,
        "the state has the inputs ~x, but the query has ~z; resume the query that was saved"
    );
}

/// Keyed rows, the keys as numbers or as texts, at increasing times.
fn keyed_rows(rows: usize, as_text: bool) -> SnapshotBuffer {
    let mut noise = 12345u64;
    let mut next = |below: u64| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (noise >> 33) % below
    };
    let (mut stamps, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut t = 0;
    for _ in 0..rows {
        t += 1 + next(3) as i64;
        stamps.push(t);
        keys.push(next(9) as i64);
        values.push(next(1000) as f64 / 7.0);
    }
    let keys: ArrayRef = if as_text {
        Arc::new(StringArray::from_iter_values(
            keys.iter().map(|key| format!("key {key}")),
        ))
    } else {
        Arc::new(Int64Array::from(keys))
    };
    let columns = vec![
        Column::new("k", keys),
        Column::new("v", Arc::new(Float64Array::from(values))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

/// The rows of a buffer as texts.
fn listed(buffer: &SnapshotBuffer) -> Vec<String> {
    let batch = buffer.to_record_batch(Layout::Interval).expect("rows");
    let row = |i: usize| format!("{:?}", batch.slice(i, 1).columns());
    (0..batch.num_rows()).map(row).collect()
}

/// Numbers below others that look random.
fn noise(seed: u64) -> impl FnMut(i64) -> i64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as i64 % below
    }
}

#[test]
fn each_key_goes_on_where_it_stopped() {
    let mut next = noise(7);
    // Keys come and go, several have rows at an instant, the first has none in the beginning, and late ones have values without value.
    let (mut stamps, mut keys, mut values, mut t) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for row in 0..6000i64 {
        t += next(2);
        stamps.push(t);
        keys.push((row > 50 && next(40) > 0).then(|| row / 3 + next(20)));
        values.push((row < 3000 || next(9) > 0).then(|| next(1000) as f64 / 7.0));
    }
    let columns = vec![
        Column::new("k", Arc::new(Int64Array::from(keys))),
        Column::new("v", Arc::new(Float64Array::from(values))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    let rows = SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows");
    for body in [
        "~y[t] = reduce sum ~v[t-50 : t]",
        "~m[t] = reduce mean ~v[t-9 : t-1] ~y[t] = if ~v[t] > ~m[t] then {v: ~v[t], m: ~m[t]} else null",
        "~y[t] = reduce max ~v[t-50 : t] + ~v.prev(1)",
    ] {
        let text = format!(
            "query q unit tick {{ input ~x: {{k: i64, v: f64}} point key k overlap bag ~v[t] = ~x[t].v {body} output ~y }}"
        );
        let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let compiled = query.compile().expect("compiles");
        let options = RunOptions::default().threads(1);
        let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
        let expected = listed(&compiled.run(&inputs, &options).expect("runs"));
        for size in [7, 500] {
            let mut live = compiled.live(&options).expect("a live run");
            let (mut found, mut at) = (Vec::new(), 0);
            while at < rows.len() {
                let len = size.min(rows.len() - at);
                live.push("x", &rows.slice(at, len)).expect("in order");
                at += len;
                found.extend(listed(&live.take().expect("runs")));
            }
            found.extend(listed(&live.finish(None).expect("runs")));
            assert_eq!(found, expected, "{size} rows at a time, of {text}");
        }
    }
}

#[test]
fn what_windows_add_up_may_be_known_later_than_their_source() {
    let text = "input ~x: f64 point input ~y: f64 point ~s[t at ~x] = reduce mean ~x[t-20 : t-1] map (~x[t] * ~y[t]) output ~s";
    let stamps: Vec<i64> = (1..=120).collect();
    let rows = points(&stamps);
    let told = |run: &mut Live, ys: usize| {
        let mut found = Vec::new();
        run.push("x", &rows).expect("in order");
        for at in (0..rows.len()).step_by(ys) {
            let len = ys.min(rows.len() - at);
            run.push("y", &rows.slice(at, len)).expect("in order");
            found.push(taken(run));
        }
        found.retain(|part| !part.is_empty());
        found.join(" ")
    };
    let expected = told(&mut live(text), rows.len());
    for ys in [1, 3, 8, 16, 21] {
        assert_eq!(told(&mut live(text), ys), expected, "{ys} at a time");
    }
}

#[test]
fn pushes_of_a_few_keys_give_what_a_run_in_one_go_gives() {
    let bodies = [
        "~m[t] = reduce mean ~v[t-90 : t-1] ~y[t] = if ~v[t] > ~m[t] then {v: ~v[t], m: ~m[t]} else null",
        "~y[t] = ~v[t] - ~v.prev(2)",
        "~w[t every 20] = reduce sum ~v[t-60 : t] ~y[t] = ~w[t] * 2.0",
        "~y[t every 7] = ~v[t-3]",
    ];
    for (body, key) in bodies
        .into_iter()
        .flat_map(|body| [(body, "i64"), (body, "utf8")])
    {
        let text = format!(
            "query q unit tick {{ input ~x: {{k: {key}, v: f64}} point key k ~v[t] = ~x[t].v {body} output ~y }}"
        );
        let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let compiled = query.compile().expect("compiles");
        let rows = keyed_rows(600, key == "utf8");
        let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
        let options = RunOptions::default().threads(1);
        let expected = compiled.run(&inputs, &options).expect("runs");
        for size in [1, 2, 7, 100] {
            let mut live = compiled.live(&options).expect("a live run");
            let mut found = Vec::new();
            let mut at = 0;
            while at < rows.len() {
                let len = size.min(rows.len() - at);
                live.push("x", &rows.slice(at, len)).expect("in order");
                at += len;
                found.extend(listed(&live.take().expect("runs")));
                if at % 150 < size {
                    let state = live.save().expect("a state");
                    live = compiled.resume(state, &options).expect("goes on");
                }
            }
            found.extend(listed(&live.finish(None).expect("runs")));
            assert_eq!(found, listed(&expected), "{size} rows at a time, of {text}");
        }
    }
}

/// Rows of keys that come and go, several at an instant: as numbers or as texts, from some row on some of them null, or with values that are.
fn rows_of_many_keys(key: &str, nulls: [usize; 2]) -> SnapshotBuffer {
    let mut next = noise(99);
    let (mut stamps, mut keys, mut values, mut t) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for row in 0..4000 {
        t += next(2);
        stamps.push(t);
        // The words of later keys come before and between those of others.
        let number = (row as i64 / 700 * 13 + next(30)) * 977 % 64;
        keys.push((row < nulls[0] || next(9) > 0).then_some(number - 20));
        values.push((row < nulls[1] || next(9) > 0).then(|| next(1000) as f64 / 7.0));
    }
    let texts = keys.iter().map(|key| key.map(|key| format!("key {key}")));
    let small: Vec<i32> = (0..4000).map(|row| row * 31 % 17).collect();
    let keys: ArrayRef = match key {
        "utf8" => Arc::new(texts.collect::<StringArray>()),
        _ => Arc::new(Int64Array::from(keys)),
    };
    let columns = vec![
        Column::new("k", keys),
        Column::new("v", Arc::new(Float64Array::from(values))),
        Column::new("n", Arc::new(Int32Array::from(small))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

#[test]
fn rows_that_stay_grouped_give_what_a_run_in_one_go_gives() {
    let bodies = [
        "~m[t] = reduce mean ~v[t-90 : t-1] ~y[t] = if ~v[t] > ~m[t] then {v: ~v[t], m: ~m[t]} else null",
        "~y[t at ~x] = {s: reduce sum ~n[t-40 : t], m: reduce max ~v[t-40 : t], c: reduce len ~v[t-200 : t-5]}",
        "~y[t] = ~v[t] - (reduce mean ~v[t-60 : t])",
    ];
    let kinds = [("i64", [4000, 4000]), ("utf8", [4000, 4000])];
    let nulls = [("i64", [2500, 4000]), ("utf8", [4000, 2500])];
    for body in bodies {
        for (key, nulls) in kinds.into_iter().chain(nulls) {
            let text = format!(
                "query q unit tick {{ input ~x: {{k: {key}, v: f64, n: i32}} point key k overlap bag \
                 ~v[t] = ~x[t].v ~n[t] = ~x[t].n {body} output ~y }}"
            );
            let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let compiled = query.compile().expect("compiles");
            let rows = rows_of_many_keys(key, nulls);
            let inputs = BTreeMap::from([("x".to_owned(), rows.clone())]);
            let options = RunOptions::default().threads(1);
            let expected = listed(&compiled.run(&inputs, &options).expect("runs"));
            for size in [70, 150, 400] {
                let mut live = compiled.live(&options).expect("a live run");
                let (mut found, mut at) = (Vec::new(), 0);
                while at < rows.len() {
                    // A few rows now and then, which a part of the keys is computed for.
                    let size = if at / 97 % 8 == 0 { 5 } else { size };
                    let len = size.min(rows.len() - at);
                    live.push("x", &rows.slice(at, len)).expect("in order");
                    at += len;
                    found.extend(listed(&live.take().expect("runs")));
                    if at / 150 % 11 == 10 {
                        let state = live.save().expect("a state");
                        live = compiled.resume(state, &options).expect("goes on");
                    }
                }
                found.extend(listed(&live.finish(None).expect("runs")));
                assert_eq!(found, expected, "{size} rows at a time, of {text}");
            }
        }
    }
}

/// Rows of keys some of which come often and others seldom, a few of them without a value.
fn uneven_rows(seed: u64, key: &str) -> SnapshotBuffer {
    let mut next = noise(seed);
    let (mut stamps, mut keys, mut values, mut t) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for row in 0..3000 {
        t += next(4);
        stamps.push(t);
        keys.push(if row % 50 == 0 { next(40) } else { next(5) });
        values.push((next(12) > 0).then(|| next(1000) as f64 / 7.0));
    }
    let texts = keys.iter().map(|key| format!("key {key}"));
    let keys: ArrayRef = match key {
        "utf8" => Arc::new(StringArray::from_iter_values(texts)),
        _ => Arc::new(Int64Array::from(keys)),
    };
    let columns = vec![
        Column::new("k", keys),
        Column::new("v", Arc::new(Float64Array::from(values))),
    ];
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("as many rows")
}

#[test]
fn of_each_key_no_more_is_held_than_it_counts() {
    let bodies = [
        // (the rows of a key that are needed at most, of each input; the query)
        (3, "~y[t] = {v: ~x[t].v, p: ~x.prev(2).v}"),
        (
            2,
            "~h[t] = hold(~q[t]) ~y[t at ~x] = {v: ~x[t].v, q: ~h[t].v}",
        ),
        (4, "~y[t] = {v: ~x[t].v, s: reduce len ~q[#-3 : #]}"),
        (
            40,
            "~y[t] = {v: ~x[t].v, p: ~x.prev(1).v, m: reduce len ~x[t-20 : t]}",
        ),
    ];
    for key in ["i64", "utf8"] {
        for (most, body) in bodies {
            let text = format!(
                "query q unit tick {{ input ~x: {{k: {key}, v: f64}} point key k overlap bag \
                 input ~q: {{k: {key}, v: f64}} point key k overlap bag {body} output ~y }}"
            );
            let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let compiled = query.compile().expect("compiles");
            let (x, q) = (uneven_rows(5, key), uneven_rows(6, key));
            let inputs = [("x".to_owned(), x.clone()), ("q".to_owned(), q.clone())];
            let options = RunOptions::default().threads(1);
            let expected = compiled.run(&BTreeMap::from(inputs), &options);
            let expected = listed(&expected.expect("runs"));
            for size in [1, 17, 400] {
                let mut live = compiled.live(&options).expect("a live run");
                assert_eq!(live.holds_all(), None, "{text}");
                let mut found = Vec::new();
                for at in (0..x.len()).step_by(size) {
                    let len = size.min(x.len() - at);
                    live.push("q", &q.slice(at, len)).expect("in order");
                    live.push("x", &x.slice(at, len)).expect("in order");
                    found.extend(listed(&live.take().expect("runs")));
                    let held = live.held();
                    let most = 2 * 45 * most + 3 * size + 300;
                    assert!(
                        held.iter().all(|input| input.rows <= most),
                        "{held:?} of {text}"
                    );
                    if at % 7 == 3 {
                        let state = live.save().expect("a state");
                        live = compiled.resume(state, &options).expect("goes on");
                    }
                }
                found.extend(listed(&live.finish(None).expect("runs")));
                assert_eq!(found, expected, "{size} rows at a time, of {text}");
            }
        }
    }
}
