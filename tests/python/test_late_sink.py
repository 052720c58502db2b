"""Late rows of runs that survive: each comes once, as results do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilt as tl
from crashes import Crash, crashing
from tilt.live import ItemSource, Runner

ROWS = [{"t": t // 2 - (9 if t % 7 == 6 else 0), "px": t * 0.1} for t in range(20, 60)]


def mean() -> tl.Stream:
    return tl.source("ticks", {"t": "i64", "px": "f64"}, time="t", unit="s")["px"]["-7s":].mean()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(rows: list[dict[str, Any]], **options: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:  # noqa: ANN401
    """Give results and late rows of a session, as lines have them."""
    live = mean().session(**options)
    results = [row for given in rows for row in live.push(given).to_pylist()]
    results += live.close().to_pylist()
    return [json.loads(json.dumps(each, default=str)) for each in (results, live.late().to_pylist())]  # type: ignore[return-value]


def begun(place: Path, rows: list[Any], **options: Any) -> Runner:  # noqa: ANN401
    late = place / "late.jsonl"
    return Runner(
        mean(), ItemSource(rows), place / "out.jsonl", place / "state", late_sink=late, **{"every": 0} | options
    )


@pytest.mark.parametrize("late", ["drop", "adjust"])
@pytest.mark.parametrize(("steps", "every"), [(1, 0), (3, 0), (7, 0), (7, 3600), (100, 0)])
def test_late_rows_come_once(tmp_path: Path, late: str, steps: int, every: float) -> None:
    for _ in range(200):
        with begun(tmp_path, ROWS, late=late, lateness="2s", every=every) as runner:
            for _ in range(steps):
                runner.step()
            if runner.is_ended:
                break
    results, rows = told(ROWS, late=late, lateness="2s")
    assert len(rows) > 3
    assert lines(tmp_path / "out.jsonl") == results
    assert lines(tmp_path / "late.jsonl") == rows


def test_a_crash_at_any_call_loses_and_repeats_no_late_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ROWS[4:10]
    results, late = told(rows, late="drop")
    assert late
    for at in range(1000):
        place = tmp_path / str(at)

        def run(place: Path = place) -> None:
            begun(place, rows, late="drop").run()

        with monkeypatch.context() as patch:
            crashing(at, patch)
            try:
                run()
            except Crash:
                is_over = False
            else:
                is_over = True
        run()
        assert lines(place / "out.jsonl") == results, at
        assert lines(place / "late.jsonl") == late, at
        if is_over:
            break
    assert at > 40


def two(place: Path, late_sink: object) -> Runner:
    left, right = (tl.source(name, {"t": "i64", name: "f64"}, time="t")[name] for name in ("left", "right"))
    both = left.hold() + right.hold()
    sources = {"left": [{"t": 5, "left": 1.0}, {"t": 2, "left": 2.0}], "right": [{"t": 6, "right": 3.0}]}
    return Runner(both, sources, place / "out.jsonl", place / "state", late="drop", late_sink=late_sink)


def test_each_stream_has_a_sink_of_its_own(tmp_path: Path) -> None:
    two(tmp_path, {"left": tmp_path / "left.jsonl"}).run()
    assert [row["late_by"] for row in lines(tmp_path / "left.jsonl")] == [3]


@pytest.mark.parametrize("late_sink", [7, {"top": "late.jsonl"}, "late.jsonl"])
def test_what_late_rows_cannot_go_to_is_refused(tmp_path: Path, late_sink: object) -> None:
    with pytest.raises((TypeError, tl.QueryError)):
        two(tmp_path, late_sink)


@pytest.mark.parametrize(
    "late_sink",
    [{"left": "out.jsonl"}, {"left": "late", "right": "late"}, {"left": "a/late.csv", "right": "b/../a/late.csv"}],
)
def test_sinks_do_not_write_over_each_other(tmp_path: Path, late_sink: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"late rows of `(left|right)` go to the same place"):
        two(tmp_path, {name: tmp_path / path for name, path in late_sink.items()})
    one = tl.live.PartSink(tmp_path / "parts")
    with pytest.raises(ValueError, match="go to the same place"):
        two(tmp_path, {"left": one, "right": one})


@pytest.mark.parametrize("late", ["drop", "adjust"])
def test_more_late_rows_come_at_once_than_a_session_keeps(tmp_path: Path, late: str) -> None:
    count = (1 << 17) + 9
    times = list(range(count))
    rows = [{"t": [1 << 20], "px": [0.5]}, {"t": times, "px": [float(t) for t in times]}]
    begun(tmp_path, rows, late=late).run()
    told = lines(tmp_path / "late.jsonl")
    assert [row["end"] for row in told] == times
    assert {row["late"] for row in told} == {"dropped" if late == "drop" else "adjusted"}


def test_errors_far_in_a_batch_say_where(tmp_path: Path) -> None:
    times = [*range(1 << 16), None]
    runner = begun(tmp_path, [{"t": times, "px": [1.0] * len(times)}], late="drop")
    with pytest.raises(tl.SchemaError, match=r"after 65536 rows: .*null in row 0"), runner:
        runner.run()


def test_another_sink_for_late_rows_is_refused(tmp_path: Path) -> None:
    with begun(tmp_path, ROWS[:9], late="drop") as runner:
        runner.catch_up()
    with pytest.raises(tl.StateError, match="late rows of the run"):
        Runner(mean(), ItemSource(ROWS), tmp_path / "out.jsonl", tmp_path / "state", late="drop")
