"""Queries on rows: results, errors, threads, interrupts."""

import contextlib
import datetime as dt
import functools
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import rich.console

import tilt as tl
from tilt.progress import Bar
from tilt.run import run
from tilt.sources import deferred, files, rows

SUMS = "query sums unit us { input ~x: f64 point overlap bag  ~y[t] = reduce sum ~x[t-10s : t]  output ~y }"
DOUBLE = "query double unit tick { input ~x: i64 point  ~y[t] = ~x[t] * 2  output ~y }"
PARIS = ZoneInfo("Europe/Paris")


def seconds(*values: float) -> list[dt.datetime]:
    start = dt.datetime(2026, 1, 1, tzinfo=PARIS)
    return [start + dt.timedelta(seconds=value) for value in values]


@pytest.mark.parametrize("backend", ["native", "loops", "interpreter"])
def test_windows_agree_with_polars_and_time_zones_survive(backend: str) -> None:
    generated = np.random.default_rng(1)
    at = np.sort(generated.integers(0, 1_000, 500))
    frame = pl.DataFrame({"t": seconds(*at.tolist()), "x": generated.integers(0, 100, 500).astype(float)})
    result = run(SUMS, {"x": rows(frame, time="t")}, backend=backend)
    expected = frame.rolling("t", period="10s").agg(pl.col("x").sum())["x"]
    assert result["y"] == expected.to_list()
    assert result.schema["t"] == 'Timestamp(µs, "Europe/Paris")'
    assert result.to_polars()["t"].to_list() == frame["t"].to_list()


def test_time_zone_of_integers_and_wall_times() -> None:
    ticks = rows({"t": [0, 3_600_000], "x": [1.0, 2.0]}, time="t", unit="ms", tz="Europe/Paris")
    query = "query q unit ms { input ~x: f64 point  ~y[t] = ~x[t]  output ~y }"
    assert run(query, {"x": ticks})["t"][0].isoformat() == "1970-01-01T01:00:00+01:00"
    walls = [dt.datetime(2026, 3, 29, 1, 30), dt.datetime(2026, 3, 29, 3, 30)]  # noqa: DTZ001
    local = rows({"t": walls, "x": [1.0, 2.0]}, time="t", tz="Europe/Paris")
    result = run(SUMS, {"x": local})
    # Clocks go forward between them: one hour apart.
    assert result["t"][1] - result["t"][0] == dt.timedelta(hours=2)
    assert result["t"][1].astimezone(dt.timezone.utc).hour == 1
    never = rows({"t": [walls[0], walls[0].replace(hour=2)], "x": [1.0, 2.0]}, time="t", tz="Europe/Paris")
    with pytest.raises(tl.SchemaError, match="row 1: this wall time does not exist") as error:
        run(SUMS, {"x": never})
    assert (error.value.column, error.value.row) == ("t", 1)


def test_time_zones_can_be_changed() -> None:
    source = rows({"t": seconds(1), "x": [1.0]}, time="t", tz="UTC")
    assert run(SUMS, {"x": source}).schema["t"] == 'Timestamp(µs, "UTC")'


def test_chunked_rows_are_one_stream() -> None:
    chunked = pa.table({"t": pa.chunked_array([[1, 2], [3]]), "x": pa.chunked_array([[1], [2, 3]])})
    assert run(DOUBLE, {"x": rows(chunked, time="t")})["y"] == [2, 4, 6]


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(count: int) -> None:
    source = rows({"t": np.arange(count), "x": np.arange(count)}, time="t")
    result = run(DOUBLE, {"x": source})
    assert result["y"] == [2 * i for i in range(count)]
    assert result.columns == ["t", "y"]


def test_empty_arrow_tables_still_have_their_types_checked() -> None:
    empty = pa.table({"t": pa.array([], pa.int64()), "x": pa.array([], pa.string())})
    with pytest.raises(tl.SchemaError, match="column `x` has type Utf8"):
        run(DOUBLE, {"x": rows(empty, time="t")})


def test_nulls_are_no_events() -> None:
    source = rows({"t": [1, 2, 3], "x": [1, None, 3]}, time="t")
    assert run(DOUBLE, {"x": source}).to_pylist() == [{"t": 1, "y": 2}, {"t": 3, "y": 6}]
    filtered = "query q unit tick { input ~x: i64 point  ~y[t] = if ~x[t] > 1 then ~x[t] else null  output ~y }"
    assert run(filtered, {"x": source})["y"] == [3]


def test_strings_may_be_dictionaries() -> None:
    text = """query q unit tick {
        input ~x: {s: utf8, n: i64} point  ~y[t] = if ~x[t].s == "a" then ~x[t].n else null  output ~y
    }"""
    arrow = pa.table({"t": [1, 2, 3], "s": pa.array(["a", "b", "a"]).dictionary_encode(), "n": [1, 2, 3]})
    assert run(text, {"x": rows(arrow, time="t")})["y"] == [1, 3]


def test_keyed_rows() -> None:
    text = """query q unit tick {
        input ~x: {k: utf8, n: i64} point key k  ~y[t] = reduce sum ~x[-inf : t] map (~x[t].n)  output ~y
    }"""
    source = rows({"t": [1, 2, 3, 4], "k": ["a", "b", "a", "b"], "n": [1, 10, 2, 20]}, time="t", key="k")
    assert run(text, {"x": source}).to_pylist() == [
        {"t": 1, "k": "a", "y": 1},
        {"t": 2, "k": "b", "y": 10},
        {"t": 3, "k": "a", "y": 3},
        {"t": 4, "k": "b", "y": 30},
    ]


def test_unsorted_rows_are_refused_or_sorted() -> None:
    shuffled = {"t": [3, 1, 2], "x": [30, 10, 20]}
    with pytest.raises(tl.UnsortedError, match=r"row 1 \(1\) comes after row 0 \(3\)") as error:
        run(DOUBLE, {"x": rows(shuffled, time="t")})
    assert (error.value.column, error.value.row) == ("t", 1)
    assert error.value.hint == "sort the data, or have it sorted: sort=True"
    times = [dt.datetime(2026, 3, 29, 12), dt.datetime(2026, 3, 29, 11, 30)]  # noqa: DTZ001
    with pytest.raises(tl.UnsortedError, match=r"row 1 \(2026-03-29T11:30:00\) comes after row 0"):
        tl.stream({"t": times, "x": [1, 2]}, time="t").collect()
    for given, hint in ((["2026-03-29", "2026-03-30"], "to_datetime"), ([1.5, 2.5], "int64")):
        with pytest.raises(tl.SchemaError, match=hint):
            tl.stream({"t": given, "x": [1, 2]}, time="t")
    assert run(DOUBLE, {"x": rows(shuffled, time="t", sort=True)})["y"] == [20, 40, 60]


def test_intervals() -> None:
    text = "query q unit tick { input ~x: i64 interval  ~y[t] = ~x[t] + 1  output ~y }"
    source = rows({"from": [0, 5], "to": [3, 9], "x": [1, 2]}, valid=("from", "to"))
    assert run(text, {"x": source}).to_dict() == {"from": [0, 5], "to": [3, 9], "y": [2, 3]}
    overlapping = rows({"from": [0, 2], "to": [3, 9], "x": [1, 2]}, valid=("from", "to"))
    with pytest.raises(tl.OverlapError, match="row 1"):
        run(text, {"x": overlapping})
    empty = rows({"from": [3], "to": [3], "x": [1]}, valid=("from", "to"))
    with pytest.raises(tl.SchemaError, match="is not after its start"):
        run(text, {"x": empty})


@pytest.mark.parametrize(
    ("columns", "events", "message"),
    [
        ({"t": [1, 2], "y": [1, 2], "z": [1, 2]}, {"time": "t"}, "could be in any of the columns `y` and `z`"),
        ({"t": [1], "x": [1.5]}, {"time": "t"}, "column `x` has type Float64, but i64 is declared"),
        ({"t": [1], "x": [1]}, {"time": "tt"}, "no column `tt`"),
        ({"t": ["a"], "x": [1]}, {"time": "t"}, "time column `t` has type Utf8"),
        ({"t": [None, 1], "x": [1, 2]}, {"time": "t"}, "null in row 0"),
        ({"t": [2**63 - 1], "x": [1]}, {"time": "t"}, "beyond"),
        ({"t": [1, 1], "x": [1, 2]}, {"time": "t"}, "overlaps"),
        ({"t": seconds(1), "x": [1]}, {"time": "t"}, "does not convert to the query's unit tick"),
        ({"a": [1], "b": [2], "x": [1]}, {"valid": ("a", "b")}, "has one stamp a row"),
    ],
)
def test_rows_that_are_not_as_declared(columns: dict[str, object], events: dict[str, object], message: str) -> None:
    with pytest.raises(tl.SchemaError, match=message):
        run(DOUBLE, {"x": rows(columns, **events)})


def test_missing_input_and_bad_arguments() -> None:
    query = tl.Query(DOUBLE)
    source = rows({"t": [1], "x": [1]}, time="t")
    with pytest.raises(tl.SchemaError, match="input ~x is missing"):
        query.run({})
    with pytest.raises(TypeError, match="does not say which column has the times"):
        query.run({"x": {"t": [1], "x": [1]}})
    with pytest.raises(ValueError, match='no backend is called "gpu"'):
        query.run({"x": source}, backend="gpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='no layout is called "wide"'):
        query.run({"x": source}, layout="wide")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='no stage is called "x"'):
        query.explain("x")  # type: ignore[arg-type]
    with pytest.raises(tl.QueryError, match="error at"):
        tl.Query("query")
    with pytest.raises(tl.SchemaError, match="not inside the run's span"):
        query.run({"x": source}, span=(5, 9))


def test_parts_and_spans_are_ticks_or_datetimes() -> None:
    source = rows({"t": seconds(1, 2, 3), "x": [1.0, 2.0, 4.0]}, time="t")
    one, two, three = seconds(1, 2, 3)
    assert run(SUMS, {"x": source}, part=(one, two))["y"] == [3.0]
    assert run(SUMS, {"x": source}, part=(two, three), span=(seconds(0)[0], three))["y"] == [7.0]
    with pytest.raises(TypeError, match="plain integers"):
        run(DOUBLE, {"x": rows({"t": [1], "x": [1]}, time="t")}, part=(one, two))


def test_functions_of_python_are_called_and_their_exceptions_raised() -> None:
    text = """query q unit tick {
        extern fn f(f64, utf8) -> f64
        input ~x: {a: f64, s: utf8} point  ~y[t] = @f(~x[t].a, ~x[t].s)  output ~y
    }"""
    source = rows({"t": [1, 2], "a": [1.0, 2.0], "s": ["u", "vv"]}, time="t")
    assert run(text, {"x": source}, functions={"f": lambda a, s: a + len(s)})["y"] == [2.0, 4.0]
    assert run(text, {"x": source}, functions={"f": lambda a, _: None if a == 1 else a})["y"] == [2.0]
    with pytest.raises(ZeroDivisionError):
        run(text, {"x": source}, functions={"f": lambda a, _: a / 0})
    with pytest.raises(TypeError):
        run(text, {"x": source}, functions={"f": lambda _a, _s: "text"})
    with pytest.raises(tl.QueryError, match="@f, which is not registered"):
        run(text, {"x": source})


def test_stages_of_explain() -> None:
    query = tl.Query(SUMS)
    assert query.explain("logical") == str(query.program)
    assert "~y[t]" in query.explain("optimized")
    assert "loop" in query.explain()
    assert "define" in query.explain("llvm")
    assert ".text" in query.explain("asm")
    interpreted = tl.Query("query q unit tick { input ~x: i64 point  output ~x }")
    assert interpreted.explain("llvm").startswith("; interpreted: ")
    assert repr(query) == "<tilt.Query sums(~x: f64) -> ~y: f64>"


def test_queries_are_pickled_as_text() -> None:
    query = pickle.loads(pickle.dumps(tl.Query(DOUBLE)))
    assert query.run({"x": rows({"t": [1], "x": [21]}, time="t")})["y"] == [42]


def test_one_query_in_eight_threads() -> None:
    query = tl.Query(SUMS)
    at = (np.arange(20_000) * 1_000_000).astype("M8[us]")

    def total(factor: int) -> float:
        values = np.full(20_000, float(factor))
        return float(query.run({"x": rows({"t": at, "x": values}, time="t")}, threads=2).to_numpy()["y"].sum())

    expected = total(1)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(total, range(1, 33))) == [factor * expected for factor in range(1, 33)]


def in_child(connection: "multiprocessing.connection.Connection") -> None:
    connection.send(doubled_sum())


def doubled_sum() -> int:
    source = rows({"t": np.arange(100_000), "x": np.arange(100_000)}, time="t")
    return int(run(DOUBLE, {"x": source}, threads=2).to_numpy()["y"].sum())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_of_a_fork_run_queries() -> None:
    expected = doubled_sum()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=in_child, args=(there,))
    child.start()
    try:
        assert here.poll(60), "the child hangs"
        assert here.recv() == expected
    finally:
        child.kill()
        child.join()


SLOW = """
import signal, sys, threading, time
import numpy as np
from tilt.run import run
from tilt.sources import rows
source = rows({"t": np.arange(3_000_000), "x": np.ones(3_000_000)}, time="t")
text = "query q unit tick { input ~x: f64 point  ~y[t] = reduce median ~x[t-100000 : t]  output ~y }"
def interrupt():
    global at
    at = time.monotonic()
    signal.raise_signal(signal.SIGINT)
threading.Timer(1.0, interrupt).start()
try:
    run(text, {"x": source}, backend="interpreter")
except KeyboardInterrupt:
    took = time.monotonic() - at
    print(f"interrupted {took:.2f}", flush=True)
    import os
    os._exit(0 if took < 5 else 3)
print("finished")
"""


LONG = """
import os, signal, threading
from tilt.run import Query
sums = "  ".join(f"~y{k}[t] = ~y{k - 1}[t] + reduce mean ~x[t-{k} : t]" for k in range(1, 4000))
threading.Timer(1.0, signal.raise_signal, [signal.SIGINT]).start()
try:
    Query(f"query q unit tick {{ input ~x: f64 point  ~y0[t] = ~x[t]  {sums}  output ~y3999 }}")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
print("finished")
"""


@pytest.mark.parametrize("script", [SLOW, LONG], ids=["run", "program"])
def test_ctrl_c_ends_what_takes_long(script: str) -> None:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.startswith("interrupted")


def test_progress_is_called_and_may_end_the_run() -> None:
    source = rows({"t": np.arange(400_000), "x": np.arange(400_000)}, time="t")
    slow = "query q unit tick { input ~x: i64 point  ~y[t] = reduce median ~x[t-1000 : t]  output ~y }"

    class EnoughError(Exception):
        pass

    def enough(share: float | None) -> None:
        assert share is None or 0 <= share <= 1
        raise EnoughError

    start = time.monotonic()
    with pytest.raises(EnoughError):
        run(slow, {"x": source}, backend="interpreter", progress=enough)
    assert time.monotonic() - start < 5


def test_progress_ends_with_all_of_it() -> None:
    x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 4.0]}, time="t")["x"]
    shares: list[float] = []
    assert len(x.window(2).mean().collect(progress=shares.append)) == 3
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_bar_shows_the_time_that_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    console = functools.partial(rich.console.Console, file=shown, force_terminal=True, width=120)
    monkeypatch.setattr(rich.console, "Console", lambda **_: console())
    days = rows({"t": [dt.datetime(2026, 1, day) for day in (1, 2, 5)], "x": [1, 2, 3]}, time="t")  # noqa: DTZ001
    with contextlib.closing(Bar(days.extent, seconds=0)) as bar:
        bar(0.5)
        assert bar.covered == "2026-01-03 00:00:00 of 2026-01-05 00:00:00"
        bar.passed(days.table[:2])
        bar(None)
        assert bar.covered == "until 2026-01-02 00:00:00"
    assert "tilt" in shown.getvalue()


def test_nothing_is_covered_by_rows_out_of_order_or_none() -> None:
    keyed = {"t": [5, 6, 1, 2], "k": [1, 1, 2, 2], "x": [1, 2, 3, 4]}
    assert rows(keyed, time="t", key="k").extent() is None
    assert rows({"t": [], "x": []}, time="t").extent() is None
    assert rows({"a": [1, 2], "b": [4, 9], "x": [1, 2]}, valid=("a", "b")).extent() == (1, 9)


def test_no_bar_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    run(DOUBLE, {"x": rows({"t": [1], "x": [1]}, time="t")})
    assert capfd.readouterr() == ("", "")
    run(DOUBLE, {"x": rows({"t": [1], "x": [1]}, time="t")}, progress=True)


def test_sources_describe_themselves(tmp_path: Path) -> None:
    table = tl.Table({"ts": seconds(1, 2, 2), "price": [1.0, 2.0, 3.0], "sym": ["a", "b", "a"]})
    twice = rows(table, time="ts")
    assert "overlap bag" in str(twice.declare("q"))
    assert not twice.is_increasing
    once = rows(table[:2], time="ts")
    assert once.is_increasing
    assert "overlap" not in str(once.declare("q"))
    assert "period 1s" in str(rows(table, time="ts", period="1s").declare("q"))
    assert "key sym" in str(rows(table, time="ts", key="sym").declare("q"))
    assert "until_next" in str(rows(table, time="ts", valid="until_next").declare("q"))
    assert "fixed 5s" in str(rows(table, time="ts", valid=dt.timedelta(seconds=5)).declare("q"))
    assert once.declare("price", "price").output == ("price", "f64")
    path = tmp_path / "rows.parquet"
    table.write_parquet(path)
    for source in (files(path, time="ts"), deferred(table, time="ts"), once):
        again = pickle.loads(pickle.dumps(source))
        assert again == source
        assert again.schema == table.schema
    assert deferred(table, time="ts").bind(table).table == table
    with pytest.raises(TypeError, match="has no rows yet"):
        deferred(table, time="ts").input()
    with pytest.raises(TypeError, match="name the column of times"):
        rows(table)
    with pytest.raises(ValueError, match="closed is"):
        rows(table, time="ts", closed="both")
    with pytest.raises(tl.SchemaError, match="no type is called `float`"):
        deferred({"t": "float"}, time="t")


def test_files_are_pruned_and_read_in_order(tmp_path: Path) -> None:
    for name, first in (("a", 50), ("b", 1)):
        at = np.arange(first, first + 49)
        tl.Table({"t": at, "x": at, "other": at * 1.0}).write_parquet(tmp_path / f"{name}.parquet", row_group_rows=10)
    source = files(f"{tmp_path}/*.parquet", time="t", unit="ns", start=20, end=60)
    assert source.read()["t"] == list(range(21, 61))
    result = run("query q unit ns { input ~x: i64 point  ~y[t] = ~x[t] * 2  output ~y }", {"x": source})
    assert result["y"] == [2 * i for i in range(21, 61)]
    some = files(f"{tmp_path}/*.parquet", time="t", columns=["x"])
    assert some.declare("r").inputs == {"r": "{x: i64}"}
    record = "query q unit ns { input ~r: {x: i64} point  ~y[t] = ~r[t].x  output ~y }"
    assert len(run(record, {"r": files(f"{tmp_path}/*.parquet", time="t")})) == 98


def test_files_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files(tmp_path / "none.parquet", time="t").peek()
    with pytest.raises(FileNotFoundError, match="no file matches"):
        files(tmp_path / "*.parquet", time="t").peek()
    with pytest.raises(tl.FileError, match="its ending does not say"):
        files(tmp_path / "x.xlsx", time="t").peek()
    with pytest.raises(ValueError, match='no format is called "xml"'):
        files(tmp_path / "x.parquet", format="xml", time="t").peek()
    (tmp_path / "bad.parquet").write_text("no table")
    with pytest.raises(tl.FileError, match=r"bad\.parquet: not a Parquet file"):
        files(tmp_path / "bad.parquet", time="t").peek()
    tl.Table({"t": [1], "x": [1]}).write_parquet(tmp_path / "good.parquet")
    with pytest.raises(tl.SchemaError, match="no column `y`") as error:
        files(tmp_path / "good.parquet", time="t", columns=["y"]).peek()
    assert error.value.column == "y"


def test_exceptions_can_be_pickled() -> None:
    error = tl.UnsortedError("rows are not sorted; sort them", column="t", row=3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.column, again.row, again.hint, str(again)) == ("t", 3, "sort them", str(error))
    assert isinstance(again, tl.SchemaError)
