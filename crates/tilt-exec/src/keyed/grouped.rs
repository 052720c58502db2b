//! The rows of an input, grouped by key.

use std::{ops::Range, sync::Arc};

use arrow_array::UInt32Array;
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use arrow_select::take::take;
use tilt_codegen::lir::Ty;
use tilt_data::{SnapshotBuffer, Spans, Timeline};

use crate::{
    facts::{AxisFacts, Regular},
    keys::Ids,
    series::{Axis, Leaf, Series},
};

/// The rows of a keyed input, those of one key together and in order.
pub(super) struct Grouped {
    /// What holds for every key.
    pub(super) axis: AxisFacts,
    /// The rows as they were.
    rows: Vec<u32>,
    /// Where in `rows` each key begins, and the end.
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
        let mut rows = vec![0u32; ids.len()];
        for (row, id) in ids.iter().enumerate() {
            let at = &mut next[*id as usize];
            rows[*at as usize] = row as u32;
            *at += 1;
        }
        let timeline = buffer.timeline();
        let gather =
            |times: &ScalarBuffer<i64>| rows.iter().map(|row| times[*row as usize]).collect();
        let ends: ScalarBuffer<i64> = gather(series.axis.ends());
        let length = match timeline.spans() {
            Spans::Fixed(length) => Some(*length),
            _ => None,
        };
        let starts: Option<ScalarBuffer<i64>> =
            length.is_none().then(|| gather(&timeline.starts()));
        let mut this = Self {
            axis: AxisFacts {
                regular: None,
                length,
                disjoint: false,
                ordered: false,
            },
            rows,
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
        let rows = UInt32Array::from(std::mem::take(&mut self.rows));
        let leaf = |(i, leaf): (usize, &Leaf)| {
            if !read.contains(&i) {
                return leaf.clone();
            }
            let array = leaf.to_array(&plain(leaf.ty));
            let array = take(&array, &rows, None).expect("rows of the column");
            Leaf::of_array(&array, leaf.ty)
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

/// An Arrow type with elements like those of a register.
fn plain(ty: Ty) -> DataType {
    match ty {
        Ty::Bool => DataType::Boolean,
        Ty::I8 => DataType::Int8,
        Ty::I16 => DataType::Int16,
        Ty::I32 => DataType::Int32,
        Ty::I64 => DataType::Int64,
        Ty::U8 => DataType::UInt8,
        Ty::U16 => DataType::UInt16,
        Ty::U32 => DataType::UInt32,
        Ty::U64 => DataType::UInt64,
        Ty::F32 => DataType::Float32,
        Ty::F64 => DataType::Float64,
    }
}
