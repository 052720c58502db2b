//! The oracle of tilt: evaluates a program by its definition.
//!
//! `docs/ir.md` says what a temporal expression means; this crate is that page as code. It computes every stream in
//! order of definition, each as a value or φ at every position of its timeline, and every value by walking the
//! expression at the end of its event. What other backends return is right if it is what [`run`] returns.
//!
//! ```
//! use tilt_interp::{Event, Inputs, Options, run};
//!
//! let program = tilt_ir::parse(
//!     "query smooth unit s {
//!        input ~x: f64 point
//!        ~mean[t] = reduce mean ~x[t-10s : t]
//!        output ~mean
//!      }",
//! )?;
//! let x = vec![Event::point(3, 1.0), Event::point(8, 2.0), Event::point(15, 4.0)];
//! let events = run(&program, &Inputs::from([("x".to_owned(), x)]), &Options::default())?;
//!
//! let means = [(3, 1.0), (8, 1.5), (15, 3.0)].map(|(t, mean)| Event::point(t, mean));
//! assert!(events.iter().zip(&means).all(|(found, expected)| found.same(expected)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It is clear rather than fast, but usable: reads and windows are found by binary search, and only streams that the
//! output depends on are computed.
//!
//! | file | subject | `docs/ir.md` |
//! |---|---|---|
//! | `run` | keys, order of evaluation, parts | sections 2 and 5 |
//! | `events` | inputs and their checks | section 2 |
//! | `timeline` | positions, values on them, searches by time | section 2 |
//! | `range` | which cells a clock has | section 3 |
//! | `cells` | grids and calendars | section 3 |
//! | `clock` | groups, combinations, sessions | section 3 |
//! | `eval` | reads, windows, recurrences | section 4 |
//! | `scalar`, `calendar` | operators and casts | section 4, numbers |
//! | `reduce` | reductions | section 4, reductions |
//! | `buffers` | Arrow in and out | |

mod buffers;
mod calendar;
mod cells;
mod clock;
mod error;
mod eval;
mod events;
mod functions;
mod moments;
mod place;
mod range;
mod reduce;
mod run;
mod scalar;
#[cfg(test)]
mod tests;
mod timeline;
mod value;

pub use buffers::{
    BufferError, buffer_of, check_buffer, events_of, run_buffers, run_buffers_watched, with_time_of,
};
pub use error::{DataError, HostError, QueryError, RunError};
pub use events::{Event, Inputs, hull};
pub use functions::{Function, Functions};
pub use run::{Options, Watch, run, run_keyed, run_stream};
pub use value::Value;
