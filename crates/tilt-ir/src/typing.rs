//! The type of every expression.

use crate::{
    expr::{Agg, BinaryOp, Edge, Expr, UnaryOp},
    ids::ExprId,
    program::Program,
    time::Unit,
    types::{DType, Field, Width},
};

/// An expression whose operands do not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TypeError {
    /// An id that names nothing in this program.
    #[error("an operand names nothing in this program")]
    Dangling,
    /// An operand of a type the operator does not take.
    #[error("`{op}` takes {expected}, not {found}")]
    Operand {
        /// The operator as written.
        op: String,
        /// What it takes, in words.
        expected: String,
        /// The operand's type.
        found: DType,
    },
    /// Two operands that must have one type.
    #[error("`{op}` needs two values of one type, not {left} and {right}; cast one of them")]
    Mismatch {
        /// The operator as written.
        op: String,
        /// Left type.
        left: DType,
        /// Right type.
        right: DType,
    },
    /// A cast without a meaning.
    #[error("{from} cannot be cast to {to}")]
    Cast {
        /// Type of the value.
        from: DType,
        /// The wanted type.
        to: DType,
    },
    /// A constant that its type cannot hold.
    #[error("the constant does not fit into {0}")]
    Constant(DType),
    /// A field that the record does not have.
    #[error("there is no field `{name}` in {found}")]
    Field {
        /// The field asked for.
        name: String,
        /// The type it was asked of.
        found: DType,
    },
    /// A record with two fields of one name.
    #[error("the record has two fields `{0}`")]
    DuplicateField(String),
    /// Wrong number of arguments.
    #[error("`@{name}` takes {expected} arguments, not {found}")]
    Arity {
        /// The function.
        name: String,
        /// How many it declares.
        expected: usize,
        /// How many it got.
        found: usize,
    },
}

type Result<T> = std::result::Result<T, TypeError>;

impl Program {
    /// Derives the type of `expr` from the types of its operands.
    ///
    /// # Errors
    /// When an operand does not fit.
    pub fn type_of(&self, expr: &Expr) -> Result<DType> {
        let of = |id: ExprId| {
            self.exprs
                .get(id)
                .map(|node| &node.dtype)
                .ok_or(TypeError::Dangling)
        };
        let stream = |id| {
            if self.streams.contains(id) {
                Ok(self.stream_dtype(id))
            } else {
                Err(TypeError::Dangling)
            }
        };
        Ok(match expr {
            Expr::Const(scalar, dtype) => {
                if !scalar.fits(dtype) {
                    return Err(TypeError::Constant(dtype.clone()));
                }
                dtype.clone()
            }
            Expr::Null(dtype) => dtype.clone(),
            Expr::Time => DType::Timestamp(self.unit),
            Expr::At { stream: s, .. }
            | Expr::Hold { stream: s, .. }
            | Expr::Prev { stream: s, .. } => stream(*s)?.clone(),
            Expr::Edge {
                stream: s,
                edge: Edge::Start | Edge::End,
                ..
            } => {
                stream(*s)?;
                DType::Timestamp(self.unit)
            }
            Expr::Reduce { agg, window, map } => {
                let value = match map {
                    Some(map) => of(*map)?,
                    None => stream(window.stream)?,
                };
                self.type_of_reduction(*agg, value)?
            }
            Expr::Var(var) => self
                .vars
                .get(*var)
                .ok_or(TypeError::Dangling)?
                .dtype
                .clone(),
            Expr::Let { var, value, body } => {
                let var = self.vars.get(*var).ok_or(TypeError::Dangling)?;
                same("let", &var.dtype, of(*value)?)?;
                of(*body)?.clone()
            }
            Expr::Unary(op, a) => type_of_unary(*op, of(*a)?)?,
            Expr::Binary(op, a, b) => type_of_binary(*op, of(*a)?, of(*b)?)?,
            Expr::Clip { value, lo, hi } => {
                let value = of(*value)?;
                operand(
                    "clip",
                    value,
                    "numbers, timestamps or durations",
                    |d| match d {
                        DType::Timestamp(_) | DType::Duration(_) => true,
                        d => d.is_number(),
                    },
                )?;
                same("clip", value, of(*lo)?)?;
                same("clip", value, of(*hi)?)?;
                value.clone()
            }
            Expr::When {
                cond,
                then,
                otherwise,
            } => {
                operand("if", of(*cond)?, "a bool condition", |d| *d == DType::Bool)?;
                same("if", of(*then)?, of(*otherwise)?)?;
                of(*then)?.clone()
            }
            Expr::IsNull(a) => {
                of(*a)?;
                DType::Bool
            }
            Expr::Coalesce(a, b) => {
                same("coalesce", of(*a)?, of(*b)?)?;
                of(*a)?.clone()
            }
            Expr::Record(fields) => {
                let mut types: Vec<Field> = Vec::with_capacity(fields.len());
                for (name, value) in fields {
                    if types.iter().any(|f| f.name == *name) {
                        return Err(TypeError::DuplicateField(name.clone()));
                    }
                    types.push(Field {
                        name: name.clone(),
                        dtype: of(*value)?.clone(),
                    });
                }
                DType::Record(types)
            }
            Expr::Field(record, name) => {
                let record = of(*record)?;
                record
                    .field(name)
                    .ok_or_else(|| TypeError::Field {
                        name: name.clone(),
                        found: record.clone(),
                    })?
                    .clone()
            }
            Expr::Cast(a, to) => {
                let from = of(*a)?;
                if !castable(from, to) {
                    return Err(TypeError::Cast {
                        from: from.clone(),
                        to: to.clone(),
                    });
                }
                to.clone()
            }
            Expr::Call { func, args } => {
                let function = self.functions.get(*func).ok_or(TypeError::Dangling)?;
                if function.params.len() != args.len() {
                    return Err(TypeError::Arity {
                        name: function.name.clone(),
                        expected: function.params.len(),
                        found: args.len(),
                    });
                }
                for (param, arg) in function.params.iter().zip(args) {
                    same(&format!("@{}", function.name), param, of(*arg)?)?;
                }
                function.result.clone()
            }
        })
    }

    /// The type of a reduction over values of type `value`.
    fn type_of_reduction(&self, agg: Agg, value: &DType) -> Result<DType> {
        let name = || format!("reduce {}", agg.name());
        let number = |d: &DType| d.is_number();
        let scalar = |d: &DType| d.is_scalar();
        Ok(match agg {
            Agg::Sum => {
                operand(&name(), value, "numbers, bools or durations", |d| {
                    d.is_number() || matches!(d, DType::Bool | DType::Duration(_))
                })?;
                match value {
                    DType::Duration(_) => value.clone(),
                    value => accumulator(value),
                }
            }
            Agg::Product => {
                operand(&name(), value, "numbers", number)?;
                accumulator(value)
            }
            Agg::Mean
            | Agg::Var { .. }
            | Agg::Std { .. }
            | Agg::Skew { .. }
            | Agg::Kurtosis { .. }
            | Agg::Rms
            | Agg::CrestFactor
            | Agg::Median
            | Agg::Quantile { .. }
            | Agg::Twa
            | Agg::Integral
            | Agg::Slope
            | Agg::Ewm { .. } => {
                operand(&name(), value, "numbers", number)?;
                DType::F64
            }
            Agg::Min | Agg::Max | Agg::Mode => {
                operand(&name(), value, "scalars", scalar)?;
                value.clone()
            }
            Agg::NUnique => {
                operand(&name(), value, "scalars", scalar)?;
                DType::I64
            }
            Agg::ArgMin | Agg::ArgMax => {
                operand(&name(), value, "scalars", scalar)?;
                DType::Timestamp(self.unit)
            }
            Agg::TopK { .. } => {
                operand(&name(), value, "scalars", scalar)?;
                DType::List(Box::new(value.clone()))
            }
            Agg::Collect => {
                operand(&name(), value, "scalars", scalar)?;
                DType::List(Box::new(value.clone()))
            }
            Agg::Len => DType::I64,
            Agg::First | Agg::Last => value.clone(),
            Agg::Any | Agg::All => {
                operand(&name(), value, "bools", |d| *d == DType::Bool)?;
                DType::Bool
            }
            Agg::Custom(id) => {
                let reducer = self.reducers.get(id).ok_or(TypeError::Dangling)?;
                same(&format!("reduce @{}", reducer.name), &reducer.input, value)?;
                self.exprs
                    .get(reducer.result.body)
                    .ok_or(TypeError::Dangling)?
                    .dtype
                    .clone()
            }
        })
    }
}

/// What sums and products of `value` are held in.
fn accumulator(value: &DType) -> DType {
    match value {
        DType::UInt(_) => DType::U64,
        DType::Float(_) => DType::F64,
        _ => DType::I64,
    }
}

fn type_of_unary(op: UnaryOp, a: &DType) -> Result<DType> {
    use UnaryOp::*;
    let signed = |d: &DType| matches!(d, DType::Int(_) | DType::Float(_) | DType::Duration(_));
    match op {
        Neg => operand(op.symbol(), a, "signed numbers or durations", signed)?,
        Not => operand(op.symbol(), a, "bools", |d| *d == DType::Bool)?,
        BitNot => operand(op.symbol(), a, "integers", DType::is_integer)?,
        Abs => operand(op.symbol(), a, "numbers or durations", |d| {
            signed(d) || d.is_number()
        })?,
        Sign => operand(op.symbol(), a, "numbers", DType::is_number)?,
        IsNan | IsFinite | IsInfinite => {
            operand(op.symbol(), a, "floats", DType::is_float)?;
            return Ok(DType::Bool);
        }
        Part(_) => {
            operand(
                op.symbol(),
                a,
                "timestamps with a unit of seconds",
                |d| matches!(d, DType::Timestamp(unit) if *unit != Unit::Tick),
            )?;
            return Ok(DType::Int(Width::W32));
        }
        Sqrt | Cbrt | Exp | Exp2 | Expm1 | Log | Log2 | Log10 | Log1p | Sin | Cos | Tan | Asin
        | Acos | Atan | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Floor | Ceil | Trunc
        | Round => operand(op.symbol(), a, "floats", DType::is_float)?,
    }
    Ok(a.clone())
}

fn type_of_binary(op: BinaryOp, a: &DType, b: &DType) -> Result<DType> {
    use BinaryOp::*;
    use DType::{Bool, Duration, Timestamp};
    // Time arithmetic is where the two sides may differ.
    match (op, a, b) {
        (Add | Sub, Timestamp(u), Duration(v)) if u == v => return Ok(a.clone()),
        (Sub, Timestamp(u), Timestamp(v)) if u == v => return Ok(Duration(*u)),
        (Mul | Div, Duration(_), DType::Int(Width::W64)) => return Ok(a.clone()),
        _ => same(op.symbol(), a, b)?,
    }
    let (expected, fits): (&str, fn(&DType) -> bool) = match op {
        Add | Sub | Rem => ("numbers or durations", |d| {
            d.is_number() || matches!(d, Duration(_))
        }),
        Mul | Div | Pow => ("numbers", DType::is_number),
        Atan2 | Hypot => ("floats", DType::is_float),
        Min | Max | Eq | Ne | Lt | Le | Gt | Ge => ("scalars", DType::is_scalar),
        And | Or | Xor => ("bools", |d| *d == Bool),
        BitAnd | BitOr | BitXor | Shl | Shr => ("integers", DType::is_integer),
    };
    operand(op.symbol(), a, expected, fits)?;
    Ok(match op {
        Eq | Ne | Lt | Le | Gt | Ge => Bool,
        _ => a.clone(),
    })
}

fn castable(from: &DType, to: &DType) -> bool {
    use DType::{Bool, Duration, Timestamp};
    let seconds = |u: &Unit| *u != Unit::Tick;
    match (from, to) {
        (Bool, to) => to.is_number() || *to == Bool,
        (Timestamp(u), Timestamp(v)) | (Duration(u), Duration(v)) => {
            u == v || (seconds(u) && seconds(v))
        }
        (Timestamp(_) | Duration(_), to) => *to == DType::I64,
        (from, Timestamp(_) | Duration(_)) => *from == DType::I64,
        (from, to) => from.is_number() && to.is_number(),
    }
}

fn same(op: &str, left: &DType, right: &DType) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(TypeError::Mismatch {
        op: op.to_owned(),
        left: left.clone(),
        right: right.clone(),
    })
}

fn operand(op: &str, found: &DType, expected: &str, fits: impl Fn(&DType) -> bool) -> Result<()> {
    if fits(found) {
        return Ok(());
    }
    Err(TypeError::Operand {
        op: op.to_owned(),
        expected: expected.to_owned(),
        found: found.clone(),
    })
}
