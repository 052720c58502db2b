//! Timelines and the series of values on them.

use std::{
    cmp::Ordering,
    ops::{Index, IndexMut},
    rc::Rc,
};

use tilt_ir::{Id, Span, StreamId};

use crate::Value;

/// Which list of intervals a stream is on. Streams with equal ids share positions. The order is that of definition for
/// timelines that can be bags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimelineId {
    /// The events of an input.
    Input(StreamId),
    /// The cells of a grid; the offset lies in `0..period`.
    Grid { period: i64, offset: i64 },
    /// The events of an `on`, `calendar` or `sessions` clock, named by the first stream that has it.
    Own(StreamId),
}

impl TimelineId {
    fn order(self) -> (bool, Option<StreamId>, i64, i64) {
        match self {
            Self::Input(stream) | Self::Own(stream) => (false, Some(stream), 0, 0),
            Self::Grid { period, offset } => (true, None, period, offset),
        }
    }
}

impl Ord for TimelineId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for TimelineId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Intervals ordered by end. A position is an index into them.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) id: TimelineId,
    intervals: Vec<Span>,
    /// The least start at or after each position: searches by time stop here although starts of a bag are not sorted.
    least_start: Vec<i64>,
}

impl Timeline {
    /// A timeline of intervals that are ordered by end.
    pub(crate) fn new(id: TimelineId, intervals: Vec<Span>) -> Rc<Self> {
        debug_assert!(intervals.is_sorted_by_key(|span| span.end));
        let mut least_start: Vec<i64> = intervals.iter().map(|span| span.start).collect();
        for position in (1..least_start.len()).rev() {
            least_start[position - 1] = least_start[position - 1].min(least_start[position]);
        }
        Rc::new(Self {
            id,
            intervals,
            least_start,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.intervals.len()
    }

    pub(crate) fn is_grid(&self) -> bool {
        matches!(self.id, TimelineId::Grid { .. })
    }

    pub(crate) fn interval(&self, position: usize) -> Span {
        self.intervals[position]
    }

    /// How many positions end at or before `t`; they are the first ones.
    pub(crate) fn ended_by(&self, t: i64) -> usize {
        self.intervals.partition_point(|span| span.end <= t)
    }

    /// The positions with `end > lo` and `start < hi`, in order.
    pub(crate) fn between(&self, lo: Option<i64>, hi: i64) -> impl Iterator<Item = usize> {
        let first = lo.map_or(0, |lo| self.ended_by(lo));
        (first..self.len())
            .take_while(move |p| self.least_start[*p] < hi)
            .filter(move |p| self.intervals[*p].start < hi)
    }
}

/// The series of all streams that are evaluated, complete but for the one being computed.
#[derive(Debug)]
pub(crate) struct Streams(Vec<Option<Series>>);

impl Streams {
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![None; count])
    }

    pub(crate) fn insert(&mut self, stream: StreamId, series: Series) {
        self.0[stream.index()] = Some(series);
    }
}

impl Index<StreamId> for Streams {
    type Output = Series;
    fn index(&self, stream: StreamId) -> &Series {
        let series = self.0[stream.index()].as_ref();
        series.expect("streams are evaluated in order of definition")
    }
}

impl IndexMut<StreamId> for Streams {
    fn index_mut(&mut self, stream: StreamId) -> &mut Series {
        let series = self.0[stream.index()].as_mut();
        series.expect("streams are evaluated in order of definition")
    }
}

/// A stream: a value or φ at every position of a timeline. Positions are filled in order.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) timeline: Rc<Timeline>,
    values: Vec<Value>,
    /// The positions that have a value. An index into this list is an event's number.
    events: Vec<usize>,
}

impl Series {
    /// φ everywhere.
    pub(crate) fn new(timeline: Rc<Timeline>) -> Self {
        Self {
            values: vec![Value::Null; timeline.len()],
            events: Vec::new(),
            timeline,
        }
    }

    /// Gives a position its value. Positions come in order.
    pub(crate) fn set(&mut self, position: usize, value: Value) {
        debug_assert!(self.events.last().is_none_or(|last| *last < position));
        if !value.is_null() {
            self.events.push(position);
        }
        self.values[position] = value;
    }

    pub(crate) fn value(&self, position: usize) -> &Value {
        &self.values[position]
    }

    pub(crate) fn has_value(&self, position: usize) -> bool {
        !self.values[position].is_null()
    }

    /// The positions that have a value, in order.
    pub(crate) fn events(&self) -> &[usize] {
        &self.events
    }

    /// How many events stand before `position`.
    pub(crate) fn events_before(&self, position: usize) -> usize {
        self.events.partition_point(|event| *event < position)
    }

    /// The events at positions below `limit` with `end > lo` and `start < hi`, in order.
    pub(crate) fn between(
        &self,
        lo: Option<i64>,
        hi: i64,
        limit: usize,
    ) -> impl Iterator<Item = usize> {
        let first = lo.map_or(0, |lo| self.timeline.ended_by(lo));
        self.events[self.events_before(first)..]
            .iter()
            .copied()
            .take_while(move |p| *p < limit && self.timeline.least_start[*p] < hi)
            .filter(move |p| self.timeline.intervals[*p].start < hi)
    }

    /// The events at positions below `limit` that are active at `t`: `start < t <= end`.
    pub(crate) fn active(&self, t: i64, limit: usize) -> impl Iterator<Item = usize> {
        self.between(t.checked_sub(1), t, limit)
    }

    /// The last event in order, at a position below `limit`, with `end <= t`.
    pub(crate) fn last_ended(&self, t: i64, limit: usize) -> Option<usize> {
        let before = self.events_before(self.timeline.ended_by(t).min(limit));
        Some(self.events[before.checked_sub(1)?])
    }

    /// The last event in order, at a position below `limit`, with `start < t`.
    pub(crate) fn last_started(&self, t: i64, limit: usize) -> Option<usize> {
        let running = self.between(Some(t), t, limit).last();
        running.or_else(|| self.last_ended(t, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(intervals: &[(i64, i64)]) -> Series {
        let intervals: Vec<Span> = intervals.iter().map(|(s, e)| Span::new(*s, *e)).collect();
        let id = TimelineId::Own(StreamId::new(0));
        let mut series = Series::new(Timeline::new(id, intervals.clone()));
        for position in 0..intervals.len() {
            series.set(position, Value::Int(position as i64));
        }
        series
    }

    #[test]
    fn searches_by_time_see_every_event_of_a_bag() {
        let bag = series(&[(0, 2), (6, 7), (1, 8), (7, 8), (0, 20), (18, 21)]);
        let active = |t| bag.active(t, 6).collect::<Vec<_>>();
        assert_eq!(active(2), [0, 2, 4]);
        assert_eq!(active(7), [1, 2, 4]);
        assert_eq!(active(8), [2, 3, 4]);
        assert_eq!(active(21), [5]);
        assert_eq!(active(0), [0usize; 0]);
        assert_eq!(bag.active(7, 2).collect::<Vec<_>>(), [1]);
        assert_eq!(bag.between(Some(2), 7, 6).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(bag.last_ended(8, 6), Some(3));
        assert_eq!(bag.last_ended(1, 6), None);
        assert_eq!(bag.last_started(2, 6), Some(4));
        assert_eq!(bag.last_started(0, 6), None);
        assert_eq!(bag.last_started(i64::MAX, 6), Some(5));
    }
}
