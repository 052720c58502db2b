//! From the sums of the parts to the statistics of a window, evaluated as `docs/ir.md` writes them.

use tilt_ir::QuantileMethod;

use super::parts::{Part, distance};

/// The number of members and the sums of the powers of their deviations from the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) n: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Moments {
    /// `None` without members.
    pub(crate) fn new([early, late]: &[Part; 2]) -> Option<Self> {
        if early.n + late.n == 0 {
            return None;
        }
        // Sums that were not asked for are zero, and so are all of a part without members.
        let both = early.n > 0 && late.n > 0;
        let d = if both {
            late.anchor.0 - early.anchor.0
        } else {
            0.0
        };
        let t = late.n as f64 * d;
        let ([e1, e2, e3, e4], [l1, l2, l3, l4]) = (early.sums, late.sums);
        let s1 = e1 + (l1 + t);
        let s2 = e2 + (l2 + d * (2.0 * l1 + t));
        let s3 = e3 + (l3 + d * (3.0 * l2 + d * (3.0 * l1 + t)));
        let s4 = e4 + (l4 + d * (4.0 * l3 + d * (6.0 * l2 + d * (4.0 * l1 + t))));
        let n = (early.n + late.n) as f64;
        let m = s1 / n;
        let c = m * s1;
        Some(Self {
            n,
            m2: not_negative(s2 - c),
            m3: s3 - m * (3.0 * s2 - 2.0 * c),
            m4: not_negative(s4 - m * (4.0 * s3 - m * (6.0 * s2 - 3.0 * c))),
        })
    }

    pub(crate) fn variance(self, ddof: u32) -> Option<f64> {
        let ddof = f64::from(ddof);
        (self.n > ddof).then(|| self.m2 / (self.n - ddof))
    }

    pub(crate) fn skew(self, bias: bool) -> Option<f64> {
        let Self { n, m2, m3, .. } = self;
        if !bias && n < 3.0 {
            return None;
        }
        if m2 == 0.0 {
            return Some(f64::NAN);
        }
        let biased = (n.sqrt() * m3) / (m2 * m2.sqrt());
        Some(if bias {
            biased
        } else {
            (n * (n - 1.0)).sqrt() / (n - 2.0) * biased
        })
    }

    pub(crate) fn kurtosis(self, fisher: bool, bias: bool) -> Option<f64> {
        let Self { n, m2, m4, .. } = self;
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
                let excess =
                    ((n * n - 1.0) * part) * pearson - (3.0 * ((n - 1.0) * (n - 1.0))) * part;
                if fisher { excess } else { excess + 3.0 }
            }
        })
    }
}

/// Rounding must not make a sum of squares negative; NaN stays.
fn not_negative(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

/// The slope of the least squares line; `None` if all ends are equal.
pub(crate) fn slope([early, late]: &[Part; 2]) -> Option<f64> {
    let centred = |part: &Part| {
        let n = part.n as f64;
        let [sx, sv, sxx, sxv] = part.sums;
        (not_negative(sxx - sx * (sx / n)), sxv - sx * (sv / n))
    };
    let (cxx, cxv) = match (early.n, late.n) {
        (0, 0) => return None,
        (_, 0) => centred(early),
        (0, _) => centred(late),
        _ => {
            let ((exx, exv), (lxx, lxv)) = (centred(early), centred(late));
            let (ne, nl) = (early.n as f64, late.n as f64);
            let w = ne * nl / (ne + nl);
            let dx =
                distance(early.anchor.1, late.anchor.1) + (late.sums[0] / nl - early.sums[0] / ne);
            let dv = (late.anchor.0 - early.anchor.0) + (late.sums[1] / nl - early.sums[1] / ne);
            ((exx + lxx) + dx * dx * w, (exv + lxv) + dx * dv * w)
        }
    };
    (cxx != 0.0).then(|| cxv / cxx)
}

/// A quantile of `n` values, of which `nth` gives the sorted ones.
// The midpoint is defined as the operation that every backend has, overflow included.
#[allow(clippy::manual_midpoint)]
pub(crate) fn quantile(
    n: usize,
    q: f64,
    method: QuantileMethod,
    mut nth: impl FnMut(usize) -> f64,
) -> f64 {
    let h = q * (n - 1) as f64;
    let mut at = |h: f64| nth((h as usize).min(n - 1));
    let lo = at(h.floor());
    if h == h.floor() {
        return lo;
    }
    match method {
        QuantileMethod::Linear => lo + (at(h.ceil()) - lo) * (h - h.floor()),
        QuantileMethod::Lower => lo,
        QuantileMethod::Higher => at(h.ceil()),
        QuantileMethod::Nearest => at(h.round_ties_even()),
        QuantileMethod::Midpoint => (lo + at(h.ceil())) / 2.0,
    }
}
