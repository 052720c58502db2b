"""Failures of tasks as the exceptions that they were."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from tilt import errors as known
from tilt.errors import TiltError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RAISED = re.compile(
    r"^(?:tilt\.errors\.(?P<kind>\w+)|RuntimeError): (?P<message>(?(kind)|tilt: ).*?)"
    r"(?=\n\s*(?:at |Driver stacktrace|JVM stacktrace|SQLSTATE|Caused by)| SQLSTATE|\Z)",
    re.MULTILINE | re.DOTALL,
)
_COLUMN = re.compile(r"column `([^`]+)`")
_ROW = re.compile(r"\brow (\d+)")
_INPUT = re.compile(r"\brow \d+ of ~(\S+):")


class ShippingError(TiltError):
    """An executor does not have tilt, or not the version that the driver has."""


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Raise what went wrong in a task as the exception that it was there, instead of Spark's account of it.

    Other failures of Spark stay what they are.

    >>> import tilt.spark as ts
    >>> with ts.errors():
    ...     ts.run(signal, frame, time="ts", key="symbol").write.parquet("signals")  # doctest: +SKIP
    """
    try:
        yield
    except TiltError:
        raise
    except Exception as error:
        found = raised(str(error))
        if found is None:
            raise
        raise found from None


def raised(text: str) -> TiltError | None:
    r"""Find the exception of tilt in an account of a failure.

    >>> from tilt.spark.errors import raised
    >>> text = "Traceback\ntilt.errors.SchemaError: time column `ts` is null in row 2; drop such rows\n\tat org.apache"
    >>> raised(text)
    SchemaError('time column `ts` is null in row 2; drop such rows')
    >>> raised(text).row, raised(text).hint
    (2, 'drop such rows')
    >>> text = "tilt.errors.SchemaError: `ts` is null; drop such rows [row 3 of ~quotes: ts = None; slice (..., 7]]"
    >>> raised(text).input, raised(text).hint
    ('quotes', 'drop such rows')
    """
    found = _RAISED.search(text)
    if found is None:
        return None
    message = found["message"].strip().removeprefix("tilt: ")
    kind = getattr(known, found["kind"], TiltError) if found["kind"] else ShippingError
    # What a task adds, in brackets, is no hint.
    hint = kind(message.rsplit(" [", 1)[0]).hint
    column, row, given = _COLUMN.search(message), _ROW.search(message), _INPUT.search(message)
    error: TiltError = kind(message, column and column[1], row and int(row[1]))
    error.hint, error.input = hint, given and given[1]
    return error
