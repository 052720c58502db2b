//! Work without the interpreter's lock; panics as exceptions.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use pyo3::prelude::*;

use crate::errors::InternalError;

/// Does `work` without holding the interpreter's lock. A panic becomes `tilt.InternalError`: PyO3's own
/// `PanicException` is one that `except Exception` does not catch.
pub(crate) fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| caught(work)).map_err(|panic| internal(&panic))
}

/// Does `work` and catches a panic, as its message.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(panic.as_ref()))
}

/// The exception of a panic.
pub(crate) fn internal(message: &str) -> PyErr {
    InternalError::new_err(format!(
        "{message}\nThis is a bug in tilt: please report it with the query and tilt.show_versions()."
    ))
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown")
        .to_owned()
}

/// Lets the tests see what a bug of ours looks like from Python.
#[cfg(debug_assertions)]
#[pyfunction]
pub(crate) fn panic(py: Python<'_>, message: &str) -> PyResult<()> {
    guarded(py, || panic!("{message}"))
}
