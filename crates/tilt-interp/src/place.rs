//! Places: the order in which the contributions of a window are combined.
//!
//! The order depends only on what lies in the window and on absolute time, so neighbouring windows, parts of a run and
//! vector lanes can share partial results and still agree to the last bit.

use std::convert::Infallible;

use crate::timeline::{Timeline, TimelineId};

/// The places that are combined as a tree before anything else.
const GROUP: i128 = 8;

/// A side of the instant at which a time window is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Events that end at or before the split; places count backward from it.
    Early,
    /// Events that end after the split; places count forward from it.
    Late,
}

/// Where a contribution stands in its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) part: Part,
    /// Counts away from the split. Negative only in windows without beginning over a grid.
    number: i128,
}

impl Place {
    pub(crate) fn early(number: i128) -> Self {
        let part = Part::Early;
        Self { part, number }
    }

    pub(crate) fn late(number: i128) -> Self {
        let part = Part::Late;
        Self { part, number }
    }
}

/// Numbers the contributions of a window without gaps, away from the split; they are in order of time.
///
/// For windows over the events of an `on` clock: passes may give it other sources, and with them more or fewer positions at
/// which the body is φ. So it is with all clocks that make events of their own; positions of inputs and cells of grids are
/// what they are.
pub(crate) fn close_up<'a>(places: impl Iterator<Item = &'a mut Place>) {
    let mut places: Vec<_> = places.collect();
    let early = places.partition_point(|place| place.part == Part::Early);
    for (number, place) in places[..early].iter_mut().rev().enumerate() {
        place.number = number as i128;
    }
    for (number, place) in places[early..].iter_mut().enumerate() {
        place.number = number as i128;
    }
}

/// The places in the time window `(lo, hi]` over a timeline.
pub(crate) struct Places<'a> {
    timeline: &'a Timeline,
    split: Option<i64>,
    /// The positions of the late part, unless cells are counted instead.
    late: Vec<usize>,
}

impl<'a> Places<'a> {
    /// The places in a window that ends at `hi` and is split somewhere before.
    pub(crate) fn new(timeline: &'a Timeline, split: Option<i64>, hi: i64) -> Self {
        let late = match timeline.id {
            TimelineId::Grid { .. } => Vec::new(),
            TimelineId::Input(_) | TimelineId::Own(_) => timeline.between(split, hi).collect(),
        };
        Self {
            timeline,
            split,
            late,
        }
    }

    /// The place of a position in the window.
    pub(crate) fn of(&self, position: usize) -> Place {
        let end = self.timeline.interval(position).end;
        let number = number(self.timeline, position);
        match self.split {
            Some(split) if end <= split => {
                Place::early(numbers_by(self.timeline, split) - 1 - number)
            }
            _ if !matches!(self.timeline.id, TimelineId::Grid { .. }) => {
                Place::late(self.late.partition_point(|p| *p < position) as i128)
            }
            Some(split) => Place::late(number - numbers_by(self.timeline, split)),
            None => Place::late(number),
        }
    }
}

/// The greatest multiple of the window's length below its end. `lo < hi`.
pub(crate) fn split(lo: i64, hi: i64) -> i64 {
    let length = i128::from(hi) - i128::from(lo);
    let split = length * (i128::from(hi) - 1).div_euclid(length);
    i64::try_from(split).expect("the split lies in the window")
}

/// The number of a position: on a grid that of its cell, whichever other cells are there.
pub(crate) fn number(timeline: &Timeline, position: usize) -> i128 {
    match timeline.id {
        TimelineId::Grid { .. } => numbers_by(timeline, timeline.interval(position).end) - 1,
        TimelineId::Input(_) | TimelineId::Own(_) => position as i128,
    }
}

/// The least number of a position that ends after `t`.
fn numbers_by(timeline: &Timeline, t: i64) -> i128 {
    match timeline.id {
        TimelineId::Grid { period, offset } => {
            (i128::from(t) - i128::from(offset)).div_euclid(i128::from(period)) + 1
        }
        TimelineId::Input(_) | TimelineId::Own(_) => timeline.ended_by(t) as i128,
    }
}

/// Combines values, given in order of time, in the order of their places. `op` takes the older operand first.
pub(crate) fn combine<T, E>(
    placed: impl IntoIterator<Item = (Place, T)>,
    mut op: impl FnMut(T, T) -> Result<T, E>,
) -> Result<Option<T>, E> {
    let (early, late): (Vec<_>, Vec<_>) = placed
        .into_iter()
        .partition(|(place, _)| place.part == Part::Early);
    let early = combine_part(early.into_iter().rev(), &mut |near, far| op(far, near))?;
    let late = combine_part(late, &mut op)?;
    join(early, late, &mut op)
}

/// The sum of doubles in the order of their places.
pub(crate) fn sum(placed: impl IntoIterator<Item = (Place, f64)>) -> Option<f64> {
    combine(placed, |a, b| Ok::<_, Infallible>(a + b)).unwrap_or_else(|never| match never {})
}

/// The product of doubles in the order of their places.
pub(crate) fn product(placed: impl IntoIterator<Item = (Place, f64)>) -> Option<f64> {
    combine(placed, |a, b| Ok::<_, Infallible>(a * b)).unwrap_or_else(|never| match never {})
}

/// Combines one part from the split on. `op` takes the operand nearer to the split first.
fn combine_part<T, E>(
    placed: impl IntoIterator<Item = (Place, T)>,
    op: &mut impl FnMut(T, T) -> Result<T, E>,
) -> Result<Option<T>, E> {
    let mut total = None;
    let mut current = None;
    let mut group = no_values();
    for (place, value) in placed {
        let index = place.number.div_euclid(GROUP);
        if current.replace(index) != Some(index) {
            let done = std::mem::replace(&mut group, no_values());
            total = join(total, tree(done, op)?, op)?;
        }
        group[place.number.rem_euclid(GROUP) as usize] = Some(value);
    }
    join(total, tree(group, op)?, op)
}

fn no_values<T>() -> Vec<Option<T>> {
    (0..GROUP).map(|_| None).collect()
}

/// Neighbours first, then neighbouring pairs, then the two halves.
fn tree<T, E>(
    mut level: Vec<Option<T>>,
    op: &mut impl FnMut(T, T) -> Result<T, E>,
) -> Result<Option<T>, E> {
    while level.len() > 1 {
        let mut values = level.into_iter();
        let mut joined = Vec::new();
        while let (Some(a), Some(b)) = (values.next(), values.next()) {
            joined.push(join(a, b, op)?);
        }
        level = joined;
    }
    Ok(level.pop().flatten())
}

/// An absent operand leaves the other one as it is.
fn join<T, E>(
    a: Option<T>,
    b: Option<T>,
    op: &mut impl FnMut(T, T) -> Result<T, E>,
) -> Result<Option<T>, E> {
    match (a, b) {
        (Some(a), Some(b)) => op(a, b).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tilt_ir::{Id, Span, StreamId};

    use super::*;

    fn timeline(intervals: &[(i64, i64)]) -> Rc<Timeline> {
        let intervals = intervals.iter().map(|(s, e)| Span::new(*s, *e)).collect();
        Timeline::new(TimelineId::Input(StreamId::new(0)), intervals)
    }

    /// The places of a window's positions: `E` or `L` and the number.
    fn places(timeline: &Timeline, lo: Option<i64>, hi: i64) -> String {
        let places = Places::new(timeline, lo.map(|lo| split(lo, hi)), hi);
        let name = |position| match places.of(position) {
            Place {
                part: Part::Early,
                number,
            } => format!("E{number}"),
            Place {
                part: Part::Late,
                number,
            } => format!("L{number}"),
        };
        let positions = timeline.between(lo, hi);
        positions.map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn windows_are_split_at_a_multiple_of_their_length() {
        assert_eq!(split(0, 10), 0);
        assert_eq!(split(1, 11), 10);
        assert_eq!(split(9, 19), 10);
        assert_eq!(split(-10, 0), -10);
        assert_eq!(split(-3, 7), 0);
        assert_eq!(split(-13, -3), -10);
        assert_eq!(split(6, 7), 6);
        // Lengths beyond 64 bits.
        assert_eq!(split(i64::MIN, i64::MAX), 0);
        assert_eq!(split(i64::MIN, 0), i64::MIN);
        assert_eq!(split(i64::MIN, 5), 0);
    }

    #[test]
    fn places_count_positions_away_from_the_split() {
        let points: Vec<_> = (0..10).map(|i| (2 * i, 2 * i + 1)).collect(); // ends 1 3 5 … 19
        let points = timeline(&points);
        // Split at 10: ends 5 7 9 | 11 13.
        assert_eq!(places(&points, Some(4), 14), "E2 E1 E0 L0 L1");
        assert_eq!(places(&points, Some(0), 10), "L0 L1 L2 L3 L4");
        assert_eq!(places(&points, Some(1), 11), "E3 E2 E1 E0 L0");
        assert_eq!(places(&points, None, 6), "L0 L1 L2");
    }

    #[test]
    fn an_event_belongs_to_the_part_of_its_own_end() {
        // Split at 10. The last one reaches beyond the window.
        let events = timeline(&[(0, 5), (5, 10), (10, 12), (12, 30)]);
        assert_eq!(places(&events, Some(4), 14), "E1 E0 L0 L1");
    }

    #[test]
    fn events_outside_of_a_window_take_no_place_in_it() {
        // Of this bag neither (15, 16] nor (20, 21] is in (4, 14], though both come before (0, 30].
        let bag = timeline(&[(8, 9), (7, 10), (15, 16), (13, 18), (20, 21), (0, 30)]);
        assert_eq!(places(&bag, Some(4), 14), "E1 E0 L0 L1");
        assert_eq!(places(&bag, None, 14), "L0 L1 L2 L3");
    }

    #[test]
    fn cells_that_are_not_there_hold_their_place() {
        let id = TimelineId::Grid {
            period: 2,
            offset: 1,
        };
        // Cells -2, 1, 3, 6, 7.
        let ends = [-3, 3, 7, 13, 15];
        let cells = ends.map(|end| Span::new(end - 2, end));
        let grid = Timeline::new(id, cells.into());
        // Split at 10, between the cells 4 and 5, and at 0, between -1 and 0.
        assert_eq!(places(&grid, Some(4), 14), "E1 L1 L2");
        assert_eq!(places(&grid, Some(-6), 14), "E1 L1 L3 L6 L7");
        assert_eq!(places(&grid, None, 14), "L-2 L1 L3 L6 L7");
    }

    #[test]
    fn places_close_up_towards_the_split() {
        let mut places = [
            Place::early(9),
            Place::early(1),
            Place::late(3),
            Place::late(4),
            Place::late(8),
        ];
        close_up(places.iter_mut());
        let expected = [
            Place::early(1),
            Place::early(0),
            Place::late(0),
            Place::late(1),
            Place::late(2),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn operands_stand_in_order_of_time() {
        let text = |early: &[i128], late: &[i128]| {
            let early = early.iter().map(|n| (Place::early(*n), format!("e{n}")));
            let late = late.iter().map(|n| (Place::late(*n), format!("l{n}")));
            let op = |a, b| Ok::<_, Infallible>(format!("({a} {b})"));
            combine(early.chain(late), op).ok().flatten()
        };
        assert_eq!(text(&[], &[]), None);
        assert_eq!(text(&[], &[5]).as_deref(), Some("l5"));
        assert_eq!(
            text(&[], &[0, 1, 2, 4, 7, 8, 9, 10, 16]).as_deref(),
            Some("(((((l0 l1) l2) (l4 l7)) ((l8 l9) l10)) l16)")
        );
        assert_eq!(
            text(&[16, 10, 9, 8, 7, 4, 2, 1, 0], &[]).as_deref(),
            Some("(e16 ((e10 (e9 e8)) ((e7 e4) (e2 (e1 e0)))))")
        );
        assert_eq!(
            text(&[2, 1, 0], &[0, 1, 2]).as_deref(),
            Some("((e2 (e1 e0)) ((l0 l1) l2))")
        );
        assert_eq!(
            text(&[], &[-9, -8, -1, 0]).as_deref(),
            Some("((l-9 (l-8 l-1)) l0)")
        );
    }
}
