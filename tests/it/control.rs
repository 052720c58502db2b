//! Runs that are watched and stopped.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tilt::{
    Backend, Cancel, Compiled, Error, Progress, Query, RunOptions,
    arrow::array::{ArrayRef, Float64Array, Int64Array},
    data::{Column, SnapshotBuffer, Spans, Timeline},
    interp::{Functions, Value, events_of},
    ir::Unit,
};

type Buffers = BTreeMap<String, SnapshotBuffer>;

/// Points at instants with gaps, so that nothing is periodic.
fn points(rows: i64, shift: i64) -> SnapshotBuffer {
    let stamps: Vec<i64> = (1..=rows).map(|i| i * 10 + i % 3 + shift).collect();
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(8));
    let values = (0..rows).map(|i| (i * 7919 % 1009) as f64);
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    SnapshotBuffer::scalar(timeline, Column::new("x", values), Unit::Tick).expect("one length")
}

fn keyed(rows: i64, keys: i64) -> SnapshotBuffer {
    let stamps: Vec<i64> = (1..=rows).collect();
    let timeline = Timeline::explicit(stamps.into(), Spans::Fixed(1));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % keys)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % 1009)));
    let columns = vec![Column::new("k", ids), Column::new("v", values)];
    SnapshotBuffer::record(timeline, columns, None, Unit::Tick).expect("one length")
}

fn compiled(text: &str) -> Compiled {
    let text = format!("query q unit tick {{ {text} }}");
    let query = Query::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    query.compile().expect("compiles")
}

fn inputs<const N: usize>(buffers: [(&str, SnapshotBuffer); N]) -> Buffers {
    let named = buffers.into_iter();
    named.map(|(name, b)| (name.to_owned(), b)).collect()
}

/// Runs that take a while, one for each way to run.
fn long_runs() -> Vec<(&'static str, Compiled, Buffers, RunOptions)> {
    let one = "input ~x: f64 fixed 8";
    let two = "input ~x: f64 fixed 8  input ~z: f64 fixed 8";
    let by_key = "input ~x: {k: i64, v: i64} point key k";
    let heavy = "sin(exp(sin(exp(sin(exp(sin(~x[t])))))))";
    let options = || RunOptions::default().threads(2);
    let x = |rows| inputs([("x", points(rows, 0))]);
    let both = |rows| inputs([("x", points(rows, 0)), ("z", points(rows, 3))]);
    let mut slow = Functions::default();
    slow.register("slow", |args: &[Value]| {
        std::thread::sleep(Duration::from_micros(200));
        args[0].clone()
    });
    vec![
        (
            "pieces",
            compiled(&format!("{one} ~y[t] = {heavy} output ~y")),
            x(2_000_000),
            options(),
        ),
        (
            "one piece",
            compiled(&format!(
                "{one} ~y[t]: f64 = coalesce(~y.prev(1), 0.0) * 0.5 + {heavy} output ~y"
            )),
            x(2_000_000),
            options(),
        ),
        (
            "windows by rows",
            compiled(&format!("{one} ~y[t] = reduce median ~x[t-1000000:t] output ~y")),
            x(1_000_000),
            options(),
        ),
        (
            "custom reducers",
            compiled(&format!(
                "reducer last(f64) {{ state {{v: f64}} init = {{v: 0.0}} acc(s, v, a, b) = {{v: v + s.v}} result(s) = s.v }}
                 {one} ~y[t] = reduce @last ~x[t-1000000:t] output ~y"
            )),
            x(1_000_000),
            options(),
        ),
        (
            "a merge in pieces",
            compiled(&format!("{two} ~y[t] = ~x[t] + {} output ~y", heavy.replace("~x", "~z"))),
            both(1_500_000),
            options(),
        ),
        (
            "a merge in one piece",
            compiled(&format!(
                "{two} ~s[t] = coalesce(~x[t], 0.0) + {}
                 ~y[t] = reduce sum ~s[-inf:t] output ~y",
                heavy.replace("~x", "~z")
            )),
            both(1_000_000),
            options(),
        ),
        (
            "keys one after the other",
            compiled(&format!(
                "{by_key} ~y[t] = reduce median ~x[t-200000:t] map (cast(~x[t].v, f64)) output ~y"
            )),
            inputs([("x", keyed(1_000_000, 50))]),
            options(),
        ),
        (
            "keys in one pass",
            compiled(&format!(
                "{by_key} ~y[t every 100] = reduce sum ~x[t-20000:t] map (~x[t].v) output ~y"
            )),
            inputs([("x", keyed(1_000_000, 400))]),
            options(),
        ),
        (
            "the interpreter",
            compiled(&format!("{one} ~y[t] = reduce sum ~x[t-100000:t] output ~y")),
            x(100_000),
            options().backend(Backend::Interpreter),
        ),
        (
            "external functions",
            compiled(&format!(
                "extern fn slow(f64) -> f64 {one} ~y[t] = @slow(~x[t]) output ~y"
            )),
            x(100_000),
            options().functions(slow),
        ),
    ]
}

#[test]
fn a_cancelled_run_returns_soon_wherever_it_is() {
    for (name, compiled, inputs, options) in long_runs() {
        let cancel = Cancel::new();
        let cancelled: Arc<Mutex<Option<Instant>>> = Arc::default();
        let options = {
            let (cancel, cancelled) = (cancel.clone(), Arc::clone(&cancelled));
            options.cancel(cancel.clone()).progress(move |progress| {
                let mut cancelled = cancelled.lock().expect("no panic");
                if progress.done > 0.0 && progress.done < 1.0 && cancelled.is_none() {
                    cancel.cancel();
                    *cancelled = Some(Instant::now());
                }
            })
        };
        let result = compiled.run(&inputs, &options);
        let cancelled = cancelled.lock().expect("no panic");
        let took = cancelled.map(|at| at.elapsed());
        println!("{name}: {took:?} after it was cancelled");
        let Err(Error::Cancelled { done }) = result else {
            panic!("{name} was not cancelled: {took:?} {result:?}");
        };
        assert!(done > 0.0 && done < 1.0, "{name}: {done}");
        // A tenth of a second on a machine that does nothing else.
        assert!(took < Some(Duration::from_secs(2)), "{name}: {took:?}");
    }
}

#[test]
fn progress_goes_from_nothing_to_all_and_never_back() {
    for (name, rows, options) in [
        ("pieces", 500_000, RunOptions::default().threads(2)),
        (
            "the interpreter",
            20_000,
            RunOptions::default().backend(Backend::Interpreter),
        ),
    ] {
        let compiled =
            compiled("input ~x: f64 fixed 8 ~y[t] = reduce median ~x[t-3000:t] output ~y");
        let reports: Arc<Mutex<Vec<(Instant, Progress)>>> = Arc::default();
        let options = {
            let reports = Arc::clone(&reports);
            options.progress(move |p| reports.lock().expect("no panic").push((Instant::now(), p)))
        };
        let begun = Instant::now();
        let output = compiled.run(&inputs([("x", points(rows, 0))]), &options);
        let output = output.unwrap_or_else(|e| panic!("{name}: {e}"));
        let (took, returned) = (begun.elapsed(), Instant::now());
        let reports = reports.lock().expect("no panic");
        let first = reports.first().expect("a report").1;
        let last = reports.last().expect("a report").1;
        assert_eq!(first, Progress { done: 0.0, rows: 0 }, "{name}");
        assert_eq!((last.done, last.rows), (1.0, output.len() as u64), "{name}");
        for pair in reports.windows(2) {
            let ((_, a), (_, b)) = (pair[0], pair[1]);
            assert!(a.done <= b.done && a.rows <= b.rows, "{name}: {a:?} {b:?}");
        }
        let allowed = took.as_millis() / 50 + 3;
        assert!(
            reports.len() as u128 <= allowed,
            "{name}: {} in {took:?}",
            reports.len()
        );
        assert!(reports.iter().all(|(at, _)| *at <= returned), "{name}");
    }
}

#[test]
fn watching_changes_nothing() {
    let compiled = compiled("input ~x: f64 fixed 8 ~y[t] = reduce sum ~x[t-300:t] output ~y");
    let inputs = inputs([("x", points(10_000, 0))]);
    let plain = compiled.run(&inputs, &RunOptions::default()).expect("runs");
    let options = RunOptions::default().cancel(Cancel::new()).progress(|_| {});
    let watched = compiled.run(&inputs, &options).expect("runs");
    let (plain, watched) = (events_of(&plain), events_of(&watched));
    let (plain, watched) = (plain.expect("events"), watched.expect("events"));
    assert!(plain.iter().zip(&watched).all(|(a, b)| a.same(b)));
    assert_eq!(plain.len(), watched.len());
}

#[test]
fn a_run_that_is_cancelled_before_it_starts_says_so() {
    let compiled = compiled("input ~x: f64 fixed 8 ~y[t] = ~x[t] output ~y");
    let cancel = Cancel::new();
    let options = RunOptions::default().cancel(cancel.clone());
    let inputs = inputs([("x", points(10, 0))]);
    assert_eq!(compiled.run(&inputs, &options).expect("runs").len(), 10);
    cancel.cancel();
    for backend in [Backend::Native, Backend::Loops, Backend::Interpreter] {
        let options = options.clone().backend(backend);
        let error = compiled.run(&inputs, &options).expect_err("cancelled");
        let text =
            "the run was cancelled after 0 % of the time range; start it again to get a result";
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn statistics_say_what_a_run_did() {
    let compiled = compiled(
        "input ~x: f64 fixed 8  ~m[t every 100] = reduce mean ~x[t-1000:t]
         ~y[t] = ~x[t] - hold(~m[t], 1000)  output ~y",
    );
    let inputs = inputs([("x", points(200_000, 0))]);
    let options = RunOptions::default().threads(2);
    let plain = compiled.run(&inputs, &options).expect("runs");
    let (output, stats) = compiled.run_with_stats(&inputs, &options).expect("runs");
    assert_eq!(output.len(), plain.len());
    assert_eq!((stats.rows, stats.threads), (output.len(), 2));
    assert!(stats.cached && stats.interpreted.is_none(), "{stats}");
    assert!(stats.pieces >= 1 && stats.peak_bytes > 1_000_000, "{stats}");
    for stage in &stats.stages {
        assert!((1..=stats.pieces).contains(&stage.pieces), "{stats}");
        let nanos = stage.time.as_nanos() as f64 / stage.rows as f64;
        assert!(nanos > 0.0 && stage.nanos_per_row() == nanos, "{stats}");
    }
    let most = options.clone().piece_rows(50_000);
    let (_, cut) = compiled.run_with_stats(&inputs, &most).expect("runs");
    let pieces: Vec<usize> = cut.stages.iter().map(|stage| stage.pieces).collect();
    // Stage by stage: one stretch of 20 022 cells, five of 219 990 rows.
    assert_eq!((cut.pieces, &pieces[..]), (6, &[1, 5][..]), "{cut}");
    let names: Vec<&str> = stats.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["m", "y"], "{stats}");
    let last = &stats.stages[1];
    assert!(
        last.rows >= 200_000 && last.time > Duration::ZERO,
        "{stats}"
    );
    assert!(
        last.read > 1_600_000 && last.written >= 1_600_000,
        "{stats}"
    );
    assert_eq!(stats.stages[0].windows.len(), 1, "{stats}");
    let table = stats.to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].contains(" rows in ") && lines[0].contains("compiled before in"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("stage ") && lines[1].ends_with("written  windows"),
        "{table}"
    );
    assert!(
        lines[2].starts_with("~m ") && lines[2].ends_with(&stats.stages[0].windows[0]),
        "{table}"
    );
    assert!(lines[3].starts_with("~y "), "{table}");

    let (_, text) = compiled.analyze(&inputs, &options).expect("runs");
    let explained = compiled.explain();
    let kept = text
        .lines()
        .filter(|line| explained.lines().any(|l| l == *line));
    assert!(kept.count() > 10, "{text}");
    assert_eq!(text.matches("\n  measured: ").count(), 2, "{text}");
    assert!(
        text.lines().nth(1).is_some_and(|l| l.contains(" rows in ")),
        "{text}"
    );
}

#[test]
fn statistics_say_why_a_run_was_interpreted() {
    let compiled = compiled(
        "input ~x: f64 fixed 8
         ~y[t at ~x]: f64 = ~x[t] + coalesce(reduce max ~y[t-30 : t-8], 0.0)
         output ~y",
    );
    let inputs = inputs([("x", points(100, 0))]);
    let (_, stats) = compiled
        .run_with_stats(&inputs, &RunOptions::default())
        .expect("runs");
    assert!(
        stats.interpreted.is_some() && stats.stages.is_empty(),
        "{stats}"
    );
    assert!(stats.to_string().starts_with("100 rows in "), "{stats}");
    assert!(
        stats.to_string().contains("interpreted because of "),
        "{stats}"
    );
    let (_, text) = compiled
        .analyze(&inputs, &RunOptions::default())
        .expect("runs");
    assert!(text.contains("interpreted, because of"), "{text}");
}

#[test]
fn statistics_count_the_rows_of_all_keys() {
    let by_key = "input ~x: {k: i64, v: i64} point key k";
    let inputs = inputs([("x", keyed(20_000, 7))]);
    for (text, rows) in [
        (
            "~y[t] = reduce sum ~x[t-70:t] map (~x[t].v) output ~y",
            20_000,
        ),
        (
            "~y[t every 1000] = reduce sum ~x[t-1000:t] map (~x[t].v) output ~y",
            140,
        ),
    ] {
        let compiled = compiled(&format!("{by_key} {text}"));
        let options = RunOptions::default().threads(2);
        let (output, stats) = compiled.run_with_stats(&inputs, &options).expect("runs");
        assert_eq!((output.len(), stats.rows), (rows, rows), "{stats}");
        assert_eq!(
            stats.stages.last().map(|s| s.rows),
            Some(rows as u64),
            "{stats}"
        );
        assert!(stats.stages[0].read > 0, "{stats}");
    }
}

/// What it costs to watch a run: `cargo test -p tilt --test it cost_of -- --ignored --nocapture`.
#[test]
#[ignore = "a report of times: a test must not fail because the machine is busy"]
fn cost_of_watching_and_of_statistics() {
    let inputs = inputs([("x", points(2_000_000, 0))]);
    for body in [
        "~x[t] * 2.0",
        "reduce sum ~x[t-1000:t]",
        "reduce median ~x[t-100:t]",
    ] {
        let compiled = compiled(&format!("input ~x: f64 fixed 8 ~y[t] = {body} output ~y"));
        let plain = RunOptions::default().threads(1);
        let watched = plain.clone().cancel(Cancel::new()).progress(|_| {});
        let mut best = [Duration::MAX; 3];
        for _ in 0..7 {
            let mut measure = |way: usize, run: &dyn Fn()| {
                let begun = Instant::now();
                run();
                best[way] = best[way].min(begun.elapsed());
            };
            measure(0, &|| drop(compiled.run(&inputs, &plain)));
            measure(1, &|| drop(compiled.run(&inputs, &watched)));
            measure(2, &|| drop(compiled.run_with_stats(&inputs, &plain)));
        }
        let ratio = |way: usize| best[way].as_secs_f64() / best[0].as_secs_f64();
        println!(
            "{body}: {:?}, watched {:.3}, measured {:.3}",
            best[0],
            ratio(1),
            ratio(2)
        );
    }
}

#[test]
fn only_runs_that_are_over_at_once_are_brief() {
    let one = "input ~x: f64 fixed 8";
    let options = RunOptions::default().threads(2);
    let few = || inputs([("x", points(100, 0))]);
    let brief = |text: &str, buffers: &Buffers| {
        let query = compiled(text);
        let run = query.run(buffers, &options).expect("runs");
        let brief = query.run_briefly(buffers, &options)?;
        let events = |buffer| events_of(buffer).expect("a buffer of events");
        let (brief, run) = (events(&brief), events(&run));
        assert!(
            brief.len() == run.len() && brief.iter().zip(&run).all(|(a, b)| a.same(b)),
            "{text}"
        );
        Some(())
    };
    let mean = format!("{one} ~y[t] = ~x[t] - reduce mean ~x[t-50 : t] output ~y");
    assert!(brief(&mean, &few()).is_some());
    let cells = |period: i64| format!("{one} ~y[t every {period}] = ~x[t] output ~y");
    assert!(brief(&cells(10), &few()).is_some());
    let by_key = "input ~x: {k: i64, v: i64} point key k";
    let by_key = format!("{by_key} ~y[t] = reduce max ~x[t-50 : t] map (~x[t].v) output ~y");
    assert!(brief(&by_key, &inputs([("x", keyed(500, 7))])).is_some());

    // Many rows, many cells on few rows, functions of which nobody knows how long they take.
    assert!(brief(&mean, &inputs([("x", points(5_000, 0))])).is_none());
    assert!(brief(&cells(1), &inputs([("x", points(300, 0))])).is_none());
    let cells = "input ~x: {k: i64, v: i64} point key k ~y[t every 1] = ~x[t].v output ~y";
    assert!(brief(cells, &inputs([("x", keyed(100, 50))])).is_some());
    assert!(brief(cells, &inputs([("x", keyed(1_000, 50))])).is_none());
    let calls = format!("extern fn slow(f64) -> f64 {one} ~y[t] = @slow(~x[t]) output ~y");
    assert!(compiled(&calls).run_briefly(&few(), &options).is_none());

    // A plan that has to be made first.
    let query = Query::parse(&format!("query q unit tick {{ {mean} }}")).expect("a query");
    let query = query.prepare(false).compile().expect("compiles");
    assert!(query.run_briefly(&few(), &options).is_none());
    query.run(&few(), &options).expect("runs");
    assert!(query.run_briefly(&few(), &options).is_some());
}
