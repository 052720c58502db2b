//! Live runs in steps: where stages can go on from where they stopped, rows cost what they cost once, however far results look back.
//!
//! Rows are held as for any live run, so that steps can begin at any time: at first, when rows are other than those before (irregular where they were regular, φ where there was none), and in a run
//! that was saved. What was told before is left out.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use arrow_schema::DataType;
use tilt_data::{Column, SnapshotBuffer, Spans};
use tilt_ir::{Input, OPEN, Overlap, Reach, Span, SpanRule, StreamId};

use super::{
    Live,
    arriving::Arriving,
    by_key::Ends,
    carry::lasting_facts,
    each_key::{self, Cells, EachKey, KeyedInput, Keys},
    error::LiveError,
    limits::MindsEnd,
};
use crate::{
    error::Error,
    facts::{AxisFacts, Regular, SeriesFacts},
    keyed::is_plain,
    plan::Purpose,
    query::{Backend, Prepared, RunOptions},
    run::Trouble,
    steps::{Arrived, Common, ROOM, Reached, Steps},
};

/// How a live run computes its output.
pub(super) enum Going {
    /// Not known yet, or not for rows that have come since.
    Unknown,
    /// In steps.
    Steps(Box<Running>),
    /// In steps, each key by itself.
    Keys(Box<EachKey>),
    /// Each part by a run of its own.
    Parts,
    /// Not any more: what was carried is lost.
    Failed(LiveError),
}

pub(super) struct Running {
    pub(super) steps: Steps,
    /// How far inputs have come, in order of declaration.
    pub(super) arrived: Vec<(StreamId, Arrived)>,
    /// Output without events.
    pub(super) none: SnapshotBuffer,
    /// Whether steps carry what results look back to, and rows that they have are not held besides.
    pub(super) carried: bool,
}

/// Rows that steps did not take.
const OTHER_ROWS: Trouble = Trouble("a row that the plan was not made for");

impl Live {
    /// Passes rows on to the steps, if there are any.
    pub(super) fn go_on_with(&mut self, input: usize, rows: &SnapshotBuffer) {
        let Going::Steps(running) = &mut self.going else {
            return;
        };
        let program = &self.query.inner.program;
        let (id, _) = running.arrived[input];
        let events = events_of(rows);
        let fits = events.is_some_and(|events| running.steps.push(program, id, &events));
        if !fits {
            self.begin_anew();
        }
    }

    /// Rows are not what steps were made for: others begin with all that are held.
    fn begin_anew(&mut self) {
        self.going = if self.is_carrying() {
            let Trouble(what) = OTHER_ROWS;
            Going::Failed(LiveError::Unsettled { what })
        } else {
            Going::Unknown
        };
    }

    /// Passes on the rows of an input that were put together since the last time.
    pub(super) fn pass_on(&mut self, input: usize) {
        let Going::Steps(running) = &mut self.going else {
            return;
        };
        let Some(rows) = self.inputs[input].held.pass_on() else {
            return;
        };
        let (id, _) = running.arrived[input];
        if !running.steps.append(&self.query.inner.program, id, &rows) {
            self.begin_anew();
        }
    }

    /// The output that is certain, by steps; `None` if they are not how this run computes.
    pub(super) fn by_steps(&mut self) -> Result<Option<SnapshotBuffer>, Error> {
        (0..self.inputs.len()).for_each(|input| self.pass_on(input));
        if matches!(self.going, Going::Unknown) {
            self.begin_steps()?;
        }
        match &self.going {
            Going::Steps(_) => {}
            Going::Keys(_) => return self.by_each_key(),
            Going::Unknown | Going::Parts => return Ok(None),
            Going::Failed(error) => return Err(error.clone().into()),
        }
        let is_last = self.is_exhausted();
        let is_carrying = self.is_carrying();
        // What is carried is told when steps can tell it, and by nobody else.
        let certain = if is_carrying {
            None
        } else {
            self.furthest(i64::MAX)?
        };
        let is_open = self.inputs.iter().any(Arriving::is_open);
        let ends_known = self.ends_known_until();
        let (Some(span), Going::Steps(running)) = (self.span(), &mut self.going) else {
            return Ok(None);
        };
        for (input, (_, arrived)) in self.inputs.iter().zip(&mut running.arrived) {
            *arrived = input.arrived();
        }
        let reached = Reached {
            end: span.end,
            certain: match self.limits.minds_end {
                MindsEnd::Never if !is_open => i64::MAX,
                // An event without an end may end with the run.
                MindsEnd::Never => ends_known.max(span.end.saturating_sub(1)),
                _ if is_open => span.end.saturating_sub(1),
                MindsEnd::Cells(period) => span.end.saturating_add(period - 1),
                MindsEnd::Near => span.end,
            },
            last: is_last,
        };
        let series = running.steps.step(&running.arrived, reached);
        let until = if is_last {
            i64::MAX
        } else {
            running.steps.until()
        };
        let series = match series {
            Ok(series) if certain.is_none_or(|t| t <= until) => series,
            // Whatever steps cannot settle, or not as early, the run of a part does.
            Ok(_) => {
                self.going = Going::Parts;
                return Ok(None);
            }
            Err(trouble) => return self.give_up(trouble).map(|()| None),
        };
        let program = &self.query.inner.program;
        let output = if series.axis.len() == 0 {
            running.none.clone()
        } else {
            let output = running.steps.assemble(program, &series, &running.none);
            let output = output.map_err(|error| Error::Internal(error.to_string()))?;
            match output.timeline().ends_until(self.until) {
                0 => output,
                told => output.slice(told, output.len() - told),
            }
        };
        self.tell(until, is_last)?;
        Ok(Some(output))
    }

    /// Everything up to `until` was told; everything at all if it is the last.
    fn tell(&mut self, until: i64, is_last: bool) -> Result<(), Error> {
        if until > self.until {
            self.until = until;
            let is_carrying = self.is_carrying();
            for input in &mut self.inputs {
                if is_carrying {
                    input.hold_no_more();
                }
                input.forget(until)?;
            }
        }
        if is_last {
            self.going = Going::Parts;
        }
        Ok(())
    }

    /// The output that is certain, by steps of each key; `None` if they cannot settle it.
    fn by_each_key(&mut self) -> Result<Option<SnapshotBuffer>, Error> {
        let is_last = self.is_exhausted();
        let certain = self.furthest(i64::MAX)?;
        let (Some(span), Going::Keys(each)) = (self.span(), &mut self.going) else {
            return Ok(None);
        };
        let until = self.until;
        if each.cells.is_some() && !is_last {
            // Rows are taken when they complete a cell.
            let is_complete = |end: &i64| self.ends.may_be_in(Span::new(until, *end));
            if certain.is_none_or(|end| !is_complete(&end)) {
                let none = each.none.clone();
                self.tell(certain.unwrap_or(until), false)?;
                return Ok(Some(none));
            }
        }
        if !each.carried {
            let new = self.inputs.iter().map(|i| i.held.rows_after(until)).sum();
            let held = self.inputs.iter().map(|input| input.held.len()).sum();
            if each.is_to_count(new, held) {
                for (number, input) in self.inputs.iter_mut().enumerate() {
                    let first = input.held.len() - input.held.rows_after(until);
                    each.count(number, &input.rows_from(first)?);
                }
                each.counted = new;
            }
            each.told = until;
            if !each.pays(new, held) {
                return Ok(None);
            }
        }
        let is_carried = each.carried;
        let program = &self.query.inner.program;
        let mut arrived = Vec::with_capacity(self.inputs.len());
        let mut pushed = Ok(());
        for (number, input) in self.inputs.iter_mut().enumerate() {
            let (all, first) = (input.rows, input.first_held());
            let taken = std::mem::replace(&mut each.inputs[number].taken, all);
            arrived.push((each.inputs[number].id, input.arrived()));
            if taken == all {
                continue;
            }
            let rows = input.rows_from(taken.saturating_sub(first) as usize)?;
            pushed = match events_of(&rows) {
                Some(rows) => pushed.and_then(|()| each.push(program, number, &rows)),
                None => Err(Trouble("events without an end")),
            };
        }
        let reached = Reached {
            end: span.end,
            certain: i64::MAX,
            last: is_last,
        };
        let told = pushed.and_then(|()| each.step(&arrived, reached, self.until));
        let until = |until: i64| match certain {
            _ if is_last => Some(i64::MAX),
            // Nobody else has anything to tell.
            certain if until == i64::MAX => Some(certain.unwrap_or(i64::MIN)),
            _ if is_carried => Some(until),
            certain => certain.is_none_or(|t| t <= until).then_some(until),
        };
        let told = told.map(|(parts, t)| Some((parts, until(t)?)));
        let (parts, until) = match told {
            Ok(Some(told)) => told,
            Ok(None) => {
                self.going = Going::Parts;
                return Ok(None);
            }
            // Runs of keys may do again for the rows that are held later.
            Err(_) if !is_carried => {
                self.going = Going::Unknown;
                return Ok(None);
            }
            Err(trouble) => return self.give_up(trouble).map(|()| None),
        };
        let output = each.assemble(program, &parts)?;
        each.forget(until);
        self.tell(until, is_last)?;
        Ok(Some(output))
    }

    /// Runs in steps for each key, which have not taken rows yet; `None` if there can be none, or none that carry what they look back to, if they are to.
    pub(super) fn each_key(&mut self, start: i64, carried: bool) -> Result<Option<EachKey>, Error> {
        let inner = Arc::clone(&self.query.inner);
        let program = &inner.program;
        let output = program.stream_dtype(program.output);
        let on_grid = matches!(self.ends, Ends::Cells { .. });
        // Cells of keys that are quiet are not computed, so nothing could be carried over them.
        if carried && on_grid
            || !on_grid && !self.ends.are_with_rows()
            || self.limits.minds_end != MindsEnd::Never
            || !is_plain(output)
        {
            return Ok(None);
        }
        let none = self.none()?;
        let (mut inputs, mut lookback) = (Vec::new(), Some(0));
        let mut types: Vec<DataType> = Vec::new();
        let (mut facts, mut like) = (BTreeMap::new(), BTreeMap::new());
        for ((id, declared), input) in program.inputs().zip(&mut self.inputs) {
            let length = match declared.span {
                SpanRule::Point => 1,
                SpanRule::Fixed(length) => length,
                SpanRule::UntilNext | SpanRule::Interval => return Ok(None),
            };
            let (Some(key), Some(halo)) = (&declared.key, input.halo) else {
                return Ok(None);
            };
            if halo.lookahead != Reach::NONE || output.field(key).is_some() {
                return Ok(None);
            }
            lookback = match halo.lookback {
                Reach::Bounded { ticks, events: 0 } => {
                    lookback.map(|most: i64| most.max(ticks.saturating_add(length)))
                }
                _ => None,
            };
            let keys = input.none().column(key);
            types.extend(keys.map(|column| column.array().data_type().clone()));
            let rows = input.join()?;
            let Some(mut of_rows) = SeriesFacts::of_input(declared, rows).ok() else {
                return Ok(None);
            };
            let is_disjoint = declared.overlap == Overlap::Disjoint;
            of_rows.axis = AxisFacts {
                regular: None,
                length: Some(length),
                disjoint: is_disjoint,
                ordered: true,
                mixed: false,
            };
            of_rows.nullable = false;
            if carried {
                let Some(lasting) = lasting_facts(declared, rows) else {
                    return Ok(None);
                };
                of_rows = lasting;
            }
            facts.insert(id, of_rows);
            like.insert(id, rows.slice(0, 0));
            inputs.push(KeyedInput {
                id,
                key: key.clone(),
                length,
                is_disjoint,
                taken: 0,
            });
        }
        let Some(key) = inputs.first().map(|input| &input.key) else {
            return Ok(None);
        };
        let first = none.columns().first();
        let is_key = |column: &&Column| {
            let data_type = column.array().data_type();
            column.name() == key && types.iter().all(|t| t == data_type)
        };
        let Some(column) = first.filter(is_key) else {
            return Ok(None);
        };
        let Some(keys) = Keys::new(column.array().data_type()) else {
            return Ok(None);
        };
        let options = RunOptions {
            progress: None,
            ..self.options.clone()
        };
        let ready = if carried {
            inner.prepare_for(Purpose::Carried, &facts, options.backend)
        } else {
            inner.prepare(&facts, options.backend)
        };
        let prepared = ready.prepared;
        let common = Common::new(program, &prepared, &facts, &options, each_key::ROOM);
        let common = common.filter(|common| {
            let steps = Steps::new(common, &facts, &like, (start, start));
            steps.is_some_and(|steps| !carried || steps.carries())
        });
        let cells = on_grid.then(|| match &*prepared {
            Prepared::Loops { plan, .. } => Cells::of(plan, self.limits.back),
            Prepared::Interpreted(_) => Cells::default(),
        });
        Ok(common.map(|common| EachKey {
            prepared,
            common,
            carried,
            inputs,
            facts,
            like,
            start,
            cells,
            told: self.until,
            lookback,
            none,
            keys,
            runs: Vec::new(),
            waiting: Vec::new(),
            left: 0,
            known: 0,
            counted: 0,
            spent: 0,
        }))
    }

    /// Finds out whether steps can be taken, and takes what is held.
    fn begin_steps(&mut self) -> Result<(), Error> {
        self.going = Going::Parts;
        let inner = Arc::clone(&self.query.inner);
        let options = &self.options;
        if options.part.is_some()
            || options.backend == Backend::Interpreter
            || self.inputs.iter().any(Arriving::has_begun)
        {
            self.carries = false;
            return Ok(());
        }
        // Cells are counted from the start of the run, whether or not results depend on it.
        let Some(span) = self.span().filter(|_| self.has_start()) else {
            self.going = Going::Unknown;
            return Ok(());
        };
        // Facts are those of rows.
        if self.is_keyed() && self.inputs.iter().any(Arriving::has_no_rows) {
            self.going = Going::Unknown;
            return Ok(());
        }
        if self.carries {
            self.carries = self.begin_to_carry(span.start)?;
            if self.carries {
                return Ok(());
            }
        }
        if self.is_keyed() {
            if let Some(each) = self.each_key(span.start, false)? {
                self.going = Going::Keys(Box::new(each));
            }
            return Ok(());
        }
        let none = self.none()?;
        let program = &inner.program;
        let (mut facts, mut held, mut arrived) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for ((id, declared), input) in program.inputs().zip(&mut self.inputs) {
            let Some(rows) = events_of(input.join()?).map(Cow::into_owned) else {
                return Ok(());
            };
            let Some(of_rows) = facts_of(declared, &rows) else {
                return Ok(());
            };
            arrived.push((id, input.arrived()));
            facts.insert(id, of_rows);
            held.insert(id, rows);
        }
        let options = RunOptions {
            progress: None,
            ..self.options.clone()
        };
        let prepared = inner.prepare(&facts, options.backend).prepared;
        let common = Common::new(program, &prepared, &facts, &options, ROOM);
        let steps =
            common.and_then(|common| Steps::new(&common, &facts, &held, (span.start, span.start)));
        let Some(mut steps) = steps else {
            return Ok(());
        };
        for (id, rows) in &held {
            if !steps.push(program, *id, rows) {
                return Ok(());
            }
        }
        self.going = Going::Steps(Box::new(Running {
            steps,
            arrived,
            none,
            carried: false,
        }));
        Ok(())
    }
}

/// Rows that are events; `None` if what is left out ends others, or one will get an end of its own.
pub(super) fn events_of(rows: &SnapshotBuffer) -> Option<Cow<'_, SnapshotBuffer>> {
    let until_next = matches!(rows.timeline().spans(), Spans::UntilNext { .. });
    let timeline = rows.timeline();
    let last = timeline.len().checked_sub(1);
    if !until_next && last.is_some_and(|last| timeline.end(last) == OPEN) {
        return None;
    }
    if rows.null_rows() == 0 && rows.superseded() == 0 {
        return Some(Cow::Borrowed(rows));
    }
    // Rows that are picked out have ends of their own.
    if until_next {
        return None;
    }
    let events: Vec<usize> = rows.positions().collect();
    rows.gather(&events).ok().map(Cow::Owned)
}

/// What holds for rows, and may be expected of those to come.
fn facts_of(input: &Input, rows: &SnapshotBuffer) -> Option<SeriesFacts> {
    let mut facts = SeriesFacts::of_input(input, rows).ok()?;
    facts.axis.disjoint = input.overlap == Overlap::Disjoint;
    facts.axis.ordered = facts.axis.disjoint || input.span != SpanRule::Interval;
    let first = (!rows.is_empty()).then(|| rows.timeline().end(0));
    if let (Some(period), Some(_), Some(end)) = (input.period, facts.axis.length, first) {
        facts.axis.regular = Some(Regular::new(period, end));
    }
    Some(facts)
}
