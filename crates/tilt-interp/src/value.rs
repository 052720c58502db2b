//! Values: what a stream holds at a position.

use std::{cmp::Ordering, fmt, sync::Arc};

use tilt_ir::{DType, Scalar};

/// A value of any type, or φ.
///
/// The type stands beside it in the program: `Int` serves all signed integers, timestamps and durations, `Float` all
/// floats (rounded to the width of their type).
#[derive(Clone, Debug)]
pub enum Value {
    /// φ.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer, a timestamp or a duration.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float.
    Float(f64),
    /// Text.
    Str(Arc<str>),
    /// Fields in the order of the type. Each may be φ; the record is not.
    Record(Arc<[Value]>),
    /// What `collect` and `top_k` return.
    List(Arc<[Value]>),
}

impl Value {
    /// A record from its fields in order.
    pub fn record(fields: impl IntoIterator<Item = Value>) -> Self {
        Self::Record(fields.into_iter().collect())
    }

    /// A list from its items in order.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Self {
        Self::List(items.into_iter().collect())
    }

    /// Whether this is φ.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether both are the same value: all NaN are, everything else is compared by its bits, so -0 is not +0.
    ///
    /// ```
    /// use tilt_interp::Value;
    /// assert!(Value::Float(f64::NAN).same(&Value::Float(-f64::NAN)));
    /// assert!(!Value::Float(0.0).same(&Value::Float(-0.0)));
    /// ```
    pub fn same(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }

    /// A total order in which [`same`](Self::same) values are equal: φ first, numbers by size with -0 below +0 and NaN
    /// last, strings by bytes, records and lists item by item.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::UInt(a), Self::UInt(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => order_floats(*a, *b),
            (Self::Str(a), Self::Str(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Record(a), Self::Record(b)) | (Self::List(a), Self::List(b)) => {
                let items = a.iter().zip(b.iter()).map(|(a, b)| a.order(b));
                let differs = items.into_iter().find(|o| o.is_ne());
                differs.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (a, b) => a.kind().cmp(&b.kind()),
        }
    }

    /// Whether a stream of type `dtype` may hold this. φ fits every type.
    pub fn fits(&self, dtype: &DType) -> bool {
        match (self, dtype) {
            (Self::Null, _) | (Self::Bool(_), DType::Bool) | (Self::Str(_), DType::Utf8) => true,
            (Self::Int(v), dtype) => Scalar::Int(*v).fits(dtype),
            (Self::UInt(v), dtype) => Scalar::UInt(*v).fits(dtype),
            (Self::Float(v), dtype) => Scalar::Float(*v).fits(dtype),
            (Self::Record(values), DType::Record(fields)) => {
                values.len() == fields.len()
                    && values.iter().zip(fields).all(|(v, f)| v.fits(&f.dtype))
            }
            (Self::List(items), DType::List(item)) => {
                items.iter().all(|v| !v.is_null() && v.fits(item))
            }
            _ => false,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::UInt(_) => 3,
            Self::Float(_) => 4,
            Self::Str(_) => 5,
            Self::Record(_) => 6,
            Self::List(_) => 7,
        }
    }
}

/// Floats by size, -0 below +0, NaN last.
pub(crate) fn order_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

/// A value as a key of a sorted map, by [`Value::order`].
#[derive(Clone, Debug)]
pub(crate) struct Ordered(pub(crate) Value);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}

impl From<i32> for Value {
    fn from(v: i32) -> Self {
        Self::Int(v.into())
    }
}

impl From<i64> for Value {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

impl From<u64> for Value {
    fn from(v: u64) -> Self {
        Self::UInt(v)
    }
}

impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Self::Float(v)
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Self::Str(v.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Self {
        v.map_or(Self::Null, Into::into)
    }
}

impl From<&Scalar> for Value {
    fn from(scalar: &Scalar) -> Self {
        match scalar {
            Scalar::Bool(v) => Self::Bool(*v),
            Scalar::Int(v) => Self::Int(*v),
            Scalar::UInt(v) => Self::UInt(*v),
            Scalar::Float(v) => Self::Float(*v),
            Scalar::Str(v) => Self::Str(v.as_str().into()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = |f: &mut fmt::Formatter<'_>, open, items: &[Value], close| {
            f.write_str(open)?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(close)
        };
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(v) => write!(f, "{v}"),
            Self::Int(v) => write!(f, "{v}"),
            Self::UInt(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Str(v) => write!(f, "{v:?}"),
            Self::Record(fields) => items(f, "{", fields, "}"),
            Self::List(values) => items(f, "[", values, "]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tilt_ir::{Field, FloatWidth, Unit, Width};

    use super::*;

    #[test]
    fn all_nan_are_the_same_and_zeros_are_not() {
        let float = |v: f64| Value::Float(v);
        assert!(float(f64::from_bits(0x7ff8_0000_0000_0001)).same(&float(-f64::NAN)));
        assert!(!float(0.0).same(&float(-0.0)));
        assert!(!Value::Int(1).same(&Value::UInt(1)));
        assert!(
            Value::record([float(f64::NAN), Value::Null])
                .same(&Value::record([float(-f64::NAN), Value::Null]))
        );
        assert!(!Value::list([1.into()]).same(&Value::list([1.into(), 2.into()])));
        assert_eq!(
            float(f64::NAN).order(&float(f64::INFINITY)),
            Ordering::Greater
        );
        assert_eq!(Value::Null.order(&false.into()), Ordering::Less);
    }

    #[test]
    fn a_value_fits_its_own_type_and_width() {
        assert!(Value::Int(-128).fits(&DType::Int(Width::W8)));
        assert!(!Value::Int(128).fits(&DType::Int(Width::W8)));
        assert!(Value::Int(128).fits(&DType::Duration(Unit::Second)));
        assert!(!Value::Float(0.1).fits(&DType::Float(FloatWidth::W32)));
        assert!(!Value::UInt(1).fits(&DType::I64));
        let record = DType::Record(vec![Field {
            name: "p".into(),
            dtype: DType::F64,
        }]);
        assert!(Value::record([Value::Null]).fits(&record));
        assert!(!Value::record([]).fits(&record));
        assert!(!Value::record([1.into()]).fits(&record));
    }
}
