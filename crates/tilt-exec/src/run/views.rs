//! What the accesses of a loop see: pointers for a chunk of rows.

use std::ops::Range;

use tilt_codegen::{abi::View, lir::LANES};

use super::{Chunk, StageRun};
use crate::{
    cursor::NONE,
    locate::{self, Located},
    memory::{ALIGN, prefetch},
    own::OwnColumn,
    plan::{ParamSource, Source},
    range::RangeRun,
    series::Leaf,
    view::{self, Index},
};

/// Rows among which one reads what was new not long before.
const FRONT: usize = 64;

impl StageRun<'_> {
    pub(super) fn view(&self, source: &Source, nullable: bool, chunk: &mut Chunk) -> View {
        let Chunk {
            rows,
            at,
            located,
            ranges,
            windows,
            called,
            scratch,
        } = chunk;
        let n = rows.len();
        match source {
            Source::OwnRows { rows } => {
                let first = *at as i64 + rows;
                let existing = self.before as i64 + first;
                View {
                    validity: view::bit_rows(None, usize::MAX >> 1, existing, n, scratch),
                    ..self.own_view(OwnColumn::Value(0), first)
                }
            }
            Source::OwnTable(column) => self.own_view(*column, -(self.before as i64)),
            Source::Position { locate } => match index_of(located, *locate) {
                Some(index) => View {
                    validity: index.found.as_ptr(),
                    ..view::column(index.positions)
                },
                None => unreachable!("positions are looked for"),
            },
            Source::EndsTable => view::column(self.axis.ends()),
            Source::Leaf {
                stream,
                leaf,
                locate,
            } => {
                let leaf = &self.series[stream].leaves[*leaf];
                match &located[*locate] {
                    Located::Rows(first) => view::rows(leaf, *first, n, nullable, scratch),
                    Located::Nowhere => view::rows(leaf, leaf.len as i64, n, nullable, scratch),
                    Located::Runs(runs) => view::runs(leaf, runs, n, nullable, scratch),
                    Located::Index(index) => {
                        self.fetch(leaf, *locate, rows);
                        index.view(leaf, nullable, scratch)
                    }
                    Located::Moved { of, positions } => {
                        let Located::Index(index) = &located[*of] else {
                            unreachable!("an index is moved")
                        };
                        index.moved(leaf, *positions)
                    }
                }
            }
            Source::Present { stream, locate } => {
                let series = &self.series[stream];
                let (len, present) = (series.axis.len(), series.presence());
                let validity = match &located[*locate] {
                    Located::Rows(first) => view::bit_rows(present, len, *first, n, scratch),
                    Located::Nowhere => view::bit_rows(present, len, len as i64, n, scratch),
                    Located::Runs(runs) => view::bit_runs(runs, n, |_| true, scratch),
                    Located::Index(index) => index.valid(present, scratch),
                    // It leads somewhere in all rows.
                    Located::Moved { .. } => view::bit_rows(None, n, 0, n, scratch),
                };
                View {
                    validity,
                    ..view::nothing()
                }
            }
            Source::Starts => {
                let starts = scratch.slice::<i64>(n.next_multiple_of(LANES));
                for (start, row) in starts.iter_mut().zip(rows.clone()) {
                    *start = self.axis.timeline.start(row);
                }
                view::column(starts)
            }
            Source::Ends => {
                let ends = scratch.slice::<i64>(n.next_multiple_of(LANES));
                ends[..n].copy_from_slice(&self.axis.ends()[rows.clone()]);
                view::column(ends)
            }
            Source::Edge {
                stream,
                locate,
                edge,
            } => {
                let axis = &self.series[stream].axis;
                let edges = scratch.slice::<i64>(n.next_multiple_of(LANES));
                let out = edges[..n].iter_mut().enumerate();
                match &located[*locate] {
                    Located::Nowhere => edges.fill(0),
                    Located::Rows(first) => {
                        let edge_of = axis.edges(*edge);
                        out.for_each(|(row, out)| *out = edge_of(first + row as i64));
                    }
                    Located::Index(index) => {
                        let edge_of = axis.edges(*edge);
                        out.for_each(|(row, out)| {
                            *out = edge_of(index.base + i64::from(index.positions[row]));
                        });
                    }
                    Located::Runs(runs) => {
                        let edge_of = axis.edges(*edge);
                        let mut rest = &mut *edges;
                        for run in runs {
                            let (these, others) = rest.split_at_mut(run.rows);
                            these.fill(edge_of(i64::from(run.position)));
                            rest = others;
                        }
                    }
                    Located::Moved { .. } => unreachable!("edges of periodic events are computed"),
                }
                view::column(edges)
            }
            Source::Call(call) => called[*call],
            Source::Window { window, column } => {
                let window = &windows[*window];
                window.view(*column, &ranges[window.plan.range], rows, scratch)
            }
            Source::RangeFirst(range) => view::column(ranges[*range].bounds(scratch).0),
            Source::RangeEnd(range) => view::column(ranges[*range].bounds(scratch).1),
            Source::RangeLate(range) => view::column(ranges[*range].late(scratch)),
            Source::Distance {
                range,
                stream,
                leaf,
            } => {
                let leaf = &self.all(*range)[stream].leaves[*leaf];
                ranges[*range].distances(leaf, scratch)
            }
            Source::Anchor { .. } => unreachable!("anchors are those of blocks"),
        }
    }

    /// Asks memory for what rows read first of a column whose positions were found before. The last rows of many keys are read in an order that
    /// no machine foresees, but they are taken from a front that moves on.
    fn fetch(&self, leaf: &Leaf, locate: usize, rows: &Range<usize>) {
        let Some(Some(positions)) = self.piece.found.map(|found| &found[locate]) else {
            return;
        };
        let front = |row: usize| {
            let near = &positions[row.saturating_sub(FRONT)..row];
            let last = near.iter().filter(|position| **position != NONE).max();
            last.map_or(0, |last| *last as usize)
        };
        let (from, to) = (front(rows.start), front(rows.end));
        // Where less is read than a row a line, most would be for nothing.
        let bytes = to.saturating_sub(from) * leaf.ty.bytes();
        if leaf.bits().is_none() && bytes <= ALIGN * rows.len() {
            let at: *const u8 = leaf.at(from as isize);
            prefetch(at..at.wrapping_add(bytes));
        }
    }

    /// A column that the stage writes, from `first` on, which may lie before its first row.
    fn own_view(&self, column: OwnColumn, first: i64) -> View {
        let (_, target) = self
            .stage
            .own
            .iter()
            .find(|(c, _)| *c == column)
            .expect("a planned column");
        let output = &self.targets[*target];
        let bytes = output.ty.bytes() as isize;
        View {
            values: output.values.wrapping_offset(first as isize * bytes),
            lead: ((self.lead + self.before) as i64 + first) as u64,
            len: (self.rows as i64 - first) as u64,
            ..view::nothing()
        }
    }

    pub(super) fn param(
        &self,
        param: &ParamSource,
        located: &[Located],
        ranges: &[RangeRun],
    ) -> u64 {
        let value = match param {
            ParamSource::FirstEnd => self.axis.regular_ends().unwrap_or(0),
            ParamSource::FirstEdge {
                stream,
                edge,
                locate,
            } => self.series[stream].axis.edges(*edge)(locate::base(located, *locate)),
            ParamSource::RunStart => self.piece.run.start,
            ParamSource::RunEnd => self.piece.run.end,
            ParamSource::Text(text) => i64::from(self.piece.dictionary.codes[text]),
            ParamSource::RangeLo(range) => ranges[*range].offsets().0,
            ParamSource::RangeHi(range) => ranges[*range].offsets().1,
            ParamSource::RangeLen(range) => ranges[*range].len() as i64,
        };
        value as u64
    }
}

/// The index that a locate leads by.
fn index_of(located: &[Located], locate: usize) -> Option<&Index> {
    match &located[locate] {
        Located::Index(index) => Some(index),
        Located::Moved { of, .. } => index_of(located, *of),
        Located::Rows(_) | Located::Runs(_) | Located::Nowhere => None,
    }
}
