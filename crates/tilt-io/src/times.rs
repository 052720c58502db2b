//! Times in columns: which rows lie in a range, and when a batch begins.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray, types::Int32Type};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::filter::filter_record_batch;
use tilt_ir::Unit;

/// The instants `(after, until]`; a side without a bound is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeRange {
    /// Exclusive.
    pub after: Option<i64>,
    /// Inclusive.
    pub until: Option<i64>,
    /// The unit of both, and of columns of plain integers.
    pub unit: Unit,
}

impl TimeRange {
    /// Whether `(after, until]` may hold an instant of a column whose times are from `low` to `high`.
    pub(crate) fn meets(&self, low: Tick, high: Tick) -> bool {
        self.after.is_none_or(|t| high.is_after(self.tick(t)))
            && self.until.is_none_or(|t| !low.is_after(self.tick(t)))
    }

    fn tick(&self, t: i64) -> Tick {
        Tick {
            count: t,
            length: length_of(self.unit),
        }
    }

    /// The rows of a batch that lie in the range. A run of rows is a slice; a row without a time stays, for ingress to refuse.
    pub(crate) fn select(
        &self,
        batch: &RecordBatch,
        times: &Times,
    ) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let inside: Vec<bool> = (0..batch.num_rows())
            .map(|row| {
                times
                    .get(row)
                    .is_none_or(|t| self.meets(t.or(self.unit), t.or(self.unit)))
            })
            .collect();
        let kept = inside.iter().filter(|keep| **keep).count();
        let first = inside.iter().position(|keep| *keep).unwrap_or(0);
        if inside[first..].iter().take(kept).all(|keep| *keep) {
            return Ok(batch.slice(first, kept));
        }
        filter_record_batch(batch, &BooleanArray::from(inside))
    }
}

/// An instant: a number of ticks of some nanoseconds, or of an unknown length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tick {
    count: i64,
    length: Option<i64>,
}

impl Tick {
    fn nanos(self) -> i128 {
        i128::from(self.count) * i128::from(self.length.unwrap_or(1))
    }

    fn is_after(self, other: Self) -> bool {
        self.nanos() > other.nanos()
    }

    /// In ticks of `unit` if it is a plain number.
    fn or(self, unit: Unit) -> Self {
        Self {
            length: self.length.or(length_of(unit)),
            ..self
        }
    }

    /// For ordering files whose columns have one type.
    pub(crate) fn order(self) -> i128 {
        self.nanos()
    }
}

/// A column's times.
pub(crate) struct Times {
    ticks: ScalarBuffer<i64>,
    nulls: Option<arrow_buffer::NullBuffer>,
    length: Option<i64>,
}

impl Times {
    /// The times of a column; `None` if its type has none.
    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        let length = match array.data_type() {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) => Some(length(*unit)),
            DataType::Date64 => Some(1_000_000),
            DataType::Date32 => Some(86_400_000_000_000),
            DataType::Int64 | DataType::Int32 => None,
            _ => return None,
        };
        let ticks = match array.data_type() {
            DataType::Date32 | DataType::Int32 => {
                let data = array.to_data().into_builder().data_type(DataType::Int32);
                let array = arrow_array::make_array(data.build().ok()?);
                let values = array.as_primitive::<Int32Type>().values();
                values.iter().map(|t| i64::from(*t)).collect()
            }
            _ => {
                let data = array.to_data();
                ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
            }
        };
        Some(Self {
            ticks,
            nulls: array.nulls().cloned(),
            length,
        })
    }

    /// The time of a row, if it has one.
    pub(crate) fn get(&self, row: usize) -> Option<Tick> {
        let valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let count = *self.ticks.get(row).filter(|_| valid)?;
        Some(Tick {
            count,
            length: self.length,
        })
    }
}

/// Nanoseconds of a tick.
fn length(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn length_of(unit: Unit) -> Option<i64> {
    unit.per_second().map(|ticks| 1_000_000_000 / ticks)
}
