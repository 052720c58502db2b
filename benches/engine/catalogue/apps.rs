//! The applications, in the shapes of `tests/apps`, and Yahoo's query as TiLT has it.

use tilt::{arrow::buffer::ScalarBuffer, ir::Unit};

use super::{fit, narrow, wide};
use crate::{
    data::{
        Element, Inputs, Random, Real, column, gaps, input, integers, points, reals, records,
        samples, stream, stream_with_gaps,
    },
    reference::apps::{self, Alarms, Features},
    rows::Rows,
    workload::{Entry, Hand, Traffic, Workload, Yardstick},
};

/// Their names.
pub(crate) const NAMES: [&str; 9] = [
    "trend",
    "rsi",
    "normalize",
    "impute",
    "resample",
    "pan_tompkins",
    "vibration",
    "fraud",
    "yahoo",
];

/// Makes a row for about so many events.
type Build = fn(usize) -> Workload;

pub(crate) fn entries() -> Vec<Entry> {
    /// Recurrences leave a second thread nothing to do.
    const IN_ORDER: f64 = 0.0;
    let mut entries = vec![
        // The bars on the copy and on fusion.
        named("trend f64", trend::<f64>, 1.6)
            .speed(Yardstick::Memory, 0.45)
            .unfused(3.0),
        named("trend f32", trend::<f32>, 1.6).unfused(0.0),
    ];
    let others: [(&str, [Build; 2], f64); 7] = [
        ("rsi", [rsi::<f64>, rsi::<f32>], 1.6),
        ("normalize", [normalize::<f64>, normalize::<f32>], 1.6),
        ("impute", [impute::<f64>, impute::<f32>], 1.6),
        ("resample", [resample::<f64>, resample::<f32>], 1.6),
        (
            "pan_tompkins",
            [pan_tompkins::<f64>, pan_tompkins::<f32>],
            IN_ORDER,
        ),
        ("vibration", [vibration::<f64>, vibration::<f32>], 1.6),
        ("fraud", [fraud::<f64>, fraud::<f32>], 1.6),
    ];
    for (name, builds, two_threads) in others {
        for (ty, build) in ["f64", "f32"].into_iter().zip(builds) {
            entries.push(named(&format!("{name} {ty}"), build, two_threads).unfused(0.0));
        }
    }
    entries.push(named("Yahoo (TiLT)", yahoo, 0.0).unfused(0.0));
    entries
}

fn named(name: &str, build: Build, two_threads: f64) -> Entry {
    Entry::new(name, build)
        .speed(Yardstick::Hand(0), 0.5)
        .two_threads(two_threads)
}

/// The query called `name`, on doubles.
pub(crate) fn text(name: &str) -> String {
    let n = 1 << 16;
    let work = match name {
        "trend" => trend::<f64>(n),
        "rsi" => rsi::<f64>(n),
        "normalize" => normalize::<f64>(n),
        "impute" => impute::<f64>(n),
        "resample" => resample::<f64>(n),
        "pan_tompkins" => pan_tompkins::<f64>(n),
        "vibration" => vibration::<f64>(n),
        "fraud" => fraud::<f64>(n),
        "yahoo" => yahoo(n),
        other => panic!("no application is called {other}"),
    };
    work.query
}

fn periodic<T: Element>(name: &str, x: &ScalarBuffer<T>, period: i64, unit: Unit) -> Inputs {
    input(name, stream(samples(x.len(), period), x, unit))
}

fn trend<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    let (short, long) = (fit(1000, n), fit(2000, n));
    Workload {
        query: format!(
            "query trend unit ms {{
               input ~stock: {} fixed 1ms period 1ms
               ~near[t] = reduce mean ~stock[t-{short}ms : t]
               ~far[t] = reduce mean ~stock[t-{long}ms : t]
               ~join[t] = ~near[t] - ~far[t]
               ~filter[t] = if ~join[t] > 0.0 then ~join[t] else null
               output ~filter
             }}",
            T::NAME
        ),
        inputs: periodic("stock", &x, 1, Unit::Milli),
        events: n,
        traffic: Traffic::Copy(T::BYTES + 8.0),
        hands: vec![Hand::new(
            (vec![0.0; n], vec![0; n.div_ceil(64)]),
            move |(out, bits)| apps::trend(&x, (short, long), out, bits),
            |(out, bits)| Rows::valid_samples(1, out, bits),
        )],
    }
}

fn rsi<T: Real>(n: usize) -> Workload {
    const DAY: i64 = 86_400;
    let x = reals::<T>(n, 1);
    Workload {
        query: format!(
            "query rsi unit s {{
               input ~close: {} fixed 1d period 1d
               ~previous[t] = ~close[t-1d]
               ~change[t] = ~close[t] - ~previous[t]
               ~gain[t] = max(~change[t], 0.0)
               ~loss[t] = max(-~change[t], 0.0)
               ~count[t] = reduce len ~change[t-14d : t]
               ~up[t] = reduce mean ~gain[t-14d : t]
               ~down[t] = reduce mean ~loss[t-14d : t]
               ~rsi[t] = if ~count[t] >= 14 then 100.0 - 100.0 / (1.0 + ~up[t] / ~down[t]) else null
               output ~rsi
             }}",
            T::NAME
        ),
        inputs: periodic("close", &x, DAY, Unit::Second),
        events: n,
        traffic: Traffic::Copy(T::BYTES + 8.0),
        hands: vec![Hand::new(
            Vec::new(),
            move |out| apps::rsi(&x, out),
            |out| {
                let ends: Vec<i64> = (15..).take(out.len()).map(|day| day * DAY).collect();
                Rows::default()
                    .column(out.iter().copied())
                    .at_ends(DAY, &ends)
            },
        )],
    }
}

fn normalize<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    let window = fit(10_000, n);
    Workload {
        query: format!(
            "query normalize unit ms {{
               input ~x: {} fixed 1ms period 1ms
               ~mean[t every {window}ms] = reduce mean ~x[t-{window}ms : t]
               ~std[t every {window}ms] = reduce std(0) ~x[t-{window}ms : t]
               ~z[t] = (~x[t] - {}) / {}
               output ~z
             }}",
            T::NAME,
            narrow::<T>("~mean[t]"),
            narrow::<T>("~std[t]")
        ),
        inputs: periodic("x", &x, 1, Unit::Milli),
        events: n,
        traffic: Traffic::Copy(2.0 * T::BYTES),
        hands: vec![Hand::new(
            vec![T::default(); n],
            move |out| apps::normalize(&x, window, out),
            |out| Rows::samples(1, out.iter().copied()),
        )],
    }
}

fn impute<T: Real>(n: usize) -> Workload {
    let (x, bits) = (reals::<T>(n, 1), gaps(n, 100, 2));
    let window = fit(10_000, n);
    Workload {
        query: format!(
            "query impute unit ms {{
               input ~x: {} fixed 5ms period 5ms
               ~mean[t every {milliseconds}ms] = reduce mean ~x[t-{milliseconds}ms : t]
               ~filled[t every 5ms] = coalesce(~x[t], {})
               output ~filled
             }}",
            T::NAME,
            narrow::<T>("~mean[t]"),
            milliseconds = 5 * window
        ),
        inputs: input("x", stream_with_gaps(samples(n, 5), &x, &bits, Unit::Milli)),
        events: n,
        traffic: Traffic::Copy(2.0 * T::BYTES),
        hands: vec![Hand::new(
            vec![T::default(); n.next_multiple_of(window)],
            move |out| apps::impute(&x, &bits, window, out),
            |out| Rows::samples(5, out.iter().copied()),
        )],
    }
}

fn resample<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    Workload {
        query: format!(
            "query resample unit ms {{
               input ~x: {0} fixed 4ms period 4ms
               ~left[t] = ~x[t-4ms]
               ~rise[t] = ~x[t] - ~left[t]
               ~line[t every 5ms] =
                 let since = cast(cast(t - start(~x[t]), i64), {0}) in
                 if t == end(~x[t]) then ~x[t] else ~left[t] + ~rise[t] * (since / 4.0)
               output ~line
             }}",
            T::NAME
        ),
        inputs: periodic("x", &x, 4, Unit::Milli),
        events: n,
        traffic: Traffic::Copy(1.8 * T::BYTES),
        hands: vec![Hand::new(
            vec![T::default(); 4 * n / 5],
            move |out| apps::resample(&x, out),
            |out| Rows::samples(5, out.iter().copied()),
        )],
    }
}

fn pan_tompkins<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    Workload {
        query: format!(
            "query pan_tompkins unit ms {{
               input ~ecg: {0} fixed 5ms period 5ms
               ~low[t at ~ecg]: {0} =
                 2.0 * coalesce(~low.prev(1), 0.0) - coalesce(~low.prev(2), 0.0)
                   + ~ecg[t] - 2.0 * coalesce(~ecg[t-30ms], 0.0) + coalesce(~ecg[t-60ms], 0.0)
               ~running[t at ~ecg]: {0} =
                 coalesce(~running[t-5ms], 0.0) + ~low[t] - coalesce(~low[t-160ms], 0.0)
               ~high[t at ~ecg] = 32.0 * coalesce(~low[t-80ms], 0.0) - ~running[t]
               ~slope[t at ~ecg] =
                 (~high[t] + 2.0 * coalesce(~high[t-5ms], 0.0)
                   - 2.0 * coalesce(~high[t-15ms], 0.0) - coalesce(~high[t-20ms], 0.0)) / 8.0
               ~squared[t] = ~slope[t] * ~slope[t]
               ~energy[t] = reduce sum ~squared[t-150ms : t]
               ~integrated[t] = ~energy[t] / 30.0
               output ~integrated
             }}",
            T::NAME
        ),
        inputs: periodic("ecg", &x, 5, Unit::Milli),
        events: n,
        traffic: Traffic::Copy(T::BYTES + 8.0),
        hands: vec![Hand::new(
            vec![0.0; n],
            move |out| apps::pan_tompkins(&x, out),
            |out| Rows::samples(5, out.iter().copied()),
        )],
    }
}

fn vibration<T: Real>(n: usize) -> Workload {
    let x = reals::<T>(n, 1);
    let block = fit(100, n);
    Workload {
        query: format!(
            "query vibration unit ms {{
               input ~accel: {} fixed 1ms period 1ms
               ~kurtosis[t every {block}ms] = reduce kurtosis(pearson, biased) ~accel[t-{block}ms : t]
               ~rms[t every {block}ms] = reduce rms ~accel[t-{block}ms : t]
               ~peak[t every {block}ms] = reduce max ~accel[t-{block}ms : t] map (abs(~accel[t]))
               ~crest[t] = {} / ~rms[t]
               ~features[t] = {{kurtosis: ~kurtosis[t], rms: ~rms[t], crest: ~crest[t]}}
               output ~features
             }}",
            T::NAME,
            wide::<T>("~peak[t]")
        ),
        inputs: periodic("accel", &x, 1, Unit::Milli),
        events: n,
        traffic: Traffic::Read(T::BYTES),
        hands: vec![Hand::new(
            Vec::new(),
            move |out| apps::vibration(&x, block, out),
            move |out: &Vec<Features>| {
                let field = |i: usize| out.iter().map(move |features| features[i]);
                Rows::samples(block as i64, field(0)).column(field(1)).column(field(2))
            },
        )],
    }
}

fn fraud<T: Real>(n: usize) -> Workload {
    const WINDOW: i64 = 10 * 86_400;
    /// About half a year, however many transactions there are.
    const SPAN: usize = 1 << 24;
    // A divisor of the window, so that there are transactions right at its edge.
    let gap = (1..=(SPAN / n) as i64).rev().find(|gap| WINDOW % gap == 0);
    let gap = gap.unwrap_or(1);
    let stamps = ScalarBuffer::from((1..=n as i64).map(|i| i * gap).collect::<Vec<_>>());
    let card_count = 1000.min(n / 500);
    let cards = integers::<i32>(n, card_count as i64, 1);
    let mut random = Random::new(2);
    let mut amount = || {
        let amount = 1.0 + 99.0 * random.unit();
        T::of(if random.below(50) == 0 {
            10.0 * amount
        } else {
            amount
        })
    };
    let amounts = ScalarBuffer::from((0..n).map(|_| amount()).collect::<Vec<T>>());
    let columns = vec![column("card", &cards), column("amount", &amounts)];
    let inputs = input("tx", records(points(&stamps), columns, Unit::Second));
    let (row_stamps, row_cards, row_amounts) = (stamps.clone(), cards.clone(), amounts.clone());
    Workload {
        query: format!(
            "query fraud unit s {{
               input ~tx: {{card: i32, amount: {}}} point key card
               ~amount[t] = ~tx[t].amount
               ~count[t] = reduce len ~amount[t-10d1s : t-1s]
               ~mean[t] = reduce mean ~amount[t-10d1s : t-1s]
               ~std[t] = reduce std ~amount[t-10d1s : t-1s]
               ~limit[t] = if ~count[t] >= 5 then ~mean[t] + 3.0 * ~std[t] else null
               ~fraud[t] = if {} > ~limit[t] then {{amount: ~amount[t], limit: ~limit[t]}} else null
               output ~fraud
             }}",
            T::NAME,
            wide::<T>("~amount[t]")
        ),
        inputs,
        events: n,
        traffic: Traffic::Read(12.0 + T::BYTES),
        hands: vec![Hand::new(
            Alarms::default(),
            move |out| apps::fraud(&stamps, &cards, &amounts, (WINDOW, card_count), out),
            move |out| {
                let rows = || out.found.iter().map(|(row, _)| *row as usize);
                Rows::ending(1, rows().map(|row| row_stamps[row]))
                    .column(rows().map(|row| row_cards[row]))
                    .column(rows().map(|row| row_amounts[row]))
                    .column(out.found.iter().map(|(_, limit)| *limit))
            },
        )],
    }
}

fn yahoo(n: usize) -> Workload {
    let fields = ["user", "page", "ad", "event_type", "time"];
    let data: Vec<_> = (1..)
        .take(5)
        .map(|seed| integers::<i64>(n, 5, seed))
        .collect();
    let columns = fields
        .iter()
        .zip(&data)
        .map(|(name, values)| column(name, values))
        .collect();
    let types = data[3].clone();
    Workload {
        query: "query yahoo unit ms {
                  input ~e: {user: i64, page: i64, ad: i64, event_type: i64, time: i64} fixed 1ms period 1ms
                  ~hit[t] = if ~e[t].event_type == 1 then ~e[t].event_type else null
                  ~count[t every 100ms] = reduce len ~hit[t-100ms : t]
                  output ~count
                }"
        .to_owned(),
        inputs: input("e", records(samples(n, 1), columns, Unit::Milli)),
        events: n,
        traffic: Traffic::Read(8.0),
        hands: vec![Hand::new(
            Vec::new(),
            move |out| apps::yahoo(&types, 100, out),
            |out: &Vec<(i64, i64)>| {
                Rows::ending(100, out.iter().map(|(i, _)| 100 * (i + 1)))
                    .integers(out.iter().map(|(_, hits)| *hits))
            },
        )],
    }
}
