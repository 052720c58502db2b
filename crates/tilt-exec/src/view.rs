//! Views: columns as loops see them for a chunk of rows.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use tilt_codegen::{abi::View, lir::LANES};

use crate::{cursor::NONE, memory::Scratch, series::Leaf};

/// What is read where there is nothing: enough zeros for a group of any type.
static NOTHING: [u64; 16] = [0; 16];

/// A view of nothing but zeros, for accesses of which only the validity matters.
pub(crate) fn nothing() -> View {
    View {
        values: NOTHING.as_ptr().cast(),
        validity: std::ptr::null(),
        index: std::ptr::null(),
        lead: 0,
        len: u64::MAX,
    }
}

/// Rows `first .. first + rows` of a column, φ where there are none.
pub(crate) fn rows(
    leaf: &Leaf,
    first: i64,
    rows: usize,
    nullable: bool,
    scratch: &mut Scratch,
) -> View {
    let needed = rows.next_multiple_of(LANES) as i64;
    let readable = first >= -(leaf.lead as i64) && first + needed <= leaf.room as i64;
    let mut view = nothing();
    view.len = needed as u64;
    if let Some(bits) = leaf.bits() {
        view.values = bit_rows(Some(bits), leaf.len, first, rows, scratch);
    } else if readable {
        view.values = leaf.at(first as isize);
        view.lead = (leaf.lead as i64 + first) as u64;
        view.len = (leaf.room as i64 - first) as u64;
    } else {
        view.values = copied(leaf, first, rows, scratch);
    }
    if nullable {
        view.validity = bit_rows(leaf.valid.as_ref(), leaf.len, first, rows, scratch);
    }
    view
}

/// A copy of the rows that exist, zeros for the others.
fn copied(leaf: &Leaf, first: i64, rows: usize, scratch: &mut Scratch) -> *const u8 {
    let bytes = leaf.ty.bytes();
    let copy = scratch.slice::<u8>(rows.next_multiple_of(LANES) * bytes);
    copy.fill(0);
    let from = first.clamp(0, leaf.len as i64);
    let to = (first + rows as i64).clamp(from, leaf.len as i64);
    if from < to {
        let at = (from - first) as usize * bytes;
        let len = (to - from) as usize * bytes;
        // SAFETY: rows `from .. to` are elements of the column, and the copy has room for all rows.
        unsafe {
            std::ptr::copy_nonoverlapping(leaf.at(from as isize), copy.as_mut_ptr().add(at), len);
        }
    }
    copy.as_ptr()
}

/// Bits `first .. first + rows`, zeros where there are none; all ones without `bits`.
pub(crate) fn bit_rows(
    bits: Option<&BooleanBuffer>,
    len: usize,
    first: i64,
    rows: usize,
    scratch: &mut Scratch,
) -> *const u8 {
    let inside = first >= 0 && first as usize + rows <= len;
    if let (Some(bits), true) = (bits, inside) {
        let at = bits.offset() + first as usize;
        if at.is_multiple_of(8) {
            return bits.values()[at / 8..].as_ptr();
        }
        let words = scratch.slice::<u64>(rows.div_ceil(64) + 1);
        let slice = bits.slice(first as usize, rows);
        for (word, chunk) in words.iter_mut().zip(slice.bit_chunks().iter_padded()) {
            *word = chunk;
        }
        return words.as_ptr().cast();
    }
    if inside {
        let bytes = scratch.slice::<u8>(rows.div_ceil(8) + 8);
        bytes.fill(u8::MAX);
        return bytes.as_ptr();
    }
    let words = scratch.slice::<u64>(rows.div_ceil(64) + 2);
    words.fill(0);
    let from = first.clamp(0, len as i64);
    let to = first.saturating_add(rows as i64).clamp(from, len as i64);
    if from == to {
        return words.as_ptr().cast();
    }
    let (at, n) = ((from - first) as usize, (to - from) as usize);
    let Some(bits) = bits else {
        set(words, at..at + n);
        return words.as_ptr().cast();
    };
    let slice = bits.slice(from as usize, n);
    let shift = at % 64;
    for (number, chunk) in slice.bit_chunks().iter_padded().enumerate() {
        let Some([low, high]) = words.get_mut(at / 64 + number..at / 64 + number + 2) else {
            break;
        };
        *low |= chunk << shift;
        *high |= chunk.checked_shr(64 - shift as u32).unwrap_or(0);
    }
    words.as_ptr().cast()
}

/// Sets some bits.
fn set(words: &mut [u64], bits: Range<usize>) {
    if bits.is_empty() {
        return;
    }
    let (first, last) = (bits.start / 64, (bits.end - 1) / 64);
    let head = u64::MAX << (bits.start % 64);
    let tail = u64::MAX >> (63 - (bits.end - 1) % 64);
    if first == last {
        words[first] |= head & tail;
        return;
    }
    words[first] |= head;
    words[first + 1..last].fill(u64::MAX);
    words[last] |= tail;
}

/// Some rows that read one position, [`NONE`] if they read nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) position: u32,
    pub(crate) rows: usize,
}

/// A column as rows read it that come in runs.
pub(crate) fn runs(
    leaf: &Leaf,
    runs: &[Run],
    rows: usize,
    nullable: bool,
    scratch: &mut Scratch,
) -> View {
    let padded = rows.next_multiple_of(LANES);
    let mut view = nothing();
    view.len = padded as u64;
    if let Some(bits) = leaf.bits() {
        view.values = bit_runs(runs, rows, |position| bits.value(position), scratch);
    } else {
        let bytes = leaf.ty.bytes();
        let values = scratch.take(padded * bytes);
        match bytes {
            1 => fill_runs::<u8>(leaf, runs, padded, values),
            2 => fill_runs::<u16>(leaf, runs, padded, values),
            4 => fill_runs::<u32>(leaf, runs, padded, values),
            _ => fill_runs::<u64>(leaf, runs, padded, values),
        }
        view.values = values;
    }
    if nullable {
        let valid = |position| leaf.valid.as_ref().is_none_or(|v| v.value(position));
        view.validity = bit_runs(runs, rows, valid, scratch);
    }
    view
}

/// Writes the element that each run reads to all its rows, zero where it reads none; `len` elements in all.
fn fill_runs<T: Copy + Default>(leaf: &Leaf, runs: &[Run], len: usize, out: *mut u8) {
    assert_eq!(size_of::<T>(), leaf.ty.bytes(), "elements of the type");
    // SAFETY: the caller has taken memory for so many elements, aligned to a cache line; any bits are one.
    let mut out = unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), len) };
    for run in runs {
        let (these, rest) = out.split_at_mut(run.rows);
        let position = run.position as usize;
        let element = if position < leaf.len {
            // SAFETY: an element of the column.
            unsafe { *leaf.at(position as isize).cast::<T>() }
        } else {
            T::default()
        };
        these.fill(element);
        out = rest;
    }
    out.fill(T::default());
}

/// A bit for every row of some runs: that of the position it reads, unset where it reads none.
pub(crate) fn bit_runs(
    runs: &[Run],
    rows: usize,
    bit: impl Fn(usize) -> bool,
    scratch: &mut Scratch,
) -> *const u8 {
    let words = scratch.slice::<u64>(rows.div_ceil(64) + 1);
    words.fill(0);
    let mut at = 0;
    for run in runs {
        if run.position != NONE && bit(run.position as usize) {
            set(words, at..at + run.rows);
        }
        at += run.rows;
    }
    words.as_ptr().cast()
}

/// Positions that rows read, with what is found there.
#[derive(Debug)]
pub(crate) struct Index {
    /// Always an element that can be read: 0 where nothing is found. Counted from `base` on.
    pub(crate) positions: &'static [u32],
    /// Where something is found, as bits.
    pub(crate) found: &'static [u8],
    /// Not 0 only where every column read is plain and something is found in all rows.
    pub(crate) base: i64,
    /// If something is found in all rows, and positions never decrease: from the first position to after the last.
    pub(crate) within: Option<Range<usize>>,
}

impl Index {
    /// From positions with [`NONE`] where nothing is read; padded to whole groups.
    pub(crate) fn new(positions: &'static mut [u32], rows: usize, scratch: &mut Scratch) -> Self {
        let found = scratch.slice::<u8>(positions.len() / 8 + 8);
        found.fill(0);
        positions[rows..].fill(NONE);
        // Comparing alone takes a small part of the time of collecting bits, and mostly nothing is missing.
        let missing = positions[..rows]
            .iter()
            .fold(0, |any, p| any | u32::from(*p == NONE));
        if missing == 0 && rows.is_multiple_of(LANES) {
            found[..rows / LANES].fill(u8::MAX);
            return Self {
                positions,
                found,
                base: 0,
                within: None,
            };
        }
        for (group, byte) in positions.chunks_exact_mut(LANES).zip(&mut *found) {
            for (lane, position) in group.iter_mut().enumerate() {
                let is_found = *position != NONE;
                *byte |= u8::from(is_found) << lane;
                *position = if is_found { *position } else { 0 };
            }
        }
        Self {
            positions,
            found,
            base: 0,
            within: None,
        }
    }

    /// As [`Index::new`] of positions that never decrease, [`NONE`] aside.
    pub(crate) fn ordered(
        positions: &'static mut [u32],
        rows: usize,
        scratch: &mut Scratch,
    ) -> Self {
        let mut index = Self::new(positions, rows, scratch);
        let all = index.found[..rows / LANES].iter().all(|b| *b == u8::MAX);
        if let (true, [first, .., last]) = (all && rows.is_multiple_of(LANES), index.positions) {
            index.within = Some(*first as usize..*last as usize + 1);
        }
        index
    }

    /// A column read by these positions.
    pub(crate) fn view(&self, leaf: &Leaf, nullable: bool, scratch: &mut Scratch) -> View {
        if self.base != 0 {
            return self.moved(leaf, 0);
        }
        let mut view = nothing();
        view.index = self.positions.as_ptr();
        if leaf.len > 0 {
            view.len = leaf.len as u64;
            view.values = match leaf.bits() {
                Some(bits) => bits.values()[bits.offset() / 8..].as_ptr(),
                None => leaf.at(0),
            };
        }
        if nullable {
            view.validity = self.valid(leaf.valid.as_ref(), scratch);
        }
        view
    }

    /// A column without φ read so many positions further, which all exist.
    pub(crate) fn moved(&self, leaf: &Leaf, positions: i64) -> View {
        let base = self.base + positions;
        View {
            values: leaf.at(base as isize),
            validity: self.found.as_ptr(),
            index: self.positions.as_ptr(),
            lead: 0,
            len: (leaf.len as i64 - base) as u64,
        }
    }

    /// Where something is found and `bits` are set there.
    pub(crate) fn valid(&self, bits: Option<&BooleanBuffer>, scratch: &mut Scratch) -> *const u8 {
        let Some(bits) = bits else {
            return self.found.as_ptr();
        };
        if self.is_set(bits) {
            return self.found.as_ptr();
        }
        let valid = scratch.slice::<u8>(self.found.len());
        valid.copy_from_slice(self.found);
        let (bytes, offset) = (bits.values(), bits.offset());
        let bit = |position: u32| {
            let at = position as usize + offset;
            bytes.get(at / 8).map_or(0, |byte| byte >> (at % 8) & 1)
        };
        for (group, byte) in self.positions.chunks_exact(LANES).zip(&mut *valid) {
            let lanes = group.iter().enumerate();
            let mask = lanes.fold(0, |mask, (lane, position)| mask | bit(*position) << lane);
            *byte &= mask;
        }
        valid.as_ptr()
    }

    /// Whether all bits between the first and the last position are set, where that is soon found out.
    fn is_set(&self, bits: &BooleanBuffer) -> bool {
        self.within.as_ref().is_some_and(|within| {
            within.len() <= 8 * self.positions.len()
                && bits.slice(within.start, within.len()).count_set_bits() == within.len()
        })
    }
}

/// A view of plain elements that cover all rows of a chunk.
pub(crate) fn column<T>(values: &[T]) -> View {
    View {
        values: values.as_ptr().cast(),
        len: values.len() as u64,
        ..nothing()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int32Array};
    use tilt_codegen::lir::Ty;

    use super::*;

    fn bit(bits: *const u8, i: usize) -> bool {
        // SAFETY: the tests ask for bits that were written.
        unsafe { *bits.add(i / 8) >> (i % 8) & 1 == 1 }
    }

    #[test]
    fn bits_beyond_a_column_are_unset() {
        let mut scratch = Scratch::default();
        let len = 150;
        let all = BooleanBuffer::collect_bool(len + 3, |i| i % 3 != 1).slice(3, len);
        for first in [-200, -70, -64, -3, 0, 1, 8, 63, 100, 149, 150, 300] {
            for rows in [1, 7, 64, 65, 149, 150, 400] {
                for bits in [None, Some(&all)] {
                    scratch.reset();
                    let found = bit_rows(bits, len, first, rows, &mut scratch);
                    for row in 0..rows {
                        let position = first + row as i64;
                        let exists = (0..len as i64).contains(&position);
                        let right = exists && bits.is_none_or(|b| b.value(position as usize));
                        assert_eq!(bit(found, row), right, "row {row} from {first} of {rows}");
                    }
                }
            }
        }
    }

    #[test]
    fn runs_become_columns() {
        let mut scratch = Scratch::default();
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(5), None, Some(7)]));
        let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
        let run = |position, rows| Run { position, rows };
        let given = [run(NONE, 3), run(0, 70), run(1, 2), run(2, 1)];
        let rows = 76;
        let view = runs(
            &Leaf::of_array(&ints, Ty::I32),
            &given,
            rows,
            true,
            &mut scratch,
        );
        let value = |row: usize| {
            // SAFETY: an element that was written.
            let bytes = unsafe { view.values.add(4 * row).cast::<[u8; 4]>().read() };
            i32::from_le_bytes(bytes)
        };
        assert_eq!((value(3), value(72), value(75)), (5, 5, 7));
        let valid: Vec<usize> = (0..rows).filter(|i| bit(view.validity, *i)).collect();
        assert_eq!(valid, (3..73).chain([75]).collect::<Vec<_>>());
        let view = runs(
            &Leaf::of_array(&bools, Ty::Bool),
            &given,
            rows,
            true,
            &mut scratch,
        );
        let set: Vec<usize> = (0..rows).filter(|i| bit(view.values, *i)).collect();
        assert_eq!(set, (3..73).chain([75]).collect::<Vec<_>>());
        assert!(bit(view.validity, 74) && !bit(view.validity, 2));
    }
}
