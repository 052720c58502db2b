//! The speed of memory.

use std::hint::black_box;

multiversion! {
    /// Reads everything once, with enough sums at a time to wait for memory only.
    pub(crate) fn sum(from: &[f64]) -> f64 {
        let mut sums = [0.0; 64];
        let (chunks, rest) = from.as_chunks::<64>();
        for chunk in chunks {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum += value;
            }
        }
        sums.iter().chain(rest).sum()
    }
}

multiversion! {
    /// Copies with vector loads and stores. A zero that the compiler does not know keeps this from becoming `memcpy`.
    pub(crate) fn copy(from: &[f64], to: &mut [f64]) {
        let nothing = black_box(0_u64);
        for (to, from) in to.iter_mut().zip(from) {
            *to = f64::from_bits(from.to_bits() ^ nothing);
        }
    }
}
