//! Keyed streams: one stream a key.

use std::{cmp::Ordering, collections::HashMap, hash::Hash, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrowPrimitiveType, PrimitiveArray,
    cast::AsArray,
    types::{
        DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
        DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::interleave::interleave;
use tilt_ir::Scalar;

use crate::{
    concat::check_same_columns,
    error::{DataError, Result},
    snapshot::{Column, Shape, SnapshotBuffer},
    timeline::{Spans, Stamps, Timeline},
};

/// A key; `None` is the key of the rows where it is null. All NaN are one key, -0 and +0 are two.
pub type Key = Option<Scalar>;

impl SnapshotBuffer {
    /// One stream for each value of a column, ordered by key with null first; rows keep their order. Copies each column
    /// once; the streams are slices of that copy.
    ///
    /// Under `until_next`, a row lasts until the next row of its own key, and the last one of every key is open, unless
    /// the whole was closed at an instant. Split first, then cut: a cut remembers the next stamp of any key.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn split_by_key(&self, column: &str) -> Result<Vec<(Key, Self)>> {
        let groups = self.groups(column)?;
        let rows: Vec<usize> = groups.rows.iter().map(|r| *r as usize).collect();
        // Grouped rows are not in time order as a whole, so their common timeline is only a place for the values.
        let grouped =
            self.gather_onto(Timeline::regular(0, 1, rows.len(), Spans::Fixed(1)), &rows)?;
        let split = groups.iter().map(|(key, range)| {
            let rows = &rows[range.clone()];
            let timeline = match self.timeline().spans() {
                Spans::UntilNext { next } => Timeline::explicit(
                    rows.iter().map(|i| self.timeline().stamp(*i)).collect(),
                    Spans::UntilNext { next: *next },
                ),
                _ => self.timeline().gather(rows),
            };
            let stream = grouped.slice(range.start, range.len()).on(timeline);
            (key.clone(), stream)
        });
        Ok(split.collect())
    }

    /// The rows of each key in a column.
    pub(crate) fn groups(&self, column: &str) -> Result<Groups> {
        let keys = self
            .column(column)
            .ok_or_else(|| DataError::MissingColumn {
                column: column.to_owned(),
                columns: self.columns().iter().map(|c| c.name().to_owned()).collect(),
            })?;
        Groups::of(column, keys.array())
    }

    /// One buffer of all events of several streams, ordered by end and at equal ends by stream: what
    /// [`split_by_key`](Self::split_by_key) takes apart. Rows that are no events are left out. Copies each column once.
    ///
    /// # Errors
    /// When streams differ in their columns, shape or unit.
    ///
    /// # Panics
    /// Without streams.
    pub fn merge(streams: &[Self]) -> Result<Self> {
        let first = &streams[0];
        check_same_columns(streams)?;
        let mut ends: Vec<(i64, usize, usize)> = Vec::new();
        for (stream, buffer) in streams.iter().enumerate() {
            let timeline = buffer.timeline();
            ends.extend(
                buffer
                    .positions()
                    .map(|row| (timeline.end(row), stream, row)),
            );
        }
        // Stable: streams keep their order, and rows theirs.
        ends.sort_by_key(|(end, ..)| *end);
        let rows: Vec<(usize, usize)> = ends.into_iter().map(|(_, s, row)| (s, row)).collect();

        // Keep a common shift, so that intervals still go out as they came in.
        let shift = match first.timeline().shift() {
            shift if streams.iter().all(|s| s.timeline().shift() == shift) => shift,
            _ => 0,
        };
        let times = |time: fn(&Timeline, usize) -> i64| {
            let time = |(s, row): &(usize, usize)| time(streams[*s].timeline(), *row) - shift;
            rows.iter().map(time).collect()
        };
        let ends = times(Timeline::end);
        let same_rule =
            |d: i64| move |s: &Self| matches!(s.timeline().spans(), Spans::Fixed(e) if *e == d);
        let timeline = match first.timeline().spans() {
            Spans::Fixed(d) if streams.iter().all(same_rule(*d)) => {
                Timeline::new(Stamps::Explicit(ends), shift, Spans::Fixed(*d))
            }
            _ => Timeline::shifted_intervals(times(Timeline::start), ends, shift),
        };

        let mut columns = Vec::with_capacity(first.columns().len());
        for (i, column) in first.columns().iter().enumerate() {
            let arrays = streams.iter().map(|s| s.columns()[i].array().as_ref());
            let arrays: Vec<&dyn Array> = arrays.collect();
            columns.push(Column {
                field: Arc::clone(column.field()),
                array: interleave(&arrays, &rows)?,
            });
        }
        let merged = match first.shape() {
            Shape::Scalar => {
                let column = columns.pop().expect("a scalar stream has a column");
                Self::scalar(timeline, column, first.unit())?
            }
            Shape::Record => Self::record(timeline, columns, None, first.unit())?,
        };
        Ok(merged.with_time_columns(first.time_columns().clone()))
    }
}

/// Rows by key.
pub(crate) struct Groups {
    keys: Vec<Key>,
    /// All rows, those of one key together and in order.
    pub(crate) rows: Vec<u64>,
    /// Where in `rows` each key begins, and the end.
    bounds: Vec<usize>,
}

impl Groups {
    /// The rows of a key column, ordered by key with null first.
    pub(crate) fn of(name: &str, array: &dyn Array) -> Result<Self> {
        fn ints<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array) -> Groups {
            group(primitives::<T, i64>(array), Scalar::Int)
        }
        fn uints<T: ArrowPrimitiveType<Native: Into<u64>>>(array: &dyn Array) -> Groups {
            group(primitives::<T, u64>(array), Scalar::UInt)
        }
        fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &dyn Array) -> Groups {
            let bits = primitives::<T, f64>(array).map(|v| v.map(canonical_bits));
            group(bits, |v| Scalar::Float(f64::from_bits(v)))
        }
        Ok(match array.data_type() {
            DataType::Boolean => group(array.as_boolean().iter(), Scalar::Bool),
            DataType::Int8 => ints::<Int8Type>(array),
            DataType::Int16 => ints::<Int16Type>(array),
            DataType::Int32 => ints::<Int32Type>(array),
            DataType::Int64 => ints::<Int64Type>(array),
            DataType::UInt8 => uints::<UInt8Type>(array),
            DataType::UInt16 => uints::<UInt16Type>(array),
            DataType::UInt32 => uints::<UInt32Type>(array),
            DataType::UInt64 => uints::<UInt64Type>(array),
            DataType::Float16 => floats::<Float16Type>(array),
            DataType::Float32 => floats::<Float32Type>(array),
            DataType::Float64 => floats::<Float64Type>(array),
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => ints::<TimestampSecondType>(array),
                TimeUnit::Millisecond => ints::<TimestampMillisecondType>(array),
                TimeUnit::Microsecond => ints::<TimestampMicrosecondType>(array),
                TimeUnit::Nanosecond => ints::<TimestampNanosecondType>(array),
            },
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => ints::<DurationSecondType>(array),
                TimeUnit::Millisecond => ints::<DurationMillisecondType>(array),
                TimeUnit::Microsecond => ints::<DurationMicrosecondType>(array),
                TimeUnit::Nanosecond => ints::<DurationNanosecondType>(array),
            },
            DataType::Dictionary(_, _) => {
                // Entries of a dictionary may repeat or be null: number the different ones first.
                let dictionary = array.as_any_dictionary();
                let entries = Self::of(name, dictionary.values())?;
                let mut codes = vec![None; dictionary.values().len()];
                for (code, (key, range)) in entries.iter().enumerate() {
                    for row in &entries.rows[range] {
                        codes[*row as usize] = key.is_some().then_some(code);
                    }
                }
                if codes.is_empty() {
                    return Ok(group((0..array.len()).map(|_| None::<bool>), Scalar::Bool));
                }
                let nulls = array.nulls();
                let rows = dictionary.normalized_keys().into_iter().enumerate();
                let rows =
                    rows.map(|(i, k)| codes[k].filter(|_| nulls.is_none_or(|n| n.is_valid(i))));
                group(rows, |code| {
                    entries.keys[code]
                        .clone()
                        .expect("codes are of keys that are not null")
                })
            }
            DataType::Utf8 => strings(array.as_string::<i32>().iter()),
            DataType::LargeUtf8 => strings(array.as_string::<i64>().iter()),
            DataType::Utf8View => strings(array.as_string_view().iter()),
            found => {
                return Err(DataError::UnsupportedType {
                    column: name.to_owned(),
                    found: found.clone(),
                });
            }
        })
    }

    /// Every key with its place in [`rows`](Self::rows).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, Range<usize>)> {
        let ranges = self.bounds.windows(2).map(|w| w[0]..w[1]);
        self.keys.iter().zip(ranges)
    }
}

fn primitives<T: ArrowPrimitiveType<Native: Into<N>>, N>(
    array: &dyn Array,
) -> impl Iterator<Item = Option<N>> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.iter().map(|value| value.map(Into::into))
}

fn strings<'a>(rows: impl Iterator<Item = Option<&'a str>>) -> Groups {
    group(rows, |text| Scalar::Str(text.to_owned()))
}

/// One pass that numbers the keys, then a counting sort of the rows.
fn group<K: Hash + Eq + Copy>(
    rows: impl Iterator<Item = Option<K>>,
    to_scalar: impl Fn(K) -> Scalar,
) -> Groups {
    let mut numbers: HashMap<Option<K>, usize> = HashMap::new();
    let mut keys: Vec<Key> = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    let number_of_row: Vec<usize> = rows
        .map(|key| {
            let number = *numbers.entry(key).or_insert_with(|| {
                keys.push(key.map(&to_scalar));
                counts.push(0);
                keys.len() - 1
            });
            counts[number] += 1;
            number
        })
        .collect();

    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| compare(&keys[*a], &keys[*b]));
    let mut next = vec![0; keys.len()];
    let mut bounds = vec![0];
    for number in &order {
        let begin = bounds[bounds.len() - 1];
        next[*number] = begin;
        bounds.push(begin + counts[*number]);
    }
    let mut grouped = vec![0; number_of_row.len()];
    for (row, number) in number_of_row.into_iter().enumerate() {
        grouped[next[number]] = row as u64;
        next[number] += 1;
    }
    Groups {
        keys: order.iter().map(|number| keys[*number].clone()).collect(),
        rows: grouped,
        bounds,
    }
}

/// The order of keys of one column: null first, strings by bytes.
fn compare(a: &Key, b: &Key) -> Ordering {
    match (a, b) {
        (Some(Scalar::Bool(a)), Some(Scalar::Bool(b))) => a.cmp(b),
        (Some(Scalar::Int(a)), Some(Scalar::Int(b))) => a.cmp(b),
        (Some(Scalar::UInt(a)), Some(Scalar::UInt(b))) => a.cmp(b),
        (Some(Scalar::Float(a)), Some(Scalar::Float(b))) => a.total_cmp(b),
        (Some(Scalar::Str(a)), Some(Scalar::Str(b))) => a.cmp(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn canonical_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}
