//! A service that embeds a query: `cargo run --example service -p tilt`.
//!
//! A thread receives batches of readings. It keeps of its input only what the query can still depend on, runs the query on that and
//! the new rows for the instants that are new, and reports alarms. The results are those of one run over everything.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use tilt::{
    Compiled, Query, RunOptions,
    arrow::array::{
        ArrayRef, Float64Array, RecordBatch, TimestampSecondArray,
        cast::AsArray,
        types::{Float64Type, TimestampSecondType},
    },
    data::{IngressOptions, Layout, SnapshotBuffer, ingest},
    ir::{Lineage, Reach, Span},
};

/// Where the mean of a minute lies more than 3 degrees above that of ten minutes.
const QUERY: &str = "\
query overheating unit s {
  input ~temperature: f64 point
  ~excess[t] = reduce mean ~temperature[t-1m : t] - reduce mean ~temperature[t-10m : t]
  ~alarm[t] = if ~excess[t] > 3.0 then ~excess[t] else null
  output ~alarm
}
";

const BATCHES: i64 = 12;
const ROWS: i64 = 300;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// An instant and the excess.
type Alarm = (i64, f64);

fn main() -> Result<()> {
    let query = Query::parse(QUERY)?.compile()?;
    let (readings, received) = channel();
    let (alarms, reported) = channel();
    let service = {
        let monitor = Monitor::new(query.clone());
        thread::spawn(move || serve(monitor, &received, &alarms))
    };
    let batches: Vec<RecordBatch> = (0..BATCHES).map(batch).collect::<Result<_>>()?;
    for rows in &batches {
        readings.send(rows.clone())?;
    }
    drop(readings);
    let mut live: Vec<Alarm> = Vec::new();
    for (number, new) in reported.into_iter().enumerate() {
        if let (Some((from, _)), Some((to, _))) = (new.first(), new.last()) {
            let most = new.iter().map(|(_, excess)| *excess).fold(0.0, f64::max);
            println!("batch {number:2}: alarm from {from} s to {to} s, up to {most:.2} degrees");
        } else {
            println!("batch {number:2}: quiet");
        }
        live.extend(new);
    }
    service.join().map_err(|_| "the service panicked")??;

    // The same in one run over everything.
    let chunks: Vec<SnapshotBuffer> = batches
        .iter()
        .map(|rows| read(&query, rows))
        .collect::<Result<_>>()?;
    let all = SnapshotBuffer::concat(&chunks)?;
    let whole = alarms_of(&query, all, &RunOptions::default())?;
    if live != whole {
        return Err("batch by batch the alarms are not those of one run".into());
    }
    println!(
        "{} alarms, the same as in one run over everything",
        live.len()
    );
    Ok(())
}

/// Answers each batch with its alarms until there are no more.
fn serve(
    mut monitor: Monitor,
    readings: &Receiver<RecordBatch>,
    alarms: &Sender<Vec<Alarm>>,
) -> Result<()> {
    for rows in readings {
        alarms.send(monitor.push(&rows)?)?;
    }
    Ok(())
}

/// A query and the recent past of its input.
struct Monitor {
    query: Compiled,
    lookback: Reach,
    recent: Option<SnapshotBuffer>,
    /// Everything up to here has been computed.
    done: i64,
}

impl Monitor {
    fn new(query: Compiled) -> Self {
        let lineage = Lineage::new(query.program());
        assert_eq!(lineage.lookahead(), Reach::NONE, "alarms must not wait");
        Self {
            lookback: lineage.lookback(),
            query,
            recent: None,
            done: i64::MIN,
        }
    }

    /// The alarms of rows that follow all those before.
    fn push(&mut self, rows: &RecordBatch) -> Result<Vec<Alarm>> {
        let new = read(&self.query, rows)?;
        let Some(hull) = new.hull() else {
            return Ok(Vec::new());
        };
        let known = match self.recent.take() {
            Some(recent) => SnapshotBuffer::concat(&[recent, new])?,
            None => new,
        };
        let part = Span::new(self.done, hull.end);
        let options = RunOptions::default().part(part);
        let alarms = alarms_of(&self.query, known.clone(), &options)?;
        self.done = hull.end;
        let later = Span::new(self.done, self.done);
        self.recent = Some(known.cut(later, self.lookback, Reach::NONE));
        Ok(alarms)
    }
}

fn read(query: &Compiled, rows: &RecordBatch) -> Result<SnapshotBuffer> {
    let program = query.program();
    let (_, input) = program.inputs().next().ok_or("a query without input")?;
    let options = IngressOptions::stamp("time");
    Ok(ingest(rows, input, program.unit, &options)?)
}

fn alarms_of(
    query: &Compiled,
    readings: SnapshotBuffer,
    options: &RunOptions,
) -> Result<Vec<Alarm>> {
    let inputs = BTreeMap::from([("temperature".to_owned(), readings)]);
    let rows = query.run(&inputs, options)?.to_record_batch(Layout::Auto)?;
    let times = rows["time"].as_primitive::<TimestampSecondType>().values();
    let values = rows["alarm"].as_primitive::<Float64Type>().values();
    Ok(times.iter().copied().zip(values.iter().copied()).collect())
}

/// A reading every other second; from 2000 s to 2500 s it gets warmer.
fn batch(number: i64) -> Result<RecordBatch> {
    let times: Vec<i64> = (0..ROWS).map(|i| 2 * (number * ROWS + i + 1)).collect();
    let warm = |t: i64| (t - 2000).clamp(0, 500) as f64 * 0.02;
    let noise = |t: i64| (t * 7 % 11) as f64 * 0.1;
    let values: Vec<f64> = times.iter().map(|t| 60.0 + warm(*t) + noise(*t)).collect();
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(times));
    let values: ArrayRef = Arc::new(Float64Array::from(values));
    Ok(RecordBatch::try_from_iter([
        ("time", times),
        ("temperature", values),
    ])?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn alarms_batch_by_batch_are_those_of_one_run() {
        super::main().unwrap();
    }
}
