//! Rows that no stream has: cells of a calendar, sessions of a stream.

use std::sync::{Arc, Mutex, PoisonError};

use tilt_data::Timeline;
use tilt_ir::{CalendarCells, Span};

use crate::{cursor::Source, memory::INSTANTS, series::Axis};

/// The cells of a calendar. Those that were asked for last are kept: every key has the same, and every piece some of them.
#[derive(Debug)]
pub(crate) struct CalendarRows {
    cells: CalendarCells,
    known: Mutex<Option<(Span, Arc<Axis>)>>,
}

impl CalendarRows {
    pub(crate) fn new(cells: CalendarCells) -> Self {
        Self {
            cells,
            known: Mutex::new(None),
        }
    }

    /// How many cells a span has at most; `None` if it lies beyond the calendar.
    pub(crate) fn count(&self, span: Span) -> Option<i128> {
        let numbers = self.cells.between(span)?;
        Some(i128::from(*numbers.end()) - i128::from(*numbers.start()) + 1)
    }

    /// The cells that end in `scope`.
    pub(crate) fn axis(&self, scope: Span) -> Arc<Axis> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((all, axis)) if *all == scope => Arc::clone(axis),
            Some((all, axis)) if all.start <= scope.start && scope.end <= all.end => {
                let first = axis.timeline.ends_until(scope.start);
                let end = axis.timeline.ends_until(scope.end);
                let some = axis.timeline.slice(first, end.saturating_sub(first));
                Arc::new(Axis::new(some, Vec::new()))
            }
            _ => {
                let axis = Arc::new(Axis::new(calendar(&self.cells, scope), Vec::new()));
                *known = Some((scope, Arc::clone(&axis)));
                axis
            }
        }
    }
}

fn calendar(cells: &CalendarCells, scope: Span) -> Timeline {
    let (mut starts, mut ends) = (INSTANTS.take(), INSTANTS.take());
    for cell in cells
        .between(scope)
        .into_iter()
        .flatten()
        .filter_map(|number| cells.cell(number))
    {
        if scope.contains(cell.end) {
            starts.push(cell.start);
            ends.push(cell.end);
        }
    }
    Timeline::intervals(INSTANTS.lend(starts), INSTANTS.lend(ends))
}

/// The sessions of the events of a source, which do not overlap.
///
/// An event that starts less than `gap` after the latest end belongs to the session, unless that would last longer than `max`.
pub(crate) fn sessions(source: &Source, gap: i64, max: Option<i64>) -> Timeline {
    let (all_starts, all_ends) = (source.timeline().starts(), source.timeline().ends());
    let events = all_starts.iter().zip(&*all_ends).enumerate();
    let events = events.filter(|(i, _)| source.is_event(*i));
    let events = events.map(|(_, (start, end))| Span::new(*start, *end));
    let (mut starts, mut ends) = (INSTANTS.take(), INSTANTS.take());
    if source.is_ordered() {
        grow(events, gap, max, &mut starts, &mut ends);
    } else {
        let mut sorted: Vec<Span> = events.collect();
        sorted.sort_by_key(|event| event.start);
        grow(sorted.into_iter(), gap, max, &mut starts, &mut ends);
    }
    Timeline::intervals(INSTANTS.lend(starts), INSTANTS.lend(ends))
}

/// Adds the sessions of events that are ordered by start.
fn grow(
    mut events: impl Iterator<Item = Span>,
    gap: i64,
    max: Option<i64>,
    starts: &mut Vec<i64>,
    ends: &mut Vec<i64>,
) {
    let Some(mut session) = events.next() else {
        return;
    };
    for event in events {
        let end = session.end.max(event.end);
        // A length that 64 bits do not hold is longer than any that is allowed.
        let length = end.checked_sub(session.start);
        let fits = max.is_none_or(|max| length.is_some_and(|length| length <= max));
        if fits && event.start < session.end.saturating_add(gap) {
            session.end = end;
            continue;
        }
        starts.push(session.start);
        ends.push(session.end);
        session = event;
    }
    starts.push(session.start);
    ends.push(session.end);
}
