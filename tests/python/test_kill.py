"""Runs that are killed: a short version of ``make kill-test``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kill import killed
from victim import CASES


@pytest.mark.parametrize("name", CASES)
def test_what_is_killed_goes_on_and_loses_nothing(name: str, tmp_path: Path) -> None:
    killed(CASES[name], name, tmp_path, 4, random.Random(name))  # noqa: S311
