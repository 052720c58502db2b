//! Loops that are made of others, and division by what is the same for all rows.

use tilt_ir::Id;

use super::{
    super::Module,
    harness::{Build, Call, Column, modes, module, new_loop, run, same, samples},
    reductions::Guarded,
};
use crate::{
    abi::{Args, Target, View, nothing_ahead},
    lir::{
        AccessId, Binary, By, Combine, Imm, Inst, Known, Lanes, Loop, Sink, Slot, Ty, Unary,
        ValueId, parse,
    },
};

/// A scan or fold of one column that has no validity.
fn of_column(op: Combine, ty: Ty, fold: bool) -> Loop {
    let mut lp = new_loop(Lanes::Eight);
    let column = lp.access(ty, By::Row);
    lp.accesses[column].nullable = false;
    let value = lp.push(Inst::Load(column), ty);
    lp.slot(op, value, fold, false);
    lp
}

fn combined(op: Combine, ty: Ty, words: &[u64]) -> u64 {
    let signed = |w: u64| Imm::int(ty, w as i64).bits as i64;
    let words = words.iter().copied();
    let result = match op {
        Combine::Add => words.fold(0, u64::wrapping_add),
        Combine::Mul => words.fold(1, u64::wrapping_mul),
        Combine::Or => words.fold(0, |a, b| a | b),
        Combine::Min if ty.is_signed() => words.min_by_key(|w| signed(*w)).unwrap_or(0),
        Combine::Max if ty.is_signed() => words.max_by_key(|w| signed(*w)).unwrap_or(0),
        Combine::Min => words.min().unwrap_or(0),
        Combine::Max => words.max().unwrap_or(0),
    };
    Imm::int(ty, result as i64).bits
}

#[test]
fn panes_are_folds_of_rows_that_follow_each_other() {
    let slots = [
        (Combine::Add, Ty::I64),
        (Combine::Min, Ty::I32),
        (Combine::Max, Ty::U8),
        (Combine::Or, Ty::U16),
        (Combine::Mul, Ty::U64),
        (Combine::Min, Ty::U32),
    ];
    for every in [2, 4, 8, 16] {
        for (op, ty) in slots {
            let lp = of_column(op, ty, true)
                .panes(every)
                .expect("a fold of integers");
            for mode in modes() {
                let module = module(&lp, &mode);
                for panes in [8, 16, 40] {
                    let words = samples(ty, panes * every as usize, 3);
                    let inputs = [Column::new(ty, words.clone())];
                    let mut call = Call {
                        rows: panes,
                        ..Call::default()
                    };
                    let found = run(&lp, &module, &inputs, &mut call);
                    let expected = words.chunks(every as usize);
                    let expected: Vec<_> = expected.map(|w| combined(op, ty, w)).collect();
                    assert_eq!(found.columns[0], expected, "{op:?} {ty:?} {every} {mode:?}");
                }
            }
        }
    }
}

#[test]
fn panes_touch_nothing_outside_of_their_rows() {
    for ty in [Ty::I64, Ty::I32, Ty::U16, Ty::I8] {
        for every in [2, 4, 8, 16] {
            let lp = of_column(Combine::Add, ty, true).panes(every);
            let lp = lp.expect("a fold of integers");
            for mut mode in modes() {
                mode.0.checked = false;
                let module = module(&lp, &mode);
                for at_end in [false, true] {
                    panes_guarded(ty, &module, every as usize, at_end);
                }
            }
        }
    }
}

/// Eight panes of ones, read from and written to either end of accessible memory.
fn panes_guarded(ty: Ty, module: &Module, every: usize, at_end: bool) {
    let (values, out) = (Guarded::new(), Guarded::new());
    let (rows, bytes) = (8 * every, ty.bytes());
    // SAFETY: both stay within the accessible page.
    let (start, target) = unsafe {
        if at_end {
            (values.end().sub(rows * bytes), out.end().sub(8 * bytes))
        } else {
            (values.first(), out.first())
        }
    };
    for row in 0..rows {
        let one = Imm::int(ty, 1).bits.to_le_bytes();
        // SAFETY: `rows` elements fit.
        unsafe { std::ptr::copy_nonoverlapping(one.as_ptr(), start.add(row * bytes), bytes) }
    }
    let view = View {
        values: start,
        validity: std::ptr::null(),
        index: std::ptr::null(),
        lead: 0,
        len: rows as u64,
    };
    let target = Target {
        values: target,
        validity: std::ptr::null_mut(),
        len: 8,
    };
    let args = Args {
        views: &raw const view,
        targets: &raw const target,
        params: std::ptr::null(),
        state: std::ptr::null_mut(),
        ranges: std::ptr::null(),
        first: 0,
        rows: 8,
        ahead: nothing_ahead(),
        step: 0,
    };
    // SAFETY: the rows of eight panes exist, and so do eight elements of the target.
    unsafe { module.kernel(0)(&raw const args) };
    for pane in 0..8 {
        // SAFETY: the first byte of an element that was written.
        let low = unsafe { *target.values.add(pane * bytes) };
        assert_eq!(usize::from(low), every, "{ty:?} {every} {at_end}");
    }
}

#[test]
fn a_difference_adds_what_enters_and_subtracts_what_leaves() {
    for ty in [Ty::I64, Ty::U64, Ty::I32] {
        let mut lp = of_column(Combine::Add, ty, false);
        let value = ValueId::new(0);
        lp.slot(Combine::Or, value, false, false);
        let lp = lp.difference().expect("a scan of integers");
        let (n, width) = (100, 7);
        let words = samples(ty, n + width, 5);
        let inputs = [
            Column::new(ty, words[width..].to_vec()),
            Column::new(ty, words[..n].to_vec()),
        ];
        for mode in modes() {
            let module = module(&lp, &mode);
            let before = combined(Combine::Add, ty, &words[..width]);
            let mut call = Call {
                rows: n,
                state: vec![before, 0],
                ..Call::default()
            };
            let found = run(&lp, &module, &inputs, &mut call);
            for row in 0..n {
                let window = &words[row + 1..=row + width];
                let total = combined(Combine::Add, ty, window);
                assert_eq!(found.columns[0][row], total, "{ty:?} row {row} {mode:?}");
            }
            assert_eq!(call.state[0], combined(Combine::Add, ty, &words[n..]));
            assert_eq!(call.state[1], combined(Combine::Or, ty, &words[width..]));
        }
    }
}

#[test]
fn only_plain_integers_are_moved() {
    assert!(
        of_column(Combine::Add, Ty::F64, false)
            .difference()
            .is_none()
    );
    assert!(of_column(Combine::Add, Ty::F64, true).panes(4).is_none());
    assert!(of_column(Combine::Add, Ty::I64, true).panes(3).is_none());
    let mut lp = of_column(Combine::Add, Ty::I64, false);
    lp.accesses[AccessId::new(0)].nullable = true;
    assert!(lp.difference().is_none());
    let mut lp = new_loop(Lanes::Eight);
    let row = lp.push(Inst::Row, Ty::I64);
    lp.sink = Sink::Scan {
        slots: vec![Slot {
            op: Combine::Add,
            value: row,
        }],
        backward: false,
    };
    assert!(lp.difference().is_none());
}

/// Doubles of every kind, most of them as they are found in sums.
fn dividends(count: usize, seed: u64) -> Vec<u64> {
    let special = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        2f64.powi(-900),
        2f64.powi(900),
        1.0,
        -1.0,
    ];
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ state >> 29
    };
    let mut words: Vec<u64> = special.iter().map(|v: &f64| v.to_bits()).collect();
    while words.len() < count {
        let word = next();
        words.push(match words.len() / 64 % 3 {
            // Any bits; then whole groups of usual magnitudes, of which no lane divides.
            0 => word,
            1 => word & !(0x7ff << 52) | (1023 + word % 11) << 52,
            _ => word & !(0x7ff << 52) | (123 + (word >> 3) % 1799) << 52,
        });
    }
    words
}

#[test]
fn division_by_a_constant_is_division() {
    let mut lp = new_loop(Lanes::Eight);
    let x = lp.load(Ty::F64);
    let n = lp.param(Ty::F64);
    let n = lp.push(Inst::Param(n), Ty::F64);
    let quotient = lp.binary(Binary::Div, x, n);
    lp.store(quotient, None);
    let counts = [
        1.0,
        2.0,
        3.0,
        5.0,
        7.0,
        10.0,
        49.0,
        100.0,
        1000.0,
        1023.0,
        4095.0,
        65_537.0,
        999_999.0,
        9_007_199_254_740_991.0,
        0.0,
        -3.0,
        0.5,
        1e300,
        f64::INFINITY,
        f64::NAN,
    ];
    for mode in modes() {
        let module = module(&lp, &mode);
        for (seed, n) in counts.into_iter().enumerate() {
            let words = dividends(8 * 1024, seed as u64 + 1);
            let inputs = [Column::new(Ty::F64, words.clone())];
            let mut call = Call {
                rows: words.len(),
                params: vec![f64::to_bits(n)],
                ..Call::default()
            };
            let found = run(&lp, &module, &inputs, &mut call);
            for (x, found) in words.iter().zip(&found.columns[0]) {
                let (x, found) = (f64::from_bits(*x), f64::from_bits(*found));
                let same =
                    found.to_bits() == (x / n).to_bits() || found.is_nan() && (x / n).is_nan();
                assert!(
                    same,
                    "{x:e} / {n:e} is {:e}, not {found:e}; {mode:?}",
                    x / n
                );
            }
        }
    }
}

#[test]
fn rows_inside_have_windows_of_one_width() {
    let mut lp = new_loop(Lanes::Eight);
    let params: Vec<ValueId> = (0..3)
        .map(|k| {
            let param = lp.param(Ty::I64);
            lp.params[param].name = format!("p{k}");
            lp.push(Inst::Param(param), Ty::I64)
        })
        .collect();
    let row = lp.push(Inst::Row, Ty::I64);
    let every = lp.constant(Imm::int(Ty::I64, 4));
    let moved = lp.binary(Binary::Mul, row, every);
    let zero = lp.constant(Imm::zero(Ty::I64));
    let mut position = |offset: ValueId| {
        let position = lp.binary(Binary::Add, moved, offset);
        let position = lp.binary(Binary::Max, position, zero);
        lp.binary(Binary::Min, position, params[2])
    };
    let (first, end) = (position(params[0]), position(params[1]));
    let count = lp.binary(Binary::Sub, end, first);
    lp.store(count, None);
    let inside = lp
        .full(|_, _| None)
        .expect("positions that are kept inside");
    assert!(inside.is_invariant(count) && !lp.is_invariant(count));
    for mode in modes() {
        let (lp_code, inside_code) = (module(&lp, &mode), module(&inside, &mode));
        let mut call = Call {
            rows: 16,
            first: 10,
            params: vec![(-20i64) as u64, 5, 1000],
            ..Call::default()
        };
        let expected = run(&lp, &lp_code, &[], &mut call).columns;
        assert_eq!(run(&inside, &inside_code, &[], &mut call).columns, expected);
        assert_eq!(expected[0], [25; 16]);
    }
}

#[test]
fn integers_divided_by_a_constant_are_divided() {
    for ty in [Ty::I64, Ty::U64, Ty::I32] {
        let mut lp = new_loop(Lanes::Eight);
        let x = lp.load(ty);
        let x = lp.push(Inst::Convert(x), Ty::F64);
        let n = lp.param(Ty::F64);
        let n = lp.push(Inst::Param(n), Ty::F64);
        let quotient = lp.binary(Binary::Div, x, n);
        lp.store(quotient, None);
        let mut words = samples(ty, 1024, 5);
        words.extend([0, 1, 2, 7, u64::MAX, 1 << 63].map(|bits| Imm::int(ty, bits as i64).bits));
        let value = |word: u64| match ty {
            Ty::U64 => word as f64,
            _ => word as i64 as f64,
        };
        for mode in modes() {
            let module = module(&lp, &mode);
            for n in [
                1.0,
                3.0,
                7.0,
                1024.0,
                999_999.0,
                0.0,
                -3.0,
                0.5,
                1e300,
                f64::NAN,
            ] {
                let inputs = [Column::new(ty, words.clone())];
                let mut call = Call {
                    rows: words.len(),
                    params: vec![f64::to_bits(n)],
                    ..Call::default()
                };
                let found = run(&lp, &module, &inputs, &mut call);
                for (word, found) in words.iter().zip(&found.columns[0]) {
                    let expected = (value(*word) / n).to_bits();
                    assert!(same(Ty::F64, *found, expected), "{ty:?} {word} / {n}");
                }
            }
        }
    }
}

#[test]
fn of_columns_that_are_there_already_bits_are_stored_at_most() {
    let stored = |columns: &str| {
        let text = format!(
            "loop l lanes 8 {{
               access x: f64 row nullable
               access y: f64 row
               %0 = load x
               %1 = valid x
               %2 = load y
               %3 = gt %0, %2
               %4 = and %1, %3
               store {columns}
             }}"
        );
        parse(&text).expect("a loop")
    };
    let lp = stored("%0 if %4, %2, %0 if %1, %3");
    let known = [
        Some(Known::Values),
        Some(Known::Values),
        Some(Known::Column),
        None,
    ];
    assert_eq!(lp.without(|n| known[n]), Some(stored("%4, %3")));
    assert_eq!(lp.without(|_| None), Some(lp.clone()));
    assert_eq!(lp.without(|_| Some(Known::Column)), None);
    assert_eq!(
        of_column(Combine::Add, Ty::F64, true).without(|_| None),
        None
    );
}

#[test]
fn windows_without_gaps_have_as_many_events_as_positions() {
    let mut lp = new_loop(Lanes::Eight);
    let [sum, end, start] = [Ty::F64, Ty::I64, Ty::I64].map(|ty| lp.load(ty));
    let count = lp.binary(Binary::Sub, end, start);
    let as_float = lp.push(Inst::Convert(count), Ty::F64);
    let mean = lp.binary(Binary::Div, sum, as_float);
    lp.store(mean, None);
    let accesses: Vec<_> = lp.accesses.ids().collect();
    let pair = (accesses[1], accesses[2]);
    assert!(lp.full(|_, _| None).is_none());
    let full = lp.full(|a, b| ((a, b) == pair).then_some(14));
    let full = full.expect("a count");
    assert!(full.is_invariant(count));
    let inputs = |ends: u64| {
        let sums = (0..16).map(|row| f64::from(row) * 0.37 - 3.0);
        let column = |words: Vec<u64>| Column::new(Ty::I64, words);
        [
            Column::f64(sums),
            column((0..16).map(|row| row + ends).collect()),
            column((0..16).collect()),
        ]
    };
    for mode in modes() {
        let mut call = Call {
            rows: 16,
            ..Call::default()
        };
        let expected = run(&lp, &module(&lp, &mode), &inputs(14), &mut call).columns;
        // Counts are not read.
        let found = run(&full, &module(&full, &mode), &inputs(3), &mut call).columns;
        assert_eq!(found, expected, "{mode:?}");
    }
}

#[test]
fn two_scans_beside_each_other() {
    let scan = |negative: bool, backward: bool| {
        let mut lp = new_loop(Lanes::Eight);
        let x = lp.load(Ty::F64);
        let value = if negative {
            lp.push(Inst::Unary(Unary::Neg, x), Ty::F64)
        } else {
            x
        };
        lp.slot(Combine::Add, value, false, backward);
        lp
    };
    for backward in [false, true] {
        let (a, b) = (scan(false, backward), scan(true, backward));
        let read = a.accesses.ids().next();
        assert!(a.beside(&scan(true, !backward), &[read], &[]).is_none());
        let (same, slots) = a.beside(&a, &[read], &[]).expect("the same kind");
        assert_eq!((same, slots), (a.clone(), vec![0]));
        let (shared, slots) = a.beside(&b, &[read], &[]).expect("the same kind");
        assert_eq!((shared.accesses.len(), slots), (1, vec![1]));
        let (apart, slots) = a.beside(&b, &[None], &[]).expect("the same kind");
        assert_eq!((apart.accesses.len(), slots), (2, vec![1]));
        let columns = [3, 5].map(|seed| samples(Ty::F64, 43, seed));
        let column = |k: usize| Column::new(Ty::F64, columns[k].clone());
        for mode in modes() {
            let result = |lp: &Loop, inputs: &[Column]| {
                let mut call = Call {
                    rows: 43,
                    state: vec![(-0.0f64).to_bits(); 2],
                    ..Call::default()
                };
                run(lp, &module(lp, &mode), inputs, &mut call).columns
            };
            let first = result(&a, &[column(0)]);
            let both = result(&shared, &[column(0)]);
            assert_eq!(both, [first.clone(), result(&b, &[column(0)])].concat());
            let both = result(&apart, &[column(0), column(1)]);
            assert_eq!(both, [first, result(&b, &[column(1)])].concat());
        }
    }
}
