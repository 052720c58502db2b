//! Live runs of sessions hold the sessions that have not ended.
//!
//! How far back a session begins is known from rows alone: lineage has no bound for it. But a session that has ended is told, or is read for as long as lineage says, and one that begins
//! later begins later. So what has to be held begins with the earliest of those that are open, or that are still read; how long these are is found by running the query up to its sessions on the
//! rows that are held, and lineage tells the rest ([`Past::if_sessions_last`]).
//!
//! Sessions with a greatest length are found without it. Where one of them begins depends on those before, back to a gap in the events, so that is where rows are held from.

use std::collections::BTreeMap;

use tilt_data::SnapshotBuffer;
use tilt_ir::{Clock, DType, Expr, Program, Scalar, Span};

use super::{
    Live,
    arriving::Arriving,
    limits::{self, Kind, Limits},
    past::Past,
};
use crate::{
    error::Error,
    execute,
    query::{Compiled, Query, RunOptions},
};

/// So few rows are not worth a look.
const FEW: usize = 1 << 10;

/// What is known of sessions that may be needed.
pub(super) struct OpenSessions {
    /// The sessions of each clock, as queries: programs until they are needed.
    clocks: Vec<Sessions>,
    /// How far back results look besides sessions.
    past: Past,
    /// How many rows were left when it was last looked.
    left: usize,
}

enum Sessions {
    Program(Box<Program>),
    Compiled(Compiled),
}

impl OpenSessions {
    /// What has to be known of the sessions of a query. `None` if it has none, or looks back without a bound to something else.
    pub(super) fn of(query: &Compiled) -> Option<Self> {
        let (program, lineage) = (&query.inner.program, &query.inner.lineage);
        let clocks = program.temporals().filter_map(|(_, temporal)| {
            let clock = &temporal.clock;
            matches!(clock, Clock::Sessions { .. }).then(|| of_clock(program, clock))
        });
        let clocks: Vec<Sessions> = clocks.collect::<Option<_>>()?;
        if clocks.is_empty() {
            return None;
        }
        let past = Past::if_sessions_last(program, 1);
        // Cells are there from the start of the run on, and sessions of cells depend on it.
        let sees_all = Limits::of(program, lineage).back == i64::MAX;
        let holds = limits::obstacles(program, lineage, &past);
        let holds = holds.iter().any(|obstacle| obstacle.kind == Kind::Holds);
        // Sessions that are read so many events back may be any time back.
        let counts = past.counts();
        (!sees_all && !holds && !counts).then_some(Self {
            clocks,
            past,
            left: 0,
        })
    }

    /// How far back results look besides sessions.
    pub(super) fn past(&self) -> &Past {
        &self.past
    }

    /// How long before `until` the earliest session began that may be needed after it.
    fn longest(
        &mut self,
        until: i64,
        inputs: &BTreeMap<String, SnapshotBuffer>,
        options: &RunOptions,
    ) -> Result<i64, Error> {
        // Those that have ended may be read for so long.
        let read = self.past.ticks().unwrap_or(i64::MAX);
        let options = RunOptions {
            part: Some(Span::new(until.saturating_sub(read), i64::MAX)),
            ..options.clone()
        };
        let mut longest = 1;
        for clock in &mut self.clocks {
            let query = clock.compiled()?;
            let sessions = execute::run(&query.inner, inputs, &options)?;
            let starts = sessions.positions().map(|at| sessions.event(at).start);
            if let Some(first) = starts.min() {
                longest = longest.max(until.saturating_sub(first));
            }
        }
        Ok(longest)
    }
}

/// The sessions of a clock as the output of a program, without a greatest length.
fn of_clock(program: &Program, clock: &Clock) -> Option<Sessions> {
    let &Clock::Sessions { stream, gap, .. } = clock else {
        return None;
    };
    let mut program = program.clone();
    let all = Clock::Sessions {
        stream,
        gap,
        max: None,
    };
    let body = program
        .add(Expr::Const(Scalar::Bool(true), DType::Bool))
        .ok()?;
    program.define("sessions", all, body).ok()?;
    Some(Sessions::Program(Box::new(program)))
}

impl Sessions {
    fn compiled(&mut self) -> Result<&Compiled, Error> {
        if let Self::Program(program) = self {
            let query = Query::new(Program::clone(program))?.prepare(false);
            *self = Self::Compiled(query.compile()?);
        }
        match self {
            Self::Compiled(compiled) => Ok(compiled),
            Self::Program(_) => Err(Error::Internal("no query for sessions".to_owned())),
        }
    }
}

impl Live {
    /// Drops rows of sessions that have ended and are read no more.
    pub(super) fn forget_ended_sessions(&mut self) -> Result<(), Error> {
        // Finding out takes as long as there are rows, so not before they are twice as many.
        let rows = self.rows_held();
        let is_due = |sessions: &OpenSessions| rows >= (2 * sessions.left).max(FEW);
        if !self.sessions.as_ref().is_some_and(is_due) {
            return Ok(());
        }
        let part = Span::new(self.until, i64::MAX);
        let mut inputs = BTreeMap::new();
        for input in &mut self.inputs {
            inputs.insert(input.name.clone(), input.cut(part)?);
        }
        let options = self.options_of(part, part, &inputs);
        let sessions = self.sessions.iter_mut();
        let longest = sessions.map(|sessions| sessions.longest(part.start, &inputs, &options));
        // What was told stays told, also if this was cancelled: then it is looked another time.
        if let Some(Ok(longest)) = longest.last() {
            let program = &self.query.inner.program;
            let past = Past::if_sessions_last(program, longest);
            for ((id, _), input) in program.inputs().zip(&mut self.inputs) {
                if input.halo.is_some() {
                    input.forget_beyond(part.start, past.back(id))?;
                }
            }
        }
        let left = self.rows_held();
        self.sessions
            .iter_mut()
            .for_each(|sessions| sessions.left = left);
        Ok(())
    }

    fn rows_held(&self) -> usize {
        self.inputs.iter().map(Arriving::held_rows).sum()
    }
}
