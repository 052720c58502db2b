//! Running a plan on one piece of the timeline.
//!
//! Stages run one after the other, each over its rows in chunks: what the chunk reads is found first ([`Located`], `range`), windows are brought up to date, then the
//! main loop computes all rows at once.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use arrow_buffer::BooleanBuffer;
use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{LANES, Lanes, Sink, Ty},
};
use tilt_data::{Spans, Timeline};
use tilt_ir::{Edge, Span, StreamId};

use crate::{
    code::Code,
    cursor::{self, Active, Held, NONE, Policy, Ranks, Shape},
    memory::{Returned, Scratch},
    merge::{Group, merge},
    pieces::cells,
    plan::{Domain, GroupPlan, Locate, ParamSource, Pick, Plan, Source, Stage},
    range::RangeRun,
    scan::WindowRun,
    series::{Axis, Leaf, Series},
    view::{self, Index},
};

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
        let mut series = inputs;
        let mut last = None;
        for (number, stage) in self.plan.stages.iter().enumerate() {
            let is_output = number + 1 == self.plan.stages.len();
            let axis = self.axis(stage, &series);
            let computed = StageRun::run(self, stage, &axis, &series, is_output)?;
            series.insert(stage.stream, computed);
            last = Some(stage.stream);
        }
        let output = last.and_then(|id| series.remove(&id));
        output.ok_or(Trouble("a plan without stages"))
    }

    /// Where a stream has events, given where it has values.
    fn source<'s>(
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

    /// The rows of a stage.
    fn axis(&self, stage: &Stage, series: &BTreeMap<StreamId, Series>) -> Arc<Axis> {
        match &stage.domain {
            Domain::On(stream) => Arc::clone(&series[stream].axis),
            Domain::Grid { period, offset } => {
                Arc::new(Axis::new(cells(*period, *offset, self.scope), Vec::new()))
            }
            Domain::Merge { twin: Some(twin), .. } => Arc::clone(&series[twin].axis),
            Domain::Merge { groups, twin: None } => {
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
                let merged = merge(&groups, None);
                let timeline = Timeline::intervals(merged.starts.into(), merged.ends.into());
                Arc::new(Axis::new(timeline, merged.choices))
            }
        }
    }
}

/// Where a locate leads for the rows of a chunk.
enum Located {
    /// Row `i` of the chunk reads position `first + i`.
    Rows(i64),
    /// Nowhere.
    Nowhere,
    Index(Index),
}

/// A reader of positions.
enum Locator<'a> {
    Rows(i64),
    Nowhere,
    Active(Active<'a>, i64),
    Held(Held<'a>, i64),
    Choice(&'a [u32]),
    Prev(Ranks, usize, u32),
    Range { range: usize, last: bool },
}

/// A stage while it runs.
struct StageRun<'a> {
    piece: &'a Piece<'a>,
    stage: &'a Stage,
    axis: &'a Axis,
    series: &'a BTreeMap<StreamId, Series>,
    targets: Vec<Output>,
    /// Rows that are kept before the first, for what a recurrence reads.
    lead: usize,
    /// The loop that is called.
    main: usize,
}

/// A column being written: its first row.
#[derive(Clone, Copy)]
struct Output {
    ty: Ty,
    values: *mut u8,
    validity: *mut u8,
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
        let first = if main.lanes == Lanes::One { 0 } else { wanted.start };
        let rows = first..wanted.end.max(first);
        let lead = stage.locates.iter().map(|locate| match locate {
            Locate::Own { rows } => rows.unsigned_abs() as usize,
            _ => 0,
        });
        let lead = lead.max().unwrap_or(0).next_multiple_of(LANES);
        let Sink::Store { columns, .. } = &main.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let mut this = StageRun {
            piece,
            stage,
            axis,
            series,
            targets: Vec::new(),
            lead,
            main: stage.main,
        };
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
            assert_eq!(lead, 0, "recurrences have memory of their own");
            this.targets = columns.iter().map(|c| Output::shared(c, *at)).collect();
            this.compute(rows)?;
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
        this.targets = own.iter().map(|c| Output::own(c, lead)).collect();
        this.compute(rows.clone())?;
        Ok(finish(stage, axis, rows, wanted, lead, own))
    }

    fn compute(&mut self, rows: Range<usize>) -> Result<(), Trouble> {
        let stage = self.stage;
        let sources = self.cursor_sources();
        let mut locators = self.locators(&sources);
        let range_sources: Vec<cursor::Source> = stage
            .ranges
            .iter()
            .map(|r| self.piece.source(r.stream, self.series, None))
            .collect();
        let mut ranges: Vec<RangeRun> = stage
            .ranges
            .iter()
            .zip(&range_sources)
            .map(|(plan, source)| RangeRun::new(plan, self.axis, source))
            .collect();
        let mut windows: Vec<WindowRun> = stage
            .windows
            .iter()
            .map(|plan| WindowRun::new(plan, &stage.ranges[plan.range], self.series))
            .collect();
        let mut scratch = Scratch::default();
        let mut start = rows.start;
        while start < rows.end {
            let end = rows.end.min(start + CHUNK);
            scratch.reset();
            self.chunk(
                start..end,
                start - rows.start,
                &mut locators,
                &mut ranges,
                &mut windows,
                &mut scratch,
            )?;
            start = end;
        }
        if windows.iter().any(WindowRun::may_overflow) {
            return Err(Trouble("an integer total that may not fit into 64 bits"));
        }
        Ok(())
    }

    /// What readers read from, one for each locate that needs one.
    fn cursor_sources(&self) -> Vec<Option<cursor::Source<'a>>> {
        let source = |locate: &Locate| match locate {
            Locate::ByTime { stream, .. }
            | Locate::Held { stream, .. }
            | Locate::Prev { stream, .. } => {
                let present = self.series[stream].presence();
                Some(self.piece.source(*stream, self.series, present))
            }
            _ => None,
        };
        self.stage.locates.iter().map(source).collect()
    }

    fn locators<'s>(&self, sources: &'s [Option<cursor::Source<'s>>]) -> Vec<Locator<'s>>
    where
        'a: 's,
    {
        let axis = self.axis;
        let locator = |(locate, source): (&Locate, &'s Option<cursor::Source<'s>>)| match locate {
            Locate::Same => Locator::Rows(0),
            Locate::Rows { rows, .. } | Locate::Own { rows } => Locator::Rows(*rows),
            Locate::Affine { stream, offset } => affine(axis, &self.series[stream].axis, *offset),
            Locate::ByTime {
                offset, overlap, ..
            } => {
                let policy = match overlap {
                    Pick::Only => Policy::Unique,
                    Pick::First => Policy::First,
                    Pick::Last => Policy::Last,
                };
                let source = source.as_ref().expect("a source for every reader");
                Locator::Active(Active::new(source, policy), *offset)
            }
            Locate::Held {
                offset, max_age, ..
            } => {
                let source = source.as_ref().expect("a source for every reader");
                Locator::Held(Held::new(source, *max_age, self.piece.run.end), *offset)
            }
            Locate::Choice(group) => Locator::Choice(&axis.choices[*group]),
            Locate::Prev { of, n, .. } => {
                let source = source.as_ref().expect("a source for every reader");
                Locator::Prev(Ranks::new(source), *of, *n)
            }
            Locate::Range { range, last } => Locator::Range {
                range: *range,
                last: *last,
            },
        };
        self.stage.locates.iter().zip(sources).map(locator).collect()
    }

    fn chunk(
        &self,
        rows: Range<usize>,
        at: usize,
        locators: &mut [Locator],
        ranges: &mut [RangeRun],
        windows: &mut [WindowRun],
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        for range in ranges.iter_mut() {
            range.locate(rows.clone(), scratch);
        }
        for window in windows.iter_mut() {
            let range = &mut ranges[window.plan.range];
            window.advance(self.piece, range, rows.clone(), scratch);
        }
        let mut located: Vec<Located> = Vec::with_capacity(locators.len());
        for locator in locators {
            let found = self.locate(locator, rows.clone(), &located, ranges, scratch)?;
            located.push(found);
        }
        let main = &self.piece.plan.loops[self.stage.main];
        let views: Vec<View> = self
            .stage
            .sources
            .iter()
            .zip(main.accesses.iter())
            .map(|(source, (_, access))| {
                self.view(source, access.nullable, &rows, at, &located, ranges, windows, scratch)
            })
            .collect();
        let params: Vec<u64> = self.stage.params.iter().map(|p| self.param(p, ranges)).collect();
        let targets: Vec<Target> = self.targets.iter().map(|t| t.target(at)).collect();
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first: rows.start as i64,
            rows: rows.len() as u64,
        };
        // SAFETY: views cover the rows up to a whole group, and targets have room for as many.
        unsafe {
            self.piece
                .code
                .call(&self.piece.plan.loops, self.main, &args);
        }
        Ok(())
    }

    fn locate(
        &self,
        locator: &mut Locator,
        rows: Range<usize>,
        earlier: &[Located],
        ranges: &mut [RangeRun],
        scratch: &mut Scratch,
    ) -> Result<Located, Trouble> {
        let n = rows.len();
        let mut positions = |scratch: &mut Scratch| scratch.slice::<u32>(n.next_multiple_of(LANES));
        Ok(match locator {
            Locator::Rows(offset) => Located::Rows(rows.start as i64 + *offset),
            Locator::Nowhere => Located::Nowhere,
            Locator::Active(reader, offset) => {
                let out = positions(scratch);
                let at = self.axis.instants().plus(*offset);
                reader
                    .read(at, rows, &mut out[..n])
                    .map_err(|_| Trouble("a read that may be ambiguous"))?;
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Held(reader, offset) => {
                let out = positions(scratch);
                reader.read(self.axis.instants().plus(*offset), rows, &mut out[..n]);
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Choice(choices) => {
                let out = positions(scratch);
                out[..n].copy_from_slice(&choices[rows]);
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Prev(ranks, of, count) => {
                let out = positions(scratch);
                for (row, out) in out[..n].iter_mut().enumerate() {
                    let current = match &earlier[*of] {
                        Located::Rows(first) => (first + row as i64) as u32,
                        Located::Nowhere => NONE,
                        Located::Index(index) if index.found[row / 8] & (1 << (row % 8)) != 0 => {
                            index.positions[row]
                        }
                        Located::Index(_) => NONE,
                    };
                    *out = ranks.nth_before_event(current, *count);
                }
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Range { range, last } => {
                let out = positions(scratch);
                let (first, end) = ranges[*range].bounds(scratch);
                for (row, out) in out[..n].iter_mut().enumerate() {
                    let (first, end) = (first[row], end[row]);
                    let position = if *last { end.wrapping_sub(1) } else { first };
                    *out = if first < end { position } else { NONE };
                }
                Located::Index(Index::new(out, n, scratch))
            }
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn view(
        &self,
        source: &Source,
        nullable: bool,
        rows: &Range<usize>,
        at: usize,
        located: &[Located],
        ranges: &mut [RangeRun],
        windows: &[WindowRun],
        scratch: &mut Scratch,
    ) -> View {
        let n = rows.len();
        match source {
            Source::Leaf { locate, .. } if matches!(self.stage.locates[*locate], Locate::Own { .. }) => {
                self.own_view(&self.stage.locates[*locate], at, n, scratch)
            }
            Source::Leaf {
                stream,
                leaf,
                locate,
            } => {
                let leaf = &self.series[stream].leaves[*leaf];
                match &located[*locate] {
                    Located::Rows(first) => view::rows(leaf, *first, n, nullable, scratch),
                    Located::Nowhere => view::rows(leaf, leaf.len as i64, n, nullable, scratch),
                    Located::Index(index) => index.view(leaf, nullable, scratch),
                }
            }
            Source::Present { stream, locate } => {
                let series = &self.series[stream];
                let (len, present) = (series.axis.len(), series.presence());
                let validity = match &located[*locate] {
                    Located::Rows(first) => view::bit_rows(present, len, *first, n, scratch),
                    Located::Nowhere => view::bit_rows(present, len, len as i64, n, scratch),
                    Located::Index(index) => index.valid(present, scratch),
                };
                View {
                    validity,
                    ..view::nothing()
                }
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
                let timeline = &self.series[stream].axis.timeline;
                let edges = scratch.slice::<i64>(n.next_multiple_of(LANES));
                for (row, out) in edges[..n].iter_mut().enumerate() {
                    let position = match &located[*locate] {
                        Located::Rows(first) => first + row as i64,
                        Located::Nowhere => -1,
                        Located::Index(index) => i64::from(index.positions[row]),
                    };
                    let position = usize::try_from(position).ok().filter(|p| *p < timeline.len());
                    *out = position.map_or(0, |p| match edge {
                        Edge::Start => timeline.start(p),
                        Edge::End => timeline.end(p),
                    });
                }
                view::column(edges)
            }
            Source::Window { window, column } => {
                let window = &windows[*window];
                window.view(*column, &mut ranges[window.plan.range], rows, scratch)
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
                let leaf = &self.series[stream].leaves[*leaf];
                ranges[*range].anchors(leaf, *early, scratch)
            }
        }
    }

    /// Earlier rows of what the stage itself writes.
    fn own_view(&self, locate: &Locate, at: usize, n: usize, scratch: &mut Scratch) -> View {
        let Locate::Own { rows } = locate else {
            unreachable!("only recurrences read their own rows")
        };
        let output = &self.targets[0];
        let first = at as i64 + rows;
        let bytes = output.ty.bytes();
        View {
            values: output.values.wrapping_offset(first as isize * bytes as isize),
            validity: view::bit_rows(None, usize::MAX >> 1, first, n, scratch),
            lead: (self.lead as i64 + first) as u64,
            ..view::nothing()
        }
    }

    fn param(&self, param: &ParamSource, ranges: &[RangeRun]) -> u64 {
        let value = match param {
            ParamSource::FirstEnd => self.axis.regular_ends().unwrap_or(0),
            ParamSource::RunStart => self.piece.run.start,
            ParamSource::RunEnd => self.piece.run.end,
            ParamSource::Text(text) => i64::from(self.piece.texts[text]),
            ParamSource::RangeLo(range) => ranges[*range].steady().0,
            ParamSource::RangeHi(range) => ranges[*range].steady().1,
            ParamSource::RangeLen(range) => ranges[*range].len() as i64,
            ParamSource::Anchor => unreachable!("only scans of windows have an anchor"),
        };
        value as u64
    }
}

/// How rows lead to positions of another timeline with the same period.
fn affine<'a>(here: &Axis, there: &Axis, offset: i64) -> Locator<'a> {
    let (Some(t), Some(end), Some(period)) =
        (here.regular_ends(), there.regular_ends(), there.timeline.period())
    else {
        return Locator::Nowhere;
    };
    let Spans::Fixed(length) = there.timeline.spans() else {
        return Locator::Nowhere;
    };
    // The first position that ends at or after the instant; it must have begun before it.
    let distance = i128::from(t) + i128::from(offset) - i128::from(end);
    let period = i128::from(period);
    let position = distance.div_euclid(period) + i128::from(distance.rem_euclid(period) != 0);
    if position * period - distance >= i128::from(*length) {
        return Locator::Nowhere;
    }
    i64::try_from(position).map_or(Locator::Nowhere, Locator::Rows)
}

impl Output {
    /// A column of the stage's own, after `lead` rows.
    fn own(column: &Shared, lead: usize) -> Self {
        Self::shared(column, lead)
    }

    /// A column from row `at` on.
    fn shared(column: &Shared, at: usize) -> Self {
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
    let present: Option<BooleanBuffer> = if stage.facts.record {
        columns.next().and_then(|leaf| leaf.bits().cloned())
    } else {
        leaves[0].valid.clone()
    };
    Series {
        axis,
        leaves,
        present,
    }
}
