//! Loops made of others: for totals of windows that slide, and for panes.

use tilt_ir::Id;

use super::{
    Access, AccessId, Binary, By, Combine, Inst, LONGEST_PANE, Loop, Node, Sink, Slot, Ty, ValueId,
};

impl Loop {
    /// A scan of sums of integers as one that adds each row's value less another's: the accesses are there twice, first those of what is
    /// added, then, in the same order, those of what is subtracted. Slots that are no sums combine what is added only.
    ///
    /// `None` if the loop is no scan forward of integers, or if a row is more than the values that it reads: bits of rows at any distance
    /// are not found at whole bytes, and the row's number is that of one of the two only.
    pub fn difference(&self) -> Option<Self> {
        let Sink::Scan {
            slots,
            backward: false,
        } = &self.sink
        else {
            return None;
        };
        if !self.is_movable(slots) {
            return None;
        }
        let mut result = self.clone();
        for (_, access) in self.accesses.iter() {
            let mut access = access.clone();
            access.name = format!("{} that leaves", access.name);
            result.accesses.push(access);
        }
        let (reads, first) = (self.accesses.len(), self.values.len());
        for (_, node) in self.values.iter() {
            let mut node = node.clone();
            if let Inst::Load(access) = &mut node.inst {
                *access = AccessId::new(access.index() + reads);
            }
            node.inst.map_operands(|v| ValueId::new(v.index() + first));
            result.values.push(node);
        }
        let mut sums = Vec::with_capacity(slots.len());
        for slot in slots {
            let mut slot: Slot = *slot;
            if slot.op == Combine::Add {
                let ty = self.ty(slot.value);
                let leaves = ValueId::new(slot.value.index() + first);
                let inst = Inst::Binary(Binary::Sub, slot.value, leaves);
                slot.value = result.values.push(Node { inst, ty });
            }
            sums.push(slot);
        }
        result.sink = Sink::Scan {
            slots: sums,
            backward: false,
        };
        Some(result)
    }

    /// A fold of integers as one of panes. `None` if there is no such loop, or if it could not begin with any row, as for [`difference`](Self::difference).
    pub fn panes(&self, every: u32) -> Option<Self> {
        let Sink::Fold { slots, .. } = &self.sink else {
            return None;
        };
        let exists = every.is_power_of_two() && (2..=LONGEST_PANE).contains(&every);
        (exists && self.is_movable(slots)).then(|| Self {
            sink: Sink::Panes {
                slots: slots.clone(),
                every,
            },
            ..self.clone()
        })
    }

    /// Whether views can be moved by any number of rows, and the slots combined in any order.
    fn is_movable(&self, slots: &[Slot]) -> bool {
        let plain = |a: &Access| a.by == By::Row && !a.nullable && a.ty != Ty::Bool;
        self.accesses.iter().all(|(_, access)| plain(access))
            && self.values.iter().all(|(_, node)| node.inst != Inst::Row)
            && slots.iter().all(|slot| self.ty(slot.value).is_int())
    }
}
