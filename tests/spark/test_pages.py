"""The examples of the pages and the demo do what they say, without an account of the JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from test_cluster import script

HERE = Path(__file__).parent


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_the_examples_of_the_pages_run(kind: str) -> None:
    done = script(str(HERE / "pages.py"), kind)
    assert done.stdout.strip().endswith("done"), done.stderr[-4000:]
    assert "\tat " not in done.stderr


def test_the_demo_runs_the_query_in_three_ways() -> None:
    done = script(str(HERE.parents[1] / "examples" / "spark" / "demo.py"), "20000")
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.findall(r"^(\w+) +([\d,]+) rows in [\d.]+ s$", done.stdout, re.MULTILINE)
    assert found == [(name, "20,000") for name in ("by_key", "unkeyed", "direct")]
    assert "8 slices of the timeline" in done.stdout
    assert re.search(r"^\|\s+ts\|symbol\|\s+price\|\s+z\|$", done.stdout, re.MULTILINE)
    assert "\tat " not in done.stderr
    assert len(done.stderr.splitlines()) < 20, done.stderr
