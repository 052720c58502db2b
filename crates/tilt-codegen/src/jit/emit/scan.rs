//! Running combinations.
//!
//! A group of eight rows is scanned by itself, in three steps (Sklansky's network), then the carry is added to all lanes. The chain from one group to the
//! next is a single operation: the carry is kept in all lanes of a register.

use super::{
    Emitter, Value,
    memory::{Group, Live},
    scalar, splat_literal, vector,
};
use crate::lir::{Combine, LANES, Slot, Ty};

/// Bytes of a register of a CPU without AVX-512.
const WIDTH: usize = 32;

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
    /// For each range whole groups in a loop, then the rows that fill none: only those need masks. A group that reaches into the range that is
    /// computed next counts as whole: its lanes there hold anything, and are written again. So neighbours that are short, like blocks of a short
    /// window, need no masks, and ranges are taken in the direction of the scan.
    ///
    /// ```text
    /// range -> loop* -> rest -> [tail -> tail.end] -> range.end -> range | exit
    /// ```
    pub(super) fn scan(&mut self, slots: &[Slot], backward: bool) {
        for (k, slot) in slots.iter().enumerate() {
            self.read_carry(k, self.lp.ty(slot.value));
        }
        let some = self.def("icmp ne i64 %rows, 0");
        self.branch(&some, "range", "exit");
        self.label("range");
        self.line("  %i = phi i64 [ 0, %entry ], [ %i.next, %range.end ]");
        for (k, slot) in slots.iter().enumerate() {
            let ty = self.lp.ty(slot.value);
            let (full, neutral) = (self.carry_ty(ty), splat_literal(slot.op.neutral(ty)));
            let (begin, given) = (carry("range", k), carry("given", k));
            self.line(format_args!(
                "  {begin} = phi {full} [ {given}, %entry ], [ {neutral}, %range.end ]"
            ));
        }
        self.line("  %i.next = add nuw i64 %i, 1");
        self.line("  %last = sub i64 %rows, 1");
        if backward {
            self.line("  %r = sub i64 %last, %i");
        } else {
            self.line("  %r = add i64 %i, 0");
        }
        self.range_bounds();
        self.whole_rows(backward);
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
        self.line("  br label %tail.end");
        self.label("tail.end");
        self.line("  br label %range.end");

        self.label("range.end");
        self.merge_carries(slots, "end", ("rest", "rest"), ("rest.next", "tail.end"));
        let more = self.def("icmp ult i64 %i.next, %rows");
        self.branch(&more, "range", "exit");

        self.label("exit");
        self.merge_carries(slots, "exit", ("given", "entry"), ("end", "range.end"));
        for (k, slot) in slots.iter().enumerate() {
            self.write_carry(k, self.lp.ty(slot.value));
        }
    }

    /// How many rows of a range are computed in whole groups, `%full`: all of them if the range that comes next begins where this one ends and has
    /// as many rows as fill the last group. The last range is its own successor, and does not.
    fn whole_rows(&mut self, backward: bool) {
        let next = self.def("call i64 @llvm.umin.i64(i64 %i.next, i64 %last)");
        let next = if backward {
            self.def(format_args!("sub i64 %last, {next}"))
        } else {
            next
        };
        let alias = self.reads();
        let pair = self.def(format_args!("shl i64 {next}, 1"));
        let at = self.element("i64", "%ranges", &pair);
        let lo = self.def(format_args!("load i64, ptr {at}, align 8{alias}"));
        let at = self.element("i64", &at, 1);
        let hi = self.def(format_args!("load i64, ptr {at}, align 8{alias}"));
        let there = self.def(format_args!("sub i64 {hi}, {lo}"));
        let meets = if backward {
            self.def(format_args!("icmp eq i64 {hi}, %lo"))
        } else {
            self.def(format_args!("icmp eq i64 {lo}, %hi"))
        };
        let up = self.def("add i64 %n, 7");
        let up = self.def(format_args!("and i64 {up}, -8"));
        let missing = self.def(format_args!("sub i64 {up}, %n"));
        let fills = self.def(format_args!("icmp sge i64 {there}, {missing}"));
        let all = self.def(format_args!("and i1 {meets}, {fills}"));
        let down = self.def("and i64 %n, -8");
        self.line(format_args!(
            "  %full = select i1 {all}, i64 {up}, i64 {down}"
        ));
    }

    /// The carries `%stage.k` at the begin of a block, each from two others: a stage and the block that it comes from.
    fn merge_carries(&mut self, slots: &[Slot], stage: &str, a: (&str, &str), b: (&str, &str)) {
        for (k, slot) in slots.iter().enumerate() {
            let full = self.carry_ty(self.lp.ty(slot.value));
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
            let (before, lanes) = (carry(stage, k), self.carry_lanes(ty));
            let each: Vec<u32> = (0..LANES).map(|lane| (lane % lanes) as u32).collect();
            let all = self.shuffle(ty, lanes, &before, "poison", &each);
            let out = self.combine(op, ty, LANES, &all, &scanned);
            let target = format!("%out.{k}");
            if let Some(Live { mask, .. }) = &group.live {
                if self.masks {
                    self.store_live(ty, &target, &group.base, &out, mask);
                } else {
                    self.store_rest(ty, k, backward, out);
                }
            } else {
                self.check_target(k, &group.base, LANES, 0);
                self.store_vector(ty, &target, &group.base, &out, false);
            }
            let total = self.shuffle(ty, LANES, &scanned, "poison", &vec![last; lanes]);
            let after = self.combine(op, ty, lanes, &before, &total);
            let (name, full) = (carry(&format!("{stage}.next"), k), self.carry_ty(ty));
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

    /// Stores the lanes that count by halves: the first four of what is left, or the last, if there are as many, then two, then one.
    fn store_rest(&mut self, ty: Ty, k: usize, backward: bool, value: Value) {
        let (element, align, alias) = (scalar(ty), ty.bytes(), self.writes());
        let at = if backward {
            let rest = self.def("and i64 %n, 7");
            self.def(format_args!("add i64 %lo, {rest}"))
        } else {
            self.def("add i64 %lo, %full")
        };
        let mut at = self.element(element, &format!("%out.{k}"), &at);
        let mut value = value;
        for count in [4u32, 2, 1] {
            let [some, next] = ["some", "next"].map(|name| format!("{name}.{k}.{count}"));
            let (full, lanes) = (vector(ty), LANES as u32);
            let has = self.def(format_args!("and i64 %n, {count}"));
            let has = self.def(format_args!("icmp ne i64 {has}, 0"));
            self.line(format_args!("  br label %from.{k}.{count}"));
            self.label(format_args!("from.{k}.{count}"));
            self.branch(&has, &some, &next);
            self.label(&some);
            let (these, others): (Vec<u32>, Vec<u32>) = if backward {
                let shifted = |lane: u32| lane.saturating_sub(count);
                (
                    (lanes - count..lanes).collect(),
                    (0..lanes).map(shifted).collect(),
                )
            } else {
                let shifted = |lane: u32| (lane + count).min(lanes - 1);
                ((0..count).collect(), (0..lanes).map(shifted).collect())
            };
            let stored = self.shuffle(ty, LANES, &value, "poison", &these);
            let to = if backward {
                self.element(element, &at, -i64::from(count))
            } else {
                at.clone()
            };
            self.line(format_args!(
                "  store <{count} x {element}> {stored}, ptr {to}, align {align}{alias}"
            ));
            let moved = self.shuffle(ty, LANES, &value, "poison", &others);
            let after = if backward {
                to
            } else {
                self.element(element, &at, count)
            };
            self.line(format_args!("  br label %{next}"));
            self.label(&next);
            let from = format!("from.{k}.{count}");
            value = self.def(format_args!(
                "phi {full} [ {value}, %{from} ], [ {moved}, %{some} ]"
            ));
            at = self.def(format_args!(
                "phi ptr [ {at}, %{from} ], [ {after}, %{some} ]"
            ));
        }
    }

    fn scan_lanes(&mut self, op: Combine, ty: Ty, value: Value, backward: bool) -> Value {
        let steps = if backward { BACKWARD } else { FORWARD };
        let neutral = splat_literal(op.neutral(ty));
        steps.iter().fold(value, |value, step| {
            if self.masks {
                let earlier = self.shuffle(ty, LANES, &value, &neutral, step);
                return self.combine(op, ty, LANES, &earlier, &value);
            }
            self.blend_step(op, ty, &value, step)
        })
    }

    /// A step of a scan without neutral elements, which AVX2 does not shuffle in: lanes that have nothing to be combined with stay as they are.
    fn blend_step(&mut self, op: Combine, ty: Ty, value: &str, step: &[u32; LANES]) -> Value {
        let lanes = LANES as u32;
        // A lane that stays may be given any other: that of its neighbour, because a pair of equal lanes is cheapest.
        let pick = |lane: usize| match step[lane] {
            8 => step[lane ^ 1].min(lanes),
            from => from,
        };
        let picks: Vec<String> = (0..LANES)
            .map(|lane| match pick(lane) {
                8 => "i32 poison".to_owned(),
                from => format!("i32 {from}"),
            })
            .collect();
        let full = vector(ty);
        let earlier = self.def(format_args!(
            "shufflevector {full} {value}, {full} poison, <{lanes} x i32> <{}>",
            picks.join(", ")
        ));
        let combined = self.combine(op, ty, LANES, &earlier, value);
        let mask: Vec<String> = step
            .iter()
            .map(|from| format!("i1 {}", *from != lanes))
            .collect();
        self.def(format_args!(
            "select <{lanes} x i1> <{}>, {full} {combined}, {full} {value}",
            mask.join(", ")
        ))
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
        let lanes = self.carry_lanes(ty);
        let spread = self.shuffle(ty, LANES, &spread, "poison", &vec![0; lanes]);
        let full = self.carry_ty(ty);
        self.line(format_args!(
            "  {} = freeze {full} {spread}",
            carry("given", k)
        ));
    }

    /// How many lanes a carry has: those of one register, which is added to all that a group takes.
    fn carry_lanes(&self, ty: Ty) -> usize {
        if self.masks {
            return LANES;
        }
        (WIDTH / ty.bytes()).min(LANES)
    }

    fn carry_ty(&self, ty: Ty) -> String {
        format!("<{} x {}>", self.carry_lanes(ty), scalar(ty))
    }

    fn write_carry(&mut self, k: usize, ty: Ty) {
        let value = self.extract(ty, self.carry_lanes(ty), &carry("exit", k), 0);
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
