//! Comma-separated values with a header. Types are inferred from the first rows.

use std::{fs::File, path::Path, sync::Arc};

use arrow_array::{RecordBatch, cast::AsArray};
use arrow_csv::{ReaderBuilder, reader::Format};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::{
    error::{IoError, Result},
    scan::{FileBatches, Wanted},
    text,
};

/// Rows that tell the types.
pub(crate) const SAMPLE_ROWS: usize = 10_000;

/// The columns of a file and the types that its first rows fit.
pub(crate) fn schema(path: &Path) -> Result<SchemaRef> {
    let file = File::open(path).map_err(IoError::file(path))?;
    let (inferred, _) = format()
        .infer_schema(file, Some(SAMPLE_ROWS))
        .map_err(IoError::content(path))?;
    let zones = zoned(path, &inferred)?;
    let fields = inferred.fields().iter().zip(zones).map(|(field, zoned)| {
        let data_type = match field.data_type() {
            // Nothing but empty cells.
            DataType::Null => DataType::Utf8,
            DataType::Timestamp(unit, _) if zoned => DataType::Timestamp(*unit, Some("UTC".into())),
            other => other.clone(),
        };
        Field::new(field.name(), data_type, true)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The rows of a file, parsed to the types wanted.
pub(crate) fn read(path: &Path, wanted: &Wanted) -> Result<FileBatches> {
    let names = schema(path)?;
    let typed = names.fields().iter().map(|field| {
        let wanted = wanted.schema.field_with_name(field.name()).ok();
        let data_type = wanted.map_or(&DataType::Utf8, Field::data_type);
        Field::new(field.name(), data_type.clone(), true)
    });
    let file = Schema::new(typed.collect::<Vec<_>>());
    let projection = wanted.projection(&file);
    let source = File::open(path).map_err(IoError::file(path))?;
    let reader = ReaderBuilder::new(Arc::new(file))
        .with_format(format())
        .with_batch_size(wanted.batch_rows)
        .with_projection(projection)
        .build(source)
        .map_err(IoError::content(path))?;
    let path = path.to_owned();
    Ok(Box::new(reader.map(move |batch| {
        batch.map_err(|error: ArrowError| IoError::Content {
            path: path.clone(),
            reason: format!(
                "{error}; types were inferred from the first {SAMPLE_ROWS} rows: correct the line, or write the file as Parquet"
            ),
        })
    })))
}

fn format() -> Format {
    Format::default().with_header(true)
}

/// For each column whether its times have an offset from UTC.
fn zoned(path: &Path, inferred: &Schema) -> Result<Vec<bool>> {
    let texts = inferred
        .fields()
        .iter()
        .map(|f| Field::new(f.name(), DataType::Utf8, true));
    let source = File::open(path).map_err(IoError::file(path))?;
    let first: Option<RecordBatch> =
        ReaderBuilder::new(Arc::new(Schema::new(texts.collect::<Vec<_>>())))
            .with_format(format())
            .with_batch_size(100)
            .build(source)
            .map_err(IoError::content(path))?
            .next()
            .transpose()
            .map_err(IoError::content(path))?;
    let has_zone = |column: usize| {
        let Some(batch) = &first else { return false };
        let texts = batch.column(column).as_string::<i32>();
        let mut types = texts.iter().flatten().filter_map(text::temporal);
        types.any(|t| matches!(t, DataType::Timestamp(_, Some(_))))
    };
    Ok((0..inferred.fields().len()).map(has_zone).collect())
}
