//! Keys that are strings, held as codes.
//!
//! Rows that are held are put together, and their keys told apart, at every part that looks back to them. So each string is looked up once, when its row comes; codes are copied
//! after that, and rows are shown with a dictionary of them.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, LargeStringArray, UInt32Array, cast::AsArray,
    types::UInt32Type,
};
use arrow_schema::DataType;
use tilt_data::{Column, DataError, SnapshotBuffer};

use crate::{
    text::{decode, learn},
    words::Words,
};

/// So many words more than rows may be kept that no row has any more.
const SPARE: usize = 1 << 12;

/// The keys of an input as codes, in the order in which they came.
#[derive(Debug)]
pub(super) struct Coded {
    /// The column of keys.
    key: String,
    words: Words<Arc<str>>,
    /// The words as a column; some of the last may be missing.
    column: ArrayRef,
}

impl Coded {
    pub(super) fn new(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            words: Words::default(),
            column: column_of(&[]),
        }
    }

    /// A chunk whose keys are codes; as it is if they are no strings of the usual form.
    pub(super) fn encode(&mut self, chunk: &SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        let texts = self.keys_of(chunk);
        let texts = texts.filter(|(_, keys)| *keys.data_type() == DataType::Utf8);
        match texts.and_then(|(at, keys)| Some((at, learn(&mut self.words, keys)?))) {
            Some((at, codes)) => with_column(chunk, at, codes),
            None => Ok(chunk.clone()),
        }
    }

    /// Lets [`show`](Self::show) know all words.
    pub(super) fn complete(&mut self) {
        if self.column.len() < self.words.len() {
            self.column = column_of(self.words.all());
        }
    }

    /// A chunk with its keys as strings of a dictionary.
    pub(super) fn show(&self, chunk: &SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        let Some((at, codes)) = self.codes_of(chunk) else {
            return Ok(chunk.clone());
        };
        let keys = DictionaryArray::try_new(codes.clone(), Arc::clone(&self.column))?;
        with_column(chunk, at, Arc::new(keys))
    }

    /// A chunk with its keys as they came.
    pub(super) fn decode(&self, chunk: &SnapshotBuffer) -> Result<SnapshotBuffer, DataError> {
        let Some((at, codes)) = self.codes_of(chunk) else {
            return Ok(chunk.clone());
        };
        with_column(chunk, at, decode(self.words.all(), codes))
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

fn column_of(words: &[Arc<str>]) -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values(words))
}

/// The same rows with another column.
fn with_column(
    rows: &SnapshotBuffer,
    at: usize,
    array: ArrayRef,
) -> Result<SnapshotBuffer, DataError> {
    let mut columns = rows.columns().to_vec();
    columns[at] = Column::new(columns[at].name(), array);
    let nulls = rows.validity().cloned();
    let rows_with = SnapshotBuffer::record(rows.timeline().clone(), columns, nulls, rows.unit())?;
    Ok(rows_with.with_time_columns(rows.time_columns().clone()))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use tilt_data::{Spans, Timeline};
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
    fn keys_come_back_as_they_were() {
        let mut coded = Coded::new("k");
        for keys in [&[Some("a"), None, Some("")][..], &[Some("b"), Some("a")]] {
            let chunk = rows(keys);
            let held = coded.encode(&chunk).expect("codes");
            coded.complete();
            let shown = coded.show(&held).expect("strings");
            let shown = shown.columns()[0].array().as_any_dictionary();
            assert_eq!(shown.len(), keys.len());
            assert_eq!(shown.null_count(), chunk.columns()[0].array().null_count());
            assert_eq!(texts(&coded.decode(&held).expect("strings")), texts(&chunk));
        }
        assert_eq!(coded.words.len(), 3);
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
