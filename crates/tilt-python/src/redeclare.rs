//! Inputs declared otherwise: under another name, with a key, with more or fewer columns.

use pyo3::{exceptions::PyValueError, prelude::*};
use tilt::{
    build,
    ir::{self, DType, Expr, Field, Program, SpanRule},
};

use crate::{
    errors::build_error,
    guard::guarded,
    stream::{Stream, checked},
};

/// The query with `input` replaced by the input that `declaration` is.
#[pyfunction]
pub(crate) fn redeclare(
    py: Python<'_>,
    query: &Stream,
    input: &str,
    declaration: &Stream,
) -> PyResult<Stream> {
    let mut program = checked(query.0.program("query"))?;
    let declared = checked(declaration.0.program("query"))?;
    let Some(new) = declared.streams[declared.output].as_input() else {
        return Err(PyValueError::new_err("the declaration is not an input"));
    };
    let old = program.inputs().find(|(_, old)| old.name == input);
    let Some((id, _)) = old else {
        return Err(PyValueError::new_err(format!("there is no input {input}")));
    };
    program.streams[id] = ir::Stream::Input(new.clone());
    // Reading the text again types everything that reads the input anew.
    let stream = guarded(py, || build::Stream::parse(&program.to_string()))?;
    match stream.error() {
        Some(error) => Err(build_error(error)),
        None => Ok(Stream(stream)),
    }
}

/// The query without columns of its inputs that nothing reads. A column that no expression and no type of the result names cannot matter.
pub(crate) fn pruned(program: &Program) -> Program {
    let mut named: Vec<&str> = Vec::new();
    names(program.stream_dtype(program.output), &mut named);
    for (_, node) in program.exprs.iter() {
        if let Expr::Field(_, name) = &node.expr {
            named.push(name);
        }
    }
    let mut narrow = program.clone();
    for (id, input) in program.inputs() {
        let DType::Record(fields) = &input.dtype else {
            continue;
        };
        let is_read = |field: &&Field| {
            named.contains(&field.name.as_str()) || input.key.as_ref() == Some(&field.name)
        };
        let mut kept: Vec<Field> = fields.iter().filter(is_read).cloned().collect();
        if kept.is_empty() {
            // Events are counted by a column, whichever it is.
            kept.extend(fields.first().cloned());
        }
        let mut input = input.clone();
        input.dtype = DType::Record(kept);
        narrow.streams[id] = ir::Stream::Input(input);
    }
    let parsed = ir::parse(&narrow.to_string()).ok();
    let same = |parsed: &Program| {
        parsed.stream_dtype(parsed.output) == program.stream_dtype(program.output)
            && ir::verify(parsed).is_ok()
    };
    parsed.filter(same).unwrap_or_else(|| program.clone())
}

/// The names of all columns in a type.
fn names<'a>(dtype: &'a DType, into: &mut Vec<&'a str>) {
    match dtype {
        DType::Record(fields) => {
            for field in fields {
                into.push(&field.name);
                names(&field.dtype, into);
            }
        }
        DType::List(item) => names(item, into),
        _ => {}
    }
}

/// What the events of a query's result look like as rows of an input: `point`, `fixed <ticks>` or `interval`, and whether several may be active at once.
#[pyfunction]
pub(crate) fn events(query: &Stream) -> PyResult<(String, bool)> {
    let program = checked(query.0.program("query"))?;
    let timelines = ir::Timelines::new(&program);
    let timeline = timelines.of(program.output);
    let text = match span(&program, &timelines, timeline) {
        Some(SpanRule::Point) => "point".to_owned(),
        Some(SpanRule::Fixed(ticks)) => format!("fixed {ticks}"),
        _ => "interval".to_owned(),
    };
    Ok((text, timelines.is_bag(timeline)))
}

/// What gives the events of a timeline their starts, if it is known. Events that were only moved are as long as before.
fn span(program: &Program, timelines: &ir::Timelines, timeline: ir::Timeline) -> Option<SpanRule> {
    match timeline {
        ir::Timeline::Input(id) => program.streams[id].as_input().map(|input| input.span),
        ir::Timeline::Grid { period, .. } => Some(SpanRule::Fixed(period)),
        ir::Timeline::Own(id) => match &program.streams[id].as_temporal()?.clock {
            ir::Clock::OnChange(sources) => match sources.as_slice() {
                [ir::Source::Value { stream, .. }] => {
                    span(program, timelines, timelines.of(*stream))
                }
                _ => None,
            },
            _ => None,
        },
    }
}
