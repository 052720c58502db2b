//! Pieces: the output's rows cut into parts that run side by side, each on its inputs and their halo.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};
use tilt_codegen::lir::{Known, LANES, Lanes, Sink, Store};
use tilt_data::{SnapshotBuffer, Spans, Timeline};
use tilt_interp::Functions;
use tilt_ir::{Halo, Lineage, Reach, Span, StreamId};

use crate::{
    chunks::{Chunks, Copied},
    code::Code,
    control::{Control, share},
    cursor,
    plan::{Domain, Plan, Root, Sharing, Stage},
    run::{Piece, Shared, Trouble, Wanted, may_pick, series_of},
    series::{Axis, Leaf, Series},
    stagewise::{is_sequential, is_stagewise},
    strips::Strips,
    text::Dictionary,
    window::Algorithm,
};

/// Rows of a piece when nothing asks for more: window columns of that many rows stay in the second cache.
const ROWS: usize = 1 << 15;
/// A piece is at least this many times its halo, so that what is read twice does not count.
pub(crate) const HALOS: usize = 8;
/// Fewer pieces than this for each thread leave threads without work.
const PIECES: usize = 4;
/// Where all windows are folded, what is read twice costs less than leaving the second cache.
const FOLDED: usize = 4;
/// Pieces begin at multiples of this many rows, so that no two write to one cache line.
pub(crate) const ALIGNED: usize = 512;

/// Rows of the largest input in a piece of a merge: its instants, choices and columns stay in the second cache.
pub(crate) const MERGED: usize = 1 << 14;
/// How many pieces of a merge a thread computes before all are appended.
const WAVE: usize = 4;

/// An output of so many bytes is written past the caches: it would only push out what is still needed.
pub(crate) const STREAMED: usize = 1 << 23;

/// Why a run is not cut.
pub(crate) enum Whole<'a> {
    /// The stage reads its own past.
    Recurrence(&'a Stage),
    /// The input matters however far away.
    Unbounded(StreamId, Halo),
    /// Events of a merge begin at gaps between cells of the stage, wherever these are: no scope of a piece tells.
    Merge(&'a Stage),
    /// How far around a piece cells of the stage are needed is not known.
    Cells(&'a Stage),
}

impl<'a> Whole<'a> {
    /// `None` if a run of the plan can be cut.
    pub(crate) fn of(plan: &'a Plan, lineage: &Lineage) -> Option<Self> {
        let recurs = |stage: &&Stage| plan.loops[stage.main].lanes == Lanes::One;
        if let Some(stage) = plan.stages.iter().find(recurs) {
            return Some(Self::Recurrence(stage));
        }
        let unbounded = |(_, halo): &(StreamId, Halo)| {
            halo.lookback == Reach::Unbounded || halo.lookahead == Reach::Unbounded
        };
        if let Some((input, halo)) = lineage.halos().find(unbounded) {
            return Some(Self::Unbounded(input, halo));
        }
        let is_grid =
            |stage: &&Stage| matches!(stage.domain, Domain::Grid { .. } | Domain::Calendar(_));
        let grid = plan.stages.iter().find(is_grid)?;
        if plan.root == Root::Merge {
            return Some(Self::Merge(grid));
        }
        plan.reach.is_none().then_some(Self::Cells(grid))
    }
}

/// A run to be cut.
pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) code: &'a Code,
    pub(crate) lineage: &'a Lineage,
    pub(crate) buffers: &'a BTreeMap<StreamId, SnapshotBuffer>,
    pub(crate) series: &'a BTreeMap<StreamId, Series>,
    pub(crate) run: Span,
    /// Where cells of grids may end.
    pub(crate) scope: Span,
    pub(crate) part: Span,
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) functions: &'a Functions,
    pub(crate) threads: usize,
    /// How many rows pieces are asked to have, or how much time.
    pub(crate) piece_rows: Option<usize>,
    pub(crate) piece_ticks: Option<i64>,
    pub(crate) control: &'a Control,
    /// How much of the run's work this is.
    pub(crate) work: u64,
    /// How old an event may be that is held, if there is such a limit.
    pub(crate) age: Option<i64>,
    /// Which columns of the output nobody reads, from the first on; the others are read.
    pub(crate) unread: &'a [bool],
}

impl Job<'_> {
    /// The output.
    pub(crate) fn run(&self) -> Result<Series, Trouble> {
        match Whole::of(self.plan, self.lineage) {
            None => {}
            Some(Whole::Recurrence(_)) => {
                return match Strips::of(self.plan) {
                    Some(strips) => self.in_strips(&strips),
                    None => self.in_one_go(),
                };
            }
            Some(_) => return self.stagewise(),
        }
        let Some((axis, rows)) = self.rows() else {
            return if self.overlaps(self.asked_rows().unwrap_or(MERGED), self.halo_of_merge()) {
                self.stagewise()
            } else {
                self.merged()
            };
        };
        let halo = self.halo(&axis, &rows);
        let least = self.least_rows(rows.len());
        if self.overlaps(least, halo) {
            return self.stagewise();
        }
        self.in_pieces(axis, rows, None, self.piece_size(least, halo))
    }

    /// The output at some rows of its axis, in order. Stages that read each other by row are computed at all of them.
    pub(crate) fn run_at(&self, picked: &[u32]) -> Result<Series, Trouble> {
        let stage = self.plan.stages.last().expect("a plan has stages");
        let cut = Whole::of(self.plan, self.lineage).is_none() && may_pick(stage);
        let Some((all, _)) = self.rows().filter(|_| cut) else {
            return self.run_and_pick(picked);
        };
        let axis = Arc::new(all.pick(picked));
        let rows = 0..picked.len();
        let halo = self.halo(&axis, &rows);
        let least = self.least_rows(rows.len());
        let size = match self.overlaps(least, halo) {
            false => self.piece_size(least, halo),
            // A single piece reads nothing twice.
            true if self.threads == 1 && self.asked_rows().is_none() => rows.len().max(1),
            true => return self.run_and_pick(picked),
        };
        self.in_pieces(axis, rows, Some(picked), size)
    }

    fn run_and_pick(&self, picked: &[u32]) -> Result<Series, Trouble> {
        let series = self.run()?;
        let axis = Arc::new(series.axis.pick(picked));
        // A column that nobody reads has no rows.
        let is_read = |leaf: usize| self.unread.get(leaf) != Some(&true);
        Ok(series.pick(picked, &axis, is_read))
    }

    /// How many rows a piece has, of which one depends on so many of an input.
    fn piece_size(&self, least: usize, halo: usize) -> usize {
        match self.asked_rows() {
            Some(_) => least,
            None => least
                .max(halo.saturating_mul(halos(self.plan)))
                .next_multiple_of(ALIGNED),
        }
    }

    /// Some rows of an axis, so many in a piece. The axis has the rows that are picked of all, if any are.
    fn in_pieces(
        &self,
        axis: Arc<Axis>,
        rows: Range<usize>,
        picked: Option<&[u32]>,
        size: usize,
    ) -> Result<Series, Trouble> {
        let stage = self.plan.stages.last().expect("a plan has stages");
        // A small part of an input would keep all of it.
        let shares = picked.is_none() && 2 * rows.len() >= axis.len();
        let sharing = self.plan.sharing.as_ref().filter(|_| shares);
        let (main, streaming) = match sharing {
            None => (Some(stage.main), stage.streaming),
            Some(sharing) => (sharing.main, sharing.streaming),
        };
        let Some(main) = main else {
            self.control.advance(self.work, rows.len())?;
            let sharing = sharing.expect("all is shared");
            return Ok(self.shared(sharing, axis, rows, Vec::new()));
        };
        let (columns, main) = self.columns(main, streaming, rows.len());
        let pieces = match self.piece_ticks {
            Some(ticks) => cut_by_time(&axis.timeline, &rows, ticks),
            None => rows
                .clone()
                .step_by(size)
                .map(|start| start..rows.end.min(start + size))
                .collect(),
        };
        let piece = |of_piece: &Range<usize>| {
            let share = (of_piece.start - rows.start, rows.len());
            self.piece(&axis, of_piece.clone(), picked, &columns, share, main)
        };
        if self.threads > 1 && pieces.len() > 1 {
            pool(self.threads).install(|| pieces.par_iter().try_for_each(piece))?;
        } else {
            pieces.iter().try_for_each(piece)?;
        }
        Ok(match sharing {
            Some(sharing) => self.shared(sharing, axis, rows, columns),
            None => series_of(stage, part_of(axis, &rows), columns, rows.len(), 0),
        })
    }

    /// Some rows of the output: the input's columns, and what was written beside them.
    fn shared(
        &self,
        sharing: &Sharing,
        axis: Arc<Axis>,
        rows: Range<usize>,
        columns: Vec<Shared>,
    ) -> Series {
        let stage = self.plan.stages.last().expect("a plan has stages");
        let Sink::Store {
            columns: stored, ..
        } = &self.plan.loops[stage.main].sink
        else {
            unreachable!("the main loop of a stage stores")
        };
        let mut written = columns.into_iter().map(|c| c.into_leaf(rows.len()));
        let columns = sharing.columns.iter().zip(stored).map(|(passed, store)| {
            let Some(passed) = passed else {
                return written.next();
            };
            let leaf = &self.series[&passed.stream].leaves[passed.leaf];
            let mut leaf = leaf.slice(rows.start, rows.len());
            if passed.known == Known::Values && store.valid.is_some() {
                leaf.valid = Some(written.next()?.bits()?.clone());
            }
            Some(leaf)
        });
        let columns: Option<Vec<Leaf>> = columns.collect();
        let columns = columns.expect("a loop writes what is not shared");
        Series::of_columns(stage, part_of(axis, &rows), columns)
    }

    /// Columns for so many rows of the output, and the loop that writes them: past the caches if that is much.
    pub(crate) fn columns(
        &self,
        main: usize,
        streaming: Option<usize>,
        rows: usize,
    ) -> (Vec<Shared>, usize) {
        let number = main;
        let main = &self.plan.loops[number];
        let Sink::Store { columns, .. } = &main.sink else {
            unreachable!("the main loop of a stage stores")
        };
        let column = |(number, store): (usize, &Store)| {
            let (ty, nullable) = (main.ty(store.value), store.valid.is_some());
            if self.unread.get(number) == Some(&true) {
                Shared::unread(ty, nullable)
            } else {
                Shared::new(ty, nullable, rows)
            }
        };
        let columns: Vec<Shared> = columns.iter().enumerate().map(column).collect();
        let bytes: usize = columns.iter().map(|c| c.values.len()).sum();
        // What nobody reads should stay in a cache.
        let streams = bytes >= STREAMED && !columns.iter().any(|c| c.unread);
        let streaming = streaming.filter(|_| streams);
        (columns, streaming.unwrap_or(number))
    }

    /// All rows that the output can have, and those that are wanted, if that is known before.
    pub(crate) fn rows(&self) -> Option<(Arc<Axis>, Range<usize>)> {
        let axis = match self.plan.root {
            Root::Input(stream) => Arc::clone(&self.series[&stream].axis),
            Root::Grid { period, offset } => {
                Arc::new(Axis::new(grid(period, offset, self.scope), Vec::new()))
            }
            Root::Calendar { stage } => {
                let Domain::Calendar(cells) = &self.plan.stages[stage].domain else {
                    unreachable!("the root of a calendar has its cells")
                };
                cells.axis(self.scope)
            }
            Root::Merge => return None,
        };
        let first = axis.timeline.ends_until(self.part.start);
        let end = axis.timeline.ends_until(self.part.end);
        Some((axis, first..end))
    }

    /// How many rows a piece has, but for its halo.
    fn least_rows(&self, rows: usize) -> usize {
        if let Some(asked) = self.asked_rows() {
            return asked.next_multiple_of(8);
        }
        let share = rows.div_ceil(self.threads.max(1) * 4);
        usual_rows(self.plan).min(share.max(ALIGNED))
    }

    /// How many rows of an input one row of the output depends on: one in the middle tells what others are like.
    fn halo(&self, axis: &Axis, rows: &Range<usize>) -> usize {
        if rows.is_empty() {
            return 0;
        }
        let middle = rows.start + rows.len() / 2;
        let cuts = self.cuts(span_of(axis, &(middle..middle + 1)));
        cuts.values().map(Range::len).max().unwrap_or(0)
    }

    /// The same where the rows of the output are not known, at a row of the largest input.
    fn halo_of_merge(&self) -> usize {
        self.largest().map_or(0, |largest| {
            let middle = largest.len() / 2;
            let end = largest.timeline().end(middle);
            let cuts = self.cuts(Span::new(end.saturating_sub(1), end));
            cuts.values().map(Range::len).max().unwrap_or(0)
        })
    }

    /// Whether pieces of so many rows would read much more around them than they have, so that stages are rather computed one after the other.
    fn overlaps(&self, least: usize, halo: usize) -> bool {
        if !is_stagewise(self.plan) || self.plan.stages.iter().any(is_sequential) {
            return false;
        }
        if self.asked_rows().is_some() {
            return halo > least;
        }
        let rows = self.buffers.values().map(SnapshotBuffer::len).max();
        let rows = rows.unwrap_or(0);
        let size = halo.saturating_mul(halos(self.plan));
        // One thread has no use for pieces, and with one stage nothing has to stay in a cache for another.
        let enough = if self.threads > 1 {
            rows / (PIECES * self.threads)
        } else if self.plan.stages.len() > 1 {
            rows / PIECES
        } else {
            least
        };
        rows >= ROWS && size > least.max(enough)
    }

    /// The rows of each input that a part of the output depends on.
    fn cuts(&self, span: Span) -> BTreeMap<StreamId, Range<usize>> {
        let cut = |(id, buffer): (&StreamId, &SnapshotBuffer)| {
            let rows = self.lineage.halo(*id).map_or(0..0, |halo| {
                buffer.cut_rows(span, halo.lookback, halo.lookahead)
            });
            // Bits begin at whole bytes.
            (*id, rows.start & !7..rows.end)
        };
        self.buffers.iter().map(cut).collect()
    }

    fn piece(
        &self,
        axis: &Axis,
        rows: Range<usize>,
        picked: Option<&[u32]>,
        columns: &[Shared],
        (at, all): (usize, usize),
        main: usize,
    ) -> Result<(), Trouble> {
        let span = span_of(axis, &rows);
        let work = share(self.work, rows.len(), all);
        let cuts = self.cuts(span);
        let slack = self.plan.reach.unwrap_or(0);
        let scope = Span::new(
            self.scope.start.max(span.start.saturating_sub(slack)),
            self.scope.end.min(span.end.saturating_add(slack)),
        );
        let first = match self.plan.root {
            Root::Input(stream) => cuts[&stream].start,
            Root::Grid { .. } | Root::Calendar { .. } => axis.timeline.ends_until(scope.start),
            Root::Merge => 0,
        };
        let of_piece = |picked: &[u32]| -> (Vec<u32>, Arc<Axis>) {
            let timeline = axis.timeline.slice(rows.start, rows.len());
            let picked = picked[rows.clone()].iter();
            let picked = picked.map(|row| row - first as u32).collect();
            (picked, Arc::new(Axis::new(timeline, Vec::new())))
        };
        let picked = picked.map(of_piece);
        let rows = match &picked {
            Some((picked, _)) => 0..picked.len(),
            None => rows.start - first..rows.end - first,
        };
        let piece = Piece {
            scope,
            picked: (picked.as_ref()).map(|(rows, axis)| (&rows[..], Arc::clone(axis))),
            ..self.new_piece(
                work,
                Wanted::Rows {
                    rows,
                    columns,
                    at,
                    main,
                },
            )
        };
        let inputs = cuts
            .iter()
            .map(|(id, rows)| (*id, slice(&self.series[id], rows)));
        piece.evaluate(inputs.collect())?;
        Ok(())
    }

    /// The events of a merge, cut by time.
    fn merged(&self) -> Result<Series, Trouble> {
        let parts = self.parts();
        if parts.len() < 2 {
            return self.in_one_go();
        }
        let work = share(self.work, 1, parts.len());
        let timed = |part: &Span| self.timed(*part, work);
        let mut chunks = Chunks::default();
        let mut done = 0;
        let wave = if self.threads > 1 {
            self.threads * WAVE
        } else {
            1
        };
        for parts_of_wave in parts.chunks(wave) {
            let computed: Result<Vec<Series>, Trouble> = if parts_of_wave.len() > 1 {
                let parts = parts_of_wave.par_iter();
                pool(self.threads).install(|| parts.map(timed).collect())
            } else {
                parts_of_wave.iter().map(timed).collect()
            };
            let computed = computed?;
            done += computed.len();
            let rows: usize = computed.iter().map(|series| series.axis.len()).sum();
            // As many rows in each piece to come as in the pieces so far.
            let expected = (chunks.rows() + rows).div_ceil(done) * (parts.len() - done);
            chunks.push(&computed, expected, |copies| {
                if copies.len() > 1 && self.threads > 1 {
                    pool(self.threads).install(|| copies.par_iter().for_each(Copied::make));
                } else {
                    copies.iter().for_each(Copied::make);
                }
            });
        }
        Ok(chunks.finish())
    }

    /// The input with the most rows.
    fn largest(&self) -> Option<&SnapshotBuffer> {
        let inputs = self.buffers.iter();
        let inputs = inputs.filter(|(id, _)| self.lineage.halo(**id).is_some());
        let (_, largest) = inputs.max_by_key(|(_, buffer)| buffer.len())?;
        (!largest.is_empty()).then_some(largest)
    }

    /// The part that is asked for, cut at ends of the input with the most rows.
    fn parts(&self) -> Vec<Span> {
        let (Some(ticks), Some(largest)) = (self.piece_ticks, self.largest()) else {
            return self.cut_by_rows(self.part, self.asked_rows().unwrap_or(MERGED));
        };
        let (mut parts, mut start) = (Vec::new(), self.part.start);
        let timeline = largest.timeline();
        let mut row = timeline.ends_until(start);
        // Where there is nothing for long, nothing is cut.
        while row < timeline.len() && start < self.part.end {
            let end = multiple_after(timeline.end(row), ticks).min(self.part.end);
            parts.push(Span::new(start, end));
            (start, row) = (end, timeline.ends_until(end));
        }
        if start < self.part.end {
            parts.push(Span::new(start, self.part.end));
        }
        parts
    }

    /// How many rows pieces are asked to have: those of the input with the most rows in the time that they are asked to have, on average.
    pub(crate) fn asked_rows(&self) -> Option<usize> {
        self.piece_rows.or_else(|| {
            let (ticks, largest) = (self.piece_ticks?, self.largest());
            let rows = largest.map_or(1, |largest| {
                let timeline = largest.timeline();
                let (first, last) = (timeline.end(0), timeline.end(timeline.len() - 1));
                let time = i128::from(last) - i128::from(first) + 1;
                let rows = timeline.len() as i128 * i128::from(ticks) / time;
                rows.clamp(1, timeline.len() as i128) as usize
            });
            Some(rows)
        })
    }

    /// A span of time, cut at every so many ends of the input with the most rows.
    pub(crate) fn cut_by_rows(&self, span: Span, rows: usize) -> Vec<Span> {
        let Some(largest) = self.largest() else {
            return Vec::new();
        };
        let timeline = largest.timeline();
        let mut parts = Vec::with_capacity(timeline.len() / rows + 1);
        let mut start = span.start;
        let ends = (rows..timeline.len())
            .step_by(rows)
            .map(|row| timeline.end(row));
        for end in ends.filter(|end| *end < span.end).chain([span.end]) {
            if start < end {
                parts.push(Span::new(start, end));
                start = end;
            }
        }
        parts
    }

    /// The events that end in a part.
    fn timed(&self, part: Span, work: u64) -> Result<Series, Trouble> {
        let piece = self.new_piece(work, Wanted::Time(part));
        let cuts = self.cuts(part);
        let inputs = cuts
            .iter()
            .map(|(id, rows)| (*id, slice(&self.series[id], rows)));
        piece.evaluate(inputs.collect())
    }

    /// A piece of the run, with its whole scope.
    pub(crate) fn new_piece<'p>(&'p self, work: u64, wanted: Wanted<'p>) -> Piece<'p> {
        Piece {
            plan: self.plan,
            code: self.code,
            run: self.run,
            scope: self.scope,
            dictionary: self.dictionary,
            functions: self.functions,
            control: self.control,
            work,
            age: self.age,
            carried: None,
            found: None,
            picked: None,
            open: false,
            wanted,
        }
    }

    /// Everything as one piece.
    pub(crate) fn in_one_go(&self) -> Result<Series, Trouble> {
        let piece = self.new_piece(self.work, Wanted::Time(self.part));
        piece.evaluate(self.series.clone())
    }
}

/// Rows of a piece when nothing asks for more, fewer where a column of as many has to stay in a cache: of windows that do not move from position to
/// position, and between stages.
pub(crate) fn usual_rows(plan: &Plan) -> usize {
    let holds = |stage: &Stage| {
        let mut windows = stage.windows.iter();
        windows.any(|window| {
            let by_row = matches!(window.algorithm, Algorithm::Rows { .. });
            by_row || !stage.ranges[window.range].is_steady()
        })
    };
    let has_windows = plan.stages.iter().any(|stage| !stage.windows.is_empty());
    let is_lean = match &plan.stages[..] {
        [stage] => !holds(stage),
        _ => !has_windows,
    };
    if is_lean { 4 * ROWS } else { ROWS }
}

/// How many times its halo a piece is at least.
pub(crate) fn halos(plan: &Plan) -> usize {
    let mut windows = plan.stages.iter().flat_map(|stage| &stage.windows);
    if windows.all(|window| matches!(window.algorithm, Algorithm::Fold { .. })) {
        FOLDED
    } else {
        HALOS
    }
}

/// The axis of some rows.
fn part_of(axis: Arc<Axis>, rows: &Range<usize>) -> Arc<Axis> {
    if *rows == (0..axis.len()) {
        return axis;
    }
    let timeline = axis.timeline.slice(rows.start, rows.len());
    Arc::new(Axis::new(timeline, Vec::new()))
}

/// The instants of some rows: from just before the first end to the last.
fn span_of(axis: &Axis, rows: &Range<usize>) -> Span {
    let timeline = &axis.timeline;
    let start = timeline.end(rows.start).saturating_sub(1);
    Span::new(start, timeline.end(rows.end - 1).max(start))
}

/// Some rows of a series, sharing its memory.
pub(crate) fn slice(series: &Series, rows: &Range<usize>) -> Series {
    if *rows == (0..series.axis.len()) {
        return series.clone();
    }
    Series {
        axis: Arc::new(Axis::new(
            series.axis.timeline.slice(rows.start, rows.len()),
            Vec::new(),
        )),
        leaves: series
            .leaves
            .iter()
            .map(|leaf| leaf.slice(rows.start, rows.len()))
            .collect(),
        present: series
            .present
            .as_ref()
            .map(|p| p.slice(rows.start, rows.len())),
    }
}

/// The cells of a grid that end in `scope`.
pub(crate) fn grid(period: i64, offset: i64, scope: Span) -> Timeline {
    let (period_wide, offset) = (i128::from(period), i128::from(offset));
    let after = |t: i64| (i128::from(t) - offset).div_euclid(period_wide) + 1;
    let (first, end) = (after(scope.start), after(scope.end.min(tilt_ir::OPEN - 1)));
    let len = usize::try_from(end - first).unwrap_or(0);
    let t0 = i64::try_from(offset + first * period_wide).unwrap_or(0);
    Timeline::regular(t0, period, len, Spans::Fixed(period))
}

/// A pool of its own for each number of threads and each process: the threads of a pool do not follow a fork.
pub(crate) fn pool(threads: usize) -> Arc<ThreadPool> {
    type Pools = HashMap<(u32, usize), Arc<ThreadPool>>;
    static POOLS: OnceLock<Mutex<Pools>> = OnceLock::new();
    let pools = POOLS.get_or_init(Mutex::default);
    let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = pools
        .entry((std::process::id(), threads))
        .or_insert_with(|| {
            let builder = ThreadPoolBuilder::new().num_threads(threads);
            let named = builder.thread_name(|i| format!("tilt-{i}"));
            Arc::new(named.build().expect("threads can be started"))
        });
    Arc::clone(pool)
}

/// The first multiple of an interval at or after an instant, or the end of time.
fn multiple_after(t: i64, ticks: i64) -> i64 {
    let (t, ticks) = (i128::from(t), i128::from(ticks));
    cursor::saturate(t + (-t).rem_euclid(ticks))
}

/// Some rows, cut where they end at a multiple of an interval or before it: pieces begin with a row that is a multiple of eight away from the first, so
/// that no two of them write into the same byte.
fn cut_by_time(timeline: &Timeline, rows: &Range<usize>, ticks: i64) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = rows.start;
    let mut row = rows.start;
    while row < rows.end {
        row = timeline
            .ends_until(multiple_after(timeline.end(row), ticks))
            .clamp(row + 1, rows.end);
        let cut = if row == rows.end {
            row
        } else {
            rows.start + (row - rows.start) / LANES * LANES
        };
        if start < cut {
            pieces.push(start..cut);
            start = cut;
        }
    }
    pieces
}
