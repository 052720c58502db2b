//! Runs stage by stage: where pieces would overlap too much, or have no end to what they look back to.
//!
//! A piece computes all stages from a slice of the inputs, and what two pieces both need is computed twice. Where that is much, or everything, stages are computed one
//! after the other instead, each over the whole timeline, in **stretches** of rows. What windows have gathered where each stretch begins is found in one parallel pass
//! (`scan/begin.rs`); then stretches are computed side by side, into one column.
//!
//! What a stage has computed is as long as the run. It is kept until the last stage that reads it is over, then its memory is another stage's: beside the output there are
//! as many results at once as are still read, however many stages there are.

use std::{ops::Range, sync::Arc, time::Instant};

use rayon::prelude::*;
use tilt_codegen::lir::{Lanes, Sink};
use tilt_ir::Span;

use crate::{
    control::share,
    merge::Merged,
    pieces::{ALIGNED, Job, STREAMED, pool},
    plan::{Domain, Plan, Stage, last_read},
    run::{self, AllSeries, Output, Piece, Shared, StageRun, Trouble, Wanted, series_of},
    scan::{Begin, Done, Kept, Task},
    series::{Axis, Series},
    stats,
    window::Algorithm,
};

/// Stretches of a stage for each thread: enough for threads to finish together.
const STRETCHES: usize = 4;
/// Rows of a stretch at least: what it does before its first row must not count.
const ROWS: usize = 1 << 14;

/// Whether stages can be computed in stretches: none reads its own past.
pub(crate) fn is_stagewise(plan: &Plan) -> bool {
    let recurs = |stage: &Stage| plan.loops[stage.main].lanes == Lanes::One;
    !plan.stages.iter().any(recurs)
}

/// Whether a window keeps something that only the rows before tell.
pub(crate) fn is_sequential(stage: &Stage) -> bool {
    let by_rows = |algorithm: Algorithm| matches!(algorithm, Algorithm::Rows { .. });
    stage.windows.iter().any(|w| by_rows(w.algorithm))
}

impl Job<'_> {
    /// The output, stage by stage.
    pub(crate) fn stagewise(&self) -> Result<Series, Trouble> {
        let mut series = self.series.clone();
        let last = self.plan.stages.len() - 1;
        let over = last_read(&self.plan.stages);
        for (number, stage) in self.plan.stages.iter().enumerate() {
            let begun = self.control.stats().map(|_| Instant::now());
            let piece = self.new_piece(0, Wanted::Time(self.part));
            let axis = self.axis(&piece, stage, &series);
            self.control.check()?;
            let rows = if number == last {
                let ends = |t| axis.timeline.ends_until(t);
                ends(self.part.start)..ends(self.part.end)
            } else {
                0..axis.len()
            };
            let columns = self.compute(stage, &axis, &series, &rows, number == last)?;
            if let (Some(stats), Some(begun)) = (self.control.stats(), begun) {
                let read = stats::bytes_read(stage, &series);
                let bits = stats::row_bits(&self.plan.loops[stage.main]);
                let stretches = rows.len().div_ceil(self.stretch(stage, rows.len()));
                stats.stage(number, stretches, rows.len(), read, bits, begun.elapsed());
            }
            let axis = if rows == (0..axis.len()) {
                axis
            } else {
                let timeline = axis.timeline.slice(rows.start, rows.len());
                Arc::new(Axis::new(timeline, Vec::new()))
            };
            let computed = series_of(stage, axis, columns, rows.len(), 0);
            series.insert(stage.stream, computed);
            for stream in &over[number] {
                series.remove(stream);
            }
        }
        let output = self.plan.stages[last].stream;
        series
            .remove(&output)
            .ok_or(Trouble("a plan without stages"))
    }

    /// The rows of a stage; the events of a merge are found part by part.
    fn axis(&self, piece: &Piece, stage: &Stage, series: &AllSeries) -> Arc<Axis> {
        let Domain::Merge {
            groups,
            required,
            twin: None,
        } = &stage.domain
        else {
            return piece.axis(stage, series);
        };
        let rows = self.asked_rows().unwrap_or(ROWS);
        let parts = self.cut_by_rows(Span::new(i64::MIN, i64::MAX), rows);
        if self.threads == 1 || parts.len() < 2 {
            return piece.axis(stage, series);
        }
        let events = |part: &Span| piece.merged(groups, required, series, Some(*part));
        let parts: Vec<Merged> =
            pool(self.threads).install(|| parts.par_iter().map(events).collect());
        let mut all = Merged::spare(groups.len());
        for part in &parts {
            all.append(part);
        }
        all.into_axis()
    }

    /// The columns of a stage.
    fn compute(
        &self,
        stage: &Stage,
        axis: &Axis,
        series: &AllSeries,
        rows: &Range<usize>,
        is_output: bool,
    ) -> Result<Vec<Shared>, Trouble> {
        let main = &self.plan.loops[stage.main];
        let Sink::Store { columns, .. } = &main.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let columns: Vec<Shared> = columns
            .iter()
            .map(|c| Shared::new(main.ty(c.value), c.valid.is_some(), rows.len()))
            .collect();
        let bytes: usize = columns.iter().map(|c| c.values.len()).sum();
        let streaming = stage.streaming.filter(|_| is_output && bytes >= STREAMED);
        let whole = self.new_piece(0, Wanted::Time(self.part));
        let seen = run::events_only(&whole, stage, series, run::Seen::new())?;
        let size = self.stretch(stage, rows.len());
        let starts: Vec<usize> = rows.clone().step_by(size).collect();
        let begin = if starts.len() > 1 {
            let run = || StageRun::stretch(&whole, stage, axis, series, &seen);
            self.begin(run().begin(rows, &starts), |window, task, lent| {
                run().pass(window, task, lent)
            })?
        } else {
            Vec::new()
        };
        let stretch = |(number, start): (usize, &usize)| {
            let of_stretch = *start..rows.end.min(start + size);
            let work = share(self.work, of_stretch.len(), rows.len());
            let piece = self.new_piece(work, Wanted::Time(self.part));
            if let Some(stats) = self.control.stats() {
                stats.piece();
            }
            let at = start - rows.start;
            let targets = columns.iter().map(|c| Output::from(c, at)).collect();
            let kept = begin.iter().map(|window| window.kept(number)).collect();
            StageRun::stretch(&piece, stage, axis, series, &seen).compute_into(
                streaming.unwrap_or(stage.main),
                of_stretch,
                targets,
                kept,
            )
        };
        if self.threads > 1 && starts.len() > 1 {
            let stretches = starts.par_iter().enumerate();
            pool(self.threads).install(|| stretches.try_for_each(stretch))?;
        } else {
            starts.iter().enumerate().try_for_each(stretch)?;
        }
        Ok(columns)
    }

    /// What all windows begin with, when all that has to be done for it is done.
    fn begin(
        &self,
        mut windows: Vec<Begin>,
        pass: impl Fn(usize, &Task, Option<Kept>) -> Done + Sync,
    ) -> Result<Vec<Begin>, Trouble> {
        loop {
            let tasks: Vec<Vec<Task>> = windows.iter_mut().map(Begin::tasks).collect();
            let of_windows = tasks.iter().enumerate();
            let all: Vec<(usize, &Task)> = of_windows
                .flat_map(|(window, tasks)| tasks.iter().map(move |task| (window, task)))
                .collect();
            if all.is_empty() {
                return Ok(windows);
            }
            let pass = |(window, task): (usize, &Task)| {
                let done = pass(window, task, windows[window].lent());
                self.control.check().map(|()| done)
            };
            let done: Result<Vec<Done>, Trouble> = if self.threads > 1 {
                pool(self.threads).install(|| all.into_par_iter().map(pass).collect())
            } else {
                all.into_iter().map(pass).collect()
            };
            let mut done = done?.into_iter();
            for (window, tasks) in windows.iter_mut().zip(&tasks) {
                if !tasks.is_empty() {
                    let done: Vec<_> = done.by_ref().take(tasks.len()).collect();
                    window.done(tasks, &done);
                }
            }
        }
    }

    /// How many rows of a stage are computed together.
    fn stretch(&self, stage: &Stage, rows: usize) -> usize {
        if is_sequential(stage) {
            return rows.max(1);
        }
        match self.asked_rows() {
            Some(asked) => asked.next_multiple_of(8),
            None if self.threads == 1 => rows.max(1),
            None => {
                // These begin with all of the first row's window.
                let mut windows = stage.windows.iter();
                let doubles = windows.any(|w| matches!(w.algorithm, Algorithm::Doubling(_)));
                let stretches = if doubles { 1 } else { STRETCHES };
                rows.div_ceil(self.threads * stretches)
                    .max(ROWS)
                    .next_multiple_of(ALIGNED)
            }
        }
    }
}
