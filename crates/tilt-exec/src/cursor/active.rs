//! The event that is active at an instant.

use std::ops::Range;

use tilt_data::{Spans, Stamps};

use super::{
    Instants, NONE, Source,
    edges::{Ended, Started},
};

/// Which event to read where several are active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// There must not be several.
    Unique,
    /// The first in order.
    First,
    /// The last in order.
    Last,
}

/// Reads the event that is active at an instant: `start < t <= end`.
#[derive(Clone, Debug)]
pub(crate) struct Active<'a> {
    source: &'a Source<'a>,
    policy: Policy,
    /// How many rows end before the instant.
    ended: Ended<'a>,
    /// How many start before it. Only asked where rows overlap.
    started: Started<'a>,
    instants: Vec<i64>,
    ends: Vec<u32>,
}

impl<'a> Active<'a> {
    /// A reader that stands before the first row.
    pub(crate) fn new(source: &'a Source<'a>, policy: Policy) -> Self {
        Self {
            source,
            policy,
            ended: Ended::new(source, -1),
            started: Started::new(source, 0),
            instants: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Writes the position that each row reads. Fails with the first instant at which several are active and must not.
    ///
    /// # Panics
    /// When `out` is not one position a row.
    pub(crate) fn read(
        &mut self,
        at: Instants,
        rows: Range<usize>,
        out: &mut [u32],
    ) -> Result<(), i64> {
        assert_eq!(rows.len(), out.len(), "one position a row");
        if self.read_periodic(at, &rows, out) {
            return Ok(());
        }
        let instants = at.of(rows, &mut self.instants);
        self.ended.count(instants, at.stride(), out);
        if self.source.is_disjoint() {
            keep_started(self.source, instants, out);
            keep_events(self.source, out);
            return Ok(());
        }
        self.ends.resize(out.len(), 0);
        self.started.count(instants, at.stride(), &mut self.ends);
        for ((t, end), out) in instants.iter().zip(&self.ends).zip(out) {
            *out = choose(self.source, self.policy, *out..*end, *t)?;
        }
        Ok(())
    }
}

impl Active<'_> {
    /// Whether the positions read never decrease, where there are any.
    pub(crate) fn is_ordered(&self) -> bool {
        self.source.is_disjoint()
    }

    /// As [`Active::read`] of a periodic source at periodic instants, without looking at each of them. False if there is more to do than
    /// arithmetic.
    fn read_periodic(&self, at: Instants, rows: &Range<usize>, out: &mut [u32]) -> bool {
        let timeline = self.source.timeline();
        let follow = match (timeline.spans(), timeline.stamps()) {
            (Spans::Fixed(d), Stamps::Regular { period, .. }) => d == period,
            _ => false,
        };
        let (Some(stride), Some(first), false) = (at.stride(), at.first(rows), timeline.is_empty())
        else {
            return false;
        };
        // Nothing is saturated before the first event.
        if !follow || self.source.events().is_some() || timeline.start(0) >= first {
            return false;
        }
        let Some(counts) = self.ended.stride(first, stride, rows.len()) else {
            return false;
        };
        counts.count(out);
        let inside = out.partition_point(|p| (*p as usize) < self.source.len());
        out[inside..].fill(NONE);
        true
    }
}

/// Replaces positions of disjoint rows, each the first that does not end before its instant, by [`NONE`] where the row
/// has not started.
fn keep_started(source: &Source, instants: &[i64], out: &mut [u32]) {
    let timeline = source.timeline();
    let shift = timeline.shift();
    match (timeline.spans(), timeline.stamps()) {
        (Spans::Starts { starts, .. }, _) => keep(starts, instants, out, |s| s + shift),
        (Spans::Fixed(d), Stamps::Explicit(stamps)) => {
            let by = shift.wrapping_sub(*d);
            let first = stamps.first().map(|s| s + shift);
            if first.is_some_and(|first| first.checked_sub(*d).is_some()) {
                return keep(stamps, instants, out, |s| s.wrapping_add(by));
            }
            keep(stamps, instants, out, |s| (s + shift).saturating_sub(*d));
        }
        (Spans::Fixed(d), Stamps::Regular { period, .. }) if d < period => {
            for (t, out) in instants.iter().zip(out) {
                let p = *out as usize;
                let active = p < source.len() && timeline.start(p) < *t;
                *out = if active { *out } else { NONE };
            }
        }
        // Without gaps a row that follows one which has ended has started.
        _ if source.len() == 0 => out.fill(NONE),
        // Positions never decrease, so that only rows at both ends are asked.
        _ => {
            let (len, first) = (source.len() as u32, timeline.start(0));
            let inside = out.partition_point(|p| *p < len);
            out[inside..].fill(NONE);
            let asked = |(t, p): &(&i64, &mut u32)| **p == 0 || **t == i64::MIN;
            for (t, out) in instants.iter().zip(out).take_while(asked) {
                let begun = *out != NONE && first < *t && *t > i64::MIN;
                *out = if begun { *out } else { NONE };
            }
        }
    }
}

/// Keeps the positions whose start, made of what is stored, lies before the instant.
#[inline]
fn keep(stored: &[i64], instants: &[i64], out: &mut [u32], start: impl Fn(i64) -> i64) {
    let Some(last) = stored.len().checked_sub(1) else {
        return out.fill(NONE);
    };
    for (t, out) in instants.iter().zip(out) {
        let p = *out as usize;
        // SAFETY: `last` is a position.
        let stored = unsafe { *stored.get_unchecked(p.min(last)) };
        let active = (p <= last) & (start(stored) < *t);
        *out = if active { *out } else { NONE };
    }
}

/// Replaces positions without an event by [`NONE`].
fn keep_events(source: &Source, out: &mut [u32]) {
    if let Some(events) = source.events() {
        for out in out {
            if *out != NONE && !events.value(*out as usize) {
                *out = NONE;
            }
        }
    }
}

/// The active one of some rows that do not end before `t`.
fn choose(source: &Source, policy: Policy, rows: Range<u32>, t: i64) -> Result<u32, i64> {
    let is_active = |p: &u32| {
        let p = *p as usize;
        source.is_event(p) && source.timeline().start(p) < t
    };
    let mut active = rows.filter(is_active);
    let chosen = match policy {
        Policy::First => active.next(),
        Policy::Last => active.next_back(),
        Policy::Unique => {
            let first = active.next();
            if active.next().is_some() {
                return Err(t);
            }
            first
        }
    };
    Ok(chosen.unwrap_or(NONE))
}
