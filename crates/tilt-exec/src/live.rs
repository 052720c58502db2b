//! Live runs: rows are pushed as they come, and output is taken as soon as nothing that is still to come can change it.
//!
//! A part `(Ts, Te]` of the output can be told once every input has come as far as lineage says the part can depend on, and, where results depend on the end of
//! the run, once the run is known to go on for longer than anything in the part can see. How far an input has come is known from its rows, which are in
//! order, and from promises ([`Live::advance`]).
//!
//! The part is computed by an ordinary run on the rows that are held, asked for that part only. Afterwards each input keeps what the next part looks back to.
//!
//! The span of the run is that of all events, as always: its start is known when no event that is still to come can start before the first, its end when all input has come. The span that
//! a part's run is given is cut to what the part can see, so its cost does not grow with the time that has passed.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use tilt_data::SnapshotBuffer;
use tilt_ir::{OPEN, Span};

use crate::{
    error::Error,
    execute,
    live::{
        arriving::Arriving,
        by_key::Ends,
        error::LiveError,
        going::Going,
        limits::{Kind, Limits, MindsEnd},
        lines::Lines,
        open_sessions::OpenSessions,
        past::Past,
        state::LiveState,
    },
    query::{Backend, Compiled, RunOptions},
    tail::EndsOf,
};

pub(crate) mod arriving;
mod by_key;
mod carry;
mod checks;
mod coded;
mod each_key;
pub(crate) mod error;
mod going;
mod held;
pub(crate) mod limits;
mod lines;
mod open_sessions;
mod past;
pub(crate) mod state;

/// So many rows of a push go on to the steps at once, while they are in a cache.
const CACHED: usize = 1 << 8;

/// A run that goes on: rows are [pushed](Self::push) as they come, results [taken](Self::take) as soon as they are certain.
///
/// [`Compiled::live`] makes one.
pub struct Live {
    query: Compiled,
    pub(crate) options: RunOptions,
    pub(crate) inputs: Vec<Arriving>,
    limits: Limits,
    ends: Ends,
    /// Why all input is held, and why nothing can be told before all has come.
    holds: Option<String>,
    waits: Option<String>,
    /// Whether what results look back to is carried instead, as far as is known.
    carries: bool,
    /// Everything that ends up to here was given out.
    until: i64,
    /// Where the run starts, if that was said.
    start: Option<i64>,
    /// The run does not end before this.
    lasts: i64,
    /// Where it ends, if that was said.
    end: Option<i64>,
    /// How output is computed.
    going: Going,
    /// How long sessions are that have not ended, if that is all that results look back to without a bound.
    sessions: Option<OpenSessions>,
    /// Where rows of all keys may stay grouped.
    pub(crate) lines: Option<Lines>,
    /// Output without events, with the columns that output has.
    none: Option<SnapshotBuffer>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("inputs", &self.names())
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// What is held of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldInput {
    /// The input.
    pub input: String,
    /// Rows.
    pub rows: usize,
    /// Their bytes, about; of the first input also those of what the run keeps besides rows: what stages and windows go on from, and keys.
    pub bytes: usize,
}

impl Compiled {
    /// Runs the query on rows that are pushed as they come: together the same events, bit for bit, as a run on all rows at once.
    ///
    /// The span of the run is that of all events unless it is given.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tilt_data::arrow::array::Int64Array;
    /// use tilt_data::{Column, SnapshotBuffer, Spans, Timeline};
    /// use tilt_exec::{Query, RunOptions};
    /// use tilt_ir::Unit;
    ///
    /// let text = "query q unit tick { input ~x: i64 point  ~y[t] = reduce sum ~x[t-3 : t]  output ~y }";
    /// let mut live = Query::parse(text)?.compile()?.live(&RunOptions::default())?;
    /// for t in 1..=10 {
    ///     let values = Column::new("x", Arc::new(Int64Array::from(vec![t])));
    ///     let timeline = Timeline::explicit(vec![t].into(), Spans::Fixed(1));
    ///     live.push("x", &SnapshotBuffer::scalar(timeline, values, Unit::Tick)?)?;
    ///     // A sum is certain as soon as its row is there, and no more rows are held than the next one needs.
    ///     let sums = live.take()?;
    ///     assert_eq!((sums.len(), sums.event(0).end), (1, t));
    ///     assert!(live.held()[0].rows <= 3);
    /// }
    /// assert!(live.finish(None)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// None today: what cannot be told early is told by [`Live::finish`].
    pub fn live(&self, options: &RunOptions) -> Result<Live, Error> {
        let (program, lineage) = (&self.inner.program, &self.inner.lineage);
        let sessions = OpenSessions::of(self);
        // What sessions look back to is held until it is known how long they are.
        let held = Past::of(program, lineage);
        let past = sessions.as_ref().map_or(&held, OpenSessions::past);
        let obstacles = limits::obstacles(program, lineage, past);
        let why = |kind: Kind| {
            let of_kind = obstacles.iter().find(|obstacle| obstacle.kind == kind);
            of_kind.map(|obstacle| obstacle.why.clone())
        };
        let (holds, waits) = (why(Kind::Holds), why(Kind::Waits));
        let inputs = program.inputs().map(|(id, input)| {
            let mut arriving = Arriving::new(program, id, lineage.halo(id), held.back(id));
            let holds = obstacles.iter().any(|obstacle| {
                let of_others =
                    program.streams[obstacle.stream].as_input().is_some() && obstacle.stream != id;
                obstacle.kind == Kind::Holds && !of_others
            });
            if holds || waits.is_some() {
                arriving.hold_all(waits.is_some() && input.key.is_some());
            }
            arriving
        });
        let mut live = Live {
            inputs: inputs.collect(),
            query: self.clone(),
            options: options.clone(),
            limits: Limits::of(program, lineage),
            ends: Ends::of(program),
            holds,
            waits,
            carries: false,
            until: i64::MIN,
            start: None,
            lasts: i64::MIN,
            end: None,
            going: Going::Unknown,
            sessions,
            lines: Lines::of(program, options),
            none: None,
        };
        live.carries = live.may_carry();
        Ok(live)
    }

    /// Goes on with a live run that was [saved](Live::save), of this query.
    ///
    /// # Errors
    /// [`LiveError::State`] if the inputs are those of another query, [`LiveError::Carried`] if what it carries is not what this version or backend carries, and when rows are
    /// not of the declared types.
    pub fn resume(&self, state: LiveState, options: &RunOptions) -> Result<Live, Error> {
        let mut live = self.live(options)?;
        let known: Vec<&String> = live.inputs.iter().map(|input| &input.name).collect();
        let mut sorted = known.clone();
        sorted.sort();
        if !state.inputs.keys().eq(sorted) {
            let found: Vec<&String> = state.inputs.keys().collect();
            let (found, known) = (listed(&found), listed(&known));
            return Err(LiveError::State { found, known }.into());
        }
        let mut saved = state.inputs;
        for input in &mut live.inputs {
            if let Some(state) = saved.remove(&input.name) {
                input.restore(&self.inner.program, state)?;
            }
        }
        live.until = state.until;
        live.start = state.start;
        live.lasts = state.lasts;
        if let Some(carried) = state.carried {
            live.restore_carried(&carried)?;
        }
        Ok(live)
    }
}

impl Live {
    /// Takes rows of an input. They follow those that were pushed before, in order of their ends, and none starts before what the input was advanced to.
    ///
    /// The last event of an input whose events last until the next is open: it ends where the next one starts.
    ///
    /// # Errors
    /// When rows are not what the query declares, are out of order, or break a promise. Nothing is taken then.
    pub fn push(&mut self, input: &str, rows: &SnapshotBuffer) -> Result<(), Error> {
        let at = self.find_open(input)?;
        let span = self.given_span();
        if span.is_none() && self.inputs[at].append(rows) {
            if rows.len() >= CACHED {
                self.pass_on(at);
            }
            return Ok(());
        }
        if self.inputs[at].has_no_rows() {
            self.none = None;
        }
        self.pass_on(at);
        self.inputs[at].push(&self.query.inner.program, span, rows)?;
        if !self.inputs[at].held.has_fresh() {
            self.go_on_with(at, rows);
        }
        Ok(())
    }

    /// Takes a few rows of an input, by its number in order of declaration, as [`push`](Self::push) does, without making a buffer of them: at least one event, all of one length,
    /// in order, and a column of values for each that was pushed before. False if nothing was taken, because there is more to look at: then they are to be pushed.
    pub fn append<'a>(
        &mut self,
        input: usize,
        ends: EndsOf,
        length: i64,
        values: impl ExactSizeIterator<Item = &'a ArrayRef> + Clone,
    ) -> bool {
        let has_span = self.given_span().is_some();
        let arriving = self.inputs.get_mut(input);
        let arriving = arriving.filter(|_| !has_span && ends.len() > 0);
        let is_taken = arriving.is_some_and(|input| input.append_values(ends, length, values));
        if is_taken && ends.len() >= CACHED {
            self.pass_on(input);
        }
        is_taken
    }

    /// Says which events of an input have begun and cannot be pushed yet, in place of those that it said before: because others that end before them may still come,
    /// or because they have no end ([`OPEN`]). They are in order of end, after all rows that were pushed. Each is pushed in its turn,
    /// and left out here from then on; it does not end before what the input was advanced to.
    ///
    /// # Errors
    /// When rows are not what the query declares, or out of order.
    pub fn begun(&mut self, input: &str, rows: &SnapshotBuffer) -> Result<(), Error> {
        let at = self.find_open(input)?;
        let span = self.given_span();
        if !rows.is_empty() && !self.is_carrying() {
            self.going = Going::Parts;
            self.carries = false;
        }
        self.inputs[at].set_begun(&self.query.inner.program, span, rows)
    }

    /// Promises that no row of an input that is still to come starts before `t`.
    ///
    /// # Errors
    /// [`LiveError::Unknown`].
    pub fn advance(&mut self, input: &str, t: i64) -> Result<(), Error> {
        let at = self.find(input)?;
        self.inputs[at].advance(t);
        Ok(())
    }

    /// Promises that no more rows of an input come.
    ///
    /// # Errors
    /// [`LiveError::Unknown`].
    pub fn close(&mut self, input: &str) -> Result<(), Error> {
        let at = self.find(input)?;
        self.inputs[at].exhaust();
        Ok(())
    }

    /// Says that the run starts at `t`, and not with the first event; cells of grids may exist before that one.
    ///
    /// # Errors
    /// [`LiveError::Start`] after an event that starts before `t`, or after the start was told.
    pub fn start_at(&mut self, t: i64) -> Result<(), Error> {
        let first = self.hull().map(|hull| hull.start);
        let known = self.options.span.map(|span| span.start).or(self.start);
        let told = (self.until > i64::MIN).then_some(first).flatten();
        let known = known
            .or(told)
            .filter(|known| *known != t)
            .or(first.filter(|first| *first < t));
        if let Some(known) = known {
            return Err(LiveError::Start { start: t, known }.into());
        }
        self.start = Some(t);
        Ok(())
    }

    /// Promises that the run does not end before `t`, though there may be no events.
    pub fn lasts(&mut self, t: i64) {
        self.lasts = self.lasts.max(t);
    }

    /// The events of the output that are certain and were not given out yet.
    ///
    /// # Errors
    /// As [`Compiled::run`]. The run may go on: nothing was given out, and nothing forgotten.
    pub fn take(&mut self) -> Result<SnapshotBuffer, Error> {
        let is_told = !self.knows_start() || self.waits.is_some() && !self.is_exhausted();
        if !is_told && let Some(output) = self.by_steps()? {
            self.lines.iter_mut().for_each(Lines::let_go);
            return Ok(output);
        }
        match self.furthest(i64::MAX)? {
            Some(end) => self.part(end),
            None => self.none(),
        }
    }

    /// Whether no more is held than results look ahead and recent rows, because what they look back to is [carried](carry) if it has no bound.
    pub(crate) fn carries(&self) -> bool {
        self.carries
    }

    /// The rest of the output: no more input comes, and the run ends with the last event, where it was said to last to, or at `end`.
    ///
    /// # Errors
    /// As [`take`](Self::take), and [`LiveError::End`] if the run is known to go on for longer.
    pub fn finish(&mut self, end: Option<i64>) -> Result<SnapshotBuffer, Error> {
        if let Some(end) = end {
            let hull = self.hull().map(|hull| hull.end);
            let known = hull.map_or(self.lasts, |end| end.max(self.lasts));
            let given = self.options.span.map(|span| span.end);
            let known = given.filter(|given| *given != end).unwrap_or(known);
            if known > end || given.is_some_and(|given| given != end) {
                return Err(LiveError::End { end, known }.into());
            }
            self.end = Some(end);
        }
        self.inputs.iter_mut().for_each(Arriving::exhaust);
        self.take()
    }

    /// Output that ends up to here was given out.
    pub fn until(&self) -> i64 {
        self.until
    }

    /// No event of an input that is still to come starts before this, by its rows or by promise. `None` once it is closed.
    ///
    /// # Errors
    /// [`LiveError::Unknown`].
    pub fn watermark(&self, input: &str) -> Result<Option<i64>, Error> {
        let input = &self.inputs[self.find(input)?];
        Ok((!input.is_exhausted).then(|| input.covered()))
    }

    /// The last event of an input that was pushed.
    ///
    /// # Errors
    /// [`LiveError::Unknown`].
    pub fn last(&self, input: &str) -> Result<Option<Span>, Error> {
        Ok(self.inputs[self.find(input)?].last)
    }

    /// Whether it was said which events the run may have, and where it ends ([`RunOptions::span`]).
    pub fn has_span(&self) -> bool {
        self.options.span.is_some()
    }

    /// The input that the output waits for: the one that has come least far of those that it depends on and that are not closed.
    pub fn holding_back(&self) -> Option<&str> {
        let open = |input: &&Arriving| input.halo.is_some() && !input.is_exhausted;
        let last = self.inputs.iter().filter(open).min_by_key(|i| i.frontier());
        last.map(|input| input.name.as_str())
    }

    /// What is held of each input, in order of declaration.
    pub fn held(&self) -> Vec<HeldInput> {
        let ids = self.query.inner.program.inputs().map(|(id, _)| id);
        let mut besides = self.bytes_besides();
        let held = self.inputs.iter().zip(ids).map(|(input, id)| {
            let carried = match &self.going {
                Going::Steps(running) if running.carried => running.steps.rows_of(id),
                Going::Keys(each) if each.carried => each.rows_of(id),
                _ => 0,
            };
            let rows = input.held_rows();
            HeldInput {
                input: input.name.clone(),
                rows: rows.max(carried),
                bytes: rows * input.row_bytes() + std::mem::take(&mut besides),
            }
        });
        held.collect()
    }

    /// Bytes of what is kept besides rows of inputs, about.
    fn bytes_besides(&self) -> usize {
        match &self.going {
            Going::Steps(running) => running.steps.bytes(),
            Going::Keys(each) => each.bytes(),
            Going::Unknown | Going::Parts | Going::Failed(_) => 0,
        }
    }

    /// Why all rows are held, of one input or more, if they are.
    pub fn holds_all(&self) -> Option<&str> {
        let holds = self.holds.as_deref().filter(|_| !self.carries);
        holds.or(self.waits.as_deref())
    }

    /// Why nothing is told before [`finish`](Self::finish), if so.
    pub fn waits(&self) -> Option<&str> {
        self.waits.as_deref()
    }

    /// The run as plain data.
    ///
    /// # Errors
    /// [`Error::Source`] if rows of an input cannot be put together, and when an earlier error has ended the run.
    pub fn save(&mut self) -> Result<LiveState, Error> {
        (0..self.inputs.len()).for_each(|at| self.pass_on(at));
        let carried = self.save_carried()?;
        let mut inputs = BTreeMap::new();
        for input in &mut self.inputs {
            inputs.insert(input.name.clone(), input.save()?);
        }
        Ok(LiveState {
            until: self.until,
            start: self.start,
            lasts: self.lasts,
            inputs,
            carried,
        })
    }

    fn names(&self) -> Vec<&String> {
        self.inputs.iter().map(|input| &input.name).collect()
    }

    fn find(&self, name: &str) -> Result<usize, Error> {
        let found = self.inputs.iter().position(|input| input.name == name);
        found.ok_or_else(|| {
            let (input, known) = (name.to_owned(), listed(&self.names()));
            LiveError::Unknown { input, known }.into()
        })
    }

    /// An input that may still take rows.
    fn find_open(&self, name: &str) -> Result<usize, Error> {
        let at = self.find(name)?;
        if self.inputs[at].is_exhausted {
            let input = name.to_owned();
            return Err(LiveError::Exhausted { input }.into());
        }
        Ok(at)
    }

    /// What must contain all events, if something was given.
    fn given_span(&self) -> Option<Span> {
        let from_start = || self.start.map(|start| Span::new(start, OPEN));
        self.options.span.or_else(from_start)
    }

    fn hull(&self) -> Option<Span> {
        let hulls = self.inputs.iter().filter_map(Arriving::hull);
        hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
    }

    /// The run's span as far as it is known.
    fn span(&self) -> Option<Span> {
        if self.options.span.is_some() {
            return self.options.span;
        }
        let hull = self.hull();
        let start = self.start.or(hull.map(|hull| hull.start))?;
        let end = hull.map_or(start, |hull| hull.end);
        let end = self.end.unwrap_or(end.max(self.lasts));
        Some(Span::new(start, end.max(start)))
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.inputs.iter().all(|input| input.is_exhausted)
    }

    /// Whether no event that is still to come can move the start of the run, or nothing depends on it.
    fn knows_start(&self) -> bool {
        !self.limits.minds_start || self.has_start()
    }

    /// Whether no event that is still to come can move the start of the run.
    fn has_start(&self) -> bool {
        if self.options.span.is_some() || self.start.is_some() {
            return true;
        }
        let first = self.hull().map(|hull| hull.start);
        self.inputs.iter().all(|input| input.starts_after(first))
    }

    /// The furthest instant up to which the output can be told, if something can, and no further than `most`.
    pub(crate) fn furthest(&mut self, most: i64) -> Result<Option<i64>, Error> {
        let is_exhausted = self.is_exhausted();
        if !self.knows_start() || self.waits.is_some() && !is_exhausted {
            return Ok(None);
        }
        let knows_end = self.options.span.is_some() || is_exhausted;
        let is_open = self.inputs.iter().any(Arriving::is_open);
        let end = self.span().map_or(i64::MIN, |span| span.end);
        let limits = self.limits;
        let ahead = limits.ahead;
        let before = |distance: i64| end.saturating_sub(distance).saturating_sub(1);
        let (latest, mut until) = match self.limits.minds_end {
            _ if knows_end => (i64::MAX, i64::MAX),
            MindsEnd::Never if !is_open => (i64::MAX, i64::MAX),
            MindsEnd::Never => {
                let known = self.ends_known_until().saturating_sub(ahead);
                (known.max(before(ahead)), known.max(before(ahead)))
            }
            MindsEnd::Cells(period) if !is_open => (i64::MAX, before(period.saturating_neg())),
            _ => (before(ahead), before(ahead)),
        };
        until = until.min(most);
        for input in &mut self.inputs {
            until = until.min(input.furthest(latest, &limits)?);
        }
        Ok((until > self.until).then_some(until))
    }

    /// No event without an end, which may end with the run, is active before this.
    fn ends_known_until(&self) -> i64 {
        let known = self.inputs.iter().map(Arriving::ends_known_until);
        known.min().unwrap_or(i64::MAX)
    }

    /// Computes and gives out what is left up to `end`.
    pub(crate) fn part(&mut self, end: i64) -> Result<SnapshotBuffer, Error> {
        let part = Span::new(self.until, end);
        let asked = self.options.part.unwrap_or(Span::new(i64::MIN, i64::MAX));
        let wanted = Span::new(part.start.max(asked.start), part.end.min(asked.end));
        let output = if wanted.start < wanted.end && self.ends.may_be_in(wanted) {
            self.compute(part, wanted)?
        } else {
            self.none()?
        };
        self.until = end;
        for input in &mut self.inputs {
            input.forget(end)?;
        }
        self.forget_ended_sessions()?;
        Ok(output)
    }

    /// How far back results look, sessions aside.
    pub(crate) fn past(&self) -> Past {
        let (program, lineage) = (&self.query.inner.program, &self.query.inner.lineage);
        match self.sessions {
            Some(_) => Past::if_sessions_last(program, 1),
            None => Past::of(program, lineage),
        }
    }

    /// The output that ends in `wanted`, which is in the part `(until, end]`, from what is held.
    fn compute(&mut self, part: Span, wanted: Span) -> Result<SnapshotBuffer, Error> {
        let inputs = if let Some(inputs) = self.concerned(part)? {
            self.lines.iter_mut().for_each(Lines::let_go);
            inputs
        } else if let Some(output) = self.on_lines(part, wanted)? {
            return Ok(output);
        } else {
            let inputs = self.inputs.iter_mut();
            let cut = |input: &mut Arriving| Ok((input.name.clone(), input.cut(part)?));
            inputs.map(cut).collect::<Result<_, Error>>()?
        };
        if let Going::Keys(each) = &mut self.going {
            each.spend(inputs.values().map(SnapshotBuffer::len).sum());
        }
        let options = self.options_of(part, wanted, &inputs);
        execute::run(&self.query.inner, &inputs, &options)
    }

    /// How the output that ends in `wanted` is computed.
    fn options_of(
        &self,
        part: Span,
        wanted: Span,
        inputs: &BTreeMap<String, SnapshotBuffer>,
    ) -> RunOptions {
        RunOptions {
            progress: None,
            piece_rows: None,
            piece_ticks: None,
            span: self.seen(part, inputs),
            part: Some(wanted),
            ..self.options.clone()
        }
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
            ..
        } = self.limits;
        let start = hull.start.saturating_sub(back).saturating_sub(1);
        let end = hull.end.saturating_add(ahead).saturating_add(1);
        // An event that lasts to the end of the run ends there.
        let is_open = |buffer: &SnapshotBuffer| {
            let timeline = buffer.timeline();
            !buffer.is_empty() && timeline.end(buffer.len() - 1) == OPEN
        };
        let end = if needs_ends && inputs.values().any(is_open) {
            span.end
        } else {
            end.min(span.end)
        };
        Some(Span::new(start.max(span.start), end))
    }

    /// Output without events.
    pub(crate) fn none(&mut self) -> Result<SnapshotBuffer, Error> {
        if let Some(none) = &self.none {
            return Ok(none.clone());
        }
        let mut inputs = BTreeMap::new();
        for input in &self.inputs {
            inputs.insert(input.name.clone(), input.none().clone());
        }
        let options = RunOptions::default()
            .backend(Backend::Interpreter)
            .functions(self.options.functions.clone());
        let none = execute::run(&self.query.inner, &inputs, &options)?;
        Ok(self.none.insert(none).clone())
    }
}

fn listed(names: &[&String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("~{name}")).collect();
    names.join(", ")
}
