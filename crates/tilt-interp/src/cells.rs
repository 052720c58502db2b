//! Cells of time: the grid of an `every` clock, the calendar of a `calendar` clock.

use std::ops::Range;

use tilt_ir::{CalendarCells, Clock, OPEN, Program, Span, StreamId};

use crate::{clock::first_with, range::saturate, timeline::TimelineId};

/// The cells of a clock, numbered in order.
#[derive(Clone, Debug)]
pub(crate) enum Cells {
    Grid(Grid),
    Calendar {
        /// The first stream on this calendar.
        first: StreamId,
        cells: CalendarCells,
    },
}

impl Cells {
    /// The cells of the clock of stream `id`, if it is made of cells.
    pub(crate) fn of_clock(program: &Program, id: StreamId, clock: &Clock) -> Option<Self> {
        match clock {
            Clock::Every { period, offset } => Some(Self::Grid(Grid::new(*period, *offset))),
            Clock::Calendar(calendar) => {
                let cells = calendar.cells(program.unit);
                Some(Self::Calendar {
                    first: first_with(program, id, clock),
                    cells: cells.expect("a verified calendar has a zone"),
                })
            }
            Clock::At(_) | Clock::OnChange(_) | Clock::Sessions { .. } => None,
        }
    }

    pub(crate) fn id(&self) -> TimelineId {
        match self {
            Self::Grid(grid) => grid.id(),
            Self::Calendar { first, .. } => TimelineId::Own(*first),
        }
    }

    /// The numbers of the cells that intersect a range, or `None` if the calendar does not reach so far.
    pub(crate) fn numbers(&self, range: Option<Span>) -> Option<Range<i128>> {
        match (self, range) {
            (Self::Grid(grid), range) => Some(grid.cells(range)),
            (Self::Calendar { .. }, None) => Some(0..0),
            (Self::Calendar { cells, .. }, Some(range)) => {
                let numbers = cells.between(range)?;
                Some(i128::from(*numbers.start())..i128::from(*numbers.end()) + 1)
            }
        }
    }

    /// The interval of a cell; `None` if it has no instants.
    pub(crate) fn cell(&self, number: i128) -> Option<Span> {
        match self {
            Self::Grid(grid) => Some(grid.cell(number)),
            Self::Calendar { cells, .. } => cells.cell(i64::try_from(number).ok()?),
        }
    }
}

/// The cells `(g-period, g]`, `g = offset + k·period`, numbered by `k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    period: i64,
    /// In `0..period`: grids with the same cells are equal.
    offset: i64,
}

impl Grid {
    /// The grid of an `every` clock. Its period is positive.
    fn new(period: i64, offset: i64) -> Self {
        Self {
            period,
            offset: offset.rem_euclid(period),
        }
    }

    fn id(self) -> TimelineId {
        TimelineId::Grid {
            period: self.period,
            offset: self.offset,
        }
    }

    /// The cells that intersect a range, except those that 64 bits cannot name.
    fn cells(self, range: Option<Span>) -> Range<i128> {
        let Some(range) = range else { return 0..0 };
        // The least k with offset + k·period > t.
        let after = |t: i128| (t - i128::from(self.offset)).div_euclid(i128::from(self.period)) + 1;
        let first = after(i128::from(range.start));
        let end = after(i128::from(range.end) + i128::from(self.period) - 1);
        first..end.min(after(i128::from(OPEN) - 1)).max(first)
    }

    fn cell(self, number: i128) -> Span {
        let end = i128::from(self.offset) + number * i128::from(self.period);
        Span::new(saturate(end - i128::from(self.period)), saturate(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_the_cells_that_intersect_a_range() {
        let grid = Grid::new(10, 23);
        assert_eq!(grid, Grid::new(10, -7));
        let cells = |start, end| {
            let cells = grid.cells(Some(Span::new(start, end)));
            cells.map(|k| grid.cell(k)).collect::<Vec<_>>()
        };
        assert_eq!(cells(3, 13), [Span::new(3, 13)]);
        assert_eq!(cells(2, 3), [Span::new(-7, 3)]);
        assert_eq!(
            cells(2, 14),
            [Span::new(-7, 3), Span::new(3, 13), Span::new(13, 23)]
        );
        assert!(grid.cells(None).is_empty());
        let last = cells(i64::MAX - 1, i64::MAX);
        assert!(last.iter().all(|cell| cell.end < OPEN));
    }
}
