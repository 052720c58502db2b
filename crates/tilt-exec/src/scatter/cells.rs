//! States: one number for each key, joined by an operation. That of integers does not look at the order.

use tilt_codegen::{
    abi::{Target, View},
    lir::{Combine, LANES, Ty},
};

use crate::{memory::Plain, view};

/// Numbers of one type, with room for a whole group after the last.
#[derive(Debug)]
pub(super) struct Cells {
    op: Combine,
    ty: Ty,
    len: usize,
    words: Vec<u64>,
    neutral: u64,
}

/// Calls a function with a type and an operation.
macro_rules! typed {
    ($cells:expr, $call:ident $args:tt) => {
        match ($cells.op, $cells.ty) {
            (Combine::Add, Ty::F64) => typed!(@ $call, f64, |a: f64, b: f64| a + b, $args),
            (Combine::Mul, Ty::F64) => typed!(@ $call, f64, |a: f64, b: f64| a * b, $args),
            (Combine::Add, Ty::U32 | Ty::I32) => typed!(@ $call, u32, u32::wrapping_add, $args),
            (Combine::Add, _) => typed!(@ $call, u64, u64::wrapping_add, $args),
            (Combine::Or, _) => typed!(@ $call, u64, |a: u64, b: u64| a | b, $args),
            (Combine::Min, Ty::I8) => typed!(@ $call, i8, Ord::min, $args),
            (Combine::Min, Ty::I16) => typed!(@ $call, i16, Ord::min, $args),
            (Combine::Min, Ty::I32) => typed!(@ $call, i32, Ord::min, $args),
            (Combine::Min, Ty::I64) => typed!(@ $call, i64, Ord::min, $args),
            (Combine::Min, Ty::U8) => typed!(@ $call, u8, Ord::min, $args),
            (Combine::Min, Ty::U16) => typed!(@ $call, u16, Ord::min, $args),
            (Combine::Min, Ty::U32) => typed!(@ $call, u32, Ord::min, $args),
            (Combine::Min, _) => typed!(@ $call, u64, Ord::min, $args),
            (Combine::Max, Ty::I8) => typed!(@ $call, i8, Ord::max, $args),
            (Combine::Max, Ty::I16) => typed!(@ $call, i16, Ord::max, $args),
            (Combine::Max, Ty::I32) => typed!(@ $call, i32, Ord::max, $args),
            (Combine::Max, Ty::I64) => typed!(@ $call, i64, Ord::max, $args),
            (Combine::Max, Ty::U8) => typed!(@ $call, u8, Ord::max, $args),
            (Combine::Max, Ty::U16) => typed!(@ $call, u16, Ord::max, $args),
            (Combine::Max, Ty::U32) => typed!(@ $call, u32, Ord::max, $args),
            (Combine::Max, _) => typed!(@ $call, u64, Ord::max, $args),
            (op, ty) => unreachable!("{op:?} of {ty:?} is not supported"),
        }
    };
    (@ $call:ident, $ty:ty, $op:expr, ($($arg:expr),*)) => { $call::<$ty>($op, $($arg),*) };
}

impl Cells {
    /// Whether the order of such an operation does not matter.
    pub(super) fn supports(op: Combine, ty: Ty) -> bool {
        match op {
            Combine::Add => matches!(ty, Ty::I64 | Ty::U64),
            Combine::Min | Combine::Max => ty.is_int(),
            _ => false,
        }
    }

    /// Neutral elements.
    pub(super) fn new(op: Combine, ty: Ty, len: usize) -> Self {
        let bytes = (len + LANES).next_multiple_of(LANES) * ty.bytes();
        let mut cells = Self {
            op,
            ty,
            len,
            words: vec![0; bytes / 8],
            neutral: op.neutral(ty).bits,
        };
        cells.clear_all();
        cells
    }

    pub(super) fn clear_all(&mut self) {
        self.clear_first(self.len);
    }

    /// Makes the first `len` elements neutral.
    pub(super) fn clear_first(&mut self, len: usize) {
        let neutral = self.neutral;
        match self.ty.bytes() {
            1 => cells_mut::<u8>(&mut self.words)[..len].fill(neutral as u8),
            2 => cells_mut::<u16>(&mut self.words)[..len].fill(neutral as u16),
            4 => cells_mut::<u32>(&mut self.words)[..len].fill(neutral as u32),
            _ => self.words[..len].fill(neutral),
        }
    }

    /// Makes one element neutral.
    pub(super) fn clear(&mut self, at: usize) {
        let neutral = self.neutral;
        match self.ty.bytes() {
            1 => cells_mut::<u8>(&mut self.words)[at] = neutral as u8,
            2 => cells_mut::<u16>(&mut self.words)[at] = neutral as u16,
            4 => cells_mut::<u32>(&mut self.words)[at] = neutral as u32,
            _ => self.words[at] = neutral,
        }
    }

    /// Sets some elements of 32 or 64 bits.
    pub(super) fn set(
        &mut self,
        keys: impl Iterator<Item = usize>,
        of_key: impl FnMut(usize) -> u64,
    ) {
        fn fill<T: Plain>(
            state: &mut [u64],
            keys: impl Iterator<Item = usize>,
            mut of_key: impl FnMut(usize) -> T,
        ) {
            let state = cells_mut::<T>(state);
            keys.for_each(|key| state[key] = of_key(key));
        }
        let mut of_key = of_key;
        match self.ty.bits() {
            32 => fill(&mut self.words, keys, |key| of_key(key) as u32),
            64 => fill(&mut self.words, keys, of_key),
            bits => unreachable!("no element has {bits} bits"),
        }
    }

    /// All elements, of whatever type, as words.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Makes all elements the same.
    pub(super) fn fill(&mut self, bits: u64) {
        let neutral = std::mem::replace(&mut self.neutral, bits);
        self.clear_all();
        self.neutral = neutral;
    }

    /// Elements of a column of words.
    pub(super) fn copy(&mut self, words: &[u64]) {
        self.words[..words.len()].copy_from_slice(words);
    }

    /// Elements from `first` on, to be read.
    pub(super) fn view(&self, first: usize) -> View {
        View {
            values: self
                .words
                .as_ptr()
                .cast::<u8>()
                .wrapping_add(first * self.ty.bytes()),
            len: (self.words.len() * 8 / self.ty.bytes() - first) as u64,
            ..view::nothing()
        }
    }

    /// All elements, to be written.
    pub(super) fn target(&mut self) -> Target {
        Target {
            values: self.words.as_mut_ptr().cast(),
            validity: std::ptr::null_mut(),
            len: (self.words.len() * 8 / self.ty.bytes()) as u64,
        }
    }
}

/// Rows between two requests for what is read next.
pub(super) const STRETCH: usize = 64;

/// Counts the rows of each key.
pub(super) fn count(ids: &[u32], state: &mut Cells) {
    let state = cells_mut::<u32>(&mut state.words);
    for id in ids {
        state[*id as usize] += 1;
    }
}

/// Joins each value to the state of its key. Calls `between` after some rows, with how many there were.
pub(super) fn scatter(ids: &[u32], values: &[u64], state: &mut Cells, between: impl FnMut(usize)) {
    fn join<T: Plain>(
        op: impl Fn(T, T) -> T,
        ids: &[u32],
        values: &[u64],
        state: &mut [u64],
        mut between: impl FnMut(usize),
    ) {
        let state = cells_mut::<T>(state);
        let values = cells::<T>(values).chunks(STRETCH);
        for (ids, values) in ids.chunks(STRETCH).zip(values) {
            for (id, value) in ids.iter().zip(values) {
                let state = &mut state[*id as usize];
                *state = op(*state, *value);
            }
            between(ids.len());
        }
    }
    typed!(state, join(ids, values, &mut state.words, between));
}

/// Joins the values of some rows to the states of their keys, and calls `between` as [`scatter`] does.
pub(super) fn scatter_some(
    ids: &[u32],
    rows: &[u32],
    values: &[u64],
    state: &mut Cells,
    between: impl FnMut(usize),
) {
    fn join<T: Plain>(
        op: impl Fn(T, T) -> T,
        ids: &[u32],
        rows: &[u32],
        values: &[u64],
        state: &mut [u64],
        between: impl FnMut(usize),
    ) {
        let (values, state) = (cells::<T>(values), cells_mut::<T>(state));
        each_of(ids, rows, between, |id, row| {
            state[id] = op(state[id], values[row]);
        });
    }
    typed!(state, join(ids, rows, values, &mut state.words, between));
}

/// As [`scatter_some`] for two sums at once, which are often a total and a count.
pub(super) fn scatter_sums(
    ids: &[u32],
    rows: &[u32],
    [a, b]: [&[u64]; 2],
    [to_a, to_b]: [&mut Cells; 2],
    between: impl FnMut(usize),
) {
    let (to_a, to_b) = (&mut to_a.words[..], &mut to_b.words[..]);
    each_of(ids, rows, between, |id, row| {
        to_a[id] = to_a[id].wrapping_add(a[row]);
        to_b[id] = to_b[id].wrapping_add(b[row]);
    });
}

/// Visits some rows with the ids of their keys.
#[inline]
fn each_of(
    ids: &[u32],
    rows: &[u32],
    mut between: impl FnMut(usize),
    mut visit: impl FnMut(usize, usize),
) {
    let mut before = 0;
    for (ids, rows) in ids.chunks(STRETCH).zip(rows.chunks(STRETCH)) {
        for (id, row) in ids.iter().zip(rows) {
            visit(*id as usize, *row as usize);
        }
        let last = rows.last().map_or(0, |row| *row as usize + 1);
        between(last - before);
        before = last;
    }
}

/// Bits above which no magnitude of some words has any.
pub(super) fn magnitude(words: impl Iterator<Item = u64>, signed: bool) -> u64 {
    if signed {
        // A number and its double first differ above its magnitude.
        words.fold(0, |all, word| all | (word ^ (word << 1))) >> 1
    } else {
        words.fold(0, |all, word| all | word)
    }
}

/// Joins states key by key.
pub(super) fn combine(total: &mut Cells, states: &Cells) {
    fn join<T: Plain>(op: impl Fn(T, T) -> T, total: &mut [u64], states: &[u64]) {
        for (total, state) in cells_mut::<T>(total).iter_mut().zip(cells::<T>(states)) {
            *total = op(*total, *state);
        }
    }
    typed!(total, join(&mut total.words, &states.words));
}

/// Joins the states of some keys.
pub(super) fn gather(total: &mut Cells, states: &Cells, keys: &[u32]) {
    fn join<T: Plain>(op: impl Fn(T, T) -> T, total: &mut [u64], states: &[u64], keys: &[u32]) {
        let states = cells::<T>(states);
        for (total, key) in cells_mut::<T>(total).iter_mut().zip(keys) {
            *total = op(*total, states[*key as usize]);
        }
    }
    typed!(total, join(&mut total.words, &states.words, keys));
}

fn cells<T: Plain>(words: &[u64]) -> &[T] {
    // SAFETY: words are aligned for any plain type, whose values any bits are.
    unsafe {
        std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words) / size_of::<T>())
    }
}

fn cells_mut<T: Plain>(words: &mut [u64]) -> &mut [T] {
    // SAFETY: as above, and the words are borrowed for as long.
    unsafe {
        std::slice::from_raw_parts_mut(
            words.as_mut_ptr().cast(),
            size_of_val(words) / size_of::<T>(),
        )
    }
}
