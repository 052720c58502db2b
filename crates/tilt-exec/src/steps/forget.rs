//! Rows that nothing reads any more.

use std::sync::Arc;

use tilt_codegen::lir::LANES;

use super::{StageSteps, Steps, reads::Read};
use crate::{
    cursor::NONE,
    own::OwnColumn,
    plan::{Domain, Plan, Stage},
    query::Prepared,
    scan::Kept,
    window::WindowPlan,
};

impl Steps {
    /// Forgets rows that nothing reads any more, where they are half of all.
    pub(super) fn forget(&mut self) {
        let common = Arc::clone(&self.common);
        let Prepared::Loops { plan, .. } = &*common.prepared else {
            return;
        };
        for axis in 0..self.axes.len() {
            let least = common.room.max(self.axes[axis].times.all()) / 2;
            if self.known(axis) < least {
                continue;
            }
            let first = self.first_needed(plan, axis) / 64 * 64;
            if first >= least {
                self.forget_rows(plan, axis, first);
            }
        }
    }

    /// Forgets all rows that nothing reads any more, but for a few.
    pub(super) fn forget_all(&mut self) {
        let common = Arc::clone(&self.common);
        let Prepared::Loops { plan, .. } = &*common.prepared else {
            return;
        };
        for axis in 0..self.axes.len() {
            let first = self.first_needed(plan, axis) / LANES * LANES;
            if first > 0 {
                self.forget_rows(plan, axis, first);
            }
        }
    }

    /// How many rows of an axis all streams on it have.
    fn known(&self, axis: usize) -> usize {
        let known = self.streams.values().filter(|track| track.axis == axis);
        known.map(|track| track.rows).min().unwrap_or(0)
    }

    /// The first row of an axis that is read by rows which are not computed yet.
    fn first_needed(&self, plan: &Plan, axis: usize) -> usize {
        let times = &self.axes[axis].times;
        let timeline = times.timeline(times.len());
        let mut first = self.known(axis);
        for (number, stage) in self.stages.iter().enumerate() {
            let rows = self.streams[&plan.stages[number].stream].rows;
            for (stream, read) in &stage.reads {
                let source = &self.streams[stream];
                if source.axis != axis {
                    continue;
                }
                let ended = |back: i64| {
                    if stage.until == i64::MIN {
                        0
                    } else {
                        timeline.ends_until(stage.until.saturating_sub(back))
                    }
                };
                first = first.min(match *read {
                    Read::Rows { back, .. } => rows.saturating_sub(back),
                    Read::Events { back, events } => {
                        source.nth_event(rows.saturating_sub(back), events)
                    }
                    Read::Time { back, rows, .. } => ended(back).saturating_sub(rows),
                    Read::Last { back, events, .. } => {
                        source.nth_event(ended(back), events).saturating_sub(1)
                    }
                    Read::Total { ahead } => {
                        let last = ended(ahead.saturating_neg()).saturating_sub(1);
                        last.min(self.carried_from(&plan.stages[number], stage, axis))
                    }
                    Read::All { .. } => 0,
                });
            }
        }
        first
    }

    /// The first position of an axis that scans of a stage over it may still ask for, if they have no beginning.
    fn carried_from(&self, stage: &Stage, steps: &StageSteps, axis: usize) -> usize {
        let is_over = |window: &WindowPlan| {
            let range = &stage.ranges[window.range];
            range.is_running() && self.streams[&range.stream].axis == axis
        };
        let kept = |number: usize| steps.kept.get(number).map_or(0, Kept::carried_from);
        let windows = stage.windows.iter().enumerate();
        let over = windows.filter(|(_, window)| is_over(window));
        let first = over.map(|(number, _)| kept(number)).min();
        first.unwrap_or(usize::MAX)
    }

    fn forget_rows(&mut self, plan: &Plan, axis: usize, rows: usize) {
        let all = self.axes[axis].times.all();
        let root = self.axes[axis].root;
        for stage in &plan.stages {
            let Domain::Merge {
                groups, twin: None, ..
            } = &stage.domain
            else {
                continue;
            };
            let choices = &mut self.axes[self.streams[&stage.stream].axis].choices;
            for (choices, group) in choices.iter_mut().zip(groups) {
                if self.streams[&group.streams()[0]].axis == axis {
                    let chosen = choices.iter_mut().filter(|position| **position != NONE);
                    chosen.for_each(|position| *position = position.saturating_sub(rows as u32));
                }
            }
        }
        for (steps, stage) in self.stages.iter_mut().zip(&plan.stages) {
            for (kept, window) in steps.kept.iter_mut().zip(&stage.windows) {
                if self.streams[&stage.ranges[window.range].stream].axis == axis {
                    kept.forget(rows);
                }
            }
        }
        for (id, track) in self
            .streams
            .iter_mut()
            .filter(|(_, track)| track.axis == axis)
        {
            // An input may have a row that nobody sees yet.
            let len = if *id == root && track.is_input {
                all
            } else {
                track.rows
            };
            for column in &mut track.columns {
                column.forget(len, rows);
            }
            track.rows -= rows;
            let stage = plan.stages.iter().find(|stage| stage.stream == *id);
            for (own, column) in stage.iter().flat_map(|stage| &stage.own) {
                if *own == OwnColumn::Last {
                    track.columns[*column].renumber(track.rows, rows);
                }
            }
        }
        let axis = &mut self.axes[axis];
        axis.times.forget(rows);
        for choices in &mut axis.choices {
            choices.drain(..rows);
        }
    }
}
