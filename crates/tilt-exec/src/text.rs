//! Strings in loops: codes in the order of the strings, so that comparing codes compares strings. Where strings are still to come, and nothing asks for their order, codes only tell
//! them apart.

use std::{borrow::Borrow, cmp::Ordering, collections::HashMap, hash::Hash, sync::Arc};

use arrow_array::{
    Array, ArrayRef, LargeStringArray, StringArray, UInt32Array, cast::AsArray, types::UInt32Type,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use tilt_ir::{Agg, BinaryOp, DType, Expr, Program, Scalar};

use crate::{lists::Lists, words::Words};

/// All strings of a run, with their codes, and its lists.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    words: Listed,
    /// The codes of the program's constants.
    pub(crate) codes: HashMap<String, u32>,
    /// The columns that the dictionary was made from, as codes.
    columns: Vec<(ArrayRef, ArrayRef)>,
    /// What stands for lists.
    pub(crate) lists: Lists,
}

/// Strings by their codes.
#[derive(Debug)]
enum Listed {
    Sorted(Vec<Arc<str>>),
    /// The values of a column, which are sorted.
    Column(LargeStringArray),
    /// In the order in which they came.
    Came(Words<Arc<str>>),
}

impl Default for Listed {
    fn default() -> Self {
        Self::Sorted(Vec::new())
    }
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
        let constants: Vec<&str> = constants.collect();
        if constants.is_empty()
            && let Some(dictionary) = Self::of_sorted(columns)
        {
            return dictionary;
        }
        let mut words = Words::<&str>::default();
        let constants = constants.into_iter();
        let constants: Vec<(&str, u32)> =
            constants.map(|word| (word, words.number(word))).collect();
        let numbered: Vec<(&ArrayRef, Vec<u32>)> = columns
            .iter()
            .filter_map(|column| Some((*column, number_values(&mut words, column)?)))
            .collect();
        let words = words.all();
        let mut order: Vec<u32> = (0..words.len() as u32).collect();
        order.sort_unstable_by_key(|number| words[*number as usize]);
        let mut codes = vec![0; order.len()];
        for (code, number) in order.iter().enumerate() {
            codes[*number as usize] = code as u32;
        }
        let word = |number: &u32| Arc::from(words[*number as usize]);
        let code = |number: u32| codes.get(number as usize).copied().unwrap_or(0);
        Self {
            words: Listed::Sorted(order.iter().map(word).collect()),
            codes: constants
                .into_iter()
                .map(|(word, number)| (word.to_owned(), code(number)))
                .collect(),
            columns: numbered
                .into_iter()
                .map(|(column, numbers)| {
                    let of_values = numbers.into_iter().map(code).collect();
                    (Arc::clone(column), coded(column, of_values))
                })
                .collect(),
            lists: Lists::default(),
        }
    }

    /// The strings of some columns, if one of them has any, as values of a dictionary that are sorted: nothing has to be told apart then.
    fn of_sorted(columns: &[&ArrayRef]) -> Option<Self> {
        let has_text = |column: &&ArrayRef| holds_text(column.data_type());
        let mut texts = columns.iter().copied().filter(has_text);
        let (column, None) = (texts.next()?, texts.next()) else {
            return None;
        };
        let dictionary = column.as_dictionary_opt::<UInt32Type>()?;
        let words = dictionary.values().as_string_opt::<i64>()?;
        let are_sorted = || (1..words.len()).all(|i| words.value(i - 1) < words.value(i));
        if words.null_count() > 0 || !are_sorted() {
            return None;
        }
        let codes = dictionary.keys();
        let codes = UInt32Array::new(codes.values().clone(), codes.nulls().cloned());
        Some(Self {
            words: Listed::Column(words.clone()),
            columns: vec![(Arc::clone(column), Arc::new(codes))],
            ..Self::default()
        })
    }

    /// The strings of a program's constants, to which others are [added](Self::learn) as they come.
    pub(crate) fn growing(program: &Program) -> Self {
        let constants = Self::new(program, &[]);
        let mut came = Words::default();
        for code in 0..constants.len() {
            came.number(constants.word(code as u32));
        }
        Self {
            words: Listed::Came(came),
            ..constants
        }
    }

    fn len(&self) -> usize {
        match &self.words {
            Listed::Sorted(words) => words.len(),
            Listed::Column(words) => words.len(),
            Listed::Came(words) => words.len(),
        }
    }

    /// The word that has a code.
    pub(crate) fn word(&self, code: u32) -> &str {
        match &self.words {
            Listed::Sorted(words) => &words[code as usize],
            Listed::Column(words) => words.value(code as usize),
            Listed::Came(words) => &words.all()[code as usize],
        }
    }

    /// The same to keep.
    pub(crate) fn text(&self, code: u32) -> Arc<str> {
        match &self.words {
            Listed::Sorted(words) => Arc::clone(&words[code as usize]),
            Listed::Column(words) => words.value(code as usize).into(),
            Listed::Came(words) => Arc::clone(&words.all()[code as usize]),
        }
    }

    /// The code of a word, if they are sorted and it is one of them.
    fn code(&self, word: &str) -> Option<u32> {
        let (mut from, mut to) = (0, self.len() as u32);
        while from < to {
            let middle = from.midpoint(to);
            match self.word(middle).cmp(word) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// A column of strings as codes, those that are new added; `None` if there are more than anybody should keep, or the dictionary does not grow.
    pub(crate) fn learn(&mut self, column: &ArrayRef) -> Option<ArrayRef> {
        let Listed::Came(came) = &mut self.words else {
            return None;
        };
        let codes = learn(came, column)?;
        (came.len() <= MOST_WORDS).then_some(codes)
    }

    /// A column of strings as codes; one that the dictionary was made from, or another with the same strings.
    pub(crate) fn encode(&self, column: &ArrayRef) -> ArrayRef {
        let known = self.columns.iter().find(|(c, _)| Arc::ptr_eq(c, column));
        if let Some((_, coded)) = known {
            return Arc::clone(coded);
        }
        let mut words = Words::<&str>::default();
        let numbers = number_values(&mut words, column).unwrap_or_default();
        let codes = words.all().iter();
        let codes: Vec<u32> = codes.map(|word| self.code(word).unwrap_or(0)).collect();
        let code = |number: &u32| codes.get(*number as usize).copied().unwrap_or(0);
        coded(column, numbers.iter().map(code).collect())
    }

    /// Codes as a column of strings.
    pub(crate) fn decode(&self, codes: &UInt32Array) -> ArrayRef {
        decode(|code| self.word(code), codes)
    }
}

/// A column of strings as codes, words that are new added; `None` if it does not hold strings.
pub(crate) fn learn(words: &mut Words<Arc<str>>, column: &ArrayRef) -> Option<ArrayRef> {
    let codes = number_values(words, column)?;
    Some(coded(column, codes))
}

/// Codes as a column of strings, given what each stands for.
pub(crate) fn decode<'w>(word: impl Fn(u32) -> &'w str, codes: &UInt32Array) -> ArrayRef {
    let texts = codes.iter().map(|code| code.map(&word));
    Arc::new(texts.collect::<StringArray>())
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

/// The numbers of the strings of a column, of a dictionary those of its values; anything where they are null. `None` if it does not hold strings.
fn number_values<'c, W>(words: &mut Words<W>, column: &'c ArrayRef) -> Option<Vec<u32>>
where
    W: Borrow<str> + Hash + Eq + Clone + From<&'c str>,
{
    let number = |word: Option<&'c str>| word.map_or(0, |word| words.number(word));
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().map(number).collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().map(number).collect(),
        DataType::Utf8View => column.as_string_view().iter().map(number).collect(),
        DataType::Dictionary(_, _) => {
            let values = column.as_any_dictionary().values();
            let numbers = number_values(words, values)?;
            of_rows(values, numbers)
        }
        _ => return None,
    })
}

/// What rows of a column have, given that of its values: the same, but for a dictionary. Anything where they are null.
fn of_rows(column: &ArrayRef, of_values: Vec<u32>) -> Vec<u32> {
    let Some(dictionary) = column.as_any_dictionary_opt() else {
        return of_values;
    };
    let of_value = |value: usize| of_values.get(value).copied().unwrap_or(0);
    if let Some(keys) = dictionary.keys().as_primitive_opt::<UInt32Type>() {
        let keys = keys.values().iter();
        return keys.map(|key| of_value(*key as usize)).collect();
    }
    // All keys are null then, and cannot be normalized.
    if of_values.is_empty() {
        return vec![0; column.len()];
    }
    let keys = dictionary.normalized_keys().into_iter();
    keys.map(of_value).collect()
}

/// A column of strings as codes, given those of its values.
fn coded(column: &ArrayRef, of_values: Vec<u32>) -> ArrayRef {
    let nulls: Option<NullBuffer> = column.logical_nulls();
    // A dictionary in the order of its words has the codes already.
    let dictionary = column.as_any_dictionary_opt();
    if let Some(keys) = dictionary.and_then(|d| d.keys().as_primitive_opt::<UInt32Type>())
        && (0..).zip(&of_values).all(|(value, code)| value == *code)
    {
        return Arc::new(UInt32Array::new(keys.values().clone(), nulls));
    }
    Arc::new(UInt32Array::new(of_rows(column, of_values).into(), nulls))
}

/// Whether a column of a type holds strings.
fn holds_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => holds_text(values),
        _ => false,
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

    fn texts(dictionary: &Dictionary) -> Vec<&str> {
        let codes = 0..dictionary.len() as u32;
        codes.map(|code| dictionary.word(code)).collect()
    }

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
        assert_eq!(texts(&dictionary), ["m", "z", "a"]);
        let ordered = text.replace("==", "<");
        assert!(!are_only_told_apart(&parse(&ordered).expect("a program")));
    }

    #[test]
    fn a_dictionary_that_is_sorted_has_its_codes() {
        let text = "query q unit s { input ~x: utf8 point  ~y[t] = ~x[t]  output ~y }";
        let program = parse(text).expect("a program");
        for words in [["a", "b", "c"], ["a", "c", "b"], ["a", "a", "c"]] {
            let keys = UInt32Array::from(vec![Some(2), None, Some(0), Some(1)]);
            let of_rows = keys.iter().map(|key| key.map(|key| words[key as usize]));
            let plain: ArrayRef = Arc::new(of_rows.collect::<StringArray>());
            let words: ArrayRef = Arc::new(LargeStringArray::from(words.to_vec()));
            let column: ArrayRef = Arc::new(DictionaryArray::new(keys, words));
            let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![7; 4]));
            let expected = Dictionary::new(&program, &[&plain]);
            let found = Dictionary::new(&program, &[&numbers, &column]);
            assert_eq!(texts(&found), texts(&expected));
            assert_eq!(&found.encode(&column), &expected.encode(&plain));
            assert_eq!(&found.encode(&plain), &expected.encode(&plain));
            assert_eq!(&found.decode(found.encode(&column).as_primitive()), &plain);
        }
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
            texts(&dictionary),
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
