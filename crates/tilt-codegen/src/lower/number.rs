//! Operators on numbers, as `docs/ir.md` defines them. Each gives a value and where it is defined.

use tilt_ir::{BinaryOp, DType, TimePart, UnaryOp};

use super::{Body, Result, Unsupported, Valid, is_zero};
use crate::lir::{Binary, Compare, Imm, Ty, Unary, ValueId};

/// An operator of one operand of type `dtype`.
pub(super) fn unary(
    body: &mut Body,
    op: UnaryOp,
    a: ValueId,
    dtype: &DType,
) -> Result<(ValueId, Valid)> {
    let ty = body.ty(a);
    let value = match op {
        UnaryOp::Neg => body.unary(Unary::Neg, a),
        UnaryOp::Not | UnaryOp::BitNot => body.unary(Unary::Not, a),
        UnaryOp::Abs if ty.is_signed() || ty.is_float() => body.unary(Unary::Abs, a),
        UnaryOp::Abs => a,
        UnaryOp::Sign => sign(body, a),
        UnaryOp::Sqrt => in_float(body, a, Unary::Sqrt),
        UnaryOp::Floor => in_float(body, a, Unary::Floor),
        UnaryOp::Ceil => in_float(body, a, Unary::Ceil),
        UnaryOp::Trunc => in_float(body, a, Unary::Trunc),
        UnaryOp::Round => in_float(body, a, Unary::Round),
        UnaryOp::IsNan => body.compare(Compare::Ne, a, a),
        UnaryOp::IsFinite | UnaryOp::IsInfinite => {
            let op = if op == UnaryOp::IsFinite {
                Compare::Lt
            } else {
                Compare::Eq
            };
            let magnitude = body.unary(Unary::Abs, a);
            let infinity = body.float(ty, f64::INFINITY);
            body.compare(op, magnitude, infinity)
        }
        UnaryOp::Part(part) => return part_of(body, part, a, dtype),
        _ => math(body, function(op), &[a]),
    };
    Ok((value, Valid::Always))
}

/// A calendar field of a timestamp, φ where 32 bits do not hold it.
fn part_of(body: &mut Body, part: TimePart, a: ValueId, dtype: &DType) -> Result<(ValueId, Valid)> {
    let per_second = match dtype {
        DType::Timestamp(unit) => unit.per_second(),
        _ => None,
    };
    let per_second =
        per_second.ok_or_else(|| Unsupported(format!("a calendar field of a {dtype}")))?;
    let per_second = body.int(Ty::I64, per_second);
    let second = divide(body, a, per_second, true).0;
    let fraction = divide(body, a, per_second, false).0;
    let number = |body: &mut Body, value| body.int(Ty::I64, value);
    let per_day = number(body, 86_400);
    let day = divide(body, second, per_day, true).0;
    let of_day = divide(body, second, per_day, false).0;
    let (sixty, hour) = (number(body, 60), number(body, 3600));
    let nanos = |body: &mut Body| {
        let billion = body.int(Ty::I64, 1_000_000_000);
        let scale = divide(body, billion, per_second, true).0;
        body.binary(Binary::Mul, fraction, scale)
    };
    let value = match part {
        TimePart::Year => body.call("tilt_year", vec![day], Ty::I64),
        TimePart::Month => body.call("tilt_month", vec![day], Ty::I64),
        TimePart::Day => body.call("tilt_day", vec![day], Ty::I64),
        TimePart::OrdinalDay => body.call("tilt_ordinal_day", vec![day], Ty::I64),
        TimePart::Hour => divide(body, of_day, hour, true).0,
        TimePart::Minute => {
            let minutes = divide(body, of_day, sixty, true).0;
            divide(body, minutes, sixty, false).0
        }
        TimePart::Second => divide(body, of_day, sixty, false).0,
        TimePart::Nanosecond => nanos(body),
        TimePart::Microsecond | TimePart::Millisecond => {
            let nanos = nanos(body);
            let scale = if part == TimePart::Millisecond {
                1_000_000
            } else {
                1_000
            };
            let scale = number(body, scale);
            divide(body, nanos, scale, true).0
        }
        TimePart::Weekday => {
            // 1970-01-01 was a Thursday, the fourth day of its week.
            let (three, seven, one) = (number(body, 3), number(body, 7), number(body, 1));
            let shifted = body.binary(Binary::Add, day, three);
            let weekday = divide(body, shifted, seven, false).0;
            body.binary(Binary::Add, weekday, one)
        }
    };
    let narrow = body.convert(value, Ty::I32);
    let back = body.convert(narrow, Ty::I64);
    let fits = body.compare(Compare::Eq, back, value);
    Ok((narrow, body.valid_if(fits)))
}

/// The runtime's name of a mathematical function.
fn function(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Cbrt => "tilt_cbrt",
        UnaryOp::Exp => "tilt_exp",
        UnaryOp::Exp2 => "tilt_exp2",
        UnaryOp::Expm1 => "tilt_expm1",
        UnaryOp::Log => "tilt_log",
        UnaryOp::Log2 => "tilt_log2",
        UnaryOp::Log10 => "tilt_log10",
        UnaryOp::Log1p => "tilt_log1p",
        UnaryOp::Sin => "tilt_sin",
        UnaryOp::Cos => "tilt_cos",
        UnaryOp::Tan => "tilt_tan",
        UnaryOp::Asin => "tilt_asin",
        UnaryOp::Acos => "tilt_acos",
        UnaryOp::Atan => "tilt_atan",
        UnaryOp::Sinh => "tilt_sinh",
        UnaryOp::Cosh => "tilt_cosh",
        UnaryOp::Tanh => "tilt_tanh",
        UnaryOp::Asinh => "tilt_asinh",
        UnaryOp::Acosh => "tilt_acosh",
        UnaryOp::Atanh => "tilt_atanh",
        other => unreachable!("{other:?} is an instruction"),
    }
}

/// A function of doubles, rounded to the type of its operands.
fn math(body: &mut Body, name: &str, args: &[ValueId]) -> ValueId {
    let ty = body.ty(args[0]);
    let args = args.iter().map(|a| body.convert(*a, Ty::F64)).collect();
    let value = body.call(name, args, Ty::F64);
    body.convert(value, ty)
}

/// An instruction that floats have; integers are what they are rounded to.
fn in_float(body: &mut Body, a: ValueId, op: Unary) -> ValueId {
    if body.ty(a).is_float() {
        body.unary(op, a)
    } else {
        a
    }
}

/// -1, 0 or 1; NaN and zeros stay what they are.
fn sign(body: &mut Body, a: ValueId) -> ValueId {
    let ty = body.ty(a);
    let (zero, one, minus) = if ty.is_float() {
        (
            body.float(ty, 0.0),
            body.float(ty, 1.0),
            body.float(ty, -1.0),
        )
    } else {
        (body.int(ty, 0), body.int(ty, 1), body.int(ty, -1))
    };
    let positive = body.compare(Compare::Gt, a, zero);
    let rest = if ty.is_signed() || ty.is_float() {
        let negative = body.compare(Compare::Lt, a, zero);
        body.select(negative, minus, a)
    } else {
        a
    };
    body.select(positive, one, rest)
}

/// An operator of two operands, `and` and `or` aside.
pub(super) fn binary(
    body: &mut Body,
    op: BinaryOp,
    a: ValueId,
    b: ValueId,
) -> Result<(ValueId, Valid)> {
    let ty = body.ty(a);
    let compare = |op| Some(op);
    let comparison = match op {
        BinaryOp::Eq => compare(Compare::Eq),
        BinaryOp::Ne => compare(Compare::Ne),
        BinaryOp::Lt => compare(Compare::Lt),
        BinaryOp::Le => compare(Compare::Le),
        BinaryOp::Gt => compare(Compare::Gt),
        BinaryOp::Ge => compare(Compare::Ge),
        _ => None,
    };
    if let Some(comparison) = comparison {
        let (a, b) = (comparable(body, a), comparable(body, b));
        return Ok((body.compare(comparison, a, b), Valid::Always));
    }
    let value = match op {
        BinaryOp::Add => body.binary(Binary::Add, a, b),
        BinaryOp::Sub => body.binary(Binary::Sub, a, b),
        BinaryOp::Mul => body.binary(Binary::Mul, a, b),
        BinaryOp::Div if ty.is_float() => body.binary(Binary::Div, a, b),
        BinaryOp::Div => return Ok(divide(body, a, b, true)),
        BinaryOp::Rem if ty.is_float() => float_remainder(body, a, b),
        BinaryOp::Rem => return Ok(divide(body, a, b, false)),
        BinaryOp::Pow if ty.is_float() => math(body, "tilt_pow", &[a, b]),
        BinaryOp::Pow => return Ok(integer_power(body, a, b)),
        BinaryOp::Atan2 => math(body, "tilt_atan2", &[a, b]),
        BinaryOp::Hypot => math(body, "tilt_hypot", &[a, b]),
        BinaryOp::Min => extreme(body, Binary::Min, a, b),
        BinaryOp::Max => extreme(body, Binary::Max, a, b),
        BinaryOp::Xor | BinaryOp::BitXor => body.binary(Binary::Xor, a, b),
        BinaryOp::BitAnd => body.binary(Binary::And, a, b),
        BinaryOp::BitOr => body.binary(Binary::Or, a, b),
        BinaryOp::Shl => return Ok(shift(body, Binary::Shl, a, b)),
        BinaryOp::Shr => return Ok(shift(body, Binary::Shr, a, b)),
        other => return Err(Unsupported(format!("{other:?}"))),
    };
    Ok((value, Valid::Always))
}

/// Bools compare as 0 and 1.
fn comparable(body: &mut Body, value: ValueId) -> ValueId {
    if body.ty(value) == Ty::Bool {
        body.convert(value, Ty::U8)
    } else {
        value
    }
}

/// The lesser or greater of two values: for floats IEEE `minimumNumber` and `maximumNumber`.
pub(super) fn extreme(body: &mut Body, op: Binary, a: ValueId, b: ValueId) -> ValueId {
    let ty = body.ty(a);
    if ty == Ty::Bool {
        let op = if op == Binary::Min {
            Binary::And
        } else {
            Binary::Or
        };
        return body.binary(op, a, b);
    }
    if !ty.is_float() {
        return body.binary(op, a, b);
    }
    let (beats, join) = if op == Binary::Min {
        (Compare::Lt, Binary::Or)
    } else {
        (Compare::Gt, Binary::And)
    };
    let wins = body.compare(beats, a, b);
    let winner = body.select(wins, a, b);
    // Equal values differ at most in the sign of zero, which the join of the bits decides.
    let bits = if ty == Ty::F64 { Ty::U64 } else { Ty::U32 };
    let (a_bits, b_bits) = (body.bits(a, bits), body.bits(b, bits));
    let joined = body.binary(join, a_bits, b_bits);
    let joined = body.bits(joined, ty);
    let equal = body.compare(Compare::Eq, a, b);
    let number = body.select(equal, joined, winner);
    let b_is_nan = body.compare(Compare::Ne, b, b);
    body.select(b_is_nan, a, number)
}

/// `min(max(x, lo), hi)`, but a NaN `x` stays.
pub(super) fn clip(body: &mut Body, x: ValueId, lo: ValueId, hi: ValueId) -> ValueId {
    let raised = extreme(body, Binary::Max, x, lo);
    let clipped = extreme(body, Binary::Min, raised, hi);
    if !body.ty(x).is_float() {
        return clipped;
    }
    let is_nan = body.compare(Compare::Ne, x, x);
    body.select(is_nan, x, clipped)
}

/// Quotient or remainder of integers, rounded down; φ by zero.
fn divide(body: &mut Body, a: ValueId, b: ValueId, quotient: bool) -> (ValueId, Valid) {
    let ty = body.ty(a);
    let by_zero = is_zero(body, b);
    let one = body.int(ty, 1);
    let defined = body.unary(Unary::Not, by_zero);
    let defined = body.valid_if(defined);
    if !ty.is_signed() {
        let b = body.select(by_zero, one, b);
        let op = if quotient { Binary::Div } else { Binary::Rem };
        return (body.binary(op, a, b), defined);
    }
    // By -1 the quotient is the negation, which wraps, and the remainder 0.
    let minus = body.int(ty, -1);
    let by_minus = body.compare(Compare::Eq, b, minus);
    let unsafe_divisor = body.binary(Binary::Or, by_zero, by_minus);
    let b = body.select(unsafe_divisor, one, b);
    let truncated = body.binary(Binary::Div, a, b);
    let product = body.binary(Binary::Mul, truncated, b);
    let remainder = body.binary(Binary::Sub, a, product);
    let zero = body.int(ty, 0);
    let inexact = body.compare(Compare::Ne, remainder, zero);
    let signs = body.binary(Binary::Xor, remainder, b);
    let opposite = body.compare(Compare::Lt, signs, zero);
    let down = body.binary(Binary::And, inexact, opposite);
    let value = if quotient {
        let lower = body.binary(Binary::Sub, truncated, one);
        let floored = body.select(down, lower, truncated);
        let negated = body.unary(Unary::Neg, a);
        body.select(by_minus, negated, floored)
    } else {
        let higher = body.binary(Binary::Add, remainder, b);
        body.select(down, higher, remainder)
    };
    (value, defined)
}

/// Python's `%` on floats: the exact remainder of truncated division, moved to the divisor's sign.
fn float_remainder(body: &mut Body, a: ValueId, b: ValueId) -> ValueId {
    let ty = body.ty(a);
    let (a, b) = (body.convert(a, Ty::F64), body.convert(b, Ty::F64));
    let value = body.call("tilt_python_remainder", vec![a, b], Ty::F64);
    body.convert(value, ty)
}

/// `a` to the power of `b` in integers, wrapping; φ for negative exponents.
fn integer_power(body: &mut Body, a: ValueId, b: ValueId) -> (ValueId, Valid) {
    let ty = body.ty(a);
    let defined = if ty.is_signed() {
        let zero = body.int(ty, 0);
        let defined = body.compare(Compare::Ge, b, zero);
        body.valid_if(defined)
    } else {
        Valid::Always
    };
    // The low bits of a wrapping product depend on the low bits of its factors only.
    let wide = if ty.is_signed() { Ty::I64 } else { Ty::U64 };
    let (a, b) = (body.convert(a, wide), body.convert(b, wide));
    let (a, b) = (body.bits(a, Ty::I64), body.bits(b, Ty::I64));
    let power = body.call("tilt_integer_power", vec![a, b], Ty::I64);
    let power = body.bits(power, wide);
    (body.convert(power, ty), defined)
}

/// A shift; φ unless the count is less than the width and not negative.
fn shift(body: &mut Body, op: Binary, a: ValueId, count: ValueId) -> (ValueId, Valid) {
    let ty = body.ty(a);
    let width = body.int(ty, i64::from(ty.bits()));
    let zero = body.constant(Imm::zero(ty));
    let mut fits = body.compare(Compare::Lt, count, width);
    if ty.is_signed() {
        let positive = body.compare(Compare::Ge, count, zero);
        fits = body.binary(Binary::And, fits, positive);
    }
    let count = body.select(fits, count, zero);
    let value = body.binary(op, a, count);
    (value, body.valid_if(fits))
}
