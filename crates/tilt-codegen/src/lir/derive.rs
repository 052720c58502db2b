//! Loops made of others: for totals of windows that slide, for panes, for rows away from the ends of columns, for columns that are there already, and two in one.

use std::collections::HashMap;

use tilt_ir::Id;

use super::{
    Access, AccessId, Binary, By, Combine, Imm, Inst, LONGEST_PANE, Loop, Node, ParamId, Sink,
    Slot, Store, Ty, ValueId,
};

/// What is there already of a column that a loop stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// The values of all rows that have one.
    Values,
    /// These, and which rows have one.
    Column,
}

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

    /// This scan or fold and another of the same direction in one: slots of the other come after this one's, unless they are the same. `accesses` and
    /// `params` say which of this loop's are those of the other; those that are none of them are added in order. Returned with which slot each of
    /// the other's is; `None` if the loops are of different kinds.
    pub fn beside(
        &self,
        other: &Self,
        accesses: &[Option<AccessId>],
        params: &[Option<ParamId>],
    ) -> Option<(Self, Vec<usize>)> {
        let same = match (&self.sink, &other.sink) {
            (Sink::Scan { backward: a, .. }, Sink::Scan { backward: b, .. })
            | (Sink::Fold { backward: a, .. }, Sink::Fold { backward: b, .. }) => a == b,
            _ => false,
        };
        if !same || self.lanes != other.lanes {
            return None;
        }
        let mut result = self.clone();
        let mut access_of = Vec::with_capacity(accesses.len());
        for ((_, access), known) in other.accesses.iter().zip(accesses) {
            access_of.push(known.unwrap_or_else(|| {
                let mut access = access.clone();
                let taken = |name: &str| result.accesses.iter().any(|(_, a)| a.name == name);
                access.name = unique(&access.name, taken);
                result.accesses.push(access)
            }));
        }
        let mut param_of = Vec::with_capacity(params.len());
        for ((_, param), known) in other.params.iter().zip(params) {
            param_of.push(known.unwrap_or_else(|| {
                let mut param = param.clone();
                let taken = |name: &str| result.params.iter().any(|(_, p)| p.name == name);
                param.name = unique(&param.name, taken);
                result.params.push(param)
            }));
        }
        let known = self.values.iter().map(|(id, node)| (node.clone(), id));
        let mut known: HashMap<Node, ValueId> = known.collect();
        let mut value_of: Vec<ValueId> = Vec::with_capacity(other.values.len());
        for (_, node) in other.values.iter() {
            let mut node = node.clone();
            match &mut node.inst {
                Inst::Load(access) | Inst::Valid(access) | Inst::Lookup(access, _) => {
                    *access = access_of[access.index()];
                }
                Inst::Param(param) => *param = param_of[param.index()],
                _ => {}
            }
            node.inst.map_operands(|value| value_of[value.index()]);
            let id = known.get(&node).copied().unwrap_or_else(|| {
                let id = result.values.push(node.clone());
                known.insert(node, id);
                id
            });
            value_of.push(id);
        }
        let (Sink::Scan { slots: all, .. } | Sink::Fold { slots: all, .. }) = &mut result.sink
        else {
            return None;
        };
        let (Sink::Scan { slots, .. } | Sink::Fold { slots, .. }) = &other.sink else {
            return None;
        };
        let mut slot_of = Vec::with_capacity(slots.len());
        for slot in slots {
            let slot = Slot {
                op: slot.op,
                value: value_of[slot.value.index()],
            };
            let known = all.iter().position(|there| *there == slot);
            slot_of.push(known.unwrap_or_else(|| {
                all.push(slot);
                all.len() - 1
            }));
        }
        Some((result, slot_of))
    }

    /// The loop for rows whose windows lie inside of their columns and have no gaps: positions `min(max(row·every + offset, 0), len)` are
    /// `row·every + offset`, and the distance of two of them is the same for all rows. So is that of the elements of two accesses, running counts, if
    /// `counts` tells what it is. `None` if there is neither.
    ///
    /// Accesses and parameters stay those of the loop, though not all may be read: running counts are not.
    pub fn full(&self, counts: impl Fn(AccessId, AccessId) -> Option<i64>) -> Option<Self> {
        let mut result = self.clone();
        let mut offsets = HashMap::new();
        let mut counted = false;
        for (id, node) in self.values.iter() {
            if let Inst::Binary(Binary::Sub, a, b) = &node.inst
                && let (Inst::Load(end), Inst::Load(start)) =
                    (&self.values[*a].inst, &self.values[*b].inst)
                && let Some(count) = counts(*end, *start)
            {
                result.values[id].inst = Inst::Const(Imm::int(node.ty, count));
                for load in [*a, *b] {
                    result.values[load].inst = Inst::Const(Imm::zero(node.ty));
                }
                counted = true;
            }
            if let Some((position, of)) = self.clamped(&node.inst) {
                result.values[id].inst = self.values[position].inst.clone();
                offsets.insert(id, of);
            }
            if let Inst::Binary(Binary::Sub, a, b) = &node.inst
                && let (Some((row, a)), Some((same, b))) = (offsets.get(a), offsets.get(b))
                && row == same
            {
                result.values[id].inst = Inst::Binary(Binary::Sub, *a, *b);
            }
        }
        (counted || !offsets.is_empty()).then_some(result)
    }

    /// The loop without the values of some of its columns, by number: of those that `known` says are there already with their validity nothing is stored, of those
    /// that are there without it a column of bits. `None` if this loop stores nothing, and if nothing would be left.
    pub fn without(&self, known: impl Fn(usize) -> Option<Known>) -> Option<Self> {
        let Sink::Store { columns, streaming } = &self.sink else {
            return None;
        };
        let left = columns.iter().enumerate().filter_map(|(number, store)| {
            let bits = |valid| Store {
                value: valid,
                valid: None,
            };
            match known(number) {
                None => Some(*store),
                Some(Known::Values) => store.valid.map(bits),
                Some(Known::Column) => None,
            }
        });
        let columns: Vec<Store> = left.collect();
        (!columns.is_empty()).then(|| Self {
            sink: Sink::Store {
                columns,
                streaming: *streaming,
            },
            ..self.clone()
        })
    }

    /// Of a position that is kept inside of a column: where it would be, and that as `row·every` and an offset.
    fn clamped(&self, inst: &Inst) -> Option<(ValueId, (ValueId, ValueId))> {
        let inst_of = |id: &ValueId| &self.values[*id].inst;
        let Inst::Binary(Binary::Min, above, len) = inst else {
            return None;
        };
        let (Inst::Binary(Binary::Max, position, zero), Inst::Param(_)) =
            (inst_of(above), inst_of(len))
        else {
            return None;
        };
        let Inst::Binary(Binary::Add, row, offset) = inst_of(position) else {
            return None;
        };
        let is_zero = matches!(inst_of(zero), Inst::Const(imm) if imm.bits == 0);
        let is_row = |id: &ValueId| *inst_of(id) == Inst::Row;
        let is_moved = match inst_of(row) {
            Inst::Binary(Binary::Mul, row, every) => is_row(row) && self.is_invariant(*every),
            _ => is_row(row),
        };
        let is_offset = matches!(inst_of(offset), Inst::Param(_));
        (is_zero && is_moved && is_offset).then_some((*position, (*row, *offset)))
    }

    /// Whether a value is the same for all rows.
    pub(crate) fn is_invariant(&self, value: ValueId) -> bool {
        match &self.values[value].inst {
            Inst::Const(_) | Inst::Param(_) => true,
            Inst::Unary(_, a) | Inst::Convert(a) | Inst::Bits(a) => self.is_invariant(*a),
            Inst::Binary(_, a, b) => self.is_invariant(*a) && self.is_invariant(*b),
            _ => false,
        }
    }

    /// Whether views can be moved by any number of rows, and the slots combined in any order.
    fn is_movable(&self, slots: &[Slot]) -> bool {
        let plain = |a: &Access| a.by == By::Row && !a.nullable && a.ty != Ty::Bool;
        self.accesses.iter().all(|(_, access)| plain(access))
            && self.values.iter().all(|(_, node)| node.inst != Inst::Row)
            && slots.iter().all(|slot| self.ty(slot.value).is_int())
    }
}

/// The name, numbered if it is taken.
pub(crate) fn unique(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names
        .find(|name| !taken(name))
        .expect("names do not run out")
}
