//! Live runs in steps: where stages can go on from where they stopped, rows cost what they cost once, however far results look back.
//!
//! Rows are held as for any live run, so that steps can begin at any time: at first, when rows are other than those before (irregular where they were regular, φ where there was none), and in a run
//! that was saved. What was told before is left out.

use std::{collections::BTreeMap, sync::Arc};

use tilt_data::{SnapshotBuffer, Spans, TimeColumns};
use tilt_ir::{Input, OPEN, Overlap, SpanRule, StreamId};

use super::{Live, arriving::Arriving, limits::MindsEnd};
use crate::{
    error::Error,
    facts::{Regular, SeriesFacts},
    query::{Backend, RunOptions},
    steps::{Arrived, Reached, Steps},
};

/// How a live run computes its output.
pub(super) enum Going {
    /// Not known yet, or not for rows that have come since.
    Unknown,
    /// In steps.
    Steps(Box<Running>),
    /// Each part by a run of its own.
    Parts,
}

pub(super) struct Running {
    steps: Steps,
    ids: Vec<StreamId>,
    time: TimeColumns,
}

impl Live {
    /// Passes rows on to the steps, if there are any.
    pub(super) fn go_on_with(&mut self, input: usize, rows: &SnapshotBuffer) {
        let Going::Steps(running) = &mut self.going else {
            return;
        };
        let program = &self.query.inner.program;
        let id = running.ids[input];
        let fits = events_of(rows).is_some_and(|rows| running.steps.push(program, id, &rows));
        if !fits {
            self.going = Going::Unknown;
        }
    }

    /// The output that is certain, by steps; `None` if they are not how this run computes.
    pub(super) fn by_steps(&mut self) -> Result<Option<SnapshotBuffer>, Error> {
        if matches!(self.going, Going::Unknown) {
            self.begin_steps()?;
        }
        let is_last = self.is_exhausted();
        let certain = self.furthest(i64::MAX)?;
        let is_open = self.inputs.iter().any(Arriving::is_open);
        let Some(span) = self.span() else {
            return Ok(None);
        };
        let Going::Steps(running) = &mut self.going else {
            return Ok(None);
        };
        let arrived: BTreeMap<StreamId, Arrived> = self
            .inputs
            .iter()
            .zip(&running.ids)
            .map(|(input, id)| (*id, input.arrived()))
            .collect();
        let reached = Reached {
            end: span.end,
            certain: match self.limits.minds_end {
                // An event without an end may end with the run.
                _ if is_open => span.end.saturating_sub(1),
                MindsEnd::Never => i64::MAX,
                MindsEnd::Cells(period) => span.end.saturating_add(period - 1),
                MindsEnd::Near => span.end,
            },
            last: is_last,
        };
        let series = running.steps.step(&arrived, reached);
        let until = if is_last {
            i64::MAX
        } else {
            running.steps.until()
        };
        let Some(series) = series.ok().filter(|_| certain.is_none_or(|t| t <= until)) else {
            // Whatever steps cannot settle, or not as early, the run of a part does.
            self.going = Going::Parts;
            return Ok(None);
        };
        let program = &self.query.inner.program;
        let output = running.steps.assemble(program, &series);
        let output = output.map_err(|error| Error::Internal(error.to_string()))?;
        let told = output.timeline().ends_until(self.until);
        let output = output.slice(told, output.len() - told);
        let output = output.with_time_columns(running.time.clone());
        if until > self.until {
            self.until = until;
            for input in &mut self.inputs {
                input.forget(until)?;
            }
        }
        if is_last {
            self.going = Going::Parts;
        }
        Ok(Some(output))
    }

    /// Finds out whether steps can be taken, and takes what is held.
    fn begin_steps(&mut self) -> Result<(), Error> {
        self.going = Going::Parts;
        let inner = Arc::clone(&self.query.inner);
        let options = &self.options;
        if options.part.is_some()
            || options.backend == Backend::Interpreter
            || inner.program.inputs().any(|(_, input)| input.key.is_some())
            || self.inputs.iter().any(Arriving::has_begun)
        {
            return Ok(());
        }
        // Cells are counted from the start of the run, whether or not results depend on it.
        let Some(span) = self.span().filter(|_| self.has_start()) else {
            self.going = Going::Unknown;
            return Ok(());
        };
        let time = self.none()?.time_columns().clone();
        let program = &inner.program;
        let (mut facts, mut held, mut ids) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for ((id, declared), input) in program.inputs().zip(&mut self.inputs) {
            let Some(rows) = events_of(input.join()?) else {
                return Ok(());
            };
            let Some(of_rows) = facts_of(declared, &rows) else {
                return Ok(());
            };
            ids.push(id);
            facts.insert(id, of_rows);
            held.insert(id, rows);
        }
        let options = RunOptions {
            progress: None,
            ..self.options.clone()
        };
        let prepared = inner.prepare(&facts, options.backend).prepared;
        let steps = Steps::new(program, &prepared, &facts, &held, span.start, &options);
        let Some(mut steps) = steps else {
            return Ok(());
        };
        for (id, rows) in &held {
            if !steps.push(program, *id, rows) {
                return Ok(());
            }
        }
        self.going = Going::Steps(Box::new(Running { steps, ids, time }));
        Ok(())
    }
}

/// Rows that are events; `None` if what is left out ends others, or one will get an end of its own.
fn events_of(rows: &SnapshotBuffer) -> Option<SnapshotBuffer> {
    let until_next = matches!(rows.timeline().spans(), Spans::UntilNext { .. });
    let timeline = rows.timeline();
    let last = timeline.len().checked_sub(1);
    if !until_next && last.is_some_and(|last| timeline.end(last) == OPEN) {
        return None;
    }
    if rows.null_rows() == 0 && rows.superseded() == 0 {
        return Some(rows.clone());
    }
    if until_next && rows.null_rows() > 0 {
        return None;
    }
    let events: Vec<usize> = rows.positions().collect();
    rows.gather(&events).ok()
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
