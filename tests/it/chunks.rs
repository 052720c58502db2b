//! Data of more rows than chunks, pieces and caches hold, against the oracle, bit for bit.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::{Options, events_of, run_buffers},
    ir::{Reach, Span, Unit},
};

use crate::{
    engine::{Random, asked},
    generate::{self, Choices, Scope, buffers, key_the_records},
    keyed::is_same,
    properties::BASES,
};

/// Random programs on inputs of a few chunks: windows, merges and cursors go on where the chunk before has stopped. `TILT_LONG_PROGRAMS` asks for more.
#[test]
fn random_programs_agree_with_the_oracle_across_chunks() {
    let (mut compared, programs) = (0, asked("TILT_LONG_PROGRAMS", 24));
    for number in 0..programs {
        let mut random = Random::new(asked("TILT_SEED", 1), number);
        let choices = random.choices(200);
        let mut program = generate::program(&mut Choices::new(&choices), Scope { instants: true });
        if number % 4 == 0 {
            key_the_records(&mut program);
        }
        let compiled = Query::new(program.clone()).expect("verified").compile();
        let compiled = compiled.expect("compiles");
        let choices = random.choices(20);
        let mut choices = Choices::new(&choices);
        let base = BASES[choices.below(BASES.len())];
        let rows = 2049 + choices.below(3000);
        let inputs = generate::long_inputs(&mut choices, &program, base, rows);
        let arrays = buffers(&program, &inputs);
        let options = Options {
            functions: generate::functions(),
            ..Options::default()
        };
        let Ok(expected) = run_buffers(&program, &arrays, &options) else {
            continue;
        };
        let right = events_of(&expected).expect("a buffer of events");
        let ways = [
            (Backend::Native, 1, None),
            (Backend::Native, 2, Some(3000)),
            (Backend::Loops, 1, None),
        ];
        for (backend, threads, rows) in ways {
            let mut asked = RunOptions::default()
                .backend(backend)
                .threads(threads)
                .functions(generate::functions());
            asked = rows.into_iter().fold(asked, RunOptions::piece_rows);
            let found = compiled.run(&arrays, &asked);
            let found =
                found.unwrap_or_else(|error| panic!("program {number}: {error}\n{program}"));
            if !is_same(&found, &expected, &right) {
                let found = events_of(&found).expect("a buffer of events");
                let at = found.iter().zip(&right).position(|(a, b)| !a.same(b));
                let at = at.unwrap_or(found.len().min(right.len()));
                panic!(
                    "program {number}, {backend:?}, {threads} threads, pieces {rows:?}: {} events for {}, event {at} is {:?}, not {:?}\n{program}\n{}",
                    found.len(),
                    right.len(),
                    found.get(at),
                    right.get(at),
                    compiled.explain(),
                );
            }
        }
        compared += 1;
    }
    assert!(compared > programs / 2, "{compared} of {programs} compared");
}

/// More than fills 8 MiB with doubles: results are stored past the caches.
const ROWS: usize = 1_100_000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Times {
    Regular,
    Points,
    Intervals,
}

/// Numbers that look random.
fn mixed(i: usize, seed: u64) -> u64 {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

fn input(times: Times, values: ArrayRef, seed: u64) -> SnapshotBuffer {
    let rows = values.len();
    let mut t = -1001;
    let mut next = |i: usize, most: u64| {
        t += 1 + (mixed(i, seed) % most) as i64;
        t
    };
    let timeline = match times {
        Times::Regular => Timeline::regular(-1001, 3, rows, Spans::Fixed(3)),
        Times::Points => {
            let ends: Vec<i64> = (0..rows).map(|i| next(i, 9)).collect();
            Timeline::explicit(ends.into(), Spans::Fixed(1))
        }
        Times::Intervals => {
            let edges = (0..rows).map(|i| (next(2 * i, 3), next(2 * i + 1, 9)));
            let (starts, ends): (Vec<i64>, Vec<i64>) = edges.unzip();
            Timeline::intervals(starts.into(), ends.into())
        }
    };
    SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).expect("a column")
}

/// Compares parts at both ends, in the middle and around the ends of the first chunk and of a piece.
fn check(times: Times, dtype: &str, streams: &str) {
    let span = match times {
        Times::Regular => "fixed 3 period 3",
        Times::Points => "point",
        Times::Intervals => "interval",
    };
    let text = format!(
        "query q unit tick {{ input ~a: {dtype} {span}  input ~b: {dtype} {span}  {streams}  output ~y }}"
    );
    let query = Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = query.compile().expect("compiles");
    assert!(
        !compiled.explain().contains("interpreted, because"),
        "{text}"
    );
    let values = |seed| -> ArrayRef {
        let number = move |i| mixed(i, seed) as i64 % 100_003 - 50_000;
        if dtype == "i64" {
            return Arc::new(Int64Array::from_iter_values((0..ROWS).map(number)));
        }
        let number = move |i| number(i) as f64 / 7.0;
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(number)))
    };
    let inputs = BTreeMap::from([
        ("a".to_owned(), input(times, values(3), 1)),
        ("b".to_owned(), input(times, values(4), 2)),
    ]);
    let ends = inputs["a"].timeline();
    let cuts = [0, 2048, 32_768, ROWS / 2, ROWS - 1];
    let parts = cuts.map(|row| Span::new(ends.end(row) - 500, ends.end(row) + 500));
    // The oracle sees what the longest window looks back to, and more.
    let reach = Reach::Bounded {
        ticks: 10_000,
        events: 0,
    };
    let hulls = inputs.values().filter_map(SnapshotBuffer::hull);
    let hull = hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)));
    let oracle = |part| {
        let near = |(name, buffer): (&String, &SnapshotBuffer)| {
            (name.clone(), buffer.cut(part, reach, reach))
        };
        let near: BTreeMap<_, _> = inputs.iter().map(near).collect();
        let options = RunOptions::default().backend(Backend::Interpreter);
        let options = options.span(hull.expect("there are events")).part(part);
        let right = compiled.run(&near, &options);
        events_of(&right.unwrap_or_else(|e| panic!("{e}\n{text}"))).expect("a buffer of events")
    };
    let rights = parts.map(oracle);
    for threads in [1, 2] {
        let options = RunOptions::default().threads(threads);
        let all = compiled.run(&inputs, &options).expect("runs");
        for (part, right) in parts.into_iter().zip(&rights) {
            assert!(right.len() > 10, "{text}: {part:?}");
            let [first, end] = [part.start, part.end].map(|t| all.timeline().ends_until(t));
            let alone = compiled
                .run(&inputs, &options.clone().part(part))
                .expect("runs");
            for (found, what) in [(all.slice(first, end - first), "a run"), (alone, "a part")] {
                let found = events_of(&found).expect("a buffer of events");
                let different = found.iter().zip(right).find(|(a, b)| !a.same(b));
                assert!(
                    found.len() == right.len() && different.is_none(),
                    "{text}: {what} on {threads} threads in {part:?}: {different:?}"
                );
            }
        }
    }
}

#[test]
fn windows_over_irregular_times_by_much_data() {
    for streams in [
        "~y[t] = reduce mean ~a[t-5000 : t]",
        "~y[t] = reduce max ~a[t-300 : t] - reduce min ~a[t-300 : t-10]",
        "~y[t] = reduce std ~a[t-700 : t]",
        "~y[t] = reduce sum ~a[#-40 : #]",
        "~y[t] = reduce median ~a[t-60 : t]",
        "~y[t every 7] = reduce sum ~a[t-700 : t]",
    ] {
        check(Times::Points, "f64", streams);
    }
    for streams in [
        "~y[t] = reduce sum ~a[t-5000 : t]",
        "~y[t] = reduce max ~a[t-300 : t+20]",
        "~y[t every 5] = reduce len ~a[t-1000 : t]",
    ] {
        check(Times::Points, "i64", streams);
    }
    check(Times::Intervals, "f64", "~y[t] = reduce sum ~a[t-900 : t]");
}

#[test]
fn joins_of_irregular_times_by_much_data() {
    for times in [Times::Points, Times::Intervals] {
        check(times, "f64", "~y[t] = ~a[t] - hold(~b[t])");
        check(
            times,
            "f64",
            "~y[t] = coalesce(~a[t], 0.5) - coalesce(~b[t], 0.25)",
        );
    }
    for streams in [
        "~y[t] = ~a[t] + ~b[t]",
        "~y[t] = ~a[t] - coalesce(~b[t-3], 1.0)",
        "~u[t] = ~a[t] * ~b[t]  ~y[t] = ~u[t] - reduce mean ~u[t-400 : t]",
    ] {
        check(Times::Intervals, "f64", streams);
    }
    check(
        Times::Points,
        "f64",
        "~y[t] = ~a[t] - coalesce(~a.prev(3), 0.0)",
    );
}

#[test]
fn what_samples_make_is_stored_past_the_caches() {
    for streams in [
        "~y[t] = ~a[t] * 2.0 + ~b[t]",
        "~y[t] = if ~a[t] > 0.0 then ~a[t] else null",
        "~y[t] = reduce mean ~a[t-3000 : t] - reduce mean ~a[t-300 : t]",
        "~y[t] = {s: reduce sum ~a[t-90 : t], big: ~b[t] > 10.0}",
    ] {
        check(Times::Regular, "f64", streams);
    }
    check(
        Times::Regular,
        "i64",
        "~y[t] = reduce sum ~a[t-3000 : t] + ~b[t]",
    );
}
