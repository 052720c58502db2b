//! Constants, which take their type from the value they meet.

use super::Stream;
use crate::{
    time::Unit,
    types::{DType, FloatWidth, Scalar, round_to},
};

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// φ.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer; takes the integer or float type it meets, if it fits.
    Int(i64),
    /// An integer beyond 63 bits.
    UInt(u64),
    /// A float; takes the float type it meets.
    Float(f64),
    /// Text.
    Str(String),
    /// An instant in ticks of a unit.
    Timestamp(i64, Unit),
    /// A length of time in ticks of a unit.
    Duration(i64, Unit),
}

/// A stream or a constant.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A stream.
    Stream(Stream),
    /// A constant.
    Literal(Literal),
}

impl Operand {
    pub(super) fn stream(&self) -> Option<&Stream> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Literal(_) => None,
        }
    }
}

impl Literal {
    /// The type of the constant beside a value of type `other`, or on its own.
    pub(super) fn dtype(&self, other: Option<&DType>) -> DType {
        let finest = |unit: Unit| match other {
            Some(DType::Timestamp(u) | DType::Duration(u)) => unit.max(*u),
            _ => unit,
        };
        match (self, other) {
            (Self::Null, Some(other)) => other.clone(),
            (Self::Null | Self::Float(_), None) => DType::F64,
            (Self::Bool(_), _) => DType::Bool,
            (Self::Str(_), _) => DType::Utf8,
            (Self::Int(_) | Self::UInt(_), Some(other))
                if other.is_float() || self.scalar(other).is_some() =>
            {
                other.clone()
            }
            (Self::Int(_), _) => DType::I64,
            (Self::UInt(_), _) => DType::U64,
            (Self::Float(_), Some(other)) if other.is_float() => other.clone(),
            (Self::Float(_), _) => DType::F64,
            (Self::Timestamp(_, unit), _) => DType::Timestamp(finest(*unit)),
            (Self::Duration(_, unit), _) => DType::Duration(finest(*unit)),
        }
    }

    /// The constant in a type, if the type can hold it. Floats are rounded to it.
    pub(super) fn scalar(&self, dtype: &DType) -> Option<Scalar> {
        let float = |value: f64, width: FloatWidth| Scalar::Float(round_to(width, value));
        let scalar = match (self, dtype) {
            (Self::Bool(value), DType::Bool) => Scalar::Bool(*value),
            (Self::Str(value), DType::Utf8) => Scalar::Str(value.clone()),
            (Self::Int(value), DType::Int(_)) => Scalar::Int(*value),
            (Self::Int(value), DType::UInt(_)) => Scalar::UInt(u64::try_from(*value).ok()?),
            (Self::UInt(value), DType::UInt(_)) => Scalar::UInt(*value),
            (Self::UInt(value), DType::Int(_)) => Scalar::Int(i64::try_from(*value).ok()?),
            (Self::Int(value), DType::Float(width)) => float(*value as f64, *width),
            (Self::UInt(value), DType::Float(width)) => float(*value as f64, *width),
            (Self::Float(value), DType::Float(width)) => float(*value, *width),
            (Self::Timestamp(ticks, unit), DType::Timestamp(to))
            | (Self::Duration(ticks, unit), DType::Duration(to)) => {
                Scalar::Int(unit.convert(*ticks, *to)?)
            }
            _ => return None,
        };
        scalar.fits(dtype).then_some(scalar)
    }
}

macro_rules! from_number {
    ($($number:ty => $variant:ident),*) => {$(
        impl From<$number> for Literal {
            fn from(value: $number) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from_number!(bool => Bool, i32 => Int, i64 => Int, u32 => Int, u64 => UInt, f32 => Float, f64 => Float, String => Str, &str => Str);

impl<T: Into<Literal>> From<T> for Operand {
    fn from(value: T) -> Self {
        Self::Literal(value.into())
    }
}

impl From<Stream> for Operand {
    fn from(stream: Stream) -> Self {
        Self::Stream(stream)
    }
}

impl From<&Stream> for Operand {
    fn from(stream: &Stream) -> Self {
        Self::Stream(stream.clone())
    }
}
