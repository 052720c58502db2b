//! Queries made by the builder, against results worked out by hand.

use tilt::{
    Backend, Query, RunOptions,
    interp::{self, Options, events_of},
    ir::{
        DType, Input, Overlap, SpanRule, Unit,
        build::{
            AsOf, Closed, Fill, Interpolation, Reducer, Resampling, Stream, coalesce, recur,
            struct_of, when,
        },
        optimize, parse,
    },
};

use crate::{
    generate::buffers,
    text::{format_events, parse_inputs},
};

/// The events of a stream over inputs given as lines `~x: events`, before and after all passes, compiled, and when read
/// back from its text.
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
    let options = RunOptions::default().backend(Backend::Native);
    let compiled = Query::new(program.clone()).and_then(Query::compile);
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
    let engine = compiled.run(&buffers(&program, &inputs), &options);
    let engine = events_of(&engine.unwrap_or_else(|e| panic!("{e}")));
    let engine = format_events(&engine.unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(found, engine, "{}", compiled.explain());
    let again = parse(&program.to_string()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.to_string(), program.to_string());
    found
}

/// The instants and values of points, short.
fn points(stream: &Stream, inputs: &[(&str, &str)]) -> String {
    let events = run(stream, inputs);
    let events = events.split('(').filter_map(|event| {
        let (_, rest) = event.split_once(',')?;
        Some(rest.replacen(']', "", 1))
    });
    events.collect::<String>()
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

#[test]
fn as_of_joins_take_the_event_before_after_or_nearest() {
    let data = [
        ("x", "2=1.0 5=2.0 9=3.0"),
        ("y", "1=10.0 5=20.0 7=30.0 12=40.0"),
    ];
    let joined = |strategy, tolerance: &str| {
        let tolerance = Some(tolerance.into());
        points(&x().join_asof(&y(), strategy, tolerance, "_y"), &data)
    };
    assert_eq!(
        joined(AsOf::Backward, "2s"),
        "2={1.0, 10.0} 5={2.0, 20.0} 9={3.0, 30.0}"
    );
    assert_eq!(
        joined(AsOf::Backward, "1s"),
        "2={1.0, 10.0} 5={2.0, 20.0} 9={3.0, null}"
    );
    assert_eq!(
        joined(AsOf::Forward, "2s"),
        "2={1.0, null} 5={2.0, 20.0} 9={3.0, null}"
    );
    assert_eq!(
        joined(AsOf::Forward, "3s"),
        "2={1.0, 20.0} 5={2.0, 20.0} 9={3.0, 40.0}"
    );
    assert_eq!(
        joined(AsOf::Nearest, "3s"),
        "2={1.0, 10.0} 5={2.0, 20.0} 9={3.0, 30.0}"
    );
}

#[test]
fn of_equally_near_events_the_earlier_is_taken() {
    let data = [("x", "5=1.0"), ("y", "3=10.0 7=20.0")];
    let joined = x().join_asof(&y(), AsOf::Nearest, Some("2s".into()), "_y");
    assert_eq!(points(&joined, &data), "5={1.0, 10.0}");
}

#[test]
fn long_events_are_joined_by_their_ends() {
    let long = Stream::input(Input {
        span: SpanRule::Interval,
        ..Input::point("y", DType::F64, Unit::Second)
    });
    let data = [("x", "5=1.0 14=2.0"), ("y", "(6,9]=10.0 (9,16]=20.0")];
    let joined = |tolerance: &str| {
        let tolerance = Some(tolerance.into());
        points(&x().join_asof(&long, AsOf::Forward, tolerance, "_y"), &data)
    };
    assert_eq!(joined("3s"), "5={1.0, null} 14={2.0, 20.0}");
    assert_eq!(joined("4s"), "5={1.0, 10.0} 14={2.0, 20.0}");
}

#[test]
fn resampling_holds_averages_and_interpolates() {
    let data = [("x", "2=1.0 6=3.0 20=5.0")];
    let resampled = |method| points(&x().resample("4s", method, Some("4s".into())), &data);
    assert_eq!(resampled(Resampling::Hold), "4=1.0 8=3.0 20=5.0");
    assert_eq!(resampled(Resampling::Mean), "4=1.0 8=3.0 20=5.0");
    // 4 lies halfway between 2 and 6; 6 and 20 are too far apart.
    let linear = Resampling::Interpolate(Interpolation::Linear);
    assert_eq!(resampled(linear), "4=2.0 20=5.0");
    // 4 is as far from 2 as from 6; nothing comes before the first sample.
    let nearest = Resampling::Interpolate(Interpolation::Nearest);
    assert_eq!(resampled(nearest), "4=1.0 8=3.0 16=5.0 20=5.0");
}

#[test]
fn interpolation_goes_to_the_events_of_another_stream() {
    let data = [
        ("x", "2=0.0 5=0.0 9=0.0"),
        ("y", "1=10.0 5=20.0 7=30.0 12=40.0"),
    ];
    let line = y().interpolate(Interpolation::Linear, "10s");
    assert_eq!(points(&line.at(&x()), &data), "2=12.5 5=20.0 9=34.0");
    assert_eq!(points(&line, &data), "1=10.0 5=20.0 7=30.0 12=40.0");
}

#[test]
fn gaps_of_a_grid_are_filled_up_to_a_length() {
    let data = [("x", "2=1.0 6=3.0 20=5.0")];
    let grid = x().every("2s", None);
    let filled = |with| points(&grid.fill_gaps(with, Some("4s".into())), &data);
    // From 6 to 20 it is too far, whatever is filled in.
    assert_eq!(filled(Fill::Forward), "2=1.0 4=1.0 6=3.0 20=5.0");
    assert_eq!(filled(Fill::Backward), "2=1.0 4=3.0 6=3.0 20=5.0");
    assert_eq!(filled(Fill::Linear), "2=1.0 4=2.0 6=3.0 20=5.0");
    let mean = x().window("10s").mean();
    assert_eq!(
        points(&grid.fill_null(mean, Some("4s".into())), &data),
        "2=1.0 4=1.0 6=3.0 20=5.0"
    );
    assert_eq!(
        points(&grid.fill_null(0, None), &data),
        "2=1.0 4=0.0 6=3.0 8=0.0 10=0.0 12=0.0 14=0.0 16=0.0 18=0.0 20=5.0"
    );
}

#[test]
fn closures_decide_about_events_at_the_edges() {
    let data = [("x", "1=1.0 1=2.0 3=4.0 3=8.0 5=16.0")];
    let sums = |closed| {
        let window = bag("x", DType::F64).window("2s").closed(closed);
        points(&window.sum().fill_null(0, None), &data)
    };
    assert_eq!(sums(Closed::Right), "1=3.0 1=3.0 3=12.0 3=12.0 5=16.0");
    assert_eq!(sums(Closed::Left), "1=0.0 1=0.0 3=3.0 3=3.0 5=12.0");
    assert_eq!(sums(Closed::Both), "1=3.0 1=3.0 3=15.0 3=15.0 5=28.0");
    assert_eq!(sums(Closed::Neither), "1=0.0 1=0.0 3=0.0 3=0.0 5=0.0");
}

#[test]
fn a_peak_has_no_higher_one_near() {
    let data = [("x", "1=0.0 2=5.0 3=1.0 4=4.0 5=0.0 6=3.0 7=3.0 8=9.0 9=1.0")];
    // Local maxima are 2, 4, 6 (the first of two equal ones) and 8; of 4 and 6 higher ones are two seconds away.
    assert_eq!(
        points(&x().peaks("1s", None), &data),
        "2=5.0 4=4.0 6=3.0 8=9.0"
    );
    assert_eq!(
        points(&x().peaks("2s", Some(3.5.into())), &data),
        "2=5.0 4=4.0 8=9.0"
    );
    assert_eq!(points(&x().peaks("3s", None), &data), "2=5.0 8=9.0");
    let samples = Stream::input(Input::samples("x", DType::F64, Unit::Second, 2));
    let data = [(
        "x",
        "(0,2]=0.0 (2,4]=5.0 (4,6]=1.0 (6,8]=4.0 (8,10]=0.0 (10,12]=3.0 (12,14]=3.0 (14,16]=9.0 (16,18]=1.0",
    )];
    assert_eq!(points(&samples.peaks("5s", None), &data), "4=5.0 16=9.0");
    assert_eq!(
        points(&samples.peaks("4s", None), &data),
        "4=5.0 8=4.0 12=3.0 16=9.0"
    );
}

#[test]
fn an_alarm_must_hold_for_a_while() {
    let high = |stream: Stream| stream.gt(3.0).held_for("2s");
    let data = [("x", "1=0.0 2=5.0 3=5.0 4=4.0 9=0.0 10=7.0 13=7.0")];
    assert_eq!(points(&high(x()), &data), "4=true 13=true");
    let data = [(
        "x",
        "(0,1]=0.0 (1,2]=5.0 (2,3]=5.0 (3,8]=4.0 (8,9]=0.0 (9,12]=7.0 (12,13]=7.0 (14,17]=9.0",
    )];
    let step = Stream::input(Input {
        span: SpanRule::Interval,
        ..Input::point("x", DType::F64, Unit::Second)
    });
    // True on (1, 8], (9, 13] and, after a gap, (14, 17].
    assert_eq!(
        run(&high(step), &data),
        "(3,4]=true (4,5]=true (5,8]=true (11,12]=true (12,13]=true (16,17]=true"
    );
}

#[test]
fn filters_match_scipy() {
    // scipy.signal.lfilter(*scipy.signal.butter(4, 0.2), x), SciPy 1.17.1.
    let b = [
        0.004_824_343_357_716_228,
        0.019_297_373_430_864_913,
        0.028_946_060_146_297_37,
        0.019_297_373_430_864_913,
        0.004_824_343_357_716_228,
    ];
    let a = [
        1.0,
        -2.369_513_007_182_038,
        2.313_988_414_415_881,
        -1.054_665_405_878_568,
        0.187_379_492_368_185_02,
    ];
    let expected = [
        0.0,
        0.009_648_686_715_432_456,
        0.080_754_808_967_036_49,
        0.308_928_578_339_825_2,
        0.743_470_119_350_240_5,
        1.303_842_665_326_145_7,
        1.814_857_015_536_132,
        2.130_084_401_641_288_8,
        2.237_890_276_032_761_2,
        2.231_622_415_676_022_7,
        2.189_541_874_187_971,
        2.120_372_471_851_951,
    ];
    let data = "1=0.0 2=2.0 4=4.0 5=1.0 6=3.0 7=0.0 8=2.0 9=4.0 10=1.0 11=3.0 12=0.0 13=2.0";
    let found = points(&x().lfilter(&b, &a), &[("x", data)]);
    let values = found.split(' ').map(|event| {
        let value = event.split_once('=').map(|(_, value)| value.parse::<f64>());
        value.and_then(Result::ok)
    });
    for (found, expected) in values.zip(expected) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-12));
    }
}

#[test]
fn weights_halve_with_every_half_life() {
    let data = [("x", "1=8.0 3=4.0 3=6.0 7=10.0")];
    let x = || bag("x", DType::F64);
    // At 3: (8/2 + 4) / 1.5, then (8/2 + 4 + 6) / 2.5; at 7: (8/8 + 4/4 + 6/4 + 10) / (1/8 + 1/4 + 1/4 + 1).
    let expected = "1=8.0 3=5.333333333333333 3=5.6 7=8.307692307692308";
    assert_eq!(points(&x().ewm_by_time("2s"), &data), expected);
    // A window sees all events of its instant.
    assert_eq!(
        points(&x().window("1h").ewm_by_time("2s"), &data),
        "1=8.0 3=5.6 3=5.6 7=8.307692307692308"
    );
    assert_eq!(
        points(&x().window("4s").ewm_by_time("2s"), &data),
        "1=8.0 3=5.6 3=5.6 7=10.0"
    );
    let lookback = x().window("1h").ewm_by_time("2s").assert_causal();
    assert_eq!(lookback, Ok(()));
}

#[test]
fn integers_are_promoted() {
    let a = Stream::input(Input::point("a", DType::I32, Unit::Second));
    let b = Stream::input(Input::point("b", DType::I64, Unit::Second));
    let data = [("a", "1=7 2=-7"), ("b", "1=2 2=2")];
    assert_eq!(points(&(&a / &b), &data), "1=3.5 2=-3.5");
    assert_eq!(points(&a.floordiv(&b), &data), "1=3 2=-4");
    assert_eq!(points(&(&a % &b), &data), "1=1 2=1");
    assert_eq!(points(&(&a * 0.5), &data), "1=3.5 2=-3.5");
    assert_eq!(
        points(&(&a + 4_000_000_000_i64), &data),
        "1=4000000007 2=3999999993"
    );
}

#[test]
fn windows_are_looked_at_where_events_are() {
    let data = [
        ("x", "2=1.0 5=2.0 9=3.0"),
        ("y", "1=10.0 5=20.0 7=30.0 12=40.0"),
    ];
    let mean = y().window("10s").mean();
    assert_eq!(points(&(x() - &mean), &data), "2=-9.0 5=-13.0 9=-17.0");
    let both = x().window("10s").sum() - y().window("10s").sum();
    assert_eq!(
        points(&both, &data),
        "2=-9.0 5=-27.0 7=-57.0 9=-54.0 12=-85.0"
    );
    assert_eq!(
        points(&both.every("6s", None), &data),
        "6=-27.0 12=-85.0 18=-37.0"
    );
    let wide = struct_of([("x", x())]).with_columns([
        ("mean", mean),
        ("prevailing", y().between("-1s", "0s").prevailing().mean()),
    ]);
    assert_eq!(
        points(&wide, &data),
        "2={1.0, 10.0, 10.0} 5={2.0, 15.0, 20.0} 9={3.0, 20.0, 30.0}"
    );
}

#[test]
fn windows_by_count_and_records_of_reductions() {
    let data = [("x", "2=1.0 5=2.0 9=3.0 10=5.0")];
    assert_eq!(
        points(&x().window("2i").each_nth(2).sum(), &data),
        "5=3.0 10=8.0"
    );
    let window = x().tumbling("4s");
    let bars = window.agg([
        ("n", window.len().cast(&DType::F64)),
        ("range", window.max() - window.min()),
    ]);
    assert_eq!(
        run(&bars, &data),
        "(0,4]={1.0, 0.0} (4,8]={1.0, 0.0} (8,12]={2.0, 2.0}"
    );
    assert_eq!(points(&x().cum_sum(), &data), "2=1.0 5=3.0 9=6.0 10=11.0");
    assert_eq!(
        points(&x().window("10s").min_samples(2).mean(), &data),
        "5=1.5 9=2.0 10=2.75"
    );
}

#[test]
fn conditions_choices_and_changes() {
    let data = [("x", "1=0.0 2=5.0 3=5.0 4=4.0"), ("y", "3=1.0 6=2.0")];
    let grade = when(x().gt(4.0))
        .then(2)
        .when(x().gt(3.0))
        .then(1)
        .otherwise(0);
    assert_eq!(points(&grade, &data), "1=0 2=2 3=2 4=1");
    assert_eq!(points(&x().changes(), &data), "1=0.0 2=5.0 4=4.0");
    assert_eq!(
        points(&coalesce([y(), x()]), &data),
        "1=0.0 2=5.0 3=1.0 4=4.0 6=2.0"
    );
    assert_eq!(points(&x().filter(y().gt(0.0)), &data), "3=5.0");
    let sum = recur(&DType::F64, Some(0.0.into()), |total| total.prev(1) + x());
    assert_eq!(points(&sum, &data), "1=0.0 2=5.0 3=10.0 4=14.0");
}

#[test]
fn overlapping_intervals_are_paired() {
    let calls = |name: &str| {
        Stream::input(Input {
            span: SpanRule::Interval,
            overlap: Overlap::Bag,
            ..Input::point(name, DType::I64, Unit::Second)
        })
    };
    let data = [("a", "(0,5]=1 (3,8]=2"), ("b", "(4,6]=3 (9,12]=4")];
    assert_eq!(
        run(&calls("a").join_overlap(&calls("b"), "_b"), &data),
        "(4,5]={1, 3} (4,6]={2, 3}"
    );
}

#[test]
fn custom_reductions_run() {
    let geometric = Reducer::new(
        "geometric",
        &DType::F64,
        Unit::Second,
        [("s", 0.0.into()), ("n", 0.into())],
    )
    .acc(|state, value, _, _| {
        vec![
            ("s", state.field("s") + value.log()),
            ("n", state.field("n") + 1),
        ]
    })
    .result(|state| (state.field("s") / state.field("n")).exp());
    let data = [("x", "2=1.0 5=1.0 9=8.0")];
    let mean = x().window("10s").reduce_with(&geometric);
    assert_eq!(points(&mean, &data), "2=1.0 5=1.0 9=2.0");
}

#[test]
fn finer_streams_bring_their_unit() {
    let fine = Stream::input(Input::point("y", DType::F64, Unit::Milli));
    let slow = x().hold(None).window("10s");
    // Both sides count in milliseconds; the integral of x is still one of seconds.
    let joined = fine + slow.integral(None);
    let data = [("x", "1000=2.0 3000=4.0"), ("y", "2500=0.5 4000=0.25")];
    assert_eq!(points(&joined, &data), "2500=3.502 4000=8.254");
}
