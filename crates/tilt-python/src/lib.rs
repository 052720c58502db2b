//! The native half of tilt's Python package: `tilt._native`. Thin on purpose; what users see, with its documentation,
//! is the Python in `python/tilt`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use tilt::ir;

mod stream;

/// The exceptions are Python classes, with their documentation in `python/tilt/errors.py`.
mod errors {
    pyo3::import_exception!(tilt.errors, InternalError);
    pyo3::import_exception!(tilt.errors, QueryError);
}

#[pymodule]
mod _native {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "a Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const BUILD: &str = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };

    #[pymodule_export]
    use super::Program;

    #[pymodule_export]
    use super::stream::{Reducer, Stream, Value, Window};

    #[cfg(debug_assertions)]
    #[pymodule_export]
    use super::panic;
}

#[pyclass(frozen, module = "tilt._native")]
struct Program(ir::Program);

#[pymethods]
impl Program {
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        guarded(py, || {
            let program = ir::parse(text).map_err(|e| e.to_string())?;
            ir::verify(&program).map_err(|e| e.to_string())?;
            Ok(Self(program))
        })?
        .map_err(errors::QueryError::new_err::<String>)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Name and type of every input.
    #[getter]
    fn inputs(&self) -> Vec<(&str, String)> {
        self.0
            .inputs()
            .map(|(_, input)| (input.name.as_str(), input.dtype.to_string()))
            .collect()
    }

    /// Name and type of the result.
    #[getter]
    fn output(&self) -> (&str, String) {
        let output = self.0.output;
        (
            self.0.streams[output].name(),
            self.0.stream_dtype(output).to_string(),
        )
    }

    /// Name, lookback and lookahead of every input the result depends on.
    fn lineage(&self, py: Python<'_>) -> PyResult<Vec<(&str, String, String)>> {
        let text = |reach: ir::Reach| reach.display(self.0.unit).to_string();
        guarded(py, || {
            ir::Lineage::new(&self.0)
                .halos()
                .map(|(input, halo)| {
                    let name = self.0.streams[input].name();
                    (name, text(halo.lookback), text(halo.lookahead))
                })
                .collect()
        })
    }

    fn optimize(&self, py: Python<'_>) -> PyResult<Self> {
        guarded(py, || Self(ir::optimize(&self.0)))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// Lets the tests see what a bug of ours looks like from Python.
#[cfg(debug_assertions)]
#[pyfunction]
fn panic(py: Python<'_>, message: &str) -> PyResult<()> {
    guarded(py, || panic!("{message}"))
}

/// Does `work` without holding the interpreter's lock. A panic becomes `tilt.InternalError`: PyO3's own
/// `PanicException` is one that `except Exception` does not catch.
fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work)))
        .map_err(|panic| {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("unknown");
            errors::InternalError::new_err(format!(
                "{message}\nThis is a bug in tilt: please report it with the query and tilt.show_versions()."
            ))
        })
}
