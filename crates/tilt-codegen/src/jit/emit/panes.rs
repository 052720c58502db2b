//! Combinations over short ranges of one length that follow each other.
//!
//! Eight panes are as many groups of rows as a pane has rows. Neighbours are combined, which halves the number of vectors and of the rows that are left
//! of a pane, until one vector holds one element of each: the order is any, since slots are integers.

use super::{
    Emitter, Value,
    memory::{Group, Shape},
};
use crate::lir::{Combine, LANES, Slot, Ty};

impl Emitter<'_> {
    pub(super) fn panes(&mut self, slots: &[Slot], every: u32) {
        let some = self.def("icmp ne i64 %rows, 0");
        self.branch(&some, "loop", "exit");
        self.label("loop");
        self.line("  %p = phi i64 [ 0, %entry ], [ %p.next, %loop ]");
        let first = self.def(format_args!("mul nuw i64 %p, {every}"));
        let bodies: Vec<_> = (0..every as usize)
            .map(|j| {
                let group = Group {
                    base: self.def(format_args!("add nuw i64 {first}, {}", j * LANES)),
                    shape: Shape::Aligned,
                    live: None,
                };
                self.fetch_ahead(&group.base);
                self.body(&group)
            })
            .collect();
        for (k, slot) in slots.iter().enumerate() {
            let ty = self.lp.ty(slot.value);
            let vectors: Vec<Value> = bodies
                .iter()
                .map(|body| body[slot.value].to_owned())
                .collect();
            let combined = self.halve(slot.op, ty, vectors);
            self.check_target(k, "%p", LANES, 0);
            self.store_vector(ty, &format!("%out.{k}"), "%p", &combined, false);
        }
        self.line("  %p.next = add nuw i64 %p, 8");
        let more = self.def("icmp ult i64 %p.next, %rows");
        self.branch(&more, "loop", "exit");
        self.label("exit");
    }

    /// Combines neighbouring lanes of neighbouring vectors until there is one.
    fn halve(&mut self, op: Combine, ty: Ty, mut vectors: Vec<Value>) -> Value {
        while vectors.len() > 1 {
            let pairs = vectors.chunks_exact(2);
            vectors = pairs
                .map(|pair| {
                    let even = [0, 2, 4, 6, 8, 10, 12, 14];
                    let even = self.shuffle(ty, LANES, &pair[0], &pair[1], &even);
                    let odd = [1, 3, 5, 7, 9, 11, 13, 15];
                    let odd = self.shuffle(ty, LANES, &pair[0], &pair[1], &odd);
                    self.combine(op, ty, LANES, &even, &odd)
                })
                .collect();
        }
        vectors.pop().unwrap_or_default()
    }
}
