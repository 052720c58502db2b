"""Queries as functions of streams."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, final

from tilt.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tilt.live import Session

P = ParamSpec("P")


@final
class QueryFunction(Generic[P]):
    """A function of streams that gives a stream. See :func:`query`.

    >>> import tilt as tl
    >>> @tl.query
    ... def doubled(ticks: tl.Stream) -> tl.Stream:
    ...     return ticks["px"] * 2
    >>> doubled(tl.stream({"t": [1], "px": [2.0]}, time="t")).collect()["px"]
    [4.0]
    """

    def __init__(self, function: Callable[P, Stream]) -> None:
        """Make a query: :func:`query` does that."""
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Stream:
        """Build the query on streams."""
        result: object = self._function(*args, **kwargs)
        if not isinstance(result, Stream):
            name = getattr(self, "__name__", "query")
            message = f"query {name}() must give a Stream, not {type(result).__name__}"
            raise TypeError(message)
        return result

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Show what runs on such streams: see :meth:`tilt.Stream.explain`.

        >>> import tilt as tl
        >>> @tl.query
        ... def doubled(ticks: tl.Stream) -> tl.Stream:
        ...     return ticks["px"] * 2
        >>> print(doubled.explain(tl.source("ticks", {"t": "i64", "px": "f64"}, time="t")).splitlines()[1])
          ~ticks: lookback 0, lookahead 0
        """
        return self(*args, **kwargs).explain()

    def session(self, *, schema: object = None, **options: Any) -> Session:  # noqa: ANN401
        """Begin a live session, whose streams are called as the parameters of the function.

        Parameters
        ----------
        schema
            The columns, as for :func:`tilt.source`: of the only stream, or a dictionary by stream. If there is one
            stream, they may also come with the first rows.
        **options
            ``time`` and the other parameters of :func:`tilt.stream` about how rows become events, and those of
            :meth:`tilt.Stream.session`.

        >>> import tilt as tl
        >>> @tl.query
        ... def smooth(ticks: tl.Stream) -> tl.Stream:
        ...     return ticks["price"]["-2s":].mean()
        >>> live = smooth.session(time="t", unit="s")
        >>> live.push({"t": [1, 2, 5], "price": [1.0, 2.0, 6.0]}).to_dict()
        {'t': [1, 2], 'price': [1.0, 1.5]}

        """
        from tilt.live import Session  # noqa: PLC0415

        return Session._begin(self, options, schema)

    def on_spark(self, data: object, **options: Any) -> DataFrame:  # noqa: ANN401
        """Run the query on a data frame of Spark, or a dictionary of them by name: see :func:`tilt.spark.run`."""
        from tilt.spark import run  # noqa: PLC0415

        return run(self, data, **options)

    def __reduce__(self) -> str:
        """Pickle the name: the function is found again in its module."""
        return str(getattr(self, "__qualname__", ""))

    def __repr__(self) -> str:
        return f"<tilt.query {getattr(self, '__qualname__', '')}>"


def query(function: Callable[P, Stream]) -> QueryFunction[P]:
    """Make a query of a function of streams: it is checked, can be pickled by name, and run on any rows.

    >>> import tilt as tl
    >>> @tl.query
    ... def smooth(ticks: tl.Stream) -> tl.Stream:
    ...     return ticks["price"]["-2s":].mean()
    >>> smooth(tl.stream({"t": [1, 2, 5], "price": [1.0, 2.0, 6.0]}, time="t", unit="s")).collect().to_dict()
    {'t': [1, 2, 5], 'price': [1.0, 1.5, 6.0]}
    """
    return QueryFunction(function)
