//! The applications of the TiLT paper against NumPy, SciPy, pandas and Polars; see `tests/apps/README.md`.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use tilt::{
    interp::{Event, Inputs, Options, Value, hull, run_keyed},
    ir::{
        DType, Field, Halo, Input, Lineage, Pipeline, Program, Reach, Span, SpanRule, parse, verify,
    },
};

use crate::golden::lineage;

const APPLICATIONS: [&str; 9] = [
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
            let cut = program
                .inputs()
                .map(|(id, input)| {
                    let halo = lineage.halo(id).expect("every input is read");
                    let (from, to) = around(part, halo);
                    let near = |event: &&Event| event.end > from && event.start < to;
                    let near = inputs[&input.name].iter().filter(near).cloned();
                    (input.name.clone(), near.collect())
                })
                .collect();
            let options = Options {
                span: Some(span),
                part: Some(part),
                ..Options::default()
            };
            let whole = run_keyed(&program, &inputs, &options).expect("the whole input runs");
            let alone = run_keyed(&program, &cut, &options).expect("the cut input runs");
            assert!(
                same(&whole, &alone),
                "{name}: the part {part} by its halo alone"
            );
        }
    }
}

/// The instants that bound what matters to a part.
fn around(part: Span, halo: Halo) -> (i64, i64) {
    let ticks = |reach| match reach {
        Reach::Bounded { ticks, events: 0 } => ticks,
        Reach::Bounded { .. } => unimplemented!("no application counts events"),
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

struct Application {
    program: Program,
    inputs: Inputs,
}

impl Application {
    fn read(name: &str) -> Self {
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
                SpanRule::UntilNext => unimplemented!("no application holds its input"),
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
        DType::Float(_) => match text.parse::<f64>() {
            Ok(float) => float.into(),
            Err(_) => panic!("`{text}` is not a float"),
        },
        DType::Utf8 => text.into(),
        other => panic!("no fixture has a column of type {other}"),
    }
}
