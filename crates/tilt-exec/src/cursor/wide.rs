//! Windows of groups of eight rows, on machines with vectors.
//!
//! Counting compares each tick with the limits of all eight at once, without a branch.

/// Rows that are counted at once.
const GROUP: usize = 8;

/// Ticks that are compared before it is asked whether there are more: half as many again as a group passes where there is a tick a row.
pub(super) const WIDTH: usize = 12;

/// Rows for which it pays to start.
pub(super) const ROWS: usize = 128;

/// Whether this machine has such vectors.
pub(super) fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Writes how many ticks each instant's limit has passed. The first `passed` ticks are below all limits, which never decrease, and the last
/// [`WIDTH`] above.
///
/// # Safety
/// The machine [is](is_supported) one that has the vectors.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
pub(super) unsafe fn count(
    ticks: &[i64],
    passed: usize,
    instants: &[i64],
    limit: impl Fn(i64) -> i64,
    out: &mut [u32],
) {
    let last = instants.last().map(|t| limit(*t));
    let above = ticks.len().checked_sub(WIDTH);
    assert!(
        last.zip(above)
            .is_none_or(|(last, above)| last < ticks[above])
            && above.is_some_and(|above| passed <= above)
            && instants.len() == out.len(),
        "ticks above all limits"
    );
    let start = |passed: usize, row: usize| {
        let limit = limit(instants[row]);
        passed + ticks[passed..].partition_point(|tick| *tick <= limit)
    };
    // Distances that fit into half a word are compared twice as many at once. No limit is above the last tick.
    let is_close = match (ticks.get(passed), ticks.last(), instants.first()) {
        (Some(tick), Some(last), Some(t)) => {
            let least = limit(*t).min(*tick);
            i32::try_from(last.wrapping_sub(least) as u64).is_ok()
        }
        _ => false,
    };
    // A group waits for the one before it about as long as two take: two halves of the rows are counted side by side.
    let half = instants.len() / (2 * GROUP) * GROUP;
    let mut passed = [passed; 2];
    if half > 0 {
        passed[1] = start(passed[0], half);
    }
    for group in (0..half).step_by(GROUP) {
        for (passed, first) in passed.iter_mut().zip([group, half + group]) {
            // SAFETY: `2 * half` rows have an instant and a place for their count; limits are below the last `WIDTH` ticks, and so is what has
            // passed.
            unsafe {
                let some = &*instants.as_ptr().add(first).cast::<[i64; GROUP]>();
                let counts = &mut *out.as_mut_ptr().add(first).cast::<[u32; GROUP]>();
                let limits = some.map(&limit);
                *passed = if is_close {
                    count_close(ticks, *passed, &limits, counts)
                } else {
                    count_group(ticks, *passed, &limits, counts)
                };
            }
        }
    }
    let mut passed = passed[1];
    for (row, out) in out.iter_mut().enumerate().skip(2 * half) {
        passed = start(passed, row);
        *out = passed as u32;
    }
}

/// Counts for a group; returns the last count.
///
/// # Safety
/// [`WIDTH`] ticks above all limits follow the first `passed`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn count_group(
    ticks: &[i64],
    passed: usize,
    limits: &[i64; GROUP],
    out: &mut [u32; GROUP],
) -> usize {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_castps_si256, _mm256_castsi256_ps,
        _mm256_cmpgt_epi64, _mm256_extract_epi32, _mm256_loadu_si256, _mm256_permutevar8x32_epi32,
        _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setzero_si256,
        _mm256_shuffle_ps, _mm256_storeu_si256,
    };
    #[expect(clippy::cast_ptr_alignment, reason = "no load asks for it")]
    let halves = limits.as_ptr().cast::<__m256i>();
    // SAFETY: there are eight limits; no alignment is asked for.
    let (low, high) = unsafe {
        (
            _mm256_loadu_si256(halves),
            _mm256_loadu_si256(halves.add(1)),
        )
    };
    let mut next = passed;
    // Minus how many of the ticks so far are above each limit, in two chains of additions.
    let zero = _mm256_setzero_si256();
    let (mut even, mut odd) = ((zero, zero), (zero, zero));
    loop {
        // SAFETY: ticks that are not above the last limit are followed by `WIDTH` that are.
        let some = unsafe { ticks.get_unchecked(next..next + WIDTH) };
        for pair in some.chunks_exact(2) {
            let tick = _mm256_set1_epi64x(pair[0]);
            even.0 = _mm256_add_epi64(even.0, _mm256_cmpgt_epi64(tick, low));
            even.1 = _mm256_add_epi64(even.1, _mm256_cmpgt_epi64(tick, high));
            let tick = _mm256_set1_epi64x(pair[1]);
            odd.0 = _mm256_add_epi64(odd.0, _mm256_cmpgt_epi64(tick, low));
            odd.1 = _mm256_add_epi64(odd.1, _mm256_cmpgt_epi64(tick, high));
        }
        next += WIDTH;
        if some[WIDTH - 1] > limits[GROUP - 1] {
            break;
        }
    }
    let low = _mm256_castsi256_ps(_mm256_add_epi64(even.0, odd.0));
    let high = _mm256_castsi256_ps(_mm256_add_epi64(even.1, odd.1));
    // The low words of all eight, in order.
    let words = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(low, high));
    let words = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7));
    let counts = _mm256_add_epi32(words, _mm256_set1_epi32(next as i32));
    // SAFETY: there is a place for each.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), counts) }
    _mm256_extract_epi32::<7>(counts) as u32 as usize
}

/// As [`count_group`] where all differences of ticks and limits fit into 32 bits with a sign.
///
/// # Safety
/// As for [`count_group`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn count_close(
    ticks: &[i64],
    passed: usize,
    limits: &[i64; GROUP],
    out: &mut [u32; GROUP],
) -> usize {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_extract_epi32,
        _mm256_loadu_si256, _mm256_permute4x64_epi64, _mm256_set1_epi32, _mm256_setzero_si256,
        _mm256_shuffle_ps, _mm256_srai_epi32, _mm256_storeu_si256, _mm256_sub_epi32,
    };
    #[expect(clippy::cast_ptr_alignment, reason = "no load asks for it")]
    let halves = limits.as_ptr().cast::<__m256i>();
    // SAFETY: there are eight limits; no alignment is asked for.
    let (low, high) = unsafe {
        (
            _mm256_castsi256_ps(_mm256_loadu_si256(halves)),
            _mm256_castsi256_ps(_mm256_loadu_si256(halves.add(1))),
        )
    };
    // The low words of all eight, in order.
    let words = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(low, high));
    let words = _mm256_permute4x64_epi64::<0xD8>(words);
    let mut next = passed;
    // Minus how many of the ticks so far are above each limit, in two chains of additions.
    let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    let above = |tick: i64| {
        let before = _mm256_sub_epi32(words, _mm256_set1_epi32(tick as i32));
        _mm256_srai_epi32::<31>(before)
    };
    loop {
        // SAFETY: ticks that are not above the last limit are followed by `WIDTH` that are.
        let some = unsafe { ticks.get_unchecked(next..next + WIDTH) };
        for pair in some.chunks_exact(2) {
            even = _mm256_add_epi32(even, above(pair[0]));
            odd = _mm256_add_epi32(odd, above(pair[1]));
        }
        next += WIDTH;
        if some[WIDTH - 1] > limits[GROUP - 1] {
            break;
        }
    }
    let counts = _mm256_add_epi32(even, odd);
    let counts = _mm256_add_epi32(counts, _mm256_set1_epi32(next as i32));
    // SAFETY: there is a place for each.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), counts) }
    _mm256_extract_epi32::<7>(counts) as u32 as usize
}

#[cfg(not(target_arch = "x86_64"))]
use count_group as count_close;

/// As above, one by one.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn count_group(
    ticks: &[i64],
    passed: usize,
    limits: &[i64; GROUP],
    out: &mut [u32; GROUP],
) -> usize {
    let mut passed = passed;
    for (limit, out) in limits.iter().zip(out) {
        passed += ticks[passed..]
            .iter()
            .take_while(|tick| *tick <= limit)
            .count();
        *out = passed as u32;
    }
    passed
}

/// Where rows find the parts of windows from `first` to before `split` and from there to before `end`, in columns whose element for position `p` is `p + pad`:
/// the first of the early part and the last of the late part, 0 for a part that is empty.
pub(crate) fn parts(bounds: [&[u32]; 3], pad: u32, out: [&mut [u32]; 2]) {
    #[cfg(target_arch = "x86_64")]
    if is_supported() {
        // SAFETY: the machine has the vectors.
        return unsafe { parts_by_vectors(bounds, pad, out) };
    }
    parts_of_rows(bounds, pad, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn parts_by_vectors(bounds: [&[u32]; 3], pad: u32, out: [&mut [u32]; 2]) {
    parts_of_rows(bounds, pad, out);
}

#[expect(
    clippy::inline_always,
    reason = "it takes on the vectors of its caller"
)]
#[inline(always)]
fn parts_of_rows([first, split, end]: [&[u32]; 3], pad: u32, [early, late]: [&mut [u32]; 2]) {
    let bounds = first.iter().zip(split).zip(end);
    for (((first, split), end), (early, late)) in bounds.zip(early.iter_mut().zip(late)) {
        *early = if first < split { first + pad } else { 0 };
        *late = if split < end { end - 1 + pad } else { 0 };
    }
}
