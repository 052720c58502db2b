"""Using sessions of queries in stages: functions, callbacks, threads, coroutines, checkpoints, runs that survive."""

import asyncio
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tilt as tl
from arrivals import SCHEMA, bits, ordered, table, ticks, together, typed
from staged import QUERIES, Make, moves, spread, whole
from tilt.live import Session


def test_functions_of_python_and_what_they_raise() -> None:
    def doubled(x: float) -> float:
        if x > 100:
            message = "too much"
            raise RuntimeError(message)
        return 2 * x

    udf = tl.udf(doubled, args=[float], returns=float)
    query = udf(moves(ticks())["move"].window("5s").sum())
    live = query.session()
    parts = [live.push(table([(t, float(t), 0, "a")])) for t in range(4)]
    assert together(parts)["move"] == [value.hex() for value in (2.0, 4.0)]
    blob = live.checkpoint()
    with pytest.raises(RuntimeError, match="too much"):
        live.push(table([(5, 1000.0, 0, "a"), (7, 1.0, 0, "a")]))
    with pytest.raises(tl.TiltError, match="restore a checkpoint"):
        live.push(table([(9, 1.0, 0, "a")]))
    again = Session.restore(query, blob)
    assert again.close()["move"] == [6.0]


ROWS = [(t, float(t % 7), t % 3, "ab"[t % 2]) for t in range(200)]


def test_a_callback_gets_every_result() -> None:
    make = QUERIES["beside its rows"]
    seen: list[tl.Table] = []
    with make(ticks()).session(on_result=seen.append) as live:
        for first in range(0, 200, 10):
            live.push(table(ROWS[first : first + 10]))
    assert together(seen) == bits(whole(make, ordered(ROWS)))


def test_other_threads_send_and_push() -> None:
    make, rows = QUERIES["beside its rows"], ROWS
    expected = bits(whole(make, ordered(rows)))
    live = make(ticks()).session(lateness="500s")

    def feed() -> None:
        with live:
            for first in range(0, 200, 10):
                live.send(table(rows[first : first + 10]))

    feeder = threading.Thread(target=feed)
    feeder.start()
    parts = list(live)
    feeder.join()
    assert together(parts) == expected

    seen: list[tl.Table] = []
    live = make(ticks()).session(lateness="1000s", on_result=seen.append)

    def push(first: int) -> None:
        for r in rows[first::4]:
            live.push(dict(zip(SCHEMA, r, strict=True)))
            live.status()

    threads = [threading.Thread(target=push, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    live.close()
    assert together(seen) == expected


def test_coroutines_go_through_results() -> None:
    make = QUERIES["beside its rows"]

    async def main() -> list[tl.Table]:
        async with make(ticks()).session() as live:

            async def feed() -> None:
                for first in range(0, 200, 10):
                    live.send(table(ROWS[first : first + 10]))
                    await asyncio.sleep(0)
                live.end()

            feeding = asyncio.create_task(feed())
            found = [part async for part in live]
            await feeding
        return found

    assert together(asyncio.run(main())) == bits(whole(make, ordered(ROWS)))


def test_checkpoints_that_are_not_whole_or_of_another_query_are_refused() -> None:
    make = QUERIES["beside its rows"]
    query = make(ticks())
    live = query.session(lateness="2s")
    live.push(table([(1, 1.0, 0, "a"), (2, 2.0, 0, "a"), (9, 3.0, 0, "a")]))
    blob = live.checkpoint()
    expected = live.close().to_dict()
    assert Session.restore(query, bytearray(blob)).close().to_dict() == expected
    for cut in [0, 1, 8, 20, len(blob) // 3, len(blob) // 2, len(blob) - 1]:
        with pytest.raises(tl.CheckpointError):
            Session.restore(query, blob[:cut])
    with pytest.raises(tl.CheckpointError):
        Session.restore(query, blob + b"x")
    generator = np.random.default_rng(7)
    for _ in range(200):
        place = int(generator.integers(8 * len(blob)))
        flipped = bytearray(blob)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(tl.CheckpointError):
            Session.restore(query, bytes(flipped))
    others: list[Make] = [QUERIES["across keys"], QUERIES["one key after another"], lambda s: s["px"].window(9).sum()]
    for other in others:
        with pytest.raises(tl.CheckpointError):
            Session.restore(other(ticks()), blob)
        with pytest.raises(tl.CheckpointError):
            Session.restore(query, other(ticks()).session(lateness="2s").checkpoint())


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "updates": (
        lambda: QUERIES["across keys"](ticks()).session(mode="updates"),
        tl.QueryError,
        'leave out mode="updates"',
    ),
    "revisions": (
        lambda: QUERIES["across keys"](ticks()).session(late="revise", horizon="9s"),
        tl.QueryError,
        'late="drop" or "adjust"',
    ),
    "a start": (lambda: QUERIES["across keys"](ticks()).session(start=5), tl.QueryError, "leave out start="),
    "intervals that may overlap": (
        lambda: moves(ticks(valid="until_next"))["move"].window("5s").sum().session(),
        tl.QueryError,
        'on a grid, .every("1m")',
    ),
    # What beginners do.
    "rows for the stage": (
        lambda: QUERIES["across keys"](ticks()).session().push({"time": 1, "move": 1.0}, "stage"),
        tl.QueryError,
        "there is no stream `stage`; the stream is ticks",
    ),
    "a column that only the first stage reads is missing": (
        lambda: QUERIES["across keys"](ticks()).session().push({"t": 1, "px": 1.0, "qty": 1}),
        tl.SchemaError,
        "no column `sym`",
    ),
    "unsorted rows": (
        lambda: QUERIES["across keys"](ticks()).session().push(table([(3, 1.0, 0, "a"), (1, 1.0, 0, "a")])),
        tl.LateDataError,
        "row 1: 1 is 2s behind the watermark 3; allow a lateness of 2s",
    ),
    "another column of times": (
        lambda: QUERIES["across keys"](ticks()).session(time="ts"),
        tl.QueryError,
        "has time='t', not 'ts'",
    ),
    "a wrong mode": (
        lambda: QUERIES["across keys"](ticks()).session(mode="fast"),  # type: ignore[arg-type]
        ValueError,
        '"final" or "updates"',
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused(what: str) -> None:
    do, kind, message = REFUSED[what]
    with pytest.raises(kind) as error:
        do()
    assert message in str(error.value)


def test_intervals_that_may_overlap_can_be_sampled() -> None:
    def make(s: tl.Stream) -> tl.Stream:
        sampled: tl.Stream = tl.struct(px=s.key_by("sym")["px"].every("2s"))
        return sampled.unkey()["px"].window("2s").sum()

    rows = [(t, float(t % 5), 0, "abc"[t % 3]) for t in range(30)]
    live = make(ticks(valid="until_next")).session()
    parts = [live.push(table([r])) for r in rows]
    assert sum(map(len, parts)) > 20
    assert together([*parts, live.close()]) == bits(whole(make, ordered(rows), valid="until_next"))


def test_a_run_that_survives(tmp_path: Path) -> None:
    make = QUERIES["beside its rows"]
    rows = [(t, float(t % 7), t % 3, "ab"[t % 2]) for t in range(60)]
    days, out = tmp_path / "days", tmp_path / "out.jsonl"
    days.mkdir()
    for day in range(3):
        part = typed(table(rows[20 * day : 20 * day + 20]))
        tl.Table(part).write_parquet(days / f"{day}.parquet")
        with tl.live.Runner(make(ticks()), days, out, tmp_path / "state", lateness="2s") as runner:
            runner.catch_up()
            assert runner.status().session is not None
    with tl.live.Runner(make(ticks()), days, out, tmp_path / "state", lateness="2s") as runner:
        assert runner.session is not None
        rest = runner.session.close()
    found = tl.Table(pa.Table.from_pylist([json.loads(line) for line in out.read_text().splitlines()]))
    assert together([found, rest]) == bits(whole(make, ordered(rows)))
    with pytest.raises(tl.StateError):
        tl.live.Runner(QUERIES["across keys"](ticks()), days, out, tmp_path / "state", lateness="2s")


def test_a_run_of_two_sources(tmp_path: Path) -> None:
    left, right = ROWS[:80], [(t, 2.0, 1, "ab"[t % 2]) for t in range(1, 70, 2)]
    seen: list[tl.Table] = []
    sources = {"left": [table([r]) for r in left], "right": [table(right[:9]), table(right[9:])]}
    query = spread(ticks("left"), ticks("right"))
    tl.live.Runner(query, sources, lambda rows, _: seen.append(rows), tmp_path / "state", every=0).run()
    assert len(seen) > 9
    assert together(seen) == bits(whole(spread, ordered(left), ordered(right)))


def test_checkpoints_go_on_elsewhere() -> None:
    make = QUERIES["beside its rows"]
    query = make(ticks())
    live = query.session(lateness="2s", threads=1)
    parts = [live.push(table(ROWS[:90]))]
    code = (
        "import pickle, sys, tilt as tl\n"
        "query, blob, rows = pickle.load(sys.stdin.buffer)\n"
        "live = tl.Session.restore(query, blob, threads=2)\n"
        "sys.stdout.buffer.write(pickle.dumps([live.push(rows), live.close()]))\n"
    )
    given_ = pickle.dumps((query, live.checkpoint(), table(ROWS[90:])))
    found = subprocess.run([sys.executable, "-c", code], input=given_, capture_output=True, check=True)  # noqa: S603
    assert together([*parts, *pickle.loads(found.stdout)]) == bits(whole(make, ordered(ROWS)))
