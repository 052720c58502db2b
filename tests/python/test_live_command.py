"""``tilt run --live``: the real process between real pipes."""

import datetime as dt
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

START = dt.datetime(2026, 3, 29, tzinfo=dt.timezone.utc)
QUERY = """
import tilt as tl

@tl.query
def query(ticks):
    return ticks["px"].window("10s").mean()
"""


def started(tmp_path: Path, *options: str, query: str = QUERY) -> subprocess.Popen[bytes]:
    path = tmp_path / ("query.py" if "import" in query else "query.tilt")
    path.write_text(query)
    command = [sys.executable, "-m", "tilt", "run", str(path), "--live", *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)  # noqa: S603


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(r) + "\n" for r in rows).encode()


def test_the_command_line_answers_each_line_at_once(tmp_path: Path) -> None:
    process = started(tmp_path, "--time", "t", "--unit", "s", "--lateness", "2s")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines({"t": 1, "px": 1.0}))
    process.stdin.write(lines({"t": 9, "px": 2.0}))
    assert json.loads(process.stdout.readline()) == {"t": 1, "px": 1.0}
    process.stdin.write(lines({"t": 8, "px": 3.0})[:-1])
    rest, errors = process.communicate(timeout=60)
    assert [json.loads(line) for line in rest.splitlines()] == [{"t": 8, "px": 2.0}, {"t": 9, "px": 2.0}]
    assert (process.returncode, errors) == (0, b"")


def test_the_command_line_as_arrow(tmp_path: Path) -> None:
    process = started(tmp_path, "--from", "ipc", "--time", "t", "--close", "end")
    sink = pa.BufferOutputStream()
    times = pa.array([START, START + dt.timedelta(seconds=3)], pa.timestamp("us", "UTC"))
    rows = pa.table({"t": times, "px": [1.0, 3.0]})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    out, errors = process.communicate(sink.getvalue().to_pybytes(), timeout=60)
    assert (process.returncode, errors) == (0, b"")
    found = pa.ipc.open_stream(out).read_all()
    assert found.to_pylist() == [{"t": times[0].as_py(), "px": 1.0}, {"t": times[1].as_py(), "px": 2.0}]


@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_line_ends_its_output_when_it_is_stopped(tmp_path: Path, signal_: int, code: int) -> None:
    process = started(tmp_path, "--time", "t", "--unit", "s", "--to", "ipc")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines({"t": 1, "px": 1.0}, {"t": 2, "px": 2.0}))
    first = process.stdout.read(1)
    process.send_signal(signal_)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert pa.ipc.open_stream(first + out).read_all().to_pylist() == [{"t": 1, "px": 1.0}]


def test_the_command_line_stops_when_nobody_reads(tmp_path: Path) -> None:
    with started(tmp_path, "--time", "t", "--unit", "s") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(lines({"t": 1, "px": 1.0}, {"t": 2, "px": 2.0}))
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(lines({"t": 3, "px": 1.0}, {"t": 4, "px": 2.0}))
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


def test_the_command_line_says_which_line_is_wrong(tmp_path: Path) -> None:
    process = started(tmp_path, "--time", "t", "--unit", "s", "--schema", "t:i64,px:f64")
    out, errors = process.communicate(lines({"t": 1, "px": 1.0}) + b"{nonsense}\n", timeout=60)
    assert (process.returncode, out) == (1, b"")
    assert errors.startswith(b"tilt: line 2: ")
    process = started(tmp_path, "--time", "t", "--unit", "s")
    out, errors = process.communicate(lines({"t": 5, "px": 1.0}, {"t": 1, "px": 1.0}), timeout=60)
    assert process.returncode == 1
    assert b"4s behind the watermark" in errors


def test_the_command_line_reads_several_pipes(tmp_path: Path) -> None:
    query = "query q unit tick { input ~a: f64 point  input ~b: f64 point  ~y[t] = ~a[t] + ~b[t]  output ~y }"
    other = tmp_path / "b"
    os.mkfifo(other)
    process = started(tmp_path, "--time", "t", "--input", "a=-", "--input", f"b={other}", query=query)
    assert process.stdin is not None
    with other.open("wb", buffering=0) as pipe:
        pipe.write(lines({"t": 1, "b": 10.0}, {"t": 2, "b": 20.0}))
    out, errors = process.communicate(lines({"t": 1, "a": 1.0}, {"t": 2, "a": 2.0}), timeout=60)
    assert [json.loads(line) for line in out.splitlines()] == [{"t": 1, "y": 11.0}, {"t": 2, "y": 22.0}]
    assert (process.returncode, errors) == (0, b"")


def test_the_command_line_says_what_is_missing(tmp_path: Path) -> None:
    for options, message in (
        ((), b"add --time column"),
        (("--time", "t", "--unit", "s", "--late", "revise"), b"horizon"),
        (("--time", "t", "--unit", "s", "--input", "nothing"), b"--input name=pipe"),
        (("--time", "t", "--unit", "s", "--schema", "t"), b"write name:type"),
    ):
        out, errors = started(tmp_path, *options).communicate(lines({"t": 1, "px": 1.0}), timeout=60)
        assert out == b""
        assert message in errors


def test_the_command_line_tells_how_many_rows_were_late(tmp_path: Path) -> None:
    rows = lines({"t": 10, "px": 1.0}, {"t": 3, "px": 2.0}, {"t": 12, "px": 3.0}, {"t": 4, "px": 4.0})
    for policy, told in (("drop", "2 dropped; 2 accepted"), ("adjust", "2 adjusted; 4 accepted")):
        process = started(tmp_path, "--time", "t", "--unit", "s", "--late", policy)
        _, errors = process.communicate(rows, timeout=60)
        assert errors.decode() == f"stream `ticks`: rows {told}\n"
        assert process.returncode == 0


def test_the_command_line_takes_csv_and_gives_it(tmp_path: Path) -> None:
    options = ("--time", "t", "--unit", "s", "--from", "csv", "--schema", "t:i64,px:f64")
    process = started(tmp_path, *options)
    found, errors = process.communicate(b"t,px\n1,1.0\n9,2.0\n", timeout=60)
    assert (found, errors) == (b"t,px\n1,1.0\n9,1.5\n", b"")
    process = started(tmp_path, "--time", "t", "--unit", "s", "--to", "csv")
    found, errors = process.communicate(lines({"t": 1, "px": 1.0}, {"t": 9, "px": 2.0}), timeout=60)
    assert (found, errors) == (b"t,px\n1,1.0\n9,1.5\n", b"")


def test_the_command_line_revises_and_paces(tmp_path: Path) -> None:
    rows = lines({"t": 1, "px": 1.0}, {"t": 9, "px": 2.0}, {"t": 5, "px": 6.0})
    process = started(tmp_path, "--time", "t", "--unit", "s", "--late", "revise", "--horizon", "20s")
    found, errors = process.communicate(rows, timeout=60)
    changes = [json.loads(line) for line in found.splitlines()]
    assert {change["op"] for change in changes} <= {"insert", "update", "delete"}
    last = {change["start"] if "start" in change else change["t"]: change["px"] for change in changes}
    assert sorted(last.values()) == [1.0, 3.0, 3.5]
    assert b"1 revised; 3 accepted" in errors
    for options in (("--mode", "updates"), ("--max-batch", "2"), ("--latency", "100ms"), ("--idle-after", "5s")):
        more = ("--lateness", "9s", *options)
        process = started(tmp_path, "--time", "t", "--unit", "s", *more)
        found, errors = process.communicate(rows, timeout=60)
        results = [json.loads(line) for line in found.splitlines()]
        values = [r["px"] for r in results if r.get("op") != "delete"]
        assert values[-3:].count(3.0) == 1, options
        assert (process.returncode, errors) == (0, b""), options
