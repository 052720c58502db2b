//! Parts of a run by key, with rows that stay grouped from one part to the next: new rows are all that has to be joined and grouped.

use std::collections::BTreeMap;

use tilt_data::SnapshotBuffer;
use tilt_ir::{Program, Reach, Span};

use super::{Live, arriving::Arriving, going::Going};
use crate::{
    error::Error,
    execute,
    keyed::{Past, may_stay_grouped},
    query::{Backend, RunOptions},
};

/// A run by key whose rows may stay grouped.
pub(crate) struct Lines {
    /// The column of keys.
    key: String,
    /// All rows that ended before the next part, if nobody else has computed the last one.
    past: Option<Past>,
}

impl Lines {
    pub(super) fn of(program: &Program, options: &RunOptions) -> Option<Self> {
        let (_, input) = program.inputs().next()?;
        let key = input.key.clone()?;
        let may = options.backend != Backend::Interpreter && may_stay_grouped(program);
        may.then_some(Self { key, past: None })
    }

    /// Somebody else has computed a part.
    pub(super) fn let_go(&mut self) {
        self.past = None;
    }
}

impl Live {
    /// The output that ends in `wanted`, which is in the part `(until, end]`, from rows that follow those before the part. `None` if another way has to be taken.
    pub(super) fn on_lines(
        &mut self,
        part: Span,
        wanted: Span,
    ) -> Result<Option<SnapshotBuffer>, Error> {
        let (Some(lines), [input]) = (&mut self.lines, &mut self.inputs[..]) else {
            return Ok(None);
        };
        let past = lines.past.take();
        let is_settled = !input.is_open() && !input.has_begun();
        let Some(from) = input.held_from(part.start).filter(|_| is_settled) else {
            return Ok(None);
        };
        let mut follows = None;
        if let Some(mut past) = past {
            let rows = input.join_after(part.start)?;
            if past.is_followed_by(&rows, &lines.key, part.start) {
                past.forget(from);
                follows = Some((rows, past));
            }
        }
        let (rows, past) = match follows {
            Some((rows, past)) => (rows, Some(past)),
            None => (input.cut(part)?, None),
        };
        if rows.is_empty() {
            return Ok(None);
        }
        let earliest = input.held.first_start_after(from, false, true);
        if let Going::Keys(each) = &mut self.going {
            each.spend(input.held.len());
        }
        let inputs = BTreeMap::from([(input.name.clone(), rows)]);
        let mut options = self.options_of(part, wanted, &inputs);
        if let (Some(span), Some(earliest)) = (&mut options.span, earliest) {
            span.start = span.start.min(earliest);
        }
        let found = execute::go_on(&self.query.inner, &inputs, past.as_ref(), &options)?;
        let Some((output, next)) = found else {
            // With all rows it would be the same.
            if past.is_none() {
                self.lines = None;
            }
            return Ok(None);
        };
        if let Some(lines) = &mut self.lines {
            lines.past = next.map(|past| past.until(part.end));
        }
        Ok(Some(output))
    }
}

impl Arriving {
    /// Rows that end up to here are not held for a part that begins at `start`; `None` if they are not held by time alone.
    fn held_from(&self, start: i64) -> Option<i64> {
        match self.lookback.reach {
            Reach::Bounded { ticks, events: 0 } => {
                Some(start.saturating_sub(self.slack).saturating_sub(ticks))
            }
            _ => None,
        }
    }

    /// The rows that end after `t`, in one buffer.
    fn join_after(&mut self, t: i64) -> Result<SnapshotBuffer, Error> {
        let first = self.held.len() - self.held.rows_after(t);
        let rows = self.held.join_from(first);
        rows.map_err(|error| self.broken(error))
    }
}
