//! Custom reducers: states in slots, and calls of the loops that make one state of another.

mod blocks;

use std::ops::Range;

use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{LANES, Ty},
};
use tilt_ir::Bounds;

use blocks::Blocks;
pub(crate) use blocks::MergeLoops;

use super::{Contributions, Numbering, Stored, Window};
use crate::{
    memory::{Returned, Scratch},
    plan::ParamSource,
    run::{Piece, Trouble},
    view,
};

/// A loop that makes a state.
#[derive(Debug)]
pub(crate) struct StateLoop {
    pub(crate) number: usize,
    pub(crate) sources: Vec<StateSource>,
    pub(crate) params: Vec<ParamSource>,
}

/// What such a loop reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StateSource {
    /// A field of the state, of two the older.
    Older(usize),
    /// A field of the newer one.
    Newer(usize),
    /// A leaf of the contribution.
    Value(usize),
    /// The edges of its clipped interval.
    Start,
    End,
}

/// A custom reducer.
#[derive(Debug)]
pub(crate) struct CustomPlan {
    pub(crate) fields: Vec<Ty>,
    /// Whether fields may be φ.
    pub(crate) nullable: bool,
    pub(crate) init: StateLoop,
    pub(crate) acc: StateLoop,
    pub(crate) merge: Option<StateLoop>,
    /// To merge many states at once, if windows can share them.
    pub(crate) shared: Option<MergeLoops>,
    /// Takes a contribution out of a state again, exactly.
    pub(crate) deacc: Option<StateLoop>,
}

impl CustomPlan {
    /// Whether `acc` or `deacc` sees where windows clip events.
    pub(crate) fn reads_edges(&self) -> bool {
        let edges = |source: &StateSource| matches!(source, StateSource::Start | StateSource::End);
        let loops = self.deacc.iter().chain([&self.acc]);
        loops.flat_map(|called| &called.sources).any(edges)
    }
}

/// The places that are merged as a tree before anything else.
const GROUP: usize = 8;

/// Slots: the initial state, the result, states in between, and for each of two chains its total and a group.
const INIT: usize = 0;
const RESULT: usize = 1;
const TEMPORARY: usize = 2;
const CHAINS: usize = TEMPORARY + 2 * GROUP;
const SLOTS: usize = CHAINS + 2 * (1 + GROUP);

/// States, each a group of rows of which the first counts, so that a loop can be called for one.
struct Slots {
    fields: Vec<(Ty, Returned, Option<Returned>)>,
}

impl Slots {
    fn new(plan: &CustomPlan) -> Self {
        let field = |ty: &Ty| {
            let values = Returned::new(SLOTS * stride(*ty));
            (*ty, values, plan.nullable.then(|| Returned::new(SLOTS)))
        };
        Self {
            fields: plan.fields.iter().map(field).collect(),
        }
    }

    fn view(&self, slot: usize, field: usize) -> View {
        let (ty, values, validity) = &self.fields[field];
        View {
            values: values.as_ptr().wrapping_add(slot * stride(*ty)),
            validity: validity
                .as_ref()
                .map_or(std::ptr::null(), |v| v.as_ptr().wrapping_add(slot)),
            len: LANES as u64,
            ..view::nothing()
        }
    }

    fn targets(&self, slot: usize) -> Vec<Target> {
        let target = |(ty, values, validity): &(Ty, Returned, Option<Returned>)| Target {
            values: values.as_ptr().wrapping_add(slot * stride(*ty)),
            validity: validity
                .as_ref()
                .map_or(std::ptr::null_mut(), |v| v.as_ptr().wrapping_add(slot)),
            len: LANES as u64,
        };
        self.fields.iter().map(target).collect()
    }

    fn copy(&self, from: usize, to: usize) {
        for (ty, values, validity) in &self.fields {
            let at = |slot: usize| values.as_ptr().wrapping_add(slot * stride(*ty));
            // SAFETY: both slots are in the column, and they are not the same.
            unsafe { std::ptr::copy_nonoverlapping(at(from), at(to), stride(*ty)) }
            if let Some(validity) = validity {
                let at = |slot: usize| validity.as_ptr().wrapping_add(slot);
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(at(from), at(to), 1) }
            }
        }
    }
}

/// Bytes of a group of rows.
fn stride(ty: Ty) -> usize {
    if ty == Ty::Bool {
        1
    } else {
        LANES * ty.bytes()
    }
}

/// One part of a window, as [`super::places::Chain`] but of states in slots.
#[derive(Clone, Copy, Default, Debug)]
struct Chain {
    first_slot: usize,
    has_total: bool,
    group: i64,
    present: u8,
    /// Whether what comes later in the chain is older.
    backward: bool,
}

/// A custom reducer while a stage runs, and from one run of its stage to the next.
pub(crate) struct CustomRun {
    slots: Slots,
    started: bool,
    /// States that windows share.
    blocks: Option<Blocks>,
    /// Of windows whose contributions can be taken out again: the positions in the state.
    held: Range<usize>,
    /// Of windows without beginning: the positions in the state, which end before the windows' edge, and how many of them contribute.
    done: usize,
    contributed: i64,
    /// The late part of such windows.
    late: Chain,
    /// Results of the chunk: values and validity of each field.
    results: Vec<(*mut u8, *mut u8)>,
}

/// What calls need.
pub(crate) struct Calls<'c> {
    pub(crate) piece: &'c Piece<'c>,
    pub(crate) plan: &'c CustomPlan,
    pub(crate) all: &'c Contributions<'c>,
    pub(crate) leaves: &'c [Stored],
}

impl CustomRun {
    pub(crate) fn new(plan: &CustomPlan) -> Self {
        Self {
            slots: Slots::new(plan),
            started: false,
            blocks: None,
            held: 0..0,
            done: 0,
            contributed: 0,
            late: Chain::new(1, false),
            results: Vec::new(),
        }
    }

    /// Makes room for the results of a chunk.
    pub(crate) fn begin(&mut self, calls: &Calls, rows: usize, scratch: &mut Scratch) {
        let padded = rows.next_multiple_of(LANES);
        let room = |ty: &Ty| {
            let bytes = if *ty == Ty::Bool {
                padded / 8 + 8
            } else {
                padded * ty.bytes()
            };
            let (values, valid) = (
                scratch.slice::<u8>(bytes),
                scratch.slice::<u8>(padded / 8 + 8),
            );
            values.fill(0);
            valid.fill(0);
            (values.as_mut_ptr(), valid.as_mut_ptr())
        };
        self.results = calls.plan.fields.iter().map(room).collect();
        if !self.started {
            self.started = true;
            let init = &calls.plan.init;
            self.call(calls, init, &[], INIT);
            self.slots.copy(INIT, CHAINS);
        }
    }

    /// Computes the windows of a chunk; sets the bits of those that have contributions.
    pub(crate) fn windows(
        &mut self,
        calls: &Calls,
        windows: &[Window],
        bounds: Bounds,
        numbering: Numbering,
        found: &mut [u8],
    ) -> Result<(), Trouble> {
        let (results, fields) = (self.results.clone(), &calls.plan.fields);
        if let Some(blocks) = self.shared(calls) {
            blocks.advance(calls, windows, |row, state| {
                for ((ty, from), (out, valid)) in fields.iter().zip(state).zip(&results) {
                    // SAFETY: a state has one element a field, and the results have one for each row of the chunk.
                    unsafe {
                        let out = out.add(row * ty.bytes());
                        std::ptr::copy_nonoverlapping(*from, out, ty.bytes());
                        *valid.add(row / 8) |= 1 << (row % 8);
                    }
                }
                found[row / 8] |= 1 << (row % 8);
            });
            return Ok(());
        }
        for (row, window) in windows.iter().enumerate() {
            calls.piece.control.check()?;
            let any = self.row(calls, row, window, bounds, numbering);
            found[row / 8] |= u8::from(any) << (row % 8);
        }
        Ok(())
    }

    /// The states that windows share, if they do, of all positions that there are now.
    fn shared(&mut self, calls: &Calls) -> Option<&mut Blocks> {
        calls.plan.shared.as_ref()?;
        let blocks = self.blocks.get_or_insert_with(|| Blocks::new(calls.plan));
        let fields = 0..calls.plan.fields.len();
        let init: Vec<View> = fields.map(|f| self.slots.view(INIT, f)).collect();
        blocks.grow(calls, &init);
        Some(blocks)
    }

    /// Computes the window of a row of the chunk; whether it has contributions.
    fn row(
        &mut self,
        calls: &Calls,
        row: usize,
        window: &Window,
        bounds: Bounds,
        numbering: Numbering,
    ) -> bool {
        let runs_on = matches!(
            bounds,
            Bounds::Time { lo: None, .. } | Bounds::Ordinal { lo: None, .. }
        );
        let any = if runs_on && !window.is_list {
            self.running(calls, window, numbering)
        } else if calls.plan.deacc.is_some() {
            self.slid(calls, window)
        } else if calls.plan.merge.is_some() {
            self.merged(calls, window, numbering)
        } else {
            self.folded(calls, window)
        };
        if any {
            self.keep(row);
        }
        any
    }

    /// A column of results.
    pub(crate) fn view(&self, field: usize, rows: usize) -> View {
        let (values, validity) = self.results[field];
        View {
            values,
            validity,
            len: rows.next_multiple_of(LANES) as u64,
            ..view::nothing()
        }
    }

    /// Writes the result of a row.
    fn keep(&mut self, row: usize) {
        for ((ty, values, validity), (out, valid)) in self.slots.fields.iter().zip(&self.results) {
            let from = values.as_ptr().wrapping_add(RESULT * stride(*ty));
            // SAFETY: the slot has at least one element, and the results have one for each row of the chunk.
            unsafe {
                if *ty == Ty::Bool {
                    *out.add(row / 8) |= (*from & 1) << (row % 8);
                } else {
                    std::ptr::copy_nonoverlapping(from, out.add(row * ty.bytes()), ty.bytes());
                }
                let is_valid = validity
                    .as_ref()
                    .is_none_or(|v| *v.as_ptr().add(RESULT) & 1 != 0);
                *valid.add(row / 8) |= u8::from(is_valid) << (row % 8);
            }
        }
    }

    /// Folds from first to last.
    fn folded(&mut self, calls: &Calls, window: &Window) -> bool {
        let mut any = false;
        self.slots.copy(INIT, RESULT);
        for p in window.first..window.end {
            if calls.contributes(p, window) {
                self.accumulate(calls, p, window, RESULT, RESULT);
                any = true;
            }
        }
        any
    }

    /// Goes on from the window before: takes out what has left it, adds what has come.
    fn slid(&mut self, calls: &Calls, window: &Window) -> bool {
        let (first, end) = (window.first, window.end.max(window.first));
        let held = self.held.clone();
        let moves_on = held.start <= first && first < held.end && held.end <= end;
        let (left, come) = if moves_on {
            (held.start..first, held.end..end)
        } else {
            self.slots.copy(INIT, CHAINS);
            (0..0, first..end)
        };
        let acc = &calls.plan.acc;
        let steps = [
            (calls.plan.deacc.as_ref().unwrap_or(acc), left),
            (acc, come),
        ];
        for (step, positions) in steps {
            for p in positions.filter(|p| calls.all.contributes(*p)) {
                self.step(calls, step, p, window, CHAINS, CHAINS);
            }
        }
        self.held = first..end;
        self.slots.copy(CHAINS, RESULT);
        (first..end).any(|p| calls.all.contributes(p))
    }

    /// Merges what each contribution makes of the initial state, by places.
    fn merged(&mut self, calls: &Calls, window: &Window, numbering: Numbering) -> bool {
        let all = calls.all;
        let (mut early, mut late) = (Chain::new(0, true), Chain::new(1, false));
        let mut counted = 0;
        for p in (window.first..window.split).rev() {
            if calls.contributes(p, window) {
                let place = match numbering {
                    Numbering::Contributions => counted,
                    _ => (window.split - 1 - p) as i64,
                };
                counted += 1;
                self.push(calls, &mut early, place, p, window);
            }
        }
        let mut places = 0;
        for p in window.split..window.end {
            if window.is_list && all.span(p).0 >= window.to {
                continue;
            }
            let contributes = all.contributes(p);
            if contributes {
                let place = match numbering {
                    Numbering::Cells(first) => first + p as i64,
                    _ => places,
                };
                self.push(calls, &mut late, place, p, window);
            }
            places += i64::from(match numbering {
                Numbering::Contributions => contributes,
                Numbering::Events => all.is_event(p),
                Numbering::Positions | Numbering::Cells(_) => true,
            });
        }
        let early = self.finish(calls, &early, TEMPORARY);
        let late = self.finish(calls, &late, TEMPORARY + GROUP);
        match (early, late) {
            (None, None) => return false,
            (Some(one), None) | (None, Some(one)) => self.slots.copy(one, RESULT),
            (Some(early), Some(late)) => self.merge(calls, early, late, RESULT),
        }
        true
    }

    /// A window that begins with the first position of all: goes on where the last one ended, but for events that its edge clips.
    fn running(&mut self, calls: &Calls, window: &Window, numbering: Numbering) -> bool {
        let all = calls.all;
        let mut whole = window.end;
        while whole > 0 && all.span(whole - 1).1 > window.to {
            whole -= 1;
        }
        if whole < self.done {
            (self.done, self.contributed) = (0, 0);
            self.late = Chain::new(1, false);
            self.slots.copy(INIT, CHAINS);
        }
        let place = |p: usize, contributed: i64| match numbering {
            Numbering::Contributions => contributed,
            Numbering::Cells(first) => first + p as i64,
            _ => p as i64,
        };
        let merges = calls.plan.merge.is_some();
        let mut late = self.late;
        for p in self.done..whole {
            if all.contributes(p) {
                if merges {
                    self.push(calls, &mut late, place(p, self.contributed), p, window);
                } else {
                    self.accumulate(calls, p, window, CHAINS, CHAINS);
                }
                self.contributed += 1;
            }
        }
        (self.done, self.late) = (whole, late);
        let mut contributed = self.contributed;
        if !merges {
            self.slots.copy(CHAINS, RESULT);
            for p in (whole..window.end).filter(|p| all.contributes(*p)) {
                self.accumulate(calls, p, window, RESULT, RESULT);
                contributed += 1;
            }
            return contributed > 0;
        }
        let clipped: Vec<usize> = (whole..window.end)
            .filter(|p| all.contributes(*p))
            .collect();
        let found = if clipped.is_empty() {
            self.finish(calls, &late, TEMPORARY)
        } else {
            // The chain with the clipped ones, in the slots of the other chain.
            let mut with = late.moved(0);
            for i in 0..=GROUP {
                self.slots.copy(late.first_slot + i, with.first_slot + i);
            }
            for p in clipped {
                self.push(calls, &mut with, place(p, contributed), p, window);
                contributed += 1;
            }
            self.finish(calls, &with, TEMPORARY)
        };
        if let Some(found) = found {
            self.slots.copy(found, RESULT);
        }
        found.is_some()
    }

    /// Adds to a chain what a contribution makes of the initial state.
    fn push(&mut self, calls: &Calls, chain: &mut Chain, place: i64, p: usize, window: &Window) {
        let group = place.div_euclid(GROUP as i64);
        if group != chain.group {
            if let Some(found) = self.finish(calls, chain, TEMPORARY)
                && found != chain.first_slot
            {
                self.slots.copy(found, chain.first_slot);
                chain.has_total = true;
            }
            (chain.group, chain.present) = (group, 0);
        }
        let at = place.rem_euclid(GROUP as i64) as usize;
        chain.present |= 1 << at;
        self.accumulate(calls, p, window, INIT, chain.first_slot + 1 + at);
    }

    /// The slot with what a chain is merged to; slots from `room` on, as many as a group, are for what comes in between.
    fn finish(&mut self, calls: &Calls, chain: &Chain, room: usize) -> Option<usize> {
        let mut level = [None; GROUP];
        for (at, slot) in level.iter_mut().enumerate() {
            *slot = (chain.present & (1 << at) != 0).then_some(chain.first_slot + 1 + at);
        }
        let mut free = room;
        let mut join = |this: &mut Self, near: Option<usize>, far: Option<usize>| match (near, far)
        {
            (Some(near), Some(far)) => {
                let (older, newer) = if chain.backward {
                    (far, near)
                } else {
                    (near, far)
                };
                this.merge(calls, older, newer, free);
                free += 1;
                Some(free - 1)
            }
            (near, far) => near.or(far),
        };
        let mut width = GROUP;
        while width > 1 {
            for i in 0..width / 2 {
                level[i] = join(self, level[2 * i], level[2 * i + 1]);
            }
            width /= 2;
        }
        let total = chain.has_total.then_some(chain.first_slot);
        join(self, total, level[0])
    }

    fn accumulate(&mut self, calls: &Calls, p: usize, window: &Window, from: usize, to: usize) {
        self.step(calls, &calls.plan.acc, p, window, from, to);
    }

    /// What a contribution, or taking it out, makes of a state.
    fn step(
        &mut self,
        calls: &Calls,
        called: &StateLoop,
        p: usize,
        window: &Window,
        from: usize,
        to: usize,
    ) {
        let (start, end) = calls.all.span(p);
        let edges = [[start.max(window.from); LANES], [end.min(window.to); LANES]];
        let mut bits: Vec<[u8; 2]> = vec![[0; 2]; calls.leaves.len()];
        let bit = |at: *const u8| {
            // SAFETY: the loop has stored a bit for each position.
            unsafe { *at.add(p / 8) >> (p % 8) & 1 }
        };
        for (bits, stored) in bits.iter_mut().zip(calls.leaves) {
            let value = if stored.ty == Ty::Bool {
                bit(stored.values.as_ptr())
            } else {
                0
            };
            *bits = [
                value,
                stored.validity.as_ref().map_or(1, |v| bit(v.as_ptr())),
            ];
        }
        let view_of = |source: &StateSource| match *source {
            StateSource::Older(field) => self.slots.view(from, field),
            StateSource::Newer(_) => unreachable!("only merges have a newer state"),
            StateSource::Value(leaf) => {
                let stored = &calls.leaves[leaf];
                let values = if stored.ty == Ty::Bool {
                    bits[leaf].as_ptr()
                } else {
                    stored.values.as_ptr().wrapping_add(p * stored.ty.bytes())
                };
                View {
                    values,
                    validity: &raw const bits[leaf][1],
                    len: LANES as u64,
                    ..view::nothing()
                }
            }
            StateSource::Start => view::column(&edges[0]),
            StateSource::End => view::column(&edges[1]),
        };
        let views: Vec<View> = called.sources.iter().map(view_of).collect();
        // A loop must not write what it reads.
        let target = if from == to { TEMPORARY } else { to };
        self.call(calls, called, &views, target);
        if target != to {
            self.slots.copy(target, to);
        }
    }

    fn merge(&mut self, calls: &Calls, older: usize, newer: usize, to: usize) {
        let Some(merge) = &calls.plan.merge else {
            return;
        };
        let view_of = |source: &StateSource| match *source {
            StateSource::Older(field) => self.slots.view(older, field),
            StateSource::Newer(field) => self.slots.view(newer, field),
            other => unreachable!("a merge does not read {other:?}"),
        };
        let views: Vec<View> = merge.sources.iter().map(view_of).collect();
        self.call(calls, merge, &views, to);
    }

    /// Calls a loop for one state.
    fn call(&self, calls: &Calls, called: &StateLoop, views: &[View], to: usize) {
        let piece = calls.piece;
        let params = calls.params(called);
        let targets = self.slots.targets(to);
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first: 0,
            rows: 1,
            ahead: tilt_codegen::abi::nothing_ahead(),
            step: 0,
        };
        // SAFETY: every view and target has a whole group of rows, and no slot is both read and written.
        unsafe { piece.code.call(&piece.plan.loops, called.number, &args) }
    }
}

impl Chain {
    /// An empty chain in one of the two places for them.
    fn new(number: usize, backward: bool) -> Self {
        Self {
            first_slot: CHAINS + number * (1 + GROUP),
            backward,
            ..Self::default()
        }
    }

    /// The same in the other place.
    fn moved(self, number: usize) -> Self {
        Self {
            first_slot: CHAINS + number * (1 + GROUP),
            ..self
        }
    }
}

impl Calls<'_> {
    /// The parameters of a loop.
    fn params(&self, called: &StateLoop) -> Vec<u64> {
        let param = |param: &ParamSource| match param {
            ParamSource::Text(text) => u64::from(self.piece.dictionary.codes[text]),
            other => unreachable!("{other:?} is no parameter of a reducer"),
        };
        called.params.iter().map(param).collect()
    }

    fn contributes(&self, p: usize, window: &Window) -> bool {
        self.all.contributes(p) && !(window.is_list && self.all.span(p).0 >= window.to)
    }
}
