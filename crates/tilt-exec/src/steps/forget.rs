//! Rows that nothing reads any more.

use std::sync::Arc;

use super::{Steps, reads::Read};
use crate::{
    cursor::NONE,
    plan::{Domain, Plan},
    query::Prepared,
};

impl Steps {
    /// Forgets rows that nothing reads any more.
    pub(super) fn forget(&mut self) {
        let common = Arc::clone(&self.common);
        let Prepared::Loops { plan, .. } = &*common.prepared else {
            return;
        };
        for axis in 0..self.axes.len() {
            let times = &self.axes[axis].times;
            let known = self.streams.values().filter(|track| track.axis == axis);
            let mut first = known.map(|track| track.rows).min().unwrap_or(0);
            if first < common.room.max(times.all()) / 2 {
                continue;
            }
            let timeline = times.timeline(times.len());
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
                        Read::Time { back, rows, .. } => ended(back).saturating_sub(rows),
                        Read::Last { back, .. } => source.last_event(ended(back)).saturating_sub(1),
                        Read::All { .. } => 0,
                    });
                }
            }
            let first = first / 64 * 64;
            if first < common.room.max(times.all()) / 2 {
                continue;
            }
            self.forget_rows(plan, axis, first);
        }
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
        }
        let axis = &mut self.axes[axis];
        axis.times.forget(rows);
        for choices in &mut axis.choices {
            choices.drain(..rows);
        }
    }
}
