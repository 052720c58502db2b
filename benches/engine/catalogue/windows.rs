//! Periodic streams: select, where, joins on one grid, and windows over samples.

use tilt::{arrow::buffer::ScalarBuffer, ir::Unit};

use super::fit;
use crate::{
    data::{
        Element, Inputs, Real, gaps, input, integers, reals, samples, stream, stream_with_gaps,
        tuples,
    },
    reference::{
        fold::{Fold, Max, Mean, Min, Sum},
        pointwise,
        windows::{self, Running},
    },
    rows::Rows,
    workload::{Entry, Hand, Traffic, Workload, Yardstick},
};

/// The window that the table's bars are about.
const WINDOW: usize = 1000;
/// The window of Hammer Slide's experiment with growing slides.
const HOP_WINDOW: usize = 1024;

pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = vec![
        Entry::new("select f64", select::<f64>)
            .speed(Yardstick::Memory, 0.75)
            .speed(Yardstick::Hand(0), 0.5)
            .two_threads(0.0),
        by_hand("select f32", select::<f32>),
        by_hand("where f64", filter::<f64>),
        by_hand("where f32", filter::<f32>),
        Entry::new("select+where f64", select_where::<f64>)
            .speed(Yardstick::Memory, 0.75)
            .speed(Yardstick::Hand(0), 0.5)
            .two_threads(0.0)
            .unfused(0.0),
        by_hand("select+where f32", select_where::<f32>).unfused(0.0),
        by_hand("inner join f64, one grid", inner_join::<f64>),
        by_hand("inner join f32, one grid", inner_join::<f32>),
        by_hand("outer join f64, one grid, gaps", outer_join::<f64>),
        by_hand("outer join f32, one grid, gaps", outer_join::<f32>),
        Entry::new("tumbling sum f64, window 1000", |n| {
            tumbling::<f64, Sum>("sum", n)
        })
        .speed(Yardstick::Memory, 0.85)
        .speed(Yardstick::Hand(0), 0.5)
        .two_threads(0.0),
        by_hand("tumbling sum f32, window 1000", |n| {
            tumbling::<f32, Sum>("sum", n)
        }),
        Entry::new("tumbling min f64, window 1000", |n| {
            tumbling::<f64, Min>("min", n)
        })
        .speed(Yardstick::Memory, 0.85)
        .two_threads(0.0),
    ];
    entries.extend(sliding());
    entries.extend(hopping());
    entries.extend(hammer_slide());
    entries
}

/// A row whose bar is half of the loop by hand, with one thread and with two.
fn by_hand(name: &str, build: fn(usize) -> Workload) -> Entry {
    Entry::new(name, build)
        .speed(Yardstick::Hand(0), 0.5)
        .two_threads(0.0)
}

/// Windows of 100 … 1 000 000 at every event.
fn sliding() -> impl Iterator<Item = Entry> {
    let windows = [100, 1000, 10_000, 100_000, 1_000_000];
    let entry = |window: usize, share: f64, agg: &str, build: Box<dyn Fn(usize) -> Workload>| {
        let group = format!("sliding {agg}, window ");
        let entry = Entry::new(format!("{group}{window}"), build);
        let entry = if window == WINDOW {
            entry.speed(Yardstick::Memory, share)
        } else {
            entry
        };
        entry.speed(Yardstick::Fastest(group), 1.0 / 1.6)
    };
    windows.into_iter().flat_map(move |w| {
        let integer = move |n| {
            let x = integers::<i64>(n, 1000, 1);
            running::<i64, Sum>("sum", &x, fit(w, n), |out| {
                Rows::default().integers(out.iter().copied())
            })
        };
        let mean = move |n| running::<f64, Mean>("mean", &reals(n, 1), fit(w, n), doubles);
        [
            entry(w, 0.6, "sum i64", Box::new(integer)),
            entry(w, 0.5, "mean f64", Box::new(mean)),
            entry(
                w,
                0.5,
                "min f64",
                Box::new(move |n| scanned::<f64, Min>("min", &reals(n, 1), fit(w, n))),
            ),
            entry(
                w,
                0.5,
                "max f64",
                Box::new(move |n| scanned::<f64, Max>("max", &reals(n, 1), fit(w, n))),
            ),
        ]
    })
}

/// A window of 1024 at every 1, 2, 4 … 1024, and two that their hops do not divide.
fn hopping() -> impl Iterator<Item = Entry> {
    let doubled = (0..=10).map(|i| (1 << i, HOP_WINDOW));
    let hops = doubled.chain([(96, HOP_WINDOW), (300, WINDOW)]);
    hops.flat_map(|(hop, window): (usize, usize)| {
        let name = |agg| format!("hop {hop}, window {window}, {agg} i32");
        [
            Entry::new(name("min"), move |n| {
                hop_of::<Min>("min", n, (hop, window), |v| {
                    Rows::default().column(v.iter().copied())
                })
            }),
            Entry::new(name("sum"), move |n| {
                hop_of::<Sum>("sum", n, (hop, window), |v| {
                    Rows::default().integers(v.iter().copied())
                })
            }),
            Entry::new(name("avg"), move |n| {
                hop_of::<Mean>("mean", n, (hop, window), doubles)
            }),
        ]
        .map(|e| {
            e.speed(Yardstick::Hand(0), 1.0)
                .speed(Yardstick::Hand(1), 3.0)
        })
    })
}

/// Hammer Slide's first experiment: windows of 8 … 2 M at every event.
fn hammer_slide() -> impl Iterator<Item = Entry> {
    (0..=6).map(|i| 8 << (3 * i)).flat_map(|window: usize| {
        let name = |agg| format!("Hammer Slide {agg} i32, window {window}");
        let min = move |n| {
            let x = tuples(n);
            let mut work = scanned::<i32, Min>("min", &x, fit(window, n));
            work.hands
                .push(two_stacks::<i32, Min>(x, fit(window, n), |v| {
                    Rows::default().column(v.iter().copied())
                }));
            work
        };
        let mean = move |n| {
            let x = tuples(n);
            let mut work = running::<i32, Mean>("mean", &x, fit(window, n), doubles);
            work.hands
                .push(two_stacks::<i32, Mean>(x, fit(window, n), doubles));
            work
        };
        [Entry::new(name("min"), min), Entry::new(name("avg"), mean)]
            .map(|e| e.speed(Yardstick::Hand(1), 3.0))
    })
}

fn doubles(values: &[f64]) -> Rows {
    Rows::default().column(values.iter().copied())
}

/// A query over one stream of samples of 1 ms.
fn query(dtype: &str, body: &str) -> String {
    format!("query q unit ms {{ input ~x: {dtype} fixed 1ms period 1ms  {body}  output ~y }}")
}

fn one<T: Element>(x: &ScalarBuffer<T>) -> Inputs {
    input("x", stream(samples(x.len(), 1), x, Unit::Milli))
}

fn select<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    Workload {
        query: query(T::NAME, "~y[t] = ~x[t] * 2.0 + 1.0"),
        inputs: one(&x),
        events: n,
        traffic: Traffic::Copy(2.0 * T::BYTES),
        hands: vec![Hand::new(
            vec![T::default(); n],
            move |out| pointwise::select(&x, out),
            |out| Rows::samples(1, out.iter().copied()),
        )],
    }
}

fn filter<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    let values = x.clone();
    Workload {
        query: query(T::NAME, "~y[t] = if ~x[t] > 0.0 then ~x[t] else null"),
        inputs: one(&x),
        events: n,
        traffic: Traffic::Read(T::BYTES),
        hands: vec![Hand::new(
            vec![0; n.div_ceil(64)],
            move |bits| pointwise::positive(&x, bits),
            move |bits| Rows::valid_samples(1, &values, bits),
        )],
    }
}

fn select_where<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    Workload {
        query: query(
            T::NAME,
            "~select[t] = ~x[t] * 2.0 + 1.0  ~y[t] = if ~select[t] > 0.0 then ~select[t] else null",
        ),
        inputs: one(&x),
        events: n,
        traffic: Traffic::Copy(2.0 * T::BYTES),
        hands: vec![Hand::new(
            (vec![T::default(); n], vec![0; n.div_ceil(64)]),
            move |(out, bits)| pointwise::select_where(&x, out, bits),
            |(out, bits)| Rows::valid_samples(1, out, bits),
        )],
    }
}

/// A query over two streams of samples of 1 ms.
fn two(dtype: &str, body: &str) -> String {
    format!(
        "query q unit ms {{ input ~a: {dtype} fixed 1ms period 1ms  input ~b: {dtype} fixed 1ms period 1ms  \
         ~y[t] = {body}  output ~y }}"
    )
}

fn inner_join<T: Real>(n: usize) -> Workload {
    let (a, b) = (reals::<T>(n, 1), reals::<T>(n, 2));
    let side = |x| stream(samples(n, 1), x, Unit::Milli);
    Workload {
        query: two(T::NAME, "~a[t] + ~b[t]"),
        inputs: Inputs::from([("a".to_owned(), side(&a)), ("b".to_owned(), side(&b))]),
        events: n,
        traffic: Traffic::Copy(3.0 * T::BYTES),
        hands: vec![Hand::new(
            vec![T::default(); n],
            move |out| pointwise::inner_join(&a, &b, out),
            |out| Rows::samples(1, out.iter().copied()),
        )],
    }
}

fn outer_join<T: Real>(n: usize) -> Workload {
    let (a, b) = (reals::<T>(n, 1), reals::<T>(n, 2));
    let (a_bits, b_bits) = (gaps(n, 8, 3), gaps(n, 8, 4));
    let side = |x, bits: &[u64]| stream_with_gaps(samples(n, 1), x, bits, Unit::Milli);
    Workload {
        query: two(T::NAME, "coalesce(~a[t], 0.0) + coalesce(~b[t], 0.0)"),
        inputs: Inputs::from([
            ("a".to_owned(), side(&a, &a_bits)),
            ("b".to_owned(), side(&b, &b_bits)),
        ]),
        events: n,
        traffic: Traffic::Copy(3.0 * T::BYTES),
        hands: vec![Hand::new(
            (vec![T::default(); n], vec![0; n.div_ceil(64)]),
            move |(out, bits)| pointwise::outer_join((&a, &a_bits), (&b, &b_bits), out, bits),
            |(out, bits)| Rows::valid_samples(1, out, bits),
        )],
    }
}

fn tumbling<T: Real, F: Fold<T, Out: Into<f64>>>(agg: &str, n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    let window = fit(WINDOW, n);
    Workload {
        query: query(
            T::NAME,
            &format!("~y[t every {window}ms] = reduce {agg} ~x[t-{window}ms : t]"),
        ),
        inputs: one(&x),
        events: n,
        traffic: Traffic::Read(T::BYTES),
        hands: vec![Hand::new(
            Vec::new(),
            move |out| windows::tumbling::<T, F>(&x, window, out),
            move |out| Rows::samples(window as i64, out.iter().copied()),
        )],
    }
}

/// A window at every event, its loop still to come.
fn every_event<T: Element>(agg: &str, x: &ScalarBuffer<T>, window: usize, hand: Hand) -> Workload {
    Workload {
        query: query(
            T::NAME,
            &format!("~y[t] = reduce {agg} ~x[t-{window}ms : t]"),
        ),
        inputs: one(x),
        events: x.len(),
        traffic: Traffic::Copy(
            T::BYTES
                + if agg == "min" || agg == "max" {
                    T::BYTES
                } else {
                    8.0
                },
        ),
        hands: vec![hand],
    }
}

/// A total or mean at every event.
fn running<T: Element, F: Running<T>>(
    agg: &str,
    x: &ScalarBuffer<T>,
    window: usize,
    values: fn(&[F::Out]) -> Rows,
) -> Workload {
    let column = x.clone();
    let hand = Hand::new(
        vec![F::Out::default(); x.len()],
        move |out| windows::subtract_on_evict::<T, F>(&column, window, out),
        move |out| values(out).at_samples(1),
    );
    every_event(agg, x, window, hand)
}

/// An extreme at every event.
fn scanned<T: Element, F: Fold<T, Out: Into<f64>>>(
    agg: &str,
    x: &ScalarBuffer<T>,
    window: usize,
) -> Workload {
    let column = x.clone();
    let mut suffix = vec![F::EMPTY; window + 1];
    let hand = Hand::new(
        vec![F::Out::default(); x.len()],
        move |out| windows::van_herk::<T, F>(&column, window, &mut suffix, out),
        |out| Rows::samples(1, out.iter().copied()),
    );
    every_event(agg, x, window, hand)
}

/// Two-Stacks at every event, which goes on after the last until the window is empty.
fn two_stacks<T: Element, F: Fold<T>>(
    x: ScalarBuffer<T>,
    window: usize,
    values: fn(&[F::Out]) -> Rows,
) -> Hand {
    let n = x.len();
    let mut front = vec![F::EMPTY; window + 1];
    Hand::new(
        Vec::new(),
        move |out| windows::two_stacks::<T, F>(&x, window, 1, &mut front, out),
        move |out| values(&out[..n]).at_samples(1),
    )
    .labelled("Two-Stacks")
}

fn hop_of<F: Fold<i32>>(
    agg: &str,
    n: usize,
    (hop, window): (usize, usize),
    values: fn(&[F::Out]) -> Rows,
) -> Workload {
    let x = tuples(n);
    let again = x.clone();
    let mut front = vec![F::EMPTY; window + 1];
    Workload {
        query: query(
            "i32",
            &format!("~y[t every {hop}ms] = reduce {agg} ~x[t-{window}ms : t]"),
        ),
        inputs: one(&x),
        events: n,
        traffic: Traffic::Copy(4.0 + size_of::<F::Out>() as f64 / hop as f64),
        hands: vec![
            Hand::new(
                Vec::new(),
                move |out| windows::rescan::<i32, F>(&x, window, hop, out),
                move |out| values(out).at_samples(hop as i64),
            )
            .labelled("rescan"),
            Hand::new(
                Vec::new(),
                move |out| windows::two_stacks::<i32, F>(&again, window, hop, &mut front, out),
                move |out| values(out).at_samples(hop as i64),
            )
            .labelled("Two-Stacks"),
        ],
    }
}
