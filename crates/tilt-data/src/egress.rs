//! From events back to rows: [`SnapshotBuffer`] to `RecordBatch`.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, cast::AsArray,
    types::Int64Type,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{FieldRef, Schema};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
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
    /// [`Interval`](Self::Interval) for others. Depends on what was declared and on the query, never on the data.
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
        let Some(kept) = self.kept(options) else {
            return self.write(options, None);
        };
        let mut slices = kept.set_slices();
        let (start, end) = slices.next().unwrap_or((0, 0));
        if slices.next().is_none() {
            return self.slice(start, end - start).write(options, None);
        }
        let kept = FilterBuilder::new(&BooleanArray::new(kept, None));
        self.write(options, Some(&kept.optimize().build()))
    }

    /// The rows that are kept, or all.
    fn write(&self, options: EgressOptions, kept: Option<&FilterPredicate>) -> Result<RecordBatch> {
        let mut columns = match self.layout(options.layout) {
            Times::Given => self.given_times(kept)?,
            Times::Event { start, end } => {
                let starts = match start {
                    Some(column) => {
                        let starts = pick(self.timeline().starts(), kept)?;
                        Some(column.write(starts, self.unit(), None))
                    }
                    None => None,
                };
                let ends = pick(self.timeline().ends(), kept)?;
                // Ends are sorted: open ones are the last.
                let open = ends.last() == Some(&OPEN);
                let nulls = open.then(|| ends.iter().map(|e| *e != OPEN).collect::<NullBuffer>());
                let ends = end.write(ends, self.unit(), nulls);
                starts.into_iter().chain([ends]).collect()
            }
        };
        for column in self.values(options.keep_null, kept)? {
            if columns.iter().any(|(f, _)| f.name() == column.name()) {
                return Err(DataError::DuplicateColumn {
                    column: column.name().to_owned(),
                });
            }
            columns.push((column.field, column.array));
        }
        let rows = kept.map_or(self.len(), FilterPredicate::count);
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
        Ok(RecordBatch::try_new_with_options(
            Arc::new(Schema::new(fields)),
            arrays,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )?)
    }

    /// The rows to write; `None` means all.
    fn kept(&self, options: EgressOptions) -> Option<BooleanBuffer> {
        let drop_null = !options.keep_null && self.null_rows() > 0;
        let valid = self.validity().filter(|_| drop_null);
        let valid = valid.map(|valid| valid.inner().clone());
        if options.layout == Layout::AsGiven || self.superseded() == 0 {
            return valid;
        }
        let is_active = |i| !self.timeline().is_superseded(i);
        let active = BooleanBuffer::collect_bool(self.len(), is_active);
        Some(valid.map_or_else(|| active.clone(), |valid| &valid & &active))
    }

    fn layout(&self, layout: Layout) -> Times {
        let interval = || match self.time_columns() {
            TimeColumns::Stamp(column) | TimeColumns::Derived { end: column, .. } => Times::Event {
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
                Layout::AsGiven | Layout::Auto,
                TimeColumns::Derived {
                    one_length: true, ..
                },
                _,
            ) => point(),
            (
                Layout::AsGiven,
                TimeColumns::Stamp(_) | TimeColumns::Derived { .. },
                Spans::Starts { .. } | Spans::Contiguous { .. },
            ) => interval(),
            (Layout::AsGiven, _, _) => Times::Given,
            (Layout::Point, _, _) => point(),
            (
                Layout::Auto,
                TimeColumns::Stamp(_) | TimeColumns::Derived { .. },
                Spans::Fixed(_),
            ) => point(),
            (Layout::Auto | Layout::Interval, _, _) => interval(),
        }
    }

    fn given_times(&self, kept: Option<&FilterPredicate>) -> Result<Vec<(FieldRef, ArrayRef)>> {
        let (timeline, unit) = (self.timeline(), self.unit());
        let until_next = matches!(timeline.spans(), Spans::UntilNext { .. });
        let stamps = || pick(timeline.stored_stamps(), kept);
        match self.time_columns() {
            TimeColumns::Stamp(column) | TimeColumns::Derived { end: column, .. } => {
                Ok(vec![column.write_as_given(stamps()?, unit)?])
            }
            TimeColumns::Interval { start, end } => {
                let starts = pick(timeline.stored_starts(), kept)?;
                let ends = if until_next {
                    pick(timeline.ends(), kept)?
                } else {
                    stamps()?
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

    /// The columns of values; a row without a value, if such rows are kept, is null in all of them.
    fn values(&self, keep_null: bool, kept: Option<&FilterPredicate>) -> Result<Vec<Column>> {
        let masked = |column: &Column| match (self.shape(), self.validity()) {
            (Shape::Record, Some(rows)) if keep_null => with_nulls(column, rows),
            _ => Ok(column.clone()),
        };
        let written = |column: &Column| {
            let column = masked(column)?;
            Ok(match kept {
                None => column,
                Some(kept) => Column {
                    array: kept.filter(&column.array)?,
                    ..column
                },
            })
        };
        self.columns().iter().map(written).collect()
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

/// The times of the rows kept.
fn pick(times: ScalarBuffer<i64>, kept: Option<&FilterPredicate>) -> Result<ScalarBuffer<i64>> {
    let Some(kept) = kept else {
        return Ok(times);
    };
    let picked = kept.filter(&Int64Array::new(times, None))?;
    Ok(picked.as_primitive::<Int64Type>().values().clone())
}
