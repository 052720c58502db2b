//! Combinations over the last rows and over every eighth row, against the definition.

use super::harness::*;
use crate::{
    abi::{Args, Target, View},
    lir::{Combine, LANES, LONGEST_SPAN, Lanes, Loop, Sink, Slot, Ty, interpret},
};

const SLOTS: [(Combine, Ty); 5] = [
    (Combine::Min, Ty::I32),
    (Combine::Max, Ty::I64),
    (Combine::Min, Ty::U16),
    (Combine::Max, Ty::I8),
    (Combine::Or, Ty::U64),
];

fn combine((op, ty): (Combine, Ty), words: impl Iterator<Item = u64>) -> u64 {
    words.fold(op.neutral(ty).bits, |a, b| {
        let less = if ty.is_signed() {
            (a as i64) < b as i64
        } else {
            a < b
        };
        match op {
            Combine::Or => a | b,
            Combine::Min if less => a,
            Combine::Max if !less => a,
            _ => b,
        }
    })
}

fn loop_with(sink: impl Fn(Vec<Slot>) -> Sink) -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let slots = SLOTS.iter().map(|(op, ty)| {
        let value = lp.load(*ty);
        Slot { op: *op, value }
    });
    let slots = slots.collect();
    lp.sink = sink(slots);
    lp
}

fn columns(rows: usize) -> Vec<Vec<u64>> {
    let seeded = SLOTS.iter().zip(31..);
    seeded
        .map(|((_, ty), seed)| samples(*ty, rows, seed))
        .collect()
}

fn inputs(columns: &[Vec<u64>]) -> Vec<Column> {
    let columns = SLOTS.iter().zip(columns);
    columns
        .map(|((_, ty), words)| Column::new(*ty, words.clone()))
        .collect()
}

fn neutral_state(lp: &Loop) -> Vec<u64> {
    let words = SLOTS.iter().map(|(op, ty)| op.neutral(*ty).bits);
    words
        .flat_map(|word| vec![word; lp.state_words()])
        .collect()
}

/// The last `span` rows up to `row`.
fn last(k: usize, words: &[u64], span: u32, row: usize) -> u64 {
    let first = (row + 1).saturating_sub(span as usize);
    let rows = first.min(words.len())..(row + 1).min(words.len());
    combine(SLOTS[k], words[rows].iter().copied())
}

#[test]
fn slides() {
    for span in 1..=LONGEST_SPAN {
        for running in [false, true] {
            let lp = loop_with(|slots| Sink::Slide {
                slots,
                span,
                running,
            });
            let per_slot = 1 + usize::from(running);
            for mode in modes() {
                let module = module(&lp, &mode);
                for exist in [0, 5, 8, 40, 61, 96] {
                    let words = columns(exist);
                    // Two calls, the second of which goes on; blocks of 40 rows, the second of which both have a part of.
                    let ends = [0, 40, 56, 80, 96];
                    let mut state = neutral_state(&lp);
                    let mut found = vec![vec![]; SLOTS.len() * per_slot];
                    for part in [&ends[..3], &ends[2..]] {
                        let mut ranges = vec![0, exist as i64];
                        ranges.extend(part.windows(2).flatten());
                        let (first, end) = (part[0] as usize, part[2] as usize);
                        let mut call = Call {
                            rows: end,
                            state,
                            ranges,
                            ..Call::default()
                        };
                        let output = run(&lp, &module, &inputs(&words), &mut call);
                        for (found, column) in found.iter_mut().zip(&output.columns) {
                            found.extend_from_slice(&column[first..end]);
                        }
                        state = call.state;
                    }
                    for (k, words) in words.iter().enumerate() {
                        #[expect(clippy::needless_range_loop, reason = "rows of two columns")]
                        for row in 0..96 {
                            let about = (SLOTS[k], span, exist, row, &mode);
                            let few = last(k, words, span, row);
                            assert_eq!(found[k * per_slot][row], few, "{about:?}");
                            if running {
                                let block = row / 40 * 40;
                                let rows = (block + row % LANES..=row).step_by(LANES);
                                let all = rows.map(|row| last(k, words, span, row));
                                let all = combine(SLOTS[k], all);
                                assert_eq!(found[2 * k + 1][row], all, "{about:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn combs_in_place() {
    let lp = loop_with(|slots| Sink::Comb { slots });
    let words = columns(96);
    let ranges = [24i64, 64, 64, 96, 0, 8];
    let expected = |k: usize, row: usize| {
        let pair = ranges
            .chunks(2)
            .find(|r| (r[0]..r[1]).contains(&(row as i64)));
        pair.map_or(words[k][row], |r| {
            let rows = (row..r[1] as usize).step_by(LANES);
            combine(SLOTS[k], rows.map(|row| words[k][row]))
        })
    };
    let run = |call: &dyn Fn(&Args)| {
        let mut buffers: Vec<_> = (SLOTS.iter().zip(&words))
            .map(|((_, ty), words)| Buffer::pack(*ty, words, 0xa5))
            .collect();
        let pointers: Vec<*mut u8> = buffers.iter_mut().map(Buffer::pointer).collect();
        let views: Vec<View> = (pointers.iter())
            .map(|values| View {
                values: *values,
                validity: std::ptr::null(),
                index: std::ptr::null(),
                lead: 0,
                len: 96,
            })
            .collect();
        let targets: Vec<Target> = (pointers.iter())
            .map(|values| Target {
                values: *values,
                validity: std::ptr::null_mut(),
                len: 96,
            })
            .collect();
        let mut state = neutral_state(&lp);
        call(&Args {
            views: views.as_ptr(),
            targets: targets.as_ptr(),
            params: std::ptr::null(),
            state: state.as_mut_ptr(),
            ranges: ranges.as_ptr(),
            first: 0,
            rows: 3,
            ahead: crate::abi::nothing_ahead(),
            step: 0,
        });
        for (k, buffer) in buffers.iter().enumerate() {
            for row in 0..96 {
                let about = (SLOTS[k], row);
                assert_eq!(buffer.get(SLOTS[k].1, row), expected(k, row), "{about:?}");
            }
        }
    };
    for mode in modes() {
        let module = module(&lp, &mode);
        // SAFETY: rows of the ranges lie in the columns.
        run(&|args| unsafe { module.kernel(0)(args) });
    }
    // SAFETY: as above.
    run(&|args| unsafe { interpret(&lp, args) });
}
