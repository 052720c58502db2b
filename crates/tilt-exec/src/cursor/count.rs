//! How many stamps are at or before a limit.

use std::ops::Range;

use super::{
    regular::{Grid, Ruler, Stride},
    wide,
};

/// Stamps as they are stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ticks<'a> {
    Regular { t0: i64, period: i64, len: usize },
    Explicit(&'a [i64]),
}

/// Counts the stamps at or before an instant plus a constant, for instants that never decrease.
#[derive(Clone, Debug)]
pub(super) struct Counter<'a> {
    ticks: Ticks<'a>,
    /// Added one after the other, each saturating.
    plus: [i64; 2],
    /// How many explicit stamps the last instant has passed.
    passed: usize,
}

impl<'a> Counter<'a> {
    /// Counts stored ticks with `tick + shift <= t + a + b`.
    pub(crate) fn new(ticks: Ticks<'a>, shift: i64, a: i64, b: i64) -> Self {
        Self {
            ticks,
            plus: [a, b.saturating_sub(shift)],
            passed: 0,
        }
    }

    #[inline]
    fn limit(&self, t: i64) -> i64 {
        t.saturating_add(self.plus[0]).saturating_add(self.plus[1])
    }

    /// The counts at `instants`, which are `stride` apart if they are regular and none is saturated.
    pub(crate) fn count(&mut self, instants: &[i64], stride: Option<i64>, out: &mut [u32]) {
        match self.ticks {
            Ticks::Explicit(ticks) => {
                let passed = self.passed.min(ticks.len());
                self.passed = match self.exact(instants) {
                    Some(plus) => count_all(ticks, passed, instants, |t| t.wrapping_add(plus), out),
                    None => count_all(ticks, passed, instants, |t| self.limit(t), out),
                };
            }
            Ticks::Regular { t0, period, len } => {
                let grid = Grid { t0, period, len };
                let regular = stride.zip(instants.first()).zip(instants.last());
                let regular = regular.and_then(|((stride, first), last)| {
                    let way = i128::from(stride) * (instants.len() as i128 - 1);
                    let exact = i128::from(*last) - i128::from(*first) == way;
                    exact.then(|| self.stride(*first, stride, instants.len()))?
                });
                match regular {
                    Some(stride) => stride.count(out),
                    None => self.count_regular(grid, instants, out),
                }
            }
        }
    }

    /// What counts at `rows` instants from `first` on, if stamps are regular and no instant is saturated.
    pub(super) fn stride(&self, first: i64, stride: i64, rows: usize) -> Option<Stride> {
        match self.ticks {
            Ticks::Regular { t0, period, len } => {
                let grid = Grid { t0, period, len };
                Stride::new(grid, self.plus, first, stride, rows)
            }
            Ticks::Explicit(_) => None,
        }
    }

    /// The count at one instant.
    pub(crate) fn count_at(&mut self, t: i64) -> u32 {
        match self.ticks {
            Ticks::Explicit(ticks) => {
                self.passed = advance(ticks, self.passed, self.limit(t));
                self.passed as u32
            }
            Ticks::Regular { t0, period, len } => {
                let ruler = Ruler::new(Grid { t0, period, len });
                ruler.map_or(0, |ruler| ruler.count(self.limit(t)))
            }
        }
    }

    /// What to add to each instant, if nothing is saturated.
    fn exact(&self, instants: &[i64]) -> Option<i64> {
        let fits = |t: &i64| self.plus.iter().try_fold(*t, |t, d| t.checked_add(*d));
        // Whatever fits for the outermost instants does so between them.
        let (first, last) = (instants.first()?, instants.last()?);
        let first = fits(first)?.wrapping_sub(*first);
        fits(last).map(|_| first)
    }

    fn count_regular(&self, grid: Grid, instants: &[i64], out: &mut [u32]) {
        let Some(ruler) = Ruler::new(grid) else {
            out.fill(0);
            return;
        };
        match self.exact(instants) {
            Some(plus) => {
                for (t, out) in instants.iter().zip(out) {
                    *out = ruler.count(t.wrapping_add(plus));
                }
            }
            None => {
                for (t, out) in instants.iter().zip(out) {
                    *out = ruler.count(self.limit(*t));
                }
            }
        }
    }
}

/// Ticks that are compared at once.
const WIDTH: usize = 4;

/// Rows that are counted side by side: a count waits for the one of the row before, four independent ones take the time
/// of 1.6.
const LANES: usize = 4;

/// Rows a lane must have for its start to pay.
const LANE_ROWS: usize = 16;

/// Writes how many ticks each instant's limit has passed and returns the last count. The first `passed` ticks are below
/// all limits, which never decrease.
fn count_all(
    ticks: &[i64],
    passed: usize,
    instants: &[i64],
    limit: impl Fn(i64) -> i64 + Copy,
    out: &mut [u32],
) -> usize {
    let out = &mut out[..instants.len()];
    let Some(last) = instants.last() else {
        return passed;
    };
    let Some(tail) = ticks.len().checked_sub(WIDTH) else {
        let below = |limit| ticks.iter().map(|tick| u32::from(*tick <= limit)).sum();
        for (t, out) in instants.iter().zip(&mut *out) {
            *out = below(limit(*t));
        }
        return below(limit(*last)) as usize;
    };
    // Up to here all that are compared at once exist.
    let inner = if limit(*last) < ticks[tail] {
        instants.len()
    } else {
        instants.partition_point(|t| limit(*t) < ticks[tail])
    };
    let (instants, late) = instants.split_at(inner);
    let (out, late_out) = out.split_at_mut(inner);
    let mut passed = count_inner(ticks, passed, instants, limit, out);
    let four = &ticks[tail..];
    for (t, out) in late.iter().zip(late_out) {
        passed = tail + below(four, limit(*t));
        *out = passed as u32;
    }
    passed
}

/// As [`count_all`], for limits before the last [`WIDTH`] ticks.
fn count_inner(
    ticks: &[i64],
    passed: usize,
    instants: &[i64],
    limit: impl Fn(i64) -> i64 + Copy,
    out: &mut [u32],
) -> usize {
    let (Some(first), Some(last)) = (instants.first(), instants.last()) else {
        return passed;
    };
    let rows = instants.len();
    let passed = advance(ticks, passed, limit(*first));
    let end = gallop(ticks, passed, limit(*last), rows);
    let dense = end - passed <= 4 * rows && end - passed >= rows / 16;
    if let Some(ticks) = ticks.get(..end + wide::WIDTH)
        && dense
        && rows >= wide::ROWS
        && wide::is_supported()
    {
        // SAFETY: the machine has the vectors.
        unsafe { wide::count(ticks, passed, instants, limit, out) }
        return end;
    }
    let ticks = &ticks[..(end + WIDTH).min(ticks.len())];
    if end - passed > 16 * rows {
        let step = (end - passed) / rows;
        let mut passed = passed;
        for (t, out) in instants.iter().zip(out) {
            passed = gallop(ticks, passed, limit(*t), step);
            *out = passed as u32;
        }
    } else if end - passed < rows / 16 {
        count_few(ticks, passed, instants, limit, out);
    } else if rows < LANES * LANE_ROWS {
        let mut passed = passed;
        for (t, out) in instants.iter().zip(out) {
            passed = advance(ticks, passed, limit(*t));
            *out = passed as u32;
        }
    } else {
        count_lanes(ticks, passed, instants, limit, out);
    }
    end
}

/// Counts where there are fewer ticks than rows: goes from tick to tick.
fn count_few(
    ticks: &[i64],
    mut passed: usize,
    instants: &[i64],
    limit: impl Fn(i64) -> i64,
    out: &mut [u32],
) {
    let mut row = 0;
    while row < instants.len() {
        let tick = ticks[passed];
        let rest = &instants[row..];
        // Limits before a tick are a prefix.
        let mut same = 1;
        while rest.get(same).is_some_and(|t| limit(*t) < tick) {
            same = (2 * same).min(rest.len());
        }
        let before = same / 2;
        let same = before + rest[before..same].partition_point(|t| limit(*t) < tick);
        out[row..row + same].fill(passed as u32);
        row += same;
        if let Some(t) = instants.get(row) {
            passed = advance(ticks, passed, limit(*t));
        }
    }
}

/// Counts in lanes, each with its stretch of rows, that advance in step. There are [`WIDTH`] ticks above all limits.
fn count_lanes(
    ticks: &[i64],
    passed: usize,
    instants: &[i64],
    limit: impl Fn(i64) -> i64,
    out: &mut [u32],
) {
    let rows = instants.len() / LANES;
    let (instants, rest) = instants.split_at(rows * LANES);
    let (out, rest_out) = out.split_at_mut(rows * LANES);
    let above = ticks.len() - WIDTH;
    assert!(limit(instants[rows * LANES - 1]) < ticks[above]);
    let mut lanes = [passed; LANES];
    for lane in 1..LANES {
        let from = lanes[lane - 1];
        let limit = limit(instants[lane * rows]);
        lanes[lane] = from + ticks[from..].partition_point(|tick| *tick <= limit);
    }
    for row in 0..rows {
        for (lane, passed) in lanes.iter_mut().enumerate() {
            let row = lane * rows + row;
            // SAFETY: there are `LANES * rows` instants and as many in `out`. A count is at most `above`, because the
            // limits are below that tick, so that `WIDTH` ticks follow.
            unsafe {
                let limit = limit(*instants.get_unchecked(row));
                let below = below(ticks.get_unchecked(*passed..*passed + WIDTH), limit);
                *passed += below;
                if below == WIDTH {
                    *passed = go_on(ticks, *passed, limit);
                }
                *out.get_unchecked_mut(row) = *passed as u32;
            }
        }
    }
    let mut passed = lanes[LANES - 1];
    for (t, out) in rest.iter().zip(rest_out) {
        passed = advance(ticks, passed, limit(*t));
        *out = passed as u32;
    }
}

/// How many ticks are not above the limit, without a branch.
#[inline]
fn below(ticks: &[i64], limit: i64) -> usize {
    ticks.iter().map(|tick| usize::from(*tick <= limit)).sum()
}

/// The first position from `passed` on whose tick is above the limit.
#[inline]
fn advance(ticks: &[i64], mut passed: usize, limit: i64) -> usize {
    // Comparing some at a time takes no branch that depends on the data, but for the rare long way.
    for _ in 0..8 {
        let Some(some) = ticks.get(passed..passed + WIDTH) else {
            break;
        };
        let below = below(some, limit);
        passed += below;
        if below < WIDTH {
            return passed;
        }
    }
    gallop(ticks, passed, limit, 2 * WIDTH)
}

/// As [`advance`], out of the way.
#[cold]
#[inline(never)]
pub(super) fn go_on(ticks: &[i64], passed: usize, limit: i64) -> usize {
    advance(ticks, passed, limit)
}

/// As [`advance`], in time logarithmic in the distance over `step`, which is a guess of it.
fn gallop(ticks: &[i64], mut passed: usize, limit: i64, mut step: usize) -> usize {
    step = step.max(1);
    while ticks.get(passed + step).is_some_and(|tick| *tick <= limit) {
        passed += step;
        step *= 2;
    }
    let end = ticks.len().min(passed + step);
    let Range { start, end } = narrow(ticks, passed..end, limit);
    start + ticks[start..end].partition_point(|tick| *tick <= limit)
}

/// A part of the range that still holds the first position whose tick is above the limit, or ends there.
///
/// Halving a long range misses the caches at almost every step, guessing as if ticks were regular only a few times.
fn narrow(ticks: &[i64], mut range: Range<usize>, limit: i64) -> Range<usize> {
    const MARGIN: usize = 32;
    for _ in 0..3 {
        if range.len() <= 8 * MARGIN {
            break;
        }
        let (low, high) = (ticks[range.start], ticks[range.end - 1]);
        if limit < low || high <= limit {
            break;
        }
        // Differences of instants fit into 64 bits without a sign.
        let difference = |a: i64, b: i64| a.wrapping_sub(b) as u64 as f64;
        let part = difference(limit, low) / difference(high, low);
        let guess = range.start + (part * range.len() as f64) as usize;
        for probe in [guess.saturating_sub(MARGIN), guess + MARGIN] {
            match ticks.get(probe).filter(|_| range.contains(&probe)) {
                Some(tick) if *tick <= limit => range.start = probe + 1,
                Some(_) => range.end = probe,
                None => {}
            }
        }
    }
    range
}
