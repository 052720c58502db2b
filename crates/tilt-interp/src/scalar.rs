//! Operators and casts on values that are not φ, except where φ is the point.

use std::cmp::Ordering;

use tilt_ir::{BinaryOp, DType, FloatWidth, UnaryOp, Unit, Width, round_to};

use crate::{Value, calendar, value::order_floats};

/// `op a` for an operand of type `dtype`. Strict in φ. `None` for operands that typing excludes.
pub(crate) fn unary(op: UnaryOp, a: &Value, dtype: &DType) -> Option<Value> {
    Some(match (a, dtype) {
        (Value::Null, _) => Value::Null,
        (Value::Bool(a), _) if op == UnaryOp::Not => Value::Bool(!a),
        (Value::Int(a), DType::Timestamp(unit)) => match op {
            UnaryOp::Part(part) => calendar::part(part, *a, *unit).into(),
            _ => return None,
        },
        (Value::Int(a), dtype) => Value::Int(wrap_signed(
            match op {
                UnaryOp::Neg => a.wrapping_neg(),
                UnaryOp::BitNot => !a,
                UnaryOp::Abs => a.wrapping_abs(),
                UnaryOp::Sign => a.signum(),
                _ => return None,
            },
            dtype,
        )),
        (Value::UInt(a), dtype) => Value::UInt(wrap_unsigned(
            match op {
                UnaryOp::BitNot => !a,
                UnaryOp::Abs => *a,
                UnaryOp::Sign => (*a).min(1),
                _ => return None,
            },
            dtype,
        )),
        (Value::Float(a), DType::Float(width)) => match op {
            UnaryOp::IsNan => Value::Bool(a.is_nan()),
            UnaryOp::IsFinite => Value::Bool(a.is_finite()),
            UnaryOp::IsInfinite => Value::Bool(a.is_infinite()),
            op => Value::Float(round_to(*width, float_function(op, *a)?)),
        },
        _ => return None,
    })
}

fn float_function(op: UnaryOp, a: f64) -> Option<f64> {
    use UnaryOp::*;
    Some(match op {
        Neg => -a,
        Abs => a.abs(),
        Sign if a.is_nan() || a == 0.0 => a,
        Sign => 1f64.copysign(a),
        Sqrt => libm::sqrt(a),
        Cbrt => libm::cbrt(a),
        Exp => libm::exp(a),
        Exp2 => libm::exp2(a),
        Expm1 => libm::expm1(a),
        Log => libm::log(a),
        Log2 => libm::log2(a),
        Log10 => libm::log10(a),
        Log1p => libm::log1p(a),
        Sin => libm::sin(a),
        Cos => libm::cos(a),
        Tan => libm::tan(a),
        Asin => libm::asin(a),
        Acos => libm::acos(a),
        Atan => libm::atan(a),
        Sinh => libm::sinh(a),
        Cosh => libm::cosh(a),
        Tanh => libm::tanh(a),
        Asinh => libm::asinh(a),
        Acosh => libm::acosh(a),
        Atanh => libm::atanh(a),
        Floor => a.floor(),
        Ceil => a.ceil(),
        Trunc => a.trunc(),
        Round => a.round_ties_even(),
        Not | BitNot | IsNan | IsFinite | IsInfinite | Part(_) => return None,
    })
}

/// `a op b` for a left operand of type `dtype`. `None` for operands that typing excludes.
pub(crate) fn binary(op: BinaryOp, a: &Value, b: &Value, dtype: &DType) -> Option<Value> {
    use BinaryOp::*;
    if let And | Or = op {
        return kleene(op, a, b);
    }
    if a.is_null() || b.is_null() {
        return Some(Value::Null);
    }
    if let Eq | Ne | Lt | Le | Gt | Ge = op {
        return compare(op, a, b).map(Value::Bool);
    }
    if let Min | Max = op {
        return Some(lesser_or_greater(op, a, b));
    }
    Some(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) if op == Xor => Value::Bool(a ^ b),
        (Value::Int(a), Value::Int(b)) => {
            let result = signed(op, *a, *b, width(dtype))?;
            result.map(|v| wrap_signed(v, dtype)).into()
        }
        (Value::UInt(a), Value::UInt(b)) => {
            let result = unsigned(op, *a, *b, width(dtype))?;
            result.map(|v| wrap_unsigned(v, dtype)).into()
        }
        (Value::Float(a), Value::Float(b)) => {
            let DType::Float(width) = dtype else {
                return None;
            };
            Value::Float(round_to(*width, float(op, *a, *b)?))
        }
        _ => return None,
    })
}

fn kleene(op: BinaryOp, a: &Value, b: &Value) -> Option<Value> {
    let truth = |v: &Value| match v {
        Value::Null => Some(None),
        Value::Bool(v) => Some(Some(*v)),
        _ => None,
    };
    // The value that decides alone: false for `and`, true for `or`.
    let decides = op == BinaryOp::Or;
    Some(match (truth(a)?, truth(b)?) {
        (Some(v), _) | (_, Some(v)) if v == decides => Value::Bool(decides),
        (Some(_), Some(_)) => Value::Bool(!decides),
        _ => Value::Null,
    })
}

/// Comparison as an operator: NaN compares like nothing, -0 equals +0.
fn compare(op: BinaryOp, a: &Value, b: &Value) -> Option<bool> {
    let order = match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (a, b) => Some(a.order(b)),
    };
    Some(match op {
        BinaryOp::Eq => order == Some(Ordering::Equal),
        BinaryOp::Ne => order != Some(Ordering::Equal),
        BinaryOp::Lt => order == Some(Ordering::Less),
        BinaryOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        BinaryOp::Gt => order == Some(Ordering::Greater),
        BinaryOp::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        _ => return None,
    })
}

/// Whether `a` beats `b` under `Min` or `Max`: strictly below or above it, and a number beats NaN.
pub(crate) fn beats(op: BinaryOp, a: &Value, b: &Value) -> bool {
    let order = match (a, b) {
        (Value::Float(a), Value::Float(b)) if a.is_nan() || b.is_nan() => {
            return !a.is_nan() && b.is_nan();
        }
        (a, b) => a.order(b),
    };
    match op {
        BinaryOp::Min => order.is_lt(),
        _ => order.is_gt(),
    }
}

fn lesser_or_greater(op: BinaryOp, a: &Value, b: &Value) -> Value {
    if beats(op, b, a) { b } else { a }.clone()
}

/// `clip(x, lo, hi)`: strict in φ, keeps a NaN `x`, `hi` wins over `lo`, a NaN bound is no bound.
pub(crate) fn clip(x: &Value, lo: &Value, hi: &Value) -> Value {
    if x.is_null() || lo.is_null() || hi.is_null() {
        return Value::Null;
    }
    if matches!(x, Value::Float(x) if x.is_nan()) {
        return x.clone();
    }
    let above = lesser_or_greater(BinaryOp::Max, x, lo);
    lesser_or_greater(BinaryOp::Min, &above, hi)
}

/// The inner `None` is φ.
#[allow(clippy::option_option)]
fn signed(op: BinaryOp, a: i64, b: i64, bits: u32) -> Option<Option<i64>> {
    use BinaryOp::*;
    Some(match op {
        Add => Some(a.wrapping_add(b)),
        Sub => Some(a.wrapping_sub(b)),
        Mul => Some(a.wrapping_mul(b)),
        Div => (b != 0).then(|| {
            let rounded_up = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
            a.wrapping_div(b) - i64::from(rounded_up)
        }),
        Rem => (b != 0).then(|| {
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }
        }),
        Pow => u64::try_from(b)
            .ok()
            .map(|exponent| power(a as u64, exponent) as i64),
        BitAnd => Some(a & b),
        BitOr => Some(a | b),
        BitXor => Some(a ^ b),
        Shl => (0..i64::from(bits)).contains(&b).then(|| a << b),
        Shr => (0..i64::from(bits)).contains(&b).then(|| a >> b),
        _ => return None,
    })
}

/// The inner `None` is φ.
#[allow(clippy::option_option)]
fn unsigned(op: BinaryOp, a: u64, b: u64, bits: u32) -> Option<Option<u64>> {
    use BinaryOp::*;
    Some(match op {
        Add => Some(a.wrapping_add(b)),
        Sub => Some(a.wrapping_sub(b)),
        Mul => Some(a.wrapping_mul(b)),
        Div => a.checked_div(b),
        Rem => a.checked_rem(b),
        Pow => Some(power(a, b)),
        BitAnd => Some(a & b),
        BitOr => Some(a | b),
        BitXor => Some(a ^ b),
        Shl => (b < u64::from(bits)).then(|| a << b),
        Shr => (b < u64::from(bits)).then(|| a >> b),
        _ => return None,
    })
}

/// `base^exponent` modulo 2^64, which wrapped to fewer bits is also the power modulo those.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1u64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

fn float(op: BinaryOp, a: f64, b: f64) -> Option<f64> {
    use BinaryOp::*;
    Some(match op {
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / b,
        Rem => {
            let rest = libm::fmod(a, b);
            if rest == 0.0 {
                0f64.copysign(b)
            } else if (rest < 0.0) != (b < 0.0) {
                rest + b
            } else {
                rest
            }
        }
        Pow => libm::pow(a, b),
        Atan2 => libm::atan2(a, b),
        Hypot => libm::hypot(a, b),
        _ => return None,
    })
}

/// `cast(a, to)`: φ where the value does not fit. `None` for casts that typing excludes.
pub(crate) fn cast(a: &Value, from: &DType, to: &DType) -> Option<Value> {
    use DType::{Duration, Timestamp};
    Some(match (a, to) {
        (Value::Null, _) => Value::Null,
        (Value::Bool(_), DType::Bool) => a.clone(),
        (Value::Bool(v), to) => integer(i128::from(*v), to)?,
        (Value::Int(v), Timestamp(to) | Duration(to)) => match from {
            Timestamp(from) | Duration(from) => convert_ticks(*v, *from, *to)?.into(),
            _ => a.clone(),
        },
        (Value::Int(v), to) => integer(i128::from(*v), to)?,
        (Value::UInt(v), to) => integer(i128::from(*v), to)?,
        (Value::Float(v), DType::Float(width)) => Value::Float(round_to(*width, *v)),
        // Saturates far outside of every integer type.
        (Value::Float(v), _) if v.is_finite() => integer(*v as i128, to)?,
        (Value::Float(_), _) => Value::Null,
        _ => return None,
    })
}

/// An integer as a number of type `to`, φ where it does not fit.
fn integer(v: i128, to: &DType) -> Option<Value> {
    let bits = width(to);
    Some(match to {
        DType::Int(_) => {
            let half = 1i128 << (bits - 1);
            let fits = (-half..half).contains(&v);
            fits.then_some(v as i64).into()
        }
        DType::UInt(_) => {
            let fits = (0..1i128 << bits).contains(&v);
            fits.then_some(v as u64).into()
        }
        // Rounded once: by way of f64 there would be two roundings.
        DType::Float(FloatWidth::W32) => Value::Float(f64::from(v as f32)),
        // What f64 cannot hold exactly is infinite in f16.
        DType::Float(width) => Value::Float(round_to(*width, v as f64)),
        _ => return None,
    })
}

/// The inner `None` is φ.
#[allow(clippy::option_option)]
fn convert_ticks(v: i64, from: Unit, to: Unit) -> Option<Option<i64>> {
    if from == to {
        return Some(Some(v));
    }
    let (from, to) = (from.per_second()?, to.per_second()?);
    Some(if to >= from {
        v.checked_mul(to / from)
    } else {
        Some(v.div_euclid(from / to))
    })
}

/// The number as a double, for reductions. Bools and strings have none.
pub(crate) fn as_double(v: &Value) -> Option<f64> {
    match v {
        Value::Int(v) => Some(*v as f64),
        Value::UInt(v) => Some(*v as f64),
        Value::Float(v) => Some(*v),
        _ => None,
    }
}

/// Doubles sorted upwards with NaN last.
pub(crate) fn sort_doubles(values: &mut [f64]) {
    values.sort_by(|a, b| order_floats(*a, *b));
}

fn width(dtype: &DType) -> u32 {
    match dtype {
        DType::Int(width) | DType::UInt(width) => width.bits(),
        _ => Width::W64.bits(),
    }
}

fn wrap_signed(v: i64, dtype: &DType) -> i64 {
    let unused = 64 - width(dtype);
    (v << unused) >> unused
}

fn wrap_unsigned(v: u64, dtype: &DType) -> u64 {
    let unused = 64 - width(dtype);
    (v << unused) >> unused
}

#[cfg(test)]
mod tests {
    use BinaryOp::*;

    use super::*;

    const I8: DType = DType::Int(Width::W8);
    const U8: DType = DType::UInt(Width::W8);
    const F16: DType = DType::Float(FloatWidth::W16);

    #[track_caller]
    fn check(
        op: BinaryOp,
        a: impl Into<Value>,
        b: impl Into<Value>,
        dtype: &DType,
        expected: impl Into<Value>,
    ) {
        let (a, b, expected) = (a.into(), b.into(), expected.into());
        let found = binary(op, &a, &b, dtype).expect("the operator takes these");
        assert!(
            found.same(&expected),
            "{a} {} {b} = {found}, not {expected}",
            op.symbol()
        );
    }

    fn null() -> Value {
        Value::Null
    }

    #[test]
    fn integer_division_rounds_down_and_the_remainder_has_the_divisors_sign() {
        // Python: divmod(7, 3), divmod(-7, 3), divmod(7, -3), divmod(-7, -3)
        for (a, b, quotient, rest) in [
            (7, 3, 2, 1),
            (-7, 3, -3, 2),
            (7, -3, -3, -2),
            (-7, -3, 2, -1),
        ] {
            check(Div, a, b, &DType::I64, quotient);
            check(Rem, a, b, &DType::I64, rest);
        }
        check(Div, 1, 0, &DType::I64, null());
        check(Rem, 1, 0, &DType::I64, null());
        check(Div, i64::MIN, -1, &DType::I64, i64::MIN);
        check(Rem, i64::MIN, -1, &DType::I64, 0);
        check(Div, -128, -1, &I8, -128);
        check(Div, 7u64, 2u64, &U8, 3u64);
        check(Div, 7u64, 0u64, &U8, null());
    }

    #[test]
    fn integer_arithmetic_wraps_at_its_width() {
        check(Add, i64::MAX, 1, &DType::I64, i64::MIN);
        check(Add, 127, 1, &I8, -128);
        check(Mul, 16, 16, &I8, 0);
        check(Sub, 0u64, 1u64, &U8, 255u64);
        let neg = unary(UnaryOp::Neg, &Value::Int(-128), &I8).unwrap();
        let abs = unary(UnaryOp::Abs, &Value::Int(i64::MIN), &DType::I64).unwrap();
        let not = unary(UnaryOp::BitNot, &Value::UInt(1), &U8).unwrap();
        assert!(neg.same(&Value::Int(-128)) && abs.same(&Value::Int(i64::MIN)));
        assert!(not.same(&Value::UInt(254)));
        let seconds = DType::Timestamp(Unit::Second);
        check(Sub, i64::MIN, 1, &seconds, i64::MAX);
    }

    #[test]
    fn integer_powers_wrap_and_negative_exponents_give_null() {
        check(Pow, 3, 4, &DType::I64, 81);
        check(Pow, -2, 63, &DType::I64, i64::MIN);
        check(Pow, 3, 5, &I8, -13); // 243 - 256
        check(Pow, 0, 0, &DType::I64, 1);
        check(Pow, 2, -1, &DType::I64, null());
        check(
            Pow,
            3u64,
            i64::MAX as u64,
            &DType::U64,
            12_297_829_382_473_034_411u64,
        );
    }

    #[test]
    fn shifts_beyond_the_width_give_null() {
        check(Shl, 1, 7, &I8, -128);
        check(Shl, 1, 8, &I8, null());
        check(Shl, 1, -1, &I8, null());
        check(Shr, -128, 7, &I8, -1);
        check(Shr, 128u64, 7u64, &U8, 1u64);
        check(Shr, 1u64, 64u64, &DType::U64, null());
    }

    #[test]
    fn and_and_or_are_kleene_and_xor_is_strict() {
        let values = [Value::Bool(false), Value::Bool(true), Value::Null];
        let tables = [(And, "fffftnfnn"), (Or, "ftntttntn"), (Xor, "ftntfnnnn")];
        for (op, expected) in tables {
            let mut found = String::new();
            for a in &values {
                for b in &values {
                    found.push(match binary(op, a, b, &DType::Bool).unwrap() {
                        Value::Bool(true) => 't',
                        Value::Bool(false) => 'f',
                        _ => 'n',
                    });
                }
            }
            assert_eq!(found, expected, "{}", op.symbol());
        }
    }

    #[test]
    fn float_remainder_is_pythons() {
        for (a, b, rest) in [
            (5.5, 2.0, 1.5),
            (-5.5, 2.0, 0.5),
            (5.5, -2.0, -0.5),
            (-1.0, f64::INFINITY, f64::INFINITY),
            (4.0, -2.0, -0.0),
            (-4.0, 2.0, 0.0),
            (1.0, 0.0, f64::NAN),
            (f64::INFINITY, 2.0, f64::NAN),
        ] {
            check(Rem, a, b, &DType::F64, rest);
        }
    }

    #[test]
    fn nan_loses_against_numbers_and_compares_like_nothing() {
        let nan = f64::NAN;
        check(Min, nan, 1.0, &DType::F64, 1.0);
        check(Max, 1.0, nan, &DType::F64, 1.0);
        check(Max, nan, nan, &DType::F64, nan);
        check(Min, 0.0, -0.0, &DType::F64, -0.0);
        check(Max, -0.0, 0.0, &DType::F64, 0.0);
        check(Eq, nan, nan, &DType::F64, false);
        check(Ne, nan, nan, &DType::F64, true);
        check(Le, nan, 1.0, &DType::F64, false);
        check(Eq, 0.0, -0.0, &DType::F64, true);
        check(Lt, "Z", "a", &DType::Utf8, true);
        check(Max, false, true, &DType::Bool, true);
        check(Add, Value::Null, 1.0, &DType::F64, null());
    }

    #[test]
    fn clip_keeps_nan_and_the_upper_bound_wins() {
        let clipped = |x: f64, lo: f64, hi: f64| clip(&x.into(), &lo.into(), &hi.into());
        assert!(clipped(5.0, 0.0, 2.0).same(&2.0.into()));
        assert!(clipped(-5.0, 3.0, 2.0).same(&2.0.into()));
        assert!(clipped(f64::NAN, 0.0, 1.0).same(&f64::NAN.into()));
        assert!(clipped(5.0, f64::NAN, f64::NAN).same(&5.0.into()));
        assert!(clip(&1.0.into(), &Value::Null, &2.0.into()).is_null());
    }

    #[test]
    fn narrow_floats_are_rounded_doubles() {
        check(Add, 2048.0, 1.0, &F16, 2048.0);
        check(Mul, 300.0, 300.0, &F16, f64::INFINITY);
        check(Div, 1.0, 3.0, &DType::F32, f64::from(1f32 / 3f32));
        let sine = unary(UnaryOp::Sin, &Value::Float(1.0), &DType::F32).unwrap();
        assert!(sine.same(&f64::from(libm::sin(1.0) as f32).into()));
    }

    #[test]
    fn sign_and_round() {
        let of = |op, v: f64| unary(op, &Value::Float(v), &DType::F64).unwrap();
        assert!(of(UnaryOp::Sign, -0.0).same(&(-0.0).into()));
        assert!(of(UnaryOp::Sign, -3.0).same(&(-1.0).into()));
        assert!(of(UnaryOp::Sign, f64::NAN).same(&f64::NAN.into()));
        assert!(of(UnaryOp::Round, 2.5).same(&2.0.into()));
        assert!(of(UnaryOp::Round, -0.5).same(&(-0.0).into()));
    }

    #[test]
    fn casts_that_do_not_fit_give_null() {
        let to = |v: Value, from: &DType, to: &DType| cast(&v, from, to).unwrap();
        let (i64_, u64_, f64_) = (DType::I64, DType::U64, DType::F64);
        assert!(to(200.into(), &i64_, &I8).is_null());
        assert!(to((-1).into(), &i64_, &u64_).is_null());
        assert!(to(u64::MAX.into(), &u64_, &i64_).is_null());
        assert!(to(200.into(), &i64_, &U8).same(&200u64.into()));
        assert!(to((-127.9).into(), &f64_, &I8).same(&(-127).into()));
        assert!(to((-0.9).into(), &f64_, &U8).same(&0u64.into()));
        assert!(to(f64::NAN.into(), &f64_, &i64_).is_null());
        assert!(to(f64::INFINITY.into(), &f64_, &i64_).is_null());
        assert!(to(9_223_372_036_854_775_808.0.into(), &f64_, &i64_).is_null());
        assert!(to((-9_223_372_036_854_775_808.0).into(), &f64_, &i64_).same(&i64::MIN.into()));
        assert!(to(1e300.into(), &f64_, &DType::F32).same(&f64::INFINITY.into()));
        assert!(to(true.into(), &DType::Bool, &f64_).same(&1.0.into()));
        // 2^54 + 2^30 + 1 lies above the middle of two f32 neighbours; by way of f64 it would fall on it and go to even.
        let above_middle = (1i64 << 54) + (1 << 30) + 1;
        let rounded = (1i64 << 54) + (1 << 31);
        assert!(to(above_middle.into(), &i64_, &DType::F32).same(&(rounded as f64).into()));
    }

    #[test]
    fn times_cast_to_finer_units_exactly_and_to_coarser_ones_downwards() {
        let ts = DType::Timestamp;
        let to = |v: i64, from: Unit, to: Unit| cast(&v.into(), &ts(from), &ts(to)).unwrap();
        assert!(to(3, Unit::Second, Unit::Nano).same(&3_000_000_000i64.into()));
        assert!(to(i64::MAX, Unit::Second, Unit::Milli).is_null());
        assert!(to(-1, Unit::Milli, Unit::Second).same(&(-1).into()));
        assert!(to(1999, Unit::Milli, Unit::Second).same(&1.into()));
        let ticks = cast(&7.into(), &ts(Unit::Second), &DType::I64).unwrap();
        assert!(ticks.same(&7.into()));
    }
}
