//! An input while its rows arrive.

use std::collections::VecDeque;

use arrow_array::{Array, ArrayRef, new_empty_array};
use tilt_data::{Column, Counted, DataError, SnapshotBuffer, Spans, Timeline, dtype::to_arrow};
use tilt_interp::{RunError, check_buffer};
use tilt_ir::{DType, Halo, Input, OPEN, Overlap, Program, Reach, Span, SpanRule, StreamId};

use crate::{
    error::Error,
    live::{by_key::ByKey, held::Held, limits::Limits, past::Back, state::InputState},
    steps::Arrived,
    tail::EndsOf,
};

/// An input whose rows arrive in order of their ends, and what is held of it.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Arriving {
    id: StreamId,
    pub(crate) name: String,
    /// `None` if the output does not depend on it.
    pub(crate) halo: Option<Halo>,
    pub(crate) is_exhausted: bool,
    pub(super) held: Held,
    /// Which rows have which key, where that is asked for.
    pub(super) by_key: Option<ByKey>,
    /// Events that have begun and cannot be held yet, because others that end before them may still come, or because they have no end.
    pub(super) begun: SnapshotBuffer,
    /// Rows that have come since the last part.
    fresh_rows: usize,
    /// No event that is still to come starts before this, as far as rows tell.
    covered: i64,
    /// No event that is still to come starts before this, as was promised.
    pub(super) promised: i64,
    /// Of all events that have come, but for one of unknown end.
    hull: Option<Span>,
    /// Where the last event started, if its end is not known.
    pub(super) open_start: Option<i64>,
    /// Whether events start in the order in which they end, and whether each starts when those before it have ended.
    pub(super) is_in_order: bool,
    is_disjoint: bool,
    is_keyed: bool,
    /// Whether its keys alone may give output.
    has_keys: bool,
    /// The last event.
    pub(super) last: Option<Span>,
    /// The ends of the last events, as many as the lookahead counts and two more.
    tail: VecDeque<i64>,
    /// How many rows have come.
    pub(super) rows: u64,
    /// The widest rows so far.
    row_bytes: usize,
    /// How far back rows are held, and how much longer to find rows of a key that overlap.
    pub(super) lookback: Back,
    pub(super) slack: i64,
}

impl Arriving {
    pub(crate) fn new(program: &Program, id: StreamId, halo: Option<Halo>, back: Back) -> Self {
        let input = program.streams[id].as_input().expect("an input");
        let none = nothing(program, input);
        let lookback = if back.counts() && !can_count_by_key(input) {
            Back::ALL
        } else {
            back
        };
        Self {
            id,
            name: input.name.clone(),
            halo,
            is_exhausted: false,
            held: holding(input, none.clone()),
            by_key: None,
            begun: none,
            fresh_rows: 0,
            covered: i64::MIN,
            promised: i64::MIN,
            hull: None,
            open_start: None,
            is_in_order: is_in_order(input),
            is_disjoint: input.overlap == Overlap::Disjoint && input.key.is_none(),
            is_keyed: input.key.is_some(),
            has_keys: false,
            last: None,
            tail: VecDeque::new(),
            rows: 0,
            row_bytes: 1,
            lookback,
            slack: match input.span {
                SpanRule::Fixed(length) if input.key.is_some() => length,
                _ => 0,
            },
        }
    }

    /// Holds all rows; those of an input that the output does not depend on as well, if output may exist for a key that only they have.
    pub(crate) fn hold_all(&mut self, has_keys: bool) {
        self.lookback = Back::ALL;
        self.has_keys = has_keys;
    }

    /// Takes rows that go on as those before them did, if there is nothing to look at but where the first of them is. Otherwise [`push`](Self::push) tells more.
    pub(crate) fn append(&mut self, chunk: &SnapshotBuffer) -> bool {
        let Some((ends, length)) = EndsOf::of(chunk.timeline()) else {
            return false;
        };
        if !self.may_append(ends, length) || self.is_disjoint && chunk.is_bag() {
            return false;
        }
        let Some(tail) = self.held.followed_by(chunk) else {
            return false;
        };
        tail.append(ends, chunk.columns().iter().map(Column::array));
        self.go_on_to(ends, length);
        true
    }

    /// The same of events of one length and their values, a column each.
    pub(crate) fn append_values<'a>(
        &mut self,
        ends: EndsOf,
        length: i64,
        values: impl ExactSizeIterator<Item = &'a ArrayRef> + Clone,
    ) -> bool {
        if self.is_exhausted || !self.may_append(ends, length) {
            return false;
        }
        let least = if self.is_disjoint { length } else { 0 };
        let are_apart = || match ends {
            EndsOf::Regular { period, .. } => period >= least,
            EndsOf::Explicit(ends) => {
                let pairs = ends.iter().zip(&ends[1..]);
                pairs.fold(true, |all, (a, b)| all & (b.wrapping_sub(*a) >= least))
            }
        };
        let Some(tail) = self.held.tail() else {
            return false;
        };
        if !tail.goes_on_with(ends, length, values.clone()) || !are_apart() {
            return false;
        }
        tail.append(ends, values);
        self.go_on_to(ends, length);
        true
    }

    /// Whether events, at least one, in order, may follow as far as the first of them tells.
    fn may_append(&self, ends: EndsOf, length: i64) -> bool {
        let (Some(last), Some(_), false) = (self.last, self.hull, self.has_begun()) else {
            return false;
        };
        let counts_ahead = self.halo.is_some_and(
            |halo| matches!(halo.lookahead, Reach::Bounded { events, .. } if events > 0),
        );
        let first = event(ends.first(), length);
        let is_apart = !self.is_disjoint || first.start >= last.end;
        !counts_ahead && is_apart && first.end >= last.end && first.start >= self.promised
    }

    /// Events of one length that were appended are the last.
    fn go_on_to(&mut self, ends: EndsOf, length: i64) {
        let (first, last) = (event(ends.first(), length), event(ends.last(), length));
        self.last = Some(last);
        let hull = self.hull.unwrap_or(first);
        let start = hull.start.min(first.start);
        self.hull = Some(Span::new(start, hull.end.max(last.end)));
        let covered = if self.is_disjoint {
            last.end
        } else {
            last.start
        };
        self.covered = self.covered.max(covered);
        self.rows += ends.len() as u64;
        self.fresh_rows += ends.len();
    }

    /// Takes rows that follow those before. `span` contains all events, if it is given.
    pub(crate) fn push(
        &mut self,
        program: &Program,
        span: Option<Span>,
        chunk: &SnapshotBuffer,
    ) -> Result<(), Error> {
        let input = self.declared(program)?;
        check_buffer(program, input, chunk).map_err(RunError::Buffer)?;
        if self.rows == 0 {
            self.held.like(chunk);
        }
        if chunk.is_empty() {
            return Ok(());
        }
        self.check_events(input, chunk, span)?;
        self.see(chunk);
        let last = chunk.positions().next_back();
        self.last = last.map(|row| chunk.event(row)).or(self.last);
        self.covered = self.covered.max(covered(input, chunk, self.last));
        self.rows += chunk.len() as u64;
        if self.halo.is_none() && !self.has_keys {
            return Ok(());
        }
        if let Some(Halo {
            lookahead: Reach::Bounded { events, .. },
            ..
        }) = self.halo
            && events > 0
        {
            let counted = usize::try_from(events)
                .unwrap_or(usize::MAX)
                .saturating_add(2);
            let ends = chunk.positions().rev().take(counted);
            let ends: Vec<i64> = ends.map(|row| chunk.event(row).end).collect();
            self.tail.extend(ends.into_iter().rev());
            let over = self.tail.len().saturating_sub(counted);
            self.tail.drain(..over);
        }
        self.row_bytes = self.row_bytes.max(bytes(chunk).div_ceil(chunk.len()));
        self.fresh_rows += chunk.len();
        self.hold(chunk)
    }

    fn hold(&mut self, chunk: &SnapshotBuffer) -> Result<(), Error> {
        let held = self.held.push(chunk);
        held.map_err(|error| self.broken(error))
    }

    /// Rows that cannot be put together.
    pub(super) fn broken(&self, error: DataError) -> Error {
        Error::Source {
            input: self.name.clone(),
            source: error.into(),
        }
    }

    /// Takes the events that have begun and cannot be pushed yet, in place of those given before.
    pub(crate) fn set_begun(
        &mut self,
        program: &Program,
        span: Option<Span>,
        rows: &SnapshotBuffer,
    ) -> Result<(), Error> {
        let input = self.declared(program)?;
        check_buffer(program, input, rows).map_err(RunError::Buffer)?;
        self.check_begun(rows, span)?;
        self.widen(rows.hull());
        self.begun = rows.clone();
        Ok(())
    }

    /// No event that is still to come starts before `t`.
    pub(crate) fn advance(&mut self, t: i64) {
        self.promised = self.promised.max(t);
    }

    /// No more rows come.
    pub(crate) fn exhaust(&mut self) {
        self.is_exhausted = true;
        let open = self.open_start.take();
        self.widen(open.map(|start| Span::new(start, start + 1)));
    }

    fn declared<'a>(&self, program: &'a Program) -> Result<&'a Input, Error> {
        let found = program.streams[self.id].as_input();
        found.ok_or_else(|| Error::Internal(format!("~{} is no input", self.name)))
    }

    /// Adds the events of a chunk to the hull. Whether a last event that is open exists at all depends on the next row, which may replace it.
    fn see(&mut self, chunk: &SnapshotBuffer) {
        let timeline = chunk.timeline();
        let (first, last) = (timeline.event(0), timeline.event(timeline.len() - 1));
        if let Some(start) = self.open_start.take()
            && start < first.start
        {
            self.widen(Some(Span::new(start, first.start)));
        }
        if last.end == OPEN {
            self.widen(chunk.slice(0, chunk.len() - 1).hull());
            self.open_start = chunk.is_event(chunk.len() - 1).then_some(last.start);
        } else {
            self.widen(chunk.hull());
        }
    }

    fn widen(&mut self, by: Option<Span>) {
        let hulls = self.hull.into_iter().chain(by);
        self.hull = hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)));
    }

    /// Of all events that have come, but for one that the next row may still replace.
    pub(crate) fn hull(&self) -> Option<Span> {
        let open = self.open_start.filter(|start| *start < self.promised);
        let hulls = self.hull.into_iter();
        let hulls = hulls.chain(open.map(|start| Span::new(start, start + 1)));
        hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
    }

    /// Whether no event that is still to come starts before `start`, or before those that have come.
    pub(crate) fn starts_after(&self, start: Option<i64>) -> bool {
        let is_behind = start.is_some_and(|start| self.covered() >= start);
        self.is_exhausted || is_behind || self.is_in_order && self.hull().is_some()
    }

    /// No event that is still to come starts before this.
    pub(crate) fn covered(&self) -> i64 {
        self.covered.max(self.promised)
    }

    /// How far it has come.
    pub(crate) fn arrived(&self) -> Arrived {
        let begun = self.begun_events().map(|event| event.start).min();
        let begun = begun.unwrap_or(i64::MAX);
        Arrived {
            covered: self.covered.min(begun),
            promised: self.promised.min(begun),
        }
    }

    /// Whether there are events that have begun besides rows.
    pub(crate) fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// How far the output may be asked for, as far as this input is concerned; about, if events are counted.
    pub(crate) fn frontier(&self) -> i64 {
        let Some(Halo {
            lookahead: Reach::Bounded { ticks, events },
            ..
        }) = self.halo
        else {
            return i64::MAX;
        };
        if self.is_exhausted {
            return i64::MAX;
        }
        let from = if events == 0 {
            self.covered()
        } else if self.tail.len() as u64 >= events.saturating_add(2) {
            self.tail[0]
        } else {
            i64::MIN
        };
        from.saturating_sub(ticks)
    }

    /// The furthest instant up to which what the output depends on has come. Of events that matter none ends after `latest`; those of unknown end
    /// count for that if the query needs ends.
    pub(crate) fn furthest(&mut self, latest: i64, limits: &Limits) -> Result<i64, Error> {
        let needs_ends = limits.needs_ends;
        let Some(halo) = self.halo else {
            return Ok(i64::MAX);
        };
        let Reach::Bounded { ticks, events } = halo.lookahead else {
            return Ok(if self.is_exhausted {
                i64::MAX
            } else {
                i64::MIN
            });
        };
        let mut hidden = i64::MAX;
        if latest < i64::MAX {
            let held = &self.held;
            let start = held.first_start_after(latest, needs_ends, self.is_in_order);
            hidden = start.unwrap_or(i64::MAX);
            let unseen = self
                .begun_events()
                .filter(|e| e.end > latest && (needs_ends || e.end < OPEN));
            hidden = unseen.map(|event| event.start).fold(hidden, i64::min);
        }
        if limits.minds_order && !self.is_exhausted {
            hidden = hidden.min(self.order_known_until());
        }
        // An event without an end may end where the next one may start.
        let come = match self.is_open() {
            _ if self.is_exhausted => i64::MAX,
            true => self.covered.max(self.promised.saturating_sub(1)),
            false => self.covered(),
        };
        if events == 0 {
            return Ok(match come.min(hidden) {
                i64::MAX => i64::MAX,
                t => t.saturating_sub(ticks),
            });
        }
        if self.is_exhausted && hidden == i64::MAX {
            return Ok(i64::MAX);
        }
        if !self.is_in_order {
            return Ok(i64::MIN);
        }
        let is_exhausted = self.is_exhausted;
        let held = self.join()?;
        let timeline = held.timeline();
        // What is covered is covered further back too.
        let covers = |row: usize| {
            let until = Span::new(timeline.end(row), timeline.end(row));
            let end = held.cut_rows(until, Reach::NONE, halo.lookahead).end;
            (is_exhausted || end < held.len()) && (end == 0 || timeline.start(end - 1) < hidden)
        };
        let (mut low, mut high) = (0, timeline.ends_until(OPEN - 1));
        while low < high {
            let middle = low.midpoint(high);
            if covers(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(match low {
            0 => i64::MIN,
            n => timeline.end(n - 1),
        })
    }

    pub(super) fn begun_events(&self) -> impl DoubleEndedIterator<Item = Span> + '_ {
        let rows = self.begun.positions();
        rows.map(|row| self.begun.event(row))
    }

    /// Before this no event without an end is active together with another one that has begun: which of them comes first is known when it ends.
    fn order_known_until(&self) -> i64 {
        let begun = || self.begun_events().enumerate();
        let open = begun().filter(|(_, event)| event.end == OPEN);
        let Some((first, open)) = open.min_by_key(|(_, event)| event.start) else {
            return i64::MAX;
        };
        let others = begun().filter(|(at, _)| *at != first);
        let meet = others.map(|(_, event)| (event.start.max(open.start), event.end));
        let meet = meet.filter(|(at, end)| at < end).map(|(at, _)| at);
        meet.min().unwrap_or(i64::MAX)
    }

    /// Whether an event that has come has no end yet.
    pub(crate) fn is_open(&self) -> bool {
        self.halo.is_some()
            && (self.held.is_open()
                || self
                    .begun_events()
                    .next_back()
                    .is_some_and(|e| e.end == OPEN))
    }

    /// No event without an end is active before this.
    pub(crate) fn ends_known_until(&self) -> i64 {
        match self.is_open() {
            false => i64::MAX,
            // The last row is the one that is open, and others start no earlier.
            true if self.begun.is_empty() => self.covered,
            true => i64::MIN,
        }
    }

    /// Rows that have come since the last part.
    pub(crate) fn fresh_rows(&self) -> usize {
        self.fresh_rows
    }

    /// Whether no row has come yet.
    pub(crate) fn has_no_rows(&self) -> bool {
        self.rows == 0
    }

    /// Rows that are held.
    pub(crate) fn held_rows(&self) -> usize {
        self.held.len() + self.begun.len()
    }

    /// The number of the first row that is held, among all that have come.
    pub(super) fn first_held(&self) -> u64 {
        self.rows - self.held.len() as u64
    }

    /// Some of the rows that are held, in order.
    pub(super) fn gather(&mut self, rows: &[usize]) -> Result<SnapshotBuffer, Error> {
        let gathered = self.held.gather(rows);
        gathered.map_err(|error| self.broken(error))
    }

    /// The bytes of a row, about.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The end of the row that is number `rows`, from one, of those that end after `t`.
    pub(crate) fn end_of_row_after(&self, t: i64, rows: usize) -> Option<i64> {
        self.held.end_of_row_after(t, rows)
    }

    /// No rows, of the columns that rows have.
    pub(crate) fn none(&self) -> &SnapshotBuffer {
        self.held.none()
    }

    /// Rows that are held, from one on.
    pub(super) fn rows_from(&mut self, row: usize) -> Result<SnapshotBuffer, Error> {
        let rows = self.held.rows_from(row);
        rows.map_err(|error| self.broken(error))
    }

    /// All rows that are held.
    pub(crate) fn join(&mut self) -> Result<&SnapshotBuffer, Error> {
        self.held.join().map_err(|error| Error::Source {
            input: self.name.clone(),
            source: error.into(),
        })
    }

    /// The same, with columns as they came.
    fn as_given(&mut self) -> Result<SnapshotBuffer, Error> {
        let rows = self.held.as_given();
        rows.map_err(|error| self.broken(error))
    }

    /// The rows that a part of the output depends on.
    pub(crate) fn cut(&mut self, part: Span) -> Result<SnapshotBuffer, Error> {
        // What is held of keys that count their events, and where not all events count, is no more than twice what is needed.
        let Back { reach, counted } = self.lookback;
        let lookback =
            if self.lookback.counts() && (self.is_keyed || counted == Counted::CompleteRows) {
                Reach::Unbounded
            } else {
                reach
            };
        let from = part.start.saturating_sub(self.slack);
        let lookahead = self.halo.map_or(Reach::Unbounded, |halo| halo.lookahead);
        let cut = |held: &SnapshotBuffer| {
            let first = held.cut_rows(Span::new(from, i64::MAX), lookback, Reach::Unbounded);
            let rows = held.cut_rows(part, lookback, lookahead);
            let first = first.start.min(rows.start);
            held.slice(first, rows.end - first)
        };
        if self.begun.is_empty() {
            return Ok(cut(self.join()?));
        }
        let rows = cut(&self.as_given()?);
        let all = SnapshotBuffer::concat(&[rows, self.begun.clone()]);
        all.map_err(|error| self.broken(error))
    }

    /// Rows that nothing after `until` depends on are dropped.
    pub(crate) fn forget(&mut self, until: i64) -> Result<(), Error> {
        self.forget_beyond(until, self.lookback)
    }

    /// The same of rows that are further back than what follows `until` looks.
    pub(super) fn forget_beyond(&mut self, until: i64, lookback: Back) -> Result<(), Error> {
        let from = until.saturating_sub(self.slack);
        let forgotten = self.held.forget(from, lookback);
        if forgotten.map_err(|error| self.broken(error))? {
            // Rows before the last ones have other numbers.
            self.by_key = None;
        }
        self.fresh_rows = self.held.rows_after(until);
        Ok(())
    }

    /// What is known and held, as plain data.
    pub(crate) fn save(&mut self) -> Result<InputState, Error> {
        Ok(InputState {
            rows: self.as_given()?,
            begun: self.begun.clone(),
            count: self.rows,
            covered: self.covered,
            promised: self.promised,
            hull: self.hull,
            last: self.last,
            open_start: self.open_start,
            tail: self.tail.iter().copied().collect(),
            is_exhausted: self.is_exhausted,
        })
    }

    /// Goes on where [`save`](Self::save) left off.
    pub(crate) fn restore(&mut self, program: &Program, state: InputState) -> Result<(), Error> {
        let input = self.declared(program)?;
        check_buffer(program, input, &state.rows).map_err(RunError::Buffer)?;
        check_buffer(program, input, &state.begun).map_err(RunError::Buffer)?;
        if !state.rows.is_empty() {
            self.row_bytes = bytes(&state.rows).div_ceil(state.rows.len()).max(1);
        }
        self.fresh_rows = state.rows.len();
        self.held = holding(input, state.rows.slice(0, 0));
        self.hold(&state.rows)?;
        self.begun = state.begun;
        self.rows = state.count;
        (self.covered, self.promised) = (state.covered, state.promised);
        (self.hull, self.last) = (state.hull, state.last);
        self.open_start = state.open_start;
        self.tail = state.tail.into();
        self.is_exhausted = state.is_exhausted;
        Ok(())
    }
}

/// No rows of an input, with columns as these.
fn holding(input: &Input, none: SnapshotBuffer) -> Held {
    let key = input.key.as_deref();
    let is_text = key.is_some_and(|key| input.dtype.field(key) == Some(&DType::Utf8));
    Held::new(none).with_key(key, is_text)
}

/// Whether it can be told which rows are the last ones of their keys, if there are keys: not of those whose ends depend on the next row of the key.
pub(super) fn can_count_by_key(input: &Input) -> bool {
    input.key.is_none() || input.span != SpanRule::UntilNext
}

fn event(end: i64, length: i64) -> Span {
    Span::new(end.saturating_sub(length), end)
}

/// Whether events of an input start in the order in which they end.
pub(crate) fn is_in_order(input: &Input) -> bool {
    match input.span {
        SpanRule::Point | SpanRule::Fixed(_) => true,
        SpanRule::UntilNext => input.key.is_none(),
        SpanRule::Interval => input.key.is_none() && input.overlap == Overlap::Disjoint,
    }
}

/// No row that follows a chunk starts before this.
fn covered(input: &Input, chunk: &SnapshotBuffer, last_event: Option<Span>) -> i64 {
    let timeline = chunk.timeline();
    let last = timeline.event(timeline.len() - 1);
    let ends = |event: Span| {
        if event.end == OPEN {
            event.start
        } else {
            event.end
        }
    };
    let after_event = if input.overlap == Overlap::Disjoint && input.key.is_none() {
        last_event.map_or(i64::MIN, ends)
    } else {
        i64::MIN
    };
    match timeline.spans() {
        Spans::UntilNext { .. } => ends(last),
        // Rows are in order, and all are of one length.
        Spans::Fixed(_) => after_event.max(last.start),
        Spans::Contiguous { .. } | Spans::Starts { .. } => after_event,
    }
}

/// The bytes of a chunk's rows.
fn bytes(chunk: &SnapshotBuffer) -> usize {
    let times = match chunk.timeline().spans() {
        Spans::Starts { .. } => 2 * size_of::<i64>(),
        _ => size_of::<i64>(),
    };
    let values = chunk.columns().iter().map(|column| {
        let array = column.array();
        match array.data_type().primitive_width() {
            Some(width) => width * array.len(),
            None => array.to_data().get_slice_memory_size().unwrap_or(0),
        }
    });
    times * chunk.len() + values.sum::<usize>()
}

/// An input without rows.
fn nothing(program: &Program, input: &Input) -> SnapshotBuffer {
    let spans = match input.span {
        SpanRule::Point => Spans::Fixed(1),
        SpanRule::Fixed(length) => Spans::Fixed(length),
        SpanRule::UntilNext => Spans::UntilNext { next: OPEN },
        SpanRule::Interval => Spans::Starts {
            starts: Vec::new().into(),
            longest: 0,
        },
    };
    let timeline = Timeline::explicit(Vec::new().into(), spans);
    let column = |name: &str, dtype: &DType| Column::new(name, new_empty_array(&to_arrow(dtype)));
    let buffer = match &input.dtype {
        DType::Record(fields) => {
            let columns = fields.iter().map(|f| column(&f.name, &f.dtype));
            SnapshotBuffer::record(timeline, columns.collect(), None, program.unit)
        }
        dtype => SnapshotBuffer::scalar(timeline, column(&input.name, dtype), program.unit),
    };
    buffer.expect("no column has rows")
}
