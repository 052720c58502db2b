//! What looks at one instant: operators, functions, conditions, casts, filters.

use std::ops;

use super::{
    Stream,
    draft::Draft,
    error::{Checked, Problem},
    literal::{Literal, Operand},
    operators::{self, Arg, Binary},
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::{ExprId, StreamId},
    program::Program,
    types::DType,
};

impl Stream {
    /// Evaluates an expression over operands wherever one of them changes.
    pub(super) fn apply(
        operation: &str,
        stem: &str,
        operands: &[Operand],
        expr: impl FnOnce(&mut Program, &[Arg]) -> Checked<ExprId>,
    ) -> Self {
        let streams: Vec<&Self> = operands.iter().filter_map(Operand::stream).collect();
        Self::combine(operation, &streams, |draft: &mut Draft, ids| {
            let args = match ids {
                [] => Vec::new(),
                ids => draft.joined(ids)?,
            };
            let args = arguments(operands, args)?;
            let body = expr(&mut draft.program, &args)?;
            draft.define_joined(stem, ids, body)
        })
    }

    /// An operator or function of one operand. Functions of floats take integers as `f64`.
    #[must_use]
    pub fn unary(&self, op: UnaryOp) -> Self {
        let stem = match op {
            UnaryOp::Neg | UnaryOp::Not | UnaryOp::BitNot => "v",
            op => op.symbol(),
        };
        Self::apply(op.symbol(), stem, &[self.into()], |program, args| {
            operators::unary(program, op, &args[0])
        })
    }

    /// An operator or function of two operands. Numbers of different types meet in a common one, constants take the type of the stream.
    #[must_use]
    pub fn binary(&self, op: Binary, other: impl Into<Operand>) -> Self {
        Self::binary_of(op, self.into(), other.into())
    }

    /// The operator with the constant, or another stream, on the left.
    #[must_use]
    pub fn binary_reversed(&self, op: Binary, other: impl Into<Operand>) -> Self {
        Self::binary_of(op, other.into(), self.into())
    }

    fn binary_of(op: Binary, a: Operand, b: Operand) -> Self {
        let stem = match op {
            Binary::Plain(
                op @ (BinaryOp::Min | BinaryOp::Max | BinaryOp::Atan2 | BinaryOp::Hypot),
            ) => op.symbol(),
            _ => "v",
        };
        Self::apply(op.symbol(), stem, &[a, b], |program, args| {
            operators::binary(program, op, &args[0], &args[1])
        })
    }

    /// Division rounded down.
    #[must_use]
    pub fn floordiv(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::FloorDivide, other)
    }

    /// `self` to the power of `other`.
    #[must_use]
    pub fn pow(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Pow), other)
    }

    /// Whether both are equal.
    #[must_use]
    pub fn eq(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Eq), other)
    }

    /// Whether both differ.
    #[must_use]
    pub fn ne(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Ne), other)
    }

    /// Whether `self` is less.
    #[must_use]
    pub fn lt(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Lt), other)
    }

    /// Whether `self` is less or equal.
    #[must_use]
    pub fn le(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Le), other)
    }

    /// Whether `self` is greater.
    #[must_use]
    pub fn gt(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Gt), other)
    }

    /// Whether `self` is greater or equal.
    #[must_use]
    pub fn ge(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Ge), other)
    }

    /// The lesser of both.
    #[must_use]
    pub fn min(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Min), other)
    }

    /// The greater of both.
    #[must_use]
    pub fn max(&self, other: impl Into<Operand>) -> Self {
        self.binary(Binary::Plain(BinaryOp::Max), other)
    }

    /// The absolute value.
    #[must_use]
    pub fn abs(&self) -> Self {
        self.unary(UnaryOp::Abs)
    }

    /// The value in another type; φ where it does not fit.
    #[must_use]
    pub fn cast(&self, dtype: &DType) -> Self {
        Self::apply("cast", "v", &[self.into()], |program, args| {
            let value = operators::settled(program, &args[0])?;
            Ok(program.add(Expr::Cast(value, dtype.clone()))?)
        })
    }

    /// The value within bounds; NaN stays NaN.
    #[must_use]
    pub fn clip(&self, lo: Option<Operand>, hi: Option<Operand>) -> Self {
        let (has_lo, has_hi) = (lo.is_some(), hi.is_some());
        let operands: Vec<Operand> = [Some(self.into()), lo, hi].into_iter().flatten().collect();
        Self::apply("clip", "clip", &operands, |program, args| {
            let lo = has_lo.then(|| &args[1]);
            let hi = has_hi.then(|| &args[args.len() - 1]);
            operators::clip(program, &args[0], lo, hi)
        })
    }

    /// The events at which `condition` is true. Where it is false or φ there is none.
    #[must_use]
    pub fn filter(&self, condition: impl Into<Operand>) -> Self {
        let operands = [condition.into(), self.into()];
        Self::apply("filter", "filter", &operands, |program, args| {
            operators::when(program, &args[0], &args[1], &Literal::Null.into())
        })
    }

    /// Whether there is no value where there could be one: in the null field of a record, in an empty cell of a grid.
    #[must_use]
    pub fn is_null(&self) -> Self {
        Self::combine("is_null", &[self], |draft, ids| {
            let clock = draft.clock_with_gaps(ids[0]);
            let value = draft.value_on(ids[0], &clock)?;
            let body = draft.add(Expr::IsNull(value))?;
            draft.define("is_null", clock, body)
        })
    }
}

/// Operands as they are read: streams by their values, in order.
fn arguments(operands: &[Operand], values: Vec<ExprId>) -> Checked<Vec<Arg>> {
    if values.is_empty() {
        return Err(Problem::types("there is no stream among the operands")
            .hint("a constant has no events; combine it with a stream"));
    }
    let mut values = values.into_iter();
    let args = operands.iter().map(|operand| match operand {
        Operand::Stream(_) => values.next().map_or(Literal::Null.into(), Arg::Expr),
        Operand::Literal(literal) => Arg::Literal(literal.clone()),
    });
    Ok(args.collect())
}

/// The first of the operands that has a value, wherever one of them changes.
pub fn coalesce(operands: impl IntoIterator<Item = impl Into<Operand>>) -> Stream {
    let operands: Vec<Operand> = operands.into_iter().map(Into::into).collect();
    Stream::apply("coalesce", "v", &operands, |program, args| {
        let mut args = args.iter().rev();
        let Some(last) = args.next() else {
            return Err(Problem::types("there is nothing to choose from"));
        };
        args.try_fold(last.clone(), |rest, arg| {
            operators::coalesce(program, arg, &rest).map(Arg::Expr)
        })
        .and_then(|arg| operators::settled(program, &arg))
    })
}

/// `when(c).then(a).otherwise(b)`: `a` where `c` is true, else `b`.
///
/// ```
/// # use tilt_ir::{DType, Input, Unit, build::{Stream, when}};
/// let x = Stream::input(Input::point("x", DType::F64, Unit::Second));
/// let sign = when(x.gt(0.0)).then("up").when(x.lt(0.0)).then("down").otherwise("flat");
/// assert_eq!(sign.dtype()?, &DType::Utf8);
/// # Ok::<(), tilt_ir::build::BuildError>(())
/// ```
pub fn when(condition: impl Into<Operand>) -> When {
    When {
        branches: Vec::new(),
        condition: condition.into(),
    }
}

/// A condition that waits for its value.
#[derive(Clone, Debug)]
pub struct When {
    branches: Vec<(Operand, Operand)>,
    condition: Operand,
}

/// Conditions with their values, without the last `otherwise`.
#[derive(Clone, Debug)]
pub struct Then {
    branches: Vec<(Operand, Operand)>,
}

impl When {
    /// The value where the condition is true.
    #[must_use]
    pub fn then(mut self, value: impl Into<Operand>) -> Then {
        self.branches.push((self.condition, value.into()));
        Then {
            branches: self.branches,
        }
    }
}

impl Then {
    /// Another condition, for where none before was true.
    #[must_use]
    pub fn when(self, condition: impl Into<Operand>) -> When {
        When {
            branches: self.branches,
            condition: condition.into(),
        }
    }

    /// The value where no condition is true. A condition that is φ is not true: where the conditions could have a value and have none, as in the
    /// null field of a record, this is the value.
    #[must_use]
    pub fn otherwise(self, value: impl Into<Operand>) -> Stream {
        let mut operands: Vec<Operand> = Vec::new();
        for (condition, value) in self.branches {
            operands.extend([condition, value]);
        }
        operands.push(value.into());
        let streams: Vec<&Stream> = operands.iter().filter_map(Operand::stream).collect();
        Stream::combine("when", &streams, |draft, ids| {
            let mut rest = ids.iter().copied();
            let of_operands: Vec<Option<StreamId>> = operands
                .iter()
                .map(|operand| operand.stream().and_then(|_| rest.next()))
                .collect();
            let pairs = of_operands.chunks_exact(2);
            let conditions: Vec<StreamId> = pairs.filter_map(|pair| pair[0]).collect();
            let clock = draft.clock_of_choice(&conditions, ids);
            let values = match &clock {
                Some(clock) => {
                    let values = ids.iter().map(|id| draft.value_on(*id, clock));
                    values.collect::<Checked<Vec<_>>>()?
                }
                None => draft.joined(ids)?,
            };
            let args = arguments(&operands, values)?;
            let mut result = args[args.len() - 1].clone();
            for pair in args[..args.len() - 1].chunks(2).rev() {
                result = operators::when(&mut draft.program, &pair[0], &pair[1], &result)?.into();
            }
            let body = operators::settled(&mut draft.program, &result)?;
            match clock {
                Some(clock) => draft.define("v", clock, body),
                None => draft.define_joined("v", ids, body),
            }
        })
    }

    /// φ where no condition is true.
    #[must_use]
    pub fn end(self) -> Stream {
        self.otherwise(Operand::Literal(Literal::Null))
    }
}

macro_rules! operator {
    ($($name:ident, $method:ident, $op:expr;)*) => {$(
        impl<T: Into<Operand>> ops::$name<T> for &Stream {
            type Output = Stream;
            fn $method(self, other: T) -> Stream {
                self.binary($op, other)
            }
        }

        impl<T: Into<Operand>> ops::$name<T> for Stream {
            type Output = Stream;
            fn $method(self, other: T) -> Stream {
                self.binary($op, other)
            }
        }
    )*};
}

operator! {
    Add, add, Binary::Plain(BinaryOp::Add);
    Sub, sub, Binary::Plain(BinaryOp::Sub);
    Mul, mul, Binary::Plain(BinaryOp::Mul);
    Div, div, Binary::Divide;
    Rem, rem, Binary::Plain(BinaryOp::Rem);
    BitAnd, bitand, Binary::And;
    BitOr, bitor, Binary::Or;
    BitXor, bitxor, Binary::Xor;
}

macro_rules! operator_on_constants {
    ($($name:ident, $method:ident, $op:expr;)*) => {$(
        impl ops::$name<&Stream> for f64 {
            type Output = Stream;
            fn $method(self, other: &Stream) -> Stream {
                other.binary_reversed($op, self)
            }
        }

        impl ops::$name<Stream> for f64 {
            type Output = Stream;
            fn $method(self, other: Stream) -> Stream {
                other.binary_reversed($op, self)
            }
        }
    )*};
}

operator_on_constants! {
    Add, add, Binary::Plain(BinaryOp::Add);
    Sub, sub, Binary::Plain(BinaryOp::Sub);
    Mul, mul, Binary::Plain(BinaryOp::Mul);
    Div, div, Binary::Divide;
}

impl ops::Neg for &Stream {
    type Output = Stream;
    fn neg(self) -> Stream {
        self.unary(UnaryOp::Neg)
    }
}

impl ops::Neg for Stream {
    type Output = Stream;
    fn neg(self) -> Stream {
        self.unary(UnaryOp::Neg)
    }
}

impl ops::Not for &Stream {
    type Output = Stream;
    fn not(self) -> Stream {
        self.unary(UnaryOp::Not)
    }
}

impl ops::Not for Stream {
    type Output = Stream;
    fn not(self) -> Stream {
        self.unary(UnaryOp::Not)
    }
}
