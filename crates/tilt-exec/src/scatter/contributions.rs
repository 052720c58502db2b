//! What the rows of a chunk contribute to a state, and which of them do.

use std::ops::Range;

use tilt_codegen::abi::Target;

use super::{
    Column, Values,
    cells::{Cells, magnitude, scatter_some, scatter_sums},
    ordered::{Ordered, Places},
};
use crate::{run::CHUNK, series::Leaf};

/// Which rows of a chunk count.
pub(super) struct Mask {
    /// A bit for each row.
    bits: Vec<u64>,
    /// How many do, and of how many.
    counted: usize,
    rows: usize,
}

impl Mask {
    pub(super) fn new() -> Self {
        Self {
            bits: vec![0; CHUNK / 64],
            counted: 0,
            rows: 0,
        }
    }

    /// Where the loop writes.
    pub(super) fn target(&mut self) -> Target {
        Target {
            values: self.bits.as_mut_ptr().cast(),
            validity: std::ptr::null_mut(),
            len: CHUNK as u64,
        }
    }

    /// Looks at what the loop has written for so many rows.
    pub(super) fn settle(&mut self, rows: usize) {
        self.bits[rows.div_ceil(64)..].fill(0);
        if !rows.is_multiple_of(64) {
            self.bits[rows / 64] &= (1 << (rows % 64)) - 1;
        }
        let counted = self.bits.iter().map(|word| word.count_ones() as usize);
        (self.counted, self.rows) = (counted.sum(), rows);
    }

    /// Whether a list of the rows that count would cost more than what it leaves out.
    fn is_dense(&self) -> bool {
        self.counted * 4 > self.rows * 3
    }

    /// The rows that do not count.
    fn missing(&self) -> impl Iterator<Item = usize> {
        let inverted: Vec<u64> = self.bits.iter().map(|word| !word).collect();
        let rows = self.rows;
        let all = (0..CHUNK / 64).flat_map(move |at| {
            let word = inverted[at];
            (0..64).filter_map(move |bit| (word >> bit & 1 == 1).then_some(at * 64 + bit))
        });
        all.take_while(move |row| *row < rows)
    }
}

/// A column of a chunk.
pub(super) struct Contributions {
    pub(super) plan: Column,
    cells: Cells,
    /// Whether the cells have the values, rows that do not count being neutral: not so where they are read in their place.
    is_own: bool,
    /// Whether cells that are all the same are so no longer.
    is_changed: bool,
}

impl Contributions {
    pub(super) fn new(plan: Column) -> Self {
        let mut cells = Cells::new(plan.op, plan.ty, CHUNK);
        if let Values::Same(bits) = plan.values {
            cells.fill(bits);
        }
        Self {
            plan,
            cells,
            is_own: true,
            is_changed: false,
        }
    }

    /// Where the loop writes.
    pub(super) fn target(&mut self) -> Target {
        self.cells.target()
    }

    /// Makes the values what all rows of a chunk contribute, if not only those that count are joined.
    pub(super) fn settle(&mut self, mask: Option<&Mask>, leaves: &[Leaf], rows: &Range<usize>) {
        if let Values::Same(bits) = self.plan.values
            && std::mem::take(&mut self.is_changed)
        {
            self.cells.fill(bits);
        }
        let missing = mask.filter(|mask| mask.is_dense() && mask.counted < mask.rows);
        let held = match self.plan.values {
            Values::Held(leaf) => Some(&leaves[leaf]),
            _ => None,
        };
        self.is_own = held.is_none() || missing.is_some();
        if let Some(mask) = missing {
            if let Some(leaf) = held {
                self.cells.copy(words(leaf, rows));
            }
            self.is_changed = true;
            mask.missing().for_each(|row| self.cells.clear(row));
        }
    }

    /// The mask of the rows that are joined, if not all are.
    pub(super) fn listed<'m>(&self, masks: &'m [Mask]) -> Option<&'m [u64]> {
        let mask = &masks[self.plan.counts?];
        (!mask.is_dense()).then_some(&mask.bits)
    }

    /// The values of a chunk of rows.
    pub(super) fn values<'v>(&'v self, leaves: &'v [Leaf], rows: &Range<usize>) -> &'v [u64] {
        match self.plan.values {
            Values::Held(leaf) if !self.is_own => words(&leaves[leaf], rows),
            _ => self.cells.words(),
        }
    }

    /// Bits above which no magnitude has any of some rows, all that are joined.
    pub(super) fn magnitude(&self, values: &[u64], listed: Option<&Listed>, rows: usize) -> u64 {
        let signed = self.plan.ty.is_signed();
        match listed {
            _ if !self.plan.watched => 0,
            Some(listed) => magnitude(listed.rows.iter().map(|row| values[*row as usize]), signed),
            None => magnitude(values[..rows].iter().copied(), signed),
        }
    }
}

/// Elements of a column of words.
fn words<'l>(leaf: &'l Leaf, rows: &Range<usize>) -> &'l [u64] {
    debug_assert_eq!(leaf.ty.bits(), 64);
    #[expect(clippy::cast_ptr_alignment, reason = "a column of words")]
    let at = leaf.at(rows.start as isize).cast::<u64>();
    // SAFETY: rows of the column, whose elements have 64 bits and the alignment of one.
    unsafe { std::slice::from_raw_parts(at, rows.len()) }
}

/// Some rows of a chunk.
#[derive(Default)]
pub(super) struct Listed {
    of: Vec<u64>,
    rows: Vec<u32>,
    /// Their keys.
    pub(super) ids: Vec<u32>,
}

impl Listed {
    /// Forgets the rows of the chunk before.
    pub(super) fn clear(&mut self) {
        self.of.clear();
    }

    /// Lists the rows whose bits are set, unless they are listed already: sums and counts are over the same rows. Returns whether that was
    /// to be done.
    pub(super) fn list(&mut self, counts: &[u64], ids: &[u32]) -> bool {
        if self.of == counts {
            return false;
        }
        self.of.clear();
        self.of.extend(counts);
        self.rows.resize(CHUNK, 0);
        self.ids.resize(CHUNK, 0);
        let mut len = 0;
        for (at, word) in counts.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                let row = at * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                (self.rows[len], self.ids[len]) = (row as u32, ids[row]);
                len += 1;
            }
        }
        self.rows.truncate(len);
        self.ids.truncate(len);
        true
    }

    /// Joins the values of these rows in order. `ids` are those of all rows.
    pub(super) fn join(&self, places: &Places, ids: &[u32], values: &[u64], to: &mut Ordered) {
        to.join(places, ids, (&self.ids, &self.rows), values);
    }

    /// Joins the values of these rows to the states of their keys. Calls `between` after some rows, with how many there were.
    pub(super) fn scatter(&self, values: &[u64], state: &mut Cells, between: impl FnMut(usize)) {
        scatter_some(&self.ids, &self.rows, values, state, between);
    }

    /// The same for two sums at once.
    pub(super) fn scatter_sums(
        &self,
        values: [&[u64]; 2],
        states: [&mut Cells; 2],
        between: impl FnMut(usize),
    ) {
        scatter_sums(&self.ids, &self.rows, values, states, between);
    }
}

/// The numbers of the bits that are set.
pub(super) fn bits(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut word = *word;
        std::iter::from_fn(move || {
            (word != 0).then(|| {
                let bit = word.trailing_zeros() as usize;
                word &= word - 1;
                at * 64 + bit
            })
        })
    })
}
