//! An input while its chunks arrive.

use std::{collections::VecDeque, error::Error as StdError, ops::Range};

use arrow_array::{Array, new_empty_array};
use tilt_data::{Column, SnapshotBuffer, Spans, Timeline, dtype::to_arrow};
use tilt_interp::{DataError, RunError, check_buffer};
use tilt_ir::{DType, Halo, Input, OPEN, Overlap, Program, Reach, Span, SpanRule};

use crate::error::Error;

/// An input that arrives chunk by chunk, and what is held of it.
pub(super) struct Arriving<I> {
    pub(super) name: String,
    /// `None` if the output does not depend on it.
    pub(super) halo: Option<Halo>,
    chunks: I,
    pub(super) is_exhausted: bool,
    /// Rows that were put together, and those that have come since.
    held: SnapshotBuffer,
    fresh: Vec<SnapshotBuffer>,
    fresh_rows: usize,
    /// No row that is still to come starts before this.
    covered: i64,
    /// Of all events that have come, but for one that is open.
    pub(super) hull: Option<Span>,
    /// Where the last event started, if it is open.
    open: Option<i64>,
    /// Whether events start in the order in which they end.
    is_in_order: bool,
    /// The last event.
    last: Option<Span>,
    /// The ends of the last events, as many as the lookahead counts and two more.
    tail: VecDeque<i64>,
    /// How many rows have come.
    rows: usize,
    /// The widest rows so far.
    row_bytes: usize,
    /// Rows that end so long before what is needed are held too, to find rows of a key that overlap.
    slack: i64,
}

impl<I, E> Arriving<I>
where
    I: Iterator<Item = Result<SnapshotBuffer, E>>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Takes the next chunk that there is, if any.
    pub(super) fn pull(&mut self, program: &Program, span: Option<Span>) -> Result<(), Error> {
        match self.chunks.next() {
            None => {
                self.is_exhausted = true;
                let open = self.open.take();
                self.widen(open.map(|start| Span::new(start, start + 1)));
            }
            Some(Ok(chunk)) => self.push(program, span, chunk)?,
            Some(Err(error)) => {
                return Err(Error::Source {
                    input: self.name.clone(),
                    source: error.into(),
                });
            }
        }
        Ok(())
    }
}

impl<I> Arriving<I> {
    pub(super) fn new(program: &Program, input: &Input, halo: Option<Halo>, chunks: I) -> Self {
        Self {
            name: input.name.clone(),
            halo,
            chunks,
            is_exhausted: false,
            held: nothing(program, input),
            fresh: Vec::new(),
            fresh_rows: 0,
            covered: i64::MIN,
            hull: None,
            open: None,
            is_in_order: is_in_order(input),
            last: None,
            tail: VecDeque::new(),
            rows: 0,
            row_bytes: 1,
            slack: match input.span {
                SpanRule::Fixed(length) if input.key.is_some() => length,
                _ => 0,
            },
        }
    }

    fn push(
        &mut self,
        program: &Program,
        span: Option<Span>,
        chunk: SnapshotBuffer,
    ) -> Result<(), Error> {
        let declared = program.inputs().find(|(_, input)| input.name == self.name);
        let Some((_, input)) = declared else {
            return Ok(());
        };
        check_buffer(program, input, &chunk).map_err(RunError::Buffer)?;
        if chunk.is_empty() {
            return Ok(());
        }
        self.check_events(input, &chunk, span)?;
        self.see(&chunk);
        let last = chunk.positions().next_back();
        self.last = last.map(|row| chunk.event(row)).or(self.last);
        self.covered = self.covered.max(covered(input, &chunk, self.last));
        self.rows += chunk.len();
        let Some(halo) = self.halo else {
            return Ok(());
        };
        if let Reach::Bounded { events, .. } = halo.lookahead
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
        self.row_bytes = self.row_bytes.max(bytes(&chunk).div_ceil(chunk.len()));
        self.fresh_rows += chunk.len();
        self.fresh.push(chunk);
        Ok(())
    }

    /// Adds the events of a chunk to the hull. Whether a last event that is open exists at all depends on the next row, which may replace it.
    fn see(&mut self, chunk: &SnapshotBuffer) {
        let timeline = chunk.timeline();
        let (first, last) = (timeline.event(0), timeline.event(timeline.len() - 1));
        if let Some(start) = self.open.take()
            && start < first.start
        {
            self.widen(Some(Span::new(start, first.start)));
        }
        if last.end == OPEN {
            self.widen(chunk.slice(0, chunk.len() - 1).hull());
            self.open = chunk.is_event(chunk.len() - 1).then_some(last.start);
        } else {
            self.widen(chunk.hull());
        }
    }

    fn widen(&mut self, by: Option<Span>) {
        let hulls = self.hull.into_iter().chain(by);
        self.hull = hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)));
    }

    /// Whether no event that is still to come starts before those that have come.
    pub(super) fn knows_start(&self) -> bool {
        self.is_exhausted || self.is_in_order && self.hull.is_some()
    }

    /// Fails if a chunk does not follow the one before, or does not keep what the input promises.
    fn check_events(
        &self,
        input: &Input,
        chunk: &SnapshotBuffer,
        span: Option<Span>,
    ) -> Result<(), Error> {
        let promises = input.overlap == Overlap::Disjoint && input.key.is_none();
        let mut previous = self.last;
        let checks_all = promises && chunk.is_bag() || span.is_some();
        let rows = chunk
            .positions()
            .take(if checks_all { usize::MAX } else { 1 });
        for row in rows {
            let event = chunk.event(row);
            let (stream, at) = (self.name.clone(), self.rows + row);
            // An event whose end was not known lasts until the next.
            let before = previous.filter(|before| before.end != OPEN);
            if let Some(before) = before
                && event.end < before.end
            {
                let (end, previous) = (event.end, before.end);
                return Err(data(DataError::Unsorted {
                    stream,
                    row: at,
                    end,
                    previous,
                }));
            }
            if let Some(previous) = before
                && promises
                && event.start < previous.end
            {
                return Err(data(DataError::Overlap {
                    stream,
                    row: at,
                    event,
                    previous,
                }));
            }
            if let Some(span) = span {
                let end = if event.end == OPEN {
                    event.start + 1
                } else {
                    event.end
                };
                if event.start < span.start || end > span.end {
                    return Err(data(DataError::OutsideSpan {
                        stream,
                        row: at,
                        event,
                        span,
                    }));
                }
            }
            previous = Some(event);
        }
        Ok(())
    }

    /// How far the output may be asked for, as far as this input is concerned; about, if events are counted.
    pub(super) fn frontier(&self) -> i64 {
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
            self.covered
        } else if self.tail.len() as u64 >= events.saturating_add(2) {
            self.tail[0]
        } else {
            i64::MIN
        };
        from.saturating_sub(ticks)
    }

    /// Rows that have come since the last part.
    pub(super) fn fresh_rows(&self) -> usize {
        self.fresh_rows
    }

    /// Rows that are held.
    pub(super) fn held_rows(&self) -> usize {
        self.held.len() + self.fresh.iter().map(SnapshotBuffer::len).sum::<usize>()
    }

    /// The bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Puts all rows that are held together.
    pub(super) fn join(&mut self) -> Result<(), Error> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let mut chunks = std::mem::take(&mut self.fresh);
        if !self.held.is_empty() {
            chunks.insert(0, self.held.clone());
        }
        self.held = SnapshotBuffer::concat(&chunks).map_err(|error| Error::Source {
            input: self.name.clone(),
            source: error.into(),
        })?;
        Ok(())
    }

    /// All rows that were put together.
    pub(super) fn held(&self) -> &SnapshotBuffer {
        &self.held
    }

    /// Whether what the output up to an instant depends on has come. `latest` bounds the ends of events that may matter already; events that are still
    /// open count for that if `needs_ends` says so.
    pub(super) fn covers(&self, until: i64, latest: i64, needs_ends: bool) -> bool {
        let Some(halo) = self.halo else { return true };
        let len = self.held.len();
        let end = self
            .held
            .cut_rows(Span::new(until, until), Reach::NONE, halo.lookahead)
            .end;
        let timeline = self.held.timeline();
        let is_open = |row: usize| timeline.end(row) == OPEN && !needs_ends;
        let visible = timeline.ends_until(latest);
        let are_visible = end <= visible || end == visible + 1 && is_open(visible);
        if !are_visible {
            return false;
        }
        match halo.lookahead {
            _ if self.is_exhausted => true,
            Reach::Bounded { ticks, events: 0 } => until.saturating_add(ticks) <= self.covered,
            Reach::Bounded { .. } => end < len,
            Reach::Unbounded => false,
        }
    }

    /// The rows that a part of the output depends on.
    pub(super) fn cut(&self, part: Span) -> SnapshotBuffer {
        let Some(halo) = self.halo else {
            return self.held.clone();
        };
        let rows = self.held.cut_rows(part, halo.lookback, halo.lookahead);
        let first = self.first_kept(part.start).min(rows.start);
        self.held.slice(first, rows.end - first)
    }

    /// Rows that nothing after `until` depends on are dropped.
    pub(super) fn forget(&mut self, until: i64) {
        let first = self.first_kept(until);
        self.held = self.held.slice(first, self.held.len() - first);
        let kept = self.held.timeline().ends_until(until);
        self.fresh_rows = self.held.len() - kept;
    }

    fn first_kept(&self, until: i64) -> usize {
        let lookback = self.halo.map_or(Reach::NONE, |halo| halo.lookback);
        let from = until.saturating_sub(self.slack);
        let rows: Range<usize> =
            self.held
                .cut_rows(Span::new(from, i64::MAX), lookback, Reach::Unbounded);
        rows.start
    }
}

fn data(error: DataError) -> Error {
    Error::Run(error.into())
}

/// Whether events of an input start in the order in which they end.
pub(super) fn is_in_order(input: &Input) -> bool {
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
        let data = column.array().to_data();
        data.get_slice_memory_size().unwrap_or(0)
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
