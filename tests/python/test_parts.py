"""Runs on rows as they are read: the same results, in little memory, and nothing left behind when they fail."""
# ruff: noqa: SLF001

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilt as tl
from tilt import _native
from tilt.errors import WholeError, WholeRunWarning
from tilt.run import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 5000


def ticks(rows: int = ROWS) -> tl.Table:
    rng = np.random.default_rng(7)
    times = np.cumsum(rng.integers(0, 4, rows)) + 1_700_000_000
    price = 100 + np.cumsum(rng.normal(size=rows))
    symbols = np.array(["a", "b", "c"])[rng.integers(0, 3, rows)]
    return tl.Table({"t": times, "px": price, "qty": rng.integers(1, 9, rows), "sym": symbols.tolist()})


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("parts") / "ticks.parquet")
    ticks().write_parquet(path, row_group_rows=700)
    return path


QUERIES: dict[str, Callable[[tl.Stream], tl.Stream]] = {
    "rows": lambda s: s.select("px", value=tl.col("px") * tl.col("qty")),
    "filter": lambda s: s["px"].filter(s["px"] > 100),
    "trend": lambda s: s["px"]["-10s":].mean() - s["px"]["-20s":].mean(),
    "ahead": lambda s: s["px"]["-5s":"+5s"].max(),
    "bars": lambda s: s["px"].window(tl.tumbling("60s")).agg(open=tl.first(), close=tl.last(), n=tl.len()),
    "count": lambda s: s["px"].window(tl.count(20)).std(),
    "hold": lambda s: s["px"].hold(max_age="30s").every("7s"),
    "keyed": lambda s: s.key_by("sym")["qty"]["-30s":].sum(),
    "keyed bars": lambda s: s.key_by("sym")["px"].window(tl.tumbling("60s")).mean(),
    "staged": lambda s: s.with_columns(m=s["px"]["-10s":].mean()).key_by("sym")["m"]["-30s":].max(),
    "lookup": lambda s: s.lookup(tl.table({"sym": ["a", "b"], "group": [1, 2]}, key="sym"), on="sym"),
    "looked twice": lambda s: (
        s.lookup(tl.table({"sym": ["a", "b"], "group": [1, 2]}, key="sym"), on="sym")
        .lookup(tl.table({"n": [1, 2, 3], "what": ["x", "y", "z"]}, key="n"), on="group")
        .select("what", "px")
    ),
    "filtered": lambda s: s["px"].filter(s["px"] > 100).window(tl.count(5)).mean(),
    "sessions": lambda s: s["px"].window(tl.session("3s")).agg(n=tl.len(), top=tl.max()),
    "sessions by key": lambda s: s.key_by("sym")["px"].window(tl.session("9s")).agg(n=tl.len(), top=tl.max()),
    # These carry the whole past.
    "total": lambda s: s["qty"][:].sum(),
    "decay": lambda s: tl.recur(lambda y: 0.9 * y.prev(1) + 0.1 * s["px"]),
    # These need all of it, and are run as a whole.
    "ewm": lambda s: s["px"].ewm(alpha=0.1),
    "median": lambda s: s["px"][:].median(),
}
WHOLE = {"ewm", "median"}


def test_few_queries_are_run_as_a_whole() -> None:
    streams = {name: query(tl.stream(ticks(10), time="t", unit="s")) for name, query in QUERIES.items()}
    assert {name for name, stream in streams.items() if stream._query().whole is not None} == WHOLE


@pytest.mark.parametrize("name", QUERIES)
def test_results_do_not_depend_on_how_rows_are_read(name: str, stored: str) -> None:
    query = QUERIES[name]
    expected = query(tl.stream(ticks(), time="t", unit="s")).collect()
    scanned = query(tl.scan_parquet(stored, time="t", unit="s"))
    assert scanned.collect() == expected
    batches = list(scanned.collect_batches(100))
    assert max(len(batch) for batch in batches) <= 100
    column = expected.columns[-1]
    assert [value for batch in batches for value in batch[column]] == expected[column]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(QUERIES)), st.integers(1, 3000), st.sampled_from([20_000, 100_000, 10_000_000]))
def test_chunks_and_budgets_of_any_size_give_the_same_rows(name: str, chunk_rows: int, memory: int) -> None:
    stream = QUERIES[name](tl.stream(ticks(1000), time="t", unit="s"))
    query = stream._query()
    if query.whole is not None:
        return
    inputs = {name: source.chunks() for name, source in stream._bound().items()}
    try:
        parts = list(query._handle.parts(inputs, chunk_rows=chunk_rows, memory=memory))
    except tl.TiltError as error:
        assert "allow more memory" in str(error)  # noqa: PT017
        return
    result = stream._titled(tl.Table(_native.Table.joined(parts)))
    assert result == stream.collect()


def test_many_small_files_are_one_stream(tmp_path: Path) -> None:
    table = ticks()
    for first in range(0, ROWS, 250):
        table[first : first + 250].write_csv(tmp_path / f"{9 - first // 2500}-{first}.csv")
    scanned = tl.scan_csv(str(tmp_path / "*.csv"), time="t", unit="s")["px"]["-10s":].mean()
    expected = tl.stream(table, time="t", unit="s")["px"]["-10s":].mean()
    assert scanned.collect() == expected.collect()


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc", "jsonl"])
def test_sinks_write_what_is_collected(format: str, tmp_path: Path, stored: str) -> None:  # noqa: A002
    stream = tl.scan_parquet(stored, time="t", unit="s")["px"]["-10s":].mean()
    path = tmp_path / f"out.{format}"
    assert getattr(stream, f"sink_{format}")(path) == ROWS
    scans: dict[str, Any] = {"parquet": tl.scan_parquet, "csv": tl.scan_csv, "ipc": tl.scan_ipc, "jsonl": tl.scan_json}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert scans[format](path, time="t", unit="s")["px"].collect()["px"] == stream.collect()["px"]


def test_an_empty_result_is_a_file_with_columns(tmp_path: Path, stored: str) -> None:
    px = tl.scan_parquet(stored, time="t", unit="s")["px"]
    assert px.filter(px < -1e9).sink_parquet(tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").column_names == ["t", "px"]
    assert list(px.filter(px < -1e9).collect_batches()) == []
    assert len(px.filter(px < -1e9).collect()) == 0


def test_files_without_rows_give_the_columns_that_rows_would(tmp_path: Path) -> None:
    ticks()[:0].write_parquet(tmp_path / "none.parquet")
    none = tl.scan_parquet(tmp_path / "none.parquet", time="t", unit="s")
    assert none["px"]["-10s":].mean().collect().schema == {"t": "Int64", "px": "Float64"}
    assert none.key_by("sym")["qty"].window(tl.tumbling("60s")).sum().collect().columns == ["t", "sym", "qty"]
    assert none["px"].hold().collect().columns == ["start", "end", "px"]


def test_keys_with_categories_can_be_written_in_parts(tmp_path: Path) -> None:
    table = pa.table({"t": list(range(4000)), "k": ["x", "y"] * 2000, "v": list(range(4000))})
    table = table.set_column(1, "k", table["k"].dictionary_encode())
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=500)
    stream = tl.scan_parquet(tmp_path / "in.parquet", time="t", unit="s").key_by("k")["v"]["-9s":].sum()
    for format in ("parquet", "ipc", "csv"):  # noqa: A001
        getattr(stream, f"sink_{format}")(tmp_path / f"out.{format}", memory="200kB")
    expected = stream.collect(memory="1GB")
    back = tl.scan_ipc(tmp_path / "out.ipc", time="t", unit="s").collect()
    assert back["k"] == expected["k"] and back["v"] == expected["v"]


def test_a_row_that_is_wrong_leaves_an_older_file_as_it_is(tmp_path: Path) -> None:
    rows = 20_000
    times = np.arange(rows)
    times[15_000] = 3
    tl.Table({"t": times, "x": np.ones(rows)}).write_parquet(tmp_path / "in.parquet", row_group_rows=1000)
    out = tmp_path / "out.parquet"
    out.write_text("older")
    x = tl.scan_parquet(tmp_path / "in.parquet", time="t", unit="s")["x"]
    with pytest.raises(tl.UnsortedError) as caught:
        x.sink_parquet(out)
    assert caught.value.row == 15_000
    assert out.read_text() == "older"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_what_was_given_before_a_wrong_row_is_right(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    lines = [f"{i},{i}.5" for i in range(30_000)]
    lines[25_000] = "25000,wrong"
    path.write_text("t,x\n" + "\n".join(lines) + "\n")
    got: list[float] = []
    batches = tl.scan_csv(path, time="t", unit="s")["x"].collect_batches(memory="100kB")
    with pytest.raises(tl.errors.FileError, match="wrong"):
        got.extend(value for batch in batches for value in batch["x"])
    assert 0 < len(got) < 25_000
    assert got == [i + 0.5 for i in range(len(got))]


def test_rows_in_order_within_their_keys_are_run_as_a_whole(tmp_path: Path) -> None:
    rows = 3000
    table = tl.Table({"t": [*range(rows), *range(rows)], "k": ["a"] * rows + ["b"] * rows, "x": [1.0] * (2 * rows)})
    table.write_parquet(tmp_path / "in.parquet", row_group_rows=500)
    stream = tl.scan_parquet(tmp_path / "in.parquet", time="t", unit="s").key_by("k")["x"]["-5s":].sum()
    assert stream.collect()["x"][:4] == [1.0, 1.0, 2.0, 2.0]
    with pytest.raises(tl.UnsortedError):
        stream.collect(memory="1MB")


def test_a_query_of_the_whole_past_says_that_it_is_run_as_a_whole(stored: str) -> None:
    total = tl.scan_parquet(stored, time="t", unit="s")["qty"][:].median()
    assert "files are read as a whole, because a result may depend on the whole past" in total.explain()
    assert "files are read in parts" in tl.scan_parquet(stored, time="t", unit="s")["qty"].explain()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = total.collect()
    with pytest.warns(WholeRunWarning, match="whole past"):
        assert sum(len(batch) for batch in total.collect_batches(memory="1MB")) == len(expected)
    with pytest.raises(WholeError):
        total._query().batches(total._bound())


def test_what_does_not_fit_is_told_with_what_to_do(stored: str) -> None:
    x = tl.scan_parquet(stored, time="t", unit="s")["px"]
    with pytest.raises(tl.TiltError, match=r"lookback of 100000s.*allow more memory"):
        x["-100000s":].mean().collect(memory="20kB")
    with pytest.raises(ValueError, match="'512MB'"):
        x.collect(memory="plenty")


def test_functions_and_their_exceptions_reach_runs_in_parts(stored: str) -> None:
    half = tl.udf(lambda v: v / 2, args=[float], returns=float, name="half_in_parts")

    def fail(value: float) -> float:
        message = f"no {value > 0}"
        raise RuntimeError(message)

    failing = tl.udf(fail, args=[float], returns=float, name="fails_in_parts")
    px = tl.scan_parquet(stored, time="t", unit="s")["px"]
    try:
        assert half(px).collect()["px"] == (px / 2).collect()["px"]
        with pytest.raises(RuntimeError, match="no True"):
            failing(px).collect()
    finally:
        del FUNCTIONS["half_in_parts"], FUNCTIONS["fails_in_parts"]


def test_progress_is_told_by_rows_and_can_end_the_run(stored: str) -> None:
    px = tl.scan_parquet(stored, time="t", unit="s")["px"]
    shares: list[float] = []
    px.collect(progress=shares.append)
    assert shares and shares == sorted(shares) and shares[-1] == 1.0

    def stop(share: float) -> None:
        raise InterruptedError(share)

    with pytest.raises(InterruptedError):
        px.collect(progress=stop)


def test_batches_that_nobody_takes_end_the_run(stored: str) -> None:
    batches = tl.scan_parquet(stored, time="t", unit="s")["px"].collect_batches(10)
    assert len(next(batches)) == 10
    del batches


def test_streams_of_files_and_tables_are_picklable(stored: str) -> None:
    side = tl.table({"sym": ["a", "b"], "group": [1, 2]}, key="sym")
    stream = tl.scan_parquet(stored, time="t", unit="s").lookup(side, on="sym")["group"]
    assert pickle.loads(pickle.dumps(stream)).collect() == stream.collect()


def run_script(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of 48 MB, when it is read, in groups of 3.2 MB."""
    path = str(tmp_path_factory.mktemp("large") / "large.parquet")
    rows, groups = 100_000, 15
    schema = pa.schema([("t", pa.int64()), ("a", pa.float64()), ("b", pa.float64()), ("c", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for group in range(groups):
            times = np.arange(group * rows, (group + 1) * rows)
            columns = [times, np.sqrt(times), times * 0.25, times]
            writer.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], schema=schema))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_files_larger_than_the_budget_stream_through(large: str, tmp_path: Path) -> None:
    code = """
        import sys, tilt as tl
        def peak():
            return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) * 1024
        s = tl.scan_parquet(sys.argv[1], time="t", unit="ms")
        m = s.with_columns(mean=s["a"]["-1s":].mean(), top=s["b"]["-1s":].max())
        m.filter(m["c"] % 1000 == 0).collect(part=(0, 1000))  # Whatever is loaded and compiled once.
        before = peak()
        rows = m.sink_parquet(sys.argv[2], memory="8MB", compression="none", row_group_rows=50_000)
        print(rows, peak() - before)
    """
    run = run_script(code, large, str(tmp_path / "out.parquet"))
    out, error = run.communicate(timeout=600)
    assert run.returncode == 0, error
    rows, grown = map(int, out.split())
    assert rows == 1_500_000
    # The rows are 48 MB and the result is 72 MB.
    assert grown < 24_000_000
    written = pq.ParquetFile(tmp_path / "out.parquet")
    assert written.metadata.num_rows == rows
    last = written.read_row_group(written.num_row_groups - 1).to_pylist()[-1]
    assert last["top"] == last["b"] == (rows - 1) * 0.25


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_sink_and_leaves_nothing_half_written(large: str, tmp_path: Path) -> None:
    code = """
        import sys, tilt as tl
        s = tl.scan_parquet(sys.argv[1], time="t", unit="ms")
        while True:
            s.with_columns(q=s["a"]["-1s":].quantile(0.3)).sink_parquet(sys.argv[2], memory="8MB")
    """
    out = tmp_path / "out.parquet"
    run = run_script(code, large, str(out))
    # It is interrupted while it writes, however fast it is.
    while not list(tmp_path.glob("*.tmp")):
        assert run.poll() is None
        time.sleep(0.01)
    begun = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert time.monotonic() - begun < 5
    assert "KeyboardInterrupt" in error
    left = list(tmp_path.iterdir())
    # A round that was complete before has left its file.
    assert left in ([], [out])
    assert all(pq.read_metadata(path).num_rows == 1_500_000 for path in left)
