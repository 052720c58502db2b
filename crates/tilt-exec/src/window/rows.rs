//! Reductions that are computed row by row: what a loop stores for them, and what the main loop reads.

use tilt_codegen::lir::Store;

use super::{
    Agg, Algorithm, Binary, Body, Bounds, By, Combine, Compare, DType, Reduction, Result, Sink,
    Source, Term, Timeline, Ty, Valid, ValueId, WindowPlan, key_of,
};
use crate::rows::{Counted, RowsPlan};

/// What is kept of a contribution beside the contribution itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Nothing,
    Double,
    Integer,
    /// Orders like the values.
    Order(Combine),
    /// Equal where values are.
    Identity,
}

impl Reduction<'_, '_, '_> {
    /// Whether no scan or fold of loops computes the reduction.
    pub(super) fn is_by_rows(&mut self, agg: Agg, ty: Ty) -> bool {
        let facts = &self.reads.planner.facts[&self.stream];
        let ordered = facts.axis.ordered;
        let range = self.reads.found().ranges[self.range].clone();
        let irregular = match range.bounds {
            Bounds::Ordinal { .. } => !range.is_steady() && !range.is_running(),
            Bounds::Time { lo: None, .. } => false,
            Bounds::Event => false,
            Bounds::Time { lo: Some(lo), hi } => lo >= hi,
        };
        if !ordered || irregular {
            return true;
        }
        let always = self.contributes == Valid::Always;
        match agg {
            Agg::Sum | Agg::Mean | Agg::Product if ty.is_float() => !self.has_plain_places(),
            Agg::Rms | Agg::CrestFactor => !self.has_plain_places(),
            Agg::Sum | Agg::Mean | Agg::Min | Agg::Max | Agg::Len | Agg::Any | Agg::All => false,
            Agg::First | Agg::Last => !always,
            Agg::Var { .. } | Agg::Std { .. } | Agg::Skew { .. } | Agg::Kurtosis { .. } => {
                !always || self.by_count() || range.length().is_none()
            }
            Agg::Collect
            | Agg::TopK { .. }
            | Agg::Product
            | Agg::Median
            | Agg::Quantile { .. }
            | Agg::Mode
            | Agg::NUnique
            | Agg::ArgMin
            | Agg::ArgMax
            | Agg::Twa
            | Agg::Integral
            | Agg::Slope
            | Agg::Ewm { .. }
            | Agg::Custom(_) => true,
        }
    }

    /// Whether places count contributions and not positions.
    pub(super) fn is_counted(&self) -> bool {
        matches!(
            self.reads.planner.timelines.of(self.stream),
            Timeline::Own(_)
        )
    }

    /// Whether places of contributions are positions, as loops take them.
    fn has_plain_places(&mut self) -> bool {
        let bounds = self.reads.found().ranges[self.range].bounds;
        let running = matches!(
            bounds,
            Bounds::Time { lo: None, .. } | Bounds::Ordinal { lo: None, .. }
        );
        match self.reads.planner.timelines.of(self.stream) {
            Timeline::Grid { .. } => !running,
            Timeline::Own(_) => {
                let assumed = self.reads.planner.gapless && self.all_events;
                self.contributes == Valid::Always || assumed
            }
            Timeline::Input(_) => true,
        }
    }

    /// How places are counted.
    fn counted(&mut self) -> Counted {
        let bounds = self.reads.found().ranges[self.range].bounds;
        let begins = match bounds {
            Bounds::Ordinal { lo: Some(_), .. } => return Counted::Events,
            Bounds::Ordinal { lo: None, .. } => false,
            Bounds::Time { lo, .. } => lo.is_some(),
            Bounds::Event => true,
        };
        match self.reads.planner.timelines.of(self.stream) {
            Timeline::Own(_) => Counted::Contributions,
            Timeline::Grid { period, offset } if !begins => Counted::Cells { period, offset },
            Timeline::Grid { .. } | Timeline::Input(_) => Counted::Positions,
        }
    }

    /// The type of what an event contributes.
    fn contributed(&self) -> &DType {
        let program = self.reads.planner.program;
        match self.map {
            Some(map) => program.dtype(map),
            None => program.stream_dtype(self.stream),
        }
    }

    /// Computes a reduction row by row.
    pub(super) fn rows(&mut self, agg: Agg) -> Result<Term> {
        let is_list = matches!(agg, Agg::Collect | Agg::TopK { .. });
        let picks = matches!(
            agg,
            Agg::First | Agg::Last | Agg::Min | Agg::Max | Agg::Mode | Agg::Custom(_)
        );
        let mut custom = match agg {
            Agg::Custom(reducer) => Some(self.custom_plan(reducer)?),
            _ => None,
        };
        let mut word_type = None;
        let mut leaves: Vec<(String, Ty, bool)> = Vec::new();
        let (mut always, mut is_record) = (true, false);
        let (store, sources, params) = self.build_term(|_, body, term, valid| {
            let mut columns = Vec::new();
            if let Term::Scalar { value, .. } = term
                && let Some(word) = word(body, agg, value)
            {
                word_type = Some(body.ty(word));
                columns.push(Store {
                    value: word,
                    valid: None,
                });
            }
            always = valid == Valid::Always;
            let mut leaf = |body: &mut Body, name: &str, term: &Term, whole: bool| {
                let Term::Scalar { value, valid } = term else {
                    return;
                };
                let valid = match valid {
                    Valid::Always => None,
                    // Where the contribution itself is φ it is never picked.
                    _ if whole => None,
                    other => Some(body.truth(*other)),
                };
                leaves.push((name.to_owned(), body.ty(*value), valid.is_some()));
                columns.push(Store {
                    value: *value,
                    valid,
                });
            };
            if picks || is_list {
                match &term {
                    Term::Scalar { .. } => leaf(body, "picked", &term, true),
                    Term::Record { fields, .. } => {
                        is_record = true;
                        for (name, field) in fields {
                            leaf(body, name, field, false);
                        }
                    }
                }
            }
            if !always {
                columns.push(Store {
                    value: body.truth(valid),
                    valid: None,
                });
            }
            Ok(Sink::Store {
                columns,
                streaming: false,
            })
        })?;
        let axis = &self.reads.planner.facts[&self.stream].axis;
        let (ordered, points) = (axis.ordered, axis.length == Some(1));
        if let Some(custom) = &mut custom {
            let bounds = self.reads.found().ranges[self.range].bounds;
            let begins = matches!(bounds, Bounds::Time { lo: Some(_), .. });
            // An event must contribute the same to every window that it is in.
            let same = begins && ordered && (points || !custom.reads_edges());
            custom.shared = custom.shared.take().filter(|_| same && always);
            custom.deacc = custom.deacc.take().filter(|_| same);
        }
        let plan = WindowPlan {
            range: self.range,
            algorithm: Algorithm::Rows { store },
            sources,
            params,
            anchor: None,
            guard: super::Guard::None,
            panes: None,
            gapless: false,
            count: None,
            slots: Vec::new(),
            rows: Some(RowsPlan {
                agg,
                word: word_type,
                leaves: leaves
                    .iter()
                    .map(|(_, ty, nullable)| (*ty, *nullable))
                    .collect(),
                always,
                counted: self.counted(),
                ordered,
                custom,
                list: is_list.then(|| self.contributed().clone()),
            }),
            what: self.what.clone(),
        };
        let windows = &mut self.reads.found().windows;
        windows.push(plan);
        let window = windows.len() - 1;
        if let Agg::Custom(reducer) = agg {
            return self.custom_result(reducer, window);
        }
        let read = |this: &mut Self, column: usize, name: &str, ty: Ty, by: By| {
            let source = Source::Window { window, column };
            let access = this.reads.access(this.body, source, name, ty, by, true);
            Term::Scalar {
                value: this.body.load(access),
                valid: this.body.valid(access),
            }
        };
        if is_record {
            let present = read(self, leaves.len(), "found", Ty::Bool, By::Row).valid();
            let fields = leaves.iter().enumerate();
            let fields = fields
                .map(|(i, (name, ty, _))| (name.clone(), read(self, i, name, *ty, By::Index)));
            return Ok(Term::Record {
                fields: fields.collect(),
                present,
            });
        }
        if is_list {
            return Ok(read(self, 0, agg.name(), Ty::U64, By::Row));
        }
        if let [(name, ty, _)] = leaves.as_slice() {
            return Ok(read(self, 0, name, *ty, By::Index));
        }
        let ty = match agg {
            Agg::Len | Agg::NUnique | Agg::ArgMin | Agg::ArgMax | Agg::Any | Agg::All => Ty::I64,
            Agg::Sum | Agg::Product => word_type.unwrap_or(Ty::F64),
            _ => Ty::F64,
        };
        let found = read(self, 0, agg.name(), ty, By::Row);
        Ok(match (agg, found) {
            (Agg::Any | Agg::All, Term::Scalar { value, valid }) => {
                let zero = self.body.int(Ty::I64, 0);
                Term::Scalar {
                    value: self.body.compare(Compare::Ne, value, zero),
                    valid,
                }
            }
            (_, found) => found,
        })
    }
}

/// What is kept of a contribution for a reduction.
fn word(body: &mut Body, agg: Agg, value: ValueId) -> Option<ValueId> {
    let ty = body.ty(value);
    let kind = match agg {
        Agg::Len | Agg::First | Agg::Last | Agg::Collect | Agg::Custom(_) => Word::Nothing,
        Agg::TopK { .. } => Word::Order(Combine::Max),
        Agg::Min | Agg::ArgMin => Word::Order(Combine::Min),
        Agg::Max | Agg::ArgMax => Word::Order(Combine::Max),
        Agg::Mode | Agg::NUnique => Word::Identity,
        Agg::Any | Agg::All => Word::Integer,
        Agg::Sum | Agg::Mean | Agg::Product if !ty.is_float() => Word::Integer,
        _ => Word::Double,
    };
    let unsigned = ty == Ty::U64;
    Some(match kind {
        Word::Nothing => return None,
        Word::Double => body.convert(value, Ty::F64),
        Word::Integer if unsigned => value,
        Word::Integer => body.convert(value, Ty::I64),
        Word::Order(op) if ty.is_float() => {
            let double = body.convert(value, Ty::F64);
            key_of(body, double, op)
        }
        Word::Identity if ty.is_float() => {
            let double = body.convert(value, Ty::F64);
            // Of -0 this makes +0.
            let zero = body.float(Ty::F64, 0.0);
            let sum = body.binary(Binary::Add, double, zero);
            let nan = body.float(Ty::F64, f64::NAN);
            let is_nan = body.compare(Compare::Ne, double, double);
            let one = body.select(is_nan, nan, sum);
            body.bits(one, Ty::I64)
        }
        Word::Order(_) if unsigned => {
            let top = body.int(Ty::U64, i64::MIN);
            let flipped = body.binary(Binary::Xor, value, top);
            body.bits(flipped, Ty::I64)
        }
        Word::Order(_) | Word::Identity if unsigned => body.bits(value, Ty::I64),
        Word::Order(_) | Word::Identity => body.convert(value, Ty::I64),
    })
}
