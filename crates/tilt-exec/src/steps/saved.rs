//! Runs in steps as bytes: the rows that are read again, and what scans carry.
//!
//! What is kept is told by the query and its plan, so bytes begin with a number that tells plans apart. Scans of windows with a beginning are made anew, from rows that are kept for
//! them anyway.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use tilt_codegen::lir::Sink;
use tilt_data::SnapshotBuffer;
use tilt_ir::StreamId;

use super::{Common, Steps, grown::Grown, reads::Read};
use crate::{
    bytes::{Reader, Writer},
    facts::SeriesFacts,
    plan::{Locate, Pick, Plan, Stage},
    query::{Prepared, fingerprint},
    scan::Kept,
};

/// Raised when the same plan keeps something else.
const FORMAT: u32 = 1;

impl Common {
    /// A number that tells what runs keep: the same on every machine.
    pub(crate) fn layout(&self) -> u64 {
        let Prepared::Loops { plan, .. } = &*self.prepared else {
            return 0;
        };
        let mut text = format!("{FORMAT}");
        for stage in &plan.stages {
            let body = &plan.loops[stage.main];
            let Sink::Store { columns, .. } = &body.sink else {
                unreachable!("the main loop of a stage stores")
            };
            let columns = columns.iter();
            let types = columns.map(|column| (body.ty(column.value), column.valid.is_some()));
            let types: Vec<_> = types.collect();
            let _ = write!(text, " {} {:?} {types:?}", stage.name, stage.domain);
            for window in &stage.windows {
                let _ = write!(text, " {} {:?}", window.what, window.slots);
            }
        }
        fingerprint(&text)
    }
}

impl Steps {
    /// Whether stages carry all that they look back to without a bound, and settle by themselves whatever rows come: which of several events is read, is not always told by them.
    pub(crate) fn carries(&self) -> bool {
        let Prepared::Loops { plan, .. } = &*self.common.prepared else {
            return false;
        };
        let is_settled = |locate: &Locate| match locate {
            Locate::ByTime {
                stream,
                overlap: Pick::Only,
                ..
            } => plan.axes[stream].disjoint,
            _ => true,
        };
        let of_stages = |stage: &Stage| stage.locates.iter().all(is_settled);
        let reads = self.stages.iter().flat_map(|stage| &stage.reads);
        self.common.texts.is_empty()
            && plan.stages.iter().all(of_stages)
            && reads
                .into_iter()
                .all(|(_, read)| !matches!(read, Read::All { .. }))
    }

    pub(crate) fn layout(&self) -> u64 {
        self.common.layout()
    }

    /// Rows that are kept of an input.
    pub(crate) fn rows_of(&self, id: StreamId) -> usize {
        let track = self.streams.get(&id);
        track.map_or(0, |track| self.axes[track.axis].times.all())
    }

    /// Bytes of memory: columns of rows and of stages, and what windows keep of them.
    pub(crate) fn bytes(&self) -> usize {
        let axes = self.axes.iter().map(|axis| {
            let choices = axis.choices.iter().map(Vec::len).sum::<usize>();
            axis.times.bytes() + choices * size_of::<u32>()
        });
        let columns = self.streams.values().flat_map(|track| &track.columns);
        let windows = self.stages.iter().flat_map(|stage| &stage.kept);
        let windows = windows.map(Kept::bytes).sum::<usize>();
        axes.sum::<usize>() + columns.map(Grown::bytes).sum::<usize>() + windows
    }

    /// Writes all that later steps depend on.
    pub(crate) fn save(&mut self, out: &mut Writer) {
        self.forget_all();
        out.number(self.start);
        for axis in &self.axes {
            axis.times.save(out);
            out.count(axis.choices.len());
            for choices in &axis.choices {
                let words: Vec<u64> = choices.iter().map(|row| u64::from(*row)).collect();
                out.words(&words);
            }
        }
        for (id, track) in &self.streams {
            let len = self.len_of(*id);
            out.count(track.rows);
            out.count(len);
            for column in &track.columns {
                column.save(len, out);
            }
        }
        for stage in &mut self.stages {
            out.number(stage.until);
            out.count(stage.kept.len());
            for kept in &mut stage.kept {
                kept.save(out);
            }
        }
    }

    /// A run that goes on where another one was [saved](Self::save) that shared the same; `None` if these bytes are not what it wrote.
    pub(crate) fn restore(
        common: &Arc<Common>,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        like: &BTreeMap<StreamId, SnapshotBuffer>,
        from: &mut Reader,
    ) -> Option<Self> {
        let start = from.number()?;
        let mut steps = Self::new(common, facts, like, (start, start))?;
        for axis in &mut steps.axes {
            axis.times.restore(from)?;
            let choices = from.count()?;
            for _ in 0..choices {
                let rows = from.words()?;
                let rows = rows.into_iter().map(u32::try_from);
                axis.choices.push(rows.collect::<Result<_, _>>().ok()?);
            }
        }
        let ids: Vec<StreamId> = steps.streams.keys().copied().collect();
        for id in ids {
            let all = steps.axes[steps.streams[&id].axis].times.all();
            let track = steps.streams.get_mut(&id)?;
            track.rows = from.count()?;
            let len = from.count()?;
            if track.rows > len || len > all {
                return None;
            }
            for column in &mut track.columns {
                column.restore(len, from)?;
            }
        }
        let Prepared::Loops { plan, .. } = &*common.prepared else {
            return None;
        };
        for (steps, stage) in steps.stages.iter_mut().zip(&plan.stages) {
            steps.until = from.number()?;
            let windows = from.count()?;
            if windows != 0 && windows != stage.windows.len() {
                return None;
            }
            for window in stage.windows.iter().take(windows) {
                steps.kept.push(Kept::restore(window, from)?);
            }
        }
        steps.are_there(plan).then_some(steps)
    }

    /// How many rows of a stream are kept: an input may have one that nobody sees yet.
    fn len_of(&self, id: StreamId) -> usize {
        let track = &self.streams[&id];
        if track.is_input {
            self.axes[track.axis].times.all()
        } else {
            track.rows
        }
    }

    /// Whether what refers to rows refers to rows that are there.
    fn are_there(&self, plan: &Plan) -> bool {
        let of_stage = |(steps, stage): (&super::StageSteps, &Stage)| {
            let windows = steps.kept.iter().zip(&stage.windows);
            windows.into_iter().all(|(kept, window)| {
                let stream = stage.ranges[window.range].stream;
                kept.carried_from() <= self.streams[&stream].rows
            })
        };
        self.stages.iter().zip(&plan.stages).all(of_stage)
    }
}
