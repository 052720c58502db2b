//! Loops for extremes of windows that move by one unit.

use tilt_codegen::lir::{Combine, LANES, LONGEST_SPAN, Loop, Sink, Ty};
use tilt_ir::Bounds;

use super::{DoublingPlan, PanePlan, Reduction, panes::over_columns};

/// Units of the longest window whose extremes of eight are kept until they are read again.
const LONGEST: i64 = 1 << 22;

impl Reduction<'_, '_, '_> {
    /// The units of a window, if extremes of it may be doubled: windows move by a unit, and what is combined may be so twice.
    pub(super) fn doubles(
        &mut self,
        slots: &[(Combine, Ty)],
        panes: Option<PanePlan>,
    ) -> Option<i64> {
        let range = self.reads.found().ranges[self.range].clone();
        let units = match (panes, range.bounds) {
            (Some(panes), _) => panes.cut.whole,
            (None, _) if !range.is_steady() => return None,
            (None, Bounds::Ordinal { lo: Some(lo), hi }) => hi.checked_sub(lo)?,
            (None, Bounds::Time { lo: Some(lo), hi }) => {
                let there = self.reads.planner.facts[&self.stream].axis.regular?;
                hi.checked_sub(lo)? / there.period
            }
            _ => return None,
        };
        let may = |(op, _): &(Combine, Ty)| matches!(op, Combine::Min | Combine::Max | Combine::Or);
        (slots.iter().all(may) && (1..=LONGEST).contains(&units)).then_some(units)
    }

    /// Makes a scan the first of the loops.
    pub(super) fn doubling(
        &mut self,
        forward: usize,
        slots: &[(Combine, Ty)],
        units: i64,
    ) -> DoublingPlan {
        let lanes = LANES as i64;
        let is_short = units <= i64::from(LONGEST_SPAN);
        let span = if is_short {
            units
        } else {
            lanes + units % lanes
        };
        let body = &mut self.reads.planner.loops[forward];
        if let Sink::Scan { slots, .. } = &mut body.sink {
            body.sink = Sink::Slide {
                slots: std::mem::take(slots),
                span: span as u32,
                running: !is_short,
            };
        }
        let vectors = body.state_words() / LANES;
        DoublingPlan {
            forward,
            suffixes: (!is_short).then(|| self.add_loop(comb(&self.what.clone(), slots))),
            block: (units - span + lanes) as usize,
            vectors,
        }
    }
}

/// A comb of columns, one for each slot.
fn comb(name: &str, slots: &[(Combine, Ty)]) -> Loop {
    let mut body = over_columns(name, slots, true);
    if let Sink::Scan { slots, .. } = body.sink {
        body.sink = Sink::Comb { slots };
    }
    body
}
