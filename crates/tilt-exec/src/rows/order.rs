//! Order statistics of a window that slides: a sorted list while it is short; once it is long, bits in the order of all values, or, where values are still to come, sorted blocks.

use std::{collections::VecDeque, ops::Range};

use crate::memory::prefetch;

/// From here on moving the elements of a sorted list costs more than counting bits.
const LONG: usize = 2048;

/// The keys of a window, of which the n-th in order can be asked for.
#[derive(Debug)]
pub(crate) struct Order {
    sorted: Vec<i64>,
    /// Where they are, in order of time.
    positions: VecDeque<u32>,
    /// Instead of both, once the window has become long.
    long: Option<Long>,
    /// Whether there may be keys later that are not known now.
    grows: bool,
}

#[derive(Debug)]
enum Long {
    Ranked(Ranked),
    Blocks(Blocks),
}

impl Order {
    /// No keys. If more `grows` than is known, keys are not ranked once and for all.
    pub(crate) fn new(grows: bool) -> Self {
        Self {
            sorted: Vec::new(),
            positions: VecDeque::new(),
            long: None,
            grows,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.long {
            Some(Long::Ranked(ranked)) => ranked.len,
            Some(Long::Blocks(blocks)) => blocks.len,
            None => self.sorted.len(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
        self.positions.clear();
        match &mut self.long {
            Some(Long::Ranked(ranked)) => ranked.clear(),
            Some(Long::Blocks(blocks)) => *blocks = Blocks::default(),
            None => {}
        }
    }

    /// Adds the key of a position after all others; `keys` are those of all positions that can be added.
    pub(crate) fn push(&mut self, position: u32, key: i64, keys: impl FnOnce() -> Vec<(i64, u32)>) {
        match &mut self.long {
            Some(Long::Ranked(ranked)) => return ranked.flip(position, true),
            Some(Long::Blocks(blocks)) => return blocks.insert(key),
            None => {}
        }
        let at = self.sorted.partition_point(|k| *k <= key);
        self.sorted.insert(at, key);
        self.positions.push_back(position);
        if self.sorted.len() <= LONG {
            return;
        }
        let (sorted, positions) = (
            std::mem::take(&mut self.sorted),
            std::mem::take(&mut self.positions),
        );
        self.long = Some(if self.grows {
            Long::Blocks(Blocks::of(&sorted))
        } else {
            let mut ranked = Ranked::new(keys());
            for position in positions {
                ranked.flip(position, true);
            }
            Long::Ranked(ranked)
        });
    }

    /// Takes out the first position.
    pub(crate) fn pop(&mut self, position: u32, key: i64) {
        match &mut self.long {
            Some(Long::Ranked(ranked)) => return ranked.flip(position, false),
            Some(Long::Blocks(blocks)) => return blocks.remove(key),
            None => {}
        }
        let at = self.sorted.partition_point(|k| *k < key);
        debug_assert_eq!(self.sorted.get(at), Some(&key));
        self.sorted.remove(at);
        self.positions.pop_front();
    }

    /// The key with `n` keys before it in order, `n` below the length.
    pub(crate) fn nth(&mut self, n: usize) -> i64 {
        match &mut self.long {
            Some(Long::Ranked(ranked)) => ranked.nth(n),
            Some(Long::Blocks(blocks)) => blocks.nth(n),
            None => self.sorted[n],
        }
    }
}

/// How long a block may become: a key moves half of one on average, and what is looked through first is a key of each block.
const BLOCK: usize = 256;

/// Sorted keys in blocks, none of them empty, so that few keys move when one is added.
#[derive(Default, Debug)]
struct Blocks {
    keys: Vec<Vec<i64>>,
    /// The last key of each.
    lasts: Vec<i64>,
    len: usize,
    /// The block that was asked for last, and how many keys are before it: the next is near.
    near: usize,
    before: usize,
}

impl Blocks {
    fn of(sorted: &[i64]) -> Self {
        let blocks = sorted.chunks(BLOCK / 2);
        Self {
            lasts: blocks.clone().map(|block| block[block.len() - 1]).collect(),
            keys: blocks.map(room_for).collect(),
            len: sorted.len(),
            near: 0,
            before: 0,
        }
    }

    /// The first block whose last key is not below `key`, or the last of all.
    fn block_of(&self, key: i64) -> usize {
        let at = self.lasts.partition_point(|last| *last < key);
        at.min(self.keys.len().saturating_sub(1))
    }

    fn insert(&mut self, key: i64) {
        self.len += 1;
        if self.keys.is_empty() {
            self.keys.push(room_for(&[key]));
            self.lasts.push(key);
            return;
        }
        let at = self.block_of(key);
        let block = &mut self.keys[at];
        fetch(block);
        block.insert(block.partition_point(|k| *k < key), key);
        self.lasts[at] = self.lasts[at].max(key);
        self.before += usize::from(at < self.near);
        if block.len() == BLOCK {
            let rest = room_for(&block[BLOCK / 2..]);
            block.truncate(BLOCK / 2);
            self.lasts.insert(at, block[BLOCK / 2 - 1]);
            self.keys.insert(at + 1, rest);
            self.near += usize::from(at < self.near);
        }
    }

    /// Takes out a key that is there.
    fn remove(&mut self, key: i64) {
        self.len -= 1;
        let at = self.block_of(key);
        let block = &mut self.keys[at];
        fetch(block);
        let place = block.partition_point(|k| *k < key);
        debug_assert_eq!(block.get(place), Some(&key));
        block.remove(place);
        self.before -= usize::from(at < self.near);
        if let Some(last) = block.last() {
            self.lasts[at] = *last;
        }
        let length = block.len();
        let next = self.keys.get(at + 1).map(Vec::len);
        if length == 0 || next.is_some_and(|next| length + next <= BLOCK / 4) {
            let block = self.keys.remove(at);
            self.lasts.remove(at);
            if let Some(next) = self.keys.get_mut(at) {
                next.splice(0..0, block);
            }
            if at < self.near {
                self.near -= 1;
                // It has these keys now.
                self.before -= if at == self.near { length } else { 0 };
            }
        }
    }

    fn nth(&mut self, n: usize) -> i64 {
        while n < self.before {
            self.near -= 1;
            self.before -= self.keys[self.near].len();
        }
        loop {
            let block = &self.keys[self.near];
            if let Some(key) = block.get(n - self.before) {
                return *key;
            }
            self.before += block.len();
            self.near += 1;
        }
    }
}

/// A block of some keys.
fn room_for(keys: &[i64]) -> Vec<i64> {
    let mut block = Vec::with_capacity(BLOCK);
    block.extend_from_slice(keys);
    block
}

/// Asks for a block that is searched next. Of a long window it is in no near cache: its lines come together, and not one after the other as a search needs them.
fn fetch(block: &[i64]) {
    let Range { start, end } = block.as_ptr_range();
    prefetch(start.cast()..end.cast());
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
        slide_in(Order::new(false), len, width, distinct, every);
        slide_in(Order::new(true), len, width, distinct, every);
    }

    fn slide_in(mut order: Order, len: usize, width: usize, distinct: u64, every: usize) {
        let mut state = 7u64;
        let keys: Vec<i64> = (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                ((state >> 33) % distinct) as i64 - 50
            })
            .collect();
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

    /// Keys that drift leave blocks behind them, which become empty or join the next.
    #[test]
    fn windows_of_keys_that_drift_agree_with_sorting() {
        for sign in [1, -1] {
            let mut order = Order::new(true);
            let key = |i: i64| sign * (i / 3 + (i * 7919) % 900);
            let mut first = 0;
            for i in 0..40_000 {
                // Now and then many leave at once.
                let most = if i % 9000 == 0 { 2300 } else { 3000 };
                while order.len() >= most {
                    order.pop(0, key(first));
                    first += 1;
                }
                order.push(0, key(i), Vec::new);
                if i % 97 == 0 {
                    let mut sorted: Vec<i64> = (first..=i).map(key).collect();
                    sorted.sort_unstable();
                    let last = sorted.len() - 1;
                    for n in [last / 2, 0, last, last / 3, last - last / 3] {
                        assert_eq!(order.nth(n), sorted[n], "{n} of {} at {i}", sorted.len());
                    }
                }
            }
        }
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
