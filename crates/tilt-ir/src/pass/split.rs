//! Splitting where one expression would reduce inside a reduction.

use super::{
    Pass,
    rewrite::{Place, add, is_infallible, rebuild, rewrite, temporal_body, without_longer_lineage},
};
use crate::{
    expr::Expr,
    ids::{ExprId, StreamId},
    program::{Clock, Program},
    timeline::Timelines,
};

/// Gives a reduction inside another reduction's map an expression of its own, so that it is computed once for each event and
/// not once for each event of each window.
///
/// ```text
/// ~v[t] = reduce sum ~x[t-1h : t]                 ~v_inner[t] = reduce mean ~x[t-10s : t]
///           map (~x[t] - reduce mean        =>    ~v[t] = reduce sum ~x[t-1h : t] map (~x[t] - ~v_inner[t])
///                        ~x[t-10s : t])
/// ```
/// A map is evaluated at its event's end with that event as `~x[t]`, which is just what `at ~x` does. An inner reduction
/// stays if it uses a variable from outside the map, or if it could fail at an event that is in no window. A stream of its own is
/// evaluated at the ends of all its events, which may lie further away than any window reached: then nothing is hoisted.
pub struct Split;

impl Pass for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn run(&self, program: &mut Program) -> bool {
        without_longer_lineage(program, hoist)
    }
}

/// Hoists the inner reductions of all streams.
fn hoist(program: &mut Program) -> bool {
    let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
    let output = program.output;
    let mut order: Vec<StreamId> = Vec::new();
    let mut changed = false;
    for id in program.streams.ids().collect::<Vec<_>>() {
        if streams.contains(&id) {
            let hoisted = split(program, id);
            changed |= !hoisted.is_empty();
            order.extend(hoisted);
        }
        order.push(id);
    }
    program.output = output;
    if changed {
        *program = rebuild(program, &order);
    }
    changed
}

/// Hoists the inner reductions of one stream; returns the new streams, innermost first.
fn split(program: &mut Program, id: StreamId) -> Vec<StreamId> {
    let name = program.streams[id].name().to_owned();
    let body = temporal_body(program, id);
    let mut hoisted: Vec<(StreamId, Expr, StreamId)> = Vec::new();
    let new = rewrite(program, body, &mut |program, place, expr| {
        let Place::Map(over) = place else {
            return None;
        };
        if over == id {
            return None; // An expression for each event of its own past would have to be defined before it.
        }
        if !matches!(expr, Expr::Reduce { .. }) || reads_variables(program, expr) {
            return None;
        }
        let inner = add(program, expr.clone());
        // Anew, because `inner` may read a stream that was just hoisted.
        let timelines = Timelines::new(program);
        if !is_infallible(program, &timelines, Some(timelines.of(over)), inner) {
            return None;
        }
        let known = hoisted.iter().find(|h| h.0 == over && h.1 == *expr);
        let stream = if let Some(known) = known {
            known.2
        } else {
            let stream = program
                .define(fresh_name(program, &name), Clock::At(over), inner)
                .expect("the body was just added");
            hoisted.push((over, expr.clone(), stream));
            stream
        };
        Some(add(program, Expr::At { stream, offset: 0 }))
    });
    if new != body {
        let clock = program.streams[id]
            .as_temporal()
            .expect("only temporal expressions are split")
            .clock
            .clone();
        program.redefine(id, clock, new);
    }
    hoisted.into_iter().map(|h| h.2).collect()
}

fn fresh_name(program: &Program, base: &str) -> String {
    let mut name = format!("{base}_inner");
    let mut number = 1;
    while program.stream_named(&name).is_some() {
        number += 1;
        name = format!("{base}_inner{number}");
    }
    name
}

/// Whether the expression uses a variable that it does not bind itself.
fn reads_variables(program: &Program, expr: &Expr) -> bool {
    fn free(program: &Program, id: ExprId, bound: &mut Vec<crate::ids::VarId>) -> bool {
        match program.expr(id) {
            Expr::Var(var) => !bound.contains(var),
            Expr::Let { var, value, body } => {
                if free(program, *value, bound) {
                    return true;
                }
                bound.push(*var);
                let result = free(program, *body, bound);
                bound.pop();
                result
            }
            expr => {
                let mut found = false;
                expr.for_each_operand(|operand| found = found || free(program, operand, bound));
                found
            }
        }
    }
    let mut found = false;
    expr.for_each_operand(|operand| found = found || free(program, operand, &mut Vec::new()));
    found
}
