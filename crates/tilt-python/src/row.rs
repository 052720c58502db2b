//! A row of Python as a batch: no list, no guess of a type, and no copy but that of its values.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, new_null_array,
};
use arrow_schema::{DataType, TimeUnit};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyType},
};

use crate::{
    errors::schema_error,
    fit::{Columns, retyped},
};

/// The row as a batch of the types that its stream has; `None` if it has other columns, or values that have to be converted.
pub(crate) fn batch(row: &Bound<'_, PyDict>, columns: &Columns) -> PyResult<Option<RecordBatch>> {
    let fields = columns.schema.fields();
    let mut arrays = Vec::with_capacity(fields.len());
    for field in fields {
        let Some(value) = row.get_item(field.name())? else {
            return Ok(None);
        };
        let Some(array) = array(&value, field.data_type())? else {
            return Ok(None);
        };
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::clone(&columns.schema), arrays);
    batch
        .map(Some)
        .map_err(|error| schema_error(&error, None, None))
}

/// A value as a column of one row; `None` if it is not of that type.
fn array(value: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<Option<ArrayRef>> {
    let is_int = || value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    let one = |array: ArrayRef| Ok(Some(array));
    if value.is_none() {
        return one(new_null_array(data_type, 1));
    }
    match data_type {
        DataType::Float64 if value.is_instance_of::<PyFloat>() || is_int() => {
            one(Arc::new(Float64Array::from(vec![value.extract::<f64>()?])))
        }
        DataType::Float32 if value.is_instance_of::<PyFloat>() || is_int() => {
            one(Arc::new(Float32Array::from(vec![value.extract::<f32>()?])))
        }
        DataType::Int64 if is_int() => match value.extract::<i64>() {
            Ok(value) => one(Arc::new(Int64Array::from(vec![value]))),
            Err(_) => Ok(None),
        },
        DataType::Int32 if is_int() => match value.extract::<i32>() {
            Ok(value) => one(Arc::new(Int32Array::from(vec![value]))),
            Err(_) => Ok(None),
        },
        DataType::Boolean if value.is_instance_of::<PyBool>() => {
            one(Arc::new(BooleanArray::from(vec![value.extract::<bool>()?])))
        }
        DataType::Utf8 => match value.cast::<PyString>() {
            Ok(text) => one(Arc::new(StringArray::from(vec![text.to_cow()?.as_ref()]))),
            Err(_) => Ok(None),
        },
        DataType::Timestamp(unit, zone) => {
            let ticks = if is_int() {
                value.extract::<i64>().ok()
            } else {
                instant(value, *unit, zone.is_some())?
            };
            Ok(ticks.map(|ticks| {
                let ticks: ArrayRef = Arc::new(Int64Array::from(vec![ticks]));
                retyped(&ticks, data_type.clone())
            }))
        }
        _ => Ok(None),
    }
}

/// What instants are counted with: the class `datetime`, the epoch with and without a time zone, and a microsecond.
struct Calendar {
    datetime: Py<PyType>,
    aware: Py<PyAny>,
    naive: Py<PyAny>,
    microsecond: Py<PyAny>,
}

fn calendar(py: Python<'_>) -> PyResult<&Calendar> {
    static CALENDAR: PyOnceLock<Calendar> = PyOnceLock::new();
    CALENDAR.get_or_try_init(py, || {
        let module = py.import(intern!(py, "datetime"))?;
        let datetime = module.getattr("datetime")?.cast_into::<PyType>()?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        let microsecond = module.getattr("timedelta")?.call1((0, 0, 1))?;
        Ok(Calendar {
            aware: datetime.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind(),
            naive: datetime.call1((1970, 1, 1))?.unbind(),
            microsecond: microsecond.unbind(),
            datetime: datetime.unbind(),
        })
    })
}

/// Ticks of a `datetime` that is aware or naive as its column is; `None` if it is not, or not a whole number of ticks.
fn instant(value: &Bound<'_, PyAny>, unit: TimeUnit, is_aware: bool) -> PyResult<Option<i64>> {
    let py = value.py();
    let calendar = calendar(py)?;
    // A subclass may know more than microseconds.
    if !value.get_type().is(&calendar.datetime) {
        return Ok(None);
    }
    if value.getattr(intern!(py, "tzinfo"))?.is_none() == is_aware {
        return Ok(None);
    }
    let epoch = if is_aware {
        &calendar.aware
    } else {
        &calendar.naive
    };
    let micros = value.sub(epoch)?.floor_div(&calendar.microsecond)?;
    let micros: i64 = micros.extract()?;
    Ok(match unit {
        TimeUnit::Microsecond => Some(micros),
        TimeUnit::Nanosecond => micros.checked_mul(1_000),
        TimeUnit::Millisecond => (micros % 1_000 == 0).then_some(micros / 1_000),
        TimeUnit::Second => (micros % 1_000_000 == 0).then_some(micros / 1_000_000),
    })
}
