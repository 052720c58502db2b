//! What rows that arrive must keep: order, promises, and the span of the run.

use tilt_data::SnapshotBuffer;
use tilt_interp::DataError;
use tilt_ir::{Input, OPEN, Overlap, Span, SpanRule};

use super::{arriving::Arriving, error::LiveError};
use crate::error::Error;

impl Arriving {
    /// Fails if a chunk does not follow the one before, or does not keep what the input promises.
    pub(super) fn check_events(
        &self,
        input: &Input,
        chunk: &SnapshotBuffer,
        span: Option<Span>,
    ) -> Result<(), Error> {
        let promises = input.overlap == Overlap::Disjoint && input.key.is_none();
        // Of a keyed input the next event of the key may be any number of rows away.
        let continues =
            input.span == SpanRule::UntilNext && (input.key.is_none() || self.halo.is_none());
        let first = chunk.event(0);
        // A row without a value ends the event before it.
        if self.open_start.is_some() && first.start < self.promised {
            return Err(self.late(self.rows as usize, first));
        }
        let mut previous = self.last;
        let checks_all = promises && chunk.is_bag()
            || span.is_some()
            || !self.is_in_order && self.promised > i64::MIN;
        let rows = chunk
            .positions()
            .take(if checks_all { usize::MAX } else { 1 });
        for row in rows {
            let event = chunk.event(row);
            let at = self.rows as usize + row;
            let stream = || self.name.clone();
            // An event whose end was not known lasts until the next.
            let before = previous.filter(|before| before.end != OPEN || !continues);
            if let Some(before) = before
                && (event.end < before.end || before.end == OPEN)
            {
                return Err(data(DataError::Unsorted {
                    stream: stream(),
                    row: at,
                    end: event.end,
                    previous: before.end,
                }));
            }
            if let Some(previous) = before
                && promises
                && event.start < previous.end
            {
                return Err(data(DataError::Overlap {
                    stream: stream(),
                    row: at,
                    event,
                    previous,
                }));
            }
            // One that has begun has come before, and must only not end before the watermark.
            let has_begun = self.begun_events().any(|begun| begun.start == event.start);
            let changes = if has_begun { event.end } else { event.start };
            if changes < self.promised {
                return Err(self.late(at, event));
            }
            self.check_span(event, at, span)?;
            previous = Some(event);
        }
        Ok(())
    }

    /// Fails if events that have begun cannot follow all rows that were pushed.
    pub(super) fn check_begun(
        &self,
        rows: &SnapshotBuffer,
        span: Option<Span>,
    ) -> Result<(), Error> {
        for row in rows.positions() {
            let (event, at) = (rows.event(row), self.rows as usize + row);
            if event.end < self.promised {
                return Err(self.late(at, event));
            }
            if let Some(last) = self.last
                && event.end < last.end
            {
                return Err(data(DataError::Unsorted {
                    stream: self.name.clone(),
                    row: at,
                    end: event.end,
                    previous: last.end,
                }));
            }
            self.check_span(event, at, span)?;
        }
        Ok(())
    }

    fn late(&self, row: usize, event: Span) -> Error {
        let (input, watermark) = (self.name.clone(), self.promised);
        Error::Live(LiveError::Late {
            input,
            row,
            event,
            watermark,
        })
    }

    fn check_span(&self, event: Span, row: usize, span: Option<Span>) -> Result<(), Error> {
        let Some(span) = span else { return Ok(()) };
        let end = if event.end == OPEN {
            event.start + 1
        } else {
            event.end
        };
        if event.start < span.start || end > span.end {
            let stream = self.name.clone();
            return Err(data(DataError::OutsideSpan {
                stream,
                row,
                event,
                span,
            }));
        }
        Ok(())
    }
}

fn data(error: DataError) -> Error {
    Error::Run(error.into())
}
