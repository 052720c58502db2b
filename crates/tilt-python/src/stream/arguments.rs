//! From Python's values to the builder's, and from its errors to exceptions.

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyString},
};
use tilt::{
    build::{self, Binary, BuildError, Length, Literal, Operand, Term, unary_from_symbol},
    ir::{DType, UnaryOp, Unit},
};

use super::{Stream, Value};
use crate::errors::build_error;

/// Columns as Python gives them.
pub(super) type Columns<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// What `word` stands for in a table.
pub(super) fn chosen<T: Copy>(what: &str, word: &str, table: &[(&str, T)]) -> PyResult<T> {
    let row = table.iter().find(|row| row.0 == word);
    row.map(|row| row.1).ok_or_else(|| {
        let words: Vec<String> = table.iter().map(|row| format!("{:?}", row.0)).collect();
        let words = words.join(", ");
        PyValueError::new_err(format!("{what} must be one of {words}, not {word:?}"))
    })
}

pub(super) fn unary_op(symbol: &str) -> PyResult<UnaryOp> {
    let op = unary_from_symbol(symbol);
    op.ok_or_else(|| PyValueError::new_err(format!("there is no function {symbol:?} of one value")))
}

pub(super) fn binary_op(symbol: &str) -> PyResult<Binary> {
    let op = Binary::from_symbol(symbol);
    op.ok_or_else(|| {
        PyValueError::new_err(format!("there is no operator {symbol:?} of two values"))
    })
}

pub(super) fn parse_unit(text: &str) -> PyResult<Unit> {
    let unit = Unit::parse(text);
    unit.ok_or_else(|| {
        PyValueError::new_err(format!(
            "the unit must be tick, s, ms, us or ns, not {text:?}"
        ))
    })
}

/// A type from its text, by way of an input that has it.
pub(super) fn parse_dtype(text: &str) -> PyResult<DType> {
    let stream = build::Stream::parse(&format!(
        "query query unit ns {{ input ~x: {text} point output ~x }}"
    ));
    Ok(checked(stream.dtype())?.clone())
}

/// A name in backticks, which any name may stand in.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

pub(super) fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

pub(super) fn length(value: &Bound<'_, PyAny>) -> PyResult<Length> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Length::from(text.to_cow()?.as_ref()));
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return Ok(Length::Ticks(value.extract()?));
    }
    Err(PyTypeError::new_err(format!(
        "a length is a string such as \"10s\" or a number of ticks, not {}",
        value.get_type().name()?
    )))
}

pub(super) fn literal(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    if value.is_none() {
        return Ok(Literal::Null);
    }
    // A bool is an int, too.
    if value.is_instance_of::<PyBool>() {
        return Ok(Literal::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(value) => Ok(Literal::Int(value)),
            Err(_) => Ok(Literal::UInt(value.extract()?)),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Literal::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Literal::Str(value.extract()?));
    }
    if let Ok((kind, ticks, unit)) = value.extract::<(String, i64, String)>() {
        let unit = parse_unit(&unit)?;
        return match kind.as_str() {
            "timestamp" => Ok(Literal::Timestamp(ticks, unit)),
            "duration" => Ok(Literal::Duration(ticks, unit)),
            kind => Err(PyValueError::new_err(format!(
                "a literal is a \"timestamp\" or a \"duration\", not {kind:?}"
            ))),
        };
    }
    Err(PyTypeError::new_err(format!(
        "{} is neither a stream nor a value of a type that streams have",
        value.get_type().name()?
    )))
}

pub(super) fn operand(value: &Bound<'_, PyAny>) -> PyResult<Operand> {
    match value.extract::<Stream>() {
        Ok(stream) => Ok(Operand::Stream(stream.0)),
        Err(_) => Ok(Operand::Literal(literal(value)?)),
    }
}

pub(super) fn operands(columns: &Columns<'_>) -> PyResult<Vec<(String, Operand)>> {
    let columns = columns.iter();
    columns
        .map(|(name, value)| Ok((name.clone(), operand(value)?)))
        .collect()
}

pub(super) fn term(value: &Bound<'_, PyAny>) -> PyResult<Term> {
    match value.extract::<Value>() {
        Ok(value) => Ok(Term::Value(value.0)),
        Err(_) => Ok(Term::Literal(literal(value)?)),
    }
}

pub(crate) fn checked<T>(result: Result<T, BuildError>) -> PyResult<T> {
    result.map_err(|error| build_error(&error))
}
