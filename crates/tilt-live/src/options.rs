//! What a session is told at its start.

use std::collections::BTreeMap;

use tilt_data::{EgressOptions, IngressOptions};
use tilt_exec::RunOptions;

/// What happens to a row that comes later than the watermark of its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// The batch is refused, with an error.
    #[default]
    Raise,
    /// The row is left out.
    Drop,
    /// The row's event is moved to the watermark: points and samples as a whole, the start of an interval; one that has ended by then is left out.
    Adjust,
    /// What was given out is revised, if the row is at most so many ticks behind the watermark; a row that is later is left out.
    Revise {
        /// Ticks of the query's unit.
        horizon: i64,
    },
}

/// Whether results wait until they are certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// They do. With [`Policy::Revise`] they may be revised nevertheless.
    #[default]
    Final,
    /// They are given as if all input had come, and revised later.
    Updates,
}

/// What becomes of the rest when a session is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Completion {
    /// Rows that wait are left out, and so is every result that was not taken.
    Drop,
    /// All rows count, and time has come to the last event: what is certain then is given.
    Flush,
    /// All rows count, and no more are to come: everything is given, as by a run on all rows.
    #[default]
    End,
}

/// How long rows may wait for others to be computed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// Until events have come to so many ticks of the query's unit after the first of them.
    Events(i64),
    /// So long by the clock that [`Session::at`](crate::Session::at) is told.
    Clock(i64),
}

/// How rows of an input become events, and what is done about disorder.
#[derive(Clone, Debug)]
pub struct InputOptions {
    pub(crate) ingress: IngressOptions,
    pub(crate) lateness: i64,
    pub(crate) policy: Policy,
    pub(crate) edges: bool,
    pub(crate) idle_after: Option<i64>,
}

impl InputOptions {
    /// Rows in order of time.
    pub fn new(ingress: IngressOptions) -> Self {
        Self {
            ingress,
            lateness: 0,
            policy: Policy::Raise,
            edges: false,
            idle_after: None,
        }
    }

    /// How many ticks of the query's unit a row may come after one of a later time. That much later are results certain.
    #[must_use]
    pub fn lateness(mut self, ticks: i64) -> Self {
        self.lateness = ticks;
        self
    }

    /// What happens to a row that comes later than that.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Rows of intervals may have a null end: the event has begun, and a later row with the same start and values tells its end.
    #[must_use]
    pub fn edges(mut self) -> Self {
        self.edges = true;
        self
    }

    /// The input does not hold the others up once it has had no rows for so long, by the clock that [`Session::at`](crate::Session::at) is told.
    #[must_use]
    pub fn idle_after(mut self, clock: i64) -> Self {
        self.idle_after = Some(clock);
        self
    }
}

/// How a session runs.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    pub(crate) run: RunOptions,
    pub(crate) mode: Mode,
    pub(crate) egress: EgressOptions,
    pub(crate) inputs: BTreeMap<String, InputOptions>,
    pub(crate) start: Option<i64>,
    pub(crate) max_batch: Option<usize>,
    pub(crate) latency: Option<Latency>,
}

impl SessionOptions {
    /// Results that are certain, of inputs that are still to be named.
    pub fn new() -> Self {
        Self::default()
    }

    /// How an input is read. Every input has to be named.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, options: InputOptions) -> Self {
        self.inputs.insert(name.into(), options);
        self
    }

    /// How the query runs: threads, back end, functions.
    #[must_use]
    pub fn run(mut self, run: RunOptions) -> Self {
        self.run = run;
        self
    }

    /// Whether results wait until they are certain.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Which columns of time the results have.
    #[must_use]
    pub fn egress(mut self, egress: impl Into<EgressOptions>) -> Self {
        self.egress = egress.into();
        self
    }

    /// Where the run starts; by default with the first event.
    #[must_use]
    pub fn start(mut self, start: i64) -> Self {
        self.start = Some(start);
        self
    }

    /// Rows wait to be computed together until there are so many: fewer, larger steps, which cost less a row. It changes when results are given, not what they are.
    #[must_use]
    pub fn max_batch(mut self, rows: usize) -> Self {
        self.max_batch = Some(rows);
        self
    }

    /// Rows wait to be computed together, but no longer than this; with [`max_batch`](Self::max_batch) until either.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = Some(latency);
        self
    }
}
