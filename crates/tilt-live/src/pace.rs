//! When rows that have come are computed.

use crate::options::Latency;

/// How many rows wait to be computed together, and since when.
#[derive(Debug)]
pub(crate) struct Pace {
    max_batch: usize,
    latency: Option<Latency>,
    rows: usize,
    /// The time of the first of them, and by the caller's clock when it came.
    since: Option<(i64, i64)>,
    is_urgent: bool,
}

impl Pace {
    pub(crate) fn new(max_batch: Option<usize>, latency: Option<Latency>) -> Self {
        let unlimited = latency.map_or(0, |_| usize::MAX);
        Self {
            max_batch: max_batch.unwrap_or(unlimited),
            latency,
            rows: 0,
            since: None,
            is_urgent: false,
        }
    }

    /// Rows have come, the first of them of this time.
    pub(crate) fn came(&mut self, rows: usize, first: i64, clock: i64) {
        self.rows += rows;
        let (time, clock) = self
            .since
            .map_or((first, clock), |(t, c)| (t.min(first), c));
        self.since = Some((time, clock));
    }

    /// Whether they are computed now that events have come to `time`.
    pub(crate) fn is_due(&self, time: i64, clock: i64) -> bool {
        let waited = |now: i64, since: i64, most: i64| now.saturating_sub(since) >= most;
        self.is_urgent
            || self.rows >= self.max_batch
            || match (self.latency, self.since) {
                (Some(Latency::Events(most)), Some((since, _))) => waited(time, since, most),
                (Some(Latency::Clock(most)), Some((_, since))) => waited(clock, since, most),
                _ => false,
            }
    }

    /// Rows wait for others no longer.
    pub(crate) fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// All rows are computed.
    pub(crate) fn done(&mut self) {
        (self.rows, self.since, self.is_urgent) = (0, None, false);
    }
}
