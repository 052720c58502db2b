//! What instructions, accesses and stores of a loop compute.

use super::{
    harness::{
        Call, Column, NOTHING, binary, bits_of, compare, results, retyped, run, target, unary,
        unpacked, view,
    },
    parsed,
};
use crate::{
    abi::Args,
    lir::{Imm, Ty, interp::call_at, interpret, verify},
};

#[test]
fn the_example_of_the_module_keeps_late_rows_below_the_price() {
    let text = "loop trend lanes 8 {
        access price: f64 row
        access late: f64 row nullable
        param scale: f64
        %0 = load price %1 = param scale %2 = mul %0, %1 %3 = load late %4 = valid late %5 = gt %2, %3 %6 = and %4, %5
        store %2 if %6
    }";
    let valid: Vec<_> = (0..11).map(|i| i != 4).collect();
    let call = Call {
        columns: &[
            Column::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]),
            Column::new(&[5.0; 11]).valid_if(&valid),
        ],
        params: &[Imm::float(Ty::F64, 2.0)],
        rows: 11,
        ..Call::default()
    };
    let outcome = run(text, &call);
    let column = &outcome.columns[0];
    assert_eq!(
        column.get::<f64>(),
        (1..=11).map(|x| f64::from(x) * 2.0).collect::<Vec<_>>()
    );
    let expected: Vec<_> = (0..11).map(|i| i > 1 && i != 4).collect();
    assert_eq!(unpacked(&column.validity, 11), expected);
}

#[test]
fn rows_constants_and_parameters() {
    let text = "loop l lanes 8 {
        param b: bool param i: i8 param f: f32
        %0 = row %1 = const -3: i8 %2 = param i %3 = param f %4 = param b %5 = const 0.5: f32
        store %0, %1, %2, %3, %4, %5
    }";
    let call = Call {
        params: &[
            Imm::bool(true),
            Imm::int(Ty::I8, -2),
            Imm::float(Ty::F32, 0.1),
        ],
        first: -1,
        rows: 3,
        ..Call::default()
    };
    let columns = run(text, &call).columns;
    assert_eq!(columns[0].get::<i64>(), [-1, 0, 1]);
    assert_eq!(columns[1].get::<i8>(), [-3; 3]);
    assert_eq!(columns[2].get::<i8>(), [-2; 3]);
    assert_eq!(columns[3].get::<f32>(), [0.1; 3]);
    assert_eq!(columns[4].get_bools(), [true; 3]);
    assert_eq!(columns[5].get::<f32>(), [0.5; 3]);
}

#[test]
fn integers_wrap() {
    assert_eq!(binary("add", &[i8::MAX, -1], &[1, 1]), [i8::MIN, 0]);
    assert_eq!(binary("sub", &[0u16, 5], &[1, 3]), [u16::MAX, 2]);
    assert_eq!(binary("mul", &[i32::MAX, -3], &[2, 4]), [-2, -12]);
    assert_eq!(binary("mul", &[u64::MAX, 1 << 63], &[u64::MAX, 2]), [1, 0]);
    assert_eq!(
        binary("mul", &[i64::MIN, i64::MAX], &[-1, i64::MAX]),
        [i64::MIN, 1]
    );
    assert_eq!(unary("neg", &[i8::MIN, 5]), [i8::MIN, -5]);
    assert_eq!(unary("neg", &[1u32, 0]), [u32::MAX, 0]);
    assert_eq!(unary("abs", &[i64::MIN, -5, 5]), [i64::MIN, 5, 5]);
    assert_eq!(unary("abs", &[u8::MAX, 3]), [u8::MAX, 3]);
    assert_eq!(unary("not", &[0i16, -1, 5]), [-1, 0, -6]);
    assert_eq!(unary("not", &[0u8, 0xf0]), [0xff, 0x0f]);
}

#[test]
fn integer_division_truncates() {
    assert_eq!(
        binary("div", &[7i32, -7, 7, -7], &[2, 2, -2, -2]),
        [3, -3, -3, 3]
    );
    assert_eq!(
        binary("rem", &[7i32, -7, 7, -7], &[2, 2, -2, -2]),
        [1, -1, 1, -1]
    );
    assert_eq!(binary("div", &[u64::MAX], &[2]), [u64::MAX / 2]);
    assert_eq!(binary("rem", &[u64::MAX], &[10]), [5]);
}

#[test]
fn bits_of_integers() {
    assert_eq!(binary("and", &[0b1100u8], &[0b1010]), [0b1000]);
    assert_eq!(binary("or", &[0b1100u8], &[0b1010]), [0b1110]);
    assert_eq!(binary("xor", &[-1i8], &[0b1010]), [-11]);
    assert_eq!(binary("shl", &[1i8, 1, -1], &[7, 3, 1]), [i8::MIN, 8, -2]);
    assert_eq!(binary("shl", &[u64::MAX], &[63]), [1 << 63]);
    assert_eq!(binary("shr", &[-8i32, 8], &[1, 1]), [-4, 4]);
    assert_eq!(binary("shr", &[0x80u8], &[7]), [1]);
}

#[test]
fn order_of_integers() {
    assert_eq!(binary("min", &[-1i64, 3], &[1, 2]), [-1, 2]);
    assert_eq!(binary("max", &[-1i64, 3], &[1, 2]), [1, 3]);
    assert_eq!(binary("min", &[u64::MAX], &[1]), [1]);
    assert_eq!(
        compare("lt", &[-1i8, 1, 0], &[0, 0, 0]),
        [true, false, false]
    );
    assert_eq!(compare("lt", &[u8::MAX, 0], &[0, u8::MAX]), [false, true]);
    assert_eq!(compare("ge", &[u64::MAX, 0], &[0, 0]), [true, true]);
}

#[test]
fn comparisons_with_nan_are_false_but_ne() {
    let a = [1.0, 2.0, 2.0, f64::NAN, -0.0];
    let b = [2.0, 2.0, 1.0, 1.0, 0.0];
    let expect =
        |op, results: [u8; 5]| assert_eq!(compare(op, &a, &b), results.map(|r| r == 1), "{op}");
    expect("eq", [0, 1, 0, 0, 1]);
    expect("ne", [1, 0, 1, 1, 0]);
    expect("lt", [1, 0, 0, 0, 0]);
    expect("le", [1, 1, 0, 0, 1]);
    expect("gt", [0, 0, 1, 0, 0]);
    expect("ge", [0, 1, 1, 0, 1]);
    assert_eq!(
        compare("lt", &[1.0f32, f32::NAN], &[2.0, 2.0]),
        [true, false]
    );
}

#[test]
fn floats_follow_ieee() {
    assert_eq!(binary("add", &[0.1], &[0.2]), [0.300_000_000_000_000_04]);
    assert_eq!(binary("sub", &[1.0], &[1e-17]), [1.0]);
    assert_eq!(
        binary("div", &[1.0, -1.0], &[0.0, 0.0]),
        [f64::INFINITY, f64::NEG_INFINITY]
    );
    assert_eq!(unary("sqrt", &[2.0, 0.25]), [std::f64::consts::SQRT_2, 0.5]);
    assert_eq!(unary("floor", &[-0.5, 1.5]), [-1.0, 1.0]);
    assert_eq!(bits_of(&unary("ceil", &[-0.5, 1.5])), bits_of(&[-0.0, 2.0]));
    assert_eq!(unary("trunc", &[-1.5, 1.5]), [-1.0, 1.0]);
    assert_eq!(
        unary("round", &[0.5, 1.5, 2.5, -2.6]),
        [0.0, 2.0, 2.0, -3.0]
    );
    assert_eq!(bits_of(&unary("neg", &[0.0, -1.0])), bits_of(&[-0.0, 1.0]));
    assert_eq!(bits_of(&unary("abs", &[-0.0, -1.0])), bits_of(&[0.0, 1.0]));
}

#[test]
fn singles_round_to_their_own_precision() {
    assert_eq!(binary("add", &[16_777_216.0f32], &[1.0]), [16_777_216.0]);
    assert_eq!(binary("mul", &[0.1f32], &[0.1]), [0.1f32 * 0.1]);
    assert_eq!(binary("div", &[1.0f32], &[3.0]), [1.0f32 / 3.0]);
    assert_eq!(unary("sqrt", &[2.0f32]), [std::f32::consts::SQRT_2]);
    assert_eq!(unary("round", &[2.5f32]), [2.0]);
}

#[test]
fn conversions_wrap_round_and_truncate() {
    assert_eq!(retyped::<i64, i8>("convert", &[300, -1]), [44, -1]);
    assert_eq!(retyped::<i8, u64>("convert", &[-1]), [u64::MAX]);
    assert_eq!(retyped::<u8, i64>("convert", &[0xff]), [255]);
    assert_eq!(
        retyped::<i64, f64>("convert", &[-3, i64::MAX]),
        [-3.0, 2f64.powi(63)]
    );
    assert_eq!(retyped::<u64, f32>("convert", &[u64::MAX]), [2f32.powi(64)]);
    assert_eq!(retyped::<u64, f64>("convert", &[1 << 63]), [2f64.powi(63)]);
    assert_eq!(
        retyped::<f64, f32>("convert", &[0.1, 1e300]),
        [0.1, f32::INFINITY]
    );
    assert_eq!(retyped::<f32, f64>("convert", &[0.1]), [f64::from(0.1f32)]);
    assert_eq!(retyped::<f64, i32>("convert", &[-1.9, 1.9]), [-1, 1]);
    assert_eq!(
        retyped::<f64, u64>("convert", &[1.8e19]),
        [18_000_000_000_000_000_000]
    );
    let bools = [("bool", Column::bools(&[true, false]))];
    assert_eq!(results("convert %0: i16", &bools).get::<i16>(), [1, 0]);
    assert_eq!(results("convert %0: f32", &bools).get::<f32>(), [1.0, 0.0]);
}

#[test]
fn bits_keep_their_pattern() {
    assert_eq!(
        retyped::<f64, u64>("bits_of", &[-0.0, 1.0]),
        [1 << 63, 0x3ff0 << 48]
    );
    assert_eq!(retyped::<f32, i32>("bits_of", &[-0.0]), [i32::MIN]);
    assert_eq!(retyped::<i32, f32>("bits_of", &[0x3f80_0000]), [1.0]);
    assert_eq!(retyped::<i8, u8>("bits_of", &[-1]), [255]);
}

#[test]
fn select_takes_either_branch() {
    let columns = [
        ("bool", Column::bools(&[true, false, true])),
        ("i16", Column::new(&[1i16, 2, 3])),
        ("i16", Column::new(&[-1i16, -2, -3])),
    ];
    assert_eq!(
        results("select %0, %1, %2", &columns).get::<i16>(),
        [1, -2, 3]
    );
}

#[test]
fn bools_are_bits_and_rows_past_the_end_stay() {
    let a: Vec<_> = (0..10).map(|i| i % 2 == 0).collect();
    let b: Vec<_> = (0..10).map(|i| i % 3 == 0).collect();
    let both = |inst: &str| {
        let columns = [("bool", Column::bools(&a)), ("bool", Column::bools(&b))];
        results(inst, &columns)
    };
    let expect = |f: fn(i32) -> bool| (0..10).map(f).collect::<Vec<_>>();
    assert_eq!(both("and %0, %1").get_bools(), expect(|i| i % 6 == 0));
    assert_eq!(
        both("or %0, %1").get_bools(),
        expect(|i| i % 2 == 0 || i % 3 == 0)
    );
    assert_eq!(
        both("xor %0, %1").get_bools(),
        expect(|i| (i % 2 == 0) != (i % 3 == 0))
    );
    let not = both("not %0");
    assert_eq!(not.get_bools(), expect(|i| i % 2 == 1));
    // The target was all ones.
    assert_eq!(not.words[0] >> 10, u64::MAX >> 10);
    let flipped = both("select %1, %0, %1").get_bools();
    assert_eq!(flipped, expect(|i| i % 6 == 0));
}

#[test]
fn an_index_names_elements_and_validity_belongs_to_rows() {
    let text = "loop l lanes 8 {
        access x: i32 index nullable access b: bool index
        %0 = load x %1 = valid x %2 = load b store %0 if %1, %2
    }";
    let call = Call {
        columns: &[
            Column::new(&[10, 20, 30])
                .by(&[2, 2, 0, 1])
                .valid_if(&[true, false, true, true]),
            Column::bools(&[true, false]).by(&[1, 0, 0, 1]),
        ],
        rows: 4,
        ..Call::default()
    };
    let columns = run(text, &call).columns;
    assert_eq!(columns[0].get::<i32>(), [30, 30, 10, 20]);
    assert_eq!(unpacked(&columns[0].validity, 4), [true, false, true, true]);
    assert_eq!(columns[1].get_bools(), [false, true, true, false]);
}

#[test]
fn a_table_is_read_where_a_value_says() {
    let text = "loop l lanes 8 {
        access t: u16 table access b: bool table access i: i64 row
        %0 = load i %1 = lookup t[%0] %2 = lookup b[%0] store %1, %2
    }";
    let bits: Vec<_> = (0..12).map(|i| i == 11).collect();
    let call = Call {
        columns: &[
            Column::new(&[7u16, 8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 65_535]),
            Column::bools(&bits),
            Column::new(&[11i64, 0, 2]),
        ],
        rows: 3,
        ..Call::default()
    };
    let columns = run(text, &call).columns;
    assert_eq!(columns[0].get::<u16>(), [65_535, 7, 9]);
    assert_eq!(columns[1].get_bools(), [true, false, false]);
}

#[test]
fn a_recurrence_reads_what_earlier_rows_stored() {
    for by in ["row", "back 1"] {
        decay(by);
    }
}

#[test]
#[should_panic(expected = "this is not what the loop stored before")]
fn what_is_read_back_is_what_was_stored() {
    decay("back 2");
}

fn decay(by: &str) {
    let l = parsed(&format!(
        "loop decay lanes 1 {{
           access x: f64 row access before: f64 {by}
           %0 = load x %1 = load before %2 = const 0.5: f64 %3 = mul %1, %2 %4 = add %3, %0
           store %4
         }}"
    ));
    verify(&l).unwrap();
    let x = Column::new(&[1.0, 1.0, 1.0, 1.0]);
    // The first element is the value before row 0.
    let mut y = [8.0, 0.0, 0.0, 0.0, 0.0];
    let y_start: *mut u8 = y.as_mut_ptr().cast();
    let views = [x.view(), view(y_start, 0, 5)];
    let target = target(y_start.wrapping_add(8), 4);
    let args = Args {
        views: views.as_ptr(),
        targets: &raw const target,
        rows: 4,
        ..NOTHING
    };
    // SAFETY: both views and the target lie in arrays of the stated lengths.
    unsafe { interpret(&l, &raw const args) };
    assert_eq!(y, [8.0, 5.0, 3.5, 2.75, 2.375]);
}

extern "C" fn none() -> f32 {
    1.5
}
extern "C" fn one(a: f32) -> i64 {
    a as i64
}
extern "C" fn two(a: i64, b: f64) -> f64 {
    a as f64 - b
}
extern "C" fn three(a: f64, b: i64, c: f32) -> f32 {
    a as f32 + b as f32 * c
}

#[test]
fn calls_pass_every_type_in_its_place() {
    let [i, f, d] = [
        Imm::int(Ty::I64, -2),
        Imm::float(Ty::F32, 2.5),
        Imm::float(Ty::F64, 0.25),
    ];
    let call = |code: *const (), operands: &[Imm], result| {
        let params: Vec<_> = operands.iter().map(|imm| imm.ty).collect();
        let words: Vec<_> = operands.iter().map(|imm| imm.bits).collect();
        // SAFETY: each function is called with its own types.
        let bits = unsafe { call_at(code, &params, result, &words) };
        Imm { ty: result, bits }
    };
    let single = |value| Imm::float(Ty::F32, value);
    assert_eq!(call(none as *const (), &[], Ty::F32), single(1.5));
    assert_eq!(call(one as *const (), &[f], Ty::I64), Imm::int(Ty::I64, 2));
    assert_eq!(
        call(two as *const (), &[i, d], Ty::F64),
        Imm::float(Ty::F64, -2.25)
    );
    assert_eq!(call(three as *const (), &[d, i, f], Ty::F32), single(-4.75));
}
