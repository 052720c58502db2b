//! Windows of so many samples.

use super::fold::{Fold, Total, reduce};
use crate::data::Element;

multiversion! {
    /// Of every `window` values, one after the other.
    pub(crate) fn tumbling<T: Element, F: Fold<T>>(x: &[T], window: usize, out: &mut Vec<F::Out>) {
        out.clear();
        for values in x.chunks(window) {
            out.push(F::result(reduce::<T, F>(values), values.len()));
        }
    }
}

/// A total from which values can be taken out again.
pub(crate) trait Running<T>: Fold<T, State: Total> {
    /// The total after one value has come and one has gone.
    fn slide(total: Self::State, comes: T, goes: T) -> Self::State;
}

macro_rules! running {
    ($($fold:ty, $type:ty;)*) => {$(
        impl Running<$type> for $fold {
            #[inline(always)]
            fn slide(total: Self::State, comes: $type, goes: $type) -> Self::State {
                total + (Self::of(comes) - Self::of(goes))
            }
        }
    )*};
}

running! {
    super::fold::Sum, i64;
    super::fold::Sum, i32;
    super::fold::Mean, f64;
    super::fold::Mean, f32;
    super::fold::Mean, i32;
}

multiversion! {
    /// Of the last `window` values at every value: adds what comes, subtracts what goes.
    pub(crate) fn subtract_on_evict<T: Element, F: Running<T>>(x: &[T], window: usize, out: &mut [F::Out]) {
        let window = window.min(x.len());
        let mut total = F::EMPTY;
        for (i, (out, x)) in out.iter_mut().zip(&x[..window]).enumerate() {
            total = F::combine(total, F::of(*x));
            *out = F::result(total, i + 1);
        }
        for ((out, comes), goes) in out[window..].iter_mut().zip(&x[window..]).zip(x) {
            total = F::slide(total, *comes, *goes);
            *out = F::result(total, window);
        }
    }
}

multiversion! {
    /// Of the last `window` values at every value, by van Herk's scans: from each block's end backward, from its
    /// beginning forward. `suffix` is scratch of `window + 1`.
    pub(crate) fn van_herk<T: Element, F: Fold<T>>(x: &[T], window: usize, suffix: &mut [F::State], out: &mut [F::Out]) {
        suffix.fill(F::EMPTY);
        for (block, (x, out)) in x.chunks(window).zip(out.chunks_mut(window)).enumerate() {
            let mut prefix = F::EMPTY;
            for (i, ((out, x), suffix)) in out.iter_mut().zip(x).zip(&suffix[1..]).enumerate() {
                prefix = F::combine(prefix, F::of(*x));
                let count = if block == 0 { i + 1 } else { window };
                *out = F::result(F::combine(*suffix, prefix), count);
            }
            let mut state = F::EMPTY;
            for (suffix, x) in suffix.iter_mut().zip(x).rev() {
                state = F::combine(F::of(*x), state);
                *suffix = state;
            }
        }
    }
}

multiversion! {
    /// Of the last `window` values at every `hop`-th, each window anew, until it is empty.
    pub(crate) fn rescan<T: Element, F: Fold<T>>(x: &[T], window: usize, hop: usize, out: &mut Vec<F::Out>) {
        out.clear();
        for end in (hop..x.len() + window).step_by(hop) {
            let values = &x[end.saturating_sub(window)..end.min(x.len())];
            out.push(F::result(reduce::<T, F>(values), values.len()));
        }
    }
}

multiversion! {
    /// The same by Two-Stacks in flat memory: `front` has the states of all suffixes of the older part of the window, the
    /// newer part has one state. The values themselves stay where they are. `front` is scratch of `window + 1`.
    pub(crate) fn two_stacks<T: Element, F: Fold<T>>(
        x: &[T],
        window: usize,
        hop: usize,
        front: &mut [F::State],
        out: &mut Vec<F::Out>,
    ) {
        out.clear();
        // The window is `x[begin..end]`, its older part ends at `middle` and was flipped when it began at `flipped`.
        let (mut begin, mut middle, mut flipped) = (0, 0, 0);
        let mut back = F::EMPTY;
        let mut next = hop;
        for end in 1..x.len() + window {
            if end <= x.len() {
                back = F::combine(back, F::of(x[end - 1]));
            }
            if end - begin > window {
                if begin == middle {
                    (flipped, middle) = (begin, end.min(x.len()));
                    let mut state = F::EMPTY;
                    for (front, x) in front.iter_mut().zip(&x[begin..middle]).rev() {
                        state = F::combine(F::of(*x), state);
                        *front = state;
                    }
                    back = F::EMPTY;
                }
                begin += 1;
            }
            if end == next {
                next += hop;
                let state = if begin < middle {
                    F::combine(front[begin - flipped], back)
                } else {
                    back
                };
                out.push(F::result(state, end.min(x.len()) - begin));
            }
        }
    }
}
