//! What a run did, and what that cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tilt_codegen::lir::{Loop, Sink, Ty};
use tilt_ir::StreamId;

use crate::{
    explain::algorithm,
    memory,
    plan::{Source, Stage},
    query::{Prepared, Ready},
    series::Series,
};

/// What a run did, and what that cost. As text it is a table.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Every stage, in the order in which they run; none if the run was interpreted.
    pub stages: Vec<StageStats>,
    /// From the call to the result.
    pub time: Duration,
    /// Rows of the output, those that are no events included.
    pub rows: usize,
    /// Into how many pieces the timeline, or that of each key, was cut.
    pub pieces: usize,
    /// How many threads there were for them.
    pub threads: usize,
    /// How long it took to make the plan and its machine code, whenever that was.
    pub compile: Duration,
    /// Whether an earlier run, or the compilation of the query, had left a plan for such data.
    pub cached: bool,
    /// Why the run was interpreted, if it was.
    pub interpreted: Option<String>,
    /// The most bytes of columns that were in use at once, by all runs of the process.
    pub peak_bytes: usize,
}

/// What a stage did, in all pieces together.
#[derive(Clone, Debug)]
pub struct StageStats {
    /// The stream it computes.
    pub name: String,
    /// Rows that it computed, those in halos included.
    pub rows: u64,
    /// In how many pieces or stretches.
    pub pieces: usize,
    /// Bytes of the columns that it reads.
    pub read: u64,
    /// Bytes of the columns that it writes.
    pub written: u64,
    /// The time of all threads.
    pub time: Duration,
    /// The algorithm of each of its windows.
    pub windows: Vec<String>,
}

impl StageStats {
    /// Nanoseconds a row, on one thread.
    pub fn nanos_per_row(&self) -> f64 {
        self.time.as_nanos() as f64 / self.rows.max(1) as f64
    }

    /// Rows a second on one thread, as people read it.
    pub(crate) fn rate(&self) -> String {
        let rate = self.rows as f64 / self.time.as_secs_f64().max(1e-9);
        let (scaled, unit) = match rate {
            rate if rate >= 1e9 => (rate / 1e9, " G"),
            rate if rate >= 1e6 => (rate / 1e6, " M"),
            rate if rate >= 1e3 => (rate / 1e3, " k"),
            rate => (rate, ""),
        };
        format!("{scaled:.1}{unit}")
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        if self.stages.is_empty() {
            return Ok(());
        }
        let head = [
            "stage", "rows", "pieces", "time", "ns/row", "read", "written",
        ];
        let head = head.map(str::to_owned);
        let body = self.stages.iter().map(|stage| {
            [
                format!("~{}", stage.name),
                stage.rows.to_string(),
                stage.pieces.to_string(),
                format!("{:.1?}", stage.time),
                format!("{:.2}", stage.nanos_per_row()),
                bytes(stage.read),
                bytes(stage.written),
            ]
        });
        let table: Vec<[String; 7]> = std::iter::once(head).chain(body).collect();
        let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..7).map(|c| width(c).unwrap_or(0)).collect();
        let windows = self.stages.iter().map(|stage| stage.windows.join(", "));
        for (row, windows) in table
            .iter()
            .zip(std::iter::once("windows".to_owned()).chain(windows))
        {
            let [name, numbers @ ..] = row;
            write!(f, "{name:<0$}", widths[0])?;
            for (text, width) in numbers.iter().zip(&widths[1..]) {
                write!(f, "  {text:>width$}")?;
            }
            writeln!(f, "{}{windows}", if windows.is_empty() { "" } else { "  " })?;
        }
        Ok(())
    }
}

impl Stats {
    /// The run as a whole, in one line.
    pub(crate) fn summary(&self) -> String {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let mut text = format!(
            "{} row{} in {:.1?}",
            self.rows,
            plural(self.rows),
            self.time
        );
        if let Some(why) = &self.interpreted {
            return format!("{text}, interpreted because of {why}");
        }
        let known = if self.cached { " before" } else { "" };
        text += &format!(
            ": {} piece{}, {} thread{}, compiled{known} in {:.1?}, at most {} of columns",
            self.pieces,
            plural(self.pieces),
            self.threads,
            plural(self.threads),
            self.compile,
            bytes(self.peak_bytes as u64)
        );
        text
    }
}

/// Bytes in a unit that people read.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0);
    format!("{value:.digits$} {}", units[unit])
}

/// Counts while a run is measured.
#[derive(Debug)]
pub(crate) struct Collector {
    begun: Instant,
    counts: Mutex<Counts>,
}

#[derive(Default, Debug)]
struct Counts {
    stages: Vec<Count>,
    pieces: usize,
    ready: Option<Ready>,
    interpreted: Option<String>,
}

/// What one stage has done so far.
#[derive(Clone, Copy, Default, Debug)]
struct Count {
    rows: u64,
    pieces: usize,
    read: u64,
    written: u64,
    time: Duration,
}

impl Collector {
    pub(crate) fn new() -> Self {
        memory::forget_peak();
        Self {
            begun: Instant::now(),
            counts: Mutex::default(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted so far came to nothing.
    pub(crate) fn restart(&self) {
        let mut counts = self.counts();
        counts.stages.clear();
        counts.pieces = 0;
    }

    pub(crate) fn uses(&self, ready: &Ready) {
        let mut counts = self.counts();
        if let Prepared::Interpreted(why) = &*ready.prepared {
            counts.interpreted = Some(why.clone());
        }
        counts.ready = Some(ready.clone());
    }

    pub(crate) fn gives_up(&self, why: &str) {
        self.counts().interpreted = Some(why.to_owned());
    }

    pub(crate) fn piece(&self) {
        self.counts().pieces += 1;
    }

    /// Some rows of a stage were computed, in so many pieces.
    pub(crate) fn stage(
        &self,
        number: usize,
        pieces: usize,
        rows: usize,
        read: u64,
        row_bytes: u64,
        time: Duration,
    ) {
        let mut counts = self.counts();
        if counts.stages.len() <= number {
            counts.stages.resize(number + 1, Count::default());
        }
        let count = &mut counts.stages[number];
        count.pieces += pieces;
        count.rows += rows as u64;
        count.read += read;
        count.written += rows as u64 * row_bytes / 8;
        count.time += time;
    }

    /// The plan that was run, and what it cost.
    pub(crate) fn finish(
        &self,
        rows: usize,
        threads: usize,
        is_interpreted: bool,
    ) -> (Option<Ready>, Stats) {
        let mut counts = self.counts();
        let ready = counts.ready.clone();
        let stages = match ready.as_ref().map(|ready| &*ready.prepared) {
            Some(Prepared::Loops { plan, .. }) if !is_interpreted => {
                counts.stages.resize(plan.stages.len(), Count::default());
                let stages = plan.stages.iter().zip(&counts.stages);
                stages.map(|(stage, count)| count.of(stage)).collect()
            }
            _ => Vec::new(),
        };
        let why = counts.interpreted.take();
        let why = why.unwrap_or_else(|| "what the inputs are like, or the backend".to_owned());
        let stats = Stats {
            stages,
            time: self.begun.elapsed(),
            rows,
            pieces: counts.pieces,
            threads,
            compile: ready.as_ref().map_or(Duration::ZERO, |ready| ready.took),
            cached: ready.as_ref().is_some_and(|ready| !ready.is_new),
            interpreted: is_interpreted.then_some(why),
            peak_bytes: memory::peak(),
        };
        (ready, stats)
    }
}

impl Count {
    fn of(self, stage: &Stage) -> StageStats {
        let windows = stage.windows.iter();
        StageStats {
            name: stage.name.clone(),
            rows: self.rows,
            pieces: self.pieces,
            read: self.read,
            written: self.written,
            time: self.time,
            windows: windows.map(|w| algorithm(w.algorithm).to_owned()).collect(),
        }
    }
}

/// The bits of a value and its validity.
fn bits(ty: Ty, nullable: bool) -> u64 {
    let value = if ty == Ty::Bool {
        1
    } else {
        8 * ty.bytes() as u64
    };
    value + u64::from(nullable)
}

/// The bits of a row that a stage writes.
pub(crate) fn row_bits(main: &Loop) -> u64 {
    let Sink::Store { columns, .. } = &main.sink else {
        return 0;
    };
    let columns = columns.iter();
    columns
        .map(|c| bits(main.ty(c.value), c.valid.is_some()))
        .sum()
}

/// The bytes of the columns that a stage reads.
pub(crate) fn bytes_read(stage: &Stage, series: &BTreeMap<StreamId, Series>) -> u64 {
    let of = |(stream, leaf)| Some(column_bytes(series.get(&stream)?, leaf));
    columns_read(stage).into_iter().filter_map(of).sum()
}

/// As [`bytes_read`], of a stage that reads one stream.
pub(crate) fn bytes_of(stage: &Stage, series: &Series) -> u64 {
    let columns = columns_read(stage).into_iter();
    columns.map(|(_, leaf)| column_bytes(series, leaf)).sum()
}

fn column_bytes(series: &Series, leaf: usize) -> u64 {
    let leaf = &series.leaves[leaf];
    leaf.len as u64 * bits(leaf.ty, leaf.valid.is_some()) / 8
}

fn columns_read(stage: &Stage) -> BTreeSet<(StreamId, usize)> {
    let windows = stage.windows.iter().flat_map(|w| &w.sources);
    let calls = stage.calls.iter().flat_map(|c| &c.sources);
    let sources = stage.sources.iter().chain(windows).chain(calls);
    sources
        .filter_map(|source| match source {
            Source::Leaf { stream, leaf, .. }
            | Source::Anchor { stream, leaf }
            | Source::Distance { stream, leaf, .. } => Some((*stream, *leaf)),
            _ => None,
        })
        .collect()
}
