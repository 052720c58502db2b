//! What keeps the cells of a clock finite: ranges outside of which a stream is φ, from the run's span and the program alone,
//! and the reads that give a clock cells outside the run.

use std::collections::HashSet;

use tilt_ir::{Bounds, Clock, Expr, ExprId, Id, Program, Source, Span, Stream, StreamId, Temporal};

use crate::{
    cells::Cells,
    timeline::{Series, Streams},
};

/// The ranges of the streams of a run: bounds for a search, never part of the meaning.
pub(crate) struct Ranges(Vec<Option<Span>>);

impl Ranges {
    /// The ranges of the streams `needed`, which are in order of definition.
    pub(crate) fn new(program: &Program, needed: &[StreamId], run: Span) -> Self {
        let mut ranges = Self(vec![None; program.streams.len()]);
        for stream in needed {
            ranges.0[stream.index()] = match &program.streams[*stream] {
                Stream::Input(_) => nonempty(run.start.into(), run.end.into()),
                Stream::Temporal(temporal) => ranges.derive(program, *stream, temporal, run),
            };
        }
        ranges
    }

    /// The range of a stream; `None` is the empty range.
    pub(crate) fn of(&self, stream: StreamId) -> Option<Span> {
        self.0[stream.index()]
    }

    fn derive(
        &self,
        program: &Program,
        stream: StreamId,
        temporal: &Temporal,
        run: Span,
    ) -> Option<Span> {
        let cells = Cells::of_clock(program, stream, &temporal.clock);
        let reads = match &cells {
            Some(_) => bounded_reads(program, stream, temporal.body),
            None => clock_reads(&temporal.clock),
        };
        let all = reads
            .iter()
            .map(|read| read.range(self.of(read.stream), run))
            .fold(None, hull);
        let Some(cells) = cells else { return all };
        let all = hull(all, nonempty(run.start.into(), run.end.into()));
        // Beyond the calendar the range stays as it is, and `run` refuses it.
        let Some(numbers) = cells.numbers(all) else {
            return all;
        };
        let mut inside = numbers.filter_map(|number| cells.cell(number));
        let first = inside.next()?;
        let last = inside.next_back().unwrap_or(first);
        Some(Span::new(first.start, last.end))
    }
}

/// A read of another stream that has a value only near the stream's events.
pub(crate) struct Read {
    stream: StreamId,
    reach: Reach,
}

enum Reach {
    Value { offset: i64 },
    Hold { offset: i64, max_age: Option<i64> },
    Window { lo: i64, hi: i64 },
    Event,
}

impl Read {
    /// Whether the read has a value at the end of a cell: an event to read, or events in its window.
    pub(crate) fn is_active(&self, cell: Span, streams: &Streams, run: Span) -> bool {
        let series: &Series = &streams[self.stream];
        let t = cell.end;
        match self.reach {
            Reach::Value { offset } => {
                let t = t.saturating_add(offset);
                series.active(t, usize::MAX).next().is_some()
            }
            Reach::Hold { offset, max_age } => {
                let t = t.saturating_add(offset);
                let held = series.last_ended(t, usize::MAX);
                held.is_some_and(|position| {
                    let age = t.saturating_sub(series.timeline.interval(position).end);
                    t <= run.end && max_age.is_none_or(|max_age| age < max_age)
                })
            }
            Reach::Window { lo, hi } => {
                let (from, to) = (t.saturating_add(lo), t.saturating_add(hi));
                series.between(Some(from), to, usize::MAX).next().is_some()
            }
            Reach::Event => {
                let mut inside = series.between(Some(cell.start), cell.end, usize::MAX);
                inside.next().is_some()
            }
        }
    }

    /// Which cells can have a value of the read, given the range of the stream: those that intersect the result.
    fn range(&self, of_stream: Option<Span>, run: Span) -> Option<Span> {
        let of_stream = of_stream?;
        let wide = i128::from;
        let (a, b, end) = (wide(of_stream.start), wide(of_stream.end), wide(run.end));
        match self.reach {
            Reach::Value { offset } => nonempty(a - wide(offset), b - wide(offset)),
            Reach::Hold { offset, max_age } => {
                let last = max_age.map_or(end, |age| end.min(b + wide(age) - 1));
                nonempty(a - wide(offset), last - wide(offset))
            }
            Reach::Window { lo, hi } => nonempty(a - wide(hi), b - wide(lo) - 1),
            Reach::Event => Some(of_stream),
        }
    }
}

/// The reads in the body of `this` that give its clock cells outside the run: not those in maps, which are evaluated at other
/// instants, not those of `this` itself, and no windows that see events however far back.
pub(crate) fn bounded_reads(program: &Program, this: StreamId, body: ExprId) -> Vec<Read> {
    let mut reads = Vec::new();
    body_reads(program, body, &mut HashSet::new(), &mut reads);
    reads.retain(|read| read.stream != this);
    reads
}

fn body_reads(program: &Program, root: ExprId, seen: &mut HashSet<ExprId>, reads: &mut Vec<Read>) {
    if !seen.insert(root) {
        return;
    }
    let expr = program.expr(root);
    let reach = match *expr {
        Expr::At { offset, .. } | Expr::Edge { offset, .. } => Some(Reach::Value { offset }),
        Expr::Prev { .. } => Some(Reach::Value { offset: 0 }),
        Expr::Hold {
            offset, max_age, ..
        } => Some(Reach::Hold { offset, max_age }),
        Expr::Reduce { window, .. } => match window.bounds {
            Bounds::Time { lo: Some(lo), hi } => Some(Reach::Window { lo, hi }),
            Bounds::Event => Some(Reach::Event),
            Bounds::Time { lo: None, .. } | Bounds::Ordinal { .. } => None,
        },
        _ => None,
    };
    match (expr.stream(), reach) {
        (Some(stream), Some(reach)) => reads.push(Read { stream, reach }),
        (Some(_), None) => {}
        (None, _) => expr.for_each_operand(|operand| body_reads(program, operand, seen, reads)),
    }
}

fn clock_reads(clock: &Clock) -> Vec<Read> {
    match clock {
        Clock::Every { .. } | Clock::Calendar(_) => Vec::new(),
        Clock::At(stream) | Clock::Sessions { stream, .. } => vec![Read {
            stream: *stream,
            reach: Reach::Value { offset: 0 },
        }],
        Clock::OnChange(sources) => {
            let read = |source: &Source| Read {
                stream: source.stream(),
                reach: match *source {
                    Source::Value { offset, .. } => Reach::Value { offset },
                    Source::Hold {
                        offset, max_age, ..
                    } => Reach::Hold { offset, max_age },
                    Source::Window { lo, hi, .. } => Reach::Window { lo, hi },
                },
            };
            sources.iter().map(read).collect()
        }
    }
}

fn hull(a: Option<Span>, b: Option<Span>) -> Option<Span> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Span::new(a.start.min(b.start), a.end.max(b.end))),
        (a, b) => a.or(b),
    }
}

/// `(start, end]` cut to what 64 bits can hold, unless nothing is left.
fn nonempty(start: i128, end: i128) -> Option<Span> {
    let span = Span::new(saturate(start), saturate(end));
    (span.start < span.end).then_some(span)
}

pub(crate) fn saturate(t: i128) -> i64 {
    t.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
