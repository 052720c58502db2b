//! Moments and regression: sums over each part of a window, taken from one of its members, then put together.
//!
//! What the sums are taken from is itself in the sample, so the shifted formulas are conditioned no worse than by the number of
//! members, a constant sample gives exactly zero, and nothing outside the window matters. Every formula is evaluated
//! as it is written, from left to right.

use crate::place::{Part, Place, sum};

/// A value with its place and the end of its event, in order of time.
pub(crate) type Sample = [(Place, f64, i64)];

/// The early and the late part of a sample.
fn parts(sample: &Sample) -> (&Sample, &Sample) {
    sample.split_at(sample.partition_point(|(place, ..)| place.part == Part::Early))
}

/// The member of a part that is nearest to the split.
fn nearest(part: &Sample) -> Option<(f64, i64)> {
    let (_, value, end) = match part.first()?.0.part {
        Part::Early => part.last()?,
        Part::Late => part.first()?,
    };
    Some((*value, *end))
}

/// `Σ term` over a part, which has members.
fn total(part: &Sample, term: impl Fn(f64, i64) -> f64) -> f64 {
    let terms = part
        .iter()
        .map(|(place, value, end)| (*place, term(*value, *end)));
    sum(terms).unwrap_or(0.0)
}

/// Zero instead of what rounding left below it.
fn not_negative(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

/// The number of members and the sums of the powers of their deviations from the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) n: f64,
    pub(crate) m2: f64,
    pub(crate) m3: f64,
    pub(crate) m4: f64,
}

impl Moments {
    /// `None` if the sample is empty.
    pub(crate) fn new(sample: &Sample) -> Option<Self> {
        let (early, late) = parts(sample);
        let distance = match (nearest(early), nearest(late)) {
            (None, None) => return None,
            (Some((from, _)), Some((to, _))) => to - from,
            _ => 0.0,
        };
        let [e1, e2, e3, e4] = powers(early);
        let [l1, l2, l3, l4] = moved(powers(late), late.len() as f64, distance);
        let (s1, s2, s3, s4) = (e1 + l1, e2 + l2, e3 + l3, e4 + l4);
        let n = sample.len() as f64;
        let m = s1 / n;
        let c = m * s1;
        Some(Self {
            n,
            m2: not_negative(s2 - c),
            m3: s3 - m * (3.0 * s2 - 2.0 * c),
            m4: not_negative(s4 - m * (4.0 * s3 - m * (6.0 * s2 - 3.0 * c))),
        })
    }
}

/// The sums of the first four powers of the distances from the member nearest to the split; zero without members.
fn powers(part: &Sample) -> [f64; 4] {
    let Some((k, _)) = nearest(part) else {
        return [0.0; 4];
    };
    [
        total(part, |v, _| v - k),
        total(part, |v, _| (v - k) * (v - k)),
        total(part, |v, _| (v - k) * (v - k) * (v - k)),
        total(part, |v, _| ((v - k) * (v - k)) * ((v - k) * (v - k))),
    ]
}

/// The same sums of `n` distances that are all greater by `d`.
fn moved([s1, s2, s3, s4]: [f64; 4], n: f64, d: f64) -> [f64; 4] {
    let t = n * d;
    [
        s1 + t,
        s2 + d * (2.0 * s1 + t),
        s3 + d * (3.0 * s2 + d * (3.0 * s1 + t)),
        s4 + d * (4.0 * s3 + d * (6.0 * s2 + d * (4.0 * s1 + t))),
    ]
}

/// The slope of the least squares line through the values at the ends; `None` if all ends are equal.
pub(crate) fn slope(sample: &Sample) -> Option<f64> {
    let (early, late) = parts(sample);
    let (cxx, cxv) = match (Line::new(early), Line::new(late)) {
        (Some(early), Some(late)) => early.merge(&late),
        (part, None) | (None, part) => part.map(|line| (line.cxx, line.cxv))?,
    };
    (cxx != 0.0).then(|| cxv / cxx)
}

/// The sums of a regression over one part, taken from its member nearest to the split.
struct Line {
    n: f64,
    /// The end of that member, and the mean distance from it.
    x: i64,
    x_mean: f64,
    /// Its value, and the mean distance from that: their sum would be rounded as coarsely as the values are large.
    v: f64,
    v_mean: f64,
    cxx: f64,
    cxv: f64,
}

impl Line {
    fn new(part: &Sample) -> Option<Self> {
        let (k, x) = nearest(part)?;
        let n = part.len() as f64;
        let from_x = |end: i64| distance(x, end);
        let sx = total(part, |_, end| from_x(end));
        let sv = total(part, |v, _| v - k);
        let sxx = total(part, |_, end| from_x(end) * from_x(end));
        let sxv = total(part, |v, end| from_x(end) * (v - k));
        Some(Self {
            n,
            x,
            x_mean: sx / n,
            v: k,
            v_mean: sv / n,
            cxx: not_negative(sxx - sx * (sx / n)),
            cxv: sxv - sx * (sv / n),
        })
    }

    /// `Cxx` and `Cxv` of both parts together.
    fn merge(&self, late: &Self) -> (f64, f64) {
        let n = self.n + late.n;
        let dx = distance(self.x, late.x) + (late.x_mean - self.x_mean);
        let dv = (late.v - self.v) + (late.v_mean - self.v_mean);
        let w = self.n * late.n / n;
        (
            (self.cxx + late.cxx) + dx * dx * w,
            (self.cxv + late.cxv) + dx * dv * w,
        )
    }
}

/// `to - from`, exact before it becomes a double.
fn distance(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}
