//! What tilt does, in one screen or two: `make demo`.
//!
//! A query as text, what it depends on, what the optimiser makes of it, a run over Arrow data before and after, and what
//! common mistakes look like.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use tilt::{
    arrow::array::{
        ArrayRef, Float64Array, RecordBatch, TimestampSecondArray,
        cast::AsArray,
        types::{Float64Type, TimestampSecondType},
    },
    data::{IngressOptions, Layout, SnapshotBuffer, ingest},
    interp::{Options, run_buffers},
    ir::{Lineage, Program, optimize, parse, verify},
};

const QUERY: &str = "\
query trend unit s {
  input ~price: f64 point

  ~mean10[t] = reduce mean ~price[t-10s : t]
  ~mean20[t] = reduce mean ~price[t-20s : t]
  ~diff[t] = ~mean10[t] - ~mean20[t]
  ~percent[t] = ~diff[t] / ~mean20[t] * 100.0
  ~rising[t] = ~percent[t] > 0.0
  ~trend[t] = if ~rising[t] then ~percent[t] else null

  output ~trend
}
";

const TICKS: usize = 300;
/// 2026-01-05 09:30:00 UTC.
const OPENING: i64 = 1_767_605_400;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match demo(&mut Screen::new()) {
        Ok(()) => ExitCode::SUCCESS,
        // `make demo | head` has seen enough.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo(screen: &mut Screen) -> Result {
    screen.heading("A query is a function of time")?;
    screen.text(QUERY)?;
    let program = parse(QUERY)?;
    verify(&program)?;

    screen.heading("What it depends on")?;
    let lineage = Lineage::new(&program);
    for (input, halo) in lineage.halos() {
        screen.line(&format!(
            "  ~{}: lookback {}, lookahead {}",
            program.streams[input].name(),
            halo.lookback.display(program.unit),
            halo.lookahead.display(program.unit),
        ))?;
    }
    screen
        .note("So any piece of the timeline can be computed from its own 20 seconds of history.")?;

    screen.heading("Optimised")?;
    let optimized = optimize(&program);
    screen.text(&optimized.to_string())?;
    screen.note(&format!(
        "{} temporal expressions became {}: two windows, a join and a filter in one.",
        program.temporals().count(),
        optimized.temporals().count(),
    ))?;

    screen.heading("Data: any Arrow table")?;
    let rows = price_walk(7)?;
    let prices = read(&program, &rows)?;
    let hull = prices.hull().ok_or("no ticks")?;
    screen.line(&format!(
        "  {} ticks from {} to {}, {} to {} seconds apart, read without a copy",
        prices.len(),
        clock(hull.start + 1),
        clock(hull.end),
        gaps(&prices).min().unwrap_or(0),
        gaps(&prices).max().unwrap_or(0),
    ))?;

    screen.heading("Run on the interpreter, which defines every result")?;
    let (before, slow) = timed(|| run(&program, &prices))?;
    let (after, quick) = timed(|| run(&optimized, &prices))?;
    screen.line(&format!(
        "  as written   {:>4} rows   {slow:>6.2} ms",
        before.num_rows()
    ))?;
    screen.line(&format!(
        "  optimised    {:>4} rows   {quick:>6.2} ms",
        after.num_rows()
    ))?;
    screen.note(if same_bits(&before, &after) {
        "The same bits."
    } else {
        "DIFFERENT RESULTS: this is a bug, please report it."
    })?;
    screen.line("")?;
    table(screen, &rows, &after)?;

    screen.heading("Where the trend holds")?;
    chart(screen, &rows, &after)?;

    screen.heading("Three mistakes")?;
    mistakes(screen, &program, &rows)
}

/// Common mistakes and what tilt says.
fn mistakes(screen: &mut Screen, program: &Program, rows: &RecordBatch) -> Result {
    let wrong = [
        (
            "A stream that is not there",
            QUERY.replacen("mean ~price[t-10s", "mean ~prise[t-10s", 1),
        ),
        (
            "A comparison of a number with text",
            QUERY.replace("> 0.0", "> \"0\""),
        ),
    ];
    for (what, text) in wrong {
        let error = match parse(&text) {
            Err(error) => error.to_string(),
            Ok(program) => match verify(&program) {
                Err(error) => error.to_string(),
                Ok(()) => return Err(format!("{what}: no error").into()),
            },
        };
        screen.mistake(what, &error)?;
    }
    let shuffled = swapped(rows, 41)?;
    match read(program, &shuffled) {
        Err(error) => screen.mistake("Rows out of order", &error.to_string()),
        Ok(_) => Err("rows out of order: no error".into()),
    }
}

/// A seeded random walk with irregular ticks.
fn price_walk(seed: u64) -> Result<RecordBatch> {
    let mut state = seed;
    let mut uniform = move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (mut time, mut price, mut drift) = (OPENING, 100.0f64, 0.0f64);
    let (mut times, mut prices) = (Vec::new(), Vec::new());
    for _ in 0..TICKS {
        time += 1 + (uniform() * uniform() * 6.0) as i64;
        drift = 0.95 * drift + 0.05 * (uniform() - 0.5);
        price += drift + 0.2 * (uniform() - 0.5);
        times.push(time);
        prices.push((price * 100.0).round() / 100.0);
    }
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(times).with_timezone("UTC"));
    let prices: ArrayRef = Arc::new(Float64Array::from(prices));
    Ok(RecordBatch::try_from_iter([
        ("time", times),
        ("price", prices),
    ])?)
}

/// The rows with row `i` and the next one swapped.
fn swapped(rows: &RecordBatch, i: usize) -> Result<RecordBatch> {
    let mut times = times(rows).to_vec();
    times.swap(i, i + 1);
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(times).with_timezone("UTC"));
    Ok(RecordBatch::try_new(
        rows.schema(),
        vec![times, Arc::clone(&rows["price"])],
    )?)
}

fn read(program: &Program, rows: &RecordBatch) -> Result<SnapshotBuffer> {
    let (_, input) = program.inputs().next().ok_or("a query without input")?;
    Ok(ingest(
        rows,
        input,
        program.unit,
        &IngressOptions::stamp("time"),
    )?)
}

fn run(program: &Program, prices: &SnapshotBuffer) -> Result<RecordBatch> {
    let inputs = BTreeMap::from([("price".to_owned(), prices.clone())]);
    let trend = run_buffers(program, &inputs, &Options::default())?;
    Ok(trend.to_record_batch(Layout::Auto)?)
}

/// The result of `work` and the milliseconds it took.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_secs_f64() * 1e3))
}

fn same_bits(a: &RecordBatch, b: &RecordBatch) -> bool {
    let bits = |rows| -> Vec<u64> { values(rows, "trend").iter().map(|v| v.to_bits()).collect() };
    times(a) == times(b) && bits(a) == bits(b)
}

fn times(rows: &RecordBatch) -> &[i64] {
    rows["time"].as_primitive::<TimestampSecondType>().values()
}

fn values<'a>(rows: &'a RecordBatch, column: &str) -> &'a [f64] {
    rows[column].as_primitive::<Float64Type>().values()
}

fn gaps(stream: &SnapshotBuffer) -> impl Iterator<Item = i64> {
    (1..stream.len()).map(|i| stream.timeline().end(i) - stream.timeline().end(i - 1))
}

/// `09:30:00` of an instant.
fn clock(seconds: i64) -> String {
    let of_day = seconds.rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// The first rows of the result beside the prices they came from.
fn table(screen: &mut Screen, prices: &RecordBatch, trend: &RecordBatch) -> Result {
    const ROWS: usize = 8;
    screen.line("  ┌──────────┬──────────┬──────────┐")?;
    screen.line("  │ time     │    price │  trend % │")?;
    screen.line("  ├──────────┼──────────┼──────────┤")?;
    let rows = times(trend).iter().zip(values(trend, "trend"));
    for (time, percent) in rows.take(ROWS) {
        let row = times(prices).partition_point(|t| t < time);
        let price = values(prices, "price")[row];
        screen.line(&format!(
            "  │ {} │ {price:>8.2} │ {percent:>8.4} │",
            clock(*time)
        ))?;
    }
    screen.line("  └──────────┴──────────┴──────────┘")?;
    let more = trend.num_rows().saturating_sub(ROWS);
    screen.note(&format!(
        "and {more} more; a tick without a trend has no row"
    ))
}

/// The price over time, and below it where the trend holds.
fn chart(screen: &mut Screen, prices: &RecordBatch, trend: &RecordBatch) -> Result {
    const HEIGHT: usize = 6;
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = screen.width.saturating_sub(12).clamp(10, 100);
    let (times, all) = (times(prices), values(prices, "price"));
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return Ok(());
    };
    let column = |t: i64| ((t - first) * (width as i64 - 1) / (last - first).max(1)) as usize;

    // Each column shows the last price up to its end.
    let mut heights: Vec<Option<f64>> = vec![None; width];
    for (t, price) in times.iter().zip(all) {
        heights[column(*t)] = Some(*price);
    }
    let (low, high) = all.iter().fold((f64::MAX, f64::MIN), |(low, high), p| {
        (low.min(*p), high.max(*p))
    });
    let mut held = all[0];
    let eighths: Vec<usize> = heights
        .iter()
        .map(|height| {
            held = height.unwrap_or(held);
            let share = (held - low) / (high - low).max(f64::MIN_POSITIVE);
            1 + (share * (HEIGHT * 8 - 1) as f64).round() as usize
        })
        .collect();
    for row in (0..HEIGHT).rev() {
        let bars: String = eighths
            .iter()
            .map(|e| EIGHTHS[e.saturating_sub(row * 8).min(8)])
            .collect();
        let label = match row {
            0 => format!("{low:>8.2}"),
            row if row + 1 == HEIGHT => format!("{high:>8.2}"),
            _ => " ".repeat(8),
        };
        screen.line(&format!("  {label} {}", screen.colour("36", &bars)))?;
    }

    // Ticks of each column, and those among them that have a trend.
    let mut ticks = vec![(0, 0); width];
    for t in times {
        ticks[column(*t)].0 += 1;
    }
    for t in self::times(trend) {
        ticks[column(*t)].1 += 1;
    }
    let marks: String = ticks
        .iter()
        .map(|(all, rising)| match (all, rising) {
            (0, _) => ' ',
            (_, 0) => '·',
            (all, rising) if 2 * rising < *all => '▒',
            _ => '█',
        })
        .collect();
    screen.line(&format!("  {:>8} {}", "trend", screen.colour("32", &marks)))?;
    let gap = width.saturating_sub(16);
    screen.line(&format!(
        "  {:>8} {}{}{}",
        "",
        clock(*first),
        " ".repeat(gap),
        clock(*last)
    ))?;
    screen.note("█ most ticks rise   ▒ some do   · none does")
}

/// Standard output, in colour if it is a terminal.
struct Screen {
    out: io::StdoutLock<'static>,
    coloured: bool,
    width: usize,
}

impl Screen {
    fn new() -> Self {
        let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        Self {
            coloured: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            out: io::stdout().lock(),
            width: width.unwrap_or(80),
        }
    }

    fn colour(&self, code: &str, text: &str) -> String {
        if self.coloured {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&mut self, text: &str) -> Result {
        Ok(writeln!(self.out, "{text}")?)
    }

    fn heading(&mut self, text: &str) -> Result {
        let heading = self.colour("1", &format!("── {text} "));
        let rule = self
            .width
            .clamp(20, 100)
            .saturating_sub(text.chars().count() + 4);
        let rule = self.colour("2", &"─".repeat(rule));
        self.line(&format!("\n{heading}{rule}\n"))
    }

    fn note(&mut self, text: &str) -> Result {
        let note = self.colour("2", text);
        self.line(&format!("  {note}"))
    }

    /// Text of several lines, indented, long ones broken between words.
    fn text(&mut self, text: &str) -> Result {
        let width = self.width.clamp(40, 160);
        for line in text.trim_end().lines() {
            let indent = line.len() - line.trim_start().len() + 2;
            let mut row = " ".repeat(indent);
            for word in line.split_whitespace() {
                let used = row.chars().count();
                if used + word.chars().count() > width && used > indent {
                    self.line(row.trim_end())?;
                    row = " ".repeat(indent + 4);
                }
                row.push_str(word);
                row.push(' ');
            }
            self.line(row.trim_end())?;
        }
        Ok(())
    }

    fn mistake(&mut self, what: &str, error: &str) -> Result {
        let what = self.colour("33", what);
        self.line(&format!("  {what}"))?;
        error
            .trim_end()
            .lines()
            .try_for_each(|line| self.line(&format!("    {line}")))?;
        self.line("")
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
