//! From scalar expressions of the temporal IR to the body of a loop.
//!
//! [`Lowering`] walks an expression and appends instructions to a [`Body`]. What a read of a stream becomes is not known here: [`Reads`] says it,
//! because that depends on the clock and on the data. φ is carried beside the value as [`Valid`].

mod body;
mod cast;
mod number;
mod prune;

use std::collections::HashMap;

pub use body::{Body, Finished, Valid};
use tilt_ir::{
    BinaryOp, DType, Edge, Expr, ExprId, FloatWidth, Program, Scalar, StreamId, VarId, Width,
};

use crate::lir::{Binary, Compare, Imm, Ty, Unary, ValueId};

/// Something that loops cannot compute; the interpreter does.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// A result, or why loops cannot compute it.
pub type Result<T> = std::result::Result<T, Unsupported>;

/// A value of any type, or φ.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// A scalar.
    Scalar {
        /// Anything where there is none.
        value: ValueId,
        /// Where there is one.
        valid: Valid,
    },
    /// A record.
    Record {
        /// Where there is one.
        present: Valid,
        /// Its fields in order.
        fields: Vec<(String, Term)>,
    },
}

impl Term {
    /// Where it is not φ.
    pub fn valid(&self) -> Valid {
        match self {
            Self::Scalar { valid, .. } => *valid,
            Self::Record { present, .. } => *present,
        }
    }
}

/// What reads of streams become in the loop being built.
pub trait Reads {
    /// `t`, an `i64`.
    fn time(&mut self, body: &mut Body) -> Result<ValueId>;
    /// `~x[t+offset]`.
    fn at(&mut self, body: &mut Body, stream: StreamId, offset: i64) -> Result<Term>;
    /// `hold(~x[t+offset], max_age)`.
    fn hold(
        &mut self,
        body: &mut Body,
        stream: StreamId,
        offset: i64,
        max_age: Option<i64>,
    ) -> Result<Term>;
    /// `~x.prev(n)`.
    fn prev(&mut self, body: &mut Body, stream: StreamId, n: u32) -> Result<Term>;
    /// `start(~x[t+offset])` or `end(…)`.
    fn edge(&mut self, body: &mut Body, stream: StreamId, offset: i64, edge: Edge) -> Result<Term>;
    /// A reduction; `id` is its node.
    fn reduce(&mut self, body: &mut Body, id: ExprId) -> Result<Term>;
    /// A call of an external function with these arguments; `id` is its node.
    fn call(&mut self, body: &mut Body, id: ExprId, args: &[Term]) -> Result<Term>;
    /// A loop-invariant string, as its code.
    fn text(&mut self, body: &mut Body, text: &str) -> Result<ValueId>;
}

/// The register type of a scalar type.
///
/// # Errors
/// For types that loops have no registers for.
pub fn register(dtype: &DType) -> Result<Ty> {
    Ok(match dtype {
        DType::Bool => Ty::Bool,
        DType::Int(Width::W8) => Ty::I8,
        DType::Int(Width::W16) => Ty::I16,
        DType::Int(Width::W32) => Ty::I32,
        DType::Int(Width::W64) | DType::Timestamp(_) | DType::Duration(_) => Ty::I64,
        DType::UInt(Width::W8) => Ty::U8,
        DType::UInt(Width::W16) => Ty::U16,
        DType::UInt(Width::W32) => Ty::U32,
        DType::UInt(Width::W64) => Ty::U64,
        DType::Float(FloatWidth::W32) => Ty::F32,
        // Half floats are computed as doubles, rounded after each operation.
        DType::Float(FloatWidth::W64 | FloatWidth::W16) => Ty::F64,
        // Codes in the order of the strings.
        DType::Utf8 => Ty::U32,
        // Words that stand for lists.
        DType::List(_) => Ty::U64,
        DType::Record(_) => {
            return Err(Unsupported(format!("values of type {dtype}")));
        }
    })
}

/// Lowers the expressions of one loop.
#[derive(Debug)]
pub struct Lowering<'a, R> {
    /// The program.
    pub program: &'a Program,
    /// What reads become.
    pub reads: R,
    vars: HashMap<VarId, Term>,
}

impl<'a, R: Reads> Lowering<'a, R> {
    /// Nothing lowered yet.
    pub fn new(program: &'a Program, reads: R) -> Self {
        Self {
            program,
            reads,
            vars: HashMap::new(),
        }
    }

    /// Gives a variable its value, for the body of a function.
    pub fn bind(&mut self, var: VarId, term: Term) {
        self.vars.insert(var, term);
    }

    /// Appends the instructions of an expression.
    ///
    /// # Errors
    /// When loops cannot compute it.
    pub fn lower(&mut self, body: &mut Body, id: ExprId) -> Result<Term> {
        let dtype = self.program.dtype(id);
        match self.program.expr(id) {
            Expr::Const(scalar, dtype) => self.constant(body, scalar, dtype),
            Expr::Null(dtype) => null(body, dtype),
            Expr::Time => Ok(always(self.reads.time(body)?)),
            Expr::At { stream, offset } => self.reads.at(body, *stream, *offset),
            Expr::Hold {
                stream,
                offset,
                max_age,
            } => self.reads.hold(body, *stream, *offset, *max_age),
            Expr::Prev { stream, n } => self.reads.prev(body, *stream, *n),
            Expr::Edge {
                stream,
                offset,
                edge,
            } => self.reads.edge(body, *stream, *offset, *edge),
            Expr::Reduce { .. } => self.reads.reduce(body, id),
            Expr::Var(var) => self.variable(body, *var),
            Expr::Let {
                var,
                value,
                body: inner,
            } => {
                let value = self.lower(body, *value)?;
                self.vars.insert(*var, value);
                self.lower(body, *inner)
            }
            Expr::Unary(op, a) => {
                let operand = self.program.dtype(*a);
                let (value, valid) = self.scalar(body, *a)?;
                let (value, defined) = number::unary(body, *op, value, operand)?;
                let value = rounded(body, value, dtype);
                let valid = body.both(valid, defined);
                Ok(Term::Scalar { value, valid })
            }
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let (a, b) = (self.scalar(body, *a)?, self.scalar(body, *b)?);
                Ok(kleene(body, *op, a, b))
            }
            Expr::Binary(op, a, b) => {
                let (a, a_valid) = self.scalar(body, *a)?;
                let (b, b_valid) = self.scalar(body, *b)?;
                let (value, defined) = number::binary(body, *op, a, b)?;
                let value = rounded(body, value, dtype);
                let valid = body.both(a_valid, b_valid);
                let valid = body.both(valid, defined);
                Ok(Term::Scalar { value, valid })
            }
            Expr::Clip { value, lo, hi } => {
                let (x, x_valid) = self.scalar(body, *value)?;
                let (lo, lo_valid) = self.scalar(body, *lo)?;
                let (hi, hi_valid) = self.scalar(body, *hi)?;
                let clipped = number::clip(body, x, lo, hi);
                let valid = body.both(lo_valid, hi_valid);
                let valid = body.both(x_valid, valid);
                Ok(Term::Scalar {
                    value: clipped,
                    valid,
                })
            }
            Expr::When {
                cond,
                then,
                otherwise,
            } => {
                let (cond, cond_valid) = self.scalar(body, *cond)?;
                let known = body.truth(cond_valid);
                let cond = body.binary(Binary::And, cond, known);
                let then = self.lower(body, *then)?;
                let otherwise = self.lower(body, *otherwise)?;
                Ok(choose(body, cond, &then, &otherwise))
            }
            Expr::IsNull(a) => {
                let valid = self.lower(body, *a)?.valid();
                let valid = body.truth(valid);
                Ok(always(body.unary(Unary::Not, valid)))
            }
            Expr::Coalesce(a, b) => {
                let (a, b) = (self.lower(body, *a)?, self.lower(body, *b)?);
                let has = body.truth(a.valid());
                Ok(match choose(body, has, &a, &b) {
                    // There is a value where either has one.
                    Term::Scalar { value, .. } => Term::Scalar {
                        value,
                        valid: body.either(a.valid(), b.valid()),
                    },
                    record @ Term::Record { .. } => record,
                })
            }
            Expr::Record(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, e)| Ok((name.clone(), self.lower(body, *e)?)));
                Ok(Term::Record {
                    present: Valid::Always,
                    fields: fields.collect::<Result<_>>()?,
                })
            }
            Expr::Field(record, name) => {
                let Term::Record { present, fields } = self.lower(body, *record)? else {
                    return Err(Unsupported("a field of what is no record".into()));
                };
                let field = fields.into_iter().find(|(n, _)| n == name);
                match field {
                    Some((_, Term::Scalar { value, valid })) => Ok(Term::Scalar {
                        value,
                        valid: body.both(present, valid),
                    }),
                    Some((_, Term::Record { present: p, fields })) => Ok(Term::Record {
                        present: body.both(present, p),
                        fields,
                    }),
                    None => Err(Unsupported(format!("field {name}"))),
                }
            }
            Expr::Cast(a, to) => {
                let from = self.program.dtype(*a);
                let (value, valid) = self.scalar(body, *a)?;
                let (value, fits) = cast::cast(body, value, from, to)?;
                let value = rounded(body, value, to);
                let valid = body.both(valid, fits);
                Ok(Term::Scalar { value, valid })
            }
            Expr::Call { args, .. } => {
                let args = args.iter().map(|a| self.lower(body, *a));
                let args = args.collect::<Result<Vec<_>>>()?;
                self.reads.call(body, id, &args)
            }
        }
    }

    /// A variable. One that an expression around a map binds is computed here if it is the same at all instants.
    fn variable(&mut self, body: &mut Body, var: VarId) -> Result<Term> {
        if let Some(term) = self.vars.get(&var) {
            return Ok(term.clone());
        }
        let bound = self
            .program
            .exprs
            .iter()
            .find_map(|(_, node)| match &node.expr {
                Expr::Let { var: v, value, .. } if *v == var => Some(*value),
                _ => None,
            });
        let value = bound.filter(|value| self.is_invariant(*value));
        let value = value
            .ok_or_else(|| Unsupported("a variable of an enclosing expression in a map".into()))?;
        let term = self.lower(body, value)?;
        self.vars.insert(var, term.clone());
        Ok(term)
    }

    /// Whether an expression reads neither streams nor the time. Variables in it are checked when they are lowered.
    fn is_invariant(&self, root: ExprId) -> bool {
        let mut invariant = true;
        self.program.walk(root, &mut |_, expr| {
            invariant &= !matches!(
                expr,
                Expr::Time
                    | Expr::At { .. }
                    | Expr::Hold { .. }
                    | Expr::Prev { .. }
                    | Expr::Edge { .. }
                    | Expr::Reduce { .. }
                    | Expr::Call { .. }
            );
        });
        invariant
    }

    /// Lowers an expression of scalar type.
    fn scalar(&mut self, body: &mut Body, id: ExprId) -> Result<(ValueId, Valid)> {
        match self.lower(body, id)? {
            Term::Scalar { value, valid } => Ok((value, valid)),
            Term::Record { .. } => Err(Unsupported("an operator on records".into())),
        }
    }

    fn constant(&mut self, body: &mut Body, scalar: &Scalar, dtype: &DType) -> Result<Term> {
        let ty = register(dtype)?;
        Ok(always(match scalar {
            Scalar::Bool(v) => body.constant(Imm::bool(*v)),
            Scalar::Int(v) => body.int(ty, *v),
            Scalar::UInt(v) => body.int(ty, *v as i64),
            Scalar::Float(v) => body.float(ty, *v),
            Scalar::Str(text) => self.reads.text(body, text)?,
        }))
    }
}

/// A scalar that is never φ.
pub fn always(value: ValueId) -> Term {
    Term::Scalar {
        value,
        valid: Valid::Always,
    }
}

/// A double as a value of a type: half floats are rounded, everything else is what it is.
fn rounded(body: &mut Body, value: ValueId, dtype: &DType) -> ValueId {
    if *dtype == DType::Float(FloatWidth::W16) {
        body.call("tilt_round_f16", vec![value], Ty::F64)
    } else {
        value
    }
}

/// φ of a type.
fn null(body: &mut Body, dtype: &DType) -> Result<Term> {
    if let DType::Record(fields) = dtype {
        let fields = fields
            .iter()
            .map(|f| Ok((f.name.clone(), null(body, &f.dtype)?)));
        return Ok(Term::Record {
            present: Valid::Never,
            fields: fields.collect::<Result<_>>()?,
        });
    }
    let value = body.constant(Imm::zero(register(dtype)?));
    Ok(Term::Scalar {
        value,
        valid: Valid::Never,
    })
}

/// `then` where `cond`, else `otherwise`, φ included.
fn choose(body: &mut Body, cond: ValueId, then: &Term, otherwise: &Term) -> Term {
    match (then, otherwise) {
        (Term::Scalar { value: a, valid: v }, Term::Scalar { value: b, valid: w }) => {
            // Where only one side can have a value, that is the value.
            let value = match (v, w) {
                (Valid::Never, _) => *b,
                (_, Valid::Never) => *a,
                _ => body.select(cond, *a, *b),
            };
            Term::Scalar {
                value,
                valid: choose_valid(body, cond, *v, *w),
            }
        }
        (
            Term::Record {
                present: p,
                fields: a,
            },
            Term::Record {
                present: q,
                fields: b,
            },
        ) => {
            let fields = a.iter().zip(b).map(|((name, a), (_, b))| {
                let field = match (p, q) {
                    (Valid::Never, _) => b.clone(),
                    (_, Valid::Never) => a.clone(),
                    _ => choose(body, cond, a, b),
                };
                (name.clone(), field)
            });
            let fields = fields.collect();
            Term::Record {
                present: choose_valid(body, cond, *p, *q),
                fields,
            }
        }
        _ => unreachable!("the branches of a choice have one type"),
    }
}

fn choose_valid(body: &mut Body, cond: ValueId, then: Valid, otherwise: Valid) -> Valid {
    match (then, otherwise) {
        (a, b) if a == b => a,
        // What has a value is taken, as `coalesce` does.
        (Valid::If(then), other) if then == cond => body.either(Valid::If(then), other),
        (Valid::Never, other) => {
            let not = body.unary(Unary::Not, cond);
            let not = body.valid_if(not);
            body.both(not, other)
        }
        (other, Valid::Never) => {
            let cond = body.valid_if(cond);
            body.both(cond, other)
        }
        (a, b) => {
            let (a, b) = (body.truth(a), body.truth(b));
            let value = body.select(cond, a, b);
            body.valid_if(value)
        }
    }
}

/// Three-valued `and` and `or`: an operand that decides alone decides also against φ.
fn kleene(
    body: &mut Body,
    op: BinaryOp,
    (a, a_valid): (ValueId, Valid),
    (b, b_valid): (ValueId, Valid),
) -> Term {
    let (op, decides) = match op {
        BinaryOp::Or => (Binary::Or, true),
        _ => (Binary::And, false),
    };
    // With φ replaced by the operand that does not decide, the operator itself gives the value.
    let settle = |body: &mut Body, value: ValueId, valid: Valid| {
        let known = body.truth(valid);
        if decides {
            body.binary(Binary::And, value, known)
        } else {
            let unknown = body.unary(Unary::Not, known);
            body.binary(Binary::Or, value, unknown)
        }
    };
    let (a, b) = (settle(body, a, a_valid), settle(body, b, b_valid));
    let value = body.binary(op, a, b);
    let both = body.both(a_valid, b_valid);
    let decided = if decides {
        value
    } else {
        body.unary(Unary::Not, value)
    };
    let decided = body.valid_if(decided);
    let valid = body.either(both, decided);
    Term::Scalar { value, valid }
}

/// Comparison with zero, for conditions on integers.
fn is_zero(body: &mut Body, value: ValueId) -> ValueId {
    let ty = body.ty(value);
    let zero = body.constant(Imm::zero(ty));
    body.compare(Compare::Eq, value, zero)
}
