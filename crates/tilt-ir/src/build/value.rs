//! Scalar values while a function is traced: what is computed with them is written down.

use std::{
    ops,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    error::{BuildError, Checked, Problem},
    literal::Literal,
    operators::{self, Arg, Binary},
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::ExprId,
    program::Program,
    time::Unit,
    types::DType,
};

/// A value while functions are traced.
#[derive(Clone, Debug)]
pub struct Value {
    pub(super) trace: Trace,
    pub(super) id: Result<ExprId, Arc<BuildError>>,
}

/// A value or a constant.
#[derive(Clone, Debug)]
pub enum Term {
    /// A value.
    Value(Value),
    /// A constant.
    Literal(Literal),
}

/// The nodes of all values that are traced together.
#[derive(Clone, Debug)]
pub(super) struct Trace(Arc<Mutex<Program>>);

impl Trace {
    pub(super) fn new(unit: Unit) -> Self {
        Self(Arc::new(Mutex::new(Program::new("reducer", unit))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Program> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what `expr` makes of the terms.
    pub(super) fn apply(
        &self,
        operation: &str,
        terms: &[Term],
        expr: impl FnOnce(&mut Program, &[Arg]) -> Checked<ExprId>,
    ) -> Value {
        let id = self.args(operation, terms).and_then(|args| {
            let mut program = self.lock();
            expr(&mut program, &args).map_err(|problem| {
                let texts = args.iter().filter_map(|arg| match arg {
                    Arg::Expr(id) => {
                        let (text, dtype) = (program.expr_text(*id), program.dtype(*id));
                        Some(format!("{text}    // {dtype}"))
                    }
                    Arg::Literal(_) => None,
                });
                Arc::new(problem.of(operation, texts.collect()))
            })
        });
        Value {
            trace: self.clone(),
            id,
        }
    }

    fn args(&self, operation: &str, terms: &[Term]) -> Result<Vec<Arg>, Arc<BuildError>> {
        let arg = |term: &Term| match term {
            Term::Literal(literal) => Ok(Arg::Literal(literal.clone())),
            Term::Value(value) if Arc::ptr_eq(&value.trace.0, &self.0) => {
                value.id.clone().map(Arg::Expr)
            }
            Term::Value(_) => {
                let problem = Problem::types("the values belong to different reducers")
                    .hint("a function of a reducer reads its own parameters only");
                Err(Arc::new(problem.of(operation, Vec::new())))
            }
        };
        terms.iter().map(arg).collect()
    }
}

impl Value {
    /// An operator or function of one operand.
    #[must_use]
    pub fn unary(&self, op: UnaryOp) -> Self {
        self.trace
            .apply(op.symbol(), &[self.into()], |program, args| {
                operators::unary(program, op, &args[0])
            })
    }

    /// An operator or function of two operands.
    #[must_use]
    pub fn binary(&self, op: Binary, other: impl Into<Term>) -> Self {
        self.binary_of(op, self.into(), other.into())
    }

    /// The operator with the constant, or another value, on the left.
    #[must_use]
    pub fn binary_reversed(&self, op: Binary, other: impl Into<Term>) -> Self {
        self.binary_of(op, other.into(), self.into())
    }

    fn binary_of(&self, op: Binary, a: Term, b: Term) -> Self {
        self.trace.apply(op.symbol(), &[a, b], |program, args| {
            operators::binary(program, op, &args[0], &args[1])
        })
    }

    /// A field of a record.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.trace.apply("field", &[self.into()], |program, args| {
            let record = operators::settled(program, &args[0])?;
            Ok(program.add(Expr::Field(record, name.to_owned()))?)
        })
    }

    /// The value in another type; φ where it does not fit.
    #[must_use]
    pub fn cast(&self, dtype: &DType) -> Self {
        self.trace.apply("cast", &[self.into()], |program, args| {
            let value = operators::settled(program, &args[0])?;
            Ok(program.add(Expr::Cast(value, dtype.clone()))?)
        })
    }

    /// `a` where this condition is true, else `b`.
    #[must_use]
    pub fn choose(&self, a: impl Into<Term>, b: impl Into<Term>) -> Self {
        let terms = [self.into(), a.into(), b.into()];
        self.trace.apply("when", &terms, |program, args| {
            operators::when(program, &args[0], &args[1], &args[2])
        })
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_null(&self) -> Self {
        self.trace
            .apply("is_null", &[self.into()], |program, args| {
                let value = operators::settled(program, &args[0])?;
                Ok(program.add(Expr::IsNull(value))?)
            })
    }

    /// The value, or `other` where there is none.
    #[must_use]
    pub fn coalesce(&self, other: impl Into<Term>) -> Self {
        let terms = [self.into(), other.into()];
        self.trace.apply("coalesce", &terms, |program, args| {
            operators::coalesce(program, &args[0], &args[1])
        })
    }

    /// The natural logarithm.
    #[must_use]
    pub fn log(&self) -> Self {
        self.unary(UnaryOp::Log)
    }

    /// The exponential function.
    #[must_use]
    pub fn exp(&self) -> Self {
        self.unary(UnaryOp::Exp)
    }

    /// The type of the value.
    ///
    /// # Errors
    /// The first error of the operations that led here.
    pub fn dtype(&self) -> Result<DType, BuildError> {
        match &self.id {
            Ok(id) => Ok(self.trace.lock().dtype(*id).clone()),
            Err(error) => Err(error.as_ref().clone()),
        }
    }

    /// The first error of the operations that led here.
    pub fn error(&self) -> Option<&BuildError> {
        self.id.as_ref().err().map(AsRef::as_ref)
    }
}

impl<T: Into<Literal>> From<T> for Term {
    fn from(value: T) -> Self {
        Self::Literal(value.into())
    }
}

impl From<Value> for Term {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<&Value> for Term {
    fn from(value: &Value) -> Self {
        Self::Value(value.clone())
    }
}

macro_rules! operator {
    ($($name:ident, $method:ident, $op:expr;)*) => {$(
        impl<T: Into<Term>> ops::$name<T> for &Value {
            type Output = Value;
            fn $method(self, other: T) -> Value {
                self.binary($op, other)
            }
        }

        impl<T: Into<Term>> ops::$name<T> for Value {
            type Output = Value;
            fn $method(self, other: T) -> Value {
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
}
