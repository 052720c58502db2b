//! Division by what is the same for all rows.
//!
//! A vector division takes the time of a dozen multiplications. With the reciprocal of the divisor `n` as two doubles, `h` rounded and `l` the rest of it
//! rounded, the quotient `x/n` is
//!
//! ```text
//! u = x·l    q = x·h + u        (the second one operation, rounded once)
//! ```
//!
//! Before it is rounded `q` is off by less than 2^-51 units in its last place: `l` and `u` are off by 2^-53 of themselves, and both are 2^-53 of the
//! whole. Let `n` have no more than 41 significant bits, `n = N·2^s`. In units of `q`'s last place `x/n` is an integer over `N`, so it is either
//! halfway between two doubles or off from there by 1/2N at least, 2^-42, which is more. Nor is it ever halfway: `N` times an odd number of 54 bits has
//! at least as many, and `x` has 53. So `q` is the correctly rounded quotient (Brisebarre and Muller 2008 on multiplication by constants).
//!
//! This holds while nothing leaves the normal numbers, and a zero would lose its sign: elsewhere the group is divided. What was an integer is never
//! that small or large, nor is it -0, so only the divisor is looked at. Division by a constant power of two is one exact multiplication, which LLVM knows.
//!
//! Two of the three divisions of a kurtosis over 1000 samples, done so or not: 0.98 and 0.92 of the time of its scans on an EPYC (AVX2).

use super::{Emitter, Value};
use crate::lir::{Inst, Lanes, Ty, ValueId};

/// The function `quotient`. Magnitudes of `x` go from 2^-900 to below 2^900, divisors from 1 to 2^53, their last twelve bits zero.
pub(super) fn definition(masks: bool) -> String {
    QUOTIENT.replace("{usual}", if masks { WHOLE } else { HIGH })
}

/// Magnitudes are compared as doubled bits less 2^63, so that the sign is gone.
const WHOLE: &str = "
  %bits = bitcast <8 x double> %x to <8 x i64>
  %twice = shl <8 x i64> %bits, splat (i64 1)
  %above = sub <8 x i64> %twice, splat (i64 -8115486528521633792)
  %usual = icmp slt <8 x i64> %above, splat (i64 6989586621679009792)";

/// The same of the upper halves of the words, which decide, in one vector; lanes are in the order in which AVX2 brings them together.
const HIGH: &str = "
  %words = bitcast <8 x double> %x to <16 x i32>
  %bits = shufflevector <16 x i32> %words, <16 x i32> poison, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %twice = shl <8 x i32> %bits, splat (i32 1)
  %above = sub <8 x i32> %twice, splat (i32 -1889533952)
  %usual = icmp slt <8 x i32> %above, splat (i32 1627389952)";

const QUOTIENT: &str = "
define private <8 x double> @quotient(<8 x double> %x, <8 x double> %n, i1 %integer) alwaysinline nounwind {
  %h = fdiv <8 x double> splat (double 1.0), %n
  %minus = fneg <8 x double> %h
  %rest = call <8 x double> @llvm.fma.v8f64(<8 x double> %minus, <8 x double> %n, <8 x double> splat (double 1.0))
  %l = fdiv <8 x double> %rest, %n
  %digits = bitcast <8 x double> %n to <8 x i64>
  %last = and <8 x i64> %digits, splat (i64 4095)
  %few = icmp eq <8 x i64> %last, zeroinitializer
  %one = fcmp oge <8 x double> %n, splat (double 1.0)
  %small = fcmp ole <8 x double> %n, splat (double 0x4340000000000000)
  %counts = and <8 x i1> %one, %small
  %fits = and <8 x i1> %counts, %few
  %fits.mask = bitcast <8 x i1> %fits to i8
  %fits.all = icmp eq i8 %fits.mask, -1
  br i1 %fits.all, label %look, label %divide, !prof !6
look:{usual}
  %mask = bitcast <8 x i1> %usual to i8
  %all = icmp eq i8 %mask, -1
  %safe = or i1 %all, %integer
  br i1 %safe, label %multiply, label %divide, !prof !6
multiply:
  %u = fmul <8 x double> %x, %l
  %product = call <8 x double> @llvm.fma.v8f64(<8 x double> %x, <8 x double> %h, <8 x double> %u)
  ret <8 x double> %product
divide:
  %q = fdiv <8 x double> %x, %n
  ret <8 x double> %q
}
";

/// Without AVX-512 a division of eight doubles is two instructions of thirteen cycles: longer loops hide that, while they would wait for the dozen
/// instructions that it takes to tell whether multiplications will do.
const LONG: usize = 64;

impl Emitter<'_> {
    /// `a / b` of doubles, if the divisor allows multiplications instead.
    pub(super) fn quotient(
        &mut self,
        (a, dividend): (&str, ValueId),
        (b, divisor): (&str, ValueId),
    ) -> Option<Value> {
        let was_integer = match self.lp.values[dividend].inst {
            Inst::Convert(from) => self.lp.ty(from).is_int(),
            _ => false,
        };
        let applies = self.fuses
            && self.lanes == Lanes::Eight
            && self.lp.ty(divisor) == Ty::F64
            && self.lp.is_invariant(divisor)
            && !self.is_power_of_two(divisor)
            && (self.masks || self.lp.values.len() <= LONG);
        applies.then(|| {
            self.def(format_args!(
                "call <8 x double> @quotient(<8 x double> {a}, <8 x double> {b}, i1 {was_integer})"
            ))
        })
    }

    /// Whether a double is a constant without a digit after the first.
    fn is_power_of_two(&self, value: ValueId) -> bool {
        matches!(self.lp.values[value].inst, Inst::Const(imm) if imm.bits << 12 == 0)
    }
}
