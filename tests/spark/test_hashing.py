"""Keys that are equal have one hash, wherever that is found, and rows of whole numbers go where it says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import tilt as tl
from queries import KEYED, TWO, Query, quotes, ticks
from test_run import local, ordered, same
from tilt import spark as ts
from tilt.sources import Events
from tilt.spark import skew
from tilt.spark.hashing import hashes_of
from tilt.spark.packing import PLACE, unpacked
from tilt.spark.placing import HASH, PackTask
from tilt.spark.skew import KEY, TIME, SampleTask

WIDTHS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-128, 127), min_size=1), st.integers(0, 5))
def test_hashes_depend_on_the_number_alone(keys: list[int | None], first: int) -> None:
    found = [hashes_of(pa.array(keys, dtype)) for dtype in WIDTHS.values()]
    assert all((one == found[0]).all() for one in found)
    assert (found[0] >= 0).all()
    # Not on where the key stands, nor on what is stored in place of a missing one.
    assert (hashes_of(pa.array(keys, pa.int64()).slice(first)) == found[0][first:]).all()
    filled = pa.array([5 if key is None else key for key in keys], pa.int64())
    mask = pa.array([key is not None for key in keys])
    same_keys = pa.Array.from_buffers(pa.int64(), len(keys), [_bits(mask), filled.buffers()[1]])
    assert (hashes_of(same_keys) == found[0]).all()


def _bits(mask: pa.Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.asarray(mask), bitorder="little"))


def test_floats_that_are_equal_have_one_hash() -> None:
    keys = [0.0, -0.0, float("nan"), 1.5, None]
    wide, narrow = (hashes_of(pa.array(keys, dtype)) for dtype in (pa.float64(), pa.float32()))
    assert (wide == narrow).all()
    assert wide[0] == wide[1]
    other = np.array([0xFFF8000000000001], np.uint64).view(np.float64)
    assert hashes_of(pa.array(other))[0] == wide[2]


@pytest.mark.parametrize("step", [1, 2, 64, 1000, 1 << 20])
def test_numbers_that_follow_each_other_are_spread(step: int) -> None:
    loads = np.bincount(hashes_of(pa.array(np.arange(100_000) * step)) % 20, minlength=20)
    assert loads.max() < 1.2 * loads.mean()


def test_rows_without_a_hash_go_where_that_of_their_key_says() -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"ts": np.arange(2000), "key": pa.array(rng.integers(-50, 50, 2000), mask=rng.random(2000) < 0.1)})
    pack = PackTask(0, Events(time="ts", key="key"), (table.schema,), 7)
    blocks = list(pack.run(iter(table.to_batches(max_chunksize=300))))
    hashes = hashes_of(table.column("key").combine_chunks())
    for place in range(7):
        kept = [batch.filter(pa.compute.equal(batch.column(PLACE), place)) for batch in blocks]
        assert unpacked([batch for batch in kept if batch.num_rows], table.schema).equals(
            table.filter(pa.array(hashes % 7 == place))
        )


def test_samples_tell_the_same_of_keys_and_of_their_hashes() -> None:
    rng = np.random.default_rng(2)
    keys = pa.array(np.where(rng.random(3000) < 0.5, 7, rng.integers(0, 500, 3000)))
    times = pa.array(rng.permutation(3000), mask=rng.random(3000) < 0.1)
    told = []
    for name, column in ((KEY, keys), (HASH, pa.array(hashes_of(keys)))):
        batches = pa.table({name: column, TIME: times}).to_batches(max_chunksize=700)
        told.append(list(SampleTask(0, 5).run(iter(batches))))
    assert told[0] == told[1]
    missing = pa.record_batch({KEY: keys, TIME: pa.nulls(3000, pa.int64())})
    assert list(SampleTask(0, 5).run(iter([missing]))) == []


def numbered(table: pa.Table, dtype: pa.DataType, seed: int) -> pa.Table:
    """Give keys that are numbers or missing, one of them with most rows."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(len(table)) < 0.7, 3, rng.integers(-4, 4, len(table)))
    column = pa.array(keys, dtype, mask=rng.random(len(table)) < 0.05)
    return table.set_column(table.column_names.index("sym"), "sym", column)


def by_time_and_number(table: pa.Table) -> pa.Table:
    time = next(name for name in ("end", "b", "ts") if name in table.column_names)
    keys = zip(table.column(time).cast("int64").to_pylist(), table.column("sym").to_pylist(), strict=True)
    ranks = [(at, key is not None, key or 0) for at, key in keys]
    return table.take(pa.array(sorted(range(len(ranks)), key=ranks.__getitem__), pa.int64()))


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("dtype", [pa.int32(), pa.int64()])
def test_keys_that_are_numbers_give_the_local_result(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, dtype: pa.DataType, *, is_split: bool
) -> None:
    if is_split:
        monkeypatch.setattr(skew, "ONE_IN", 1)
        monkeypatch.setattr(skew, "ENOUGH", 20)
    rng = np.random.default_rng(int(is_split))
    trades, asked = numbered(ticks(rng, 300), dtype, 1), numbered(quotes(rng, 300), dtype, 2)
    for name in ("zscore", "diff", "held"):
        found = ts.run(KEYED[name], ordered(spark, trades), time="ts", key="sym", partitions=3).toArrow()
        same(by_time_and_number(found), local(KEYED[name], {"stream": trades}, key="sym"))
    tables = {"trades": trades, "quotes": asked}
    frames = {name: ordered(spark, table) for name, table in tables.items()}
    found = ts.run(TWO["asof"], frames, time="ts", key="sym", partitions=4).toArrow()
    same(by_time_and_number(found), local(TWO["asof"], tables, key="sym"))


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_span_is_that_of_intervals_of_numbers(spark: SparkSession, partitions: int) -> None:
    rng = np.random.default_rng(3)
    begin = np.cumsum(rng.integers(1, 9, 80))
    table = pa.table({"a": begin, "b": begin + 1, "sym": rng.integers(0, 5, 80), "x": rng.normal(size=80)})
    query: Query = lambda s: s["x"].hold(12)  # noqa: E731
    local_stream = tl.stream(table, valid=("a", "b"), overlap="bag").key_by("sym")
    expected = query(local_stream).collect(layout="interval").to_arrow()
    frame = ordered(spark, table)
    found = ts.run(query, frame, valid=("a", "b"), overlap="bag", key="sym", partitions=partitions).toArrow()
    same(by_time_and_number(found), by_time_and_number(expected))


@pytest.mark.parametrize("dtypes", [("int", "bigint"), ("float", "double"), ("tinyint", "int")])
def test_equal_keys_of_other_widths_meet(spark: SparkSession, dtypes: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    tables = {"trades": numbered(ticks(rng, 200), pa.int64(), 3), "quotes": numbered(quotes(rng, 200), pa.int64(), 4)}
    whole = {
        name: table.set_column(table.column_names.index("sym"), "sym", table.column("sym").cast(WIDE[dtype]))
        for (name, table), dtype in zip(tables.items(), dtypes, strict=True)
    }
    frames = {name: ordered(spark, table) for name, table in whole.items()}
    assert [frame.schema["sym"].dataType.simpleString() for frame in frames.values()] == [*dtypes]
    for how in ({"partitions": 7}, {"slices": 3}):
        found = ts.run(TWO["asof"], frames, time="ts", key="sym", **how).toArrow()
        same(by_time_and_number(found), local(TWO["asof"], whole, key="sym"))


WIDE = {"tinyint": pa.int8(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64()}
