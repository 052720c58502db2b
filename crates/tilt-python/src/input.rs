//! Rows for an input of a query.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use tilt::{
    data::{IngressOptions, SnapshotBuffer, dtype::unit_to_arrow, ingest_chunks},
    ir::{self, DType, Unit},
};

use crate::{
    errors::{data_error, io_error, schema_error},
    files::{self, Scan},
    table::Table,
};

/// One column of times, or a column of starts and one of ends.
#[derive(FromPyObject, Clone)]
pub(crate) enum Times {
    Stamp(String),
    Interval((String, String)),
}

impl Times {
    pub(crate) fn options(&self) -> IngressOptions {
        match self {
            Self::Stamp(column) => IngressOptions::stamp(column),
            Self::Interval((start, end)) => IngressOptions::interval(start, end),
        }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Stamp(column) => vec![column],
            Self::Interval((start, end)) => vec![start, end],
        }
    }
}

/// Rows and how to read them.
#[pyclass(frozen, module = "tilt._native")]
#[derive(Clone)]
pub(crate) struct Input {
    rows: Rows,
    time: Times,
    value: Option<String>,
    tz: Option<Arc<str>>,
    sort: bool,
    closed_left: bool,
}

#[derive(Clone)]
enum Rows {
    Table(SchemaRef, Vec<RecordBatch>),
    Scan(tilt_io::Scan),
}

#[pymethods]
impl Input {
    /// `rows` is a scan or anything that Arrow can see; `tz` is the time zone of times that do not have one.
    #[new]
    #[pyo3(signature = (rows, time, *, value=None, tz=None, sort=false, closed_left=false))]
    fn new(
        rows: &Bound<'_, PyAny>,
        time: Times,
        value: Option<String>,
        tz: Option<String>,
        sort: bool,
        closed_left: bool,
    ) -> PyResult<Self> {
        let rows = if let Ok(scan) = rows.cast::<Scan>() {
            Rows::Scan(scan.get().0.clone())
        } else {
            let table = Table::import(rows)?;
            Rows::Table(table.schema, table.batches)
        };
        Ok(Self {
            rows,
            time,
            value,
            tz: tz.map(Into::into),
            sort,
            closed_left,
        })
    }
}

impl Input {
    /// The events of the input that a query declares, in its unit.
    pub(crate) fn read(&self, declared: &ir::Input, unit: Unit) -> PyResult<SnapshotBuffer> {
        let mut options = self.time.options();
        options.value.clone_from(&self.value);
        options.sort = self.sort;
        options.closed_left = self.closed_left;
        let mut batches = match &self.rows {
            // The types of a table without batches are checked as well.
            Rows::Table(schema, batches) if batches.is_empty() => {
                vec![RecordBatch::new_empty(Arc::clone(schema))]
            }
            Rows::Table(_, batches) => batches.clone(),
            Rows::Scan(scan) => self
                .scan(scan, declared)
                .map_err(|error| io_error(&error))?,
        };
        if let Some(tz) = &self.tz {
            for name in self.time.names() {
                zoned(&mut batches, name, declared.unit, tz)?;
            }
        }
        ingest_chunks(&batches, declared, unit, &options).map_err(|error| data_error(&error))
    }

    /// The rows of a scan: only the columns that the query reads.
    fn scan(
        &self,
        scan: &tilt_io::Scan,
        declared: &ir::Input,
    ) -> tilt_io::Result<Vec<RecordBatch>> {
        let mut columns: Vec<String> = self.time.names().into_iter().map(str::to_owned).collect();
        match (&declared.dtype, &self.value) {
            (DType::Record(fields), _) => columns.extend(fields.iter().map(|f| f.name.clone())),
            (_, Some(value)) => columns.push(value.clone()),
            _ => columns.push(declared.name.clone()),
        }
        let mut scan = scan.clone();
        let known = scan.schema()?;
        // What is missing is reported by ingress, with the columns that there are.
        if columns
            .iter()
            .all(|name| known.column_with_name(name).is_some())
        {
            scan = scan.columns(columns);
        }
        let (schema, mut batches) = files::read(&scan)?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        Ok(batches)
    }
}

/// Gives a column of times a time zone. Integers count `unit` from the epoch in UTC, timestamps without a zone are wall times there, others keep
/// their instants.
fn zoned(batches: &mut [RecordBatch], name: &str, unit: Unit, tz: &Arc<str>) -> PyResult<()> {
    let mut before = 0;
    for batch in batches {
        let Some((index, field)) = batch.schema_ref().fields().find(name) else {
            return Ok(());
        };
        let column = batch.column(index);
        let column = match (field.data_type(), unit_to_arrow(unit)) {
            (DataType::Int64, Some(unit)) => {
                retyped(column, DataType::Timestamp(unit, Some(Arc::clone(tz))))
            }
            (DataType::Timestamp(unit, Some(_)), _) => {
                retyped(column, DataType::Timestamp(*unit, Some(Arc::clone(tz))))
            }
            (DataType::Timestamp(unit, None), _) => local(
                column,
                DataType::Timestamp(*unit, Some(Arc::clone(tz))),
                name,
                before,
            )?,
            _ => return Ok(()),
        };
        before += batch.num_rows();
        *batch = with_column(batch, index, &column)?;
    }
    Ok(())
}

/// The same numbers as another type of 64 bits.
fn retyped(column: &ArrayRef, data_type: DataType) -> ArrayRef {
    let data = column.to_data().into_builder().data_type(data_type);
    make_array(data.build().expect("both types have 64 bits"))
}

/// Wall times as instants.
fn local(column: &ArrayRef, data_type: DataType, name: &str, before: usize) -> PyResult<ArrayRef> {
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let cast = cast_with_options(column, &data_type, &options);
    let cast = cast.map_err(|error| schema_error(&error, Some(name), None))?;
    let lost = (0..column.len()).find(|row| column.is_valid(*row) && cast.is_null(*row));
    match lost {
        None => Ok(cast),
        Some(row) => {
            let message = format!(
                "time column `{name}`, row {}: this wall time does not exist in the time zone or exists twice, because clocks were changed; give the times in UTC",
                before + row
            );
            Err(schema_error(&message, Some(name), Some(before + row)))
        }
    }
}

fn with_column(batch: &RecordBatch, index: usize, column: &ArrayRef) -> PyResult<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    let mut fields: Vec<Field> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.as_ref().clone())
        .collect();
    fields[index] = fields[index]
        .clone()
        .with_data_type(column.data_type().clone());
    columns[index] = Arc::clone(column);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| schema_error(&error, None, None))
}
