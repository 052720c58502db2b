//! Random programs and streams, typed first, from a sequence of choices.
//!
//! A generator asks [`Choices`] for numbers below a limit. Past the end of the sequence every answer is 0, which is always the
//! simplest alternative, so a shorter or smaller sequence makes a simpler program: that is all the shrinking there
//! is. Property tests take the sequence from proptest, fuzz targets from the fuzzer.

mod data;
mod expressions;
mod pieces;
mod reductions;

pub(crate) use data::{inputs, long_inputs};
pub(crate) use pieces::Pieces;

use std::collections::BTreeMap;

use tilt::{
    data::SnapshotBuffer,
    interp::{Functions, Inputs, Value, buffer_of},
    ir::{
        BinaryOp, Calendar, Clock, Closed, DType, Expr, ExprId, Field, FloatWidth, FuncId,
        Function, Input, Lambda, Overlap, Program, Reducer, ReducerId, Scalar, Source, SpanRule,
        Stream, StreamId, Unit, VarId, Width, Window,
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

/// Gives every record input the key `b`; returns their names.
pub(crate) fn key_the_records(program: &mut Program) -> Vec<String> {
    let mut names = Vec::new();
    for id in program.streams.ids().collect::<Vec<_>>() {
        if let Stream::Input(input) = &mut program.streams[id]
            && input.dtype.field("b").is_some()
        {
            input.key = Some("b".to_owned());
            names.push(input.name.clone());
        }
    }
    names
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
        let period = (self.choices.below(3) == 2).then(|| {
            let period = *self.choices.pick(&[1, 5, 2, 4, 10, 3, 60]);
            match span {
                SpanRule::Fixed(length) if overlap == Overlap::Disjoint => {
                    *self.choices.pick(&[length, period.max(length)])
                }
                _ => period,
            }
        });
        self.program.input(Input {
            name: format!("x{number}"),
            dtype,
            unit: self.program.unit,
            span,
            period,
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
}
