//! How far beyond the run streams have events: where the cells of grids have to be looked for.

use std::collections::HashSet;

use tilt_ir::{Bounds, Clock, Expr, ExprId, Program, Source, StreamId, Timeline, Timelines};

/// A distance from the run beyond which no event of any stream ends, and no cell is counted; `None` if 64 bits do not hold it.
///
/// An event lies no further from the events that make it than the reads that do reach. These are a clock's sources, and for the cells of a grid what
/// `docs/ir.md` §3 lets count: neither maps, nor the stream itself, nor windows that see events however far back. What is held counts only up to the run's end.
pub(crate) fn slack(program: &Program) -> Option<i64> {
    let timelines = Timelines::new(program);
    let mut total = 0u64;
    for (id, temporal) in program.temporals() {
        let reach = match &temporal.clock {
            Clock::At(_) | Clock::Sessions { .. } => 0,
            Clock::OnChange(sources) => sources.iter().map(of_source).max().unwrap_or(0),
            Clock::Every { .. } | Clock::Calendar(_) => {
                let length = match &temporal.clock {
                    Clock::Every { period, .. } => *period,
                    Clock::Calendar(calendar) => calendar.cells(program.unit).ok()?.longest()?,
                    _ => 0,
                };
                let mut cells = Cells {
                    program,
                    stream: id,
                    seen: HashSet::new(),
                    reach: 0,
                };
                cells.visit(temporal.body);
                cells.reach.checked_add(length.unsigned_abs())?
            }
        };
        let counted = counted_cells(program, &timelines, temporal.body);
        total = total.checked_add(reach)?.checked_add(counted)?;
    }
    i64::try_from(total).ok()
}

/// How far back windows over grids count cells, which have a place whether they exist or not; in maps they add up.
fn counted_cells(program: &Program, timelines: &Timelines, body: ExprId) -> u64 {
    let mut counted = 0u64;
    program.walk(body, &mut |_, expr| {
        if let Expr::Reduce { window, .. } = expr
            && let Bounds::Time { lo: Some(lo), .. } = window.bounds
            && matches!(timelines.of(window.stream), Timeline::Grid { .. })
        {
            counted = counted.saturating_add(lo.unsigned_abs());
        }
    });
    counted
}

fn of_source(source: &Source) -> u64 {
    match *source {
        Source::Value { offset, .. } => offset.unsigned_abs(),
        // The interval begins one tick before the event's end.
        Source::Hold { offset, .. } => offset.unsigned_abs().saturating_add(1),
        Source::Window { lo, hi, .. } => lo.unsigned_abs().max(hi.unsigned_abs()),
    }
}

/// The reads that give a grid its cells.
struct Cells<'p> {
    program: &'p Program,
    stream: StreamId,
    seen: HashSet<ExprId>,
    reach: u64,
}

impl Cells<'_> {
    fn visit(&mut self, id: ExprId) {
        if !self.seen.insert(id) {
            return;
        }
        let expr = self.program.expr(id);
        let reach = match expr {
            Expr::At { stream, offset }
            | Expr::Edge { stream, offset, .. }
            | Expr::Hold { stream, offset, .. }
                if *stream != self.stream =>
            {
                offset.unsigned_abs()
            }
            Expr::Reduce { window, .. } => {
                if let Bounds::Time { lo: Some(lo), hi } = window.bounds
                    && window.stream != self.stream
                {
                    self.reach = self.reach.max(lo.unsigned_abs()).max(hi.unsigned_abs());
                }
                return;
            }
            _ => 0,
        };
        self.reach = self.reach.max(reach);
        expr.for_each_operand(|operand| self.visit(operand));
    }
}
