//! Runs over chunks: input arrives chunk by chunk, output leaves part by part, and neither has to fit into memory.
//!
//! It is a live run ([`Live`]) that asks for chunks, and computes parts of many rows. If that carries what it looks back to without a bound, it goes on chunk by chunk instead, in
//! steps.

use std::{collections::BTreeMap, error::Error as StdError, time::Instant};

use tilt_data::SnapshotBuffer;
use tilt_interp::DataError;

use crate::{
    control::{Cancel, PAUSE, Progress},
    error::Error,
    live::{Live, arriving::Arriving, limits},
    query::{Compiled, RunOptions},
};

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
    live: Live,
    /// Of each input of the run.
    chunks: Vec<I>,
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
        f.debug_struct("StreamRun")
            .field("live", &self.live)
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
    /// Of each input no more is held than what the next part of the output depends on, in about as much memory as [`RunOptions::memory`] allows. Queries that look back without a bound
    /// (recurrences, running totals) go on from chunk to chunk, on one thread, with what they carry.
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
        let mut live = self.live(options)?;
        limits::check(program, lineage, &live.past(), live.carries())?;
        let mut given = inputs;
        let mut chunks = Vec::new();
        for (_, input) in program.inputs() {
            let Some(of_input) = given.remove(&input.name) else {
                let stream = input.name.clone();
                return Err(Error::Run(DataError::Missing { stream }.into()));
            };
            chunks.push(of_input);
        }
        // Only what is held is counted as memory.
        live.lines = None;
        let mut run = StreamRun {
            query: self.clone(),
            live,
            chunks,
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
        let cancel = self.live.options.cancel.as_ref();
        if cancel.is_some_and(Cancel::is_cancelled) {
            return Err(Error::Cancelled { done: self.done() });
        }
        if !self.live.carries()
            && let Some(end) = self.ready()?
        {
            return self.part(end);
        }
        // First an event of each, then whoever has come least far; in the end also those that only the span depends on.
        let inputs = self.live.inputs.iter().enumerate();
        let open = inputs.filter(|(_, input)| !input.is_exhausted);
        let next = open.min_by_key(|(_, input)| (input.starts_after(None), input.frontier()));
        let Some((at, input)) = next else {
            let what = "all input has come, but not all output can be told";
            return Err(Error::Internal(what.to_owned()));
        };
        let name = input.name.clone();
        match self.chunks[at].next() {
            None => self.live.close(&name)?,
            Some(Ok(chunk)) => self.live.push(&name, &chunk)?,
            Some(Err(error)) => {
                return Err(Error::Source {
                    input: name,
                    source: error.into(),
                });
            }
        }
        if self.live.carries() {
            return self.next_steps();
        }
        Ok(None)
    }
}

impl<I> StreamRun<I> {
    fn budget(&self) -> usize {
        self.live.options.memory.unwrap_or(BUDGET)
    }

    /// Rows of an input that a part may have.
    fn most_rows(&self, input: &Arriving) -> usize {
        let share = self.budget() / 8 / self.chunks.len().max(1);
        let fits = (share / input.row_bytes()).max(1);
        let asked = self.live.options.piece_rows;
        asked.map_or(fits, |asked| fits.min(asked))
    }

    /// Where the next part ends, if that can be told.
    fn ready(&mut self) -> Result<Option<i64>, Error> {
        let is_exhausted = self.live.is_exhausted();
        let needed = || self.needed();
        let fresh: usize = needed().map(Arriving::fresh_rows).sum();
        if !is_exhausted && fresh < self.wanted.max(1) {
            return Ok(None);
        }
        let most = needed().map(|input| self.most_rows(input)).max();
        let held: usize = needed().map(Arriving::held_rows).sum();
        let options = &self.live.options;
        let least = options.piece_rows;
        let least = least.unwrap_or_else(|| LEAST * options.thread_count());
        let least = least.max(HALOS * held.saturating_sub(fresh));
        let least = least.min(most.unwrap_or(1));
        if !is_exhausted && fresh < least {
            self.wanted = least;
            return Ok(None);
        }
        // No more than fits.
        let ends = needed()
            .filter_map(|input| input.end_of_row_after(self.live.until(), self.most_rows(input)));
        let most = ends.min().unwrap_or(i64::MAX);
        let found = self.live.furthest(most)?;
        if found.is_none() {
            // Rows to come are looked at together with all that are held: not one by one.
            self.wanted = fresh + 1 + fresh / 8;
            self.check_budget(Arriving::held_rows)?;
        }
        Ok(found)
    }

    /// The inputs that the output depends on.
    fn needed(&self) -> impl Iterator<Item = &Arriving> {
        self.live.inputs.iter().filter(|input| input.halo.is_some())
    }

    /// Fails if so many rows, of those that are held, are too many.
    fn check_budget(&self, rows: impl Fn(&Arriving) -> usize) -> Result<(), Error> {
        let bytes = |input: &&Arriving| rows(input).saturating_mul(input.row_bytes());
        let largest = self.live.inputs.iter().max_by_key(bytes);
        let bytes: usize = self.live.inputs.iter().map(|input| bytes(&input)).sum();
        let budget = self.budget();
        if self.live.is_exhausted() || bytes <= budget / 2 {
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
        let is_last = end == i64::MAX;
        let output = self.live.part(end);
        let output = output.map_err(|error| self.since_start(error))?;
        self.wanted = 0;
        let asked = self.live.options.part;
        self.is_done = is_last || asked.is_some_and(|asked| asked.end <= end);
        self.check_budget(|input| input.held_rows() - input.fresh_rows())?;
        Ok(self.given(output))
    }

    /// Computes what can be told of the rows that have come, by steps that carry what they look back to.
    fn next_steps(&mut self) -> Result<Option<SnapshotBuffer>, Error> {
        let output = self.live.take();
        let output = output.map_err(|error| self.since_start(error))?;
        self.is_done = self.live.is_exhausted();
        let held = self.live.held().into_iter();
        let held: BTreeMap<String, usize> = held.map(|held| (held.input, held.rows)).collect();
        self.check_budget(|input| held[&input.name])?;
        Ok(self.given(output))
    }

    /// A part that is given out: all but those without rows, of which the last is if there was no other.
    fn given(&mut self, output: SnapshotBuffer) -> Option<SnapshotBuffer> {
        let is_given = !output.is_empty() || self.is_done && !self.has_emitted;
        self.rows += output.len() as u64;
        self.has_emitted |= is_given;
        self.report(if self.is_done { 1.0 } else { self.done() });
        is_given.then_some(output)
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
        let Some(span) = self.live.options.span.filter(|span| span.start < span.end) else {
            return 0.0;
        };
        let until = self.live.until().clamp(span.start, span.end);
        let distance = |t: i64| t as f64 - span.start as f64;
        distance(until) / distance(span.end)
    }

    fn report(&mut self, done: f64) {
        let Some(watcher) = &self.live.options.progress else {
            return;
        };
        if self.is_done || self.reported.is_none_or(|last| last.elapsed() >= PAUSE) {
            let rows = self.rows;
            (watcher.0)(Progress { done, rows });
            self.reported = Some(Instant::now());
        }
    }
}
