//! Programs: inputs, temporal expressions and what they declare.

use rustc_hash::FxHashSet as HashSet;

use crate::{
    calendar::Calendar,
    expr::{Expr, Node},
    ids::{Arena, ExprId, FuncId, ReducerId, StreamId, VarId},
    time::Unit,
    types::DType,
    typing::TypeError,
};

/// A query: streams defined in order, each from the ones before it (or from its own past), the last word being
/// [`output`](Self::output).
///
/// Programs are plain data. [`add`](Self::add) keeps node types right; everything else is checked by
/// [`verify`](crate::verify()).
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The query's name.
    pub name: String,
    /// What a tick is, for every instant and duration in the program.
    pub unit: Unit,
    /// Inputs and temporal expressions in order of definition.
    pub streams: Arena<StreamId, Stream>,
    /// All expression nodes.
    pub exprs: Arena<ExprId, Node>,
    /// All variables.
    pub vars: Arena<VarId, Var>,
    /// External functions.
    pub functions: Arena<FuncId, Function>,
    /// User-defined reductions.
    pub reducers: Arena<ReducerId, Reducer>,
    /// The result.
    pub output: StreamId,
}

/// A stream of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Stream {
    /// Given from outside.
    Input(Input),
    /// Defined by an expression.
    Temporal(Temporal),
}

/// A stream given from outside.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Unique among the streams.
    pub name: String,
    /// The type of a value: a scalar, or a record with a field a column.
    pub dtype: DType,
    /// The unit the data's own timestamps are in; ingress converts to the program's.
    pub unit: Unit,
    /// Which interval a row's stamp stands for.
    pub span: SpanRule,
    /// Declared distance between samples, in ticks; integer offsets are allowed only with it.
    pub period: Option<i64>,
    /// The column that splits this stream into one per key.
    pub key: Option<String>,
    /// Whether several events may be active at one instant.
    pub overlap: Overlap,
}

/// From a row stamped `s` to its event `(start, end]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpanRule {
    /// `(s-1, s]`.
    Point,
    /// `(s-d, s]`.
    Fixed(i64),
    /// `(s-1, s'-1]` where `s'` is the next row's stamp; the last lasts to the run's end.
    UntilNext,
    /// `(start, end]` from two columns.
    Interval,
}

/// Whether several events of an input may be active at one instant, and what reading its value there means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Overlap {
    /// At most one is active: promised by the query, checked at ingress.
    Disjoint,
    /// A bag: reading *the* value where several are active is an error.
    Bag,
    /// A bag: reads take the first active event in input order.
    First,
    /// A bag: reads take the last active event in input order.
    Last,
}

/// `~name[t clock] = body`.
#[derive(Clone, PartialEq, Debug)]
pub struct Temporal {
    /// Unique among the streams.
    pub name: String,
    /// The type of a value; equals the body's. Stated because a recurrence reads itself.
    pub dtype: DType,
    /// When the events are.
    pub clock: Clock,
    /// The value of an event, evaluated at its end; φ means no event.
    pub body: ExprId,
}

/// When a temporal expression has events.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Clock {
    /// Every maximal interval on which no source changes event and at least one is active.
    OnChange(Vec<Source>),
    /// The events of the stream; the same as one unshifted source.
    At(StreamId),
    /// Every grid cell `(g-period, g]`, `g` a multiple of `period` from `offset`.
    Every {
        /// Ticks between grid points, positive.
        period: i64,
        /// One of the grid points.
        offset: i64,
    },
    /// Every cell of a calendar.
    Calendar(Calendar),
    /// `sessions ~x gap g max m`: an interval for each run of events of `~x` without a longer pause.
    Sessions {
        /// Whose events.
        stream: StreamId,
        /// An event that starts less than this many ticks after the latest end of a session belongs to it. Positive.
        gap: i64,
        /// How many ticks a session may last; an event that would make it longer begins another one. Positive.
        max: Option<i64>,
    },
}

impl Clock {
    /// The streams whose events the clock looks at, as often as it names them.
    pub fn streams(&self) -> Vec<StreamId> {
        match self {
            Self::OnChange(sources) => sources.iter().map(|s| s.stream()).collect(),
            Self::At(stream) | Self::Sessions { stream, .. } => vec![*stream],
            Self::Every { .. } | Self::Calendar(_) => Vec::new(),
        }
    }

    /// Whether the events are cells of time, which exist in the whole run and outside of it where the body reads a value.
    pub fn has_cells(&self) -> bool {
        matches!(self, Self::Every { .. } | Self::Calendar(_))
    }
}

/// Something whose changes drive an [`OnChange`](Clock::OnChange) clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// `~x[t+offset]`: changes where an event of `~x`, moved by `-offset`, starts or ends.
    Value {
        /// The stream.
        stream: StreamId,
        /// Ticks added to `t`.
        offset: i64,
    },
    /// `hold(~x[t+offset], max_age)`: changes where a held event starts, is replaced or expires.
    Hold {
        /// The stream.
        stream: StreamId,
        /// Ticks added to `t`.
        offset: i64,
        /// As in [`Expr::Hold`].
        max_age: Option<i64>,
    },
    /// `~x[t+lo : t+hi]`: changes where an event enters or leaves the window.
    Window {
        /// The stream.
        stream: StreamId,
        /// Ticks from `t`, exclusive.
        lo: i64,
        /// Ticks from `t`, inclusive.
        hi: i64,
    },
}

impl Source {
    /// The source that an expression is which reads one element; windows are none.
    pub(crate) fn of_element(expr: &Expr) -> Option<Self> {
        match *expr {
            Expr::At { stream, offset } | Expr::Edge { stream, offset, .. } => {
                Some(Self::Value { stream, offset })
            }
            Expr::Prev { stream, .. } => Some(Self::Value { stream, offset: 0 }),
            Expr::Hold {
                stream,
                offset,
                max_age,
            } => Some(Self::Hold {
                stream,
                offset,
                max_age,
            }),
            _ => None,
        }
    }

    /// The stream whose changes count.
    pub fn stream(self) -> StreamId {
        match self {
            Self::Value { stream, .. }
            | Self::Hold { stream, .. }
            | Self::Window { stream, .. } => stream,
        }
    }
}

/// A variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    /// As written; need not be unique, scopes decide.
    pub name: String,
    /// The type of its value.
    pub dtype: DType,
}

/// A function the host registers under a name. Pure, strict in φ; it may return φ.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Unique among the functions.
    pub name: String,
    /// Argument types.
    pub params: Vec<DType>,
    /// Result type.
    pub result: DType,
}

/// A reduction defined by expressions over a record state.
///
/// The bodies read nothing but their parameters. `acc` is called in time order with the event's value, start and end,
/// clipped to the window.
#[derive(Clone, PartialEq, Debug)]
pub struct Reducer {
    /// Unique among the reducers.
    pub name: String,
    /// The type of a folded value.
    pub input: DType,
    /// The state: a record.
    pub state: DType,
    /// The state of no events.
    pub init: ExprId,
    /// `(state, value, start, end) -> state`.
    pub acc: Lambda,
    /// `(state, state) -> state`: `merge(fold(a), fold(b)) = fold(a ++ b)`.
    pub merge: Option<Lambda>,
    /// `(state, value, start, end) -> state`: removes the oldest event.
    pub deacc: Option<Lambda>,
    /// `(state) -> value`.
    pub result: Lambda,
}

/// A function body with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Lambda {
    /// Bound in the body.
    pub params: Vec<VarId>,
    /// The value.
    pub body: ExprId,
}

impl Input {
    /// An input of points, at most one at an instant.
    pub fn point(name: impl Into<String>, dtype: DType, unit: Unit) -> Self {
        Self {
            name: name.into(),
            dtype,
            unit,
            span: SpanRule::Point,
            period: None,
            key: None,
            overlap: Overlap::Disjoint,
        }
    }

    /// An input of samples, `period` ticks apart, each of which stands for the time since the one before.
    pub fn samples(name: impl Into<String>, dtype: DType, unit: Unit, period: i64) -> Self {
        Self {
            span: SpanRule::Fixed(period),
            period: Some(period),
            ..Self::point(name, dtype, unit)
        }
    }
}

impl Stream {
    /// The stream's name, without `~`.
    pub fn name(&self) -> &str {
        match self {
            Self::Input(input) => &input.name,
            Self::Temporal(temporal) => &temporal.name,
        }
    }

    /// The input, if it is one.
    pub fn as_input(&self) -> Option<&Input> {
        match self {
            Self::Input(input) => Some(input),
            Self::Temporal(_) => None,
        }
    }

    /// The temporal expression, if it is one.
    pub fn as_temporal(&self) -> Option<&Temporal> {
        match self {
            Self::Input(_) => None,
            Self::Temporal(temporal) => Some(temporal),
        }
    }
}

impl Program {
    /// A program without streams. Its output must be set before it means anything.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self {
            name: name.into(),
            unit,
            streams: Arena::default(),
            exprs: Arena::default(),
            vars: Arena::default(),
            functions: Arena::default(),
            reducers: Arena::default(),
            output: crate::ids::Id::new(0),
        }
    }

    /// Adds an expression node after deriving its type.
    ///
    /// # Errors
    /// When the operands' types do not fit the operator, or an id names nothing here.
    pub fn add(&mut self, expr: Expr) -> Result<ExprId, TypeError> {
        let dtype = self.type_of(&expr)?;
        Ok(self.exprs.push(Node { expr, dtype }))
    }

    /// Adds an input.
    pub fn input(&mut self, input: Input) -> StreamId {
        self.output = self.streams.push(Stream::Input(input));
        self.output
    }

    /// Adds a temporal expression and makes it the output.
    ///
    /// # Errors
    /// When `body` names no node.
    pub fn define(
        &mut self,
        name: impl Into<String>,
        clock: Clock,
        body: ExprId,
    ) -> Result<StreamId, TypeError> {
        let node = self.exprs.get(body).ok_or(TypeError::Dangling)?;
        self.output = self.streams.push(Stream::Temporal(Temporal {
            name: name.into(),
            dtype: node.dtype.clone(),
            clock,
            body,
        }));
        Ok(self.output)
    }

    /// Adds a temporal expression whose body is not known yet, because it reads the stream's own past. φ until
    /// [`redefine`](Self::redefine) gives it one.
    pub fn declare(&mut self, name: impl Into<String>, clock: Clock, dtype: DType) -> StreamId {
        let body = self.exprs.push(Node {
            expr: Expr::Null(dtype.clone()),
            dtype: dtype.clone(),
        });
        self.output = self.streams.push(Stream::Temporal(Temporal {
            name: name.into(),
            dtype,
            clock,
            body,
        }));
        self.output
    }

    /// Gives a temporal expression another clock and body of the same type.
    ///
    /// # Panics
    /// When `stream` is an input.
    pub fn redefine(&mut self, stream: StreamId, clock: Clock, body: ExprId) {
        match &mut self.streams[stream] {
            Stream::Temporal(temporal) => {
                temporal.clock = clock;
                temporal.body = body;
            }
            Stream::Input(input) => panic!("input ~{} has no body to replace", input.name),
        }
    }

    /// A new variable.
    pub fn var(&mut self, name: impl Into<String>, dtype: DType) -> VarId {
        self.vars.push(Var {
            name: name.into(),
            dtype,
        })
    }

    /// The expression of a node.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id].expr
    }

    /// The type of a node's value.
    pub fn dtype(&self, id: ExprId) -> &DType {
        &self.exprs[id].dtype
    }

    /// The type of a stream's values.
    pub fn stream_dtype(&self, id: StreamId) -> &DType {
        match &self.streams[id] {
            Stream::Input(input) => &input.dtype,
            Stream::Temporal(temporal) => &temporal.dtype,
        }
    }

    /// The stream called `name` (without `~`).
    pub fn stream_named(&self, name: &str) -> Option<StreamId> {
        self.streams
            .iter()
            .find(|(_, s)| s.name() == name)
            .map(|(id, _)| id)
    }

    /// The inputs in order.
    pub fn inputs(&self) -> impl Iterator<Item = (StreamId, &Input)> {
        self.streams
            .iter()
            .filter_map(|(id, s)| Some((id, s.as_input()?)))
    }

    /// The temporal expressions in order.
    pub fn temporals(&self) -> impl DoubleEndedIterator<Item = (StreamId, &Temporal)> {
        self.streams
            .iter()
            .filter_map(|(id, s)| Some((id, s.as_temporal()?)))
    }

    /// Calls `visit` for every node reachable from `root`, each once, operands first.
    pub fn walk(&self, root: ExprId, visit: &mut impl FnMut(ExprId, &Expr)) {
        let mut seen = HashSet::default();
        self.walk_into(root, &mut seen, visit);
    }

    fn walk_into(
        &self,
        id: ExprId,
        seen: &mut HashSet<ExprId>,
        visit: &mut impl FnMut(ExprId, &Expr),
    ) {
        if !seen.insert(id) {
            return;
        }
        let expr = self.expr(id);
        expr.for_each_operand(|operand| self.walk_into(operand, seen, visit));
        visit(id, expr);
    }
}
