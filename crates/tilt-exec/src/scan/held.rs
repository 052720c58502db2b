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
    /// The positions that are held, in order.
    positions: Range<usize>,
    /// Elements of the memory before the first one.
    gone: usize,
    /// After so many elements the memory begins anew; then nothing is ever moved, but what loops write and read has to end there.
    lap: Option<usize>,
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
            gone: 0,
            lap: None,
        }
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Room for so many positions, over which the next ones are written.
    pub(super) fn ring(slot: (Combine, Ty), lap: usize) -> Self {
        Self {
            lap: Some(lap),
            ..Self::new(slot, lap)
        }
    }

    /// Forgets the positions before `from`; goes on there if none is left. Then there is room for those before `until`.
    pub(super) fn keep(&mut self, from: usize, until: usize) {
        let Range { start, end } = self.positions;
        if start == end || end <= from {
            self.gone = self.lap.map_or(0, |lap| self.index(from, lap));
            self.positions = from..from;
            return;
        }
        let from = from.max(start);
        self.gone += from - start;
        self.positions.start = from;
        if let Some(lap) = self.lap {
            self.gone %= lap;
            return;
        }
        let (bytes, kept) = (self.ty.bytes(), end - from);
        let room = self.memory.len() / bytes;
        // What is left moves to the beginning, which is in a cache, if it is little compared to what is gone.
        if 2 * kept <= self.gone || self.gone + until.saturating_sub(from) + 2 * LANES > room {
            // SAFETY: both lie in the memory.
            unsafe { std::ptr::copy(self.at(from), self.memory.as_ptr(), kept * bytes) }
            self.gone = 0;
        }
    }

    pub(super) fn extend(&mut self, end: usize) {
        self.positions.end = end;
        debug_assert!(match self.lap {
            Some(lap) => self.positions.len() <= lap,
            None => (self.gone + self.positions.len()) * self.ty.bytes() <= self.memory.len(),
        });
    }

    /// Where in a ring a position is, wherever what is held begins.
    fn index(&self, position: usize, lap: usize) -> usize {
        let distance = position as i64 - self.positions.start as i64;
        (self.gone as i64 + distance).rem_euclid(lap as i64) as usize
    }

    /// The end of the positions from `position` on that lie side by side.
    pub(super) fn lap_end(&self, position: usize) -> usize {
        match self.lap {
            Some(lap) => position + lap - self.index(position, lap),
            None => usize::MAX,
        }
    }

    /// For a loop whose rows are positions from `position` on, as far as they lie side by side.
    pub(super) fn target_from(&self, position: usize) -> Target {
        let bytes = self.ty.bytes();
        match self.lap {
            Some(_) => Target {
                values: self.at(position).wrapping_sub(position * bytes),
                validity: std::ptr::null_mut(),
                len: self.lap_end(position) as u64,
            },
            None => self.target(),
        }
    }

    /// The first positions are there no longer; all others are numbered anew.
    pub(super) fn forget(&mut self, positions: usize) {
        self.keep(positions.max(self.positions.start), 0);
        self.positions = self.positions.start - positions..self.positions.end - positions;
    }

    /// For a loop whose rows are positions. Only those from the end of what is held on may be written, as far as there is room.
    pub(super) fn target(&self) -> Target {
        self.spare(self.positions.end)
    }

    /// For a loop whose results nobody reads: what it writes for positions from `position` on goes to where nothing is held.
    pub(super) fn spare(&self, position: usize) -> Target {
        let (bytes, held) = (self.ty.bytes(), self.gone + self.positions.len());
        let free = self.memory.as_ptr().wrapping_add(held * bytes);
        Target {
            values: free.wrapping_sub(position * bytes),
            validity: std::ptr::null_mut(),
            len: (position + self.memory.len() / bytes - held) as u64,
        }
    }

    /// Writes the neutral element at some positions that are held.
    pub(super) fn set_neutral(&self, positions: impl Iterator<Item = usize>) {
        fn write<T: Copy>(base: *mut u8, elements: impl Iterator<Item = usize>, value: T) {
            for element in elements {
                // SAFETY: an element that is held.
                unsafe { base.cast::<T>().add(element).write_unaligned(value) }
            }
        }
        debug_assert!(self.lap.is_none(), "elements of a ring are not in order");
        let first = self.positions.start;
        let base = self.at(first);
        let elements = positions.map(|position| position - first);
        match self.ty.bytes() {
            1 => write(base, elements, self.neutral.bits as u8),
            2 => write(base, elements, self.neutral.bits as u16),
            4 => write(base, elements, self.neutral.bits as u32),
            _ => write(base, elements, self.neutral.bits),
        }
    }

    fn at(&self, position: usize) -> *mut u8 {
        let index = match self.lap {
            Some(lap) => self.index(position, lap),
            None => self.gone + position - self.positions.start,
        };
        self.memory.as_ptr().wrapping_add(index * self.ty.bytes())
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
        let inside = first >= 0
            && first + rows as i64 <= len as i64
            && first as usize + padded <= self.lap_end(first as usize);
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
                    Stand::Own => self.copy((first + row as i64) as usize, n, target),
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

    /// Copies elements to a column that has room for them.
    fn copy(&self, position: usize, n: usize, target: *mut u8) {
        let first = n.min(self.lap_end(position) - position);
        self.copy_run(position, first, target);
        if first < n {
            let rest = target.wrapping_add(first * self.ty.bytes());
            self.copy_run(position + first, n - first, rest);
        }
    }

    /// Copies elements that lie side by side.
    fn copy_run(&self, position: usize, n: usize, target: *mut u8) {
        // SAFETY: elements that are held, and the caller's column has room for them.
        unsafe { std::ptr::copy_nonoverlapping(self.at(position), target, n * self.ty.bytes()) }
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
