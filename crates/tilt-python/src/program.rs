//! Programs of the temporal IR.

use pyo3::prelude::*;
use tilt::ir;

use crate::{errors::query_error, guard::guarded};

#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Program(pub(crate) ir::Program);

#[pymethods]
impl Program {
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        guarded(py, || parse(text))?.map(Self)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn unit(&self) -> String {
        self.0.unit.to_string()
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

/// A text as a program that has a meaning.
pub(crate) fn parse(text: &str) -> PyResult<ir::Program> {
    let program = ir::parse(text).map_err(|e| query_error(&e))?;
    ir::verify(&program).map_err(|e| query_error(&e))?;
    Ok(program)
}
