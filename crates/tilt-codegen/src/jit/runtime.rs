//! Functions that compiled code calls.
//!
//! All are total and pure, and the loop IR's interpreter calls the same ones through [`call`], so results are equal bit for bit. To add a function, add
//! it to the table.

use std::{
    collections::HashMap,
    ffi::{CStr, c_char},
    sync::OnceLock,
};

/// A function by its signature.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// `f64` to `f64`.
    Float1(extern "C" fn(f64) -> f64),
    /// Two `f64` to `f64`.
    Float2(extern "C" fn(f64, f64) -> f64),
    /// `i64` to `i64`.
    Int1(extern "C" fn(i64) -> i64),
    /// Two `i64` to `i64`.
    Int2(extern "C" fn(i64, i64) -> i64),
}

impl Entry {
    /// Where the code is.
    pub fn address(self) -> usize {
        match self {
            Self::Float1(f) => f as usize,
            Self::Float2(f) => f as usize,
            Self::Int1(f) => f as usize,
            Self::Int2(f) => f as usize,
        }
    }

    /// Calls it with words as [`Imm`](crate::lir::Imm) holds values; `None` if their number is wrong.
    pub fn call(self, args: &[u64]) -> Option<u64> {
        let float = f64::from_bits;
        match (self, args) {
            (Self::Float1(f), &[a]) => Some(f(float(a)).to_bits()),
            (Self::Float2(f), &[a, b]) => Some(f(float(a), float(b)).to_bits()),
            (Self::Int1(f), &[a]) => Some(f(a as i64) as u64),
            (Self::Int2(f), &[a, b]) => Some(f(a as i64, b as i64) as u64),
            _ => None,
        }
    }
}

/// Wraps functions of `libm`, under the prefix `tilt_`.
macro_rules! libm_table {
    (unary: $($one:ident)*; binary: $($two:ident)*) => {
        &[
            $((concat!("tilt_", stringify!($one)), Entry::Float1({
                extern "C" fn wrapped(a: f64) -> f64 { libm::$one(a) }
                wrapped
            })),)*
            $((concat!("tilt_", stringify!($two)), Entry::Float2({
                extern "C" fn wrapped(a: f64, b: f64) -> f64 { libm::$two(a, b) }
                wrapped
            })),)*
        ]
    };
}

/// Elementary functions.
const MATH: &[(&str, Entry)] = libm_table!(
    unary: sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 exp10 expm1 log log2 log10 log1p cbrt sqrt erf erfc tgamma lgamma;
    binary: pow atan2 hypot fmod remainder
);

/// Every table of functions that `Inst::Call` may name.
const TABLES: &[&[(&str, Entry)]] = &[MATH, crate::arithmetic::TABLE];

fn functions() -> impl Iterator<Item = (&'static str, Entry)> {
    TABLES.iter().flat_map(|table| table.iter().copied())
}

/// The function of that name.
pub fn find(name: &str) -> Option<Entry> {
    static INDEX: OnceLock<HashMap<&str, Entry>> = OnceLock::new();
    INDEX
        .get_or_init(|| functions().collect())
        .get(name)
        .copied()
}

/// The address of the function of that name.
pub fn address(name: &str) -> Option<usize> {
    find(name).map(Entry::address)
}

/// Calls a function with words as [`Imm`](crate::lir::Imm) holds values; `None` if there is no such function of so many arguments.
pub fn call(name: &str, args: &[u64]) -> Option<u64> {
    find(name)?.call(args)
}

/// Every symbol that an object file may refer to: the functions, what the code generator calls by itself, and the check of checked code.
pub(super) fn symbols() -> Vec<(&'static str, usize)> {
    /// Pairs of a name and the address of the function of that name.
    macro_rules! helpers {
        ($($f:path as $name:literal),* $(,)?) => { [$(($name, $f as *const () as usize)),*] };
    }
    let helpers = helpers![
        libc::memcpy as "memcpy",
        libc::memmove as "memmove",
        libc::memset as "memset",
        floor as "floor",
        ceil as "ceil",
        trunc as "trunc",
        roundeven as "roundeven",
        floorf as "floorf",
        ceilf as "ceilf",
        truncf as "truncf",
        roundevenf as "roundevenf",
        tilt_check as "tilt_check",
    ];
    functions()
        .map(|(name, entry)| (name, entry.address()))
        .chain(helpers)
        .collect()
}

/// What LLVM calls where the CPU has no instruction for it (x86-64 before SSE 4.1).
macro_rules! rounding {
    ($($name:ident: $ty:ty = $f:expr;)*) => {
        $(extern "C" fn $name(a: $ty) -> $ty { $f(a) })*
    };
}

rounding! {
    floor: f64 = libm::floor;
    ceil: f64 = libm::ceil;
    trunc: f64 = libm::trunc;
    roundeven: f64 = libm::roundeven;
    floorf: f32 = libm::floorf;
    ceilf: f32 = libm::ceilf;
    truncf: f32 = libm::truncf;
    roundevenf: f32 = libm::roundevenf;
}

/// Checked code calls this before it touches the elements `from .. to` of a column that has `-lead .. len`.
extern "C" fn tilt_check(name: *const c_char, from: i64, to: i64, lead: u64, len: u64) {
    if in_bounds(from, to, lead, len) {
        return;
    }
    // SAFETY: the code generator passes a constant that ends with a zero byte.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    eprintln!("tilt: loop {name} reaches for elements {from}..{to} of a column of -{lead}..{len}");
    std::process::abort();
}

/// Whether `from .. to` lies in `-lead .. len`.
fn in_bounds(from: i64, to: i64, lead: u64, len: u64) -> bool {
    i128::from(from) >= -i128::from(lead) && i128::from(to) <= i128::from(len)
}
