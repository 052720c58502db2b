//! The combinations of tracks that do not overlap, from change to change.

use std::hint::select_unpredictable;

use tilt_ir::Span;

use super::{
    BETWEEN_CHECKS, Merged, is_wanted,
    meet::meet,
    track::{Positions, Track},
};
use crate::{control::Control, cursor::NONE};

/// Walks over the choices of a disjoint track.
pub(super) struct Walk<'a> {
    track: &'a Track<'a>,
    /// The first choice that does not end at or before the instant last reached.
    pub(super) i: usize,
    /// Its edges; the last instant of all, which no choice starts at, where there is none left.
    start: i64,
    end: i64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(track: &'a Track<'a>, i: usize) -> Self {
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
pub(super) fn sweep(
    tracks: &[Track],
    required: &[bool],
    part: Span,
    control: &Control,
    merged: &mut Merged,
) {
    let mut walks: Vec<Walk> = tracks.iter().map(|track| Walk::new(track, 0)).collect();
    finish(&mut walks, required, i64::MIN, part, control, merged);
}

/// Sweeps on from an instant that was reached, up to the last change in the part, and returns that.
pub(super) fn finish(
    walks: &mut [Walk],
    required: &[bool],
    mut from: i64,
    part: Span,
    control: &Control,
    merged: &mut Merged,
) -> i64 {
    let mut steps = 0;
    while from < part.end {
        steps += 1;
        if steps % BETWEEN_CHECKS == 0 && control.is_cancelled() {
            break;
        }
        let changes = walks.iter().map(|walk| walk.next_change(from));
        let to = changes.min().unwrap_or(i64::MAX);
        if to > part.end {
            break;
        }
        let choices = walks.iter().map(|walk| walk.choice(from));
        if to > part.start && is_wanted(choices, required) {
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
    from
}

/// As [`sweep`] for two tracks.
pub(super) fn sweep_two(
    a: &Track,
    b: &Track,
    required: &[bool],
    part: Span,
    control: &Control,
    merged: &mut Merged,
) {
    let (i, j, from) = match (&a.positions, &b.positions) {
        (Positions::From(p), Positions::From(q)) if required == [true, true] => {
            return meet((a, *p), (b, *q), part, control, merged);
        }
        (Positions::From(p), Positions::From(q)) => {
            let (p, q) = (|i| p + i as u32, |j| q + j as u32);
            sweep_inner((a, p), (b, q), required, part, control, merged)
        }
        (p, q) => {
            let (p, q) = (|i| p.get(i), |j| q.get(j));
            sweep_inner((a, p), (b, q), required, part, control, merged)
        }
    };
    let walks = &mut [Walk::new(a, i), Walk::new(b, j)];
    finish(walks, required, from, part, control, merged);
}

/// Sweeps over two tracks up to the last choice of one of them and returns where it stopped: the choices and the instant.
///
/// The loop has no branch that depends on the data in a way that is hard to predict: it writes an event at every step,
/// over the one before if that was none, and loads the next choice of both tracks whether it is needed or not.
fn sweep_inner(
    (a, position_a): (&Track, impl Fn(usize) -> u32),
    (b, position_b): (&Track, impl Fn(usize) -> u32),
    required: &[bool],
    part: Span,
    control: &Control,
    merged: &mut Merged,
) -> (usize, usize, i64) {
    let (mut x, mut y, mut from) = (Lane::new(a), Lane::new(b), i64::MIN);
    let (need_a, need_b) = (required[0], required[1]);
    let [choices_a, choices_b] = &mut merged.choices[..] else {
        unreachable!("two tracks")
    };
    // As many events as there are without gaps.
    let likely = a.ends.len() + b.ends.len();
    let mut len = 0;
    let mut done = false;
    while !done {
        // No track goes further than a choice a step.
        let steps = x.left().min(y.left()).min(BETWEEN_CHECKS);
        if steps == 0 || control.is_cancelled() {
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
            #[expect(clippy::needless_bitwise_bool, reason = "no branch on data")]
            let wanted = (in_a | in_b) & (in_a | !need_a) & (in_b | !need_b);
            k += usize::from(wanted & in_part);
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
pub(super) fn spare<T>(all: &mut Vec<T>, room: usize) -> *mut T {
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
