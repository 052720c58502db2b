//! Value types and constants.

use std::fmt;

use crate::time::Unit;

/// The type of a value. φ (an Arrow null) belongs to every type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DType {
    /// Truth value with Kleene logic.
    Bool,
    /// Signed integer of 8, 16, 32 or 64 bits.
    Int(Width),
    /// Unsigned integer of 8, 16, 32 or 64 bits.
    UInt(Width),
    /// IEEE 754 float of 16, 32 or 64 bits.
    Float(FloatWidth),
    /// An instant, counted in the unit.
    Timestamp(Unit),
    /// A signed length of time, counted in the unit.
    Duration(Unit),
    /// UTF-8 text: equality and ordering by bytes.
    Utf8,
    /// Named fields, each of which may be φ on its own.
    Record(Vec<Field>),
    /// What `collect` and `top_k` return: values in order, none of them φ.
    List(Box<DType>),
}

/// Bits of an integer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Width {
    W8,
    W16,
    W32,
    W64,
}

impl Width {
    /// All widths, narrow first.
    pub const ALL: [Self; 4] = [Self::W8, Self::W16, Self::W32, Self::W64];

    /// The number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::W8 => 8,
            Self::W16 => 16,
            Self::W32 => 32,
            Self::W64 => 64,
        }
    }
}

/// Bits of a float.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum FloatWidth {
    W16,
    W32,
    W64,
}

impl FloatWidth {
    /// The number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::W16 => 16,
            Self::W32 => 32,
            Self::W64 => 64,
        }
    }
}

/// A named field of a record type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// Unique within its record.
    pub name: String,
    /// The field's type.
    pub dtype: DType,
}

impl DType {
    /// 64-bit signed integer: the type of a bare integer literal and of `len`.
    pub const I64: Self = Self::Int(Width::W64);
    /// 32-bit signed integer.
    pub const I32: Self = Self::Int(Width::W32);
    /// 64-bit unsigned integer.
    pub const U64: Self = Self::UInt(Width::W64);
    /// 32-bit float.
    pub const F32: Self = Self::Float(FloatWidth::W32);
    /// 64-bit float: the type of a bare float literal.
    pub const F64: Self = Self::Float(FloatWidth::W64);

    /// Signed or unsigned integer.
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Int(_) | Self::UInt(_))
    }

    /// Any float.
    pub fn is_float(&self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// Integer or float.
    pub fn is_number(&self) -> bool {
        self.is_integer() || self.is_float()
    }

    /// Has `<`, `min`, `max`.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Record(_) | Self::List(_))
    }

    /// Neither a record nor a list.
    pub fn is_scalar(&self) -> bool {
        self.is_ordered()
    }

    /// The type of field `name`, if this is a record that has it.
    pub fn field(&self, name: &str) -> Option<&DType> {
        let Self::Record(fields) = self else {
            return None;
        };
        fields.iter().find(|f| f.name == name).map(|f| &f.dtype)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int(w) => write!(f, "i{}", w.bits()),
            Self::UInt(w) => write!(f, "u{}", w.bits()),
            Self::Float(w) => write!(f, "f{}", w.bits()),
            Self::Timestamp(unit) => write!(f, "timestamp({unit})"),
            Self::Duration(unit) => write!(f, "duration({unit})"),
            Self::Utf8 => f.write_str("utf8"),
            Self::Record(fields) => {
                f.write_str("{")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", field.name, field.dtype)?;
                }
                f.write_str("}")
            }
            Self::List(item) => write!(f, "list({item})"),
        }
    }
}

/// A constant. Its [`DType`] stands beside it in the expression node and decides how the payload is read:
/// `Int` serves signed integers, timestamps and durations, `UInt` unsigned integers, `Float` all floats.
#[derive(Clone, Debug)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// Signed integer, timestamp or duration.
    Int(i64),
    /// Unsigned integer.
    UInt(u64),
    /// A float, exactly representable in the node's type. Compared by bits.
    Float(f64),
    /// Text.
    Str(String),
}

impl Scalar {
    /// Whether the payload is one that a constant of type `dtype` may hold.
    pub fn fits(&self, dtype: &DType) -> bool {
        match (self, dtype) {
            (Self::Bool(_), DType::Bool) | (Self::Str(_), DType::Utf8) => true,
            (Self::Int(v), DType::Int(w)) => {
                let shift = 64 - w.bits();
                (v << shift) >> shift == *v
            }
            (Self::Int(_), DType::Timestamp(_) | DType::Duration(_)) => true,
            (Self::UInt(v), DType::UInt(w)) => {
                let shift = 64 - w.bits();
                (v << shift) >> shift == *v
            }
            (Self::Float(v), DType::Float(w)) => v.is_nan() || round_to(*w, *v) == *v,
            _ => false,
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::UInt(a), Self::UInt(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Str(a), Self::Str(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Bool(v) => v.hash(state),
            Self::Int(v) => v.hash(state),
            Self::UInt(v) => v.hash(state),
            Self::Float(v) => v.to_bits().hash(state),
            Self::Str(v) => v.hash(state),
        }
    }
}

/// `value` rounded to the nearest float of the width, ties to even.
///
/// Arithmetic on narrow floats is defined as the `f64` operation followed by this rounding; for `+ - * / sqrt` that is
/// the correctly rounded narrow result (53 bits are more than twice 24 plus two).
pub fn round_to(width: FloatWidth, value: f64) -> f64 {
    match width {
        FloatWidth::W64 => value,
        FloatWidth::W32 => f64::from(value as f32),
        FloatWidth::W16 => round_f16(value),
    }
}

/// Rounds to half precision without a half type: scale so that the last kept bit is the unit, round, scale back.
fn round_f16(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    // Ten fraction bits; below 2^-14 the spacing stays 2^-24 (subnormals).
    let ulp = 2f64.powi(exponent.max(-14) - 10);
    let rounded = (value / ulp).round_ties_even() * ulp;
    if rounded.abs() > 65504.0 {
        f64::INFINITY.copysign(value)
    } else if rounded == 0.0 {
        0f64.copysign(value)
    } else {
        rounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_rounding_keeps_halves_and_overflows_to_infinity() {
        assert_eq!(round_f16(1.0), 1.0);
        assert_eq!(round_f16(1.0 + 2f64.powi(-11)), 1.0, "tie goes to even");
        assert_eq!(round_f16(65504.0), 65504.0);
        assert_eq!(round_f16(65519.9), 65504.0);
        assert_eq!(round_f16(65520.0), f64::INFINITY);
        assert_eq!(round_f16(2f64.powi(-24)), 2f64.powi(-24));
        assert_eq!(round_f16(-2f64.powi(-26)).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn constants_fit_only_their_own_type() {
        assert!(Scalar::Int(-128).fits(&DType::Int(Width::W8)));
        assert!(!Scalar::Int(128).fits(&DType::Int(Width::W8)));
        assert!(Scalar::UInt(255).fits(&DType::UInt(Width::W8)));
        assert!(!Scalar::Float(0.1).fits(&DType::F32));
        assert!(!Scalar::Bool(true).fits(&DType::I64));
    }
}
