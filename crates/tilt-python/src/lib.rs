//! The native half of tilt's Python package: `tilt._native`. Thin on purpose; what users see, with its documentation,
//! is the Python in `python/tilt`.
//!
//! | file | subject |
//! |---|---|
//! | `program.rs`, `query.rs`, `parts.rs`, `stats.rs` | programs; compiled queries, runs, explanations; results part by part; what a run took |
//! | `stream.rs`, `stream/` | the builder: streams, windows, traced values |
//! | `live.rs`, `row.rs`, `fit.rs` | live sessions; single rows of Python; rows in the types that others had |
//! | `input.rs`, `declare.rs`, `redeclare.rs` | rows for an input of a query; the declaration that rows fit; inputs declared otherwise |
//! | `table.rs`, `column.rs`, `build.rs` | Arrow tables: Python objects in and out |
//! | `files.rs`, `pipe.rs`, `lookup.rs` | scans and writing; rows as bytes in pieces; rows joined with a table |
//! | `functions.rs`, `pointer.rs`, `watch.rs` | functions of Python and of C in queries; runs that can be interrupted |
//! | `errors.rs`, `guard.rs` | exceptions; panics |
//! | `entropy.rs` | what wheels need of a newer glibc |

#![allow(
    clippy::needless_pass_by_value,
    reason = "functions of Python own their converted arguments"
)]

mod build;
mod column;
mod declare;
#[cfg(all(feature = "static-llvm", target_os = "linux"))]
mod entropy;
mod errors;
mod files;
mod fit;
mod functions;
mod guard;
mod input;
mod live;
mod lookup;
mod parts;
mod pipe;
mod pointer;
mod program;
mod query;
mod redeclare;
mod row;
mod stats;
mod stream;
mod table;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "a Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const BUILD: &str = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };

    #[pymodule_export]
    use crate::{
        column::{Column, Values},
        declare::{declare, duration, increasing},
        files::{Scan, Writer},
        input::Input,
        live::Session,
        lookup::Lookup,
        parts::Parts,
        pipe::{Decoder, Encoder},
        pointer::Pointer,
        program::Program,
        query::{Query, machine},
        redeclare::{events, redeclare},
        stream::{Reducer, Stream, Value, Window},
        table::Table,
        watch::settle,
    };

    #[cfg(debug_assertions)]
    #[pymodule_export]
    use crate::guard::panic;
}
