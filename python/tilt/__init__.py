"""tilt: a time-centric query compiler. Streams are functions of time, queries are functions of streams.

What exists so far is the temporal IR: :class:`Program` reads and prints it. See ``docs/ir.md`` of the repository.
"""

from tilt._native import __version__
from tilt._versions import show_versions
from tilt.errors import InternalError, QueryError, TiltError
from tilt.program import Program

__all__ = [
    "InternalError",
    "Program",
    "QueryError",
    "TiltError",
    "__version__",
    "show_versions",
]
