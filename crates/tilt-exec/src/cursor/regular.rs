//! How many ticks of a grid are at or before a limit: by arithmetic.

/// Regular ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) t0: i64,
    pub(super) period: i64,
    pub(super) len: usize,
}

/// Counts regular ticks at arbitrary limits, dividing only where the ticks are spread over more than half of all time.
pub(super) struct Ruler {
    t0: i64,
    last: i64,
    period: i64,
    per_tick: f64,
}

impl Ruler {
    /// `None` if there are no ticks.
    pub(super) fn new(grid: Grid) -> Option<Self> {
        let steps = grid.len.checked_sub(1)? as i64;
        Some(Self {
            t0: grid.t0,
            // The sum fits even where the product alone does not.
            last: grid.t0.wrapping_add(steps.wrapping_mul(grid.period)),
            period: grid.period,
            per_tick: 1.0 / grid.period as f64,
        })
    }

    #[inline]
    pub(super) fn count(&self, limit: i64) -> u32 {
        let distance = limit.clamp(self.t0, self.last).wrapping_sub(self.t0);
        let last = if distance >= 0 {
            // The quotient is below 2³², so rounding puts the estimate at most one off.
            let estimate = (distance as f64 * self.per_tick) as i64;
            let rest = distance.wrapping_sub(estimate.wrapping_mul(self.period));
            estimate + i64::from(rest >= self.period) - i64::from(rest < 0)
        } else {
            (distance as u64 / self.period as u64) as i64
        };
        u32::from(limit >= self.t0) * (last as u32 + 1)
    }
}

/// Counts regular ticks at regular limits: quotient and remainder go up by a constant.
pub(super) struct Stride {
    quotient: i64,
    remainder: u64,
    distance: u64,
    period: u64,
    len: i64,
}

/// Counts repeat after a cycle of rows, but for a constant. Longer cycles are not worth finding, and stretches of at least
/// as many rows are added to at once.
const CYCLE: usize = 64;

impl Stride {
    /// At `rows` instants from `first` on, plus both of `plus`. `None` if some limit is saturated, or the numbers are too large to step.
    pub(super) fn new(
        grid: Grid,
        plus: [i64; 2],
        first: i64,
        stride: i64,
        rows: usize,
    ) -> Option<Self> {
        let way = stride.checked_mul(i64::try_from(rows.checked_sub(1)?).ok()?);
        let last = first.checked_add(way?)?;
        let exact = |t: i64| plus.iter().try_fold(t, |t, d| t.checked_add(*d));
        let distance = exact(first)?.checked_sub(grid.t0)?;
        // Room for the step after the last.
        exact(last)?.checked_sub(grid.t0)?.checked_add(stride)?;
        Some(Self {
            quotient: distance.div_euclid(grid.period),
            remainder: distance.rem_euclid(grid.period) as u64,
            distance: stride as u64,
            period: grid.period as u64,
            len: grid.len as i64,
        })
    }

    pub(super) fn count(mut self, out: &mut [u32]) {
        if self.period / 8 >= self.distance {
            return self.count_runs(out);
        }
        // Nothing is rounded to what exists if the counts before the first row and after the last are not.
        let way = u128::from(self.distance) * out.len() as u128 + u128::from(self.remainder);
        let after = i128::from(self.quotient) + (way / u128::from(self.period)) as i128 + 1;
        let inside = self.quotient >= 0 && after < i128::from(self.len);
        let cycle = self.period / gcd(self.distance, self.period);
        match usize::try_from(cycle) {
            Ok(cycle) if inside && cycle <= CYCLE && 4 * CYCLE <= out.len() => {
                let rows = cycle * CYCLE.div_ceil(cycle);
                let (head, rest) = out.split_at_mut(rows);
                self.step(head);
                let more = (rows as u64 * self.distance / self.period) as u32;
                let mut sum = 0;
                for stretch in rest.chunks_mut(rows) {
                    sum += more;
                    for (out, count) in stretch.iter_mut().zip(&*head) {
                        *out = count + sum;
                    }
                }
            }
            _ => self.step(out),
        }
    }

    /// From row to row.
    fn step(&mut self, out: &mut [u32]) {
        let quotient_step = (self.distance / self.period) as i64;
        let remainder_step = self.distance % self.period;
        for out in out {
            *out = (self.quotient + 1).clamp(0, self.len) as u32;
            self.remainder += remainder_step;
            let carry = self.remainder >= self.period;
            self.remainder -= if carry { self.period } else { 0 };
            self.quotient += quotient_step + i64::from(carry);
        }
    }

    /// From tick to tick: many rows have the same count.
    fn count_runs(mut self, mut out: &mut [u32]) {
        while !out.is_empty() {
            let rows = (self.period - self.remainder).div_ceil(self.distance);
            let rows = usize::try_from(rows).map_or(out.len(), |rows| rows.min(out.len()));
            let (run, rest) = out.split_at_mut(rows);
            run.fill((self.quotient + 1).clamp(0, self.len) as u32);
            out = rest;
            self.remainder = (self.remainder + rows as u64 * self.distance) % self.period;
            self.quotient += 1;
        }
    }
}

/// The greatest common divisor of two numbers, the second of which is not zero.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
