//! The event that was the last to end.

use std::ops::Range;

use tilt_data::{Spans, Stamps};
use tilt_ir::OPEN;

use super::{Instants, NONE, Source, edges::Ended};

/// Reads the last event in order that has ended, as `hold` does.
#[derive(Clone, Debug)]
pub(crate) struct Held<'a> {
    source: &'a Source<'a>,
    max_age: Option<i64>,
    run_end: i64,
    ended: Ended<'a>,
    /// The rows that end at all; open ones are the last.
    closed: u32,
    /// The last event among the first `seen` rows.
    last: u32,
    seen: u32,
    instants: Vec<i64>,
}

impl<'a> Held<'a> {
    /// A reader of events that are held while they are younger than `max_age`, up to the run's end. An event that ends
    /// at [`OPEN`] has not ended.
    pub(crate) fn new(source: &'a Source<'a>, max_age: Option<i64>, run_end: i64) -> Self {
        Self {
            source,
            max_age,
            run_end,
            ended: Ended::new(source, 0),
            closed: Ended::new(source, 0).count_at(OPEN - 1),
            last: NONE,
            seen: 0,
            instants: Vec::new(),
        }
    }

    /// Writes the position that each row reads.
    ///
    /// # Panics
    /// When `out` is not one position a row.
    pub(crate) fn read(&mut self, at: Instants, rows: Range<usize>, out: &mut [u32]) {
        assert_eq!(rows.len(), out.len(), "one position a row");
        let instants = at.of(rows, &mut self.instants);
        self.ended.count(instants, at.stride(), out);
        // Instants never decrease.
        let in_time = instants.partition_point(|t| *t <= self.run_end);
        if self.source.is_dense() {
            for out in &mut *out {
                // NONE is what comes before position 0.
                *out = (*out).min(self.closed).wrapping_sub(1);
            }
        } else {
            for out in &mut *out {
                let ended = (*out).min(self.closed);
                let mut new = (self.seen..ended).rev();
                let event = new.find(|p| self.source.is_event(*p as usize));
                self.last = event.unwrap_or(self.last);
                self.seen = ended;
                *out = self.last;
            }
        }
        out[in_time..].fill(NONE);
        if let Some(max_age) = self.max_age {
            keep_young(self.source, max_age, &instants[..in_time], out);
        }
    }
}

/// Replaces the positions of rows that ended `max_age` or more before their instant by [`NONE`].
fn keep_young(source: &Source, max_age: i64, instants: &[i64], out: &mut [u32]) {
    let timeline = source.timeline();
    let shift = timeline.shift();
    match (timeline.stamps(), timeline.spans()) {
        (Stamps::Explicit(stamps), Spans::UntilNext { .. }) => {
            // The last row is the only one that does not end where another begins.
            let last = stamps.len().checked_sub(1);
            let last_end = last.map_or(OPEN, |last| timeline.end(last));
            let end = |p: usize| stamps.get(p + 1).map_or(last_end, |s| s + (shift - 1));
            keep(max_age, instants, out, end);
        }
        (Stamps::Explicit(ends), _) => keep(max_age, instants, out, |p| ends[p] + shift),
        _ => keep(max_age, instants, out, |p| timeline.end(p)),
    }
}

#[inline]
fn keep(max_age: i64, instants: &[i64], out: &mut [u32], end: impl Fn(usize) -> i64) {
    // Before the first event that has ended there is none, from there on there always is.
    let out = &mut out[..instants.len()];
    let none = out.iter().take_while(|p| **p == NONE).count();
    for (t, out) in instants[none..].iter().zip(&mut out[none..]) {
        let is_young = t.saturating_sub(end(*out as usize)) < max_age;
        *out = if is_young { *out } else { NONE };
    }
}
