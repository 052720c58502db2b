//! The applications of the TiLT paper against NumPy, SciPy, pandas and Polars; see `tests/apps/README.md`.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use tilt::{
    interp::{Event, Inputs, Options, Value, events_of, hull, run_buffers, run_keyed},
    ir::{
        DType, Field, Halo, Input, Lineage, Pipeline, Program, Reach, Span, SpanRule, StreamId,
        parse, verify,
    },
};

use crate::{
    generate::buffers,
    golden::{difference, lineage, optimized},
    keyed,
};

pub(crate) const APPLICATIONS: [&str; 9] = [
    "trend",
    "rsi",
    "normalize",
    "impute",
    "resample",
    "pan_tompkins",
    "vibration",
    "fraud",
    "ysb",
];

#[test]
fn trend_is_the_difference_of_rolling_means() {
    check_application("trend");
}

#[test]
fn rsi_is_that_of_fourteen_daily_changes() {
    check_application("rsi");
}

#[test]
fn normalize_gives_the_z_score_within_the_own_window() {
    check_application("normalize");
}

#[test]
fn impute_fills_with_the_mean_of_the_own_window() {
    check_application("impute");
}

#[test]
fn resample_interpolates_between_neighbours_only() {
    check_application("resample");
}

#[test]
fn pan_tompkins_is_a_chain_of_linear_filters() {
    check_application("pan_tompkins");
}

#[test]
fn vibration_features_are_those_of_scipy() {
    check_application("vibration");
}

#[test]
fn fraud_exceeds_three_deviations_of_the_ten_days_before() {
    check_application("fraud");
}

#[test]
fn ysb_counts_views_per_campaign_and_window() {
    check_application("ysb");
}

/// Each query states the reach into its inputs as derived by hand.
#[test]
fn lineage_is_as_tight_as_by_hand() {
    let mut failures = String::new();
    for name in APPLICATIONS {
        let path = directory().join(format!("{name}.tilt"));
        let (text, found) = (read(&path), lineage(&program(&path)));
        let by_hand: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("// lineage "))
            .collect();
        let found: Vec<_> = found
            .lines()
            .filter(|line| line.contains("lookback"))
            .collect();
        if found != by_hand {
            let _ = writeln!(failures, "{name}: {found:?}, by hand {by_hand:?}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// What the passes make of each application, its boundaries, and how many temporal expressions are left.
#[test]
fn applications_fuse_as_in_the_golden_file() {
    let mut text = String::from(
        "// The applications after all passes. TILT_BLESS=1 rewrites this file; see tests/it/apps.rs.\n",
    );
    for name in APPLICATIONS {
        let program = program(&directory().join(format!("{name}.tilt")));
        let _ = writeln!(text, "\n=== {name}");
        for line in lineage(&program).lines() {
            let _ = writeln!(text, "// {line}");
        }
        text.push_str(&optimized(&program));
    }
    let file = directory().join("optimized.golden");
    if std::env::var_os("TILT_BLESS").is_some() {
        fs::write(&file, &text).expect("the golden file can be written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "optimized.golden differs; look at the difference, then run again with TILT_BLESS=1\n{}",
        difference(&committed, &text)
    );
}

/// The stated reach is enough: a part of the output needs no input event outside of it.
#[test]
fn a_part_needs_no_more_input_than_its_halo() {
    for name in APPLICATIONS {
        let Application { program, inputs } = Application::read(name);
        let lineage = Lineage::new(&program);
        let span = hull(&inputs).expect("there are events");
        let width = (span.end - span.start) / 7 + 1;
        for start in (span.start..span.end).step_by(width as usize) {
            let part = Span::new(start, start + width);
            let cut = cut(&program, &inputs, part, |id| {
                lineage.halo(id).expect("every input is read")
            });
            assert!(
                same(
                    &run_part(&program, &inputs, span, part),
                    &run_part(&program, &cut, span, part)
                ),
                "{name}: the part {part} by its halo alone"
            );
        }
    }
}

/// The stated reach is needed: for each bounded one there is an event at its very edge without which the output changes.
///
/// A reach counts from `Ts`, though the first instant of a part is `Ts + 1`, and a window does not hold the instant at its
/// lower bound, so a window's lookback has two ticks to spare. A read at an instant has one. A lookahead has one, or a
/// step of the grid that is asked for.
#[test]
fn a_part_needs_all_of_its_halo() {
    let edges = edges();
    for name in APPLICATIONS {
        let program = program(&directory().join(format!("{name}.tilt")));
        for (_, halo) in Lineage::new(&program).halos() {
            for (direction, reach) in [
                (Direction::Back, halo.lookback),
                (Direction::Ahead, halo.lookahead),
            ] {
                let shown = edges
                    .iter()
                    .any(|edge| edge.name == name && edge.direction == direction);
                assert!(
                    shown || reach == Reach::NONE || reach == Reach::Unbounded,
                    "{name}: nothing shows that its reach {direction:?} is needed"
                );
            }
        }
    }
    for edge in &edges {
        edge.check();
    }
}

/// What has no bound has none: after a gap the recurrences of Pan-Tompkins, which count samples, never forget the first.
#[test]
fn pan_tompkins_depends_on_its_first_sample() {
    let program = program(&directory().join("pan_tompkins.tilt"));
    let after_a_gap = (0..40).map(|i| sample(100_000 + 5 * i, 5, 0.0));
    let first = sample(5, 5, 1.0);
    let events: Vec<Event> = std::iter::once(first).chain(after_a_gap).collect();
    let run = |events: &[Event]| {
        let inputs = Inputs::from([("ecg".to_owned(), events.to_vec())]);
        run_keyed(&program, &inputs, &Options::default()).expect("it runs")
    };
    let (with, without) = (run(&events), run(&events[1..]));
    let last = |rows: &[(Value, Event)]| rows.last().expect("there are rows").1.value.clone();
    assert!(!last(&with).same(&last(&without)));
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Back,
    Ahead,
}

/// Data with an event at the edge of an application's reach.
struct Edge {
    name: &'static str,
    direction: Direction,
    /// By how many ticks less the reach would miss the event.
    spare: i64,
    part: Span,
    inputs: Inputs,
}

impl Edge {
    fn check(&self) {
        let Self {
            name,
            direction,
            part,
            inputs,
            ..
        } = self;
        let program = program(&directory().join(format!("{name}.tilt")));
        let lineage = Lineage::new(&program);
        let halo = |id| lineage.halo(id).expect("every input is read");
        let span = hull(inputs).expect("there are events");
        let whole = run_part(&program, inputs, span, *part);
        assert!(!whole.is_empty(), "{name} {direction:?}: an empty part");

        let enough = cut(&program, inputs, *part, halo);
        assert!(
            same(&whole, &run_part(&program, &enough, span, *part)),
            "{name} {direction:?}: the part {part} by its halo alone"
        );
        let less = cut(&program, inputs, *part, |id| self.shrunk(halo(id)));
        assert!(
            !same(&whole, &run_part(&program, &less, span, *part)),
            "{name} {direction:?}: the part {part} is the same without the edge of its halo"
        );
    }

    fn shrunk(&self, mut halo: Halo) -> Halo {
        let reach = match self.direction {
            Direction::Back => &mut halo.lookback,
            Direction::Ahead => &mut halo.lookahead,
        };
        match reach {
            Reach::Bounded { ticks, .. } => *ticks -= self.spare,
            Reach::Unbounded => panic!("{}: only a bounded reach has an edge", self.name),
        }
        halo
    }
}

fn edges() -> Vec<Edge> {
    use Direction::{Ahead, Back};
    let edge = |name, direction, spare, end, input: &str, events: Vec<Event>| Edge {
        name,
        direction,
        spare,
        part: Span::new(end - 1, end),
        inputs: Inputs::from([(input.to_owned(), events)]),
    };
    let day = 86_400;
    let tx = |t, amount: f64| {
        let value = Value::record([Value::from("a"), Value::from(amount)]);
        Event::new(t - 1, t, value)
    };
    let view = |t| {
        let value = Value::record([Value::from("a"), Value::from(1_i64), Value::from("view")]);
        Event::new(t - 1, t, value)
    };
    // A close whose day, a day later, reaches one second into the window of 14 days, and 14 closes that follow a day's gap. Its
    // change is the fourteenth.
    let now = 100 * day;
    let mut closes = vec![sample(now - 15 * day + 1, day, 50.0)];
    closes.extend((0..14).map(|i| sample(now - (13 - i) * day, day, (51 + i * i % 5) as f64)));
    vec![
        edge(
            "trend",
            Back,
            2,
            20_000,
            "stock",
            vec![sample(1, 1, 1.0), sample(20_000, 1, 5.0)],
        ),
        edge("rsi", Back, 2, now, "close", closes),
        edge(
            "normalize",
            Back,
            2,
            20_000,
            "x",
            vec![
                sample(10_001, 50, 1.0),
                sample(19_950, 50, 2.0),
                sample(20_000, 50, 4.0),
            ],
        ),
        edge(
            "normalize",
            Ahead,
            1,
            10_001,
            "x",
            vec![sample(10_001, 50, 1.0), sample(20_049, 50, 2.0)],
        ),
        edge(
            "impute",
            Back,
            2,
            1_000,
            "x",
            vec![sample(501, 5, 1.0), sample(705, 5, 2.0)],
        ),
        edge(
            "impute",
            Ahead,
            5,
            505,
            "x",
            vec![sample(705, 5, 2.0), sample(1_004, 5, 1.0)],
        ),
        edge(
            "resample",
            Back,
            1,
            20,
            "x",
            vec![sample(16, 4, 1.0), sample(21, 4, 2.0)],
        ),
        edge(
            "vibration",
            Back,
            2,
            200_000,
            "accel",
            vec![
                sample(100_001, 500, 1.0),
                sample(150_000, 500, 2.0),
                sample(160_000, 500, 4.0),
            ],
        ),
        edge(
            "fraud",
            Back,
            2,
            11 * day,
            "tx",
            vec![
                tx(day, 1.0),
                tx(2 * day, 2.0),
                tx(3 * day, 1.0),
                tx(4 * day, 2.0),
                tx(5 * day, 1.0),
                tx(11 * day, 100.0),
            ],
        ),
        edge(
            "ysb",
            Back,
            2,
            20_000,
            "events",
            vec![view(10_001), view(15_000)],
        ),
    ]
}

/// The sample `(end - length, end]`.
fn sample(end: i64, length: i64, value: f64) -> Event {
    Event::new(end - length, end, value)
}

fn run_part(program: &Program, inputs: &Inputs, span: Span, part: Span) -> Vec<(Value, Event)> {
    let options = Options {
        span: Some(span),
        part: Some(part),
        ..Options::default()
    };
    run_keyed(program, inputs, &options).expect("it runs")
}

/// The events that matter to a part, by the halo of their input.
fn cut(program: &Program, inputs: &Inputs, part: Span, halo: impl Fn(StreamId) -> Halo) -> Inputs {
    program
        .inputs()
        .map(|(id, input)| {
            let (from, to) = around(part, halo(id));
            let near = |event: &&Event| event.end > from && event.start < to;
            let near = inputs[&input.name].iter().filter(near).cloned();
            (input.name.clone(), near.collect())
        })
        .collect()
}

/// The instants that bound what matters to a part.
fn around(part: Span, halo: Halo) -> (i64, i64) {
    let ticks = |reach| match reach {
        Reach::Bounded { ticks, events: 0 } => ticks,
        Reach::Bounded { .. } => panic!("no application counts events"),
        Reach::Unbounded => i64::MAX,
    };
    (
        part.start.saturating_sub(ticks(halo.lookback)),
        part.end.saturating_add(ticks(halo.lookahead)),
    )
}

fn same(a: &[(Value, Event)], b: &[(Value, Event)]) -> bool {
    let mut rows = a.iter().zip(b);
    a.len() == b.len() && rows.all(|((k, x), (l, y))| k.same(l) && x.same(y))
}

pub(crate) struct Application {
    pub(crate) program: Program,
    pub(crate) inputs: Inputs,
}

impl Application {
    pub(crate) fn read(name: &str) -> Self {
        let program = program(&directory().join(format!("{name}.tilt")));
        let inputs = program
            .inputs()
            .map(|(_, input)| {
                let table = Csv::read(&format!("{name}.{}", input.name));
                (input.name.clone(), table.input_events(input))
            })
            .collect();
        Self { program, inputs }
    }
}

fn check_application(name: &str) {
    let Application { program, inputs } = Application::read(name);
    let table = Csv::read(&format!("{name}.expected"));
    let dtype = program.stream_dtype(program.output);
    let expected = table.keyed_events(dtype);
    assert!(!expected.is_empty(), "{name} expects nothing");

    let found = run_keyed(&program, &inputs, &Options::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    for (row, ((key, event), (want_key, want))) in found.iter().zip(&expected).enumerate() {
        let intervals = key.same(want_key) && event.span() == want.span();
        assert!(
            intervals && table.tolerates(&event.value, &want.value),
            "{name}, row {row}: {key} {} = {}, expected {want_key} {} = {}",
            event.span(),
            event.value,
            want.span(),
            want.value
        );
    }
    assert_eq!(found.len(), expected.len(), "{name}: number of events");

    let mut optimized = program.clone();
    Pipeline::standard().run(&mut optimized);
    let again = run_keyed(&optimized, &inputs, &Options::default())
        .unwrap_or_else(|error| panic!("{name}, after all passes: {error}"));
    assert!(
        same(&found, &again),
        "{name} differs after all passes:\n{optimized}"
    );

    let arrays = buffers(&program, &inputs);
    let options = Options::default();
    let expected = run_buffers(&program, &arrays, &options).expect("as before");
    assert_eq!(events_of(&expected).expect("events").len(), found.len());
    let different = keyed::difference(&program, &arrays, &options, &expected);
    assert_eq!(different, None, "{name} on the engine");
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/apps")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn program(path: &Path) -> Program {
    let program = parse(&read(path)).unwrap_or_else(|error| panic!("{}:\n{error}", path.display()));
    verify(&program).unwrap_or_else(|error| panic!("{}:\n{error}", path.display()));
    program
}

/// A fixture in `tests/apps/data`.
struct Csv {
    name: String,
    /// From the first line of an expected result.
    tolerance: Option<Tolerance>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy)]
struct Tolerance {
    rtol: f64,
    atol: f64,
}

impl Csv {
    fn read(name: &str) -> Self {
        let text = read(&directory().join(format!("data/{name}.csv")));
        let (comments, lines): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| line.starts_with('#'));
        let cells = |line: &&str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut rows = lines.iter().map(cells);
        let columns = rows.next().expect("a header");
        Self {
            name: name.to_owned(),
            tolerance: comments.first().map(|line| Tolerance::parse(line)),
            columns,
            rows: rows.collect(),
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    fn required(&self, name: &str) -> usize {
        self.column(name)
            .unwrap_or_else(|| panic!("{} has no column `{name}`", self.name))
    }

    /// A row's value: the column `value`, or a column for each field.
    fn value(&self, row: &[String], dtype: &DType) -> Value {
        match dtype {
            DType::Record(fields) => Value::record(
                fields
                    .iter()
                    .map(|Field { name, dtype }| cell(&row[self.required(name)], dtype)),
            ),
            dtype => cell(&row[self.required("value")], dtype),
        }
    }

    fn input_events(&self, input: &Input) -> Vec<Event> {
        let event = |row: &Vec<String>| {
            let ticks = |column| integer(&row[self.required(column)]);
            let (start, end) = match input.span {
                SpanRule::Point => (ticks("t") - 1, ticks("t")),
                SpanRule::Fixed(length) => (ticks("t") - length, ticks("t")),
                SpanRule::Interval => (ticks("start"), ticks("end")),
                SpanRule::UntilNext => panic!("no application holds its input"),
            };
            Event::new(start, end, self.value(row, &input.dtype))
        };
        self.rows.iter().map(event).collect()
    }

    fn keyed_events(&self, dtype: &DType) -> Vec<(Value, Event)> {
        let event = |row: &Vec<String>| {
            let ticks = |column| integer(&row[self.required(column)]);
            let key = self.column("key").map(|key| cell(&row[key], &DType::Utf8));
            let event = Event::new(ticks("start"), ticks("end"), self.value(row, dtype));
            (key.unwrap_or(Value::Null), event)
        };
        self.rows.iter().map(event).collect()
    }

    fn tolerates(&self, found: &Value, expected: &Value) -> bool {
        let Tolerance { rtol, atol } = self.tolerance.expect("an expected result states one");
        match (found, expected) {
            (Value::Float(x), Value::Float(y)) => {
                found.same(expected) || (x - y).abs() <= atol + rtol * y.abs()
            }
            (Value::Record(xs), Value::Record(ys)) => {
                xs.len() == ys.len() && xs.iter().zip(ys.iter()).all(|(x, y)| self.tolerates(x, y))
            }
            _ => found.same(expected),
        }
    }
}

impl Tolerance {
    /// From `# rtol=1e-12 atol=0.0`.
    fn parse(line: &str) -> Self {
        let number = |name: &str| {
            line.split_whitespace()
                .find_map(|word| word.strip_prefix(name)?.parse().ok())
                .unwrap_or_else(|| panic!("`{line}` does not state `{name}`"))
        };
        Self {
            rtol: number("rtol="),
            atol: number("atol="),
        }
    }
}

fn integer(text: &str) -> i64 {
    text.parse()
        .unwrap_or_else(|_| panic!("`{text}` is not an integer"))
}

/// A cell of a scalar type; an empty one is φ.
fn cell(text: &str, dtype: &DType) -> Value {
    match dtype {
        _ if text.is_empty() => Value::Null,
        DType::Int(_) => integer(text).into(),
        DType::Float(_) => text
            .parse::<f64>()
            .unwrap_or_else(|_| panic!("`{text}` is not a float"))
            .into(),
        DType::Utf8 => text.into(),
        other => panic!("no fixture has a column of type {other}"),
    }
}
