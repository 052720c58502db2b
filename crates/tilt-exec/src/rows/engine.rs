//! What is kept of a window while it moves, one kind for each family of reductions.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, VecDeque},
};

use tilt_codegen::lir::Ty;
use tilt_ir::{Agg, QuantileMethod};

use super::{
    Contributions, Numbering, Window,
    extreme::Extreme,
    formula::{self, Moments},
    frequency::Frequency,
    order::Order,
    parts::{Part, Parts, Terms},
    places::Op,
};
use crate::run::Trouble;

/// The result of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// φ.
    Nothing,
    Word(u64),
    /// The contribution of a position.
    At(u32),
}

impl Found {
    fn double(value: f64) -> Self {
        Self::Word(value.to_bits())
    }

    fn maybe(value: Option<f64>) -> Self {
        value.map_or(Self::Nothing, Self::double)
    }

    fn at(position: Option<u32>) -> Self {
        position.map_or(Self::Nothing, Self::At)
    }
}

/// A reduction and what it keeps.
#[derive(Debug)]
pub(crate) struct Engine {
    agg: Agg,
    unsigned: bool,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    Count(u64),
    Total {
        sum: i128,
        n: u64,
    },
    /// Of the factors that are not zero; `None` if it has become too large.
    Product {
        product: Option<i128>,
        zeros: u64,
        n: u64,
    },
    /// The positions that contribute.
    Ends(VecDeque<u32>),
    /// The same, the greatest first and equal ones in order.
    Top(BTreeSet<(Reverse<i64>, u32)>),
    Extreme(Extreme),
    Order(Order),
    Frequency(Frequency),
    Ewm {
        total: f64,
        weight: f64,
        n: u64,
    },
    Parts(Box<Parts>),
}

const OVERFLOW: Trouble = Trouble("an integer result that does not fit into 64 bits");

impl Engine {
    /// A reduction that has seen nothing; of a source that may grow, or one that is known as a whole.
    pub(crate) fn new(agg: Agg, word: Option<Ty>, numbering: Numbering, grows: bool) -> Self {
        let float = word == Some(Ty::F64);
        let parts = |terms| Kept::Parts(Box::new(Parts::new(terms, numbering)));
        let kept = match agg {
            Agg::Sum | Agg::Mean if float => parts(Terms::Values(Op::Add)),
            Agg::Product if float => parts(Terms::Values(Op::Mul)),
            Agg::Sum | Agg::Mean | Agg::Any | Agg::All => Kept::Total { sum: 0, n: 0 },
            Agg::Product => Kept::Product {
                product: Some(1),
                zeros: 0,
                n: 0,
            },
            Agg::First | Agg::Last | Agg::Collect => Kept::Ends(VecDeque::new()),
            Agg::TopK { .. } => Kept::Top(BTreeSet::new()),
            Agg::Min | Agg::ArgMin => Kept::Extreme(Extreme::new(false)),
            Agg::Max | Agg::ArgMax => Kept::Extreme(Extreme::new(true)),
            Agg::Median | Agg::Quantile { .. } => Kept::Order(Order::new(grows)),
            Agg::Mode | Agg::NUnique => Kept::Frequency(Frequency::default()),
            Agg::Ewm { .. } => Kept::Ewm {
                total: 0.0,
                weight: 0.0,
                n: 0,
            },
            Agg::Rms | Agg::CrestFactor => parts(Terms::Squares),
            Agg::Var { .. } | Agg::Std { .. } => parts(Terms::Powers(2)),
            Agg::Skew { .. } => parts(Terms::Powers(3)),
            Agg::Kurtosis { .. } => parts(Terms::Powers(4)),
            Agg::Slope => parts(Terms::Line),
            Agg::Integral | Agg::Twa => parts(Terms::Areas),
            Agg::Len | Agg::Custom(_) => Kept::Count(0),
        };
        Self {
            agg,
            unsigned: word == Some(Ty::U64),
            kept,
        }
    }

    /// Whether windows are given as a whole, neither pushed nor popped.
    pub(crate) fn is_summed_by_parts(&self) -> bool {
        matches!(self.kept, Kept::Parts(_))
    }

    /// Whether positions can be taken out again.
    pub(crate) fn can_pop(&self) -> bool {
        match &self.kept {
            Kept::Ewm { .. } => false,
            // What has become too large cannot be divided.
            Kept::Product { product, .. } => product.is_some(),
            _ => true,
        }
    }

    pub(crate) fn clear(&mut self) {
        match &mut self.kept {
            Kept::Count(n) => *n = 0,
            Kept::Total { sum, n } => (*sum, *n) = (0, 0),
            Kept::Product { product, zeros, n } => (*product, *zeros, *n) = (Some(1), 0, 0),
            Kept::Ends(positions) => positions.clear(),
            Kept::Top(sorted) => sorted.clear(),
            Kept::Extreme(extreme) => extreme.clear(),
            Kept::Order(order) => order.clear(),
            Kept::Frequency(frequency) => frequency.clear(),
            Kept::Ewm { total, weight, n } => (*total, *weight, *n) = (0.0, 0.0, 0),
            Kept::Parts(_) => {}
        }
    }

    /// An integer contribution.
    fn integer(&self, word: u64) -> i128 {
        if self.unsigned {
            i128::from(word)
        } else {
            i128::from(word as i64)
        }
    }

    /// Adds what a position contributes, after all others.
    pub(crate) fn push(&mut self, p: usize, all: &Contributions) {
        let word = all.word(p);
        let integer = self.integer(word);
        let agg = self.agg;
        match &mut self.kept {
            Kept::Count(n) => *n += 1,
            Kept::Total { sum, n } => {
                *sum += integer;
                *n += 1;
            }
            Kept::Product { product, zeros, n } => {
                *n += 1;
                if integer == 0 {
                    *zeros += 1;
                } else {
                    let next = product.and_then(|product| product.checked_mul(integer));
                    *product = next.filter(|p| p.unsigned_abs() <= u128::from(u64::MAX));
                }
            }
            Kept::Ends(positions) => positions.push_back(p as u32),
            Kept::Top(sorted) => {
                sorted.insert((Reverse(word as i64), p as u32));
            }
            Kept::Extreme(extreme) => extreme.push(p as u32, word as i64),
            Kept::Order(order) => {
                let keys = || {
                    let key = |p: usize| all.double(p).map(|v| (key_of(v), p as u32));
                    (0..all.len()).filter_map(key).collect()
                };
                order.push(p as u32, key_of(f64::from_bits(word)), keys);
            }
            Kept::Frequency(frequency) => frequency.push(p as u32, word as i64),
            Kept::Ewm { total, weight, n } => {
                let alpha = match agg {
                    Agg::Ewm { alpha } => alpha.get(),
                    _ => 0.0,
                };
                let keep = 1.0 - alpha;
                *total = f64::from_bits(word) + keep * *total;
                *weight = 1.0 + keep * *weight;
                *n += 1;
            }
            Kept::Parts(_) => {}
        }
    }

    /// Takes out what a position contributed, the first one.
    pub(crate) fn pop(&mut self, p: usize, all: &Contributions) {
        let word = all.word(p);
        let integer = self.integer(word);
        match &mut self.kept {
            Kept::Count(n) => *n -= 1,
            Kept::Total { sum, n } => {
                *sum -= integer;
                *n -= 1;
            }
            Kept::Product { product, zeros, n } => {
                *n -= 1;
                if integer == 0 {
                    *zeros -= 1;
                } else {
                    *product = product.map(|product| product / integer);
                }
            }
            Kept::Ends(positions) => {
                positions.pop_front();
            }
            Kept::Top(sorted) => {
                sorted.remove(&(Reverse(word as i64), p as u32));
            }
            Kept::Extreme(extreme) => extreme.pop(p as u32),
            Kept::Order(order) => order.pop(p as u32, key_of(f64::from_bits(word))),
            Kept::Frequency(frequency) => frequency.pop(word as i64),
            Kept::Ewm { .. } | Kept::Parts(_) => {}
        }
    }

    /// The positions of the list that the window makes; `None` if nothing contributes.
    pub(crate) fn items(&self) -> Option<impl Iterator<Item = u32>> {
        let (ends, top) = match &self.kept {
            Kept::Ends(positions) if !positions.is_empty() => (Some(positions), None),
            Kept::Top(sorted) if !sorted.is_empty() => (None, Some(sorted)),
            _ => return None,
        };
        let most = match self.agg {
            Agg::TopK { k } => k as usize,
            _ => usize::MAX,
        };
        let ends = ends.into_iter().flatten().copied();
        let top = top.into_iter().flatten().map(|(_, position)| *position);
        Some(ends.chain(top).take(most))
    }

    /// The result of the window that has been brought about.
    pub(crate) fn result(
        &mut self,
        window: &Window,
        all: &Contributions,
    ) -> Result<Found, Trouble> {
        let (agg, unsigned) = (self.agg, self.unsigned);
        Ok(match &mut self.kept {
            Kept::Count(0)
            | Kept::Total { n: 0, .. }
            | Kept::Product { n: 0, .. }
            | Kept::Ewm { n: 0, .. } => Found::Nothing,
            Kept::Count(n) => Found::Word(*n),
            Kept::Total { sum, n } => match agg {
                Agg::Mean => Found::double(*sum as f64 / *n as f64),
                Agg::Any => Found::Word(u64::from(*sum > 0)),
                Agg::All => Found::Word(u64::from(*sum == i128::from(*n))),
                _ => Found::Word(narrow(*sum, unsigned)?),
            },
            Kept::Product { zeros: 1.., .. } => Found::Word(0),
            Kept::Product { product, .. } => {
                Found::Word(narrow(product.ok_or(OVERFLOW)?, unsigned)?)
            }
            Kept::Ends(positions) => Found::at(match agg {
                Agg::First => positions.front().copied(),
                _ => positions.back().copied(),
            }),
            Kept::Top(_) => unreachable!("lists are asked for item by item"),
            Kept::Extreme(extreme) => match (agg, extreme.first()) {
                (_, None) => Found::Nothing,
                (Agg::ArgMin | Agg::ArgMax, Some(p)) => Found::Word(all.span(p as usize).1 as u64),
                (_, Some(p)) => Found::At(p),
            },
            Kept::Order(order) if order.len() == 0 => Found::Nothing,
            Kept::Order(order) => {
                let (q, method) = match agg {
                    Agg::Quantile { q, method } => (q.get(), method),
                    _ => (0.5, QuantileMethod::Midpoint),
                };
                let len = order.len();
                let nth = |n| double_of(order.nth(n));
                Found::double(formula::quantile(len, q, method, nth))
            }
            Kept::Frequency(frequency) => match agg {
                Agg::Mode => Found::at(frequency.mode()),
                _ if frequency.distinct() == 0 => Found::Nothing,
                _ => Found::Word(frequency.distinct() as u64),
            },
            Kept::Ewm { total, weight, .. } => Found::double(*total / *weight),
            Kept::Parts(parts) => {
                let parts = parts.of(window, all);
                Found::maybe(match agg {
                    Agg::Integral | Agg::Twa => integral(agg, &parts, window, all),
                    _ => statistic(agg, &parts),
                })
            }
        })
    }
}

fn narrow(total: i128, unsigned: bool) -> Result<u64, Trouble> {
    let word = if unsigned {
        u64::try_from(total).ok()
    } else {
        i64::try_from(total).ok().map(|total| total as u64)
    };
    word.ok_or(OVERFLOW)
}

/// An integer that orders like the double: -0 below +0, NaN last.
fn key_of(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The double of a key.
fn double_of(key: i64) -> f64 {
    let bits = key ^ (((key >> 63) as u64) >> 1) as i64;
    f64::from_bits(bits as u64)
}

/// What the sums of the parts make; φ without contributions.
fn statistic(agg: Agg, parts: &[Part; 2]) -> Option<f64> {
    let [early, late] = parts;
    let n = (early.n + late.n) as f64;
    let joined = |op: Op| op.join(early.sum(0), late.sum(0));
    match agg {
        Agg::Product => joined(Op::Mul),
        Agg::Mean => joined(Op::Add).map(|sum| sum / n),
        Agg::Rms => joined(Op::Add).map(|sum| (sum / n).sqrt()),
        Agg::CrestFactor => {
            let rms = joined(Op::Add).map(|sum| (sum / n).sqrt())?;
            let peaks = parts.iter().filter(|part| part.n > 0).map(|part| part.peak);
            peaks.reduce(f64::max).map(|peak| peak / rms)
        }
        Agg::Var { ddof } => Moments::new(parts)?.variance(ddof),
        Agg::Std { ddof } => Moments::new(parts)?.variance(ddof).map(f64::sqrt),
        Agg::Skew { bias } => Moments::new(parts)?.skew(bias),
        Agg::Kurtosis { fisher, bias } => Moments::new(parts)?.kurtosis(fisher, bias),
        Agg::Slope => formula::slope(parts),
        _ => joined(Op::Add),
    }
}

/// The integral of a window, or its mean over time: what lies within, and beside it what an edge clips.
fn integral(
    agg: Agg,
    [early, late]: &[Part; 2],
    window: &Window,
    all: &Contributions,
) -> Option<f64> {
    let (mut left, mut right) = (None, None);
    let mut covered = early.length + late.length;
    let mut clipped = |p: usize, side: &mut Option<f64>| {
        let (start, end) = all.span(p);
        let Some(v) = all.double(p) else { return };
        let length = i128::from(end.min(window.to)) - i128::from(start.max(window.from));
        covered += length;
        *side = Op::Add.join(*side, Some(v * length as f64));
    };
    if window.is_list {
        for p in window.first..window.end {
            let (start, end) = all.span(p);
            if start >= window.to {
                continue;
            }
            if start < window.from {
                clipped(p, &mut left);
            } else if end > window.to {
                clipped(p, &mut right);
            }
        }
    } else {
        let mut first = window.first;
        while first < window.end && all.span(first).0 < window.from {
            clipped(first, &mut left);
            first += 1;
        }
        let mut from = window.end;
        while from > first && all.span(from - 1).1 > window.to {
            from -= 1;
        }
        for p in from..window.end {
            clipped(p, &mut right);
        }
    }
    let whole = Op::Add.join(early.sum(0), late.sum(0));
    let total = Op::Add.join(Op::Add.join(left, whole), right)?;
    Some(if agg == Agg::Twa {
        total / covered as f64
    } else {
        total
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_doubles_and_lead_back() {
        let sorted = [f64::NEG_INFINITY, -3.7, -0.0, 0.0, 1e-3, 0.1, f64::INFINITY];
        let keys = sorted.map(key_of);
        assert!(keys.is_sorted_by(|a, b| a < b));
        for (value, key) in sorted.iter().zip(keys) {
            assert_eq!(double_of(key).to_bits(), value.to_bits());
        }
        assert_eq!(key_of(f64::NAN), key_of(-f64::NAN));
        assert!(double_of(key_of(f64::NAN)).is_nan());
        assert!(key_of(f64::NAN) > key_of(f64::INFINITY));
    }
}
