//! Rows of an input that wait, and what is released of them when the watermark has passed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef};
use tilt_ir::{Input, OPEN, Overlap, Span, SpanRule};

use crate::{options::InputOptions, row::Row};

/// How events of an input end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ends {
    /// In the order in which they start.
    #[default]
    InOrder,
    /// In any order, each by itself.
    Apart,
    /// Where the next one of the key starts.
    WithKey,
}

/// Rows that wait. Cheap to clone, as far as there are few: values are shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) ends: Ends,
    /// Rows that the watermark has passed as they came, in order and before all that are pending.
    pub(crate) ready: Vec<Ready>,
    /// Rows that the watermark has not passed.
    pub(crate) pending: BinaryHeap<Reverse<Row>>,
    /// Rows that it has passed, but which end after it, by number.
    pub(crate) begun: BTreeMap<u64, Row>,
    /// Whether at most one event is active at an instant, and the end of the last.
    pub(crate) is_disjoint: bool,
    pub(crate) last_end: i64,
}

/// Rows of a batch that came in order.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// The number of the first.
    pub(crate) seq: u64,
    pub(crate) events: Vec<Span>,
    pub(crate) columns: Vec<ArrayRef>,
}

/// What is released.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// Rows in order of end.
    pub(crate) ended: Vec<Row>,
    /// Rows that overlap one before, where that is not declared.
    pub(crate) overlapping: Vec<Row>,
}

impl Queue {
    pub(crate) fn new(input: &Input, options: &InputOptions) -> Self {
        let is_disjoint = input.overlap == Overlap::Disjoint && input.key.is_none();
        let ends = match input.span {
            SpanRule::Point | SpanRule::Fixed(_) => Ends::InOrder,
            SpanRule::UntilNext if input.key.is_none() => Ends::InOrder,
            SpanRule::UntilNext => Ends::WithKey,
            SpanRule::Interval if is_disjoint && !options.edges => Ends::InOrder,
            SpanRule::Interval => Ends::Apart,
        };
        Self {
            ends,
            ready: Vec::new(),
            pending: BinaryHeap::new(),
            begun: BTreeMap::new(),
            is_disjoint: is_disjoint && input.span != SpanRule::UntilNext,
            last_end: i64::MIN,
        }
    }

    /// Whether a row goes on to the run as soon as the watermark has passed its start.
    pub(crate) fn is_in_order(&self) -> bool {
        self.ends == Ends::InOrder
    }

    pub(crate) fn len(&self) -> usize {
        let ready: usize = self.ready.iter().map(|ready| ready.events.len()).sum();
        ready + self.pending.len() + self.begun.len()
    }

    /// The rows that end, or in order of which others end, up to `until`, before which nothing changes any more.
    pub(crate) fn release(&mut self, until: i64) -> Released {
        let mut released = Released::default();
        let mut last_of_key: HashMap<Arc<[u8]>, u64> = HashMap::new();
        if self.ends == Ends::WithKey {
            let keys = self.begun.iter();
            last_of_key = keys
                .filter_map(|(seq, row)| Some((row.key.clone()?, *seq)))
                .collect();
        }
        while let Some(Reverse(row)) = self.pending.peek()
            && row.at <= until
        {
            let Some(Reverse(row)) = self.pending.pop() else {
                break;
            };
            match (self.ends, row.closes, &row.key) {
                (Ends::InOrder, ..) => {
                    let counts = self.is_disjoint && has_value(&row);
                    if counts && row.event.start < self.last_end {
                        released.overlapping.push(row);
                        continue;
                    }
                    if counts {
                        self.last_end = row.event.end;
                    }
                    released.ended.push(row);
                }
                (_, Some(closed), _) => {
                    if let Some(begun) = self.begun.get_mut(&closed) {
                        begun.event.end = row.event.end;
                    }
                }
                (Ends::WithKey, _, Some(key)) => {
                    let before = last_of_key.insert(Arc::clone(key), row.seq);
                    if let Some(seq) = before
                        && let Some(begun) = self.begun.get_mut(&seq)
                    {
                        begun.event.end = row.event.start;
                        begun.key = None;
                        // Replaced at its own stamp.
                        if begun.event.start >= begun.event.end {
                            self.begun.remove(&seq);
                        }
                    }
                    self.begun.insert(row.seq, row);
                }
                _ => {
                    self.begun.insert(row.seq, row);
                }
            }
        }
        if !self.is_in_order() {
            if self.is_disjoint {
                end_open(self.begun.values_mut(), until);
            }
            self.begun.retain(|_, row| {
                let has_ended = row.event.end <= until;
                if has_ended {
                    released.ended.push(row.clone());
                }
                !has_ended
            });
            released.ended.sort_by_key(|row| (row.event.end, row.seq));
            if self.is_disjoint {
                let mut last_end = self.last_end;
                let (apart, overlapping) = released.ended.into_iter().partition(|row| {
                    let is_apart = !has_value(row) || row.event.start >= last_end;
                    if is_apart && has_value(row) {
                        last_end = row.event.end;
                    }
                    is_apart
                });
                self.last_end = last_end;
                released.ended = apart;
                released.overlapping = overlapping;
            }
        }
        released
    }
}

/// Of events that do not overlap, one without an end ends where the next one starts, at the latest; looked at are next ones that start before `until`.
pub(crate) fn end_open<'a>(rows: impl Iterator<Item = &'a mut Row>, until: i64) {
    let mut rows: Vec<&mut Row> = rows.collect();
    rows.sort_by_key(|row| Reverse(row.event.start));
    let mut next = i64::MAX;
    for row in rows {
        if row.event.end == OPEN && next > row.event.start && next < until {
            row.event.end = next;
        }
        next = row.event.start;
    }
}

/// Whether a row is an event: not one of a scalar that is null.
fn has_value(row: &Row) -> bool {
    row.chunk.len() != 1 || row.chunk[0].is_valid(row.place)
}
