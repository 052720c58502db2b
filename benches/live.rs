//! Live runs and sessions: throughput at several sizes of a push against a run in one go, the time that one push takes, and what a long window costs.
//!
//! `cargo bench -p tilt --features bench --bench live -- [filter [rows]]`, the latter for pushes of so many rows only. One thread; every figure is of a push and a take, or, *collected*, of pushes and a take every 65 536 rows, by key also every 524 288.
//! A line is cut short after a second or so.
//!
//! Both sides of a ratio do the same work: a live run and a run in one go take rows that were read and give events; a session and a run in one go with [`ingest`] before and
//! `to_record_batch` after it take a record batch and give one, with the same columns. Both are the time that the processor worked for the process, over many runs or pushes:
//! others on the machine do not count, and pushes that complete a cell count as well as those that do not. Cutting all rows to those of a push is no part of it.

use std::{
    collections::BTreeMap,
    hint::black_box,
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use tilt::{
    Compiled, Live, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray},
    data::{Column, IngressOptions, Layout, SnapshotBuffer, Spans, Timeline, ingest},
    ir::{DType, Input, SpanRule, Unit},
    live::{InputOptions, Mode, Session, SessionOptions},
};

const ROWS: usize = 1 << 20;
/// How many keys there are.
const KEYS: u64 = 1000;
/// Rows that are computed together where pushes are collected, and where there are keys, each of which costs something besides its rows.
const COLLECTED: usize = 1 << 16;
const COLLECTED_BY_KEY: usize = 1 << 19;
/// Queries by key.
const BY_KEY: [&str; 2] = ["fraud", "yahoo"];
/// Rows wait until those of so much later have come, a thousand of points and up to ten thousand samples.
const LATENESS: i64 = 10_000;
const PUSHES: [usize; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1 << 20];
/// How long one figure is measured, by the processor's time, of which the system counts hundredths of a second.
const LIMIT: Duration = Duration::from_millis(400);
/// How long rows are pushed, by the clock, where all of them count.
const PATIENCE: Duration = Duration::from_secs(8);

/// Rows that are pushed before it is measured, and how many at a time.
#[derive(Clone, Copy)]
struct Warm {
    rows: usize,
    size: usize,
}

/// How long the processor has worked for this process since `begun`.
fn worked_since(begun: Duration) -> Duration {
    worked().saturating_sub(begun)
}

/// How long the processor has worked for this process.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a Linux machine");
    // The name, in parentheses, may have spaces; user and system time are the 14th and 15th field.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields = rest.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

const APPS: [(&str, &str); 9] = [
    ("trend", include_str!("../tests/apps/trend.tilt")),
    ("rsi", include_str!("../tests/apps/rsi.tilt")),
    ("normalize", include_str!("../tests/apps/normalize.tilt")),
    ("impute", include_str!("../tests/apps/impute.tilt")),
    ("resample", include_str!("../tests/apps/resample.tilt")),
    (
        "pan_tompkins",
        include_str!("../tests/apps/pan_tompkins.tilt"),
    ),
    ("vibration", include_str!("../tests/apps/vibration.tilt")),
    ("fraud", include_str!("../tests/apps/fraud.tilt")),
    ("yahoo", include_str!("../tests/apps/ysb.tilt")),
];

/// Values that look random and are the same in every run.
fn values(rows: usize) -> impl Iterator<Item = u64> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..rows).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

fn column(name: &str, dtype: &DType, rows: usize, is_key: bool) -> Column {
    let array: ArrayRef = match dtype {
        DType::Utf8 if is_key => {
            let keys = values(rows).map(|v| format!("key {}", v % KEYS));
            Arc::new(StringArray::from_iter_values(keys))
        }
        DType::Utf8 => {
            let words = values(rows).map(|v| ["view", "click", "purchase"][(v % 3) as usize]);
            Arc::new(StringArray::from_iter_values(words))
        }
        DType::Int(_) => {
            let numbers = values(rows).map(|v| (v % 1000) as i64);
            Arc::new(Int64Array::from_iter_values(numbers))
        }
        _ => {
            let numbers = values(rows).map(|v| (v >> 11) as f64 / (1u64 << 53) as f64 - 0.5);
            Arc::new(Float64Array::from_iter_values(numbers))
        }
    };
    Column::new(name, array)
}

/// Samples of the declared period, or points ten ticks apart on average: a run in one go would notice, and use, that all are.
fn rows_of(input: &Input, unit: Unit, rows: usize) -> SnapshotBuffer {
    let timeline = if let (SpanRule::Fixed(length), Some(period)) = (input.span, input.period) {
        Timeline::regular(period, period, rows, Spans::Fixed(length))
    } else {
        let at = |(i, v): (i64, u64)| 10 * i + (v % 10) as i64;
        let stamps: Vec<i64> = (1..).zip(values(rows)).map(at).collect();
        Timeline::explicit(stamps.into(), Spans::Fixed(1))
    };
    let buffer = match &input.dtype {
        DType::Record(fields) => {
            let is_key = |name: &str| input.key.as_deref() == Some(name);
            let columns = fields
                .iter()
                .map(|f| column(&f.name, &f.dtype, rows, is_key(&f.name)));
            SnapshotBuffer::record(timeline, columns.collect(), None, unit)
        }
        dtype => SnapshotBuffer::scalar(timeline, column(&input.name, dtype, rows, false), unit),
    };
    buffer.expect("as many rows")
}

/// A query of one input, and its rows.
struct Work {
    compiled: Compiled,
    input: String,
    rows: SnapshotBuffer,
    batch: RecordBatch,
    /// The columns of time that results have.
    layout: Layout,
    options: RunOptions,
}

/// What is fed.
#[derive(Clone, Copy, PartialEq)]
enum Layer {
    /// A live run: rows that were read, in order, and events.
    Live,
    /// A session: record batches, and record batches.
    Session,
    /// One whose rows may be late by as much as [`LATENESS`], though none is.
    Late,
}

/// Something that rows are pushed to.
enum Fed<'w> {
    Live {
        live: Box<Live>,
        work: &'w Work,
        /// Rows since results were taken, and how many there are before they are.
        waiting: usize,
        collected: usize,
    },
    Session {
        session: Box<Session>,
        work: &'w Work,
    },
}

/// Rows of a push, cut before the clock runs.
enum Cut {
    Rows(SnapshotBuffer),
    Batch(RecordBatch),
}

impl Fed<'_> {
    /// Computes rows that wait to be computed with others.
    fn compute(&mut self) {
        match self {
            Self::Live { live, .. } => drop(black_box(live.take().expect("runs"))),
            Self::Session { session, .. } => drop(black_box(session.take_now().expect("runs"))),
        }
    }

    fn cut(&self, from: usize, len: usize) -> Cut {
        match self {
            Self::Live { work, .. } => Cut::Rows(work.rows.slice(from, len)),
            Self::Session { work, .. } => Cut::Batch(work.batch.slice(from, len)),
        }
    }

    fn push(&mut self, cut: &Cut) {
        match (self, cut) {
            (
                Self::Live {
                    live,
                    work,
                    waiting,
                    collected,
                },
                Cut::Rows(rows),
            ) => {
                live.push(&work.input, rows).expect("in order");
                *waiting += rows.len();
                if *waiting >= *collected {
                    *waiting = 0;
                    black_box(live.take().expect("runs"));
                }
            }
            (Self::Session { session, work }, Cut::Batch(batch)) => {
                session.push(&work.input, batch).expect("in order");
                if session.is_due() {
                    black_box(session.take().expect("runs"));
                }
            }
            _ => unreachable!("rows of the same layer"),
        }
    }
}

impl Work {
    fn new(text: &str, rows: usize) -> Self {
        let query = Query::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let compiled = query.compile().expect("compiles");
        let program = compiled.program();
        let (_, input) = program.inputs().next().expect("an input");
        let rows = rows_of(input, program.unit, rows);
        let options = RunOptions::default().threads(1);
        let some = rows.slice(0, rows.len().min(1 << 12));
        let inputs = BTreeMap::from([(input.name.clone(), some)]);
        let results = compiled.run(&inputs, &options).expect("runs");
        Self {
            input: input.name.clone(),
            batch: rows.to_record_batch(Layout::AsGiven).expect("rows"),
            rows,
            layout: match results.timeline().spans() {
                Spans::Fixed(_) => Layout::Point,
                _ => Layout::Interval,
            },
            options,
            compiled,
        }
    }

    /// Begins a run, of which as many rows are computed together.
    fn feed(&self, layer: Layer, collected: usize) -> Fed<'_> {
        match layer {
            Layer::Live => Fed::Live {
                live: Box::new(self.compiled.live(&self.options).expect("a live run")),
                work: self,
                waiting: 0,
                collected,
            },
            Layer::Session | Layer::Late => {
                let input = InputOptions::new(IngressOptions::stamp("time"));
                let lateness = if layer == Layer::Late { LATENESS } else { 0 };
                let input = input.lateness(lateness);
                let options = SessionOptions::new()
                    .run(self.options.clone())
                    .max_batch(collected)
                    .egress(self.layout)
                    .input(&self.input, input);
                let session = Session::new(&self.compiled, options);
                Fed::Session {
                    session: Box::new(session.expect("a session")),
                    work: self,
                }
            }
        }
    }

    /// Nanoseconds a row, in one go, from what a layer takes to what it gives.
    fn in_one_go(&self, layer: Layer) -> f64 {
        let program = self.compiled.program();
        let (_, declared) = program.inputs().next().expect("an input");
        let given = IngressOptions::stamp("time");
        let run = || {
            let rows = match layer {
                Layer::Live => self.rows.clone(),
                Layer::Session | Layer::Late => {
                    ingest(&self.batch, declared, program.unit, &given).expect("rows")
                }
            };
            let inputs = BTreeMap::from([(self.input.clone(), rows)]);
            let results = self.compiled.run(&inputs, &self.options).expect("runs");
            if layer != Layer::Live {
                black_box(results.to_record_batch(self.layout).expect("results"));
            }
            black_box(results);
        };
        run();
        let (begun, mut runs) = (worked(), 0);
        while worked_since(begun) < LIMIT {
            run();
            runs += 1;
        }
        worked_since(begun).as_nanos() as f64 / (runs * self.rows.len()) as f64
    }

    /// Nanoseconds a row, in pushes of so many after the first `warm` rows, and what it takes to cut them left out.
    fn pushed(&self, layer: Layer, size: usize, warm: usize, collected: usize) -> f64 {
        let fed = || self.feed(layer, collected);
        let counted = if collected > 0 { PATIENCE } else { LIMIT };
        self.measured(size, Warm { rows: warm, size }, counted, fed)
    }

    /// The same of a live run, all rows after the first: what is done once for many of them counts as often as it is done.
    fn pushed_on(&self, size: usize, warm: Warm) -> f64 {
        self.measured(size, warm, PATIENCE, || self.feed(Layer::Live, 0))
    }

    fn measured<'w>(
        &'w self,
        size: usize,
        warm: Warm,
        counted: Duration,
        fed: impl Fn() -> Fed<'w> + Copy,
    ) -> f64 {
        let limits = (LIMIT, counted);
        let with = self.nanos(limits, size, warm, fed, |fed, cut| fed.push(&cut));
        let limits = (LIMIT / 4, counted);
        let without = self.nanos(limits, size, warm, fed, |_, cut| drop(black_box(cut)));
        (with - without).max(0.0)
    }

    /// For as long as the first limit by the processor's time, and at most as long as the second by the clock with one run.
    fn nanos<'w>(
        &'w self,
        (limit, counted): (Duration, Duration),
        size: usize,
        warm: Warm,
        feed: impl Fn() -> Fed<'w>,
        use_rows: impl Fn(&mut Fed, Cut),
    ) -> f64 {
        let (mut took, mut rows) = (Duration::ZERO, 0);
        let all = Instant::now();
        while took < limit && all.elapsed() < 3 * limit {
            let mut fed = feed();
            let mut at = 0;
            while at < warm.rows {
                let some = warm.size.min(warm.rows - at);
                let cut = fed.cut(at, some);
                use_rows(&mut fed, cut);
                at += some;
            }
            // Asking how long the processor worked costs as much as many pushes. Rows that are collected are computed before the clock stops.
            let (begun, clock) = (worked(), Instant::now());
            while at < self.rows.len() && took + clock.elapsed() < counted {
                for _ in 0..16 {
                    let len = size.min(self.rows.len() - at);
                    if len == 0 {
                        break;
                    }
                    let cut = fed.cut(at, len);
                    use_rows(&mut fed, cut);
                    at += len;
                    rows += len;
                }
            }
            fed.compute();
            took += worked_since(begun);
        }
        took.as_nanos() as f64 / rows as f64
    }

    /// How long so many rows last.
    fn ticks(&self, rows: usize) -> i64 {
        let timeline = self.rows.timeline();
        timeline.end(rows) - timeline.end(0)
    }

    /// How long each push of so many rows takes, in nanoseconds, after the first `warm` rows.
    fn pushes(&self, layer: Layer, size: usize, warm: usize) -> Vec<f64> {
        let mut fed = self.feed(layer, 0);
        let mut push = |from: usize, len: usize| {
            let rows = fed.cut(from, len);
            let begun = Instant::now();
            fed.push(&rows);
            begun.elapsed().as_nanos() as f64
        };
        if warm > 0 {
            push(0, warm);
        }
        let begun = Instant::now();
        let mut times = Vec::new();
        let mut at = warm;
        while at < self.rows.len() && begun.elapsed() < LIMIT {
            let len = size.min(self.rows.len() - at);
            times.push(push(at, len));
            at += len;
        }
        times
    }
}

/// The value below which a share of the others is.
fn quantile(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * share) as usize]
}

fn throughput(name: &str, text: &str, layer: Layer, collected: usize, sizes: &[usize]) {
    let work = Work::new(text, ROWS);
    let batch = work.in_one_go(layer);
    print!("{name:<14}{batch:>8.2}");
    for &size in sizes {
        // Windows are full when a small push is measured.
        let warm = if size < collected.max(100_000) {
            collected.max(ROWS / 16)
        } else {
            0
        };
        let nanos = work.pushed(layer, size, warm, collected);
        print!("{:>9.4}", batch / nanos);
    }
    println!();
}

fn latency(name: &str, text: &str, layer: Layer) {
    let work = Work::new(text, ROWS / 4);
    print!("{name:<14}");
    for size in [1, 10, 100] {
        let mut times = work.pushes(layer, size, ROWS / 16);
        let (half, most) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
        print!("{:>9.1}{:>9.1}", half / 1000.0, most / 1000.0);
    }
    println!();
}

/// Queries whose windows are as long as is asked for, in ticks.
const WINDOWS: [(&str, &str); 12] = [
    (
        "mean",
        "input ~x: f64 fixed 1 period 1 ~y[t] = reduce mean ~x[t-N:t]",
    ),
    (
        "max",
        "input ~x: f64 fixed 1 period 1 ~y[t] = reduce max ~x[t-N:t]",
    ),
    (
        "median",
        "input ~x: f64 fixed 1 period 1 ~y[t] = reduce median ~x[t-N:t]",
    ),
    (
        "of points",
        "input ~x: f64 point overlap bag ~y[t] = reduce mean ~x[t-10*N:t]",
    ),
    (
        "of events",
        "input ~x: f64 point ~y[t] = reduce max ~x[#-N:#]",
    ),
    (
        "filtered",
        "input ~x: f64 point ~f[t] = if ~x[t] > 0.0 then ~x[t] else null ~y[t] = reduce mean ~f[t-10*N:t]",
    ),
    (
        "filtered max",
        "input ~x: f64 point ~f[t] = if ~x[t] > 0.0 then ~x[t] else null ~y[t] = reduce max ~f[t-10*N:t]",
    ),
    (
        "hopping",
        "input ~x: f64 fixed 1 period 1 ~y[t every 50] = reduce mean ~x[t-N:t]",
    ),
    (
        "hopping max",
        "input ~x: f64 fixed 1 period 1 ~y[t every 50] = reduce max ~x[t-N:t]",
    ),
    (
        "by word",
        "input ~x: {word: utf8, v: f64} point ~f[t] = if ~x[t].word == \"view\" then ~x[t].v else null \
         ~y[t] = reduce mean ~f[t-10*N:t]",
    ),
    (
        "by key",
        "input ~x: {k: utf8, v: f64} point key k ~v[t] = ~x[t].v ~y[t] = reduce mean ~v[t-10*N:t]",
    ),
    (
        "by key, hopping",
        "input ~x: {k: utf8, v: f64} point key k ~v[t] = ~x[t].v ~y[t every 500] = reduce mean ~v[t-10*N:t]",
    ),
];

/// µs of a push of 100 rows, on average: those that complete a cell count as well as others.
fn window(name: &str, body: &str) {
    print!("{name:<18}");
    for length in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let text = body
            .replace("10*N", &(10 * length).to_string())
            .replace('N', &length.to_string());
        let text = format!("query q unit tick {{ {text} output ~y }}");
        // Memory has its final size after two windows, and what is done once a window is done once in what is measured.
        let work = Work::new(&text, 3 * length + ROWS / 16);
        // Where a push costs milliseconds, a long window takes too many of them.
        let size = if name.contains("key") {
            length / 100
        } else {
            0
        };
        let warm = Warm {
            rows: 2 * length,
            size: size.max(100),
        };
        let nanos = work.pushed_on(100, warm);
        print!("{:>10.1}", nanos * 100.0 / 1000.0);
        io::stdout().flush().expect("somebody reads");
    }
    println!();
}

/// µs of a push of 100 rows and the changes that it makes, where so many rows before it are not settled.
fn updates(name: &str, text: &str) {
    print!("{name:<18}");
    for unsettled in [100, 1_000, 10_000, 100_000] {
        let work = Work::new(text, 2 * unsettled + ROWS / 16);
        let input = InputOptions::new(IngressOptions::stamp("time"));
        let options = SessionOptions::new()
            .run(work.options.clone())
            .mode(Mode::Updates)
            .egress(work.layout)
            .input(&work.input, input.lateness(work.ticks(unsettled)));
        let feed = || Fed::Session {
            session: Box::new(Session::new(&work.compiled, options.clone()).expect("a session")),
            work: &work,
        };
        let warm = Warm {
            rows: unsettled,
            size: unsettled,
        };
        let limits = (LIMIT, PATIENCE);
        let nanos = work.nanos(limits, 100, warm, feed, |fed, cut| fed.push(&cut));
        print!("{:>10.1}", nanos * 100.0 / 1000.0);
        io::stdout().flush().expect("somebody reads");
    }
    println!();
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let filter = args.next();
    let only: Option<usize> = args
        .next()
        .map(|rows| rows.parse().expect("a number of rows"));
    let sizes = only.map_or(PUSHES.to_vec(), |rows| vec![rows]);
    let wanted = |name: &str| {
        let filter = filter.as_ref();
        filter.is_none_or(|filter| name.contains(filter.as_str()))
    };
    let layers = [("live", Layer::Live), ("session", Layer::Session)];
    let late = ("session with lateness", Layer::Late);
    for (layer_name, layer) in layers.into_iter().chain([late]) {
        for (how, collected) in [
            ("", 0),
            (", collected", COLLECTED),
            (", eight times as many collected", COLLECTED_BY_KEY),
        ] {
            let title = format!("{layer_name}{how}");
            let apps: Vec<_> = APPS
                .iter()
                .filter(|(name, _)| wanted(&format!("{title} {name} throughput")))
                .filter(|(name, _)| collected < COLLECTED_BY_KEY || BY_KEY.contains(name))
                .collect();
            if apps.is_empty() {
                continue;
            }
            println!(
                "\n{title}: ns a row in one go, and the rate of pushes of so many rows against it"
            );
            print!("{:<14}{:>8}", "", "batch");
            for size in &sizes {
                print!("{size:>9}");
            }
            println!();
            for (name, text) in apps {
                throughput(name, text, layer, collected, &sizes);
            }
        }
    }
    for (layer_name, layer) in layers {
        let apps: Vec<_> = APPS
            .iter()
            .filter(|(name, _)| wanted(&format!("{layer_name} {name} latency")))
            .collect();
        if !apps.is_empty() {
            println!(
                "\n{layer_name}: µs of a push and a take, half of them and 99 % of them, for 1, 10 and 100 rows"
            );
        }
        for (name, text) in apps {
            latency(name, text, layer);
        }
    }
    let windows: Vec<_> = WINDOWS
        .iter()
        .filter(|(name, _)| wanted(&format!("window {name}")))
        .collect();
    if !windows.is_empty() {
        println!("\nµs of a push of 100 rows with a window of 100, 1000, … a million of them");
    }
    for (name, body) in windows {
        window(name, body);
    }
    let early: Vec<_> = APPS
        .iter()
        .filter(|(name, _)| wanted(&format!("updates {name}")))
        .collect();
    if !early.is_empty() {
        println!(
            "\nearly results: µs of a push of 100 rows and its changes, of which 100, 1000, 10 000 and 100 000 before are not settled"
        );
    }
    for (name, text) in early {
        updates(name, text);
    }
}
