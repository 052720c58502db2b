//! Ranges of streams: where what an expression reads can be other than φ. They follow from the run's span and the program
//! alone, and say which cells a grid has.

use std::collections::HashSet;

use tilt_ir::{Bounds, Clock, Expr, ExprId, Id, Program, Source, Span, Stream, StreamId, Temporal};

/// The ranges of the streams of a run.
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
        let mut reads = clock_reads(&temporal.clock);
        body_reads(program, temporal.body, &mut HashSet::new(), &mut reads);
        reads.retain(|read| read.stream != stream);
        if reads.is_empty() {
            return nonempty(run.start.into(), run.end.into());
        }
        let all = reads
            .iter()
            .map(|read| read.range(self.of(read.stream), run));
        all.fold(None, hull)
    }
}

/// A read of another stream, as far as ranges care.
struct Read {
    stream: StreamId,
    reach: Reach,
}

enum Reach {
    Value { offset: i64 },
    Hold { offset: i64, max_age: Option<i64> },
    Window { lo: Option<i64>, hi: i64 },
}

impl Read {
    /// Where the read can be other than φ, given the range of the stream.
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
            Reach::Window { lo: Some(lo), hi } => nonempty(a - wide(hi), b - wide(lo) - 1),
            Reach::Window { lo: None, hi } => nonempty(a - wide(hi), b.max(b - wide(hi))),
        }
    }
}

/// What `root` reads at its own instant: maps of reductions, which are evaluated at others, add nothing.
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
        Expr::Reduce { window, .. } => Some(match window.bounds {
            Bounds::Time { lo, hi } => Reach::Window { lo, hi },
            Bounds::Ordinal { .. } => Reach::Value { offset: 0 },
        }),
        _ => None,
    };
    match (expr.stream(), reach) {
        (Some(stream), Some(reach)) => reads.push(Read { stream, reach }),
        _ => expr.for_each_operand(|operand| body_reads(program, operand, seen, reads)),
    }
}

fn clock_reads(clock: &Clock) -> Vec<Read> {
    match clock {
        Clock::Every { .. } => Vec::new(),
        Clock::At(stream) => vec![Read {
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
                    Source::Window { lo, hi, .. } => Reach::Window { lo: Some(lo), hi },
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
