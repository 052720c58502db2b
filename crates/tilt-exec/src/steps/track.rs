//! Streams whose rows grow in number.

use std::sync::Arc;

use super::grown::Grown;
use crate::series::{Axis, Series};

/// The rows of a stream.
pub(super) struct Track {
    pub(super) axis: usize,
    /// How many rows are known.
    pub(super) rows: usize,
    /// Leaves, whether there is a record, and what only the stage itself reads; none if nobody reads them.
    pub(super) columns: Vec<Grown>,
    /// How many of these are leaves.
    pub(super) leaves: usize,
    pub(super) is_record: bool,
    pub(super) is_input: bool,
    /// Whether rows may have no event; those of inputs are all events.
    pub(super) nullable: bool,
    /// No row that is still to come starts before this.
    pub(super) covered: i64,
}

impl Track {
    /// Shows the rows that are known in a series, in place of those that were before.
    pub(super) fn show(&self, axis: Arc<Axis>, series: &mut Series) {
        let leaves = self.columns.iter().take(self.leaves);
        series.axis = axis;
        series.leaves.clear();
        series
            .leaves
            .extend(leaves.map(|column| column.leaf(self.rows)));
        series.present = if !self.nullable {
            None
        } else if self.is_record {
            let present = self.columns.get(self.leaves);
            present.and_then(|column| column.leaf(self.rows).bits().cloned())
        } else {
            series.leaves.first().and_then(|leaf| leaf.valid.clone())
        };
    }

    /// The row that is so many events before the end of the first rows; the first event if there are fewer, and that end if there are none.
    pub(super) fn nth_event(&self, rows: usize, events: usize) -> usize {
        let rows = rows.min(self.rows);
        let present = self.nullable.then(|| {
            let column = if self.is_record { self.leaves } else { 0 };
            let leaf = self.columns[column].leaf(rows);
            if self.is_record {
                leaf.bits().cloned()
            } else {
                leaf.valid
            }
        });
        match present.flatten() {
            Some(bits) => {
                let found = (0..rows).rev().filter(|row| bits.value(*row));
                found.take(events).last().unwrap_or(rows)
            }
            None => rows.saturating_sub(events),
        }
    }
}
