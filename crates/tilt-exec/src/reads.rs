//! What the reads of a stage become: locates, sources and accesses of its loop.

use tilt_codegen::{
    lir::{Access, AccessId, Binary, By, Compare, Inst, Lanes, Ty, ValueId},
    lower::{Body, Reads, Result, Term, Unsupported, Valid},
};
use tilt_ir::{Clock, DType, Edge, Expr, ExprId, Id, Source as ClockSource, StreamId, Timeline};

use crate::{
    call::{self, CallPlan},
    facts::AxisFacts,
    own::OwnBack,
    plan::{Domain, GroupPlan, Locate, ParamSource, Planner, Source},
    window::{self, RangePlan, WindowPlan},
};

/// The reads of one loop.
pub(crate) struct StageReads<'a, 'p> {
    pub(crate) planner: &'a mut Planner<'p>,
    pub(crate) stream: StreamId,
    dtype: &'p DType,
    domain: &'a Domain,
    pub(crate) axis: AxisFacts,
    kind: Kind,
    found: Found,
    /// Where each read has a value, for grid cells outside the run.
    seen: Vec<Valid>,
    /// Whether there is a read of which that is not known.
    blind: bool,
    pub(crate) reads_itself: bool,
    /// Whether the rows that are read some rows away are known to exist.
    pub(crate) inside: bool,
}

/// What a loop computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A stage. If it is a recurrence, it is not φ anywhere.
    Stage,
    /// A recurrence that may be φ.
    Gaps,
    /// The map of a reduction as part of its loops: it reads the event itself and nothing else.
    Map,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) locates: Vec<Locate>,
    pub(crate) ranges: Vec<RangePlan>,
    pub(crate) windows: Vec<WindowPlan>,
    pub(crate) calls: Vec<CallPlan>,
    pub(crate) sources: Vec<Source>,
    pub(crate) params: Vec<ParamSource>,
    pub(crate) lanes: Lanes,
    pub(crate) own_back: OwnBack,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            locates: vec![Locate::Same],
            ranges: Vec::new(),
            windows: Vec::new(),
            calls: Vec::new(),
            sources: Vec::new(),
            params: Vec::new(),
            lanes: Lanes::Eight,
            own_back: OwnBack::default(),
        }
    }
}

/// Reads the leaves of a stream from first to last.
struct LeafReader {
    stream: StreamId,
    locate: usize,
    next: usize,
}

/// A period so many times as long is coarse: filling a column by runs takes less than looking its elements up.
const COARSE: i64 = 8;

/// The position of [`Locate::Same`] in every list of locates.
pub(crate) const SAME: usize = 0;

impl<'a, 'p> StageReads<'a, 'p> {
    pub(crate) fn new(
        planner: &'a mut Planner<'p>,
        stream: StreamId,
        dtype: &'p DType,
        domain: &'a Domain,
        axis: AxisFacts,
        kind: Kind,
    ) -> Self {
        Self {
            planner,
            stream,
            dtype,
            domain,
            axis,
            kind,
            found: Found::default(),
            seen: Vec::new(),
            blind: false,
            reads_itself: false,
            inside: false,
        }
    }

    /// The reads of a map over the events of `domain`.
    pub(crate) fn map<'b>(
        planner: &'b mut Planner<'p>,
        stream: StreamId,
        dtype: &'p DType,
        domain: &'b Domain,
        axis: AxisFacts,
    ) -> StageReads<'b, 'p> {
        StageReads {
            planner,
            stream,
            dtype,
            domain,
            axis,
            kind: Kind::Map,
            found: Found::default(),
            seen: Vec::new(),
            blind: false,
            reads_itself: false,
            inside: false,
        }
    }

    /// Whether the map of a window over `source` is more than a function of what its timeline holds at the event.
    pub(crate) fn needs_stage(&self, source: StreamId, map: ExprId) -> bool {
        let timelines = self.planner.timelines;
        let mut needs = false;
        self.planner.program.walk(map, &mut |_, expr| {
            needs |= match expr {
                Expr::At { stream, offset } => {
                    *offset != 0 || timelines.of(*stream) != timelines.of(source)
                }
                Expr::Hold { .. }
                | Expr::Prev { .. }
                | Expr::Edge { .. }
                | Expr::Reduce { .. }
                | Expr::Call { .. } => true,
                _ => false,
            };
        });
        needs
    }

    /// All that was found.
    pub(crate) fn finish(self) -> Result<Found> {
        let own = |source: &Source| matches!(source, Source::OwnRows { .. } | Source::OwnTable(_));
        if self.found.calls.iter().any(|c| c.sources.iter().any(own)) {
            return Err(Unsupported("an external function in a recurrence".into()));
        }
        Ok(self.found)
    }

    /// Whether a recurrence takes care of its own φ.
    pub(crate) fn has_gaps(&self) -> bool {
        self.kind == Kind::Gaps
    }

    pub(crate) fn found(&mut self) -> &mut Found {
        &mut self.found
    }

    pub(crate) fn windows(&self) -> &[WindowPlan] {
        &self.found.windows
    }

    pub(crate) fn dtype(&self) -> &'p DType {
        self.dtype
    }

    pub(crate) fn domain(&self) -> &'a Domain {
        self.domain
    }

    /// The timeline that the rows are on: a map's is that of the events it is applied to.
    pub(crate) fn timeline(&self) -> Timeline {
        let stream = match self.domain {
            Domain::On(events) if self.stream.index() >= self.planner.program.streams.len() => {
                *events
            }
            _ => self.stream,
        };
        self.planner.timelines.of(stream)
    }

    /// Where rows are events of the clock, as far as it matters: what is computed has a value where `has_value`.
    pub(crate) fn alive(
        &mut self,
        body: &mut Body,
        clock: &Clock,
        value: ExprId,
        has_value: Valid,
    ) -> Result<Valid> {
        match clock {
            Clock::At(stream) => self.presence(body, *stream, SAME),
            Clock::OnChange(sources) => self.any_source(body, sources),
            Clock::Sessions { .. } => Ok(Valid::Always),
            Clock::Every { .. } | Clock::Calendar(_) => {
                // What a recurrence reads of itself does not make a cell.
                if !self.reads_itself && tilt_ir::is_strict(self.planner.program, value) {
                    return Ok(Valid::Always);
                }
                if self.blind {
                    return Err(Unsupported(
                        "a grid whose cells depend on φ in a window".into(),
                    ));
                }
                let seen = std::mem::take(&mut self.seen);
                if is_implied(body, has_value, &seen, 8) {
                    return Ok(Valid::Always);
                }
                let inside = self.inside_run(body, clock)?;
                Ok(seen
                    .into_iter()
                    .fold(inside, |any, valid| body.either(any, valid)))
            }
        }
    }

    /// Where an `on` clock has an event: all rows of a merge, otherwise where a source that the rows follow has a value.
    fn any_source(&mut self, body: &mut Body, sources: &[ClockSource]) -> Result<Valid> {
        if matches!(self.domain, Domain::Merge { .. }) {
            return Ok(Valid::Always);
        }
        let timelines = self.planner.timelines;
        let mut any = Valid::Never;
        for source in sources {
            let ClockSource::Value { stream, offset } = *source else {
                continue;
            };
            let locate = match self.domain {
                // Sources of other timelines do not make rows.
                Domain::On(here) if timelines.of(*here) != timelines.of(stream) || offset != 0 => {
                    continue;
                }
                _ => self.locate_at(stream, offset)?,
            };
            let present = self.presence(body, stream, locate)?;
            any = body.either(any, present);
        }
        Ok(any)
    }

    /// Whether a cell intersects the run's span.
    fn inside_run(&mut self, body: &mut Body, clock: &Clock) -> Result<Valid> {
        let end = self.time(body)?;
        let run_start = self.param(body, "run_start", Ty::I64, ParamSource::RunStart);
        let run_end = self.param(body, "run_end", Ty::I64, ParamSource::RunEnd);
        let after = body.compare(Compare::Gt, end, run_start);
        let start = if let Clock::Every { period, .. } = clock {
            let period = body.int(Ty::I64, *period);
            // Cells lie within the run's surroundings, far from where this could wrap.
            body.binary(Binary::Sub, end, period)
        } else {
            let starts = self.access(body, Source::Starts, "start", Ty::I64, By::Row, false);
            body.load(starts)
        };
        let before = body.compare(Compare::Lt, start, run_end);
        let inside = body.binary(Binary::And, after, before);
        Ok(body.valid_if(inside))
    }

    /// A parameter, added once.
    pub(crate) fn param(
        &mut self,
        body: &mut Body,
        name: &str,
        ty: Ty,
        source: ParamSource,
    ) -> ValueId {
        let known = self.found.params.iter().position(|p| *p == source);
        let index = known.unwrap_or_else(|| {
            self.found.params.push(source);
            body.param(name, ty);
            self.found.params.len() - 1
        });
        body.given(tilt_ir::Id::new(index))
    }

    /// An access, added once.
    pub(crate) fn access(
        &mut self,
        body: &mut Body,
        source: Source,
        name: &str,
        ty: Ty,
        by: By,
        nullable: bool,
    ) -> AccessId {
        let known = self.found.sources.iter().position(|s| *s == source);
        let index = known.unwrap_or_else(|| {
            self.found.sources.push(source);
            body.access(Access {
                name: name.to_owned(),
                ty,
                by,
                nullable,
            });
            self.found.sources.len() - 1
        });
        tilt_ir::Id::new(index)
    }

    pub(crate) fn locate(&mut self, locate: Locate) -> Result<usize> {
        if self.kind == Kind::Map && locate != Locate::Same {
            return Err(Unsupported("a map that reads other events".into()));
        }
        let known = self.found.locates.iter().position(|l| *l == locate);
        Ok(known.unwrap_or_else(|| {
            self.found.locates.push(locate);
            self.found.locates.len() - 1
        }))
    }

    /// How to find what `~x[t+offset]` reads.
    fn locate_at(&mut self, stream: StreamId, offset: i64) -> Result<usize> {
        let timelines = self.planner.timelines;
        let timeline = timelines.of(stream);
        let facts = self.planner.facts[&stream].axis.clone();
        match self.domain {
            Domain::On(here) if timelines.of(*here) == timeline => {
                if offset == 0 {
                    return Ok(SAME);
                }
                if let (Some(regular), Some(length), true) =
                    (facts.regular, facts.length, facts.disjoint)
                {
                    // The first row that ends at or after the instant; it must have begun before it.
                    let rows = offset.div_euclid(regular.period)
                        + i64::from(offset.rem_euclid(regular.period) != 0);
                    if rows * regular.period - offset < length {
                        return self.locate(Locate::Rows { stream, rows });
                    }
                }
            }
            Domain::Merge { groups, .. } => {
                let bound = groups.iter().position(|group| {
                    matches!(group, GroupPlan::Value { streams, offset: o }
                        if *o == offset && timelines.of(streams[0]) == timeline)
                });
                if let Some(group) = bound {
                    return self.locate(Locate::Choice(group));
                }
                if timelines.of(self.stream) == timeline && offset == 0 && self.axis.disjoint {
                    return Ok(SAME);
                }
            }
            _ => {}
        }
        let periods = match (self.axis.regular, facts.regular) {
            (Some(here), Some(there)) if facts.disjoint => Some((here.period, there.period)),
            _ => None,
        };
        if let Some((here, there)) = periods {
            if here == there {
                return self.locate(Locate::Affine { stream, offset });
            }
            if there / COARSE >= here {
                return self.locate(Locate::Coarse { stream, offset });
            }
        }
        self.locate(Locate::ByTime {
            stream,
            offset,
            overlap: self.planner.pick(stream),
            periodic: periods.is_some(),
        })
    }

    /// Whether a locate leads somewhere in every row.
    fn is_found(&self, locate: usize) -> bool {
        match (&self.found.locates[locate], self.domain) {
            (Locate::Same, _) => true,
            (Locate::Rows { .. } | Locate::Affine { .. }, _) => self.inside,
            (Locate::ByTime { periodic, .. }, _) => self.inside && *periodic,
            (Locate::Choice(group), Domain::Merge { required, .. }) => required[*group],
            _ => false,
        }
    }

    /// Whether there is an event at a locate.
    fn presence(&mut self, body: &mut Body, stream: StreamId, locate: usize) -> Result<Valid> {
        let facts = &self.planner.facts[&stream];
        if !facts.nullable && self.is_found(locate) {
            return Ok(Valid::Always);
        }
        if !facts.is_record() {
            return Ok(self.term(body, stream, locate)?.valid());
        }
        let source = Source::Present { stream, locate };
        let access = self.access(body, source, "present", Ty::Bool, By::Row, true);
        Ok(body.valid(access))
    }

    /// The value of a stream at a locate.
    pub(crate) fn term(
        &mut self,
        body: &mut Body,
        stream: StreamId,
        locate: usize,
    ) -> Result<Term> {
        let dtype = self.planner.facts[&stream].dtype.clone();
        let mut reader = LeafReader {
            stream,
            locate,
            next: 0,
        };
        let DType::Record(fields) = &dtype else {
            return Ok(self.leaf(body, &dtype, &mut reader));
        };
        let fields = fields.iter().map(|field| {
            let term = self.leaf(body, &field.dtype, &mut reader);
            (field.name.clone(), term)
        });
        let fields = fields.collect();
        Ok(Term::Record {
            present: self.presence(body, stream, locate)?,
            fields,
        })
    }

    /// An element of a column at the position that a locate finds, and whether there is one.
    pub(crate) fn column(
        &mut self,
        body: &mut Body,
        stream: StreamId,
        leaf: usize,
        locate: usize,
    ) -> (ValueId, Valid) {
        let column = self.planner.facts[&stream].leaves[leaf].clone();
        let by = if self.found.locates[locate].by_row() {
            By::Row
        } else {
            By::Index
        };
        let source = Source::Leaf {
            stream,
            leaf,
            locate,
        };
        let nullable = column.nullable || !self.is_found(locate);
        let access = self.access(body, source, &column.name, column.ty, by, nullable);
        (body.load(access), body.valid(access))
    }

    /// The field whose leaves come next.
    fn leaf(&mut self, body: &mut Body, dtype: &DType, reader: &mut LeafReader) -> Term {
        let (value, valid) = self.column(body, reader.stream, reader.next, reader.locate);
        reader.next += 1;
        let DType::Record(fields) = dtype else {
            return Term::Scalar { value, valid };
        };
        let present = body.valid_if(value);
        let present = body.both(valid, present);
        let fields = fields.iter().map(|field| {
            let term = self.leaf(body, &field.dtype, reader);
            (field.name.clone(), term)
        });
        Term::Record {
            fields: fields.collect(),
            present,
        }
    }

    /// Whether it matters where windows have events: a grid has cells outside of the run where something is read.
    pub(crate) fn minds_windows(&self) -> bool {
        let stream = self.planner.program.streams.get(self.stream);
        let temporal = stream.and_then(|stream| stream.as_temporal());
        temporal.is_some_and(|t| {
            let of_cells = matches!(self.domain, Domain::Grid { .. }) || t.clock.has_cells();
            of_cells && !tilt_ir::is_strict(self.planner.program, t.body)
        })
    }

    /// Notes where a window has events, or that this is not known.
    pub(crate) fn note_window(&mut self, inhabited: Option<Valid>) {
        match inhabited {
            Some(valid) => self.seen.push(valid),
            None => self.blind = true,
        }
    }

    fn note(&mut self, term: Term) -> Term {
        self.seen.push(term.valid());
        term
    }
}

/// Whether one of `seen` holds wherever `valid` does, as the last steps of computing it show.
fn is_implied(body: &Body, valid: Valid, seen: &[Valid], steps: usize) -> bool {
    let Valid::If(value) = valid else {
        return valid == Valid::Never;
    };
    let implied = |value: ValueId| steps > 0 && is_implied(body, Valid::If(value), seen, steps - 1);
    seen.contains(&valid)
        || match *body.inst(value) {
            Inst::Binary(Binary::Or, a, b) => implied(a) && implied(b),
            Inst::Binary(Binary::And, a, b) => implied(a) || implied(b),
            _ => false,
        }
}

impl Reads for StageReads<'_, '_> {
    fn time(&mut self, body: &mut Body) -> Result<ValueId> {
        if let Some(regular) = self.axis.regular {
            let first = self.param(body, "first_end", Ty::I64, ParamSource::FirstEnd);
            let row = body.row();
            let period = body.int(Ty::I64, regular.period);
            let since = body.binary(Binary::Mul, row, period);
            return Ok(body.binary(Binary::Add, first, since));
        }
        let access = self.access(body, Source::Ends, "end", Ty::I64, By::Row, false);
        Ok(body.load(access))
    }

    fn at(&mut self, body: &mut Body, stream: StreamId, offset: i64) -> Result<Term> {
        if stream == self.stream && self.kind != Kind::Map {
            return self.own_at(body, offset);
        }
        let locate = self.locate_at(stream, offset)?;
        let term = self.term(body, stream, locate)?;
        Ok(self.note(term))
    }

    fn hold(
        &mut self,
        body: &mut Body,
        stream: StreamId,
        offset: i64,
        max_age: Option<i64>,
    ) -> Result<Term> {
        if stream == self.stream {
            return self.own_hold(body, offset, max_age);
        }
        let locate = self.locate(Locate::Held {
            stream,
            offset,
            max_age,
        })?;
        let term = self.term(body, stream, locate)?;
        Ok(self.note(term))
    }

    fn prev(&mut self, body: &mut Body, stream: StreamId, n: u32) -> Result<Term> {
        if stream == self.stream && self.kind != Kind::Map {
            return self.own_prev(body, n);
        }
        let current = self.locate_at(stream, 0)?;
        if n == 0 {
            let term = self.term(body, stream, current)?;
            return Ok(self.note(term));
        }
        let facts = &self.planner.facts[&stream];
        let locate = if current == SAME && !facts.nullable && !facts.axis.mixed {
            Locate::Rows {
                stream,
                rows: -i64::from(n),
            }
        } else {
            Locate::Prev {
                of: current,
                stream,
                n,
            }
        };
        let locate = self.locate(locate)?;
        let term = self.term(body, stream, locate)?;
        // Whether there is a current event decides which cells a grid has.
        let current = self.presence(body, stream, current)?;
        self.seen.push(current);
        Ok(term)
    }

    fn edge(&mut self, body: &mut Body, stream: StreamId, offset: i64, edge: Edge) -> Result<Term> {
        if stream == self.stream && self.kind != Kind::Map {
            return Err(Unsupported("a recurrence over its own edges".into()));
        }
        if self.kind == Kind::Map {
            return Err(Unsupported("a map that reads edges".into()));
        }
        let locate = self.locate_at(stream, offset)?;
        let valid = self.presence(body, stream, locate)?;
        self.seen.push(valid);
        let name = match edge {
            Edge::Start => "start",
            Edge::End => "end",
        };
        let axis = &self.planner.facts[&stream].axis;
        if let (Some(regular), Some(_), false) = (
            axis.regular,
            axis.length,
            self.found.locates[locate].by_row(),
        ) {
            let first = ParamSource::FirstEdge {
                stream,
                edge,
                locate,
            };
            let first = self.param(body, &format!("first_{name}"), Ty::I64, first);
            let position = Source::Position { locate };
            let position = self.access(body, position, "position", Ty::U32, By::Row, true);
            let position = body.load(position);
            let position = body.convert(position, Ty::I64);
            let period = body.int(Ty::I64, regular.period);
            let since = body.binary(Binary::Mul, position, period);
            let value = body.binary(Binary::Add, first, since);
            return Ok(Term::Scalar { value, valid });
        }
        let source = Source::Edge {
            stream,
            locate,
            edge,
        };
        let access = self.access(body, source, name, Ty::I64, By::Row, false);
        Ok(Term::Scalar {
            value: body.load(access),
            valid,
        })
    }

    fn reduce(&mut self, body: &mut Body, id: ExprId) -> Result<Term> {
        if self.kind == Kind::Map {
            return Err(Unsupported("a reduction in a map".into()));
        }
        window::reduce(self, body, id)
    }

    fn call(&mut self, body: &mut Body, id: ExprId, args: &[Term]) -> Result<Term> {
        call::lower(self, body, id, args)
    }

    fn text(&mut self, body: &mut Body, text: &str) -> Result<ValueId> {
        let source = ParamSource::Text(text.to_owned());
        Ok(self.param(body, text, Ty::U32, source))
    }
}
