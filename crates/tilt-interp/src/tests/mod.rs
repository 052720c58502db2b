//! Programs with results found by hand. Each test is one rule of `docs/ir.md`.

mod clocks;
mod errors;
mod reads;
mod recurrences;
mod runs;
mod trill;
mod windows;

use crate::{Event, Inputs, Options, RunError, Value, run};
use tilt_ir::{Program, parse};

/// Streams called `~x`, `~y` … on a plain axis, the last one being the output.
fn program(streams: &str) -> Program {
    let last = streams.rfind("\n~").map(|at| &streams[at + 2..]);
    let output = last
        .and_then(|s| s.split('[').next())
        .expect("a last stream");
    let text = format!("query q unit tick {{ {streams} output ~{output} }}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Inputs called `~x`, `~y`, `~z` in order.
fn inputs<const N: usize>(streams: [Vec<Event>; N]) -> Inputs {
    let names = ["x", "y", "z"].map(str::to_owned);
    names.into_iter().zip(streams).collect()
}

fn points<T: Into<Value> + Clone>(points: &[(i64, T)]) -> Vec<Event> {
    points
        .iter()
        .map(|(t, v)| Event::point(*t, v.clone()))
        .collect()
}

fn spans<T: Into<Value> + Clone>(spans: &[(i64, i64, T)]) -> Vec<Event> {
    spans
        .iter()
        .map(|(s, e, v)| Event::new(*s, *e, v.clone()))
        .collect()
}

/// Trill's events `[s, e)`, which are ours shifted by a tick.
fn half_open<T: Into<Value> + Clone>(events: &[(i64, i64, T)]) -> Vec<Event> {
    events
        .iter()
        .map(|(s, e, v)| Event::new(s - 1, e - 1, v.clone()))
        .collect()
}

/// `(start,end]value` for each event.
fn text(events: &[Event]) -> String {
    let event = |e: &Event| format!("({},{}]{}", e.start, e.end, e.value);
    events.iter().map(event).collect::<Vec<_>>().join(" ")
}

fn output(streams: &str, inputs: &Inputs) -> String {
    output_with(streams, inputs, &Options::default())
}

fn output_with(streams: &str, inputs: &Inputs, options: &Options) -> String {
    match run(&program(streams), inputs, options) {
        Ok(events) => text(&events),
        Err(error) => panic!("{error}\n{streams}"),
    }
}

fn failure(streams: &str, inputs: &Inputs) -> RunError {
    match run(&program(streams), inputs, &Options::default()) {
        Ok(events) => panic!("no error but {}", text(&events)),
        Err(error) => error,
    }
}
