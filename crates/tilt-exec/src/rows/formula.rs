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
        match (of_part(early), of_part(late)) {
            (Some(early), Some(late)) => Some(Self::merge(early, late)),
            (part, None) | (None, part) => part.map(|(moments, ..)| moments),
        }
    }

    /// Of both parts with their anchors and their means less the anchor.
    fn merge((e, ke, e1): (Self, f64, f64), (l, kl, l1): (Self, f64, f64)) -> Self {
        let n = e.n + l.n;
        let d = (kl - ke) + (l1 - e1);
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
        let biased = (m3 / n) / ((m2 / n) * (m2 / n).sqrt());
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
        let pearson = (m4 / n) / ((m2 / n) * (m2 / n));
        Some(match (bias, fisher) {
            (true, true) => pearson - 3.0,
            (true, false) => pearson,
            (false, fisher) => {
                let above = (n * n - 1.0) * pearson - 3.0 * ((n - 1.0) * (n - 1.0));
                let excess = above / ((n - 2.0) * (n - 3.0));
                if fisher { excess } else { excess + 3.0 }
            }
        })
    }
}

/// The moments of a part, its anchor, and its mean less the anchor. Sums that were not asked for are zero.
fn of_part(part: &Part) -> Option<(Moments, f64, f64)> {
    if part.n == 0 {
        return None;
    }
    let n = part.n as f64;
    let [s1, s2, s3, s4] = part.sums;
    let m1 = s1 / n;
    let m2 = s2 - s1 * m1;
    let m3 = (s3 - 3.0 * m1 * s2) + 2.0 * (m1 * m1) * s1;
    let m4 = ((s4 - 4.0 * m1 * s3) + 6.0 * (m1 * m1) * s2) - 3.0 * ((m1 * m1) * m1) * s1;
    let moments = Moments {
        n,
        m2: not_negative(m2),
        m3,
        m4: not_negative(m4),
    };
    Some((moments, part.anchor.0, m1))
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
    nth: impl Fn(usize) -> f64,
) -> f64 {
    let h = q * (n - 1) as f64;
    let at = |h: f64| nth((h as usize).min(n - 1));
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
