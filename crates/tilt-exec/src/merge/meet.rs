//! What two tracks that do not overlap have in common.

use std::hint::select_unpredictable;

use tilt_ir::Span;

use super::{
    BETWEEN_CHECKS, Merged,
    sweep::{Walk, finish, spare},
    track::Track,
};
use crate::control::Control;

/// The events of two tracks that are both required, where choice `i` of a track has position `i` plus a number.
///
/// An event is what two choices have in common, so a step goes on to the next end, not to the next change: these are fewer, and which choice is next does not
/// wait for where the event begins.
pub(super) fn meet(
    (a, position_a): (&Track, u32),
    (b, position_b): (&Track, u32),
    part: Span,
    control: &Control,
    merged: &mut Merged,
) {
    let required = &[true, true];
    let walks = &mut [Walk::new(a, 0), Walk::new(b, 0)];
    // What ends before the part is no event of it.
    let before = Span::new(part.start, part.start);
    let from = finish(walks, required, i64::MIN, before, control, merged);
    let [x, y] = walks;
    let (mut i, mut j) = (x.i, y.i);
    let [choices_a, choices_b] = &mut merged.choices[..] else {
        unreachable!("two tracks")
    };
    // A track that is through has no next choice.
    let left = |track: &Track, i: usize| track.ends.len().saturating_sub(i + 1);
    let (mut len, mut reached, mut done) = (0, from, false);
    while !done {
        // No track goes further than a choice a step.
        let steps = left(a, i).min(left(b, j)).min(BETWEEN_CHECKS);
        if steps == 0 || control.is_cancelled() {
            break;
        }
        // A step that is no event writes as well. As many are likely as there are choices left.
        let room = steps.max(left(a, i) + left(b, j));
        let starts = spare(&mut merged.starts, room);
        let ends = spare(&mut merged.ends, room);
        let (to_a, to_b) = (spare(choices_a, room), spare(choices_b, room));
        let (starts_a, ends_a) = (a.starts.as_ptr(), a.ends.as_ptr());
        let (starts_b, ends_b) = (b.starts.as_ptr(), b.ends.as_ptr());
        let mut k = 0;
        let (mut end_a, mut end_b) = (a.ends[i], b.ends[j]);
        for _ in 0..steps {
            let to = end_a.min(end_b);
            if to > part.end {
                done = true;
                break;
            }
            // SAFETY: both tracks have as many choices after the present ones as there are steps, and starts as they have ends; `k` is less than the
            // number of steps, for which there is room.
            let (next_a, next_b) = unsafe {
                let from = (*starts_a.add(i)).max(*starts_b.add(j));
                starts.add(k).write(from);
                ends.add(k).write(to);
                to_a.add(k).write(position_a.wrapping_add(i as u32));
                to_b.add(k).write(position_b.wrapping_add(j as u32));
                k += usize::from(from < to);
                (*ends_a.add(i + 1), *ends_b.add(j + 1))
            };
            let (passed_a, passed_b) = (end_a <= end_b, end_b <= end_a);
            i += usize::from(passed_a);
            j += usize::from(passed_b);
            end_a = select_unpredictable(passed_a, next_a, end_a);
            end_b = select_unpredictable(passed_b, next_b, end_b);
            reached = to;
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
    let walks = &mut [Walk::new(a, i), Walk::new(b, j)];
    finish(walks, required, reached, part, control, merged);
}
