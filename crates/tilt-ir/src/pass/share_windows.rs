//! Sharing of windows and of the partial states behind their reductions.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::{
    Pass,
    dce::{live_streams, streams_read},
    rewrite::{
        Place, add, depth, is_infallible, outer_reads, rebuild, replace_body, rewrite,
        rewrite_bodies, same_sharing, temporal_body, vanishes, with_stream, without_longer_lineage,
    },
};
use crate::{
    expr::{Agg, BinaryOp, Bounds, Expr, UnaryOp, Window},
    ids::{ExprId, StreamId},
    nullness::strict_in_source,
    program::{Clock, Program, Source, Temporal},
    timeline::Timelines,
    types::DType,
    verify::MAX_DEPTH,
};

/// Computes what several reductions have in common once.
///
/// ```text
/// 1. one window, several reductions: down to the states they share (`cse` then binds each state once)
///    reduce mean W  +  reduce len W       =>   (reduce sum W) / cast(reduce len W, f64)  +  reduce len W
///    reduce std W   +  reduce var W       =>   sqrt(reduce var W)  +  reduce var W
///    reduce rms W, reduce crest_factor W  =>   over the sum of squares, the largest absolute value and the count
///
/// 2. nested windows: the longer one folds only what the shorter one does not (min, max, any, all: an event in both parts
///    counts once all the same)
///    reduce max ~x[t-20s : t] , reduce max ~x[t-10s : t]   =>   max of (reduce max ~x[t-20s : t-10s]) and the latter
///
/// 3. expressions on one grid that reduce the same stream: one expression
///    ~m[t every 10s] = reduce mean ~x[t-10s : t]      ~m_s[t every 10s] = {m: reduce mean ~x[t-10s : t],
///    ~s[t every 10s] = reduce std ~x[t-10s : t]   =>                       s: reduce std ~x[t-10s : t]}
///    ~z[t] = (~x[t] - ~m[t]) / ~s[t]                  ~z[t] = (~x[t] - ~m_s[t].m) / ~m_s[t].s
/// ```
///
/// A reduction that has nothing to share stays as it is.
pub struct ShareWindows;

impl Pass for ShareWindows {
    fn name(&self) -> &'static str {
        "share_windows"
    }

    fn run(&self, program: &mut Program) -> bool {
        // Readers of one member would depend on what the others reach.
        let merged = without_longer_lineage(program, merge_grids);
        let split = share_states(program);
        let nested = nest(program);
        merged || split || nested
    }
}

/// A window and what is folded over it.
type Folded = (Window, Option<Expr>);

/// The reductions at a body's own `t`, by what they fold.
fn reductions(program: &Program, body: ExprId) -> HashMap<Folded, HashSet<Agg>> {
    let mut found: HashMap<Folded, HashSet<Agg>> = HashMap::default();
    outer_reads(program, body, &mut |_, expr| {
        if let Expr::Reduce { agg, window, map } = expr {
            let map = map.map(|map| program.expr(map).clone());
            found.entry((*window, map)).or_default().insert(*agg);
        }
    });
    found
}

/// The states a reduction of floats, or of others, needs, as far as another reduction could share them.
fn states(agg: Agg, floats: bool) -> &'static [State] {
    match agg {
        // The total of others has more than 64 bits, so their `sum` can fail where their mean does not.
        Agg::Mean if !floats => &[],
        Agg::Mean => &[State::Sum, State::Len],
        Agg::Sum => &[State::Sum],
        Agg::Len => &[State::Len],
        Agg::Rms => &[State::SumOfSquares, State::Len],
        Agg::CrestFactor => &[State::SumOfSquares, State::Len, State::MaxAbs],
        Agg::Std { .. } | Agg::Var { .. } => &[State::Var],
        _ => &[],
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Sum,
    Len,
    SumOfSquares,
    MaxAbs,
    Var,
}

fn share_states(program: &mut Program) -> bool {
    let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
    let mut changed = false;
    for id in streams {
        let body = temporal_body(program, id);
        let found = reductions(program, body);
        let shared = |folded: &Folded, agg: Agg, floats: bool| {
            let needed = states(agg, floats);
            found.get(folded).is_some_and(|aggs| {
                aggs.iter().any(|other| {
                    *other != agg && states(*other, floats).iter().any(|s| needed.contains(s))
                })
            })
        };
        let new = rewrite(program, body, &mut |program, place, expr| {
            let Expr::Reduce { agg, window, map } = expr else {
                return None;
            };
            let folded = (*window, map.map(|map| program.expr(map).clone()));
            let floats = match map {
                Some(map) => program.dtype(*map).is_float(),
                None => program.stream_dtype(window.stream).is_float(),
            };
            (place == Place::Body && shared(&folded, *agg, floats))
                .then(|| by_states(program, *agg, *window, *map))?
        });
        if new != body {
            changed |= replace_body(program, id, new);
        }
    }
    changed
}

/// The reduction expressed by shared states, with exactly the arithmetic of its definition.
fn by_states(
    program: &mut Program,
    agg: Agg,
    window: Window,
    map: Option<ExprId>,
) -> Option<ExprId> {
    match agg {
        Agg::Mean => {
            let sum = reduce(program, Agg::Sum, window, map);
            let count = count(program, window, map);
            Some(add(program, Expr::Binary(BinaryOp::Div, sum, count)))
        }
        Agg::Std { ddof } => {
            let var = reduce(program, Agg::Var { ddof }, window, map);
            Some(add(program, Expr::Unary(UnaryOp::Sqrt, var)))
        }
        Agg::Rms => Some(rms(program, window, map)),
        Agg::CrestFactor => {
            let value = double_value(program, window, map);
            let abs = add(program, Expr::Unary(UnaryOp::Abs, value));
            let largest = reduce(program, Agg::Max, window, Some(abs));
            let rms = rms(program, window, map);
            Some(add(program, Expr::Binary(BinaryOp::Div, largest, rms)))
        }
        _ => None,
    }
}

fn rms(program: &mut Program, window: Window, map: Option<ExprId>) -> ExprId {
    let value = double_value(program, window, map);
    let square = add(program, Expr::Binary(BinaryOp::Mul, value, value));
    let sum = reduce(program, Agg::Sum, window, Some(square));
    let count = count(program, window, map);
    let mean = add(program, Expr::Binary(BinaryOp::Div, sum, count));
    add(program, Expr::Unary(UnaryOp::Sqrt, mean))
}

fn reduce(program: &mut Program, agg: Agg, window: Window, map: Option<ExprId>) -> ExprId {
    add(program, Expr::Reduce { agg, window, map })
}

fn count(program: &mut Program, window: Window, map: Option<ExprId>) -> ExprId {
    let len = reduce(program, Agg::Len, window, map);
    add(program, Expr::Cast(len, DType::F64))
}

/// What an event contributes, written out.
fn value(program: &mut Program, window: Window, map: Option<ExprId>) -> ExprId {
    map.unwrap_or_else(|| {
        add(
            program,
            Expr::At {
                stream: window.stream,
                offset: 0,
            },
        )
    })
}

fn double_value(program: &mut Program, window: Window, map: Option<ExprId>) -> ExprId {
    let value = value(program, window, map);
    if *program.dtype(value) == DType::F64 {
        value
    } else {
        add(program, Expr::Cast(value, DType::F64))
    }
}

/// The operator that merges two parts of a window for which events in both parts do no harm.
fn idempotent(agg: Agg) -> Option<BinaryOp> {
    match agg {
        Agg::Min => Some(BinaryOp::Min),
        Agg::Max => Some(BinaryOp::Max),
        Agg::Any => Some(BinaryOp::Or),
        Agg::All => Some(BinaryOp::And),
        _ => None,
    }
}

fn nest(program: &mut Program) -> bool {
    let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
    let mut changed = false;
    for id in streams {
        let body = temporal_body(program, id);
        let found = reductions(program, body);
        // The longest window inside `window` that ends with it and is reduced likewise.
        let inner = |window: Window, map: &Option<Expr>, agg: Agg| {
            let Bounds::Time { lo, hi } = window.bounds else {
                return None;
            };
            found
                .iter()
                .filter(|((w, m), aggs)| {
                    w.stream == window.stream && m == map && aggs.contains(&agg)
                })
                .filter_map(|((w, _), _)| match w.bounds {
                    Bounds::Time {
                        lo: Some(inner),
                        hi: h,
                    } if h == hi && lo.is_none_or(|lo| lo < inner) => Some(inner),
                    _ => None,
                })
                .min()
        };
        let new = rewrite(program, body, &mut |program, place, expr| {
            let Expr::Reduce { agg, window, map } = expr else {
                return None;
            };
            let op = idempotent(*agg)?;
            let Bounds::Time { lo, hi } = window.bounds else {
                return None;
            };
            if place != Place::Body {
                return None;
            }
            let map_expr = map.map(|map| program.expr(map).clone());
            let cut = inner(*window, &map_expr, *agg)?;
            let part = |lo, hi| Window {
                stream: window.stream,
                bounds: Bounds::Time { lo, hi },
            };
            let older = reduce(program, *agg, part(lo, cut), *map);
            let newer = reduce(program, *agg, part(Some(cut), hi), *map);
            // Either part may be empty.
            let dtype = program.dtype(older).clone();
            let name = agg.name();
            let old_var = program.var(format!("{name}_older"), dtype.clone());
            let new_var = program.var(format!("{name}_newer"), dtype);
            let (a, b) = (
                add(program, Expr::Var(old_var)),
                add(program, Expr::Var(new_var)),
            );
            let both = add(program, Expr::Binary(op, a, b));
            let either = add(program, Expr::Coalesce(a, b));
            let body = add(program, Expr::Coalesce(both, either));
            let body = add(
                program,
                Expr::Let {
                    var: new_var,
                    value: newer,
                    body,
                },
            );
            Some(add(
                program,
                Expr::Let {
                    var: old_var,
                    value: older,
                    body,
                },
            ))
        });
        if new != body {
            changed |= replace_body(program, id, new);
        }
    }
    changed
}

/// Merges expressions on one grid that reduce windows of one stream and are read by value only.
fn merge_grids(program: &mut Program) -> bool {
    let mut changed = false;
    let mut refused = Vec::new();
    while let Some(group) = mergeable(program, &refused) {
        let mut merged = program.clone();
        merge_group(&mut merged, &group);
        // Readers of different members may tick alike afterwards.
        if same_sharing(program, &merged) {
            *program = merged;
            changed = true;
            refused.clear(); // Streams have other ids now.
        } else {
            refused.push(group);
        }
    }
    changed
}

/// Two or more expressions that can become one.
fn mergeable(program: &Program, refused: &[Vec<StreamId>]) -> Option<Vec<StreamId>> {
    let live = live_streams(program);
    let timelines = Timelines::new(program);
    let reduced = |body: ExprId| -> HashSet<StreamId> {
        reductions(program, body)
            .into_keys()
            .map(|(window, _)| window.stream)
            .collect()
    };
    let candidates: Vec<(StreamId, &Temporal, HashSet<StreamId>)> = program
        .temporals()
        .filter(|(id, temporal)| {
            matches!(temporal.clock, Clock::Every { .. })
                // A record that is φ differs from a record of φ.
                && temporal.dtype.is_scalar()
                && *id != program.output
                && live.contains(id)
                && vanishes(program, *id, temporal.body)
                // A record goes around it.
                && depth(program, temporal.body) < MAX_DEPTH
                && read_by_value_only(program, &timelines, *id)
        })
        .map(|(id, temporal)| (id, temporal, reduced(temporal.body)))
        .filter(|(_, _, reduced)| !reduced.is_empty())
        .collect();
    candidates.iter().find_map(|(_, first, windows)| {
        let group: Vec<StreamId> = candidates
            .iter()
            .filter(|(_, t, w)| t.clock == first.clock && w == windows)
            .map(|(id, ..)| *id)
            .collect();
        let (first, last) = (*group.first()?, *group.last()?);
        // The merged expression takes the place of the last, so nothing up to there may read a member.
        let independent = program
            .temporals()
            .filter(|(id, _)| *id > first && *id <= last)
            .all(|(id, _)| streams_read(program, id).iter().all(|s| !group.contains(s)));
        (group.len() > 1 && independent && !refused.contains(&group)).then_some(group)
    })
}

/// Whether every reader takes the stream's value at an instant: a record around it changes nothing for those.
fn read_by_value_only(program: &Program, timelines: &Timelines, id: StreamId) -> bool {
    program.temporals().all(|(reader, temporal)| {
        let mut by_value = true;
        program.walk(temporal.body, &mut |_, expr| {
            by_value &=
                expr.stream() != Some(id) || matches!(expr, Expr::At { .. }) && reader != id;
        });
        // A clock that ticks on its changes ticks on more of them with a record; no harm where the reader is φ and cannot fail.
        let here = timelines.aligned(&temporal.clock);
        let harmless = |source: Source| {
            matches!(source, Source::Value { .. })
                && strict_in_source(program, temporal.body, source)
                && is_infallible(program, timelines, here, temporal.body)
        };
        let in_clock = match &temporal.clock {
            Clock::At(stream) => *stream == id,
            Clock::OnChange(sources) => {
                let mut sources = sources.iter();
                sources.any(|s| s.stream() == id && !harmless(*s))
            }
            Clock::Sessions { stream, .. } => *stream == id,
            Clock::Every { .. } | Clock::Calendar(_) => false,
        };
        // A grid that reads it may have cells because of it, and would have more because of a record.
        let by_grid = temporal.clock.has_cells() && streams_read(program, reader).contains(&id);
        // A read becomes that of a field.
        let too_deep = streams_read(program, reader).contains(&id)
            && depth(program, temporal.body) >= MAX_DEPTH;
        by_value && !in_clock && !by_grid && !too_deep
    })
}

fn merge_group(program: &mut Program, group: &[StreamId]) {
    let members: Vec<(StreamId, String)> = group
        .iter()
        .map(|id| (*id, program.streams[*id].name().to_owned()))
        .collect();
    let fields = members
        .iter()
        .map(|(id, name)| (name.clone(), temporal_body(program, *id)))
        .collect();
    let body = add(program, Expr::Record(fields));
    let mut name = members
        .iter()
        .map(|m| m.1.as_str())
        .collect::<Vec<_>>()
        .join("_");
    while program.stream_named(&name).is_some() {
        name.push('_');
    }
    let last = *group.last().expect("a group has members");
    let clock = program.streams[last]
        .as_temporal()
        .expect("members are temporal expressions")
        .clock
        .clone();
    let output = program.output;
    let merged = program
        .define(name, clock, body)
        .expect("the body was just added");
    program.output = output;
    rewrite_bodies(program, |program, _, expr| {
        let Expr::At { stream, offset } = *expr else {
            return None;
        };
        let (_, name) = members.iter().find(|m| m.0 == stream)?;
        let stream = merged;
        let read = add(program, Expr::At { stream, offset });
        Some(add(program, Expr::Field(read, name.clone())))
    });
    for id in program.streams.ids().collect::<Vec<_>>() {
        let Some(temporal) = program.streams[id].as_temporal() else {
            continue;
        };
        let (Clock::OnChange(sources), body) = (&temporal.clock, temporal.body) else {
            continue;
        };
        let mut new: Vec<Source> = Vec::new();
        for source in sources {
            let source = if group.contains(&source.stream()) {
                with_stream(*source, merged)
            } else {
                *source
            };
            if !new.contains(&source) {
                new.push(source);
            }
        }
        program.redefine(id, Clock::OnChange(new), body);
    }
    let order: Vec<StreamId> = program
        .streams
        .ids()
        .filter(|id| *id != merged && (*id == last || !group.contains(id)))
        .map(|id| if id == last { merged } else { id })
        .collect();
    *program = rebuild(program, &order);
}
