"""Keys with most of the rows are cut by time, and the result stays what it was."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import KEYED, ONE, TWO, Query, quotes, ticks
from test_run import by_time_and_key, local, ordered, same
from tilt import spark as ts
from tilt.spark import skew
from tilt.spark.cuts import Halo, Reach
from tilt.spark.placing import HASH
from tilt.spark.skew import TIME, SampleTask, SkewTask, filled
from tilt.spark.survey import CutInput


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample every row, and believe small samples."""
    monkeypatch.setattr(skew, "ONE_IN", 1)
    monkeypatch.setattr(skew, "ENOUGH", 20)


def skewed(table: pa.Table, seed: int) -> pa.Table:
    """Give most rows one key."""
    is_most = np.random.default_rng(seed).random(len(table)) < 0.8
    keys = np.where(is_most, "most", table.column("sym").to_numpy(zero_copy_only=False))
    return table.set_column(table.column_names.index("sym"), "sym", pa.array(keys, pa.string()))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["zscore", "ahead", "hopping", "held", "shifted"])
def test_split_keys_give_the_local_result(spark: SparkSession, name: str) -> None:
    table = skewed(ticks(np.random.default_rng(len(name)), 400), 1)
    frame = ordered(spark, table)
    found = ts.run(ONE[name], frame, time="ts", key="sym", partitions=4)
    where = found.withColumn("place", F.spark_partition_id()).where("sym = 'most'")
    assert where.select("place").distinct().count() > 2
    same(by_time_and_key(found.toArrow(), "sym"), local(ONE[name], {"stream": table}, key="sym"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", TWO)
def test_both_inputs_of_split_keys_are_cut(spark: SparkSession, name: str) -> None:
    rng = np.random.default_rng(3)
    tables = {"trades": skewed(ticks(rng, 200), 1), "quotes": skewed(quotes(rng, 250), 2)}
    frames = {key: ordered(spark, table) for key, table in tables.items()}
    found = ts.run(TWO[name], frames, time="ts", key="sym", partitions=3).toArrow()
    same(by_time_and_key(found, "sym"), local(TWO[name], tables, key="sym"))


@pytest.mark.usefixtures("small")
def test_an_input_without_a_key_goes_to_slices_too(spark: SparkSession) -> None:
    rng = np.random.default_rng(4)
    trades, market = skewed(ticks(rng, 300), 1), quotes(rng, 100).select(["ts", "bid"])
    query: Query = lambda trades, market: trades.with_columns(bid=market["bid"].hold("20s"))  # noqa: E731
    streams = [tl.stream(trades, time="ts", name="trades", overlap="bag").key_by("sym")]
    streams.append(tl.stream(market, time="ts", name="market", overlap="bag"))
    expected = query(*streams).collect(layout="point").to_arrow()
    frames = {
        "trades": ts.source(ordered(spark, trades), time="ts", key="sym", overlap="bag"),
        "market": ts.source(ordered(spark, market), time="ts", overlap="bag"),
    }
    found = ts.run(query, frames, partitions=3).toArrow()
    same(by_time_and_key(found, "sym"), expected)


@pytest.mark.usefixtures("small")
def test_queries_that_cannot_be_cut_are_not_sampled(spark: SparkSession) -> None:
    frame = ordered(spark, skewed(ticks(np.random.default_rng(5), 100), 1))
    for name in ("diff", "filled", "sessions"):
        assert "cut by time" not in ts.explain(KEYED[name], frame, time="ts", key="sym")
    assert "cut by time" in ts.explain(ONE["zscore"], frame, time="ts", key="sym")
    assert "cut by time" not in ts.explain(ONE["zscore"], frame, time="ts", key="sym", skew=None)


def test_samples_tell_frequent_keys() -> None:
    rng = np.random.default_rng(1)
    hashes = np.where(rng.random(4000) < 0.5, 7, rng.integers(100, 10_000, 4000))
    times = np.sort(rng.integers(0, 1_000_000, 4000))
    rows = pa.record_batch({HASH: hashes, TIME: times})
    told = [batch for half in (rows.slice(0, 2000), rows.slice(2000)) for batch in SampleTask(0, 10).run(iter([half]))]
    given = CutInput(1, 1, Halo(Reach(10), Reach(0)))
    (found,) = SkewTask(partitions=10, skew=2.0, enough=100, inputs=(given,)).run(iter(told))
    plan = pickle.loads(found.column("plan")[0].as_py())
    assert plan.keys == (7,)
    parts = np.diff([0, *np.searchsorted(times[hashes == 7], plan.slices.cuts), (hashes == 7).sum()])
    assert len(parts) == len(plan.places) == found.column("slices")[0].as_py()
    loads = np.bincount(hashes[hashes != 7] % 10, minlength=10)
    np.add.at(loads, [*plan.places], parts)
    assert loads.max() < 1.15 * loads.mean()


def test_only_keys_that_are_worth_it_are_told() -> None:
    rng = np.random.default_rng(2)
    hashes = np.concatenate([np.full(200, 7), np.full(40, 9), np.arange(100, 10_000)])
    times = rng.permutation(len(hashes))
    (told,) = SampleTask(1, 5).run(iter([pa.record_batch({HASH: hashes, TIME: times})]))
    # A place has about 2028 rows, of which a 64th are 32.
    *keys, loads = told.to_pylist()
    assert [(row["hash"], row["rows"], row["input"]) for row in keys] == [(7, 200, 1), (9, 40, 1)]
    assert [row["first"] for row in keys] == [times[:200].min(), times[200:240].min()]
    assert [row["last"] for row in keys] == [times[:200].max(), times[200:240].max()]
    assert keys[1]["points"] == sorted(times[200:240])
    assert loads["hash"] is None
    assert loads["loads"] == np.bincount(hashes % 5).tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=30), st.integers(1, 5000))
def test_slices_fill_places_that_have_few_rows(loads: list[int], more: int) -> None:
    before = np.array(loads, np.float64)
    shares = filled(before, more)
    assert sum(shares.values()) == pytest.approx(1)
    assert all(share > 0 for share in shares.values())
    after = before.copy()
    for place, share in shares.items():
        after[place] += share * more
    levels = [after[place] for place in shares]
    # All that get some are level then, and no higher than they have to be.
    assert max(levels) == pytest.approx(min(levels))
    assert max(levels) <= max(before.max(), 2 * after.mean(), before.min() + more / 2) + 1e-6


def test_even_keys_stay_whole() -> None:
    rows = pa.record_batch({HASH: np.arange(5000) % 50, TIME: np.arange(5000)})
    given = CutInput(1, 1, Halo(Reach(10), Reach(0)))
    (found,) = SkewTask(partitions=10, skew=2.0, enough=50, inputs=(given,)).run(SampleTask(0, 10).run(iter([rows])))
    assert found.column("plan").to_pylist() == [None]
    assert list(SampleTask(0, 10).run(iter([]))) == []
