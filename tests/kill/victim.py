"""A run that is to be killed: python victim.py CASE DIRECTORY [--last], where --last ends it with its input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tilt as tl


@dataclass(frozen=True)
class Case:
    """A query between files."""

    query: Callable[[], tl.Stream]
    formats: dict[str, str]
    """How the rows of each stream are written."""
    sink: Literal["parquet", "ipc", "csv", "jsonl"]
    lateness: str | None = None
    delay: int = 5
    """How many seconds rows come late at most, where there is a lateness."""
    late: Literal["raise", "drop"] = "raise"
    """What becomes of those that are later than that; if they are left out, they go to a sink of their own."""

    def _sink(self, place: Path) -> tl.live.Sink:
        if self.sink in ("jsonl", "csv"):
            return tl.live.FileSink(place / f"out.{self.sink}")
        return tl.live.PartSink(place / "out", self.sink)

    def runner(self, place: Path, *, follow: bool, ready: Callable[[], object]) -> tl.live.Runner:
        """Begin the run, or go on with it."""
        sources = {name: tl.live.FolderSource(place / name, follow=follow) for name in self.formats}
        return tl.live.Runner(
            self.query(),
            sources,
            self._sink(place),
            place / "state",
            every=0,
            on_commit=lambda _: ready(),
            lateness=self.lateness,
            late=self.late,
            late_sink=tl.live.FileSink(place / "late.jsonl") if self.late == "drop" else None,
        )


def _mean() -> tl.Stream:
    ticks = tl.source("ticks", {"t": "i64", "px": "f64"}, time="t", unit="s")
    return ticks["px"]["-10s":].mean()


def _keyed() -> tl.Stream:
    ticks = tl.source("ticks", {"t": "i64", "px": "f64", "sym": "utf8"}, time="t", unit="s").key_by("sym")
    return ticks.with_columns(mean=ticks["px"]["-30s":].mean(), most=ticks["px"]["-60s":].max())


def _totals() -> tl.Stream:
    ticks = tl.source("ticks", {"t": "i64", "px": "f64", "sym": "utf8"}, time="t", unit="s").key_by("sym")
    # What each key looks back to is carried.
    return ticks.with_columns(total=ticks["px"].cum_sum(), most=ticks["px"].cum_max(), mean=ticks["px"]["-30s":].mean())


def _spread() -> tl.Stream:
    bids = tl.source("bids", {"t": "i64", "px": "f64"}, time="t", unit="s", overlap="last")["px"]
    asks = tl.source("asks", {"t": "i64", "px": "f64"}, time="t", unit="s", overlap="last")["px"]
    return (asks.hold() - bids.hold())["-20s":].mean()


CASES = {
    "mean of lines that grow, to lines": Case(_mean, {"ticks": "jsonl"}, "jsonl", "5s"),
    "mean of CSV that grows, to CSV": Case(_mean, {"ticks": "csv"}, "csv", "5s"),
    "by key, of Parquet files, to Parquet parts": Case(_keyed, {"ticks": "parquet"}, "parquet"),
    "of two streams, lines and Arrow files, to Arrow parts": Case(
        _spread, {"bids": "jsonl", "asks": "ipc"}, "ipc", "5s"
    ),
    "totals by key, of lines with late ones, to Parquet parts": Case(
        _totals, {"ticks": "jsonl"}, "parquet", "5s", delay=8, late="drop"
    ),
}

if __name__ == "__main__":
    lines = iter(["ready\n"])
    tell = lambda: print(next(lines, ""), end="", flush=True)  # noqa: E731
    with CASES[sys.argv[1]].runner(Path(sys.argv[2]), follow="--last" not in sys.argv, ready=tell) as runner:
        runner.run()
