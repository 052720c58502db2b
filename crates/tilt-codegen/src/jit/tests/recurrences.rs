//! Loops of one lane that read what they stored.

use std::ptr::{null, null_mut};

use super::{
    super::Module,
    harness::{Buffer, Build, modes, module, new_loop},
};
use crate::{
    abi::{Args, Target, View, nothing_ahead},
    lir::{Binary, By, Imm, Inst, Lanes, Loop, Ty},
};

/// Rows of the target before row 0.
const BEFORE: usize = 9;

/// y[i] = y[i-near] - y[i-far] + x[i], wrapping, where y is both read and stored.
fn recurrence(ty: Ty, near: By, far: By) -> Loop {
    let mut lp = new_loop(Lanes::One);
    let [near, far, x] = [near, far, By::Row].map(|by| {
        let access = lp.access(ty, by);
        lp.accesses[access].nullable = false;
        lp.push(Inst::Load(access), ty)
    });
    let difference = lp.binary(Binary::Sub, near, far);
    let sum = lp.binary(Binary::Add, difference, x);
    lp.store(sum, None);
    lp
}

/// Numbers of a type, as words.
fn some(ty: Ty, count: usize) -> Vec<u64> {
    let word = |i: usize| match ty {
        Ty::F64 => (i as f64 * 0.3).to_bits(),
        Ty::F32 => u64::from((i as f32 * 0.3).to_bits()),
        _ => Imm::int(ty, (i * i) as i64 * 7 - 5).bits,
    };
    (0..count).map(word).collect()
}

/// The rows before row 0, and those that the recurrence gives.
fn expected(ty: Ty, x: &[u64], near: usize, far: usize) -> Vec<u64> {
    let mut y = some(ty, BEFORE);
    for x in x {
        let operands = [y[y.len() - near], y[y.len() - far], *x];
        y.push(match ty {
            Ty::F64 => {
                let [near, far, x] = operands.map(f64::from_bits);
                (near - far + x).to_bits()
            }
            Ty::F32 => {
                let [near, far, x] = operands.map(|word| f32::from_bits(word as u32));
                u64::from((near - far + x).to_bits())
            }
            _ => {
                let [near, far, x] = operands;
                Imm::int(ty, near.wrapping_sub(far).wrapping_add(x) as i64).bits
            }
        });
    }
    y
}

/// The same by compiled code.
fn stored(module: &Module, ty: Ty, x: &[u64], near: usize, far: usize) -> Vec<u64> {
    let rows = x.len();
    let mut x = Buffer::pack(ty, x, 0);
    let mut y = Buffer::new(ty, BEFORE + rows, 0xA5);
    for (row, word) in some(ty, BEFORE).iter().enumerate() {
        y.set(ty, row, *word);
    }
    let start = y.pointer();
    let at = |row: usize| start.wrapping_add(row * ty.bytes());
    let view = |values: *const u8| View {
        values,
        validity: null(),
        index: null(),
        lead: 0,
        len: rows as u64,
    };
    let views = [
        view(at(BEFORE - near)),
        view(at(BEFORE - far)),
        view(x.pointer()),
    ];
    let target = Target {
        values: at(BEFORE),
        validity: null_mut(),
        len: rows as u64,
    };
    let args = Args {
        views: views.as_ptr(),
        targets: &raw const target,
        params: null(),
        state: null_mut(),
        ranges: null(),
        first: 0,
        rows: rows as u64,
        ahead: nothing_ahead(),
        step: 0,
    };
    // SAFETY: the rows of all columns exist, and `BEFORE` of the target before them.
    unsafe { module.kernel(0)(&raw const args) };
    (0..BEFORE + rows).map(|row| y.get(ty, row)).collect()
}

/// Whether it is kept in registers, loaded again, or the loop does not say what it is.
#[test]
fn a_row_reads_what_earlier_ones_stored() {
    for ty in [Ty::F64, Ty::F32, Ty::I64, Ty::I32, Ty::U16, Ty::I8] {
        for (near, far) in [(1, 1), (1, 2), (2, 1), (2, 4), (3, 5), (1, BEFORE)] {
            let back = |rows: usize| By::Back(rows as u32);
            let loops = [
                recurrence(ty, back(near), back(far)),
                recurrence(ty, By::Row, back(far)),
                recurrence(ty, By::Row, By::Row),
            ];
            for lp in &loops {
                for mode in modes() {
                    let module = module(lp, &mode);
                    for rows in [0, 1, 2, 3, 7, 50] {
                        let x = some(ty, rows);
                        let found = stored(&module, ty, &x, near, far);
                        assert_eq!(found, expected(ty, &x, near, far), "{lp}");
                    }
                }
            }
        }
    }
}
