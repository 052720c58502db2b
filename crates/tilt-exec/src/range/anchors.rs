//! The anchors of both parts of a window: the elements before and after its split.
//!
//! Sums of powers around the one become sums around the other by their distance, which is all that rows need of them where blocks are scanned: one
//! column, and not two.

use tilt_codegen::{
    abi::View,
    lir::{LANES, Ty},
};

use super::RangeRun;
use crate::{memory::Scratch, series::Leaf, view};

/// Rows that are looked at together for whether they are split in one place.
const RUN: usize = 64;

impl RangeRun<'_> {
    /// The element next to the split of each row: before it or after it; zero where there is none.
    pub(crate) fn anchors(&mut self, leaf: &Leaf, early: bool, scratch: &mut Scratch) -> View {
        let bytes = leaf.ty.bytes();
        let out = scratch.slice::<u8>(self.rows.len().next_multiple_of(LANES) * bytes);
        let split = self.split(scratch);
        // SAFETY: a column holds as many bytes as its elements have.
        let values = unsafe { std::slice::from_raw_parts(leaf.at(0), leaf.len * bytes) };
        for (out, split) in out.chunks_exact_mut(bytes).zip(split) {
            let position = split.wrapping_sub(u32::from(early)) as usize;
            match values.chunks_exact(bytes).nth(position) {
                Some(value) => out.copy_from_slice(value),
                None => out.fill(0),
            }
        }
        View {
            values: out.as_ptr(),
            len: (out.len() / bytes) as u64,
            ..view::nothing()
        }
    }

    /// What the element after the split of each row is more than the one before it, as a double; zero unless there are both in the window.
    pub(crate) fn distances(&mut self, leaf: &Leaf, scratch: &mut Scratch) -> View {
        let out = scratch.slice::<f64>(self.rows.len().next_multiple_of(LANES));
        match leaf.ty {
            Ty::I8 => self.fill_distances(leaf, |v: i8| v.into(), out, scratch),
            Ty::I16 => self.fill_distances(leaf, |v: i16| v.into(), out, scratch),
            Ty::I32 => self.fill_distances(leaf, |v: i32| v.into(), out, scratch),
            Ty::I64 => self.fill_distances(leaf, |v: i64| v as f64, out, scratch),
            Ty::U8 => self.fill_distances(leaf, |v: u8| v.into(), out, scratch),
            Ty::U16 => self.fill_distances(leaf, |v: u16| v.into(), out, scratch),
            Ty::U32 => self.fill_distances(leaf, |v: u32| v.into(), out, scratch),
            Ty::U64 => self.fill_distances(leaf, |v: u64| v as f64, out, scratch),
            Ty::F32 => self.fill_distances(leaf, |v: f32| v.into(), out, scratch),
            Ty::F64 => self.fill_distances(leaf, |v: f64| v, out, scratch),
            Ty::Bool => unreachable!("moments are those of numbers"),
        }
        View {
            values: out.as_ptr().cast(),
            len: out.len() as u64,
            ..view::nothing()
        }
    }

    /// `out` is as long as the rows of the chunk, up to a whole group.
    fn fill_distances<T: Copy>(
        &mut self,
        leaf: &Leaf,
        number: impl Fn(T) -> f64,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        assert_eq!(size_of::<T>(), leaf.ty.bytes(), "elements of the type");
        // SAFETY: a column holds as many elements as it says, and any bits are one.
        let values: &[T] = unsafe { std::slice::from_raw_parts(leaf.at(0).cast(), leaf.len) };
        let distance = |split: usize| match split.checked_sub(1).and_then(|p| values.get(p..p + 2))
        {
            Some([early, late]) => number(*late) - number(*early),
            _ => 0.0,
        };
        if let Some(steady) = self.blocks() {
            let mut rest = out;
            for run in steady.runs(self.rows.start, rest.len()) {
                let (these, others) = rest.split_at_mut(run.rows);
                these.fill(distance(run.split as usize));
                // The window of the last row of a block is the block.
                if let (Some(last), true) = (these.last_mut(), run.is_last) {
                    *last = 0.0;
                }
                rest = others;
            }
            return;
        }
        self.bounds(scratch);
        self.split(scratch);
        let (Some(first), Some(end), Some(split)) = (&self.first, &self.end, &self.split) else {
            unreachable!("bounds and splits of all rows")
        };
        let n = self.rows.len();
        out[n..].fill(0.0);
        let bounds = first[..n].chunks(RUN).zip(end[..n].chunks(RUN));
        let rows = out[..n].chunks_mut(RUN).zip(split[..n].chunks(RUN));
        for ((out, split), (first, end)) in rows.zip(bounds) {
            // Most rows are split where their neighbours are. Without a branch for each: vectors compare them.
            let at = split[0];
            let other = split.iter().fold(0, |bits, s| bits | (s ^ at));
            let latest = first.iter().fold(0, |latest, first| latest.max(*first));
            let earliest = end
                .iter()
                .fold(u32::MAX, |earliest, end| earliest.min(*end));
            if other == 0 && latest < at && at < earliest {
                out.fill(distance(at as usize));
                continue;
            }
            let bounds = first.iter().zip(end);
            for ((out, split), (first, end)) in out.iter_mut().zip(split).zip(bounds) {
                let both = first < split && split < end;
                *out = if both { distance(*split as usize) } else { 0.0 };
            }
        }
    }
}
