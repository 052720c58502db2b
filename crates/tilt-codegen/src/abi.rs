//! What a loop is called with: raw views of columns.
//!
//! The caller promises that every row a loop touches can be read or written:
//! * `Store`: rows `0 .. rows` rounded up to a multiple of [`LANES`](crate::lir::LANES).
//! * `Scan` and `Fold`: the rows of the ranges and no others.
//! * `Panes`: the rows of `rows` panes, rounded up to a multiple of [`LANES`](crate::lir::LANES).
//!
//! Rows past the end may hold anything; what a loop writes there means nothing.

/// A column that a loop reads.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct View {
    /// The value of row 0. Bools are bits, least significant first, row 0 being bit 0. Aligned like an element.
    pub values: *const u8,
    /// One bit a row, like bools; null if the loop does not ask for it.
    pub validity: *const u8,
    /// For accesses by index: the element of `values` that row `i` reads (validity is still that of row `i`). Otherwise null.
    pub index: *const u32,
    /// How many elements can be read before `values`. Only checked runs look at this and at `len`.
    pub lead: u64,
    /// How many elements can be read from `values` on.
    pub len: u64,
}

/// A column that a loop writes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Target {
    /// Where the value of row 0 (of range 0, for a fold) goes. Bools are bits.
    pub values: *mut u8,
    /// Where its validity bit goes; null if the loop writes none.
    pub validity: *mut u8,
    /// How many elements can be written.
    pub len: u64,
}

/// The argument of a [`Kernel`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Args {
    /// One for each access of the loop.
    pub views: *const View,
    /// One for each column it stores, or each slot it scans or folds.
    pub targets: *const Target,
    /// Loop-invariant values, one word each, as [`Imm`](crate::lir::Imm) holds them.
    pub params: *const u64,
    /// The carry of each slot of a scan: what its first range begins with, and then what its last range ends with.
    pub state: *mut u64,
    /// The ranges of a scan or fold: first row and end, one pair after the other.
    pub ranges: *const i64,
    /// The number that the `row` instruction gives for row 0.
    pub first: i64,
    /// How many rows; of a scan or fold, how many ranges; of panes, how many of them.
    pub rows: u64,
    /// What will be read soon, from where row 0 is computed: the loop asks memory for `ahead + i * step` when it computes row `i`. Any address will do.
    pub ahead: *const u8,
    /// Bytes of it a row.
    pub step: u64,
}

/// Something to point `ahead` at when nothing is to be fetched, with a `step` of zero.
pub fn nothing_ahead() -> *const u8 {
    static NOTHING: u64 = 0;
    (&raw const NOTHING).cast()
}

/// A compiled loop.
pub type Kernel = unsafe extern "C" fn(*const Args);
