//! Counting back over events.

use super::{NONE, Source};

/// Counts back over events, as `prev` does.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    /// `None` if every position is an event.
    sparse: Option<Sparse>,
}

#[derive(Clone, Debug)]
struct Sparse {
    /// A bit a position, set where there is an event.
    words: Vec<u64>,
    /// How many bits are set before each word.
    before: Vec<u32>,
}

impl Ranks {
    /// Counts the events of a source, all of them once.
    pub(crate) fn new(source: &Source) -> Self {
        let sparse = source.events().map(|events| {
            let words: Vec<u64> = events.bit_chunks().iter_padded().collect();
            let counts = words.iter().scan(0, |sum, word| {
                let before = *sum;
                *sum += word.count_ones();
                Some(before)
            });
            Sparse {
                before: counts.collect(),
                words,
            }
        });
        Self { sparse }
    }

    /// The `n`-th event before position `current`, which itself is the one for `n = 0`.
    #[inline]
    pub(crate) fn nth_before(&self, current: u32, n: u32) -> u32 {
        if current == NONE || n == 0 {
            return current;
        }
        match &self.sparse {
            None => current.checked_sub(n).unwrap_or(NONE),
            Some(sparse) => sparse.nth_before(current, n),
        }
    }

    /// The `n`-th event before position `current` if that is an event itself.
    #[inline]
    pub(crate) fn nth_before_event(&self, current: u32, n: u32) -> u32 {
        let is_event = |sparse: &Sparse| {
            let word = sparse.words.get(current as usize / 64);
            word.is_some_and(|word| word & (1 << (current % 64)) != 0)
        };
        if self.sparse.as_ref().is_none_or(is_event) {
            self.nth_before(current, n)
        } else {
            NONE
        }
    }

    /// How many events there are before position `end`.
    pub(crate) fn until(&self, end: usize) -> u32 {
        let Some(sparse) = &self.sparse else {
            return end as u32;
        };
        match sparse.words.get(end / 64) {
            Some(word) => sparse.before[end / 64] + (word & !(u64::MAX << (end % 64))).count_ones(),
            None => sparse.count(),
        }
    }

    /// How many events there are at `len` positions, which are all.
    pub(crate) fn count(&self, len: usize) -> u32 {
        self.sparse.as_ref().map_or(len as u32, Sparse::count)
    }

    /// The position of an event by its number, `len` if there are not as many.
    pub(crate) fn position(&self, number: u32, len: u32) -> u32 {
        match &self.sparse {
            None => number.min(len),
            Some(sparse) if number >= sparse.count() => len,
            Some(sparse) => {
                let word = sparse.before.partition_point(|before| *before <= number) - 1;
                word as u32 * 64 + nth_set(sparse.words[word], number - sparse.before[word])
            }
        }
    }
}

impl Sparse {
    fn count(&self) -> u32 {
        let last = self.before.last().zip(self.words.last());
        last.map_or(0, |(before, word)| before + word.count_ones())
    }

    fn nth_before(&self, current: u32, n: u32) -> u32 {
        let word = current as usize / 64;
        let lower = self.words[word] & !(u64::MAX << (current % 64));
        let rank = self.before[word] + lower.count_ones();
        let Some(number) = rank.checked_sub(n) else {
            return NONE;
        };
        // The last word with no more than `number` bits before it: the usual one is near.
        let word = if self.before[word] <= number {
            word
        } else {
            self.before[..word].partition_point(|before| *before <= number) - 1
        };
        word as u32 * 64 + nth_set(self.words[word], number - self.before[word])
    }
}

/// Which bit of `word` is set with `n` set below it.
fn nth_set(mut word: u64, n: u32) -> u32 {
    for _ in 0..n {
        word &= word - 1;
    }
    word.trailing_zeros()
}
