"""Programs of the temporal IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from tilt import _native

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class Program:
    """A query in the temporal IR: immutable, comparable, picklable.

    >>> import tilt as tl
    >>> program = tl.Program.parse('''
    ...     query doubled unit s {
    ...       input ~x: f64 point
    ...       ~y[t] = ~x[t] * 2.0
    ...       output ~y
    ...     }
    ... ''')
    >>> program
    <tilt.Program doubled(~x: f64) -> ~y: f64>
    >>> program == tl.Program.parse(str(program))
    True
    """

    __slots__ = ("_handle",)
    _handle: _native.Program

    def __init__(self) -> None:
        """Programs are parsed: see :meth:`parse`."""
        message = "use tilt.Program.parse(text)"
        raise TypeError(message)

    @classmethod
    def parse(cls, text: str) -> Program:
        """Read a program from its text form (``docs/ir.md``).

        Raises
        ------
        QueryError
            With line, column, the line's text and what was expected instead.

        >>> import tilt as tl
        >>> tl.Program.parse("query q unit s { input ~x: f64 point output ~x }")
        <tilt.Program q(~x: f64) -> ~x: f64>

        """
        return cls._of(_native.Program.parse(text))

    @classmethod
    def _of(cls, handle: _native.Program) -> Program:
        program = object.__new__(cls)
        program._handle = handle
        return program

    @property
    def name(self) -> str:
        """The query's name.

        >>> import tilt as tl
        >>> tl.Program.parse("query q unit s { input ~x: f64 point output ~x }").name
        'q'
        """
        return self._handle.name

    @property
    def unit(self) -> str:
        """What a tick of time is: ``s``, ``ms``, ``us``, ``ns`` or ``tick``.

        >>> import tilt as tl
        >>> tl.Program.parse("query q unit s { input ~x: f64 point output ~x }").unit
        's'
        """
        return self._handle.unit

    @property
    def inputs(self) -> dict[str, str]:
        """The type of each input, by name and in order of declaration.

        >>> import tilt as tl
        >>> tl.Program.parse("query q unit s { input ~x: f64 point output ~x }").inputs
        {'x': 'f64'}
        """
        return dict(self._handle.inputs)

    @property
    def output(self) -> tuple[str, str]:
        """Name and type of the result.

        >>> import tilt as tl
        >>> tl.Program.parse("query q unit s { input ~x: f64 point output ~x }").output
        ('x', 'f64')
        """
        return self._handle.output

    def lineage(self) -> dict[str, tuple[str, str]]:
        """Give ``(lookback, lookahead)`` of each input that the result depends on, by name.

        The result on an interval depends only on what the inputs are that much before and after it. A reach is a length
        of time, for example ``"20s"``, with a number of events besides (``"20s + 1 event"``), or ``"unbounded"``.

        >>> import tilt as tl
        >>> program = tl.Program.parse('''
        ...     query centred unit s {
        ...       input ~x: f64 point
        ...       ~mean[t] = reduce mean ~x[t-20s : t+5s]
        ...       output ~mean
        ...     }
        ... ''')
        >>> program.lineage()
        {'x': ('20s', '5s')}
        """
        return {name: (lookback, lookahead) for name, lookback, lookahead in self._handle.lineage()}

    def optimize(self) -> Program:
        """Give a program with the same results, bit for bit, in as few expressions as the optimiser can make.

        >>> import tilt as tl
        >>> program = tl.Program.parse('''
        ...     query q unit s {
        ...       input ~x: f64 point
        ...       ~a[t] = ~x[t] + 1.0
        ...       ~b[t] = ~a[t] * 2.0
        ...       output ~b
        ...     }
        ... ''')
        >>> print(program.optimize())
        query q unit s {
          input ~x: f64 point
        <BLANKLINE>
          ~b[t] = (~x[t] + 1.0) * 2.0
        <BLANKLINE>
          output ~b
        }
        <BLANKLINE>
        """
        return self._of(self._handle.optimize())

    def __str__(self) -> str:
        """Give the canonical text, which :meth:`parse` reads back."""
        return str(self._handle)

    def __repr__(self) -> str:
        inputs = ", ".join(f"~{name}: {dtype}" for name, dtype in self.inputs.items())
        name, dtype = self.output
        return f"<tilt.Program {self.name}({inputs}) -> ~{name}: {dtype}>"

    def __eq__(self, other: object) -> bool:
        """Compare the canonical texts."""
        return isinstance(other, Program) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Callable[[str], Program], tuple[str]]:
        """Pickle the text: it is the same in every version and process."""
        return Program.parse, (str(self),)
