"""Runs that survive: commits, restarts, crashes at every step, refusals."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import tilt as tl
from crashes import Crash, crashing
from tilt.live import FileSink, FolderSource, ItemSource, PartSink, Runner
from tilt.live.state import Commit

ROWS = [{"t": t // 2, "px": t * 0.1} for t in range(40)]


def ticks(name: str = "ticks") -> tl.Stream:
    return tl.source(name, {"t": "i64", "px": "f64"}, time="t", unit="s")


def mean() -> tl.Stream:
    return ticks()["px"]["-7s":].mean()


def expected() -> list[dict[str, Any]]:
    rows = {name: [row[name] for row in ROWS] for name in ("t", "px")}
    return mean().run(ticks=rows).to_pylist()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def begun(place: Path, rows: object = None, **options: Any) -> Runner:  # noqa: ANN401
    options = {"every": 0} | options
    return Runner(mean(), ItemSource(ROWS) if rows is None else rows, place / "out.jsonl", place / "state", **options)


def test_results_are_those_of_a_run_on_all_rows(tmp_path: Path) -> None:
    with begun(tmp_path) as runner:
        runner.run()
        assert runner.is_ended
        assert runner.status().rows == len(expected())
    assert lines(tmp_path / "out.jsonl") == expected()


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("every", [0, 3600])
def test_a_run_goes_on_where_it_was(tmp_path: Path, steps: int, every: float) -> None:
    for _ in range(200):
        with begun(tmp_path, every=every) as runner:
            for _ in range(steps):
                runner.step()
            if runner.is_ended:
                break
    assert lines(tmp_path / "out.jsonl") == expected()


class Slow:
    """Rows of a list, and none for the time being when all were read."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def read(self, position: int | None, columns: object) -> Iterator[tuple[object, int]]:
        del columns
        at = position or 0
        while True:
            has_more = at < len(self.rows)
            at += has_more
            yield self.rows[at - 1] if has_more else None, at


def test_results_that_time_alone_made_certain_are_given(tmp_path: Path) -> None:
    now = 0.0
    left, right = (tl.source(name, {"t": "i64", name: "f64"}, time="t", unit="s")[name] for name in ("left", "right"))
    found: list[Any] = []
    sources = {"left": Slow([{"t": t, "left": float(t)} for t in range(5)]), "right": Slow([{"t": 1, "right": 9.0}])}
    sink = lambda rows, _: found.extend(rows["left"])  # noqa: E731
    options: dict[str, Any] = {"idle_after": "10s", "clock": lambda: now, "every": 0}
    with Runner(tl.coalesce(left, right), sources, sink, tmp_path / "state", **options) as runner:
        runner.catch_up()
        now = 6.0
        sources["left"].rows.append({"t": 5, "left": 5.0})
        runner.catch_up()
        before = len(found)
        # Nobody waits for the right stream any more.
        now = 11.0
        assert not runner.step()
        assert len(found) > before
        assert runner.status().waiting == 0


def test_what_was_not_committed_is_read_again(tmp_path: Path) -> None:
    runner = begun(tmp_path, every=3600)
    for _ in range(9):
        runner.step()
    assert runner.status().waiting > 0
    assert runner.status().commits == 0
    runner.close()
    assert lines(tmp_path / "out.jsonl") == []
    with begun(tmp_path) as again:
        again.run()
    assert lines(tmp_path / "out.jsonl") == expected()


@pytest.mark.parametrize("sink", ["lines", "parts"])
def test_a_crash_at_any_call_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str
) -> None:
    rows = ROWS[:8]
    whole = mean().run(ticks={name: [row[name] for row in rows] for name in ("t", "px")}).to_pylist()
    for at in range(1000):
        place = tmp_path / str(at)

        def run(place: Path = place) -> None:
            to = FileSink(place / "out.jsonl") if sink == "lines" else PartSink(place / "out", "jsonl")
            Runner(mean(), ItemSource(rows), to, place / "state", every=0).run()

        with monkeypatch.context() as patch:
            crashing(at, patch)
            try:
                run()
            except Crash:
                is_over = False
            else:
                is_over = True
        run()
        files = [place / "out.jsonl"] if sink == "lines" else sorted((place / "out").iterdir())
        assert [row for path in files for row in lines(path)] == whole, at
        if is_over:
            break
    assert at > 40


def test_several_streams_wait_for_the_one_that_is_behind(tmp_path: Path) -> None:
    left, right = ticks("left")["px"], ticks("right")["px"]
    query = (left + right)["-5s":].sum()
    many = [{"t": t, "px": float(t)} for t in range(300)]
    few = [{"t": t, "px": 1.0} for t in range(0, 300, 3)]
    with Runner(query, {"left": many, "right": few}, tmp_path / "out", tmp_path / "state", every=3600) as runner:
        most = 0
        while runner.step():
            status = runner.status().session
            most = max(most, status.streams["left"].buffered + status.streams["left"].held if status else 0)
        assert most < 100
    found = tl.scan_parquet(f"{tmp_path}/out/*.parquet", time="t")["px"].collect()["px"]
    columns = {
        name: {key: [row[key] for row in rows] for key in ("t", "px")}
        for name, rows in (("left", many), ("right", few))
    }
    assert found == query.run(**columns)["px"]


def test_streams_that_have_nothing_become_idle(tmp_path: Path) -> None:
    def quiet(taken: int) -> Iterator[Any]:
        yield from [{"t": 0, "px": 0.5}][taken:]
        is_over.wait()

    is_over, now = threading.Event(), 0.0
    query = ticks("left")["px"].hold() + ticks("right")["px"].hold()
    found: list[float] = []
    with Runner(
        query,
        {"left": [{"t": t, "px": float(t)} for t in range(5)], "right": quiet},
        lambda rows, _: found.extend(rows["px"]),
        tmp_path,
        every=0,
        idle_after=10,
        clock=lambda: now,
    ) as runner:
        for _ in range(50):
            runner.step()
            time.sleep(0.001)
        before = len(found)
        now += 11
        runner.step()
        runner.commit()
        assert len(found) >= before
        is_over.set()
        runner.run()
    assert found == [0.5, 1.5, 2.5, 3.5, 4.5]


def test_an_ended_run_is_over(tmp_path: Path) -> None:
    for _ in range(3):
        with begun(tmp_path) as runner:
            assert not runner.is_ended or not runner.step()
            runner.run()
            assert runner.session is None
            with pytest.raises(tl.StateError, match="closed"):
                runner.step()
    assert lines(tmp_path / "out.jsonl") == expected()


@pytest.mark.parametrize("end", ["end", "flush", "drop"])
def test_the_end_is_by_policy(tmp_path: Path, end: Literal["end", "flush", "drop"]) -> None:
    rows = [{"t": 1, "px": 1.0}, {"t": 9, "px": 2.0}]
    live = mean().session(lateness="2s")
    parts = [live.push(row) for row in rows] + [live.close(end)]
    with begun(tmp_path, rows, lateness="2s", end=end) as runner:
        runner.run()
    assert [row["px"] for row in lines(tmp_path / "out.jsonl")] == [px for part in parts for px in part["px"]]


def test_no_rows_at_all(tmp_path: Path) -> None:
    with begun(tmp_path, []) as runner:
        runner.run()
        assert runner.status().commits == 1
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    with begun(tmp_path, []) as runner:
        assert runner.is_ended


def test_query_functions_and_programs(tmp_path: Path) -> None:
    @tl.query
    def double(ticks: tl.Stream) -> tl.Stream:
        return ticks["px"] * 2.0

    found: list[float] = []
    for _ in range(60):
        with Runner(double, ROWS, lambda rows, _: found.extend(rows["px"]), tmp_path / "a", time="t") as runner:
            runner.step()
    assert found == [2.0 * row["px"] for row in ROWS]
    program = tl.Query("query q unit tick { input ~x: i64 point ~y[t] = reduce sum ~x[t-2 : t] output ~y }")
    totals: list[int] = []
    rows = [{"t": t, "x": t} for t in range(4)]
    with Runner(program, rows, lambda rows, _: totals.extend(rows["y"]), tmp_path / "b", time="t") as runner:
        runner.run()
    assert totals == [0, 1, 3, 5]


def test_options_are_kept(tmp_path: Path) -> None:
    query = tl.source("ticks", {"ts": "timestamp(us)", "px": "f64"}, time="ts")["px"].window("1h").sum()
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    rows = [{"ts": start + dt.timedelta(minutes=20 * n), "px": 1.0} for n in range(6)]
    found: list[float] = []
    options: dict[str, Any] = {"start": start, "lateness": dt.timedelta(seconds=2), "late": {"ticks": "drop"}}
    for _ in range(20):
        with Runner(query, rows, lambda part, _: found.extend(part["px"]), tmp_path, threads=1, **options) as runner:
            runner.step()
    # A run has what is after its start.
    assert found == [1.0, 2.0, 3.0, 3.0, 3.0]
    with pytest.raises(tl.StateError, match="go on with the same options"):
        Runner(query, rows, print, tmp_path, **options | {"late": "drop"})


def test_updates_are_changes_that_add_up(tmp_path: Path) -> None:
    for _ in range(100):
        with begun(tmp_path, mode="updates") as runner:
            runner.step()
            if runner.is_ended:
                break
    rows: list[dict[str, Any]] = []
    for change in lines(tmp_path / "out.jsonl"):
        op = change.pop("op")
        if op == "insert":
            rows.append(change)
        elif op == "delete":
            rows.remove(change)
        else:
            (at,) = [i for i, row in enumerate(rows) if row["t"] == change["t"]]
            rows[at] = change
    key = lambda row: (row["t"], row["px"])  # noqa: E731
    assert sorted(rows, key=key) == sorted(expected(), key=key)


def test_commits_are_told(tmp_path: Path) -> None:
    told: list[tl.live.RunStatus] = []
    with begun(tmp_path, on_commit=told.append) as runner:
        runner.run()
    assert [status.commits for status in told] == list(range(1, len(told) + 1))
    assert [status.rows for status in told] == sorted(status.rows for status in told)
    assert (told[-1].rows, told[-1].is_ended, told[-1].session) == (len(expected()), True, None)
    assert told[0].session is not None
    assert told[0].session.streams["ticks"].accepted > 0


def test_nothing_new_is_no_commit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with begun(tmp_path, tmp_path / "in") as runner:
        runner.catch_up()
        assert runner.status().commits == 0
        assert not (tmp_path / "state" / "commit").exists()


def test_stopping_from_another_thread(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with begun(tmp_path, tmp_path / "in", every=3600) as runner:
        threading.Timer(0.2, runner.stop).start()
        runner.run()
        assert runner.status().waiting == 0
        assert not runner.is_ended
    done = len(lines(tmp_path / "out.jsonl"))
    assert 0 < done < len(expected())


# Sinks and sources of one's own.


class Database:
    """Keeps the number of a delivery with its rows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, position: object) -> object:
        self.connection = sqlite3.connect(self.path)
        self.connection.execute("create table if not exists means (number, t, px)")
        return position

    def write(self, rows: tl.Table, number: int) -> object:
        with self.connection:
            if not self.connection.execute("select 1 from means where number = ?", (number,)).fetchone():
                several = [(number, row["t"], row["px"]) for row in rows]
                self.connection.executemany("insert into means values (?, ?, ?)", several)
        return None

    def close(self) -> None:
        self.connection.close()


class Countdown:
    def read(self, position: int | None, columns: tl.Table | None) -> Iterator[tuple[object, Any]]:
        assert columns is not None
        assert columns.columns == ["t", "px"]
        for n in range(position or 0, len(ROWS)):
            yield None, n
            yield ROWS[n], n + 1


def test_a_source_and_a_sink_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tl.live.state.State.store
    for life in range(100):
        runner = Runner(mean(), Countdown(), Database(tmp_path / "db"), tmp_path / "state", every=0)
        with monkeypatch.context() as patch:
            # Every third life ends after a delivery, before that is known.
            if life % 3 == 0:
                patch.setattr(tl.live.state.State, "store", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "no")))
            else:
                patch.setattr(tl.live.state.State, "store", store)
            try:
                for _ in range(life % 5):
                    runner.step()
                runner.commit()
            except OSError:
                pass
        is_over = runner.is_ended
        runner._state.close()  # noqa: SLF001
        runner._sink.close()  # noqa: SLF001
        if is_over and life % 3:
            break
    with sqlite3.connect(tmp_path / "db") as connection:
        found = connection.execute("select t, px from means order by number, rowid").fetchall()
    connection.close()
    assert found == [(row["t"], row["px"]) for row in expected()]


# Refusals.


def test_two_runs_on_one_state_are_refused(tmp_path: Path) -> None:
    with begun(tmp_path) as runner:
        with pytest.raises(tl.StateError, match=f"another run, process {os.getpid()}, has the state"):
            begun(tmp_path)
        runner.run()
    with begun(tmp_path):
        pass


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "other", "version"])
def test_a_damaged_state_is_refused(tmp_path: Path, damage: str) -> None:
    with begun(tmp_path) as runner:
        for _ in range(9):
            runner.step()
    path = tmp_path / "state" / "commit"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 4
    if damage == "version":
        data[8] += 1
    path.write_bytes({"empty": b"", "cut": bytes(data[:-3]), "other": b"x" * 99}.get(damage, bytes(data)))
    with pytest.raises(tl.StateError, match="state/commit cannot be used"):
        begun(tmp_path)
    # Nothing was touched, and nobody has it.
    path.write_bytes(bytes(data) if damage not in ("flip", "version") else b"")
    assert (tmp_path / "out.jsonl").read_bytes()


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    with begun(tmp_path) as runner:
        for _ in range(9):
            runner.step()
    data = (tmp_path / "state" / "commit").read_bytes()
    assert Commit.unpacked(data).number > 0
    for place in range(0, 8 * len(data), 61):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(tl.StateError):
            Commit.unpacked(bytes(flipped))


REFUSALS: dict[str, tuple[Callable[[Path], Runner], type[Exception], str]] = {
    "another query": (
        lambda place: Runner(ticks()["px"]["-8s":].mean(), ROWS, place / "out.jsonl", place / "state"),
        tl.StateError,
        "query is another one",
    ),
    "other options": (lambda place: begun(place, lateness="3s"), tl.StateError, "with no options, not lateness='3s'"),
    "another source": (lambda place: begun(place, place), tl.StateError, "from a ItemSource, not from a FolderSource"),
    "another sink": (
        lambda place: Runner(mean(), ROWS, place / "out", place / "state"),
        tl.StateError,
        "go to a FileSink, not a PartSink",
    ),
    "another file": (
        lambda place: Runner(mean(), ROWS, place / "other.jsonl", place / "state"),
        tl.StateError,
        "has 0 bytes, but this run has written",
    ),
    "no stream": (lambda place: begun(place, {"tick": ROWS, "ticks": ROWS}), tl.QueryError, "no stream `tick`"),
    "no source": (lambda place: begun(place, 7), TypeError, "not from int"),
    "no sink": (lambda place: Runner(mean(), ROWS, 7, place / "state"), TypeError, "not to int"),
    "a wrong option": (lambda place: begun(place, latenes="3s"), tl.StateError, "latenes"),
    "late rows that nobody asked for": (
        lambda place: begun(place, late_sink=place / "late.jsonl"),
        tl.StateError,
        "go to no sink, not to a FileSink of `ticks`",
    ),
    "a function for results": (lambda place: begun(place, on_result=print), TypeError, "sink="),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_does_not_fit_the_state_is_refused(tmp_path: Path, what: str) -> None:
    with begun(tmp_path) as runner:
        for _ in range(9):
            runner.step()
    make, kind, message = REFUSALS[what]
    before = (tmp_path / "state" / "commit").read_bytes()
    with pytest.raises(kind) as error:
        make(tmp_path)
    assert message in str(error.value)
    assert (tmp_path / "state" / "commit").read_bytes() == before
    with begun(tmp_path) as runner:
        runner.run()
    assert lines(tmp_path / "out.jsonl") == expected()


def test_each_stream_needs_a_source(tmp_path: Path) -> None:
    query = ticks("left")["px"] + ticks("right")["px"]
    with pytest.raises(TypeError, match="say what each stream comes from"):
        Runner(query, ROWS, print, tmp_path)
    with pytest.raises(TypeError, match="stream `right` has no source"):
        Runner(query, {"left": ROWS}, print, tmp_path)
    with pytest.raises(TypeError, match="did you mean `lateness`"):
        Runner(mean(), ROWS, print, tmp_path / "other", latenes="2s")


def test_bad_rows_say_where_they_are_and_the_state_stays(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"t": 5, "px": 1.0}\n')
    (folder / "b.jsonl").write_text('{"t": 1, "px": 1.0}\n')
    with pytest.raises(tl.LateDataError, match=r"b\.jsonl: stream `ticks`, row 0: 1 is 4s behind"):
        begun(tmp_path, FolderSource(folder, follow=False)).run()
    with pytest.raises(tl.LateDataError), begun(tmp_path, FolderSource(folder, follow=False)) as runner:
        runner.run()
    (folder / "b.jsonl").write_text('{"t": 6, "px": 1.0}\n')
    with begun(tmp_path, FolderSource(folder, follow=False)) as runner:
        runner.run()
    assert [row["t"] for row in lines(tmp_path / "out.jsonl")] == [5, 6]


def test_a_torn_step_cannot_be_committed(tmp_path: Path) -> None:
    def rows(taken: int) -> Iterator[Any]:
        yield from ROWS[taken:2]
        if taken < 2:
            raise KeyboardInterrupt

    runner = begun(tmp_path, ItemSource(rows, waits=False), every=3600)
    with pytest.raises(KeyboardInterrupt):
        runner.run()
    with pytest.raises(tl.StateError, match="begin again"):
        runner.commit()
    runner.close()
    assert lines(tmp_path / "out.jsonl") == []


def test_a_full_disk_is_an_error_that_can_be_overcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(tmp_path, every=3600) as runner:
        for _ in range(9):
            runner.step()

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        for name in ("fsync", "pwrite"):
            with monkeypatch.context() as patch:
                patch.setattr(os, name, full)
                with pytest.raises(OSError, match="No space left"):
                    runner.commit()
        assert not list((tmp_path / "state").glob(".*"))
        runner.run()
    assert lines(tmp_path / "out.jsonl") == expected()


def test_a_clock_that_jumps_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: (-1) ** next(jumps) * 1e9)
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "a.jsonl"
    for part in range(4):
        with path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in ROWS[part * 10 : part * 10 + 10]))
        os.utime(path, (0, (-1) ** part * 10**6))
        with begun(tmp_path, folder) as runner:
            runner.catch_up()
    with begun(tmp_path, FolderSource(folder, follow=False)) as runner:
        runner.run()
    assert lines(tmp_path / "out.jsonl") == expected()


ENDLESS = """
import sys, pathlib, tilt as tl
ticks = tl.source("ticks", {"t": "i64", "px": "f64"}, time="t", unit="s")
def rows(taken):
    t = taken
    while True:
        yield {"t": t, "px": float(t)}
        t += 1
place = sys.argv[1]
told = iter(["ready\\n"])
runner = tl.live.Runner(ticks["px"], rows, place + "/out.jsonl", place + "/state", every=0.01,
                        on_commit=lambda _: print(next(told, ""), end="", flush=True))
runner.run()
print("stopped", flush=True)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 0)])
def test_signals_end_a_run_in_good_order(tmp_path: Path, number: signal.Signals, code: int) -> None:
    count = 0
    for _ in range(2):
        command = [sys.executable, "-c", ENDLESS, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out) == (code, b"stopped\n" if code == 0 else b"")
        assert (b"KeyboardInterrupt" in errors) == (number == signal.SIGINT)
        found = lines(tmp_path / "out.jsonl")
        assert [row["t"] for row in found] == list(range(len(found)))
        assert len(found) > count
        count = len(found)
        # All is known to be delivered.
        assert Commit.unpacked((tmp_path / "state" / "commit").read_bytes()).output is None
