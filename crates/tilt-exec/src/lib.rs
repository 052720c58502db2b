//! The executor: compiled queries over pieces of the timeline, in parallel.
//!
//! ```text
//! Query ──compile──▶ Compiled ──run──▶ SnapshotBuffer
//!            │            │
//!            │            ├── facts of the data: periodic? φ? overlapping?        facts
//!            │            ├── plan: stages, locates, ranges, windows, loops       plan, reads, own, call, window
//!            │            └── machine code of the loops                           code (tilt-codegen)
//!            │
//!            ├── keys: dense ids, one run a key, or one pass with a state a key         keys, keyed, scatter
//!            │
//!            └── pieces: rows of the output, each with the halo that lineage gives   pieces, chunks
//!                  └── a piece: stage by stage, chunk by chunk                        run, locate, range, scan, rows, call, view
//! ```
//!
//! A run can be cancelled, watched and measured (`control`, `stats`), its input may arrive in chunks that together do not fit into memory (`stream`), or
//! be pushed as it comes (`live`).
//!
//! A map that is more than a function of its event is a stage of its own, whose column the window reads. External functions are called between
//! loops, a chunk at a time.
//!
//! What loops cannot compute yet is run by the interpreter, and [`Compiled::explain`] says so.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//! use tilt_data::arrow::array::{Array, Int64Array};
//! use tilt_data::{Column, SnapshotBuffer, Spans, Timeline};
//! use tilt_exec::{Query, RunOptions};
//! use tilt_ir::{Span, Unit};
//!
//! let query = Query::parse("query q unit tick { input ~x: i64 point  ~y[t] = reduce sum ~x[t-3 : t]  output ~y }")?;
//! let compiled = query.compile()?;
//! assert!(compiled.explain().contains("prefix, integers are subtracted exactly"));
//!
//! // A sample a tick, from 1 on.
//! let timeline = Timeline::regular(1, 1, 6, Spans::Fixed(1));
//! let values = Column::new("x", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5, 6])));
//! let inputs = BTreeMap::from([("x".to_owned(), SnapshotBuffer::scalar(timeline, values, Unit::Tick)?)]);
//! let sums = compiled.run(&inputs, &RunOptions::default())?;
//! assert_eq!(sums.columns()[0].array().as_ref(), &Int64Array::from(vec![1, 3, 6, 9, 12, 15]) as &dyn Array);
//!
//! // Any part of the timeline by itself gives the same.
//! let part = compiled.run(&inputs, &RunOptions::default().part(Span::new(4, 6)))?;
//! assert_eq!(part.columns()[0].array().as_ref(), &Int64Array::from(vec![12, 15]) as &dyn Array);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod call;
mod cells;
mod chunks;
mod code;
mod control;
mod cursor;
mod edges;
mod error;
mod execute;
mod explain;
mod facts;
mod gaps;
mod join;
mod keyed;
mod keys;
mod listing;
mod lists;
mod live;
mod locate;
mod memory;
mod merge;
mod own;
mod packed;
mod pieces;
mod plan;
mod query;
mod range;
mod reads;
mod rows;
mod run;
mod scan;
mod scatter;
mod series;
mod slack;
mod stagewise;
mod stats;
mod steps;
mod stream;
mod strips;
mod tail;
mod text;
mod threads;
mod view;
mod window;
mod words;

pub use control::{Cancel, Progress};
pub use error::Error;
pub use execute::default_threads;
pub use live::{
    HeldInput, Live,
    error::LiveError,
    state::{InputState, LiveState},
};
pub use query::{Backend, Compiled, Query, RunOptions};
pub use stats::{StageStats, Stats};
pub use stream::StreamRun;
pub use tail::EndsOf;
pub use tilt_codegen::jit::{forget as forget_compiled, machine};
