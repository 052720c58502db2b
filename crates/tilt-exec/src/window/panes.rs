//! Loops that keep totals from row to row, and loops over panes.

use tilt_codegen::lir::{Access, By, Combine, Inst, Lanes, Loop, Node, Sink, Slot, Ty};
use tilt_ir::{Arena, Bounds};

use super::{Algorithm, PanePlan, Reduction};

/// Panes of fewer positions than this pay only if there are [`MANY`] in a window.
const LONG: i64 = 16;
const MANY: i64 = 8;

impl Reduction<'_, '_, '_> {
    /// Whether windows move by several positions and share enough of them to fold panes first.
    pub(super) fn has_panes(&mut self) -> bool {
        self.pane().is_some()
    }

    /// The positions of a pane: those that windows move by.
    fn pane(&mut self) -> Option<i64> {
        let range = self.reads.found().ranges[self.range].clone();
        let every = range.every.filter(|every| *every > 1)?;
        let there = self.reads.planner.facts[&self.stream].axis.regular?;
        let Bounds::Time { lo: Some(lo), hi } = range.bounds else {
            return None;
        };
        let positions = hi.checked_sub(lo)? / there.period;
        let panes = positions / every;
        let worth = panes > 1 && (every >= LONG || panes >= MANY);
        (worth && positions % every == 0).then_some(every)
    }

    /// Makes the loop that scans contributions one that folds them, if panes pay.
    pub(super) fn panes(&mut self, forward: usize) -> Option<PanePlan> {
        let every = self.pane()?;
        let body = &mut self.reads.planner.loops[forward];
        if let Sink::Scan { slots, .. } = &mut body.sink {
            body.sink = Sink::Fold {
                slots: std::mem::take(slots),
                backward: false,
            };
        }
        let short = u32::try_from(every)
            .ok()
            .and_then(|every| body.panes(every));
        Some(PanePlan {
            every,
            fold: forward,
            short: short.map(|short| self.add_loop(short)),
        })
    }

    /// Totals that rows keep, or running ones where what leaves cannot be read beside what enters.
    pub(super) fn totals(&mut self, forward: usize) -> Algorithm {
        let loops = &mut self.reads.planner.loops;
        match loops[forward].difference() {
            Some(difference) => {
                loops.push(difference);
                let difference = loops.len() - 1;
                Algorithm::Totals {
                    forward,
                    difference,
                }
            }
            None => Algorithm::Prefix { forward },
        }
    }

    pub(super) fn add_loop(&mut self, body: Loop) -> usize {
        self.reads.planner.loops.push(body);
        self.reads.planner.loops.len() - 1
    }
}

/// A scan of panes, an access for each slot.
pub(super) fn over_panes(name: &str, slots: &[(Combine, Ty)], backward: bool) -> Loop {
    let mut body = Loop {
        name: name.to_owned(),
        lanes: Lanes::Eight,
        accesses: Arena::default(),
        params: Arena::default(),
        values: Arena::default(),
        sink: Sink::Scan {
            slots: Vec::new(),
            backward,
        },
    };
    let mut combined = Vec::new();
    for (slot, (op, ty)) in slots.iter().enumerate() {
        let access = body.accesses.push(Access {
            name: format!("pane_{slot}"),
            ty: *ty,
            by: By::Row,
            nullable: false,
        });
        let value = body.values.push(Node {
            inst: Inst::Load(access),
            ty: *ty,
        });
        combined.push(Slot { op: *op, value });
    }
    body.sink = Sink::Scan {
        slots: combined,
        backward,
    };
    body
}
