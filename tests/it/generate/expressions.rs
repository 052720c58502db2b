//! Expressions of a type.

use tilt::ir::{
    Agg, BinaryOp, Bounds, DType, Edge, Expr, ExprId, Scalar, StreamId, TimePart, UnaryOp, Unit,
    Window,
};

use super::Maker;

impl Maker<'_, '_> {
    /// An expression of the type.
    pub(super) fn expr(&mut self, dtype: &DType, depth: usize) -> ExprId {
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

    pub(super) fn leaf(&mut self, dtype: &DType) -> ExprId {
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

    pub(super) fn constant(&mut self, dtype: &DType) -> ExprId {
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
}
