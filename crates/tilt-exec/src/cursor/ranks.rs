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

    /// Writes the `n`-th event before each of `current`.
    pub(crate) fn read(&self, current: &[u32], n: u32, out: &mut [u32]) {
        for (current, out) in current.iter().zip(out) {
            *out = self.nth_before(*current, n);
        }
    }
}

impl Sparse {
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
