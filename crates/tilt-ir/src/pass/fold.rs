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
                Constant::Value(scalar) => Expr::Const(scalar, dtype),
                Constant::Null => Expr::Null(dtype),
            };
            Some(add(program, folded))
        })
    }
}

/// What an expression is known to be.
#[derive(Clone, PartialEq)]
enum Constant {
    Value(Scalar),
    Null,
}

impl From<Scalar> for Constant {
    fn from(scalar: Scalar) -> Self {
        Self::Value(scalar)
    }
}

/// The constant that `expr` is, if it is one.
fn fold(program: &Program, expr: &Expr) -> Option<Constant> {
    match expr {
        Expr::Unary(op, a) => match constant(program, *a)? {
            Constant::Value(a) => fold_unary(*op, &a, program, expr).map(Constant::from),
            Constant::Null => Some(Constant::Null),
        },
        Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
            let (a, b) = (constant(program, *a)?, constant(program, *b)?);
            let dominant = Constant::Value(Scalar::Bool(*op == BinaryOp::Or));
            Some(match (&a, &b) {
                _ if a == dominant || b == dominant => dominant,
                (Constant::Value(_), Constant::Value(_)) => a,
                _ => Constant::Null,
            })
        }
        Expr::Binary(op, a, b) => {
            let dtype = program.dtype(*a);
            match (constant(program, *a), constant(program, *b)) {
                (Some(Constant::Null), _) | (_, Some(Constant::Null)) => Some(Constant::Null),
                (Some(Constant::Value(a)), Some(Constant::Value(b))) => {
                    fold_binary(*op, &a, &b, dtype)
                }
                _ => None,
            }
        }
        Expr::IsNull(a) => {
            let is_null = constant(program, *a)? == Constant::Null;
            Some(Scalar::Bool(is_null).into())
        }
        Expr::Cast(a, to) => match constant(program, *a)? {
            Constant::Value(scalar) => fold_cast(&scalar, program.dtype(*a), to),
            Constant::Null => Some(Constant::Null),
        },
        _ => None,
    }
}

/// The value of a constant or φ node.
fn constant(program: &Program, id: ExprId) -> Option<Constant> {
    match program.expr(id) {
        Expr::Const(scalar, _) => Some(scalar.clone().into()),
        Expr::Null(_) => Some(Constant::Null),
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

fn fold_binary(op: BinaryOp, a: &Scalar, b: &Scalar, dtype: &DType) -> Option<Constant> {
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
            Div | Rem if *b == 0 => return Some(Constant::Null),
            BitAnd => Scalar::Int(a & b),
            BitOr => Scalar::Int(a | b),
            BitXor => Scalar::Int(a ^ b),
            _ => compare(Some(a.cmp(b)))?,
        },
        (Scalar::UInt(a), Scalar::UInt(b)) => match op {
            Add => wrap_unsigned(a.wrapping_add(*b), dtype),
            Sub => wrap_unsigned(a.wrapping_sub(*b), dtype),
            Mul => wrap_unsigned(a.wrapping_mul(*b), dtype),
            Div | Rem if *b == 0 => return Some(Constant::Null),
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
    Some(value.into())
}

/// Casts among numbers; those of times are left to run time.
fn fold_cast(scalar: &Scalar, from: &DType, to: &DType) -> Option<Constant> {
    let integer = |value: i128| {
        let (fits, scalar) = match to {
            DType::Int(width) => {
                let limit = 1i128 << (width.bits() - 1);
                ((-limit..limit).contains(&value), Scalar::Int(value as i64))
            }
            DType::UInt(width) => {
                let limit = 1i128 << width.bits();
                ((0..limit).contains(&value), Scalar::UInt(value as u64))
            }
            _ => return None,
        };
        Some(if fits { scalar.into() } else { Constant::Null })
    };
    match (scalar, from, to) {
        (Scalar::Int(v), DType::Int(_), DType::Int(_) | DType::UInt(_)) => integer(i128::from(*v)),
        (Scalar::UInt(v), _, DType::Int(_) | DType::UInt(_)) => integer(i128::from(*v)),
        (Scalar::Bool(v), _, DType::Int(_) | DType::UInt(_)) => integer(i128::from(*v)),
        // Wide integers round once on their way to a double; narrower floats would round twice.
        (Scalar::Int(v), DType::Int(_), DType::Float(_)) if *to == DType::F64 => {
            Some(Scalar::Float(*v as f64).into())
        }
        (Scalar::Int(v), DType::Int(Width::W8 | Width::W16), DType::Float(_)) => {
            Some(narrow(*v as f64, to).into())
        }
        (Scalar::Float(v), _, DType::Float(_)) => Some(narrow(*v, to).into()),
        _ => None,
    }
}
