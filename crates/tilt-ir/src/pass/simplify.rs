//! Simplification by identities that hold bit for bit.

use std::collections::HashMap;

use super::{
    Pass,
    rewrite::{Place, add, rewrite, rewrite_bodies},
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::{ExprId, VarId},
    nullness::strict_in,
    program::Program,
    types::Scalar,
};

/// Removes operations that change nothing, whatever the data: NaN, infinities, signed zeros and φ included.
///
/// ```text
/// x * 1.0                                       =>    x          (but not x * 0.0, nor x + 0.0, which loses -0.0)
/// if true then a else b                         =>    a
/// if !is_null(a) && !is_null(b) then a - b      =>    a - b      (subtraction is strict in φ anyway)
///     else null
/// {p: a, q: b}.p                                =>    a
/// let v = 2.0 in v * x                          =>    2.0 * x    (also a variable used once, where that is certain to be evaluated)
/// ```
pub struct Simplify;

impl Pass for Simplify {
    fn name(&self) -> &'static str {
        "simplify"
    }

    fn run(&self, program: &mut Program) -> bool {
        let mut changed = false;
        // Each round can expose more; sizes only shrink, so this ends.
        while rewrite_bodies(program, simplify) {
            changed = true;
        }
        changed
    }
}

fn simplify(program: &mut Program, _: Place, expr: &Expr) -> Option<ExprId> {
    match expr {
        Expr::Unary(op, a) => match (op, program.expr(*a)) {
            (UnaryOp::Neg, Expr::Unary(UnaryOp::Neg, x))
            | (UnaryOp::Not, Expr::Unary(UnaryOp::Not, x))
            | (UnaryOp::BitNot, Expr::Unary(UnaryOp::BitNot, x)) => Some(*x),
            _ => None,
        },
        Expr::Binary(op, a, b) => simplify_binary(program, *op, *a, *b),
        Expr::When {
            cond,
            then,
            otherwise,
        } => simplify_when(program, *cond, *then, *otherwise),
        Expr::IsNull(a) => is_plainly_present(program, *a).then(|| truth(program, false)),
        Expr::Coalesce(a, b) => match (program.expr(*a), program.expr(*b)) {
            (Expr::Null(_), _) => Some(*b),
            (_, Expr::Null(_)) => Some(*a),
            _ if a == b || is_plainly_present(program, *a) => Some(*a),
            _ => None,
        },
        Expr::Field(record, name) => match program.expr(*record) {
            Expr::Record(fields) => fields.iter().find(|f| f.0 == *name).map(|f| f.1),
            _ => None,
        },
        Expr::Cast(a, to) => (program.dtype(*a) == to).then_some(*a),
        Expr::Let { var, value, body } => simplify_let(program, *var, *value, *body),
        _ => None,
    }
}

fn truth(program: &mut Program, value: bool) -> ExprId {
    add(
        program,
        Expr::Const(Scalar::Bool(value), crate::types::DType::Bool),
    )
}

/// Nodes that have a value by their form.
fn is_plainly_present(program: &Program, id: ExprId) -> bool {
    matches!(
        program.expr(id),
        Expr::Const(..) | Expr::Time | Expr::Record(_) | Expr::IsNull(_)
    )
}

fn simplify_binary(
    program: &mut Program,
    op: BinaryOp,
    a: ExprId,
    b: ExprId,
) -> Option<ExprId> {
    use BinaryOp::*;
    let is = |id: ExprId, number: i64| match program.expr(id) {
        Expr::Const(Scalar::Int(v), _) => *v == number,
        Expr::Const(Scalar::UInt(v), _) => u64::try_from(number) == Ok(*v),
        // The sign of zero counts: this is +0.
        Expr::Const(Scalar::Float(v), _) => v.to_bits() == (number as f64).to_bits(),
        _ => false,
    };
    let is_bool = |id: ExprId, truth: bool| {
        matches!(program.expr(id), Expr::Const(Scalar::Bool(v), _) if *v == truth)
    };
    // Only where both sides have the result's type: a timestamp minus a zero duration would do as well.
    let integer = program.dtype(a).is_integer();
    let float = program.dtype(a).is_float();
    let minus_zero = |id: ExprId| {
        matches!(program.expr(id), Expr::Const(Scalar::Float(v), _) if v.to_bits() == (-0.0f64).to_bits())
    };
    match op {
        Mul if is(b, 1) && (integer || float) => Some(a),
        Mul if is(a, 1) && (integer || float) => Some(b),
        Div if is(b, 1) && (integer || float) => Some(a),
        Sub if is(b, 0) && (integer || float) => Some(a),
        Add if (integer && is(b, 0)) || (float && minus_zero(b)) => Some(a),
        Add if (integer && is(a, 0)) || (float && minus_zero(a)) => Some(b),
        BitOr | BitXor | Shl | Shr if is(b, 0) => Some(a),
        BitOr | BitXor if is(a, 0) => Some(b),
        // False is decisive for `and` whatever the other side is, φ included; true for `or`.
        And if is_bool(a, true) || is_bool(b, false) => Some(b),
        And if is_bool(b, true) || is_bool(a, false) => Some(a),
        Or if is_bool(a, false) || is_bool(b, true) => Some(b),
        Or if is_bool(b, false) || is_bool(a, true) => Some(a),
        And | Or if a == b => Some(a),
        _ => None,
    }
}

fn simplify_when(
    program: &mut Program,
    cond: ExprId,
    then: ExprId,
    otherwise: ExprId,
) -> Option<ExprId> {
    if then == otherwise || program.expr(then) == program.expr(otherwise) {
        return Some(then);
    }
    match program.expr(cond) {
        Expr::Const(Scalar::Bool(true), _) => return Some(then),
        Expr::Const(Scalar::Bool(false), _) | Expr::Null(_) => return Some(otherwise),
        // if is_null(x) then null else e(x)
        Expr::IsNull(x)
            if matches!(program.expr(then), Expr::Null(_))
                && is_strict_in_node(program, otherwise, *x) =>
        {
            return Some(otherwise);
        }
        _ => {}
    }
    if !matches!(program.expr(otherwise), Expr::Null(_)) {
        return None;
    }
    // if !is_null(x) && c then e(x) else null
    let mut kept = Vec::new();
    let mut dropped = false;
    for atom in conjuncts(program, cond) {
        if let Expr::Unary(UnaryOp::Not, inner) = program.expr(atom)
            && let Expr::IsNull(x) = program.expr(*inner)
            && is_strict_in_node(program, then, *x)
        {
            dropped = true;
        } else {
            kept.push(atom);
        }
    }
    if !dropped {
        return None;
    }
    let Some(cond) = kept
        .into_iter()
        .reduce(|a, b| add(program, Expr::Binary(BinaryOp::And, a, b)))
    else {
        return Some(then);
    };
    Some(add(
        program,
        Expr::When {
            cond,
            then,
            otherwise,
        },
    ))
}

fn conjuncts(program: &Program, id: ExprId) -> Vec<ExprId> {
    match program.expr(id) {
        Expr::Binary(BinaryOp::And, a, b) => {
            let mut all = conjuncts(program, *a);
            all.extend(conjuncts(program, *b));
            all
        }
        _ => vec![id],
    }
}

/// Whether `root` is φ whenever an expression equal to `node` is.
fn is_strict_in_node(program: &Program, root: ExprId, node: ExprId) -> bool {
    let target = program.expr(node);
    strict_in(program, root, &|id, expr| id == node || expr == target)
}

fn simplify_let(
    program: &mut Program,
    var: VarId,
    value: ExprId,
    body: ExprId,
) -> Option<ExprId> {
    let mut uses = Uses::default();
    uses.count(program, body, var, true);
    let inline = match program.expr(value) {
        Expr::Const(..) | Expr::Null(_) | Expr::Var(_) => true,
        _ => uses.certain == 1 && uses.uncertain == 0,
    };
    // An unused value could only have failed; whoever computes it would have failed without it too.
    if uses.certain + uses.uncertain == 0 && is_infallible(program, value) {
        return Some(body);
    }
    if !inline {
        return None;
    }
    Some(rewrite(program, body, &mut |_, _, expr| {
        (*expr == Expr::Var(var)).then_some(value)
    }))
}

/// Whether evaluating cannot stop the run: no reduction that can overflow, no read that can meet several values.
fn is_infallible(program: &Program, root: ExprId) -> bool {
    let mut infallible = true;
    program.walk(root, &mut |_, expr| {
        infallible &= expr.stream().is_none() && !matches!(expr, Expr::Call { .. });
    });
    infallible
}

/// How often a variable is read, by whether the read is sure to happen at the place of its `let`.
#[derive(Default)]
struct Uses {
    certain: usize,
    uncertain: usize,
    counted: HashMap<(ExprId, bool), (usize, usize)>,
}

impl Uses {
    fn count(&mut self, program: &Program, id: ExprId, var: VarId, certain: bool) {
        let key = (id, certain);
        if let Some((a, b)) = self.counted.get(&key).copied() {
            self.certain += a;
            self.uncertain += b;
            return;
        }
        let before = (self.certain, self.uncertain);
        match program.expr(id) {
            Expr::Var(v) if *v == var => {
                if certain {
                    self.certain += 1;
                } else {
                    self.uncertain += 1;
                }
            }
            Expr::When {
                cond,
                then,
                otherwise,
            } => {
                self.count(program, *cond, var, certain);
                self.count(program, *then, var, false);
                self.count(program, *otherwise, var, false);
            }
            Expr::Coalesce(a, b) => {
                self.count(program, *a, var, certain);
                self.count(program, *b, var, false);
            }
            Expr::Reduce { map, .. } => {
                if let Some(map) = map {
                    self.count(program, *map, var, false);
                }
            }
            expr => {
                let mut operands = Vec::new();
                expr.for_each_operand(|operand| operands.push(operand));
                for operand in operands {
                    self.count(program, operand, var, certain);
                }
            }
        }
        let delta = (self.certain - before.0, self.uncertain - before.1);
        self.counted.insert(key, delta);
    }
}
