//! The last event of each row's key that has ended.
//!
//! Rows and events are passed in the order of time, step by step: a step enters the next event into a table of the last event of each key, or gives the next row what
//! the table has for its key. Which of the two comes next is anybody's guess where there are about as many rows as events, so a step does both, the one that is not due where
//! nobody looks or where the next step writes anew: there is no branch. A step waits for what the one before it compared, so two halves of the rows are passed in turn.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use tilt_ir::OPEN;

use super::{Side, look_before};
use crate::{
    cursor::NONE,
    memory::filled,
    run::Positions,
    threads::{fill, fill_and_find},
};

/// Where there are more events for a row than this, or more rows for an event, a branch is foreseen more often than not.
const UNEVEN: usize = 8;
/// Rows and events of a lane that are at hand: those of both lanes and the last events of a thousand keys stay in the first cache.
const AT_HAND: usize = 256;
/// With fewer left than this more are made known.
const FEW: usize = AT_HAND / 4;

/// A read of the last event of each row's key that has ended.
pub(super) struct Held<'a> {
    pub(super) left: Side<'a>,
    pub(super) right: Side<'a>,
    pub(super) offset: i64,
    pub(super) max_age: Option<i64>,
    pub(super) run_end: i64,
    pub(super) keys: usize,
}

impl Held<'_> {
    /// The position that each row reads. `None` if an instant is beyond the ends of time.
    pub(super) fn positions(&self, threads: usize) -> Option<Positions> {
        let all = self.left.ends;
        if let (Some(first), Some(last)) = (all.first(), all.last()) {
            first.checked_add(self.offset)?;
            last.checked_add(self.offset)?;
        }
        // Beyond the end of the run nothing is held.
        let rows = all.partition_point(|end| end + self.offset <= self.run_end);
        let positions = filled(all.len(), |out: &mut [u32]| {
            let (out, late) = out.split_at_mut(rows);
            late.fill(NONE);
            let passed = fill_and_find(out, threads, |_, rows, out| self.pass(rows, out));
            look_before(passed.into_iter().flatten(), self.left.ids, out);
            if let Some(max_age) = self.max_age {
                fill(out, threads, |_, rows, out| {
                    for (position, end) in out.iter_mut().zip(&all[rows]) {
                        let held = self.right.ends.get(*position as usize);
                        let age = held.map(|held| (end + self.offset).saturating_sub(*held));
                        if age.is_none_or(|age| age >= max_age) {
                            *position = NONE;
                        }
                    }
                });
            }
        });
        Some(ScalarBuffer::new(positions, 0, all.len()))
    }

    /// How many events have ended when so many rows have.
    fn ended_by(&self, rows: usize) -> usize {
        let Some(row) = rows.checked_sub(1) else {
            return 0;
        };
        let instant = self.left.ends[row] + self.offset;
        let events = self.right.ends;
        // An event without an end is never the last that has ended.
        events.partition_point(|end| *end <= instant && *end < OPEN)
    }

    /// Passes some rows, and the events that have ended by them but not before: with the rows of each half its last events.
    fn pass(&self, rows: Range<usize>, out: &mut [u32]) -> Vec<(Range<usize>, Vec<u32>)> {
        let n = rows.len();
        let events = self.ended_by(rows.end) - self.ended_by(rows.start);
        let is_uneven = events > UNEVEN * n || n > UNEVEN * events;
        // The tables of keys that are more than rows would take longer than the rows.
        if n < 2 * AT_HAND || self.keys > n || is_uneven {
            return vec![Lane::new(self, rows, out).passed()];
        }
        let (first, second) = out.split_at_mut(n / 2);
        let middle = rows.start + n / 2;
        let mut lanes = [
            Lane::new(self, rows.start..middle, first),
            Lane::new(self, middle..rows.end, second),
        ];
        loop {
            let steps = lanes.each_mut().map(Lane::steps);
            match steps[0].min(steps[1]) {
                // One of them is nearly through.
                0..FEW => break,
                steps => pass_in_turn(&mut lanes, steps),
            }
        }
        lanes.map(Lane::passed).into()
    }
}

/// Rows that follow each other, and the events that have ended by them but not before.
struct Lane<'a> {
    held: &'a Held<'a>,
    all_rows: Range<usize>,
    /// Of all rows.
    out: &'a mut [u32],
    /// The last event of each key, and after them whatever was entered for nobody.
    last: Vec<u32>,
    rows: Known,
    events: Known,
    /// What the rows at hand read.
    found: [u32; AT_HAND],
}

/// Rows or events of a lane, the next of which are at hand: their instants, and the numbers of their keys or, one more than those, of nobody.
struct Known {
    instants: [i64; AT_HAND],
    ids: [u32; AT_HAND],
    /// Those at hand, and how many of them were passed.
    at_hand: Range<usize>,
    passed: usize,
    end: usize,
}

impl Known {
    fn new(rows: Range<usize>) -> Self {
        Self {
            instants: [0; AT_HAND],
            ids: [0; AT_HAND],
            at_hand: rows.start..rows.start,
            passed: 0,
            end: rows.end,
        }
    }

    /// How many are at hand and were not passed.
    fn left(&self) -> usize {
        self.at_hand.len() - self.passed
    }

    fn is_scarce(&self) -> bool {
        self.left() < FEW && self.at_hand.end < self.end
    }

    /// Makes more known, in place of those that were passed. What is not present is nobody's.
    fn read(&mut self, side: &Side, present: Option<&BooleanBuffer>, offset: i64, nobody: u32) {
        let next = self.at_hand.start + self.passed;
        let rows = next..self.end.min(next + AT_HAND);
        for (instant, end) in self.instants.iter_mut().zip(&side.ends[rows.clone()]) {
            *instant = end + offset;
        }
        side.ids.read(rows.clone(), &mut self.ids);
        // Whatever the memory of keys has become since they were numbered.
        self.ids.iter_mut().for_each(|id| *id = nobody.min(*id));
        if let Some(present) = present {
            for (row, id) in rows.clone().zip(&mut self.ids) {
                *id = if present.value(row) { *id } else { nobody };
            }
        }
        (self.at_hand, self.passed) = (rows, 0);
    }
}

impl<'a> Lane<'a> {
    fn new(held: &'a Held<'a>, rows: Range<usize>, out: &'a mut [u32]) -> Self {
        Self {
            held,
            all_rows: rows.clone(),
            out,
            last: vec![NONE; held.keys + 1],
            events: Known::new(held.ended_by(rows.start)..held.ended_by(rows.end)),
            rows: Known::new(rows),
            found: [NONE; AT_HAND],
        }
    }

    /// How many steps may be taken before more has to be known; none if no row or no event is left.
    fn steps(&mut self) -> usize {
        self.know();
        self.rows.left().min(self.events.left())
    }

    /// Lets rows and events be at hand if there are any left.
    fn know(&mut self) {
        let Held {
            left,
            right,
            offset,
            ..
        } = self.held;
        let nobody = self.held.keys as u32;
        if self.rows.is_scarce() {
            self.give_out();
            self.rows.read(left, None, *offset, nobody);
        }
        if self.events.is_scarce() {
            self.events.read(right, right.present, 0, nobody);
        }
    }

    /// Puts what was found in its place.
    fn give_out(&mut self) {
        let (first, n) = (
            self.rows.at_hand.start - self.all_rows.start,
            self.rows.passed,
        );
        self.out[first..first + n].copy_from_slice(&self.found[..n]);
    }

    /// Passes what is left; all rows with their last events.
    fn passed(mut self) -> (Range<usize>, Vec<u32>) {
        self.know();
        while self.rows.left() > 0 {
            let row = self.rows.passed;
            self.enter_until(self.rows.instants[row]);
            self.found[row] = self.last[self.rows.ids[row] as usize];
            self.rows.passed += 1;
            self.know();
        }
        self.give_out();
        (self.all_rows, self.last)
    }

    /// Enters the events that have ended by an instant.
    fn enter_until(&mut self, instant: i64) {
        while self.events.left() > 0 {
            let Known {
                instants,
                ids,
                at_hand,
                passed,
                ..
            } = &mut self.events;
            let known = *passed..at_hand.len();
            let next = instants[known.clone()].iter().zip(&ids[known.clone()]);
            let ended = next.take_while(|(end, _)| **end <= instant);
            for (_, id) in ended {
                self.last[*id as usize] = (at_hand.start + *passed) as u32;
                *passed += 1;
            }
            if *passed < known.end {
                return;
            }
            self.know();
        }
    }
}

/// Takes so many steps in each of two lanes, which [may be taken](Lane::steps).
fn pass_in_turn(lanes: &mut [Lane; 2], steps: usize) {
    assert!(lanes.iter_mut().all(|lane| steps <= lane.steps()));
    let nobody = lanes[0].held.keys;
    let [a, b] = lanes;
    let mut at = [
        (a.rows.passed, a.events.passed),
        (b.rows.passed, b.events.passed),
    ];
    let firsts = [a.events.at_hand.start as u32, b.events.at_hand.start as u32];
    let lasts = [a.last.as_mut_ptr(), b.last.as_mut_ptr()];
    let sides = [(&a.rows, &a.events), (&b.rows, &b.events)];
    let found = [&mut a.found, &mut b.found];
    for _ in 0..steps {
        for lane in 0..2 {
            let (rows, events) = sides[lane];
            let (row, event) = &mut at[lane];
            // SAFETY: each step before has passed either a row or an event, so one of both is still at hand. Ids are at most `nobody`, and there are as many last events
            // and one more, which nothing else refers to.
            unsafe {
                let instant = *rows.instants.get_unchecked(*row);
                let has_ended = *events.instants.get_unchecked(*event) <= instant;
                let id = *events.ids.get_unchecked(*event) as usize;
                let id = if has_ended { id } else { nobody };
                *lasts[lane].add(id) = firsts[lane] + *event as u32;
                let last = *lasts[lane].add(*rows.ids.get_unchecked(*row) as usize);
                *found[lane].get_unchecked_mut(*row) = last;
                *event += usize::from(has_ended);
                *row += usize::from(!has_ended);
            }
        }
    }
    (a.rows.passed, a.events.passed) = at[0];
    (b.rows.passed, b.events.passed) = at[1];
}

#[cfg(test)]
mod tests {
    use arrow_buffer::BooleanBuffer;

    use super::*;
    use crate::{cursor::tests::Dice, keys::Ids};

    const KEYS: usize = 37;

    /// So many rows that end so far apart on average, bursts among them, and their keys.
    fn rows(n: usize, apart: i64, seed: u64) -> (Vec<i64>, Ids) {
        let mut dice = Dice(seed);
        let mut end = 0;
        let mut ends = Vec::with_capacity(n);
        for row in 0..n {
            let is_burst = row / 1000 % 5 == 3;
            end += if is_burst {
                0
            } else {
                dice.roll(2 * apart + 1)
            };
            ends.push(end);
        }
        let ids = (0..n).map(|_| dice.roll(KEYS as i64) as u32).collect();
        (ends, Ids::Listed(ids))
    }

    /// What each row holds, looked up row by row.
    fn expected(held: &Held) -> Vec<u32> {
        let (mut next, mut last) = (0, [NONE; KEYS]);
        let mut found = Vec::new();
        for (row, end) in held.left.ends.iter().enumerate() {
            let instant = end + held.offset;
            while (held.right.ends.get(next)).is_some_and(|end| *end <= instant && *end < OPEN) {
                if held.right.is_event(next) {
                    last[held.right.ids.get(next) as usize] = next as u32;
                }
                next += 1;
            }
            let position = last[held.left.ids.get(row) as usize];
            let held_end = held.right.ends.get(position as usize);
            let age = held_end.map(|held_end| instant - held_end);
            let is_young = age.is_some_and(|age| held.max_age.is_none_or(|most| age < most));
            let is_late = instant > held.run_end;
            found.push(if is_young && !is_late { position } else { NONE });
        }
        found
    }

    #[test]
    fn rows_hold_the_last_event_of_their_key() {
        let n = 40_000;
        let (left_ends, left_ids) = rows(n, 60, 1);
        for apart in [1, 10, 30, 70, 400, 6000] {
            let (mut right_ends, right_ids) = rows(n * 60 / apart / 2, apart as i64, 2);
            *right_ends.last_mut().expect("rows") = OPEN;
            let every_third: BooleanBuffer =
                (0..right_ends.len()).map(|row| row % 3 == 0).collect();
            for present in [None, Some(&every_third)] {
                for (offset, max_age) in [(0, None), (-90, Some(500)), (25, None)] {
                    let held = Held {
                        left: Side {
                            ends: &left_ends,
                            ids: &left_ids,
                            present: None,
                        },
                        right: Side {
                            ends: &right_ends,
                            ids: &right_ids,
                            present,
                        },
                        offset,
                        max_age,
                        run_end: left_ends[n - 100],
                        keys: KEYS,
                    };
                    let expected = expected(&held);
                    for threads in [1, 3] {
                        let found = held.positions(threads).expect("instants");
                        assert_eq!(&found[..], expected, "{apart} {offset} {threads}");
                    }
                }
            }
        }
    }
}
