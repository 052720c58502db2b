//! When results of sessions come, and what a session is from beginning to end: idle inputs, promises, rows that wait, early results, edges, checkpoints, completion.

use std::sync::Arc;

use tilt::{
    RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray},
    data::{IngressOptions, Layout},
    live::{
        Completion, InputOptions, Latency, Mode, Policy, Session, SessionError, SessionOptions,
    },
};

use crate::child;
use crate::live_policies::{
    SUM, closed, compiled, counts, options, points, session, stamped, taken, text,
};

fn two(x: InputOptions, y: InputOptions) -> Session {
    let text = "input ~x: f64 point overlap bag input ~y: f64 point overlap bag
                ~s[t every 10] = coalesce(reduce sum ~x[t-10:t], 0.0) + coalesce(reduce sum ~y[t-10:t], 0.0) output ~s";
    let options = options().input("x", x).input("y", y);
    Session::new(&compiled(text), options).expect("a session")
}

#[test]
fn a_quiet_input_holds_the_others_up_until_it_is_idle() {
    let mut session = two(stamped(), stamped());
    session.push("y", &points(&[2])).expect("in time");
    session.push("x", &points(&[5, 25])).expect("in time");
    assert_eq!(taken(&mut session), "");
    assert_eq!(session.status().holding_back.as_deref(), Some("y"));
    session.idle("y").expect("an input");
    assert_eq!(taken(&mut session), "0 10 7, 10 20 0");
    let status = session.status();
    assert_eq!(
        (status.holding_back.as_deref(), status.inputs[1].is_idle),
        (Some("x"), true)
    );
    // It is behind the others now; what it had missed is late.
    let error = session.push("y", &points(&[24])).expect_err("late");
    assert!(
        matches!(error, SessionError::Late { watermark: 25, .. }),
        "{error}"
    );
    session.push("y", &points(&[25])).expect("in time");
    assert!(!session.status().inputs[1].is_idle);
    assert_eq!(closed(&mut session), "20 30 50");
}

#[test]
fn an_input_is_idle_after_a_time_by_the_callers_clock() {
    let mut session = two(stamped(), stamped().idle_after(100));
    session.at(1000);
    session.push("y", &points(&[2])).expect("in time");
    session.push("x", &points(&[5, 15])).expect("in time");
    session.at(1099);
    assert_eq!(taken(&mut session), "");
    // A clock that goes back is ignored.
    session.at(500);
    assert!(!session.status().inputs[1].is_idle);
    session.at(1100);
    assert!(session.status().inputs[1].is_idle);
    assert_eq!(taken(&mut session), "0 10 7");
    session.push("y", &points(&[16])).expect("in time");
    assert!(!session.status().inputs[1].is_idle);
}

#[test]
fn time_goes_on_without_rows() {
    let text = "input ~x: f64 point overlap bag ~s[t every 10] = coalesce(reduce sum ~x[t-10:t], 0.0) output ~s";
    let mut session = session(text, stamped().lateness(50));
    session.push("x", &points(&[5])).expect("in time");
    session.advance(31).expect("open");
    assert_eq!(taken(&mut session), "0 10 5, 10 20 0, 20 30 0");
    let error = session.push("x", &points(&[30])).expect_err("late");
    assert!(matches!(error, SessionError::Late { by: 1, .. }), "{error}");
    // Back is no way for time to go.
    session.advance(20).expect("open");
    assert_eq!(session.status().inputs[0].watermark, Some(31));
    assert_eq!(closed(&mut session), "30 40 0");
}

#[test]
fn a_session_ends_in_three_ways() {
    let begun = || {
        let mut session = session(SUM, stamped().lateness(100));
        session.push("x", &points(&[5, 15, 25])).expect("in time");
        assert_eq!(taken(&mut session), "");
        session
    };
    let close = |mut session: Session, completion| {
        let rest = text(&session.close(completion).expect("runs"));
        (rest, counts(&session))
    };
    let (rest, dropped) = close(begun(), Completion::Drop);
    assert_eq!(
        (rest.as_str(), dropped.accepted, dropped.dropped),
        ("", 0, 3)
    );
    // The last cell may have more.
    assert_eq!(close(begun(), Completion::Flush).0, "0 10 5, 10 20 15");
    assert_eq!(
        close(begun(), Completion::End).0,
        "0 10 5, 10 20 15, 20 30 25"
    );
}

#[test]
fn watermarks_catch_up_with_rows() {
    let sum = "input ~x: f64 point overlap bag ~s[t] = reduce sum ~x[t-10:t] output ~s";
    let mut session = session(sum, stamped().lateness(5));
    session.catch_up().expect("open");
    assert_eq!(session.status().inputs[0].watermark, None);
    session.push("x", &points(&[4, 7])).expect("in time");
    assert_eq!(taken(&mut session), "");
    session.catch_up().expect("open");
    assert_eq!(taken(&mut session), "3 4 4, 6 7 11");
    session.push("x", &points(&[7])).expect_err("late");
    session.push("x", &points(&[8])).expect("in time");
    assert_eq!(closed(&mut session), "7 8 19");
    session.catch_up().expect_err("closed");
}

#[test]
fn rows_that_wait_for_others_are_due_when_there_are_enough_or_time_has_passed() {
    let sum = "input ~x: f64 point overlap bag ~s[t] = reduce sum ~x[t-10:t] output ~s";
    let begun = |options: SessionOptions| {
        let session = Session::new(&compiled(sum), options.input("x", stamped()));
        let mut session = session.expect("a session");
        // The first results tell the columns of those that are none.
        assert!(session.is_due());
        session.push("x", &points(&[1])).expect("in time");
        assert_eq!(text(&session.take_now().expect("runs")), "");
        session
    };
    let mut session = begun(options().max_batch(3));
    for (t, is_due, expected) in [
        (2, false, ""),
        (3, false, ""),
        (4, true, "0 1 1, 1 2 3, 2 3 6"),
    ] {
        session.push("x", &points(&[t])).expect("in time");
        assert_eq!(session.is_due(), is_due, "{t}");
        assert_eq!(taken(&mut session), expected, "{t}");
        assert!(!session.is_due(), "{t}");
    }
    session.push("x", &points(&[5])).expect("in time");
    session.catch_up().expect("open");
    assert!(session.is_due());
    assert_eq!(taken(&mut session), "3 4 10, 4 5 15");

    let mut session = begun(options().latency(Latency::Events(10)));
    for (t, is_due) in [(11, false), (20, false), (21, true)] {
        session.push("x", &points(&[t])).expect("in time");
        assert_eq!(session.is_due(), is_due, "{t}");
    }
    let mut session = begun(options().latency(Latency::Clock(10)));
    session.at(100);
    session.push("x", &points(&[2])).expect("in time");
    for (clock, is_due) in [(109, false), (110, true)] {
        session.at(clock);
        assert_eq!(session.is_due(), is_due, "{clock}");
    }
    // Every take is due where rows do not wait.
    let mut session = begun(options());
    session.push("x", &points(&[2])).expect("in time");
    assert!(session.is_due());
}

/// A row that another one of the same time takes the place of does not leave the last event open.
#[test]
fn a_state_is_told_when_the_next_one_has_begun() {
    let twice = "input ~x: f64 until_next overlap last ~s[t] = ~x[t] * 2.0 output ~s";
    for pushes in [&[&[5, 11][..], &[11]][..], &[&[5, 11, 11]]] {
        let mut session = session(twice, stamped());
        let mut told = Vec::new();
        for push in pushes {
            session.push("x", &points(push)).expect("in time");
            told.push(taken(&mut session));
        }
        assert_eq!(told[0], "4 10 10");
        assert!(told[1..].iter().all(String::is_empty));
        assert_eq!(closed(&mut session), "10 11 22");
    }
}

#[test]
fn strings_of_any_form_are_in_a_checkpoint() {
    let text = "input ~x: utf8 point overlap bag ~s[t] = reduce last ~x[t-10:t] output ~s";
    let words = |times: Vec<i64>| {
        let words = StringViewArray::from_iter_values(times.iter().map(|t| format!("word {t}")));
        let times: ArrayRef = Arc::new(Int64Array::from(times));
        let words: ArrayRef = Arc::new(words);
        RecordBatch::try_from_iter([("t", times), ("v", words)]).expect("as many rows")
    };
    let options = || options().input("x", stamped());
    let mut session = Session::new(&compiled(text), options()).expect("a session");
    session.push("x", &words(vec![1, 2, 3])).expect("in time");
    session.take().expect("runs");
    let bytes = session.checkpoint().expect("bytes");
    let mut again = Session::restore(&compiled(text), &bytes, options()).expect("restores");
    for session in [&mut session, &mut again] {
        session.push("x", &words(vec![4])).expect("in time");
    }
    let rest = |session: &mut Session| session.close(Completion::End).expect("runs");
    assert_eq!(rest(&mut session), rest(&mut again));
}

#[test]
fn results_are_given_early_and_revised() {
    let options = options()
        .input("x", stamped().lateness(20))
        .mode(Mode::Updates);
    let mut session = Session::new(&compiled(SUM), options).expect("a session");
    session.push("x", &points(&[5])).expect("in time");
    assert_eq!(taken(&mut session), "insert 0 10 5");
    assert_eq!(taken(&mut session), "");
    session.push("x", &points(&[15, 3])).expect("in time");
    assert_eq!(taken(&mut session), "update 0 10 8, insert 10 20 15");
    session.push("x", &points(&[35])).expect("in time");
    assert_eq!(taken(&mut session), "insert 30 40 35");
    // Certain by now: it does not change any more.
    assert_eq!(session.status().until, Some(14));
    assert_eq!(closed(&mut session), "");
}

#[test]
fn late_rows_revise_what_they_change() {
    let mut session = session(SUM, stamped().policy(Policy::Revise { horizon: 20 }));
    session.push("x", &points(&[5, 12])).expect("in time");
    assert_eq!(taken(&mut session), "insert 0 10 5");
    session.push("x", &points(&[21, 7])).expect("taken");
    assert_eq!(taken(&mut session), "update 0 10 12, insert 10 20 12");
    session.push("x", &points(&[33, 4, 14])).expect("taken");
    assert_eq!(taken(&mut session), "update 10 20 26, insert 20 30 21");
    let counts = counts(&session);
    assert_eq!((counts.accepted, counts.revised, counts.dropped), (6, 2, 1));
    assert_eq!(
        text(&session.take_late().expect("rows")[0].1),
        "3 4 4 dropped 29"
    );
    assert_eq!(closed(&mut session), "insert 30 40 33");
}

/// Rows of an interval that may be open, and of one value.
fn edges(rows: &[(i64, Option<i64>, f64)]) -> RecordBatch {
    let starts: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>());
    let ends: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>());
    let values: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.2)).collect::<Float64Array>());
    RecordBatch::try_from_iter([("from", starts), ("to", ends), ("x", values)]).expect("rows")
}

/// Of events with one end those come first that began first, whatever the order in which their ends come.
#[test]
fn events_that_end_at_once_are_in_the_order_in_which_they_began() {
    let text = "input ~x: f64 interval overlap bag ~s[t at ~x] = reduce max ~x[t-1:t] output ~s";
    let interval = InputOptions::new(IngressOptions::interval("from", "to"));
    let mut session = session(text, interval.edges());
    let rows = [
        (2, None, 1.0),
        (4, None, 10.0),
        (5, Some(8), 2.0),
        (4, Some(9), 10.0),
        (2, Some(9), 1.0),
    ];
    let mut given = Vec::new();
    for row in rows {
        session.push("x", &edges(&[row])).expect("taken");
        given.push(taken(&mut session));
    }
    given.push(closed(&mut session));
    given.retain(|text| !text.is_empty());
    assert_eq!(given.join(", "), "5 8 10, 2 9 10, 4 9 10");
}

#[test]
fn events_may_end_later_than_they_begin() {
    let text_of =
        "input ~x: f64 interval overlap bag ~s[t every 10] = reduce sum ~x[t-10:t] output ~s";
    let interval = || InputOptions::new(IngressOptions::interval("from", "to")).edges();
    let rows = edges;
    let compiled = compiled(text_of);
    let options = || self::options().input("x", interval().policy(Policy::Drop));
    let mut session = Session::new(&compiled, options()).expect("a session");
    session
        .push(
            "x",
            &rows(&[
                (2, None, 1.0),
                (4, None, 10.0),
                (4, None, 10.0),
                (12, Some(14), 100.0),
            ]),
        )
        .expect("taken");
    // The end of one that began, of one that did not, and of one of two that are alike.
    session
        .push(
            "x",
            &rows(&[(2, Some(25), 1.0), (3, Some(26), 1.0), (4, Some(31), 10.0)]),
        )
        .expect("taken");
    let bytes = session.checkpoint().expect("bytes");
    session = Session::restore(&compiled, &bytes, options()).expect("the same");
    assert_eq!(counts(&session).dropped, 1);
    session
        .push("x", &rows(&[(45, None, 1000.0)]))
        .expect("taken");
    assert_eq!(
        taken(&mut session),
        "0 10 21, 10 20 121, 20 30 21, 30 40 20"
    );
    session
        .push("x", &rows(&[(4, Some(52), 10.0)]))
        .expect("taken");
    session.advance(60).expect("open");
    assert_eq!(closed(&mut session), "40 50 1010, 50 60 1010");
}

#[test]
fn an_open_event_of_a_key_ends_where_the_next_of_the_key_starts() {
    let text_of = "input ~x: {k: i64, v: f64} interval key k ~v[t] = ~x[t].v ~s[t every 10] = reduce sum ~v[t-10:t] output ~s";
    let rows = |rows: &[(i64, Option<i64>, i64, f64)]| {
        let starts: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>());
        let ends: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>());
        let keys: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.2)).collect::<Int64Array>());
        let values: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.3)).collect::<Float64Array>());
        RecordBatch::try_from_iter([("from", starts), ("to", ends), ("k", keys), ("v", values)])
            .expect("rows")
    };
    let edges = || {
        let interval = InputOptions::new(IngressOptions::interval("from", "to"));
        interval.edges().lateness(30).policy(Policy::Drop)
    };
    let all = [
        (2, None, 1, 1.0),
        (4, None, 2, 10.0),
        (12, None, 1, 100.0),
        // Another key does not end an event, and of two of a key that overlap the one that ends later is left out.
        (14, Some(16), 1, 1000.0),
        (15, Some(25), 2, 5.0),
        (12, Some(22), 1, 100.0),
    ];
    for mode in [Mode::Final, Mode::Updates] {
        let compiled = compiled(text_of);
        let options = || self::options().mode(mode).input("x", edges());
        let mut session = Session::new(&compiled, options()).expect("a session");
        let mut given = Vec::new();
        for row in all {
            session.push("x", &rows(&[row])).expect("taken");
            given.push(taken(&mut session));
            let bytes = session.checkpoint().expect("bytes");
            session = Session::restore(&compiled, &bytes, options()).expect("the same");
        }
        given.push(closed(&mut session));
        let expected = match mode {
            Mode::Final => "0 10 1 1, 0 10 2 10, 10 20 1 1001, 10 20 2 15, 20 30 2 5".to_owned(),
            Mode::Updates => [
                "insert 0 10 1 1",
                "insert 0 10 2 10",
                "insert 10 20 1 101, insert 10 20 2 10",
                "update 10 20 1 1101",
                "update 10 20 2 15, insert 20 30 2 5",
                "update 10 20 1 1001",
            ]
            .join(", "),
        };
        given.retain(|rows| !rows.is_empty());
        assert_eq!(given.join(", "), expected);
        assert_eq!(counts(&session).overlapping, 1, "{mode:?}");
    }
}

#[test]
fn states_of_keys_last_until_the_next_of_the_key() {
    let text_of = "input ~x: {k: i64, v: f64} until_next key k ~s[t every 10] = ~x[t].v output ~s";
    let rows = |rows: &[(i64, i64, f64)]| {
        let times: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>());
        let keys: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.1)).collect::<Int64Array>());
        let values: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.2)).collect::<Float64Array>());
        RecordBatch::try_from_iter([("t", times), ("k", keys), ("v", values)]).expect("rows")
    };
    let mut session = session(text_of, stamped());
    session
        .push("x", &rows(&[(3, 1, 1.5), (5, 2, 2.5), (12, 1, 3.5)]))
        .expect("taken");
    assert_eq!(taken(&mut session), "0 10 1 1.5, 0 10 2 2.5");
    session.push("x", &rows(&[(32, 2, 4.5)])).expect("taken");
    assert_eq!(
        taken(&mut session),
        "10 20 1 3.5, 10 20 2 2.5, 20 30 1 3.5, 20 30 2 2.5"
    );
    assert_eq!(session.status().inputs[0].held, 3);
}

#[test]
fn checkpoints_that_are_not_whole_or_of_something_else_are_refused() {
    let compiled_sum = compiled(SUM);
    let options = || self::options().input("x", stamped().lateness(7).policy(Policy::Drop));
    let mut session = Session::new(&compiled_sum, options()).expect("a session");
    session.push("x", &points(&[5, 15, 12, 1])).expect("taken");
    let bytes = session.checkpoint().expect("bytes");
    let refused =
        |bytes: &[u8]| Session::restore(&compiled_sum, bytes, options()).expect_err("refused");
    for len in 0..bytes.len() {
        let error = refused(&bytes[..len]);
        assert!(
            matches!(error, SessionError::Corrupt { .. }),
            "{len}: {error}"
        );
    }
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = refused(&flipped);
        assert!(
            matches!(error, SessionError::Corrupt { .. }),
            "{bit}: {error}"
        );
    }
    let other = compiled(
        "input ~x: f64 point overlap bag ~s[t every 10] = reduce max ~x[t-10:t] output ~s",
    );
    let error = Session::restore(&other, &bytes, options()).expect_err("another query");
    assert_eq!(
        error.to_string(),
        "the checkpoint was taken from another session: its query is another one; restore it with the query and the options that it had"
    );
    let other = options().input("x", stamped());
    let error = Session::restore(&compiled_sum, &bytes, other).expect_err("other options");
    assert!(matches!(error, SessionError::Other { .. }), "{error}");
    let mut restored = Session::restore(&compiled_sum, &bytes, options()).expect("whole");
    assert_eq!(restored.status(), session.status());
    assert_eq!(
        text(&restored.take_late().expect("rows")[0].1),
        "0 1 1 dropped 7"
    );
    assert_eq!(closed(&mut restored), closed(&mut session));
}

/// Rows of a few keys, a little out of order.
fn of_keys(times: &[i64]) -> RecordBatch {
    let numbers = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(times.iter().map(|t| of(*t))))
    };
    let values = times.iter().map(|t| ((t * t * 37) % 1009) as f64 / 7.0);
    let columns: [(&str, ArrayRef); 3] = [
        ("t", numbers(&|t| t + t % 3)),
        ("k", numbers(&|t| t * 5 % 11)),
        ("v", Arc::new(Float64Array::from_iter_values(values))),
    ];
    RecordBatch::try_from_iter(columns).expect("as many rows")
}

/// Pushes rows a few at a time; the results, as bits.
fn pushed(session: &mut Session, times: std::ops::Range<i64>) -> Vec<String> {
    let mut bits = Vec::new();
    let times: Vec<i64> = times.collect();
    for some in times.chunks(37) {
        session.push("x", &of_keys(some)).expect("in time");
        let rows = session.take().expect("runs");
        for row in 0..rows.num_rows() {
            let bits_of = |column: &ArrayRef| match column.as_any().downcast_ref::<Float64Array>() {
                Some(floats) => format!("{:x}", floats.value(row).to_bits()),
                None => format!("{:?}", column.slice(row, 1)).replace('\n', ""),
            };
            let cells: Vec<String> = rows.columns().iter().map(bits_of).collect();
            bits.push(cells.join(" "));
        }
    }
    bits
}

/// What a host has not, its CPU leaves out: the code of the process that goes on is another, and so are its threads.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_checkpoint_goes_on_with_code_for_another_cpu_and_with_other_threads() {
    const TEST: &str =
        "live_progress::a_checkpoint_goes_on_with_code_for_another_cpu_and_with_other_threads";
    const FILE: &str = "TILT_TEST_CHECKPOINT";
    let queries = [
        "input ~x: {k: i64, v: f64} point overlap bag ~v[t] = ~x[t].v ~y[t] = reduce mean ~v[t-300 : t] + reduce std ~v[t-70 : t] output ~y",
        "input ~x: {k: i64, v: f64} point key k overlap bag ~v[t] = ~x[t].v ~y[t every 20] = reduce sum ~v[t-200 : t] + reduce max ~v[t-90 : t] output ~y",
        "input ~x: {k: i64, v: f64} point key k overlap bag ~v[t] = ~x[t].v ~y[t] = ~v[t] - reduce mean ~v[t-400 : t] output ~y",
        // What these look back to is carried.
        "input ~x: {k: i64, v: f64} point overlap bag ~v[t] = ~x[t].v ~y[t] = {sum: reduce sum ~v[-inf : t], hi: reduce max ~v[-inf : t], near: reduce mean ~v[t-70 : t]} output ~y",
        "input ~x: {k: i64, v: f64} point key k ~y[t at ~x]: f64 = 0.9 * coalesce(~y.prev(1), 0.0) + 0.1 * ~x[t].v output ~y",
        "input ~x: {k: i64, v: f64} point key k ~v[t] = ~x[t].v ~y[t] = ~v[t] - reduce mean ~v[-inf : t] output ~y",
    ];
    let with = |threads: usize| {
        let run = RunOptions::default().threads(threads);
        options().run(run).input("x", stamped().lateness(2))
    };
    let path = |number: usize| {
        let directory = std::env::var_os(FILE).map(std::path::PathBuf::from);
        let directory = directory.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("tilt-checkpoints-{}", std::process::id()))
        });
        (directory.clone(), directory.join(number.to_string()))
    };
    if child::is_child() {
        // After what the harness has printed.
        println!();
        for (number, text) in queries.into_iter().enumerate() {
            let bytes = std::fs::read(path(number).1).expect("a checkpoint");
            let session = Session::restore(&compiled(text), &bytes, with(3));
            for row in pushed(&mut session.expect("goes on"), 2000..4000) {
                println!("query {number} gives {row}");
            }
        }
        return;
    }
    std::fs::create_dir_all(path(0).0).expect("a directory");
    let mut expected = Vec::new();
    for (number, text) in queries.into_iter().enumerate() {
        let mut session = Session::new(&compiled(text), with(1)).expect("a session");
        pushed(&mut session, 0..2000);
        assert_eq!(session.status().holds_all, None, "{text}");
        let bytes = session.checkpoint().expect("bytes");
        std::fs::write(path(number).1, bytes).expect("a file");
        let rows = pushed(&mut session, 2000..4000);
        assert!(rows.len() > 900, "{} of {text}", rows.len());
        expected.extend(
            rows.into_iter()
                .map(|row| format!("query {number} gives {row}")),
        );
    }
    let directory = path(0).0;
    let environment = [
        ("TILT_CPU", "x86-64"),
        (FILE, directory.to_str().expect("a name")),
    ];
    let output = child::run(TEST, &environment);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("query "))
        .collect();
    std::fs::remove_dir_all(directory).expect("a directory");
    let differ = expected.iter().zip(&found).find(|(a, b)| a != b);
    assert_eq!(differ, None);
    assert_eq!(found.len(), expected.len());
}

#[test]
fn a_session_tells_the_memory_of_all_that_it_keeps() {
    let bytes = |session: &Session| -> usize {
        let status = session.status();
        status.inputs.iter().map(|input| input.bytes).sum()
    };
    let numbers = 2 * size_of::<i64>();
    // Rows that wait, and late ones until they are taken.
    let mut session = session(SUM, stamped().lateness(50).policy(Policy::Drop));
    session.push("x", &points(&[1000])).expect("in time");
    taken(&mut session);
    let before = bytes(&session);
    session.push("x", &points(&[960; 200])).expect("in time");
    let waiting = bytes(&session);
    assert!(waiting >= before + 200 * numbers, "{before} {waiting}");
    session.push("x", &points(&[7; 500])).expect("taken");
    let late = bytes(&session);
    assert!(late >= waiting + 500 * numbers, "{waiting} {late}");
    session.take_late().expect("rows");
    assert_eq!(bytes(&session), waiting);
    // What is carried of each key, of which no rows are held.
    let text = "input ~x: {k: i64, v: f64} point key k ~v[t] = ~x[t].v ~y[t] = reduce sum ~v[-inf : t] output ~y";
    let keyed = options().input("x", stamped());
    let mut session = Session::new(&compiled(text), keyed).expect("a session");
    let mut push = |times: std::ops::Range<i64>| {
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(times));
        let values = Float64Array::from(vec![0.5; times.len()]);
        let columns: [(&str, ArrayRef); 3] = [
            ("t", Arc::clone(&times)),
            ("k", times),
            ("v", Arc::new(values)),
        ];
        let rows = RecordBatch::try_from_iter(columns).expect("as many rows");
        session.push("x", &rows).expect("in time");
        session.take().expect("runs");
        assert_eq!(session.status().holds_all, None);
        bytes(&session)
    };
    let (few, many) = (push(0..100), push(100..1000));
    assert!(many > few + 900 * numbers, "{few} {many}");
}

/// Values of late rows are copied: otherwise each would keep all rows that it came with for as long as nobody takes it.
#[test]
fn a_late_row_does_not_keep_the_rows_that_came_with_it() {
    let mut session = session(SUM, stamped().policy(Policy::Drop));
    session.push("x", &points(&[500])).expect("in time");
    taken(&mut session);
    let times: Vec<i64> = [7].into_iter().chain(501..5000).collect();
    let batch = points(&times);
    let values: &Float64Array = batch["v"].as_any().downcast_ref().expect("numbers");
    let values = values.values().inner().clone();
    session.push("x", &batch).expect("taken");
    drop(batch);
    taken(&mut session);
    session.push("x", &points(&[10_000])).expect("in time");
    taken(&mut session);
    assert_eq!(counts(&session).dropped, 1);
    assert_eq!(values.strong_count(), 1);
    let late = session.take_late().expect("rows");
    assert_eq!(text(&late[0].1), "6 7 7 dropped 493");
}

#[test]
fn a_checkpoint_is_as_long_as_what_the_query_looks_back_to() {
    let size = |window: i64, rows: i64| {
        let text = format!("input ~x: f64 point ~s[t] = reduce sum ~x[t-{window}:t] output ~s");
        let mut session = session(&text, stamped());
        session
            .push("x", &points(&(1..=rows).collect::<Vec<_>>()))
            .expect("in time");
        session.take().expect("runs");
        session.checkpoint().expect("bytes").len() as i64
    };
    // Start, end and value of each row, and what all else takes.
    let besides = size(1, 10_000);
    assert!(besides < 12_000, "{besides}");
    assert!(size(100, 10_000) < 24 * 100 + besides);
    assert!((size(1_000, 10_000) - size(1_000, 2_000)).abs() < 64);
    assert!(size(4_000, 10_000) < 24 * 4_000 + besides);
}

#[test]
fn inputs_are_named_and_options_have_a_meaning() {
    let new = |options: SessionOptions| {
        Session::new(&compiled(SUM), options)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        new(options()),
        "input ~x has no options; the inputs of the query are ~x"
    );
    let both = options().input("x", stamped()).input("y", stamped());
    assert_eq!(
        new(both),
        "input ~y does not exist; the inputs of the query are ~x"
    );
    assert_eq!(
        new(options().input("x", stamped().lateness(-1))),
        "input ~x: a lateness is not negative"
    );
    assert_eq!(
        new(options().input("x", stamped().edges())),
        "input ~x: edges are for intervals given by two columns; declare the input as interval"
    );
    let mut session = session(SUM, stamped());
    let error = session.push("z", &points(&[1])).expect_err("no input");
    assert_eq!(
        error.to_string(),
        "input ~z does not exist; the inputs of the query are ~x"
    );
    let options = options()
        .input("x", stamped())
        .start(1)
        .egress(Layout::Point);
    let mut late = Session::new(&compiled(SUM), options).expect("a session");
    assert!(late.push("x", &points(&[1])).is_err());
}

/// What is looked at ahead counts, and what the output does not read does not.
#[test]
fn who_holds_back_is_the_one_that_lets_results_come_least_far() {
    let text = "input ~a: f64 point overlap bag input ~b: f64 point overlap bag input ~c: f64 point overlap bag ~s[t every 10] = reduce sum ~a[t:t+50] + reduce sum ~b[t-10:t] output ~s";
    let of_inputs = || {
        let inputs = ["a", "b", "c"].into_iter();
        inputs.fold(options(), |options, name| options.input(name, stamped()))
    };
    let mut session = Session::new(&compiled(text), of_inputs()).expect("a session");
    let behind = |session: &Session| session.status().holding_back;
    assert_eq!(behind(&session).as_deref(), Some("a"));
    session.push("a", &points(&[100])).expect("in time");
    assert_eq!(behind(&session).as_deref(), Some("b"));
    session.push("b", &points(&[70])).expect("in time");
    // Results up to 50 are certain by ~a, up to 70 by ~b, and nobody waits for ~c.
    assert_eq!(behind(&session).as_deref(), Some("a"));
    session.take().expect("runs");
    assert_eq!(session.status().until, Some(49));
    session.push("a", &points(&[130])).expect("in time");
    assert_eq!(behind(&session).as_deref(), Some("b"));
    session.idle("b").expect("an input");
    assert_eq!(behind(&session).as_deref(), Some("a"));
}
