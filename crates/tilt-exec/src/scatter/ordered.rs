//! States that depend on the order: doubles of each key, combined as `docs/ir.md` pins it.
//!
//! The rows of a key have places, counted from where its window is split, whether they contribute or not; eight places are a group, which is
//! combined as a tree, and groups from first to last. Values are put in the places of their key's open group. Groups are full when a row has
//! come that is the last of eight, whether it contributes or not; those of a chunk are listed without a branch on a row, and combined when
//! the chunk is over, or when one of its keys has its next value.

use tilt_codegen::lir::{Combine, LANES, Ty};

use super::cells::STRETCH;
use crate::run::CHUNK;

/// How many rows each key has had, and what that was before each row of a chunk.
pub(super) struct Places {
    next: Vec<u32>,
    of_rows: Vec<u32>,
    /// The rows of the chunk that are the last of a group, in order.
    last: Vec<u32>,
}

const EIGHT: u32 = LANES as u32;

impl Places {
    pub(super) fn new(keys: usize) -> Self {
        Self {
            next: vec![0; keys],
            of_rows: vec![0; CHUNK],
            last: Vec::with_capacity(CHUNK),
        }
    }

    /// Gives each row of a chunk its place. Calls `between` after some rows, with how many there were.
    pub(super) fn place(&mut self, ids: &[u32], mut between: impl FnMut(usize)) {
        self.last.clear();
        let places = self.of_rows.chunks_mut(STRETCH);
        for (stretch, (ids, places)) in ids.chunks(STRETCH).zip(places).enumerate() {
            for (id, place) in ids.iter().zip(&mut *places) {
                let next = &mut self.next[*id as usize];
                *place = *next;
                *next += 1;
            }
            let mut full = 0;
            for (row, place) in places[..ids.len()].iter().enumerate() {
                full |= u64::from(place % EIGHT == EIGHT - 1) << row;
            }
            while full != 0 {
                self.last
                    .push((stretch * STRETCH) as u32 + full.trailing_zeros());
                full &= full - 1;
            }
            between(ids.len());
        }
    }

    /// How many rows a key has had.
    pub(super) fn rows(&self, key: usize) -> u32 {
        self.next[key]
    }

    /// Begins the next window of some keys.
    pub(super) fn begin(&mut self, keys: impl Iterator<Item = usize>) {
        keys.for_each(|key| self.next[key] = 0);
    }
}

/// The doubles of one column.
pub(super) struct Ordered {
    op: Combine,
    /// The open group of each key, neutral where nothing contributes.
    groups: Vec<Group>,
    /// The number of that group, in its low bits: a chunk has fewer groups than these can tell.
    open: Vec<u8>,
    /// The groups before it.
    carries: Vec<f64>,
    none: f64,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Group([f64; LANES]);

// Of one key, a chunk fills so many groups at most, and then begins the next.
const _: () = assert!(CHUNK / LANES <= 1 << u8::BITS);

impl Ordered {
    /// Bytes of the state of a key, and of its place.
    pub(super) const BYTES: usize = size_of::<Group>() + size_of::<f64>() + 1 + size_of::<u32>();

    /// Whether an operation combines doubles in order.
    pub(super) fn supports(op: Combine, ty: Ty) -> bool {
        matches!(op, Combine::Add | Combine::Mul) && ty == Ty::F64
    }

    pub(super) fn new(op: Combine, keys: usize) -> Self {
        let none = f64::from_bits(op.neutral(Ty::F64).bits);
        Self {
            op,
            groups: vec![Group([none; LANES]); keys],
            open: vec![0; keys],
            carries: vec![none; keys],
            none,
        }
    }

    /// Joins the values of some rows, told with their keys, to the states of these. `ids` are those of all rows of the chunk.
    pub(super) fn join(
        &mut self,
        places: &Places,
        ids: &[u32],
        (of_rows, rows): (&[u32], &[u32]),
        values: &[u64],
    ) {
        let rows = rows.iter().zip(of_rows);
        self.join_each(
            places,
            ids,
            rows.map(|(row, id)| (*row as usize, *id)),
            values,
        );
    }

    /// Joins the values of all rows.
    pub(super) fn join_all(&mut self, places: &Places, ids: &[u32], values: &[u64]) {
        self.join_each(places, ids, ids.iter().copied().enumerate(), values);
    }

    /// Joins the values of rows, told with their keys.
    fn join_each(
        &mut self,
        places: &Places,
        ids: &[u32],
        rows: impl Iterator<Item = (usize, u32)>,
        values: &[u64],
    ) {
        let mut full = &places.last[..];
        for (row, id) in rows {
            let (id, place) = (id as usize, places.of_rows[row]);
            if self.open[id] != (place / EIGHT) as u8 {
                let before = full.partition_point(|last| (*last as usize) < row);
                let (now, later) = full.split_at(before);
                self.combine(ids, now);
                full = later;
            }
            let Group(group) = &mut self.groups[id];
            group[(place % EIGHT) as usize] = f64::from_bits(values[row]);
        }
        self.combine(ids, full);
    }

    /// Combines the groups that some rows have filled.
    fn combine(&mut self, ids: &[u32], last: &[u32]) {
        match self.op {
            Combine::Add => self.combine_by(ids, last, |a, b| a + b),
            _ => self.combine_by(ids, last, |a, b| a * b),
        }
    }

    fn combine_by(&mut self, ids: &[u32], last: &[u32], op: impl Fn(f64, f64) -> f64) {
        for row in last {
            let id = ids[*row as usize] as usize;
            let group = &mut self.groups[id];
            self.carries[id] = op(self.carries[id], tree(group, &op));
            *group = Group([self.none; LANES]);
            self.open[id] = self.open[id].wrapping_add(1);
        }
    }

    /// Ends the window of a key: all of its contributions combined.
    pub(super) fn finish(&mut self, key: usize) -> f64 {
        let none = Group([self.none; LANES]);
        let group = std::mem::replace(&mut self.groups[key], none);
        let carry = std::mem::replace(&mut self.carries[key], self.none);
        self.open[key] = 0;
        match self.op {
            Combine::Add => carry + tree(&group, |a, b| a + b),
            _ => carry * tree(&group, |a, b| a * b),
        }
    }
}

/// A group in the pinned order.
fn tree(Group(x): &Group, op: impl Fn(f64, f64) -> f64) -> f64 {
    op(
        op(op(x[0], x[1]), op(x[2], x[3])),
        op(op(x[4], x[5]), op(x[6], x[7])),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    type Op = fn(f64, f64) -> f64;

    /// The pinned order, from its definition: `values` are those of places, if they contribute.
    fn by_definition(values: &[Option<f64>], op: Op) -> Option<f64> {
        fn both(a: Option<f64>, b: Option<f64>, op: Op) -> Option<f64> {
            match (a, b) {
                (Some(a), Some(b)) => Some(op(a, b)),
                (a, b) => a.or(b),
            }
        }
        fn tree(values: &[Option<f64>], op: Op) -> Option<f64> {
            if let [one] = values {
                return *one;
            }
            let (left, right) = values.split_at(values.len() / 2);
            both(tree(left, op), tree(right, op), op)
        }
        let mut values = values.to_vec();
        values.resize(values.len().next_multiple_of(LANES), None);
        let groups = values.chunks(LANES).map(|group| tree(group, op));
        groups.fold(None, |all, group| both(all, group, op))
    }

    #[test]
    fn states_follow_the_pinned_order_whichever_places_contribute() {
        let value =
            |place: usize| [1e16, 1.0, -3.5e-3, -1e16, 0.1, -0.0][place % 6] + 1e-9 * place as f64;
        let ops: [(Combine, Op); 2] = [(Combine::Add, |a, b| a + b), (Combine::Mul, |a, b| a * b)];
        for (op, by) in ops {
            let mut ordered = Ordered::new(op, 3);
            let mut places = Places::new(3);
            // All ways in which sixteen places contribute, and one place far away.
            for which in 0..1u64 << 16 {
                let far = which % 1021;
                let len = if far > 16 { far as usize } else { 16 };
                let of = |place: usize| {
                    let bit = if place == len - 1 {
                        1
                    } else {
                        which >> place.min(63) & 1
                    };
                    (bit == 1 && (place < 16 || place == len - 1)).then(|| value(place))
                };
                let values: Vec<Option<f64>> = (0..len).map(of).collect();
                let ids = vec![1; len];
                places.place(&ids, |_| {});
                let rows: Vec<u32> = (0..len as u32)
                    .filter(|r| values[*r as usize].is_some())
                    .collect();
                let bits: Vec<u64> = values
                    .iter()
                    .map(|v| v.unwrap_or(f64::NAN).to_bits())
                    .collect();
                ordered.join(&places, &ids, (&ids[..rows.len()], &rows), &bits);
                assert_eq!(places.rows(1) as usize, len);
                places.begin(1..2);
                let expected = by_definition(&values, by).expect("one contributes");
                let found = ordered.finish(1);
                assert_eq!(found.to_bits(), expected.to_bits(), "{op:?} {values:?}");
            }
        }
    }

    #[test]
    fn all_rows_of_several_keys_are_joined_across_chunks() {
        let (mut ordered, mut places) = (Ordered::new(Combine::Add, 5), Places::new(5));
        let mut of_keys: [Vec<Option<f64>>; 5] = std::array::from_fn(|_| Vec::new());
        for chunk in 0..9 {
            let len = [1, 7, 2048, 64, 0, 63][chunk % 6];
            let ids: Vec<u32> = (0..len).map(|row| (row * row + chunk) as u32 % 5).collect();
            let values = (0..len).map(|row| 1e9 / (row + 7 * chunk + 1) as f64);
            let values: Vec<f64> = values.collect();
            places.place(&ids, |_| {});
            let bits: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
            ordered.join_all(&places, &ids, &bits);
            for (id, value) in ids.iter().zip(values) {
                of_keys[*id as usize].push(Some(value));
            }
        }
        for (key, values) in of_keys.iter().enumerate() {
            let expected = by_definition(values, |a, b| a + b).unwrap_or(-0.0);
            assert_eq!(ordered.finish(key).to_bits(), expected.to_bits());
        }
    }
}
