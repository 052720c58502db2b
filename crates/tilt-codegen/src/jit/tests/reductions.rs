//! Scans and folds, against a model of the order that `docs/ir.md` prescribes.

use super::harness::*;
use crate::{
    abi::{Args, Target, View},
    lir::{Binary, By, Combine, Compare, Imm, Inst, LANES, Lanes, Loop, Ty},
};

const SLOTS: [(Combine, Ty); 14] = [
    (Combine::Add, Ty::F64),
    (Combine::Mul, Ty::F64),
    (Combine::Add, Ty::F32),
    (Combine::Add, Ty::I64),
    (Combine::Mul, Ty::I32),
    (Combine::Add, Ty::U8),
    (Combine::Min, Ty::I32),
    (Combine::Max, Ty::I64),
    (Combine::Min, Ty::U16),
    (Combine::Max, Ty::U64),
    (Combine::Min, Ty::I8),
    (Combine::Max, Ty::U32),
    (Combine::Or, Ty::U64),
    (Combine::Or, Ty::I16),
];

fn combine(op: Combine, ty: Ty, a: u64, b: u64) -> u64 {
    if ty == Ty::F32 {
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        return u64::from((if op == Combine::Add { a + b } else { a * b }).to_bits());
    }
    if ty == Ty::F64 {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        return (if op == Combine::Add { a + b } else { a * b }).to_bits();
    }
    let less = if ty.is_signed() {
        (a as i64) < b as i64
    } else {
        a < b
    };
    let bits = match op {
        Combine::Add => a.wrapping_add(b),
        Combine::Mul => a.wrapping_mul(b),
        Combine::Min => {
            if less {
                a
            } else {
                b
            }
        }
        Combine::Max => {
            if less {
                b
            } else {
                a
            }
        }
        Combine::Or => a | b,
    };
    Imm::int(ty, bits as i64).bits
}

/// Rows of order-sensitive sums.
fn values(ty: Ty, count: usize, seed: u64) -> Vec<u64> {
    if !ty.is_float() {
        return samples(ty, count, seed);
    }
    let words = samples(Ty::U64, count, seed);
    let value = |word: &u64| ((word >> 40) as f64 - 8e6) * 10f64.powi((word % 7) as i32 - 3) / 3e6;
    words
        .iter()
        .map(|word| Imm::float(ty, value(word)).bits)
        .collect()
}

/// A group in order, filled up with neutral elements at the end.
fn group(op: Combine, ty: Ty, rows: &[u64]) -> [u64; LANES] {
    let mut group = [op.neutral(ty).bits; LANES];
    group[..rows.len()].copy_from_slice(rows);
    group
}

/// Scans of the rows in order, and the carry.
fn scan(op: Combine, ty: Ty, rows: &[u64], mut carry: u64) -> (Vec<u64>, u64) {
    let mut out = vec![];
    for rows in rows.chunks(LANES) {
        let mut x = group(op, ty, rows);
        for l in [1, 3, 5, 7] {
            x[l] = combine(op, ty, x[l - 1], x[l]);
        }
        for l in [2, 3, 6, 7] {
            x[l] = combine(op, ty, x[l / 4 * 4 + 1], x[l]);
        }
        for l in 4..8 {
            x[l] = combine(op, ty, x[3], x[l]);
        }
        out.extend(x[..rows.len()].iter().map(|x| combine(op, ty, carry, *x)));
        carry = combine(op, ty, carry, x[7]);
    }
    (out, carry)
}

/// The combination of rows in order.
fn fold(op: Combine, ty: Ty, rows: &[u64]) -> u64 {
    let mut carry = op.neutral(ty).bits;
    for rows in rows.chunks(LANES) {
        let x = group(op, ty, rows);
        let add = |a, b| combine(op, ty, a, b);
        let half = |x: &[u64]| add(add(x[0], x[1]), add(x[2], x[3]));
        carry = add(carry, add(half(&x[..4]), half(&x[4..])));
    }
    carry
}

#[test]
fn scans() {
    for backward in [false, true] {
        let mut lp = new_loop(Lanes::Eight);
        for (op, ty) in SLOTS {
            let value = lp.load(ty);
            lp.slot(op, value, false, backward);
        }
        for mode in modes() {
            let module = module(&lp, &mode);
            for rows in (0..20).chain([64, 131]) {
                let columns: Vec<_> = SLOTS.iter().map(|(_, ty)| values(*ty, rows, 21)).collect();
                let inputs: Vec<_> = SLOTS
                    .iter()
                    .zip(&columns)
                    .map(|((_, ty), words)| Column::new(*ty, words.clone()))
                    .collect();
                let state: Vec<_> = SLOTS.iter().map(|(_, ty)| values(*ty, 1, 22)[0]).collect();
                let mut call = Call {
                    rows,
                    state: state.clone(),
                    ..Call::default()
                };
                let output = run(&lp, &module, &inputs, &mut call);
                for (k, (op, ty)) in SLOTS.into_iter().enumerate() {
                    let mut words = columns[k].clone();
                    if backward {
                        words.reverse();
                    }
                    let (mut expected, carry) = scan(op, ty, &words, state[k]);
                    if backward {
                        expected.reverse();
                    }
                    assert_eq!(
                        output.columns[k], expected,
                        "{op:?} {ty:?} {backward} {mode:?}"
                    );
                    assert_eq!(call.state[k], carry, "{op:?} {ty:?} {backward}");
                }
            }
        }
    }
}

/// Ranges that follow each other, in which groups reach from one into the next, and ranges that do not.
#[test]
fn scans_of_several_ranges() {
    let of_lengths = |lengths: &[i64], gap: i64| -> Vec<i64> {
        let mut end = -gap;
        let ranges = lengths.iter().flat_map(|length| {
            let start = end + gap;
            end = start + length;
            [start, end]
        });
        ranges.collect()
    };
    let lists = [
        of_lengths(&[14; 9], 0),
        of_lengths(&[6, 14, 14, 14, 8], 0),
        of_lengths(&[3; 20], 0),
        of_lengths(&[1, 9, 2, 17, 8, 0, 5, 16, 4], 0),
        of_lengths(&[12, 7, 20], 1),
    ];
    let cases = lists.iter().flat_map(|list| [(false, list), (true, list)]);
    for (backward, ranges) in cases {
        let mut lp = new_loop(Lanes::Eight);
        for (op, ty) in SLOTS {
            let value = lp.load(ty);
            lp.slot(op, value, false, backward);
        }
        let rows = ranges[ranges.len() - 1] as usize;
        let columns = SLOTS.map(|(_, ty)| values(ty, rows, 23));
        let state: Vec<_> = SLOTS.iter().map(|(_, ty)| values(*ty, 1, 24)[0]).collect();
        for mode in modes() {
            let inputs = SLOTS.iter().zip(&columns);
            let inputs: Vec<_> = inputs
                .map(|((_, ty), words)| Column::new(*ty, words.clone()))
                .collect();
            let mut call = Call {
                rows,
                state: state.clone(),
                ranges: ranges.clone(),
                ..Call::default()
            };
            let output = run(&lp, &module(&lp, &mode), &inputs, &mut call);
            for (k, (op, ty)) in SLOTS.into_iter().enumerate() {
                let mut carry = state[k];
                let mut pairs: Vec<_> = ranges.chunks(2).collect();
                if backward {
                    pairs.reverse();
                }
                for (nth, range) in pairs.into_iter().enumerate() {
                    let range = range[0] as usize..range[1] as usize;
                    let mut words = columns[k][range.clone()].to_vec();
                    if backward {
                        words.reverse();
                    }
                    let before = if nth == 0 { carry } else { op.neutral(ty).bits };
                    let (mut expected, after) = scan(op, ty, &words, before);
                    if backward {
                        expected.reverse();
                    }
                    carry = after;
                    let message = (op, ty, backward, &range, &ranges, &mode);
                    assert_eq!(output.columns[k][range.clone()], expected, "{message:?}");
                }
                assert_eq!(call.state[k], carry, "{op:?} {ty:?} {backward} {ranges:?}");
            }
        }
    }
}

#[test]
fn folds() {
    let ranges = [
        0, 0, 0, 5, 3, 11, 1, 200, 200, 300, 7, 39, 7, 71, 250, 257, 299, 300, 300, 300,
    ];
    for backward in [false, true] {
        let mut lp = new_loop(Lanes::Eight);
        for (op, ty) in SLOTS {
            let value = lp.load(ty);
            lp.slot(op, value, true, backward);
        }
        for mode in modes() {
            let module = module(&lp, &mode);
            let columns: Vec<_> = SLOTS.iter().map(|(_, ty)| values(*ty, 300, 23)).collect();
            let inputs: Vec<_> = SLOTS
                .iter()
                .zip(&columns)
                .map(|((_, ty), words)| Column::new(*ty, words.clone()))
                .collect();
            let mut call = Call {
                rows: ranges.len() / 2,
                ranges: ranges.to_vec(),
                ..Call::default()
            };
            let output = run(&lp, &module, &inputs, &mut call);
            for (k, (op, ty)) in SLOTS.into_iter().enumerate() {
                for (r, range) in ranges.chunks(2).enumerate() {
                    let mut words = columns[k][range[0] as usize..range[1] as usize].to_vec();
                    if backward {
                        words.reverse();
                    }
                    let expected = fold(op, ty, &words);
                    let message = (op, ty, backward, range, &mode);
                    assert_eq!(output.columns[k][r], expected, "{message:?}");
                }
            }
        }
    }
}

/// Sums the valid rows where a bool column holds, and counts them.
fn guarded(fold: bool, backward: bool) -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let column = lp.access(Ty::F64, By::Row);
    let x = lp.push(Inst::Load(column), Ty::F64);
    let valid = lp.push(Inst::Valid(column), Ty::Bool);
    let flag = lp.load(Ty::Bool);
    let both = lp.binary(Binary::And, valid, flag);
    let neutral = lp.constant(Combine::Add.neutral(Ty::F64));
    let counted = lp.push(Inst::Select(both, x, neutral), Ty::F64);
    let one = lp.push(Inst::Convert(both), Ty::I64);
    lp.slot(Combine::Add, counted, fold, backward);
    lp.slot(Combine::Add, one, fold, backward);
    lp
}

#[test]
fn bits_at_any_offset() {
    let rows = 90;
    let words = values(Ty::F64, rows, 24);
    let mut x = Column::new(Ty::F64, words.clone());
    x.valid = samples(Ty::Bool, rows, 25)
        .iter()
        .map(|b| *b == 1)
        .collect();
    let flags = samples(Ty::Bool, rows, 26);
    let counted: Vec<bool> = (0..rows)
        .map(|row| x.valid[row] && flags[row] == 1)
        .collect();
    let neutral = Combine::Add.neutral(Ty::F64).bits;
    let masked: Vec<u64> = (0..rows)
        .map(|row| if counted[row] { words[row] } else { neutral })
        .collect();
    let inputs = [x, Column::new(Ty::Bool, flags)];
    let mut ranges = vec![];
    for lo in 0..20 {
        for len in [0, 1, 2, 5, 7, 8, 9, 15, 31, 33, 64, 70] {
            ranges.extend([lo, lo + len]);
        }
    }
    for backward in [false, true] {
        let lp = guarded(true, backward);
        for mode in modes() {
            let module = module(&lp, &mode);
            let mut call = Call {
                rows: ranges.len() / 2,
                ranges: ranges.clone(),
                ..Call::default()
            };
            let output = run(&lp, &module, &inputs, &mut call);
            for (r, range) in ranges.chunks(2).enumerate() {
                let rows = range[0] as usize..range[1] as usize;
                let mut words = masked[rows.clone()].to_vec();
                if backward {
                    words.reverse();
                }
                let count = counted[rows].iter().filter(|c| **c).count();
                assert_eq!(
                    output.columns[0][r],
                    fold(Combine::Add, Ty::F64, &words),
                    "{range:?}"
                );
                assert_eq!(output.columns[1][r], count as u64, "{range:?}");
            }
        }
    }
}

#[test]
fn backward_scans_of_bits() {
    let lp = guarded(false, true);
    for mode in modes() {
        let module = module(&lp, &mode);
        for rows in 0..40 {
            let words = values(Ty::F64, rows, 27);
            let mut x = Column::new(Ty::F64, words.clone());
            x.valid = (0..rows).map(|row| row % 3 != 0).collect();
            let flags: Vec<u64> = (0..rows as u64)
                .map(|row| u64::from(row % 5 != 0))
                .collect();
            let neutral = Combine::Add.neutral(Ty::F64).bits;
            let counted = |row: usize| !row.is_multiple_of(3) && !row.is_multiple_of(5);
            let masked: Vec<u64> = (0..rows)
                .rev()
                .map(|row| if counted(row) { words[row] } else { neutral })
                .collect();
            let inputs = [x, Column::new(Ty::Bool, flags)];
            let mut call = Call {
                rows,
                state: vec![1.5f64.to_bits(), 10],
                ..Call::default()
            };
            let output = run(&lp, &module, &inputs, &mut call);
            let (mut expected, carry) = scan(Combine::Add, Ty::F64, &masked, 1.5f64.to_bits());
            expected.reverse();
            assert_eq!(output.columns[0], expected);
            assert_eq!(call.state[0], carry);
            let count = (0..rows).filter(|row| counted(*row)).count();
            assert_eq!(call.state[1], 10 + count as u64);
        }
    }
}

/// Pages that may be touched between two that may not.
pub(super) struct Guarded {
    start: *mut u8,
    size: usize,
}

pub(super) const PAGE: usize = 4096;

impl Guarded {
    pub(super) fn new() -> Self {
        let size = 3 * PAGE;
        // SAFETY: a fresh mapping; its middle page is made accessible.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let middle = start.byte_add(PAGE);
            assert_eq!(
                libc::mprotect(middle, PAGE, libc::PROT_READ | libc::PROT_WRITE),
                0
            );
            start.cast()
        };
        Self { start, size }
    }
    pub(super) fn first(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.start.add(PAGE) }
    }
    pub(super) fn end(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.start.add(2 * PAGE) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}

#[test]
fn folds_touch_nothing_outside_of_their_ranges() {
    for ty in [Ty::F64, Ty::F32, Ty::I64, Ty::I32, Ty::U16, Ty::I8] {
        for backward in [false, true] {
            let mut lp = new_loop(Lanes::Eight);
            let column = lp.access(ty, By::Row);
            let x = lp.push(Inst::Load(column), ty);
            let valid = lp.push(Inst::Valid(column), Ty::Bool);
            let zero = lp.constant(Imm::zero(ty));
            let x = lp.push(Inst::Select(valid, x, zero), ty);
            lp.slot(Combine::Add, x, true, backward);
            for mut mode in modes() {
                mode.0.checked = false;
                let module = module(&lp, &mode);
                for rows in 0..45usize {
                    for at_end in [false, true] {
                        fold_guarded(ty, &module, rows, at_end);
                    }
                }
            }
        }
    }
}

/// Sums `rows` ones that lie directly at an end of accessible memory.
fn fold_guarded(ty: Ty, module: &super::super::Module, rows: usize, at_end: bool) {
    let (values, bits) = (Guarded::new(), Guarded::new());
    let one = if ty.is_float() {
        Imm::float(ty, 1.0)
    } else {
        Imm::int(ty, 1)
    };
    // SAFETY: both stay within the accessible page.
    let (start, bitmap) = unsafe {
        if at_end {
            (
                values.end().sub(rows * ty.bytes()),
                bits.end().sub(rows.div_ceil(8)),
            )
        } else {
            (values.first(), bits.first())
        }
    };
    for row in 0..rows {
        // SAFETY: `rows` elements and bits fit.
        unsafe {
            let bytes = one.bits.to_le_bytes();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(row * ty.bytes()), ty.bytes());
            *bitmap.add(row / 8) = 0xff;
        }
    }
    let view = View {
        values: start,
        validity: bitmap,
        index: std::ptr::null(),
        lead: 0,
        len: rows as u64,
    };
    let mut out = [0u64; 2];
    let target = Target {
        values: out.as_mut_ptr().cast(),
        validity: std::ptr::null_mut(),
        len: 1,
    };
    let ranges = [0, rows as i64];
    let args = Args {
        views: &raw const view,
        targets: &raw const target,
        params: std::ptr::null(),
        state: std::ptr::null_mut(),
        ranges: ranges.as_ptr(),
        first: 0,
        rows: 1,
        ahead: crate::abi::nothing_ahead(),
        step: 0,
    };
    // SAFETY: the rows of the range exist.
    unsafe { module.kernel(0)(&raw const args) };
    let expected = if ty.is_float() {
        Imm::float(ty, rows as f64)
    } else {
        Imm::int(ty, rows as i64)
    };
    let bits = out[0] & (u64::MAX >> (64 - ty.bits()));
    let wanted = expected.bits & (u64::MAX >> (64 - ty.bits()));
    let empty = rows == 0;
    assert!(bits == wanted || empty, "{ty:?} {rows} {at_end}: {bits:x}");
}

#[test]
fn scans_of_computed_rows() {
    // Counts rows above a threshold: compare, convert, scan.
    let mut lp = new_loop(Lanes::Eight);
    let x = lp.load(Ty::I32);
    let zero = lp.constant(Imm::zero(Ty::I32));
    let above = lp.push(Inst::Compare(Compare::Gt, x, zero), Ty::Bool);
    let one = lp.push(Inst::Convert(above), Ty::I32);
    lp.slot(Combine::Add, one, false, false);
    for mode in modes() {
        let module = module(&lp, &mode);
        let words = samples(Ty::I32, 50, 28);
        let mut call = Call {
            rows: 50,
            state: vec![7],
            ..Call::default()
        };
        let output = run(
            &lp,
            &module,
            &[Column::new(Ty::I32, words.clone())],
            &mut call,
        );
        let mut count = 7;
        for (row, word) in words.iter().enumerate() {
            count += u64::from(*word as i64 > 0);
            assert_eq!(output.columns[0][row], count);
        }
        assert_eq!(call.state[0], count);
    }
}

#[test]
fn rows_of_a_range_see_its_number() {
    // Counts the rows of a range that exceed the range's own threshold, if that is valid.
    for backward in [false, true] {
        let mut lp = new_loop(Lanes::Eight);
        let x = lp.load(Ty::I32);
        let column = lp.access(Ty::I32, By::Range);
        let flags = lp.access(Ty::Bool, By::Range);
        let threshold = lp.push(Inst::Load(column), Ty::I32);
        let valid = lp.push(Inst::Valid(column), Ty::Bool);
        let flag = lp.push(Inst::Load(flags), Ty::Bool);
        let above = lp.push(Inst::Compare(Compare::Gt, x, threshold), Ty::Bool);
        let counted = lp.binary(Binary::And, above, valid);
        let counted = lp.binary(Binary::And, counted, flag);
        let one = lp.push(Inst::Convert(counted), Ty::I64);
        lp.slot(Combine::Add, one, true, backward);
        let words = samples(Ty::I32, 200, 29);
        let thresholds = samples(Ty::I32, 15, 30);
        let bools = samples(Ty::Bool, 15, 31);
        let ranges: Vec<i64> = (0..15).flat_map(|r| [r * 3, r * 13]).collect();
        for mode in modes() {
            let module = module(&lp, &mode);
            let mut inputs = [
                Column::new(Ty::I32, words.clone()),
                Column::new(Ty::I32, thresholds.clone()),
                Column::new(Ty::Bool, bools.clone()),
            ];
            inputs[1].valid = (0..15).map(|r| r % 4 != 1).collect();
            let mut call = Call {
                rows: 15,
                ranges: ranges.clone(),
                ..Call::default()
            };
            let output = run(&lp, &module, &inputs, &mut call);
            for r in 0..15 {
                let above = |word: &&u64| **word as i64 > thresholds[r] as i64;
                let count = words[r * 3..r * 13].iter().filter(above).count();
                let counts = r % 4 != 1 && bools[r] == 1;
                let expected = if counts { count as u64 } else { 0 };
                assert_eq!(output.columns[0][r], expected, "{r} {mode:?}");
            }
        }
    }
}
