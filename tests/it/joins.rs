//! Joins of streams of every shape, each way to run them against the oracle.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::{Event, events_of},
    ir::{self, Span, Unit},
};

use crate::text::format_events;

/// Numbers that repeat.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) as i64) % n
    }
}

/// What an input is like.
#[derive(Clone, Copy)]
enum Shape {
    /// Samples `(end, period, length)`; one in so many is missing if that is not 0.
    Samples(i64, i64, i64, i64),
    /// Points in random places.
    Points,
    /// Points, several at some instants.
    Bag,
    /// Intervals with gaps.
    Intervals,
}

fn input(shape: Shape, seed: u64) -> SnapshotBuffer {
    let mut dice = Dice(seed);
    let rows = 40 + dice.below(20) as usize;
    let mut t = dice.below(6);
    let mut next = |least: i64, dice: &mut Dice| {
        t += least + dice.below(4);
        t
    };
    let timeline = match shape {
        Shape::Samples(end, period, length, _) => {
            Timeline::regular(end, period, rows, Spans::Fixed(length))
        }
        Shape::Points | Shape::Bag => {
            let least = i64::from(matches!(shape, Shape::Points));
            let ends: Vec<i64> = (0..rows).map(|_| next(least, &mut dice)).collect();
            Timeline::explicit(ends.into(), Spans::Fixed(1))
        }
        Shape::Intervals => {
            let edges = (0..rows).map(|_| (next(0, &mut dice), next(1, &mut dice)));
            let (starts, ends): (Vec<i64>, Vec<i64>) = edges.unzip();
            Timeline::intervals(starts.into(), ends.into())
        }
    };
    let missing = match shape {
        Shape::Samples(.., missing) => missing,
        _ => 0,
    };
    let values = (0..rows).map(|_| {
        let value = dice.below(100) as f64 / 8.0;
        (missing == 0 || dice.below(missing) != 0).then_some(value)
    });
    let values: ArrayRef = Arc::new(values.collect::<Float64Array>());
    SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick)
        .expect("a column as long as its timeline")
}

fn span_of(shape: Shape) -> String {
    match shape {
        Shape::Samples(_, _, length, _) => format!("fixed {length}"),
        Shape::Points => "point".to_owned(),
        Shape::Bag => "point overlap bag".to_owned(),
        Shape::Intervals => "interval".to_owned(),
    }
}

/// Runs a query over `~a` and `~b` in all ways.
fn check(a: Shape, b: Shape, streams: &str) {
    let text = format!(
        "query q unit tick {{ input ~a: f64 {}  input ~b: f64 {}  {streams}  output ~y }}",
        span_of(a),
        span_of(b)
    );
    let program = ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for seed in 0..2 {
        let inputs = [("a", input(a, seed)), ("b", input(b, seed + 100))];
        let inputs: BTreeMap<String, SnapshotBuffer> = inputs
            .map(|(name, buffer)| (name.to_owned(), buffer))
            .into();
        for optimize in [false, true] {
            let query = Query::new(program.clone())
                .expect("verified")
                .optimize(optimize);
            let compiled = query.compile().expect("compiles");
            let run = |options: RunOptions| -> Result<Vec<Event>, String> {
                let output = compiled.run(&inputs, &options).map_err(|e| e.to_string())?;
                Ok(events_of(&output).expect("a buffer of events"))
            };
            for part in [None, Some(Span::new(20, 60))] {
                let options = || match part {
                    Some(part) => RunOptions::default().part(part),
                    None => RunOptions::default(),
                };
                let Ok(expected) = run(options().backend(Backend::Interpreter)) else {
                    continue;
                };
                let ways = [
                    (Backend::Loops, 1, 1 << 20),
                    (Backend::Loops, 1, 8),
                    (Backend::Loops, 1, 3),
                    (Backend::Loops, 2, 8),
                    (Backend::Native, 1, 1 << 20),
                    (Backend::Native, 1, 8),
                    (Backend::Native, 8, 16),
                ];
                for (backend, threads, rows) in ways {
                    let options = options().backend(backend).threads(threads).piece_rows(rows);
                    let found = run(options).unwrap_or_else(|e| panic!("{e}\n{text}"));
                    let same = found.len() == expected.len()
                        && found.iter().zip(&expected).all(|(a, b)| a.same(b));
                    assert!(
                        same,
                        "{text}\n{backend:?} seed {seed} optimize {optimize} part {part:?} threads {threads} pieces of {rows}\n\
                         expected {}\nfound    {}",
                        format_events(&expected),
                        format_events(&found),
                    );
                }
            }
        }
    }
}

/// Bodies that are φ without `~a`, without `~b`, without either, or never.
const BODIES: [&str; 13] = [
    "~y[t] = ~a[t] + ~b[t]",
    "~y[t] = coalesce(~a[t], 0.0) + coalesce(~b[t], 0.0)",
    "~y[t] = ~a[t] - coalesce(~b[t], 1.0)",
    "~y[t] = coalesce(~a[t], 1.0) - ~b[t]",
    "~y[t] = ~a[t] - hold(~b[t])",
    "~y[t] = ~a[t] - coalesce(hold(~b[t], 5), -1.0)",
    "~y[t] = ~a[t-3] + ~b[t+2]",
    "~y[t] = ~a[t] + coalesce(~b[t-1], 7.0)",
    "~y[t] = coalesce(~a[t-4], 0.0) + coalesce(~b[t], 0.0)",
    "~y[t] = if is_null(~a[t]) then ~b[t] else ~a[t] - coalesce(~b.prev(1), 0.0)",
    "~y[t] = ~a[t] + coalesce(~a[t-2], 0.0) * coalesce(~b[t], 1.0)",
    "~y[t on ~a[t], ~b[t]] = 1.0",
    "~y[t on ~a[t], ~b[t-4]] = 1.0",
];

const SHAPES: [Shape; 12] = [
    Shape::Samples(1, 1, 1, 0),
    Shape::Samples(4, 1, 1, 5),
    Shape::Samples(10, 2, 2, 0),
    Shape::Samples(12, 2, 2, 4),
    Shape::Samples(11, 2, 2, 0),
    Shape::Samples(4, 4, 4, 0),
    Shape::Samples(6, 4, 4, 3),
    Shape::Samples(5, 4, 2, 0),
    Shape::Samples(6, 4, 2, 0),
    Shape::Points,
    Shape::Bag,
    Shape::Intervals,
];

#[test]
fn joins_of_any_two_shapes_agree_with_the_oracle() {
    for a in SHAPES {
        for b in SHAPES {
            for body in BODIES {
                check(a, b, body);
            }
        }
    }
}

#[test]
fn what_reads_a_join_sees_its_events_only() {
    let later = [
        // Equal clocks share their positions, whatever one of them is strict in.
        "~u[t] = ~a[t] + ~b[t]  ~v[t on ~a[t], ~b[t]] = coalesce(~a[t], 0.0) - coalesce(~b[t], 9.0)  \
         ~y[t] = coalesce(~u[t], 100.0) + ~v[t]",
        "~u[t] = ~a[t] + ~b[t]  ~v[t] = ~a[t] * ~b[t]  ~y[t] = ~u[t] - ~v[t]",
        "~u[t] = ~a[t] + ~b[t]  ~y[t] = ~u[t] - coalesce(~u.prev(2), 0.0)",
        "~u[t] = ~a[t] + ~b[t]  ~y[t] = reduce sum ~u[t-7 : t]",
        "~u[t] = ~a[t] - coalesce(~b[t], 0.5)  ~y[t] = reduce sum ~u[t-7 : t]",
        "~u[t] = coalesce(~a[t], 0.5) - coalesce(~b[t], 0.5)  ~y[t] = reduce mean ~u[t-7 : t]",
        "~u[t] = coalesce(~a[t], 0.5) - coalesce(~b[t], 0.5)  ~y[t] = reduce sum ~u[#-3 : #]",
        "~u[t] = coalesce(~a[t], 0.5) - coalesce(~b[t], 0.5)  ~y[t]: f64 = ~u[t] + coalesce(~y.prev(1), 0.0)",
        "~u[t] = ~a[t] + ~b[t]  ~y[t at ~u] = cast(end(~u[t]) - start(~u[t]), i64)",
        "~u[t] = ~a[t] + ~b[t]  ~y[t] = coalesce(~u[t], 0.0) + coalesce(~a[t], 0.0)",
        "~u[t] = ~a[t] + ~b[t]  ~y[t] = ~b[t] - hold(~u[t], 4)",
        "~m[t every 10] = reduce mean ~b[t-10 : t]  ~y[t] = ~a[t] - ~m[t]",
        "~m[t every 4 offset 2] = reduce max ~b[t-4 : t]  ~y[t] = coalesce(~a[t], 0.0) - coalesce(~m[t], 0.0)",
        // A stream that is no source of the clock is φ where its group has no choice.
        "~p[t] = if ~b[t] > 6.0 then ~b[t] else null  ~y[t on ~a[t], ~p[t]] = ~a[t] + coalesce(~b[t], -5.0)",
        "~p[t] = if ~a[t] > 6.0 then ~a[t] else null  ~y[t on ~p[t], ~b[t]] = ~a[t] + coalesce(~b[t], -5.0)",
    ];
    for (a, b) in [
        (0, 0),
        (0, 1),
        (1, 1),
        (2, 3),
        (2, 5),
        (9, 9),
        (0, 9),
        (9, 1),
        (11, 11),
        (9, 11),
        (0, 10),
        (11, 0),
    ] {
        for streams in later {
            check(SHAPES[a], SHAPES[b], streams);
        }
    }
}

/// Nanoseconds per row of the larger input: `cargo test -p tilt --release --test it speed_of_joins -- --ignored --nocapture`.
#[test]
#[ignore = "a report of times: a test must not fail because the machine is busy"]
fn speed_of_joins() {
    const ROWS: usize = 1 << 22;
    let samples = |seed, missing: i64| {
        let mut dice = Dice(seed);
        let values =
            (0..ROWS).map(|i| (missing == 0 || dice.below(missing) != 0).then_some(i as f64));
        let values: ArrayRef = Arc::new(values.collect::<Float64Array>());
        let timeline = Timeline::regular(1, 1, ROWS, Spans::Fixed(1));
        SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).expect("a column")
    };
    let random = |seed, points: bool| {
        let mut dice = Dice(seed);
        let mut t = 0;
        let edges = (0..ROWS).map(|_| {
            let start = t + if dice.below(4) == 0 {
                1 + dice.below(4)
            } else {
                0
            };
            t = start + 1 + dice.below(16);
            (start, t)
        });
        let (starts, ends): (Vec<i64>, Vec<i64>) = edges.unzip();
        let timeline = if points {
            Timeline::explicit(ends.into(), Spans::Fixed(1))
        } else {
            Timeline::intervals(starts.into(), ends.into())
        };
        let values: ArrayRef = Arc::new((0..ROWS).map(|i| i as f64).collect::<Float64Array>());
        SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).expect("a column")
    };
    let sum = "~y[t] = ~a[t] + ~b[t]";
    let outer = "~y[t] = coalesce(~a[t], 0.0) + coalesce(~b[t], 0.0)";
    let normalize = "~m[t every 10000] = reduce mean ~b[t-10000 : t]  \
                     ~s[t every 10000] = reduce std(0) ~b[t-10000 : t]  ~y[t] = (~a[t] - ~m[t]) / ~s[t]";
    let cases = [
        (
            "inner join, one grid",
            "point",
            sum,
            samples(1, 0),
            samples(2, 0),
        ),
        (
            "outer join, one grid, gaps",
            "point",
            outer,
            samples(1, 8),
            samples(2, 8),
        ),
        (
            "normalize",
            "point",
            normalize,
            samples(1, 0),
            samples(1, 0),
        ),
        (
            "as-of join of points",
            "point",
            "~y[t] = ~a[t] - hold(~b[t])",
            random(1, true),
            random(2, true),
        ),
        (
            "inner join of intervals",
            "interval",
            sum,
            random(1, false),
            random(2, false),
        ),
        (
            "outer join of intervals",
            "interval",
            outer,
            random(1, false),
            random(2, false),
        ),
    ];
    for (name, span, streams, a, b) in cases {
        let text = format!(
            "query q unit tick {{ input ~a: f64 {span}  input ~b: f64 {span}  {streams}  output ~y }}"
        );
        let compiled = Query::new(ir::parse(&text).expect("a query"))
            .expect("verified")
            .compile()
            .expect("compiles");
        let inputs = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        for threads in [1, 2] {
            let (mut best, mut rows) = (f64::MAX, 0);
            for _ in 0..5 {
                let start = std::time::Instant::now();
                let output = compiled
                    .run(&inputs, &RunOptions::default().threads(threads))
                    .expect("runs");
                best = best.min(start.elapsed().as_secs_f64());
                rows = output.len();
            }
            println!(
                "{name:28} {threads} threads {:6.2} ns per output row, {rows} rows",
                best * 1e9 / rows as f64
            );
        }
    }
}
