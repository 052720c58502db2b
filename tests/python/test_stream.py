"""Streams: what users can do with them, and what they are told when they do it wrong."""

import ctypes
import importlib.util
import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilt as tl

ROWS = {"t": [1, 2, 5, 6], "px": [10.0, 11.0, 9.0, 12.0], "qty": [1, 5, 2, 3], "sym": ["a", "b", "a", "b"]}


@pytest.fixture
def trades() -> tl.Stream:
    return tl.stream(ROWS, time="t", unit="s")


@tl.query
def smooth(ticks: tl.Stream) -> tl.Stream:
    return ticks["px"]["-2s":].mean()


def test_pickling(trades: tl.Stream) -> None:
    query = trades.key_by("sym").with_columns(mean=trades["px"]["-4s":].mean()).filter(tl.col("qty") > 1)
    copy = pickle.loads(pickle.dumps(query))
    assert copy.collect() == query.collect()
    assert copy.schema == query.schema
    copied = pickle.loads(pickle.dumps((trades["px"] + 1).alias("y")))
    assert copied.collect().columns == ["t", "y"]
    assert smooth(trades).collect()["px"] == [10.0, 10.5, 9.0, 10.5]
    big = tl.when(tl.col("qty") > 1).then(tl.col("px")).otherwise(0.0)
    condition = pickle.loads(pickle.dumps((big > 9.5) & (tl.col("sym") == "b")))
    assert trades.filter(condition).collect()["qty"] == [5, 3]


@pytest.mark.parametrize(
    "spec",
    [
        tl.tumbling("3s"),
        tl.hopping("4s", every="2s"),
        tl.count(2, every=2),
        tl.session("2s", max_length="4s"),
        tl.calendar("1d", tz="Europe/Paris", offset="6h", closed="right"),
    ],
)
def test_windows_are_pickled(trades: tl.Stream, spec: tl.WindowSpec) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec
    for kept in (trades["px"].window(spec), trades["px"].window("3s", closed="left"), trades["px"]["-2s":"+1s"]):
        assert pickle.loads(pickle.dumps(kept)).sum().collect() == kept.sum().collect()


def test_a_query_function_is_pickled_by_name(tmp_path: Path) -> None:
    module = tmp_path / "queries_of_mine.py"
    module.write_text(
        "import tilt as tl\n\n@tl.query\ndef double(x: tl.Stream) -> tl.Stream:\n    return x['px'] * 2\n"
    )
    code = "import pickle, queries_of_mine as m; assert pickle.loads(pickle.dumps(m.double)) is m.double"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)  # noqa: S603
    with pytest.raises(TypeError, match="must give a Stream"):
        tl.query(lambda: 1)()  # type: ignore[arg-type, return-value]


def test_threads_share_streams(trades: tl.Stream) -> None:
    query = (trades["px"] - trades["px"]["-3s":].mean()).alias("d")
    expected = query.collect()
    with ThreadPoolExecutor(4) as pool:
        assert all(table == expected for table in pool.map(lambda _: query.collect(), range(16)))


def test_sources_are_named_apart_and_shared(trades: tl.Stream) -> None:
    other = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
    one = trades["px"] + other
    two = one - other
    assert two.explain("logical").count("input ~") == 2
    assert two.collect()["px"] == [10.0, 11.0]
    assert (other - trades["px"] + one).collect()["x"] == [2.0, 4.0]
    assert (trades["px"] + 1).same_plan(trades["px"] + 1)


def test_keys_after_windows_are_a_stage(trades: tl.Stream) -> None:
    busy = trades.with_columns(total=trades["qty"].cum_sum()).key_by("sym")
    assert "earlier stage" in busy.explain()
    assert busy["total"].diff().collect().to_dict() == {"time": [5, 6], "sym": ["a", "b"], "total": [7, 5]}
    per_key = trades.key_by("sym")["px"].diff().unkey()
    assert per_key.collect().to_dict() == {"time": [5, 6], "sym": ["a", "b"], "px": [-1.0, 1.0]}
    bars = trades.window(tl.tumbling("2s")).agg(n=tl.len())
    assert bars.collect()["n"] == [2, 2]
    assert bars.key_by("n").cum_count().collect().to_dict() == {"time": [2, 6], "n": [2, 2], "len": [1, 2]}


def test_lookup(trades: tl.Stream) -> None:
    names = tl.table({"sym": ["a", "c"], "name": ["Alpha", "Gamma"], "lot": [100, 1]}, key="sym")
    joined = trades.filter(trades["qty"] > 1).lookup(names, on="sym")
    assert joined.collect()["name"] == [None, "Alpha", None]
    assert joined.key_by("name")["px"].collect()["name"] == [None, "Alpha", None]
    later = trades.with_columns(mean=trades["px"]["-2s":].mean()).lookup(names, on="sym")
    assert later.collect()["lot"] == [100, None, 100, None]
    with pytest.raises(tl.SchemaError, match="more than one row"):
        trades.lookup(tl.table({"k": [1, 1], "v": [2, 3]}, key="k"), on="qty")
    with pytest.raises(tl.SchemaError, match="in the stream and in the table"):
        trades.lookup(tl.table({"k": [1], "px": [2]}, key="k"), on="qty")


def test_rows_bound_to_a_looked_up_source_are_looked_up() -> None:
    ads = tl.table({"ad_id": [7, 8], "campaign": ["x", "y"]}, key="ad_id")
    views = tl.source("views", {"t": "i64", "ad": "i64"}, time="t").lookup(ads, on="ad")
    rows = {"t": [1, 2, 3], "ad": [8, 9, 7]}
    assert views.run(views=rows)["campaign"] == ["y", None, "x"]
    assert views.bind(views=tl.stream(rows, time="t")).collect()["campaign"] == ["y", None, "x"]


def test_deferred_sources() -> None:
    ticks = tl.source("ticks", {"t": "timestamp(us)", "px": "f64"}, time="t")
    query = ticks["px"]["-10s":].max()
    with pytest.raises(tl.QueryError, match="has no rows yet"):
        query.collect()
    rows = {"t": [datetime(2026, 1, 5), datetime(2026, 1, 5, 0, 0, 5)], "px": [2.0, 1.0]}  # noqa: DTZ001
    assert query.run(ticks=rows)["px"] == [2.0, 2.0]
    assert query.bind(ticks=tl.stream(rows, time="t")).collect()["px"] == [2.0, 2.0]
    with pytest.raises(tl.QueryError, match="no source `tick`"):
        query.run(tick=rows)


def test_deferred_expressions(trades: tl.Stream) -> None:
    bound = trades.filter((trades["px"] > 9.5) & (trades["sym"] == "b"))
    assert trades.filter((tl.col("px") > 9.5) & (tl.col("sym") == "b")).same_plan(bound)
    assert trades.select(up=tl.col("px") - tl.col("px").prev()).collect()["up"] == [None, 1.0, -2.0, 3.0]
    kind = tl.when(tl.col("qty") >= 3).then(tl.lit("big")).otherwise("small")
    assert trades.with_columns(kind=kind).collect()["kind"] == ["small", "big", "small", "big"]
    assert trades.with_columns(d=100 - tl.col("px")["-2s":].mean()).collect()["d"] == [90.0, 89.5, 91.0, 89.5]
    windows = trades.window(tl.tumbling("5s"))
    table = windows.agg(
        value=(tl.col("px") * tl.col("qty")).sum(), start=tl.window_start(), end=tl.window_end()
    ).collect()
    assert table["value"] == [83.0, 36.0]
    assert [value.second for value in table["start"]] == [0, 5]
    assert [value.second for value in table["end"]] == [5, 10]


def test_lengths_of_time_in_all_spellings(trades: tl.Stream) -> None:
    px = trades["px"]
    expected = px["-2s":].mean().collect()
    assert px.window(timedelta(seconds=2)).mean().collect() == expected
    assert px.window(np.timedelta64(2, "s")).mean().collect() == expected
    assert px.window(2).mean().collect() == expected
    assert px[timedelta(seconds=-2) :].mean().collect() == expected
    assert px[timedelta(seconds=-1)].collect() == px["-1s"].collect()


def test_literals_of_time(trades: tl.Stream) -> None:
    rows = tl.stream({"t": [datetime(2026, 1, 5), datetime(2026, 1, 6)], "x": [1, 2]}, time="t")  # noqa: DTZ001
    assert rows.filter(rows.time() > datetime(2026, 1, 5)).collect()["x"] == [2]  # noqa: DTZ001
    assert rows.filter(rows.time() > np.datetime64("2026-01-05")).collect()["x"] == [2]
    assert trades.collect().columns == ["t", "px", "qty", "sym"]


def test_times_of_pandas_are_its_index() -> None:
    index = pd.date_range("2026-01-05", periods=3, freq="s")
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=index)
    assert tl.stream(frame)["x"].collect().columns == ["time", "x"]
    assert tl.stream(frame["x"].rename_axis("at"))["x"]["-2s":].sum().collect().to_dict()["x"] == [1.0, 3.0, 5.0]
    with pytest.raises(TypeError, match="name the column of times"):
        tl.stream(frame.reset_index())


def test_intervals_are_named_by_valid() -> None:
    with pytest.raises(TypeError, match=r"time is the name of a column, .* valid=\(start, end\)"):
        tl.stream({"s": [1], "e": [2], "x": [1.0]}, time=("s", "e"))  # type: ignore[arg-type]


def test_importing_is_light() -> None:
    heavy = {"asyncio", "numpy", "pandas", "polars", "pyarrow", "rich", "tilt.live", "tilt.spark"}
    code = f"import sys, tilt; print(sorted({heavy} & set(sys.modules))); tilt.live.Runner, tilt.Session"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    assert shown.stdout.strip() == "[]"


def test_results_in_every_form(trades: tl.Stream, tmp_path: Path) -> None:
    query = (trades["px"] * 2).alias("double")
    assert query.to_polars()["double"].to_list() == [20.0, 22.0, 18.0, 24.0]
    assert query.to_pandas()["double"].tolist() == [20.0, 22.0, 18.0, 24.0]
    assert query.to_arrow().column_names == ["t", "double"]
    assert query.to_numpy()["double"].sum() == 84.0
    assert tl.Table(query) == query.collect()
    for name, write in (("parquet", query.sink_parquet), ("csv", query.sink_csv), ("arrow", query.sink_ipc)):
        write(tmp_path / f"out.{name}")
        assert (tmp_path / f"out.{name}").stat().st_size > 0
    assert [len(batch) for batch in query.collect_batches(3)] == [3, 1]
    assert "<svg" in query._repr_html_()


def test_pictures_are_well_formed(trades: tl.Stream) -> None:
    noise = np.random.default_rng(0).normal(size=5_000)
    many = tl.stream({"t": np.arange(5_000), "a<b": noise}, time="t", unit="ms")["a<b"]
    for picture in (
        tl.plot(trades["px"], trades["px"].hold(), trades["qty"] > 2, backend="svg"),
        tl.plot(trades, backend="svg"),
        tl.plot(many, start=1_000, end=4_000, backend="svg"),
        tl.plot(many.window(tl.tumbling("100ms")).mean(), backend="svg"),
        tl.plot(trades["px"].filter(trades["px"] > 1e9), backend="svg"),
        (trades["px"]["-2s":].mean() - trades["px"]).show_graph(),
    ):
        root = ET.fromstring(str(picture))  # noqa: S314
        assert root.tag.endswith("svg")
        assert picture._repr_svg_() == str(picture)


@pytest.mark.parametrize(
    "values", [[-1.7e308, 1.7e308], [0.0, 5e-324], [1e15, 1e15 + 1], [-1e-320, 1e-320], [0.0, 0.0]]
)
@pytest.mark.parametrize("times", [[0, 1], [1_750_000_000_000, 1_750_000_000_100], [200_000_000, 1 << 61], [-5, 3]])
def test_numbers_of_all_sizes_are_drawn(values: list[float], times: list[int]) -> None:
    picture = str(tl.plot(tl.stream({"t": times, "x": values}, time="t")["x"], backend="svg"))
    assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314
    assert "nan" not in picture and "inf" not in picture


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        (lambda s: s["px"] + "a", tl.SchemaError, "no common type"),
        (lambda s: s["pix"], tl.SchemaError, "did you mean `px`"),
        (lambda s: 1 if s["px"] > 1 else 0, TypeError, r"tl\.when"),
        (lambda s: (s["px"] > 1) and (s["px"] < 2), TypeError, "`&`"),
        (lambda s: s["px"][-1], tl.QueryError, "prev"),
        (lambda s: s["px"]["-10 seconds":].mean(), tl.QueryError, "not a duration"),
        (lambda s: s["px"]["-1mo":].mean(), tl.QueryError, "calendar"),
        (lambda s: s["px"]["10s":].mean(), ValueError, r"x\['-10s':\]"),
        (lambda s: s.groupby("px"), AttributeError, "key_by"),
        (lambda s: s["px"].rolling("10s"), AttributeError, "window"),
        (lambda s: s.collect_batches(0), ValueError, "at least one row"),
        (lambda _: tl.plot("px"), TypeError, "draws streams"),  # type: ignore[arg-type]
        (lambda _: tl.plot(tl.col("px")), TypeError, "draws streams"),  # type: ignore[arg-type]
        (lambda s: tl.plot(tl.when(s["px"] > 1).then("a").otherwise("b")), ValueError, "nothing to draw"),
        (lambda _: tl.stream({"t": [2, 1], "x": [1.0, 2.0]}, time="t").collect(), tl.UnsortedError, "row 1"),
        (lambda _: tl.stream(ROWS, time="ts"), tl.SchemaError, "the columns are"),
        (lambda _: tl.source("x", {"t": "i64", "x": "f64"}, time="t").collect(), tl.QueryError, r"bind\(x=rows\)"),
        (lambda s: s["px"] - s["px"]["-10s":], TypeError, "reduced"),
        (lambda s: s["px"]["-10s":].avg(), AttributeError, "did you mean `mean`"),
        (lambda s: s.px, AttributeError, r"stream\['px'\]"),
        (lambda s: list(s["px"]), TypeError, "collect"),
        (lambda s: s["px"].filter(s["px"]), tl.SchemaError, "bool"),
        (lambda s: s.with_columns(x=tl.max()), TypeError, "agg"),
        (lambda s: s.window("1s").agg(x=tl.col("px")), TypeError, "reduce it"),
        (lambda s: s["px"][s["px"] > 1], TypeError, "filter"),
        (lambda s: s["px"] + np.arange(3), TypeError, r"tl\.stream"),
        (lambda s: s["px"].window("-10s"), ValueError, "positive"),
        (lambda s: s["px"].ewm(alpha=0.5, span=2), TypeError, "alpha and span"),
        (lambda s: s["px"].interpolate(), TypeError, "max_gap"),
        (
            lambda s: s["px"].window(1).map(lambda v: v + tl.stream(ROWS, time="t", unit="s")["px"]).sum(),
            tl.QueryError,
            "alone",
        ),
        (lambda s: tl.when(s["px"] > 1).then(1).collect(), AttributeError, "otherwise"),
        (lambda s: s["px"]["sym"], tl.SchemaError, "single"),
        (lambda _: tl.Stream(), TypeError, r"tl\.stream"),
        (lambda _: tl.Config(thread=1), TypeError, "no setting"),
        (lambda s: s["px"]["10s"], tl.SchemaError, r"x\['-10s'\] is its value 10s before"),
        (lambda s: s["px"].shift(5), TypeError, r"prev\(5\)"),
        (lambda s: s.filter("px > 3"), TypeError, r"tl\.col"),
        (lambda s: np.arange(3) * s["px"], TypeError, r"tl\.stream"),
        (lambda s: np.maximum.reduce(s["px"]), TypeError, r"\['-10s':\]\.max\(\)"),
        (lambda s: np.maximum(s["px"], 1), TypeError, r"max_with\(y\)"),
        (lambda s: np.spacing(s["px"]), TypeError, "spacing.*functions of C"),
        (lambda s: np.mean(s["px"]), TypeError, r"\['-10s':\]\.mean\(\)"),
        (lambda s: np.where(s["px"] > 1, 1, 2), TypeError, r"tl\.when"),
        (lambda s: np.asarray(s["px"]), TypeError, r"to_numpy\(\)"),
        (pd.DataFrame, TypeError, r"to_numpy\(\)"),
        (lambda s: s.__setitem__("a", s["px"]), TypeError, "with_columns"),
        (lambda s: s["px"]["-10s":] + 1, TypeError, "reduce it"),
        (lambda s: s["px"]["-10s":] > 1, TypeError, "reduce it"),
        (lambda s: s.filter(s["px"]["-10s":] == 1), TypeError, "reduce it"),
        (lambda s: s["px"]["-10s":] != 1, TypeError, "reduce it"),
        (lambda s: s["px"]["-10s":] % 2, TypeError, "reduce it"),
        (lambda s: np.add.accumulate(s["px"]), TypeError, r"write x\.cum_sum\(\)"),
        (lambda s: s.__setitem__(s["px"] > 1, 2), TypeError, r"with_columns\(name="),
        (lambda s: s.window("1m").agg(x=()), TypeError, r"x=tl\.col\(name\)\.mean\(\)"),
        (lambda s: s.window("1m").agg(x=("px", "avg")), TypeError, r"x=tl\.col\('px'\)\.mean\(\)"),
        (lambda s: s.window("1m").agg(x="stream"), TypeError, r"x=tl\.col\(name\)\.mean\(\)"),
        (lambda _: tl.hopping("10s", every="-5s"), ValueError, "end a positive time apart"),
        (lambda s: s.window("1m").agg(x="mean"), TypeError, r"x=tl\.mean\(\)"),
        (lambda s: s.window("1m").agg(x=("px", "mean")), TypeError, r"tl\.col\('px'\)\.mean\(\)"),
        (lambda s: s["px"].window(tl.tumbling("-10s")), ValueError, "positive"),
        (lambda _: tl.when("px > 1").then(1).otherwise(2), TypeError, r"tl\.col"),
        (lambda s: math.log(s["px"]), TypeError, "for functions of math"),
        (lambda s: 3 in s["px"], TypeError, "compare"),
        (lambda s: len(s["px"]), TypeError, r"len\(x\.collect\(\)\)"),
        (lambda s: round(s["px"], 2), TypeError, "scale"),
        (lambda s: s["px"] == None, TypeError, "is_null"),  # noqa: E711
        (lambda s: s["px"].rolling_mean(10), AttributeError, r"\['-10s':\]\.mean\(\)"),
        (lambda s: s.window("1m").agg("mean"), TypeError, "name every reduction"),
        (lambda s: s.join_asof(s, on="t", by="sym"), TypeError, "no `by`.*key_by"),
        (lambda s: s.collect(part=("noon", 3)), ValueError, "no date"),
        (lambda s: tl.plot(s["px"], start="09:30"), ValueError, "with its date"),
        (lambda _: tl.stream(ROWS, time="t", unit="s", tz="Europe/Pariss"), tl.SchemaError, "no time zone is called"),
        (lambda _: tl.stream(pl.LazyFrame({"t": [1]}), time="t"), TypeError, r"collect\(\)"),
        (lambda s: s.key_by(["sym", "qty"]), TypeError, "one column"),
        (lambda s: s.lookup({"sym": ["a"], "n": [1]}, on="sym"), TypeError, r"tl\.table"),
        (lambda s: s.join_asof(s.collect()), TypeError, "not with Table"),
        (lambda s: s.join_asof(tl.col("px")), TypeError, r"write stream\['px'\]"),
        (lambda s: s["px"].at(tl.col("qty")), TypeError, r"write stream\['qty'\]"),
        (lambda s: s["px"].at("qty"), TypeError, "not str"),
        (lambda s: s["px"].during(tl.col("qty") + 1), TypeError, r"write stream\['name'\]"),
        (lambda _: tl.recur(lambda y: y[-1] + tl.col("px")), TypeError, r"recur\(\) gives a stream, not Expr"),
        (lambda s: s["px"].explain("llvm", format="dot"), ValueError, r"explain\('llvm'\)"),
        (lambda s: s["px"].explain(format="svg"), ValueError, "there are text, mermaid, dot and json"),
        (lambda s: s["px"].explain("asm", analyze=True), ValueError, "analyze=True"),
        (lambda s: s["px"].prev(-1), ValueError, "to come"),
        (lambda s: s["px"].fill_null(), TypeError, "a value or a strategy, not none"),
        (lambda s: s["px"].fill_null(0.0, strategy="forward"), TypeError, "not both"),
        (lambda s: s.with_columns(mid="px"), TypeError, r"mid=tl\.col\('px'\)"),
        (lambda s: s.select("prx"), tl.SchemaError, "did you mean `px`"),
        (lambda s: s.drop("prx"), tl.SchemaError, "did you mean `px`"),
        (lambda s: s.rename({"prx": "y"}), tl.SchemaError, "did you mean `px`"),
        (lambda s: s.drop("px", "qty", "sym"), tl.SchemaError, "one column at least"),
        (lambda s: s["px"].collect(threads=-1), ValueError, "one thread at least"),
        (lambda _: tl.col("px").rolling("10s"), AttributeError, "did you mean `window`"),
        (lambda s: s["px"].show_graph("asm"), ValueError, "show_graph"),
        (lambda _: tl.stream("ticks.parquet", time="t"), TypeError, r"tl\.scan_parquet"),
        (lambda _: tl.stream({"t": [1, 2], "x": 5}, time="t"), tl.SchemaError, "one value"),
        (lambda _: tl.scan_parquet(__file__, tim="t"), TypeError, "did you mean `time`"),
        (lambda _: tl.scan_parquet(Path(__file__).parent, time="t"), IsADirectoryError, r"/\*\.parquet"),
        (lambda _: tl.scan_csv(Path(__file__).parent, time="t"), IsADirectoryError, r"/\*\.csv"),
        (lambda _: tl.scan_ipc(Path(__file__).parent, time="t"), IsADirectoryError, r"/\*\.arrow"),
        (lambda _: tl.stream(pl.DataFrame({"t": [1], "x": [None]}), time="t"), tl.SchemaError, "column `x`.*Null"),
        (lambda _: tl.stream(pd.DataFrame({"t": [1, 2], "x": [1, "a"]}), time="t"), tl.SchemaError, "column x"),
        (
            lambda _: tl.stream({"t": [datetime(2026, 1, 1), datetime(2026, 1, 2, tzinfo=timezone.utc)]}, time="t"),  # noqa: DTZ001
            tl.SchemaError,
            "column `t`, row 1: times with and without a time zone",
        ),
    ],
)
def test_mistakes_are_explained(
    trades: tl.Stream,
    mistake: "object",
    kind: type[Exception],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        mistake(trades)  # type: ignore[operator]


def test_notebooks_show_streams_of_any_kind(trades: tl.Stream) -> None:
    assert "<svg" in trades["px"]._repr_html_()
    assert "<svg" in trades._repr_html_()
    assert "<svg" not in trades["sym"]._repr_html_()
    assert "sort=True" in tl.stream({"t": [2, 1], "x": [1.0, 2.0]}, time="t")._repr_html_()
    assert "<svg" not in tl.source("x", {"t": "i64", "x": "f64"}, time="t")._repr_html_()


def test_points_are_points_steps_are_steps_whatever_the_date_is() -> None:
    def kinds(*streams: tl.Stream) -> list[str]:
        return [layer["mark"]["type"] for layer in tl.plot(*streams, backend="altair").to_dict()["layer"]]

    for base in (0, 1_767_605_400_123_457):
        times = base + np.cumsum(np.random.default_rng(1).integers(2, 2_000_000, 200))
        x = tl.stream({"ts": times.astype("M8[us]"), "x": np.arange(200.0)}, time="ts")["x"]
        few = x.filter(x < 50)
        assert kinds(x, few, x.hold(), x.window(tl.tumbling("10s")).mean()) == ["line", "point", "rule", "rule"]
    assert kinds(tl.stream({"t": [1, 2, 3], "x": [1, 2, 3]}, time="t")["x"]) == ["point"]
    y = tl.stream({"t": [-3, 0, 4], "x": [1.0, 2.0, 3.0]}, time="t")["x"]
    assert str(tl.plot(y, end=0, backend="svg")) == str(tl.plot(y.filter(y < 3), backend="svg"))


def test_what_is_not_finite_is_not_drawn() -> None:
    values = [1.0, math.inf, 2.0, math.nan, -math.inf]
    x = tl.stream({"t": [1, 2, 3, 4, 5], "x": values}, time="t")["x"]
    finite = tl.stream({"t": [1, 3], "x": [1.0, 2.0]}, time="t")["x"]
    assert str(tl.plot(x, backend="svg")) == str(tl.plot(finite, backend="svg"))


def test_edges_of_windows_of_plain_ticks() -> None:
    x = tl.stream({"t": [1, 2, 7], "x": [1.0, 2.0, 3.0]}, time="t")["x"]
    edges = x.window(tl.tumbling(4)).agg(start=tl.window_start(), end=tl.window_end(), n=tl.len())
    assert edges.collect().to_dict() == {"t": [4, 8], "start": [0, 4], "end": [4, 8], "n": [2, 1]}
    assert x.window(3).start().collect()["x"] == [-2, -1, 4]


def test_a_key_that_both_sides_of_a_join_have_is_there_once(trades: tl.Stream) -> None:
    quotes = tl.stream({"t": [1, 2], "sym": ["a", "b"], "bid": [9.0, 8.0]}, time="t", unit="s")
    left, right = trades.key_by("sym"), quotes.key_by("sym")
    assert left.join_asof(right).collect().columns == ["t", "px", "qty", "sym", "bid"]
    assert left.join_asof(right).collect()["bid"] == [9.0, 8.0, 9.0, 8.0]
    assert left.join(right).collect().columns == ["t", "px", "qty", "sym", "bid"]
    assert "sym_right" in trades.join_asof(quotes).collect().columns
    assert "sym_right" in left.join_asof(right.select("sym")).collect().columns


def test_functions_and_numbers_of_numpy(trades: tl.Stream) -> None:
    px: Any = trades["px"]
    values = np.array(px.collect()["px"])
    for function in (np.log, np.absolute, np.rint, np.negative, np.arctan, np.isnan):
        assert function(px).collect()["px"] == pytest.approx(function(values).tolist())
    assert (np.float32(2) * px).collect()["px"] == (2 * values).tolist()
    assert (np.int64(11) < px).collect()["px"] == (values > 11).tolist()
    assert np.arctan2(px, 2.0).collect()["px"] == pytest.approx(np.arctan2(values, 2.0).tolist())
    assert round(px).collect()["px"] == values.round().tolist()


def test_instants_are_texts_too(trades: tl.Stream, tmp_path: Path) -> None:
    part = ("1970-01-01 00:00:01", "1970-01-01T01:00:02+01:00")
    assert trades.collect(part=part) == trades.collect(part=(1, 2))
    times = [datetime(2026, 1, 5, 9, minute) for minute in range(60)]  # noqa: DTZ001
    x = tl.stream({"ts": times, "x": list(range(60))}, time="ts")["x"]
    half = tl.plot(x, start="09:30", end="2026-01-05 09:45", backend="svg")
    assert str(half) == str(tl.plot(x, start=times[30], end=times[45], backend="svg"))
    x.sink_parquet(tmp_path / "x.parquet")
    stored = tl.scan_parquet(tmp_path / "x.parquet", time="ts")["x"]
    assert str(tl.plot(stored, start="09:30", end="09:45", backend="svg")) == str(half)


def test_rows_in_more_forms() -> None:
    assert tl.Table([{"t": 1, "x": 0.5}, {"t": 2}]).to_dict() == {"t": [1, 2], "x": [0.5, None]}
    series = pd.Series([1.0, 2.0], index=pd.DatetimeIndex(["2026-01-01", "2026-01-02"], name="ts"), name="px")
    for stream in (tl.stream(series), tl.stream(series, time="ts")):
        assert stream["px"].collect()["px"] == [1.0, 2.0]


def test_windows_map_events_by_themselves(trades: tl.Stream) -> None:
    other = tl.stream(ROWS, time="t", unit="s")["px"]
    with pytest.raises(tl.QueryError, match="by itself alone"):
        trades["px"].window(1).map(lambda v: v + other).sum()


def test_reducers_of_ones_own_see_what_events_are_mapped_to(trades: tl.Stream) -> None:
    total = tl.reducer(init=lambda: {"n": 0}, acc=lambda s, v: {"n": s.n + v}, result=lambda s: s.n)
    value = tl.reducer(init=lambda: {"v": 0.0}, acc=lambda s, e: {"v": s.v + e.a * e.b}, result=lambda s: s.v)
    expected = trades["qty"]["-5s":].reduce(total).collect()["qty"]
    assert expected == [1, 6, 8, 10]
    assert trades["-5s":]["qty"].reduce(total).collect()["custom"] == expected
    assert trades.window("5s").agg(n=tl.col("qty").reduce(total)).collect()["n"] == expected
    records = trades["-5s":].map(lambda e: tl.struct(a=e["px"], b=e["qty"]))
    assert records.reduce(value).collect()["custom"] == [10.0, 65.0, 83.0, 109.0]


def test_reducers_refuse_what_cannot_be_traced(trades: tl.Stream) -> None:
    def of(**functions: object) -> tl.Stream:
        whole = {"init": lambda: {"s": 0.0}, "acc": lambda a, v: {"s": a.s + v}, "result": lambda a: a.s} | functions
        return trades["px"]["-2s":].reduce(tl.reducer(**whole))  # type: ignore[call-overload]

    assert of().collect()["px"] == [10.0, 21.0, 9.0, 21.0]
    bounded = of(acc=lambda a, v: {"s": tl.when(v > 10.5).then(a.s + v).otherwise(a.s)})
    assert bounded.collect()["px"] == [0.0, 11.0, 0.0, 12.0]
    with pytest.raises(TypeError, match=r"tl\.when"):
        of(acc=lambda a, v: {"s": a.s + v if v > 1 else a.s})
    with pytest.raises(TypeError, match="must give the new state"):
        of(acc=lambda a, v: a.s + v)
    with pytest.raises(TypeError, match="dictionary"):
        of(init=lambda: 0.0)
    with pytest.raises(TypeError, match="needs init and acc and result"):
        tl.reducer()  # type: ignore[call-overload]


times = st.lists(st.integers(1, 40), min_size=1, max_size=30, unique=True).map(sorted)
values = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, str]:
    """A query and the same in pandas, as texts."""
    kind = (
        draw(st.sampled_from(["leaf", "leaf", "binary", "binary", "window", "prev", "clip", "abs"]))
        if depth
        else "leaf"
    )
    if kind == "leaf":
        return "x", "x"
    ours, theirs = draw(expressions(depth=depth - 1))
    if kind == "binary":
        op = draw(st.sampled_from("+-*"))
        right = draw(st.one_of(expressions(depth=depth - 1), st.integers(-3, 3).map(lambda n: (str(n), str(n)))))
        return f"({ours} {op} {right[0]})", f"({theirs} {op} {right[1]})"
    if kind == "window":
        length, name = draw(st.integers(1, 20)), draw(st.sampled_from(["mean", "sum", "min", "max", "last"]))
        return f"({ours}).at(x).window({length}).{name}().at(x)", f"rolling({theirs}, {length}, {name!r})"
    if kind == "prev":
        return f"({ours}).at(x).prev()", f"prev({theirs})"
    call = "clip(-5, 5)" if kind == "clip" else "abs()"
    return f"({ours}).{call}", f"({theirs}).{call}"


def _rolling(series: "pd.Series[float]", length: int, name: str) -> "pd.Series[float]":
    known, reach = series.dropna(), pd.Timedelta(seconds=length)
    windows = [known[(known.index > t - reach) & (known.index <= t)].to_numpy() for t in series.index]
    fold = (lambda v: v[-1]) if name == "last" else getattr(np, name)
    return pd.Series([float(fold(v)) if len(v) else np.nan for v in windows], index=series.index)


def _prev(series: "pd.Series[float]") -> "pd.Series[float]":
    return series.dropna().shift().reindex(series.index)


@settings(max_examples=60, deadline=None)
@given(times, st.data())
def test_random_expressions_agree_with_pandas(at: list[int], data: st.DataObject) -> None:
    rows = {"t": at, "x": data.draw(st.lists(values, min_size=len(at), max_size=len(at)))}
    ours, theirs = data.draw(expressions())
    x = tl.stream(rows, time="t", unit="s")["x"]
    series = pd.Series(rows["x"], index=pd.to_datetime(at, unit="s"), dtype=float)
    expected = eval(theirs, {"x": series, "rolling": _rolling, "prev": _prev}).dropna()  # noqa: S307
    got = eval(ours, {"x": x}).collect().to_numpy()  # noqa: S307
    note = f"{ours}  {rows}"
    assert got["t"].tolist() == [stamp.timestamp() for stamp in expected.index], note
    scale = 1e-9 * max(1.0, float(np.abs(expected).max() if len(expected) else 0), 1e12)
    np.testing.assert_allclose(got["x"], expected, rtol=1e-6, atol=scale, err_msg=note)


def test_the_typed_example_runs() -> None:
    path = Path(__file__).with_name("typed_example.py")
    spec = importlib.util.spec_from_file_location("typed_example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["typed_example"] = module
    spec.loader.exec_module(module)
    table = module.main()
    assert table["side"] == [None, "rich", "cheap", None]
    assert table["high"] == [11.0, 11.0, 11.0, 10.5]


def test_functions_of_ones_own(trades: tl.Stream) -> None:
    libc = ctypes.CDLL(None)
    magnitude = tl.udf(libc.labs, args=["i64"], returns="i64", name="magnitude")
    assert magnitude(trades["qty"] - 3).collect()["qty"] == [2, 2, 1, 0]

    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64, ctypes.c_double)
    mixed = kind(lambda a, n, b: a * n + b)
    both = tl.udf(mixed, args=[float, int, float], returns=float, name="mixed")
    assert trades.with_columns(y=both(tl.col("px"), tl.col("qty"), 0.5)).collect()["y"] == [10.5, 55.5, 18.5, 36.5]
    joined = tl.udf(lambda a, b: f"{a}{b}", args=[str, int], returns=str)
    assert joined(trades["sym"], trades["qty"]).collect()["sym"] == ["a1", "b5", "a2", "b3"]
    with pytest.raises(TypeError, match="not str"):
        tl.udf("labs", args=[int], returns=int)
    with pytest.raises(ValueError, match="f64, i64 and bool"):
        tl.udf(libc.labs, args=[str], returns=int)


def test_only_columns_that_are_read_are_read(tmp_path: Path) -> None:
    tl.Table({"t": [1, 2, 3], "x": [1.0, None, 3.0], "y": [None, 2, 3], "k": ["a", "b", "a"]}).write_parquet(
        tmp_path / "rows.parquet"
    )
    rows = tl.scan_parquet(tmp_path / "rows.parquet", time="t")
    assert "~rows: {x: f64} point" in rows["x"].diff().explain("optimized")
    assert "~rows: {x: f64, k: utf8} point" in rows.key_by("k")["x"].diff().explain("optimized")
    bars = rows.window(tl.tumbling(5))
    assert bars.agg(n=tl.len(), mean=tl.col("x").mean()).collect().to_dict() == {"t": [5], "n": [3], "mean": [2.0]}
    assert bars.len().collect().to_dict() == {"t": [5], "len": [3]}
    assert "~rows: {x: f64} point" in bars.len().explain("optimized")
