//! How often each value occurs in a window that slides: `mode` and `n_unique`.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

/// The occurrences of each key in a window.
///
/// Only what takes out the first occurrence of the mode can end its being the mode, so that it is searched for only then. Where that
/// happens too often for its cost, as with values that hardly repeat, a ranking is kept instead.
#[derive(Default, Debug)]
pub(crate) struct Frequency {
    /// Where each key occurs, in order. Keys without occurrence are left out.
    at: HashMap<i64, VecDeque<u32>, BuildHasherDefault<Mixer>>,
    /// The mode, unless it must be searched for: how often it occurs, and where first.
    best: Option<Rank>,
    /// All keys in order, the last is the mode.
    ranking: Option<BTreeSet<Rank>>,
    /// Keys searched so far, less what was allowed for.
    searched: usize,
    /// Lists to use again.
    spare: Vec<VecDeque<u32>>,
}

/// Keys by how often they occur, then by where first, the earlier the greater.
type Rank = (usize, Reverse<u32>);

/// How many keys may be searched for each one that is added.
const ALLOWED: usize = 16;

fn rank(at: &VecDeque<u32>) -> Option<Rank> {
    at.front().map(|first| (at.len(), Reverse(*first)))
}

impl Frequency {
    pub(crate) fn clear(&mut self) {
        self.spare.extend(self.at.drain().map(|(_, mut list)| {
            list.clear();
            list
        }));
        self.best = None;
        if let Some(ranking) = &mut self.ranking {
            ranking.clear();
        }
    }

    /// Adds an occurrence after all others.
    pub(crate) fn push(&mut self, position: u32, key: i64) {
        let was_empty = self.at.is_empty();
        let spare = &mut self.spare;
        let at = self
            .at
            .entry(key)
            .or_insert_with(|| spare.pop().unwrap_or_default());
        let before = rank(at);
        at.push_back(position);
        let after = rank(at);
        self.searched = self.searched.saturating_sub(ALLOWED);
        if let Some(ranking) = &mut self.ranking {
            if let Some(before) = before {
                ranking.remove(&before);
            }
            ranking.extend(after);
        } else if was_empty || self.best.is_some() {
            self.best = self.best.max(after);
        }
    }

    /// Takes out the first occurrence of a key.
    pub(crate) fn pop(&mut self, key: i64) {
        let Some(at) = self.at.get_mut(&key) else {
            return;
        };
        let before = rank(at);
        at.pop_front();
        let after = rank(at);
        if let Some(ranking) = &mut self.ranking {
            if let Some(before) = before {
                ranking.remove(&before);
            }
            ranking.extend(after);
        } else if self.best == before {
            self.best = None;
        }
        if after.is_none() {
            let list = self.at.remove(&key);
            self.spare.extend(list);
        }
    }

    /// How many keys occur.
    pub(crate) fn distinct(&self) -> usize {
        self.at.len()
    }

    /// Where the most frequent key occurs first; of several the one that occurs first.
    pub(crate) fn mode(&mut self) -> Option<u32> {
        let best = match &self.ranking {
            Some(ranking) => ranking.last().copied(),
            None => self.best.or_else(|| self.search()),
        };
        best.map(|(_, Reverse(first))| first)
    }

    #[cold]
    fn search(&mut self) -> Option<Rank> {
        self.searched += self.at.len();
        if self.searched > 1024 * ALLOWED {
            self.ranking = Some(self.at.values().filter_map(rank).collect());
        }
        self.best = self.at.values().filter_map(rank).max();
        self.best
    }
}

/// Spreads the bits of a key over the hash. Nobody gains by choosing keys that collide in their own query.
#[derive(Default, Debug)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sliding_agrees_with_counting_anew() {
        slide(9);
    }

    #[test]
    fn sliding_over_values_that_hardly_repeat_agrees_too() {
        slide(2_000);
    }

    fn slide(distinct: i64) {
        let mut state = 3u64;
        let keys: Vec<i64> = (0..900)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as i64 % distinct
            })
            .collect();
        for width in [1, 2, 5, 30, 300] {
            let mut found = Frequency::default();
            for end in 1..=keys.len() {
                let first = end.saturating_sub(width);
                if first > 0 {
                    found.pop(keys[first - 1]);
                }
                found.push(end as u32 - 1, keys[end - 1]);
                let window = &keys[first..end];
                let count = |k: i64| window.iter().filter(|x| **x == k).count();
                let best = window.iter().map(|k| count(*k)).max().unwrap_or(0);
                let mode = window.iter().position(|k| count(*k) == best);
                assert_eq!(found.mode(), mode.map(|m| (first + m) as u32), "{window:?}");
                let distinct: std::collections::HashSet<&i64> = window.iter().collect();
                assert_eq!(found.distinct(), distinct.len());
            }
        }
    }
}
