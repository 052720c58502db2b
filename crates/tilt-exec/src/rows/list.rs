//! Lists that windows make, a chunk of rows at a time.

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use tilt_codegen::lir::Ty;
use tilt_data::dtype::to_arrow;
use tilt_ir::DType;

use super::{Stored, engine::Engine};
use crate::{edges, run::Trouble, series::Leaf, text::Dictionary};

/// The lists of a chunk: positions of their items.
pub(super) struct Chunk {
    items: Vec<u32>,
    offsets: Vec<usize>,
}

impl Default for Chunk {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            offsets: vec![0],
        }
    }
}

impl Chunk {
    /// Adds the list of the next row, an empty one where nothing contributes; returns whether anything does.
    pub(super) fn push(&mut self, engine: &Engine) -> bool {
        let items = engine.items();
        let found = items.is_some();
        self.items.extend(items.into_iter().flatten());
        self.offsets.push(self.items.len());
        found
    }

    /// Makes an array of the lists and keeps it aside; returns the word of the first.
    pub(super) fn finish(
        self,
        stored: &Stored,
        item: &DType,
        dictionary: &Dictionary,
    ) -> Result<u64, Trouble> {
        let offsets = self.offsets.iter().map(|offset| i32::try_from(*offset));
        let offsets: Result<Vec<i32>, _> = offsets.collect();
        let offsets = offsets.map_err(|_| Trouble("lists that are too long for an array"))?;
        let leaf = Leaf::written(
            stored.ty,
            self.items.len(),
            gather(stored, &self.items),
            None,
        );
        let items: ArrayRef = edges::array(&mut [leaf].iter(), item, dictionary);
        let DataType::List(field) = to_arrow(&DType::List(Box::new(item.clone()))) else {
            unreachable!("a list is a list in Arrow")
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let lists = ListArray::new(field, offsets, items, None);
        Ok(dictionary.lists.add(Arc::new(lists)))
    }
}

/// Elements of a column, up to a whole group of them.
fn gather(stored: &Stored, items: &[u32]) -> Buffer {
    let padded = items.len().next_multiple_of(64);
    let from = stored.values.as_ptr().cast_const();
    if stored.ty == Ty::Bool {
        let mut bits = vec![0u8; padded / 8];
        for (at, item) in items.iter().enumerate() {
            let item = *item as usize;
            // SAFETY: positions of the source, for each of which the loop has stored a bit.
            let byte = unsafe { *from.add(item / 8) };
            bits[at / 8] |= (byte >> (item % 8) & 1) << (at % 8);
        }
        return Buffer::from_vec(bits);
    }
    match stored.ty.bytes() {
        1 => elements::<u8>(from, items, padded),
        2 => elements::<u16>(from, items, padded),
        4 => elements::<u32>(from, items, padded),
        _ => elements::<u64>(from, items, padded),
    }
}

fn elements<T: Copy + Default + arrow_buffer::ArrowNativeType>(
    from: *const u8,
    items: &[u32],
    padded: usize,
) -> Buffer {
    let at = from.cast::<T>();
    let mut elements = Vec::with_capacity(padded);
    // SAFETY: positions of the source, for each of which the loop has stored an element.
    elements.extend(items.iter().map(|item| unsafe { *at.add(*item as usize) }));
    elements.resize(padded, T::default());
    Buffer::from_vec(elements)
}
