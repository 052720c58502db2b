//! How many rows have ended, how many have started.

use tilt_data::Spans;

use super::{
    Source,
    count::{Counter, Ticks},
    regular::Stride,
};

/// Counts the rows that end at or before an instant plus a constant.
#[derive(Clone, Debug)]
pub(super) struct Ended<'a> {
    counter: Counter<'a>,
    plus: i64,
    /// Under `UntilNext`, where the last row ends, and how many rows there are.
    last: Option<(i64, u32)>,
}

impl<'a> Ended<'a> {
    pub(super) fn new(source: &Source<'a>, plus: i64) -> Self {
        let timeline = source.timeline();
        let until_next = matches!(timeline.spans(), Spans::UntilNext { .. });
        let last = timeline.len().checked_sub(1).filter(|_| until_next);
        Self {
            counter: Counter::new(
                source.ticks(),
                timeline.shift(),
                plus,
                i64::from(until_next),
            ),
            plus,
            last: last.map(|last| (timeline.end(last), last as u32 + 1)),
        }
    }

    pub(super) fn count(&mut self, instants: &[i64], stride: Option<i64>, out: &mut [u32]) {
        self.counter.count(instants, stride, out);
        if let Some((last_end, len)) = self.last {
            // The counter saw where rows begin: each but the last ends where its successor begins.
            if out.last().is_some_and(|count| *count < len) {
                for count in out {
                    *count = count.saturating_sub(1);
                }
                return;
            }
            for (t, count) in instants.iter().zip(out) {
                let all = *count == len && last_end <= t.saturating_add(self.plus);
                *count = count.saturating_sub(u32::from(!all));
            }
        }
    }

    /// What counts at `rows` instants from `first` on, if all is periodic and nothing saturated.
    pub(super) fn stride(&self, first: i64, stride: i64, rows: usize) -> Option<Stride> {
        let counter = &self.counter;
        counter
            .stride(first, stride, rows)
            .filter(|_| self.last.is_none())
    }

    /// The count at one instant.
    pub(super) fn count_at(&mut self, t: i64) -> u32 {
        let count = self.counter.count_at(t);
        match self.last {
            Some((last_end, len)) => {
                let all = count == len && last_end <= t.saturating_add(self.plus);
                count.saturating_sub(u32::from(!all))
            }
            None => count,
        }
    }
}

/// Counts the rows that start before an instant plus a constant. Where starts are not ordered this is an upper bound:
/// no row from there on starts before the instant.
#[derive(Clone, Debug)]
pub(super) struct Started<'a> {
    counter: Counter<'a>,
    plus: i64,
    /// Under `Contiguous`, where the first row starts, and how many rows there are.
    first: Option<(i64, u32)>,
}

impl<'a> Started<'a> {
    pub(super) fn new(source: &Source<'a>, plus: i64) -> Self {
        let timeline = source.timeline();
        let mut first = None;
        let (ticks, more) = match timeline.spans() {
            Spans::Fixed(d) => (source.ticks(), d - 1),
            Spans::UntilNext { .. } => (source.ticks(), 0),
            Spans::Contiguous { first_start } => {
                first = Some((*first_start, source.len() as u32));
                (source.ticks(), -1)
            }
            Spans::Starts { starts, .. } if source.is_ordered() => (Ticks::Explicit(starts), -1),
            Spans::Starts { longest, .. } => (source.ticks(), longest.saturating_sub(1)),
        };
        Self {
            counter: Counter::new(ticks, timeline.shift(), plus, more),
            plus,
            first,
        }
    }

    pub(super) fn count(&mut self, instants: &[i64], stride: Option<i64>, out: &mut [u32]) {
        self.counter.count(instants, stride, out);
        if let Some((first_start, len)) = self.first {
            // The counter saw where rows end: each but the first starts where its predecessor ends.
            let begun = out.iter().take_while(|count| **count == 0).count();
            for count in &mut out[begun..] {
                *count = (*count + 1).min(len);
            }
            for (t, count) in instants.iter().zip(&mut out[..begun]) {
                let any = first_start < t.saturating_add(self.plus);
                *count = u32::from(any).min(len);
            }
        }
        // Nothing starts before the first instant of all.
        let beyond = |t: &&i64| t.saturating_add(self.plus) == i64::MIN;
        let none = instants.iter().take_while(beyond).count();
        out[..none].fill(0);
    }

    /// The count at one instant.
    pub(super) fn count_at(&mut self, t: i64) -> u32 {
        let mut count = [0];
        self.count(&[t], None, &mut count);
        count[0]
    }
}
