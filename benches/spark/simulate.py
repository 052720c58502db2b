"""Cost and balance of slices under arrivals that are steady, daily or bursty, and of keys that have unequal rows.

    python -m benches.spark.simulate [MEASURED]

With the file in which ``python -m benches.spark`` keeps what it measured, the costs are fitted to that.
"""

from __future__ import annotations

import json
import pickle
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benches.spark.costs import COSTS, fitted
from tilt.spark.cuts import Halo, Reach, Slices
from tilt.spark.placing import HASH
from tilt.spark.skew import ENOUGH, ONE_IN, TIME, SampleTask, SkewTask
from tilt.spark.survey import CutInput

Times = npt.NDArray[np.int64]
SECOND = 1_000_000
RUN = 0.05
"""CPU seconds that a query takes for a million rows."""


def arrivals(kind: str, rows: int, rng: np.random.Generator) -> Times:
    """Give the times of a day's rows."""
    day = 86_400 * SECOND
    if kind == "steady":
        return np.sort(rng.integers(0, day, rows))
    if kind == "daily":
        return np.sort((rng.beta(4, 4, rows) * day).astype(np.int64))
    # Half of the rows come in a hundred bursts of about a second.
    burst = rng.choice(rng.integers(0, day, 100), rows // 2) + rng.exponential(SECOND, rows // 2).astype(np.int64)
    return np.sort(np.concatenate([rng.integers(0, day, rows - rows // 2), burst]))


def tasks(times: Times, slices: int, lookback: int, *, equal: bool) -> Times:
    """Give the rows of each task, halo included, of slices with equal counts or of equal length."""
    if equal:
        cuts = np.linspace(times[0], times[-1], slices + 1)[1:-1].astype(np.int64)
    else:
        cells = 16 * slices
        points = np.quantile(times, np.linspace(0, 1, cells + 1)).astype(np.int64)
        share = len(times) // cells
        blocks = [(int(a), int(b), share) for a, b in pairwise(points)]
        cuts = np.array(Slices.by_counts(blocks, slices).cuts)
    begins = np.searchsorted(times, np.concatenate([[times[0] - 1], cuts]) - lookback, side="right")
    ends = np.searchsorted(times, np.concatenate([cuts, [times[-1]]]), side="right")
    return ends - begins


def keyed_tasks(times: Times, keys: Times, partitions: int, lookback: int) -> tuple[Times, Times]:
    """Give the rows of each task by key: hashed alone, and with keys that have many rows cut as the code does."""
    whole = np.bincount(keys % partitions, minlength=partitions)
    drawn = np.random.default_rng(2).random(len(times)) < 1 / ONE_IN
    sample = pa.record_batch({HASH: keys[drawn], TIME: times[drawn]})
    given = CutInput(1, 1, Halo(Reach(lookback), Reach(0)))
    (found,) = SkewTask(partitions, 1.5, ENOUGH, (given,)).run(SampleTask(0, partitions).run(iter([sample])))
    told = found.column("plan")[0].as_py()
    if told is None:
        return whole, whole
    plan = pickle.loads(told)  # noqa: S301
    is_split = np.isin(keys, plan.keys)
    cut = np.bincount(keys[~is_split] % partitions, minlength=partitions)
    own = times[is_split]
    begins = np.searchsorted(own, np.array([own[0] - 1, *plan.slices.cuts]) - lookback, side="right")
    ends = np.searchsorted(own, np.array([*plan.slices.cuts, own[-1]]), side="right")
    # Slices are beside keys that are whole.
    np.add.at(cut, [*plan.places], ends - begins)
    return whole, cut


def main() -> None:
    """Print the tables of docs/scale.md."""
    costs = COSTS
    if sys.argv[1:]:
        costs, text = fitted(json.loads(Path(sys.argv[1]).read_text()))
        print(f"{text}\n")
    rng = np.random.default_rng(1)
    rows = 2_000_000
    print("| arrivals | slices | halo | halo's share | largest task / mean, by counts | by equal time |")
    print("|---|---|---|---|---|---|")
    for kind in ("steady", "daily", "bursty"):
        times = arrivals(kind, rows, rng)
        for slices in (20, 200):
            for seconds in (20, 120):
                counted, equal = (tasks(times, slices, seconds * SECOND, equal=how) for how in (False, True))
                share = counted.sum() / rows - 1
                ratios = [found.max() / found.mean() for found in (counted, equal)]
                print(f"| {kind} | {slices} | {seconds} s | {share:.3f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    print("\n| keys | partitions | largest task / rows a partition, hashed alone | with many rows cut |")
    print("|---|---|---|---|")
    times = arrivals("daily", rows, rng)
    for shape in (1.1, 1.5, 3.0):
        keys = rng.zipf(shape, rows).astype(np.int64) % 1_000_003 * 2_654_435_761 % 2**31
        for partitions in (20, 200):
            alone, cut = keyed_tasks(times, keys, partitions, 20 * SECOND)
            ratios = [found.max() / (rows / partitions) for found in (alone, cut)]
            print(f"| Zipf {shape} | {partitions} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    print("\n| halo's share | by slices, CPU s per million rows | directly |\n|---|---|---|")
    for halo in (0.0, 0.03, 0.1, 1.0, 10.0):
        print(f"| {halo} | {costs.sliced(halo, RUN):.2f} | {costs.direct(halo, RUN):.2f} |")
    year = 4e11 / 1e6
    for name, cost in (("slices", costs.sliced(0.03, RUN)), ("direct", costs.direct(0.03, RUN))):
        hours, minutes = year * cost / 3600, year * cost / 4000 / 60
        print(f"10 TB over a year, by {name}: {hours:.0f} CPU hours, {minutes:.1f} minutes on 4,000 cores")


if __name__ == "__main__":
    main()
