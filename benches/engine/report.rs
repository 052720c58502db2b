//! The table: figures, their yardsticks, and whether the bars are met.

use std::{fs, path::Path};

use crate::{
    machine::Machine,
    measure::{Bandwidth, Timing},
    workload::{Bar, Traffic, Yardstick},
};

/// A measured row, in nanoseconds per event.
pub(crate) struct Row {
    /// What it is called.
    pub(crate) name: String,
    /// The engine, if it was run.
    pub(crate) engine: Option<Timing>,
    /// The hand-written loops with their labels.
    pub(crate) hands: Vec<(&'static str, Timing)>,
    /// What memory gave meanwhile.
    pub(crate) bandwidth: Bandwidth,
    /// What has to be moved.
    pub(crate) traffic: Traffic,
    /// What to reach.
    pub(crate) bars: Vec<Bar>,
}

impl Row {
    /// What the traffic alone takes.
    fn memory(&self) -> f64 {
        match self.traffic {
            Traffic::Read(bytes) => self.bandwidth.read * bytes / 8.0,
            Traffic::Copy(bytes) => self.bandwidth.copy() * bytes / 16.0,
        }
    }
}

/// How long an application takes to compile, in nanoseconds.
pub(crate) struct Compile {
    /// The application.
    pub(crate) name: &'static str,
    /// Without anything kept from before.
    pub(crate) cold: Timing,
    /// With the kernel in the cache.
    pub(crate) cached: Timing,
}

/// All that was measured.
#[derive(Default)]
pub(crate) struct Report {
    /// The queries.
    pub(crate) rows: Vec<Row>,
    /// The compiler.
    pub(crate) compiles: Vec<Compile>,
    /// How many events.
    pub(crate) events: usize,
}

const COLD_MILLIS: f64 = 80.0;
const CACHED_MILLIS: f64 = 2.0;
const NOTHING: &str = "–";

impl Report {
    /// Adds a row and prints it with its medians, which tell how noisy it was.
    pub(crate) fn add(&mut self, row: Row) {
        let show = |time: &Timing| format!("{:.3} (median {:.3})", time.least, time.median);
        let engine = row.engine.as_ref().map_or(NOTHING.to_owned(), show);
        let hands = row
            .hands
            .iter()
            .map(|(label, time)| format!("{label} {}", show(time)).trim().to_owned());
        let hands = hands.collect::<Vec<_>>().join(", ");
        println!(
            "{:44} engine {engine:24} hand {hands:24} memory {:.3}",
            row.name,
            row.memory()
        );
        self.rows.push(row);
    }

    /// As markdown.
    pub(crate) fn markdown(&self, machine: &Machine) -> String {
        let mut text = format!(
            "{machine}\n\n{} events, nanoseconds per event.",
            self.events
        );
        if let Some(best) = self
            .rows
            .iter()
            .map(|r| r.bandwidth)
            .reduce(Bandwidth::best)
        {
            let Bandwidth {
                read,
                copy_loop,
                memcpy,
            } = best;
            text += &format!(
                " At best a double is read in {read:.3} ns and copied in {memcpy:.3} by `memcpy`, {copy_loop:.3} in a loop."
            );
        }
        text += "\n";
        if !self.rows.is_empty() {
            text += "\n| work | engine | hand | ratio | of memory | bar | met |\n|---|--:|--:|--:|--:|---|---|\n";
        }
        for row in &self.rows {
            text += &self.line(row);
        }
        if !self.compiles.is_empty() {
            text +=
                "\n| application | cold, ms | cached, ms | bar | met |\n|---|--:|--:|---|---|\n";
        }
        for compile in &self.compiles {
            let (cold, cached) = (compile.cold.median / 1e6, compile.cached.median / 1e6);
            let met = met([cold <= COLD_MILLIS, cached <= CACHED_MILLIS]
                .into_iter()
                .map(Some));
            let name = compile.name;
            text += &format!(
                "| {name} | {cold:.2} | {cached:.3} | ≤ {COLD_MILLIS}, ≤ {CACHED_MILLIS} | {met} |\n"
            );
        }
        text
    }

    fn line(&self, row: &Row) -> String {
        let hand =
            |(label, time): &(&str, Timing)| format!("{label} {:.3}", time.least).trim().to_owned();
        let hands: Vec<String> = row.hands.iter().map(hand).collect();
        let figure = |value: Option<f64>, digits| {
            value.map_or(NOTHING.to_owned(), |v| format!("{v:.digits$}"))
        };
        let engine = row.engine.map(|e| e.least);
        let ratio = engine.zip(row.hands.first()).map(|(e, (_, h))| h.least / e);
        let kind = match row.traffic {
            Traffic::Read(bytes) => format!("read {bytes:.0} B"),
            Traffic::Copy(bytes) => format!("copy {bytes:.0} B"),
        };
        let share = figure(engine.map(|e| row.memory() / e), 2);
        let bars: Vec<String> = row.bars.iter().map(|bar| describe(bar, row)).collect();
        let verdicts = row.bars.iter().map(|bar| self.judge(bar, row));
        format!(
            "| {} | {} | {} | {} | {share} ({kind}) | {} | {} |\n",
            row.name,
            figure(engine, 3),
            hands.join(", "),
            figure(ratio, 2),
            bars.join("; "),
            met(verdicts)
        )
    }

    /// Whether the bar is met, if all that takes part was measured.
    fn judge(&self, bar: &Bar, row: &Row) -> Option<bool> {
        let engine = row.engine?.least;
        let time = |row: &Row| row.engine.map(|e| e.least);
        let (of, at_least) = match bar {
            Bar::Nanos(at_most) => return Some(engine <= *at_most),
            Bar::Speed(of, at_least) => (of, at_least),
        };
        let yardstick = match of {
            Yardstick::Memory => Some(row.memory()),
            Yardstick::Hand(i) => row.hands.get(*i).map(|(_, time)| time.least),
            Yardstick::Row(name) => self.rows.iter().find(|r| r.name == *name).and_then(time),
            Yardstick::Fastest(group) => {
                let rows = self
                    .rows
                    .iter()
                    .filter(|r| r.name.starts_with(group.as_str()));
                rows.filter_map(time).min_by(f64::total_cmp)
            }
        };
        yardstick.map(|y| y / engine >= *at_least)
    }

    /// Prints the table, and with `store` puts it between the marks of `docs/benchmarks.md`.
    pub(crate) fn finish(&self, machine: &Machine, store: bool) {
        let text = self.markdown(machine);
        println!("\n{text}");
        if !store {
            return;
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
        let fail = |what: &str| -> ! { panic!("{}: {what}", path.display()) };
        let page = fs::read_to_string(&path).unwrap_or_else(|e| fail(&e.to_string()));
        let (before, after) = (page.split_once(BEGIN), page.split_once(END));
        let (Some((before, _)), Some((_, after))) = (before, after) else {
            fail("the marks of the table are missing");
        };
        let page = format!("{before}{BEGIN}\n{text}{END}{after}");
        fs::write(&path, page).unwrap_or_else(|e| fail(&e.to_string()));
    }
}

const BEGIN: &str = "<!-- make bench-report: begin -->";
const END: &str = "<!-- make bench-report: end -->";

fn met(verdicts: impl Iterator<Item = Option<bool>>) -> &'static str {
    let verdicts: Vec<Option<bool>> = verdicts.collect();
    if verdicts.is_empty() || verdicts.contains(&None) {
        NOTHING
    } else if verdicts.contains(&Some(false)) {
        "**no**"
    } else {
        "yes"
    }
}

/// A bar in words.
fn describe(bar: &Bar, row: &Row) -> String {
    match bar {
        Bar::Nanos(nanos) => format!("≤ {nanos} ns"),
        Bar::Speed(Yardstick::Memory, share) => format!("≥ {share} of memory"),
        Bar::Speed(Yardstick::Hand(i), ratio) => match row.hands.get(*i) {
            Some((label, _)) if !label.is_empty() => format!("≥ {ratio} × {label}"),
            _ => format!("≥ {ratio} of hand"),
        },
        Bar::Speed(Yardstick::Row(name), ratio) if *ratio < 1.0 => {
            format!("≤ {:.1} × the time of “{name}”", 1.0 / ratio)
        }
        Bar::Speed(Yardstick::Row(name), ratio) => format!("≥ {ratio} × “{name}”"),
        Bar::Speed(Yardstick::Fastest(_), ratio) => {
            format!("≤ {:.1} × the fastest window", 1.0 / ratio)
        }
    }
}
