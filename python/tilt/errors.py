"""What can go wrong, by who must act."""


class TiltError(Exception):
    """The root of every exception that tilt raises on purpose."""


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


class InternalError(TiltError):
    """A bug in tilt. Please report it together with the query and :func:`tilt.show_versions`."""
