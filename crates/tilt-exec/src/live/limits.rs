//! What a program asks of a run that sees its input as it comes.

use std::collections::HashSet;

use tilt_ir::{
    Agg, Bounds, Clock, Edge, Expr, ExprId, Id, Lineage, Overlap, Program, Reach, Source, Stream,
    StreamId, Temporal, strict_in,
};

use crate::{
    error::Error,
    live::{
        arriving::{can_count_by_key, is_in_order},
        past::Past,
    },
};

/// What results depend on of where the run ends, if all events have known ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MindsEnd {
    /// Nothing.
    Never,
    /// A cell of the output exists if the run goes on for longer than the cell's start, which is at least so far before its end.
    Cells(i64),
    /// Anything up to `ahead` before the end, and what ends there.
    Near,
}

/// How far from what it is asked for, and from the events it is given, a run looks at instants: beyond that neither its start nor its end can be told.
///
/// Lineage says which events matter. Besides, cells of a grid exist, and held events last, up to the end of the run, which nobody knows before all
/// chunks have come. Sums of all distances that reads can go are generous, and cost no more than a later result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) back: i64,
    pub(crate) ahead: i64,
    /// Whether results depend on where the run begins.
    pub(crate) minds_start: bool,
    pub(crate) minds_end: MindsEnd,
    /// Whether results may depend on where the last event of an `until_next` input ends before they reach it.
    pub(crate) needs_ends: bool,
    /// Whether results may depend on the order of events that are active at once, which is that of their ends.
    pub(crate) minds_order: bool,
}

impl Limits {
    pub(crate) fn of(program: &Program, lineage: &Lineage) -> Self {
        let (mut back, mut ahead) = (0i64, 0i64);
        let (mut sees_all, mut needs_ends) = (false, false);
        let mut output_holds = false;
        for (id, temporal) in program.temporals() {
            let is_output = id == program.output;
            let mut both = |distance: i64| {
                back = back.saturating_add(distance.saturating_abs());
                // The output is read only where its events end, which is after the run's end moved by what it reads ahead.
                ahead = ahead.saturating_add(if is_output {
                    distance.max(0)
                } else {
                    distance.saturating_abs()
                });
            };
            match &temporal.clock {
                Clock::Every { period, .. } if is_output => both(period.saturating_neg()),
                Clock::Every { period, .. } => both(*period),
                Clock::Calendar(calendar) => {
                    let cells = calendar.cells(program.unit).ok();
                    let longest = cells.and_then(|cells| cells.longest());
                    let longest = longest.unwrap_or(i64::MAX);
                    both(if is_output { -longest } else { longest });
                }
                Clock::At(_) => {}
                Clock::Sessions { stream, max, .. } => {
                    // Whether an event still belongs to a session depends on how long that becomes by it.
                    needs_ends |= max.is_some();
                    // Where one begins depends on all cells before it, and those are there from the start of the run on.
                    sees_all |= lineage.changes(*stream).grid;
                }
                Clock::OnChange(sources) => sources.iter().for_each(|source| match *source {
                    Source::Value { offset, .. } => both(offset),
                    Source::Hold {
                        stream,
                        offset,
                        max_age,
                    } => {
                        sees_all |= max_age.is_none() && lineage.changes(stream).grid;
                        output_holds |= is_output;
                        both(offset);
                        both(max_age.unwrap_or(0).saturating_add(1).saturating_neg());
                    }
                    Source::Window { lo, hi, .. } => {
                        both(lo);
                        both(hi);
                    }
                }),
            }
            program.walk(temporal.body, &mut |_, expr| {
                let (lo, hi) = match *expr {
                    Expr::At { offset, .. } | Expr::Edge { offset, .. } => (offset, offset),
                    Expr::Hold {
                        offset, max_age, ..
                    } => (offset.saturating_sub(max_age.unwrap_or(0)), offset),
                    Expr::Reduce { window, .. } => match window.bounds {
                        Bounds::Time { lo, hi } => (lo.unwrap_or(0), hi),
                        // The length of a cell is counted with its clock.
                        Bounds::Ordinal { .. } | Bounds::Event => (0, 0),
                    },
                    _ => (0, 0),
                };
                back = back.saturating_add(lo.min(0).saturating_abs());
                ahead = ahead.saturating_add(hi.max(0));
                // Cells do not depend on events, so lineage does not tell how far away the one is that such a read finds.
                if let Some(stream) = expr.stream()
                    && lineage.changes(stream).grid
                {
                    let (counts_back, counts_ahead) = counts(expr);
                    sees_all |= counts_back || stream == id;
                    if counts_ahead {
                        ahead = i64::MAX;
                    }
                }
                needs_ends |= match expr {
                    Expr::Time
                    | Expr::Edge {
                        edge: Edge::End, ..
                    } => true,
                    Expr::Reduce { agg, .. } => {
                        matches!(agg, Agg::ArgMin | Agg::ArgMax | Agg::Slope | Agg::Custom(_))
                    }
                    _ => false,
                };
            });
        }
        let needs_ends = needs_ends || ahead > 0;
        // A held event lasts until just before the next one ends, and that may be the end of the run.
        let ahead = ahead.saturating_add(i64::from(output_holds));
        Self {
            back: if sees_all { i64::MAX } else { back },
            ahead,
            minds_start: program
                .temporals()
                .any(|(id, t)| !is_strict_cell(program, id, t)),
            minds_end: minds_end(program, lineage, ahead),
            needs_ends,
            minds_order: minds_order(program),
        }
    }
}

/// Whether anything but what is the same in any order is read of events that may be active at once.
fn minds_order(program: &Program) -> bool {
    program.temporals().any(|(_, temporal)| {
        let changes = match &temporal.clock {
            Clock::OnChange(sources) => sources.iter().any(|source| match *source {
                Source::Value { stream, .. } | Source::Hold { stream, .. } => {
                    overlaps(program, stream)
                }
                Source::Window { .. } => false,
            }),
            _ => false,
        };
        changes || reads_in_order(program, temporal.body, None, &mut HashSet::new())
    })
}

/// The same of an expression; in the map of a window `own` is the window's stream, of which `~x[t]` is the event itself.
fn reads_in_order(
    program: &Program,
    id: ExprId,
    own: Option<StreamId>,
    seen: &mut HashSet<(ExprId, Option<StreamId>)>,
) -> bool {
    if !seen.insert((id, own)) {
        return false;
    }
    let expr = program.expr(id);
    let (is_any_order, own_below) = match expr {
        Expr::At { stream, offset: 0 } => (own == Some(*stream), own),
        Expr::Reduce { agg, window, .. } => {
            let is_any_order = match agg {
                Agg::Sum => program.dtype(id).is_integer(),
                Agg::Len
                | Agg::Min
                | Agg::Max
                | Agg::Any
                | Agg::All
                | Agg::Median
                | Agg::Quantile { .. }
                | Agg::NUnique => true,
                _ => false,
            };
            let is_counted = matches!(window.bounds, Bounds::Ordinal { .. });
            (is_any_order && !is_counted, Some(window.stream))
        }
        _ => (false, own),
    };
    let mut minds = !is_any_order && expr.stream().is_some_and(|of| overlaps(program, of));
    expr.for_each_operand(|below| {
        minds = minds || reads_in_order(program, below, own_below, seen);
    });
    minds
}

/// Whether several events of a stream may be active at once.
fn overlaps(program: &Program, stream: StreamId) -> bool {
    match &program.streams[stream] {
        Stream::Input(input) => input.overlap != Overlap::Disjoint,
        Stream::Temporal(temporal) => match temporal.clock {
            Clock::At(of) => overlaps(program, of),
            _ => false,
        },
    }
}

/// Whether a stream has no cells, or none that is there only because the run's span is.
fn is_strict_cell(program: &Program, id: StreamId, temporal: &Temporal) -> bool {
    let shows = |_, expr: &Expr| match expr {
        Expr::Reduce { window, .. } => {
            let begins = matches!(
                window.bounds,
                Bounds::Time { lo: Some(_), .. } | Bounds::Event
            );
            begins && window.stream != id
        }
        expr => expr.stream().is_some_and(|stream| stream != id),
    };
    !temporal.clock.has_cells() || strict_in(program, temporal.body, &shows)
}

fn minds_end(program: &Program, lineage: &Lineage, ahead: i64) -> MindsEnd {
    // Whether all events of a stream end within the run.
    let mut inside = vec![true; program.streams.len()];
    let mut found = MindsEnd::Never;
    for (id, temporal) in program.temporals() {
        let is_inside = |stream: StreamId| inside[stream.index()];
        let ends_inside = match &temporal.clock {
            Clock::At(stream) | Clock::Sessions { stream, .. } => is_inside(*stream),
            Clock::Every { .. } | Clock::Calendar(_) => false,
            Clock::OnChange(sources) => sources.iter().all(|source| match *source {
                Source::Value { stream, offset } => offset >= 0 && is_inside(stream),
                Source::Hold { .. } | Source::Window { .. } => false,
            }),
        };
        let holds_source = matches!(&temporal.clock, Clock::OnChange(sources)
            if sources.iter().any(|source| matches!(source, Source::Hold { .. })));
        let mut minds = holds_source;
        program.walk(temporal.body, &mut |_, expr| {
            minds |= match *expr {
                // What is held is read up to the end of the run only.
                Expr::Hold { offset, .. } => offset > 0 || !ends_inside || inside.contains(&false),
                _ => {
                    ahead == i64::MAX
                        && expr.stream().is_some_and(|s| lineage.changes(s).grid)
                        && counts(expr).1
                }
            };
        });
        if !is_strict_cell(program, id, temporal) {
            match &temporal.clock {
                Clock::Every { period, .. } if id == program.output => {
                    found = MindsEnd::Cells(*period);
                }
                Clock::Calendar(_) if id == program.output => found = MindsEnd::Cells(1),
                _ => minds = true,
            }
        }
        if minds {
            return MindsEnd::Near;
        }
        inside[id.index()] = ends_inside;
    }
    found
}

/// Whether a read finds its event, before or after the current one, however far away that is.
fn counts(expr: &Expr) -> (bool, bool) {
    match expr {
        Expr::Prev { .. } | Expr::Hold { max_age: None, .. } => (true, false),
        Expr::Reduce { window, .. } => match window.bounds {
            Bounds::Time { lo, .. } => (lo.is_none(), false),
            Bounds::Ordinal { hi, .. } => (true, hi > 0),
            Bounds::Event => (false, false),
        },
        _ => (false, false),
    }
}

/// What stands against telling parts of the output from the part of the input that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// All input has to be held, unless the run can carry what it looks back to.
    Holds,
    /// Nothing can be told before all input has come.
    Waits,
    /// Rows do not tell which events are still to come; only promises do.
    Disorder,
}

#[derive(Debug)]
pub(crate) struct Obstacle {
    pub(crate) kind: Kind,
    /// The input, or the output.
    pub(crate) stream: StreamId,
    pub(crate) why: String,
}

pub(crate) fn obstacles(program: &Program, lineage: &Lineage, past: &Past) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let mut meets = |kind: Kind, stream: StreamId, why: String| {
        found.push(Obstacle { kind, stream, why });
    };
    for (id, halo) in lineage.halos() {
        let Some(input) = program.streams[id].as_input() else {
            continue;
        };
        let lookback = past.back(id).reach;
        for (reach, side, kind) in [
            (lookback, "past", Kind::Holds),
            (halo.lookahead, "future", Kind::Waits),
        ] {
            match reach {
                Reach::Unbounded => {
                    let why = format!("a result may depend on the whole {side} of ~{}", input.name);
                    meets(kind, id, why);
                }
                Reach::Bounded { events, .. }
                    if events > 0
                        && input.key.is_some()
                        && (kind == Kind::Waits || !can_count_by_key(input)) =>
                {
                    let why = format!(
                        "the query counts events of each key of ~{}, which may be any time apart",
                        input.name
                    );
                    meets(kind, id, why);
                }
                Reach::Bounded { .. } => {}
            }
        }
        if !is_in_order(input) {
            let why = "its events are ordered by end and may overlap, so one that is still to come may have started at any time";
            meets(Kind::Disorder, id, why.to_owned());
        }
    }
    for (id, temporal) in program.temporals().filter(|(_, t)| !t.clock.has_cells()) {
        let mut of_events = false;
        program.walk(temporal.body, &mut |_, expr| {
            of_events |=
                matches!(expr, Expr::Reduce { window, .. } if window.bounds == Bounds::Event);
        });
        if of_events && !(past.knows_sessions && are_sessions(program, id)) {
            let why = "its windows are as long as events, which may have started at any time";
            meets(Kind::Holds, id, why.to_owned());
        }
    }
    let is_keyed = program.inputs().any(|(_, input)| input.key.is_some());
    if is_keyed && !needs_rows(program) {
        let why = "it may have events for keys without rows nearby, and the keys are known when all rows have come";
        meets(Kind::Waits, program.output, why.to_owned());
    }
    found
}

/// Whether the events of a stream are sessions.
fn are_sessions(program: &Program, id: StreamId) -> bool {
    match program.streams[id].as_temporal().map(|t| &t.clock) {
        Some(Clock::At(stream)) => are_sessions(program, *stream),
        Some(Clock::Sessions { .. }) => true,
        _ => false,
    }
}

/// Fails if a run over chunks would have to hold all input, though it may carry what it looks back to, or tell nothing before all has come.
pub(crate) fn check(
    program: &Program,
    lineage: &Lineage,
    past: &Past,
    carries: bool,
) -> Result<(), Error> {
    let mut obstacles = obstacles(program, lineage, past).into_iter();
    let stands = |obstacle: &Obstacle| obstacle.kind != Kind::Holds || !carries;
    match obstacles.find(stands) {
        None => Ok(()),
        Some(Obstacle { stream, why, .. }) => {
            let stream = program.streams[stream].name().to_owned();
            Err(Error::Whole { stream, why })
        }
    }
}

/// Whether the output has no event for a key without rows.
fn needs_rows(program: &Program) -> bool {
    let mut empty = vec![false; program.streams.len()];
    let index = |id: StreamId| id.index();
    for (id, stream) in program.streams.iter() {
        empty[index(id)] = match stream {
            Stream::Input(input) => input.key.is_some(),
            Stream::Temporal(temporal) => {
                let is_empty = |stream: StreamId| empty[index(stream)];
                let never = match &temporal.clock {
                    Clock::At(stream) => is_empty(*stream),
                    Clock::OnChange(sources) => sources.iter().all(|s| is_empty(s.stream())),
                    Clock::Sessions { stream, .. } => is_empty(*stream),
                    Clock::Every { .. } | Clock::Calendar(_) => false,
                };
                let reads_nothing = |_, expr: &Expr| match expr {
                    Expr::Reduce { window, .. } => is_empty(window.stream),
                    expr => expr.stream().is_some_and(is_empty),
                };
                never || strict_in(program, temporal.body, &reads_nothing)
            }
        };
    }
    empty[index(program.output)]
}
