//! Reading columns: vectors, bits, elements by index.

use tilt_ir::Id;

use super::{Emitter, Value, scalar};
use crate::lir::{AccessId, By, LANES, Lanes, Ty};

/// The rows that one evaluation of a body computes.
pub(super) struct Group {
    /// The row in lane 0, an `i64`. It may lie outside of what is to be computed.
    pub(super) base: Value,
    /// What may be read.
    pub(super) shape: Shape,
    /// Which lanes count, if not all.
    pub(super) live: Option<Live>,
}

/// What may be read for a group.
pub(super) enum Shape {
    /// One row, for loops of one lane.
    Single,
    /// Eight rows, the first a multiple of eight.
    Aligned,
    /// Eight rows.
    Whole,
    /// Only the live lanes.
    Partial {
        /// The first live row.
        first: Value,
        /// The last live row.
        last: Value,
        /// The lane of the first live row.
        skip: Value,
    },
}

/// The lanes of a group that count.
pub(super) struct Live {
    /// One bit a lane.
    pub(super) mask: Value,
    /// A lane that always counts.
    pub(super) anchor: usize,
}

impl Emitter<'_> {
    /// The rows `base ..` as a vector of `i64`, or the one row.
    pub(super) fn rows_from(&mut self, base: &str) -> Value {
        match self.lanes {
            Lanes::One => base.to_owned(),
            Lanes::Eight => {
                let base = self.splat(base, Ty::I64);
                self.def(format_args!(
                    "add <8 x i64> {base}, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>"
                ))
            }
        }
    }

    /// What an access gives for the rows of a group.
    pub(super) fn load(&mut self, id: AccessId, group: &Group) -> Value {
        let access = &self.lp.accesses[id];
        let (ty, by) = (access.ty, access.by);
        let values = format!("%values.{}", id.index());
        if by == By::Index {
            let column = format!("%index.{}", id.index());
            let index = self.load_rows(Ty::U32, &column, group);
            let index = self.tame(Ty::U32, &index, group);
            return self.load_by_index(id, &index);
        }
        if by == By::Range {
            return self.load_of_range(id);
        }
        self.check_rows(id, group);
        if let Some(rows) = self.kept(id) {
            return format!("%past.{rows}");
        }
        if ty == Ty::Bool {
            self.load_bits(&values, group)
        } else {
            self.load_rows(ty, &values, group)
        }
    }

    /// The validity bits of an access.
    pub(super) fn valid(&mut self, id: AccessId, group: &Group) -> Value {
        let bits = format!("%validity.{}", id.index());
        if self.lp.accesses[id].by == By::Range {
            let bit = self.load_bit(&bits, "%r");
            return self.splat(&bit, Ty::Bool);
        }
        self.load_bits(&bits, group)
    }

    /// The element of the range that a fold is at, in all lanes.
    fn load_of_range(&mut self, id: AccessId) -> Value {
        let ty = self.lp.accesses[id].ty;
        let values = format!("%values.{}", id.index());
        if self.checked {
            self.check_span(id, "%r", "%r");
        }
        let one = if ty == Ty::Bool {
            self.load_bit(&values, "%r")
        } else {
            let at = self.element(scalar(ty), &values, "%r");
            let (align, alias) = (ty.bytes(), self.reads());
            self.def(format_args!(
                "load {}, ptr {at}, align {align}{alias}",
                scalar(ty)
            ))
        };
        self.splat(&one, ty)
    }

    /// The elements of a column that an index names, of type `u32`.
    fn load_by_index(&mut self, id: AccessId, index: &str) -> Value {
        let ty = self.lp.accesses[id].ty;
        let (narrow, wide) = (self.ty(Ty::U32), self.ty(Ty::I64));
        let position = self.def(format_args!("zext {narrow} {index} to {wide}"));
        self.check_elements(id, &position);
        let near = if self.lanes == Lanes::Eight {
            let access = id.index();
            let (values, len) = (format!("%values.{access}"), format!("%len.{access}"));
            self.near(ty, &values, &len, index)
        } else {
            None
        };
        near.unwrap_or_else(|| self.elements(id, &position))
    }

    /// The elements of a column that `index` names (`i64`). A lane that does not count may hold any index: it reads with the anchor.
    pub(super) fn lookup(&mut self, id: AccessId, index: &str, group: &Group) -> Value {
        let index = self.tame(Ty::I64, index, group);
        self.check_elements(id, &index);
        self.elements(id, &index)
    }

    /// The elements of a column at `index` (`i64`).
    fn elements(&mut self, id: AccessId, index: &str) -> Value {
        let ty = self.lp.accesses[id].ty;
        let values = format!("%values.{}", id.index());
        if ty != Ty::Bool {
            return self.gather(ty, &values, index);
        }
        let wide = self.ty(Ty::I64);
        let three = self.constant(crate::lir::Imm::int(Ty::I64, 3));
        let seven = self.constant(crate::lir::Imm::int(Ty::I64, 7));
        let byte = self.def(format_args!("ashr {wide} {index}, {three}"));
        let byte = self.gather(Ty::U8, &values, &byte);
        let bytes = self.ty(Ty::U8);
        let bit = self.def(format_args!("and {wide} {index}, {seven}"));
        let bit = self.def(format_args!("trunc {wide} {bit} to {bytes}"));
        let shifted = self.def(format_args!("lshr {bytes} {byte}, {bit}"));
        let bools = self.ty(Ty::Bool);
        self.def(format_args!("trunc {bytes} {shifted} to {bools}"))
    }

    /// Replaces the indices of lanes that do not count by that of one that does.
    fn tame(&mut self, ty: Ty, index: &str, group: &Group) -> Value {
        let Some(Live { mask, anchor }) = &group.live else {
            return index.to_owned();
        };
        let safe = self.shuffle(ty, LANES, index, "poison", &[*anchor as u32; LANES]);
        let vector = self.ty(ty);
        self.def(format_args!(
            "select <8 x i1> {mask}, {vector} {index}, {vector} {safe}"
        ))
    }

    /// The elements at `base[index]`, not bools.
    fn gather(&mut self, ty: Ty, base: &str, index: &str) -> Value {
        let (element, align, alias) = (scalar(ty), ty.bytes(), self.reads());
        if self.lanes == Lanes::One {
            let at = self.element(element, base, index);
            return self.def(format_args!("load {element}, ptr {at}, align {align}"));
        }
        let (vector, suffix) = (self.ty(ty), self.mangled(ty));
        let at = self.def(format_args!(
            "getelementptr {element}, ptr {base}, <8 x i64> {index}"
        ));
        self.def(format_args!(
            "call {vector} @llvm.masked.gather.{suffix}.v8p0(<8 x ptr> {at}, i32 {align}, <8 x i1> splat (i1 true), {vector} poison){alias}"
        ))
    }

    /// The elements of the group's rows, not bools.
    fn load_rows(&mut self, ty: Ty, base: &str, group: &Group) -> Value {
        let at = self.element(scalar(ty), base, &group.base);
        // The vector's own alignment would be assumed otherwise.
        let (full, align, alias) = (self.ty(ty), ty.bytes(), self.reads());
        match (&group.shape, &group.live) {
            (Shape::Partial { .. }, Some(Live { mask, .. })) => {
                let suffix = self.mangled(ty);
                self.def(format_args!(
                    "call {full} @llvm.masked.load.{suffix}.p0(ptr {at}, i32 {align}, <8 x i1> {mask}, {full} zeroinitializer){alias}"
                ))
            }
            _ => self.def(format_args!("load {full}, ptr {at}, align {align}{alias}")),
        }
    }

    /// The bits of the group's rows in a bitmap.
    fn load_bits(&mut self, base: &str, group: &Group) -> Value {
        let row = group.base.clone();
        let byte = match &group.shape {
            Shape::Single => return self.load_bit(base, &row),
            Shape::Aligned => self.load_byte(base, &row),
            Shape::Whole => {
                let last = self.def(format_args!("add i64 {row}, 7"));
                self.load_window(base, &row, &last)
            }
            Shape::Partial { first, last, skip } => {
                let bits = self.load_window(base, first, last);
                let skip = self.def(format_args!("trunc i64 {skip} to i8"));
                self.def(format_args!("shl i8 {bits}, {skip}"))
            }
        };
        self.lanes_of(&byte)
    }

    /// The bits of a byte as lanes. Without registers of bits LLVM takes a byte apart bit by bit if its lanes are used in another block.
    fn lanes_of(&mut self, byte: &str) -> Value {
        if self.masks {
            return self.def(format_args!("bitcast i8 {byte} to <8 x i1>"));
        }
        let word = self.def(format_args!("zext i8 {byte} to i32"));
        let words = self.splat(&word, Ty::U32);
        let bits = self.def(format_args!(
            "and <8 x i32> {words}, <i32 1, i32 2, i32 4, i32 8, i32 16, i32 32, i32 64, i32 128>"
        ));
        self.def(format_args!("icmp ne <8 x i32> {bits}, zeroinitializer"))
    }

    /// The bit of one row.
    fn load_bit(&mut self, base: &str, row: &str) -> Value {
        let byte = self.load_byte(base, row);
        let bit = self.def(format_args!("trunc i64 {row} to i8"));
        let bit = self.def(format_args!("and i8 {bit}, 7"));
        let shifted = self.def(format_args!("lshr i8 {byte}, {bit}"));
        self.def(format_args!("trunc i8 {shifted} to i1"))
    }

    fn load_byte(&mut self, base: &str, row: &str) -> Value {
        let at = self.byte_of(base, row);
        let alias = self.reads();
        self.def(format_args!("load i8, ptr {at}, align 1{alias}"))
    }

    /// The bits of rows `first ..= last`, at most eight, from bit 0 on. Only bytes that hold one of them are read.
    fn load_window(&mut self, base: &str, first: &str, last: &str) -> Value {
        let low = self.load_byte(base, first);
        let high = self.load_byte(base, last);
        let low = self.def(format_args!("zext i8 {low} to i16"));
        let high = self.def(format_args!("zext i8 {high} to i16"));
        let high = self.def(format_args!("shl i16 {high}, 8"));
        let both = self.def(format_args!("or i16 {low}, {high}"));
        let shift = self.def(format_args!("trunc i64 {first} to i16"));
        let shift = self.def(format_args!("and i16 {shift}, 7"));
        let bits = self.def(format_args!("lshr i16 {both}, {shift}"));
        self.def(format_args!("trunc i16 {bits} to i8"))
    }

    fn check_rows(&mut self, id: AccessId, group: &Group) {
        if !self.checked {
            return;
        }
        let (first, last) = match &group.shape {
            Shape::Partial { first, last, .. } => (first.clone(), last.clone()),
            Shape::Single => (group.base.clone(), group.base.clone()),
            Shape::Aligned | Shape::Whole => {
                let last = self.def(format_args!("add i64 {}, 7", group.base));
                (group.base.clone(), last)
            }
        };
        self.check_span(id, &first, &last);
    }

    fn check_elements(&mut self, id: AccessId, index: &str) {
        if !self.checked {
            return;
        }
        if self.lanes == Lanes::One {
            return self.check_span(id, index, index);
        }
        let [least, greatest] = ["smin", "smax"].map(|end| {
            self.def(format_args!(
                "call i64 @llvm.vector.reduce.{end}.v8i64(<8 x i64> {index})"
            ))
        });
        self.check_span(id, &least, &greatest);
    }

    fn check_span(&mut self, id: AccessId, first: &str, last: &str) {
        let end = self.def(format_args!("add i64 {last}, 1"));
        let access = id.index();
        let (lead, len) = (format!("%lead.{access}"), format!("%len.{access}"));
        self.check(first, &end, &lead, &len);
    }
}
