//! An input of a session: what is late, and what goes on to the run.

use std::{
    cmp::Reverse,
    sync::{Arc, OnceLock},
};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_row::Rows;
use arrow_schema::{ArrowError, FieldRef};
use tilt_data::{
    Column, DataError, RawRows, RowReader, SnapshotBuffer, Spans, TIME_LIMIT, TimeColumns, Timeline,
};
use tilt_exec::Live;
use tilt_ir::{DType, Input, OPEN, Overlap, Reach, Span, SpanRule, Unit};

use crate::{
    edges::{Begun, Edges, as_bytes},
    error::SessionError,
    grid::{Grids, Off, next_on},
    late::{Fate, LateRow, LateRows, apart},
    options::{InputOptions, Policy},
    queue::{Disjoint, Queue, end_open},
    row::{Row, gather},
    runs::{Events, Run, joined},
    status::Counts,
};

/// Rows of runs go on together up to about so many: making a buffer of a few costs more than the few, and a live run appends pushes to one of so many.
const TOGETHER: usize = 1 << 10;

/// The bytes of some rows' values.
pub(crate) fn bytes<'a>(columns: impl Iterator<Item = &'a ArrayRef>) -> usize {
    let bytes = columns.map(|column| {
        let width = column.data_type().primitive_width();
        let all = || column.to_data().get_slice_memory_size().unwrap_or(0);
        width.map_or_else(all, |width| width * column.len())
    });
    bytes.sum()
}

/// What became of rows that went on, or might have.
pub(crate) struct Settled {
    /// Rows that overlap others, or that were moved to where others are, and the ends of those.
    pub(crate) left_out: Vec<(Row, i64)>,
    /// Of rows that were moved and might have been left out, those that were not, by number.
    pub(crate) moved: Vec<u64>,
}

/// An input of a session.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) input: Input,
    pub(crate) options: InputOptions,
    unit: Unit,
    /// Columns of values and of times, as the first batch had them.
    pub(crate) fields: Option<Vec<FieldRef>>,
    pub(crate) time: Option<TimeColumns>,
    pub(crate) queue: Queue,
    pub(crate) edges: Edges,
    /// The latest change that a row has told.
    pub(crate) high: i64,
    /// No row that changes something before this counts: as was promised, or because the input was idle.
    pub(crate) promised: i64,
    pub(crate) is_idle: bool,
    /// By the caller's clock, when it had rows last.
    pub(crate) touched: i64,
    /// How many rows have come.
    pub(crate) seq: u64,
    /// Where stamps may be, if they have a period.
    pub(crate) grids: Grids,
    /// The last stamp that was found on the grid of all rows.
    pub(crate) on_grid: Option<i64>,
    pub(crate) counts: Counts,
    pub(crate) late: LateRows,
    /// How far ahead of itself the output looks at the input; `None` if it does not read it.
    pub(crate) lookahead: Option<Reach>,
    /// Bytes of a row, about.
    pub(crate) row_bytes: usize,
    pub(crate) reader: RowReader,
    /// Rows as the query reads them, without any.
    pub(crate) none: OnceLock<SnapshotBuffer>,
    /// Whether a row that follows all others waits for nothing.
    pub(crate) goes_straight: bool,
}

impl Port {
    pub(crate) fn new(
        input: &Input,
        unit: Unit,
        options: InputOptions,
    ) -> Result<Self, SessionError> {
        let refuse = |what: &str| SessionError::Option {
            input: input.name.clone(),
            what: what.to_owned(),
        };
        if options.lateness < 0 {
            return Err(refuse("a lateness is not negative"));
        }
        if matches!(options.policy, Policy::Revise { horizon } if horizon <= 0) {
            return Err(refuse("the horizon of `revise` is positive"));
        }
        if options.edges && input.span != SpanRule::Interval {
            return Err(refuse(
                "edges are for intervals given by two columns; declare the input as interval",
            ));
        }
        let lasts = match (input.span, input.period) {
            (SpanRule::Fixed(length), Some(period)) => length > period,
            (SpanRule::Fixed(length), None) => length > 1,
            (SpanRule::Interval, _) => options.edges,
            (SpanRule::Point | SpanRule::UntilNext, _) => false,
        };
        if options.policy == Policy::Adjust && input.overlap == Overlap::Disjoint && lasts {
            return Err(refuse(
                "a late row cannot be moved where events exclude each other and are open (edges), or last longer than their period; declare `overlap bag`, `first` or `last`, or choose the policy `drop` or `revise`",
            ));
        }
        let reader = RowReader::new(input, unit, &options.ingress, options.edges);
        Ok(Self {
            queue: Queue::new(input, &options),
            input: input.clone(),
            options,
            unit,
            fields: None,
            time: None,
            edges: Edges::default(),
            high: i64::MIN,
            promised: i64::MIN,
            is_idle: false,
            touched: i64::MIN,
            seq: 0,
            grids: Grids::default(),
            on_grid: None,
            counts: Counts::default(),
            late: LateRows::default(),
            lookahead: None,
            row_bytes: 0,
            reader,
            none: OnceLock::new(),
            goes_straight: false,
        })
    }

    /// By how much the time of a row is after the start of its event.
    pub(crate) fn offset(&self) -> i64 {
        match self.input.span {
            SpanRule::Point | SpanRule::UntilNext => 1,
            SpanRule::Fixed(length) => length,
            SpanRule::Interval => i64::from(self.options.ingress.closed_left),
        }
    }

    /// The time that a row has whose event starts at `start`.
    pub(crate) fn time_of(&self, start: i64) -> i64 {
        start.saturating_add(self.offset())
    }

    /// Rows of earlier times than `t` count no more.
    pub(crate) fn advance(&mut self, t: i64) {
        self.promise(t.saturating_sub(self.offset()));
    }

    pub(crate) fn promise(&mut self, start: i64) {
        self.promised = self.promised.max(start);
    }

    /// No row that changes something before this counts, but for revisions.
    pub(crate) fn watermark(&self) -> i64 {
        self.watermark_at(self.high)
    }

    fn watermark_at(&self, high: i64) -> i64 {
        let by_rows = match high {
            i64::MIN => i64::MIN,
            high => high.saturating_sub(self.options.lateness),
        };
        by_rows.max(self.promised)
    }

    /// How far behind the watermark rows count nevertheless.
    pub(crate) fn horizon(&self) -> i64 {
        match self.options.policy {
            Policy::Revise { horizon } => horizon,
            _ => 0,
        }
    }

    /// Takes the rows of a batch, or none of them. The earliest start of their events, if there are any.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<Option<i64>, SessionError> {
        let raw = self.reader.read(batch);
        let raw = raw.map_err(|source| self.data(source))?;
        self.check_schema(&raw)
            .inspect_err(|_| self.reader.forget())?;
        let (grids, keys) = self.check_grids(&raw)?;
        if self.fields.is_none() {
            let fields = raw.columns.iter().map(|c| Arc::clone(c.field()));
            self.know(fields.collect(), raw.time);
        }
        let first = raw.events.iter().map(|event| event.start).min();
        if first.is_none() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = raw.columns.into_iter().map(Column::into_array).collect();
        self.row_bytes = self
            .row_bytes
            .max(bytes(columns.iter()).div_ceil(raw.events.len()));
        if self.is_in_order(&raw.events) {
            self.take_in_order(raw.events, columns);
        } else {
            self.take_in_turn(&raw.events, columns, (&grids, keys.as_ref()))?;
        }
        self.grids.add(grids);
        self.is_idle = false;
        Ok(first)
    }

    /// The columns of values and of times are known.
    pub(crate) fn know(&mut self, fields: Vec<FieldRef>, time: TimeColumns) {
        let key = self.input.key.as_ref();
        let is_key = |field: &FieldRef| Some(field.name()) == key;
        self.queue.key = fields.iter().position(is_key);
        (self.fields, self.time) = (Some(fields), Some(time));
    }

    /// Whether rows that have come follow all others, so that none is late.
    fn is_in_order(&self, events: &[Span]) -> bool {
        let from = self.watermark().max(self.high);
        self.queue.is_in_order()
            && events.first().is_some_and(|event| event.start >= from)
            && events.is_sorted_by_key(|event| event.start)
    }

    /// Takes rows that follow all others, at least one.
    fn take_in_order(&mut self, events: Vec<Span>, columns: Vec<ArrayRef>) {
        let (rows, seq) = (events.len() as u64, self.seq);
        self.seq += rows;
        self.counts.accepted += rows;
        self.high = events.last().map_or(self.high, |event| event.start);
        self.queue.runs.push_back(Run {
            seq,
            events: Events::Listed(events),
            chunk: Arc::new(columns),
            place: 0,
        });
    }

    /// Takes rows one after the other, each of which may be late. Given are grids that begin with them, and their keys if there are grids.
    fn take_in_turn(
        &mut self,
        events: &[Span],
        columns: Vec<ArrayRef>,
        (grids, keys_of_grids): (&Grids, Option<&Rows>),
    ) -> Result<(), SessionError> {
        let edges = self.options.edges;
        let keys = match &self.input.key {
            Some(key) if self.queue.has_keys() => {
                let mut columns = self.fields.iter().flatten().zip(&columns);
                let column = columns.find(|(field, _)| field.name() == key);
                let key = column.map(|(_, array)| as_bytes(std::slice::from_ref(array)));
                key.transpose()?
            }
            _ => None,
        };
        let values = edges.then(|| as_bytes(&columns)).transpose()?;
        let grid = |row: usize| -> Option<i64> {
            let key = keys_of_grids.map(|keys| keys.row(row));
            let key = key.as_ref().map(AsRef::as_ref);
            self.grids.first(key).or_else(|| grids.first(key))
        };
        let chunk = Arc::new(columns);

        // All or nothing: what the batch does is found first.
        let (mut high, mut seq) = (self.high, self.seq);
        let mut begun = edges.then(|| self.edges.clone());
        let mut counts = self.counts;
        let (mut pending, mut late) = (Vec::new(), Vec::new());
        let mut runs: Vec<Run> = Vec::new();
        for (number, event) in events.iter().copied().enumerate() {
            let values = values.as_ref().map(|values| values.row(number));
            let values = values.as_ref().map_or(&[][..], |row| row.as_ref());
            let mut row = Row {
                at: event.start,
                seq,
                event,
                closes: None,
                key: keys.as_ref().map(|keys| keys.row(number).as_ref().into()),
                chunk: Arc::clone(&chunk),
                place: number,
            };
            let ended = begun
                .as_ref()
                .filter(|_| event.end != OPEN)
                .and_then(|begun| begun.find(event.start, values));
            if let Some(ended) = ended {
                row.event.start = ended.start;
                (row.at, row.closes) = (event.end, Some(ended.seq));
            }
            let watermark = self.watermark_at(high);
            let by = watermark.saturating_sub(row.at);
            let given = Row {
                event,
                ..row.clone()
            };
            if by > 0 {
                match self.options.policy {
                    Policy::Raise => {
                        return Err(SessionError::Late {
                            input: self.input.name.clone(),
                            row: number,
                            time: self.time_of(row.at),
                            watermark: self.time_of(watermark),
                            by,
                        });
                    }
                    Policy::Revise { horizon } if by <= horizon => counts.revised += 1,
                    Policy::Adjust if self.move_to(&mut row, watermark, grid(number)) => {
                        let is_open = ended.is_none() || row.event.start < row.event.end;
                        counts.adjusted += u64::from(is_open);
                        let fate = Fate::Adjusted;
                        let row = given.clone();
                        late.extend(is_open.then_some(LateRow { row, fate, by }));
                    }
                    Policy::Drop | Policy::Adjust | Policy::Revise { .. } => {
                        let (row, fate) = (given, Fate::Dropped);
                        late.push(LateRow { row, fate, by });
                        counts.dropped += 1;
                        continue;
                    }
                }
            }
            // Its start was moved, and nothing is left of the event, which it ends nevertheless.
            let is_empty = ended.is_some() && row.event.start >= row.event.end;
            if is_empty {
                let (row, fate) = (given, Fate::Dropped);
                late.push(LateRow { row, fate, by });
            }
            if let Some(begun) = &mut begun {
                if ended.is_some() {
                    begun.end(event.start, values);
                } else if event.end == OPEN {
                    let start = row.event.start;
                    begun.begin(event.start, values, Begun { seq, start });
                }
            }
            let is_moved = by > 0 && self.options.policy == Policy::Adjust;
            let follows = self.queue.is_in_order() && row.at >= high && !is_moved;
            // What was moved tells nothing about what is still to come.
            if !is_moved {
                high = high.max(row.at);
            }
            counts.accepted += u64::from(!is_empty);
            counts.dropped += u64::from(is_empty);
            seq += 1;
            if !follows {
                pending.push(row);
            } else if !runs.last_mut().is_some_and(|run| run.append(&row)) {
                runs.push(Run {
                    seq: row.seq,
                    events: Events::Listed(vec![row.event]),
                    chunk: row.chunk,
                    place: row.place,
                });
            }
        }
        apart(&mut late)?;
        (self.high, self.seq, self.counts) = (high, seq, counts);
        self.edges = begun.unwrap_or_default();
        self.queue.runs.extend(runs);
        self.queue.pending.extend(pending.into_iter().map(Reverse));
        for late in late {
            let may_yield = late.fate == Fate::Adjusted && self.queue.are_exclusive;
            if may_yield {
                self.late.wait(late);
            } else {
                self.late.push(late);
            }
        }
        Ok(())
    }

    /// Lets all rows that have not gone on to the run wait in the same way.
    pub(crate) fn hold_back(&mut self) -> Result<(), SessionError> {
        self.queue.list_last()?;
        for run in std::mem::take(&mut self.queue.runs) {
            let keys = self.queue.keys_of(&run)?;
            let rows = run.rows().enumerate().map(|(number, mut row)| {
                row.key = keys.as_ref().map(|keys| keys.row(number).as_ref().into());
                Reverse(row)
            });
            self.queue.pending.extend(rows);
        }
        Ok(())
    }

    /// Moves a late row to the watermark, and on to its grid if it has one, which begins with `first`; `false` if nothing is left of it.
    fn move_to(&self, row: &mut Row, watermark: i64, first: Option<i64>) -> bool {
        row.at = watermark;
        if row.closes.is_some() {
            row.event.end = watermark;
            return true;
        }
        let length = row.event.end.saturating_sub(row.event.start);
        match self.input.span {
            SpanRule::Interval | SpanRule::UntilNext => row.event.start = watermark,
            SpanRule::Point | SpanRule::Fixed(_) => {
                let time = self.time_of(watermark);
                let time = match (self.input.period, first) {
                    (Some(period), Some(first)) => next_on(first, period, time),
                    _ => Some(time),
                };
                // As far as times go.
                let Some(time) = time.filter(|time| *time <= TIME_LIMIT) else {
                    return false;
                };
                let start = time - self.offset();
                row.event = Span::new(start, start.saturating_add(length));
            }
        }
        row.at = row.event.start;
        if self.queue.are_exclusive {
            // The end of an interval is passed once nothing else can begin in it.
            let last = match self.input.span {
                SpanRule::Interval => row.event.end,
                _ => row.event.start,
            };
            row.at = last.saturating_add(1);
        }
        row.event.start < row.event.end
    }

    /// It is known what becomes of some rows that were moved.
    pub(crate) fn decide(&mut self, settled: &Settled) {
        for seq in &settled.moved {
            self.late.decide(*seq, Fate::Adjusted);
        }
        let yielded = settled.left_out.iter().filter(|(row, _)| row.yields());
        for (row, _) in yielded {
            self.counts.accepted -= 1;
            self.counts.adjusted -= 1;
            self.counts.dropped += 1;
            self.late.decide(row.seq, Fate::Dropped);
        }
    }

    /// No row comes any more that may need the place of one that was moved: it is known what becomes of all of them.
    pub(crate) fn decide_all(&mut self) -> Result<(), SessionError> {
        let decided = self.queue.decide_all()?;
        self.decide(&Settled {
            left_out: decided.overlapping,
            moved: decided.moved,
        });
        Ok(())
    }

    /// Late rows that nobody has taken yet.
    pub(crate) fn take_late(&mut self, unit: Unit) -> Result<Option<RecordBatch>, ArrowError> {
        self.late
            .take(unit, self.fields.as_deref().unwrap_or_default())
    }

    pub(crate) fn data(&self, source: DataError) -> SessionError {
        SessionError::Data {
            input: self.input.name.clone(),
            source: Box::new(source),
        }
    }

    /// Fails if a column has another type than before.
    fn check_schema(&self, raw: &RawRows) -> Result<(), SessionError> {
        let differs = |column: &str, found: &arrow_schema::DataType, expected| {
            Err(SessionError::Schema {
                input: self.input.name.clone(),
                column: column.to_owned(),
                found: found.clone(),
                expected,
            })
        };
        for (column, field) in raw.columns.iter().zip(self.fields.iter().flatten()) {
            let found = column.array().data_type();
            if found != field.data_type() {
                return differs(column.name(), found, field.data_type().clone());
            }
        }
        let time = self.time.as_ref();
        for (now, before) in [
            (raw.time.start(), time.map(TimeColumns::start)),
            (raw.time.end(), time.map(TimeColumns::end)),
        ] {
            if let Some(before) = before
                && now.data_type() != before.data_type()
            {
                return differs(now.name(), now.data_type(), before.data_type().clone());
            }
        }
        Ok(())
    }

    /// Fails if a stamp is off its grid. The grids that begin with these rows, and their keys.
    fn check_grids(&self, raw: &RawRows) -> Result<(Grids, Option<Rows>), SessionError> {
        let Some(period) = self.input.period else {
            return Ok((Grids::default(), None));
        };
        let key = self.input.key.as_ref();
        let key = key.and_then(|key| raw.columns.iter().find(|column| column.name() == key));
        let keys = key.map(|key| as_bytes(std::slice::from_ref(key.array())));
        let keys = keys.transpose()?;
        let stamps = raw.events.iter().map(|event| self.time_of(event.start));
        let found = self.grids.check(stamps, keys.as_ref(), period);
        let found = found.map_err(|Off { row, value, first }| {
            self.data(DataError::OffGrid {
                column: raw.time.end().name().to_owned(),
                row,
                value,
                first,
                period,
                unit: self.unit,
            })
        })?;
        Ok((found, keys))
    }

    /// Gives the run what is released up to `until`, before which nothing changes any more, from this queue or a copy of it. The run has the input
    /// by its number. What was left out, and what of moved rows was not, is given back.
    pub(crate) fn settle(
        &self,
        queue: &mut Queue,
        until: i64,
        (number, live): (usize, &mut Live),
    ) -> Result<Settled, SessionError> {
        let name = &self.input.name;
        let released = queue.release(until)?;
        self.give(&released.runs, number, live)?;
        let mixed = &released.mixed;
        if !mixed.events.is_empty() {
            live.push(name, &self.buffer_of(&mixed.events, mixed.columns()?)?)?;
        }
        // The first time also without rows: they tell the columns.
        let is_new = self.fields.is_some() && live.until() == i64::MIN;
        if is_new || !released.ended.is_empty() {
            live.push(name, &self.buffer(&released.ended)?)?;
        }
        if !queue.is_in_order() && self.fields.is_some() {
            let mut begun: Vec<Row> = queue.begun.values().cloned().collect();
            // A row that tells an end at the watermark may still come, but it can tell no other.
            if queue.disjoint != Disjoint::None {
                end_open(begun.iter_mut(), i64::MAX);
            }
            begun.sort_by_key(|row| (row.event.end, row.seq));
            live.begun(name, &self.buffer(&begun)?)?;
        }
        // What may still be left out is no event yet, and may be one.
        let until = queue.undecided().fold(until, i64::min);
        if until > i64::MIN {
            live.advance(name, until)?;
        }
        Ok(Settled {
            left_out: released.overlapping,
            moved: released.moved,
        })
    }

    /// Gives the run rows that follow each other: each run of them as it is where it can be appended to those before, otherwise several together.
    fn give(&self, runs: &[Run], number: usize, live: &mut Live) -> Result<(), SessionError> {
        let mut left = runs;
        while let Some(first) = left.first() {
            if first.append_to(live, number) {
                left = &left[1..];
                continue;
            }
            let mut rows = 0;
            let some = left.iter().take_while(|run| {
                let are_few = rows < TOGETHER;
                rows += run.events.len();
                are_few
            });
            let (these, others) = left.split_at(some.count());
            live.push(&self.input.name, &self.buffer_of_runs(these)?)?;
            left = others;
        }
        Ok(())
    }

    /// Rows that follow each other, at least one, as the query reads them.
    fn buffer_of_runs(&self, runs: &[Run]) -> Result<SnapshotBuffer, SessionError> {
        if let ([run], Some(none)) = (runs, self.none.get())
            && let Events::Read(timeline) = &run.events
        {
            let rows = none.with_rows(timeline.clone(), run.columns().collect(), None);
            return rows.map_err(|source| self.data(source));
        }
        let events: Vec<Span> = runs.iter().flat_map(|run| run.events.iter()).collect();
        self.buffer_of(&events, joined(runs)?)
    }

    /// Rows, in order of end, as the query reads them.
    pub(crate) fn buffer(&self, rows: &[Row]) -> Result<SnapshotBuffer, SessionError> {
        let events: Vec<Span> = rows.iter().map(|row| row.event).collect();
        let values = if rows.is_empty() {
            let fields = self.fields.iter().flatten();
            let empty = fields.map(|f| arrow_array::new_empty_array(f.data_type()));
            empty.collect()
        } else {
            gather(rows.iter())?
        };
        self.buffer_of(&events, values)
    }

    /// Where the first event ends, and the period, if there is one that events keep.
    fn regular(&self, events: &[Span]) -> Option<(i64, i64)> {
        let (first, period) = (events.first()?, self.input.period?);
        let steps = events.windows(2).map(|w| w[1].end.checked_sub(w[0].end));
        let mut others = steps.filter(|step| *step != Some(period));
        others.next().is_none().then_some((first.end, period))
    }

    /// Events and their values as the query reads them.
    pub(crate) fn buffer_of(
        &self,
        events: &[Span],
        values: Vec<ArrayRef>,
    ) -> Result<SnapshotBuffer, SessionError> {
        let ends = || events.iter().map(|event| event.end);
        let timeline = match self.input.span {
            SpanRule::Point => Timeline::explicit(ends().collect(), Spans::Fixed(1)),
            SpanRule::Fixed(d) => match self.regular(events) {
                Some((t0, period)) => Timeline::regular(t0, period, events.len(), Spans::Fixed(d)),
                None => Timeline::explicit(ends().collect(), Spans::Fixed(d)),
            },
            SpanRule::UntilNext if self.input.key.is_none() => {
                let stamps = events.iter().map(|event| event.start + 1);
                Timeline::explicit(stamps.collect(), Spans::UntilNext { next: OPEN })
            }
            SpanRule::UntilNext | SpanRule::Interval => {
                let starts = events.iter().map(|event| event.start);
                Timeline::intervals(starts.collect(), ends().collect())
            }
        };
        if let Some(none) = self.none.get() {
            let rows = none.with_rows(timeline, values, None);
            return rows.map_err(|source| self.data(source));
        }
        let fields = self.fields.iter().flatten();
        let mut columns = fields
            .zip(values)
            .map(|(field, array)| Column::new(field.name(), array));
        let buffer = match &self.input.dtype {
            DType::Record(_) => {
                SnapshotBuffer::record(timeline, columns.collect(), None, self.unit)
            }
            _ => match columns.next() {
                Some(column) => SnapshotBuffer::scalar(timeline, column, self.unit),
                None => SnapshotBuffer::record(timeline, Vec::new(), None, self.unit),
            },
        };
        let buffer = buffer.map_err(|source| self.data(source))?;
        let Some(time) = &self.time else {
            return Ok(buffer);
        };
        let buffer = buffer.with_time_columns(time.clone());
        self.none.get_or_init(|| buffer.slice(0, 0));
        Ok(buffer)
    }
}
