//! Lists in loops: numbers of lists that are kept aside.
//!
//! No expression looks into a list and no input has any, so loops only pass on what windows have made: all they need is a word that tells which list it is. The lists
//! themselves are Arrow arrays, one for each chunk of rows. Where a result leaves the run its words are put together to one array.

use std::sync::{Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, UInt64Array, new_null_array};
use tilt_data::dtype::to_arrow;
use tilt_ir::DType;

/// All lists of a run: arrays of them, in the order in which they were made, which threads share.
#[derive(Debug, Default)]
pub(crate) struct Lists(Mutex<Vec<ArrayRef>>);

/// Bits of a word that are the row in an array; those above are the array's number.
const ROW_BITS: u32 = 32;

impl Lists {
    /// Adds an array of lists; the word of its row `i` is that of row 0 and `i`.
    pub(crate) fn add(&self, lists: ArrayRef) -> u64 {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrays.push(lists);
        (arrays.len() as u64 - 1) << ROW_BITS
    }

    /// Words as a column of lists.
    pub(crate) fn decode(&self, words: &UInt64Array, dtype: &DType) -> ArrayRef {
        let mut arrays = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let null = arrays.len();
        let dtype = to_arrow(dtype);
        // Arrays of other types stay where they are, so that numbers do.
        for array in &mut arrays {
            if *array.data_type() != dtype {
                *array = new_null_array(&dtype, 0);
            }
        }
        arrays.push(new_null_array(&dtype, 1));
        let place = |word: Option<u64>| {
            let found = word.map(|word| ((word >> ROW_BITS) as usize, word as u32 as usize));
            found.unwrap_or((null, 0))
        };
        let places: Vec<(usize, usize)> = words.iter().map(place).collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        arrow_select::interleave::interleave(&arrays, &places)
            .expect("arrays of one type, and rows that they have")
    }
}
