//! Loops as text. The inverse of [`parse`](super::parse()); the grammar is in `docs/lir.md`.
//!
//! Ids that name nothing are printed as `<a17?>`, because the verifier quotes loops that are not well formed.

use std::{borrow::Cow, fmt};

use super::{
    Access, AccessId, Binary, By, Combine, Compare, Function, Imm, Inst, Lanes, Loop, Param,
    ParamId, Sink, Slot, Store, Ty, Unary, ValueId,
};

/// Words of the text form with what they stand for.
pub(super) type Words<T> = [(&'static str, T)];

pub(super) const TYPES: &Words<Ty> = &[
    ("bool", Ty::Bool),
    ("i8", Ty::I8),
    ("i16", Ty::I16),
    ("i32", Ty::I32),
    ("i64", Ty::I64),
    ("u8", Ty::U8),
    ("u16", Ty::U16),
    ("u32", Ty::U32),
    ("u64", Ty::U64),
    ("f32", Ty::F32),
    ("f64", Ty::F64),
];

/// All but `back 1`.
pub(super) const WAYS: &Words<By> = &[
    ("row", By::Row),
    ("index", By::Index),
    ("table", By::Table),
    ("range", By::Range),
];

pub(super) const UNARIES: &Words<Unary> = &[
    ("neg", Unary::Neg),
    ("not", Unary::Not),
    ("abs", Unary::Abs),
    ("sqrt", Unary::Sqrt),
    ("floor", Unary::Floor),
    ("ceil", Unary::Ceil),
    ("trunc", Unary::Trunc),
    ("round", Unary::Round),
];

pub(super) const BINARIES: &Words<Binary> = &[
    ("add", Binary::Add),
    ("sub", Binary::Sub),
    ("mul", Binary::Mul),
    ("div", Binary::Div),
    ("rem", Binary::Rem),
    ("and", Binary::And),
    ("or", Binary::Or),
    ("xor", Binary::Xor),
    ("shl", Binary::Shl),
    ("shr", Binary::Shr),
    ("min", Binary::Min),
    ("max", Binary::Max),
];

pub(super) const COMPARES: &Words<Compare> = &[
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
];

pub(super) const COMBINES: &Words<Combine> = &[
    ("add", Combine::Add),
    ("mul", Combine::Mul),
    ("min", Combine::Min),
    ("max", Combine::Max),
    ("or", Combine::Or),
];

/// The word for `item`, which a table lists.
pub(super) fn word<T: PartialEq>(words: &Words<T>, item: &T) -> &'static str {
    words
        .iter()
        .find(|(_, meaning)| meaning == item)
        .map_or("?", |(word, _)| word)
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(TYPES, self))
    }
}

/// `1.5: f64`, `-3: i8`, `true: bool`, `bits 0x7ff8000000000000: f64`.
impl fmt::Display for Imm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match number_text(*self) {
            Some(number) => write!(f, "{number}: {}", self.ty),
            None => write!(f, "bits {:#x}: {}", self.bits, self.ty),
        }
    }
}

/// The number that reads back to the same bits: there is none for a NaN, nor for bits beyond the type's width.
fn number_text(imm: Imm) -> Option<String> {
    let Imm { ty, bits } = imm;
    if Imm::int(ty, bits as i64) != imm {
        return None;
    }
    match ty {
        Ty::Bool => Some((bits == 1).to_string()),
        Ty::F32 => finite_text(f32::from_bits(bits as u32), f32::is_nan),
        Ty::F64 => finite_text(f64::from_bits(bits), f64::is_nan),
        _ => Some(imm.integer().to_string()),
    }
}

impl Imm {
    /// The value of a bool or an integer.
    pub(super) fn integer(self) -> i128 {
        if self.ty.is_signed() {
            i128::from(self.bits as i64)
        } else {
            i128::from(self.bits)
        }
    }
}

/// `{:?}` is the shortest text that reads back to the same float.
fn finite_text<F: Copy + fmt::Debug>(value: F, is_nan: fn(F) -> bool) -> Option<String> {
    (!is_nan(value)).then(|| format!("{value:?}"))
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = match self.lanes {
            Lanes::One => 1,
            Lanes::Eight => 8,
        };
        writeln!(f, "loop {} lanes {lanes} {{", quote_name(&self.name))?;
        for (_, access) in self.accesses.iter() {
            writeln!(f, "  {}", access_text(access))?;
        }
        for (_, Param { name, ty }) in self.params.iter() {
            writeln!(f, "  param {}: {ty}", quote_name(name))?;
        }
        for id in self.values.ids() {
            writeln!(f, "  {}", self.node_text(id))?;
        }
        writeln!(f, "  {}\n}}", sink_text(&self.sink))
    }
}

impl Loop {
    /// The definition of a value on one line, for messages.
    pub(super) fn node_text(&self, id: ValueId) -> String {
        let node = &self.values[id];
        format!("{id:?} = {}", self.inst_text(&node.inst, node.ty))
    }

    fn inst_text(&self, inst: &Inst, result: Ty) -> String {
        match inst {
            Inst::Const(imm) => format!("const {imm}"),
            Inst::Param(param) => format!("param {}", self.param_name(*param)),
            Inst::Row => "row".to_owned(),
            Inst::Load(access) => format!("load {}", self.access_name(*access)),
            Inst::Valid(access) => format!("valid {}", self.access_name(*access)),
            Inst::Lookup(access, index) => {
                format!("lookup {}[{index:?}]", self.access_name(*access))
            }
            Inst::Unary(op, a) => format!("{} {a:?}", word(UNARIES, op)),
            Inst::Binary(op, a, b) => format!("{} {a:?}, {b:?}", word(BINARIES, op)),
            Inst::Compare(op, a, b) => format!("{} {a:?}, {b:?}", word(COMPARES, op)),
            Inst::Select(condition, a, b) => format!("select {condition:?}, {a:?}, {b:?}"),
            Inst::Convert(a) => format!("convert {a:?}: {result}"),
            Inst::Bits(a) => format!("bits_of {a:?}: {result}"),
            Inst::Call(function, operands) => call_text(function, operands),
        }
    }

    fn access_name(&self, id: AccessId) -> Cow<'_, str> {
        match self.accesses.get(id) {
            Some(access) => quote_name(&access.name),
            None => format!("<{id:?}?>").into(),
        }
    }

    fn param_name(&self, id: ParamId) -> Cow<'_, str> {
        match self.params.get(id) {
            Some(param) => quote_name(&param.name),
            None => format!("<{id:?}?>").into(),
        }
    }
}

fn access_text(access: &Access) -> String {
    format!(
        "access {}: {} {}{}",
        quote_name(&access.name),
        access.ty,
        way_text(access.by),
        if access.nullable { " nullable" } else { "" }
    )
}

fn way_text(by: By) -> Cow<'static, str> {
    match by {
        By::Back(rows) => format!("back {rows}").into(),
        _ => word(WAYS, &by).into(),
    }
}

fn call_text(function: &Function, operands: &[ValueId]) -> String {
    let operands = operands.iter().enumerate().map(|(k, operand)| {
        let ty = function.params.get(k).map(|ty| word(TYPES, ty));
        format!("{operand:?}: {}", ty.unwrap_or("?"))
    });
    format!(
        "call {}({}): {}",
        quote_name(&function.name),
        join(operands),
        function.result
    )
}

fn sink_text(sink: &Sink) -> String {
    match sink {
        Sink::Store { columns, streaming } => {
            let streaming = if *streaming { "streaming " } else { "" };
            format!("{streaming}store {}", join(columns.iter().map(store_text)))
        }
        Sink::Scan { slots, backward } => slots_text("scan", *backward, slots),
        Sink::Fold { slots, backward } => slots_text("fold", *backward, slots),
        Sink::Panes { slots, every } => slots_text(&format!("panes {every}"), false, slots),
        Sink::Slide {
            slots,
            span,
            running,
        } => {
            let running = if *running { " running" } else { "" };
            slots_text(&format!("slide {span}{running}"), false, slots)
        }
        Sink::Comb { slots } => slots_text("comb", false, slots),
    }
}

fn store_text(store: &Store) -> String {
    match store.valid {
        Some(valid) => format!("{:?} if {valid:?}", store.value),
        None => format!("{:?}", store.value),
    }
}

fn slots_text(kind: &str, backward: bool, slots: &[Slot]) -> String {
    let backward = if backward { " backward" } else { "" };
    let slots = slots
        .iter()
        .map(|slot| format!("{} {:?}", word(COMBINES, &slot.op), slot.value));
    format!("{kind}{backward} {}", join(slots))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// A name as a token: as it is, or in backticks.
pub(super) fn quote_name(name: &str) -> Cow<'_, str> {
    let is_word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    if is_word {
        name.into()
    } else {
        format!("`{}`", name.replace('`', "``")).into()
    }
}

/// The name that a token stands for, if it is one. The inverse of [`quote_name`].
pub(super) fn unquote_name(token: &str) -> Option<String> {
    if let Some(quoted) = token.strip_prefix('`') {
        return Some(quoted.strip_suffix('`')?.replace("``", "`"));
    }
    let first = token.bytes().next()?;
    (first.is_ascii_alphabetic() || first == b'_').then(|| token.to_owned())
}
