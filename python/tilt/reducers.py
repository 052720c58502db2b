"""Reductions of one's own, traced once and compiled."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from tilt import _native
from tilt.pointwise import Pointwise, dtype_text, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform() -> Callable[[T], T]:
        """Tell type checkers that states are made like data classes."""
        return lambda function: function


T = TypeVar("T")


@final
class Value(Pointwise):
    """A number that is not known yet, which the functions of a reducer get: operators on it are recorded.

    Fields of states and of events that are records are attributes.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1], "x": [2.0]}, time="t")["x"]
    >>> def acc(state, value):
    ...     print(value, value * 2 > 1)
    ...     return {"s": state.s + value}
    >>> total = tl.reducer(init=lambda: {"s": 0.0}, acc=acc, result=lambda state: state.s)
    >>> x.window(5).reduce(total).collect()["x"]
    <tilt.Value: f64> <tilt.Value: bool>
    [2.0]
    """

    __slots__ = ("_handle",)
    _handle: _native.Value

    def __init__(self, handle: _native.Value) -> None:
        """Values are made when a reducer is traced."""
        self._handle = handle

    @property
    def dtype(self) -> str:
        """The type of the value."""
        return self._handle.dtype

    def _unary(self, op: str) -> Value:
        return Value(self._handle.unary(op))

    def _binary(self, op: str, other: object, *, reversed: bool = False) -> Value:  # noqa: A002
        return Value(self._handle.binary(op, term(other), reversed))

    def cast(self, dtype: str | type) -> Value:
        """Give the value another type."""
        return Value(self._handle.cast(dtype_text(dtype)))

    def is_null(self) -> Value:
        """Say whether the value is missing."""
        return Value(self._handle.is_null())

    def __getattr__(self, name: str) -> Value:
        """Give a field."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Value(self._handle.field(name))

    def __getitem__(self, name: str) -> Value:
        """Give a field, also one whose name is not a name of Python."""
        return Value(self._handle.field(name))

    def __repr__(self) -> str:
        return f"<tilt.Value: {self.dtype}>"


def term(value: object) -> Any:  # noqa: ANN401
    """Give a traced value or a constant as the native tracer takes it."""
    return value._handle if isinstance(value, Value) else literal(value)


@final
class Reducer:
    """A reduction of one's own. See :func:`reducer`.

    >>> import tilt as tl
    >>> tl.reducer(init=lambda: {"n": 0}, acc=lambda s, v: {"n": s.n + 1}, result=lambda s: s.n, name="size")
    <tilt.Reducer size>
    """

    __slots__ = ("_functions", "_state", "name")
    name: str
    """What plans call it."""
    _functions: dict[str, Callable[..., Any]]
    _state: type | None

    def __init__(
        self, name: str, functions: Mapping[str, Callable[..., Any] | None], state: type | None = None
    ) -> None:
        """Reducers are made by :func:`reducer`."""
        self.name = name
        self._functions = {part: function for part, function in functions.items() if function is not None}
        self._state = state

    def __call__(self, *values: object, **named: object) -> Any:  # noqa: ANN401
        """Give a state, in the functions of a class."""
        if self._state is None:
            message = "this reducer was made of functions, which give their states as dictionaries"
            raise TypeError(message)
        fields = list(_fields(self._state))
        if len(values) > len(fields):
            message = f"{self.name} has {len(fields)} fields, not {len(values)}"
            raise TypeError(message)
        given = dict(zip(fields, values, strict=False)) | named
        return self._instance(_fields(self._state) | given)

    def _instance(self, fields: Mapping[str, object]) -> Any:  # noqa: ANN401
        assert self._state is not None  # noqa: S101
        state: Any = object.__new__(self._state)
        state.__dict__.update(fields)
        return state

    def _traced(self, dtype: str, unit: str) -> _native.Reducer:
        """Call each function once with values that stand for events of a type."""
        init = self._functions["init"]()
        if not isinstance(init, dict) or not init:
            message = f"init must give a dictionary of the state's fields, such as dict(s=0.0, n=0), not {init!r}"
            raise TypeError(message)
        reducer = _native.Reducer(self.name, dtype, unit, [(name, literal(value)) for name, value in init.items()])
        for part in ("acc", "merge", "deacc", "result"):
            function = self._functions.get(part)
            if function is None:
                continue
            params = reducer.params(part)
            states = 2 if part == "merge" else 1
            args = [
                self._argument(Value(param), init) if i < states else Value(param) for i, param in enumerate(params)
            ]
            result = function(*args[: _arity(function, len(args))])
            if part == "result":
                reducer.define(part, params, term(result))
            else:
                reducer.define(part, params, self._assigned(part, result, init))
        return reducer

    def _argument(self, state: Value, init: Mapping[str, object]) -> Any:  # noqa: ANN401
        return state if self._state is None else self._instance({name: state[name] for name in init})

    def _assigned(self, part: str, result: object, init: Mapping[str, object]) -> list[tuple[str, Any]]:
        if self._state is not None and isinstance(result, self._state):
            result = vars(result)
        if not isinstance(result, dict) or set(result) != set(init):
            message = f"{part} must give the new state, with the fields {', '.join(init)}; not {result!r}"
            raise TypeError(message)
        return [(name, term(result[name])) for name in init]

    def __repr__(self) -> str:
        return f"<tilt.Reducer {self.name}>"


def _arity(function: Callable[..., Any], most: int) -> int:
    """Count how many of the arguments a function takes."""
    params = inspect.signature(function).parameters.values()
    if any(param.kind is param.VAR_POSITIONAL for param in params):
        return most
    return min(most, sum(param.kind in {param.POSITIONAL_ONLY, param.POSITIONAL_OR_KEYWORD} for param in params))


def _fields(state: type) -> dict[str, object]:
    names = inspect.get_annotations(state)
    missing = [name for name in names if not hasattr(state, name)]
    if missing or not names:
        message = f"each field of {state.__name__} needs a type and a first value, such as `total: float = 0.0`"
        raise TypeError(message)
    return {name: getattr(state, name) for name in names}


@overload
@dataclass_transform()
def reducer(cls: type[T], /) -> type[T]: ...
@overload
def reducer(
    *,
    init: Callable[[], dict[str, Any]],
    acc: Callable[..., Any],
    result: Callable[..., Any],
    merge: Callable[..., Any] | None = None,
    deacc: Callable[..., Any] | None = None,
    name: str = "custom",
) -> Reducer: ...
def reducer(  # noqa: PLR0913
    cls: type | None = None,
    *,
    init: Callable[[], dict[str, Any]] | None = None,
    acc: Callable[..., Any] | None = None,
    result: Callable[..., Any] | None = None,
    merge: Callable[..., Any] | None = None,
    deacc: Callable[..., Any] | None = None,
    name: str = "custom",
) -> Any:
    """Make a reduction of functions, or of a class with such methods. They are called once, with values that record.

    Parameters
    ----------
    cls
        A class whose annotated attributes are the state's fields with their first values.
    init
        Gives the first state, as a dictionary of constants.
    acc
        Gives the state after one more event: of the state, the event's value and, if it takes them, its start and end.
    result
        Gives the value of the window from its state.
    merge
        Gives the state of two neighbouring parts of a window; with it overlapping windows share their work.
    deacc
        Takes an event out again; used where all fields are integers.
    name
        What plans call it.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 4.0, 16.0]}, time="t")["x"]
    >>> geometric = tl.reducer(
    ...     init=lambda: dict(s=0.0, n=0),
    ...     acc=lambda state, v: dict(s=state.s + tl.log(v), n=state.n + 1),
    ...     merge=lambda a, b: dict(s=a.s + b.s, n=a.n + b.n),
    ...     result=lambda state: tl.exp(state.s / state.n),
    ... )
    >>> x.window(2).reduce(geometric).round().collect().to_dict()
    {'t': [1, 2, 3], 'x': [1.0, 2.0, 8.0]}

    >>> @tl.reducer
    ... class Range:
    ...     lo: float = float("inf")
    ...     hi: float = float("-inf")
    ...     def acc(self, v): return Range(self.lo.min_with(v), self.hi.max_with(v))
    ...     def result(self): return self.hi - self.lo
    >>> x.window(2).reduce(Range).collect().to_dict()
    {'t': [1, 2, 3], 'x': [0.0, 3.0, 12.0]}

    """
    if cls is not None:
        made: Reducer = Reducer(
            cls.__name__,
            {
                "init": lambda: _fields(cls),
                **{part: getattr(cls, part, None) for part in ("acc", "merge", "deacc", "result")},
            },
            cls,
        )
        _fields(cls)
    else:
        made = Reducer(name, {"init": init, "acc": acc, "merge": merge, "deacc": deacc, "result": result})
    missing = [part for part in ("init", "acc", "result") if part not in made._functions]
    if missing:
        message = f"a reducer needs {' and '.join(missing)}"
        raise TypeError(message)
    return made
