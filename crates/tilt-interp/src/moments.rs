//! Moments and regression: sums over each part of a window, taken from one of its members, then merged.
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

/// The mean `k + m1` of a part, in two: their sum would be rounded as coarsely as the values are large.
#[derive(Clone, Copy, Debug)]
struct Mean {
    k: f64,
    m1: f64,
}

impl Mean {
    fn distance(self, to: Self) -> f64 {
        (to.k - self.k) + (to.m1 - self.m1)
    }
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
        match (Self::of_part(early), Self::of_part(late)) {
            (Some(early), Some(late)) => Some(Self::merge(early, late)),
            (part, None) | (None, part) => part.map(|(moments, _)| moments),
        }
    }

    /// The moments of a part and its mean.
    fn of_part(part: &Sample) -> Option<(Self, Mean)> {
        let (k, _) = nearest(part)?;
        let n = part.len() as f64;
        let s1 = total(part, |v, _| v - k);
        let s2 = total(part, |v, _| (v - k) * (v - k));
        let s3 = total(part, |v, _| (v - k) * (v - k) * (v - k));
        let s4 = total(part, |v, _| ((v - k) * (v - k)) * ((v - k) * (v - k)));
        let m1 = s1 / n;
        let m2 = s2 - s1 * m1;
        let m3 = (s3 - 3.0 * m1 * s2) + 2.0 * (m1 * m1) * s1;
        let m4 = ((s4 - 4.0 * m1 * s3) + 6.0 * (m1 * m1) * s2) - 3.0 * ((m1 * m1) * m1) * s1;
        let moments = Self {
            n,
            m2: not_negative(m2),
            m3,
            m4: not_negative(m4),
        };
        Some((moments, Mean { k, m1 }))
    }

    /// Of both parts together (Chan, Pébay).
    fn merge((e, early_mean): (Self, Mean), (l, late_mean): (Self, Mean)) -> Self {
        let n = e.n + l.n;
        let d = early_mean.distance(late_mean);
        let d2 = d * d;
        let d3 = d2 * d;
        let d4 = d2 * d2;
        Self {
            n,
            m2: (e.m2 + l.m2) + d2 * (e.n * l.n / n),
            m3: (e.m3 + l.m3)
                + d3 * (e.n * l.n * (e.n - l.n) / (n * n))
                + 3.0 * d * ((e.n * l.m2 - l.n * e.m2) / n),
            m4: (e.m4 + l.m4)
                + d4 * (e.n * l.n * (e.n * e.n - e.n * l.n + l.n * l.n) / (n * n * n))
                + 6.0 * d2 * ((e.n * e.n * l.m2 + l.n * l.n * e.m2) / (n * n))
                + 4.0 * d * ((e.n * l.m3 - l.n * e.m3) / n),
        }
    }
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
    v_mean: Mean,
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
            v_mean: Mean { k, m1: sv / n },
            cxx: not_negative(sxx - sx * (sx / n)),
            cxv: sxv - sx * (sv / n),
        })
    }

    /// `Cxx` and `Cxv` of both parts together.
    fn merge(&self, late: &Self) -> (f64, f64) {
        let n = self.n + late.n;
        let dx = distance(self.x, late.x) + (late.x_mean - self.x_mean);
        let dv = self.v_mean.distance(late.v_mean);
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
