//! Chunks of a stream put together again.

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use arrow_select::concat::concat;
use tilt_ir::OPEN;

use crate::{
    error::{DataError, Result},
    snapshot::{Column, Shape, SnapshotBuffer},
    timeline::{Spans, Stamps, Timeline},
};

impl SnapshotBuffer {
    /// One buffer of chunks that follow each other in time. Copies, unless at most one chunk has rows.
    ///
    /// The events are those of the chunks, with one exception: the last event of an `until_next` chunk, if its end is not
    /// known, lasts to the first stamp of the next chunk.
    ///
    /// # Errors
    /// When chunks differ in their columns, shape or unit, or are not in time order.
    ///
    /// # Panics
    /// Without chunks.
    pub fn concat(chunks: &[Self]) -> Result<Self> {
        let first = &chunks[0];
        check_same_columns(chunks)?;
        let parts: Vec<(usize, &Self)> = chunks
            .iter()
            .enumerate()
            .filter(|(_, c)| !c.is_empty())
            .collect();
        match parts.as_slice() {
            [] => return Ok(first.clone()),
            [(_, one)] => return Ok((*one).clone()),
            _ => {}
        }
        let timeline = concat_timelines(&parts)?;

        let mut columns = Vec::with_capacity(first.columns().len());
        for (i, column) in first.columns().iter().enumerate() {
            let arrays: Vec<&dyn Array> = parts
                .iter()
                .map(|(_, c)| c.columns()[i].array().as_ref())
                .collect();
            let mut field = column.field().as_ref().clone();
            field.set_nullable(
                parts
                    .iter()
                    .any(|(_, c)| c.columns()[i].field().is_nullable()),
            );
            columns.push(Column {
                field: field.into(),
                array: concat(&arrays)?,
            });
        }
        let whole = match first.shape() {
            Shape::Scalar => {
                let column = columns.pop().expect("a scalar stream has a column");
                Self::scalar(timeline, column, first.unit())?
            }
            Shape::Record => {
                let has_nulls = parts.iter().any(|(_, c)| c.null_rows() > 0);
                let rows = has_nulls.then(|| {
                    let rows = parts
                        .iter()
                        .flat_map(|(_, c)| (0..c.len()).map(|i| c.is_valid(i)));
                    rows.collect::<NullBuffer>()
                });
                Self::record(timeline, columns, rows, first.unit())?
            }
        };
        let whole = whole.with_time_columns(first.time_columns().clone());
        Ok(if are_disjoint(&parts) {
            whole.with_bag(false)
        } else {
            whole
        })
    }
}

/// Whether it is known without looking at all rows that no two events of some parts are active at one instant.
fn are_disjoint(parts: &[(usize, &SnapshotBuffer)]) -> bool {
    let is_disjoint = |part: &SnapshotBuffer| part.is_known_disjoint() && part.null_rows() == 0;
    let follows =
        |before: &Timeline, after: &Timeline| before.end(before.len() - 1) <= after.start(0);
    parts.iter().all(|(_, part)| is_disjoint(part))
        && parts
            .windows(2)
            .all(|pair| follows(pair[0].1.timeline(), pair[1].1.timeline()))
}

/// Refuses buffers that are not of one stream.
pub(crate) fn check_same_columns(chunks: &[SnapshotBuffer]) -> Result<()> {
    let is_same = |(a, b): (&Column, &Column)| {
        a.name() == b.name() && a.array().data_type() == b.array().data_type()
    };
    let are_same = |a: &[Column], b: &[Column]| a.len() == b.len() && a.iter().zip(b).all(is_same);
    let first = &chunks[0];
    for (chunk, other) in chunks.iter().enumerate().skip(1) {
        let what = if first.unit() != other.unit() {
            "unit"
        } else if first.shape() != other.shape() {
            "shape"
        } else if !are_same(first.columns(), other.columns()) {
            "columns"
        } else {
            continue;
        };
        return Err(DataError::ChunkShape { chunk, what });
    }
    Ok(())
}

/// At least two parts, none of them empty.
fn concat_timelines(parts: &[(usize, &SnapshotBuffer)]) -> Result<Timeline> {
    let timelines: Vec<&Timeline> = parts.iter().map(|(_, b)| b.timeline()).collect();
    for pair in parts.windows(2) {
        let ((_, before), (chunk, after)) = (pair[0], pair[1]);
        let (earlier, later) = (before.timeline(), after.timeline());
        let last = earlier.len() - 1;
        let continues = matches!(earlier.spans(), Spans::UntilNext { next: OPEN })
            && matches!(later.spans(), Spans::UntilNext { .. });
        let previous = if continues {
            earlier.stamp(last) - 1
        } else {
            earlier.end(last)
        };
        let start = if continues {
            later.stamp(0) - 1
        } else {
            later.end(0)
        };
        if start < previous {
            return Err(DataError::ChunkOrder {
                chunk,
                previous,
                unit: after.unit(),
            });
        }
    }

    let borders = || timelines.windows(2).map(|w| (w[0], w[1]));
    let last = timelines[timelines.len() - 1];
    let spans = match timelines[0].spans() {
        Spans::Fixed(d) if timelines.iter().all(|t| matches!(t.spans(), Spans::Fixed(e) if e == d)) => {
            Some(Spans::Fixed(*d))
        }
        Spans::Contiguous { first_start }
            if timelines.iter().all(|t| matches!(t.spans(), Spans::Contiguous { .. }))
                && borders().all(|(a, b)| a.end(a.len() - 1) == b.start(0)) =>
        {
            Some(Spans::Contiguous {
                first_start: *first_start,
            })
        }
        Spans::UntilNext { .. }
            if borders().all(|(a, b)| {
                let open_or = |stamp| matches!(a.spans(), Spans::UntilNext { next } if [OPEN, stamp].contains(next));
                open_or(b.stamp(0))
            }) =>
        {
            match last.spans() {
                Spans::UntilNext { next } => Some(Spans::UntilNext { next: *next }),
                _ => None,
            }
        }
        _ => None,
    };
    // Keep a common shift, so that intervals still go out as they came in.
    let shift = match timelines[0].shift() {
        shift if timelines.iter().all(|t| t.shift() == shift) => shift,
        _ => 0,
    };
    let collect = |time: fn(&Timeline, usize) -> i64| {
        let times = timelines
            .iter()
            .flat_map(|t| (0..t.len()).map(move |i| time(t, i) - shift));
        times.collect()
    };
    // Where the rule stays, so do stamps; otherwise they become ends, which under the other rules they are.
    let stamped = spans.is_some()
        || !timelines
            .iter()
            .any(|t| matches!(t.spans(), Spans::UntilNext { .. }));
    let stamps = match timelines[0].period() {
        Some(period)
            if stamped
                && timelines.iter().all(|t| t.period() == Some(period))
                && borders().all(|(a, b)| a.stamp(a.len() - 1) + period == b.stamp(0)) =>
        {
            Stamps::Regular {
                t0: timelines[0].stamp(0) - shift,
                period,
                len: timelines.iter().map(|t| t.len()).sum(),
            }
        }
        // Rows by the million: without a look at what they are for each.
        _ if stamped && timelines.iter().all(|t| t.shift() == shift) => {
            let mut stamps = Vec::with_capacity(timelines.iter().map(|t| t.len()).sum());
            for timeline in &timelines {
                stamps.extend_from_slice(&timeline.stored_stamps());
            }
            Stamps::Explicit(stamps.into())
        }
        _ if stamped => Stamps::Explicit(collect(Timeline::stamp)),
        _ => Stamps::Explicit(collect(Timeline::end)),
    };
    let spans = spans.unwrap_or_else(|| {
        let lengths = timelines.iter().flat_map(|t| {
            let length = |i| t.end(i).saturating_sub(t.start(i));
            (0..t.len()).map(length)
        });
        Spans::Starts {
            longest: lengths.max().unwrap_or(0),
            starts: collect(Timeline::start),
        }
    });
    Ok(Timeline::new(stamps, shift, spans))
}
