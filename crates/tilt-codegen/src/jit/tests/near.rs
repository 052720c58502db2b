//! Elements by index that are neighbours, nearly so, or not at all.

use super::harness::*;
use crate::lir::{By, Inst, Lanes, Ty};

#[test]
fn neighbours_by_index() {
    let len = 200;
    // How far each row goes on: streams of other periods, sides of joins, elements that are as far apart as can be told, steps back, jumps.
    let ways: [fn(usize) -> usize; 8] = [
        |row| row,
        |row| row * 5 / 4,
        |row| row / 3,
        |row| row * 15 / 7,
        |row| row * 16 / 7,
        |row| 150 - row,
        |row| row ^ 1,
        |row| if row % 20 == 13 { 0 } else { row + 20 },
    ];
    for ty in Ty::ALL {
        let mut lp = new_loop(Lanes::Eight);
        for _ in 0..ways.len() {
            let column = lp.access(ty, By::Index);
            let x = lp.push(Inst::Load(column), ty);
            lp.store(x, None);
        }
        for mode in modes() {
            let module = module(&lp, &mode);
            for rows in [1, 8, 31, 64, 77] {
                let x = samples(ty, len, 9);
                let inputs = ways.map(|way| {
                    let mut column = Column::new(ty, x.clone());
                    column.index = (0..rows).map(|row| way(row) as u32).collect();
                    column
                });
                let mut call = Call {
                    rows,
                    ..Call::default()
                };
                let output = run(&lp, &module, &inputs, &mut call);
                for (way, column) in ways.iter().zip(&output.columns) {
                    for row in 0..rows {
                        assert_eq!(column[row], x[way(row)], "{ty:?} {row} of {rows} {mode:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn words_of_any_size_as_floats() {
    let mut lp = new_loop(Lanes::Eight);
    let a = lp.load(Ty::I64);
    let float = lp.push(Inst::Convert(a), Ty::F32);
    lp.store(float, None);
    let edges = [51, 52, 53, 63].map(|bits| 1i64.wrapping_shl(bits).wrapping_sub(1));
    // Groups of small ones, and groups with one that is not.
    let small = (0..8).map(|i| (i - 4) * 16_777_217);
    let near = (0..8).map(|i| 2_251_799_813_685_247 - i * 134_217_727);
    let least = (0..8).map(|i| -2_251_799_813_685_248 + i * 134_217_729);
    let mixed = (0..8i64).map(|i| edges[i as usize % 4] * (1 - i % 2 * 2) + i);
    let words: Vec<i64> = small.chain(near).chain(least).chain(mixed).collect();
    for mode in modes() {
        let module = module(&lp, &mode);
        let mut call = Call {
            rows: words.len(),
            ..Call::default()
        };
        let bits = words.iter().map(|word| *word as u64).collect();
        let output = run(&lp, &module, &[Column::new(Ty::I64, bits)], &mut call);
        for (word, found) in words.iter().zip(&output.columns[0]) {
            let expected = u64::from((*word as f32).to_bits());
            assert_eq!(*found, expected, "{word} {mode:?}");
        }
    }
}
