//! Scalar expressions: what a temporal expression computes at one instant.

use crate::{
    ids::{ExprId, FuncId, ReducerId, StreamId, VarId},
    types::{DType, Scalar},
};

/// An expression node together with its type.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What is computed.
    pub expr: Expr,
    /// The type of the result, as [`type_of`](crate::Program::type_of) derives it.
    pub dtype: DType,
}

/// A scalar expression, evaluated at an instant `t`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    /// A constant of the given type.
    Const(Scalar, DType),
    /// φ of the given type.
    Null(DType),
    /// `t` itself.
    Time,
    /// `~x[t+offset]`: the value at a shifted instant.
    At {
        /// The stream read.
        stream: StreamId,
        /// Ticks added to `t`.
        offset: i64,
    },
    /// `hold(~x[t+offset], max_age)`: the value of the last event that ended at or before the instant.
    Hold {
        /// The stream read.
        stream: StreamId,
        /// Ticks added to `t`.
        offset: i64,
        /// How old that event may be: φ once `t + offset - end >= max_age`.
        max_age: Option<i64>,
    },
    /// `~x.prev(n)`: the value `n` events before the current one.
    Prev {
        /// The stream read.
        stream: StreamId,
        /// How many events back.
        n: u32,
    },
    /// `start(~x[t+offset])`, `end(~x[t+offset])`: an edge of the event that `~x[t+offset]` reads.
    Edge {
        /// The stream read.
        stream: StreamId,
        /// Ticks added to `t`.
        offset: i64,
        /// Which edge.
        edge: Edge,
    },
    /// `reduce agg ~x[t+lo : t+hi] map (e)`: the events of a window folded into one value.
    Reduce {
        /// How to fold.
        agg: Agg,
        /// What to fold.
        window: Window,
        /// What each event contributes; evaluated at the event's own end with the event itself as `~x[t]`. φ is skipped.
        /// `None` contributes the event's value.
        map: Option<ExprId>,
    },
    /// A variable bound by an enclosing `let` or by a reducer's parameter list.
    Var(VarId),
    /// `let v = value in body`.
    Let {
        /// The variable.
        var: VarId,
        /// Evaluated once, where the `let` stands.
        value: ExprId,
        /// Sees the variable.
        body: ExprId,
    },
    /// An operator of one operand.
    Unary(UnaryOp, ExprId),
    /// An operator of two operands.
    Binary(BinaryOp, ExprId, ExprId),
    /// `clip(x, lo, hi)`: NaN stays NaN.
    Clip {
        /// The value.
        value: ExprId,
        /// The least result.
        lo: ExprId,
        /// The greatest result; wins where `lo > hi`.
        hi: ExprId,
    },
    /// `if cond then a else b`. A φ condition counts as false; the branch not taken is not observed.
    When {
        /// Decides.
        cond: ExprId,
        /// Value when true.
        then: ExprId,
        /// Value when false or φ.
        otherwise: ExprId,
    },
    /// `is_null(x)`: never φ itself.
    IsNull(ExprId),
    /// `coalesce(a, b)`: `a` unless it is φ.
    Coalesce(ExprId, ExprId),
    /// `{name: e, …}`: a record, never φ itself.
    Record(Vec<(String, ExprId)>),
    /// `e.name`.
    Field(ExprId, String),
    /// `cast(e, type)`: φ where the value does not fit.
    Cast(ExprId, DType),
    /// `@f(args)`: an external function, strict in φ.
    Call {
        /// The declared function.
        func: FuncId,
        /// Arguments in order.
        args: Vec<ExprId>,
    },
}

/// An edge of an event's interval `(start, end]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Edge {
    Start,
    End,
}

/// The events a reduction folds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Whose events.
    pub stream: StreamId,
    /// Which of them.
    pub bounds: Bounds,
}

/// The two ends of a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bounds {
    /// `~x[t+lo : t+hi]`: events that intersect `(t+lo, t+hi]`. No `lo` reaches back to the beginning.
    Time {
        /// Ticks from `t`, exclusive.
        lo: Option<i64>,
        /// Ticks from `t`, inclusive.
        hi: i64,
    },
    /// `~x[#+lo : #+hi]`: events numbered `(c+lo, c+hi]` where `c` is the current event. No `lo` reaches back to the first.
    Ordinal {
        /// Events from the current one, exclusive.
        lo: Option<i64>,
        /// Events from the current one, inclusive.
        hi: i64,
    },
    /// `~x[event]`: events that intersect the interval `(start, end]` of the event that is being computed, in a map that of the
    /// event the map is applied to.
    Event,
}

/// Operators of one operand. Strict in φ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Neg,
    Not,
    BitNot,
    Abs,
    /// -1, 0 or 1 in the operand's type; NaN stays NaN, zeros keep their sign.
    Sign,
    Sqrt,
    Cbrt,
    Exp,
    Exp2,
    Expm1,
    /// Natural logarithm.
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Floor,
    Ceil,
    Trunc,
    /// To the nearest integer, ties to even (NumPy).
    Round,
    IsNan,
    IsFinite,
    IsInfinite,
    /// A field of the proleptic Gregorian date in UTC.
    Part(TimePart),
}

/// Calendar fields of a timestamp, as `i32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum TimePart {
    Year,
    /// 1 to 12.
    Month,
    /// 1 to 31.
    Day,
    Hour,
    Minute,
    Second,
    /// Milliseconds within the second.
    Millisecond,
    /// Microseconds within the second.
    Microsecond,
    /// Nanoseconds within the second.
    Nanosecond,
    /// Monday is 1, Sunday is 7.
    Weekday,
    /// 1 to 366.
    OrdinalDay,
}

/// Operators of two operands of one type. All are strict in φ except `And` and `Or`, which are Kleene.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    /// Integers wrap.
    Add,
    Sub,
    Mul,
    /// IEEE for floats; for integers and durations the quotient rounded down, φ by zero.
    Div,
    /// The remainder that belongs to division rounded down: it has the divisor's sign (Python, NumPy).
    Rem,
    /// Integers wrap; a negative integer exponent gives φ.
    Pow,
    Atan2,
    Hypot,
    /// IEEE 754 `minimumNumber`: NaN only when both are, -0 below +0.
    Min,
    /// IEEE 754 `maximumNumber`.
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    /// φ when the count is negative or not below the width.
    Shl,
    /// Arithmetic for signed, logical for unsigned integers; φ as for `Shl`.
    Shr,
}

/// How a window is folded. An empty window gives φ, whatever the reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Agg {
    /// Signed and bool into `i64`, unsigned into `u64` (overflow is an error), floats into `f64`, durations as they are.
    Sum,
    /// Integers in 64 bits (overflow is an error), floats in `f64`.
    Product,
    /// The `f64` sum divided by the count.
    Mean,
    /// The least value by the rule of [`BinaryOp::Min`].
    Min,
    /// The greatest value by the rule of [`BinaryOp::Max`].
    Max,
    /// How many events, `i64`.
    Len,
    /// The first value in time order.
    First,
    /// The last value in time order.
    Last,
    /// Sum of squared deviations over `n - ddof`; φ unless `n > ddof`.
    Var {
        /// Delta degrees of freedom.
        ddof: u32,
    },
    /// Square root of `Var`.
    Std {
        /// Delta degrees of freedom.
        ddof: u32,
    },
    /// Third standardised moment (SciPy). NaN for a constant window.
    Skew {
        /// `false` corrects for bias and needs three events.
        bias: bool,
    },
    /// Fourth standardised moment (SciPy). NaN for a constant window.
    Kurtosis {
        /// Subtract three.
        fisher: bool,
        /// `false` corrects for bias and needs four events.
        bias: bool,
    },
    /// Square root of the mean square.
    Rms,
    /// Largest absolute value over the root mean square.
    CrestFactor,
    /// Whether any is true.
    Any,
    /// Whether all are true.
    All,
    /// The middle value, or the mean of the two middle ones, as `f64`.
    Median,
    /// The quantile `q` in `[0, 1]`, as `f64`.
    Quantile {
        /// Bits of the `f64` quantile, so that the operator can be hashed.
        q: Ratio,
        /// What to do between two values.
        method: QuantileMethod,
    },
    /// The most frequent value; the earliest of several.
    Mode,
    /// How many distinct values, `i64`; NaNs are one value.
    NUnique,
    /// The `k` largest, largest first.
    TopK {
        /// At least one.
        k: u32,
    },
    /// The end of the first event that holds the least value.
    ArgMin,
    /// The end of the first event that holds the greatest value.
    ArgMax,
    /// All values in time order.
    Collect,
    /// Time-weighted average: the integral over the time covered.
    Twa,
    /// Value times length of the clipped event, summed, in ticks.
    Integral,
    /// Least-squares slope of the value against the event's end, per tick; φ unless two different ends.
    Slope,
    /// Exponentially weighted mean by event: the newest weighs 1, each older one `1 - alpha` times its successor.
    Ewm {
        /// Bits of the smoothing factor in `(0, 1]`.
        alpha: Ratio,
    },
    /// A user-defined reduction.
    Custom(ReducerId),
}

/// An `f64` parameter of a reduction, compared by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ratio(u64);

impl Ratio {
    /// Wraps a level.
    pub fn new(level: f64) -> Self {
        Self(level.to_bits())
    }

    /// The level.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// What a quantile between two values is (Polars' and NumPy's words).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum QuantileMethod {
    Linear,
    Lower,
    Higher,
    Nearest,
    Midpoint,
}

impl Expr {
    /// Calls `visit` with every direct operand. A reduction's map is an operand too, though its `t` is another.
    pub fn for_each_operand(&self, mut visit: impl FnMut(ExprId)) {
        match self {
            Self::Const(..)
            | Self::Null(_)
            | Self::Time
            | Self::At { .. }
            | Self::Hold { .. }
            | Self::Prev { .. }
            | Self::Edge { .. }
            | Self::Var(_) => {}
            Self::Reduce { map, .. } => map.iter().copied().for_each(visit),
            Self::Let { value, body, .. } => [*value, *body].into_iter().for_each(visit),
            Self::Unary(_, a) | Self::IsNull(a) | Self::Field(a, _) | Self::Cast(a, _) => visit(*a),
            Self::Binary(_, a, b) | Self::Coalesce(a, b) => [*a, *b].into_iter().for_each(visit),
            Self::Clip { value, lo, hi } => [*value, *lo, *hi].into_iter().for_each(visit),
            Self::When {
                cond,
                then,
                otherwise,
            } => [*cond, *then, *otherwise].into_iter().for_each(visit),
            Self::Record(fields) => fields.iter().for_each(|(_, e)| visit(*e)),
            Self::Call { args, .. } => args.iter().copied().for_each(visit),
        }
    }

    /// The same expression over other operands.
    #[must_use]
    pub fn map_operands(&self, mut with: impl FnMut(ExprId) -> ExprId) -> Self {
        let mut copy = self.clone();
        match &mut copy {
            Self::Const(..)
            | Self::Null(_)
            | Self::Time
            | Self::At { .. }
            | Self::Hold { .. }
            | Self::Prev { .. }
            | Self::Edge { .. }
            | Self::Var(_) => {}
            Self::Reduce { map, .. } => {
                if let Some(map) = map {
                    *map = with(*map);
                }
            }
            Self::Let { value, body, .. } => {
                *value = with(*value);
                *body = with(*body);
            }
            Self::Unary(_, a) | Self::IsNull(a) | Self::Field(a, _) | Self::Cast(a, _) => {
                *a = with(*a);
            }
            Self::Binary(_, a, b) | Self::Coalesce(a, b) => {
                *a = with(*a);
                *b = with(*b);
            }
            Self::Clip { value, lo, hi } => {
                *value = with(*value);
                *lo = with(*lo);
                *hi = with(*hi);
            }
            Self::When {
                cond,
                then,
                otherwise,
            } => {
                *cond = with(*cond);
                *then = with(*then);
                *otherwise = with(*otherwise);
            }
            Self::Record(fields) => fields.iter_mut().for_each(|(_, e)| *e = with(*e)),
            Self::Call { args, .. } => args.iter_mut().for_each(|e| *e = with(*e)),
        }
        copy
    }

    /// The stream this node itself reads, if any.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Self::At { stream, .. }
            | Self::Hold { stream, .. }
            | Self::Prev { stream, .. }
            | Self::Edge { stream, .. } => Some(*stream),
            Self::Reduce { window, .. } => Some(window.stream),
            _ => None,
        }
    }
}
