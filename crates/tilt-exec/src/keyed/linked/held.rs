//! The last event of each row's key that has ended.
//!
//! Rows and events are passed in the order of time, turn by turn: a turn enters the next events into a table of the last event of each key, four at most, and gives the next row
//! what the table has for its key. Which of them are due is anybody's guess where there are about as many rows as events, so events that have not ended are entered where nobody
//! looks, and the row is passed unless more events may have ended: there is no branch. A turn waits for what the one before it compared, so parts of the rows are passed in turn.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use tilt_ir::OPEN;

use super::{Side, look_before};
use crate::{
    cursor::NONE,
    keys::{Less, Number, Numbers, TURN},
    memory::filled,
    run::Positions,
    threads::{fill, fill_and_find},
};

/// Where there are more events for a row than this, or more rows for an event, a branch is foreseen more often than not.
const UNEVEN: usize = 8;
/// Parts of the rows that are passed in turn. What more of them need does not fit into registers.
const LANES: usize = 2;
/// Rows of a lane that are worth a table.
const MANY: usize = 256;
/// Fewer turns are not worth taking side by side.
const FEW: usize = 32;

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
            let passed = self.pass(threads, out);
            look_before(passed, self.left.ids, out);
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

    /// Fills in what rows read that the events of their own lane tell: the rows of each lane with the last events of its keys.
    fn pass(&self, threads: usize, out: &mut [u32]) -> Vec<(Range<usize>, Vec<u32>)> {
        let (rows, events) = (self.left.ends.len(), self.right.ends.len());
        let (left, right) = (self.left.ids, self.right.ids);
        match (left.numbers(rows), right.numbers(events)) {
            (Numbers::Two(left), Numbers::Two(right)) => self.pass_by(&left, &right, threads, out),
            (Numbers::Four(left), Numbers::Four(right)) => {
                self.pass_by(&left, &right, threads, out)
            }
            (Numbers::Eight(left), Numbers::Eight(right)) => {
                self.pass_by(&left, &right, threads, out)
            }
            _ => self.pass_by(&left.listed(rows), &right.listed(events), threads, out),
        }
    }

    fn pass_by<T: Number>(
        &self,
        left: &Less<T>,
        right: &Less<T>,
        threads: usize,
        out: &mut [u32],
    ) -> Vec<(Range<usize>, Vec<u32>)> {
        let of = Numbered { left, right };
        let passed = fill_and_find(out, threads, |_, rows, out| self.pass_part(&of, rows, out));
        passed.into_iter().flatten().collect()
    }

    fn pass_part<T: Number>(
        &self,
        of: &Numbered<T>,
        rows: Range<usize>,
        out: &mut [u32],
    ) -> Vec<(Range<usize>, Vec<u32>)> {
        let n = rows.len();
        let events = self.ended_by(rows.end) - self.ended_by(rows.start);
        let is_uneven = events > UNEVEN * n || n > UNEVEN * events;
        // The tables of keys that are more than rows would take longer than the rows.
        if n < LANES * MANY || LANES * self.keys > n || is_uneven {
            Part::<1>::new(self, rows, out).pass(of)
        } else {
            Part::<LANES>::new(self, rows, out).pass(of)
        }
    }
}

/// The keys of all rows and of all events.
struct Numbered<'a, T: Number> {
    left: &'a Less<'a, T>,
    right: &'a Less<'a, T>,
}

/// Rows that a thread passes in so many lanes.
struct Part<'a, const N: usize> {
    held: &'a Held<'a>,
    lanes: [Lane; N],
    /// The last event of each key in each lane, and after them whatever was entered for nobody. What lanes have for a key lies together, so that one address does for all.
    last: Vec<[u32; N]>,
    rows: Range<usize>,
    out: &'a mut [u32],
}

/// Rows that follow each other, and the events that have ended by them but not before.
struct Lane {
    all_rows: Range<usize>,
    /// Those that were not passed.
    rows: Range<usize>,
    events: Range<usize>,
}

impl<'a, const N: usize> Part<'a, N> {
    fn new(held: &'a Held<'a>, rows: Range<usize>, out: &'a mut [u32]) -> Self {
        let n = rows.len();
        let lanes = std::array::from_fn(|lane| {
            let of_lane = rows.start + n * lane / N..rows.start + n * (lane + 1) / N;
            Lane {
                all_rows: of_lane.clone(),
                events: held.ended_by(of_lane.start)..held.ended_by(of_lane.end),
                rows: of_lane,
            }
        });
        Self {
            held,
            lanes,
            last: vec![[NONE; N]; held.keys + 1],
            rows,
            out,
        }
    }

    /// Passes all; the rows of each lane with its last events.
    fn pass<T: Number>(mut self, of: &Numbered<T>) -> Vec<(Range<usize>, Vec<u32>)> {
        if N > 1 {
            let events: usize = self.lanes.iter().map(|lane| lane.events.len()).sum();
            if self.rows.len() > 2 * events {
                while self.steps() >= FEW {
                    self.pass_in_steps(of);
                }
            }
            while self.turns() >= FEW {
                self.pass_in_turn(of);
            }
        }
        for lane in 0..N {
            self.pass_rest(lane, of);
        }
        let lanes = self.lanes.into_iter().enumerate();
        let passed = lanes.map(|(number, lane)| {
            let last = self.last.iter().map(|last| last[number]);
            (lane.all_rows, last.collect())
        });
        passed.collect()
    }

    /// How many turns each lane may take before it has too few rows or events left for another.
    fn turns(&self) -> usize {
        let of_lane = |lane: &Lane| lane.rows.len().min(lane.events.len() / TURN);
        self.lanes.iter().map(of_lane).min().unwrap_or(0)
    }

    /// How many steps, each of a row or an event, each lane may take before it has no row or no event left.
    fn steps(&self) -> usize {
        let of_lane = |lane: &Lane| lane.rows.len().min(lane.events.len());
        self.lanes.iter().map(of_lane).min().unwrap_or(0)
    }

    /// Takes so many steps in each lane: where rows are more than events, a turn would find few of these.
    fn pass_in_steps<T: Number>(&mut self, of: &Numbered<T>) {
        let Held {
            left,
            right,
            offset,
            keys: nobody,
            ..
        } = *self.held;
        let (of_rows, of_events) = (&of.left.values[..], &of.right.values[..]);
        self.check(of);
        let mut at = (self.lanes.each_ref()).map(|lane| (lane.rows.start, lane.events.start));
        let last = self.last.as_mut_ptr();
        // Of the row with number 0.
        let out = self.out.as_mut_ptr().wrapping_sub(self.rows.start);
        for _ in 0..self.steps() {
            for (lane, (row, event)) in at.iter_mut().enumerate() {
                // SAFETY: each step before has passed either a row or an event, so one of both is left. Places are at most `nobody`, which has last events.
                unsafe {
                    let instant = *left.ends.get_unchecked(*row) + offset;
                    let has_ended = *right.ends.get_unchecked(*event) <= instant;
                    let place = of.right.place(*of_events.get_unchecked(*event), nobody);
                    let is_entered = has_ended & right.is_event(*event);
                    let place = if is_entered { place } else { nobody };
                    (*last.add(place))[lane] = *event as u32;
                    let place = of.left.place(*of_rows.get_unchecked(*row), nobody);
                    *out.wrapping_add(*row) = (*last.add(place))[lane];
                    *row += usize::from(!has_ended);
                    *event += usize::from(has_ended);
                }
            }
        }
        for (lane, (row, event)) in self.lanes.iter_mut().zip(at) {
            (lane.rows.start, lane.events.start) = (row, event);
        }
    }

    /// That all rows and events that are to be passed are there, and all places.
    fn check<T: Number>(&self, of: &Numbered<T>) {
        let Held { left, right, .. } = self.held;
        for lane in &self.lanes {
            assert!(lane.rows.end <= left.ends.len().min(of.left.values.len()));
            assert!(lane.events.end <= right.ends.len().min(of.right.values.len()));
            assert!(self.rows.start <= lane.rows.start && lane.rows.end <= self.rows.end);
        }
        let nobody = self.held.keys;
        assert!(self.rows.len() <= self.out.len() && nobody < self.last.len());
        assert!(of.left.has_at_most(nobody) && of.right.has_at_most(nobody));
    }

    /// Takes so many turns in each lane.
    fn pass_in_turn<T: Number>(&mut self, of: &Numbered<T>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;
            let Held { right, offset, .. } = self.held;
            // Before the first of them no event of the lane has ended, so no end less the offset is beyond the ends of time.
            let are_near =
                |lane: &Lane| right.ends[lane.events.start].checked_sub(*offset).is_some();
            if has!("avx2") && has!("popcnt") && self.lanes.iter().all(are_near) {
                // SAFETY: the CPU has what the function needs.
                unsafe { self.pass_by_vectors(of) };
                return;
            }
        }
        self.pass_with(of, |ends, instant, offset| {
            ends.iter()
                .map(|end| usize::from(*end <= instant + offset))
                .sum()
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    fn pass_by_vectors<T: Number>(&mut self, of: &Numbered<T>) {
        use std::arch::x86_64::{
            _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
            _mm256_set1_epi64x, _mm256_sub_epi64,
        };
        self.pass_with(of, |ends, instant, offset| {
            // SAFETY: the caller has the vectors, and the ends are as many as one has.
            unsafe {
                let ends = _mm256_loadu_si256(ends.as_ptr().cast());
                let ends = _mm256_sub_epi64(ends, _mm256_set1_epi64x(offset));
                let later = _mm256_cmpgt_epi64(ends, _mm256_set1_epi64x(instant));
                let ended = !_mm256_movemask_pd(_mm256_castsi256_pd(later)) & 0b1111;
                ended.count_ones() as usize
            }
        });
    }

    /// Takes the turns; `count_ended` says how many of the next events have ended by an instant and an offset.
    #[expect(
        clippy::inline_always,
        reason = "it takes on the vectors of its caller"
    )]
    #[inline(always)]
    fn pass_with<T: Number>(
        &mut self,
        of: &Numbered<T>,
        count_ended: impl Fn(&[i64; TURN], i64, i64) -> usize,
    ) {
        let Held {
            left,
            right,
            offset,
            keys: nobody,
            ..
        } = *self.held;
        let (of_rows, of_events) = (&of.left.values[..], &of.right.values[..]);
        self.check(of);
        let turns = self.turns();
        let mut at = (self.lanes.each_ref()).map(|lane| (lane.rows.start, lane.events.start));
        let last = self.last.as_mut_ptr();
        // Of the row with number 0.
        let out = self.out.as_mut_ptr().wrapping_sub(self.rows.start);
        for _ in 0..turns {
            for (lane, (row, event)) in at.iter_mut().enumerate() {
                // SAFETY: each turn before has passed a row at most and as many events as a turn enters, so these are left. Places are at most `nobody`, which has last events.
                unsafe {
                    let ends = &*right.ends.as_ptr().add(*event).cast::<[i64; TURN]>();
                    let ended = count_ended(ends, *left.ends.get_unchecked(*row), offset);
                    let numbers = &*of_events.as_ptr().add(*event).cast::<[T; TURN]>();
                    let mut places = of.right.places(numbers, ended, nobody);
                    if let Some(present) = right.present {
                        for (next, place) in places.iter_mut().enumerate() {
                            *place = if present.value(*event + next) {
                                *place
                            } else {
                                nobody
                            };
                        }
                    }
                    for (next, place) in places.into_iter().enumerate() {
                        (*last.add(place))[lane] = (*event + next) as u32;
                    }
                    let place = of.left.place(*of_rows.get_unchecked(*row), nobody);
                    *out.wrapping_add(*row) = (*last.add(place))[lane];
                    *row += usize::from(ended < TURN);
                    *event += ended;
                }
            }
        }
        for (lane, (row, event)) in self.lanes.iter_mut().zip(at) {
            (lane.rows.start, lane.events.start) = (row, event);
        }
    }

    /// Passes what is left of a lane.
    fn pass_rest<T: Number>(&mut self, number: usize, of: &Numbered<T>) {
        let Held {
            left,
            right,
            keys: nobody,
            ..
        } = *self.held;
        let (instants, ends) = (left.ends, right.ends);
        let Lane { rows, events, .. } = &mut self.lanes[number];
        for row in rows.clone() {
            let instant = instants[row] + self.held.offset;
            while events.start < events.end && ends[events.start] <= instant {
                let event = events.start;
                if right.is_event(event) {
                    let place = of.right.place(of.right.values[event], nobody);
                    self.last[place][number] = event as u32;
                }
                events.start += 1;
            }
            let place = of.left.place(of.left.values[row], nobody);
            self.out[row - self.rows.start] = self.last[place][number];
        }
        rows.start = rows.end;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use arrow_buffer::BooleanBuffer;
    use tilt_codegen::lir::Ty;

    use super::*;
    use crate::{
        cursor::tests::Dice,
        keys::{Ids, Keys},
        series::Leaf,
    };

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
            let age = held_end.map(|held_end| instant.saturating_sub(*held_end));
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

    /// Compares what rows hold with what is looked up, for keys that are numbered.
    fn check_numbered(
        number: impl Fn(&[&Leaf], usize) -> (Keys, Vec<Ids>),
        is_kind: impl Fn(&Ids) -> bool,
        n: usize,
        begin: i64,
    ) {
        let column = |ids: &Ids| {
            let keys = (0..n).map(|row| i64::from(ids.get(row)) - 9);
            Leaf::of_array(
                &(Arc::new(keys.collect::<Int64Array>()) as ArrayRef),
                Ty::I64,
            )
        };
        let from = |(mut ends, ids): (Vec<i64>, Ids)| {
            for end in &mut ends {
                *end += begin;
            }
            ends[0] = begin;
            (ends, column(&ids))
        };
        let (left_ends, left_keys) = from(rows(n, 60, 3));
        let (right_ends, right_keys) = from(rows(n, 40, 4));
        let (keys, ids) = number(&[&left_keys, &right_keys], 2);
        assert!(keys.len() <= KEYS && ids.iter().all(is_kind));
        let every_third: BooleanBuffer = (0..n).map(|row| row % 3 == 0).collect();
        for present in [None, Some(&every_third)] {
            for offset in [0, -7, 25] {
                let side = |ends, ids, present| Side { ends, ids, present };
                let held = Held {
                    left: side(&left_ends, &ids[0], None),
                    right: side(&right_ends, &ids[1], present),
                    offset,
                    max_age: None,
                    run_end: i64::MAX,
                    keys: keys.len(),
                };
                let expected = expected(&held);
                for threads in [1, 2] {
                    let found = held.positions(threads);
                    let found = found.expect("instants");
                    assert_eq!(&found[..], expected, "{begin} {offset} {threads}");
                }
            }
        }
    }

    #[test]
    fn rows_hold_events_by_ids_of_any_width() {
        let is_short = |ids: &Ids| matches!(ids, Ids::Short(_));
        check_numbered(Keys::number_shortly, is_short, 1 << 17, 0);
        let is_offset = |ids: &Ids| matches!(ids, Ids::Offset { .. });
        check_numbered(Keys::number_quickly, is_offset, 20_000, 0);
    }

    #[test]
    fn rows_hold_events_at_the_beginning_of_time() {
        let is_short = |ids: &Ids| matches!(ids, Ids::Short(_));
        check_numbered(Keys::number_shortly, is_short, 1 << 17, i64::MIN + 8);
    }
}
