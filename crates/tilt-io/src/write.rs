//! Writing: a file appears under its name when it is complete.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_array::RecordBatch;
use arrow_ipc::{
    CompressionType,
    writer::{FileWriter, IpcWriteOptions, StreamWriter},
};
use arrow_json::LineDelimitedWriter;
use arrow_schema::Schema;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression as ParquetCompression, GzipLevel, ZstdLevel},
    file::properties::WriterProperties,
};

use crate::{
    error::{IoError, Result},
    format::Format,
};

/// How to write a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOptions {
    /// By default what the ending of the name says.
    pub format: Option<Format>,
    /// By default zstd for Parquet and none for others.
    pub compression: Option<Compression>,
    /// Rows of a row group (Parquet); by default about a million.
    pub row_group_rows: Option<usize>,
}

/// How the content is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// Fast, everybody reads it. Parquet only.
    Snappy,
    /// Small and fast.
    Zstd,
    /// The fastest to read.
    Lz4,
    /// Small and slow. Parquet only.
    Gzip,
}

impl Compression {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Snappy, Self::Zstd, Self::Lz4, Self::Gzip];

    /// The compression of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }

    /// `none`, `snappy`, `zstd`, `lz4` or `gzip`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Gzip => "gzip",
        }
    }
}

/// A file being written. It has another name until [`finish`](Self::finish); dropped before that, it is removed and an older file of the name stays.
pub struct Writer {
    path: PathBuf,
    temporary: Temporary,
    sink: Sink,
}

enum Sink {
    Parquet(Box<ArrowWriter<File>>),
    Csv(Box<arrow_csv::Writer<BufWriter<File>>>),
    Ipc(Box<FileWriter<BufWriter<File>>>),
    IpcStream(Box<StreamWriter<BufWriter<File>>>),
    JsonLines(Box<LineDelimitedWriter<BufWriter<File>>>),
}

impl Writer {
    /// Begins a file of rows with these columns.
    ///
    /// # Errors
    /// When the file cannot be made, or the options do not fit its format.
    pub fn create(path: &Path, schema: &Schema, options: &WriteOptions) -> Result<Self> {
        let format = options.format.map_or_else(|| Format::of(path), Ok)?;
        let temporary = Temporary::beside(path);
        let file = File::create(&temporary.0).map_err(IoError::file(path))?;
        let sink = Sink::new(format, file, schema, options, path)?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            sink,
        })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// When the format cannot hold them or the disk is full.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let fail = IoError::content(&self.path);
        match &mut self.sink {
            Sink::Parquet(writer) => writer.write(batch).map_err(IoError::content(&self.path)),
            Sink::Csv(writer) => writer.write(batch).map_err(fail),
            Sink::Ipc(writer) => writer.write(batch).map_err(fail),
            Sink::IpcStream(writer) => writer.write(batch).map_err(fail),
            Sink::JsonLines(writer) => writer.write(batch).map_err(fail),
        }
    }

    /// Completes the file and gives it its name, in place of an older one.
    ///
    /// # Errors
    /// When the disk is full or the name cannot be given.
    pub fn finish(self) -> Result<()> {
        let Self {
            path,
            temporary,
            sink,
        } = self;
        let file = sink.finish(&path)?;
        file.sync_all().map_err(IoError::file(&path))?;
        fs::rename(&temporary.0, &path).map_err(IoError::file(&path))
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Sink {
    fn new(
        format: Format,
        file: File,
        schema: &Schema,
        options: &WriteOptions,
        path: &Path,
    ) -> Result<Self> {
        let compression = options.compression;
        let refuse = |compression: Compression| IoError::Compression {
            format: format.name(),
            compression: compression.name(),
        };
        let ipc = || -> Result<IpcWriteOptions> {
            let compression = match compression {
                None | Some(Compression::None) => None,
                Some(Compression::Zstd) => Some(CompressionType::ZSTD),
                Some(Compression::Lz4) => Some(CompressionType::LZ4_FRAME),
                Some(other) => return Err(refuse(other)),
            };
            let options = IpcWriteOptions::default().try_with_compression(compression);
            options.map_err(IoError::content(path))
        };
        let plain = || match compression {
            None | Some(Compression::None) => Ok(()),
            Some(other) => Err(refuse(other)),
        };
        let fail = IoError::content(path);
        Ok(match format {
            Format::Parquet => {
                let compression = match compression.unwrap_or(Compression::Zstd) {
                    Compression::None => ParquetCompression::UNCOMPRESSED,
                    Compression::Snappy => ParquetCompression::SNAPPY,
                    Compression::Zstd => ParquetCompression::ZSTD(ZstdLevel::default()),
                    Compression::Lz4 => ParquetCompression::LZ4_RAW,
                    Compression::Gzip => ParquetCompression::GZIP(GzipLevel::default()),
                };
                let mut properties = WriterProperties::builder().set_compression(compression);
                if let Some(rows) = options.row_group_rows {
                    properties = properties.set_max_row_group_row_count(Some(rows.max(1)));
                }
                let writer =
                    ArrowWriter::try_new(file, schema.clone().into(), Some(properties.build()));
                Self::Parquet(Box::new(writer.map_err(IoError::content(path))?))
            }
            Format::Csv => {
                plain()?;
                let writer = arrow_csv::WriterBuilder::new().with_header(true);
                Self::Csv(Box::new(writer.build(BufWriter::new(file))))
            }
            Format::Ipc => {
                let writer = FileWriter::try_new_with_options(BufWriter::new(file), schema, ipc()?);
                Self::Ipc(Box::new(writer.map_err(fail)?))
            }
            Format::IpcStream => {
                let writer =
                    StreamWriter::try_new_with_options(BufWriter::new(file), schema, ipc()?);
                Self::IpcStream(Box::new(writer.map_err(fail)?))
            }
            Format::JsonLines => {
                plain()?;
                Self::JsonLines(Box::new(LineDelimitedWriter::new(BufWriter::new(file))))
            }
        })
    }

    /// Ends the file's content and gives the file back, nothing left in buffers.
    fn finish(self, path: &Path) -> Result<File> {
        let fail = IoError::content(path);
        let buffered = match self {
            Self::Parquet(writer) => return writer.into_inner().map_err(IoError::content(path)),
            Self::Csv(writer) => writer.into_inner(),
            Self::Ipc(mut writer) => {
                writer.finish().map_err(&fail)?;
                writer.into_inner().map_err(&fail)?
            }
            Self::IpcStream(mut writer) => {
                writer.finish().map_err(&fail)?;
                writer.into_inner().map_err(&fail)?
            }
            Self::JsonLines(mut writer) => {
                writer.finish().map_err(&fail)?;
                writer.into_inner()
            }
        };
        let mut buffered = buffered;
        buffered.flush().map_err(IoError::file(path))?;
        buffered
            .into_inner()
            .map_err(|error| IoError::file(path)(error.into_error()))
    }
}

/// The name of an unfinished file, in the directory of the finished one so that renaming does not copy. Removed with the value.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(path: &Path) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.{unique}.tmp", std::process::id()));
        Self(path.with_file_name(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Gone already once it has its name.
        let _ = fs::remove_file(&self.0);
    }
}
