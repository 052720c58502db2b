//! Timelines that grow at their end, and whose first rows are forgotten.

use tilt_codegen::lir::Ty;
use tilt_data::{Spans, Stamps, Timeline};
use tilt_ir::OPEN;

use super::{Arrived, grown::Grown};
use crate::{
    bytes::{Reader, Writer},
    execute::MAX_CELLS,
    tail::EndsOf,
};

/// The intervals of rows, ordered by end, their starts too.
#[derive(Debug)]
pub(super) struct Times {
    kind: Kind,
    len: usize,
}

#[derive(Debug)]
enum Kind {
    Regular {
        t0: i64,
        period: i64,
        length: i64,
    },
    Fixed {
        ends: Grown,
        length: i64,
    },
    UntilNext {
        stamps: Grown,
        next: i64,
        /// Whether the last row is shown though its end is not known.
        shown: bool,
    },
    Intervals {
        starts: Grown,
        ends: Grown,
        longest: i64,
    },
}

impl Times {
    /// No rows, of the kind that a timeline has, with room for some at first; if a period is given, the first of them is to be the first of the timeline.
    pub(super) fn like(timeline: &Timeline, period: Option<i64>, room: usize) -> Self {
        let instants = || Grown::new(Ty::I64, false, 0, room);
        let kind = match (timeline.spans(), period) {
            (Spans::Fixed(length), Some(period)) if !timeline.is_empty() => Kind::Regular {
                t0: timeline.end(0),
                period,
                length: *length,
            },
            (Spans::Fixed(length), _) => Kind::Fixed {
                ends: instants(),
                length: *length,
            },
            (Spans::UntilNext { .. }, _) => Kind::UntilNext {
                stamps: instants(),
                next: OPEN,
                shown: false,
            },
            (Spans::Contiguous { .. } | Spans::Starts { .. }, _) => return Self::intervals(room),
        };
        Self { kind, len: 0 }
    }

    /// Cells of a grid, none so far: the first ends at `t0`.
    pub(super) fn cells(t0: i64, period: i64) -> Self {
        let length = period;
        let kind = Kind::Regular { t0, period, length };
        Self { kind, len: 0 }
    }

    /// Intervals, none so far, with room for some at first.
    pub(super) fn intervals(room: usize) -> Self {
        let instants = || Grown::new(Ty::I64, false, 0, room);
        let kind = Kind::Intervals {
            starts: instants(),
            ends: instants(),
            longest: 0,
        };
        Self { kind, len: 0 }
    }

    /// Appends intervals.
    pub(super) fn append_intervals(&mut self, from: &[i64], to: &[i64]) {
        if let Kind::Intervals {
            starts,
            ends,
            longest,
        } = &mut self.kind
        {
            let lengths = from.iter().zip(to).map(|(s, e)| e.saturating_sub(*s));
            *longest = (*longest).max(lengths.max().unwrap_or(0));
            starts.append_instants(self.len, from);
            ends.append_instants(self.len, to);
            self.len += from.len();
        }
    }

    /// How many rows there are, without one that the next may replace.
    pub(super) fn len(&self) -> usize {
        match self.kind {
            Kind::UntilNext {
                next: OPEN,
                shown: false,
                ..
            } => self.len.saturating_sub(1),
            _ => self.len,
        }
    }

    /// No row that is still to come starts before this. A last row without an end is shown, if that may be, once no other can replace it; it may end as soon as another can start.
    pub(super) fn covered(&mut self, arrived: Arrived, shows_open: bool) -> i64 {
        let Arrived { covered, promised } = arrived;
        match &mut self.kind {
            Kind::UntilNext {
                stamps,
                next: OPEN,
                shown,
            } if self.len > 0 => {
                let start = stamps.instant(self.len - 1) - 1;
                *shown = shows_open && promised > start;
                if *shown {
                    start.max(promised - 1)
                } else {
                    start
                }
            }
            _ => covered.max(promised),
        }
    }

    /// Bytes of their memory.
    pub(super) fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Regular { .. } => 0,
            Kind::Fixed { ends, .. } => ends.bytes(),
            Kind::UntilNext { stamps, .. } => stamps.bytes(),
            Kind::Intervals { starts, ends, .. } => starts.bytes() + ends.bytes(),
        }
    }

    /// How many rows have come.
    pub(super) fn all(&self) -> usize {
        self.len
    }

    /// Whether rows go on as those before did.
    pub(super) fn fits(&self, timeline: &Timeline) -> bool {
        match (&self.kind, timeline.spans()) {
            (
                Kind::Regular {
                    t0, period, length, ..
                },
                Spans::Fixed(of),
            ) => {
                let next = i128::from(*period) * self.len as i128 + i128::from(*t0);
                let first = (!timeline.is_empty()).then(|| timeline.end(0));
                let goes_on = first.is_none_or(|first| i128::from(first) == next);
                of == length
                    && goes_on
                    && match timeline.stamps() {
                        Stamps::Regular { period: p, .. } => p == period || timeline.len() <= 1,
                        Stamps::Explicit(stamps) => are_apart(stamps, *period),
                    }
            }
            (Kind::Fixed { length, .. }, Spans::Fixed(of)) => of == length,
            (Kind::UntilNext { .. }, Spans::UntilNext { .. }) => true,
            (Kind::Intervals { .. }, Spans::Starts { .. } | Spans::Contiguous { .. }) => true,
            _ => false,
        }
    }

    /// Appends rows that fit.
    pub(super) fn append(&mut self, timeline: &Timeline) {
        match &mut self.kind {
            Kind::Regular { .. } => {}
            Kind::Fixed { ends, .. } => ends.append_instants(self.len, &timeline.ends()),
            Kind::UntilNext { stamps, .. } => {
                let instants: Vec<i64> = (0..timeline.len()).map(|i| timeline.stamp(i)).collect();
                stamps.append_instants(self.len, &instants);
            }
            Kind::Intervals { .. } => {
                self.append_intervals(&timeline.starts(), &timeline.ends());
                return;
            }
        }
        self.len += timeline.len();
    }

    /// Appends rows of one length that end at these instants. False if rows do not go on as those before did.
    pub(super) fn append_fresh(&mut self, fresh: EndsOf, length: i64) -> bool {
        let rows = match fresh {
            EndsOf::Regular { len, .. } => len,
            EndsOf::Explicit(ends) => ends.len(),
        };
        match (&mut self.kind, fresh) {
            (
                Kind::Regular {
                    t0,
                    period,
                    length: of,
                },
                fresh,
            ) => {
                let next = i128::from(*period) * self.len as i128 + i128::from(*t0);
                let goes_on = match fresh {
                    EndsOf::Regular { t0, period: p, len } => {
                        i128::from(t0) == next && (p == *period || len == 1)
                    }
                    EndsOf::Explicit(ends) => {
                        let first = ends.first().map(|end| i128::from(*end));
                        first.is_none_or(|first| first == next) && are_apart(ends, *period)
                    }
                };
                if *of != length || !goes_on {
                    return false;
                }
            }
            (Kind::Fixed { ends, length: of }, fresh) if *of == length => match fresh {
                EndsOf::Explicit(instants) => ends.append_instants(self.len, instants),
                EndsOf::Regular { t0, period, len } => {
                    let instants = (0..len as i64).map(|row| t0 + row * period);
                    ends.append_instants(self.len, &instants.collect::<Vec<_>>());
                }
            },
            _ => return false,
        }
        self.len += rows;
        true
    }

    /// Whether the first row of a timeline replaces the last one at its own stamp.
    pub(super) fn is_replaced_by(&self, timeline: &Timeline) -> bool {
        match &self.kind {
            Kind::UntilNext { stamps, .. } => {
                self.len > 0
                    && !timeline.is_empty()
                    && stamps.instant(self.len - 1) == timeline.stamp(0)
            }
            _ => false,
        }
    }

    /// Forgets the last row.
    pub(super) fn drop_last(&mut self) {
        self.len -= 1;
    }

    /// No row follows, and the last one ends where the run does.
    pub(super) fn close(&mut self, end: i64) {
        if let Kind::UntilNext { next, .. } = &mut self.kind {
            *next = end.saturating_add(1);
        }
    }

    /// Cells up to an instant, if these are cells. False if there are too many.
    pub(super) fn extend_to(&mut self, until: i64) -> bool {
        if let Kind::Regular { t0, period, .. } = self.kind {
            let cells = (i128::from(until) - i128::from(t0)).div_euclid(i128::from(period)) + 1;
            if cells > MAX_CELLS {
                return false;
            }
            self.len = self.len.max(usize::try_from(cells).unwrap_or(0));
        }
        true
    }

    /// The first rows.
    pub(super) fn timeline(&self, len: usize) -> Timeline {
        match &self.kind {
            Kind::Regular { t0, period, length } => {
                Timeline::regular(*t0, *period, len, Spans::Fixed(*length))
            }
            Kind::Fixed { ends, length } => {
                Timeline::explicit(ends.instants(len), Spans::Fixed(*length))
            }
            Kind::UntilNext { stamps, next, .. } => {
                let next = if len < self.len {
                    stamps.instant(len)
                } else {
                    *next
                };
                Timeline::explicit(stamps.instants(len), Spans::UntilNext { next })
            }
            Kind::Intervals {
                starts,
                ends,
                longest,
            } => Timeline::intervals_within(starts.instants(len), ends.instants(len), *longest),
        }
    }

    /// Where the row after the first `len` starts, if it is there or is bound to come.
    pub(super) fn start(&self, len: usize) -> Option<i64> {
        match &self.kind {
            Kind::Regular { t0, period, length } => {
                let end = i128::from(*t0) + i128::from(*period) * len as i128;
                let is_known = len < self.len || length == period;
                is_known.then(|| (end - i128::from(*length)).max(i64::MIN.into()) as i64)
            }
            _ if len >= self.len => None,
            Kind::Fixed { ends, length } => Some(ends.instant(len).saturating_sub(*length)),
            Kind::UntilNext { stamps, .. } => Some(stamps.instant(len) - 1),
            Kind::Intervals { starts, .. } => Some(starts.instant(len)),
        }
    }

    /// Writes all rows.
    pub(super) fn save(&self, out: &mut Writer) {
        out.count(self.len);
        match &self.kind {
            Kind::Regular { t0, period, length } => {
                for number in [*t0, *period, *length] {
                    out.number(number);
                }
            }
            Kind::Fixed { ends, .. } => ends.save(self.len, out),
            Kind::UntilNext {
                stamps,
                next,
                shown,
            } => {
                stamps.save(self.len, out);
                out.number(*next);
                out.word(u64::from(*shown));
            }
            Kind::Intervals {
                starts,
                ends,
                longest,
            } => {
                starts.save(self.len, out);
                ends.save(self.len, out);
                out.number(*longest);
            }
        }
    }

    /// Takes rows of the same kind that were [written](Self::save), in place of all.
    pub(super) fn restore(&mut self, from: &mut Reader) -> Option<()> {
        let len = from.count()?;
        self.len = len;
        match &mut self.kind {
            Kind::Regular { t0, period, length } => {
                (*t0, *period, *length) = (from.number()?, from.number()?, from.number()?);
                (*period > 0).then_some(())
            }
            Kind::Fixed { ends, .. } => ends.restore(len, from),
            Kind::UntilNext {
                stamps,
                next,
                shown,
            } => {
                stamps.restore(len, from)?;
                *next = from.number()?;
                *shown = from.word()? != 0;
                Some(())
            }
            Kind::Intervals {
                starts,
                ends,
                longest,
            } => {
                starts.restore(len, from)?;
                ends.restore(len, from)?;
                *longest = from.number()?;
                Some(())
            }
        }
    }

    /// Forgets the first rows, a multiple of eight.
    pub(super) fn forget(&mut self, rows: usize) {
        match &mut self.kind {
            Kind::Regular { t0, period, .. } => *t0 += *period * rows as i64,
            Kind::Fixed { ends: instants, .. }
            | Kind::UntilNext {
                stamps: instants, ..
            } => {
                instants.forget(self.len, rows);
            }
            Kind::Intervals { starts, ends, .. } => {
                starts.forget(self.len, rows);
                ends.forget(self.len, rows);
            }
        }
        self.len -= rows;
    }
}

/// Whether instants are a period apart, at the speed of memory.
fn are_apart(instants: &[i64], period: i64) -> bool {
    let pairs = instants.iter().zip(instants.get(1..).unwrap_or_default());
    pairs.fold(true, |all, (a, b)| all & (b.wrapping_sub(*a) == period))
}
