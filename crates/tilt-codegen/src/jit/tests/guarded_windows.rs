//! As `guards`: kernels that go on where they stopped, that read what they stored, or elements that values name.

use super::{
    super::Module,
    guards::{Edge, TYPES, compiled},
    harness::*,
};
use crate::{
    abi::{Args, Target, View, nothing_ahead},
    lir::{Binary, By, Combine, Imm, Inst, LANES, LONGEST_SPAN, Lanes, Sink, Slot, Ty},
};

/// A column without φ.
fn view(values: &Edge, len: usize) -> View {
    View {
        values: values.pointer(),
        validity: std::ptr::null(),
        index: std::ptr::null(),
        lead: 0,
        len: len as u64,
    }
}

fn target(values: &Edge, len: usize) -> Target {
    Target {
        values: values.pointer(),
        validity: std::ptr::null_mut(),
        len: len as u64,
    }
}

/// # Safety
/// All keep the contract of [`crate::abi`].
unsafe fn call(
    module: &Module,
    views: &[View],
    targets: &[Target],
    state: &mut [u64],
    ranges: &[i64],
    rows: usize,
) {
    let args = Args {
        views: views.as_ptr(),
        targets: targets.as_ptr(),
        params: std::ptr::null(),
        state: state.as_mut_ptr(),
        ranges: ranges.as_ptr(),
        first: 0,
        rows: rows as u64,
        ahead: nothing_ahead(),
        step: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { module.kernel(0)(&raw const args) };
}

const EXTREMES: [(Combine, Ty); 4] = [
    (Combine::Min, Ty::I32),
    (Combine::Max, Ty::I64),
    (Combine::Min, Ty::U16),
    (Combine::Max, Ty::I8),
];

/// The extreme of some words.
fn extreme(op: Combine, ty: Ty, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(op.neutral(ty).bits, |a, b| {
        let less = if ty.is_signed() {
            (a as i64) < b as i64
        } else {
            a < b
        };
        if less == (op == Combine::Min) { a } else { b }
    })
}

#[test]
fn slides_touch_rows_that_exist_and_all_of_their_targets() {
    for (op, ty) in EXTREMES {
        for span in [1, 2, 5, 8, 9, LONGEST_SPAN] {
            for running in [false, true] {
                let mut lp = new_loop(Lanes::Eight);
                let value = lp.load(ty);
                lp.sink = Sink::Slide {
                    slots: vec![Slot { op, value }],
                    span,
                    running,
                };
                for module in compiled(&lp) {
                    for exist in [0usize, 1, 7, 8, 9, 16, 23, 40] {
                        for at_end in [false, true] {
                            let rows = exist.next_multiple_of(LANES);
                            let (x, y) =
                                (Edge::new(ty, exist, at_end), Edge::new(ty, rows, at_end));
                            let runs = Edge::new(ty, rows, at_end);
                            let words = samples(ty, exist, 51);
                            x.fill(&words);
                            let mut state = vec![op.neutral(ty).bits; lp.state_words()];
                            let split = rows / 2 / LANES * LANES;
                            let ranges = [0, exist, 0, split, split, rows].map(|row| row as i64);
                            let targets = [target(&y, rows), target(&runs, rows)];
                            let targets = &targets[..=usize::from(running)];
                            // SAFETY: the rows that exist can be read, and all of the ranges written.
                            unsafe {
                                call(&module, &[view(&x, exist)], targets, &mut state, &ranges, 3);
                            }
                            for row in 0..rows {
                                let from = (row + 1).saturating_sub(span as usize).min(exist);
                                let last = words[from..exist.min(row + 1)].iter().copied();
                                let expected = extreme(op, ty, last);
                                assert_eq!(y.get(row), expected, "{op:?} {ty:?} {row} of {exist}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn combs_touch_nothing_outside_of_their_ranges() {
    for (op, ty) in EXTREMES {
        let mut lp = new_loop(Lanes::Eight);
        let value = lp.load(ty);
        lp.sink = Sink::Comb {
            slots: vec![Slot { op, value }],
        };
        for module in compiled(&lp) {
            for groups in 0..7 {
                for at_end in [false, true] {
                    let rows = groups * LANES;
                    let (x, y) = (Edge::new(ty, rows, at_end), Edge::new(ty, rows, at_end));
                    let words = samples(ty, rows, 52);
                    x.fill(&words);
                    let mut state = vec![op.neutral(ty).bits; lp.state_words()];
                    let split = groups / 2 * LANES;
                    // The last range first, as blocks are taken backward.
                    let ranges = [split, rows, 0, split].map(|row| row as i64);
                    let (views, targets) = ([view(&x, rows)], [target(&y, rows)]);
                    // SAFETY: the rows of the ranges exist.
                    unsafe { call(&module, &views, &targets, &mut state, &ranges, 2) };
                    for row in 0..rows {
                        let end = if row < split { split } else { rows };
                        let every = words[row..end].iter().copied().step_by(LANES);
                        let expected = extreme(op, ty, every);
                        assert_eq!(y.get(row), expected, "{op:?} {ty:?} {row} of {rows}");
                    }
                }
            }
        }
    }
}

/// Ranges that follow each other, where a group may reach into the range that is taken next, but not past the last.
#[test]
fn scans_of_joined_ranges_touch_nothing_outside_of_them() {
    for ty in [Ty::F64, Ty::I64, Ty::I32] {
        for backward in [false, true] {
            let mut lp = new_loop(Lanes::Eight);
            let x = lp.load(ty);
            lp.slot(Combine::Add, x, false, backward);
            for module in compiled(&lp) {
                for (block, blocks) in [(1, 5), (3, 4), (7, 6), (8, 3), (9, 5), (20, 3), (37, 2)] {
                    for at_end in [false, true] {
                        let rows = block * blocks - 1;
                        let (x, y) = (Edge::new(ty, rows, at_end), Edge::new(ty, rows, at_end));
                        let number = |n: usize| {
                            if ty.is_float() {
                                Imm::float(ty, n as f64).bits
                            } else {
                                Imm::int(ty, n as i64).bits
                            }
                        };
                        x.fill(&vec![number(1); rows]);
                        let starts = (0..rows).step_by(block);
                        let mut ranges: Vec<[i64; 2]> = starts
                            .map(|start| [start as i64, rows.min(start + block) as i64])
                            .collect();
                        if backward {
                            ranges.reverse();
                        }
                        let (count, mut state) = (ranges.len(), vec![0; lp.state_words()]);
                        let (views, targets) = ([view(&x, rows)], [target(&y, rows)]);
                        let ranges = ranges.as_flattened();
                        // SAFETY: the rows of the ranges exist.
                        unsafe { call(&module, &views, &targets, &mut state, ranges, count) };
                        for row in 0..rows {
                            let start = row / block * block;
                            let end = rows.min(start + block);
                            let counted = if backward { end - row } else { row + 1 - start };
                            let about = (ty, row, block, blocks, backward);
                            assert_eq!(y.get(row), number(counted), "{about:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn lookups_touch_the_elements_they_name() {
    for ty in TYPES {
        for lanes in [Lanes::One, Lanes::Eight] {
            let mut lp = new_loop(lanes);
            let table = lp.access(ty, By::Table);
            let at = lp.load(Ty::I64);
            let found = lp.push(Inst::Lookup(table, at), ty);
            lp.store(found, None);
            for module in compiled(&lp) {
                for len in [1usize, 2, 7, 8, 9, 31] {
                    for at_end in [false, true] {
                        let rows = 2 * len + 3;
                        let padded = rows.next_multiple_of(LANES);
                        let elements = Edge::new(ty, len, at_end);
                        let keys = Edge::new(Ty::I64, padded, at_end);
                        let out = Edge::new(ty, padded, at_end);
                        let words = samples(ty, len, 53);
                        elements.fill(&words);
                        let named = |row: usize| (row * 5 + len - 1) % len;
                        let all: Vec<u64> = (0..padded).map(|row| named(row) as u64).collect();
                        keys.fill(&all);
                        let valid = Edge::new(Ty::Bool, padded, at_end);
                        valid.fill(&vec![1; padded]);
                        let mut views = [view(&elements, len), view(&keys, padded)];
                        views[1].validity = valid.pointer();
                        let targets = [target(&out, padded)];
                        // SAFETY: the keys of all groups name elements.
                        unsafe { call(&module, &views, &targets, &mut [], &[], rows) };
                        for row in 0..rows {
                            let (found, expected) = (out.get(row), words[named(row)]);
                            assert!(same(ty, found, expected), "{ty:?} {row} of {rows}");
                        }
                    }
                }
            }
        }
    }
}

/// Rows before row 0, of which the first lies at the edge.
const BEFORE: usize = 9;

#[test]
fn recurrences_touch_their_own_rows_and_those_before() {
    for ty in [Ty::F64, Ty::F32, Ty::I64, Ty::I32, Ty::U16, Ty::I8] {
        for near in [1, 2, 5] {
            let mut lp = new_loop(Lanes::One);
            let read = [By::Back(near as u32), By::Back(BEFORE as u32), By::Row];
            let [near_by, far, x] = read.map(|by| {
                let access = lp.access(ty, by);
                lp.accesses[access].nullable = false;
                lp.push(Inst::Load(access), ty)
            });
            let difference = lp.binary(Binary::Sub, near_by, far);
            let sum = lp.binary(Binary::Add, difference, x);
            lp.store(sum, None);
            for module in compiled(&lp) {
                for rows in [0usize, 1, 2, 7, 8, 9, 50] {
                    for at_end in [false, true] {
                        let padded = rows.next_multiple_of(LANES);
                        let x = Edge::new(ty, padded, at_end);
                        let y = Edge::new(ty, BEFORE + padded, at_end);
                        let small = |count: usize| -> Vec<u64> {
                            let number = |i: usize| {
                                if ty.is_float() {
                                    Imm::float(ty, (i % 5) as f64).bits
                                } else {
                                    Imm::int(ty, (i % 5) as i64).bits
                                }
                            };
                            (0..count).map(number).collect()
                        };
                        x.fill(&small(padded));
                        y.fill(&small(BEFORE));
                        let back = |rows: usize| View {
                            values: y.pointer().wrapping_add((BEFORE - rows) * ty.bytes()),
                            ..view(&y, padded)
                        };
                        let views = [back(near), back(BEFORE), view(&x, padded)];
                        let out = Target {
                            values: y.pointer().wrapping_add(BEFORE * ty.bytes()),
                            ..target(&y, padded)
                        };
                        // SAFETY: a group more than the rows can be touched, and `BEFORE` rows before them.
                        unsafe { call(&module, &views, &[out], &mut [], &[], rows) };
                        let value = |i: usize| match ty {
                            Ty::F64 => f64::from_bits(y.get(i)),
                            Ty::F32 => f64::from(f32::from_bits(y.get(i) as u32)),
                            _ => y.get(i) as i64 as f64,
                        };
                        for row in 0..rows {
                            let at = BEFORE + row;
                            let exact = value(at - near) - value(at - BEFORE) + (row % 5) as f64;
                            let expected = if ty.is_float() {
                                Imm::float(ty, exact).bits
                            } else {
                                Imm::int(ty, exact as i64).bits
                            };
                            assert_eq!(y.get(at), expected, "{ty:?}, {near} back, row {row}");
                        }
                    }
                }
            }
        }
    }
}
