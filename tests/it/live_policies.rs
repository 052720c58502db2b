//! What sessions do about disorder and bad input: every outcome is a result, a typed error or a counted row.

use std::{collections::BTreeMap, sync::Arc};

use tilt::{
    Compiled, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray},
    data::{DataError, IngressOptions, Layout, ingest},
    ir::Unit,
    live::{Completion, Counts, InputOptions, Policy, Session, SessionError, SessionOptions},
};

pub(crate) fn compiled(text: &str) -> Compiled {
    let query = Query::parse(&format!("query q unit tick {{ {text} }}")).expect("a query");
    query.compile().expect("compiles")
}

pub(crate) const SUM: &str =
    "input ~x: f64 point overlap bag ~s[t every 10] = reduce sum ~x[t-10:t] output ~s";

pub(crate) fn options() -> SessionOptions {
    SessionOptions::new().egress(Layout::Interval)
}

pub(crate) fn stamped() -> InputOptions {
    InputOptions::new(IngressOptions::stamp("t"))
}

pub(crate) fn session(text: &str, x: InputOptions) -> Session {
    let options = options().input("x", x);
    Session::new(&compiled(text), options).expect("a session")
}

/// Rows of one value each, their time.
pub(crate) fn points(times: &[i64]) -> RecordBatch {
    let values: ArrayRef = Arc::new(
        times
            .iter()
            .map(|t| Some(*t as f64))
            .collect::<Float64Array>(),
    );
    let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
    RecordBatch::try_from_iter([("t", times), ("v", values)]).expect("as many rows")
}

/// The columns of a batch, row by row.
pub(crate) fn text(rows: &RecordBatch) -> String {
    let cell = |column: &ArrayRef, i: usize| -> String {
        if column.is_null(i) {
            return "-".to_owned();
        }
        let any = column.as_any();
        if let Some(column) = any.downcast_ref::<Int64Array>() {
            return column.value(i).to_string();
        }
        if let Some(column) = any.downcast_ref::<StringArray>() {
            return column.value(i).to_owned();
        }
        any.downcast_ref::<Float64Array>()
            .map_or_else(|| "?".to_owned(), |column| column.value(i).to_string())
    };
    let row = |i: usize| {
        let cells: Vec<String> = rows.columns().iter().map(|c| cell(c, i)).collect();
        cells.join(" ")
    };
    let rows: Vec<String> = (0..rows.num_rows()).map(row).collect();
    rows.join(", ")
}

pub(crate) fn taken(session: &mut Session) -> String {
    text(&session.take().expect("runs"))
}

pub(crate) fn closed(session: &mut Session) -> String {
    text(&session.close(Completion::End).expect("runs"))
}

pub(crate) fn counts(session: &Session) -> Counts {
    session.status().inputs[0].counts
}

#[test]
fn a_late_row_is_an_error_that_takes_nothing() {
    let mut session = session(SUM, stamped().lateness(3));
    session.push("x", &points(&[4, 9, 6])).expect("in time");
    let error = session.push("x", &points(&[10, 5, 12])).expect_err("late");
    assert_eq!(
        error.to_string(),
        "input ~x, row 1: 5 is 2 ticks behind the watermark 7; allow more lateness, or choose the policy `drop`, `adjust` or `revise`"
    );
    assert_eq!(counts(&session).accepted, 3);
    // Equal is in time.
    session.push("x", &points(&[7, 14])).expect("in time");
    assert_eq!(taken(&mut session), "0 10 26");
    assert_eq!(closed(&mut session), "10 20 14");
}

#[test]
fn late_rows_are_dropped_or_adjusted_and_can_be_read() {
    for (policy, sums) in [
        (Policy::Drop, "0 10 9, 10 20 12, 20 30 21"),
        (Policy::Adjust, "0 10 9, 10 20 15, 20 30 21"),
    ] {
        let mut session = session(SUM, stamped().policy(policy));
        session.push("x", &points(&[9, 12, 3, 21])).expect("taken");
        assert_eq!(closed(&mut session), sums);
        let (name, late) = session.take_late().expect("rows").remove(0);
        let fate = if policy == Policy::Drop {
            "dropped"
        } else {
            "adjusted"
        };
        assert_eq!(
            (name.as_str(), text(&late)),
            ("x", format!("2 3 3 {fate} 9"))
        );
        assert!(session.take_late().expect("rows").is_empty());
        let counts = counts(&session);
        let both = if policy == Policy::Drop {
            (3, 1, 0)
        } else {
            (4, 0, 1)
        };
        assert_eq!((counts.accepted, counts.dropped, counts.adjusted), both);
    }
}

#[test]
fn bad_rows_are_typed_errors_that_take_nothing() {
    let mut session = session(SUM, stamped().lateness(100));
    session.push("x", &points(&[1, 2])).expect("in time");
    let data = |error: SessionError| match error {
        SessionError::Data { source, .. } => *source,
        other => panic!("{other}"),
    };
    let batch = |times: ArrayRef, values: ArrayRef| {
        RecordBatch::try_from_iter([("t", times), ("v", values)]).expect("as many rows")
    };
    let values = || -> ArrayRef { Arc::new(Float64Array::from(vec![1.0, 2.0])) };
    let nulls = batch(Arc::new(Int64Array::from(vec![Some(5), None])), values());
    let error = data(session.push("x", &nulls).expect_err("a null"));
    assert!(
        matches!(error, DataError::NullTime { row: 1, .. }),
        "{error}"
    );
    // Columns: one that is missing, one of another type, a time of another type.
    let times = || -> ArrayRef { Arc::new(Int64Array::from(vec![5, 6])) };
    let other = RecordBatch::try_from_iter([("t", times()), ("w", times()), ("u", values())]);
    let error = data(
        session
            .push("x", &other.expect("rows"))
            .expect_err("no `x`"),
    );
    assert!(matches!(error, DataError::AmbiguousValue { .. }), "{error}");
    let integers = batch(times(), times());
    let error = data(session.push("x", &integers).expect_err("integers"));
    assert!(matches!(error, DataError::ValueType { .. }), "{error}");
    let narrow = batch(Arc::new(Int32Array::from(vec![5, 6])), values());
    assert_eq!(
        session
            .push("x", &narrow)
            .expect_err("other times")
            .to_string(),
        "input ~x: column `t` has type Int32, but Int64 in the batches before; cast it to that type"
    );
    let error = data(
        session
            .push("x", &points(&[5, i64::MAX]))
            .expect_err("too far"),
    );
    assert!(
        matches!(error, DataError::OutOfRange { row: 1, .. }),
        "{error}"
    );
    // A column that nobody asked for is left alone.
    let more = RecordBatch::try_from_iter([("u", times()), ("t", times()), ("x", values())]);
    session.push("x", &more.expect("rows")).expect("taken");
    assert_eq!(counts(&session).accepted, 4);
    assert_eq!(closed(&mut session), "0 10 6");
    assert!(matches!(
        session.push("x", &points(&[50])),
        Err(SessionError::Closed)
    ));
    assert!(matches!(session.take(), Err(SessionError::Closed)));
}

#[test]
fn rows_that_overlap_where_that_is_not_declared_are_left_out() {
    let text_of = "input ~x: f64 point ~s[t every 10] = reduce sum ~x[t-10:t] output ~s";
    let mut strict = session(text_of, stamped());
    strict.push("x", &points(&[4, 4, 6])).expect("in time");
    assert_eq!(
        strict.take().expect_err("two at once").to_string(),
        "input ~x: the event (3, 4] overlaps the previous one, which ends at 4; it was left out. Declare `overlap bag`, `first` or `last`, or choose the policy `drop`"
    );
    assert_eq!(
        text(&strict.take_late().expect("rows")[0].1),
        "3 4 4 overlapping 0"
    );
    assert_eq!(closed(&mut strict), "0 10 10");
    let mut lenient = session(text_of, stamped().policy(Policy::Drop));
    lenient.push("x", &points(&[4, 4, 6])).expect("in time");
    assert_eq!(closed(&mut lenient), "0 10 10");
    assert_eq!(
        (counts(&lenient).accepted, counts(&lenient).overlapping),
        (2, 1)
    );
    // Where it is declared, both count.
    let mut both = session(SUM, stamped());
    both.push("x", &points(&[4, 4, 6])).expect("in time");
    assert_eq!(closed(&mut both), "0 10 14");
}

/// Rows of one value each, with a key, and a time.
fn keyed(rows: &[(i64, &str)]) -> RecordBatch {
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)));
    let values = rows.iter().map(|row| row.0 as f64);
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("t", times), ("k", keys), ("v", values)]).expect("as many rows")
}

#[test]
fn rows_of_a_key_that_overlap_where_that_is_not_declared_are_left_out() {
    let sum = |span: &str| {
        format!(
            "input ~x: {{k: utf8, v: f64}} {span} key k ~v[t] = ~x[t].v ~s[t] = reduce sum ~v[t-10:t] output ~s"
        )
    };
    let mut strict = session(&sum("point"), stamped());
    // Several keys at once are nothing special.
    strict
        .push("x", &keyed(&[(4, "b"), (4, "a"), (6, "a")]))
        .expect("in time");
    assert_eq!(taken(&mut strict), "3 4 a 4, 3 4 b 4");
    strict
        .push("x", &keyed(&[(6, "b"), (6, "a")]))
        .expect("in time");
    let error = strict.take().expect_err("two at once").to_string();
    assert!(error.contains("the event (5, 6] overlaps"), "{error}");
    // It goes on, and after it was saved too.
    let blob = strict.checkpoint().expect("bytes");
    let again = options().input("x", stamped());
    let mut strict = Session::restore(&compiled(&sum("point")), &blob, again).expect("goes on");
    strict
        .push("x", &keyed(&[(6, "b"), (7, "b")]))
        .expect("in time");
    strict.take().expect_err("two at once");
    assert_eq!(taken(&mut strict), "5 6 a 10, 5 6 b 10");
    assert_eq!(closed(&mut strict), "6 7 b 17");
    assert_eq!(
        (counts(&strict).accepted, counts(&strict).overlapping),
        (5, 2)
    );

    let late = stamped().policy(Policy::Drop).lateness(5);
    let mut lenient = session(&sum("fixed 5"), late);
    lenient
        .push("x", &keyed(&[(10, "a"), (12, "b"), (13, "a"), (9, "b")]))
        .expect("in time");
    lenient
        .push("x", &keyed(&[(15, "a"), (18, "b")]))
        .expect("in time");
    // Those of 9 and 10 come first; (7, 12] of b and (8, 13] of a overlap them.
    assert_eq!(
        closed(&mut lenient),
        "4 9 b 9, 5 10 a 10, 10 15 a 25, 13 18 b 27"
    );
    assert_eq!(
        (counts(&lenient).accepted, counts(&lenient).overlapping),
        (4, 2)
    );
}

#[test]
fn samples_off_their_grid_are_an_error() {
    let text = "input ~x: f64 fixed 5 period 5 ~s[t] = ~x[t] output ~s";
    let mut session = session(text, stamped().lateness(20));
    session.push("x", &points(&[10, 5])).expect("on the grid");
    let error = session
        .push("x", &points(&[15, 19]))
        .expect_err("off the grid");
    assert_eq!(
        error.to_string(),
        "input ~x: time column `t`, row 1: 19 is not a whole number of periods (5 ticks) after the first row (10); round the column, or do not declare a period"
    );
}

/// Rows that follow all others take a shorter way, whose stamps are looked at as well.
#[test]
fn samples_that_go_on_off_their_grid_are_an_error() {
    let text = "input ~x: f64 fixed 5 period 5 ~s[t] = ~x[t] output ~s";
    let mut session = session(text, stamped());
    for stamps in [&[10][..], &[15, 20], &[25], &[40, 45]] {
        session.push("x", &points(stamps)).expect("on the grid");
        session.take().expect("runs");
    }
    for (stamps, off) in [
        (&[47][..], 47),
        (&[50, 56], 56),
        (&[51, 56], 51),
        (&[55, 60, 64], 64),
    ] {
        let error = session
            .push("x", &points(stamps))
            .expect_err("off the grid");
        let told =
            format!("{off} is not a whole number of periods (5 ticks) after the first row (10)");
        assert!(error.to_string().contains(&told), "{error}");
    }
    session.push("x", &points(&[50])).expect("on the grid");
    let bytes = session.checkpoint().expect("bytes");
    let options = options().input("x", stamped());
    let mut restored = Session::restore(&compiled(text), &bytes, options).expect("a session");
    let error = restored
        .push("x", &points(&[58]))
        .expect_err("off the grid");
    assert!(
        error.to_string().contains("after the first row (10)"),
        "{error}"
    );
    let rest = closed(&mut restored);
    assert_eq!(rest, "45 50 50");
}

/// Rows that come in order wait as they were read, among others that do not.
#[test]
fn rows_in_order_wait_for_the_watermark() {
    let queries = [
        "input ~x: f64 point overlap bag ~s[t] = reduce sum ~x[t-70:t] output ~s",
        "input ~x: f64 point ~s[t] = reduce mean ~x[t-70:t] output ~s",
        "input ~x: f64 fixed 2 period 2 ~s[t] = ~x[t] - ~x[t-6] output ~s",
        "input ~x: {k: utf8, v: f64} point key k ~v[t] = ~x[t].v ~s[t] = reduce sum ~v[t-70:t] output ~s",
    ];
    let all: Vec<i64> = (0..6000).map(|row| 2 * row).collect();
    let keys = ["a", "b", "c"];
    let rows = |times: &[i64]| {
        let rows: Vec<(i64, &str)> = times.iter().map(|t| (*t, keys[*t as usize % 3])).collect();
        keyed(&rows)
    };
    for query in queries {
        let compiled = compiled(query);
        let (_, declared) = compiled.program().inputs().next().expect("an input");
        let is_keyed = declared.key.is_some();
        let batch = |times: &[i64]| {
            if is_keyed { rows(times) } else { points(times) }
        };
        let given = IngressOptions::stamp("t");
        let input = ingest(&batch(&all), declared, Unit::Tick, &given).expect("rows");
        let inputs = BTreeMap::from([("x".to_owned(), input)]);
        let expected = compiled.run(&inputs, &RunOptions::default()).expect("runs");
        let expected = text(&expected.to_record_batch(Layout::Interval).expect("rows"));
        for (size, every) in [(3, 10), (300, 2), (1024, 1), (2500, 1)] {
            let of_input = || options().input("x", stamped().lateness(500));
            let mut session = Session::new(&compiled, of_input()).expect("a session");
            let mut found = Vec::new();
            for (number, times) in all.chunks(size).enumerate() {
                let mut times = times.to_vec();
                if number % 7 == 3 {
                    times.sort_by_key(|t| (t / 400, -t));
                }
                session.push("x", &batch(&times)).expect("in time");
                if number % every == 0 {
                    found.push(taken(&mut session));
                }
                if number % 50 == 17 {
                    let bytes = session.checkpoint().expect("bytes");
                    session = Session::restore(&compiled, &bytes, of_input()).expect("a session");
                }
            }
            assert_eq!(counts(&session).accepted, all.len() as u64);
            found.push(closed(&mut session));
            found.retain(|rows| !rows.is_empty());
            assert!(found.join(", ") == expected, "{query} {size}");
        }
    }
}

/// A period is that of the rows of a key, in a session as in a run in one go.
#[test]
fn keys_have_grids_of_their_own() {
    let input = "input ~x: {k: utf8, v: f64} fixed 5 period 5 key k ~v[t] = ~x[t].v";
    let queries = [
        "~s[t] = ~v[t] - ~v[t-5] output ~s",
        "~s[t] = reduce sum ~v[t-20:t] output ~s",
        "~s[t] = coalesce(~v[t-10], 0.0) + reduce max ~v[t-7:t] output ~s",
        "~s[t every 10] = reduce mean ~v[t-20:t] output ~s",
        "~s[t] = reduce sum ~v[#-3:#] output ~s",
    ];
    let key = |t: i64| ["a", "b", "c", "d", "a"][t.rem_euclid(5) as usize];
    // Two keys have one grid, the others have their own; `d` has gaps.
    let all: Vec<(i64, &str)> = (-20..60)
        .filter(|t| t % 5 != 3 || t % 3 != 0)
        .flat_map(|t| [(t, key(t)), (t, "e")])
        .filter(|(t, key)| match *key {
            "a" => t % 5 == 0,
            "e" => t.rem_euclid(5) == 1,
            _ => true,
        })
        .collect();
    for query in queries {
        let compiled = compiled(&format!("{input} {query}"));
        let (_, declared) = compiled.program().inputs().next().expect("an input");
        let given = IngressOptions::stamp("t");
        let rows = ingest(&keyed(&all), declared, Unit::Tick, &given).expect("on their grids");
        let inputs = BTreeMap::from([("x".to_owned(), rows)]);
        let expected = compiled.run(&inputs, &RunOptions::default()).expect("runs");
        let expected = text(&expected.to_record_batch(Layout::Interval).expect("rows"));
        for (lateness, most) in [(0, 1), (0, 7), (3, 1), (3, 10), (40, 25)] {
            let of_input = || options().input("x", stamped().lateness(lateness));
            let mut coming = all.clone();
            coming.sort_by_key(|(t, _)| (t + (t * 7).rem_euclid(lateness + 1), *t));
            let mut session = Session::new(&compiled, of_input()).expect("a session");
            let mut found = Vec::new();
            for (number, batch) in coming.chunks(most).enumerate() {
                session.push("x", &keyed(batch)).expect("on their grids");
                found.push(taken(&mut session));
                if number % 5 == 4 {
                    let bytes = session.checkpoint().expect("bytes");
                    session = Session::restore(&compiled, &bytes, of_input()).expect("a session");
                }
            }
            let off = session.push("x", &keyed(&[(80, "new"), (81, "a")]));
            let off = off.expect_err("off the grid of its key").to_string();
            assert!(off.contains("row 1: 81 is not a whole number"), "{off}");
            found.push(closed(&mut session));
            found.retain(|rows| !rows.is_empty());
            assert_eq!(found.join(", "), expected, "{query} {lateness} {most}");
        }
    }
}
