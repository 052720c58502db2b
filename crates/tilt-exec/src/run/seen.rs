//! What the ranges of a stage see of their sources: all rows, or events only.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use arrow_buffer::BooleanBuffer;
use tilt_ir::StreamId;

use super::{StageRun, Trouble};
use crate::{gaps, plan::Source, series::Series, window::Algorithm};

impl StageRun<'_> {
    /// All series as a range sees them.
    pub(super) fn all(&self, range: usize) -> &BTreeMap<StreamId, Series> {
        self.seen.get(&range).unwrap_or(self.series)
    }

    /// Whether a range sees packed events that are only folded: then their positions are all that is asked for, and those are counted on
    /// the grid.
    pub(super) fn is_folded(&self, range: usize) -> bool {
        let windows = || self.stage.windows.iter().filter(|w| w.range == range);
        self.stage.ranges[range].packed
            && windows().all(|w| matches!(w.algorithm, Algorithm::Fold { .. }))
            && windows().all(|w| !w.sources.contains(&Source::Ends))
    }

    /// For ranges that see only the events of their source: all series, with those on the source's timeline cut or packed to its
    /// events. Where contributions are counted they must not have gaps between them; then positions count contributions.
    pub(super) fn events_only(
        &self,
    ) -> Result<BTreeMap<usize, BTreeMap<StreamId, Series>>, Trouble> {
        let mut seen = BTreeMap::new();
        for window in &self.stage.windows {
            if seen.contains_key(&window.range) {
                continue;
            }
            let range = &self.stage.ranges[window.range];
            let source = &self.series[&range.stream];
            let missing = |present: &&BooleanBuffer| present.count_set_bits() < present.len();
            let Some(present) = source.presence().filter(missing) else {
                continue;
            };
            let on_axis = |series: &Series| Arc::ptr_eq(&series.axis, &source.axis);
            let all = self.series.iter();
            if range.packed {
                let axis = if self.is_folded(window.range) {
                    gaps::numbers(present)
                } else {
                    gaps::packed_axis(&source.axis, present)
                };
                let axis = Arc::new(axis);
                let pack = |(id, series): (&StreamId, &Series)| {
                    let packed = on_axis(series).then(|| gaps::packed(series, present, &axis));
                    (*id, packed.unwrap_or_else(|| series.clone()))
                };
                seen.insert(window.range, all.map(pack).collect());
            } else if window.gapless {
                let mut slices = present.set_slices();
                let (start, end) = slices.next().unwrap_or((0, 0));
                if slices.next().is_some() {
                    self.piece.plan.gaps.store(true, Ordering::Relaxed);
                    return Err(Trouble("a join with gaps"));
                }
                let cut = |(id, series): (&StreamId, &Series)| {
                    let cut = on_axis(series).then(|| series.trimmed(start..end));
                    (*id, cut.unwrap_or_else(|| series.clone()))
                };
                seen.insert(window.range, all.map(cut).collect());
            }
        }
        Ok(seen)
    }
}
