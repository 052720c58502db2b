"""Tasks that read Parquet files themselves give what a local scan gives."""

from __future__ import annotations

import datetime as dt
import re
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tilt as tl
from queries import KEYED, ONE, TWO, Query, quotes, ticks
from test_run import by_time_and_key, local, same
from tilt import spark as ts
from tilt.spark import parquet
from tilt.spark.boot import shipped
from tilt.spark.inputs import bound
from tilt.spark.parquet import Direct, DirectTask, Footer
from tilt.spark.plan import Bound
from tilt.spark.run import _planned
from tilt.spark.scanned import Scanned
from tilt.spark.task import TaskInput

ROW = 3 * 8 + 24
"""How many bytes a row of ticks is taken to have."""


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
    for how in ({"slices": 1}, {"slices": 4}, {"slices": 9, "tasks": 9}, {"slices": 60, "tasks": 3}):
        scan = ts.scan_parquet(spark, path, time="ts")
        same(ts.run(ONE[name], scan, **how).toArrow(), expected)


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


def test_slices_of_a_task_share_row_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ticks(np.random.default_rng(2), 1000)
    scan = ts.scan_parquet(spark, written(tmp_path / "ticks", table, files=2, group=50), time="ts")
    query: Query = lambda x: x["price"]["-1s":].sum()  # noqa: E731
    told = {}
    for tasks in (1, 4, 100):
        text = ts.explain(query, scan, slices=100, tasks=tasks)
        found = re.search(r"100 slices .* in (\d+) tasks.*read (\d+) times", text, re.DOTALL)
        assert found is not None and int(found[1]) == tasks
        told[tasks] = int(found[2])
    assert told[1] == 20
    assert told[4] <= 28
    assert told[100] >= 100
    read: list[int] = []

    def counted(given: TaskInput, path: Footer, numbers: list[int]) -> list[pa.Table]:
        read.extend(numbers)
        return read_groups(given, path, numbers)

    read_groups = parquet.read_groups
    monkeypatch.setattr(parquet, "read_groups", counted)
    task = _direct(query, scan, 100)
    for number in range(4):
        list(task.run(iter([pa.record_batch({"id": range(25 * number, 25 * number + 25)})])))
    assert len(read) == told[4]


@pytest.mark.parametrize("name", ["zscore", "ahead", "filled"])
def test_slices_within_row_groups_are_run_as_one(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = ticks(np.random.default_rng(3), 1000, span=2000)
    scan = ts.scan_parquet(spark, written(tmp_path / "ticks", table, files=2, group=50), time="ts")
    task = _direct(ONE[name], scan, 100)
    numbers = pa.record_batch({"id": range(100)})
    assert [*task.runs(range(100))] == [(at, at) for at in range(100)]
    expected = local(ONE[name], {"stream": table})
    for together, least, most in ((3, 34, 60), (100, 20, 45)):
        joined = replace(task, together=together)
        runs = [*joined.runs(range(100))]
        assert [at for first, last in runs for at in range(first, last + 1)] == [*range(100)]
        assert max(last - first + 1 for first, last in runs) <= together
        assert least <= len(runs) <= most
        same(pa.Table.from_batches(joined.run(iter([numbers]))), expected)
    # Those of different tasks need not follow each other.
    assert [*replace(task, together=100).runs([7, 9])] == [(7, 7), (9, 9)]


def test_row_groups_that_one_run_could_not_hold_are_still_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ticks(np.random.default_rng(4), 800)
    scan = ts.scan_parquet(spark, written(tmp_path / "ticks", table, files=1, group=800), time="ts")
    counts: list[int] = []

    def counted(task: DirectTask) -> DirectTask:
        counts.append(task.together)
        return task

    monkeypatch.setattr(parquet, "shipped", lambda task, functions: shipped(counted(task), functions))
    for slices in (8, 40):
        found = ts.run(ONE["zscore"], scan, slices=slices, memory=100 * ROW)
        same(found.toArrow(), local(ONE["zscore"], {"stream": table}))
    assert counts == [1, 5]


def _direct(query: Query, scan: ts.ParquetSource, slices: int) -> parquet.DirectTask:
    """Give what executors run, a slice at a time."""
    stream, inputs = bound(query, scan, {}, _no_stage)
    return replace(Direct(Bound(stream, inputs), slices, None, None, ()).task(), together=1)


def _no_stage(stream: tl.Stream, inputs: object) -> DataFrame:
    raise AssertionError((stream, inputs))


def test_what_cannot_be_scanned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 10)
    pq.write_table(table, tmp_path / "bare.parquet", write_statistics=False)
    with pytest.raises(tl.FileError, match="no statistics of `ts`"):
        ts.scan_parquet(spark, str(tmp_path / "bare.parquet"), time="ts")
    # By default Spark writes instants without statistics.
    spark.createDataFrame(table).write.parquet(str(tmp_path / "spark"))
    with pytest.raises(tl.FileError, match=r"no statistics of `ts`.*outputTimestampType = TIMESTAMP_MICROS"):
        ts.scan_parquet(spark, str(tmp_path / "spark"), time="ts")
    kept = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(kept, "TIMESTAMP_MICROS")
    try:
        spark.createDataFrame(table).coalesce(1).write.parquet(str(tmp_path / "micros"))
    finally:
        spark.conf.unset(kept)
    scan = ts.scan_parquet(spark, str(tmp_path / "micros"), time="ts")
    same(ts.run(ONE["zscore"], scan, slices=2).toArrow(), local(ONE["zscore"], {"stream": table}))
    with pytest.raises(tl.FileError, match="there is no file"):
        ts.scan_parquet(spark, str(tmp_path / "none"), time="ts")
    with pytest.raises(tl.FileError, match=r"there is no file .*\*\.parquet; name files and directories, not patterns"):
        ts.scan_parquet(spark, str(tmp_path / "*.parquet"), time="ts")
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
    with pytest.raises(tl.SchemaError, match=r"part-001\.parquet has columns .*price: int64.*columns=\["):
        ts.scan_parquet(spark, str(path), time="ts")
    # What differs may be left out.
    scan = ts.scan_parquet(spark, str(path), columns=["size"], time="ts")
    query: Query = lambda x: x["size"]["-5s":].sum()  # noqa: E731
    same(ts.run(query, scan, slices=3).toArrow(), local(query, {"stream": table}))
    with pytest.raises(TypeError, match=r"columns are a list of names: \['price'\]"):
        ts.scan_parquet(spark, path, columns="price", time="ts")
    with pytest.raises(TypeError, match=r"scan_parquet\(\) has no option `column`, did you mean `columns`"):
        ts.scan_parquet(spark, path, column=["price"], time="ts")
    assert ts.scan_parquet(spark, path, columns=["size"], time="ts", key="sym").schema().names == ["ts", "sym", "size"]
    with pytest.raises(tl.SchemaError, match=r"part-000\.parquet has no column `volume`; it has ts, price, size, sym"):
        ts.scan_parquet(spark, str(path), columns=["volume"], time="ts")


@pytest.mark.parametrize(
    "times", [["a"], [True], [0.5], [[1]], pa.array([1], pa.uint32()), pa.array([1], pa.decimal128(3))]
)
def test_times_that_are_none_are_refused(spark: SparkSession, tmp_path: Path, times: Any) -> None:  # noqa: ANN401
    pq.write_table(pa.table({"ts": times, "price": [1.0]}), tmp_path / "ticks.parquet")
    with pytest.raises(tl.SchemaError, match=r"`ts` of .* has type .*, and times are timestamps") as caught:
        ts.scan_parquet(spark, str(tmp_path), time="ts")
    assert caught.value.column == "ts"


@pytest.mark.parametrize("bad", [[7], [11, 25], range(10, 20)])
def test_times_that_are_missing_are_refused_by_row_group(
    spark: SparkSession, tmp_path: Path, bad: Sequence[int]
) -> None:
    table = ticks(np.random.default_rng(2), 40)
    times = pa.array([None if at in bad else time for at, time in enumerate(table.column("ts"))], table.schema[0].type)
    pq.write_table(table.set_column(0, "ts", times), tmp_path / "ticks.parquet", row_group_size=10)
    group = bad[0] // 10
    count = sum(at // 10 == group for at in bad)
    said = rf"`ts` is null in {count} rows of row group {group} of .*ticks\.parquet; drop such rows"
    with pytest.raises(tl.SchemaError, match=said) as caught:
        ts.scan_parquet(spark, tmp_path, time="ts")
    assert caught.value.column == "ts"


def test_times_that_are_missing_without_being_told_are_not_dropped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ticks(np.random.default_rng(2), 40)
    scan = ts.scan_parquet(spark, written(tmp_path / "ticks", table, files=2, group=10), time="ts")
    task = _direct(ONE["zscore"], scan, 3)
    read_groups = parquet.read_groups

    def broken(given: TaskInput, file: Footer, numbers: list[int]) -> list[pa.Table]:
        return [missing(rows) for rows in read_groups(given, file, numbers)]

    def missing(rows: pa.Table) -> pa.Table:
        times = pa.array([*rows.column("ts").to_pylist()[:-1], None], rows.schema.field("ts").type)
        return rows.set_column(rows.column_names.index("ts"), "ts", times)

    monkeypatch.setattr(parquet, "read_groups", broken)
    with pytest.raises(tl.SchemaError, match=r"`ts` is null in 1 rows of row group 0 of .*part-000\.parquet"):
        list(task.run(iter([pa.record_batch({"id": range(len(task.slices))})])))


def test_files_that_are_not_of_parquet_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(tl.FileError, match=r"notes\.txt is no Parquet file .*; leave it out"):
        ts.scan_parquet(spark, str(tmp_path), time="ts")


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "sym", "partitions": 2}])
def test_files_that_are_written_again_or_gone_are_not_read(
    spark: SparkSession, tmp_path: Path, how: dict[str, Any]
) -> None:
    table = ticks(np.random.default_rng(2), 40)
    path = Path(written(tmp_path / "ticks", table, files=2, group=10))
    scan = ts.scan_parquet(spark, str(path), time="ts")
    last = path / "part-001.parquet"
    # Fewer row groups, other ones, and as many with other rows in the file's own order.
    for rows, group in ((20, 20), (19, 10), (20, 9)):
        pq.write_table(table.slice(20, rows), last, row_group_size=group)
        found = rf"part-001.parquet was written again .* 20 rows .* has {rows}"
        with pytest.raises(tl.FileError, match=found) as caught, ts.errors():
            ts.run(ONE["zscore"], scan, **how).collect()
        assert caught.value.hint == "scan the files again"
    pq.write_table(table.slice(20), last, row_group_size=10)
    assert ts.run(ONE["zscore"], scan, **how).count() == 40
    last.unlink()
    with pytest.raises(tl.FileError, match=r"part-001.parquet cannot be read any more \("), ts.errors():
        ts.run(ONE["zscore"], scan, **how).collect()
    last.write_bytes(b"nonsense")
    with pytest.raises(tl.FileError, match=r"part-001.parquet cannot be read any more \("), ts.errors():
        ts.run(ONE["zscore"], scan, **how).collect()


def _scan(path: str) -> ts.ParquetSource:
    """Scan files for a query that is planned and not run."""
    settings = {"spark.sql.shuffle.partitions": "3", "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
    session: Any = SimpleNamespace(conf=settings)
    return ts.scan_parquet(session, path, time="ts")


def _read(scan: ts.ParquetSource) -> list[pa.Table]:
    """Read the first row group of each file, as a task does."""
    given = TaskInput("stream", scan.events, scan.schema())
    return [parquet.read_groups(given, group.file, [0])[0] for group in scan.groups if group.number == 0]


def test_files_of_another_day_are_not_read(tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 40)
    how: dict[str, Any] = {"row_group_size": 10, "compression": "none", "use_dictionary": False}
    path = tmp_path / "ticks.parquet"
    pq.write_table(table, path, **how)
    scan, size = _scan(str(path)), path.stat().st_size
    later = pa.compute.add(table.column("ts"), pa.scalar(dt.timedelta(days=1)))
    pq.write_table(table.set_column(table.schema.get_field_index("ts"), "ts", later), path, **how)
    assert path.stat().st_size == size
    with pytest.raises(tl.FileError, match=r"ticks.parquet was written again .* but other times or row groups; scan"):
        _read(scan)
    pq.write_table(table, path, **how)
    assert _read(scan) == [table.slice(0, 10)]


def test_footers_are_not_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = written(tmp_path / "ticks", ticks(np.random.default_rng(2), 120), files=60, group=1)
    described = Footer.of
    alive: list[int] = []
    known: list[weakref.ref[Any]] = []

    def counted(path: str, size: int, metadata: pq.FileMetaData, columns: tuple[str, ...]) -> Footer:
        known.append(weakref.ref(metadata))
        alive.append(sum(one() is not None for one in list(known)))
        return described(path, size, metadata, columns)

    monkeypatch.setattr(Footer, "of", counted)
    assert len(_scan(path).groups) == 120
    assert len(alive) == 60 and max(alive) <= parquet._AT_A_TIME


def test_missing_memory_is_not_blamed_on_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scan = _scan(written(tmp_path / "ticks", ticks(np.random.default_rng(2), 4), files=1, group=4))
    error: Exception = pa.ArrowMemoryError("malloc of size 64 failed")

    def failing(_path: str) -> None:
        raise error

    monkeypatch.setattr(parquet, "_opened", failing)
    with pytest.raises(MemoryError, match="malloc"):
        _read(scan)
    error = OSError()
    with pytest.raises(tl.FileError, match=r"part-000.parquet cannot be read any more \(OSError\)"):
        _read(scan)


def test_options_of_files_do_not_depend_on_what_is_in_them(tmp_path: Path) -> None:
    scan = _scan(written(tmp_path / "ticks", ticks(np.random.default_rng(1), 400), files=2, group=20))
    far, near = (lambda x: x["price"]["-60s":].mean()), (lambda x: x["price"]["-1s":].mean())
    for options in ({}, {"tasks": 2}, {"warmup": "1s"}):
        assert isinstance(_planned(far, scan, {"key": "sym", **options}), Scanned)
        assert isinstance(_planned(near, scan, {"key": "sym", **options}), Direct)
    for query in (far, near):
        assert isinstance(_planned(query, scan, {"key": "sym", "partitions": 2}), Scanned)
        for how in ({}, {"key": "sym"}):
            assert isinstance(_planned(query, scan, {"ordered": True, "slices": 3, **how}), Direct)
        with pytest.raises(tl.QueryError, match="tasks= has no meaning here, as rows go to partitions by their key"):
            _planned(query, scan, {"key": "sym", "partitions": 2, "tasks": 2})
        with pytest.raises(tl.QueryError, match="skew= has no meaning"):
            _planned(query, scan, {"key": "sym", "skew": 2.0})


@pytest.mark.parametrize("name", ["diff", "filled", "zscore", "sessions", "texts"])
def test_keys_of_files_are_the_local_result(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = ticks(np.random.default_rng(len(name)), 300)
    path = written(tmp_path / "ticks", table, files=3, group=30)
    scan = ts.scan_parquet(spark, path, time="ts")
    found = ts.run(KEYED[name], scan, key="sym", partitions=3)
    same(by_time_and_key(found.toArrow(), "sym"), local(KEYED[name], {"stream": table}, key="sym"))


def test_files_are_cut_by_key_where_time_does_not_do(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "ticks", ticks(np.random.default_rng(1), 400), files=2, group=20)
    scan = ts.scan_parquet(spark, path, time="ts")
    by_key, by_time = "by key `sym`", "slices of the timeline"
    assert by_key in ts.explain(KEYED["diff"], scan, time="ts", key="sym")
    assert by_key in ts.explain(KEYED["filled"], scan, time="ts", key="sym")
    # Most of the time between the first and the last row.
    assert by_key in ts.explain(lambda x: x["price"]["-60s":].mean(), scan, time="ts", key="sym")
    assert by_time in ts.explain(lambda x: x["price"]["-1s":].mean(), scan, time="ts", key="sym")
    assert by_time in ts.explain(lambda x: x["price"]["-60s":].mean(), scan, time="ts", key="sym", slices=5)


@pytest.mark.parametrize("kind", ["text", "category", "number", "fraction", "flag", "moment"])
def test_keys_of_files_may_have_many_types(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(3)
    trades, prices = ticks(rng, 200), quotes(rng, 150)
    values: dict[str, list[object]] = {
        "text": ["a", "é", "", None],
        "category": ["a", "é", "", None],
        "number": [1, -2, 3, None],
        "fraction": [0.0, -0.0, float("nan"), None],
        "flag": [True, False, None, None],
        "moment": [dt.datetime(2026, 1, 1), dt.datetime(1960, 1, 1), None, None],  # noqa: DTZ001
    }
    keys = pa.array(values[kind])
    keys = keys.dictionary_encode() if kind == "category" else keys
    tables = {
        name: table.set_column(
            table.column_names.index("sym"), "k", keys.take(pa.array(rng.integers(0, 4, len(table))))
        )
        for name, table in {"trades": trades, "quotes": prices}.items()
    }
    scans = {
        name: ts.scan_parquet(spark, written(tmp_path / name, table, files=2, group=40), time="ts")
        for name, table in tables.items()
    }
    found = ts.run(TWO["asof"], scans, key="k", partitions=3).toArrow()
    expected = local(TWO["asof"], tables, key="k")
    order = [(column, "ascending") for column in ("ts", "size", "price", "mid")]
    assert len(found) == len(expected) == 200
    for column in ("ts", "size", "price", "mid"):
        assert found.sort_by(order).column(column).equals(expected.sort_by(order).column(column))


def test_an_input_of_files_without_a_key_goes_to_every_task(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    trades, market = ticks(rng, 200), quotes(rng, 100).select(["ts", "bid"])
    streams = [tl.stream(trades, time="ts", name="trades", overlap="bag").key_by("sym")]
    streams.append(tl.stream(market, time="ts", name="market", overlap="bag"))
    query: Query = lambda trades, market: trades.with_columns(bid=market["bid"].hold())  # noqa: E731
    scans = {
        "trades": ts.scan_parquet(spark, written(tmp_path / "t", trades, files=2, group=30), time="ts", key="sym"),
        "market": ts.scan_parquet(spark, written(tmp_path / "m", market, files=1, group=30), time="ts"),
    }
    found = ts.run(query, scans, partitions=3).toArrow()
    same(by_time_and_key(found, "sym"), query(*streams).collect(layout="point").to_arrow())


def test_a_slice_of_files_with_many_rows_is_cut_further(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 400)
    scan = ts.scan_parquet(spark, written(tmp_path / "ticks", table, files=2, group=20), time="ts")
    how: dict[str, Any] = {"slices": 2, "memory": 50 * ROW}
    assert "8 slices of the timeline in 2 tasks" in ts.explain(ONE["zscore"], scan, **how)
    same(ts.run(ONE["zscore"], scan, **how).toArrow(), local(ONE["zscore"], {"stream": table}))
