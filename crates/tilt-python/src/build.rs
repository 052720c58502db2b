//! Arrow arrays of NumPy's arrays, shared where the types are the same, and of lists.

use std::{panic::AssertUnwindSafe, ptr::NonNull, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int64Array,
    PrimitiveArray, StringArray, cast::AsArray, make_array, types::Int32Type,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString},
};

use crate::errors::schema_error;

/// NumPy's missing time.
const NAT: i64 = i64::MIN;

/// The array of a column. `dtype` names the type of a list: `timestamp(us)`, `duration(us)` or `date` of integers; without it
/// the values tell. A `dictionary` is a pair of codes and categories.
pub(crate) fn array(
    name: &str,
    values: &Bound<'_, PyAny>,
    dtype: Option<&str>,
    tz: Option<&str>,
) -> PyResult<ArrayRef> {
    if let Ok(list) = values.cast::<PyList>() {
        return of_list(name, list, dtype, tz);
    }
    if dtype == Some("dictionary") {
        let (codes, categories): (Bound<'_, PyAny>, Vec<String>) = values.extract()?;
        return of_codes(name, &array(name, &codes, None, None)?, categories);
    }
    let interface = values.getattr(intern!(values.py(), "__array_interface__"))?;
    of_memory(name, values, &interface.cast_into::<PyDict>()?, tz)
}

/// Shares the memory of a NumPy array. Its owner must not change it while the table lives.
fn of_memory(
    name: &str,
    owner: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyDict>,
    tz: Option<&str>,
) -> PyResult<ArrayRef> {
    let item = |key: &str| -> PyResult<Bound<'_, PyAny>> {
        let found = interface.get_item(key)?;
        found.ok_or_else(|| refuse(name, &format!("its array interface has no `{key}`")))
    };
    let shape: Vec<usize> = item("shape")?.extract()?;
    let [rows] = shape.as_slice() else {
        let what = format!("it has {} dimensions; give one array a column", shape.len());
        return Err(refuse(name, &what));
    };
    if interface.get_item("strides")?.is_some_and(|s| !s.is_none()) {
        return Err(refuse(
            name,
            &"its elements are not contiguous; copy the array first",
        ));
    }
    let kind: String = item("typestr")?.extract()?;
    let (address, _): (usize, bool) = item("data")?.extract()?;
    let (data_type, width) = type_of(name, &kind, tz)?;
    let memory = match NonNull::new(address as *mut u8) {
        Some(start) if *rows > 0 => {
            // Only ever dropped.
            let owner = Arc::new(AssertUnwindSafe(owner.clone().unbind()));
            // SAFETY: NumPy says that `rows` elements of `width` bytes lie at the address, and its array, which is kept, owns them.
            unsafe { Buffer::from_custom_allocation(start, rows * width, owner) }
        }
        _ => Buffer::from_vec(Vec::<u64>::new()),
    };
    if data_type == DataType::Boolean {
        let bools = memory.as_slice()[..*rows].iter().map(|byte| *byte != 0);
        return Ok(Arc::new(BooleanArray::from(bools.collect::<Vec<_>>())));
    }
    // Arrow reads aligned memory only.
    let memory = if memory.as_ptr().align_offset(width) == 0 {
        memory
    } else {
        Buffer::from_slice_ref(memory.as_slice())
    };
    let is_time = matches!(data_type, DataType::Timestamp(..) | DataType::Duration(_));
    let nulls = is_time.then(|| {
        let ticks: &[i64] = memory.typed_data();
        let missing = ticks.contains(&NAT);
        missing.then(|| ticks.iter().map(|t| *t != NAT).collect::<NullBuffer>())
    });
    let data = ArrayData::builder(data_type)
        .len(*rows)
        .add_buffer(memory)
        .nulls(nulls.flatten());
    let data = data.build().map_err(|error| refuse(name, &error))?;
    Ok(make_array(data))
}

/// Strings by their numbers among `categories`; those below zero are null.
fn of_codes(name: &str, codes: &ArrayRef, categories: Vec<String>) -> PyResult<ArrayRef> {
    let Some(codes) = codes.as_primitive_opt::<Int32Type>() else {
        return Err(refuse(
            name,
            &"its codes are no 32-bit integers; convert them",
        ));
    };
    let nulls = codes
        .values()
        .iter()
        .map(|code| *code >= 0)
        .collect::<NullBuffer>();
    let codes = PrimitiveArray::<Int32Type>::new(codes.values().clone(), Some(nulls));
    let categories: ArrayRef = Arc::new(StringArray::from(categories));
    match DictionaryArray::try_new(codes, categories) {
        Ok(array) => Ok(Arc::new(array)),
        Err(_) => Err(refuse(
            name,
            &"a code is not the number of a category; number them from zero",
        )),
    }
}

/// The Arrow type of NumPy's, and the bytes of an element.
fn type_of(name: &str, kind: &str, tz: Option<&str>) -> PyResult<(DataType, usize)> {
    let unit = |text: &str| match text {
        "[s]" => Some(TimeUnit::Second),
        "[ms]" => Some(TimeUnit::Millisecond),
        "[us]" => Some(TimeUnit::Microsecond),
        "[ns]" => Some(TimeUnit::Nanosecond),
        _ => None,
    };
    let found = match kind {
        "|b1" => Some((DataType::Boolean, 1)),
        "|i1" => Some((DataType::Int8, 1)),
        "<i2" => Some((DataType::Int16, 2)),
        "<i4" => Some((DataType::Int32, 4)),
        "<i8" => Some((DataType::Int64, 8)),
        "|u1" => Some((DataType::UInt8, 1)),
        "<u2" => Some((DataType::UInt16, 2)),
        "<u4" => Some((DataType::UInt32, 4)),
        "<u8" => Some((DataType::UInt64, 8)),
        "<f2" => Some((DataType::Float16, 2)),
        "<f4" => Some((DataType::Float32, 4)),
        "<f8" => Some((DataType::Float64, 8)),
        time => {
            let stamp = time.strip_prefix("<M8").and_then(unit);
            let stamp = stamp.map(|unit| DataType::Timestamp(unit, tz.map(Into::into)));
            let length = || {
                time.strip_prefix("<m8")
                    .and_then(unit)
                    .map(DataType::Duration)
            };
            stamp.or_else(length).map(|data_type| (data_type, 8))
        }
    };
    let what = format!("no column can hold NumPy's `{kind}`; convert the array");
    found.ok_or_else(|| refuse(name, &what))
}

fn of_list(
    name: &str,
    list: &Bound<'_, PyList>,
    dtype: Option<&str>,
    tz: Option<&str>,
) -> PyResult<ArrayRef> {
    let first = list.iter().find(|value| !value.is_none());
    let Some(first) = first else {
        // Nothing but None: floats go with everything.
        return Ok(Arc::new(Float64Array::new_null(list.len())));
    };
    if let Some(dtype) = dtype {
        let ticks: Vec<Option<i64>> = extract(name, list, dtype)?;
        let unit = match dtype {
            "timestamp(us)" => DataType::Timestamp(TimeUnit::Microsecond, tz.map(Into::into)),
            "duration(us)" => DataType::Duration(TimeUnit::Microsecond),
            "date" => DataType::Date32,
            other => return Err(refuse(name, &format!("`{other}` is no type of a list"))),
        };
        let ticks = Int64Array::from(ticks);
        if unit == DataType::Date32 {
            let days: Option<Vec<Option<i32>>> = ticks
                .iter()
                .map(|day| day.map_or(Some(None), |d| i32::try_from(d).ok().map(Some)))
                .collect();
            let days = days.ok_or_else(|| refuse(name, &"a date is out of range"))?;
            return Ok(Arc::new(Date32Array::from(days)));
        }
        let data = ticks.into_data().into_builder().data_type(unit).build();
        return Ok(make_array(data.map_err(|error| refuse(name, &error))?));
    }
    if first.is_instance_of::<PyBool>() {
        let bools: Vec<Option<bool>> = extract(name, list, "bool")?;
        return Ok(Arc::new(BooleanArray::from(bools)));
    }
    if first.is_instance_of::<PyString>() {
        let texts: Vec<Option<String>> = extract(name, list, "str")?;
        return Ok(Arc::new(StringArray::from(texts)));
    }
    let whole = |value: Bound<'_, PyAny>| value.is_none() || value.is_instance_of::<PyInt>();
    if list.iter().all(whole) {
        let whole: Vec<Option<i64>> = extract(name, list, "int of 64 bits")?;
        return Ok(Arc::new(Int64Array::from(whole)));
    }
    if first.is_instance_of::<PyFloat>() || first.is_instance_of::<PyInt>() {
        let floats: Vec<Option<f64>> = extract(name, list, "float")?;
        return Ok(Arc::new(Float64Array::from(floats)));
    }
    let kind = first.get_type().name()?;
    let what = format!(
        "it holds values of type `{kind}`; give bool, int, float, str, datetime, date or timedelta"
    );
    Err(refuse(name, &what))
}

/// All values of a list, or the row of the first that is of another type.
fn extract<T>(name: &str, list: &Bound<'_, PyList>, expected: &str) -> PyResult<Vec<Option<T>>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py>,
{
    let mut values = Vec::with_capacity(list.len());
    for (row, value) in list.iter().enumerate() {
        let Ok(value) = value.extract::<Option<T>>() else {
            let what = format!(
                "column `{name}`, row {row}: {} is no {expected}; give values of one type",
                value.repr()?
            );
            return Err(schema_error(&what, Some(name), Some(row)));
        };
        values.push(value);
    }
    Ok(values)
}

fn refuse(name: &str, what: &dyn std::fmt::Display) -> PyErr {
    schema_error(&format!("column `{name}`: {what}"), Some(name), None)
}
