//! What scans, folds and panes combine.

use super::harness::{Call, Column, bits_of, run};
use crate::lir::{Imm, Ty};

/// The results less 1e16, beside which a single one is lost.
fn less_1e16(column: &Column) -> Vec<f64> {
    column.get::<f64>().iter().map(|x| x - 1e16).collect()
}

const SUM: &str = "loop l lanes 8 { access x: f64 row %0 = load x";

#[test]
fn a_scan_adds_groups_of_eight_as_trees() {
    let mut x = [1.0; 10];
    x[0] = 1e16;
    let call = |x: &[f64]| {
        run(
            &format!("{SUM} scan add %0 }}"),
            &Call {
                columns: &[Column::new(x)],
                state: &[(-0.0f64).to_bits()],
                rows: 10,
                ..Call::default()
            },
        )
    };
    let outcome = call(&x);
    // By hand, with ulp 2 and ties to even: row 4 is (1e16 + 2) + 1, row 6 is (1e16 + 2) + 3, row 8 is (1e16 + 6) + 1.
    let expected = [0.0, 0.0, 0.0, 2.0, 4.0, 4.0, 4.0, 6.0, 8.0, 8.0];
    assert_eq!(less_1e16(&outcome.columns[0]), expected);
    assert_eq!(f64::from_bits(outcome.state[0]), 1e16 + 8.0);
}

#[test]
fn a_backward_scan_is_the_mirror_image() {
    let mut x = [1.0; 10];
    x[9] = 1e16;
    let outcome = run(
        &format!("{SUM} scan backward add %0 }}"),
        &Call {
            columns: &[Column::new(&x)],
            state: &[(-0.0f64).to_bits()],
            rows: 10,
            ..Call::default()
        },
    );
    let expected = [8.0, 8.0, 6.0, 4.0, 4.0, 4.0, 2.0, 0.0, 0.0, 0.0];
    assert_eq!(less_1e16(&outcome.columns[0]), expected);
    assert_eq!(f64::from_bits(outcome.state[0]), 1e16 + 8.0);
}

#[test]
fn a_scan_goes_on_from_its_carry() {
    let text = "loop l lanes 8 {
        access x: i8 row %0 = load x %1 = convert %0: u16 %2 = convert %0: f32
        scan add %0, min %0, max %0, mul %0, or %1, add %2
    }";
    let state = [
        Imm::int(Ty::I8, 100),
        Imm::int(Ty::I8, 2),
        Imm::int(Ty::I8, 2),
        Imm::int(Ty::I8, 1),
    ]
    .into_iter()
    .chain([Imm::int(Ty::U16, 0x4000), Imm::float(Ty::F32, 0.5)])
    .map(|imm| imm.bits)
    .collect::<Vec<_>>();
    let call = Call {
        columns: &[Column::new(&[20i8, 10, -3])],
        state: &state,
        rows: 3,
        ..Call::default()
    };
    let outcome = run(text, &call);
    assert_eq!(outcome.columns[0].get::<i8>(), [120, -126, 127]);
    assert_eq!(outcome.columns[1].get::<i8>(), [2, 2, -3]);
    assert_eq!(outcome.columns[2].get::<i8>(), [20, 20, 20]);
    assert_eq!(outcome.columns[3].get::<i8>(), [20, -56, -88]);
    assert_eq!(outcome.columns[4].get::<u16>(), [0x4014, 0x401e, 0xffff]);
    assert_eq!(outcome.columns[5].get::<f32>(), [20.5, 30.5, 27.5]);
    assert_eq!(outcome.state[0], 127);
    assert_eq!(outcome.state[1], -3i64 as u64);
    assert_eq!(outcome.state[5], u64::from(27.5f32.to_bits()));
}

#[test]
fn a_scan_of_no_rows_keeps_its_carry() {
    let outcome = run(
        &format!("{SUM} scan add %0 }}"),
        &Call {
            columns: &[Column::new(&[0.0; 0])],
            state: &[7],
            ..Call::default()
        },
    );
    assert_eq!(outcome.state, [7]);
}

#[test]
fn folds_count_groups_from_either_end() {
    let x = [9.0, 1e16, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0];
    let fold = |direction: &str| {
        run(
            &format!("{SUM} fold {direction} add %0 }}"),
            &Call {
                columns: &[Column::new(&x)],
                ranges: &[[1, 10], [2, 4], [5, 5]],
                ..Call::default()
            },
        )
    };
    // Forward 1e16 meets the ones one by one, backward they come first and together.
    assert_eq!(
        bits_of(&fold("").columns[0].get()),
        bits_of(&[1e16, 2.0, -0.0])
    );
    assert_eq!(
        bits_of(&fold("backward").columns[0].get()),
        bits_of(&[1e16 + 2.0, 2.0, -0.0])
    );
}

#[test]
fn panes_combine_rows_that_follow_each_other() {
    let text = "loop l lanes 8 { access x: i32 row %0 = load x panes 2 add %0, max %0 }";
    let call = Call {
        columns: &[Column::new(&[1i32, 2, 30, 40, -5, -6])],
        rows: 3,
        ..Call::default()
    };
    let columns = run(text, &call).columns;
    assert_eq!(columns[0].get::<i32>(), [3, 70, -11]);
    assert_eq!(columns[1].get::<i32>(), [2, 40, -5]);
}

#[test]
fn folds_of_empty_ranges_are_neutral() {
    let text = "loop l lanes 8 {
        access x: i32 row %0 = load x %1 = convert %0: u8 %2 = convert %0: f32
        fold add %0, mul %0, min %0, max %0, or %0, min %1, max %1, mul %2
    }";
    let call = Call {
        columns: &[Column::new(&[0i32; 0])],
        ranges: &[[0, 0]],
        ..Call::default()
    };
    let columns = run(text, &call).columns;
    let first: Vec<_> = columns[..5].iter().map(|c| c.get::<i32>()[0]).collect();
    assert_eq!(first, [0, 1, i32::MAX, i32::MIN, 0]);
    assert_eq!(columns[5].get::<u8>(), [255]);
    assert_eq!(columns[6].get::<u8>(), [0]);
    assert_eq!(columns[7].get::<f32>(), [1.0]);
}

#[test]
fn folds_read_bits_and_tables_and_see_the_row() {
    let text = "loop l lanes 8 {
        access b: bool row nullable access t: i64 table
        %0 = load b %1 = valid b %2 = and %0, %1 %3 = const 0: i64 %4 = row %5 = lookup t[%3] %6 = add %4, %5
        %7 = select %2, %6, %3
        fold add %7
    }";
    let b: Vec<_> = (0..20).map(|i| i % 2 == 1).collect();
    let valid: Vec<_> = (0..20).map(|i| i != 5).collect();
    let call = Call {
        columns: &[Column::bools(&b).valid_if(&valid), Column::new(&[1000i64])],
        ranges: &[[3, 8], [4, 20]],
        first: 100,
        ..Call::default()
    };
    let columns = run(text, &call).columns;
    // Rows 3 and 7; rows 7, 9, … 19.
    assert_eq!(columns[0].get::<i64>(), [2 * 1100 + 10, 7 * 1100 + 91]);
}

#[test]
fn folds_read_one_element_for_a_whole_range() {
    let text = "loop l lanes 8 {
        access x: f64 row access mean: f64 range nullable
        %0 = load x %1 = load mean %2 = valid mean %3 = sub %0, %1 %4 = mul %3, %3 %5 = const -0.0: f64
        %6 = select %2, %4, %5
        fold add %6
    }";
    let call = Call {
        columns: &[
            Column::new(&[1.0, 2.0, 3.0, 4.0]),
            Column::new(&[2.0, 3.5, 9.0]).valid_if(&[true, true, false]),
        ],
        ranges: &[[0, 3], [2, 4], [0, 4]],
        ..Call::default()
    };
    assert_eq!(run(text, &call).columns[0].get::<f64>(), [2.0, 0.5, -0.0]);
}
