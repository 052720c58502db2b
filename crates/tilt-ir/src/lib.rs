#![doc = include_str!("../README.md")]

mod expr;
mod ids;
mod names;
mod program;
mod time;
mod types;
mod typing;

pub use expr::{
    Agg, BinaryOp, Bounds, Edge, Expr, Node, QuantileMethod, Ratio, TimePart, UnaryOp, Window,
};
pub use ids::{Arena, ExprId, FuncId, Id, ReducerId, StreamId, VarId};
pub use program::{
    Clock, Function, Input, Lambda, Overlap, Program, Reducer, Source, SpanRule, Stream, Temporal,
    Var,
};
pub use time::{DurationError, OPEN, Span, Unit, format_duration, parse_duration};
pub use types::{DType, Field, FloatWidth, Scalar, Width, round_to};
pub use typing::TypeError;
