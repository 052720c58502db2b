//! Custom reducers with `merge` over windows of time: states from the split of a window outwards, shared by all windows with that split.
//!
//! Neighbouring windows have the same split until it moves on by a window's length, so every position gets two states: that of the late part which ends with it, and that of the
//! early part which begins with it. A window merges one of each, whatever its length. States are merged many at a time, eight places as a tree and trees in a chain, which is the
//! order that `docs/ir.md` pins.
//!
//! An event must contribute the same to every window that it is in, so the reducer must not see where windows clip it, and every position must contribute.

use tilt_codegen::{
    abi::{Args, Target, View},
    lir::{LANES, Ty},
};

use super::{Calls, CustomPlan, GROUP, StateLoop, StateSource, Window};
use crate::{
    memory::{Returned, Scratch},
    run::CHUNK,
    view,
};

/// Groups whose trees are built together: their states stay in the first caches.
const TOGETHER: usize = 128;
/// States in between that so many groups need: twelve for trees, one for the chain, eight for places.
const BETWEEN: usize = TOGETHER * (12 + 1 + GROUP);

/// The loops that merge states by their numbers.
#[derive(Debug)]
pub(crate) struct MergeLoops {
    /// Many at once.
    pub(crate) apart: StateLoop,
    /// One after the other, so that one may be merged with the result of another.
    pub(crate) chained: StateLoop,
}

/// A state's number: a row of the columns.
type State = u32;

/// Up to eight places away from the split.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The position of its first place.
    base: usize,
    places: usize,
    /// Whether it is the one next to the split.
    is_first: bool,
    /// Whether places go back in time.
    is_early: bool,
}

/// States of positions.
pub(crate) struct Blocks {
    /// Numbers of states: those that contributions make of the initial one come first, by position, then early ones, late ones and those in between.
    fields: Vec<(Ty, Returned)>,
    /// How many positions there is room for, a multiple of eight.
    room: usize,
    /// Positions whose contributions have a state.
    contributed: usize,
    /// The split, and the positions around it that have states.
    split: usize,
    has_early: usize,
    has_late: usize,
    groups: Vec<Group>,
    /// Rows of the chunk that wait for their states.
    waiting: Vec<(usize, Window)>,
    pairs: Pairs,
}

/// States to merge.
#[derive(Default)]
struct Pairs {
    older: Vec<State>,
    newer: Vec<State>,
}

impl Pairs {
    fn clear(&mut self) {
        self.older.clear();
        self.newer.clear();
    }

    /// Adds a pair, one nearer to the split than the other; its number among the pairs.
    fn push(&mut self, near: State, far: State, is_early: bool) -> usize {
        let (older, newer) = if is_early { (far, near) } else { (near, far) };
        self.older.push(older);
        self.newer.push(newer);
        self.older.len() - 1
    }
}

/// The trees over the first places of a group: of one, of two, and so on.
type Trees = [State; GROUP];

impl Blocks {
    pub(super) fn new(plan: &CustomPlan) -> Self {
        Self {
            fields: fields(plan.fields.iter(), 0),
            room: 0,
            contributed: 0,
            split: 0,
            has_early: 0,
            has_late: 0,
            groups: Vec::new(),
            waiting: Vec::new(),
            pairs: Pairs::default(),
        }
    }

    /// The numbers of the first early and late state, and of the first of those in between.
    fn early(&self) -> usize {
        self.room
    }

    fn late(&self) -> usize {
        2 * self.room
    }

    fn between(&self) -> usize {
        3 * self.room
    }

    /// Finds the states that contributions make of the initial one, of positions that were not there before.
    pub(super) fn grow(&mut self, calls: &Calls, init: &[View]) {
        let len = calls.all.len();
        if len > self.room {
            // At first there may be all that ever come.
            self.make_room(len.max(2 * self.room).next_multiple_of(LANES));
        }
        if self.contributed < len {
            self.contribute(calls, init, self.contributed / LANES * LANES);
            self.contributed = len;
        }
    }

    fn make_room(&mut self, room: usize) {
        let larger = fields(self.fields.iter().map(|(ty, _)| ty), room);
        for ((ty, from), (_, to)) in self.fields.iter().zip(&larger) {
            for part in 0..3 {
                let at = |memory: &Returned, room: usize| {
                    memory.as_ptr().wrapping_add(part * room * ty.bytes())
                };
                let (from, to) = (at(from, self.room), at(to, room));
                // SAFETY: both have three parts, those of the new memory being longer.
                unsafe { std::ptr::copy_nonoverlapping(from, to, self.room * ty.bytes()) }
            }
        }
        (self.fields, self.room) = (larger, room);
    }

    /// The states that the contributions of positions from a multiple of eight on make of the initial one.
    fn contribute(&self, calls: &Calls, init: &[View], from: usize) {
        let plan = calls.plan;
        let mut scratch = Scratch::default();
        let initial: Vec<*mut u8> = self
            .fields
            .iter()
            .zip(init)
            .map(|((ty, _), init)| {
                let column = scratch.take(CHUNK * ty.bytes());
                for row in 0..CHUNK {
                    // SAFETY: a state has at least one row, and the column one for each row of a chunk.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            init.values,
                            column.add(row * ty.bytes()),
                            ty.bytes(),
                        );
                    }
                }
                column
            })
            .collect();
        let edges: [&mut [i64]; 2] = [(); 2].map(|()| scratch.slice::<i64>(CHUNK));
        let [starts, ends] = edges;
        let len = calls.all.len();
        for first in (from..len).step_by(CHUNK) {
            let rows = CHUNK.min(len - first);
            for row in 0..rows {
                (starts[row], ends[row]) = calls.all.span(first + row);
            }
            let view_of = |source: &StateSource| match *source {
                StateSource::Older(field) => View {
                    values: initial[field],
                    len: CHUNK as u64,
                    ..view::nothing()
                },
                StateSource::Value(leaf) => calls.leaves[leaf].view(first),
                StateSource::Start => view::column(starts),
                StateSource::End => view::column(ends),
                StateSource::Newer(_) => unreachable!("only merges have a newer state"),
            };
            let views: Vec<View> = plan.acc.sources.iter().map(view_of).collect();
            self.call(calls, &plan.acc, &views, first, rows);
        }
    }

    /// Computes windows in order of their rows. `keep` is told the row and, for each field, where its state is.
    pub(super) fn advance(
        &mut self,
        calls: &Calls,
        windows: &[Window],
        mut keep: impl FnMut(usize, &[*const u8]),
    ) {
        for (row, window) in windows.iter().enumerate().filter(|(_, w)| w.first < w.end) {
            if window.split != self.split || window.first < self.has_early {
                // States are kept by position, for one split at a time: those around another one that rows wait for must not be touched.
                if window.first < self.split || window.split < self.has_late {
                    self.flush(calls, &mut keep);
                }
                self.split = window.split;
                (self.has_early, self.has_late) = (window.first, window.split);
                self.extend(calls, window.split - window.first, 0, true);
            }
            if window.end > self.has_late {
                let done = self.has_late - self.split;
                self.has_late = window.end;
                self.extend(calls, window.end - self.split, done, false);
            }
            self.waiting.push((row, *window));
        }
        self.flush(calls, &mut keep);
    }

    /// Asks for the states of all places before `places`, of which there are `done` already.
    fn extend(&mut self, calls: &Calls, places: usize, done: usize, is_early: bool) {
        for place in (done / GROUP * GROUP..places).step_by(GROUP) {
            let group = Group {
                base: self.position(place, is_early),
                places: GROUP.min(places - place),
                is_first: place == 0,
                is_early,
            };
            // A group that grows is built once, unless it has been built already.
            if let Some(last) = self.groups.last_mut()
                && (last.base, last.is_early) == (group.base, is_early)
            {
                *last = group;
                continue;
            }
            if self.groups.len() == TOGETHER {
                self.build(calls);
            }
            self.groups.push(group);
        }
    }

    fn position(&self, place: usize, is_early: bool) -> usize {
        if is_early {
            self.split - 1 - place
        } else {
            self.split + place
        }
    }

    /// Finishes the rows that wait.
    fn flush(&mut self, calls: &Calls, keep: &mut impl FnMut(usize, &[*const u8])) {
        self.build(calls);
        let waiting = std::mem::take(&mut self.waiting);
        for rows in waiting.chunks(BETWEEN) {
            self.pairs.clear();
            let parts = |this: &Self, window: &Window| {
                let early = (window.first < window.split).then_some(this.early() + window.first);
                let late = (window.split < window.end).then_some(this.late() + window.end - 1);
                (early.map(|s| s as State), late.map(|s| s as State))
            };
            for (_, window) in rows {
                if let (Some(early), Some(late)) = parts(self, window) {
                    self.pairs.push(early, late, false);
                }
            }
            let mut merged = self.merge_pairs(calls, self.between(), false);
            for (row, window) in rows {
                let state = match parts(self, window) {
                    (Some(_), Some(_)) => {
                        merged += 1;
                        merged - 1
                    }
                    (one, other) => one.or(other).unwrap_or(0),
                };
                let at = |(ty, memory): &(Ty, Returned)| {
                    memory
                        .as_ptr()
                        .wrapping_add(state as usize * ty.bytes())
                        .cast_const()
                };
                let fields: Vec<*const u8> = self.fields.iter().map(at).collect();
                keep(*row, &fields);
            }
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    /// Computes the states of the groups that were asked for.
    fn build(&mut self, calls: &Calls) {
        let groups = std::mem::take(&mut self.groups);
        let trees = self.trees(calls, &groups);
        let chained = self.between() + 12 * TOGETHER;
        // The chain: what all groups before come to.
        self.pairs.clear();
        let mut before: Vec<Option<State>> = Vec::with_capacity(groups.len());
        let mut whole: Vec<Option<State>> = Vec::with_capacity(groups.len());
        for (i, (group, tree)) in groups.iter().zip(&trees).enumerate() {
            let follows = !group.is_first && i > 0 && groups[i - 1].continues(group);
            let chain = match (group.is_first, follows) {
                (true, _) => None,
                (false, true) => whole[i - 1],
                (false, false) => Some(self.state(group.before(), group.is_early)),
            };
            before.push(chain);
            let tree = (group.places == GROUP).then_some(tree[GROUP - 1]);
            whole.push(match (chain, tree) {
                (Some(chain), Some(tree)) => {
                    Some((chained + self.pairs.push(chain, tree, group.is_early)) as State)
                }
                (_, tree) => tree,
            });
        }
        self.merge_pairs(calls, chained, true);
        // The places: each with what is before its group.
        self.pairs.clear();
        for ((group, tree), before) in groups.iter().zip(&trees).zip(&before) {
            for tree in &tree[..group.places] {
                if let Some(before) = *before {
                    self.pairs.push(before, *tree, group.is_early);
                }
            }
        }
        let mut merged = self.merge_pairs(calls, chained + TOGETHER, false);
        for ((group, tree), before) in groups.iter().zip(&trees).zip(&before) {
            for (place, tree) in tree[..group.places].iter().enumerate() {
                let state = if before.is_some() {
                    merged += 1;
                    merged - 1
                } else {
                    *tree
                };
                self.copy(state, self.state(group.position(place), group.is_early));
            }
        }
        self.groups = groups;
        self.groups.clear();
    }

    /// The trees of some groups.
    fn trees(&mut self, calls: &Calls, groups: &[Group]) -> Vec<Trees> {
        let mut trees = vec![[0; GROUP]; groups.len()];
        // Pairs of places, then of those, then all: where places are missing the tree of those that there are is the one of a smaller group.
        let mut twos = vec![[0; 4]; groups.len()];
        let mut fours = vec![[0; 2]; groups.len()];
        for round in 0..3 {
            self.pairs.clear();
            let room = self.between() + round * 4 * TOGETHER;
            for (i, group) in groups.iter().enumerate() {
                let x = |place: usize| group.position(place) as State;
                let mut join = |near: State, far: State| {
                    (room + self.pairs.push(near, far, group.is_early)) as State
                };
                let (tree, two, four) = (&mut trees[i], &mut twos[i], &mut fours[i]);
                let n = group.places;
                match round {
                    0 => {
                        tree[0] = x(0);
                        for pair in (0..4).filter(|pair| 2 * pair + 1 < n) {
                            two[pair] = join(x(2 * pair), x(2 * pair + 1));
                        }
                        tree[1] = two[0];
                    }
                    1 => {
                        if n > 2 {
                            tree[2] = join(two[0], x(2));
                        }
                        if n > 3 {
                            tree[3] = join(two[0], two[1]);
                        }
                        if n > 6 {
                            four[0] = join(two[2], x(6));
                        }
                        if n > 7 {
                            four[1] = join(two[2], two[3]);
                        }
                    }
                    _ => {
                        for place in 4..n {
                            let right = match place {
                                4 => x(4),
                                5 => two[2],
                                6 => four[0],
                                _ => four[1],
                            };
                            tree[place] = join(tree[3], right);
                        }
                    }
                }
            }
            self.merge_pairs(calls, room, false);
        }
        trees
    }

    fn state(&self, position: usize, is_early: bool) -> State {
        (position + if is_early { self.early() } else { self.late() }) as State
    }

    /// Merges the pairs into states from `to` on.
    fn merge_pairs(&mut self, calls: &Calls, to: usize, is_chain: bool) -> State {
        let rows = self.pairs.older.len();
        let (older, newer) = (&mut self.pairs.older, &mut self.pairs.newer);
        older.resize(rows.next_multiple_of(LANES), 0);
        newer.resize(rows.next_multiple_of(LANES), 0);
        let merge = calls.plan.shared.as_ref();
        let merge = merge.expect("states are shared where they can be merged");
        let called = if is_chain {
            &merge.chained
        } else {
            &merge.apart
        };
        let view_of = |source: &StateSource| {
            let (field, index) = match *source {
                StateSource::Older(field) => (field, &self.pairs.older),
                StateSource::Newer(field) => (field, &self.pairs.newer),
                other => unreachable!("a merge does not read {other:?}"),
            };
            let (ty, memory) = &self.fields[field];
            View {
                values: memory.as_ptr(),
                index: index.as_ptr(),
                len: (memory.len() / ty.bytes()) as u64,
                ..view::nothing()
            }
        };
        let views: Vec<View> = called.sources.iter().map(view_of).collect();
        if rows > 0 {
            self.call(calls, called, &views, to, rows);
        }
        to as State
    }

    /// Calls a loop that writes states from `to` on.
    fn call(&self, calls: &Calls, called: &StateLoop, views: &[View], to: usize, rows: usize) {
        let target = |(ty, memory): &(Ty, Returned)| Target {
            values: memory.as_ptr().wrapping_add(to * ty.bytes()),
            validity: std::ptr::null_mut(),
            len: (memory.len() / ty.bytes() - to) as u64,
        };
        let targets: Vec<Target> = self.fields.iter().map(target).collect();
        let params = calls.params(called);
        let args = Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: params.as_ptr(),
            state: std::ptr::null_mut(),
            ranges: std::ptr::null(),
            first: 0,
            rows: rows as u64,
            ahead: tilt_codegen::abi::nothing_ahead(),
            step: 0,
        };
        // SAFETY: views and targets have whole groups of rows, indices name states, and only the chain reads states that it writes.
        unsafe {
            calls
                .piece
                .code
                .call(&calls.piece.plan.loops, called.number, &args);
        }
    }

    fn copy(&self, from: State, to: State) {
        for (ty, memory) in &self.fields {
            let at = |state: State| memory.as_ptr().wrapping_add(state as usize * ty.bytes());
            // SAFETY: both are states, and not the same.
            unsafe { std::ptr::copy_nonoverlapping(at(from), at(to), ty.bytes()) }
        }
    }
}

/// Memory for the states of so many positions, and for those in between.
fn fields<'t>(types: impl Iterator<Item = &'t Ty>, room: usize) -> Vec<(Ty, Returned)> {
    let memory = |ty: &Ty| (*ty, Returned::new((3 * room + BETWEEN) * ty.bytes()));
    types.map(memory).collect()
}

impl Group {
    fn position(&self, place: usize) -> usize {
        if self.is_early {
            self.base - place
        } else {
            self.base + place
        }
    }

    /// The last position of the group before, nearer to the split.
    fn before(&self) -> usize {
        if self.is_early {
            self.base + 1
        } else {
            self.base - 1
        }
    }

    /// Whether `next` is the group after this one, further from the split.
    fn continues(&self, next: &Self) -> bool {
        self.is_early == next.is_early
            && self.places == GROUP
            && self.position(GROUP - 1) == next.before()
    }
}
