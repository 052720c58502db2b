//! Reductions: the fold of a window's contributions into one value.

use std::collections::BTreeMap;

use tilt_ir::{Agg, BinaryOp, DType, QuantileMethod};

use crate::{
    Value,
    scalar::{as_double, beats, sort_doubles},
    value::Ordered,
};

/// What an event of a window contributes.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    /// Never φ.
    pub(crate) value: Value,
    /// Start of the event clipped to the window.
    pub(crate) start: i64,
    /// End of the event clipped to the window.
    pub(crate) end: i64,
    /// End of the whole event.
    pub(crate) event_end: i64,
}

impl Contribution {
    fn length(&self) -> f64 {
        (i128::from(self.end) - i128::from(self.start)) as f64
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

/// Folds contributions in order; `dtype` is the type of the result. User-defined reductions are not for this function.
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
    let n = contributions.len() as f64;
    Ok(match agg {
        Agg::Sum if *dtype == DType::F64 => Value::Float(sum(doubles()?)),
        Agg::Product if *dtype == DType::F64 => {
            Value::Float(doubles()?.into_iter().fold(1.0, |total, v| total * v))
        }
        Agg::Sum => narrow(integers(contributions)?.iter().sum(), dtype)?,
        Agg::Product => narrow(exact_product(&integers(contributions)?)?, dtype)?,
        Agg::Mean => Value::Float(sum(doubles()?) / n),
        Agg::Min => best(BinaryOp::Min, contributions).value.clone(),
        Agg::Max => best(BinaryOp::Max, contributions).value.clone(),
        Agg::ArgMin => Value::Int(best(BinaryOp::Min, contributions).event_end),
        Agg::ArgMax => Value::Int(best(BinaryOp::Max, contributions).event_end),
        Agg::Len => Value::Int(contributions.len() as i64),
        Agg::First => first.value.clone(),
        Agg::Last => last.value.clone(),
        Agg::Var { ddof } => variance(&doubles()?, ddof).into(),
        Agg::Std { ddof } => variance(&doubles()?, ddof).map(libm::sqrt).into(),
        Agg::Skew { bias } => skew(&doubles()?, bias).into(),
        Agg::Kurtosis { fisher, bias } => kurtosis(&doubles()?, fisher, bias).into(),
        Agg::Rms => Value::Float(rms(&doubles()?)),
        Agg::CrestFactor => {
            let values = doubles()?;
            let peak = values.iter().map(|v| v.abs()).reduce(f64::max);
            peak.map(|peak| peak / rms(&values)).into()
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
        Agg::Integral => Value::Float(integral(&doubles()?, contributions)),
        Agg::Twa => {
            let covered = sum(contributions.iter().map(Contribution::length));
            Value::Float(integral(&doubles()?, contributions) / covered)
        }
        Agg::Slope => slope(&doubles()?, contributions).into(),
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

/// Added from the first to the last, so that a single -0 stays -0.
fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(|a, b| a + b).unwrap_or(0.0)
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

/// Welford's one pass.
fn variance(values: &[f64], ddof: u32) -> Option<f64> {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (i, v) in values.iter().enumerate() {
        let d = v - mean;
        mean += d / (i + 1) as f64;
        squares += d * (v - mean);
    }
    (values.len() > ddof as usize).then(|| squares / (values.len() as f64 - f64::from(ddof)))
}

/// Means of the second, third and fourth powers of the deviations from the mean.
fn central_moments(values: &[f64]) -> [f64; 3] {
    let n = values.len() as f64;
    let mean = sum(values.iter().copied()) / n;
    let moment = |power: fn(f64) -> f64| sum(values.iter().map(|v| power(v - mean))) / n;
    [
        moment(|d| d * d),
        moment(|d| d * d * d),
        moment(|d| (d * d) * (d * d)),
    ]
}

fn skew(values: &[f64], bias: bool) -> Option<f64> {
    let n = values.len() as f64;
    if !bias && values.len() < 3 {
        return None;
    }
    let [m2, m3, _] = central_moments(values);
    if m2 == 0.0 {
        return Some(f64::NAN);
    }
    let biased = m3 / (m2 * libm::sqrt(m2));
    Some(if bias {
        biased
    } else {
        libm::sqrt(n * (n - 1.0)) / (n - 2.0) * biased
    })
}

fn kurtosis(values: &[f64], fisher: bool, bias: bool) -> Option<f64> {
    let n = values.len() as f64;
    if !bias && values.len() < 4 {
        return None;
    }
    let [m2, _, m4] = central_moments(values);
    if m2 == 0.0 {
        return Some(f64::NAN);
    }
    let pearson = m4 / (m2 * m2);
    Some(match (bias, fisher) {
        (true, true) => pearson - 3.0,
        (true, false) => pearson,
        (false, fisher) => {
            let excess =
                ((n * n - 1.0) * pearson - 3.0 * ((n - 1.0) * (n - 1.0))) / ((n - 2.0) * (n - 3.0));
            if fisher { excess } else { excess + 3.0 }
        }
    })
}

fn rms(values: &[f64]) -> f64 {
    libm::sqrt(sum(values.iter().map(|v| v * v)) / values.len() as f64)
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

fn integral(values: &[f64], contributions: &[Contribution]) -> f64 {
    sum(values
        .iter()
        .zip(contributions)
        .map(|(v, c)| v * c.length()))
}

/// Least squares against the ends, counted from the first one.
fn slope(values: &[f64], contributions: &[Contribution]) -> Option<f64> {
    let n = values.len() as f64;
    let origin = i128::from(contributions[0].event_end);
    let x: Vec<f64> = contributions
        .iter()
        .map(|c| (i128::from(c.event_end) - origin) as f64)
        .collect();
    let x_mean = sum(x.iter().copied()) / n;
    let v_mean = sum(values.iter().copied()) / n;
    let covariance = sum(x
        .iter()
        .zip(values)
        .map(|(x, v)| (x - x_mean) * (v - v_mean)));
    let variance = sum(x.iter().map(|x| (x - x_mean) * (x - x_mean)));
    (variance != 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use tilt_ir::{Ratio, Unit};

    use super::*;
    use QuantileMethod::*;

    /// Points at the given ends, or one after the other from 1.
    fn points<T: Into<Value> + Clone>(values: &[T]) -> Vec<Contribution> {
        let contribution = |(i, value): (usize, &T)| Contribution {
            value: value.clone().into(),
            start: i as i64,
            end: i as i64 + 1,
            event_end: i as i64 + 1,
        };
        values.iter().enumerate().map(contribution).collect()
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

    #[test]
    fn sums_of_floats_go_from_first_to_last() {
        check_float(Agg::Sum, &[1e100, 1.0, -1e100], 0.0);
        check_float(Agg::Sum, &[-0.0], -0.0);
        check_float(Agg::Mean, &SAMPLE, 5.0);
        check_float(Agg::Product, &SAMPLE, 1600.0);
        check_float(Agg::Sum, &[f64::INFINITY, 1.0], f64::INFINITY);
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
        clipped[0].event_end = 9;
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
    fn standardised_moments_are_scipys() {
        let kurtosis = |fisher, bias| Agg::Kurtosis { fisher, bias };
        // (96/5) / 7.2^1.5, times sqrt(5·4)/3 without bias
        check_float(
            Agg::Skew { bias: true },
            &SAMPLE,
            19.2 / (7.2 * 7.2f64.sqrt()),
        );
        let unbiased = 20f64.sqrt() / 3.0 * (19.2 / (7.2 * 7.2f64.sqrt()));
        check_float(Agg::Skew { bias: false }, &SAMPLE, unbiased);
        assert!((unbiased - 1.481_481_481_481_48).abs() < 1e-14);
        // (708/5) / 7.2^2 = 2.7314814…; without bias (24·2.7314814… - 3·16) / (3·2)
        check_float(kurtosis(false, true), &SAMPLE, 141.6 / (7.2 * 7.2));
        check_float(kurtosis(true, true), &SAMPLE, 141.6 / (7.2 * 7.2) - 3.0);
        let unbiased = (24.0 * (141.6 / (7.2 * 7.2)) - 48.0) / 6.0;
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
        contributions[0].start = -2; // (-2, 1] and (1, 2]
        check(Agg::Integral, &contributions, &DType::F64, 12.0); // 2·3 + 6·1
        check(Agg::Twa, &contributions, &DType::F64, 3.0); // 12 / 4
    }

    #[test]
    fn slope_is_per_tick_of_the_ends() {
        let mut contributions = points(&SAMPLE);
        for (c, end) in contributions.iter_mut().zip([1, 2, 4, 7, 11]) {
            // Far from zero: only differences count.
            c.event_end = 1_700_000_000_000_000_000 + end;
        }
        // x = 0 1 3 6 10, mean 4: Σ(x-4)(v-5) = 46, Σ(x-4)² = 66
        check(Agg::Slope, &contributions, &DType::F64, 46.0 / 66.0);
        check_float(Agg::Slope, &[1.0], Value::Null);
        let mut same_end = points(&[1.0, 2.0]);
        same_end[1].event_end = 1;
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
