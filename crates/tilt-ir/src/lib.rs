#![doc = include_str!("../README.md")]

pub mod build;
mod calendar;
mod clock;
mod expr;
mod ids;
mod lex;
mod lineage;
mod names;
mod nullness;
mod parse;
pub mod pass;
mod print;
mod program;
mod time;
mod timeline;
mod types;
mod typing;
mod verify;

pub use calendar::{Calendar, CalendarCells, CalendarError, CalendarUnit, Closed};
pub use clock::default_clock;
pub use expr::{
    Agg, BinaryOp, Bounds, Edge, Expr, Node, QuantileMethod, Ratio, TimePart, UnaryOp, Window,
};
pub use ids::{Arena, ExprId, FuncId, Id, ReducerId, StreamId, VarId};
pub use lineage::{Changes, Halo, Lineage, Reach};
pub use nullness::{is_strict, strict_in};
pub use parse::{ParseError, parse};
pub use pass::{Pass, Pipeline, optimize};
pub use program::{
    Clock, Function, Input, Lambda, Overlap, Program, Reducer, Source, SpanRule, Stream, Temporal,
    Var,
};
pub use time::{DurationError, OPEN, Span, Unit, format_duration, parse_duration};
pub use timeline::{Timeline, Timelines};
pub use types::{DType, Field, FloatWidth, Scalar, Width, round_to};
pub use typing::TypeError;
pub use verify::{MAX_DEPTH, MAX_NODES, Rule, VerifyError, Violation, verify};
