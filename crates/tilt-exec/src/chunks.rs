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
    /// Appends the rows of pieces; about `expected` rows follow. Copies whole columns by `copy_all`, on whatever threads.
    pub(crate) fn push(
        &mut self,
        pieces: &[Series],
        expected: usize,
        copy_all: impl FnOnce(&[Copied]),
    ) {
        let Some(first) = pieces.first() else { return };
        let rows: usize = pieces.iter().map(|series| series.axis.len()).sum();
        if self.leaves.is_empty() {
            self.leaves = first.leaves.iter().map(Column::like).collect();
            let bits = || BooleanBufferBuilder::new(rows + expected);
            self.present = first.present.as_ref().map(|_| bits());
        }
        let mut copies = Vec::with_capacity(pieces.len() * (2 + self.leaves.len()));
        self.starts.reserve(rows * 8, expected * 8);
        self.ends.reserve(rows * 8, expected * 8);
        for (column, leaf) in self.leaves.iter_mut().zip(&first.leaves) {
            let bytes = leaf.ty.bytes();
            if let Values::Plain(values) = &mut column.values {
                values.reserve(rows * bytes, expected * bytes);
            }
        }
        // What is made of events without stored starts lives until all is copied.
        let made: Vec<Option<[Vec<i64>; 2]>> = pieces.iter().map(edges_of).collect();
        for (series, made) in pieces.iter().zip(&made) {
            let timeline = &series.axis.timeline;
            let (starts, ends) = match (made, timeline.stamps(), timeline.spans()) {
                (None, Stamps::Explicit(ends), Spans::Starts { starts, longest }) => {
                    self.longest = self.longest.max(*longest);
                    (&starts[..], &ends[..])
                }
                (Some([starts, ends]), ..) => {
                    let lengths = starts.iter().zip(ends).map(|(s, e)| e.saturating_sub(*s));
                    self.longest = lengths.fold(self.longest, i64::max);
                    (&starts[..], &ends[..])
                }
                (None, ..) => unreachable!("edges that are not stored are made"),
            };
            copies.push(self.starts.push(bytes_of(starts)));
            copies.push(self.ends.push(bytes_of(ends)));
            for (column, leaf) in self.leaves.iter_mut().zip(&series.leaves) {
                copies.extend(column.push(leaf));
            }
            if let (Some(all), Some(present)) = (&mut self.present, &series.present) {
                all.append_buffer(present);
            }
        }
        copy_all(&copies);
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

    /// Appends a leaf; bits at once, all else when the copy is made that is returned.
    fn push(&mut self, leaf: &Leaf) -> Option<Copied> {
        if let (Some(all), Some(valid)) = (&mut self.valid, &leaf.valid) {
            all.append_buffer(valid);
        }
        match (&mut self.values, leaf.bits()) {
            (Values::Bits(all), Some(bits)) => {
                all.append_buffer(bits);
                None
            }
            (Values::Plain(all), _) => {
                let bytes = leaf.ty.bytes();
                // SAFETY: a column holds as many elements as it says.
                let values = unsafe { std::slice::from_raw_parts(leaf.at(0), leaf.len * bytes) };
                Some(all.push(values))
            }
            (Values::Bits(_), None) => unreachable!("columns of all pieces have one type"),
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

/// Bytes of a piece, and where they go.
pub(crate) struct Copied {
    from: *const u8,
    to: *mut u8,
    len: usize,
    past_caches: bool,
}

// SAFETY: copies of one push have different targets, which nothing reads before all are made, and pieces outlive that.
unsafe impl Sync for Copied {}

impl Copied {
    /// Makes the copy.
    pub(crate) fn make(&self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: the piece holds so many bytes, and `Bytes::reserve` has made room for them.
        unsafe {
            if self.past_caches {
                copy_past_caches(self.from, self.to, self.len);
            } else {
                std::ptr::copy_nonoverlapping(self.from, self.to, self.len);
            }
        }
        // Copies past the caches obey no order of their own.
        fence(Ordering::SeqCst);
    }
}

/// Bytes in memory that is kept for the next run.
#[derive(Default)]
struct Bytes {
    memory: Option<Returned>,
    len: usize,
    past_caches: bool,
}

impl Bytes {
    /// Makes room for so many bytes; about `expected` more follow.
    fn reserve(&mut self, bytes: usize, expected: usize) {
        let room = self.memory.as_ref().map_or(0, Returned::len);
        let needed = self.len + bytes;
        self.past_caches = needed + expected >= STREAMED;
        if room < needed {
            let grown = Returned::new(needed + expected + expected / 16);
            if let Some(old) = &self.memory {
                // SAFETY: the old memory holds `len` bytes and the new one, which is another, more.
                unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), grown.as_ptr(), self.len) };
            }
            self.memory = Some(grown);
        }
    }

    /// Where bytes go for which there is room.
    fn push(&mut self, bytes: &[u8]) -> Copied {
        let room = self.memory.as_ref().map_or(0, Returned::len);
        assert!(self.len + bytes.len() <= room, "room was made");
        // Where there is no memory yet, nothing is copied.
        let begin = self
            .memory
            .as_ref()
            .map_or(std::ptr::null_mut(), Returned::as_ptr);
        let to = begin.wrapping_add(self.len);
        self.len += bytes.len();
        Copied {
            from: bytes.as_ptr(),
            to,
            len: bytes.len(),
            past_caches: self.past_caches,
        }
    }

    fn finish(self) -> Buffer {
        let memory = self.memory.unwrap_or_else(|| Returned::new(0));
        memory.into_buffer(self.len)
    }
}

/// The starts and ends of events, if they are not stored.
fn edges_of(series: &Series) -> Option<[Vec<i64>; 2]> {
    let timeline = &series.axis.timeline;
    let stored = (timeline.stamps(), timeline.spans(), timeline.shift());
    if matches!(stored, (Stamps::Explicit(_), Spans::Starts { .. }, 0)) {
        return None;
    }
    let rows = 0..timeline.len();
    let starts = rows.clone().map(|i| timeline.start(i)).collect();
    Some([starts, rows.map(|i| timeline.end(i)).collect()])
}

fn bytes_of(instants: &[i64]) -> &[u8] {
    // SAFETY: integers are bytes, and those of a slice follow each other.
    unsafe { std::slice::from_raw_parts(instants.as_ptr().cast(), size_of_val(instants)) }
}
