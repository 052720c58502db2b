//! Runs in steps: rows arrive, and every stage goes on where it stopped.
//!
//! A piece computes its stages from inputs and their halo. A run in steps computes each row of each stage once: the columns of all streams grow, and so do the scans of their
//! windows, so that a step costs what its new rows cost, however long windows are. A stage computes the rows of which it is known that nothing they read is still
//! to come. What no later row reads is forgotten, now and then.
//!
//! | module | subject |
//! |---|---|
//! | [`axis`], [`times`] | timelines that grow |
//! | [`track`], [`grown`] | streams on them, and their columns |
//! | [`reads`] | what a row reads, so when it can be computed |
//! | [`forget`] | rows that nothing reads any more |
//! | [`saved`] | all of it as bytes |

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use tilt_codegen::lir::{Sink, Ty};
use tilt_data::{SnapshotBuffer, Spans, Timeline};
use tilt_interp::Functions;
use tilt_ir::{DType, Program, Span, StreamId};

use crate::{
    code::Code,
    control::{ALL_WORK, Control},
    edges,
    facts::SeriesFacts,
    keyed::read_leaves,
    memory::Scratch,
    pieces::{grid, slice},
    plan::{Domain, GroupPlan, Plan, Stage},
    query::{Prepared, RunOptions},
    run::{Output, Piece, Shared, StageRun, Trouble, Wanted, lead, series_of},
    scan::Kept,
    series::{Axis, Leaf, Series},
    steps::{axis::GrowingAxis, grown::Grown, reads::Read, times::Times, track::Track},
    tail::{EndsOf, Fresh},
    text::{Dictionary, are_only_told_apart, is_text},
};

mod axis;
mod forget;
mod grown;
mod reads;
mod saved;
mod times;
mod track;

#[cfg(test)]
mod tests;

/// Rows that columns of a single run have room for at first.
pub(crate) const ROOM: usize = 1 << 10;

/// What runs in steps of one plan share.
pub(crate) struct Common {
    prepared: Arc<Prepared>,
    /// Strings that have come.
    dictionary: RwLock<Dictionary>,
    /// Leaves of inputs that are strings and are read.
    texts: BTreeSet<(StreamId, usize)>,
    functions: Functions,
    control: Control,
    /// Rows that columns have room for at first; half as many are forgotten at a time.
    room: usize,
    /// An axis without rows.
    nowhere: Arc<Axis>,
    workspace: Mutex<Workspace>,
}

/// What a step works with, and the next one again, of whichever run: so it stays in a cache.
#[derive(Default)]
struct Workspace {
    /// What stages read, and the rows of axes.
    series: BTreeMap<StreamId, Series>,
    shown: Vec<Option<Arc<Axis>>>,
    /// As the plan's stages.
    scratch: Vec<Scratch>,
}

impl Common {
    /// What is shared by runs on inputs of which these facts hold; `None` if stages cannot go on where they stopped.
    pub(crate) fn new(
        program: &Program,
        prepared: &Arc<Prepared>,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        options: &RunOptions,
        room: usize,
    ) -> Option<Arc<Self>> {
        let Prepared::Loops { plan, .. } = &**prepared else {
            return None;
        };
        let coded = facts.iter().flat_map(|(id, facts)| {
            let read = read_leaves(plan, *id).into_iter();
            let coded = read.filter(|leaf| facts.is_coded(*leaf));
            coded.map(|leaf| (*id, leaf))
        });
        let texts: BTreeSet<(StreamId, usize)> = coded.collect();
        let has_codes = plan.stages.iter().any(|stage| stage.facts.has_codes());
        let has_lists = plan.stages.iter().any(|stage| stage.facts.has_lists());
        // Strings that are still to come may be anywhere in the order of those that came. Runs of keys share a dictionary that nothing is added to.
        let is_keyed = program.inputs().any(|(_, input)| input.key.is_some());
        let are_known = texts.is_empty() && !has_codes;
        if !plan.axes.values().all(|axis| axis.ordered)
            || has_lists
            || !are_known && (is_keyed || !are_only_told_apart(program))
        {
            return None;
        }
        Some(Arc::new(Self {
            prepared: Arc::clone(prepared),
            dictionary: RwLock::new(Dictionary::growing(program)),
            texts,
            functions: options.functions.clone(),
            control: Control::new(options),
            room,
            nowhere: nothing().axis,
            workspace: Mutex::default(),
        }))
    }
}

impl Common {
    fn dictionary(&self) -> RwLockReadGuard<'_, Dictionary> {
        let dictionary = self.dictionary.read();
        dictionary.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run in steps.
pub(crate) struct Steps {
    common: Arc<Common>,
    start: i64,
    /// Nobody looks at cells that end by then.
    cells_from: i64,
    axes: Vec<GrowingAxis>,
    streams: BTreeMap<StreamId, Track>,
    /// As the plan's stages.
    stages: Vec<StageSteps>,
    /// Columns of rows while they are taken.
    taken: Vec<Leaf>,
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

impl Arrived {
    /// No row that is still to come starts before this.
    pub(crate) fn furthest(self) -> i64 {
        self.covered.max(self.promised)
    }

    /// As far as that, and no further than an instant.
    pub(crate) fn until(self, most: i64) -> Self {
        Self {
            covered: self.covered.min(most),
            promised: self.promised.min(most),
        }
    }
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
    /// A run that begins at `start` on inputs of which these facts hold, or `None` if its stages cannot go on where they stopped. Cells of grids that end up to `cells_from` are left out.
    pub(crate) fn new(
        common: &Arc<Common>,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        inputs: &BTreeMap<StreamId, SnapshotBuffer>,
        (start, cells_from): (i64, i64),
    ) -> Option<Self> {
        let Prepared::Loops { plan, .. } = &*common.prepared else {
            return None;
        };
        let room = common.room;
        let mut steps = Self {
            common: Arc::clone(common),
            start,
            cells_from: cells_from.max(start),
            axes: Vec::new(),
            streams: BTreeMap::new(),
            stages: Vec::new(),
            taken: Vec::new(),
        };
        for (id, buffer) in inputs {
            let facts = &facts[id];
            let period = facts.axis.regular.map(|r| r.period);
            let times = Times::like(buffer.timeline(), period, room);
            steps.axes.push(GrowingAxis::new(times, *id));
            let leaves = facts.leaves.iter().enumerate();
            let columns = leaves.map(|(number, leaf)| {
                let column = Grown::new(leaf.ty, leaf.nullable, 0, room);
                // Codes that are not read are not given out.
                if facts.is_coded(number) && !common.texts.contains(&(*id, number)) {
                    column.unread()
                } else {
                    column
                }
            });
            steps.streams.insert(
                *id,
                Track {
                    axis: steps.axes.len() - 1,
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
                let axis = steps.streams[&range.stream].axis;
                steps.axes[axis].shows_open = false;
            }
        }
        Some(steps)
    }

    fn add_stage(&mut self, plan: &Plan, number: usize, stage: &Stage) -> Option<()> {
        let axis = match stage.domain {
            Domain::On(stream) => self.streams[&stream].axis,
            Domain::Grid { period, offset } => {
                let start = self.cells_from.checked_sub(plan.slack?)?;
                let first = grid(period, offset, Span::new(start, start.checked_add(period)?));
                let times = Times::cells(first.end(0), period);
                self.axes.push(GrowingAxis::new(times, stage.stream));
                self.axes.len() - 1
            }
            Domain::Merge {
                twin: Some(twin), ..
            } => self.streams[&twin].axis,
            Domain::Merge { .. } => {
                let times = Times::intervals(self.common.room);
                self.axes.push(GrowingAxis::new(times, stage.stream));
                self.axes.len() - 1
            }
            Domain::Calendar(_) | Domain::Sessions { .. } => return None,
        };
        let is_output = number + 1 == plan.stages.len();
        let body = &plan.loops[stage.main];
        let Sink::Store { columns, .. } = &body.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let is_read = !is_output || !stage.own.is_empty();
        let (lead, room) = (lead(stage), self.common.room);
        let columns = columns
            .iter()
            .filter(|_| is_read)
            .map(|column| Grown::new(body.ty(column.value), column.valid.is_some(), lead, room));
        self.streams.insert(
            stage.stream,
            Track {
                axis,
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
        let (Some(track), Some(input)) =
            (self.streams.get_mut(&id), program.streams[id].as_input())
        else {
            return true;
        };
        let times = &mut self.axes[track.axis].times;
        if times.is_replaced_by(rows.timeline()) {
            times.drop_last();
            track.rows -= 1;
        }
        self.taken.clear();
        let common = &*self.common;
        let leaf = |array: &ArrayRef, dtype: &DType| {
            if !is_text(dtype) {
                return Some(edges::leaf(array, dtype, &common.dictionary()));
            }
            let dictionary = common.dictionary.write();
            let mut dictionary = dictionary.unwrap_or_else(PoisonError::into_inner);
            let codes = dictionary.learn(array)?;
            Some(Leaf::of_array(&codes, Ty::U32))
        };
        match &input.dtype {
            DType::Record(fields) => {
                let read = fields.iter().zip(&track.columns);
                for (field, _) in read.filter(|(_, column)| column.is_read()) {
                    let column = rows.column(&field.name).expect("a checked column");
                    let Some(leaf) = leaf(column.array(), &field.dtype) else {
                        return false;
                    };
                    self.taken.push(leaf);
                }
            }
            dtype if track.columns[0].is_read() => {
                let Some(leaf) = leaf(rows.columns()[0].array(), dtype) else {
                    return false;
                };
                self.taken.push(leaf);
            }
            _ => {}
        }
        let has_nulls =
            |(column, leaf): (&Grown, &Leaf)| leaf.valid.is_some() && !column.is_nullable();
        let read = track.columns.iter().filter(|column| column.is_read());
        if read.zip(&self.taken).any(has_nulls) || !times.fits(rows.timeline()) {
            return false;
        }
        let len = times.all();
        let mut taken = self.taken.iter();
        for column in &mut track.columns {
            match column.is_read().then(|| taken.next()).flatten() {
                Some(leaf) => column.append(len, leaf),
                None => column.skip(len, rows.len()),
            }
        }
        self.taken.clear();
        times.append(rows.timeline());
        track.rows = times.all();
        true
    }

    /// Takes rows of an input that are some of a column's. False if they are not what the plan was made for.
    pub(crate) fn append_some(
        &mut self,
        id: StreamId,
        (ends, length): (&[i64], i64),
        leaves: &[Leaf],
        first: usize,
    ) -> bool {
        let Some(track) = self.streams.get_mut(&id) else {
            return true;
        };
        let times = &mut self.axes[track.axis].times;
        let len = times.all();
        if !times.append_fresh(EndsOf::Explicit(ends), length) {
            return false;
        }
        track.rows = times.all();
        let mut columns = track.columns.iter_mut().zip(leaves);
        columns.all(|(column, leaf)| {
            if !column.is_read() {
                column.skip(len, ends.len());
                return true;
            }
            let fits = leaf.valid.is_none() || column.is_nullable();
            if fits {
                column.append(len, &leaf.slice(first, ends.len()));
            }
            fits
        })
    }

    /// Takes rows of an input that were put together. False if they are not what the plan was made for.
    pub(crate) fn append(&mut self, program: &Program, id: StreamId, rows: &Fresh) -> bool {
        let (Some(track), Some(input)) =
            (self.streams.get_mut(&id), program.streams[id].as_input())
        else {
            return true;
        };
        let times = &mut self.axes[track.axis].times;
        let len = times.all();
        if !times.append_fresh(rows.ends(), rows.length()) {
            return false;
        }
        let mut columns = track.columns.iter_mut();
        let mut append = |name: Option<&str>| {
            let (Some(column), Some(mut parts)) = (columns.next(), rows.column(name)) else {
                return false;
            };
            let mut at = len;
            parts.all(|(rows, values)| {
                let fits = column.append_values(at, rows, values);
                at += rows;
                fits
            })
        };
        track.rows = times.all();
        match &input.dtype {
            DType::Record(fields) => fields.iter().all(|field| append(Some(&field.name))),
            _ => append(None),
        }
    }

    /// All output up to here was told.
    pub(crate) fn until(&self) -> i64 {
        self.stages.last().map_or(i64::MIN, |stage| stage.until)
    }

    /// Rows of the output as a buffer, with the columns that `none` has.
    pub(crate) fn assemble(
        &self,
        program: &Program,
        series: &Series,
        none: &SnapshotBuffer,
    ) -> tilt_data::Result<SnapshotBuffer> {
        let mut leaves = series.leaves.iter();
        let dictionary = self.common.dictionary();
        let mut array = |dtype: &DType| edges::array(&mut leaves, dtype, &dictionary);
        let arrays = match program.stream_dtype(program.output) {
            DType::Record(fields) => fields.iter().map(|f| array(&f.dtype)).collect(),
            dtype => vec![array(dtype)],
        };
        let rows = series.presence().map(|p| NullBuffer::new(p.clone()));
        none.with_rows(series.axis.timeline.clone(), arrays, rows)
    }

    /// Computes what can be told when inputs and the run have come so far.
    pub(crate) fn step(
        &mut self,
        arrived: &[(StreamId, Arrived)],
        reached: Reached,
    ) -> Result<Series, Trouble> {
        let Reached { end, certain, last } = reached;
        let common = Arc::clone(&self.common);
        let Prepared::Loops { plan, code } = &*common.prepared else {
            return Err(Trouble("a plan that is interpreted"));
        };
        let lock = || {
            common
                .workspace
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut space = std::mem::take(&mut *lock());
        space.shown.resize(self.axes.len(), None);
        space
            .scratch
            .resize_with(plan.stages.len(), Scratch::default);
        for (id, arrived) in arrived {
            let Some(track) = self.streams.get_mut(id) else {
                continue;
            };
            let axis = &mut self.axes[track.axis];
            if last {
                axis.times.close(end);
            }
            let covered = axis.times.covered(*arrived, axis.shows_open);
            track.rows = axis.times.len();
            track.covered = if last { i64::MAX } else { covered.min(certain) };
            let axis = axis.show();
            space.shown[track.axis] = Some(Arc::clone(&axis));
            track.show(axis, space.series.entry(*id).or_insert_with(nothing));
        }
        let mut output = None;
        for (number, stage) in plan.stages.iter().enumerate() {
            let code = (&*common, &**plan, code);
            output = self.stage(code, number, stage, &mut space, reached)?;
        }
        for series in space.series.values_mut() {
            series.axis = Arc::clone(&common.nowhere);
            series.leaves.clear();
            series.present = None;
        }
        for (axis, shown) in self.axes.iter_mut().zip(&mut space.shown) {
            axis.take_back(shown.take());
        }
        *lock() = space;
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
                // Those before a row that is read by number have come if it has.
                Read::Events { .. } => {}
                _ if last => {}
                Read::Time { ahead, .. }
                | Read::Last { ahead, .. }
                | Read::Total { ahead }
                | Read::All { ahead } => {
                    until = until.min(source.covered.saturating_sub(ahead));
                }
            }
        }
        (until, most)
    }

    /// Computes the rows of a stage that can be told, and shows them with those that are kept. The new ones, if the stage is the last.
    fn stage(
        &mut self,
        (common, plan, code): (&Common, &Plan, &Code),
        number: usize,
        stage: &Stage,
        space: &mut Workspace,
        reached: Reached,
    ) -> Result<Option<Series>, Trouble> {
        let Reached { end, certain, last } = reached;
        let (mut until, most) = self.limits(number, stage, reached);
        let run = Span::new(self.start, if last { end } else { certain });
        let dictionary = common.dictionary();
        let piece = Piece {
            plan,
            code,
            run,
            scope: run,
            wanted: Wanted::Time(run),
            picked: None,
            dictionary: &dictionary,
            functions: &common.functions,
            control: &common.control,
            work: ALL_WORK,
            carried: None,
            found: None,
            age: None,
            open: !last,
        };
        let mut begins = i64::MAX;
        let Workspace {
            series: all,
            shown,
            scratch,
        } = space;
        let series = &*all;
        let number_of_axis = self.streams[&stage.stream].axis;
        let growing = &mut self.axes[number_of_axis];
        let steps = &mut self.stages[number];
        match &stage.domain {
            Domain::Grid { .. } => {
                let slack = plan.slack.unwrap_or(0);
                // A cell exists if the run goes on for longer than where it starts, which what is certain does not depend on.
                let to = if last {
                    end.saturating_add(slack)
                } else {
                    until
                };
                until = until.min(to);
                if !growing.times.extend_to(to) {
                    return Err(Trouble("more cells than anybody means"));
                }
                shown[number_of_axis] = Some(growing.show());
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
                    growing.append(&piece.merged(groups, required, series, within));
                }
                // An event that has begun is told when it ends.
                if steps.is_read {
                    let within = Some(Span::new(until, i64::MAX));
                    let begun = piece.merged(groups, required, series, within);
                    begins = begun.starts.into_iter().min().unwrap_or(i64::MAX);
                }
                shown[number_of_axis] = Some(growing.show());
            }
            _ => {}
        }
        let axis = shown[number_of_axis].as_ref();
        let axis = Arc::clone(axis.expect("the root of an axis comes first"));
        // No row that is still to come starts before the rows of the axis can, or before the next one that is known.
        let bound = match stage.domain {
            Domain::Merge { twin: None, .. } => until.min(begins),
            Domain::Grid { .. } => i64::MAX,
            _ => self.streams[&growing.root].covered,
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
        let next = growing.times.start(rows).unwrap_or(i64::MAX);
        let covered = if last { i64::MAX } else { bound.min(next) };
        steps.until = steps.until.max(until);
        let track = self.streams.get_mut(&stage.stream);
        let track = track.expect("a stream for every stage");
        (track.rows, track.covered) = (rows, covered);
        let mut go_on = |targets: Vec<Output>| {
            let (kept, scratch) = (&mut steps.kept, &mut scratch[number]);
            StageRun::go_on(
                &piece,
                stage,
                &axis,
                series,
                first..rows,
                targets,
                kept,
                scratch,
            )
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
            return Ok(Some(series_of(stage, axis, written, new, 0)));
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
        let kept = all.entry(stage.stream).or_insert_with(nothing);
        track.show(axis, kept);
        let is_output = number + 1 == plan.stages.len();
        Ok(is_output.then(|| owned(kept, first)))
    }
}

/// A series that shows no rows yet.
fn nothing() -> Series {
    Series {
        axis: Arc::new(Axis::new(
            Timeline::regular(0, 1, 0, Spans::Fixed(1)),
            Vec::new(),
        )),
        leaves: Vec::new(),
        present: None,
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
