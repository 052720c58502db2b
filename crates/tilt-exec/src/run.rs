//! Running a plan on one piece of the timeline.
//!
//! Stages run one after the other, each over its rows in chunks: what the chunk reads is found first ([`Located`], `range`), windows are brought up to date, then the
//! main loop computes all rows at once.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
    time::Instant,
};

use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{LANES, Lanes, Sink, Ty},
};
use tilt_ir::{Bounds, Span, StreamId};

use tilt_interp::Functions;

use crate::{
    call::{self, CallPlan},
    cells,
    code::Code,
    control::{Control, share},
    cursor::{self, Ranks, Shape},
    locate::{self, Located, Locator},
    memory::Scratch,
    merge::{Group, Merged, merge_into},
    pieces::grid,
    plan::{Domain, GroupPlan, ParamSource, Plan, Source, Stage},
    range::RangeRun,
    scan::{Begin, Done, Kept, Task, WindowRun},
    series::{Axis, Series},
    stats, strips,
    text::Dictionary,
    window::WindowPlan,
};

mod columns;
mod inside;
mod picked;
mod seen;
mod views;

use columns::finish;
pub(crate) use columns::{Output, Shared, lead, series_of};
pub(crate) use picked::may_pick;
pub(crate) use seen::{Seen, events_only, known_only};

/// Rows that are computed together: their columns stay in the first cache.
pub(crate) const CHUNK: usize = 2048;
/// The same where there are no columns in between.
pub(crate) const LONG_CHUNK: usize = 16 * CHUNK;

/// The rows of streams, by stream.
pub(crate) type AllSeries = BTreeMap<StreamId, Series>;

/// Something that loops do not settle: an overflow that may or may not be, a read that may be ambiguous. The interpreter decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trouble(pub(crate) &'static str);

/// What a piece is computed from.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) code: &'a Code,
    pub(crate) run: Span,
    /// Grids have cells that end in here.
    pub(crate) scope: Span,
    /// Which rows of the output are wanted.
    pub(crate) wanted: Wanted<'a>,
    /// Of the last stage only these rows of its axis are computed, in order, and `wanted` counts them; all without. With them the axis that has no others.
    pub(crate) picked: Option<(&'a [u32], Arc<Axis>)>,
    /// What codes stand for.
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) functions: &'a Functions,
    pub(crate) control: &'a Control,
    /// How much of the run's work this piece is.
    pub(crate) work: u64,
    /// How old an event may be that is held, if there is such a limit for all.
    pub(crate) age: Option<i64>,
    /// What is known of its rows already, if it is a strip.
    pub(crate) carried: Option<Carried<'a>>,
    /// Where the locates of its only stage lead, all rows, as far as that is known already.
    pub(crate) found: Option<&'a [Option<Positions>]>,
    /// Whether streams may go on after their last rows: then nothing takes these for the end.
    pub(crate) open: bool,
}

/// The position that each row reads, [`NONE`](cursor::NONE) where it reads nothing.
pub(crate) type Positions = ScalarBuffer<u32>;

/// What the strip before has computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried<'a> {
    /// So many rows that this strip has first are its last ones; a multiple of eight.
    pub(crate) rows: usize,
    pub(crate) series: &'a BTreeMap<StreamId, Series>,
}

/// Which rows of the output a piece computes.
#[derive(Clone, Debug)]
pub(crate) enum Wanted<'a> {
    /// Those that end in here, in memory of their own.
    Time(Span),
    /// These of the piece's rows, as rows from `at` on of columns that pieces share.
    Rows {
        rows: Range<usize>,
        columns: &'a [Shared],
        at: usize,
        /// The loop that writes them.
        main: usize,
    },
}

impl Piece<'_> {
    /// The events of the plan's last stage; without leaves if the piece wrote columns that it shares.
    pub(crate) fn evaluate(&self, inputs: BTreeMap<StreamId, Series>) -> Result<Series, Trouble> {
        let mut series = self.evaluate_all(inputs)?;
        let last = self.plan.stages.last();
        let output = last.and_then(|stage| series.remove(&stage.stream));
        output.ok_or(Trouble("a plan without stages"))
    }

    /// The events of the inputs and of all stages.
    pub(crate) fn evaluate_all(
        &self,
        inputs: BTreeMap<StreamId, Series>,
    ) -> Result<BTreeMap<StreamId, Series>, Trouble> {
        let mut series = inputs;
        if let Some(stats) = self.control.stats() {
            stats.piece();
        }
        for (number, stage) in self.plan.stages.iter().enumerate() {
            let is_output = number + 1 == self.plan.stages.len();
            let begun = self.control.stats().map(|_| Instant::now());
            let axis = self.axis(stage, &series);
            self.control.check()?;
            let computed = match self.picked.as_ref().filter(|_| is_output) {
                None => StageRun::run(self, stage, &axis, &series, Seen::new(), is_output)?,
                Some((rows, axis)) => {
                    let own = picked::picked(stage, axis, &series, rows);
                    let seen = seen::whole(stage, &series);
                    StageRun::run(self, stage, axis, &own, seen, is_output)?
                }
            };
            if let (Some(stats), Some(begun)) = (self.control.stats(), begun) {
                let (rows, main) = match &self.wanted {
                    Wanted::Rows { rows, main, .. } if is_output => (rows.len(), *main),
                    _ => (computed.axis.len(), stage.main),
                };
                let read = stats::bytes_read(stage, &series);
                let bits = stats::row_bits(&self.plan.loops[main]);
                stats.stage(number, 1, rows, read, bits, begun.elapsed());
            }
            series.insert(stage.stream, computed);
        }
        Ok(series)
    }

    /// Whether it is known where a locate leads.
    pub(crate) fn is_found(&self, locate: usize) -> bool {
        self.found.is_some_and(|found| found[locate].is_some())
    }

    /// Computes the wanted rows of one stage, given the events of all before.
    pub(crate) fn evaluate_stage(
        &self,
        stage: &Stage,
        series: &BTreeMap<StreamId, Series>,
    ) -> Result<Series, Trouble> {
        self.control.check()?;
        let axis = self.axis(stage, series);
        StageRun::run(self, stage, &axis, series, Seen::new(), true)
    }

    /// Where a stream has events, given where it has values.
    pub(crate) fn source<'s>(
        &self,
        stream: StreamId,
        series: &'s BTreeMap<StreamId, Series>,
        present: Option<&BooleanBuffer>,
    ) -> cursor::Source<'s> {
        let facts = &self.plan.axes[&stream];
        let shape = Shape {
            disjoint: facts.disjoint,
            ordered: facts.ordered,
        };
        cursor::Source::known(&series[&stream].axis.timeline, present, shape)
    }

    fn group_source<'s>(
        &self,
        group: &GroupPlan,
        series: &'s BTreeMap<StreamId, Series>,
    ) -> cursor::Source<'s> {
        match group {
            GroupPlan::Value { streams, .. } => {
                let present = streams.iter().map(|s| series[s].presence().cloned());
                let present = present.reduce(|a, b| a.zip(b).map(|(a, b)| &a | &b));
                self.source(streams[0], series, present.flatten().as_ref())
            }
            GroupPlan::Hold { stream, .. } | GroupPlan::Window { stream, .. } => {
                self.source(*stream, series, series[stream].presence())
            }
        }
    }

    /// The events of a merge, only those that end in a part if that is all that is asked for.
    pub(crate) fn merged(
        &self,
        groups: &[GroupPlan],
        required: &[bool],
        series: &BTreeMap<StreamId, Series>,
        within: Option<Span>,
    ) -> Merged {
        let sources: Vec<cursor::Source> = groups
            .iter()
            .map(|group| self.group_source(group, series))
            .collect();
        let groups: Vec<Group> = groups
            .iter()
            .zip(&sources)
            .map(|(group, source)| match *group {
                GroupPlan::Value { offset, .. } => Group::Value { source, offset },
                GroupPlan::Hold {
                    offset, max_age, ..
                } => Group::Hold {
                    source,
                    offset,
                    max_age,
                    run_end: self.run.end,
                },
                GroupPlan::Window { lo, hi, .. } => Group::Window { source, lo, hi },
            })
            .collect();
        let mut merged = Merged::spare(groups.len());
        merge_into(&groups, required, within, self.control, &mut merged);
        merged
    }

    /// The rows of a stage.
    pub(crate) fn axis(&self, stage: &Stage, series: &BTreeMap<StreamId, Series>) -> Arc<Axis> {
        match &stage.domain {
            Domain::On(stream) => Arc::clone(&series[stream].axis),
            Domain::Grid { period, offset } => {
                Arc::new(Axis::new(grid(*period, *offset, self.scope), Vec::new()))
            }
            Domain::Calendar(cells) => cells.axis(self.scope),
            Domain::Sessions { stream, gap, max } => {
                let source = self.source(*stream, series, series[stream].presence());
                let sessions = cells::sessions(&source, *gap, *max);
                Arc::new(Axis::new(sessions, Vec::new()))
            }
            Domain::Merge {
                twin: Some(twin), ..
            } => Arc::clone(&series[twin].axis),
            Domain::Merge {
                groups,
                required,
                twin: None,
            } => self.merged(groups, required, series, None).into_axis(),
        }
    }
}

/// A stage while it runs.
pub(crate) struct StageRun<'a> {
    piece: &'a Piece<'a>,
    stage: &'a Stage,
    axis: &'a Axis,
    series: &'a BTreeMap<StreamId, Series>,
    targets: Vec<Output>,
    /// Rows that are kept before the first, for what a recurrence reads.
    lead: usize,
    /// Rows between those and the first that is computed, which are there already.
    before: usize,
    /// Rows that targets have room for.
    rows: usize,
    /// The loop that is called.
    main: usize,
    /// What ranges see that see only the events of their source.
    seen: Cow<'a, Seen>,
    /// Whether positions that ranges see are the same from run to run.
    stays: bool,
}

/// What a stage reads with, from chunk to chunk.
struct Readers<'r> {
    locators: Vec<Locator<'r>>,
    ranges: Vec<RangeRun<'r>>,
    windows: Vec<WindowRun<'r>>,
}

/// A chunk of rows, and what is known of them before a loop runs.
struct Chunk<'c, 'r, 'w> {
    rows: Range<usize>,
    /// Where its first row is written.
    at: usize,
    located: Vec<Located>,
    ranges: &'c mut [RangeRun<'r>],
    windows: &'c mut [WindowRun<'w>],
    /// Results of external functions.
    called: Vec<View>,
    scratch: &'c mut Scratch,
}

impl<'a> StageRun<'a> {
    fn run(
        piece: &'a Piece<'a>,
        stage: &'a Stage,
        axis: &'a Arc<Axis>,
        series: &'a BTreeMap<StreamId, Series>,
        seen: Seen,
        is_output: bool,
    ) -> Result<Series, Trouble> {
        let main = &piece.plan.loops[stage.main];
        let wanted = match (&piece.wanted, is_output) {
            (Wanted::Time(part), true) => {
                axis.timeline.ends_until(part.start)..axis.timeline.ends_until(part.end)
            }
            (Wanted::Rows { rows, .. }, true) => rows.clone(),
            (_, false) => 0..axis.len(),
        };
        // A recurrence needs all rows before those that are wanted.
        let first = if main.lanes == Lanes::One && piece.carried.is_none() {
            0
        } else {
            wanted.start
        };
        let rows = first..wanted.end.max(first);
        let lead = lead(stage);
        let Sink::Store { columns, .. } = &main.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let padded = rows.len().next_multiple_of(LANES);
        let mut this = StageRun {
            piece,
            stage,
            axis,
            series,
            targets: Vec::new(),
            lead,
            before: 0,
            rows: padded,
            main: stage.main,
            seen: Cow::Owned(events_only(piece, stage, series, seen)?),
            stays: false,
        };
        if let (
            Wanted::Rows {
                columns, at, main, ..
            },
            true,
        ) = (&piece.wanted, is_output)
        {
            this.main = *main;
            if piece.carried.is_some() {
                this.before = at - lead;
            } else {
                assert_eq!(lead, 0, "recurrences have memory of their own");
            }
            let unread = columns.iter().filter(|c| c.unread);
            let unread: Vec<Shared> = unread
                .map(|c| Shared::new(c.ty, c.validity.is_some(), LONG_CHUNK))
                .collect();
            let mut own = unread.iter();
            let target = |c: &Shared| match Some(c).filter(|c| c.unread).and_then(|_| own.next()) {
                Some(own) => Output {
                    unread: true,
                    ..Output::from(own, 0)
                },
                None => Output::from(c, *at),
            };
            this.targets = columns.iter().map(target).collect();
            this.compute(rows, &mut Vec::new(), &mut Scratch::default())?;
            // Stores past the caches obey no order of their own.
            fence(Ordering::SeqCst);
            return Ok(Series {
                axis: Arc::clone(axis),
                leaves: Vec::new(),
                present: None,
            });
        }
        let own: Vec<Shared> = columns
            .iter()
            .map(|c| Shared::new(main.ty(c.value), c.valid.is_some(), rows.len() + lead))
            .collect();
        // Memory that was used before has anything in it.
        for column in own.iter().filter(|_| lead > 0) {
            column.clear(lead);
        }
        if let Some(Carried { rows, series }) = piece.carried.filter(|carried| carried.rows > 0) {
            this.before = rows;
            strips::carry(&own, lead, rows, &series[&stage.stream]);
        }
        let computed = rows.start + this.before..rows.end;
        let at = lead + this.before;
        this.targets = own.iter().map(|c| Output::from(c, at)).collect();
        this.compute(computed, &mut Vec::new(), &mut Scratch::default())?;
        Ok(finish(stage, axis, rows, wanted, lead, own))
    }

    /// Computes some rows of a stage of which all before are known: columns go on where `targets` begin.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a stage reads, writes and keeps"
    )]
    pub(crate) fn go_on(
        piece: &'a Piece<'a>,
        stage: &'a Stage,
        axis: &'a Axis,
        series: &'a BTreeMap<StreamId, Series>,
        rows: Range<usize>,
        targets: Vec<Output>,
        kept: &mut Vec<Kept>,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        let this = StageRun {
            piece,
            stage,
            axis,
            series,
            targets,
            lead: lead(stage),
            before: rows.start,
            rows: rows.len().next_multiple_of(LANES),
            main: stage.main,
            seen: Cow::Owned(events_only(
                piece,
                stage,
                series,
                known_only(stage, series),
            )?),
            stays: false,
        };
        this.compute(rows, kept, scratch)
    }

    /// A stage that is computed in stretches, none of which reads another.
    pub(crate) fn stretch(
        piece: &'a Piece<'a>,
        stage: &'a Stage,
        axis: &'a Axis,
        series: &'a BTreeMap<StreamId, Series>,
        seen: &'a Seen,
    ) -> Self {
        StageRun {
            piece,
            stage,
            axis,
            series,
            targets: Vec::new(),
            lead: 0,
            before: 0,
            rows: 0,
            main: stage.main,
            seen: Cow::Borrowed(seen),
            stays: true,
        }
    }

    /// Computes the rows of a stretch into columns that begin with them. Windows begin with what is known of them.
    pub(crate) fn compute_into(
        mut self,
        main: usize,
        rows: Range<usize>,
        targets: Vec<Output>,
        begin: Vec<Kept>,
    ) -> Result<(), Trouble> {
        (self.main, self.targets) = (main, targets);
        self.rows = rows.len().next_multiple_of(LANES);
        let mut kept = begin;
        self.compute(rows, &mut kept, &mut Scratch::default())?;
        // Stores past the caches obey no order of their own.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// What windows need to begin at each of `starts`.
    pub(crate) fn begin(&self, rows: &Range<usize>, starts: &[usize]) -> Vec<Begin> {
        let sources = self.range_sources();
        let mut scratch = Scratch::default();
        let windows = self.stage.windows.iter();
        let begin = windows.map(|plan| {
            // Cursors only move forward, for each window from the first row on.
            let range = &mut self.ranges(&sources)[plan.range];
            let all = self.all(plan.range);
            let window = WindowRun::new(self.piece, plan, range, all, None, self.axis.len());
            window.begin(range, rows, starts, &mut scratch)
        });
        begin.collect()
    }

    /// Does a task of a window.
    pub(crate) fn pass(&self, window: usize, task: &Task, lent: Option<Kept>) -> Done {
        let sources = self.range_sources();
        let ranges = self.ranges(&sources);
        let plan = &self.stage.windows[window];
        let (range, all) = (&ranges[plan.range], self.all(plan.range));
        WindowRun::new(self.piece, plan, range, all, lent, self.axis.len()).pass(self.piece, task)
    }

    /// The streams that ranges are over, as they see them.
    fn range_sources(&self) -> Vec<cursor::Source<'_>> {
        let ranges = self.stage.ranges.iter().enumerate();
        let sources = ranges.map(|(number, r)| {
            let all = if self.is_folded(number) {
                self.series
            } else {
                self.all(number)
            };
            let counts = matches!(r.bounds, Bounds::Ordinal { .. });
            let present = all[&r.stream].presence().filter(|_| counts);
            self.piece.source(r.stream, all, present)
        });
        sources.collect()
    }

    fn ranges<'s>(&'s self, sources: &'s [cursor::Source<'s>]) -> Vec<RangeRun<'s>> {
        let ranges = self.stage.ranges.iter().zip(sources).enumerate();
        let ranges = ranges.map(|(number, (plan, source))| {
            let range = RangeRun::new(plan, self.axis, source);
            if !self.is_folded(number) {
                return range;
            }
            let present = self.series[&plan.stream].presence();
            let events = self.piece.source(plan.stream, self.series, present);
            range.counted_by(Ranks::new(&events))
        });
        ranges.collect()
    }

    /// Computes some rows. Windows go on from what they have kept of the rows before, if that is anything, and keep it for the rows after.
    fn compute(
        &self,
        rows: Range<usize>,
        kept: &mut Vec<Kept>,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        let stage = self.stage;
        let sources = locate::sources(self.piece, stage, self.axis, self.series);
        let locators = locate::locators(self.piece, stage, self.axis, self.series, &sources);
        let range_sources = self.range_sources();
        let ranges = self.ranges(&range_sources);
        let is_cut = |plan: &WindowPlan| {
            plan.algorithm.has_parts() && ranges[plan.range].is_saturated(&rows)
        };
        if stage.windows.iter().any(is_cut) {
            return Err(Trouble("windows beyond the ends of time"));
        }
        let mut before = kept.drain(..);
        let windows: Vec<WindowRun> = stage
            .windows
            .iter()
            .map(|plan| {
                let range = &ranges[plan.range];
                // Positions among events alone may be others than before.
                let kept = before
                    .next()
                    .filter(|_| self.stays || !self.is_renumbered(plan.range));
                WindowRun::new(
                    self.piece,
                    plan,
                    range,
                    self.all(plan.range),
                    kept,
                    rows.end,
                )
            })
            .collect();
        drop(before);
        let chunk = stage.chunk();
        let stages = &self.piece.plan.stages;
        let work = share(self.piece.work, 1, stages.len());
        let is_output = stages
            .last()
            .is_some_and(|last| last.stream == stage.stream);
        let inside = self.inside(&rows, &locators);
        let mut readers = Readers {
            locators,
            ranges,
            windows,
        };
        let mut start = rows.start;
        while start < rows.end {
            let mut end = rows.end.min(start + chunk);
            for edge in [inside.start, inside.end] {
                if (start + 1..end).contains(&edge) {
                    end = edge;
                }
            }
            scratch.reset();
            self.chunk(
                start..end,
                inside.contains(&start),
                start - rows.start,
                &mut readers,
                scratch,
            )?;
            let done = share(work, end - start, rows.len());
            let output = if is_output { end - start } else { 0 };
            self.piece.control.advance(done, output)?;
            start = end;
        }
        if readers.windows.iter().any(WindowRun::may_overflow) {
            return Err(Trouble("an integer total that may not fit into 64 bits"));
        }
        if self.piece.open {
            let windows = readers.windows.into_iter();
            kept.extend(windows.map(|window| {
                let range = window.plan.range;
                // Running totals go on whatever is known of rows that they have not read.
                let stays = if self.stage.ranges[range].is_running() {
                    !self.is_renumbered(range)
                } else {
                    !self.seen.contains_key(&range)
                };
                window.keep(stays)
            }));
        }
        Ok(())
    }

    fn chunk(
        &self,
        rows: Range<usize>,
        inside: bool,
        at: usize,
        readers: &mut Readers,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        let Readers {
            locators,
            ranges,
            windows,
        } = readers;
        for range in ranges.iter_mut() {
            range.locate(rows.clone(), scratch);
        }
        let stage = self.stage;
        let (main, sources, params) = match &stage.inside {
            Some(loop_inside) if inside => {
                (loop_inside.main, &loop_inside.sources, &loop_inside.params)
            }
            _ => (self.main, &stage.sources, &stage.params),
        };
        let counts = |window: &&WindowRun| window.plan.count.is_some();
        let mut full = stage.full.iter().filter(|(number, _)| *number == main);
        let full = full.next().filter(|_| {
            let known = |w: &WindowRun| w.is_known(&ranges[w.plan.range], &rows);
            ranges.iter().all(|r| r.is_full(&rows)) && windows.iter().filter(counts).all(known)
        });
        let main = full.map_or(main, |(_, full)| *full);
        for window in windows.iter_mut() {
            // Rows to come may need what is gathered here, and so may arguments of calls.
            let is_read = self.piece.open || !stage.calls.is_empty();
            if full.is_some() && window.plan.count.is_some() && !is_read {
                window.rest();
                continue;
            }
            let range = &mut ranges[window.plan.range];
            window.advance(self.piece, range, rows.clone(), scratch)?;
        }
        let mut located: Vec<Located> = Vec::with_capacity(locators.len());
        for locator in locators {
            let found = locator.locate(self.axis, rows.clone(), &located, ranges, scratch)?;
            located.push(found);
        }
        let mut chunk = Chunk {
            rows,
            at,
            located,
            ranges,
            windows,
            called: Vec::with_capacity(self.stage.calls.len()),
            scratch,
        };
        for call in &self.stage.calls {
            let results = self.call(call, &mut chunk)?;
            chunk.called.push(results);
        }
        let targets: Vec<Target> = self.targets.iter().map(|t| t.target(at)).collect();
        self.execute(main, sources, params, &targets, &mut chunk);
        Ok(())
    }

    /// Runs a loop over a chunk. The targets have room for its rows, up to a whole group.
    fn execute(
        &self,
        number: usize,
        sources: &[Source],
        params: &[ParamSource],
        targets: &[Target],
        chunk: &mut Chunk,
    ) {
        let body = &self.piece.plan.loops[number];
        let sources = sources.iter().zip(body.accesses.iter());
        let views: Vec<View> = sources
            .map(|(source, (_, access))| self.view(source, access.nullable, chunk))
            .collect();
        let params = params
            .iter()
            .map(|p| self.param(p, &chunk.located, chunk.ranges));
        let params: Vec<u64> = params.collect();
        let rows = chunk.rows.len();
        let ahead = chunk.windows.iter().find_map(|window| window.ahead(rows));
        let (ahead, step) = ahead.unwrap_or((tilt_codegen::abi::nothing_ahead(), 0));
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first: chunk.rows.start as i64,
            rows: chunk.rows.len() as u64,
            ahead,
            step,
        };
        // SAFETY: views cover the rows up to a whole group, and targets have room for as many.
        unsafe { self.piece.code.call(&self.piece.plan.loops, number, &args) }
    }

    /// The results of an external function for a chunk.
    fn call(&self, call: &CallPlan, chunk: &mut Chunk) -> Result<View, Trouble> {
        let rows = chunk.rows.len();
        let mut targets = Vec::new();
        if let Some(number) = call.arguments {
            let body = &self.piece.plan.loops[number];
            let Sink::Store { columns, .. } = &body.sink else {
                unreachable!("arguments are stored")
            };
            let columns: Vec<(Ty, bool)> = columns
                .iter()
                .map(|column| (body.ty(column.value), column.valid.is_some()))
                .collect();
            targets = call::targets(&columns, rows, chunk.scratch);
            self.execute(number, &call.sources, &call.params, &targets, chunk);
        }
        let piece = self.piece;
        // SAFETY: the loop above has stored the arguments of all rows.
        unsafe { call.results(piece, &targets, rows, chunk.scratch) }
    }
}
