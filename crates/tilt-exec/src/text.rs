//! Strings in loops: codes in the order of the strings, so that comparing codes compares strings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow_array::{Array, ArrayRef, StringArray, UInt32Array, cast::AsArray};
use arrow_schema::DataType;
use tilt_ir::{DType, Expr, Program, Scalar};

/// All strings of a run, sorted, with their codes.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) words: Vec<String>,
    pub(crate) codes: HashMap<String, u32>,
}

impl Dictionary {
    /// The strings of some columns and of a program's constants.
    pub(crate) fn new(program: &Program, columns: &[&ArrayRef]) -> Self {
        let mut words: BTreeSet<String> = BTreeSet::new();
        for (_, node) in program.exprs.iter() {
            if let Expr::Const(Scalar::Str(text), _) = &node.expr {
                words.insert(text.clone());
            }
        }
        for column in columns {
            for_each(column, &mut |_, word| {
                if let Some(word) = word
                    && !words.contains(word)
                {
                    words.insert(word.to_owned());
                }
            });
        }
        let words: Vec<String> = words.into_iter().collect();
        let codes = words.iter().enumerate().map(|(i, w)| (w.clone(), i as u32));
        Self {
            codes: codes.collect(),
            words,
        }
    }

    /// A column of strings as codes.
    pub(crate) fn encode(&self, column: &ArrayRef) -> ArrayRef {
        let mut codes: Vec<Option<u32>> = vec![None; column.len()];
        for_each(column, &mut |row, word| {
            codes[row] = word.map(|w| self.codes[w]);
        });
        std::sync::Arc::new(UInt32Array::from(codes))
    }

    /// Codes as a column of strings.
    pub(crate) fn decode(&self, codes: &UInt32Array) -> ArrayRef {
        let words = codes
            .iter()
            .map(|code| code.map(|c| self.words[c as usize].as_str()));
        std::sync::Arc::new(words.collect::<StringArray>())
    }
}

fn for_each(column: &ArrayRef, visit: &mut dyn FnMut(usize, Option<&str>)) {
    match column.data_type() {
        DataType::Utf8 => column
            .as_string::<i32>()
            .iter()
            .enumerate()
            .for_each(|(i, w)| visit(i, w)),
        DataType::LargeUtf8 => column
            .as_string::<i64>()
            .iter()
            .enumerate()
            .for_each(|(i, w)| visit(i, w)),
        DataType::Utf8View => column
            .as_string_view()
            .iter()
            .enumerate()
            .for_each(|(i, w)| visit(i, w)),
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            let mut words: BTreeMap<usize, String> = BTreeMap::new();
            for_each(dictionary.values(), &mut |i, w| {
                if let Some(w) = w {
                    words.insert(i, w.to_owned());
                }
            });
            let keys = dictionary.normalized_keys();
            for (row, key) in keys.into_iter().enumerate() {
                let word = column.is_valid(row).then(|| words.get(&key)).flatten();
                visit(row, word.map(String::as_str));
            }
        }
        _ => {}
    }
}

/// Whether a type is a string.
pub(crate) fn is_text(dtype: &DType) -> bool {
    *dtype == DType::Utf8
}
