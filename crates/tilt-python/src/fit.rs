//! Rows that arrive, made to have the types that earlier rows had, or that were declared.
//!
//! A row of Python says less about its types than a table does: 3 may be a price. What can be converted without a loss is; all else is left as it is, for ingress to refuse by name.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use tilt::{
    data::dtype::{from_arrow, unit_from_arrow, unit_to_arrow},
    ir::Unit,
};

use crate::errors::schema_error;

/// The columns that an input reads, with the types that rows have to have.
pub(crate) struct Columns {
    pub(crate) schema: SchemaRef,
    /// How many of them are times: they come first.
    pub(crate) times: usize,
    /// What integers in a column of times count.
    unit: Unit,
    /// Whether rows have come: until then a type of the same kind will do.
    pub(crate) is_settled: bool,
}

impl Columns {
    /// The columns `times` and `names` as `schema` declares them; those that it does not have are left out.
    pub(crate) fn new(schema: &Schema, times: &[&str], names: &[&str], unit: Unit) -> Self {
        let find = |name: &&str| schema.fields().find(name).map(|(_, f)| nullable(f));
        let mut fields: Vec<FieldRef> = times.iter().filter_map(find).collect();
        let times = fields.len();
        fields.extend(names.iter().filter_map(find));
        Self {
            schema: Arc::new(Schema::new(fields)),
            times,
            unit,
            is_settled: false,
        }
    }

    /// The batch with columns of the types that are wanted, where that loses nothing.
    pub(crate) fn fitted(&self, batch: RecordBatch) -> PyResult<RecordBatch> {
        let schema = batch.schema();
        if Arc::ptr_eq(&schema, &self.schema) {
            return Ok(batch);
        }
        let mut changed: Option<(Vec<FieldRef>, Vec<ArrayRef>)> = None;
        for (number, wanted) in self.schema.fields().iter().enumerate() {
            let Some((index, found)) = schema.fields().find(wanted.name()) else {
                continue;
            };
            let is_time = number < self.times;
            if found.data_type() == wanted.data_type()
                || (!self.is_settled && will_do(found, wanted, is_time))
            {
                continue;
            }
            let column = batch.column(index);
            let Some(column) = self.converted(column, wanted, is_time)? else {
                continue;
            };
            let (fields, columns) =
                changed.get_or_insert_with(|| (schema.fields().to_vec(), batch.columns().to_vec()));
            let field = Field::new(wanted.name(), column.data_type().clone(), true);
            fields[index] = Arc::new(field);
            columns[index] = column;
        }
        match changed {
            None => Ok(batch),
            Some((fields, columns)) => RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
                .map_err(|error| schema_error(&error, None, None)),
        }
    }

    /// From now on rows have the types that these columns have.
    pub(crate) fn settle(&mut self, schema: &SchemaRef) {
        if self.is_settled {
            return;
        }
        self.is_settled = true;
        if Arc::ptr_eq(&self.schema, schema) {
            return;
        }
        let fields = self.schema.fields().iter().map(|field| {
            let found = schema.fields().find(field.name());
            found.map_or_else(|| Arc::clone(field), |(_, found)| nullable(found))
        });
        self.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    }

    /// A column in the type of another one; `None` if there is no way that loses nothing.
    fn converted(
        &self,
        column: &ArrayRef,
        wanted: &Field,
        is_time: bool,
    ) -> PyResult<Option<ArrayRef>> {
        use DataType::{Duration, Timestamp};
        let (name, found, to) = (wanted.name(), column.data_type(), wanted.data_type());
        let is_empty = column.null_count() == column.len();
        Ok(match (found, to) {
            _ if is_empty => cast(name, column, to).ok(),
            (Timestamp(_, zone), Timestamp(_, expected))
                if zone.is_some() != expected.is_some() =>
            {
                return Err(zones(name, zone.as_deref(), expected.as_deref()));
            }
            (Timestamp(from, _), Timestamp(unit, _)) => {
                let ticks = retyped(column, DataType::Int64);
                let ticks = exactly(name, &ticks, *from, *unit)?;
                Some(retyped(&ticks, to.clone()))
            }
            (Duration(from), Duration(unit)) => {
                let ticks = retyped(column, DataType::Int64);
                let ticks = exactly(name, &ticks, *from, *unit)?;
                Some(retyped(&ticks, to.clone()))
            }
            // Instants where integers that count a unit are wanted.
            (Timestamp(from, None), DataType::Int64) if is_time => match unit_to_arrow(self.unit) {
                Some(unit) => {
                    let ticks = retyped(column, DataType::Int64);
                    Some(exactly(name, &ticks, *from, unit)?)
                }
                None => None,
            },
            (found, Timestamp(..)) if found.is_integer() => {
                let ticks = cast(name, column, &DataType::Int64)?;
                Some(retyped(&ticks, to.clone()))
            }
            (DataType::Date32 | DataType::Date64, Timestamp(..)) => Some(cast(name, column, to)?),
            (found, Timestamp(..)) if is_text(found) => Some(cast(name, column, to)?),
            (found, to) if is_text(found) && is_text(to) => Some(cast(name, column, to)?),
            (found, to) if found.is_integer() && (to.is_integer() || to.is_floating()) => {
                Some(cast(name, column, to)?)
            }
            (found, to) if found.is_floating() && to.is_floating() => Some(cast(name, column, to)?),
            _ => None,
        })
    }
}

/// What is null is refused by ingress, with row and column, where it may not be.
fn nullable(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), field.data_type().clone(), true))
}

/// Whether rows may have this type although another of the same kind was declared.
fn will_do(found: &Field, declared: &Field, is_time: bool) -> bool {
    use DataType::{Int32, Int64, Timestamp};
    match (found.data_type(), declared.data_type()) {
        // A declaration may leave out the time zone, and the unit of times is read with them.
        (Timestamp(_, zone), Timestamp(_, declared)) if is_time => {
            zone.is_some() || declared.is_none()
        }
        (Int32 | Int64, Int32 | Int64) if is_time => true,
        (found, declared) => !is_time && from_arrow(found) == from_arrow(declared),
    }
}

fn is_text(dtype: &DataType) -> bool {
    from_arrow(dtype) == Some(tilt::ir::DType::Utf8)
}

fn cast(name: &str, column: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(column, to, &options).map_err(|error| {
        let message = format!("column `{name}`: {error}");
        schema_error(&message, Some(name), None)
    })
}

/// The same numbers as another type of 64 bits.
pub(crate) fn retyped(column: &ArrayRef, data_type: DataType) -> ArrayRef {
    let data = column.to_data().into_builder().data_type(data_type);
    make_array(data.build().expect("both types have 64 bits"))
}

/// Ticks of another unit, if that can say the same.
fn exactly(name: &str, ticks: &ArrayRef, from: TimeUnit, to: TimeUnit) -> PyResult<ArrayRef> {
    let stamps = |unit: TimeUnit| DataType::Timestamp(unit, None);
    let there = cast(name, &retyped(ticks, stamps(from)), &stamps(to))?;
    let back = cast(name, &there, &stamps(from))?;
    if retyped(&back, DataType::Int64).to_data() != ticks.to_data() {
        let unit = unit_from_arrow(to);
        let message = format!(
            "column `{name}` has times that are no whole number of {unit}; round them, or declare a finer unit"
        );
        return Err(schema_error(&message, Some(name), None));
    }
    Ok(retyped(&there, DataType::Int64))
}

fn zones(name: &str, found: Option<&str>, expected: Option<&str>) -> PyErr {
    let message = match (found, expected) {
        (None, Some(zone)) => format!(
            "column `{name}` has times without a time zone, but {zone} is its zone; give aware times, or say where they are read: tz={zone:?}"
        ),
        (zone, _) => format!(
            "column `{name}` has times in the time zone {}, but those before had none; give all times with a zone, or all without",
            zone.unwrap_or_default()
        ),
    };
    schema_error(&message, Some(name), None)
}
