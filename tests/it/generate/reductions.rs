//! Windows and what they are reduced to.

use tilt::ir::{
    Agg, BinaryOp, Bounds, DType, Expr, ExprId, FloatWidth, QuantileMethod, Ratio, StreamId, Width,
    Window,
};

use super::Maker;

impl Maker<'_, '_> {
    /// A reduction that gives the type, or two over one window.
    pub(super) fn reduction(&mut self, dtype: &DType, depth: usize) -> ExprId {
        let stream = self.stream();
        self.reduce_stream(stream, dtype, depth)
    }

    pub(super) fn reduce_stream(
        &mut self,
        stream: StreamId,
        dtype: &DType,
        depth: usize,
    ) -> ExprId {
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

    pub(super) fn map(&mut self, stream: StreamId, of: &DType, depth: usize) -> ExprId {
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
