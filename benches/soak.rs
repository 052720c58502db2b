//! A session that lives for long: two inputs of together a million events a second of simulated time, one in twenty of them late, for an hour or as long as is asked for.
//!
//! `make soak`, or `cargo run --release -p tilt --example soak -- [seconds]`. It fails if an event is lost, if an answer is not that of a run on all rows, bit for bit, or if
//! memory grows.

use std::{
    collections::{BTreeMap, VecDeque},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use tilt::{
    Compiled, Query, RunOptions,
    arrow::array::{
        Array, ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
    },
    data::{Column, IngressOptions, Layout, SnapshotBuffer, Spans, Timeline},
    ir::{Span, Unit},
    live::{Completion, InputOptions, Session, SessionOptions},
};

/// Trades and quotes: means of a second and of five, and how many trades there were.
const QUERY: &str = "query soak unit us {
  input ~trades: f64 point
  input ~quotes: f64 point
  ~fast[t every 10ms] = reduce mean ~trades[t-1s : t]
  ~slow[t every 10ms] = reduce mean ~quotes[t-5s : t]
  ~count[t every 10ms] = reduce len ~trades[t-10ms : t]
  ~out[t] = {edge: ~fast[t] - ~slow[t], count: ~count[t]}
  output ~out
}";

const SECOND: i64 = 1_000_000;
/// Microseconds between two events of an input.
const STEP: i64 = 2;
/// How far windows look back.
const LOOKBACK: i64 = 5 * SECOND;
/// How late a row may come.
const LATENESS: i64 = 10_000;
/// What is pushed at a time, and what is checked at a time.
const PUSH: i64 = SECOND / 20;
const PART: i64 = 10 * SECOND;
/// Until windows are full and a part was checked, memory grows; it is looked at from then on, in runs that last some parts longer.
const WARM: i64 = 2 * PART;
const JUDGED: i64 = 6 * PART;

/// The value of an event: any numbers that are the same whenever they are asked for.
fn value(input: usize, number: i64) -> f64 {
    (mixed(input, number) >> 11) as f64 / (1u64 << 53) as f64
}

fn mixed(input: usize, number: i64) -> u64 {
    let mut x = (number as u64 ^ ((input as u64) << 60)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// When an event of an input is.
fn stamp(input: usize, number: i64) -> i64 {
    STEP * number + input as i64 + 1
}

/// The events of an input as they arrive: every twentieth later than up to 4000 that follow it.
struct Arrivals {
    input: usize,
    next: i64,
    late: VecDeque<(i64, i64)>,
}

impl Arrivals {
    /// The rows that arrive until the input has come to an instant; all that are left, if it ends there.
    fn until(&mut self, t: i64, ends: bool) -> RecordBatch {
        let (mut stamps, mut values) = (Vec::new(), Vec::new());
        let mut arrives = |number: i64| {
            stamps.push(stamp(self.input, number));
            values.push(value(self.input, number));
        };
        while stamp(self.input, self.next) <= t {
            let number = self.next;
            self.next += 1;
            let noise = mixed(self.input, number);
            if noise.is_multiple_of(20) {
                self.late
                    .push_back((number + (noise >> 8) as i64 % 4000, number));
            } else {
                arrives(number);
            }
            while let Some((due, late)) = self.late.front().copied()
                && due <= number
            {
                self.late.pop_front();
                arrives(late);
            }
        }
        if ends {
            self.late.drain(..).for_each(|(_, late)| arrives(late));
        }
        let columns: [(&str, ArrayRef); 2] = [
            ("time", Arc::new(TimestampMicrosecondArray::from(stamps))),
            ("value", Arc::new(Float64Array::from(values))),
        ];
        RecordBatch::try_from_iter(columns).expect("as many rows")
    }
}

/// The events of an input in `(from, to]`, in order.
fn events(name: &str, input: usize, from: i64, to: i64) -> SnapshotBuffer {
    let first = (from - input as i64 - 1).div_euclid(STEP) + 1;
    let last = (to - input as i64 - 1).div_euclid(STEP);
    let numbers = first.max(0)..last + 1;
    let stamps: Vec<i64> = numbers.clone().map(|number| stamp(input, number)).collect();
    let values = Float64Array::from_iter_values(numbers.map(|number| value(input, number)));
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    let column = Column::new(name, Arc::new(values));
    SnapshotBuffer::scalar(timeline, column, Unit::Micro).expect("as many rows")
}

/// What a run on all rows gives in `(from, to]`.
fn expected(compiled: &Compiled, from: i64, to: i64, end: i64) -> RecordBatch {
    let inputs = ["trades", "quotes"].into_iter().enumerate();
    let rows = |input: usize, name: &str| {
        let rows = events(name, input, from - LOOKBACK - SECOND, to.min(end));
        (name.to_owned(), rows)
    };
    let inputs: BTreeMap<String, SnapshotBuffer> =
        inputs.map(|(input, name)| rows(input, name)).collect();
    let options = RunOptions::default()
        .part(Span::new(from, to))
        .span(Span::new(0.max(from - LOOKBACK - SECOND), to.min(end)));
    let rows = compiled.run(&inputs, &options).expect("runs");
    rows.to_record_batch(Layout::Point).expect("rows")
}

/// Bytes of memory that the process has.
fn memory() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux machine");
    let pages = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok());
    4096 * pages.unwrap_or(0usize)
}

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).map_or(3600, |arg| {
        arg.parse().expect("how many seconds of simulated time")
    });
    let end = seconds * SECOND;
    let compiled = Query::parse(QUERY)
        .and_then(tilt::Query::compile)
        .expect("compiles");
    let input = || InputOptions::new(IngressOptions::stamp("time")).lateness(LATENESS);
    let options = SessionOptions::new()
        .run(RunOptions::default().threads(1))
        .egress(Layout::Point)
        .start(0)
        .input("trades", input())
        .input("quotes", input());
    let mut session = Session::new(&compiled, options).expect("a session");
    let mut arrivals = [0, 1].map(|input| Arrivals {
        input,
        next: 0,
        late: VecDeque::new(),
    });
    let (mut pushed, mut told, mut counted) = (0u64, 0u64, 0i64);
    let (mut given, mut checked) = (Vec::new(), 0);
    let (mut worked, mut most, mut least) = (Duration::ZERO, [0usize; 2], usize::MAX);
    let mut wrong = Vec::new();
    let mut now = 0;
    while now < end {
        now = (now + PUSH).min(end);
        let batches = arrivals
            .each_mut()
            .map(|input| input.until(now, now == end));
        let begun = Instant::now();
        for (name, rows) in ["trades", "quotes"].into_iter().zip(&batches) {
            session.push(name, rows).expect("in time");
            pushed += rows.num_rows() as u64;
        }
        let results = if now < end {
            session.take()
        } else {
            session.close(Completion::End)
        };
        worked += begun.elapsed();
        given.push(results.expect("runs"));
        // A part is checked when it is complete.
        while checked < end && (now >= checked + PART + SECOND || now == end) {
            let is_last = checked + PART >= end;
            let to = if is_last {
                end + SECOND
            } else {
                checked + PART
            };
            let part = taken(&mut given, to);
            let expected = expected(&compiled, checked, to, end);
            if part != expected {
                wrong.push(checked / SECOND);
            }
            told += part.num_rows() as u64;
            counted += sum(&part, "count");
            checked += PART;
        }
        if now % SECOND == 0 || now == end {
            let bytes = memory();
            let half = usize::from(now > i64::midpoint(end, WARM));
            least = least.min(bytes);
            if now >= WARM || end < JUDGED {
                most[half] = most[half].max(bytes);
            }
        }
    }
    let counts = session
        .status()
        .inputs
        .into_iter()
        .map(|input| input.counts);
    let accepted: u64 = counts.clone().map(|counts| counts.accepted).sum();
    let left_out: u64 = counts
        .map(|counts| counts.dropped + counts.overlapping)
        .sum();
    let trades = arrivals[0].next;
    println!("simulated           {seconds} s");
    println!(
        "events              {pushed}, one in twenty late by up to {} ms",
        LATENESS / 1000
    );
    println!("accepted, left out  {accepted}, {left_out}");
    println!("results             {told}, which count {counted} of {trades} trades");
    println!(
        "a second            {:.2} million events, {:.0} ns each, in pushes of {}",
        pushed as f64 / worked.as_secs_f64() / 1e6,
        worked.as_nanos() as f64 / pushed as f64,
        PUSH / STEP
    );
    let mib = |bytes: usize| bytes >> 20;
    println!(
        "memory              {} MiB at least, at most {} MiB in the first half and {} MiB in the second",
        mib(least),
        mib(most[0]),
        mib(most[1])
    );
    let is_judged = end >= JUDGED;
    let is_flat = !is_judged || most[1] <= most[0] + most[0] / 20;
    let is_whole = accepted == pushed && left_out == 0 && counted == trades;
    if !wrong.is_empty() {
        println!("other than a run on all rows: the parts at {wrong:?} s");
    }
    if wrong.is_empty() && is_flat && is_whole {
        let memory = if is_judged {
            "memory flat".to_owned()
        } else {
            format!("memory not judged in less than {} s", JUDGED / SECOND)
        };
        println!("all events counted, all answers those of a run on all rows, {memory}");
        return ExitCode::SUCCESS;
    }
    println!("FAILED");
    ExitCode::FAILURE
}

/// The rows up to an instant, taken off what was given.
fn taken(given: &mut Vec<RecordBatch>, to: i64) -> RecordBatch {
    let schema = given[0].schema();
    let all = arrow_select::concat::concat_batches(&schema, given.iter()).expect("one schema");
    let times = all.column(0).as_any();
    let times: &TimestampMicrosecondArray = times.downcast_ref().expect("times");
    let rows = times.values().partition_point(|time| *time <= to);
    *given = vec![all.slice(rows, all.num_rows() - rows)];
    all.slice(0, rows)
}

fn sum(rows: &RecordBatch, column: &str) -> i64 {
    let column = rows.column_by_name(column).expect("a column");
    let column: &Int64Array = column.as_any().downcast_ref().expect("numbers");
    column.values().iter().sum()
}
