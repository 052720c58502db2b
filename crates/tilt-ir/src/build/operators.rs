//! Operators as users expect them, on top of the IR's strict typing: numbers of different types meet in a common one, constants
//! take the type of what they meet, and `/` of integers is a float.

use super::{
    error::{Checked, Problem},
    literal::Literal,
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::ExprId,
    names::{BINARY_FUNCTIONS, INFIX, UNARY_FUNCTIONS},
    program::Program,
    time::Unit,
    types::{DType, FloatWidth, Width},
};

/// An operator of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// True division: of integers a float.
    Divide,
    /// Division rounded down.
    FloorDivide,
    /// `&`: of bools `&&`, of integers bit by bit.
    And,
    /// `|`: of bools `||`, of integers bit by bit.
    Or,
    /// `^`: of bools `^^`, of integers bit by bit.
    Xor,
    /// An operator of the IR.
    Plain(BinaryOp),
}

impl Binary {
    /// The operator written `symbol`, in the IR's or Python's way.
    ///
    /// ```
    /// use tilt_ir::{BinaryOp, build::Binary};
    /// assert_eq!(Binary::from_symbol("//"), Some(Binary::FloorDivide));
    /// assert_eq!(Binary::from_symbol("**"), Some(Binary::Plain(BinaryOp::Pow)));
    /// ```
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "/" => Self::Divide,
            "//" => Self::FloorDivide,
            "&" | "&&" => Self::And,
            "|" | "||" => Self::Or,
            "^" | "^^" => Self::Xor,
            "**" => Self::Plain(BinaryOp::Pow),
            symbol => {
                let infix = INFIX.iter().find(|row| row.0 == symbol).map(|row| row.1);
                let function = || BINARY_FUNCTIONS.iter().find(|row| row.0 == symbol);
                Self::Plain(infix.or_else(|| Some(function()?.1))?)
            }
        })
    }

    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::Plain(op) => op.symbol(),
        }
    }
}

/// The operator of one operand written `symbol`: `-`, `!`, `sqrt`.
pub fn unary_from_symbol(symbol: &str) -> Option<UnaryOp> {
    match symbol {
        "-" => Some(UnaryOp::Neg),
        "!" | "~" => Some(UnaryOp::Not),
        symbol => Some(UNARY_FUNCTIONS.iter().find(|row| row.0 == symbol)?.1),
    }
}

/// An operand in a program under construction.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Expr(ExprId),
    Literal(Literal),
}

impl From<ExprId> for Arg {
    fn from(id: ExprId) -> Self {
        Self::Expr(id)
    }
}

impl<T: Into<Literal>> From<T> for Arg {
    fn from(literal: T) -> Self {
        Self::Literal(literal.into())
    }
}

/// The type in which values of two types meet, as in Polars.
pub(super) fn supertype(a: &DType, b: &DType) -> Option<DType> {
    use DType::{Duration, Float, Int, Timestamp, UInt};
    let convertible = |u: &Unit, v: &Unit| (*u == Unit::Tick) == (*v == Unit::Tick);
    Some(match (a, b) {
        (a, b) if a == b => a.clone(),
        (Int(v), Int(w)) => Int(*v.max(w)),
        (UInt(v), UInt(w)) => UInt(*v.max(w)),
        (Int(signed), UInt(unsigned)) | (UInt(unsigned), Int(signed)) => {
            let wide = match unsigned {
                Width::W8 => Width::W16,
                Width::W16 => Width::W32,
                Width::W32 => Width::W64,
                Width::W64 => return Some(DType::F64),
            };
            Int(*signed.max(&wide))
        }
        (Float(v), Float(w)) => Float(*v.max(w)),
        (Float(float), Int(w) | UInt(w)) | (Int(w) | UInt(w), Float(float)) => {
            // The narrowest float that holds the integers exactly, or the widest there is.
            let exact = match w {
                Width::W8 => FloatWidth::W16,
                Width::W16 => FloatWidth::W32,
                Width::W32 | Width::W64 => FloatWidth::W64,
            };
            Float(*float.max(&exact))
        }
        (Timestamp(u), Timestamp(v)) if convertible(u, v) => Timestamp(*u.max(v)),
        (Duration(u), Duration(v)) if convertible(u, v) => Duration(*u.max(v)),
        _ => return None,
    })
}

/// The type of an operand beside another.
fn type_beside(program: &Program, arg: &Arg, other: &Arg) -> DType {
    match (arg, other) {
        (Arg::Expr(id), _) => program.dtype(*id).clone(),
        (Arg::Literal(literal), Arg::Expr(id)) => literal.dtype(Some(program.dtype(*id))),
        (Arg::Literal(literal), Arg::Literal(Literal::Null)) => literal.dtype(None),
        (Arg::Literal(literal), Arg::Literal(other)) => literal.dtype(Some(&other.dtype(None))),
    }
}

/// The operand as a value of type `dtype`.
pub(super) fn converted(program: &mut Program, arg: &Arg, dtype: &DType) -> Checked<ExprId> {
    Ok(match arg {
        Arg::Expr(id) if program.dtype(*id) == dtype => *id,
        Arg::Expr(id) => program.add(Expr::Cast(*id, dtype.clone()))?,
        Arg::Literal(Literal::Null) => program.add(Expr::Null(dtype.clone()))?,
        Arg::Literal(literal) => match literal.scalar(dtype) {
            Some(scalar) => program.add(Expr::Const(scalar, dtype.clone()))?,
            None => {
                return Err(Problem::types(format!(
                    "the constant {literal:?} is not a value of type {dtype}"
                )));
            }
        },
    })
}

/// The operand in the type it has on its own.
pub(super) fn settled(program: &mut Program, arg: &Arg) -> Checked<ExprId> {
    match arg {
        Arg::Expr(id) => Ok(*id),
        Arg::Literal(literal) => converted(program, arg, &literal.dtype(None)),
    }
}

/// Both operands in the type in which they meet.
pub(super) fn meeting(
    program: &mut Program,
    op: &str,
    a: &Arg,
    b: &Arg,
) -> Checked<(ExprId, ExprId)> {
    let (left, right) = (type_beside(program, a, b), type_beside(program, b, a));
    let Some(common) = supertype(&left, &right) else {
        return Err(
            Problem::types(format!("`{op}` has no common type for {left} and {right}"))
                .hint("`cast` one of them"),
        );
    };
    Ok((
        converted(program, a, &common)?,
        converted(program, b, &common)?,
    ))
}

/// An operator of one operand. Functions of floats take integers as `f64`; integers are whole already.
pub(super) fn unary(program: &mut Program, op: UnaryOp, a: &Arg) -> Checked<ExprId> {
    use UnaryOp::*;
    let value = settled(program, a)?;
    let integer = program.dtype(value).is_integer();
    Ok(match op {
        Floor | Ceil | Trunc | Round if integer => value,
        Not if integer => program.add(Expr::Unary(BitNot, value))?,
        Sqrt | Cbrt | Exp | Exp2 | Expm1 | Log | Log2 | Log10 | Log1p | Sin | Cos | Tan | Asin
        | Acos | Atan | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh
            if integer =>
        {
            let float = program.add(Expr::Cast(value, DType::F64))?;
            program.add(Expr::Unary(op, float))?
        }
        op => program.add(Expr::Unary(op, value))?,
    })
}

/// An operator of two operands.
pub(super) fn binary(program: &mut Program, op: Binary, a: &Arg, b: &Arg) -> Checked<ExprId> {
    use BinaryOp::*;
    use DType::{Duration, Timestamp};
    let (left, right) = (type_beside(program, a, b), type_beside(program, b, a));
    let add = |program: &mut Program, op, a, b| Ok(program.add(Expr::Binary(op, a, b))?);
    match (op, &left, &right) {
        (Binary::Plain(Add), Duration(_), Timestamp(_)) => binary(program, op, b, a),
        (Binary::Plain(op @ (Add | Sub)), Timestamp(u), Duration(v)) => {
            let unit = *u.max(v);
            let a = converted(program, a, &Timestamp(unit))?;
            let b = converted(program, b, &Duration(unit))?;
            add(program, op, a, b)
        }
        (Binary::Plain(Mul), number, Duration(_)) if number.is_integer() => {
            binary(program, op, b, a)
        }
        (Binary::Plain(Mul) | Binary::Divide | Binary::FloorDivide, Duration(_), number)
            if number.is_integer() =>
        {
            let a = settled(program, a)?;
            let b = converted(program, b, &DType::I64)?;
            let op = if op == Binary::Plain(Mul) { Mul } else { Div };
            add(program, op, a, b)
        }
        (Binary::Divide | Binary::FloorDivide, Duration(_), Duration(_)) => {
            let (a, b) = meeting(program, op.symbol(), a, b)?;
            let a = program.add(Expr::Cast(a, DType::I64))?;
            let b = program.add(Expr::Cast(b, DType::I64))?;
            binary(program, op, &a.into(), &b.into())
        }
        (Binary::Divide, a_type, b_type) if a_type.is_integer() && b_type.is_integer() => {
            let a = converted(program, a, &DType::F64)?;
            let b = converted(program, b, &DType::F64)?;
            add(program, Div, a, b)
        }
        (Binary::Plain(op @ (Atan2 | Hypot)), a_type, b_type)
            if a_type.is_integer() && b_type.is_integer() =>
        {
            let a = converted(program, a, &DType::F64)?;
            let b = converted(program, b, &DType::F64)?;
            add(program, op, a, b)
        }
        _ => {
            let (a, b) = meeting(program, op.symbol(), a, b)?;
            let integer = program.dtype(a).is_integer();
            match op {
                Binary::Divide => add(program, Div, a, b),
                Binary::FloorDivide => {
                    let quotient = add(program, Div, a, b)?;
                    if integer {
                        Ok(quotient)
                    } else {
                        Ok(program.add(Expr::Unary(UnaryOp::Floor, quotient))?)
                    }
                }
                Binary::And => add(program, if integer { BitAnd } else { And }, a, b),
                Binary::Or => add(program, if integer { BitOr } else { Or }, a, b),
                Binary::Xor => add(program, if integer { BitXor } else { Xor }, a, b),
                Binary::Plain(op) => add(program, op, a, b),
            }
        }
    }
}

/// `if cond then a else b`.
pub(super) fn when(program: &mut Program, cond: &Arg, a: &Arg, b: &Arg) -> Checked<ExprId> {
    let cond = settled(program, cond)?;
    let (then, otherwise) = meeting(program, "when", a, b)?;
    Ok(program.add(Expr::When {
        cond,
        then,
        otherwise,
    })?)
}

/// `coalesce(a, b)`.
pub(super) fn coalesce(program: &mut Program, a: &Arg, b: &Arg) -> Checked<ExprId> {
    let (a, b) = meeting(program, "coalesce", a, b)?;
    Ok(program.add(Expr::Coalesce(a, b))?)
}

/// `a` within bounds; without one of them it is `min` or `max`, but keeps NaN.
pub(super) fn clip(
    program: &mut Program,
    value: &Arg,
    lo: Option<&Arg>,
    hi: Option<&Arg>,
) -> Checked<ExprId> {
    let value = settled(program, value)?;
    let dtype = program.dtype(value).clone();
    let bound = |program: &mut Program, arg: Option<&Arg>, open: Literal| match (arg, &dtype) {
        (Some(arg), dtype) => converted(program, arg, dtype),
        (None, dtype) => converted(program, &Arg::Literal(open), dtype),
    };
    let (least, most) = extremes(&dtype);
    let lo = bound(program, lo, least)?;
    let hi = bound(program, hi, most)?;
    Ok(program.add(Expr::Clip { value, lo, hi })?)
}

/// The least and the greatest value of a type that can be clipped.
fn extremes(dtype: &DType) -> (Literal, Literal) {
    match dtype {
        DType::Float(_) => (
            Literal::Float(f64::NEG_INFINITY),
            Literal::Float(f64::INFINITY),
        ),
        DType::Int(w) => {
            let most = i64::MAX >> (64 - w.bits());
            (Literal::Int(-most - 1), Literal::Int(most))
        }
        DType::UInt(w) => (Literal::UInt(0), Literal::UInt(u64::MAX >> (64 - w.bits()))),
        DType::Timestamp(unit) => (
            Literal::Timestamp(i64::MIN, *unit),
            Literal::Timestamp(i64::MAX, *unit),
        ),
        DType::Duration(unit) => (
            Literal::Duration(i64::MIN, *unit),
            Literal::Duration(i64::MAX, *unit),
        ),
        _ => (Literal::Null, Literal::Null),
    }
}
