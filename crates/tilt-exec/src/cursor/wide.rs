//! Counting with vectors of four ticks, on machines that compare them: one comparison a row.

use super::count::go_on;

/// Ticks that are compared at once.
pub(super) const WIDTH: usize = 4;

/// Rows that are counted side by side: a count waits for that of the row before it about as long as eight take.
const LANES: usize = 8;

/// Rows for which it pays to start all lanes.
pub(super) const ROWS: usize = 16 * LANES;

/// Whether this machine has such vectors.
pub(super) fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Writes how many ticks each instant's limit has passed. The first `passed` ticks are below all limits, which never decrease, and the last
/// [`WIDTH`] above.
///
/// # Safety
/// The machine [is](is_supported) one that has the vectors.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,popcnt"))]
pub(super) unsafe fn count(
    ticks: &[i64],
    passed: usize,
    instants: &[i64],
    limit: impl Fn(i64) -> i64,
    out: &mut [u32],
) {
    let rows = instants.len() / LANES;
    let last = instants.len().checked_sub(1);
    let above = ticks.len().checked_sub(WIDTH);
    let (Some(last), Some(above)) = (last, above) else {
        return;
    };
    assert!(
        limit(instants[last]) < ticks[above] && instants.len() == out.len(),
        "ticks above all limits"
    );
    let start = |passed: usize, row: usize| {
        let limit = limit(instants[row]);
        passed + ticks[passed..].partition_point(|tick| *tick <= limit)
    };
    let mut lanes = [passed; LANES];
    for lane in 1..LANES {
        lanes[lane] = start(lanes[lane - 1], lane * rows);
    }
    for row in 0..rows {
        for (lane, passed) in lanes.iter_mut().enumerate() {
            let row = lane * rows + row;
            // SAFETY: there are `LANES * rows` instants or more, and as many in `out`. A count is at most `above`, because the limits are
            // below that tick, so that `WIDTH` ticks follow.
            unsafe {
                let limit = limit(*instants.get_unchecked(row));
                let below = below(ticks.as_ptr().add(*passed), limit);
                *passed += below;
                if below == WIDTH {
                    *passed = go_on(ticks, *passed, limit);
                }
                *out.get_unchecked_mut(row) = *passed as u32;
            }
        }
    }
    let mut passed = lanes[LANES - 1];
    for (row, out) in out.iter_mut().enumerate().skip(LANES * rows) {
        passed = start(passed, row);
        *out = passed as u32;
    }
}

/// How many of four ticks are not above the limit.
///
/// # Safety
/// There are four ticks.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn below(ticks: *const i64, limit: i64) -> usize {
    use std::arch::x86_64::{
        _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
        _mm256_set1_epi64x,
    };
    // SAFETY: the caller's promise; no alignment is asked for.
    let ticks = unsafe { _mm256_loadu_si256(ticks.cast()) };
    let above = _mm256_cmpgt_epi64(ticks, _mm256_set1_epi64x(limit));
    let above = _mm256_movemask_pd(_mm256_castsi256_pd(above));
    WIDTH - above.count_ones() as usize
}

/// As above, one by one.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn below(ticks: *const i64, limit: i64) -> usize {
    // SAFETY: the caller's promise.
    let ticks = unsafe { std::slice::from_raw_parts(ticks, WIDTH) };
    ticks.iter().filter(|tick| **tick <= limit).count()
}
