//! Recurrences: what a stage reads of its own earlier rows.
//!
//! Rows are computed one by one, so a row may look up in the columns being written whatever precedes it. Where the value may be φ, two more columns are written: whether
//! a row has a value, and the last row so far that has one. A bool is looked up as a byte beside its bit.

use tilt_codegen::{
    lir::{AccessId, Binary, By, Compare, Imm, Lanes, Store, Ty, ValueId},
    lower::{Body, Reads, Result, Term, Unsupported, Valid, register},
};
use tilt_ir::DType;

use crate::{
    plan::{Locate, ParamSource, Source},
    reads::StageReads,
};

/// A column that a stage reads while it writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnColumn {
    /// A leaf; bools as bytes.
    Value(usize),
    /// Whether a field of a record has a value, as a byte.
    Field(usize),
    /// Whether the row has a value, as a byte.
    Valid,
    /// The last row so far that has a value, -1 if none.
    Last,
}

/// How far back a stage reads what it has written, besides what its sources and locates tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OwnBack {
    /// By number.
    pub(crate) rows: usize,
    /// Rows that have a value.
    pub(crate) events: usize,
}

impl OwnBack {
    /// So far back, and as far as before.
    fn reach(&mut self, rows: usize, events: usize) {
        self.rows = self.rows.max(rows);
        self.events = self.events.max(events);
    }
}

/// More steps back than this are not unrolled.
const STEPS: u32 = 64;

impl StageReads<'_, '_> {
    /// Whether it is a recurrence.
    pub(crate) fn reads_itself(&self) -> bool {
        self.reads_itself
    }

    /// `~y[t+offset]` of itself.
    pub(crate) fn own_at(&mut self, body: &mut Body, offset: i64) -> Result<Term> {
        if let (Some(regular), Some(length)) = (self.axis.regular, self.axis.length)
            && offset % regular.period == 0
            && length <= regular.period
        {
            let rows = offset / regular.period;
            if self.is_plain() {
                return self.own_rows(body, rows);
            }
            let (position, found) = self.rows_back(body, rows);
            return self.own_term(body, position, found);
        }
        if !self.axis.disjoint {
            return Err(Unsupported(
                "a recurrence by time over overlapping events".into(),
            ));
        }
        let (position, found) = self.position(body, Locate::OwnActive { offset })?;
        self.own_term(body, position, found)
    }

    /// `~y.prev(n)` of itself.
    pub(crate) fn own_prev(&mut self, body: &mut Body, n: u32) -> Result<Term> {
        if self.is_plain() {
            return self.own_rows(body, -i64::from(n));
        }
        if !self.has_gaps() {
            let (position, found) = self.rows_back(body, -i64::from(n));
            return self.own_term(body, position, found);
        }
        if n > STEPS {
            return Err(Unsupported("a recurrence far back that may be φ".into()));
        }
        self.found().own_back.reach(1, n as usize);
        let mut position = body.row();
        for _ in 0..n {
            position = self.last_before(body, position);
        }
        let (position, found) = checked(body, position);
        self.own_leaves(body, position, found)
    }

    /// `hold(~y[t+offset], max_age)` of itself.
    pub(crate) fn own_hold(
        &mut self,
        body: &mut Body,
        offset: i64,
        max_age: Option<i64>,
    ) -> Result<Term> {
        if !self.has_gaps() {
            let (position, found) = self.position(body, Locate::OwnEnded { offset, max_age })?;
            return self.own_leaves(body, position, found);
        }
        // How old an event is depends on which one has a value.
        self.found().own_back.reach(1, 0);
        let ended = Locate::OwnEnded {
            offset,
            max_age: None,
        };
        let (position, found) = self.position(body, ended)?;
        let mut last = self.look_up(body, OwnColumn::Last, position);
        if let Valid::If(found) = found {
            // Otherwise it is what stands in the first row, which need not be computed yet: any number.
            let none = body.int(Ty::I64, -1);
            last = body.select(found, last, none);
        }
        let (position, some) = checked(body, last);
        let mut found = body.both(found, some);
        if let Some(max_age) = max_age {
            let young = self.younger(body, position, offset, max_age)?;
            found = body.both(found, young);
        }
        self.own_leaves(body, position, found)
    }

    /// Whether the instant `t+offset` lies less than `max_age` after the end of a row at or before it.
    fn younger(
        &mut self,
        body: &mut Body,
        row: ValueId,
        offset: i64,
        max_age: i64,
    ) -> Result<Valid> {
        let t = self.time(body)?;
        let back = body.int(Ty::I64, offset);
        let instant = body.binary(Binary::Add, t, back);
        // Back in time, so a sum above `t` has wrapped.
        let wrapped = body.compare(Compare::Gt, instant, t);
        let least = body.int(Ty::I64, i64::MIN);
        let instant = body.select(wrapped, least, instant);
        let end = if let Some(regular) = self.axis.regular {
            let first = self.param(body, "first_end", Ty::I64, ParamSource::FirstEnd);
            let period = body.int(Ty::I64, regular.period);
            let since = body.binary(Binary::Mul, row, period);
            body.binary(Binary::Add, first, since)
        } else {
            let ends = self.access(body, Source::EndsTable, "ends", Ty::I64, By::Table, false);
            body.lookup(ends, row)
        };
        // As a number without sign the difference always fits.
        let age = body.binary(Binary::Sub, instant, end);
        let age = body.bits(age, Ty::U64);
        let max_age = body.constant(Imm::int(Ty::U64, max_age));
        let young = body.compare(Compare::Lt, age, max_age);
        Ok(body.valid_if(young))
    }

    /// The last row before `row` that has a value, -1 if none; `row` is -1 or a row that can be looked up, or the one being computed.
    fn last_before(&mut self, body: &mut Body, row: ValueId) -> ValueId {
        let (zero, one) = (body.int(Ty::I64, 0), body.int(Ty::I64, 1));
        let before = body.binary(Binary::Sub, row, one);
        let safe = body.binary(Binary::Max, before, zero);
        let last = self.look_up(body, OwnColumn::Last, safe);
        let none = body.int(Ty::I64, -1);
        let some = body.compare(Compare::Gt, row, zero);
        body.select(some, last, none)
    }

    /// Whether rows can be read by their distance: one column, always there, no bits.
    fn is_plain(&self) -> bool {
        !self.has_gaps() && !matches!(self.dtype(), DType::Record(_) | DType::Bool)
    }

    /// The value some rows back.
    fn own_rows(&mut self, body: &mut Body, rows: i64) -> Result<Term> {
        let ty = register(self.dtype())?;
        self.recur();
        let source = Source::OwnRows { rows };
        let by = u32::try_from(-rows).map_or(By::Row, By::Back);
        let access = self.access(body, source, "itself", ty, by, !self.inside);
        Ok(Term::Scalar {
            value: body.load(access),
            valid: body.valid(access),
        })
    }

    /// A fixed number of rows back, if that row exists.
    fn rows_back(&mut self, body: &mut Body, rows: i64) -> (ValueId, Valid) {
        let back = usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX);
        self.found().own_back.reach(back, 0);
        let (row, rows) = (body.row(), body.int(Ty::I64, rows));
        let position = body.binary(Binary::Add, row, rows);
        checked(body, position)
    }

    /// The position that a locate finds, 0 where it finds none.
    fn position(&mut self, body: &mut Body, locate: Locate) -> Result<(ValueId, Valid)> {
        let locate = self.locate(locate)?;
        let source = Source::Position { locate };
        let access = self.access(body, source, "position", Ty::U32, By::Row, true);
        let position = body.load(access);
        Ok((body.convert(position, Ty::I64), body.valid(access)))
    }

    /// The value at a row, which may be φ there.
    fn own_term(&mut self, body: &mut Body, row: ValueId, mut found: Valid) -> Result<Term> {
        if self.has_gaps() {
            let valid = self.flag(body, OwnColumn::Valid, row);
            found = body.both(found, valid);
        }
        self.own_leaves(body, row, found)
    }

    /// The value at a row that has one where `found`.
    fn own_leaves(&mut self, body: &mut Body, row: ValueId, found: Valid) -> Result<Term> {
        let dtype = self.dtype();
        let mut leaf = |this: &mut Self, dtype: &DType, leaf: usize| -> Result<ValueId> {
            if *dtype == DType::Bool {
                let bit = this.look_up(body, OwnColumn::Value(leaf), row);
                let zero = body.int(Ty::U8, 0);
                return Ok(body.compare(Compare::Ne, bit, zero));
            }
            let ty = register(dtype)?;
            let table = this.table(body, OwnColumn::Value(leaf), ty);
            Ok(body.lookup(table, row))
        };
        let DType::Record(fields) = dtype else {
            let value = leaf(self, dtype, 0)?;
            return Ok(Term::Scalar {
                value,
                valid: found,
            });
        };
        if fields.iter().any(|f| matches!(f.dtype, DType::Record(_))) {
            return Err(Unsupported("a recurrence of records in records".into()));
        }
        let mut terms = Vec::with_capacity(fields.len());
        for (i, field) in fields.iter().enumerate() {
            terms.push((i, field.name.clone(), leaf(self, &field.dtype, i)?));
        }
        let fields = terms.into_iter().map(|(i, name, value)| {
            let valid = self.flag(body, OwnColumn::Field(i), row);
            (name, Term::Scalar { value, valid })
        });
        Ok(Term::Record {
            present: found,
            fields: fields.collect(),
        })
    }

    fn flag(&mut self, body: &mut Body, column: OwnColumn, row: ValueId) -> Valid {
        let byte = self.look_up(body, column, row);
        let zero = body.int(Ty::U8, 0);
        let set = body.compare(Compare::Ne, byte, zero);
        body.valid_if(set)
    }

    /// An element of a column other than a value that is no bool.
    fn look_up(&mut self, body: &mut Body, column: OwnColumn, row: ValueId) -> ValueId {
        let ty = if column == OwnColumn::Last {
            Ty::I64
        } else {
            Ty::U8
        };
        let table = self.table(body, column, ty);
        body.lookup(table, row)
    }

    fn table(&mut self, body: &mut Body, column: OwnColumn, ty: Ty) -> AccessId {
        self.recur();
        let name = match column {
            OwnColumn::Value(_) => "itself",
            OwnColumn::Field(_) | OwnColumn::Valid => "has_value",
            OwnColumn::Last => "last_value",
        };
        self.access(body, Source::OwnTable(column), name, ty, By::Table, false)
    }

    fn recur(&mut self) {
        self.reads_itself = true;
        self.found().lanes = Lanes::One;
    }

    /// Adds what only the stage itself reads to what it stores, whose first columns are its leaves. Returns which column is where.
    pub(crate) fn store_own(
        &mut self,
        body: &mut Body,
        columns: &mut Vec<Store>,
        leaves: usize,
    ) -> Vec<(OwnColumn, usize)> {
        let mut wanted: Vec<OwnColumn> = Vec::new();
        for source in &self.found().sources {
            let column = match source {
                Source::OwnRows { .. } => OwnColumn::Value(0),
                Source::OwnTable(column) => *column,
                _ => continue,
            };
            if !wanted.contains(&column) {
                wanted.push(column);
            }
        }
        let is_record = matches!(self.dtype(), DType::Record(_));
        let present = if is_record {
            // Stored after the leaves, as a value; always there if it is not.
            columns.get(leaves).map(|column| column.value)
        } else {
            columns[0].valid
        };
        let always = body.constant(Imm::bool(true));
        let present = present.unwrap_or(always);
        let mut own = Vec::with_capacity(wanted.len());
        for column in wanted {
            let value = match column {
                OwnColumn::Value(leaf) if body.ty(columns[leaf].value) != Ty::Bool => {
                    own.push((column, leaf));
                    continue;
                }
                OwnColumn::Value(leaf) => body.convert(columns[leaf].value, Ty::U8),
                OwnColumn::Field(leaf) => {
                    let valid = columns[leaf].valid.unwrap_or(always);
                    body.convert(valid, Ty::U8)
                }
                OwnColumn::Valid => body.convert(present, Ty::U8),
                OwnColumn::Last => {
                    let row = body.row();
                    let before = self.last_before(body, row);
                    body.select(present, row, before)
                }
            };
            own.push((column, columns.len()));
            columns.push(Store { value, valid: None });
        }
        own
    }
}

/// A row that may be negative as one that can be looked up, and whether it was not.
fn checked(body: &mut Body, row: ValueId) -> (ValueId, Valid) {
    let zero = body.int(Ty::I64, 0);
    let found = body.compare(Compare::Ge, row, zero);
    (body.binary(Binary::Max, row, zero), body.valid_if(found))
}
