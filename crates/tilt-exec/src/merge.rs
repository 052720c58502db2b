//! The events of an `on` clock: every combination of what its groups of sources choose.
//!
//! Each group becomes a [`Track`], a list of choices with the intervals on which they are available. Where the choices
//! of no track overlap, one sweep over the points of change gives the events in order. Otherwise events are the
//! intersections of one choice or gap from each track, sorted afterwards.

use std::{borrow::Cow, hint::select_unpredictable, ops::Range};

use tilt_data::{Spans, Stamps};
use tilt_ir::{OPEN, Span};

use crate::cursor::{NONE, Source, saturate};

#[cfg(test)]
mod tests;

/// Sources that are chosen together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Group<'a> {
    /// Plain reads: the choices are the active events.
    Value {
        /// Has an event where at least one of the streams read has a value.
        source: &'a Source<'a>,
        /// Where reads are, relative to the clock's time.
        offset: i64,
    },
    /// A `hold`: the choice is the held event.
    Hold {
        /// What is held.
        source: &'a Source<'a>,
        /// Where the read is, relative to the clock's time.
        offset: i64,
        /// Events of this age are held no longer.
        max_age: Option<i64>,
        /// Where every hold ends.
        run_end: i64,
    },
    /// A window: the choices are the states in which it holds the same events.
    Window {
        /// What the window holds.
        source: &'a Source<'a>,
        /// Where the window begins, relative to the clock's time.
        lo: i64,
        /// Where it ends.
        hi: i64,
    },
}

/// The events of a clock, ordered by end, then by choices with φ last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Merged {
    /// Where events start, exclusive.
    pub(crate) starts: Vec<i64>,
    /// Where they end, inclusive.
    pub(crate) ends: Vec<i64>,
    /// For each group the position chosen by each event, [`NONE`] for φ. Windows number their states from anywhere, in
    /// order.
    pub(crate) choices: Vec<Vec<u32>>,
}

impl Merged {
    /// Forgets all events but not their memory.
    fn reset(&mut self, groups: usize) {
        self.starts.clear();
        self.ends.clear();
        self.choices.resize_with(groups, Vec::new);
        self.choices.iter_mut().for_each(Vec::clear);
    }

    /// Takes the events in another order.
    fn gather(&self, order: &[usize]) -> Self {
        let instants = |all: &[i64]| order.iter().map(|i| all[*i]).collect();
        let positions = |all: &Vec<u32>| order.iter().map(|i| all[*i]).collect();
        Self {
            starts: instants(&self.starts),
            ends: instants(&self.ends),
            choices: self.choices.iter().map(positions).collect(),
        }
    }
}

/// The events of a clock; given `within`, only those that end in it, at a cost that does not depend on the others.
///
/// # Panics
/// When a window has 2³²-1 states or more. A [`Source`] has fewer rows than that.
pub(crate) fn merge(groups: &[Group], within: Option<Span>) -> Merged {
    let mut merged = Merged::default();
    merge_into(groups, within, &mut merged);
    merged
}

/// As [`merge`], into what was merged before: memory that is there already costs less than the events do.
pub(crate) fn merge_into(groups: &[Group], within: Option<Span>, merged: &mut Merged) {
    let part = within.unwrap_or(Span::new(i64::MIN, i64::MAX));
    let tracks: Vec<Track> = groups.iter().map(|group| group.track(part)).collect();
    merged.reset(groups.len());
    if !tracks.iter().all(|track| track.disjoint) {
        *merged = intersect(&tracks, part);
        return;
    }
    match &tracks[..] {
        [a, b] => sweep_two(a, b, part, merged),
        tracks => sweep(tracks, part, merged),
    }
}

/// The choices of a group, ordered by end, none of them empty.
///
/// Those that matter within a part: all that are available at some instant of it; the last that ends before, where a gap
/// may begin; and all that start where the part ends, where a gap may end.
#[derive(Debug)]
struct Track<'a> {
    starts: Cow<'a, [i64]>,
    ends: Cow<'a, [i64]>,
    positions: Positions,
    /// No two choices overlap.
    disjoint: bool,
}

#[derive(Debug)]
enum Positions {
    /// Choice `i` has position `i` plus this.
    From(u32),
    /// One by one.
    List(Vec<u32>),
}

impl Positions {
    #[inline]
    fn get(&self, i: usize) -> u32 {
        match self {
            Self::From(base) => base + i as u32,
            Self::List(positions) => positions[i],
        }
    }
}

impl Group<'_> {
    fn track(&self, part: Span) -> Track<'_> {
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

/// Walks over the choices of a disjoint track.
struct Walk<'a> {
    track: &'a Track<'a>,
    /// The first choice that does not end at or before the instant last reached.
    i: usize,
    /// Its edges; the last instant of all, which no choice starts at, where there is none left.
    start: i64,
    end: i64,
}

impl<'a> Walk<'a> {
    fn new(track: &'a Track<'a>, i: usize) -> Self {
        let edge = |edges: &[i64]| edges.get(i).copied().unwrap_or(i64::MAX);
        Self {
            track,
            i,
            start: edge(&track.starts),
            end: edge(&track.ends),
        }
    }

    /// Where the choice changes, after an instant that was reached.
    fn next_change(&self, from: i64) -> i64 {
        if self.start <= from {
            self.end
        } else {
            self.start
        }
    }

    fn choice(&self, from: i64) -> u32 {
        if self.start <= from {
            self.track.positions.get(self.i)
        } else {
            NONE
        }
    }

    fn reach(&mut self, to: i64) {
        if self.end <= to {
            *self = Self::new(self.track, self.i + 1);
        }
    }
}

/// The combinations of tracks that are all disjoint: from every change to the next, what is chosen there.
fn sweep(tracks: &[Track], part: Span, merged: &mut Merged) {
    let mut walks: Vec<Walk> = tracks.iter().map(|track| Walk::new(track, 0)).collect();
    finish(&mut walks, i64::MIN, part, merged);
}

/// Sweeps on from an instant that was reached.
fn finish(walks: &mut [Walk], mut from: i64, part: Span, merged: &mut Merged) {
    while from < part.end {
        let changes = walks.iter().map(|walk| walk.next_change(from));
        let to = changes.min().unwrap_or(i64::MAX);
        if to > part.end {
            return;
        }
        if to > part.start && walks.iter().any(|walk| walk.choice(from) != NONE) {
            merged.starts.push(from);
            merged.ends.push(to);
            for (walk, choices) in walks.iter().zip(&mut merged.choices) {
                choices.push(walk.choice(from));
            }
        }
        for walk in &mut *walks {
            walk.reach(to);
        }
        from = to;
    }
}

/// As [`sweep`] for two tracks.
fn sweep_two(a: &Track, b: &Track, part: Span, merged: &mut Merged) {
    let (i, j, from) = match (&a.positions, &b.positions) {
        (Positions::From(p), Positions::From(q)) => {
            let (p, q) = (|i| p + i as u32, |j| q + j as u32);
            sweep_inner((a, p), (b, q), part, merged)
        }
        (p, q) => sweep_inner((a, |i| p.get(i)), (b, |j| q.get(j)), part, merged),
    };
    let walks = &mut [Walk::new(a, i), Walk::new(b, j)];
    finish(walks, from, part, merged);
}

/// Sweeps over two tracks up to the last choice of one of them and returns where it stopped: the choices and the instant.
///
/// The loop has no branch that depends on the data in a way that is hard to predict: it writes an event at every step,
/// over the one before if that was none, and loads the next choice of both tracks whether it is needed or not.
fn sweep_inner(
    (a, position_a): (&Track, impl Fn(usize) -> u32),
    (b, position_b): (&Track, impl Fn(usize) -> u32),
    part: Span,
    merged: &mut Merged,
) -> (usize, usize, i64) {
    let (mut x, mut y, mut from) = (Lane::new(a), Lane::new(b), i64::MIN);
    let [choices_a, choices_b] = &mut merged.choices[..] else {
        unreachable!("two tracks")
    };
    // As many events as there are without gaps.
    let likely = a.ends.len() + b.ends.len();
    let mut len = 0;
    let mut done = false;
    while !done {
        // No track goes further than a choice a step.
        let steps = x.left().min(y.left());
        if steps == 0 {
            break;
        }
        // A step that is no event writes as well.
        let room = steps.max(likely.saturating_sub(len));
        let starts = spare(&mut merged.starts, room);
        let ends = spare(&mut merged.ends, room);
        let (to_a, to_b) = (spare(choices_a, room), spare(choices_b, room));
        let mut k = 0;
        for _ in 0..steps {
            let (in_a, in_b) = (x.start <= from, y.start <= from);
            let to = x.next_change(in_a).min(y.next_change(in_b));
            if to > part.end {
                done = true;
                break;
            }
            // SAFETY: `k` is less than the number of steps, for which there is room.
            unsafe {
                starts.add(k).write(from);
                ends.add(k).write(to);
                to_a.add(k)
                    .write(select_unpredictable(in_a, position_a(x.i), NONE));
                to_b.add(k)
                    .write(select_unpredictable(in_b, position_b(y.i), NONE));
            }
            let in_part = to > part.start;
            k += usize::from((in_a | in_b) & in_part);
            // SAFETY: both have as many choices left as there are steps.
            unsafe {
                x.reach(to);
                y.reach(to);
            }
            from = to;
        }
        len += k;
        // SAFETY: the first `k` elements after the old length were written.
        unsafe {
            merged.starts.set_len(len);
            merged.ends.set_len(len);
            choices_a.set_len(len);
            choices_b.set_len(len);
        }
    }
    (x.i, y.i, from)
}

/// Makes room for `room` more elements and returns where they go.
fn spare<T>(all: &mut Vec<T>, room: usize) -> *mut T {
    all.reserve(room);
    all.spare_capacity_mut().as_mut_ptr().cast()
}

/// A [`Walk`] that does not know where its track ends.
struct Lane<'a> {
    starts: &'a [i64],
    ends: &'a [i64],
    i: usize,
    start: i64,
    end: i64,
}

impl<'a> Lane<'a> {
    fn new(track: &'a Track) -> Self {
        let (starts, ends) = (&track.starts[..], &track.ends[..]);
        Self {
            starts,
            ends: &ends[..starts.len()],
            i: 0,
            start: starts.first().copied().unwrap_or(i64::MAX),
            end: ends.first().copied().unwrap_or(i64::MAX),
        }
    }

    /// How many choices there are after the present one.
    fn left(&self) -> usize {
        (self.starts.len() - self.i).saturating_sub(1)
    }

    #[inline]
    fn next_change(&self, is_active: bool) -> i64 {
        select_unpredictable(is_active, self.end, self.start)
    }

    /// # Safety
    /// There must be a next choice.
    #[inline]
    unsafe fn reach(&mut self, to: i64) {
        let passed = self.end <= to;
        // SAFETY: the next choice is there. It is loaded before it is known to be needed, so that nobody waits for it.
        let (start, end) = unsafe {
            (
                *self.starts.get_unchecked(self.i + 1),
                *self.ends.get_unchecked(self.i + 1),
            )
        };
        self.start = select_unpredictable(passed, start, self.start);
        self.end = select_unpredictable(passed, end, self.end);
        self.i += usize::from(passed);
    }
}

/// A choice of a track or, without a position, a gap between choices.
#[derive(Clone, Copy, Debug)]
struct Item {
    span: Span,
    track: usize,
    position: u32,
}

/// The combinations of tracks that may overlap.
///
/// The availability of a choice is one interval, and those of φ are the gaps, so events are the intersections of one
/// item from each track. Each is found when the last of its items starts, in the order in which items are taken.
fn intersect(tracks: &[Track], part: Span) -> Merged {
    let mut items: Vec<Item> = Vec::new();
    for (track, choices) in tracks.iter().enumerate() {
        push_items(track, choices, &mut items);
    }
    items.sort_unstable_by_key(|item| item.span.start);
    let mut active: Vec<Vec<Item>> = vec![Vec::new(); tracks.len()];
    let mut merged = Merged::default();
    merged.reset(tracks.len());
    let mut chosen = Vec::with_capacity(tracks.len());
    for item in items {
        for others in &mut active {
            others.retain(|other| other.span.end > item.span.start);
        }
        let there = std::mem::replace(&mut active[item.track], vec![item]);
        product(&active, &mut chosen, item.span, part, &mut merged);
        active[item.track] = there;
        active[item.track].push(item);
    }
    let mut order: Vec<usize> = (0..merged.ends.len()).collect();
    order.sort_unstable_by(|i, j| {
        let by_end = merged.ends[*i].cmp(&merged.ends[*j]);
        let by_choice = merged.choices.iter().map(|c| c[*i].cmp(&c[*j]));
        by_choice.fold(by_end, std::cmp::Ordering::then)
    });
    merged.gather(&order)
}

/// Adds the choices of a track and the maximal intervals without any.
fn push_items(track: usize, choices: &Track, items: &mut Vec<Item>) {
    let mut add = |start, end, position| {
        let span = Span::new(start, end);
        items.push(Item {
            span,
            track,
            position,
        });
    };
    for (i, (start, end)) in choices.starts.iter().zip(&*choices.ends).enumerate() {
        add(*start, *end, choices.positions.get(i));
    }
    // Seen from the last choice to the first, ends only go down: what starts later covers all up to the least start.
    let mut free = i64::MAX;
    for (start, end) in choices.starts.iter().zip(&*choices.ends).rev() {
        if *end < free {
            add(*end, free, NONE);
        }
        free = free.min(*start);
    }
    if i64::MIN < free {
        add(i64::MIN, free, NONE);
    }
}

/// Adds the events that take one active item from each track. All of them hold where `span` starts.
fn product(
    active: &[Vec<Item>],
    chosen: &mut Vec<u32>,
    span: Span,
    part: Span,
    merged: &mut Merged,
) {
    if span.end <= part.start {
        return;
    }
    let Some(items) = active.get(chosen.len()) else {
        if span.end <= part.end && chosen.iter().any(|position| *position != NONE) {
            merged.starts.push(span.start);
            merged.ends.push(span.end);
            for (choices, position) in merged.choices.iter_mut().zip(chosen) {
                choices.push(*position);
            }
        }
        return;
    };
    for item in items {
        chosen.push(item.position);
        let both = Span::new(span.start, span.end.min(item.span.end));
        product(active, chosen, both, part, merged);
        chosen.pop();
    }
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
