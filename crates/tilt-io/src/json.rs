//! JSON lines: an object a line. Types are inferred from the first lines; strings that are all times become times.
//! Columns are ordered by name.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use arrow_array::cast::AsArray;
use arrow_json::{ReaderBuilder, reader::infer_json_schema};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::{
    csv::SAMPLE_ROWS,
    error::{IoError, Result},
    scan::{FileBatches, Wanted},
    text,
};

/// The columns of a file and the types that its first lines fit.
pub(crate) fn schema(path: &Path) -> Result<SchemaRef> {
    // Whether it can be opened at all is another matter than what is in it.
    drop(open(path)?);
    infer(|| Ok(BufReader::new(File::open(path)?))).map_err(IoError::content(path))
}

/// The columns of lines and the types that the first of them fit. They are opened twice.
pub(crate) fn infer<R: BufRead>(
    open: impl Fn() -> Result<R, ArrowError>,
) -> Result<SchemaRef, ArrowError> {
    let (inferred, _) = infer_json_schema(open()?, Some(SAMPLE_ROWS))?;
    let inferred = Arc::new(inferred);
    let sample = ReaderBuilder::new(Arc::clone(&inferred))
        .with_batch_size(SAMPLE_ROWS)
        .build(open()?)?
        .next()
        .transpose()?;
    let fields = inferred.fields().iter().enumerate().map(|(i, field)| {
        let data_type = match (field.data_type(), &sample) {
            (DataType::Null, _) => DataType::Utf8,
            (DataType::Utf8, Some(sample)) => {
                let mut texts = sample.column(i).as_string::<i32>().iter().flatten();
                let first = texts.next().and_then(text::temporal);
                let all = first.and_then(|first| {
                    texts.try_fold(first, |all, text| text::common(all, &text::temporal(text)?))
                });
                all.unwrap_or(DataType::Utf8)
            }
            (other, _) => other.clone(),
        };
        Field::new(field.name(), data_type, true)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The rows of a file, parsed to the types wanted.
pub(crate) fn read(path: &Path, wanted: &Wanted) -> Result<FileBatches> {
    let reader = ReaderBuilder::new(Arc::clone(&wanted.schema))
        .with_batch_size(wanted.batch_rows)
        .build(open(path)?)
        .map_err(IoError::content(path))?;
    let path = path.to_owned();
    Ok(Box::new(reader.map(move |batch| {
        batch.map_err(|error: ArrowError| IoError::Content {
            path: path.clone(),
            reason: format!(
                "{error}; types were inferred from the first {SAMPLE_ROWS} lines: correct the line, or write the file as Parquet"
            ),
        })
    })))
}

fn open(path: &Path) -> Result<BufReader<File>> {
    Ok(BufReader::new(
        File::open(path).map_err(IoError::file(path))?,
    ))
}
