"""Functions of one's own that queries call for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from tilt import _native
from tilt.expressions import Expr, has_expr
from tilt.externs import adopted, called, registered
from tilt.functions import struct
from tilt.pointwise import dtype_text
from tilt.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@final
class Udf:
    """A function that queries call. See :func:`udf`."""

    __slots__ = ("_declaration", "_name")

    def __init__(self, declaration: str) -> None:
        """Make one: :func:`udf` does that."""
        self._name = declaration.removeprefix("extern fn ").partition("(")[0]
        self._declaration = declaration

    def __call__(self, *operands: Any) -> Any:  # noqa: ANN401
        """Give the stream of results: a value wherever all operands have one."""
        if has_expr(operands):
            return Expr(self, *operands)
        columns = {f"a{i}": operand for i, operand in enumerate(operands)}
        arguments: Stream = struct(**columns)
        head, *lines, output, end = arguments._handle.text().rstrip().splitlines()
        record = output.split("output ", 1)[1].strip()
        call = next(name for n in range(len(lines) + 2) if f"~{(name := f'{self._name}_{n}')}" not in "".join(lines))
        fields = ", ".join(f"{record}[t].{column}" for column in columns)
        body = [f"~{call}[t] = @{self._name}({fields})", f"output ~{call}"]
        # What the function is called on may have called it, too.
        declared = [] if f"  {self._declaration}" in lines else [self._declaration]
        handle = _native.Stream.from_text("\n".join([head, *declared, *lines, *body, end]))
        first = next((operand for operand in operands if isinstance(operand, Stream)), arguments)
        return Stream._of(handle, arguments._sources, arguments._columns, first.name)

    def __reduce__(self) -> tuple[Callable[..., Udf], tuple[Any, ...]]:
        return _restored, (self._declaration, called(self._declaration))

    @property
    def __name__(self) -> str:
        """The name."""
        return self._name

    def __repr__(self) -> str:
        return f"<tilt.Udf {self._declaration}>"


def udf(function: Any, *, args: Sequence[str | type], returns: str | type, name: str | None = None) -> Udf:  # noqa: ANN401
    """Make a function that queries call for each value, without Python if it is a native one.

    It must be pure: it may be called in any order, several times, and from several threads.

    Parameters
    ----------
    function
        The address of a C function, something that has one (``numba.cfunc``, a function of ``ctypes``), or a function
        of Python, for which the interpreter is entered each time.
    args
        The types of its arguments: of native functions at most four of ``f64``, ``i64`` and ``bool``.
    returns
        The type of its result.
    name
        What plans call it.

    >>> import ctypes, ctypes.util
    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2], "x": [3.0, 5.0]}, time="t")["x"]
    >>> libm = ctypes.CDLL(ctypes.util.find_library("m"))
    >>> hypot = tl.udf(libm.hypot, args=["f64", "f64"], returns="f64")
    >>> hypot(x, x + 1).collect()["x"]
    [5.0, 7.810249675906654]
    >>> halved = tl.udf(lambda v: v / 2, args=[float], returns=float, name="halved")
    >>> halved(x).collect()["x"]
    [1.5, 2.5]

    """
    types, result = [dtype_text(arg) for arg in args], dtype_text(returns)
    target = _target(function, types, result)
    base = name or str(getattr(function, "__name__", "udf"))
    # Another function of the same name stays what it is for queries that call it.
    declared = f"({', '.join(types)}) -> {result}"
    chosen = registered(base if base.isidentifier() else "udf", target, declared)
    return Udf(f"extern fn {chosen}{declared}")


def _restored(declaration: str, functions: Mapping[str, Callable[..., Any] | None]) -> Udf:
    return Udf(adopted(declaration, functions))


def _target(function: Any, args: list[str], returns: str) -> Callable[..., Any] | _native.Pointer:  # noqa: ANN401
    address = getattr(function, "address", function)
    if hasattr(function, "argtypes"):
        import ctypes  # noqa: PLC0415

        address = ctypes.cast(function, ctypes.c_void_p).value
    if isinstance(address, int):
        return _native.Pointer(address, args, returns)
    if callable(function):
        return function  # type: ignore[no-any-return]
    message = f"a function is an address, a native function or a function of Python, not {type(function).__name__}"
    raise TypeError(message)
