//! The last stage of a piece for some of its rows: windows read all of them.

use std::{collections::BTreeMap, sync::Arc};

use tilt_ir::{Bounds, StreamId};

use super::AllSeries;
use crate::{
    keyed::gather_leaf,
    plan::{Locate, Source, Stage},
    series::{Axis, Series},
    window::RangePlan,
};

/// Whether rows of a stage can be computed without those between them: all else that they read, windows find by time.
pub(crate) fn may_pick(stage: &Stage) -> bool {
    let by_time = |range: &RangePlan| {
        matches!(range.bounds, Bounds::Time { .. }) && range.every.is_none() && !range.packed
    };
    stage.own.is_empty()
        && stage.locates.iter().all(|locate| *locate == Locate::Same)
        && stage.ranges.iter().all(by_time)
}

/// What a stage reads at some rows, which `axis` has.
pub(super) fn picked(
    stage: &Stage,
    axis: &Arc<Axis>,
    series: &AllSeries,
    rows: &[u32],
) -> AllSeries {
    let inside = stage.inside.iter().flat_map(|inside| &inside.sources);
    let calls = stage.calls.iter().flat_map(|call| &call.sources);
    let mut read: BTreeMap<StreamId, Vec<usize>> = BTreeMap::new();
    for source in stage.sources.iter().chain(inside).chain(calls) {
        match source {
            Source::Leaf { stream, leaf, .. } => read.entry(*stream).or_default().push(*leaf),
            Source::Present { stream, .. } | Source::Edge { stream, .. } => {
                read.entry(*stream).or_default();
            }
            _ => {}
        }
    }
    let mut own = series.clone();
    for (stream, leaves) in read {
        let picked = series[&stream].pick(rows, axis, |leaf| leaves.contains(&leaf));
        own.insert(stream, picked);
    }
    own
}

impl Series {
    /// Some rows, which `axis` has, of the columns that are asked for; others stay as they are.
    pub(crate) fn pick(
        &self,
        rows: &[u32],
        axis: &Arc<Axis>,
        is_asked: impl Fn(usize) -> bool,
    ) -> Self {
        let leaves = self.leaves.iter().enumerate();
        let leaves = leaves.map(|(number, leaf)| {
            if is_asked(number) {
                gather_leaf(rows, leaf, 1)
            } else {
                leaf.clone()
            }
        });
        let bits = self.present.as_ref();
        Self {
            axis: Arc::clone(axis),
            leaves: leaves.collect(),
            present: bits.map(|bits| rows.iter().map(|row| bits.value(*row as usize)).collect()),
        }
    }
}
