//! The verifier: what every program must satisfy before anything evaluates, analyses or rewrites it.
//!
//! | rule | invariant |
//! |---|---|
//! | [`Rule::Ids`] | every id names an entity of the program; an operand's id is less than its user's, so expressions are acyclic |
//! | [`Rule::Depth`] | no expression is nested deeper than [`MAX_DEPTH`] |
//! | [`Rule::Size`] | written out as a tree, no body has more than [`MAX_NODES`] nodes: what is shared is bound by `let` |
//! | [`Rule::Names`] | streams, functions and reducers have names of their own kind that are not empty and not used twice |
//! | [`Rule::Types`] | a node's type is the one its operands give; a temporal expression's type is its body's |
//! | [`Rule::Order`] | a temporal expression reads streams defined before it, or itself |
//! | [`Rule::Recurrence`] | a stream reads itself strictly in the past, and neither its clock nor a map reads it |
//! | [`Rule::Scope`] | a variable is read only inside the `let` or the parameter list that binds it, and is bound once on the way |
//! | [`Rule::Window`] | a window's lower bound is below its upper bound |
//! | [`Rule::Clock`] | a period is positive, an `on` clock has sources and none of them twice, a calendar has a zone, a length and a unit of seconds |
//! | [`Rule::Instant`] | offsets, bounds, ages, periods and spans are within ±2^62 ticks; ages and spans are positive |
//! | [`Rule::Agg`] | a quantile lies in `[0, 1]`, a smoothing factor in `(0, 1]`, `k` is at least one |
//! | [`Rule::Input`] | an input has a type that data can have, a unit that converts to the query's, and a key that is a scalar field of its record |
//! | [`Rule::Reducer`] | a reducer's bodies read only their parameters and have the types `state`, `state`, `state` and any; the state is a record |
//! | [`Rule::Output`] | the output names a stream |
//!
//! All violations are collected. A program that comes from the parser or from Python breaks none of the rules that say
//! "id" or "type"; a pass that breaks any has a bug.

use std::fmt;

use rustc_hash::FxHashSet as HashSet;

use crate::{
    expr::{Agg, Bounds, Expr},
    ids::{ExprId, Id, StreamId, VarId},
    program::{Clock, Input, Lambda, Program, Reducer, Source, SpanRule, Stream, Temporal},
    time::Unit,
    types::DType,
};

/// How deep expressions may nest, so that recursive walks fit any stack.
pub const MAX_DEPTH: usize = 256;

/// How many nodes a body may have when every shared node is written out, so that walks that do not remember what they saw, and
/// the text itself, stay short.
pub const MAX_NODES: usize = 1 << 18;

/// The largest offset, bound, age or period in ticks.
pub(crate) const MAX_TICKS: i64 = 1 << 62;

/// The invariants; the module's table says what each one means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Rule {
    Ids,
    Depth,
    Size,
    Names,
    Types,
    Order,
    Recurrence,
    Scope,
    Window,
    Clock,
    Instant,
    Agg,
    Input,
    Reducer,
    Output,
}

/// One violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The invariant that is broken.
    pub rule: Rule,
    /// The stream or reducer it happened in, as written.
    pub place: String,
    /// The offending expression's text, if there is one.
    pub expr: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {}: {}", self.place, self.message)?;
        if let Some(expr) = &self.expr {
            write!(f, "\n    {expr}")?;
        }
        Ok(())
    }
}

/// All violations of a program, never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct VerifyError(pub Vec<Violation>);

/// Checks all invariants.
///
/// # Errors
/// All violations, in order of definition.
///
/// ```
/// let program = tilt_ir::parse("query q unit s { input ~x: f64 point ~y[t] = ~x[t-1s] output ~y }")?;
/// tilt_ir::verify(&program)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(program: &Program) -> Result<(), VerifyError> {
    let mut verifier = Verifier {
        program,
        violations: Vec::new(),
        place: String::new(),
    };
    verifier.ids();
    // Everything after this follows ids without asking.
    if verifier.violations.is_empty() {
        verifier.names();
        verifier.types();
        for (id, stream) in program.streams.iter() {
            verifier.place = format!("~{}", stream.name());
            match stream {
                Stream::Input(input) => verifier.input(input),
                Stream::Temporal(temporal) => verifier.temporal(id, temporal),
            }
        }
        for (_, reducer) in program.reducers.iter() {
            verifier.place = format!("reducer {}", reducer.name);
            verifier.reducer(reducer);
        }
    }
    if verifier.violations.is_empty() {
        Ok(())
    } else {
        Err(VerifyError(verifier.violations))
    }
}

struct Verifier<'a> {
    program: &'a Program,
    violations: Vec<Violation>,
    place: String,
}

impl<'a> Verifier<'a> {
    fn report(&mut self, rule: Rule, message: impl Into<String>) {
        self.violations.push(Violation {
            rule,
            place: self.place.clone(),
            expr: None,
            message: message.into(),
        });
    }

    fn report_at(&mut self, rule: Rule, expr: ExprId, message: impl Into<String>) {
        let expr = Some(self.program.expr_text(expr));
        self.report(rule, message);
        if let Some(violation) = self.violations.last_mut() {
            violation.expr = expr;
        }
    }

    /// Adds the text of `id` to what was reported about it after the first `before` violations.
    fn show(&mut self, id: ExprId, before: usize) {
        for violation in &mut self.violations[before..] {
            violation.expr = Some(self.program.expr_text(id));
        }
    }

    fn ids(&mut self) {
        let program = self.program;
        self.place = String::from("the program");
        if !program.streams.contains(program.output) {
            self.report(Rule::Output, "the output names no stream");
        }
        let mut depth = vec![0usize; program.exprs.len()];
        let mut size = vec![1usize; program.exprs.len()];
        for (id, node) in program.exprs.iter() {
            let expr = &node.expr;
            let mut operands_ok = true;
            expr.for_each_operand(|operand| {
                if operand.index() < id.index() {
                    depth[id.index()] = depth[id.index()].max(depth[operand.index()] + 1);
                    size[id.index()] = size[id.index()].saturating_add(size[operand.index()]);
                } else {
                    operands_ok = false;
                }
            });
            let others_ok = expr.stream().is_none_or(|s| program.streams.contains(s))
                && match expr {
                    Expr::Var(var) | Expr::Let { var, .. } => program.vars.contains(*var),
                    Expr::Call { func, .. } => program.functions.contains(*func),
                    Expr::Reduce {
                        agg: Agg::Custom(reducer),
                        ..
                    } => program.reducers.contains(*reducer),
                    _ => true,
                };
            if !operands_ok {
                self.report(
                    Rule::Ids,
                    format!("{id:?} has an operand that is not defined before it"),
                );
            }
            if !others_ok {
                self.report(
                    Rule::Ids,
                    format!("{id:?} names something that does not exist"),
                );
            }
            if depth[id.index()] == MAX_DEPTH {
                self.report(
                    Rule::Depth,
                    format!(
                        "an expression is nested deeper than {MAX_DEPTH}; define parts of it as streams of their own"
                    ),
                );
            }
        }
        for (_, stream) in program.streams.iter() {
            let Stream::Temporal(temporal) = stream else {
                continue;
            };
            self.place = format!("~{}", temporal.name);
            let mut streams = temporal.clock.streams().into_iter();
            if streams.any(|stream| !program.streams.contains(stream)) {
                self.report(Rule::Ids, "the clock names a stream that does not exist");
            }
            if !program.exprs.contains(temporal.body) {
                self.report(Rule::Ids, "the body names no expression");
            } else if size[temporal.body.index()] > MAX_NODES {
                self.report(
                    Rule::Size,
                    format!("written out, the body has more than {MAX_NODES} nodes; bind what it shares with `let`"),
                );
            }
        }
        for (_, reducer) in program.reducers.iter() {
            self.place = format!("reducer {}", reducer.name);
            let ok = program.exprs.contains(reducer.init)
                && reducer_lambdas(reducer).all(|lambda| {
                    program.exprs.contains(lambda.body)
                        && lambda.params.iter().all(|v| program.vars.contains(*v))
                });
            if !ok {
                self.report(Rule::Ids, "a body or parameter does not exist");
                continue;
            }
            let bodies = reducer_lambdas(reducer).map(|lambda| lambda.body);
            if bodies
                .chain([reducer.init])
                .any(|body| size[body.index()] > MAX_NODES)
            {
                self.report(
                    Rule::Size,
                    format!("written out, a body has more than {MAX_NODES} nodes; bind what it shares with `let`"),
                );
            }
        }
    }

    fn names(&mut self) {
        let program = self.program;
        self.place = String::from("the program");
        let kinds: [(&str, Vec<&str>); 3] = [
            (
                "stream",
                program.streams.iter().map(|(_, s)| s.name()).collect(),
            ),
            (
                "function",
                program
                    .functions
                    .iter()
                    .map(|(_, f)| f.name.as_str())
                    .collect(),
            ),
            (
                "reducer",
                program
                    .reducers
                    .iter()
                    .map(|(_, r)| r.name.as_str())
                    .collect(),
            ),
        ];
        for (kind, names) in kinds {
            let mut seen = HashSet::default();
            for name in names {
                if name.is_empty() {
                    self.report(Rule::Names, format!("a {kind} has no name"));
                } else if !seen.insert(name) {
                    self.report(
                        Rule::Names,
                        format!("two {kind}s are called `{name}`; rename one"),
                    );
                }
            }
        }
    }

    fn types(&mut self) {
        let program = self.program;
        self.place = String::from("the program");
        for (id, node) in program.exprs.iter() {
            match program.type_of(&node.expr) {
                Ok(dtype) if dtype == node.dtype => {}
                Ok(dtype) => self.report_at(
                    Rule::Types,
                    id,
                    format!("the node says {} but its operands give {dtype}", node.dtype),
                ),
                Err(error) => self.report_at(Rule::Types, id, error.to_string()),
            }
        }
        for (_, temporal) in program.temporals() {
            let body = program.dtype(temporal.body);
            if *body != temporal.dtype {
                self.place = format!("~{}", temporal.name);
                self.report_at(
                    Rule::Types,
                    temporal.body,
                    format!(
                        "the stream is declared {} but its body is {body}",
                        temporal.dtype
                    ),
                );
            }
        }
    }

    fn input(&mut self, input: &Input) {
        let query = self.program.unit;
        if (input.unit == Unit::Tick) != (query == Unit::Tick) {
            self.report(
                Rule::Input,
                format!(
                    "its unit {} does not convert to the query's unit {query}",
                    input.unit
                ),
            );
        }
        if !can_be_data(&input.dtype) {
            self.report(
                Rule::Input,
                format!(
                    "{} cannot be an input; use a scalar or a record of scalars with different names",
                    input.dtype
                ),
            );
        }
        if let Some(key) = &input.key
            && !input.dtype.field(key).is_some_and(DType::is_scalar)
        {
            self.report(
                Rule::Input,
                format!("the key `{key}` is not a scalar field of {}", input.dtype),
            );
        }
        if let SpanRule::Fixed(d) = input.span {
            self.positive("the span", d);
        }
        if let Some(period) = input.period {
            self.positive("the period", period);
        }
    }

    fn temporal(&mut self, id: StreamId, temporal: &Temporal) {
        self.clock(id, &temporal.clock);
        let mut scope = Vec::new();
        self.expr(
            temporal.body,
            Some(id),
            false,
            &mut scope,
            &mut HashSet::default(),
        );
    }

    fn clock(&mut self, id: StreamId, clock: &Clock) {
        match clock {
            Clock::At(stream) => self.clock_stream(id, *stream),
            Clock::Every { period, offset } => {
                if *period <= 0 {
                    self.report(Rule::Clock, format!("the period {period} is not positive"));
                }
                self.instant("the period", *period);
                self.instant("the offset", *offset);
            }
            Clock::Calendar(calendar) => {
                if calendar.count == 0 {
                    self.report(Rule::Clock, "a cell of a calendar has at least one unit");
                }
                self.instant("the offset", calendar.offset);
                if let Err(error) = calendar.cells(self.program.unit) {
                    self.report(Rule::Clock, error.to_string());
                }
            }
            Clock::Sessions { stream, gap, max } => {
                self.clock_stream(id, *stream);
                self.positive("the gap", *gap);
                if let Some(max) = max {
                    self.positive("the longest session", *max);
                }
            }
            Clock::OnChange(sources) => {
                if sources.is_empty() {
                    self.report(Rule::Clock, "an `on` clock needs at least one source");
                }
                for (i, source) in sources.iter().enumerate() {
                    if sources[..i].contains(source) {
                        self.report(Rule::Clock, "an `on` clock names a source twice");
                    }
                    self.clock_stream(id, source.stream());
                    match *source {
                        Source::Value { offset, .. } => self.instant("the offset", offset),
                        Source::Hold {
                            offset, max_age, ..
                        } => {
                            self.instant("the offset", offset);
                            if let Some(age) = max_age {
                                self.positive("the age", age);
                            }
                        }
                        Source::Window { lo, hi, .. } => {
                            self.bounds(None, Bounds::Time { lo: Some(lo), hi });
                        }
                    }
                }
            }
        }
    }

    fn clock_stream(&mut self, id: StreamId, stream: StreamId) {
        if stream == id {
            self.report(Rule::Recurrence, "the clock reads the stream itself");
        } else if stream > id {
            self.report(
                Rule::Order,
                format!(
                    "the clock reads {}, which is defined later",
                    self.name(stream)
                ),
            );
        }
    }

    /// Checks what depends on the place of an expression: reads, windows and variables. `this` is the stream being
    /// defined; `None` inside a reducer, where nothing may be read.
    fn expr(
        &mut self,
        id: ExprId,
        this: Option<StreamId>,
        in_map: bool,
        scope: &mut Vec<VarId>,
        done: &mut HashSet<(ExprId, bool)>,
    ) {
        let program: &'a Program = self.program;
        // Within one scope an expression says the same wherever it stands, in maps or outside of them.
        if !done.insert((id, in_map)) {
            return;
        }
        let expr = program.expr(id);
        if let Some(stream) = expr.stream() {
            match this {
                None => self.report_at(
                    Rule::Reducer,
                    id,
                    "a reducer's body reads only its parameters, not streams",
                ),
                Some(this) if stream > this => {
                    let name = self.name(stream);
                    self.report_at(Rule::Order, id, format!("{name} is defined later"));
                }
                Some(this) if stream == this => {
                    if in_map {
                        self.report_at(Rule::Recurrence, id, "a map reads the stream itself");
                    } else if !reads_the_past(expr) {
                        self.report_at(
                            Rule::Recurrence,
                            id,
                            "a stream can read only its own past: a negative offset, `prev(1)` or more, a window that ends before t",
                        );
                    }
                }
                Some(_) => {}
            }
        }
        let before = self.violations.len();
        match expr {
            Expr::Time if this.is_none() => {
                self.report_at(
                    Rule::Reducer,
                    id,
                    "a reducer's body has no t; use its start and end parameters",
                );
            }
            Expr::At { offset, .. } | Expr::Edge { offset, .. } => {
                self.instant("the offset", *offset);
                self.show(id, before);
            }
            Expr::Hold {
                offset, max_age, ..
            } => {
                self.instant("the offset", *offset);
                if let Some(age) = max_age {
                    self.positive("the age", *age);
                }
                self.show(id, before);
            }
            Expr::Reduce { agg, window, map } => {
                self.bounds(Some(id), window.bounds);
                self.show(id, before);
                self.agg(id, *agg);
                if let Some(map) = map {
                    self.expr(*map, this, true, scope, done);
                }
                return;
            }
            Expr::Var(var) if !scope.contains(var) => {
                self.report_at(
                    Rule::Scope,
                    id,
                    format!("`{}` is not bound here", program.vars[*var].name),
                );
            }
            Expr::Let { var, value, body } => {
                self.expr(*value, this, in_map, scope, done);
                if scope.contains(var) {
                    self.report_at(
                        Rule::Scope,
                        id,
                        format!("`{}` is bound twice", program.vars[*var].name),
                    );
                }
                scope.push(*var);
                self.expr(*body, this, in_map, scope, &mut HashSet::default());
                scope.pop();
                return;
            }
            _ => {}
        }
        expr.for_each_operand(|operand| self.expr(operand, this, in_map, scope, done));
    }

    fn bounds(&mut self, expr: Option<ExprId>, bounds: Bounds) {
        let (Bounds::Time { lo, hi } | Bounds::Ordinal { lo, hi }) = bounds else {
            return;
        };
        if lo.is_some_and(|lo| lo >= hi) {
            let message = "the window is empty: its lower bound must be below its upper bound";
            match expr {
                Some(expr) => self.report_at(Rule::Window, expr, message),
                None => self.report(Rule::Window, message),
            }
        }
        self.instant("a window bound", hi);
        if let Some(lo) = lo {
            self.instant("a window bound", lo);
        }
    }

    fn agg(&mut self, id: ExprId, agg: Agg) {
        let problem = match agg {
            Agg::Quantile { q, .. } if !(0.0..=1.0).contains(&q.get()) => {
                Some(format!("the quantile {} is not in [0, 1]", q.get()))
            }
            Agg::Ewm { alpha } if !(alpha.get() > 0.0 && alpha.get() <= 1.0) => Some(format!(
                "the smoothing factor {} is not in (0, 1]",
                alpha.get()
            )),
            Agg::TopK { k: 0 } => Some("top_k needs a k of at least 1".to_owned()),
            _ => None,
        };
        if let Some(problem) = problem {
            self.report_at(Rule::Agg, id, problem);
        }
    }

    fn reducer(&mut self, reducer: &Reducer) {
        let program = self.program;
        if !matches!(reducer.state, DType::Record(_)) {
            self.report(
                Rule::Reducer,
                format!("its state is {}, not a record", reducer.state),
            );
        }
        let state = || reducer.state.clone();
        let event = || {
            let time = DType::Timestamp(program.unit);
            vec![state(), reducer.input.clone(), time.clone(), time]
        };
        self.reducer_body("init", reducer.init, Some(&reducer.state));
        self.lambda("acc", &reducer.acc, &event(), Some(&reducer.state));
        if let Some(merge) = &reducer.merge {
            self.lambda("merge", merge, &[state(), state()], Some(&reducer.state));
        }
        if let Some(deacc) = &reducer.deacc {
            self.lambda("deacc", deacc, &event(), Some(&reducer.state));
        }
        self.lambda("result", &reducer.result, &[state()], None);
    }

    fn lambda(&mut self, part: &str, lambda: &Lambda, params: &[DType], result: Option<&DType>) {
        let found: Vec<DType> = lambda
            .params
            .iter()
            .map(|v| self.program.vars[*v].dtype.clone())
            .collect();
        if found != params {
            let list = |types: &[DType]| {
                types
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            self.report(
                Rule::Reducer,
                format!("`{part}` takes ({}), not ({})", list(params), list(&found)),
            );
        }
        self.result_type(part, lambda.body, result);
        self.expr(
            lambda.body,
            None,
            false,
            &mut lambda.params.clone(),
            &mut HashSet::default(),
        );
    }

    fn reducer_body(&mut self, part: &str, body: ExprId, result: Option<&DType>) {
        self.result_type(part, body, result);
        self.expr(body, None, false, &mut Vec::new(), &mut HashSet::default());
    }

    fn result_type(&mut self, part: &str, body: ExprId, result: Option<&DType>) {
        let found = self.program.dtype(body).clone();
        if let Some(result) = result
            && found != *result
        {
            self.report_at(
                Rule::Reducer,
                body,
                format!("`{part}` gives {found}, not the state {result}"),
            );
        }
    }

    fn instant(&mut self, what: &str, ticks: i64) {
        if !(-MAX_TICKS..=MAX_TICKS).contains(&ticks) {
            self.report(
                Rule::Instant,
                format!("{what} of {ticks} ticks is beyond 2^62; give the query a coarser unit"),
            );
        }
    }

    fn positive(&mut self, what: &str, ticks: i64) {
        self.instant(what, ticks);
        if ticks <= 0 {
            self.report(
                Rule::Instant,
                format!("{what} of {ticks} ticks is not positive"),
            );
        }
    }

    fn name(&self, stream: StreamId) -> String {
        format!("~{}", self.program.streams[stream].name())
    }
}

fn reducer_lambdas(reducer: &Reducer) -> impl Iterator<Item = &Lambda> {
    [&reducer.acc, &reducer.result]
        .into_iter()
        .chain(&reducer.merge)
        .chain(&reducer.deacc)
}

/// Whether a read of the stream being defined sees nothing but earlier events.
fn reads_the_past(expr: &Expr) -> bool {
    match expr {
        Expr::At { offset, .. } | Expr::Hold { offset, .. } | Expr::Edge { offset, .. } => {
            *offset < 0
        }
        Expr::Prev { n, .. } => *n > 0,
        Expr::Reduce { window, .. } => {
            matches!(window.bounds, Bounds::Time { hi, .. } | Bounds::Ordinal { hi, .. } if hi < 0)
        }
        _ => true,
    }
}

/// Scalars, and records of scalars with different names.
fn can_be_data(dtype: &DType) -> bool {
    match dtype {
        DType::Record(fields) => {
            let mut seen = HashSet::default();
            !fields.is_empty()
                && fields
                    .iter()
                    .all(|f| f.dtype.is_scalar() && seen.insert(&f.name))
        }
        dtype => dtype.is_scalar(),
    }
}

#[cfg(test)]
mod tests;
