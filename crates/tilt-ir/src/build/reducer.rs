//! Reductions of one's own: functions over scalar values, traced once into a reducer of the IR.

use std::sync::Arc;

use super::{
    draft::Draft,
    error::{BuildError, Checked, Problem},
    literal::Literal,
    operators::{self, Arg},
    rescale::rescaled,
    value::{Term, Trace, Value},
};
use crate::{
    expr::Expr,
    ids::{ExprId, ReducerId},
    program::{self, Lambda, Program},
    time::Unit,
    types::{DType, Field},
};

/// A user-defined reduction of values of one type.
///
/// ```
/// # use tilt_ir::{DType, Input, Unit, build::{Reducer, Stream}};
/// let price = Stream::input(Input::point("price", DType::F64, Unit::Second));
/// let geometric = Reducer::new("geometric", &DType::F64, Unit::Second, [("s", 0.0.into()), ("n", 0.into())])
///     .acc(|state, value, _, _| vec![("s", state.field("s") + value.log()), ("n", state.field("n") + 1)])
///     .merge(|a, b| vec![("s", a.field("s") + b.field("s")), ("n", a.field("n") + b.field("n"))])
///     .result(|state| (state.field("s") / state.field("n")).exp());
/// let mean = price.window("1h").reduce_with(&geometric);
/// assert_eq!(mean.dtype()?, &DType::F64);
/// # Ok::<(), tilt_ir::build::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reducer {
    name: String,
    input: DType,
    trace: Trace,
    state: DType,
    init: Result<ExprId, Arc<BuildError>>,
    acc: Option<Function>,
    merge: Option<Function>,
    deacc: Option<Function>,
    result: Option<Function>,
}

/// The functions a reducer is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `(state, value, start, end) -> state`.
    Acc,
    /// `(state, state) -> state`.
    Merge,
    /// `(state, value, start, end) -> state`, which takes the oldest event away.
    Deacc,
    /// `(state) -> value`.
    Result,
}

type Function = Result<Lambda, Arc<BuildError>>;

impl Reducer {
    /// A reduction of values of type `input` in queries of a unit, with the fields of its state and what they are before the first
    /// event.
    pub fn new<'a>(
        name: &str,
        input: &DType,
        unit: Unit,
        init: impl IntoIterator<Item = (&'a str, Literal)>,
    ) -> Self {
        let trace = Trace::new(unit);
        let init: Vec<(&str, Literal)> = init.into_iter().collect();
        let fields = init.iter().map(|(field, literal)| Field {
            name: (*field).to_owned(),
            dtype: literal.dtype(None),
        });
        let state = DType::Record(fields.collect());
        let terms: Vec<Term> = init
            .iter()
            .map(|row| Term::Literal(row.1.clone()))
            .collect();
        let record = trace.apply("init", &terms, |program, args| {
            let mut fields = Vec::with_capacity(args.len());
            for ((field, _), arg) in init.iter().zip(args) {
                fields.push(((*field).to_owned(), operators::settled(program, arg)?));
            }
            Ok(program.add(Expr::Record(fields))?)
        });
        Self {
            name: name.to_owned(),
            input: input.clone(),
            trace,
            state,
            init: record.id,
            acc: None,
            merge: None,
            deacc: None,
            result: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds an event: its value, start and end, clipped to the window.
    #[must_use]
    pub fn acc<'a>(
        self,
        f: impl FnOnce(&Value, &Value, &Value, &Value) -> Vec<(&'a str, Value)>,
    ) -> Self {
        self.traced_event(Part::Acc, f)
    }

    /// Combines the states of earlier and later events.
    #[must_use]
    pub fn merge<'a>(mut self, f: impl FnOnce(&Value, &Value) -> Vec<(&'a str, Value)>) -> Self {
        let params = self.params(Part::Merge);
        let fields = f(&params[0], &params[1]);
        let fields = fields.into_iter().map(|(n, v)| (n.to_owned(), v.into()));
        self.define(Part::Merge, &params, fields.collect());
        self
    }

    /// Takes the oldest event away again.
    #[must_use]
    pub fn deacc<'a>(
        self,
        f: impl FnOnce(&Value, &Value, &Value, &Value) -> Vec<(&'a str, Value)>,
    ) -> Self {
        self.traced_event(Part::Deacc, f)
    }

    fn traced_event<'a>(
        mut self,
        part: Part,
        f: impl FnOnce(&Value, &Value, &Value, &Value) -> Vec<(&'a str, Value)>,
    ) -> Self {
        let params = self.params(part);
        let fields = f(&params[0], &params[1], &params[2], &params[3]);
        let fields = fields.into_iter().map(|(n, v)| (n.to_owned(), v.into()));
        self.define(part, &params, fields.collect());
        self
    }

    /// The result of a state.
    #[must_use]
    pub fn result(mut self, f: impl FnOnce(&Value) -> Value) -> Self {
        let params = self.params(Part::Result);
        let value = f(&params[0]);
        self.define_result(&params, value.into());
        self
    }

    /// New parameters of a function, to compute with.
    pub fn params(&self, part: Part) -> Vec<Value> {
        let mut program = self.trace.lock();
        let instant = DType::Timestamp(program.unit);
        let event = || {
            vec![
                ("state", self.state.clone()),
                ("value", self.input.clone()),
                ("start", instant.clone()),
                ("end", instant.clone()),
            ]
        };
        let params = match part {
            Part::Acc | Part::Deacc => event(),
            Part::Merge => vec![("a", self.state.clone()), ("b", self.state.clone())],
            Part::Result => vec![("state", self.state.clone())],
        };
        params
            .into_iter()
            .map(|(name, dtype)| {
                let var = program.var(name, dtype);
                let id = program
                    .add(Expr::Var(var))
                    .map_err(|error| Arc::new(Problem::from(error).of("reducer", Vec::new())));
                Value {
                    trace: self.trace.clone(),
                    id,
                }
            })
            .collect()
    }

    /// Makes the fields of the new state, computed from `params`, the body of a function. Fields that are left out stay as they are
    /// in the first parameter.
    pub fn define(&mut self, part: Part, params: &[Value], fields: Vec<(String, Term)>) {
        let operation = match part {
            Part::Acc => "acc",
            Part::Merge => "merge",
            Part::Deacc => "deacc",
            Part::Result => "result",
        };
        let DType::Record(state) = &self.state else {
            return;
        };
        let names: Vec<String> = fields.iter().map(|field| field.0.clone()).collect();
        let mut terms: Vec<Term> = fields.into_iter().map(|field| field.1).collect();
        terms.extend(params.first().cloned().map(Term::Value));
        let body = self.trace.apply(operation, &terms, |program, args| {
            let unknown = names.iter().find(|n| !state.iter().any(|f| f.name == **n));
            if let Some(name) = unknown {
                return Err(Problem::types(format!("the state has no field `{name}`"))
                    .hint("`init` lists the fields of the state"));
            }
            let mut record = Vec::with_capacity(state.len());
            for field in state {
                let given = names.iter().position(|name| *name == field.name);
                let value = if let Some(index) = given {
                    state_value(program, field, &args[index])?
                } else {
                    let old = operators::settled(program, &args[args.len() - 1])?;
                    program.add(Expr::Field(old, field.name.clone()))?
                };
                record.push((field.name.clone(), value));
            }
            Ok(program.add(Expr::Record(record))?)
        });
        let lambda = self.lambda(params, &body);
        match part {
            Part::Acc => self.acc = Some(lambda),
            Part::Merge => self.merge = Some(lambda),
            Part::Deacc => self.deacc = Some(lambda),
            Part::Result => self.result = Some(lambda),
        }
    }

    /// Makes a value computed from `params` the result.
    pub fn define_result(&mut self, params: &[Value], value: Term) {
        let body = self.trace.apply("result", &[value], |program, args| {
            operators::settled(program, &args[0])
        });
        self.result = Some(self.lambda(params, &body));
    }

    fn lambda(&self, params: &[Value], body: &Value) -> Function {
        let program = self.trace.lock();
        let mut vars = Vec::with_capacity(params.len());
        for param in params {
            if let Expr::Var(var) = program.expr(param.id.clone()?) {
                vars.push(*var);
            }
        }
        Ok(Lambda {
            params: vars,
            body: body.id.clone()?,
        })
    }

    /// The reducer in the program of a draft, where it is applied to values of type `value`.
    pub(super) fn import_into(&self, draft: &mut Draft, value: &DType) -> Checked<ReducerId> {
        let (program, id) = self.finished()?;
        if *value != self.input {
            return Err(Problem::types(format!(
                "`@{}` folds {}, not {value}",
                self.name, self.input
            ))
            .hint("`cast` the values, or make a reducer for them"));
        }
        if program.unit == draft.unit() {
            return Ok(draft.reducer(&program, id));
        }
        Ok(draft.reducer(&rescaled(&program, draft.unit())?, id))
    }

    fn finished(&self) -> Checked<(Program, ReducerId)> {
        let missing = |part: &str| Problem::parameter(format!("`@{}` has no `{part}`", self.name));
        let done = |function: &Function| match function {
            Ok(lambda) => Ok(lambda.clone()),
            Err(error) => Err(carried(error)),
        };
        let reducer = program::Reducer {
            name: self.name.clone(),
            input: self.input.clone(),
            state: self.state.clone(),
            init: self.init.clone().map_err(|error| carried(&error))?,
            acc: done(self.acc.as_ref().ok_or_else(|| missing("acc"))?)?,
            merge: self.merge.as_ref().map(done).transpose()?,
            deacc: self.deacc.as_ref().map(done).transpose()?,
            result: done(self.result.as_ref().ok_or_else(|| missing("result"))?)?,
        };
        let mut program = self.trace.lock().clone();
        let id = program.reducers.push(reducer);
        Ok((program, id))
    }

    /// What is wrong with one of its functions.
    pub fn error_in(&self, part: Part) -> Option<BuildError> {
        let function = match part {
            Part::Acc => &self.acc,
            Part::Merge => &self.merge,
            Part::Deacc => &self.deacc,
            Part::Result => &self.result,
        };
        let error = function.as_ref()?.as_ref().err()?;
        Some(error.as_ref().clone())
    }
}

/// An error of a function, as a problem of the reduction.
fn carried(error: &BuildError) -> Problem {
    let problem = Problem::new(
        error.kind,
        format!("in `{}`: {}", error.operation, error.problem),
    );
    match &error.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// A value of a state's field: the state keeps the types that `init` gave it.
fn state_value(program: &mut Program, field: &Field, arg: &Arg) -> Checked<ExprId> {
    if let Arg::Expr(id) = arg {
        let found = program.dtype(*id);
        let widened = operators::supertype(found, &field.dtype);
        if widened.as_ref() != Some(&field.dtype) {
            return Err(Problem::types(format!(
                "the field `{}` of the state is {}, but is set to {found}",
                field.name, field.dtype
            ))
            .hint(
                "give `init` a value of the wider type, for example 0.0 instead of 0, or `cast`",
            ));
        }
    }
    operators::converted(program, arg, &field.dtype)
}
