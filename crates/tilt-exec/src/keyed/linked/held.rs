//! The last event of each row's key that has ended.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use tilt_ir::OPEN;

use super::{BLOCK, Side, look_before};
use crate::{
    cursor::{Counter, NONE, Ticks},
    memory::filled,
    run::Positions,
    threads::{fill, fill_and_find},
};

/// Events that are entered for a row without asking how many have ended since the row before: where there are about two, a branch on that is
/// mispredicted for every other row.
const AT_ONCE: usize = 4;

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
            let tables = fill_and_find(out, threads, |_, rows, out| {
                let mut last = Last::new(self.right, self.keys);
                self.pass(rows.clone(), &mut last, out);
                (rows, last.events)
            });
            look_before(tables, self.left.ids, out);
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

    /// Passes over some rows and over the events that have ended since the row before them.
    fn pass(&self, rows: Range<usize>, last: &mut Last, out: &mut [u32]) {
        let left = self.left;
        // An event without an end is never the last that has ended.
        let closed = self.right.ends.partition_point(|end| *end < OPEN);
        let ticks = Ticks::Explicit(&self.right.ends[..closed]);
        let mut ended = Counter::new(ticks, 0, self.offset, 0);
        if let Some(before) = rows.start.checked_sub(1) {
            last.begin(ended.count_at(left.ends[before]));
        }
        let (mut ids, mut counts) = ([0; BLOCK], [0; BLOCK]);
        for start in rows.clone().step_by(BLOCK) {
            let block = start..rows.end.min(start + BLOCK);
            let (ids, counts) = (&mut ids[..block.len()], &mut counts[..block.len()]);
            left.ids.read(block.clone(), ids);
            ended.count(&left.ends[block.clone()], None, counts);
            let out = &mut out[start - rows.start..block.end - rows.start];
            last.of_rows(ids, counts, out);
        }
    }
}

/// The last event of every key, of those that were entered so far.
struct Last<'a> {
    side: Side<'a>,
    /// By key, followed by one that nobody reads.
    events: Vec<u32>,
    /// The keys of the events from `base` to before `end`, and whatever comes after them.
    ids: [u32; BLOCK + AT_ONCE],
    base: u32,
    end: u32,
    /// The next event.
    next: u32,
}

impl<'a> Last<'a> {
    fn new(side: Side<'a>, keys: usize) -> Self {
        Self {
            side,
            events: vec![NONE; keys + 1],
            ids: [0; BLOCK + AT_ONCE],
            base: 0,
            end: 0,
            next: 0,
        }
    }

    /// Starts with this event.
    fn begin(&mut self, next: u32) {
        (self.base, self.end, self.next) = (next, next, next);
    }

    /// The last event of the key of each row when so many are to be entered, which never decreases.
    fn of_rows(&mut self, ids: &[u32], counts: &[u32], out: &mut [u32]) {
        let Some(all) = counts.last() else { return };
        let (some, rows) = ((all - self.next) as usize, counts.len());
        let at_once = self.side.present.is_none() && (rows / 4..8 * rows).contains(&some);
        let mut done = 0;
        loop {
            // Those whose events are at hand.
            let known = done + counts[done..].partition_point(|count| *count <= self.end);
            let rows = (&ids[done..known], &counts[done..known]);
            if at_once {
                self.of_known_at_once(rows, &mut out[done..known]);
            } else {
                self.of_known(rows, &mut out[done..known]);
            }
            done = known;
            if done == counts.len() {
                return;
            }
            self.enter(self.end);
            self.read_on();
        }
    }

    fn of_known(&mut self, (ids, counts): (&[u32], &[u32]), out: &mut [u32]) {
        for ((id, count), out) in ids.iter().zip(counts).zip(out) {
            self.enter(*count);
            *out = self.events[*id as usize];
        }
    }

    fn of_known_at_once(&mut self, (ids, counts): (&[u32], &[u32]), out: &mut [u32]) {
        let (events, new, base) = (&mut self.events[..], &self.ids, self.base);
        let nobody = events.len() as u32 - 1;
        let mut next = self.next;
        for ((id, count), out) in ids.iter().zip(counts).zip(out) {
            let at = (next - base) as usize;
            let some: &[u32; AT_ONCE] = new[at..at + AT_ONCE].try_into().expect("as many");
            for (j, id) in some.iter().enumerate() {
                let event = next + j as u32;
                let ended = u32::from(event < *count).wrapping_neg();
                events[(nobody ^ (nobody ^ id) & ended) as usize] = event;
            }
            for event in next + AT_ONCE as u32..*count {
                events[new[(event - base) as usize] as usize] = event;
            }
            next = *count;
            *out = events[*id as usize];
        }
        self.next = next;
    }

    /// Makes the keys of the next events known.
    fn read_on(&mut self) {
        self.base = self.end;
        let start = self.base as usize;
        let end = self.side.ends.len().min(start + BLOCK);
        self.side.ids.read(start..end, &mut self.ids);
        self.end = end as u32;
    }

    /// Enters the events before `end`.
    #[inline]
    fn enter(&mut self, end: u32) {
        while self.next < end {
            if self.side.is_event(self.next as usize) {
                let id = self.ids[(self.next - self.base) as usize];
                self.events[id as usize] = self.next;
            }
            self.next += 1;
        }
    }
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
