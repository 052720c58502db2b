//! Distances between times: whether they are in order, coincide, have a period.

use arrow_buffer::ScalarBuffer;

/// Fewer times are not worth another thread.
const ROWS: usize = 1 << 17;
/// Fewer are not worth wider vectors: small pushes of a live run have so many.
const FEW: usize = 1 << 5;

/// The least and the largest distance between neighbouring times; without neighbours the least is that of nothing, [`i64::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gaps {
    /// Negative if times are not in order.
    pub min: i64,
    /// At least 0.
    pub max: i64,
}

/// Times that were looked through, and what was found. They are held, so that other times are not taken for them.
#[derive(Clone, Debug)]
pub struct KnownGaps {
    times: ScalarBuffer<i64>,
    gaps: Gaps,
}

impl KnownGaps {
    /// Looks through times on so many threads, if there are many. Nobody may change them from now on.
    pub fn of(times: ScalarBuffer<i64>, threads: usize) -> Self {
        let gaps = Gaps::of(&times, threads);
        Self { times, gaps }
    }

    /// What was found.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// What was found, if these times are the same memory.
    pub fn gaps_of(&self, times: &[i64]) -> Option<Gaps> {
        std::ptr::eq(&raw const *self.times, times).then_some(self.gaps)
    }
}

impl PartialEq for KnownGaps {
    fn eq(&self, other: &Self) -> bool {
        self.gaps_of(&other.times).is_some()
    }
}

impl Eq for KnownGaps {}

impl Gaps {
    const NONE: Self = Self {
        min: i64::MAX,
        max: 0,
    };

    /// The gaps of all times, looked through on so many threads, if there are many.
    #[inline]
    pub fn of(times: &[i64], threads: usize) -> Self {
        if times.len() < FEW {
            return Self::of_sorted(times).unwrap_or_else(|| Self::of_any(times));
        }
        Self::of_many(times, threads)
    }

    fn of_many(times: &[i64], threads: usize) -> Self {
        let parts = threads.min(times.len() / ROWS);
        if parts < 2 {
            return Self::of_part(times);
        }
        // Each part has the first time of the next one, so that no gap is left out.
        let rows = times.len().div_ceil(parts);
        let part = |number: usize| &times[number * rows..times.len().min((number + 1) * rows + 1)];
        std::thread::scope(|scope| {
            let others = (1..parts).map(|number| scope.spawn(move || Self::of_part(part(number))));
            let others: Vec<_> = others.collect();
            let mut all = Self::of_part(part(0));
            for other in others {
                let other = other.join().expect("gaps are found without panic");
                all = Self {
                    min: all.min.min(other.min),
                    max: all.max.max(other.max),
                };
            }
            all
        })
    }

    fn of_part(times: &[i64]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has what the function needs.
            let sorted = unsafe { Self::of_sorted_avx2(times) };
            return sorted.unwrap_or_else(|| Self::of_any(times));
        }
        Self::of_sorted(times).unwrap_or_else(|| Self::of_any(times))
    }

    /// [`of_sorted`](Self::of_sorted) by wider vectors: it reads all times of every run.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn of_sorted_avx2(times: &[i64]) -> Option<Self> {
        Self::of_sorted(times)
    }

    /// `None` if times are not sorted, or a gap does not fit.
    #[inline]
    fn of_sorted(times: &[i64]) -> Option<Self> {
        let (mut min, mut max, mut unsorted) = (i64::MAX, 0, 0);
        // Neighbours as two slices: no bounds checks in the loop.
        for (a, b) in times.iter().zip(times.get(1..).unwrap_or_default()) {
            let gap = b.wrapping_sub(*a);
            unsorted |= i64::from(a > b);
            min = min.min(gap);
            max = max.max(gap);
        }
        (unsorted == 0 && min >= 0).then_some(Self { min, max })
    }

    fn of_any(times: &[i64]) -> Self {
        let neighbours = times.iter().zip(times.get(1..).unwrap_or_default());
        neighbours.fold(Self::NONE, |gaps, (a, b)| {
            let gap = b.saturating_sub(*a);
            Self {
                min: gaps.min.min(gap),
                max: gaps.max.max(gap),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gap_is_lost_between_threads() {
        let mut times: Vec<i64> = (0..3 * ROWS as i64 + 5).map(|i| 10 * i).collect();
        for (at, by) in [
            (0, -3),
            (ROWS, 4),
            (2 * ROWS + 7, -20),
            (times.len() - 1, 9),
        ] {
            let before = times[at];
            times[at] += by;
            for threads in [2, 3, 7] {
                assert_eq!(Gaps::of(&times, threads), Gaps::of(&times, 1), "{at}");
            }
            times[at] = before;
        }
        assert_eq!(Gaps::of(&[], 2), Gaps::NONE);
        assert_eq!(Gaps::of(&[7], 2), Gaps::NONE);
        let known = KnownGaps::of(times.clone().into(), 2);
        assert_eq!(known.gaps(), Gaps::of(&times, 1));
        assert_eq!(known.gaps_of(&known.times), Some(known.gaps()));
        assert_eq!(known.gaps_of(&known.times[1..]), None);
        assert_eq!(known.gaps_of(&times), None);
        let far = [i64::MIN, i64::MAX];
        assert_eq!(Gaps::of(&far, 1).max, i64::MAX);
    }
}
