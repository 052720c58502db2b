//! Rows that wait for the watermark.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;
use tilt_ir::Span;

/// A row, and where its values are. Ordered by the instant of its change, then by arrival; one that [yields](Self::yields) comes before others of its instant.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The instant whose passing releases the row: before it nothing changes by this row. The start of an event, or the end that it tells of an earlier one; of a row that yields, the
    /// first one at which no row in time can come any more whose place it has.
    pub(crate) at: i64,
    /// The number of the row among all of its input.
    pub(crate) seq: u64,
    pub(crate) event: Span,
    /// The row whose event ends by this one.
    pub(crate) closes: Option<u64>,
    /// The key as bytes, where rows of a key end or exclude each other.
    pub(crate) key: Option<Arc<[u8]>>,
    pub(crate) chunk: Arc<Vec<ArrayRef>>,
    /// Where in the chunk.
    pub(crate) place: usize,
}

impl Row {
    /// Whether it was moved, and is left out if a row in time needs its place.
    pub(crate) fn yields(&self) -> bool {
        self.closes.is_none() && self.at > self.event.start
    }

    /// By what rows are ordered.
    pub(crate) fn turn(&self) -> (i64, bool, u64) {
        (self.at, !self.yields(), self.seq)
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

/// The values of rows, column by column. There is at least one row.
pub(crate) fn gather<'a>(rows: impl Iterator<Item = &'a Row>) -> Result<Vec<ArrayRef>, ArrowError> {
    let mut chunks: Vec<&Arc<Vec<ArrayRef>>> = Vec::new();
    let mut number: HashMap<*const Vec<ArrayRef>, usize> = HashMap::new();
    let mut places = Vec::new();
    // Rows of a chunk often follow each other.
    let mut last = (std::ptr::null(), 0);
    for row in rows {
        let at = Arc::as_ptr(&row.chunk);
        if at != last.0 {
            let chunk = *number.entry(at).or_insert_with(|| {
                chunks.push(&row.chunk);
                chunks.len() - 1
            });
            last = (at, chunk);
        }
        places.push((last.1, row.place));
    }
    let width = chunks.first().map_or(0, |chunk| chunk.len());
    let column = |i: usize| {
        let arrays: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk[i].as_ref()).collect();
        interleave(&arrays, &places)
    };
    (0..width).map(column).collect()
}
