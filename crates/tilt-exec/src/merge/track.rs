//! What a group of sources chooses, and when.

use std::{borrow::Cow, ops::Range};

use tilt_data::{Spans, Stamps};
use tilt_ir::{OPEN, Span};

use super::Group;
use crate::cursor::{NONE, Source, saturate};

/// The choices of a group, ordered by end, none of them empty.
///
/// Those that matter within a part: all that are available at some instant of it; the last that ends before, where a gap
/// may begin; and all that start where the part ends, where a gap may end.
#[derive(Debug)]
pub(super) struct Track<'a> {
    pub(super) starts: Cow<'a, [i64]>,
    pub(super) ends: Cow<'a, [i64]>,
    pub(super) positions: Positions,
    /// No two choices overlap.
    pub(super) disjoint: bool,
}

#[derive(Debug)]
pub(super) enum Positions {
    /// Choice `i` has position `i` plus this.
    From(u32),
    /// One by one.
    List(Vec<u32>),
}

impl Positions {
    #[inline]
    pub(super) fn get(&self, i: usize) -> u32 {
        match self {
            Self::From(base) => base + i as u32,
            Self::List(positions) => positions[i],
        }
    }
}

impl Group<'_> {
    /// Its choices, those that matter within a part.
    pub(super) fn track(&self, part: Span) -> Track<'_> {
        match *self {
            Self::Value { source, offset } => value_track(source, offset, part),
            Self::Hold {
                source,
                offset,
                max_age,
                run_end,
            } => {
                let hold = Hold {
                    source,
                    offset,
                    max_age,
                    run_end,
                };
                hold.track(part)
            }
            Self::Window { source, lo, hi } => window_track(source, lo, hi, part),
        }
    }
}

/// Choices that are made one by one.
#[derive(Default)]
struct Choices {
    starts: Vec<i64>,
    ends: Vec<i64>,
    positions: Vec<u32>,
}

impl Choices {
    fn push(&mut self, start: i64, end: i64, position: usize) {
        if start < end {
            self.starts.push(start);
            self.ends.push(end);
            self.positions.push(position as u32);
        }
    }

    fn into_track(self, disjoint: bool) -> Track<'static> {
        let neighbours = || self.starts.iter().skip(1).zip(&self.ends);
        Track {
            disjoint: disjoint || neighbours().all(|(start, end)| start >= end),
            starts: Cow::Owned(self.starts),
            ends: Cow::Owned(self.ends),
            positions: Positions::List(self.positions),
        }
    }
}

/// The choices of a plain read: events as they are, `offset` ticks earlier.
fn value_track<'a>(source: &'a Source, offset: i64, part: Span) -> Track<'a> {
    let timeline = source.timeline();
    let start = |i| timeline.start(i).saturating_sub(offset);
    let end = |i| timeline.end(i).saturating_sub(offset);
    let first = first_row(
        source,
        timeline.len(),
        |i| end(i) <= part.start,
        |i| start(i) < end(i),
    );
    let stop = rows_starting_until(source, part.end, offset).max(first);
    if source.is_dense() && source.is_disjoint() {
        // Edges are in order, so that the outermost say whether any is saturated.
        let saturates = |t: i64| t.checked_sub(offset).is_none();
        if first < stop && !saturates(timeline.start(first)) && !saturates(timeline.end(stop - 1)) {
            return Track {
                starts: starts(source, first..stop, offset),
                ends: ends(source, first..stop, offset),
                positions: Positions::From(first as u32),
                disjoint: true,
            };
        }
    }
    let mut choices = Choices::default();
    for i in (first..stop).filter(|i| source.is_event(*i)) {
        choices.push(start(i), end(i), i);
    }
    choices.into_track(source.is_disjoint())
}

/// The ends of rows, less an offset that saturates none; borrowed where they are stored.
fn ends<'a>(source: &Source<'a>, rows: Range<usize>, offset: i64) -> Cow<'a, [i64]> {
    let timeline = source.timeline();
    let by = timeline.shift().wrapping_sub(offset);
    match (timeline.stamps(), timeline.spans()) {
        (_, Spans::UntilNext { .. }) | (Stamps::Regular { .. }, _) => {
            rows.map(|i| timeline.end(i) - offset).collect()
        }
        (Stamps::Explicit(ends), _) => shifted(&ends[rows], by),
    }
}

/// The starts of rows, less an offset that saturates none; borrowed where they are stored.
fn starts<'a>(source: &Source<'a>, rows: Range<usize>, offset: i64) -> Cow<'a, [i64]> {
    let timeline = source.timeline();
    match (timeline.stamps(), timeline.spans()) {
        (_, Spans::Starts { starts, .. }) => {
            shifted(&starts[rows], timeline.shift().wrapping_sub(offset))
        }
        (Stamps::Explicit(stamps), Spans::Contiguous { .. }) if rows.start > 0 => {
            let before = rows.start - 1..rows.end - 1;
            shifted(&stamps[before], timeline.shift().wrapping_sub(offset))
        }
        (Stamps::Explicit(stamps), Spans::UntilNext { .. }) => shifted(
            &stamps[rows],
            timeline.shift().wrapping_sub(offset).wrapping_sub(1),
        ),
        _ => rows.map(|i| timeline.start(i) - offset).collect(),
    }
}

fn shifted(instants: &[i64], by: i64) -> Cow<'_, [i64]> {
    match by {
        0 => Cow::Borrowed(instants),
        _ => instants.iter().map(|t| t.wrapping_add(by)).collect(),
    }
}

/// The last event before the part that is a choice, or the first row that is not before the part. Looks at the first
/// `len` rows.
fn first_row(
    source: &Source,
    len: usize,
    is_before: impl Fn(usize) -> bool,
    is_choice: impl Fn(usize) -> bool,
) -> usize {
    let rows = partition_point(len, is_before);
    let mut before = (0..rows).rev();
    let last = before.find(|i| source.is_event(*i) && is_choice(*i));
    last.unwrap_or(rows)
}

/// A bound such that no row from there on starts, less `offset`, at or before `t`.
fn rows_starting_until(source: &Source, t: i64, offset: i64) -> usize {
    let timeline = source.timeline();
    if t == i64::MAX {
        return timeline.len();
    }
    let earliest = |i| match timeline.spans() {
        Spans::Starts { longest, .. } if !source.is_ordered() => {
            timeline.end(i).saturating_sub(*longest)
        }
        _ => timeline.start(i),
    };
    partition_point(timeline.len(), |i| earliest(i).saturating_sub(offset) <= t)
}

/// A `hold` source.
struct Hold<'a> {
    source: &'a Source<'a>,
    offset: i64,
    max_age: Option<i64>,
    run_end: i64,
}

impl Hold<'_> {
    /// Each event is held from its end until the next one's, at most to the run's end and for `max_age`.
    fn track(&self, part: Span) -> Track<'static> {
        let (timeline, offset) = (self.source.timeline(), self.offset);
        let from = |i| timeline.end(i).saturating_sub(1);
        let is_choice = |i| self.start(i) < self.end(from(i), OPEN);
        let closed = timeline.ends_until(OPEN - 1);
        // What is held when the part begins is the last event that ended until then, and its hold may be over.
        let first = first_row(
            self.source,
            closed,
            |i| self.start(i) <= part.start,
            is_choice,
        );
        let started = |i| from(i).saturating_sub(offset) <= part.end;
        let stop = partition_point(closed, started).max(first);
        let mut choices = Choices::default();
        let mut held: Option<usize> = None;
        for i in (first..stop).filter(|i| self.source.is_event(*i)) {
            if let Some(held) = held {
                choices.push(self.start(held), self.end(from(held), from(i)), held);
            }
            held = Some(i);
        }
        if let Some(held) = held {
            choices.push(self.start(held), self.end(from(held), OPEN), held);
        }
        choices.into_track(true)
    }

    /// Where the hold of event `i` starts in the clock's time.
    fn start(&self, i: usize) -> i64 {
        let end = self.source.timeline().end(i);
        end.saturating_sub(1).saturating_sub(self.offset)
    }

    /// Where a hold that starts at `from` and is replaced at `to` ends in the clock's time.
    fn end(&self, from: i64, to: i64) -> i64 {
        let expired = self.max_age.map_or(OPEN, |age| from.saturating_add(age));
        to.min(expired)
            .min(self.run_end)
            .saturating_sub(self.offset)
    }
}

/// The maximal intervals on which the set of events in a window is constant and not empty.
fn window_track(source: &Source, lo: i64, hi: i64, part: Span) -> Track<'static> {
    let mut choices = Choices::default();
    if lo >= hi {
        return choices.into_track(true);
    }
    // An event (s, e] is in (t+lo, t+hi] while s < t+hi and e > t+lo, that is on (s-hi, e-lo-1].
    let timeline = source.timeline();
    let enters = |i| timeline.start(i).saturating_sub(hi);
    let leaves = |i| saturate(i128::from(timeline.end(i)) - i128::from(lo) - 1);
    let is_inside = |i: usize| enters(i) < leaves(i);
    let first = first_row(
        source,
        timeline.len(),
        |i| leaves(i) <= part.start,
        is_inside,
    );
    let stop = rows_starting_until(source, part.end, hi).max(first);
    let rows = || (first..stop).filter(|i| source.is_event(*i) && is_inside(*i));
    let mut entries: Vec<i64> = rows().map(enters).collect();
    if !source.is_ordered() {
        entries.sort_unstable();
    }
    let exits: Vec<i64> = rows().map(leaves).collect();
    let (mut entered, mut left, mut from) = (0, 0, i64::MIN);
    // Nobody leaves before entering, so the entries are through first.
    while left < exits.len() {
        let to = exits[left].min(entries.get(entered).copied().unwrap_or(i64::MAX));
        if entered > left {
            choices.push(from, to, choices.ends.len());
        }
        while entries.get(entered).is_some_and(|t| *t <= to) {
            entered += 1;
        }
        while exits.get(left).is_some_and(|t| *t <= to) {
            left += 1;
        }
        from = to;
    }
    let states = choices.ends.len();
    assert!(states < NONE as usize, "{states} states are too many");
    choices.into_track(true)
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
