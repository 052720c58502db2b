//! Order statistics of a window that slides: a sorted list while it is short, counts over ranks once it is long.

use std::collections::HashMap;

/// From here on moving the elements of a sorted list costs more than walking a tree.
const LONG: usize = 4096;

/// A multiset of keys of which the n-th can be asked for.
#[derive(Debug)]
pub(crate) struct Order {
    sorted: Vec<i64>,
    /// Once the list has become long, for good.
    ranked: Option<Ranked>,
}

impl Order {
    pub(crate) fn new() -> Self {
        Self {
            sorted: Vec::new(),
            ranked: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ranked.as_ref().map_or(self.sorted.len(), |r| r.len)
    }

    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
        if let Some(ranked) = &mut self.ranked {
            ranked.clear();
        }
    }

    /// Adds a key, one of `universe`.
    pub(crate) fn insert(&mut self, key: i64, universe: impl FnOnce() -> Vec<i64>) {
        if let Some(ranked) = &mut self.ranked {
            ranked.change(key, true);
            return;
        }
        let at = self.sorted.partition_point(|k| *k <= key);
        self.sorted.insert(at, key);
        if self.sorted.len() > LONG {
            let mut ranked = Ranked::new(universe());
            for key in self.sorted.drain(..) {
                ranked.change(key, true);
            }
            self.ranked = Some(ranked);
        }
    }

    /// Takes out a key that is there.
    pub(crate) fn remove(&mut self, key: i64) {
        if let Some(ranked) = &mut self.ranked {
            ranked.change(key, false);
            return;
        }
        let at = self.sorted.partition_point(|k| *k < key);
        debug_assert_eq!(self.sorted.get(at), Some(&key));
        self.sorted.remove(at);
    }

    /// The key with `n` keys before it in order, `n` below the length.
    pub(crate) fn nth(&self, n: usize) -> i64 {
        match &self.ranked {
            Some(ranked) => ranked.nth(n),
            None => self.sorted[n],
        }
    }
}

/// How many there are of each key that can be: a Fenwick tree over their ranks.
#[derive(Debug)]
struct Ranked {
    /// All keys, sorted, each once.
    keys: Vec<i64>,
    rank: HashMap<i64, u32>,
    /// Element `i` counts the ranks `i - (i & -i) .. i`.
    tree: Vec<u32>,
    len: usize,
}

impl Ranked {
    fn new(mut keys: Vec<i64>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let rank = keys.iter().copied().zip(0..).collect();
        let tree = vec![0; keys.len() + 1];
        Self {
            keys,
            rank,
            tree,
            len: 0,
        }
    }

    fn clear(&mut self) {
        self.tree.fill(0);
        self.len = 0;
    }

    fn change(&mut self, key: i64, add: bool) {
        let mut i = self.rank[&key] as usize + 1;
        while let Some(count) = self.tree.get_mut(i) {
            *count = if add { *count + 1 } else { *count - 1 };
            i += i & i.wrapping_neg();
        }
        self.len = if add { self.len + 1 } else { self.len - 1 };
    }

    fn nth(&self, n: usize) -> i64 {
        let mut rest = n as u32;
        let mut at = 0;
        let mut step = self.tree.len().next_power_of_two();
        while step > 0 {
            if let Some(count) = self.tree.get(at + step)
                && *count <= rest
            {
                at += step;
                rest -= count;
            }
            step /= 2;
        }
        self.keys[at]
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
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 33) % distinct) as i64 - 50
            })
            .collect();
        let mut order = Order::new();
        for end in 1..=len {
            let first = end.saturating_sub(width);
            if first > 0 {
                order.remove(keys[first - 1]);
            }
            order.insert(keys[end - 1], || keys.clone());
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
        order.insert(keys[0], || keys.clone());
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
    }
}
