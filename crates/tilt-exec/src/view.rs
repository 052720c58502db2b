//! Views: columns as loops see them for a chunk of rows.

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
    let bytes = scratch.slice::<u8>(rows.div_ceil(8) + 8);
    if inside {
        bytes.fill(u8::MAX);
        return bytes.as_ptr();
    }
    bytes.fill(0);
    for row in 0..rows {
        let position = first + row as i64;
        if (0..len as i64).contains(&position) && bits.is_none_or(|b| b.value(position as usize)) {
            bytes[row / 8] |= 1 << (row % 8);
        }
    }
    bytes.as_ptr()
}

/// Positions that rows read, with what is found there.
#[derive(Debug)]
pub(crate) struct Index {
    /// Always an element that can be read: 0 where nothing is found.
    pub(crate) positions: &'static mut [u32],
    /// Where something is found, as bits.
    pub(crate) found: &'static mut [u8],
}

impl Index {
    /// From positions with [`NONE`] where nothing is read; padded to whole groups.
    pub(crate) fn new(positions: &'static mut [u32], rows: usize, scratch: &mut Scratch) -> Self {
        let found = scratch.slice::<u8>(positions.len() / 8 + 8);
        found.fill(0);
        positions[rows..].fill(NONE);
        for (group, byte) in positions.chunks_exact_mut(LANES).zip(&mut *found) {
            for (lane, position) in group.iter_mut().enumerate() {
                let is_found = *position != NONE;
                *byte |= u8::from(is_found) << lane;
                *position = if is_found { *position } else { 0 };
            }
        }
        Self { positions, found }
    }

    /// A column read by these positions.
    pub(crate) fn view(&self, leaf: &Leaf, nullable: bool, scratch: &mut Scratch) -> View {
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

    /// Where something is found and `bits` are set there.
    pub(crate) fn valid(&self, bits: Option<&BooleanBuffer>, scratch: &mut Scratch) -> *const u8 {
        let Some(bits) = bits else {
            return self.found.as_ptr();
        };
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
}

/// A view of plain elements that cover all rows of a chunk.
pub(crate) fn column<T>(values: &[T]) -> View {
    View {
        values: values.as_ptr().cast(),
        len: values.len() as u64,
        ..nothing()
    }
}
