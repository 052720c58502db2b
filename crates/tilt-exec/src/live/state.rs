//! Live runs as plain data.

use std::collections::BTreeMap;

use tilt_data::SnapshotBuffer;
use tilt_ir::Span;

/// A live run between two pushes: rows that are held, what is carried of others, and a few instants. [`Live::save`](crate::Live::save) makes one, [`Compiled::resume`](crate::Compiled::resume) goes on with it.
#[derive(Clone, Debug)]
pub struct LiveState {
    /// Output that ends up to here was given out.
    pub until: i64,
    /// Where the run starts, if that was said.
    pub start: Option<i64>,
    /// The run does not end before this.
    pub lasts: i64,
    /// The inputs by name.
    pub inputs: BTreeMap<String, InputState>,
    /// What is carried of the rows that are held no longer, if results look back without a bound.
    pub carried: Option<Vec<u8>>,
}

/// An input of a [`LiveState`].
#[derive(Clone, Debug)]
pub struct InputState {
    /// Rows that are held.
    pub rows: SnapshotBuffer,
    /// Events that have begun and are not held in order of end yet.
    pub begun: SnapshotBuffer,
    /// How many rows have come.
    pub count: u64,
    /// No event that is still to come starts before this, as far as rows tell.
    pub covered: i64,
    /// No event that is still to come starts before this, as was promised.
    pub promised: i64,
    /// From the first start to the last end of all events that have come and have an end.
    pub hull: Option<Span>,
    /// The last event.
    pub last: Option<Span>,
    /// Where the last event started, if it lasts until the next.
    pub open_start: Option<i64>,
    /// The ends of the last events, if the query counts events ahead.
    pub tail: Vec<i64>,
    /// Whether no more rows come.
    pub is_exhausted: bool,
}
