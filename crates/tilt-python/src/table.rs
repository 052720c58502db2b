//! Arrow tables. Everything is shared, nothing copied, on the way in and on the way out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Field, Fields, Schema, SchemaRef};
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyCapsule, PyTuple},
};
use pyo3_arrow::{
    ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule},
    input::AnyRecordBatch,
};

use tilt::data::{KnownGaps, dtype::to_arrow};

use crate::{
    build,
    column::Column,
    errors::{FileError, data_error, schema_error},
    guard::guarded,
    watch::TICK,
};

/// Rows in batches of one schema.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    /// `None` if somebody may change the memory of the columns, as that of NumPy and pandas.
    looked: Option<Looked>,
}

/// The column of times that was looked through last.
pub(crate) type Looked = Arc<Mutex<Option<KnownGaps>>>;

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self {
            schema,
            batches,
            looked: Some(Looked::default()),
        }
    }

    /// Rows in the memory of these, or in a copy of it.
    pub(crate) fn derived(&self, schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self {
            looked: self.looked.as_ref().map(|_| Looked::default()),
            ..Self::new(schema, batches)
        }
    }

    /// Remembers that times were looked through, unless they may change.
    pub(crate) fn remember(&self, known: KnownGaps) {
        if let Some(looked) = &self.looked {
            *looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        }
    }

    /// The times that were looked through last.
    pub(crate) fn known(&self) -> Option<KnownGaps> {
        let looked = self.looked.as_ref()?.lock();
        looked.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        Self::new(batch.schema(), vec![batch])
    }

    /// Reads everything that an Arrow object has.
    pub(crate) fn import(rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(table) = rows.cast::<Self>() {
            let table = table.get();
            return Ok(Self {
                schema: Arc::clone(&table.schema),
                batches: table.batches.clone(),
                looked: table.looked.clone(),
            });
        }
        let exports = |name: &str| rows.hasattr(name);
        if !exports("__arrow_c_stream__")? && !exports("__arrow_c_array__")? {
            let kind = rows.get_type().fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!(
                "{kind} has no rows that Arrow can see; give a table of Polars, pandas, pyarrow or DuckDB, a dict of arrays, or anything else that has __arrow_c_stream__"
            )));
        }
        // A table may have both; one array of a table with several chunks would be a copy.
        let reader: Box<dyn RecordBatchReader + Send> = if exports("__arrow_c_stream__")? {
            rows.extract::<pyo3_arrow::PyRecordBatchReader>()?
                .into_reader()?
        } else {
            rows.extract::<AnyRecordBatch>()?.into_reader()?
        };
        let (py, schema) = (rows.py(), reader.schema());
        let (mut reader, mut batches) = (reader, Vec::new());
        // Whoever produces the batches takes the lock if it needs to.
        while !guarded(py, || take(&mut reader, &mut batches))?.map_err(|error| failed(&error))? {
            py.check_signals()?;
        }
        // What others lend may be memory of NumPy. Polars changes none that it has lent.
        let is_polars = rows.get_type().module()?.to_cow()?.starts_with("polars");
        Ok(Self {
            looked: is_polars.then(Looked::default),
            ..Self::new(schema, batches)
        })
    }

    pub(crate) fn find(&self, name: &str) -> PyResult<(usize, &Field)> {
        let mut found = self.schema.fields().iter().enumerate();
        let found = found.find(|(_, field)| field.name() == name);
        let names = || self.schema.fields().iter().map(|f| f.name().clone());
        found.map(|(i, field)| (i, field.as_ref())).ok_or_else(|| {
            data_error(&tilt::data::DataError::MissingColumn {
                column: name.to_owned(),
                columns: names().collect(),
            })
        })
    }
}

/// The exception of rows that their producer does not give. One of Python may be the one that Ctrl-C interrupts, of which Arrow has the text only.
fn failed(error: &ArrowError) -> PyErr {
    let message = error.to_string();
    match message.trim_end().lines().last() {
        Some("KeyboardInterrupt") => PyKeyboardInterrupt::new_err(()),
        _ => FileError::new_err(message),
    }
}

/// Takes batches for as long as signals may wait, or all that are left: whether that is so.
fn take(
    reader: &mut dyn RecordBatchReader,
    batches: &mut Vec<RecordBatch>,
) -> Result<bool, ArrowError> {
    let begun = Instant::now();
    while begun.elapsed() < TICK {
        match reader.next() {
            Some(batch) => batches.push(batch?),
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// A batch whose columns have other names, as many as there are.
pub(crate) fn renamed(batch: &RecordBatch, names: &[String]) -> PyResult<RecordBatch> {
    let fields = batch.schema_ref().fields().iter().zip(names);
    let fields: Vec<Field> = fields
        .map(|(field, name)| field.as_ref().clone().with_name(name))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), batch.columns().to_vec())
        .map_err(|error| schema_error(&error, None, None))
}

/// A column in Python: name, values, type and time zone.
type Given<'py> = (String, Bound<'py, PyAny>, Option<String>, Option<String>);

#[pymethods]
impl Table {
    /// The rows of any Arrow object.
    #[staticmethod]
    fn of(rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::import(rows)
    }

    /// A table of columns: `(name, values, type, time zone)`, where values are a NumPy array or a list.
    #[staticmethod]
    fn build(columns: Vec<Given<'_>>) -> PyResult<Self> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (name, values, dtype, tz) in &columns {
            let array = build::array(name, values, dtype.as_deref(), tz.as_deref())?;
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        if let Some(odd) = arrays
            .iter()
            .position(|array| array.len() != arrays[0].len())
        {
            let (name, first) = (&columns[odd].0, &columns[0].0);
            let message = format!(
                "column `{name}` has {} rows, but `{first}` has {}; give all columns one length",
                arrays[odd].len(),
                arrays[0].len()
            );
            return Err(schema_error(&message, Some(name), None));
        }
        let schema = Arc::new(Schema::new(fields));
        if arrays.is_empty() {
            return Ok(Self::new(schema, Vec::new()));
        }
        let batch = RecordBatch::try_new(schema, arrays);
        let batch = batch.map_err(|error| schema_error(&error, None, None))?;
        Ok(Self {
            looked: None,
            ..Self::of_batch(batch)
        })
    }

    /// The columns of anything that has an Arrow schema, without rows.
    #[staticmethod]
    fn empty(schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let schema = schema.extract::<pyo3_arrow::PySchema>()?.into_inner();
        Ok(Self::new(schema, Vec::new()))
    }

    /// Columns of types that are written as in the IR, without rows.
    #[staticmethod]
    fn typed(columns: Vec<(String, String)>) -> PyResult<Self> {
        let mut fields = Vec::with_capacity(columns.len());
        for (name, dtype) in &columns {
            let text = format!("query q unit tick {{ input ~x: {dtype} point output ~x }}");
            let program = tilt::ir::parse(&text).map_err(|_| {
                let message = format!("column `{name}`: no type is called `{dtype}`; types are bool, i8 to i64, u8 to u64, f16 to f64, utf8, timestamp(unit) and duration(unit)");
                schema_error(&message, Some(name), None)
            })?;
            let dtype = program.stream_dtype(program.output);
            fields.push(Field::new(name, to_arrow(dtype), true));
        }
        Ok(Self::new(Arc::new(Schema::new(fields)), Vec::new()))
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn num_batches(&self) -> usize {
        self.batches.len()
    }

    /// Name and Arrow type of every column.
    #[getter]
    fn schema(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields
            .map(|f| (f.name().clone(), f.data_type().to_string()))
            .collect()
    }

    fn column(&self, name: &str) -> PyResult<Column> {
        let (index, field) = self.find(name)?;
        let chunks = self
            .batches
            .iter()
            .map(|batch| Arc::clone(batch.column(index)));
        Ok(Column::new(Arc::new(field.clone()), chunks.collect()))
    }

    /// The rows from `offset` on, at most `length`.
    fn slice(&self, offset: usize, length: usize) -> Self {
        let (mut offset, mut length) = (offset, length);
        let mut batches = Vec::new();
        for batch in &self.batches {
            let skipped = offset.min(batch.num_rows());
            let taken = length.min(batch.num_rows() - skipped);
            if taken > 0 {
                batches.push(batch.slice(skipped, taken));
            }
            offset -= skipped;
            length -= taken;
        }
        self.derived(Arc::clone(&self.schema), batches)
    }

    /// The same columns under other names, as many as there are.
    fn renamed(&self, names: Vec<String>) -> PyResult<Self> {
        let empty = RecordBatch::new_empty(Arc::clone(&self.schema));
        let schema = renamed(&empty, &names)?.schema();
        let batches = self.batches.iter().map(|batch| renamed(batch, &names));
        Ok(self.derived(schema, batches.collect::<PyResult<_>>()?))
    }

    /// The rows of several tables with the same columns, one after the other. Tables without rows do not count, unless there are no others.
    #[staticmethod]
    fn joined(tables: Vec<Py<Self>>) -> PyResult<Self> {
        let tables: Vec<&Self> = tables.iter().map(Py::get).collect();
        let has_rows = |table: &&&Self| table.batches.iter().any(|b| b.num_rows() > 0);
        let Some(first) = tables.iter().find(has_rows).or(tables.first()) else {
            return Err(PyValueError::new_err("there is no table to join"));
        };
        let batches = tables.iter().flat_map(|table| table.batches.clone());
        let batches: Vec<RecordBatch> = batches.filter(|b| b.num_rows() > 0).collect();
        if let Some(other) = batches
            .iter()
            .find(|b| b.schema_ref().fields() != first.schema.fields())
        {
            let message = format!(
                "tables have the columns {} and {}",
                first.schema,
                other.schema()
            );
            return Err(schema_error(&message, None, None));
        }
        let may_change = tables.iter().find(|table| table.looked.is_none());
        let of = may_change.unwrap_or(first);
        Ok(of.derived(Arc::clone(&first.schema), batches))
    }

    fn select(&self, names: Vec<String>) -> PyResult<Self> {
        let columns = names.iter().map(|name| Ok(self.find(name)?.0));
        let columns = columns.collect::<PyResult<Vec<usize>>>()?;
        let project = |batch: &RecordBatch| batch.project(&columns);
        let batches = self.batches.iter().map(project).collect::<Result<_, _>>();
        let fail = |error: ArrowError| schema_error(&error, None, None);
        let schema = self.schema.project(&columns).map_err(fail)?;
        Ok(self.derived(Arc::new(schema), batches.map_err(fail)?))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Vec<ArrayRef> = self
            .batches
            .iter()
            .map(|batch| Arc::new(StructArray::from(batch.clone())) as ArrayRef)
            .collect();
        let fields: Fields = self.schema.fields().clone();
        let rows =
            Field::new_struct("", fields, false).with_metadata(self.schema.metadata().clone());
        let batches = ArrayIterator::new(batches.into_iter().map(Ok), Arc::new(rows));
        Ok(to_stream_pycapsule(
            py,
            Box::new(batches),
            requested_schema,
        )?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// Pickled as an Arrow IPC stream.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let read = slf.get_type().getattr("from_ipc")?;
        (read, (slf.get().to_ipc(py)?,)).into_pyobject(py)
    }

    /// As an Arrow IPC stream.
    fn to_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = guarded(py, || crate::files::to_ipc(self))??;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn from_ipc(data: &[u8]) -> PyResult<Self> {
        crate::files::from_ipc(data)
    }
}
