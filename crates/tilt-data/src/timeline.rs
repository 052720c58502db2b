//! When the events of a stream are.

use arrow_buffer::{NullBuffer, ScalarBuffer};
use tilt_ir::{OPEN, Span};

/// One instant a row: the event's end, or under [`Spans::UntilNext`] the instant from which the row is true.
#[derive(Clone, Debug)]
pub enum Stamps {
    /// `t0 + i * period`; nothing is stored.
    Regular {
        /// The first stamp.
        t0: i64,
        /// Ticks from one to the next, positive.
        period: i64,
        /// How many.
        len: usize,
    },
    /// One by one, never decreasing. Shared with the Arrow array they came from.
    Explicit(ScalarBuffer<i64>),
}

/// The span rule: from a stamp `s` to the event `(start, end]`.
#[derive(Clone, Debug)]
pub enum Spans {
    /// `(s-d, s]` with `d > 0`: points and periodic samples.
    Fixed(i64),
    /// From the end before to `s`.
    Contiguous {
        /// Where the first event starts.
        first_start: i64,
    },
    /// `(s-1, s'-1]` where `s'` is the next stamp. A row that is replaced at its own stamp has an empty interval.
    UntilNext {
        /// The stamp after the last: [`OPEN`] if it is not known.
        next: i64,
    },
    /// From a start of its own to `s`.
    Starts {
        /// One a row, in any order.
        starts: ScalarBuffer<i64>,
        /// No event is longer; bounds the search for events that start before an instant.
        longest: i64,
    },
}

/// The intervals of a stream's events, ordered by end.
///
/// Cheap to clone and to slice. A slice has exactly the events of the whole: where an edge depends on a neighbour that
/// was cut off, the slice remembers that neighbour's stamp.
#[derive(Clone, Debug)]
pub struct Timeline {
    stamps: Stamps,
    /// Ticks added to every stored stamp and start: -1 for intervals given as `[s, e)`.
    shift: i64,
    spans: Spans,
    /// Regular stamps one by one, where they came so: they go out as the buffer that they came in.
    given: Option<ScalarBuffer<i64>>,
}

impl Timeline {
    /// Events at `t0 + i * period`.
    ///
    /// # Panics
    /// When the period is not positive, the last stamp does not fit, or explicit starts are not `len`.
    pub fn regular(t0: i64, period: i64, len: usize, spans: Spans) -> Self {
        assert!(period > 0, "a period is positive, not {period}");
        let last = i128::from(t0) + i128::from(period) * len.saturating_sub(1) as i128;
        assert!(
            i64::try_from(last).is_ok(),
            "{len} periods of {period} from {t0} leave 64 bits"
        );
        Self::new(Stamps::Regular { t0, period, len }, 0, spans)
    }

    /// Events at the given stamps, which must not decrease.
    ///
    /// # Panics
    /// When explicit starts are not as many as the stamps.
    pub fn explicit(stamps: ScalarBuffer<i64>, spans: Spans) -> Self {
        Self::new(Stamps::Explicit(stamps), 0, spans)
    }

    /// Events `(starts[i], ends[i]]`, ordered by end.
    ///
    /// # Panics
    /// When there are not as many starts as ends.
    pub fn intervals(starts: ScalarBuffer<i64>, ends: ScalarBuffer<i64>) -> Self {
        Self::shifted_intervals(starts, ends, 0)
    }

    /// As [`Timeline::intervals`] of events none of which is longer than `longest`, without looking at them.
    ///
    /// # Panics
    /// When there are not as many starts as ends.
    pub fn intervals_within(
        starts: ScalarBuffer<i64>,
        ends: ScalarBuffer<i64>,
        longest: i64,
    ) -> Self {
        Self::new(Stamps::Explicit(ends), 0, Spans::Starts { starts, longest })
    }

    /// Events `(starts[i] + shift, ends[i] + shift]`.
    pub(crate) fn shifted_intervals(
        starts: ScalarBuffer<i64>,
        ends: ScalarBuffer<i64>,
        shift: i64,
    ) -> Self {
        // A bound is enough, and that of all bits is found at the speed of memory, unless an event is empty or very long.
        let pairs = starts.iter().zip(&ends);
        let bits = pairs
            .clone()
            .fold(0, |all, (s, e)| all | e.wrapping_sub(*s));
        let longest = match bits {
            0 => 0,
            1.. => (u64::MAX >> bits.leading_zeros()) as i64,
            _ => {
                let lengths = pairs.map(|(s, e)| e.saturating_sub(*s));
                lengths.max().unwrap_or(0)
            }
        };
        Self::new(
            Stamps::Explicit(ends),
            shift,
            Spans::Starts { starts, longest },
        )
    }

    pub(crate) fn new(stamps: Stamps, shift: i64, spans: Spans) -> Self {
        let timeline = Self {
            stamps,
            shift,
            spans,
            given: None,
        };
        if let Spans::Starts { starts, .. } = &timeline.spans {
            assert_eq!(starts.len(), timeline.len(), "as many starts as ends");
        }
        debug_assert!(
            (1..timeline.len()).all(|i| timeline.stamp(i - 1) <= timeline.stamp(i)),
            "stamps are sorted"
        );
        timeline
    }

    /// Remembers regular stamps as they came.
    pub(crate) fn given_as(mut self, stamps: &ScalarBuffer<i64>) -> Self {
        debug_assert_eq!(stamps.len(), self.len());
        self.given = self.period().map(|_| stamps.clone());
        self
    }

    /// How many events, empty ones included.
    pub fn len(&self) -> usize {
        match &self.stamps {
            Stamps::Regular { len, .. } => *len,
            Stamps::Explicit(stamps) => stamps.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stored stamps. Add [`shift`](Self::shift) to get instants.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// The span rule. Add [`shift`](Self::shift) to explicit starts to get instants.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Ticks to add to stored stamps and starts: -1 for intervals given as `[s, e)`, otherwise 0.
    pub fn shift(&self) -> i64 {
        self.shift
    }

    /// Ticks between stamps, if they are regular.
    pub fn period(&self) -> Option<i64> {
        match self.stamps {
            Stamps::Regular { period, .. } => Some(period),
            Stamps::Explicit(_) => None,
        }
    }

    /// The instant of row `i`.
    #[inline]
    pub fn stamp(&self, i: usize) -> i64 {
        self.shift
            + match &self.stamps {
                // The sum fits even where the product alone does not.
                Stamps::Regular { t0, period, .. } => {
                    t0.wrapping_add((i as i64).wrapping_mul(*period))
                }
                Stamps::Explicit(stamps) => stamps[i],
            }
    }

    /// Where event `i` starts, exclusive.
    #[inline]
    pub fn start(&self, i: usize) -> i64 {
        match &self.spans {
            Spans::Fixed(d) => self.stamp(i).saturating_sub(*d),
            Spans::Contiguous { first_start } if i == 0 => *first_start,
            Spans::Contiguous { .. } => self.stamp(i - 1),
            Spans::UntilNext { .. } => self.stamp(i).saturating_sub(1),
            Spans::Starts { starts, .. } => starts[i] + self.shift,
        }
    }

    /// Where event `i` ends, inclusive. [`OPEN`] if that is not known yet.
    #[inline]
    pub fn end(&self, i: usize) -> i64 {
        match &self.spans {
            Spans::UntilNext { next } => {
                let last = i + 1 == self.len();
                let next = if last { *next } else { self.stamp(i + 1) };
                if next == OPEN { OPEN } else { next - 1 }
            }
            _ => self.stamp(i),
        }
    }

    /// The interval of event `i`.
    #[inline]
    pub fn event(&self, i: usize) -> Span {
        Span::new(self.start(i), self.end(i))
    }

    /// Whether the interval of row `i` is empty: it was replaced at its own stamp and so is never active.
    #[inline]
    pub fn is_superseded(&self, i: usize) -> bool {
        match self.spans {
            Spans::Fixed(_) => false,
            _ => self.end(i) <= self.start(i),
        }
    }

    /// How many rows were replaced at their own stamp.
    pub fn superseded(&self) -> usize {
        match &self.spans {
            Spans::Fixed(_) => 0,
            Spans::UntilNext { .. } => {
                let inner = match &self.stamps {
                    Stamps::Regular { .. } => 0,
                    Stamps::Explicit(stamps) => stamps.windows(2).filter(|w| w[0] == w[1]).count(),
                };
                inner + usize::from(!self.is_empty() && self.is_superseded(self.len() - 1))
            }
            Spans::Starts { starts, .. } => match &self.stamps {
                // At the speed of memory.
                Stamps::Explicit(ends) => {
                    let pairs = starts.iter().zip(ends);
                    pairs.filter(|(start, end)| end <= start).count()
                }
                Stamps::Regular { .. } => {
                    (0..self.len()).filter(|i| self.is_superseded(*i)).count()
                }
            },
            Spans::Contiguous { .. } => (0..self.len()).filter(|i| self.is_superseded(*i)).count(),
        }
    }

    /// The ends as a buffer; the stored one where it holds them.
    pub fn ends(&self) -> ScalarBuffer<i64> {
        match (&self.stamps, &self.spans) {
            (Stamps::Explicit(stamps), Spans::UntilNext { .. }) => {
                // Next stamps are instants; only the last can be open.
                let next = stamps.get(1..).unwrap_or_default();
                let inner = next.iter().map(|s| s + (self.shift - 1));
                let last = self.len().checked_sub(1).map(|last| self.end(last));
                inner.chain(last).collect::<Vec<_>>().into()
            }
            (_, Spans::UntilNext { .. }) => (0..self.len()).map(|i| self.end(i)).collect(),
            _ if self.shift == 0 => self.stored_stamps(),
            _ => (0..self.len()).map(|i| self.stamp(i)).collect(),
        }
    }

    /// The starts as a buffer; the stored one where there is one.
    pub fn starts(&self) -> ScalarBuffer<i64> {
        match (&self.stamps, &self.spans) {
            (_, Spans::Starts { starts, .. }) if self.shift == 0 => starts.clone(),
            (Stamps::Explicit(stamps), Spans::UntilNext { .. }) => {
                stamps.iter().map(|s| s + (self.shift - 1)).collect()
            }
            // Rows by the million: without a look at what they are for each.
            (Stamps::Explicit(stamps), Spans::Fixed(d)) => {
                let start = |s: &i64| (s + self.shift).saturating_sub(*d);
                stamps.iter().map(start).collect()
            }
            (Stamps::Regular { t0, period, len }, Spans::Fixed(d)) => {
                let start = |s: i64| (s + self.shift).saturating_sub(*d);
                regular(*t0, *period, *len).map(start).collect()
            }
            _ => (0..self.len()).map(|i| self.start(i)).collect(),
        }
    }

    /// The stamps as they are stored, without the shift.
    pub(crate) fn stored_stamps(&self) -> ScalarBuffer<i64> {
        match (&self.stamps, &self.given) {
            (Stamps::Explicit(stamps), _) | (_, Some(stamps)) => stamps.clone(),
            (Stamps::Regular { t0, period, len }, None) => regular(*t0, *period, *len).collect(),
        }
    }

    /// The starts as they are stored, without the shift.
    pub(crate) fn stored_starts(&self) -> ScalarBuffer<i64> {
        match &self.spans {
            Spans::Starts { starts, .. } => starts.clone(),
            _ => (0..self.len())
                .map(|i| self.start(i) - self.shift)
                .collect(),
        }
    }

    /// The same events in memory of their own: what a slice shares is not kept for it.
    #[must_use]
    pub fn detached(&self) -> Self {
        let copied = |instants: &ScalarBuffer<i64>| ScalarBuffer::from(instants.to_vec());
        Self {
            stamps: match &self.stamps {
                Stamps::Explicit(stamps) => Stamps::Explicit(copied(stamps)),
                regular @ Stamps::Regular { .. } => regular.clone(),
            },
            shift: self.shift,
            spans: match &self.spans {
                Spans::Starts { starts, longest } => Spans::Starts {
                    starts: copied(starts),
                    longest: *longest,
                },
                spans => spans.clone(),
            },
            given: None,
        }
    }

    /// From the earliest start to the latest end; `None` without events. An open event counts with its first instant.
    pub fn hull(&self) -> Option<Span> {
        if let (Spans::Fixed(_), Some(last)) = (&self.spans, self.len().checked_sub(1)) {
            return Some(Span::new(self.start(0), self.end(last)));
        }
        self.hull_of(0..self.len())
    }

    /// The hull of some rows, those that are superseded aside.
    pub(crate) fn hull_of(&self, rows: impl Iterator<Item = usize>) -> Option<Span> {
        let events = rows
            .filter(|i| !self.is_superseded(*i))
            .map(|i| self.event(i));
        let known = events.map(|event| match event.end {
            OPEN => Span::new(event.start, event.start.saturating_add(1)),
            _ => event,
        });
        known.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
    }

    /// The rows `offset .. offset + len`, which share the stored stamps.
    ///
    /// # Panics
    /// When there are not so many rows.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        assert!(
            offset + len <= self.len(),
            "rows {offset}..{} of {}",
            offset + len,
            self.len()
        );
        let stamps = match &self.stamps {
            Stamps::Regular { t0, period, .. } => Stamps::Regular {
                t0: if len == 0 {
                    *t0
                } else {
                    t0.wrapping_add((offset as i64).wrapping_mul(*period))
                },
                period: *period,
                len,
            },
            Stamps::Explicit(stamps) => Stamps::Explicit(stamps.slice(offset, len)),
        };
        let spans = match &self.spans {
            Spans::Fixed(d) => Spans::Fixed(*d),
            Spans::Contiguous { first_start } => Spans::Contiguous {
                first_start: match offset {
                    0 => *first_start,
                    _ => self.stamp(offset - 1),
                },
            },
            Spans::UntilNext { next } => Spans::UntilNext {
                next: if offset + len < self.len() {
                    self.stamp(offset + len)
                } else {
                    *next
                },
            },
            Spans::Starts { starts, longest } => Spans::Starts {
                starts: starts.slice(offset, len),
                longest: *longest,
            },
        };
        let given = self.given.as_ref();
        Self {
            stamps,
            shift: self.shift,
            spans,
            given: given.map(|given| given.slice(offset, len)),
        }
    }

    /// The events of the given rows, with the intervals they have here. The rows must keep the order by end.
    #[must_use]
    pub(crate) fn gather(&self, rows: &[usize]) -> Self {
        let stored = |t: i64| t - self.shift;
        let ends = rows.iter().map(|i| stored(self.end(*i))).collect();
        if let Spans::Fixed(d) = self.spans {
            return Self::new(Stamps::Explicit(ends), self.shift, Spans::Fixed(d));
        }
        let starts = rows.iter().map(|i| stored(self.start(*i))).collect();
        Self::shifted_intervals(starts, ends, self.shift)
    }

    /// The same events with the open ones ended at `end`, but not before the latest known end. An event that would end
    /// before it starts becomes empty.
    #[must_use]
    pub fn close(&self, end: i64) -> Self {
        let Some(last) = self.len().checked_sub(1) else {
            return self.clone();
        };
        if self.end(last) != OPEN {
            return self.clone();
        }
        if let Spans::UntilNext { .. } = self.spans {
            let mut closed = self.clone();
            closed.spans = Spans::UntilNext {
                next: end.saturating_add(1).max(self.stamp(last)),
            };
            return closed;
        }
        let known = self.ends_until(OPEN - 1);
        let end = known.checked_sub(1).map_or(end, |i| end.max(self.end(i)));
        let ends = (0..self.len()).map(|i| if i < known { self.end(i) } else { end });
        Self::intervals(self.starts(), ends.collect())
    }

    /// How many events end at or before `t`; they are the first ones.
    pub fn ends_until(&self, t: i64) -> usize {
        let len = self.len();
        // Ends of periodic events are a period apart, unless the last one is open: then what is found here is not the answer.
        if let Stamps::Regular { period, .. } = &self.stamps
            && len > 0
            && let Some(since) = t.checked_sub(self.end(0))
        {
            let n = since
                .div_euclid(*period)
                .saturating_add(1)
                .clamp(0, len as i64) as usize;
            if (n == 0 || self.end(n - 1) <= t) && (n == len || self.end(n) > t) {
                return n;
            }
        }
        partition_point(len, |i| self.end(i) <= t)
    }

    /// The least `n` such that no event from row `n` on starts before `t`.
    pub fn starts_before(&self, t: i64) -> usize {
        let Spans::Starts { longest, .. } = &self.spans else {
            return partition_point(self.len(), |i| self.start(i) < t);
        };
        let mut n = partition_point(self.len(), |i| self.end(i).saturating_sub(*longest) < t);
        while n > 0 && self.start(n - 1) >= t {
            n -= 1;
        }
        n
    }

    /// The first pair of neighbouring rows, among those that are active events, that overlap. As rows are ordered by
    /// end, there is such a pair if any two events overlap.
    pub(crate) fn first_overlap(&self, valid: Option<&NullBuffer>) -> Option<(usize, usize)> {
        match (&self.stamps, &self.spans) {
            (_, Spans::UntilNext { .. } | Spans::Contiguous { .. }) => return None,
            (Stamps::Regular { period, .. }, Spans::Fixed(d)) if period >= d => return None,
            // The usual case at the speed of memory: rows do not overlap, whatever they hold.
            (Stamps::Explicit(ends), Spans::Fixed(d))
                if ends
                    .windows(2)
                    .fold(true, |all, w| all & (w[1].wrapping_sub(w[0]) >= *d)) =>
            {
                return None;
            }
            (Stamps::Explicit(ends), Spans::Starts { starts, .. })
                if starts.iter().skip(1).zip(ends).all(|(s, e)| s >= e) =>
            {
                return None;
            }
            _ => {}
        }
        let is_valid = |i| valid.is_none_or(|valid| valid.is_valid(i));
        let mut previous: Option<usize> = None;
        for i in 0..self.len() {
            if !is_valid(i) || self.is_superseded(i) {
                continue;
            }
            if let Some(p) = previous
                && self.start(i) < self.end(p)
            {
                return Some((p, i));
            }
            previous = Some(i);
        }
        None
    }
}

/// Regular stamps one by one. Each fits even where the product alone does not.
fn regular(t0: i64, period: i64, len: usize) -> impl Iterator<Item = i64> {
    (0..len as i64).map(move |i| t0.wrapping_add(i.wrapping_mul(period)))
}

/// The first of `0..len` for which `holds` is false; it must hold for a prefix.
fn partition_point(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
