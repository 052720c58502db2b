//! Σ and Π by places: groups of eight as trees, chained away from the split (`docs/ir.md`, Places).

/// The places that are combined as a tree before anything else.
const GROUP: usize = 8;

/// How two doubles are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Add,
    Mul,
}

impl Op {
    #[inline]
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Mul => a * b,
        }
    }

    /// An absent operand leaves the other one as it is.
    #[inline]
    pub(crate) fn join(self, a: Option<f64>, b: Option<f64>) -> Option<f64> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.apply(a, b)),
            (a, b) => a.or(b),
        }
    }
}

/// One part of a window, to which values are added away from the split.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    op: Op,
    /// All groups before the current one.
    total: Option<f64>,
    /// The number of the current group, and what it has.
    group: i64,
    present: u8,
    values: [f64; GROUP],
}

impl Chain {
    pub(crate) fn new(op: Op) -> Self {
        Self {
            op,
            total: None,
            group: 0,
            present: 0,
            values: [0.0; GROUP],
        }
    }

    /// Adds the value at a place, which comes after all before.
    #[inline]
    pub(crate) fn push(&mut self, place: i64, value: f64) {
        let group = place.div_euclid(GROUP as i64);
        if group != self.group {
            self.total = self.finish();
            self.group = group;
            self.present = 0;
        }
        let at = place.rem_euclid(GROUP as i64) as usize;
        self.values[at] = value;
        self.present |= 1 << at;
    }

    /// What the values so far are combined to.
    #[inline]
    pub(crate) fn finish(&self) -> Option<f64> {
        if self.present == 0 {
            return self.total;
        }
        let tree = if self.present == u8::MAX {
            let [a, b, c, d, e, f, g, h] = self.values;
            let op = |a, b| self.op.apply(a, b);
            Some(op(op(op(a, b), op(c, d)), op(op(e, f), op(g, h))))
        } else {
            Some(self.partial())
        };
        self.op.join(self.total, tree)
    }

    /// The tree of a current group that is neither empty nor full.
    fn partial(&self) -> f64 {
        let (mut values, mut present) = (self.values, self.present);
        for width in [4, 2, 1] {
            let mut joined = 0;
            for i in 0..width {
                let (a, b) = (present >> (2 * i) & 1, present >> (2 * i + 1) & 1);
                values[i] = match (a, b) {
                    (1, 1) => self.op.apply(values[2 * i], values[2 * i + 1]),
                    (1, _) => values[2 * i],
                    _ => values[2 * i + 1],
                };
                joined |= (a | b) << i;
            }
            present = joined;
        }
        values[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(placed: &[(i64, f64)]) -> Option<f64> {
        let mut chain = Chain::new(Op::Add);
        for (place, value) in placed {
            chain.push(*place, *value);
        }
        chain.finish()
    }

    #[test]
    fn a_group_is_a_tree_and_groups_are_a_chain() {
        let v = [0.1, 0.2, 0.3, 1e16, 3.7, -1e16, 1e-3, 0.7, 0.9, 1e9];
        let placed: Vec<(i64, f64)> = (0..).zip(v).collect();
        let tree = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        assert_eq!(sum(&placed[..8]), Some(tree));
        assert_eq!(sum(&placed), Some(tree + (v[8] + v[9])));
        assert_eq!(sum(&placed[1..4]), Some(v[1] + (v[2] + v[3])));
        assert_eq!(sum(&[]), None);
    }

    #[test]
    fn absent_places_add_no_zero_and_numbers_may_be_negative() {
        assert_eq!(
            sum(&[(3, -0.0)]).map(f64::to_bits),
            Some((-0.0f64).to_bits())
        );
        assert_eq!(
            sum(&[(-9, 0.1), (-8, 0.2), (0, 0.3)]),
            Some((0.1 + 0.2) + 0.3)
        );
        // -8 and -1 are of one group, -9 is of the one before.
        assert_eq!(
            sum(&[(-9, 0.1), (-8, 0.2), (-1, 0.3)]),
            Some(0.1 + (0.2 + 0.3))
        );
    }
}
