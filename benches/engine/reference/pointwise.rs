//! One row at a time: select, where, joins of streams on one grid.

use crate::data::Real;

multiversion! {
    /// `2 x + 1`.
    pub(crate) fn select<T: Real>(x: &[T], out: &mut [T]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x * T::of(2.0) + T::of(1.0);
        }
    }
}

multiversion! {
    /// Where `x > 0`, as a bitmap; the values stay where they are.
    pub(crate) fn positive<T: Real>(x: &[T], bits: &mut [u64]) {
        for (bits, x) in bits.iter_mut().zip(x.chunks(64)) {
            *bits = mask(x);
        }
    }
}

multiversion! {
    /// `2 x + 1` where that is positive.
    pub(crate) fn select_where<T: Real>(x: &[T], out: &mut [T], bits: &mut [u64]) {
        for ((bits, out), x) in bits.iter_mut().zip(out.chunks_mut(64)).zip(x.chunks(64)) {
            for (out, x) in out.iter_mut().zip(x) {
                *out = *x * T::of(2.0) + T::of(1.0);
            }
            *bits = mask(out);
        }
    }
}

multiversion! {
    /// `a + b`.
    pub(crate) fn inner_join<T: Real>(a: &[T], b: &[T], out: &mut [T]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = *a + *b;
        }
    }
}

/// Values and where they are.
pub(crate) type Nullable<'a, T> = (&'a [T], &'a [u64]);

multiversion! {
    /// `a + b` where there is at least one of them, zero for the other.
    pub(crate) fn outer_join<T: Real>(a: Nullable<T>, b: Nullable<T>, out: &mut [T], bits: &mut [u64]) {
        let rows = out.chunks_mut(64).zip(a.0.chunks(64)).zip(b.0.chunks(64));
        for (word, ((out, a_values), b_values)) in rows.enumerate() {
            let (a_bits, b_bits) = (a.1[word], b.1[word]);
            bits[word] = a_bits | b_bits;
            for (i, out) in out.iter_mut().enumerate() {
                let or_zero = |v: T, bits: u64| if bits >> i & 1 == 1 { v } else { T::default() };
                *out = or_zero(a_values[i], a_bits) + or_zero(b_values[i], b_bits);
            }
        }
    }
}

/// Which of up to 64 values are positive.
#[inline(always)]
pub(crate) fn mask<T: Real>(values: &[T]) -> u64 {
    let bit = |(i, v): (usize, &T)| u64::from(*v > T::default()) << i;
    if let Ok(whole) = <&[T; 64]>::try_from(values) {
        return whole.iter().enumerate().map(bit).fold(0, |a, b| a | b);
    }
    values.iter().enumerate().map(bit).fold(0, |a, b| a | b)
}
