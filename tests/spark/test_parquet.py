"""Tasks that read Parquet files themselves give what a local scan gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tilt as tl
from queries import ONE, TWO, quotes, ticks
from test_run import by_time_and_key, local, same
from tilt import spark as ts


def written(directory: Path, table: pa.Table, *, files: int, group: int) -> str:
    directory.mkdir()
    for number in range(files):
        rows = -(-len(table) // files)
        pq.write_table(table.slice(number * rows, rows), directory / f"part-{number:03}.parquet", row_group_size=group)
    return str(directory)


@pytest.mark.parametrize("name", ["zscore", "filled", "hopping", "ahead"])
def test_slices_of_files_are_the_local_result(spark: SparkSession, tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(len(name))
    table = ticks(rng, 400)
    path = written(tmp_path / "ticks", table, files=3, group=30)
    expected = local(ONE[name], {"stream": table})
    for slices in (1, 4, 9):
        scan = ts.scan_parquet(spark, path, time="ts")
        same(ts.run(ONE[name], scan, slices=slices).toArrow(), expected)


def test_files_that_overlap_in_time(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 400)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    table = table.take(pa.array(first))
    shuffled = table.take(pa.array(np.random.default_rng(3).permutation(len(table))))
    path = written(tmp_path / "ticks", shuffled, files=3, group=20)
    found = ts.run(ONE["zscore"], ts.scan_parquet(spark, path, time="ts"), slices=5)
    same(found.toArrow(), local(ONE["zscore"], {"stream": table}))


def test_two_scans_and_keys(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    tables = {"trades": ticks(rng, 300), "quotes": quotes(rng, 300)}
    scans = {
        name: ts.scan_parquet(spark, written(tmp_path / name, table, files=2, group=25), time="ts")
        for name, table in tables.items()
    }
    same(ts.run(TWO["around"], scans, slices=4).toArrow(), local(TWO["around"], tables))
    found = ts.run(TWO["around"], scans, key="sym", slices=4).toArrow()
    same(by_time_and_key(found, "sym"), local(TWO["around"], tables, key="sym"))


def test_only_row_groups_that_matter_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 1000)
    path = written(tmp_path / "ticks", table, files=2, group=50)
    scan = ts.scan_parquet(spark, path, time="ts")
    text = ts.explain(lambda x: x["price"]["-1s":].sum(), scan, slices=5)
    assert "20 row groups with 1,000 rows" in text
    read = re.search(r"read (\d+) times", text)
    assert read is not None and int(read[1]) <= 28


def test_what_cannot_be_scanned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 10)
    pq.write_table(table, tmp_path / "bare.parquet", write_statistics=False)
    with pytest.raises(tl.FileError, match="no statistics of `ts`"):
        ts.scan_parquet(spark, str(tmp_path / "bare.parquet"), time="ts")
    with pytest.raises(tl.FileError, match="there is no file"):
        ts.scan_parquet(spark, str(tmp_path / "none"), time="ts")
    pq.write_table(table, tmp_path / "ticks.parquet")
    with pytest.raises(tl.SchemaError, match="no column `at`"):
        ts.scan_parquet(spark, str(tmp_path / "ticks.parquet"), time="at")
    scan = ts.scan_parquet(spark, str(tmp_path / "ticks.parquet"), time="ts")
    frames = {"trades": scan, "quotes": spark.createDataFrame(quotes(np.random.default_rng(1), 5))}
    with pytest.raises(tl.QueryError, match="not inputs of one query"):
        ts.run(TWO["around"], frames, time="ts")


def test_files_whose_columns_drift_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 40)
    path = Path(written(tmp_path / "ticks", table, files=2, group=10))
    job = ts.run(ONE["zscore"], ts.scan_parquet(spark, str(path), time="ts"), slices=3)
    other = table.slice(20).set_column(1, "price", table.slice(20).column("size"))
    pq.write_table(other, path / "part-001.parquet", row_group_size=10)
    with pytest.raises(tl.SchemaError, match=r"`price` of .*part-001.parquet is not what it was"), ts.errors():
        job.collect()
    with pytest.raises(tl.SchemaError, match=r"part-001\.parquet has columns .*price: int64"):
        ts.scan_parquet(spark, str(path), time="ts")
