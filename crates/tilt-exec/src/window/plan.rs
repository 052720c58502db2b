//! What windows are planned as: the positions they cover, and the loops that compute them.

use tilt_codegen::lir::{Combine, Ty};
use tilt_ir::{Bounds, StreamId};

use crate::{
    plan::{ParamSource, Source},
    rows::RowsPlan,
};

/// The positions that the windows of a stage cover.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RangePlan {
    pub(crate) stream: StreamId,
    pub(crate) bounds: Bounds,
    /// The window of the next row is that of this row moved by so many positions.
    pub(crate) every: Option<i64>,
    /// By count: what is counted from.
    pub(crate) current: Current,
    /// Whether the source keeps gaps: positions are those of its events, packed together.
    pub(crate) packed: bool,
}

/// The current event of a window by count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Current {
    /// The one at the row's own position, or the last before it.
    Row,
    /// The one that a group of the merge chose; where it chose none, the last one that has started.
    Choice(usize),
    /// The last one that has started.
    Started,
}

impl RangePlan {
    /// Whether windows move by one position from row to row.
    pub(crate) fn is_steady(&self) -> bool {
        self.every == Some(1)
    }

    /// Whether windows have no beginning, and no window ends before that of an earlier row.
    pub(crate) fn is_running(&self) -> bool {
        match self.bounds {
            Bounds::Time { lo, .. } => lo.is_none(),
            Bounds::Ordinal { lo, .. } => lo.is_none() && self.current == Current::Row,
            Bounds::Event => false,
        }
    }

    /// The length of a time window, if it has a beginning.
    pub(crate) fn length(&self) -> Option<i64> {
        match self.bounds {
            Bounds::Time { lo: Some(lo), hi } => hi.checked_sub(lo),
            _ => None,
        }
    }
}

/// A reduction over a range.
#[derive(Debug)]
pub(crate) struct WindowPlan {
    pub(crate) range: usize,
    pub(crate) algorithm: Algorithm,
    /// What the accesses of the loops read, all at the source's own positions.
    pub(crate) sources: Vec<Source>,
    pub(crate) params: Vec<ParamSource>,
    /// The column whose value next to the split is subtracted before anything is added.
    pub(crate) anchor: Option<(StreamId, usize)>,
    /// How an overflow is noticed.
    pub(crate) guard: Guard,
    /// What the algorithm works on, if not on positions.
    pub(crate) panes: Option<PanePlan>,
    pub(crate) slots: Vec<(Combine, Ty)>,
    /// Whether the source must be φ at its beginning and end only, because contributions are counted.
    pub(crate) gapless: bool,
    /// Of running counts of events: how many a window has where every position has one.
    pub(crate) count: Option<i64>,
    /// What is computed row by row.
    pub(crate) rows: Option<RowsPlan>,
    /// For people.
    pub(crate) what: String,
}

impl WindowPlan {
    /// The loop over contributions that goes forward.
    pub(crate) fn contributions(&self) -> usize {
        let panes = self.panes.as_ref();
        panes.map_or(self.algorithm.forward(), |panes| panes.fold)
    }
}

/// Panes: loops by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanePlan {
    pub(crate) cut: Cut,
    /// Folds any number of positions.
    pub(crate) fold: usize,
    /// Folds whole panes, eight at a time.
    pub(crate) short: Option<usize>,
}

/// Where panes begin and end: each is as long as windows move from row to row, and windows end with one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) measure: Measure,
    pub(crate) every: i64,
    /// How many whole panes a window has.
    pub(crate) whole: i64,
    /// How much a window has of the pane before these: its last part, which is folded on its own. 0 if it begins with a pane.
    pub(crate) rest: i64,
}

/// What the length of a pane is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    Positions,
    Ticks,
}

/// Where the magnitudes of 64-bit integers are found, whose total may overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guard {
    /// Nowhere: nothing can overflow.
    None,
    /// In a column of the source, as it is.
    Leaf(StreamId, usize),
    /// Joined in the last slot.
    Slot,
}

/// How a window is computed; loops by their numbers. Columns of slot `k` are `2k` and `2k + 1`; of windows that begin inside of panes, what they have
/// of those comes after all of them, a column a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    /// Suffixes (early) and prefixes (late) of blocks.
    Blocks { forward: usize, backward: usize },
    /// Suffixes and prefixes of every eighth position, or the window, only in the late column.
    Doubling(DoublingPlan),
    /// The total of the window, only in the late column: `forward` adds what enters, `difference` also subtracts what leaves.
    Totals { forward: usize, difference: usize },
    /// Running totals before the first position and before the end.
    Prefix { forward: usize },
    /// Both parts of each window.
    Fold { forward: usize, backward: usize },
    /// Row by row, of what a loop stores.
    Rows { store: usize },
}

/// Extremes of a few units, combined lane by lane; loops by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoublingPlan {
    /// The extremes of a few units up to each, and their prefixes in blocks.
    pub(crate) forward: usize,
    /// Their suffixes, unless the few are the window.
    pub(crate) suffixes: Option<usize>,
    /// Units of a block, a multiple of eight: the window less the few, and eight.
    pub(crate) block: usize,
    /// Vectors that the state of `forward` has for each slot.
    pub(crate) vectors: usize,
}

impl Algorithm {
    /// Whether rows read two parts of their windows, which loops take to be split at blocks.
    pub(crate) fn has_parts(self) -> bool {
        matches!(
            self,
            Self::Blocks { .. } | Self::Doubling(_) | Self::Fold { .. }
        )
    }

    /// The loop that goes forward.
    pub(crate) fn forward(self) -> usize {
        match self {
            Self::Blocks { forward, .. }
            | Self::Totals { forward, .. }
            | Self::Prefix { forward }
            | Self::Fold { forward, .. } => forward,
            Self::Doubling(doubling) => doubling.forward,
            Self::Rows { store } => store,
        }
    }
}
