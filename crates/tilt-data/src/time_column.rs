//! Columns of instants: which Arrow types they have, and the way into ticks of a query's unit and back.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, PrimitiveArray,
    cast::AsArray,
    types::{
        ArrowTimestampType, Date32Type, Date64Type, DurationMicrosecondType,
        DurationMillisecondType, DurationNanosecondType, DurationSecondType, Int32Type, Int64Type,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use arrow_select::filter::filter;
use tilt_ir::{OPEN, Unit};

use crate::{
    dtype::{unit_from_arrow, unit_to_arrow},
    error::{DataError, Result},
};

const SECONDS_A_DAY: i64 = 86_400;

/// The columns a stream's times came in or go out by.
#[derive(Clone, Debug)]
pub enum TimeColumns {
    /// One stamp a row.
    Stamp(TimeColumn),
    /// An interval a row.
    Interval {
        /// The column of starts.
        start: TimeColumn,
        /// The column of ends.
        end: TimeColumn,
    },
    /// The ends of events that a query has made, of which it tells whether all have one length, whatever their intervals happen to be.
    Derived {
        /// The column of ends, if there is no other.
        end: TimeColumn,
        /// Whether it is enough.
        one_length: bool,
    },
}

/// A column of instants in the form it was given.
#[derive(Clone, Debug)]
pub struct TimeColumn {
    field: FieldRef,
    /// What the column's numbers count; of dates of days the second.
    unit: Unit,
}

impl TimeColumns {
    /// One column `name` of the type that instants of `unit` have.
    pub fn stamp(name: &str, unit: Unit) -> Self {
        Self::Stamp(TimeColumn::named(name, unit))
    }

    /// Two columns of the type that instants of `unit` have.
    pub fn interval(start: &str, end: &str, unit: Unit) -> Self {
        Self::Interval {
            start: TimeColumn::named(start, unit),
            end: TimeColumn::named(end, unit),
        }
    }

    /// The column of stamps or ends.
    pub fn end(&self) -> &TimeColumn {
        match self {
            Self::Stamp(column)
            | Self::Interval { end: column, .. }
            | Self::Derived { end: column, .. } => column,
        }
    }

    /// The column of stamps or starts.
    pub fn start(&self) -> &TimeColumn {
        match self {
            Self::Stamp(column)
            | Self::Interval { start: column, .. }
            | Self::Derived { end: column, .. } => column,
        }
    }
}

impl TimeColumn {
    /// A column of the type that instants of `unit` have: `Timestamp` without time zone, `Int64` for plain ticks.
    pub fn named(name: &str, unit: Unit) -> Self {
        let data_type =
            unit_to_arrow(unit).map_or(DataType::Int64, |u| DataType::Timestamp(u, None));
        Self {
            field: Arc::new(Field::new(name, data_type, false)),
            unit,
        }
    }

    /// The column `field`, whose integers, if it is one of plain integers, count `unit`.
    ///
    /// # Errors
    /// When no instant can be read from its type.
    pub fn given(field: &FieldRef, unit: Unit) -> Result<Self> {
        let unit = match field.data_type() {
            DataType::Int32 | DataType::Int64 => unit,
            other => unit_of(other).ok_or_else(|| DataError::TimeType {
                column: field.name().clone(),
                found: other.clone(),
            })?,
        };
        Ok(Self {
            field: Arc::clone(field),
            unit,
        })
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// What the column's numbers count; of dates of days the second.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The type the column was given in.
    pub fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// The time zone, if it has one.
    pub fn tz(&self) -> Option<&str> {
        match self.data_type() {
            DataType::Timestamp(_, tz) => tz.as_deref(),
            _ => None,
        }
    }

    /// The same column under another name, without what else its field says.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        Self {
            field: Arc::new(Field::new(name, self.data_type().clone(), false)),
            unit: self.unit,
        }
    }

    /// Refuses a column whose numbers have no relation to `unit`.
    pub(crate) fn check_unit(&self, to: Unit) -> Result<()> {
        if (self.unit == Unit::Tick) == (to == Unit::Tick) {
            return Ok(());
        }
        Err(DataError::UnitMismatch {
            column: self.name().to_owned(),
            found: self.data_type().clone(),
            from: self.unit,
            to,
        })
    }

    /// As [`read`](Self::read), with [`OPEN`] where `array` is null.
    pub(crate) fn read_open(&self, array: &dyn Array, to: Unit) -> Result<ScalarBuffer<i64>> {
        let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.read(array, to);
        };
        let known = BooleanArray::new(nulls.inner().clone(), None);
        let known = self.read(&filter(array, &known)?, to)?;
        let mut known = known.iter().copied();
        let next = |is_known: bool| if is_known { known.next() } else { None };
        Ok(nulls.iter().map(next).map(|t| t.unwrap_or(OPEN)).collect())
    }

    /// The numbers of `array`, if they have 64 bits.
    fn numbers<'a>(&self, array: &'a dyn Array) -> Option<&'a ScalarBuffer<i64>> {
        Some(match self.data_type() {
            DataType::Int64 => array.as_primitive::<Int64Type>().values(),
            DataType::Date64 => array.as_primitive::<Date64Type>().values(),
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
            },
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
            },
            _ => return None,
        })
    }

    /// The instants of `array` if it holds them as they are: numbers of 64 bits in ticks of `to`, none of them null.
    pub(crate) fn lent<'a>(&self, array: &'a dyn Array, to: Unit) -> Option<&'a ScalarBuffer<i64>> {
        if self.unit != to || array.null_count() > 0 {
            return None;
        }
        self.numbers(array)
    }

    /// The instants of `array` in ticks of `to`. Shares the array's buffer when it holds 64-bit numbers of that unit.
    pub(crate) fn read(&self, array: &dyn Array, to: Unit) -> Result<ScalarBuffer<i64>> {
        self.check_unit(to)?;
        if let Some(row) = array
            .logical_nulls()
            .and_then(|nulls| (0..nulls.len()).find(|i| nulls.is_null(*i)))
        {
            return Err(DataError::NullTime {
                column: self.name().to_owned(),
                row,
            });
        }
        let values = match self.data_type() {
            DataType::Int32 => widen(array.as_primitive::<Int32Type>().values()),
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>().values();
                days.iter().map(|d| i64::from(*d) * SECONDS_A_DAY).collect()
            }
            other => match self.numbers(array) {
                Some(numbers) => numbers.clone(),
                None => {
                    return Err(DataError::TimeType {
                        column: self.name().to_owned(),
                        found: other.clone(),
                    });
                }
            },
        };
        if self.unit == to {
            return Ok(values);
        }
        let from = self.unit;
        let convert = |(row, value): (usize, &i64)| {
            from.convert(*value, to).ok_or_else(|| {
                let (column, value) = (self.name().to_owned(), *value);
                if from < to {
                    DataError::TimeOverflow {
                        column,
                        row,
                        value,
                        from,
                        to,
                    }
                } else {
                    DataError::TimeInexact {
                        column,
                        row,
                        value,
                        from,
                        to,
                    }
                }
            })
        };
        let converted: Vec<i64> = values
            .iter()
            .enumerate()
            .map(convert)
            .collect::<Result<_>>()?;
        Ok(converted.into())
    }

    /// A column of `ticks` of `unit` under this name: in the type given where that counts the same unit, otherwise in
    /// the same kind of type (a timestamp of the same time zone, a duration, plain 64-bit integers) of `unit`. Results
    /// have instants that the given type may not have, such as the tick before a day, and a column's type must not
    /// depend on its values.
    pub(crate) fn write(
        &self,
        ticks: ScalarBuffer<i64>,
        unit: Unit,
        nulls: Option<NullBuffer>,
    ) -> (FieldRef, ArrayRef) {
        let data_type = match (self.data_type(), unit_to_arrow(unit)) {
            (DataType::Timestamp(_, tz), Some(unit)) => DataType::Timestamp(unit, tz.clone()),
            (DataType::Date32 | DataType::Date64, Some(unit)) => DataType::Timestamp(unit, None),
            (DataType::Duration(_), Some(unit)) => DataType::Duration(unit),
            _ => DataType::Int64,
        };
        let nullable = nulls.is_some();
        let array = wrap(ticks, &data_type, nulls);
        (
            Arc::new(Field::new(self.name(), data_type, nullable)),
            array,
        )
    }

    /// A column of `ticks` of `unit` in exactly the type given. Shares the buffer when that holds 64-bit numbers of the unit.
    pub(crate) fn write_as_given(
        &self,
        ticks: ScalarBuffer<i64>,
        unit: Unit,
    ) -> Result<(FieldRef, ArrayRef)> {
        let refuse = |value: i64, unit: Unit| DataError::NotAsGiven {
            column: self.name().to_owned(),
            value,
            unit,
            to: self.data_type().clone(),
        };
        let ticks = if self.unit == unit {
            ticks
        } else {
            let back = |t: &i64| unit.convert(*t, self.unit).ok_or_else(|| refuse(*t, unit));
            ticks.iter().map(back).collect::<Result<Vec<_>>>()?.into()
        };
        let array: ArrayRef = match self.data_type() {
            DataType::Int32 => {
                let narrow = |t: &i64| i32::try_from(*t).map_err(|_| refuse(*t, self.unit));
                let values: Vec<i32> = ticks.iter().map(narrow).collect::<Result<_>>()?;
                Arc::new(PrimitiveArray::<Int32Type>::new(values.into(), None))
            }
            DataType::Date32 => {
                let day = |t: &i64| {
                    i32::try_from(t / SECONDS_A_DAY)
                        .ok()
                        .filter(|_| t % SECONDS_A_DAY == 0)
                        .ok_or_else(|| refuse(*t, self.unit))
                };
                let values: Vec<i32> = ticks.iter().map(day).collect::<Result<_>>()?;
                Arc::new(PrimitiveArray::<Date32Type>::new(values.into(), None))
            }
            data_type => wrap(ticks, data_type, None),
        };
        Ok((Arc::clone(&self.field), array))
    }
}

/// The unit of a type that says it.
fn unit_of(data_type: &DataType) -> Option<Unit> {
    match data_type {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => Some(unit_from_arrow(*unit)),
        DataType::Date32 => Some(Unit::Second),
        DataType::Date64 => Some(Unit::Milli),
        _ => None,
    }
}

fn widen(values: &ScalarBuffer<i32>) -> ScalarBuffer<i64> {
    values.iter().map(|v| i64::from(*v)).collect()
}

/// An array over `ticks` of a time type of 64 bits.
fn wrap(ticks: ScalarBuffer<i64>, data_type: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
    fn timestamps<T: ArrowTimestampType>(
        ticks: ScalarBuffer<i64>,
        tz: Option<Arc<str>>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(ticks, nulls).with_timezone_opt(tz))
    }
    match data_type {
        DataType::Timestamp(unit, tz) => {
            let tz = tz.clone();
            match unit {
                TimeUnit::Second => timestamps::<TimestampSecondType>(ticks, tz, nulls),
                TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(ticks, tz, nulls),
                TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(ticks, tz, nulls),
                TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(ticks, tz, nulls),
            }
        }
        DataType::Duration(TimeUnit::Second) => {
            Arc::new(PrimitiveArray::<DurationSecondType>::new(ticks, nulls))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            Arc::new(PrimitiveArray::<DurationMillisecondType>::new(ticks, nulls))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            Arc::new(PrimitiveArray::<DurationMicrosecondType>::new(ticks, nulls))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            Arc::new(PrimitiveArray::<DurationNanosecondType>::new(ticks, nulls))
        }
        DataType::Date64 => Arc::new(PrimitiveArray::<Date64Type>::new(ticks, nulls)),
        _ => Arc::new(PrimitiveArray::<Int64Type>::new(ticks, nulls)),
    }
}
