"""Executors in processes of their own, and sessions without a JVM here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("kind", ["local-cluster", "connect"])
def test_results_are_the_same_with_other_sessions(kind: str) -> None:
    paths = [str(HERE), str(HERE.parents[1] / "python"), str(HERE.parents[1] / "examples")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(HERE / "cluster.py"), kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.strip().endswith("done"), done.stderr[-4000:]
