//! Runs: from inputs to the events of a stream, key by key.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use tilt_ir::{DType, Input, Program, Span, Stream, StreamId, Temporal, verify};

use crate::{
    Event, Functions, Inputs, Value,
    cells::Cells,
    clock::{Tick, event_ticks},
    error::{DataError, QueryError, RunError},
    eval::Evaluator,
    events::{Row, check_overlap, check_rows, hull},
    range::{Ranges, bounded_reads},
    timeline::{Series, Streams, Timeline, TimelineId},
    value::Ordered,
};

/// How many cells a clock may have: seconds over two years, about 3 GB.
const MAX_CELLS: u128 = 1 << 26;

/// What a run may be told besides its inputs.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// The run's span; must contain every event. By default the [`hull`] of the inputs.
    pub span: Option<Span>,
    /// Emit only the events whose end lies in here. The results are those of the whole run.
    pub part: Option<Span>,
    /// The external functions.
    pub functions: Functions,
}

/// What is told now and then which share of a run's work is done, from 0 to 1, and says whether to go on.
pub type Watch<'a> = &'a dyn Fn(f64) -> bool;

/// Evaluations between two calls of a [`Watch`].
const BETWEEN_CALLS: usize = 256;

/// The output of a program, ordered by end. For keyed inputs these are the rows of [`run_keyed`] without their keys.
///
/// # Errors
/// When the inputs are not what the program declares, or the program has no meaning on them.
pub fn run(program: &Program, inputs: &Inputs, options: &Options) -> Result<Vec<Event>, RunError> {
    run_stream(program, inputs, options, program.output)
}

/// The events of any stream of a program, as [`run`] gives those of its output.
///
/// # Errors
/// As [`run`].
pub fn run_stream(
    program: &Program,
    inputs: &Inputs,
    options: &Options,
    stream: StreamId,
) -> Result<Vec<Event>, RunError> {
    let rows = run_keys(program, inputs, options, stream, &|_| true)?;
    Ok(rows.into_iter().map(|(_, event)| event).collect())
}

/// The output of a program with its keys, ordered by end, then key (φ first), then order within the key. Without a
/// keyed input every key is φ.
///
/// # Errors
/// As [`run`].
pub fn run_keyed(
    program: &Program,
    inputs: &Inputs,
    options: &Options,
) -> Result<Vec<(Value, Event)>, RunError> {
    run_keys(program, inputs, options, program.output, &|_| true)
}

pub(crate) fn run_keys(
    program: &Program,
    inputs: &Inputs,
    options: &Options,
    target: StreamId,
    watch: Watch,
) -> Result<Vec<(Value, Event)>, RunError> {
    verify(program).map_err(QueryError::Invalid)?;
    if !program.streams.contains(target) {
        return Err(RunError::Internal(format!("{target:?} names no stream")));
    }
    let needed = needed(program, target);
    let reads_itself = reads_itself(program, target);
    for (_, input) in program.inputs() {
        if !inputs.contains_key(&input.name) {
            let stream = input.name.clone();
            return Err(DataError::Missing { stream }.into());
        }
    }
    let Some(run) = options.span.or_else(|| hull(inputs)) else {
        return Ok(Vec::new());
    };
    let mut tables = Vec::new();
    for (id, input) in program.inputs() {
        let rows = check_rows(input, &inputs[&input.name], run)?;
        tables.push((id, Table::new(input, rows)));
    }
    let keys = keys(&tables);
    let mut output = Vec::new();
    let count = keys.len() as f64;
    for (number, key) in keys.into_iter().enumerate() {
        let watch = |share: f64| watch((number as f64 + share) / count);
        let of_key = tables
            .iter()
            .map(|(id, table)| (*id, table.of_key(key.as_ref())));
        let of_key = of_key.collect();
        let is_asked = |end: i64| options.part.is_none_or(|part| part.contains(end));
        // Beside the part a run may see too few events, on which an expression can fail. Nobody reads the target but itself.
        let is_read = |id: StreamId, end: i64| id != target || reads_itself || is_asked(end);
        let streams = evaluate(
            program,
            &needed,
            of_key,
            run,
            &is_read,
            &options.functions,
            &watch,
        )?;
        let series = &streams[target];
        for position in series.events() {
            let Span { start, end } = series.timeline.interval(*position);
            if is_asked(end) {
                let event = Event::new(start, end, series.value(*position).clone());
                output.push((key.clone().unwrap_or(Value::Null), event));
            }
        }
    }
    // Keys come in order and the sort is stable.
    output.sort_by_key(|(_, event)| event.end);
    Ok(output)
}

/// The checked rows of an input.
enum Table {
    /// Seen by every key.
    Shared(Vec<Row>),
    /// Each key sees its own.
    Keyed(BTreeMap<Ordered, Vec<Row>>),
}

impl Table {
    fn new(input: &Input, rows: Vec<Row>) -> Self {
        let Some(key) = &input.key else {
            return Self::Shared(rows);
        };
        let field = match &input.dtype {
            DType::Record(fields) => fields.iter().position(|f| f.name == *key),
            _ => None,
        };
        let field = field.expect("a key is a field of a verified input");
        let mut by_key: BTreeMap<Ordered, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let key = match &row.value {
                Value::Record(fields) => fields[field].clone(),
                _ => Value::Null,
            };
            by_key.entry(Ordered(key)).or_default().push(row);
        }
        Self::Keyed(by_key)
    }

    fn of_key(&self, key: Option<&Value>) -> Vec<Row> {
        match (self, key) {
            (Self::Shared(rows), _) => rows.clone(),
            (Self::Keyed(by_key), Some(key)) => {
                let rows = by_key.get(&Ordered(key.clone()));
                rows.cloned().unwrap_or_default()
            }
            (Self::Keyed(_), None) => Vec::new(),
        }
    }
}

/// The keys that occur in any keyed input, in order; the single key `None` if there is no such input.
fn keys(tables: &[(StreamId, Table)]) -> Vec<Option<Value>> {
    let mut keyed = false;
    let mut keys = BTreeSet::new();
    for (_, table) in tables {
        if let Table::Keyed(by_key) = table {
            keyed = true;
            keys.extend(by_key.keys().cloned());
        }
    }
    if keyed {
        keys.into_iter().map(|key| Some(key.0)).collect()
    } else {
        vec![None]
    }
}

/// The streams that `target` depends on, itself included, in order of definition.
fn needed(program: &Program, target: StreamId) -> Vec<StreamId> {
    let mut needed = BTreeSet::new();
    let mut open = vec![target];
    while let Some(stream) = open.pop() {
        if !needed.insert(stream) {
            continue;
        }
        if let Stream::Temporal(temporal) = &program.streams[stream] {
            open.extend(temporal.clock.streams());
            program.walk(temporal.body, &mut |_, expr| open.extend(expr.stream()));
        }
    }
    needed.into_iter().collect()
}

fn reads_itself(program: &Program, id: StreamId) -> bool {
    let mut found = false;
    if let Stream::Temporal(temporal) = &program.streams[id] {
        program.walk(temporal.body, &mut |_, expr| {
            found |= expr.stream() == Some(id);
        });
    }
    found
}

/// Evaluates the needed streams in order of definition, for one key: the events that are read, by the stream and their ends.
fn evaluate(
    program: &Program,
    needed: &[StreamId],
    inputs: Vec<(StreamId, Vec<Row>)>,
    run: Span,
    is_read: &dyn Fn(StreamId, i64) -> bool,
    functions: &Functions,
    watch: Watch,
) -> Result<Streams, RunError> {
    let mut streams = Streams::new(program.streams.len());
    for (id, rows) in inputs {
        if let Some(input) = program.streams[id].as_input() {
            check_overlap(input, &rows)?;
        }
        let intervals = rows.iter().map(|row| row.span).collect();
        let mut series = Series::new(Timeline::new(TimelineId::Input(id), intervals));
        for (position, row) in rows.into_iter().enumerate() {
            series.set(position, row.value);
        }
        streams.insert(id, series);
    }
    let temporals: Vec<(StreamId, &Temporal)> = needed
        .iter()
        .filter_map(|id| Some((*id, program.streams[*id].as_temporal()?)))
        .collect();
    let ranges = Ranges::new(program, needed, run);
    let grids = cell_timelines(program, &temporals, &ranges, run)?;
    let count = temporals.len() as f64;
    for (number, (id, temporal)) in temporals.into_iter().enumerate() {
        let (timeline, ticks) = match Cells::of_clock(program, id, &temporal.clock) {
            Some(cells) => {
                let timeline = grids.iter().find(|timeline| timeline.id == cells.id());
                let timeline = Rc::clone(timeline.expect("all cells have a timeline"));
                let reads = bounded_reads(program, id, temporal.body);
                let ticks = cell_ticks(&timeline, |cell: Span| {
                    (cell.start < run.end && cell.end > run.start)
                        || reads.iter().any(|r| r.is_active(cell, &streams, run))
                });
                (timeline, ticks)
            }
            None => event_ticks(program, id, temporal, &streams, run),
        };
        streams.insert(id, Series::new(timeline));
        let evaluator = Evaluator {
            program,
            functions,
            run_end: run.end,
            stream: id,
        };
        let all = ticks.len() as f64;
        for (tick, Tick { position, bound }) in ticks.into_iter().enumerate() {
            let is_due = tick % BETWEEN_CALLS == 0;
            if is_due && !watch((number as f64 + tick as f64 / all) / count) {
                return Err(RunError::Stopped);
            }
            if !is_read(id, streams[id].timeline.interval(position).end) {
                continue;
            }
            let value = evaluator.value(temporal.body, position, &bound, &streams)?;
            streams[id].set(position, value);
        }
    }
    Ok(streams)
}

/// One timeline for each grid or calendar, with all cells that any expression on it can have: positions are shared.
fn cell_timelines(
    program: &Program,
    temporals: &[(StreamId, &Temporal)],
    ranges: &Ranges,
    run: Span,
) -> Result<Vec<Rc<Timeline>>, RunError> {
    let mut all: Vec<(Cells, Vec<i128>)> = Vec::new();
    for (id, temporal) in temporals {
        let Some(cells) = Cells::of_clock(program, *id, &temporal.clock) else {
            continue;
        };
        let stream = || temporal.name.clone();
        let range = ranges.of(*id);
        let numbers = cells
            .numbers(Some(run))
            .and_then(|_| cells.numbers(range))
            .ok_or_else(|| QueryError::BeyondCalendar {
                stream: stream(),
                span: run,
            })?;
        let count = (numbers.end - numbers.start).unsigned_abs();
        if count > MAX_CELLS {
            return Err(QueryError::GridTooFine {
                stream: stream(),
                cells: count,
                limit: MAX_CELLS,
            }
            .into());
        }
        match all.iter_mut().find(|(other, _)| other.id() == cells.id()) {
            Some((_, known)) => known.extend(numbers),
            None => all.push((cells, numbers.collect())),
        }
    }
    let timeline = |(cells, mut numbers): (Cells, Vec<i128>)| {
        numbers.sort_unstable();
        numbers.dedup();
        let intervals = numbers.into_iter().filter_map(|number| cells.cell(number));
        let intervals = intervals.collect();
        Timeline::new(cells.id(), intervals)
    };
    Ok(all.into_iter().map(timeline).collect())
}

/// The cells that an expression has. Nothing is bound.
fn cell_ticks(timeline: &Timeline, has: impl Fn(Span) -> bool) -> Vec<Tick> {
    let tick = |position| Tick {
        position,
        bound: Vec::new(),
    };
    (0..timeline.len())
        .filter(|position| has(timeline.interval(*position)))
        .map(tick)
        .collect()
}
