//! Columns that stages write, and what they become.

use std::{ops::Range, sync::Arc};

use arrow_buffer::BooleanBuffer;
use tilt_codegen::{
    abi::Target,
    lir::{LANES, Ty},
};

use crate::{
    memory::Returned,
    plan::{Source, Stage},
    series::{Axis, Leaf, Series},
};

/// A column of the output that pieces write side by side, each at rows of its own that begin at a multiple of 64.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ty: Ty,
    pub(crate) values: Returned,
    pub(crate) validity: Option<Returned>,
    /// Nobody reads it, so that it has no memory: what is written of a chunk goes where that of the chunk before went.
    pub(crate) unread: bool,
}

impl Shared {
    /// A column that nobody reads.
    pub(crate) fn unread(ty: Ty, nullable: bool) -> Self {
        Self {
            unread: true,
            ..Self::new(ty, nullable, 0)
        }
    }

    /// A column of `rows` rows.
    pub(crate) fn new(ty: Ty, nullable: bool, rows: usize) -> Self {
        let padded = rows.next_multiple_of(LANES);
        let bytes = if ty == Ty::Bool {
            padded / 8
        } else {
            padded * ty.bytes()
        };
        Self {
            ty,
            values: Returned::new(bytes),
            validity: nullable.then(|| Returned::new(padded / 8)),
            unread: false,
        }
    }

    /// What was written of it, `len` rows; none if nobody reads it.
    pub(crate) fn into_leaf(self, len: usize) -> Leaf {
        if self.unread {
            return Leaf::written(self.ty, 0, self.values.into_buffer(0), None);
        }
        let padded = len.next_multiple_of(LANES);
        let bytes = if self.ty == Ty::Bool {
            padded / 8
        } else {
            padded * self.ty.bytes()
        };
        let values = self.values.into_buffer(bytes);
        let valid = self.validity.map(|v| v.into_buffer(padded / 8));
        Leaf::written(self.ty, len, values, valid)
    }

    /// Zeros in the first `rows` rows: they are φ, but an index among them has to lead somewhere.
    pub(crate) fn clear(&self, rows: usize) {
        let padded = rows.next_multiple_of(LANES);
        let bytes = if self.ty == Ty::Bool {
            padded / 8
        } else {
            padded * self.ty.bytes()
        };
        // SAFETY: the memory has at least so many rows, whole groups of them, and is written by nobody else yet.
        unsafe {
            self.values.as_ptr().write_bytes(0, bytes);
            if let Some(validity) = &self.validity {
                validity.as_ptr().write_bytes(0, padded / 8);
            }
        }
    }
}

/// A column being written: its first row.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) ty: Ty,
    pub(crate) values: *mut u8,
    pub(crate) validity: *mut u8,
    /// Whether all chunks are written to the same place.
    pub(crate) unread: bool,
}

impl Output {
    /// A column from row `at` on.
    pub(crate) fn from(column: &Shared, at: usize) -> Self {
        let output = Self {
            ty: column.ty,
            values: column.values.as_ptr(),
            validity: column
                .validity
                .as_ref()
                .map_or(std::ptr::null_mut(), Returned::as_ptr),
            unread: false,
        };
        let Target {
            values, validity, ..
        } = output.target(at);
        Self {
            values,
            validity,
            ..output
        }
    }

    pub(super) fn target(&self, at: usize) -> Target {
        let at = if self.unread { 0 } else { at };
        let offset = if self.ty == Ty::Bool {
            at / 8
        } else {
            at * self.ty.bytes()
        };
        Target {
            values: self.values.wrapping_add(offset),
            validity: if self.validity.is_null() {
                self.validity
            } else {
                self.validity.wrapping_add(at / 8)
            },
            len: u64::MAX >> 1,
        }
    }
}

/// How many rows a stage must be able to read before its first.
pub(crate) fn lead(stage: &Stage) -> usize {
    let lead = stage.sources.iter().map(|source| match source {
        Source::OwnRows { rows } => rows.unsigned_abs() as usize,
        _ => 0,
    });
    lead.max().unwrap_or(0).next_multiple_of(LANES)
}

/// The series that a stage has written.
pub(super) fn finish(
    stage: &Stage,
    axis: &Arc<Axis>,
    rows: Range<usize>,
    wanted: Range<usize>,
    lead: usize,
    columns: Vec<Shared>,
) -> Series {
    let skip = wanted.start.max(rows.start) - rows.start + lead;
    let kept = wanted.len();
    let axis = if wanted == (0..axis.len()) {
        Arc::clone(axis)
    } else {
        let timeline = axis.timeline.slice(wanted.start.min(axis.len()), kept);
        Arc::new(Axis::new(timeline, Vec::new()))
    };
    series_of(stage, axis, columns, rows.len() + lead, skip)
}

/// The series of written columns of `len` rows, those before `skip` left out.
pub(crate) fn series_of(
    stage: &Stage,
    axis: Arc<Axis>,
    columns: Vec<Shared>,
    len: usize,
    skip: usize,
) -> Series {
    let kept = axis.len();
    let columns = columns.into_iter().map(|column| {
        let is_read = !column.unread;
        let leaf = column.into_leaf(len);
        if is_read && (skip > 0 || kept < len) {
            leaf.slice(skip, kept)
        } else {
            leaf
        }
    });
    Series::of_columns(stage, axis, columns.collect())
}

impl Series {
    /// The series of the columns that the main loop of a stage stores.
    pub(crate) fn of_columns(stage: &Stage, axis: Arc<Axis>, mut columns: Vec<Leaf>) -> Self {
        let mut others = columns.split_off(stage.facts.leaves.len()).into_iter();
        let present: Option<BooleanBuffer> = if stage.facts.is_record() {
            // What follows the leaves of a record that is always there, only the stage itself reads.
            let present = others.next().filter(|_| stage.facts.nullable);
            present.and_then(|leaf| leaf.bits().cloned())
        } else {
            columns[0].valid.clone()
        };
        Series {
            axis,
            leaves: columns,
            present,
        }
    }
}
