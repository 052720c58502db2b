//! One column of a table, as Python objects and as NumPy sees it.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, StringArray,
    cast::AsArray,
    new_empty_array,
    types::{
        Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
        DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use arrow_select::concat::concat;
use pyo3::{
    IntoPyObjectExt, intern,
    prelude::*,
    types::{PyCapsule, PyDict, PyList, PyTuple},
};
use pyo3_arrow::ffi::{
    ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule,
};

use crate::errors::schema_error;

/// A column, in the chunks that its table has.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Column {
    field: FieldRef,
    chunks: Vec<ArrayRef>,
}

impl Column {
    pub(crate) fn new(field: FieldRef, chunks: Vec<ArrayRef>) -> Self {
        Self { field, chunks }
    }

    /// All chunks as one array: the chunk itself if it is the only one.
    fn joined(&self) -> PyResult<ArrayRef> {
        match self.chunks.as_slice() {
            [] => Ok(new_empty_array(self.field.data_type())),
            [chunk] => Ok(Arc::clone(chunk)),
            chunks => {
                let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
                concat(&chunks).map_err(|error| self.fail(&error))
            }
        }
    }

    fn fail(&self, error: &ArrowError) -> PyErr {
        schema_error(error, Some(self.field.name()), None)
    }
}

#[pymethods]
impl Column {
    #[getter]
    fn name(&self) -> &str {
        self.field.name()
    }

    /// The Arrow type.
    #[getter]
    fn dtype(&self) -> String {
        self.field.data_type().to_string()
    }

    #[getter]
    fn null_count(&self) -> usize {
        self.chunks.iter().map(Array::logical_null_count).sum()
    }

    fn __len__(&self) -> usize {
        self.chunks.iter().map(Array::len).sum()
    }

    /// The values for NumPy: shared if there is one chunk of a type that NumPy has; `None` for types that it does not have. Rows that are null hold
    /// anything.
    fn values(&self) -> PyResult<Option<Values>> {
        Ok(Values::of(&self.joined()?))
    }

    /// Whether each row has a value; `None` if all have.
    fn validity(&self) -> PyResult<Option<Values>> {
        let array = self.joined()?;
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(nulls.map(|nulls| Values::of_bools(nulls.iter())))
    }

    pub(crate) fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let objects = Objects::new(py, self.field.data_type())?;
        let list = PyList::empty(py);
        for chunk in &self.chunks {
            // Each string of a dictionary becomes one object. Without any all keys are null.
            let words = match chunk.as_any_dictionary_opt() {
                Some(dictionary) if !dictionary.values().is_empty() => Some((
                    dictionary.normalized_keys(),
                    objects.list(dictionary.values())?,
                )),
                _ => None,
            };
            for row in 0..chunk.len() {
                match &words {
                    Some((keys, words)) if chunk.is_valid(row) => {
                        list.append(words.get_item(keys[row])?)?;
                    }
                    _ => list.append(objects.get(chunk, row)?)?,
                }
            }
        }
        Ok(list)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let chunks = self.chunks.clone().into_iter().map(Ok);
        let chunks = ArrayIterator::new(chunks, Arc::clone(&self.field));
        Ok(to_stream_pycapsule(py, Box::new(chunks), requested_schema)?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let array = self.joined()?;
        Ok(to_array_pycapsules(
            py,
            Arc::clone(&self.field),
            &array,
            requested_schema,
        )?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.field.as_ref())?)
    }
}

/// Memory that NumPy can look at. It lives as long as an array that does.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Values {
    memory: Buffer,
    /// In bytes.
    offset: usize,
    rows: usize,
    /// NumPy's name of the type.
    kind: String,
}

impl Values {
    fn of(array: &ArrayRef) -> Option<Self> {
        use DataType::*;
        if let Boolean = array.data_type() {
            return Some(Self::of_bools(array.as_boolean().values().iter()));
        }
        let unit = |unit: &TimeUnit| match unit {
            TimeUnit::Second => "s",
            TimeUnit::Millisecond => "ms",
            TimeUnit::Microsecond => "us",
            TimeUnit::Nanosecond => "ns",
        };
        let (kind, width) = match array.data_type() {
            Int8 => ("|i1".to_owned(), 1),
            Int16 => ("<i2".to_owned(), 2),
            Int32 => ("<i4".to_owned(), 4),
            Int64 => ("<i8".to_owned(), 8),
            UInt8 => ("|u1".to_owned(), 1),
            UInt16 => ("<u2".to_owned(), 2),
            UInt32 => ("<u4".to_owned(), 4),
            UInt64 => ("<u8".to_owned(), 8),
            Float16 => ("<f2".to_owned(), 2),
            Float32 => ("<f4".to_owned(), 4),
            Float64 => ("<f8".to_owned(), 8),
            Timestamp(u, _) => (format!("<M8[{}]", unit(u)), 8),
            Duration(u) => (format!("<m8[{}]", unit(u)), 8),
            Date64 => ("<M8[ms]".to_owned(), 8),
            // NumPy's days have 64 bits.
            Date32 => {
                let days = array.as_primitive::<Date32Type>().values();
                let days: Vec<i64> = days.iter().map(|day| i64::from(*day)).collect();
                return Some(Self {
                    memory: Buffer::from_vec(days),
                    offset: 0,
                    rows: array.len(),
                    kind: "<M8[D]".to_owned(),
                });
            }
            _ => return None,
        };
        let data = array.to_data();
        Some(Self {
            memory: data.buffers()[0].clone(),
            offset: data.offset() * width,
            rows: data.len(),
            kind,
        })
    }

    fn of_bools(bools: impl Iterator<Item = bool>) -> Self {
        let bytes: Vec<u8> = bools.map(u8::from).collect();
        Self {
            rows: bytes.len(),
            memory: Buffer::from_vec(bytes),
            offset: 0,
            kind: "|b1".to_owned(),
        }
    }
}

#[pymethods]
impl Values {
    /// NumPy's protocol for memory of others: an array made of this keeps it alive, and is read only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        // The offset lies inside of the buffer, or at its end if there are no rows.
        let address = self.memory.as_ptr() as usize + self.offset;
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.rows,))?;
        interface.set_item("typestr", &self.kind)?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }
}

/// Makes Python objects of values.
struct Objects<'py> {
    py: Python<'py>,
    /// `datetime.timedelta`.
    timedelta: Bound<'py, PyAny>,
    /// 1970-01-01 without a time zone, as a date, and in UTC.
    epoch: Bound<'py, PyAny>,
    epoch_date: Bound<'py, PyAny>,
    epoch_utc: Bound<'py, PyAny>,
    /// The time zone of instants that have one.
    zone: Option<Bound<'py, PyAny>>,
}

impl<'py> Objects<'py> {
    fn new(py: Python<'py>, data_type: &DataType) -> PyResult<Self> {
        let module = py.import(intern!(py, "datetime"))?;
        let datetime = module.getattr(intern!(py, "datetime"))?;
        let epoch = datetime.call1((1970, 1, 1))?;
        let utc = module
            .getattr(intern!(py, "timezone"))?
            .getattr(intern!(py, "utc"))?;
        let with_utc = PyDict::new(py);
        with_utc.set_item("tzinfo", &utc)?;
        let zone = match zone_of(data_type) {
            Some("UTC" | "+00:00") => Some(utc),
            Some(name) => Some(zone(py, name)?),
            None => None,
        };
        Ok(Self {
            py,
            timedelta: module.getattr(intern!(py, "timedelta"))?,
            epoch_date: module.getattr(intern!(py, "date"))?.call1((1970, 1, 1))?,
            epoch_utc: epoch.call_method("replace", (), Some(&with_utc))?,
            epoch,
            zone,
        })
    }

    fn get(&self, array: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
        use DataType::*;
        let py = self.py;
        if array.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        macro_rules! number {
            ($kind:ty) => {
                array
                    .as_primitive::<$kind>()
                    .value(row)
                    .into_bound_py_any(py)
            };
        }
        match array.data_type() {
            Null => Ok(py.None().into_bound(py)),
            Boolean => array.as_boolean().value(row).into_bound_py_any(py),
            Int8 => number!(Int8Type),
            Int16 => number!(Int16Type),
            Int32 => number!(Int32Type),
            Int64 => number!(Int64Type),
            UInt8 => number!(UInt8Type),
            UInt16 => number!(UInt16Type),
            UInt32 => number!(UInt32Type),
            UInt64 => number!(UInt64Type),
            Float16 => {
                f32::from(array.as_primitive::<Float16Type>().value(row)).into_bound_py_any(py)
            }
            Float32 => number!(Float32Type),
            Float64 => number!(Float64Type),
            Utf8 => array.as_string::<i32>().value(row).into_bound_py_any(py),
            LargeUtf8 => array.as_string::<i64>().value(row).into_bound_py_any(py),
            Utf8View => array.as_string_view().value(row).into_bound_py_any(py),
            Date32 => {
                let days = self.timedelta.call1((ticks(array, row),))?;
                self.epoch_date.add(days)
            }
            Date64 => self
                .epoch
                .add(self.length(ticks(array, row), TimeUnit::Millisecond)?),
            Timestamp(unit, tz) => {
                let since = self.length(ticks(array, row), *unit)?;
                match (tz, &self.zone) {
                    (Some(_), Some(zone)) => {
                        let instant = self.epoch_utc.add(since)?;
                        instant.call_method1(intern!(py, "astimezone"), (zone,))
                    }
                    _ => self.epoch.add(since),
                }
            }
            Duration(unit) => self.length(ticks(array, row), *unit),
            Struct(fields) => {
                let record = PyDict::new(py);
                for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                    record.set_item(field.name(), self.get(column, row)?)?;
                }
                Ok(record.into_any())
            }
            List(_) => self.list(&array.as_list::<i32>().value(row)),
            LargeList(_) => self.list(&array.as_list::<i64>().value(row)),
            Dictionary(_, values) => {
                let value = arrow_cast::cast(&array.slice(row, 1), values);
                self.get(
                    &value.map_err(|error| schema_error(&error, None, Some(row)))?,
                    0,
                )
            }
            _ => {
                // What no stream can have, but a table can show.
                let text = arrow_cast::cast(&array.slice(row, 1), &Utf8);
                let text = text.map_err(|error| schema_error(&error, None, Some(row)))?;
                let text: &StringArray = text.as_string();
                text.value(0).into_bound_py_any(py)
            }
        }
    }

    fn list(&self, items: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(self.py);
        for item in 0..items.len() {
            list.append(self.get(items, item)?)?;
        }
        Ok(list.into_any())
    }

    /// A `timedelta`, which counts microseconds: finer ones are rounded down.
    fn length(&self, ticks: i64, unit: TimeUnit) -> PyResult<Bound<'py, PyAny>> {
        let micros = match unit {
            TimeUnit::Second => i128::from(ticks) * 1_000_000,
            TimeUnit::Millisecond => i128::from(ticks) * 1_000,
            TimeUnit::Microsecond => i128::from(ticks),
            TimeUnit::Nanosecond => i128::from(ticks).div_euclid(1_000),
        };
        let (days, micros) = (
            micros.div_euclid(86_400_000_000) as i64,
            micros.rem_euclid(86_400_000_000) as i64,
        );
        self.timedelta.call1((days, 0, micros))
    }
}

/// The time zone in a type, also of a record's or list's parts.
fn zone_of(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, tz) => tz.as_deref(),
        DataType::Struct(fields) => fields.iter().find_map(|field| zone_of(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) => zone_of(item.data_type()),
        _ => None,
    }
}

/// A time zone of Python: by its name, or a fixed offset such as `+02:00`.
fn zone<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    if name.starts_with(['+', '-']) {
        let datetime = py.import(intern!(py, "datetime"))?.getattr("datetime")?;
        return datetime
            .call_method1("strptime", (name, "%z"))?
            .getattr("tzinfo");
    }
    py.import(intern!(py, "zoneinfo"))?
        .getattr("ZoneInfo")?
        .call1((name,))
}

/// The number that a type of time stores.
fn ticks(array: &dyn Array, row: usize) -> i64 {
    use DataType::{Date32, Date64, Duration, Timestamp};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    macro_rules! of {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row)
        };
    }
    match array.data_type() {
        Timestamp(Second, _) => of!(TimestampSecondType),
        Timestamp(Millisecond, _) => of!(TimestampMillisecondType),
        Timestamp(Microsecond, _) => of!(TimestampMicrosecondType),
        Timestamp(Nanosecond, _) => of!(TimestampNanosecondType),
        Duration(Second) => of!(DurationSecondType),
        Duration(Millisecond) => of!(DurationMillisecondType),
        Duration(Microsecond) => of!(DurationMicrosecondType),
        Duration(Nanosecond) => of!(DurationNanosecondType),
        Date64 => of!(Date64Type),
        Date32 => i64::from(of!(Date32Type)),
        other => unreachable!("{other} counts no time"),
    }
}
