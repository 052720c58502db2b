//! Sums and products of doubles by key on a grid, in one pass over all rows: the order of `docs/ir.md`, bit for bit.

use proptest::prelude::*;
use tilt::{
    Backend, Query, RunOptions,
    interp::{Event, Inputs, Options, Value, events_of, run_buffers},
    ir::{self, Program, Span},
};

use crate::{generate::buffers, keyed::difference, properties::config, text::format_inputs};

/// Over `~e: {k, x: f64, y: f32, n: i64, b: bool}`, all in one pass.
const IN_ORDER: [&str; 10] = [
    "~p[t] = ~e[t].x  ~y[t every 16] = reduce sum ~p[t-16 : t]",
    "~p[t] = if ~e[t].b then ~e[t].x else null  ~y[t every 16] = reduce sum ~p[t-16 : t]",
    "~p[t] = ~e[t].y  ~y[t every 16] = reduce mean ~p[t-16 : t]",
    "~p[t] = if ~e[t].b then ~e[t].y else null  ~y[t every 16] = reduce mean ~p[t-16 : t]",
    "~p[t] = ~e[t].x / 4.0  ~y[t every 64] = reduce product ~p[t-64 : t]",
    "~p[t] = ~e[t].x * 0.1 + 1.0  ~y[t every 16] = reduce rms ~p[t-32 : t-16]",
    "~p[t] = ~e[t].x  ~y[t every 16] = reduce crest_factor ~p[t : t+16]",
    // Beside states that do not ask for the order, over windows of several panes.
    "~p[t] = if ~e[t].n > 0 then ~e[t].x else null  ~q[t] = ~e[t].n \
     ~y[t every 16] = if (reduce len ~p[t-16 : t]) > 0 \
     then {s: reduce sum ~p[t-16 : t], n: reduce sum ~q[t-48 : t], m: reduce max ~q[t-32 : t-16]} else null",
    // The same rows in different orders of contributions, and all of them.
    "~p[t] = if ~e[t].b then ~e[t].x else null  ~q[t] = if ~e[t].n > 2 then ~e[t].x else null  ~r[t] = ~e[t].x \
     ~y[t every 16] = if (reduce len ~r[t-16 : t]) > 0 \
     then {p: reduce sum ~p[t-16 : t], q: reduce mean ~q[t-16 : t], r: reduce sum ~r[t-16 : t], c: reduce len ~e[t-16 : t]} else null",
    // Two windows of one pane each.
    "~p[t] = ~e[t].x  ~y[t every 16] = (reduce sum ~p[t-16 : t]) - (reduce sum ~p[t-32 : t-16])",
];

/// The same, split inside of their windows, so that part of them is combined backward.
const NOT_IN_ONE_PASS: [&str; 4] = [
    "~p[t] = ~e[t].x  ~y[t every 16 offset 3] = reduce sum ~p[t-16 : t]",
    "~p[t] = ~e[t].x  ~y[t every 16] = reduce sum ~p[t-21 : t-5]",
    "~p[t] = ~e[t].x  ~y[t every 16] = reduce mean ~p[t-48 : t]",
    "~p[t] = ~e[t].x  ~y[t every 16] = reduce std ~p[t-16 : t]",
];

fn program(key: &str, text: &str) -> Program {
    let text = format!(
        "query q unit tick {{ input ~e: {{k: {key}, x: f64, y: f32, n: i64, b: bool}} point key k overlap bag  {text}  output ~y }}"
    );
    ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// Twelve decades of both signs, so that every other order of additions gives another sum; sometimes what is no number, or no value.
    fn double(&mut self, odd: u64) -> Value {
        match self.below(odd) {
            0 => Value::Null,
            1 => Value::Float([f64::NAN, f64::INFINITY, -0.0, 0.0][self.below(4) as usize]),
            _ => {
                let digits = self.below(2_000_001) as f64 - 1e6;
                Value::Float(digits * 10f64.powi(self.below(12) as i32 - 6) / 3.0)
            }
        }
    }
}

/// Some points of `keys` keys, `busy` to an instant, now and then a long silence.
fn points(seed: u64, n: usize, keys: u64, busy: u64, odd: u64) -> Vec<Event> {
    let mut random = Random(seed | 1);
    let mut t = -70;
    let mut event = || {
        if random.below(busy) == 0 {
            t += 1;
        }
        if random.below(400) == 0 {
            t += 97;
        }
        // Some keys have most of the rows.
        let key = random.below(keys).min(random.below(keys));
        let (x, n) = (random.double(odd), random.below(9) as i64 - 4);
        let y = match random.double(odd) {
            Value::Float(y) => Value::Float(f64::from(y as f32)),
            other => other,
        };
        let b = Value::Bool(random.below(3) == 0);
        let fields = [Value::Int(key as i64 * 3), x, y, Value::Int(n), b];
        Event::point(t, Value::record(fields))
    };
    (0..n).map(|_| event()).collect()
}

#[test]
fn doubles_by_key_take_one_pass_where_windows_begin_with_their_split() {
    let plan = |text: &str| {
        let query = Query::new(program("i32", text)).expect("verified");
        query.compile().expect("compiles").explain()
    };
    for text in IN_ORDER {
        let plan = plan(text);
        let how = "keys: all in one pass, a state for each, doubles in order";
        assert!(plan.contains(how), "{text}\n{plan}");
    }
    for text in NOT_IN_ONE_PASS {
        let plan = plan(text);
        assert!(plan.contains("keys: one after the other"), "{text}\n{plan}");
    }
}

#[test]
fn a_row_that_contributes_nothing_holds_its_place() {
    let text =
        "~p[t] = if ~e[t].b then ~e[t].x else null  ~y[t every 16] = reduce sum ~p[t-16 : t]";
    let program = program("i32", text);
    // Of key 3 those at places 3 and 8 do not count.
    let x = [1e16, 1.0, -1e16, 7.0, 1.0, 3.0, 1e16, 1.0, 7.0, -1e16, 5.0];
    let row = |(place, x): (usize, f64)| {
        let fields = |key: i64, b: bool| {
            let b = Value::Bool(b);
            Value::record([
                Value::Int(key),
                Value::Float(x),
                Value::Null,
                Value::Int(0),
                b,
            ])
        };
        // The rows of another key between them have places of their own.
        let own = Event::point(place as i64 + 1, fields(3, place != 3 && place != 8));
        [
            own,
            Event::point(place as i64 + 1, fields(4, place % 2 == 0)),
        ]
    };
    let rows: Vec<Event> = x.into_iter().enumerate().flat_map(row).collect();
    let first = ((x[0] + x[1]) + x[2]) + ((x[4] + x[5]) + (x[6] + x[7]));
    let of_3 = first + (x[9] + x[10]);
    let of_4 = ((x[0] + x[2]) + (x[4] + x[6])) + (x[8] + x[10]);
    // By hand; doubles are two apart near 1e16.
    assert_eq!((of_3, of_4), (8.0, 1e16 + 12.0));
    let one_by_one = [0, 1, 2, 4, 5, 6, 7, 9, 10].map(|place: usize| x[place]);
    assert_eq!(one_by_one.iter().sum::<f64>(), 9.0);

    let inputs = Inputs::from([("e".to_owned(), rows)]);
    let arrays = buffers(&program, &inputs);
    let expected = run_buffers(&program, &arrays, &Options::default()).expect("runs");
    let events = events_of(&expected).expect("a buffer of events");
    let values: Vec<&Value> = events.iter().map(|e| &e.value).collect();
    for (value, right) in values.iter().zip([(3, of_3), (4, of_4)]) {
        let right = Value::record([Value::Int(right.0), Value::Float(right.1)]);
        assert!(value.same(&right), "{value:?} is not {right:?}");
    }
    assert_eq!(values.len(), 2);
    let difference = difference(&program, &arrays, &Options::default(), &expected);
    assert_eq!(difference, None);
}

/// More rows than chunks hold, keys with one row and with thousands, windows with a chunk and a few, on all threads.
#[test]
fn doubles_by_key_agree_with_the_oracle_over_many_chunks() {
    for (seed, keys, busy) in [(1, 1, 300), (2, 7, 400), (3, 400, 900), (4, 20_000, 200)] {
        for text in [IN_ORDER[1], IN_ORDER[8]] {
            let program = program("i64", text);
            let inputs = Inputs::from([("e".to_owned(), points(seed, 30_000, keys, busy, 12))]);
            let arrays = buffers(&program, &inputs);
            let expected = run_buffers(&program, &arrays, &Options::default()).expect("runs");
            let expected = events_of(&expected).expect("a buffer of events");
            let compiled = Query::new(program).expect("verified").compile();
            let compiled = compiled.expect("compiles");
            for threads in [1, 2, 8] {
                for backend in [Backend::Native, Backend::Loops] {
                    let options = RunOptions::default().threads(threads).backend(backend);
                    let found = compiled.run(&arrays, &options).expect("runs");
                    let found = events_of(&found).expect("a buffer of events");
                    let same = found.len() == expected.len()
                        && found.iter().zip(&expected).all(|(a, b)| a.same(b));
                    assert!(same, "{seed} {text} {threads} {backend:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: (config().cases / 20).max(1), ..config() })]

    #[test]
    fn doubles_by_key_agree_with_the_oracle(
        text in 0..IN_ORDER.len() + NOT_IN_ONE_PASS.len(),
        (seed, n, keys, busy) in (any::<u64>(), 0..900_usize, 1..40_u64, 1..90_u64),
        odd in 3..30_u64,
        key in 0..3_usize,
        part in prop::option::of((-80..300_i64, 1..200_i64)),
    ) {
        let text = IN_ORDER.iter().chain(&NOT_IN_ONE_PASS).nth(text).expect("a query");
        let program = program(["i32", "i64", "i16"][key], text);
        let inputs = Inputs::from([("e".to_owned(), points(seed, n, keys, busy, odd))]);
        let arrays = buffers(&program, &inputs);
        let part = part.map(|(start, length)| Span::new(start, start + length));
        let options = Options { part, ..Options::default() };
        let expected = run_buffers(&program, &arrays, &options).expect("runs");
        if let Some(difference) = difference(&program, &arrays, &options, &expected) {
            return Err(TestCaseError::fail(format!("{part:?}\n{}{difference}", format_inputs(&inputs))));
        }
    }
}
