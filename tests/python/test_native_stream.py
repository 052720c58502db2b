"""The native query builder, on which the public Stream stands."""

import pytest

import tilt as tl
from tilt._native import Reducer, Stream, Value


@pytest.fixture
def price() -> Stream:
    return Stream.input("price", "f64", "s")


def definitions(stream: Stream) -> list[str]:
    return [line.strip() for line in stream.text().splitlines() if line.strip().startswith("~")]


def test_the_trend_query(price: Stream) -> None:
    diff = price.window("-10s", "0s").reduce("mean").binary("-", price.window("-20s", "0s").reduce("mean"))
    trend = diff.filter(diff.binary(">", 0)).alias("trend")
    assert definitions(trend) == [
        "~mean_price[t] = reduce mean ~price[t-10s : t]",
        "~mean_price_2[t] = reduce mean ~price[t-20s : t]",
        "~v[t] = ~mean_price[t] - ~mean_price_2[t]",
        "~v_2[t] = ~v[t] > 0.0",
        "~trend[t] = if ~v_2[t] then ~v[t] else null",
    ]
    assert (trend.name, trend.dtype, trend.unit) == ("trend", "f64", "s")
    assert trend.lineage == [("price", "20s", "0s")]
    assert (trend.lookback, trend.lookahead) == ("20s", "0s")
    assert Stream.from_text(trend.text("q")).same(trend)
    assert tl.Program.parse(trend.text("q")).name == "q"


def test_declarations_of_records_quote_their_names() -> None:
    columns = [("sym", "utf8"), ("unit price", "f64"), ("at", "timestamp(ns)")]
    trades = Stream.input("my trades", columns, "ns", span="fixed 5ms", period="5ms", key="sym", overlap="bag")
    assert trades.schema == columns
    assert trades.field("unit price").dtype == "f64"
    assert "input ~`my trades`: {sym: utf8, `unit price`: f64, at: timestamp(ns)}" in trades.text()


def test_literals_take_the_type_of_what_they_meet(price: Stream) -> None:
    assert price.binary("+", 1).dtype == "f64"
    assert price.binary("//", 2, reversed=True).dtype == "f64"
    counts = Stream.input("n", "i32", "s")
    assert counts.binary("/", 2).dtype == "f64"
    assert counts.binary("**", 2).dtype == "i32"
    assert price.time().binary("+", ("duration", 5, "s")).dtype == "timestamp(s)"
    when = Stream.when([(price.binary(">", 1), "up"), (price.binary("<", -1), "down")], None)
    assert when.dtype == "utf8"
    assert Stream.coalesce([price, None, 3]).dtype == "f64"


def test_every_window_and_reduction(price: Stream) -> None:
    window = price.window("-1h", 0).every("5m", "1m")
    assert definitions(window.reduce("quantile", 0.9, "nearest")) == [
        "~quantile_price[t every 5m offset 1m] = reduce quantile(0.9, nearest) ~price[t-1h : t]"
    ]
    assert definitions(price.window(None, "0i").reduce("ewm", 0.5))[0].endswith("reduce ewm(0.5) ~price[-inf : #]")
    assert definitions(price.window("-3i", "0i").each_nth(2).min_samples(2).reduce("std", 0))
    squares = price.window("-10s", "0s").closed("left").map(lambda x: x.binary("*", x))
    assert definitions(squares.reduce("sum"))[-1] == "~sum_v[t] = reduce sum ~price[t-11s : t-1s] map (~v[t])"
    bar = price.window("-1m", "0s").every("1m")
    bars = bar.agg([("high", bar.reduce("max")), ("n", bar.reduce("len"))])
    assert bars.dtype == "{high: f64, n: i64}"
    with pytest.raises(ValueError, match="there is no reduction"):
        bar.reduce("average")
    with pytest.raises(ValueError, match="closed must be one of"):
        bar.closed("open")


def test_recurrences_call_their_function_once(price: Stream) -> None:
    calls: list[Stream] = []

    def total(own: Stream) -> Stream:
        calls.append(own)
        return own.prev(1).binary("+", price)

    assert definitions(Stream.recur(total, initial=0)) == ["~recur[t]: f64 = coalesce(~recur.prev(1), 0.0) + ~price[t]"]
    assert len(calls) == 1

    def broken(own: Stream) -> Stream:
        raise KeyError(own.name)

    with pytest.raises(KeyError):
        Stream.recur(broken)


def test_reducers_are_traced(price: Stream) -> None:
    mean = Reducer("mean2", "f64", "s", [("s", 0.0), ("n", 0)])
    params = mean.params("acc")
    state, value, _, _ = params
    mean.define("acc", params, [("s", state.field("s").binary("+", value)), ("n", state.field("n").binary("+", 1))])
    params = mean.params("result")
    result: Value = params[0].field("s").binary("/", params[0].field("n"))
    mean.define("result", params, result)
    assert result.dtype == "f64"
    assert price.window("-5s", "0s").reduce_with(mean).dtype == "f64"
    with pytest.raises(tl.TiltError, match="init"):
        mean.define("acc", mean.params("acc"), [("n", mean.params("acc")[1])])


def test_errors_name_operation_operands_and_hint(price: Stream) -> None:
    with pytest.raises(tl.TiltError) as error:
        price.binary("+", "a")
    assert str(error.value).startswith("+: `+` has no common type for f64 and utf8\n    input ~price: f64 point")
    assert error.value.hint == "`cast` one of them"
    with pytest.raises(tl.QueryError, match="calendar"):
        price.shift("1mo")
    with pytest.raises(tl.TiltError, match="5s ahead"):
        price.at_offset("+5s").assert_causal()
    with pytest.raises(TypeError, match="neither a stream"):
        price.binary("+", [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a length is"):
        price.shift(1.5)  # type: ignore[arg-type]
    with pytest.raises(tl.QueryError):
        Stream.input("x", "f65", "s")
