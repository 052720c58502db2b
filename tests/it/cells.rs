//! Windows that are an event: calendars, sessions and intervals by compiled loops, against the oracle on data of real length.

use tilt::{
    Backend, Query, RunOptions,
    interp::{self, Event, Inputs, Options, Value, events_of, run_buffers},
    ir::parse,
};

use crate::{generate::buffers, text::format_events};

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64).rem_euclid(n)
    }
}

/// 2024-03-29T00:00Z: clocks change in Paris two days later.
const SPRING: i64 = 1_711_670_400;
const INPUTS: &str = "input ~x: f64 point overlap bag
     input ~n: i64 fixed 60s
     input ~alarm: i64 interval
     input ~call: i64 interval overlap bag";

/// Two weeks of points, samples, alarms that follow each other and calls that overlap.
fn inputs(random: &mut Random) -> Inputs {
    let mut t = SPRING;
    let points = (0..1_500).map(|_| {
        t += [0, 40, 300, 2_000, 1_800, 7_200][random.below(6) as usize] / 3;
        Event::point(t, random.below(1_000) as f64 / 8.0)
    });
    let points = points.collect();
    let mut t = SPRING;
    let samples = (0..900).map(|_| {
        t += 60 * (1 + random.below(20) / 15 * random.below(90));
        Event::new(t - 60, t, random.below(2_001) - 1_000)
    });
    let samples = samples.collect();
    let mut t = SPRING;
    let alarms = (0..200).map(|_| {
        let start = t + random.below(3) * random.below(3_000);
        t = start + 1 + random.below(9_000);
        Event::new(start, t, random.below(5))
    });
    let alarms = alarms.collect();
    let mut t = SPRING;
    let calls = (0..300).map(|_| {
        t += random.below(5_000);
        Event::new(t - 1 - random.below(20_000), t, random.below(9))
    });
    let calls = calls.collect();
    Inputs::from(
        [
            ("x", points),
            ("n", samples),
            ("alarm", alarms),
            ("call", calls),
        ]
        .map(|(name, events)| (name.to_owned(), events)),
    )
}

/// All ways to run a query, which must be compiled, give what the oracle does.
fn check(body: &str) -> String {
    let text = format!("query q unit s {{ {INPUTS} {body} output ~y }}");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs = inputs(&mut Random(3));
    let options = Options {
        span: interp::hull(&inputs),
        ..Options::default()
    };
    let expected = interp::run(&program, &inputs, &options).unwrap_or_else(|e| panic!("{e}"));
    assert!(!expected.is_empty(), "{body} gives nothing");
    let arrays = buffers(&program, &inputs);
    let mut explained = String::new();
    for optimize in [false, true] {
        let query = Query::new(program.clone()).expect("verified");
        let compiled = query.optimize(optimize).compile().expect("compiles");
        for (backend, threads, rows) in [
            (Backend::Loops, 1, 8),
            (Backend::Native, 1, 1 << 20),
            (Backend::Native, 2, 64),
        ] {
            let asked = RunOptions::default().backend(backend).threads(threads);
            let found = compiled.run(&arrays, &asked.piece_rows(rows));
            let found = found.unwrap_or_else(|e| panic!("{e}\n{body}"));
            let found = events_of(&found).expect("a buffer of events");
            let same = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(a, b)| a.same(b));
            assert!(
                same,
                "{backend:?} optimize {optimize} pieces of {rows}\n{body}\n{}\nnot {}\n{}",
                format_events(&found),
                format_events(&expected),
                compiled.explain()
            );
        }
        explained = compiled.explain();
        assert!(!explained.contains("interpreted, because"), "{explained}");
    }
    explained
}

/// Reductions of every algorithm, over a stream and its map.
const REDUCTIONS: [&str; 8] = [
    "{s: reduce sum ~x[event], m: reduce mean ~x[event], n: reduce len ~x[event]}",
    "{s: reduce sum ~n[event], lo: reduce min ~n[event], hi: reduce max ~n[event]}",
    "{d: reduce std ~x[event], k: reduce kurtosis ~x[event], q: reduce median ~x[event]}",
    "{i: reduce integral ~n[event], a: reduce twa ~n[event], b: reduce slope ~n[event]}",
    "{f: reduce first ~x[event], l: reduce last ~x[event], at: reduce arg_max ~x[event]}",
    "reduce sum ~x[event] map (if ~x[t] > 50.0 then ~x[t] else null)",
    "coalesce(reduce len ~x[event], 0)",
    "{o: reduce len ~call[event], p: reduce product ~x[event] map (1.0 + ~x[t] / 1000.0)}",
];

const CLOCKS: [&str; 9] = [
    "calendar 1d tz \"Europe/Paris\" closed left",
    "calendar 1h tz \"Europe/Paris\"",
    "calendar 1w",
    "calendar 1mo tz \"Australia/Sydney\" offset 6h",
    "sessions ~x gap 5m",
    "sessions ~x gap 10m max 1h",
    "sessions ~call gap 1m",
    "at ~alarm",
    "at ~call",
];

#[test]
fn windows_of_events_are_compiled_on_every_clock() {
    for clock in CLOCKS {
        for reduction in REDUCTIONS {
            check(&format!("~y[t {clock}] = {reduction}"));
        }
    }
}

#[test]
fn cells_of_a_calendar_are_cut_into_pieces() {
    let day = "~y[t calendar 1d tz \"Europe/Paris\"] = reduce sum ~x[event]";
    let explained = check(day);
    assert!(explained.contains("halo 25h before"), "{explained}");
    let session = check("~y[t sessions ~x gap 5m] = reduce sum ~x[event]");
    assert!(session.contains("stage by stage"), "{session}");
}

#[test]
fn what_is_on_cells_and_sessions_is_read_by_others() {
    for body in [
        // Each sample with the mean of its own day, and each session with the day in which it ends.
        "~day[t calendar 1d tz \"Europe/Paris\"] = reduce mean ~x[event]  ~y[t at ~n] = cast(~n[t], f64) - ~day[t]",
        "~day[t calendar 1d] = reduce mean ~n[event]  ~y[t sessions ~x gap 5m] = (reduce mean ~x[event]) - ~day[t]",
        // Sessions of sessions, of what a filter leaves, and of cells.
        "~s[t sessions ~x gap 2m] = reduce len ~x[event]  ~y[t sessions ~s gap 20m] = {n: reduce len ~s[event], m: reduce sum ~s[event]}",
        "~f[t] = if ~n[t] > 300 then ~n[t] else null  ~y[t sessions ~f gap 30m] = {n: reduce len ~f[event], all: reduce len ~n[event]}",
        "~h[t calendar 1h tz \"Europe/Paris\"] = reduce len ~x[event]  ~y[t sessions ~h gap 2h] = {n: reduce sum ~h[event], h: reduce len ~h[event]}",
        // Windows over cells and sessions, of floats: contributions are counted.
        "~h[t calendar 1h] = reduce mean ~x[event]  ~y[t calendar 1d tz \"Europe/Paris\"] = {s: reduce sum ~h[event], d: reduce std ~h[event]}",
        "~s[t sessions ~x gap 5m] = reduce mean ~x[event]  ~y[t every 6h] = {s: reduce sum ~s[t-6h : t], e: reduce sum ~s[event]}",
        "~s[t sessions ~x gap 5m] = reduce sum ~x[event]  ~y[t] = ~s[t] - ~s.prev(1)",
        // Two expressions on one clock, and a map that looks at its own event.
        "~a[t sessions ~x gap 5m] = reduce sum ~x[event]  ~b[t sessions ~x gap 5m] = reduce len ~n[event]  ~y[t] = ~a[t] / cast(~b[t], f64)",
        "~y[t calendar 1d] = reduce sum ~alarm[event] map (reduce len ~n[event])",
        "~y[t] = {m: reduce mean ~n[event], l: cast(t - start(~alarm[t]), i64), v: ~alarm[t]}",
    ] {
        check(body);
    }
}

#[test]
fn sessions_by_key_are_compiled() {
    let text = "query q unit s {
        input ~e: {user: i32, v: i64, x: f64} point key user overlap bag
        ~s[t sessions ~e gap 30m max 2h] = {n: reduce len ~e[event], v: reduce sum ~e[event] map (~e[t].v), x: reduce sum ~e[event] map (~e[t].x)}
        output ~s
      }";
    let query = Query::parse(text).expect("a query");
    let mut random = Random(11);
    let mut t = SPRING;
    let mut event = || {
        t += random.below(4);
        let user = Value::Int(random.below(3_000));
        let fields = [
            user,
            Value::Int(random.below(100)),
            Value::Float(random.below(99) as f64 / 7.0),
        ];
        Event::point(t, Value::record(fields))
    };
    let events: Vec<Event> = (0..20_000).map(|_| event()).collect();
    let arrays = buffers(query.program(), &Inputs::from([("e".to_owned(), events)]));
    let expected = run_buffers(query.program(), &arrays, &Options::default()).expect("runs");
    let right = events_of(&expected).expect("a buffer of events");
    let compiled = query.compile().expect("compiles");
    assert!(
        !compiled.explain().contains("interpreted, because"),
        "{}",
        compiled.explain()
    );
    for (backend, threads) in [(Backend::Loops, 1), (Backend::Native, 2)] {
        let options = RunOptions::default().backend(backend).threads(threads);
        let found = compiled.run(&arrays, &options).expect("runs");
        let found = events_of(&found).expect("a buffer of events");
        assert!(found.len() == right.len() && found.iter().zip(&right).all(|(a, b)| a.same(b)));
    }
}

/// What an event costs, by loops and by the oracle: `cargo test -p tilt --test it speed_of_windows_of_events -- --ignored --nocapture`.
#[test]
#[ignore = "a report of times: a test must not fail because the machine is busy"]
fn speed_of_windows_of_events() {
    let count = 400_000;
    let mut random = Random(5);
    let mut t = SPRING;
    let mut event = |users: i64| {
        t += random.below(20);
        let fields = [
            Value::Int(random.below(users)),
            Value::Float(random.below(999) as f64 / 8.0),
        ];
        Event::point(t, Value::record(fields))
    };
    for (users, key, clock) in [
        (1, "", "sessions ~e gap 16s"),
        (10_000, "key user", "sessions ~e gap 12h"),
        (1, "", "calendar 1h tz \"Europe/Paris\""),
        (1_000, "key user", "calendar 1d tz \"Europe/Paris\""),
    ] {
        let text = format!(
            "query q unit s {{ input ~e: {{user: i64, x: f64}} point {key} overlap bag
               ~x[t] = ~e[t].x
               ~y[t {clock}] = {{n: reduce len ~x[event], m: reduce mean ~x[event], hi: reduce max ~x[event]}}
               output ~y }}"
        );
        let query = Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let events = (0..count).map(|_| event(users)).collect();
        let arrays = buffers(query.program(), &Inputs::from([("e".to_owned(), events)]));
        let compiled = query.compile().expect("compiles");
        for backend in [Backend::Native, Backend::Native, Backend::Interpreter] {
            let options = RunOptions::default().backend(backend).threads(1);
            let start = std::time::Instant::now();
            let rows = compiled.run(&arrays, &options).expect("runs").len();
            let each = start.elapsed().as_nanos() as f64 / f64::from(count);
            println!("{each:8.1} ns/event  {rows} rows  {backend:?}  {users} users  {clock}");
        }
    }
}

#[test]
fn a_run_beyond_the_calendar_says_so() {
    let text =
        "query q unit s { input ~x: i64 point ~y[t calendar 1d] = reduce sum ~x[event] output ~y }";
    let query = Query::parse(text).expect("a query");
    let points = vec![Event::point(1_700_000_000_000, 1)];
    let arrays = buffers(query.program(), &Inputs::from([("x".to_owned(), points)]));
    let run = query
        .compile()
        .expect("compiles")
        .run(&arrays, &RunOptions::default());
    let error = run.expect_err("the year 55840").to_string();
    assert!(
        error.contains("check the unit of the timestamps"),
        "{error}"
    );
}

/// On a grid places count cells from where the window is split, also those before the run.
#[test]
fn windows_over_cells_count_those_before_the_run() {
    let text = "query q unit tick {
        input ~x: f64 interval
        ~cell[t every 2] = ~x[t] * cast(cast(t, i64), f64)
        ~y[t at ~x] = {skew: reduce skew ~cell[t-30 : t], sum: reduce sum ~cell[t-30 : t]}
        output ~y
      }";
    let program = parse(text).expect("a program");
    let query = Query::new(program.clone()).expect("verified");
    let compiled = query.optimize(false).compile().expect("compiles");
    for base in 0..60 {
        let value = |i: i64| (i * 7 % 5) as f64 + 0.1;
        let events = (base..base + 30).map(|i| Event::new(i, i + 1, value(i)));
        let inputs = Inputs::from([("x".to_owned(), events.collect())]);
        let expected = interp::run(&program, &inputs, &Options::default()).expect("runs");
        let arrays = buffers(&program, &inputs);
        let options = RunOptions::default().backend(Backend::Loops);
        let found = compiled.run(&arrays, &options).expect("runs");
        let found = events_of(&found).expect("a buffer of events");
        let same =
            found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| a.same(b));
        assert!(same, "from {base} on");
    }
}
