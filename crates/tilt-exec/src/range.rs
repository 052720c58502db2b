//! Ranges: which positions of the source the window of each row covers.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use tilt_codegen::lir::LANES;
use tilt_data::{Spans, Stamps};
use tilt_ir::{Bounds, Span};

use crate::{
    cursor::{self, NONE, Ranks, Window},
    memory::Scratch,
    series::Axis,
    window::{Current, Cut, Measure, RangePlan},
};

mod anchors;

/// So many panes before those of the next window may be kept.
const MOST_PANES: i128 = 1 << 12;

/// A range while a stage runs.
pub(crate) struct RangeRun<'a> {
    pub(crate) plan: &'a RangePlan,
    axis: &'a Axis,
    source: &'a cursor::Source<'a>,
    kind: Kind<'a>,
    rows: Range<usize>,
    first: Option<&'static mut [u32]>,
    end: Option<&'static mut [u32]>,
    split: Option<&'static mut [u32]>,
    parts: Option<Parts>,
    /// Which number among the events each position has, if what is reduced is packed and the source is not.
    ranks: Option<Ranks>,
}

enum Kind<'a> {
    /// Row `i` covers the positions from `i·every + lo` to before `i·every + hi`, as far as they exist.
    Steady { lo: i64, hi: i64, every: i64 },
    General {
        window: Box<Window<'a>>,
        /// Rows are those of the source, and windows end with the row.
        own: bool,
    },
    /// The intervals of the rows themselves.
    Event {
        window: Box<Window<'a>>,
        /// The starts of all rows, unless they decrease somewhere.
        starts: Option<ScalarBuffer<i64>>,
    },
    /// Row `i` covers all positions before `i + hi`, as far as they exist.
    Before { hi: i64 },
    /// The events numbered from the current one.
    Ranked {
        ranks: Ranks,
        started: Box<Window<'a>>,
    },
}

/// Windows that move by one unit from row to row, all of one width, and the blocks of that width that they are split at. A unit is a position
/// or a pane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    /// Row `i` covers the units from `i + lo` to before `i + hi`, as far as they exist.
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    /// How many units there are.
    pub(crate) len: usize,
    /// A unit that begins a block; it need not exist.
    pub(crate) origin: i64,
}

impl Steady {
    pub(crate) fn width(&self) -> i64 {
        (self.hi - self.lo).max(1)
    }

    /// The first unit of the block that a unit is in; neither need exist.
    pub(crate) fn block_start(&self, unit: i64) -> i64 {
        unit - (unit - self.origin).rem_euclid(self.width())
    }

    /// Where the windows of `rows` rows from `row` on are split, all of whose units exist: where the blocks of their last units begin.
    fn runs(self, row: usize, rows: usize) -> impl Iterator<Item = SplitRun> {
        let (first, end) = (row as i64 + self.hi - 1, (row + rows) as i64 + self.hi - 1);
        let mut last = first;
        std::iter::from_fn(move || {
            let split = self.block_start(last);
            let until = split + self.width();
            let rows = (until.min(end) - last) as usize;
            let late = (last + 1 - split) as u32;
            last += rows as i64;
            (rows > 0).then_some(SplitRun {
                split,
                late,
                rows,
                is_last: last == until,
            })
        })
    }
}

/// Rows that follow each other whose windows are split in one place.
struct SplitRun {
    split: i64,
    /// How many units the late part of the first has; each has one more than the one before.
    late: u32,
    rows: usize,
    /// Whether the last of them is the last of its block.
    is_last: bool,
}

/// Where rows find the two parts of their windows: an element of what is scanned from blocks' ends, and one of what is
/// scanned from their beginnings; 0 for a part that is empty.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) early: *const u32,
    pub(crate) late: *const u32,
}

impl<'a> RangeRun<'a> {
    pub(crate) fn new(plan: &'a RangePlan, axis: &'a Axis, source: &'a cursor::Source<'a>) -> Self {
        let kind = match plan.bounds {
            Bounds::Time { lo: Some(lo), hi } if plan.every.is_some() => {
                steady(axis, source, (lo, hi), plan.every.unwrap_or(1))
            }
            Bounds::Ordinal { lo: Some(lo), hi } if plan.is_steady() => Kind::Steady {
                lo: lo.saturating_add(1),
                hi: hi.saturating_add(1),
                every: 1,
            },
            Bounds::Ordinal { hi, .. } if plan.is_running() && source.is_dense() => Kind::Before {
                hi: hi.saturating_add(1),
            },
            Bounds::Ordinal { .. } => Kind::Ranked {
                ranks: Ranks::new(source),
                started: Box::new(Window::new(source, None, 0)),
            },
            Bounds::Event => Kind::Event {
                window: Box::new(Window::new(source, Some(0), 0)),
                starts: Some(axis.timeline.starts()).filter(|starts| starts.is_sorted()),
            },
            Bounds::Time { lo, hi } => Kind::General {
                window: Box::new(Window::new(source, lo, hi)),
                own: std::ptr::eq(&raw const axis.timeline, source.timeline())
                    && (source.is_disjoint() || source.is_points())
                    && hi == 0
                    && lo.is_none_or(|lo| lo < 0),
            },
        };
        Self {
            plan,
            axis,
            source,
            kind,
            rows: 0..0,
            first: None,
            end: None,
            split: None,
            parts: None,
            ranks: None,
        }
    }

    /// The same range with positions counted among events alone, for windows that are folded.
    pub(crate) fn counted_by(self, ranks: Ranks) -> Self {
        Self {
            ranks: Some(ranks),
            ..self
        }
    }

    /// How many positions the source has.
    pub(crate) fn len(&self) -> usize {
        self.source.timeline().len()
    }

    /// The windows as positions, if they move by one from row to row.
    pub(crate) fn steady(&self) -> Option<Steady> {
        let Kind::Steady { lo, hi, every: 1 } = self.kind else {
            return None;
        };
        let origin = self.plan.length().filter(|_| self.len() > 0).map(|length| {
            let timeline = self.source.timeline();
            let (end, period) = (timeline.end(0), timeline.period().unwrap_or(1));
            let before = i128::from(block_of(end, length) - 1) * i128::from(length);
            // The first position that ends after the last multiple of the length before the first one's end.
            ((before - i128::from(end)).div_euclid(i128::from(period)) + 1) as i64
        });
        Some(Steady {
            lo,
            hi,
            len: self.len(),
            origin: origin.unwrap_or(0),
        })
    }

    /// The same if all positions of the windows of the chunk exist, and they are split by time.
    fn blocks(&self) -> Option<Steady> {
        let is_split = self.plan.length().is_some() && self.is_full(&self.rows);
        self.steady().filter(|_| is_split)
    }

    /// The windows as panes, and where pane 0 begins: at a position, at most 0, or after an instant. `known` is where the panes of the rows before
    /// began, if they are the same.
    pub(crate) fn panes(&self, cut: Cut, known: Option<i128>) -> (Steady, i128) {
        let every = i128::from(cut.every);
        let (end, first, len) = match (cut.measure, &self.kind) {
            (Measure::Positions, Kind::Steady { hi, .. }) => {
                let end = i128::from(*hi);
                let first = -(-end).rem_euclid(every);
                let positions = usize::try_from(self.len() as i128 - first).unwrap_or(0);
                (end, first, positions.div_ceil(cut.every as usize))
            }
            (Measure::Positions, _) => unreachable!("windows that move by positions are regular"),
            (Measure::Ticks, _) => {
                let t = self.axis.regular_ends().unwrap_or(0);
                let hi = match self.plan.bounds {
                    Bounds::Time { hi, .. } => hi,
                    Bounds::Ordinal { .. } | Bounds::Event => 0,
                };
                let end = i128::from(t) + i128::from(hi);
                // Before the first row's window there is one that is cut, or the one that totals subtract.
                let before = end - i128::from(cut.whole + 1) * every;
                // So that they do not grow for ever while the source is quiet.
                let same = |first: &i128| {
                    let is_near = (0..=MOST_PANES * every).contains(&(before - first));
                    (end - first).rem_euclid(every) == 0 && is_near
                };
                let first = known.filter(same).unwrap_or(before);
                let panes = (end - first) / every + self.axis.len() as i128 - 1;
                (end, first, usize::try_from(panes).unwrap_or(0))
            }
        };
        let hi = ((end - first) / every) as i64;
        let steady = Steady {
            lo: hi - cut.whole,
            hi,
            len,
            origin: 0,
        };
        (steady, first)
    }

    /// Moves on to a chunk of rows.
    pub(crate) fn locate(&mut self, rows: Range<usize>, scratch: &mut Scratch) {
        self.rows = rows.clone();
        (self.first, self.end, self.split, self.parts) = (None, None, None, None);
        let padded = rows.len().next_multiple_of(LANES);
        if let Kind::General { window, own } = &mut self.kind {
            let [first, end, split] = [(); 3].map(|()| scratch.slice::<u32>(padded));
            let n = rows.len();
            let has_beginning = matches!(self.plan.bounds, Bounds::Time { lo: Some(_), .. });
            if !has_beginning {
                split.fill(0);
            }
            let bounds = cursor::Bounds {
                first: &mut first[..n],
                end: &mut end[..n],
                split: has_beginning.then_some(&mut split[..n]),
            };
            if *own {
                window.read_own(self.axis.instants(), rows, bounds);
            } else {
                window.read(self.axis.instants(), rows, bounds);
            }
            for column in [&mut *first, &mut *end, &mut *split] {
                if let Some(ranks) = &self.ranks {
                    let rank = |p: &mut u32| *p = ranks.until(*p as usize);
                    column[..n].iter_mut().for_each(rank);
                }
                column[n..].fill(0);
            }
            (self.first, self.end, self.split) = (Some(first), Some(end), Some(split));
        } else if matches!(self.kind, Kind::Ranked { .. }) {
            self.locate_ranked(rows, padded, scratch);
        } else if let Kind::Before { hi } = self.kind {
            let [first, end, split] = [(); 3].map(|()| scratch.slice::<u32>(padded));
            let (from, len) = ((rows.start as i64).saturating_add(hi), self.len() as i64);
            for (row, end) in end.iter_mut().enumerate() {
                *end = from.saturating_add(row as i64).clamp(0, len) as u32;
            }
            first.fill(0);
            split.fill(0);
            (self.first, self.end, self.split) = (Some(first), Some(end), Some(split));
        } else {
            self.locate_events(rows, padded, scratch);
        }
    }

    /// The windows of the rows' own events, which have a late part only.
    fn locate_events(&mut self, rows: Range<usize>, padded: usize, scratch: &mut Scratch) {
        let Kind::Event { window, starts } = &mut self.kind else {
            return;
        };
        let [first, end, split] = [(); 3].map(|()| scratch.slice::<u32>(padded));
        let n = rows.len();
        match starts {
            Some(starts) => window.count_ended(&starts[rows.clone()], &mut first[..n]),
            None => {
                for (first, row) in first.iter_mut().zip(rows.clone()) {
                    let start = self.axis.timeline.start(row);
                    *first = self.source.timeline().ends_until(start) as u32;
                }
            }
        }
        window.count_started(self.axis.instants(), rows, &mut end[..n]);
        for (first, end) in first.iter().zip(&mut end[..n]) {
            *end = (*end).max(*first);
        }
        first[n..].fill(0);
        end[n..].fill(0);
        split.copy_from_slice(first);
        (self.first, self.end, self.split) = (Some(first), Some(end), Some(split));
    }

    /// The windows of events that are counted from the current one.
    fn locate_ranked(&mut self, rows: Range<usize>, padded: usize, scratch: &mut Scratch) {
        let (Kind::Ranked { ranks, started }, Bounds::Ordinal { lo, hi }) =
            (&mut self.kind, self.plan.bounds)
        else {
            return;
        };
        let [first, end, before] = [(); 3].map(|()| scratch.slice::<u32>(padded));
        first.fill(0);
        end.fill(0);
        let n = rows.len();
        let choices = match self.plan.current {
            Current::Row => None,
            Current::Started => Some(None),
            Current::Choice(group) => Some(Some(&self.axis.choices[group][rows.clone()])),
        };
        if choices.is_some() {
            let bounds = cursor::Bounds {
                first: &mut first[..n],
                end: &mut before[..n],
                split: None,
            };
            started.read(self.axis.instants(), rows.clone(), bounds);
        }
        let len = self.source.timeline().len();
        let count = ranks.count(len);
        for row in 0..n {
            let bound = match choices {
                None => Some((rows.start + row) as u32),
                Some(choices) => choices.map(|c| c[row]).filter(|c| *c != NONE),
            };
            // Of a position without an event, the last event before it.
            let until = bound.map_or_else(
                || {
                    let t = self.axis.timeline.end(rows.start + row);
                    last_started(self.source, before[row] as usize, t)
                },
                |position| position as usize + 1,
            );
            let Some(current) = ranks.until(until).checked_sub(1) else {
                (first[row], end[row]) = (0, 0);
                continue;
            };
            let number = |offset: i64| {
                let number = i128::from(current) + i128::from(offset) + 1;
                number.clamp(0, i128::from(count)) as u32
            };
            let (from, to) = (lo.map_or(0, number), number(hi));
            first[row] = ranks.position(from, len as u32);
            end[row] = if from < to {
                ranks.position(to - 1, len as u32) + 1
            } else {
                first[row]
            };
        }
        let split = scratch.slice::<u32>(padded);
        split.copy_from_slice(first);
        (self.first, self.end, self.split) = (Some(first), Some(end), Some(split));
    }

    /// The interval of a row.
    pub(crate) fn event(&self, row: usize) -> Span {
        self.axis.timeline.event(row)
    }

    /// The instant of a row.
    pub(crate) fn instant(&self, row: usize) -> i64 {
        self.axis.timeline.end(row)
    }

    /// Whether windows of these rows reach beyond the ends of time. They are shorter than the others, so it is not at their blocks that they are split.
    pub(crate) fn is_saturated(&self, rows: &Range<usize>) -> bool {
        let Bounds::Time { lo: Some(lo), hi } = self.plan.bounds else {
            return false;
        };
        let reaches_beyond =
            |row: usize, by: i64| self.axis.timeline.end(row).checked_add(by).is_none();
        !rows.is_empty() && (reaches_beyond(rows.start, lo) || reaches_beyond(rows.end - 1, hi))
    }

    /// The first position of the late part of a window `(from, to]` whose edges have been saturated.
    pub(crate) fn split_of(&self, from: i64, to: i64) -> u32 {
        let length = i128::from(to) - i128::from(from);
        let split = (i128::from(to) - 1).div_euclid(length) * length;
        self.source.timeline().ends_until(cursor::saturate(split)) as u32
    }

    /// First position and end of each row's window.
    pub(crate) fn bounds(&mut self, scratch: &mut Scratch) -> (&[u32], &[u32]) {
        if let (Kind::Steady { lo, hi, every }, None) = (&self.kind, &self.first) {
            let (len, every) = (self.len() as i64, *every);
            let padded = self.rows.len().next_multiple_of(LANES);
            let from = self.rows.start as i64;
            let positions = |offset: i64, scratch: &mut Scratch| {
                let out = scratch.slice::<u32>(padded);
                for (row, out) in out.iter_mut().enumerate() {
                    *out = ((from + row as i64) * every + offset).clamp(0, len) as u32;
                }
                out
            };
            let (lo, hi) = (*lo, *hi);
            self.first = Some(positions(lo, scratch));
            self.end = Some(positions(hi, scratch));
        }
        let empty: &[u32] = &[];
        (
            self.first.as_deref().unwrap_or(empty),
            self.end.as_deref().unwrap_or(empty),
        )
    }

    /// First position and end of row 0's window, if windows move by the same number from row to row.
    pub(crate) fn offsets(&self) -> (i64, i64) {
        match self.kind {
            Kind::Steady { lo, hi, .. } => (lo, hi),
            _ => (0, 0),
        }
    }

    /// Whether all positions of the windows of some rows exist, if they move by the same number from row to row.
    pub(crate) fn is_full(&self, rows: &Range<usize>) -> bool {
        let Kind::Steady { lo, hi, every } = self.kind else {
            return true;
        };
        rows.start as i64 * every + lo >= 0
            && (rows.end as i64 - 1) * every + hi <= self.len() as i64
    }

    /// How many positions every window has, as far as they exist, if all have the same number.
    pub(crate) fn width(&self) -> Option<u64> {
        match self.kind {
            Kind::Steady { lo, hi, .. } => Some((hi - lo).unsigned_abs()),
            _ => None,
        }
    }

    /// How many positions the widest window of the chunk has.
    pub(crate) fn widest(&mut self, scratch: &mut Scratch) -> u64 {
        let (first, end) = self.bounds(scratch);
        let widths = first.iter().zip(end);
        let widest = widths.map(|(first, end)| end.saturating_sub(*first)).max();
        u64::from(widest.unwrap_or(0))
    }

    /// The end of the positions that the windows of the chunk cover; they never end before those of earlier rows.
    pub(crate) fn end(&mut self, rows: &Range<usize>, scratch: &mut Scratch) -> usize {
        if let Some(steady) = self.steady() {
            return (rows.end as i64 - 1 + steady.hi).clamp(0, self.len() as i64) as usize;
        }
        let (_, end) = self.bounds(scratch);
        end[..rows.len()].last().map_or(0, |end| *end as usize)
    }

    /// Where each row's window is split: the first position of the late part.
    pub(crate) fn split(&mut self, scratch: &mut Scratch) -> &[u32] {
        if self.split.is_none()
            && let Some(steady) = self.blocks()
        {
            let out = scratch.slice::<u32>(self.rows.len().next_multiple_of(LANES));
            let mut rest = &mut *out;
            for run in steady.runs(self.rows.start, rest.len()) {
                let (these, others) = rest.split_at_mut(run.rows);
                these.fill(run.split as u32);
                rest = others;
            }
            self.split = Some(out);
        }
        if self.split.is_none() {
            let length = self.plan.length();
            let n = self.rows.len();
            let hi = match self.plan.bounds {
                Bounds::Time { hi, .. } | Bounds::Ordinal { hi, .. } => hi,
                Bounds::Event => 0,
            };
            let (start, axis) = (self.rows.start, self.axis);
            let source = self.source;
            let (first, end) = self.bounds(scratch);
            let (first, end) = (first.to_vec(), end.to_vec());
            let out = scratch.slice::<u32>(n.next_multiple_of(LANES));
            out.fill(0);
            let Some(length) = length else {
                // Windows by count have only a late part.
                out[..n].copy_from_slice(&first[..n]);
                self.split = Some(out);
                return self.split.as_deref().unwrap_or(&[]);
            };
            // Where the block of the last row ends, and the first position in it: rows go on in it until they pass that.
            let (mut until, mut position) = (None, 0);
            for row in 0..n {
                let b = axis.timeline.end(start + row).saturating_add(hi);
                if until.is_none_or(|until| b > until) {
                    let begin = (b - 1).div_euclid(length).saturating_mul(length);
                    until = Some(begin.saturating_add(length));
                    position = source.timeline().ends_until(begin) as u32;
                }
                out[row] = position.clamp(first[row], end[row].max(first[row]));
            }
            self.split = Some(out);
        }
        self.split.as_deref().unwrap_or(&[])
    }

    /// How many positions the late part of each row's window has.
    pub(crate) fn late(&mut self, scratch: &mut Scratch) -> &[u32] {
        let n = self.rows.len();
        let out = scratch.slice::<u32>(n.next_multiple_of(LANES));
        if let Some(steady) = self.blocks() {
            let mut rest = &mut *out;
            for run in steady.runs(self.rows.start, rest.len()) {
                let (these, others) = rest.split_at_mut(run.rows);
                let late = (run.late..).zip(these);
                late.for_each(|(late, out)| *out = late);
                rest = others;
            }
            return out;
        }
        self.bounds(scratch);
        self.split(scratch);
        let (Some(end), Some(split)) = (&self.end, &self.split) else {
            unreachable!("bounds and splits of all rows")
        };
        for (out, (end, split)) in out.iter_mut().zip(end[..n].iter().zip(&split[..n])) {
            *out = end - split;
        }
        out[n..].fill(0);
        out
    }

    /// Which elements rows read of scanned blocks, whose element for position `p` is `p + pad`. The same for all windows
    /// of the range.
    pub(crate) fn parts(&mut self, pad: u32, scratch: &mut Scratch) -> Parts {
        if let Some(parts) = self.parts {
            return parts;
        }
        self.bounds(scratch);
        self.split(scratch);
        let n = self.rows.len();
        let padded = n.next_multiple_of(LANES);
        let (first, end, split) = (&self.first, &self.end, &self.split);
        let [early, late] = [(); 2].map(|()| scratch.slice::<u32>(padded));
        if let (Some(first), Some(end), Some(split)) = (first, end, split) {
            let (first, end, split) = (&first[..n], &end[..n], &split[..n]);
            cursor::parts([first, split, end], pad, [&mut early[..n], &mut late[..n]]);
        }
        early[n..].fill(0);
        late[n..].fill(0);
        let parts = Parts {
            early: early.as_ptr(),
            late: late.as_ptr(),
        };
        self.parts = Some(parts);
        parts
    }

    /// The end of the block of positions that position `p` is in: the last multiple of the window's length, in time or, by count, in positions.
    pub(crate) fn block_end(&self, p: usize) -> usize {
        let len = self.len();
        let Some(length) = self.plan.length() else {
            return match self.plan.bounds {
                Bounds::Ordinal { lo: Some(lo), hi } => {
                    let width = usize::try_from(hi - lo).unwrap_or(1).max(1);
                    ((p / width + 1) * width).min(len)
                }
                _ => len,
            };
        };
        let timeline = self.source.timeline();
        let limit = block_of(timeline.end(p), length).saturating_mul(length);
        if let (Stamps::Regular { period, .. }, Spans::Fixed(_)) =
            (timeline.stamps(), timeline.spans())
        {
            let further = (i128::from(limit) - i128::from(timeline.end(p))) / i128::from(*period);
            return (p as i128 + further + 1).min(len as i128) as usize;
        }
        gallop(p + 1, len, |i| timeline.end(i) <= limit)
    }

    /// Whether no position that is still to come is one of a block: another block has begun, or windows of the chunk reach beyond it.
    pub(crate) fn is_over(&self, block: &Range<usize>) -> bool {
        let Some(last) = block.end.checked_sub(1).filter(|_| !block.is_empty()) else {
            return false;
        };
        if block.end < self.len() {
            return true;
        }
        match (self.plan.bounds, self.plan.length()) {
            (Bounds::Time { hi, .. }, Some(length)) if !self.rows.is_empty() => {
                let limit = block_of(self.source.timeline().end(last), length);
                let t = self.axis.timeline.end(self.rows.end - 1);
                t.saturating_add(hi) > limit.saturating_mul(length)
            }
            (Bounds::Ordinal { lo: Some(lo), hi }, _) => {
                let width = usize::try_from(hi - lo).unwrap_or(1).max(1);
                block.end.is_multiple_of(width)
            }
            _ => false,
        }
    }
}

/// The end of the positions up to the last event in order that starts before `t`; none from `limit` on does.
fn last_started(source: &cursor::Source, limit: usize, t: i64) -> usize {
    if source.is_ordered() {
        return limit;
    }
    let starts = |p: &usize| source.is_event(*p) && source.timeline().start(*p) < t;
    (0..limit).rev().find(starts).map_or(0, |p| p + 1)
}

/// The number of the block that holds an end: blocks are `((k-1)·length, k·length]`.
fn block_of(end: i64, length: i64) -> i64 {
    (end.saturating_sub(1)).div_euclid(length) + 1
}

fn steady<'a>(axis: &Axis, source: &cursor::Source, (lo, hi): (i64, i64), every: i64) -> Kind<'a> {
    let timeline = source.timeline();
    let (Some(t), Stamps::Regular { period, .. }, Spans::Fixed(length), false) = (
        axis.regular_ends(),
        timeline.stamps(),
        timeline.spans(),
        timeline.is_empty(),
    ) else {
        return Kind::Steady {
            lo: 0,
            hi: 0,
            every,
        };
    };
    let (t, period, end) = (
        i128::from(t),
        i128::from(*period),
        i128::from(timeline.end(0)),
    );
    // The first position that ends after t+lo, and the first that starts at or after t+hi.
    let first = (t + i128::from(lo) - end).div_euclid(period) + 1;
    let after = t + i128::from(hi) + i128::from(*length) - end;
    let until = after.div_euclid(period) + i128::from(after.rem_euclid(period) != 0);
    let clamp = |p: i128| p.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64;
    Kind::Steady {
        lo: clamp(first),
        hi: clamp(until),
        every,
    }
}

/// The first of `from .. len` for which `holds` is false; it holds for those before.
pub(crate) fn gallop(from: usize, len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    let mut low = from;
    while low + step <= len && holds(low + step - 1) {
        low += step;
        step *= 2;
    }
    let high = len.min(low + step);
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
