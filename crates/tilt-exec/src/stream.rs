//! Runs over chunks: input arrives chunk by chunk, output leaves part by part, and neither has to fit into memory.
//!
//! A part `(Ts, Te]` of the output is computed once every input has come as far as lineage says the part can depend on, and once the run is known to go on
//! for longer than anything in the part can see: so no chunk that is still to come changes it. It is an ordinary run on the rows that are held, asked for that part only.
//! Afterwards each input keeps what the next part looks back to.
//!
//! The span of the run is that of all events, as always: its start is known when an event of every input has come, its end when all inputs are exhausted. The span that
//! a part's run is given is cut to what the part can see, so its cost does not grow with the time that has passed.

use std::{collections::BTreeMap, error::Error as StdError, time::Instant};

use tilt_data::SnapshotBuffer;
use tilt_interp::DataError;
use tilt_ir::Span;

use crate::{
    control::{Cancel, PAUSE, Progress},
    error::Error,
    execute::{self, default_threads},
    query::{Compiled, RunOptions},
    stream::{arriving::Arriving, limits::Limits},
};

mod arriving;
mod limits;

/// How many bytes a run over chunks uses, about, if nobody says.
const BUDGET: usize = 1 << 30;
/// Rows of a part for each thread, if memory allows and its halo is not longer: some pieces.
const LEAST: usize = 1 << 17;
/// A part has at least so many times the rows of its halo, so that what is read twice does not count.
const HALOS: usize = 4;

/// A run over chunks: an iterator over parts of the output, in order of time. After an error there is nothing more.
///
/// [`Compiled::stream`] makes one.
pub struct StreamRun<I> {
    query: Compiled,
    options: RunOptions,
    inputs: Vec<Arriving<I>>,
    limits: Limits,
    /// Everything that ends up to here was given out.
    until: i64,
    /// Rows that must have come before the next part is looked for.
    wanted: usize,
    rows: u64,
    /// When progress was reported last.
    reported: Option<Instant>,
    has_emitted: bool,
    is_done: bool,
}

impl<I> std::fmt::Debug for StreamRun<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let names: Vec<&String> = self.inputs.iter().map(|input| &input.name).collect();
        f.debug_struct("StreamRun")
            .field("inputs", &names)
            .field("until", &self.until)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Compiled {
    /// Runs the query on inputs that arrive in chunks, and gives its output part by part: together the same events, bit for bit, as a run on all
    /// chunks at once. Chunks of an input follow each other in time, and may have any number of rows.
    ///
    /// A part is given out once no chunk that is still to come can change it. The span of the run is that of all events unless it is given, which lets progress be told as well.
    ///
    /// Of each input no more is held than what the next part of the output depends on, in about as much memory as [`RunOptions::memory`] allows.
    /// Chunks are asked for when they are needed, from the input that has come least far.
    ///
    /// ```
    /// use std::{collections::BTreeMap, sync::Arc};
    /// use tilt_data::arrow::array::Int64Array;
    /// use tilt_data::{Column, DataError, SnapshotBuffer, Spans, Timeline};
    /// use tilt_exec::{Query, RunOptions};
    /// use tilt_ir::Unit;
    ///
    /// let text = "query q unit tick { input ~x: i64 point  ~y[t] = reduce sum ~x[t-3 : t]  output ~y }";
    /// let compiled = Query::parse(text)?.compile()?;
    /// // Ten chunks of a hundred samples each, made when they are asked for.
    /// let chunks = (0..10).map(|i| {
    ///     let timeline = Timeline::regular(1 + 100 * i, 1, 100, Spans::Fixed(1));
    ///     let values = Column::new("x", Arc::new(Int64Array::from_value(1, 100)));
    ///     SnapshotBuffer::scalar(timeline, values, Unit::Tick)
    /// });
    /// let parts = compiled.stream(BTreeMap::from([("x".to_owned(), chunks)]), &RunOptions::default())?;
    /// let mut rows = 0;
    /// for part in parts {
    ///     rows += part?.len();
    /// }
    /// assert_eq!(rows, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Whole`] if no part of the output can be told before all input has come, and when an input is missing. The iterator gives
    /// [`Error::Source`] if an input fails, [`Error::Memory`] if what has to be held does not fit, and errors as [`run`](Self::run).
    pub fn stream<I, E>(
        &self,
        inputs: BTreeMap<String, I>,
        options: &RunOptions,
    ) -> Result<StreamRun<I>, Error>
    where
        I: Iterator<Item = Result<SnapshotBuffer, E>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let (program, lineage) = (&self.inner.program, &self.inner.lineage);
        limits::check(program, lineage)?;
        let mut given = inputs;
        let mut arriving = Vec::new();
        for (id, input) in program.inputs() {
            let Some(chunks) = given.remove(&input.name) else {
                let stream = input.name.clone();
                return Err(Error::Run(DataError::Missing { stream }.into()));
            };
            let halo = lineage.halo(id);
            arriving.push(Arriving::new(program, input, halo, chunks));
        }
        let mut run = StreamRun {
            query: self.clone(),
            options: options.clone(),
            inputs: arriving,
            limits: Limits::of(program, lineage),
            until: i64::MIN,
            wanted: 0,
            rows: 0,
            reported: None,
            has_emitted: false,
            is_done: false,
        };
        run.report(0.0);
        Ok(run)
    }
}

impl<I, E> Iterator for StreamRun<I>
where
    I: Iterator<Item = Result<SnapshotBuffer, E>>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    type Item = Result<SnapshotBuffer, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_done {
            match self.step() {
                Ok(None) => {}
                Ok(Some(part)) => return Some(Ok(part)),
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl<I, E> StreamRun<I>
where
    I: Iterator<Item = Result<SnapshotBuffer, E>>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Computes a part if one can be told, or else takes a chunk.
    fn step(&mut self) -> Result<Option<SnapshotBuffer>, Error> {
        if self
            .options
            .cancel
            .as_ref()
            .is_some_and(Cancel::is_cancelled)
        {
            return Err(Error::Cancelled { done: self.done() });
        }
        if let Some(end) = self.ready()? {
            return self.part(end);
        }
        let span = self.options.span;
        let program = &self.query.inner.program;
        // First an event of each, then whoever has come least far; in the end also those that only the span depends on.
        let open = self.inputs.iter_mut().filter(|input| !input.is_exhausted);
        let next = open.min_by_key(|input| (input.knows_start(), input.frontier()));
        let Some(input) = next else {
            let what = "all input has come, but not all output can be told";
            return Err(Error::Internal(what.to_owned()));
        };
        input.pull(program, span)?;
        Ok(None)
    }
}

impl<I> StreamRun<I> {
    fn is_exhausted(&self) -> bool {
        self.inputs.iter().all(|input| input.is_exhausted)
    }

    /// The hull of the events that have come, or the span that was asked for.
    fn span(&self) -> Option<Span> {
        let hulls = self.inputs.iter().filter_map(|input| input.hull);
        let hull = hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)));
        self.options.span.or(hull)
    }

    /// Whether the end of the run's span is known.
    fn knows_end(&self) -> bool {
        self.options.span.is_some() || self.is_exhausted()
    }

    fn budget(&self) -> usize {
        self.options.memory.unwrap_or(BUDGET)
    }

    /// Rows of an input that a part may have.
    fn most_rows(&self, input: &Arriving<I>) -> usize {
        let share = self.budget() / 8 / self.inputs.len().max(1);
        let fits = (share / input.row_bytes()).max(1);
        self.options
            .piece_rows
            .map_or(fits, |asked| fits.min(asked))
    }

    /// Where the next part ends, if that can be told.
    fn ready(&mut self) -> Result<Option<i64>, Error> {
        if self.options.span.is_none() && !self.inputs.iter().all(Arriving::knows_start) {
            return Ok(None);
        }
        let is_exhausted = self.is_exhausted();
        let needed = || self.inputs.iter().filter(|input| input.halo.is_some());
        let fresh: usize = needed().map(Arriving::fresh_rows).sum();
        if !is_exhausted && fresh < self.wanted.max(1) {
            return Ok(None);
        }
        let most = needed().map(|input| self.most_rows(input)).max();
        let held: usize = needed().map(Arriving::held_rows).sum();
        let threads = || self.options.threads.unwrap_or_else(default_threads);
        let least = self.options.piece_rows.unwrap_or_else(|| LEAST * threads());
        let least = least.max(HALOS * held.saturating_sub(fresh));
        let least = least.min(most.unwrap_or(1));
        if !is_exhausted && fresh < least {
            self.wanted = least;
            return Ok(None);
        }
        for input in &mut self.inputs {
            input.join()?;
        }
        let found = self.furthest();
        if found.is_none() {
            // Rows to come are looked at together with all that are held: not one by one.
            self.wanted = fresh + 1 + fresh / 8;
            self.check_budget(Arriving::held_rows)?;
        }
        Ok(found)
    }

    /// The furthest instant up to which the output can be told, and not more of it than fits.
    fn furthest(&self) -> Option<i64> {
        let needed = || self.inputs.iter().filter(|input| input.halo.is_some());
        let mut most = i64::MAX;
        for input in needed() {
            let timeline = input.held().timeline();
            let first = timeline.ends_until(self.until);
            let row = first.saturating_add(self.most_rows(input)) - 1;
            if row < timeline.len() {
                most = most.min(timeline.end(row));
            }
        }
        let latest = if self.knows_end() {
            i64::MAX
        } else {
            let end = self.span()?.end;
            end.saturating_sub(self.limits.ahead).saturating_sub(1)
        };
        if self.is_exhausted() && most == i64::MAX {
            return Some(i64::MAX);
        }
        let most = most.min(latest);
        let covers = |until: i64| {
            until > self.until
                && until <= most
                && needed().all(|input| input.covers(until, latest, self.limits.needs_ends))
        };
        if most < i64::MAX && covers(most) {
            return Some(most);
        }
        // What is covered is covered further back too.
        let ends = needed().filter_map(|input| {
            let timeline = input.held().timeline();
            let (mut low, mut high) = (timeline.ends_until(self.until), timeline.ends_until(most));
            let first = low;
            while low < high {
                let middle = low.midpoint(high);
                if covers(timeline.end(middle)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            (low > first).then(|| timeline.end(low - 1))
        });
        ends.max()
    }

    /// Fails if so many rows, of those that are held, are too many.
    fn check_budget(&self, rows: impl Fn(&Arriving<I>) -> usize) -> Result<(), Error> {
        let bytes = |input: &&Arriving<I>| rows(input).saturating_mul(input.row_bytes());
        let largest = self.inputs.iter().max_by_key(bytes);
        let bytes: usize = self.inputs.iter().map(|input| bytes(&input)).sum();
        let budget = self.budget();
        if self.is_exhausted() || bytes <= budget / 2 {
            return Ok(());
        }
        let unit = self.query.inner.program.unit;
        Err(Error::Memory {
            input: largest.map_or_else(String::new, |input| input.name.clone()),
            lookback: self
                .query
                .inner
                .lineage
                .lookback()
                .display(unit)
                .to_string(),
            lookahead: self
                .query
                .inner
                .lineage
                .lookahead()
                .display(unit)
                .to_string(),
            bytes,
            budget,
        })
    }

    /// Computes the part that ends at `end`.
    fn part(&mut self, end: i64) -> Result<Option<SnapshotBuffer>, Error> {
        let part = Span::new(self.until, end);
        let is_last = end == i64::MAX;
        let inputs: BTreeMap<String, SnapshotBuffer> = self
            .inputs
            .iter()
            .map(|input| (input.name.clone(), input.cut(part)))
            .collect();
        let mut options = self.options.clone();
        options.progress = None;
        options.piece_rows = None;
        options.span = self.seen(part, &inputs);
        let asked = options.part.unwrap_or(Span::new(i64::MIN, i64::MAX));
        let (from, to) = (part.start.max(asked.start), part.end.min(asked.end));
        options.part = Some(Span::new(from, to.max(from)));
        let output = if from < to || is_last && !self.has_emitted {
            let output = execute::run(&self.query.inner, &inputs, &options);
            Some(output.map_err(|error| self.since_start(error))?)
        } else {
            None
        };
        self.until = end;
        self.wanted = 0;
        self.is_done = is_last || asked.end <= end;
        self.inputs.iter_mut().for_each(|input| input.forget(end));
        self.check_budget(|input| input.held_rows() - input.fresh_rows())?;
        let output =
            output.filter(|output| !output.is_empty() || self.is_done && !self.has_emitted);
        self.rows += output.as_ref().map_or(0, |output| output.len() as u64);
        self.has_emitted |= output.is_some();
        self.report(if self.is_done { 1.0 } else { self.done() });
        Ok(output)
    }

    /// The span of the run, cut to what a part can see: its instants and those of the events it depends on, and as far from them as reads go.
    fn seen(&self, part: Span, inputs: &BTreeMap<String, SnapshotBuffer>) -> Option<Span> {
        let span = self.span()?;
        let hulls = inputs.values().filter_map(SnapshotBuffer::hull);
        let hull = hulls.fold(part, |a, b| {
            Span::new(a.start.min(b.start), a.end.max(b.end))
        });
        let Limits {
            back,
            ahead,
            needs_ends,
        } = self.limits;
        let start = hull.start.saturating_sub(back).saturating_sub(1);
        let end = hull.end.saturating_add(ahead).saturating_add(1);
        // An event that lasts to the end of the run ends there.
        let is_open = |buffer: &SnapshotBuffer| {
            let timeline = buffer.timeline();
            !buffer.is_empty() && timeline.end(buffer.len() - 1) == tilt_ir::OPEN
        };
        let end = if needs_ends && inputs.values().any(is_open) {
            span.end
        } else {
            end.min(span.end)
        };
        Some(Span::new(start.max(span.start), end))
    }

    /// A part that was cancelled says how far the run had come.
    fn since_start(&self, error: Error) -> Error {
        match error {
            Error::Cancelled { .. } => Error::Cancelled { done: self.done() },
            error => error,
        }
    }

    /// The share of the run's span that is done, if the span was given.
    fn done(&self) -> f64 {
        let Some(span) = self.options.span.filter(|span| span.start < span.end) else {
            return 0.0;
        };
        let until = self.until.clamp(span.start, span.end);
        let distance = |t: i64| t as f64 - span.start as f64;
        distance(until) / distance(span.end)
    }

    fn report(&mut self, done: f64) {
        let Some(watcher) = &self.options.progress else {
            return;
        };
        if self.is_done || self.reported.is_none_or(|last| last.elapsed() >= PAUSE) {
            let rows = self.rows;
            (watcher.0)(Progress { done, rows });
            self.reported = Some(Instant::now());
        }
    }
}
