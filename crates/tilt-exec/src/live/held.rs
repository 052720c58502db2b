//! Rows that are held of an input: chunks in order of time.

use std::collections::VecDeque;

use tilt_data::{DataError, SnapshotBuffer};
use tilt_ir::{OPEN, Reach};

use super::{coded::Coded, past::Back};
use crate::tail::{Fresh, Tail};

/// Rows that are held of all keys before it is looked which of them are not needed.
const FEW: usize = 1 << 4;

/// Chunks of rows that follow each other, none of them empty, and after them rows that are put together to one. Only the last may have a row whose end is not known.
///
/// Adding rows, and dropping those that end before an instant, take as long as there are such rows, not as long as there are rows that stay.
#[derive(Debug)]
pub(crate) struct Held {
    chunks: VecDeque<SnapshotBuffer>,
    /// The first rows of the first chunk, which are held no longer.
    gone: usize,
    tail: Option<Tail>,
    /// Rows of the chunks that are held.
    rows: usize,
    /// Rows that were left when events were counted last.
    counted: usize,
    /// No rows, of the columns that rows have.
    none: SnapshotBuffer,
    /// The column of keys.
    key: Option<String>,
    /// Whether keys are strings, and what those of all chunks stand for, if they are codes.
    is_text: bool,
    coded: Option<Coded>,
    /// The rows that were shown last, if keys are codes.
    shown: Option<SnapshotBuffer>,
}

impl Held {
    pub(crate) fn new(none: SnapshotBuffer) -> Self {
        Self {
            chunks: VecDeque::new(),
            gone: 0,
            tail: None,
            rows: 0,
            counted: 0,
            none,
            key: None,
            is_text: false,
            coded: None,
            shown: None,
        }
    }

    /// The same, of rows that have keys in a column, which may be strings: rows that are put together have none.
    pub(crate) fn with_key(self, key: Option<&str>, is_text: bool) -> Self {
        Self {
            key: key.map(str::to_owned),
            is_text,
            ..self
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows + self.tail_len()
    }

    fn tail_len(&self) -> usize {
        self.tail.as_ref().map_or(0, Tail::len)
    }

    /// Takes the columns that rows have from a chunk, if none has come yet.
    pub(crate) fn like(&mut self, chunk: &SnapshotBuffer) {
        if self.len() == 0 {
            self.none = chunk.slice(0, 0);
        }
    }

    /// The rows that are put together, if those of a chunk can be appended.
    pub(crate) fn followed_by(&mut self, chunk: &SnapshotBuffer) -> Option<&mut Tail> {
        let tail = self.tail.as_mut();
        tail.filter(|tail| tail.is_followed_by(chunk))
    }

    /// The rows that are put together, if there are any.
    pub(crate) fn tail(&mut self) -> Option<&mut Tail> {
        self.tail.as_mut()
    }

    /// Adds rows. One before whose end was not known lasts until the first of them. Those that are put together have to be [passed on](Self::pass_on) before.
    pub(crate) fn push(&mut self, chunk: &SnapshotBuffer) -> Result<(), DataError> {
        self.like(chunk);
        if chunk.is_empty() {
            return Ok(());
        }
        self.settle()?;
        if let Some(last) = self.chunks.back_mut()
            && is_open(last)
        {
            *last = last.close(chunk.timeline().start(0));
        }
        let chunk = if let Some(coded) = &mut self.coded {
            coded.forget(&mut self.chunks, self.rows)?;
            coded.encode(chunk)?
        } else {
            self.tail = Tail::of(chunk);
            if self.tail.is_some() {
                return Ok(());
            }
            chunk.clone()
        };
        self.rows += chunk.len();
        self.chunks.push_back(chunk);
        Ok(())
    }

    /// Whether there are rows that are put together and were not passed on.
    pub(crate) fn has_fresh(&self) -> bool {
        self.tail.as_ref().is_some_and(Tail::has_fresh)
    }

    /// The rows that are put together and were not passed on; they are from now on.
    pub(crate) fn pass_on(&mut self) -> Option<Fresh<'_>> {
        self.tail.as_mut()?.pass_on()
    }

    /// Lets chunks have all rows that are held, and no others.
    pub(crate) fn settle(&mut self) -> Result<(), DataError> {
        let gone = std::mem::take(&mut self.gone);
        if let Some(chunk) = self.chunks.front_mut().filter(|_| gone > 0) {
            *chunk = chunk.slice(gone, chunk.len() - gone);
        }
        if let Some(tail) = self.tail.take().filter(|tail| tail.len() > 0) {
            self.rows += tail.len();
            self.chunks.push_back(tail.into_chunk()?);
        }
        if let Some(coded) = &mut self.coded {
            coded.complete(&mut self.chunks)?;
        }
        Ok(())
    }

    /// A chunk as others see it.
    fn show(&self, chunk: SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        match &self.coded {
            Some(coded) => coded.show(&chunk),
            None => Ok(chunk),
        }
    }

    /// All rows in one buffer, as they came.
    pub(crate) fn as_given(&mut self) -> Result<SnapshotBuffer, DataError> {
        self.put_together()?;
        match (self.chunks.front(), &self.coded) {
            (Some(chunk), Some(coded)) => coded.decode(chunk),
            (chunk, _) => Ok(chunk.unwrap_or(&self.none).clone()),
        }
    }

    /// All rows in one buffer, which they are copied to unless they are in one.
    pub(crate) fn join(&mut self) -> Result<&SnapshotBuffer, DataError> {
        self.put_together()?;
        let Some(whole) = self.chunks.front() else {
            return Ok(&self.none);
        };
        match &self.coded {
            Some(coded) => Ok(self.shown.insert(coded.show(whole)?)),
            None => Ok(whole),
        }
    }

    /// Lets all rows be one chunk.
    fn put_together(&mut self) -> Result<(), DataError> {
        self.settle()?;
        if self.chunks.len() > 1 {
            let whole = SnapshotBuffer::concat(self.chunks.make_contiguous())?;
            self.chunks.clear();
            self.chunks.push_back(whole);
        }
        Ok(())
    }

    /// Rows from one on, chunk by chunk. All have to be [settled](Self::settle).
    pub(crate) fn chunks_from(
        &self,
        row: usize,
    ) -> impl Iterator<Item = Result<SnapshotBuffer, DataError>> + '_ {
        self.slices_from(row).map(|chunk| self.show(chunk))
    }

    /// The same as they are held.
    fn slices_from(&self, row: usize) -> impl Iterator<Item = SnapshotBuffer> + '_ {
        debug_assert!(self.tail.is_none(), "rows are in chunks");
        let mut end = self.rows;
        let mut last = 0;
        for chunk in self.chunks.iter().rev() {
            if end <= row {
                break;
            }
            end -= chunk.len();
            last += 1;
        }
        let chunks = self.chunks.iter().skip(self.chunks.len() - last);
        let mut skip = row.saturating_sub(end);
        chunks.map(move |chunk| {
            let from = std::mem::take(&mut skip).min(chunk.len());
            chunk.slice(from, chunk.len() - from)
        })
    }

    /// Rows from one on.
    pub(crate) fn rows_from(&mut self, row: usize) -> Result<SnapshotBuffer, DataError> {
        self.settle()?;
        let chunks: Vec<SnapshotBuffer> = self.slices_from(row).collect();
        self.joined(chunks)
    }

    /// The same, as one chunk from now on.
    pub(crate) fn join_from(&mut self, row: usize) -> Result<SnapshotBuffer, DataError> {
        self.settle()?;
        let parts: Vec<SnapshotBuffer> = self.slices_from(row).collect();
        if parts.len() < 2 {
            return self.joined(parts);
        }
        let joined = SnapshotBuffer::concat(&parts)?;
        let first = self.chunks.len() - parts.len();
        let split = self.chunks[first].len() - parts[0].len();
        self.chunks.truncate(first + 1);
        match self.chunks.back_mut() {
            Some(chunk) if split > 0 => *chunk = chunk.slice(0, split),
            _ => drop(self.chunks.pop_back()),
        }
        self.chunks.push_back(joined.clone());
        self.show(joined)
    }

    /// Parts of what is held, in one buffer.
    fn joined(&self, mut parts: Vec<SnapshotBuffer>) -> Result<SnapshotBuffer, DataError> {
        match parts.len() {
            0 => Ok(self.none.clone()),
            1 => self.show(parts.swap_remove(0)),
            _ => self.show(SnapshotBuffer::concat(&parts)?),
        }
    }

    /// Some of the rows, in order.
    pub(crate) fn gather(&mut self, rows: &[usize]) -> Result<SnapshotBuffer, DataError> {
        self.settle()?;
        self.compact()?;
        let (mut parts, mut first, mut rest) = (Vec::new(), 0, rows);
        for chunk in &self.chunks {
            let (of_chunk, others) =
                rest.split_at(rest.partition_point(|row| *row < first + chunk.len()));
            if !of_chunk.is_empty() {
                let of_chunk: Vec<usize> = of_chunk.iter().map(|row| row - first).collect();
                parts.push(chunk.gather(&of_chunk)?);
            }
            (first, rest) = (first + chunk.len(), others);
        }
        self.joined(parts)
    }

    /// Joins the last chunks, so that each is at least twice as long as the next: few are left, and a row is copied seldom.
    fn compact(&mut self) -> Result<(), DataError> {
        let (mut first, mut rows) = (self.chunks.len(), 0);
        while first > 0 && (rows == 0 || self.chunks[first - 1].len() <= 2 * rows) {
            first -= 1;
            rows += self.chunks[first].len();
        }
        if first + 1 < self.chunks.len() {
            let joined = SnapshotBuffer::concat(&self.chunks.make_contiguous()[first..])?;
            self.chunks.truncate(first);
            self.chunks.push_back(joined);
        }
        Ok(())
    }

    /// No rows.
    pub(crate) fn none(&self) -> &SnapshotBuffer {
        &self.none
    }

    /// Whether there is a row whose end is not known.
    pub(crate) fn is_open(&self) -> bool {
        self.tail_len() == 0 && self.chunks.back().is_some_and(is_open)
    }

    /// How many rows end after `t`.
    pub(crate) fn rows_after(&self, t: i64) -> usize {
        let mut rows = 0;
        if let Some(tail) = &self.tail {
            let until = tail.ends_until(t);
            rows = tail.len() - until;
            if until > 0 {
                return rows;
            }
        }
        for chunk in self.chunks.iter().rev() {
            let until = chunk.timeline().ends_until(t);
            rows += chunk.len() - until;
            if until > 0 {
                break;
            }
        }
        rows.min(self.len())
    }

    /// The end of the row that is number `rows`, from one, of those that end after `t`.
    pub(crate) fn end_of_row_after(&self, t: i64, rows: usize) -> Option<i64> {
        let mut left = rows.checked_sub(1)?;
        for (number, chunk) in self.chunks.iter().enumerate() {
            let first = (chunk.timeline().ends_until(t)).max(self.gone_of(number));
            let len = chunk.len() - first;
            if left < len {
                return Some(chunk.timeline().end(first + left));
            }
            left -= len;
        }
        let tail = self.tail.as_ref()?;
        let row = tail.ends_until(t) + left;
        (row < tail.len()).then(|| tail.end(row))
    }

    /// The earliest start of a row that ends after `t`; those whose end is not known count if `opens` says so.
    pub(crate) fn first_start_after(&self, t: i64, opens: bool, in_order: bool) -> Option<i64> {
        let mut earliest: Option<i64> = None;
        if let Some(tail) = &self.tail {
            // Events of one length start in the order in which they end.
            let first = tail.ends_until(t);
            earliest = (first < tail.len()).then(|| tail.start(first));
            if first > 0 {
                return earliest;
            }
        }
        for (number, chunk) in self.chunks.iter().enumerate().rev() {
            let timeline = chunk.timeline();
            let first = timeline.ends_until(t).max(self.gone_of(number));
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

    /// How many rows of a chunk are held no longer.
    fn gone_of(&self, chunk: usize) -> usize {
        if chunk == 0 { self.gone } else { 0 }
    }

    /// Drops rows that nothing after `from` depends on, which looks so far back. Whether there were others before some of them.
    pub(crate) fn forget(&mut self, from: i64, back: Back) -> Result<bool, DataError> {
        self.shown = None;
        let rows = self.rows;
        let mut are_between = false;
        if let Some(key) = self.key.clone().filter(|_| back.counts()) {
            are_between = self.drop_rows_by_key(&key, from, back)?;
        } else {
            self.drop_rows(from, back)?;
        }
        // Rows that are looked back to more than once are worth codes.
        if let Some(key) = self
            .key
            .as_ref()
            .filter(|_| self.is_text && self.coded.is_none())
            && 3 * self.rows > rows
        {
            let mut coded = Coded::new(key);
            for chunk in &mut self.chunks {
                *chunk = coded.encode(chunk)?;
            }
            self.coded = Some(coded);
        }
        Ok(are_between)
    }

    /// The same where each key counts its own events. Whether something was dropped.
    fn drop_rows_by_key(&mut self, key: &str, from: i64, back: Back) -> Result<bool, DataError> {
        // Finding out takes as long as there are rows, so not before they are twice as many.
        if self.len() < (2 * self.counted).max(FEW) {
            return Ok(false);
        }
        let all = self.len();
        let Back { reach, counted } = back;
        let all_rows = self.join()?;
        let kept = all_rows.rows_back_by_key(key, from, reach, counted)?;
        self.counted = kept.len();
        if kept.len() == all {
            return Ok(false);
        }
        self.shown = None;
        for chunk in &mut self.chunks {
            *chunk = chunk.gather(&kept)?;
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.rows = kept.len();
        Ok(true)
    }

    fn drop_rows(&mut self, from: i64, back: Back) -> Result<(), DataError> {
        let Reach::Bounded { ticks, events } = back.reach else {
            return Ok(());
        };
        if events > 0 {
            // Finding out takes as long as there are rows, so not before they are twice as many.
            if self.len() < 2 * self.counted {
                return Ok(());
            }
            self.join()?;
        }
        let until = from.saturating_sub(ticks);
        while let Some(chunk) = self.chunks.front() {
            let first = if events > 0 {
                chunk.row_back(from, back.reach, back.counted)
            } else {
                chunk.timeline().ends_until(until)
            };
            let first = first.max(self.gone);
            self.rows -= first - self.gone;
            self.gone = first;
            if first < chunk.len() {
                break;
            }
            self.chunks.pop_front();
            self.gone = 0;
        }
        if events > 0 {
            self.counted = self.rows;
        } else if self.chunks.is_empty()
            && let Some(tail) = &mut self.tail
        {
            tail.forget(tail.ends_until(until));
        }
        Ok(())
    }
}

/// Whether the last row of a chunk has no end yet.
fn is_open(chunk: &SnapshotBuffer) -> bool {
    let timeline = chunk.timeline();
    timeline.end(chunk.len() - 1) == OPEN
}
