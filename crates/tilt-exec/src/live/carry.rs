//! Live runs that carry what they look back to without a bound.
//!
//! The results of recurrences and running totals depend on all input, but on no more of it than the last rows of a recurrence, the last events, and what totals have come to. Steps
//! keep just that, so a run that goes on in steps from its first row to its last needs none of the rows before. For that no row that comes may ask for another plan: the plan is made for rows that may be
//! null and come at any time, and assumes nothing. Where such a plan can be made, and everything it reads is bounded or carried ([`Steps::carries`]), rows are forgotten once they
//! are computed; otherwise all of them are held, and a run of a part is always possible.
//!
//! A row that steps cannot settle (a total that may not fit into 64 bits) ends such a run with an error: the rows that could tell are gone.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use tilt_data::SnapshotBuffer;
use tilt_ir::{Input, Overlap, SpanRule, StreamId};

use super::{
    Live,
    arriving::Arriving,
    each_key::EachKey,
    error::LiveError,
    going::{Going, Running, events_of},
    past::Back,
};
use crate::{
    bytes::{Reader, Writer},
    control::Cancel,
    error::Error,
    facts::{AxisFacts, SeriesFacts},
    plan::Purpose,
    query::{Backend, RunOptions},
    run::Trouble,
    steps::{Common, ROOM, Steps},
};

/// What a run begins with.
struct Beginning {
    common: Arc<Common>,
    facts: BTreeMap<StreamId, SeriesFacts>,
    /// The inputs without rows.
    like: BTreeMap<StreamId, SnapshotBuffer>,
}

/// What holds for all rows of an input that may come.
pub(super) fn lasting_facts(declared: &Input, like: &SnapshotBuffer) -> Option<SeriesFacts> {
    let length = match declared.span {
        SpanRule::Point => 1,
        SpanRule::Fixed(length) => length,
        // A row without a value ends the one before it, and is no event; intervals may begin long before they can be pushed.
        SpanRule::UntilNext | SpanRule::Interval => return None,
    };
    let mut facts = SeriesFacts::of_input(declared, like).ok()?;
    facts.axis = AxisFacts {
        regular: None,
        length: Some(length),
        disjoint: declared.overlap == Overlap::Disjoint,
        ordered: true,
        mixed: false,
    };
    // Of a value alone, a row that is null is no event, and is left out.
    if facts.is_record() {
        facts
            .leaves
            .iter_mut()
            .for_each(|leaf| leaf.nullable = true);
    }
    facts.nullable = false;
    Some(facts)
}

impl Live {
    /// Whether the run can carry what it looks back to, as far as declarations tell.
    pub(super) fn may_carry(&mut self) -> bool {
        let asks = self.options.part.is_none() && self.options.backend != Backend::Interpreter;
        if !asks || self.holds.is_none() || self.waits.is_some() {
            return false;
        }
        if self.is_keyed() {
            let found = self.each_key(0, true);
            // Rows tell more of columns than declarations.
            self.none = None;
            return matches!(found, Ok(Some(_)));
        }
        self.beginning().is_some()
    }

    pub(super) fn is_keyed(&self) -> bool {
        let mut inputs = self.query.inner.program.inputs();
        inputs.any(|(_, input)| input.key.is_some())
    }

    fn beginning(&self) -> Option<Beginning> {
        let inner = &self.query.inner;
        let (mut facts, mut like) = (BTreeMap::new(), BTreeMap::new());
        for ((id, declared), input) in inner.program.inputs().zip(&self.inputs) {
            facts.insert(id, lasting_facts(declared, input.none())?);
            like.insert(id, input.none().clone());
        }
        let options = RunOptions {
            progress: None,
            ..self.options.clone()
        };
        let ready = inner.prepare_for(Purpose::Carried, &facts, options.backend);
        let common = Common::new(&inner.program, &ready.prepared, &facts, &options, ROOM)?;
        let carries = Steps::new(&common, &facts, &like, (0, 0))?.carries();
        carries.then_some(Beginning {
            common,
            facts,
            like,
        })
    }

    /// Begins to carry, with all rows that have come. False if that is not possible: then all are held.
    pub(super) fn begin_to_carry(&mut self, start: i64) -> Result<bool, Error> {
        if self.is_keyed() {
            let Some(each) = self.each_key(start, true)? else {
                return Ok(false);
            };
            self.going = Going::Keys(Box::new(each));
        } else {
            let Some(running) = self.running(start)? else {
                return Ok(false);
            };
            self.going = Going::Steps(Box::new(running));
        }
        self.lines = None;
        Ok(true)
    }

    fn running(&mut self, start: i64) -> Result<Option<Running>, Error> {
        let none = self.none()?;
        let Some(Beginning {
            common,
            facts,
            like,
        }) = self.beginning()
        else {
            return Ok(None);
        };
        let Some(mut steps) = Steps::new(&common, &facts, &like, (start, start)) else {
            return Ok(None);
        };
        let inner = Arc::clone(&self.query.inner);
        let mut arrived = Vec::new();
        for ((id, _), input) in inner.program.inputs().zip(&mut self.inputs) {
            arrived.push((id, input.arrived()));
            let rows = events_of(input.join()?).map(Cow::into_owned);
            if !rows.is_some_and(|rows| steps.push(&inner.program, id, &rows)) {
                return Ok(None);
            }
        }
        Ok(Some(Running {
            steps,
            arrived,
            none,
            carried: true,
        }))
    }

    /// Whether results depend on what is carried, besides rows that are held.
    pub(super) fn is_carrying(&self) -> bool {
        match &self.going {
            Going::Steps(running) => running.carried,
            Going::Keys(each) => each.carried,
            Going::Failed(_) => true,
            Going::Unknown | Going::Parts => false,
        }
    }

    /// Steps did not settle something. What they carry is lost; a run that holds its rows goes on by parts.
    pub(super) fn give_up(&mut self, Trouble(what): Trouble) -> Result<(), Error> {
        if !self.is_carrying() {
            self.going = Going::Parts;
            return Ok(());
        }
        if self
            .options
            .cancel
            .as_ref()
            .is_some_and(Cancel::is_cancelled)
        {
            return Err(Error::Cancelled { done: 0.0 });
        }
        let error = LiveError::Unsettled { what };
        self.going = Going::Failed(error.clone());
        Err(error.into())
    }

    /// Everything that is carried, as bytes.
    pub(super) fn save_carried(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut out = Writer::default();
        match &mut self.going {
            Going::Failed(error) => return Err(error.clone().into()),
            Going::Steps(running) if running.carried => {
                out.word(running.steps.layout());
                running.steps.save(&mut out);
            }
            Going::Keys(each) if each.carried => {
                out.word(each.common.layout());
                each.save(&mut out);
            }
            _ => return Ok(None),
        }
        Ok(Some(out.finish()))
    }

    /// Goes on from what was [carried](Self::save_carried).
    pub(super) fn restore_carried(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let other = || Error::from(LiveError::Carried);
        let mut from = Reader::new(bytes);
        let layout = from.word().ok_or_else(other)?;
        if !self.carries {
            return Err(other());
        }
        if self.is_keyed() {
            let each = self.each_key(0, true)?;
            let each = each.filter(|each| each.common.layout() == layout);
            let mut each = each.ok_or_else(other)?;
            each.restore(&mut from).ok_or_else(other)?;
            self.going = Going::Keys(Box::new(each));
        } else {
            let none = self.none()?;
            let Beginning {
                common,
                facts,
                like,
            } = self.beginning().ok_or_else(other)?;
            if common.layout() != layout {
                return Err(other());
            }
            let steps = Steps::restore(&common, &facts, &like, &mut from);
            let steps = steps.ok_or_else(other)?;
            let inputs = self.query.inner.program.inputs().zip(&mut self.inputs);
            let arrived = inputs.map(|((id, _), input)| {
                // Steps have these rows.
                let _ = input.held.pass_on();
                (id, input.arrived())
            });
            self.going = Going::Steps(Box::new(Running {
                arrived: arrived.collect(),
                steps,
                none,
                carried: true,
            }));
        }
        if !from.is_at_end() {
            return Err(other());
        }
        self.lines = None;
        self.inputs.iter_mut().for_each(Arriving::hold_no_more);
        Ok(())
    }
}

impl Arriving {
    /// Holds no rows that results which were told depend on.
    pub(super) fn hold_no_more(&mut self) {
        self.lookback = Back::NONE;
    }
}

impl EachKey {
    /// Writes the runs of all keys.
    fn save(&mut self, out: &mut Writer) {
        out.number(self.start);
        self.inputs.iter().for_each(|input| out.word(input.taken));
        self.keys.save(out);
        for run in &mut self.runs {
            for last in &run.last {
                out.number(*last);
            }
            out.word(u64::from(run.waits));
            run.steps.save(out);
        }
    }

    /// Takes the runs of all keys; there are no others.
    fn restore(&mut self, from: &mut Reader) -> Option<()> {
        self.start = from.number()?;
        for input in &mut self.inputs {
            input.taken = from.word()?;
        }
        self.keys.restore(from)?;
        for number in 0..self.keys.len() {
            let last = self.inputs.iter().map(|_| from.number());
            let last = last.collect::<Option<_>>()?;
            let waits = from.word()? != 0;
            let steps = Steps::restore(&self.common, &self.facts, &self.like, from)?;
            self.runs
                .push(super::each_key::OfKey { steps, last, waits });
            if waits {
                self.waiting.push(number as u32);
            }
        }
        Some(())
    }
}
