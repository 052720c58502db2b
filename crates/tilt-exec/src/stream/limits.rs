//! What a program asks of a run that sees its input chunk by chunk.

use tilt_ir::{
    Agg, Bounds, Clock, Edge, Expr, Lineage, Program, Reach, Source, Stream, StreamId, strict_in,
};

use crate::{error::Error, stream::arriving::is_in_order};

/// How far from what it is asked for, and from the events it is given, a run looks at instants: beyond that neither its start nor its end can be told.
///
/// Lineage says which events matter. Besides, cells of a grid exist, and held events last, up to the end of the run, which nobody knows before all
/// chunks have come. Sums of all distances that reads can go are generous, and cost no more than a later result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) back: i64,
    pub(super) ahead: i64,
    /// Whether results may depend on where the last event of an `until_next` input ends before they reach it.
    pub(super) needs_ends: bool,
}

impl Limits {
    pub(super) fn of(program: &Program, lineage: &Lineage) -> Self {
        let (mut back, mut ahead) = (0i64, 0i64);
        let (mut sees_all, mut needs_ends) = (false, false);
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
                // Sessions reach back however far, and are refused for that.
                Clock::At(_) | Clock::Sessions { .. } => {}
                Clock::OnChange(sources) => sources.iter().for_each(|source| match *source {
                    Source::Value { offset, .. } => both(offset),
                    Source::Hold {
                        stream,
                        offset,
                        max_age,
                    } => {
                        sees_all |= max_age.is_none() && lineage.changes(stream).grid;
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
        Self {
            back: if sees_all { i64::MAX } else { back },
            ahead,
            needs_ends: needs_ends || ahead > 0,
        }
    }
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

/// Fails if no part of the output can be told before all input has come.
pub(super) fn check(program: &Program, lineage: &Lineage) -> Result<(), Error> {
    let whole = |stream: StreamId, why: String| {
        let stream = program.streams[stream].name().to_owned();
        Err(Error::Whole { stream, why })
    };
    for (id, halo) in lineage.halos() {
        let Some(input) = program.streams[id].as_input() else {
            continue;
        };
        for (reach, side) in [(halo.lookback, "past"), (halo.lookahead, "future")] {
            match reach {
                Reach::Unbounded => {
                    let why = format!("a result may depend on the whole {side} of ~{}", input.name);
                    return whole(id, why);
                }
                Reach::Bounded { events, .. } if events > 0 && input.key.is_some() => {
                    let why = format!(
                        "the query counts events of each key of ~{}, which may be any time apart",
                        input.name
                    );
                    return whole(id, why);
                }
                Reach::Bounded { .. } => {}
            }
        }
        if !is_in_order(input) {
            let why = "its events are ordered by end and may overlap, so one that is still to come may have started at any time";
            return whole(id, why.to_owned());
        }
    }
    for (id, temporal) in program.temporals().filter(|(_, t)| !t.clock.has_cells()) {
        let mut of_events = false;
        program.walk(temporal.body, &mut |_, expr| {
            of_events |=
                matches!(expr, Expr::Reduce { window, .. } if window.bounds == Bounds::Event);
        });
        if of_events {
            let why = "its windows are as long as events, which may have started at any time";
            return whole(id, why.to_owned());
        }
    }
    let is_keyed = program.inputs().any(|(_, input)| input.key.is_some());
    if is_keyed && !needs_rows(program) {
        let why = "it may have events for keys without rows nearby, and the keys are known when all rows have come";
        return whole(program.output, why.to_owned());
    }
    Ok(())
}

/// Whether the output has no event for a key without rows.
fn needs_rows(program: &Program) -> bool {
    let mut empty = vec![false; program.streams.len()];
    let index = |id: StreamId| tilt_ir::Id::index(id);
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
