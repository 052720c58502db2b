//! Compiled queries.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use pyo3::{exceptions::PyValueError, prelude::*};
use tilt::{
    Backend, Cancel, Compiled, RunOptions,
    data::{Layout, SnapshotBuffer},
    ir::{self, Span},
};

use crate::{
    errors::{data_error, run_error},
    functions::Calls,
    guard::guarded,
    input::Input,
    program::{Program, parse},
    redeclare::pruned,
    table::Table,
    watch::watched,
};

/// A program as text or as it is.
#[derive(FromPyObject)]
enum Source<'py> {
    Text(String),
    Program(Bound<'py, Program>),
}

#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Query {
    program: ir::Program,
    compiled: Compiled,
}

#[pymethods]
impl Query {
    #[new]
    fn new(py: Python<'_>, program: Source<'_>) -> PyResult<Self> {
        let program = match program {
            Source::Text(text) => guarded(py, || parse(&text))??,
            Source::Program(program) => program.get().0.clone(),
        };
        let compiled = guarded(py, || compile(&program))??;
        Ok(Self { program, compiled })
    }

    /// Runs the query. `progress` is called about twenty times a second, on the calling thread, with the share of the work that is
    /// done; an exception of it ends the run.
    #[pyo3(signature = (inputs, *, threads=None, span=None, part=None, backend=None, functions=None, layout=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn run(
        &self,
        py: Python<'_>,
        inputs: HashMap<String, Py<Input>>,
        threads: Option<usize>,
        span: Option<(i64, i64)>,
        part: Option<(i64, i64)>,
        backend: Option<&str>,
        functions: Option<HashMap<String, Py<PyAny>>>,
        layout: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Table> {
        let calls = Calls::new(&self.program, functions.into_iter().flatten().collect());
        let mut options = RunOptions::default().functions(calls.functions.clone());
        if let Some(threads) = threads {
            options = options.threads(threads);
        }
        if let Some((start, end)) = span {
            options = options.span(Span::new(start, end));
        }
        if let Some((start, end)) = part {
            options = options.part(Span::new(start, end));
        }
        if let Some(name) = backend {
            options = options.backend(parse_backend(name)?);
        }
        let layout = layout.map(parse_layout).transpose()?.unwrap_or_default();
        let inputs = inputs
            .into_iter()
            .map(|(name, input)| (name, input.get().clone()));
        let inputs: BTreeMap<String, Input> = inputs.collect();
        let compiled = self.compiled.clone();
        let cancel = Cancel::new();
        options = options.cancel(cancel.clone());
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

    /// Runs the query and gives the plan with what was measured.
    #[pyo3(signature = (inputs, *, threads=None))]
    fn analyze(
        &self,
        py: Python<'_>,
        inputs: HashMap<String, Py<Input>>,
        threads: Option<usize>,
    ) -> PyResult<String> {
        let inputs = inputs
            .into_iter()
            .map(|(name, input)| (name, input.get().clone()));
        let inputs: BTreeMap<String, Input> = inputs.collect();
        let cancel = Cancel::new();
        let mut options = RunOptions::default().cancel(cancel.clone());
        if let Some(threads) = threads {
            options = options.threads(threads);
        }
        let compiled = self.compiled.clone();
        let work = move || {
            let buffers = read(&compiled, &inputs)?;
            let analyzed = compiled.analyze(&buffers, &options);
            analyzed.map_err(|error| run_error(&error))
        };
        let (_, text) = watched(py, work, |_| Ok(()), || cancel.cancel())??;
        Ok(text)
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
    let buffers = read(compiled, inputs)?;
    let output = compiled
        .run(&buffers, options)
        .map_err(|error| run_error(&error))?;
    let rows = output
        .to_record_batch(layout)
        .map_err(|error| data_error(&error))?;
    Ok(Table::of_batch(rows))
}

/// The rows of all inputs.
fn read(
    compiled: &Compiled,
    inputs: &BTreeMap<String, Input>,
) -> PyResult<BTreeMap<String, SnapshotBuffer>> {
    let program = compiled.program();
    let mut buffers = BTreeMap::new();
    for (_, declared) in program.inputs() {
        // One that is missing is reported by the run.
        if let Some(input) = inputs.get(&declared.name) {
            buffers.insert(declared.name.clone(), input.read(declared, program.unit)?);
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

fn parse_layout(name: &str) -> PyResult<Layout> {
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
