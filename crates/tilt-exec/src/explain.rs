//! What a compiled query does, for people.

use std::fmt::{self, Write};

use tilt_codegen::lir::{Combine, Lanes, Loop, Sink, Slot};
use tilt_ir::{Agg, Bounds, Id, Reach, StreamId, Unit, format_duration};

use crate::{
    code::Code,
    keyed::{line, linked},
    pieces::{MERGED, STREAMED, Whole, halos, usual_rows},
    plan::{Domain, GroupPlan, Plan, Root, Sharing, Stage},
    query::{Backend, Inner, Prepared, Ready},
    stagewise::{is_sequential, is_stagewise},
    stats::{Stats, bytes},
    strips::Strips,
    window::{Algorithm, Cut, Measure, RangePlan, WindowPlan},
};

pub(crate) fn explain(query: &Inner) -> String {
    let prepared = match query.declared_facts() {
        Ok(facts) => query.prepare(&facts, Backend::Native).prepared,
        Err(unsupported) => Prepared::Interpreted(unsupported.0).into(),
    };
    Explained(query, None).text(&prepared)
}

/// The plan that was run, with what was measured.
pub(crate) fn analyzed(query: &Inner, ready: Option<Ready>, stats: &Stats) -> String {
    let prepared = match (ready, &stats.interpreted) {
        (Some(ready), None) => ready.prepared,
        (_, why) => Prepared::Interpreted(why.clone().unwrap_or_default()).into(),
    };
    Explained(query, Some(stats)).text(&prepared)
}

/// The algorithm of a window in one word.
pub(crate) fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Blocks { .. } => "blocks",
        Algorithm::Doubling(_) => "doubling",
        Algorithm::Prefix { .. } => "prefix",
        Algorithm::Totals { .. } => "totals",
        Algorithm::Fold { .. } => "fold",
        Algorithm::Rows { .. } => "rows",
    }
}

struct Explained<'a>(&'a Inner, Option<&'a Stats>);

impl Explained<'_> {
    fn text(&self, prepared: &Prepared) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, prepared);
        text
    }

    fn write(&self, out: &mut String, prepared: &Prepared) -> fmt::Result {
        let program = &self.0.program;
        writeln!(out, "query {}", program.name)?;
        if let Some(stats) = self.1 {
            writeln!(out, "  {}", stats.summary())?;
        }
        for (input, halo) in self.0.lineage.halos() {
            let (back, ahead) = (halo.lookback, halo.lookahead);
            let (back, ahead) = (back.display(program.unit), ahead.display(program.unit));
            let name = program.streams[input].name();
            writeln!(out, "  ~{name}: lookback {back}, lookahead {ahead}")?;
        }
        match prepared {
            Prepared::Interpreted(why) => {
                writeln!(out, "interpreted, because of {why}")?;
                writeln!(out, "\n== program\n{program}")
            }
            Prepared::Loops { plan, code } => {
                self.plan(out, plan, code)?;
                writeln!(out, "\n== program\n{program}")?;
                writeln!(out, "== loops")?;
                for (number, body) in plan.loops.iter().enumerate() {
                    let stages = plan.stages.iter().map(|s| (Some(s.main), s.streaming));
                    let shared = plan.sharing.iter().map(|s| (s.main, s.streaming));
                    let mut past = stages
                        .chain(shared)
                        .filter(|(_, past)| *past == Some(number));
                    match past.next().and_then(|(of, _)| of) {
                        Some(of) => writeln!(out, "// {number}: {of} with streaming stores")?,
                        None => match plan.stages.iter().find_map(|s| s.full_of(number)) {
                            Some(of) => writeln!(
                                out,
                                "// {number}: {of} for windows that lie whole in their sources"
                            )?,
                            None => writeln!(out, "// {number}\n{body}")?,
                        },
                    }
                }
                Ok(())
            }
        }
    }

    fn plan(&self, out: &mut String, plan: &Plan, code: &Code) -> fmt::Result {
        let code = match code {
            Code::Native(_) => "machine code",
            Code::Interpreted => "interpreted loops",
        };
        let windows = plan.stages.iter().map(|s| s.windows.len()).sum();
        let stages = some(plan.stages.len(), "stage loop");
        writeln!(out, "  {code}: {stages}, {}", some(windows, "window"))?;
        if self.0.program.inputs().any(|(_, i)| i.key.is_some()) {
            let how = if let Some(scatter) = &plan.scatter {
                if scatter.is_ordered() {
                    "keys: all in one pass, a state for each, doubles in order"
                } else {
                    "keys: all in one pass, a state for each"
                }
            } else if linked::may_apply(&self.0.program, plan) {
                "keys: rows as they came, each with those of its key that it reads"
            } else if line::may_apply(&self.0.program, plan) {
                "keys: one after the other on one line of time, rows grouped by key"
            } else {
                "keys: one after the other, rows grouped by key"
            };
            writeln!(out, "  {how}")?;
        }
        writeln!(out, "  {}", self.cut(plan))?;
        for stage in &plan.stages {
            writeln!(out)?;
            self.stage(out, plan, stage)?;
        }
        Ok(())
    }

    /// How the timeline is cut, as `pieces` decides it.
    fn cut(&self, plan: &Plan) -> String {
        if let Some(why) = self.whole(plan) {
            return match Strips::of(plan) {
                _ if is_stagewise(plan) && !plan.stages.iter().all(is_sequential) => format!(
                    "stage by stage, in stretches that begin with what was gathered before them, because {why}"
                ),
                Some(strips) if !is_stagewise(plan) => format!(
                    "in strips of {} rows, one after the other, because {why}",
                    strips.rows()
                ),
                _ => format!("in one piece, because {why}"),
            };
        }
        let unit = self.0.program.unit;
        let (back, ahead) = (self.0.lineage.lookback(), self.0.lineage.lookahead());
        let halo = match (back == Reach::NONE, ahead == Reach::NONE) {
            (true, true) => "no halo".to_owned(),
            (false, true) => format!("halo {} before", back.display(unit)),
            (true, false) => format!("halo {} after", ahead.display(unit)),
            (false, false) => {
                let (back, ahead) = (back.display(unit), ahead.display(unit));
                format!("halo {back} before and {ahead} after")
            }
        };
        let rows = usual_rows(plan);
        let long = if halo == "no halo" || plan.stages.iter().any(is_sequential) {
            ""
        } else {
            ", or stage by stage where that is too long"
        };
        match plan.root {
            Root::Merge => {
                format!("pieces of about {MERGED} rows of the largest input, by time{long}; {halo}")
            }
            Root::Input(_) | Root::Grid { .. } | Root::Calendar { .. } if halo == "no halo" => {
                format!("pieces of about {rows} rows, fewer if threads would wait; {halo}")
            }
            Root::Input(_) | Root::Grid { .. } | Root::Calendar { .. } => {
                format!(
                    "pieces of about {rows} rows, at least {} times the halo{long}; {halo}",
                    halos(plan)
                )
            }
        }
    }

    /// Why there are no pieces.
    fn whole(&self, plan: &Plan) -> Option<String> {
        Some(match Whole::of(plan, &self.0.lineage)? {
            Whole::Recurrence(stage) => format!("~{} reads its own past", stage.name),
            Whole::Unbounded(input, halo) => {
                let name = self.0.program.streams[input].name();
                let side = if halo.lookback == Reach::Unbounded {
                    "past"
                } else {
                    "future"
                };
                format!("a result may depend on the whole {side} of ~{name}")
            }
            Whole::Merge(grid) => {
                format!(
                    "events of the merge may begin at any cell of ~{}",
                    grid.name
                )
            }
            Whole::Cells(grid) => {
                let name = &grid.name;
                format!("no length of time bounds which cells of ~{name} are read")
            }
        })
    }

    fn stage(&self, out: &mut String, plan: &Plan, stage: &Stage) -> fmt::Result {
        let main = &plan.loops[stage.main];
        let periodic = match stage.facts.axis.regular {
            Some(_) => "periodic",
            None => "irregular",
        };
        let nullable = if stage.facts.nullable {
            "nullable"
        } else {
            "null-free"
        };
        let lanes = match main.lanes {
            Lanes::Eight => "8 lanes",
            Lanes::One => "1 lane (reads its own past)",
        };
        writeln!(
            out,
            "stage ~{}: one loop over {}, {} at a time; {periodic}, {nullable}, {lanes}",
            stage.name,
            self.rows(plan, stage),
            stage.chunk()
        )?;
        let mut measured = self.1.iter().flat_map(|stats| &stats.stages);
        if let Some(stats) = measured.find(|stats| stats.name == stage.name) {
            let (read, written) = (bytes(stats.read), bytes(stats.written));
            writeln!(
                out,
                "  measured: {} in {}, {:.1?}, {:.2} ns/row, {} rows/s; {read} read, {written} written",
                some(stats.rows as usize, "row"),
                some(stats.pieces, "piece"),
                stats.time,
                stats.nanos_per_row(),
                stats.rate(),
            )?;
        }
        for window in &stage.windows {
            self.window(out, plan, stage, window)?;
        }
        for (number, call) in stage.calls.iter().enumerate() {
            if let Some(arguments) = call.arguments {
                writeln!(out, "  loop {arguments}: arguments of call {number}")?;
            }
        }
        let past = match stage.streaming {
            Some(number) => format!(
                "; loop {number} with streaming stores from {} MiB of output on",
                STREAMED >> 20
            ),
            None => String::new(),
        };
        let inside = stage.inside.as_ref().map_or(String::new(), |inside| {
            let number = inside.main;
            let so = stage.streaming.map_or("", |_| "so, too, ");
            format!("; loop {number} {so}where all rows that it reads exist")
        });
        writeln!(out, "  loop {}: {}{past}{inside}", stage.main, shape(main))?;
        let is_output = plan
            .stages
            .last()
            .is_some_and(|last| std::ptr::eq(last, stage));
        match plan.sharing.as_ref().filter(|_| is_output) {
            Some(sharing) => Self::sharing(out, stage, sharing),
            None => Ok(()),
        }
    }

    /// What the output shares with its input.
    fn sharing(out: &mut String, stage: &Stage, sharing: &Sharing) -> fmt::Result {
        let leaves = stage.facts.leaves.iter().zip(&sharing.columns);
        let shared = leaves.filter(|(_, passed)| passed.is_some());
        let shared: Vec<&str> = shared.map(|(leaf, _)| leaf.name.as_str()).collect();
        write!(out, "  the input's memory: {}", shared.join(", "))?;
        match sharing.main {
            Some(main) => writeln!(out, "; loop {main} stores what is not there"),
            None => writeln!(out, "; nothing is computed"),
        }
    }

    /// The rows of a stage.
    fn rows(&self, plan: &Plan, stage: &Stage) -> String {
        let unit = self.0.program.unit;
        match &stage.domain {
            Domain::On(stream) => format!("the rows of ~{}", self.name(plan, *stream)),
            Domain::Grid { period, offset: 0 } => {
                format!("cells every {}", format_duration(*period, unit))
            }
            Domain::Grid { period, offset } => {
                let (period, offset) = (
                    format_duration(*period, unit),
                    format_duration(*offset, unit),
                );
                format!("cells every {period}, offset {offset}")
            }
            Domain::Calendar(_) | Domain::Sessions { .. } => {
                let clock = self.0.program.streams[stage.stream].as_temporal();
                let clock = clock.map(|t| self.0.program.clock_text(&t.clock));
                clock.unwrap_or_default()
            }
            Domain::Merge {
                twin: Some(twin), ..
            } => format!("the same merge as ~{}", self.name(plan, *twin)),
            Domain::Merge { groups, .. } => {
                let groups: Vec<String> = groups.iter().map(|g| self.group(plan, g)).collect();
                format!("the merge of {}", groups.join(", "))
            }
        }
    }

    fn group(&self, plan: &Plan, group: &GroupPlan) -> String {
        let moved = |ticks: i64| match ticks {
            0 => "t".to_owned(),
            ticks => {
                let sign = if ticks > 0 { "+" } else { "" };
                format!("t{sign}{}", format_duration(ticks, self.0.program.unit))
            }
        };
        match group {
            GroupPlan::Value { streams, offset } => {
                let streams = streams.iter();
                let names: Vec<String> = streams
                    .map(|s| format!("~{}[{}]", self.name(plan, *s), moved(*offset)))
                    .collect();
                names.join(" with ")
            }
            GroupPlan::Hold { stream, offset, .. } => {
                format!("hold(~{}[{}])", self.name(plan, *stream), moved(*offset))
            }
            GroupPlan::Window { stream, lo, hi } => {
                let name = self.name(plan, *stream);
                format!("~{name}[{} : {}]", moved(*lo), moved(*hi))
            }
        }
    }

    fn window(
        &self,
        out: &mut String,
        plan: &Plan,
        stage: &Stage,
        window: &WindowPlan,
    ) -> fmt::Result {
        let range = &stage.ranges[window.range];
        // The text begins with the reduction's name.
        let what = window.what.split_once(' ').map_or("", |(_, text)| text);
        let mut name = algorithm(window.algorithm).to_owned();
        let mut loops = match window.algorithm {
            Algorithm::Blocks { forward, backward } => {
                name += &format!(" of {}", self.length(range));
                vec![(forward, "prefixes"), (backward, "suffixes")]
            }
            Algorithm::Doubling(doubling) => {
                let mut loops = vec![(doubling.forward, "prefixes of eighths")];
                match doubling.suffixes {
                    Some(suffixes) => loops.push((suffixes, "suffixes")),
                    None => loops[0].1 = "windows",
                }
                loops
            }
            Algorithm::Totals {
                forward,
                difference,
            } => vec![(forward, "what enters"), (difference, "less what leaves")],
            Algorithm::Prefix { forward } => vec![(forward, "running totals")],
            Algorithm::Fold { forward, backward } => {
                vec![(forward, "late parts"), (backward, "early parts")]
            }
            Algorithm::Rows { store } => vec![(store, "contributions")],
        };
        if let Some(panes) = &window.panes {
            loops.insert(0, (panes.fold, "panes"));
            loops.extend(panes.short.map(|short| (short, "whole panes")));
            name += &format!(" over {}", panes_text(panes.cut, self.0.program.unit));
        }
        let why = why(stage, range, window);
        let steady = if range.is_steady() {
            "; the same number of rows at every row"
        } else {
            ""
        };
        let gapless = if window.gapless {
            "; assumes no gaps, which a run checks"
        } else {
            ""
        };
        let packed = if range.packed {
            "; over events packed together"
        } else {
            ""
        };
        writeln!(
            out,
            "  window {what}: {name}, {why}{steady}{gapless}{packed}"
        )?;
        for (number, of) in loops {
            writeln!(
                out,
                "    loop {number}: {of}, {}",
                shape(&plan.loops[number])
            )?;
        }
        Ok(())
    }

    /// The length of a window, which is that of its blocks.
    fn length(&self, range: &RangePlan) -> String {
        match (range.length(), range.bounds) {
            (Some(length), _) => format_duration(length, self.0.program.unit),
            (None, Bounds::Event) => "the event".to_owned(),
            (None, Bounds::Ordinal { lo: Some(lo), hi }) => {
                format!("{} events", hi.saturating_sub(lo))
            }
            _ => "all time".to_owned(),
        }
    }

    fn name<'p>(&'p self, plan: &'p Plan, stream: StreamId) -> &'p str {
        // Maps are stages that the program does not name.
        let hidden = stream.index() >= self.0.program.streams.len();
        let stage = plan.stages.iter().find(|s| hidden && s.stream == stream);
        stage.map_or_else(|| self.0.program.streams[stream].name(), |s| &s.name)
    }
}

/// Why a window is computed as it is.
fn why(stage: &Stage, range: &RangePlan, window: &WindowPlan) -> &'static str {
    match window.algorithm {
        Algorithm::Blocks { .. } => match window.slots.first() {
            Some((Combine::Min | Combine::Max, _)) => "an extreme cannot be taken back",
            _ => "floats are added in one order",
        },
        Algorithm::Doubling(_) => "an extreme may be taken twice, in any order",
        Algorithm::Totals { .. } | Algorithm::Prefix { .. } => "integers are subtracted exactly",
        Algorithm::Fold { .. } => match (&stage.domain, range.bounds) {
            (_, Bounds::Ordinal { .. }) => "counted from the window's first event",
            (_, Bounds::Event) => "each event has a window of its own",
            (Domain::Grid { period, .. }, _)
                if range.length().is_some_and(|l| l / 4 <= *period) =>
            {
                "windows hardly overlap"
            }
            _ => "events may reach out of the window",
        },
        Algorithm::Rows { .. } => {
            let Some(rows) = &window.rows else {
                return "kept up to date row by row";
            };
            match rows.agg {
                Agg::Custom(_) if runs_on(range.bounds) => "a custom reducer, carried on",
                Agg::Custom(_) => match rows.custom.as_ref() {
                    Some(custom) if custom.shared.is_some() => {
                        "a custom reducer, two states of blocks merged for each window"
                    }
                    Some(custom) if custom.deacc.is_some() => {
                        "a custom reducer, contributions added and taken out again"
                    }
                    Some(custom) if custom.merge.is_some() => {
                        "a custom reducer, states merged anew for each window"
                    }
                    _ => "a custom reducer without merge, folded anew for each window",
                },
                _ if !rows.ordered => "events overlap",
                _ => "kept up to date row by row",
            }
        }
    }
}

/// The panes of a window.
fn panes_text(cut: Cut, unit: Unit) -> String {
    let length = |n: i64| match cut.measure {
        Measure::Positions => format!("{n} positions"),
        Measure::Ticks => format_duration(n, unit),
    };
    let mut text = format!("panes of {}", length(cut.every));
    if cut.rest > 0 {
        text += &format!(", each in two parts, the later one of {}", length(cut.rest));
    }
    text
}

/// A loop in a few words.
fn shape(body: &Loop) -> String {
    let (reads, values) = (body.accesses.len(), body.values.len());
    let mut text = match &body.sink {
        Sink::Store { .. } => "stores".to_owned(),
        Sink::Scan { .. } => "scans".to_owned(),
        Sink::Fold { .. } => "folds".to_owned(),
        Sink::Panes { every, .. } => format!("folds panes of {every}:"),
        Sink::Slide { span, .. } => format!("slides over {span}:"),
        Sink::Comb { .. } => "combs".to_owned(),
    };
    let mut what: Vec<String> = Vec::new();
    match &body.sink {
        Sink::Store { columns, .. } => {
            what.extend(columns.iter().map(|c| {
                let ty = body.ty(c.value);
                let nullable = if c.valid.is_some() { "?" } else { "" };
                format!("{ty}{nullable}")
            }));
        }
        Sink::Scan { slots, .. }
        | Sink::Fold { slots, .. }
        | Sink::Panes { slots, .. }
        | Sink::Slide { slots, .. }
        | Sink::Comb { slots } => {
            let text = |s: &Slot| format!("{} {}", operation(s.op), body.ty(s.value));
            what.extend(slots.iter().map(text));
        }
    }
    let _ = write!(
        text,
        " {}; {}, reads {}",
        what.join(", "),
        some(values, "instruction"),
        some(reads, "column")
    );
    text
}

fn operation(op: Combine) -> &'static str {
    match op {
        Combine::Add => "add",
        Combine::Mul => "mul",
        Combine::Min => "min",
        Combine::Max => "max",
        Combine::Or => "or",
    }
}

/// Whether a window has no beginning.
fn runs_on(bounds: Bounds) -> bool {
    matches!(
        bounds,
        Bounds::Time { lo: None, .. } | Bounds::Ordinal { lo: None, .. }
    )
}

/// `1 loop`, `2 loops`.
fn some(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}
