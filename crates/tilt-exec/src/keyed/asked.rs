//! Rows that results are asked for, where others are only looked back to.

use std::ops::Range;

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
        let mut on_lines = vec![0; rows.len()];
        let of_rows = grouped.places.of_rows()[rows].iter();
        for (place, on_lines_at) in places.of_rows().iter().zip(of_rows) {
            on_lines[*place as usize] = *on_lines_at;
        }
        Self {
            places,
            bounds,
            on_lines,
        }
    }

    /// Those of some keys, as rows of the line that these keys are on.
    pub(super) fn of_line(&self, grouped: &Grouped, keys: &Range<usize>) -> Vec<u32> {
        let [from, to] = [keys.start, keys.end].map(|key| self.bounds[key] as usize);
        let before = grouped.begin(keys.start);
        let rows = self.on_lines[from..to].iter();
        rows.map(|row| row - before).collect()
    }
}
