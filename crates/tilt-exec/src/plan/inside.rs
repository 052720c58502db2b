//! Main loops for rows all of whose neighbours that are read exist.

use tilt_codegen::{
    lir::{Imm, Inst, Loop, Node, Sink, Store, Ty},
    lower::Unsupported,
};

use super::{Definition, Domain, Locate, MainLoop, Planner, Source};
use crate::reads::Kind;

impl<'p> Planner<'p> {
    /// The main loop for rows whose neighbours all exist: nothing is asked for each row. `None` if that makes no difference, or the loop
    /// would not store what the one for all rows does.
    pub(super) fn lower_inside(
        &mut self,
        what: &Definition<'_, 'p>,
        domain: &Domain,
        kind: Kind,
        main: &MainLoop,
    ) -> Result<Option<MainLoop>, Unsupported> {
        let away =
            |locate: &Locate| locate.is_periodic() || locate.in_place() && *locate != Locate::Same;
        let own = |source: &Source| matches!(source, Source::OwnRows { .. });
        if kind != Kind::Stage
            || !main.reads.calls.is_empty()
            || !(main.reads.locates.iter().any(away) || main.sources.iter().any(own))
        {
            return Ok(None);
        }
        let loops = self.loops.len();
        let inside = self.lower_main(what, domain, kind, true)?;
        // Those of windows are there already.
        self.loops.truncate(loops);
        let Some(mut inside) = inside.filter(|inside| {
            inside.reads.locates == main.reads.locates
                && inside.reads.windows.len() == main.reads.windows.len()
                && inside.own == main.own
        }) else {
            return Ok(None);
        };
        Ok(main.stored_like(&mut inside).then_some(inside))
    }
}

impl MainLoop {
    /// Makes another loop store columns like those of this one, with validity where this one has it. False if it cannot.
    fn stored_like(&self, other: &mut MainLoop) -> bool {
        let (Sink::Store { columns: these, .. }, Sink::Store { columns, .. }) =
            (&self.body.sink, &mut other.body.sink)
        else {
            return false;
        };
        let types = |body: &Loop, columns: &[Store]| -> Vec<Ty> {
            columns.iter().map(|c| body.ty(c.value)).collect()
        };
        let columns = std::mem::take(columns);
        if types(&self.body, these) != types(&other.body, &columns) {
            return false;
        }
        let always = other.body.values.push(Node {
            inst: Inst::Const(Imm::bool(true)),
            ty: Ty::Bool,
        });
        let like = |(this, column): (&Store, Store)| Store {
            valid: this.valid.map(|_| column.valid.unwrap_or(always)),
            ..column
        };
        let columns = these.iter().zip(columns).map(like).collect();
        other.body.sink = Sink::Store {
            columns,
            streaming: false,
        };
        true
    }
}
