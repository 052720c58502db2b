"""tilt: a time-centric query compiler. Streams are functions of time, queries are functions of streams.

>>> import tilt as tl
>>> price = tl.stream({"t": [0, 4, 8, 12], "price": [1.0, 2.0, 6.0, 5.0]}, time="t", unit="s")["price"]
>>> trend = (price["-5s":].mean() - price["-10s":].mean()).alias("trend")
>>> trend.filter(trend > 0).collect().to_dict()
{'t': [8, 12], 'trend': [1.0, 1.166666666666667]}

:func:`stream` and :func:`scan_parquet` make a :class:`Stream` of rows, :meth:`Stream.collect` gives a :class:`Table`.
:class:`Program` and :class:`Query` are what lies below: the temporal IR as text. :mod:`tilt.generate` makes data to try
things on.
"""

from typing import TYPE_CHECKING

from tilt._native import __version__
from tilt._versions import show_versions
from tilt.config import Config
from tilt.errors import (
    CheckpointError,
    CompileError,
    FileError,
    InternalError,
    LateDataError,
    LookaheadError,
    OverlapError,
    QueryError,
    SchemaError,
    StateError,
    TiltError,
    UnsortedError,
)
from tilt.expressions import Expr
from tilt.functions import ceil, coalesce, col, cos, exp, floor, lit, log, recur, sin, sqrt, struct, tanh, when
from tilt.inputs import scan_csv, scan_ipc, scan_json, scan_parquet, source, stream, table
from tilt.plots import plot
from tilt.program import Program
from tilt.queries import query
from tilt.reducers import Reducer, Value, reducer
from tilt.reductions import (
    all,  # noqa: A004
    any,  # noqa: A004
    arg_max,
    arg_min,
    collect,
    crest_factor,
    ewm,
    first,
    integral,
    kurtosis,
    last,
    len,  # noqa: A004
    max,  # noqa: A004
    mean,
    median,
    min,  # noqa: A004
    mode,
    n_unique,
    product,
    quantile,
    rms,
    skew,
    slope,
    std,
    sum,  # noqa: A004
    top_k,
    twa,
    var,
    window_end,
    window_start,
)
from tilt.run import Query
from tilt.streams import Stream
from tilt.table import Table
from tilt.udfs import udf
from tilt.windows import Window, WindowSpec, calendar, count, hopping, session, sliding, tumbling

if TYPE_CHECKING:
    from tilt import live as live
    from tilt.live import Session

__all__ = [
    "CheckpointError",
    "CompileError",
    "Config",
    "Expr",
    "FileError",
    "InternalError",
    "LateDataError",
    "LookaheadError",
    "OverlapError",
    "Program",
    "Query",
    "QueryError",
    "Reducer",
    "SchemaError",
    "Session",
    "StateError",
    "Stream",
    "Table",
    "TiltError",
    "UnsortedError",
    "Value",
    "Window",
    "WindowSpec",
    "__version__",
    "all",
    "any",
    "arg_max",
    "arg_min",
    "calendar",
    "ceil",
    "coalesce",
    "col",
    "collect",
    "cos",
    "count",
    "crest_factor",
    "ewm",
    "exp",
    "first",
    "floor",
    "hopping",
    "integral",
    "kurtosis",
    "last",
    "len",
    "lit",
    "log",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "n_unique",
    "plot",
    "product",
    "quantile",
    "query",
    "recur",
    "reducer",
    "rms",
    "scan_csv",
    "scan_ipc",
    "scan_json",
    "scan_parquet",
    "session",
    "show_versions",
    "sin",
    "skew",
    "sliding",
    "slope",
    "source",
    "sqrt",
    "std",
    "stream",
    "struct",
    "sum",
    "table",
    "tanh",
    "top_k",
    "tumbling",
    "twa",
    "udf",
    "var",
    "when",
    "window_end",
    "window_start",
]


def __getattr__(name: str) -> object:
    """Import what is live when it is asked for: two fifths of the package, which most programs do without."""
    if name not in {"Session", "live"}:
        message = f"module 'tilt' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # noqa: PLC0415

    live = import_module("tilt.live")
    return live if name == "live" else live.Session


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
