//! The numbers of compiled windows against exact ones.

mod exact;
mod windows;

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::array::{Array, Float64Array, cast::AsArray, types::Float64Type},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    ir::Unit,
};

use self::exact::{Exact, Powers};

const WINDOW: usize = 100;

/// `reduce agg` over the last hundred of samples a second apart, on samples with or without a declared period, cut into pieces.
fn reduce(agg: &str, values: &[f64]) -> Vec<Option<f64>> {
    let mut results: Vec<Vec<Option<f64>>> = Vec::new();
    for (declared, span) in [("fixed 1s period 1s", 1), ("point", 1)] {
        let text = format!(
            "query q unit s {{ input ~x: f64 {declared}  ~y[t] = reduce {agg} ~x[t-100s : t]  output ~y }}"
        );
        let compiled = Query::parse(&text).unwrap().compile().unwrap();
        assert!(
            !compiled.explain().contains("interpreted"),
            "{}",
            compiled.explain()
        );
        let timeline = if declared == "point" {
            let stamps: Vec<i64> = (1..=values.len() as i64).collect();
            Timeline::explicit(stamps.into(), Spans::Fixed(span))
        } else {
            Timeline::regular(1, 1, values.len(), Spans::Fixed(span))
        };
        let column = Column::new("x", Arc::new(Float64Array::from(values.to_vec())));
        let x = SnapshotBuffer::scalar(timeline, column, Unit::Second).unwrap();
        let inputs = BTreeMap::from([("x".to_owned(), x)]);
        for rows in [1 << 20, 512] {
            let options = RunOptions::default().threads(2).piece_rows(rows);
            let result = compiled.run(&inputs, &options).unwrap();
            let column = result.columns()[0].array().as_primitive::<Float64Type>();
            let row = |i| column.is_valid(i).then(|| column.value(i));
            results.push((0..column.len()).map(row).collect());
        }
    }
    let bits = |all: &[Option<f64>]| -> Vec<Option<u64>> {
        let bits = |v: f64| if v.is_nan() { f64::NAN } else { v }.to_bits();
        all.iter().map(|v| v.map(bits)).collect()
    };
    for other in &results[1..] {
        assert_eq!(
            bits(&results[0]),
            bits(other),
            "{agg}: declared or not, cut or not"
        );
    }
    results.swap_remove(0)
}

fn windows(values: &[f64]) -> impl Iterator<Item = &[f64]> {
    (1..=values.len()).map(|end| &values[end.saturating_sub(WINDOW)..end])
}

fn exact_sum(window: &[f64]) -> f64 {
    Exact::sum(window.iter().map(|v| Exact::of(*v))).get()
}

/// Something of the powers of each window.
fn of_powers<T>(values: &[f64], something: impl Fn(&Powers) -> T) -> Vec<T> {
    let mut powers = Powers::of(&[]);
    let row = |(row, v): (usize, &f64)| {
        powers.enter(*v);
        if row >= WINDOW {
            powers.leave(values[row - WINDOW]);
        }
        something(&powers)
    };
    values.iter().enumerate().map(row).collect()
}

/// Numbers in [0, 1) that look random.
fn uniform(n: usize) -> Vec<f64> {
    let mut state = 88_172_645_463_325_252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n).map(|_| next()).collect()
}

#[track_caller]
fn check_sums(values: &[f64]) {
    for (row, (found, window)) in reduce("sum", values)
        .iter()
        .zip(windows(values))
        .enumerate()
    {
        let magnitude = exact_sum(&window.iter().map(|v| v.abs()).collect::<Vec<_>>());
        // A tree of eight and a chain of groups: far fewer roundings than terms.
        let allowed = 32.0 * f64::EPSILON * magnitude;
        let (found, expected) = (found.unwrap(), exact_sum(window));
        assert!(
            (found - expected).abs() <= allowed,
            "row {row}: {found} against {expected}"
        );
    }
}

#[test]
fn sums_are_as_exact_as_their_window_allows() {
    check_sums(&uniform(3000));
    let decades: Vec<f64> = uniform(6000)
        .chunks(2)
        .map(|pair| (pair[0] - 0.5) * 10f64.powf(12.0 * pair[1]))
        .collect();
    check_sums(&decades);
}

#[test]
fn a_spike_leaves_no_trace() {
    let mut values = uniform(3000);
    for at in [500, 777, 1900] {
        values[at] = 1e12;
    }
    check_sums(&values);
    let stds = reduce("std", &values);
    let expected = of_powers(&values, |powers| powers.std(1));
    for (row, (found, expected)) in stds.iter().zip(expected).enumerate() {
        let (Some(found), Some(expected)) = (*found, expected) else {
            assert_eq!(row, 0, "one event has no deviation");
            continue;
        };
        assert!(
            (found - expected).abs() <= 1e-11 * expected,
            "row {row}: {found} against {expected}"
        );
    }
}

#[test]
fn nan_and_infinities_stay_in_their_windows() {
    let mut values = uniform(2000);
    (values[300], values[900], values[1500]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
    // Both in one window, and a window of nothing else.
    (values[1200], values[1250]) = (f64::INFINITY, f64::NEG_INFINITY);
    values[1700..1810].fill(f64::NAN);
    for agg in ["sum", "mean", "std", "kurtosis", "rms", "min", "max"] {
        let found = reduce(agg, &values);
        for (row, window) in windows(&values).enumerate().skip(4) {
            let is_clean = window.iter().all(|v| v.is_finite());
            let value = found[row].expect("a full window");
            let total: f64 = window.iter().sum();
            let expected = match agg {
                "min" => Some(window.iter().copied().fold(f64::NAN, f64::min)),
                "max" => Some(window.iter().copied().fold(f64::NAN, f64::max)),
                _ if is_clean => None,
                "sum" | "mean" => Some(total),
                "rms" => Some(total.abs()).filter(|v| !v.is_nan()).or_else(|| {
                    let has_nan = window.iter().any(|v| v.is_nan());
                    Some(if has_nan { f64::NAN } else { f64::INFINITY })
                }),
                _ => Some(f64::NAN),
            };
            let is_right = expected.map_or(value.is_finite(), |expected| {
                value == expected || value.is_nan() && expected.is_nan()
            });
            assert!(is_right, "{agg}, row {row}: {value}, not {expected:?}");
        }
    }
}

#[test]
fn a_constant_series_has_no_deviation() {
    for constant in [0.1, -3.7e9, 1e300, 5e-324] {
        let stds = reduce("std", &vec![constant; 1000]);
        assert_eq!(stds[0], None);
        assert!(stds[1..].iter().all(|s| *s == Some(0.0)), "{constant}");
    }
}

#[test]
fn deviations_far_from_zero_keep_their_digits() {
    let values: Vec<f64> = uniform(2000).iter().map(|v| v + 1e9).collect();
    let expected = of_powers(&values, |powers| powers.std(1));
    for (found, expected) in reduce("std", &values).iter().zip(expected) {
        if let (Some(found), Some(expected)) = (found, expected) {
            assert!(
                (found - expected).abs() <= 1e-12 * expected,
                "{found} against {expected}"
            );
        }
    }
}

#[test]
fn higher_moments_keep_their_digits() {
    let noise = uniform(4000);
    let offset = noise.iter().map(|v| v + 1e9).collect();
    let mut walk = noise.clone();
    for i in 1..walk.len() {
        walk[i] = walk[i - 1] + (noise[i] - 0.5);
    }
    let spike = |(i, v): (usize, &f64)| if i % 137 == 5 { 1e12 } else { *v };
    let spikes = noise.iter().enumerate().map(spike).collect();
    // Steps at splits of windows, beside them and inside of blocks.
    let step = |(i, v): (usize, &f64)| v + 1e6 * ((i / 151 + i / 300) % 3) as f64;
    let steps = noise.iter().enumerate().map(step).collect();
    let decades = uniform(8000)
        .chunks(2)
        .map(|pair| (pair[0] - 0.5) * 10f64.powf(12.0 * pair[1]))
        .collect();
    for (name, values) in [
        ("noise", noise),
        ("offset", offset),
        ("walk", walk),
        ("spikes", spikes),
        ("steps", steps),
        ("decades", decades),
    ] {
        let found = [
            reduce("var(0)", &values),
            reduce("skew", &values),
            reduce("kurtosis(pearson, biased)", &values),
        ];
        let expected = of_powers(&values, |powers| {
            let var = powers.var(0).expect("a window of one event or more");
            [var, powers.skew(), powers.kurtosis()]
        });
        for (row, expected) in expected.into_iter().enumerate().skip(1) {
            for (found, expected) in found.iter().zip(expected) {
                let found = found[row].expect("a window of two events or more");
                assert!(
                    (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
                    "{name}, row {row}: {found} against {expected}"
                );
            }
        }
    }
}
