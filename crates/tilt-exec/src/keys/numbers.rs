//! Ids read from where they lie, one by one and in any order.

use std::borrow::Cow;

use tilt_codegen::lir::Ty;

use super::{Ids, bits_of, elements};

/// The ids of all rows: numbers of one width, each less the first.
pub(crate) enum Numbers<'a> {
    Two(Less<'a, u16>),
    Four(Less<'a, u32>),
    Eight(Less<'a, u64>),
}

/// Ids that are numbers less the first.
pub(crate) struct Less<'a, T: Number> {
    pub(crate) values: Cow<'a, [T]>,
    first: T,
    /// How many ids there are, if no memory but ours has the numbers.
    len: Option<usize>,
}

/// Ids that are looked up together.
pub(crate) const TURN: usize = 4;

pub(crate) trait Number: Copy + Sync {
    /// How far it lies from the first.
    fn less(self, first: Self) -> u32;

    /// The ids of some numbers, and `nobody` in place of those from `known` on. None is larger than that, if the numbers are of ids.
    #[expect(clippy::inline_always, reason = "it is a part of each turn")]
    #[inline(always)]
    fn places(numbers: &[Self; TURN], first: Self, known: usize, nobody: usize) -> [usize; TURN] {
        std::array::from_fn(|i| {
            let id = numbers[i].less(first) as usize;
            if i < known { id.min(nobody) } else { nobody }
        })
    }
}

/// The short numbers of a word that come first, by how many.
const FIRST: [u64; TURN + 1] = [0, 0xffff, 0xffff_ffff, 0xffff_ffff_ffff, u64::MAX];
/// One in each short number of a word.
const EACH: u64 = 0x0001_0001_0001_0001;

impl Number for u16 {
    fn less(self, first: Self) -> u32 {
        u32::from(self.wrapping_sub(first))
    }

    /// All in one word: no number is less than the first.
    #[expect(clippy::inline_always, reason = "it is a part of each turn")]
    #[inline(always)]
    fn places(numbers: &[Self; TURN], first: Self, known: usize, nobody: usize) -> [usize; TURN] {
        let (first, nobody) = (EACH * u64::from(first), EACH * u64::from(nobody as u16));
        let word = |number: usize| u64::from(numbers[number]) << (16 * number);
        let all = word(0) | word(1) | word(2) | word(3);
        let kept = FIRST[known];
        let ids = (all.wrapping_sub(first) & kept) | (nobody & !kept);
        std::array::from_fn(|i| (ids >> (16 * i) & 0xffff) as usize)
    }
}

impl Number for u32 {
    fn less(self, first: Self) -> u32 {
        self.wrapping_sub(first)
    }
}

impl Number for u64 {
    fn less(self, first: Self) -> u32 {
        self.wrapping_sub(first) as u32
    }
}

impl<T: Number> Less<'_, T> {
    /// Whether all [places](Self::places) are at most `nobody`.
    pub(crate) fn has_at_most(&self, nobody: usize) -> bool {
        self.len.is_none_or(|len| len <= nobody)
    }

    /// The ids of the first numbers, and `nobody` in place of the others.
    #[expect(clippy::inline_always, reason = "it is a part of each turn")]
    #[inline(always)]
    pub(crate) fn places(&self, numbers: &[T; TURN], known: usize, nobody: usize) -> [usize; TURN] {
        T::places(numbers, self.first, known, nobody)
    }

    /// The id of a number, and no more than `most`, whatever the memory of keys has become since they were numbered.
    #[expect(clippy::inline_always, reason = "it is a part of each turn")]
    #[inline(always)]
    pub(crate) fn place(&self, number: T, most: usize) -> usize {
        (number.less(self.first) as usize).min(most)
    }
}

fn borrowed<T: Number>(values: &[T], first: T) -> Less<'_, T> {
    Less {
        values: Cow::Borrowed(values),
        first,
        len: None,
    }
}

impl Ids {
    /// Those of so many rows, which are all.
    pub(crate) fn numbers(&self, rows: usize) -> Numbers<'_> {
        match self {
            Self::Listed(ids) => Numbers::Four(borrowed(ids, 0)),
            // `nobody` is a short number, too.
            Self::Short(short) if u16::try_from(short.len).is_ok() => Numbers::Two(Less {
                len: Some(short.len),
                ..borrowed(&short.numbers, short.least)
            }),
            Self::Short(_) => Numbers::Four(self.listed(rows)),
            Self::Offset { keys, first } if matches!(keys.ty, Ty::I32 | Ty::U32) => {
                let first = bits_of(*first, keys.ty) as u32;
                Numbers::Four(borrowed(elements(keys, 0..rows), first))
            }
            Self::Offset { keys, first } if matches!(keys.ty, Ty::I64 | Ty::U64) => {
                let first = bits_of(*first, keys.ty);
                Numbers::Eight(borrowed(elements(keys, 0..rows), first))
            }
            Self::Offset { .. } => Numbers::Four(self.listed(rows)),
        }
    }

    /// The same as a list.
    pub(crate) fn listed(&self, rows: usize) -> Less<'_, u32> {
        let mut ids = vec![0; rows];
        self.read(0..rows, &mut ids);
        Less {
            values: Cow::Owned(ids),
            first: 0,
            len: None,
        }
    }
}
