//! What the events of a window contribute: the loop over them, with the map inlined or as a stage of its own.

use tilt_codegen::lir::{Imm, Inst, Lanes};
use tilt_ir::{Bounds, Id};

use super::{
    Algorithm, Binary, Body, Domain, Lowering, ParamSource, Reduction, Result, Sink, Source,
    StageReads, Term, Ty, Valid, ValueId,
};

impl Reduction<'_, '_, '_> {
    /// The type of what events contribute, and whether all do.
    pub(super) fn contribution(&mut self) -> Result<(Ty, Valid)> {
        let mut found = (Ty::Bool, Valid::Never, false);
        let stream = self.stream;
        self.build(|reads, body, value, valid| {
            let events = reads.term(body, stream, crate::reads::SAME)?.valid();
            found = (body.ty(value), valid, valid == events);
            Ok(Sink::Store {
                columns: Vec::new(),
                streaming: false,
            })
        })?;
        self.reads.planner.loops.pop();
        self.all_events = found.2;
        Ok((found.0, found.1))
    }

    /// A loop over the contributions; returns its number and what it reads.
    pub(super) fn build(
        &mut self,
        sink: impl FnOnce(&mut StageReads, &mut Body, ValueId, Valid) -> Result<Sink>,
    ) -> Result<(usize, Vec<Source>, Vec<ParamSource>)> {
        self.build_term(|reads, body, term, valid| {
            let value = match term {
                Term::Scalar { value, .. } => value,
                // Only counted, if anything.
                Term::Record { present, .. } => body.truth(present),
            };
            sink(reads, body, value, valid)
        })
    }

    /// As [`Self::build`], with contributions that may be records.
    pub(super) fn build_term(
        &mut self,
        sink: impl FnOnce(&mut StageReads, &mut Body, Term, Valid) -> Result<Sink>,
    ) -> Result<(usize, Vec<Source>, Vec<ParamSource>)> {
        let program = self.reads.planner.program;
        let axis = self.reads.planner.facts[&self.stream].axis.clone();
        let domain = Domain::On(self.stream);
        let dtype = self.reads.dtype();
        let reads = StageReads::map(&mut *self.reads.planner, self.stream, dtype, &domain, axis);
        let mut lowering = Lowering::new(program, reads);
        let mut body = Body::default();
        let own = lowering
            .reads
            .term(&mut body, self.stream, crate::reads::SAME)?;
        let term = match (self.map, self.mapped) {
            (Some(_), Some(mapped)) => {
                lowering.reads.term(&mut body, mapped, crate::reads::SAME)?
            }
            (Some(map), None) => lowering.lower(&mut body, map)?,
            (None, _) => own.clone(),
        };
        // An event that is not there contributes nothing, whatever the map says.
        let valid = body.both(own.valid(), term.valid());
        let sink = sink(&mut lowering.reads, &mut body, term, valid)?;
        let found = lowering.reads.finish()?;
        let finished = body.finish(self.what.clone(), Lanes::Eight, sink);
        let sources = finished.accesses.iter();
        let sources = sources.map(|a| found.sources[a.index()].clone()).collect();
        let params = finished.params.iter();
        let params = params.map(|p| found.params[p.index()].clone()).collect();
        self.reads.planner.loops.push(finished.body);
        Ok((self.reads.planner.loops.len() - 1, sources, params))
    }

    /// What a window comes to in which every position has an event, if it is counted how many do: running totals of one for each valid element of
    /// some columns.
    pub(super) fn full_count(&mut self, algorithm: Algorithm) -> Option<i64> {
        let Algorithm::Prefix { forward } = algorithm else {
            return None;
        };
        let body = &self.reads.planner.loops[forward];
        let Sink::Scan { slots, .. } = &body.sink else {
            return None;
        };
        let [slot] = slots[..] else { return None };
        let inst = |value: ValueId| &body.values[value].inst;
        let is = |value: ValueId, n: i64| matches!(inst(value), Inst::Const(imm) if *imm == Imm::int(Ty::I64, n));
        let Inst::Select(valid, one, zero) = *inst(slot.value) else {
            return None;
        };
        let mut asked = vec![valid];
        while let Some(value) = asked.pop() {
            match inst(value) {
                Inst::Valid(_) => {}
                Inst::Binary(Binary::And, a, b) => asked.extend([*a, *b]),
                _ => return None,
            }
        }
        if !is(one, 1) || !is(zero, 0) {
            return None;
        }
        let range = &self.reads.found().ranges[self.range];
        match range.bounds {
            _ if !range.is_steady() => None,
            Bounds::Ordinal { lo, hi } => Some(hi - lo?),
            Bounds::Time { .. } => {
                let (length, stream) = (range.length()?, range.stream);
                let regular = self.reads.planner.facts[&stream].axis.regular?;
                Some(length / regular.period)
            }
            Bounds::Event => None,
        }
    }

    /// Makes the map a stage of its own.
    pub(super) fn materialise(&mut self) -> Result<()> {
        if let (Some(map), None) = (self.map, self.mapped) {
            self.mapped = Some(self.reads.planner.map_stage(self.stream, map)?);
        }
        Ok(())
    }
}
