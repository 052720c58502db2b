//! Queries built by calls: one builder for Rust services and for Python.
//!
//! A [`Stream`] is a program under construction whose output is this stream. There is no second representation: types, clocks,
//! timelines, lineage and text are those of the program. Combining streams combines their programs; equal definitions become one,
//! whatever they are called, so shared parts stay shared.
//!
//! ```
//! use tilt_ir::{DType, Input, Unit, build::Stream};
//!
//! let price = Stream::input(Input::point("price", DType::F64, Unit::Second));
//! let diff = price.window("10s").mean() - price.window("20s").mean();
//! let trend = diff.filter(diff.gt(0.0)).alias("trend");
//! assert_eq!(
//!     trend.program("trend")?.to_string(),
//!     "query trend unit s {
//!   input ~price: f64 point
//!
//!   ~mean_price[t] = reduce mean ~price[t-10s : t]
//!   ~mean_price_2[t] = reduce mean ~price[t-20s : t]
//!   ~v[t] = ~mean_price[t] - ~mean_price_2[t]
//!   ~v_2[t] = ~v[t] > 0.0
//!   ~trend[t] = if ~v_2[t] then ~v[t] else null
//!
//!   output ~trend
//! }
//! "
//! );
//! # Ok::<(), tilt_ir::build::BuildError>(())
//! ```
//!
//! **Errors.** Every operation checks its operands at once. One that fails gives a stream that carries the error, every operation on it
//! carries the first error on, and [`Stream::program`] reports it; [`Stream::error`] tells earlier. So `a + b` needs no `?`.
//!
//! **When.** An operation on streams with events of their own is evaluated wherever one of them changes. A stream that is computed from
//! windows has a value at every instant: on its own it is looked at the events of the windows' stream, combined with a
//! stream that has events it is looked at those, and [`at`](Stream::at), [`every`](Stream::every) and [`on_change`](Stream::on_change) say where to
//! look instead.
//!
//! | file | subject |
//! |---|---|
//! | `draft.rs`, `key.rs`, `floating.rs`, `rescale.rs` | programs combined: shared definitions, clocks, units |
//! | `literal.rs`, `length.rs`, `operators.rs` | constants, durations and counts, promotion of types |
//! | `pointwise.rs`, `record.rs` | what looks at one instant: operators, conditions, records |
//! | `time.rs` | shifts, clocks, changes, conditions that hold for a while |
//! | `window.rs`, `reducer.rs`, `value.rs` | windows and their reductions, built in and custom |
//! | `gaps.rs`, `join.rs`, `signal.rs` | resampling and filling, joins, recurrences and filters |

#![allow(
    clippy::needless_pass_by_value,
    reason = "a builder is called with values made on the spot"
)]

mod draft;
mod error;
mod floating;
mod gaps;
mod join;
mod key;
mod length;
mod literal;
mod operators;
mod pointwise;
mod record;
mod reducer;
mod rescale;
mod signal;
#[cfg(test)]
mod tests;
mod time;
mod value;
mod window;

use std::{fmt, sync::Arc};

pub use error::{BuildError, ErrorKind};
pub use gaps::{Fill, Interpolation, Resampling};
pub use join::AsOf;
pub use length::Length;
pub use literal::{Literal, Operand};
pub use operators::{Binary, unary_from_symbol};
pub use pointwise::{Then, When, coalesce, when};
pub use record::struct_of;
pub use reducer::{Part, Reducer};
pub use signal::recur;
pub use value::{Term, Value};
pub use window::{Closed, Window};

use self::{
    draft::{Built, Draft},
    error::{Checked, Problem},
};
use crate::{
    ids::{Id, StreamId},
    lineage::{Lineage, Reach},
    parse::parse,
    program::{Clock, Input, Program},
    types::DType,
    verify::verify,
};

/// A stream: a function of time, under construction. Cheap to clone.
#[derive(Clone)]
pub struct Stream(Result<Arc<Built>, Arc<BuildError>>);

impl Stream {
    /// A stream given from outside. Lengths in its declaration are ticks of its unit.
    pub fn input(input: Input) -> Self {
        let mut program = Program::new("query", input.unit);
        let operand = format!("~{}: {}", input.name, input.dtype);
        let reserved = input.name.starts_with(draft::OWN_PAST);
        program.input(input);
        let checked = match verify(&program) {
            Err(error) => Err(Problem::from(error)),
            Ok(()) if reserved => Err(Problem::parameter("the name is reserved")),
            Ok(()) => Ok(Arc::new(Built::new(program))),
        };
        Self(checked.map_err(|problem| Arc::new(problem.of("input", vec![operand]))))
    }

    /// The output of a program given as text.
    pub fn parse(text: &str) -> Self {
        let checked = || -> Checked<Built> {
            let program = parse(text)?;
            verify(&program)?;
            Ok(Built::new(program))
        };
        Self(match checked() {
            Ok(built) => Ok(Arc::new(built)),
            Err(problem) => Err(Arc::new(problem.of("parse", Vec::new()))),
        })
    }

    /// The program whose output is this stream, called `name`.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn program(&self, name: &str) -> Result<Program, BuildError> {
        let mut program = self.built()?.program.clone();
        name.clone_into(&mut program.name);
        Ok(program)
    }

    /// The first error of the operations that led here.
    pub fn error(&self) -> Option<&BuildError> {
        self.0.as_ref().err().map(AsRef::as_ref)
    }

    /// The stream's name.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn name(&self) -> Result<&str, BuildError> {
        let built = self.built()?;
        Ok(built.program.streams[built.program.output].name())
    }

    /// The type of its values.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn dtype(&self) -> Result<&DType, BuildError> {
        let built = self.built()?;
        Ok(built.program.stream_dtype(built.program.output))
    }

    /// Names and types of its columns: the fields of a record, or the stream itself.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn schema(&self) -> Result<Vec<(String, DType)>, BuildError> {
        Ok(match self.dtype()? {
            DType::Record(fields) => fields
                .iter()
                .map(|field| (field.name.clone(), field.dtype.clone()))
                .collect(),
            dtype => vec![(self.name()?.to_owned(), dtype.clone())],
        })
    }

    /// How far around an instant each input matters.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn lineage(&self) -> Result<Lineage, BuildError> {
        Ok(Lineage::new(&self.built()?.program))
    }

    /// The longest reach into the past over all inputs.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn lookback(&self) -> Result<Reach, BuildError> {
        Ok(self.lineage()?.lookback())
    }

    /// The longest reach into the future over all inputs.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn lookahead(&self) -> Result<Reach, BuildError> {
        Ok(self.lineage()?.lookahead())
    }

    /// Checks that no value depends on what happens after it.
    ///
    /// # Errors
    /// When an input is read ahead, naming it and how far; the first error of the operations that led here.
    pub fn assert_causal(&self) -> Result<(), BuildError> {
        let built = self.built()?;
        let program = &built.program;
        let ahead: Vec<String> = Lineage::new(program)
            .halos()
            .filter(|(_, halo)| halo.lookahead != Reach::NONE)
            .map(|(id, halo)| {
                let name = program.streams[id].name();
                format!(
                    "~{name} is read {} ahead",
                    halo.lookahead.display(program.unit)
                )
            })
            .collect();
        if ahead.is_empty() {
            return Ok(());
        }
        let problem = Problem::new(
            ErrorKind::Lookahead,
            format!("the query is not causal: {}", ahead.join(", ")),
        );
        let problem = problem.hint(
            "look for positive offsets, for windows that end after t, and for values of tumbling windows that are read inside the window",
        );
        Err(problem.of("assert_causal", self.text().into_iter().collect()))
    }

    /// The same stream under another name.
    #[must_use]
    pub fn alias(&self, name: &str) -> Self {
        Self::combine("alias", &[self], |draft, ids| {
            let mut id = ids[0];
            if draft.program.streams[id].as_input().is_some() {
                if draft.program.streams[id].name() == name {
                    return Ok(id);
                }
                let body = draft.read(id)?;
                id = draft.define(name, Clock::At(id), body)?;
            }
            draft.name(id, name)?;
            Ok(id)
        })
    }

    /// Whether both are the same query, whatever its parts are called.
    pub fn same(&self, other: &Self) -> bool {
        let key = |stream: &Self| {
            let built = stream.0.as_ref().ok()?;
            Some(built.keys[built.program.output.index()])
        };
        key(self).is_some() && key(self) == key(other)
    }

    fn built(&self) -> Result<&Built, BuildError> {
        match &self.0 {
            Ok(built) => Ok(built),
            Err(error) => Err(error.as_ref().clone()),
        }
    }

    /// The definition of the stream on one line, with its type.
    fn text(&self) -> Option<String> {
        let program = &self.0.as_ref().ok()?.program;
        let text = program.stream_text(program.output);
        Some(match program.streams[program.output].as_input() {
            Some(_) => text,
            None => format!("{text}    // {}", program.stream_dtype(program.output)),
        })
    }

    /// Applies an operation: `define` adds its result to the program of all operands.
    fn combine(
        operation: &str,
        operands: &[&Self],
        define: impl FnOnce(&mut Draft, &[StreamId]) -> Checked<StreamId>,
    ) -> Self {
        let mut built = Vec::with_capacity(operands.len());
        for operand in operands {
            match &operand.0 {
                Ok(operand) => built.push(operand.as_ref()),
                Err(error) => return Self(Err(Arc::clone(error))),
            }
        }
        let checked = Draft::of(&built).and_then(|(mut draft, ids)| {
            let id = define(&mut draft, &ids)?;
            draft.finish(id)
        });
        Self(match checked {
            Ok(built) => Ok(Arc::new(built)),
            Err(problem) => {
                let mut texts: Vec<String> = operands.iter().filter_map(|s| s.text()).collect();
                texts.dedup();
                Err(Arc::new(problem.of(operation, texts)))
            }
        })
    }

    /// A stream that carries an error.
    fn failed(&self, operation: &str, problem: Problem) -> Self {
        Self(match &self.0 {
            Err(error) => Err(Arc::clone(error)),
            Ok(_) => Err(Arc::new(
                problem.of(operation, self.text().into_iter().collect()),
            )),
        })
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(built) => built.program.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(&text),
            None => write!(f, "{self}"),
        }
    }
}
