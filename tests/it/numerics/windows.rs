//! Reductions over windows of every kind, of regular and irregular times, against exact numbers.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Query, RunOptions,
    arrow::array::{Array, Float64Array, cast::AsArray, types::Float64Type},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    ir::Unit,
};

use super::{
    exact::{Exact, Powers},
    uniform,
};

const ROWS: usize = 700;

/// Events of one length.
struct Data {
    ends: Vec<i64>,
    length: i64,
    values: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Times {
    /// Points a tick apart.
    Points,
    /// Points whose distances differ.
    Irregular,
    /// Samples of three ticks, so that windows clip some.
    Samples,
}

impl Data {
    fn new(times: Times, values: Vec<f64>) -> Self {
        let (mut t, gaps) = (0, uniform(values.len()));
        let ends = (1..=values.len() as i64)
            .zip(gaps)
            .map(|(i, gap)| match times {
                Times::Points => i,
                Times::Samples => 3 * i,
                Times::Irregular => {
                    t += 1 + (9.0 * gap) as i64;
                    t
                }
            });
        Self {
            ends: ends.collect(),
            length: if times == Times::Samples { 3 } else { 1 },
            values,
        }
    }

    fn buffer(&self, times: Times) -> SnapshotBuffer {
        let spans = Spans::Fixed(self.length);
        let timeline = if times == Times::Irregular {
            Timeline::explicit(self.ends.clone().into(), spans)
        } else {
            Timeline::regular(self.ends[0], self.length, self.ends.len(), spans)
        };
        let column = Column::new("x", Arc::new(Float64Array::from(self.values.clone())));
        SnapshotBuffer::scalar(timeline, column, Unit::Tick).expect("a column")
    }

    /// The rows in a window that ends at `t`.
    fn rows(&self, window: Kind, t: i64) -> std::ops::Range<usize> {
        let end = self.ends.partition_point(|end| end - self.length < t);
        let start = match window {
            Kind::Ticks(length, _) => self.ends.partition_point(|end| *end <= t - length),
            Kind::Events(n) => end.saturating_sub(n),
            Kind::Running => 0,
        };
        start..end
    }
}

/// What a window holds.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// So many ticks, at every event or every so many ticks.
    Ticks(i64, Option<i64>),
    /// The last events.
    Events(usize),
    /// All so far.
    Running,
}

const KINDS: [Kind; 10] = [
    Kind::Ticks(1, None),
    Kind::Ticks(7, None),
    Kind::Ticks(100, None),
    // Folds, panes, and windows whose length is no multiple of the hop.
    Kind::Ticks(60, Some(60)),
    Kind::Ticks(60, Some(20)),
    Kind::Ticks(300, Some(10)),
    Kind::Ticks(101, Some(7)),
    Kind::Events(1),
    Kind::Events(50),
    Kind::Running,
];

/// The part of a window: values, how long each lies in it, and where they end.
struct Part<'a> {
    values: &'a [f64],
    lengths: Vec<i64>,
    ends: &'a [i64],
}

const AGGS: [&str; 14] = [
    "sum",
    "mean",
    "var(0)",
    "std",
    "skew",
    "kurtosis(pearson, biased)",
    "rms",
    "product",
    "twa",
    "integral",
    "slope",
    "ewm(0.125)",
    "min",
    "max",
];

/// What a reduction is exactly, and how far from it a result may be.
fn reference(agg: &str, part: &Part, powers: &Powers) -> Option<(f64, f64)> {
    const EPSILON: f64 = f64::EPSILON;
    let n = part.values.len() as i64;
    // A tree of eight and a chain of groups.
    let roundings = (16 + n / 8) as f64 * EPSILON;
    let values = || part.values.iter().map(|v| Exact::of(*v));
    let within = |exact: f64, relative: f64| (exact, relative * exact.abs().max(1.0));
    match agg {
        "sum" | "mean" => {
            let over = Exact::int(if agg == "mean" { n } else { 1 });
            let size = Exact::sum(values().map(|v| v.abs())).over(&over);
            Some((Exact::sum(values()).over(&over), roundings * size))
        }
        "var(0)" => powers.var(0).map(|var| within(var, 1e-12)),
        "std" => powers.std(1).map(|std| within(std, 1e-12)),
        "skew" => Some(within(powers.skew(), 1e-12)),
        "kurtosis(pearson, biased)" => Some(within(powers.kurtosis(), 1e-12)),
        "rms" => Some((powers.rms(), roundings * powers.rms())),
        "product" => {
            let product = values().fold(Exact::int(1), |a, b| a.times(&b)).get();
            Some((product, n as f64 * EPSILON * product.abs()))
        }
        "twa" | "integral" => {
            let lengths = part.lengths.iter();
            let over = Exact::int(if agg == "twa" { lengths.sum() } else { 1 });
            let terms = || {
                values()
                    .zip(&part.lengths)
                    .map(|(v, length)| v.times_int(*length))
            };
            let size = Exact::sum(terms().map(|v| v.abs())).over(&over);
            Some((Exact::sum(terms()).over(&over), 2.0 * roundings * size))
        }
        "slope" => {
            let times: Vec<f64> = part.ends.iter().map(|end| *end as f64).collect();
            let of_times = Powers::of(&times).squares();
            if of_times.is_zero() {
                return None;
            }
            let both = Exact::sum(values().zip(part.ends).map(|(v, end)| v.times_int(*end)));
            let sums = Exact::sum(values()).times_int(part.ends.iter().sum());
            let slope = both.times_int(n).minus(&sums).over(&of_times);
            // As that of numbers that deviate as much.
            let size = powers.squares().over(&of_times).sqrt();
            Some((slope, 1e-12 * size.max(slope.abs())))
        }
        "ewm(0.125)" => {
            let keep = Exact::of(0.875);
            let fold = |terms: &mut dyn Iterator<Item = Exact>| {
                terms.fold(Exact::zero(), |total, v| v.plus(&keep.times(&total)))
            };
            let weights = fold(&mut values().map(|_| Exact::int(1)));
            let size = fold(&mut values().map(|v| v.abs())).over(&weights);
            let exact = fold(&mut values()).over(&weights);
            Some((exact, 32.0 * EPSILON * size))
        }
        "min" => Some((
            part.values.iter().copied().fold(f64::INFINITY, f64::min),
            0.0,
        )),
        "max" => Some((
            part.values
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max),
            0.0,
        )),
        other => panic!("no reference for {other}"),
    }
}

fn query(times: Times, kind: Kind, aggs: &[&str]) -> Query {
    let declared = match times {
        Times::Points => "point period 1",
        Times::Irregular => "point",
        Times::Samples => "fixed 3 period 3",
    };
    let (clock, window) = match kind {
        Kind::Ticks(length, None) => (" at ~x".to_owned(), format!("t-{length} : t")),
        Kind::Ticks(length, Some(hop)) => (format!(" every {hop}"), format!("t-{length} : t")),
        Kind::Events(n) => (" at ~x".to_owned(), format!("#-{n} : #")),
        Kind::Running => (" at ~x".to_owned(), "-inf : t".to_owned()),
    };
    let reductions = aggs.iter().enumerate();
    let reductions = reductions.map(|(i, agg)| format!("r{i}: reduce {agg} ~x[{window}]"));
    let reductions: Vec<String> = reductions.collect();
    let text = format!(
        "query q unit tick {{ input ~x: f64 {declared}  ~y[t{clock}] = {{{}}}  output ~y }}",
        reductions.join(", ")
    );
    Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// All reductions of all kinds of windows over some values, in one piece and in many.
fn check(name: &str, times: Times, values: Vec<f64>, aggs: &[&str]) {
    let data = Data::new(times, values);
    let inputs = BTreeMap::from([("x".to_owned(), data.buffer(times))]);
    for kind in KINDS {
        let compiled = query(times, kind, aggs).compile().expect("compiles");
        let explained = compiled.explain();
        assert!(!explained.contains("interpreted, because"), "{explained}");
        for pieces in [None, Some(64)] {
            let mut options = RunOptions::default().threads(2);
            options = pieces.into_iter().fold(options, RunOptions::piece_rows);
            let output = compiled.run(&inputs, &options).expect("runs");
            let columns = output.columns().iter();
            let columns: Vec<_> = columns
                .map(|c| c.array().as_primitive::<Float64Type>().clone())
                .collect();
            // Exact numbers take their time: those of the first windows, and of some later ones.
            assert!(output.len() > 10, "{name}, {times:?}, {kind:?}");
            let some = (0..output.len()).filter(|row| *row < 12 || row % 17 == 0);
            for row in some.filter(|row| output.is_event(*row)) {
                let t = output.event(row).end;
                let rows = data.rows(kind, t);
                let (values, ends) = (&data.values[rows.clone()], &data.ends[rows]);
                if values.is_empty() {
                    continue;
                }
                let from = match kind {
                    Kind::Ticks(length, _) => t - length,
                    Kind::Events(_) | Kind::Running => i64::MIN,
                };
                let clipped = |end: &i64| (*end).min(t) - (end - data.length).max(from);
                let lengths = ends.iter().map(clipped).collect();
                let part = Part {
                    values,
                    lengths,
                    ends,
                };
                let powers = Powers::of(values);
                for (agg, column) in aggs.iter().zip(&columns) {
                    let found = column.is_valid(row).then(|| column.value(row));
                    let expected = reference(agg, &part, &powers);
                    let is_right = match (found, expected) {
                        (Some(found), Some((expected, allowed))) => {
                            (found - expected).abs() <= allowed
                                || found.is_nan() && expected.is_nan()
                        }
                        (found, expected) => found.is_none() && expected.is_none(),
                    };
                    assert!(
                        is_right,
                        "{agg} of {name}, {times:?}, {kind:?} in pieces {pieces:?}, row {row} at {t}: {found:?}, not {expected:?}"
                    );
                }
            }
        }
    }
}

const TIMES: [Times; 3] = [Times::Points, Times::Irregular, Times::Samples];

#[test]
fn every_reduction_of_every_kind_of_window_is_exact_to_its_digits() {
    for times in TIMES {
        let noise = uniform(ROWS).iter().map(|v| v + 0.5).collect();
        check("noise", times, noise, &AGGS);
    }
}

/// All but products, of which there are no doubles.
fn without_product() -> Vec<&'static str> {
    AGGS.into_iter().filter(|agg| *agg != "product").collect()
}

#[test]
fn every_reduction_far_from_zero_keeps_its_digits() {
    for times in TIMES {
        let values = uniform(ROWS).iter().map(|v| v + 1e9).collect();
        check("noise far from zero", times, values, &without_product());
    }
}

#[test]
fn spikes_and_decades_of_mixed_signs_leave_what_follows_exact() {
    for times in TIMES {
        let spike = |(i, v): (usize, f64)| if i % 137 == 5 { 1e12 } else { v };
        let spikes = uniform(ROWS).into_iter().enumerate().map(spike).collect();
        check("spikes", times, spikes, &without_product());
        let decades = uniform(2 * ROWS);
        let decades = decades.chunks(2);
        let decades = decades.map(|pair| (pair[0] - 0.5) * 10f64.powf(12.0 * pair[1]));
        check("decades", times, decades.collect(), &without_product());
    }
}

/// What a reduction of values some of which are not finite is, by its definition; `None` where it is a number.
fn not_finite(agg: &str, values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let has_nan = values.iter().any(|v| v.is_nan());
    match agg {
        "min" => Some(values.iter().copied().fold(f64::NAN, f64::min)),
        "max" => Some(values.iter().copied().fold(f64::NAN, f64::max)),
        _ if values.iter().all(|v| v.is_finite()) => None,
        "sum" | "mean" | "twa" | "integral" | "ewm(0.125)" => Some(sum),
        "product" => Some(values.iter().product()),
        "rms" if !has_nan => Some(f64::INFINITY),
        _ => Some(f64::NAN),
    }
}

#[test]
fn nan_and_infinities_leave_no_trace_in_any_kind_of_window() {
    let mut values: Vec<f64> = uniform(ROWS).iter().map(|v| v + 0.5).collect();
    (values[50], values[300], values[500]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
    values[520] = f64::INFINITY;
    values[600..610].fill(f64::NAN);
    for times in TIMES {
        let data = Data::new(times, values.clone());
        let inputs = BTreeMap::from([("x".to_owned(), data.buffer(times))]);
        for kind in KINDS {
            let compiled = query(times, kind, &AGGS).compile().expect("compiles");
            let output = compiled.run(&inputs, &RunOptions::default()).expect("runs");
            for row in (0..output.len()).filter(|row| output.is_event(*row)) {
                let t = output.event(row).end;
                let window = &data.values[data.rows(kind, t)];
                for (agg, column) in AGGS.iter().zip(output.columns()) {
                    let column = column.array().as_primitive::<Float64Type>();
                    if !column.is_valid(row) {
                        let needs = matches!(*agg, "std" | "slope");
                        assert!(
                            window.is_empty() || needs && window.len() == 1,
                            "{agg} row {row}"
                        );
                        continue;
                    }
                    let (found, expected) = (column.value(row), not_finite(agg, window));
                    let is_right = match expected {
                        Some(expected) => found == expected || found.is_nan() && expected.is_nan(),
                        // Nothing deviates in a window of one event, or of equal ones.
                        None => found.is_finite() || window.len() == 1,
                    };
                    assert!(
                        is_right,
                        "{agg}, {times:?}, {kind:?}, row {row} at {t}: {found}, not {expected:?} of {window:?}"
                    );
                }
            }
        }
    }
}
