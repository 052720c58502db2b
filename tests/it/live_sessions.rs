//! Sessions against the oracle: random programs, rows in any order, batches of any size, policies, promises, idle inputs, checkpoints, revisions.
//!
//! Where rows are late a model says which of them count, and where: with every row it knows what the session knows, and no more.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use tilt::{
    Backend, Compiled, Error, Query, RunOptions,
    arrow::{
        array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array},
        schema::{Field, Schema},
    },
    data::{IngressOptions, Layout, SnapshotBuffer, ingest},
    interp::{Options, RunError, run_buffers},
    ir::{Input, OPEN, Overlap, Program, Span, SpanRule},
    live::{
        Completion, InputOptions, Latency, Mode, Policy, Session, SessionError, SessionOptions,
    },
};

use crate::{
    generate::{self, buffers},
    properties::{choices, config, maybe_keyed},
    text::format_inputs,
};

type Roll<'a> = &'a mut dyn FnMut(usize) -> usize;

fn ingress(input: &Input) -> IngressOptions {
    match input.span {
        SpanRule::Interval => IngressOptions::interval("start", "end"),
        _ => IngressOptions::stamp("time"),
    }
}

/// The rows that a buffer's events come from.
fn rows_of(input: &Input, buffer: &SnapshotBuffer) -> RecordBatch {
    let timeline = buffer.timeline();
    let times = |time: &dyn Fn(usize) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..buffer.len()).map(time)))
    };
    let mut columns: Vec<(String, ArrayRef)> = match input.span {
        SpanRule::Interval => vec![
            ("start".to_owned(), times(&|i| timeline.start(i))),
            ("end".to_owned(), times(&|i| timeline.end(i))),
        ],
        SpanRule::UntilNext => vec![("time".to_owned(), times(&|i| timeline.start(i) + 1))],
        _ => vec![("time".to_owned(), times(&|i| timeline.end(i)))],
    };
    let values = buffer.columns().iter();
    columns.extend(values.map(|c| (c.name().to_owned(), c.array().clone())));
    let field = |(name, array): &(String, ArrayRef)| {
        let is_time = ["time", "start", "end"].contains(&name.as_str());
        Field::new(name, array.data_type().clone(), !is_time)
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("as many rows")
}

/// The rows in another order, in which none comes more than `lateness` after a later one. Rows of one time stay in order.
fn shuffled(rows: &RecordBatch, lateness: i64, roll: Roll) -> RecordBatch {
    let times: &Int64Array = rows.column(0).as_any().downcast_ref().expect("times");
    let mut delays: BTreeMap<i64, i64> = BTreeMap::new();
    for time in times.values() {
        let delay = roll(lateness as usize + 1) as i64;
        delays.entry(*time).or_insert(delay);
    }
    let mut order: Vec<u64> = (0..rows.num_rows() as u64).collect();
    order.sort_by_key(|row| {
        let time = times.value(*row as usize);
        i128::from(time) + i128::from(delays[&time])
    });
    taken(rows, order)
}

/// Intervals as two rows each, as they arrive: one without an end, and a later one with it. Also the intervals in the order in which they begin to arrive.
///
/// Of several that have the same start and values, which nothing tells apart while they are open, the first to begin has the end that comes first.
fn in_edges(rows: &RecordBatch, lateness: i64, roll: Roll) -> (RecordBatch, RecordBatch) {
    let column = |i: usize| -> &Int64Array {
        let column = rows.column(i).as_any().downcast_ref();
        column.expect("times")
    };
    let (starts, ends) = (column(0), column(1));
    let mut delay = || i128::from(roll(lateness as usize + 1) as i64);
    // When it arrives, which row, and whether it has its end.
    let mut arrivals: Vec<(i128, u64, bool)> = Vec::new();
    for row in 0..rows.num_rows() {
        let begins = i128::from(starts.value(row)) + delay();
        let ended = (i128::from(ends.value(row)) + delay()).max(begins);
        arrivals.extend([(begins, row as u64, false), (ended, row as u64, true)]);
    }
    arrivals.sort_by_key(|(at, _, has_end)| (*at, *has_end));
    let order = arrivals.iter().map(|(_, row, _)| *row).collect();
    let mut begun: Vec<u64> = Vec::new();
    let mut open: HashMap<String, VecDeque<usize>> = HashMap::new();
    let mut known_ends: Vec<i64> = Vec::new();
    for (_, row, has_end) in &arrivals {
        let same = |i: usize| rows.column(i).slice(*row as usize, 1);
        let same: Vec<ArrayRef> = (0..rows.num_columns())
            .filter(|i| *i != 1)
            .map(same)
            .collect();
        let alike = open.entry(format!("{same:?}")).or_default();
        if *has_end {
            let first = alike.pop_front().expect("it has begun");
            known_ends[first] = ends.value(*row as usize);
        } else {
            alike.push_back(begun.len());
            begun.push(*row);
            known_ends.push(0);
        }
    }
    let begun = taken(rows, begun);
    let mut columns = begun.columns().to_vec();
    columns[1] = Arc::new(Int64Array::from(known_ends));
    let begun = RecordBatch::try_new(begun.schema(), columns).expect("as many rows");
    let edges = taken(rows, order);
    let known = arrivals.iter().map(|(_, row, has_end)| {
        let end = ends.value(*row as usize);
        has_end.then_some(end)
    });
    let mut columns = edges.columns().to_vec();
    columns[1] = Arc::new(known.collect::<Int64Array>());
    let fields = edges
        .schema()
        .fields()
        .iter()
        .map(|f| {
            let nullable = f.is_nullable() || f.name() == "end";
            f.as_ref().clone().with_nullable(nullable)
        })
        .collect::<Vec<Field>>();
    let edges = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    (edges.expect("as many rows"), begun)
}

fn taken(rows: &RecordBatch, order: Vec<u64>) -> RecordBatch {
    let order = UInt64Array::from(order);
    arrow_select::take::take_record_batch(rows, &order).expect("rows that exist")
}

/// Each row as text: what tells it from others, and all of it. `op` is no part of it.
fn texts(rows: &RecordBatch, is_keyed: bool) -> Vec<(String, String)> {
    let schema = rows.schema();
    let text = |i: usize, is_in: &dyn Fn(&str) -> bool| {
        let fields = schema.fields().iter().zip(rows.columns());
        let of_row = fields.filter(|(field, _)| is_in(field.name()));
        let of_row: Vec<ArrayRef> = of_row.map(|(_, column)| column.slice(i, 1)).collect();
        format!("{of_row:?}")
    };
    let row = |i: usize| {
        let tells = |name: &str| ["start", "end"].contains(&name) || is_keyed && name == "b";
        let identity = text(i, &tells);
        (identity, text(i, &|name| name != "op"))
    };
    (0..rows.num_rows()).map(row).collect()
}

/// Makes the changes that a session gives.
fn apply(
    results: &mut Vec<(String, String)>,
    rows: &RecordBatch,
    is_keyed: bool,
) -> Result<(), String> {
    let Some(ops) = rows.column_by_name("op") else {
        results.extend(texts(rows, is_keyed));
        return Ok(());
    };
    let ops: &StringArray = ops.as_any().downcast_ref().expect("texts");
    for (op, row) in ops.iter().flatten().zip(texts(rows, is_keyed)) {
        if op == "insert" {
            results.push(row);
            continue;
        }
        let found = results.iter().position(|known| {
            if op == "update" {
                known.0 == row.0
            } else {
                *known == row
            }
        });
        let at = found.ok_or_else(|| format!("{op} of {row:?}, which is not there"))?;
        match op {
            "update" => results[at] = row,
            "delete" => drop(results.remove(at)),
            _ => return Err(format!("{op} of {row:?}")),
        }
    }
    Ok(())
}

/// What a session is to make of the rows of an input: which count, and as which events.
struct Model {
    policy: Policy,
    lateness: i64,
    /// By how much the time of a row is after the start of its event.
    offset: i64,
    span: SpanRule,
    period: Option<i64>,
    /// All rows in the order in which they come: their events, and their keys as texts.
    events: Vec<(Span, String)>,
    high: i64,
    promised: i64,
    is_idle: bool,
    /// Where a row of each key was first.
    firsts: HashMap<String, i64>,
    /// Rows that count, and what they are.
    counted: Vec<(u64, Span)>,
    adjusted: u64,
}

impl Model {
    fn new(input: &Input, rows: &RecordBatch, policy: Policy, lateness: i64) -> Self {
        let times = |column: usize| -> &Int64Array {
            let times = rows.column(column).as_any().downcast_ref();
            times.expect("times")
        };
        let offset = match input.span {
            SpanRule::Point | SpanRule::UntilNext => 1,
            SpanRule::Fixed(length) => length,
            SpanRule::Interval => 0,
        };
        let event = |row: usize| {
            let first = times(0).value(row);
            match input.span {
                SpanRule::Interval => Span::new(first, times(1).value(row)),
                SpanRule::UntilNext => Span::new(first - offset, OPEN),
                _ => Span::new(first - offset, first),
            }
        };
        let key = input.key.as_ref().and_then(|key| rows.column_by_name(key));
        let key = |row: usize| format!("{:?}", key.map(|key| key.slice(row, 1)));
        Self {
            policy,
            lateness,
            offset,
            span: input.span,
            period: input.period,
            events: (0..rows.num_rows())
                .map(|row| (event(row), key(row)))
                .collect(),
            high: i64::MIN,
            promised: i64::MIN,
            is_idle: false,
            firsts: HashMap::new(),
            counted: Vec::new(),
            adjusted: 0,
        }
    }

    fn watermark(&self) -> i64 {
        let by_rows = match self.high {
            i64::MIN => i64::MIN,
            high => high - self.lateness,
        };
        by_rows.max(self.promised)
    }

    fn promise(&mut self, t: i64) {
        self.promised = self.promised.max(t - self.offset);
    }

    fn push(&mut self, rows: Range<usize>) {
        self.is_idle &= rows.is_empty();
        for row in rows {
            let (event, key) = self.events[row].clone();
            let first = *self.firsts.entry(key).or_insert(event.start);
            let watermark = self.watermark();
            let event = if event.start >= watermark {
                self.high = self.high.max(event.start);
                event
            } else if self.policy == Policy::Adjust {
                let moved = match (self.span, self.period) {
                    (SpanRule::Interval, _) => Span::new(watermark, event.end),
                    (_, None) => Span::new(watermark, watermark + event.end - event.start),
                    (_, Some(period)) => {
                        let start = watermark + (first - watermark).rem_euclid(period);
                        Span::new(start, start + event.end - event.start)
                    }
                };
                if moved.start >= moved.end {
                    continue;
                }
                self.adjusted += 1;
                moved
            } else {
                continue;
            };
            self.counted.push((row as u64, event));
        }
    }

    /// The rows that count, with the times that they have then.
    fn counted(&self, rows: &RecordBatch) -> RecordBatch {
        let kept = taken(rows, self.counted.iter().map(|(row, _)| *row).collect());
        let times = |time: &dyn Fn(&Span) -> i64| -> ArrayRef {
            let times = self.counted.iter().map(|(_, event)| time(event));
            Arc::new(Int64Array::from_iter_values(times))
        };
        let mut columns = kept.columns().to_vec();
        if self.span == SpanRule::Interval {
            columns[1] = times(&|event| event.end);
            columns[0] = times(&|event| event.start);
        } else {
            columns[0] = times(&|event| event.start + self.offset);
        }
        RecordBatch::try_new(kept.schema(), columns).expect("as many rows")
    }
}

/// Inputs that are idle are as far as the others.
fn leave_idle_behind(models: &mut BTreeMap<String, Model>) {
    if models.len() < 2 {
        return;
    }
    let active = models.values().filter(|model| !model.is_idle);
    let Some(least) = active.map(Model::watermark).min() else {
        return;
    };
    let idle = models.values_mut().filter(|model| model.is_idle);
    idle.for_each(|model| model.promised = model.promised.max(least));
}

/// A session to try.
struct Trial<'a> {
    compiled: &'a Compiled,
    run: RunOptions,
    mode: Mode,
    /// How much later than `lateness` rows may come, to revise results.
    horizon: i64,
    lateness: i64,
    /// What becomes of rows that are later, if there are some that nothing is revised for.
    policy: Option<Policy>,
    /// Whether intervals come as two rows.
    edges: bool,
    max_batch: Option<usize>,
    latency: Option<Latency>,
}

impl Trial<'_> {
    fn options(&self) -> SessionOptions {
        let inputs = self.compiled.program().inputs();
        let options = SessionOptions::new()
            .run(self.run.clone())
            .mode(self.mode)
            .egress(Layout::Interval);
        let options = self
            .max_batch
            .into_iter()
            .fold(options, SessionOptions::max_batch);
        let options = self
            .latency
            .into_iter()
            .fold(options, SessionOptions::latency);
        inputs.fold(options, |options, (_, input)| {
            let policy = match (self.policy, self.horizon) {
                (Some(policy), _) => policy,
                (None, 0) => Policy::Raise,
                (None, horizon) => Policy::Revise { horizon },
            };
            let of_input = InputOptions::new(ingress(input))
                .lateness(self.lateness)
                .policy(policy);
            let of_input = if self.edges && input.span == SpanRule::Interval {
                of_input.edges()
            } else {
                of_input
            };
            options.input(&input.name, of_input)
        })
    }

    /// Pushes all rows, in order of arrival for each input, and takes results in between. Where rows are late, models of the inputs are told what is done.
    /// The results, and how far time was said to have come.
    fn results(
        &self,
        arriving: &BTreeMap<String, RecordBatch>,
        models: &mut BTreeMap<String, Model>,
        roll: Roll,
    ) -> Result<(Vec<(String, String)>, i64), SessionError> {
        let mut lasts = i64::MIN;
        let mut session = Session::new(self.compiled, self.options())?;
        let is_keyed = self
            .compiled
            .program()
            .inputs()
            .any(|(_, i)| i.key.is_some());
        let mut at: BTreeMap<&String, usize> = arriving.keys().map(|name| (name, 0)).collect();
        for (name, rows) in arriving {
            session.push(name, &rows.slice(0, 0))?;
        }
        let most = [1, 3, 8][roll(3)];
        let mut results = Vec::new();
        let mut take = |rows: &RecordBatch| {
            apply(&mut results, rows, is_keyed).unwrap_or_else(|error| panic!("{error}"));
        };
        loop {
            let left = at
                .iter()
                .filter(|(name, at)| **at < arriving[**name].num_rows());
            let left: Vec<&String> = left.map(|(name, _)| *name).collect();
            let Some(name) = left.get(roll(left.len())) else {
                break;
            };
            let (rows, from) = (&arriving[*name], at[*name]);
            let len = (1 + roll(most)).min(rows.num_rows() - from);
            session.push(name, &rows.slice(from, len))?;
            at.insert(*name, from + len);
            if let Some(model) = models.get_mut(*name) {
                model.push(from..from + len);
                leave_idle_behind(models);
            }
            match roll(8) {
                0..4 => take(&session.take()?),
                4 => take(&session.take_now()?),
                5 => session.at(roll(30) as i64),
                _ => {}
            }
            if !models.is_empty() && roll(6) == 0 {
                let other = arriving.keys().nth(roll(arriving.len()));
                let other = other.expect("an input").clone();
                let farthest = models.values().map(|model| model.high).max();
                let t = farthest.unwrap_or(0).max(0) + roll(12) as i64 - 4;
                match roll(4) {
                    0 => {
                        session.advance(t)?;
                        lasts = lasts.max(t);
                        for model in models.values_mut() {
                            model.promise(t);
                        }
                    }
                    1 => {
                        session.advance_input(&other, t)?;
                        models.get_mut(&other).expect("an input").promise(t);
                        leave_idle_behind(models);
                    }
                    2 => {
                        session.idle(&other)?;
                        models.get_mut(&other).expect("an input").is_idle = true;
                        leave_idle_behind(models);
                    }
                    _ => {
                        session.catch_up()?;
                        for model in models.values_mut().filter(|m| m.high > i64::MIN) {
                            model.promised = model.promised.max(model.high + 1);
                        }
                    }
                }
            }
            if roll(8) == 0 {
                let bytes = session.checkpoint()?;
                let options = self.options().run(self.run.clone().threads(1 + roll(3)));
                session = Session::restore(self.compiled, &bytes, options)?;
            }
        }
        take(&session.close(Completion::End)?);
        let status = session.status();
        for input in &status.inputs {
            let Some(model) = models.get(&input.input) else {
                continue;
            };
            let (counts, all) = (input.counts, model.events.len() as u64);
            let counted = model.counted.len() as u64;
            let known = (
                counts.accepted + counts.overlapping,
                counts.adjusted,
                counts.dropped,
            );
            assert_eq!(
                known,
                (counted, model.adjusted, all - counted),
                "{status:?}"
            );
        }
        Ok((results, lasts))
    }
}

/// Feeds a program in several ways; the first result that is not that of a run on all rows.
fn difference(
    program: &Program,
    rows: &BTreeMap<String, RecordBatch>,
    roll: Roll,
) -> Result<(), String> {
    let query = Query::new(program.clone()).expect("verified");
    let compiled = query.compile().expect("compiles");
    let lateness = [0, 1, 5, 40][roll(4)];
    for (mode, horizon, is_late) in [
        (Mode::Final, 0, false),
        (Mode::Final, 7, false),
        (Mode::Updates, 0, false),
        (Mode::Updates, 7, false),
        (Mode::Final, 0, true),
        (Mode::Updates, 0, true),
    ] {
        let edges = !is_late && roll(2) == 0;
        // Rows of events that exclude each other yield where they are moved: `live_adjust` is about those.
        let may_adjust = program.inputs().all(|(_, input)| {
            input.overlap != Overlap::Disjoint && input.span != SpanRule::UntilNext
        });
        let policy = match is_late.then(|| roll(2)) {
            Some(1) if may_adjust => Some(Policy::Adjust),
            Some(_) => Some(Policy::Drop),
            None => None,
        };
        let (mut arriving, mut known) = (BTreeMap::new(), BTreeMap::new());
        let mut models = BTreeMap::new();
        for (_, input) in program.inputs() {
            let name = input.name.clone();
            let late = if is_late { [0, 3, 20][roll(3)] } else { 0 };
            let (rows, delay) = (&rows[&name], lateness + horizon + late);
            let (coming, of_input) = if edges && input.span == SpanRule::Interval {
                in_edges(rows, delay, roll)
            } else {
                let rows = shuffled(rows, delay, roll);
                (rows.clone(), rows)
            };
            if let Some(policy) = policy {
                let model = Model::new(input, &coming, policy, lateness);
                models.insert(name.clone(), model);
            }
            known.insert(name.clone(), of_input);
            arriving.insert(name, coming);
        }
        let functions = generate::functions();
        let expected = |known: &BTreeMap<String, RecordBatch>, lasts: i64| {
            let mut inputs = BTreeMap::new();
            for (_, input) in program.inputs() {
                let options = ingress(input).sort();
                let rows = &known[&input.name];
                let buffer = ingest(rows, input, program.unit, &options).ok()?;
                inputs.insert(input.name.clone(), buffer);
            }
            let hulls = inputs.values().filter_map(SnapshotBuffer::hull);
            let hull = hulls.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)));
            // Without a row it is not known where a run begins.
            let hull = hull.or((lasts == i64::MIN).then_some(Span::new(0, 0)))?;
            let longer = (lasts > hull.end).then(|| Span::new(hull.start, lasts));
            let options = Options {
                functions: functions.clone(),
                span: longer,
                ..Options::default()
            };
            let expected = run_buffers(program, &inputs, &options).ok()?;
            expected.to_record_batch(Layout::Interval).ok()
        };
        // What has no meaning on all rows may have one on those that count.
        if !is_late && expected(&known, i64::MIN).is_none() {
            return Ok(());
        }
        let is_keyed = program.inputs().any(|(_, input)| input.key.is_some());
        // Machine code takes long to make, and differs from loops in nothing that matters here.
        let backend = match roll(8) {
            0 => Backend::Native,
            1..4 => Backend::Loops,
            _ => Backend::Interpreter,
        };
        let run = RunOptions::default().backend(backend).threads(1);
        let trial = Trial {
            compiled: &compiled,
            run: run.functions(functions.clone()),
            mode,
            horizon,
            lateness,
            policy,
            edges,
            max_batch: [None, Some(1), Some(5), Some(1000)][roll(4)],
            latency: [
                None,
                None,
                Some(Latency::Events(4)),
                Some(Latency::Clock(10)),
            ][roll(4)],
        };
        let found = trial.results(&arriving, &mut models, roll);
        let (mut found, lasts) = match found {
            Ok(found) => found,
            // Away from its part a run sees too little, and may read several values where a read that is preferred would have one.
            Err(SessionError::Run(error)) if matches!(*error, Error::Run(RunError::Query(_))) => {
                return Ok(());
            }
            Err(error) => {
                return Err(format!(
                    "{mode:?} {policy:?} {lateness} {horizon} fails: {error}"
                ));
            }
        };
        for (name, model) in &models {
            known.insert(name.clone(), model.counted(&arriving[name]));
        }
        let Some(expected) = expected(&known, lasts) else {
            return Ok(());
        };
        let mut expected = texts(&expected, is_keyed);
        if mode == Mode::Updates || horizon > 0 {
            expected.sort();
            found.sort();
        }
        if expected != found {
            return Err(format!(
                "{mode:?} {policy:?} {backend:?} lateness {lateness} horizon {horizon} edges {edges}\n// arriving {arriving:?}\n// gives     {expected:?}\n// but here  {found:?}\n",
            ));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases / 4, ..config() })]

    #[test]
    fn rows_in_any_order_give_what_a_run_in_one_go_gives(choices in choices()) {
        let (program, inputs, mut roll) = maybe_keyed(&choices);
        let arrays = buffers(&program, &inputs);
        let rows = program.inputs().map(|(_, input)| (input.name.clone(), rows_of(input, &arrays[&input.name])));
        let rows: BTreeMap<String, RecordBatch> = rows.collect();
        if let Err(difference) = difference(&program, &rows, &mut roll) {
            return Err(TestCaseError::fail(format!("{}{program}\n{difference}", format_inputs(&inputs))));
        }
    }
}
