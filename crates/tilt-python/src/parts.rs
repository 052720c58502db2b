//! Results part by part: runs on rows as they are read.
//!
//! The run has a thread of its own, which is at most two parts ahead of whoever takes them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
};

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use tilt::{
    Cancel, Error, StreamRun,
    data::{Layout, SnapshotBuffer},
};

use crate::{
    errors::{data_error, run_error},
    functions::Calls,
    guard::{caught, internal},
    input::{Batches, Chunks},
    table::{Table, renamed},
    watch::TICK,
};

/// The parts of a result, in order of time: an iterator of tables, of which there is at least one.
#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Parts {
    /// `None` when the last one was taken.
    waiting: Mutex<Option<Receiver<PyResult<RecordBatch>>>>,
    cancel: Cancel,
    /// What is told how far the run has come.
    progress: Option<Py<PyAny>>,
    read: Arc<AtomicUsize>,
    /// How many rows there are to be read, if that is known.
    rows: Option<usize>,
}

#[pymethods]
impl Parts {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Waits for the next part, handles signals meanwhile and tells how far the run has come: an exception of either ends it.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let next = self.wait(py);
        if !matches!(next, Ok(Some(_))) {
            self.close();
        }
        Ok(next?.map(Table::of_batch))
    }

    /// Ends the run.
    fn close(&self) {
        self.cancel.cancel();
        self.lock().take();
    }
}

impl Parts {
    /// Begins a run.
    pub(crate) fn start(
        run: StreamRun<Chunks>,
        calls: Calls,
        shape: Shape,
        cancel: Cancel,
    ) -> PyResult<Self> {
        let (sender, parts) = sync_channel(1);
        thread::Builder::new()
            .name("tilt-parts".to_owned())
            .spawn(move || {
                let mut run = run;
                loop {
                    let part = caught(|| run.next()).map_err(|panic| internal(&panic));
                    let part = match part.transpose() {
                        None => return,
                        Some(Ok(Ok(part))) => shape.rows(&part),
                        Some(Ok(Err(error))) => Err(failure(error)),
                        Some(Err(panic)) => Err(panic),
                    };
                    let part = calls.raised().map_or(part, Err);
                    let is_last = part.is_err();
                    // Nobody listens any more if the run was interrupted.
                    if sender.send(part).is_err() || is_last {
                        return;
                    }
                }
            })?;
        Ok(Self {
            waiting: Mutex::new(Some(parts)),
            cancel,
            progress: None,
            read: Arc::default(),
            rows: None,
        })
    }

    /// Tells `progress` the share of `rows` that `read` counts.
    pub(crate) fn watched(
        mut self,
        progress: Option<Py<PyAny>>,
        read: Arc<AtomicUsize>,
        rows: Option<usize>,
    ) -> Self {
        self.progress = progress;
        self.read = read;
        self.rows = rows;
        self
    }

    /// The parts that were not taken yet, for another run.
    pub(crate) fn take(&self) -> Option<Batches> {
        let parts = self.lock().take()?;
        // The run ends with its receiver.
        Some(Box::new(parts.into_iter()))
    }

    fn wait(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            let waited = py.detach(|| {
                let parts = self.lock();
                parts.as_ref().map(|parts| parts.recv_timeout(TICK))
            });
            let Some(waited) = waited else {
                return Ok(None);
            };
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, (self.share(),))?;
            }
            match waited {
                Ok(part) => return part.map(Some),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn share(&self) -> f64 {
        let read = self.read.load(Ordering::Relaxed);
        self.rows
            .map_or(0.0, |rows| (read as f64 / rows.max(1) as f64).min(1.0))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Receiver<PyResult<RecordBatch>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Parts that were handed on to another run are still wanted.
        if self.lock().is_some() {
            self.cancel.cancel();
        }
    }
}

/// What the rows of a result look like.
pub(crate) struct Shape {
    pub(crate) layout: Layout,
    /// Other names for all columns.
    pub(crate) columns: Option<Vec<String>>,
    /// The result of inputs without rows, if their columns are known: a run over chunks does not see the names and types of times that it is not given.
    pub(crate) empty: Box<dyn Fn() -> PyResult<Option<SnapshotBuffer>> + Send>,
}

impl Shape {
    fn rows(&self, part: &SnapshotBuffer) -> PyResult<RecordBatch> {
        let write = |events: &SnapshotBuffer| events.to_record_batch(self.layout);
        let rows = write(part).map_err(|error| data_error(&error))?;
        if let Some(columns) = &self.columns {
            return renamed(&rows, columns);
        }
        if rows.num_rows() > 0 {
            return Ok(rows);
        }
        let Some(empty) = (self.empty)()? else {
            return Ok(rows);
        };
        let empty = write(&empty).map_err(|error| data_error(&error))?;
        let is_alike = empty.num_columns() == rows.num_columns();
        Ok(if is_alike { empty } else { rows })
    }
}

/// The exception of a run over chunks; what a source raised is raised.
fn failure(error: Error) -> PyErr {
    match error {
        Error::Source { input, source } => match source.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(source) => run_error(&Error::Source { input, source }),
        },
        error => run_error(&error),
    }
}
