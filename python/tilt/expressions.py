"""Expressions that are written before the stream they are about is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from tilt.errors import suggestion
from tilt.pointwise import Pointwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilt.streams import Stream
    from tilt.windows import Window

REDUCTIONS = frozenset(
    [
        "all",
        "any",
        "arg_max",
        "arg_min",
        "collect",
        "crest_factor",
        "ewm",
        "first",
        "integral",
        "kurtosis",
        "last",
        "len",
        "max",
        "mean",
        "median",
        "min",
        "mode",
        "n_unique",
        "product",
        "quantile",
        "reduce",
        "rms",
        "skew",
        "slope",
        "std",
        "sum",
        "top_k",
        "twa",
        "var",
    ]
)
"""What can be asked of a window."""


@final
class Expr(Pointwise):
    """What to do with a stream that is given later, by ``filter``, ``with_columns``, ``select`` or ``agg``.

    :func:`tilt.col` makes one. Everything that a :class:`tilt.Stream` can do is recorded, and done when the stream is
    there.

    >>> import tilt as tl
    >>> trades = tl.stream({"t": [1, 2, 3], "px": [10.0, 11.0, 12.0], "qty": [1, 5, 2]}, time="t")
    >>> trades.filter(tl.col("qty") > 1).with_columns(value=tl.col("px") * tl.col("qty")).collect()["value"]
    [55.0, 24.0]
    >>> (tl.col("px") - tl.col("px").shift(1)) / 2
    <tilt.Expr (col('px') - col('px').shift(1)) / 2>
    """

    __slots__ = ("_args", "_function", "_kwargs")
    _function: str | Callable[..., Any] | None
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]

    def __init__(self, function: str | Callable[..., Any] | None, *args: object, **kwargs: object) -> None:
        """Record a call: of a method of the first argument if ``function`` is a name."""
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def _unary(self, op: str) -> Expr:
        return Expr("_unary", self, op)

    def _binary(self, op: str, other: object, *, reversed: bool = False) -> Expr:  # noqa: A002
        return Expr("_binary", self, op, other, reversed=reversed)

    def cast(self, dtype: str | type) -> Expr:
        """Give the values another type.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.5, 2.5]}, time="t")
        >>> x.with_columns(whole=tl.col("x").cast(int)).collect()["whole"]
        [1, 2]
        """
        return Expr("cast", self, dtype)

    def is_null(self) -> Expr:
        """Say whether the value is missing.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.5, None]}, time="t")
        >>> x.with_columns(gone=tl.col("x").is_null()).collect()["gone"]
        [False, True]
        """
        return Expr("is_null", self)

    def __getitem__(self, key: object) -> Expr:
        return Expr("__getitem__", self, key)

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        """Record the call of any other method of streams and windows."""
        from tilt.streams import Stream  # noqa: PLC0415
        from tilt.windows import Window  # noqa: PLC0415

        if name.startswith("_") or not (hasattr(Stream, name) or hasattr(Window, name)):
            message = (
                f"neither streams nor windows have a method {name!r}{suggestion(name, [*dir(Stream), *dir(Window)])}"
            )
            raise AttributeError(message)
        return lambda *args, **kwargs: Expr(name, self, *args, **kwargs)

    def __dir__(self) -> list[str]:
        from tilt.streams import Stream  # noqa: PLC0415

        return [*object.__dir__(self), *(name for name in dir(Stream) if not name.startswith("_"))]

    def __repr__(self) -> str:
        return f"<tilt.Expr {self}>"

    def __str__(self) -> str:
        if self._function is None:
            return "window" if not self._args else f"col({self._args[0]!r})"
        shown = [_shown(arg) for arg in self._args]
        if self._function == "_binary":
            left, op, right = _grouped(self._args[0]), self._args[1], _grouped(self._args[2])
            return f"{right} {op} {left}" if self._kwargs.get("reversed") else f"{left} {op} {right}"
        if self._function == "_unary":
            op = self._args[1]
            return f"{op}{_grouped(self._args[0])}" if op in "-~" else f"{_grouped(self._args[0])}.{op}()"
        shown += [f"{name}={_shown(value)}" for name, value in self._kwargs.items()]
        if not isinstance(self._function, str):
            return f"{self._function.__name__}({', '.join(shown)})"
        if isinstance(self._args[0], Expr) and self._args[0]._is_window:
            return f"{self._function}({', '.join(shown[1:])})"
        return f"{_grouped(self._args[0])}.{self._function}({', '.join(shown[1:])})"

    @property
    def _is_window(self) -> bool:
        return self._function is None and not self._args

    @property
    def _reduces(self) -> bool:
        """Whether a reduction of a window is somewhere inside."""
        if self._is_window or (isinstance(self._function, str) and self._function in REDUCTIONS):
            return True
        return any(part._reduces for part in (*self._args, *self._kwargs.values()) if isinstance(part, Expr))

    def on(self, stream: Stream) -> Any:  # noqa: ANN401
        """Do what was recorded, with the columns of a stream.

        >>> import tilt as tl
        >>> trades = tl.stream({"t": [1, 2], "px": [10.0, 11.0]}, time="t")
        >>> (tl.col("px") * 2).on(trades).collect()["px"]
        [20.0, 22.0]
        """
        if self._function is None:
            if self._is_window:
                message = "a reduction such as tl.max() stands for one of a window; use it in window(...).agg(...)"
                raise TypeError(message)
            return stream[self._args[0]]
        return self._called(
            [_on(arg, stream) for arg in self._args], {k: _on(v, stream) for k, v in self._kwargs.items()}
        )

    def over(self, window: Window) -> Any:  # noqa: ANN401
        """Do what was recorded: reductions are those of a window, of what stands before them for each of its events.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")
        >>> (tl.col("x").max() - tl.col("x").min()).over(x.window(2)).alias("range").collect()["range"]
        [0.0, 1.0]
        """
        if self._function is None:
            if self._is_window:
                return window
            message = f"{self} has a value for each event of the window; reduce it, as in tl.{self}.mean()"
            raise TypeError(message)
        subject = self._args[0] if self._args else None
        if isinstance(self._function, str) and isinstance(subject, Expr) and self._function in REDUCTIONS:
            reduced = window if subject._is_window else window.map(subject.on)
            return getattr(reduced, self._function)(*self._args[1:], **self._kwargs)
        return self._called(
            [_over(arg, window) for arg in self._args], {k: _over(v, window) for k, v in self._kwargs.items()}
        )

    def _called(self, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        if self._function == "_binary" and not isinstance(args[0], Pointwise):
            return args[2]._binary(args[1], args[0], reversed=not kwargs["reversed"])
        if isinstance(self._function, str):
            return getattr(args[0], self._function)(*args[1:], **kwargs)
        assert self._function is not None  # noqa: S101
        return self._function(*args, **kwargs)


def _on(part: object, stream: Stream) -> Any:  # noqa: ANN401
    if isinstance(part, Expr):
        return part.on(stream)
    return type(part)(_on(item, stream) for item in part) if isinstance(part, (list, tuple)) else part


def _over(part: object, window: Window) -> Any:  # noqa: ANN401
    if isinstance(part, Expr):
        return part.over(window)
    return type(part)(_over(item, window) for item in part) if isinstance(part, (list, tuple)) else part


def _shown(part: object) -> str:
    return str(part) if isinstance(part, Expr) else repr(part)


def _grouped(part: object) -> str:
    text = _shown(part)
    return f"({text})" if isinstance(part, Expr) and part._function == "_binary" else text


def kind_of(value: object) -> str:
    """Give the type of a value that is no stream where there has to be one, for a message.

    >>> import tilt as tl
    >>> from tilt.expressions import kind_of
    >>> kind_of(tl.col("px"))
    "Expr: here no stream is known that has such a column; write stream['px'] instead of col('px')"
    """
    if not isinstance(value, Expr):
        return type(value).__name__
    named = str(value) if value._function is None and value._args else "col('name')"
    column = value._args[0] if value._function is None and value._args else "name"
    return f"Expr: here no stream is known that has such a column; write stream[{column!r}] instead of {named}"


def has_expr(parts: object) -> bool:
    """Whether an expression is among some arguments.

    >>> import tilt as tl
    >>> from tilt.expressions import has_expr
    >>> has_expr([1, [tl.col("x")]]), has_expr([1, 2])
    (True, False)
    """
    if isinstance(parts, (list, tuple)):
        return any(has_expr(part) for part in parts)
    return isinstance(parts, Expr)
