//! Reductions: the fold of a window's contributions into one value.

use std::collections::BTreeMap;

use tilt_ir::{Agg, BinaryOp, DType, QuantileMethod, Span};

use crate::{
    Value,
    moments::{Moments, slope},
    place::{Place, product, sum},
    scalar::{as_double, beats, sort_doubles},
    value::Ordered,
};

/// What an event of a window contributes.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    /// Never φ.
    pub(crate) value: Value,
    /// The interval of the event.
    pub(crate) event: Span,
    /// The interval clipped to the window.
    pub(crate) clipped: Span,
    pub(crate) place: Place,
}

impl Contribution {
    /// The length within the window.
    fn length(&self) -> i128 {
        i128::from(self.clipped.end) - i128::from(self.clipped.start)
    }
}

/// Why a fold has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FoldError {
    /// An integer total does not fit into 64 bits.
    Overflow,
    /// A value of a type that typing excludes.
    Type,
}

/// Folds contributions, given in order; `dtype` is the type of the result. User-defined reductions are not for this function.
pub(crate) fn fold(
    agg: Agg,
    contributions: &[Contribution],
    dtype: &DType,
) -> Result<Value, FoldError> {
    let [first, ..] = contributions else {
        return Ok(Value::Null);
    };
    let last = &contributions[contributions.len() - 1];
    let values = || contributions.iter().map(|c| c.value.clone());
    let doubles = || -> Result<Vec<f64>, FoldError> {
        let doubles = contributions.iter().map(|c| as_double(&c.value));
        doubles.collect::<Option<_>>().ok_or(FoldError::Type)
    };
    let placed = || -> Result<Vec<(Place, f64)>, FoldError> {
        Ok(contributions
            .iter()
            .map(|c| c.place)
            .zip(doubles()?)
            .collect())
    };
    let sample = || -> Result<Vec<(Place, f64, i64)>, FoldError> {
        let with_end =
            |((place, value), c): ((Place, f64), &Contribution)| (place, value, c.event.end);
        Ok(placed()?
            .into_iter()
            .zip(contributions)
            .map(with_end)
            .collect())
    };
    let moments = || Ok(Moments::new(&sample()?));
    let n = contributions.len() as f64;
    Ok(match agg {
        Agg::Sum if *dtype == DType::F64 => sum(placed()?).into(),
        Agg::Product if *dtype == DType::F64 => product(placed()?).into(),
        Agg::Sum => narrow(integers(contributions)?.iter().sum(), dtype)?,
        Agg::Product => narrow(exact_product(&integers(contributions)?)?, dtype)?,
        Agg::Mean => Value::Float(match first.value {
            Value::Float(_) => sum(placed()?).unwrap_or(0.0) / n,
            _ => integers(contributions)?.iter().sum::<i128>() as f64 / n,
        }),
        Agg::Min => best(BinaryOp::Min, contributions).value.clone(),
        Agg::Max => best(BinaryOp::Max, contributions).value.clone(),
        Agg::ArgMin => Value::Int(best(BinaryOp::Min, contributions).event.end),
        Agg::ArgMax => Value::Int(best(BinaryOp::Max, contributions).event.end),
        Agg::Len => Value::Int(contributions.len() as i64),
        Agg::First => first.value.clone(),
        Agg::Last => last.value.clone(),
        Agg::Var { ddof } => variance(moments()?, ddof).into(),
        Agg::Std { ddof } => variance(moments()?, ddof).map(libm::sqrt).into(),
        Agg::Skew { bias } => skew(moments()?, bias).into(),
        Agg::Kurtosis { fisher, bias } => kurtosis(moments()?, fisher, bias).into(),
        Agg::Rms => Value::Float(rms(&placed()?)),
        Agg::CrestFactor => {
            let peak = doubles()?.into_iter().map(f64::abs).reduce(f64::max);
            let rms = rms(&placed()?);
            peak.map(|peak| peak / rms).into()
        }
        Agg::Any => Value::Bool(values().any(|v| matches!(v, Value::Bool(true)))),
        Agg::All => Value::Bool(values().all(|v| matches!(v, Value::Bool(true)))),
        Agg::Median => Value::Float(quantile(doubles()?, 0.5, QuantileMethod::Midpoint)),
        Agg::Quantile { q, method } => Value::Float(quantile(doubles()?, q.get(), method)),
        Agg::Mode => mode(contributions),
        Agg::NUnique => Value::Int(frequencies(contributions).len() as i64),
        Agg::TopK { k } => {
            let mut sorted: Vec<Value> = values().collect();
            // NaN is beaten by every number and so comes last; equal values keep their order.
            sorted.sort_by(|a, b| beats(BinaryOp::Max, b, a).cmp(&beats(BinaryOp::Max, a, b)));
            sorted.truncate(k as usize);
            Value::list(sorted)
        }
        Agg::Collect => Value::list(values()),
        Agg::Integral => integral(&doubles()?, contributions).into(),
        Agg::Twa => {
            let covered: i128 = contributions.iter().map(Contribution::length).sum();
            let integral = integral(&doubles()?, contributions);
            integral.map(|integral| integral / covered as f64).into()
        }
        Agg::Slope => slope(&sample()?).into(),
        Agg::Ewm { alpha } => {
            let keep = 1.0 - alpha.get();
            let (mut total, mut weight) = (0.0, 0.0);
            for v in doubles()? {
                total = v + keep * total;
                weight = 1.0 + keep * weight;
            }
            Value::Float(total / weight)
        }
        Agg::Custom(_) => return Err(FoldError::Type),
    })
}

/// Integers, bools and durations as exact numbers.
fn integers(contributions: &[Contribution]) -> Result<Vec<i128>, FoldError> {
    let exact = |c: &Contribution| match c.value {
        Value::Bool(v) => Ok(i128::from(v)),
        Value::Int(v) => Ok(i128::from(v)),
        Value::UInt(v) => Ok(i128::from(v)),
        _ => Err(FoldError::Type),
    };
    contributions.iter().map(exact).collect()
}

/// The product, or an overflow if it has more than 64 bits. Factors other than zero never bring a product back.
fn exact_product(factors: &[i128]) -> Result<i128, FoldError> {
    if factors.contains(&0) {
        return Ok(0);
    }
    factors.iter().try_fold(1i128, |total, factor| {
        let total = total * factor;
        let fits = total.unsigned_abs() <= u128::from(u64::MAX);
        fits.then_some(total).ok_or(FoldError::Overflow)
    })
}

fn narrow(total: i128, dtype: &DType) -> Result<Value, FoldError> {
    let value = match dtype {
        DType::UInt(_) => u64::try_from(total).map(Value::UInt),
        _ => i64::try_from(total).map(Value::Int),
    };
    value.map_err(|_| FoldError::Overflow)
}

/// The first contribution that no other beats.
fn best(op: BinaryOp, contributions: &[Contribution]) -> &Contribution {
    contributions
        .iter()
        .reduce(|best, c| {
            if beats(op, &c.value, &best.value) {
                c
            } else {
                best
            }
        })
        .expect("a fold has contributions")
}

fn variance(moments: Option<Moments>, ddof: u32) -> Option<f64> {
    let Moments { n, m2, .. } = moments?;
    (n > f64::from(ddof)).then(|| m2 / (n - f64::from(ddof)))
}

fn skew(moments: Option<Moments>, bias: bool) -> Option<f64> {
    let Moments { n, m2, m3, .. } = moments?;
    if !bias && n < 3.0 {
        return None;
    }
    if m2 == 0.0 {
        return Some(f64::NAN);
    }
    let biased = (libm::sqrt(n) * m3) / (m2 * libm::sqrt(m2));
    Some(if bias {
        biased
    } else {
        libm::sqrt(n * (n - 1.0)) / (n - 2.0) * biased
    })
}

fn kurtosis(moments: Option<Moments>, fisher: bool, bias: bool) -> Option<f64> {
    let Moments { n, m2, m4, .. } = moments?;
    if !bias && n < 4.0 {
        return None;
    }
    if m2 == 0.0 {
        return Some(f64::NAN);
    }
    let pearson = (n * m4) / (m2 * m2);
    Some(match (bias, fisher) {
        (true, true) => pearson - 3.0,
        (true, false) => pearson,
        (false, fisher) => {
            let part = 1.0 / ((n - 2.0) * (n - 3.0));
            let excess = ((n * n - 1.0) * part) * pearson - (3.0 * ((n - 1.0) * (n - 1.0))) * part;
            if fisher { excess } else { excess + 3.0 }
        }
    })
}

fn rms(values: &[(Place, f64)]) -> f64 {
    let squares = values.iter().map(|(place, v)| (*place, v * v));
    libm::sqrt(sum(squares).unwrap_or(0.0) / values.len() as f64)
}

// The midpoint is defined as the operation that every backend has, overflow included.
#[allow(clippy::manual_midpoint)]
fn quantile(mut values: Vec<f64>, q: f64, method: QuantileMethod) -> f64 {
    sort_doubles(&mut values);
    let h = q * (values.len() - 1) as f64;
    let at = |h: f64| values[(h as usize).min(values.len() - 1)];
    let (lo, hi) = (at(h.floor()), at(h.ceil()));
    if h == h.floor() {
        return lo;
    }
    match method {
        QuantileMethod::Linear => lo + (hi - lo) * (h - h.floor()),
        QuantileMethod::Lower => lo,
        QuantileMethod::Higher => hi,
        QuantileMethod::Nearest => at(h.round_ties_even()),
        QuantileMethod::Midpoint => (lo + hi) / 2.0,
    }
}

/// For each distinct value how often it occurs and where first. All NaN are one value, and so are -0 and +0.
fn frequencies(contributions: &[Contribution]) -> BTreeMap<Ordered, (usize, usize)> {
    let mut frequencies = BTreeMap::new();
    for (index, contribution) in contributions.iter().enumerate() {
        let value = match contribution.value {
            Value::Float(0.0) => Value::Float(0.0),
            ref value => value.clone(),
        };
        frequencies.entry(Ordered(value)).or_insert((0, index)).0 += 1;
    }
    frequencies
}

fn mode(contributions: &[Contribution]) -> Value {
    let frequencies = frequencies(contributions);
    let winner = frequencies
        .values()
        .max_by_key(|(count, first)| (*count, std::cmp::Reverse(*first)));
    let (_, first) = winner.expect("a fold has contributions");
    contributions[*first].value.clone()
}

/// Events that an edge of the window clips have no place: how much of them counts changes from window to window, and what
/// whole events add up to does not.
fn integral(values: &[f64], contributions: &[Contribution]) -> Option<f64> {
    let (mut left, mut whole, mut right) = (None, Vec::new(), None);
    for (v, c) in values.iter().zip(contributions) {
        let area = v * c.length() as f64;
        if c.event.start < c.clipped.start {
            left = either_or_sum(left, Some(area));
        } else if c.event.end > c.clipped.end {
            right = either_or_sum(right, Some(area));
        } else {
            whole.push((c.place, area));
        }
    }
    either_or_sum(either_or_sum(left, sum(whole)), right)
}

fn either_or_sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use tilt_ir::{Ratio, Unit};

    use super::*;
    use QuantileMethod::*;

    /// Points one after the other from 1, all in the late part.
    fn points<T: Into<Value> + Clone>(values: &[T]) -> Vec<Contribution> {
        let contribution = |(i, value): (usize, &T)| {
            let span = Span::new(i as i64, i as i64 + 1);
            Contribution {
                value: value.clone().into(),
                event: span,
                clipped: span,
                place: Place::late(i as i128),
            }
        };
        values.iter().enumerate().map(contribution).collect()
    }

    /// Points as of [`points`], of which the first ones are the early part.
    fn split<T: Into<Value> + Clone>(early: &[T], late: &[T]) -> Vec<Contribution> {
        let mut contributions = points(&[early, late].concat());
        for (i, c) in contributions.iter_mut().enumerate() {
            c.place = match early.len().checked_sub(i + 1) {
                Some(backward) => Place::early(backward as i128),
                None => Place::late((i - early.len()) as i128),
            };
        }
        contributions
    }

    #[track_caller]
    fn check(agg: Agg, contributions: &[Contribution], dtype: &DType, expected: impl Into<Value>) {
        let expected = expected.into();
        let found = fold(agg, contributions, dtype).expect("the reduction takes these");
        assert!(
            found.same(&expected),
            "{}: {found}, not {expected}",
            agg.name()
        );
    }

    #[track_caller]
    fn check_float(agg: Agg, values: &[f64], expected: impl Into<Value>) {
        check(agg, &points(values), &DType::F64, expected);
    }

    // Mean 5, deviations -3 -1 -1 0 5, their squares 9 1 1 0 25 (36), cubes 96, fourth powers 708.
    const SAMPLE: [f64; 5] = [2.0, 4.0, 4.0, 5.0, 10.0];
    const NAN: f64 = f64::NAN;

    #[test]
    fn no_contributions_give_null() {
        for agg in [Agg::Len, Agg::Sum, Agg::Collect, Agg::All] {
            check(agg, &[], &DType::I64, Value::Null);
        }
    }

    // 1e16 + 1 rounds to 1e16, 1e16 + 2 does not round.
    const BIG: f64 = 1e16;

    #[test]
    fn eight_floats_are_added_as_a_tree() {
        check_float(Agg::Sum, &[1e100, 1.0, -1e100], 0.0);
        check_float(Agg::Sum, &[-0.0], -0.0);
        check_float(Agg::Sum, &[f64::INFINITY, 1.0], f64::INFINITY);
        check_float(Agg::Mean, &SAMPLE, 5.0);
        check_float(Agg::Product, &SAMPLE, 1600.0);
        // ((B + 1) + (1 + 1)) + ((1 + 1) + (1 + 1)); one by one it would stay B.
        let mut eight = vec![1.0; 8];
        eight[0] = BIG;
        check_float(Agg::Sum, &eight, BIG + 6.0);
        check_float(Agg::Mean, &eight, (BIG + 6.0) / 8.0);
        // ((1 + 1) + (1 + B)) + 4: the one beside B is lost.
        eight.swap(0, 3);
        check_float(Agg::Sum, &eight, BIG + 6.0);
        // Pairs first: of two tiny ones the product is 0, of a tiny and a huge one it is 1.
        let (tiny, huge) = (f64::MIN_POSITIVE, 1.0 / f64::MIN_POSITIVE);
        check_float(Agg::Product, &[tiny, huge, tiny, huge], 1.0);
        check_float(Agg::Product, &[tiny, tiny, huge, huge], NAN);
    }

    #[test]
    fn groups_of_eight_are_added_from_the_split_on() {
        // B, then a group of eight ones, then a single one: (B + 8) + 1 = B + 8, for 9 is odd and ties go to even.
        let mut values = vec![0.0; 7];
        values.insert(0, BIG);
        values.extend([1.0; 9]);
        check_float(Agg::Sum, &values, BIG + 8.0);
        // One place further they are 7 and 2, and B + 7 is rounded to B + 8.
        values.insert(1, 0.0);
        check_float(Agg::Sum, &values, (BIG + 8.0) + 2.0);
        // The early part counts backward: B is its ninth place, so a group of its own behind eight ones.
        let early = [&[BIG][..], &[1.0; 8]].concat();
        check(Agg::Sum, &split(&early, &[]), &DType::F64, BIG + 8.0);
        // early (B + 8) and late (1) meet last.
        check(Agg::Sum, &split(&early, &[1.0]), &DType::F64, BIG + 8.0);
        // Two late ones meet each other first.
        check(
            Agg::Sum,
            &split(&early, &[1.0, 1.0]),
            &DType::F64,
            BIG + 10.0,
        );
    }

    #[test]
    fn absent_contributions_hold_their_place() {
        let mut contributions = points(&[BIG, 1.0, 1.0]);
        check(Agg::Sum, &contributions, &DType::F64, BIG); // (B + 1) + 1
        contributions[1].place = Place::late(2);
        contributions[2].place = Place::late(3);
        check(Agg::Sum, &contributions, &DType::F64, BIG + 2.0); // (B + φ) + (1 + 1)
        contributions[2].place = Place::late(8);
        check(Agg::Sum, &contributions, &DType::F64, BIG); // (B + 1) + 1
        contributions[0].place = Place::late(-9);
        contributions[1].place = Place::late(-8);
        contributions[2].place = Place::late(-1);
        check(Agg::Sum, &contributions, &DType::F64, BIG + 2.0); // B + (1 + … + 1)
    }

    #[test]
    fn integer_totals_are_exact_and_only_a_total_overflows() {
        check(Agg::Sum, &points(&[i64::MAX, 1, -1]), &DType::I64, i64::MAX);
        check(Agg::Sum, &points(&[true, false, true]), &DType::I64, 2);
        let seconds = DType::Duration(Unit::Second);
        check(Agg::Sum, &points(&[3i64, -5]), &seconds, -2);
        let overflow = |agg, values: &[i64]| fold(agg, &points(values), &DType::I64).unwrap_err();
        assert_eq!(overflow(Agg::Sum, &[i64::MAX, 1]), FoldError::Overflow);
        assert_eq!(overflow(Agg::Product, &[i64::MAX, 2]), FoldError::Overflow);
        check(
            Agg::Product,
            &points(&[i64::MAX, i64::MAX, 0]),
            &DType::I64,
            0,
        );
        check(
            Agg::Product,
            &points(&[1i64 << 62, 2, -1]),
            &DType::I64,
            i64::MIN,
        );
        check(Agg::Product, &points(&[u64::MAX, 1]), &DType::U64, u64::MAX);
        check(Agg::Mean, &points(&[1i64, 2]), &DType::F64, 1.5);
        // 3·(2^63 - 1) and -3 are added exactly, and rounded once.
        let mean = [i64::MAX, i64::MAX, i64::MAX, -3];
        let total = (3 * (i128::from(i64::MAX) - 1)) as f64;
        check(Agg::Mean, &points(&mean), &DType::F64, total / 4.0);
        check(
            Agg::Mean,
            &points(&[1i64 << 53, 1, 1]),
            &DType::F64,
            ((1i64 << 53) + 2) as f64 / 3.0,
        );
    }

    #[test]
    fn min_and_max_pass_over_nan_and_arg_takes_the_first() {
        check_float(Agg::Min, &[NAN, 3.0, 0.0, -0.0], -0.0);
        check_float(Agg::Max, &[NAN, 3.0, 7.0], 7.0);
        check_float(Agg::Max, &[NAN, NAN], NAN);
        let time = DType::Timestamp(Unit::Second);
        check(Agg::ArgMin, &points(&[5.0, 2.0, 2.0]), &time, 2);
        check(Agg::ArgMax, &points(&[NAN, 2.0, 2.0]), &time, 2);
        check(Agg::ArgMax, &points(&[NAN, NAN]), &time, 1);
        check(Agg::Min, &points(&["b", "a"]), &DType::Utf8, "a");
        check(Agg::Max, &points(&[false, true]), &DType::Bool, true);
    }

    #[test]
    fn arg_min_is_the_end_of_the_whole_event() {
        let mut clipped = points(&[1.0]);
        clipped[0].event.end = 9;
        check(Agg::ArgMin, &clipped, &DType::Timestamp(Unit::Second), 9);
    }

    #[test]
    fn counts_and_positions() {
        check_float(Agg::Len, &SAMPLE, 5);
        check_float(Agg::First, &SAMPLE, 2.0);
        check_float(Agg::Last, &SAMPLE, 10.0);
        check(Agg::Any, &points(&[false, true]), &DType::Bool, true);
        check(Agg::All, &points(&[false, true]), &DType::Bool, false);
        check_float(
            Agg::Collect,
            &[1.0, NAN],
            Value::list([1.0.into(), NAN.into()]),
        );
    }

    #[test]
    fn distinct_values_count_nan_once_and_both_zeros_as_one() {
        check_float(Agg::NUnique, &[0.0, -0.0, NAN, -NAN, 1.0], 3);
        check_float(Agg::Mode, &SAMPLE, 4.0);
        check_float(Agg::Mode, &[3.0, -0.0, 0.0, 3.0], 3.0);
        check_float(Agg::Mode, &[3.0, -0.0, 0.0], -0.0);
        check_float(Agg::Mode, &[1.0, NAN, -NAN], NAN);
        check(Agg::Mode, &points(&["a", "b"]), &DType::Utf8, "a");
    }

    #[test]
    fn top_k_is_descending_with_nan_last() {
        let top = |k| Agg::TopK { k };
        let list = |values: &[f64]| Value::list(values.iter().map(|v| Value::Float(*v)));
        check_float(top(2), &[NAN, 1.0, 9.0, 9.0], list(&[9.0, 9.0]));
        check_float(top(9), &[NAN, -0.0, 0.0], list(&[0.0, -0.0, NAN]));
    }

    #[test]
    fn variance_needs_more_than_ddof_events() {
        check_float(Agg::Var { ddof: 1 }, &SAMPLE, 9.0); // 36 / 4
        check_float(Agg::Std { ddof: 1 }, &SAMPLE, 3.0);
        check_float(Agg::Var { ddof: 0 }, &SAMPLE, 7.2); // 36 / 5
        check_float(Agg::Var { ddof: 1 }, &[3.0], Value::Null);
        check_float(Agg::Var { ddof: 0 }, &[3.0], 0.0);
        check_float(Agg::Std { ddof: 5 }, &SAMPLE, Value::Null);
    }

    #[test]
    fn the_variance_of_equal_values_is_zero() {
        for v in [0.1, 1e300, -1e-300, 1e12 + 0.1] {
            for (early, late) in [(0, 1), (0, 23), (23, 0), (9, 30), (30, 9)] {
                let contributions = split(&vec![v; early], &vec![v; late]);
                check(Agg::Var { ddof: 0 }, &contributions, &DType::F64, 0.0);
                check(Agg::Skew { bias: true }, &contributions, &DType::F64, NAN);
            }
        }
        check_float(Agg::Var { ddof: 0 }, &[f64::INFINITY, 1.0], NAN);
    }

    #[test]
    fn variance_and_slope_merge_their_parts() {
        // Early 2 4 from 4: n 2, mean 3, q 2. Late 4 5 10 from 4: s1 7, s2 37.
        let contributions = split(&SAMPLE[..2], &SAMPLE[2..]);
        let late = 37.0 - 7.0 * (7.0 / 3.0);
        let delta = (4.0 - 4.0) + (7.0 / 3.0 - -1.0);
        let q = (2.0 + late) + delta * delta * (6.0 / 5.0);
        check(Agg::Var { ddof: 0 }, &contributions, &DType::F64, q / 5.0);
        assert!((q - 36.0f64).abs() < 1e-13);
        // Ends 1 2 | 3 4 5. Early from (2, 4): x -1 0, v -2 0: cxx 0.5, cxv 1. Late from (3, 4): x 0 1 2, v 0 1 6: cxx 2, cxv 6.
        let dx = 1.0 + (1.0 - -0.5);
        let dv = (4.0 - 4.0) + (7.0 / 3.0 - -1.0);
        let late = 13.0 - 3.0 * (7.0 / 3.0);
        let (cxx, cxv) = ((0.5 + 2.0) + dx * dx * 1.2, (1.0 + late) + dx * dv * 1.2);
        check(Agg::Slope, &contributions, &DType::F64, cxv / cxx);
        assert!((cxv / cxx - 1.7f64).abs() < 1e-15); // Σ(x-3)(v-5) = 17, Σ(x-3)² = 10
    }

    /// Numbers below 1024 that look random.
    fn noise(count: usize) -> Vec<i64> {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005);
            seed = seed.wrapping_add(1_442_695_040_888_963_407);
            (seed >> 54) as i64
        };
        (0..count).map(|_| next()).collect()
    }

    fn float(agg: Agg, contributions: &[Contribution]) -> f64 {
        match fold(agg, contributions, &DType::F64) {
            Ok(Value::Float(v)) => v,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn variance_far_from_zero_is_that_of_exact_numbers() {
        for (early, late) in [(0, 2), (2, 1), (0, 100), (37, 300), (300, 37), (100, 0)] {
            let noise = noise(early + late);
            let values: Vec<f64> = noise.iter().map(|r| 1e12 + *r as f64).collect();
            let contributions = split(&values[..early], &values[early..]);
            let n = noise.len() as i64;
            let (sum, squares): (i64, i64) =
                (noise.iter().sum(), noise.iter().map(|r| r * r).sum());
            let exact = (n * squares - sum * sum) as f64 / (n * (n - 1)) as f64;
            let found = float(Agg::Var { ddof: 1 }, &contributions);
            assert!((found / exact - 1.0).abs() < 1e-12, "{found}, not {exact}");
        }
    }

    #[test]
    fn skew_and_kurtosis_are_those_of_two_passes() {
        for (early, late) in [(0, 5), (3, 2), (0, 100), (37, 300), (300, 37), (100, 0)] {
            let values: Vec<f64> = noise(early + late)
                .iter()
                .map(|r| 1e3 + (*r as f64 / 100.0).exp2())
                .collect();
            let contributions = split(&values[..early], &values[early..]);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let moment = |k: i32| values.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / n;
            let skew = moment(3) / moment(2).powf(1.5);
            let kurtosis = moment(4) / moment(2).powi(2);
            let pearson = Agg::Kurtosis {
                fisher: false,
                bias: true,
            };
            let found = float(Agg::Skew { bias: true }, &contributions);
            assert!((found / skew - 1.0).abs() < 1e-10, "{found}, not {skew}");
            let found = float(pearson, &contributions);
            assert!(
                (found / kurtosis - 1.0).abs() < 1e-10,
                "{found}, not {kurtosis}"
            );
        }
    }

    #[test]
    fn standardised_moments_are_scipys() {
        let kurtosis = |fisher, bias| Agg::Kurtosis { fisher, bias };
        // (96/5) / 7.2^1.5, times sqrt(5·4)/3 without bias
        let biased = (5f64.sqrt() * 96.0) / (36.0 * 36f64.sqrt());
        check_float(Agg::Skew { bias: true }, &SAMPLE, biased);
        let unbiased = 20f64.sqrt() / 3.0 * biased;
        check_float(Agg::Skew { bias: false }, &SAMPLE, unbiased);
        assert!((unbiased - 1.481_481_481_481_48).abs() < 1e-14);
        // (708/5) / 7.2^2 = 2.7314814…; without bias (24·2.7314814… - 3·16) / (3·2)
        let pearson = (5.0 * 708.0) / (36.0 * 36.0);
        check_float(kurtosis(false, true), &SAMPLE, pearson);
        check_float(kurtosis(true, true), &SAMPLE, pearson - 3.0);
        let part = 1.0 / 6.0;
        let unbiased = (24.0 * part) * pearson - 48.0 * part;
        check_float(kurtosis(true, false), &SAMPLE, unbiased);
        check_float(kurtosis(false, false), &SAMPLE, unbiased + 3.0);
        assert!((unbiased - 2.925_925_925_925_93).abs() < 1e-13);
        check_float(Agg::Skew { bias: true }, &[4.0, 4.0], NAN);
        check_float(Agg::Skew { bias: false }, &[1.0, 2.0], Value::Null);
        check_float(kurtosis(true, false), &[1.0, 2.0, 4.0], Value::Null);
    }

    #[test]
    fn rms_and_crest_factor() {
        // sqrt(161 / 5) = 5.6745043836444435
        check_float(Agg::Rms, &SAMPLE, 32.2f64.sqrt());
        check_float(
            Agg::CrestFactor,
            &[-10.0, 2.0, 4.0, 4.0, 5.0],
            10.0 / 32.2f64.sqrt(),
        );
        check_float(Agg::CrestFactor, &[0.0], NAN);
    }

    #[test]
    fn quantiles_sort_nan_last() {
        let quantile = |q, method| Agg::Quantile {
            q: Ratio::new(q),
            method,
        };
        // h = 0.375 · 4 = 1.5: between 4 and 5 of the sorted 2 4 5 7 10
        let values = [10.0, 4.0, 5.0, 2.0, 7.0];
        for (method, expected) in [
            (Linear, 4.5),
            (Lower, 4.0),
            (Higher, 5.0),
            (Nearest, 5.0),
            (Midpoint, 4.5),
        ] {
            check_float(quantile(0.375, method), &values, expected);
        }
        check_float(quantile(0.625, Nearest), &values, 5.0); // h = 2.5 goes to 2
        check_float(quantile(0.0, Linear), &values, 2.0);
        check_float(quantile(1.0, Linear), &values, 10.0);
        check_float(quantile(0.1, Linear), &values, 2.0 + 2.0 * 0.4);
        check_float(quantile(1.0, Linear), &[NAN, 1.0], NAN);
        check_float(Agg::Median, &values, 5.0);
        check_float(Agg::Median, &[4.0, 1.0], 2.5);
        check_float(Agg::Median, &[f64::INFINITY, f64::INFINITY], f64::INFINITY);
        check(Agg::Median, &points(&[4i64, 1, 2]), &DType::F64, 2.0);
    }

    #[test]
    fn time_weighted_reductions_use_the_clipped_length() {
        let mut contributions = points(&[2.0, 6.0]);
        contributions[0].event.start = -9;
        contributions[0].clipped.start = -2; // (-2, 1] and (1, 2]
        check(Agg::Integral, &contributions, &DType::F64, 12.0); // 2·3 + 6·1
        check(Agg::Twa, &contributions, &DType::F64, 3.0); // 12 / 4
    }

    #[test]
    fn events_that_an_edge_clips_are_added_outside_of_the_places() {
        // The left event, three whole ones, two that reach beyond the right edge.
        let mut contributions = points(&[BIG, 1.0, 1.0, 1.0, 1.0, 1.0]);
        contributions[0].event.start = -1;
        contributions[4].event.end = 99;
        contributions[5].event.end = 99;
        // (B + ((φ + 1) + (1 + 1))) + (1 + 1), where B + 3 is rounded to B + 4.
        check(Agg::Integral, &contributions, &DType::F64, BIG + 6.0);
        check(Agg::Twa, &contributions, &DType::F64, (BIG + 6.0) / 6.0);
        check(Agg::Sum, &contributions, &DType::F64, BIG + 4.0); // ((B + 1) + (1 + 1)) + (1 + 1)
        // Clipped on both sides it is left.
        contributions[0].event.end = 99;
        check(Agg::Integral, &contributions, &DType::F64, BIG + 6.0);
        check(Agg::Integral, &contributions[4..], &DType::F64, 2.0);
        check(Agg::Integral, &contributions[..1], &DType::F64, BIG);
        // Lengths are added exactly, and rounded once.
        let mut long = points(&[0.0, 1.0, 1.0]);
        long[0].clipped.start = -(1 << 53);
        long[0].event.start = -(1 << 53);
        check(
            Agg::Twa,
            &long,
            &DType::F64,
            2.0 / ((1i64 << 53) + 4) as f64,
        );
    }

    #[test]
    fn slope_is_per_tick_of_the_ends() {
        let mut contributions = points(&SAMPLE);
        for (c, end) in contributions.iter_mut().zip([1, 2, 4, 7, 11]) {
            // Far from zero: only differences count.
            c.event.end = 1_700_000_000_000_000_000 + end;
        }
        // x = 0 1 3 6 10, mean 4: Σ(x-4)(v-5) = 46, Σ(x-4)² = 66
        check(Agg::Slope, &contributions, &DType::F64, 46.0 / 66.0);
        check_float(Agg::Slope, &[1.0], Value::Null);
        let mut same_end = points(&[1.0, 2.0]);
        same_end[1].event.end = 1;
        check(Agg::Slope, &same_end, &DType::F64, Value::Null);
    }

    #[test]
    fn ewm_weighs_the_newest_one() {
        let ewm = Agg::Ewm {
            alpha: Ratio::new(0.5),
        };
        // (10 + 5/2 + 4/4 + 4/8 + 2/16) / (1 + 1/2 + 1/4 + 1/8 + 1/16) = 14.125 / 1.9375
        check_float(ewm, &SAMPLE, 14.125 / 1.9375);
    }
}
