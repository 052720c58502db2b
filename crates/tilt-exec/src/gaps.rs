//! Periodic inputs some of whose samples are missing.
//!
//! A row that is φ is no event. Where nobody can tell, such an input keeps its grid, so that reads of it are arithmetic, and only what
//! counts its rows leaves the missing ones out: windows, in which every event has a place, reduce its events packed together.

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use tilt_codegen::lir::Ty;
use tilt_data::{SnapshotBuffer, Spans, Stamps, Timeline};
use tilt_ir::{Agg, Bounds, Expr, Program, StreamId, Timelines};

use crate::{
    facts::{AxisFacts, SeriesFacts},
    memory::Returned,
    series::{Axis, Leaf, Series},
};

/// Whether a buffer is of samples at equal distances, some of which are missing.
pub(crate) fn has_gaps(buffer: &SnapshotBuffer) -> bool {
    let timeline = buffer.timeline();
    let follow = match (timeline.stamps(), timeline.spans()) {
        (Stamps::Regular { period, .. }, Spans::Fixed(length)) => length <= period,
        _ => false,
    };
    follow && buffer.null_rows() > 0 && buffer.null_rows() <= buffer.len() / 2
}

/// Whether rows of an input that are φ make no difference: nothing counts them but windows of time over the input itself, and
/// recurrences do not go from event to event.
pub(crate) fn may_stay(program: &Program, input: StreamId) -> bool {
    let timelines = Timelines::new(program);
    let timeline = timelines.of(input);
    let mut may = program.inputs().all(|(_, input)| input.key.is_none());
    for (id, temporal) in program.temporals() {
        program.walk(temporal.body, &mut |_, expr| {
            may &= expr.stream() != Some(id);
            let Expr::Reduce { agg, window, map } = expr else {
                return;
            };
            if timelines.of(window.stream) != timeline {
                return;
            }
            may &= window.stream == input
                && matches!(window.bounds, Bounds::Time { lo: Some(lo), hi } if lo < hi)
                && !matches!(agg, Agg::First | Agg::Last);
            if let Some(map) = map {
                program.walk(*map, &mut |_, read| {
                    let own = Expr::At {
                        stream: input,
                        offset: 0,
                    };
                    may &= read.stream().is_none() || *read == own;
                });
            }
        });
    }
    may
}

/// Facts of the events of an input that keeps its gaps.
pub(crate) fn packed_facts(facts: &SeriesFacts) -> SeriesFacts {
    let mut packed = facts.clone();
    packed.nullable = false;
    packed.axis = AxisFacts {
        regular: None,
        ..packed.axis
    };
    if let ([leaf], false) = (&mut packed.leaves[..], facts.is_record()) {
        leaf.nullable = false;
    }
    packed
}

/// The rows of an axis that are events.
pub(crate) fn packed_axis(axis: &Axis, events: &BooleanBuffer) -> Axis {
    let timeline = &axis.timeline;
    let ends = if let (Some(period), Some(first)) = (timeline.period(), axis.regular_ends()) {
        // The end of a row fits even where the product alone does not.
        let end = |row: usize| first.wrapping_add((row as i64).wrapping_mul(period));
        pack(events, end)
    } else {
        let ends = axis.ends();
        pack(events, |row| ends[row])
    };
    let len = events.count_set_bits();
    let ends = ScalarBuffer::new(ends.into_buffer(len * size_of::<i64>()), 0, len);
    Axis::new(
        Timeline::explicit(ends, timeline.spans().clone()),
        Vec::new(),
    )
}

/// An axis with as many rows as there are events, for series whose times nobody asks for.
pub(crate) fn numbers(events: &BooleanBuffer) -> Axis {
    let timeline = Timeline::regular(0, 1, events.count_set_bits(), Spans::Fixed(1));
    Axis::new(timeline, Vec::new())
}

/// A series at the rows that are events, which `axis` has.
pub(crate) fn packed(series: &Series, events: &BooleanBuffer, axis: &Arc<Axis>) -> Series {
    let bits = |bits: &BooleanBuffer| -> BooleanBuffer {
        let packed = events.set_indices().map(|row| bits.value(row));
        packed.collect()
    };
    let len = axis.len();
    let leaf = |leaf: &Leaf| {
        // Of a scalar stream all that is left is valid.
        let missing = |valid: &&BooleanBuffer| (*valid & events).count_set_bits() < len;
        let valid = leaf.valid.as_ref().filter(missing).map(bits);
        let values = match leaf.ty {
            Ty::Bool => {
                let values = leaf.bits().map(bits);
                let values = values.expect("bools are bits").into_inner();
                return Leaf::written(leaf.ty, len, values, valid.map(BooleanBuffer::into_inner));
            }
            ty => match ty.bytes() {
                1 => pack_leaf::<u8>(events, leaf),
                2 => pack_leaf::<u16>(events, leaf),
                4 => pack_leaf::<u32>(events, leaf),
                _ => pack_leaf::<u64>(events, leaf),
            },
        };
        let room = len.next_multiple_of(tilt_codegen::lir::LANES) * leaf.ty.bytes();
        let valid = valid.map(BooleanBuffer::into_inner);
        Leaf::written(leaf.ty, len, values.into_buffer(room), valid)
    };
    Series {
        axis: Arc::clone(axis),
        leaves: series.leaves.iter().map(leaf).collect(),
        present: None,
    }
}

/// The elements of a column, whose type is as wide as `T`, at rows whose bit is set.
fn pack_leaf<T: Copy>(rows: &BooleanBuffer, leaf: &Leaf) -> Returned {
    assert_eq!(leaf.ty.bytes(), size_of::<T>(), "elements of the type");
    assert!(rows.len() <= leaf.len, "rows of the column");
    let elements = leaf.at(0).cast::<T>();
    // SAFETY: only rows that have a bit are asked for; the column's elements are aligned, and any bits are one.
    pack(rows, |row| unsafe { *elements.add(row) })
}

/// Up to so many gaps in 64 rows, what lies between them is copied at once.
const FEW: u32 = 6;

/// The elements at rows whose bit is set, with room for a group more.
fn pack<T: Copy>(rows: &BooleanBuffer, element: impl Fn(usize) -> T) -> Returned {
    let kept = rows.count_set_bits();
    let memory = Returned::new((kept + 64) * size_of::<T>());
    let out = memory.as_ptr().cast::<T>();
    let mut len = 0;
    let mut write = |row: usize, word: u64, count: usize| {
        assert!(len + count <= kept + 64, "room for a word of rows");
        // Written in any case, and over it what is kept after a row that is not.
        if count == 64 && word.count_zeros() <= FEW {
            let (mut from, mut word) = (0, word);
            loop {
                for i in 0..64 - from {
                    // SAFETY: no more elements than there is room for.
                    unsafe { out.add(len + i).write(element(row + from + i)) }
                }
                let run = word.trailing_ones() as usize;
                len += run;
                from += run + 1;
                if from >= 64 {
                    return;
                }
                word >>= run + 1;
            }
        }
        for i in 0..count {
            // SAFETY: as above.
            unsafe { out.add(len).write(element(row + i)) }
            len += (word >> i & 1) as usize;
        }
    };
    let chunks = rows.bit_chunks();
    for (number, word) in chunks.iter().enumerate() {
        write(64 * number, word, 64);
    }
    let rest = chunks.remainder_len();
    write(rows.len() - rest, chunks.remainder_bits(), rest);
    memory
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BooleanArray, Float32Array, Int64Array};

    use super::*;

    #[test]
    fn packing_keeps_the_rows_whose_bit_is_set() {
        for len in [0, 1, 7, 63, 64, 65, 200] {
            for every in [1, 2, 3, 64, 1000] {
                let events = BooleanBuffer::collect_bool(len, |i| i % every != every / 2);
                let wanted: Vec<i64> = (0..len as i64)
                    .filter(|i| events.value(*i as usize))
                    .collect();
                let axis = Axis::new(Timeline::regular(5, 3, len, Spans::Fixed(2)), Vec::new());
                let axis = Arc::new(packed_axis(&axis, &events));
                let ends: Vec<i64> = wanted.iter().map(|i| 5 + 3 * i).collect();
                assert_eq!(axis.ends()[..], ends);
                let all = 0..len as i64;
                let column = |array: ArrayRef, ty| Leaf::of_array(&array, ty);
                let series = Series {
                    axis: Arc::new(Axis::new(
                        Timeline::regular(5, 3, len, Spans::Fixed(2)),
                        vec![],
                    )),
                    leaves: vec![
                        column(Arc::new(all.clone().collect::<Int64Array>()), Ty::I64),
                        column(
                            Arc::new(all.clone().map(|i| i as f32).collect::<Float32Array>()),
                            Ty::F32,
                        ),
                        column(
                            Arc::new(
                                all.map(|i| (i % 5 > 0).then_some(i % 2 == 0))
                                    .collect::<BooleanArray>(),
                            ),
                            Ty::Bool,
                        ),
                    ],
                    present: Some(events.clone()),
                };
                let packed = packed(&series, &events, &axis);
                let ints = packed.leaves[0].to_array(&arrow_schema::DataType::Int64);
                assert_eq!(*ints, wanted.iter().copied().collect::<Int64Array>());
                let floats = packed.leaves[1].to_array(&arrow_schema::DataType::Float32);
                assert_eq!(
                    *floats,
                    wanted.iter().map(|i| *i as f32).collect::<Float32Array>()
                );
                let bools = packed.leaves[2].to_array(&arrow_schema::DataType::Boolean);
                let right: BooleanArray = wanted
                    .iter()
                    .map(|i| (i % 5 > 0).then_some(i % 2 == 0))
                    .collect();
                assert_eq!(*bools, right);
            }
        }
    }
}
