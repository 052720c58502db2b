//! Runs: from inputs to pieces and back.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, UInt32Array, cast::AsArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use tilt_data::{Column, SnapshotBuffer, dtype::to_arrow};
use tilt_interp::{Options, run_buffers};
use tilt_ir::{DType, Program, Span, StreamId};

use crate::{
    error::Error,
    facts::SeriesFacts,
    keyed,
    plan::Plan,
    query::{Backend, Inner, Prepared, RunOptions},
    pieces::Job,
    run::Trouble,
    series::{Axis, Leaf, Series},
    text::{Dictionary, is_text},
};

/// More cells than this are not a grid that anybody means.
const MAX_CELLS: i128 = 1 << 26;

pub(crate) fn run(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
) -> Result<SnapshotBuffer, Error> {
    if options.backend != Backend::Interpreter
        && let Some(result) = try_loops(query, inputs, options)?
    {
        return Ok(result);
    }
    let options = Options {
        span: options.span,
        part: options.part,
        functions: options.functions.clone(),
    };
    Ok(run_buffers(&query.program, inputs, &options)?)
}

/// The result by loops, or `None` where only the interpreter knows.
fn try_loops(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    options: &RunOptions,
) -> Result<Option<SnapshotBuffer>, Error> {
    let program = &query.program;
    let Some(buffers) = events_only(program, inputs) else {
        return Ok(None);
    };
    let hull = || {
        let hulls = inputs.values().filter_map(SnapshotBuffer::hull);
        hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
    };
    let Some(run) = options.span.or_else(hull) else {
        return Ok(None);
    };
    let buffers: BTreeMap<StreamId, SnapshotBuffer> = buffers
        .into_iter()
        .map(|(id, buffer)| (id, buffer.close(run.end)))
        .collect();
    if program.inputs().any(|(_, input)| input.key.is_some()) {
        return keyed::run(query, inputs, &buffers, run, options);
    }
    let mut facts = BTreeMap::new();
    for (id, input) in program.inputs() {
        let Ok(of_input) = SeriesFacts::of_input(input, &buffers[&id]) else {
            return Ok(None);
        };
        facts.insert(id, of_input);
    }
    let prepared = query.prepare(&facts, options.backend);
    let Prepared::Loops { plan, code } = &*prepared else {
        return Ok(None);
    };
    let Some(scope) = scope(program, plan, run) else {
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
        texts: &dictionary.codes,
        threads: options.threads.unwrap_or_else(default_threads),
        piece_rows: options.piece_rows,
    };
    match job.run() {
        Ok(parts) => {
            let parts = parts.iter();
            let parts = parts.map(|series| assemble(program, inputs, plan, series, &dictionary));
            let parts: Result<Vec<SnapshotBuffer>, _> = parts.collect();
            let whole = parts.and_then(|mut parts| match parts.len() {
                1 => Ok(parts.remove(0)),
                _ => SnapshotBuffer::concat(&parts),
            });
            whole.map(Some).map_err(|e| Error::Internal(e.to_string()))
        }
        Err(Trouble(_)) => Ok(None),
    }
}

/// As many threads as `TILT_THREADS` says, or else as the machine has cores.
pub(crate) fn default_threads() -> usize {
    let asked = std::env::var("TILT_THREADS").ok();
    let asked = asked.and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The inputs of a program without rows that are no events. `None` if one is not as declared, which the interpreter reports.
fn events_only(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
) -> Option<BTreeMap<StreamId, SnapshotBuffer>> {
    let mut events = BTreeMap::new();
    for (id, input) in program.inputs() {
        let buffer = inputs.get(&input.name)?;
        tilt_interp::check_buffer(program, input, buffer).ok()?;
        let buffer = if buffer.null_rows() > 0 || buffer.superseded() > 0 {
            let rows: Vec<usize> = buffer.positions().collect();
            buffer.gather(&rows).ok()?
        } else {
            buffer.clone()
        };
        events.insert(id, buffer);
    }
    Some(events)
}

/// Where the cells of grids may end, generously.
pub(crate) fn scope(program: &Program, plan: &Plan, run: Span) -> Option<Span> {
    let finest = program.temporals().filter_map(|(_, t)| match t.clock {
        tilt_ir::Clock::Every { period, .. } => Some(period),
        _ => None,
    });
    let Some(finest) = finest.min() else {
        return Some(run);
    };
    let slack = plan.slack?;
    let scope = Span::new(run.start.checked_sub(slack)?, run.end.checked_add(slack)?);
    let cells = (i128::from(scope.end) - i128::from(scope.start)) / i128::from(finest);
    (cells <= MAX_CELLS).then_some(scope)
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
        DType::Record(fields) => fields.iter().map(|f| (Some(f.name.as_str()), &f.dtype)).collect(),
        dtype => vec![(None, dtype)],
    };
    let leaves = fields.into_iter().map(|(name, dtype)| {
        let column = match name {
            Some(name) => buffer.column(name).expect("a checked column"),
            None => &buffer.columns()[0],
        };
        let array = if is_text(dtype) {
            dictionary.encode(column.array())
        } else {
            column.array().clone()
        };
        let ty = tilt_codegen::lower::register(dtype).expect("a planned type");
        Leaf::of_array(&array, ty)
    });
    Series {
        leaves: leaves.collect(),
        axis: std::sync::Arc::new(Axis::new(buffer.timeline().clone(), Vec::new())),
        present: None,
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
    let dtype = program.stream_dtype(stage.stream);
    let array = |leaf: &Leaf, dtype: &DType| {
        if is_text(dtype) {
            let codes = leaf.to_array(&arrow_schema::DataType::UInt32);
            let codes: &UInt32Array = codes.as_primitive();
            dictionary.decode(codes)
        } else {
            leaf.to_array(&to_arrow(dtype))
        }
    };
    let timeline = series.axis.timeline.clone();
    let output = if let DType::Record(fields) = dtype {
        let columns = fields.iter().zip(&series.leaves);
        let columns = columns.map(|(f, leaf)| Column::new(&f.name, array(leaf, &f.dtype)));
        let present: Option<&BooleanBuffer> = series.presence();
        let rows = present.map(|p| NullBuffer::new(p.clone()));
        SnapshotBuffer::record(timeline, columns.collect(), rows, program.unit)?
    } else {
        let column = Column::new(&stage.name, array(&series.leaves[0], dtype));
        SnapshotBuffer::scalar(timeline, column, program.unit)?
    };
    Ok(tilt_interp::with_time_of(program, inputs, output))
}
