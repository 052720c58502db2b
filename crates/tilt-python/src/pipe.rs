//! Rows as bytes that come and go in pieces.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use pyo3::{prelude::*, types::PyBytes};
use tilt_io::PipeError;

use crate::{
    errors::FileError,
    files::parse_format,
    guard::{guarded, internal},
    table::Table,
};

/// Makes tables of bytes as they come.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Decoder(Mutex<Option<tilt_io::Decoder>>);

#[pymethods]
impl Decoder {
    /// `columns` are those of JSON lines, if they are known.
    #[new]
    #[pyo3(signature = (format, columns=None))]
    fn new(format: &str, columns: Option<&Table>) -> PyResult<Self> {
        let schema = columns.map(|columns| columns.schema.clone());
        let decoder = tilt_io::Decoder::new(parse_format(format)?, schema);
        Ok(Self(Mutex::new(Some(decoder.map_err(|e| refused(&e))?))))
    }

    /// The rows that are complete with these bytes, if there are some.
    fn decode(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Option<Table>> {
        let batches = guarded(py, || {
            let mut decoder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            decoder.as_mut().map(|decoder| decoder.decode(bytes))
        })?;
        let batches = batches.ok_or_else(|| internal("bytes after the end"))?;
        Ok(table(batches.map_err(|error| refused(&error))?))
    }

    /// The rows of what is left at the end, if there are some.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let batches = guarded(py, || {
            let mut decoder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            decoder.take().map(tilt_io::Decoder::finish)
        })?;
        let batches = batches.transpose().map_err(|error| refused(&error))?;
        Ok(table(batches.unwrap_or_default()))
    }
}

/// Makes bytes of tables as they come.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Encoder(Mutex<Option<tilt_io::Encoder>>);

#[pymethods]
impl Encoder {
    #[new]
    fn new(format: &str) -> PyResult<Self> {
        let encoder = tilt_io::Encoder::new(parse_format(format)?);
        Ok(Self(Mutex::new(Some(encoder.map_err(|e| refused(&e))?))))
    }

    fn encode<'py>(&self, py: Python<'py>, rows: &Table) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = guarded(py, || -> Result<Vec<u8>, PipeError> {
            let mut encoder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = Vec::new();
            for batch in &rows.batches {
                if let Some(encoder) = encoder.as_mut() {
                    bytes.extend(encoder.encode(batch)?);
                }
            }
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes.map_err(|error| refused(&error))?))
    }

    /// The bytes of the end.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = guarded(py, || {
            let mut encoder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            encoder.take().map(tilt_io::Encoder::finish)
        })?;
        let bytes = bytes.transpose().map_err(|error| refused(&error))?;
        Ok(PyBytes::new(py, &bytes.unwrap_or_default()))
    }
}

fn table(batches: Vec<RecordBatch>) -> Option<Table> {
    let schema = batches.first()?.schema();
    Some(Table::new(schema, batches))
}

fn refused(error: &PipeError) -> PyErr {
    FileError::new_err(error.to_string())
}
