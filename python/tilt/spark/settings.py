"""What a session is set to, as far as it tells.

Sessions of a service may refuse to tell or to change a setting, and their values may not be those of Spark itself:
``spark.sql.shuffle.partitions`` is ``auto`` where the service finds the number. A query runs all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from py4j.protocol import Py4JError
except ImportError:
    # A client of Connect has no JVM beside it.
    REFUSALS: tuple[type[Exception], ...] = (PySparkException,)
else:
    # What guards the JVM of a shared cluster raises an error that is none of Spark's.
    REFUSALS = (PySparkException, Py4JError)
_T = TypeVar("_T")
PARTITIONS = "spark.sql.shuffle.partitions"
_USUAL = 200
"""What :data:`PARTITIONS` is by default."""


def setting(session: SparkSession, name: str, unset: _T, *, untold: _T | None = None) -> str | _T:
    """Give a setting; ``untold`` if the session does not tell it, by default what it is where it is not set."""
    try:
        found = session.conf.get(name, None)
    except REFUSALS:
        return unset if untold is None else untold
    return unset if found is None else str(found)


def number(session: SparkSession, name: str, otherwise: int) -> int:
    """Give a setting that is a positive number in decimal digits, or something else if it is none.

    >>> from types import SimpleNamespace
    >>> from tilt.spark.settings import number
    >>> session = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "auto", "spark.cores.max": "8"})
    >>> [number(session, f"spark.{name}", 3) for name in ("sql.shuffle.partitions", "cores.max", "executor.cores")]
    [3, 8, 3]
    """
    text = setting(session, name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) else otherwise


def partitions(session: SparkSession) -> int:
    """Give into how many partitions rows are moved unless it is said."""
    return number(session, PARTITIONS, _USUAL)


def zone(session: SparkSession) -> str:
    """Give the zone of the session, in which it shows instants."""
    try:
        return str(session.conf.get("spark.sql.session.timeZone"))
    except REFUSALS:
        # Asked in another way, every session tells it.
        return str(session.sql("select current_timezone()").collect()[0][0])
