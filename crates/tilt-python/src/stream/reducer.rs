//! `_native.Reducer` and `_native.Value`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errors::build_error;
use pyo3::prelude::*;
use tilt::build::{self, Part};

use super::arguments::{
    Columns, binary_op, checked, chosen, literal, parse_dtype, parse_unit, term, unary_op,
};

#[pyclass(frozen, module = "tilt._native")]
pub(crate) struct Reducer(Mutex<build::Reducer>);

#[pyclass(frozen, module = "tilt._native", from_py_object)]
#[derive(Clone)]
pub(crate) struct Value(pub(super) build::Value);

#[pymethods]
impl Reducer {
    #[new]
    fn new(name: &str, dtype: &str, unit: &str, init: Columns<'_>) -> PyResult<Self> {
        let dtype = parse_dtype(dtype)?;
        let unit = parse_unit(unit)?;
        let mut fields = Vec::with_capacity(init.len());
        for (field, value) in &init {
            fields.push((field.as_str(), literal(value)?));
        }
        let reducer = build::Reducer::new(name, &dtype, unit, fields);
        Ok(Self(Mutex::new(reducer)))
    }

    fn params(&self, part: &str) -> PyResult<Vec<Value>> {
        let part = chosen("part", part, PARTS)?;
        let params = self.lock().params(part);
        Ok(params.into_iter().map(Value).collect())
    }

    fn define(&self, part: &str, params: Vec<Value>, body: &Bound<'_, PyAny>) -> PyResult<()> {
        let part = chosen("part", part, PARTS)?;
        let params: Vec<build::Value> = params.into_iter().map(|value| value.0).collect();
        if part == Part::Result {
            self.lock().define_result(&params, term(body)?);
        } else {
            let fields: Columns<'_> = body.extract()?;
            let mut terms = Vec::with_capacity(fields.len());
            for (field, value) in &fields {
                terms.push((field.clone(), term(value)?));
            }
            self.lock().define(part, &params, terms);
        }
        match self.lock().error_in(part) {
            Some(error) => Err(build_error(&error)),
            None => Ok(()),
        }
    }
}

impl Reducer {
    pub(super) fn lock(&self) -> MutexGuard<'_, build::Reducer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Value {
    fn unary(&self, op: &str) -> PyResult<Self> {
        let op = unary_op(op)?;
        traced(self.0.unary(op))
    }

    #[pyo3(signature = (op, other, reversed=false))]
    fn binary(&self, op: &str, other: &Bound<'_, PyAny>, reversed: bool) -> PyResult<Self> {
        let (op, other) = (binary_op(op)?, term(other)?);
        traced(if reversed {
            self.0.binary_reversed(op, other)
        } else {
            self.0.binary(op, other)
        })
    }

    fn cast(&self, dtype: &str) -> PyResult<Self> {
        let dtype = parse_dtype(dtype)?;
        traced(self.0.cast(&dtype))
    }

    fn field(&self, name: &str) -> PyResult<Self> {
        traced(self.0.field(name))
    }

    fn is_null(&self) -> PyResult<Self> {
        traced(self.0.is_null())
    }

    fn coalesce(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let other = term(other)?;
        traced(self.0.coalesce(other))
    }

    fn choose(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (a, b) = (term(a)?, term(b)?);
        traced(self.0.choose(a, b))
    }

    #[getter]
    fn dtype(&self) -> PyResult<String> {
        Ok(checked(self.0.dtype())?.to_string())
    }
}

const PARTS: &[(&str, Part)] = &[
    ("acc", Part::Acc),
    ("merge", Part::Merge),
    ("deacc", Part::Deacc),
    ("result", Part::Result),
];
fn traced(value: build::Value) -> PyResult<Value> {
    match value.error() {
        Some(error) => Err(build_error(error)),
        None => Ok(Value(value)),
    }
}
