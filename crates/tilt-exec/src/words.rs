//! Strings told apart: a number for each, in the order in which they are met.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
};

/// Words, each with its number. `W` is how they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Words<W> {
    /// Short ones are found without following a pointer.
    short: HashMap<Short, u32, Mixing>,
    long: HashMap<W, u32, Mixing>,
    all: Vec<W>,
}

impl<W> Default for Words<W> {
    fn default() -> Self {
        Self {
            short: HashMap::default(),
            long: HashMap::default(),
            all: Vec::new(),
        }
    }
}

impl<W: Borrow<str> + Hash + Eq + Clone> Words<W> {
    /// The number of a word, which is kept if it is new.
    pub(crate) fn number<'w>(&mut self, word: &'w str) -> u32
    where
        W: From<&'w str>,
    {
        let short = Short::of(word);
        let known = match &short {
            Some(short) => self.short.get(short),
            None => self.long.get(word),
        };
        if let Some(number) = known {
            return *number;
        }
        let (number, word) = (self.all.len() as u32, W::from(word));
        match short {
            Some(short) => self.short.insert(short, number),
            None => self.long.insert(word.clone(), number),
        };
        self.all.push(word);
        number
    }

    /// Gives each word another number, by the one that it has.
    pub(crate) fn renumber(&mut self, new: &[u32]) {
        let numbers = self.short.values_mut().chain(self.long.values_mut());
        numbers.for_each(|number| *number = new[*number as usize]);
        let mut all: Vec<(u32, W)> = new.iter().copied().zip(self.all.drain(..)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        self.all = all.into_iter().map(|(_, word)| word).collect();
    }

    /// All words, by their numbers.
    pub(crate) fn all(&self) -> &[W] {
        &self.all
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// A word of at most 16 bytes: its first and its last ones, which overlap, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Short {
    first: u64,
    last: u64,
    len: u8,
}

impl Short {
    fn of(word: &str) -> Option<Self> {
        let bytes = word.as_bytes();
        let four = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
        let (first, last) = match bytes.len() {
            0 => (0, 0),
            n @ 1..4 => {
                let [first, middle, last] = [0, n / 2, n - 1].map(|at| u64::from(bytes[at]));
                (first | middle << 8, last)
            }
            4..8 => (four(*bytes.first_chunk()?), four(*bytes.last_chunk()?)),
            8..=16 => (
                u64::from_le_bytes(*bytes.first_chunk()?),
                u64::from_le_bytes(*bytes.last_chunk()?),
            ),
            _ => return None,
        };
        let len = bytes.len() as u8;
        Some(Self { first, last, len })
    }
}

impl Hash for Short {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.first);
        // Most words are shorter than the place of the length.
        state.write_u64(self.last ^ u64::from(self.len) << 56);
    }
}

/// Mixes eight bytes at a time, from a beginning that nobody outside the process knows.
#[derive(Clone, Debug)]
pub(crate) struct Mixing(u64);

impl Default for Mixing {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Mixing {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length keeps strings apart that differ by zeros only.
        self.write_u64(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn words_of_any_length_are_told_apart() {
        let mut words = Words::<Arc<str>>::default();
        // Of each length words that differ in one byte, and such of zeros only.
        let all: Vec<String> = (0..40usize)
            .flat_map(|len| {
                let zeros = "\0".repeat(len);
                let one = move |at: usize| "\0".repeat(at) + "x" + &"\0".repeat(len - at - 1);
                std::iter::once(zeros).chain((0..len).map(one))
            })
            .collect();
        for _ in 0..2 {
            for (number, word) in (0..).zip(&all) {
                assert_eq!(words.number(word), number, "{word:?}");
            }
        }
        assert_eq!(words.len(), all.len());
        assert!(words.all().iter().map(|word| &**word).eq(&all));
        // The other way round.
        let last = all.len() as u32 - 1;
        let new: Vec<u32> = (0..=last).map(|number| last - number).collect();
        words.renumber(&new);
        assert!(words.all().iter().rev().map(|word| &**word).eq(&all));
        for (number, word) in (0..).zip(&all) {
            assert_eq!(words.number(word), last - number, "{word:?}");
        }
    }
}
