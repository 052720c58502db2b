//! A program while an operation is applied: the programs of its operands in one, with equal parts shared.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::{
    error::{Checked, ErrorKind, Problem},
    floating::Floating,
    key::{self, Key},
    rescale::rescaled,
};
use crate::{
    clock::default_clock,
    expr::Expr,
    ids::{ExprId, FuncId, Id, ReducerId, StreamId},
    nullness::strict_in_source,
    pass::{
        dce::live_streams,
        rewrite::{Copier, rebuild},
    },
    program::{Clock, Function, Program, Source, Stream},
    time::Unit,
    timeline::{Timeline, Timelines},
    types::DType,
    verify::verify,
};

/// The name of the inputs that stand for a recurrence's own past starts like this.
pub(super) const OWN_PAST: &str = "own past ";

/// A program with the keys of its streams. The output is the stream that it stands for.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Built {
    pub(super) program: Program,
    pub(super) keys: Vec<Key>,
}

impl Built {
    pub(super) fn new(program: Program) -> Self {
        let keys = key::keys(&program);
        Self { program, keys }
    }
}

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) program: Program,
    keys: Vec<Key>,
    known: HashMap<Key, StreamId>,
    names: HashSet<String>,
}

impl Draft {
    /// The programs of all operands in one, and the operands in it.
    pub(super) fn of(operands: &[&Built]) -> Checked<(Self, Vec<StreamId>)> {
        let unit = common_unit(operands)?;
        let mut draft = Self {
            program: Program::new("query", unit),
            keys: Vec::new(),
            known: HashMap::default(),
            names: HashSet::default(),
        };
        let mut ids = Vec::with_capacity(operands.len());
        for built in operands {
            ids.push(if built.program.unit == unit {
                draft.import(built)?
            } else {
                draft.import(&Built::new(rescaled(&built.program, unit)?))?
            });
        }
        Ok((draft, ids))
    }

    pub(super) fn unit(&self) -> Unit {
        self.program.unit
    }

    /// Adds what is not there yet of another program, and gives its output.
    fn import(&mut self, from: &Built) -> Checked<StreamId> {
        let mut reducers = HashMap::default();
        for id in from.program.reducers.ids() {
            reducers.insert(id, self.reducer(&from.program, id));
        }
        let mut functions = HashMap::default();
        for (id, function) in from.program.functions.iter() {
            functions.insert(id, self.function(function)?);
        }
        let mut streams: HashMap<StreamId, StreamId> = HashMap::default();
        for id in from.program.streams.ids() {
            let key = from.keys[id.index()];
            if let Some(known) = self.known.get(&key) {
                streams.insert(id, *known);
                continue;
            }
            streams.insert(id, StreamId::new(self.program.streams.len()));
            let mut copier = Copier::new(&from.program, &mut self.program);
            copier.streams = streams;
            copier.reducers.clone_from(&reducers);
            copier.functions.clone_from(&functions);
            let mut stream = copier.stream(id);
            streams = copier.streams;
            match &mut stream {
                Stream::Input(input) => self.claim_name(&input.name)?,
                Stream::Temporal(temporal) => temporal.name = self.free_name(&temporal.name),
            }
            self.push(stream, key);
        }
        Ok(streams[&from.program.output])
    }

    /// Adds a reducer of another program, or finds its twin.
    pub(super) fn reducer(&mut self, from: &Program, id: ReducerId) -> ReducerId {
        let key = key::of_reducer(from, id);
        let mut here = self.program.reducers.ids();
        if let Some(twin) = here.find(|r| key::of_reducer(&self.program, *r) == key) {
            return twin;
        }
        let mut reducer = from.reducers[id].clone();
        let taken = |name: &String| self.program.reducers.iter().any(|(_, r)| r.name == *name);
        let name = numbered(&reducer.name).find(|name| !taken(name));
        reducer.name = name.unwrap_or_default();
        let mut copier = Copier::new(from, &mut self.program);
        reducer.init = copier.expr(reducer.init);
        copier.lambda(&mut reducer.acc);
        reducer.merge.iter_mut().for_each(|l| copier.lambda(l));
        reducer.deacc.iter_mut().for_each(|l| copier.lambda(l));
        copier.lambda(&mut reducer.result);
        self.program.reducers.push(reducer)
    }

    fn function(&mut self, function: &Function) -> Checked<FuncId> {
        for (id, known) in self.program.functions.iter() {
            if known == function {
                return Ok(id);
            }
            if known.name == function.name {
                return Err(Problem::new(
                    ErrorKind::Conflict,
                    format!("two different functions are called `@{}`", function.name),
                ));
            }
        }
        Ok(self.program.functions.push(function.clone()))
    }

    fn push(&mut self, stream: Stream, key: Key) -> StreamId {
        self.names.insert(stream.name().to_owned());
        self.keys.push(key);
        let id = self.program.streams.push(stream);
        self.known.insert(key, id);
        id
    }

    /// Makes `name` an input's: a temporal expression that has it gets another.
    fn claim_name(&mut self, name: &str) -> Checked<()> {
        let Some(taken) = self.program.stream_named(name) else {
            return Ok(());
        };
        if self.program.streams[taken].as_input().is_some() {
            return Err(Problem::new(
                ErrorKind::Conflict,
                format!("two different inputs are called `{name}`"),
            )
            .hint("an input is declared once and then used as often as needed; give one of them another name"));
        }
        self.rename(taken, &format!("{name}_2"));
        Ok(())
    }

    fn rename(&mut self, id: StreamId, stem: &str) {
        let name = self.free_name(stem);
        if let Stream::Temporal(temporal) = &mut self.program.streams[id] {
            self.names.remove(&temporal.name);
            self.names.insert(name.clone());
            temporal.name = name;
        }
    }

    /// Gives a temporal expression a name. Whoever had it gets another, unless it is an input.
    pub(super) fn name(&mut self, id: StreamId, name: &str) -> Checked<()> {
        if name.is_empty() || name.starts_with(OWN_PAST) {
            return Err(Problem::parameter(format!(
                "a stream cannot be called `{name}`"
            )));
        }
        match self.program.stream_named(name) {
            Some(same) if same == id => return Ok(()),
            Some(_) => self.claim_name(name)?,
            None => {}
        }
        self.rename(id, name);
        Ok(())
    }

    fn free_name(&self, stem: &str) -> String {
        let free = |name: &String| !self.names.contains(name);
        numbered(stem).find(free).unwrap_or_default()
    }

    /// Defines a stream, or finds the one that is defined so already.
    pub(super) fn define(&mut self, stem: &str, clock: Clock, body: ExprId) -> Checked<StreamId> {
        let key = key::of_definition(&self.program, &self.keys, &clock, body);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let name = self.free_name(stem);
        let id = self.program.define(name.clone(), clock, body)?;
        self.names.insert(name);
        self.keys.push(key);
        self.known.insert(key, id);
        Ok(id)
    }

    /// Defines a stream that reads its own past: `body` gets its id.
    pub(super) fn define_recurrence(
        &mut self,
        stem: &str,
        clock: Clock,
        dtype: DType,
        body: impl FnOnce(&mut Self, StreamId) -> Checked<ExprId>,
    ) -> Checked<StreamId> {
        let name = self.free_name(stem);
        let id = self.program.declare(name.clone(), clock.clone(), dtype);
        let body = body(self, id)?;
        let key = key::of_definition(&self.program, &self.keys, &clock, body);
        self.program.redefine(id, clock, body);
        self.names.insert(name);
        self.keys.push(key);
        self.known.insert(key, id);
        Ok(id)
    }

    pub(super) fn add(&mut self, expr: Expr) -> Checked<ExprId> {
        Ok(self.program.add(expr)?)
    }

    /// `~x[t]`.
    pub(super) fn read(&mut self, stream: StreamId) -> Checked<ExprId> {
        self.read_at(stream, 0)
    }

    /// `~x[t+offset]`.
    pub(super) fn read_at(&mut self, stream: StreamId, offset: i64) -> Checked<ExprId> {
        self.add(Expr::At { stream, offset })
    }

    pub(super) fn timeline(&self, stream: StreamId) -> Timeline {
        Timelines::new(&self.program).of(stream)
    }

    /// How long the events of a stream can be, in ticks; `None` if there is no limit.
    pub(super) fn longest_event(&self, stream: StreamId) -> Option<i64> {
        let timelines = Timelines::new(&self.program);
        Some(timelines.stretch(timelines.of(stream))? + 1)
    }

    /// The values of operands that are evaluated together: read, if all are on one timeline, and otherwise with the definitions of those
    /// that are floating or held in place.
    pub(super) fn joined(&mut self, operands: &[StreamId]) -> Checked<Vec<ExprId>> {
        let timelines = Timelines::new(&self.program);
        let one_timeline = operands
            .iter()
            .all(|id| timelines.of(*id) == timelines.of(operands[0]));
        let mut values = Vec::with_capacity(operands.len());
        for id in operands {
            values.push(if one_timeline {
                self.read(*id)?
            } else {
                self.value(*id)?
            });
        }
        Ok(values)
    }

    /// Defines a stream over the values that [`joined`](Self::joined) gave, on the clock that its body gives. Windows over several
    /// streams alone give none: then it is looked at the events of all the operands.
    pub(super) fn define_joined(
        &mut self,
        stem: &str,
        operands: &[StreamId],
        body: ExprId,
    ) -> Checked<StreamId> {
        if let Some(clock) = default_clock(&self.program, body, None) {
            return self.define(stem, clock, body);
        }
        let mut sources: Vec<Source> = Vec::new();
        for operand in operands {
            let clock = self.program.streams[*operand].as_temporal();
            let more = match clock.map(|temporal| &temporal.clock) {
                Some(Clock::OnChange(sources)) => sources.clone(),
                Some(Clock::At(stream)) => vec![Source::Value {
                    stream: *stream,
                    offset: 0,
                }],
                Some(Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. }) | None => {
                    Vec::new()
                }
            };
            for source in more {
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
        }
        self.define(stem, Clock::OnChange(sources), body)
    }

    /// The value of a stream at the instants of any clock: what a floating one computes there, what any other has there.
    pub(super) fn value(&mut self, stream: StreamId) -> Checked<ExprId> {
        let floating = Floating::of(&self.program);
        if self.is_held(stream) || floating.contains(stream) {
            self.inlined(stream, &floating)
        } else {
            self.read(stream)
        }
    }

    /// Whether a stream is nothing but another one, held. That is the same at every instant of an event, but the end of a held event is known only when
    /// the next one comes.
    fn is_held(&self, stream: StreamId) -> bool {
        let temporal = self.program.streams[stream].as_temporal();
        temporal.is_some_and(|temporal| {
            matches!(self.program.expr(temporal.body), Expr::Hold { .. })
                && matches!(temporal.clock, Clock::OnChange(_))
        })
    }

    /// The value of a stream at the instants of a clock; of one on the clock's timeline it is read. A stream that combines that timeline's events
    /// with others is computed there: as events of its own several of them could be active at once.
    pub(super) fn value_on(&mut self, stream: StreamId, clock: &Clock) -> Checked<ExprId> {
        let timelines = Timelines::new(&self.program);
        let Some(timeline) = timelines.aligned(clock) else {
            return self.value(stream);
        };
        if timelines.of(stream) == timeline {
            return self.read(stream);
        }
        let floating = Floating::of(&self.program);
        let followers: HashSet<StreamId> = self
            .program
            .temporals()
            .map(|(id, _)| id)
            .filter(|id| timelines.of(*id) != timeline && !floating.contains(*id))
            .filter(|id| self.follows(&timelines, *id, timeline))
            .collect();
        let body = self.program.streams[stream].as_temporal().map(|t| t.body);
        match body {
            Some(body) if followers.contains(&stream) => {
                let inline = |id| floating.contains(id) || followers.contains(&id);
                self.inlined_expr(body, &inline, &mut HashMap::default())
            }
            _ => self.value(stream),
        }
    }

    /// Whether every event of a stream lies in one of a timeline and ends with it wherever that one's end is in it, so that its value there is its
    /// body's.
    fn follows(&self, timelines: &Timelines, stream: StreamId, timeline: Timeline) -> bool {
        let Some(temporal) = self.program.streams[stream].as_temporal() else {
            return false;
        };
        let sources = match &temporal.clock {
            Clock::At(stream) => vec![Source::Value {
                stream: *stream,
                offset: 0,
            }],
            Clock::OnChange(sources) => sources.clone(),
            Clock::Every { .. } | Clock::Calendar(_) | Clock::Sessions { .. } => return false,
        };
        sources.into_iter().any(|source| {
            matches!(source, Source::Value { offset: 0, .. })
                && (timelines.of(source.stream()) == timeline
                    || source.stream() != stream
                        && self.follows(timelines, source.stream(), timeline))
                && strict_in_source(&self.program, temporal.body, source)
        })
    }

    pub(super) fn is_floating(&self, stream: StreamId) -> bool {
        Floating::of(&self.program).contains(stream)
    }

    /// The body of a floating stream, over what is not floating.
    fn inlined(&mut self, stream: StreamId, floating: &Floating) -> Checked<ExprId> {
        let body = self.program.streams[stream]
            .as_temporal()
            .map(|temporal| temporal.body);
        match body {
            Some(body) => {
                self.inlined_expr(body, &|id| floating.contains(id), &mut HashMap::default())
            }
            None => self.read(stream),
        }
    }

    /// A copy of `id` with the bodies of the streams that `inline` names in place of their values at `t`.
    pub(super) fn inlined_expr(
        &mut self,
        id: ExprId,
        inline: &impl Fn(StreamId) -> bool,
        done: &mut HashMap<ExprId, ExprId>,
    ) -> Checked<ExprId> {
        if let Some(known) = done.get(&id) {
            return Ok(*known);
        }
        let old = self.program.expr(id).clone();
        let new = match &old {
            Expr::At { stream, offset: 0 } if inline(*stream) => {
                let body = self.program.streams[*stream]
                    .as_temporal()
                    .map(|temporal| temporal.body);
                match body {
                    Some(body) => self.inlined_expr(body, inline, done)?,
                    None => id,
                }
            }
            // A map is evaluated at the events of its window, not at `t`.
            Expr::Reduce { .. } => id,
            old => {
                let mut problem = None;
                let new = old.map_operands(|operand| {
                    self.inlined_expr(operand, inline, done)
                        .unwrap_or_else(|p| {
                            problem = Some(p);
                            operand
                        })
                });
                if let Some(problem) = problem {
                    return Err(problem);
                }
                if new == *old { id } else { self.add(new)? }
            }
        };
        done.insert(id, new);
        Ok(new)
    }

    /// The clock on which the gaps of a stream are: its timeline, with the positions at which it has no value. What a filter
    /// dropped is no gap.
    pub(super) fn clock_with_gaps(&self, stream: StreamId) -> Clock {
        let Stream::Temporal(temporal) = &self.program.streams[stream] else {
            return Clock::At(stream);
        };
        match &temporal.clock {
            _ if self.is_filter(stream) => Clock::At(stream),
            Clock::At(source) => self.clock_with_gaps(*source),
            clock => clock.clone(),
        }
    }

    fn is_filter(&self, stream: StreamId) -> bool {
        let temporal = self.program.streams[stream].as_temporal();
        let body = temporal.map(|temporal| self.program.expr(temporal.body));
        match body {
            Some(Expr::When {
                then, otherwise, ..
            }) => {
                matches!(self.program.expr(*then), Expr::At { offset: 0, .. })
                    && matches!(self.program.expr(*otherwise), Expr::Null(_))
            }
            _ => false,
        }
    }

    /// The clock on which conditions choose among operands, also where no condition has a value: that with the gaps of a condition, if all
    /// operands have their events there.
    pub(super) fn clock_of_choice(
        &self,
        conditions: &[StreamId],
        operands: &[StreamId],
    ) -> Option<Clock> {
        let clocks = conditions.iter().map(|id| self.clock_with_gaps(*id));
        let mut clocks =
            clocks.filter(|clock| !matches!(clock, Clock::At(stream) if self.is_filter(*stream)));
        let clock = clocks.next()?;
        let timelines = Timelines::new(&self.program);
        let timeline = timelines.aligned(&clock)?;
        let floating = Floating::of(&self.program);
        let is_there = |id: &StreamId| {
            timelines.of(*id) == timeline || floating.contains(*id) || self.is_held(*id)
        };
        operands.iter().all(is_there).then_some(clock)
    }

    /// The finished program: what the output needs, verified.
    pub(super) fn finish(mut self, output: StreamId) -> Checked<Built> {
        self.program.output = output;
        let live = live_streams(&self.program);
        let order: Vec<StreamId> = self
            .program
            .streams
            .ids()
            .filter(|id| live.contains(id))
            .collect();
        let program = rebuild(&self.program, &order);
        verify(&program)?;
        Ok(Built {
            keys: order.iter().map(|id| self.keys[id.index()]).collect(),
            program,
        })
    }
}

/// `stem`, `stem_2`, `stem_3` …
fn numbered(stem: &str) -> impl Iterator<Item = String> {
    let stem = stem.to_owned();
    std::iter::once(stem.clone()).chain((2..).map(move |n: u64| format!("{stem}_{n}")))
}

/// The finest unit of the programs, if all convert to it.
fn common_unit(operands: &[&Built]) -> Checked<Unit> {
    let has_data = |built: &&&Built| {
        let mut inputs = built.program.inputs();
        inputs.any(|(_, input)| !input.name.starts_with(OWN_PAST))
    };
    let units: Vec<Unit> = operands
        .iter()
        .filter(has_data)
        .map(|built| built.program.unit)
        .collect();
    let finest = units.iter().copied().max();
    if units.contains(&Unit::Tick) && finest != Some(Unit::Tick) {
        return Err(Problem::new(
            ErrorKind::Conflict,
            "one stream counts plain ticks and another seconds",
        )
        .hint("declare both inputs with a unit of seconds, or both with `tick`"));
    }
    let any = operands.first().map(|built| built.program.unit);
    Ok(finest.or(any).unwrap_or(Unit::Tick))
}
