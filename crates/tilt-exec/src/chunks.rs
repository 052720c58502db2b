//! The output where its rows are not known before: pieces append theirs to columns that grow.

use std::sync::{
    Arc,
    atomic::{Ordering, fence},
};

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, ScalarBuffer};
use tilt_codegen::lir::Ty;
use tilt_data::{Spans, Stamps, Timeline};

use crate::{
    memory::{Returned, copy_past_caches},
    pieces::STREAMED,
    series::{Axis, Leaf, Series},
};

/// Columns that grow by a piece at a time.
#[derive(Default)]
pub(crate) struct Chunks {
    rows: usize,
    starts: Bytes,
    ends: Bytes,
    /// No event is longer.
    longest: i64,
    leaves: Vec<Column>,
    present: Option<BooleanBufferBuilder>,
}

struct Column {
    ty: Ty,
    values: Values,
    valid: Option<BooleanBufferBuilder>,
}

enum Values {
    Plain(Bytes),
    Bits(BooleanBufferBuilder),
}

impl Chunks {
    /// Appends the rows of a piece; about `expected` rows follow.
    pub(crate) fn push(&mut self, series: &Series, expected: usize) {
        let rows = series.axis.len();
        if self.leaves.is_empty() {
            self.leaves = series.leaves.iter().map(Column::like).collect();
            let bits = || BooleanBufferBuilder::new(rows + expected);
            self.present = series.present.as_ref().map(|_| bits());
        }
        let timeline = &series.axis.timeline;
        let stored = (timeline.stamps(), timeline.spans(), timeline.shift());
        if let (Stamps::Explicit(ends), Spans::Starts { starts, longest }, 0) = stored {
            self.longest = self.longest.max(*longest);
            self.starts.push(bytes_of(starts), expected * 8);
            self.ends.push(bytes_of(ends), expected * 8);
        } else {
            let starts: Vec<i64> = (0..rows).map(|i| timeline.start(i)).collect();
            let ends: Vec<i64> = (0..rows).map(|i| timeline.end(i)).collect();
            let lengths = starts.iter().zip(&ends).map(|(s, e)| e.saturating_sub(*s));
            self.longest = lengths.fold(self.longest, i64::max);
            self.starts.push(bytes_of(&starts), expected * 8);
            self.ends.push(bytes_of(&ends), expected * 8);
        }
        for (column, leaf) in self.leaves.iter_mut().zip(&series.leaves) {
            column.push(leaf, expected);
        }
        if let (Some(all), Some(present)) = (&mut self.present, &series.present) {
            all.append_buffer(present);
        }
        self.rows += rows;
    }

    /// How many rows there are so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// All rows as one series.
    pub(crate) fn finish(self) -> Series {
        let rows = self.rows;
        let instants = |bytes: Bytes| ScalarBuffer::new(bytes.finish(), 0, rows);
        let (starts, ends) = (instants(self.starts), instants(self.ends));
        let timeline = Timeline::intervals_within(starts, ends, self.longest);
        let leaves: Vec<Leaf> = self.leaves.into_iter().map(|c| c.finish(rows)).collect();
        Series {
            axis: Arc::new(Axis::new(timeline, Vec::new())),
            leaves,
            present: self.present.map(|mut bits| bits.finish()),
        }
    }
}

impl Column {
    fn like(leaf: &Leaf) -> Self {
        Self {
            ty: leaf.ty,
            values: match leaf.bits() {
                Some(_) => Values::Bits(BooleanBufferBuilder::new(leaf.len)),
                None => Values::Plain(Bytes::default()),
            },
            valid: leaf
                .valid
                .as_ref()
                .map(|_| BooleanBufferBuilder::new(leaf.len)),
        }
    }

    fn push(&mut self, leaf: &Leaf, expected: usize) {
        match (&mut self.values, leaf.bits()) {
            (Values::Bits(all), Some(bits)) => all.append_buffer(bits),
            (Values::Plain(all), _) => {
                let bytes = leaf.ty.bytes();
                // SAFETY: a column holds as many elements as it says.
                let values = unsafe { std::slice::from_raw_parts(leaf.at(0), leaf.len * bytes) };
                all.push(values, expected * bytes);
            }
            (Values::Bits(_), None) => unreachable!("columns of all pieces have one type"),
        }
        if let (Some(all), Some(valid)) = (&mut self.valid, &leaf.valid) {
            all.append_buffer(valid);
        }
    }

    fn finish(self, rows: usize) -> Leaf {
        let values = match self.values {
            Values::Plain(bytes) => bytes.finish(),
            Values::Bits(mut bits) => padded(&bits.finish()),
        };
        let valid = self.valid.map(|mut bits| padded(&bits.finish()));
        Leaf::written(self.ty, rows, values, valid)
    }
}

/// The bytes of bits that begin at a whole byte.
fn padded(bits: &BooleanBuffer) -> Buffer {
    bits.inner().clone()
}

/// Bytes in memory that is kept for the next run.
#[derive(Default)]
struct Bytes {
    memory: Option<Returned>,
    len: usize,
}

impl Bytes {
    /// Appends bytes; about `expected` more follow.
    fn push(&mut self, bytes: &[u8], expected: usize) {
        let room = self.memory.as_ref().map_or(0, Returned::len);
        let needed = self.len + bytes.len();
        if room < needed {
            let grown = Returned::new(needed + expected + expected / 16);
            if let Some(old) = &self.memory {
                // SAFETY: the old memory holds `len` bytes and the new one, which is another, more.
                unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), grown.as_ptr(), self.len) };
            }
            self.memory = Some(grown);
        }
        let Some(memory) = &self.memory else { return };
        // SAFETY: there is room for `needed` bytes, and nobody else knows this memory.
        unsafe {
            let at = memory.as_ptr().add(self.len);
            if needed + expected >= STREAMED {
                copy_past_caches(bytes.as_ptr(), at, bytes.len());
            } else {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            }
        }
        self.len = needed;
    }

    fn finish(self) -> Buffer {
        // Copies past the caches obey no order of their own.
        fence(Ordering::SeqCst);
        let memory = self.memory.unwrap_or_else(|| Returned::new(0));
        memory.into_buffer(self.len)
    }
}

fn bytes_of(instants: &[i64]) -> &[u8] {
    // SAFETY: integers are bytes, and those of a slice follow each other.
    unsafe { std::slice::from_raw_parts(instants.as_ptr().cast(), size_of_val(instants)) }
}
