//! Custom reducers: the loops of their functions.

use tilt_codegen::{
    lir::{Access, Lanes, Store},
    lower::{Lowering, Reads, register},
};
use tilt_ir::{DType, Edge, ExprId, Id, Lambda, Program, ReducerId, StreamId};

use super::{
    Body, By, ParamSource, Reduction, Result, Sink, Source, Term, Ty, Unsupported, Valid, ValueId,
};
use crate::rows::{CustomPlan, MergeLoops, StateLoop, StateSource};

/// What the body of a function reads beside its parameters: strings.
struct Constants<F>(F);

impl<F: FnMut(&mut Body, &str) -> Result<ValueId>> Reads for Constants<F> {
    fn time(&mut self, _: &mut Body) -> Result<ValueId> {
        Err(impure())
    }

    fn at(&mut self, _: &mut Body, _: StreamId, _: i64) -> Result<Term> {
        Err(impure())
    }

    fn hold(&mut self, _: &mut Body, _: StreamId, _: i64, _: Option<i64>) -> Result<Term> {
        Err(impure())
    }

    fn prev(&mut self, _: &mut Body, _: StreamId, _: u32) -> Result<Term> {
        Err(impure())
    }

    fn edge(&mut self, _: &mut Body, _: StreamId, _: i64, _: Edge) -> Result<Term> {
        Err(impure())
    }

    fn reduce(&mut self, _: &mut Body, _: ExprId) -> Result<Term> {
        Err(impure())
    }

    fn call(&mut self, _: &mut Body, _: ExprId, _: &[Term]) -> Result<Term> {
        Err(Unsupported("an external function in a reducer".into()))
    }

    fn text(&mut self, body: &mut Body, text: &str) -> Result<ValueId> {
        (self.0)(body, text)
    }
}

fn impure() -> Unsupported {
    Unsupported("a reducer that reads streams".into())
}

/// A state or a value as loops read it: its parts by name, or one without.
#[derive(Clone, Debug)]
struct Shape {
    fields: Vec<(String, Ty)>,
    is_record: bool,
}

impl Shape {
    fn of(dtype: &DType) -> Result<Self> {
        Ok(match dtype {
            DType::Record(fields) => Self {
                fields: fields
                    .iter()
                    .map(|f| Ok((f.name.clone(), register(&f.dtype)?)))
                    .collect::<Result<_>>()?,
                is_record: true,
            },
            dtype => Self {
                fields: vec![("value".to_owned(), register(dtype)?)],
                is_record: false,
            },
        })
    }

    /// The term of which `field` gives the parts.
    fn term(&self, mut field: impl FnMut(usize, &str, Ty) -> Term) -> Term {
        let mut fields = self
            .fields
            .iter()
            .enumerate()
            .map(|(i, (name, ty))| (name.clone(), field(i, name, *ty)));
        if self.is_record {
            return Term::Record {
                present: Valid::Always,
                fields: fields.collect(),
            };
        }
        let (_, only) = fields.next().expect("a scalar has one part");
        only
    }
}

/// A loop that makes a state, under construction.
struct StateBody<'p> {
    program: &'p Program,
    body: Body,
    sources: Vec<StateSource>,
    params: Vec<ParamSource>,
    nullable: bool,
    /// How states are read, and how many at once are made.
    by: By,
    lanes: Lanes,
}

impl<'p> StateBody<'p> {
    fn new(program: &'p Program, nullable: bool) -> Self {
        Self {
            program,
            body: Body::default(),
            sources: Vec::new(),
            params: Vec::new(),
            nullable,
            by: By::Row,
            lanes: Lanes::Eight,
        }
    }

    fn read(&mut self, source: StateSource, name: &str, ty: Ty, nullable: bool) -> Term {
        self.sources.push(source);
        let access = self.body.access(Access {
            name: name.to_owned(),
            ty,
            by: self.by,
            nullable,
        });
        Term::Scalar {
            value: self.body.load(access),
            valid: self.body.valid(access),
        }
    }

    fn state(&mut self, shape: &Shape, source: fn(usize) -> StateSource) -> Term {
        let nullable = self.nullable;
        shape.term(|i, name, ty| self.read(source(i), name, ty, nullable))
    }

    /// The finished loop, or `None` if the state may have a part that is φ and must not.
    fn finish(
        mut self,
        name: &str,
        lambda: Option<&Lambda>,
        expr: ExprId,
        args: Vec<Term>,
        loops: &mut Vec<tilt_codegen::lir::Loop>,
    ) -> Result<Option<StateLoop>> {
        let params = &mut self.params;
        let text = |body: &mut Body, text: &str| {
            let source = ParamSource::Text(text.to_owned());
            let known = params.iter().position(|p| *p == source);
            let index = known.unwrap_or_else(|| {
                params.push(source);
                body.param(text, Ty::U32);
                params.len() - 1
            });
            Ok(body.given(Id::new(index)))
        };
        let mut lowering = Lowering::new(self.program, Constants(text));
        for (var, arg) in lambda.into_iter().flat_map(|l| &l.params).zip(args) {
            lowering.bind(*var, arg);
        }
        let parts = match lowering.lower(&mut self.body, expr)? {
            Term::Record {
                present: Valid::Always,
                fields,
            } => fields.into_iter().map(|(_, term)| term).collect(),
            Term::Record { .. } => {
                return Err(Unsupported("a reducer whose state may be φ".into()));
            }
            scalar @ Term::Scalar { .. } => vec![scalar],
        };
        let mut columns = Vec::new();
        for part in parts {
            let Term::Scalar { value, valid } = part else {
                return Err(Unsupported("a record in a record".into()));
            };
            if valid != Valid::Always && !self.nullable {
                return Ok(None);
            }
            let valid = self.nullable.then(|| self.body.truth(valid));
            columns.push(Store { value, valid });
        }
        let sink = Sink::Store {
            columns,
            streaming: false,
        };
        let finished = self.body.finish(name, self.lanes, sink);
        loops.push(finished.body);
        Ok(Some(StateLoop {
            number: loops.len() - 1,
            sources: finished
                .accesses
                .iter()
                .map(|a| self.sources[a.index()])
                .collect(),
            params: finished
                .params
                .iter()
                .map(|p| self.params[p.index()].clone())
                .collect(),
        }))
    }
}

impl Reduction<'_, '_, '_> {
    /// The loops of a custom reducer.
    pub(super) fn custom_plan(&mut self, id: ReducerId) -> Result<CustomPlan> {
        for nullable in [false, true] {
            let loops = self.reads.planner.loops.len();
            if let Some(plan) = self.custom_loops(id, nullable)? {
                return Ok(plan);
            }
            self.reads.planner.loops.truncate(loops);
        }
        Err(Unsupported("a reducer without a state".into()))
    }

    fn custom_loops(&mut self, id: ReducerId, nullable: bool) -> Result<Option<CustomPlan>> {
        let program = self.reads.planner.program;
        let loops = &mut self.reads.planner.loops;
        let reducer = &program.reducers[id];
        let (state, input) = (Shape::of(&reducer.state)?, Shape::of(&reducer.input)?);
        let name = |part: &str| format!("@{} {part}", reducer.name);
        let init = StateBody::new(program, nullable);
        let Some(init) = init.finish(&name("init"), None, reducer.init, Vec::new(), loops)? else {
            return Ok(None);
        };
        // Of a contribution only the parts of a record may be φ.
        let parts_nullable = input.is_record;
        let mut stepping = |what: &str, lambda: &Lambda| {
            let mut step = StateBody::new(program, nullable);
            let older = step.state(&state, StateSource::Older);
            let value = input
                .term(|i, name, ty| step.read(StateSource::Value(i), name, ty, parts_nullable));
            let start = step.read(StateSource::Start, "start", Ty::I64, false);
            let end = step.read(StateSource::End, "end", Ty::I64, false);
            let args = vec![older, value, start, end];
            step.finish(&name(what), Some(lambda), lambda.body, args, loops)
        };
        let Some(acc) = stepping("acc", &reducer.acc)? else {
            return Ok(None);
        };
        // Integers wrap, so what was added can be taken out exactly; floats drift.
        let is_exact = !nullable && state.fields.iter().all(|(_, ty)| !ty.is_float());
        let deacc = match &reducer.deacc {
            Some(lambda) if is_exact => stepping("deacc", lambda)?,
            _ => None,
        };
        let mut merging = |what: &str, by: By, lanes: Lanes| {
            let Some(lambda) = &reducer.merge else {
                return Ok(None);
            };
            let mut merge = StateBody {
                by,
                lanes,
                ..StateBody::new(program, nullable)
            };
            let older = merge.state(&state, StateSource::Older);
            let newer = merge.state(&state, StateSource::Newer);
            let args = vec![older, newer];
            merge.finish(&name(what), Some(lambda), lambda.body, args, loops)
        };
        let merge = merging("merge", By::Row, Lanes::Eight)?;
        if merge.is_none() && reducer.merge.is_some() {
            return Ok(None);
        }
        let is_plain = !nullable && state.fields.iter().all(|(_, ty)| *ty != Ty::Bool);
        let shared = if is_plain {
            let apart = merging("merge many", By::Index, Lanes::Eight)?;
            let chained = merging("merge chain", By::Index, Lanes::One)?;
            let both = apart.zip(chained);
            both.map(|(apart, chained)| MergeLoops { apart, chained })
        } else {
            None
        };
        Ok(Some(CustomPlan {
            fields: state.fields.iter().map(|(_, ty)| *ty).collect(),
            nullable,
            init,
            acc,
            merge,
            shared,
            deacc,
        }))
    }

    /// The result of a custom reducer, from the states that `window` gives.
    pub(super) fn custom_result(&mut self, id: ReducerId, window: usize) -> Result<Term> {
        let program = self.reads.planner.program;
        let reducer = &program.reducers[id];
        let shape = Shape::of(&reducer.state)?;
        let count = shape.fields.len();
        let mut column = |column: usize, name: &str, ty: Ty| {
            let source = Source::Window { window, column };
            let access = self
                .reads
                .access(self.body, source, name, ty, By::Row, true);
            Term::Scalar {
                value: self.body.load(access),
                valid: self.body.valid(access),
            }
        };
        let found = column(count, "found", Ty::Bool).valid();
        let state = shape.term(&mut column);
        let reads = &mut *self.reads;
        let mut lowering = Lowering::new(
            program,
            Constants(|body: &mut Body, text: &str| reads.text(body, text)),
        );
        for var in &reducer.result.params {
            lowering.bind(*var, state.clone());
        }
        let result = lowering.lower(self.body, reducer.result.body)?;
        Ok(match result {
            Term::Scalar { value, valid } => Term::Scalar {
                value,
                valid: self.body.both(found, valid),
            },
            Term::Record { present, fields } => Term::Record {
                present: self.body.both(found, present),
                fields,
            },
        })
    }
}
