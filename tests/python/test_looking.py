"""Looking at queries: plans, what runs took, pictures, notebooks, bars on a terminal."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tilt as tl
from tilt import plots, results


@pytest.fixture
def trend() -> tl.Stream:
    rows = {"t": np.arange(10_000), "price": np.random.default_rng(1).normal(100, 1, 10_000)}
    price = tl.stream(rows, time="t", unit="s")["price"]
    return (price["-10s":].mean() - price["-20s":].mean()).alias("trend")


def test_plans_as_json_are_graphs_of_definitions(trend: tl.Stream) -> None:
    nodes = {node["name"]: node for node in json.loads(trend.explain("logical", format="json"))}
    assert nodes["stream"]["kind"] == "input"
    assert nodes["mean_price"]["text"] == "~mean_price[t] = reduce mean ~price[t-10s : t]"
    assert nodes["mean_price"]["reads"] == ["price"]
    (output,) = (node for node in nodes.values() if node["kind"] == "output")
    assert output["reads"] == ["mean_price", "mean_price_2"]
    # Without a stage it is the program that runs: of one definition here.
    assert [node["kind"] for node in json.loads(trend.explain(format="json"))] == ["input", "output"]
    for text in (trend.explain("logical", format="dot"), trend.explain("logical", format="mermaid")):
        assert "reduce mean ~price[t-20s : t]" in text


def test_what_a_run_took_is_measured(trend: tl.Stream) -> None:
    text = trend.explain(analyze=True)
    assert "  10000 rows in " in text
    assert "measured: 10000 rows in " in text and " rows/s; " in text
    found = json.loads(trend.explain(analyze=True, format="json"))
    assert (found["input_rows"], found["rows"]) == (10_000, 10_000)
    assert found["input_rows_per_second"] == pytest.approx(10_000 / found["seconds"])
    (stage,) = found["stages"]
    assert stage["name"] == "trend"
    assert stage["rows"] >= 10_000
    assert stage["rows_per_second"] == pytest.approx(stage["rows"] / stage["thread_seconds"])
    assert stage["bytes_read"] >= 80_000
    assert stage["windows"] == ["blocks", "blocks"]
    assert found["interpreted_because"] is None


def test_streams_print_in_the_notation_of_the_paper(trend: tl.Stream) -> None:
    assert repr(trend).splitlines() == [
        "<tilt.Stream trend: f64",
        "  input ~stream: {price: f64} point",
        "  ~price[t] = ~stream[t].price",
        "  ~mean_price[t] = reduce mean ~price[t-10s : t]",
        "  ~mean_price_2[t] = reduce mean ~price[t-20s : t]",
        "  ~v[t] = ~mean_price[t] - ~mean_price_2[t]>",
    ]
    long = trend
    for _ in range(30):
        long = long + trend.prev()
    assert len(repr(long).splitlines()) < 20
    assert "  …" in repr(long).splitlines()


def test_errors_know_what_the_operation_was_applied_to(trend: tl.Stream) -> None:
    with pytest.raises(tl.SchemaError) as error:
        trend + "a"
    assert error.value.expression is not None
    assert error.value.expression.startswith("~v[t] = ")
    with pytest.raises(tl.QueryError) as other:
        tl.Program.parse("nonsense")
    assert other.value.expression is None


def test_notebooks_wait_only_so_long(trend: tl.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_SHOWN_SECONDS", 0.0)

    def slowly(value: float) -> float:
        time.sleep(0.001)
        return value

    slow = tl.udf(slowly, args=[float], returns=float, name="slow")
    assert "takes more than 0 s to compute; tl.plot(stream) draws it" in slow(trend)._repr_html_()


def test_notebooks_say_what_goes_wrong(trend: tl.Stream) -> None:
    def fail(_: float) -> float:
        message = "not <today>"
        raise ZeroDivisionError(message)

    failing = tl.udf(fail, args=[float], returns=float, name="fail")(trend)
    assert "<pre>not &lt;today&gt;</pre>" in failing._repr_html_()
    assert "<svg" in trend._repr_html_()


@pytest.mark.parametrize("count", [5_000, 200_000])
@pytest.mark.parametrize("part", [None, (1_000, 4_000)])
def test_bins_hold_the_range_of_the_values_in_them(count: int, part: tuple[int, int] | None) -> None:
    t = np.arange(1, count + 1) * 3
    x = np.cumsum(np.random.default_rng(2).normal(size=count))
    start, end = part or (None, None)
    ((name, kind, bins),) = plots.series(tl.stream({"t": t, "x": x}, time="t")["x"], start, end)
    assert (name, kind) == ("x", "line" if part else "range")
    shown = (t > start) & (t <= end) if start is not None and end is not None else np.full(count, fill_value=True)
    if part:
        assert [event[2] for event in bins] == x[shown].tolist()
        return
    assert 100 < len(bins) <= 400
    # Bins are side by side, so that each event is in one of them.
    for a, b, lo, hi in bins:
        inside = x[(t > a) & (t <= b)]
        assert (inside.min(), inside.max()) == (lo, hi)
    assert sum(int(((t > a) & (t <= b)).sum()) for a, b, _, _ in bins) == count


def test_pictures_hold_no_more_events_than_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tl.Table({"t": np.arange(1 << 18), "x": np.arange(1 << 18) % 1000})
    rows.write_parquet(tmp_path / "x.parquet")
    stored = tl.scan_parquet(tmp_path / "x.parquet", time="t")["x"]
    held: list[int] = []
    made = vars(plots)["_binned"]

    def counted(table: tl.Table, column: str) -> list[plots.Event]:
        held.append(len(table))
        return made(table, column)  # type: ignore[no-any-return]

    monkeypatch.setattr(plots, "_binned", counted)
    ((_, kind, bins),) = plots.series(stored)
    assert kind == "range" and len(bins) <= 400
    assert sum(held) == 1 << 18
    assert max(held) <= 1 << 16


BAR = """
import time, tilt as tl
slow = tl.udf(lambda v: time.sleep(0.0004) or v, args=[float], returns=float)
x = tl.stream({"t": range(1, 4001), "x": [1.0] * 4000}, time="t")["x"]
with tl.Config(SETTINGS):
    slow(x).collect(threads=1)
"""


def on_a_terminal(script: str, **environment: str) -> str:
    """Run a script whose standard error is a terminal, and give what it shows."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", script], stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"} | environment
    ) as process:
        os.close(theirs)
        while True:
            try:
                some = os.read(ours, 1 << 12)
            except OSError:  # What Linux says when the other side is gone.
                break
            if not some:
                break
            shown += some
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


def test_a_terminal_shows_a_bar() -> None:
    shown = on_a_terminal(BAR.replace("SETTINGS", ""))
    assert "tilt" in shown and "%" in shown
    assert "of 4,000" in shown


def test_a_terminal_shows_no_bar_if_it_is_switched_off() -> None:
    assert on_a_terminal(BAR.replace("SETTINGS", "progress=False")) == ""
    assert on_a_terminal(BAR.replace("SETTINGS", ""), TILT_PROGRESS="0") == ""
