//! Rows joined with a table that does not change with time.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::{concat::concat_batches, take::take};
use pyo3::prelude::*;

use crate::{errors::schema_error, guard::guarded, table::Table};

/// A table by its key, to put columns beside rows.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Lookup(pub(crate) Arc<Side>);

/// The table, and where each key is.
pub(crate) struct Side {
    table: RecordBatch,
    key: usize,
    rows: Places,
}

#[pymethods]
impl Lookup {
    /// The rows of `table`, each of which has a `key` of its own.
    #[new]
    fn new(py: Python<'_>, table: &Table, key: &str) -> PyResult<Self> {
        let (index, field) = table.find(key)?;
        let of_integers = is_integer(value_type(field.data_type()));
        let side = guarded(py, || {
            let table = concat_batches(&table.schema, &table.batches)?;
            let rows = Keys::new(table.column(index), of_integers)?.places();
            Ok::<_, ArrowError>((table, rows))
        })?;
        let (table, rows) = side.map_err(|error| schema_error(&error, Some(key), None))?;
        let rows = rows.map_err(|twice| {
            let message = format!(
                "column `{key}` of the table has {twice} in more than one row; keep one row for each key"
            );
            schema_error(&message, Some(key), None)
        })?;
        Ok(Self(Arc::new(Side {
            table,
            key: index,
            rows,
        })))
    }

    /// The rows with the columns of the table beside them: those of its row whose key is what the row has in column `on`, nulls where there is none.
    fn beside(&self, py: Python<'_>, rows: &Table, on: &str) -> PyResult<Table> {
        rows.find(on)?;
        guarded(py, || {
            let empty = RecordBatch::new_empty(Arc::clone(&rows.schema));
            let schema = self.0.beside(&empty, on)?.schema();
            let batches = rows.batches.iter().map(|batch| self.0.beside(batch, on));
            Ok(rows.derived(schema, batches.collect::<PyResult<_>>()?))
        })?
    }
}

impl Side {
    /// Whether rows get a column of this name.
    pub(crate) fn adds(&self, name: &str) -> bool {
        let found = self.table.schema_ref().column_with_name(name);
        found.is_some_and(|(index, _)| index != self.key)
    }

    /// A batch with the columns of the table beside its own; a batch without column `on` as it is.
    pub(crate) fn beside(&self, batch: &RecordBatch, on: &str) -> PyResult<RecordBatch> {
        let Some(wanted) = batch.column_by_name(on) else {
            return Ok(batch.clone());
        };
        let joined = || -> Result<RecordBatch, ArrowError> {
            let places = UInt32Array::from(self.rows.of(wanted)?);
            let mut fields = batch.schema().fields().to_vec();
            let mut columns = batch.columns().to_vec();
            for index in (0..self.table.num_columns()).filter(|index| *index != self.key) {
                let field = self.table.schema_ref().field(index).clone();
                fields.push(Arc::new(field.with_nullable(true)));
                columns.push(take(self.table.column(index), &places, None)?);
            }
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        };
        joined().map_err(|error| schema_error(&error, Some(on), None))
    }
}

fn is_integer(dtype: &DataType) -> bool {
    dtype.is_integer() && *dtype != DataType::UInt64
}

fn value_type(dtype: &DataType) -> &DataType {
    match dtype {
        DataType::Dictionary(_, value) => value,
        dtype => dtype,
    }
}

/// A column of keys in a form that can be compared: integers, or anything else as text.
enum Keys {
    Integers(Int64Array),
    Texts(StringArray),
}

/// The row of each key.
enum Places {
    Integers(HashMap<i64, u32>),
    Texts(HashMap<String, u32>),
}

impl Keys {
    fn new(column: &ArrayRef, of_integers: bool) -> Result<Self, ArrowError> {
        Ok(if of_integers {
            let column = cast(column, &DataType::Int64)?;
            Self::Integers(column.as_primitive().clone())
        } else {
            let column = cast(column, &DataType::Utf8)?;
            Self::Texts(column.as_string().clone())
        })
    }

    /// The row of each key, or a key that has two.
    fn places(&self) -> Result<Places, String> {
        match self {
            Self::Integers(column) => numbered(column.iter())
                .map(Places::Integers)
                .map_err(|twice| twice.to_string()),
            Self::Texts(column) => numbered(column.iter().map(|key| key.map(str::to_owned)))
                .map(Places::Texts)
                .map_err(|twice| format!("{twice:?}")),
        }
    }
}

fn numbered<K: Hash + Eq + Clone>(
    keys: impl Iterator<Item = Option<K>>,
) -> Result<HashMap<K, u32>, K> {
    let mut found = HashMap::with_capacity(keys.size_hint().0);
    for (key, row) in keys.zip(0u32..) {
        let Some(key) = key else { continue };
        if found.insert(key.clone(), row).is_some() {
            return Err(key);
        }
    }
    Ok(found)
}

impl Places {
    /// Where the key of each row is found.
    fn of(&self, wanted: &ArrayRef) -> Result<Vec<Option<u32>>, ArrowError> {
        let is_integer = is_integer(value_type(wanted.data_type()));
        Ok(match (self, Keys::new(wanted, is_integer)?) {
            (Self::Integers(rows), Keys::Integers(keys)) => {
                keys.iter().map(|key| rows.get(&key?).copied()).collect()
            }
            (Self::Texts(rows), Keys::Texts(keys)) => {
                keys.iter().map(|key| rows.get(key?).copied()).collect()
            }
            // An integer is found by its digits among texts, and the other way round.
            (Self::Texts(rows), Keys::Integers(keys)) => keys
                .iter()
                .map(|key| rows.get(&key?.to_string()).copied())
                .collect(),
            (Self::Integers(rows), Keys::Texts(keys)) => {
                let row = |key: &str| {
                    let number = key.parse::<i64>().ok()?;
                    (number.to_string() == key).then(|| rows.get(&number).copied())?
                };
                keys.iter().map(|key| row(key?)).collect()
            }
        })
    }
}
