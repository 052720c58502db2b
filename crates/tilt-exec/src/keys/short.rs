//! Ids of two bytes, found by one look at each key.
//!
//! Where keys begin is guessed from a sample; all that lie less than 2¹⁶ from there have a short number, and one that does not is noticed. So keys
//! of eight bytes are read once, where finding their bounds first and then reading them for every pass takes four times the memory each time.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use tilt_codegen::lir::Ty;

use super::{SIGN, elements};
use crate::{memory::filled, series::Leaf, threads::fill_and_find};

/// Numbers there are.
const NUMBERS: u64 = 1 << 16;
/// Rows of a column that are looked at for a guess.
const SAMPLE: usize = 1024;
/// With fewer rows in all, caches hold keys of any length.
const ROWS: usize = 1 << 18;
/// Rows after which it is asked whether all have a number.
const BLOCK: usize = 4096;

/// The ids of a column.
#[derive(Debug)]
pub(crate) struct Short {
    pub(super) numbers: ScalarBuffer<u16>,
    /// The number of id 0.
    pub(super) least: u16,
    /// How many ids there are: numbers are that many from `least` on, and nobody else has them.
    pub(super) len: usize,
}

/// Columns of keys whose words are the `len` from `first` on.
pub(super) struct Found {
    pub(super) first: u64,
    pub(super) len: usize,
    pub(super) ids: Vec<Short>,
}

impl Short {
    pub(super) fn read(&self, rows: Range<usize>, out: &mut [u32]) {
        for (out, number) in out.iter_mut().zip(&self.numbers[rows]) {
            *out = u32::from(number.wrapping_sub(self.least));
        }
    }
}

/// The ids of many integers without null that lie near each other.
pub(super) fn find(columns: &[&Leaf], threads: usize) -> Option<Found> {
    let ty = columns.first()?.ty;
    let fits = |c: &&Leaf| matches!(c.ty, Ty::I64 | Ty::U64) && c.ty == ty && c.valid.is_none();
    let rows: usize = columns.iter().map(|c| c.len).sum();
    if rows < ROWS || !columns.iter().all(fits) {
        return None;
    }
    // What turns the bits of a value into its word and back.
    let flip = if ty == Ty::I64 { SIGN } else { 0 };
    let sample = columns.iter().flat_map(|column| {
        let values: &[u64] = elements(column, 0..column.len);
        values.iter().step_by(column.len.div_ceil(SAMPLE).max(1))
    });
    let (low, high) = sample.fold((u64::MAX, 0), |(low, high), bits| {
        let word = bits ^ flip;
        (low.min(word), high.max(word))
    });
    // As much room before as after, and none beyond the last word.
    let room = (NUMBERS - 1).checked_sub(high - low)?;
    let origin = low.saturating_sub(room / 2).min(u64::MAX - (NUMBERS - 1));
    let (mut least, mut most) = (u16::MAX, 0);
    let mut numbered = Vec::with_capacity(columns.len());
    for column in columns {
        let mut bounds = Vec::new();
        let numbers = filled(column.len, |out: &mut [u16]| {
            bounds = fill_and_find(out, threads, |_, rows, out| {
                number_all(elements(column, rows), origin ^ flip, out)
            });
        });
        for bounds in bounds {
            let (low, high) = bounds?;
            (least, most) = (least.min(low), most.max(high));
        }
        numbered.push(ScalarBuffer::new(numbers, 0, column.len));
    }
    let len = usize::from(most - least) + 1;
    let ids = numbered.into_iter().map(|numbers| Short {
        numbers,
        least,
        len,
    });
    Some(Found {
        first: origin + u64::from(least),
        len,
        ids: ids.collect(),
    })
}

/// Writes the distance of each value from `origin`, and returns the least and the greatest; `None` if one is too large.
fn number_all(values: &[u64], origin: u64, out: &mut [u16]) -> Option<(u16, u16)> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn by_wide_vectors(values: &[u64], origin: u64, out: &mut [u16]) -> (u64, u16, u16) {
        number(values, origin, out)
    }
    let mut bounds = (u16::MAX, 0);
    for (values, out) in values.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        #[cfg(target_arch = "x86_64")]
        let (all, least, most) = if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has what the function needs.
            unsafe { by_wide_vectors(values, origin, out) }
        } else {
            number(values, origin, out)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let (all, least, most) = number(values, origin, out);
        if all >= NUMBERS {
            return None;
        }
        bounds = (bounds.0.min(least), bounds.1.max(most));
    }
    Some(bounds)
}

/// The same for some values, with the bits that any distance has.
#[expect(
    clippy::inline_always,
    reason = "it takes on the vectors of its caller"
)]
#[inline(always)]
fn number(values: &[u64], origin: u64, out: &mut [u16]) -> (u64, u16, u16) {
    let (mut all, mut least, mut most) = (0, u16::MAX, 0);
    for (value, out) in values.iter().zip(out) {
        let distance = value.wrapping_sub(origin);
        all |= distance;
        *out = distance as u16;
        least = least.min(*out);
        most = most.max(*out);
    }
    (all, least, most)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, UInt64Array};

    use super::*;
    use crate::keys::Keys;

    /// The ids that columns have, short or not.
    fn check(columns: &[ArrayRef], ty: Ty, is_short: bool) {
        let leaves: Vec<Leaf> = columns.iter().map(|c| Leaf::of_array(c, ty)).collect();
        let leaves: Vec<&Leaf> = leaves.iter().collect();
        for threads in [1, 3] {
            assert_eq!(find(&leaves, threads).is_some(), is_short);
            let (keys, ids) = Keys::number_shortly(&leaves, threads);
            for (column, ids) in leaves.iter().zip(&ids) {
                let mut of_rows = vec![0; column.len];
                ids.blocks(0..column.len, |rows, ids| {
                    of_rows[rows].copy_from_slice(ids);
                });
                assert!(keys.are(column, &of_rows));
                assert!(of_rows.iter().all(|id| (*id as usize) < keys.len()));
            }
        }
    }

    fn of(value: impl Fn(u64) -> i64) -> ArrayRef {
        Arc::new((0..ROWS as u64).map(value).collect::<Int64Array>())
    }

    #[test]
    fn keys_near_each_other_have_short_ids() {
        let near = |around: i64| of(move |row| around + (row * row % 1009) as i64);
        for around in [0, -500, 1 << 40, i64::MIN, i64::MAX - 1008] {
            check(&[near(around)], Ty::I64, true);
        }
        check(&[near(7), near(-40_000), of(|_| 0)], Ty::I64, true);
        check(
            &[of(|row| (row % (NUMBERS - 1024)) as i64 - 9)],
            Ty::I64,
            true,
        );
    }

    #[test]
    fn keys_far_from_each_other_have_none() {
        check(&[of(|row| (row % (NUMBERS + 1)) as i64)], Ty::I64, false);
        // No sample has it.
        let far = |at: u64| of(move |row| if row == at { 1 << 40 } else { (row % 7) as i64 });
        check(&[far(100_001)], Ty::I64, false);
        check(&[of(|_| 3), far(ROWS as u64 - 1)], Ty::I64, false);
        check(
            &[of(|row| if row == 5 { i64::MIN } else { i64::MAX })],
            Ty::I64,
            false,
        );
    }

    #[test]
    fn the_last_words_have_no_neighbours_beyond_them() {
        let last = (0..ROWS as u64).map(|row| u64::MAX - row % 5);
        check(&[Arc::new(last.collect::<UInt64Array>())], Ty::U64, true);
        let around = (0..ROWS as u64).map(|row| if row == 5 { 3 } else { u64::MAX - row % 5 });
        check(&[Arc::new(around.collect::<UInt64Array>())], Ty::U64, false);
    }
}
