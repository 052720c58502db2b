//! Where the rows of an input go when they are grouped by key, and columns brought there and back.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, ScalarBuffer};
use tilt_codegen::lir::LANES;

use crate::{
    keys::Ids,
    memory::{Out, filled, room},
    series::Leaf,
    threads::{fill, in_parts},
};

/// A place for each row, all different: those of one key together, keys and the rows of each in order.
pub(super) struct Places {
    of_rows: ScalarBuffer<u32>,
    /// How many places there are, those of rows that were grouped before included.
    len: usize,
    before: Vec<Before>,
    threads: usize,
}

/// Rows of a key that were grouped before.
#[derive(Clone, Default)]
pub(super) struct Before {
    pub(super) key: usize,
    /// Where they were.
    pub(super) rows: Range<usize>,
    /// How much further they are moved in time.
    pub(super) further: i64,
    /// Where the first of them goes now.
    place: usize,
}

impl Before {
    pub(super) fn new(rows: Range<usize>, further: i64) -> Self {
        Self {
            rows,
            further,
            ..Self::default()
        }
    }
}

impl Places {
    /// The places of so many rows by their keys, and where each key begins, followed by the end: a counting sort.
    pub(super) fn by_key(rows: usize, ids: &Ids, keys: usize, threads: usize) -> (Self, Vec<u32>) {
        Self::after(|_| Before::default(), rows, ids, keys, threads)
    }

    /// The same, with room for rows of each key before them, which were grouped before.
    pub(super) fn after(
        of_key: impl Fn(usize) -> Before,
        rows: usize,
        ids: &Ids,
        keys: usize,
        threads: usize,
    ) -> (Self, Vec<u32>) {
        // Each part of the rows has counts of its own, from which follows where its rows of each key begin.
        let mut begins: Vec<Vec<u32>> = in_parts(rows, threads, |rows| {
            let mut counts = vec![0; keys];
            ids.each(rows, |_, id| counts[id as usize] += 1);
            counts
        });
        let mut bounds = Vec::with_capacity(keys + 1);
        let mut before = Vec::new();
        let mut next = 0;
        for key in 0..keys {
            bounds.push(next);
            let grouped = of_key(key);
            if !grouped.rows.is_empty() {
                let place = next as usize;
                next += grouped.rows.len() as u32;
                before.push(Before {
                    key,
                    place,
                    ..grouped
                });
            }
            for part in &mut begins {
                next += std::mem::replace(&mut part[key], next);
            }
        }
        bounds.push(next);
        // Nothing is brought there yet: a pass that looks up places and writes to them takes longer than one for each (docs/benchmarks_python.md).
        let of_rows = filled(rows, |out: &mut [u32]| {
            fill(out, threads, |part, rows, out| {
                let mut next = begins[part].clone();
                let first = rows.start;
                ids.blocks(rows, |rows, ids| {
                    let out = &mut out[rows.start - first..rows.end - first];
                    for (id, out) in ids.iter().zip(out) {
                        let next = &mut next[*id as usize];
                        *out = *next;
                        *next += 1;
                    }
                });
            });
        });
        let places = Self {
            of_rows: ScalarBuffer::new(of_rows, 0, rows),
            len: next as usize,
            before,
            threads,
        };
        (places, bounds)
    }

    /// Where each row goes.
    pub(super) fn of_rows(&self) -> &[u32] {
        &self.of_rows
    }

    /// The rows that were grouped before, by key.
    pub(super) fn before(&self) -> &[Before] {
        &self.before
    }

    /// Places of some of the rows among themselves: each is closer to the first by a number for its key.
    pub(super) fn closer(&self, rows: Range<usize>, ids: &Ids, by: &[u32]) -> Self {
        let (from, len) = (rows.start, rows.len());
        let of_rows = filled(len, |out: &mut [u32]| {
            fill(out, self.threads, |_, part, out| {
                let first = from + part.start;
                ids.blocks(first..from + part.end, |rows, ids| {
                    let out = &mut out[rows.start - first..rows.end - first];
                    for ((out, place), id) in out.iter_mut().zip(&self.of_rows[rows]).zip(ids) {
                        *out = place - by[*id as usize];
                    }
                });
            });
        });
        Self {
            of_rows: ScalarBuffer::new(of_rows, 0, len),
            len,
            before: Vec::new(),
            threads: self.threads,
        }
    }

    /// How many places there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A column with each row in its place; that of rows that were grouped before, if there are any, is another.
    ///
    /// Rows are read in order and written to as many places as there are keys, which caches hold; the other way round every read would miss them.
    pub(super) fn spread_leaf(&self, leaf: &Leaf, grouped: Option<&Leaf>) -> Leaf {
        let valid = leaf.valid.as_ref().map(|bits| self.spread_bits(bits));
        let values = match (leaf.bits(), leaf.ty.bytes()) {
            (Some(bits), _) => self.spread_bits(bits),
            (None, 1) => self.spread::<u8>(leaf, grouped),
            (None, 2) => self.spread::<u16>(leaf, grouped),
            (None, 4) => self.spread::<u32>(leaf, grouped),
            (None, _) => self.spread::<u64>(leaf, grouped),
        };
        Leaf::written(leaf.ty, self.len, values, valid)
    }

    fn spread<T: Copy + Send + Sync>(&self, leaf: &Leaf, grouped: Option<&Leaf>) -> Buffer {
        self.spread_values::<T>(elements(leaf), grouped.map_or(&[], elements))
    }

    /// Values, each in the place of its row, and those of rows that were grouped before, padded to whole groups.
    fn spread_values<T: Copy + Send + Sync>(&self, values: &[T], grouped: &[T]) -> Buffer {
        assert_eq!(self.of_rows.len(), values.len(), "a place for each value");
        let (memory, bytes) = room::<T>(self.len);
        let out = Out::of(&memory);
        self.keep(out, grouped, |value, _| value);
        in_parts(values.len(), self.threads, |rows| {
            let places = &self.of_rows[rows.clone()];
            for (place, value) in places.iter().zip(&values[rows]) {
                // SAFETY: every row has a place of its own, and there are as many as rows, for which there is room.
                unsafe { out.write(*place as usize, *value) }
            }
        });
        memory.into_buffer(bytes)
    }

    /// The places that follow rows of each key that were grouped before.
    pub(super) fn after_kept(&self) -> impl Iterator<Item = usize> {
        let before = self.before.iter();
        before.map(|before| before.place + before.rows.len())
    }

    /// Writes values of rows that were grouped before to where they go now.
    fn keep<T: Copy>(&self, out: Out<T>, grouped: &[T], moved: impl Fn(T, i64) -> T) {
        for before in &self.before {
            let values = &grouped[before.rows.clone()];
            for (place, value) in (before.place..).zip(values) {
                // SAFETY: places of rows that were grouped before are no others', and there is room for all.
                unsafe { out.write(place, moved(*value, before.further)) }
            }
        }
    }

    /// Times, each in the place of its row, those of each key moved if `moves` says by how much, and those of rows that were grouped and moved before.
    pub(super) fn spread_times(
        &self,
        times: &[i64],
        ids: &Ids,
        moves: Option<&[i64]>,
        grouped: &[i64],
    ) -> ScalarBuffer<i64> {
        let spread = match moves {
            None => self.spread_values(times, grouped),
            Some(moves) => self.spread_moved(times, ids, moves, grouped),
        };
        ScalarBuffer::new(spread, 0, self.len)
    }

    fn spread_moved(&self, times: &[i64], ids: &Ids, moves: &[i64], grouped: &[i64]) -> Buffer {
        assert_eq!(self.of_rows.len(), times.len(), "a place for each time");
        let (memory, bytes) = room::<i64>(self.len);
        let out = Out::of(&memory);
        self.keep(out, grouped, i64::wrapping_add);
        in_parts(times.len(), self.threads, |rows| {
            ids.blocks(rows, |rows, ids| {
                let places = self.of_rows[rows.clone()].iter().zip(ids);
                for ((place, id), time) in places.zip(&times[rows]) {
                    let moved = time.wrapping_add(moves[*id as usize]);
                    // SAFETY: every row has a place of its own, and there are as many as rows, for which there is room.
                    unsafe { out.write(*place as usize, moved) }
                }
            });
        });
        memory.into_buffer(bytes)
    }

    fn spread_bits(&self, bits: &BooleanBuffer) -> Buffer {
        let mut out = BooleanBufferBuilder::new(bits.len());
        out.append_n(bits.len(), false);
        for (place, bit) in self.of_rows.iter().zip(bits) {
            out.set_bit(*place as usize, bit);
        }
        // Whole groups of bits are read.
        out.resize(bits.len().next_multiple_of(LANES));
        out.finish().into_inner()
    }
}

/// A column whose row `i` is row `rows[i]` of another.
pub(crate) fn gather_leaf(rows: &[u32], leaf: &Leaf, threads: usize) -> Leaf {
    let valid = leaf.valid.as_ref();
    let valid = valid.filter(|bits| bits.count_set_bits() < bits.len());
    let valid = valid.map(|bits| gather_bits(rows, bits, threads));
    let values = match (leaf.bits(), leaf.ty.bytes()) {
        (Some(bits), _) => gather_bits(rows, bits, threads),
        (None, 1) => gather(rows, elements::<u8>(leaf), threads),
        (None, 2) => gather(rows, elements::<u16>(leaf), threads),
        (None, 4) => gather(rows, elements::<u32>(leaf), threads),
        (None, _) => gather(rows, elements::<u64>(leaf), threads),
    };
    Leaf::written(leaf.ty, rows.len(), values, valid)
}

/// The values of some rows, padded to whole groups.
pub(super) fn gather<T: Copy + Send + Sync>(rows: &[u32], values: &[T], threads: usize) -> Buffer {
    filled(rows.len(), |out| {
        fill(out, threads, |_, part, out: &mut [T]| {
            for (row, out) in rows[part].iter().zip(out) {
                *out = values[*row as usize];
            }
        });
    })
}

fn gather_bits(rows: &[u32], bits: &BooleanBuffer, threads: usize) -> Buffer {
    filled(rows.len().div_ceil(8), |out: &mut [u8]| {
        fill(out, threads, |_, bytes, out| {
            let rows = &rows[8 * bytes.start..rows.len().min(8 * bytes.end)];
            for (rows, out) in rows.chunks(8).zip(out) {
                let bits = rows.iter().map(|row| u8::from(bits.value(*row as usize)));
                *out = bits.rev().fold(0, |byte, bit| byte << 1 | bit);
            }
        });
    })
}

/// The elements of a column, whose type is as wide as `T`.
fn elements<T: Copy>(leaf: &Leaf) -> &[T] {
    assert_eq!(leaf.ty.bytes(), size_of::<T>(), "elements of the type");
    // SAFETY: a column holds as many elements as it says, aligned, and any bits are one.
    unsafe { std::slice::from_raw_parts(leaf.at(0).cast(), leaf.len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 7;

    #[test]
    fn times_are_grouped_and_moved_by_key() {
        // A part of them for each thread; three keys have none.
        let ids: Vec<u32> = (0..50_000_u64).map(|row| (row * row % 7) as u32).collect();
        let times: Vec<i64> = (0..ids.len() as i64).collect();
        let moves: Vec<i64> = (0..KEYS as i64).map(|key| key * 1_000_000).collect();
        let mut bounds = vec![0; KEYS + 1];
        for id in &ids {
            bounds[*id as usize + 1..].iter_mut().for_each(|b| *b += 1);
        }
        for moves in [None, Some(&moves[..])] {
            let moved = |id: u32| moves.map_or(0, |moves| moves[id as usize]);
            let mut expected: Vec<(u32, i64)> = (ids.iter().zip(&times))
                .map(|(id, time)| (*id, time + moved(*id)))
                .collect();
            expected.sort_by_key(|(id, _)| *id);
            let expected: Vec<i64> = expected.into_iter().map(|(_, time)| time).collect();
            for threads in [1, 3] {
                let ids = Ids::Listed(ids.clone());
                let (places, found) = Places::by_key(times.len(), &ids, KEYS, threads);
                assert_eq!(found, bounds);
                assert_eq!(&places.spread_times(&times, &ids, moves, &[])[..], expected);
            }
        }
    }
}
