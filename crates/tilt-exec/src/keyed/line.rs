//! All keys on one line of time, one after the other: thousands of short keys cost what one long stream does.
//!
//! The events of key `k` are moved by `k` times a distance. What a program computes moves with its events if it names no instant, numbers no
//! event, and every window is as long as a part of the distance, so that it is split at the same events. And no key matters to another if the
//! distance is longer than anything that is read, and than any event that is held may be old.

use std::{collections::BTreeMap, ops::Range};

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use arrow_select::{concat::concat, take::take};
use tilt_codegen::lir::Known;
use tilt_data::{Column, SnapshotBuffer, Spans, Timeline, dtype::to_arrow};
use tilt_ir::{Agg, Bounds, Expr, Program, Span, StreamId};

use super::{
    Output, RowKeys, Run, asked::Asked, bare, grouped::Grouped, leaf_types, past::Kept,
    places::gather_leaf, read_leaves,
};
use crate::{
    control::{ALL_WORK, share},
    error::Error,
    keys::{Ids, Keys},
    pieces::Job,
    plan::{Domain, Plan, Root, Stage, passed_on},
    query::Prepared,
    run::Trouble,
    series::{Leaf, Series},
    text::is_text,
    threads::in_parts,
};

/// Instants of a line lie between this and its opposite, far enough from the ends of time for any read.
const EDGE: i128 = 1 << 62;
/// Periodic keys with more rows are worth their own loops.
const PERIODIC: usize = 1 << 12;

/// How a program that moves with its events reads.
#[derive(Debug)]
struct Moves {
    /// A multiple of the length of every window.
    step: i64,
    /// How far from an event anything is read, in ticks.
    reach: i64,
}

impl Moves {
    /// `None` if results may depend on where in time events are, on how many there were before, or on events without a key.
    fn of(program: &Program) -> Option<Self> {
        if program.inputs().any(|(_, input)| input.key.is_none()) {
            return None;
        }
        let mut moves = Some(Self { step: 1, reach: 0 });
        for (id, temporal) in program.temporals() {
            program.walk(temporal.body, &mut |_, expr| {
                if let Some(all) = moves.take() {
                    let is_own = expr.stream() == Some(id);
                    moves = (!is_own).then(|| all.and(expr)).flatten();
                }
            });
        }
        moves
    }

    /// With another expression.
    fn and(self, expr: &Expr) -> Option<Self> {
        let reaching = |offset: i64| {
            let reach = self.reach.max(offset.checked_abs()?);
            Some(Self { reach, ..self })
        };
        match expr {
            Expr::Time | Expr::Prev { .. } | Expr::Edge { .. } => None,
            Expr::At { offset, .. } => reaching(*offset),
            // Beyond the end of the run nothing is held, and a line has no such end for each key.
            Expr::Hold { offset, .. } => reaching(*offset).filter(|_| *offset <= 0),
            Expr::Reduce {
                agg: Agg::ArgMin | Agg::ArgMax | Agg::Custom(_),
                ..
            } => None,
            Expr::Reduce { window, .. } => match window.bounds {
                Bounds::Time { lo: Some(lo), hi } => {
                    let length = hi.checked_sub(lo).filter(|length| *length > 0)?;
                    let reach = lo.checked_abs()?.max(hi.checked_abs()?);
                    Some(Self {
                        step: common_multiple(self.step, length)?,
                        reach: self.reach.max(reach),
                    })
                }
                _ => None,
            },
            _ => Some(self),
        }
    }
}

fn common_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// Where the keys of a run lie on lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// From one key to the next, in ticks.
    distance: i128,
    /// How far the first key of a line is moved.
    first: i128,
    /// How many keys have room on a line.
    keys: usize,
    /// No event of a key is so old at an instant of its own, every event of another key is older.
    age: i64,
}

impl Layout {
    /// `None` if a program must be run for each key by itself.
    pub(super) fn of(program: &Program, run: Span) -> Option<Self> {
        let moves = Moves::of(program)?;
        let span = i128::from(run.end) - i128::from(run.start);
        let least = 2 * (span + i128::from(moves.reach) + 1);
        let step = i128::from(moves.step);
        let distance = (least + step - 1) / step * step;
        // A run that ends before it starts has no distance.
        let keys = usize::try_from((2 * EDGE).checked_div(distance)? - 2).ok()?;
        (keys > 1).then_some(Self {
            distance,
            first: -(i128::from(run.start) + EDGE).div_euclid(distance) * distance,
            keys,
            age: i64::try_from(span + 1).ok()?,
        })
    }

    /// How far each key is moved. An instant plus that fits into 64 bits, even where this alone does not.
    fn moves(&self, keys: usize) -> Vec<i64> {
        let moved = |key: usize| {
            let number = (key % self.keys) as i128;
            (self.first + self.distance * number) as i64
        };
        (0..keys).map(moved).collect()
    }
}

/// Whether a run is likely to put all keys on one line.
pub(crate) fn may_apply(program: &Program, plan: &Plan) -> bool {
    Moves::of(program).is_some() && root(plan).is_some()
}

/// The input whose rows are those of the output, if all stages of a plan are computed on rows of inputs.
pub(super) fn root(plan: &Plan) -> Option<StreamId> {
    let on_rows = |stage: &Stage| matches!(stage.domain, Domain::On(_));
    match plan.root {
        Root::Input(root) if plan.stages.iter().all(on_rows) => Some(root),
        _ => None,
    }
}

/// Rows of an input that results were computed for.
pub(super) struct Computed<'a> {
    /// The keys of all rows of the input.
    pub(super) ids: &'a Ids,
    /// Which rows these are.
    pub(super) rows: Range<usize>,
    /// The place of each on the lines; its own number if nothing is said.
    pub(super) places: Option<&'a [u32]>,
}

impl Computed<'_> {
    fn place(&self, row: u32) -> u32 {
        let first = self.rows.start;
        self.places
            .map_or(row, |places| places[row as usize - first])
    }
}

/// What a run on lines has found.
pub(super) struct OnLines {
    pub(super) output: SnapshotBuffer,
    /// Its keys, how far they were moved, the rows of inputs by key, and which columns of those.
    pub(super) keys: Keys,
    pub(super) moves: Vec<i64>,
    pub(super) groups: BTreeMap<StreamId, Grouped>,
    pub(super) read: Vec<usize>,
}

impl Run<'_> {
    /// The output, if keys can be put on lines, from rows that follow those that are kept, if any are; `None` where another way must be taken.
    pub(super) fn on_lines(
        &self,
        layout: Layout,
        mut kept: Option<Kept>,
    ) -> Result<Option<OnLines>, Error> {
        let program = &self.query.program;
        let threads = self.threads();
        let leaves = self.key_leaves();
        let numbered = match &mut kept {
            None => Some(Keys::number_shortly(&leaves, threads)),
            Some(kept) => (kept.number(leaves[0], threads)).map(|(keys, ids)| (keys, vec![ids])),
        };
        let Some((keys, ids)) = numbered else {
            return Ok(None);
        };
        let kept = kept.as_ref();
        self.control.alive()?;
        if keys.len() == 0 {
            return Ok(None);
        }
        let moves = layout.moves(keys.len());
        let Some(mut groups) = self.grouped(&keys, ids, Some(&moves), kept)? else {
            return Ok(None);
        };
        let mut facts = self.facts.clone();
        for (id, grouped) in &groups {
            let is_periodic = grouped.axis.regular.is_some();
            if is_periodic && grouped.len() / keys.len().max(1) > PERIODIC {
                return Ok(None);
            }
            if let Some(facts) = facts.get_mut(id) {
                facts.axis = grouped.axis.clone();
                facts.axis.regular = None;
            }
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
        if kept.is_some_and(|kept| !kept.has(self, plan)) {
            return Ok(None);
        }
        self.gather(plan, &mut groups, kept)?;
        let grouped = &groups[&root];
        let rows = self.asked_rows(root);
        let asked = (4 * rows.len() <= 3 * grouped.len())
            .then(|| Asked::of(grouped, rows.clone(), keys.len()));
        let mut lines = Vec::new();
        for first in (0..keys.len()).step_by(layout.keys) {
            self.control.alive()?;
            let of_line = first..keys.len().min(first + layout.keys);
            let series: BTreeMap<StreamId, Series> = groups
                .iter()
                .map(|(id, grouped)| (*id, grouped.line(of_line.clone())))
                .collect();
            let buffers = series.iter();
            let buffers = buffers.map(|(id, series)| (*id, bare(program, series)));
            let whole = Span::new(-(EDGE as i64), EDGE as i64);
            let job = Job {
                plan,
                code,
                lineage: &self.query.lineage,
                buffers: &buffers.collect(),
                series: &series,
                run: whole,
                scope: whole,
                part: whole,
                dictionary: &self.dictionary,
                functions: &self.options.functions,
                threads,
                piece_rows: self.options.piece_rows,
                piece_ticks: self.options.piece_ticks,
                control: self.control,
                work: share(ALL_WORK, of_line.len(), keys.len()),
                age: Some(layout.age),
                unread: &unread,
            };
            let found = match &asked {
                Some(asked) => job.run_at(&asked.of_line(grouped, &of_line)),
                None => job.run(),
            };
            match found {
                Ok(series) => lines.push(series),
                Err(Trouble(why)) => {
                    self.control.alive()?;
                    self.control.gives_up(why);
                    return Ok(None);
                }
            }
        }
        self.control.alive()?;
        let places = match &asked {
            Some(asked) => asked.places.of_rows(),
            None => &grouped.places.of_rows()[rows.clone()],
        };
        let computed = Computed {
            ids: &grouped.ids,
            rows,
            places: Some(places),
        };
        let output = self.in_order(plan, &carried, &computed, root, &lines);
        let output = output.map_err(|e| Error::Internal(e.to_string()))?;
        let output = self.assemble(&keys, output)?;
        let read = read_leaves(plan, root);
        Ok(output.map(|output| OnLines {
            output,
            keys,
            moves,
            groups,
            read,
        }))
    }

    /// Of each column of the output the one of the input's columns that it is, if it is one.
    pub(super) fn carried(&self, plan: &Plan, root: StreamId) -> Vec<Option<ArrayRef>> {
        let stage = plan.stages.last().expect("a plan has stages");
        let types = leaf_types(self.query.program.stream_dtype(stage.stream));
        let carried = |(passed, data_type): (Option<(StreamId, usize)>, &DataType)| {
            let (_, leaf) = passed.filter(|(stream, _)| *stream == root)?;
            let name = &self.facts[&root].leaves[leaf].name;
            let column = self.buffers[&root].column(name)?.array();
            (column.data_type() == data_type).then(|| ArrayRef::clone(column))
        };
        let passed = columns_of_streams(plan, stage).into_iter();
        passed.zip(&types).map(carried).collect()
    }

    /// The rows of an input that end in the part that is asked for.
    pub(super) fn asked_rows(&self, input: StreamId) -> Range<usize> {
        let timeline = &self.series[&input].axis.timeline;
        let Span { start, end } = self.part();
        let first = timeline.ends_until(start);
        first..timeline.ends_until(end).max(first)
    }

    /// The results of all lines as rows of the output: those of the input that they are computed for, in its order.
    pub(super) fn in_order(
        &self,
        plan: &Plan,
        carried: &[Option<ArrayRef>],
        computed: &Computed,
        root: StreamId,
        lines: &[Series],
    ) -> Result<Output, ArrowError> {
        let stage = plan.stages.last().expect("a plan has stages");
        let types = leaf_types(self.query.program.stream_dtype(stage.stream));
        let rows = self.rows_in_order(computed, root, joined(lines).as_ref());
        let some: Option<Vec<u32>> = rows.as_ref().map(|rows| {
            let rows = rows.values().iter();
            rows.map(|row| computed.place(*row)).collect()
        });
        // Where each row of the output is on the lines; `None` if they have just these rows.
        let places = some.as_deref().or(computed.places);
        let ids = computed.ids;
        let of_rows = |column: &ArrayRef| match &rows {
            None => Ok(ArrayRef::clone(column)),
            Some(rows) => take(column, rows, None),
        };
        let mut leaves = Vec::with_capacity(types.len());
        for (leaf, (data_type, carried)) in types.iter().zip(carried).enumerate() {
            leaves.push(if let Some(column) = carried {
                of_rows(column)?
            } else {
                let of_lines = leaf_of_lines(lines, leaf, data_type)?;
                let in_order = places.map(|at| gather_leaf(at, &of_lines, self.threads()));
                in_order.unwrap_or(of_lines).to_array(data_type)
            });
        }
        let key = self.buffers[&root].column(self.key.name);
        let key = key.map(Column::array).filter(|column| {
            !is_text(self.key.dtype) && *column.data_type() == to_arrow(self.key.dtype)
        });
        let keys = match (key, &rows) {
            (Some(column), _) => RowKeys::Column(of_rows(column)?),
            (None, None) => {
                let mut of_rows = vec![0; self.buffers[&root].len()];
                ids.read(0..of_rows.len(), &mut of_rows);
                RowKeys::Ids(of_rows)
            }
            (None, Some(rows)) => {
                let rows = rows.values().iter();
                RowKeys::Ids(rows.map(|row| ids.get(*row as usize)).collect())
            }
        };
        Ok(Output {
            timeline: self.timeline_of(root, rows.as_ref().map(|rows| &**rows.values())),
            keys,
            leaves,
        })
    }

    /// The rows of the output, as numbers of the input's rows; `None` if they are all of them in their order.
    fn rows_in_order(
        &self,
        computed: &Computed,
        root: StreamId,
        present: Option<&BooleanBuffer>,
    ) -> Option<UInt32Array> {
        let ends = self.series[&root].axis.ends();
        let asked = &computed.rows;
        let is_event =
            |row: &u32| present.is_none_or(|bits| bits.value(computed.place(*row) as usize));
        // Where no two events overlap, no two end at once.
        let buffer = &self.buffers[&root];
        let order = (buffer.is_bag()).then(|| by_end_and_key(ends, asked, computed.ids));
        let order = order.flatten();
        if order.is_none() && present.is_none() && asked.len() == ends.len() {
            return None;
        }
        let first = asked.start;
        let wanted = in_parts(asked.len(), self.threads(), |rows| match &order {
            None => ((first + rows.start) as u32..(first + rows.end) as u32)
                .filter(is_event)
                .collect::<Vec<_>>(),
            Some(order) => order[rows].iter().copied().filter(is_event).collect(),
        });
        Some(wanted.concat().into())
    }

    /// The events of some rows of an input; all without `rows`.
    fn timeline_of(&self, input: StreamId, rows: Option<&[u32]>) -> Timeline {
        let timeline = self.buffers[&input].timeline();
        let of_rows = |times: ScalarBuffer<i64>| match rows {
            None => times,
            Some(rows) => rows.iter().map(|row| times[*row as usize]).collect(),
        };
        let ends = of_rows(self.series[&input].axis.ends().clone());
        match timeline.spans() {
            Spans::Fixed(length) => Timeline::explicit(ends, Spans::Fixed(*length)),
            _ => Timeline::intervals(of_rows(timeline.starts()), ends),
        }
    }
}

/// Of each column that a stage stores the one that it is of another stream with the same rows, if it is one.
pub(super) fn columns_of_streams(plan: &Plan, stage: &Stage) -> Vec<Option<(StreamId, usize)>> {
    let passed = passed_on(&plan.loops[stage.main], stage).into_iter();
    let whole = passed.map(|passed| passed.filter(|p| p.known == Known::Column));
    whole
        .map(|passed| passed.map(|p| (p.stream, p.leaf)))
        .collect()
}

/// Which columns of the output need not be computed: those that are columns of an input. Where a record has events it does not say itself.
pub(super) fn unread(plan: &Plan, carried: &[Option<ArrayRef>]) -> Vec<bool> {
    let is_record = plan.stages.last().is_some_and(|s| s.facts.is_record());
    let carried = carried.iter().map(Option::is_some);
    carried.map(|is_carried| is_record && is_carried).collect()
}

/// A column of all lines.
fn leaf_of_lines(lines: &[Series], leaf: usize, data_type: &DataType) -> Result<Leaf, ArrowError> {
    if let [line] = lines {
        return Ok(line.leaves[leaf].clone());
    }
    let arrays = lines
        .iter()
        .map(|line| line.leaves[leaf].to_array(data_type));
    let arrays: Vec<ArrayRef> = arrays.collect();
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(Leaf::of_array(&concat(&arrays)?, lines[0].leaves[leaf].ty))
}

/// Where the lines have events; `None` if everywhere.
fn joined(lines: &[Series]) -> Option<BooleanBuffer> {
    let bits = if let [line] = lines {
        line.presence()?.clone()
    } else {
        let mut bits = BooleanBufferBuilder::new(0);
        for line in lines {
            match line.presence() {
                Some(present) => bits.append_buffer(present),
                None => bits.append_n(line.axis.len(), true),
            }
        }
        bits.finish()
    };
    (bits.count_set_bits() < bits.len()).then_some(bits)
}

/// Some rows, given by end, in the order of the output: by end, then key. `None` if they are so already. All that end together are among them, or none.
fn by_end_and_key(ends: &[i64], rows: &Range<usize>, ids: &Ids) -> Option<Vec<u32>> {
    let ends = &ends[rows.clone()];
    let neighbours = ends.iter().zip(ends.get(1..).unwrap_or_default());
    if neighbours.filter(|(a, b)| a == b).count() == 0 {
        return None;
    }
    let mut rows: Vec<u32> = (rows.start as u32..rows.end as u32).collect();
    let mut rest = &mut rows[..];
    for equal in ends.chunk_by(|a, b| a == b) {
        let (these, others) = rest.split_at_mut(equal.len());
        if these.len() > 1 {
            these.sort_by_key(|row| ids.get(*row as usize));
        }
        rest = others;
    }
    (!rows.is_sorted()).then_some(rows)
}
