//! Where runs of the engine are cut.

use tilt::RunOptions;

use super::Choices;

/// Where runs are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pieces {
    AsUsual,
    /// Pieces of so many rows, in any number: blocks and groups begin and end anywhere in them.
    OfRows(usize),
    /// Pieces of so much time.
    OfTicks(i64),
}

impl Pieces {
    pub(crate) fn random(choices: &mut Choices) -> Self {
        match choices.below(8) {
            0 => Self::AsUsual,
            1 | 2 => Self::OfTicks(1 + choices.below(90) as i64),
            3 => Self::OfRows(1 + choices.below(3)),
            _ => Self::OfRows(1 + choices.below(130)),
        }
    }

    pub(crate) fn ask(self, options: RunOptions) -> RunOptions {
        match self {
            Self::AsUsual => options,
            Self::OfRows(rows) => options.piece_rows(rows),
            Self::OfTicks(ticks) => options.piece_interval(ticks),
        }
    }
}
