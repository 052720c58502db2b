//! How often each value occurs in a window that slides: `mode` and `n_unique`.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

/// The occurrences of each key in a window.
#[derive(Default, Debug)]
pub(crate) struct Frequency {
    /// Where each key occurs, in order. Keys without occurrence are left out.
    at: HashMap<i64, VecDeque<u32>, BuildHasherDefault<Mixer>>,
    /// Keys by how often they occur, then by where first: the last is the mode. Only kept if asked for.
    ranking: Option<BTreeSet<(usize, Reverse<u32>)>>,
    /// Lists to use again.
    spare: Vec<VecDeque<u32>>,
}

impl Frequency {
    /// With the ranking that [`Self::mode`] needs, or without.
    pub(crate) fn new(ranked: bool) -> Self {
        Self {
            ranking: ranked.then(BTreeSet::new),
            ..Self::default()
        }
    }

    pub(crate) fn clear(&mut self) {
        self.at.clear();
        if let Some(ranking) = &mut self.ranking {
            ranking.clear();
        }
    }

    /// Adds an occurrence after all others.
    pub(crate) fn push(&mut self, position: u32, key: i64) {
        let spare = &mut self.spare;
        let at = self.at.entry(key).or_insert_with(|| spare.pop().unwrap_or_default());
        if let Some(ranking) = &mut self.ranking {
            if let Some(first) = at.front() {
                ranking.remove(&(at.len(), Reverse(*first)));
            }
            let first = at.front().copied().unwrap_or(position);
            ranking.insert((at.len() + 1, Reverse(first)));
        }
        at.push_back(position);
    }

    /// Takes out the first occurrence of a key.
    pub(crate) fn pop(&mut self, key: i64) {
        let Some(at) = self.at.get_mut(&key) else {
            return;
        };
        let count = at.len();
        let first = at.pop_front();
        if let (Some(ranking), Some(first)) = (&mut self.ranking, first) {
            ranking.remove(&(count, Reverse(first)));
            if let Some(next) = at.front() {
                ranking.insert((at.len(), Reverse(*next)));
            }
        }
        if at.is_empty() {
            let list = self.at.remove(&key);
            self.spare.extend(list);
        }
    }

    /// How many keys occur.
    pub(crate) fn distinct(&self) -> usize {
        self.at.len()
    }

    /// Where the most frequent key occurs first; of several the one that occurs first.
    pub(crate) fn mode(&self) -> Option<u32> {
        let (_, Reverse(first)) = self.ranking.as_ref()?.last()?;
        Some(*first)
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
        let mut state = 3u64;
        let keys: Vec<i64> = (0..400)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as i64 % 9
            })
            .collect();
        for width in [1, 2, 5, 30] {
            let mut found = Frequency::new(true);
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
                let distinct = (0..9).filter(|k| count(*k) > 0).count();
                assert_eq!(found.distinct(), distinct);
            }
        }
    }
}
