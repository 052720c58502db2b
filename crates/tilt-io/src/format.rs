//! Kinds of files.

use std::path::Path;

use crate::error::{IoError, Result};

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Apache Parquet: `.parquet`, `.pq`.
    Parquet,
    /// Comma-separated values with a header: `.csv`.
    Csv,
    /// The Arrow IPC file: `.arrow`, `.feather`, `.ipc`.
    Ipc,
    /// The Arrow IPC stream: `.arrows`.
    IpcStream,
    /// A JSON object a line: `.jsonl`, `.ndjson`.
    JsonLines,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Parquet,
        Self::Csv,
        Self::Ipc,
        Self::IpcStream,
        Self::JsonLines,
    ];

    /// The format of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// `parquet`, `csv`, `ipc`, `ipc_stream` or `jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Ipc => "ipc",
            Self::IpcStream => "ipc_stream",
            Self::JsonLines => "jsonl",
        }
    }

    /// What the ending of a file's name says.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        match ending.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => Ok(Self::Parquet),
            "csv" => Ok(Self::Csv),
            "arrow" | "feather" | "ipc" => Ok(Self::Ipc),
            "arrows" => Ok(Self::IpcStream),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            _ => Err(IoError::UnknownFormat {
                path: path.to_owned(),
            }),
        }
    }
}
