//! Periodic inputs: reads of other periods, samples that are missing, recurrences in strips. All against the oracle, bit for bit.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Backend, Query, RunOptions,
    arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::{Value, events_of},
    ir::{Span, Unit},
};

/// Which samples are missing.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Missing {
    None,
    /// One in so many, and some runs.
    Some(u64),
    /// All but a few at the beginning.
    AfterTen,
}

/// Samples of `columns` at `first`, `first + period`, …
struct Samples {
    first: i64,
    period: i64,
    length: i64,
    len: usize,
    missing: Missing,
}

/// A number that looks random.
fn mixed(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

impl Samples {
    fn is_missing(&self, i: usize) -> bool {
        match self.missing {
            Missing::None => false,
            Missing::Some(n) => mixed(i as u64).is_multiple_of(n) || i % 97 > 90,
            Missing::AfterTen => i >= 10,
        }
    }

    fn timeline(&self) -> Timeline {
        let spans = Spans::Fixed(self.length);
        Timeline::regular(self.first, self.period, self.len, spans)
    }

    fn values(&self) -> ArrayRef {
        let value = |i: usize| (!self.is_missing(i)).then(|| mixed(i as u64) as f64 / 7.0 - 3e8);
        Arc::new((0..self.len).map(value).collect::<Float64Array>())
    }

    fn scalar(&self) -> SnapshotBuffer {
        let column = Column::new("x", self.values());
        SnapshotBuffer::scalar(self.timeline(), column, Unit::Tick).unwrap()
    }

    /// `{v: f64, n: i32, b: bool}`, rows missing, and some fields of those that are there.
    fn record(&self) -> SnapshotBuffer {
        let whole = Samples {
            missing: Missing::None,
            ..*self
        };
        let some = |i: usize, n: u64| !mixed(i as u64 + 77).is_multiple_of(n);
        let ints = (0..self.len).map(|i| some(i, 5).then_some(i as i32 - 50));
        let bools = (0..self.len).map(|i| some(i, 7).then_some(i % 3 == 0));
        let columns = vec![
            Column::new("v", whole.values()),
            Column::new("n", Arc::new(ints.collect::<Int32Array>())),
            Column::new("b", Arc::new(bools.collect::<BooleanArray>())),
        ];
        let rows = (0..self.len).map(|i| !self.is_missing(i)).collect();
        SnapshotBuffer::record(self.timeline(), columns, Some(rows), Unit::Tick).unwrap()
    }
}

/// Runs a query by the oracle and by both kinds of loops, in pieces or strips of several sizes, and of a part.
fn check(query: &str, inputs: &BTreeMap<String, SnapshotBuffer>, what: &str) {
    let compiled = Query::parse(query).unwrap_or_else(|e| panic!("{e}\n{query}"));
    let compiled = compiled.compile().unwrap();
    let explained = compiled.explain();
    assert!(!explained.contains("interpreted, because"), "{explained}");
    let ends: Vec<i64> = inputs
        .values()
        .flat_map(|x| x.timeline().ends().to_vec())
        .collect();
    let middle = ends.get(ends.len() / 2).copied().unwrap_or(0);
    for part in [None, Some(Span::new(middle, middle.saturating_add(100)))] {
        let options = |backend| {
            let options = RunOptions::default().backend(backend);
            match part {
                Some(part) => options.part(part),
                None => options,
            }
        };
        let right = compiled
            .run(inputs, &options(Backend::Interpreter))
            .unwrap();
        let right = events_of(&right).unwrap();
        let ways = [
            (Backend::Loops, Some(64)),
            (Backend::Native, Some(8)),
            (Backend::Native, Some(72)),
            (Backend::Native, None),
        ];
        for (backend, rows) in ways {
            let mut options = options(backend);
            if let Some(rows) = rows {
                options = options.piece_rows(rows);
            }
            let found = compiled.run(inputs, &options).unwrap();
            let found = events_of(&found).unwrap();
            let same =
                found.len() == right.len() && found.iter().zip(&right).all(|(a, b)| a.same(b));
            let different = found.iter().zip(&right).find(|(a, b)| !a.same(b));
            assert!(
                same,
                "{backend:?} in {rows:?} rows, part {part:?}, {what}: {} events for {}, {different:?}\n{query}\n{explained}",
                found.len(),
                right.len()
            );
        }
    }
}

/// Data of all sizes, gaps and places in time.
fn samples(period: i64, length: i64) -> impl Iterator<Item = Samples> {
    let missing = [
        Missing::None,
        Missing::Some(100),
        Missing::Some(3),
        Missing::AfterTen,
    ];
    let firsts = [0, 3, -1001, i64::MIN + 300, i64::MAX - 250_000];
    let lens = [0, 1, 7, 8, 9, 64, 65, 700, 3000];
    lens.into_iter().enumerate().flat_map(move |(k, len)| {
        missing
            .into_iter()
            .enumerate()
            .map(move |(m, missing)| Samples {
                first: firsts[(k + m) % firsts.len()],
                period,
                length,
                len,
                missing,
            })
    })
}

fn check_all(period: i64, length: i64, record: bool, bodies: &[&str]) {
    let dtype = if record {
        "{v: f64, n: i32, b: bool}"
    } else {
        "f64"
    };
    for body in bodies {
        let query = format!(
            "query q unit tick {{ input ~x: {dtype} fixed {length} period {period}  {body}  output ~y }}"
        );
        for data in samples(period, length) {
            let x = if record { data.record() } else { data.scalar() };
            let what = format!(
                "{} samples every {} from {}, missing {:?}",
                data.len, data.period, data.first, data.missing
            );
            check(&query, &BTreeMap::from([("x".to_owned(), x)]), &what);
        }
    }
}

/// Outputs that the caches do not hold, of which the oracle computes the parts at both ends and one in the middle.
#[test]
fn reads_of_another_period_by_much_data() {
    let data = Samples {
        first: -1001,
        period: 4,
        length: 4,
        len: 1_500_000,
        missing: Missing::None,
    };
    let (begin, end) = (data.first, data.first + data.period * data.len as i64);
    let inputs = BTreeMap::from([("x".to_owned(), data.scalar())]);
    for body in [
        "~y[t every 5] = if t == end(~x[t]) then ~x[t] else ~x[t-4] + (~x[t] - ~x[t-4]) * 0.3",
        "~y[t every 3 offset 1] = coalesce(~x[t+400], 0.0) - coalesce(~x[t-8], 1.0)",
    ] {
        let query =
            format!("query q unit tick {{ input ~x: f64 fixed 4 period 4  {body}  output ~y }}");
        let compiled = Query::parse(&query).unwrap().compile().unwrap();
        for threads in [1, 2] {
            let options = RunOptions::default().threads(threads);
            let all = events_of(&compiled.run(&inputs, &options).unwrap()).unwrap();
            for part in [begin - 1000, begin + 3_333_333, end - 1000] {
                let part = Span::new(part, part + 2000);
                let oracle = RunOptions::default().backend(Backend::Interpreter);
                let right = compiled.run(&inputs, &oracle.part(part)).unwrap();
                let right = events_of(&right).unwrap();
                let found = all.iter().filter(|e| part.contains(e.end));
                assert!(right.len() > 100, "{body}");
                assert!(
                    found.clone().count() == right.len()
                        && found.zip(&right).all(|(a, b)| a.same(b)),
                    "{body}: {part:?} on {threads} threads"
                );
            }
        }
    }
}

#[test]
fn reads_of_another_period() {
    check_all(
        4,
        4,
        false,
        &[
            // Cycles short and long, both ways.
            "~y[t every 5] = ~x[t] + ~x[t-4] * 2.0",
            "~y[t every 7 offset 3] = coalesce(~x[t+4], 0.0) - coalesce(~x[t-8], 1.0)",
            "~y[t every 3] = ~x[t]",
            "~y[t every 97] = ~x[t]",
            "~y[t every 5] = let since = cast(t - start(~x[t]), i64) in if t == end(~x[t]) then ~x[t] else ~x[t-4] * cast(since, f64)",
            "~y[t every 5] = coalesce(~x.prev(1), 0.0)",
            // What a window reads is computed before, where all that is read exists and where not.
            "~d[t every 5] = ~x[t] - ~x[t-4]  ~y[t every 5] = reduce max ~d[t-50 : t]",
            "~d[t every 6] = coalesce(~x[t-12], 7.0)  ~y[t every 6] = reduce sum ~d[t-60 : t]",
        ],
    );
    check_all(
        4,
        3,
        false,
        &[
            "~y[t every 5] = coalesce(~x[t], -1.0) + cast(cast(t - coalesce(end(~x[t]), t), i64), f64)",
        ],
    );
}

#[test]
fn samples_of_which_only_whether_they_exist_is_asked() {
    check_all(
        5,
        5,
        false,
        &[
            "~y[t on ~x[t-5]] = 1",
            "~s[t on ~x[t-5]] = 1  ~y[t at ~s] = ~x[t]",
            "~s[t on ~x[t-30], ~x[t+10]] = 1  ~y[t at ~s] = reduce sum ~x[t-20 : t]",
        ],
    );
}

#[test]
fn reads_of_a_coarse_period() {
    check_all(
        2,
        2,
        false,
        &[
            "~m[t every 100] = reduce mean ~x[t-100 : t]  ~y[t] = ~x[t] - ~m[t]",
            "~m[t every 64] = {a: reduce max ~x[t-64 : t], b: reduce len ~x[t-64 : t] > 30}  \
             ~y[t at ~x] = if ~m[t-64].b then ~m[t].a else cast(cast(end(~m[t]) - t, i64), f64)",
            "~m[t every 100 offset 7] = reduce std(0) ~x[t-100 : t]  ~y[t at ~x] = coalesce(~m.prev(2), ~x[t]) + coalesce(~m[t+50], 0.0)",
        ],
    );
    check_all(64, 60, false, &["~y[t every 3] = coalesce(~x[t], ~x[t-3])"]);
}

#[test]
fn windows_over_missing_samples() {
    check_all(
        5,
        5,
        false,
        &[
            "~m[t every 500] = reduce mean ~x[t-500 : t]  ~y[t every 5] = coalesce(~x[t], ~m[t])",
            "~y[t] = reduce mean ~x[t-100 : t] + reduce std ~x[t-100 : t]",
            "~y[t at ~x] = reduce sum ~x[t-33 : t-2] map (if ~x[t] > 0.0 then sqrt(~x[t]) else null)",
            "~y[t every 20] = reduce median ~x[t-60 : t]",
            "~y[t every 10] = {n: reduce len ~x[t-1000 : t], s: reduce sum ~x[t-1000 : t], k: reduce kurtosis ~x[t-1000 : t]}",
            "~a[t] = ~x[t] * 2.0  ~y[t] = reduce sum ~a[t-100 : t]",
            "~y[t] = reduce sum ~x[#-5 : #]",
            "~y[t] = reduce first ~x[t-50 : t]",
        ],
    );
    check_all(
        5,
        4,
        true,
        &[
            "~y[t every 50] = reduce sum ~x[t-50 : t] map (~x[t].v) + cast(reduce len ~x[t-50 : t] map (~x[t].n), f64)",
            "~y[t] = {a: reduce std ~x[t-100 : t] map (~x[t].v), b: reduce any ~x[t-100 : t] map (~x[t].b), c: ~x[t].n}",
            "~y[t every 5] = coalesce(~x[t].n, 0) + coalesce(reduce max ~x[t-40 : t] map (~x[t].n), 7)",
        ],
    );
}

/// Blocks of a few groups, whole and not; reductions that share their loops; counts of events that may be missing.
#[test]
fn short_windows_of_any_length() {
    for length in [1, 2, 3, 7, 8, 9, 14, 15, 20, 24] {
        let w = 5 * length;
        let bodies = [
            format!(
                "~y[t] = reduce mean ~x[t-{w} : t] - reduce sum ~x[t-{w} : t] map (abs(~x[t]))"
            ),
            format!(
                "~c[t] = ~x[t] - ~x[t-5]  ~y[t] = if reduce len ~c[t-{w} : t] >= {length} then \
                 reduce mean ~c[t-{w} : t] map (max(~c[t], 0.0)) / reduce mean ~c[t-{w} : t] map (max(-~c[t], 0.0)) \
                 else null"
            ),
            // All pass, then most do.
            format!(
                "~p[t] = if ~x[t] > -4e8 then ~x[t] else null  ~y[t] = reduce mean ~p[t-{w} : t]"
            ),
            format!(
                "~p[t] = if ~x[t] > -2.99e8 then ~x[t] else null  \
                 ~y[t at ~x] = {{m: reduce mean ~p[t-{w} : t], n: reduce len ~p[t-{w} : t], s: reduce std ~x[t-{w} : t]}}"
            ),
        ];
        for body in bodies {
            let query = format!(
                "query q unit tick {{ input ~x: f64 fixed 5 period 5  {body}  output ~y }}"
            );
            let data = [
                (300, Missing::None, 3),
                (2500, Missing::None, -1001),
                (300, Missing::Some(100), 0),
            ];
            for (len, missing, first) in data {
                let data = Samples {
                    first,
                    period: 5,
                    length: 5,
                    len,
                    missing,
                };
                let what = format!("{len} samples from {first}, missing {missing:?}");
                let inputs = BTreeMap::from([("x".to_owned(), data.scalar())]);
                check(&query, &inputs, &what);
            }
        }
    }
}

#[test]
fn recurrences_in_strips() {
    check_all(
        5,
        5,
        false,
        &[
            // As the preprocessing of Pan and Tompkins.
            "~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) - 0.25 * coalesce(~low.prev(2), 0.0) + ~x[t] - coalesce(~x[t-30], 0.0)
             ~run[t at ~x]: f64 = coalesce(~run[t-5], 0.0) * 0.5 + ~low[t] - coalesce(~low[t-160], 0.0)
             ~high[t at ~x] = coalesce(~low[t-80], 1.0) - ~run[t]
             ~y[t] = reduce sum ~high[t-150 : t] map (~high[t] * ~high[t])",
            // The output is the recurrence.
            "~m[t] = reduce mean ~x[t-50 : t]  ~y[t at ~x]: f64 = coalesce(~y.prev(3), 0.0) * 0.5 + ~m[t]",
            // Some rows back in registers, others in memory, of other types.
            "~y[t at ~x]: f32 = cast(~x[t], f32) + coalesce(~y.prev(2), cast(1.0, f32)) - coalesce(~y.prev(7), cast(0.5, f32)) + coalesce(~y[t-20], cast(0.25, f32))",
            "~n[t at ~x]: i32 = cast(1, i32) + coalesce(~n.prev(4), cast(3, i32)) - coalesce(~n.prev(5), cast(1, i32))
             ~y[t at ~x]: i64 = coalesce(~y.prev(1), 0) - coalesce(~y.prev(100), 5) + cast(~n[t], i64)",
            // Records and φ on the way.
            "~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) + ~x[t]
             ~r[t at ~x] = {a: ~low[t-5], b: ~low[t] > 0.0}
             ~y[t at ~x] = {c: reduce max ~low[t-40 : t], d: ~r[t-10].a, e: ~r[t-35].b}",
            "~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) + ~x[t]  ~f[t] = if ~low[t] > 0.0 then ~low[t] else null
             ~y[t at ~x] = coalesce(~f[t-5], -1.0) + coalesce(reduce sum ~f[t-35 : t-5], 0.0)",
            // Reads ahead, or however far back: no strips.
            "~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) + ~x[t]  ~y[t at ~x] = coalesce(~low[t+5], 0.0)",
            "~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) + ~x[t]  ~y[t at ~x] = reduce max ~low[-inf : t]",
        ],
    );
}

#[test]
fn strips_are_explained() {
    let text = "query q unit tick { input ~x: f64 fixed 5 period 5
        ~low[t at ~x]: f64 = 0.5 * coalesce(~low.prev(1), 0.0) + ~x[t]
        ~y[t] = reduce sum ~low[t-150 : t]  output ~y }";
    let explained = Query::parse(text).unwrap().compile().unwrap().explain();
    assert!(
        explained.contains(
            "in strips of 8192 rows, one after the other, because ~low reads its own past"
        ),
        "{explained}"
    );
}

/// The least of the last `window` values up to each, by a queue of those that may still become it.
fn minima(values: &[f64], window: usize) -> Vec<f64> {
    let mut queue = std::collections::VecDeque::new();
    let mut least = Vec::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        while queue.back().is_some_and(|j: &usize| values[*j] > *value) {
            queue.pop_back();
        }
        queue.push_back(i);
        while queue.front().is_some_and(|j| j + window <= i) {
            queue.pop_front();
        }
        least.push(values[queue[0]]);
    }
    least
}

/// Windows that the oracle would take minutes for: those whose suffixes are kept in a ring, and all around the lengths at which the algorithm changes.
#[test]
fn extremes_of_windows_of_any_length() {
    let data = Samples {
        first: 1,
        period: 1,
        length: 1,
        len: 90_001,
        missing: Missing::None,
    };
    let values = (0..data.len).map(|i| mixed(i as u64) as f64 / 7.0 - 3e8);
    let values: Vec<f64> = values.collect();
    let inputs = BTreeMap::from([("x".to_owned(), data.scalar())]);
    let lengths = [
        1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 64, 100, 2047, 4096, 16_383, 16_384, 16_400, 17_003,
        40_000, 80_000,
    ];
    for window in lengths {
        let right = minima(&values, window);
        for (sign, agg) in [("", "min"), ("-", "max")] {
            let query = format!(
                "query q unit tick {{ input ~x: f64 fixed 1 period 1
                   ~z[t] = {sign}~x[t]
                   ~y[t] = {sign}(reduce {agg} ~z[t-{window} : t])  output ~y }}"
            );
            let compiled = Query::parse(&query).unwrap_or_else(|e| panic!("{e}\n{query}"));
            let compiled = compiled.compile().unwrap();
            assert!(compiled.explain().contains("doubling"), "{query}");
            for rows in [None, Some(8192), Some(1000)] {
                let mut options = RunOptions::default();
                if let Some(rows) = rows {
                    options = options.piece_rows(rows);
                }
                let found = compiled.run(&inputs, &options).unwrap();
                let found = events_of(&found).unwrap();
                assert_eq!(found.len(), right.len(), "{query}");
                for (i, (event, right)) in found.iter().zip(&right).enumerate() {
                    assert!(
                        event.value.same(&Value::Float(*right)),
                        "row {i} in {rows:?} rows: {event:?}, not {right}\n{query}"
                    );
                }
            }
        }
    }
}
