//! Queries made by the builder, against results worked out by hand.

use tilt::{
    interp::{self, Options},
    ir::{
        DType, Input, Overlap, SpanRule, Unit,
        build::{
            AsOf, Closed, Fill, Interpolation, Reducer, Resampling, Stream, coalesce, recur,
            struct_of, when,
        },
        optimize, parse,
    },
};

use crate::text::{format_events, parse_inputs};

/// The events of a stream over inputs given as lines `~x: events`, before and after all passes, and when read back from its text.
fn run(stream: &Stream, inputs: &[(&str, &str)]) -> String {
    let program = stream.program("q").unwrap_or_else(|e| panic!("{e}"));
    let lines: Vec<String> = inputs
        .iter()
        .map(|(name, events)| format!("// input ~{name}: {events}"))
        .collect();
    let inputs = parse_inputs(&lines.join("\n"), &program);
    let events = |program| {
        let events = interp::run(program, &inputs, &Options::default());
        format_events(&events.unwrap_or_else(|e| panic!("{e}\n{program}")))
    };
    let found = events(&program);
    assert_eq!(found, events(&optimize(&program)), "{program}");
    let again = parse(&program.to_string()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.to_string(), program.to_string());
    found
}

/// The instants and values of points, short.
fn points(stream: &Stream, inputs: &[(&str, &str)]) -> String {
    let events = run(stream, inputs);
    events
        .split(' ')
        .map(|event| event.split_once(',').map_or(event, |(_, rest)| rest))
        .map(|event| event.replacen(']', "", 1))
        .collect::<Vec<_>>()
        .join(" ")
}

fn x() -> Stream {
    Stream::input(Input::point("x", DType::F64, Unit::Second))
}

fn y() -> Stream {
    Stream::input(Input::point("y", DType::F64, Unit::Second))
}

fn bag(name: &str, dtype: DType) -> Stream {
    Stream::input(Input {
        overlap: Overlap::Bag,
        ..Input::point(name, dtype, Unit::Second)
    })
}

fn step(name: &str, dtype: DType) -> Stream {
    Stream::input(Input {
        span: SpanRule::UntilNext,
        ..Input::point(name, dtype, Unit::Second)
    })
}

#[test]
fn tmp() {
    let r = [
        ("x", "2=1.0 5=2.0 9=3.0"),
        ("y", "1=10.0 5=20.0 7=30.0 12=40.0"),
    ];
    for s in [AsOf::Backward, AsOf::Forward, AsOf::Nearest] {
        println!(
            "asof {s:?} {}",
            points(&x().join_asof(&y(), s, Some("2s".into()), "_r"), &r)
        );
    }
    let g = [("x", "2=1.0 6=3.0 20=5.0")];
    for m in [
        Resampling::Hold,
        Resampling::Mean,
        Resampling::Interpolate(Interpolation::Linear),
        Resampling::Interpolate(Interpolation::Nearest),
    ] {
        println!(
            "resample {m:?} {}",
            points(&x().resample("4s", m, Some("4s".into())), &g)
        );
    }
    let grid = x().every("2s", None);
    for f in [Fill::Forward, Fill::Backward, Fill::Linear] {
        println!(
            "fill {f:?} {}",
            points(&grid.fill_gaps(f, Some("4s".into())), &g)
        );
    }
    println!(
        "fill value {}",
        points(
            &grid.fill_null(x().window("10s").mean(), Some("4s".into())),
            &g
        )
    );
    println!("fill 0 {}", points(&grid.fill_null(0.0, None), &g));
    let d = [("x", "1=1.0 1=2.0 3=4.0 3=8.0 5=16.0")];
    for c in [Closed::Right, Closed::Left, Closed::Both, Closed::Neither] {
        println!(
            "closed {c:?} {}",
            points(&bag("x", DType::F64).window("2s").closed(c).sum(), &d)
        );
    }
    let p = [("x", "1=0.0 2=5.0 3=1.0 4=4.0 5=0.0 6=3.0 7=3.0 8=9.0 9=1.0")];
    println!("peaks {}", points(&x().peaks("3s", Some(2.0.into())), &p));
    println!("peaks1 {}", points(&x().peaks("1s", None), &p));
    let c = [("x", "1=0.0 2=5.0 3=5.0 4=4.0 9=0.0 10=7.0 13=7.0")];
    println!("held points {}", points(&x().gt(3.0).held_for("2s"), &c));
    println!(
        "held step {}",
        run(&step("x", DType::F64).gt(3.0).held_for("2s"), &c)
    );
    println!("changes {}", points(&x().changes(), &c));
    println!("ewm {}", points(&x().ewm_by_time("2s"), &c));
    println!("ewm w {}", points(&x().window("1h").ewm_by_time("2s"), &c));
    println!(
        "lfilter {}",
        points(&x().lfilter(&[0.5, 0.25, -0.125], &[2.0, -1.0, 0.5]), &c)
    );
    println!("{}", points(&when(x().gt(4.0)).then(1).otherwise(0), &c));
    let cond = coalesce([x(), y()]);
    println!("{}", points(&cond, &r));
    println!("{}", points(&struct_of([("a", x()), ("b", y())]), &r));
    println!(
        "{}",
        points(
            &recur(&DType::F64, Some(0.0.into()), |s| s.prev(1) + x()),
            &r
        )
    );
    let w = x().tumbling("4s");
    println!(
        "agg {}",
        run(&w.agg([("n", w.len()), ("range", w.max() - w.min())]), &r)
    );
    println!("count {}", points(&x().window("2i").each_nth(2).sum(), &p));
    println!("minus {}", points(&(x() - y().window("10s").mean()), &r));
    println!(
        "both {}",
        points(&(x().window("10s").sum() - y().window("10s").sum()), &r)
    );
    println!(
        "interp at {}",
        points(&y().interpolate(Interpolation::Linear, "10s").at(&x()), &r)
    );
    let geo = Reducer::new(
        "geo",
        &DType::F64,
        Unit::Second,
        [("s", 0.0.into()), ("n", 0.into())],
    )
    .acc(|st, v, _, _| vec![("s", st.field("s") + v.log()), ("n", st.field("n") + 1)])
    .result(|st| (st.field("s") / st.field("n")).exp());
    println!("geo {}", points(&x().window("10s").reduce_with(&geo), &r));
}
