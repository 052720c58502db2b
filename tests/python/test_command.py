"""The command line: what it runs, what it says, how it ends."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tilt as tl
from tilt.cli import main

ROWS = {"t": [1, 2, 5, 6], "px": [10.0, 11.0, 9.0, 12.0], "qty": [1, 5, 2, 3], "sym": ["a", "b", "a", "b"]}


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """Arguments of a query on rows in a file; the query is written by each test."""
    tl.Table(ROWS).write_parquet(tmp_path / "ticks.parquet")
    return [str(tmp_path / "query.py"), "--input", f"ticks={tmp_path / 'ticks.parquet'}", "--time", "t", "--unit", "s"]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tl.Table(ROWS).write_parquet(tmp_path / "ticks.parquet")
    script = tmp_path / "query.py"
    script.write_text("def query(ticks):\n    return ticks['px']['-2s':].mean()\n")
    given_ = [str(script), "--input", f"ticks={tmp_path / 'ticks.parquet'}", "--time", "t", "--unit", "s"]
    assert main(["run", *given_, "--out", str(tmp_path / "out.csv"), "--quiet"]) == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[:3] == ["t,px", "1,10.0", "2,10.5"]
    assert main(["explain", *given_, "--stage", "optimized"]) == 0
    assert "reduce mean ~ticks[t-2s : t]" in capsys.readouterr().out
    assert main(["explain", *given_, "--format", "mermaid"]) == 0
    assert "flowchart" in capsys.readouterr().out
    program = tmp_path / "query.tilt"
    program.write_text("query q unit s { input ~ticks: {px: f64} point ~y[t] = ~ticks[t].px * 2.0 output ~y }")
    assert main(["run", str(program), *given_[1:]]) == 0
    assert "24" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "none.py")]) == 1
    assert main(["run", str(script), "--input", "nonsense"]) == 1
    assert main(["run", *given_, "--out", str(tmp_path / "out.what")]) == 1
    script.write_text("x = 1\n")
    assert main(["run", *given_]) == 1
    assert "defines no query" in capsys.readouterr().err
    for text, message in (
        ("def query(tick):\n    return tick\n", "no input `ticks`, did you mean `tick`?; it takes tick"),
        ("def query(ticks, quotes):\n    return ticks\n", "add --input quotes=files"),
        ("def query(ticks):\n    return 3\n", "must give a Stream, not int"),
        ("def query(ticks)\n", "query.py:1: expected ':'"),
    ):
        script.write_text(text)
        assert main(["run", *given_]) == 1
        assert message in capsys.readouterr().err
    assert main(["demo", "--events", "2000", "--plot", str(tmp_path / "demo.svg")]) == 0
    assert (tmp_path / "demo.svg").read_text().startswith("<svg")
    assert main(["bench", "--events", "2000"]) == 0
    with pytest.raises(SystemExit) as stopped:
        main(["nonsense"])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def query(ticks):\n    return ticks.groupby('sym')\n", "query.py:2: a Stream has no attribute 'groupby'"),
        ("import tilt as tl\n\ndef query(ticks):\n    return tick\n", "query.py:4: name 'tick' is not defined"),
        ("import nothing_like_it\n", "query.py:1: No module named 'nothing_like_it'"),
        ("def query(ticks):\n    return ticks['prx']\n", "query.py:2: there is no column `prx`, did you mean `px`?"),
        ("def query(ticks):\n    x = ticks['px']\n    return x if x > 1 else 0\n", "query.py:3: "),
        ("def query(ticks):\n    return {}['x']\n", "query.py:2: KeyError: 'x'"),
        ("def helper(x):\n    return x.avg()\n\ndef query(ticks):\n    return helper(ticks)\n", "query.py:2: "),
        (
            """import tilt as tl

def fail(v):
    return 1 / 0

fails = tl.udf(fail, args=[float], returns=float)

def query(ticks):
    return fails(ticks['px'])
""",
            "query.py:4: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_what_is_wrong_with_a_query_is_said_with_its_line(
    given: list[str], capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    Path(given[0]).write_text(text)
    assert main(["run", *given]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.startswith("tilt: ") and "Traceback" not in shown


def test_bugs_of_tilt_are_not_hidden(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path(given[0]).write_text("def query(ticks):\n    return ticks\n")

    def broken(_: object) -> None:
        raise LookupError

    monkeypatch.setattr("tilt.cli._loaded", broken)
    with pytest.raises(LookupError):
        main(["run", *given])


def test_times_have_zones_and_rows_last_as_long_as_is_said(
    tmp_path: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(given[0]).write_text("def query(ticks):\n    return ticks['px']\n")
    out = tmp_path / "out.parquet"

    def run(*options: str) -> tl.Table:
        assert main(["run", *given, "--out", str(out), "--quiet", *options]) == 0
        return tl.scan_parquet(str(out), time="t" if "--valid" not in options else "end").collect()

    assert run("--tz", "Europe/Paris").schema["t"] == 'Timestamp(s, "Europe/Paris")'
    assert run("--valid", "until_next")["px"] == ROWS["px"]
    assert main(["explain", *given, "--valid", "2s", "--stage", "optimized"]) == 0
    assert "2s" in capsys.readouterr().out
    spans = tmp_path / "spans.parquet"
    tl.Table({"s": [0, 5], "e": [4, 9], "px": [1.0, 2.0]}).write_parquet(spans)
    assert main(["run", given[0], "--input", f"ticks={spans}", "--valid", "s,e", "--out", str(out), "--quiet"]) == 0
    assert tl.scan_parquet(out, valid=("s", "e")).collect().to_dict() == {"s": [0, 5], "e": [4, 9], "px": [1.0, 2.0]}


def test_plans_are_measured(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(given[0]).write_text("def query(ticks):\n    return ticks['px']['-2s':].mean()\n")
    program = tmp_path / "query.tilt"
    program.write_text("query q unit s { input ~ticks: {px: f64} point ~y[t] = ~ticks[t].px * 2.0 output ~y }")
    for query in (given[0], str(program)):
        assert main(["explain", query, *given[1:], "--analyze"]) == 0
        assert "measured: 4 rows in" in capsys.readouterr().out
        assert main(["explain", query, *given[1:], "--analyze", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["input_rows"] == 4
    assert main(["explain", *given, "--stage", "llvm", "--format", "dot"]) == 1
    assert "explain('llvm')" in capsys.readouterr().err


def test_ctrl_c_ends_a_run_with_130(tmp_path: Path) -> None:
    script = tmp_path / "query.py"
    script.write_text(
        "import tilt as tl\n\nprint('begun', flush=True)\n\n"
        "query = tl.recur(lambda y: y[-1] * 0.5 + tl.stream({'t': range(1 << 20), 'x': [1.0] * (1 << 20)}, time='t',"
        " period=1)['x'])\nwhile True:\n    query.collect()\n"
    )
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tilt", "run", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"tilt: interrupted\n")


def test_the_demo_draws_its_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--events", "20000", "--plot", str(tmp_path / "demo.svg")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("million events a second") == 2
    picture = (tmp_path / "demo.svg").read_text()
    assert [f">{name}</text>" in picture for name in ("price", "trend", "rsi")] == [True] * 3
    assert picture.count("<svg") == picture.count("</svg>") == 4
    # Each is as high as its place, or they would cover each other.
    assert [f'<svg y="{180 * i}" height="180" ' in picture for i in range(3)] == [True] * 3
