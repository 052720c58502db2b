//! Scans: files of one format as one sequence of batches.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};

use crate::{
    csv,
    error::{IoError, Result},
    format::Format,
    ipc, json, parquet, paths,
    times::{Tick, TimeRange, Times},
};

/// Rows of a batch unless asked otherwise: about 1 MiB for two columns.
const BATCH_ROWS: usize = 1 << 16;

/// Files to read. Nothing but names and schemas is read before [`batches`](Self::batches).
#[derive(Clone, Debug)]
pub struct Scan {
    files: Vec<PathBuf>,
    format: Format,
    columns: Option<Vec<String>>,
    time: Option<String>,
    range: Option<TimeRange>,
    batch_rows: usize,
}

/// The batches of one file.
pub(crate) type FileBatches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What is wanted of one file.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The columns of the result, with the types that text is parsed to.
    pub(crate) schema: SchemaRef,
    /// The column of times and what it must meet, for formats that can tell before they decode.
    pub(crate) time: Option<(String, TimeRange)>,
    pub(crate) batch_rows: usize,
}

impl Wanted {
    /// Where the wanted columns are among those of a file.
    pub(crate) fn projection(&self, file: &Schema) -> Vec<usize> {
        let named = |index: &usize| self.schema.column_with_name(file.field(*index).name());
        (0..file.fields().len())
            .filter(|index| named(index).is_some())
            .collect()
    }
}

impl Scan {
    /// The files that `patterns` name; without a format the ending of the first name tells it.
    ///
    /// # Errors
    /// When no file matches, or the format is not known.
    pub fn open(patterns: &[impl AsRef<str>], format: Option<Format>) -> Result<Self> {
        let files = paths::expand(patterns)?;
        let format = format.map_or_else(|| Format::of(&files[0]), Ok)?;
        Ok(Self {
            files,
            format,
            columns: None,
            time: None,
            range: None,
            batch_rows: BATCH_ROWS,
        })
    }

    /// Only these columns, in this order.
    #[must_use]
    pub fn columns(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The column of times, by which several files are put in order.
    #[must_use]
    pub fn time(mut self, column: impl Into<String>) -> Self {
        self.time = Some(column.into());
        self
    }

    /// Only rows in a range of time.
    #[must_use]
    pub fn range(mut self, range: TimeRange) -> Self {
        self.range = Some(range);
        self
    }

    /// At most so many rows a batch.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// The files, in order of their names.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Their format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The columns that batches will have, found without reading rows beyond the first.
    ///
    /// # Errors
    /// When the first file cannot be opened or does not have a column asked for.
    pub fn schema(&self) -> Result<SchemaRef> {
        self.project(&self.files[0], &self.file_schema(&self.files[0])?)
    }

    /// How many rows all files have, if they say so themselves. A range is not taken into account.
    ///
    /// # Errors
    /// When a file cannot be opened.
    pub fn rows(&self) -> Result<Option<usize>> {
        if self.format != Format::Parquet {
            return Ok(None);
        }
        let rows = self.files.iter().map(|path| parquet::rows(path));
        rows.sum::<Result<usize>>().map(Some)
    }

    /// The rows, file after file in order of their first times.
    ///
    /// # Errors
    /// When a file cannot be opened or differs from the first one in a column asked for.
    pub fn batches(&self) -> Result<Batches> {
        if self.range.is_some() && self.time.is_none() {
            return Err(IoError::NoTimeColumn);
        }
        let schema = self.schema()?;
        // The column of times is read even if it is not asked for.
        let mut fields = schema.fields().to_vec();
        let first = self.file_schema(&self.files[0])?;
        if let Some(time) = self.time.as_ref().filter(|_| self.is_timed())
            && schema.column_with_name(time).is_none()
        {
            fields.push(find(&self.files[0], &first, time)?.clone());
        }
        let wanted = Wanted {
            schema: Arc::new(Schema::new(fields)),
            time: self.time.clone().zip(self.range),
            batch_rows: self.batch_rows,
        };
        for path in &self.files[1..] {
            self.check_like_first(path, &wanted.schema)?;
        }
        Ok(Batches {
            files: self.in_time_order(&wanted)?.into_iter(),
            current: None,
            format: self.format,
            wanted,
            schema,
        })
    }

    /// Whether rows are looked at by time.
    fn is_timed(&self) -> bool {
        self.range.is_some() || self.files.len() > 1
    }

    fn in_time_order(&self, wanted: &Wanted) -> Result<Vec<PathBuf>> {
        let mut files = self.files.clone();
        let Some(time) = self.time.as_ref().filter(|_| files.len() > 1) else {
            return Ok(files);
        };
        let mut timed = Vec::with_capacity(files.len());
        for path in files.drain(..) {
            let first = first_time(self.format, &path, time, wanted)?;
            timed.push((first.map(Tick::order), path));
        }
        // Stable: files that begin together stay in order of their names.
        timed.sort_by_key(|(first, _)| *first);
        Ok(timed.into_iter().map(|(_, path)| path).collect())
    }

    fn project(&self, path: &Path, schema: &SchemaRef) -> Result<SchemaRef> {
        let Some(columns) = &self.columns else {
            return Ok(Arc::clone(schema));
        };
        let fields = columns.iter().map(|name| find(path, schema, name).cloned());
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }

    fn file_schema(&self, path: &Path) -> Result<SchemaRef> {
        match self.format {
            Format::Parquet => parquet::schema(path),
            Format::Csv => csv::schema(path),
            Format::Ipc => ipc::schema(path),
            Format::IpcStream => ipc::stream_schema(path),
            Format::JsonLines => json::schema(path),
        }
    }

    /// Text has the types of the first file, so that only names can differ.
    fn check_like_first(&self, path: &Path, wanted: &Schema) -> Result<()> {
        let schema = self.file_schema(path)?;
        let typed = !matches!(self.format, Format::Csv | Format::JsonLines);
        for expected in wanted.fields() {
            let name = expected.name();
            // A line of JSON may leave out what is null.
            if self.format == Format::JsonLines && schema.column_with_name(name).is_none() {
                continue;
            }
            let field = find(path, &schema, name)?;
            if typed && field.data_type() != expected.data_type() {
                return Err(IoError::Differs {
                    path: path.to_owned(),
                    column: name.clone(),
                    found: field.data_type().clone(),
                    expected: expected.data_type().clone(),
                    first: self.files[0].clone(),
                });
            }
        }
        Ok(())
    }
}

/// The batches of a [`Scan`].
pub struct Batches {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<(PathBuf, FileBatches)>,
    format: Format,
    wanted: Wanted,
    schema: SchemaRef,
}

impl Batches {
    /// The columns of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns asked for, of the rows asked for.
    fn finish(&self, path: &Path, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut batch = batch.clone();
        if let Some((column, range)) = &self.wanted.time {
            let times = times(path, &batch, column)?;
            batch = range
                .select(&batch, &times)
                .map_err(IoError::content(path))?;
        }
        let columns = self.schema.fields().iter().map(|field| {
            let found = batch.column_by_name(field.name());
            found
                .cloned()
                .ok_or_else(|| missing(path, &batch.schema(), field.name()))
        });
        RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns.collect::<Result<Vec<ArrayRef>>>()?,
            &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        )
        .map_err(IoError::content(path))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.current.is_none() {
                let path = self.files.next()?;
                match open(self.format, &path, &self.wanted) {
                    Ok(batches) => self.current = Some((path, batches)),
                    Err(error) => return Some(Err(error)),
                }
            }
            let (path, batches) = self.current.as_mut()?;
            match batches.next() {
                None => self.current = None,
                Some(Ok(batch)) => {
                    let path = path.clone();
                    let batch = self.finish(&path, &batch);
                    if !matches!(&batch, Ok(rows) if rows.num_rows() == 0) {
                        return Some(batch);
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
            }
        }
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

fn open(format: Format, path: &Path, wanted: &Wanted) -> Result<FileBatches> {
    match format {
        Format::Parquet => parquet::read(path, wanted),
        Format::Csv => csv::read(path, wanted),
        Format::Ipc => ipc::read(path, wanted),
        Format::IpcStream => ipc::read_stream(path, wanted),
        Format::JsonLines => json::read(path, wanted),
    }
}

/// The first time of a file: by statistics, or else that of its first row.
fn first_time(format: Format, path: &Path, time: &str, wanted: &Wanted) -> Result<Option<Tick>> {
    if format == Format::Parquet
        && let Some(first) = parquet::first_time(path, time)?
    {
        return Ok(Some(first));
    }
    let wanted = Wanted {
        time: None,
        batch_rows: 1,
        ..wanted.clone()
    };
    match open(format, path, &wanted)?.next() {
        Some(batch) => Ok(times(path, &batch?, time)?.get(0)),
        None => Ok(None),
    }
}

fn times(path: &Path, batch: &RecordBatch, column: &str) -> Result<Times> {
    let array = batch.column_by_name(column);
    let array = array.ok_or_else(|| missing(path, &batch.schema(), column))?;
    Times::of(array).ok_or_else(|| IoError::TimeType {
        path: path.to_owned(),
        column: column.to_owned(),
        found: array.data_type().clone(),
    })
}

fn find<'s>(path: &Path, schema: &'s Schema, column: &str) -> Result<&'s arrow_schema::FieldRef> {
    let found = schema.fields().find(column).map(|(_, field)| field);
    found.ok_or_else(|| missing(path, schema, column))
}

fn missing(path: &Path, schema: &Schema, column: &str) -> IoError {
    IoError::MissingColumn {
        path: path.to_owned(),
        column: column.to_owned(),
        columns: schema.fields().iter().map(|f| f.name().clone()).collect(),
    }
}
