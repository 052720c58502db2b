"""Functions of streams, of traced values and of deferred expressions alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from tilt import _native
from tilt.expressions import Expr, has_expr, kind_of
from tilt.pointwise import Pointwise, dtype_text, literal
from tilt.reducers import Value, term
from tilt.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilt.pointwise import Scalar

P = TypeVar("P", bound=Pointwise)


def col(name: str) -> Expr:
    """Name a column of a stream that is given later.

    >>> import tilt as tl
    >>> trades = tl.stream({"t": [1, 2], "px": [10.0, 11.0]}, time="t")
    >>> trades.filter(tl.col("px") > 10).collect()["px"]
    [11.0]
    """
    return Expr(None, name)


def lit(value: Scalar) -> Expr:
    """Give a constant as an expression.

    >>> import tilt as tl
    >>> trades = tl.stream({"t": [1], "px": [10.0]}, time="t")
    >>> trades.with_columns(side=tl.lit("buy"), double=tl.lit(2) * tl.col("px")).schema
    {'px': 'f64', 'side': 'utf8', 'double': 'f64'}
    """
    return Expr(_constant, value)


def _constant(value: object) -> Any:  # noqa: ANN401
    return value


@dataclass(frozen=True)
class When:
    """A condition that waits for :meth:`then`."""

    branches: tuple[tuple[Any, Any], ...]
    condition: Any

    def then(self, value: object) -> Then:
        """Say what the value is where the condition is true."""
        return Then((*self.branches, (self.condition, value)))


@dataclass(frozen=True)
class Then:
    """Branches that wait for another :meth:`when`, or for :meth:`otherwise`."""

    branches: tuple[tuple[Any, Any], ...]

    def when(self, condition: object) -> When:
        """Add a condition, for where those before it are not true."""
        return When(self.branches, condition)

    def __getattr__(self, name: str) -> NoReturn:
        """Remind of what is missing."""
        message = f"tl.when(...).then(...) has no {name!r} before it is finished by .otherwise(value)"
        raise AttributeError(message)

    def otherwise(self, value: object) -> Any:  # noqa: ANN401
        """Say what the value is where no condition is true."""
        if has_expr([value, *self.branches]):
            return Expr(_chosen, self.branches, value)
        return _chosen(self.branches, value)


def when(condition: object) -> When:
    """Choose between values: ``tl.when(condition).then(a).otherwise(b)``.

    A condition without a value counts as false.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [-1.0, 0.0, 5.0]}, time="t")["x"]
    >>> tl.when(x > 0).then("up").when(x < 0).then("down").otherwise(None).collect().to_dict()
    {'t': [1, 3], 'x': ['down', 'up']}
    """
    return When((), condition)


def _chosen(branches: tuple[tuple[Any, Any], ...], otherwise: object) -> Any:  # noqa: ANN401
    if any(isinstance(part, Value) for pair in branches for part in pair):
        chosen = term(otherwise)
        for condition, value in reversed(branches):
            chosen = condition._handle.choose(term(value), chosen)
        return Value(chosen)
    flat = [part for pair in branches for part in pair]

    def build(parts: list[Any]) -> _native.Stream:
        pairs = list(zip(parts[:-1:2], parts[1:-1:2], strict=True))
        return _native.Stream.when(pairs, parts[-1])

    return _combined(build, [*flat, otherwise])


def _combined(build: Callable[[list[Any]], _native.Stream], operands: list[Any]) -> Stream:
    """Apply a native operation to operands, of which none is its subject."""
    streams = [operand for operand in operands if isinstance(operand, Stream)]
    if not streams:
        text = next((operand for operand in operands if isinstance(operand, str)), None)
        message = "at least one operand must be a stream"
        if text is not None:
            message += f"; {text!r} is a text, tl.col(name) is the column of that name"
        raise TypeError(message)
    first = streams[0]
    places = [i for i, operand in enumerate(operands) if isinstance(operand, Stream)]
    rest = [operand for i, operand in enumerate(operands) if i != places[0]]

    def native(own: _native.Stream, *others: Any) -> _native.Stream:  # noqa: ANN401
        given = list(others)
        given.insert(places[0], own)
        return build(given)

    return first._made(native, *(first._resolved(operand) for operand in rest), columns={})


def coalesce(*operands: Any) -> Any:  # noqa: ANN401
    """Give the first operand that has a value.

    >>> import tilt as tl
    >>> rows = tl.stream({"t": [1, 2], "a": [1.0, None], "b": [5.0, 6.0]}, time="t")
    >>> tl.coalesce(rows["a"], rows["b"], 0).collect().to_dict()
    {'t': [1, 2], 'a': [1.0, 6.0]}
    """
    if has_expr(operands):
        return Expr(coalesce, *operands)
    if any(isinstance(operand, Value) for operand in operands):
        *before, last = operands
        result = term(last)
        for operand in reversed(before):
            result = operand._handle.coalesce(result)
        return Value(result)
    return _combined(_native.Stream.coalesce, list(operands))


def struct(**columns: Any) -> Any:  # noqa: ANN401
    """Make a stream of records, with an event wherever one of its columns changes.

    >>> import tilt as tl
    >>> rows = tl.stream({"t": [1, 2], "a": [1.0, None], "b": [5.0, 6.0]}, time="t")
    >>> tl.struct(sum=rows["a"] + rows["b"], b=rows["b"]).collect().to_pylist()
    [{'t': 1, 'sum': 6.0, 'b': 5.0}, {'t': 2, 'sum': None, 'b': 6.0}]
    """
    if has_expr(list(columns.values())):
        return Expr(struct, **columns)
    names = list(columns)
    return _combined(
        lambda parts: _native.Stream.struct_of(list(zip(names, parts, strict=True))), list(columns.values())
    )


def recur(function: Callable[[Stream], Stream], *, dtype: str | type = float, initial: Scalar = 0) -> Stream:
    """Make a stream that depends on its own past.

    Parameters
    ----------
    function
        Is called once with the stream itself, of which ``y[-1]`` is the sample before and ``y.prev(1)`` the event, and
        gives what it is.
    dtype
        The type of its values.
    initial
        What its past is where there is none; with ``None`` it stays without a value there.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, time="t", period=1)["x"]
    >>> tl.recur(lambda y: 0.5 * y[-1] + x).collect().to_dict()
    {'t': [1, 2, 3], 'recur': [1.0, 2.5, 4.25]}

    """
    result: list[Stream] = []

    def traced(own: _native.Stream) -> _native.Stream:
        made: object = function(Stream._of(own, {}))
        if not isinstance(made, Stream):
            message = f"the function of recur() gives a stream, not {kind_of(made)}"
            raise TypeError(message)
        result.append(made)
        return made._handle

    kind = dtype_text(dtype)
    first = bool(initial) if kind == "bool" and initial is not None else initial
    handle = _native.Stream.recur(traced, kind, literal(first))
    return Stream._of(handle, result[0]._sources, name="recur")


def _applied(name: str, x: Any, plain: Callable[[float], float]) -> Any:  # noqa: ANN401
    return getattr(x, name)() if isinstance(x, Pointwise) else plain(x)


def log(x: P) -> P:
    """Give the natural logarithm.

    >>> import tilt as tl
    >>> tl.log(tl.stream({"t": [1], "x": [1.0]}, time="t")["x"]).collect()["x"]
    [0.0]
    """
    return cast("P", _applied("log", x, math.log))


def exp(x: P) -> P:
    """Give e to the power of ``x``.

    >>> import tilt as tl
    >>> tl.exp(tl.stream({"t": [1], "x": [0.0]}, time="t")["x"]).collect()["x"]
    [1.0]
    """
    return cast("P", _applied("exp", x, math.exp))


def sqrt(x: P) -> P:
    """Give the square root.

    >>> import tilt as tl
    >>> tl.sqrt(tl.stream({"t": [1], "x": [4.0]}, time="t")["x"]).collect()["x"]
    [2.0]
    """
    return cast("P", _applied("sqrt", x, math.sqrt))


def sin(x: P) -> P:
    """Give the sine.

    >>> import tilt as tl
    >>> tl.sin(tl.stream({"t": [1], "x": [0.0]}, time="t")["x"]).collect()["x"]
    [0.0]
    """
    return cast("P", _applied("sin", x, math.sin))


def cos(x: P) -> P:
    """Give the cosine.

    >>> import tilt as tl
    >>> tl.cos(tl.stream({"t": [1], "x": [0.0]}, time="t")["x"]).collect()["x"]
    [1.0]
    """
    return cast("P", _applied("cos", x, math.cos))


def tanh(x: P) -> P:
    """Give the hyperbolic tangent.

    >>> import tilt as tl
    >>> tl.tanh(tl.stream({"t": [1], "x": [0.0]}, time="t")["x"]).collect()["x"]
    [0.0]
    """
    return cast("P", _applied("tanh", x, math.tanh))


def floor(x: P) -> P:
    """Round down.

    >>> import tilt as tl
    >>> tl.floor(tl.stream({"t": [1], "x": [1.5]}, time="t")["x"]).collect()["x"]
    [1.0]
    """
    return cast("P", _applied("floor", x, math.floor))


def ceil(x: P) -> P:
    """Round up.

    >>> import tilt as tl
    >>> tl.ceil(tl.stream({"t": [1], "x": [1.5]}, time="t")["x"]).collect()["x"]
    [2.0]
    """
    return cast("P", _applied("ceil", x, math.ceil))
