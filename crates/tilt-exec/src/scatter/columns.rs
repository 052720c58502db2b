//! The rows of the output as they are found: one for each key that has an event in a window.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use rayon::prelude::*;
use tilt_codegen::lir::Ty;

use crate::{memory::Returned, run::Shared};

/// Rows with their ends and keys.
pub(super) struct Columns {
    pub(super) ends: Vec<i64>,
    pub(super) ids: Vec<u32>,
    leaves: Vec<Column>,
    kept: Vec<u32>,
}

struct Column {
    ty: Ty,
    /// The elements' bytes; of bools one byte each.
    bytes: Vec<u8>,
    valid: Option<Vec<bool>>,
}

impl Columns {
    /// No rows of what a loop writes.
    pub(super) fn new(written: &[Shared], leaves: usize) -> Self {
        let leaf = |column: &Shared| Column {
            ty: column.ty,
            bytes: Vec::new(),
            valid: column.validity.is_some().then(Vec::new),
        };
        Self {
            ends: Vec::new(),
            ids: Vec::new(),
            leaves: written[..leaves].iter().map(leaf).collect(),
            kept: Vec::new(),
        }
    }

    /// Keeps those of the written rows that are events. `rows` are their numbers, and their keys unless `keys` tells.
    pub(super) fn keep(
        &mut self,
        written: &[Shared],
        rows: Range<usize>,
        keys: Option<&[u32]>,
        end: i64,
    ) {
        // A record is followed by whether there is one; of a scalar its validity tells.
        let present = match written.get(self.leaves.len()) {
            Some(present) => Some(&present.values),
            None => written[0].validity.as_ref(),
        };
        self.kept.clear();
        match present {
            None => self.kept.extend(0..rows.len() as u32),
            Some(bits) => {
                let bytes = bytes(bits, rows.len().div_ceil(8));
                for (at, byte) in bytes.iter().enumerate() {
                    let mut byte = *byte;
                    while byte != 0 {
                        let row = at as u32 * 8 + byte.trailing_zeros();
                        byte &= byte - 1;
                        if (row as usize) < rows.len() {
                            self.kept.push(row);
                        }
                    }
                }
            }
        }
        let start = rows.start as u32;
        self.ends.resize(self.ends.len() + self.kept.len(), end);
        match keys {
            None => self.ids.extend(self.kept.iter().map(|row| start + row)),
            Some(keys) => self
                .ids
                .extend(self.kept.iter().map(|row| keys[(start + row) as usize])),
        }
        for (column, from) in self.leaves.iter_mut().zip(written) {
            column.extend(from, &self.kept, rows.len());
        }
    }

    /// The rows of a later piece, columns side by side on the threads of the current pool: first touches of memory are most of the work.
    pub(super) fn append(&mut self, next: Self) {
        let Self {
            ends, ids, leaves, ..
        } = self;
        let leaves = || {
            let leaves = leaves.par_iter_mut().zip(next.leaves);
            leaves.for_each(|(column, next)| {
                column.bytes.extend(next.bytes);
                if let (Some(valid), Some(next)) = (&mut column.valid, next.valid) {
                    valid.extend(next);
                }
            });
        };
        rayon::join(leaves, || {
            rayon::join(|| ends.extend(next.ends), || ids.extend(next.ids))
        });
    }

    pub(super) fn into_arrays(self, types: &[DataType]) -> Vec<ArrayRef> {
        let columns = self.leaves.into_iter().zip(types);
        columns
            .map(|(column, data_type)| column.into_array(data_type))
            .collect()
    }
}

impl Column {
    fn extend(&mut self, from: &Shared, kept: &[u32], rows: usize) {
        fn copy<const N: usize>(out: &mut Vec<u8>, from: &[u8], kept: &[u32]) {
            let (elements, _) = from.as_chunks::<N>();
            out.reserve(kept.len() * N);
            for row in kept {
                out.extend_from_slice(&elements[*row as usize]);
            }
        }
        let values = |len: usize| bytes(&from.values, len);
        match self.ty.bytes() {
            0 => {
                let bits = values(rows.div_ceil(8));
                self.bytes.extend(kept.iter().map(|row| bit(bits, *row)));
            }
            1 => copy::<1>(&mut self.bytes, values(rows), kept),
            2 => copy::<2>(&mut self.bytes, values(rows * 2), kept),
            4 => copy::<4>(&mut self.bytes, values(rows * 4), kept),
            _ => copy::<8>(&mut self.bytes, values(rows * 8), kept),
        }
        if let (Some(valid), Some(from)) = (&mut self.valid, &from.validity) {
            let bits = bytes(from, rows.div_ceil(8));
            valid.extend(kept.iter().map(|row| bit(bits, *row) == 1));
        }
    }

    fn into_array(self, data_type: &DataType) -> ArrayRef {
        let nulls = self
            .valid
            .map(NullBuffer::from)
            .filter(|nulls| nulls.null_count() > 0);
        if self.ty == Ty::Bool {
            let bits: BooleanBuffer = self.bytes.iter().map(|byte| *byte == 1).collect();
            return Arc::new(BooleanArray::new(bits, nulls));
        }
        let len = self.bytes.len() / self.ty.bytes();
        // The elements of an array are aligned. Memory nearly always is, and is copied otherwise: what nobody has touched costs more than what is copied.
        let data = ArrayData::builder(data_type.clone())
            .len(len)
            .add_buffer(Buffer::from_vec(self.bytes))
            .nulls(nulls)
            .align_buffers(true);
        make_array(data.build().expect("elements of the type"))
    }
}

fn bit(bits: &[u8], row: u32) -> u8 {
    bits[row as usize / 8] >> (row % 8) & 1
}

/// The first bytes that a loop wrote.
fn bytes(memory: &Returned, len: usize) -> &[u8] {
    assert!(len <= memory.len(), "{len} of {} bytes", memory.len());
    // SAFETY: so many bytes are there, all initialised, and the loop that wrote them has returned.
    unsafe { std::slice::from_raw_parts(memory.as_ptr(), len) }
}
