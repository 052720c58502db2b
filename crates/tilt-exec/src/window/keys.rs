//! Integers that stand for values: magnitudes, whose bits tell whether a total may overflow, and keys, which order as floats do.

use tilt_codegen::{
    lir::{Binary, Combine, Compare, Ty, ValueId},
    lower::Body,
};

/// Bits that are zero above the magnitude of an integer.
pub(super) fn magnitude(body: &mut Body, value: ValueId) -> ValueId {
    if body.ty(value) == Ty::U64 {
        return value;
    }
    let sign = body.int(Ty::I64, 63);
    let sign = body.binary(Binary::Shr, value, sign);
    let magnitude = body.binary(Binary::Xor, value, sign);
    body.bits(magnitude, Ty::U64)
}

/// A signed integer that orders like the float: -0 below +0, and NaN such that it loses.
pub(super) fn key_of(body: &mut Body, value: ValueId, op: Combine) -> ValueId {
    let ty = body.ty(value);
    let (int, top) = if ty == Ty::F32 {
        (Ty::I32, 31)
    } else {
        (Ty::I64, 63)
    };
    let bits = body.bits(value, int);
    let shift = body.int(int, top);
    let sign = body.binary(Binary::Shr, bits, shift);
    let low = body.int(int, (1i64 << top).wrapping_sub(1));
    let flip = body.binary(Binary::And, sign, low);
    let key = body.binary(Binary::Xor, bits, flip);
    let neutral = body.constant(op.neutral(int));
    let is_nan = body.compare(Compare::Ne, value, value);
    body.select(is_nan, neutral, key)
}

/// The float of a key; the neutral key, which only NaN has, is NaN.
pub(super) fn value_of(body: &mut Body, key: ValueId, ty: Ty) -> ValueId {
    let int = body.ty(key);
    let top = i64::from(int.bits() - 1);
    let shift = body.int(int, top);
    let sign = body.binary(Binary::Shr, key, shift);
    let low = body.int(int, (1i64 << top).wrapping_sub(1));
    let flip = body.binary(Binary::And, sign, low);
    let bits = body.binary(Binary::Xor, key, flip);
    body.bits(bits, ty)
}
