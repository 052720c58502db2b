//! Plans: from a program and the facts of its data to loops and what each of them reads.
//!
//! Every temporal expression is a **stage**: the rows of its clock, and one loop that computes them. What the loop reads is a list of [`Source`]s, parallel to its
//! accesses: columns of earlier stages found by a [`Locate`], results of windows, instants. `run` turns each into a pointer for a chunk of rows.

use std::collections::{BTreeMap, BTreeSet};

use tilt_codegen::{
    lir::{Lanes, Loop, Sink, Store},
    lower::{Body, Lowering, Term, Unsupported, Valid},
};
use tilt_ir::{Clock, Edge, Id, Overlap, Program, Source as ClockSource, StreamId, Temporal, Timeline, Timelines};

use crate::{
    facts::{AxisFacts, LeafFacts, SeriesFacts},
    reads::StageReads,
    scatter::{self, ScatterPlan},
    window::{RangePlan, WindowPlan},
};

/// A program as loops.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) stages: Vec<Stage>,
    pub(crate) loops: Vec<Loop>,
    /// How far any stage can read around its own events, in ticks; `None` without limit.
    pub(crate) slack: Option<i64>,
    /// Where the rows of the output come from.
    pub(crate) root: Root,
    /// How windows by key are computed in one pass over the rows of all keys, if they can be.
    pub(crate) scatter: Option<ScatterPlan>,
}

/// Where rows come from, through all stages that share them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// The rows of an input.
    Input(StreamId),
    /// The cells of a grid.
    Grid { period: i64, offset: i64 },
    /// The events of a merge, as many as it gives.
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
    /// What each access of the main loop reads.
    pub(crate) sources: Vec<Source>,
    /// What each parameter of the main loop is.
    pub(crate) params: Vec<ParamSource>,
    /// The main loop: stores the leaves, then whether there is an event if that is not always so.
    pub(crate) main: usize,
    /// The same loop with stores past the caches, for an output that they cannot hold.
    pub(crate) streaming: Option<usize>,
    pub(crate) facts: SeriesFacts,
}

/// The rows of a stage.
#[derive(Debug)]
pub(crate) enum Domain {
    /// The positions of an earlier stream.
    On(StreamId),
    /// The cells of a grid.
    Grid { period: i64, offset: i64 },
    /// The events of an `on` clock; later stages with an equal clock share them.
    Merge { groups: Vec<GroupPlan>, twin: Option<StreamId> },
}

/// What is chosen together in a merge.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum GroupPlan {
    Value { streams: Vec<StreamId>, offset: i64 },
    Hold { stream: StreamId, offset: i64, max_age: Option<i64> },
    Window { stream: StreamId, lo: i64, hi: i64 },
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
    /// The event active at `t + offset`; `present` tells which positions of a bag count.
    ByTime { stream: StreamId, offset: i64, overlap: Pick },
    /// What the merge chose.
    Choice(usize),
    /// The last event that ended by `t + offset`.
    Held { stream: StreamId, offset: i64, max_age: Option<i64> },
    /// The n-th event before the one at another locate.
    Prev { of: usize, stream: StreamId, n: u32 },
    /// An earlier row of the stage's own output.
    Own { rows: i64 },
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
    /// Whether rows read neighbouring elements, so that no index is needed.
    pub(crate) fn by_row(&self) -> bool {
        matches!(
            self,
            Self::Same | Self::Rows { .. } | Self::Affine { .. } | Self::Own { .. }
        )
    }
}

/// What an access of a loop reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A column of a stream.
    Leaf { stream: StreamId, leaf: usize, locate: usize },
    /// Whether a stream has an event.
    Present { stream: StreamId, locate: usize },
    /// The ends of the rows.
    Ends,
    /// An edge of the event found.
    Edge { stream: StreamId, locate: usize, edge: Edge },
    /// A result of a window.
    Window { window: usize, column: usize },
    /// Where a window begins, as a position.
    RangeFirst(usize),
    /// Where it ends.
    RangeEnd(usize),
    /// Where it is split, as a position.
    RangeSplit(usize),
    /// The value of a column next to the split: before it (early part) or after it (late part).
    Anchor { range: usize, stream: StreamId, leaf: usize, early: bool },
}

/// What a parameter of a loop is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ParamSource {
    /// The end of row 0 of a regular domain.
    FirstEnd,
    /// The code of a string.
    Text(String),
    RunStart,
    RunEnd,
    /// Position offsets of a steady range: first and end less the row, and the number of positions.
    /// The anchor of the block that is scanned.
    Anchor,
    RangeLo(usize),
    RangeHi(usize),
    RangeLen(usize),
}

/// Makes a plan.
pub(crate) fn plan(
    program: &Program,
    inputs: &BTreeMap<StreamId, SeriesFacts>,
) -> Result<Plan, Unsupported> {
    let timelines = Timelines::new(program);
    let mut planner = Planner {
        program,
        timelines: &timelines,
        facts: inputs.clone(),
        loops: Vec::new(),
    };
    let mut stages: Vec<Stage> = Vec::new();
    let needed = needed(program);
    for (id, temporal) in program.temporals().filter(|(id, _)| needed.contains(id)) {
        let stage = planner
            .stage(id, temporal, &stages)
            .map_err(|Unsupported(what)| Unsupported(format!("{what} in ~{}", temporal.name)))?;
        planner.facts.insert(id, stage.facts.clone());
        stages.push(stage);
    }
    if stages.last().is_none_or(|stage| stage.stream != program.output) {
        return Err(Unsupported("an output that is an input".into()));
    }
    let scatter = scatter::plan(program, &stages, &mut planner.loops);
    Ok(Plan {
        scatter,
        slack: slack(program),
        root: root(&stages, program.output),
        stages,
        loops: planner.loops,
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
            match &temporal.clock {
                Clock::OnChange(sources) => open.extend(sources.iter().map(|s| s.stream())),
                Clock::At(stream) => open.push(*stream),
                Clock::Every { .. } => {}
            }
            program.walk(temporal.body, &mut |_, expr| open.extend(expr.stream()));
        }
    }
    needed
}

fn root(stages: &[Stage], stream: StreamId) -> Root {
    let Some(stage) = stages.iter().find(|s| s.stream == stream) else {
        return Root::Input(stream);
    };
    match &stage.domain {
        Domain::On(stream) => root(stages, *stream),
        Domain::Grid { period, offset } => Root::Grid {
            period: *period,
            offset: *offset,
        },
        Domain::Merge { .. } => Root::Merge,
    }
}

pub(crate) struct Planner<'a> {
    pub(crate) program: &'a Program,
    pub(crate) timelines: &'a Timelines,
    pub(crate) facts: BTreeMap<StreamId, SeriesFacts>,
    pub(crate) loops: Vec<Loop>,
}

impl<'p> Planner<'p> {
    fn stage(
        &mut self,
        id: StreamId,
        temporal: &'p Temporal,
        earlier: &[Stage],
    ) -> Result<Stage, Unsupported> {
        let domain = self.domain(id, temporal, earlier)?;
        let axis = self.axis(&domain);
        let program = self.program;
        let reads = StageReads::new(self, id, temporal, &domain, axis.clone());
        let mut lowering = Lowering::new(program, reads);
        let mut body = Body::default();
        let value = lowering.lower(&mut body, temporal.body)?;
        let alive = lowering.reads.alive(&mut body, temporal)?;
        let (columns, leaves, nullable) = store(&mut body, &temporal.name, value, alive);
        let reads = lowering.reads.finish(nullable)?;
        let sink = Sink::Store {
            columns,
            streaming: false,
        };
        let main = body.finish(temporal.name.clone(), reads.lanes, sink);
        let sources = main.accesses.iter().map(|a| reads.sources[a.index()].clone());
        let params = main.params.iter().map(|p| reads.params[p.index()].clone());
        let (sources, params) = (sources.collect(), params.collect());
        let streams = id == program.output && main.body.lanes == Lanes::Eight;
        let streaming = streams.then(|| {
            let mut streaming = main.body.clone();
            if let Sink::Store { streaming, .. } = &mut streaming.sink {
                *streaming = true;
            }
            streaming
        });
        self.loops.push(main.body);
        let main = self.loops.len() - 1;
        let streaming = streaming.map(|body| {
            self.loops.push(body);
            self.loops.len() - 1
        });
        Ok(Stage {
            stream: id,
            name: temporal.name.clone(),
            domain,
            locates: reads.locates,
            ranges: reads.ranges,
            windows: reads.windows,
            sources,
            params,
            main,
            streaming,
            facts: SeriesFacts {
                axis,
                leaves,
                record: matches!(temporal.dtype, tilt_ir::DType::Record(_)),
                nullable,
            },
        })
    }

    fn domain(
        &self,
        id: StreamId,
        temporal: &Temporal,
        earlier: &[Stage],
    ) -> Result<Domain, Unsupported> {
        if let Clock::Every { period, offset } = temporal.clock {
            return Ok(Domain::Grid { period, offset });
        }
        let sources: &[ClockSource] = match &temporal.clock {
            Clock::At(stream) => {
                return Ok(Domain::On(*stream));
            }
            Clock::OnChange(sources) => sources,
            Clock::Every { .. } => unreachable!("handled above"),
        };
        if self.timelines.aligned(&temporal.clock).is_some() {
            return Ok(Domain::On(sources[0].stream()));
        }
        let twin = match self.timelines.of(id) {
            Timeline::Own(first) if first != id => Some(first),
            _ => None,
        };
        let twin = twin.filter(|t| earlier.iter().any(|s| s.stream == *t));
        let mut groups: Vec<GroupPlan> = Vec::new();
        for source in sources {
            match *source {
                ClockSource::Value { stream, offset } => {
                    let same = |g: &&mut GroupPlan| {
                        matches!(g, GroupPlan::Value { streams, offset: o }
                            if *o == offset && self.timelines.of(streams[0]) == self.timelines.of(stream))
                    };
                    match groups.iter_mut().find(same) {
                        Some(GroupPlan::Value { streams, .. }) => streams.push(stream),
                        _ => groups.push(GroupPlan::Value {
                            streams: vec![stream],
                            offset,
                        }),
                    }
                }
                ClockSource::Hold {
                    stream,
                    offset,
                    max_age,
                } => groups.push(GroupPlan::Hold {
                    stream,
                    offset,
                    max_age,
                }),
                ClockSource::Window { stream, lo, hi } => {
                    groups.push(GroupPlan::Window { stream, lo, hi });
                }
            }
        }
        Ok(Domain::Merge { groups, twin })
    }

    fn axis(&self, domain: &Domain) -> AxisFacts {
        match domain {
            Domain::On(stream) => self.facts[stream].axis.clone(),
            Domain::Grid { period, offset } => AxisFacts::grid(*period, *offset),
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

/// What a stage stores: its leaves, and in the end its presence where that is not certain and the leaves do not tell.
fn store(
    body: &mut Body,
    name: &str,
    value: Term,
    alive: Valid,
) -> (Vec<Store>, Vec<LeafFacts>, bool) {
    let mut columns = Vec::new();
    let mut leaves = Vec::new();
    let mut leaf = |body: &mut Body, name: &str, term: &Term, alive: Valid| {
        let Term::Scalar { value, valid } = term else {
            unreachable!("leaves are scalars")
        };
        let valid = body.both(*valid, alive);
        let valid = match valid {
            Valid::Always => None,
            other => Some(body.truth(other)),
        };
        columns.push(Store {
            value: *value,
            valid,
        });
        leaves.push(LeafFacts {
            name: name.to_owned(),
            ty: body.ty(*value),
            nullable: valid.is_some(),
        });
    };
    match value {
        Term::Scalar { .. } => {
            leaf(body, name, &value, alive);
            let nullable = leaves[0].nullable;
            (columns, leaves, nullable)
        }
        Term::Record { present, fields } => {
            for (name, field) in &fields {
                leaf(body, name, field, Valid::Always);
            }
            let present = body.both(present, alive);
            let nullable = present != Valid::Always;
            if nullable {
                columns.push(Store {
                    value: body.truth(present),
                    valid: None,
                });
            }
            (columns, leaves, nullable)
        }
    }
}

/// How far the reads of all expressions reach around their events together. An event of any stage that an output event depends on
/// ends no further from it.
fn slack(program: &Program) -> Option<i64> {
    use tilt_ir::{Bounds, Expr};
    let mut total = 0i64;
    for (_, temporal) in program.temporals() {
        let mut reach = Some(0i64);
        let mut note = |ticks: Option<i64>| {
            reach = reach.zip(ticks).map(|(a, b)| a.max(b));
        };
        if let Clock::Every { period, .. } = temporal.clock {
            note(Some(period));
        }
        program.walk(temporal.body, &mut |_, expr| match expr {
            Expr::At { offset, .. } | Expr::Edge { offset, .. } => note(offset.checked_abs()),
            Expr::Hold {
                offset, max_age, ..
            } => note(max_age.and_then(|age| offset.checked_abs()?.checked_add(age))),
            Expr::Prev { .. } => note(None),
            Expr::Reduce { window, .. } => note(match window.bounds {
                Bounds::Time { lo: Some(lo), hi } => {
                    lo.checked_abs().zip(hi.checked_abs()).and_then(|(a, b)| a.checked_add(b))
                }
                _ => None,
            }),
            _ => {}
        });
        total = total.checked_add(reach?)?;
    }
    Some(total)
}
