//! From events back to rows: [`SnapshotBuffer`] to `RecordBatch`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{FieldRef, Schema};
use tilt_ir::OPEN;

use crate::{
    error::{DataError, Result},
    snapshot::{Column, Shape, SnapshotBuffer, with_nulls},
    time_column::{TimeColumn, TimeColumns},
    timeline::Spans,
};

/// Which columns of time the rows get. They come first, in ticks of the query's unit, in the type they were given in
/// where that counts this unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// [`Point`](Self::Point) for events of one length that were given by one column (points and periodic samples),
    /// [`Interval`](Self::Interval) for others. Depends on what was declared, never on the data.
    #[default]
    Auto,
    /// The event's end, named like the input's time column.
    Point,
    /// The event's start and end, named like the input's if it had both, otherwise `start` and `end`.
    Interval,
    /// The inverse of ingress: the times in the columns and types they came in. Rows that were replaced at their own stamp
    /// are rows, too. Events that no longer follow from one stamp, because rows between them were left out, come back as
    /// [`Interval`](Self::Interval).
    AsGiven,
}

/// How to write rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressOptions {
    /// The columns of time.
    pub layout: Layout,
    /// Write rows that have no value, as nulls.
    pub keep_null: bool,
}

impl From<Layout> for EgressOptions {
    fn from(layout: Layout) -> Self {
        Self {
            layout,
            keep_null: false,
        }
    }
}

impl SnapshotBuffer {
    /// The events as rows, ordered by end. Shares all values, and explicit stamps and starts, unless rows have to be left
    /// out. An end that is not known is null.
    ///
    /// # Errors
    /// When a column of values is named like a column of time, or, for [`Layout::AsGiven`], a time does not fit into the
    /// type given.
    pub fn to_record_batch(&self, options: impl Into<EgressOptions>) -> Result<RecordBatch> {
        let options = options.into();
        let kept = self.kept(options);
        let mut columns = match self.layout(options.layout) {
            Times::Given => self.given_times(kept.as_deref())?,
            Times::Event { start, end } => {
                let timeline = self.timeline();
                let starts = start.map(|column| {
                    let starts = pick(kept.as_deref(), |i| timeline.start(i));
                    let starts = starts.unwrap_or_else(|| timeline.starts());
                    column.write(starts, self.unit(), None)
                });
                let ends = pick(kept.as_deref(), |i| timeline.end(i));
                let ends = ends.unwrap_or_else(|| timeline.ends());
                // Ends are sorted: open ones are the last.
                let open = ends.last() == Some(&OPEN);
                let nulls = open.then(|| ends.iter().map(|e| *e != OPEN).collect::<NullBuffer>());
                let ends = end.write(ends, self.unit(), nulls);
                starts.into_iter().chain([ends]).collect()
            }
        };
        for column in self.values(kept.as_deref())? {
            if columns.iter().any(|(f, _)| f.name() == column.name()) {
                return Err(DataError::DuplicateColumn {
                    column: column.name().to_owned(),
                });
            }
            columns.push((column.field, column.array));
        }
        let rows = kept.map_or(self.len(), |kept| kept.len());
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
        Ok(RecordBatch::try_new_with_options(
            Arc::new(Schema::new(fields)),
            arrays,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )?)
    }

    /// The rows to write; `None` means all.
    fn kept(&self, options: EgressOptions) -> Option<Vec<usize>> {
        let drop_null = !options.keep_null && self.null_rows() > 0;
        let drop_empty = options.layout != Layout::AsGiven && self.superseded() > 0;
        (drop_null || drop_empty).then(|| {
            let keep = |i: &usize| {
                !(drop_null && !self.is_valid(*i)
                    || drop_empty && self.timeline().is_superseded(*i))
            };
            (0..self.len()).filter(keep).collect()
        })
    }

    fn layout(&self, layout: Layout) -> Times {
        let interval = || match self.time_columns() {
            TimeColumns::Stamp(column) => Times::Event {
                start: Some(column.renamed("start")),
                end: column.renamed("end"),
            },
            TimeColumns::Interval { start, end } => Times::Event {
                start: Some(start.clone()),
                end: end.clone(),
            },
        };
        let point = || Times::Event {
            start: None,
            end: self.time_columns().end().clone(),
        };
        match (layout, self.time_columns(), self.timeline().spans()) {
            (
                Layout::AsGiven,
                TimeColumns::Stamp(_),
                Spans::Starts { .. } | Spans::Contiguous { .. },
            ) => interval(),
            (Layout::AsGiven, _, _) => Times::Given,
            (Layout::Point, _, _) => point(),
            (Layout::Auto, TimeColumns::Stamp(_), Spans::Fixed(_)) => point(),
            (Layout::Auto | Layout::Interval, _, _) => interval(),
        }
    }

    fn given_times(&self, kept: Option<&[usize]>) -> Result<Vec<(FieldRef, ArrayRef)>> {
        let (timeline, unit) = (self.timeline(), self.unit());
        let until_next = matches!(timeline.spans(), Spans::UntilNext { .. });
        let shift = timeline.shift();
        let stamps = || {
            let stamps = pick(kept, |i| timeline.stamp(i) - shift);
            stamps.unwrap_or_else(|| timeline.stored_stamps())
        };
        match self.time_columns() {
            TimeColumns::Stamp(column) => Ok(vec![column.write_as_given(stamps(), unit)?]),
            TimeColumns::Interval { start, end } => {
                let starts = pick(kept, |i| timeline.start(i) - shift);
                let starts = starts.unwrap_or_else(|| timeline.stored_starts());
                let ends = if until_next {
                    pick(kept, |i| timeline.end(i)).unwrap_or_else(|| timeline.ends())
                } else {
                    stamps()
                };
                if ends.last() == Some(&OPEN) {
                    return Err(DataError::NotAsGiven {
                        column: end.name().to_owned(),
                        value: OPEN,
                        unit,
                        to: end.data_type().clone(),
                    });
                }
                Ok(vec![
                    start.write_as_given(starts, unit)?,
                    end.write_as_given(ends, unit)?,
                ])
            }
        }
    }

    /// The columns of values; a row without a value is null in all of them.
    fn values(&self, kept: Option<&[usize]>) -> Result<Vec<Column>> {
        let masked = |column: &Column| match (self.shape(), self.validity()) {
            (Shape::Record, Some(rows)) => with_nulls(column, rows),
            _ => Ok(column.clone()),
        };
        let Some(kept) = kept else {
            return self.columns().iter().map(masked).collect();
        };
        let indices = UInt64Array::from_iter_values(kept.iter().map(|i| *i as u64));
        let all_valid = kept.iter().all(|i| self.is_valid(*i));
        self.columns()
            .iter()
            .map(|column| {
                if all_valid {
                    column.take(&indices)
                } else {
                    masked(column)?.take(&indices)
                }
            })
            .collect()
    }
}

/// The columns of time to write.
enum Times {
    Given,
    Event {
        start: Option<TimeColumn>,
        end: TimeColumn,
    },
}

/// `time` of the rows kept; `None` where all are.
fn pick(kept: Option<&[usize]>, time: impl Fn(usize) -> i64) -> Option<ScalarBuffer<i64>> {
    kept.map(|rows| rows.iter().map(|i| time(*i)).collect())
}
