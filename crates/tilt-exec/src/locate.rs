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
    series::{Axis, Leaf, Series},
    view::{Index, Run},
};

mod cycle;

use cycle::Cycle;

/// Where a locate leads for the rows of a chunk.
pub(crate) enum Located {
    /// Row `i` of the chunk reads position `first + i`.
    Rows(i64),
    /// Nowhere.
    Nowhere,
    /// One position after the other, each in several rows.
    Runs(Vec<Run>),
    Index(Index),
    /// Where another locate leads, which finds something in all rows, and so many positions further.
    Moved {
        of: usize,
        positions: i64,
    },
}

impl Located {
    /// The position that a row of the chunk reads, of `len` that there are; [`NONE`] if it reads nothing.
    fn position(&self, row: usize, len: u32, earlier: &[Located]) -> u32 {
        match self {
            Self::Rows(first) => {
                let position = u32::try_from(first + row as i64);
                position.ok().filter(|p| *p < len).unwrap_or(NONE)
            }
            Self::Nowhere => NONE,
            Self::Runs(runs) => {
                let mut passed = 0;
                let run = runs.iter().find(|run| {
                    passed += run.rows;
                    row < passed
                });
                run.map_or(NONE, |run| run.position)
            }
            Self::Index(index) if index.found[row / 8] & (1 << (row % 8)) != 0 => {
                (index.base + i64::from(index.positions[row])) as u32
            }
            Self::Index(_) => NONE,
            Self::Moved { of, positions } => {
                let position = earlier[*of].position(row, len, earlier);
                (i64::from(position) + positions) as u32
            }
        }
    }
}

/// From which position on those of an index are counted.
pub(crate) fn base(located: &[Located], locate: usize) -> i64 {
    match &located[locate] {
        Located::Index(index) => index.base,
        Located::Moved { of, positions } => base(located, *of) + positions,
        Located::Rows(_) | Located::Runs(_) | Located::Nowhere => 0,
    }
}

/// A reader of positions.
pub(crate) enum Locator<'a> {
    Rows(i64),
    Nowhere,
    Active {
        reader: Active<'a>,
        offset: i64,
        /// What tells the same of most rows, without a look at each.
        cycle: Option<Cycle>,
    },
    /// As another reader of the same periodic stream, so many positions further where that does not lead out of it.
    Moved {
        of: usize,
        positions: i64,
        len: usize,
        reader: Active<'a>,
        offset: i64,
    },
    Coarse {
        series: &'a Series,
        offset: i64,
    },
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
    let source = |(number, locate): (usize, &Locate)| match locate {
        _ if piece.is_found(number) => None,
        Locate::ByTime { stream, .. }
        | Locate::Held { stream, .. }
        | Locate::Prev { stream, .. } => {
            Some(piece.source(*stream, series, series[stream].presence()))
        }
        // Which of its own rows will be events is not known yet.
        Locate::OwnActive { .. } => Some(cursor::Source::new(&axis.timeline, None)),
        _ => None,
    };
    stage.locates.iter().enumerate().map(source).collect()
}

/// A reader for each locate, standing before the first row.
pub(crate) fn locators<'s>(
    piece: &'s Piece<'s>,
    stage: &Stage,
    axis: &'s Axis,
    series: &'s BTreeMap<StreamId, Series>,
    sources: &'s [Option<cursor::Source<'s>>],
) -> Vec<Locator<'s>> {
    let run_end = piece.run.end;
    let locator =
        |(number, (locate, source)): (usize, (&Locate, &'s Option<cursor::Source<'s>>))| {
            if let Some(Some(positions)) = piece.found.map(|found| &found[number]) {
                return Locator::Choice(positions);
            }
            match locate {
                Locate::Same => Locator::Rows(0),
                Locate::Rows { rows, .. } => Locator::Rows(*rows),
                Locate::Affine { stream, offset } => affine(axis, &series[stream].axis, *offset),
                Locate::Coarse { stream, offset } => Locator::Coarse {
                    series: &series[stream],
                    offset: *offset,
                },
                Locate::ByTime {
                    stream,
                    offset,
                    overlap,
                    ..
                } => {
                    let policy = match overlap {
                        Pick::Only => Policy::Unique,
                        Pick::First => Policy::First,
                        Pick::Last => Policy::Last,
                    };
                    let source = source.as_ref().expect("a source for every reader");
                    let reader = Active::new(source, policy);
                    match moved(&stage.locates[..number], *stream, *offset, &series[stream]) {
                        Some((of, positions)) => Locator::Moved {
                            of,
                            positions,
                            len: source.timeline().len(),
                            reader,
                            offset: *offset,
                        },
                        None => Locator::Active {
                            reader,
                            offset: *offset,
                            cycle: Some(&series[stream])
                                .filter(|series| is_plain(series))
                                .and_then(|series| Cycle::new(axis, &series.axis, *offset)),
                        },
                    }
                }
                Locate::Held {
                    offset, max_age, ..
                } => {
                    let source = source.as_ref().expect("a source for every reader");
                    let max_age = max_age.iter().chain(&piece.age).copied().min();
                    Locator::Held(Held::new(source, max_age, run_end), *offset)
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
            }
        };
    let locates = stage.locates.iter().zip(sources);
    locates.enumerate().map(locator).collect()
}

/// An earlier read of the same stream by time from which this one is a number of positions away, if its positions follow each other
/// without gaps and all its columns can be read so.
fn moved(
    earlier: &[Locate],
    stream: StreamId,
    offset: i64,
    series: &Series,
) -> Option<(usize, i64)> {
    let period = series.axis.timeline.period()?;
    if !is_plain(series) {
        return None;
    }
    let moved = |(number, locate): (usize, &Locate)| match locate {
        Locate::ByTime {
            stream: other,
            offset: from,
            ..
        } if *other == stream => {
            let distance = offset.checked_sub(*from)?;
            (distance % period == 0).then_some((number, distance / period))
        }
        _ => None,
    };
    earlier.iter().enumerate().find_map(moved)
}

/// Whether the events of a stream are periodic and follow each other without gaps, and its columns are elements without φ.
fn is_plain(series: &Series) -> bool {
    let timeline = &series.axis.timeline;
    let follow = matches!((timeline.spans(), timeline.period()), (Spans::Fixed(length), Some(period)) if *length == period);
    let plain = |leaf: &Leaf| leaf.valid.is_none() && leaf.bits().is_none();
    follow && series.presence().is_none() && series.leaves.iter().all(plain)
}

impl Locator<'_> {
    /// The rows that find something, if that can be told without a look at each.
    pub(crate) fn rows(&self, all: &[Locator]) -> Option<Range<i64>> {
        match self {
            Self::Active { cycle, .. } => Some(cycle.as_ref()?.rows(0)),
            Self::Moved { of, positions, .. } => match &all[*of] {
                Locator::Active { cycle, .. } => Some(cycle.as_ref()?.rows(*positions)),
                _ => None,
            },
            _ => None,
        }
    }

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
            Locator::Active {
                reader,
                offset,
                cycle,
            } => {
                if let Some(index) = cycle.as_mut().and_then(|cycle| cycle.locate(&rows)) {
                    return Ok(Located::Index(index));
                }
                let out = positions(scratch);
                let at = axis.instants().plus(*offset);
                reader
                    .read(at, rows, &mut out[..n])
                    .map_err(|_| Trouble("a read that may be ambiguous"))?;
                Located::Index(if reader.is_ordered() {
                    Index::ordered(out, n, scratch)
                } else {
                    Index::new(out, n, scratch)
                })
            }
            Locator::Moved {
                of,
                positions: by,
                len,
                reader,
                offset,
            } => {
                if let Located::Index(index) = &earlier[*of]
                    && let Some(within) = &index.within
                    && within.start as i64 + *by >= 0
                    && within.end as i64 + *by <= *len as i64
                {
                    return Ok(Located::Moved {
                        of: *of,
                        positions: *by,
                    });
                }
                let out = positions(scratch);
                // Positions of a periodic stream are found by arithmetic, whatever was read before.
                reader
                    .read(axis.instants().plus(*offset), rows, &mut out[..n])
                    .map_err(|_| Trouble("a read that may be ambiguous"))?;
                Located::Index(Index::ordered(out, n, scratch))
            }
            Locator::Coarse { series, offset } => {
                Located::Runs(coarse(axis, rows, series, *offset))
            }
            Locator::Held(reader, offset) => {
                let out = positions(scratch);
                reader.read(axis.instants().plus(*offset), rows, &mut out[..n]);
                Located::Index(Index::ordered(out, n, scratch))
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
                    let current = earlier[*of].position(row, *len, earlier);
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
                // Rows before the first that is asked for have been computed.
                *passed = (*passed).max(rows.start);
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

/// The runs of rows that read one position of a periodic stream.
fn coarse(here: &Axis, rows: Range<usize>, there: &Series, offset: i64) -> Vec<Run> {
    let timeline = &there.axis.timeline;
    let mut runs = Vec::new();
    let (Some(t0), Some(stride), Some(end), Some(period), Spans::Fixed(length)) = (
        here.regular_ends(),
        here.timeline.period(),
        there.axis.regular_ends(),
        timeline.period(),
        timeline.spans(),
    ) else {
        return runs;
    };
    let [end, period, length] = [end, period, *length].map(i128::from);
    let instant =
        |row: usize| i128::from(t0) + i128::from(stride) * row as i128 + i128::from(offset);
    let fits = |row: usize| i64::try_from(instant(row)).is_ok();
    let exact = fits(rows.start) && fits(rows.end.max(rows.start + 1) - 1);
    let mut row = rows.start;
    while row < rows.end {
        let t = i128::from(cursor::saturate(instant(row)));
        // The first position that ends at or after the instant; it must have begun before it.
        let position = (t - end).div_euclid(period) + i128::from((t - end) % period != 0);
        let ends = end + position * period;
        let begun = t > ends - length;
        let found = usize::try_from(position).ok().filter(|p| {
            begun && *p < timeline.len() && there.presence().is_none_or(|bits| bits.value(*p))
        });
        // What holds at this instant does so up to here.
        let until = if begun { ends } else { ends - length };
        let same = if exact {
            1 + ((until - t) / i128::from(stride)) as usize
        } else {
            1
        };
        let same = same.min(rows.end - row);
        runs.push(Run {
            position: found.map_or(NONE, |p| p as u32),
            rows: same,
        });
        row += same;
    }
    runs
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
