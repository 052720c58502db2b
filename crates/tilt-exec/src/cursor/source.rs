//! What is read from.

use arrow_buffer::BooleanBuffer;
use tilt_data::{Spans, Stamps, Timeline};

use super::{NONE, count::Ticks};

/// What is known of the rows of a timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// No row starts before the one before it ends.
    pub(crate) disjoint: bool,
    /// Starts never decrease.
    pub(crate) ordered: bool,
}

/// A timeline and the positions that are events on it, with what the readers need to know about its shape.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    timeline: &'a Timeline,
    /// The positions that have a value and are not superseded; `None` if all are.
    events: Option<BooleanBuffer>,
    /// No row starts before the one before it ends, so at most one is active at an instant.
    disjoint: bool,
    /// Starts never decrease.
    ordered: bool,
}

impl<'a> Source<'a> {
    /// A source with a value where `present` is set, everywhere if there is none. Looks at every row once.
    ///
    /// # Panics
    /// When there are 2³²-1 rows or more, or `present` is not one bit a row.
    pub(crate) fn new(timeline: &'a Timeline, present: Option<&BooleanBuffer>) -> Self {
        let len = timeline.len();
        assert!(len < NONE as usize, "{len} rows are too many for a source");
        assert!(
            present.is_none_or(|bits| bits.len() == len),
            "one bit a row"
        );
        let present = present.filter(|bits| bits.count_set_bits() < len);
        let has_value = |i| present.is_none_or(|bits: &BooleanBuffer| bits.value(i));
        let events = if has_superseded(timeline) {
            let is_event = |i| has_value(i) && !timeline.is_superseded(i);
            Some(BooleanBuffer::collect_bool(len, is_event))
        } else {
            present.cloned()
        };
        Self {
            timeline,
            events,
            disjoint: is_disjoint(timeline),
            ordered: is_ordered(timeline),
        }
    }

    /// As [`Source::new`] of a timeline that keeps what is known of it, without looking at its rows: no row is
    /// superseded, except that rows which end where the last does may be.
    ///
    /// # Panics
    /// As [`Source::new`] does.
    pub(crate) fn known(
        timeline: &'a Timeline,
        present: Option<&BooleanBuffer>,
        shape: Shape,
    ) -> Self {
        let len = timeline.len();
        assert!(len < NONE as usize, "{len} rows are too many for a source");
        assert!(
            present.is_none_or(|bits| bits.len() == len),
            "one bit a row"
        );
        // Open events are closed where the run ends and may begin later than that.
        let last = len.checked_sub(1).map(|last| timeline.end(last));
        let mut late = (0..len)
            .rev()
            .take_while(|i| Some(timeline.end(*i)) == last);
        if late.any(|i| timeline.is_superseded(i)) {
            return Self::new(timeline, present);
        }
        let source = Self {
            timeline,
            events: present.filter(|bits| bits.count_set_bits() < len).cloned(),
            disjoint: shape.disjoint,
            ordered: shape.ordered,
        };
        debug_assert!(!has_superseded(timeline), "no row is superseded");
        debug_assert!(
            !shape.disjoint || is_disjoint(timeline),
            "rows are disjoint"
        );
        debug_assert!(!shape.ordered || is_ordered(timeline), "starts are ordered");
        source
    }

    /// The intervals.
    pub(crate) fn timeline(&self) -> &'a Timeline {
        self.timeline
    }

    /// Whether every position is an event.
    pub(crate) fn is_dense(&self) -> bool {
        self.events.is_none()
    }

    /// Whether no two rows overlap. Where only rows without a value do, this is still false.
    pub(crate) fn is_disjoint(&self) -> bool {
        self.disjoint
    }

    /// Whether the starts never decrease, so that the events of a window are a range of positions.
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Whether all rows are a tick long.
    pub(crate) fn is_points(&self) -> bool {
        matches!(self.timeline.spans(), Spans::Fixed(1))
    }

    /// Whether position `i` has a value and is not superseded.
    #[inline]
    pub(crate) fn is_event(&self, i: usize) -> bool {
        self.events.as_ref().is_none_or(|events| events.value(i))
    }

    /// The positions that are events; `None` if all are.
    pub(super) fn events(&self) -> Option<&BooleanBuffer> {
        self.events.as_ref()
    }

    /// How many positions there are.
    pub(super) fn len(&self) -> usize {
        self.timeline.len()
    }

    /// Its stamps as they are stored.
    pub(super) fn ticks(&self) -> Ticks<'a> {
        match self.timeline.stamps() {
            Stamps::Regular { t0, period, len } => Ticks::Regular {
                t0: *t0,
                period: *period,
                len: *len,
            },
            Stamps::Explicit(stamps) => Ticks::Explicit(stamps),
        }
    }
}

/// Whether some row has an empty interval.
fn has_superseded(timeline: &Timeline) -> bool {
    let Some(last) = timeline.len().checked_sub(1) else {
        return false;
    };
    let at_an_edge = || timeline.is_superseded(0) || timeline.is_superseded(last);
    match (timeline.stamps(), timeline.spans()) {
        (_, Spans::Fixed(_)) => false,
        (Stamps::Explicit(ends), Spans::Starts { starts, .. }) => {
            !all_pairs(starts, ends, |start, end| start < end)
        }
        (Stamps::Regular { .. }, Spans::Starts { .. }) => {
            (0..=last).any(|i| timeline.is_superseded(i))
        }
        (Stamps::Explicit(stamps), _) => {
            at_an_edge() || !all_pairs(stamps, &stamps[1..], |a, b| a < b)
        }
        (Stamps::Regular { .. }, _) => at_an_edge(),
    }
}

/// Whether no row starts before the one before it ends.
fn is_disjoint(timeline: &Timeline) -> bool {
    match (timeline.stamps(), timeline.spans()) {
        (_, Spans::UntilNext { .. } | Spans::Contiguous { .. }) => true,
        (Stamps::Regular { period, len, .. }, Spans::Fixed(d)) => d <= period || *len < 2,
        (Stamps::Explicit(stamps), Spans::Fixed(d)) => {
            let next = stamps.get(1..).unwrap_or_default();
            all_pairs(stamps, next, |a, b| b.saturating_sub(*d) >= a)
        }
        (Stamps::Explicit(ends), Spans::Starts { starts, .. }) => {
            let next = starts.get(1..).unwrap_or_default();
            all_pairs(ends, next, |end, start| start >= end)
        }
        (Stamps::Regular { .. }, Spans::Starts { .. }) => {
            (1..timeline.len()).all(|i| timeline.start(i) >= timeline.end(i - 1))
        }
    }
}

/// Whether starts never decrease. The first of contiguous rows may start late, but is superseded then.
fn is_ordered(timeline: &Timeline) -> bool {
    match timeline.spans() {
        Spans::Starts { starts, .. } => {
            let next = starts.get(1..).unwrap_or_default();
            all_pairs(starts, next, |a, b| a <= b)
        }
        _ => true,
    }
}

/// Whether all pairs pass. Counts without an early exit, at the speed of memory.
fn all_pairs(a: &[i64], b: &[i64], passes: impl Fn(i64, i64) -> bool) -> bool {
    let fails = |(a, b): &(&i64, &i64)| !passes(**a, **b);
    a.iter().zip(b).filter(fails).count() == 0
}
