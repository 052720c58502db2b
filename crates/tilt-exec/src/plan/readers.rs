//! Which streams stages read, and the last stage that reads each of them.

use std::collections::{BTreeMap, BTreeSet};

use tilt_ir::StreamId;

use super::{Domain, GroupPlan, Locate, ParamSource, Source, Stage};

/// Of each stage the streams that no stage after it reads, the output apart: what they hold can be given back.
pub(crate) fn last_read(stages: &[Stage]) -> Vec<Vec<StreamId>> {
    let mut last = BTreeMap::new();
    for (number, stage) in stages.iter().enumerate() {
        // One that nobody reads is not kept either.
        last.extend(
            reads(stage)
                .into_iter()
                .chain([stage.stream])
                .map(|stream| (stream, number)),
        );
    }
    let output = stages.last().map(|stage| stage.stream);
    let mut of_stages = vec![Vec::new(); stages.len()];
    for (stream, number) in last {
        if Some(stream) != output {
            of_stages[number].push(stream);
        }
    }
    of_stages
}

/// The streams that a stage reads, itself not among them unless it says so. No variant is left to a wildcard: one that is new has to be looked at.
fn reads(stage: &Stage) -> BTreeSet<StreamId> {
    let mut found = BTreeSet::new();
    match &stage.domain {
        Domain::On(stream) | Domain::Sessions { stream, .. } => {
            found.insert(*stream);
        }
        Domain::Merge { groups, twin, .. } => {
            found.extend(groups.iter().flat_map(GroupPlan::streams));
            found.extend(twin);
        }
        Domain::Grid { .. } | Domain::Calendar(_) => {}
    }
    for locate in &stage.locates {
        match locate {
            Locate::Rows { stream, .. }
            | Locate::Affine { stream, .. }
            | Locate::Coarse { stream, .. }
            | Locate::ByTime { stream, .. }
            | Locate::Held { stream, .. }
            | Locate::Prev { stream, .. } => {
                found.insert(*stream);
            }
            Locate::Same
            | Locate::Choice(_)
            | Locate::OwnActive { .. }
            | Locate::OwnEnded { .. }
            | Locate::Range { .. } => {}
        }
    }
    found.extend(stage.ranges.iter().map(|range| range.stream));
    found.extend(stage.windows.iter().filter_map(|w| Some(w.anchor?.0)));
    let inside = || stage.inside.iter();
    let sources = (stage.sources.iter())
        .chain(inside().flat_map(|inside| &inside.sources))
        .chain(stage.windows.iter().flat_map(|window| &window.sources))
        .chain(stage.calls.iter().flat_map(|call| &call.sources));
    found.extend(sources.filter_map(of_source));
    let params = (stage.params.iter())
        .chain(inside().flat_map(|inside| &inside.params))
        .chain(stage.windows.iter().flat_map(|window| &window.params))
        .chain(stage.calls.iter().flat_map(|call| &call.params));
    found.extend(params.filter_map(of_param));
    found
}

fn of_source(source: &Source) -> Option<StreamId> {
    match source {
        Source::Leaf { stream, .. }
        | Source::Present { stream, .. }
        | Source::Edge { stream, .. }
        | Source::Anchor { stream, .. }
        | Source::Distance { stream, .. } => Some(*stream),
        Source::Ends
        | Source::Starts
        | Source::OwnRows { .. }
        | Source::OwnTable(_)
        | Source::Position { .. }
        | Source::EndsTable
        | Source::Call(_)
        | Source::Window { .. }
        | Source::RangeFirst(_)
        | Source::RangeEnd(_)
        | Source::RangeLate(_) => None,
    }
}

fn of_param(param: &ParamSource) -> Option<StreamId> {
    match param {
        ParamSource::FirstEdge { stream, .. } => Some(*stream),
        ParamSource::FirstEnd
        | ParamSource::Text(_)
        | ParamSource::RunStart
        | ParamSource::RunEnd
        | ParamSource::RangeLo(_)
        | ParamSource::RangeHi(_)
        | ParamSource::RangeLen(_) => None,
    }
}
