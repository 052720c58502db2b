//! Compiled queries.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use arrow_schema::{Field, Schema};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};
use tilt::{
    Backend, Cancel, Compiled, RunOptions,
    data::{Layout, SnapshotBuffer, TimeColumn, dtype::to_arrow},
    ir::{self, Span},
};

use crate::{
    errors::{data_error, of_input, run_error},
    functions::Calls,
    guard::guarded,
    input::{Chunks, Input, Times},
    parts::{Parts, Shape},
    program::{Program, parse},
    redeclare::pruned,
    table::Table,
    watch::watched,
};

/// Rows that a run in parts takes at once.
const CHUNK_ROWS: RangeInclusive<usize> = 1 << 10..=1 << 16;

/// The events of all inputs, by name.
type Buffers = BTreeMap<String, SnapshotBuffer>;

/// A program as text or as it is.
#[derive(FromPyObject)]
enum Source<'py> {
    Text(String),
    Program(Bound<'py, Program>),
}

#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Query {
    program: ir::Program,
    pub(crate) compiled: Compiled,
}

/// Expressions of a program that takes more than some milliseconds to optimise.
const LONG: usize = 128;

#[pymethods]
impl Query {
    #[new]
    fn new(py: Python<'_>, program: Source<'_>) -> PyResult<Self> {
        let program = match program {
            Source::Text(text) => guarded(py, || parse(&text))??,
            Source::Program(program) => program.get().0.clone(),
        };
        // A thread takes longer than most programs do, and nobody interrupts those.
        let compiled = if program.exprs.len() < LONG {
            guarded(py, || compile(&program))??
        } else {
            let program = program.clone();
            watched(py, move || compile(&program), |_| Ok(()), || {})??
        };
        Ok(Self { program, compiled })
    }

    /// Runs the query. `progress` is called about twenty times a second, on the calling thread, with the share of the work that is
    /// done; an exception of it ends the run.
    #[pyo3(signature = (inputs, *, layout=None, progress=None, **options))]
    fn run(
        &self,
        py: Python<'_>,
        inputs: HashMap<String, Py<Input>>,
        layout: Option<&str>,
        progress: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let (options, calls, cancel) = self.options(options)?;
        let mut options = options.events_only();
        let layout = layout.map(parse_layout).transpose()?.unwrap_or_default();
        let inputs = owned(inputs);
        // A thread for the run takes longer than a run on a few rows does, and nobody interrupts that.
        if inputs.values().all(Input::is_small) {
            let result = guarded(py, || briefly(&self.compiled, &inputs, &options, layout))?;
            if let Some(table) = result? {
                return Ok(table);
            }
        }
        let compiled = self.compiled.clone();
        let done = Arc::new(AtomicU64::new(0));
        if progress.is_some() {
            let done = Arc::clone(&done);
            options = options.progress(move |progress| {
                done.store(progress.done.to_bits(), Ordering::Relaxed);
            });
        }
        let work = move || run(&compiled, &inputs, &options, layout);
        let tick = |py: Python<'_>| {
            let share = f64::from_bits(done.load(Ordering::Relaxed));
            progress
                .as_ref()
                .map_or(Ok(()), |call| call.call1(py, (share,)).map(drop))
        };
        let result = watched(py, work, tick, || cancel.cancel())?;
        match calls.raised() {
            Some(raised) => Err(raised),
            None => result,
        }
    }

    /// Runs the query on rows as they are read and gives its result part by part, in about `memory` bytes. `columns` are other names for all columns of
    /// the result; rows are taken `chunk_rows` at a time, by default as many as are a small share of the memory. Raises `WholeError` if no part of the result can be told before all rows are read.
    #[pyo3(signature = (inputs, *, memory=None, chunk_rows=None, layout=None, columns=None, progress=None, **options))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn parts(
        &self,
        py: Python<'_>,
        inputs: HashMap<String, Py<Input>>,
        memory: Option<usize>,
        chunk_rows: Option<usize>,
        layout: Option<&str>,
        columns: Option<Vec<String>>,
        progress: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Parts> {
        let (mut options, calls, cancel) = self.options(options)?;
        if let Some(memory) = memory {
            options = options.memory(memory);
        }
        let layout = layout.map(parse_layout).transpose()?.unwrap_or_default();
        let inputs = owned(inputs);
        let read = Arc::new(AtomicUsize::new(0));
        let program = self.compiled.program();
        let (run, rows) = guarded(py, || {
            let mut chunks: BTreeMap<String, Chunks> = BTreeMap::new();
            let mut rows = Some(0);
            for (_, declared) in program.inputs() {
                // One that is missing is reported by the run.
                if let Some(input) = inputs.get(&declared.name) {
                    let (name, read) = (declared.name.clone(), Arc::clone(&read));
                    let rows_at_once = chunk_rows.unwrap_or_else(|| chunk_of(declared, memory));
                    let arriving =
                        input.chunks(declared, program.unit, rows_at_once.max(1), read)?;
                    chunks.insert(name, arriving);
                    rows = rows.zip(input.rows()).map(|(sum, rows)| sum + rows);
                }
            }
            let run = self.compiled.stream(chunks, &options);
            Ok::<_, PyErr>((run.map_err(|error| run_error(&error))?, rows))
        })??;
        let compiled = self.compiled.clone();
        let shape = Shape {
            layout,
            columns,
            empty: Box::new(move || empty(&compiled, &inputs, &options)),
        };
        let parts = Parts::start(run, calls, shape, cancel)?;
        Ok(parts.watched(progress, read, rows))
    }

    /// Why the query cannot be run in parts, if it cannot.
    fn whole(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let nothing = |(_, input): (_, &ir::Input)| {
            let chunks: Chunks = Box::new(std::iter::empty());
            (input.name.clone(), chunks)
        };
        guarded(py, || {
            let inputs = self.compiled.program().inputs().map(nothing).collect();
            match self.compiled.stream(inputs, &RunOptions::default()) {
                Err(tilt::Error::Whole { why, .. }) => Some(why),
                _ => None,
            }
        })
    }

    /// Runs the query and gives the plan with what was measured.
    #[pyo3(signature = (inputs, **options))]
    fn analyze(
        &self,
        py: Python<'_>,
        inputs: HashMap<String, Py<Input>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let result = self.measured(py, inputs, options, Compiled::analyze)?;
        Ok(result.0)
    }

    /// Runs the query and gives what was measured, as a dictionary.
    #[pyo3(signature = (inputs, **options))]
    fn measure<'py>(
        &self,
        py: Python<'py>,
        inputs: HashMap<String, Py<Input>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (stats, rows) = self.measured(py, inputs, options, Compiled::run_with_stats)?;
        crate::stats::dictionary(py, &stats, rows)
    }

    /// The program as given, after all passes, as stages and loops, as LLVM IR or as assembly.
    fn explain(&self, py: Python<'_>, stage: &str) -> PyResult<String> {
        let compiled = &self.compiled;
        match stage {
            "logical" => Ok(self.program.to_string()),
            "optimized" => Ok(compiled.program().to_string()),
            "loops" => guarded(py, || compiled.explain()),
            "llvm" => guarded(py, || compiled.llvm_ir().map_err(|error| run_error(&error)))?,
            "asm" => guarded(py, || {
                compiled.assembly().map_err(|error| run_error(&error))
            })?,
            other => Err(PyValueError::new_err(format!(
                "no stage is called {other:?}; stages are logical, optimized, loops, llvm and asm"
            ))),
        }
    }

    #[getter]
    fn program(&self) -> Program {
        Program(self.program.clone())
    }

    /// The columns that an input reads, as a table without rows.
    fn columns(&self, input: &str, time: Times) -> PyResult<Table> {
        let mut inputs = self.program.inputs().map(|(_, declared)| declared);
        let declared = inputs.find(|declared| declared.name == input);
        let declared =
            declared.ok_or_else(|| PyValueError::new_err(format!("there is no input {input}")))?;
        let stamps = TimeColumn::named("", declared.unit).data_type().clone();
        let times = time.names().into_iter();
        let mut fields: Vec<Field> = times
            .map(|name| Field::new(name, stamps.clone(), true))
            .collect();
        match &declared.dtype {
            ir::DType::Record(of_record) => fields.extend(
                of_record
                    .iter()
                    .map(|field| Field::new(&field.name, to_arrow(&field.dtype), true)),
            ),
            dtype => fields.push(Field::new(&declared.name, to_arrow(dtype), true)),
        }
        Ok(Table::new(Arc::new(Schema::new(fields)), Vec::new()))
    }
}

impl Query {
    /// Runs the query in a way that tells what that took, and gives it with the rows of all inputs.
    fn measured<T: Send + 'static>(
        &self,
        py: Python<'_>,
        inputs: HashMap<String, Py<Input>>,
        options: Option<&Bound<'_, PyDict>>,
        run: impl FnOnce(&Compiled, &Buffers, &RunOptions) -> Result<(SnapshotBuffer, T), tilt::Error>
        + Send
        + 'static,
    ) -> PyResult<(T, usize)> {
        let (options, calls, cancel) = self.options(options)?;
        let inputs = owned(inputs);
        let compiled = self.compiled.clone();
        let work = move || {
            let buffers = read(&compiled, &inputs, &options)?;
            let rows = buffers.values().map(SnapshotBuffer::len).sum();
            let measured = run(&compiled, &buffers, &options);
            let (_, measured) = measured.map_err(|error| run_error(&error))?;
            Ok((measured, rows))
        };
        let result = watched(py, work, |_| Ok(()), || cancel.cancel())?;
        calls.raised().map_or(result, Err)
    }

    /// The options that all runs have, the functions that they call, and what ends them.
    pub(crate) fn options(
        &self,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(RunOptions, Calls, Cancel)> {
        let functions: Option<HashMap<String, Py<PyAny>>> = option(given, "functions")?;
        let calls = Calls::new(&self.program, functions.into_iter().flatten().collect());
        let cancel = Cancel::new();
        let mut options = RunOptions::default()
            .functions(calls.functions.clone())
            .cancel(cancel.clone());
        if let Some(threads) = option(given, "threads")? {
            options = options.threads(threads);
        }
        if let Some((start, end)) = option(given, "span")? {
            options = options.span(Span::new(start, end));
        }
        if let Some((start, end)) = option(given, "part")? {
            options = options.part(Span::new(start, end));
        }
        if let Some(name) = option::<String>(given, "backend")? {
            options = options.backend(parse_backend(&name)?);
        }
        Ok((options, calls, cancel))
    }
}

/// An option that was given and is not `None`.
fn option<T>(given: Option<&Bound<'_, PyDict>>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py>,
{
    let found = given.map(|given| given.get_item(name)).transpose()?;
    let found = found.flatten().filter(|value| !value.is_none());
    found
        .map(|value| value.extract().map_err(Into::into))
        .transpose()
}

/// The version of LLVM, and the CPU that it makes code for.
#[pyfunction]
pub(crate) fn machine() -> (String, String) {
    tilt::machine()
}

/// How many rows of an input are about a thirty-second of the memory.
fn chunk_of(input: &ir::Input, memory: Option<usize>) -> usize {
    let columns = match &input.dtype {
        ir::DType::Record(fields) => fields.len(),
        _ => 1,
    };
    let (least, most) = CHUNK_ROWS.into_inner();
    memory.map_or(most, |memory| {
        (memory / 32 / (16 * (columns + 1))).clamp(least, most)
    })
}

fn owned(inputs: HashMap<String, Py<Input>>) -> BTreeMap<String, Input> {
    let inputs = inputs.into_iter();
    inputs
        .map(|(name, input)| (name, input.get().clone()))
        .collect()
}

fn compile(program: &ir::Program) -> PyResult<Compiled> {
    let query = tilt::Query::new(pruned(program)).map_err(|error| run_error(&error))?;
    // Rows mostly tell more than the declaration: samples that turn out to be periodic, columns without nulls.
    let compiled = query.prepare(false).compile();
    compiled.map_err(|error| run_error(&error))
}

/// From rows to rows.
fn run(
    compiled: &Compiled,
    inputs: &BTreeMap<String, Input>,
    options: &RunOptions,
    layout: Layout,
) -> PyResult<Table> {
    let buffers = read(compiled, inputs, options)?;
    let output = compiled
        .run(&buffers, options)
        .map_err(|error| run_error(&error))?;
    let rows = output
        .to_record_batch(layout)
        .map_err(|error| data_error(&error))?;
    Ok(Table::of_batch(rows))
}

/// The same at once, if that is certain to take no time worth mentioning.
fn briefly(
    compiled: &Compiled,
    inputs: &BTreeMap<String, Input>,
    options: &RunOptions,
    layout: Layout,
) -> PyResult<Option<Table>> {
    let buffers = read(compiled, inputs, options)?;
    let Some(output) = compiled.run_briefly(&buffers, options) else {
        return Ok(None);
    };
    let rows = output.to_record_batch(layout);
    rows.map(|rows| Some(Table::of_batch(rows)))
        .map_err(|error| data_error(&error))
}

/// The result of inputs without rows, with the names that their columns of time have.
pub(crate) fn empty(
    compiled: &Compiled,
    inputs: &BTreeMap<String, Input>,
    options: &RunOptions,
) -> PyResult<Option<SnapshotBuffer>> {
    let program = compiled.program();
    let mut buffers = BTreeMap::new();
    for (_, declared) in program.inputs() {
        let input = inputs.get(&declared.name);
        let nothing = input.map(|input| input.nothing(declared, program.unit));
        let Some(nothing) = nothing.transpose()?.flatten() else {
            return Ok(None);
        };
        buffers.insert(declared.name.clone(), nothing);
    }
    let output = compiled.run(&buffers, options);
    output.map(Some).map_err(|error| run_error(&error))
}

/// The rows of all inputs.
fn read(
    compiled: &Compiled,
    inputs: &BTreeMap<String, Input>,
    options: &RunOptions,
) -> PyResult<Buffers> {
    let (program, threads) = (compiled.program(), options.thread_count());
    let mut buffers = BTreeMap::new();
    for (_, declared) in program.inputs() {
        // One that is missing is reported by the run.
        if let Some(input) = inputs.get(&declared.name) {
            let rows = input.read(declared, program.unit, threads);
            let rows = rows.map_err(|error| of_input(error, &declared.name))?;
            buffers.insert(declared.name.clone(), rows);
        }
    }
    Ok(buffers)
}

fn parse_backend(name: &str) -> PyResult<Backend> {
    match name {
        "native" => Ok(Backend::Native),
        "loops" => Ok(Backend::Loops),
        "interpreter" => Ok(Backend::Interpreter),
        other => Err(PyValueError::new_err(format!(
            "no backend is called {other:?}; there are native, loops and interpreter"
        ))),
    }
}

pub(crate) fn parse_layout(name: &str) -> PyResult<Layout> {
    match name {
        "auto" => Ok(Layout::Auto),
        "point" => Ok(Layout::Point),
        "interval" => Ok(Layout::Interval),
        "as_given" => Ok(Layout::AsGiven),
        other => Err(PyValueError::new_err(format!(
            "no layout is called {other:?}; there are auto, point, interval and as_given"
        ))),
    }
}
