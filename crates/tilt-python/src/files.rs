//! Files: scans, writing, and tables as bytes.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use arrow_array::{RecordBatch, StructArray};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_schema::{ArrowError, Field, SchemaRef};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyCapsule};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use tilt::ir::Unit;
use tilt_io::{Compression, Format, TimeRange, WriteOptions};

use crate::{
    errors::{FileError, io_error},
    guard::guarded,
    table::Table,
};

/// Files that are read when they are needed.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Scan(pub(crate) tilt_io::Scan);

#[pymethods]
impl Scan {
    /// The files that `patterns` name: the columns named, in the range `(after, until]` of `unit` (each side may be `None`).
    #[new]
    #[pyo3(signature = (patterns, *, format=None, columns=None, time=None, range=None, batch_rows=None))]
    fn new(
        py: Python<'_>,
        patterns: Vec<String>,
        format: Option<&str>,
        columns: Option<Vec<String>>,
        time: Option<String>,
        range: Option<(Option<i64>, Option<i64>, String)>,
        batch_rows: Option<usize>,
    ) -> PyResult<Self> {
        let format = format.map(parse_format).transpose()?;
        let mut scan = guarded(py, || tilt_io::Scan::open(&patterns, format))?
            .map_err(|error| io_error(&error))?;
        if let Some(columns) = columns {
            scan = scan.columns(columns);
        }
        if let Some(time) = time {
            scan = scan.time(time);
        }
        if let Some((after, until, unit)) = range {
            let unit = parse_unit(&unit)?;
            scan = scan.range(TimeRange { after, until, unit });
        }
        if let Some(rows) = batch_rows {
            scan = scan.batch_rows(rows);
        }
        Ok(Self(scan))
    }

    #[getter]
    fn files(&self) -> Vec<PathBuf> {
        self.0.files().to_vec()
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.0.format().name()
    }

    /// How many rows the files say they have.
    fn rows(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        guarded(py, || self.0.rows())?.map_err(|error| io_error(&error))
    }

    /// The columns, as a table without rows.
    fn schema(&self, py: Python<'_>) -> PyResult<Table> {
        let schema = guarded(py, || self.0.schema())?.map_err(|error| io_error(&error))?;
        Ok(Table::new(schema, Vec::new()))
    }

    /// All rows.
    fn read(&self, py: Python<'_>) -> PyResult<Table> {
        guarded(py, || read(&self.0))?
            .map(|(schema, batches)| Table::new(schema, batches))
            .map_err(|error| io_error(&error))
    }

    /// The rows, batch by batch as they are asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = guarded(py, || self.0.batches())?.map_err(|error| io_error(&error))?;
        let field = Field::new_struct("", batches.schema().fields().clone(), false);
        let arrays = batches.map(|batch| match batch {
            Ok(batch) => Ok(std::sync::Arc::new(StructArray::from(batch)) as _),
            Err(error) => Err(ArrowError::ExternalError(Box::new(error))),
        });
        let arrays = ArrayIterator::new(arrays, field.into());
        Ok(to_stream_pycapsule(py, Box::new(arrays), requested_schema)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = guarded(py, || self.0.schema())?.map_err(|error| io_error(&error))?;
        Ok(to_schema_pycapsule(py, schema.as_ref())?)
    }
}

/// Everything that a scan names.
pub(crate) fn read(scan: &tilt_io::Scan) -> tilt_io::Result<(SchemaRef, Vec<RecordBatch>)> {
    let batches = scan.batches()?;
    let schema = batches.schema().clone();
    Ok((schema, batches.collect::<tilt_io::Result<_>>()?))
}

/// A file that is being written, batch by batch. It has its name once it is complete.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Writer(Mutex<Option<tilt_io::Writer>>);

#[pymethods]
impl Writer {
    /// Begins a file of rows with the columns of a table.
    #[new]
    #[pyo3(signature = (path, columns, *, format=None, compression=None, row_group_rows=None))]
    fn new(
        path: PathBuf,
        columns: &Table,
        format: Option<&str>,
        compression: Option<&str>,
        row_group_rows: Option<usize>,
    ) -> PyResult<Self> {
        let options = WriteOptions {
            format: format.map(parse_format).transpose()?,
            compression: compression.map(parse_compression).transpose()?,
            row_group_rows,
        };
        let writer = tilt_io::Writer::create(&path, &columns.schema, &options);
        let writer = writer.map_err(|error| io_error(&error))?;
        Ok(Self(Mutex::new(Some(writer))))
    }

    fn write(&self, py: Python<'_>, rows: &Table) -> PyResult<()> {
        let written = guarded(py, || {
            let mut writer = self.lock();
            let Some(writer) = writer.as_mut() else {
                return Ok(());
            };
            rows.batches
                .iter()
                .try_for_each(|batch| writer.write(batch))
        })?;
        written.map_err(|error| io_error(&error))
    }

    /// Completes the file.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let finished = guarded(py, || {
            let writer = self.lock().take();
            writer.map_or(Ok(()), tilt_io::Writer::finish)
        })?;
        finished.map_err(|error| io_error(&error))
    }

    /// Removes what was written, unless the file is complete.
    fn discard(&self) {
        self.lock().take();
    }
}

impl Writer {
    fn lock(&self) -> MutexGuard<'_, Option<tilt_io::Writer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A table as an Arrow IPC stream.
pub(crate) fn to_ipc(table: &Table) -> PyResult<Vec<u8>> {
    let fail = |error: ArrowError| FileError::new_err(error.to_string());
    let mut writer = StreamWriter::try_new(Vec::new(), &table.schema).map_err(fail)?;
    for batch in &table.batches {
        writer.write(batch).map_err(fail)?;
    }
    writer.finish().map_err(fail)?;
    writer.into_inner().map_err(fail)
}

/// The table of an Arrow IPC stream.
pub(crate) fn from_ipc(bytes: &[u8]) -> PyResult<Table> {
    let fail = |error: ArrowError| FileError::new_err(error.to_string());
    let reader = StreamReader::try_new(bytes, None).map_err(fail)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<_, _>>().map_err(fail)?;
    Ok(Table::new(schema, batches))
}

pub(crate) fn parse_unit(name: &str) -> PyResult<Unit> {
    let message = || format!("no unit is called {name:?}; units are tick, s, ms, us and ns");
    Unit::parse(name).ok_or_else(|| PyValueError::new_err(message()))
}

pub(crate) fn parse_format(name: &str) -> PyResult<Format> {
    let names = Format::ALL.map(Format::name).join(", ");
    let message = || format!("no format is called {name:?}; formats are {names}");
    Format::parse(name).ok_or_else(|| PyValueError::new_err(message()))
}

fn parse_compression(name: &str) -> PyResult<Compression> {
    let names = Compression::ALL.map(Compression::name).join(", ");
    let message = || format!("no compression is called {name:?}; there are {names}");
    Compression::parse(name).ok_or_else(|| PyValueError::new_err(message()))
}
