//! Rows that are held of an input: chunks in order of time.

use std::collections::VecDeque;

use tilt_data::{DataError, SnapshotBuffer};
use tilt_ir::{OPEN, Reach, Span};

/// Chunks of rows that follow each other, none of them empty. Only the last may have a row whose end is not known.
///
/// Adding rows, and dropping those that end before an instant, take as long as there are such rows, not as long as there are rows that stay.
#[derive(Debug)]
pub(crate) struct Held {
    chunks: VecDeque<SnapshotBuffer>,
    rows: usize,
    /// No rows, of the columns that rows have.
    none: SnapshotBuffer,
}

impl Held {
    pub(crate) fn new(none: SnapshotBuffer) -> Self {
        Self {
            chunks: VecDeque::new(),
            rows: 0,
            none,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Takes the columns that rows have from a chunk, if none has come yet.
    pub(crate) fn like(&mut self, chunk: &SnapshotBuffer) {
        if self.chunks.is_empty() {
            self.none = chunk.slice(0, 0);
        }
    }

    /// Adds rows. One before whose end was not known lasts until the first of them.
    pub(crate) fn push(&mut self, chunk: SnapshotBuffer) {
        self.like(&chunk);
        if chunk.is_empty() {
            return;
        }
        if let Some(last) = self.chunks.back_mut()
            && is_open(last)
        {
            *last = last.close(chunk.timeline().start(0));
        }
        self.rows += chunk.len();
        self.chunks.push_back(chunk);
    }

    /// All rows in one buffer, which they are copied to unless they are in one.
    pub(crate) fn join(&mut self) -> Result<&SnapshotBuffer, DataError> {
        if self.chunks.len() > 1 {
            let whole = SnapshotBuffer::concat(self.chunks.make_contiguous())?;
            self.chunks.clear();
            self.chunks.push_back(whole);
        }
        Ok(self.chunks.front().unwrap_or(&self.none))
    }

    /// No rows.
    pub(crate) fn none(&self) -> &SnapshotBuffer {
        &self.none
    }

    /// Whether there is a row whose end is not known.
    pub(crate) fn is_open(&self) -> bool {
        self.chunks.back().is_some_and(is_open)
    }

    /// How many rows end after `t`.
    pub(crate) fn rows_after(&self, t: i64) -> usize {
        let mut rows = 0;
        for chunk in self.chunks.iter().rev() {
            let until = chunk.timeline().ends_until(t);
            rows += chunk.len() - until;
            if until > 0 {
                break;
            }
        }
        rows
    }

    /// The end of the row that is number `rows`, from one, of those that end after `t`.
    pub(crate) fn end_of_row_after(&self, t: i64, rows: usize) -> Option<i64> {
        let mut left = rows.checked_sub(1)?;
        for chunk in &self.chunks {
            let first = chunk.timeline().ends_until(t);
            let len = chunk.len() - first;
            if left < len {
                return Some(chunk.timeline().end(first + left));
            }
            left -= len;
        }
        None
    }

    /// The earliest start of a row that ends after `t`; those whose end is not known count if `opens` says so.
    pub(crate) fn first_start_after(&self, t: i64, opens: bool, in_order: bool) -> Option<i64> {
        let mut earliest: Option<i64> = None;
        for chunk in self.chunks.iter().rev() {
            let timeline = chunk.timeline();
            let first = timeline.ends_until(t);
            let last = if opens {
                chunk.len()
            } else {
                timeline.ends_until(OPEN - 1)
            };
            let rows = first..if in_order { last.min(first + 1) } else { last };
            let starts = rows.map(|row| timeline.start(row));
            earliest = starts.chain(earliest).min();
            if first > 0 {
                break;
            }
        }
        earliest
    }

    /// Drops rows that nothing after `from` depends on, with a lookback of `reach`.
    pub(crate) fn forget(&mut self, from: i64, reach: Reach) -> Result<(), DataError> {
        let Reach::Bounded { ticks, events } = reach else {
            return Ok(());
        };
        if events > 0 {
            self.join()?;
        }
        let until = from.saturating_sub(ticks);
        while let Some(chunk) = self.chunks.front() {
            let first = if events > 0 {
                let rest = Span::new(from, i64::MAX);
                chunk.cut_rows(rest, reach, Reach::Unbounded).start
            } else {
                chunk.timeline().ends_until(until)
            };
            self.rows -= first;
            if first < chunk.len() {
                if first > 0 {
                    self.chunks[0] = chunk.slice(first, chunk.len() - first);
                }
                break;
            }
            self.chunks.pop_front();
        }
        Ok(())
    }
}

/// Whether the last row of a chunk has no end yet.
fn is_open(chunk: &SnapshotBuffer) -> bool {
    let timeline = chunk.timeline();
    timeline.end(chunk.len() - 1) == OPEN
}
