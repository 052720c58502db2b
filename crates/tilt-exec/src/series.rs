//! The columns of a stream while a piece is computed.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, cast::AsArray, downcast_primitive_array, make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use tilt_codegen::lir::{LANES, Ty};
use tilt_data::{Spans, Stamps, Timeline};
use tilt_ir::Edge;

use tilt_codegen::abi::View;

use crate::{
    cursor::Instants,
    memory::{POSITIONS, Returned, Scratch},
    view,
};

/// A list of intervals that streams share.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) timeline: Timeline,
    /// What a merge chose, for each of its groups.
    pub(crate) choices: Vec<Vec<u32>>,
    ends: OnceLock<ScalarBuffer<i64>>,
}

impl Axis {
    pub(crate) fn new(timeline: Timeline, choices: Vec<Vec<u32>>) -> Self {
        Self {
            timeline,
            choices,
            ends: OnceLock::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.timeline.len()
    }

    /// Some rows, in order.
    pub(crate) fn pick(&self, rows: &[u32]) -> Self {
        let ends = self.ends();
        let ends = rows.iter().map(|row| ends[*row as usize]).collect();
        let start = |row: &u32| self.timeline.start(*row as usize);
        let timeline = match self.timeline.spans() {
            Spans::Fixed(length) => Timeline::explicit(ends, Spans::Fixed(*length)),
            _ => Timeline::intervals(rows.iter().map(start).collect(), ends),
        };
        Self::new(timeline, Vec::new())
    }

    /// The ends, one by one.
    pub(crate) fn ends(&self) -> &ScalarBuffer<i64> {
        self.ends.get_or_init(|| self.timeline.ends())
    }

    /// An edge of the event at a position; anything where there is none.
    pub(crate) fn edges(&self, edge: Edge) -> impl Fn(i64) -> i64 {
        let timeline = &self.timeline;
        let regular = match (timeline.period(), self.regular_ends(), timeline.spans()) {
            (Some(period), Some(end), Spans::Fixed(length)) => {
                let first = match edge {
                    Edge::Start => end.saturating_sub(*length),
                    Edge::End => end,
                };
                Some((first, period))
            }
            _ => None,
        };
        move |position| {
            if let Some((first, period)) = regular {
                return first.wrapping_add(position.wrapping_mul(period));
            }
            let position = usize::try_from(position).ok();
            let position = position.filter(|p| *p < timeline.len());
            position.map_or(0, |p| match edge {
                Edge::Start => timeline.start(p),
                Edge::End => timeline.end(p),
            })
        }
    }

    /// The ends as instants to read at.
    pub(crate) fn instants(&self) -> Instants<'_> {
        match (self.timeline.stamps(), self.regular_ends()) {
            (Stamps::Regular { period, .. }, Some(first)) => Instants::regular(first, *period),
            _ => Instants::explicit(self.ends()),
        }
    }

    /// The first end, if ends are regular.
    pub(crate) fn regular_ends(&self) -> Option<i64> {
        match (self.timeline.stamps(), self.timeline.spans()) {
            (Stamps::Regular { t0, .. }, Spans::Fixed(_)) => {
                Some(t0.wrapping_add(self.timeline.shift()))
            }
            _ => None,
        }
    }
}

impl Drop for Axis {
    fn drop(&mut self) {
        self.choices
            .drain(..)
            .for_each(|choices| POSITIONS.give(choices));
    }
}

/// A stream: its axis and a value or φ at every position.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) axis: Arc<Axis>,
    pub(crate) leaves: Vec<Leaf>,
    /// Where there is an event; `None` everywhere. Of a scalar stream the leaf tells.
    pub(crate) present: Option<BooleanBuffer>,
}

impl Series {
    /// Where there is an event, whatever the stream's type.
    pub(crate) fn presence(&self) -> Option<&BooleanBuffer> {
        self.present.as_ref()
    }
}

impl Series {
    /// Some rows, with no bitmap where there is an event at all of them.
    pub(crate) fn trimmed(&self, rows: Range<usize>) -> Self {
        let timeline = self.axis.timeline.slice(rows.start, rows.len());
        let leaf = |leaf: &Leaf| {
            let mut leaf = leaf.slice(rows.start, rows.len()).aligned();
            leaf.valid = leaf.valid.filter(|v| v.count_set_bits() < v.len());
            leaf
        };
        let present = self.present.as_ref();
        let present = present.map(|bits| bits.slice(rows.start, rows.len()));
        Self {
            axis: Arc::new(Axis::new(timeline, Vec::new())),
            leaves: self.leaves.iter().map(leaf).collect(),
            present: present
                .filter(|bits| bits.count_set_bits() < bits.len())
                .map(|bits| aligned(&bits)),
        }
    }
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) ty: Ty,
    pub(crate) len: usize,
    values: Values,
    pub(crate) valid: Option<BooleanBuffer>,
    /// How many elements can be read before the first, and from it on.
    pub(crate) lead: usize,
    pub(crate) room: usize,
}

#[derive(Clone, Debug)]
enum Values {
    /// Elements one after the other.
    Plain(Buffer),
    /// Bits.
    Bits(BooleanBuffer),
}

impl Leaf {
    /// The column of an Arrow array whose elements have type `ty`. Foreign memory: nothing beyond it can be read.
    pub(crate) fn of_array(array: &ArrayRef, ty: Ty) -> Self {
        let valid = array.nulls().filter(|n| n.null_count() > 0);
        let valid = valid.map(|nulls| aligned(nulls.inner()));
        let len = array.len();
        let values = if ty == Ty::Bool {
            Values::Bits(aligned(array.as_boolean().values()))
        } else {
            Values::Plain(elements(array, ty))
        };
        Self {
            ty,
            len,
            values,
            valid,
            lead: 0,
            room: len,
        }
    }

    /// A column without rows, which nobody reads.
    pub(crate) fn nothing() -> Self {
        Self::written(Ty::U8, 0, Buffer::from_vec(Vec::<u8>::new()), None)
    }

    /// A column that a loop wrote, with room to read up to the next multiple of eight.
    pub(crate) fn written(ty: Ty, len: usize, values: Buffer, valid: Option<Buffer>) -> Self {
        let valid = valid.map(|bits| BooleanBuffer::new(bits, 0, len));
        let room = len.next_multiple_of(LANES);
        let values = if ty == Ty::Bool {
            Values::Bits(BooleanBuffer::new(values, 0, len))
        } else {
            Values::Plain(values)
        };
        Self {
            ty,
            len,
            values,
            valid,
            lead: 0,
            room,
        }
    }

    /// Rows `from ..`, as many as `len`, sharing the memory.
    pub(crate) fn slice(&self, from: usize, len: usize) -> Self {
        let bytes = self.ty.bytes();
        let values = match &self.values {
            Values::Plain(buffer) => Values::Plain(buffer.slice(from * bytes)),
            Values::Bits(bits) => Values::Bits(bits.slice(from, len)),
        };
        Self {
            ty: self.ty,
            len,
            values,
            valid: self.valid.as_ref().map(|v| v.slice(from, len)),
            lead: self.lead + from,
            room: self.room - from,
        }
    }

    /// The same column, bits beginning at a whole byte.
    pub(crate) fn aligned(mut self) -> Self {
        if let Values::Bits(bits) = &mut self.values {
            *bits = aligned(bits);
        }
        self.valid = self.valid.map(|bits| aligned(&bits));
        self
    }

    /// The same rows in memory of their own.
    pub(crate) fn detached(&self) -> Self {
        // Arrow shares bits that begin with a byte.
        let bits = |bits: &BooleanBuffer| {
            let own = Buffer::from_slice_ref(bits.sliced().as_slice());
            BooleanBuffer::new(own, 0, bits.len())
        };
        let values = match &self.values {
            Values::Plain(buffer) => {
                let padded = self.len.next_multiple_of(LANES) * self.ty.bytes();
                let memory = Returned::new(padded);
                let bytes = buffer.slice_with_length(0, self.len * self.ty.bytes());
                // SAFETY: as many bytes, of memory that nobody else has.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len());
                }
                Values::Plain(memory.into_buffer(padded))
            }
            Values::Bits(values) => Values::Bits(bits(values)),
        };
        Self {
            ty: self.ty,
            len: self.len,
            values,
            valid: self.valid.as_ref().map(bits),
            lead: 0,
            room: self.len.next_multiple_of(LANES),
        }
    }

    /// The address of element `i`, which may lie before the first or after the last; not for bools.
    pub(crate) fn at(&self, i: isize) -> *const u8 {
        match &self.values {
            Values::Plain(buffer) => buffer
                .as_ptr()
                .wrapping_offset(i * self.ty.bytes() as isize),
            Values::Bits(_) => unreachable!("bools have no addresses"),
        }
    }

    /// The bits of a column of bools.
    pub(crate) fn bits(&self) -> Option<&BooleanBuffer> {
        match &self.values {
            Values::Bits(bits) => Some(bits),
            Values::Plain(_) => None,
        }
    }

    /// The whole column, bits beginning at a whole byte.
    pub(crate) fn whole(&self, nullable: bool, scratch: &mut Scratch) -> View {
        let bits = |bits: &BooleanBuffer| {
            debug_assert_eq!(bits.offset() % 8, 0, "bits of a series begin at a byte");
            bits.values()[bits.offset() / 8..].as_ptr()
        };
        View {
            values: match &self.values {
                Values::Plain(buffer) => buffer.as_ptr(),
                Values::Bits(values) => bits(values),
            },
            validity: match &self.valid {
                Some(valid) if nullable => bits(valid),
                None if nullable => view::bit_rows(None, self.len, 0, self.len, scratch),
                _ => std::ptr::null(),
            },
            len: self.room as u64,
            lead: self.lead as u64,
            ..view::nothing()
        }
    }

    /// An Arrow array of the given type.
    pub(crate) fn to_array(&self, data_type: &DataType) -> ArrayRef {
        let buffer = match &self.values {
            Values::Plain(buffer) => buffer.slice_with_length(0, self.len * self.ty.bytes()),
            Values::Bits(bits) => {
                let nulls = self.valid.clone().map(NullBuffer::new);
                return Arc::new(arrow_array::BooleanArray::new(bits.clone(), nulls));
            }
        };
        let nulls = self.valid.clone().map(NullBuffer::new);
        // The usual ones without a detour.
        match data_type {
            DataType::Float64 => {
                let values = ScalarBuffer::new(buffer, 0, self.len);
                return Arc::new(Float64Array::new(values, nulls));
            }
            DataType::Int64 => {
                let values = ScalarBuffer::new(buffer, 0, self.len);
                return Arc::new(Int64Array::new(values, nulls));
            }
            _ => {}
        }
        let data = arrow_data::ArrayData::builder(data_type.clone())
            .len(self.len)
            .add_buffer(buffer)
            .nulls(nulls);
        // SAFETY: the buffer holds `len` elements of the type's width, aligned to a cache line or as Arrow gave it.
        make_array(unsafe { data.build_unchecked() })
    }
}

/// The memory of an array's elements, which have type `ty`.
fn elements(array: &ArrayRef, ty: Ty) -> Buffer {
    downcast_primitive_array!(
        array => array.values().inner().clone(),
        _ => {
            let data = array.to_data();
            let bytes = ty.bytes();
            data.buffers()[0].slice_with_length(data.offset() * bytes, array.len() * bytes)
        }
    )
}

/// The same bits, beginning at a whole byte.
pub(crate) fn aligned(bits: &BooleanBuffer) -> BooleanBuffer {
    if bits.offset().is_multiple_of(8) {
        bits.clone()
    } else {
        BooleanBuffer::new(bits.sliced(), 0, bits.len())
    }
}
