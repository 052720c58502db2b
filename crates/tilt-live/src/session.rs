//! Sessions: from rows in any order to results.

use arrow_array::RecordBatch;
use tilt_data::{Layout, SnapshotBuffer, Spans};
use tilt_exec::{Compiled, Live};
use tilt_ir::{Lineage, OPEN, Reach};

use crate::{
    changes::{Given, changes},
    error::SessionError,
    late::{Fate, LateRow, apart},
    options::{Completion, Mode, Policy, SessionOptions},
    pace::Pace,
    port::Port,
    row::Row,
    status::{InputStatus, Status},
};

/// A query that is fed as rows arrive.
///
/// Rows are [pushed](Self::push), results [taken](Self::take): together they are what a run on all rows that count gives, bit for bit, whatever the size of batches and
/// the order of rows within the lateness that is allowed.
///
/// | | |
/// |---|---|
/// | [`push`](Self::push), [`take`](Self::take), [`take_now`](Self::take_now) | rows in, results out |
/// | [`advance`](Self::advance), [`advance_input`](Self::advance_input), [`catch_up`](Self::catch_up) | time has come to an instant, or past the last row: none waits any longer |
/// | [`idle`](Self::idle), [`at`](Self::at) | nobody waits for an input: said, or found out by the caller's clock |
/// | [`take_late`](Self::take_late), [`status`](Self::status) | late rows that were left out or moved; how far the session has come, and what it keeps |
/// | [`checkpoint`](Self::checkpoint), [`restore`](Self::restore) | the session as bytes, and back |
/// | [`close`](Self::close) | the end, and what becomes of the rest |
///
/// ```
/// use std::sync::Arc;
/// use tilt_data::{IngressOptions, arrow::array::{Array, Float64Array, Int64Array, RecordBatch}};
/// use tilt_exec::Query;
/// use tilt_live::{Completion, InputOptions, Policy, Session, SessionOptions};
///
/// let text = "query q unit tick { input ~x: f64 point  ~y[t every 10] = reduce sum ~x[t-10 : t]  output ~y }";
/// let compiled = Query::parse(text)?.compile()?;
/// let options = || {
///     let x = InputOptions::new(IngressOptions::stamp("t")).lateness(2).policy(Policy::Drop);
///     SessionOptions::new().input("x", x)
/// };
/// let mut session = Session::new(&compiled, options())?;
/// let rows = |times: Vec<i64>| {
///     let values = Float64Array::from_iter_values(times.iter().map(|t| *t as f64));
///     RecordBatch::try_from_iter([("t", Arc::new(Int64Array::from(times)) as _), ("x", Arc::new(values) as _)])
/// };
/// let sums = |batch: &RecordBatch| -> Vec<f64> {
///     let column: &Float64Array = batch["y"].as_any().downcast_ref().expect("doubles");
///     column.values().to_vec()
/// };
///
/// // The watermark is 12, so what ends at 10 is certain, and the row at 3 is late.
/// session.push("x", &rows(vec![8, 14, 3])?)?;
/// assert_eq!(sums(&session.take()?), [8.0]);
/// assert_eq!(session.status().inputs[0].counts.dropped, 1);
/// let late = session.take_late_of("x")?.expect("a row");
/// assert_eq!(late["late_by"].as_ref(), &Int64Array::from(vec![9]) as &dyn Array);
///
/// // Time goes on without rows, too.
/// session.advance(21)?;
/// assert_eq!(sums(&session.take()?), [14.0]);
///
/// // A row waits for others of its time, until it is said that none comes.
/// session.push("x", &rows(vec![35])?)?;
/// assert_eq!(session.status().inputs[0].buffered, 1);
/// session.catch_up()?;
/// assert!(session.take()?.num_rows() == 0 && session.status().inputs[0].buffered == 0);
///
/// // The cell that ends at 40 is not over: it comes with the end of all time, and not with that of the last row.
/// let bytes = session.checkpoint()?;
/// for (completion, rest) in [(Completion::End, &[35.0][..]), (Completion::Flush, &[]), (Completion::Drop, &[])] {
///     let mut again = Session::restore(&compiled, &bytes, options())?;
///     assert_eq!(sums(&again.close(completion)?), rest);
///     assert!(again.push("x", &rows(vec![50])?).is_err());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) compiled: Compiled,
    pub(crate) options: SessionOptions,
    pub(crate) ports: Vec<Port>,
    pub(crate) live: Live,
    /// Results that were given out and may still be revised.
    pub(crate) view: Option<Given>,
    /// The latest that the caller's clock has shown.
    pub(crate) clock: i64,
    pub(crate) is_closed: bool,
    pace: Pace,
    /// Results without rows.
    none: Option<RecordBatch>,
}

impl Session {
    /// Begins a session.
    ///
    /// # Errors
    /// [`SessionError::Input`] if an input has no options, or options name no input; [`SessionError::Option`] if one has no meaning.
    pub fn new(compiled: &Compiled, mut options: SessionOptions) -> Result<Self, SessionError> {
        let program = compiled.program();
        let known: Vec<String> = program
            .inputs()
            .map(|(_, i)| format!("~{}", i.name))
            .collect();
        let known = known.join(", ");
        let mut ports = Vec::new();
        let lineage = Lineage::new(program);
        for (id, input) in program.inputs() {
            let Some(of_input) = options.inputs.remove(&input.name) else {
                return Err(SessionError::Input {
                    input: input.name.clone(),
                    what: "has no options",
                    known,
                });
            };
            let mut port = Port::new(input, program.unit, of_input)?;
            port.lookahead = lineage.halo(id).map(|halo| halo.lookahead);
            ports.push(port);
        }
        if let Some((input, _)) = options.inputs.pop_first() {
            let what = "does not exist";
            return Err(SessionError::Input { input, what, known });
        }
        let mut live = compiled.live(&options.run)?;
        let pace = Pace::new(options.max_batch, options.latency);
        if options.mode == Mode::Final && !live.has_span() {
            for port in &mut ports {
                port.goes_straight = port.may_go_straight();
            }
        }
        // The same columns for every part, whatever computes it.
        if options.egress.layout == Layout::Auto {
            options.egress.layout = match live.take()?.timeline().spans() {
                Spans::Fixed(_) => Layout::Point,
                _ => Layout::Interval,
            };
        }
        if let Some(start) = options.start {
            live.start_at(start)?;
            for port in &mut ports {
                port.promise(start);
            }
        }
        Ok(Self {
            compiled: compiled.clone(),
            options,
            ports,
            live,
            view: None,
            clock: i64::MIN,
            is_closed: false,
            pace,
            none: None,
        })
    }

    /// Takes rows of an input, in the order in which they came.
    ///
    /// # Errors
    /// When rows are not what the query declares, or one is late and the policy is to raise. Nothing of the batch is taken then.
    pub fn push(&mut self, input: &str, rows: &RecordBatch) -> Result<(), SessionError> {
        let clock = self.clock;
        let at = self.find(input)?;
        let port = &mut self.ports[at];
        let first = match port.push_in_order(rows, at, &mut self.live)? {
            Some(first) => Some(first),
            None => port.push(rows)?,
        };
        port.touched = port.touched.max(clock);
        if let Some(first) = first {
            self.pace.came(rows.num_rows(), first, clock);
        }
        self.leave_idle_behind();
        Ok(())
    }

    /// Says that time has come to `t`: no row of an earlier time counts any more, of any input, and the run goes on to `t` at least.
    ///
    /// # Errors
    /// [`SessionError::Closed`].
    pub fn advance(&mut self, t: i64) -> Result<(), SessionError> {
        self.check_open()?;
        self.ports.iter_mut().for_each(|port| port.advance(t));
        self.live.lasts(t);
        Ok(())
    }

    /// Says that no row of an input with a time before `t` counts any more.
    ///
    /// # Errors
    /// When there is no such input, or the session was closed.
    pub fn advance_input(&mut self, input: &str, t: i64) -> Result<(), SessionError> {
        self.port(input)?.advance(t);
        self.leave_idle_behind();
        Ok(())
    }

    /// Lets no row wait for its watermark any longer: of each input none is to come up to the time of its last one. Rows that were moved tell no time; those that were moved
    /// further wait on.
    ///
    /// # Errors
    /// [`SessionError::Closed`].
    pub fn catch_up(&mut self) -> Result<(), SessionError> {
        self.check_open()?;
        for port in &mut self.ports {
            if port.high > i64::MIN {
                port.promise(port.high.saturating_add(1));
            }
        }
        self.pace.hurry();
        Ok(())
    }

    /// Says that an input has no rows for the time being: the others do not wait for it, until it has some again.
    ///
    /// # Errors
    /// When there is no such input, or the session was closed.
    pub fn idle(&mut self, input: &str) -> Result<(), SessionError> {
        self.port(input)?.is_idle = true;
        self.leave_idle_behind();
        Ok(())
    }

    /// Tells the time by the caller's clock, in any unit, to declare inputs idle that have had no rows for as long as their options say. A clock that goes back changes nothing.
    pub fn at(&mut self, clock: i64) {
        self.clock = self.clock.max(clock);
        for port in &mut self.ports {
            let Some(after) = port.options.idle_after else {
                continue;
            };
            if port.touched == i64::MIN {
                port.touched = self.clock;
            }
            port.is_idle |= self.clock.saturating_sub(port.touched) >= after;
        }
        self.leave_idle_behind();
    }

    /// The results that are new: certain ones, or, if results are revised, changes, with a first column `op` (`insert`, `update`, `delete`).
    /// None as long as rows wait to be computed together with others ([`max_batch`](SessionOptions::max_batch), [`latency`](SessionOptions::latency)).
    ///
    /// # Errors
    /// As a run, and [`SessionError::Overlap`] by the policy to raise.
    pub fn take(&mut self) -> Result<RecordBatch, SessionError> {
        self.check_open()?;
        match &self.none {
            Some(none) if !self.is_due() => Ok(none.clone()),
            _ => self.take_now(),
        }
    }

    /// Whether [`take`](Self::take) computes something. If not, rows wait to be computed together with others: it would give a batch without rows, and making that costs as much as
    /// taking a few.
    pub fn is_due(&self) -> bool {
        let come = |port: &Port| port.high.max(port.promised);
        let time = self.ports.iter().map(come).max();
        self.none.is_none() || self.pace.is_due(time.unwrap_or(i64::MIN), self.clock)
    }

    /// As [`take`](Self::take), of all rows that have come: none waits to be computed with others.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_now(&mut self) -> Result<RecordBatch, SessionError> {
        self.check_open()?;
        self.pace.done();
        let results = self.compute()?;
        // Columns are known for good when rows have come.
        if self.ports.iter().all(|port| port.fields.is_some()) {
            self.none.get_or_insert_with(|| results.slice(0, 0));
        }
        Ok(results)
    }

    fn compute(&mut self) -> Result<RecordBatch, SessionError> {
        self.settle(Port::watermark)?;
        let certain = self.live.take()?;
        if !self.revises() {
            return self.rows(&certain);
        }
        let mut early = self.compiled.resume(self.live.save()?, &self.options.run)?;
        for (number, port) in self.ports.iter().enumerate() {
            let until = match self.options.mode {
                Mode::Final => port.watermark(),
                Mode::Updates => OPEN - 1,
            };
            port.settle(&mut port.queue.clone(), until, (number, &mut early))?;
        }
        let early = match self.options.mode {
            Mode::Final => early.take()?,
            Mode::Updates => early.finish(None)?,
        };
        self.changes(&certain, Some(early))
    }

    /// Ends the session, and gives the rest of its results.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn close(&mut self, completion: Completion) -> Result<RecordBatch, SessionError> {
        self.check_open()?;
        let rest = match completion {
            // What was given out early stays as it is. Rows that the watermark has passed do not wait, whether or not results were taken since.
            Completion::Drop => {
                self.view = None;
                match self.settle_to(Port::watermark) {
                    Err(SessionError::Overlap { .. }) => {}
                    settled => settled?,
                }
                for port in &mut self.ports {
                    port.hold_back()?;
                    let left = port.queue.pending.len() as u64;
                    port.counts.accepted -= left;
                    port.counts.dropped += left;
                    port.queue.pending.clear();
                    port.counts.adjusted -= port.late.drop_undecided();
                }
                self.live.take()?.slice(0, 0)
            }
            Completion::Flush => {
                for port in &mut self.ports {
                    let given = self.live.last(&port.input.name)?;
                    let starts = given.map(|event| event.start).into_iter();
                    let last = starts
                        .chain(port.queue.last_start())
                        .fold(port.high, i64::max);
                    if last > i64::MIN {
                        port.promise(last.saturating_add(1));
                    }
                    port.decide_all()?;
                }
                self.settle_to(Port::watermark)?;
                self.live.take()?
            }
            Completion::End => {
                self.settle_to(|_| OPEN - 1)?;
                self.live.finish(None)?
            }
        };
        self.is_closed = true;
        self.rows_or_changes(&rest)
    }

    /// Late rows since this was asked last, by input: as they were given, with `late` (`dropped`, `adjusted`, `overlapping`) and `late_by` in ticks.
    /// Of each input at most the last 65 536 are kept; all are counted.
    ///
    /// # Errors
    /// When Arrow refuses.
    pub fn take_late(&mut self) -> Result<Vec<(String, RecordBatch)>, SessionError> {
        let unit = self.compiled.program().unit;
        let mut found = Vec::new();
        for port in &mut self.ports {
            if let Some(rows) = port.take_late(unit)? {
                found.push((port.input.name.clone(), rows));
            }
        }
        Ok(found)
    }

    /// As [`take_late`](Self::take_late), of one input; `None` if there are none. It may be asked for after the end as well.
    ///
    /// # Errors
    /// When there is no such input, and when Arrow refuses.
    pub fn take_late_of(&mut self, input: &str) -> Result<Option<RecordBatch>, SessionError> {
        let unit = self.compiled.program().unit;
        let at = self.position(input)?;
        Ok(self.ports[at].take_late(unit)?)
    }

    /// How far the session has come.
    pub fn status(&self) -> Status {
        let some = |t: i64| Some(t).filter(|t| *t > i64::MIN);
        let mut revised = self.view.as_ref().map_or(0, Given::bytes);
        let inputs = self.ports.iter().zip(self.live.held()).map(|(port, held)| {
            let buffered = port.queue.len();
            InputStatus {
                input: port.input.name.clone(),
                watermark: some(port.watermark()).map(|start| port.time_of(start)),
                is_idle: port.is_idle,
                buffered,
                held: held.rows,
                bytes: held.bytes
                    + buffered * (port.row_bytes + size_of::<Row>())
                    + port.late.len() * (port.row_bytes + size_of::<LateRow>())
                    + std::mem::take(&mut revised),
                counts: port.counts,
            }
        });
        Status {
            until: some(self.live.until()),
            inputs: inputs.collect(),
            holding_back: self.holding_back(),
            holds_all: self.live.holds_all().map(str::to_owned),
            waits: self.live.waits().map(str::to_owned),
        }
    }

    /// The input that results wait for: of those that the output reads and that are not idle the one that lets them come least far, with what is looked at ahead of them.
    fn holding_back(&self) -> Option<String> {
        let lets_come = |port: &Port| match port.lookahead {
            Some(Reach::Bounded { ticks, .. }) => port.watermark().saturating_sub(ticks),
            Some(Reach::Unbounded) | None => i64::MIN,
        };
        let active = self.ports.iter().filter(|port| !port.is_idle);
        let read = active.filter(|port| port.lookahead.is_some());
        let last = read.min_by_key(|port| lets_come(port));
        last.map(|port| port.input.name.clone())
    }

    fn check_open(&self) -> Result<(), SessionError> {
        if self.is_closed {
            return Err(SessionError::Closed);
        }
        Ok(())
    }

    fn port(&mut self, name: &str) -> Result<&mut Port, SessionError> {
        let at = self.find(name)?;
        Ok(&mut self.ports[at])
    }

    fn find(&self, name: &str) -> Result<usize, SessionError> {
        self.check_open()?;
        self.position(name)
    }

    fn position(&self, name: &str) -> Result<usize, SessionError> {
        let found = self.ports.iter().position(|port| port.input.name == name);
        if let Some(at) = found {
            return Ok(at);
        }
        let known = self
            .ports
            .iter()
            .map(|port| format!("~{}", port.input.name));
        Err(SessionError::Input {
            input: name.to_owned(),
            what: "does not exist",
            known: known.collect::<Vec<_>>().join(", "),
        })
    }

    /// Idle inputs have come as far as the others, all of which have come that far.
    fn leave_idle_behind(&mut self) {
        if self.ports.len() < 2 {
            return;
        }
        let active = self.ports.iter().filter(|port| !port.is_idle);
        let Some(least) = active.map(Port::watermark).min() else {
            return;
        };
        let idle = self.ports.iter_mut().filter(|port| port.is_idle);
        idle.for_each(|port| port.promise(least));
    }

    /// Whether results that were given out may be revised.
    fn revises(&self) -> bool {
        self.options.mode == Mode::Updates || self.ports.iter().any(|port| port.horizon() > 0)
    }

    /// Gives the run what can no longer be revised up to watermarks.
    fn settle(&mut self, until: impl Fn(&Port) -> i64) -> Result<(), SessionError> {
        self.settle_to(|port| match until(port) {
            i64::MIN => i64::MIN,
            until => until.saturating_sub(port.horizon()),
        })
    }

    fn settle_to(&mut self, until: impl Fn(&Port) -> i64) -> Result<(), SessionError> {
        let mut error = None;
        for (number, port) in self.ports.iter_mut().enumerate() {
            let until = until(port);
            let mut queue = std::mem::take(&mut port.queue);
            let settled = port.settle(&mut queue, until, (number, &mut self.live));
            port.queue = queue;
            let settled = settled?;
            port.decide(&settled);
            let in_time = settled
                .left_out
                .into_iter()
                .filter(|(row, _)| !row.yields());
            let mut late = Vec::new();
            for (row, previous) in in_time {
                port.counts.accepted -= 1;
                port.counts.overlapping += 1;
                if port.options.policy == Policy::Raise && error.is_none() {
                    error = Some(SessionError::Overlap {
                        input: port.input.name.clone(),
                        start: row.event.start,
                        end: row.event.end,
                        previous,
                    });
                }
                let (fate, by) = (Fate::Overlapping, 0);
                late.push(LateRow { row, fate, by });
            }
            apart(&mut late)?;
            for late in late {
                port.late.push(late);
            }
        }
        error.map_or(Ok(()), Err)
    }

    fn rows(&self, part: &SnapshotBuffer) -> Result<RecordBatch, SessionError> {
        if let Some(none) = self.none.as_ref().filter(|_| part.is_empty()) {
            return Ok(none.clone());
        }
        part.to_record_batch(self.options.egress)
            .map_err(|source| self.of_output(source))
    }

    fn rows_or_changes(&mut self, part: &SnapshotBuffer) -> Result<RecordBatch, SessionError> {
        if self.revises() {
            self.changes(part, None)
        } else {
            self.rows(part)
        }
    }

    /// What is different from what was given out: results that are certain, and those that may still be revised.
    fn changes(
        &mut self,
        certain: &SnapshotBuffer,
        early: Option<SnapshotBuffer>,
    ) -> Result<RecordBatch, SessionError> {
        let layout = self.options.egress.layout;
        // Before rows have come, the type of times is not known.
        let mut after: Vec<SnapshotBuffer> = [certain].into_iter().chain(&early).cloned().collect();
        after.retain(|part| !part.is_empty());
        if after.is_empty() {
            after.push(early.clone().unwrap_or_else(|| certain.clone()));
        }
        let found = SnapshotBuffer::concat(&after)
            .and_then(|after| Given::of(&after, layout))
            .and_then(|after| {
                let none = Given {
                    events: Vec::new(),
                    rows: after.rows.slice(0, 0),
                };
                let program = self.compiled.program();
                let key = program.inputs().find_map(|(_, input)| input.key.as_deref());
                changes(self.view.as_ref().unwrap_or(&none), &after, key)
            })
            .map_err(|source| self.of_output(source))?;
        let early = early.filter(|early| !early.is_empty());
        let view = early.map(|early| Given::of(&early, layout)).transpose();
        self.view = view.map_err(|source| self.of_output(source))?;
        Ok(found)
    }

    fn of_output(&self, source: tilt_data::DataError) -> SessionError {
        let program = self.compiled.program();
        let input = program.streams[program.output].name().to_owned();
        let source = Box::new(source);
        SessionError::Data { input, source }
    }
}
