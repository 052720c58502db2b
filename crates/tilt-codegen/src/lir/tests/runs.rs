//! What loops compute, by the interpreter that checks every access.

use crate::lir::Sink;
use std::ptr;

use super::parsed;
use crate::{
    abi::{Args, Target, View},
    lir::{Imm, Ty, interp::call_at, interpret, verify},
};

/// A Rust type with its name in the text.
trait Element: Copy + PartialEq + std::fmt::Debug {
    const TY: &str;
}

macro_rules! elements {
    ($($ty:ident),*) => { $(impl Element for $ty { const TY: &str = stringify!($ty); })* };
}
elements!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// A column in memory.
#[derive(Clone, Default)]
struct Column {
    /// Aligned for every type.
    words: Vec<u64>,
    validity: Vec<u8>,
    index: Vec<u32>,
    len: u64,
}

fn packed(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |b, bit| b << 1 | u8::from(*bit));
    bits.chunks(8).map(byte).collect()
}

fn unpacked(bytes: &[u8], len: usize) -> Vec<bool> {
    (0..len).map(|i| bytes[i / 8] >> (i % 8) & 1 == 1).collect()
}

impl Column {
    fn new<T: Element>(values: &[T]) -> Self {
        let mut words = vec![0; size_of_val(values).div_ceil(8)];
        // SAFETY: the words have room for the values.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), words.as_mut_ptr().cast(), values.len());
        }
        let len = values.len() as u64;
        Self {
            words,
            len,
            ..Self::default()
        }
    }

    fn bools(values: &[bool]) -> Self {
        let len = values.len() as u64;
        Self {
            len,
            ..Self::new(&packed(values))
        }
    }

    fn valid_if(self, bits: &[bool]) -> Self {
        Self {
            validity: packed(bits),
            ..self
        }
    }

    fn by(self, index: &[u32]) -> Self {
        Self {
            index: index.to_vec(),
            ..self
        }
    }

    fn get<T: Element>(&self) -> Vec<T> {
        assert!(self.len as usize * size_of::<T>() <= self.words.len() * 8);
        let values: *const T = self.words.as_ptr().cast();
        // SAFETY: the words hold as many values, and any bits are a number.
        (0..self.len as usize)
            .map(|i| unsafe { *values.add(i) })
            .collect()
    }

    fn get_bools(&self) -> Vec<bool> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        unpacked(&bytes, self.len as usize)
    }

    fn view(&self) -> View {
        let or_null = |bytes: &[u8]| {
            if bytes.is_empty() {
                ptr::null()
            } else {
                bytes.as_ptr()
            }
        };
        View {
            values: self.words.as_ptr().cast(),
            validity: or_null(&self.validity),
            index: if self.index.is_empty() {
                ptr::null()
            } else {
                self.index.as_ptr()
            },
            lead: 0,
            len: self.len,
        }
    }
}

/// Arguments without anything.
const NOTHING: Args = Args {
    views: ptr::null(),
    targets: ptr::null(),
    params: ptr::null(),
    state: ptr::null_mut(),
    ranges: ptr::null(),
    first: 0,
    rows: 0,
    ahead: ptr::null(),
    step: 0,
};

/// A view of plain values.
fn view(values: *const u8, lead: u64, len: u64) -> View {
    View {
        values,
        validity: ptr::null(),
        index: ptr::null(),
        lead,
        len,
    }
}

/// A target of plain values.
fn target(values: *mut u8, len: u64) -> Target {
    Target {
        values,
        validity: ptr::null_mut(),
        len,
    }
}

/// What a loop is run with besides its text.
#[derive(Default)]
struct Call<'a> {
    columns: &'a [Column],
    params: &'a [Imm],
    state: &'a [u64],
    ranges: &'a [[i64; 2]],
    first: i64,
    rows: usize,
}

struct Outcome {
    columns: Vec<Column>,
    state: Vec<u64>,
}

fn run(text: &str, call: &Call) -> Outcome {
    let l = parsed(text);
    verify(&l).unwrap_or_else(|error| panic!("{error}"));
    let rows = call.rows.max(call.ranges.len());
    let blank = Column {
        words: vec![u64::MAX; rows],
        validity: vec![0xff; rows.div_ceil(8)],
        len: rows as u64,
        ..Column::default()
    };
    let mut columns = vec![blank; l.targets().len()];
    let targets: Vec<_> = columns
        .iter_mut()
        .map(|column| Target {
            values: column.words.as_mut_ptr().cast(),
            validity: column.validity.as_mut_ptr(),
            len: column.len,
        })
        .collect();
    let views: Vec<_> = call.columns.iter().map(Column::view).collect();
    assert_eq!(
        (views.len(), call.params.len()),
        (l.accesses.len(), l.params.len())
    );
    let params: Vec<_> = call.params.iter().map(|imm| imm.bits).collect();
    let mut state = call.state.to_vec();
    // A scan of all rows, unless ranges are given.
    let all = [[0, rows as i64]];
    let ranges = match l.sink {
        Sink::Scan { .. } if call.ranges.is_empty() => &all[..],
        _ => call.ranges,
    };
    let stores = matches!(l.sink, Sink::Store { .. } | Sink::Panes { .. });
    let args = Args {
        views: views.as_ptr(),
        targets: targets.as_ptr(),
        params: params.as_ptr(),
        state: state.as_mut_ptr(),
        ranges: ranges.as_ptr().cast(),
        first: call.first,
        rows: if stores { rows } else { ranges.len() } as u64,
        ahead: ptr::null(),
        step: 0,
    };
    // SAFETY: there is a view for each access, a target for each column and a word for each parameter; the lengths are true.
    unsafe { interpret(&l, &raw const args) };
    Outcome { columns, state }
}

/// Runs an instruction over columns whose values are `%0`, `%1` … and gives its results.
fn results(inst: &str, columns: &[(&str, Column)]) -> Column {
    let n = columns.len();
    let mut text = String::from("loop l lanes 8 {");
    for (k, (ty, _)) in columns.iter().enumerate() {
        text.push_str(&format!(" access x{k}: {ty} row"));
    }
    for k in 0..n {
        text.push_str(&format!(" %{k} = load x{k}"));
    }
    text.push_str(&format!(" %{n} = {inst} store %{n} }}"));
    let columns: Vec<_> = columns.iter().map(|(_, column)| column.clone()).collect();
    let rows = columns[0].len as usize;
    let call = Call {
        columns: &columns,
        rows,
        ..Call::default()
    };
    run(&text, &call).columns.remove(0)
}

fn unary<T: Element>(op: &str, a: &[T]) -> Vec<T> {
    results(&format!("{op} %0"), &[(T::TY, Column::new(a))]).get()
}

fn binary<T: Element>(op: &str, a: &[T], b: &[T]) -> Vec<T> {
    let columns = [(T::TY, Column::new(a)), (T::TY, Column::new(b))];
    results(&format!("{op} %0, %1"), &columns).get()
}

fn compare<T: Element>(op: &str, a: &[T], b: &[T]) -> Vec<bool> {
    let columns = [(T::TY, Column::new(a)), (T::TY, Column::new(b))];
    results(&format!("{op} %0, %1"), &columns).get_bools()
}

fn retyped<A: Element, B: Element>(inst: &str, a: &[A]) -> Vec<B> {
    results(&format!("{inst} %0: {}", B::TY), &[(A::TY, Column::new(a))]).get()
}

fn bits_of(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

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
