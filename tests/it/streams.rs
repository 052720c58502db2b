//! Runs over chunks against the oracle: random programs, each input in random chunks of its own.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use proptest::{prelude::*, test_runner::TestCaseError};
use tilt::{
    Backend, Compiled, Error, LiveError, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array},
    data::{Column, DataError, Shape, SnapshotBuffer, Spans, Timeline},
    interp::{self, Event, Options, RunError, Value, events_of, run_buffers},
    ir::{OPEN, Program, Span, SpanRule, Unit, parse},
};

use crate::{
    generate::{self, Choices, buffers},
    properties::{BASES, choices, config, maybe_keyed},
    text::{format_events, format_inputs},
};

type Buffers = BTreeMap<String, SnapshotBuffer>;
type Chunks = std::vec::IntoIter<Result<SnapshotBuffer, Infallible>>;

/// A buffer of an `until_next` input as ingress makes it: stamps, and the last event open.
pub(crate) fn until_next(buffer: &SnapshotBuffer) -> SnapshotBuffer {
    let timeline = buffer.timeline();
    let stamps: Vec<i64> = (0..buffer.len()).map(|i| timeline.start(i) + 1).collect();
    let timeline = Timeline::explicit(stamps.into(), Spans::UntilNext { next: OPEN });
    let (columns, unit) = (buffer.columns().to_vec(), buffer.unit());
    let made = match buffer.shape() {
        Shape::Scalar => SnapshotBuffer::scalar(timeline, columns[0].clone(), unit),
        Shape::Record => {
            let rows = buffer.validity().cloned();
            SnapshotBuffer::record(timeline, columns, rows, unit)
        }
    };
    made.expect("as many rows")
}

/// A buffer in chunks of random lengths, from nothing to everything.
fn in_chunks(buffer: &SnapshotBuffer, open: bool, roll: &mut dyn FnMut(usize) -> usize) -> Chunks {
    let mut chunks = Vec::new();
    let mut at = 0;
    let most = [1, 2, 5, buffer.len()][roll(4)];
    while at < buffer.len() {
        let len = roll(most + 1).min(buffer.len() - at);
        let chunk = buffer.slice(at, len);
        chunks.push(Ok(if open { until_next(&chunk) } else { chunk }));
        at += len;
    }
    chunks.into_iter()
}

/// Runs a program on chunks in several ways; the first result that is not `expected`. How many parts there were.
fn difference(
    program: &Program,
    inputs: &Buffers,
    options: &Options,
    expected: &[Event],
    roll: &mut dyn FnMut(usize) -> usize,
) -> Result<usize, String> {
    let query = Query::new(program.clone()).expect("verified");
    let compiled = query.compile().expect("compiles");
    let mut parts = 0;
    for (backend, rows) in [
        (Backend::Loops, 1),
        (Backend::Loops, 4),
        (Backend::Interpreter, 2),
        (Backend::Native, 16),
    ] {
        let mut asked = RunOptions::default()
            .backend(backend)
            .threads(1)
            .piece_rows(rows)
            .functions(options.functions.clone());
        asked = options.span.into_iter().fold(asked, RunOptions::span);
        asked = options.part.into_iter().fold(asked, RunOptions::part);
        let mut cut = Vec::new();
        let mut chunked = |(name, buffer): (&String, &SnapshotBuffer)| {
            let (_, input) = program
                .inputs()
                .find(|(_, i)| i.name == *name)
                .expect("one");
            let stamped = input.span == SpanRule::UntilNext && roll(2) == 0;
            let chunks = in_chunks(buffer, stamped, roll);
            cut.push((
                name.clone(),
                chunks
                    .as_slice()
                    .iter()
                    .map(|c| c.as_ref().map_or(0, SnapshotBuffer::len))
                    .collect::<Vec<_>>(),
            ));
            (name.clone(), chunks)
        };
        let chunks: BTreeMap<String, Chunks> = inputs.iter().map(&mut chunked).collect();
        let stream = match compiled.stream(chunks, &asked) {
            Ok(stream) => stream,
            // The interpreter carries nothing.
            Err(Error::Whole { .. }) => continue,
            Err(error) => return Err(error.to_string()),
        };
        let mut found = Vec::new();
        let mut ends = Vec::new();
        for part in stream {
            let part = match part {
                Ok(part) => part,
                // Away from its part a run sees too little, and may read several values where a read that is preferred would have one.
                Err(Error::Run(RunError::Query(_))) => return Ok(parts),
                // The rows that would settle a total that may be too large are gone.
                Err(Error::Live(LiveError::Unsettled { .. })) => return Ok(parts),
                Err(error) => {
                    return Err(format!(
                        "{backend:?} parts of {rows} {cut:?} fails: {error}"
                    ));
                }
            };
            found.extend(events_of(&part).expect("a buffer of events"));
            ends.push(found.last().map_or(i64::MIN, |event: &Event| event.end));
            parts += 1;
        }
        let same =
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a.same(b));
        if !same {
            return Err(format!(
                "{backend:?} parts of {rows}, to {ends:?}, of {cut:?} {:?}\n// gives     {}\n// but here  {}\n",
                options.span,
                format_events(expected),
                format_events(&found),
            ));
        }
    }
    Ok(parts)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn chunks_give_what_a_run_in_one_go_gives(choices in choices()) {
        let (program, inputs, mut roll) = maybe_keyed(&choices);
        let hull = interp::hull(&inputs);
        let (span, part) = match (roll(4), hull) {
            (0, Some(hull)) => (Some(Span::new(hull.start - 3, hull.end + 5)), None),
            (1, Some(hull)) => (None, Some(Span::new(hull.start + 4, hull.start + 20))),
            _ => (None, None),
        };
        let options = Options { span, part, functions: generate::functions() };
        let arrays = buffers(&program, &inputs);
        let Ok(expected) = run_buffers(&program, &arrays, &options) else { return Ok(()) };
        let expected = events_of(&expected).expect("a buffer of events");
        if let Err(difference) = difference(&program, &arrays, &options, &expected, &mut roll) {
            return Err(TestCaseError::fail(format!("{}{program}\n{difference}", format_inputs(&inputs))));
        }
    }
}

/// Programs that must run on chunks, in more than one part.
#[test]
fn common_queries_run_on_chunks() {
    let point = "input ~x: f64 point overlap bag";
    let price = "input ~x: f64 until_next";
    let two = "input ~x: f64 interval  input ~y: f64 fixed 4";
    let keyed = "input ~x: {a: f64, b: i64} point key b overlap bag";
    let programs = [
        (point, "~z[t] = reduce mean ~x[t-7:t] output ~z"),
        (point, "~z[t every 5] = reduce max ~x[t-10:t] output ~z"),
        (
            point,
            "~z[t every 5] = coalesce(reduce sum ~x[t-5:t], 0.0) output ~z",
        ),
        (point, "~z[t] = hold(~x[t], 30) output ~z"),
        (
            point,
            "~m[t every 4] = reduce mean ~x[t-8:t] ~z[t] = reduce last ~x[t-1:t] - hold(~m[t], 20) output ~z",
        ),
        (price, "~z[t every 3] = ~x[t] output ~z"),
        (price, "~z[t] = ~x[t] * 2.0 output ~z"),
        (price, "~z[t every 4] = reduce twa ~x[t-12:t] output ~z"),
        (two, "~z[t] = ~x[t] + ~y[t] output ~z"),
        (
            two,
            "~z[t] = ~x[t] - coalesce(hold(~y[t-2], 9), 1.0) output ~z",
        ),
        (two, "~z[t] = ~y.prev(1) + ~y[t] output ~z"),
        (two, "~z[t] = reduce sum ~y[#-3:#] output ~z"),
        (two, "~z[t every 6] = ~y[t+9] output ~z"),
        (
            keyed,
            "~z[t] = reduce sum ~x[t-9:t] map (~x[t].a) output ~z",
        ),
        (
            keyed,
            "~z[t every 5] = reduce sum ~x[t-10:t] map (~x[t].b) output ~z",
        ),
    ];
    let mut state = 5u64;
    let mut roll = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for (inputs, text) in programs {
        let program = parse(&format!("query q unit tick {{ {inputs} {text} }}")).expect("a query");
        let mut parts = 0;
        for round in 0..40 {
            // The choice of the number of events comes first.
            let mut choices: Vec<u16> = (0..300).map(|_| roll(1 << 16) as u16).collect();
            choices[0] = 12;
            let base = BASES[round % BASES.len()];
            let inputs = generate::inputs(&mut Choices::new(&choices), &program, base);
            let options = Options {
                functions: generate::functions(),
                ..Options::default()
            };
            let arrays = buffers(&program, &inputs);
            let Ok(expected) = run_buffers(&program, &arrays, &options) else {
                continue;
            };
            let expected = events_of(&expected).expect("a buffer of events");
            parts += difference(&program, &arrays, &options, &expected, &mut roll)
                .unwrap_or_else(|d| panic!("{}{program}\n{d}", format_inputs(&inputs)));
        }
        // Four runs a round.
        assert!(parts > 2 * 4 * 40, "{parts} parts of\n{program}");
    }
}

fn compiled(text: &str) -> Compiled {
    let query = Query::parse(&format!("query q unit tick {{ {text} }}")).expect("a query");
    query.compile().expect("compiles")
}

fn whole(text: &str) -> String {
    let none = |name: &str| (name.to_owned(), Vec::new().into_iter() as Chunks);
    let inputs = BTreeMap::from([none("x"), none("y")]);
    match compiled(text).stream(inputs, &RunOptions::default()) {
        Err(error @ Error::Whole { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn queries_that_need_all_input_say_which_and_why() {
    assert_eq!(
        whole("input ~x: f64 point ~s[t] = reduce median ~x[-inf:t] output ~s"),
        "~x cannot be computed from chunks, because a result may depend on the whole past of ~x; run the query on all input at once"
    );
    assert_eq!(
        whole("input ~x: f64 interval overlap bag ~s[t every 4] = reduce sum ~x[t-4:t] output ~s"),
        "~x cannot be computed from chunks, because its events are ordered by end and may overlap, so one that is still to come may have started at any time; \
         run the query on all input at once"
    );
    assert_eq!(
        whole("input ~x: {a: f64, b: i64} until_next key b ~s[t] = ~x.prev(1).a output ~s"),
        "~x cannot be computed from chunks, because the query counts events of each key of ~x, which may be any time apart; run the query on all input at once"
    );
    assert_eq!(
        whole(
            "input ~x: {a: f64, b: i64} point key b ~s[t every 4] = coalesce(reduce sum ~x[t-4:t] map (~x[t].a), 0.0) output ~s"
        ),
        "~s cannot be computed from chunks, because it may have events for keys without rows nearby, and the keys are known when all rows have come; \
         run the query on all input at once"
    );
}

#[test]
fn a_total_that_overflows_beside_a_part_does_not_fail_it() {
    let compiled = compiled("input ~x: i64 point ~s[t every 4] = reduce sum ~x[t-4:t] output ~s");
    // Cells of four rows have a total, but not their halves.
    let values = [i64::MAX, i64::MAX, -i64::MAX, -i64::MAX];
    for rows in [1, 2, 3, 5] {
        let chunk = |first: i64| -> Result<SnapshotBuffer, DataError> {
            let stamps = first + 1..=(first + rows).min(40);
            let column = stamps.clone().map(|t| values[(t as usize - 1) % 4]);
            let column = Column::new("x", Arc::new(column.collect::<Int64Array>()));
            let timeline = Timeline::explicit(stamps.collect::<Vec<_>>().into(), Spans::Fixed(1));
            SnapshotBuffer::scalar(timeline, column, Unit::Tick)
        };
        let chunks = (0..40).step_by(rows as usize).map(chunk);
        let inputs = BTreeMap::from([("x".to_owned(), chunks)]);
        let options = RunOptions::default().piece_rows(2);
        let stream = compiled
            .stream(inputs, &options)
            .expect("can run on chunks");
        let found: Vec<Event> = stream
            .flat_map(|part| events_of(&part.expect("no total overflows")).expect("events"))
            .collect();
        let expected: Vec<Event> = (0..10).map(|k| Event::new(4 * k, 4 * k + 4, 0)).collect();
        assert_eq!(format_events(&found), format_events(&expected));
    }
}

/// Samples a tick each, a chunk at a time.
fn samples(chunks: i64, rows: i64) -> impl Iterator<Item = Result<SnapshotBuffer, DataError>> {
    (0..chunks).map(move |chunk| {
        let timeline = Timeline::regular(1 + chunk * rows, 1, rows as usize, Spans::Fixed(1));
        let values = (0..rows).map(|i| ((chunk * rows + i) * 7919 % 1009) as f64);
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
        SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick)
    })
}

#[test]
fn what_does_not_fit_into_the_budget_is_an_error() {
    let compiled = compiled("input ~x: f64 point ~s[t] = reduce sum ~x[t-100000:t] output ~s");
    let inputs = BTreeMap::from([("x".to_owned(), samples(100, 2_000))]);
    let options = RunOptions::default().memory(1 << 20);
    let mut stream = compiled
        .stream(inputs, &options)
        .expect("can run on chunks");
    let error = stream.find_map(Result::err).expect("too much is held");
    let text = error.to_string();
    assert!(
        text.contains("of input, most of them of ~x, have to be held for a lookback of 100000"),
        "{text}"
    );
    assert!(
        text.contains("a run that may use 1048576 bytes holds at most half of them"),
        "{text}"
    );
}

#[test]
fn errors_of_a_source_and_of_its_rows_name_the_input() {
    let compiled = compiled("input ~x: f64 point ~y[t] = ~x[t] output ~y");
    let first_error = |chunks: Vec<Result<SnapshotBuffer, String>>| {
        let inputs = BTreeMap::from([("x".to_owned(), chunks.into_iter())]);
        let stream = compiled.stream(inputs, &RunOptions::default());
        let mut stream = stream.expect("can run on chunks");
        let error = stream.find_map(Result::err).expect("an error");
        assert!(stream.next().is_none());
        error.to_string()
    };
    let chunk = |stamps: Vec<i64>| {
        let values = Int64Array::from(stamps.clone());
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(
            values.values().iter().map(|v| *v as f64),
        ));
        let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
        SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick)
            .map_err(|e| e.to_string())
    };
    assert_eq!(
        first_error(vec![chunk(vec![1, 2]), Err("the line is dead".to_owned())]),
        "input ~x: the line is dead"
    );
    assert_eq!(
        first_error(vec![chunk(vec![1, 5]), chunk(vec![4])]),
        "input ~x, row 2: the event ends at 4, before the previous one at 5; sort the rows by end"
    );
    assert_eq!(
        first_error(vec![chunk(vec![1, 5]), chunk(vec![]), chunk(vec![5])]),
        "input ~x, row 2: the event (4, 5] overlaps the previous one (4, 5]; repair the rows, or declare `overlap bag`, `first` or `last`"
    );
}

#[test]
fn a_run_over_chunks_reports_and_can_be_cancelled() {
    let compiled = compiled("input ~x: f64 point ~s[t] = reduce sum ~x[t-10:t] output ~s");
    let cancel = tilt::Cancel::new();
    let reports: Arc<std::sync::Mutex<Vec<tilt::Progress>>> = Arc::default();
    let options = {
        let reports = Arc::clone(&reports);
        RunOptions::default()
            .piece_rows(1_000)
            .span(Span::new(0, 20_000))
            .cancel(cancel.clone())
            .progress(move |p| reports.lock().expect("no panic").push(p))
    };
    let inputs = BTreeMap::from([("x".to_owned(), samples(20, 1_000))]);
    let mut stream = compiled
        .stream(inputs, &options)
        .expect("can run on chunks");
    for _ in 0..10 {
        stream.next().expect("a part").expect("runs");
    }
    cancel.cancel();
    let error = stream.next().expect("an error").expect_err("cancelled");
    assert!(
        matches!(error, Error::Cancelled { done } if done > 0.3 && done < 0.7),
        "{error}"
    );
    assert!(stream.next().is_none());
    let reports = reports.lock().expect("no panic");
    assert!(
        reports
            .windows(2)
            .all(|w| w[0].done <= w[1].done && w[0].rows <= w[1].rows),
        "{reports:?}"
    );
    assert_eq!(reports[0], tilt::Progress { done: 0.0, rows: 0 });
    assert!(
        reports.iter().all(|p| p.done < 0.7 && p.rows <= 10_000),
        "{reports:?}"
    );
}

/// The most memory that the process has had, in bytes.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// `cargo test -p tilt --test it larger_than_memory -- --ignored --nocapture`, alone: other tests use memory too.
#[test]
#[ignore = "200 million rows, and nothing else may run in the process"]
fn input_larger_than_memory_is_run_in_the_budget() {
    let compiled = compiled(
        "input ~x: f64 point ~s[t] = reduce sum ~x[t-1000:t] / 1000.0 - reduce max ~x[t-50:t] output ~s",
    );
    let before = peak_memory().expect("a Linux machine");
    let budget = 256 << 20;
    let begun = std::time::Instant::now();
    let inputs = BTreeMap::from([("x".to_owned(), samples(200, 1_000_000))]);
    let options = RunOptions::default().memory(budget);
    let stream = compiled
        .stream(inputs, &options)
        .expect("can run on chunks");
    let mut rows = 0;
    for part in stream {
        rows += part.expect("runs").len();
    }
    let grown = peak_memory().expect("a Linux machine") - before;
    println!(
        "{rows} rows, 3.2 GB in and out, {:?}, {} MiB more memory",
        begun.elapsed(),
        grown >> 20
    );
    assert_eq!(rows, 200_000_000);
    assert!(grown < budget, "{grown} bytes");
}

#[test]
fn parts_leave_as_soon_as_they_can_be_told() {
    let compiled = compiled("input ~x: f64 point ~s[t] = reduce sum ~x[t-3:t] output ~s");
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = {
        let asked = Arc::clone(&asked);
        samples(10, 100).inspect(move |_| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
    };
    let inputs = BTreeMap::from([("x".to_owned(), counted)]);
    let options = RunOptions::default().piece_rows(100);
    let mut stream = compiled
        .stream(inputs, &options)
        .expect("can run on chunks");
    let first = stream.next().expect("a part").expect("runs");
    let events = events_of(&first).expect("events");
    assert_eq!(events.last().map(|e| e.end), Some(100));
    assert!(matches!(events[0].value, Value::Float(_)));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
}
