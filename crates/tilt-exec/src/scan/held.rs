//! Elements of some consecutive positions: what a chunk reads is written shortly before, over what earlier chunks read, and stays in a cache.

use std::ops::Range;

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, Imm, LANES, Ty},
};

use super::fill;
use crate::{
    memory::{Returned, Scratch},
    view,
};

pub(super) struct Held {
    memory: Returned,
    ty: Ty,
    neutral: Imm,
    /// The positions that are held, in order from the memory's beginning.
    positions: Range<usize>,
}

/// What stands for a position: its own element, that of another, or the neutral one.
#[derive(Clone, Copy)]
pub(super) enum Stand {
    Own,
    Of(usize),
    Neutral,
}

impl Held {
    /// Room for so many positions, and for what a group reads beyond them.
    pub(super) fn new((op, ty): (Combine, Ty), room: usize) -> Self {
        Self {
            memory: Returned::new((room + 2 * LANES) * ty.bytes()),
            ty,
            neutral: op.neutral(ty),
            positions: 0..0,
        }
    }

    /// Forgets the positions before `from`; goes on there if none is left.
    pub(super) fn keep(&mut self, from: usize) {
        let Range { start, end } = self.positions;
        if from <= start && start < end {
            return;
        }
        let kept = end.saturating_sub(from);
        if kept > 0 {
            let bytes = self.ty.bytes();
            // SAFETY: both lie in what is held.
            unsafe { std::ptr::copy(self.at(from), self.memory.as_ptr(), kept * bytes) }
        }
        self.positions = from..from + kept;
    }

    pub(super) fn extend(&mut self, end: usize) {
        self.positions.end = end;
        debug_assert!(self.positions.len() * self.ty.bytes() <= self.memory.len());
    }

    /// The first positions are there no longer; all others are numbered anew.
    pub(super) fn forget(&mut self, positions: usize) {
        self.keep(positions.max(self.positions.start));
        self.positions = self.positions.start - positions..self.positions.end - positions;
    }

    /// For a loop whose rows are positions. Only those from the end of what is held on may be written, as far as there is room.
    pub(super) fn target(&self) -> Target {
        self.spare(self.positions.end)
    }

    /// For a loop whose results nobody reads: what it writes for positions from `position` on goes to where nothing is held.
    pub(super) fn spare(&self, position: usize) -> Target {
        let (bytes, held) = (self.ty.bytes(), self.positions.len());
        let free = self.memory.as_ptr().wrapping_add(held * bytes);
        Target {
            values: free.wrapping_sub(position * bytes),
            validity: std::ptr::null_mut(),
            len: (position + self.memory.len() / bytes - held) as u64,
        }
    }

    pub(super) fn set_neutral(&self, position: usize) {
        fill(self.at(position), 1, self.ty, self.neutral);
    }

    fn at(&self, position: usize) -> *mut u8 {
        let offset = (position - self.positions.start) * self.ty.bytes();
        self.memory.as_ptr().wrapping_add(offset)
    }

    /// Rows that read the positions from `first` on. Where not all `len` exist, `stands` has the ends of runs of rows, and what all of a run read.
    pub(super) fn view(
        &self,
        (first, rows): (i64, usize),
        len: usize,
        stands: &[(i64, Stand)],
        scratch: &mut Scratch,
    ) -> View {
        let padded = rows.next_multiple_of(LANES);
        let inside = first >= 0 && first + rows as i64 <= len as i64;
        let values = if inside {
            self.at(first as usize)
        } else {
            let bytes = self.ty.bytes();
            let out = scratch.take(padded * bytes);
            let mut row = 0;
            for (end, stand) in stands {
                let n = end.saturating_sub(first).clamp(row as i64, rows as i64) as usize - row;
                let target = out.wrapping_add(row * bytes);
                match stand {
                    _ if n == 0 => {}
                    Stand::Neutral => fill(target, n, self.ty, self.neutral),
                    Stand::Of(position) => fill(target, n, self.ty, self.element(*position)),
                    Stand::Own => {
                        let from = self.at((first + row as i64) as usize);
                        // SAFETY: elements that are held, copied to a column that has room for all rows.
                        unsafe { std::ptr::copy_nonoverlapping(from, target, n * bytes) }
                    }
                }
                row += n;
            }
            out
        };
        View {
            values,
            len: padded as u64,
            ..view::nothing()
        }
    }

    fn element(&self, position: usize) -> Imm {
        let mut bits = [0; 8];
        let bytes = self.ty.bytes();
        // SAFETY: an element that is held, of at most eight bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.at(position), bits.as_mut_ptr(), bytes) }
        Imm {
            ty: self.ty,
            bits: u64::from_le_bytes(bits),
        }
    }
}
