use super::*;
use crate::{Overlap, SpanRule, Unit};

fn x() -> Stream {
    Stream::input(Input::point("x", DType::F64, Unit::Second))
}

fn tmp(s: &Stream) {
    println!("{s}");
}

#[test]
fn tmp_all() {
    let x = x();
    let y = Stream::input(Input::point("y", DType::I32, Unit::Milli));
    let ecg = Stream::input(Input::samples("ecg", DType::F64, Unit::Milli, 5));
    tmp(&(&x + &y));
    tmp(&(&x - y.window("10s").mean()));
    tmp(&(x.window("10s").mean() - y.window("10s").mean()).every("1s", None));
    tmp(&(x.window("10s").mean() - y.window("10s").mean()).on_change());
    tmp(&x.window("10s").closed(Closed::Left).min_samples(3).std(1));
    tmp(&x
        .interpolate(Interpolation::Linear, "20s")
        .every("4s", None));
    tmp(&x.resample(
        "4s",
        Resampling::Interpolate(Interpolation::Nearest),
        Some("5s".into()),
    ));
    tmp(&ecg
        .every("5ms", None)
        .fill_null(ecg.window("10s").mean(), Some("2s".into())));
    tmp(&ecg
        .every("5ms", None)
        .fill_gaps(Fill::Backward, Some("50ms".into())));
    tmp(&x.join_asof(&y, AsOf::Nearest, Some("5s".into()), "_r"));
    tmp(&x.join_asof(&y, AsOf::Forward, Some("5s".into()), "_r"));
    tmp(&ecg.peaks("200ms", Some((ecg.window("8s").mean() * 1.5).into())));
    tmp(&x.gt(3.0).held_for("10m"));
    tmp(&x.hold(None).gt(3.0).held_for("10m"));
    let e = ecg.fill_null(0.0, None);
    tmp(&recur(&DType::F64, Some(0.0.into()), |y| {
        y.sample(-1) * 2.0 - y.sample(-2) + &e - 2.0 * e.sample(-6) + e.sample(-12)
    }));
    tmp(&x.lfilter(&[1.0, 0.0, -0.5], &[1.0, -0.25]));
    tmp(&x.ewm_by_time("10s"));
    tmp(&x.window("1h").ewm_by_time("10s"));
    tmp(&(&x + "a"));
    tmp(&x.window("1mo").mean());
    tmp(&x.sample(-3));
}
