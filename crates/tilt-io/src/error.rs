//! What can go wrong with files.

use std::path::PathBuf;

use arrow_schema::DataType;

/// The result of this crate's functions.
pub type Result<T, E = IoError> = std::result::Result<T, E>;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A pattern that is none.
    #[error("`{pattern}` is not a pattern of file names: {reason}")]
    Pattern {
        /// As given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A pattern that no file matches, or no pattern at all.
    #[error(
        "no file matches {}; check the path and the working directory",
        if patterns.is_empty() { "an empty list of paths".to_owned() } else { format!("`{}`", patterns.join("`, `")) }
    )]
    NoFiles {
        /// As given.
        patterns: Vec<String>,
    },
    /// A name that does not tell the format.
    #[error(
        "{}: its ending does not say what it holds; name it .parquet, .csv, .arrow, .arrows or .jsonl, or give the format",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// Compression that the format does not have.
    #[error("{format} files cannot be compressed by {compression}; leave it out")]
    Compression {
        /// The format.
        format: &'static str,
        /// As asked for.
        compression: &'static str,
    },
    /// Content that is not of the format.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// A row group that cannot be decoded.
    #[error("{}, row group {row_group}: {reason}", path.display())]
    RowGroup {
        /// The file.
        path: PathBuf,
        /// The row group, from zero.
        row_group: usize,
        /// What is wrong.
        reason: String,
    },
    /// A column that a file does not have.
    #[error("{}: there is no column `{column}`; the columns are `{}`", path.display(), columns.join("`, `"))]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column asked for.
        column: String,
        /// Those that it has.
        columns: Vec<String>,
    },
    /// Files of one scan that differ.
    #[error("{}: column `{column}` has type {found}, but {expected} in {}; cast it to one type", path.display(), first.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type there.
        found: DataType,
        /// Its type in the first file.
        expected: DataType,
        /// The first file.
        first: PathBuf,
    },
    /// A time range without a column of times.
    #[error("a time range needs the column of times; name it")]
    NoTimeColumn,
    /// A column of times that has none.
    #[error("{}: column `{column}` has type {found}, in which no times are", path.display())]
    TimeType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
}

impl IoError {
    pub(crate) fn file(path: &std::path::Path) -> impl Fn(std::io::Error) -> Self + '_ {
        |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn content<E: std::fmt::Display>(path: &std::path::Path) -> impl Fn(E) -> Self + '_ {
        |reason| Self::Content {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}
