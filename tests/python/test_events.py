"""Which events results have: joins with bags, gaps, conditions without a value, rows that have only times."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

import tilt as tl


@pytest.fixture
def trades() -> tl.Stream:
    """Two of them at one instant."""
    return tl.stream({"t": [1, 2, 2, 5], "px": [1.0, 2.0, 3.0, 4.0]}, time="t", unit="s")


@pytest.fixture
def quotes() -> tl.Stream:
    return tl.stream({"t": [1, 1, 3, 4], "bid": [1.0, 2.0, 3.0, 4.0]}, time="t", unit="s")


def test_columns_of_a_bag_may_be_computed_with_other_streams(trades: tl.Stream, quotes: tl.Stream) -> None:
    bid, px = quotes["bid"], trades["px"]
    mean = bid["-2s":].mean()
    slip = px - bid.hold()
    wide = trades.with_columns(
        window=mean, held=bid.hold(), both=px - mean, slip=slip, twice=slip * 2, high=slip.filter(slip > 0)
    )
    assert wide.drop("px").collect().to_dict() == {
        "t": [1, 2, 2, 5],
        "window": [1.5, 1.5, 1.5, 4.0],
        "held": [2.0, 2.0, 2.0, 4.0],
        "both": [-0.5, 0.5, 1.5, 0.0],
        "slip": [-1.0, 0.0, 1.0, 0.0],
        "twice": [-2.0, 0.0, 2.0, 0.0],
        "high": [None, None, 1.0, None],
    }
    assert wide.collect() == wide.collect(backend="interpreter")


def test_points_beside_held_values_do_not_look_ahead(trades: tl.Stream, quotes: tl.Stream) -> None:
    slip = trades["px"] - quotes["bid"].hold()
    assert slip.assert_causal().lookahead == "0s"
    assert slip.filter(slip > 0).lookahead == "0s"
    assert (trades["px"] - quotes["bid"].hold(max_age="3s")).lookahead == "0s"
    # When an event ends that ends with the next quote is known a tick later.
    assert (trades["px"].hold() - quotes["bid"].hold()).lookahead == "1s"
    parts = [slip.collect(part=part)["px"] for part in ((0, 1), (1, 2), (2, 9))]
    assert parts == [[-1.0], [0.0, 1.0], [0.0]]


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        ({"value": 0.0}, [1.0, 0.0, 3.0, 0.0, 0.0, 6.0]),
        ({"strategy": "forward"}, [1.0, 1.0, 3.0, 3.0, 3.0, 6.0]),
        ({"strategy": "backward"}, [1.0, 3.0, 3.0, 6.0, 6.0, 6.0]),
        ({"strategy": "linear"}, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ],
)
def test_gaps_that_are_too_long_stay_as_they_are(fill: dict[str, Any], expected: list[float]) -> None:
    x = tl.stream({"t": [1, 3, 6, 10], "x": [1.0, 3.0, 6.0, 10.0]}, time="t", unit="s", period="1s")["x"]
    grid = x.every("1s")
    assert grid.fill_null(**fill, max_gap="3s").collect().to_dict() == {
        "t": [1, 2, 3, 4, 5, 6, 10],
        "x": [*expected, 10.0],
    }
    assert grid.fill_null(**fill, max_gap="2s").collect()["t"] == [1, 2, 3, 6, 10]
    assert grid.fill_null(**fill, max_gap="4s").collect()["t"] == list(range(1, 11))


def test_a_condition_without_a_value_is_not_true() -> None:
    rows = tl.stream({"t": [1, 2, 3], "c": [True, None, False], "v": [1.0, 2.0, None]}, time="t")
    choice = tl.when(rows["c"]).then(1.0).otherwise(-1.0)
    assert choice.collect().to_dict() == {"t": [1, 2, 3], "c": [1.0, -1.0, -1.0]}
    assert rows.with_columns(z=choice).collect()["z"] == [1.0, -1.0, -1.0]
    assert rows.with_columns(z=tl.when(tl.col("v") > 1.5).then("high").otherwise("low")).collect()["z"] == [
        "low",
        "high",
        "low",
    ]
    # Nothing is chosen where there is nothing to choose from: what a filter dropped, and values that are missing.
    kept = rows["v"].filter(rows["v"] > 1.5)
    assert tl.when(kept > 0).then("kept").otherwise("lost").collect()["t"] == [2]
    assert tl.when(rows["c"]).then(5.0).otherwise(rows["v"]).collect().to_dict() == {"t": [1, 2], "c": [5.0, 2.0]}


@pytest.mark.parametrize("source", ["rows", "parquet", "csv"])
def test_rows_that_have_only_times_are_events(source: Literal["rows", "parquet", "csv"], tmp_path: Path) -> None:
    table = tl.Table({"t": [1, 2, 2, 9]})
    if source == "rows":
        clicks = tl.stream(table, time="t", unit="s")
    elif source == "parquet":
        table.write_parquet(tmp_path / "t.parquet")
        clicks = tl.scan_parquet(tmp_path / "t.parquet", time="t", unit="s")
    else:
        table.write_csv(tmp_path / "t.csv")
        clicks = tl.scan_csv(tmp_path / "t.csv", time="t", unit="s")
    assert clicks.schema == {"event": "bool"}
    assert clicks["-5s":].len().collect().to_dict() == {"t": [1, 2, 2, 9], "len": [1, 3, 3, 1]}
    assert clicks.collect().to_dict() == {"t": [1, 2, 2, 9], "event": [True] * 4}


def test_moved_points_are_points() -> None:
    x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")
    assert x["x"].shift("5s").collect().to_dict() == {"t": [6, 7], "x": [1.0, 2.0]}
    assert x.shift("5s").collect().columns == ["t", "x"]
    assert x["x"].shift("5s").collect(layout="interval").columns == ["start", "end", "x"]
    assert x["x"].hold().shift("5s").collect().columns == ["start", "end", "x"]
    keyed = x.shift("5s").key_by("x")
    assert keyed.collect()["t" if "t" in keyed.collect().columns else "time"] == [6, 7]


def test_windows_may_be_the_events_of_another_stream(trades: tl.Stream) -> None:
    shifts = tl.stream({"s": [0, 2], "e": [2, 9], "who": ["a", "b"]}, valid=("s", "e"), unit="s")
    window = trades["px"].during(shifts)
    assert window.sum().collect().to_dict() == {"s": [0, 2], "e": [2, 9], "px": [6.0, 4.0]}
    summary = window.agg(n=tl.len(), first=tl.first(), begin=tl.window_start())
    assert summary.drop("begin").collect().to_pylist()[0] == {"s": 0, "e": 2, "n": 3, "first": 1.0}
    assert shifts.with_columns(mean=window.mean()).collect()["mean"] == [2.0, 4.0]
    with pytest.raises(TypeError, match="takes a stream"):
        trades["px"].during("5s")  # type: ignore[arg-type]


def test_plots_are_charts_where_altair_is_installed(trades: tl.Stream) -> None:
    pytest.importorskip("altair")
    many = tl.stream({"t": range(10_000), "x": [float(i % 97) for i in range(10_000)]}, time="t", unit="ms")["x"]
    chart = tl.plot(trades["px"], trades["px"].hold().alias("held"), many, width=300).to_dict()
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["point", "rule", "rule"]
    assert chart["width"] == 300
    # Large streams are reduced before they are drawn.
    assert max(len(rows) for rows in chart["datasets"].values()) < 1_000
    assert len(json.dumps(chart)) < 200_000
    assert str(tl.plot(many, backend="svg")).startswith("<svg")
    with pytest.raises(ValueError, match="backend"):
        tl.plot(many, backend="matplotlib")  # type: ignore[arg-type]
