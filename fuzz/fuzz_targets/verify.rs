//! Programs that nobody would write, through the public fields: ids of nothing, wrong types, cycles, deep chains. The verifier
//! tells without a panic, and what it lets pass every analysis and every pass can take.

#![no_main]

#[path = "../bytes.rs"]
mod bytes;
#[path = "../../tests/it/generate/mod.rs"]
#[allow(dead_code, unused_imports)]
mod generate;

use generate::{Choices, Scope};
use libfuzzer_sys::fuzz_target;
use tilt::ir::{
    self, Agg, BinaryOp, Bounds, Calendar, CalendarUnit, Clock, Closed, DType, Edge, Expr, ExprId,
    Field, FuncId, Id, Lambda, Lineage, Node, Pipeline, Program, QuantileMethod, Ratio, ReducerId,
    Scalar, Source, SpanRule, Stream, StreamId, TimePart, Timelines, UnaryOp, Unit, VarId, Width,
    Window, pass::PASSES,
};

/// Shared nodes count as often as they are used; some walks take that long.
const MAX_TREE: u64 = 20_000;

fuzz_target!(|data: &[u8]| {
    let choices = bytes::choices(data);
    let mut program = generate::program(&mut Choices::new(&choices), Scope { instants: true });
    let mut vandal = Vandal {
        program: &mut program,
        choices: Choices::reversed(&choices),
    };
    for _ in 0..vandal.choices.below(8) {
        vandal.act();
    }
    if let Err(error) = ir::verify(&program) {
        let _ = error.to_string();
        return;
    }
    if tree_size(&program) > MAX_TREE {
        return;
    }
    let _ = Timelines::new(&program);
    let _ = Lineage::new(&program);
    let text = program.to_string();
    let run = |pipeline: &Pipeline, what: &str| {
        let mut rewritten = program.clone();
        pipeline.run(&mut rewritten);
        if let Err(error) = ir::verify(&rewritten) {
            panic!("after {what}: {error}\n{text}\n{rewritten}");
        }
        let _ = Lineage::new(&rewritten);
        let _ = rewritten.to_string();
    };
    for pass in PASSES {
        run(&Pipeline::of(&[*pass]), pass.name());
    }
    run(&Pipeline::standard(), "all passes");
});

/// How many nodes the largest body has, shared ones counted wherever they are used.
fn tree_size(program: &Program) -> u64 {
    let mut sizes: Vec<u64> = Vec::new();
    for (_, node) in program.exprs.iter() {
        let mut size = 1u64;
        node.expr
            .for_each_operand(|operand| size = size.saturating_add(sizes[operand.index()]));
        sizes.push(size);
    }
    sizes.into_iter().max().unwrap_or(0)
}

/// Damages a program.
struct Vandal<'p, 'c> {
    program: &'p mut Program,
    choices: Choices<'c>,
}

impl Vandal<'_, '_> {
    fn act(&mut self) {
        match self.choices.below(16) {
            0..=3 => {
                // A new node that is used somewhere, mostly with the type its operands give.
                let id = self.node();
                if self.choices.below(3) > 0 {
                    let stream = self.stream();
                    let dtype = self.program.dtype(id).clone();
                    if let Some(Stream::Temporal(temporal)) = stream_mut(self.program, stream) {
                        temporal.body = id;
                        temporal.dtype = dtype;
                    }
                }
            }
            4..=6 => {
                let id = self.expr();
                let expr = self.random();
                if self.program.exprs.contains(id) {
                    self.program.exprs[id].expr = expr;
                }
            }
            7 => {
                let id = self.expr();
                let dtype = self.dtype();
                if self.program.exprs.contains(id) {
                    self.program.exprs[id].dtype = dtype;
                }
            }
            8 | 9 => {
                let clock = self.clock();
                let stream = self.stream();
                if let Some(Stream::Temporal(temporal)) = stream_mut(self.program, stream) {
                    temporal.clock = clock;
                }
            }
            10 => {
                let (stream, body) = (self.stream(), self.expr());
                if let Some(Stream::Temporal(temporal)) = stream_mut(self.program, stream) {
                    temporal.body = body;
                }
            }
            11 => self.program.output = self.stream(),
            12 => {
                let (stream, dtype) = (self.stream(), self.dtype());
                let (number, name) = (self.number(), self.name());
                match stream_mut(self.program, stream) {
                    Some(Stream::Temporal(temporal)) => temporal.name = name,
                    Some(Stream::Input(input)) => match number.rem_euclid(6) {
                        0 => input.name = name,
                        1 => input.dtype = dtype,
                        2 => input.span = SpanRule::Fixed(number),
                        3 => input.period = Some(number),
                        4 => input.key = Some(name),
                        _ => input.unit = Unit::Nano,
                    },
                    None => {}
                }
            }
            13 => {
                // A chain, longer than the verifier allows if it must be.
                let mut id = self.expr();
                for _ in 0..self.choices.below(3_000) {
                    let Ok(next) = self.program.add(Expr::Unary(UnaryOp::Abs, id)) else {
                        break;
                    };
                    id = next;
                }
                let stream = self.stream();
                if let Some(Stream::Temporal(temporal)) = stream_mut(self.program, stream) {
                    temporal.body = id;
                }
            }
            14 => {
                let (id, body, param) = (self.reducer(), self.expr(), self.var());
                if self.program.reducers.contains(id) {
                    let reducer = &mut self.program.reducers[id];
                    let lambda = Lambda {
                        params: vec![param],
                        body,
                    };
                    match self.choices.below(5) {
                        0 => reducer.init = body,
                        1 => reducer.acc.body = body,
                        2 => reducer.merge = Some(lambda),
                        3 => reducer.result = lambda,
                        _ => reducer.acc.params.push(param),
                    }
                }
            }
            _ => {
                // The same variable bound in two places.
                let (var, value, body) = (self.var(), self.expr(), self.expr());
                let _ = self.program.add(Expr::Let { var, value, body });
            }
        }
    }

    fn node(&mut self) -> ExprId {
        let expr = self.random();
        match self.program.add(expr.clone()) {
            Ok(id) => id,
            Err(_) => {
                let dtype = self.dtype();
                self.program.exprs.push(Node { expr, dtype })
            }
        }
    }

    fn expr(&mut self) -> ExprId {
        let count = self.program.exprs.len();
        // The latest first: they are used; rarely one that does not exist.
        let back = self.choices.below(count + 2);
        Id::new((count + 1).saturating_sub(back + usize::from(back < count)))
    }

    fn stream(&mut self) -> StreamId {
        Id::new(self.choices.below(self.program.streams.len() + 1))
    }

    fn var(&mut self) -> VarId {
        Id::new(self.choices.below(self.program.vars.len() + 1))
    }

    fn reducer(&mut self) -> ReducerId {
        Id::new(self.choices.below(self.program.reducers.len() + 1))
    }

    fn func(&mut self) -> FuncId {
        Id::new(self.choices.below(self.program.functions.len() + 1))
    }

    fn number(&mut self) -> i64 {
        const NUMBERS: [i64; 12] = [
            0,
            1,
            -1,
            5,
            -5,
            1 << 61,
            -(1 << 62),
            1 << 62,
            i64::MIN,
            i64::MAX,
            60,
            -7,
        ];
        NUMBERS[self.choices.below(NUMBERS.len())]
    }

    fn name(&mut self) -> String {
        ["x0", "s0", "a", "", "`", "t", "let", "é"][self.choices.below(8)].to_owned()
    }

    fn dtype(&mut self) -> DType {
        match self.choices.below(12) {
            0..=2 => DType::F64,
            3 => DType::Bool,
            4 => DType::I64,
            5 => DType::UInt(Width::W8),
            6 => DType::Utf8,
            7 => DType::Timestamp(Unit::Milli),
            8 => DType::Duration(self.program.unit),
            9 => DType::List(Box::new(self.dtype())),
            _ => {
                let count = self.choices.below(3);
                let fields = (0..count).map(|_| Field {
                    name: self.name(),
                    dtype: self.dtype(),
                });
                DType::Record(fields.collect())
            }
        }
    }

    fn clock(&mut self) -> Clock {
        match self.choices.below(6) {
            0 => Clock::At(self.stream()),
            4 => Clock::Sessions {
                stream: self.stream(),
                gap: self.number(),
                max: (self.choices.below(2) > 0).then(|| self.number()),
            },
            5 => Clock::Calendar(Calendar {
                count: self.number() as u32,
                unit: CalendarUnit::Month,
                zone: (self.choices.below(2) > 0).then(|| self.name()),
                offset: self.number(),
                closed: Closed::Left,
            }),
            1 => Clock::Every {
                period: self.number(),
                offset: self.number(),
            },
            _ => {
                let count = self.choices.below(4);
                Clock::OnChange((0..count).map(|_| self.source()).collect())
            }
        }
    }

    fn source(&mut self) -> Source {
        let stream = self.stream();
        match self.choices.below(3) {
            0 => Source::Value {
                stream,
                offset: self.number(),
            },
            1 => Source::Hold {
                stream,
                offset: self.number(),
                max_age: Some(self.number()),
            },
            _ => Source::Window {
                stream,
                lo: self.number(),
                hi: self.number(),
            },
        }
    }

    fn random(&mut self) -> Expr {
        let stream = self.stream();
        match self.choices.below(20) {
            0 => Expr::Const(Scalar::Int(self.number()), self.dtype()),
            1 => Expr::Const(Scalar::Float(self.number() as f64), self.dtype()),
            2 => Expr::Null(self.dtype()),
            3 => Expr::Time,
            4 => Expr::At {
                stream,
                offset: self.number(),
            },
            5 => Expr::Hold {
                stream,
                offset: self.number(),
                max_age: Some(self.number()),
            },
            6 => Expr::Prev {
                stream,
                n: self.number() as u32,
            },
            7 => Expr::Edge {
                stream,
                offset: self.number(),
                edge: Edge::End,
            },
            8 | 9 => {
                let agg = self.agg();
                let (lo, hi) = (self.number(), self.number());
                let lo = (self.choices.below(4) > 0).then_some(lo);
                let bounds = match self.choices.below(4) {
                    0 => Bounds::Ordinal { lo, hi },
                    3 => Bounds::Event,
                    _ => Bounds::Time { lo, hi },
                };
                Expr::Reduce {
                    agg,
                    window: Window { stream, bounds },
                    map: (self.choices.below(2) > 0).then(|| self.expr()),
                }
            }
            10 => Expr::Var(self.var()),
            11 => Expr::Let {
                var: self.var(),
                value: self.expr(),
                body: self.expr(),
            },
            12 => {
                let ops = [
                    UnaryOp::Neg,
                    UnaryOp::Not,
                    UnaryOp::BitNot,
                    UnaryOp::Abs,
                    UnaryOp::Sqrt,
                    UnaryOp::Part(TimePart::Year),
                ];
                Expr::Unary(ops[self.choices.below(ops.len())], self.expr())
            }
            13 | 14 => {
                let ops = [
                    BinaryOp::Add,
                    BinaryOp::And,
                    BinaryOp::Div,
                    BinaryOp::Shl,
                    BinaryOp::Eq,
                ];
                Expr::Binary(ops[self.choices.below(ops.len())], self.expr(), self.expr())
            }
            15 => Expr::Clip {
                value: self.expr(),
                lo: self.expr(),
                hi: self.expr(),
            },
            16 => Expr::When {
                cond: self.expr(),
                then: self.expr(),
                otherwise: self.expr(),
            },
            17 => match self.choices.below(3) {
                0 => Expr::IsNull(self.expr()),
                1 => Expr::Coalesce(self.expr(), self.expr()),
                _ => Expr::Cast(self.expr(), self.dtype()),
            },
            18 => match self.choices.below(2) {
                0 => {
                    let count = self.choices.below(3);
                    Expr::Record((0..count).map(|_| (self.name(), self.expr())).collect())
                }
                _ => Expr::Field(self.expr(), self.name()),
            },
            _ => {
                let count = self.choices.below(3);
                Expr::Call {
                    func: self.func(),
                    args: (0..count).map(|_| self.expr()).collect(),
                }
            }
        }
    }

    fn agg(&mut self) -> Agg {
        let level = Ratio::new([0.5, -1.0, 2.0, f64::NAN, 0.0][self.choices.below(5)]);
        match self.choices.below(10) {
            0 => Agg::Sum,
            1 => Agg::Max,
            2 => Agg::Mean,
            3 => Agg::Std { ddof: u32::MAX },
            4 => Agg::Quantile {
                q: level,
                method: QuantileMethod::Linear,
            },
            5 => Agg::Ewm { alpha: level },
            6 => Agg::TopK { k: 0 },
            7 => Agg::Collect,
            8 => Agg::CrestFactor,
            _ => Agg::Custom(self.reducer()),
        }
    }
}

fn stream_mut(program: &mut Program, id: StreamId) -> Option<&mut Stream> {
    program
        .streams
        .contains(id)
        .then(|| &mut program.streams[id])
}
