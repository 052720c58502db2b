//! Combinations over ranges.
//!
//! The rows of a range are taken four groups at a time, then one at a time, then those that are left over, which alone need masks:
//!
//! ```text
//! range -> quad* -> quad.end -> groups -> group* -> group.end -> partial -> finish -> range | exit
//! ```
//!
//! The order of float additions is part of the result, so a group is a balanced tree and groups form a chain. The trees of four groups are computed
//! together: transposing shuffles put pairs of different groups side by side. For integers any order gives the same, and each lane of four vectors
//! is a sum of its own until the range ends.

use super::{
    Emitter, Value, literal, mangled,
    memory::{Group, Live, Shape},
    scalar,
    scan::extremum,
    splat_literal, vector,
};
use crate::lir::{Combine, LANES, Slot, Ty};

/// Groups that the main loop takes at once.
const QUAD: usize = 4;

/// A slot with what the order of its operation asks for.
#[derive(Clone, Copy)]
struct Accumulator {
    op: Combine,
    ty: Ty,
    /// Where the order matters the accumulator is one value, else a vector.
    ordered: bool,
}

impl Accumulator {
    fn width(self) -> usize {
        if self.ordered { 1 } else { LANES }
    }

    /// How many there are in the main loop.
    fn copies(self) -> usize {
        if self.ordered { 1 } else { QUAD }
    }

    fn llvm(self) -> String {
        if self.ordered {
            scalar(self.ty).to_owned()
        } else {
            vector(self.ty)
        }
    }

    fn neutral(self) -> Value {
        let imm = self.op.neutral(self.ty);
        if self.ordered {
            literal(imm)
        } else {
            splat_literal(imm)
        }
    }
}

impl Emitter<'_> {
    pub(super) fn fold(&mut self, slots: &[Slot], backward: bool) {
        let accumulators: Vec<_> = slots
            .iter()
            .map(|slot| {
                let (op, ty) = (slot.op, self.lp.ty(slot.value));
                let ordered = ty.is_float();
                Accumulator { op, ty, ordered }
            })
            .collect();
        let some = self.def("icmp ne i64 %rows, 0");
        self.branch(&some, "range", "exit");
        self.range();
        self.quads(slots, &accumulators, backward);
        self.groups(slots, &accumulators, backward);
        self.partial(slots, &accumulators, backward);
        self.finish(&accumulators);
        self.label("exit");
    }

    /// Reads a range: `%n` rows, `%full` of them in whole groups and `%quads` in groups of four groups.
    fn range(&mut self) {
        self.label("range");
        self.line("  %r = phi i64 [ 0, %entry ], [ %r.next, %finish ]");
        self.range_bounds();
        self.line("  %full = and i64 %n, -8");
        self.line("  %quads = and i64 %n, -32");
        let any = self.def("icmp ne i64 %quads, 0");
        self.branch(&any, "quad", "groups");
    }

    /// Loads range `%r`: rows `%lo ..  %hi`, `%n` of them.
    pub(super) fn range_bounds(&mut self) {
        let alias = self.reads();
        self.line("  %pair = shl i64 %r, 1");
        let at = self.element("i64", "%ranges", "%pair");
        self.line(format_args!("  %lo = load i64, ptr {at}, align 8{alias}"));
        let at = self.element("i64", &at, 1);
        self.line(format_args!("  %hi = load i64, ptr {at}, align 8{alias}"));
        let rows = self.def("sub i64 %hi, %lo");
        self.line(format_args!(
            "  %n = call i64 @llvm.smax.i64(i64 {rows}, i64 0)"
        ));
    }

    /// The row in lane 0 of the group that begins `done` rows into the range.
    fn base(&mut self, done: &str, backward: bool) -> Value {
        if backward {
            let end = self.def(format_args!("sub i64 %hi, {done}"));
            self.def(format_args!("sub i64 {end}, 8"))
        } else {
            self.def(format_args!("add i64 %lo, {done}"))
        }
    }

    pub(super) fn whole_group(&mut self, done: &str, backward: bool) -> Group {
        Group {
            base: self.base(done, backward),
            shape: Shape::Whole,
            live: None,
        }
    }

    /// The main loop.
    fn quads(&mut self, slots: &[Slot], accumulators: &[Accumulator], backward: bool) {
        self.label("quad");
        self.line("  %q = phi i64 [ 0, %range ], [ %q.next, %quad ]");
        for (k, accumulator) in accumulators.iter().enumerate() {
            let (llvm, neutral) = (accumulator.llvm(), accumulator.neutral());
            for j in 0..accumulator.copies() {
                self.line(format_args!(
                    "  %quad.{k}.{j} = phi {llvm} [ {neutral}, %range ], [ %quad.{k}.{j}.next, %quad ]"
                ));
            }
        }
        let bodies: Vec<_> = (0..QUAD)
            .map(|j| {
                let done = self.def(format_args!("add i64 %q, {}", j * LANES));
                let group = self.whole_group(&done, backward);
                self.fetch_ahead(&group.base);
                self.body(&group)
            })
            .collect();
        for (k, (slot, accumulator)) in slots.iter().zip(accumulators).enumerate() {
            let vectors: Vec<&str> = bodies.iter().map(|body| &body[slot.value]).collect();
            if accumulator.ordered {
                let total = self.add_four(*accumulator, &format!("%quad.{k}.0"), &vectors);
                self.rename(&format!("%quad.{k}.0.next"), *accumulator, &total);
            } else {
                for (j, value) in vectors.iter().enumerate() {
                    let name = format!("%quad.{k}.{j}");
                    let sum = self.add(*accumulator, &name, value);
                    self.rename(&format!("{name}.next"), *accumulator, &sum);
                }
            }
        }
        self.line("  %q.next = add nuw i64 %q, 32");
        let more = self.def("icmp ult i64 %q.next, %quads");
        self.branch(&more, "quad", "quad.end");
        self.label("quad.end");
        for (k, accumulator) in accumulators.iter().enumerate() {
            let merged = (1..accumulator.copies()).fold(format!("%quad.{k}.0.next"), |sum, j| {
                self.add(*accumulator, &sum, &format!("%quad.{k}.{j}.next"))
            });
            self.rename(&format!("%quad.{k}"), *accumulator, &merged);
        }
        self.line("  br label %groups");
    }

    /// Up to three whole groups after the main loop.
    fn groups(&mut self, slots: &[Slot], accumulators: &[Accumulator], backward: bool) {
        self.label("groups");
        for (k, accumulator) in accumulators.iter().enumerate() {
            let (llvm, neutral) = (accumulator.llvm(), accumulator.neutral());
            self.line(format_args!(
                "  %groups.{k} = phi {llvm} [ {neutral}, %range ], [ %quad.{k}, %quad.end ]"
            ));
        }
        let any = self.def("icmp ult i64 %quads, %full");
        self.branch(&any, "group", "group.end");
        self.label("group");
        self.line("  %g = phi i64 [ %quads, %groups ], [ %g.next, %group ]");
        for (k, accumulator) in accumulators.iter().enumerate() {
            let llvm = accumulator.llvm();
            self.line(format_args!(
                "  %group.{k} = phi {llvm} [ %groups.{k}, %groups ], [ %group.{k}.next, %group ]"
            ));
        }
        let group = self.whole_group("%g", backward);
        self.one_group(slots, accumulators, &group, "group");
        self.line("  %g.next = add nuw i64 %g, 8");
        let more = self.def("icmp ult i64 %g.next, %full");
        self.branch(&more, "group", "group.end");
        self.label("group.end");
        for (k, accumulator) in accumulators.iter().enumerate() {
            let llvm = accumulator.llvm();
            self.line(format_args!(
                "  %partial.{k} = phi {llvm} [ %groups.{k}, %groups ], [ %group.{k}.next, %group ]"
            ));
        }
        let any = self.def("icmp ult i64 %full, %n");
        self.branch(&any, "partial", "finish");
    }

    /// Rows that fill no group. Nothing else of their group may be read.
    fn partial(&mut self, slots: &[Slot], accumulators: &[Accumulator], backward: bool) {
        self.label("partial");
        let group = self.partial_group(backward);
        self.one_group(slots, accumulators, &group, "partial");
        self.line("  br label %finish");
    }

    /// The rows of a range that fill no whole group.
    pub(super) fn partial_group(&mut self, backward: bool) -> Group {
        let rest = self.def("and i64 %n, 7");
        let base = self.base("%full", backward);
        let (first, skip, anchor) = if backward {
            let skip = self.def(format_args!("sub i64 8, {rest}"));
            ("%lo".to_owned(), skip, LANES - 1)
        } else {
            (base.clone(), "0".to_owned(), 0)
        };
        let end = self.def(format_args!("add i64 {first}, {rest}"));
        let last = self.def(format_args!("sub i64 {end}, 1"));
        let lanes = "<8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>";
        let mask = if backward {
            let skip = self.splat(&skip, Ty::I64);
            self.def(format_args!("icmp uge {lanes}, {skip}"))
        } else {
            let rest = self.splat(&rest, Ty::I64);
            self.def(format_args!("icmp ult {lanes}, {rest}"))
        };
        Group {
            base,
            shape: Shape::Partial { first, last, skip },
            live: Some(Live { mask, anchor }),
        }
    }

    /// Adds one group to the accumulators `%stage.k`, giving `%stage.k.next`.
    fn one_group(
        &mut self,
        slots: &[Slot],
        accumulators: &[Accumulator],
        group: &Group,
        stage: &str,
    ) {
        let body = self.body(group);
        for (k, (slot, accumulator)) in slots.iter().zip(accumulators).enumerate() {
            let value = self.or_neutral(slot.op, accumulator.ty, &body[slot.value], group);
            let value = if accumulator.ordered {
                self.tree(*accumulator, value)
            } else {
                value
            };
            let name = format!("%{stage}.{k}");
            let sum = self.add(*accumulator, &name, &value);
            self.rename(&format!("{name}.next"), *accumulator, &sum);
        }
    }

    /// Writes the results of a range.
    fn finish(&mut self, accumulators: &[Accumulator]) {
        self.label("finish");
        for (k, accumulator) in accumulators.iter().enumerate() {
            let llvm = accumulator.llvm();
            self.line(format_args!(
                "  %finish.{k} = phi {llvm} [ %partial.{k}, %group.end ], [ %partial.{k}.next, %partial ]"
            ));
        }
        for (k, accumulator) in accumulators.iter().enumerate() {
            let ty = accumulator.ty;
            let sum = format!("%finish.{k}");
            let result = if accumulator.ordered {
                sum
            } else {
                self.reduce(*accumulator, &sum)
            };
            self.check_target(k, "%r", 1, 0);
            let at = self.element(scalar(ty), &format!("%out.{k}"), "%r");
            let (align, alias) = (ty.bytes(), self.writes());
            self.line(format_args!(
                "  store {} {result}, ptr {at}, align {align}{alias}",
                scalar(ty)
            ));
        }
        self.line("  %r.next = add nuw i64 %r, 1");
        let more = self.def("icmp ult i64 %r.next, %rows");
        self.branch(&more, "range", "exit");
    }

    fn add(&mut self, accumulator: Accumulator, a: &str, b: &str) -> Value {
        self.combine(accumulator.op, accumulator.ty, accumulator.width(), a, b)
    }

    /// Gives a value the name under which a phi knows it.
    fn rename(&mut self, name: &str, accumulator: Accumulator, value: &str) {
        let llvm = accumulator.llvm();
        self.line(format_args!("  {name} = freeze {llvm} {value}"));
    }

    /// The balanced tree over the lanes of one vector.
    fn tree(&mut self, accumulator: Accumulator, value: Value) -> Value {
        let Accumulator { op, ty, .. } = accumulator;
        let mut value = value;
        let mut width = LANES;
        while width > 1 {
            let even: Vec<u32> = (0..width as u32).step_by(2).collect();
            let odd: Vec<u32> = (1..width as u32).step_by(2).collect();
            if width == 2 {
                let (a, b) = (
                    self.extract(ty, 2, &value, 0),
                    self.extract(ty, 2, &value, 1),
                );
                return self.combine(op, ty, 1, &a, &b);
            }
            let a = self.shuffle(ty, width, &value, "poison", &even);
            let b = self.shuffle(ty, width, &value, "poison", &odd);
            width /= 2;
            value = self.combine(op, ty, width, &a, &b);
        }
        value
    }

    /// `carry ⊕ a ⊕ b ⊕ c ⊕ d` from left to right, each of the four being the tree over a vector.
    fn add_four(&mut self, accumulator: Accumulator, carry: &str, vectors: &[&str]) -> Value {
        let Accumulator { op, ty, .. } = accumulator;
        // a01 b01 a23 b23 a45 b45 a67 b67, and the same of c and d.
        let mut pairs = |a: &str, b: &str| {
            let even = self.shuffle(ty, LANES, a, b, &[0, 8, 2, 10, 4, 12, 6, 14]);
            let odd = self.shuffle(ty, LANES, a, b, &[1, 9, 3, 11, 5, 13, 7, 15]);
            self.combine(op, ty, LANES, &even, &odd)
        };
        let ab = pairs(vectors[0], vectors[1]);
        let cd = pairs(vectors[2], vectors[3]);
        // a0123 b0123 c0123 d0123 a4567 b4567 c4567 d4567
        let low = self.shuffle(ty, LANES, &ab, &cd, &[0, 1, 8, 9, 4, 5, 12, 13]);
        let high = self.shuffle(ty, LANES, &ab, &cd, &[2, 3, 10, 11, 6, 7, 14, 15]);
        let halves = self.combine(op, ty, LANES, &low, &high);
        let low = self.shuffle(ty, LANES, &halves, "poison", &[0, 1, 2, 3]);
        let high = self.shuffle(ty, LANES, &halves, "poison", &[4, 5, 6, 7]);
        let totals = self.combine(op, ty, QUAD, &low, &high);
        (0..QUAD).fold(carry.to_owned(), |sum, j| {
            let total = self.extract(ty, QUAD, &totals, j);
            self.combine(op, ty, 1, &sum, &total)
        })
    }

    /// All lanes of an integer vector, in any order.
    fn reduce(&mut self, accumulator: Accumulator, value: &str) -> Value {
        let Accumulator { op, ty, .. } = accumulator;
        let name = match op {
            Combine::Add => "add",
            Combine::Mul => "mul",
            Combine::Or => "or",
            Combine::Min | Combine::Max => extremum(op, ty.is_signed()),
        };
        let (element, suffix, full) = (scalar(ty), mangled(ty), vector(ty));
        self.def(format_args!(
            "call {element} @llvm.vector.reduce.{name}.v{LANES}{suffix}({full} {value})"
        ))
    }
}
