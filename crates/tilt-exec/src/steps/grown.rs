//! Columns that grow at their end, and whose first rows are forgotten.

use std::{ptr::NonNull, sync::Arc};

use arrow_buffer::{BooleanBuffer, Buffer, ScalarBuffer, alloc::Allocation, bit_mask::set_bits};
use tilt_codegen::lir::{LANES, Ty};

use crate::{
    bytes::{Reader, Writer},
    memory::Returned,
    run::Output,
    series::Leaf,
};

/// A column. How many rows it has, those know who write it; all columns of a stream have as many.
#[derive(Debug)]
pub(super) struct Grown {
    ty: Ty,
    /// Elements before the first, which a recurrence reads, whatever they are.
    lead: usize,
    room: usize,
    /// Whether anybody reads it; otherwise its rows have any values.
    is_read: bool,
    /// Elements; bits of bools.
    values: Room,
    valid: Option<Room>,
}

/// Memory that is written while all of it is lent as a buffer: who writes knows that nobody reads there.
#[derive(Debug)]
struct Room {
    memory: Arc<Returned>,
    whole: Buffer,
}

impl Room {
    fn new(bytes: usize) -> Self {
        let memory = Arc::new(Returned::new(bytes));
        let owner: Arc<dyn Allocation> = Arc::clone(&memory) as Arc<dyn Allocation>;
        let at = NonNull::new(memory.as_ptr()).expect("memory has an address");
        // SAFETY: `owner` keeps the memory, which is as long, alive.
        let whole = unsafe { Buffer::from_custom_allocation(at, memory.len(), owner) };
        Self { memory, whole }
    }

    fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }
}

impl Grown {
    /// No rows, with room for some at first.
    pub(super) fn new(ty: Ty, nullable: bool, lead: usize, room: usize) -> Self {
        let lead = if ty == Ty::Bool { 0 } else { lead };
        Self {
            ty,
            lead,
            room,
            is_read: true,
            values: Room::new(bytes(ty, lead + room)),
            valid: nullable.then(|| Room::new(bytes(Ty::Bool, room))),
        }
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        let valid = self.valid.as_ref().map_or(0, |room| room.memory.len());
        self.values.memory.len() + valid
    }

    /// The same column, if nobody reads it.
    pub(super) fn unread(self) -> Self {
        Self {
            is_read: false,
            ..self
        }
    }

    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Appends rows of any values to the first `len`.
    pub(super) fn skip(&mut self, len: usize, rows: usize) {
        self.reserve(len, rows);
    }

    /// Whether rows may have no value.
    pub(super) fn is_nullable(&self) -> bool {
        self.valid.is_some()
    }

    /// The address of a row; of bools, that of the first.
    fn at(&self, row: usize) -> *mut u8 {
        let bytes = if self.ty == Ty::Bool {
            0
        } else {
            (self.lead + row) * self.ty.bytes()
        };
        self.values.as_ptr().wrapping_add(bytes)
    }

    /// Makes room for so many rows after the first `len`, and for what a group writes too much.
    pub(super) fn reserve(&mut self, len: usize, more: usize) {
        let needed = len + more + LANES;
        if needed <= self.room {
            return;
        }
        self.room = needed.max(2 * self.room);
        let room = self.room;
        let grow = |memory: &mut Room, ty: Ty, lead: usize| {
            let larger = Room::new(bytes(ty, lead + room));
            // SAFETY: both have room for what is there.
            unsafe {
                let (from, to) = (memory.as_ptr(), larger.as_ptr());
                std::ptr::copy_nonoverlapping(from, to, bytes(ty, lead + len));
            }
            *memory = larger;
        };
        grow(&mut self.values, self.ty, self.lead);
        if let Some(valid) = &mut self.valid {
            grow(valid, Ty::Bool, 0);
        }
    }

    /// Appends the rows of a leaf of the same type to the first `len`.
    pub(super) fn append(&mut self, len: usize, leaf: &Leaf) {
        self.reserve(len, leaf.len);
        if let Some(bits) = leaf.bits() {
            append_bits(&self.values, len, bits);
        } else {
            let bytes = self.ty.bytes();
            // SAFETY: elements of the leaf, and there is room for them.
            unsafe { std::ptr::copy_nonoverlapping(leaf.at(0), self.at(len), leaf.len * bytes) }
        }
        if let Some(valid) = &self.valid {
            match &leaf.valid {
                Some(bits) => append_bits(valid, len, bits),
                None => append_bits(valid, len, &BooleanBuffer::new_set(leaf.len)),
            }
        }
    }

    /// Appends elements, none of them null, to the first `len`. False if they are not as wide as those of the column.
    pub(super) fn append_values(&mut self, len: usize, rows: usize, values: &[u8]) -> bool {
        if self.ty == Ty::Bool || values.len() != rows * self.ty.bytes() {
            return false;
        }
        self.reserve(len, rows);
        // SAFETY: there is room for as many elements.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.at(len), values.len()) }
        if let Some(valid) = &self.valid {
            append_bits(valid, len, &BooleanBuffer::new_set(rows));
        }
        true
    }

    /// Where a loop writes rows from `len` on: elements in their place, bits into memory of their own, because they begin with a byte.
    pub(super) fn output(&self, len: usize, bits: &Bits) -> Output {
        Output {
            ty: self.ty,
            values: match &bits.values {
                Some(values) => values.as_ptr(),
                None => self.at(len),
            },
            validity: bits
                .valid
                .as_ref()
                .map_or(std::ptr::null_mut(), Returned::as_ptr),
            unread: false,
        }
    }

    /// Memory for the bits of some rows that a loop writes.
    pub(super) fn bits(&self, rows: usize) -> Bits {
        let memory = || Returned::new(bytes(Ty::Bool, rows + LANES));
        Bits {
            values: (self.ty == Ty::Bool).then(memory),
            valid: self.valid.as_ref().map(|_| memory()),
        }
    }

    /// Puts the bits of some rows after the first `len` in their place.
    pub(super) fn append_written(&mut self, len: usize, rows: usize, bits: Bits) {
        let written = |memory: Returned| {
            let buffer = memory.into_buffer(bytes(Ty::Bool, rows));
            BooleanBuffer::new(buffer, 0, rows)
        };
        if let Some(values) = bits.values {
            append_bits(&self.values, len, &written(values));
        }
        if let (Some(valid), Some(bits)) = (&self.valid, bits.valid) {
            append_bits(valid, len, &written(bits));
        }
    }

    /// Forgets the first rows of `len`, a multiple of eight.
    pub(super) fn forget(&mut self, len: usize, rows: usize) {
        debug_assert!(rows.is_multiple_of(8), "bits move by bytes");
        let forget = |at: *mut u8, ty: Ty| {
            let kept = bytes(ty, len) - bytes(ty, rows);
            // SAFETY: both lie in what is there.
            unsafe { std::ptr::copy(at.add(bytes(ty, rows)), at, kept) }
        };
        forget(self.at(0), self.ty);
        if let Some(valid) = &self.valid {
            forget(valid.as_ptr(), Ty::Bool);
        }
    }

    /// Writes the first `len` rows, if anybody reads them.
    pub(super) fn save(&self, len: usize, out: &mut Writer) {
        if !self.is_read {
            return;
        }
        let mut write = |at: *const u8, ty: Ty| {
            // SAFETY: rows of the column, which nobody writes meanwhile.
            let rows = unsafe { std::slice::from_raw_parts(at, bytes(ty, len)) };
            out.bytes(rows);
        };
        write(self.at(0), self.ty);
        if let Some(valid) = &self.valid {
            write(valid.as_ptr(), Ty::Bool);
        }
    }

    /// Takes `len` rows that were [written](Self::save); there are no others. `None` if they are not there.
    pub(super) fn restore(&mut self, len: usize, from: &mut Reader) -> Option<()> {
        if !self.is_read {
            self.reserve(0, len);
            return Some(());
        }
        let values = from.bytes()?;
        let valid = self.valid.as_ref().map(|_| from.bytes());
        let has_all = |found: &[u8], ty: Ty| found.len() == bytes(ty, len);
        if !has_all(values, self.ty) {
            return None;
        }
        self.reserve(0, len);
        // SAFETY: there is room for as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.at(0), values.len()) }
        if let (Some(bits), Some(found)) = (&self.valid, valid) {
            let found = found.filter(|found| has_all(found, Ty::Bool))?;
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), bits.as_ptr(), found.len()) }
        }
        Some(())
    }

    /// Numbers of rows, none of them less than -1, count `rows` less from now on.
    pub(super) fn renumber(&mut self, len: usize, rows: usize) {
        for row in 0..len {
            let number = self.instant(row) - rows as i64;
            #[expect(clippy::cast_ptr_alignment, reason = "memory is aligned to vectors")]
            let at = self.at(row).cast::<i64>();
            // SAFETY: a row of the column, which nobody else refers to.
            unsafe { *at = number.max(-1) }
        }
    }

    /// The first `len` rows. Nobody may hold them when the column changes.
    pub(super) fn leaf(&self, len: usize) -> Leaf {
        let padded = len.next_multiple_of(LANES);
        let values = &self.values.whole;
        let values = values.slice_with_length(bytes(self.ty, self.lead), bytes(self.ty, padded));
        let valid = self.valid.as_ref();
        let valid = valid.map(|valid| valid.whole.slice_with_length(0, bytes(Ty::Bool, padded)));
        Leaf::written(self.ty, len, values, valid)
    }

    /// The first `len` of some instants.
    pub(super) fn instants(&self, len: usize) -> ScalarBuffer<i64> {
        ScalarBuffer::new(self.values.whole.clone(), 0, len)
    }

    /// An instant.
    pub(super) fn instant(&self, row: usize) -> i64 {
        debug_assert!(self.ty == Ty::I64 && row < self.room);
        #[expect(clippy::cast_ptr_alignment, reason = "memory is aligned to vectors")]
        let at = self.at(row).cast::<i64>();
        // SAFETY: a row of the column, all of whose memory is initialised.
        unsafe { *at }
    }

    /// Appends instants.
    pub(super) fn append_instants(&mut self, len: usize, instants: &[i64]) {
        self.reserve(len, instants.len());
        let bytes = size_of_val(instants);
        // SAFETY: there is room for them.
        unsafe { std::ptr::copy_nonoverlapping(instants.as_ptr().cast(), self.at(len), bytes) }
    }
}

/// Bits of some rows while a loop writes them.
#[derive(Debug)]
pub(super) struct Bits {
    values: Option<Returned>,
    valid: Option<Returned>,
}

fn bytes(ty: Ty, rows: usize) -> usize {
    if ty == Ty::Bool {
        rows.div_ceil(8)
    } else {
        rows * ty.bytes()
    }
}

/// Puts bits after the first `len`.
fn append_bits(room: &Room, len: usize, bits: &BooleanBuffer) {
    let memory = &room.memory;
    // SAFETY: the memory belongs to this column, of which nobody reads rows from `len` on.
    let target = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.len()) };
    let end = (len + bits.len()).div_ceil(8);
    target[len / 8] &= !(u8::MAX << (len % 8));
    target[(len / 8 + 1).min(end)..end].fill(0);
    set_bits(target, bits.values(), len, bits.offset(), bits.len());
}
