//! Columns that stages pass on as they are, and those that the output so shares with inputs.

use tilt_codegen::lir::{Inst, Known, Lanes, Loop, Sink, Store, Ty};
use tilt_ir::{Id, Program, StreamId};

use super::{Locate, Plan, Root, Source, Stage, past_caches};

/// A column of a stream with the rows of the stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passed {
    pub(crate) stream: StreamId,
    pub(crate) leaf: usize,
    /// Whether rows have a value where they have one there, or whether only the values are the same.
    pub(crate) known: Known,
}

/// What the output shares with the input that it has the rows of.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// Of each column of the main loop what it is of the input.
    pub(crate) columns: Vec<Option<Passed>>,
    /// The main loop without what is shared; `None` if nothing is left.
    pub(crate) main: Option<usize>,
    /// The same with stores past the caches.
    pub(crate) streaming: Option<usize>,
}

/// What a plan without keys shares, with loops for the rest.
pub(super) fn sharing(
    program: &Program,
    stages: &mut [Stage],
    root: Root,
    loops: &mut Vec<Loop>,
) -> Option<Sharing> {
    let stage = stages.last_mut()?;
    let Root::Input(input) = root else {
        return None;
    };
    let is_keyed = program.inputs().any(|(_, input)| input.key.is_some());
    let body = &loops[stage.main];
    if is_keyed || body.lanes != Lanes::Eight || stage.inside.is_some() || !stage.own.is_empty() {
        return None;
    }
    let of_input = |passed: Passed| (passed.stream == input).then_some(passed);
    let columns = passed_on(body, stage).into_iter();
    let columns: Vec<Option<Passed>> = columns.map(|p| p.and_then(of_input)).collect();
    if columns.iter().all(Option::is_none) {
        return None;
    }
    let known = |number: usize| columns[number].map(|passed| passed.known);
    let main = body.without(known);
    let full = stage.full.iter().find(|(of, _)| *of == stage.main);
    let full = full.and_then(|(_, full)| loops[*full].without(known));
    let mut push = |body: Loop, full: Option<Loop>| {
        loops.push(body);
        let number = loops.len() - 1;
        if let Some(full) = full {
            loops.push(full);
            stage.full.push((number, loops.len() - 1));
        }
        number
    };
    let has_values = |body: &&Loop| body.targets().iter().any(|ty| *ty != Ty::Bool);
    let past = main.as_ref().filter(has_values).cloned().map(past_caches);
    let streaming = past.map(|past| push(past, full.clone().map(past_caches)));
    let main = main.map(|main| push(main, full));
    Some(Sharing {
        columns,
        main,
        streaming,
    })
}

/// Of each column that the main loop of a stage stores the one that it is of another stream with the same rows, if it is one.
pub(crate) fn passed_on(main: &Loop, stage: &Stage) -> Vec<Option<Passed>> {
    let Loop { values, sink, .. } = main;
    let Sink::Store { columns, .. } = sink else {
        unreachable!("the main loop of a stage stores")
    };
    let passed = |store: &Store| {
        let Inst::Load(access) = values[store.value].inst else {
            return None;
        };
        let Source::Leaf {
            stream,
            leaf,
            locate,
        } = stage.sources[access.index()]
        else {
            return None;
        };
        let is_whole = (store.valid).is_none_or(|valid| values[valid].inst == Inst::Valid(access));
        (stage.locates[locate] == Locate::Same).then_some(Passed {
            stream,
            leaf,
            known: if is_whole {
                Known::Column
            } else {
                Known::Values
            },
        })
    };
    columns.iter().map(passed).collect()
}

impl Plan {
    /// The loops that only runs call which share nothing, or which call them for large outputs.
    pub(super) fn not_shared(&self) -> impl Iterator<Item = usize> {
        let main = self.stages.last().map(|stage| stage.main);
        let sharing = self.sharing.iter();
        sharing.flat_map(move |sharing| main.into_iter().chain(sharing.streaming))
    }
}
