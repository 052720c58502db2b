"""Kills runs at random moments and compares what they have written in the end with a run on all rows, bit for bit.

    python tests/kill/kill.py [--kills 200] [--seed 1]

Rows are written while the run reads them, in pieces that end anywhere, and the run commits after every few of them.
Most kills come within a hundred milliseconds after the first commit of a life, some before it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import polars as pl

import tilt as tl
from tilt.live.state import Commit
from victim import CASES, Case

VICTIM = Path(__file__).with_name("victim.py")
ROWS_A_LIFE = 120
ROWS_A_FILE = 8


class Feed:
    """The rows of one stream, written bit by bit."""

    def __init__(self, directory: Path, format_: str, rows: pl.DataFrame, chance: random.Random) -> None:
        self.directory = directory
        self.format = format_
        self.rows = rows
        self._chance = chance
        self._written = 0
        self._files = 0
        text = rows.write_ndjson() if format_ == "jsonl" else rows.write_csv()
        self._bytes = text.encode()
        directory.mkdir(parents=True)

    def write(self, share: float) -> None:
        """Write some more, up to a share of all."""
        if self.format in ("jsonl", "csv"):
            upto = int(len(self._bytes) * share)
            with (self.directory / f"0.{self.format}").open("ab") as file:
                file.write(self._bytes[self._written : upto])
            self._written = max(upto, self._written)
            return
        upto = int(len(self.rows) * share)
        if upto < self._written + ROWS_A_FILE and upto < len(self.rows):
            return
        part = self.rows[self._written : upto]
        path = self.directory / f"{self._files:06}.{'arrow' if self.format == 'ipc' else self.format}"
        hidden = path.with_name(f"_{path.name}")
        (part.write_ipc if self.format == "ipc" else part.write_parquet)(hidden)
        if self._chance.random() < 0.3:
            # Some programs do not write under another name first.
            data = hidden.read_bytes()
            cut = self._chance.randrange(len(data))
            with path.open("wb") as file:
                file.write(data[:cut])
                file.flush()
                time.sleep(0.003)
                file.write(data[cut:])
            hidden.unlink()
        else:
            hidden.rename(path)
        self._written, self._files = upto, self._files + 1


def drawn(rows: int, columns: list[str], lateness: int, chance: random.Random) -> pl.DataFrame:
    """Draw rows in an order that a lateness of so many seconds allows."""
    times = sorted(chance.randrange(rows // 2) for _ in range(rows))
    order = sorted(range(rows), key=lambda i: (times[i] + chance.randrange(lateness + 1), i))
    found = {
        "t": [times[i] for i in order],
        "px": [chance.choice([chance.gauss(100, 10), 0.1 * chance.randrange(1000), -0.0]) for _ in order],
        "sym": [chance.choice("abc") for _ in order],
    }
    return pl.DataFrame(found).select(columns)


def killed(case: Case, name: str, place: Path, kills: int, chance: random.Random) -> Counter[str]:
    """Run a case, kill it so often, let it end, and compare. Give how kills came upon it."""
    query = case.query()
    total = max(1, kills) * ROWS_A_LIFE
    feeds = {}
    for stream, format_ in case.formats.items():
        columns = list(query._sources[stream].peek().columns)
        rows = drawn(total, columns, case.delay if case.lateness else 0, chance)
        feeds[stream] = Feed(place / stream, format_, rows, chance)
    found: Counter[str] = Counter()
    for life in range(kills):
        has_begun = one_life(name, place, feeds, (life, kills), chance)
        found[seen(place) if has_begun else "before its first commit"] += 1
    for feed in feeds.values():
        feed.write(1.0)
    command = [sys.executable, str(VICTIM), name, str(place), "--last"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    compare(case, query, place, {stream: feed.rows for stream, feed in feeds.items()})
    return found


def one_life(name: str, place: Path, feeds: dict[str, Feed], life: tuple[int, int], chance: random.Random) -> bool:
    """Let the run go on, and kill it at some moment. Tell whether it had begun to commit."""
    command = [sys.executable, str(VICTIM), name, str(place)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    begun, ready = time.monotonic(), None
    early = chance.random() * 0.5 if chance.random() < 0.15 else None
    lasts = chance.choice([0.005, 0.03, 0.15]) * chance.random()
    share = 0.0
    try:
        while True:
            now = time.monotonic()
            if process.poll() is not None:
                message = f"{name}: the run ended by itself with {process.returncode}"
                raise AssertionError(message)
            if ready is None and process.stdout.read():
                ready = now
            if (ready is not None and now - ready > lasts) or (early is not None and now - begun > early):
                return ready is not None
            share = min(1.0, share + 0.01)
            for feed in feeds.values():
                feed.write((life[0] + share) / life[1])
            time.sleep(0.001)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def seen(place: Path) -> str:
    """Tell what a kill has left."""
    if (place / "state" / ".commit.new").exists():
        return "while it wrote a commit"
    if not (place / "state" / "commit").exists():
        return "before any commit"
    commit = Commit.unpacked((place / "state" / "commit").read_bytes())
    if commit.output is None:
        return "after a commit without results"
    _, position = commit.sink
    single = next(place.glob("out.*"), None)
    if single is not None:
        more = single.stat().st_size - position
        return "between commit and delivery" if more == 0 else "after delivery began"
    if any((place / "out").glob(".part-*")):
        return "while it wrote a part"
    parts = len(list((place / "out").glob("part-*")))
    return "between commit and delivery" if parts == position else "after delivery"


def compare(case: Case, query: tl.Stream, place: Path, rows: dict[str, pl.DataFrame]) -> None:
    """Refuse what is not, bit for bit, the result of a run on rows that count, and late rows that are not the rest."""
    if case.late == "drop":
        assert case.lateness is not None
        [(stream, frame)] = rows.items()
        lateness = int(case.lateness.removesuffix("s"))
        behind = frame["t"].cum_max() - lateness - frame["t"]
        compare_late(place / "late.jsonl", frame.with_columns(by=behind).filter(behind > 0))
        rows = {stream: frame.filter(behind <= 0)}
    whole = query.run(**{name: frame.sort("t", maintain_order=True) for name, frame in rows.items()})
    if case.sink in ("jsonl", "csv"):
        expected = place / "expected"
        (whole.write_jsonl if case.sink == "jsonl" else whole.write_csv)(expected)
        found = next(place.glob("out.*")).read_bytes()
        assert found == expected.read_bytes(), f"{place} has another result than a run on all rows"
        return
    parts = sorted((place / "out").glob("part-*"))
    assert [int(part.name[5:13]) for part in parts] == list(range(len(parts)))
    read = pl.read_parquet if case.sink == "parquet" else pl.read_ipc
    together = pl.concat([read(part) for part in parts])
    assert together.columns == whole.columns
    for column in whole.columns:
        a, b = (frame[column] for frame in (together, whole.to_polars()))
        if a.dtype == pl.Float64:
            a, b = a.reinterpret(dtype=pl.UInt64), b.reinterpret(dtype=pl.UInt64)
        assert a.equals(b, check_dtypes=True, null_equal=True), f"{place}: column {column} differs"


def compare_late(path: Path, late: pl.DataFrame) -> None:
    """Refuse late rows that are not these, once each and in the order in which they came."""
    assert len(late) > 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = [(line["end"], line["px"], line["sym"], line["late"], line["late_by"]) for line in lines]
    expected = [(row["t"], row["px"], row["sym"], "dropped", row["by"]) for row in late.iter_rows(named=True)]
    # As texts, which tell bits apart.
    assert [*map(repr, found)] == [*map(repr, expected)], f"{path} has other late rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    begun = time.monotonic()
    for number, (name, case) in enumerate(CASES.items()):
        kills = options.kills // len(CASES) + (number < options.kills % len(CASES))
        with tempfile.TemporaryDirectory() as place:
            found = killed(case, name, Path(place), kills, chance)
        print(f"{name}: {kills} kills, results as of a run on all rows")
        for moment, count in sorted(found.items()):
            print(f"  {count:4} {moment}")
    print(f"{options.kills} kills in {time.monotonic() - begun:.0f} s, nothing lost, nothing twice")


if __name__ == "__main__":
    main()
