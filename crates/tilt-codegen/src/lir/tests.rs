//! Tests of the text form, the verifier and the interpreter.

use super::{Loop, parse};

mod harness;
mod reductions;
mod refusals;
mod rules;
mod runs;
mod text;

/// The text with every keyword, type and instruction.
const EVERYTHING: &str = "\
loop everything lanes 8 {
  access price: f64 row
  access late: i32 row nullable
  access held: f32 index nullable
  access flag: bool row
  access `a ``table``: x`: u16 table
  param scale: f64
  param if: i64
  %0 = load price
  %1 = param scale
  %2 = param if
  %3 = row
  %4 = load late
  %5 = valid late
  %6 = load held
  %7 = valid held
  %8 = load flag
  %9 = lookup `a ``table``: x`[%3]
  %10 = const 1.5: f64
  %11 = const -7: i32
  %12 = const true: bool
  %13 = const 18446744073709551615: u64
  %14 = neg %0
  %15 = not %8
  %16 = abs %4
  %17 = sqrt %6
  %18 = floor %0
  %19 = ceil %0
  %20 = trunc %0
  %21 = round %0
  %22 = add %0, %1
  %23 = sub %22, %10
  %24 = mul %23, %1
  %25 = div %24, %10
  %26 = rem %4, %11
  %27 = and %5, %7
  %28 = or %27, %12
  %29 = xor %28, %15
  %30 = shl %4, %11
  %31 = shr %4, %11
  %32 = min %30, %31
  %33 = max %32, %16
  %34 = eq %2, %3
  %35 = ne %0, %1
  %36 = lt %0, %1
  %37 = le %0, %1
  %38 = gt %0, %1
  %39 = ge %0, %1
  %40 = select %34, %25, %0
  %41 = convert %40: i8
  %42 = bits_of %40: u64
  %43 = call tilt_pow(%40: f64, %1: f64): f64
  %44 = call `no operands`(): i64
  streaming store %43 if %29, %42, %8 if %12
}
";

fn parsed(text: &str) -> Loop {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
