//! The rows of an input, grouped by key.

use std::{ops::Range, sync::Arc};

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, ScalarBuffer};
use tilt_codegen::lir::LANES;
use tilt_data::{SnapshotBuffer, Spans, Timeline};

use crate::{
    facts::{AxisFacts, Regular},
    keys::Ids,
    memory::Returned,
    series::{Axis, Leaf, Series},
};

/// The rows of a keyed input, those of one key together and in order.
pub(super) struct Grouped {
    /// What holds for every key.
    pub(super) axis: AxisFacts,
    /// Where each row goes. Rows are read in order and written to as many places as there are keys, which caches hold; the other way
    /// round every read would miss them.
    places: Vec<u32>,
    /// Where each key begins, and the end.
    bounds: Vec<u32>,
    ends: ScalarBuffer<i64>,
    /// Unless all events have one length.
    starts: Option<ScalarBuffer<i64>>,
    leaves: Vec<Leaf>,
}

impl Grouped {
    pub(super) fn new(buffer: &SnapshotBuffer, series: &Series, ids: &Ids, keys: usize) -> Self {
        let Ids::Listed(ids) = ids else {
            unreachable!("numbered keys are listed")
        };
        let mut bounds = vec![0u32; keys + 1];
        for id in ids {
            bounds[*id as usize + 1] += 1;
        }
        for key in 0..keys {
            bounds[key + 1] += bounds[key];
        }
        let mut next = bounds.clone();
        let place = |id: &u32| {
            let next = &mut next[*id as usize];
            *next += 1;
            *next - 1
        };
        let places: Vec<u32> = ids.iter().map(place).collect();
        let timeline = buffer.timeline();
        let grouped = |times: &ScalarBuffer<i64>| {
            let len = times.len();
            ScalarBuffer::new(spread(&places, times), 0, len)
        };
        let ends: ScalarBuffer<i64> = grouped(series.axis.ends());
        let length = match timeline.spans() {
            Spans::Fixed(length) => Some(*length),
            _ => None,
        };
        let starts: Option<ScalarBuffer<i64>> =
            length.is_none().then(|| grouped(&timeline.starts()));
        let mut this = Self {
            axis: AxisFacts {
                regular: None,
                length,
                disjoint: false,
                ordered: false,
            },
            places,
            bounds,
            ends,
            starts,
            leaves: Vec::new(),
        };
        this.axis.disjoint = this.is_disjoint();
        this.axis.ordered = this.axis.disjoint || length.is_some();
        this.axis.regular = this.regular();
        this
    }

    /// How many rows all keys have.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn range(&self, key: usize) -> Range<usize> {
        self.bounds[key] as usize..self.bounds[key + 1] as usize
    }

    fn keys(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.bounds.len() - 1).map(|key| self.range(key))
    }

    fn is_disjoint(&self) -> bool {
        self.keys().all(|rows| {
            let ends = &self.ends[rows.clone()];
            match (&self.starts, self.axis.length) {
                (Some(starts), _) => starts[rows].iter().skip(1).zip(ends).all(|(s, e)| s >= e),
                (None, length) => {
                    let length = length.unwrap_or(1);
                    ends.windows(2).all(|w| w[1].saturating_sub(w[0]) >= length)
                }
            }
        })
    }

    /// The period and phase that the ends of every key have.
    fn regular(&self) -> Option<Regular> {
        self.axis.length?;
        let gap = |rows: Range<usize>| {
            let ends = &self.ends[rows];
            ends.get(1)?.checked_sub(ends[0]).filter(|gap| *gap > 0)
        };
        let period = self.keys().find_map(gap)?;
        let regular = Regular::new(period, *self.ends.first()?);
        let fits = self.keys().all(|rows| {
            let ends = &self.ends[rows];
            ends.first()
                .is_none_or(|end| Regular::new(period, *end) == regular)
                && ends
                    .windows(2)
                    .all(|w| w[1].checked_sub(w[0]) == Some(period))
        });
        fits.then_some(regular)
    }

    /// Groups the columns that are read. The others stay as they are.
    pub(super) fn gather(&mut self, series: &Series, read: &[usize]) {
        let places = std::mem::take(&mut self.places);
        let leaf = |(i, leaf): (usize, &Leaf)| {
            if read.contains(&i) {
                spread_leaf(&places, leaf)
            } else {
                leaf.clone()
            }
        };
        self.leaves = series.leaves.iter().enumerate().map(leaf).collect();
    }

    /// The rows of a key.
    pub(super) fn series(&self, key: usize) -> Series {
        let rows = self.range(key);
        let ends = self.ends.slice(rows.start, rows.len());
        let timeline = match (&self.starts, self.axis.length, self.axis.regular) {
            (Some(starts), ..) => Timeline::intervals(starts.slice(rows.start, rows.len()), ends),
            (None, Some(length), Some(regular)) => {
                let first = ends.first().copied().unwrap_or(regular.phase);
                Timeline::regular(first, regular.period, rows.len(), Spans::Fixed(length))
            }
            (None, length, _) => Timeline::explicit(ends, Spans::Fixed(length.unwrap_or(1))),
        };
        let leaves = self.leaves.iter();
        Series {
            axis: Arc::new(Axis::new(timeline, Vec::new())),
            leaves: leaves
                .map(|leaf| leaf.slice(rows.start, rows.len()).aligned())
                .collect(),
            present: None,
        }
    }
}

/// A column with each row in its place.
fn spread_leaf(places: &[u32], leaf: &Leaf) -> Leaf {
    let valid = leaf.valid.as_ref().map(|bits| spread_bits(places, bits));
    let values = match (leaf.bits(), leaf.ty.bytes()) {
        (Some(bits), _) => spread_bits(places, bits),
        (None, 1) => spread(places, elements::<u8>(leaf)),
        (None, 2) => spread(places, elements::<u16>(leaf)),
        (None, 4) => spread(places, elements::<u32>(leaf)),
        (None, _) => spread(places, elements::<u64>(leaf)),
    };
    Leaf::written(leaf.ty, leaf.len, values, valid)
}

/// The elements of a column, whose type is as wide as `T`.
fn elements<T: Copy>(leaf: &Leaf) -> &[T] {
    assert_eq!(leaf.ty.bytes(), size_of::<T>(), "elements of the type");
    // SAFETY: a column holds as many elements as it says, aligned, and any bits are one.
    unsafe { std::slice::from_raw_parts(leaf.at(0).cast(), leaf.len) }
}

fn spread<T: Copy>(places: &[u32], values: &[T]) -> Buffer {
    let padded = values.len().next_multiple_of(LANES) * size_of::<T>();
    let memory = Returned::new(padded);
    // SAFETY: so much memory was asked for, it is initialised and aligned to a cache line, and nobody else knows it.
    let out = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().cast::<T>(), values.len()) };
    for (place, value) in places.iter().zip(values) {
        out[*place as usize] = *value;
    }
    memory.into_buffer(padded)
}

fn spread_bits(places: &[u32], bits: &BooleanBuffer) -> Buffer {
    let mut out = BooleanBufferBuilder::new(bits.len());
    out.append_n(bits.len(), false);
    for (place, bit) in places.iter().zip(bits) {
        out.set_bit(*place as usize, bit);
    }
    // Whole groups of bits are read.
    out.resize(bits.len().next_multiple_of(LANES));
    out.finish().into_inner()
}
