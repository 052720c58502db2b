//! The engine against memory bandwidth, against loops written by hand, and against its own unfused plan.
//!
//! `cargo bench -p tilt --features bench --bench engine -- [filter] [--events N] [--quick] [--report]`: rows whose name
//! contains the filter, on N events (16 Mi), with few repetitions, and written to `docs/benchmarks.md`.
//!
//! Every row is checked at a small size before it is measured: the interpreter, the engine and each loop must agree.

#![allow(
    clippy::inline_always,
    reason = "parts of a loop take on the instruction set of the whole"
)]

mod catalogue;
mod data;
mod engine;
mod machine;
mod measure;
mod reference;
mod report;
mod rows;
mod workload;

use std::env;

use machine::Machine;
use measure::{Effort, Memory, task, time};
use report::{Compile, Report, Row};
use rows::Rows;
use workload::{Bar, Entry, Workload, unfused_name};

/// So many events the checks have.
const CHECKED: usize = 5000;

/// What the command line asks for.
struct Arguments {
    filter: String,
    events: usize,
    effort: Effort,
    store: bool,
}

impl Arguments {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            filter: String::new(),
            events: 1 << 24,
            effort: Effort::FULL,
            store: false,
        };
        while let Some(argument) = given.next() {
            match argument.as_str() {
                // Cargo says so to every bench.
                "--bench" => {}
                "--quick" => arguments.effort = Effort::QUICK,
                "--report" => arguments.store = true,
                "--events" => {
                    let events = given
                        .next()
                        .and_then(|n| n.parse().ok())
                        .filter(|n| *n >= CHECKED);
                    arguments.events = events
                        .ok_or_else(|| format!("--events needs a number of at least {CHECKED}"))?;
                }
                option if option.starts_with('-') => {
                    return Err(format!("there is no option {option}"));
                }
                _ => arguments.filter = argument,
            }
        }
        Ok(arguments)
    }
}

fn main() {
    let arguments = Arguments::parse(env::args().skip(1)).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    let mut report = Report {
        events: arguments.events,
        ..Report::default()
    };
    let mut memory = Memory::new(arguments.events);
    for entry in catalogue::entries() {
        if entry.name.contains(&arguments.filter) {
            check(&entry);
            measure_entry(&entry, &arguments, &mut memory, &mut report);
        }
    }
    for name in catalogue::APPS {
        if format!("compile {name}").contains(&arguments.filter) {
            report.compiles.push(measure_compile(name));
        }
    }
    report.finish(&Machine::this(), arguments.store);
}

/// The interpreter, the engine and all loops agree on a few events.
fn check(entry: &Entry) {
    let mut work = (entry.build)(CHECKED);
    let right = Rows::of(&engine::oracle(&work.query, &work.inputs));
    assert!(
        right.len() > 0,
        "{}: a check without a result checks nothing",
        entry.name
    );
    let compare = |who: &str, found: &Rows| {
        if let Some(difference) = right.difference(found) {
            panic!(
                "{}: {who} differs: {difference}\n{}",
                entry.name, work.query
            );
        }
    };
    for (threads, fused) in [(1, true), (2, true), (1, false)] {
        let result = engine::engine(&work.query, &work.inputs, threads, fused)();
        compare(
            &format!("the engine with {threads} threads, fused: {fused},"),
            &Rows::of(&result),
        );
    }
    for hand in &mut work.hands {
        // Twice, because what the first leaves behind must not change the second.
        hand.run();
        hand.run();
        compare(
            &format!("the hand-written loop {}", hand.label),
            &hand.rows(),
        );
    }
}

/// A way to run a query: the row's name, threads, whether fused, bars.
type Variant = (String, usize, bool, Vec<Bar>);

fn variants(entry: &Entry) -> Vec<Variant> {
    let mut variants = vec![(entry.name.clone(), 1, true, entry.bars.clone())];
    if let Some(bars) = &entry.two_threads {
        let name = format!("{}, 2 threads", entry.name);
        variants.push((name, 2, true, bars.clone()));
    }
    if entry.unfused {
        variants.push((unfused_name(&entry.name), 1, false, Vec::new()));
    }
    variants
}

fn measure_entry(entry: &Entry, arguments: &Arguments, memory: &mut Memory, report: &mut Report) {
    let Workload {
        query,
        inputs,
        events,
        traffic,
        mut hands,
    } = (entry.build)(arguments.events);
    let labels: Vec<&str> = hands.iter().map(|hand| hand.label).collect();
    let variants = variants(entry);

    let mut tasks = Vec::from(memory.tasks());
    tasks.extend(hands.iter_mut().map(|hand| task(|| hand.run())));
    if engine::can_run(&query, arguments.events) {
        let run = |v: &Variant| task(engine::engine(&query, &inputs, v.1, v.2));
        tasks.extend(variants.iter().map(run));
    }
    let times = time(arguments.effort, &mut tasks);
    drop(tasks);

    let (memory_times, times) = times.split_at(3);
    let bandwidth = memory.bandwidth(memory_times);
    let (hand_times, engine_times) = times.split_at(labels.len());
    let hands: Vec<_> = labels
        .into_iter()
        .zip(hand_times.iter().map(|time| time.per(events)))
        .collect();
    for (i, (name, _, _, bars)) in variants.into_iter().enumerate() {
        report.add(Row {
            name,
            engine: engine_times.get(i).map(|time| time.per(events)),
            hands: hands.clone(),
            bandwidth,
            traffic,
            bars,
        });
    }
}

fn measure_compile(name: &'static str) -> Compile {
    let effort = Effort {
        least: 20,
        ..Effort::QUICK
    };
    let text = &catalogue::app(name);
    let compile = |cached| task(move || engine::compile(text, cached));
    let times = time(effort, &mut [compile(false), compile(true)]);
    Compile {
        name,
        cold: times[0],
        cached: times[1],
    }
}
