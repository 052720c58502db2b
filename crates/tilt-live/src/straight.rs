//! Rows that go on to the run as they come.
//!
//! Without lateness a row that follows all others has nothing to wait for: its stamps are looked at, and its columns are shared.

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
        let Some(Stamped { stamps, columns }) = rows.filter(|rows| self.follows(rows)) else {
            return Ok(None);
        };
        let (length, len) = (self.offset(), stamps.len());
        let (first, last) = (stamps[0], stamps[len - 1]);
        let row_bytes = bytes(&columns).div_ceil(len);
        let timeline = Timeline::explicit(stamps, Spans::Fixed(length));
        let keys = self.queue.keys_in(&columns);
        let rows = none.with_rows(timeline, columns, None);
        live.push(&self.input.name, &rows.map_err(|source| self.data(source))?)?;
        self.seq += len as u64;
        self.counts.accepted += len as u64;
        self.row_bytes = self.row_bytes.max(row_bytes);
        self.high = last - length;
        if self.queue.is_disjoint() {
            self.queue.ends_with(keys, len - 1, last);
        }
        self.is_idle = false;
        Ok(Some(first - length))
    }

    /// Whether rows are events that follow all others, on the grid if there is one.
    fn follows(&self, rows: &Stamped) -> bool {
        let Stamped { stamps, columns } = rows;
        let length = self.offset();
        let mut from = self.watermark().max(self.high);
        let steps = stamps.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        let are_apart = match self.input.period {
            // Others are on the grid perhaps, which takes a division to tell.
            Some(period) if period >= length => {
                let grid = self.grid.is_some_and(|first| {
                    (i128::from(stamps[0]) - i128::from(first)) % i128::from(period) == 0
                });
                grid && steps.filter(|step| *step != period).count() == 0
            }
            Some(_) => false,
            None if self.queue.is_disjoint() => steps.filter(|step| *step < length).count() == 0,
            None => true,
        };
        if self.queue.is_disjoint() {
            from = from.max(self.queue.last_end);
            // A null of a scalar is no event.
            if columns.len() == 1 && columns[0].null_count() > 0 {
                return false;
            }
        }
        are_apart && stamps[0] - length >= from
    }

    /// Whether rows that follow all others wait for nothing but the watermark, which passes them as they come.
    pub(crate) fn may_go_straight(&self) -> bool {
        matches!(self.input.span, SpanRule::Point | SpanRule::Fixed(_))
            && self.options.lateness == 0
            && self.horizon() == 0
    }
}
