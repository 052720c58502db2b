//! Rows for an input of a query.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, timezone::Tz};
use arrow_cast::{CastOptions, cast_with_options, display::array_value_to_string};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use tilt::{
    data::{
        DataError, IngressOptions, KnownGaps, SnapshotBuffer, dtype::unit_to_arrow, ingest,
        ingest_chunks,
    },
    ir::{self, DType, Unit},
};

use crate::{
    errors::{data_error, ingress_error, io_error, schema_error},
    files::Scan,
    fit::{Columns, retyped},
    guard::internal,
    lookup::{Lookup, Side},
    parts::Parts,
    table::Table,
};

/// The column, true everywhere, of rows that have no other beside their times.
pub(crate) const ONLY_TIMES: &str = "event";

/// So many rows are read within microseconds.
const SMALL: usize = 1 << 11;

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
    /// Tables whose columns are put beside the rows, each with the column that has its keys.
    lookups: Vec<(String, Arc<Side>)>,
}

#[derive(Clone)]
enum Rows {
    Table(SchemaRef, Vec<RecordBatch>, Option<KnownGaps>),
    Scan(tilt_io::Scan),
    /// The result of another query, which comes once.
    Parts(Arc<Mutex<Option<Batches>>>),
}

/// Batches of one schema, as they are read.
pub(crate) type Batches = Box<dyn Iterator<Item = PyResult<RecordBatch>> + Send>;
/// Events, as rows are read.
pub(crate) type Chunks = Box<dyn Iterator<Item = PyResult<SnapshotBuffer>> + Send>;

#[pymethods]
impl Input {
    /// `rows` is a scan, the parts of a result, or anything that Arrow can see; `tz` is the time zone of times that do not have one; `lookups` are columns
    /// of the rows with the tables that have their values as keys.
    #[new]
    #[pyo3(signature = (rows, time, *, value=None, tz=None, sort=false, closed_left=false, lookups=Vec::new()))]
    fn new(
        rows: &Bound<'_, PyAny>,
        time: Times,
        value: Option<String>,
        tz: Option<String>,
        sort: bool,
        closed_left: bool,
        lookups: Vec<(String, Py<Lookup>)>,
    ) -> PyResult<Self> {
        if let Some(tz) = tz.as_ref().filter(|tz| tz.parse::<Tz>().is_err()) {
            let message = format!(
                "no time zone is called `{tz}`; names are such as Europe/Paris, offsets such as +02:00"
            );
            return Err(schema_error(&message, None, None));
        }
        let rows = if let Ok(scan) = rows.cast::<Scan>() {
            Rows::Scan(scan.get().0.clone())
        } else if let Ok(parts) = rows.cast::<Parts>() {
            Rows::Parts(Arc::new(Mutex::new(parts.get().take())))
        } else {
            let table = Table::import(rows)?;
            let known = table.known();
            Rows::Table(table.schema, table.batches, known)
        };
        let lookups = lookups.into_iter();
        Ok(Self {
            rows,
            time,
            value,
            tz: tz.map(Into::into),
            sort,
            closed_left,
            lookups: lookups
                .map(|(on, lookup)| (on, Arc::clone(&lookup.get().0)))
                .collect(),
        })
    }
}

impl Input {
    /// How many rows there are, if that is known before they are read.
    pub(crate) fn rows(&self) -> Option<usize> {
        match &self.rows {
            Rows::Table(_, batches, _) => Some(batches.iter().map(RecordBatch::num_rows).sum()),
            Rows::Scan(scan) => scan.rows().ok().flatten(),
            Rows::Parts(_) => None,
        }
    }

    /// Whether the rows are there and read at once.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self.rows, Rows::Table(..)) && self.rows().is_some_and(|rows| rows <= SMALL)
    }

    /// All events of the input that a query declares, in its unit, checked on so many threads.
    pub(crate) fn read(
        &self,
        declared: &ir::Input,
        unit: Unit,
        threads: usize,
    ) -> PyResult<SnapshotBuffer> {
        let mut before = 0;
        let mut batches = Vec::new();
        for batch in self.batches(declared, None)? {
            let batch = self.prepared(&batch?, declared, before)?;
            before += batch.num_rows();
            batches.push(batch);
        }
        // Empty batches are for the types of rows that there are none of.
        if before > 0 {
            batches.retain(|batch| batch.num_rows() > 0);
        }
        let mut options = self.options().threads(threads);
        if let Rows::Table(_, _, known) = &self.rows {
            options.known.clone_from(known);
        }
        let events = ingest_chunks(&batches, declared, unit, &options);
        events.map_err(|error| self.error(&error, batches.first()))
    }

    /// The exception of rows that cannot be read, with times as their column writes them.
    fn error(&self, error: &DataError, rows: Option<&RecordBatch>) -> PyErr {
        let column = self.time.names().last().copied().unwrap_or_default();
        let column = rows.and_then(|rows| rows.column_by_name(column));
        ingress_error(error, |ticks, unit| {
            let stamps = match (column.map(Array::data_type), unit_to_arrow(unit)) {
                (Some(DataType::Timestamp(_, zone)), Some(unit)) => {
                    DataType::Timestamp(unit, zone.clone())
                }
                _ => DataType::Int64,
            };
            let ticks: ArrayRef = Arc::new(Int64Array::from(vec![ticks]));
            let text = array_value_to_string(&retyped(&ticks, stamps), 0);
            text.unwrap_or_else(|error| error.to_string())
        })
    }

    /// No events, with the columns that the rows have; `None` if those are not known before there are rows.
    pub(crate) fn nothing(
        &self,
        declared: &ir::Input,
        unit: Unit,
    ) -> PyResult<Option<SnapshotBuffer>> {
        let schema = match &self.rows {
            Rows::Table(schema, ..) => Arc::clone(schema),
            Rows::Scan(scan) => scan.schema().map_err(|error| io_error(&error))?,
            Rows::Parts(_) => return Ok(None),
        };
        let batch = self.prepared(&RecordBatch::new_empty(schema), declared, 0)?;
        let events = ingest(&batch, declared, unit, &self.options());
        events.map(Some).map_err(|error| data_error(&error))
    }

    /// The events as rows are read, at most `rows` at a time. Rows that are to be sorted come all at once. `read` counts them.
    pub(crate) fn chunks(
        &self,
        declared: &ir::Input,
        unit: Unit,
        rows: usize,
        read: Arc<AtomicUsize>,
    ) -> PyResult<Chunks> {
        let (this, declared) = (self.clone(), declared.clone());
        if self.sort {
            let all = move || {
                let events = this.read(&declared, unit, 1)?;
                read.fetch_add(events.len(), Ordering::Relaxed);
                Ok(events)
            };
            return Ok(Box::new(std::iter::once_with(all)));
        }
        let options = self.options();
        let mut before = 0;
        let chunks = self.batches(&declared, Some(rows))?.map(move |batch| {
            let batch = this.prepared(&batch?, &declared, before)?;
            let events = ingest(&batch, &declared, unit, &options);
            let events = events.map_err(|error| this.error(&error.after(before), Some(&batch)))?;
            before += batch.num_rows();
            read.fetch_add(batch.num_rows(), Ordering::Relaxed);
            Ok(events)
        });
        Ok(Box::new(chunks))
    }

    /// The columns that an input reads, by the types that the rows have.
    pub(crate) fn columns(&self, declared: &ir::Input) -> Columns {
        let empty = Schema::empty();
        let schema = match &self.rows {
            Rows::Table(schema, ..) => schema.as_ref(),
            Rows::Scan(_) | Rows::Parts(_) => &empty,
        };
        let mut names: Vec<&str> = match (&declared.dtype, &self.value) {
            (DType::Record(fields), _) => fields.iter().map(|f| f.name.as_str()).collect(),
            (_, Some(value)) => vec![value],
            _ => vec![&declared.name],
        };
        // What comes from tables is not in the rows, but what it is found by is.
        names.retain(|name| !self.lookups.iter().any(|(_, side)| side.adds(name)));
        for (on, _) in &self.lookups {
            if !names.contains(&on.as_str()) {
                names.push(on);
            }
        }
        Columns::new(schema, &self.time.names(), &names, declared.unit)
    }

    pub(crate) fn options(&self) -> IngressOptions {
        let mut options = self.time.options();
        options.value.clone_from(&self.value);
        options.sort = self.sort;
        options.closed_left = self.closed_left;
        options
    }

    /// The rows in at least one batch: at most `rows` at a time, or as they come.
    fn batches(&self, declared: &ir::Input, rows: Option<usize>) -> PyResult<Batches> {
        match &self.rows {
            Rows::Table(schema, batches, _) => {
                let empty = RecordBatch::new_empty(Arc::clone(schema));
                let rows = rows.unwrap_or(usize::MAX);
                let slices = batches.clone().into_iter().flat_map(move |batch| {
                    let starts = (0..batch.num_rows()).step_by(rows);
                    starts.map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
                });
                Ok(Box::new(std::iter::once(empty).chain(slices).map(Ok)))
            }
            Rows::Scan(scan) => {
                let scan = match rows {
                    Some(rows) => scan.clone().batch_rows(rows),
                    None => scan.clone(),
                };
                let batches = self.scan(scan, declared);
                let batches = batches.map_err(|error| io_error(&error))?;
                let empty = RecordBatch::new_empty(Arc::clone(batches.schema()));
                let batches = std::iter::once(Ok(empty)).chain(batches);
                Ok(Box::new(
                    batches.map(|batch| batch.map_err(|error| io_error(&error))),
                ))
            }
            Rows::Parts(parts) => {
                let parts = parts.lock().unwrap_or_else(PoisonError::into_inner).take();
                parts.ok_or_else(|| internal("the parts of a result were read twice"))
            }
        }
    }

    /// The rows of a scan: only the columns that the query reads.
    fn scan(&self, scan: tilt_io::Scan, declared: &ir::Input) -> tilt_io::Result<tilt_io::Batches> {
        let mut columns: Vec<String> = self.time.names().into_iter().map(str::to_owned).collect();
        match (&declared.dtype, &self.value) {
            (DType::Record(fields), _) => columns.extend(fields.iter().map(|f| f.name.clone())),
            (_, Some(value)) => columns.push(value.clone()),
            _ => columns.push(declared.name.clone()),
        }
        let known = scan.schema()?;
        let has = |name: &str| known.column_with_name(name).is_some();
        if known.fields().len() == self.time.names().len() {
            return scan.batches();
        }
        // What comes from tables is not in the files, but what it is found by is.
        columns.retain(|name| has(name) || !self.lookups.iter().any(|(_, side)| side.adds(name)));
        for (on, _) in &self.lookups {
            if has(on) && !columns.contains(on) {
                columns.push(on.clone());
            }
        }
        // What is missing is reported by ingress, with the columns that there are.
        if columns.iter().all(|name| has(name)) {
            return scan.columns(columns).batches();
        }
        scan.batches()
    }

    /// A batch, which follows `before` rows, with all columns that the query reads.
    pub(crate) fn prepared(
        &self,
        batch: &RecordBatch,
        declared: &ir::Input,
        before: usize,
    ) -> PyResult<RecordBatch> {
        let mut batch = batch.clone();
        for (on, side) in &self.lookups {
            batch = side.beside(&batch, on)?;
        }
        if let Some(tz) = &self.tz {
            for name in self.time.names() {
                batch = zoned(batch, name, declared.unit, tz, before)?;
            }
        }
        let is_column = |field: &Field| !self.time.names().contains(&field.name().as_str());
        let has_columns = batch
            .schema_ref()
            .fields()
            .iter()
            .any(|field| is_column(field));
        // Of others, rows that have only times lack columns, which ingress reports with those that were given.
        let are_events = match &declared.dtype {
            DType::Record(fields) => fields.iter().all(|field| field.name == ONLY_TIMES),
            _ => true,
        };
        if !has_columns && are_events {
            let happens = BooleanArray::from(vec![true; batch.num_rows()]);
            let field = Field::new(ONLY_TIMES, DataType::Boolean, false);
            batch = appended(&batch, field, Arc::new(happens))?;
        }
        Ok(batch)
    }
}

/// Gives a column of times a time zone. Integers count `unit` from the epoch in UTC, timestamps without a zone are wall times there, others keep
/// their instants.
fn zoned(
    batch: RecordBatch,
    name: &str,
    unit: Unit,
    tz: &Arc<str>,
    before: usize,
) -> PyResult<RecordBatch> {
    let Some((index, field)) = batch.schema_ref().fields().find(name) else {
        return Ok(batch);
    };
    let column = batch.column(index);
    let stamps = |unit: TimeUnit| DataType::Timestamp(unit, Some(Arc::clone(tz)));
    let column = match (field.data_type(), unit_to_arrow(unit)) {
        (DataType::Int64, Some(unit)) => retyped(column, stamps(unit)),
        (DataType::Timestamp(unit, Some(_)), _) => retyped(column, stamps(*unit)),
        (DataType::Timestamp(unit, None), _) => local(column, stamps(*unit), name, before)?,
        _ => return Ok(batch),
    };
    with_column(&batch, index, &column)
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

fn appended(batch: &RecordBatch, field: Field, column: ArrayRef) -> PyResult<RecordBatch> {
    let mut fields = batch.schema_ref().fields().to_vec();
    let mut columns = batch.columns().to_vec();
    fields.push(Arc::new(field));
    columns.push(column);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| schema_error(&error, None, None))
}
