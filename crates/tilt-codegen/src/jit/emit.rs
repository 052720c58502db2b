//! LLVM IR for loops, written as text.
//!
//! Text and not calls of a builder: a kernel then reads like the code it becomes, `llvm_ir` costs nothing, and a mistake is an error of LLVM's parser
//! instead of a crash. Parsing takes about a tenth of the time of the code generator.
//!
//! | module | subject |
//! |---|---|
//! | [`body`], [`divide`] | instructions of the loop IR |
//! | [`memory`], [`near`] | reading columns |
//! | [`store`], [`scan`], [`fold`], [`panes`], [`slide`] | the loop around a body, for each kind of sink |

mod body;
mod divide;
mod fold;
mod memory;
mod near;
mod panes;
mod scan;
mod slide;
mod store;

use std::{
    collections::BTreeSet,
    fmt::{Display, Write},
};

use tilt_ir::Id;

pub(super) use near::Shuffles;

use crate::lir::{By, Imm, Inst, LANES, Lanes, Loop, Sink, Ty};

/// What code is generated with.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the CPU"
)]
pub(super) struct Flavour {
    /// Asserts that every element lies in its column.
    pub(super) checked: bool,
    /// The CPU multiplies and adds with one rounding.
    pub(super) fuses: bool,
    /// The CPU stores some lanes of a vector at the cost of all.
    pub(super) masks: bool,
    /// The CPU converts vectors of 64-bit integers to doubles.
    pub(super) converts: bool,
    pub(super) shuffles: Shuffles,
}

/// The module of `loops`, the `i`-th of them being the function [`symbol`]`(i, ..)`.
pub(super) fn module(loops: &[Loop], flavour: Flavour) -> String {
    let checked = flavour.checked;
    let mut out = String::from(PRELUDE);
    if flavour.fuses {
        out.push_str(&divide::definition(flavour.masks));
    }
    if !flavour.converts {
        out.push_str(body::FLOAT_OF_WORD);
    }
    let by_index = |lp: &Loop| lp.accesses.iter().any(|(_, access)| access.by == By::Index);
    if loops.iter().any(by_index) {
        out.push_str(&near::definitions(flavour.shuffles));
    }
    for declaration in declarations(loops) {
        let _ = writeln!(out, "{declaration}");
    }
    for (index, lp) in loops.iter().enumerate() {
        if checked {
            let _ = writeln!(out, "{}", name_constant(index, &lp.name));
        }
        out.push_str(&Emitter::new(lp, index, flavour).kernel());
    }
    out
}

/// The name of the function that the `index`-th loop becomes.
pub(super) fn symbol(index: usize, lp: &Loop) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = lp.name.chars().map(plain).collect();
    format!("tilt_{index}_{name}")
}

/// The structs of [`abi`](crate::abi), and the two alias scopes: what a vector loop reads and what it writes are disjoint.
///
/// 512-bit vectors are asked for because LLVM otherwise splits them on the first CPUs with AVX-512; elsewhere the attribute means nothing.
const PRELUDE: &str = r#"%View = type { ptr, ptr, ptr, i64, i64 }
%Target = type { ptr, ptr, i64 }
%Args = type { ptr, ptr, ptr, ptr, ptr, i64, i64, ptr, i64 }
attributes #0 = { nounwind "prefer-vector-width"="512" }
attributes #1 = { nounwind willreturn memory(none) }
!0 = distinct !{!0, !"tilt"}
!1 = distinct !{!1, !0, !"read"}
!2 = distinct !{!2, !0, !"written"}
!3 = !{!1}
!4 = !{!2}
!5 = !{i32 1}
!6 = !{!"branch_weights", i32 1000, i32 1}
!7 = distinct !{!7, !8}
!8 = !{!"llvm.loop.unroll.disable"}
declare void @tilt_check(ptr, i64, i64, i64, i64) nounwind
"#;

/// The runtime functions that the loops call.
fn declarations(loops: &[Loop]) -> BTreeSet<String> {
    let nodes = loops.iter().flat_map(|lp| lp.values.iter());
    nodes
        .filter_map(|(_, node)| match &node.inst {
            Inst::Call(function, _) => {
                let params: Vec<_> = function.params.iter().map(|ty| parameter(*ty)).collect();
                let result = parameter(function.result);
                // Attributes of a result stand before its type.
                let (ty, extend) = result.split_once(' ').unwrap_or((result, ""));
                Some(format!(
                    "declare {extend} {ty} @{}({}) #1",
                    function.name,
                    params.join(", ")
                ))
            }
            _ => None,
        })
        .collect()
}

/// A type as an argument of a C function: small integers are extended by the caller.
fn parameter(ty: Ty) -> &'static str {
    match ty {
        Ty::Bool => "i1 zeroext",
        Ty::I8 => "i8 signext",
        Ty::I16 => "i16 signext",
        Ty::U8 => "i8 zeroext",
        Ty::U16 => "i16 zeroext",
        _ => scalar(ty),
    }
}

/// The loop's name for messages of the runtime.
fn name_constant(index: usize, name: &str) -> String {
    let mut bytes = String::new();
    for byte in name.bytes() {
        let _ = write!(bytes, "\\{byte:02X}");
    }
    let length = name.len() + 1;
    format!("@name.{index} = private unnamed_addr constant [{length} x i8] c\"{bytes}\\00\"")
}

/// The LLVM type of one value.
fn scalar(ty: Ty) -> &'static str {
    match ty {
        Ty::Bool => "i1",
        Ty::I8 | Ty::U8 => "i8",
        Ty::I16 | Ty::U16 => "i16",
        Ty::I32 | Ty::U32 => "i32",
        Ty::I64 | Ty::U64 => "i64",
        Ty::F32 => "float",
        Ty::F64 => "double",
    }
}

/// How an intrinsic's name spells the type of one value.
fn mangled(ty: Ty) -> &'static str {
    match ty {
        Ty::F32 => "f32",
        Ty::F64 => "f64",
        _ => scalar(ty),
    }
}

/// The type of eight values.
fn vector(ty: Ty) -> String {
    format!("<{LANES} x {}>", scalar(ty))
}

/// A constant of a scalar type.
fn literal(imm: Imm) -> String {
    match imm.ty {
        Ty::Bool => (imm.bits & 1 == 1).to_string(),
        Ty::F64 => format!("0x{:016X}", imm.bits),
        Ty::F32 => format!("bitcast (i32 {} to float)", imm.bits as u32 as i32),
        ty => {
            let unused = 64 - ty.bits();
            ((imm.bits << unused) as i64 >> unused).to_string()
        }
    }
}

/// A constant vector of equal elements.
fn splat_literal(imm: Imm) -> String {
    format!("splat ({} {})", scalar(imm.ty), literal(imm))
}

/// A constant vector of indices, as `shufflevector` wants it.
fn lanes(indices: &[u32]) -> String {
    let items: Vec<_> = indices.iter().map(|i| format!("i32 {i}")).collect();
    format!("<{} x i32> <{}>", indices.len(), items.join(", "))
}

/// An operand: the name of an SSA value or a constant, without its type.
type Value = String;

/// Writes one kernel.
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
struct Emitter<'a> {
    lp: &'a Loop,
    /// The position in the module.
    index: usize,
    checked: bool,
    fuses: bool,
    masks: bool,
    converts: bool,
    shuffles: Shuffles,
    /// Scans and folds compute groups of eight whatever the loop says.
    lanes: Lanes,
    text: String,
    /// How many values were named.
    named: u32,
}

impl<'a> Emitter<'a> {
    fn new(lp: &'a Loop, index: usize, flavour: Flavour) -> Self {
        let Flavour {
            checked,
            fuses,
            masks,
            converts,
            shuffles,
        } = flavour;
        let lanes = match lp.sink {
            Sink::Store { .. } => lp.lanes,
            Sink::Scan { .. }
            | Sink::Fold { .. }
            | Sink::Panes { .. }
            | Sink::Slide { .. }
            | Sink::Comb { .. } => Lanes::Eight,
        };
        Self {
            lp,
            index,
            checked,
            fuses,
            masks,
            converts,
            shuffles,
            lanes,
            text: String::new(),
            named: 0,
        }
    }

    fn kernel(mut self) -> String {
        let name = symbol(self.index, self.lp);
        self.line(format_args!(
            "define void @{name}(ptr nonnull readonly %args) #0 {{"
        ));
        self.label("entry");
        self.arguments();
        match &self.lp.sink {
            Sink::Store { columns, streaming } => match self.lanes {
                Lanes::Eight => self.store_eight(columns, *streaming),
                Lanes::One => self.store_one(columns),
            },
            Sink::Scan { slots, backward } => self.scan(slots, *backward),
            Sink::Fold { slots, backward } => self.fold(slots, *backward),
            Sink::Panes { slots, every } => self.panes(slots, *every),
            Sink::Slide {
                slots,
                span,
                running,
            } => self.slide(slots, *span, *running),
            Sink::Comb { slots } => self.comb(slots),
        }
        self.line("  ret void\n}");
        self.text
    }

    /// Loads everything that [`Args`](crate::abi::Args) holds, once: pointers are values of the loop from here on.
    fn arguments(&mut self) {
        let fields = ["views", "targets", "params", "state", "ranges"];
        for (field, name) in fields.into_iter().enumerate() {
            self.field("%args", "%Args", 0, field, "ptr", name);
        }
        self.field("%args", "%Args", 0, 5, "i64", "first");
        self.field("%args", "%Args", 0, 6, "i64", "rows");
        self.field("%args", "%Args", 0, 7, "ptr", "ahead");
        self.field("%args", "%Args", 0, 8, "i64", "step");
        for access in 0..self.lp.accesses.len() {
            for (field, name) in ["values", "validity", "index"].into_iter().enumerate() {
                let name = format!("{name}.{access}");
                self.field("%views", "%View", access, field, "ptr", &name);
            }
            let (lead, len) = (format!("lead.{access}"), format!("len.{access}"));
            self.field("%views", "%View", access, 3, "i64", &lead);
            self.field("%views", "%View", access, 4, "i64", &len);
        }
        for target in 0..self.lp.targets().len() {
            let (values, validity) = (format!("out.{target}"), format!("outvalid.{target}"));
            self.field("%targets", "%Target", target, 0, "ptr", &values);
            self.field("%targets", "%Target", target, 1, "ptr", &validity);
            let len = format!("outlen.{target}");
            self.field("%targets", "%Target", target, 2, "i64", &len);
        }
        for (id, param) in self.lp.params.iter() {
            let at = self.element("i64", "%params", id.index());
            let word = self.def(format_args!("load i64, ptr {at}, align 8"));
            let value = self.decode(&word, param.ty);
            let value = self.spread(&value, param.ty);
            // A copy under a name that the body can spell.
            let ty = self.ty(param.ty);
            self.line(format_args!(
                "  %param.{} = freeze {ty} {value}",
                id.index()
            ));
        }
    }

    /// Asks memory for what is read after the loop, a part of it for each row.
    fn fetch_ahead(&mut self, row: &str) {
        let offset = self.def(format_args!("mul i64 {row}, %step"));
        let at = self.element("i8", "%ahead", &offset);
        self.line(format_args!(
            "  call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)"
        ));
    }

    /// Names a field of the `element`-th struct of an array.
    fn field(&mut self, base: &str, of: &str, element: usize, field: usize, ty: &str, name: &str) {
        let at = self.def(format_args!(
            "getelementptr {of}, ptr {base}, i64 {element}, i32 {field}"
        ));
        self.line(format_args!("  %{name} = load {ty}, ptr {at}, align 8"));
    }

    fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.text, "{text}");
    }

    fn label(&mut self, name: impl Display) {
        let _ = writeln!(self.text, "{name}:");
    }

    /// Emits an instruction and names its result.
    fn def(&mut self, instruction: impl Display) -> Value {
        let name = format!("%v{}", self.named);
        self.named += 1;
        let _ = writeln!(self.text, "  {name} = {instruction}");
        name
    }

    /// The branch at the end of a block.
    fn branch(&mut self, condition: &str, then: &str, otherwise: &str) {
        self.line(format_args!(
            "  br i1 {condition}, label %{then}, label %{otherwise}"
        ));
    }

    /// The LLVM type of a value of the body.
    fn ty(&self, ty: Ty) -> String {
        match self.lanes {
            Lanes::One => scalar(ty).to_owned(),
            Lanes::Eight => vector(ty),
        }
    }

    /// The same as an intrinsic's name spells it.
    fn mangled(&self, ty: Ty) -> String {
        match self.lanes {
            Lanes::One => mangled(ty).to_owned(),
            Lanes::Eight => format!("v{LANES}{}", mangled(ty)),
        }
    }

    fn constant(&self, imm: Imm) -> Value {
        match self.lanes {
            Lanes::One => literal(imm),
            Lanes::Eight => splat_literal(imm),
        }
    }

    /// One value in all lanes.
    fn spread(&mut self, value: &str, ty: Ty) -> Value {
        match self.lanes {
            Lanes::One => value.to_owned(),
            Lanes::Eight => self.splat(value, ty),
        }
    }

    /// One value in all lanes of a vector.
    fn splat(&mut self, value: &str, ty: Ty) -> Value {
        let (vector, scalar) = (vector(ty), scalar(ty));
        let one = self.def(format_args!(
            "insertelement {vector} poison, {scalar} {value}, i64 0"
        ));
        self.shuffle(ty, LANES, &one, "poison", &[0; LANES])
    }

    /// Lanes of two vectors of `width` elements each.
    fn shuffle(&mut self, ty: Ty, width: usize, a: &str, b: &str, pick: &[u32]) -> Value {
        let vector = format!("<{width} x {}>", scalar(ty));
        self.def(format_args!(
            "shufflevector {vector} {a}, {vector} {b}, {}",
            lanes(pick)
        ))
    }

    fn extract(&mut self, ty: Ty, width: usize, from: &str, lane: usize) -> Value {
        let scalar = scalar(ty);
        self.def(format_args!(
            "extractelement <{width} x {scalar}> {from}, i64 {lane}"
        ))
    }

    /// The address of an element.
    fn element(&mut self, ty: &str, base: &str, index: impl Display) -> Value {
        self.def(format_args!("getelementptr {ty}, ptr {base}, i64 {index}"))
    }

    /// The address of the byte with the bit of row `row`.
    fn byte_of(&mut self, base: &str, row: &str) -> Value {
        let byte = self.def(format_args!("ashr i64 {row}, 3"));
        self.element("i8", base, byte)
    }

    /// The value whose bits a word holds, as [`Imm`] has them.
    fn decode(&mut self, word: &str, ty: Ty) -> Value {
        match ty {
            Ty::F64 => self.def(format_args!("bitcast i64 {word} to double")),
            Ty::F32 => {
                let half = self.def(format_args!("trunc i64 {word} to i32"));
                self.def(format_args!("bitcast i32 {half} to float"))
            }
            Ty::I64 | Ty::U64 => word.to_owned(),
            _ => self.def(format_args!("trunc i64 {word} to {}", scalar(ty))),
        }
    }

    /// The word that holds a value's bits, as [`Imm`] has them.
    fn encode(&mut self, value: &str, ty: Ty) -> Value {
        match ty {
            Ty::F64 => self.def(format_args!("bitcast double {value} to i64")),
            Ty::F32 => {
                let half = self.def(format_args!("bitcast float {value} to i32"));
                self.def(format_args!("zext i32 {half} to i64"))
            }
            Ty::I64 | Ty::U64 => value.to_owned(),
            _ => {
                let extend = if ty.is_signed() { "sext" } else { "zext" };
                self.def(format_args!("{extend} {} {value} to i64", scalar(ty)))
            }
        }
    }

    /// Whether the loop may read what it writes: a recurrence does, and a comb may write over what it reads.
    fn may_alias(&self) -> bool {
        self.lanes == Lanes::One || matches!(self.lp.sink, Sink::Comb { .. })
    }

    /// Metadata of a load.
    fn reads(&self) -> &'static str {
        if self.may_alias() {
            ""
        } else {
            ", !alias.scope !3, !noalias !4"
        }
    }

    /// Metadata of a store.
    fn writes(&self) -> &'static str {
        if self.may_alias() {
            ""
        } else {
            ", !alias.scope !4, !noalias !3"
        }
    }

    /// In checked code: stops the process unless the elements `from .. to` lie in `-lead .. len`.
    fn check(&mut self, from: &str, to: &str, lead: &str, len: &str) {
        let name = self.index;
        self.line(format_args!(
            "  call void @tilt_check(ptr @name.{name}, i64 {from}, i64 {to}, i64 {lead}, i64 {len})"
        ));
    }

    /// [`check`](Self::check) of `count` elements of a target from `row` on. Backward scans may write `lead` rows before the first.
    fn check_target(&mut self, target: usize, row: &str, count: usize, lead: usize) {
        if self.checked {
            let end = self.def(format_args!("add i64 {row}, {count}"));
            let len = format!("%outlen.{target}");
            self.check(row, &end, &lead.to_string(), &len);
        }
    }
}
