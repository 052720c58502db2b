//! Windows that are computed together: several sums over the same rows are slots of the same loops, which read those rows once.

use tilt_codegen::lir::{AccessId, Loop, ParamId};
use tilt_ir::Id;

use super::{Algorithm, Guard, Reduction, WindowPlan, slots_of};

/// Slots of a loop that registers have room for.
const MOST: usize = 8;

impl Reduction<'_, '_, '_> {
    /// The window of the stage that computes another one too, and which of its slots are that one's: it does already, by other names, or its loops
    /// are made to.
    pub(super) fn beside(&mut self, plan: &WindowPlan) -> Option<(usize, Vec<usize>)> {
        if let Some(known) = self.known(plan) {
            return Some((known, (0..plan.slots.len()).collect()));
        }
        // Running totals of doubles are begun by sums in order, all others by sums in any.
        let running = self.reads.found().ranges[plan.range].is_running();
        let loops = &self.reads.planner.loops;
        let windows = self.reads.windows().iter().enumerate();
        let mut candidates = windows.filter(|(_, window)| {
            joins(window, plan) && (!running || is_float(window) == is_float(plan))
        });
        let (number, joined) = candidates.find_map(|(number, window)| {
            let joined = Joined::new(loops, window, plan)?;
            Some((number, joined))
        })?;
        let window = &mut self.reads.found().windows[number];
        window.slots = slots_of(&joined.loops[0].1);
        let sources = plan.sources.iter().zip(&joined.accesses);
        let added = sources.filter(|(_, known)| known.is_none());
        window
            .sources
            .extend(added.map(|(source, _)| source.clone()));
        let params = plan.params.iter().zip(&joined.params);
        let added = params.filter(|(_, known)| known.is_none());
        window.params.extend(added.map(|(param, _)| param.clone()));
        window.anchor = window.anchor.or(plan.anchor);
        window.gapless |= plan.gapless;
        let what = plan.what.split_once(' ').map_or("", |(_, text)| text);
        if !window.what.contains(what) {
            window.what = format!("{} and {what}", window.what);
        }
        for (at, body) in joined.loops {
            self.reads.planner.loops[at] = body;
        }
        Some((number, joined.slots))
    }

    /// A window of the stage that computes the same already, by other names.
    fn known(&mut self, plan: &WindowPlan) -> Option<usize> {
        let loops = &self.reads.planner.loops;
        let nameless = |number: usize| Loop {
            name: String::new(),
            ..loops[number].clone()
        };
        let contributions = nameless(plan.contributions());
        let same = |window: &WindowPlan| {
            let kind = std::mem::discriminant(&window.algorithm);
            window.range == plan.range
                && kind == std::mem::discriminant(&plan.algorithm)
                && window.panes.is_some() == plan.panes.is_some()
                && window.sources == plan.sources
                && window.params == plan.params
                && window.guard == plan.guard
                && window.anchor == plan.anchor
                && nameless(window.contributions()) == contributions
        };
        self.reads.windows().iter().position(same)
    }
}

/// Whether two windows are over the same rows, and both by blocks or both folded.
fn joins(window: &WindowPlan, plan: &WindowPlan) -> bool {
    let both = matches!(
        (window.algorithm, plan.algorithm),
        (Algorithm::Blocks { .. }, Algorithm::Blocks { .. })
            | (Algorithm::Fold { .. }, Algorithm::Fold { .. })
    );
    let plain = |w: &WindowPlan| w.guard == Guard::None && w.panes.is_none() && w.rows.is_none();
    let anchors = window.anchor.is_none() || plan.anchor.is_none() || window.anchor == plan.anchor;
    both && window.range == plan.range && plain(window) && plain(plan) && anchors
}

fn is_float(window: &WindowPlan) -> bool {
    window.slots.iter().any(|(_, ty)| ty.is_float())
}

/// The loops of a window with those of another beside them.
struct Joined {
    /// By their numbers, the one that goes forward first.
    loops: [(usize, Loop); 2],
    /// What the window has already of what the other reads.
    accesses: Vec<Option<AccessId>>,
    params: Vec<Option<ParamId>>,
    /// Which slots are the other's.
    slots: Vec<usize>,
}

impl Joined {
    fn new(loops: &[Loop], window: &WindowPlan, plan: &WindowPlan) -> Option<Self> {
        let ends = |algorithm: Algorithm| match algorithm {
            Algorithm::Blocks { forward, backward } | Algorithm::Fold { forward, backward } => {
                Some([forward, backward])
            }
            _ => None,
        };
        let ([forward, backward], others) = (ends(window.algorithm)?, ends(plan.algorithm)?);
        let sources = plan.sources.iter();
        let accesses: Vec<_> = sources
            .map(|source| window.sources.iter().position(|s| s == source))
            .map(|at| at.map(AccessId::new))
            .collect();
        let params = plan.params.iter();
        let params: Vec<_> = params
            .map(|param| window.params.iter().position(|p| p == param))
            .map(|at| at.map(ParamId::new))
            .collect();
        let (first, slots) = loops[forward].beside(&loops[others[0]], &accesses, &params)?;
        let (second, same) = loops[backward].beside(&loops[others[1]], &accesses, &params)?;
        let fits = slots_of(&first).len() <= MOST && slots == same;
        fits.then_some(Self {
            loops: [(forward, first), (backward, second)],
            accesses,
            params,
            slots,
        })
    }
}
