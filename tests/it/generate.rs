//! Random programs and streams, typed first, from a sequence of choices.
//!
//! A generator asks [`Choices`] for numbers below a limit. Past the end of the sequence every answer is 0, which is always the
//! simplest alternative, so a shorter or smaller sequence makes a simpler program: that is all the shrinking there
//! is. Property tests take the sequence from proptest, fuzz targets from the fuzzer.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    data::SnapshotBuffer,
    interp::{Event, Functions, Inputs, Value, buffer_of},
    ir::{
        Agg, BinaryOp, Bounds, Calendar, Clock, Closed, DType, Edge, Expr, ExprId, Field,
        FloatWidth, FuncId, Function, Input, Lambda, OPEN, Overlap, Program, QuantileMethod, Ratio,
        Reducer, ReducerId, Scalar, Source, SpanRule, StreamId, TimePart, UnaryOp, Unit, VarId,
        Width, Window,
    },
};

/// The choices that make a program, or its data.
#[derive(Clone)]
pub(crate) struct Choices<'a> {
    rest: &'a [u16],
    from_the_end: bool,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(choices: &'a [u16]) -> Self {
        Self {
            rest: choices,
            from_the_end: false,
        }
    }

    /// The same choices from the last to the first. Data is made of these, so that a long program leaves it some.
    pub(crate) fn reversed(choices: &'a [u16]) -> Self {
        Self {
            rest: choices,
            from_the_end: true,
        }
    }

    /// A number below `limit`; 0 once the choices are used up.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let next = if self.from_the_end {
            self.rest.split_last()
        } else {
            self.rest.split_first()
        };
        let Some((choice, rest)) = next else {
            return 0;
        };
        self.rest = rest;
        usize::from(*choice) % limit.max(1)
    }

    /// True once in `n` times, and never for the simplest program.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }

    fn offset(&mut self) -> i64 {
        *self.pick(&[0, -1, -2, -5, 1, -10, 3, -30])
    }
}

/// What a program may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    /// `t`, edges and everything else that turns an instant into a value.
    pub(crate) instants: bool,
}

/// All grid periods divide this, so data can be moved by any multiple of it.
pub(crate) const COMMON_PERIOD: i64 = 60;

/// A random program that verifies.
pub(crate) fn program(choices: &mut Choices, scope: Scope) -> Program {
    let unit = *choices.pick(&[Unit::Tick, Unit::Second]);
    let mut maker = Maker {
        program: Program::new("random", unit),
        choices,
        scope,
        vars: Vec::new(),
        in_map: false,
        this: None,
        function: None,
        reducer: None,
        folded: Vec::new(),
    };
    maker.declarations();
    for i in 0..=maker.choices.below(2) {
        maker.input(i);
    }
    for i in 0..=maker.choices.below(5) {
        if maker.choices.one_in(6) {
            maker.normalisation(i);
        } else {
            maker.temporal(i);
        }
    }
    maker.program
}

/// The functions that random programs call.
pub(crate) fn functions() -> Functions {
    let mut functions = Functions::default();
    functions.register("half", |args: &[Value]| match args[0] {
        // φ for negative numbers, so that calls can lose values.
        Value::Float(v) if v < 0.0 => Value::Null,
        Value::Float(v) => Value::Float(v / 2.0),
        _ => Value::Null,
    });
    functions
}

/// Events as buffers, which the engine reads.
pub(crate) fn buffers(program: &Program, inputs: &Inputs) -> BTreeMap<String, SnapshotBuffer> {
    let buffer = |input: &Input| {
        let length = match input.span {
            SpanRule::Point => Some(1),
            SpanRule::Fixed(d) => Some(d),
            SpanRule::UntilNext | SpanRule::Interval => None,
        };
        buffer_of(
            &inputs[&input.name],
            &input.name,
            &input.dtype,
            program.unit,
            length,
        )
        .unwrap_or_else(|e| panic!("{e}\n{program}"))
    };
    program
        .inputs()
        .map(|(_, input)| (input.name.clone(), buffer(input)))
        .collect()
}

fn record_type() -> DType {
    let field = |name: &str, dtype| Field {
        name: name.to_owned(),
        dtype,
    };
    DType::Record(vec![field("a", DType::F64), field("b", DType::I64)])
}

struct Maker<'c, 'a> {
    program: Program,
    choices: &'c mut Choices<'a>,
    scope: Scope,
    /// Variables in scope.
    vars: Vec<VarId>,
    in_map: bool,
    /// The stream being defined, if it may read itself.
    this: Option<StreamId>,
    function: Option<FuncId>,
    reducer: Option<ReducerId>,
    /// Windows to reduce again, with closed maps and the type of what is folded: that is what sharing is about.
    folded: Vec<(Window, Option<ExprId>, DType)>,
}

impl Maker<'_, '_> {
    fn add(&mut self, expr: Expr) -> ExprId {
        self.program.add(expr).expect("types first")
    }

    fn declarations(&mut self) {
        if self.choices.one_in(4) {
            self.function = Some(self.program.functions.push(Function {
                name: "half".to_owned(),
                params: vec![DType::F64],
                result: DType::F64,
            }));
        }
        if self.choices.one_in(3) {
            self.reducer();
        }
    }

    /// A weighted mean: `{s: Σ v·length, w: Σ length}`.
    fn reducer(&mut self) {
        let time = DType::Timestamp(self.program.unit);
        let field = |name: &str| Field {
            name: name.to_owned(),
            dtype: DType::F64,
        };
        let state = DType::Record(vec![field("s"), field("w")]);
        let zero = self.float(0.0);
        let record = |this: &mut Self, s, w| {
            this.add(Expr::Record(vec![("s".to_owned(), s), ("w".to_owned(), w)]))
        };
        let init = record(self, zero, zero);
        let params: Vec<VarId> = [
            ("st", state.clone()),
            ("v", DType::F64),
            ("from", time.clone()),
            ("to", time),
        ]
        .into_iter()
        .map(|(name, dtype)| self.program.var(name, dtype))
        .collect();
        let read: Vec<ExprId> = params.iter().map(|v| self.add(Expr::Var(*v))).collect();
        let length = self.add(Expr::Binary(BinaryOp::Sub, read[3], read[2]));
        let length = self.add(Expr::Cast(length, DType::I64));
        let length = self.add(Expr::Cast(length, DType::F64));
        let part = self.add(Expr::Binary(BinaryOp::Mul, read[1], length));
        let s = self.add(Expr::Field(read[0], "s".to_owned()));
        let w = self.add(Expr::Field(read[0], "w".to_owned()));
        let (s, w) = (
            self.add(Expr::Binary(BinaryOp::Add, s, part)),
            self.add(Expr::Binary(BinaryOp::Add, w, length)),
        );
        let acc = record(self, s, w);
        let last = self.program.var("st", state.clone());
        let read_last = self.add(Expr::Var(last));
        let s = self.add(Expr::Field(read_last, "s".to_owned()));
        let w = self.add(Expr::Field(read_last, "w".to_owned()));
        let result = self.add(Expr::Binary(BinaryOp::Div, s, w));
        let merge = self.choices.one_in(2).then(|| {
            let params: Vec<VarId> = ["older", "newer"]
                .into_iter()
                .map(|name| self.program.var(name, state.clone()))
                .collect();
            let mut both = |field: &str| {
                let [older, newer] = [0, 1].map(|i| {
                    let state = self.add(Expr::Var(params[i]));
                    self.add(Expr::Field(state, field.to_owned()))
                });
                self.add(Expr::Binary(BinaryOp::Add, older, newer))
            };
            let (s, w) = (both("s"), both("w"));
            let body = record(self, s, w);
            Lambda { params, body }
        });
        self.reducer = Some(self.program.reducers.push(Reducer {
            name: "weighted".to_owned(),
            input: DType::F64,
            state,
            init,
            acc: Lambda { params, body: acc },
            merge,
            deacc: None,
            result: Lambda {
                params: vec![last],
                body: result,
            },
        }));
    }

    fn input(&mut self, number: usize) {
        let dtype = match self.choices.below(8) {
            0..=3 => DType::F64,
            4 => DType::I64,
            5 => record_type(),
            6 => self.scalar_type(),
            _ => DType::Bool,
        };
        let span = match self.choices.below(5) {
            0 | 1 => SpanRule::Point,
            2 => SpanRule::Fixed(1 + self.choices.below(6) as i64),
            3 => SpanRule::Interval,
            _ => SpanRule::UntilNext,
        };
        let overlap = match span {
            SpanRule::UntilNext => Overlap::Disjoint,
            _ => *self.choices.pick(&[
                Overlap::Disjoint,
                Overlap::Disjoint,
                Overlap::Last,
                Overlap::First,
                Overlap::Bag,
            ]),
        };
        self.program.input(Input {
            name: format!("x{number}"),
            dtype,
            unit: self.program.unit,
            span,
            period: None,
            key: None,
            overlap,
        });
    }

    fn temporal(&mut self, number: usize) {
        let clock = self.clock();
        let name = format!("s{number}");
        let dtype = match self.choices.below(7) {
            0..=2 => DType::F64,
            3 => DType::I64,
            4 => record_type(),
            5 if self.choices.one_in(2) => DType::List(Box::new(self.scalar_type())),
            _ => self.scalar_type(),
        };
        let depth = 1 + self.choices.below(4);
        if self.choices.one_in(6) {
            let id = self.program.declare(name, clock.clone(), dtype.clone());
            self.this = Some(id);
            let body = self.expr(&dtype, depth);
            self.this = None;
            self.program.redefine(id, clock, body);
        } else {
            let body = self.expr(&dtype, depth);
            self.program
                .define(name, clock, body)
                .expect("the body is there");
        }
    }

    /// Two or three statistics on one grid, read together beside what they are of: the paper's normalisation and imputation.
    fn normalisation(&mut self, number: usize) {
        let stream = self.stream();
        let clock = Clock::Every {
            period: *self.choices.pick(&[5, 2, 10]),
            offset: *self.choices.pick(&[0, 0, 1]),
        };
        let mut sources = vec![Source::Value { stream, offset: 0 }];
        let mut value = match self.program.stream_dtype(stream) {
            DType::Float(FloatWidth::W64) => self.add(Expr::At { stream, offset: 0 }),
            _ => self.leaf(&DType::F64),
        };
        for i in 0..2 + self.choices.below(2) {
            let mut statistic = self.reduce_stream(stream, &DType::F64, 1);
            if self.choices.one_in(4) {
                let other = self.constant(&DType::F64);
                statistic = self.add(Expr::Binary(BinaryOp::Add, statistic, other));
            }
            let name = format!("s{number}_{i}");
            let statistic = self
                .program
                .define(name, clock.clone(), statistic)
                .expect("the body is there");
            sources.push(Source::Value {
                stream: statistic,
                offset: 0,
            });
            let mut read = self.add(Expr::At {
                stream: statistic,
                offset: 0,
            });
            if self.choices.one_in(5) {
                let other = self.expr(&DType::F64, 1);
                read = self.add(Expr::Coalesce(read, other));
            }
            let op = *self
                .choices
                .pick(&[BinaryOp::Sub, BinaryOp::Div, BinaryOp::Max]);
            value = self.add(Expr::Binary(op, value, read));
        }
        let clock = match self.choices.below(5) {
            0..=2 => Clock::OnChange(sources),
            3 => Clock::OnChange(vec![sources[0], sources[1]]),
            _ => Clock::At(stream),
        };
        self.program
            .define(format!("s{number}"), clock, value)
            .expect("the body is there");
    }

    fn clock(&mut self) -> Clock {
        // Equal clocks share their events.
        if self.choices.one_in(5) {
            let clocks: Vec<Clock> = self
                .program
                .temporals()
                .map(|(_, temporal)| temporal.clock.clone())
                .collect();
            if !clocks.is_empty() {
                return self.choices.pick(&clocks).clone();
            }
        }
        match self.choices.below(8) {
            0 | 1 => Clock::At(self.stream()),
            6 => Clock::Sessions {
                stream: self.stream(),
                gap: *self.choices.pick(&[5, 1, 2, 10, 30]),
                max: *self.choices.pick(&[None, Some(20), Some(3), Some(60)]),
            },
            7 if self.scope.instants && self.program.unit == Unit::Second => {
                Clock::Calendar(self.calendar())
            }
            2 | 3 => Clock::Every {
                period: *self.choices.pick(&[5, 1, 2, 3, 10, 20]),
                offset: self.choices.offset(),
            },
            _ => {
                let mut sources = Vec::new();
                for _ in 0..=self.choices.below(3) {
                    let stream = self.stream();
                    let source = match self.choices.below(5) {
                        0..=2 => Source::Value {
                            stream,
                            offset: self.choices.offset(),
                        },
                        3 => Source::Hold {
                            stream,
                            offset: self.choices.offset(),
                            max_age: self.age(),
                        },
                        _ => {
                            let (lo, hi) = self.bounds();
                            Source::Window { stream, lo, hi }
                        }
                    };
                    if !sources.contains(&source) {
                        sources.push(source);
                    }
                }
                Clock::OnChange(sources)
            }
        }
    }

    /// Cells that change with the zone's clocks, at instants that differ a little. None of many hours: what reads them on a grid
    /// has cells for each of their seconds.
    fn calendar(&mut self) -> Calendar {
        let length = self.choices.pick(&["1h", "1h", "2h"]);
        let zones = ["Europe/Paris", "Australia/Sydney", "UTC"];
        Calendar {
            zone: Some((*self.choices.pick(&zones)).to_owned()),
            offset: self.choices.offset(),
            closed: *self.choices.pick(&[Closed::Right, Closed::Left]),
            ..Calendar::parse(length).expect("a length")
        }
    }

    /// Any stream but the one being defined.
    fn stream(&mut self) -> StreamId {
        let known: Vec<StreamId> = self
            .program
            .streams
            .ids()
            .filter(|id| Some(*id) != self.this)
            .collect();
        // The latest first, so that programs grow deep rather than wide.
        known[known.len() - 1 - self.choices.below(known.len())]
    }

    fn age(&mut self) -> Option<i64> {
        *self.choices.pick(&[None, Some(5), Some(1), Some(20)])
    }

    fn bounds(&mut self) -> (i64, i64) {
        let hi = *self.choices.pick(&[0, 0, -1, 2, -5]);
        (hi - *self.choices.pick(&[5, 1, 10, 3, 30, 60]), hi)
    }

    fn scalar_type(&mut self) -> DType {
        let unit = self.program.unit;
        let all = [
            DType::F64,
            DType::I64,
            DType::Bool,
            DType::F32,
            DType::Int(Width::W8),
            DType::UInt(Width::W16),
            DType::U64,
            DType::Utf8,
            DType::Duration(unit),
            DType::Float(FloatWidth::W16),
            DType::I32,
            DType::Timestamp(unit),
        ];
        let count = all.len() - usize::from(!self.scope.instants);
        self.choices.pick(&all[..count]).clone()
    }

    fn float(&mut self, value: f64) -> ExprId {
        self.add(Expr::Const(Scalar::Float(value), DType::F64))
    }

    /// An expression of the type.
    fn expr(&mut self, dtype: &DType, depth: usize) -> ExprId {
        if depth == 0 {
            return self.leaf(dtype);
        }
        match self.choices.below(12) {
            0 | 1 => self.leaf(dtype),
            2..=5 => self.operator(dtype, depth),
            6 => {
                let cond = self.expr(&DType::Bool, depth - 1);
                let then = self.expr(dtype, depth - 1);
                // A filter as often as a choice.
                let otherwise = match self.choices.below(2) {
                    0 => self.expr(dtype, depth - 1),
                    _ => self.add(Expr::Null(dtype.clone())),
                };
                self.add(Expr::When {
                    cond,
                    then,
                    otherwise,
                })
            }
            7 => {
                let (a, b) = (self.expr(dtype, depth - 1), self.expr(dtype, depth - 1));
                self.add(Expr::Coalesce(a, b))
            }
            8 => {
                let of = self.scalar_type();
                let value = self.expr(&of, depth - 1);
                let var = self.program.var("v", of);
                self.vars.push(var);
                let body = self.expr(dtype, depth - 1);
                self.vars.pop();
                self.add(Expr::Let { var, value, body })
            }
            _ => self.reduction(dtype, depth),
        }
    }

    fn leaf(&mut self, dtype: &DType) -> ExprId {
        let known = self
            .vars
            .iter()
            .copied()
            .find(|v| self.program.vars[*v].dtype == *dtype);
        match (known, self.choices.below(16)) {
            (Some(var), 0..=7) => self.add(Expr::Var(var)),
            (_, 13 | 14) => self.constant(dtype),
            (_, 15) => self.add(Expr::Null(dtype.clone())),
            _ => self.read(dtype),
        }
    }

    fn constant(&mut self, dtype: &DType) -> ExprId {
        let small = [1, 0, 2, -1, 3, 100, -7];
        let scalar = match dtype {
            DType::Bool => Scalar::Bool(self.choices.below(2) == 0),
            DType::Int(_) | DType::Timestamp(_) | DType::Duration(_) => {
                Scalar::Int(*self.choices.pick(&small))
            }
            DType::UInt(_) => Scalar::UInt(*self.choices.pick(&[1, 0, 2, 200])),
            DType::Float(_) => Scalar::Float(*self.choices.pick(&[
                1.0,
                0.0,
                -0.0,
                2.5,
                -1.0,
                f64::INFINITY,
                f64::NAN,
            ])),
            DType::Utf8 => Scalar::Str((*self.choices.pick(&["a", "", "b\"\n", "é"])).to_owned()),
            DType::Record(fields) => {
                let fields = fields.clone();
                let values = fields
                    .iter()
                    .map(|f| (f.name.clone(), self.constant(&f.dtype)))
                    .collect();
                return self.add(Expr::Record(values));
            }
            DType::List(_) => return self.add(Expr::Null(dtype.clone())),
        };
        self.add(Expr::Const(scalar, dtype.clone()))
    }

    /// A read of a stream of the type, or of a record's field of that type; a constant if there is none.
    fn read(&mut self, dtype: &DType) -> ExprId {
        if let (Some(this), false) = (self.this, self.in_map)
            && self.program.stream_dtype(this) == dtype
            && self.choices.below(2) == 0
        {
            return self.own_past(this);
        }
        let candidates: Vec<(StreamId, Option<String>)> = self
            .program
            .streams
            .ids()
            .rev()
            .filter(|id| Some(*id) != self.this)
            .filter_map(|id| match self.program.stream_dtype(id) {
                found if found == dtype => Some((id, None)),
                DType::Record(fields) => fields
                    .iter()
                    .find(|f| f.dtype == *dtype)
                    .map(|f| (id, Some(f.name.clone()))),
                _ => None,
            })
            .collect();
        if candidates.is_empty() {
            return match dtype {
                DType::Timestamp(_) if self.scope.instants => self.add(Expr::Time),
                DType::Record(fields) => {
                    let fields = fields.clone();
                    let values = fields
                        .iter()
                        .map(|f| (f.name.clone(), self.read(&f.dtype)))
                        .collect();
                    self.add(Expr::Record(values))
                }
                _ => self.constant(dtype),
            };
        }
        let (stream, field) = self.choices.pick(&candidates).clone();
        let read = match self.choices.below(8) {
            0..=3 => Expr::At { stream, offset: 0 },
            4 => Expr::At {
                stream,
                offset: self.choices.offset(),
            },
            5 => Expr::Hold {
                stream,
                offset: self.choices.offset(),
                max_age: self.age(),
            },
            6 => Expr::Prev {
                stream,
                n: self.choices.below(3) as u32,
            },
            _ => Expr::At { stream, offset: -1 },
        };
        let read = self.add(read);
        match field {
            Some(name) => self.add(Expr::Field(read, name)),
            None => read,
        }
    }

    fn own_past(&mut self, stream: StreamId) -> ExprId {
        let back = -1 - self.choices.below(5) as i64;
        let dtype = self.program.stream_dtype(stream).clone();
        let read = match self.choices.below(5) {
            0 => Expr::Prev {
                stream,
                n: 1 + self.choices.below(2) as u32,
            },
            1 => Expr::At {
                stream,
                offset: back,
            },
            2 => {
                let lo = back - 1 - self.choices.below(10) as i64;
                let bounds = match self.choices.below(2) {
                    0 => Bounds::Time {
                        lo: Some(lo),
                        hi: back,
                    },
                    _ => Bounds::Ordinal {
                        lo: Some(lo),
                        hi: back,
                    },
                };
                let map = self.choices.one_in(3).then(|| {
                    // Its own value is out of bounds in a map.
                    let outside = std::mem::replace(&mut self.in_map, true);
                    let map = self.expr(&dtype, 1);
                    self.in_map = outside;
                    map
                });
                Expr::Reduce {
                    agg: Agg::Last,
                    window: Window { stream, bounds },
                    map,
                }
            }
            _ => Expr::Hold {
                stream,
                offset: back,
                max_age: self.age(),
            },
        };
        self.add(read)
    }

    fn operator(&mut self, dtype: &DType, depth: usize) -> ExprId {
        use BinaryOp::*;
        let below = depth - 1;
        let expr = match dtype {
            DType::Bool => match self.choices.below(6) {
                0 | 1 => {
                    let op = *self.choices.pick(&[Gt, Lt, Eq, Ne, Le, Ge]);
                    let of = self.scalar_type();
                    Expr::Binary(op, self.expr(&of, below), self.expr(&of, below))
                }
                2 => {
                    let op = *self.choices.pick(&[And, Or, Xor]);
                    Expr::Binary(op, self.expr(dtype, below), self.expr(dtype, below))
                }
                3 => Expr::Unary(UnaryOp::Not, self.expr(dtype, below)),
                4 => {
                    let op = *self.choices.pick(&[
                        UnaryOp::IsNan,
                        UnaryOp::IsFinite,
                        UnaryOp::IsInfinite,
                    ]);
                    Expr::Unary(op, self.expr(&DType::F64, below))
                }
                _ => {
                    let of = self.scalar_type();
                    Expr::IsNull(self.expr(&of, below))
                }
            },
            DType::Float(_) => match self.choices.below(8) {
                0..=3 => {
                    let op = *self.choices.pick(&[Add, Sub, Mul, Div, Min, Max, Rem, Pow]);
                    Expr::Binary(op, self.expr(dtype, below), self.expr(dtype, below))
                }
                4 | 5 => {
                    let op = *self.choices.pick(&[
                        UnaryOp::Neg,
                        UnaryOp::Abs,
                        UnaryOp::Sqrt,
                        UnaryOp::Floor,
                        UnaryOp::Round,
                        UnaryOp::Sign,
                        UnaryOp::Exp,
                        UnaryOp::Sin,
                    ]);
                    Expr::Unary(op, self.expr(dtype, below))
                }
                6 if *dtype == DType::F64 => match self.function {
                    Some(func) if self.choices.below(2) == 0 => Expr::Call {
                        func,
                        args: vec![self.expr(dtype, below)],
                    },
                    _ => Expr::Clip {
                        value: self.expr(dtype, below),
                        lo: self.constant(dtype),
                        hi: self.expr(dtype, below),
                    },
                },
                _ => {
                    let from = self
                        .choices
                        .pick(&[DType::I64, DType::F32, DType::U64])
                        .clone();
                    Expr::Cast(self.expr(&from, below), dtype.clone())
                }
            },
            DType::Int(_) | DType::UInt(_) => match self.choices.below(8) {
                0..=4 => {
                    let op = *self.choices.pick(&[
                        Add, Sub, Mul, Div, Rem, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr, Pow,
                    ]);
                    Expr::Binary(op, self.expr(dtype, below), self.expr(dtype, below))
                }
                5 => {
                    let op = *self
                        .choices
                        .pick(&[UnaryOp::Abs, UnaryOp::BitNot, UnaryOp::Sign]);
                    Expr::Unary(op, self.expr(dtype, below))
                }
                6 if *dtype == DType::I32
                    && self.scope.instants
                    && self.program.unit != Unit::Tick =>
                {
                    let part = *self.choices.pick(&[
                        TimePart::Second,
                        TimePart::Day,
                        TimePart::Weekday,
                        TimePart::Year,
                    ]);
                    let time = DType::Timestamp(self.program.unit);
                    Expr::Unary(UnaryOp::Part(part), self.expr(&time, below))
                }
                _ => {
                    let from = self
                        .choices
                        .pick(&[DType::F64, DType::I64, DType::Bool])
                        .clone();
                    Expr::Cast(self.expr(&from, below), dtype.clone())
                }
            },
            DType::Timestamp(unit) => match self.choices.below(3) {
                0 => Expr::Time,
                1 => {
                    let stream = self.stream();
                    Expr::Edge {
                        stream,
                        offset: self.choices.offset(),
                        edge: *self.choices.pick(&[Edge::End, Edge::Start]),
                    }
                }
                _ => {
                    let length = DType::Duration(*unit);
                    Expr::Binary(Add, self.expr(dtype, below), self.expr(&length, below))
                }
            },
            DType::Duration(unit) if self.choices.one_in(3) && *unit != Unit::Tick => {
                let other = *self.choices.pick(&[Unit::Milli, Unit::Second, Unit::Nano]);
                Expr::Cast(self.expr(&DType::Duration(other), below), dtype.clone())
            }
            DType::Duration(_) if self.choices.one_in(4) => {
                let op = *self.choices.pick(&[Mul, Div]);
                Expr::Binary(op, self.expr(dtype, below), self.expr(&DType::I64, below))
            }
            DType::Duration(_) => {
                let op = *self.choices.pick(&[Add, Sub, Min, Max, Rem]);
                Expr::Binary(op, self.expr(dtype, below), self.expr(dtype, below))
            }
            DType::Utf8 => {
                let op = *self.choices.pick(&[Min, Max]);
                Expr::Binary(op, self.expr(dtype, below), self.expr(dtype, below))
            }
            DType::Record(fields) => {
                let fields = fields.clone();
                Expr::Record(
                    fields
                        .iter()
                        .map(|f| (f.name.clone(), self.expr(&f.dtype, below)))
                        .collect(),
                )
            }
            DType::List(_) => return self.reduction(dtype, depth),
        };
        self.add(expr)
    }

    /// A reduction that gives the type, or two over one window.
    fn reduction(&mut self, dtype: &DType, depth: usize) -> ExprId {
        let stream = self.stream();
        self.reduce_stream(stream, dtype, depth)
    }

    fn reduce_stream(&mut self, stream: StreamId, dtype: &DType, depth: usize) -> ExprId {
        let (agg, of) = self.agg(dtype);
        let (mut window, map) = self.window(stream, &of, depth);
        let first = self.add(Expr::Reduce { agg, window, map });
        let merge = match dtype {
            DType::Bool => BinaryOp::And,
            DType::Float(_) | DType::Int(_) => BinaryOp::Sub,
            _ => return first,
        };
        // Again over the same window, or by the same reduction over one that is longer.
        let second = match self.choices.below(8) {
            5 => match (self.agg(dtype), dtype) {
                ((agg, also), _) if also == of => agg,
                (_, DType::Float(_)) => Agg::Mean,
                _ => return first,
            },
            6 | 7 => {
                if let Bounds::Time { lo, .. } = &mut window.bounds {
                    *lo = match self.choices.below(3) {
                        0 => lo.map(|lo| lo - 5),
                        1 => lo.map(|lo| lo - 1),
                        _ => None,
                    };
                }
                agg
            }
            _ => return first,
        };
        let again = Expr::Reduce {
            agg: second,
            window,
            map,
        };
        match self.program.add(again) {
            Ok(again) if self.program.dtype(again) == dtype => {
                self.add(Expr::Binary(merge, first, again))
            }
            _ => first,
        }
    }

    /// A reduction that gives the type, and what it folds.
    fn agg(&mut self, dtype: &DType) -> (Agg, DType) {
        let unit = self.program.unit;
        let q = Ratio::new(*self.choices.pick(&[0.5, 0.0, 1.0, 0.3]));
        let method = *self.choices.pick(&[
            QuantileMethod::Linear,
            QuantileMethod::Lower,
            QuantileMethod::Higher,
            QuantileMethod::Nearest,
            QuantileMethod::Midpoint,
        ]);
        let floats = [
            Agg::Sum,
            Agg::Mean,
            Agg::Min,
            Agg::Max,
            Agg::Min,
            Agg::Max,
            Agg::Last,
            Agg::First,
            Agg::Var { ddof: 1 },
            Agg::Std { ddof: 1 },
            Agg::Std { ddof: 0 },
            Agg::Rms,
            Agg::CrestFactor,
            Agg::Product,
            Agg::Median,
            Agg::Quantile { q, method },
            Agg::Skew { bias: true },
            Agg::Skew { bias: false },
            Agg::Kurtosis {
                fisher: true,
                bias: false,
            },
            Agg::Kurtosis {
                fisher: false,
                bias: true,
            },
            Agg::Twa,
            Agg::Integral,
            Agg::Slope,
            Agg::Ewm {
                alpha: Ratio::new(0.25),
            },
            Agg::Mode,
        ];
        match dtype {
            DType::Float(FloatWidth::W64) => match self.reducer {
                Some(reducer) if self.choices.one_in(4) => (Agg::Custom(reducer), DType::F64),
                // Statistics of integers are doubles.
                _ if self.choices.one_in(6) => {
                    let agg = [Agg::Mean, Agg::Rms, Agg::Std { ddof: 1 }, Agg::CrestFactor];
                    (*self.choices.pick(&agg), DType::I64)
                }
                _ => (*self.choices.pick(&floats), DType::F64),
            },
            DType::Int(Width::W64) => {
                let of = [DType::I64, DType::F64, DType::Bool, DType::I32];
                let of = self.choices.pick(&of).clone();
                match self.choices.below(4) {
                    0 => (Agg::Len, of),
                    1 => (Agg::NUnique, of),
                    2 if of == DType::I64 => (*self.choices.pick(&[Agg::Max, Agg::Min]), of),
                    _ if of == DType::F64 => (Agg::Len, of),
                    _ => (Agg::Sum, of),
                }
            }
            DType::Bool => (
                *self.choices.pick(&[Agg::Any, Agg::All, Agg::Last]),
                DType::Bool,
            ),
            DType::Timestamp(u) if self.scope.instants && *u == unit => {
                (*self.choices.pick(&[Agg::ArgMin, Agg::ArgMax]), DType::F64)
            }
            DType::Record(_) => (*self.choices.pick(&[Agg::Last, Agg::First]), dtype.clone()),
            DType::Duration(u) if *u == unit => (Agg::Sum, dtype.clone()),
            DType::List(item) => match self.choices.below(3) {
                0 => (Agg::TopK { k: 2 }, (**item).clone()),
                1 => (Agg::Collect, (**item).clone()),
                _ => (Agg::Last, dtype.clone()),
            },
            _ => (
                *self
                    .choices
                    .pick(&[Agg::Max, Agg::Min, Agg::Last, Agg::Mode]),
                dtype.clone(),
            ),
        }
    }

    /// A window over the stream and a map to values of the type; one that was there before if that can be.
    fn window(&mut self, stream: StreamId, of: &DType, depth: usize) -> (Window, Option<ExprId>) {
        if self.choices.one_in(3) {
            let known: Vec<_> = self
                .folded
                .iter()
                .filter(|(window, _, dtype)| dtype == of && Some(window.stream) != self.this)
                .cloned()
                .collect();
            if !known.is_empty() {
                let (window, map, _) = self.choices.pick(&known).clone();
                return (window, map);
            }
        }
        let bounds = match self.choices.below(10) {
            8 | 9 => Bounds::Event,
            0..=4 => {
                let (lo, hi) = self.bounds();
                Bounds::Time { lo: Some(lo), hi }
            }
            5 => Bounds::Time { lo: None, hi: 0 },
            6 => {
                let hi = *self.choices.pick(&[0, -1, 1]);
                let width = 1 + self.choices.below(4) as i64;
                Bounds::Ordinal {
                    lo: Some(hi - width),
                    hi,
                }
            }
            _ => Bounds::Ordinal { lo: None, hi: 0 },
        };
        let window = Window { stream, bounds };
        let as_it_is = *self.program.stream_dtype(stream) == *of && !self.choices.one_in(3);
        let map = (!as_it_is).then(|| self.map(stream, of, depth.saturating_sub(1)));
        if self.vars.is_empty() {
            self.folded.push((window, map, of.clone()));
        }
        (window, map)
    }

    fn map(&mut self, stream: StreamId, of: &DType, depth: usize) -> ExprId {
        let outside = std::mem::replace(&mut self.in_map, true);
        let dtype = self.program.stream_dtype(stream).clone();
        let expr = match (&dtype, self.choices.below(3)) {
            // The event itself, changed a little.
            (dtype, 0 | 1) if dtype == of && dtype.is_number() => {
                let value = self.add(Expr::At { stream, offset: 0 });
                let other = self.constant(of);
                self.add(Expr::Binary(BinaryOp::Mul, value, other))
            }
            (DType::Record(fields), 0 | 1) if fields.iter().any(|f| f.dtype == *of) => {
                let name = fields
                    .iter()
                    .find(|f| f.dtype == *of)
                    .expect("just found")
                    .name
                    .clone();
                let value = self.add(Expr::At { stream, offset: 0 });
                self.add(Expr::Field(value, name))
            }
            _ => self.expr(of, depth.min(2)),
        };
        self.in_map = outside;
        expr
    }
}

/// Random data for the inputs of a program. `base` is where time starts.
pub(crate) fn inputs(choices: &mut Choices, program: &Program, base: i64) -> Inputs {
    let mut inputs = Inputs::new();
    for (_, input) in program.inputs() {
        let events = events(choices, input, base);
        inputs.insert(input.name.clone(), events);
    }
    inputs
}

fn events(choices: &mut Choices, input: &Input, base: i64) -> Vec<Event> {
    // Mostly some, rarely none.
    let count = [5, 3, 8, 11, 1, 9, 6, 0, 4, 7, 2, 10, 60][choices.below(13)];
    if count < 60 {
        return some_events(choices, input, base, count);
    }
    // Long enough for windows of several groups of eight, made of two choices.
    let mut state = (choices.below(1 << 16) as u64) << 16 | choices.below(1 << 16) as u64;
    let many: Vec<u16> = (0..400)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as u16
        })
        .collect();
    let mut many = Choices::new(&many);
    let count = 12 + many.below(49);
    some_events(&mut many, input, base, count)
}

fn some_events(choices: &mut Choices, input: &Input, base: i64, count: usize) -> Vec<Event> {
    let bag = input.overlap != Overlap::Disjoint;
    let mut events: Vec<Event> = Vec::new();
    let mut last = base;
    for _ in 0..count {
        let gap = *choices.pick(&[1i64, 2, 0, 5, 1, 10, 33]);
        let length = match input.span {
            SpanRule::Point | SpanRule::UntilNext => 1,
            SpanRule::Fixed(d) => d,
            SpanRule::Interval => *choices.pick(&[1, 3, 7, 20]),
        };
        // Disjoint events follow each other; those of a bag may overlap but are ordered by end.
        let end = if bag {
            last + gap
        } else {
            last + gap + length - i64::from(gap > 0 && length == 1)
        };
        let end = if !bag && end - length < last {
            last + length
        } else {
            end
        };
        events.push(Event {
            start: end - length,
            end,
            value: value(choices, &input.dtype),
        });
        last = end;
    }
    if input.span == SpanRule::UntilNext {
        for i in 0..events.len() {
            events[i].end = events.get(i + 1).map_or(OPEN, |next| next.start);
        }
    }
    events
}

fn value(choices: &mut Choices, dtype: &DType) -> Value {
    if choices.one_in(8) && dtype.is_scalar() {
        return Value::Null;
    }
    match dtype {
        DType::Bool => Value::Bool(choices.below(2) == 0),
        DType::Int(width) => {
            let max = i64::MAX >> (64 - width.bits());
            Value::Int(*choices.pick(&[1, 0, 2, -3, 7, 100, -128, max]))
        }
        DType::Timestamp(_) | DType::Duration(_) => {
            Value::Int(*choices.pick(&[0, 5, -3, 86_400, 1_700_000_000]))
        }
        DType::UInt(width) => {
            let max = u64::MAX >> (64 - width.bits());
            Value::UInt(*choices.pick(&[1, 0, 2, 7, 200, max]))
        }
        DType::Float(width) => {
            let v = *choices.pick(&[
                1.0,
                2.0,
                0.1,
                -3.25,
                0.0,
                -0.0,
                3.7,
                1e3,
                1e-3,
                -0.7,
                f64::NAN,
                f64::INFINITY,
                1e300,
            ]);
            Value::Float(tilt::ir::round_to(*width, v))
        }
        DType::Utf8 => Value::Str(Arc::from(*choices.pick(&["a", "b", "", "é", "abc"]))),
        DType::Record(fields) => Value::record(
            fields
                .iter()
                .map(|f| value(choices, &f.dtype))
                .collect::<Vec<_>>(),
        ),
        DType::List(_) => Value::Null,
    }
}
