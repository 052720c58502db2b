//! The verifier: what every loop must satisfy before it is interpreted or compiled.
//!
//! | subject | invariant |
//! |---|---|
//! | names | the loop, its accesses and its parameters have names that are not empty; no two accesses and no two parameters share one |
//! | ids | an operand is defined before its use; accesses and parameters exist |
//! | types | a value's type is the one that its instruction and operands give |
//! | access | a table is not nullable; folds and panes have no access by index, and only scans and folds have one by range; slides and combs read by row; only stores of one lane read back, a row at least, and a column of the first one's type, not bool |
//! | `const` | the bits are those of its type, sign- or zero-extended to a word |
//! | `load` | the access is not a table |
//! | `valid` | the access is nullable |
//! | `lookup` | the access is a table; the index is an `i64` |
//! | unary | `neg` and `abs` take numbers, `not` integers and bools, all others floats |
//! | binary | both operands have one type; `add`, `sub`, `mul` and `div` take numbers, `and`, `or` and `xor` integers and bools, all others integers |
//! | compare | both operands have one type, not bool |
//! | `select` | the condition is a bool; both branches have one type |
//! | `convert` | the result is no bool |
//! | `bits_of` | operand and result have the same width and are no bools |
//! | `call` | operands have the types that the function states; these and its result are `i64`, `f32` or `f64`, and there are at most [`MAX_CALL_OPERANDS`] |
//! | sink | it has a column at least |
//! | `store` | a validity is a bool; streaming needs eight lanes |
//! | `scan`, `fold` | slots are no bools; `min`, `max` and `or` take integers |
//! | `panes` | slots are integers; a pane has 2, 4, 8 or 16 rows |
//! | `slide`, `comb` | slots are `min`, `max` or `or`; a slide combines 1 to [`LONGEST_SPAN`] rows |
//! | lanes | one lane is for `store` only |
//!
//! What depends on data (a divisor that is not zero, a shift's count, an index within its table) is up to whoever builds a loop; the
//! interpreter checks it row by row. All violations are collected.

use std::{collections::HashSet, fmt};

use tilt_ir::Id;

use super::{
    Access, AccessId, Binary, By, Combine, Function, Imm, Inst, LONGEST_PANE, LONGEST_SPAN, Lanes,
    Loop, Sink, Slot, Store, Ty, Unary, ValueId,
    print::{BINARIES, COMBINES, UNARIES, word},
};

/// How many operands a call may have.
pub(super) const MAX_CALL_OPERANDS: usize = 3;

/// All violations of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopError {
    /// The loop's name.
    pub name: String,
    /// What is wrong, each with the line that it is wrong in; never empty.
    pub violations: Vec<String>,
}

impl fmt::Display for LoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the loop {} is not well formed:", self.name)?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoopError {}

/// Checks all invariants.
///
/// # Errors
/// All violations, in order of the text.
///
/// ```
/// use tilt_codegen::lir::{parse, verify};
///
/// let l = parse("loop l lanes 8 { access x: f64 row %0 = load x %1 = not %0 store %1 }")?;
/// assert_eq!(
///     verify(&l).unwrap_err().violations,
///     ["`%1 = not %0`: `not` takes an integer or a bool, not f64"]
/// );
/// # Ok::<(), tilt_codegen::lir::ParseError>(())
/// ```
pub fn verify(l: &Loop) -> Result<(), LoopError> {
    let mut verifier = Verifier {
        l,
        place: String::new(),
        violations: Vec::new(),
    };
    verifier.names();
    verifier.accesses();
    for (id, node) in l.values.iter() {
        verifier.place = format!("`{}`", l.node_text(id));
        verifier.node(id, &node.inst, node.ty);
    }
    verifier.sink();
    if verifier.violations.is_empty() {
        return Ok(());
    }
    Err(LoopError {
        name: l.name.clone(),
        violations: verifier.violations,
    })
}

/// The type of an instruction's result. `None` where the instruction leaves it open (`convert`, `bits_of`), and where an id names nothing.
pub(super) fn result_type(l: &Loop, inst: &Inst) -> Option<Ty> {
    let ty = |value: ValueId| l.values.get(value).map(|node| node.ty);
    match inst {
        Inst::Const(imm) => Some(imm.ty),
        Inst::Param(param) => l.params.get(*param).map(|param| param.ty),
        Inst::Row => Some(Ty::I64),
        Inst::Load(access) | Inst::Lookup(access, _) => l.accesses.get(*access).map(|a| a.ty),
        Inst::Valid(_) | Inst::Compare(..) => Some(Ty::Bool),
        Inst::Unary(_, a) | Inst::Binary(_, a, _) | Inst::Select(_, a, _) => ty(*a),
        Inst::Convert(_) | Inst::Bits(_) => None,
        Inst::Call(function, _) => Some(function.result),
    }
}

/// The values that an instruction reads.
fn operands(inst: &Inst) -> Vec<ValueId> {
    match inst {
        Inst::Const(_) | Inst::Param(_) | Inst::Row | Inst::Load(_) | Inst::Valid(_) => Vec::new(),
        Inst::Lookup(_, a) | Inst::Unary(_, a) | Inst::Convert(a) | Inst::Bits(a) => vec![*a],
        Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => vec![*a, *b],
        Inst::Select(a, b, c) => vec![*a, *b, *c],
        Inst::Call(_, operands) => operands.clone(),
    }
}

/// Sets of types that instructions ask for, as messages name them.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Integer,
    Float,
    IntegerOrBool,
}

impl Kind {
    fn contains(self, ty: Ty) -> bool {
        match self {
            Self::Number => ty != Ty::Bool,
            Self::Integer => ty.is_int(),
            Self::Float => ty.is_float(),
            Self::IntegerOrBool => !ty.is_float(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::Float => "a float",
            Self::IntegerOrBool => "an integer or a bool",
        }
    }
}

fn unary_kind(op: Unary) -> Kind {
    match op {
        Unary::Neg | Unary::Abs => Kind::Number,
        Unary::Not => Kind::IntegerOrBool,
        Unary::Sqrt | Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => Kind::Float,
    }
}

fn binary_kind(op: Binary) -> Kind {
    match op {
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div => Kind::Number,
        Binary::And | Binary::Or | Binary::Xor => Kind::IntegerOrBool,
        Binary::Rem | Binary::Shl | Binary::Shr | Binary::Min | Binary::Max => Kind::Integer,
    }
}

fn combine_kind(op: Combine) -> Kind {
    match op {
        Combine::Add | Combine::Mul => Kind::Number,
        Combine::Min | Combine::Max | Combine::Or => Kind::Integer,
    }
}

struct Verifier<'l> {
    l: &'l Loop,
    /// What violations are reported about.
    place: String,
    violations: Vec<String>,
}

impl Verifier<'_> {
    fn report(&mut self, message: impl fmt::Display) {
        self.violations.push(format!("{}: {message}", self.place));
    }

    fn require(&mut self, holds: bool, message: impl fmt::Display) {
        if !holds {
            self.report(message);
        }
    }

    fn require_kind(&mut self, what: &str, kind: Kind, ty: Ty) {
        self.require(
            kind.contains(ty),
            format!("`{what}` takes {}, not {ty}", kind.name()),
        );
    }

    fn require_same(&mut self, a: Ty, b: Ty) {
        self.require(a == b, format!("the operands have the types {a} and {b}"));
    }

    fn names(&mut self) {
        let l = self.l;
        "names".clone_into(&mut self.place);
        self.require(!l.name.is_empty(), "the loop has none");
        self.distinct("accesses", l.accesses.iter().map(|(_, a)| a.name.as_str()));
        self.distinct("parameters", l.params.iter().map(|(_, p)| p.name.as_str()));
    }

    fn distinct<'n>(&mut self, what: &str, names: impl Iterator<Item = &'n str>) {
        let mut seen = HashSet::new();
        for name in names {
            self.require(!name.is_empty(), format!("one of the {what} has none"));
            self.require(
                seen.insert(name),
                format!("two of the {what} have the name `{name}`"),
            );
        }
    }

    fn accesses(&mut self) {
        let l = self.l;
        let stores = matches!(l.sink, Sink::Store { .. } | Sink::Panes { .. });
        for (_, access) in l.accesses.iter() {
            self.place = format!("access `{}`", access.name);
            self.require(
                !(access.by == By::Table && access.nullable),
                "a table is not nullable: validity belongs to rows",
            );
            self.require(
                !(access.by == By::Index
                    && matches!(l.sink, Sink::Fold { .. } | Sink::Panes { .. })),
                "a fold has no index column",
            );
            self.require(
                access.by != By::Range || !stores,
                "only scans and folds have ranges",
            );
            self.require(
                access.by == By::Row || !matches!(l.sink, Sink::Slide { .. } | Sink::Comb { .. }),
                "slides and combs read by row",
            );
            if let By::Back(rows) = access.by {
                self.require(rows > 0, "a row does not read what it stores itself");
                let first = match &l.sink {
                    Sink::Store { columns, .. } if l.lanes == Lanes::One => columns.first(),
                    _ => None,
                };
                let ty = first
                    .and_then(|column| l.values.get(column.value))
                    .map(|v| v.ty);
                self.require(
                    access.ty != Ty::Bool && ty == Some(access.ty),
                    "what is read back is the first column of a store of one lane, no bool",
                );
            }
        }
    }

    /// The types of an instruction's operands are checked only if its ids are right.
    fn node(&mut self, id: ValueId, inst: &Inst, ty: Ty) {
        if !self.ids(id, inst) {
            return;
        }
        self.inst(inst, ty);
        if let Some(result) = result_type(self.l, inst) {
            self.require(
                ty == result,
                format!("the result is {result}, but is declared {ty}"),
            );
        }
    }

    fn ids(&mut self, id: ValueId, inst: &Inst) -> bool {
        let mut ok = true;
        for operand in operands(inst) {
            if operand.index() >= id.index() {
                self.report(format!("the operand {operand:?} is not defined before it"));
                ok = false;
            }
        }
        let exists = match inst {
            Inst::Param(param) => self.l.params.contains(*param),
            Inst::Load(access) | Inst::Valid(access) | Inst::Lookup(access, _) => {
                self.l.accesses.contains(*access)
            }
            _ => true,
        };
        self.require(exists, "there is no such access or parameter");
        ok && exists
    }

    fn inst(&mut self, inst: &Inst, result: Ty) {
        let l = self.l;
        let ty = |value: &ValueId| l.ty(*value);
        match inst {
            Inst::Const(imm) => self.imm(*imm),
            Inst::Param(_) | Inst::Row => {}
            Inst::Load(access) => self.load(*access),
            Inst::Valid(access) => {
                self.require(l.accesses[*access].nullable, "the access is not nullable");
            }
            Inst::Lookup(access, index) => self.lookup(&l.accesses[*access], ty(index)),
            Inst::Unary(op, a) => self.require_kind(word(UNARIES, op), unary_kind(*op), ty(a)),
            Inst::Binary(op, a, b) => {
                self.require_kind(word(BINARIES, op), binary_kind(*op), ty(a));
                self.require_same(ty(a), ty(b));
            }
            Inst::Compare(_, a, b) => {
                self.require(ty(a) != Ty::Bool, "bools are not compared; use `xor`");
                self.require_same(ty(a), ty(b));
            }
            Inst::Select(condition, a, b) => {
                let condition = ty(condition);
                self.require(
                    condition == Ty::Bool,
                    format!("the condition is {condition}, not bool"),
                );
                self.require_same(ty(a), ty(b));
            }
            Inst::Convert(_) => self.require(
                result != Ty::Bool,
                "nothing converts to bool; compare with zero",
            ),
            Inst::Bits(a) => self.bits(ty(a), result),
            Inst::Call(function, operands) => {
                let operands: Vec<_> = operands.iter().map(ty).collect();
                self.call(function, &operands);
            }
        }
    }

    fn imm(&mut self, imm: Imm) {
        let extended = Imm::int(imm.ty, imm.bits as i64);
        self.require(
            imm == extended,
            format!("the bits of this constant are {:#x}", extended.bits),
        );
    }

    fn load(&mut self, access: AccessId) {
        let by = self.l.accesses[access].by;
        self.require(by != By::Table, "a table is read by `lookup`");
    }

    fn lookup(&mut self, access: &Access, index: Ty) {
        self.require(access.by == By::Table, "only a table is read by `lookup`");
        self.require(
            index == Ty::I64,
            format!("the index of `lookup` is i64, not {index}"),
        );
    }

    fn bits(&mut self, operand: Ty, result: Ty) {
        self.require(
            operand != Ty::Bool && result != Ty::Bool,
            "a bool has no bits in memory of its own",
        );
        self.require(
            operand.bits() == result.bits(),
            format!("{operand} and {result} differ in width"),
        );
    }

    fn call(&mut self, function: &Function, operands: &[Ty]) {
        self.require(!function.name.is_empty(), "the function has no name");
        self.require(
            function.params == operands,
            format!(
                "the function takes ({}), not ({})",
                types_text(&function.params),
                types_text(operands)
            ),
        );
        self.require(
            operands.len() <= MAX_CALL_OPERANDS,
            format!("a call has at most {MAX_CALL_OPERANDS} operands"),
        );
        for ty in function.params.iter().chain([&function.result]) {
            self.require(
                matches!(ty, Ty::I64 | Ty::F32 | Ty::F64),
                format!("functions take and give i64, f32 and f64, not {ty}"),
            );
        }
    }

    fn sink(&mut self) {
        let l = self.l;
        match &l.sink {
            Sink::Store { columns, streaming } => {
                "store".clone_into(&mut self.place);
                self.stores(columns);
                self.require(
                    !streaming || l.lanes == Lanes::Eight,
                    "streaming needs eight lanes",
                );
            }
            Sink::Scan { slots, .. } => {
                "scan".clone_into(&mut self.place);
                self.slots(slots);
            }
            Sink::Fold { slots, .. } => {
                "fold".clone_into(&mut self.place);
                self.slots(slots);
            }
            Sink::Panes { slots, every } => {
                "panes".clone_into(&mut self.place);
                self.slots(slots);
                self.require(
                    every.is_power_of_two() && (2..=LONGEST_PANE).contains(every),
                    format!("a pane has 2, 4, 8 or 16 rows, not {every}"),
                );
                for slot in slots {
                    if let Some(ty) = self.sink_type(slot.value) {
                        self.require(
                            ty.is_int(),
                            format!("panes combine integers, in any order, not {ty}"),
                        );
                    }
                }
            }
            Sink::Slide { slots, span, .. } => {
                "slide".clone_into(&mut self.place);
                self.extremes(slots);
                self.require(
                    (1..=LONGEST_SPAN).contains(span),
                    format!("a slide combines 1 to {LONGEST_SPAN} rows, not {span}"),
                );
            }
            Sink::Comb { slots } => {
                "comb".clone_into(&mut self.place);
                self.extremes(slots);
            }
        }
    }

    /// Rows that are combined in any order, maybe more than once.
    fn extremes(&mut self, slots: &[Slot]) {
        self.slots(slots);
        for slot in slots {
            self.require(
                matches!(slot.op, Combine::Min | Combine::Max | Combine::Or),
                format!(
                    "rows may be combined more than once, which `{}` would count",
                    word(COMBINES, &slot.op)
                ),
            );
        }
    }

    fn stores(&mut self, columns: &[Store]) {
        self.require(!columns.is_empty(), "there is nothing to store");
        for store in columns {
            self.sink_type(store.value);
            if let Some(ty) = store.valid.and_then(|valid| self.sink_type(valid)) {
                self.require(ty == Ty::Bool, format!("a validity is a bool, not {ty}"));
            }
        }
    }

    fn slots(&mut self, slots: &[Slot]) {
        self.require(!slots.is_empty(), "there is nothing to combine");
        self.require(self.l.lanes == Lanes::Eight, "one lane is for `store` only");
        for slot in slots {
            if let Some(ty) = self.sink_type(slot.value) {
                self.require_kind(word(COMBINES, &slot.op), combine_kind(slot.op), ty);
            }
        }
    }

    /// The type of a value that the sink names; reports one that does not exist.
    fn sink_type(&mut self, value: ValueId) -> Option<Ty> {
        let node = self.l.values.get(value);
        self.require(node.is_some(), format!("there is no value {value:?}"));
        node.map(|node| node.ty)
    }
}

fn types_text(types: &[Ty]) -> String {
    let types: Vec<_> = types.iter().map(Ty::to_string).collect();
    types.join(", ")
}
