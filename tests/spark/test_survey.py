"""What partitions tell of times and keys is little, however many there are, and slices are balanced all the same."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from test_packing import Context, dealt, seeds
from tilt.spark import skew, survey
from tilt.spark.cuts import Halo, Reach
from tilt.spark.placing import HASH
from tilt.spark.skew import TIME, MergeTask, SampleTask, SkewTask
from tilt.spark.survey import CutInput, CutTask, SurveyTask, points_of, thinned

ALONE = CutInput(1, 1, Halo(Reach(10), Reach(0)))
Times = npt.NDArray[np.int64]


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 3000), st.integers(1, 40), st.integers(0, 1000))
def test_surveys_do_not_depend_on_batches(seed: int, rows: int, points: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    table = pa.table({"ts": pa.array(rng.integers(0, 1000, rows), mask=rng.random(rows) < 0.1)})
    task = SurveyTask(0, ("ts", "ts"), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "points_of", lambda _number, _slices: points)
        patch.setattr(TaskContext, "get", partial(Context, number))
        one, other = (list(task.run(iter(dealt(rng, table, 1)[0]))) for _ in range(2))
    times = table.column("ts").drop_null().to_pylist()
    if not times:
        assert one == other == []
        return
    (found,) = one
    assert (found.column("first")[0].as_py(), found.column("last")[0].as_py()) == (min(times), max(times))
    assert found.column("rows")[0].as_py() == len(times)
    told = found.column("points")[0].as_py()
    assert set(told) <= set(times) and min(points, len(times)) <= len(told) <= 2 * points + 1
    assert found.equals(other[0])


def surveyed(parts: list[Times], numbers: list[int], slices: int) -> Iterator[pa.RecordBatch]:
    """Give what partitions tell that have these numbers."""
    task = SurveyTask(0, ("ts", "ts"), slices)
    with pytest.MonkeyPatch.context() as patch:
        for part, number in zip(parts, numbers, strict=True):
            patch.setattr(TaskContext, "get", partial(Context, number))
            yield from task.run(iter([pa.record_batch({"ts": part})]))


@pytest.mark.parametrize("is_ordered", [False, True])
def test_many_partitions_give_balanced_slices(monkeypatch: pytest.MonkeyPatch, *, is_ordered: bool) -> None:
    # As of eighty thousand partitions, each fortieth: of those with high numbers little is told.
    rng = np.random.default_rng(int(is_ordered))
    rows, partitions, slices = 8_000_000, 2000, 400
    times = rng.integers(0, 1 << 40, rows)
    times[: rows // 2] = rng.choice(rng.integers(0, 1 << 40, 20), rows // 2) + rng.integers(0, 1 << 20, rows // 2)
    whole = np.sort(times)
    parts = np.array_split(whole if is_ordered else times, partitions)
    told = [*surveyed(parts, [40 * at for at in range(partitions)], slices)]
    points = sum(len(one.column("points").flatten()) for one in told)
    assert points < 3 * sum(points_of(40 * at, slices) for at in range(partitions)) < rows
    for held in (1 << 23, 1 << 17):
        monkeypatch.setattr(survey, "_HELD", held)
        batches = pa.Table.from_batches(told).combine_chunks().to_batches(max_chunksize=300)
        (plan,) = CutTask(slices, (ALONE,)).run(iter(batches))
        assert plan.column("start")[0].as_py() == whole[0] - 1
        assert plan.column("end")[0].as_py() == whole[-1]
        cuts = pickle.loads(plan.column("plan")[0].as_py()).slices.cuts
        counts = np.diff([0, *np.searchsorted(whole, cuts, side="right"), rows])
        assert len(counts) == slices
        assert counts.max() < 1.25 * counts.mean()


@pytest.mark.parametrize("inputs", [1, 2])
def test_the_memory_for_cuts_does_not_grow_with_what_is_told(monkeypatch: pytest.MonkeyPatch, inputs: int) -> None:
    monkeypatch.setattr(survey, "_HELD", 1 << 18)
    monkeypatch.setattr(survey, "_CUT", 1 << 16)
    rng = np.random.default_rng(4)
    told = []
    for at in range(64):
        times = rng.integers(0, 1 << 40, 1 << 14)
        row = {"input": at % inputs, "rows": len(times), "first": times.min(), "last": times.max(), "points": times}
        told.append(survey.row_of(row, survey._TOLD))
    peaks = []
    for count in (16, 64):
        tracemalloc.start()
        (plan,) = CutTask(200, (ALONE,) * inputs).run(iter(told[:count]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 400 * survey._CUT
    assert peaks[1] < 1.5 * peaks[0]
    whole = np.sort(np.concatenate([one.column("points").flatten().to_numpy() for one in told]))
    cuts = pickle.loads(plan.column("plan")[0].as_py()).slices.cuts
    counts = np.diff([0, *np.searchsorted(whole, cuts, side="right"), len(whole)])
    assert len(counts) == 200 and counts.max() < 1.05 * counts.mean()


def test_what_partitions_tell_is_bounded_together() -> None:
    told = [points_of(number, 40_000) for number in range(80_000)]
    assert sum(told) < 40_000_000
    assert min(told) >= 256


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 500), st.integers(1, 60))
def test_thinned_points_stand_for_as_many_rows(seed: int, count: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    points, weights = rng.integers(0, 100, count), rng.integers(1, 9, count).astype(np.float64)
    kept, after = thinned(points, weights, number)
    assert len(kept) <= number and set(kept.tolist()) <= set(points.tolist())
    assert after.sum() == weights.sum()
    for at in range(101):
        missing = weights[points <= at].sum() - after[kept <= at].sum()
        assert -1e-6 <= missing <= weights.sum() / number + weights.max() + 1e-6


def test_rows_of_many_places_are_added_up_in_steps() -> None:
    rng = np.random.default_rng(3)
    places, partitions = 1000, 60
    assert places > skew._TOGETHER
    task = SampleTask(0, places)
    told: list[pa.RecordBatch] = []
    hashes = np.where(rng.random(90_000) < 0.3, 7, rng.integers(1000, 50_000, 90_000))
    times = rng.integers(0, 1_000_000, 90_000)
    with pytest.MonkeyPatch.context() as patch:
        for number, mine in enumerate(np.array_split(np.arange(90_000), partitions)):
            patch.setattr(TaskContext, "get", partial(Context, 60 * number))
            told += task.run(iter([pa.record_batch({HASH: hashes[mine], TIME: times[mine]})]))
    points = [len(batch.column("points").flatten()) for batch in told]
    assert points[-1] < points[0] / 2
    merged = [batch for first in range(0, 60, 20) for batch in MergeTask(places).run(iter(told[first : first + 20]))]
    whole = SkewTask(places, 2.0, 100, (ALONE,))
    (one,), (other,) = whole.run(iter(told)), whole.run(iter(merged))
    assert one.equals(other)
    plan = pickle.loads(one.column("plan")[0].as_py())
    assert plan.keys == (7,)
    parts = np.diff([0, *np.searchsorted(np.sort(times[hashes == 7]), plan.slices.cuts), (hashes == 7).sum()])
    loads = np.bincount(hashes[hashes != 7] % places, minlength=places)
    np.add.at(loads, [*plan.places], parts)
    assert loads.max() < 2 * loads.mean()


def test_nothing_is_cut_where_nothing_is_told() -> None:
    (plan,) = CutTask(3, (ALONE, ALONE)).run(iter([]))
    assert plan.column("slices").to_pylist() == [None]
    assert pickle.loads(plan.column("plan")[0].as_py()).slices.cuts == ()
