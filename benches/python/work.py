"""What a benchmark is: one query, written for each library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import numpy.typing as npt
    import pandas as pd
    import polars as pl

Array: TypeAlias = "npt.NDArray[Any]"
Columns: TypeAlias = "dict[str, Array]"

THREADS = 2
"""How many threads tilt, Polars and DuckDB get; pandas, NumPy and numba's loops use one."""

RIVALS = ("pandas", "polars", "duckdb")
"""The libraries that the bars are about."""
LIBRARIES = ("tilt", *RIVALS, "numba")


@dataclass
class Data:
    """The rows in the form that each library likes best, made before anything is measured."""

    tables: dict[str, Columns]
    pandas: dict[str, pd.DataFrame]
    polars: dict[str, pl.DataFrame]
    duckdb: duckdb.DuckDBPyConnection


@dataclass(frozen=True)
class Work:
    """A query: functions from the data to a result, of which the first column is the time, by library.

    ``order`` names the columns that tell rows apart; results are compared sorted by them. Rows of which a value is null
    or NaN are left out of the comparison, because tilt has no event where there is no value.
    """

    name: str
    ways: dict[str, Callable[[Data], Any]]
    bar: float
    """How many times as fast as the fastest rival tilt has to be."""
    order: tuple[str, ...] = ("ts",)
    notes: dict[str, str] = field(default_factory=dict)
    """What is worth knowing about a library's way, or why it has none."""


def columns_of(result: object) -> Columns:
    """Give any result as NumPy arrays, times as integers."""
    columns: Columns = result if isinstance(result, dict) else _frame(result)
    return {name: _plain(np.asarray(values)) for name, values in columns.items()}


def _frame(result: Any) -> Columns:  # noqa: ANN401
    if hasattr(result, "to_pydict"):  # A table of pyarrow.
        return {name: result[name].to_numpy() for name in result.column_names}
    if hasattr(result, "reset_index"):
        return {str(name): result[name].to_numpy() for name in result.columns}
    if hasattr(result, "get_columns"):
        return {series.name: series.to_numpy() for series in result.get_columns()}
    return dict(result.to_numpy())


def _plain(values: Array) -> Array:
    return values.astype("M8[us]").astype("i8") if values.dtype.kind == "M" else values
