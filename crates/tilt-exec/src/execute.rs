//! Runs: from inputs to pieces and back.

use std::{collections::BTreeMap, sync::OnceLock, thread};

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use tilt_data::{Column, SnapshotBuffer};
use tilt_interp::{Options, RunError, run_buffers_watched};
use tilt_ir::{DType, Field, Program, Span, StreamId};

use crate::{
    control::{ALL_WORK, Control},
    edges,
    error::Error,
    facts::SeriesFacts,
    gaps,
    keyed::{self, Past},
    packed::packed,
    pieces::Job,
    plan::{Domain, Plan, Stage},
    query::{Backend, Inner, Prepared, Ready, RunOptions},
    run::Trouble,
    series::{Axis, Series, aligned},
    stats::Stats,
    text::Dictionary,
};

/// More cells than this are not a grid that anybody means.
pub(crate) const MAX_CELLS: i128 = 1 << 26;
/// A run on more rows, or with more cells, may take long: all pairs of so many take milliseconds.
const BRIEF: usize = 1 << 11;
/// The cells of all keys together in a run that does not take long.
const BRIEF_CELLS: usize = 1 << 16;

pub(crate) fn run(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
) -> Result<SnapshotBuffer, Error> {
    Ok(watched(query, inputs, options, &Control::new(options))?.0)
}

/// The output, if it is there at once for sure.
pub(crate) fn run_briefly(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
) -> Option<SnapshotBuffer> {
    let rows: usize = inputs.values().map(SnapshotBuffer::len).sum();
    let calls = query.program.functions.iter().next().is_some();
    if rows > BRIEF || calls || options.backend == Backend::Interpreter {
        return None;
    }
    let is_keyed = query.program.inputs().any(|(_, input)| input.key.is_some());
    // Each row may have a key of its own, and each key all cells.
    let cells = if is_keyed {
        BRIEF.min(BRIEF_CELLS / rows.max(1))
    } else {
        BRIEF
    };
    let output = try_loops(query, inputs, options, &Control::brief(cells as i128)).ok()??;
    if options.events_only {
        return packed(output, 1).ok();
    }
    Some(output)
}

/// Whether no grid of a plan has more than so many cells in a run.
pub(crate) fn has_cells_up_to(prepared: &Prepared, run: Span, most: i128) -> bool {
    match prepared {
        Prepared::Loops { plan, .. } => scope_of(plan, run, most).is_some(),
        Prepared::Interpreted(_) => false,
    }
}

/// The output, the plan that gave it, and what that cost.
pub(crate) fn measure(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
) -> Result<(SnapshotBuffer, Option<Ready>, Stats), Error> {
    let control = Control::measured(options);
    let (output, how) = watched(query, inputs, options, &control)?;
    let is_interpreted = how == How::Interpreted;
    let threads = if is_interpreted {
        1
    } else {
        options.thread_count()
    };
    let stats = control.stats().expect("a run that is measured");
    let (ready, stats) = stats.finish(output.len(), threads, is_interpreted);
    Ok((output, ready, stats))
}

/// What gave a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Loops,
    Interpreted,
}

fn watched(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
    control: &Control,
) -> Result<(SnapshotBuffer, How), Error> {
    control.reach(0.0);
    let (mut output, how) = controlled(query, inputs, options, control)?;
    if options.events_only {
        output =
            packed(output, options.thread_count()).map_err(|e| Error::Internal(e.to_string()))?;
    }
    control.finish(output.len());
    Ok((output, how))
}

fn controlled(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
    control: &Control,
) -> Result<(SnapshotBuffer, How), Error> {
    if options.backend != Backend::Interpreter {
        if let Some(result) = try_loops(query, inputs, options, control)? {
            return Ok((result, How::Loops));
        }
        control.alive()?;
        control.restart();
        if query.learns_of_gaps()
            && let Some(result) = try_loops(query, inputs, options, control)?
        {
            return Ok((result, How::Loops));
        }
    }
    control.alive()?;
    control.restart();
    let options = Options {
        span: options.span,
        part: options.part,
        functions: options.functions.clone(),
    };
    let watch = |share: f64| control.reach(share);
    let result = run_buffers_watched(&query.program, inputs, &options, &watch);
    if let Err(RunError::Stopped) = result {
        control.alive()?;
    }
    Ok((result?, How::Interpreted))
}

/// The result by loops, or `None` where only the interpreter knows.
fn try_loops(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
    control: &Control,
) -> Result<Option<SnapshotBuffer>, Error> {
    let program = &query.program;
    control.alive()?;
    let Some((buffers, run)) = closed(program, inputs, options) else {
        return Ok(None);
    };
    if program.inputs().any(|(_, input)| input.key.is_some()) {
        return keyed::run(query, inputs, &buffers, run, options, control);
    }
    let mut facts = BTreeMap::new();
    for (id, input) in program.inputs() {
        let Ok(of_input) = SeriesFacts::of_input(input, &buffers[&id]) else {
            return Ok(None);
        };
        facts.insert(id, of_input);
    }
    control.alive()?;
    let prepared = control.prepare(query, &facts, options.backend, run);
    control.alive()?;
    let Prepared::Loops { plan, code } = &*prepared else {
        return Ok(None);
    };
    let rows = buffers.values().map(SnapshotBuffer::len).sum();
    let Some(scope) = scope(plan, run, rows) else {
        return Ok(None);
    };
    let part = options.part.unwrap_or(Span::new(i64::MIN, i64::MAX));
    let texts: Vec<&ArrayRef> = buffers
        .values()
        .flat_map(SnapshotBuffer::columns)
        .map(Column::array)
        .collect();
    let dictionary = Dictionary::new(program, &texts);
    let series = buffers
        .iter()
        .map(|(id, buffer)| (*id, input_series(program, *id, buffer, &dictionary)))
        .collect();
    let job = Job {
        plan,
        code,
        lineage: &query.lineage,
        buffers: &buffers,
        series: &series,
        run,
        scope,
        part,
        dictionary: &dictionary,
        functions: &options.functions,
        threads: options.thread_count(),
        piece_rows: options.piece_rows,
        piece_ticks: options.piece_ticks,
        control,
        work: ALL_WORK,
        age: None,
        unread: &[],
    };
    match job.run() {
        Ok(series) => {
            let output = assemble(program, inputs, plan, &series, &dictionary);
            output.map(Some).map_err(|e| Error::Internal(e.to_string()))
        }
        Err(Trouble(why)) => {
            control.gives_up(why);
            Ok(None)
        }
    }
}

/// The output from rows that follow those of the past, if there is any, and what is left to the next run. `None` where another way must be taken, which needs all rows:
/// see [`keyed::go_on`].
pub(crate) fn go_on(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    past: Option<&Past>,
    options: &RunOptions,
) -> Result<Option<(SnapshotBuffer, Option<Past>)>, Error> {
    let Some((buffers, run)) = closed(&query.program, inputs, options) else {
        return Ok(None);
    };
    let control = Control::new(options);
    let found = keyed::go_on(query, inputs, &buffers, run, options, &control, past)?;
    let Some((mut output, past)) = found else {
        return Ok(None);
    };
    if options.events_only {
        output =
            packed(output, options.thread_count()).map_err(|e| Error::Internal(e.to_string()))?;
    }
    Ok(Some((output, past)))
}

/// The events of inputs, none of which lasts longer than the run, and its span. `None` if there is none, or where the interpreter has to say what is wrong.
fn closed(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
) -> Option<(BTreeMap<StreamId, SnapshotBuffer>, Span)> {
    let buffers = events_only(program, inputs)?;
    let hull = || {
        let hulls = inputs.values().filter_map(SnapshotBuffer::hull);
        hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
    };
    let run = options.span.or_else(hull)?;
    let buffers = buffers.into_iter();
    let buffers: BTreeMap<StreamId, SnapshotBuffer> = buffers
        .map(|(id, buffer)| (id, buffer.close(run.end)))
        .collect();
    // Events outside of a given span are an error, which the interpreter words.
    let inside = |hull: Span| hull.start >= run.start && hull.end <= run.end;
    let are_inside = buffers.values().all(|b| b.hull().is_none_or(inside));
    (options.span.is_none() || are_inside).then_some((buffers, run))
}

/// As many threads as `TILT_THREADS` says, or else as the machine has cores.
pub fn default_threads() -> usize {
    // Asking takes several system calls and files of control groups: half of what a small run takes.
    static CORES: OnceLock<usize> = OnceLock::new();
    let asked = std::env::var("TILT_THREADS").ok();
    let asked = asked.and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(|| *CORES.get_or_init(cores))
}

/// The inputs of a program without rows that are no events, but for gaps between samples where they make no difference. `None` if one is not as declared, which the
/// interpreter reports.
fn events_only(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
) -> Option<BTreeMap<StreamId, SnapshotBuffer>> {
    let mut events = BTreeMap::new();
    for (id, input) in program.inputs() {
        let buffer = inputs.get(&input.name)?;
        tilt_interp::check_buffer(program, input, buffer).ok()?;
        // Found once: copies of the buffer know it.
        buffer.is_bag();
        let buffer = if gaps::has_gaps(buffer) && gaps::may_stay(program, id) {
            buffer.clone()
        } else if buffer.null_rows() > 0 || buffer.superseded() > 0 {
            let rows: Vec<usize> = buffer.positions().collect();
            buffer.gather(&rows).ok()?
        } else {
            buffer.clone()
        };
        events.insert(id, buffer);
    }
    Some(events)
}

/// Where the cells of grids may end, generously; `None` if there would be far more than a run on so many rows has use for.
pub(crate) fn scope(plan: &Plan, run: Span, rows: usize) -> Option<Span> {
    scope_of(plan, run, MAX_CELLS + 2 * rows as i128)
}

/// The same; `None` if a grid has more than `most` cells there.
fn scope_of(plan: &Plan, run: Span, most: i128) -> Option<Span> {
    let has_cells =
        |stage: &Stage| matches!(stage.domain, Domain::Grid { .. } | Domain::Calendar(_));
    if !plan.stages.iter().any(has_cells) {
        return Some(run);
    }
    let slack = plan.slack?;
    let scope = Span::new(run.start.checked_sub(slack)?, run.end.checked_add(slack)?);
    for stage in &plan.stages {
        let cells = match &stage.domain {
            Domain::Grid { period, .. } => {
                (i128::from(scope.end) - i128::from(scope.start)) / i128::from(*period)
            }
            // A run beyond the calendar fails, which the interpreter words.
            Domain::Calendar(cells) => cells.count(scope)?,
            _ => 0,
        };
        if cells > most {
            return None;
        }
    }
    Some(scope)
}

/// An input as loops read it.
pub(crate) fn input_series(
    program: &Program,
    id: StreamId,
    buffer: &SnapshotBuffer,
    dictionary: &Dictionary,
) -> Series {
    let input = program.streams[id].as_input().expect("an input");
    let fields: Vec<(Option<&str>, &DType)> = match &input.dtype {
        DType::Record(fields) => fields
            .iter()
            .map(|f| (Some(f.name.as_str()), &f.dtype))
            .collect(),
        dtype => vec![(None, dtype)],
    };
    let leaves = fields.into_iter().map(|(name, dtype)| {
        let column = match name {
            Some(name) => buffer.column(name).expect("a checked column"),
            None => &buffer.columns()[0],
        };
        edges::leaf(column.array(), dtype, dictionary)
    });
    Series {
        leaves: leaves.collect(),
        axis: std::sync::Arc::new(Axis::new(buffer.timeline().clone(), Vec::new())),
        present: buffer.validity().map(|rows| aligned(rows.inner())),
    }
}

/// The output as a buffer.
fn assemble(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    plan: &Plan,
    series: &Series,
    dictionary: &Dictionary,
) -> tilt_data::Result<SnapshotBuffer> {
    let stage = plan.stages.last().expect("a plan has stages");
    let output = assemble_rows(program, stage.stream, series, dictionary)?;
    Ok(tilt_interp::with_time_of(program, inputs, output))
}

/// The rows of a stream as a buffer.
pub(crate) fn assemble_rows(
    program: &Program,
    stream: StreamId,
    series: &Series,
    dictionary: &Dictionary,
) -> tilt_data::Result<SnapshotBuffer> {
    let dtype = program.stream_dtype(stream);
    let mut leaves = series.leaves.iter();
    let timeline = series.axis.timeline.clone();
    if let DType::Record(fields) = dtype {
        let mut array = |f: &Field| edges::array(&mut leaves, &f.dtype, dictionary);
        let columns = fields.iter().map(|f| Column::new(&f.name, array(f)));
        let present: Option<&BooleanBuffer> = series.presence();
        let rows = present.map(|p| NullBuffer::new(p.clone()));
        SnapshotBuffer::record(timeline, columns.collect(), rows, program.unit)
    } else {
        let name = program.streams[stream].name();
        let column = Column::new(name, edges::array(&mut leaves, dtype, dictionary));
        SnapshotBuffer::scalar(timeline, column, program.unit)
    }
}
