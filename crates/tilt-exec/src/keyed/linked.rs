//! Rows in the order they came, each with the rows of its key that it reads: nothing is grouped, and nothing brought back.
//!
//! That does for programs whose events read themselves, the last event of their key that has ended (`hold`), and those before (`prev`). One pass
//! in the order of time has the last row of every key in a table. Parts of the rows are passed side by side, each with a table of its own: what
//! a part does not find in its table is in that of a part before.

use std::{collections::BTreeMap, ops::Range};

use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use rayon::prelude::*;
use tilt_data::{SnapshotBuffer, Spans};
use tilt_ir::{Expr, Overlap, Program, StreamId, Timeline, Timelines};

use self::held::Held;
use super::{
    Run,
    line::{Computed, columns_of_streams, root, unread},
};
use crate::{
    control::{ALL_WORK, share},
    cursor::NONE,
    error::Error,
    facts::{AxisFacts, SeriesFacts},
    keys::{Ids, Keys},
    memory::filled,
    pieces::{Job, pool, usual_rows},
    plan::{Domain, Locate, Plan, Stage},
    query::Prepared,
    run::{Piece, Positions, Trouble, Wanted, series_of},
    series::{Leaf, Series},
    threads::{fill, fill_and_find},
};

mod held;

/// Ids that are read together.
const BLOCK: usize = 1024;

/// Whether a run is likely to leave its rows where they are.
pub(crate) fn may_apply(program: &Program, plan: &Plan) -> bool {
    finds_by_key(program) && root(plan).is_some()
}

/// Whether all that the events of a program read is found in tables of the last rows of keys.
pub(super) fn finds_by_key(program: &Program) -> bool {
    let timelines = Timelines::new(program);
    let mut does = program.inputs().all(|(_, input)| input.key.is_some());
    for (id, temporal) in program.temporals() {
        let own = timelines.of(id);
        does &= matches!(own, Timeline::Input(_));
        program.walk(temporal.body, &mut |_, expr| {
            does &= expr.stream() != Some(id)
                && match expr {
                    Expr::Reduce { .. } | Expr::Call { .. } => false,
                    Expr::At { stream, offset } => *offset == 0 && timelines.of(*stream) == own,
                    Expr::Prev { stream, .. } => timelines.of(*stream) == own,
                    Expr::Hold { stream, .. } => {
                        matches!(timelines.of(*stream), Timeline::Input(_))
                    }
                    _ => true,
                };
        });
    }
    does
}

/// The rows of an input: when they end, of which key they are, and where a stream on them has events, if not everywhere.
#[derive(Clone, Copy)]
struct Side<'a> {
    ends: &'a [i64],
    ids: &'a Ids,
    present: Option<&'a BooleanBuffer>,
}

impl Side<'_> {
    fn is_event(&self, row: usize) -> bool {
        self.present.is_none_or(|bits| bits.value(row))
    }
}

/// What is known of the rows of all streams while stages are computed.
struct Known<'a> {
    /// The keys of the rows of each input.
    ids: BTreeMap<StreamId, &'a Ids>,
    keys: usize,
    /// The input whose rows are those of a stream.
    inputs: BTreeMap<StreamId, StreamId>,
    series: BTreeMap<StreamId, Series>,
}

impl Known<'_> {
    fn side(&self, stream: StreamId) -> Side<'_> {
        let series = &self.series[&stream];
        let ends = series.axis.ends();
        Side {
            ends,
            ids: self.ids[&self.inputs[&stream]],
            present: series.presence(),
        }
    }
}

impl Run<'_> {
    /// The output, if rows can stay where they are; `None` where another way must be taken.
    pub(super) fn in_place(&self) -> Result<Option<SnapshotBuffer>, Error> {
        if !finds_by_key(&self.query.program) {
            return Ok(None);
        }
        let (keys, ids) = Keys::number_shortly(&self.key_leaves(), self.threads());
        self.control.alive()?;
        if keys.len() == 0 {
            return Ok(None);
        }
        let mut facts = self.facts.clone();
        for ((id, _), ids) in self.columns.iter().zip(&ids) {
            let Some(axis) = self.mixed_axis(*id, ids, keys.len()) else {
                return Ok(None);
            };
            self.control.alive()?;
            if let Some(facts) = facts.get_mut(id) {
                facts.axis = axis;
            }
        }
        let nullable = |facts: &SeriesFacts| facts.nullable;
        if facts.values().any(nullable) {
            return Ok(None);
        }
        let prepared = (self.control).prepare(self.query, &facts, self.options.backend, self.span);
        let Prepared::Loops { plan, code } = &*prepared else {
            return Ok(None);
        };
        let Some(root) = root(plan) else {
            return Ok(None);
        };
        let carried = self.carried(plan, root);
        let unread = unread(plan, &carried);
        let job = Job {
            plan,
            code,
            lineage: &self.query.lineage,
            buffers: self.buffers,
            series: &self.series,
            run: self.span,
            scope: self.span,
            part: self.part(),
            dictionary: &self.dictionary,
            functions: &self.options.functions,
            threads: self.threads(),
            piece_rows: self.options.piece_rows,
            piece_ticks: self.options.piece_ticks,
            control: self.control,
            work: share(ALL_WORK, 1, plan.stages.len()),
            age: None,
            unread: &unread,
        };
        let inputs = self.columns.iter().map(|(id, _)| *id);
        let mut known = Known {
            ids: inputs.clone().zip(&ids).collect(),
            keys: keys.len(),
            inputs: inputs.map(|id| (id, id)).collect(),
            series: self.series.clone(),
        };
        for (number, stage) in plan.stages.iter().enumerate() {
            let Domain::On(rows) = stage.domain else {
                return Ok(None);
            };
            known.inputs.insert(stage.stream, known.inputs[&rows]);
            let is_last = number + 1 == plan.stages.len();
            let given = passed_on(plan, stage, &known.series).filter(|_| !is_last);
            let computed = if let Some(given) = given {
                given
            } else {
                let Some(found) = self.positions(stage, &known)? else {
                    return Ok(None);
                };
                let job = Job {
                    unread: if is_last { &unread } else { &[] },
                    ..job
                };
                match compute(&job, stage, &found, &known.series) {
                    Ok(computed) => computed,
                    Err(Trouble(why)) => {
                        self.control.alive()?;
                        self.control.gives_up(why);
                        return Ok(None);
                    }
                }
            };
            self.control.alive()?;
            known.series.insert(stage.stream, computed);
        }
        let output = plan.stages.last().map(|stage| stage.stream);
        let output = output.and_then(|stream| known.series.remove(&stream));
        let (Some(computed), ids) = (output, known.ids[&root]) else {
            return Ok(None);
        };
        let computed_rows = Computed {
            ids,
            rows: self.asked_rows(root),
            places: None,
        };
        let output = self.in_order(plan, &carried, &computed_rows, root, &[computed]);
        let output = output.map_err(|e| Error::Internal(e.to_string()))?;
        self.assemble(&keys, output)
    }

    /// What is known of an input whose rows stay as they are: what holds for the events of each key. `None` if that is not easily found out, or
    /// the events overlap that are declared not to.
    fn mixed_axis(&self, id: StreamId, ids: &Ids, keys: usize) -> Option<AxisFacts> {
        let (buffer, series) = (&self.buffers[&id], &self.series[&id]);
        let length = match buffer.timeline().spans() {
            Spans::Fixed(length) => Some(*length),
            _ => None,
        };
        let is_disjoint = if buffer.is_bag() {
            length.filter(|length| *length == 1)?;
            ids.differ_at_equal(series.axis.ends(), keys)
        } else {
            true
        };
        let input = self.query.program.streams[id].as_input()?;
        if input.overlap == Overlap::Disjoint && !is_disjoint {
            return None;
        }
        Some(AxisFacts {
            regular: None,
            length,
            disjoint: is_disjoint,
            ordered: is_disjoint || length.is_some(),
            mixed: true,
        })
    }

    /// Where each locate of a stage leads, but for the row itself. `None` if there is one that no table tells.
    fn positions(
        &self,
        stage: &Stage,
        known: &Known,
    ) -> Result<Option<Vec<Option<Positions>>>, Error> {
        let threads = self.threads();
        let Domain::On(rows) = stage.domain else {
            return Ok(None);
        };
        let mut found: Vec<Option<Positions>> = Vec::with_capacity(stage.locates.len());
        for locate in &stage.locates {
            self.control.alive()?;
            let positions = match locate {
                Locate::Same => {
                    found.push(None);
                    continue;
                }
                Locate::Held {
                    stream,
                    offset,
                    max_age,
                } => {
                    let held = Held {
                        left: known.side(rows),
                        right: known.side(*stream),
                        offset: *offset,
                        max_age: *max_age,
                        run_end: self.span.end,
                        keys: known.keys,
                    };
                    held.positions(threads)
                }
                Locate::Prev { of, stream, n }
                    if found[*of].is_none() && known.inputs[stream] == known.inputs[&rows] =>
                {
                    let links = links_of(known.side(*stream), known.keys, threads);
                    Some(followed(&links, *n, threads))
                }
                _ => None,
            };
            let Some(positions) = positions else {
                return Ok(None);
            };
            found.push(Some(positions));
        }
        Ok(Some(found))
    }
}

/// The columns of a stage that merely passes on columns of the stream whose rows it has.
fn passed_on(plan: &Plan, stage: &Stage, series: &BTreeMap<StreamId, Series>) -> Option<Series> {
    let columns = columns_of_streams(plan, stage);
    let is_scalar = !stage.facts.is_record();
    if stage.facts.nullable && !is_scalar || columns.len() != stage.facts.leaves.len() {
        return None;
    }
    let Domain::On(rows) = stage.domain else {
        return None;
    };
    let leaf = |(stream, leaf): (StreamId, usize)| series[&stream].leaves[leaf].clone();
    let leaves: Option<Vec<Leaf>> = columns.into_iter().map(|c| c.map(leaf)).collect();
    let leaves = leaves?;
    Some(Series {
        axis: series[&rows].axis.clone(),
        present: leaves[0].valid.clone().filter(|_| is_scalar),
        leaves,
    })
}

/// All rows of a stage, piece by piece.
fn compute(
    job: &Job,
    stage: &Stage,
    found: &[Option<Positions>],
    series: &BTreeMap<StreamId, Series>,
) -> Result<Series, Trouble> {
    let Domain::On(rows) = stage.domain else {
        unreachable!("all stages have the rows of an input")
    };
    let axis = &series[&rows].axis;
    let rows = axis.len();
    let (columns, main) = job.columns(stage.main, stage.streaming, rows);
    let usual = || {
        rows.div_ceil(4 * job.threads)
            .clamp(1, usual_rows(job.plan))
    };
    // So that no two pieces write to one cache line, nor to one byte of bits.
    let size = job.asked_rows().unwrap_or_else(usual).next_multiple_of(512);
    let starts: Vec<usize> = (0..rows).step_by(size).collect();
    let piece = |start: &usize| {
        let of_piece = *start..rows.min(start + size);
        let work = share(job.work, of_piece.len(), rows);
        let wanted = Wanted::Rows {
            rows: of_piece,
            columns: &columns,
            at: *start,
            main,
        };
        let piece = Piece {
            found: Some(found),
            ..job.new_piece(work, wanted)
        };
        piece.evaluate_stage(stage, series).map(drop)
    };
    if job.threads > 1 && starts.len() > 1 {
        pool(job.threads).install(|| starts.par_iter().try_for_each(piece))?;
    } else {
        starts.iter().try_for_each(piece)?;
    }
    Ok(series_of(stage, axis.clone(), columns, rows, 0))
}

/// The event before of the key of each event.
fn links_of(side: Side, keys: usize, threads: usize) -> Positions {
    let rows = side.ends.len();
    let links = filled(rows, |out: &mut [u32]| {
        let tables = fill_and_find(out, threads, |_, rows, out| {
            let mut table = vec![NONE; keys];
            let first = rows.start;
            side.ids.each(rows.clone(), |row, id| {
                let last = &mut table[id as usize];
                out[row - first] = *last;
                if side.is_event(row) {
                    *last = row as u32;
                }
            });
            (rows, table)
        });
        look_before(tables, side.ids, out);
        // What is no event has none before it.
        if side.present.is_some() {
            for (row, out) in out.iter_mut().enumerate() {
                *out = if side.is_event(row) { *out } else { NONE };
            }
        }
    });
    ScalarBuffer::new(links, 0, rows)
}

/// Looks up what rows have not found in the tables of parts before their own.
fn look_before(
    parts: impl IntoIterator<Item = (Range<usize>, Vec<u32>)>,
    ids: &Ids,
    out: &mut [u32],
) {
    let mut parts = parts.into_iter();
    let Some((_, mut before)) = parts.next() else {
        return;
    };
    for (rows, table) in parts {
        for start in rows.clone().step_by(BLOCK) {
            let block = start..rows.end.min(start + BLOCK);
            if out[block.clone()].iter().filter(|p| **p == NONE).count() == 0 {
                continue;
            }
            ids.each(block, |row, id| {
                if out[row] == NONE {
                    out[row] = before[id as usize];
                }
            });
        }
        for (before, last) in before.iter_mut().zip(table) {
            *before = if last == NONE { *before } else { last };
        }
    }
}

/// So many links further from each row.
fn followed(links: &Positions, n: u32, threads: usize) -> Positions {
    if n == 1 {
        return links.clone();
    }
    let rows = links.len();
    let positions = filled(rows, |out: &mut [u32]| {
        fill(out, threads, |_, rows, out| {
            for (row, out) in rows.zip(out) {
                let mut at = row as u32;
                for _ in 0..n {
                    at = links.get(at as usize).copied().unwrap_or(NONE);
                    if at == NONE {
                        break;
                    }
                }
                *out = at;
            }
        });
    });
    ScalarBuffer::new(positions, 0, rows)
}
