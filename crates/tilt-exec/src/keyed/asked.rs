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
    /// The rows `rows` of an input that is grouped by so many keys: on the lines those of a key follow each other, after rows that came earlier and up to those that come later.
    pub(super) fn of(grouped: &Grouped, rows: Range<usize>, keys: usize) -> Self {
        let count = |rows: Range<usize>| {
            let mut counts = vec![0; keys];
            grouped.ids.each(rows, |_, id| counts[id as usize] += 1);
            counts
        };
        let all = grouped.places.of_rows().len();
        let (mut earlier, later) = (count(0..rows.start), count(rows.end..all));
        for before in grouped.places.before() {
            earlier[before.key] += before.rows.len() as u32;
        }
        let mut bounds = Vec::with_capacity(keys + 1);
        let mut closer = Vec::with_capacity(keys);
        let mut on_lines = Vec::with_capacity(rows.len());
        for key in 0..keys {
            let first = grouped.begin(key) + earlier[key];
            let next = on_lines.len() as u32;
            bounds.push(next);
            closer.push(first - next);
            on_lines.extend(first..grouped.begin(key + 1) - later[key]);
        }
        bounds.push(on_lines.len() as u32);
        Self {
            places: grouped.places.closer(rows, &grouped.ids, &closer),
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
