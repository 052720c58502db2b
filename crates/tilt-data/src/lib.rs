//! Snapshot buffers: the streams of tilt over Arrow arrays.
//!
//! A stream is a list of events `(start, end]`, ordered by end, each with a value. A [`SnapshotBuffer`] holds it as a
//! [`Timeline`], which gives every row its interval without storing starts (and, for regular streams, without storing
//! anything), and Arrow columns of values, shared with the batch they came from.
//!
//! [`ingest`] makes events of rows and refuses whatever is not what the query declared; see [`DataError`].
//! [`SnapshotBuffer::to_record_batch`] makes rows of events. In between, buffers are [cut](SnapshotBuffer::cut) with the
//! halo that a part of the output depends on, [concatenated](SnapshotBuffer::concat) and [split by
//! key](SnapshotBuffer::split_by_key).
//!
//! ```
//! use std::sync::Arc;
//! use tilt_data::arrow::array::{Float64Array, Int64Array, RecordBatch};
//! use tilt_data::{IngressOptions, Layout, infer_input, ingest};
//! use tilt_ir::{Reach, Span, SpanRule, Unit};
//!
//! let batch = RecordBatch::try_from_iter([
//!     ("t", Arc::new(Int64Array::from(vec![1, 4, 9])) as _),
//!     ("price", Arc::new(Float64Array::from(vec![10.0, 11.0, 12.0])) as _),
//! ])?;
//! let options = IngressOptions::stamp("t");
//! let input = infer_input("price", &batch, SpanRule::UntilNext, None, &options)?;
//! let prices = ingest(&batch, &input, Unit::Tick, &options)?;
//! assert_eq!(prices.event(0), Span::new(0, 3)); // true from 1 until 4 replaces it
//!
//! let part = prices.cut(Span::new(4, 8), Reach::NONE, Reach::NONE);
//! assert_eq!((part.len(), part.event(0)), (1, Span::new(3, 8)));
//! assert_eq!(prices.to_record_batch(Layout::AsGiven)?, batch);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod dtype;

/// The Arrow that this crate speaks, for callers who do not want to keep a version of their own in step.
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_buffer as buffer;
    pub use arrow_schema as schema;
}

mod concat;
mod cut;
mod egress;
mod error;
mod gaps;
mod ingress;
mod keys;
mod snapshot;
mod time_column;
mod timeline;

pub use cut::Counted;
pub use egress::{EgressOptions, Layout};
pub use error::{DataError, Result};
pub use gaps::{Gaps, KnownGaps};
pub use ingress::{
    IngressOptions, RawRows, RowReader, Stamped, TIME_LIMIT, TimeNames, infer_input, ingest,
    ingest_chunks, ingest_keyed,
};
pub use keys::Key;
pub use snapshot::{Column, Shape, SnapshotBuffer};
pub use time_column::{TimeColumn, TimeColumns};
pub use timeline::{Spans, Stamps, Timeline};
