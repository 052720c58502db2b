//! `_native.Window`.

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyTuple,
};
use tilt::{
    build::{self, Closed},
    ir::{Agg, QuantileMethod, Ratio},
};

use super::{
    Reducer, Stream,
    arguments::{Columns, chosen, length, operands},
    made,
};

#[pyclass(frozen, module = "tilt._native", from_py_object)]
#[derive(Clone)]
pub(crate) struct Window {
    pub(super) stream: build::Stream,
    pub(super) window: build::Window,
}

#[pymethods]
impl Window {
    fn closed(&self, closed: &str) -> PyResult<Self> {
        let closed = chosen("closed", closed, CLOSED)?;
        Ok(self.with(|window| window.closed(closed)))
    }

    fn min_samples(&self, n: u32) -> Self {
        self.with(|window| window.min_samples(n))
    }

    #[pyo3(signature = (period, offset=None))]
    fn every(
        &self,
        period: &Bound<'_, PyAny>,
        offset: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (period, offset) = (length(period)?, offset.map(length).transpose()?);
        Ok(self.with(|window| {
            let window = window.every(period);
            match offset {
                Some(offset) => window.offset(offset),
                None => window,
            }
        }))
    }

    fn offset(&self, by: &Bound<'_, PyAny>) -> PyResult<Self> {
        let by = length(by)?;
        Ok(self.with(|window| window.offset(by)))
    }

    fn each_nth(&self, n: u32) -> Self {
        self.with(|window| window.each_nth(n))
    }

    /// The function runs under the interpreter's lock; what it raises is raised.
    fn map(&self, function: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut raised = None;
        let window = self.with(|window| {
            window.map(|value| {
                let result = function.call1((Stream(value.clone()),));
                match result.and_then(|result| Ok(result.extract::<Stream>()?)) {
                    Ok(stream) => stream.0,
                    Err(error) => {
                        raised = Some(error);
                        value.clone()
                    }
                }
            })
        });
        raised.map_or(Ok(window), Err)
    }

    fn prevailing(&self) -> Self {
        self.with(build::Window::prevailing)
    }

    #[pyo3(signature = (agg, *params))]
    fn reduce(&self, py: Python<'_>, agg: &str, params: &Bound<'_, PyTuple>) -> PyResult<Stream> {
        let parameter = |index: usize| params.get_item(index).ok();
        match agg {
            "ewm_by_time" => {
                let half_life = parameter(0).ok_or_else(|| missing("half_life"))?;
                let half_life = length(&half_life)?;
                made(py, || self.window.ewm_by_time(half_life))
            }
            "integral" => {
                let unit = parameter(0).filter(|unit| !unit.is_none());
                let unit = unit.as_ref().map(length).transpose()?;
                made(py, || self.window.integral(unit))
            }
            agg => {
                let agg = reduction(agg, params)?;
                made(py, || self.window.reduce(agg))
            }
        }
    }

    fn reduce_with(&self, py: Python<'_>, reducer: &Reducer) -> PyResult<Stream> {
        let reducer = reducer.lock().clone();
        made(py, || self.window.reduce_with(&reducer))
    }

    fn agg(&self, py: Python<'_>, columns: Columns<'_>) -> PyResult<Stream> {
        let columns = operands(&columns)?;
        made(py, || self.window.agg(columns))
    }

    #[getter]
    fn stream(&self) -> Stream {
        Stream(self.stream.clone())
    }
}

impl Window {
    fn with(&self, change: impl FnOnce(build::Window) -> build::Window) -> Self {
        Self {
            stream: self.stream.clone(),
            window: change(self.window.clone()),
        }
    }
}

const CLOSED: &[(&str, Closed)] = &[
    ("right", Closed::Right),
    ("left", Closed::Left),
    ("both", Closed::Both),
    ("none", Closed::Neither),
];
const QUANTILE_METHODS: &[(&str, QuantileMethod)] = &[
    ("linear", QuantileMethod::Linear),
    ("lower", QuantileMethod::Lower),
    ("higher", QuantileMethod::Higher),
    ("nearest", QuantileMethod::Nearest),
    ("midpoint", QuantileMethod::Midpoint),
];

fn missing(parameter: &str) -> PyErr {
    PyTypeError::new_err(format!("the reduction needs its parameter `{parameter}`"))
}

/// A built-in reduction from its name and parameters.
fn reduction(name: &str, params: &Bound<'_, PyTuple>) -> PyResult<Agg> {
    let parameter = |index: usize| params.get_item(index).ok();
    let integer = |index: usize, default: u32| match parameter(index) {
        Some(value) => value.extract::<u32>(),
        None => Ok(default),
    };
    let truth = |index: usize| match parameter(index) {
        Some(value) => value.extract::<bool>(),
        None => Ok(true),
    };
    let ratio = |what: &str| match parameter(0) {
        Some(value) => value.extract::<f64>().map(Ratio::new),
        None => Err(missing(what)),
    };
    Ok(match name {
        "var" => Agg::Var {
            ddof: integer(0, 1)?,
        },
        "std" => Agg::Std {
            ddof: integer(0, 1)?,
        },
        "skew" => Agg::Skew { bias: truth(0)? },
        "kurtosis" => Agg::Kurtosis {
            fisher: truth(0)?,
            bias: truth(1)?,
        },
        "quantile" => Agg::Quantile {
            q: ratio("q")?,
            method: match parameter(1) {
                Some(method) => chosen("method", &method.extract::<String>()?, QUANTILE_METHODS)?,
                None => QuantileMethod::Linear,
            },
        },
        "top_k" => match parameter(0) {
            Some(k) => Agg::TopK { k: k.extract()? },
            None => return Err(missing("k")),
        },
        "ewm" => Agg::Ewm {
            alpha: ratio("alpha")?,
        },
        name => {
            let agg = Agg::from_name(name);
            agg.ok_or_else(|| PyValueError::new_err(format!("there is no reduction {name:?}")))?
        }
    })
}
