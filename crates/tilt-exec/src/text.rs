//! Strings in loops: codes in the order of the strings, so that comparing codes compares strings. Where strings are still to come, and nothing asks for their order, codes only tell
//! them apart.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, StringArray, UInt32Array, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use tilt_ir::{Agg, BinaryOp, DType, Expr, Program, Scalar};

use crate::lists::Lists;

/// All strings of a run, sorted, with their codes, and its lists.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) words: Vec<String>,
    /// The codes of the program's constants.
    pub(crate) codes: HashMap<String, u32>,
    /// The columns that the dictionary was made from, as codes.
    columns: Vec<(ArrayRef, ArrayRef)>,
    /// The codes of all words, where these are in the order in which they came.
    came: Option<HashMap<String, u32, Mixing>>,
    /// What stands for lists.
    pub(crate) lists: Lists,
}

impl Dictionary {
    /// The strings of some columns and of a program's constants.
    pub(crate) fn new(program: &Program, columns: &[&ArrayRef]) -> Self {
        let constants = program
            .exprs
            .iter()
            .filter_map(|(_, node)| match &node.expr {
                Expr::Const(Scalar::Str(text), _) => Some(&**text),
                _ => None,
            });
        let mut distinct = Distinct::default();
        let constants: Vec<(&str, u32)> = constants
            .map(|word| (word, distinct.number(word)))
            .collect();
        let numbered: Vec<(&ArrayRef, Vec<u32>)> = columns
            .iter()
            .filter_map(|column| Some((*column, distinct.number_all(column)?)))
            .collect();
        let mut order: Vec<u32> = (0..distinct.words.len() as u32).collect();
        order.sort_unstable_by_key(|number| distinct.words[*number as usize]);
        let mut codes = vec![0; order.len()];
        for (code, number) in order.iter().enumerate() {
            codes[*number as usize] = code as u32;
        }
        let word = |number: &u32| distinct.words[*number as usize].to_owned();
        Self {
            words: order.iter().map(word).collect(),
            codes: constants
                .into_iter()
                .map(|(word, number)| (word.to_owned(), codes[number as usize]))
                .collect(),
            columns: numbered
                .into_iter()
                .map(|(column, numbers)| {
                    let code = |number: &u32| codes.get(*number as usize).copied().unwrap_or(0);
                    let coded = numbers.iter().map(code).collect();
                    (Arc::clone(column), with_nulls_of(column, coded))
                })
                .collect(),
            came: None,
            lists: Lists::default(),
        }
    }

    /// The strings of a program's constants, to which others are [added](Self::learn) as they come.
    pub(crate) fn growing(program: &Program) -> Self {
        let constants = Self::new(program, &[]);
        Self {
            came: Some(constants.codes.clone().into_iter().collect()),
            ..constants
        }
    }

    /// A column of strings as codes, those that are new added; `None` if there are more than anybody should keep, or the dictionary does not grow.
    pub(crate) fn learn(&mut self, column: &ArrayRef) -> Option<ArrayRef> {
        let came = self.came.as_mut()?;
        let mut distinct = Distinct::default();
        let numbers = distinct.number_all(column)?;
        let mut codes = Vec::with_capacity(distinct.words.len());
        for word in distinct.words {
            let code = came.get(word).copied();
            codes.push(code.unwrap_or_else(|| {
                let code = self.words.len() as u32;
                self.words.push(word.to_owned());
                came.insert(word.to_owned(), code);
                code
            }));
        }
        let code = |number: &u32| codes.get(*number as usize).copied().unwrap_or(0);
        let coded = with_nulls_of(column, numbers.iter().map(code).collect());
        (self.words.len() <= MOST_WORDS).then_some(coded)
    }

    /// A column of strings as codes; one that the dictionary was made from, or another with the same strings.
    pub(crate) fn encode(&self, column: &ArrayRef) -> ArrayRef {
        let known = self.columns.iter().find(|(c, _)| Arc::ptr_eq(c, column));
        if let Some((_, coded)) = known {
            return Arc::clone(coded);
        }
        let mut distinct = Distinct::default();
        let numbers = distinct.number_all(column).unwrap_or_default();
        let code = |word: &&str| self.words.binary_search_by(|w| w.as_str().cmp(word));
        let codes: Vec<u32> = distinct
            .words
            .iter()
            .map(|word| code(word).map_or(0, |code| code as u32))
            .collect();
        let code = |number: &u32| codes.get(*number as usize).copied().unwrap_or(0);
        with_nulls_of(column, numbers.iter().map(code).collect())
    }

    /// Codes as a column of strings.
    pub(crate) fn decode(&self, codes: &UInt32Array) -> ArrayRef {
        let words = codes
            .iter()
            .map(|code| code.map(|c| self.words[c as usize].as_str()));
        Arc::new(words.collect::<StringArray>())
    }
}

/// How many words a dictionary that grows keeps before it begins anew.
const MOST_WORDS: usize = 1 << 20;

/// Whether a program only tells strings apart, and never asks for their order or looks inside.
pub(crate) fn are_only_told_apart(program: &Program) -> bool {
    program.exprs.iter().all(|(_, node)| match &node.expr {
        Expr::Binary(BinaryOp::Eq | BinaryOp::Ne, ..) => true,
        Expr::Binary(_, a, b) => !is_text(program.dtype(*a)) && !is_text(program.dtype(*b)),
        Expr::Unary(_, a) => !is_text(program.dtype(*a)),
        Expr::Reduce {
            agg: Agg::Len | Agg::First | Agg::Last,
            ..
        } => true,
        Expr::Reduce { window, map, .. } => {
            let whole = program.stream_dtype(window.stream);
            !has_text(map.map_or(whole, |map| program.dtype(map)))
        }
        _ => true,
    })
}

fn has_text(dtype: &DType) -> bool {
    match dtype {
        DType::Record(fields) => fields.iter().any(|field| has_text(&field.dtype)),
        dtype => is_text(dtype),
    }
}

fn with_nulls_of(column: &ArrayRef, codes: Vec<u32>) -> ArrayRef {
    let nulls: Option<NullBuffer> = column.logical_nulls();
    Arc::new(UInt32Array::new(codes.into(), nulls))
}

/// Strings as they are met, numbered from 0.
#[derive(Default)]
struct Distinct<'c> {
    numbers: HashMap<&'c str, u32, Mixing>,
    words: Vec<&'c str>,
}

/// What stands for null.
const NULL: u32 = u32::MAX;

impl<'c> Distinct<'c> {
    fn number(&mut self, word: &'c str) -> u32 {
        let next = self.words.len() as u32;
        let number = *self.numbers.entry(word).or_insert(next);
        if number == next {
            self.words.push(word);
        }
        number
    }

    /// The numbers of a column's rows; `None` if it does not hold strings.
    fn number_all(&mut self, column: &'c ArrayRef) -> Option<Vec<u32>> {
        let mut number = |word: Option<&'c str>| word.map_or(NULL, |word| self.number(word));
        Some(match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().iter().map(number).collect(),
            DataType::LargeUtf8 => column.as_string::<i64>().iter().map(number).collect(),
            DataType::Utf8View => column.as_string_view().iter().map(&mut number).collect(),
            DataType::Dictionary(_, _) => {
                let dictionary = column.as_any_dictionary();
                // All keys are null then, and cannot be normalized.
                if dictionary.values().is_empty() {
                    return Some(vec![NULL; column.len()]);
                }
                let numbers = self.number_all(dictionary.values())?;
                let keys = dictionary.normalized_keys().into_iter().enumerate();
                let number = |(row, key): (usize, usize)| {
                    let number = numbers.get(key).filter(|_| column.is_valid(row));
                    number.copied().unwrap_or(NULL)
                };
                keys.map(number).collect()
            }
            _ => return None,
        })
    }
}

/// Mixes eight bytes at a time, from a beginning that nobody outside the process knows.
#[derive(Clone)]
pub(crate) struct Mixing(u64);

impl Default for Mixing {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Mixing {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

pub(crate) struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length keeps strings apart that differ by zeros only.
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }
}

/// Whether a type is a string.
pub(crate) fn is_text(dtype: &DType) -> bool {
    *dtype == DType::Utf8
}

#[cfg(test)]
mod tests {
    use arrow_array::{DictionaryArray, StringViewArray, types::Int8Type};
    use tilt_ir::parse;

    use super::*;

    #[test]
    fn words_that_come_later_are_told_apart_from_all_before() {
        let text = r#"query q unit s { input ~x: utf8 point  ~y[t] = ~x[t] == "m"  output ~y }"#;
        let program = parse(text).expect("a program");
        assert!(are_only_told_apart(&program));
        let mut dictionary = Dictionary::growing(&program);
        let mut codes = |words: Vec<Option<&str>>| -> Vec<Option<u32>> {
            let column: ArrayRef = Arc::new(StringArray::from(words));
            let codes = dictionary.learn(&column).expect("few words");
            codes
                .as_primitive::<arrow_array::types::UInt32Type>()
                .iter()
                .collect()
        };
        let constant = Some(0);
        assert_eq!(
            codes(vec![Some("z"), None, Some("m")]),
            [Some(1), None, constant]
        );
        assert_eq!(codes(vec![Some("a"), Some("z")]), [Some(2), Some(1)]);
        assert_eq!(dictionary.words, ["m", "z", "a"]);
        let ordered = text.replace("==", "<");
        assert!(!are_only_told_apart(&parse(&ordered).expect("a program")));
    }

    #[test]
    fn codes_order_like_strings_whatever_column_they_are_in() {
        let text = r#"query q unit s { input ~x: utf8 point  ~y[t] = ~x[t] < "m"  output ~y }"#;
        let program = parse(text).expect("a program");
        let strings: ArrayRef = Arc::new(StringArray::from(vec![
            Some("z"),
            None,
            Some(""),
            Some("a long word, longer than eight bytes"),
        ]));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), None, Some("z")]));
        let coded: DictionaryArray<Int8Type> = vec![Some("b"), None, Some("m"), Some("b")]
            .into_iter()
            .collect();
        let coded: ArrayRef = Arc::new(coded);
        let dictionary = Dictionary::new(&program, &[&strings, &views, &coded]);
        assert_eq!(
            dictionary.words,
            ["", "a long word, longer than eight bytes", "b", "m", "z"]
        );
        assert_eq!(dictionary.codes["m"], 3);
        let codes = |column: &ArrayRef| -> Vec<Option<u32>> {
            let codes = dictionary.encode(column);
            codes
                .as_primitive::<arrow_array::types::UInt32Type>()
                .iter()
                .collect()
        };
        assert_eq!(codes(&strings), [Some(4), None, Some(0), Some(1)]);
        assert_eq!(codes(&views), [Some(2), None, Some(4)]);
        assert_eq!(codes(&coded), [Some(2), None, Some(3), Some(2)]);
        // A part of a column is another column.
        assert_eq!(codes(&strings.slice(2, 2)), [Some(0), Some(1)]);
        let decoded = dictionary.decode(dictionary.encode(&strings).as_primitive());
        assert_eq!(&decoded, &strings);
    }
}
