//! Reads by time, as positions: which event of a source each output row reads.
//!
//! A reader takes output rows chunk by chunk and writes one `u32` position a row, [`NONE`] where nothing is read. It
//! remembers where it stopped, so the instants it is given must never decrease from one row to the next, nor from one
//! call to the next.
//!
//! Everything rests on one primitive, [`Counter`]: how many stamps are at or before a limit. Regular stamps are counted
//! by arithmetic, explicit ones by a cursor that only moves forward.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use tilt_data::{Spans, Stamps, Timeline};
use tilt_ir::OPEN;

#[cfg(test)]
pub(crate) mod tests;

/// No position: φ.
pub(crate) const NONE: u32 = u32::MAX;

/// A timeline and the positions that are events on it, with what the readers need to know about its shape.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    timeline: &'a Timeline,
    /// The positions that have a value and are not superseded; `None` if all are.
    events: Option<BooleanBuffer>,
    /// No row starts before the one before it ends, so at most one is active at an instant.
    disjoint: bool,
    /// Starts never decrease.
    ordered: bool,
}

impl<'a> Source<'a> {
    /// A source with a value where `present` is set, everywhere if there is none. Looks at every row once.
    ///
    /// # Panics
    /// When there are 2³²-1 rows or more, or `present` is not one bit a row.
    pub(crate) fn new(timeline: &'a Timeline, present: Option<&BooleanBuffer>) -> Self {
        let len = timeline.len();
        assert!(len < NONE as usize, "{len} rows are too many for a source");
        assert!(
            present.is_none_or(|bits| bits.len() == len),
            "one bit a row"
        );
        let present = present.filter(|bits| bits.count_set_bits() < len);
        let has_value = |i| present.is_none_or(|bits: &BooleanBuffer| bits.value(i));
        let events = if has_superseded(timeline) {
            let is_event = |i| has_value(i) && !timeline.is_superseded(i);
            Some(BooleanBuffer::collect_bool(len, is_event))
        } else {
            present.cloned()
        };
        Self {
            timeline,
            events,
            disjoint: is_disjoint(timeline),
            ordered: is_ordered(timeline),
        }
    }

    /// The intervals.
    pub(crate) fn timeline(&self) -> &'a Timeline {
        self.timeline
    }

    /// Whether every position is an event.
    pub(crate) fn is_dense(&self) -> bool {
        self.events.is_none()
    }

    /// Whether no two rows overlap. Where only rows without a value do, this is still false.
    pub(crate) fn is_disjoint(&self) -> bool {
        self.disjoint
    }

    /// Whether the starts never decrease, so that the events of a window are a range of positions.
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Whether position `i` has a value and is not superseded.
    #[inline]
    pub(crate) fn is_event(&self, i: usize) -> bool {
        self.events.as_ref().is_none_or(|events| events.value(i))
    }

    fn len(&self) -> usize {
        self.timeline.len()
    }

    fn ticks(&self) -> Ticks<'a> {
        match self.timeline.stamps() {
            Stamps::Regular { t0, period, len } => Ticks::Regular {
                t0: *t0,
                period: *period,
                len: *len,
            },
            Stamps::Explicit(stamps) => Ticks::Explicit(stamps),
        }
    }
}

/// Whether some row has an empty interval.
fn has_superseded(timeline: &Timeline) -> bool {
    let Some(last) = timeline.len().checked_sub(1) else {
        return false;
    };
    let at_an_edge = || timeline.is_superseded(0) || timeline.is_superseded(last);
    match (timeline.stamps(), timeline.spans()) {
        (_, Spans::Fixed(_)) => false,
        (Stamps::Explicit(ends), Spans::Starts { starts, .. }) => {
            !all_pairs(starts, ends, |start, end| start < end)
        }
        (Stamps::Regular { .. }, Spans::Starts { .. }) => {
            (0..=last).any(|i| timeline.is_superseded(i))
        }
        (Stamps::Explicit(stamps), _) => {
            at_an_edge() || !all_pairs(stamps, &stamps[1..], |a, b| a < b)
        }
        (Stamps::Regular { .. }, _) => at_an_edge(),
    }
}

/// Whether no row starts before the one before it ends.
fn is_disjoint(timeline: &Timeline) -> bool {
    match (timeline.stamps(), timeline.spans()) {
        (_, Spans::UntilNext { .. } | Spans::Contiguous { .. }) => true,
        (Stamps::Regular { period, len, .. }, Spans::Fixed(d)) => d <= period || *len < 2,
        (Stamps::Explicit(stamps), Spans::Fixed(d)) => {
            let next = stamps.get(1..).unwrap_or_default();
            all_pairs(stamps, next, |a, b| b.saturating_sub(*d) >= a)
        }
        (Stamps::Explicit(ends), Spans::Starts { starts, .. }) => {
            let next = starts.get(1..).unwrap_or_default();
            all_pairs(ends, next, |end, start| start >= end)
        }
        (Stamps::Regular { .. }, Spans::Starts { .. }) => {
            (1..timeline.len()).all(|i| timeline.start(i) >= timeline.end(i - 1))
        }
    }
}

/// Whether starts never decrease. The first of contiguous rows may start late, but is superseded then.
fn is_ordered(timeline: &Timeline) -> bool {
    match timeline.spans() {
        Spans::Starts { starts, .. } => {
            let next = starts.get(1..).unwrap_or_default();
            all_pairs(starts, next, |a, b| a <= b)
        }
        _ => true,
    }
}

/// Whether all pairs pass. Counts without an early exit, at the speed of memory.
fn all_pairs(a: &[i64], b: &[i64], passes: impl Fn(i64, i64) -> bool) -> bool {
    let fails = |(a, b): &(&i64, &i64)| !passes(**a, **b);
    a.iter().zip(b).filter(fails).count() == 0
}

/// The instants at which output rows read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instants<'a> {
    base: Base<'a>,
    offset: i64,
}

#[derive(Clone, Copy, Debug)]
enum Base<'a> {
    Regular { t0: i64, period: i64 },
    Explicit(&'a [i64]),
}

impl<'a> Instants<'a> {
    /// Row `i` at `t0 + i * period`, which fits for every row that is asked for.
    pub(crate) fn regular(t0: i64, period: i64) -> Self {
        debug_assert!(period > 0);
        let base = Base::Regular { t0, period };
        Self { base, offset: 0 }
    }

    /// Row `i` at `instants[i]`.
    pub(crate) fn explicit(instants: &'a [i64]) -> Self {
        let base = Base::Explicit(instants);
        Self { base, offset: 0 }
    }

    /// The same rows `offset` ticks later, saturating.
    #[must_use]
    pub(crate) fn plus(self, offset: i64) -> Self {
        Self { offset, ..self }
    }

    /// The instants of some rows, in `scratch` unless they are there already.
    fn of<'s>(&'s self, rows: Range<usize>, scratch: &'s mut Vec<i64>) -> &'s [i64] {
        scratch.clear();
        match self.base {
            Base::Explicit(instants) if self.offset == 0 => return &instants[rows],
            Base::Explicit(instants) => {
                let shifted = instants[rows].iter().map(|t| t.saturating_add(self.offset));
                scratch.extend(shifted);
            }
            Base::Regular { t0, period } => scratch.extend(rows.map(|i| {
                // The sum fits even where the product alone does not.
                let t = t0.wrapping_add((i as i64).wrapping_mul(period));
                t.saturating_add(self.offset)
            })),
        }
        scratch
    }

    fn stride(&self) -> Option<i64> {
        match self.base {
            Base::Regular { period, .. } => Some(period),
            Base::Explicit(_) => None,
        }
    }
}

/// Stamps as they are stored.
#[derive(Clone, Copy, Debug)]
enum Ticks<'a> {
    Regular { t0: i64, period: i64, len: usize },
    Explicit(&'a [i64]),
}

/// Counts the stamps at or before an instant plus a constant, for instants that never decrease.
#[derive(Clone, Debug)]
struct Counter<'a> {
    ticks: Ticks<'a>,
    /// Added one after the other, each saturating.
    plus: [i64; 2],
    /// How many explicit stamps the last instant has passed.
    passed: usize,
}

impl<'a> Counter<'a> {
    /// Counts stored ticks with `tick + shift <= t + a + b`.
    fn new(ticks: Ticks<'a>, shift: i64, a: i64, b: i64) -> Self {
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
    fn count(&mut self, instants: &[i64], stride: Option<i64>, out: &mut [u32]) {
        match self.ticks {
            Ticks::Explicit(ticks) => self.count_explicit(ticks, instants, out),
            Ticks::Regular { t0, period, len } => {
                let grid = Grid { t0, period, len };
                let stride = stride.and_then(|stride| Stride::new(self, grid, instants, stride));
                match stride {
                    Some(stride) => stride.count(out),
                    None => self.count_regular(grid, instants, out),
                }
            }
        }
    }

    fn count_explicit(&mut self, ticks: &[i64], instants: &[i64], out: &mut [u32]) {
        let mut passed = self.passed;
        for (t, out) in instants.iter().zip(out) {
            passed = advance(ticks, passed, self.limit(*t));
            *out = passed as u32;
        }
        self.passed = passed;
    }

    fn count_regular(&self, grid: Grid, instants: &[i64], out: &mut [u32]) {
        let Some(ruler) = Ruler::new(grid) else {
            out.fill(0);
            return;
        };
        for (t, out) in instants.iter().zip(out) {
            *out = ruler.count(self.limit(*t));
        }
    }
}

/// The first position from `passed` on whose tick is above the limit.
#[inline]
fn advance(ticks: &[i64], mut passed: usize, limit: i64) -> usize {
    // Comparing four at a time takes no branch that depends on the data, but for the rare long way.
    for _ in 0..8 {
        let Some(four) = ticks.get(passed..passed + 4) else {
            break;
        };
        let below: usize = four.iter().map(|tick| usize::from(*tick <= limit)).sum();
        passed += below;
        if below < 4 {
            return passed;
        }
    }
    gallop(ticks, passed, limit)
}

/// As [`advance`], in time logarithmic in the distance.
#[cold]
fn gallop(ticks: &[i64], mut passed: usize, limit: i64) -> usize {
    let mut step = 4;
    while ticks.get(passed + step).is_some_and(|tick| *tick <= limit) {
        passed += step;
        step *= 2;
    }
    let end = ticks.len().min(passed + step);
    passed + ticks[passed..end].partition_point(|tick| *tick <= limit)
}

/// Regular ticks.
#[derive(Clone, Copy, Debug)]
struct Grid {
    t0: i64,
    period: i64,
    len: usize,
}

/// Counts regular ticks at arbitrary limits, dividing only where the ticks are spread over more than half of all time.
struct Ruler {
    t0: i64,
    last: i64,
    period: i64,
    per_tick: f64,
}

impl Ruler {
    /// `None` if there are no ticks.
    fn new(grid: Grid) -> Option<Self> {
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
    fn count(&self, limit: i64) -> u32 {
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
struct Stride {
    quotient: i64,
    remainder: u64,
    quotient_step: i64,
    remainder_step: u64,
    period: u64,
    len: i64,
}

impl Stride {
    /// `None` if some limit is saturated, or the numbers are too large to step.
    fn new(counter: &Counter, grid: Grid, instants: &[i64], stride: i64) -> Option<Self> {
        let (first, last) = (*instants.first()?, *instants.last()?);
        let way = i128::from(stride) * (instants.len() as i128 - 1);
        let exact = |t: i64| counter.plus.iter().try_fold(t, |t, d| t.checked_add(*d));
        if i128::from(last) - i128::from(first) != way {
            return None;
        }
        let distance = exact(first)?.checked_sub(grid.t0)?;
        // Room for the step after the last.
        exact(last)?.checked_sub(grid.t0)?.checked_add(stride)?;
        Some(Self {
            quotient: distance.div_euclid(grid.period),
            remainder: distance.rem_euclid(grid.period) as u64,
            quotient_step: stride / grid.period,
            remainder_step: (stride % grid.period) as u64,
            period: grid.period as u64,
            len: grid.len as i64,
        })
    }

    fn count(mut self, out: &mut [u32]) {
        for out in out {
            *out = (self.quotient + 1).clamp(0, self.len) as u32;
            self.remainder += self.remainder_step;
            let carry = self.remainder >= self.period;
            self.remainder -= if carry { self.period } else { 0 };
            self.quotient += self.quotient_step + i64::from(carry);
        }
    }
}

/// Counts the rows that end at or before an instant plus a constant.
#[derive(Clone, Debug)]
struct Ended<'a> {
    counter: Counter<'a>,
    plus: i64,
    /// Under `UntilNext`, where the last row ends, and how many rows there are.
    last: Option<(i64, u32)>,
}

impl<'a> Ended<'a> {
    fn new(source: &Source<'a>, plus: i64) -> Self {
        let timeline = source.timeline;
        let until_next = matches!(timeline.spans(), Spans::UntilNext { .. });
        let last = timeline.len().checked_sub(1).filter(|_| until_next);
        Self {
            counter: Counter::new(
                source.ticks(),
                timeline.shift(),
                plus,
                i64::from(until_next),
            ),
            plus,
            last: last.map(|last| (timeline.end(last), last as u32 + 1)),
        }
    }

    fn count(&mut self, instants: &[i64], stride: Option<i64>, out: &mut [u32]) {
        self.counter.count(instants, stride, out);
        if let Some((last_end, len)) = self.last {
            // The counter saw where rows begin: each but the last ends where its successor begins.
            for (t, count) in instants.iter().zip(out) {
                let all = *count == len && last_end <= t.saturating_add(self.plus);
                *count = count.saturating_sub(u32::from(!all));
            }
        }
    }

    /// The count at one instant.
    fn count_at(&mut self, t: i64) -> u32 {
        let mut count = [0];
        self.count(&[t], None, &mut count);
        count[0]
    }
}

/// Counts the rows that start before an instant plus a constant. Where starts are not ordered this is an upper bound:
/// no row from there on starts before the instant.
#[derive(Clone, Debug)]
struct Started<'a> {
    counter: Counter<'a>,
    plus: i64,
    /// Under `Contiguous`, where the first row starts, and how many rows there are.
    first: Option<(i64, u32)>,
}

impl<'a> Started<'a> {
    fn new(source: &Source<'a>, plus: i64) -> Self {
        let timeline = source.timeline;
        let mut first = None;
        let (ticks, more) = match timeline.spans() {
            Spans::Fixed(d) => (source.ticks(), d - 1),
            Spans::UntilNext { .. } => (source.ticks(), 0),
            Spans::Contiguous { first_start } => {
                first = Some((*first_start, source.len() as u32));
                (source.ticks(), -1)
            }
            Spans::Starts { starts, .. } if source.ordered => (Ticks::Explicit(starts), -1),
            Spans::Starts { longest, .. } => (source.ticks(), longest.saturating_sub(1)),
        };
        Self {
            counter: Counter::new(ticks, timeline.shift(), plus, more),
            plus,
            first,
        }
    }

    fn count(&mut self, instants: &[i64], stride: Option<i64>, out: &mut [u32]) {
        self.counter.count(instants, stride, out);
        if let Some((first_start, len)) = self.first {
            // The counter saw where rows end: each but the first starts where its predecessor ends.
            for (t, count) in instants.iter().zip(&mut *out) {
                let any = *count > 0 || first_start < t.saturating_add(self.plus);
                *count = (*count + u32::from(any)).min(len);
            }
        }
        // Nothing starts before the first instant of all.
        let beyond = |t: &&i64| t.saturating_add(self.plus) == i64::MIN;
        let none = instants.iter().take_while(beyond).count();
        out[..none].fill(0);
    }
}

/// Which event to read where several are active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// There must not be several.
    Unique,
    /// The first in order.
    First,
    /// The last in order.
    Last,
}

/// Reads the event that is active at an instant: `start < t <= end`.
#[derive(Clone, Debug)]
pub(crate) struct Active<'a> {
    source: &'a Source<'a>,
    policy: Policy,
    /// How many rows end before the instant.
    ended: Ended<'a>,
    /// How many start before it. Only asked where rows overlap.
    started: Started<'a>,
    instants: Vec<i64>,
    ends: Vec<u32>,
}

impl<'a> Active<'a> {
    /// A reader that stands before the first row.
    pub(crate) fn new(source: &'a Source<'a>, policy: Policy) -> Self {
        Self {
            source,
            policy,
            ended: Ended::new(source, -1),
            started: Started::new(source, 0),
            instants: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Writes the position that each row reads. Fails with the first instant at which several are active and must not.
    ///
    /// # Panics
    /// When `out` is not one position a row.
    pub(crate) fn read(
        &mut self,
        at: Instants,
        rows: Range<usize>,
        out: &mut [u32],
    ) -> Result<(), i64> {
        assert_eq!(rows.len(), out.len(), "one position a row");
        let instants = at.of(rows, &mut self.instants);
        self.ended.count(instants, at.stride(), out);
        if self.source.disjoint {
            keep_started(self.source, instants, out);
            keep_events(self.source, out);
            return Ok(());
        }
        self.ends.resize(out.len(), 0);
        self.started.count(instants, at.stride(), &mut self.ends);
        for ((t, end), out) in instants.iter().zip(&self.ends).zip(out) {
            *out = choose(self.source, self.policy, *out..*end, *t)?;
        }
        Ok(())
    }
}

/// Replaces positions of disjoint rows, each the first that does not end before its instant, by [`NONE`] where the row
/// has not started.
fn keep_started(source: &Source, instants: &[i64], out: &mut [u32]) {
    let timeline = source.timeline;
    let shift = timeline.shift();
    match (timeline.spans(), timeline.stamps()) {
        (Spans::Starts { starts, .. }, _) => keep(starts, instants, out, |s| s + shift),
        (Spans::Fixed(d), Stamps::Explicit(stamps)) => {
            keep(stamps, instants, out, |s| (s + shift).saturating_sub(*d));
        }
        (Spans::Fixed(d), Stamps::Regular { period, .. }) if d < period => {
            for (t, out) in instants.iter().zip(out) {
                let p = *out as usize;
                let active = p < source.len() && timeline.start(p) < *t;
                *out = if active { *out } else { NONE };
            }
        }
        // Without gaps a row that follows one which has ended has started.
        _ if source.len() == 0 => out.fill(NONE),
        _ => {
            let (len, first) = (source.len() as u32, timeline.start(0));
            for (t, out) in instants.iter().zip(out) {
                let active = *out < len && (*out > 0 || first < *t) && *t > i64::MIN;
                *out = if active { *out } else { NONE };
            }
        }
    }
}

/// Keeps the positions whose start, made of what is stored, lies before the instant.
#[inline]
fn keep(stored: &[i64], instants: &[i64], out: &mut [u32], start: impl Fn(i64) -> i64) {
    let Some(last) = stored.len().checked_sub(1) else {
        return out.fill(NONE);
    };
    for (t, out) in instants.iter().zip(out) {
        let p = *out as usize;
        let active = (p <= last) & (start(stored[p.min(last)]) < *t);
        *out = if active { *out } else { NONE };
    }
}

/// Replaces positions without an event by [`NONE`].
fn keep_events(source: &Source, out: &mut [u32]) {
    if let Some(events) = &source.events {
        for out in out {
            if *out != NONE && !events.value(*out as usize) {
                *out = NONE;
            }
        }
    }
}

/// The active one of some rows that do not end before `t`.
fn choose(source: &Source, policy: Policy, rows: Range<u32>, t: i64) -> Result<u32, i64> {
    let is_active = |p: &u32| {
        let p = *p as usize;
        source.is_event(p) && source.timeline.start(p) < t
    };
    let mut active = rows.filter(is_active);
    let chosen = match policy {
        Policy::First => active.next(),
        Policy::Last => active.next_back(),
        Policy::Unique => {
            let first = active.next();
            if active.next().is_some() {
                return Err(t);
            }
            first
        }
    };
    Ok(chosen.unwrap_or(NONE))
}

/// Reads the last event in order that has ended, as `hold` does.
#[derive(Clone, Debug)]
pub(crate) struct Held<'a> {
    source: &'a Source<'a>,
    max_age: Option<i64>,
    run_end: i64,
    ended: Ended<'a>,
    /// The rows that end at all; open ones are the last.
    closed: u32,
    /// The last event among the first `seen` rows.
    last: u32,
    seen: u32,
    instants: Vec<i64>,
}

impl<'a> Held<'a> {
    /// A reader of events that are held while they are younger than `max_age`, up to the run's end. An event that ends
    /// at [`OPEN`] has not ended.
    pub(crate) fn new(source: &'a Source<'a>, max_age: Option<i64>, run_end: i64) -> Self {
        Self {
            source,
            max_age,
            run_end,
            ended: Ended::new(source, 0),
            closed: Ended::new(source, 0).count_at(OPEN - 1),
            last: NONE,
            seen: 0,
            instants: Vec::new(),
        }
    }

    /// Writes the position that each row reads.
    ///
    /// # Panics
    /// When `out` is not one position a row.
    pub(crate) fn read(&mut self, at: Instants, rows: Range<usize>, out: &mut [u32]) {
        assert_eq!(rows.len(), out.len(), "one position a row");
        let instants = at.of(rows, &mut self.instants);
        self.ended.count(instants, at.stride(), out);
        let in_time = |t: i64| t <= self.run_end;
        if self.source.is_dense() {
            for (t, out) in instants.iter().zip(&mut *out) {
                // NONE is what comes before position 0.
                let last = (*out).min(self.closed).wrapping_sub(1);
                *out = if in_time(*t) { last } else { NONE };
            }
        } else {
            for (t, out) in instants.iter().zip(&mut *out) {
                let ended = (*out).min(self.closed);
                let mut new = (self.seen..ended).rev();
                let event = new.find(|p| self.source.is_event(*p as usize));
                self.last = event.unwrap_or(self.last);
                self.seen = ended;
                *out = if in_time(*t) { self.last } else { NONE };
            }
        }
        if let Some(max_age) = self.max_age {
            let end = |p: u32| self.source.timeline.end(p as usize);
            for (t, out) in instants.iter().zip(out) {
                if *out != NONE && t.saturating_sub(end(*out)) >= max_age {
                    *out = NONE;
                }
            }
        }
    }
}

/// Counts back over events, as `prev` does.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    /// `None` if every position is an event.
    sparse: Option<Sparse>,
}

#[derive(Clone, Debug)]
struct Sparse {
    /// A bit a position, set where there is an event.
    words: Vec<u64>,
    /// How many bits are set before each word.
    before: Vec<u32>,
}

impl Ranks {
    /// Counts the events of a source, all of them once.
    pub(crate) fn new(source: &Source) -> Self {
        let sparse = source.events.as_ref().map(|events| {
            let words: Vec<u64> = events.bit_chunks().iter_padded().collect();
            let counts = words.iter().scan(0, |sum, word| {
                let before = *sum;
                *sum += word.count_ones();
                Some(before)
            });
            Sparse {
                before: counts.collect(),
                words,
            }
        });
        Self { sparse }
    }

    /// The `n`-th event before position `current`, which itself is the one for `n = 0`.
    #[inline]
    pub(crate) fn nth_before(&self, current: u32, n: u32) -> u32 {
        if current == NONE || n == 0 {
            return current;
        }
        match &self.sparse {
            None => current.checked_sub(n).unwrap_or(NONE),
            Some(sparse) => sparse.nth_before(current, n),
        }
    }

    /// The `n`-th event before position `current` if that is an event itself.
    #[inline]
    pub(crate) fn nth_before_event(&self, current: u32, n: u32) -> u32 {
        let is_event = |sparse: &Sparse| {
            let word = sparse.words.get(current as usize / 64);
            word.is_some_and(|word| word & (1 << (current % 64)) != 0)
        };
        if self.sparse.as_ref().is_none_or(is_event) {
            self.nth_before(current, n)
        } else {
            NONE
        }
    }

    /// How many events there are before position `end`.
    pub(crate) fn until(&self, end: usize) -> u32 {
        let Some(sparse) = &self.sparse else {
            return end as u32;
        };
        match sparse.words.get(end / 64) {
            Some(word) => {
                sparse.before[end / 64] + (word & !(u64::MAX << (end % 64))).count_ones()
            }
            None => sparse.count(),
        }
    }

    /// How many events there are at `len` positions, which are all.
    pub(crate) fn count(&self, len: usize) -> u32 {
        self.sparse.as_ref().map_or(len as u32, Sparse::count)
    }

    /// The position of an event by its number, `len` if there are not as many.
    pub(crate) fn position(&self, number: u32, len: u32) -> u32 {
        match &self.sparse {
            None => number.min(len),
            Some(sparse) if number >= sparse.count() => len,
            Some(sparse) => {
                let word = sparse.before.partition_point(|before| *before <= number) - 1;
                word as u32 * 64 + nth_set(sparse.words[word], number - sparse.before[word])
            }
        }
    }

    /// Writes the `n`-th event before each of `current`.
    pub(crate) fn read(&self, current: &[u32], n: u32, out: &mut [u32]) {
        for (current, out) in current.iter().zip(out) {
            *out = self.nth_before(*current, n);
        }
    }
}

impl Sparse {
    fn count(&self) -> u32 {
        let last = self.before.last().zip(self.words.last());
        last.map_or(0, |(before, word)| before + word.count_ones())
    }

    fn nth_before(&self, current: u32, n: u32) -> u32 {
        let word = current as usize / 64;
        let lower = self.words[word] & !(u64::MAX << (current % 64));
        let rank = self.before[word] + lower.count_ones();
        let Some(number) = rank.checked_sub(n) else {
            return NONE;
        };
        // The last word with no more than `number` bits before it: the usual one is near.
        let word = if self.before[word] <= number {
            word
        } else {
            self.before[..word].partition_point(|before| *before <= number) - 1
        };
        word as u32 * 64 + nth_set(self.words[word], number - self.before[word])
    }
}

/// Which bit of `word` is set with `n` set below it.
fn nth_set(mut word: u64, n: u32) -> u32 {
    for _ in 0..n {
        word &= word - 1;
    }
    word.trailing_zeros()
}

/// Where [`Window::read`] writes: one position a row in each.
#[derive(Debug)]
pub(crate) struct Bounds<'a> {
    /// The first row that ends after the window's beginning.
    pub(crate) first: &'a mut [u32],
    /// The first row that starts at or after the window's end, if starts are ordered. Otherwise no row from here on
    /// starts before the window's end, but some before may not either.
    pub(crate) end: &'a mut [u32],
    /// Of windows with a beginning: the first row that ends after the last multiple of the window's length that lies
    /// before the window's end.
    pub(crate) split: Option<&'a mut [u32]>,
}

/// Reads the rows in a window `(t+lo, t+hi]`: those of `first..end`, with `first <= split <= end`.
#[derive(Clone, Debug)]
pub(crate) struct Window<'a> {
    lo: Option<i64>,
    hi: i64,
    ended: Ended<'a>,
    started: Started<'a>,
    blocks: Blocks<'a>,
    instants: Vec<i64>,
}

impl<'a> Window<'a> {
    /// A reader that stands before the first row. Without `lo` windows begin with the first row of all; they are empty
    /// if `lo >= hi`.
    pub(crate) fn new(source: &'a Source<'a>, lo: Option<i64>, hi: i64) -> Self {
        let length = lo.map_or(1, |lo| hi.saturating_sub(lo).max(1));
        Self {
            lo,
            hi,
            ended: Ended::new(source, lo.unwrap_or(0)),
            started: Started::new(source, hi),
            blocks: Blocks::new(source, length),
            instants: Vec::new(),
        }
    }

    /// Writes the bounds of each row's window.
    ///
    /// # Panics
    /// When the bounds are not one a row, or the split of windows without a beginning is asked for.
    pub(crate) fn read(&mut self, at: Instants, rows: Range<usize>, bounds: Bounds) {
        let Bounds { first, end, split } = bounds;
        assert!(
            rows.len() == first.len() && rows.len() == end.len(),
            "one position a row"
        );
        let instants = at.of(rows, &mut self.instants);
        match self.lo {
            Some(_) => self.ended.count(instants, at.stride(), first),
            None => first.fill(0),
        }
        if self.lo.is_some_and(|lo| lo >= self.hi) {
            end.copy_from_slice(first);
        } else {
            self.started.count(instants, at.stride(), end);
            for (first, end) in first.iter().zip(&mut *end) {
                *end = (*end).max(*first);
            }
        }
        if let Some(split) = split {
            assert!(self.lo.is_some(), "a window without a beginning has no end");
            assert_eq!(split.len(), first.len(), "one position a row");
            let edges = first.iter().zip(end.iter());
            for ((t, (first, end)), split) in instants.iter().zip(edges).zip(split) {
                let position = self.blocks.split(t.saturating_add(self.hi));
                *split = position.clamp(*first, *end);
            }
        }
    }
}

/// Time in blocks `(b, b + length]`, `b` a multiple of the length.
#[derive(Clone, Debug)]
struct Blocks<'a> {
    length: i64,
    /// Where the block of the last instant begins, rounded to what fits.
    begin: i64,
    /// Where it ends, likewise.
    end: i64,
    ended: Ended<'a>,
    /// The first row that ends after the block's beginning.
    position: u32,
}

impl<'a> Blocks<'a> {
    fn new(source: &Source<'a>, length: i64) -> Self {
        Self {
            length,
            begin: i64::MIN,
            end: i64::MIN,
            ended: Ended::new(source, 0),
            position: 0,
        }
    }

    /// The first row that ends after the beginning of the block that holds `t`.
    #[inline]
    fn split(&mut self, t: i64) -> u32 {
        if t > self.end {
            self.enter(t);
        }
        self.position
    }

    fn enter(&mut self, t: i64) {
        (self.begin, self.end) = match self.end.checked_add(self.length) {
            // The usual step, unless nothing has been entered or an edge was rounded.
            Some(end) if self.begin > i64::MIN && t <= end => (self.end, end),
            _ => {
                let length = i128::from(self.length);
                let begin = (i128::from(t) - 1).div_euclid(length) * length;
                (saturate(begin), saturate(begin + length))
            }
        };
        self.position = self.ended.count_at(self.begin);
    }
}

/// The instant nearest to `t`.
pub(crate) fn saturate(t: i128) -> i64 {
    t.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
