//! Work that Ctrl-C interrupts.
//!
//! The work runs on a thread of its own. The calling thread sleeps without the interpreter's lock and wakes now and then to let Python handle
//! signals: it alone can, if it is the main thread.

use std::{
    sync::{
        Mutex, PoisonError,
        mpsc::{RecvTimeoutError, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pyo3::prelude::*;

use crate::guard::{caught, internal};

/// Bytes that the work can have on its stack, as many as where it is done on the main thread: programs are trees. Only what is touched is memory.
const STACK: usize = 8 << 20;

/// Ctrl-C is noticed within this time.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// How long the interpreter waits for work that was interrupted before it ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads whose work was interrupted.
static LEFT: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Waits for work that was interrupted: it may call functions of Python, which must not happen while the interpreter ends.
#[pyfunction]
pub(crate) fn settle(py: Python<'_>) {
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    let until = Instant::now() + PATIENCE;
    py.detach(|| {
        while left.iter().any(|worker| !worker.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Does `work`; every now and then handles signals and calls `tick`. If one of them raises, `stop` asks the work to end, and the exception is
/// raised without waiting for that: the thread drops what it has when it is done.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    stop: impl FnOnce(),
) -> PyResult<T> {
    let (done, result) = channel();
    let result = Mutex::new(result);
    let worker = thread::Builder::new().name("tilt-run".to_owned());
    let worker = worker.stack_size(STACK);
    let worker = worker.spawn(move || {
        // Nobody listens any more if the run was interrupted.
        let _ = done.send(caught(work));
    })?;
    loop {
        let waited = py.detach(|| {
            let result = result.lock().unwrap_or_else(PoisonError::into_inner);
            result.recv_timeout(TICK)
        });
        match waited {
            Ok(result) => return result.map_err(|panic| internal(&panic)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(internal("the thread of the run ended without a result"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals().and_then(|()| tick(py)) {
                    stop();
                    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
                    left.retain(|worker| !worker.is_finished());
                    left.push(worker);
                    return Err(raised);
                }
            }
        }
    }
}
