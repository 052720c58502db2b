"""Several threads: settings, the interpreter's lock, streams that are compiled by all at once; Ctrl-C."""

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilt as tl


def test_settings_of_a_block_are_those_of_its_thread() -> None:
    inside, left = threading.Barrier(2), threading.Barrier(2)

    def first() -> list[object]:
        seen: list[object] = []
        with tl.Config(threads=1, memory="1GB"):
            inside.wait()
            seen.append((tl.Config.threads, tl.Config.memory))
            left.wait()
        return [*seen, tl.Config.threads]

    def second() -> list[object]:
        seen: list[object] = []
        with tl.Config(threads=2):
            inside.wait()
            seen.append((tl.Config.threads, tl.Config.memory))
            with tl.Config(threads=None, progress=False):
                seen.append((tl.Config.threads, tl.Config.progress))
            seen.append(tl.Config.threads)
        left.wait()
        return [*seen, tl.Config.threads]

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(first), pool.submit(second)
        assert one.result(60) == [(1, "1GB"), None]
        assert two.result(60) == [(2, None), (None, False), 2, None]
    assert (tl.Config.threads, tl.Config.memory, tl.Config.progress) == (None, None, None)


def test_settings_of_a_block_are_those_of_its_coroutine() -> None:
    async def inside(threads: int) -> int | None:
        with tl.Config(threads=threads):
            await asyncio.sleep(0)
            return tl.Config.threads

    async def both() -> tuple[int | None, int | None]:
        one, two = await asyncio.gather(inside(1), inside(2))
        return one, two

    assert asyncio.run(both()) == (1, 2)


def test_settings_of_the_process_hold_in_all_threads() -> None:
    tl.Config.set(threads=1, progress=False)
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: (tl.Config.threads, tl.Config.progress)).result(60) == (1, False)
        with tl.Config(threads=2):
            assert (tl.Config.threads, tl.Config.progress) == (2, False)
        assert tl.Config.threads == 1
    finally:
        tl.Config.set(threads=None, progress=None)
    with pytest.raises(TypeError, match="no setting 'thread'"):
        tl.Config.set(thread=1)
    with pytest.raises(AttributeError):
        tl.Config.threads = 3  # type: ignore[misc]


def test_one_stream_is_compiled_by_several_threads_at_once() -> None:
    x = tl.stream({"t": np.arange(5_000), "x": np.random.default_rng(1).normal(size=5_000)}, time="t")["x"]
    for size in range(3, 9):
        # A query that nothing has compiled before.
        query = (x - x.window(size * 37).mean()) / x.window(size * 37).std()
        begin = threading.Barrier(8)

        def collected(query: tl.Stream = query, begin: threading.Barrier = begin) -> tl.Table:
            begin.wait()
            return query.collect(threads=1)

        with ThreadPoolExecutor(8) as pool:
            tables = [future.result(60) for future in [pool.submit(collected) for _ in range(8)]]
        assert all(table == tables[0] for table in tables)
        assert len(tables[0]) == 4_999


def counted_during(work: Callable[[], object]) -> int:
    """Give how often another thread of Python came to do something while this one works."""
    count, stop = 0, threading.Event()

    def counting() -> None:
        nonlocal count
        while not stop.wait(0.001):
            count += 1

    other = threading.Thread(target=counting)
    other.start()
    try:
        before = count
        work()
        return count - before
    finally:
        stop.set()
        other.join()


def test_other_threads_go_on_while_queries_are_compiled_and_run() -> None:
    x = tl.stream({"t": np.arange(400_000), "x": np.random.default_rng(1).normal(size=400_000)}, time="t")["x"]
    slow = x.window(5_000).median()
    assert counted_during(lambda: slow.collect(threads=1, backend="interpreter", part=(0, 300))) > 3
    assert counted_during(lambda: [x.window(n).median().collect(threads=1) for n in (5_001, 5_002)]) > 3
    # Loops that were not compiled before: a polynomial of its own.
    total = x
    for n in range(60):
        total = total * 0.5 + x["-" + str(1_000 + n) :].mean()
    assert counted_during(lambda: total.explain("asm")) > 3
    big = tl.Table({"t": np.arange(2_000_000), "x": np.ones(2_000_000)})
    assert counted_during(lambda: [pickle.dumps(big) for _ in range(10)]) > 3


RUN = """
rows = {"t": np.arange(2_000_000), "x": np.random.default_rng(1).normal(size=2_000_000)}
query = tl.stream(rows, time="t")["x"].window(100_000).median()
def work():
    while True:
        query.collect()
"""
READER = """
def batches():
    while True:
        time.sleep(0.001)
        yield pa.record_batch({"t": [1], "x": [1.0]})
schema = pa.schema({"t": pa.int64(), "x": pa.float64()})
reader = pa.RecordBatchReader.from_batches(schema, batches())
work = lambda: tl.stream(reader, time="t")
"""
NATIVE_READER = """
relation = duckdb.sql("select range t, 1.0::double x from range(100000000000)")
work = lambda: tl.stream(relation.to_arrow_reader(1 << 12), time="t")
"""


@pytest.mark.parametrize("work", [RUN, READER, NATIVE_READER], ids=["run", "reader of Python", "reader of DuckDB"])
def test_ctrl_c_ends_what_runs_natively(work: str) -> None:
    imports = "import os, signal, threading, time\nimport numpy as np, pyarrow as pa\nimport tilt as tl\n"
    if "duckdb" in work:
        pytest.importorskip("duckdb")
        imports += "import duckdb\n"
    end = """
threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
try:
    work()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", imports + work + end], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
