//! Keyed windows over dense keys, in private arrays.

use std::ops::AddAssign;

/// Rows of a keyed tumbling window.
#[derive(Default)]
pub(crate) struct Groups<V> {
    /// Ends of windows.
    pub(crate) ends: Vec<i64>,
    /// Keys that occur, in order.
    pub(crate) keys: Vec<i32>,
    /// Their results.
    pub(crate) values: Vec<V>,
}

impl<V> Groups<V> {
    fn clear(&mut self) {
        self.ends.clear();
        self.keys.clear();
        self.values.clear();
    }

    fn push(&mut self, end: i64, key: usize, value: V) {
        self.ends.push(end);
        self.keys.push(key as i32);
        self.values.push(value);
    }
}

/// The rows of each tumbling window that is not empty, with its end.
fn windows(stamps: &[i64], window: i64, mut body: impl FnMut(i64, std::ops::Range<usize>)) {
    let mut begin = 0;
    while begin < stamps.len() {
        let end = (stamps[begin] - 1).div_euclid(window) * window + window;
        let rows = begin..begin + stamps[begin..].partition_point(|t| *t <= end);
        begin = rows.end;
        body(end, rows);
    }
}

/// How many rows have `kind` 0, for each key and window. `counts` has a zero for every key, before and after.
pub(crate) fn count(
    stamps: &[i64],
    keys: &[i32],
    kinds: &[i32],
    window: i64,
    counts: &mut [i64],
    out: &mut Groups<i64>,
) {
    out.clear();
    windows(stamps, window, |end, rows| {
        for (key, kind) in keys[rows.clone()].iter().zip(&kinds[rows]) {
            counts[*key as usize] += i64::from(*kind == 0);
        }
        for (key, count) in counts.iter_mut().enumerate() {
            if *count > 0 {
                out.push(end, key, *count);
                *count = 0;
            }
        }
    });
}

/// Rows of which those that pass are gathered at a time.
const BLOCK: usize = 1024;

/// The sum of the values of rows with `kind` 0, for each key and window. `sums` has zeros (sum and count) for every key,
/// before and after.
pub(crate) fn sum<V: Copy + Into<S>, S: Copy + Default + AddAssign>(
    stamps: &[i64],
    (keys, kinds, values): (&[i32], &[i32], &[V]),
    window: i64,
    sums: &mut [(S, i64)],
    out: &mut Groups<S>,
) {
    out.clear();
    windows(stamps, window, |end, rows| {
        for block in (rows.start..rows.end).step_by(BLOCK) {
            let rows = block..rows.end.min(block + BLOCK);
            // Which rows pass, gathered first: only a third of them go on to the sums, and none is predicted.
            let (mut passing, mut count) = ([0_u32; BLOCK], 0);
            for (i, kind) in kinds[rows.clone()].iter().enumerate() {
                passing[count] = i as u32;
                count += usize::from(*kind == 0);
            }
            let (keys, values) = (&keys[rows.clone()], &values[rows]);
            for i in &passing[..count] {
                let (sum, count) = &mut sums[keys[*i as usize] as usize];
                *sum += values[*i as usize].into();
                *count += 1;
            }
        }
        for (key, group) in sums.iter_mut().enumerate() {
            if group.1 > 0 {
                out.push(end, key, group.0);
                *group = (S::default(), 0);
            }
        }
    });
}
