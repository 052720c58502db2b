//! Leaves out what the sink of a loop does not need: reading a field of a record names all of them.

use std::collections::HashMap;

use tilt_ir::{Arena, Id};

use super::body::Finished;
use crate::lir::{AccessId, Inst, Loop, ParamId, Sink, ValueId};

/// The loop without values, accesses and parameters that nothing depends on.
pub(super) fn prune(mut full: Loop) -> Finished {
    let mut needed = vec![false; full.values.len()];
    let mut need = |value: ValueId| needed[value.index()] = true;
    match &full.sink {
        Sink::Store { columns, .. } => {
            for column in columns {
                need(column.value);
                column.valid.into_iter().for_each(&mut need);
            }
        }
        Sink::Scan { slots, .. }
        | Sink::Fold { slots, .. }
        | Sink::Panes { slots, .. }
        | Sink::Slide { slots, .. }
        | Sink::Comb { slots } => {
            for slot in slots {
                need(slot.value);
            }
        }
    }
    let ids: Vec<ValueId> = full.values.ids().collect();
    for id in ids.iter().rev().filter(|id| id.index() < full.values.len()) {
        if needed[id.index()] {
            for_each_operand(&full.values[*id].inst, |operand| {
                needed[operand.index()] = true;
            });
        }
    }
    let mut accesses = Kept::default();
    let mut params = Kept::default();
    let mut values: HashMap<ValueId, ValueId> = HashMap::new();
    let mut kept = Arena::default();
    for id in ids.into_iter().filter(|id| needed[id.index()]) {
        let mut node = full.values[id].clone();
        match &mut node.inst {
            Inst::Load(access) | Inst::Valid(access) | Inst::Lookup(access, _) => {
                *access = accesses.keep(*access);
            }
            Inst::Param(param) => *param = params.keep(*param),
            _ => {}
        }
        node.inst.map_operands(|operand| values[&operand]);
        values.insert(id, kept.push(node));
    }
    match &mut full.sink {
        Sink::Store { columns, .. } => {
            for column in columns {
                column.value = values[&column.value];
                column.valid = column.valid.map(|v| values[&v]);
            }
        }
        Sink::Scan { slots, .. }
        | Sink::Fold { slots, .. }
        | Sink::Panes { slots, .. }
        | Sink::Slide { slots, .. }
        | Sink::Comb { slots } => {
            for slot in slots {
                slot.value = values[&slot.value];
            }
        }
    }
    let (accesses, params): (Vec<AccessId>, Vec<ParamId>) = (accesses.old, params.old);
    let mut body = Loop {
        accesses: Arena::default(),
        params: Arena::default(),
        values: kept,
        ..full.clone()
    };
    for access in &accesses {
        body.accesses.push(full.accesses[*access].clone());
    }
    for param in &params {
        body.params.push(full.params[*param].clone());
    }
    Finished {
        body,
        accesses,
        params,
    }
}

/// Ids that are kept, in order of their first use, which numbers them anew.
struct Kept<I> {
    old: Vec<I>,
}

impl<I> Default for Kept<I> {
    fn default() -> Self {
        Self { old: Vec::new() }
    }
}

impl<I: Id> Kept<I> {
    fn keep(&mut self, id: I) -> I {
        let known = self.old.iter().position(|old| *old == id);
        I::new(known.unwrap_or_else(|| {
            self.old.push(id);
            self.old.len() - 1
        }))
    }
}

fn for_each_operand(inst: &Inst, mut visit: impl FnMut(ValueId)) {
    let mut copy = inst.clone();
    copy.map_operands(|operand| {
        visit(operand);
        operand
    });
}
