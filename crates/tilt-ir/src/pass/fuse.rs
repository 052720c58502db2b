//! Fusion across pipeline breakers (TiLT §5.2).

use rustc_hash::FxHashSet as HashSet;

use super::{
    Pass,
    dce::{live_streams, streams_read},
    rewrite::{
        Place, add, depth, is_infallible, only_if, outer_reads, rewrite, same_cells, same_sharing,
        shifted, tree_size, vanishes,
    },
};
use crate::{
    expr::{BinaryOp, Bounds, Expr, UnaryOp},
    ids::{ExprId, StreamId},
    lineage::{Lineage, is_steady},
    nullness::{self, Totality},
    program::{Clock, Program, Source, Temporal},
    timeline::{Timeline, Timelines, is_aligned},
    verify::{MAX_DEPTH, MAX_NODES, MAX_TICKS},
};

/// Merges a temporal expression into the one that reads it.
///
/// ```text
/// ~sum10[t] = reduce sum ~stock[t-10s : t]              ~filter[t] =
/// ~sum20[t] = reduce sum ~stock[t-20s : t]                let join = (reduce sum ~stock[t-10s : t]) / 10.0
/// ~join[t] = ~sum10[t] / 10.0 - ~sum20[t] / 20.0    =>             - (reduce sum ~stock[t-20s : t]) / 20.0 in
/// ~filter[t] = if ~join[t] > 0.0 …                        if join > 0.0 then join else null
///
/// ~sq[t] = ~x[t] * ~x[t]                                ~e[t] = reduce sum ~x[t-10s : t] map (~x[t] * ~x[t])
/// ~e[t] = reduce sum ~sq[t-10s : t]                 =>
///
/// ~a[t] = ~x[t-5s] ; ~b[t] = ~a[t-2s]               =>  ~b[t] = ~x[t-7s]
/// ```
///
/// A producer's value in an event is its body evaluated at the event's **end**. Replacing `~a[t+d]` by the body moved by `d` is
/// therefore right in two cases:
/// 1. *aligned*: the reader's `t + d` is always the end of an event of `~a`: both tick on one timeline, or on nested grids.
///    The body may then hold reductions.
/// 2. *steady*: the body reads only the sources of its own clock, so it has one value throughout an event, and the
///    timelines involved hold no bags.
///
/// Wherever the producer has no event the copy must be φ too; where that does not follow, it is guarded. A reader that ticks
/// on changes of `~a` ticks on the changes of its sources afterwards; that adds no event if the reader is φ without `~a`, or if
/// `~a` has an event for each of them.
///
/// A clock binds more than its sources: it reads every stream on a source's timeline at the source's event, φ where that source has
/// none. So nothing is merged that would bring a read under such a mask or out of it, or that would change which streams
/// share a timeline.
///
/// A merger that would make inputs matter further away is not made, nor one after which other streams share timelines.
///
/// A producer with reductions or functions is merged only into its one reader and at one offset; otherwise each copy would compute them again.
pub struct Fuse;

impl Pass for Fuse {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn run(&self, program: &mut Program) -> bool {
        let streams: Vec<StreamId> = program.temporals().map(|(id, _)| id).collect();
        let mut changed = false;
        // Producers come first, so what a reader merges is already as merged as it gets.
        for reader in streams {
            let mut refused = HashSet::default();
            while let Some(producer) = next_producer(program, reader, &refused) {
                if merge(program, reader, producer) {
                    changed = true;
                } else {
                    refused.insert(producer);
                }
            }
        }
        changed
    }
}

/// A producer that `reader` reads and that has not been refused yet; the latest first, so that chains unroll from their end.
fn next_producer(
    program: &Program,
    reader: StreamId,
    refused: &HashSet<StreamId>,
) -> Option<StreamId> {
    streams_read(program, reader)
        .into_iter()
        .filter(|id| *id != reader && !refused.contains(id))
        .filter(|id| program.streams[*id].as_temporal().is_some())
        .max()
}

/// Tries to make `reader` independent of `producer`.
fn merge(program: &mut Program, reader: StreamId, producer: StreamId) -> bool {
    let Some(merge) = Merge::new(program, reader, producer) else {
        return false;
    };
    let mut merged = program.clone();
    let (clock, body) = merge.run(&mut merged);
    if depth(&merged, body) > MAX_DEPTH / 4 || tree_size(&merged, body) > MAX_NODES {
        return false;
    }
    // A reader that ticked on events of a grid and now ticks on all its cells is φ, or guarded, in the others.
    let old = temporal(program, reader);
    if old.clock.has_cells() && !same_cells(&merged, reader, old.body, body) {
        return false;
    }
    merged.redefine(reader, clock, body);
    let (before, after) = (Lineage::new(program), Lineage::new(&merged));
    if !same_sharing(program, &merged) || !after.is_within(&merged, &before, program) {
        return false;
    }
    *program = merged;
    true
}

fn temporal(program: &Program, id: StreamId) -> &Temporal {
    program.streams[id]
        .as_temporal()
        .expect("only temporal expressions are fused")
}

/// What is to be done, once it is known to be right.
struct Merge {
    reader: Temporal,
    producer: Temporal,
    id: StreamId,
    uses: Uses,
    /// The stream whose windows take the place of windows over the producer.
    window_stream: Option<StreamId>,
    /// Whether the producer is φ where its body has a value: then the copy needs a guard.
    guard: bool,
    /// Whether the reader must be told to be φ where none of its former sources has a value.
    guard_reader: bool,
    clock: Clock,
}

impl Merge {
    fn new(program: &Program, reader_id: StreamId, id: StreamId) -> Option<Self> {
        let timelines = Timelines::new(program);
        let totality = Totality::new(program, &timelines);
        let reader = temporal(program, reader_id).clone();
        let producer = temporal(program, id).clone();
        if streams_read(program, id).contains(&id) {
            return None; // A recurrence needs its own past.
        }
        if matches!(reader.clock, Clock::Sessions { stream, .. } if stream == id) {
            return None; // Sessions are made of the producer's own events.
        }

        let uses = Uses::collect(program, reader.body, id)?;
        // Work that copies would repeat: a reduction, a function, or a join of several timelines.
        let is_costly = is_costly(program, producer.body);
        if is_costly || timelines.aligned(&producer.clock).is_none() && !is_shift(&producer.clock) {
            let readers = live_streams(program)
                .into_iter()
                .filter(|s| *s != id && streams_read(program, *s).contains(&id))
                .count();
            if readers > 1 || program.output == id || uses.counts.len() > 1 {
                return None;
            }
        }

        // Reads of the value.
        let here = timelines.aligned(&reader.clock);
        let timeline = timelines.of(id);
        // Which of several active events a body reads is decided by its clock. Only on the rows of an input do reader and
        // producer agree about it.
        if timelines.is_bag(timeline) && !matches!(timeline, Timeline::Input(_)) {
            return None;
        }
        let steady = is_steady(program, &timelines, producer.body, &producer.clock)
            && !timelines.is_bag(timeline);
        // Ends of cells are ends of finer ones, but the events are others.
        if here != Some(timeline) && has_window_of_event(program, producer.body) {
            return None;
        }
        let aligned = |offset| is_aligned(here, timeline, offset);
        let sources = sources_of(&producer.clock);
        let moves = |d: i64| d == 0 || can_shift(program, producer.body);
        if !uses.offsets().all(|d| moves(d) && (aligned(d) || steady)) {
            return None;
        }
        // Offsets add up, and there is an end to them.
        let furthest = furthest(program, &producer);
        let of_clock = sources_of(&reader.clock).unwrap_or_default();
        let shifts = of_clock.iter().filter_map(|source| match source {
            Source::Value { stream, offset } if *stream == id => Some(*offset),
            _ => None,
        });
        if shifts
            .chain(uses.offsets())
            .any(|d| d.saturating_abs().saturating_add(furthest) > MAX_TICKS)
        {
            return None;
        }

        // Windows over the producer.
        let window_stream = if uses.in_windows {
            Some(window_stream(
                program, &timelines, &totality, &producer, id, &uses,
            )?)
        } else {
            None
        };

        // The clock.
        let (clock, guard_reader) = Self::clock(
            program, &timelines, &totality, &reader, &producer, id, timeline,
        )?;

        // Where the producer has no event its body must be φ, or be made so.
        let guard = match &sources {
            // Outside the run a grid has cells only where its body reads something.
            None if !vanishes(program, id, producer.body) => return None,
            None => false,
            Some(sources) => {
                let by_itself = sources
                    .iter()
                    .any(|s| nullness::strict_in_source(program, producer.body, *s));
                // Where the producer has no event, a steady body reads nothing and so cannot fail; any other might.
                let here = timelines.aligned(&producer.clock);
                let safe = steady || is_infallible(program, &timelines, here, producer.body);
                // At the very event that makes the reader tick, a source of the producer may be known to be there.
                let here_only = uses.offsets().all(|d| d == 0 && aligned(0));
                let total = sources.iter().any(|s| totality.is_total(s.stream()));
                let implied = sources_of(&reader.clock)
                    .is_some_and(|of_reader| of_reader.iter().all(|s| sources.contains(s)));
                let unseen = sources
                    .iter()
                    .any(|s| nullness::strict_in_source(program, reader.body, *s));
                let evaluated = here_only && (total || implied);
                !(evaluated || safe && (by_itself || here_only && unseen))
            }
        };
        // An event without a choice for one of several groups masks all other streams on that group's timeline, so reads must not
        // come under a mask that was not there, nor leave one.
        let masked = |clock: &Clock, (stream, at): (StreamId, i64)| {
            is_masked(&timelines, &totality, clock, stream, at)
        };
        let same_clock = clock == producer.clock && uses.offsets().all(|d| d == 0);
        let mut of_producer = element_reads(program, producer.body);
        if !same_clock {
            if of_producer.iter().any(|r| masked(&producer.clock, *r)) {
                return None;
            }
            if guard {
                of_producer.extend(sources.iter().flatten().filter_map(|s| match s {
                    Source::Value { stream, offset } => Some((*stream, *offset)),
                    _ => None,
                }));
            }
            // Where the reader's clock masks the producer, the copy must be φ too: by what it reads of the same event.
            let stays = nullness::strict_in(
                program,
                producer.body,
                &|_, expr| matches!(expr, Expr::At { stream, offset: 0 } if timelines.of(*stream) == timeline),
            );
            if !stays && uses.offsets().any(|d| masked(&reader.clock, (id, d))) {
                return None;
            }
            // What stands for the producer's own event is masked where the producer was.
            let captured = |d: i64| {
                of_producer
                    .iter()
                    .filter(|(stream, at)| *at != 0 || timelines.of(*stream) != timeline)
                    .any(|(stream, at)| masked(&clock, (*stream, at.saturating_add(d))))
            };
            if uses.offsets().any(captured) {
                return None;
            }
        }
        if element_reads(program, reader.body)
            .into_iter()
            .filter(|(stream, _)| *stream != id)
            .any(|read| masked(&clock, read) && !masked(&reader.clock, read))
        {
            return None;
        }
        Some(Self {
            reader,
            producer,
            id,
            uses,
            window_stream,
            guard,
            guard_reader,
            clock,
        })
    }

    /// The reader's clock without the producer, and whether the reader needs a guard for it.
    fn clock(
        program: &Program,
        timelines: &Timelines,
        totality: &Totality,
        reader: &Temporal,
        producer: &Temporal,
        id: StreamId,
        timeline: Timeline,
    ) -> Option<(Clock, bool)> {
        let Some(sources) = sources_of(&reader.clock) else {
            return Some((reader.clock.clone(), false));
        };
        if sources.iter().all(|s| s.stream() != id) {
            return Some((reader.clock.clone(), false));
        }
        let on_one_timeline = timelines.aligned(&reader.clock) == Some(timeline);
        // On one timeline the reader will tick wherever the producer might have had an event.
        let strict = sources
            .iter()
            .any(|s| nullness::strict_in_source(program, reader.body, *s));
        // Being φ there is not enough for a body that can fail; a guard keeps it from being evaluated.
        let here = timelines.aligned(&reader.clock);
        let infallible = is_infallible(program, timelines, here, reader.body);
        let guard = on_one_timeline && !(strict && infallible) && !totality.is_total(id);
        // The producer's own sources take its place. A grid has none and takes the place of them all, and so do sources that
        // make the timeline: beside them, the reader's other sources on it would be joined like those of another one.
        let Some(replacement) = sources_of(&producer.clock) else {
            return on_one_timeline.then(|| (producer.clock.clone(), guard));
        };
        if on_one_timeline && timelines.aligned(&producer.clock).is_none() {
            return Some((producer.clock.clone(), guard));
        }
        let mut new: Vec<Source> = Vec::new();
        for source in &sources {
            let Source::Value { stream, offset } = *source else {
                if source.stream() == id {
                    return None; // Holds and windows of the producer are its own events.
                }
                push_new(&mut new, *source);
                continue;
            };
            if stream != id {
                push_new(&mut new, *source);
                continue;
            }
            if !on_one_timeline {
                let strict = nullness::strict_in_source(program, reader.body, *source);
                let one_to_one = replacement.len() == 1 && totality.is_total(id) && {
                    matches!(replacement[0], Source::Value { stream, offset: 0 }
                        if timelines.of(stream) == timeline)
                };
                let bags = sources
                    .iter()
                    .chain(&replacement)
                    .any(|s| timelines.is_bag(timelines.of(s.stream())));
                if bags || !(strict && infallible || one_to_one) {
                    return None;
                }
            }
            for source in &replacement {
                push_new(&mut new, moved(*source, offset));
            }
        }
        let clock = match new[..] {
            [Source::Value { stream, offset: 0 }] => Clock::At(stream),
            _ => Clock::OnChange(new),
        };
        Some((clock, guard))
    }

    fn run(self, program: &mut Program) -> (Clock, ExprId) {
        let name = self.producer.name.clone();
        // One variable for each offset at which the producer is read more than once.
        let mut copies: Vec<(i64, ExprId)> = Vec::new();
        let mut lets = Vec::new();
        for (offset, count) in self.uses.counts.iter().copied() {
            let copy = self.copy(program, offset);
            if count == 1 && !self.guard_reader {
                copies.push((offset, copy));
            } else {
                let dtype = program.dtype(copy).clone();
                let var = program.var(name.clone(), dtype);
                copies.push((offset, add(program, Expr::Var(var))));
                lets.push((var, copy));
            }
        }
        let map = self.window_stream.map(|_| self.copy(program, 0));
        let id = self.id;
        let window_stream = self.window_stream;
        let mut body = rewrite(program, self.reader.body, &mut |program, place, expr| {
            match expr {
                Expr::At { stream, offset } if *stream == id => match place {
                    Place::Body => Some(
                        copies
                            .iter()
                            .find(|copy| copy.0 == *offset)
                            .expect("every offset has a copy")
                            .1,
                    ),
                    // The event that the map is applied to.
                    Place::Map(_) => map,
                },
                Expr::Reduce {
                    agg,
                    window,
                    map: old,
                } if window.stream == id => {
                    let value = map.expect("a window over the producer has a replacement");
                    let mapped = match old {
                        None => value,
                        Some(old) => guarded_map(program, *old, value),
                    };
                    let mut window = *window;
                    window.stream = window_stream.expect("checked above");
                    Some(add(
                        program,
                        Expr::Reduce {
                            agg: *agg,
                            window,
                            map: Some(mapped),
                        },
                    ))
                }
                _ => None,
            }
        });
        if self.guard_reader {
            body = self.guard_body(program, &copies, body);
        }
        for (var, value) in lets.into_iter().rev() {
            body = add(program, Expr::Let { var, value, body });
        }
        (self.clock, body)
    }

    /// The producer's body as the reader sees it `d` ticks away.
    fn copy(&self, program: &mut Program, d: i64) -> ExprId {
        let body =
            shifted(program, self.producer.body, d).expect("checked that the body can be moved");
        if !self.guard {
            return body;
        }
        let sources = sources_of(&self.producer.clock).unwrap_or_default();
        let active = any_present(program, sources.iter().map(|s| moved(*s, d)));
        only_if(program, active, body)
    }

    /// `body`, but φ where none of the reader's former sources has a value.
    fn guard_body(&self, program: &mut Program, copies: &[(i64, ExprId)], body: ExprId) -> ExprId {
        let sources = sources_of(&self.reader.clock).unwrap_or_default();
        let present: Vec<ExprId> = sources
            .iter()
            .map(|source| {
                let value = match source {
                    Source::Value { stream, .. } if *stream == self.id => copies
                        .iter()
                        .find(|copy| copy.0 == 0)
                        .map_or_else(|| self.copy(program, 0), |copy| copy.1),
                    source => read_of(program, *source),
                };
                is_present(program, value)
            })
            .collect();
        let cond = present
            .into_iter()
            .reduce(|a, b| add(program, Expr::Binary(BinaryOp::Or, a, b)))
            .expect("a clock has sources");
        only_if(program, cond, body)
    }
}

/// How a body reads one stream.
struct Uses {
    /// Where it is read by value and how often, in order of appearance.
    counts: Vec<(i64, usize)>,
    in_windows: bool,
    ordinal: bool,
}

impl Uses {
    /// `None` if it reads the stream in a way that cannot be merged.
    fn collect(program: &Program, body: ExprId, id: StreamId) -> Option<Self> {
        let mut this = Self {
            counts: Vec::new(),
            in_windows: false,
            ordinal: false,
        };
        let ok = this.visit(program, body, id, None);
        ok.then_some(this)
    }

    /// Walks the tree, so that a shared node counts as often as it is read.
    fn visit(
        &mut self,
        program: &Program,
        node: ExprId,
        id: StreamId,
        map: Option<StreamId>,
    ) -> bool {
        let expr = program.expr(node);
        if expr.stream() == Some(id) {
            match (expr, map) {
                (Expr::At { offset, .. }, None) => {
                    match self.counts.iter_mut().find(|c| c.0 == *offset) {
                        Some(count) => count.1 += 1,
                        None => self.counts.push((*offset, 1)),
                    }
                }
                // In the map of its own window `~a[t]` is the event itself.
                (Expr::At { offset: 0, .. }, Some(of)) if of == id => {}
                (Expr::Reduce { window, .. }, None) => {
                    self.in_windows = true;
                    self.ordinal |= matches!(window.bounds, Bounds::Ordinal { .. });
                }
                _ => return false,
            }
        }
        let map = match expr {
            Expr::Reduce { window, .. } => Some(window.stream),
            _ => map,
        };
        let mut ok = true;
        expr.for_each_operand(|operand| ok = ok && self.visit(program, operand, id, map));
        ok
    }

    fn offsets(&self) -> impl Iterator<Item = i64> {
        self.counts.iter().map(|(offset, _)| *offset)
    }
}

/// The sources of an event-driven clock; `None` for a clock that makes its events of something else.
fn sources_of(clock: &Clock) -> Option<Vec<Source>> {
    match clock {
        Clock::At(stream) => Some(vec![Source::Value {
            stream: *stream,
            offset: 0,
        }]),
        Clock::OnChange(sources) => Some(sources.clone()),
        Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. } => None,
    }
}

/// Whether a read is φ in some events of a clock although the stream has a value there: the clock joins several groups,
/// one of which is of the stream's timeline and can be without a choice where the stream has a value.
fn is_masked(
    timelines: &Timelines,
    totality: &Totality,
    clock: &Clock,
    stream: StreamId,
    offset: i64,
) -> bool {
    let sources = sources_of(clock).unwrap_or_default();
    let group = |source: &Source| match source {
        Source::Value { stream, offset } => Some((timelines.of(*stream), *offset)),
        _ => None,
    };
    let first = sources.first().and_then(group);
    if first.is_some() && sources.iter().all(|s| group(s) == first) {
        return false; // Every event has a choice of the only group.
    }
    let mut beside = sources
        .iter()
        .filter(|s| group(s) == Some((timelines.of(stream), offset)))
        .peekable();
    beside.peek().is_some()
        && beside.all(|s| s.stream() != stream && !totality.is_total(s.stream()))
}

/// The streams and offsets at which a body reads elements, maps aside.
fn element_reads(program: &Program, body: ExprId) -> Vec<(StreamId, i64)> {
    let mut reads = Vec::new();
    outer_reads(program, body, &mut |_, expr| match expr {
        Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => {
            reads.push((*stream, *offset));
        }
        Expr::Prev { stream, .. } => reads.push((*stream, 0)),
        _ => {}
    });
    reads
}

/// Whether the clock only moves the events of one timeline.
fn is_shift(clock: &Clock) -> bool {
    matches!(clock, Clock::OnChange(sources) if matches!(sources[..], [Source::Value { .. }]))
}

fn can_shift(program: &Program, body: ExprId) -> bool {
    let mut ok = true;
    outer_reads(program, body, &mut |_, expr| {
        ok &= match expr {
            Expr::Prev { .. } => false,
            Expr::Reduce { window, .. } => matches!(window.bounds, Bounds::Time { .. }),
            _ => true,
        };
    });
    ok
}

/// The largest distance from `t` in the clock and the body, maps aside.
fn furthest(program: &Program, temporal: &Temporal) -> i64 {
    let mut furthest = 0;
    let mut reach = |ticks: i64| furthest = furthest.max(ticks.saturating_abs());
    for source in sources_of(&temporal.clock).unwrap_or_default() {
        match source {
            Source::Value { offset, .. } | Source::Hold { offset, .. } => reach(offset),
            Source::Window { lo, hi, .. } => [lo, hi].into_iter().for_each(&mut reach),
        }
    }
    outer_reads(program, temporal.body, &mut |_, expr| match expr {
        Expr::At { offset, .. } | Expr::Hold { offset, .. } | Expr::Edge { offset, .. } => {
            reach(*offset);
        }
        Expr::Reduce { window, .. } => {
            if let Bounds::Time { lo, hi } = window.bounds {
                lo.into_iter().chain([hi]).for_each(&mut reach);
            }
        }
        _ => {}
    });
    furthest
}

/// Whether a body does what takes far longer than reading its value: a reduction, or a function that is computed row by row.
fn is_costly(program: &Program, body: ExprId) -> bool {
    use UnaryOp::*;
    let mut found = false;
    program.walk(body, &mut |_, expr| {
        found |= match expr {
            Expr::Reduce { .. } | Expr::Call { .. } => true,
            Expr::Unary(
                Cbrt | Exp | Exp2 | Expm1 | Log | Log2 | Log10 | Log1p | Sin | Cos | Tan | Asin
                | Acos | Atan | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Part(_),
                _,
            ) => true,
            Expr::Binary(op, ..) => {
                matches!(op, BinaryOp::Pow | BinaryOp::Atan2 | BinaryOp::Hypot)
            }
            _ => false,
        };
    });
    found
}

/// Whether the body reduces the interval of its own event.
fn has_window_of_event(program: &Program, body: ExprId) -> bool {
    let mut found = false;
    outer_reads(program, body, &mut |_, expr| {
        found |= matches!(expr, Expr::Reduce { window, .. } if window.bounds == Bounds::Event);
    });
    found
}

/// The stream that windows over `producer` can go over instead: it has an event, of the same interval, for each of the
/// producer's. Windows that count need one for one.
fn window_stream(
    program: &Program,
    timelines: &Timelines,
    totality: &Totality,
    producer: &Temporal,
    id: StreamId,
    uses: &Uses,
) -> Option<StreamId> {
    if timelines.aligned(&producer.clock)? != timelines.of(id) {
        return None;
    }
    let stream = match sources_of(&producer.clock)?[..] {
        [Source::Value { stream, .. }] => stream,
        ref several => several
            .iter()
            .map(|s| s.stream())
            .find(|s| totality.is_total(*s))?,
    };
    if uses.ordinal && !(totality.is_total(id) && totality.is_total(stream)) {
        return None;
    }
    // A map is evaluated again for each window, so it should read nothing but the event.
    let mut by_event = true;
    program.walk(producer.body, &mut |_, expr| {
        by_event &= match expr {
            Expr::At { stream, offset } => {
                *offset == 0 && timelines.of(*stream) == timelines.of(id)
            }
            expr => expr.stream().is_none(),
        };
    });
    if !by_event {
        return None;
    }
    Some(stream)
}

/// `old` over the value in place of the event; events without one contribute nothing.
fn guarded_map(program: &mut Program, old: ExprId, value: ExprId) -> ExprId {
    // `old` was rewritten already, so it reads `value` itself.
    if nullness::strict_in(program, old, &|id, _| id == value) {
        return old;
    }
    let cond = is_present(program, value);
    only_if(program, cond, old)
}

fn is_present(program: &mut Program, value: ExprId) -> ExprId {
    let null = add(program, Expr::IsNull(value));
    add(program, Expr::Unary(UnaryOp::Not, null))
}

fn any_present(program: &mut Program, sources: impl Iterator<Item = Source>) -> ExprId {
    let mut all: Option<ExprId> = None;
    for source in sources {
        let value = read_of(program, source);
        let present = is_present(program, value);
        all = Some(match all {
            None => present,
            Some(all) => add(program, Expr::Binary(BinaryOp::Or, all, present)),
        });
    }
    all.expect("a clock has sources")
}

/// A read that is φ exactly where the source has no choice.
fn read_of(program: &mut Program, source: Source) -> ExprId {
    let expr = match source {
        Source::Value { stream, offset } => Expr::At { stream, offset },
        Source::Hold {
            stream,
            offset,
            max_age,
        } => Expr::Hold {
            stream,
            offset,
            max_age,
        },
        Source::Window { stream, lo, hi } => Expr::Reduce {
            agg: crate::expr::Agg::Len,
            window: crate::expr::Window {
                stream,
                bounds: Bounds::Time { lo: Some(lo), hi },
            },
            map: None,
        },
    };
    add(program, expr)
}

fn moved(source: Source, d: i64) -> Source {
    match source {
        Source::Value { stream, offset } => Source::Value {
            stream,
            offset: offset.saturating_add(d),
        },
        Source::Hold {
            stream,
            offset,
            max_age,
        } => Source::Hold {
            stream,
            offset: offset.saturating_add(d),
            max_age,
        },
        Source::Window { stream, lo, hi } => Source::Window {
            stream,
            lo: lo.saturating_add(d),
            hi: hi.saturating_add(d),
        },
    }
}

fn push_new(sources: &mut Vec<Source>, source: Source) {
    if !sources.contains(&source) {
        sources.push(source);
    }
}
