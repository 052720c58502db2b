//! Evaluation of an expression at an instant.

use tilt_ir::{
    Agg, Bounds, DType, Edge, Expr, ExprId, Function, Lambda, Overlap, Program, ReducerId, Span,
    StreamId, VarId, Window,
};

use crate::{
    Functions, Value,
    clock::Binding,
    error::{HostError, QueryError, RunError},
    place::{Place, Places, close_up, combine, number, split},
    reduce::{Contribution, FoldError, fold},
    scalar,
    timeline::{Series, Streams, TimelineId},
};

/// Evaluates the body of one temporal expression, position by position.
pub(crate) struct Evaluator<'a> {
    pub(crate) program: &'a Program,
    pub(crate) functions: &'a Functions,
    /// The end of the run, where holds end.
    pub(crate) run_end: i64,
    /// The temporal expression whose body this is.
    pub(crate) stream: StreamId,
}

/// Where an expression is evaluated.
#[derive(Clone, Copy)]
struct Instant<'a> {
    t: i64,
    /// The event that ends here.
    event: Span,
    /// Whether that is a cell of a grid.
    of_grid: bool,
    bound: &'a [Binding],
    /// The position being computed. Reads of the stream itself stay before it.
    computing: usize,
}

/// Variables in scope, the innermost last.
type Vars = Vec<(VarId, Value)>;

type Result<T> = std::result::Result<T, RunError>;

impl Evaluator<'_> {
    /// The value of `body` at the end of the event at `position` of the stream's own timeline. Positions before it are
    /// in `streams` already.
    pub(crate) fn value(
        &self,
        body: ExprId,
        position: usize,
        bound: &[Binding],
        streams: &Streams,
    ) -> Result<Value> {
        let timeline = &streams[self.stream].timeline;
        let event = timeline.interval(position);
        let at = Instant {
            t: event.end,
            event,
            of_grid: timeline.is_grid(),
            bound,
            computing: position,
        };
        self.eval(body, at, streams, &mut Vec::new())
    }

    fn eval(
        &self,
        id: ExprId,
        at: Instant<'_>,
        streams: &Streams,
        vars: &mut Vars,
    ) -> Result<Value> {
        let operand = |e: ExprId, vars: &mut Vars| self.eval(e, at, streams, vars);
        Ok(match self.program.expr(id) {
            Expr::Const(scalar, _) => Value::from(scalar),
            Expr::Null(_) => Value::Null,
            Expr::Time => Value::Int(at.t),
            Expr::At { stream, offset } => match self.find(id, *stream, *offset, at, streams)? {
                Some(position) => streams[*stream].value(position).clone(),
                None => Value::Null,
            },
            Expr::Edge {
                stream,
                offset,
                edge,
            } => {
                let timeline = &streams[*stream].timeline;
                let event = self.find(id, *stream, *offset, at, streams)?;
                let span = event.map(|position| timeline.interval(position));
                span.map(|span| match edge {
                    Edge::Start => span.start,
                    Edge::End => span.end,
                })
                .into()
            }
            Expr::Hold {
                stream,
                offset,
                max_age,
            } => self.hold(*stream, at.t.saturating_add(*offset), *max_age, at, streams),
            Expr::Prev { stream, n } => self.prev(id, *stream, *n, at, streams)?,
            Expr::Reduce { agg, window, map } => {
                self.reduce(id, *agg, *window, *map, at, streams, vars)?
            }
            Expr::Var(var) => {
                let bound = vars.iter().rev().find(|(v, _)| v == var);
                let (_, value) = bound.ok_or_else(|| self.mistyped(id))?;
                value.clone()
            }
            Expr::Let { var, value, body } => {
                let value = operand(*value, vars)?;
                vars.push((*var, value));
                let result = operand(*body, vars);
                vars.pop();
                result?
            }
            Expr::Unary(op, a) => {
                let value = operand(*a, vars)?;
                let result = scalar::unary(*op, &value, self.program.dtype(*a));
                result.ok_or_else(|| self.mistyped(id))?
            }
            Expr::Binary(op, a, b) => {
                let (left, right) = (operand(*a, vars)?, operand(*b, vars)?);
                let result = scalar::binary(*op, &left, &right, self.program.dtype(*a));
                result.ok_or_else(|| self.mistyped(id))?
            }
            Expr::Clip { value, lo, hi } => {
                let value = operand(*value, vars)?;
                scalar::clip(&value, &operand(*lo, vars)?, &operand(*hi, vars)?)
            }
            Expr::When {
                cond,
                then,
                otherwise,
            } => match operand(*cond, vars)? {
                Value::Bool(true) => operand(*then, vars)?,
                _ => operand(*otherwise, vars)?,
            },
            Expr::IsNull(a) => Value::Bool(operand(*a, vars)?.is_null()),
            Expr::Coalesce(a, b) => match operand(*a, vars)? {
                Value::Null => operand(*b, vars)?,
                value => value,
            },
            Expr::Record(fields) => {
                let fields = fields.iter().map(|(_, e)| operand(*e, vars));
                Value::record(fields.collect::<Result<Vec<_>>>()?)
            }
            Expr::Field(record, name) => match operand(*record, vars)? {
                Value::Null => Value::Null,
                value => self
                    .field(&value, *record, name)
                    .ok_or_else(|| self.mistyped(id))?,
            },
            Expr::Cast(a, to) => {
                let value = operand(*a, vars)?;
                let result = scalar::cast(&value, self.program.dtype(*a), to);
                result.ok_or_else(|| self.mistyped(id))?
            }
            Expr::Call { func, args } => {
                let args = args.iter().map(|e| operand(*e, vars));
                let args = args.collect::<Result<Vec<_>>>()?;
                let function = &self.program.functions[*func];
                self.call(function, &args, at.t)?
            }
        })
    }

    /// The position of the event that `~x[t+offset]` reads.
    fn find(
        &self,
        id: ExprId,
        stream: StreamId,
        offset: i64,
        at: Instant<'_>,
        streams: &Streams,
    ) -> Result<Option<usize>> {
        let series = &streams[stream];
        if let Some(binding) = binding(series, offset, at) {
            return Ok(binding.position.filter(|p| series.has_value(*p)));
        }
        let instant = at.t.saturating_add(offset);
        let mut active = series.active(instant, self.visible(stream, at, streams));
        let Some(first) = active.next() else {
            return Ok(None);
        };
        let Some(last) = active.last() else {
            return Ok(Some(first));
        };
        match self.overlap(series.timeline.id) {
            Some(Overlap::First) => Ok(Some(first)),
            Some(Overlap::Last) => Ok(Some(last)),
            Some(Overlap::Bag | Overlap::Disjoint) | None => Err(QueryError::Ambiguous {
                stream: self.name(stream),
                instant,
                expr: self.program.expr_text(id),
                reader: self.name(self.stream),
            }
            .into()),
        }
    }

    /// The overlap rule of the input at the root of a timeline, if there is one.
    fn overlap(&self, timeline: TimelineId) -> Option<Overlap> {
        match timeline {
            TimelineId::Input(root) => {
                let input = self.program.streams[root].as_input();
                input.map(|input| input.overlap)
            }
            TimelineId::Grid { .. } | TimelineId::Own(_) => None,
        }
    }

    /// How many positions of `stream` a read by time can see, from the first: all, but of the stream being computed only
    /// those that end before the event being computed begins.
    fn visible(&self, stream: StreamId, at: Instant<'_>, streams: &Streams) -> usize {
        let timeline = &streams[stream].timeline;
        if stream == self.stream {
            timeline.ended_by(timeline.interval(at.computing).start)
        } else {
            timeline.len()
        }
    }

    fn hold(
        &self,
        stream: StreamId,
        instant: i64,
        max_age: Option<i64>,
        at: Instant<'_>,
        streams: &Streams,
    ) -> Value {
        let series = &streams[stream];
        if instant > self.run_end {
            return Value::Null;
        }
        let Some(position) = series.last_ended(instant, self.visible(stream, at, streams)) else {
            return Value::Null;
        };
        let age = i128::from(instant) - i128::from(series.timeline.interval(position).end);
        if max_age.is_some_and(|max_age| age >= i128::from(max_age)) {
            return Value::Null;
        }
        series.value(position).clone()
    }

    fn prev(
        &self,
        id: ExprId,
        stream: StreamId,
        n: u32,
        at: Instant<'_>,
        streams: &Streams,
    ) -> Result<Value> {
        let series = &streams[stream];
        let current = if stream == self.stream {
            Some(at.computing)
        } else {
            self.find(id, stream, 0, at, streams)?
        };
        let Some(current) = current else {
            return Ok(Value::Null);
        };
        let number = series.events_before(current).checked_sub(n as usize);
        Ok(match (n, number) {
            (0, _) => series.value(current).clone(),
            (_, Some(number)) => series.value(series.events()[number]).clone(),
            (_, None) => Value::Null,
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn reduce(
        &self,
        id: ExprId,
        agg: Agg,
        window: Window,
        map: Option<ExprId>,
        at: Instant<'_>,
        streams: &Streams,
        vars: &mut Vars,
    ) -> Result<Value> {
        let series = &streams[window.stream];
        let mut contributions = Vec::new();
        for (position, clipped, place) in self.window(window, at, streams) {
            let value = match map {
                None => series.value(position).clone(),
                Some(map) => {
                    let event = [Binding {
                        timeline: series.timeline.id,
                        offset: 0,
                        position: Some(position),
                    }];
                    let mapped = series.timeline.interval(position);
                    let at = Instant {
                        t: mapped.end,
                        event: mapped,
                        of_grid: series.timeline.is_grid(),
                        bound: &event,
                        ..at
                    };
                    self.eval(map, at, streams, vars)?
                }
            };
            if !value.is_null() {
                contributions.push(Contribution {
                    value,
                    event: series.timeline.interval(position),
                    clipped,
                    place,
                });
            }
        }
        let counted = matches!(window.bounds, Bounds::Ordinal { lo: Some(_), .. });
        if matches!(series.timeline.id, TimelineId::Own(_)) && !counted {
            close_up(contributions.iter_mut().map(|c| &mut c.place));
        }
        if let Agg::Custom(reducer) = agg {
            return self.fold_custom(reducer, &contributions, at, streams);
        }
        fold(agg, &contributions, self.program.dtype(id)).map_err(|error| match error {
            FoldError::Overflow => {
                let start = contributions.iter().map(|c| c.clipped.start).min();
                let end = contributions.iter().map(|c| c.clipped.end).max();
                QueryError::Overflow {
                    reduction: self.program.expr_text(id),
                    window: Span::new(start.unwrap_or(at.t), end.unwrap_or(at.t)),
                    instant: at.t,
                    reader: self.name(self.stream),
                }
                .into()
            }
            FoldError::Type => self.mistyped(id),
        })
    }

    /// The positions of the events in a window, in order, each with its interval clipped to it and its place.
    fn window(
        &self,
        window: Window,
        at: Instant<'_>,
        streams: &Streams,
    ) -> Vec<(usize, Span, Place)> {
        let series = &streams[window.stream];
        let timeline = &series.timeline;
        match window.bounds {
            Bounds::Time { lo, hi } => {
                let lo = lo.map(|lo| at.t.saturating_add(lo));
                let hi = at.t.saturating_add(hi);
                if lo.is_some_and(|lo| lo >= hi) {
                    return Vec::new();
                }
                let split = lo.map(|lo| split(lo, hi));
                self.time_window(window.stream, lo, hi, split, at, streams)
            }
            Bounds::Event => {
                let Span { start, end } = at.event;
                // A grid's cells are windows in time like any other. What else an event is, has a length of its own, and nothing
                // to share with others.
                let split = if at.of_grid { split(start, end) } else { start };
                self.time_window(window.stream, Some(start), end, Some(split), at, streams)
            }
            Bounds::Ordinal { lo, hi } => {
                let Some(current) = self.current_number(window.stream, at, streams) else {
                    return Vec::new();
                };
                let events = series.events();
                // Numbers in (current + lo, current + hi], as a range of indices.
                let index = |offset: i64| {
                    let number = current as i128 + i128::from(offset) + 1;
                    number.clamp(0, events.len() as i128) as usize
                };
                let (first, end) = (lo.map_or(0, index), index(hi));
                let place = |k: usize, position| match lo {
                    Some(_) => Place::late(k as i128),
                    None => Place::late(number(timeline, position)),
                };
                let events = events[first.min(end)..end].iter().enumerate();
                events
                    .map(|(k, p)| (*p, timeline.interval(*p), place(k, *p)))
                    .collect()
            }
        }
    }

    /// The events of `stream` in `(lo, hi]`, as [`window`](Self::window) gives them.
    fn time_window(
        &self,
        stream: StreamId,
        lo: Option<i64>,
        hi: i64,
        split: Option<i64>,
        at: Instant<'_>,
        streams: &Streams,
    ) -> Vec<(usize, Span, Place)> {
        let series = &streams[stream];
        let timeline = &series.timeline;
        let clip = |span: Span| {
            let start = lo.map_or(span.start, |lo| lo.max(span.start));
            Span::new(start, span.end.min(hi))
        };
        let places = Places::new(timeline, split, hi);
        let limit = self.visible(stream, at, streams);
        series
            .between(lo, hi, limit)
            .map(|p| (p, clip(timeline.interval(p)), places.of(p)))
            .collect()
    }

    /// The number of the current event among the events of `stream`, for windows that count events.
    fn current_number(
        &self,
        stream: StreamId,
        at: Instant<'_>,
        streams: &Streams,
    ) -> Option<usize> {
        let series = &streams[stream];
        if stream == self.stream {
            return Some(series.events_before(at.computing));
        }
        match binding(series, 0, at).and_then(|binding| binding.position) {
            Some(position) if series.has_value(position) => Some(series.events_before(position)),
            Some(position) => series.events_before(position).checked_sub(1),
            None => {
                let limit = self.visible(stream, at, streams);
                let last = series.last_started(at.t, limit)?;
                Some(series.events_before(last))
            }
        }
    }

    fn fold_custom(
        &self,
        reducer: ReducerId,
        contributions: &[Contribution],
        at: Instant<'_>,
        streams: &Streams,
    ) -> Result<Value> {
        if contributions.is_empty() {
            return Ok(Value::Null);
        }
        let reducer = &self.program.reducers[reducer];
        // The bodies read nothing but their parameters, so where they are evaluated does not matter.
        let apply = |lambda: &Lambda, args: Vec<Value>| {
            let mut vars: Vars = lambda.params.iter().copied().zip(args).collect();
            self.eval(lambda.body, at, streams, &mut vars)
        };
        let init = self.eval(reducer.init, at, streams, &mut Vec::new())?;
        let accumulate = |state: Value, c: &Contribution| {
            let event = [
                c.value.clone(),
                Value::Int(c.clipped.start),
                Value::Int(c.clipped.end),
            ];
            apply(&reducer.acc, std::iter::once(state).chain(event).collect())
        };
        let state = match &reducer.merge {
            None => contributions.iter().try_fold(init, accumulate)?,
            Some(merge) => {
                let lift = |c: &Contribution| Ok((c.place, accumulate(init.clone(), c)?));
                let lifted = contributions.iter().map(lift).collect::<Result<Vec<_>>>()?;
                let state = combine(lifted, |older, newer| apply(merge, vec![older, newer]))?;
                state.unwrap_or(init)
            }
        };
        apply(&reducer.result, vec![state])
    }

    fn field(&self, value: &Value, record: ExprId, name: &str) -> Option<Value> {
        let DType::Record(fields) = self.program.dtype(record) else {
            return None;
        };
        let index = fields.iter().position(|f| f.name == name)?;
        match value {
            Value::Record(values) => values.get(index).cloned(),
            _ => None,
        }
    }

    fn call(&self, function: &Function, args: &[Value], t: i64) -> Result<Value> {
        let registered = self.functions.get(&function.name).ok_or_else(|| {
            RunError::from(HostError::UnknownFunction {
                name: function.name.clone(),
                reader: self.name(self.stream),
            })
        })?;
        if args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        let value = registered(args);
        if value.fits(&function.result) {
            return Ok(value);
        }
        Err(HostError::FunctionResult {
            name: function.name.clone(),
            value: value.to_string(),
            expected: function.result.clone(),
            instant: t,
            reader: self.name(self.stream),
        }
        .into())
    }

    fn name(&self, stream: StreamId) -> String {
        self.program.streams[stream].name().to_owned()
    }

    /// An expression on values that the verifier should have refused.
    fn mistyped(&self, id: ExprId) -> RunError {
        let text = self.program.expr_text(id);
        let reader = self.program.streams[self.stream].name();
        RunError::Internal(format!(
            "`{text}` in ~{reader} has operands of the wrong type"
        ))
    }
}

/// What reads of streams on the timeline of `series` at `offset` are bound to here.
fn binding(series: &Series, offset: i64, at: Instant<'_>) -> Option<Binding> {
    let same = |b: &&Binding| b.timeline == series.timeline.id && b.offset == offset;
    at.bound.iter().find(same).copied()
}
