//! Rows joined with a table that does not change with time.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, cast::AsArray,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::{concat::concat_batches, take::take};
use pyo3::prelude::*;

use crate::{
    errors::{InternalError, schema_error},
    guard::guarded,
    table::Table,
};

/// The rows with the columns of `side` beside them: those of its row whose `key` is what the row has in column `on`, nulls where there is none.
#[pyfunction]
pub(crate) fn lookup(
    py: Python<'_>,
    rows: &Table,
    on: &str,
    side: &Table,
    key: &str,
) -> PyResult<Table> {
    let (on_index, on_field) = rows.find(on)?;
    let (key_index, key_field) = side.find(key)?;
    let of_integers =
        is_integer(on_field.data_type()) && is_integer(value_type(key_field.data_type()));
    let joined = guarded(py, || {
        let side = concat_batches(&side.schema, &side.batches)?;
        let keys = Keys::new(side.column(key_index), of_integers)?;
        let found = match keys.rows() {
            Ok(found) => found,
            Err(twice) => return Ok(Err(twice)),
        };
        let added: Vec<usize> = (0..side.num_columns())
            .filter(|&index| index != key_index)
            .collect();
        let mut fields = rows.schema.fields().to_vec();
        for &index in &added {
            let field = side.schema_ref().field(index).clone().with_nullable(true);
            fields.push(Arc::new(field));
        }
        let schema = Arc::new(Schema::new(fields));
        let batches = rows.batches.iter().map(|batch| {
            let wanted = Keys::new(batch.column(on_index), of_integers)?;
            let places = UInt32Array::from(wanted.places(&found));
            let mut columns = batch.columns().to_vec();
            for &index in &added {
                columns.push(take(side.column(index), &places, None)?);
            }
            RecordBatch::try_new(Arc::clone(&schema), columns)
        });
        let batches = batches.collect::<Result<Vec<_>, ArrowError>>()?;
        Ok::<_, ArrowError>(Ok(Table::new(schema, batches)))
    })?;
    match joined {
        Ok(Ok(table)) => Ok(table),
        Ok(Err(twice)) => Err(schema_error(
            &format!(
                "column `{key}` of the table has {twice} in more than one row; keep one row for each key"
            ),
            Some(key),
            None,
        )),
        Err(error) => Err(InternalError::new_err(error.to_string())),
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

#[derive(PartialEq, Eq, Hash, Clone, Copy)]
enum Key<'a> {
    Integer(i64),
    Text(&'a str),
}

impl Keys {
    fn new(column: &ArrayRef, of_integers: bool) -> Result<Self, ArrowError> {
        let dtype = if of_integers {
            DataType::Int64
        } else {
            DataType::Utf8
        };
        let column = cast(column, &dtype)?;
        Ok(if of_integers {
            Self::Integers(column.as_primitive().clone())
        } else {
            Self::Texts(column.as_string().clone())
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(column) => column.len(),
            Self::Texts(column) => column.len(),
        }
    }

    fn get(&self, row: usize) -> Option<Key<'_>> {
        match self {
            Self::Integers(column) => column
                .is_valid(row)
                .then(|| Key::Integer(column.value(row))),
            Self::Texts(column) => column.is_valid(row).then(|| Key::Text(column.value(row))),
        }
    }

    /// The row of each key, or a key that has two.
    fn rows(&self) -> Result<HashMap<Key<'_>, u32>, String> {
        let mut found = HashMap::with_capacity(self.len());
        for (row, place) in (0..self.len()).zip(0u32..) {
            let Some(key) = self.get(row) else { continue };
            if found.insert(key, place).is_some() {
                return Err(match key {
                    Key::Integer(key) => key.to_string(),
                    Key::Text(key) => format!("{key:?}"),
                });
            }
        }
        Ok(found)
    }

    /// Where each row's key is found.
    fn places(&self, found: &HashMap<Key<'_>, u32>) -> Vec<Option<u32>> {
        let place = |row| {
            self.get(row)
                .and_then(|key: Key<'_>| found.get(&key).copied())
        };
        (0..self.len()).map(place).collect()
    }
}
