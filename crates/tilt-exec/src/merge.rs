//! The events of an `on` clock: every combination of what its groups of sources choose.
//!
//! Each group becomes a [`Track`], a list of choices with the intervals on which they are available. Where the choices
//! of no track overlap, one sweep over the points of change gives the events in order. Otherwise events are the
//! intersections of one choice or gap from each track, sorted afterwards.

use std::sync::Arc;

use tilt_data::Timeline;
use tilt_ir::Span;

use self::{
    sweep::{sweep, sweep_two},
    track::Track,
};
use crate::{
    control::Control,
    cursor::{NONE, Source},
    memory::{INSTANTS, POSITIONS},
    series::Axis,
};

mod meet;
mod sweep;
mod track;

#[cfg(test)]
mod tests;

/// After so many steps a merge asks whether it was cancelled.
const BETWEEN_CHECKS: usize = 1 << 14;

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
    /// No events, in memory that an earlier merge has left.
    pub(crate) fn spare(groups: usize) -> Self {
        Self {
            starts: INSTANTS.take(),
            ends: INSTANTS.take(),
            choices: (0..groups).map(|_| POSITIONS.take()).collect(),
        }
    }

    /// Adds events that end later.
    pub(crate) fn append(&mut self, later: &Self) {
        self.starts.extend(&later.starts);
        self.ends.extend(&later.ends);
        for (all, choices) in self.choices.iter_mut().zip(&later.choices) {
            all.extend(choices);
        }
    }

    /// The events as rows.
    pub(crate) fn into_axis(self) -> Arc<Axis> {
        let starts = INSTANTS.lend(self.starts);
        let timeline = Timeline::intervals(starts, INSTANTS.lend(self.ends));
        Arc::new(Axis::new(timeline, self.choices))
    }

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

/// The events of a clock that have a choice of every group that is `required`; given `within`, only those that end in it, at a cost that does not depend on the
/// others; some of them if the run is cancelled meanwhile. They go into what was merged before: memory that is there already costs less than the events do.
///
/// # Panics
/// When a window has 2³²-1 states or more. A [`Source`] has fewer rows than that.
pub(crate) fn merge_into(
    groups: &[Group],
    required: &[bool],
    within: Option<Span>,
    control: &Control,
    merged: &mut Merged,
) {
    let part = within.unwrap_or(Span::new(i64::MIN, i64::MAX));
    let tracks: Vec<Track> = groups.iter().map(|group| group.track(part)).collect();
    merged.reset(groups.len());
    if !tracks.iter().all(|track| track.disjoint) {
        *merged = intersect(&tracks, required, part, control);
        return;
    }
    match &tracks[..] {
        [a, b] => sweep_two(a, b, required, part, control, merged),
        tracks => sweep(tracks, required, part, control, merged),
    }
}

/// Whether a combination is an event that is wanted.
fn is_wanted(mut choices: impl Iterator<Item = u32> + Clone, required: &[bool]) -> bool {
    choices.clone().any(|choice| choice != NONE)
        && required
            .iter()
            .all(|required| choices.next() != Some(NONE) || !required)
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
fn intersect(tracks: &[Track], required: &[bool], part: Span, control: &Control) -> Merged {
    let mut items: Vec<Item> = Vec::new();
    for (track, choices) in tracks.iter().enumerate() {
        push_items(track, choices, &mut items);
    }
    items.sort_unstable_by_key(|item| item.span.start);
    let mut active: Vec<Vec<Item>> = vec![Vec::new(); tracks.len()];
    let mut merged = Merged::default();
    merged.reset(tracks.len());
    let mut chosen = Vec::with_capacity(tracks.len());
    for (number, item) in items.into_iter().enumerate() {
        if number % BETWEEN_CHECKS == 0 && control.is_cancelled() {
            break;
        }
        for others in &mut active {
            others.retain(|other| other.span.end > item.span.start);
        }
        let there = std::mem::replace(&mut active[item.track], vec![item]);
        product(&active, required, &mut chosen, item.span, part, &mut merged);
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
    required: &[bool],
    chosen: &mut Vec<u32>,
    span: Span,
    part: Span,
    merged: &mut Merged,
) {
    if span.end <= part.start {
        return;
    }
    let Some(items) = active.get(chosen.len()) else {
        if span.end <= part.end && is_wanted(chosen.iter().copied(), required) {
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
        product(active, required, chosen, both, part, merged);
        chosen.pop();
    }
}
