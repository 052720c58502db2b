//! What the passes have in common: rebuilding expressions, shifting them in time, replacing bodies, renumbering.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use crate::{
    expr::{Agg, BinaryOp, Bounds, Expr, Window},
    ids::{Arena, ExprId, FuncId, ReducerId, StreamId, VarId},
    lineage::Lineage,
    nullness,
    program::{Clock, Lambda, Program, Source, Stream},
    timeline::{Timeline, Timelines},
    types::{DType, Scalar},
    verify::{MAX_DEPTH, MAX_NODES},
};

/// Where a node stands: in the body itself, or in the map of a reduction over a stream, where `t` is another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    Body,
    Map(StreamId),
}

/// Adds a node that a pass knows to be well-typed.
pub(super) fn add(program: &mut Program, expr: Expr) -> ExprId {
    program
        .add(expr)
        .expect("a pass builds well-typed nodes from well-typed ones")
}

/// `if cond then value else null`.
pub(super) fn only_if(program: &mut Program, cond: ExprId, value: ExprId) -> ExprId {
    let otherwise = Expr::Null(program.dtype(value).clone());
    let otherwise = add(program, otherwise);
    add(
        program,
        Expr::When {
            cond,
            then: value,
            otherwise,
        },
    )
}

/// Rebuilds `root` from the leaves up. `visit` sees each node over its new operands and may replace it.
pub(super) fn rewrite(
    program: &mut Program,
    root: ExprId,
    visit: &mut impl FnMut(&mut Program, Place, &Expr) -> Option<ExprId>,
) -> ExprId {
    rewrite_at(program, root, Place::Body, &mut HashMap::default(), visit)
}

fn rewrite_at(
    program: &mut Program,
    id: ExprId,
    place: Place,
    memo: &mut HashMap<(ExprId, Place), ExprId>,
    visit: &mut impl FnMut(&mut Program, Place, &Expr) -> Option<ExprId>,
) -> ExprId {
    if let Some(done) = memo.get(&(id, place)) {
        return *done;
    }
    let old = program.expr(id).clone();
    let inner = match &old {
        Expr::Reduce { window, .. } => Place::Map(window.stream),
        _ => place,
    };
    let new = old.map_operands(|operand| rewrite_at(program, operand, inner, memo, visit));
    let result = match visit(program, place, &new) {
        Some(replacement) => replacement,
        None if new == old => id,
        None => add(program, new),
    };
    memo.insert((id, place), result);
    result
}

/// Rewrites the bodies of all temporal expressions and says whether any changed.
pub(super) fn rewrite_bodies(
    program: &mut Program,
    mut visit: impl FnMut(&mut Program, Place, &Expr) -> Option<ExprId>,
) -> bool {
    let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
    let mut changed = false;
    for id in streams {
        let body = temporal_body(program, id);
        let new = rewrite(program, body, &mut visit);
        changed |= new != body && replace_body(program, id, new);
    }
    changed
}

/// Gives `id` a new body, unless it is too large or would change which cells the grid has; says whether it did.
///
/// Outside the run a clock of cells has those at whose end the body reads a value. Only for a body that [`vanishes`]
/// without its reads does that make no difference; for any other the reads must stay as they are.
pub(super) fn replace_body(program: &mut Program, id: StreamId, body: ExprId) -> bool {
    let temporal = program.streams[id]
        .as_temporal()
        .expect("only temporal expressions have bodies");
    let (clock, old) = (temporal.clock.clone(), temporal.body);
    if depth(program, body) > MAX_DEPTH || tree_size(program, body) > MAX_NODES {
        collect_garbage(program);
        return false;
    }
    if clock.has_cells() && !same_cells(program, id, old, body) {
        return false;
    }
    program.redefine(id, clock, body);
    true
}

/// How many nodes the longest path from `root` to a leaf has; at most [`MAX_DEPTH`] in a verified program.
pub(super) fn depth(program: &Program, root: ExprId) -> usize {
    let mut depths = HashMap::default();
    program.walk(root, &mut |id, expr| {
        let mut depth = 0;
        expr.for_each_operand(|operand| depth = depth.max(depths[&operand]));
        depths.insert(id, depth + 1);
    });
    depths[&root]
}

/// How many nodes there are when shared ones are written out.
pub(super) fn tree_size(program: &Program, root: ExprId) -> usize {
    let mut sizes: HashMap<ExprId, usize> = HashMap::default();
    program.walk(root, &mut |id, expr| {
        let mut size = 1usize;
        expr.for_each_operand(|operand| size = size.saturating_add(sizes[&operand]));
        sizes.insert(id, size);
    });
    sizes[&root]
}

/// Drops the nodes that nothing uses. After a rewrite that was too deep: the verifier looks at every node. Ids of
/// expressions are others afterwards, those of streams stay.
pub(super) fn collect_garbage(program: &mut Program) {
    let order: Vec<StreamId> = program.streams.ids().collect();
    *program = rebuild(program, &order);
}

/// Runs a rewrite that says whether it changed something, and takes it back if inputs would matter further away than before.
pub(super) fn without_longer_lineage(
    program: &mut Program,
    rewrite: impl FnOnce(&mut Program) -> bool,
) -> bool {
    let before = program.clone();
    if !rewrite(program) {
        return false;
    }
    let (old, new) = (Lineage::new(&before), Lineage::new(program));
    let within = new.is_within(program, &old, &before);
    if !within {
        *program = before;
    }
    within
}

/// Whether the same streams share their timelines in both programs, as far as both have them.
///
/// A clock takes the choices of streams on one timeline together and pairs those of different ones, and binds every read on
/// a timeline of its own. So a change to the clock of one stream that makes it share another's events, or share them no
/// longer, can change the meaning of a third.
pub(super) fn same_sharing(old: &Program, new: &Program) -> bool {
    // For each stream the first one on its timeline.
    let firsts = |program: &Program, other: &Program| -> Vec<(String, String)> {
        let timelines = Timelines::new(program);
        let mut first: HashMap<Timeline, String> = HashMap::default();
        program
            .streams
            .iter()
            .filter(|(_, stream)| other.stream_named(stream.name()).is_some())
            .map(|(id, stream)| {
                let name = stream.name().to_owned();
                let first = first
                    .entry(timelines.of(id))
                    .or_insert_with(|| name.clone());
                (name, first.clone())
            })
            .collect()
    };
    firsts(old, new) == firsts(new, old)
}

/// Whether two bodies of the same meaning have values in the same cells of their grid.
pub(super) fn same_cells(program: &Program, this: StreamId, old: ExprId, new: ExprId) -> bool {
    let reads = |body| {
        let mut reads = HashSet::default();
        outer_reads(program, body, &mut |_, expr| {
            if !gives_cells(expr, this) {
                return;
            }
            reads.insert(match expr {
                Expr::Reduce { window, .. } => ReadPlace::Window(*window),
                Expr::Hold {
                    stream,
                    offset,
                    max_age,
                } => ReadPlace::Hold(*stream, *offset, *max_age),
                Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => {
                    ReadPlace::Value(*stream, *offset)
                }
                Expr::Prev { stream, .. } => ReadPlace::Value(*stream, 0),
                _ => unreachable!("only reads are visited"),
            });
        });
        reads
    };
    let vanish = |body| vanishes(program, this, body);
    (vanish(old) && vanish(new)) || reads(old) == reads(new)
}

/// Whether a body of `this`, on a grid, is φ wherever none of its reads has a value: then it has a value in no cell that the
/// grid does not have anyway.
pub(super) fn vanishes(program: &Program, this: StreamId, body: ExprId) -> bool {
    nullness::strict_in(program, body, &|_, expr| gives_cells(expr, this))
}

/// Whether a read gives the grid of `this` cells outside the run: not one of its own past, and no window that sees events
/// however far back.
fn gives_cells(expr: &Expr, this: StreamId) -> bool {
    match expr {
        Expr::Reduce { window, .. } => {
            let bounded = matches!(
                window.bounds,
                Bounds::Time { lo: Some(_), .. } | Bounds::Event
            );
            window.stream != this && bounded
        }
        expr => expr.stream().is_some_and(|stream| stream != this),
    }
}

/// What decides where a read has a value.
#[derive(PartialEq, Eq, Hash)]
enum ReadPlace {
    Value(StreamId, i64),
    Hold(StreamId, i64, Option<i64>),
    Window(Window),
}

/// Visits the nodes of `root` that read a stream at the body's own `t`; maps are not entered.
pub(super) fn outer_reads(program: &Program, root: ExprId, visit: &mut impl FnMut(ExprId, &Expr)) {
    fn go(
        program: &Program,
        id: ExprId,
        seen: &mut HashSet<ExprId>,
        visit: &mut impl FnMut(ExprId, &Expr),
    ) {
        if !seen.insert(id) {
            return;
        }
        let expr = program.expr(id);
        if expr.stream().is_some() {
            visit(id, expr);
        } else {
            expr.for_each_operand(|operand| go(program, operand, seen, visit));
        }
    }
    go(program, root, &mut HashSet::default(), visit);
}

/// Whether evaluating cannot stop the run: no integer that can overflow its accumulator, no foreign code, no read that can
/// meet several values. `aligned` is the timeline of the event that it is evaluated for.
pub(super) fn is_infallible(
    program: &Program,
    timelines: &Timelines,
    aligned: Option<Timeline>,
    root: ExprId,
) -> bool {
    let reads_one = |stream: StreamId, offset: i64| {
        let timeline = timelines.of(stream);
        !timelines.is_bag(timeline) || (offset == 0 && aligned == Some(timeline))
    };
    let expr = program.expr(root);
    let mut infallible = match *expr {
        Expr::Call { .. } => false,
        Expr::Reduce { agg, window, map } => {
            let sums = match agg {
                Agg::Sum | Agg::Product => program.dtype(root).is_float(),
                Agg::Custom(_) => false,
                _ => true,
            };
            let event = Some(timelines.of(window.stream));
            return sums && map.is_none_or(|map| is_infallible(program, timelines, event, map));
        }
        Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => {
            reads_one(stream, offset)
        }
        Expr::Prev { stream, .. } => reads_one(stream, 0),
        _ => true,
    };
    expr.for_each_operand(|operand| {
        infallible = infallible && is_infallible(program, timelines, aligned, operand);
    });
    infallible
}

/// The body of a temporal expression.
pub(super) fn temporal_body(program: &Program, id: StreamId) -> ExprId {
    program.streams[id]
        .as_temporal()
        .expect("only temporal expressions have bodies")
        .body
}

/// A copy of `root` that evaluates `d` ticks later: every read moves by `d`. Variables bound inside are renewed, so that
/// the copy can stand beside the original. `None` if it counts events from `t`, which cannot be moved.
pub(super) fn shifted(program: &mut Program, root: ExprId, d: i64) -> Option<ExprId> {
    let mut movable = true;
    outer_reads(program, root, &mut |_, expr| {
        movable &= d == 0
            || match expr {
                Expr::Prev { .. } => false,
                Expr::Reduce { window, .. } => matches!(window.bounds, Bounds::Time { .. }),
                _ => true,
            };
    });
    if !movable {
        return None;
    }
    let mut renewed: HashMap<VarId, VarId> = HashMap::default();
    Some(rewrite(program, root, &mut |program, place, expr| {
        let mut renew = |program: &mut Program, var: VarId| {
            *renewed.entry(var).or_insert_with(|| {
                let var = program.vars[var].clone();
                program.vars.push(var)
            })
        };
        let mut new = expr.clone();
        match &mut new {
            Expr::Var(var) => {
                // Variables of an enclosing scope keep their names; bodies of streams have none.
                *var = renew(program, *var);
            }
            Expr::Let { var, .. } => *var = renew(program, *var),
            Expr::Time if place == Place::Body && d != 0 => {
                let t = add(program, Expr::Time);
                let distance = Expr::Const(Scalar::Int(d), DType::Duration(program.unit));
                let distance = add(program, distance);
                new = Expr::Binary(BinaryOp::Add, t, distance);
            }
            _ if place != Place::Body || d == 0 => return None,
            Expr::At { offset, .. } | Expr::Hold { offset, .. } | Expr::Edge { offset, .. } => {
                *offset = offset.saturating_add(d);
            }
            Expr::Reduce { window, .. } => {
                if let Bounds::Time { lo, hi } = &mut window.bounds {
                    *lo = lo.map(|lo| lo.saturating_add(d));
                    *hi = hi.saturating_add(d);
                }
            }
            _ => return None,
        }
        Some(add(program, new))
    }))
}

/// The program with only the streams of `order`, in that order, and only what they use. All that they read must come along.
pub(crate) fn rebuild(old: &Program, order: &[StreamId]) -> Program {
    let mut new = Program::new(old.name.clone(), old.unit);
    let mut copy = Copier::new(old, &mut new);
    copy.streams = order
        .iter()
        .enumerate()
        .map(|(index, id)| (*id, crate::ids::Id::new(index)))
        .collect();
    let mut streams = Arena::default();
    for id in order {
        streams.push(copy.stream(*id));
    }
    let output = copy.streams[&old.output];
    new.streams = streams;
    new.output = output;
    new
}

/// Copies definitions from one program to another. The maps say what became of the old ids; ids of streams must be in theirs
/// before a definition that reads them is copied.
pub(crate) struct Copier<'a> {
    old: &'a Program,
    new: &'a mut Program,
    pub(crate) streams: HashMap<StreamId, StreamId>,
    pub(crate) functions: HashMap<FuncId, FuncId>,
    pub(crate) reducers: HashMap<ReducerId, ReducerId>,
    exprs: HashMap<ExprId, ExprId>,
    vars: HashMap<VarId, VarId>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(old: &'a Program, new: &'a mut Program) -> Self {
        Self {
            old,
            new,
            streams: HashMap::default(),
            functions: HashMap::default(),
            reducers: HashMap::default(),
            exprs: HashMap::default(),
            vars: HashMap::default(),
        }
    }

    /// The definition of `id` over the new ids.
    pub(crate) fn stream(&mut self, id: StreamId) -> Stream {
        let mut stream = self.old.streams[id].clone();
        if let Stream::Temporal(temporal) = &mut stream {
            temporal.body = self.expr(temporal.body);
            temporal.clock = self.clock(&temporal.clock);
        }
        stream
    }

    fn clock(&self, clock: &Clock) -> Clock {
        match clock {
            Clock::At(stream) => Clock::At(self.streams[stream]),
            Clock::Every { .. } | Clock::Calendar(_) => clock.clone(),
            Clock::Sessions { stream, gap, max } => Clock::Sessions {
                stream: self.streams[stream],
                gap: *gap,
                max: *max,
            },
            Clock::OnChange(sources) => Clock::OnChange(
                sources
                    .iter()
                    .map(|source| with_stream(*source, self.streams[&source.stream()]))
                    .collect(),
            ),
        }
    }

    pub(crate) fn expr(&mut self, id: ExprId) -> ExprId {
        if let Some(done) = self.exprs.get(&id) {
            return *done;
        }
        let node = &self.old.exprs[id];
        let mut expr = node.expr.map_operands(|operand| self.expr(operand));
        match &mut expr {
            Expr::At { stream, .. }
            | Expr::Hold { stream, .. }
            | Expr::Prev { stream, .. }
            | Expr::Edge { stream, .. } => *stream = self.streams[stream],
            Expr::Reduce { window, agg, .. } => {
                window.stream = self.streams[&window.stream];
                if let Agg::Custom(reducer) = agg {
                    *reducer = self.reducer(*reducer);
                }
            }
            Expr::Var(var) | Expr::Let { var, .. } => *var = self.var(*var),
            Expr::Call { func, .. } => *func = self.function(*func),
            _ => {}
        }
        let new = self.new.exprs.push(crate::expr::Node {
            expr,
            dtype: node.dtype.clone(),
        });
        self.exprs.insert(id, new);
        new
    }

    fn var(&mut self, id: VarId) -> VarId {
        *self
            .vars
            .entry(id)
            .or_insert_with(|| self.new.vars.push(self.old.vars[id].clone()))
    }

    fn function(&mut self, id: FuncId) -> FuncId {
        *self
            .functions
            .entry(id)
            .or_insert_with(|| self.new.functions.push(self.old.functions[id].clone()))
    }

    pub(crate) fn reducer(&mut self, id: ReducerId) -> ReducerId {
        if let Some(done) = self.reducers.get(&id) {
            return *done;
        }
        let mut reducer = self.old.reducers[id].clone();
        reducer.init = self.expr(reducer.init);
        self.lambda(&mut reducer.acc);
        reducer.merge.iter_mut().for_each(|l| self.lambda(l));
        reducer.deacc.iter_mut().for_each(|l| self.lambda(l));
        self.lambda(&mut reducer.result);
        let new = self.new.reducers.push(reducer);
        self.reducers.insert(id, new);
        new
    }

    pub(crate) fn lambda(&mut self, lambda: &mut Lambda) {
        lambda.params.iter_mut().for_each(|v| *v = self.var(*v));
        lambda.body = self.expr(lambda.body);
    }
}

/// The source with another stream.
pub(super) fn with_stream(mut source: Source, new: StreamId) -> Source {
    match &mut source {
        Source::Value { stream, .. }
        | Source::Hold { stream, .. }
        | Source::Window { stream, .. } => *stream = new,
    }
    source
}
