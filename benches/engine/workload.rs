//! A query with its data, the loops to compare it with, and what it has to reach.

use std::hint::black_box;

use crate::{data::Inputs, rows::Rows};

/// A query on data of some size.
pub(crate) struct Workload {
    /// The query's text.
    pub(crate) query: String,
    /// Its inputs.
    pub(crate) inputs: Inputs,
    /// What to divide times by.
    pub(crate) events: usize,
    /// What cannot be avoided to move per event.
    pub(crate) traffic: Traffic,
    /// The same by hand, the first as one would write it.
    pub(crate) hands: Vec<Hand>,
}

/// Bytes per event between memory and the processor.
#[derive(Clone, Copy)]
pub(crate) enum Traffic {
    /// Only read, or next to nothing written.
    Read(f64),
    /// Read and written together.
    Copy(f64),
}

/// A hand-written loop with its data and its output, which is allocated once.
pub(crate) struct Hand {
    /// What it is called where there are several.
    pub(crate) label: &'static str,
    body: Box<dyn Body>,
}

trait Body {
    fn run(&mut self);
    fn rows(&self) -> Rows;
}

struct Loop<O, R, S> {
    output: O,
    run: R,
    rows: S,
}

impl<O, R: FnMut(&mut O), S: Fn(&O) -> Rows> Body for Loop<O, R, S> {
    fn run(&mut self) {
        (self.run)(&mut self.output);
        black_box(&mut self.output);
    }

    fn rows(&self) -> Rows {
        (self.rows)(&self.output)
    }
}

impl Hand {
    /// A loop that fills `output`, and how that reads as rows.
    pub(crate) fn new<O: 'static>(
        output: O,
        run: impl FnMut(&mut O) + 'static,
        rows: impl Fn(&O) -> Rows + 'static,
    ) -> Self {
        let body = Box::new(Loop { output, run, rows });
        Self { label: "", body }
    }

    /// The same under a name.
    pub(crate) fn labelled(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// Runs it.
    pub(crate) fn run(&mut self) {
        self.body.run();
    }

    /// What the last run found.
    pub(crate) fn rows(&self) -> Rows {
        self.body.rows()
    }
}

/// What a figure is compared with.
#[derive(Clone, PartialEq)]
pub(crate) enum Yardstick {
    /// The time that the traffic alone takes.
    Memory,
    /// A hand-written loop, by its place.
    Hand(usize),
    /// The engine in another row.
    Row(String),
    /// The fastest of all rows whose names begin so.
    Fastest(String),
}

/// What a row has to reach.
#[derive(Clone)]
pub(crate) enum Bar {
    /// The yardstick's time over the engine's is at least this.
    Speed(Yardstick, f64),
    /// Nanoseconds per event.
    Nanos(f64),
}

/// A row of the table that can be built at any size.
pub(crate) struct Entry {
    /// What it is called.
    pub(crate) name: String,
    /// Makes it for about so many events. Windows are cut to a quarter of them, so that they slide in small checks too.
    pub(crate) build: Box<dyn Fn(usize) -> Workload>,
    /// What it has to reach with one thread.
    pub(crate) bars: Vec<Bar>,
    /// What it has to reach with two, if that is asked.
    pub(crate) two_threads: Option<Vec<Bar>>,
    /// Whether to run the plan as written, too.
    pub(crate) unfused: bool,
}

impl Entry {
    /// A row without bars.
    pub(crate) fn new(
        name: impl Into<String>,
        build: impl Fn(usize) -> Workload + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Box::new(build),
            bars: Vec::new(),
            two_threads: None,
            unfused: false,
        }
    }

    /// Adds a bar on the ratio to a yardstick.
    pub(crate) fn speed(mut self, of: Yardstick, at_least: f64) -> Self {
        self.bars.push(Bar::Speed(of, at_least));
        self
    }

    /// Adds a bar on the time per event.
    pub(crate) fn nanos(mut self, at_most: f64) -> Self {
        self.bars.push(Bar::Nanos(at_most));
        self
    }

    /// Runs with two threads as well, which must be so much faster than one; 0 only reports.
    pub(crate) fn two_threads(mut self, at_least: f64) -> Self {
        let bar = Bar::Speed(Yardstick::Row(self.name.clone()), at_least);
        self.two_threads = Some(if at_least > 0.0 {
            vec![bar]
        } else {
            Vec::new()
        });
        self
    }

    /// Runs the plan as written as well, than which the fused one must be so much faster; 0 only reports.
    pub(crate) fn unfused(mut self, at_least: f64) -> Self {
        self.unfused = true;
        if at_least == 0.0 {
            return self;
        }
        let row = unfused_name(&self.name);
        self.speed(Yardstick::Row(row), at_least)
    }
}

/// The row of a query's plan as written.
pub(crate) fn unfused_name(name: &str) -> String {
    format!("{name}, unfused")
}
