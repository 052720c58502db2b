//! Windows and their reductions.

use super::{
    Stream,
    draft::Draft,
    error::{Checked, Problem},
    length::Length,
    literal::{Literal, Operand},
    operators::{self, Binary},
    record::unzipped,
    reducer::Reducer,
};
use crate::{
    calendar::{self, Calendar},
    expr::{self, Agg, BinaryOp, Bounds, Expr, QuantileMethod, Ratio, UnaryOp},
    ids::{ExprId, StreamId},
    program::Clock,
    types::DType,
};

/// Some events around an instant, until a reduction folds them.
///
/// ```
/// # use tilt_ir::{DType, Input, Unit, build::Stream};
/// let x = Stream::input(Input::point("x", DType::F64, Unit::Second));
/// let spread = x.tumbling("10m");
/// let spread = spread.agg([("range", spread.max() - spread.min()), ("n", spread.len())]);
/// assert_eq!(spread.dtype()?.to_string(), "{range: f64, n: i64}");
/// # Ok::<(), tilt_ir::build::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    stream: Stream,
    /// What each event contributes, if not its own value.
    value: Option<Stream>,
    lo: Option<Length>,
    hi: Length,
    closed: Closed,
    pace: Pace,
    min_samples: u32,
}

/// Which ends of a window belong to it. Instants are whole ticks, so a closure moves an end by one tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// `(t+lo, t+hi]`.
    Right,
    /// `[t+lo, t+hi)`.
    Left,
    /// `[t+lo, t+hi]`.
    Both,
    /// `(t+lo, t+hi)`.
    Neither,
}

/// When a window is looked at.
#[derive(Clone, Debug)]
enum Pace {
    /// Floating: at the stream's events, unless something else is said.
    Events,
    /// At the events whose number is a multiple.
    EachNth(u32),
    /// At the ends of a grid's cells.
    Grid {
        period: Length,
        offset: Option<Length>,
    },
    /// At the ends of a calendar's cells, each a window.
    Calendar {
        cells: Calendar,
        offset: Option<Length>,
    },
    /// At the ends of sessions, each a window.
    Sessions { gap: Length, max: Option<Length> },
    /// At the ends of another stream's events, each a window.
    During(Stream),
}

impl Stream {
    /// The last `length` of time, `(t-length, t]`, or with `"20i"` the last 20 events.
    #[must_use]
    pub fn window(&self, length: impl Into<Length>) -> Window {
        let length = length.into();
        let checked = match (&self.0, length.events()) {
            (Ok(_), Some(1..)) | (Err(_), _) => Ok(()),
            (Ok(_), Some(_)) => Err(Problem::parameter("a window holds at least one event")),
            (Ok(built), None) => length
                .positive("the window's length", built.program.unit)
                .map(drop),
        };
        let stream = match checked {
            Ok(()) => self.clone(),
            Err(problem) => self.failed("window", problem),
        };
        let now = match length.events() {
            Some(_) => Length::Events(0),
            None => Length::Ticks(0),
        };
        stream.frame(Some(length.negated()), now)
    }

    /// The events of `(t+lo, t+hi]`: `between("-10s", "+5s")`, or by number `between("-3i", "-1i")`.
    #[must_use]
    pub fn between(&self, lo: impl Into<Length>, hi: impl Into<Length>) -> Window {
        let (lo, hi) = (lo.into(), hi.into());
        if lo.events().is_some() == hi.events().is_some() {
            return self.frame(Some(lo), hi);
        }
        let problem = Problem::parameter("one bound is a length of time and the other a number");
        self.failed("between", problem)
            .frame(None, Length::Ticks(0))
    }

    /// The last `n` samples; only for streams of a known period.
    #[must_use]
    pub fn samples(&self, n: u32) -> Window {
        let period = self.0.as_ref().ok().map(|built| {
            let (draft, ids) = Draft::of(&[built.as_ref()])?;
            draft.period(ids[0])
        });
        match period {
            Some(Ok(period)) => {
                let length = period.saturating_mul(i64::from(n));
                self.frame(Some(Length::Ticks(-length)), Length::Ticks(0))
            }
            Some(Err(problem)) => self
                .failed("samples", problem)
                .frame(None, Length::Ticks(0)),
            None => self.frame(None, Length::Ticks(0)),
        }
    }

    /// All events so far.
    #[must_use]
    pub fn since_start(&self) -> Window {
        self.frame(None, Length::Events(0))
    }

    /// Windows of one length that follow each other: the cells of a grid.
    #[must_use]
    pub fn tumbling(&self, length: impl Into<Length>) -> Window {
        let length = length.into();
        self.hopping(length.clone(), length)
    }

    /// Windows of one length, one at every multiple of `every`.
    #[must_use]
    pub fn hopping(&self, length: impl Into<Length>, every: impl Into<Length>) -> Window {
        self.window(length).every(every)
    }

    /// All events up to a distance from `t`: `until("-5s")`.
    #[must_use]
    pub fn until(&self, hi: impl Into<Length>) -> Window {
        self.frame(None, hi.into())
    }

    /// The cells of a civil calendar: `calendar("1mo", Some("Europe/Paris"))`. As people say it, the instant at which a cell begins
    /// belongs to it, and the one at which it ends to the next; [`closed`](Window::closed) tells otherwise.
    #[must_use]
    pub fn calendar(&self, length: &str, zone: Option<&str>) -> Window {
        let whole = self.frame(None, Length::Ticks(0));
        let Ok(built) = &self.0 else {
            return whole;
        };
        let checked = Calendar::parse(length).and_then(|mut cells| {
            cells.zone = zone.map(str::to_owned);
            cells.cells(built.program.unit)?;
            Ok(cells)
        });
        match checked {
            Ok(cells) => Window {
                closed: Closed::Left,
                pace: Pace::Calendar {
                    cells,
                    offset: None,
                },
                ..whole
            },
            Err(error) => Window {
                stream: self.failed("calendar", error.into()),
                ..whole
            },
        }
    }

    /// Runs of events that are at most `gap` apart; an event that would make a session longer than `max` begins another one.
    #[must_use]
    pub fn sessions(&self, gap: impl Into<Length>, max: Option<Length>) -> Window {
        Window {
            pace: Pace::Sessions {
                gap: gap.into(),
                max,
            },
            ..self.frame(None, Length::Ticks(0))
        }
    }

    /// What happens here during each event of another stream.
    #[must_use]
    pub fn during(&self, other: &Self) -> Window {
        Window {
            pace: Pace::During(other.clone()),
            ..self.frame(None, Length::Ticks(0))
        }
    }

    fn frame(&self, lo: Option<Length>, hi: Length) -> Window {
        Window {
            stream: self.clone(),
            value: None,
            lo,
            hi,
            closed: Closed::Right,
            pace: Pace::Events,
            min_samples: 0,
        }
    }

    /// The running sum.
    #[must_use]
    pub fn cum_sum(&self) -> Self {
        self.since_start().sum()
    }

    /// The running product.
    #[must_use]
    pub fn cum_prod(&self) -> Self {
        self.since_start().product()
    }

    /// The least value so far.
    #[must_use]
    pub fn cum_min(&self) -> Self {
        self.since_start().min()
    }

    /// The greatest value so far.
    #[must_use]
    pub fn cum_max(&self) -> Self {
        self.since_start().max()
    }

    /// The number of events so far.
    #[must_use]
    pub fn cum_count(&self) -> Self {
        self.since_start().len()
    }

    /// The exponentially weighted mean by events: each older one weighs `1 - alpha` times its successor.
    #[must_use]
    pub fn ewm(&self, alpha: f64) -> Self {
        self.since_start().ewm(alpha)
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident => $agg:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Stream {
            self.reduce($agg)
        }
    )*};
}

impl Window {
    /// Which ends belong to a window by time.
    #[must_use]
    pub fn closed(mut self, closed: Closed) -> Self {
        self.closed = closed;
        self
    }

    /// φ where there are fewer contributions.
    #[must_use]
    pub fn min_samples(mut self, n: u32) -> Self {
        self.min_samples = n;
        self
    }

    /// Only at multiples of a period; the result is valid for the cell of the grid that ends there.
    #[must_use]
    pub fn every(mut self, period: impl Into<Length>) -> Self {
        self.pace = Pace::Grid {
            period: period.into(),
            offset: None,
        };
        self
    }

    /// Moves the grid of tumbling and hopping windows, or the boundaries of a calendar.
    #[must_use]
    pub fn offset(mut self, by: impl Into<Length>) -> Self {
        if let Pace::Grid { offset, .. } | Pace::Calendar { offset, .. } = &mut self.pace {
            *offset = Some(by.into());
        } else {
            let problem = Problem::parameter("only windows on a grid have an offset")
                .hint("use `tumbling`, `hopping` or `calendar`");
            self.stream = self.stream.failed("offset", problem);
        }
        self
    }

    /// Only at every `n`-th event, counted from the first.
    #[must_use]
    pub fn each_nth(mut self, n: u32) -> Self {
        if n == 0 {
            let problem = Problem::parameter("every 0th event does not exist");
            self.stream = self.stream.failed("each_nth", problem);
        }
        self.pace = Pace::EachNth(n);
        self
    }

    /// What each event contributes, computed from the stream: `map(|x| x.abs())`.
    #[must_use]
    pub fn map(mut self, value: impl FnOnce(&Stream) -> Stream) -> Self {
        let value = value(self.value.as_ref().unwrap_or(&self.stream));
        self.value = Some(value);
        self
    }

    /// The window over one column of a record.
    #[must_use]
    pub fn field(self, name: &str) -> Self {
        self.map(|record| record.field(name))
    }

    /// Includes the value that was valid when the window began, as `wj` does in kdb: every value is held until the next.
    #[must_use]
    pub fn prevailing(mut self) -> Self {
        let value = self.value.take();
        self.stream = value.unwrap_or(self.stream).hold(None);
        self
    }

    reductions! {
        /// The sum; of integers in 64 bits.
        sum => Agg::Sum;
        /// The product.
        product => Agg::Product;
        /// The mean.
        mean => Agg::Mean;
        /// The least value.
        min => Agg::Min;
        /// The greatest value.
        max => Agg::Max;
        /// The number of events.
        len => Agg::Len;
        /// The first value.
        first => Agg::First;
        /// The last value.
        last => Agg::Last;
        /// The median.
        median => Agg::Median;
        /// The most frequent value.
        mode => Agg::Mode;
        /// The number of different values.
        n_unique => Agg::NUnique;
        /// The root mean square.
        rms => Agg::Rms;
        /// The largest absolute value over the root mean square.
        crest_factor => Agg::CrestFactor;
        /// Whether any is true.
        any => Agg::Any;
        /// Whether all are true.
        all => Agg::All;
        /// When the least value was.
        arg_min => Agg::ArgMin;
        /// When the greatest value was.
        arg_max => Agg::ArgMax;
        /// All values.
        collect => Agg::Collect;
        /// The time-weighted average.
        twa => Agg::Twa;
        /// The slope of the regression line, per tick.
        slope => Agg::Slope;
    }

    /// The integral over time, in ticks, or in multiples of `unit`.
    #[must_use]
    pub fn integral(&self, unit: Option<Length>) -> Stream {
        let integral = self.reduce(Agg::Integral);
        let Some(unit) = unit else {
            return integral;
        };
        Stream::combine("integral", &[&integral], |draft, ids| {
            let ticks = unit.positive("the unit", draft.unit())?;
            let value = draft.read(ids[0])?;
            let body = draft.binary(Binary::Divide, value, ticks as f64)?;
            draft.define("integral", Clock::At(ids[0]), body)
        })
    }

    /// The standard deviation over `n - ddof`.
    #[must_use]
    pub fn std(&self, ddof: u32) -> Stream {
        self.reduce(Agg::Std { ddof })
    }

    /// The variance over `n - ddof`.
    #[must_use]
    pub fn var(&self, ddof: u32) -> Stream {
        self.reduce(Agg::Var { ddof })
    }

    /// The quantile `q` in `[0, 1]`.
    #[must_use]
    pub fn quantile(&self, q: f64, method: QuantileMethod) -> Stream {
        self.reduce(Agg::Quantile {
            q: Ratio::new(q),
            method,
        })
    }

    /// The exponentially weighted mean by events.
    #[must_use]
    pub fn ewm(&self, alpha: f64) -> Stream {
        self.reduce(Agg::Ewm {
            alpha: Ratio::new(alpha),
        })
    }

    /// The exponentially weighted mean by time: what is `half_life` older weighs half.
    #[must_use]
    pub fn ewm_by_time(&self, half_life: impl Into<Length>) -> Stream {
        let half_life = half_life.into();
        self.define("ewm_by_time", "ewm", |draft, this| {
            let half_life = half_life.positive("the half-life", draft.unit())?;
            let time = draft.add(Expr::Time)?;
            draft.bound("now", time, |draft, now| {
                let end = draft.edge(this.window.stream, expr::Edge::End)?;
                let age = draft.ticks_between(now, end)?;
                let halvings = draft.binary(Binary::Divide, age, half_life as f64)?;
                let weight = draft.add(Expr::Unary(UnaryOp::Exp2, halvings))?;
                let value = match this.map {
                    Some(map) => map,
                    None => draft.read(this.window.stream)?,
                };
                let value = operators::converted(&mut draft.program, &value.into(), &DType::F64)?;
                let weighted = draft.add(Expr::Binary(BinaryOp::Mul, value, weight))?;
                // A contribution without a value has no weight either.
                let weight = match this.map {
                    Some(_) => {
                        let none = draft.add(Expr::IsNull(value))?;
                        let some = draft.add(Expr::Unary(UnaryOp::Not, none))?;
                        draft.only_if(some, weight)?
                    }
                    None => weight,
                };
                let sum = |map| Expr::Reduce {
                    agg: Agg::Sum,
                    window: this.window,
                    map: Some(map),
                };
                let total = draft.add(sum(weighted))?;
                let weights = draft.add(sum(weight))?;
                draft.add(Expr::Binary(BinaryOp::Div, total, weights))
            })
        })
    }

    /// Any built-in reduction.
    #[must_use]
    pub fn reduce(&self, agg: Agg) -> Stream {
        self.define(agg.name(), agg.name(), |draft, this| {
            draft.add(Expr::Reduce {
                agg,
                window: this.window,
                map: this.map,
            })
        })
    }

    /// A reduction of one's own.
    #[must_use]
    pub fn reduce_with(&self, reducer: &Reducer) -> Stream {
        let name = reducer.name().to_owned();
        self.define(&format!("@{name}"), &name, |draft, this| {
            let value = match this.map {
                Some(map) => draft.program.dtype(map).clone(),
                None => draft.program.stream_dtype(this.window.stream).clone(),
            };
            let id = reducer.import_into(draft, &value)?;
            draft.add(Expr::Reduce {
                agg: Agg::Custom(id),
                window: this.window,
                map: this.map,
            })
        })
    }

    /// A record of several reductions of this window, and of expressions over them, where the window is not empty.
    #[must_use]
    pub fn agg<C: Into<Operand>>(
        &self,
        columns: impl IntoIterator<Item = (impl Into<String>, C)>,
    ) -> Stream {
        let (names, columns) = unzipped(columns);
        let mut operands = vec![Operand::Stream(self.len())];
        operands.extend(columns);
        Stream::apply("agg", "agg", &operands, |program, args| {
            let mut fields = Vec::with_capacity(names.len());
            for (name, arg) in names.into_iter().zip(&args[1..]) {
                fields.push((name, operators::settled(program, arg)?));
            }
            let record = program.add(Expr::Record(fields))?;
            let some = Binary::Plain(BinaryOp::Gt);
            let some = operators::binary(program, some, &args[0], &0_i64.into())?;
            operators::when(program, &some.into(), &record.into(), &Literal::Null.into())
        })
    }

    /// Defines a reduction: on the window's clock, where there are enough contributions.
    fn define(
        &self,
        operation: &str,
        stem: &str,
        reduction: impl FnOnce(&mut Draft, Frame) -> Checked<ExprId>,
    ) -> Stream {
        let mut operands = vec![&self.stream];
        if let Pace::During(other) = &self.pace {
            operands.push(other);
        }
        operands.extend(&self.value);
        let value = operands.len() - 1;
        Stream::combine(operation, &operands, |draft, ids| {
            let stream = ids[0];
            let window = expr::Window {
                stream,
                bounds: self.bounds(draft)?,
            };
            let value = self.value.as_ref().map_or(stream, |_| ids[value]);
            let map = match value {
                own if own == stream => None,
                value => Some(draft.read(value)?),
            };
            let mut body = reduction(draft, Frame { window, map })?;
            if self.min_samples > 0 {
                let len = draft.add(Expr::Reduce {
                    agg: Agg::Len,
                    window,
                    map,
                })?;
                let enough = Binary::Plain(BinaryOp::Ge);
                let enough = draft.binary(enough, len, i64::from(self.min_samples))?;
                body = draft.only_if(enough, body)?;
            }
            if let Pace::EachNth(n) = self.pace {
                body = draft.at_each_nth(stream, n, body)?;
            }
            let clock = match &self.pace {
                Pace::Grid { period, offset } => draft.grid(period, offset.as_ref())?,
                Pace::Events | Pace::EachNth(_) => Clock::At(stream),
                Pace::Calendar { cells, offset } => {
                    let offset = offset.as_ref().map(|by| by.ticks(draft.unit()));
                    let closed = match self.closed {
                        Closed::Left => calendar::Closed::Left,
                        Closed::Right => calendar::Closed::Right,
                        Closed::Both | Closed::Neither => {
                            let problem = "every instant belongs to one cell of a calendar";
                            return Err(Problem::parameter(problem)
                                .hint("close cells on the `left` or on the `right`"));
                        }
                    };
                    Clock::Calendar(Calendar {
                        offset: offset.transpose()?.unwrap_or(0),
                        closed,
                        ..cells.clone()
                    })
                }
                Pace::Sessions { gap, max } => {
                    let unit = draft.unit();
                    let max = max.as_ref().map(|max| max.positive("the longest", unit));
                    Clock::Sessions {
                        stream,
                        gap: gap.positive("the gap", unit)?,
                        max: max.transpose()?,
                    }
                }
                Pace::During(_) => Clock::At(ids[1]),
            };
            let source = draft.program.streams[value].name();
            let stem = format!("{stem}_{source}");
            draft.define(&stem, clock, body)
        })
    }

    fn bounds(&self, draft: &Draft) -> Checked<Bounds> {
        if let Pace::Calendar { .. } | Pace::Sessions { .. } | Pace::During(_) = self.pace {
            return Ok(Bounds::Event);
        }
        let by_time = Problem::parameter("a window by count has no closure to choose")
            .hint("move its bounds: `between(\"-3i\", \"-1i\")`");
        if let Some(hi) = self.hi.events() {
            let lo = self.lo.as_ref().and_then(Length::events);
            return match self.closed {
                Closed::Right => Ok(Bounds::Ordinal { lo, hi }),
                _ => Err(by_time),
            };
        }
        let unit = draft.unit();
        let lo = self.lo.as_ref().map(|lo| lo.ticks(unit)).transpose()?;
        let hi = self.hi.ticks(unit)?;
        let (first, last) = match self.closed {
            Closed::Right => (0, 0),
            Closed::Left => (-1, -1),
            Closed::Both => (-1, 0),
            Closed::Neither => (0, -1),
        };
        Ok(Bounds::Time {
            lo: lo.map(|lo| lo.saturating_add(first)),
            hi: hi.saturating_add(last),
        })
    }
}

/// What a reduction folds.
#[derive(Clone, Copy)]
struct Frame {
    window: expr::Window,
    map: Option<ExprId>,
}

impl Draft {
    /// `value` at the events of `stream` whose number is a multiple of `n`.
    fn at_each_nth(&mut self, stream: StreamId, n: u32, value: ExprId) -> Checked<ExprId> {
        let number = self.add(Expr::Reduce {
            agg: Agg::Len,
            window: expr::Window {
                stream,
                bounds: Bounds::Ordinal { lo: None, hi: 0 },
            },
            map: None,
        })?;
        let rest = self.binary(Binary::Plain(BinaryOp::Rem), number, i64::from(n))?;
        let due = self.binary(Binary::Plain(BinaryOp::Eq), rest, 0_i64)?;
        self.only_if(due, value)
    }
}
