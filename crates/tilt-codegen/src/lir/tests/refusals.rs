//! What the interpreter refuses: whatever is outside of columns, and operands without a result.

use super::{
    harness::{Call, Column, NOTHING, binary, results, run, target, view},
    parsed,
};
use crate::{abi::Args, lir::interpret};

#[test]
fn elements_before_row_0_are_read_as_far_as_they_go() {
    let l = parsed(
        "loop l lanes 8 { access x: i32 row access b: bool row %0 = load x %1 = load b %2 = const 0: i32 %3 = select %1, %0, %2 fold add %3 }",
    );
    let x = [1i32, 2, 4, 8];
    let bits = [0b1100_0000u8, 0b11];
    let views = [
        view(x.as_ptr().wrapping_add(2).cast(), 2, 2),
        view(bits.as_ptr().wrapping_add(1), 2, 2),
    ];
    let mut total = 0i32;
    let target = target((&raw mut total).cast(), 1);
    let range = [-2i64, 1];
    let args = Args {
        views: views.as_ptr(),
        targets: &raw const target,
        ranges: range.as_ptr(),
        rows: 1,
        ..NOTHING
    };
    // SAFETY: both views start inside arrays that have the stated elements on both sides.
    unsafe { interpret(&l, &raw const args) };
    assert_eq!(total, 7);
}

/// Runs the loop on a column of three elements with the numbers 0 to 2.
fn on_three(text: &str, rows: usize) {
    let columns = [Column::new(&[0i64, 1, 2])];
    run(
        text,
        &Call {
            columns: &columns,
            rows,
            ..Call::default()
        },
    );
}

#[test]
#[should_panic(expected = "loop l, access x, row 3: element 3 is not one of 0 .. 3")]
fn rows_beyond_a_view_are_refused() {
    on_three(
        "loop l lanes 8 { access x: i64 row %0 = load x store %0 }",
        4,
    );
}

#[test]
#[should_panic(expected = "loop l, access x, row 0: element -1 is not one of 0 .. 3")]
fn lookups_beyond_a_table_are_refused() {
    on_three(
        "loop l lanes 8 { access x: i64 table %0 = const -1: i64 %1 = lookup x[%0] store %1 }",
        1,
    );
}

#[test]
#[should_panic(expected = "loop l, access x, row 1: element 3 is not one of 0 .. 3")]
fn indices_beyond_a_view_are_refused() {
    let columns = [Column::new(&[0i64, 1, 2]).by(&[2, 3])];
    let text = "loop l lanes 8 { access x: i64 index %0 = load x store %0 }";
    run(
        text,
        &Call {
            columns: &columns,
            rows: 2,
            ..Call::default()
        },
    );
}

#[test]
#[should_panic(expected = "loop l, access x, row 0: there is no index column")]
fn a_missing_index_is_refused() {
    on_three(
        "loop l lanes 8 { access x: i64 index %0 = load x store %0 }",
        1,
    );
}

#[test]
#[should_panic(expected = "loop l, access x, row 0: there is no validity")]
fn a_missing_validity_is_refused() {
    on_three(
        "loop l lanes 8 { access x: i64 row nullable %0 = valid x store %0 }",
        1,
    );
}

#[test]
#[should_panic(expected = "loop l, column 0, row 1: row 1 is not one of 0 .. 1")]
fn rows_beyond_a_target_are_refused() {
    let l = parsed("loop l lanes 8 { %0 = row store %0 }");
    let mut out = 0i64;
    let target = target((&raw mut out).cast(), 1);
    let args = Args {
        targets: &raw const target,
        rows: 2,
        ..NOTHING
    };
    // SAFETY: the target has the one element that it states.
    unsafe { interpret(&l, &raw const args) };
}

#[test]
#[should_panic(expected = "loop l, value %2, row 0: the divisor is zero")]
fn division_by_zero_is_refused() {
    binary("div", &[1i64], &[0]);
}

#[test]
#[should_panic(expected = "loop l, value %2, row 1: the quotient overflows")]
fn a_quotient_that_overflows_is_refused() {
    binary("rem", &[1i8, i8::MIN], &[1, -1]);
}

#[test]
#[should_panic(
    expected = "loop l, value %2, row 0: the count of the shift is not less than the width"
)]
fn a_shift_by_the_width_is_refused() {
    binary("shl", &[1i8], &[8]);
}

#[test]
#[should_panic(expected = "loop l, value %1, row 0: the runtime has no function tilt_nothing")]
fn unknown_functions_are_refused() {
    results(
        "call tilt_nothing(%0: f64): f64",
        &[("f64", Column::new(&[1.0]))],
    );
}
