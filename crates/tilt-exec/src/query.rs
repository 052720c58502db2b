//! Queries and what they are compiled to.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tilt_codegen::lower::Unsupported;
use tilt_data::SnapshotBuffer;
use tilt_interp::Functions;
use tilt_ir::{
    DType, Lineage, Overlap, Program, Span, SpanRule, StreamId, optimize, parse, verify,
};

use crate::{
    code::Code,
    control::{Cancel, Progress, Watcher},
    error::Error,
    execute::{self, default_threads},
    explain,
    facts::{AxisFacts, LeafFacts, Regular, SeriesFacts},
    plan::{self, Plan, Purpose},
    stats::Stats,
};

/// A query: a verified program and how to compile it.
///
/// ```
/// use tilt_exec::Query;
///
/// let query = Query::parse("query q unit s { input ~x: f64 point  ~y[t] = ~x[t] * 2.0  output ~y }")?;
/// let compiled = query.compile()?;
/// assert!(compiled.explain().contains("loop"));
/// # Ok::<(), tilt_exec::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    program: Program,
    optimize: bool,
    prepare: bool,
}

impl Query {
    /// The query of a text.
    ///
    /// # Errors
    /// When the text is no query, or one without a meaning.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::new(parse(text)?)
    }

    /// The query of a program.
    ///
    /// # Errors
    /// When the program has no meaning.
    pub fn new(program: Program) -> Result<Self, Error> {
        verify(&program)?;
        Ok(Self {
            program,
            optimize: true,
            prepare: true,
        })
    }

    /// Whether the passes run; without them every expression is a stage of its own.
    #[must_use]
    pub fn optimize(mut self, optimize: bool) -> Self {
        self.optimize = optimize;
        self
    }

    /// Whether machine code is made for data as it is declared before any are seen. Without it the first run makes what its data need.
    #[must_use]
    pub fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }

    /// The program as given.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Compiles the query for data as it is declared. Data of another shape (with φ, irregular where a period is declared) compile the
    /// query once more when they are seen first.
    ///
    /// # Errors
    /// None today: what cannot be compiled is interpreted.
    pub fn compile(self) -> Result<Compiled, Error> {
        let fingerprint = fingerprint(&self.program.to_string());
        let program = if self.optimize {
            optimize(&self.program)
        } else {
            self.program
        };
        let compiled = Compiled {
            inner: Arc::new(Inner {
                lineage: Lineage::new(&program),
                program,
                fingerprint,
                prepared: Mutex::new(HashMap::new()),
                gapless: AtomicBool::new(true),
            }),
        };
        let facts = compiled.inner.declared_facts();
        if self.prepare
            && let Ok(facts) = facts
        {
            compiled.inner.prepare(&facts, Backend::Native);
        }
        Ok(compiled)
    }
}

/// What runs the loops of a query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Backend {
    /// Machine code.
    #[default]
    Native,
    /// The interpreter of loops, which checks every access.
    Loops,
    /// The interpreter of programs: the oracle.
    Interpreter,
}

/// A compiled query. Cheap to clone; may be run by several threads at once.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) program: Program,
    pub(crate) lineage: Lineage,
    fingerprint: u64,
    prepared: Mutex<HashMap<Shape, Ready>>,
    /// Whether plans may assume that joins have no gaps; false once that was wrong.
    gapless: AtomicBool,
}

/// What a plan was made for.
type Shape = (Backend, Purpose, Vec<(StreamId, SeriesFacts)>);

/// A plan, and how it came about.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) prepared: Arc<Prepared>,
    /// How long it took to make.
    pub(crate) took: Duration,
    /// Whether it was made for this run.
    pub(crate) is_new: bool,
}

/// A query ready to run on data of one shape.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// As loops.
    Loops { plan: Box<Plan>, code: Code },
    /// By the interpreter, and why.
    Interpreted(String),
}

impl Inner {
    pub(crate) fn prepare(
        &self,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        backend: Backend,
    ) -> Ready {
        self.prepare_for(self.whole(), facts, backend)
    }

    /// What a plan of a run on all rows is for.
    fn whole(&self) -> Purpose {
        let gapless = self.gapless.load(Ordering::Relaxed);
        Purpose::Whole { gapless }
    }

    pub(crate) fn prepare_for(
        &self,
        purpose: Purpose,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        backend: Backend,
    ) -> Ready {
        if let Some(known) = self.known_for(purpose, facts, backend) {
            return known;
        }
        let begun = Instant::now();
        let made = Ready {
            prepared: Arc::new(self.make(purpose, facts, backend)),
            took: begun.elapsed(),
            is_new: false,
        };
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = shape(purpose, facts, backend);
        let made = prepared.entry(shape).or_insert(made).clone();
        Ready {
            is_new: true,
            ..made
        }
    }

    /// A plan that was made before.
    pub(crate) fn known(
        &self,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        backend: Backend,
    ) -> Option<Ready> {
        self.known_for(self.whole(), facts, backend)
    }

    fn known_for(
        &self,
        purpose: Purpose,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        backend: Backend,
    ) -> Option<Ready> {
        let shape = shape(purpose, facts, backend);
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.get(&shape).cloned()
    }

    fn make(
        &self,
        purpose: Purpose,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        backend: Backend,
    ) -> Prepared {
        let plan = match plan::plan(&self.program, facts, purpose) {
            Ok(plan) => Box::new(plan),
            Err(Unsupported(what)) => return Prepared::Interpreted(what),
        };
        let code = match backend {
            Backend::Native => match Code::compile(&plan.loops, &plan.late(), default_threads()) {
                Ok(code) => code,
                Err(error) => {
                    warn_once(&error);
                    return Prepared::Interpreted(error.to_string());
                }
            },
            _ => Code::Interpreted,
        };
        Prepared::Loops { plan, code }
    }

    /// Whether a plan was given up because a join had gaps. From then on no plan assumes that there are none.
    pub(crate) fn learns_of_gaps(&self) -> bool {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let found = prepared.values().any(|ready| match &*ready.prepared {
            Prepared::Loops { plan, .. } => plan.gaps.load(Ordering::Relaxed),
            Prepared::Interpreted(_) => false,
        });
        found && self.gapless.swap(false, Ordering::Relaxed)
    }

    /// The facts that the declarations promise.
    pub(crate) fn declared_facts(&self) -> Result<BTreeMap<StreamId, SeriesFacts>, Unsupported> {
        let mut all = BTreeMap::new();
        for (id, input) in self.program.inputs() {
            let fields: Vec<(String, &DType)> = match &input.dtype {
                DType::Record(fields) => {
                    fields.iter().map(|f| (f.name.clone(), &f.dtype)).collect()
                }
                dtype => vec![(input.name.clone(), dtype)],
            };
            let mut leaves = Vec::new();
            for (name, dtype) in fields {
                leaves.push(LeafFacts {
                    name,
                    ty: tilt_codegen::lower::register(dtype)?,
                    nullable: false,
                });
            }
            let length = match input.span {
                SpanRule::Point => Some(1),
                SpanRule::Fixed(d) => Some(d),
                SpanRule::UntilNext | SpanRule::Interval => None,
            };
            let disjoint = input.overlap == Overlap::Disjoint;
            all.insert(
                id,
                SeriesFacts {
                    axis: AxisFacts {
                        regular: input
                            .period
                            .filter(|_| length.is_some())
                            .map(|p| Regular::new(p, 0)),
                        length,
                        disjoint,
                        ordered: disjoint || length.is_some(),
                        mixed: false,
                    },
                    dtype: input.dtype.clone(),
                    leaves,
                    nullable: false,
                },
            );
        }
        Ok(all)
    }
}

fn shape(purpose: Purpose, facts: &BTreeMap<StreamId, SeriesFacts>, backend: Backend) -> Shape {
    let facts = facts.iter().map(|(id, facts)| (*id, facts.clone()));
    (backend, purpose, facts.collect())
}

/// FNV-1a: the same on every machine and in every version.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Says once that machine code is not available.
fn warn_once(error: &tilt_codegen::jit::JitError) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| eprintln!("tilt: {error}; queries are interpreted"));
}

/// How to run a query.
#[derive(Clone, Default, Debug)]
pub struct RunOptions {
    pub(crate) threads: Option<usize>,
    pub(crate) span: Option<Span>,
    pub(crate) part: Option<Span>,
    pub(crate) piece_rows: Option<usize>,
    pub(crate) piece_ticks: Option<i64>,
    pub(crate) backend: Backend,
    pub(crate) functions: Functions,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) progress: Option<Watcher>,
    pub(crate) memory: Option<usize>,
    pub(crate) events_only: bool,
}

impl RunOptions {
    /// On how many threads; by default as many as `TILT_THREADS` says or the machine has cores.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads.max(1));
        self
    }

    /// How many threads that is.
    pub fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(default_threads)
    }

    /// The run's span, which must contain every event; by default the hull of the inputs.
    #[must_use]
    pub fn span(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Only the events that end in here.
    #[must_use]
    pub fn part(mut self, part: Span) -> Self {
        self.part = Some(part);
        self
    }

    /// How many rows of the output a piece has, about; by default as many as the caches like. In a run over chunks: of an input that a part of the
    /// output takes.
    #[must_use]
    pub fn piece_rows(mut self, rows: usize) -> Self {
        self.piece_rows = Some(rows.max(1));
        self
    }

    /// How much time a piece has, in ticks of the query's unit: pieces end at multiples of it, of a grid's or an input's rows at one of the eight before.
    /// What is not cut by time takes the rows that there are in so much of it on average. Instead of [`piece_rows`](Self::piece_rows); a run over
    /// chunks, whose parts end where chunks do, is not cut by it.
    #[must_use]
    pub fn piece_interval(mut self, ticks: i64) -> Self {
        self.piece_ticks = Some(ticks.max(1));
        self
    }

    /// What runs the query.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// The external functions.
    #[must_use]
    pub fn functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// What stops the run: it returns [`Error::Cancelled`] once the token is cancelled.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// What is told how far the run has come: at its start and end, and at most about 20 times a second in between. It is called by the
    /// threads that work, one at a time, and not after the run has returned.
    #[must_use]
    pub fn progress(mut self, report: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Watcher(Arc::new(report)));
        self
    }

    /// Leaves rows out that have no value, on all threads, where events have one length: what becomes rows of a table does so without them.
    #[must_use]
    pub fn events_only(mut self) -> Self {
        self.events_only = true;
        self
    }

    /// How many bytes a run over chunks may use, about; by default 1 GiB. Other runs hold what they are given.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }
}

impl Compiled {
    /// The output on the given inputs.
    ///
    /// # Errors
    /// When the inputs are not what the query declares, or it has no meaning on them.
    pub fn run(
        &self,
        inputs: &BTreeMap<String, SnapshotBuffer>,
        options: &RunOptions,
    ) -> Result<SnapshotBuffer, Error> {
        execute::run(&self.inner, inputs, options)
    }

    /// As [`run`](Self::run), if the result is certain to be there within milliseconds: few rows, few cells of grids, a plan that an earlier run has compiled, no
    /// external functions. `None` if it is not, or if the run fails, which [`run`](Self::run) words. Whoever needs a thread to cancel runs
    /// or to watch them does without it here, so `options` are not asked for that.
    ///
    /// ```
    /// # use std::{collections::BTreeMap, sync::Arc};
    /// # use tilt_data::{Column, SnapshotBuffer, Spans, Timeline, arrow::array::Int64Array};
    /// # use tilt_exec::{Query, RunOptions};
    /// # use tilt_ir::Unit;
    /// let query = Query::parse("query q unit tick { input ~x: i64 point  ~y[t] = ~x[t] + 1  output ~y }")?;
    /// let values = Column::new("x", Arc::new(Int64Array::from(vec![1, 2, 3])));
    /// let x = SnapshotBuffer::scalar(Timeline::regular(1, 1, 3, Spans::Fixed(1)), values, Unit::Tick)?;
    /// let (inputs, options) = (BTreeMap::from([("x".to_owned(), x)]), RunOptions::default());
    /// let query = query.prepare(false).compile()?;
    /// assert!(query.run_briefly(&inputs, &options).is_none());
    /// let output = query.run(&inputs, &options)?;
    /// let again = query.run_briefly(&inputs, &options).expect("few rows, and the same plan");
    /// assert_eq!(again.len(), output.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_briefly(
        &self,
        inputs: &BTreeMap<String, SnapshotBuffer>,
        options: &RunOptions,
    ) -> Option<SnapshotBuffer> {
        execute::run_briefly(&self.inner, inputs, options)
    }

    /// As [`run`](Self::run), and what the run did.
    ///
    /// ```
    /// # use std::{collections::BTreeMap, sync::Arc};
    /// # use tilt_data::{Column, SnapshotBuffer, Spans, Timeline, arrow::array::Int64Array};
    /// # use tilt_exec::{Query, RunOptions};
    /// # use tilt_ir::Unit;
    /// let query = Query::parse("query q unit tick { input ~x: i64 point  ~y[t] = reduce sum ~x[t-3 : t]  output ~y }")?;
    /// let timeline = Timeline::regular(1, 1, 6, Spans::Fixed(1));
    /// let values = Column::new("x", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5, 6])));
    /// let inputs = BTreeMap::from([("x".to_owned(), SnapshotBuffer::scalar(timeline, values, Unit::Tick)?)]);
    /// let (sums, stats) = query.compile()?.run_with_stats(&inputs, &RunOptions::default())?;
    /// assert_eq!((sums.len(), stats.rows, stats.stages[0].rows), (6, 6, 6));
    /// assert_eq!(stats.stages[0].windows, ["totals"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with_stats(
        &self,
        inputs: &BTreeMap<String, SnapshotBuffer>,
        options: &RunOptions,
    ) -> Result<(SnapshotBuffer, Stats), Error> {
        let (output, _, stats) = execute::measure(&self.inner, inputs, options)?;
        Ok((output, stats))
    }

    /// As [`run`](Self::run), and what [`explain`](Self::explain) says of the plan for these data, with what was measured.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn analyze(
        &self,
        inputs: &BTreeMap<String, SnapshotBuffer>,
        options: &RunOptions,
    ) -> Result<(SnapshotBuffer, String), Error> {
        let (output, ready, stats) = execute::measure(&self.inner, inputs, options)?;
        Ok((output, explain::analyzed(&self.inner, ready, &stats)))
    }

    /// The program after all passes.
    pub fn program(&self) -> &Program {
        &self.inner.program
    }

    /// A number that tells the query, as it was given, from others.
    pub fn fingerprint(&self) -> u64 {
        self.inner.fingerprint
    }

    /// What the query does when it runs on data as declared: stages, loops, algorithms, lineage.
    pub fn explain(&self) -> String {
        explain::explain(&self.inner)
    }
}
