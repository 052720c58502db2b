//! Irregular and keyed streams.

use std::ops::AddAssign;

use tilt::{
    arrow::buffer::ScalarBuffer,
    data::Timeline,
    ir::{Span, Unit},
};

use super::fit;
use crate::{
    data::{
        Element, Inputs, Random, Real, column, input, integers, points, reals, records,
        spiky_stamps, stamps, stream, tuples,
    },
    reference::{
        fold::{Fold, Mean, Min, Sum},
        keyed::{self, Groups},
        time::{self, Intervals, Panes},
    },
    rows::Rows,
    workload::{Entry, Hand, Traffic, Workload, Yardstick},
};

/// Tumbling windows of keyed queries, in ms.
const TUMBLING: i64 = 10_000;

pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for slide in [1, 4, 16, 64] {
        let name = |agg| format!("spiky, 64 s every {slide} s, {agg} i32");
        entries.push(Entry::new(name("min"), move |n| {
            spiky::<Min>("min", n, slide, |v| {
                Rows::default().column(v.iter().copied())
            })
        }));
        entries.push(Entry::new(name("sum"), move |n| {
            spiky::<Sum>("sum", n, slide, |v| {
                Rows::default().integers(v.iter().copied())
            })
        }));
        entries.push(Entry::new(name("avg"), move |n| {
            spiky::<Mean>("mean", n, slide, |v| {
                Rows::default().column(v.iter().copied())
            })
        }));
    }
    entries.extend([
        Entry::new("irregular mean f64, about 1000 events", irregular).speed(
            Yardstick::Row("sliding mean f64, window 1000".to_owned()),
            1.0 / 3.0,
        ),
        Entry::new("join of intervals f64, per output", join::<f64>)
            .nanos(6.0)
            .speed(Yardstick::Hand(0), 0.5)
            .two_threads(0.0),
        Entry::new("join of intervals f32, per output", join::<f32>)
            .nanos(6.0)
            .speed(Yardstick::Hand(0), 0.5)
            .two_threads(0.0),
        Entry::new("keyed count, 1/3 pass, 10 k keys", |n| count(n, 10_000))
            .speed(Yardstick::Memory, 0.3)
            .two_threads(0.0)
            .unfused(0.0),
        // Unfused it runs key by key, which takes minutes for so many.
        Entry::new("keyed count, 1/3 pass, 1 M keys", |n| count(n, 1_000_000)).two_threads(0.0),
        yahoo("Yahoo (Grizzly), 10 k keys", |n| {
            grizzly::<i64, i64>(n, &integers(n, 1000, 3), |out, sums| {
                out.integers(sums.iter().copied())
            })
        }),
        yahoo("Yahoo (Grizzly) f64, 10 k keys", |n| {
            grizzly::<f64, f64>(n, &reals(n, 3), doubles)
        }),
        yahoo("Yahoo (Grizzly) f32, 10 k keys", |n| {
            grizzly::<f32, f64>(n, &reals(n, 3), doubles)
        }),
    ]);
    entries
}

fn yahoo(name: &str, build: fn(usize) -> Workload) -> Entry {
    Entry::new(name, build)
        .speed(Yardstick::Hand(0), 0.5)
        .two_threads(0.0)
        .unfused(0.0)
}

fn doubles(rows: Rows, values: &[f64]) -> Rows {
    rows.column(values.iter().copied())
}

/// Hammer Slide's time windows: 64 s over a rate of up to 100 K events a second, less for fewer events.
fn spiky<F: Fold<i32>>(agg: &str, n: usize, slide: i64, values: fn(&[F::Out]) -> Rows) -> Workload {
    const SECOND: i64 = 1_000_000;
    let (stamps, x) = (spiky_stamps(n, (n / 160).max(1), 1), tuples(n));
    Workload {
        query: format!(
            "query q unit us {{ input ~x: i32 point  ~y[t every {slide}s] = reduce {agg} ~x[t-64s : t]  output ~y }}"
        ),
        inputs: input("x", stream(points(&stamps), &x, Unit::Micro)),
        events: n,
        traffic: Traffic::Read(4.0),
        hands: vec![Hand::new(
            Panes::default(),
            move |out| time::hopping::<i32, F>(&stamps, &x, 64 * SECOND, slide * SECOND, out),
            move |out| values(&out.values).at_ends(slide * SECOND, &out.ends),
        )],
    }
}

/// A mean over about a thousand events at every event.
fn irregular(n: usize) -> Workload {
    const GAP: i64 = 8;
    let (stamps, x) = (stamps(n, GAP, 1), reals::<f64>(n, 2));
    let window = fit(1000, n) as i64 * (GAP + 1) / 2;
    let ends = stamps.clone();
    Workload {
        query: format!(
            "query q unit ms {{ input ~x: f64 point  ~y[t] = reduce mean ~x[t-{window}ms : t]  output ~y }}"
        ),
        inputs: input("x", stream(points(&stamps), &x, Unit::Milli)),
        events: n,
        traffic: Traffic::Copy(24.0),
        hands: vec![Hand::new(
            vec![0.0; n],
            move |out| time::mean(&stamps, &x, window, out),
            move |out| Rows::ending(1, ends.iter().copied()).column(out.iter().copied()),
        )],
    }
}

/// Two streams of half the events each.
fn join<T: Real>(n: usize) -> Workload {
    let (a, b) = (intervals::<T>(n / 2, 1), intervals::<T>(n / 2, 2));
    let room = || Intervals {
        starts: vec![0; n + 1],
        ends: vec![0; n + 1],
        values: vec![T::default(); n + 1],
    };
    let inputs = [("a", &a), ("b", &b)].map(|(name, x)| (name.to_owned(), interval_stream(x)));
    let outputs = time::join(&a, &b, &mut room());
    Workload {
        query: format!(
            "query q unit ms {{ input ~a: {0} interval  input ~b: {0} interval  \
             ~y[t] = ~a[t] + ~b[t]  output ~y }}",
            T::NAME
        ),
        inputs: Inputs::from(inputs),
        events: outputs,
        traffic: Traffic::Copy((16.0 + T::BYTES) * (1.0 + n as f64 / outputs as f64)),
        hands: vec![Hand::new(
            (room(), 0),
            move |(out, count)| *count = time::join(&a, &b, out),
            |(out, count)| {
                let edges = out.starts.iter().zip(&out.ends).take(*count);
                Rows::new(edges.map(|(s, e)| Span::new(*s, *e)))
                    .column(out.values[..*count].iter().copied())
            },
        )],
    }
}

/// Events of 1 to 16 ticks, after one in four a gap of 1 to 4.
fn intervals<T: Real>(n: usize, seed: u64) -> Intervals<T> {
    let mut random = Random::new(seed);
    let mut out = Intervals::default();
    let mut t = 0;
    for _ in 0..n {
        if random.below(4) == 0 {
            t += 1 + random.below(4);
        }
        out.starts.push(t);
        t += 1 + random.below(16);
        out.ends.push(t);
        out.values.push(T::of(random.unit() * 100.0 - 50.0));
    }
    out
}

fn interval_stream<T: Real>(x: &Intervals<T>) -> tilt::data::SnapshotBuffer {
    let timeline = Timeline::intervals(x.starts.clone().into(), x.ends.clone().into());
    stream(timeline, &ScalarBuffer::from(x.values.clone()), Unit::Milli)
}

/// 100 events in a millisecond, a million in a window; fewer, if there are not so many.
fn busy_stamps(n: usize) -> ScalarBuffer<i64> {
    let in_a_window = fit(1_000_000, n);
    let stamps = (1..=n).map(|i| (i * TUMBLING as usize).div_ceil(in_a_window) as i64);
    stamps.collect::<Vec<_>>().into()
}

fn count(n: usize, key_count: i64) -> Workload {
    let stamps = busy_stamps(n);
    let (keys, kinds) = (integers::<i32>(n, key_count, 1), integers::<i32>(n, 3, 2));
    let columns = vec![column("key", &keys), column("kind", &kinds)];
    let mut counts = vec![0; key_count as usize];
    Workload {
        query: "query q unit ms { input ~e: {key: i32, kind: i32} point key key overlap bag  \
                ~pass[t] = if ~e[t].kind == 0 then ~e[t].kind else null  \
                ~y[t every 10s] = reduce len ~pass[t-10s : t]  output ~y }"
            .to_owned(),
        inputs: input("e", records(points(&stamps), columns, Unit::Milli)),
        events: n,
        traffic: Traffic::Read(16.0),
        hands: vec![Hand::new(
            Groups::default(),
            move |out| keyed::count(&stamps, &keys, &kinds, TUMBLING, &mut counts, out),
            |out| group_keys(out).integers(out.values.iter().copied()),
        )],
    }
}

/// Sums of type `S`, which the values are widened to.
fn grizzly<T: Element + Into<S>, S: Copy + Default + AddAssign + 'static>(
    n: usize,
    values: &ScalarBuffer<T>,
    sums_of: fn(Rows, &[S]) -> Rows,
) -> Workload {
    const KEYS: i64 = 10_000;
    let stamps = busy_stamps(n);
    let (keys, kinds) = (integers::<i32>(n, KEYS, 1), integers::<i32>(n, 3, 2));
    let values = values.clone();
    let columns = vec![
        column("campaign", &keys),
        column("kind", &kinds),
        column("value", &values),
    ];
    let mut sums = vec![(S::default(), 0); KEYS as usize];
    Workload {
        query: format!(
            "query yahoo unit ms {{ \
                input ~e: {{campaign: i32, kind: i32, value: {}}} point key campaign overlap bag  \
                ~view[t] = if ~e[t].kind == 0 then ~e[t].value else null  \
                ~y[t every 10s] = reduce sum ~view[t-10s : t]  output ~y }}",
            T::NAME
        ),
        inputs: input("e", records(points(&stamps), columns, Unit::Milli)),
        events: n,
        traffic: Traffic::Read(16.0 + T::BYTES),
        hands: vec![Hand::new(
            Groups::<S>::default(),
            move |out| keyed::sum(&stamps, (&keys, &kinds, &values), TUMBLING, &mut sums, out),
            move |out| sums_of(group_keys(out), &out.values),
        )],
    }
}

fn group_keys<V>(out: &Groups<V>) -> Rows {
    Rows::ending(TUMBLING, out.ends.iter().copied()).column(out.keys.iter().copied())
}
