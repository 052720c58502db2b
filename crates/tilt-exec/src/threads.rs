//! Rows shared out to threads, a part to each.

use std::ops::Range;

use rayon::prelude::*;

use crate::pieces::pool;

/// Fewer rows are not worth another thread.
const ROWS: usize = 1 << 14;

/// How many rows a part has; all if one thread does the work.
fn part_rows(rows: usize, threads: usize) -> usize {
    rows.div_ceil(threads.max(1)).max(ROWS.min(rows)).max(1)
}

/// What is found in each part of some rows, in order; at least one part.
pub(crate) fn in_parts<R: Send>(
    rows: usize,
    threads: usize,
    part: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let size = part_rows(rows, threads);
    let parts = rows.div_ceil(size).max(1);
    let of = |number: usize| part(number * size..rows.min((number + 1) * size));
    if parts == 1 {
        return vec![of(0)];
    }
    pool(threads).install(|| (0..parts).into_par_iter().map(of).collect())
}

/// Fills memory part by part, the same parts as [`in_parts`] has: their number, their rows and what is to be filled.
pub(crate) fn fill<T: Send>(
    out: &mut [T],
    threads: usize,
    part: impl Fn(usize, Range<usize>, &mut [T]) + Sync,
) {
    fill_and_find(out, threads, part);
}

/// As [`fill`], with what each part gives, in order; at least one.
pub(crate) fn fill_and_find<T: Send, R: Send>(
    out: &mut [T],
    threads: usize,
    part: impl Fn(usize, Range<usize>, &mut [T]) -> R + Sync,
) -> Vec<R> {
    let (rows, size) = (out.len(), part_rows(out.len(), threads));
    let of = |(number, out): (usize, &mut [T])| {
        part(number, number * size..number * size + out.len(), out)
    };
    if rows <= size {
        return vec![of((0, out))];
    }
    let parts = out.par_chunks_mut(size).enumerate();
    pool(threads).install(|| parts.map(of).collect())
}
