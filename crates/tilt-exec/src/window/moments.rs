//! Variance, skewness and kurtosis: power sums around a member of each part, merged.
//!
//! The anchor is the contribution next to the split, a member of the sample, which keeps the shifted formulas well conditioned
//! (`docs/ir.md`). Every expression here is evaluated in the order that page writes it.

use super::{
    Binary, Body, By, Combine, Compare, Guard, Inst, Kind, Part, Reduction, Result, Source,
    StageReads, StreamId, Term, Ty, Unary, Unsupported, Valid, ValueId,
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
        let range = self.range;
        let ty = self.reads.planner.facts[&stream].leaves[leaf].ty;
        let slots = move |reads: &mut StageReads, body: &mut Body, value: ValueId, _: Valid| {
            // Which of the two anchors it is, the direction of the loop decides.
            let source = Source::Anchor {
                range,
                stream,
                leaf,
                early: false,
            };
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
        let early = self.part(early, (stream, leaf), true);
        let late = self.part(late, (stream, leaf), false);
        Ok(self.merge(&early, &late))
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

    /// The sums of one part with their count and anchor.
    fn part(&mut self, sums: Vec<ValueId>, (stream, leaf): (StreamId, usize), early: bool) -> Part {
        let range = self.range;
        let ty = self.reads.planner.facts[&stream].leaves[leaf].ty;
        let source = Source::Anchor {
            range,
            stream,
            leaf,
            early,
        };
        let anchor = self
            .reads
            .access(self.body, source, "anchor", ty, By::Row, false);
        let anchor = self.body.load(anchor);
        let anchor = self.body.convert(anchor, Ty::F64);
        let position = |this: &mut Self, source: Source, name: &str| {
            let access = this
                .reads
                .access(this.body, source, name, Ty::U32, By::Row, false);
            let position = this.body.load(access);
            this.body.convert(position, Ty::I64)
        };
        let split = position(self, Source::RangeSplit(range), "window_split");
        let edge = if early {
            position(self, Source::RangeFirst(range), "window_first")
        } else {
            position(self, Source::RangeEnd(range), "window_end")
        };
        let (from, to) = if early { (edge, split) } else { (split, edge) };
        let n = self.body.binary(Binary::Sub, to, from);
        let n = self.body.convert(n, Ty::F64);
        Part { n, anchor, sums }
    }

    /// Central sums of a part around its own mean: the mean less the anchor, then Σd² and so on.
    fn central(&mut self, part: &Part) -> (ValueId, Vec<ValueId>) {
        let Part { n, sums, .. } = part;
        let s1 = sums[0];
        let m1 = self.op(Binary::Div, s1, *n);
        let correction = self.op(Binary::Mul, s1, m1);
        let m2 = self.op(Binary::Sub, sums[1], correction);
        let mut central = vec![self.not_negative(m2)];
        if let Some(s3) = sums.get(2) {
            let three = self.constant(3.0);
            let two = self.constant(2.0);
            let a = self.op(Binary::Mul, three, m1);
            let a = self.op(Binary::Mul, a, sums[1]);
            let left = self.op(Binary::Sub, *s3, a);
            let squared = self.op(Binary::Mul, m1, m1);
            let b = self.op(Binary::Mul, two, squared);
            let b = self.op(Binary::Mul, b, s1);
            central.push(self.op(Binary::Add, left, b));
        }
        if let Some(s4) = sums.get(3) {
            let (four, six, three) = (self.constant(4.0), self.constant(6.0), self.constant(3.0));
            let a = self.op(Binary::Mul, four, m1);
            let a = self.op(Binary::Mul, a, sums[2]);
            let left = self.op(Binary::Sub, *s4, a);
            let squared = self.op(Binary::Mul, m1, m1);
            let b = self.op(Binary::Mul, six, squared);
            let b = self.op(Binary::Mul, b, sums[1]);
            let left = self.op(Binary::Add, left, b);
            let cubed = self.op(Binary::Mul, squared, m1);
            let c = self.op(Binary::Mul, three, cubed);
            let c = self.op(Binary::Mul, c, s1);
            let m4 = self.op(Binary::Sub, left, c);
            central.push(self.not_negative(m4));
        }
        (m1, central)
    }

    /// Both parts together; a part without events leaves the other as it is.
    fn merge(&mut self, early: &Part, late: &Part) -> Moments {
        let (e_mean, e) = self.central(early);
        let (l_mean, l) = self.central(late);
        let (ne, nl) = (early.n, late.n);
        let n = self.op(Binary::Add, ne, nl);
        // Means are compared by their distances from the anchors, which are small where the values are not.
        let anchors = self.op(Binary::Sub, late.anchor, early.anchor);
        let distances = self.op(Binary::Sub, l_mean, e_mean);
        let delta = self.op(Binary::Add, anchors, distances);
        let delta2 = self.op(Binary::Mul, delta, delta);
        let product = self.op(Binary::Mul, ne, nl);
        let mut central = Vec::new();
        let weight = self.op(Binary::Div, product, n);
        let both = self.op(Binary::Add, e[0], l[0]);
        let spread = self.op(Binary::Mul, delta2, weight);
        central.push(self.op(Binary::Add, both, spread));
        if e.len() > 1 {
            central.push(self.merged_cubes(&e, &l, [ne, nl, n], delta, delta2, product));
        }
        if e.len() > 2 {
            central.push(self.merged_fourths(&e, &l, [ne, nl, n], delta, delta2, product));
        }
        let zero = self.constant(0.0);
        let no_early = self.body.compare(Compare::Eq, ne, zero);
        let no_late = self.body.compare(Compare::Eq, nl, zero);
        let central = central
            .into_iter()
            .zip(e.iter().zip(&l))
            .map(|(both, (e, l))| {
                let or_early = self.body.select(no_late, *e, both);
                self.body.select(no_early, *l, or_early)
            })
            .collect();
        Moments {
            n,
            central,
            nonempty: self.extent.nonempty,
        }
    }

    /// (M3E + M3L) + δ³·(nE·nL·(nE-nL)/(n·n)) + 3·δ·((nE·M2L - nL·M2E)/n)
    fn merged_cubes(
        &mut self,
        e: &[ValueId],
        l: &[ValueId],
        [ne, nl, n]: [ValueId; 3],
        delta: ValueId,
        delta2: ValueId,
        product: ValueId,
    ) -> ValueId {
        let delta3 = self.op(Binary::Mul, delta2, delta);
        let difference = self.op(Binary::Sub, ne, nl);
        let above = self.op(Binary::Mul, product, difference);
        let below = self.op(Binary::Mul, n, n);
        let ratio = self.op(Binary::Div, above, below);
        let second = self.op(Binary::Mul, delta3, ratio);
        let crossed = self.crossed(ne, nl, n, l[0], e[0]);
        let three = self.constant(3.0);
        let third = self.op(Binary::Mul, three, delta);
        let third = self.op(Binary::Mul, third, crossed);
        let sum = self.op(Binary::Add, e[1], l[1]);
        let sum = self.op(Binary::Add, sum, second);
        self.op(Binary::Add, sum, third)
    }

    /// (M4E + M4L) + δ⁴·(nE·nL·(nE·nE - nE·nL + nL·nL)/(n·n·n)) + 6·δ²·((nE·nE·M2L + nL·nL·M2E)/(n·n)) + 4·δ·((nE·M3L - nL·M3E)/n)
    fn merged_fourths(
        &mut self,
        e: &[ValueId],
        l: &[ValueId],
        [ne, nl, n]: [ValueId; 3],
        delta: ValueId,
        delta2: ValueId,
        product: ValueId,
    ) -> ValueId {
        let delta4 = self.op(Binary::Mul, delta2, delta2);
        let (ne2, nl2) = (self.op(Binary::Mul, ne, ne), self.op(Binary::Mul, nl, nl));
        let polynomial = self.op(Binary::Sub, ne2, product);
        let polynomial = self.op(Binary::Add, polynomial, nl2);
        let above = self.op(Binary::Mul, product, polynomial);
        let n2 = self.op(Binary::Mul, n, n);
        let n3 = self.op(Binary::Mul, n2, n);
        let ratio = self.op(Binary::Div, above, n3);
        let second = self.op(Binary::Mul, delta4, ratio);
        let (a, b) = (
            self.op(Binary::Mul, ne2, l[0]),
            self.op(Binary::Mul, nl2, e[0]),
        );
        let squares = self.op(Binary::Add, a, b);
        let squares = self.op(Binary::Div, squares, n2);
        let six = self.constant(6.0);
        let third = self.op(Binary::Mul, six, delta2);
        let third = self.op(Binary::Mul, third, squares);
        let crossed = self.crossed(ne, nl, n, l[1], e[1]);
        let four = self.constant(4.0);
        let fourth = self.op(Binary::Mul, four, delta);
        let fourth = self.op(Binary::Mul, fourth, crossed);
        let sum = self.op(Binary::Add, e[2], l[2]);
        let sum = self.op(Binary::Add, sum, second);
        let sum = self.op(Binary::Add, sum, third);
        self.op(Binary::Add, sum, fourth)
    }

    /// (nE·l - nL·e)/n
    fn crossed(&mut self, ne: ValueId, nl: ValueId, n: ValueId, l: ValueId, e: ValueId) -> ValueId {
        let (a, b) = (self.op(Binary::Mul, ne, l), self.op(Binary::Mul, nl, e));
        let difference = self.op(Binary::Sub, a, b);
        self.op(Binary::Div, difference, n)
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
        let m2 = self.op(Binary::Div, moments.central[0], n);
        let m3 = self.op(Binary::Div, moments.central[1], n);
        let root = self.body.unary(Unary::Sqrt, m2);
        let below = self.op(Binary::Mul, m2, root);
        let mut value = self.op(Binary::Div, m3, below);
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
        let m2 = self.op(Binary::Div, moments.central[0], n);
        let m4 = self.op(Binary::Div, moments.central[2], n);
        let below = self.op(Binary::Mul, m2, m2);
        let pearson = self.op(Binary::Div, m4, below);
        let three = self.constant(3.0);
        let mut valid = moments.nonempty;
        let value = if bias {
            if fisher {
                self.op(Binary::Sub, pearson, three)
            } else {
                pearson
            }
        } else {
            let (one, two) = (self.constant(1.0), self.constant(2.0));
            let squared = self.op(Binary::Mul, n, n);
            let a = self.op(Binary::Sub, squared, one);
            let a = self.op(Binary::Mul, a, pearson);
            let less = self.op(Binary::Sub, n, one);
            let b = self.op(Binary::Mul, less, less);
            let b = self.op(Binary::Mul, three, b);
            let above = self.op(Binary::Sub, a, b);
            let (c, d) = (self.op(Binary::Sub, n, two), self.op(Binary::Sub, n, three));
            let below = self.op(Binary::Mul, c, d);
            let excess = self.op(Binary::Div, above, below);
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
