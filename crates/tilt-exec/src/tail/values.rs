//! The values of rows that are put together: those of small pushes are copied one after the other, those of larger ones shared as they came.

use std::collections::VecDeque;

use arrow_array::{Array, ArrayRef, downcast_primitive_array};
use arrow_buffer::{Buffer, MutableBuffer};

/// Arrays of so many rows are shared: a reference to each costs less than copying it, which also pushes out of the caches what steps work with.
const SHARED: usize = 1 << 9;

/// Columns of elements.
#[derive(Debug)]
pub(super) struct Values {
    parts: VecDeque<Part>,
    /// Of all parts.
    rows: usize,
}

/// Rows one after the other. Only where they are copied there may be none, for the sake of the memory.
#[derive(Debug)]
struct Part {
    rows: usize,
    columns: Columns,
}

#[derive(Debug)]
enum Columns {
    Copied(Vec<MutableBuffer>),
    Shared(Vec<ArrayRef>),
}

impl Values {
    pub(super) fn new() -> Self {
        Self {
            parts: VecDeque::new(),
            rows: 0,
        }
    }

    /// Appends rows, at least one, of numbers without nulls.
    pub(super) fn append<'a>(&mut self, rows: usize, values: impl Iterator<Item = &'a ArrayRef>) {
        self.rows += rows;
        if rows >= SHARED {
            let columns = Columns::Shared(values.cloned().collect());
            self.parts.push_back(Part { rows, columns });
            return;
        }
        if let Some(part) = self.parts.back_mut()
            && let Columns::Copied(columns) = &mut part.columns
        {
            part.rows += rows;
            for (column, array) in columns.iter_mut().zip(values) {
                column.extend_from_slice(elements(array));
            }
            return;
        }
        let copied = |array| {
            let mut column = MutableBuffer::new(0);
            column.extend_from_slice(elements(array));
            column
        };
        let columns = Columns::Copied(values.map(copied).collect());
        self.parts.push_back(Part { rows, columns });
    }

    /// Forgets the first rows.
    pub(super) fn forget(&mut self, rows: usize) {
        self.rows -= rows;
        let mut rows = rows;
        while let Some(part) = self.parts.front_mut().filter(|_| rows > 0) {
            let is_copied = matches!(part.columns, Columns::Copied(_));
            if part.rows > rows || is_copied && part.rows == rows {
                part.forget(rows);
                return;
            }
            rows -= part.rows;
            self.parts.pop_front();
        }
    }

    /// The elements of a column from a row on, part by part, each with how many rows it has.
    pub(super) fn elements_from(
        &self,
        row: usize,
        column: usize,
    ) -> impl Iterator<Item = (usize, &[u8])> {
        let (mut first, mut part) = (self.rows, self.parts.len());
        while first > row {
            part -= 1;
            first -= self.parts[part].rows;
        }
        let mut skip = row - first;
        self.parts.range(part..).map(move |part| {
            let gone = std::mem::take(&mut skip);
            let elements = part.elements(column);
            (part.rows - gone, &elements[part.bytes(elements, gone)..])
        })
    }

    /// Each of so many columns in one piece.
    pub(super) fn into_columns(self, columns: usize) -> Vec<Buffer> {
        let mut parts = self.parts;
        if let [part] = parts.make_contiguous()
            && let Columns::Copied(columns) = &mut part.columns
        {
            return columns.drain(..).map(Buffer::from).collect();
        }
        let column = |number: usize| {
            let all = || parts.iter().map(|part| part.elements(number));
            let mut column = MutableBuffer::new(all().map(<[u8]>::len).sum());
            all().for_each(|elements| column.extend_from_slice(elements));
            column.into()
        };
        (0..columns).map(column).collect()
    }
}

impl Part {
    fn elements(&self, column: usize) -> &[u8] {
        match &self.columns {
            Columns::Copied(columns) => columns[column].as_slice(),
            Columns::Shared(arrays) => elements(&arrays[column]),
        }
    }

    /// How many bytes some of the rows have.
    fn bytes(&self, elements: &[u8], rows: usize) -> usize {
        elements.len().checked_div(self.rows).unwrap_or(0) * rows
    }

    /// Forgets the first rows. What is copied is moved to the front, into memory that is there.
    fn forget(&mut self, rows: usize) {
        let all = self.rows;
        self.rows -= rows;
        match &mut self.columns {
            Columns::Copied(columns) => {
                for column in columns {
                    let bytes = column.len() / all * rows;
                    column.as_slice_mut().copy_within(bytes.., 0);
                    column.truncate(column.len() - bytes);
                }
            }
            Columns::Shared(arrays) => {
                for array in arrays {
                    *array = array.slice(rows, all - rows);
                }
            }
        }
    }
}

/// The elements of an array.
fn elements(array: &ArrayRef) -> &[u8] {
    let array = array.as_ref();
    downcast_primitive_array!(
        array => array.values().inner().as_slice(),
        other => unreachable!("{other} is no number")
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;

    use super::*;

    /// Pushes of all sizes, in turn with rows that are forgotten.
    #[test]
    fn what_is_copied_and_what_is_shared_are_rows_in_order() {
        let mut values = Values::new();
        let (mut first, mut next) = (0, 0);
        let numbers = |bytes: &[u8]| {
            let words = bytes.as_chunks::<8>().0.iter();
            words
                .map(|word| i64::from_le_bytes(*word))
                .collect::<Vec<_>>()
        };
        for (push, forget) in [
            (3, 0),
            (600, 1),
            (1, 2),
            (512, 600),
            (700, 400),
            (5, 818),
            (4, 4),
            (511, 0),
            (2, 513),
            (900, 899),
        ] {
            let array: ArrayRef = Arc::new(Int64Array::from_iter_values(next..next + push));
            values.append(array.len(), std::iter::once(&array));
            next += push;
            values.forget(forget as usize);
            first += forget;
            assert_eq!(values.rows as i64, next - first);
            for row in [first, first.midpoint(next), next] {
                let parts = values.elements_from((row - first) as usize, 0);
                let mut found = Vec::new();
                for (rows, elements) in parts {
                    assert_eq!(8 * rows, elements.len());
                    found.extend(numbers(elements));
                }
                assert_eq!(found, (row..next).collect::<Vec<_>>());
            }
        }
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(next..next + 10));
        values.append(10, std::iter::once(&array));
        let columns = values.into_columns(1);
        let all = (first..next + 10).collect::<Vec<_>>();
        assert_eq!(numbers(&columns[0]), all);
    }
}
