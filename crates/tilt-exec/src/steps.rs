//! Runs in steps: rows arrive, and every stage goes on where it stopped.
//!
//! A piece computes its stages from inputs and their halo. A run in steps computes each row of each stage once: the columns of all streams grow, and so do the scans of their
//! windows, so that a step costs what its new rows cost, however long windows are. A stage computes the rows of which it is known that nothing they read is still
//! to come. What no later row reads is forgotten, now and then.
//!
//! Streams on one timeline, a **line**, have rows of the same numbers, and forget them together.

use std::{collections::BTreeMap, sync::Arc};

use tilt_codegen::lir::Sink;
use tilt_data::SnapshotBuffer;
use tilt_interp::Functions;
use tilt_ir::{Program, Span, StreamId};

use crate::{
    code::Code,
    control::{ALL_WORK, Control},
    cursor::NONE,
    execute::{assemble_rows, input_series},
    facts::SeriesFacts,
    merge::Merged,
    pieces::{grid, slice},
    plan::{Domain, GroupPlan, Plan, Stage},
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
    /// Whether the last row can be seen before its end is known. Windows tell rows by their ends.
    shows_open: bool,
    /// What a merge chose, for each of its groups.
    choices: Vec<Vec<u32>>,
}

impl Line {
    fn new(times: Times, root: StreamId) -> Self {
        Self {
            times,
            root,
            shows_open: true,
            choices: Vec::new(),
        }
    }

    /// All rows. What a merge chose is lent to the axis, and [taken back](Self::take_back) when nobody has it any more.
    fn axis(&mut self) -> Arc<Axis> {
        let timeline = self.times.timeline(self.times.len());
        Arc::new(Axis::new(timeline, std::mem::take(&mut self.choices)))
    }

    fn take_back(&mut self, axis: Option<Arc<Axis>>) {
        let mut axis = axis;
        if let Some(axis) = axis.as_mut().and_then(Arc::get_mut) {
            self.choices = std::mem::take(&mut axis.choices);
        }
    }

    /// Appends the events of a merge.
    fn append(&mut self, merged: &Merged) {
        self.times.append_intervals(&merged.starts, &merged.ends);
        self.choices.resize_with(merged.choices.len(), Vec::new);
        for (all, new) in self.choices.iter_mut().zip(&merged.choices) {
            all.extend(new);
        }
    }
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
    is_input: bool,
    /// Whether rows may have no event; those of inputs are all events.
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

/// How far an input has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// No row that is still to come starts before this, as far as rows tell.
    pub(crate) covered: i64,
    /// Nor before this, as was promised.
    pub(crate) promised: i64,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// The run lasts at least to here.
    pub(crate) end: i64,
    /// Up to here nothing depends on where it ends.
    pub(crate) certain: i64,
    /// Whether it ends there, and everything can be told.
    pub(crate) last: bool,
}

impl Steps {
    /// A run that begins at `start` on inputs of which these facts hold, or `None` if its stages cannot go on where they stopped.
    pub(crate) fn new(
        program: &Program,
        prepared: &Arc<Prepared>,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        inputs: &BTreeMap<StreamId, SnapshotBuffer>,
        start: i64,
        options: &RunOptions,
    ) -> Option<Self> {
        let Prepared::Loops { plan, .. } = &**prepared else {
            return None;
        };
        // Codes of strings are given out before a run begins.
        let mut all_facts = facts
            .values()
            .chain(plan.stages.iter().map(|stage| &stage.facts));
        if !plan.axes.values().all(|axis| axis.ordered) || all_facts.any(SeriesFacts::has_text) {
            return None;
        }
        let mut steps = Self {
            dictionary: Dictionary::new(program, &[]),
            functions: options.functions.clone(),
            control: Control::new(options),
            start,
            lines: Vec::new(),
            streams: BTreeMap::new(),
            stages: Vec::new(),
            prepared: Arc::clone(prepared),
        };
        for (id, buffer) in inputs {
            let facts = &facts[id];
            let times = Times::like(buffer.timeline(), facts.axis.regular.map(|r| r.period));
            steps.lines.push(Line::new(times, *id));
            let leaves = facts.leaves.iter();
            let columns = leaves.map(|leaf| Grown::new(leaf.ty, leaf.nullable, 0));
            steps.streams.insert(
                *id,
                Track {
                    line: steps.lines.len() - 1,
                    rows: 0,
                    columns: columns.collect(),
                    leaves: facts.leaves.len(),
                    is_record: facts.is_record(),
                    is_input: true,
                    nullable: false,
                    covered: i64::MIN,
                },
            );
        }
        for (number, stage) in plan.stages.iter().enumerate() {
            steps.add_stage(plan, number, stage)?;
            for range in &stage.ranges {
                let line = steps.streams[&range.stream].line;
                steps.lines[line].shows_open = false;
            }
        }
        Some(steps)
    }

    fn add_stage(&mut self, plan: &Plan, number: usize, stage: &Stage) -> Option<()> {
        let line = match stage.domain {
            Domain::On(stream) => self.streams[&stream].line,
            Domain::Grid { period, offset } => {
                let start = self.start.checked_sub(plan.slack?)?;
                let first = grid(period, offset, Span::new(start, start.checked_add(period)?));
                let times = Times::cells(first.end(0), period);
                self.lines.push(Line::new(times, stage.stream));
                self.lines.len() - 1
            }
            Domain::Merge {
                twin: Some(twin), ..
            } => self.streams[&twin].line,
            Domain::Merge { .. } => {
                self.lines.push(Line::new(Times::intervals(), stage.stream));
                self.lines.len() - 1
            }
            Domain::Calendar(_) | Domain::Sessions { .. } => return None,
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
                is_input: false,
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

    /// Takes rows of an input, all of them events. False if they are not what the plan was made for.
    pub(crate) fn push(&mut self, program: &Program, id: StreamId, rows: &SnapshotBuffer) -> bool {
        let Some(track) = self.streams.get_mut(&id) else {
            return true;
        };
        let times = &mut self.lines[track.line].times;
        if times.is_replaced_by(rows.timeline()) {
            times.drop_last();
            track.rows -= 1;
        }
        let series = input_series(program, id, rows, &self.dictionary);
        let columns = track.columns.iter().take(track.leaves);
        let has_nulls =
            |(column, leaf): (&Grown, &Leaf)| leaf.valid.is_some() && !column.is_nullable();
        if columns.zip(&series.leaves).any(has_nulls) || !times.fits(rows.timeline()) {
            return false;
        }
        let len = times.all();
        for (column, leaf) in track.columns.iter_mut().zip(&series.leaves) {
            column.append(len, leaf);
        }
        times.append(rows.timeline());
        track.rows = times.all();
        true
    }

    /// All output up to here was told.
    pub(crate) fn until(&self) -> i64 {
        self.stages.last().map_or(i64::MIN, |stage| stage.until)
    }

    /// Rows of the output as a buffer.
    pub(crate) fn assemble(
        &self,
        program: &Program,
        series: &Series,
    ) -> tilt_data::Result<SnapshotBuffer> {
        assemble_rows(program, program.output, series, &self.dictionary)
    }

    /// Computes what can be told when inputs and the run have come so far.
    pub(crate) fn step(
        &mut self,
        arrived: &BTreeMap<StreamId, Arrived>,
        reached: Reached,
    ) -> Result<Series, Trouble> {
        let Reached { end, certain, last } = reached;
        let prepared = Arc::clone(&self.prepared);
        let Prepared::Loops { plan, code } = &*prepared else {
            return Err(Trouble("a plan that is interpreted"));
        };
        let mut series = BTreeMap::new();
        let mut axes: Vec<Option<Arc<Axis>>> = vec![None; self.lines.len()];
        for (id, arrived) in arrived {
            let Some(track) = self.streams.get_mut(id) else {
                continue;
            };
            let line = &mut self.lines[track.line];
            if last {
                line.times.close(end);
            }
            let covered = line.times.covered(*arrived, line.shows_open);
            track.rows = line.times.len();
            track.covered = if last { i64::MAX } else { covered.min(certain) };
            let axis = self.lines[track.line].axis();
            axes[track.line] = Some(Arc::clone(&axis));
            series.insert(*id, track.series(axis));
        }
        let mut output = None;
        for (number, stage) in plan.stages.iter().enumerate() {
            let computed = self.stage((plan, code), number, stage, &series, &mut axes, reached)?;
            match computed {
                Computed::Kept(kept) => {
                    series.insert(stage.stream, kept);
                }
                Computed::Output(rows) => output = Some(rows),
            }
        }
        drop(series);
        for (line, axis) in self.lines.iter_mut().zip(axes) {
            line.take_back(axis);
        }
        if !last {
            self.forget();
        }
        output.ok_or(Trouble("a plan without stages"))
    }

    /// The latest instant at which a stage reads nothing that is still to come, and how many rows others have that it reads by number.
    fn limits(&self, number: usize, stage: &Stage, reached: Reached) -> (i64, usize) {
        let Reached { certain, last, .. } = reached;
        let (mut until, mut most) = (if last { i64::MAX } else { certain }, usize::MAX);
        let others = |(stream, _): &&(StreamId, Read)| *stream != stage.stream;
        for (stream, read) in self.stages[number].reads.iter().filter(others) {
            let source = &self.streams[stream];
            match *read {
                Read::Rows { ahead, .. } if last && ahead > 0 => {}
                Read::Rows { ahead, .. } => most = most.min(source.rows.saturating_sub(ahead)),
                _ if last => {}
                Read::Time { ahead, .. } | Read::Last { ahead, .. } | Read::All { ahead } => {
                    until = until.min(source.covered.saturating_sub(ahead));
                }
            }
        }
        (until, most)
    }

    /// Computes the rows of a stage that can be told.
    fn stage(
        &mut self,
        (plan, code): (&Plan, &Code),
        number: usize,
        stage: &Stage,
        series: &BTreeMap<StreamId, Series>,
        axes: &mut [Option<Arc<Axis>>],
        reached: Reached,
    ) -> Result<Computed, Trouble> {
        let Reached { end, certain, last } = reached;
        let (mut until, most) = self.limits(number, stage, reached);
        let run = Span::new(self.start, if last { end } else { certain });
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
            age: None,
            open: !last,
        };
        let mut begins = i64::MAX;
        let number_of_line = self.streams[&stage.stream].line;
        let line = &mut self.lines[number_of_line];
        let steps = &mut self.stages[number];
        match &stage.domain {
            Domain::Grid { period, .. } => {
                let slack = plan.slack.unwrap_or(0);
                // A cell exists if the run goes on for longer than where it starts.
                let to = if last {
                    end.saturating_add(slack)
                } else {
                    until.min(end.saturating_add(period - 1))
                };
                until = until.min(to);
                if !line.times.extend_to(to) {
                    return Err(Trouble("more cells than anybody means"));
                }
                axes[number_of_line] = Some(line.axis());
            }
            Domain::Merge {
                groups,
                required,
                twin: None,
            } => {
                let cut = of_one_length(groups, series);
                let series = cut.as_ref().unwrap_or(series);
                if until > steps.until {
                    let within = Some(Span::new(steps.until, until));
                    line.append(&piece.merged(groups, required, series, within));
                }
                // An event that has begun is told when it ends.
                if steps.is_read {
                    let within = Some(Span::new(until, i64::MAX));
                    let begun = piece.merged(groups, required, series, within);
                    begins = begun.starts.into_iter().min().unwrap_or(i64::MAX);
                }
                axes[number_of_line] = Some(line.axis());
            }
            _ => {}
        }
        let axis = axes[number_of_line].as_ref();
        let axis = Arc::clone(axis.expect("the root of a line comes first"));
        // No row that is still to come starts before the rows of the line can, or before the next one that is known.
        let bound = match stage.domain {
            Domain::Merge { twin: None, .. } => until.min(begins),
            Domain::Grid { .. } => i64::MAX,
            _ => self.streams[&line.root].covered,
        };
        // What is told up to an instant is all that ends there.
        if !matches!(stage.domain, Domain::Merge { twin: None, .. }) {
            until = until.min(bound);
        }
        let first = self.streams[&stage.stream].rows;
        let mut rows = axis.timeline.ends_until(until).max(first);
        if most < rows {
            until = axis.timeline.end(most.max(first)) - 1;
            rows = axis.timeline.ends_until(until).max(first);
        }
        let new = rows - first;
        let next = line.times.start(rows).unwrap_or(i64::MAX);
        let covered = if last { i64::MAX } else { bound.min(next) };
        steps.until = steps.until.max(until);
        let track = self.streams.get_mut(&stage.stream);
        let track = track.expect("a stream for every stage");
        (track.rows, track.covered) = (rows, covered);
        let mut go_on = |targets: Vec<Output>| {
            let rows = first..rows;
            StageRun::go_on(&piece, stage, &axis, series, rows, targets, &mut steps.kept)
        };
        if !steps.is_read {
            let body = &plan.loops[stage.main];
            let Sink::Store { columns, .. } = &body.sink else {
                unreachable!("the main loop of a stage stores")
            };
            let written: Vec<Shared> = columns
                .iter()
                .map(|c| Shared::new(body.ty(c.value), c.valid.is_some(), new))
                .collect();
            if new > 0 {
                go_on(
                    written
                        .iter()
                        .map(|column| Output::from(column, 0))
                        .collect(),
                )?;
            }
            let timeline = axis.timeline.slice(first, new).detached();
            let axis = Arc::new(Axis::new(timeline, Vec::new()));
            return Ok(Computed::Output(series_of(stage, axis, written, new, 0)));
        }
        if new > 0 {
            for column in &mut track.columns {
                column.reserve(first, new);
            }
            let bits: Vec<grown::Bits> = track.columns.iter().map(|c| c.bits(new)).collect();
            let columns = track.columns.iter().zip(&bits);
            let targets = columns.map(|(column, bits)| column.output(first, bits));
            go_on(targets.collect())?;
            for (column, bits) in track.columns.iter_mut().zip(bits) {
                column.append_written(first, new, bits);
            }
        }
        let axis = if rows == axis.len() {
            axis
        } else {
            Arc::new(Axis::new(axis.timeline.slice(0, rows), Vec::new()))
        };
        let kept = track.series(axis);
        if number + 1 == plan.stages.len() {
            return Ok(Computed::Output(owned(&kept, first)));
        }
        Ok(Computed::Kept(kept))
    }

    /// Forgets rows that nothing reads any more.
    fn forget(&mut self) {
        let prepared = Arc::clone(&self.prepared);
        let Prepared::Loops { plan, .. } = &*prepared else {
            return;
        };
        for line in 0..self.lines.len() {
            let times = &self.lines[line].times;
            let known = self.streams.values().filter(|track| track.line == line);
            let mut first = known.map(|track| track.rows).min().unwrap_or(0);
            if first < FORGOTTEN.max(times.all() / 2) {
                continue;
            }
            let timeline = times.timeline(times.len());
            for (number, stage) in self.stages.iter().enumerate() {
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
                        Read::Last { back, .. } => source.last_event(ended(back)).saturating_sub(1),
                        Read::All { .. } => 0,
                    });
                }
            }
            let first = first / 64 * 64;
            if first < FORGOTTEN.max(times.all() / 2) {
                continue;
            }
            self.forget_rows(plan, line, first);
        }
    }

    fn forget_rows(&mut self, plan: &Plan, line: usize, rows: usize) {
        let all = self.lines[line].times.all();
        let root = self.lines[line].root;
        for stage in &plan.stages {
            let Domain::Merge {
                groups, twin: None, ..
            } = &stage.domain
            else {
                continue;
            };
            let choices = &mut self.lines[self.streams[&stage.stream].line].choices;
            for (choices, group) in choices.iter_mut().zip(groups) {
                if self.streams[&group.streams()[0]].line == line {
                    let chosen = choices.iter_mut().filter(|position| **position != NONE);
                    chosen.for_each(|position| *position = position.saturating_sub(rows as u32));
                }
            }
        }
        for (steps, stage) in self.stages.iter_mut().zip(&plan.stages) {
            for (kept, window) in steps.kept.iter_mut().zip(&stage.windows) {
                if self.streams[&stage.ranges[window.range].stream].line == line {
                    kept.forget(rows);
                }
            }
        }
        for (id, track) in self
            .streams
            .iter_mut()
            .filter(|(_, track)| track.line == line)
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
        let line = &mut self.lines[line];
        line.times.forget(rows);
        for choices in &mut line.choices {
            choices.drain(..rows);
        }
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

/// The series, those of a group cut to as many rows as all of them have; `None` if they have as many.
fn of_one_length(
    groups: &[GroupPlan],
    series: &BTreeMap<StreamId, Series>,
) -> Option<BTreeMap<StreamId, Series>> {
    let mut cut: Option<BTreeMap<StreamId, Series>> = None;
    for group in groups {
        let lengths = group
            .streams()
            .iter()
            .map(|stream| series[stream].axis.len());
        let least = lengths.clone().min().unwrap_or(0);
        if lengths.max() > Some(least) {
            let cut = cut.get_or_insert_with(|| series.clone());
            for stream in group.streams() {
                cut.insert(*stream, slice(&series[stream], &(0..least)));
            }
        }
    }
    cut
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
