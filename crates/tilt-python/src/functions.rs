//! Python functions that queries call as `@name(…)`.

use std::sync::{Arc, Mutex, PoisonError};

use crate::pointer::Pointer;
use pyo3::{IntoPyObjectExt, prelude::*, types::PyTuple};
use tilt::{
    interp::{Functions, Value},
    ir::{DType, Program},
};

/// The functions of a run and the first exception that one of them raised.
#[derive(Clone, Default)]
pub(crate) struct Calls {
    pub(crate) functions: Functions,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Calls {
    /// Makes the functions that a program declares callable. The others are left out: nothing can call them.
    pub(crate) fn new(program: &Program, given: Vec<(String, Py<PyAny>)>) -> Self {
        let mut calls = Self::default();
        for (name, function) in given {
            let mut declared = program.functions.iter().map(|(_, f)| f);
            let Some(declared) = declared.find(|f| f.name == name) else {
                continue;
            };
            let pointer = Python::attach(|py| {
                let pointer = function.bind(py).cast::<Pointer>();
                pointer.ok().map(|pointer| pointer.get().clone())
            });
            if let Some(pointer) = pointer {
                let native = move |arguments: &[Value]| pointer.call(arguments);
                calls.functions.register(name, native);
                continue;
            }
            let (result, raised) = (declared.result.clone(), Arc::clone(&calls.raised));
            calls.functions.register(name, move |arguments| {
                let value = Python::attach(|py| {
                    let value = call(py, &function, arguments);
                    value.and_then(|value| of_python(&value, &result))
                });
                value.unwrap_or_else(|error| {
                    let mut raised = raised.lock().unwrap_or_else(PoisonError::into_inner);
                    raised.get_or_insert(error);
                    Value::Null
                })
            });
        }
        calls
    }

    /// The first exception, which the result of the run is not worth anything after.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

fn call<'py>(
    py: Python<'py>,
    function: &Py<PyAny>,
    arguments: &[Value],
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = arguments.iter().map(|value| to_python(py, value));
    let arguments = PyTuple::new(py, arguments.collect::<PyResult<Vec<_>>>()?)?;
    function.bind(py).call1(arguments)
}

/// Timestamps and durations are their ticks; records and lists are tuples and lists.
fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => value.into_bound_py_any(py),
        Value::UInt(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Str(value) => value.as_ref().into_bound_py_any(py),
        Value::Record(fields) => {
            let fields = fields.iter().map(|field| to_python(py, field));
            Ok(PyTuple::new(py, fields.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Value::List(items) => {
            let items = items.iter().map(|item| to_python(py, item));
            items.collect::<PyResult<Vec<_>>>()?.into_bound_py_any(py)
        }
    }
}

/// A value of the declared type. One of another type is handed on as it is, for the run to refuse with name and instant.
fn of_python(value: &Bound<'_, PyAny>, dtype: &DType) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    Ok(match dtype {
        DType::Bool => Value::Bool(value.extract()?),
        DType::Int(_) | DType::Timestamp(_) | DType::Duration(_) => Value::Int(value.extract()?),
        DType::UInt(_) => Value::UInt(value.extract()?),
        DType::Float(width) => Value::Float(tilt::ir::round_to(*width, value.extract()?)),
        DType::Utf8 => Value::Str(value.extract::<String>()?.into()),
        DType::Record(fields) => {
            let values: Vec<Bound<'_, PyAny>> = value.extract()?;
            let values = values
                .iter()
                .zip(fields)
                .map(|(v, f)| of_python(v, &f.dtype));
            Value::record(values.collect::<PyResult<Vec<_>>>()?)
        }
        DType::List(item) => {
            let values: Vec<Bound<'_, PyAny>> = value.extract()?;
            let values = values.iter().map(|v| of_python(v, item));
            Value::list(values.collect::<PyResult<Vec<_>>>()?)
        }
    })
}
