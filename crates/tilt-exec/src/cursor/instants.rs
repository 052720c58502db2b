//! Where rows read.

use std::ops::Range;

/// The instants at which output rows read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instants<'a> {
    pub(super) base: Base<'a>,
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'a> {
    Regular { t0: i64, period: i64 },
    Explicit(&'a [i64]),
}

impl<'a> Instants<'a> {
    /// Row `i` at `t0 + i * period`, which fits for every row that is asked for.
    pub(crate) fn regular(t0: i64, period: i64) -> Self {
        debug_assert!(period > 0);
        let base = Base::Regular { t0, period };
        Self { base, offset: 0 }
    }

    /// Row `i` at `instants[i]`.
    pub(crate) fn explicit(instants: &'a [i64]) -> Self {
        let base = Base::Explicit(instants);
        Self { base, offset: 0 }
    }

    /// The same rows `offset` ticks later, saturating.
    #[must_use]
    pub(crate) fn plus(self, offset: i64) -> Self {
        Self { offset, ..self }
    }

    /// The instants of some rows, in `scratch` unless they are there already.
    pub(super) fn of<'s>(&'s self, rows: Range<usize>, scratch: &'s mut Vec<i64>) -> &'s [i64] {
        scratch.clear();
        match self.base {
            Base::Explicit(instants) if self.offset == 0 => return &instants[rows],
            Base::Explicit(instants) => {
                let shifted = instants[rows].iter().map(|t| t.saturating_add(self.offset));
                scratch.extend(shifted);
            }
            Base::Regular { t0, period } => scratch.extend(rows.map(|i| {
                // The sum fits even where the product alone does not.
                let t = t0.wrapping_add((i as i64).wrapping_mul(period));
                t.saturating_add(self.offset)
            })),
        }
        scratch
    }

    /// The first of the instants of some rows.
    pub(super) fn first(&self, rows: &Range<usize>) -> Option<i64> {
        let first = rows.start..rows.end.min(rows.start + 1);
        self.of(first, &mut Vec::new()).first().copied()
    }

    /// The distance of neighbouring rows, if it is always the same.
    pub(super) fn stride(&self) -> Option<i64> {
        match self.base {
            Base::Regular { period, .. } => Some(period),
            Base::Explicit(_) => None,
        }
    }
}
