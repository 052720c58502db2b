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
//! A map that is more than a function of its event is a stage of its own, whose column the window reads. External functions are called between
//! loops, a chunk at a time.
//!
//! What loops cannot compute yet is run by the interpreter, and [`Compiled::explain`] says so.

mod call;
mod chunks;
mod code;
mod cursor;
mod edges;
mod error;
mod execute;
mod explain;
mod facts;
mod join;
mod keyed;
mod keys;
mod locate;
mod memory;
mod merge;
mod own;
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
mod text;
mod view;
mod window;

pub use error::Error;
pub use query::{Backend, Compiled, Query, RunOptions};
