//! Casts: the value in another type, φ where it does not fit.

use tilt_ir::{DType, Unit};

use super::{Body, Result, Unsupported, Valid, register};
use crate::lir::{Binary, Compare, Ty, ValueId};

/// A value of type `from` as one of type `to`, and where it fits.
pub(super) fn cast(
    body: &mut Body,
    value: ValueId,
    from: &DType,
    to: &DType,
) -> Result<(ValueId, Valid)> {
    if let (DType::Timestamp(a) | DType::Duration(a), DType::Timestamp(b) | DType::Duration(b)) =
        (from, to)
    {
        return Ok(rescale(body, value, *a, *b));
    }
    if from == to {
        return Ok((value, Valid::Always));
    }
    if *from == DType::Utf8 || *to == DType::Utf8 {
        return Err(Unsupported(format!("a cast from {from} to {to}")));
    }
    let (source, target) = (register(from)?, register(to)?);
    Ok(match (source, target) {
        (Ty::Bool, _) => (body.convert(value, target), Valid::Always),
        (_, Ty::Bool) => return Err(Unsupported(format!("a cast from {from} to {to}"))),
        (s, t) if s.is_float() && t.is_int() => float_to_integer(body, value, t),
        (s, t) if s.is_int() && t.is_int() => integer_to_integer(body, value, t),
        _ => (body.convert(value, target), Valid::Always),
    })
}

fn integer_to_integer(body: &mut Body, value: ValueId, target: Ty) -> (ValueId, Valid) {
    let source = body.ty(value);
    let converted = body.convert(value, target);
    let holds_all = if source.is_signed() == target.is_signed() {
        source.bits() <= target.bits()
    } else {
        !source.is_signed() && source.bits() < target.bits()
    };
    if holds_all {
        return (converted, Valid::Always);
    }
    // It fits if it comes back, and with the same sign where the types differ in signedness.
    let back = body.convert(converted, source);
    let mut fits = body.compare(Compare::Eq, back, value);
    let negative_is_lost = source.is_signed() != target.is_signed();
    if negative_is_lost {
        let (signed, ty) = if source.is_signed() {
            (value, source)
        } else {
            (converted, target)
        };
        let zero = body.int(ty, 0);
        let positive = body.compare(Compare::Ge, signed, zero);
        fits = body.binary(Binary::And, fits, positive);
    }
    (converted, body.valid_if(fits))
}

/// Truncates; φ for NaN and where the truncated value is out of range.
fn float_to_integer(body: &mut Body, value: ValueId, target: Ty) -> (ValueId, Valid) {
    let double = body.convert(value, Ty::F64);
    let truncated = body.unary(crate::lir::Unary::Trunc, double);
    // Both limits are powers of two or zero, so doubles hold them; NaN fails both comparisons.
    let above = if target.is_signed() {
        2f64.powi(target.bits() as i32 - 1)
    } else {
        2f64.powi(target.bits() as i32)
    };
    let least = if target.is_signed() { -above } else { 0.0 };
    let (above, least) = (body.float(Ty::F64, above), body.float(Ty::F64, least));
    let high_enough = body.compare(Compare::Ge, truncated, least);
    let low_enough = body.compare(Compare::Lt, truncated, above);
    let fits = body.binary(Binary::And, high_enough, low_enough);
    let zero = body.float(Ty::F64, 0.0);
    let safe = body.select(fits, truncated, zero);
    (body.convert(safe, target), body.valid_if(fits))
}

/// Ticks of one unit in another: exact or φ when it is finer, rounded down when it is coarser.
fn rescale(body: &mut Body, value: ValueId, from: Unit, to: Unit) -> (ValueId, Valid) {
    let (Some(from), Some(to)) = (from.per_second(), to.per_second()) else {
        return (value, Valid::Always);
    };
    if from == to {
        return (value, Valid::Always);
    }
    if from > to {
        let divisor = body.int(Ty::I64, from / to);
        let truncated = body.binary(Binary::Div, value, divisor);
        let product = body.binary(Binary::Mul, truncated, divisor);
        let above = body.compare(Compare::Gt, product, value);
        let one = body.int(Ty::I64, 1);
        let lower = body.binary(Binary::Sub, truncated, one);
        return (body.select(above, lower, truncated), Valid::Always);
    }
    let factor = to / from;
    let (most, least) = (i64::MAX / factor, i64::MIN / factor);
    let (most, least) = (body.int(Ty::I64, most), body.int(Ty::I64, least));
    let not_above = body.compare(Compare::Le, value, most);
    let not_below = body.compare(Compare::Ge, value, least);
    let fits = body.binary(Binary::And, not_above, not_below);
    let factor = body.int(Ty::I64, factor);
    let product = body.binary(Binary::Mul, value, factor);
    (product, body.valid_if(fits))
}
