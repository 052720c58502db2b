//! Files as batches of rows, and back.
//!
//! A [`Scan`] names files of one [`Format`] (patterns are expanded), looks at their schema without reading rows, and reads them as an iterator
//! of record batches: only the columns asked for, only the rows of a time range, file after file in order of time. A [`Writer`] writes batches
//! to a file that appears under its name when it is complete. A [`Decoder`] and an [`Encoder`] do the same with bytes that come and go in pieces.
//!
//! | format | a scan reads | knows without reading rows |
//! |---|---|---|
//! | Parquet | row groups that may hold rows of the range, columns asked for | schema, rows, times by statistics |
//! | Arrow IPC file | mapped memory, nothing is copied unless compressed | schema |
//! | Arrow IPC stream, CSV, JSON lines | everything, dropping other columns while decoding | schema (CSV and JSON: inferred from the first rows) |
//!
//! ```
//! use std::sync::Arc;
//! use tilt_data::arrow::array::{Float64Array, Int64Array, RecordBatch};
//! use tilt_io::{Scan, TimeRange, WriteOptions, Writer};
//! use tilt_ir::Unit;
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("prices.parquet");
//! let rows = RecordBatch::try_from_iter([
//!     ("t", Arc::new(Int64Array::from(vec![1, 4, 9])) as _),
//!     ("price", Arc::new(Float64Array::from(vec![10.0, 11.0, 12.0])) as _),
//! ])?;
//! let mut writer = Writer::create(&path, &rows.schema(), &WriteOptions::default())?;
//! writer.write(&rows)?;
//! writer.finish()?;
//!
//! let range = TimeRange { after: Some(1), until: Some(9), unit: Unit::Tick };
//! let scan = Scan::open(&[path.to_str().expect("a name")], None)?.time("t").range(range);
//! let rows: Vec<RecordBatch> = scan.batches()?.collect::<Result<_, _>>()?;
//! assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod csv;
mod error;
mod format;
mod ipc;
mod json;
mod parquet;
mod paths;
mod pipe;
mod scan;
mod text;
mod times;
mod write;

pub use error::{IoError, Result};
pub use format::Format;
pub use pipe::{Decoder, Encoder, PipeError};
pub use scan::{Batches, Scan};
pub use times::TimeRange;
pub use write::{Compression, WriteOptions, Writer};
