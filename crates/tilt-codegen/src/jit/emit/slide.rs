//! Combinations over the last rows, and over every eighth row.
//!
//! Combining a group with what lies one row before it, the result with what lies two before that, then four, gives each row the last eight. Groups that
//! follow each other are then combined lane by lane: nothing is moved between lanes any more, whatever the window. The order is any, since slots
//! are extremes.

use super::{
    Emitter, Value,
    memory::{Group, Live, Shape},
    splat_literal, vector,
};
use crate::lir::{Combine, LANES, Slot, Ty, shifts};

/// What goes from group to group, a vector each for every slot.
struct Carried {
    slots: Vec<(Combine, Ty)>,
    /// What each step combines a group with: the group before it as that step found it. The running combination comes after these, if any.
    shifts: Vec<u32>,
    running: bool,
}

impl Carried {
    fn each(&self) -> usize {
        self.shifts.len() + usize::from(self.running)
    }

    /// Slot and number of each vector.
    fn all(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let each = self.each();
        (0..self.slots.len()).flat_map(move |k| (0..each).map(move |v| (k, v)))
    }

    fn is_running(&self, number: usize) -> bool {
        number == self.shifts.len()
    }
}

/// The name of a vector at a stage.
fn name(stage: &str, slot: usize, number: usize) -> Value {
    format!("%carry.{stage}.{slot}.{number}")
}

impl Emitter<'_> {
    /// The first pair of `%ranges` says which rows exist: groups of which some do not need masks.
    ///
    /// ```text
    /// range -> loop* -> rest -> (edge -> [some] -> edge.end)* -> range.end -> range | exit
    /// ```
    pub(super) fn slide(&mut self, slots: &[Slot], span: u32, running: bool) {
        let carried = Carried {
            slots: self.kinds(slots),
            shifts: shifts(span),
            running,
        };
        let alias = self.reads();
        let at = self.element("i64", "%ranges", 1);
        self.line(format_args!(
            "  %until = load i64, ptr {at}, align 8{alias}"
        ));
        self.read_lanes(&carried);
        let some = self.def("icmp ugt i64 %rows, 1");
        self.branch(&some, "range", "exit");

        self.label("range");
        self.line("  %r = phi i64 [ 1, %entry ], [ %r.next, %range.end ]");
        self.begin_range(&carried);
        self.range_bounds();
        let whole = self.def("call i64 @llvm.smin.i64(i64 %hi, i64 %until)");
        let whole = self.def(format_args!("sub i64 {whole}, %lo"));
        let whole = self.def(format_args!("call i64 @llvm.smax.i64(i64 {whole}, i64 0)"));
        self.line(format_args!("  %full = and i64 {whole}, -8"));
        let some = self.def("icmp ne i64 %full, 0");
        self.branch(&some, "loop", "rest");

        self.label("loop");
        self.line("  %done = phi i64 [ 0, %range ], [ %done.next, %loop ]");
        self.merge(&carried, "loop", ("range", "range"), ("loop.next", "loop"));
        let whole = self.whole_group("%done", false);
        self.fetch_ahead(&whole.base);
        let body = self.body(&whole);
        let values: Vec<Value> = slots.iter().map(|s| body[s.value].to_owned()).collect();
        self.slide_group(&carried, values, &whole.base, "loop");
        self.line("  %done.next = add nuw i64 %done, 8");
        let more = self.def("icmp ult i64 %done.next, %full");
        self.branch(&more, "loop", "rest");

        self.label("rest");
        self.merge(&carried, "rest", ("range", "range"), ("loop.next", "loop"));
        let some = self.def("icmp ult i64 %full, %n");
        self.branch(&some, "edge", "range.end");
        self.edges(&carried, slots);

        self.end_range(&carried, ("rest", "rest"), ("edge.next", "edge.end"));
    }

    /// Groups of which not all rows exist, maybe none.
    fn edges(&mut self, carried: &Carried, slots: &[Slot]) {
        self.label("edge");
        self.line("  %beyond = phi i64 [ %full, %rest ], [ %beyond.next, %edge.end ]");
        self.merge(carried, "edge", ("rest", "rest"), ("edge.next", "edge.end"));
        let base = self.def("add i64 %lo, %beyond");
        let live = self.def(format_args!("sub i64 %until, {base}"));
        let live = self.def(format_args!("call i64 @llvm.smax.i64(i64 {live}, i64 0)"));
        let live = self.def(format_args!("call i64 @llvm.smin.i64(i64 {live}, i64 8)"));
        let some = self.def(format_args!("icmp ne i64 {live}, 0"));
        self.branch(&some, "some", "edge.end");

        self.label("some");
        let end = self.def(format_args!("add i64 {base}, {live}"));
        let last = self.def(format_args!("sub i64 {end}, 1"));
        let spread = self.splat(&live, Ty::I64);
        let lanes = "<8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>";
        let mask = self.def(format_args!("icmp ult {lanes}, {spread}"));
        let group = Group {
            base: base.clone(),
            shape: Shape::Partial {
                first: base.clone(),
                last,
                skip: "0".to_owned(),
            },
            live: Some(Live { mask, anchor: 0 }),
        };
        let body = self.body(&group);
        let values: Vec<Value> = slots
            .iter()
            .map(|slot| self.or_neutral(slot.op, self.lp.ty(slot.value), &body[slot.value], &group))
            .collect();
        self.line("  br label %edge.end");

        self.label("edge.end");
        let values = values.into_iter().zip(&carried.slots);
        let values: Vec<Value> = values
            .map(|(value, (op, ty))| {
                let (full, neutral) = (vector(*ty), splat_literal(op.neutral(*ty)));
                self.def(format_args!(
                    "phi {full} [ {neutral}, %edge ], [ {value}, %some ]"
                ))
            })
            .collect();
        self.slide_group(carried, values, &base, "edge");
        self.line("  %beyond.next = add nuw i64 %beyond, 8");
        let more = self.def("icmp ult i64 %beyond.next, %n");
        self.branch(&more, "edge", "range.end");
    }

    /// Combines a group's values with those before, from the vectors `%stage` to `%stage.next`, and stores the results.
    fn slide_group(&mut self, carried: &Carried, values: Vec<Value>, base: &str, stage: &str) {
        let targets = 1 + usize::from(carried.running);
        let next = format!("{stage}.next");
        for (k, (mut value, (op, ty))) in values.into_iter().zip(&carried.slots).enumerate() {
            let full = vector(*ty);
            for (step, shift) in carried.shifts.iter().enumerate() {
                let lanes: Vec<u32> = (LANES as u32 - shift..2 * LANES as u32 - shift).collect();
                let before = name(stage, k, step);
                let earlier = self.shuffle(*ty, LANES, &before, &value, &lanes);
                // A copy under a name that a phi can spell.
                let kept = name(&next, k, step);
                self.line(format_args!("  {kept} = freeze {full} {value}"));
                value = self.combine(*op, *ty, LANES, &earlier, &kept);
            }
            self.check_target(k * targets, base, LANES, 0);
            self.store_vector(*ty, &format!("%out.{}", k * targets), base, &value, false);
            if carried.running {
                let (target, number) = (k * targets + 1, carried.shifts.len());
                let all = self.combine(*op, *ty, LANES, &name(stage, k, number), &value);
                let all_name = name(&next, k, number);
                self.line(format_args!("  {all_name} = freeze {full} {all}"));
                self.check_target(target, base, LANES, 0);
                self.store_vector(*ty, &format!("%out.{target}"), base, &all_name, false);
            }
        }
    }

    /// Every eighth row from a range's last ones to its first.
    ///
    /// ```text
    /// range -> loop* -> range.end -> range | exit
    /// ```
    pub(super) fn comb(&mut self, slots: &[Slot]) {
        let carried = Carried {
            slots: self.kinds(slots),
            shifts: Vec::new(),
            running: true,
        };
        self.read_lanes(&carried);
        let some = self.def("icmp ne i64 %rows, 0");
        self.branch(&some, "range", "exit");
        self.label("range");
        self.line("  %r = phi i64 [ 0, %entry ], [ %r.next, %range.end ]");
        self.begin_range(&carried);
        self.range_bounds();
        let some = self.def("icmp ne i64 %n, 0");
        self.branch(&some, "loop", "range.end");

        self.label("loop");
        self.line("  %done = phi i64 [ 0, %range ], [ %done.next, %loop ]");
        self.merge(&carried, "loop", ("range", "range"), ("loop.next", "loop"));
        let group = self.whole_group("%done", true);
        let body = self.body(&group);
        let values: Vec<Value> = slots.iter().map(|s| body[s.value].to_owned()).collect();
        for (k, (value, (op, ty))) in values.iter().zip(&carried.slots).enumerate() {
            let all = self.combine(*op, *ty, LANES, &name("loop", k, 0), value);
            let (next, full) = (name("loop.next", k, 0), vector(*ty));
            self.line(format_args!("  {next} = freeze {full} {all}"));
            self.check_target(k, &group.base, LANES, 0);
            self.store_vector(*ty, &format!("%out.{k}"), &group.base, &next, false);
        }
        self.line("  %done.next = add nuw i64 %done, 8");
        let more = self.def("icmp ult i64 %done.next, %n");
        self.branch(&more, "loop", "range.end");

        self.end_range(&carried, ("range", "range"), ("loop.next", "loop"));
    }

    /// The end of a range, which is come to from two blocks with vectors of their own, and that of all ranges.
    fn end_range(&mut self, carried: &Carried, one: (&str, &str), other: (&str, &str)) {
        self.label("range.end");
        self.merge(carried, "end", one, other);
        self.line("  %r.next = add nuw i64 %r, 1");
        let more = self.def("icmp ult i64 %r.next, %rows");
        self.branch(&more, "range", "exit");
        self.label("exit");
        self.merge(carried, "exit", ("given", "entry"), ("end", "range.end"));
        self.write_lanes(carried);
    }

    fn kinds(&self, slots: &[Slot]) -> Vec<(Combine, Ty)> {
        let kind = |slot: &Slot| (slot.op, self.lp.ty(slot.value));
        slots.iter().map(kind).collect()
    }

    /// The vectors at the begin of a range: what runs begins anew, unless it is the first.
    fn begin_range(&mut self, carried: &Carried) {
        for (k, v) in carried.all() {
            let (op, ty) = carried.slots[k];
            let (begin, given) = (name("range", k, v), name("given", k, v));
            let later = if carried.is_running(v) {
                splat_literal(op.neutral(ty))
            } else {
                name("end", k, v)
            };
            let full = vector(ty);
            self.line(format_args!(
                "  {begin} = phi {full} [ {given}, %entry ], [ {later}, %range.end ]"
            ));
        }
    }

    /// The vectors `%stage` at the begin of a block, each from two others: a stage and the block that it comes from.
    fn merge(&mut self, carried: &Carried, stage: &str, a: (&str, &str), b: (&str, &str)) {
        for (k, v) in carried.all() {
            let full = vector(carried.slots[k].1);
            let (merged, one, other) = (name(stage, k, v), name(a.0, k, v), name(b.0, k, v));
            self.line(format_args!(
                "  {merged} = phi {full} [ {one}, %{} ], [ {other}, %{} ]",
                a.1, b.1
            ));
        }
    }

    /// A word of the state for each lane.
    fn read_lanes(&mut self, carried: &Carried) {
        for (k, v) in carried.all() {
            let ty = carried.slots[k].1;
            let at = self.element("i64", "%state", (k * carried.each() + v) * LANES);
            let words = self.def(format_args!("load <8 x i64>, ptr {at}, align 8"));
            let (given, full) = (name("given", k, v), vector(ty));
            if ty.bits() == 64 {
                self.line(format_args!("  {given} = freeze {full} {words}"));
            } else {
                self.line(format_args!(
                    "  {given} = trunc <8 x i64> {words} to {full}"
                ));
            }
        }
    }

    fn write_lanes(&mut self, carried: &Carried) {
        for (k, v) in carried.all() {
            let ty = carried.slots[k].1;
            let at = self.element("i64", "%state", (k * carried.each() + v) * LANES);
            let mut words = name("exit", k, v);
            if ty.bits() < 64 {
                let extend = if ty.is_signed() { "sext" } else { "zext" };
                let full = vector(ty);
                words = self.def(format_args!("{extend} {full} {words} to <8 x i64>"));
            }
            self.line(format_args!("  store <8 x i64> {words}, ptr {at}, align 8"));
        }
    }
}
