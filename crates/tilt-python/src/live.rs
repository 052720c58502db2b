//! Live sessions.
//!
//! Whoever waits for a session does so without the interpreter's lock, because a function of the query may need it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    sync::MutexExt,
    types::{PyBytes, PyDict},
};
use tilt::{
    Compiled, RunOptions,
    data::{Layout, TIME_LIMIT, dtype::unit_to_arrow},
    ir::{self, Unit},
    live::{self, Completion, InputOptions, Latency, Mode, Policy, SessionError, SessionOptions},
};

use crate::{
    column::Column,
    errors::{TiltError, data_error, query_error, schema_error, session_error},
    fit::{Columns, retyped},
    functions::Calls,
    guard::guarded,
    input::Input,
    query::{Query, empty, parse_layout},
    row,
    table::Table,
};

/// What is done about the disorder of a stream. Lengths are in ticks of the query.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Disorder {
    lateness: i64,
    late: String,
    horizon: Option<i64>,
    edges: bool,
    /// By the clock that `at` is told.
    idle_after: Option<i64>,
}

impl Disorder {
    fn options(&self, input: &Input) -> PyResult<InputOptions> {
        let policy = match (self.late.as_str(), self.horizon) {
            ("raise", _) => Policy::Raise,
            ("drop", _) => Policy::Drop,
            ("adjust", _) => Policy::Adjust,
            ("revise", Some(horizon)) => Policy::Revise { horizon },
            ("revise", None) => {
                return Err(PyValueError::new_err(
                    "late=\"revise\" needs a horizon: how late a row may be that revises results",
                ));
            }
            (other, _) => {
                return Err(PyValueError::new_err(format!(
                    "late is \"raise\", \"drop\", \"adjust\" or \"revise\", not {other:?}"
                )));
            }
        };
        let mut options = InputOptions::new(input.options())
            .lateness(self.lateness)
            .policy(policy);
        if self.edges {
            options = options.edges();
        }
        if let Some(after) = self.idle_after {
            options = options.idle_after(after);
        }
        Ok(options)
    }
}

/// A stream of a session: how its rows are read.
struct Feed {
    input: Input,
    declared: ir::Input,
    columns: Columns,
}

struct State {
    session: live::Session,
    feeds: BTreeMap<String, Feed>,
    /// The last result's columns, and those under the names that users see.
    names: Option<(SchemaRef, SchemaRef)>,
    /// A function of the query has raised, or tilt has failed: nothing that follows would be worth anything.
    is_broken: bool,
}

#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Session {
    state: Mutex<State>,
    calls: Calls,
    compiled: Compiled,
    unit: Unit,
    layout: Layout,
    /// What the last column of results is called, if it is called otherwise.
    column: Option<String>,
}

/// Name, watermark, idle, rows that wait, rows held, bytes, and rows accepted, dropped, adjusted, revised and overlapping.
type Progress = (
    String,
    Option<Py<PyAny>>,
    bool,
    usize,
    usize,
    usize,
    (u64, u64, u64, u64, u64),
);

/// Until when results were taken, the streams, which of them holds the others up, and why all is held or nothing given before the end.
type Told = (
    Option<Py<PyAny>>,
    Vec<Progress>,
    Option<String>,
    Option<String>,
    Option<String>,
);

#[pymethods]
impl Session {
    /// A session of a query, or one that goes on from a checkpoint. `inputs` have no rows, only the columns that are to come; `latency` is by the clock that `at` is told.
    #[new]
    #[pyo3(signature = (query, inputs, disorder, *, mode="final", start=None, max_batch=None, latency=None, layout=None, column=None, checkpoint=None, **options))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        query: &Query,
        inputs: HashMap<String, Py<Input>>,
        disorder: HashMap<String, Disorder>,
        mode: &str,
        start: Option<i64>,
        max_batch: Option<usize>,
        latency: Option<i64>,
        layout: Option<&str>,
        column: Option<String>,
        checkpoint: Option<&[u8]>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (run, calls, _) = query.options(options)?;
        let layout = layout.map(parse_layout).transpose()?.unwrap_or_default();
        let mut options = SessionOptions::new()
            .run(run)
            .mode(parse_mode(mode)?)
            .egress(layout);
        if let Some(start) = start {
            options = options.start(start);
        }
        if let Some(rows) = max_batch {
            options = options.max_batch(rows);
        }
        if let Some(latency) = latency {
            options = options.latency(Latency::Clock(latency));
        }
        for (name, disorder) in disorder {
            if let Some(input) = inputs.get(&name) {
                options = options.input(name, disorder.options(input.get())?);
            }
        }
        let program = query.compiled.program();
        let mut feeds = BTreeMap::new();
        for (_, declared) in program.inputs() {
            if let Some(input) = inputs.get(&declared.name) {
                let feed = Feed {
                    input: input.get().clone(),
                    declared: declared.clone(),
                    columns: input.get().columns(declared),
                };
                feeds.insert(declared.name.clone(), feed);
            }
        }
        let unit = program.unit;
        let session = guarded(py, || match checkpoint {
            Some(bytes) => live::Session::restore(&query.compiled, bytes, options),
            None => live::Session::new(&query.compiled, options),
        })?;
        let session = session.map_err(|error| session_error(&error, |_, t| t.to_string(), unit))?;
        Ok(Self {
            state: Mutex::new(State {
                session,
                feeds,
                names: None,
                is_broken: false,
            }),
            calls,
            compiled: query.compiled.clone(),
            unit,
            layout,
            column,
        })
    }

    /// Takes the rows of a table, all or none; if `take` says so, gives what is new.
    fn push(
        &self,
        py: Python<'_>,
        stream: &str,
        rows: &Bound<'_, PyAny>,
        take: bool,
    ) -> PyResult<Option<Table>> {
        let table = Table::import(rows)?;
        self.locked(py, |state| {
            let batch = match table.batches.as_slice() {
                [batch] => batch.clone(),
                // All rows or none.
                batches => concat_batches(&table.schema, batches)
                    .map_err(|error| schema_error(&error, None, None))?,
            };
            self.push_batch(state, stream, batch)?;
            take.then(|| self.taken(state)).transpose()
        })
    }

    /// Takes one row; if `take` says so, gives what is new. `False` first if its values have other types than the columns: a table of it may fit.
    fn push_row(
        &self,
        py: Python<'_>,
        stream: &str,
        row: &Bound<'_, PyDict>,
        take: bool,
    ) -> PyResult<(bool, Option<Table>)> {
        let mut state = self.lock(py);
        let feed = state.feeds.get(stream);
        let batch = feed.and_then(|feed| row::batch(row, &feed.columns).transpose());
        let Some(batch) = batch.transpose()? else {
            return Ok((false, None));
        };
        let result = self.with(py, &mut state, |state| {
            self.push_batch(state, stream, batch)?;
            take.then(|| self.taken(state)).transpose()
        });
        Ok((true, result?))
    }

    /// What is new.
    fn take(&self, py: Python<'_>) -> PyResult<Table> {
        self.locked(py, |state| self.taken(state))
    }

    fn advance(&self, py: Python<'_>, t: i64) -> PyResult<()> {
        self.told(py, |session| session.advance(t))
    }

    fn advance_input(&self, py: Python<'_>, stream: &str, t: i64) -> PyResult<()> {
        self.told(py, |session| session.advance_input(stream, t))
    }

    fn idle(&self, py: Python<'_>, stream: &str) -> PyResult<()> {
        self.told(py, |session| session.idle(stream))
    }

    /// What is new if no row waits any longer, neither for its watermark nor for others.
    fn flush(&self, py: Python<'_>) -> PyResult<Table> {
        self.locked(py, |state| {
            let flushed = state.session.catch_up();
            let flushed = flushed.and_then(|()| state.session.take_now());
            let flushed = flushed.map_err(|error| self.error(state, &error))?;
            self.titled(state, flushed)
        })
    }

    fn at(&self, py: Python<'_>, clock: i64) -> PyResult<()> {
        self.told(py, |session| {
            session.at(clock);
            Ok(())
        })
    }

    /// Ends the session by `drop`, `flush` or `end`, and gives the rest.
    fn close(&self, py: Python<'_>, policy: &str) -> PyResult<Table> {
        let completion = match policy {
            "drop" => Completion::Drop,
            "flush" => Completion::Flush,
            "end" => Completion::End,
            other => {
                return Err(PyValueError::new_err(format!(
                    "a session is closed by \"drop\", \"flush\" or \"end\", not {other:?}"
                )));
            }
        };
        self.locked(py, |state| {
            let rest = state.session.close(completion);
            let rest = rest.map_err(|error| self.error(state, &error))?;
            self.titled(state, rest)
        })
    }

    fn status(&self, py: Python<'_>) -> PyResult<Told> {
        let state = self.lock(py);
        let status = state.session.status();
        let first = status.inputs.first().map(|input| input.input.clone());
        let until = |t: i64| {
            moment(
                py,
                &state,
                first.as_deref().unwrap_or_default(),
                t,
                self.unit,
            )
        };
        let inputs = status.inputs.iter().map(|input| {
            let watermark = input.watermark;
            let watermark = watermark
                .map(|t| moment(py, &state, &input.input, t, self.unit))
                .transpose()?;
            let counts = input.counts;
            Ok((
                input.input.clone(),
                watermark,
                input.is_idle,
                input.buffered,
                input.held,
                input.bytes,
                (
                    counts.accepted,
                    counts.dropped,
                    counts.adjusted,
                    counts.revised,
                    counts.overlapping,
                ),
            ))
        });
        let inputs = inputs.collect::<PyResult<_>>()?;
        // After the end nothing is left to come.
        let until = status
            .until
            .filter(|t| *t < TIME_LIMIT)
            .map(until)
            .transpose()?;
        Ok((
            until,
            inputs,
            status.holding_back,
            status.holds_all,
            status.waits,
        ))
    }

    /// Late rows of a stream since this was asked last.
    fn late(&self, py: Python<'_>, name: &str) -> PyResult<Option<Table>> {
        self.locked(py, |state| {
            let late = state.session.take_late_of(name);
            let late = late.map_err(|error| self.error(state, &error))?;
            let tables = late.map(|rows| {
                let mut fields = rows.schema().fields().to_vec();
                let mut columns = rows.columns().to_vec();
                // Start and end, as the times of the stream are.
                for (field, column) in fields.iter_mut().zip(&mut columns).take(2) {
                    *column = instants(state, name, &retyped(column, DataType::Int64), self.unit);
                    let named = Field::new(field.name(), column.data_type().clone(), true);
                    *field = Arc::new(named);
                }
                let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
                let rows = rows.map_err(|error| schema_error(&error, None, None))?;
                Ok(Table::of_batch(rows))
            });
            tables.transpose()
        })
    }

    fn checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.locked(py, |state| {
            let bytes = state.session.checkpoint();
            bytes.map_err(|error| self.error(state, &error))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// From now on rows of a stream have these types, as those before a checkpoint had.
    fn settle(&self, py: Python<'_>, stream: &str, columns: &Table) {
        let mut state = self.lock(py);
        if let Some(feed) = state.feeds.get_mut(stream) {
            feed.columns.settle(&columns.schema);
        }
    }

    /// Whether rows of a stream have come, and the columns that it reads, in the types that they have by now, as a table without rows.
    fn columns(&self, py: Python<'_>, stream: &str) -> PyResult<(bool, Table)> {
        let state = self.lock(py);
        let feed = state.feeds.get(stream);
        let feed = feed.ok_or_else(|| PyValueError::new_err(format!("there is no {stream}")))?;
        let columns = Table::new(Arc::clone(&feed.columns.schema), Vec::new());
        Ok((feed.columns.is_settled, columns))
    }
}

impl Session {
    /// The state, for what needs the interpreter's lock as well: it is let go only while waiting.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        let locked = self.state.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the state without the interpreter's lock.
    fn locked<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.with(py, &mut self.lock(py), work)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        state: &mut State,
        work: impl FnOnce(&mut State) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        if state.is_broken {
            return Err(TiltError::new_err(
                "the session ended when it failed before; begin another one, or restore a checkpoint",
            ));
        }
        let result = guarded(py, || work(&mut *state));
        let raised = self.calls.raised();
        state.is_broken = result.is_err() || raised.is_some();
        match raised {
            Some(raised) => Err(raised),
            None => result?,
        }
    }

    /// Tells the session something.
    fn told(
        &self,
        py: Python<'_>,
        tell: impl FnOnce(&mut live::Session) -> Result<(), SessionError> + Send,
    ) -> PyResult<()> {
        self.locked(py, |state| {
            tell(&mut state.session).map_err(|error| self.error(state, &error))
        })
    }

    fn push_batch(&self, state: &mut State, stream: &str, batch: RecordBatch) -> PyResult<()> {
        let Some(feed) = state.feeds.get_mut(stream) else {
            let known: Vec<&str> = state.feeds.keys().map(String::as_str).collect();
            let message = format!(
                "there is no stream `{stream}`; there are {}",
                known.join(", ")
            );
            return Err(query_error(&message));
        };
        let batch = feed.columns.fitted(batch)?;
        let rows = feed.input.prepared(&batch, &feed.declared, 0)?;
        let pushed = state.session.push(stream, &rows);
        match pushed {
            Ok(()) => {
                if batch.num_rows() > 0 {
                    feed.columns.settle(batch.schema_ref());
                }
                Ok(())
            }
            Err(error) => Err(self.error(state, &error)),
        }
    }

    fn taken(&self, state: &mut State) -> PyResult<Table> {
        let taken = state.session.take();
        let taken = taken.map_err(|error| self.error(state, &error))?;
        self.titled(state, taken)
    }

    /// Rows under the names that users see.
    fn titled(&self, state: &mut State, mut rows: RecordBatch) -> PyResult<Table> {
        let has_come = |feed: &Feed| feed.columns.is_settled;
        if rows.num_rows() == 0 && !state.feeds.values().all(has_come) {
            rows = self.named(state, rows)?;
        }
        let Some(column) = &self.column else {
            return Ok(Table::of_batch(rows));
        };
        if let Some((given, titled)) = &state.names
            && Arc::ptr_eq(given, rows.schema_ref())
        {
            return Ok(Table::of_batch(with_schema(&rows, titled)?));
        }
        let given = rows.schema();
        let mut fields = given.fields().to_vec();
        if let Some(last) = fields.last_mut() {
            *last = Arc::new(last.as_ref().clone().with_name(column));
        }
        let titled = Arc::new(Schema::new(fields));
        let rows = with_schema(&rows, &titled)?;
        state.names = Some((given, titled));
        Ok(Table::of_batch(rows))
    }

    /// No rows, under the names that rows of the declared columns would have.
    fn named(&self, state: &State, rows: RecordBatch) -> PyResult<RecordBatch> {
        let inputs = state.feeds.iter();
        let inputs = inputs.map(|(name, feed)| (name.clone(), feed.input.clone()));
        let Some(empty) = empty(&self.compiled, &inputs.collect(), &RunOptions::default())? else {
            return Ok(rows);
        };
        let empty = empty.to_record_batch(self.layout);
        let empty = empty.map_err(|error| data_error(&error))?;
        // Changes have one column more.
        let first = rows.num_columns().saturating_sub(empty.num_columns());
        let mut fields = rows.schema().fields()[..first].to_vec();
        let mut columns = rows.columns()[..first].to_vec();
        fields.extend(empty.schema().fields().iter().cloned());
        columns.extend(empty.columns().iter().cloned());
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|error| schema_error(&error, None, None))
    }

    fn error(&self, state: &State, error: &SessionError) -> PyErr {
        let text = |stream: &str, t: i64| {
            let time = instant(state, stream, t, self.unit);
            array_value_to_string(&time, 0).unwrap_or_else(|_| t.to_string())
        };
        session_error(error, text, self.unit)
    }
}

fn with_schema(rows: &RecordBatch, schema: &SchemaRef) -> PyResult<RecordBatch> {
    let rows = RecordBatch::try_new(Arc::clone(schema), rows.columns().to_vec());
    rows.map_err(|error| schema_error(&error, None, None))
}

/// Ticks of the query as the times of a stream are written.
fn instants(state: &State, stream: &str, ticks: &ArrayRef, unit: Unit) -> ArrayRef {
    let feed = state.feeds.get(stream);
    let time = feed.and_then(|feed| feed.columns.schema.fields().first());
    match (time.map(|field| field.data_type()), unit_to_arrow(unit)) {
        (Some(DataType::Timestamp(_, zone)), Some(unit)) => {
            retyped(ticks, DataType::Timestamp(unit, zone.clone()))
        }
        // Integers count the unit of their own stream.
        _ => match (
            feed.and_then(|feed| feed.declared.unit.per_second()),
            unit.per_second(),
        ) {
            (Some(to), Some(from)) if to != from => {
                let counted = |t: i64| {
                    let t = i128::from(t) * i128::from(to);
                    i64::try_from(t.div_euclid(i128::from(from))).unwrap_or(i64::MAX)
                };
                Arc::new(
                    ticks
                        .as_primitive::<Int64Type>()
                        .unary::<_, Int64Type>(counted),
                )
            }
            _ => Arc::clone(ticks),
        },
    }
}

fn instant(state: &State, stream: &str, t: i64, unit: Unit) -> ArrayRef {
    let ticks: ArrayRef = Arc::new(Int64Array::from(vec![t]));
    instants(state, stream, &ticks, unit)
}

fn moment(py: Python<'_>, state: &State, stream: &str, t: i64, unit: Unit) -> PyResult<Py<PyAny>> {
    let time = instant(state, stream, t, unit);
    let field = Field::new("", time.data_type().clone(), false);
    // Python's calendar ends before time does.
    match Column::new(Arc::new(field), vec![time]).to_pylist(py) {
        Ok(times) => Ok(times.get_item(0)?.unbind()),
        Err(_) => Ok(t.into_pyobject(py)?.into_any().unbind()),
    }
}

fn parse_mode(name: &str) -> PyResult<Mode> {
    match name {
        "final" => Ok(Mode::Final),
        "updates" => Ok(Mode::Updates),
        other => Err(PyValueError::new_err(format!(
            "mode is \"final\" or \"updates\", not {other:?}"
        ))),
    }
}
