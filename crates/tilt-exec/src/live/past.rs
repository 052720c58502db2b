//! How far back results look, as far as a live run can tell from the rows that it sees.

use std::collections::BTreeMap;

use tilt_data::Counted;
use tilt_ir::{Lineage, Program, Reach, StreamId};

/// How far back results look to an input, and what is counted where that is a number of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    pub(crate) reach: Reach,
    pub(crate) counted: Counted,
}

impl Back {
    pub(crate) const NONE: Self = Self {
        reach: Reach::NONE,
        counted: Counted::Events,
    };
    pub(crate) const ALL: Self = Self {
        reach: Reach::Unbounded,
        counted: Counted::Events,
    };

    /// Whether a number of events is part of it.
    pub(crate) fn counts(self) -> bool {
        matches!(self.reach, Reach::Bounded { events: 1.., .. })
    }
}

/// How far back results look, to each input that they depend on.
///
/// Lineage may know no bound where rows tell one: events of a column that may be φ are at least as many as rows without φ.
#[derive(Debug)]
pub(crate) struct Past {
    inputs: BTreeMap<StreamId, Back>,
    /// Whether sessions are taken to have a greatest length.
    pub(crate) knows_sessions: bool,
}

impl Past {
    /// Of a program, whose lineage is given.
    pub(crate) fn of(program: &Program, lineage: &Lineage) -> Self {
        Self::new(program, lineage, None)
    }

    /// The same of data whose sessions last `longest` ticks at most.
    pub(crate) fn if_sessions_last(program: &Program, longest: i64) -> Self {
        let lineage = Lineage::if_sessions_last(program, longest);
        Self::new(program, &lineage, Some(longest))
    }

    fn new(program: &Program, lineage: &Lineage, longest_session: Option<i64>) -> Self {
        let mut complete = None;
        let inputs = lineage.halos().map(|(id, halo)| {
            let (mut reach, mut counted) = (halo.lookback, Counted::Events);
            if reach == Reach::Unbounded {
                let complete = complete
                    .get_or_insert_with(|| Lineage::of_complete_rows(program, longest_session));
                reach = complete.halo(id).map_or(reach, |halo| halo.lookback);
                counted = Counted::CompleteRows;
            }
            (id, Back { reach, counted })
        });
        Self {
            inputs: inputs.collect(),
            knows_sessions: longest_session.is_some(),
        }
    }

    /// How far back results look to an input.
    pub(crate) fn back(&self, input: StreamId) -> Back {
        self.inputs.get(&input).copied().unwrap_or(Back::NONE)
    }

    /// Whether a number of events is part of how far back they look to some input.
    pub(crate) fn counts(&self) -> bool {
        self.inputs.values().any(|back| back.counts())
    }

    /// The longest time that results look back, besides events; `None` if that has no bound.
    pub(crate) fn ticks(&self) -> Option<i64> {
        let mut backs = self.inputs.values();
        backs.try_fold(0, |most, back| match back.reach {
            Reach::Bounded { ticks, .. } => Some(ticks.max(most)),
            Reach::Unbounded => None,
        })
    }
}
