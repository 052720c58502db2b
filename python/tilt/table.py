"""Tables: rows in, rows out."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast, final

from tilt import _native
from tilt.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_SHOWN_ROWS = 10
_SHOWN_WIDTH = 32


@final
@dataclass(frozen=True)
class Categorical:
    """A column of strings, few of which differ: each row has the number of one of ``categories``, or -1 if it has none.

    >>> import tilt as tl
    >>> import numpy as np
    >>> from tilt.table import Categorical
    >>> tl.Table({"side": Categorical(np.array([0, 1, -1]), ["buy", "sell"])})["side"]
    ['buy', 'sell', None]
    """

    codes: npt.NDArray[np.integer[Any]]
    categories: Sequence[str]


@final
class Table:
    """Rows in columns: a thin Arrow table that needs no other package. Immutable and picklable.

    It is made of anything that speaks Arrow (Polars, pandas, pyarrow, DuckDB, ...), of a mapping from names to columns:
    NumPy arrays, or lists of bool, int, float, str, datetime, date and timedelta, in which ``None`` is missing; or of a
    list of rows that are dictionaries. Arrow objects and NumPy arrays are shared, not copied: do not change them
    afterwards. In turn anything that speaks Arrow reads a table without copying.

    >>> import tilt as tl
    >>> tl.Table({"t": [1, 2, 4], "price": [9.5, None, 9.75]})
    tilt.Table: 3 rows
     t      price
     Int64  Float64
    ────────────────
         1      9.5
         2     null
         4     9.75
    >>> prices = tl.Table({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]})
    >>> len(prices), prices.columns
    (3, ['t', 'price'])
    >>> prices["price"]
    [9.5, 9.25, 9.75]
    >>> prices[1:].to_pylist()
    [{'t': 2, 'price': 9.25}, {'t': 4, 'price': 9.75}]
    """

    __slots__ = ("_handle",)
    _handle: _native.Table

    def __init__(self, rows: object) -> None:
        """Make a table of rows.

        Raises
        ------
        TypeError
            If Arrow cannot see any rows there.
        SchemaError
            If columns have different lengths, or values that no column can hold.

        """
        if isinstance(rows, _native.Table):
            self._handle = rows
        elif isinstance(rows, Table):
            self._handle = rows._handle
        elif hasattr(rows, "keys") and not hasattr(rows, "__arrow_c_stream__"):
            columns = cast("Mapping[str, object]", rows)
            self._handle = _native.Table.build([_column(str(name), columns[name]) for name in columns])
        elif isinstance(rows, (list, tuple)) and rows and all(hasattr(row, "keys") for row in rows):
            names = dict.fromkeys(name for row in rows for name in row)
            self._handle = Table({name: [row.get(name) for row in rows] for name in names})._handle
        elif hasattr(rows, "collect") and not hasattr(rows, "__arrow_c_stream__"):
            message = f"a {type(rows).__name__} has no rows yet; collect() computes them"
            raise TypeError(message)
        elif isinstance(rows, (str, PathLike)):
            message = f"{fspath(rows)!r} is a name and has no rows; tl.scan_parquet(name, time=...) reads files"
            raise TypeError(message)
        else:
            self._handle = _imported(rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import tilt as tl
        >>> tl.Table({"t": [1], "x": [0.5]}).columns
        ['t', 'x']
        """
        return [name for name, _ in self._handle.schema]

    @property
    def schema(self) -> dict[str, str]:
        """The Arrow type of each column.

        >>> import tilt as tl
        >>> tl.Table({"t": [1], "user": ["ann"]}).schema
        {'t': 'Int64', 'user': 'Utf8'}
        """
        return dict(self._handle.schema)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2, 3]}).shape
        (3, 1)
        """
        return len(self), len(self._handle.schema)

    def __len__(self) -> int:
        """Count the rows."""
        return self._handle.num_rows

    def __getitem__(self, key: str | slice) -> Any:  # noqa: ANN401
        """Give a column as a list, or some rows as a table.

        Raises
        ------
        SchemaError
            If there is no such column.

        """
        if isinstance(key, str):
            return self._handle.column(key).to_pylist()
        start, stop, step = key.indices(len(self))
        if step != 1:
            message = "only slices without a step share their rows; use to_polars() or to_arrow() for others"
            raise ValueError(message)
        return Table(self._handle.slice(start, max(0, stop - start)))

    def select(self, *names: str) -> Table:
        """Give a table of some of the columns.

        >>> import tilt as tl
        >>> tl.Table({"t": [1], "a": [2], "b": [3]}).select("b", "t").columns
        ['b', 't']
        """
        return Table(self._handle.select(names))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Go through the rows."""
        return iter(self.to_pylist())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Give the rows as dictionaries. Times are rounded down to microseconds, as ``datetime`` has no finer ones.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2], "ok": [True, None]}).to_pylist()
        [{'t': 1, 'ok': True}, {'t': 2, 'ok': None}]
        """
        names = self.columns
        columns = [self._handle.column(name).to_pylist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_dict(self) -> dict[str, list[Any]]:
        """Give the columns as lists.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2], "x": [0.5, None]}).to_dict()
        {'t': [1, 2], 'x': [0.5, None]}
        """
        return {name: self[name] for name in self.columns}

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """Give the columns as NumPy arrays.

        They are shared and read only, unless they have nulls, bools, strings or several chunks. Nulls become NaN, or
        NaT in times. Integers that have some become floats, other types objects with ``None``. Time zones are left out,
        as NumPy has none: the times are in UTC.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2], "x": [0.5, None]}).to_numpy()
        {'t': array([1, 2]), 'x': array([0.5, nan])}
        """
        return {name: _numpy(self._handle.column(name)) for name in self.columns}

    def to_polars(self) -> pl.DataFrame:
        """Give a Polars data frame, which shares the columns.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2], "x": [0.5, None]}).to_polars().shape
        (2, 2)
        """
        import polars as pl  # noqa: PLC0415

        return pl.DataFrame(self)

    def to_arrow(self) -> pa.Table:
        """Give a pyarrow table, which shares the columns.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2], "x": [0.5, None]}).to_arrow().column_names
        ['t', 'x']
        """
        import pyarrow as pa  # noqa: PLC0415

        return pa.table(self)

    def to_pandas(self) -> pd.DataFrame:
        """Give a pandas data frame; needs pyarrow.

        >>> import tilt as tl
        >>> tl.Table({"t": [1, 2], "x": [0.5, None]}).to_pandas().shape
        (2, 2)
        """
        return cast("pd.DataFrame", self.to_arrow().to_pandas())

    def write_parquet(
        self, path: str | PathLike[str], *, compression: str = "zstd", row_group_rows: int | None = None
    ) -> None:
        """Write a Parquet file, compressed by ``zstd``, ``snappy``, ``lz4``, ``gzip`` or ``none``.

        The file appears under its name when it is complete; an older one stays until then.

        >>> import tempfile
        >>> import tilt as tl
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     tl.Table({"t": [1, 2], "x": [0.5, 2.0]}).write_parquet(f"{directory}/x.parquet")
        ...     tl.scan_parquet(f"{directory}/x.parquet", time="t")["x"].collect()["x"]
        [0.5, 2.0]
        """
        write([self], path, format="parquet", compression=compression, row_group_rows=row_group_rows)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write comma-separated values with a header.

        >>> import tempfile
        >>> import tilt as tl
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     tl.Table({"t": [1, 2], "x": [0.5, 2.0]}).write_csv(f"{directory}/x.csv")
        ...     tl.scan_csv(f"{directory}/x.csv", time="t")["x"].collect()["x"]
        [0.5, 2.0]
        """
        write([self], path, format="csv")

    def write_ipc(self, path: str | PathLike[str], *, compression: str = "none") -> None:
        """Write an Arrow IPC file, also called Feather, compressed by ``lz4``, ``zstd`` or ``none``.

        >>> import tempfile
        >>> import tilt as tl
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     tl.Table({"t": [1, 2], "x": [0.5, 2.0]}).write_ipc(f"{directory}/x.arrow")
        ...     tl.scan_ipc(f"{directory}/x.arrow", time="t")["x"].collect()["x"]
        [0.5, 2.0]
        """
        write([self], path, format="ipc", compression=compression)

    def write_jsonl(self, path: str | PathLike[str]) -> None:
        """Write a JSON object a line.

        >>> import tempfile
        >>> import tilt as tl
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     tl.Table({"t": [1, 2], "x": [0.5, 2.0]}).write_jsonl(f"{directory}/x.jsonl")
        ...     tl.scan_json(f"{directory}/x.jsonl", time="t")["x"].collect()["x"]
        [0.5, 2.0]
        """
        write([self], path, format="jsonl")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Let anything that speaks Arrow read the rows."""
        return self._handle.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Let anything that speaks Arrow see the columns."""
        return self._handle.__arrow_c_schema__()

    def __reduce__(self) -> tuple[type[Table], tuple[_native.Table]]:
        return Table, (self._handle,)

    def __eq__(self, other: object) -> bool:
        """Compare columns, types and values; NaN is like NaN."""
        if not isinstance(other, Table) or self.schema != other.schema or len(self) != len(other):
            return False
        return all(_same(a, b) for name in self.columns for a, b in zip(self[name], other[name], strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        head, cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*head, *cells, strict=True)]
        numeric = [_is_numeric(dtype) for _, dtype in self._handle.schema]
        rows = len(self)
        lines = [f"tilt.Table: {rows:,} row{'' if rows == 1 else 's'}"]
        if widths:
            lines += [_line(row, widths, [False] * len(widths)) for row in head]
            lines.append("─" * (sum(widths) + 2 * len(widths)))
            lines += [_line(row, widths, numeric) for row in cells]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html  # noqa: PLC0415

        (names, types), cells = self._cells()
        heads = "".join(
            f"<th>{html.escape(name)}<br><small>{html.escape(dtype)}</small></th>"
            for name, dtype in zip(names, types, strict=True)
        )
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
        return (
            f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
            f"<small>{len(self):,} rows, {len(names)} columns</small>"
        )

    def _cells(self) -> tuple[tuple[list[str], list[str]], list[list[str]]]:
        """Give names and types, and the cells of the first and last rows."""
        head = [name for name, _ in self._handle.schema], [dtype for _, dtype in self._handle.schema]
        rows = len(self)
        shown = (
            [self._handle]
            if rows <= _SHOWN_ROWS
            else [
                self._handle.slice(0, _SHOWN_ROWS // 2),
                self._handle.slice(rows - _SHOWN_ROWS // 2, _SHOWN_ROWS // 2),
            ]
        )
        cells: list[list[str]] = []
        for part in shown:
            if cells:
                cells.append(["…"] * len(head[0]))
            columns = [[_text(value) for value in part.column(name).to_pylist()] for name in head[0]]
            cells += [list(row) for row in zip(*columns, strict=True)]
        return head, cells


def _imported(rows: object) -> _native.Table:
    """Read an Arrow object. What its library says about rows that it cannot give is told as an error about rows."""
    library = type(rows).__module__.partition(".")[0]
    if library == "polars":
        # Its columns without a type are no valid Arrow.
        schema: Mapping[str, object] = getattr(rows, "schema", None) or {}
        untyped = next((name for name, dtype in schema.items() if str(dtype) == "Null"), None)
        if untyped is not None:
            message = f"column `{untyped}` has type Null; leave it out, or give it a type: cast(pl.Float64)"
            raise SchemaError(message, column=untyped)
    try:
        return _native.Table.of(rows)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyarrow":
            raise
        why = ", ".join(map(str, error.args))
        message = f"{library} cannot give its rows: {why}; give each column values of one type"
        raise SchemaError(message) from error


def _column(name: str, values: object) -> tuple[str, object, str | None, str | None]:
    """Give name, values, type and time zone of a column as the native module takes it."""
    if isinstance(values, Categorical):
        codes, _ = _array(values.codes.astype("i4", copy=False))
        return name, (codes, list(values.categories)), "dictionary", None
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        return name, *_array(values), None
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        message = f"column `{name}` is {values!r}, which is one value; give a list or an array, as long as the others"
        raise SchemaError(message, column=name)
    listed = list(cast("Any", values))
    first = next((value for value in listed if value is not None), None)
    if isinstance(first, dt.datetime):
        zone = _zone(first)
        for row, value in enumerate(listed):
            if isinstance(value, dt.datetime) and (_zone(value) is None) != (zone is None):
                message = (
                    f"column `{name}`, row {row}: times with and without a time zone; give all of them one, or none"
                )
                raise SchemaError(message, column=name, row=row)
        epoch = dt.datetime(1970, 1, 1, tzinfo=None if zone is None else dt.timezone.utc)
        return name, _ticks(listed, lambda value: (value - epoch) // _MICROSECOND), "timestamp(us)", zone
    if isinstance(first, dt.date):
        day = dt.date(1970, 1, 1)
        return name, _ticks(listed, lambda value: (value - day).days), "date", None
    if isinstance(first, dt.timedelta):
        return name, _ticks(listed, lambda value: value // _MICROSECOND), "duration(us)", None
    values = _array(listed)[0] if type(first).__module__ == "numpy" else listed
    return name, values, None, None


def write(tables: Iterable[Table], path: str | PathLike[str], **options: Any) -> int:  # noqa: ANN401
    """Write tables with the same columns, one at least, to a file that has its name once it is complete.

    >>> import tempfile, tilt as tl
    >>> from tilt.table import write
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write([tl.Table({"t": [1, 2]}), tl.Table({"t": [3]})], f"{directory}/t.csv", format="csv")
    3
    """
    writer: _native.Writer | None = None
    empty: Table | None = None
    rows = 0
    try:
        for table in tables:
            # The columns are those of the rows, if there are some.
            if len(table) == 0:
                empty = table
                continue
            writer = writer or _native.Writer(path, table._handle, **options)
            writer.write(table._handle)
            rows += len(table)
        if writer is None and empty is not None:
            writer = _native.Writer(path, empty._handle, **options)
        if writer is not None:
            writer.finish()
    finally:
        # What is not complete by now never will be.
        if writer is not None:
            writer.discard()
    return rows


_MICROSECOND = dt.timedelta(microseconds=1)


def _ticks(values: list[Any], count: Callable[[Any], int]) -> list[int | None]:
    return [None if value is None else count(value) for value in values]


def _zone(instant: dt.datetime) -> str | None:
    """Give the name of the time zone, or its offset such as +02:00."""
    if instant.tzinfo is None or instant.tzinfo is dt.timezone.utc:
        return None if instant.tzinfo is None else "UTC"
    named: str | None = getattr(instant.tzinfo, "key", None)
    return named or instant.isoformat()[-6:]


def _array(given: object) -> tuple[object, str | None]:
    """Give an array in a form that can be shared, copied only if it has to be."""
    import numpy as np  # noqa: PLC0415

    values = np.asarray(given)
    kind = values.dtype.kind
    if kind in "OUST":
        return values.tolist(), None
    if kind in "mM":
        unit, count = np.datetime_data(values.dtype)
        if unit not in {"s", "ms", "us", "ns"} or count != 1:
            values = values.astype(f"{kind}8[s]")
    if values.dtype.byteorder == ">":
        values = values.astype(values.dtype.newbyteorder("<"))
    return np.ascontiguousarray(values), None


def _numpy(column: _native.Column) -> npt.NDArray[Any]:
    import numpy as np  # noqa: PLC0415

    shared = column.values()
    if shared is None:
        objects = np.empty(len(column), dtype=object)
        objects[:] = column.to_pylist()
        return objects
    values: npt.NDArray[Any] = np.asarray(shared)
    validity = column.validity()
    if validity is None:
        return values
    missing = ~np.asarray(validity, dtype=bool)
    if values.dtype.kind == "b":
        objects = values.astype(object)
        objects[missing] = None
        return objects
    if values.dtype.kind in "iu":
        values = values.astype(np.float64)
    values = values.copy()
    values[missing] = np.datetime64("NaT") if values.dtype.kind in "mM" else np.nan
    return values


def _same(a: object, b: object) -> bool:
    return a == b or (a != a and b != b)  # noqa: PLR0124


def _is_numeric(dtype: str) -> bool:
    return dtype.startswith(("Int", "UInt", "Float", "Decimal"))


def _text(value: object) -> str:
    text = "null" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _SHOWN_WIDTH else f"{text[: _SHOWN_WIDTH - 1]}…"


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = (
        cell.rjust(width) if align else cell.ljust(width)
        for cell, width, align in zip(cells, widths, right, strict=True)
    )
    return (" " + "  ".join(padded)).rstrip()
