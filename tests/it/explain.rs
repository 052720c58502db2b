//! What `Compiled::explain` says.

use std::{fs, path::Path};

use tilt::Query;

use crate::golden::difference;

fn explain(text: &str) -> String {
    let query = Query::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    query.compile().expect("compiles").explain()
}

/// The trend query: one stage, two windows, pieces. `TILT_BLESS=1` rewrites the file.
#[test]
fn the_trend_query_is_explained_as_in_the_golden_file() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let query = fs::read_to_string(tests.join("apps/trend.tilt")).expect("the trend query");
    let text = explain(&query);
    let file = tests.join("golden/explain/trend.txt");
    if std::env::var_os("TILT_BLESS").is_some() {
        fs::write(&file, &text).expect("the golden file can be written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "explain/trend.txt differs; look at the difference, then run again with TILT_BLESS=1\n{}",
        difference(&committed, &text)
    );
}

#[test]
fn explain_names_algorithms_and_reasons() {
    let cases = [
        (
            "~y[t] = reduce mean ~x[t-10 : t]",
            "blocks of 10, floats are added in one order",
        ),
        (
            "~y[t] = reduce max ~x[t-10 : t]",
            "blocks of 10, an extreme cannot be taken back",
        ),
        ("~y[t] = reduce sum ~n[t-10 : t]", "prefix, integers"),
        (
            "~y[t] = reduce sum ~r[t-10 : t]",
            "totals, integers are subtracted exactly",
        ),
        (
            "~y[t every 4] = reduce min ~r[t-64 : t]",
            "doubling over panes of 4 positions, an extreme may be taken twice, in any order",
        ),
        (
            "~y[t] = reduce min ~r[t-10 : t]",
            "doubling, an extreme may be taken twice",
        ),
        (
            "~y[t every 10] = reduce mean ~x[t-10 : t]",
            "fold, windows hardly overlap",
        ),
        (
            "~y[t] = reduce median ~x[t-10 : t]",
            "rows, kept up to date",
        ),
        (
            "~y[t every 10] = reduce mean ~x[t-10 : t]",
            "one loop over cells every 10, 2048 at a time; periodic, nullable",
        ),
        (
            "~y[t] = ~x[t] + 1.0",
            "one loop over the rows of ~x, 32768 at a time; irregular, null-free",
        ),
        (
            "~y[t] = ~r[t] * 2",
            "one loop over the rows of ~r, 32768 at a time; periodic, null-free",
        ),
        (
            "~y[t] = if ~r[t] > 2 then ~r[t] else null",
            "; periodic, nullable",
        ),
        (
            "~y[t] = if ~r[t] > 2 then ~r[t] else null",
            "the input's memory: y; loop 2 stores what is not there",
        ),
        (
            "~y[t every 40] = reduce min ~r[t-190 : t]",
            "doubling over panes of 40 positions, each in two parts, the later one of 30",
        ),
        (
            "~y[t every 300] = reduce min ~r[t-1000 : t]",
            "fold, windows hardly overlap",
        ),
        (
            "~y[t every 7] = reduce sum ~r[t-100 : t]",
            "prefix, integers are subtracted exactly",
        ),
        (
            "~y[t every 7] = reduce sum ~n[t-100 : t]",
            "totals over panes of 7, each in two parts, the later one of 2",
        ),
        ("~y[t] = ~x[t] * 2.0", "no halo"),
        (
            "~y[t] = reduce sum ~n[-inf : t]",
            "stage by stage, in stretches that begin with what was gathered before them, because a result may depend on the whole past of ~n",
        ),
        (
            "~y[t at ~x]: f64 = ~x[t] + coalesce(~y.prev(1), 0.0)",
            "in one piece, because ~y reads its own past",
        ),
        (
            "~y[t] = reduce median ~x[-inf : t]",
            "in one piece, because a result may depend on the whole past of ~x",
        ),
        (
            "~y[t] = reduce collect ~x[t-10 : t]",
            "rows, kept up to date",
        ),
        (
            "~y[t at ~x]: f64 = ~x[t] + coalesce(reduce sum ~y[t-9 : t-1], 0.0)",
            "interpreted, because of a recurrence over a window",
        ),
    ];
    for (body, expected) in cases {
        let text = format!(
            "query q unit tick {{ input ~x: f64 point  input ~n: i32 point  input ~r: i32 fixed 1 period 1  {body}  output ~y }}"
        );
        let found = explain(&text);
        assert!(found.contains(expected), "{body}: {expected}\n{found}");
    }
}
