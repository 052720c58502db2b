//! Cutting a stream by time, with the halo that a part of a query's output depends on.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use tilt_ir::{Reach, Span};

use crate::{error::Result, snapshot::SnapshotBuffer};

/// What the events of a reach are counted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Events.
    Events,
    /// Events that have a value in each column, keys aside.
    CompleteRows,
}

impl SnapshotBuffer {
    /// The events that the part `span` of a query's output may depend on, sharing all buffers: [`cut_rows`] as a slice.
    ///
    /// [`cut_rows`]: Self::cut_rows
    #[must_use]
    pub fn cut(&self, span: Span, lookback: Reach, lookahead: Reach) -> Self {
        let rows = self.cut_rows(span, lookback, lookahead);
        self.slice(rows.start, rows.len())
    }

    /// The rows of [`cut`](Self::cut).
    ///
    /// **Into the past**, the walk starts at the part's first instant `span.start + 1`. It may cover `ticks` in all and may
    /// besides skip a gap between two neighbouring ends, or the piece of one it stands in, `events` times, in whatever
    /// order reaches furthest: an end is reached if its distance less the `events` largest gaps on the way is at most
    /// `ticks`. Rows from the earliest end reached on are kept.
    ///
    /// **Into the future**, the walk starts at `span.end` and goes likewise; with `events` it first moves to the end of the
    /// event it stands in for free, since an event count starts at the current event, which may last longer than the part.
    /// Rows that start before the point reached are kept, and with them, in a bag, those between.
    pub fn cut_rows(&self, span: Span, lookback: Reach, lookahead: Reach) -> Range<usize> {
        let first = self.row_back(span.start, lookback, Counted::Events);
        let end = self.reach_ahead(span.end, lookahead);
        first..end.max(first)
    }

    /// The rows that what comes after `from` may depend on if each key counts its own events: of each key those that a cut of its stream would keep, in the
    /// order of all rows.
    ///
    /// # Errors
    /// When there is no such column, or it has no keys.
    pub fn rows_back_by_key(
        &self,
        column: &str,
        from: i64,
        lookback: Reach,
        counted: Counted,
    ) -> Result<Vec<usize>> {
        let Reach::Bounded {
            ticks,
            events: events @ 1..,
        } = lookback
        else {
            return Ok((self.row_back(from, lookback, counted)..self.len()).collect());
        };
        let (timeline, counts) = (self.timeline(), self.counts(counted, column));
        let end = |row: &u64| timeline.end(*row as usize);
        let groups = self.groups(column)?;
        let mut kept: Vec<usize> = Vec::new();
        for (_, range) in groups.iter() {
            let rows = &groups.rows[range];
            let (before, after) = rows.split_at(rows.partition_point(|row| end(row) <= from));
            let walk = Walk::new(from.saturating_add(1), ticks, events);
            let counted_rows = before.iter().rev().filter(|row| counts(**row as usize));
            let before = match walk.back(counted_rows.map(end), counted) {
                Some(furthest) => &before[before.partition_point(|row| end(row) < furthest)..],
                None => before,
            };
            kept.extend(before.iter().chain(after).map(|row| *row as usize));
        }
        kept.sort_unstable();
        Ok(kept)
    }

    /// The first row that what comes after `from` may depend on, as [`cut_rows`](Self::cut_rows) finds it.
    pub fn row_back(&self, from: i64, reach: Reach, counted: Counted) -> usize {
        let timeline = self.timeline();
        let (ticks, events) = match reach {
            Reach::Unbounded => return 0,
            Reach::Bounded { ticks, events: 0 } => {
                return timeline.ends_until(from.saturating_sub(ticks));
            }
            Reach::Bounded { ticks, events } => (ticks, events),
        };
        let first = timeline.ends_until(from);
        let walk = Walk::new(from.saturating_add(1), ticks, events);
        // Rows that do not count must not split a gap into two smaller ones.
        let counts = self.counts(counted, "");
        let counted_rows = (0..first).rev().filter(|row| counts(*row));
        match walk.back(counted_rows.map(|row| timeline.end(row)), counted) {
            Some(furthest) => timeline.ends_until(furthest.saturating_sub(1)).min(first),
            None => 0,
        }
    }

    /// Whether a row counts; the values of `key` do not.
    fn counts(&self, counted: Counted, key: &str) -> impl Fn(usize) -> bool {
        let columns = match counted {
            Counted::Events => &[],
            Counted::CompleteRows => self.columns(),
        };
        let columns = columns.iter().filter(|column| column.name() != key);
        let nulls: Vec<NullBuffer> = columns.filter_map(|c| c.array().logical_nulls()).collect();
        move |row| self.is_event(row) && nulls.iter().all(|nulls| nulls.is_valid(row))
    }

    fn reach_ahead(&self, from: i64, reach: Reach) -> usize {
        let timeline = self.timeline();
        let (ticks, events) = match reach {
            Reach::Unbounded => return self.len(),
            Reach::Bounded { ticks, events: 0 } => {
                return timeline.starts_before(from.saturating_add(ticks));
            }
            Reach::Bounded { ticks, events } => (ticks, events),
        };
        let current = timeline.ends_until(from.saturating_sub(1));
        let mut ahead = (current..self.len()).filter(|i| self.is_event(*i));
        let Some(end) = ahead.next().map(|i| timeline.end(i)) else {
            return self.len();
        };
        let mut walk = Walk::new(end, ticks, events);
        for row in ahead {
            if !walk.step(timeline.end(row)) {
                return timeline.starts_before(walk.furthest());
            }
        }
        self.len()
    }
}

/// A walk along ends that skips the largest gaps it meets.
struct Walk {
    at: i64,
    /// How far it may go in all, gaps skipped aside.
    ticks: i64,
    /// How many gaps it may skip.
    events: u64,
    /// The largest gaps so far, at most `events` of them.
    skipped: BinaryHeap<Reverse<i64>>,
    /// The sum of all other gaps.
    covered: i64,
}

impl Walk {
    fn new(at: i64, ticks: i64, events: u64) -> Self {
        Self {
            at,
            ticks,
            events,
            skipped: BinaryHeap::new(),
            covered: 0,
        }
    }

    /// Moves on to `end` and returns true, if it is in reach.
    fn step(&mut self, end: i64) -> bool {
        let gap = i64::try_from(end.abs_diff(self.at)).unwrap_or(i64::MAX);
        let least = self.skipped.peek().map_or(0, |Reverse(g)| *g);
        let full = self.skipped.len() as u64 == self.events;
        let covered = if full {
            self.covered.saturating_add(gap.min(least))
        } else {
            self.covered
        };
        if covered > self.ticks {
            return false;
        }
        if full && gap > least {
            self.skipped.pop();
        }
        if !full || gap > least {
            self.skipped.push(Reverse(gap));
        }
        self.at = end;
        self.covered = covered;
        true
    }

    /// The furthest end into the past, with the ends of rows that count on the way; `None` if any is as near.
    fn back(mut self, ends: impl Iterator<Item = i64>, counted: Counted) -> Option<i64> {
        for end in ends {
            if !self.step(end) {
                return Some(match counted {
                    Counted::Events => self.at,
                    // Events that do not count may lie further back, as far as ticks are left.
                    Counted::CompleteRows => self.at.saturating_sub(self.ticks - self.covered),
                });
            }
        }
        (counted == Counted::Events).then_some(self.at)
    }

    /// The furthest instant into the future, after a step was refused: no gap is left to skip, so what is left of the
    /// ticks is less than any that were.
    fn furthest(&self) -> i64 {
        self.at.saturating_add(self.ticks - self.covered)
    }
}
