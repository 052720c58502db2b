//! Runs that can be watched and stopped.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tilt_ir::{Span, StreamId};

use crate::{
    error::Error,
    execute::has_cells_up_to,
    facts::SeriesFacts,
    query::{Backend, Inner, Prepared, RunOptions},
    run::Trouble,
    stats::Collector,
};

/// Stops runs: whoever holds a clone may cancel, from any thread. A token that was cancelled stays so.
///
/// ```
/// use std::collections::BTreeMap;
/// use tilt_exec::{Cancel, Error, Query, RunOptions};
///
/// let query = Query::parse("query q unit s { input ~x: f64 point  ~y[t] = ~x[t] * 2.0  output ~y }")?;
/// let cancel = Cancel::new();
/// let options = RunOptions::default().cancel(cancel.clone());
/// cancel.cancel();
/// let result = query.compile()?.run(&BTreeMap::new(), &options);
/// assert!(matches!(result, Err(Error::Cancelled { .. })));
/// # Ok::<(), tilt_exec::Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every run that was given this token; each returns [`Error::Cancelled`] within about a tenth of a second.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// The share of the output's time range that is done, from 0 to 1. Never less than what was reported before.
    pub done: f64,
    /// How many rows of the output were computed so far, those that turn out to be no events included.
    pub rows: u64,
}

/// Who is told how far a run has come.
#[derive(Clone)]
pub(crate) struct Watcher(pub(crate) Arc<dyn Fn(Progress) + Send + Sync>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// All work of a run. Parts of it are counted in whole numbers, which threads can add in any order.
pub(crate) const ALL_WORK: u64 = 1 << 48;
/// Reports are at least so far apart, but for the first and the last.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// What a run asks now and then, and tells how far it is. Costs a test of a pointer if nobody watches.
#[derive(Debug)]
pub(crate) struct Control {
    meter: Option<Box<Meter>>,
    /// Counts what the run does, if somebody asked.
    stats: Option<Box<Collector>>,
    /// If only plans that there are already will do: how many cells their grids may have.
    brief: Option<i128>,
}

#[derive(Debug)]
struct Meter {
    cancel: Option<Cancel>,
    watcher: Option<Watcher>,
    started: Instant,
    done: AtomicU64,
    rows: AtomicU64,
    /// When the next report is due, in microseconds from the start.
    due: AtomicU64,
    /// The last report. Who holds it reports, so reports come one after the other.
    last: Mutex<Progress>,
}

impl Control {
    pub(crate) fn new(options: &RunOptions) -> Self {
        let (cancel, watcher) = (options.cancel.clone(), options.progress.clone());
        let is_watched = cancel.is_some() || watcher.is_some();
        let meter = is_watched.then(|| Meter {
            cancel,
            watcher,
            started: Instant::now(),
            done: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            due: AtomicU64::new(0),
            last: Mutex::new(Progress { done: 0.0, rows: 0 }),
        });
        Self {
            meter: meter.map(Box::new),
            stats: None,
            brief: None,
        }
    }

    /// For a run that is given up where it might take long, and that nobody watches: a grid may have so many cells.
    pub(crate) fn brief(cells: i128) -> Self {
        Self {
            meter: None,
            stats: None,
            brief: Some(cells),
        }
    }

    /// As [`new`](Self::new), for a run that is measured.
    pub(crate) fn measured(options: &RunOptions) -> Self {
        Self {
            stats: Some(Box::new(Collector::new())),
            ..Self::new(options)
        }
    }

    /// A plan for data of a shape, for a run over some span.
    pub(crate) fn prepare(
        &self,
        query: &Inner,
        facts: &BTreeMap<StreamId, SeriesFacts>,
        backend: Backend,
        run: Span,
    ) -> Arc<Prepared> {
        if let Some(cells) = self.brief {
            let known = query.known(facts, backend).map(|ready| ready.prepared);
            let known = known.filter(|prepared| has_cells_up_to(prepared, run, cells));
            return known.unwrap_or_else(|| {
                let why = "the run may not be brief".to_owned();
                Arc::new(Prepared::Interpreted(why))
            });
        }
        let ready = query.prepare(facts, backend);
        if let Some(stats) = self.stats() {
            stats.uses(&ready);
        }
        ready.prepared
    }

    /// Loops do not settle the run, and why.
    pub(crate) fn gives_up(&self, why: &str) {
        if let Some(stats) = self.stats() {
            stats.gives_up(why);
        }
    }

    /// Counts what the run does, if somebody asked.
    #[inline]
    pub(crate) fn stats(&self) -> Option<&Collector> {
        self.stats.as_deref()
    }

    /// Control that nobody has.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self {
            meter: None,
            stats: None,
            brief: None,
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        let cancel = self.meter.as_ref().and_then(|meter| meter.cancel.as_ref());
        cancel.is_some_and(Cancel::is_cancelled)
    }

    /// Fails if the run was cancelled. [`Control::alive`] says so to the caller.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        if self.is_cancelled() {
            return Err(Trouble("the run was cancelled"));
        }
        Ok(())
    }

    /// As [`check`](Self::check), for the caller.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        let Some(meter) = self.meter.as_ref().filter(|_| self.is_cancelled()) else {
            return Ok(());
        };
        Err(Error::Cancelled { done: meter.done() })
    }

    /// Counts work that was done, in parts of [`ALL_WORK`], and rows of the output. Fails if the run was cancelled.
    #[inline]
    pub(crate) fn advance(&self, work: u64, rows: usize) -> Result<(), Trouble> {
        if let Some(meter) = &self.meter {
            meter.done.fetch_add(work, Ordering::Relaxed);
            meter.rows.fetch_add(rows as u64, Ordering::Relaxed);
            meter.report();
            self.check()?;
        }
        Ok(())
    }

    /// Nothing is done, but for what was reported.
    pub(crate) fn restart(&self) {
        if let Some(meter) = &self.meter {
            meter.done.store(0, Ordering::Relaxed);
            meter.rows.store(0, Ordering::Relaxed);
        }
        if let Some(stats) = self.stats() {
            stats.restart();
        }
    }

    /// This share of the work is done. Whether to go on.
    pub(crate) fn reach(&self, share: f64) -> bool {
        if let Some(meter) = &self.meter {
            let done = (share.clamp(0.0, 1.0) * ALL_WORK as f64) as u64;
            meter.done.fetch_max(done, Ordering::Relaxed);
            meter.report();
        }
        !self.is_cancelled()
    }

    /// Reports the end of a run, with the rows of its output.
    pub(crate) fn finish(&self, rows: usize) {
        let Some(meter) = &self.meter else { return };
        let mut last = meter.last.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = last.rows.max(rows as u64);
        *last = Progress { done: 1.0, rows };
        meter.tell(*last);
    }
}

impl Meter {
    fn done(&self) -> f64 {
        let done = self.done.load(Ordering::Relaxed) as f64 / ALL_WORK as f64;
        done.min(1.0)
    }

    fn tell(&self, progress: Progress) {
        if let Some(Watcher(report)) = &self.watcher {
            report(progress);
        }
    }

    /// Reports if a report is due and no other thread does.
    fn report(&self) {
        if self.watcher.is_none() {
            return;
        }
        let now = micros(self.started.elapsed());
        if now < self.due.load(Ordering::Relaxed) {
            return;
        }
        let mut last = match self.last.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(last)) => last.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // Another thread may have reported since.
        if now < self.due.load(Ordering::Relaxed) {
            return;
        }
        self.due.store(now + micros(PAUSE), Ordering::Relaxed);
        last.done = last.done.max(self.done());
        last.rows = last.rows.max(self.rows.load(Ordering::Relaxed));
        self.tell(*last);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A part of some work.
pub(crate) fn share(work: u64, part: usize, of: usize) -> u64 {
    (work as f64 * (part as f64 / of.max(1) as f64)) as u64
}
