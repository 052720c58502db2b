"""What can go wrong, by who must act."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class TiltError(Exception):
    """The root of every exception that tilt raises on purpose.

    Files that the operating system refuses raise :class:`OSError`, as :func:`open` does; arguments of a wrong type or
    name raise :class:`TypeError` and :class:`ValueError`.

    >>> import tilt as tl
    >>> error = tl.TiltError("column `px` is missing; name another", column="px")
    >>> error.column, error.row, error.hint
    ('px', None, 'name another')
    """

    column: str | None
    """The column that is wrong, if it is one."""
    row: int | None
    """The first row that is wrong, counted from zero across all chunks."""
    hint: str | None
    """What to do about it: the end of the message."""
    input: str | None = None
    """The input of the query whose column or row it is, if that is known."""
    expression: str | None = None
    """What an operation that is refused was applied to, as the IR writes it: a definition a line."""

    def __init__(
        self, message: str = "", column: str | None = None, row: int | None = None, hint: str | None = None
    ) -> None:
        """Make an exception; the hint is what stands behind the message's last semicolon."""
        super().__init__(message)
        self.column = column
        self.row = row
        if hint is None and "; " in message:
            hint = message.rsplit("; ", 1)[1]
        self.hint = hint


_OTHERS = {
    "assign": "with_columns",
    "avg": "mean",
    "average": "mean",
    "bfill": "fill_null",
    "compute": "collect",
    "count": "len",
    "cumsum": "cum_sum",
    "ffill": "fill_null",
    "fillna": "fill_null",
    "group_by": "key_by",
    "groupby": "key_by",
    "head": "collect",
    "interp": "interpolate",
    "lag": "prev",
    "merge_asof": "join_asof",
    "partition_by": "key_by",
    "rolling": "window",
    "size": "len",
    "stddev": "std",
    "tail": "collect",
    "where": "filter",
    "with_column": "with_columns",
}
"""What other libraries call things."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Ask whether a similar name was meant, if there is one.

    >>> from tilt.errors import suggestion
    >>> suggestion("prize", ["price", "size"]), suggestion("avg", ["mean"])
    (', did you mean `price`?', ', did you mean `mean`?')
    """
    known = [other for other in names if not other.startswith("_")]
    other = _OTHERS.get(name)
    if other in known:
        return f", did you mean `{other}`?"
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, known, 1)
    return f", did you mean `{close[0]}`?" if close else ""


class QueryError(TiltError):
    """The query is wrong; its author must change it. The message points at the place.

    >>> import tilt as tl
    >>> try:
    ...     tl.Program.parse("query broken unit s { output }")
    ... except tl.QueryError as error:
    ...     print(error)
    error at 1:30: expected `~`, found `}`
      1 | query broken unit s { output }
        |                              ^ expected `~`
    """


class LookaheadError(QueryError):
    """A query was asserted to be causal, but its result depends on the future.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
    >>> try:
    ...     x["+1m"].assert_causal()
    ... except tl.LookaheadError as error:
    ...     print(str(error).splitlines()[0])
    assert_causal: the query is not causal: ~stream is read 1m ahead
    """


class WholeError(QueryError):
    """A query was to run in parts, but no part of its result can be told before all rows are read.

    :meth:`tilt.Query.batches` raises it; methods of streams then run the query as a whole.
    """


class WholeRunWarning(UserWarning):
    """A run that was given a budget of memory reads all rows at once, because the query cannot be run in parts."""


class CompileError(TiltError):
    """Machine code was asked for and cannot be made on this machine.

    >>> import tilt as tl
    >>> issubclass(tl.CompileError, tl.QueryError)  # the query is not to blame
    False
    """


class SchemaError(TiltError):
    """Rows are not what was declared: a column is missing, or its type or a value does not fit.

    >>> import tilt as tl
    >>> try:
    ...     tl.Table({"t": [1, 2], "price": [1.0, 2.0]})["prize"]
    ... except tl.SchemaError as error:
    ...     print(error)
    there is no column `prize`, did you mean `price`?; the columns are `t` and `price`
    """


class UnsortedError(SchemaError):
    """Rows are not in order of time. Sort them, or let tilt do it with ``sort=True``.

    >>> import tilt as tl
    >>> try:
    ...     tl.stream({"t": [3, 1], "x": [1.0, 2.0]}, time="t").collect()
    ... except tl.UnsortedError as error:
    ...     print(error.row, error.hint)
    1 sort the data, or have it sorted: sort=True
    """


class OverlapError(SchemaError):
    """Two events are active at one instant of a stream that promises not to have such.

    >>> import tilt as tl
    >>> try:
    ...     tl.stream({"s": [0, 2], "e": [3, 5], "x": [1, 2]}, valid=("s", "e")).collect()
    ... except tl.OverlapError as error:
    ...     print(error.row, error.hint)
    1 correct the data, or declare overlap="bag", "first" or "last"
    """


class LateDataError(TiltError):
    """Rows arrived after the instants that they belong to were settled.

    >>> import tilt as tl
    >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=5)
    >>> rows = live.push({"t": 20, "x": 1.0})
    >>> try:
    ...     live.push({"t": 3, "x": 2.0})
    ... except tl.LateDataError as error:
    ...     print(error.input, error.row)
    x 0
    """


class CheckpointError(TiltError):
    """Bytes are not the whole checkpoint of a live session, or not one of this query and these options.

    >>> import tilt as tl
    >>> x = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"]
    >>> try:
    ...     tl.Session.restore(x, b"nonsense")
    ... except tl.CheckpointError:
    ...     print("no checkpoint")
    no checkpoint
    """


class StateError(TiltError):
    """What a run has kept cannot be gone on with: it is damaged, of another query, in use, or does not fit its sink.

    >>> import tilt as tl
    >>> issubclass(tl.StateError, tl.TiltError)
    True
    """


class FileError(TiltError):
    """A file has content that cannot be read, or that its format cannot hold.

    >>> import pathlib, tempfile
    >>> import tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     size = (pathlib.Path(directory) / "x.parquet").write_bytes(b"nonsense")
    ...     try:
    ...         tl.scan_parquet(f"{directory}/x.parquet", time="t")
    ...     except tl.FileError:
    ...         print("no Parquet file")
    no Parquet file
    """


class InternalError(TiltError):
    """A bug in tilt. Please report it together with the query and :func:`tilt.show_versions`.

    >>> import tilt as tl
    >>> issubclass(tl.InternalError, tl.QueryError)  # the query is not to blame
    False
    """
