//! Timelines that grow, and what merges chose on them.

use std::sync::Arc;

use tilt_ir::StreamId;

use super::times::Times;
use crate::{merge::Merged, series::Axis};

/// A timeline. Streams on it have rows of the same numbers, and forget them together.
pub(super) struct GrowingAxis {
    pub(super) times: Times,
    /// The input or the stage whose rows these are.
    pub(super) root: StreamId,
    /// Whether the last row can be seen before its end is known. Windows tell rows by their ends.
    pub(super) shows_open: bool,
    /// What a merge chose, for each of its groups.
    pub(super) choices: Vec<Vec<u32>>,
}

impl GrowingAxis {
    pub(super) fn new(times: Times, root: StreamId) -> Self {
        Self {
            times,
            root,
            shows_open: true,
            choices: Vec::new(),
        }
    }

    /// All rows. What a merge chose is lent, and [taken back](Self::take_back) when nobody has it any more.
    pub(super) fn show(&mut self) -> Arc<Axis> {
        let timeline = self.times.timeline(self.times.len());
        Arc::new(Axis::new(timeline, std::mem::take(&mut self.choices)))
    }

    pub(super) fn take_back(&mut self, axis: Option<Arc<Axis>>) {
        let mut axis = axis;
        if let Some(axis) = axis.as_mut().and_then(Arc::get_mut) {
            self.choices = std::mem::take(&mut axis.choices);
        }
    }

    /// Appends the events of a merge.
    pub(super) fn append(&mut self, merged: &Merged) {
        self.times.append_intervals(&merged.starts, &merged.ends);
        self.choices.resize_with(merged.choices.len(), Vec::new);
        for (all, new) in self.choices.iter_mut().zip(&merged.choices) {
            all.extend(new);
        }
    }
}
