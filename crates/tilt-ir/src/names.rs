//! The words of the text form: operators, functions and reductions, each written in one way.

use crate::{
    expr::{Agg, BinaryOp, QuantileMethod, TimePart, UnaryOp},
    types::{DType, FloatWidth, Width},
};

/// Words that no variable can be called, because an expression may start or go on with them.
pub(crate) const RESERVED_WORDS: &[&str] = &[
    "let", "in", "if", "then", "else", "true", "false", "null", "reduce", "t", "nan", "nanf16",
    "nanf32", "nanf64", "inf", "inff16", "inff32", "inff64",
];

/// Number types, which are also the suffixes of number literals.
pub(crate) const NUMBER_TYPES: &[(&str, DType)] = &[
    ("i8", DType::Int(Width::W8)),
    ("i16", DType::Int(Width::W16)),
    ("i32", DType::Int(Width::W32)),
    ("i64", DType::Int(Width::W64)),
    ("u8", DType::UInt(Width::W8)),
    ("u16", DType::UInt(Width::W16)),
    ("u32", DType::UInt(Width::W32)),
    ("u64", DType::UInt(Width::W64)),
    ("f16", DType::Float(FloatWidth::W16)),
    ("f32", DType::Float(FloatWidth::W32)),
    ("f64", DType::Float(FloatWidth::W64)),
];

/// Operators of one operand that are written as functions.
pub(crate) const UNARY_FUNCTIONS: &[(&str, UnaryOp)] = &[
    ("abs", UnaryOp::Abs),
    ("sign", UnaryOp::Sign),
    ("sqrt", UnaryOp::Sqrt),
    ("cbrt", UnaryOp::Cbrt),
    ("exp", UnaryOp::Exp),
    ("exp2", UnaryOp::Exp2),
    ("expm1", UnaryOp::Expm1),
    ("log", UnaryOp::Log),
    ("log2", UnaryOp::Log2),
    ("log10", UnaryOp::Log10),
    ("log1p", UnaryOp::Log1p),
    ("sin", UnaryOp::Sin),
    ("cos", UnaryOp::Cos),
    ("tan", UnaryOp::Tan),
    ("asin", UnaryOp::Asin),
    ("acos", UnaryOp::Acos),
    ("atan", UnaryOp::Atan),
    ("sinh", UnaryOp::Sinh),
    ("cosh", UnaryOp::Cosh),
    ("tanh", UnaryOp::Tanh),
    ("asinh", UnaryOp::Asinh),
    ("acosh", UnaryOp::Acosh),
    ("atanh", UnaryOp::Atanh),
    ("floor", UnaryOp::Floor),
    ("ceil", UnaryOp::Ceil),
    ("trunc", UnaryOp::Trunc),
    ("round", UnaryOp::Round),
    ("is_nan", UnaryOp::IsNan),
    ("is_finite", UnaryOp::IsFinite),
    ("is_infinite", UnaryOp::IsInfinite),
    ("year", UnaryOp::Part(TimePart::Year)),
    ("month", UnaryOp::Part(TimePart::Month)),
    ("day", UnaryOp::Part(TimePart::Day)),
    ("hour", UnaryOp::Part(TimePart::Hour)),
    ("minute", UnaryOp::Part(TimePart::Minute)),
    ("second", UnaryOp::Part(TimePart::Second)),
    ("millisecond", UnaryOp::Part(TimePart::Millisecond)),
    ("microsecond", UnaryOp::Part(TimePart::Microsecond)),
    ("nanosecond", UnaryOp::Part(TimePart::Nanosecond)),
    ("weekday", UnaryOp::Part(TimePart::Weekday)),
    ("ordinal_day", UnaryOp::Part(TimePart::OrdinalDay)),
];

/// Operators of two operands that are written as functions.
pub(crate) const BINARY_FUNCTIONS: &[(&str, BinaryOp)] = &[
    ("pow", BinaryOp::Pow),
    ("atan2", BinaryOp::Atan2),
    ("hypot", BinaryOp::Hypot),
    ("min", BinaryOp::Min),
    ("max", BinaryOp::Max),
];

/// Infix operators with their binding strength; all associate to the left.
pub(crate) const INFIX: &[(&str, BinaryOp, u8)] = &[
    ("||", BinaryOp::Or, 1),
    ("^^", BinaryOp::Xor, 2),
    ("&&", BinaryOp::And, 3),
    ("==", BinaryOp::Eq, 4),
    ("!=", BinaryOp::Ne, 4),
    ("<=", BinaryOp::Le, 4),
    (">=", BinaryOp::Ge, 4),
    ("<", BinaryOp::Lt, 4),
    (">", BinaryOp::Gt, 4),
    ("|", BinaryOp::BitOr, 5),
    ("^", BinaryOp::BitXor, 6),
    ("&", BinaryOp::BitAnd, 7),
    ("<<", BinaryOp::Shl, 8),
    (">>", BinaryOp::Shr, 8),
    ("+", BinaryOp::Add, 9),
    ("-", BinaryOp::Sub, 9),
    ("*", BinaryOp::Mul, 10),
    ("/", BinaryOp::Div, 10),
    ("%", BinaryOp::Rem, 10),
];

/// Reductions without parameters.
pub(crate) const PLAIN_AGGS: &[(&str, Agg)] = &[
    ("sum", Agg::Sum),
    ("product", Agg::Product),
    ("mean", Agg::Mean),
    ("min", Agg::Min),
    ("max", Agg::Max),
    ("len", Agg::Len),
    ("first", Agg::First),
    ("last", Agg::Last),
    ("rms", Agg::Rms),
    ("crest_factor", Agg::CrestFactor),
    ("any", Agg::Any),
    ("all", Agg::All),
    ("median", Agg::Median),
    ("mode", Agg::Mode),
    ("n_unique", Agg::NUnique),
    ("arg_min", Agg::ArgMin),
    ("arg_max", Agg::ArgMax),
    ("collect", Agg::Collect),
    ("twa", Agg::Twa),
    ("integral", Agg::Integral),
    ("slope", Agg::Slope),
];

/// Quantile methods.
pub(crate) const QUANTILE_METHODS: &[(&str, QuantileMethod)] = &[
    ("linear", QuantileMethod::Linear),
    ("lower", QuantileMethod::Lower),
    ("higher", QuantileMethod::Higher),
    ("nearest", QuantileMethod::Nearest),
    ("midpoint", QuantileMethod::Midpoint),
];

/// The name under which `table` lists `value`.
pub(crate) fn name_in<T: PartialEq>(
    table: &[(&'static str, T)],
    value: &T,
) -> Option<&'static str> {
    table.iter().find(|row| row.1 == *value).map(|row| row.0)
}

impl UnaryOp {
    /// The operator as written: `-`, `!`, `not` … or a function's name.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Neg => "-",
            Self::Not => "!",
            Self::BitNot => "~~",
            op => name_in(UNARY_FUNCTIONS, &op).expect("every other operator is a function"),
        }
    }
}

impl BinaryOp {
    /// The operator as written: an infix sign or a function's name.
    pub fn symbol(self) -> &'static str {
        INFIX
            .iter()
            .find(|row| row.1 == self)
            .map(|row| row.0)
            .or_else(|| name_in(BINARY_FUNCTIONS, &self))
            .expect("every operator is infix or a function")
    }

    /// Whether the result is a bool for operands of any scalar type. Comparisons do not chain.
    pub(crate) fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge
        )
    }
}

impl Agg {
    /// The reduction without parameters that is called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        let row = PLAIN_AGGS.iter().find(|row| row.0 == name);
        row.map(|row| row.1)
    }

    /// The reduction's word, without parameters; `custom` for user-defined ones.
    pub fn name(self) -> &'static str {
        match self {
            Self::Var { .. } => "var",
            Self::Std { .. } => "std",
            Self::Skew { .. } => "skew",
            Self::Kurtosis { .. } => "kurtosis",
            Self::Quantile { .. } => "quantile",
            Self::TopK { .. } => "top_k",
            Self::Ewm { .. } => "ewm",
            Self::Custom(_) => "custom",
            agg => name_in(PLAIN_AGGS, &agg).expect("every other reduction is plain"),
        }
    }
}
