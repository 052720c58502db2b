"""tilt: a time-centric query compiler. Streams are functions of time, queries are functions of streams.

:class:`Program` reads and prints the temporal IR (``docs/ir.md`` of the repository), :class:`Query` compiles and runs
it on the sources of :mod:`tilt.sources`, :class:`Table` holds rows. :mod:`tilt.generate` makes data to try things on.
"""

from tilt._native import __version__
from tilt._versions import show_versions
from tilt.errors import (
    CompileError,
    FileError,
    InternalError,
    LateDataError,
    LookaheadError,
    OverlapError,
    QueryError,
    SchemaError,
    TiltError,
    UnsortedError,
)
from tilt.program import Program
from tilt.run import Query
from tilt.table import Table

__all__ = [
    "CompileError",
    "FileError",
    "InternalError",
    "LateDataError",
    "LookaheadError",
    "OverlapError",
    "Program",
    "Query",
    "QueryError",
    "SchemaError",
    "Table",
    "TiltError",
    "UnsortedError",
    "__version__",
    "show_versions",
]
