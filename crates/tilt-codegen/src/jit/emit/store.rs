//! Loops that store columns.

use tilt_ir::Id;

use super::{
    Emitter, Value,
    memory::{Group, Live, Shape},
    scalar,
};
use crate::lir::{AccessId, By, LANES, Store, Ty, ValueId};

/// Groups whose bits are written at once.
const QUAD: usize = 4;

/// Rows further back than this are loaded from memory.
const KEPT: u32 = 4;

/// Bodies longer than this are not copied for the sake of their stores.
const LONG: usize = 64;

/// As many values a read by index counts as: it has two ways, and either is as long.
const READ: usize = 24;

impl Emitter<'_> {
    /// Eight rows an iteration, or first four times eight where bits are stored: a byte written after each vector halves the speed of stores
    /// that miss the first cache.
    pub(super) fn store_eight(&mut self, columns: &[Store], streaming: bool) {
        let bits = !self.bit_columns(columns).is_empty();
        let (before, start) = if bits {
            if self.length() <= LONG {
                self.store_quads(columns, streaming);
            } else {
                self.store_in_turn(columns, streaming);
            }
            ("rest", "%quads")
        } else {
            ("entry", "0")
        };
        let some = self.def(format_args!("icmp ult i64 {start}, %rows"));
        self.branch(&some, "loop", "exit");
        self.label("loop");
        self.line(format_args!(
            "  %i = phi i64 [ {start}, %{before} ], [ %next, %loop ]"
        ));
        let group = Group {
            base: "%i".to_owned(),
            shape: Shape::Aligned,
            live: Some(self.rows_below_end("%i")),
        };
        self.store_groups(columns, streaming, &[group]);
        self.line("  %next = add nuw i64 %i, 8");
        let more = self.def("icmp ult i64 %next, %rows");
        self.branch(&more, "loop", "exit");
        self.label("exit");
    }

    /// How long the body is, in values.
    fn length(&self) -> usize {
        let accesses = self.lp.accesses.iter();
        let reads = accesses.filter(|(_, access)| access.by == By::Index);
        self.lp.values.len() + READ * reads.count()
    }

    /// The loop over `%quads` rows, a multiple of 32. Goes on in the block `rest`.
    fn store_quads(&mut self, columns: &[Store], streaming: bool) {
        self.line("  %quads = and i64 %rows, -32");
        let some = self.def("icmp ne i64 %quads, 0");
        self.branch(&some, "quad", "rest");
        self.label("quad");
        self.line("  %q = phi i64 [ 0, %entry ], [ %q.next, %quad ]");
        let groups: Vec<_> = (0..QUAD)
            .map(|j| Group {
                base: self.def(format_args!("add nuw i64 %q, {}", j * LANES)),
                shape: Shape::Aligned,
                live: None,
            })
            .collect();
        self.store_groups(columns, streaming, &groups);
        self.line("  %q.next = add nuw i64 %q, 32");
        let more = self.def("icmp ult i64 %q.next, %quads");
        self.branch(&more, "quad", "rest");
        self.label("rest");
    }

    /// As [`store_quads`](Self::store_quads), with one body: groups take turns, and their bits are gathered until there are those of four.
    fn store_in_turn(&mut self, columns: &[Store], streaming: bool) {
        let words: Vec<_> = (self.bit_columns(columns).into_iter())
            .map(|(name, out, value)| (format!("%{name}.word"), out, value))
            .collect();
        self.line("  %quads = and i64 %rows, -32");
        let some = self.def("icmp ne i64 %quads, 0");
        self.branch(&some, "quad", "rest");
        self.label("quad");
        self.line("  %q = phi i64 [ 0, %entry ], [ %q.next, %quad.end ]");
        self.line("  %q.next = add nuw i64 %q, 32");
        self.line("  br label %turn");
        self.label("turn");
        self.line("  %g = phi i64 [ %q, %quad ], [ %g.next, %turn ]");
        for (word, ..) in &words {
            self.line(format_args!(
                "  {word} = phi i32 [ 0, %quad ], [ {word}.next, %turn ]"
            ));
        }
        self.fetch_ahead("%g");
        let body = self.body(&Group {
            base: "%g".to_owned(),
            shape: Shape::Aligned,
            live: None,
        });
        for (k, column) in columns.iter().enumerate() {
            self.check_target(k, "%g", LANES, 0);
            let ty = self.lp.ty(column.value);
            if ty != Ty::Bool {
                let value = &body[column.value];
                self.store_vector(ty, &format!("%out.{k}"), "%g", value, streaming);
            }
        }
        for (word, _, value) in &words {
            let bits = &body[*value];
            let byte = self.def(format_args!("bitcast <8 x i1> {bits} to i8"));
            let byte = self.def(format_args!("zext i8 {byte} to i32"));
            let last = self.def(format_args!("shl nuw i32 {byte}, 24"));
            let before = self.def(format_args!("lshr i32 {word}, 8"));
            self.line(format_args!("  {word}.next = or i32 {before}, {last}"));
        }
        self.line("  %g.next = add nuw i64 %g, 8");
        let more = self.def("icmp ult i64 %g.next, %q.next");
        self.line(format_args!(
            "  br i1 {more}, label %turn, label %quad.end, !llvm.loop !7"
        ));
        self.label("quad.end");
        for (word, out, _) in &words {
            self.write_bits(out, "%q", QUAD * LANES, &format!("{word}.next"));
        }
        let more = self.def("icmp ult i64 %q.next, %quads");
        self.branch(&more, "quad", "rest");
        self.label("rest");
    }

    /// Computes and stores groups that follow each other.
    fn store_groups(&mut self, columns: &[Store], streaming: bool, groups: &[Group]) {
        for group in groups {
            self.fetch_ahead(&group.base);
        }
        let bodies: Vec<_> = groups.iter().map(|group| self.body(group)).collect();
        let first = &groups[0].base;
        for (k, column) in columns.iter().enumerate() {
            self.check_target(k, first, groups.len() * LANES, 0);
            let out = format!("%out.{k}");
            match self.lp.ty(column.value) {
                Ty::Bool => {
                    let bits: Vec<_> = bodies.iter().map(|body| &body[column.value]).collect();
                    self.store_bits(&out, first, &bits);
                }
                ty => {
                    for (group, body) in groups.iter().zip(&bodies) {
                        let value = &body[column.value];
                        self.store_vector(ty, &out, &group.base, value, streaming);
                    }
                }
            }
            if let Some(valid) = column.valid {
                let bits: Vec<_> = bodies.iter().map(|body| &body[valid]).collect();
                self.store_bits(&format!("%outvalid.{k}"), first, &bits);
            }
        }
    }

    /// The lanes from row `base` on that lie before the end; the first always does.
    pub(super) fn rows_below_end(&mut self, base: &str) -> Live {
        let rows = self.rows_from(base);
        let end = self.splat("%rows", Ty::I64);
        let mask = self.def(format_args!("icmp ult <8 x i64> {rows}, {end}"));
        Live { mask, anchor: 0 }
    }

    /// Eight elements, not bools.
    pub(super) fn store_vector(
        &mut self,
        ty: Ty,
        base: &str,
        row: &str,
        value: &str,
        streaming: bool,
    ) {
        let at = self.element(scalar(ty), base, row);
        let (align, hint) = if streaming {
            (ty.bytes() * LANES, ", !nontemporal !5")
        } else {
            (ty.bytes(), "")
        };
        let (full, alias) = (self.ty(ty), self.writes());
        self.line(format_args!(
            "  store {full} {value}, ptr {at}, align {align}{hint}{alias}"
        ));
    }

    /// The bits of one or four groups, the first row being a multiple of eight.
    fn store_bits(&mut self, base: &str, row: &str, groups: &[&str]) {
        let width = groups.len() * LANES;
        let mut word: Option<Value> = None;
        for (j, bits) in groups.iter().enumerate() {
            let mut part = self.def(format_args!("bitcast <8 x i1> {bits} to i8"));
            if width > LANES {
                part = self.def(format_args!("zext i8 {part} to i{width}"));
                part = self.def(format_args!("shl i{width} {part}, {}", j * LANES));
            }
            word = Some(match word {
                Some(word) => self.def(format_args!("or i{width} {word}, {part}")),
                None => part,
            });
        }
        self.write_bits(base, row, width, &word.unwrap_or_default());
    }

    fn write_bits(&mut self, base: &str, row: &str, width: usize, word: &str) {
        let at = self.byte_of(base, row);
        let alias = self.writes();
        self.line(format_args!(
            "  store i{width} {word}, ptr {at}, align 1{alias}"
        ));
    }

    /// One row an iteration; what it stores, later rows may read.
    pub(super) fn store_one(&mut self, columns: &[Store]) {
        let some = self.def("icmp ne i64 %rows, 0");
        self.branch(&some, "before", "exit");
        self.label("before");
        let past = self.load_past();
        self.line("  br label %loop");
        self.label("loop");
        self.line("  %i = phi i64 [ 0, %before ], [ %next, %loop ]");
        // Bits of the current byte, so that a row writes it without reading it.
        for (name, ..) in self.bit_columns(columns) {
            self.line(format_args!(
                "  %{name} = phi i8 [ 0, %before ], [ %{name}.next, %loop ]"
            ));
        }
        let first = scalar(self.lp.ty(columns[0].value));
        for (later, value) in past.iter().enumerate() {
            self.line(format_args!(
                "  %past.{} = phi {first} [ {value}, %before ], [ %past.{later}, %loop ]",
                later + 1
            ));
        }
        let group = Group {
            base: "%i".to_owned(),
            shape: Shape::Single,
            live: None,
        };
        let body = self.body(&group);
        if !past.is_empty() {
            // A copy under a name that the next row can spell.
            let value = &body[columns[0].value];
            self.line(format_args!("  %past.0 = freeze {first} {value}"));
        }
        let position = self.def("trunc i64 %i to i8");
        let position = self.def(format_args!("and i8 {position}, 7"));
        for (k, column) in columns.iter().enumerate() {
            self.check_target(k, "%i", 1, 0);
            let out = format!("%out.{k}");
            match self.lp.ty(column.value) {
                Ty::Bool => {
                    self.store_bit(&format!("bits.{k}"), &out, &position, &body[column.value]);
                }
                ty => {
                    let at = self.element(scalar(ty), &out, "%i");
                    let (value, align) = (&body[column.value], ty.bytes());
                    self.line(format_args!(
                        "  store {} {value}, ptr {at}, align {align}",
                        scalar(ty)
                    ));
                }
            }
            if let Some(valid) = column.valid {
                let out = format!("%outvalid.{k}");
                self.store_bit(&format!("valid.{k}"), &out, &position, &body[valid]);
            }
        }
        self.line("  %next = add nuw i64 %i, 1");
        let more = self.def("icmp ult i64 %next, %rows");
        self.branch(&more, "loop", "exit");
        self.label("exit");
    }

    /// How many rows back an access reads that is kept in a register: what was stored is loaded again only some cycles later, and each row would wait.
    pub(super) fn kept(&self, id: AccessId) -> Option<u32> {
        let access = &self.lp.accesses[id];
        match access.by {
            By::Back(rows) if rows <= KEPT && !access.nullable => Some(rows),
            _ => None,
        }
    }

    /// What the first column holds before row 0, as far back as rows are kept, from the last one on.
    fn load_past(&mut self) -> Vec<Value> {
        let ids = (0..self.lp.accesses.len()).map(AccessId::new);
        let kept = ids.filter_map(|id| Some((self.kept(id)?, id)));
        let Some((rows, id)) = kept.max_by_key(|(rows, _)| *rows) else {
            return vec![];
        };
        let ty = self.lp.accesses[id].ty;
        let elements = (0..rows).rev();
        let load = |element| {
            let at = self.element(scalar(ty), &format!("%values.{}", id.index()), element);
            let (ty, align) = (scalar(ty), ty.bytes());
            self.def(format_args!("load {ty}, ptr {at}, align {align}"))
        };
        elements.map(load).collect()
    }

    /// Columns of bits: a name for what gathers them, where they are written, and what they are.
    fn bit_columns(&self, columns: &[Store]) -> Vec<(String, String, ValueId)> {
        let mut found = Vec::new();
        for (k, column) in columns.iter().enumerate() {
            if self.lp.ty(column.value) == Ty::Bool {
                found.push((format!("bits.{k}"), format!("%out.{k}"), column.value));
            }
            if let Some(valid) = column.valid {
                found.push((format!("valid.{k}"), format!("%outvalid.{k}"), valid));
            }
        }
        found
    }

    /// Adds the row's bit to an accumulator and writes that.
    fn store_bit(&mut self, accumulator: &str, base: &str, position: &str, bit: &str) {
        let start = self.def(format_args!("icmp eq i8 {position}, 0"));
        let kept: Value = self.def(format_args!("select i1 {start}, i8 0, i8 %{accumulator}"));
        let bit = self.def(format_args!("zext i1 {bit} to i8"));
        let bit = self.def(format_args!("shl i8 {bit}, {position}"));
        self.line(format_args!("  %{accumulator}.next = or i8 {kept}, {bit}"));
        self.write_bits(base, "%i", LANES, &format!("%{accumulator}.next"));
    }
}
