"""Tables: rows in and out without copies."""

import contextlib
import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tilt as tl
from tilt import _native
from tilt.table import Categorical

PARIS = ZoneInfo("Europe/Paris")


def address(values: np.ndarray) -> int:
    found: int = values.__array_interface__["data"][0]
    return found


def test_numpy_columns_are_shared_both_ways() -> None:
    prices = np.arange(1000.0)
    times = np.arange(1000).astype("M8[us]")
    table = tl.Table({"t": times, "price": prices})
    out = table.to_numpy()
    assert address(out["price"]) == address(prices)
    assert address(out["t"]) == address(times)
    assert not out["price"].flags.writeable
    del prices, table
    assert out["price"][999] == 999.0


def test_arrow_columns_are_shared_both_ways() -> None:
    given = pa.table({"x": pa.array(np.arange(10.0))})
    table = tl.Table(given)
    buffer = given["x"].chunk(0).buffers()[1]
    assert address(table.to_numpy()["x"]) == buffer.address
    assert table.to_arrow()["x"].chunk(0).buffers()[1].address == buffer.address
    assert address(table[3:].to_numpy()["x"]) == buffer.address + 3 * 8


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "batch", "duckdb", "dict"])
def test_every_kind_of_rows_gives_the_same_table(kind: str) -> None:
    columns = {"t": [1, 2, 3], "x": [0.5, None, 2.5], "s": ["a", None, "c"]}
    arrow = pa.table(columns)
    kinds: dict[str, Callable[[], object]] = {
        "polars": lambda: pl.DataFrame(columns),
        "pandas": lambda: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
        "pyarrow": lambda: arrow,
        "batch": lambda: arrow.to_batches()[0],
        "duckdb": lambda: duckdb.from_arrow(arrow),
        "dict": lambda: columns,
    }
    assert tl.Table(kinds[kind]()).to_dict() == columns


def test_table_goes_out_to_every_kind() -> None:
    table = tl.Table({"t": [1, 2], "x": [0.5, None]})
    assert table.to_polars().to_dicts() == table.to_pylist()
    assert table.to_arrow().to_pylist() == table.to_pylist()
    assert table.to_pandas()["t"].tolist() == [1, 2]
    assert duckdb.from_arrow(table.to_arrow()).fetchall() == [(1, 0.5), (2, None)]
    assert pl.Series(_native.Table.of(table).column("t")).to_list() == [1, 2]


def test_nulls_in_numpy_are_nan_nat_or_none() -> None:
    when = dt.datetime(2026, 1, 1)  # noqa: DTZ001
    table = tl.Table({"i": [1, None], "f": [1.5, None], "b": [True, None], "s": ["a", None], "t": [when, None]})
    out = table.to_numpy()
    assert out["i"].dtype == np.float64 and np.isnan(out["i"][1])
    assert np.isnan(out["f"][1])
    assert out["b"].tolist() == [True, None]
    assert out["s"].tolist() == ["a", None]
    assert np.isnat(out["t"][1]) and out["t"][0] == np.datetime64(when)


def test_python_values_come_back() -> None:
    columns = {
        "zoned": [dt.datetime(2026, 3, 29, 12, 30, 0, 123456, tzinfo=PARIS), None],
        "utc": [dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc), None],
        "fixed": [dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), None],
        "naive": [dt.datetime(2026, 1, 1, 1, 2, 3, 4), None],  # noqa: DTZ001
        "date": [dt.date(2026, 1, 1), None],
        "length": [dt.timedelta(days=-1, microseconds=7), None],
        "whole": [2**62, None],
        "mixed": [1, 1.5],
    }
    table = tl.Table(columns)
    assert table.to_dict() == columns
    assert table.schema["zoned"] == 'Timestamp(µs, "Europe/Paris")'
    assert table.schema["fixed"] == 'Timestamp(µs, "+02:00")'


def test_nested_values_are_dicts_and_lists() -> None:
    rows = [{"r": {"a": 1, "b": None}, "l": [1.5, None]}, {"r": None, "l": []}]
    assert tl.Table(pa.Table.from_pylist(rows)).to_pylist() == rows


def test_dictionaries_of_strings() -> None:
    arrow = pa.table({"s": pa.array(["a", None, "b", "a"]).dictionary_encode()})
    assert tl.Table(arrow)["s"] == ["a", None, "b", "a"]
    assert tl.Table({"s": Categorical(np.array([0, -1, 1], dtype="i4"), ["x", "y"])})["s"] == ["x", None, "y"]
    with pytest.raises(tl.SchemaError, match="not the number of a category"):
        tl.Table({"s": Categorical(np.array([2], dtype="i4"), ["x", "y"])})


def test_arrays_of_every_layout() -> None:
    table = tl.Table(
        {
            "strided": np.arange(10)[::2],
            "big": np.arange(5).astype(">i4"),
            "days": np.array(["2026-01-01"] * 5, dtype="M8[D]"),
            "text": np.array(["a", "b", "c", "d", "e"]),
            "object": np.array([1, None, 2, 3, 4], dtype=object),
            "bool": np.array([True, False, True, True, False]),
            "half": np.arange(5).astype("f2"),
            "nat": np.array(["2026-01-01", "NaT", "2026-01-01", "NaT", "NaT"], dtype="M8[ns]"),
        }
    )
    assert table["strided"] == [0, 2, 4, 6, 8]
    assert table["big"] == [0, 1, 2, 3, 4]
    assert table["object"] == [1, None, 2, 3, 4]
    assert table["nat"][1] is None
    assert table.schema["days"] == "Timestamp(s)"
    assert table["half"] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (5, TypeError, "int has no rows that Arrow can see"),
        ({"a": [1], "b": [1, 2]}, tl.SchemaError, "column `b` has 2 rows, but `a` has 1"),
        ({"a": [1, "x"]}, tl.SchemaError, "column `a`"),
        ({"a": ["x", 1]}, tl.SchemaError, "column `a`, row 1: 1 is no str"),
        ({"a": [object()]}, tl.SchemaError, "values of type `object`"),
        ({"a": [2**70]}, tl.SchemaError, "is no int of 64 bits"),
        ({"a": np.zeros((2, 2))}, tl.SchemaError, "2 dimensions"),
        ({"a": np.zeros(2, dtype=complex)}, tl.SchemaError, "no column can hold NumPy's `<c16`"),
    ],
)
def test_rows_that_are_refused(rows: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tl.Table(rows)


def test_missing_column_names_the_near_one_and_has_attributes() -> None:
    with pytest.raises(tl.SchemaError, match=r"no column `prise`, did you mean `price`\?") as error:
        tl.Table({"price": [1.0]})["prise"]
    assert error.value.column == "prise"
    assert error.value.hint == "the columns are `price`"


def test_slices_chunks_and_iteration() -> None:
    chunked = tl.Table(pa.table({"x": pa.chunked_array([[1, 2], [], [3, 4, 5]])}))
    assert len(chunked) == 5
    assert chunked[1:4]["x"] == [2, 3, 4]
    assert chunked[-2:]["x"] == [4, 5]
    assert chunked[4:1]["x"] == []
    assert chunked.to_numpy()["x"].tolist() == [1, 2, 3, 4, 5]
    assert [row["x"] for row in chunked] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="without a step"):
        chunked[::2]


def test_empty_tables() -> None:
    for table in (tl.Table({}), tl.Table(pa.table({"x": pa.array([], pa.float64())})), tl.Table({"x": []})):
        assert len(table) == 0
        assert table.to_pylist() == []
        assert repr(table).startswith("tilt.Table: 0 rows")
        assert pickle.loads(pickle.dumps(table)) == table
        assert table.to_arrow().num_rows == 0


def test_pickled_table_is_equal() -> None:
    table = tl.Table({"t": [dt.datetime(2026, 1, 1, tzinfo=PARIS)], "x": [float("nan")], "s": ["é"]})
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert again.schema == table.schema
    assert table != tl.Table({"x": [1.0]})


def test_long_tables_show_both_ends() -> None:
    shown = repr(tl.Table({"x": list(range(1000)), "text": ["y" * 50] * 1000}))
    lines = shown.splitlines()
    assert lines[0] == "tilt.Table: 1,000 rows"
    assert len(lines) == 15
    assert "…" in shown and "999" in shown
    assert max(map(len, lines)) < 60


def test_html_is_escaped() -> None:
    page = tl.Table({"<b>": ["<script>"]})._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "1 rows, 1 columns" in page


@pytest.mark.parametrize("kind", ["parquet", "csv", "ipc", "jsonl"])
def test_files_are_read_back(tmp_path: Path, kind: str) -> None:
    times = [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)] * 3
    table = tl.Table({"t": times, "x": [1.5, None, -2.0], "s": ["a", "b", "c"]})
    path = tmp_path / f"rows.{kind}"
    getattr(table, f"write_{kind}")(path)
    back = tl.Table(_native.Scan([str(path)], columns=["t", "x", "s"]))
    assert back.to_dict() == table.to_dict()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if kind == "parquet":
        assert pq.read_table(path).to_pylist() == table.to_pylist()


def test_writing_says_what_is_wrong(tmp_path: Path) -> None:
    table = tl.Table({"x": [1]})
    with pytest.raises(FileNotFoundError) as error:
        table.write_parquet(tmp_path / "none" / "x.parquet")
    assert error.value.filename == str(tmp_path / "none" / "x.parquet")
    with pytest.raises(ValueError, match='no compression is called "rar"'):
        table.write_parquet(tmp_path / "x.parquet", compression="rar")
    with pytest.raises(tl.FileError, match="ipc files cannot be compressed by snappy"):
        table.write_ipc(tmp_path / "x.arrow", compression="snappy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lent", [dict, pd.DataFrame, lambda rows: tl.Table(rows)[:3]])
def test_times_in_memory_of_numpy_are_looked_through_at_every_run(lent: Callable[..., object]) -> None:
    times = np.array([1, 2, 3])
    rows = lent({"t": times, "x": np.array([1.0, 2.0, 4.0])})
    stream = tl.stream(rows, time="t")["x"]
    assert stream.collect()["x"] == [1.0, 2.0, 4.0]
    if isinstance(rows, pd.DataFrame):
        rows.loc[1, "t"] = 9
    else:
        times[1] = 9
    with contextlib.suppress(tl.errors.UnsortedError):
        # What was lent may have been a copy.
        assert stream.collect()["t"] == [1, 2, 3]
