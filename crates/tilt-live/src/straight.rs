//! Rows that come in order.
//!
//! A row that follows all others has nothing to be sorted into: its stamps are looked at, and its columns are shared. Without lateness it goes on to the run as it comes, otherwise
//! when the watermark has passed it.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use tilt_data::{Spans, Stamped, Timeline};
use tilt_exec::{EndsOf, Live};
use tilt_ir::SpanRule;

use crate::{
    error::SessionError,
    port::{Port, bytes},
    runs::{Events, Run},
};

impl Port {
    /// Takes the rows of a batch if they follow all others, and gives them to the run if none of them has to wait. Where the first event starts; `None` if nothing was taken.
    pub(crate) fn push_in_order(
        &mut self,
        batch: &RecordBatch,
        number: usize,
        live: &mut Live,
    ) -> Result<Option<i64>, SessionError> {
        if self.fields.is_none() || !self.has_one_length() {
            return Ok(None);
        }
        let Some(rows) = self.reader.read_in_order(batch) else {
            return Ok(None);
        };
        let Some(ends) = self.following(&rows) else {
            return Ok(None);
        };
        let (length, len) = (self.offset(), rows.stamps.len());
        let (first, last) = (rows.stamps[0], rows.stamps[len - 1]);
        let timeline = || {
            let spans = Spans::Fixed(length);
            match ends {
                EndsOf::Regular { t0, period, len } => Timeline::regular(t0, period, len, spans),
                EndsOf::Explicit(_) => Timeline::explicit(rows.stamps.clone().into_owned(), spans),
            }
        };
        let columns = || rows.columns().map(Arc::clone).collect::<Vec<ArrayRef>>();
        let mut row_bytes = self.row_bytes;
        let none = self.none.get();
        if let Some(none) = none.filter(|_| self.goes_straight && self.queue.is_empty()) {
            if !live.append(number, ends, length, rows.columns()) {
                // A null of a scalar is no event.
                let is_null = |column: &ArrayRef| column.logical_null_count() > 0;
                let is_scalar = rows.columns().len() == 1;
                if self.queue.is_disjoint() && is_scalar && rows.columns().any(is_null) {
                    return Ok(None);
                }
                let buffer = none.with_rows(timeline(), columns(), None);
                let mut buffer = buffer.map_err(|source| self.data(source))?;
                if len == 1 || rows.gaps.min >= length {
                    buffer = buffer.with_bag(false);
                }
                live.push(&self.input.name, &buffer)?;
                row_bytes = row_bytes.max(bytes(rows.columns()).div_ceil(len));
            }
            let keys = self.queue.is_disjoint().then(|| {
                let key = self.queue.key_column();
                key.and_then(|key| rows.columns().nth(key)).map(Arc::clone)
            });
            if let Some(keys) = keys {
                self.queue.ends_with(keys, len - 1, last);
            }
        } else {
            row_bytes = row_bytes.max(bytes(rows.columns()).div_ceil(len));
            self.queue.runs.push_back(Run {
                seq: self.seq,
                events: Events::Read(timeline()),
                chunk: Arc::new(columns()),
                place: 0,
            });
        }
        self.seq += len as u64;
        self.counts.accepted += len as u64;
        self.row_bytes = row_bytes;
        self.high = last - length;
        self.on_grid = Some(last);
        self.is_idle = false;
        Ok(Some(first - length))
    }

    /// The ends of rows, if they follow all others, on the grid if there is one.
    fn following<'r>(&self, rows: &'r Stamped) -> Option<EndsOf<'r>> {
        let (stamps, length) = (&**rows.stamps, self.offset());
        let mut from = self.watermark().max(self.high);
        if self.queue.is_disjoint() {
            from = from.max(self.queue.last_end);
        }
        if stamps[0] - length < from {
            return None;
        }
        let (t0, len) = (stamps[0], stamps.len());
        match self.input.period {
            // Others are on the grid perhaps, which takes a division to tell.
            Some(period) if period >= length && self.input.key.is_none() => {
                let grid = self.grids.first.is_some_and(|first| {
                    let is_next = self.on_grid == Some(t0 - period);
                    is_next || t0.abs_diff(first).is_multiple_of(period.unsigned_abs())
                });
                let is_regular = len == 1 || rows.gaps.min == period && rows.gaps.max == period;
                (grid && is_regular).then_some(EndsOf::Regular { t0, period, len })
            }
            Some(_) => None,
            None => {
                let least = if self.queue.is_disjoint() { length } else { 0 };
                (rows.gaps.min >= least).then_some(EndsOf::Explicit(stamps))
            }
        }
    }

    /// Whether events start in the order in which they end because all have one length.
    fn has_one_length(&self) -> bool {
        matches!(self.input.span, SpanRule::Point | SpanRule::Fixed(_))
    }

    /// Whether rows that follow all others wait for nothing but the watermark, which passes them as they come.
    pub(crate) fn may_go_straight(&self) -> bool {
        self.has_one_length() && self.options.lateness == 0 && self.horizon() == 0
    }
}
