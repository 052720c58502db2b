//! Comma-separated values with a header. Types are inferred from the first rows.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use arrow_array::{RecordBatch, cast::AsArray};
use arrow_csv::{Reader, ReaderBuilder, reader::Format};
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
    // Whether it can be opened at all is another matter than what is in it.
    drop(open(path)?);
    infer(|| Ok(File::open(path)?)).map_err(IoError::content(path))
}

/// The columns that the header names and the types that the first rows fit. They are opened twice.
pub(crate) fn infer<R: Read>(
    open: impl Fn() -> Result<R, ArrowError>,
) -> Result<SchemaRef, ArrowError> {
    let (inferred, _) = format().infer_schema(open()?, Some(SAMPLE_ROWS))?;
    let zones = zoned(open()?, &inferred)?;
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
    let reader = parse(open(path)?, &names, &wanted.schema, wanted.batch_rows)
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

/// Those of the columns `names` that are wanted, parsed to the types wanted.
pub(crate) fn parse<R: Read>(
    source: R,
    names: &Schema,
    wanted: &Schema,
    batch_rows: usize,
) -> Result<Reader<R>, ArrowError> {
    let typed = names.fields().iter().map(|field| {
        let wanted = wanted.field_with_name(field.name()).ok();
        let data_type = wanted.map_or(&DataType::Utf8, Field::data_type);
        Field::new(field.name(), data_type.clone(), true)
    });
    let file = Schema::new(typed.collect::<Vec<_>>());
    let is_wanted = |index: &usize| wanted.column_with_name(file.field(*index).name()).is_some();
    let projection = (0..file.fields().len()).filter(is_wanted).collect();
    ReaderBuilder::new(Arc::new(file))
        .with_format(format())
        .with_batch_size(batch_rows)
        .with_projection(projection)
        .build(source)
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(IoError::file(path))
}

fn format() -> Format {
    Format::default().with_header(true)
}

/// For each column whether its times have an offset from UTC.
fn zoned(source: impl Read, inferred: &Schema) -> Result<Vec<bool>, ArrowError> {
    let texts = inferred
        .fields()
        .iter()
        .map(|f| Field::new(f.name(), DataType::Utf8, true));
    let first: Option<RecordBatch> =
        ReaderBuilder::new(Arc::new(Schema::new(texts.collect::<Vec<_>>())))
            .with_format(format())
            .with_batch_size(100)
            .build(source)?
            .next()
            .transpose()?;
    let has_zone = |column: usize| {
        let Some(batch) = &first else { return false };
        let texts = batch.column(column).as_string::<i32>();
        let mut types = texts.iter().flatten().filter_map(text::temporal);
        types.any(|t| matches!(t, DataType::Timestamp(_, Some(_))))
    };
    Ok((0..inferred.fields().len()).map(has_zone).collect())
}
