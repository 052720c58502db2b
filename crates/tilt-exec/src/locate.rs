//! Which positions the rows of a chunk read.

use std::{collections::BTreeMap, ops::Range};

use tilt_codegen::lir::LANES;
use tilt_data::Spans;
use tilt_ir::StreamId;

use crate::{
    cursor::{self, Active, Held, NONE, Policy, Ranks},
    memory::Scratch,
    plan::{Locate, Pick, Stage},
    range::RangeRun,
    run::{Piece, Trouble},
    series::{Axis, Series},
    view::Index,
};

/// Where a locate leads for the rows of a chunk.
pub(crate) enum Located {
    /// Row `i` of the chunk reads position `first + i`.
    Rows(i64),
    /// Nowhere.
    Nowhere,
    Index(Index),
}

/// A reader of positions.
pub(crate) enum Locator<'a> {
    Rows(i64),
    Nowhere,
    Active(Active<'a>, i64),
    Held(Held<'a>, i64),
    Choice(&'a [u32]),
    Prev {
        ranks: Ranks,
        /// How many positions there are.
        len: u32,
        of: usize,
        n: u32,
    },
    Range {
        range: usize,
        last: bool,
    },
    OwnActive(Active<'a>, i64),
    OwnEnded {
        offset: i64,
        max_age: Option<i64>,
        run_end: i64,
        /// Rows that have ended.
        passed: usize,
    },
}

/// What readers read from, one for each locate that needs one.
pub(crate) fn sources<'a>(
    piece: &Piece,
    stage: &Stage,
    axis: &'a Axis,
    series: &'a BTreeMap<StreamId, Series>,
) -> Vec<Option<cursor::Source<'a>>> {
    let source = |locate: &Locate| match locate {
        Locate::ByTime { stream, .. }
        | Locate::Held { stream, .. }
        | Locate::Prev { stream, .. } => {
            Some(piece.source(*stream, series, series[stream].presence()))
        }
        // Which of its own rows will be events is not known yet.
        Locate::OwnActive { .. } => Some(cursor::Source::new(&axis.timeline, None)),
        _ => None,
    };
    stage.locates.iter().map(source).collect()
}

/// A reader for each locate, standing before the first row.
pub(crate) fn locators<'s>(
    stage: &Stage,
    axis: &'s Axis,
    series: &BTreeMap<StreamId, Series>,
    sources: &'s [Option<cursor::Source<'s>>],
    run_end: i64,
) -> Vec<Locator<'s>> {
    let locator = |(locate, source): (&Locate, &'s Option<cursor::Source<'s>>)| match locate {
        Locate::Same => Locator::Rows(0),
        Locate::Rows { rows, .. } => Locator::Rows(*rows),
        Locate::Affine { stream, offset } => affine(axis, &series[stream].axis, *offset),
        Locate::ByTime {
            offset, overlap, ..
        } => {
            let policy = match overlap {
                Pick::Only => Policy::Unique,
                Pick::First => Policy::First,
                Pick::Last => Policy::Last,
            };
            let source = source.as_ref().expect("a source for every reader");
            Locator::Active(Active::new(source, policy), *offset)
        }
        Locate::Held {
            offset, max_age, ..
        } => {
            let source = source.as_ref().expect("a source for every reader");
            Locator::Held(Held::new(source, *max_age, run_end), *offset)
        }
        Locate::Choice(group) => Locator::Choice(&axis.choices[*group]),
        Locate::Prev { of, n, .. } => {
            let source = source.as_ref().expect("a source for every reader");
            Locator::Prev {
                ranks: Ranks::new(source),
                len: source.timeline().len() as u32,
                of: *of,
                n: *n,
            }
        }
        Locate::OwnActive { offset } => {
            let source = source.as_ref().expect("a source for every reader");
            Locator::OwnActive(Active::new(source, Policy::Unique), *offset)
        }
        Locate::OwnEnded { offset, max_age } => Locator::OwnEnded {
            offset: *offset,
            max_age: *max_age,
            run_end,
            passed: 0,
        },
        Locate::Range { range, last } => Locator::Range {
            range: *range,
            last: *last,
        },
    };
    stage.locates.iter().zip(sources).map(locator).collect()
}

impl Locator<'_> {
    /// Where the rows of the next chunk lead; `earlier` are the locates before this one.
    pub(crate) fn locate(
        &mut self,
        axis: &Axis,
        rows: Range<usize>,
        earlier: &[Located],
        ranges: &mut [RangeRun],
        scratch: &mut Scratch,
    ) -> Result<Located, Trouble> {
        let n = rows.len();
        let positions = |scratch: &mut Scratch| scratch.slice::<u32>(n.next_multiple_of(LANES));
        Ok(match self {
            Locator::Rows(offset) => Located::Rows(rows.start as i64 + *offset),
            Locator::Nowhere => Located::Nowhere,
            Locator::Active(reader, offset) => {
                let out = positions(scratch);
                let at = axis.instants().plus(*offset);
                reader
                    .read(at, rows, &mut out[..n])
                    .map_err(|_| Trouble("a read that may be ambiguous"))?;
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Held(reader, offset) => {
                let out = positions(scratch);
                reader.read(axis.instants().plus(*offset), rows, &mut out[..n]);
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Choice(choices) => {
                let out = positions(scratch);
                out[..n].copy_from_slice(&choices[rows]);
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Prev {
                ranks,
                len,
                of,
                n: count,
            } => {
                let out = positions(scratch);
                for (row, out) in out[..n].iter_mut().enumerate() {
                    let current = match &earlier[*of] {
                        Located::Rows(first) => {
                            let position = u32::try_from(first + row as i64);
                            position.ok().filter(|p| p < len).unwrap_or(NONE)
                        }
                        Located::Nowhere => NONE,
                        Located::Index(index) if index.found[row / 8] & (1 << (row % 8)) != 0 => {
                            index.positions[row]
                        }
                        Located::Index(_) => NONE,
                    };
                    *out = ranks.nth_before_event(current, *count);
                }
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::OwnActive(reader, offset) => {
                let out = positions(scratch);
                reader
                    .read(axis.instants().plus(*offset), rows.clone(), &mut out[..n])
                    .map_err(|_| Trouble("a read that may be ambiguous"))?;
                for (row, out) in rows.zip(&mut out[..n]) {
                    let p = *out as usize;
                    let visible = p < row && axis.timeline.end(p) <= axis.timeline.start(row);
                    *out = if visible { *out } else { NONE };
                }
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::OwnEnded {
                offset,
                max_age,
                run_end,
                passed,
            } => {
                let out = positions(scratch);
                let timeline = &axis.timeline;
                for (row, out) in rows.zip(&mut out[..n]) {
                    let instant = timeline.end(row).saturating_add(*offset);
                    let limit = instant.min(timeline.start(row));
                    while *passed < row && timeline.end(*passed) <= limit {
                        *passed += 1;
                    }
                    // In a bag a later row may start before an earlier one.
                    while *passed > 0 && timeline.end(*passed - 1) > limit {
                        *passed -= 1;
                    }
                    let last = passed.checked_sub(1).filter(|_| instant <= *run_end);
                    let young = |p: &usize| {
                        max_age.is_none_or(|age| {
                            instant.abs_diff(timeline.end(*p)) < age.unsigned_abs()
                        })
                    };
                    *out = last.filter(young).map_or(NONE, |p| p as u32);
                }
                Located::Index(Index::new(out, n, scratch))
            }
            Locator::Range { range, last } => {
                let out = positions(scratch);
                let (first, end) = ranges[*range].bounds(scratch);
                for (row, out) in out[..n].iter_mut().enumerate() {
                    let (first, end) = (first[row], end[row]);
                    let position = if *last { end.wrapping_sub(1) } else { first };
                    *out = if first < end { position } else { NONE };
                }
                Located::Index(Index::new(out, n, scratch))
            }
        })
    }
}

/// How rows lead to positions of another timeline with the same period.
fn affine<'a>(here: &Axis, there: &Axis, offset: i64) -> Locator<'a> {
    let (Some(t), Some(end), Some(period)) = (
        here.regular_ends(),
        there.regular_ends(),
        there.timeline.period(),
    ) else {
        return Locator::Nowhere;
    };
    let Spans::Fixed(length) = there.timeline.spans() else {
        return Locator::Nowhere;
    };
    // The first position that ends at or after the instant; it must have begun before it.
    let distance = i128::from(t) + i128::from(offset) - i128::from(end);
    let period = i128::from(period);
    let position = distance.div_euclid(period) + i128::from(distance.rem_euclid(period) != 0);
    if position * period - distance >= i128::from(*length) {
        return Locator::Nowhere;
    }
    i64::try_from(position).map_or(Locator::Nowhere, Locator::Rows)
}
