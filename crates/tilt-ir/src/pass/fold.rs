//! Constant folding.

use super::{
    Pass,
    rewrite::{add, rewrite_bodies},
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::ExprId,
    program::Program,
    types::{DType, Scalar, Width, round_to},
};

/// Evaluates operators over constants, exactly as they would be evaluated later.
///
/// ```text
/// ~a[t] = ~x[t] * (2.0 + 3.0)    =>    ~a[t] = ~x[t] * 5.0
/// ~a[t] = ~x[t] + null(f64)      =>    ~a[t] = null(f64)
/// ```
/// Mathematical functions are left to run time, where their one implementation is.
pub struct Fold;

impl Pass for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn run(&self, program: &mut Program) -> bool {
        rewrite_bodies(program, |program, _, expr| {
            let folded = fold(program, expr)?;
            let dtype = program.type_of(expr).ok()?;
            let folded = match folded {
                Some(scalar) => Expr::Const(scalar, dtype),
                None => Expr::Null(dtype),
            };
            Some(add(program, folded))
        })
    }
}

/// The constant that `expr` is: `Some(None)` is φ, `None` says that it is not one.
fn fold(program: &Program, expr: &Expr) -> Option<Option<Scalar>> {
    match expr {
        Expr::Unary(op, a) => match constant(program, *a)? {
            Some(a) => fold_unary(*op, a, program, expr).map(Some),
            None => Some(None),
        },
        Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
            let truth = |id| {
                Some(match constant(program, id)? {
                    Some(Scalar::Bool(v)) => Some(*v),
                    _ => None,
                })
            };
            let (a, b) = (truth(*a)?, truth(*b)?);
            let dominant = *op == BinaryOp::Or;
            Some(match (a, b) {
                (Some(v), _) | (_, Some(v)) if v == dominant => Some(Scalar::Bool(dominant)),
                (Some(_), Some(_)) => Some(Scalar::Bool(!dominant)),
                _ => None,
            })
        }
        Expr::Binary(op, a, b) => {
            let dtype = program.dtype(*a);
            match (constant(program, *a), constant(program, *b)) {
                (Some(None), _) | (_, Some(None)) => Some(None),
                (Some(Some(a)), Some(Some(b))) => fold_binary(*op, a, b, dtype),
                _ => None,
            }
        }
        Expr::IsNull(a) => Some(Some(Scalar::Bool(constant(program, *a)?.is_none()))),
        Expr::Cast(a, to) => match constant(program, *a)? {
            Some(scalar) => fold_cast(scalar, program.dtype(*a), to),
            None => Some(None),
        },
        _ => None,
    }
}

/// The value of a constant or φ node.
fn constant(program: &Program, id: ExprId) -> Option<Option<&Scalar>> {
    match program.expr(id) {
        Expr::Const(scalar, _) => Some(Some(scalar)),
        Expr::Null(_) => Some(None),
        _ => None,
    }
}

/// Truncates to the width, keeping the sign.
fn wrap(value: i64, dtype: &DType) -> Scalar {
    match dtype {
        DType::Int(width) => {
            let shift = 64 - width.bits();
            Scalar::Int((value << shift) >> shift)
        }
        _ => Scalar::Int(value),
    }
}

fn wrap_unsigned(value: u64, dtype: &DType) -> Scalar {
    match dtype {
        DType::UInt(width) => {
            let shift = 64 - width.bits();
            Scalar::UInt((value << shift) >> shift)
        }
        _ => Scalar::UInt(value),
    }
}

fn narrow(value: f64, dtype: &DType) -> Scalar {
    match dtype {
        DType::Float(width) => Scalar::Float(round_to(*width, value)),
        _ => Scalar::Float(value),
    }
}

fn fold_unary(op: UnaryOp, a: &Scalar, program: &Program, expr: &Expr) -> Option<Scalar> {
    let dtype = program.type_of(expr).ok()?;
    Some(match (op, a) {
        (UnaryOp::Neg, Scalar::Int(v)) => wrap(v.wrapping_neg(), &dtype),
        (UnaryOp::Neg, Scalar::Float(v)) => Scalar::Float(-v),
        (UnaryOp::Not, Scalar::Bool(v)) => Scalar::Bool(!v),
        (UnaryOp::BitNot, Scalar::Int(v)) => wrap(!v, &dtype),
        (UnaryOp::BitNot, Scalar::UInt(v)) => wrap_unsigned(!v, &dtype),
        (UnaryOp::Abs, Scalar::Int(v)) => wrap(v.wrapping_abs(), &dtype),
        (UnaryOp::Abs, Scalar::Float(v)) => Scalar::Float(v.abs()),
        (UnaryOp::Sqrt, Scalar::Float(v)) => narrow(v.sqrt(), &dtype),
        (UnaryOp::Floor, Scalar::Float(v)) => Scalar::Float(v.floor()),
        (UnaryOp::Ceil, Scalar::Float(v)) => Scalar::Float(v.ceil()),
        (UnaryOp::Trunc, Scalar::Float(v)) => Scalar::Float(v.trunc()),
        (UnaryOp::IsNan, Scalar::Float(v)) => Scalar::Bool(v.is_nan()),
        (UnaryOp::IsFinite, Scalar::Float(v)) => Scalar::Bool(v.is_finite()),
        (UnaryOp::IsInfinite, Scalar::Float(v)) => Scalar::Bool(v.is_infinite()),
        _ => return None,
    })
}

fn fold_binary(op: BinaryOp, a: &Scalar, b: &Scalar, dtype: &DType) -> Option<Option<Scalar>> {
    use BinaryOp::*;
    use std::cmp::Ordering;
    let compare = |ordering: Option<Ordering>| {
        Some(Scalar::Bool(match op {
            Eq => ordering == Some(Ordering::Equal),
            Ne => ordering != Some(Ordering::Equal),
            Lt => ordering == Some(Ordering::Less),
            Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            Gt => ordering == Some(Ordering::Greater),
            Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
            _ => return None,
        }))
    };
    let value = match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => match op {
            Add => wrap(a.wrapping_add(*b), dtype),
            Sub => wrap(a.wrapping_sub(*b), dtype),
            Mul => wrap(a.wrapping_mul(*b), dtype),
            Div | Rem if *b == 0 => return Some(None),
            BitAnd => Scalar::Int(a & b),
            BitOr => Scalar::Int(a | b),
            BitXor => Scalar::Int(a ^ b),
            _ => compare(Some(a.cmp(b)))?,
        },
        (Scalar::UInt(a), Scalar::UInt(b)) => match op {
            Add => wrap_unsigned(a.wrapping_add(*b), dtype),
            Sub => wrap_unsigned(a.wrapping_sub(*b), dtype),
            Mul => wrap_unsigned(a.wrapping_mul(*b), dtype),
            Div | Rem if *b == 0 => return Some(None),
            Div => Scalar::UInt(a / b),
            Rem => Scalar::UInt(a % b),
            BitAnd => Scalar::UInt(a & b),
            BitOr => Scalar::UInt(a | b),
            BitXor => Scalar::UInt(a ^ b),
            _ => compare(Some(a.cmp(b)))?,
        },
        (Scalar::Float(a), Scalar::Float(b)) => match op {
            Add => narrow(a + b, dtype),
            Sub => narrow(a - b, dtype),
            Mul => narrow(a * b, dtype),
            Div => narrow(a / b, dtype),
            _ => compare(a.partial_cmp(b))?,
        },
        (Scalar::Bool(a), Scalar::Bool(b)) => match op {
            Xor => Scalar::Bool(a ^ b),
            _ => compare(Some(a.cmp(b)))?,
        },
        (Scalar::Str(a), Scalar::Str(b)) => compare(Some(a.cmp(b)))?,
        _ => return None,
    };
    Some(Some(value))
}

/// Casts among numbers; those of times are left to run time.
fn fold_cast(scalar: &Scalar, from: &DType, to: &DType) -> Option<Option<Scalar>> {
    let integer = |value: i128| match to {
        DType::Int(width) => {
            let limit = 1i128 << (width.bits() - 1);
            Some((-limit..limit).contains(&value).then_some(Scalar::Int(value as i64)))
        }
        DType::UInt(width) => {
            let limit = 1i128 << width.bits();
            Some((0..limit).contains(&value).then_some(Scalar::UInt(value as u64)))
        }
        _ => None,
    };
    match (scalar, from, to) {
        (Scalar::Int(v), DType::Int(_), DType::Int(_) | DType::UInt(_)) => integer(i128::from(*v)),
        (Scalar::UInt(v), _, DType::Int(_) | DType::UInt(_)) => integer(i128::from(*v)),
        (Scalar::Bool(v), _, DType::Int(_) | DType::UInt(_)) => integer(i128::from(*v)),
        // Wide integers round once on their way to a double; narrower floats would round twice.
        (Scalar::Int(v), DType::Int(_), DType::Float(_)) if *to == DType::F64 => {
            Some(Some(Scalar::Float(*v as f64)))
        }
        (Scalar::Int(v), DType::Int(Width::W8 | Width::W16), DType::Float(_)) => {
            Some(Some(narrow(*v as f64, to)))
        }
        (Scalar::Float(v), _, DType::Float(_)) => Some(Some(narrow(*v, to))),
        _ => None,
    }
}
