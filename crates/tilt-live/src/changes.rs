//! Results that are revised: what is different between two versions of them.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_row::Rows;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::interleave::interleave;
use tilt_data::{DataError, Layout, SnapshotBuffer};
use tilt_ir::Span;

use crate::{edges::as_bytes, port::bytes};

/// Results as they were given out.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) events: Vec<Span>,
    pub(crate) rows: RecordBatch,
}

impl Given {
    pub(crate) fn of(part: &SnapshotBuffer, layout: Layout) -> Result<Self, DataError> {
        Ok(Self {
            events: part.positions().map(|row| part.event(row)).collect(),
            rows: part.to_record_batch(layout)?,
        })
    }

    /// Their bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        bytes(self.rows.columns().iter()) + self.events.len() * size_of::<Span>()
    }
}

/// Results with what tells them apart: the values of each row, and the key of rows of one interval.
struct Version<'a> {
    given: &'a Given,
    values: Rows,
    keys: Option<Rows>,
    /// The rows by end, start and key.
    order: Vec<usize>,
}

impl<'a> Version<'a> {
    fn of(given: &'a Given, key: Option<&str>) -> Result<Self, DataError> {
        let of_key = key.and_then(|key| given.rows.column_by_name(key));
        let mut version = Self {
            given,
            values: as_bytes(given.rows.columns())?,
            keys: of_key
                .map(|key| as_bytes(std::slice::from_ref(key)))
                .transpose()?,
            order: Vec::new(),
        };
        let mut order: Vec<usize> = (0..given.events.len()).collect();
        order.sort_by(|a, b| version.compare(*a, &version, *b));
        version.order = order;
        Ok(version)
    }

    fn compare(&self, row: usize, other: &Self, theirs: usize) -> Ordering {
        let (a, b) = (self.given.events[row], other.given.events[theirs]);
        let by_time = (a.end, a.start).cmp(&(b.end, b.start));
        by_time.then_with(|| match (&self.keys, &other.keys) {
            (Some(keys), Some(others)) => keys.row(row).cmp(&others.row(theirs)),
            _ => Ordering::Equal,
        })
    }

    /// The rows from the `at`-th on that have its interval and key.
    fn alike(&self, at: usize) -> Vec<usize> {
        let first = self.order[at];
        let rest = self.order[at..].iter().copied();
        rest.take_while(|row| self.compare(first, self, *row) == Ordering::Equal)
            .collect()
    }
}

/// The changes that make `after` of `before`: rows with a first column `op`, in order of end. An `update` has the new values, and the interval and key of the
/// row that it replaces, which no other row has.
pub(crate) fn changes(
    before: &Given,
    after: &Given,
    key: Option<&str>,
) -> Result<RecordBatch, DataError> {
    let (old, new) = (Version::of(before, key)?, Version::of(after, key)?);
    let (mut ops, mut places) = (Vec::new(), Vec::new());
    let mut emit = |op: &'static str, place: (usize, usize)| {
        ops.push(op);
        places.push(place);
    };
    let (mut left, mut right) = (0, 0);
    loop {
        let order = match (old.order.get(left), new.order.get(right)) {
            (Some(a), Some(b)) => old.compare(*a, &new, *b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        match order {
            Ordering::Less => {
                emit("delete", (0, old.order[left]));
                left += 1;
            }
            Ordering::Greater => {
                emit("insert", (1, new.order[right]));
                right += 1;
            }
            Ordering::Equal => {
                let (mut gone, mut come) = (old.alike(left), new.alike(right));
                (left, right) = (left + gone.len(), right + come.len());
                // Who reads an update must know which row it replaces.
                let is_one = gone.len() == 1 && come.len() == 1;
                gone.retain(|a| {
                    let mut rows = come.iter();
                    let same = rows.position(|b| old.values.row(*a) == new.values.row(*b));
                    same.map(|at| come.remove(at)).is_none()
                });
                if is_one && gone.len() == 1 && come.len() == 1 {
                    emit("update", (1, come[0]));
                    continue;
                }
                for row in gone {
                    emit("delete", (0, row));
                }
                for row in come {
                    emit("insert", (1, row));
                }
            }
        }
    }
    let mut fields: Vec<FieldRef> = vec![Arc::new(Field::new("op", DataType::Utf8, false))];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(ops))];
    for (i, field) in after.rows.schema().fields().iter().enumerate() {
        let arrays: [&dyn Array; 2] = [before.rows.column(i), after.rows.column(i)];
        columns.push(interleave(&arrays, &places)?);
        fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
    }
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}
