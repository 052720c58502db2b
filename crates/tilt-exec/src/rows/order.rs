//! Order statistics of a window that slides: a sorted list while it is short, bits in the order of the values once it is long.

use std::collections::VecDeque;

/// From here on moving the elements of a sorted list costs more than counting bits.
const LONG: usize = 2048;

/// The keys of a window, of which the n-th in order can be asked for.
#[derive(Default, Debug)]
pub(crate) struct Order {
    sorted: Vec<i64>,
    /// Where they are, in order of time.
    positions: VecDeque<u32>,
    /// Instead of both, once the window has become long.
    ranked: Option<Ranked>,
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.ranked.as_ref().map_or(self.sorted.len(), |r| r.len)
    }

    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
        self.positions.clear();
        if let Some(ranked) = &mut self.ranked {
            ranked.clear();
        }
    }

    /// Adds the key of a position after all others; `keys` are those of all positions that can be added.
    pub(crate) fn push(&mut self, position: u32, key: i64, keys: impl FnOnce() -> Vec<(i64, u32)>) {
        if let Some(ranked) = &mut self.ranked {
            ranked.flip(position, true);
            return;
        }
        let at = self.sorted.partition_point(|k| *k <= key);
        self.sorted.insert(at, key);
        self.positions.push_back(position);
        if self.sorted.len() > LONG {
            let mut ranked = Ranked::new(keys());
            for position in self.positions.drain(..) {
                ranked.flip(position, true);
            }
            self.sorted = Vec::new();
            self.ranked = Some(ranked);
        }
    }

    /// Takes out the first position.
    pub(crate) fn pop(&mut self, position: u32, key: i64) {
        if let Some(ranked) = &mut self.ranked {
            ranked.flip(position, false);
            return;
        }
        let at = self.sorted.partition_point(|k| *k < key);
        debug_assert_eq!(self.sorted.get(at), Some(&key));
        self.sorted.remove(at);
        self.positions.pop_front();
    }

    /// The key with `n` keys before it in order, `n` below the length.
    pub(crate) fn nth(&self, n: usize) -> i64 {
        match &self.ranked {
            Some(ranked) => ranked.nth(n),
            None => self.sorted[n],
        }
    }
}

/// How many elements of a level one of the next counts.
const FAN: usize = 64;

/// A bit for each position, in the order of the keys, and how many of them are set in blocks of blocks.
#[derive(Debug)]
struct Ranked {
    /// All keys, sorted.
    keys: Vec<i64>,
    /// Where in that order each position is.
    rank: Vec<u32>,
    words: Vec<u64>,
    /// Level 0 counts the bits of `FAN` words, each other one `FAN` elements of that before it. The last has one element.
    levels: Vec<Vec<u32>>,
    len: usize,
}

impl Ranked {
    fn new(mut keys: Vec<(i64, u32)>) -> Self {
        keys.sort_unstable();
        let positions = keys.iter().map(|(_, p)| *p as usize + 1).max();
        let mut rank = vec![0; positions.unwrap_or(0)];
        for (i, (_, position)) in keys.iter().enumerate() {
            rank[*position as usize] = i as u32;
        }
        let words = vec![0; keys.len().div_ceil(64).max(1)];
        let mut levels = vec![vec![0; words.len().div_ceil(FAN)]];
        while let Some(last) = levels.last()
            && last.len() > 1
        {
            levels.push(vec![0; last.len().div_ceil(FAN)]);
        }
        Self {
            keys: keys.into_iter().map(|(key, _)| key).collect(),
            rank,
            words,
            levels,
            len: 0,
        }
    }

    fn clear(&mut self) {
        self.words.fill(0);
        for level in &mut self.levels {
            level.fill(0);
        }
        self.len = 0;
    }

    /// Adds a position that is not there, or takes out one that is.
    fn flip(&mut self, position: u32, add: bool) {
        let rank = self.rank[position as usize] as usize;
        let change = if add { 1 } else { u32::MAX };
        let mut at = rank / 64;
        self.words[at] ^= 1 << (rank % 64);
        for level in &mut self.levels {
            at /= FAN;
            level[at] = level[at].wrapping_add(change);
        }
        self.len = if add { self.len + 1 } else { self.len - 1 };
    }

    fn nth(&self, n: usize) -> i64 {
        let mut rest = n as u32;
        let mut at = 0;
        for level in self.levels.iter().rev().skip(1) {
            at = descend(at, &mut rest, |i| level[i]);
        }
        at = descend(at, &mut rest, |i| self.words[i].count_ones());
        let mut word = self.words[at];
        for _ in 0..rest {
            word &= word - 1;
        }
        self.keys[at * 64 + word.trailing_zeros() as usize]
    }
}

/// The element of a block that has the one with `rest` before it, counted from the block's start and then from the element's.
#[inline]
fn descend(block: usize, rest: &mut u32, count: impl Fn(usize) -> u32) -> usize {
    let mut at = block * FAN;
    loop {
        let here = count(at);
        if *rest < here {
            return at;
        }
        *rest -= here;
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slides a window over pseudo-random keys and compares with sorting it anew.
    fn slide(len: usize, width: usize, distinct: u64, every: usize) {
        let mut state = 7u64;
        let keys: Vec<i64> = (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                ((state >> 33) % distinct) as i64 - 50
            })
            .collect();
        let mut order = Order::default();
        let all = || keys.iter().copied().zip(0..).collect::<Vec<(i64, u32)>>();
        for end in 1..=len {
            let first = end.saturating_sub(width);
            if first > 0 {
                order.pop(first as u32 - 1, keys[first - 1]);
            }
            order.push(end as u32 - 1, keys[end - 1], all);
            assert_eq!(order.len(), end - first);
            if end % every == 0 {
                let mut sorted = keys[first..end].to_vec();
                sorted.sort_unstable();
                for n in [0, sorted.len() / 3, sorted.len() / 2, sorted.len() - 1] {
                    assert_eq!(order.nth(n), sorted[n], "{n} of {first}..{end}");
                }
            }
        }
        order.clear();
        assert_eq!(order.len(), 0);
        order.push(0, keys[0], all);
        assert_eq!(order.nth(0), keys[0]);
    }

    #[test]
    fn short_windows_agree_with_sorting() {
        slide(500, 1, 10, 1);
        slide(500, 17, 10, 1);
        slide(500, 100, 1_000_000, 7);
    }

    #[test]
    fn long_windows_agree_with_sorting() {
        slide(12_000, LONG + 100, 300, 501);
        slide(12_000, 9_000, 1_000_000, 997);
        slide(300_000, 5_000, 1_000_000, 29_989);
    }
}
