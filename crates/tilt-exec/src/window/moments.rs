//! Variance, skewness and kurtosis: power sums around a member of each part, those of the late part moved to the anchor of the early one.
//!
//! The anchor is the contribution next to the split, a member of the sample, which keeps the shifted formulas well conditioned
//! (`docs/ir.md`). Every expression here is evaluated in the order that page writes it.

use super::{
    Binary, Body, By, Combine, Compare, Guard, Inst, Kind, Reduction, Result, Source, StageReads,
    StreamId, Term, Ty, Unary, Unsupported, Valid, ValueId,
};

/// Count, mean and central sums of a window.
pub(super) struct Moments {
    n: ValueId,
    /// Σ(v-m)², Σ(v-m)³, Σ(v-m)⁴ as far as asked for.
    central: Vec<ValueId>,
    nonempty: Valid,
}

impl Reduction<'_, '_, '_> {
    /// Central sums up to `order`.
    pub(super) fn moments(&mut self, order: usize) -> Result<Moments> {
        let (stream, leaf) = self.plain_leaf()?;
        let kind = if self.is_sparse() {
            Kind::Fold
        } else {
            Kind::Blocks
        };
        let ty = self.reads.planner.facts[&stream].leaves[leaf].ty;
        let slots = move |reads: &mut StageReads, body: &mut Body, value: ValueId, _: Valid| {
            let source = Source::Anchor { stream, leaf };
            let access = reads.access(body, source, "anchor", ty, By::Range, false);
            let anchor = body.load(access);
            let (value, anchor) = (body.convert(value, Ty::F64), body.convert(anchor, Ty::F64));
            let d = body.binary(Binary::Sub, value, anchor);
            let d2 = body.binary(Binary::Mul, d, d);
            let mut powers = vec![d, d2];
            if order > 2 {
                powers.push(body.binary(Binary::Mul, d2, d));
            }
            if order > 3 {
                powers.push(body.binary(Binary::Mul, d2, d2));
            }
            Ok(powers.into_iter().map(|p| (Combine::Add, p)).collect())
        };
        let columns = self.window(kind, &slots, Guard::None, Some((stream, leaf)))?;
        let sides: [Vec<ValueId>; 2] =
            [0, 1].map(|side| columns.iter().copied().skip(side).step_by(2).collect());
        let [early, late] = sides;
        let (n, distance, moved_by) = self.distance((stream, leaf));
        let late = self.moved(&late, distance, moved_by);
        let sums = early.iter().zip(late);
        let sums: Vec<ValueId> = sums.map(|(e, l)| self.op(Binary::Add, *e, l)).collect();
        Ok(Moments {
            n,
            central: self.central(&sums, n),
            nonempty: self.extent.nonempty,
        })
    }

    /// The column that contributions are: of the stream itself, or of its map made a stage.
    fn plain_leaf(&mut self) -> Result<(StreamId, usize)> {
        if let Some(leaf) = self.read_leaf()? {
            return Ok(leaf);
        }
        self.materialise()?;
        self.read_leaf()?
            .ok_or_else(|| Unsupported("moments of a computed value".into()))
    }

    /// The column that the map merely reads.
    pub(super) fn read_leaf(&mut self) -> Result<Option<(StreamId, usize)>> {
        let mut found = None;
        self.build(|reads, body, value, _| {
            if let Inst::Load(access) = body.inst(value)
                && let Source::Leaf { stream, leaf, .. } =
                    reads.found().sources[tilt_ir::Id::index(*access)]
            {
                found = Some((stream, leaf));
            }
            Ok(super::Sink::Store {
                columns: Vec::new(),
                streaming: false,
            })
        })?;
        self.reads.planner.loops.pop();
        Ok(found)
    }

    /// How many events a window has, the distance of its late anchor from the early one, zero unless there are both, and that times the events of
    /// the late part.
    fn distance(&mut self, (stream, leaf): (StreamId, usize)) -> (ValueId, ValueId, ValueId) {
        let range = self.range;
        let source = Source::Distance {
            range,
            stream,
            leaf,
        };
        let distance = self
            .reads
            .access(self.body, source, "distance", Ty::F64, By::Row, false);
        let distance = self.body.load(distance);
        let in_late = Source::RangeLate(range);
        let in_late = self
            .reads
            .access(self.body, in_late, "in_late", Ty::U32, By::Row, false);
        let in_late = self.body.load(in_late);
        let in_late = self.body.convert(in_late, Ty::F64);
        let n = self.body.convert(self.extent.count, Ty::F64);
        let moved_by = self.op(Binary::Mul, in_late, distance);
        (n, distance, moved_by)
    }

    /// The sums of powers of distances that are all greater by `d`, which together are `t`: binomials, nested.
    fn moved(&mut self, sums: &[ValueId], d: ValueId, t: ValueId) -> Vec<ValueId> {
        // How often each sum of lower order counts in those of the second, third and fourth power.
        const TIMES: [&[f64]; 3] = [&[2.0], &[3.0, 3.0], &[4.0, 6.0, 4.0]];
        let mut moved = vec![self.op(Binary::Add, sums[0], t)];
        for (times, sum) in TIMES.iter().zip(&sums[1..]) {
            let mut inner = t;
            for (times, lower) in times.iter().zip(sums) {
                let times = self.constant(*times);
                let term = self.op(Binary::Mul, times, *lower);
                let sum = self.op(Binary::Add, term, inner);
                inner = self.op(Binary::Mul, d, sum);
            }
            moved.push(self.op(Binary::Add, *sum, inner));
        }
        moved
    }

    /// Sums around the mean, from those around another number.
    fn central(&mut self, sums: &[ValueId], n: ValueId) -> Vec<ValueId> {
        let m = self.op(Binary::Div, sums[0], n);
        let c = self.op(Binary::Mul, m, sums[0]);
        let m2 = self.op(Binary::Sub, sums[1], c);
        let mut central = vec![self.not_negative(m2)];
        if let Some(s3) = sums.get(2) {
            let inner = self.weighted((3.0, sums[1]), (2.0, c));
            let inner = self.op(Binary::Mul, m, inner);
            central.push(self.op(Binary::Sub, *s3, inner));
        }
        if let Some(s4) = sums.get(3) {
            let inner = self.weighted((6.0, sums[1]), (3.0, c));
            let inner = self.op(Binary::Mul, m, inner);
            let four = self.constant(4.0);
            let cubes = self.op(Binary::Mul, four, sums[2]);
            let inner = self.op(Binary::Sub, cubes, inner);
            let inner = self.op(Binary::Mul, m, inner);
            let m4 = self.op(Binary::Sub, *s4, inner);
            central.push(self.not_negative(m4));
        }
        central
    }

    /// The difference of two products.
    fn weighted(&mut self, (a, x): (f64, ValueId), (b, y): (f64, ValueId)) -> ValueId {
        let (a, b) = (self.constant(a), self.constant(b));
        let (a, b) = (self.op(Binary::Mul, a, x), self.op(Binary::Mul, b, y));
        self.op(Binary::Sub, a, b)
    }

    pub(super) fn variance(&mut self, moments: &Moments, ddof: u32, root: bool) -> Term {
        let ddof = self.constant(f64::from(ddof));
        let enough = self.body.compare(Compare::Gt, moments.n, ddof);
        let freedom = self.op(Binary::Sub, moments.n, ddof);
        let mut value = self.op(Binary::Div, moments.central[0], freedom);
        if root {
            value = self.body.unary(Unary::Sqrt, value);
        }
        let enough = self.body.valid_if(enough);
        Term::Scalar {
            value,
            valid: self.body.both(moments.nonempty, enough),
        }
    }

    pub(super) fn skew(&mut self, moments: &Moments, bias: bool) -> Term {
        let n = moments.n;
        let (m2, m3) = (moments.central[0], moments.central[1]);
        let scale = self.body.unary(Unary::Sqrt, n);
        let above = self.op(Binary::Mul, scale, m3);
        let root = self.body.unary(Unary::Sqrt, m2);
        let below = self.op(Binary::Mul, m2, root);
        let mut value = self.op(Binary::Div, above, below);
        let mut valid = moments.nonempty;
        if !bias {
            let (one, two) = (self.constant(1.0), self.constant(2.0));
            let less = self.op(Binary::Sub, n, one);
            let product = self.op(Binary::Mul, n, less);
            let root = self.body.unary(Unary::Sqrt, product);
            let lesser = self.op(Binary::Sub, n, two);
            let factor = self.op(Binary::Div, root, lesser);
            value = self.op(Binary::Mul, factor, value);
            valid = self.at_least(3.0, n, valid);
        }
        self.standardised(value, valid, moments)
    }

    pub(super) fn kurtosis(&mut self, moments: &Moments, fisher: bool, bias: bool) -> Term {
        let n = moments.n;
        let (m2, m4) = (moments.central[0], moments.central[2]);
        let above = self.op(Binary::Mul, n, m4);
        let below = self.op(Binary::Mul, m2, m2);
        let pearson = self.op(Binary::Div, above, below);
        let three = self.constant(3.0);
        let mut valid = moments.nonempty;
        let value = if bias {
            if fisher {
                self.op(Binary::Sub, pearson, three)
            } else {
                pearson
            }
        } else {
            // What depends on the count alone is computed once where all windows have as many events.
            let (one, two) = (self.constant(1.0), self.constant(2.0));
            let (c, d) = (self.op(Binary::Sub, n, two), self.op(Binary::Sub, n, three));
            let below = self.op(Binary::Mul, c, d);
            let part = self.op(Binary::Div, one, below);
            let squared = self.op(Binary::Mul, n, n);
            let a = self.op(Binary::Sub, squared, one);
            let a = self.op(Binary::Mul, a, part);
            let less = self.op(Binary::Sub, n, one);
            let b = self.op(Binary::Mul, less, less);
            let b = self.op(Binary::Mul, three, b);
            let b = self.op(Binary::Mul, b, part);
            let scaled = self.op(Binary::Mul, a, pearson);
            let excess = self.op(Binary::Sub, scaled, b);
            valid = self.at_least(4.0, n, valid);
            if fisher {
                excess
            } else {
                self.op(Binary::Add, excess, three)
            }
        };
        self.standardised(value, valid, moments)
    }

    /// NaN where nothing varies.
    fn standardised(&mut self, value: ValueId, valid: Valid, moments: &Moments) -> Term {
        let zero = self.constant(0.0);
        let constant = self.body.compare(Compare::Eq, moments.central[0], zero);
        let nan = self.constant(f64::NAN);
        Term::Scalar {
            value: self.body.select(constant, nan, value),
            valid,
        }
    }

    fn at_least(&mut self, least: f64, n: ValueId, valid: Valid) -> Valid {
        let least = self.constant(least);
        let enough = self.body.compare(Compare::Ge, n, least);
        let enough = self.body.valid_if(enough);
        self.body.both(valid, enough)
    }

    fn op(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.body.binary(op, a, b)
    }

    fn constant(&mut self, value: f64) -> ValueId {
        self.body.float(Ty::F64, value)
    }

    /// Rounding must not make a sum of squares negative; NaN stays.
    fn not_negative(&mut self, value: ValueId) -> ValueId {
        let zero = self.constant(0.0);
        let negative = self.body.compare(Compare::Lt, value, zero);
        self.body.select(negative, zero, value)
    }
}
