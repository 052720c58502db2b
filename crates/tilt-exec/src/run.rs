//! Running a plan on one piece of the timeline.
//!
//! Stages run one after the other, each over its rows in chunks: what the chunk reads is found first ([`Located`], `range`), windows are brought up to date, then the
//! main loop computes all rows at once.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
    time::Instant,
};

use arrow_buffer::BooleanBuffer;
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{LANES, Lanes, Sink, Ty},
};
use tilt_data::Timeline;
use tilt_ir::{Bounds, Span, StreamId};

use tilt_interp::Functions;

use crate::{
    call::{self, CallPlan},
    cells,
    code::Code,
    control::{Control, share},
    cursor::{self, Ranks, Shape},
    locate::{self, Located, Locator},
    memory::{INSTANTS, Returned, Scratch},
    merge::{Group, Merged, merge_into},
    own::OwnColumn,
    pieces::grid,
    plan::{Domain, GroupPlan, Locate, ParamSource, Plan, Source, Stage},
    range::RangeRun,
    scan::{Kept, WindowRun},
    series::{Axis, Leaf, Series},
    stats, strips, view,
    window::WindowPlan,
};

mod inside;
mod seen;

/// Rows that are computed together: their columns stay in the first cache.
pub(crate) const CHUNK: usize = 2048;

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
    /// Codes of strings.
    pub(crate) texts: &'a HashMap<String, u32>,
    /// Strings by their codes.
    pub(crate) words: &'a [String],
    pub(crate) functions: &'a Functions,
    pub(crate) control: &'a Control,
    /// How much of the run's work this piece is.
    pub(crate) work: u64,
    /// How old an event may be that is held, if there is such a limit for all.
    pub(crate) age: Option<i64>,
    /// What is known of its rows already, if it is a strip.
    pub(crate) carried: Option<Carried<'a>>,
    /// Whether streams may go on after their last rows: then nothing takes these for the end.
    pub(crate) open: bool,
}

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
        /// Past the caches.
        streaming: bool,
    },
}

/// A column of the output that pieces write side by side, each at rows of its own that begin at a multiple of 64.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ty: Ty,
    pub(crate) values: Returned,
    pub(crate) validity: Option<Returned>,
}

impl Shared {
    /// A column of `rows` rows.
    pub(crate) fn new(ty: Ty, nullable: bool, rows: usize) -> Self {
        let padded = rows.next_multiple_of(LANES);
        let bytes = if ty == Ty::Bool {
            padded / 8
        } else {
            padded * ty.bytes()
        };
        Self {
            ty,
            values: Returned::new(bytes),
            validity: nullable.then(|| Returned::new(padded / 8)),
        }
    }
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
            let computed = StageRun::run(self, stage, &axis, &series, is_output)?;
            if let (Some(stats), Some(begun)) = (self.control.stats(), begun) {
                let rows = match &self.wanted {
                    Wanted::Rows { rows, .. } if is_output => rows.len(),
                    _ => computed.axis.len(),
                };
                let read = stats::bytes_read(stage, &series);
                let bits = stats::row_bits(self.plan, stage);
                stats.stage(number, rows, read, bits, begun.elapsed());
            }
            series.insert(stage.stream, computed);
        }
        Ok(series)
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
    fn axis(&self, stage: &Stage, series: &BTreeMap<StreamId, Series>) -> Arc<Axis> {
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
            } => {
                let merged = self.merged(groups, required, series, None);
                let starts = INSTANTS.lend(merged.starts);
                let timeline = Timeline::intervals(starts, INSTANTS.lend(merged.ends));
                Arc::new(Axis::new(timeline, merged.choices))
            }
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
    /// For ranges that see only the events of their source: all series as they see them.
    seen: BTreeMap<usize, BTreeMap<StreamId, Series>>,
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

/// A column being written: its first row.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) ty: Ty,
    pub(crate) values: *mut u8,
    pub(crate) validity: *mut u8,
}

impl<'a> StageRun<'a> {
    fn run(
        piece: &'a Piece<'a>,
        stage: &'a Stage,
        axis: &'a Arc<Axis>,
        series: &'a BTreeMap<StreamId, Series>,
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
            seen: BTreeMap::new(),
        };
        this.seen = this.events_only()?;
        if let (
            Wanted::Rows {
                columns,
                at,
                streaming,
                ..
            },
            true,
        ) = (&piece.wanted, is_output)
        {
            this.main = stage.streaming.filter(|_| *streaming).unwrap_or(stage.main);
            if piece.carried.is_some() {
                this.before = at - lead;
            } else {
                assert_eq!(lead, 0, "recurrences have memory of their own");
            }
            this.targets = columns.iter().map(|c| Output::from(c, *at)).collect();
            this.compute(rows, &mut Vec::new())?;
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
        if let Some(Carried { rows, series }) = piece.carried.filter(|carried| carried.rows > 0) {
            this.before = rows;
            strips::carry(&own, lead, rows, &series[&stage.stream]);
        }
        let computed = rows.start + this.before..rows.end;
        let at = lead + this.before;
        this.targets = own.iter().map(|c| Output::from(c, at)).collect();
        this.compute(computed, &mut Vec::new())?;
        Ok(finish(stage, axis, rows, wanted, lead, own))
    }

    /// Computes some rows of a stage of which all before are known: columns go on where `targets` begin.
    pub(crate) fn go_on(
        piece: &'a Piece<'a>,
        stage: &'a Stage,
        axis: &'a Axis,
        series: &'a BTreeMap<StreamId, Series>,
        rows: Range<usize>,
        targets: Vec<Output>,
        kept: &mut Vec<Kept>,
    ) -> Result<(), Trouble> {
        let mut this = StageRun {
            piece,
            stage,
            axis,
            series,
            targets,
            lead: lead(stage),
            before: rows.start,
            rows: rows.len().next_multiple_of(LANES),
            main: stage.main,
            seen: BTreeMap::new(),
        };
        this.seen = this.events_only()?;
        this.compute(rows, kept)
    }

    /// Computes some rows. Windows go on from what they have kept of the rows before, if that is anything, and keep it for the rows after.
    fn compute(&self, rows: Range<usize>, kept: &mut Vec<Kept>) -> Result<(), Trouble> {
        let stage = self.stage;
        let sources = locate::sources(self.piece, stage, self.axis, self.series);
        let locators = locate::locators(self.piece, stage, self.axis, self.series, &sources);
        let all = |range: usize| self.all(range);
        let range_sources: Vec<cursor::Source> = stage
            .ranges
            .iter()
            .enumerate()
            .map(|(number, r)| {
                let all = if self.is_folded(number) {
                    self.series
                } else {
                    all(number)
                };
                let counts = matches!(r.bounds, Bounds::Ordinal { .. });
                let present = all[&r.stream].presence().filter(|_| counts);
                self.piece.source(r.stream, all, present)
            })
            .collect();
        let ranges: Vec<RangeRun> = stage
            .ranges
            .iter()
            .zip(&range_sources)
            .enumerate()
            .map(|(number, (plan, source))| {
                let range = RangeRun::new(plan, self.axis, source);
                if !self.is_folded(number) {
                    return range;
                }
                let present = self.series[&plan.stream].presence();
                let events = self.piece.source(plan.stream, self.series, present);
                range.counted_by(Ranks::new(&events))
            })
            .collect();
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
                    .filter(|_| !self.seen.contains_key(&plan.range));
                WindowRun::new(self.piece, plan, range, all(plan.range), kept)
            })
            .collect();
        drop(before);
        // Without columns in between, nothing has to stay in a cache.
        let simple = windows.is_empty() && stage.locates.iter().all(Locate::in_place);
        let chunk = if simple { 16 * CHUNK } else { CHUNK };
        let mut scratch = Scratch::default();
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
                &mut scratch,
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
                let events_only = self.seen.contains_key(&window.plan.range);
                window.keep(!events_only)
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
        for window in windows.iter_mut() {
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
        let stage = self.stage;
        let (main, sources, params) = match &stage.inside {
            Some(loop_inside) if inside => {
                (loop_inside.main, &loop_inside.sources, &loop_inside.params)
            }
            _ => (self.main, &stage.sources, &stage.params),
        };
        let mut full = stage.full.iter();
        let main = match full.find(|(number, _)| *number == main) {
            Some((_, full)) if chunk.ranges.iter().all(|r| r.is_full(&chunk.rows)) => *full,
            _ => main,
        };
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
        let params: Vec<u64> = params.iter().map(|p| self.param(p, chunk.ranges)).collect();
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

    fn view(&self, source: &Source, nullable: bool, chunk: &mut Chunk) -> View {
        let Chunk {
            rows,
            at,
            located,
            ranges,
            windows,
            called,
            scratch,
        } = chunk;
        let n = rows.len();
        match source {
            Source::OwnRows { rows } => {
                let first = *at as i64 + rows;
                let existing = self.before as i64 + first;
                View {
                    validity: view::bit_rows(None, usize::MAX >> 1, existing, n, scratch),
                    ..self.own_view(OwnColumn::Value(0), first)
                }
            }
            Source::OwnTable(column) => self.own_view(*column, -(self.before as i64)),
            Source::Position { locate } => match &located[*locate] {
                Located::Index(index) => View {
                    validity: index.found.as_ptr(),
                    ..view::column(index.positions)
                },
                Located::Moved { of, positions } => {
                    let Located::Index(index) = &located[*of] else {
                        unreachable!("an index is moved")
                    };
                    let moved = scratch.slice::<u32>(index.positions.len());
                    for (moved, position) in moved.iter_mut().zip(&*index.positions) {
                        *moved = position.wrapping_add(*positions as u32);
                    }
                    View {
                        validity: index.found.as_ptr(),
                        ..view::column(moved)
                    }
                }
                Located::Rows(_) | Located::Runs(_) | Located::Nowhere => {
                    unreachable!("positions are looked for")
                }
            },
            Source::EndsTable => view::column(self.axis.ends()),
            Source::Leaf {
                stream,
                leaf,
                locate,
            } => {
                let leaf = &self.series[stream].leaves[*leaf];
                match &located[*locate] {
                    Located::Rows(first) => view::rows(leaf, *first, n, nullable, scratch),
                    Located::Nowhere => view::rows(leaf, leaf.len as i64, n, nullable, scratch),
                    Located::Runs(runs) => view::runs(leaf, runs, n, nullable, scratch),
                    Located::Index(index) => index.view(leaf, nullable, scratch),
                    Located::Moved { of, positions } => {
                        let Located::Index(index) = &located[*of] else {
                            unreachable!("an index is moved")
                        };
                        index.moved(leaf, *positions)
                    }
                }
            }
            Source::Present { stream, locate } => {
                let series = &self.series[stream];
                let (len, present) = (series.axis.len(), series.presence());
                let validity = match &located[*locate] {
                    Located::Rows(first) => view::bit_rows(present, len, *first, n, scratch),
                    Located::Nowhere => view::bit_rows(present, len, len as i64, n, scratch),
                    Located::Runs(runs) => view::bit_runs(runs, n, |_| true, scratch),
                    Located::Index(index) => index.valid(present, scratch),
                    // It leads somewhere in all rows.
                    Located::Moved { .. } => view::bit_rows(None, n, 0, n, scratch),
                };
                View {
                    validity,
                    ..view::nothing()
                }
            }
            Source::Starts => {
                let starts = scratch.slice::<i64>(n.next_multiple_of(LANES));
                for (start, row) in starts.iter_mut().zip(rows.clone()) {
                    *start = self.axis.timeline.start(row);
                }
                view::column(starts)
            }
            Source::Ends => {
                let ends = scratch.slice::<i64>(n.next_multiple_of(LANES));
                ends[..n].copy_from_slice(&self.axis.ends()[rows.clone()]);
                view::column(ends)
            }
            Source::Edge {
                stream,
                locate,
                edge,
            } => {
                let axis = &self.series[stream].axis;
                let edges = scratch.slice::<i64>(n.next_multiple_of(LANES));
                let out = edges[..n].iter_mut().enumerate();
                match &located[*locate] {
                    Located::Nowhere => edges.fill(0),
                    Located::Rows(first) => {
                        let edge_of = axis.edges(*edge);
                        out.for_each(|(row, out)| *out = edge_of(first + row as i64));
                    }
                    Located::Index(index) => {
                        let edge_of = axis.edges(*edge);
                        out.for_each(|(row, out)| *out = edge_of(i64::from(index.positions[row])));
                    }
                    Located::Runs(runs) => {
                        let edge_of = axis.edges(*edge);
                        let mut rest = &mut *edges;
                        for run in runs {
                            let (these, others) = rest.split_at_mut(run.rows);
                            these.fill(edge_of(i64::from(run.position)));
                            rest = others;
                        }
                    }
                    Located::Moved { .. } => unreachable!("edges of periodic events are computed"),
                }
                view::column(edges)
            }
            Source::Call(call) => called[*call],
            Source::Window { window, column } => {
                let window = &windows[*window];
                window.view(*column, &ranges[window.plan.range], rows, scratch)
            }
            Source::RangeFirst(range) => view::column(ranges[*range].bounds(scratch).0),
            Source::RangeEnd(range) => view::column(ranges[*range].bounds(scratch).1),
            Source::RangeSplit(range) => view::column(ranges[*range].split(scratch)),
            Source::Anchor {
                range,
                stream,
                leaf,
                early,
            } => {
                let leaf = &self.all(*range)[stream].leaves[*leaf];
                ranges[*range].anchors(leaf, *early, scratch)
            }
        }
    }

    /// A column that the stage writes, from `first` on, which may lie before its first row.
    fn own_view(&self, column: OwnColumn, first: i64) -> View {
        let (_, target) = self
            .stage
            .own
            .iter()
            .find(|(c, _)| *c == column)
            .expect("a planned column");
        let output = &self.targets[*target];
        let bytes = output.ty.bytes() as isize;
        View {
            values: output.values.wrapping_offset(first as isize * bytes),
            lead: ((self.lead + self.before) as i64 + first) as u64,
            len: (self.rows as i64 - first) as u64,
            ..view::nothing()
        }
    }

    fn param(&self, param: &ParamSource, ranges: &[RangeRun]) -> u64 {
        let value = match param {
            ParamSource::FirstEnd => self.axis.regular_ends().unwrap_or(0),
            ParamSource::FirstEdge(stream, edge) => self.series[stream].axis.edges(*edge)(0),
            ParamSource::RunStart => self.piece.run.start,
            ParamSource::RunEnd => self.piece.run.end,
            ParamSource::Text(text) => i64::from(self.piece.texts[text]),
            ParamSource::RangeLo(range) => ranges[*range].offsets().0,
            ParamSource::RangeHi(range) => ranges[*range].offsets().1,
            ParamSource::RangeLen(range) => ranges[*range].len() as i64,
        };
        value as u64
    }
}

impl Output {
    /// A column from row `at` on.
    pub(crate) fn from(column: &Shared, at: usize) -> Self {
        let output = Self {
            ty: column.ty,
            values: column.values.as_ptr(),
            validity: column
                .validity
                .as_ref()
                .map_or(std::ptr::null_mut(), Returned::as_ptr),
        };
        let Target {
            values, validity, ..
        } = output.target(at);
        Self {
            values,
            validity,
            ..output
        }
    }

    fn target(&self, at: usize) -> Target {
        let offset = if self.ty == Ty::Bool {
            at / 8
        } else {
            at * self.ty.bytes()
        };
        Target {
            values: self.values.wrapping_add(offset),
            validity: if self.validity.is_null() {
                self.validity
            } else {
                self.validity.wrapping_add(at / 8)
            },
            len: u64::MAX >> 1,
        }
    }
}

/// How many rows a stage must be able to read before its first.
pub(crate) fn lead(stage: &Stage) -> usize {
    let lead = stage.sources.iter().map(|source| match source {
        Source::OwnRows { rows } => rows.unsigned_abs() as usize,
        _ => 0,
    });
    lead.max().unwrap_or(0).next_multiple_of(LANES)
}

/// The series that a stage has written.
fn finish(
    stage: &Stage,
    axis: &Arc<Axis>,
    rows: Range<usize>,
    wanted: Range<usize>,
    lead: usize,
    columns: Vec<Shared>,
) -> Series {
    let skip = wanted.start.max(rows.start) - rows.start + lead;
    let kept = wanted.len();
    let axis = if wanted == (0..axis.len()) {
        Arc::clone(axis)
    } else {
        let timeline = axis.timeline.slice(wanted.start.min(axis.len()), kept);
        Arc::new(Axis::new(timeline, Vec::new()))
    };
    series_of(stage, axis, columns, rows.len() + lead, skip)
}

/// The series of written columns of `len` rows, those before `skip` left out.
pub(crate) fn series_of(
    stage: &Stage,
    axis: Arc<Axis>,
    columns: Vec<Shared>,
    len: usize,
    skip: usize,
) -> Series {
    let kept = axis.len();
    let padded = len.next_multiple_of(LANES);
    let mut columns = columns.into_iter().map(|column| {
        let bytes = if column.ty == Ty::Bool {
            padded / 8
        } else {
            padded * column.ty.bytes()
        };
        let values = column.values.into_buffer(bytes);
        let valid = column.validity.map(|v| v.into_buffer(padded / 8));
        let leaf = Leaf::written(column.ty, len, values, valid);
        if skip > 0 || kept < len {
            leaf.slice(skip, kept)
        } else {
            leaf
        }
    });
    let leaves: Vec<Leaf> = columns.by_ref().take(stage.facts.leaves.len()).collect();
    let present: Option<BooleanBuffer> = if stage.facts.is_record() {
        // What follows the leaves of a record that is always there, only the stage itself reads.
        let present = columns.next().filter(|_| stage.facts.nullable);
        present.and_then(|leaf| leaf.bits().cloned())
    } else {
        leaves[0].valid.clone()
    };
    Series {
        axis,
        leaves,
        present,
    }
}
