//! Running loops on columns by the interpreter that checks every access.

use crate::lir::Sink;
use std::ptr;

use super::parsed;
use crate::{
    abi::{Args, Target, View},
    lir::{Imm, interpret, verify},
};

/// A Rust type with its name in the text.
pub(super) trait Element: Copy + PartialEq + std::fmt::Debug {
    const TY: &str;
}

macro_rules! elements {
    ($($ty:ident),*) => { $(impl Element for $ty { const TY: &str = stringify!($ty); })* };
}
elements!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// A column in memory.
#[derive(Clone, Default)]
pub(super) struct Column {
    /// Aligned for every type.
    pub(super) words: Vec<u64>,
    pub(super) validity: Vec<u8>,
    pub(super) index: Vec<u32>,
    pub(super) len: u64,
}

pub(super) fn packed(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |b, bit| b << 1 | u8::from(*bit));
    bits.chunks(8).map(byte).collect()
}

pub(super) fn unpacked(bytes: &[u8], len: usize) -> Vec<bool> {
    (0..len).map(|i| bytes[i / 8] >> (i % 8) & 1 == 1).collect()
}

impl Column {
    pub(super) fn new<T: Element>(values: &[T]) -> Self {
        let mut words = vec![0; size_of_val(values).div_ceil(8)];
        // SAFETY: the words have room for the values.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), words.as_mut_ptr().cast(), values.len());
        }
        let len = values.len() as u64;
        Self {
            words,
            len,
            ..Self::default()
        }
    }

    pub(super) fn bools(values: &[bool]) -> Self {
        let len = values.len() as u64;
        Self {
            len,
            ..Self::new(&packed(values))
        }
    }

    pub(super) fn valid_if(self, bits: &[bool]) -> Self {
        Self {
            validity: packed(bits),
            ..self
        }
    }

    pub(super) fn by(self, index: &[u32]) -> Self {
        Self {
            index: index.to_vec(),
            ..self
        }
    }

    pub(super) fn get<T: Element>(&self) -> Vec<T> {
        assert!(self.len as usize * size_of::<T>() <= self.words.len() * 8);
        let values: *const T = self.words.as_ptr().cast();
        // SAFETY: the words hold as many values, and any bits are a number.
        (0..self.len as usize)
            .map(|i| unsafe { *values.add(i) })
            .collect()
    }

    pub(super) fn get_bools(&self) -> Vec<bool> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        unpacked(&bytes, self.len as usize)
    }

    pub(super) fn view(&self) -> View {
        let or_null = |bytes: &[u8]| {
            if bytes.is_empty() {
                ptr::null()
            } else {
                bytes.as_ptr()
            }
        };
        View {
            values: self.words.as_ptr().cast(),
            validity: or_null(&self.validity),
            index: if self.index.is_empty() {
                ptr::null()
            } else {
                self.index.as_ptr()
            },
            lead: 0,
            len: self.len,
        }
    }
}

/// Arguments without anything.
pub(super) const NOTHING: Args = Args {
    views: ptr::null(),
    targets: ptr::null(),
    params: ptr::null(),
    state: ptr::null_mut(),
    ranges: ptr::null(),
    first: 0,
    rows: 0,
    ahead: ptr::null(),
    step: 0,
};

/// A view of plain values.
pub(super) fn view(values: *const u8, lead: u64, len: u64) -> View {
    View {
        values,
        validity: ptr::null(),
        index: ptr::null(),
        lead,
        len,
    }
}

/// A target of plain values.
pub(super) fn target(values: *mut u8, len: u64) -> Target {
    Target {
        values,
        validity: ptr::null_mut(),
        len,
    }
}

/// What a loop is run with besides its text.
#[derive(Default)]
pub(super) struct Call<'a> {
    pub(super) columns: &'a [Column],
    pub(super) params: &'a [Imm],
    pub(super) state: &'a [u64],
    pub(super) ranges: &'a [[i64; 2]],
    pub(super) first: i64,
    pub(super) rows: usize,
}

pub(super) struct Outcome {
    pub(super) columns: Vec<Column>,
    pub(super) state: Vec<u64>,
}

pub(super) fn run(text: &str, call: &Call) -> Outcome {
    let l = parsed(text);
    verify(&l).unwrap_or_else(|error| panic!("{error}"));
    let rows = call.rows.max(call.ranges.len());
    let blank = Column {
        words: vec![u64::MAX; rows],
        validity: vec![0xff; rows.div_ceil(8)],
        len: rows as u64,
        ..Column::default()
    };
    let mut columns = vec![blank; l.targets().len()];
    let targets: Vec<_> = columns
        .iter_mut()
        .map(|column| Target {
            values: column.words.as_mut_ptr().cast(),
            validity: column.validity.as_mut_ptr(),
            len: column.len,
        })
        .collect();
    let views: Vec<_> = call.columns.iter().map(Column::view).collect();
    assert_eq!(
        (views.len(), call.params.len()),
        (l.accesses.len(), l.params.len())
    );
    let params: Vec<_> = call.params.iter().map(|imm| imm.bits).collect();
    let mut state = call.state.to_vec();
    // A scan of all rows, unless ranges are given.
    let all = [[0, rows as i64]];
    let ranges = match l.sink {
        Sink::Scan { .. } if call.ranges.is_empty() => &all[..],
        _ => call.ranges,
    };
    let stores = matches!(l.sink, Sink::Store { .. } | Sink::Panes { .. });
    let args = Args {
        views: views.as_ptr(),
        targets: targets.as_ptr(),
        params: params.as_ptr(),
        state: state.as_mut_ptr(),
        ranges: ranges.as_ptr().cast(),
        first: call.first,
        rows: if stores { rows } else { ranges.len() } as u64,
        ahead: ptr::null(),
        step: 0,
    };
    // SAFETY: there is a view for each access, a target for each column and a word for each parameter; the lengths are true.
    unsafe { interpret(&l, &raw const args) };
    Outcome { columns, state }
}

/// Runs an instruction over columns whose values are `%0`, `%1` … and gives its results.
pub(super) fn results(inst: &str, columns: &[(&str, Column)]) -> Column {
    let n = columns.len();
    let mut text = String::from("loop l lanes 8 {");
    for (k, (ty, _)) in columns.iter().enumerate() {
        text.push_str(&format!(" access x{k}: {ty} row"));
    }
    for k in 0..n {
        text.push_str(&format!(" %{k} = load x{k}"));
    }
    text.push_str(&format!(" %{n} = {inst} store %{n} }}"));
    let columns: Vec<_> = columns.iter().map(|(_, column)| column.clone()).collect();
    let rows = columns[0].len as usize;
    let call = Call {
        columns: &columns,
        rows,
        ..Call::default()
    };
    run(&text, &call).columns.remove(0)
}

pub(super) fn unary<T: Element>(op: &str, a: &[T]) -> Vec<T> {
    results(&format!("{op} %0"), &[(T::TY, Column::new(a))]).get()
}

pub(super) fn binary<T: Element>(op: &str, a: &[T], b: &[T]) -> Vec<T> {
    let columns = [(T::TY, Column::new(a)), (T::TY, Column::new(b))];
    results(&format!("{op} %0, %1"), &columns).get()
}

pub(super) fn compare<T: Element>(op: &str, a: &[T], b: &[T]) -> Vec<bool> {
    let columns = [(T::TY, Column::new(a)), (T::TY, Column::new(b))];
    results(&format!("{op} %0, %1"), &columns).get_bools()
}

pub(super) fn retyped<A: Element, B: Element>(inst: &str, a: &[A]) -> Vec<B> {
    results(&format!("{inst} %0: {}", B::TY), &[(A::TY, Column::new(a))]).get()
}

pub(super) fn bits_of(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}
