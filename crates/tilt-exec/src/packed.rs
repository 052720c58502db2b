//! Results without the rows that have no value, put together by all threads.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use arrow_select::filter::filter;
use rayon::prelude::*;
use tilt_data::{DataError, SnapshotBuffer, Spans, Stamps, Timeline};

use crate::{
    memory::{Out, Returned},
    pieces::pool,
};

/// Rows of a part, a multiple of 64: what is read of them stays in the second cache.
const ROWS: usize = 1 << 14;

/// The events of a buffer. Where leaving rows out would change the rule that gives events their intervals, it stays as it is.
pub(crate) fn packed(buffer: SnapshotBuffer, threads: usize) -> Result<SnapshotBuffer, DataError> {
    let (Some(valid), Spans::Fixed(length)) = (buffer.validity(), buffer.timeline().spans()) else {
        return Ok(buffer);
    };
    let timeline = buffer.timeline();
    if timeline.shift() != 0 {
        return Ok(buffer);
    }
    let mut runs = valid.inner().set_slices();
    let (first, end) = runs.next().unwrap_or((0, 0));
    if runs.next().is_none() {
        return Ok(buffer.slice(first, end - first));
    }
    let rows = Rows::new(valid.inner(), threads);
    let stamps = match timeline.stamps() {
        Stamps::Explicit(stamps) => rows.elements::<i64>(stamps),
        Stamps::Regular { .. } => rows.gathered(|row| timeline.stamp(row)),
    };
    let stamps = ScalarBuffer::new(stamps, 0, rows.len);
    let columns = buffer.columns().iter();
    let columns: Result<Vec<ArrayRef>, ArrowError> =
        columns.map(|column| rows.of(column.array())).collect();
    let timeline = Timeline::explicit(stamps, Spans::Fixed(*length));
    buffer.with_rows(timeline, columns?, None)
}

/// Rows that are kept, and where each part of them begins in the result.
struct Rows {
    kept: BooleanBuffer,
    parts: Vec<(Range<usize>, usize)>,
    len: usize,
    threads: usize,
}

impl Rows {
    fn new(kept: &BooleanBuffer, threads: usize) -> Self {
        let starts = (0..kept.len()).step_by(ROWS);
        let mut len = 0;
        let parts = starts.map(|start| {
            let rows = start..kept.len().min(start + ROWS);
            let begin = len;
            len += kept.slice(rows.start, rows.len()).count_set_bits();
            (rows, begin)
        });
        Self {
            parts: parts.collect(),
            kept: kept.clone(),
            len,
            threads,
        }
    }

    /// A column, of which none of these rows is null but for its own reasons.
    fn of(&self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let data = column.to_data();
        let width = match data.data_type() {
            DataType::Boolean => None,
            data_type => data_type.primitive_width(),
        };
        // A null that is not that of the row stays.
        let is_full = data
            .nulls()
            .is_none_or(|nulls| (nulls.inner() & &self.kept).count_set_bits() == self.len);
        let rows = data.len();
        let buffer = match (width, is_full) {
            (Some(8), true) => self.elements(&data.buffer::<u64>(0)[..rows]),
            (Some(4), true) => self.elements(&data.buffer::<u32>(0)[..rows]),
            (Some(2), true) => self.elements(&data.buffer::<u16>(0)[..rows]),
            (Some(1), true) => self.elements(&data.buffer::<u8>(0)[..rows]),
            _ => return filter(column, &BooleanArray::new(self.kept.clone(), None)),
        };
        let data = data.into_builder().offset(0).len(self.len).nulls(None);
        Ok(make_array(data.buffers(vec![buffer]).build()?))
    }

    fn elements<T: Copy + Send + Sync>(&self, values: &[T]) -> Buffer {
        assert_eq!(values.len(), self.kept.len(), "a value for each row");
        // SAFETY: rows are kept of those that there are.
        self.gathered(|row| unsafe { *values.get_unchecked(row) })
    }

    /// What each row that is kept has, part by part.
    fn gathered<T: Copy + Send>(&self, value: impl Fn(usize) -> T + Sync + Copy) -> Buffer {
        let bytes = self.len * size_of::<T>();
        let memory = Returned::new(bytes);
        let out = Out::<T>::of(&memory);
        let part = |(rows, begin): &(Range<usize>, usize)| {
            let bits = self.kept.slice(rows.start, rows.len());
            // Both stay in registers.
            let (value, out, mut next) = (value, out, *begin);
            for (chunk, mut word) in bits.bit_chunks().iter_padded().enumerate() {
                let first = rows.start + 64 * chunk;
                while word != 0 {
                    let row = first + word.trailing_zeros() as usize;
                    // SAFETY: so many bits are set before this row, of all that there is room for, and no other row has that number.
                    unsafe { out.write(next, value(row)) }
                    next += 1;
                    word &= word - 1;
                }
            }
        };
        if self.threads > 1 && self.parts.len() > 1 {
            pool(self.threads).install(|| self.parts.par_iter().for_each(part));
        } else {
            self.parts.iter().for_each(part);
        }
        memory.into_buffer(bytes)
    }
}
