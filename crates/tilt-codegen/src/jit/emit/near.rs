//! Elements by index that lie near each other.
//!
//! A gather loads its elements one by one. Rows that follow each other mostly read elements that do so, too (of streams with other periods, of both sides of a
//! join, at the ends of windows). So a group asks first whether all that it reads lies among a few elements from its first one on, and whether these can all be read:
//! then they are vectors of neighbours and a shuffle.

use super::{Emitter, Value};
use crate::lir::Ty;

/// What the CPU shuffles by a vector of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Shuffles {
    /// Nothing.
    None,
    /// Lanes of 32 bits of one vector (AVX2).
    One,
    /// Lanes of 32 or 64 bits of two vectors (AVX-512).
    Two,
}

/// Defines `@near32` and `@near64`: the elements of 32 or 64 bits that an index names of those that can be read.
pub(super) fn definitions(shuffles: Shuffles) -> String {
    match shuffles {
        Shuffles::None => String::new(),
        Shuffles::One => [function(32, 16, ONE_32), function(64, 8, ONE_64)].concat(),
        Shuffles::Two => [function(32, 16, TWO_32), function(64, 16, TWO_64)].concat(),
    }
}

/// A function that reads `span` elements from a group's first one on, or from that of each half on, if each has its own.
fn function(bits: u32, span: u32, shuffle: &str) -> String {
    let (firsts, second) = if span < 16 {
        ("i32 4, i32 4, i32 4, i32 4", 4)
    } else {
        ("i32 0, i32 0, i32 0, i32 0", 0)
    };
    let bytes = bits / 8;
    format!(
        "
define private <8 x i{bits}> @near{bits}(ptr %values, i64 %len, <8 x i32> %index) alwaysinline nounwind {{
  %firsts = shufflevector <8 x i32> %index, <8 x i32> poison, <8 x i32> <i32 0, i32 0, i32 0, i32 0, {firsts}>
  %ahead = sub <8 x i32> %index, %firsts
  %close = icmp ult <8 x i32> %ahead, splat (i32 {span})
  %mask = bitcast <8 x i1> %close to i8
  %all = icmp eq i8 %mask, -1
  %a = extractelement <8 x i32> %index, i64 0
  %b = extractelement <8 x i32> %index, i64 {second}
  %a.wide = zext i32 %a to i64
  %b.wide = zext i32 %b to i64
  %last = call i64 @llvm.umax.i64(i64 %a.wide, i64 %b.wide)
  %end = add i64 %last, {span}
  %there = icmp ule i64 %end, %len
  %near = and i1 %all, %there
  br i1 %near, label %shuffle, label %gather, !prof !6
shuffle:
  %a.at = getelementptr i{bits}, ptr %values, i64 %a.wide
  %b.at = getelementptr i{bits}, ptr %values, i64 %b.wide
{shuffle}
  ret <8 x i{bits}> %shuffled
gather:
  %wide = zext <8 x i32> %index to <8 x i64>
  %each = getelementptr i{bits}, ptr %values, <8 x i64> %wide
  %gathered = call <8 x i{bits}> @llvm.masked.gather.v8i{bits}.v8p0(<8 x ptr> %each, i32 {bytes}, <8 x i1> splat (i1 true), <8 x i{bits}> poison), !alias.scope !3, !noalias !4
  ret <8 x i{bits}> %gathered
}}
"
    )
}

const TWO_32: &str = "\
  %c.at = getelementptr i32, ptr %a.at, i64 8
  %low = load <8 x i32>, ptr %a.at, align 4, !alias.scope !3, !noalias !4
  %high = load <8 x i32>, ptr %c.at, align 4, !alias.scope !3, !noalias !4
  %shuffled = call <8 x i32> @llvm.x86.avx512.vpermi2var.d.256(<8 x i32> %low, <8 x i32> %ahead, <8 x i32> %high)";

const TWO_64: &str = "\
  %c.at = getelementptr i64, ptr %a.at, i64 8
  %low = load <8 x i64>, ptr %a.at, align 8, !alias.scope !3, !noalias !4
  %high = load <8 x i64>, ptr %c.at, align 8, !alias.scope !3, !noalias !4
  %lanes = zext <8 x i32> %ahead to <8 x i64>
  %shuffled = call <8 x i64> @llvm.x86.avx512.vpermi2var.q.512(<8 x i64> %low, <8 x i64> %lanes, <8 x i64> %high)";

const ONE_32: &str = "\
  %c.at = getelementptr i32, ptr %a.at, i64 8
  %low = load <8 x i32>, ptr %a.at, align 4, !alias.scope !3, !noalias !4
  %high = load <8 x i32>, ptr %c.at, align 4, !alias.scope !3, !noalias !4
  %of.low = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %low, <8 x i32> %ahead)
  %of.high = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %high, <8 x i32> %ahead)
  %beyond = icmp ugt <8 x i32> %ahead, splat (i32 7)
  %shuffled = select <8 x i1> %beyond, <8 x i32> %of.high, <8 x i32> %of.low";

/// Lanes of 64 bits are two of 32.
const ONE_64: &str = "\
  %a.at.high = getelementptr i64, ptr %a.at, i64 4
  %b.at.high = getelementptr i64, ptr %b.at, i64 4
  %a.low = load <8 x i32>, ptr %a.at, align 8, !alias.scope !3, !noalias !4
  %a.high = load <8 x i32>, ptr %a.at.high, align 8, !alias.scope !3, !noalias !4
  %b.low = load <8 x i32>, ptr %b.at, align 8, !alias.scope !3, !noalias !4
  %b.high = load <8 x i32>, ptr %b.at.high, align 8, !alias.scope !3, !noalias !4
  %twice = shl <8 x i32> %ahead, splat (i32 1)
  %a.even = shufflevector <8 x i32> %twice, <8 x i32> poison, <8 x i32> <i32 0, i32 0, i32 1, i32 1, i32 2, i32 2, i32 3, i32 3>
  %b.even = shufflevector <8 x i32> %twice, <8 x i32> poison, <8 x i32> <i32 4, i32 4, i32 5, i32 5, i32 6, i32 6, i32 7, i32 7>
  %a.lanes = or <8 x i32> %a.even, <i32 0, i32 1, i32 0, i32 1, i32 0, i32 1, i32 0, i32 1>
  %b.lanes = or <8 x i32> %b.even, <i32 0, i32 1, i32 0, i32 1, i32 0, i32 1, i32 0, i32 1>
  %a.of.low = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %a.low, <8 x i32> %a.lanes)
  %a.of.high = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %a.high, <8 x i32> %a.lanes)
  %b.of.low = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %b.low, <8 x i32> %b.lanes)
  %b.of.high = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %b.high, <8 x i32> %b.lanes)
  %a.beyond = icmp ugt <8 x i32> %a.lanes, splat (i32 7)
  %b.beyond = icmp ugt <8 x i32> %b.lanes, splat (i32 7)
  %a.words = select <8 x i1> %a.beyond, <8 x i32> %a.of.high, <8 x i32> %a.of.low
  %b.words = select <8 x i1> %b.beyond, <8 x i32> %b.of.high, <8 x i32> %b.of.low
  %words = shufflevector <8 x i32> %a.words, <8 x i32> %b.words, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %shuffled = bitcast <16 x i32> %words to <8 x i64>";

impl Emitter<'_> {
    /// The elements at `base[index]`, of which `len` can be read, if the CPU shuffles those of the type. The index is of type `u32`.
    pub(super) fn near(&mut self, ty: Ty, base: &str, len: &str, index: &str) -> Option<Value> {
        let bits = ty.bits();
        if self.shuffles == Shuffles::None || bits < 32 {
            return None;
        }
        let found = self.def(format_args!(
            "call <8 x i{bits}> @near{bits}(ptr {base}, i64 {len}, <8 x i32> {index})"
        ));
        if !ty.is_float() {
            return Some(found);
        }
        let vector = self.ty(ty);
        Some(self.def(format_args!("bitcast <8 x i{bits}> {found} to {vector}")))
    }
}
