//! Loops that keep totals from row to row, and loops over panes.

use tilt_codegen::lir::{Access, By, Combine, Inst, Lanes, Loop, Node, Sink, Slot, Ty};
use tilt_ir::Arena;

use super::{Algorithm, Cut, Measure, PanePlan, Reduction};
use crate::plan::Domain;

/// Panes of fewer positions than this pay only if there are [`MANY`] in a window.
const LONG: i64 = 16;
const MANY: i64 = 8;
/// Panes that are folded in two parts pay from these numbers of positions on: a part has a price of its own. Sums have running totals to be compared
/// with, and windows of few panes may be folded one by one, as long as they stay in a cache.
const LONG_IN_PARTS: i64 = 32;
const LONG_SUMS_IN_PARTS: i64 = 96;
const FEW: i64 = 4;
const LONG_OF_FEW: i64 = 1024;
/// Panes of time pay from some twenty events each on. How many there are is not known before: windows of more panes than this are taken to have fewer.
const MOST_OF_TIME: i64 = 64;

impl Reduction<'_, '_, '_> {
    /// Whether windows move by several positions and share enough of them to fold panes first, for sums or for extremes.
    pub(super) fn has_panes(&mut self, sums: bool) -> bool {
        self.cut(sums).is_some()
    }

    /// The panes that windows are made of, if they pay.
    fn cut(&mut self, sums: bool) -> Option<Cut> {
        let range = self.reads.found().ranges[self.range].clone();
        let axis = &self.reads.planner.facts[&self.stream].axis;
        let length = range.length()?;
        if let (Some(every), Some(there)) = (range.every, axis.regular) {
            let positions = length / there.period;
            if every < 2 {
                return None;
            }
            let cut = Cut::new(Measure::Positions, every, positions);
            let long = match (cut.rest, cut.whole) {
                (0, MANY..) => 2,
                (0, _) => LONG,
                (_, ..FEW) => LONG_OF_FEW,
                _ if sums => LONG_SUMS_IN_PARTS,
                _ => LONG_IN_PARTS,
            };
            return (cut.shares() && every >= long).then_some(cut);
        }
        // Of events that reach beyond a window an instant does not tell which pane they belong to.
        let points = axis.length == Some(1) && axis.ordered && !axis.mixed;
        match self.reads.domain() {
            Domain::Grid { period, .. } if points && !range.packed => {
                let cut = Cut::new(Measure::Ticks, *period, length);
                (cut.shares() && cut.whole <= MOST_OF_TIME).then_some(cut)
            }
            _ => None,
        }
    }

    /// Makes the loop that scans contributions one that folds them, if panes pay.
    pub(super) fn panes(&mut self, forward: usize, sums: bool) -> Option<PanePlan> {
        let cut = self.cut(sums)?;
        let body = &mut self.reads.planner.loops[forward];
        if let Sink::Scan { slots, .. } = &mut body.sink {
            body.sink = Sink::Fold {
                slots: std::mem::take(slots),
                backward: false,
            };
        }
        let rows = u32::try_from(cut.every).ok();
        let short = rows
            .filter(|_| cut.measure == Measure::Positions && cut.rest == 0)
            .and_then(|every| body.panes(every));
        Some(PanePlan {
            cut,
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

impl Cut {
    fn new(measure: Measure, every: i64, length: i64) -> Self {
        Self {
            measure,
            every,
            whole: length / every,
            rest: length % every,
        }
    }

    /// Whether a pane belongs to several windows, all of it or in part.
    fn shares(self) -> bool {
        self.whole > 0 && self.whole + i64::from(self.rest > 0) > 1
    }
}

/// A scan of columns, an access for each slot.
pub(super) fn over_columns(name: &str, slots: &[(Combine, Ty)], backward: bool) -> Loop {
    scan_of(name, slots, backward, &["pane"])
}

/// A scan of panes; of cut ones there are two parts.
pub(super) fn over_panes(
    name: &str,
    slots: &[(Combine, Ty)],
    backward: bool,
    panes: PanePlan,
) -> Loop {
    let parts: &[&str] = match panes.cut.rest {
        0 => &["pane"],
        _ => &["pane", "rest"],
    };
    scan_of(name, slots, backward, parts)
}

/// A scan of what several columns come to: those of the first part of each slot, then those of the next.
fn scan_of(name: &str, slots: &[(Combine, Ty)], backward: bool, parts: &[&str]) -> Loop {
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
    let mut combined: Vec<Slot> = Vec::new();
    for part in parts {
        for (slot, (op, ty)) in slots.iter().enumerate() {
            let access = body.accesses.push(Access {
                name: format!("{part}_{slot}"),
                ty: *ty,
                by: By::Row,
                nullable: false,
            });
            let value = body.values.push(Node {
                inst: Inst::Load(access),
                ty: *ty,
            });
            match combined.get_mut(slot) {
                None => combined.push(Slot { op: *op, value }),
                Some(slot) => {
                    let inst = Inst::Binary(op.binary(), slot.value, value);
                    slot.value = body.values.push(Node { inst, ty: *ty });
                }
            }
        }
    }
    body.sink = Sink::Scan {
        slots: combined,
        backward,
    };
    body
}
