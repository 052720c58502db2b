//! The loop IR: one loop over rows, fused from loads to stores.
//!
//! ```text
//! loop trend lanes 8 {
//!   access price: f64 row
//!   access late: f64 row nullable
//!   param scale: f64
//!   %0 = load price
//!   %1 = param scale
//!   %2 = mul %0, %1
//!   %3 = load late
//!   %4 = valid late
//!   %5 = gt %2, %3
//!   %6 = and %4, %5
//!   store %2 if %6
//! }
//! ```
//!
//! Values are in SSA form and typed; no instruction can trap or fail, φ is a bool like any other. `docs/lir.md` is the reference.
//!
//! # Scans and folds
//! `scan` and `fold` combine rows in the order that `docs/ir.md` gives to sums: rows in groups of eight, each a balanced tree, groups from first to last
//! (from last to first when going backward). A row that must not count holds the operation's neutral element.

mod derive;
mod interp;
mod parse;
mod print;
#[cfg(test)]
mod tests;
mod verify;

pub use derive::Known;
pub(crate) use derive::unique;
pub use interp::interpret;
pub use parse::{ParseError, parse};
pub use verify::{LoopError, verify};

use tilt_ir::{Arena, define_id};

/// Rows that one iteration of a vector loop computes, and the size of a group of a scan or fold.
pub const LANES: usize = 8;

/// The type of a value in a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Ty {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Ty {
    /// Every type.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// The number of bits; a bool has one.
    pub fn bits(self) -> u32 {
        match self {
            Self::Bool => 1,
            Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 => 16,
            Self::I32 | Self::U32 | Self::F32 => 32,
            Self::I64 | Self::U64 | Self::F64 => 64,
        }
    }

    /// Bytes of an element in memory; bools are packed and have none of their own.
    pub fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Signed or unsigned integer.
    pub fn is_int(self) -> bool {
        self.is_signed() || matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// `f32` or `f64`.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

/// A constant: its type and its bits in the low end of a word (an integer sign- or zero-extended from its width, a `f32` as its 32 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Imm {
    /// The type.
    pub ty: Ty,
    /// The bits.
    pub bits: u64,
}

impl Imm {
    /// `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Self {
            ty: Ty::Bool,
            bits: u64::from(value),
        }
    }

    /// An integer of type `ty`, which must hold it (two's complement for unsigned types).
    pub fn int(ty: Ty, value: i64) -> Self {
        let unused = 64 - ty.bits();
        let bits = value as u64;
        let bits = if ty.is_signed() {
            ((bits << unused) as i64 >> unused) as u64
        } else {
            (bits << unused) >> unused
        };
        Self { ty, bits }
    }

    /// A float of type `ty`.
    pub fn float(ty: Ty, value: f64) -> Self {
        let bits = match ty {
            Ty::F32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        Self { ty, bits }
    }

    /// Zero, `false` or `0.0`.
    pub fn zero(ty: Ty) -> Self {
        Self { ty, bits: 0 }
    }
}

define_id!(
    /// A column that a loop reads.
    AccessId,
    "a"
);
define_id!(
    /// A loop-invariant value.
    ParamId,
    "p"
);
define_id!(
    /// A value computed for every row.
    ValueId,
    "%"
);

/// A loop over rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// For people; part of the symbol's name.
    pub name: String,
    /// How many rows an iteration computes.
    pub lanes: Lanes,
    /// What is read.
    pub accesses: Arena<AccessId, Access>,
    /// What is given once.
    pub params: Arena<ParamId, Param>,
    /// The body in order of evaluation.
    pub values: Arena<ValueId, Node>,
    /// Where the results go.
    pub sink: Sink,
}

/// How many rows an iteration computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lanes {
    /// One: rows are computed in order, and a row may read what earlier ones stored (a recurrence).
    One,
    /// Eight: no row reads what the loop stores.
    Eight,
}

/// A column that a loop reads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// For people.
    pub name: String,
    /// The type of an element.
    pub ty: Ty,
    /// Which element a row reads.
    pub by: By,
    /// Whether `valid` may be asked for.
    pub nullable: bool,
}

/// Which element of a column a row reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum By {
    /// The one of the same number.
    Row,
    /// The one of the same number, which is what the first column got so many rows before: the view is the target, moved. For stores of one lane.
    Back(u32),
    /// The one that the index column names.
    Index,
    /// The one that a computed value names: only `lookup` reads it.
    Table,
    /// The one of the range's number: the same for all rows of a range. Scans and folds only.
    Range,
}

/// A loop-invariant value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// For people.
    pub name: String,
    /// The type.
    pub ty: Ty,
}

/// An instruction with the type of its result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// What is computed.
    pub inst: Inst,
    /// The type of the result.
    pub ty: Ty,
}

/// An instruction. Operands are values defined before it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Inst {
    /// The same for all rows.
    Const(Imm),
    /// A loop-invariant value.
    Param(ParamId),
    /// The number of the row, `i64`: that of row 0 is given by the caller.
    Row,
    /// The element that the row reads.
    Load(AccessId),
    /// Whether that element exists, a bool.
    Valid(AccessId),
    /// The element of a table at an index of type `i64`, which must be one of it.
    Lookup(AccessId, ValueId),
    /// One operand of the result's type.
    Unary(Unary, ValueId),
    /// Two operands of the result's type.
    Binary(Binary, ValueId, ValueId),
    /// Two operands of one type, not bool; gives a bool. Floats compare by IEEE: with NaN everything but `ne` is false.
    Compare(Compare, ValueId, ValueId),
    /// `then` where the bool is true, else `otherwise`.
    Select(ValueId, ValueId, ValueId),
    /// The operand's value in the result's type: integers wrap, integers to floats and wide to narrow floats round to nearest, floats to integers
    /// truncate (the operand must be in range; anything else gives an unspecified value), bools give 0 and 1.
    Convert(ValueId),
    /// The operand's bits in the result's type of the same width.
    Bits(ValueId),
    /// A function of the runtime, row by row.
    Call(Function, Vec<ValueId>),
}

impl Inst {
    /// Replaces every operand.
    pub(crate) fn map_operands(&mut self, mut with: impl FnMut(ValueId) -> ValueId) {
        match self {
            Self::Const(_) | Self::Param(_) | Self::Row | Self::Load(_) | Self::Valid(_) => {}
            Self::Lookup(_, a) | Self::Unary(_, a) | Self::Convert(a) | Self::Bits(a) => {
                *a = with(*a);
            }
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => {
                *a = with(*a);
                *b = with(*b);
            }
            Self::Select(a, b, c) => {
                *a = with(*a);
                *b = with(*b);
                *c = with(*c);
            }
            Self::Call(_, args) => args.iter_mut().for_each(|a| *a = with(*a)),
        }
    }
}

/// Instructions of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Unary {
    /// Integers wrap; floats flip the sign.
    Neg,
    /// All bits, or the bool.
    Not,
    /// Integers wrap; floats clear the sign.
    Abs,
    /// Floats only, as all that follow.
    Sqrt,
    Floor,
    Ceil,
    Trunc,
    /// Ties to even.
    Round,
}

/// Instructions of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Binary {
    /// Integers wrap.
    Add,
    Sub,
    Mul,
    /// Floats by IEEE. Integers truncate; the divisor must not be zero, nor -1 where the dividend is the least integer.
    Div,
    /// Integers only: the remainder of `Div`.
    Rem,
    /// Integers and bools.
    And,
    Or,
    Xor,
    /// Integers; the count must be less than the width.
    Shl,
    /// Arithmetic for signed, logical for unsigned integers.
    Shr,
    /// Integers only.
    Min,
    Max,
}

/// Comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A function that compiled code calls for each row: `extern "C"`, pure, total.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// The symbol; [`runtime`](crate::jit::runtime) knows its address.
    pub name: String,
    /// The types of the operands.
    pub params: Vec<Ty>,
    /// The type of the result.
    pub result: Ty,
}

/// Where the results of a loop go.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Sink {
    /// Column `k` of row `i` gets the value of store `k`.
    Store {
        /// The columns.
        columns: Vec<Store>,
        /// Past the caches, because nothing reads the result soon. Targets must be aligned to a vector.
        streaming: bool,
    },
    /// Column `k` of row `i` gets slot `k` combined over the rows of its range up to `i` (from `i` on going backward). The first range begins with the
    /// carry in the state, all others with the neutral element; then the state is that of the last.
    Scan {
        /// What is combined.
        slots: Vec<Slot>,
        /// From the last row to the first.
        backward: bool,
    },
    /// Element `r` of column `k` gets slot `k` combined over the rows of range `r`; the neutral element for an empty range.
    Fold {
        /// What is combined.
        slots: Vec<Slot>,
        /// Groups are counted from the end of a range.
        backward: bool,
    },
    /// Element `r` of column `k` gets slot `k` combined over the rows from `r·every` to before `(r+1)·every`.
    Panes {
        /// What is combined, integers.
        slots: Vec<Slot>,
        /// The rows of a pane, a power of two from 2 to [`LONGEST_PANE`].
        every: u32,
    },
    /// Column `k` of row `i` gets slot `k` combined over the last `span` rows up to `i`. The first range says which rows exist; the others follow each
    /// other and are of whole groups. The state has what goes on from call to call: for each slot [`LANES`] words for every shift, and as many
    /// for what runs.
    Slide {
        /// What is combined, extremes of integers.
        slots: Vec<Slot>,
        /// How many rows, at most [`LONGEST_SPAN`].
        span: u32,
        /// Whether slot `k` has two columns, `2k` and `2k + 1`: in the second, every eighth of these from `i` back to the begin of its range is combined.
        running: bool,
    },
    /// Column `k` of row `i` gets slot `k` combined over every eighth row from `i` on to the end of its range, which is of whole groups. The first
    /// range begins with [`LANES`] words of the state a slot. A target may be the column that is read.
    Comb {
        /// What is combined, extremes of integers.
        slots: Vec<Slot>,
    },
}

/// The most rows that a slide combines.
pub const LONGEST_SPAN: u32 = 2 * LANES as u32 - 1;

/// How far a slide moves a group in each step: combined with itself so much earlier, it covers as many rows more.
pub(crate) fn shifts(span: u32) -> Vec<u32> {
    let mut shifts = Vec::new();
    let mut covered = 1;
    while covered < span {
        let shift = covered.min(span - covered).min(LANES as u32 - 1);
        shifts.push(shift);
        covered += shift;
    }
    shifts
}

/// The most rows of a pane: longer ones are folded as ranges at no loss.
pub const LONGEST_PANE: u32 = 16;

/// A stored column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// The value.
    pub value: ValueId,
    /// Whether there is one, a bool; `None` writes no validity.
    pub valid: Option<ValueId>,
}

/// An associative combination of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// How.
    pub op: Combine,
    /// What; not a bool.
    pub value: ValueId,
}

/// Associative operations with a neutral element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Combine {
    /// Integers wrap; neutral for floats is -0.
    Add,
    /// Neutral is 1.
    Mul,
    /// Integers only; neutral is the greatest.
    Min,
    /// Integers only; neutral is the least.
    Max,
    /// Integers only; neutral is 0.
    Or,
}

impl Combine {
    /// The operation that combines two values.
    pub fn binary(self) -> Binary {
        match self {
            Self::Add => Binary::Add,
            Self::Mul => Binary::Mul,
            Self::Min => Binary::Min,
            Self::Max => Binary::Max,
            Self::Or => Binary::Or,
        }
    }

    /// The neutral element of the operation on type `ty`.
    pub fn neutral(self, ty: Ty) -> Imm {
        let least = if ty.is_signed() {
            i64::MIN >> (64 - ty.bits())
        } else {
            0
        };
        match self {
            Self::Add if ty.is_float() => Imm::float(ty, -0.0),
            Self::Mul if ty.is_float() => Imm::float(ty, 1.0),
            Self::Add | Self::Or => Imm::zero(ty),
            Self::Mul => Imm::int(ty, 1),
            Self::Min => Imm::int(ty, !least),
            Self::Max => Imm::int(ty, least),
        }
    }
}

impl Loop {
    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> Ty {
        self.values[value].ty
    }

    /// The types of the columns that the loop writes.
    pub fn targets(&self) -> Vec<Ty> {
        match &self.sink {
            Sink::Store { columns, .. } => columns.iter().map(|c| self.ty(c.value)).collect(),
            Sink::Scan { slots, .. }
            | Sink::Fold { slots, .. }
            | Sink::Panes { slots, .. }
            | Sink::Comb { slots } => slots.iter().map(|s| self.ty(s.value)).collect(),
            Sink::Slide { slots, running, .. } => {
                let columns = 1 + usize::from(*running);
                let types = slots.iter().map(|s| self.ty(s.value));
                types.flat_map(|ty| vec![ty; columns]).collect()
            }
        }
    }

    /// Words of the state for each slot.
    pub fn state_words(&self) -> usize {
        match &self.sink {
            Sink::Store { .. } | Sink::Fold { .. } | Sink::Panes { .. } => 0,
            Sink::Scan { .. } => 1,
            Sink::Slide { span, running, .. } => {
                (shifts(*span).len() + usize::from(*running)) * LANES
            }
            Sink::Comb { .. } => LANES,
        }
    }
}
