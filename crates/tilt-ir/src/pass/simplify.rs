//! Simplification by identities that hold bit for bit.

use rustc_hash::FxHashMap as HashMap;

use super::{
    Pass,
    rewrite::{Place, add, is_infallible, replace_body, rewrite, temporal_body},
};
use crate::{
    expr::{BinaryOp, Expr, UnaryOp},
    ids::{ExprId, StreamId, VarId},
    nullness::{Here, Totality, never_null, strict_in},
    program::Program,
    timeline::{Timeline, Timelines},
    types::{DType, Scalar},
};

/// Removes operations that change nothing, whatever the data: NaN, infinities, signed zeros and φ included.
///
/// ```text
/// x * 1.0                                       =>    x          (but not x * 0.0, nor x + 0.0, which loses -0.0)
/// if true then a else b                         =>    a
/// if !is_null(a) && !is_null(b) then a - b      =>    a - b      (subtraction is strict in φ anyway)
///     else null
/// is_null(e)                                    =>    false      (where the clock or the operators say so)
/// {p: a, q: b}.p                                =>    a
/// let v = 2.0 in v * x                          =>    2.0 * x    (also a variable used once, where that is certain to be evaluated)
/// ```
pub struct Simplify;

impl Pass for Simplify {
    fn name(&self) -> &'static str {
        "simplify"
    }

    fn run(&self, program: &mut Program) -> bool {
        let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
        let mut changed = false;
        for id in streams {
            // What is known of other streams does not depend on how this one is written.
            let facts = Facts::new(program, id);
            loop {
                let body = temporal_body(program, id);
                let new = rewrite(program, body, &mut |program, place, expr| {
                    simplify(program, &facts, place, expr)
                });
                let new = drop_guards(program, &facts, new);
                if new == body || !replace_body(program, id, new) {
                    break;
                }
                changed = true;
            }
        }
        changed
    }
}

/// What is known where a body is evaluated.
struct Facts {
    timelines: Timelines,
    totality: Totality,
    here: Here,
    aligned: Option<Timeline>,
}

impl Facts {
    fn new(program: &Program, id: StreamId) -> Self {
        let timelines = Timelines::new(program);
        let clock = &program.streams[id]
            .as_temporal()
            .expect("only temporal expressions are simplified")
            .clock;
        Self {
            totality: Totality::new(program, &timelines),
            here: Here::of_clock(&timelines, clock),
            aligned: timelines.aligned(clock),
            timelines,
        }
    }

    fn is_present(&self, program: &Program, place: Place, id: ExprId) -> bool {
        let in_map;
        let here = match place {
            Place::Body => &self.here,
            Place::Map(stream) => {
                in_map = Here {
                    timeline: Some(self.timelines.of(stream)),
                    present: Some(stream),
                };
                &in_map
            }
        };
        never_null(program, &self.timelines, &self.totality, id, here)
    }

    /// Whether `root` can be evaluated where it was not before.
    fn is_infallible(&self, program: &Program, place: Place, root: ExprId) -> bool {
        let aligned = match place {
            Place::Body => self.aligned,
            Place::Map(stream) => Some(self.timelines.of(stream)),
        };
        is_infallible(program, &self.timelines, aligned, root)
    }
}

/// Removes `if !is_null(x) then e else null` down to `e` in a body that is φ without `x` anyway.
fn drop_guards(program: &mut Program, facts: &Facts, root: ExprId) -> ExprId {
    let mut guards = Vec::new();
    program.walk(root, &mut |id, expr| {
        if let Some((x, then)) = as_guard(program, expr)
            && facts.is_infallible(program, Place::Body, then)
            && is_strict_in_node(program, root, x)
        {
            guards.push((id, x));
        }
    });
    let mut root = root;
    for (guard, x) in guards {
        let guard = program.expr(guard).clone();
        let x = program.expr(x).clone();
        let new = rewrite(program, root, &mut |program, place, expr| {
            (place == Place::Body && *expr == guard)
                .then(|| as_guard(program, expr).map(|guard| guard.1))?
        });
        // The guard itself may have been what makes the body φ.
        if strict_in(program, new, &|_, expr| *expr == x) {
            root = new;
        }
    }
    root
}

/// The `x` and `e` of `if !is_null(x) then e else null`.
fn as_guard(program: &Program, expr: &Expr) -> Option<(ExprId, ExprId)> {
    let Expr::When {
        cond,
        then,
        otherwise,
    } = expr
    else {
        return None;
    };
    match (program.expr(*cond), program.expr(*otherwise)) {
        (Expr::Unary(UnaryOp::Not, null), Expr::Null(_)) => match program.expr(*null) {
            Expr::IsNull(x) => Some((*x, *then)),
            _ => None,
        },
        _ => None,
    }
}

fn simplify(program: &mut Program, facts: &Facts, place: Place, expr: &Expr) -> Option<ExprId> {
    match expr {
        Expr::Unary(op, a) => match (op, program.expr(*a)) {
            (UnaryOp::Neg, Expr::Unary(UnaryOp::Neg, x))
            | (UnaryOp::Not, Expr::Unary(UnaryOp::Not, x))
            | (UnaryOp::BitNot, Expr::Unary(UnaryOp::BitNot, x)) => Some(*x),
            (UnaryOp::Not, Expr::Const(Scalar::Bool(v), _)) => {
                let v = *v;
                Some(constant(program, !v))
            }
            _ => None,
        },
        Expr::Binary(op, a, b) => simplify_binary(program, *op, *a, *b),
        Expr::When {
            cond,
            then,
            otherwise,
        } => simplify_when(program, facts, place, *cond, *then, *otherwise),
        Expr::IsNull(a) => facts
            .is_present(program, place, *a)
            .then(|| constant(program, false)),
        Expr::Coalesce(a, b) => match (program.expr(*a), program.expr(*b)) {
            (Expr::Null(_), _) => Some(*b),
            (_, Expr::Null(_)) => Some(*a),
            _ if a == b || facts.is_present(program, place, *a) => Some(*a),
            _ => None,
        },
        Expr::Field(record, name) => match program.expr(*record) {
            Expr::Record(fields) => fields.iter().find(|f| f.0 == *name).map(|f| f.1),
            Expr::Null(_) => {
                let dtype = program.type_of(expr).ok()?;
                Some(add(program, Expr::Null(dtype)))
            }
            Expr::When {
                cond,
                then,
                otherwise,
            } => {
                let (cond, then, otherwise) = (*cond, *then, *otherwise);
                let then = add(program, Expr::Field(then, name.clone()));
                let otherwise = add(program, Expr::Field(otherwise, name.clone()));
                Some(add(
                    program,
                    Expr::When {
                        cond,
                        then,
                        otherwise,
                    },
                ))
            }
            _ => None,
        },
        Expr::Cast(a, to) => (program.dtype(*a) == to).then_some(*a),
        Expr::Let { var, value, body } => simplify_let(program, facts, place, *var, *value, *body),
        _ => None,
    }
}

fn constant(program: &mut Program, value: bool) -> ExprId {
    add(program, Expr::Const(Scalar::Bool(value), DType::Bool))
}

fn simplify_binary(program: &mut Program, op: BinaryOp, a: ExprId, b: ExprId) -> Option<ExprId> {
    use BinaryOp::*;
    let is = |id: ExprId, number: i64| match program.expr(id) {
        Expr::Const(Scalar::Int(v), _) => *v == number,
        Expr::Const(Scalar::UInt(v), _) => u64::try_from(number) == Ok(*v),
        // The sign of zero counts: this is +0.
        Expr::Const(Scalar::Float(v), _) => v.to_bits() == (number as f64).to_bits(),
        _ => false,
    };
    let is_bool = |id: ExprId, truth: bool| matches!(program.expr(id), Expr::Const(Scalar::Bool(v), _) if *v == truth);
    // Only where both sides have the result's type: a timestamp minus a zero duration would do as well.
    let integer = program.dtype(a).is_integer();
    let float = program.dtype(a).is_float();
    let minus_zero = |id: ExprId| matches!(program.expr(id), Expr::Const(Scalar::Float(v), _) if v.to_bits() == (-0.0f64).to_bits());
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
    facts: &Facts,
    place: Place,
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
                && facts.is_infallible(program, place, otherwise)
                && is_strict_in_node(program, otherwise, *x) =>
        {
            return Some(otherwise);
        }
        _ => {}
    }
    if !matches!(program.expr(otherwise), Expr::Null(_))
        || !facts.is_infallible(program, place, then)
    {
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
    facts: &Facts,
    place: Place,
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
    if uses.certain + uses.uncertain == 0 && facts.is_infallible(program, place, value) {
        return Some(body);
    }
    if !inline {
        return None;
    }
    Some(rewrite(program, body, &mut |_, _, expr| {
        (*expr == Expr::Var(var)).then_some(value)
    }))
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
