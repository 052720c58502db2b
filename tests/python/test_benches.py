"""The queries of the benchmark give what pandas, Polars, DuckDB and loops by hand give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

# Wheels are tested where there are no benchmarks, and not everywhere with all that they are compared with.
pytest.importorskip("benches.python", reason="the benchmarks are not here")
pytest.importorskip("numba")

from benches.python import data
from benches.python.measure import measure
from benches.python.queries import joins, windows

if TYPE_CHECKING:
    from benches.python.work import Data, Work

ROWS = 20_000


@pytest.fixture(scope="module")
def rows() -> Data:
    return data.make(ROWS)


@pytest.mark.parametrize("work", [*windows.WORKS, *joins.WORKS], ids=lambda work: work.name)
def test_answers_are_compared_before_anything_is_measured(work: Work, rows: Data) -> None:
    measured = measure(work, rows, 1)
    assert set(measured.seconds) == set(work.ways)
