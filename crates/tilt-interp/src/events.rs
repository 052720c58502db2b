//! Events as they are given, and the checks they must pass before anything is computed.

use std::collections::BTreeMap;

use tilt_ir::{Input, OPEN, Overlap, Span};

use crate::{Value, error::DataError};

/// A value that holds on `(start, end]`.
#[derive(Clone, Debug)]
pub struct Event {
    /// Exclusive.
    pub start: i64,
    /// Inclusive; [`OPEN`] lasts to the run's end.
    pub end: i64,
    /// φ is no event.
    pub value: Value,
}

impl Event {
    /// A value on `(start, end]`.
    pub fn new(start: i64, end: i64, value: impl Into<Value>) -> Self {
        Self {
            start,
            end,
            value: value.into(),
        }
    }

    /// A value at the single instant `at`.
    pub fn point(at: i64, value: impl Into<Value>) -> Self {
        Self::new(at.saturating_sub(1), at, value)
    }

    /// The interval `(start, end]`.
    pub fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// Whether interval and value are the same, values by [`Value::same`].
    pub fn same(&self, other: &Self) -> bool {
        self.span() == other.span() && self.value.same(&other.value)
    }
}

/// The events of every input, by name without `~`, each list ordered by end.
pub type Inputs = BTreeMap<String, Vec<Event>>;

/// The default span of a run: from the earliest start to the latest end of any event, where an open event counts up to
/// its stamp `start + 1`. `None` if there are no events.
pub fn hull(inputs: &Inputs) -> Option<Span> {
    let events = inputs.values().flatten().filter(|e| !e.value.is_null());
    events
        .map(|e| match e.end {
            OPEN => Span::new(e.start, e.start.saturating_add(1)),
            _ => e.span(),
        })
        .reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))
}

/// An event of a checked input: it has a value, and an end.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The row's number in the input as it was given, for messages.
    pub(crate) number: usize,
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// Checks the events of an input row by row; drops φ and gives open events the run's end.
pub(crate) fn check_rows(
    input: &Input,
    events: &[Event],
    run: Span,
) -> Result<Vec<Row>, DataError> {
    let stream = || input.name.clone();
    let mut rows = Vec::with_capacity(events.len());
    let mut previous = i64::MIN;
    for (number, event) in events.iter().enumerate() {
        let mut span = event.span();
        if span.start >= span.end {
            return Err(DataError::Empty {
                stream: stream(),
                row: number,
                event: span,
            });
        }
        if span.end < previous {
            return Err(DataError::Unsorted {
                stream: stream(),
                row: number,
                end: span.end,
                previous,
            });
        }
        previous = span.end;
        if !event.value.fits(&input.dtype) {
            return Err(DataError::Value {
                stream: stream(),
                row: number,
                value: event.value.to_string(),
                expected: input.dtype.clone(),
            });
        }
        if event.value.is_null() {
            continue;
        }
        if span.end == OPEN {
            if run.end <= span.start {
                continue;
            }
            span.end = run.end;
        }
        if span.start < run.start || span.end > run.end {
            return Err(DataError::OutsideSpan {
                stream: stream(),
                row: number,
                event: span,
                span: run,
            });
        }
        rows.push(Row {
            number,
            span,
            value: event.value.clone(),
        });
    }
    Ok(rows)
}

/// Checks the promise of an input (or of one key of it) that no two events are active at once.
pub(crate) fn check_overlap(input: &Input, rows: &[Row]) -> Result<(), DataError> {
    if input.overlap != Overlap::Disjoint {
        return Ok(());
    }
    // By order of ends, two events overlap only if two neighbours do.
    match rows.windows(2).find(|w| w[1].span.start < w[0].span.end) {
        None => Ok(()),
        Some(pair) => Err(DataError::Overlap {
            stream: input.name.clone(),
            row: pair[1].number,
            event: pair[1].span,
            previous: pair[0].span,
        }),
    }
}
