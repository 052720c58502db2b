"""Rows from other libraries, and what is read of files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tilt as tl

ROWS = {"t": [1, 2, 4, 7], "px": [10.0, 11.0, 9.0, 12.0], "sym": ["a", "b", "a", "b"]}


def reader(batches: int) -> pa.RecordBatchReader:
    table = pa.table(ROWS)
    size = len(table) // batches
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))


def relation() -> Any:  # noqa: ANN401
    connection = duckdb.connect()
    connection.register("ticks", pa.table(ROWS))
    return connection.sql("select * from ticks order by t")


FORMS: dict[str, Callable[[], object]] = {
    "reader": lambda: reader(1),
    "reader of batches": lambda: reader(4),
    "relation of DuckDB": relation,
    "result of DuckDB": lambda: relation().to_arrow_table(),
    "record batch": lambda: pa.table(ROWS).to_batches()[0],
    "pandas": lambda: pd.DataFrame(ROWS),
    "Polars": lambda: pl.DataFrame(ROWS),
    "NumPy": lambda: {name: np.asarray(values) for name, values in ROWS.items()},
}


@pytest.mark.parametrize("form", FORMS)
def test_streams_are_made_of_rows_in_every_form(form: str) -> None:
    ticks = tl.stream(FORMS[form](), time="t", unit="s")
    assert ticks.schema == {"px": "f64", "sym": "utf8"}
    mean = ticks["px"]["-2s":].mean()
    # A reader is read once, and the stream runs as often as it is asked to.
    for _ in range(2):
        assert mean.collect().to_dict() == {"t": [1, 2, 4, 7], "px": [10.0, 10.5, 9.0, 12.0]}
    assert ticks.key_by("sym")["px"].diff().collect()["px"] == [-1.0, 1.0]


def test_results_are_read_by_duckdb_and_pyarrow() -> None:
    doubled = tl.stream(ROWS, time="t", unit="s")["px"] * 2
    connection = duckdb.connect()
    connection.register("doubled", doubled.to_arrow())
    assert connection.sql("select sum(px) from doubled").fetchall() == [(84.0,)]
    assert pa.RecordBatchReader.from_stream(doubled.collect()).read_all()["px"].to_pylist() == [20.0, 22.0, 18.0, 24.0]


def test_readers_that_fail_say_why() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.table(ROWS).to_batches()[0]
        message = "the connection is gone"
        raise OSError(message)

    with pytest.raises(tl.FileError, match="the connection is gone"):
        tl.stream(pa.RecordBatchReader.from_batches(pa.table(ROWS).schema, batches()), time="t")


def bytes_read() -> int:
    """Give how many bytes this process has read, from whatever file."""
    (line,) = (line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar"))
    return int(line.split()[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what is read")
def test_only_the_bytes_of_columns_that_are_used_are_read(tmp_path: Path) -> None:
    count, rng = 100_000, np.random.default_rng(1)
    columns = {f"c{i}": rng.normal(size=count) for i in range(12)}
    path = tmp_path / "wide.parquet"
    tl.Table({"t": np.arange(count), **columns}).write_parquet(path)
    wide = tl.scan_parquet(path, time="t")
    size, column = path.stat().st_size, 8 * count

    def read_by(query: tl.Stream) -> int:
        before = bytes_read()
        query.collect()
        return bytes_read() - before

    one = read_by(wide["c3"]["-5":].mean())
    assert column / 2 < one < 4 * column < size
    assert read_by(wide.filter(tl.col("c1") > tl.col("c7")).select("c7")) < 5 * column
    assert read_by(wide) > 0.9 * size
