//! Reductions as types, so that one loop serves all of them.

use std::marker::PhantomData;

use crate::data::{Element, Real};

/// An associative reduction of values of type `T`.
pub(crate) trait Fold<T>: 'static {
    /// What is carried along.
    type State: Copy + 'static;
    /// What comes out.
    type Out: Copy + Default + 'static;
    /// Of no value.
    const EMPTY: Self::State;
    /// Whether any order gives the same, so that the compiler may choose one.
    const EXACT: bool;
    /// Of one value.
    fn of(value: T) -> Self::State;
    /// Of two parts.
    fn combine(a: Self::State, b: Self::State) -> Self::State;
    /// Of `count` values.
    fn result(state: Self::State, count: usize) -> Self::Out;
}

/// The least value.
pub(crate) struct Min;
/// The greatest value.
pub(crate) struct Max;
/// The total, of integers in 64 bits, of floats in double.
pub(crate) struct Sum;
/// The total over the number of values.
pub(crate) struct Mean<F = Sum>(PhantomData<F>);

macro_rules! extremes {
    ($($fold:ty, $type:ty, $empty:expr, $exact:expr, $better:tt;)*) => {$(
        impl Fold<$type> for $fold {
            type State = $type;
            type Out = $type;
            const EMPTY: $type = $empty;
            const EXACT: bool = $exact;

            #[inline(always)]
            fn of(value: $type) -> $type {
                value
            }

            #[inline(always)]
            fn combine(a: $type, b: $type) -> $type {
                if b $better a { b } else { a }
            }

            #[inline(always)]
            fn result(state: $type, _count: usize) -> $type {
                state
            }
        }
    )*};
}

extremes! {
    Min, f64, f64::INFINITY, false, <;
    Max, f64, f64::NEG_INFINITY, false, >;
    Min, i32, i32::MAX, true, <;
}

macro_rules! sums {
    ($($type:ty => $state:ty, $exact:expr;)*) => {$(
        impl Fold<$type> for Sum {
            type State = $state;
            type Out = $state;
            const EMPTY: $state = 0 as $state;
            const EXACT: bool = $exact;

            #[inline(always)]
            fn of(value: $type) -> $state {
                value.into()
            }

            #[inline(always)]
            fn combine(a: $state, b: $state) -> $state {
                a + b
            }

            #[inline(always)]
            fn result(state: $state, _count: usize) -> $state {
                state
            }
        }
    )*};
}

sums! {
    f64 => f64, false;
    f32 => f64, false;
    i64 => i64, true;
    i32 => i64, true;
}

/// A total as a double.
pub(crate) trait Total: Copy {
    /// The nearest double.
    fn double(self) -> f64;
}

impl Total for f64 {
    #[inline(always)]
    fn double(self) -> f64 {
        self
    }
}

impl Total for i64 {
    #[inline(always)]
    fn double(self) -> f64 {
        self as f64
    }
}

impl<T, F: Fold<T, State: Total>> Fold<T> for Mean<F> {
    type State = F::State;
    type Out = f64;
    const EMPTY: F::State = F::EMPTY;
    const EXACT: bool = F::EXACT;

    #[inline(always)]
    fn of(value: T) -> F::State {
        F::of(value)
    }

    #[inline(always)]
    fn combine(a: F::State, b: F::State) -> F::State {
        F::combine(a, b)
    }

    #[inline(always)]
    fn result(state: F::State, count: usize) -> f64 {
        state.double() / count as f64
    }
}

/// Of a slice, with many states side by side where the compiler would not find them.
#[inline(always)]
pub(crate) fn reduce<T: Element, F: Fold<T>>(values: &[T]) -> F::State {
    if F::EXACT {
        return values.iter().map(|v| F::of(*v)).fold(F::EMPTY, F::combine);
    }
    let mut lanes = [F::EMPTY; 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = F::combine(*lane, F::of(*value));
        }
    }
    let rest = rest.iter().map(|v| F::of(*v));
    rest.fold(across(lanes, F::combine), F::combine)
}

/// One state of many, in halves: that stays in vectors, and few wait for each other.
#[inline(always)]
fn across<S: Copy>(mut lanes: [S; 32], combine: impl Fn(S, S) -> S) -> S {
    for half in [16, 8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = combine(lanes[i], lanes[i + half]);
        }
    }
    lanes[0]
}

/// The sum over a slice of doubles that are made of its values.
#[inline(always)]
pub(crate) fn sum_of<T: Real>(values: &[T], of: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += of((*value).into());
        }
    }
    across(lanes, |a, b| a + b) + rest.iter().map(|v| of((*v).into())).sum::<f64>()
}

/// The greatest magnitude in a slice.
#[inline(always)]
pub(crate) fn peak<T: Real>(values: &[T]) -> T {
    let magnitude = |v: T| if v < T::default() { -v } else { v };
    let greater = |a: T, b: T| if b > a { b } else { a };
    let mut lanes = [T::default(); 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, magnitude(*value));
        }
    }
    let rest = rest.iter().map(|v| magnitude(*v));
    rest.fold(across(lanes, greater), greater)
}
