//! Rows that go on to the run as they come.
//!
//! Without lateness a row that follows all others has nothing to wait for: its stamps are looked at, and its columns are shared.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use tilt_data::{Spans, Stamped, Timeline};
use tilt_exec::Live;
use tilt_ir::SpanRule;

use crate::{
    error::SessionError,
    port::{Port, bytes},
};

impl Port {
    /// Takes the rows of a batch if they follow all others and none of them has to wait, and gives them to the run. Where the first event starts; `None` if nothing was taken.
    pub(crate) fn push_straight(
        &mut self,
        batch: &RecordBatch,
        live: &mut Live,
    ) -> Result<Option<i64>, SessionError> {
        let (true, true, Some(none)) = (self.goes_straight, self.queue.is_empty(), self.none.get())
        else {
            return Ok(None);
        };
        let rows = self.reader.read_in_order(batch);
        let Some((rows, timeline)) = rows.and_then(|rows| {
            let timeline = self.following(&rows)?;
            Some((rows, timeline))
        }) else {
            return Ok(None);
        };
        let (length, len) = (self.offset(), timeline.len());
        let (first, last) = (timeline.end(0), timeline.end(len - 1));
        if !live.append(&self.input.name, &timeline, rows.columns())? {
            let columns = rows.columns().map(Arc::clone).collect();
            let rows = none.with_rows(timeline, columns, None);
            live.push(&self.input.name, &rows.map_err(|source| self.data(source))?)?;
        }
        let row_bytes = bytes(rows.columns()).div_ceil(len);
        let keys = self.queue.is_disjoint().then(|| {
            let key = self.queue.key_column();
            key.and_then(|key| rows.columns().nth(key)).map(Arc::clone)
        });
        self.seq += len as u64;
        self.counts.accepted += len as u64;
        self.row_bytes = self.row_bytes.max(row_bytes);
        self.high = last - length;
        if let Some(keys) = keys {
            self.queue.ends_with(keys, len - 1, last);
        }
        self.is_idle = false;
        Ok(Some(first - length))
    }

    /// The events of rows, if they follow all others, on the grid if there is one.
    fn following(&self, rows: &Stamped) -> Option<Timeline> {
        let (stamps, length) = (&rows.stamps, self.offset());
        let mut from = self.watermark().max(self.high);
        if self.queue.is_disjoint() {
            from = from.max(self.queue.last_end);
            // A null of a scalar is no event.
            let mut columns = rows.columns();
            if columns.len() == 1 && columns.any(|column| column.logical_null_count() > 0) {
                return None;
            }
        }
        if stamps[0] - length < from {
            return None;
        }
        let pairs = stamps.iter().zip(&stamps[1..]);
        let steps = pairs.map(|(a, b)| b.wrapping_sub(*a));
        let spans = Spans::Fixed(length);
        match self.input.period {
            // Others are on the grid perhaps, which takes a division to tell.
            Some(period) if period >= length => {
                let grid = self.grid.is_some_and(|first| {
                    let distance = stamps[0].abs_diff(first);
                    distance.is_multiple_of(period.unsigned_abs())
                });
                let is_regular = grid && steps.filter(|step| *step != period).count() == 0;
                is_regular.then(|| Timeline::regular(stamps[0], period, stamps.len(), spans))
            }
            Some(_) => None,
            None => {
                let least = if self.queue.is_disjoint() { length } else { 0 };
                let are_apart = steps.filter(|step| *step < least).count() == 0;
                are_apart.then(|| Timeline::explicit(stamps.clone(), spans))
            }
        }
    }

    /// Whether rows that follow all others wait for nothing but the watermark, which passes them as they come.
    pub(crate) fn may_go_straight(&self) -> bool {
        matches!(self.input.span, SpanRule::Point | SpanRule::Fixed(_))
            && self.options.lateness == 0
            && self.horizon() == 0
    }
}
