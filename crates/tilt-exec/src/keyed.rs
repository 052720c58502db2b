//! Keyed runs: rows by key, and four ways to run a plan on them.
//!
//! | way | when | where |
//! |---|---|---|
//! | one pass over all rows, a state for each key | windows on a grid that do not ask for the order, or are one pane each | `scatter` |
//! | rows as they came, each with those of its key that it reads | programs without windows | [`linked`] |
//! | all keys on one line of time, one unkeyed run | programs that read by time alone | [`line`] |
//! | a run for each key, results merged by end, then key | everything else | `by_key`, `merge` |
//!
//! Rows of keyed inputs are grouped by one stable counting sort and one pass for each column that is read ([`grouped`], [`places`]); a key's
//! series is a slice of that. The plan is made once, for what holds for every key.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use rayon::prelude::*;
use tilt_codegen::lir::Ty;
use tilt_data::{Column, SnapshotBuffer, Spans, Timeline, dtype::to_arrow};
use tilt_ir::{DType, FloatWidth, Overlap, Program, Span, StreamId};

use crate::{
    control::{ALL_WORK, Control, share},
    error::Error,
    execute::{input_series, scope},
    facts::{AxisFacts, SeriesFacts},
    keyed::{grouped::Grouped, line::Layout, past::Kept},
    keys::{Ids, Keys, are_same},
    pieces::{Job, pool},
    plan::{Plan, Source},
    query::{Inner, Prepared, RunOptions},
    run::Trouble,
    scatter,
    series::{Leaf, Series},
    text::{Dictionary, is_text},
};

mod asked;
mod grouped;
pub(crate) mod line;
pub(crate) mod linked;
mod merge;
mod past;
mod places;

pub(crate) use merge::{Events, merge};
pub(crate) use past::{Past, may_stay_grouped};
pub(crate) use places::gather_leaf;

/// A key with fewer rows is computed as one piece.
const ONE_PIECE: usize = 1 << 16;

/// The key of a program: its name and type.
pub(crate) struct KeyField<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: &'a DType,
    pub(crate) ty: Ty,
}

/// Rows of the output, in order.
pub(crate) struct Output {
    pub(crate) timeline: Timeline,
    pub(crate) keys: RowKeys,
    /// The value, or the fields of a record; strings as codes.
    pub(crate) leaves: Vec<ArrayRef>,
}

/// The key of each row.
pub(crate) enum RowKeys {
    Ids(Vec<u32>),
    /// As they came with the rows of an input.
    Column(ArrayRef),
}

/// The result of a program with keyed inputs, or `None` where only the interpreter knows.
pub(crate) fn run(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    buffers: &BTreeMap<StreamId, SnapshotBuffer>,
    run: Span,
    options: &RunOptions,
    control: &Control,
) -> Result<Option<SnapshotBuffer>, Error> {
    let texts = buffers.values().flat_map(SnapshotBuffer::columns);
    let texts: Vec<&ArrayRef> = texts.map(Column::array).collect();
    let Some(run) = Run::new(query, inputs, buffers, run, options, control, &texts) else {
        return Ok(None);
    };
    if let Some(output) = run.in_one_pass()? {
        return Ok(Some(output));
    }
    control.restart();
    if let Some(output) = run.in_place()? {
        return Ok(Some(output));
    }
    control.restart();
    if let Some(layout) = Layout::of(&query.program, run.span) {
        if let Some(lines) = run.on_lines(layout, None)? {
            return Ok(Some(lines.output));
        }
        control.restart();
    }
    run.by_key()
}

/// The result of a program whose rows [may stay grouped](may_stay_grouped), from rows that follow those of the past, if there is any, and what it leaves to the next run.
/// `None` where another way must be taken, which needs all rows.
pub(crate) fn go_on(
    query: &Inner,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    buffers: &BTreeMap<StreamId, SnapshotBuffer>,
    run: Span,
    options: &RunOptions,
    control: &Control,
    past: Option<&Past>,
) -> Result<Option<(SnapshotBuffer, Option<Past>)>, Error> {
    let Some(layout) = Layout::of(&query.program, run) else {
        return Ok(None);
    };
    // Codes of keys do not depend on other strings.
    let keys = query.program.inputs().filter_map(|(id, input)| {
        let key = buffers[&id].column(input.key.as_ref()?)?;
        Some(key.array())
    });
    let keys: Vec<&ArrayRef> = keys.collect();
    let Some(run) = Run::new(query, inputs, buffers, run, options, control, &keys) else {
        return Ok(None);
    };
    let lines = run.on_lines(layout, past.map(Past::kept))?;
    Ok(lines.map(|lines| (lines.output.clone(), Past::of(&run, lines))))
}

/// A keyed run.
struct Run<'a> {
    query: &'a Inner,
    inputs: &'a BTreeMap<String, SnapshotBuffer>,
    buffers: &'a BTreeMap<StreamId, SnapshotBuffer>,
    /// Of all rows together.
    facts: BTreeMap<StreamId, SeriesFacts>,
    series: BTreeMap<StreamId, Series>,
    dictionary: Dictionary,
    key: KeyField<'a>,
    /// The field that holds the key of each keyed input.
    columns: Vec<(StreamId, usize)>,
    span: Span,
    options: &'a RunOptions,
    control: &'a Control,
}

impl<'a> Run<'a> {
    /// `None` if only the interpreter knows. Strings of some columns have codes.
    fn new(
        query: &'a Inner,
        inputs: &'a BTreeMap<String, SnapshotBuffer>,
        buffers: &'a BTreeMap<StreamId, SnapshotBuffer>,
        span: Span,
        options: &'a RunOptions,
        control: &'a Control,
        texts: &[&ArrayRef],
    ) -> Option<Self> {
        let program = &query.program;
        // Values of other types are put together from leaves, which merging keys does not do yet.
        if !is_plain(program.stream_dtype(program.output)) {
            return None;
        }
        let inside = |b: &SnapshotBuffer| {
            b.hull()
                .is_none_or(|h| h.start >= span.start && h.end <= span.end)
        };
        if !buffers.values().all(inside) {
            return None;
        }
        let mut facts = BTreeMap::new();
        for (id, input) in program.inputs() {
            facts.insert(id, SeriesFacts::of_input(input, &buffers[&id]).ok()?);
        }
        let (key, columns) = key_columns(program, &facts)?;
        let dictionary = Dictionary::new(program, texts);
        let series = buffers.iter();
        let series =
            series.map(|(id, buffer)| (*id, input_series(program, *id, buffer, &dictionary)));
        Some(Self {
            query,
            inputs,
            buffers,
            series: series.collect(),
            facts,
            dictionary,
            key,
            columns,
            span,
            options,
            control,
        })
    }
}

impl Run<'_> {
    fn part(&self) -> Span {
        self.options.part.unwrap_or(Span::new(i64::MIN, i64::MAX))
    }

    fn threads(&self) -> usize {
        self.options.thread_count()
    }

    fn assemble(&self, keys: &Keys, output: Output) -> Result<Option<SnapshotBuffer>, Error> {
        let program = &self.query.program;
        assemble(
            program,
            self.inputs,
            &self.key,
            keys,
            output,
            &self.dictionary,
        )
    }

    /// All keys side by side, if the program is windows over points that do not ask for their order.
    fn in_one_pass(&self) -> Result<Option<SnapshotBuffer>, Error> {
        let program = &self.query.program;
        let ([(id, leaf)], Some(input)) = (&self.columns[..], scatter::may_apply(program)) else {
            return Ok(None);
        };
        let declared = program.streams[input].as_input().expect("an input");
        let (buffer, series) = (&self.buffers[id], &self.series[id]);
        if input != *id || !matches!(buffer.timeline().spans(), Spans::Fixed(1)) {
            return Ok(None);
        }
        let is_disjoint = declared.overlap == Overlap::Disjoint;
        let mut facts = self.facts.clone();
        if let Some(facts) = facts.get_mut(id) {
            facts.axis = AxisFacts {
                regular: None,
                length: Some(1),
                disjoint: is_disjoint,
                ordered: true,
                mixed: false,
            };
        }
        self.control.alive()?;
        let prepared = (self.control).prepare(self.query, &facts, self.options.backend, self.span);
        self.control.alive()?;
        let Prepared::Loops { plan, code } = &*prepared else {
            return Ok(None);
        };
        let Some(scatter) = &plan.scatter else {
            return Ok(None);
        };
        let (keys, ids) = Keys::number_quickly(&[&series.leaves[*leaf]], self.threads());
        let ids = &ids[0];
        if is_disjoint && buffer.is_bag() && !ids.differ_at_equal(series.axis.ends(), keys.len()) {
            return Ok(None);
        }
        let job = scatter::Job {
            program,
            plan,
            scatter,
            code,
            series,
            keys: &keys,
            ids,
            run: self.span,
            part: self.part(),
            texts: &self.dictionary.codes,
            threads: self.threads(),
            control: self.control,
        };
        match job.run() {
            Some(output) => self.assemble(&keys, output),
            None => self.control.alive().map(|()| None),
        }
    }

    /// Groups the columns that a plan reads.
    fn gather(
        &self,
        plan: &Plan,
        groups: &mut BTreeMap<StreamId, Grouped>,
        kept: Option<&Kept>,
    ) -> Result<(), Error> {
        for (id, grouped) in groups {
            self.control.alive()?;
            grouped.gather(&self.series[id], &read_leaves(plan, *id), kept);
        }
        Ok(())
    }

    /// The columns of keys.
    fn key_leaves(&self) -> Vec<&Leaf> {
        let columns = self.columns.iter();
        let leaf = |(id, leaf): &(StreamId, usize)| &self.series[id].leaves[*leaf];
        columns.map(leaf).collect()
    }

    /// The rows of all inputs by key. `None` if events of a key overlap that are declared not to, which the interpreter reports.
    fn grouped(
        &self,
        keys: &Keys,
        ids: Vec<Ids>,
        moves: Option<&[i64]>,
        kept: Option<&Kept>,
    ) -> Result<Option<BTreeMap<StreamId, Grouped>>, Error> {
        let mut groups = BTreeMap::new();
        for ((id, _), ids) in self.columns.iter().zip(ids) {
            let (buffer, series) = (&self.buffers[id], &self.series[id]);
            let threads = self.threads();
            let grouped = Grouped::new(buffer, series, ids, keys.len(), moves, kept, threads);
            let input = self.query.program.streams[*id].as_input();
            let input = input.expect("an input");
            if input.overlap == Overlap::Disjoint && !grouped.axis.disjoint {
                return Ok(None);
            }
            groups.insert(*id, grouped);
            self.control.alive()?;
        }
        Ok(Some(groups))
    }

    /// One key after the other, or side by side on threads.
    fn by_key(&self) -> Result<Option<SnapshotBuffer>, Error> {
        let (program, series, options) = (&self.query.program, &self.series, self.options);
        let threads = self.threads();
        let (keys, ids) = Keys::number(&self.key_leaves(), threads);
        self.control.alive()?;
        if keys.len() == 0 {
            return Ok(None);
        }
        let Some(mut groups) = self.grouped(&keys, ids, None, None)? else {
            return Ok(None);
        };
        let mut facts = self.facts.clone();
        for (id, grouped) in &groups {
            if let Some(facts) = facts.get_mut(id) {
                facts.axis = grouped.axis.clone();
            }
        }
        let prepared = (self.control).prepare(self.query, &facts, options.backend, self.span);
        let Prepared::Loops { plan, code } = &*prepared else {
            return Ok(None);
        };
        let rows = self.buffers.values().map(SnapshotBuffer::len).sum();
        let Some(scope) = scope(plan, self.span, rows) else {
            return Ok(None);
        };
        self.gather(plan, &mut groups, None)?;
        let all = groups.values().map(Grouped::len).sum();
        let by_key = threads > 1 && keys.len() >= 2 * threads;
        let one = |key: usize| {
            self.control.check()?;
            let mut of_key = series.clone();
            let mut rows = 0;
            for (id, grouped) in &groups {
                let grouped = grouped.series(key);
                rows += grouped.axis.len();
                of_key.insert(*id, grouped);
            }
            let is_small =
                rows < ONE_PIECE && options.piece_rows.is_none() && options.piece_ticks.is_none();
            let buffers = if is_small {
                BTreeMap::new()
            } else {
                let bare = |(id, series): (&StreamId, &Series)| (*id, bare(program, series));
                of_key.iter().map(bare).collect()
            };
            let job = Job {
                plan,
                code,
                lineage: &self.query.lineage,
                buffers: &buffers,
                series: &of_key,
                run: self.span,
                scope,
                part: self.part(),
                dictionary: &self.dictionary,
                functions: &options.functions,
                threads: if by_key { 1 } else { threads },
                piece_rows: options.piece_rows,
                piece_ticks: options.piece_ticks,
                control: self.control,
                work: share(ALL_WORK, rows, all),
                age: None,
                unread: &[],
            };
            let found = if is_small { job.in_one_go() } else { job.run() };
            found.map(|series| Events::of(key, series))
        };
        let found: Result<Vec<Option<Events>>, Trouble> = if by_key {
            pool(threads).install(|| (0..keys.len()).into_par_iter().map(one).collect())
        } else {
            (0..keys.len()).map(one).collect()
        };
        self.control.alive()?;
        let found = match found {
            Ok(found) => found,
            Err(Trouble(why)) => {
                self.control.gives_up(why);
                return Ok(None);
            }
        };
        let parts: Vec<Events> = found.into_iter().flatten().collect();
        let output = merge(program, plan, &parts)?;
        self.control.alive()?;
        self.assemble(&keys, output)
    }
}

/// The key, and the field that holds it of each keyed input. `None` if its type is none that loops have, or not the same everywhere.
fn key_columns<'a>(
    program: &'a Program,
    facts: &BTreeMap<StreamId, SeriesFacts>,
) -> Option<(KeyField<'a>, Vec<(StreamId, usize)>)> {
    let mut found: Option<KeyField> = None;
    let mut columns = Vec::new();
    for (id, input) in program.inputs() {
        let Some(name) = input.key.as_deref() else {
            continue;
        };
        let dtype = input.dtype.field(name)?;
        let leaf = facts[&id]
            .leaves
            .iter()
            .position(|leaf| leaf.name == name)?;
        if found.as_ref().is_some_and(|key| key.dtype != dtype) {
            return None;
        }
        let ty = facts[&id].leaves[leaf].ty;
        found.get_or_insert(KeyField { name, dtype, ty });
        columns.push((id, leaf));
    }
    Some((found?, columns))
}

/// The columns of a stream that a plan reads.
pub(crate) fn read_leaves(plan: &Plan, input: StreamId) -> Vec<usize> {
    let sources = plan.stages.iter().flat_map(|stage| {
        let windows = stage.windows.iter().flat_map(|w| &w.sources);
        let calls = stage.calls.iter().flat_map(|c| &c.sources);
        let inside = stage.inside.iter().flat_map(|inside| &inside.sources);
        let sources = stage.sources.iter().chain(inside);
        sources.chain(windows).chain(calls)
    });
    let mut leaves: Vec<usize> = sources
        .filter_map(|source| match source {
            Source::Leaf { stream, leaf, .. }
            | Source::Anchor { stream, leaf }
            | Source::Distance { stream, leaf, .. } => (*stream == input).then_some(*leaf),
            _ => None,
        })
        .collect();
    let windows = plan.stages.iter().flat_map(|stage| &stage.windows);
    let anchors = windows.filter_map(|w| w.anchor);
    let anchors = anchors.filter_map(|(stream, leaf)| (stream == input).then_some(leaf));
    leaves.extend(anchors);
    leaves
}

/// A buffer of the same events, without values: all that cutting looks at.
fn bare(program: &Program, series: &Series) -> SnapshotBuffer {
    let timeline = series.axis.timeline.clone();
    SnapshotBuffer::record(timeline, Vec::new(), None, program.unit)
        .expect("no column has another length")
}

/// Whether a value is one leaf, or a record of such: no half floats, no records in records.
pub(crate) fn is_plain(dtype: &DType) -> bool {
    let is_leaf = |dtype: &DType| {
        !matches!(
            dtype,
            DType::Float(FloatWidth::W16) | DType::Record(_) | DType::List(_)
        )
    };
    match dtype {
        DType::Record(fields) => fields.iter().all(|field| is_leaf(&field.dtype)),
        dtype => is_leaf(dtype),
    }
}

/// The Arrow types of a value's leaves, those of strings as codes.
pub(crate) fn leaf_types(dtype: &DType) -> Vec<DataType> {
    let leaf = |dtype: &DType| {
        if is_text(dtype) {
            DataType::UInt32
        } else {
            to_arrow(dtype)
        }
    };
    match dtype {
        DType::Record(fields) => fields.iter().map(|f| leaf(&f.dtype)).collect(),
        dtype => vec![leaf(dtype)],
    }
}

/// The output as a buffer, with its key. `None` if a field named like the key is not the key, which the interpreter reports.
pub(crate) fn assemble(
    program: &Program,
    inputs: &BTreeMap<String, SnapshotBuffer>,
    key: &KeyField,
    keys: &Keys,
    output: Output,
    dictionary: &Dictionary,
) -> Result<Option<SnapshotBuffer>, Error> {
    let dtype = program.stream_dtype(program.output);
    let name = program.streams[program.output].name();
    let fields: Vec<(&str, &DType)> = match dtype {
        DType::Record(fields) => fields.iter().map(|f| (f.name.as_str(), &f.dtype)).collect(),
        dtype => vec![(name, dtype)],
    };
    let mut columns = Vec::with_capacity(fields.len() + 1);
    let field = matches!(dtype, DType::Record(_))
        .then(|| fields.iter().position(|(name, _)| *name == key.name))
        .flatten();
    if let Some(field) = field {
        let column = &output.leaves[field];
        let leaf = |column| Leaf::of_array(column, key.ty);
        let is_key = match &output.keys {
            _ if fields[field].1 != key.dtype => false,
            RowKeys::Ids(ids) => keys.are(&leaf(column), ids),
            RowKeys::Column(own) => Arc::ptr_eq(own, column) || are_same(&leaf(own), &leaf(column)),
        };
        if !is_key {
            return Ok(None);
        }
    } else {
        let column = match output.keys {
            RowKeys::Ids(ids) => keys.column(ids, key.ty, key.dtype, dictionary),
            RowKeys::Column(column) => column,
        };
        columns.push(Column::new(key.name, column));
    }
    for ((name, dtype), array) in fields.into_iter().zip(output.leaves) {
        let array = if is_text(dtype) {
            dictionary.decode(array.as_primitive())
        } else {
            array
        };
        columns.push(Column::new(name, array));
    }
    let output = SnapshotBuffer::record(output.timeline, columns, None, program.unit)
        .map_err(|e| Error::Internal(e.to_string()))?;
    Ok(Some(tilt_interp::with_time_of(program, inputs, output)))
}
