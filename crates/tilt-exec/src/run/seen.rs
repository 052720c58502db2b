//! What the ranges of a stage see of their sources: all rows, those that are known of all of them, or events only.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use arrow_buffer::BooleanBuffer;
use tilt_ir::StreamId;

use super::{Piece, StageRun, Trouble};
use crate::{
    gaps,
    pieces::slice,
    plan::{Source, Stage},
    series::Series,
    window::Algorithm,
};

/// For ranges that do not see all rows of their source.
pub(crate) type Seen = BTreeMap<usize, Sight>;

/// All series as a range sees them.
#[derive(Clone)]
pub(crate) struct Sight {
    all: BTreeMap<StreamId, Series>,
    /// Whether positions are others than those of rows.
    renumbered: bool,
}

impl StageRun<'_> {
    /// All series as a range sees them.
    pub(super) fn all(&self, range: usize) -> &BTreeMap<StreamId, Series> {
        self.seen
            .get(&range)
            .map_or(self.series, |sight| &sight.all)
    }

    /// Whether the positions of a range are others than those of rows.
    pub(super) fn is_renumbered(&self, range: usize) -> bool {
        self.seen.get(&range).is_some_and(|sight| sight.renumbered)
    }

    pub(super) fn is_folded(&self, range: usize) -> bool {
        is_folded(self.stage, range)
    }
}

/// Whether a range sees packed events that are only folded: then their positions are all that is asked for, and those are counted on
/// the grid.
fn is_folded(stage: &Stage, range: usize) -> bool {
    let windows = || stage.windows.iter().filter(|w| w.range == range);
    stage.ranges[range].packed
        && windows().all(|w| matches!(w.algorithm, Algorithm::Fold { .. }))
        && windows().all(|w| !w.sources.contains(&Source::Ends))
}

/// All rows for every range, where a stage has only some.
pub(super) fn whole(stage: &Stage, series: &BTreeMap<StreamId, Series>) -> Seen {
    let sight = || Sight {
        all: series.clone(),
        renumbered: false,
    };
    let ranges = 0..stage.ranges.len();
    ranges.map(|number| (number, sight())).collect()
}

/// What ranges see while rows arrive: what a window adds up may be known of fewer rows than there are of its source, and then no window needs
/// the others yet.
pub(crate) fn known_only(stage: &Stage, series: &BTreeMap<StreamId, Series>) -> Seen {
    let mut seen = BTreeMap::new();
    for (number, range) in stage.ranges.iter().enumerate() {
        let windows = || stage.windows.iter().filter(|w| w.range == number);
        let sources = || windows().flat_map(|window| &window.sources);
        let streams = || {
            let of_windows = sources().filter_map(|source| match source {
                Source::Leaf { stream, .. }
                | Source::Present { stream, .. }
                | Source::Anchor { stream, .. } => Some(*stream),
                _ => None,
            });
            of_windows.chain([range.stream])
        };
        let lengths = || streams().map(|stream| series[&stream].axis.len());
        let known = lengths().min().unwrap_or(0);
        if lengths().all(|len| len == known) {
            continue;
        }
        let source = slice(&series[&range.stream], &(0..known));
        let mut all = series.clone();
        for stream in streams() {
            let cut = Series {
                axis: Arc::clone(&source.axis),
                ..slice(&series[&stream], &(0..known))
            };
            all.insert(stream, cut);
        }
        let renumbered = false;
        seen.insert(number, Sight { all, renumbered });
    }
    seen
}

/// For ranges that see only the events of their source: all series, with those on the source's timeline cut or packed to its
/// events. Where contributions are counted they must not have gaps between them; then positions count contributions. `seen` is what ranges
/// see before.
pub(crate) fn events_only(
    piece: &Piece,
    stage: &Stage,
    series: &BTreeMap<StreamId, Series>,
    mut seen: Seen,
) -> Result<Seen, Trouble> {
    for window in &stage.windows {
        let before = seen.get(&window.range);
        if before.is_some_and(|sight| sight.renumbered) {
            continue;
        }
        let series = before.map_or(series, |sight| &sight.all);
        let range = &stage.ranges[window.range];
        let source = &series[&range.stream];
        let missing = |present: &&BooleanBuffer| present.count_set_bits() < present.len();
        let Some(present) = source.presence().filter(missing) else {
            continue;
        };
        let on_axis = |series: &Series| Arc::ptr_eq(&series.axis, &source.axis);
        let all = series.iter();
        if range.packed {
            let axis = if is_folded(stage, window.range) {
                gaps::numbers(present)
            } else {
                gaps::packed_axis(&source.axis, present)
            };
            let axis = Arc::new(axis);
            let pack = |(id, series): (&StreamId, &Series)| {
                let packed = on_axis(series).then(|| gaps::packed(series, present, &axis));
                (*id, packed.unwrap_or_else(|| series.clone()))
            };
            let all = all.map(pack).collect();
            let renumbered = true;
            seen.insert(window.range, Sight { all, renumbered });
        } else if window.gapless {
            let mut slices = present.set_slices();
            let (start, end) = slices.next().unwrap_or((0, 0));
            if slices.next().is_some() {
                piece.plan.gaps.store(true, Ordering::Relaxed);
                return Err(Trouble("a join with gaps"));
            }
            let cut = |(id, series): (&StreamId, &Series)| {
                let cut = on_axis(series).then(|| series.trimmed(start..end));
                (*id, cut.unwrap_or_else(|| series.clone()))
            };
            let all = all.map(cut).collect();
            let renumbered = true;
            seen.insert(window.range, Sight { all, renumbered });
        }
    }
    Ok(seen)
}
