//! Division by what is the same for all rows.
//!
//! A vector division takes the time of a dozen multiplications. With the reciprocal `r` of the divisor `n`, rounded, the quotient `x/n` is the last of
//!
//! ```text
//! q0 = x·r    q1 = q0 + (x - q0·n)·r    q2 = q1 + (x - q1·n)·r
//! ```
//!
//! each remainder and each sum being one fused operation. `q0` is off by less than 1.5 units in the last place, `q1` by less than one; for such a
//! `q1`, and `r` correctly rounded, `q2` is `x/n` correctly rounded (Markstein 1990, Muller et al., Handbook of Floating-Point Arithmetic, 4.7). This
//! holds while nothing leaves the normal numbers, and a zero would lose its sign: elsewhere the group is divided.

use super::{Emitter, Value};
use crate::lir::{Lanes, Ty, ValueId};

/// Magnitudes of `x` from 2^-900 to below 2^900, and divisors from 1 to 2^53.
pub(super) const QUOTIENT: &str = r#"
define private <8 x double> @quotient(<8 x double> %x, <8 x double> %n) alwaysinline nounwind {
  %r = fdiv <8 x double> splat (double 1.0), %n
  %bits = bitcast <8 x double> %x to <8 x i64>
  %magnitude = and <8 x i64> %bits, splat (i64 9223372036854775807)
  %above = sub <8 x i64> %magnitude, splat (i64 553942754166571008)
  %usual = icmp ult <8 x i64> %above, splat (i64 8106479329266892800)
  %one = fcmp oge <8 x double> %n, splat (double 1.0)
  %small = fcmp ole <8 x double> %n, splat (double 0x4340000000000000)
  %counts = and <8 x i1> %one, %small
  %safe = and <8 x i1> %usual, %counts
  %mask = bitcast <8 x i1> %safe to i8
  %all = icmp eq i8 %mask, -1
  br i1 %all, label %multiply, label %divide, !prof !6
multiply:
  %q0 = fmul <8 x double> %x, %r
  %minus0 = fneg <8 x double> %q0
  %e0 = call <8 x double> @llvm.fma.v8f64(<8 x double> %minus0, <8 x double> %n, <8 x double> %x)
  %q1 = call <8 x double> @llvm.fma.v8f64(<8 x double> %e0, <8 x double> %r, <8 x double> %q0)
  %minus1 = fneg <8 x double> %q1
  %e1 = call <8 x double> @llvm.fma.v8f64(<8 x double> %minus1, <8 x double> %n, <8 x double> %x)
  %q2 = call <8 x double> @llvm.fma.v8f64(<8 x double> %e1, <8 x double> %r, <8 x double> %q1)
  ret <8 x double> %q2
divide:
  %q = fdiv <8 x double> %x, %n
  ret <8 x double> %q
}
!6 = !{!"branch_weights", i32 1000, i32 1}
"#;

impl Emitter<'_> {
    /// `a / b` of doubles, if the divisor allows multiplications instead.
    pub(super) fn quotient(&mut self, a: &str, b: &str, divisor: ValueId) -> Option<Value> {
        let applies = self.fuses
            && self.lanes == Lanes::Eight
            && self.lp.ty(divisor) == Ty::F64
            && self.lp.is_invariant(divisor);
        applies.then(|| {
            self.def(format_args!(
                "call <8 x double> @quotient(<8 x double> {a}, <8 x double> {b})"
            ))
        })
    }
}
