//! Inputs with a period: every stamp is a whole number of periods from the first one, of its key if there are keys.

use std::collections::HashMap;

use arrow_row::Rows;

/// Where grids begin: any stamp of one tells which others it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grids {
    /// The first stamp, where rows have no keys.
    pub(crate) first: Option<i64>,
    /// That of each key that has come. Keys are never forgotten, as a run on all rows would not.
    pub(crate) of_keys: HashMap<Box<[u8]>, i64>,
}

/// The first stamp at or after `t` of the grid that has `first`, if there is one.
pub(crate) fn next_on(first: i64, period: i64, t: i64) -> Option<i64> {
    let gap = (i128::from(first) - i128::from(t)).rem_euclid(i128::from(period));
    t.checked_add(i64::try_from(gap).ok()?)
}

/// A row whose stamp is off the grid that begins with `first`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Off {
    pub(crate) row: usize,
    pub(crate) value: i64,
    pub(crate) first: i64,
}

impl Grids {
    /// Fails if one of some stamps is off its grid. Otherwise the grids that begin with them, which are not [added](Self::add) yet.
    pub(crate) fn check(
        &self,
        stamps: impl Iterator<Item = i64>,
        keys: Option<&Rows>,
        period: i64,
    ) -> Result<Self, Off> {
        let mut new = Self::default();
        let is_off = |value: i64, first: i64| {
            (i128::from(value) - i128::from(first)) % i128::from(period) != 0
        };
        let mut next = None;
        for (row, value) in stamps.enumerate() {
            let first = if let Some(keys) = keys {
                let key = keys.row(row);
                match self
                    .of_keys
                    .get(key.as_ref())
                    .or_else(|| new.of_keys.get(key.as_ref()))
                {
                    Some(first) => *first,
                    None => *new.of_keys.entry(key.as_ref().into()).or_insert(value),
                }
            } else {
                // Usually the one that follows, which needs no division.
                let follows = next == Some(value);
                next = value.checked_add(period);
                if follows {
                    continue;
                }
                self.first
                    .unwrap_or_else(|| *new.first.get_or_insert(value))
            };
            if is_off(value, first) {
                return Err(Off { row, value, first });
            }
        }
        Ok(new)
    }

    /// The first stamp of the grid that a row has, of its key if there are keys.
    pub(crate) fn first(&self, key: Option<&[u8]>) -> Option<i64> {
        key.map_or(self.first, |key| self.of_keys.get(key).copied())
    }

    /// Adds grids that have begun.
    pub(crate) fn add(&mut self, new: Self) {
        self.first = self.first.or(new.first);
        self.of_keys.extend(new.of_keys);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;
    use crate::edges::as_bytes;

    fn keys(of: &[Option<i64>]) -> Rows {
        let column: ArrayRef = Arc::new(Int64Array::from(of.to_vec()));
        as_bytes(&[column]).expect("numbers")
    }

    #[test]
    fn each_key_has_a_grid_of_its_own() {
        let mut grids = Grids::default();
        let of = keys(&[Some(1), Some(2), None, Some(1), Some(2)]);
        let new = grids.check([10, 12, 14, 15, 22].into_iter(), Some(&of), 5);
        grids.add(new.expect("on their grids"));
        assert_eq!(grids.of_keys.len(), 3);
        let next = keys(&[Some(3), Some(2), None]);
        let off = grids.check([1, 27, 18].into_iter(), Some(&next), 5);
        let (row, value, first) = (2, 18, 14);
        assert_eq!(off.expect_err("off the grid"), Off { row, value, first });
        assert_eq!(grids.of_keys.len(), 3, "nothing was taken");
    }

    #[test]
    fn the_next_stamp_of_a_grid_is_found_on_either_side_of_its_first() {
        let next = [-8, -5, 7, 10, 11].map(|t| next_on(10, 5, t));
        assert_eq!(next, [-5, -5, 10, 10, 15].map(Some));
        assert_eq!(next_on(3, 5, i64::MAX), None);
    }

    #[test]
    fn rows_without_keys_share_one() {
        let mut grids = Grids::default();
        grids.add(
            grids
                .check([10, 15, 5].into_iter(), None, 5)
                .expect("on the grid"),
        );
        let off = grids.check([20, 25, 29].into_iter(), None, 5);
        let (row, value, first) = (2, 29, 10);
        assert_eq!(off.expect_err("off the grid"), Off { row, value, first });
    }
}
