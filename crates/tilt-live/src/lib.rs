//! Live sessions: a query that is fed as rows arrive, in any order, and gives results as soon as they are certain.
//!
//! ```text
//! RecordBatch ──read──▶ late? ──▶ reorder buffer ──watermark──▶ Live (tilt-exec) ──▶ RecordBatch
//!                        │ policy: raise, drop, adjust, revise                │
//!                        └──▶ side batch of late rows                         └──▶ changes, if results are revised
//! ```
//!
//! A [`Session`] adds to a [`Live`](tilt_exec::Live) run, which wants rows in order and promises about what is still to come, what makes these of real input:
//! a reorder buffer, a watermark for each input, policies for what comes later than that, events whose end comes later than their start, and results
//! that are given early and revised. A session can be written to bytes at any moment and goes on elsewhere with the same future.
//!
//! ```
//! use std::sync::Arc;
//! use tilt_data::{IngressOptions, arrow::array::{Array, Float64Array, Int64Array, RecordBatch}};
//! use tilt_exec::Query;
//! use tilt_live::{Completion, InputOptions, Session, SessionOptions};
//!
//! let query = Query::parse(
//!     "query q unit tick { input ~x: f64 point  ~y[t every 10] = reduce sum ~x[t-10 : t]  output ~y }",
//! )?;
//! let x = InputOptions::new(IngressOptions::stamp("t")).lateness(5);
//! let mut session = Session::new(&query.compile()?, SessionOptions::new().input("x", x))?;
//! let rows = |times: Vec<i64>| {
//!     let values = Float64Array::from_iter_values(times.iter().map(|t| *t as f64));
//!     RecordBatch::try_from_iter([("t", Arc::new(Int64Array::from(times)) as _), ("x", Arc::new(values) as _)])
//! };
//! session.push("x", &rows(vec![3, 9, 7, 12])?)?;
//! // Rows at 7 and later may still come.
//! assert_eq!(session.take()?.num_rows(), 0);
//! session.push("x", &rows(vec![8, 16])?)?;
//! let sums = session.take()?;
//! assert_eq!(sums["y"].as_ref(), &Float64Array::from(vec![27.0]) as &dyn Array);
//!
//! // On another machine, as if nothing had happened.
//! let bytes = session.checkpoint()?;
//! # let query = Query::parse("query q unit tick { input ~x: f64 point  ~y[t every 10] = reduce sum ~x[t-10 : t]  output ~y }")?;
//! let x = InputOptions::new(IngressOptions::stamp("t")).lateness(5);
//! let mut session = Session::restore(&query.compile()?, &bytes, SessionOptions::new().input("x", x))?;
//! let rest = session.close(Completion::End)?;
//! assert_eq!(rest["y"].as_ref(), &Float64Array::from(vec![28.0]) as &dyn Array);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `options` | what a session is told at its start |
//! | `session` | `Session`: from rows to results |
//! | `pace` | when rows that have come are computed |
//! | `port`, `straight` | an input: what is late, what goes on to the run, and what does so at once |
//! | `queue`, `row`, `runs`, `edges` | rows that wait, and go on together; events whose end comes later |
//! | `grid` | which stamps rows of a period may have |
//! | `late`, `status` | late rows as a batch; what a session can tell about itself |
//! | `changes` | results that are revised |
//! | `checkpoint`, `bytes` | sessions as bytes |

mod bytes;
mod changes;
mod checkpoint;
mod edges;
mod error;
mod grid;
mod late;
mod options;
mod pace;
mod port;
mod queue;
mod row;
mod runs;
mod session;
mod status;
mod straight;

pub use error::SessionError;
pub use options::{Completion, InputOptions, Latency, Mode, Policy, SessionOptions};
pub use session::Session;
pub use status::{Counts, InputStatus, Status};
