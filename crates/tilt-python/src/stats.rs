//! What a run took, as Python has it.

use pyo3::{prelude::*, types::PyDict};
use tilt::{StageStats, Stats};

/// The statistics of a run on so many rows.
pub(crate) fn dictionary<'py>(
    py: Python<'py>,
    stats: &Stats,
    input_rows: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let seconds = stats.time.as_secs_f64();
    let stages = stats.stages.iter().map(|stage| of_stage(py, stage));
    let found = PyDict::new(py);
    found.set_item("input_rows", input_rows)?;
    found.set_item("rows", stats.rows)?;
    found.set_item("seconds", seconds)?;
    found.set_item("input_rows_per_second", rate(input_rows as u64, seconds))?;
    found.set_item("compile_seconds", stats.compile.as_secs_f64())?;
    found.set_item("compiled_before", stats.cached)?;
    found.set_item("pieces", stats.pieces)?;
    found.set_item("threads", stats.threads)?;
    found.set_item("peak_bytes", stats.peak_bytes)?;
    found.set_item("interpreted_because", stats.interpreted.as_deref())?;
    found.set_item("stages", stages.collect::<PyResult<Vec<_>>>()?)?;
    Ok(found)
}

fn of_stage<'py>(py: Python<'py>, stage: &StageStats) -> PyResult<Bound<'py, PyDict>> {
    let seconds = stage.time.as_secs_f64();
    let found = PyDict::new(py);
    found.set_item("name", &stage.name)?;
    found.set_item("rows", stage.rows)?;
    found.set_item("thread_seconds", seconds)?;
    found.set_item("rows_per_second", rate(stage.rows, seconds))?;
    found.set_item("bytes_read", stage.read)?;
    found.set_item("bytes_written", stage.written)?;
    found.set_item("windows", &stage.windows)?;
    Ok(found)
}

/// Rows a second; none if no time was measured.
fn rate(rows: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| rows as f64 / seconds)
}
