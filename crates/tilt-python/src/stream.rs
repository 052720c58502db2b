//! `_native.Stream`, `Window`, `Reducer` and `Value`: the query builder of `tilt::build`, as directly as Python can call it.
//!
//! Everything is immutable but `Reducer`, and every call raises at once: `QueryError` (or `SchemaError` for types and fields,
//! `LookaheadError` for `assert_causal`, where `tilt.errors` has them) with the operation, its operands in the notation of the text form and a
//! hint, which is also its attribute `hint`.
//!
//! **Arguments.** A *length* is a `str` of Polars' grammar (`"10s"`, `"-1h30m"`, `"20i"` for events) or an `int` of ticks. A *literal* is `None`, `bool`,
//! `int`, `float`, `str`, or `("timestamp" | "duration", ticks, unit)`; it takes the type of what it meets. An *operand* is a `Stream` or a literal. A
//! *type* is the text of `dtype` (`"f64"`, `"timestamp(ns)"`, `"{a: f64, b: utf8}"`).
//!
//! **`Stream`**, by subject:
//! - `input(name, dtype, unit, span="point", period=None, key=None, overlap=None)`: `dtype` is a type or a list of `(column, type)`; `span` is
//!   `"point"`, `"until_next"`, `"interval"` or `"fixed <duration>"`; `period` a duration; `overlap` `"bag"`, `"first"` or `"last"`.
//!   `from_text(text)`: the output of a program.
//! - `text(name="query")` is the program, which `from_text` reads back (pickle by it); `name`, `dtype`, `unit`, `schema` (columns with types), `lineage`
//!   (input, lookback, lookahead), `lookback`, `lookahead` as texts; `assert_causal()`; `same(other)`: one query, whatever its parts are called; `alias(name)`.
//! - `unary(op)`: `-`, `~`, and every function of one argument of `docs/ir.md` (`abs`, `sqrt`, `year`, `is_nan` …). `binary(op, operand, reversed=False)`: `+ - * / // % **
//!   == != < <= > >= & | ^ << >>`, `min max atan2 hypot pow`; `reversed` puts the operand on the left. `cast(type)`, `clip(lo, hi)`,
//!   `filter(condition)`, `is_null()`, `coalesce(operands)`, `when([(condition, value), …], otherwise)`.
//! - records: `field(name)`, `select(names)`, `drop(names)`, `rename([(old, new)])`, `with_columns([(name, operand)])` at the events of the stream,
//!   `struct_of([(name, operand)])` wherever one changes.
//! - time: `shift(length)`, `at_offset(length)` (signed), `prev(n)`, `sample(n)` (signed, periodic streams), `hold(max_age=None)`, `time()` (the event's end), `start()`,
//!   `at(other)`, `every(period, offset=None)`, `on_change()`, `changes()`, `held_for(length)`.
//! - gaps: `interpolate("linear" | "nearest", max_gap)`, `resample(period, "hold" | "linear" | "nearest" | "mean", max_gap=None)`,
//!   `fill_null(operand, max_gap=None)`, `fill_gaps("forward" | "backward" | "linear", max_gap=None)`.
//! - joins: `join_asof(right, "backward" | "forward" | "nearest", tolerance=None, suffix="_right")`, `join_overlap(right, suffix="_right")`.
//! - signals: `recur(function, dtype="f64", initial=None)` calls `function` once with the stream itself, `lfilter(b, a)`, `ewm_by_time(half_life)`,
//!   `peaks(min_distance, threshold=None)`.
//! - `window(lo, hi)`: the events of `(t+lo, t+hi]`, by time or (`"-3i"`, `"0i"`) by count; `lo=None` reaches back to the beginning. `samples(n)`: the last `n` samples.
//!   `calendar("1mo", zone=None)`: the cells of a calendar, closed on the left; `sessions(gap, max=None)`; `during(other)`: the intervals of another stream's events.
//!
//! **`Window`**: `closed("right" | "left" | "both" | "none")`, `min_samples(n)`, `every(period, offset=None)` (tumbling and hopping), `each_nth(n)` (count windows with a step),
//! `map(function)` gives each event another value, `prevailing()` holds every value until the next. `reduce(name, *parameters)`: every reduction of `docs/ir.md`;
//! parameters are `std`/`var(ddof=1)`, `skew(bias=True)`, `kurtosis(fisher=True, bias=True)`, `quantile(q, method="linear")`, `top_k(k)`, `ewm(alpha)`, `ewm_by_time(half_life)`,
//! `integral(unit=None)`. `reduce_with(reducer)`. `agg([(name, operand)])`: a record of streams made from this window, where it is not empty.
//!
//! **`Reducer(name, dtype, unit, init)`**: `init` is a list of `(field, literal)`. For each of `"acc"`, `"result"` and, if wanted, `"merge"`, `"deacc"`:
//! `params(part)` gives `Value`s (acc, deacc: state, value, start, end; merge: two states; result: state), and `define(part, params, fields)` takes the new state as
//! `[(field, Value | literal)]`, or for `result` one `Value | literal`. **`Value`**: `unary`, `binary`, `cast`, `field`, `is_null`, `coalesce(other)`, `choose(a, b)` (this is the condition), `dtype`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "what PyO3 converts from a sequence is owned"
)]

mod arguments;
mod reducer;
mod window;

use crate::errors::build_error;
use pyo3::{exceptions::PyValueError, prelude::*};
use tilt::{
    build::{self, AsOf, BuildError, Fill, Interpolation, Operand, Resampling},
    ir,
};

use self::arguments::{
    Columns, binary_op, chosen, length, literal, operand, operands, parse_dtype, quoted, texts,
    unary_op,
};
pub(crate) use self::{
    arguments::checked,
    reducer::{Reducer, Value},
    window::Window,
};
use crate::guard::guarded;

#[pyclass(frozen, module = "tilt._native", from_py_object)]
#[derive(Clone)]
pub(crate) struct Stream(pub(crate) build::Stream);

#[pymethods]
impl Stream {
    #[staticmethod]
    #[pyo3(signature = (name, dtype, unit, span="point", period=None, key=None, overlap=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the declaration")]
    fn input(
        py: Python<'_>,
        name: &str,
        dtype: &Bound<'_, PyAny>,
        unit: &str,
        span: &str,
        period: Option<&str>,
        key: Option<&str>,
        overlap: Option<&str>,
    ) -> PyResult<Self> {
        let dtype = if let Ok(text) = dtype.extract::<String>() {
            text
        } else {
            let columns: Vec<(String, String)> = dtype.extract()?;
            let columns = columns
                .iter()
                .map(|(name, dtype)| format!("{}: {dtype}", quoted(name)));
            format!("{{{}}}", columns.collect::<Vec<_>>().join(", "))
        };
        let name = quoted(name);
        let period = period.map_or(String::new(), |p| format!(" period {p}"));
        let key = key.map_or(String::new(), |k| format!(" key {}", quoted(k)));
        let overlap = overlap.map_or(String::new(), |o| format!(" overlap {o}"));
        let text = format!(
            "query query unit {unit} {{ input ~{name}: {dtype} {span}{period}{key}{overlap} output ~{name} }}"
        );
        made(py, || build::Stream::parse(&text))
    }

    #[staticmethod]
    fn from_text(py: Python<'_>, text: &str) -> PyResult<Self> {
        made(py, || build::Stream::parse(text))
    }

    #[pyo3(signature = (name="query"))]
    fn text(&self, name: &str) -> PyResult<String> {
        Ok(checked(self.0.program(name))?.to_string())
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(checked(self.0.name())?.to_owned())
    }

    #[getter]
    fn dtype(&self) -> PyResult<String> {
        Ok(checked(self.0.dtype())?.to_string())
    }

    #[getter]
    fn unit(&self) -> PyResult<String> {
        Ok(checked(self.0.program("query"))?.unit.to_string())
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> PyResult<Vec<(String, String)>> {
        let columns = checked(self.0.schema())?;
        let columns = columns.into_iter();
        Ok(columns
            .map(|(name, dtype)| (name, dtype.to_string()))
            .collect())
    }

    /// Name, lookback and lookahead of every input.
    #[getter]
    fn lineage(&self, py: Python<'_>) -> PyResult<Vec<(String, String, String)>> {
        let program = checked(self.0.program("query"))?;
        guarded(py, || {
            let text = |reach: ir::Reach| reach.display(program.unit).to_string();
            ir::Lineage::new(&program)
                .halos()
                .map(|(input, halo)| {
                    let name = program.streams[input].name().to_owned();
                    (name, text(halo.lookback), text(halo.lookahead))
                })
                .collect()
        })
    }

    #[getter]
    fn lookback(&self, py: Python<'_>) -> PyResult<String> {
        self.reach(py, build::Stream::lookback)
    }

    #[getter]
    fn lookahead(&self, py: Python<'_>) -> PyResult<String> {
        self.reach(py, build::Stream::lookahead)
    }

    fn assert_causal(&self, py: Python<'_>) -> PyResult<()> {
        let causal = guarded(py, || self.0.assert_causal())?;
        checked(causal)
    }

    fn same(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }

    fn alias(&self, py: Python<'_>, name: &str) -> PyResult<Self> {
        made(py, || self.0.alias(name))
    }

    fn unary(&self, py: Python<'_>, op: &str) -> PyResult<Self> {
        let op = unary_op(op)?;
        made(py, || self.0.unary(op))
    }

    #[pyo3(signature = (op, other, reversed=false))]
    fn binary(
        &self,
        py: Python<'_>,
        op: &str,
        other: &Bound<'_, PyAny>,
        reversed: bool,
    ) -> PyResult<Self> {
        let (op, other) = (binary_op(op)?, operand(other)?);
        made(py, || {
            if reversed {
                self.0.binary_reversed(op, other)
            } else {
                self.0.binary(op, other)
            }
        })
    }

    fn cast(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let dtype = parse_dtype(dtype)?;
        made(py, || self.0.cast(&dtype))
    }

    #[pyo3(signature = (lo=None, hi=None))]
    fn clip(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (lo, hi) = (lo.map(operand).transpose()?, hi.map(operand).transpose()?);
        made(py, || self.0.clip(lo, hi))
    }

    fn filter(&self, py: Python<'_>, condition: &Bound<'_, PyAny>) -> PyResult<Self> {
        let condition = operand(condition)?;
        made(py, || self.0.filter(condition))
    }

    fn is_null(&self, py: Python<'_>) -> PyResult<Self> {
        made(py, || self.0.is_null())
    }

    #[staticmethod]
    fn coalesce(py: Python<'_>, operands: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let operands: Vec<Operand> = operands.iter().map(operand).collect::<PyResult<_>>()?;
        made(py, || build::coalesce(operands))
    }

    #[staticmethod]
    fn when(
        py: Python<'_>,
        branches: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        otherwise: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let mut then: Option<build::Then> = None;
        for (condition, value) in &branches {
            let (condition, value) = (operand(condition)?, operand(value)?);
            then = Some(match then {
                None => build::when(condition).then(value),
                Some(then) => then.when(condition).then(value),
            });
        }
        let otherwise = operand(otherwise)?;
        let then = then.ok_or_else(|| PyValueError::new_err("when() needs a condition"))?;
        made(py, || then.otherwise(otherwise))
    }

    fn field(&self, py: Python<'_>, name: &str) -> PyResult<Self> {
        made(py, || self.0.field(name))
    }

    fn select(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Self> {
        made(py, || self.0.select(&texts(&names)))
    }

    fn drop(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Self> {
        made(py, || self.0.drop(&texts(&names)))
    }

    fn rename(&self, py: Python<'_>, names: Vec<(String, String)>) -> PyResult<Self> {
        let pairs = || names.iter().map(|(old, new)| (old.as_str(), new.as_str()));
        made(py, || self.0.rename(&pairs().collect::<Vec<_>>()))
    }

    fn with_columns(&self, py: Python<'_>, columns: Columns<'_>) -> PyResult<Self> {
        let columns = operands(&columns)?;
        made(py, || self.0.with_columns(columns))
    }

    #[staticmethod]
    fn struct_of(py: Python<'_>, columns: Columns<'_>) -> PyResult<Self> {
        let columns = operands(&columns)?;
        made(py, || build::struct_of(columns))
    }

    fn shift(&self, py: Python<'_>, by: &Bound<'_, PyAny>) -> PyResult<Self> {
        let by = length(by)?;
        made(py, || self.0.shift(by))
    }

    fn at_offset(&self, py: Python<'_>, offset: &Bound<'_, PyAny>) -> PyResult<Self> {
        let offset = length(offset)?;
        made(py, || self.0.at_offset(offset))
    }

    fn prev(&self, py: Python<'_>, n: u32) -> PyResult<Self> {
        made(py, || self.0.prev(n))
    }

    fn sample(&self, py: Python<'_>, n: i64) -> PyResult<Self> {
        made(py, || self.0.sample(n))
    }

    #[pyo3(signature = (max_age=None))]
    fn hold(&self, py: Python<'_>, max_age: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let max_age = max_age.map(length).transpose()?;
        made(py, || self.0.hold(max_age))
    }

    fn time(&self, py: Python<'_>) -> PyResult<Self> {
        made(py, || self.0.time())
    }

    fn start(&self, py: Python<'_>) -> PyResult<Self> {
        made(py, || self.0.start())
    }

    fn at(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        made(py, || self.0.at(&other.0))
    }

    #[pyo3(signature = (period, offset=None))]
    fn every(
        &self,
        py: Python<'_>,
        period: &Bound<'_, PyAny>,
        offset: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (period, offset) = (length(period)?, offset.map(length).transpose()?);
        made(py, || self.0.every(period, offset))
    }

    fn on_change(&self, py: Python<'_>) -> PyResult<Self> {
        made(py, || self.0.on_change())
    }

    fn changes(&self, py: Python<'_>) -> PyResult<Self> {
        made(py, || self.0.changes())
    }

    fn held_for(&self, py: Python<'_>, duration: &Bound<'_, PyAny>) -> PyResult<Self> {
        let duration = length(duration)?;
        made(py, || self.0.held_for(duration))
    }

    fn interpolate(
        &self,
        py: Python<'_>,
        method: &str,
        max_gap: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let method = chosen("method", method, INTERPOLATIONS)?;
        let max_gap = length(max_gap)?;
        made(py, || self.0.interpolate(method, max_gap))
    }

    #[pyo3(signature = (period, method, max_gap=None))]
    fn resample(
        &self,
        py: Python<'_>,
        period: &Bound<'_, PyAny>,
        method: &str,
        max_gap: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let method = chosen("method", method, RESAMPLINGS)?;
        let (period, max_gap) = (length(period)?, max_gap.map(length).transpose()?);
        made(py, || self.0.resample(period, method, max_gap))
    }

    #[pyo3(signature = (value, max_gap=None))]
    fn fill_null(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        max_gap: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (value, max_gap) = (operand(value)?, max_gap.map(length).transpose()?);
        made(py, || self.0.fill_null(value, max_gap))
    }

    #[pyo3(signature = (strategy, max_gap=None))]
    fn fill_gaps(
        &self,
        py: Python<'_>,
        strategy: &str,
        max_gap: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let strategy = chosen("strategy", strategy, FILLS)?;
        let max_gap = max_gap.map(length).transpose()?;
        made(py, || self.0.fill_gaps(strategy, max_gap))
    }

    #[pyo3(signature = (right, strategy="backward", tolerance=None, suffix="_right"))]
    fn join_asof(
        &self,
        py: Python<'_>,
        right: &Self,
        strategy: &str,
        tolerance: Option<&Bound<'_, PyAny>>,
        suffix: &str,
    ) -> PyResult<Self> {
        let strategy = chosen("strategy", strategy, AS_OF)?;
        let tolerance = tolerance.map(length).transpose()?;
        made(py, || {
            self.0.join_asof(&right.0, strategy, tolerance, suffix)
        })
    }

    #[pyo3(signature = (right, suffix="_right"))]
    fn join_overlap(&self, py: Python<'_>, right: &Self, suffix: &str) -> PyResult<Self> {
        made(py, || self.0.join_overlap(&right.0, suffix))
    }

    /// The function runs under the interpreter's lock; what it raises is raised.
    #[staticmethod]
    #[pyo3(signature = (function, dtype="f64", initial=None))]
    fn recur(
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        dtype: &str,
        initial: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let dtype = parse_dtype(dtype)?;
        let initial = initial.map(literal).transpose()?;
        let mut raised = None;
        let stream = build::recur(&dtype, initial, |own| {
            let result = function.call1((Self(own.clone()),));
            match result.and_then(|result| Ok(result.extract::<Self>()?)) {
                Ok(stream) => stream.0,
                Err(error) => {
                    raised = Some(error);
                    own.clone()
                }
            }
        });
        match raised {
            Some(error) => Err(error),
            None => made(py, || stream),
        }
    }

    fn lfilter(&self, py: Python<'_>, b: Vec<f64>, a: Vec<f64>) -> PyResult<Self> {
        made(py, || self.0.lfilter(&b, &a))
    }

    fn ewm_by_time(&self, py: Python<'_>, half_life: &Bound<'_, PyAny>) -> PyResult<Self> {
        let half_life = length(half_life)?;
        made(py, || self.0.ewm_by_time(half_life))
    }

    #[pyo3(signature = (min_distance, threshold=None))]
    fn peaks(
        &self,
        py: Python<'_>,
        min_distance: &Bound<'_, PyAny>,
        threshold: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let min_distance = length(min_distance)?;
        let threshold = threshold.map(operand).transpose()?;
        made(py, || self.0.peaks(min_distance, threshold))
    }

    fn window(&self, lo: Option<&Bound<'_, PyAny>>, hi: &Bound<'_, PyAny>) -> PyResult<Window> {
        let (lo, hi) = (lo.map(length).transpose()?, length(hi)?);
        Ok(self.frame(match lo {
            Some(lo) => self.0.between(lo, hi),
            None => self.0.until(hi),
        }))
    }

    fn samples(&self, n: u32) -> Window {
        self.frame(self.0.samples(n))
    }

    #[pyo3(signature = (length, zone=None))]
    fn calendar(&self, length: &str, zone: Option<&str>) -> Window {
        self.frame(self.0.calendar(length, zone))
    }

    #[pyo3(signature = (gap, max=None))]
    fn sessions(&self, gap: &Bound<'_, PyAny>, max: Option<&Bound<'_, PyAny>>) -> PyResult<Window> {
        let (gap, max) = (length(gap)?, max.map(length).transpose()?);
        Ok(self.frame(self.0.sessions(gap, max)))
    }

    fn during(&self, other: &Self) -> Window {
        self.frame(self.0.during(&other.0))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

impl Stream {
    fn reach(
        &self,
        py: Python<'_>,
        reach: fn(&build::Stream) -> Result<ir::Reach, BuildError>,
    ) -> PyResult<String> {
        let unit = checked(self.0.program("query"))?.unit;
        let reach = guarded(py, || reach(&self.0))?;
        Ok(checked(reach)?.display(unit).to_string())
    }

    fn frame(&self, window: build::Window) -> Window {
        Window {
            stream: self.0.clone(),
            window,
        }
    }
}

const INTERPOLATIONS: &[(&str, Interpolation)] = &[
    ("linear", Interpolation::Linear),
    ("nearest", Interpolation::Nearest),
];
const RESAMPLINGS: &[(&str, Resampling)] = &[
    ("hold", Resampling::Hold),
    ("linear", Resampling::Interpolate(Interpolation::Linear)),
    ("nearest", Resampling::Interpolate(Interpolation::Nearest)),
    ("mean", Resampling::Mean),
];
const FILLS: &[(&str, Fill)] = &[
    ("forward", Fill::Forward),
    ("backward", Fill::Backward),
    ("linear", Fill::Linear),
];
const AS_OF: &[(&str, AsOf)] = &[
    ("backward", AsOf::Backward),
    ("forward", AsOf::Forward),
    ("nearest", AsOf::Nearest),
];
/// A stream, or what is wrong with it.
fn made(py: Python<'_>, make: impl FnOnce() -> build::Stream + Send) -> PyResult<Stream> {
    let stream = guarded(py, make)?;
    match stream.error() {
        Some(error) => Err(build_error(error)),
        None => Ok(Stream(stream)),
    }
}
