//! Instructions of the loop IR.
//!
//! No instruction carries a fast-math flag: the result is that of the interpreter, bit for bit. What LLVM calls poison is frozen where it could arise,
//! since a lane that does not count shares bytes with lanes that do.

use tilt_ir::Id;

use super::{Emitter, Value, memory::Group, parameter, scalar};
use crate::lir::{Binary, Compare, Function, Imm, Inst, LANES, Lanes, Node, Ty, Unary, ValueId};

/// Signed 64-bit integers as floats, where LLVM would convert them one by one. Those of fewer than 52 bits are doubles before they are rounded.
pub(super) const FLOAT_OF_WORD: &str = "
define private <8 x float> @float_of_word(<8 x i64> %x) alwaysinline nounwind {
  %above = add <8 x i64> %x, splat (i64 2251799813685248)
  %high = lshr <8 x i64> %above, splat (i64 52)
  %few = icmp eq <8 x i64> %high, zeroinitializer
  %mask = bitcast <8 x i1> %few to i8
  %all = icmp eq i8 %mask, -1
  br i1 %all, label %double, label %each, !prof !6
double:
  %bits = add <8 x i64> %x, splat (i64 4843621399236968448)
  %moved = bitcast <8 x i64> %bits to <8 x double>
  %wide = fsub <8 x double> %moved, splat (double 0x4338000000000000)
  %rounded = fptrunc <8 x double> %wide to <8 x float>
  ret <8 x float> %rounded
each:
  %converted = sitofp <8 x i64> %x to <8 x float>
  ret <8 x float> %converted
}
";

/// The values of a body, by id.
pub(super) struct Body(Vec<Value>);

impl std::ops::Index<ValueId> for Body {
    type Output = str;
    fn index(&self, id: ValueId) -> &str {
        &self.0[id.index()]
    }
}

impl Emitter<'_> {
    /// Computes the whole body for the rows of a group.
    pub(super) fn body(&mut self, group: &Group) -> Body {
        let lp = self.lp;
        let mut body = Body(Vec::with_capacity(lp.values.len()));
        for (_, node) in lp.values.iter() {
            let value = self.node(node, &body, group);
            body.0.push(value);
        }
        body
    }

    fn node(&mut self, node: &Node, body: &Body, group: &Group) -> Value {
        let ty = node.ty;
        match &node.inst {
            Inst::Const(imm) => self.constant(*imm),
            Inst::Param(id) => format!("%param.{}", id.index()),
            Inst::Row => {
                let first = self.def(format_args!("add i64 %first, {}", group.base));
                self.rows_from(&first)
            }
            Inst::Load(id) => self.load(*id, group),
            Inst::Valid(id) => self.valid(*id, group),
            Inst::Lookup(id, index) => self.lookup(*id, &body[*index], group),
            Inst::Unary(op, a) => self.unary(*op, ty, &body[*a]),
            Inst::Binary(op, a, b) => {
                let divided = (*op == Binary::Div)
                    .then(|| self.quotient((&body[*a], *a), (&body[*b], *b)))
                    .flatten();
                divided.unwrap_or_else(|| self.binary(*op, ty, &body[*a], &body[*b]))
            }
            Inst::Compare(op, a, b) => {
                let of = self.lp.ty(*a);
                self.compare(*op, of, &body[*a], &body[*b])
            }
            Inst::Select(condition, then, otherwise) => {
                let (bools, full) = (self.ty(Ty::Bool), self.ty(ty));
                self.def(format_args!(
                    "select {bools} {}, {full} {}, {full} {}",
                    &body[*condition], &body[*then], &body[*otherwise]
                ))
            }
            Inst::Convert(a) => self.convert(self.lp.ty(*a), ty, &body[*a]),
            Inst::Bits(a) => {
                let (from, to) = (self.ty(self.lp.ty(*a)), self.ty(ty));
                self.def(format_args!("bitcast {from} {} to {to}", &body[*a]))
            }
            Inst::Call(function, operands) => {
                let operands: Vec<&str> = operands.iter().map(|a| &body[*a]).collect();
                self.call(function, &operands)
            }
        }
    }

    fn unary(&mut self, op: Unary, ty: Ty, a: &str) -> Value {
        let full = self.ty(ty);
        let intrinsic = match op {
            Unary::Neg if ty.is_float() => return self.def(format_args!("fneg {full} {a}")),
            Unary::Neg => {
                let zero = self.constant(Imm::zero(ty));
                return self.def(format_args!("sub {full} {zero}, {a}"));
            }
            Unary::Not => {
                let ones = self.constant(Imm { ty, bits: u64::MAX });
                return self.def(format_args!("xor {full} {a}, {ones}"));
            }
            Unary::Abs if ty.is_signed() => {
                let suffix = self.mangled(ty);
                return self.def(format_args!(
                    "call {full} @llvm.abs.{suffix}({full} {a}, i1 false)"
                ));
            }
            Unary::Abs if ty.is_int() => return a.to_owned(),
            Unary::Abs => "fabs",
            Unary::Sqrt => "sqrt",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Trunc => "trunc",
            Unary::Round => "roundeven",
        };
        self.intrinsic(intrinsic, ty, &[a])
    }

    /// An intrinsic of operands and result of one type.
    fn intrinsic(&mut self, name: &str, ty: Ty, operands: &[&str]) -> Value {
        let (full, suffix) = (self.ty(ty), self.mangled(ty));
        let operands: Vec<_> = operands.iter().map(|a| format!("{full} {a}")).collect();
        self.def(format_args!(
            "call {full} @llvm.{name}.{suffix}({})",
            operands.join(", ")
        ))
    }

    pub(super) fn binary(&mut self, op: Binary, ty: Ty, a: &str, b: &str) -> Value {
        let signed = ty.is_signed();
        let name = match op {
            Binary::Add if ty.is_float() => "fadd",
            Binary::Sub if ty.is_float() => "fsub",
            Binary::Mul if ty.is_float() => "fmul",
            Binary::Div if ty.is_float() => "fdiv",
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div if signed => "sdiv",
            Binary::Div => "udiv",
            Binary::Rem if signed => "srem",
            Binary::Rem => "urem",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::Shl => "shl",
            Binary::Shr if signed => "ashr",
            Binary::Shr => "lshr",
            Binary::Min => {
                return self.intrinsic(if signed { "smin" } else { "umin" }, ty, &[a, b]);
            }
            Binary::Max => {
                return self.intrinsic(if signed { "smax" } else { "umax" }, ty, &[a, b]);
            }
        };
        let full = self.ty(ty);
        let value = self.def(format_args!("{name} {full} {a}, {b}"));
        match op {
            Binary::Shl | Binary::Shr => self.def(format_args!("freeze {full} {value}")),
            _ => value,
        }
    }

    fn compare(&mut self, op: Compare, ty: Ty, a: &str, b: &str) -> Value {
        let name = match op {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        };
        let (compare, kind) = match (op, ty) {
            // Unordered: true with NaN.
            (Compare::Ne, Ty::F32 | Ty::F64) => ("fcmp", "u"),
            (_, Ty::F32 | Ty::F64) => ("fcmp", "o"),
            (Compare::Eq | Compare::Ne, _) => ("icmp", ""),
            _ if ty.is_signed() => ("icmp", "s"),
            _ => ("icmp", "u"),
        };
        let full = self.ty(ty);
        self.def(format_args!("{compare} {kind}{name} {full} {a}, {b}"))
    }

    fn convert(&mut self, from: Ty, to: Ty, a: &str) -> Value {
        let name = match (from.is_float(), to.is_float()) {
            _ if scalar(from) == scalar(to) => return a.to_owned(),
            (false, false) if from.bits() > to.bits() => "trunc",
            (false, false) if from.is_signed() => "sext",
            (false, false) => "zext",
            (false, true) if from.is_signed() => "sitofp",
            (false, true) => "uitofp",
            (true, false) if to.is_signed() => "fptosi",
            (true, false) => "fptoui",
            (true, true) if from.bits() > to.bits() => "fptrunc",
            (true, true) => "fpext",
        };
        if (from, to, self.lanes) == (Ty::I64, Ty::F64, Lanes::Eight) && !self.converts {
            return self.double_of_word(a);
        }
        if (from, to, self.lanes) == (Ty::I64, Ty::F32, Lanes::Eight) && !self.converts {
            return self.def(format_args!(
                "call <8 x float> @float_of_word(<8 x i64> {a})"
            ));
        }
        let (source, full) = (self.ty(from), self.ty(to));
        let value = self.def(format_args!("{name} {source} {a} to {full}"));
        if name.starts_with("fpto") {
            self.def(format_args!("freeze {full} {value}"))
        } else {
            value
        }
    }

    /// Signed 64-bit integers as doubles, where LLVM would convert them one by one: the upper 16 bits and the lower 48 are put into doubles of a suitable
    /// exponent, and one addition rounds.
    fn double_of_word(&mut self, a: &str) -> Value {
        let high = self.def(format_args!("ashr <8 x i64> {a}, splat (i64 48)"));
        let high = self.def(format_args!("shl <8 x i64> {high}, splat (i64 32)"));
        // 3·2^67, whose last place is 2^16.
        let high = self.def(format_args!(
            "add <8 x i64> {high}, splat (i64 4915678993274896384)"
        ));
        let high = self.def(format_args!("bitcast <8 x i64> {high} to <8 x double>"));
        // 3·2^67 + 2^52
        let high = self.def(format_args!(
            "fsub <8 x double> {high}, splat (double 0x4438001000000000)"
        ));
        let low = self.def(format_args!(
            "and <8 x i64> {a}, splat (i64 281474976710655)"
        ));
        // 2^52, whose last place is 1.
        let low = self.def(format_args!(
            "or <8 x i64> {low}, splat (i64 4841369599423283200)"
        ));
        let low = self.def(format_args!("bitcast <8 x i64> {low} to <8 x double>"));
        self.def(format_args!("fadd <8 x double> {high}, {low}"))
    }

    /// A runtime function, lane by lane.
    fn call(&mut self, function: &Function, operands: &[&str]) -> Value {
        if self.lanes == Lanes::One {
            return self.call_scalar(function, operands);
        }
        let mut result = "poison".to_owned();
        for lane in 0..LANES {
            let arguments: Vec<_> = operands
                .iter()
                .zip(&function.params)
                .map(|(a, ty)| self.extract(*ty, LANES, a, lane))
                .collect();
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let one = self.call_scalar(function, &arguments);
            let (full, element) = (self.ty(function.result), scalar(function.result));
            result = self.def(format_args!(
                "insertelement {full} {result}, {element} {one}, i64 {lane}"
            ));
        }
        result
    }

    fn call_scalar(&mut self, function: &Function, operands: &[&str]) -> Value {
        let typed: Vec<_> = operands
            .iter()
            .zip(&function.params)
            .map(|(a, ty)| format!("{} {a}", parameter(*ty)))
            .collect();
        self.def(format_args!(
            "call {} @{}({}) #1",
            scalar(function.result),
            function.name,
            typed.join(", ")
        ))
    }
}
