//! Totals of integers over windows that move by one unit from row to row: what enters is added, what leaves subtracted.

use std::ops::Range;

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, LANES, Ty},
};

use super::{
    calls::{Calls, Next, Ranges},
    neutral_words,
};
use crate::{memory::Scratch, range::Steady, run::CHUNK, view};

pub(super) struct Totals {
    steady: Steady,
    forward: usize,
    difference: usize,
    slots: Vec<(Combine, Ty)>,
    /// The totals of the row before the next one, none at first.
    carry: Option<Vec<u64>>,
    /// The row after the chunk.
    next: usize,
    /// A column of the chunk for each slot.
    columns: Vec<*mut u8>,
}

/// What a run of rows reads of the units that enter and leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Nothing,
    Entering,
    Leaving,
    Both,
}

impl Totals {
    pub(super) fn new(
        steady: Steady,
        (forward, difference): (usize, usize),
        slots: &[(Combine, Ty)],
    ) -> Self {
        Self {
            steady,
            forward,
            difference,
            slots: slots.to_vec(),
            carry: None,
            next: 0,
            columns: Vec::new(),
        }
    }

    /// The same totals for the rows after, whatever units are numbered by.
    pub(super) fn resume(self, steady: Steady) -> Self {
        Self { steady, ..self }
    }

    /// The same totals, going on after a row whose totals are these.
    pub(super) fn starting(self, carry: Vec<u64>) -> Self {
        Self {
            carry: Some(carry),
            ..self
        }
    }

    /// The window of the row before a row.
    pub(super) fn window(&self, row: usize) -> Range<usize> {
        let before = row as i64 - 1;
        let unit = |offset: i64| (before + offset).clamp(0, self.steady.len as i64) as usize;
        unit(self.steady.lo)..unit(self.steady.hi)
    }

    /// The units that a chunk of rows reads for the first time.
    pub(super) fn entering(&self, rows: &Range<usize>) -> Range<usize> {
        let hi = self.steady.hi;
        let first = match self.carry {
            Some(_) => hi - 1,
            None => self.steady.lo - 1,
        };
        let unit = |unit: i64| unit.clamp(0, self.steady.len as i64) as usize;
        unit(rows.start as i64 + first)..unit(rows.end as i64 - 1 + hi)
    }

    /// The unit that the next chunk reads first.
    pub(super) fn next(&self) -> usize {
        self.next.saturating_add_signed(self.steady.hi as isize - 1)
    }

    /// What words of the carry have gathered: the last slot's, for bits of magnitudes.
    pub(super) fn last(&self) -> u64 {
        let carry = self.carry.as_ref();
        carry.and_then(|carry| carry.last()).map_or(0, |word| *word)
    }

    /// The totals of a chunk of rows.
    pub(super) fn advance(&mut self, calls: &Calls, rows: &Range<usize>, scratch: &mut Scratch) {
        let padded = rows.len().next_multiple_of(LANES);
        let columns = self.slots.iter();
        self.columns = columns
            .map(|(_, ty)| scratch.take(padded.max(CHUNK) * ty.bytes()))
            .collect();
        let mut carry = match self.carry.take() {
            Some(carry) => carry,
            None => self.before(calls, rows.start),
        };
        let calls = &calls.with_next(Next {
            row: rows.end,
            first: rows.start,
        });
        self.next = rows.end;
        let mut row = rows.start;
        while row < rows.end {
            let (end, reads) = self.run(row as i64);
            let end = end.clamp(row as i64 + 1, rows.end as i64) as usize;
            self.run_of_rows(calls, row..end, reads, rows.start, &mut carry);
            row = end;
        }
        self.carry = Some(carry);
    }

    /// The totals of the row before a row, for which nothing is known. Overwrites the columns.
    fn before(&self, calls: &Calls, row: usize) -> Vec<u64> {
        let mut carry = neutral_words(&self.slots);
        let mut units = self.window(row);
        while !units.is_empty() {
            let part = units.start..units.end.min(units.start + CHUNK);
            units.start = part.end;
            let targets = self.targets(part.start);
            calls.scan(self.forward, &Ranges::one(part, 0), &targets, &mut carry);
        }
        carry
    }

    /// What a row reads, and the end of the rows that read the same.
    fn run(&self, row: i64) -> (i64, Reads) {
        let len = self.steady.len as i64;
        // The end of the rows for which the unit exists, or does not, like this row's.
        let part = |offset: i64| match row + offset {
            unit if unit < 0 => (-offset, false),
            unit if unit < len => (len - offset, true),
            _ => (i64::MAX, false),
        };
        let (enters, entering) = part(self.steady.hi - 1);
        let (leaves, leaving) = part(self.steady.lo - 1);
        let reads = match (entering, leaving) {
            (false, false) => Reads::Nothing,
            (true, false) => Reads::Entering,
            (false, true) => Reads::Leaving,
            (true, true) => Reads::Both,
        };
        (enters.min(leaves), reads)
    }

    fn run_of_rows(
        &self,
        calls: &Calls,
        rows: Range<usize>,
        reads: Reads,
        first: usize,
        carry: &mut [u64],
    ) {
        let targets = self.targets(first);
        let (enters, leaves) = (self.steady.hi - 1, self.steady.lo - 1);
        match reads {
            Reads::Both => {
                let views = calls.shifted(&[enters, leaves]);
                calls.scan_of(&views, self.difference, rows, &targets, carry);
            }
            Reads::Entering => {
                let views = calls.shifted(&[enters]);
                calls.scan_of(&views, self.forward, rows, &targets, carry);
            }
            Reads::Leaving => {
                // What has left so far, then subtracted from what there was.
                let mut left = neutral_words(&self.slots);
                let views = calls.shifted(&[leaves]);
                calls.scan_of(&views, self.forward, rows.clone(), &targets, &mut left);
                for (slot, (op, _)) in self.slots.iter().enumerate() {
                    if *op == Combine::Add {
                        let column = self.words(slot, rows.start - first..rows.end - first);
                        for total in &mut *column {
                            *total = carry[slot].wrapping_sub(*total);
                        }
                        carry[slot] = carry[slot].wrapping_sub(left[slot]);
                    }
                }
            }
            Reads::Nothing => {
                for (slot, (op, _)) in self.slots.iter().enumerate() {
                    if *op == Combine::Add {
                        self.words(slot, rows.start - first..rows.end - first)
                            .fill(carry[slot]);
                    }
                }
            }
        }
    }

    /// Where loops write whose row `first` is the chunk's first.
    fn targets(&self, first: usize) -> Vec<Target> {
        let columns = self.columns.iter().zip(&self.slots);
        let targets = columns.map(|(column, (_, ty))| Target {
            values: column.wrapping_sub(first * ty.bytes()),
            validity: std::ptr::null_mut(),
            len: (first + CHUNK) as u64,
        });
        targets.collect()
    }

    #[expect(clippy::mut_from_ref, reason = "the memory is the chunk's")]
    fn words(&self, slot: usize, rows: Range<usize>) -> &mut [u64] {
        debug_assert_eq!(self.slots[slot].1.bits(), 64, "totals are words");
        #[expect(clippy::cast_ptr_alignment, reason = "columns are aligned to vectors")]
        let column = self.columns[slot].cast::<u64>();
        // SAFETY: the column has room for the chunk's rows, and nothing else refers to it.
        unsafe { std::slice::from_raw_parts_mut(column.add(rows.start), rows.len()) }
    }

    pub(super) fn view(&self, column: usize, rows: usize) -> View {
        View {
            values: self.columns[column / 2],
            len: rows.next_multiple_of(LANES) as u64,
            ..view::nothing()
        }
    }
}
