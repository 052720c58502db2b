"""Rows that arrive in pieces and out of order, and results that are compared bit for bit."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import tilt as tl

SCHEMA = {"t": "i64", "px": "f64", "qty": "i64", "sym": "utf8"}
TYPES = {"t": pa.int64(), "px": pa.float64(), "qty": pa.int64(), "sym": pa.string()}


def ticks(name: str = "ticks", **events: Any) -> tl.Stream:  # noqa: ANN401
    return tl.source(name, SCHEMA, **{"time": "t", "unit": "s"} | events)


def table(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    listed = list(rows)
    return {name: [r[i] for r in listed] for i, name in enumerate(SCHEMA)}


def typed(columns: dict[str, list[Any]]) -> pa.Table:
    """Give columns the types that were declared, also if they have no rows."""
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


def arriving(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Put rows in an order in which each is at most its delay behind the latest."""
    return sorted(rows, key=lambda r: r[0] + r[4])


def ordered(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Put rows in order of time: those of one instant as they came."""
    return typed(table(sorted(rows, key=lambda r: r[0])))


def pieces(rows: list[Any], sizes: list[int]) -> list[list[Any]]:
    found, at = [], 0
    for size in sizes:
        found.append(rows[at : at + size])
        at += size
    return [*found, rows[at:]]


def bits(result: tl.Table) -> dict[str, list[Any]]:
    """Give columns in which floats are what they are, bit for bit."""
    return {
        name: [value.hex() if isinstance(value, float) else value for value in values]
        for name, values in result.to_dict().items()
    }


def together(parts: Iterable[tl.Table]) -> dict[str, list[Any]]:
    tables = [part for part in parts if part.columns]
    first = next((part for part in tables if len(part)), tables[0])
    assert all(part.schema == first.schema for part in tables if len(part))
    return {name: [value for part in tables if len(part) for value in bits(part)[name]] for name in first.columns}
