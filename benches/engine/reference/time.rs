//! Irregular stamps: windows of time, and the join of two streams.

use super::fold::{Fold, reduce};
use crate::data::{Element, Real};

multiversion! {
    /// The mean over the last `window` ticks at every event, by two cursors.
    pub(crate) fn mean<T: Real>(stamps: &[i64], x: &[T], window: i64, out: &mut [f64]) {
        let (mut total, mut begin) = (0.0, 0);
        for (i, (stamp, value)) in stamps.iter().zip(x).enumerate() {
            total += (*value).into();
            while stamps[begin] <= stamp - window {
                total -= x[begin].into();
                begin += 1;
            }
            out[i] = total / (i + 1 - begin) as f64;
        }
    }
}

/// What [`hopping`] needs beside its input.
pub(crate) struct Panes<S, O> {
    parts: Vec<(S, usize)>,
    /// Ends of the windows that are not empty.
    pub(crate) ends: Vec<i64>,
    /// Their results.
    pub(crate) values: Vec<O>,
}

impl<S, O> Default for Panes<S, O> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            ends: Vec::new(),
            values: Vec::new(),
        }
    }
}

multiversion! {
    /// Of the last `window` ticks at every multiple of `slide`, which divides it: every pane of `slide` ticks is reduced
    /// once, every window merges its panes.
    pub(crate) fn hopping<T: Element, F: Fold<T>>(
        stamps: &[i64],
        x: &[T],
        window: i64,
        slide: i64,
        out: &mut Panes<F::State, F::Out>,
    ) {
        let Panes { parts, ends, values } = out;
        parts.clear();
        ends.clear();
        values.clear();
        let Some(first) = stamps.first() else { return };
        let first = (first - 1).div_euclid(slide) * slide + slide;
        let (mut begin, mut edge) = (0, first);
        while begin < x.len() {
            let end = begin + stamps[begin..].partition_point(|t| *t <= edge);
            parts.push((reduce::<T, F>(&x[begin..end]), end - begin));
            (begin, edge) = (end, edge + slide);
        }
        let width = (window / slide) as usize;
        for last in 0..parts.len() + width - 1 {
            let panes = &parts[(last + 1).saturating_sub(width)..parts.len().min(last + 1)];
            let count = panes.iter().map(|p| p.1).sum();
            if count > 0 {
                let state = panes.iter().map(|p| p.0).fold(F::EMPTY, F::combine);
                ends.push(first + last as i64 * slide);
                values.push(F::result(state, count));
            }
        }
    }
}

/// Events `(start, end]` that do not overlap, with values.
#[derive(Default)]
pub(crate) struct Intervals<T> {
    /// Where they begin.
    pub(crate) starts: Vec<i64>,
    /// Where they end.
    pub(crate) ends: Vec<i64>,
    /// Their values.
    pub(crate) values: Vec<T>,
}

/// Writes the sums of what overlaps to `out`, which must have room: a row for each row of both, and one more. Returns
/// how many there are.
pub(crate) fn join<T: Real>(a: &Intervals<T>, b: &Intervals<T>, out: &mut Intervals<T>) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.ends.len() && j < b.ends.len() {
        let (start, end) = (a.starts[i].max(b.starts[j]), a.ends[i].min(b.ends[j]));
        // Written in any case and kept if it is not empty: there is nothing to predict.
        out.starts[count] = start;
        out.ends[count] = end;
        out.values[count] = a.values[i] + b.values[j];
        count += usize::from(start < end);
        i += usize::from(a.ends[i] == end);
        j += usize::from(b.ends[j] == end);
    }
    count
}
