//! Rows that results are asked for, where others are only looked back to.

use std::{borrow::Cow, ops::Range};

use super::{grouped::Grouped, places::Places};

/// Some rows of an input, one key after the other, and where they are on the lines that have all rows.
pub(super) struct Asked {
    pub(super) places: Places,
    /// Where each key begins among them, and the end.
    bounds: Vec<u32>,
    on_lines: Vec<u32>,
}

impl Asked {
    /// The rows `rows` of an input that is grouped by so many keys.
    pub(super) fn of(grouped: &Grouped, rows: Range<usize>, keys: usize, threads: usize) -> Self {
        let ids = grouped.ids.slice(rows.clone());
        let (places, bounds) = Places::by_key(rows.len(), &ids, keys, threads);
        // Those of a key follow each other on the lines, up to rows that come later.
        let mut later = vec![0; keys];
        grouped
            .ids
            .each(rows.end..grouped.places.of_rows().len(), |_, id| {
                later[id as usize] += 1;
            });
        let mut on_lines = Vec::with_capacity(rows.len());
        for (key, later) in later.into_iter().enumerate() {
            let end = grouped.begin(key + 1) - later;
            on_lines.extend(end - (bounds[key + 1] - bounds[key])..end);
        }
        Self {
            places,
            bounds,
            on_lines,
        }
    }

    /// Those of some keys, as rows of the line that these keys are on.
    pub(super) fn of_line(&self, grouped: &Grouped, keys: &Range<usize>) -> Cow<'_, [u32]> {
        let [from, to] = [keys.start, keys.end].map(|key| self.bounds[key] as usize);
        let rows = &self.on_lines[from..to];
        match grouped.begin(keys.start) {
            0 => rows.into(),
            before => rows.iter().map(|row| row - before).collect(),
        }
    }
}
