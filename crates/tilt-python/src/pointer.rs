//! Native functions that queries call as `@name(…)`: an address and what is passed there.

use pyo3::{exceptions::PyValueError, prelude::*};
use tilt::interp::Value;

/// A C function of at most four numbers.
#[pyclass(frozen, module = "tilt._native")]
#[derive(Clone)]
pub(crate) struct Pointer {
    address: usize,
    args: Vec<Kind>,
    result: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Float,
    Int,
    Bool,
}

/// An argument as C takes it.
#[derive(Clone, Copy)]
enum Number {
    Float(f64),
    Int(i64),
}

#[pymethods]
impl Pointer {
    /// `args` and `result` are `f64`, `i64` or `bool`; an argument that is a bool is passed as a 64-bit 0 or 1.
    #[new]
    fn new(address: usize, args: Vec<String>, result: &str) -> PyResult<Self> {
        if address == 0 || args.len() > 4 {
            return Err(PyValueError::new_err(
                "a native function has an address and at most four arguments",
            ));
        }
        Ok(Self {
            address,
            args: args.iter().map(|arg| kind(arg)).collect::<PyResult<_>>()?,
            result: kind(result)?,
        })
    }
}

fn kind(name: &str) -> PyResult<Kind> {
    match name {
        "f64" => Ok(Kind::Float),
        "i64" => Ok(Kind::Int),
        "bool" => Ok(Kind::Bool),
        other => Err(PyValueError::new_err(format!(
            "native functions take and give f64, i64 and bool, not {other}"
        ))),
    }
}

/// Calls the function at an address: looks at one argument after the other, and so finds the type that the function has.
macro_rules! invoke {
    (now $address:expr, $result:ty, [$($types:ty),*], [$($values:expr),*]) => {{
        // SAFETY: whoever made the pointer promises that a function of this type is at the address.
        let function: extern "C" fn($($types),*) -> $result = unsafe { std::mem::transmute($address) };
        function($($values),*)
    }};
    ($address:expr, $result:ty, $args:expr, [$($types:ty),*], [$($values:expr),*], [$first:ident $($more:ident)*]) => {
        match $args.split_first() {
            None => invoke!(now $address, $result, [$($types),*], [$($values),*]),
            Some((Number::Float($first), args)) => {
                invoke!($address, $result, args, [$($types,)* f64], [$($values,)* *$first], [$($more)*])
            }
            Some((Number::Int($first), args)) => {
                invoke!($address, $result, args, [$($types,)* i64], [$($values,)* *$first], [$($more)*])
            }
        }
    };
    ($address:expr, $result:ty, $args:expr, [$($types:ty),*], [$($values:expr),*], []) => {{
        debug_assert!($args.is_empty(), "at most four arguments");
        invoke!(now $address, $result, [$($types),*], [$($values),*])
    }};
}

impl Pointer {
    /// The result for arguments that are not φ.
    pub(crate) fn call(&self, values: &[Value]) -> Value {
        let mut numbers = Vec::with_capacity(4);
        for (value, kind) in values.iter().zip(&self.args) {
            numbers.push(match (kind, value) {
                (Kind::Float, Value::Float(value)) => Number::Float(*value),
                (Kind::Int, Value::Int(value)) => Number::Int(*value),
                (Kind::Bool, Value::Bool(value)) => Number::Int(i64::from(*value)),
                // The program declares other types than the function has; φ says nothing wrong.
                _ => return Value::Null,
            });
        }
        if numbers.len() != self.args.len() {
            return Value::Null;
        }
        let args = numbers.as_slice();
        match self.result {
            Kind::Float => Value::Float(invoke!(self.address, f64, args, [], [], [a b c d])),
            Kind::Int => Value::Int(invoke!(self.address, i64, args, [], [], [a b c d])),
            Kind::Bool => Value::Bool(invoke!(self.address, u8, args, [], [], [a b c d]) != 0),
        }
    }
}
