//! An input of a session: what is late, and what goes on to the run.

use std::{cmp::Reverse, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::FieldRef;
use tilt_data::{
    Column, DataError, RawRows, SnapshotBuffer, Spans, TimeColumns, Timeline, read_rows,
};
use tilt_exec::Live;
use tilt_ir::{DType, Input, OPEN, Span, SpanRule, Unit};

use crate::{
    edges::{Begun, Edges, as_bytes},
    error::SessionError,
    late::{Fate, LateRow, LateRows},
    options::{InputOptions, Policy},
    queue::{Ends, Queue, Ready, end_open},
    row::{Row, gather},
    status::Counts,
};

fn bytes(columns: &[ArrayRef]) -> usize {
    columns.iter().map(Array::get_array_memory_size).sum()
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
    /// The first stamp, where stamps are a whole number of periods from it.
    pub(crate) grid: Option<i64>,
    pub(crate) counts: Counts,
    pub(crate) late: LateRows,
    /// Bytes of a row, about.
    pub(crate) row_bytes: usize,
    /// Whether rows that the watermark has passed go on to the run without waiting.
    pub(crate) is_direct: bool,
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
            grid: None,
            counts: Counts::default(),
            late: LateRows::default(),
            row_bytes: 0,
            is_direct: false,
        })
    }

    /// By how much the time of a row is after the start of its event.
    fn offset(&self) -> i64 {
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

    /// Takes the rows of a batch, or none of them.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<(), SessionError> {
        let (unit, edges) = (self.unit, self.options.edges);
        let raw = read_rows(batch, &self.input, unit, &self.options.ingress, edges);
        let raw = raw.map_err(|source| self.data(source))?;
        self.check_schema(&raw)?;
        let grid = self.check_grid(&raw)?;
        let fields = raw.columns.iter().map(|c| Arc::clone(c.field()));
        if raw.events.is_empty() {
            self.fields.get_or_insert_with(|| fields.collect());
            self.time.get_or_insert(raw.time);
            return Ok(());
        }
        let columns: Vec<ArrayRef> = raw.columns.iter().map(|c| c.array().clone()).collect();
        self.row_bytes = self
            .row_bytes
            .max(bytes(&columns).div_ceil(raw.events.len()));
        if self.is_in_order(&raw.events) {
            self.fields.get_or_insert_with(|| fields.collect());
            self.time.get_or_insert(raw.time);
            self.grid = grid;
            self.take_in_order(raw.events, columns);
            return Ok(());
        }
        let keys = match (self.queue.ends, &self.input.key) {
            (Ends::WithKey, Some(key)) => {
                let column = raw.columns.iter().find(|column| column.name() == key);
                let key = column.map(|c| as_bytes(std::slice::from_ref(c.array())));
                key.transpose()?
            }
            (Ends::Apart, _) if edges => Some(as_bytes(&columns)?),
            _ => None,
        };
        let chunk = Arc::new(columns);

        // All or nothing: what the batch does is found first.
        let (mut high, mut seq) = (self.high, self.seq);
        let mut begun = edges.then(|| self.edges.clone());
        let mut counts = self.counts;
        let (mut taken, mut late) = (Vec::with_capacity(raw.events.len()), Vec::new());
        for (number, event) in raw.events.iter().copied().enumerate() {
            let bytes = keys.as_ref().map(|keys| keys.row(number));
            let values = bytes.as_ref().map_or(&[][..], |row| row.as_ref());
            let mut row = Row {
                at: event.start,
                seq,
                event,
                closes: None,
                key: None,
                chunk: Arc::clone(&chunk),
                place: number,
            };
            if self.queue.ends == Ends::WithKey {
                row.key = Some(values.into());
            }
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
            if by > 0 {
                let given = Row {
                    event,
                    ..row.clone()
                };
                let becomes = |fate| {
                    late.push(LateRow {
                        row: given,
                        fate,
                        by,
                    });
                };
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
                    Policy::Adjust if self.adjust(&mut row, watermark) => {
                        becomes(Fate::Adjusted);
                        counts.adjusted += 1;
                    }
                    Policy::Drop | Policy::Adjust | Policy::Revise { .. } => {
                        becomes(Fate::Dropped);
                        counts.dropped += 1;
                        continue;
                    }
                }
            }
            if let Some(begun) = &mut begun {
                if ended.is_some() {
                    begun.end(event.start, values);
                } else if event.end == OPEN {
                    let start = row.event.start;
                    begun.begin(event.start, values, Begun { seq, start });
                }
            }
            high = high.max(row.at);
            counts.accepted += 1;
            seq += 1;
            taken.push(row);
        }
        (self.high, self.seq, self.counts) = (high, seq, counts);
        self.edges = begun.unwrap_or_default();
        self.grid = grid;
        self.queue.pending.extend(taken.into_iter().map(Reverse));
        for late in late {
            self.late.push(late);
        }
        self.is_idle = false;
        self.fields.get_or_insert_with(|| fields.collect());
        self.time.get_or_insert(raw.time);
        Ok(())
    }

    /// Whether rows that have come follow all others, so that none is late and none overlaps.
    fn is_in_order(&self, events: &[Span]) -> bool {
        let queue = &self.queue;
        if !self.is_direct || !queue.is_in_order() || !queue.pending.is_empty() {
            return false;
        }
        let mut from = self.watermark().max(self.high);
        if queue.is_disjoint {
            let ready = queue.ready.last().and_then(|ready| ready.events.last());
            from = from.max(ready.map_or(queue.last_end, |event| event.end));
        }
        events.iter().all(|event| {
            let follows = event.start >= from;
            from = if queue.is_disjoint {
                event.end
            } else {
                event.start
            };
            follows
        })
    }

    /// Takes rows that follow all others, at least one.
    fn take_in_order(&mut self, mut events: Vec<Span>, columns: Vec<ArrayRef>) {
        let Some(last) = events.last().copied() else {
            return;
        };
        let seq = self.seq;
        self.seq += events.len() as u64;
        self.counts.accepted += events.len() as u64;
        self.high = last.start;
        self.is_idle = false;
        let watermark = self.watermark();
        let passed = events.partition_point(|event| event.start <= watermark);
        let waiting = events.split_off(passed);
        let chunk = Arc::new(columns);
        let number = |(i, event): (usize, Span)| Row {
            at: event.start,
            seq: seq + (passed + i) as u64,
            event,
            closes: None,
            key: None,
            chunk: Arc::clone(&chunk),
            place: passed + i,
        };
        let waiting = waiting.into_iter().enumerate().map(number);
        self.queue.pending.extend(waiting.map(Reverse));
        if !events.is_empty() {
            let columns = chunk.iter().map(|column| column.slice(0, passed));
            self.queue.ready.push(Ready {
                seq,
                columns: columns.collect(),
                events,
            });
        }
    }

    /// Lets all rows that have not gone on to the run wait in the same way.
    pub(crate) fn hold_back(&mut self) {
        for ready in std::mem::take(&mut self.queue.ready) {
            let chunk = Arc::new(ready.columns);
            let number = |(place, event): (usize, Span)| Row {
                at: event.start,
                seq: ready.seq + place as u64,
                event,
                closes: None,
                key: None,
                chunk: Arc::clone(&chunk),
                place,
            };
            let rows = ready.events.into_iter().enumerate().map(number);
            self.queue.pending.extend(rows.map(Reverse));
        }
    }

    /// Moves a late row to the watermark; `false` if nothing is left of it.
    fn adjust(&self, row: &mut Row, watermark: i64) -> bool {
        row.at = watermark;
        if row.closes.is_some() {
            row.event.end = watermark;
            return true;
        }
        let length = row.event.end.saturating_sub(row.event.start);
        match self.input.span {
            SpanRule::Interval => row.event.start = watermark,
            SpanRule::UntilNext => row.event.start = watermark,
            SpanRule::Point | SpanRule::Fixed(_) => {
                row.event = Span::new(watermark, watermark.saturating_add(length));
            }
        }
        row.event.start < row.event.end
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

    /// Fails if a stamp is off the declared grid. Where the grid begins.
    fn check_grid(&self, raw: &RawRows) -> Result<Option<i64>, SessionError> {
        let Some(period) = self.input.period else {
            return Ok(None);
        };
        let mut first = self.grid;
        for (row, event) in raw.events.iter().enumerate() {
            let value = self.time_of(event.start);
            let first = *first.get_or_insert(value);
            let distance = i128::from(value) - i128::from(first);
            if distance % i128::from(period) != 0 {
                return Err(self.data(DataError::OffGrid {
                    column: raw.time.end().name().to_owned(),
                    row,
                    value,
                    first,
                    period,
                    unit: self.unit,
                }));
            }
        }
        Ok(first)
    }

    /// Gives the run what is released up to `until`, before which nothing changes any more, from this queue or a copy of it. Rows that overlap are given back.
    pub(crate) fn settle(
        &self,
        queue: &mut Queue,
        until: i64,
        live: &mut Live,
    ) -> Result<Vec<Row>, SessionError> {
        let name = &self.input.name;
        for ready in std::mem::take(&mut queue.ready) {
            if let Some(last) = ready.events.last().filter(|_| queue.is_disjoint) {
                queue.last_end = last.end;
            }
            live.push(name, &self.buffer_of(&ready.events, ready.columns)?)?;
        }
        let released = queue.release(until);
        // The first time also without rows: they tell the columns.
        let is_new = self.fields.is_some() && live.until() == i64::MIN;
        if is_new || !released.ended.is_empty() {
            live.push(name, &self.buffer(&released.ended)?)?;
        }
        if !queue.is_in_order() && self.fields.is_some() {
            let mut begun: Vec<Row> = queue.begun.values().cloned().collect();
            // A row that tells an end at the watermark may still come, but it can tell no other.
            if queue.is_disjoint {
                end_open(begun.iter_mut(), i64::MAX);
            }
            begun.sort_by_key(|row| (row.event.end, row.seq));
            live.begun(name, &self.buffer(&begun)?)?;
        }
        if until > i64::MIN {
            live.advance(name, until)?;
        }
        Ok(released.overlapping)
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

    /// Events and their values as the query reads them.
    pub(crate) fn buffer_of(
        &self,
        events: &[Span],
        values: Vec<ArrayRef>,
    ) -> Result<SnapshotBuffer, SessionError> {
        let ends = || events.iter().map(|event| event.end);
        let timeline = match self.input.span {
            SpanRule::Point => Timeline::explicit(ends().collect(), Spans::Fixed(1)),
            SpanRule::Fixed(d) => Timeline::explicit(ends().collect(), Spans::Fixed(d)),
            SpanRule::UntilNext if self.input.key.is_none() => {
                let stamps = events.iter().map(|event| event.start + 1);
                Timeline::explicit(stamps.collect(), Spans::UntilNext { next: OPEN })
            }
            SpanRule::UntilNext | SpanRule::Interval => {
                let starts = events.iter().map(|event| event.start);
                Timeline::intervals(starts.collect(), ends().collect())
            }
        };
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
        Ok(match &self.time {
            Some(time) => buffer.with_time_columns(time.clone()),
            None => buffer,
        })
    }
}
