//! Strips: runs that cannot be cut, because streams read their own past, a part after the other.
//!
//! Where all stages have the rows of one periodic input and read only rows at or before their own, a strip of rows goes through all
//! stages before the next one does, so that what stages read of each other stays in a cache. A strip begins with the last rows of
//! the one before, as many as any stage reads back: those of every stage are carried over, not computed again.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use arrow_buffer::BooleanBuffer;
use tilt_codegen::lir::Sink;
use tilt_ir::{Bounds, StreamId};

use crate::{
    control::share,
    pieces::{HALOS, Job, STREAMED, slice},
    plan::{Domain, Locate, Plan, Source, Stage},
    run::{self, Carried, Piece, Shared, Trouble, Wanted, series_of},
    series::{Axis, Series, aligned},
    window::RangePlan,
};

/// Rows of a strip when nothing asks for more: a few columns of that many stay in the second cache.
const ROWS: usize = 1 << 13;

/// How a plan runs in strips.
pub(crate) struct Strips {
    /// The input that has the rows.
    input: StreamId,
    /// How many rows before its first a strip needs.
    history: usize,
}

impl Strips {
    /// `None` if strips do not fit the plan, or there would be nothing between stages.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let mut root: BTreeMap<StreamId, StreamId> = BTreeMap::new();
        let mut history = 0;
        for stage in &plan.stages {
            let Domain::On(stream) = stage.domain else {
                return None;
            };
            let input = root.get(&stream).copied().unwrap_or(stream);
            root.insert(stage.stream, input);
            history = history.max(reads_back(plan, stage)?);
        }
        let input = *root.values().next()?;
        let one = root.values().all(|other| *other == input);
        let axis = &plan.axes[&input];
        let periodic = axis.regular.is_some() && axis.disjoint;
        (one && periodic && plan.stages.len() > 1).then_some(Self {
            input,
            history: history.next_multiple_of(8),
        })
    }

    /// How many rows are computed of a stage before the next stage runs.
    pub(crate) fn rows(&self) -> usize {
        ROWS.max((HALOS * self.history).next_multiple_of(ROWS))
    }
}

/// How many rows before its own a stage reads; `None` if that is not known, or it reads later ones.
fn reads_back(plan: &Plan, stage: &Stage) -> Option<usize> {
    let back = |rows: i64| usize::try_from(rows.checked_neg()?).ok();
    let mut most = run::lead(stage);
    for locate in &stage.locates {
        most = most.max(match locate {
            Locate::Same => 0,
            Locate::Rows { rows, .. } => back(*rows)?,
            _ => return None,
        });
    }
    let by_number = |source: &Source| {
        matches!(
            source,
            Source::OwnTable(_) | Source::Position { .. } | Source::EndsTable
        )
    };
    if stage.sources.iter().any(by_number) || stage.windows.iter().any(|w| w.gapless) {
        return None;
    }
    for range in &stage.ranges {
        most = most.max(back(first_row(plan, range)?)?);
    }
    Some(most)
}

/// The first row of a steady range that ends with its row or before it, less that row.
fn first_row(plan: &Plan, range: &RangePlan) -> Option<i64> {
    match range.bounds {
        Bounds::Time { lo: Some(lo), hi } if range.is_steady() && hi <= 0 => {
            let period = plan.axes[&range.stream].regular?.period;
            lo.div_euclid(period).checked_sub(1)
        }
        Bounds::Ordinal { lo: Some(lo), hi } if range.is_steady() && hi <= 0 => Some(lo),
        _ => None,
    }
}

impl Job<'_> {
    /// The output, a strip after the other.
    pub(crate) fn in_strips(&self, strips: &Strips) -> Result<Series, Trouble> {
        let Some((axis, wanted)) = self.rows() else {
            return self.in_one_go();
        };
        let stage = self.plan.stages.last().expect("a plan has stages");
        let main = &self.plan.loops[stage.main];
        let Sink::Store { columns, .. } = &main.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let lead = run::lead(stage);
        let columns: Vec<Shared> = columns
            .iter()
            .map(|c| Shared::new(main.ty(c.value), c.valid.is_some(), wanted.end + lead))
            .collect();
        let bytes: usize = columns.iter().map(|c| c.values.len()).sum();
        let past = stage.streaming.filter(|_| bytes >= STREAMED);
        let rows = match self.asked_rows() {
            Some(asked) => asked.next_multiple_of(8),
            None => strips.rows(),
        };
        let mut before = BTreeMap::new();
        for start in (0..wanted.end).step_by(rows) {
            let end = wanted.end.min(start + rows);
            let carried = start.min(strips.history);
            let wanted_rows = Wanted::Rows {
                rows: carried..carried + (end - start),
                columns: &columns,
                at: lead + start,
                main: past.unwrap_or(stage.main),
            };
            let work = share(self.work, end - start, wanted.end);
            let piece = Piece {
                carried: Some(Carried {
                    rows: carried,
                    series: &before,
                }),
                ..self.new_piece(work, wanted_rows)
            };
            before = piece.evaluate_all(self.rows_of(strips.input, start - carried..end))?;
        }
        let len = wanted.end + lead;
        let skip = lead + wanted.start;
        let axis = if wanted == (0..axis.len()) {
            axis
        } else {
            let timeline = axis.timeline.slice(wanted.start, wanted.len());
            Arc::new(Axis::new(timeline, Vec::new()))
        };
        Ok(series_of(stage, axis, columns, len, skip))
    }

    /// The inputs of a strip: some rows of the one that has them.
    fn rows_of(&self, input: StreamId, rows: Range<usize>) -> BTreeMap<StreamId, Series> {
        BTreeMap::from([(input, slice(&self.series[&input], &rows))])
    }
}

/// Copies the last rows of a series to where columns have their first, after `lead`; both are multiples of eight.
pub(crate) fn carry(columns: &[Shared], lead: usize, rows: usize, series: &Series) {
    let from = series.axis.len() - rows;
    let copy = |bits: &BooleanBuffer, to: *mut u8| {
        let bits = aligned(&bits.slice(from, rows));
        let bytes = &bits.values()[bits.offset() / 8..][..rows / 8];
        // SAFETY: the column has room for all rows, those before the first included.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(lead / 8), rows / 8) }
    };
    for (column, leaf) in columns.iter().zip(&series.leaves) {
        if let Some(bits) = leaf.bits() {
            copy(bits, column.values.as_ptr());
        } else {
            let bytes = leaf.ty.bytes();
            // SAFETY: the rows are elements of the leaf, and the column has room for them.
            unsafe {
                let to = column.values.as_ptr().add(lead * bytes);
                std::ptr::copy_nonoverlapping(leaf.at(from as isize), to, rows * bytes);
            }
        }
        if let (Some(valid), Some(to)) = (&leaf.valid, &column.validity) {
            copy(valid, to.as_ptr());
        }
    }
    // Of a record that may be φ, a column of bools follows its leaves.
    if let (Some(column), Some(present)) = (columns.get(series.leaves.len()), series.presence()) {
        copy(present, column.values.as_ptr());
    }
}
