//! Common subexpressions.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::{
    Pass,
    rewrite::{Place, add, depth, replace_body, rewrite, temporal_body},
};
use crate::{
    expr::Expr,
    ids::{ExprId, StreamId, VarId},
    program::Program,
    verify::MAX_DEPTH,
};

/// Binds what is computed more than once to a variable.
///
/// ```text
/// ~z[t] = (~x[t] - reduce mean W) / (1.0 + reduce mean W)
///   =>
/// ~z[t] = let mean = reduce mean W in (~x[t] - mean) / (1.0 + mean)
/// ```
/// A value is bound at the top of the narrowest scope that has its variables (a `let` body, a branch, a map), and only where
/// at least one of its uses is certain to be evaluated, so that nothing is computed that was not before. The largest come first, and
/// as many as expressions may be nested.
pub struct Cse;

impl Pass for Cse {
    fn name(&self) -> &'static str {
        "cse"
    }

    fn run(&self, program: &mut Program) -> bool {
        let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
        let mut changed = false;
        for id in streams {
            let body = temporal_body(program, id);
            let unique = share_nodes(program, body);
            // Every `let` makes the body deeper by one at most.
            let mut left = MAX_DEPTH.saturating_sub(depth(program, unique));
            let new = bind(program, unique, &mut left);
            if new != unique {
                changed |= replace_body(program, id, new);
            }
        }
        changed
    }
}

/// Makes equal nodes one node.
fn share_nodes(program: &mut Program, root: ExprId) -> ExprId {
    let mut known: HashMap<Expr, ExprId> = HashMap::default();
    rewrite(program, root, &mut |program, _, expr| {
        if let Some(id) = known.get(expr) {
            return Some(*id);
        }
        let id = add(program, expr.clone());
        known.insert(expr.clone(), id);
        Some(id)
    })
}

/// Binds the common subexpressions of one scope, then those of the scopes inside it.
fn bind(program: &mut Program, root: ExprId, left: &mut usize) -> ExprId {
    if *left == 0 {
        return root;
    }
    // The largest first: what it contains is common no longer.
    let Some(common) = largest_common(program, root) else {
        return bind_inside(program, root, left);
    };
    *left -= 1;
    let dtype = program.dtype(common).clone();
    let name = name_for(program.expr(common));
    let var = program.var(name, dtype);
    let read = add(program, Expr::Var(var));
    let rest = replace_in_scope(program, root, common, read);
    // The value may have common parts of its own.
    let value = bind(program, common, left);
    let body = bind(program, rest, left);
    add(program, Expr::Let { var, value, body })
}

/// Goes on into the scopes that `root` opens.
fn bind_inside(program: &mut Program, root: ExprId, left: &mut usize) -> ExprId {
    let old = program.expr(root).clone();
    let new = match &old {
        Expr::Let { var, value, body } => Expr::Let {
            var: *var,
            value: bind_inside(program, *value, left),
            body: bind(program, *body, left),
        },
        Expr::When {
            cond,
            then,
            otherwise,
        } => Expr::When {
            cond: bind_inside(program, *cond, left),
            then: bind(program, *then, left),
            otherwise: bind(program, *otherwise, left),
        },
        Expr::Coalesce(a, b) => {
            Expr::Coalesce(bind_inside(program, *a, left), bind(program, *b, left))
        }
        Expr::Reduce { agg, window, map } => Expr::Reduce {
            agg: *agg,
            window: *window,
            map: map.map(|map| bind(program, map, left)),
        },
        expr => expr.map_operands(|operand| bind_inside(program, operand, left)),
    };
    if new == old { root } else { add(program, new) }
}

/// The largest subexpression that stands twice in the scope of `root`, once for certain, and that this scope can bind.
fn largest_common(program: &Program, root: ExprId) -> Option<ExprId> {
    let mut scope = Scope::default();
    scope.visit(program, root, true);
    scope
        .uses
        .iter()
        .filter(|(id, uses)| {
            **id != root
                && uses.all > 1
                && uses.certain > 0
                && is_work(program.expr(**id))
                && !mentions(program, **id, &scope.bound)
        })
        .max_by_key(|(id, _)| (size(program, **id), **id))
        .map(|(id, _)| *id)
}

#[derive(Default)]
struct Scope {
    uses: HashMap<ExprId, UseCount>,
    /// Variables bound inside the scope; what mentions them cannot leave their `let`.
    bound: HashSet<VarId>,
}

#[derive(Default)]
struct UseCount {
    all: usize,
    certain: usize,
}

impl Scope {
    /// Counts the uses of each node. Below a second use nothing is counted again: its parts are shared with the first.
    fn visit(&mut self, program: &Program, id: ExprId, certain: bool) {
        let uses = self.uses.entry(id).or_default();
        uses.all += 1;
        uses.certain += usize::from(certain);
        if uses.all > 1 && (!certain || uses.certain > 1) {
            return;
        }
        match program.expr(id) {
            Expr::When {
                cond,
                then,
                otherwise,
            } => {
                self.visit(program, *cond, certain);
                self.visit(program, *then, false);
                self.visit(program, *otherwise, false);
            }
            Expr::Coalesce(a, b) => {
                self.visit(program, *a, certain);
                self.visit(program, *b, false);
            }
            // In a map `t` is another.
            Expr::Reduce { .. } => {}
            Expr::Let { var, value, body } => {
                self.bound.insert(*var);
                self.visit(program, *value, certain);
                self.visit(program, *body, certain);
            }
            expr => expr.for_each_operand(|operand| self.visit(program, operand, certain)),
        }
    }
}

/// Whether computing the node costs more than reading a variable.
fn is_work(expr: &Expr) -> bool {
    !matches!(
        expr,
        Expr::Const(..) | Expr::Null(_) | Expr::Time | Expr::Var(_) | Expr::At { .. }
    )
}

fn mentions(program: &Program, root: ExprId, vars: &HashSet<VarId>) -> bool {
    let mut found = false;
    program.walk(root, &mut |_, expr| {
        found |= matches!(expr, Expr::Var(var) if vars.contains(var));
    });
    found
}

fn size(program: &Program, root: ExprId) -> usize {
    let mut count = 0;
    program.walk(root, &mut |_, _| count += 1);
    count
}

/// Replaces `old` by `new` at the scope's own `t`.
fn replace_in_scope(program: &mut Program, root: ExprId, old: ExprId, new: ExprId) -> ExprId {
    let target = program.expr(old).clone();
    rewrite(program, root, &mut |_, place, expr| {
        (place == Place::Body && *expr == target).then_some(new)
    })
}

fn name_for(expr: &Expr) -> String {
    match expr {
        Expr::Reduce { agg, .. } => agg.name().to_owned(),
        Expr::Unary(op, _) if op.symbol().starts_with(char::is_alphabetic) => {
            op.symbol().to_owned()
        }
        Expr::Field(_, name) => name.clone(),
        _ => "shared".to_owned(),
    }
}
