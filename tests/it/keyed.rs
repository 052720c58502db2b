//! Keyed runs of the engine against the oracle: random programs, and windows by key written by hand.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};
use tilt::{
    Backend, Query, RunOptions,
    data::SnapshotBuffer,
    interp::{self, Event, Inputs, Options, Value, events_of, run_buffers},
    ir::{self, Program, Span},
};

use crate::{
    generate::{self, Choices, Scope, buffers, key_the_records},
    properties::{BASES, choices, config},
    text::{format_events, format_inputs},
};

const WAYS: [(Backend, usize, Option<usize>); 6] = [
    (Backend::Loops, 1, None),
    (Backend::Loops, 1, Some(8)),
    (Backend::Native, 1, None),
    (Backend::Native, 2, None),
    (Backend::Native, 8, Some(16)),
    (Backend::Native, 8, None),
];

/// Runs a program in all ways; the first result that is not `expected`, with what was run.
pub(crate) fn difference(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &Options,
    expected: &SnapshotBuffer,
) -> Option<String> {
    let right = events_of(expected).expect("a buffer of events");
    for optimize in [false, true] {
        let query = Query::new(program.clone())
            .expect("verified")
            .optimize(optimize);
        let compiled = query.compile().expect("compiles");
        for (backend, threads, rows) in WAYS {
            let mut asked = RunOptions::default()
                .backend(backend)
                .threads(threads)
                .functions(options.functions.clone());
            asked = rows.into_iter().fold(asked, RunOptions::piece_rows);
            asked = options.span.into_iter().fold(asked, RunOptions::span);
            asked = options.part.into_iter().fold(asked, RunOptions::part);
            let run = compiled.run(inputs, &asked);
            let again = compiled.run_briefly(inputs, &asked);
            let agrees = again.is_none_or(|found| is_same(&found, expected, &right));
            let found = match run {
                Ok(found) if is_same(&found, expected, &right) && agrees => continue,
                Ok(found) => format_events(&events_of(&found).expect("a buffer of events")),
                Err(error) => error.to_string(),
            };
            return Some(format!(
                "{backend:?} optimize {optimize} threads {threads} pieces {rows:?}\n{program}\n// gives     {}\n// but here  {found}",
                format_events(&right),
            ));
        }
    }
    None
}

/// Whether a buffer has the columns and the events of the expected one, which are `right`.
pub(crate) fn is_same(found: &SnapshotBuffer, expected: &SnapshotBuffer, right: &[Event]) -> bool {
    let columns = |b: &SnapshotBuffer| -> Vec<_> {
        let columns = b.columns().iter();
        columns
            .map(|c| (c.name().to_owned(), c.array().data_type().clone()))
            .collect()
    };
    let events = events_of(found).expect("a buffer of events");
    columns(found) == columns(expected)
        && events.len() == right.len()
        && events.iter().zip(right).all(|(a, b)| a.same(b))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn keyed_runs_agree_with_the_oracle(choices in choices()) {
        let (mut of_program, mut of_data) = (Choices::new(&choices), Choices::reversed(&choices));
        let mut program = generate::program(&mut of_program, Scope { instants: true });
        let base = BASES[of_data.below(BASES.len())];
        let inputs = generate::inputs(&mut of_data, &program, base);
        if key_the_records(&mut program).is_empty() {
            return Ok(());
        }
        let options = Options { span: interp::hull(&inputs), part: None, functions: generate::functions() };
        let arrays = buffers(&program, &inputs);
        let Ok(expected) = run_buffers(&program, &arrays, &options) else { return Ok(()) };
        if let Some(difference) = difference(&program, &arrays, &options, &expected) {
            return Err(TestCaseError::fail(format!("{}{difference}", format_inputs(&inputs))));
        }
    }
}

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

/// What keys there are.
#[derive(Clone, Copy, Debug)]
enum KeyKind {
    Dense(i64),
    Sparse,
    Nullable,
    Text,
    Float,
    Bool,
}

const KINDS: [KeyKind; 8] = [
    KeyKind::Dense(1),
    KeyKind::Dense(3),
    KeyKind::Dense(200),
    KeyKind::Sparse,
    KeyKind::Nullable,
    KeyKind::Text,
    KeyKind::Float,
    KeyKind::Bool,
];

impl KeyKind {
    fn dtype(self) -> &'static str {
        match self {
            Self::Dense(_) => "i32",
            Self::Sparse => "i64",
            Self::Nullable => "i16",
            Self::Text => "utf8",
            Self::Float => "f64",
            Self::Bool => "bool",
        }
    }

    fn value(self, random: &mut Random) -> Value {
        match self {
            Self::Dense(n) => Value::Int(random.below(n) - 2),
            Self::Sparse => Value::Int((random.below(9) - 4) * (1 << 60)),
            Self::Nullable if random.below(3) == 0 => Value::Null,
            Self::Nullable => Value::Int(random.below(4)),
            Self::Text => Value::from(["b", "", "a", "b2"][random.below(4) as usize]),
            Self::Float => {
                let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::NEG_INFINITY];
                Value::Float(floats[random.below(6) as usize])
            }
            Self::Bool => Value::Bool(random.below(2) == 0),
        }
    }
}

/// Points of some keys: bursts of equal stamps, now and then a long silence.
fn points(kind: KeyKind, n: usize, random: &mut Random) -> Vec<Event> {
    let mut t = -40;
    let mut event = || {
        t += match random.below(40) {
            0 => 97,
            step => step % 3,
        };
        let v = match random.below(8) {
            0 => Value::Null,
            _ => Value::Int(random.below(2001) - 1000),
        };
        let x = Value::Float(random.below(64) as f64 / 8.0 - 4.0);
        let fields = [kind.value(random), v, x, Value::Bool(random.below(2) == 0)];
        Event::point(t, Value::record(fields))
    };
    (0..n).map(|_| event()).collect()
}

/// Bodies of windows by key, over `~e: {k, v: i64, x: f64, b: bool}`.
const QUERIES: [&str; 17] = [
    // In one pass: the first twelve.
    "~y[t every 10] = reduce len ~e[t-10 : t]  output ~y",
    "~p[t] = if ~e[t].v > 0 then ~e[t].v else null  ~y[t every 10] = reduce len ~p[t-10 : t]  output ~y",
    "~p[t] = if ~e[t].v > 5000 then ~e[t].v else null  ~y[t every 10] = reduce sum ~p[t-10 : t]  output ~y",
    "~p[t] = ~e[t].v  ~y[t every 10 offset 3] = reduce sum ~p[t-10 : t]  output ~y",
    "~p[t] = ~e[t].v  ~y[t every 10] = reduce sum ~p[t-30 : t]  output ~y",
    "~p[t] = ~e[t].v  ~y[t every 4] = reduce min ~p[t-40 : t]  output ~y",
    "~p[t] = ~e[t].x  ~y[t every 10] = reduce max ~p[t-13 : t-3]  output ~y",
    "~p[t] = ~e[t].b  ~y[t every 7] = reduce all ~p[t-7 : t]  output ~y",
    "~p[t] = ~e[t].b  ~y[t every 7] = reduce any ~p[t-21 : t]  output ~y",
    "~p[t] = ~e[t].v  ~y[t every 5] = if (reduce mean ~p[t-5 : t]) > -900.0 \
     then {m: reduce mean ~p[t-5 : t], r: reduce max ~p[t-15 : t+5]} else null  output ~y",
    "~p[t] = ~e[t].v  ~q[t every 5] = reduce sum ~p[t-5 : t]  ~y[t every 5] = if ~q[t] > 0 then ~q[t] * 2 else null  output ~y",
    "~p[t] = ~e[t].x  ~y[t every 10] = reduce sum ~p[t-10 : t]  output ~y",
    // Not for one pass: other grids, silence that counts, events, times.
    "~p[t] = ~e[t].v  ~q[t every 5] = reduce mean ~p[t-5 : t]  ~r[t every 5] = reduce max ~p[t-15 : t+5] \
     ~y[t every 5] = {m: ~q[t], r: ~r[t]}  output ~y",
    "~p[t] = ~e[t].v  ~y[t every 10] = reduce sum ~p[t-15 : t]  output ~y",
    "~p[t] = ~e[t].v  ~q[t every 20] = reduce len ~p[t-20 : t]  ~y[t every 20] = coalesce(~q[t], 0)  output ~y",
    "~p[t] = ~e[t].x  ~y[t] = reduce mean ~p[t-12 : t]  output ~y",
    "~y[t] = {k: ~e[t].k, v: ~e[t].v}  output ~y",
];

#[test]
fn windows_by_key_on_a_grid_take_one_pass() {
    for (number, text) in QUERIES.iter().enumerate() {
        let text = format!(
            "query q unit tick {{ input ~e: {{k: i32, v: i64, x: f64, b: bool}} point key k overlap bag  {text} }}"
        );
        let plan = Query::parse(&text)
            .expect("a query")
            .compile()
            .expect("compiles")
            .explain();
        let is_one_pass = plan.contains("keys: all in one pass");
        assert_eq!(is_one_pass, number < 12, "{number}\n{plan}");
    }
}

#[test]
fn windows_by_key_agree_with_the_oracle() {
    let mut random = Random(7);
    for kind in KINDS {
        for text in QUERIES {
            let dtype = kind.dtype();
            let text = format!(
                "query q unit tick {{ input ~e: {{k: {dtype}, v: i64, x: f64, b: bool}} point key k overlap bag  {text} }}"
            );
            let program = ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            for n in [0, 1, 40, 400] {
                let events = points(kind, n, &mut random);
                let inputs = Inputs::from([("e".to_owned(), events)]);
                let arrays = buffers(&program, &inputs);
                let part = Some(Span::new(-5, 203));
                for part in [None, part] {
                    let options = Options {
                        part,
                        ..Options::default()
                    };
                    let expected = run_buffers(&program, &arrays, &options)
                        .unwrap_or_else(|e| panic!("{e}\n{text}"));
                    if let Some(difference) = difference(&program, &arrays, &options, &expected) {
                        panic!("{kind:?} {part:?}\n{}{difference}", format_inputs(&inputs));
                    }
                }
            }
        }
    }
}

/// Programs that read their own event, held ones and those before, over `~e` as above and `~f: {k, w: f64}`.
const IN_PLACE: [&str; 13] = [
    "~y[t at ~e] = {v: ~e[t].v, w: hold(~f[t]).w}",
    "~y[t at ~f] = ~f[t].w + coalesce(hold(~e[t], 9).x, 100.0)",
    "~y[t at ~f] = {k: ~f[t].k, x: hold(~e[t-1]).x, v: hold(~e[t+2], 5).v}",
    "~y[t at ~e] = hold(~f[t+1]).w",
    "~y[t] = ~e.prev(1).x",
    "~y[t] = if ~e[t].b then ~e[t].x - ~e.prev(2).x else null",
    "~y[t] = {d: ~e[t].v - ~e.prev(1).v, k: ~e[t].k, v: ~e[t].v}",
    "~y[t] = {x: ~e[t].x, t: t}",
    "~y[t] = if ~e[t].v > 0 then {k: ~e[t].k, v: ~e[t].v} else null",
    "~p[t] = if ~e[t].b then ~e[t].x else null  ~y[t at ~e] = hold(~p[t-3], 50)",
    "~p[t] = ~e[t].v  ~y[t] = ~p[t] - ~p.prev(1)",
    "~p[t] = {x: ~e[t].x, b: ~e[t].b}  ~y[t at ~f] = {w: ~f[t].w, x: hold(~p[t]).x, b: hold(~p[t-2], 20).b}",
    "~p[t] = ~e[t].x * 2.0  ~q[t] = if ~e[t].b then ~p[t] else null  ~y[t at ~e] = {v: ~e[t].v, d: ~q.prev(2), h: hold(~q[t-1])}",
];

/// Programs that read by time alone, over the same.
const ON_LINES: [&str; 10] = [
    "~y[t] = {m: reduce mean ~e[t-12 : t] map (~e[t].x), n: reduce len ~e[t-30 : t-2]}",
    "~y[t] = if ~e[t].v > 0 then reduce std ~e[t-7 : t] map (~e[t].x) else null",
    "~y[t] = {k: ~e[t].k, v: ~e[t].v, s: reduce sum ~e[t-9 : t+6] map (~e[t].v)}",
    "~y[t at ~f] = {w: ~f[t].w, x: hold(~e[t-1]).x, m: reduce median ~e[t-20 : t] map (~e[t].x)}",
    "~d[t] = ~f[t].w * 2.0  ~y[t at ~e] = {b: ~e[t].b, l: reduce last ~d[t-40 : t], f: reduce first ~d[t-40 : t]}",
    "~y[t] = reduce slope ~e[t-25 : t] map (~e[t].x)",
    "~d[t] = if ~e[t].b then ~e[t].x else null  ~y[t] = {d: ~d[t], m: reduce mean ~d[t-25 : t-1], n: reduce len ~d[t-9 : t]}",
    "~c[t] = reduce max ~e[t-8 : t] map (~e[t].x)  ~y[t] = {c: ~c[t], x: ~e[t].x, d: reduce min ~c[t-19 : t]}",
    "~y[t] = {b: ~e[t].b, any: reduce any ~e[t-9 : t-1] map (~e[t].b), s: reduce std ~e[t-31 : t-1] map (~e[t].x)}",
    "~y[t at ~e] = {n: reduce n_unique ~e[t-30 : t] map (~e[t].v), x: ~e[t-1].x, s: reduce skew ~e[t-21 : t] map (~e[t].x)}",
];

#[test]
fn keys_side_by_side_agree_with_the_oracle() {
    let mut random = Random(11);
    for kind in KINDS {
        for text in ON_LINES.into_iter().chain(IN_PLACE) {
            let dtype = kind.dtype();
            let text = format!(
                "query q unit tick {{ input ~e: {{k: {dtype}, v: i64, x: f64, b: bool}} point key k overlap last \
                 input ~f: {{k: {dtype}, w: f64}} point key k overlap first  {text}  output ~y }}"
            );
            let program = ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            // Far apart, only some of the keys have room on a line, or none.
            for (n, stretch) in [(0, 1), (1, 1), (200, 1), (100, 1 << 50), (40, 1 << 53)] {
                let far = |events: Vec<Event>| -> Vec<Event> {
                    let moved = |e: Event| Event::point(e.end * stretch, e.value);
                    events.into_iter().map(moved).collect()
                };
                let others = points(kind, n, &mut random).into_iter().map(|event| {
                    let Value::Record(fields) = &event.value else {
                        unreachable!("points have records")
                    };
                    let fields = [fields[0].clone(), fields[2].clone()];
                    Event::point(event.end + 1, Value::record(fields))
                });
                let others = far(others.collect());
                let events = far(points(kind, n, &mut random));
                let inputs = Inputs::from([("e".to_owned(), events), ("f".to_owned(), others)]);
                let arrays = buffers(&program, &inputs);
                // Before the middle, after it, and next to nothing.
                let parts = [(-5, 103), (120, 500), (88, 89)];
                let parts = parts.map(|(from, to)| Some(Span::new(from * stretch, to * stretch)));
                for part in std::iter::once(None).chain(parts) {
                    let options = Options {
                        part,
                        ..Options::default()
                    };
                    let expected = run_buffers(&program, &arrays, &options)
                        .unwrap_or_else(|e| panic!("{e}\n{text}"));
                    if let Some(difference) = difference(&program, &arrays, &options, &expected) {
                        panic!("{kind:?} {part:?}\n{}{difference}", format_inputs(&inputs));
                    }
                }
            }
        }
    }
}

#[test]
fn how_keys_are_run_follows_from_what_is_read() {
    let explained = |text: &str| {
        let text = format!(
            "query q unit tick {{ input ~e: {{k: i32, v: i64, x: f64, b: bool}} point key k \
             input ~f: {{k: i32, w: f64}} point key k  {text}  output ~y }}"
        );
        let query = Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        query.compile().expect("compiles").explain()
    };
    for text in ON_LINES {
        let plan = explained(text);
        assert!(plan.contains("on one line of time"), "{text}\n{plan}");
    }
    for text in IN_PLACE {
        let plan = explained(text);
        assert!(plan.contains("keys: rows as they came"), "{text}\n{plan}");
    }
    for text in [
        "~y[t] = reduce sum ~e[#-3 : #] map (~e[t].x)",
        "~y[t] = reduce sum ~e[-inf : t] map (~e[t].x)",
        "~y[t every 5] = reduce mean ~e[t-5 : t] map (~e[t].x)",
    ] {
        let plan = explained(text);
        let how = ["on one line of time", "rows as they came"];
        assert!(!how.iter().any(|how| plan.contains(how)), "{text}\n{plan}");
    }
}

#[test]
fn a_span_without_rows_has_no_windows_by_key() {
    let text = "query q unit tick { input ~e: {k: i64, v: i64} point key k  ~y[t every 5] = reduce sum ~e[t-10:t] map (~e[t].v)  output ~y }";
    let program = ir::parse(text).expect("a query");
    let arrays = buffers(&program, &Inputs::from([("e".to_owned(), Vec::new())]));
    let options = Options {
        span: Some(Span::new(0, 100)),
        ..Options::default()
    };
    let expected = run_buffers(&program, &arrays, &options).expect("runs");
    assert_eq!(difference(&program, &arrays, &options, &expected), None);
}

/// Rows of some keys, of which every other one comes twice only.
fn many_points(n: usize, keys: i64, random: &mut Random) -> Vec<Event> {
    let mut t = 0;
    let mut event = |number: usize| {
        t += random.below(3);
        let key = if number.is_multiple_of(2) {
            random.below(keys)
        } else {
            keys + (number % (n / 2)) as i64
        };
        let fields = [Value::Int(key), Value::Int(random.below(1 << 40))];
        Event::point(t, Value::record(fields))
    };
    (0..n).map(&mut event).collect()
}

#[test]
fn rows_find_those_of_their_key_in_other_parts() {
    let text = "query q unit tick { input ~e: {k: i64, v: i64} point key k overlap bag  input ~f: {k: i64, v: i64} point key k overlap bag \
                ~y[t at ~e] = {v: ~e[t].v, h: hold(~f[t]).v, r: hold(~f[t], 1000).v, p: ~e.prev(1).v, q: ~e.prev(3).v}  output ~y }";
    let program = ir::parse(text).expect("a query");
    let mut random = Random(5);
    // Enough for a part on each of some threads.
    let rows = 1 << 17;
    let [e, f] = [(); 2].map(|()| many_points(rows, 50, &mut random));
    let parts = |event: &Event| {
        let Value::Record(fields) = &event.value else {
            unreachable!("points have records")
        };
        let (Value::Int(key), v) = (&fields[0], fields[1].clone()) else {
            unreachable!("keys are integers")
        };
        (*key, v)
    };
    let mut held: BTreeMap<i64, (i64, Value)> = BTreeMap::new();
    let mut before: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    let mut next = f.iter().peekable();
    let mut expected: Vec<(i64, i64, Value)> = Vec::new();
    for event in &e {
        while let Some(event) = next.next_if(|other| other.end <= event.end) {
            let (key, v) = parts(event);
            held.insert(key, (event.end, v));
        }
        let (key, v) = parts(event);
        let last = held.get(&key);
        let young = last.filter(|(end, _)| event.end - end < 1000);
        let value = |found: Option<&(i64, Value)>| found.map_or(Value::Null, |(_, v)| v.clone());
        let earlier = before.entry(key).or_default();
        let back = |n: usize| {
            let at = earlier.len().checked_sub(n);
            at.map_or(Value::Null, |at| earlier[at].clone())
        };
        let fields = [v.clone(), value(last), value(young), back(1), back(3)];
        expected.push((event.end, key, Value::record(fields)));
        earlier.push(v);
    }
    expected.sort_by_key(|(end, key, _)| (*end, *key));
    let inputs = Inputs::from([("e".to_owned(), e), ("f".to_owned(), f)]);
    let arrays = buffers(&program, &inputs);
    let compiled = Query::new(program).expect("verified").compile();
    let compiled = compiled.expect("compiles");
    for threads in [1, 2, 3, 8] {
        let options = RunOptions::default().threads(threads);
        let found = compiled.run(&arrays, &options).expect("runs");
        let found = events_of(&found).expect("a buffer of events");
        assert_eq!(found.len(), expected.len());
        for (found, (end, key, value)) in found.iter().zip(&expected) {
            let Value::Record(fields) = &found.value else {
                unreachable!("a record")
            };
            assert_eq!(found.end, *end);
            assert!(fields[0].same(&Value::Int(*key)), "{found:?}");
            assert!(Value::record(fields[1..].to_vec()).same(value), "{found:?}");
        }
    }
}
