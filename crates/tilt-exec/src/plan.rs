//! Plans: from a program and the facts of its data to loops and what each of them reads.
//!
//! Every temporal expression is a **stage**: the rows of its clock, and one loop that computes them. What the loop reads is a list of [`Source`]s, parallel to its
//! accesses: columns of earlier stages found by a [`Locate`], results of windows, instants. `run` turns each into a pointer for a chunk of rows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::atomic::AtomicBool,
};

use tilt_codegen::{
    lir::{AccessId, Lanes, Loop, Sink, Store},
    lower::{Body, Lowering, Term, Unsupported, Valid},
};
use tilt_ir::{
    Clock, DType, Edge, ExprId, Id, Overlap, Program, Source as ClockSource, StreamId, Temporal,
    Timeline, Timelines,
};

use crate::{
    call::CallPlan,
    cells::CalendarRows,
    facts::{AxisFacts, LeafFacts, SeriesFacts},
    own::{OwnBack, OwnColumn},
    reads::{Found, Kind, StageReads},
    run::{CHUNK, LONG_CHUNK},
    scatter::{self, ScatterPlan},
    slack,
    window::{RangePlan, WindowPlan},
};

mod inside;
mod passed;
mod readers;

pub(crate) use passed::{Sharing, passed_on};
pub(crate) use readers::last_read;

/// A program as loops.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) stages: Vec<Stage>,
    pub(crate) loops: Vec<Loop>,
    /// What is known of the timelines of all streams.
    pub(crate) axes: BTreeMap<StreamId, AxisFacts>,
    /// How far from the run an event of any stage can end, in ticks; `None` if 64 bits do not hold it.
    pub(crate) slack: Option<i64>,
    /// How far around its own events any stage reads, in ticks, all of them together; `None` without limit.
    pub(crate) reach: Option<i64>,
    /// Whether a run found gaps where the plan assumes that there are none.
    pub(crate) gaps: AtomicBool,
    /// Where the rows of the output come from.
    pub(crate) root: Root,
    /// Which columns of the output are the input's.
    pub(crate) sharing: Option<Sharing>,
    /// How windows by key are computed in one pass over the rows of all keys, if they can be.
    pub(crate) scatter: Option<ScatterPlan>,
    /// Whether rows that are in running totals may be forgotten.
    pub(crate) carried: bool,
}

impl Plan {
    /// Loops that small data never call: those for an output that the caches cannot hold, and for chunks of rows all of whose windows lie
    /// whole in their sources.
    pub(crate) fn late(&self) -> Vec<usize> {
        let of_stage = |stage: &Stage| {
            let full = stage.full.iter().map(|(_, full)| *full);
            let past = stage.streaming.iter().flat_map(|streaming| {
                let inside = stage.inside.iter().map(|inside| inside.main);
                inside.chain([*streaming])
            });
            past.chain(full).collect::<Vec<_>>()
        };
        let late = self.stages.iter().flat_map(of_stage);
        late.chain(self.not_shared()).collect()
    }
}

/// Where rows come from, through all stages that share them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// The rows of an input.
    Input(StreamId),
    /// The cells of a grid.
    Grid { period: i64, offset: i64 },
    /// The cells of a calendar, which are the rows of a stage.
    Calendar { stage: usize },
    /// The events of a merge, or sessions: as many as there are.
    Merge,
}

/// One temporal expression.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) stream: StreamId,
    pub(crate) name: String,
    pub(crate) domain: Domain,
    pub(crate) locates: Vec<Locate>,
    pub(crate) ranges: Vec<RangePlan>,
    pub(crate) windows: Vec<WindowPlan>,
    /// External functions, in an order in which a call needs only those before it.
    pub(crate) calls: Vec<CallPlan>,
    /// What each access of the main loop reads.
    pub(crate) sources: Vec<Source>,
    /// What each parameter of the main loop is.
    pub(crate) params: Vec<ParamSource>,
    /// The main loop: stores the leaves, then whether there is an event if that is not always so, then what only the stage itself reads.
    pub(crate) main: usize,
    /// The same loop with stores past the caches, for an output that they cannot hold.
    pub(crate) streaming: Option<usize>,
    /// The main loop for rows all of which that are read exist. Where there is one with stores past the caches it takes the place of that one only.
    pub(crate) inside: Option<Inside>,
    /// Of these loops, by their numbers, those for rows whose windows lie whole in their sources, and have no gaps where these are counted.
    pub(crate) full: Vec<(usize, usize)>,
    /// Which of these the stage reads itself, and how far back.
    pub(crate) own: Vec<(OwnColumn, usize)>,
    pub(crate) own_back: OwnBack,
    pub(crate) facts: SeriesFacts,
}

impl Stage {
    /// How many rows are computed together. Without columns in between, nothing has to stay in a cache.
    pub(crate) fn chunk(&self) -> usize {
        let simple = self.windows.is_empty() && self.locates.iter().all(Locate::in_place);
        if simple { LONG_CHUNK } else { CHUNK }
    }

    /// The loop that a loop for windows which lie whole in their sources was made of.
    pub(crate) fn full_of(&self, number: usize) -> Option<usize> {
        let mut full = self.full.iter();
        full.find(|(_, n)| *n == number).map(|(of, _)| *of)
    }
}

/// A main loop that does not ask whether rows exist, and what it reads.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) main: usize,
    pub(crate) sources: Vec<Source>,
    pub(crate) params: Vec<ParamSource>,
}

/// The rows of a stage.
#[derive(Debug)]
pub(crate) enum Domain {
    /// The positions of an earlier stream.
    On(StreamId),
    /// The cells of a grid.
    Grid { period: i64, offset: i64 },
    /// The cells of a calendar.
    Calendar(CalendarRows),
    /// The sessions of a stream.
    Sessions {
        stream: StreamId,
        gap: i64,
        max: Option<i64>,
    },
    /// The events of an `on` clock; later stages with an equal clock share them.
    Merge {
        groups: Vec<GroupPlan>,
        /// Groups without which every body on this clock is φ: events that lack one are left out.
        required: Vec<bool>,
        twin: Option<StreamId>,
    },
}

/// What is chosen together in a merge.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum GroupPlan {
    Value {
        streams: Vec<StreamId>,
        offset: i64,
    },
    Hold {
        stream: StreamId,
        offset: i64,
        max_age: Option<i64>,
    },
    Window {
        stream: StreamId,
        lo: i64,
        hi: i64,
    },
}

impl GroupPlan {
    /// The streams of the group.
    pub(crate) fn streams(&self) -> &[StreamId] {
        match self {
            Self::Value { streams, .. } => streams,
            Self::Hold { stream, .. } | Self::Window { stream, .. } => std::slice::from_ref(stream),
        }
    }
}

/// Which position of another timeline a row reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Locate {
    /// The row itself.
    Same,
    /// A fixed number of rows away on the same timeline.
    Rows { stream: StreamId, rows: i64 },
    /// On another timeline with the same period: the same number of rows away for all rows, known when it runs.
    Affine { stream: StreamId, offset: i64 },
    /// On a timeline with a period many times as long: many rows read one position after the other.
    Coarse { stream: StreamId, offset: i64 },
    /// The event active at `t + offset`; `present` tells which positions of a bag count.
    ByTime {
        stream: StreamId,
        offset: i64,
        overlap: Pick,
        /// Whether rows and events are both periodic, so that it can be told beforehand which rows find one.
        periodic: bool,
    },
    /// What the merge chose.
    Choice(usize),
    /// The last event that ended by `t + offset`.
    Held {
        stream: StreamId,
        offset: i64,
        max_age: Option<i64>,
    },
    /// The n-th event before the one at another locate.
    Prev { of: usize, stream: StreamId, n: u32 },
    /// The row of the stage itself that was active at `t + offset`.
    OwnActive { offset: i64 },
    /// The last row of the stage itself that ended by `t + offset`.
    OwnEnded { offset: i64, max_age: Option<i64> },
    /// The first event of a window, or its last.
    Range { range: usize, last: bool },
}

/// Which of several active events is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    Only,
    First,
    Last,
}

impl Locate {
    /// Whether rows read neighbouring elements of a column, so that nothing is needed but the column.
    pub(crate) fn in_place(&self) -> bool {
        matches!(self, Self::Same | Self::Rows { .. } | Self::Affine { .. })
    }

    /// Whether which rows find something can be told from periods.
    pub(crate) fn is_periodic(&self) -> bool {
        matches!(self, Self::ByTime { periodic: true, .. })
    }

    /// Whether loops read it row by row, without an index.
    pub(crate) fn by_row(&self) -> bool {
        self.in_place() || matches!(self, Self::Coarse { .. })
    }
}

/// What an access of a loop reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A column of a stream.
    Leaf {
        stream: StreamId,
        leaf: usize,
        locate: usize,
    },
    /// Whether a stream has an event.
    Present { stream: StreamId, locate: usize },
    /// The ends of the rows.
    Ends,
    /// Their starts.
    Starts,
    /// An edge of the event found.
    Edge {
        stream: StreamId,
        locate: usize,
        edge: Edge,
    },
    /// The stage's own value some rows before.
    OwnRows { rows: i64 },
    /// What the stage itself has written, all rows.
    OwnTable(OwnColumn),
    /// The position that a locate finds.
    Position { locate: usize },
    /// The ends of all rows.
    EndsTable,
    /// A result of an external function.
    Call(usize),
    /// A result of a window.
    Window { window: usize, column: usize },
    /// Where a window begins, as a position.
    RangeFirst(usize),
    /// Where it ends.
    RangeEnd(usize),
    /// How many positions its late part has.
    RangeLate(usize),
    /// The value of a column next to the split of a window, before or after it by the direction of the loop.
    Anchor { stream: StreamId, leaf: usize },
    /// How far the one after the split is from the one before it.
    Distance {
        range: usize,
        stream: StreamId,
        leaf: usize,
    },
}

/// What a parameter of a loop is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ParamSource {
    /// The end of row 0 of a regular domain.
    FirstEnd,
    /// The edge of the position of a regular stream from which on a locate counts.
    FirstEdge {
        stream: StreamId,
        edge: Edge,
        locate: usize,
    },
    /// The code of a string.
    Text(String),
    RunStart,
    RunEnd,
    /// Position offsets of a steady range: first and end less the row, and the number of positions.
    RangeLo(usize),
    RangeHi(usize),
    RangeLen(usize),
}

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Purpose {
    /// Runs that have all rows which their results depend on. Joins may be assumed to be φ at their beginning and end only; runs check it.
    Whole { gapless: bool },
    /// Runs that forget rows which are in running totals: these count what they add, and nothing is assumed that rows to come may contradict.
    Carried,
}

/// Makes a plan.
pub(crate) fn plan(
    program: &Program,
    inputs: &BTreeMap<StreamId, SeriesFacts>,
    purpose: Purpose,
) -> Result<Plan, Unsupported> {
    // Rows of a union may be φ where those of a merge are not, and not every loop can take that.
    plan_with(program, inputs, purpose, true)
        .or_else(|_| plan_with(program, inputs, purpose, false))
}

fn plan_with(
    program: &Program,
    inputs: &BTreeMap<StreamId, SeriesFacts>,
    purpose: Purpose,
    unions: bool,
) -> Result<Plan, Unsupported> {
    let timelines = Timelines::new(program);
    let slack = slack::slack(program);
    let mut planner = Planner {
        program,
        timelines: &timelines,
        needed: needed(program),
        unions: unions && slack.is_some(),
        gapless: purpose == Purpose::Whole { gapless: true },
        carried: purpose == Purpose::Carried,
        facts: inputs.clone(),
        loops: Vec::new(),
        stages: Vec::new(),
        packed: None,
        maps: HashMap::new(),
    };
    for (id, temporal) in program.temporals() {
        if !planner.needed.contains(&id) {
            continue;
        }
        planner
            .stage(id, temporal)
            .map_err(|Unsupported(what)| Unsupported(format!("{what} in ~{}", temporal.name)))?;
    }
    let mut stages = planner.stages;
    if stages
        .last()
        .is_none_or(|stage| stage.stream != program.output)
    {
        return Err(Unsupported("an output that is an input".into()));
    }
    let root = root(&stages, program.output);
    let sharing = passed::sharing(program, &mut stages, root, &mut planner.loops);
    let scatter = scatter::plan(program, &stages, &mut planner.loops);
    Ok(Plan {
        sharing,
        scatter,
        carried: purpose == Purpose::Carried,
        slack,
        reach: reach(program, &timelines),
        gaps: AtomicBool::new(false),
        root,
        stages,
        loops: planner.loops,
        axes: planner
            .facts
            .into_iter()
            .map(|(id, facts)| (id, facts.axis))
            .collect(),
    })
}

/// The streams that the output depends on.
fn needed(program: &Program) -> BTreeSet<StreamId> {
    let mut needed = BTreeSet::new();
    let mut open = vec![program.output];
    while let Some(stream) = open.pop() {
        if !needed.insert(stream) {
            continue;
        }
        if let Some(temporal) = program.streams[stream].as_temporal() {
            open.extend(temporal.clock.streams());
            program.walk(temporal.body, &mut |_, expr| open.extend(expr.stream()));
        }
    }
    needed
}

fn root(stages: &[Stage], stream: StreamId) -> Root {
    let Some(stage) = stages.iter().position(|s| s.stream == stream) else {
        return Root::Input(stream);
    };
    match &stages[stage].domain {
        Domain::On(stream) => root(stages, *stream),
        Domain::Grid { period, offset } => Root::Grid {
            period: *period,
            offset: *offset,
        },
        Domain::Calendar(_) => Root::Calendar { stage },
        Domain::Merge { .. } | Domain::Sessions { .. } => Root::Merge,
    }
}

pub(crate) struct Planner<'a> {
    pub(crate) program: &'a Program,
    pub(crate) timelines: &'a Timelines,
    /// The streams that the output depends on.
    pub(crate) needed: BTreeSet<StreamId>,
    /// Whether joins on one grid may be the cells of that grid.
    pub(crate) unions: bool,
    /// Whether joins are assumed to be φ at their beginning and end only; runs check it.
    pub(crate) gapless: bool,
    /// Whether rows that are in running totals may be forgotten.
    pub(crate) carried: bool,
    pub(crate) facts: BTreeMap<StreamId, SeriesFacts>,
    pub(crate) loops: Vec<Loop>,
    /// Every stage comes after those that it reads.
    pub(crate) stages: Vec<Stage>,
    /// The input whose gaps are left out of the window being planned.
    pub(crate) packed: Option<StreamId>,
    /// Maps that are stages, by the source of their window.
    maps: HashMap<(StreamId, ExprId), StreamId>,
}

/// What a stage computes.
struct Definition<'d, 'p> {
    stream: StreamId,
    name: &'d str,
    clock: &'d Clock,
    dtype: &'p DType,
    body: ExprId,
}

impl<'p> Planner<'p> {
    fn stage(&mut self, stream: StreamId, temporal: &'p Temporal) -> Result<(), Unsupported> {
        let domain = self.domain(stream, temporal)?;
        self.define(
            &Definition {
                stream,
                name: &temporal.name,
                clock: &temporal.clock,
                dtype: &temporal.dtype,
                body: temporal.body,
            },
            domain,
        )
    }

    /// The hidden stream of a map: its value at each event of `source`, φ where there is none. Its number is one that the program does not use; it is
    /// on the timeline of `source`.
    pub(crate) fn map_stage(
        &mut self,
        source: StreamId,
        map: ExprId,
    ) -> Result<StreamId, Unsupported> {
        if let Some(known) = self.maps.get(&(source, map)) {
            return Ok(*known);
        }
        let stream = StreamId::new(self.program.streams.len() + self.maps.len());
        // Taken before maps inside this one take theirs.
        self.maps.insert((source, map), stream);
        let program = self.program;
        self.define(
            &Definition {
                stream,
                name: &format!("{}_map", program.streams[source].name()),
                clock: &Clock::At(source),
                dtype: program.dtype(map),
                body: map,
            },
            Domain::On(source),
        )?;
        Ok(stream)
    }

    /// Adds a stage.
    fn define(&mut self, what: &Definition<'_, 'p>, domain: Domain) -> Result<(), Unsupported> {
        let (loops, stages, maps) = (self.loops.len(), self.stages.len(), self.maps.clone());
        let attempt = self.lower(what, &domain, Kind::Stage)?;
        let stage = if let Some(stage) = attempt {
            stage
        } else {
            self.loops.truncate(loops);
            self.stages.truncate(stages);
            self.maps = maps;
            let gaps = self.lower(what, &domain, Kind::Gaps)?;
            gaps.expect("recurrences with gaps may be φ")
        };
        self.facts.insert(what.stream, stage.facts.clone());
        self.stages.push(Stage { domain, ..stage });
        Ok(())
    }

    /// The loops of a stage, its domain left out. `None` if it is a recurrence that must have gaps.
    fn lower(
        &mut self,
        what: &Definition<'_, 'p>,
        domain: &Domain,
        kind: Kind,
    ) -> Result<Option<Stage>, Unsupported> {
        let Some(main) = self.lower_main(what, domain, kind, false)? else {
            return Ok(None);
        };
        let streams = what.stream == self.program.output && main.body.lanes == Lanes::Eight;
        let streaming = streams.then(|| past_caches(main.body.clone()));
        // What is written past the caches waits for memory, unless it reads by index.
        let inside = if !streams || main.reads.locates.iter().any(Locate::is_periodic) {
            self.lower_inside(what, domain, kind, &main)?
        } else {
            None
        };
        let mut push = |body: Loop| {
            self.loops.push(body);
            self.loops.len() - 1
        };
        let (number, streaming) = (push(main.body), streaming.map(&mut push));
        let inside = inside.map(|inside| Inside {
            main: push(if streams {
                past_caches(inside.body)
            } else {
                inside.body
            }),
            sources: inside.sources,
            params: inside.params,
        });
        let inside_number = inside.as_ref().map(|inside| inside.main);
        let numbers = [Some(number), streaming, inside_number].into_iter();
        let full = numbers.flatten().filter_map(|number| {
            let sources = match &inside {
                Some(inside) if inside.main == number => &inside.sources,
                _ => &main.sources,
            };
            let counts = |late: AccessId, early: AccessId| {
                let window = |access: AccessId, side| match sources[access.index()] {
                    Source::Window { window, column } if column == side => Some(window),
                    _ => None,
                };
                let counted = window(late, 1).filter(|w| window(early, 0) == Some(*w))?;
                main.reads.windows[counted].count
            };
            self.loops.push(self.loops[number].full(counts)?);
            Some((number, self.loops.len() - 1))
        });
        let full = full.collect();
        Ok(Some(Stage {
            stream: what.stream,
            name: what.name.to_owned(),
            domain: Domain::On(what.stream),
            locates: main.reads.locates,
            ranges: main.reads.ranges,
            windows: main.reads.windows,
            calls: main.reads.calls,
            sources: main.sources,
            params: main.params,
            main: number,
            streaming,
            inside,
            full,
            own: main.own,
            own_back: main.reads.own_back,
            facts: main.facts,
        }))
    }

    /// The main loop of a stage, with the loops of its windows; `None` as [`Planner::lower`]. If `inside`, rows that are read exist.
    fn lower_main(
        &mut self,
        what: &Definition<'_, 'p>,
        domain: &Domain,
        kind: Kind,
        inside: bool,
    ) -> Result<Option<MainLoop>, Unsupported> {
        let axis = self.axis(domain);
        let program = self.program;
        let mut reads = StageReads::new(self, what.stream, what.dtype, domain, axis.clone(), kind);
        reads.inside = inside;
        let mut lowering = Lowering::new(program, reads);
        let mut body = Body::default();
        let value = lowering.lower(&mut body, what.body)?;
        let has_value = value.valid();
        let alive = lowering
            .reads
            .alive(&mut body, what.clock, what.body, has_value)?;
        let (mut columns, leaves, nullable) = store(&mut body, what.name, value, alive);
        if nullable && kind == Kind::Stage && lowering.reads.reads_itself() {
            return Ok(None);
        }
        let own = lowering
            .reads
            .store_own(&mut body, &mut columns, leaves.len());
        let reads = lowering.reads.finish()?;
        let sink = Sink::Store {
            columns,
            streaming: false,
        };
        let main = body.finish(what.name, reads.lanes, sink);
        let sources = main.accesses.iter();
        let sources = sources.map(|a| reads.sources[a.index()].clone()).collect();
        let params = main.params.iter();
        let params = params.map(|p| reads.params[p.index()].clone()).collect();
        Ok(Some(MainLoop {
            body: main.body,
            reads,
            sources,
            params,
            own,
            facts: SeriesFacts {
                axis,
                dtype: what.dtype.clone(),
                leaves,
                nullable,
            },
        }))
    }

    fn domain(&self, id: StreamId, temporal: &Temporal) -> Result<Domain, Unsupported> {
        let sources: &[ClockSource] = match &temporal.clock {
            Clock::Every { period, offset } => {
                return Ok(Domain::Grid {
                    period: *period,
                    offset: *offset,
                });
            }
            Clock::At(stream) => return Ok(Domain::On(*stream)),
            Clock::OnChange(sources) => sources,
            Clock::Calendar(_) | Clock::Sessions { .. } => {
                let twin = self.timelines.of(id);
                let mut shared = self.stages.iter().map(|s| s.stream);
                let shared = shared.find(|s| {
                    s.index() < self.program.streams.len() && self.timelines.of(*s) == twin
                });
                return match shared {
                    Some(twin) => Ok(Domain::On(twin)),
                    None => self.cells(&temporal.clock),
                };
            }
        };
        if self.timelines.aligned(&temporal.clock).is_some() {
            return Ok(Domain::On(sources[0].stream()));
        }
        Ok(self.join(id, &temporal.clock, sources))
    }

    /// The rows of a clock that makes cells or sessions.
    fn cells(&self, clock: &Clock) -> Result<Domain, Unsupported> {
        match clock {
            Clock::Calendar(calendar) => {
                let cells = calendar.cells(self.program.unit);
                let cells = cells.map_err(|error| Unsupported(error.to_string()))?;
                Ok(Domain::Calendar(CalendarRows::new(cells)))
            }
            Clock::Sessions { stream, gap, max } => {
                let axis = &self.facts[stream].axis;
                // Where a session is full, what overlaps with it begins another one.
                if max.is_some() && !axis.disjoint && axis.length != Some(1) {
                    return Err(Unsupported("sessions that may overlap".into()));
                }
                Ok(Domain::Sessions {
                    stream: *stream,
                    gap: *gap,
                    max: *max,
                })
            }
            Clock::At(_) | Clock::OnChange(_) | Clock::Every { .. } => {
                unreachable!("these clocks have other rows")
            }
        }
    }

    fn axis(&self, domain: &Domain) -> AxisFacts {
        match domain {
            Domain::On(stream) => self.facts[stream].axis.clone(),
            Domain::Grid { period, offset } => AxisFacts::grid(*period, *offset),
            Domain::Calendar(_) | Domain::Sessions { .. } => AxisFacts {
                regular: None,
                length: None,
                disjoint: true,
                ordered: true,
                mixed: false,
            },
            Domain::Merge { groups, .. } => {
                let disjoint = groups.iter().all(|group| match group {
                    GroupPlan::Value { streams, .. } => self.facts[&streams[0]].axis.disjoint,
                    GroupPlan::Hold { .. } | GroupPlan::Window { .. } => true,
                });
                AxisFacts {
                    regular: None,
                    length: None,
                    disjoint,
                    ordered: disjoint,
                    mixed: false,
                }
            }
        }
    }

    /// The overlap rule of the input at the root of a stream's timeline.
    pub(crate) fn pick(&self, stream: StreamId) -> Pick {
        let root = match self.timelines.of(stream) {
            Timeline::Input(root) => self.program.streams[root].as_input(),
            _ => None,
        };
        match root.map(|input| input.overlap) {
            Some(Overlap::First) => Pick::First,
            Some(Overlap::Last) => Pick::Last,
            _ => Pick::Only,
        }
    }
}

/// The main loop of a stage while it is planned.
struct MainLoop {
    body: Loop,
    reads: Found,
    sources: Vec<Source>,
    params: Vec<ParamSource>,
    own: Vec<(OwnColumn, usize)>,
    facts: SeriesFacts,
}

/// A loop with stores past the caches.
fn past_caches(mut body: Loop) -> Loop {
    if let Sink::Store { streaming, .. } = &mut body.sink {
        *streaming = true;
    }
    body
}

/// What a stage stores: its leaves, and in the end its presence where that is not certain and the leaves do not tell.
fn store(
    body: &mut Body,
    name: &str,
    value: Term,
    alive: Valid,
) -> (Vec<Store>, Vec<LeafFacts>, bool) {
    let mut stored = Stored::default();
    let Term::Record { present, fields } = value else {
        stored.leaf(body, name, &value, alive);
        let nullable = stored.leaves[0].nullable;
        return (stored.columns, stored.leaves, nullable);
    };
    for (name, field) in &fields {
        stored.leaf(body, name, field, Valid::Always);
    }
    let present = body.both(present, alive);
    let nullable = present != Valid::Always;
    if nullable {
        stored.columns.push(Store {
            value: body.truth(present),
            valid: None,
        });
    }
    (stored.columns, stored.leaves, nullable)
}

/// Leaves as they are stored.
#[derive(Default)]
struct Stored {
    columns: Vec<Store>,
    leaves: Vec<LeafFacts>,
}

impl Stored {
    /// Adds a field, as `edges` lays it out.
    fn leaf(&mut self, body: &mut Body, name: &str, term: &Term, alive: Valid) {
        let (value, valid) = match term {
            Term::Scalar { value, valid } => (*value, body.both(*valid, alive)),
            Term::Record { present, .. } => (body.truth(*present), Valid::Always),
        };
        let valid = (valid != Valid::Always).then(|| body.truth(valid));
        self.columns.push(Store { value, valid });
        self.leaves.push(LeafFacts {
            name: name.to_owned(),
            ty: body.ty(value),
            nullable: valid.is_some(),
        });
        if let Term::Record { fields, .. } = term {
            for (name, field) in fields {
                self.leaf(body, name, field, Valid::Always);
            }
        }
    }
}

/// How far the reads of all expressions reach around their events together. An event of any stage that an output event depends on
/// ends no further from it.
fn reach(program: &Program, timelines: &Timelines) -> Option<i64> {
    use tilt_ir::{Bounds, Expr};
    let mut total = 0i64;
    for (id, temporal) in program.temporals() {
        let mut reach = Some(0i64);
        let mut note = |ticks: Option<i64>| {
            reach = reach.zip(ticks).map(|(a, b)| a.max(b));
        };
        let between = |lo: i64, hi: i64| lo.checked_abs()?.checked_add(hi.checked_abs()?);
        let hold = |offset: i64, max_age: Option<i64>| offset.checked_abs()?.checked_add(max_age?);
        match &temporal.clock {
            Clock::Every { period, .. } => note(Some(*period)),
            Clock::Calendar(calendar) => {
                let cells = calendar.cells(program.unit).ok();
                note(cells.and_then(|cells| cells.longest()));
            }
            // A session is as long as its data says.
            Clock::Sessions { .. } => note(None),
            Clock::At(_) => {}
            Clock::OnChange(sources) => {
                for source in sources {
                    note(match *source {
                        ClockSource::Value { offset, .. } => offset.checked_abs(),
                        ClockSource::Hold {
                            offset, max_age, ..
                        } => hold(offset, max_age),
                        ClockSource::Window { lo, hi, .. } => between(lo, hi),
                    });
                }
            }
        }
        // The window of an event is as long as the event, which in a map is one of the window's.
        let mut event = timelines.stretch(timelines.of(id));
        program.walk(temporal.body, &mut |_, expr| {
            if let Expr::Reduce {
                window,
                map: Some(_),
                ..
            } = expr
            {
                let mapped = timelines.stretch(timelines.of(window.stream));
                event = event.zip(mapped).map(|(a, b)| a.max(b));
            }
        });
        // Reads add up, because a map reads from where its window leads. What is read is computed at the end of its event, which may lie after the
        // instant.
        let mut reads = Some(0i64);
        program.walk(temporal.body, &mut |_, expr| {
            let Some(stream) = expr.stream() else { return };
            let reach = match expr {
                Expr::At { offset, .. } | Expr::Edge { offset, .. } => offset.checked_abs(),
                Expr::Hold {
                    offset, max_age, ..
                } => hold(*offset, *max_age),
                Expr::Reduce { window, .. } => match window.bounds {
                    Bounds::Time { lo: Some(lo), hi } => between(lo, hi),
                    Bounds::Event => event.and_then(|event| event.checked_add(1)),
                    _ => None,
                },
                _ => None,
            };
            let stretch = timelines.stretch(timelines.of(stream));
            let read = reach.zip(stretch).and_then(|(a, b)| a.checked_add(b));
            reads = reads.zip(read).and_then(|(a, b)| a.checked_add(b));
        });
        total = total.checked_add(reach?)?.checked_add(reads?)?;
    }
    Some(total)
}
