//! Keys that are strings, held as codes.
//!
//! Rows that are held are put together, and their keys told apart, at every part that looks back to them. So each string is looked up once, when its row comes; codes are copied
//! after that, and rows are shown with a dictionary of them. Codes order as the strings do, so that runs take them as they are; only when a string is new others may get another code.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, LargeStringArray, UInt32Array, cast::AsArray,
    types::UInt32Type,
};
use arrow_schema::DataType;
use tilt_data::{DataError, SnapshotBuffer};

use crate::{
    text::{decode, learn},
    words::Words,
};

/// So many words more than rows may be kept that no row has any more.
const SPARE: usize = 1 << 12;

/// The keys of an input as codes.
#[derive(Debug)]
pub(super) struct Coded {
    /// The column of keys.
    key: String,
    /// All words by their codes: first those that [`complete`](Self::complete) has seen, sorted, then others in the order in which they came.
    words: Words<Arc<str>>,
    /// The sorted words as a column.
    sorted: ArrayRef,
}

impl Coded {
    pub(super) fn new(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            words: Words::default(),
            sorted: column_of(&[]),
        }
    }

    /// A chunk whose keys are codes; as it is if they are no strings of the usual form.
    pub(super) fn encode(&mut self, chunk: &SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        let texts = self.keys_of(chunk);
        let texts = texts.filter(|(_, keys)| *keys.data_type() == DataType::Utf8);
        let codes = texts.and_then(|(at, keys)| Some((at, learn(&mut self.words, keys)?)));
        match codes {
            Some((at, codes)) => chunk.with_column(at, codes),
            None => Ok(chunk.clone()),
        }
    }

    /// Lets codes order as words do, and [`show`](Self::show) know all of them. All chunks that are held get the codes that they have from now on.
    pub(super) fn complete(
        &mut self,
        chunks: &mut VecDeque<SnapshotBuffer>,
    ) -> Result<(), DataError> {
        let words = self.words.all();
        if self.sorted.len() == words.len() {
            return Ok(());
        }
        let mut order: Vec<u32> = (0..words.len() as u32).collect();
        order.sort_by_key(|code| &words[*code as usize]);
        let mut moved = vec![0; order.len()];
        for (code, before) in order.iter().enumerate() {
            moved[*before as usize] = code as u32;
        }
        for chunk in chunks {
            if let Some((at, codes)) = self.codes_of(chunk) {
                *chunk = chunk.with_column(at, Arc::new(mapped(codes, &moved)))?;
            }
        }
        self.words.renumber(&moved);
        self.sorted = column_of(self.words.all());
        Ok(())
    }

    /// A chunk with its keys as strings of a dictionary, all of which are [complete](Self::complete).
    pub(super) fn show(&self, chunk: &SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        let Some((at, codes)) = self.codes_of(chunk) else {
            return Ok(chunk.clone());
        };
        assert_eq!(self.sorted.len(), self.words.len(), "all words are known");
        // SAFETY: codes are places in the list of words, which this column has, but for those of null keys, which nobody looks up.
        let keys =
            unsafe { DictionaryArray::new_unchecked(codes.clone(), Arc::clone(&self.sorted)) };
        chunk.with_column(at, Arc::new(keys))
    }

    /// A chunk with its keys as they came.
    pub(super) fn decode(&self, chunk: &SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        let Some((at, codes)) = self.codes_of(chunk) else {
            return Ok(chunk.clone());
        };
        chunk.with_column(at, decode(|code| &self.words.all()[code as usize], codes))
    }

    /// Forgets words that no row of some chunks has any more, if they may be most of all.
    pub(super) fn forget(
        &mut self,
        chunks: &mut VecDeque<SnapshotBuffer>,
        rows: usize,
    ) -> Result<(), DataError> {
        if self.words.len() <= 2 * rows + SPARE {
            return Ok(());
        }
        let before = std::mem::replace(self, Self::new(&self.key));
        for chunk in chunks {
            *chunk = self.encode(&before.decode(chunk)?)?;
        }
        Ok(())
    }

    fn codes_of<'c>(&self, chunk: &'c SnapshotBuffer) -> Option<(usize, &'c UInt32Array)> {
        let (at, keys) = self.keys_of(chunk)?;
        Some((at, keys.as_primitive_opt::<UInt32Type>()?))
    }

    fn keys_of<'c>(&self, chunk: &'c SnapshotBuffer) -> Option<(usize, &'c ArrayRef)> {
        let mut columns = chunk.columns().iter().enumerate();
        let (at, column) = columns.find(|(_, column)| column.name() == self.key)?;
        Some((at, column.array()))
    }
}

/// What stands for each number in a table; anything where it is null.
fn mapped(numbers: &UInt32Array, table: &[u32]) -> UInt32Array {
    let of_number = |number: &u32| table.get(*number as usize).copied().unwrap_or(0);
    let values = numbers.values().iter().map(of_number).collect();
    UInt32Array::new(values, numbers.nulls().cloned())
}

fn column_of(words: &[Arc<str>]) -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values(words))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use tilt_data::{Column, Spans, Timeline};
    use tilt_ir::Unit;

    use super::*;

    fn rows(keys: &[Option<&str>]) -> SnapshotBuffer {
        let column = Column::new("k", Arc::new(StringArray::from(keys.to_vec())));
        let timeline = Timeline::regular(1, 1, keys.len(), Spans::Fixed(1));
        SnapshotBuffer::record(timeline, vec![column], None, Unit::Tick).expect("as many rows")
    }

    fn texts(rows: &SnapshotBuffer) -> Vec<Option<String>> {
        let keys = rows.columns()[0].array().as_string::<i32>();
        keys.iter().map(|key| key.map(str::to_owned)).collect()
    }

    #[test]
    fn keys_come_back_as_they_were_and_codes_order_as_they_do() {
        let mut coded = Coded::new("k");
        let given = [
            &[Some("m"), None, Some("")][..],
            &[None],
            &[Some("z"), Some("a"), Some("m")],
            &[Some("a"), Some("b")],
        ];
        let mut chunks = VecDeque::new();
        for keys in given {
            chunks.push_back(coded.encode(&rows(keys)).expect("codes"));
            for (chunk, keys) in chunks.iter().zip(given) {
                assert_eq!(
                    texts(&coded.decode(chunk).expect("strings")),
                    texts(&rows(keys))
                );
            }
            coded.complete(&mut chunks).expect("codes");
            for (chunk, keys) in chunks.iter().zip(given) {
                assert_eq!(
                    texts(&coded.decode(chunk).expect("strings")),
                    texts(&rows(keys))
                );
                let shown = coded.show(chunk).expect("strings");
                let shown = shown.columns()[0].array().as_any_dictionary();
                let (words, codes) = (shown.values().as_string::<i64>(), shown.keys());
                assert!(words.iter().is_sorted());
                let codes = codes.as_primitive::<UInt32Type>().iter();
                let word = |code: u32| words.value(code as usize);
                let found: Vec<Option<&str>> = codes.map(|code| code.map(word)).collect();
                assert_eq!(found, keys);
            }
        }
        assert_eq!(coded.words.len(), 5);
    }

    #[test]
    fn words_that_no_row_has_are_forgotten() {
        let mut coded = Coded::new("k");
        let many: Vec<String> = (0..2 * SPARE).map(|i| i.to_string()).collect();
        let many: Vec<Option<&str>> = many.iter().map(|word| Some(word.as_str())).collect();
        let held = coded.encode(&rows(&many)).expect("codes");
        let mut chunks = VecDeque::from([held.slice(SPARE, 3), held.slice(7, 1)]);
        coded.forget(&mut chunks, 4).expect("codes");
        assert_eq!(coded.words.len(), 4);
        let found: Vec<_> = chunks.iter().map(|chunk| coded.decode(chunk)).collect();
        let found: Vec<_> = found
            .into_iter()
            .flat_map(|c| texts(&c.expect("strings")))
            .collect();
        let expected = ["4096", "4097", "4098", "7"].map(|word| Some(word.to_owned()));
        assert_eq!(found, expected);
    }
}
