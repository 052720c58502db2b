//! Running combinations.
//!
//! A group of eight rows is scanned by itself, in three steps (Sklansky's network), then the carry is added to all lanes. The chain from one group to the
//! next is a single operation: the carry is kept in all lanes of a vector.

use super::{
    Emitter, Value,
    memory::{Group, Live},
    scalar, splat_literal, vector,
};
use crate::lir::{Combine, LANES, Slot, Ty};

/// Which lane each lane is combined with in a step; 8 is the neutral element. The order of rows is that of lanes.
const FORWARD: [[u32; LANES]; 3] = [
    [8, 0, 8, 2, 8, 4, 8, 6],
    [8, 8, 1, 1, 8, 8, 5, 5],
    [8, 8, 8, 8, 3, 3, 3, 3],
];

/// The same, lane 7 being the first.
const BACKWARD: [[u32; LANES]; 3] = [
    [1, 8, 3, 8, 5, 8, 7, 8],
    [2, 2, 8, 8, 6, 6, 8, 8],
    [4, 4, 4, 4, 8, 8, 8, 8],
];

impl Emitter<'_> {
    /// For each range whole groups in a loop, then the rows that fill none: only those need masks.
    ///
    /// ```text
    /// range -> loop* -> rest -> [tail] -> range.end -> range | exit
    /// ```
    pub(super) fn scan(&mut self, slots: &[Slot], backward: bool) {
        for (k, slot) in slots.iter().enumerate() {
            self.read_carry(k, self.lp.ty(slot.value));
        }
        let some = self.def("icmp ne i64 %rows, 0");
        self.branch(&some, "range", "exit");
        self.label("range");
        self.line("  %r = phi i64 [ 0, %entry ], [ %r.next, %range.end ]");
        for (k, slot) in slots.iter().enumerate() {
            let ty = self.lp.ty(slot.value);
            let (full, neutral) = (vector(ty), splat_literal(slot.op.neutral(ty)));
            let (begin, given) = (carry("range", k), carry("given", k));
            self.line(format_args!(
                "  {begin} = phi {full} [ {given}, %entry ], [ {neutral}, %range.end ]"
            ));
        }
        self.range_bounds();
        self.line("  %full = and i64 %n, -8");
        let some = self.def("icmp ne i64 %full, 0");
        self.branch(&some, "loop", "rest");

        self.label("loop");
        self.line("  %done = phi i64 [ 0, %range ], [ %done.next, %loop ]");
        self.merge_carries(slots, "loop", ("range", "range"), ("loop.next", "loop"));
        let whole = self.whole_group("%done", backward);
        self.fetch_ahead(&whole.base);
        self.scan_slots(slots, &whole, backward, "loop");
        self.line("  %done.next = add nuw i64 %done, 8");
        let more = self.def("icmp ult i64 %done.next, %full");
        self.branch(&more, "loop", "rest");

        self.label("rest");
        self.merge_carries(slots, "rest", ("range", "range"), ("loop.next", "loop"));
        let some = self.def("icmp ult i64 %full, %n");
        self.branch(&some, "tail", "range.end");
        self.label("tail");
        let tail = self.partial_group(backward);
        self.scan_slots(slots, &tail, backward, "rest");
        self.line("  br label %range.end");

        self.label("range.end");
        self.merge_carries(slots, "end", ("rest", "rest"), ("rest.next", "tail"));
        self.line("  %r.next = add nuw i64 %r, 1");
        let more = self.def("icmp ult i64 %r.next, %rows");
        self.branch(&more, "range", "exit");

        self.label("exit");
        self.merge_carries(slots, "exit", ("given", "entry"), ("end", "range.end"));
        for (k, slot) in slots.iter().enumerate() {
            self.write_carry(k, self.lp.ty(slot.value));
        }
    }

    /// The carries `%stage.k` at the begin of a block, each from two others: a stage and the block that it comes from.
    fn merge_carries(&mut self, slots: &[Slot], stage: &str, a: (&str, &str), b: (&str, &str)) {
        for (k, slot) in slots.iter().enumerate() {
            let full = vector(self.lp.ty(slot.value));
            let (name, one, other) = (carry(stage, k), carry(a.0, k), carry(b.0, k));
            self.line(format_args!(
                "  {name} = phi {full} [ {one}, %{} ], [ {other}, %{} ]",
                a.1, b.1
            ));
        }
    }

    /// Scans one group, from the carries `%stage.k` to `%stage.next.k`.
    fn scan_slots(&mut self, slots: &[Slot], group: &Group, backward: bool, stage: &str) {
        let body = self.body(group);
        let last = if backward { 0 } else { LANES as u32 - 1 };
        for (k, slot) in slots.iter().enumerate() {
            let (op, ty) = (slot.op, self.lp.ty(slot.value));
            let counted = self.or_neutral(op, ty, &body[slot.value], group);
            let scanned = self.scan_lanes(op, ty, counted, backward);
            let before = carry(stage, k);
            let out = self.combine(op, ty, LANES, &before, &scanned);
            let target = format!("%out.{k}");
            if let Some(Live { mask, .. }) = &group.live {
                self.store_live(ty, &target, &group.base, &out, mask);
            } else {
                self.check_target(k, &group.base, LANES, 0);
                self.store_vector(ty, &target, &group.base, &out, false);
            }
            let total = self.shuffle(ty, LANES, &scanned, "poison", &[last; LANES]);
            let after = self.combine(op, ty, LANES, &before, &total);
            let (name, full) = (carry(&format!("{stage}.next"), k), vector(ty));
            // A copy under a name that a phi can spell.
            self.line(format_args!("  {name} = freeze {full} {after}"));
        }
    }

    /// Stores the lanes that count.
    fn store_live(&mut self, ty: Ty, base: &str, row: &str, value: &str, mask: &str) {
        let at = self.element(scalar(ty), base, row);
        let (full, suffix, align) = (vector(ty), self.mangled(ty), ty.bytes());
        let alias = self.writes();
        self.line(format_args!(
            "  call void @llvm.masked.store.{suffix}.p0({full} {value}, ptr {at}, i32 {align}, <8 x i1> {mask}){alias}"
        ));
    }

    fn scan_lanes(&mut self, op: Combine, ty: Ty, value: Value, backward: bool) -> Value {
        let steps = if backward { BACKWARD } else { FORWARD };
        let neutral = splat_literal(op.neutral(ty));
        steps.iter().fold(value, |value, step| {
            let earlier = self.shuffle(ty, LANES, &value, &neutral, step);
            self.combine(op, ty, LANES, &earlier, &value)
        })
    }

    /// A group's values, the neutral element in lanes that do not count.
    pub(super) fn or_neutral(&mut self, op: Combine, ty: Ty, value: &str, group: &Group) -> Value {
        let Some(Live { mask, .. }) = &group.live else {
            return value.to_owned();
        };
        let (full, neutral) = (vector(ty), splat_literal(op.neutral(ty)));
        self.def(format_args!(
            "select <8 x i1> {mask}, {full} {value}, {full} {neutral}"
        ))
    }

    /// `a ⊕ b`, `width` lanes at once, or of scalars if that is 1.
    pub(super) fn combine(&mut self, op: Combine, ty: Ty, width: usize, a: &str, b: &str) -> Value {
        let element = scalar(ty);
        let (full, suffix) = if width == 1 {
            (element.to_owned(), element.to_owned())
        } else {
            (
                format!("<{width} x {element}>"),
                format!("v{width}{element}"),
            )
        };
        let signed = ty.is_signed();
        let name = match op {
            Combine::Add if ty.is_float() => "fadd",
            Combine::Mul if ty.is_float() => "fmul",
            Combine::Add => "add",
            Combine::Mul => "mul",
            Combine::Or => "or",
            Combine::Min | Combine::Max => {
                let name = extremum(op, signed);
                return self.def(format_args!(
                    "call {full} @llvm.{name}.{suffix}({full} {a}, {full} {b})"
                ));
            }
        };
        self.def(format_args!("{name} {full} {a}, {b}"))
    }

    fn read_carry(&mut self, k: usize, ty: Ty) {
        let at = self.element("i64", "%state", k);
        let word = self.def(format_args!("load i64, ptr {at}, align 8"));
        let value = self.decode(&word, ty);
        let spread = self.splat(&value, ty);
        let full = vector(ty);
        self.line(format_args!(
            "  {} = freeze {full} {spread}",
            carry("given", k)
        ));
    }

    fn write_carry(&mut self, k: usize, ty: Ty) {
        let value = self.extract(ty, LANES, &carry("exit", k), 0);
        let word = self.encode(&value, ty);
        let at = self.element("i64", "%state", k);
        self.line(format_args!("  store i64 {word}, ptr {at}, align 8"));
    }
}

/// The name of the carry of slot `k` at a stage.
fn carry(stage: &str, k: usize) -> Value {
    format!("%carry.{stage}.{k}")
}

/// The intrinsic of `Min` or `Max`.
pub(super) fn extremum(op: Combine, signed: bool) -> &'static str {
    match (op, signed) {
        (Combine::Min, true) => "smin",
        (Combine::Min, false) => "umin",
        (_, true) => "smax",
        (_, false) => "umax",
    }
}
