//! Runs in steps: rows arrive, and every stage goes on where it stopped.
//!
//! A piece computes its stages from inputs and their halo. A run in steps computes each row of each stage once: the columns of all streams grow, and so do the scans of their
//! windows, so that a step costs what its new rows cost, however long windows are. A stage computes the rows of which it is known that nothing they read is still
//! to come. What no later row reads is forgotten, now and then.
//!
//! Streams on one timeline, a **line**, have rows of the same numbers, and forget them together.

use std::{collections::BTreeMap, sync::Arc};

use tilt_codegen::lir::{Sink, Ty};
use tilt_data::SnapshotBuffer;
use tilt_interp::Functions;
use tilt_ir::{Program, Span, StreamId};

use crate::{
    code::Code,
    control::{ALL_WORK, Control},
    execute::input_series,
    facts::SeriesFacts,
    pieces::grid,
    plan::{Domain, Plan, Stage},
    query::{Prepared, RunOptions},
    run::{Output, Piece, Shared, StageRun, Trouble, Wanted, lead, series_of},
    scan::Kept,
    series::{Axis, Leaf, Series},
    steps::{grown::Grown, reads::Read, times::Times},
    text::Dictionary,
};

mod grown;
mod reads;
mod times;

#[cfg(test)]
mod tests;

/// Rows are forgotten when they are so many and half of all.
const FORGOTTEN: usize = 1 << 9;

/// A run in steps.
pub(crate) struct Steps {
    prepared: Arc<Prepared>,
    dictionary: Dictionary,
    functions: Functions,
    control: Control,
    start: i64,
    lines: Vec<Line>,
    streams: BTreeMap<StreamId, Track>,
    /// As the plan's stages.
    stages: Vec<StageSteps>,
}

/// A timeline.
struct Line {
    times: Times,
    /// The input or the stage whose rows these are.
    root: StreamId,
}

/// The rows of a stream.
struct Track {
    line: usize,
    /// How many rows are known.
    rows: usize,
    /// Leaves, whether there is a record, and what only the stage itself reads; none if nobody reads them.
    columns: Vec<Grown>,
    /// How many of these are leaves.
    leaves: usize,
    is_record: bool,
    /// Whether rows may have no event.
    nullable: bool,
    /// No row that is still to come starts before this.
    covered: i64,
}

struct StageSteps {
    reads: Vec<(StreamId, Read)>,
    kept: Vec<Kept>,
    /// Every row up to here is computed.
    until: i64,
    /// Whether its rows are kept for other rows.
    is_read: bool,
}

impl Steps {
    /// A run that begins at `start` on inputs of which these facts hold, or `None` if its stages cannot go on where they stopped.
    pub(crate) fn new(
        program: &Program,
        prepared: &Arc<Prepared>,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        inputs: &BTreeMap<StreamId, SnapshotBuffer>,
        run: Span,
        options: &RunOptions,
    ) -> Option<Self> {
        let Prepared::Loops { plan, .. } = &**prepared else {
            return None;
        };
        // Codes of strings are given out before a run begins.
        let mut all_facts = facts.values().chain(plan.stages.iter().map(|stage| &stage.facts));
        if !plan.axes.values().all(|axis| axis.ordered) || all_facts.any(SeriesFacts::has_text) {
            return None;
        }
        let mut steps = Self {
            dictionary: Dictionary::new(program, &[]),
            functions: options.functions.clone(),
            control: Control::new(options),
            start: run.start,
            lines: Vec::new(),
            streams: BTreeMap::new(),
            stages: Vec::new(),
            prepared: Arc::clone(prepared),
        };
        for (id, buffer) in inputs {
            let facts = &facts[id];
            let regular = facts.axis.regular.is_some();
            steps.lines.push(Line {
                times: Times::like(buffer.timeline(), regular),
                root: *id,
            });
            let leaves = facts.leaves.iter();
            let mut columns: Vec<Grown> = leaves
                .map(|leaf| Grown::new(leaf.ty, leaf.nullable, 0))
                .collect();
            if facts.nullable {
                columns.push(Grown::new(Ty::Bool, false, 0));
            }
            steps.streams.insert(
                *id,
                Track {
                    line: steps.lines.len() - 1,
                    rows: 0,
                    leaves: facts.leaves.len(),
                    columns,
                    is_record: true,
                    nullable: facts.nullable,
                    covered: i64::MIN,
                },
            );
        }
        for (number, stage) in plan.stages.iter().enumerate() {
            steps.add_stage(plan, number, stage, run)?;
        }
        Some(steps)
    }

    fn add_stage(&mut self, plan: &Plan, number: usize, stage: &Stage, run: Span) -> Option<()> {
        let line = match stage.domain {
            Domain::On(stream) => self.streams[&stream].line,
            Domain::Grid { period, offset } => {
                let start = run.start.checked_sub(plan.slack?)?;
                let first = grid(period, offset, Span::new(start, start.checked_add(period)?));
                self.lines.push(Line {
                    times: Times::cells(first.end(0), period),
                    root: stage.stream,
                });
                self.lines.len() - 1
            }
            _ => return None,
        };
        let is_output = number + 1 == plan.stages.len();
        let body = &plan.loops[stage.main];
        let Sink::Store { columns, .. } = &body.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let is_read = !is_output || !stage.own.is_empty();
        let columns = columns
            .iter()
            .filter(|_| is_read)
            .map(|column| Grown::new(body.ty(column.value), column.valid.is_some(), lead(stage)));
        self.streams.insert(
            stage.stream,
            Track {
                line,
                rows: 0,
                columns: columns.collect(),
                leaves: stage.facts.leaves.len(),
                is_record: stage.facts.is_record(),
                nullable: stage.facts.nullable,
                covered: i64::MIN,
            },
        );
        self.stages.push(StageSteps {
            reads: reads::reads(plan, stage)?,
            kept: Vec::new(),
            until: i64::MIN,
            is_read,
        });
        Some(())
    }

    /// Takes rows of an input, all of them events or gaps that the plan knows of. False if they are not what the plan was made for.
    pub(crate) fn push(&mut self, program: &Program, id: StreamId, rows: &SnapshotBuffer) -> bool {
        let Some(track) = self.streams.get_mut(&id) else {
            return true;
        };
        let times = &mut self.lines[track.line].times;
        if times.is_replaced_by(rows.timeline()) {
            times.take_back();
            track.rows -= 1;
        }
        let series = input_series(program, id, rows, &self.dictionary);
        let columns = track.columns.iter().take(track.leaves);
        let has_nulls = |(column, leaf): (&Grown, &Leaf)| leaf.valid.is_some() && !column.is_nullable();
        let missing = series.present.is_some() && !track.nullable;
        if missing
            || columns.zip(&series.leaves).any(has_nulls)
            || !times.fits(rows.timeline())
        {
            return false;
        }
        let len = times.all();
        for (column, leaf) in track.columns.iter_mut().zip(&series.leaves) {
            column.append(len, leaf);
        }
        if track.nullable
            && let Some(column) = track.columns.last_mut()
        {
            let all = || arrow_buffer::BooleanBuffer::new_set(rows.len());
            column.append_present(len, &series.present.unwrap_or_else(all));
        }
        times.append(rows.timeline());
        track.rows = times.all();
        true
    }

    /// Computes what can be told when inputs have come so far, of a run whose events so far end by `end`. If it is `last` the run ends there, and everything
    /// can be told.
    pub(crate) fn step(
        &mut self,
        covered: &BTreeMap<StreamId, i64>,
        end: i64,
        last: bool,
    ) -> Result<Series, Trouble> {
        let prepared = Arc::clone(&self.prepared);
        let Prepared::Loops { plan, code } = &*prepared else {
            return Err(Trouble("a plan that is interpreted"));
        };
        let mut series = BTreeMap::new();
        let mut axes: Vec<Option<Arc<Axis>>> = vec![None; self.lines.len()];
        for (id, covered) in covered {
            let Some(track) = self.streams.get_mut(id) else {
                continue;
            };
            let times = &mut self.lines[track.line].times;
            if last {
                times.close(end);
            }
            track.rows = times.len();
            track.covered = if last { i64::MAX } else { (*covered).min(end) };
            let axis = Arc::new(Axis::new(times.timeline(track.rows), Vec::new()));
            axes[track.line] = Some(Arc::clone(&axis));
            series.insert(*id, track.series(axis));
        }
        let mut output = None;
        for (number, stage) in plan.stages.iter().enumerate() {
            let computed = self.stage((plan, code), number, stage, &series, &mut axes, (end, last))?;
            match computed {
                Computed::Kept(kept) => {
                    series.insert(stage.stream, kept);
                }
                Computed::Output(rows) => output = Some(rows),
            }
        }
        drop(series);
        drop(axes);
        if !last {
            self.forget();
        }
        output.ok_or(Trouble("a plan without stages"))
    }

    /// Computes the rows of a stage that can be told.
    fn stage(
        &mut self,
        (plan, code): (&Plan, &Code),
        number: usize,
        stage: &Stage,
        series: &BTreeMap<StreamId, Series>,
        axes: &mut [Option<Arc<Axis>>],
        (end, last): (i64, bool),
    ) -> Result<Computed, Trouble> {
        let is_output = number + 1 == plan.stages.len();
        let line = self.streams[&stage.stream].line;
        // The latest instant at which nothing is read that is still to come, and the rows that others have.
        let (mut until, mut most) = (if last { i64::MAX } else { end }, usize::MAX);
        for (stream, read) in &self.stages[number].reads {
            if *stream == stage.stream {
                continue;
            }
            let source = &self.streams[stream];
            match *read {
                Read::Rows { ahead, .. } if last && ahead > 0 => {}
                Read::Rows { ahead, .. } => most = most.min(source.rows.saturating_sub(ahead)),
                _ if last => {}
                Read::Time { ahead, .. } | Read::Held { ahead } | Read::All { ahead } => {
                    until = until.min(source.covered.saturating_sub(ahead));
                }
            }
        }
        let is_grid = self.lines[line].root == stage.stream;
        if is_grid {
            let slack = if last { plan.slack.unwrap_or(0) } else { 0 };
            let to = if last { end.saturating_add(slack) } else { until };
            self.lines[line].times.extend_to(to);
            let len = self.lines[line].times.len();
            let timeline = self.lines[line].times.timeline(len);
            axes[line] = Some(Arc::new(Axis::new(timeline, Vec::new())));
        }
        let axis = axes[line].as_ref().expect("the root of a line comes first");
        let axis = Arc::clone(axis);
        let first = self.streams[&stage.stream].rows;
        let rows = axis.timeline.ends_until(until).min(most).max(first);
        let run = Span::new(self.start, end);
        let piece = Piece {
            plan,
            code,
            run,
            scope: run,
            wanted: Wanted::Time(run),
            texts: &self.dictionary.codes,
            words: &self.dictionary.words,
            functions: &self.functions,
            control: &self.control,
            work: ALL_WORK,
            carried: None,
            open: !last,
        };
        let steps = &mut self.stages[number];
        let new = rows - first;
        let track = self.streams.get_mut(&stage.stream).expect("a stream for every stage");
        let body = &plan.loops[stage.main];
        let Sink::Store { columns, .. } = &body.sink else {
            unreachable!("the main loop of a stage stores")
        };
        steps.until = steps.until.max(until);
        track.rows = rows;
        let times = &self.lines[line].times;
        let start = times.start(rows).filter(|_| rows < times.all() || is_grid);
        let root = self.lines[line].root;
        if !steps.is_read {
            let written: Vec<Shared> = columns
                .iter()
                .map(|c| Shared::new(body.ty(c.value), c.valid.is_some(), new))
                .collect();
            let targets = written.iter().map(|column| Output::from(column, 0)).collect();
            if new > 0 {
                StageRun::go_on(&piece, stage, &axis, series, first..rows, targets, &mut steps.kept)?;
            }
            let timeline = axis.timeline.slice(first, new).detached();
            let axis = Arc::new(Axis::new(timeline, Vec::new()));
            return Ok(Computed::Output(series_of(stage, axis, written, new, 0)));
        }
        for column in &mut track.columns {
            column.reserve(first, new);
        }
        if new > 0 {
            let bits: Vec<grown::Bits> = track.columns.iter().map(|c| c.bits(new)).collect();
            let columns = track.columns.iter().zip(&bits);
            let targets = columns.map(|(column, bits)| column.output(first, bits)).collect();
            StageRun::go_on(&piece, stage, &axis, series, first..rows, targets, &mut steps.kept)?;
            for (column, bits) in track.columns.iter_mut().zip(bits) {
                column.append_written(first, new, bits);
            }
        }
        let covered = if root == stage.stream { i64::MAX } else { self.streams[&root].covered };
        let track = self.streams.get_mut(&stage.stream).expect("a stream for every stage");
        track.covered = if last { i64::MAX } else { covered.min(start.unwrap_or(i64::MAX)) };
        let axis = if rows == axis.len() {
            axis
        } else {
            Arc::new(Axis::new(axis.timeline.slice(0, rows), Vec::new()))
        };
        let kept = track.series(Arc::clone(&axis));
        if is_output {
            return Ok(Computed::Output(owned(&kept, first)));
        }
        Ok(Computed::Kept(kept))
    }

    /// Forgets rows that nothing reads any more.
    fn forget(&mut self) {
        for line in 0..self.lines.len() {
            let times = &self.lines[line].times;
            let known = self.streams.values().filter(|track| track.line == line);
            let mut first = known.map(|track| track.rows).min().unwrap_or(0);
            if first < FORGOTTEN.max(times.all() / 2) {
                continue;
            }
            let timeline = times.timeline(times.len());
            for (number, stage) in self.stages.iter().enumerate() {
                let Prepared::Loops { plan, .. } = &*self.prepared else {
                    continue;
                };
                let rows = self.streams[&plan.stages[number].stream].rows;
                for (stream, read) in &stage.reads {
                    let source = &self.streams[stream];
                    if source.line != line {
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
                        Read::Held { ahead } => source.last_event(ended(ahead.saturating_neg())),
                        Read::All { .. } => 0,
                    });
                }
            }
            let first = first / 64 * 64;
            if first < FORGOTTEN.max(times.all() / 2) {
                continue;
            }
            self.forget_rows(line, first);
        }
    }

    fn forget_rows(&mut self, line: usize, rows: usize) {
        let all = self.lines[line].times.all();
        let is_input = |id: &StreamId, lines: &[Line]| lines[line].root == *id;
        let Prepared::Loops { plan, .. } = &*self.prepared else {
            return;
        };
        for (steps, stage) in self.stages.iter_mut().zip(&plan.stages) {
            for (kept, window) in steps.kept.iter_mut().zip(&stage.windows) {
                if self.streams[&stage.ranges[window.range].stream].line == line {
                    kept.forget(rows);
                }
            }
        }
        for (id, track) in self.streams.iter_mut().filter(|(_, track)| track.line == line) {
            let len = if is_input(id, &self.lines) { all } else { track.rows };
            for column in &mut track.columns {
                column.forget(len, rows);
            }
            track.rows -= rows;
        }
        self.lines[line].times.forget(rows);
    }
}

enum Computed {
    /// The rows of a stream that others read, all that are kept.
    Kept(Series),
    /// New rows of the output.
    Output(Series),
}

impl Track {
    /// The rows that are known.
    fn series(&self, axis: Arc<Axis>) -> Series {
        let leaves: Vec<Leaf> = self.columns[..self.leaves.min(self.columns.len())]
            .iter()
            .map(|column| column.leaf(self.rows))
            .collect();
        let present = if !self.nullable {
            None
        } else if self.is_record {
            let present = self.columns.get(self.leaves);
            present.and_then(|column| column.leaf(self.rows).bits().cloned())
        } else {
            leaves.first().and_then(|leaf| leaf.valid.clone())
        };
        Series {
            axis,
            leaves,
            present,
        }
    }

    /// The last of the first rows that is an event.
    fn last_event(&self, rows: usize) -> usize {
        let rows = rows.min(self.rows);
        let present = self.nullable.then(|| {
            let column = if self.is_record { self.leaves } else { 0 };
            let leaf = self.columns[column].leaf(rows);
            if self.is_record {
                leaf.bits().cloned()
            } else {
                leaf.valid
            }
        });
        match present.flatten() {
            Some(bits) => (0..rows).rev().find(|row| bits.value(*row)).unwrap_or(0),
            None => rows.saturating_sub(1),
        }
    }
}

/// The rows of a series from `first` on, in memory of their own.
fn owned(series: &Series, first: usize) -> Series {
    let rows = series.axis.len() - first;
    let timeline = series.axis.timeline.slice(first, rows).detached();
    Series {
        axis: Arc::new(Axis::new(timeline, Vec::new())),
        leaves: series
            .leaves
            .iter()
            .map(|leaf| leaf.slice(first, rows).detached())
            .collect(),
        present: series
            .present
            .as_ref()
            .map(|bits| bits.iter().skip(first).collect()),
    }
}
