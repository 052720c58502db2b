//! The executor: compiled queries over pieces of the timeline, in parallel.
//!
//! ```text
//! Query ──compile──▶ Compiled ──run──▶ SnapshotBuffer
//!            │            │
//!            │            ├── facts of the data: periodic? φ? overlapping?        facts
//!            │            ├── plan: stages, locates, ranges, windows, loops       plan, reads, window
//!            │            └── machine code of the loops                           code (tilt-codegen)
//!            │
//!            ├── keys: dense ids, one run a key, or one pass with a state a key         keys, keyed, scatter
//!            │
//!            └── pieces: rows of the output, each with the halo that lineage gives   pieces
//!                  └── a piece: stage by stage, chunk by chunk                        run, range, scan, view
//! ```
//!
//! What loops cannot compute yet is run by the interpreter, and [`Compiled::explain`] says so.

mod code;
mod cursor;
mod error;
mod execute;
mod explain;
mod facts;
mod keyed;
mod keys;
mod memory;
mod merge;
mod pieces;
mod plan;
mod query;
mod range;
mod reads;
mod run;
mod scan;
mod scatter;
mod series;
mod text;
mod view;
mod window;

pub use error::Error;
pub use query::{Backend, Compiled, Query, RunOptions};
