//! Rows of small pushes, put together as they come.
//!
//! Making an Arrow array costs more than the few values that a small push has. So its values are [put together](values) with others, and one array is made for many pushes.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use tilt_data::{Column, DataError, SnapshotBuffer, Spans, Stamps, Timeline};

use values::Values;

mod values;

/// Pushes of more rows are not put together: looking at them as they are costs less.
const SMALL: usize = 1 << 11;
/// So many rows are worth arrays of their own.
const FULL: usize = 1 << 17;

/// Events of one length, whose values are numbers, none of them null.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The same without rows.
    like: SnapshotBuffer,
    length: i64,
    ends: Ends,
    values: Values,
    /// The first rows, which nobody needs any more.
    gone: usize,
    /// The first rows, which were [passed on](Self::pass_on).
    passed_on: usize,
}

#[derive(Debug)]
enum Ends {
    Regular { t0: i64, period: i64, len: usize },
    Explicit(Vec<i64>),
}

/// Where rows end, which are in order.
#[derive(Clone, Copy, Debug)]
pub enum EndsOf<'a> {
    /// A period apart.
    Regular {
        /// The first.
        t0: i64,
        /// Not negative.
        period: i64,
        /// How many.
        len: usize,
    },
    /// Anywhere.
    Explicit(&'a [i64]),
}

impl<'a> EndsOf<'a> {
    /// Of events of one length, at least one, and that length; `None` of others.
    pub fn of(timeline: &'a Timeline) -> Option<(Self, i64)> {
        let Spans::Fixed(length) = *timeline.spans() else {
            return None;
        };
        if timeline.is_empty() || timeline.shift() != 0 {
            return None;
        }
        let ends = match timeline.stamps() {
            Stamps::Regular { t0, period, .. } => Self::Regular {
                t0: *t0,
                period: *period,
                len: timeline.len(),
            },
            Stamps::Explicit(stamps) => Self::Explicit(stamps),
        };
        Some((ends, length))
    }

    /// How many rows there are.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        match self {
            Self::Regular { len, .. } => *len,
            Self::Explicit(ends) => ends.len(),
        }
    }

    pub(crate) fn first(&self) -> i64 {
        match self {
            Self::Regular { t0, .. } => *t0,
            Self::Explicit(ends) => ends[0],
        }
    }

    pub(crate) fn last(&self) -> i64 {
        match self {
            Self::Regular { t0, period, len } => {
                t0.wrapping_add(period.wrapping_mul(*len as i64 - 1))
            }
            Self::Explicit(ends) => ends[ends.len() - 1],
        }
    }
}

/// Rows of a tail that are passed on.
#[derive(Debug)]
pub(crate) struct Fresh<'a> {
    tail: &'a Tail,
    first: usize,
}

impl Tail {
    /// The rows of a chunk; `None` if they are not copied.
    pub(crate) fn of(chunk: &SnapshotBuffer) -> Option<Self> {
        let (ends, length) = EndsOf::of(chunk.timeline())?;
        let is_plain = ends.len() <= SMALL && chunk.null_rows() == 0;
        if !is_plain || !chunk.columns().iter().all(is_number) {
            return None;
        }
        let mut tail = Self {
            like: chunk.slice(0, 0),
            length,
            ends: match ends {
                EndsOf::Regular { t0, period, .. } => Ends::Regular { t0, period, len: 0 },
                EndsOf::Explicit(_) => Ends::Explicit(Vec::new()),
            },
            values: Values::new(),
            gone: 0,
            passed_on: 0,
        };
        tail.append(ends, chunk.columns().iter().map(Column::array));
        Some(tail)
    }

    /// Whether the rows of a chunk can be appended.
    pub(crate) fn is_followed_by(&self, chunk: &SnapshotBuffer) -> bool {
        let is_like = |(a, b): (&Column, &Column)| {
            std::sync::Arc::ptr_eq(a.field(), b.field())
                || a.name() == b.name() && a.array().data_type() == b.array().data_type()
        };
        EndsOf::of(chunk.timeline()).is_some_and(|(ends, length)| self.goes_on_at(ends, length))
            && chunk.unit() == self.like.unit()
            && chunk.shape() == self.like.shape()
            && chunk.null_rows() == 0
            && chunk.columns().len() == self.like.columns().len()
            && chunk
                .columns()
                .iter()
                .all(|column| column.array().null_count() == 0)
            && self.like.columns().iter().zip(chunk.columns()).all(is_like)
    }

    /// Whether events, a few, go on as those before did.
    fn goes_on_at(&self, ends: EndsOf, length: i64) -> bool {
        let goes_on = match (&self.ends, ends) {
            (
                Ends::Regular { t0, period, len },
                EndsOf::Regular {
                    t0: next,
                    period: p,
                    ..
                },
            ) => *period == p && t0.wrapping_add(period.wrapping_mul(*len as i64)) == next,
            (Ends::Regular { .. }, EndsOf::Explicit(_)) => false,
            (Ends::Explicit(_), _) => true,
        };
        goes_on && length == self.length && ends.len() <= SMALL && self.len() < FULL
    }

    /// Whether values, a column each, can be appended with their events.
    pub(crate) fn goes_on_with<'a>(
        &self,
        ends: EndsOf,
        length: i64,
        values: impl ExactSizeIterator<Item = &'a ArrayRef>,
    ) -> bool {
        let rows = ends.len();
        values.len() == self.like.columns().len()
            && self.goes_on_at(ends, length)
            && self.like.columns().iter().zip(values).all(|(like, array)| {
                let array = array.as_ref();
                array.len() == rows
                    && array.null_count() == 0
                    && array.data_type() == like.array().data_type()
            })
    }

    /// Appends events that can be, and their values, a column each.
    pub(crate) fn append<'a>(&mut self, ends: EndsOf, values: impl Iterator<Item = &'a ArrayRef>) {
        match (&mut self.ends, ends) {
            (Ends::Regular { len, .. }, _) => *len += ends.len(),
            (Ends::Explicit(all), EndsOf::Explicit(ends)) => all.extend_from_slice(ends),
            (Ends::Explicit(all), EndsOf::Regular { t0, period, len }) => {
                all.extend((0..len as i64).map(|row| t0 + period * row));
            }
        }
        self.values.append(ends.len(), values);
    }

    /// How many rows there are that somebody needs.
    pub(crate) fn len(&self) -> usize {
        self.all() - self.gone
    }

    fn all(&self) -> usize {
        match &self.ends {
            Ends::Regular { len, .. } => *len,
            Ends::Explicit(ends) => ends.len(),
        }
    }

    /// How many of the rows end at or before `t`.
    pub(crate) fn ends_until(&self, t: i64) -> usize {
        let until = match &self.ends {
            Ends::Explicit(ends) => ends.partition_point(|end| *end <= t),
            Ends::Regular { t0, period, len } => {
                let rows = (i128::from(t) - i128::from(*t0)).div_euclid(i128::from(*period)) + 1;
                rows.clamp(0, *len as i128) as usize
            }
        };
        until.saturating_sub(self.gone)
    }

    /// Where a row ends.
    pub(crate) fn end(&self, row: usize) -> i64 {
        match &self.ends {
            Ends::Explicit(ends) => ends[self.gone + row],
            Ends::Regular { t0, period, .. } => {
                t0.wrapping_add(period.wrapping_mul((self.gone + row) as i64))
            }
        }
    }

    /// Where a row starts.
    pub(crate) fn start(&self, row: usize) -> i64 {
        self.end(row).saturating_sub(self.length)
    }

    /// Forgets the first rows.
    pub(crate) fn forget(&mut self, rows: usize) {
        self.gone += rows;
        let (gone, all) = (self.gone, self.all());
        // Those that stay are moved to the front when they are the fewer.
        if gone == 0 || gone < all - gone {
            return;
        }
        match &mut self.ends {
            Ends::Regular { t0, period, len } => {
                *t0 = t0.wrapping_add(period.wrapping_mul(gone as i64));
                *len -= gone;
            }
            Ends::Explicit(ends) => drop(ends.drain(..gone)),
        }
        self.values.forget(gone);
        (self.gone, self.passed_on) = (0, self.passed_on.saturating_sub(gone));
    }

    /// Whether there are rows that were not passed on yet.
    pub(crate) fn has_fresh(&self) -> bool {
        self.passed_on < self.all()
    }

    /// The rows that were not passed on yet; they are from now on.
    pub(crate) fn pass_on(&mut self) -> Option<Fresh<'_>> {
        let (first, all) = (self.passed_on, self.all());
        self.passed_on = all;
        (first < all).then_some(Fresh { tail: self, first })
    }

    /// All rows as a chunk.
    pub(crate) fn into_chunk(self) -> Result<SnapshotBuffer, DataError> {
        let (gone, len, all) = (self.gone, self.len(), self.all());
        let spans = Spans::Fixed(self.length);
        let timeline = match self.ends {
            Ends::Regular { t0, period, len } => Timeline::regular(t0, period, len, spans),
            Ends::Explicit(ends) => Timeline::explicit(ends.into(), spans),
        };
        let like = self.like.columns();
        let columns = like.iter().zip(self.values.into_columns(like.len()));
        let arrays = columns.map(|(column, values)| {
            let data_type = column.array().data_type().clone();
            let data = ArrayData::builder(data_type).len(all).add_buffer(values);
            // SAFETY: elements of arrays of this type one after the other, in memory that is aligned for any.
            make_array(unsafe { data.build_unchecked() })
        });
        let chunk = self.like.with_rows(timeline, arrays.collect(), None)?;
        Ok(if gone > 0 {
            chunk.slice(gone, len)
        } else {
            chunk
        })
    }
}

impl<'a> Fresh<'a> {
    pub(crate) fn length(&self) -> i64 {
        self.tail.length
    }

    pub(crate) fn ends(&self) -> EndsOf<'a> {
        match &self.tail.ends {
            Ends::Regular { t0, period, len } => EndsOf::Regular {
                t0: t0.wrapping_add(period.wrapping_mul(self.first as i64)),
                period: *period,
                len: len - self.first,
            },
            Ends::Explicit(ends) => EndsOf::Explicit(&ends[self.first..]),
        }
    }

    /// The elements of a column, part by part, each with how many rows it has; of the first without a name.
    pub(crate) fn column(
        &self,
        name: Option<&str>,
    ) -> Option<impl Iterator<Item = (usize, &'a [u8])> + use<'a>> {
        let mut columns = self.tail.like.columns().iter();
        let at = columns.position(|column| name.is_none_or(|name| column.name() == name))?;
        Some(self.tail.values.elements_from(self.first, at))
    }
}

/// Whether a column has numbers that loops read as they are.
fn is_number(column: &Column) -> bool {
    let array = column.array();
    let data_type = array.data_type();
    data_type.primitive_width().is_some()
        && *data_type != DataType::Float16
        && array.null_count() == 0
}
