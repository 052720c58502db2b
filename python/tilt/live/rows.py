"""Rows as Python programs have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilt.table import Table


def is_row(rows: Mapping[str, object]) -> bool:
    """Whether a dictionary has values, and not columns of them.

    >>> is_row({"t": 1, "sym": "A"}), is_row({"t": [1, 2], "sym": ["A", "B"]})
    (True, False)
    """
    return not any(isinstance(value, (list, tuple)) or _is_column(value) for value in rows.values())


def _is_column(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def table_of(rows: object) -> Table:
    """Give rows in any form as a table: also one row, or a list of them, in which missing columns are null.

    >>> table_of([{"t": 1, "x": 0.5}, {"t": 2}]).to_dict()
    {'t': [1, 2], 'x': [0.5, None]}
    """
    if isinstance(rows, Mapping) and not hasattr(rows, "__arrow_c_stream__") and is_row(rows):
        return Table({name: [value] for name, value in rows.items()})
    return Table({} if isinstance(rows, (list, tuple)) and not rows else rows)


def parts_of(rows: object, number: int) -> Iterator[object]:
    """Give rows in any form, so many at a time at most.

    >>> [part.to_dict() for part in parts_of({"t": [1, 2, 3]}, 2)], list(parts_of({"t": 1}, 2))
    ([{'t': [1, 2]}, {'t': [3]}], [{'t': 1}])
    """
    if type(rows) is dict and is_row(rows):
        yield rows
        return
    table = table_of(rows)
    for first in range(0, max(len(table), 1), number):
        yield table[first : first + number]
