//! Exact numbers, and what reductions of doubles are exactly. Only the last step, from a quotient to a double, rounds.

use num_bigint::{BigInt, Sign};

/// `digits · 2^exponent`: sums, differences and products of doubles, without any rounding.
#[derive(Clone, Debug)]
pub(super) struct Exact {
    digits: BigInt,
    exponent: i64,
}

impl Exact {
    pub(super) fn zero() -> Self {
        Self::int(0)
    }

    pub(super) fn int(v: i64) -> Self {
        Self {
            digits: v.into(),
            exponent: 0,
        }
    }

    /// A finite double.
    pub(super) fn of(v: f64) -> Self {
        assert!(v.is_finite(), "{v} has no digits");
        let bits = v.to_bits();
        let (biased, fraction) = ((bits >> 52) as i64 & 0x7ff, bits as i64 & ((1 << 52) - 1));
        let (digits, exponent) = match biased {
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, biased - 1075),
        };
        Self {
            digits: BigInt::from(if v < 0.0 { -digits } else { digits }),
            exponent,
        }
    }

    pub(super) fn sum(terms: impl IntoIterator<Item = Self>) -> Self {
        terms.into_iter().fold(Self::zero(), |a, b| a.plus(&b))
    }

    fn digits_from(&self, exponent: i64) -> BigInt {
        &self.digits << (self.exponent - exponent) as usize
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self {
            digits: self.digits_from(exponent) + other.digits_from(exponent),
            exponent,
        }
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.plus(&other.times(&Self::int(-1)))
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        Self {
            digits: &self.digits * &other.digits,
            exponent: self.exponent + other.exponent,
        }
    }

    pub(super) fn times_int(&self, n: i64) -> Self {
        self.times(&Self::int(n))
    }

    pub(super) fn abs(&self) -> Self {
        let magnitude = self.digits.magnitude().clone();
        Self {
            digits: BigInt::from_biguint(Sign::Plus, magnitude),
            exponent: self.exponent,
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.sign() == Sign::NoSign
    }

    pub(super) fn is_negative(&self) -> bool {
        self.digits.sign() == Sign::Minus
    }

    pub(super) fn get(&self) -> f64 {
        self.over(&Self::int(1))
    }

    /// The quotient of two numbers to 128 bits or more, then as a double.
    pub(super) fn over(&self, other: &Self) -> f64 {
        assert!(!other.is_zero(), "a quotient by zero");
        if self.is_zero() {
            return 0.0;
        }
        let wanted = 130 + other.digits.bits() as i64 - self.digits.bits() as i64;
        let shift = wanted.max(0);
        let quotient = (&self.digits << shift as usize) / &other.digits;
        let mut exponent = self.exponent - other.exponent - shift;
        // Two steps of at most 64 bits: the first holds all digits of a double and a bit that stands for the rest.
        let spare = quotient.bits() as i64 - 64;
        let top = (quotient.magnitude() >> spare.max(0) as usize)
            .iter_u64_digits()
            .next();
        let mut value = top.unwrap_or(0) as f64;
        exponent += spare.max(0);
        while exponent != 0 {
            let step = exponent.clamp(-1000, 1000);
            value *= 2f64.powi(step as i32);
            exponent -= step;
        }
        if quotient.sign() == Sign::Minus {
            -value
        } else {
            value
        }
    }
}

/// The sums of the powers of some numbers, from which follow all their moments.
pub(super) struct Powers {
    n: i64,
    sums: [Exact; 4],
}

impl Powers {
    pub(super) fn of(values: &[f64]) -> Self {
        let mut powers = Self {
            n: 0,
            sums: [(); 4].map(|()| Exact::zero()),
        };
        for v in values {
            powers.enter(*v);
        }
        powers
    }

    pub(super) fn enter(&mut self, v: f64) {
        self.n += 1;
        self.add(v, 1);
    }

    pub(super) fn leave(&mut self, v: f64) {
        self.n -= 1;
        self.add(v, -1);
    }

    fn add(&mut self, v: f64, times: i64) {
        let v = Exact::of(v);
        let mut power = v.times_int(times);
        for sum in &mut self.sums {
            *sum = sum.plus(&power);
            power = power.times(&v);
        }
    }

    /// `n` times the sum of the squares of the deviations.
    pub(super) fn squares(&self) -> Exact {
        let [s1, s2, ..] = &self.sums;
        s2.times_int(self.n).minus(&s1.times(s1))
    }

    /// `n²` times the sum of their cubes.
    fn cubes(&self) -> Exact {
        let ([s1, s2, s3, _], n) = (&self.sums, self.n);
        let s1_cubed = s1.times(s1).times(s1);
        let all = s3.times_int(n * n).minus(&s1.times(s2).times_int(3 * n));
        all.plus(&s1_cubed.times_int(2))
    }

    /// `n³` times the sum of their fourth powers.
    fn fourths(&self) -> Exact {
        let ([s1, s2, s3, s4], n) = (&self.sums, self.n);
        let squared = s1.times(s1);
        let all = s4.times_int(n * n * n);
        let all = all.minus(&s1.times(s3).times_int(4 * n * n));
        let all = all.plus(&squared.times(s2).times_int(6 * n));
        all.minus(&squared.times(&squared).times_int(3))
    }

    pub(super) fn var(&self, ddof: i64) -> Option<f64> {
        let rest = self.n - ddof;
        (rest > 0).then(|| self.squares().over(&Exact::int(self.n * rest)))
    }

    pub(super) fn std(&self, ddof: i64) -> Option<f64> {
        self.var(ddof).map(f64::sqrt)
    }

    /// NaN where nothing deviates.
    pub(super) fn skew(&self) -> f64 {
        let (squares, cubes) = (self.squares(), self.cubes());
        if squares.is_zero() {
            return f64::NAN;
        }
        let squared = squares.times(&squares).times(&squares);
        let skew = cubes.times(&cubes).over(&squared).sqrt();
        if cubes.is_negative() { -skew } else { skew }
    }

    /// Pearson's.
    pub(super) fn kurtosis(&self) -> f64 {
        let squares = self.squares();
        if squares.is_zero() {
            return f64::NAN;
        }
        self.fourths().over(&squares.times(&squares))
    }

    pub(super) fn rms(&self) -> f64 {
        self.sums[1].over(&Exact::int(self.n)).sqrt()
    }
}

/// Itself of what has lost no digit.
#[test]
fn exact_numbers_are_those_of_doubles() {
    for v in [0.0, 1.0, -0.1, 1e300, -5e-324, 2.5e-310, 1e12 + 0.125] {
        assert_eq!(Exact::of(v).get(), v);
        let sum = Exact::of(v)
            .plus(&Exact::of(1e-30))
            .minus(&Exact::of(1e-30));
        assert_eq!(sum.get(), v);
        assert_eq!(Exact::of(v).times(&Exact::of(3.0)).over(&Exact::of(3.0)), v);
    }
    assert_eq!(Exact::of(1.0).over(&Exact::of(3.0)), 1.0 / 3.0);
    let third = Exact::of(-2.0).times_int(7).over(&Exact::int(21));
    assert_eq!(third, -2.0 / 3.0);
    let powers = Powers::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert_eq!(
        (powers.std(0), powers.var(1)),
        (Some(2.0), Some(32.0 / 7.0))
    );
    assert_eq!((powers.skew(), powers.kurtosis()), (0.656_25, 2.781_25));
    assert_eq!(Powers::of(&[3.0, 4.0]).rms(), 12.5f64.sqrt());
}
