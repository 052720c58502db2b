"""What docs/scale.md says of balance and cost is what the simulation finds."""

from __future__ import annotations

import re
from pathlib import Path

from test_cluster import script

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
ARRIVALS = {"as in a working day": "daily", "half of them in 100 bursts": "bursty"}


def test_the_page_has_what_is_simulated() -> None:
    done = script("-m", "benches.spark.simulate")
    assert done.returncode == 0, done.stderr[-4000:]
    found = set(done.stdout.splitlines())
    page = PAGE.read_text("utf-8")
    told = re.findall(r"^\| (?:steady|as in|half of|Zipf).*\|$", page, re.MULTILINE)
    for name, short in ARRIVALS.items():
        told = [line.replace(f"| {name} |", f"| {short} |") for line in told]
    assert len(told) == 14
    assert set(told) <= found, sorted(set(told) - found)
    # Slices by counts are balanced under bursts, too, as long as they are longer than the halo.
    (ratio,) = re.findall(r"^\| bursty \| 20 \| 20 s \| [\d.]+ \| ([\d.]+) \|", done.stdout, re.MULTILINE)
    assert float(ratio) < 1.1
    for how, hours, minutes in re.findall(r"by (\w+): (\d+) CPU hours, ([\d.]+) minutes", done.stdout):
        name = {"slices": "by slices", "direct": "directly"}[how]
        assert f"| {name} | {hours} | {minutes} |" in page


def test_costs_are_fitted_as_their_examples_say() -> None:
    done = script("-m", "doctest", "-v", "benches/spark/costs.py")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "Trying:" in done.stdout
