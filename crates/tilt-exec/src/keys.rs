//! Keys as numbers: a dense id for each key, in the order of the keys.
//!
//! Every key has a *word*, a `u64` that orders as `docs/ir.md` orders keys: null aside, all NaN have one, -0 and +0 have two.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    ops::Range,
    sync::Arc,
};

use arrow_array::{ArrayRef, BooleanArray, UInt32Array, cast::AsArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrow_select::take::take;
use tilt_codegen::lir::Ty;
use tilt_data::dtype::to_arrow;
use tilt_ir::DType;

use crate::{
    series::Leaf,
    text::{Dictionary, is_text},
    threads,
};

mod numbers;
mod short;

pub(crate) use numbers::{Less, Number, Numbers, TURN};
use short::Short;

/// Rows whose words are found together.
const BLOCK: usize = 1024;
/// Words that span no more than this are numbered by a table, however few rows there are.
const SMALL: u64 = 1 << 16;
const SIGN: u64 = 1 << 63;

/// The keys of a run, in order. The null key, if it occurs, has id 0.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) has_null: bool,
    words: Words,
}

#[derive(Debug)]
enum Words {
    /// Those of the keys that occur.
    Listed(Vec<u64>),
    /// All of a range, whether they occur or not.
    Range { first: u64, len: usize },
}

/// The id of every row of an input.
#[derive(Debug)]
pub(crate) enum Ids {
    Listed(Vec<u32>),
    /// The row's word less the first.
    Offset {
        keys: Leaf,
        first: u64,
    },
    Short(Short),
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        let words = match &self.words {
            Words::Listed(words) => words.len(),
            Words::Range { len, .. } => *len,
        };
        words + usize::from(self.has_null)
    }

    /// The word of a key; `None` for the null key.
    pub(crate) fn word(&self, id: u32) -> Option<u64> {
        let at = (id as usize).checked_sub(usize::from(self.has_null))?;
        Some(match &self.words {
            Words::Listed(words) => words[at],
            Words::Range { first, .. } => first + at as u64,
        })
    }

    /// Numbers the keys that occur in some columns of one type.
    pub(crate) fn number(columns: &[&Leaf], threads: usize) -> (Self, Vec<Ids>) {
        let rows: usize = columns.iter().map(|c| c.len).sum();
        let has_null = columns.iter().any(|c| c.valid.is_some());
        let base = u32::from(has_null);
        let (first, last) = extent_of_all(columns, threads).unwrap_or((0, 0));
        let span = last - first;
        let (words, ids) = if span < SMALL.max(4 * rows as u64) {
            let mut table = vec![0u32; span as usize + 1];
            for column in columns {
                each(column, 0..column.len, |_, word| {
                    if let Some(word) = word {
                        table[(word - first) as usize] = 1;
                    }
                });
            }
            let mut listed = Vec::new();
            for (offset, id) in table.iter_mut().enumerate().filter(|(_, id)| **id == 1) {
                *id = listed.len() as u32 + base;
                listed.push(first + offset as u64);
            }
            let number = |word| table[(word - first) as usize];
            let ids = columns.iter().map(|c| Ids::by(c, threads, number));
            (listed, ids.collect())
        } else {
            let mut ids: HashMap<u64, u32, BuildHasherDefault<WordHasher>> = HashMap::default();
            for column in columns {
                each(column, 0..column.len, |_, word| {
                    if let Some(word) = word {
                        ids.entry(word).or_default();
                    }
                });
            }
            let mut listed: Vec<u64> = ids.keys().copied().collect();
            listed.sort_unstable();
            for (id, word) in listed.iter().enumerate() {
                ids.insert(*word, id as u32 + base);
            }
            let number = |word| ids[&word];
            let ids = columns.iter().map(|c| Ids::by(c, threads, number));
            (listed, ids.collect())
        };
        let keys = Self {
            has_null,
            words: Words::Listed(words),
        };
        (keys, ids)
    }

    /// As [`number`](Self::number), but words that span little are their own numbers, without another pass: then there are keys that do
    /// not occur.
    pub(crate) fn number_quickly(columns: &[&Leaf], threads: usize) -> (Self, Vec<Ids>) {
        let rows = columns.iter().map(|c| c.len as u64).sum();
        let plain = |c: &&Leaf| c.valid.is_none() && !c.ty.is_float();
        if columns.iter().all(plain)
            && let Some((first, last)) = extent_of_all(columns, threads)
            && last - first < SMALL.max(rows)
        {
            let len = (last - first) as usize + 1;
            let keys = Self {
                has_null: false,
                words: Words::Range { first, len },
            };
            let ids = columns.iter().map(|column| Ids::Offset {
                keys: (*column).clone(),
                first,
            });
            return (keys, ids.collect());
        }
        Self::number(columns, threads)
    }

    /// As [`number_quickly`](Self::number_quickly), for ids that are read more than once.
    pub(crate) fn number_shortly(columns: &[&Leaf], threads: usize) -> (Self, Vec<Ids>) {
        let Some(found) = short::find(columns, threads) else {
            return Self::number_quickly(columns, threads);
        };
        let (first, len) = (found.first, found.len);
        let keys = Self {
            has_null: false,
            words: Words::Range { first, len },
        };
        (keys, found.ids.into_iter().map(Ids::Short).collect())
    }

    /// As [`number_quickly`](Self::number_quickly) one column, together with keys whose words are from one to another, of so many rows in all. `None` if words are not their own numbers.
    pub(crate) fn number_among(
        others: Option<(u64, u64)>,
        column: &Leaf,
        rows: usize,
        threads: usize,
    ) -> Option<(Self, Ids)> {
        if column.valid.is_some() || column.ty.is_float() {
            return None;
        }
        let extents = extent_of_all(&[column], threads).into_iter().chain(others);
        let (first, last) = extents.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        if last - first >= SMALL.max(rows as u64) {
            return None;
        }
        let keys = Self {
            has_null: false,
            words: Words::Range {
                first,
                len: (last - first) as usize + 1,
            },
        };
        let ids = Ids::Offset {
            keys: column.clone(),
            first,
        };
        Some((keys, ids))
    }

    /// The word of the first key, if keys are numbered by their words.
    pub(crate) fn first_word(&self) -> Option<u64> {
        match &self.words {
            Words::Listed(_) => None,
            Words::Range { first, .. } => Some(*first),
        }
    }

    /// A column of keys.
    pub(crate) fn column(
        &self,
        ids: Vec<u32>,
        ty: Ty,
        dtype: &DType,
        dictionary: &Dictionary,
    ) -> ArrayRef {
        let words = (0..self.len() as u32).map(|id| self.word(id));
        let nulls: NullBuffer = words.clone().map(|word| word.is_some()).collect();
        let bits = words.map(|word| word.map_or(0, |word| bits_of(word, ty)));
        let keys: ArrayRef = if ty == Ty::Bool {
            let bits: BooleanBuffer = bits.map(|b| b != 0).collect();
            Arc::new(BooleanArray::new(bits, Some(nulls)))
        } else {
            let mut bytes: Vec<u8> = Vec::with_capacity(self.len() * ty.bytes());
            for bits in bits {
                bytes.extend_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
            }
            let data_type = if is_text(dtype) {
                DataType::UInt32
            } else {
                to_arrow(dtype)
            };
            let data = ArrayData::builder(data_type)
                .len(self.len())
                .add_buffer(Buffer::from(bytes.as_slice()))
                .nulls(Some(nulls));
            make_array(data.build().expect("keys are values of their type"))
        };
        let column = take(&keys, &UInt32Array::from(ids), None).expect("ids are of keys");
        if is_text(dtype) {
            dictionary.decode(column.as_primitive())
        } else {
            column
        }
    }

    /// Whether each value of a column is the key with the id beside it.
    pub(crate) fn are(&self, column: &Leaf, ids: &[u32]) -> bool {
        let mut same = column.len == ids.len();
        each(column, 0..column.len, |row, word| {
            same &= ids.get(row).is_some_and(|id| self.word(*id) == word);
        });
        same
    }
}

impl Ids {
    /// The ids of all rows of a column, by their words.
    fn by(column: &Leaf, threads: usize, number: impl Fn(u64) -> u32 + Sync) -> Self {
        let mut ids = vec![0; column.len];
        threads::fill(&mut ids, threads, |_, rows, out| {
            let first = rows.start;
            each(column, rows, |row, word| {
                out[row - first] = word.map_or(0, &number);
            });
        });
        Self::Listed(ids)
    }

    /// Visits the ids of some rows in order.
    pub(crate) fn each(&self, rows: Range<usize>, mut visit: impl FnMut(usize, u32)) {
        self.blocks(rows, |rows, ids| {
            rows.zip(ids).for_each(|(row, id)| visit(row, *id));
        });
    }

    /// Visits some rows in order, many at once, with their ids.
    pub(crate) fn blocks(&self, rows: Range<usize>, mut visit: impl FnMut(Range<usize>, &[u32])) {
        let mut ids = [0; BLOCK];
        for start in rows.clone().step_by(BLOCK) {
            let block = start..rows.end.min(start + BLOCK);
            self.read(block.clone(), &mut ids);
            visit(block.clone(), &ids[..block.len()]);
        }
    }

    /// The id of a row.
    pub(crate) fn get(&self, row: usize) -> u32 {
        let mut id = [0];
        self.read(row..row + 1, &mut id);
        id[0]
    }

    /// The column that ids are read from, if they are its values.
    pub(crate) fn column(&self) -> Option<&Leaf> {
        match self {
            Self::Listed(_) | Self::Short(_) => None,
            Self::Offset { keys, .. } => Some(keys),
        }
    }

    /// The ids of some rows.
    pub(crate) fn read(&self, rows: Range<usize>, out: &mut [u32]) {
        match self {
            Self::Listed(ids) => out[..rows.len()].copy_from_slice(&ids[rows]),
            Self::Short(short) => short.read(rows, out),
            Self::Offset { keys, first } if matches!(keys.ty, Ty::I32 | Ty::U32) => {
                let first = bits_of(*first, keys.ty) as u32;
                let values: &[u32] = elements(keys, rows);
                for (out, value) in out.iter_mut().zip(values) {
                    *out = value.wrapping_sub(first);
                }
            }
            Self::Offset { keys, first } if matches!(keys.ty, Ty::I64 | Ty::U64) => {
                let first = bits_of(*first, keys.ty);
                let values: &[u64] = elements(keys, rows);
                for (out, value) in out.iter_mut().zip(values) {
                    *out = value.wrapping_sub(first) as u32;
                }
            }
            Self::Offset { keys, first } => {
                let mut words = [0; BLOCK];
                for start in rows.clone().step_by(BLOCK) {
                    let block = start..rows.end.min(start + BLOCK);
                    words_of(keys, block.clone(), &mut words);
                    let out = &mut out[start - rows.start..block.end - rows.start];
                    for (out, word) in out.iter_mut().zip(&words) {
                        *out = (word - first) as u32;
                    }
                }
            }
        }
    }
}

impl Ids {
    /// Whether no two rows have the same key and the same stamp; stamps do not decrease.
    pub(crate) fn differ_at_equal(&self, stamps: &[i64], keys: usize) -> bool {
        let mut last = vec![i64::MIN; keys];
        let mut ids = [0; BLOCK];
        (0..stamps.len()).step_by(BLOCK).all(|start| {
            let block = start..stamps.len().min(start + BLOCK);
            self.read(block.clone(), &mut ids);
            ids.iter()
                .zip(&stamps[block])
                .all(|(id, stamp)| std::mem::replace(&mut last[*id as usize], *stamp) != *stamp)
        })
    }
}

/// The least and the greatest word of some columns, nulls aside.
fn extent_of_all(columns: &[&Leaf], threads: usize) -> Option<(u64, u64)> {
    let extents = columns.iter().flat_map(|column| {
        let part = |rows| extent(column, rows);
        threads::in_parts(column.len, threads, part)
    });
    extents
        .flatten()
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The least and the greatest word of some rows, nulls aside.
fn extent(column: &Leaf, rows: Range<usize>) -> Option<(u64, u64)> {
    #[inline]
    fn least_and_greatest<T: Ord + Copy>(values: &[T]) -> Option<(T, T)> {
        let first = *values.first()?;
        let bounds = values.iter();
        Some(bounds.fold((first, first), |(low, high), v| (low.min(*v), high.max(*v))))
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn by_wide_vectors<T: Ord + Copy>(values: &[T]) -> Option<(T, T)> {
        least_and_greatest(values)
    }
    fn bounds<T: Ord + Copy>(column: &Leaf, rows: Range<usize>) -> Option<(T, T)> {
        let values = elements::<T>(column, rows);
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has what the function needs.
            return unsafe { by_wide_vectors(values) };
        }
        least_and_greatest(values)
    }
    let signed = |v: i64| v as u64 ^ SIGN;
    match column.ty {
        // The usual ones, side by side.
        Ty::I32 if column.valid.is_none() => {
            let (low, high) = bounds::<i32>(column, rows)?;
            Some((signed(low.into()), signed(high.into())))
        }
        Ty::I64 if column.valid.is_none() => {
            let (low, high) = bounds::<i64>(column, rows)?;
            Some((signed(low), signed(high)))
        }
        // Strings.
        Ty::U32 if column.valid.is_none() => {
            let (low, high) = bounds::<u32>(column, rows)?;
            Some((low.into(), high.into()))
        }
        _ => {
            let mut found = (u64::MAX, 0);
            each(column, rows, |_, word| {
                if let Some(word) = word {
                    found = (found.0.min(word), found.1.max(word));
                }
            });
            (found.0 <= found.1).then_some(found)
        }
    }
}

/// Visits some rows with their words.
fn each(column: &Leaf, rows: Range<usize>, mut visit: impl FnMut(usize, Option<u64>)) {
    let mut words = [0; BLOCK];
    for start in rows.clone().step_by(BLOCK) {
        let block = start..rows.end.min(start + BLOCK);
        words_of(column, block.clone(), &mut words);
        match &column.valid {
            None => block
                .zip(&words)
                .for_each(|(row, word)| visit(row, Some(*word))),
            Some(valid) => {
                for (row, word) in block.zip(&words) {
                    visit(row, valid.value(row).then_some(*word));
                }
            }
        }
    }
}

/// The words of some rows, whatever where a row is null.
fn words_of(column: &Leaf, rows: Range<usize>, out: &mut [u64]) {
    fn fill<T: Copy>(column: &Leaf, rows: Range<usize>, out: &mut [u64], word: impl Fn(T) -> u64) {
        for (out, value) in out.iter_mut().zip(elements::<T>(column, rows)) {
            *out = word(*value);
        }
    }
    let signed = |v: i64| v as u64 ^ SIGN;
    match column.ty {
        Ty::Bool => {
            let bits = column.bits().expect("bools are bits");
            for (out, row) in out.iter_mut().zip(rows) {
                *out = u64::from(bits.value(row));
            }
        }
        Ty::I8 => fill(column, rows, out, |v: i8| signed(v.into())),
        Ty::I16 => fill(column, rows, out, |v: i16| signed(v.into())),
        Ty::I32 => fill(column, rows, out, |v: i32| signed(v.into())),
        Ty::I64 => fill(column, rows, out, signed),
        Ty::U8 => fill(column, rows, out, |v: u8| v.into()),
        Ty::U16 => fill(column, rows, out, |v: u16| v.into()),
        Ty::U32 => fill(column, rows, out, |v: u32| v.into()),
        Ty::U64 => fill(column, rows, out, |v: u64| v),
        Ty::F32 => fill(column, rows, out, |v: f32| {
            let bits = if v.is_nan() { f32::NAN } else { v }.to_bits();
            let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            (bits ^ flip).into()
        }),
        Ty::F64 => fill(column, rows, out, |v: f64| {
            let bits = if v.is_nan() { f64::NAN } else { v }.to_bits();
            bits ^ if bits >> 63 == 1 { u64::MAX } else { SIGN }
        }),
    }
}

/// The value of a word, in the low bits.
fn bits_of(word: u64, ty: Ty) -> u64 {
    match ty {
        Ty::F32 => {
            word ^ if word >> 31 == 1 {
                1 << 31
            } else {
                u32::MAX.into()
            }
        }
        Ty::F64 => word ^ if word >> 63 == 1 { SIGN } else { u64::MAX },
        _ if ty.is_signed() => word ^ SIGN,
        _ => word,
    }
}

/// Whether two columns of one type hold the same keys.
pub(crate) fn are_same(a: &Leaf, b: &Leaf) -> bool {
    let mut words = Vec::with_capacity(a.len);
    each(a, 0..a.len, |_, word| words.push(word));
    let mut same = a.len == b.len;
    each(b, 0..b.len, |row, word| {
        same &= words.get(row) == Some(&word);
    });
    same
}

/// Some rows of a column whose elements are `T`.
fn elements<T: Copy>(column: &Leaf, rows: Range<usize>) -> &[T] {
    assert!(
        rows.end <= column.len && size_of::<T>() == column.ty.bytes(),
        "rows of the column"
    );
    // SAFETY: the rows exist, and a column's elements are aligned and any bits are a value of their type.
    unsafe { std::slice::from_raw_parts(column.at(rows.start as isize).cast(), rows.len()) }
}

/// Words are spread by one multiplication.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, BooleanArray, Float64Array, Int64Array};

    use super::*;

    fn leaf(array: impl Array + 'static, ty: Ty) -> Leaf {
        Leaf::of_array(&(Arc::new(array) as ArrayRef), ty)
    }

    fn ids(keys: &Leaf) -> (Keys, Vec<u32>) {
        let (numbered, ids) = Keys::number_quickly(&[keys], 1);
        let mut out = vec![0; keys.len];
        ids[0].read(0..keys.len, &mut out);
        assert!(numbered.are(keys, &out));
        (numbered, out)
    }

    #[test]
    fn ids_follow_the_order_of_keys() {
        let floats = vec![
            Some(0.0),
            Some(-0.0),
            None,
            Some(f64::NAN),
            Some(-f64::NAN),
            Some(-1e9),
        ];
        let (keys, found) = ids(&leaf(Float64Array::from(floats), Ty::F64));
        assert_eq!((keys.len(), found), (5, vec![3, 2, 0, 4, 4, 1]));

        let (_, found) = ids(&leaf(
            Int64Array::from(vec![i64::MAX, i64::MIN, 0, -1]),
            Ty::I64,
        ));
        assert_eq!(found, [3, 0, 2, 1]);

        let (keys, found) = ids(&leaf(Int64Array::from(vec![-3, 2, -3]), Ty::I64));
        assert_eq!((keys.len(), found), (6, vec![0, 5, 0]));

        let (_, found) = ids(&leaf(
            BooleanArray::from(vec![Some(true), None, Some(false)]),
            Ty::Bool,
        ));
        assert_eq!(found, [2, 0, 1]);
    }

    #[test]
    fn keys_come_back_as_they_were() {
        let dictionary = Dictionary::default();
        let floats = Float64Array::from(vec![Some(-1.5), None, Some(f64::INFINITY), Some(-0.0)]);
        let column = leaf(floats.clone(), Ty::F64);
        let (keys, ids) = ids(&column);
        let dtype = DType::Float(tilt_ir::FloatWidth::W64);
        assert_eq!(
            keys.column(ids, Ty::F64, &dtype, &dictionary).as_ref(),
            &floats as &dyn Array
        );
    }
}
