//! Which positions the window of a row has.

use tilt_codegen::{
    lir::{Binary, By, Compare, Ty, ValueId},
    lower::{Body, Result, Unsupported, Valid},
};
use tilt_ir::{Bounds, StreamId, Timeline};

use super::{Current, RangePlan};
use crate::{
    plan::{Domain, GroupPlan, ParamSource, Source},
    reads::StageReads,
};

/// How many positions a range has for a row.
pub(super) struct Extent {
    pub(super) count: ValueId,
    pub(super) nonempty: Valid,
}

/// Adds a range, once.
pub(super) fn range(reads: &mut StageReads, stream: StreamId, bounds: Bounds) -> Result<usize> {
    let facts = &reads.planner.facts[&stream];
    let current = current(reads, stream);
    let bounds = match (bounds, reads.timeline()) {
        // A grid's cells are windows in time like any other.
        (Bounds::Event, Timeline::Grid { period, .. }) => Bounds::Time {
            lo: Some(-period),
            hi: 0,
        },
        (bounds, _) => bounds,
    };
    let every = match bounds {
        Bounds::Event => None,
        Bounds::Ordinal { lo, .. } => {
            (current == Current::Row && lo.is_some() && !facts.nullable).then_some(1)
        }
        Bounds::Time { lo: None, .. } => None,
        Bounds::Time { lo: Some(lo), hi } => {
            let length = hi.checked_sub(lo);
            let length = length.ok_or_else(|| Unsupported("a window longer than time".into()))?;
            match (reads.axis.regular, facts.axis.regular) {
                (Some(here), Some(there)) => {
                    // The window begins at the end of an event, so that no event is split between two windows.
                    let whole = here.period % there.period == 0
                        && length > 0
                        && length % there.period == 0
                        && (i128::from(here.phase) + i128::from(hi) - i128::from(there.phase))
                            % i128::from(there.period)
                            == 0
                        && facts.axis.disjoint;
                    whole.then_some(here.period / there.period)
                }
                _ => None,
            }
        }
    };
    let plan = RangePlan {
        stream,
        bounds,
        every,
        current,
        packed: reads.planner.packed == Some(stream),
    };
    let ranges = &mut reads.found().ranges;
    let known = ranges.iter().position(|r| *r == plan);
    Ok(known.unwrap_or_else(|| {
        ranges.push(plan);
        ranges.len() - 1
    }))
}

/// What a window by count over a stream counts from.
fn current(reads: &StageReads, stream: StreamId) -> Current {
    let timelines = reads.planner.timelines;
    let timeline = timelines.of(stream);
    match reads.domain() {
        Domain::On(here) if timelines.of(*here) == timeline => Current::Row,
        Domain::Merge { groups, .. } => {
            let bound = groups.iter().position(|group| {
                matches!(group, GroupPlan::Value { streams, offset: 0 }
                    if timelines.of(streams[0]) == timeline)
            });
            bound.map_or(Current::Started, Current::Choice)
        }
        Domain::On(_) | Domain::Grid { .. } | Domain::Calendar(_) | Domain::Sessions { .. } => {
            Current::Started
        }
    }
}

/// How many positions the window of a row has.
pub(super) fn extent(reads: &mut StageReads, body: &mut Body, range: usize) -> Extent {
    let count = if let Some(every) = reads.found().ranges[range].every {
        let lo = reads.param(body, "window_first", Ty::I64, ParamSource::RangeLo(range));
        let hi = reads.param(body, "window_end", Ty::I64, ParamSource::RangeHi(range));
        let len = reads.param(body, "positions", Ty::I64, ParamSource::RangeLen(range));
        let row = body.row();
        let every = body.int(Ty::I64, every);
        let moved = body.binary(Binary::Mul, row, every);
        let zero = body.int(Ty::I64, 0);
        let mut clamped = |offset| {
            let position = body.binary(Binary::Add, moved, offset);
            let position = body.binary(Binary::Max, position, zero);
            body.binary(Binary::Min, position, len)
        };
        let (first, end) = (clamped(lo), clamped(hi));
        body.binary(Binary::Sub, end, first)
    } else {
        let mut edge = |source, name| {
            let edge = reads.access(body, source, name, Ty::U32, By::Row, false);
            body.load(edge)
        };
        let first = edge(Source::RangeFirst(range), "window_first");
        let end = edge(Source::RangeEnd(range), "window_end");
        let count = body.binary(Binary::Sub, end, first);
        body.convert(count, Ty::I64)
    };
    let zero = body.int(Ty::I64, 0);
    let nonempty = body.compare(Compare::Gt, count, zero);
    Extent {
        count,
        nonempty: body.valid_if(nonempty),
    }
}
