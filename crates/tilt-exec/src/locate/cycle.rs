//! Positions of a periodic stream at periodic instants: they repeat after a cycle of rows, but for a distance.

use std::ops::Range;

use tilt_codegen::lir::LANES;

use crate::{memory::Scratch, run::CHUNK, series::Axis, view::Index};

/// Longer cycles are not worth finding.
const LONGEST: i64 = 64;

/// Chunks of fewer rows do not pay for the columns.
const ROWS: usize = 64;

/// Rows that read a stream whose events follow each other without gaps.
pub(crate) struct Cycle {
    /// How many rows a cycle has, and positions.
    rows: usize,
    positions: i64,
    /// The position that row 0 reads; it need not exist.
    first: i64,
    /// How much later than the end of position 0 the instant of row 0 is, and how far rows and positions are from each other.
    distance: i128,
    stride: i128,
    period: i128,
    /// How many positions there are.
    len: i64,
    /// How far those of the rows of a cycle are from that of the first.
    ahead: Vec<u32>,
    /// The same for a chunk of rows that begins anywhere in a cycle, and that there is one for all of them. Made when they are asked for.
    columns: Option<(&'static [u32], &'static [u8])>,
    /// Where they are.
    memory: Scratch,
}

impl Cycle {
    /// `None` if there is no short cycle.
    pub(crate) fn new(here: &Axis, there: &Axis, offset: i64) -> Option<Self> {
        let (t, stride) = (here.regular_ends()?, here.timeline.period()?);
        let (end, period) = (there.regular_ends()?, there.timeline.period()?);
        // Nothing is saturated where there are events.
        end.checked_sub(period)?;
        let common = gcd(stride, period);
        let (rows, positions) = (period / common, stride / common);
        if rows > LONGEST || positions > i64::from(u32::MAX) / (2 * CHUNK as i64) {
            return None;
        }
        let distance = i128::from(t) + i128::from(offset) - i128::from(end);
        let (stride, period) = (i128::from(stride), i128::from(period));
        // The first position that ends at or after the instant.
        let position = |row: i64| -((-distance - stride * i128::from(row)).div_euclid(period));
        let first = position(0);
        Some(Self {
            rows: rows as usize,
            positions,
            first: i64::try_from(first)
                .ok()
                .filter(|p| p.unsigned_abs() < 1 << 48)?,
            distance,
            stride,
            period,
            len: there.len() as i64,
            ahead: (0..rows)
                .map(|row| (position(row) - first) as u32)
                .collect(),
            columns: None,
            memory: Scratch::default(),
        })
    }

    /// The rows for which there is a position so many further than the one they read.
    pub(crate) fn rows(&self, further: i64) -> Range<i64> {
        let (further, len) = (i128::from(further), i128::from(self.len));
        // The first row whose instant is after the end of a position.
        let after =
            |position: i128| (position * self.period - self.distance).div_euclid(self.stride) + 1;
        let row = |row: i128| row.clamp(0, i128::from(i64::MAX)) as i64;
        row(after(-1 - further))..row(after(len - 1 - further))
    }

    /// Where the rows of a chunk lead, if all lead to positions that exist and they are whole groups.
    pub(crate) fn locate(&mut self, rows: &Range<usize>) -> Option<Index> {
        if rows.len() < ROWS || rows.len() > CHUNK || !rows.len().is_multiple_of(LANES) {
            return None;
        }
        let position = |row: usize| {
            let (cycles, row) = (row / self.rows, row % self.rows);
            let begin = self.first + cycles as i64 * self.positions;
            (begin, begin + i64::from(self.ahead[row]))
        };
        let ((base, from), (_, last)) = (position(rows.start), position(rows.end - 1));
        if from < 0 || last >= self.len {
            return None;
        }
        let (positions, found) = self.columns();
        let skip = rows.start % self.rows;
        Some(Index {
            positions: &positions[skip..skip + rows.len()],
            found: &found[..rows.len() / 8],
            base,
            within: Some(from as usize..last as usize + 1),
        })
    }

    fn columns(&mut self) -> (&'static [u32], &'static [u8]) {
        if let Some(columns) = self.columns {
            return columns;
        }
        let positions = self.memory.slice::<u32>(CHUNK + self.rows);
        let mut sum = 0;
        for cycle in positions.chunks_mut(self.rows) {
            for (position, ahead) in cycle.iter_mut().zip(&self.ahead) {
                *position = ahead + sum;
            }
            sum += self.positions as u32;
        }
        let found = self.memory.slice::<u8>(CHUNK / 8);
        found.fill(u8::MAX);
        *self.columns.insert((positions, found))
    }
}

/// The greatest common divisor of two numbers that are not zero.
fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use tilt_data::{Spans, Timeline};

    use super::*;

    #[test]
    fn positions_are_those_of_the_definition() {
        let axis = |t0, period, len| {
            let timeline = Timeline::regular(t0, period, len, Spans::Fixed(period));
            Axis::new(timeline, Vec::new())
        };
        let mut found = 0;
        for (stride, period) in [(5, 4), (4, 5), (3, 7), (640, 64), (1, 63), (7, 7)] {
            for offset in [0, -4, 13] {
                let (here, there) = (axis(-100, stride, 900), axis(-37, period, 700));
                let mut cycle = Cycle::new(&here, &there, offset).expect("a short cycle");
                for further in [0, -3, 8] {
                    let expected: Vec<usize> = (0..900)
                        .filter(|row| {
                            let t = here.timeline.end(*row) + offset + further * period;
                            (0..there.len()).any(|p| there.timeline.event(p).contains(t))
                        })
                        .collect();
                    let rows = cycle.rows(further);
                    let rows: Vec<usize> =
                        (0..900).filter(|r| rows.contains(&(*r as i64))).collect();
                    assert_eq!(rows, expected, "{stride} {period} {offset} {further}");
                }
                for rows in [0..64, 3..75, 17..81, 40..360, 200..840] {
                    let Some(index) = cycle.locate(&rows) else {
                        continue;
                    };
                    found += 1;
                    let timeline = &there.timeline;
                    for (row, ahead) in rows.zip(index.positions) {
                        let t = here.timeline.end(row) + offset;
                        let position = (index.base + i64::from(*ahead)) as usize;
                        assert!(timeline.event(position).contains(t), "row {row} at {t}");
                    }
                }
            }
        }
        assert!(found > 20, "{found}");
        assert!(Cycle::new(&axis(0, 1, 9), &axis(0, 65, 9), 0).is_none());
    }
}
