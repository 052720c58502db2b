//! The least or greatest key of a window that slides, and where it is first.

use std::collections::VecDeque;

/// Candidates: each beats all that come after it, and is beaten or equalled by none that comes before.
#[derive(Debug)]
pub(crate) struct Extreme {
    greatest: bool,
    candidates: VecDeque<(u32, i64)>,
}

impl Extreme {
    pub(crate) fn new(greatest: bool) -> Self {
        Self {
            greatest,
            candidates: VecDeque::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
    }

    /// Adds a key after all others.
    pub(crate) fn push(&mut self, position: u32, key: i64) {
        // Of equal keys the first one counts, so it stays.
        while self.candidates.back().is_some_and(|(_, last)| {
            if self.greatest {
                key > *last
            } else {
                key < *last
            }
        }) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((position, key));
    }

    /// Takes out the first position if it is still there.
    pub(crate) fn pop(&mut self, position: u32) {
        if self
            .candidates
            .front()
            .is_some_and(|(first, _)| *first == position)
        {
            self.candidates.pop_front();
        }
    }

    /// Where the extreme is first.
    pub(crate) fn first(&self) -> Option<u32> {
        self.candidates.front().map(|(position, _)| *position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sliding_agrees_with_searching_anew() {
        let mut state = 11u64;
        let keys: Vec<i64> = (0..300)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as i64 % 12
            })
            .collect();
        for (width, greatest) in [(1, true), (4, false), (4, true), (25, false), (25, true)] {
            let mut found = Extreme::new(greatest);
            for end in 1..=keys.len() {
                let first = end.saturating_sub(width);
                if first > 0 {
                    found.pop(first as u32 - 1);
                }
                found.push(end as u32 - 1, keys[end - 1]);
                let window = &keys[first..end];
                let best = if greatest {
                    window.iter().max()
                } else {
                    window.iter().min()
                };
                let at = window.iter().position(|k| Some(k) == best);
                assert_eq!(found.first(), at.map(|at| (first + at) as u32));
            }
        }
    }
}
