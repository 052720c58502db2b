"""How many tasks run the slices of a query.

A slice is a unit of memory and of meaning, a task one of scheduling: starting one costs as much as some ten thousand
rows, so slices that follow each other share a task where there are more of them than keep the cores busy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tilt.spark.settings import REFUSALS, number, setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EACH = 2
"""How many tasks there are for a core, so that those which end early do not leave it idle for long."""
_MOST = 32
"""How many slices share a task at most, so that little is done again where one fails, and executors that come later
have something to do."""
_SPLITS = re.compile(r"splits=(?:Some\()?(\d+)")


def tasks_for(slices: int, session: SparkSession, asked: int | None = None) -> int:
    """Give how many tasks run slices: as many as asked for, or one for each if the session may get more cores."""
    if asked:
        return min(asked, slices)
    if setting(session, "spark.dynamicAllocation.enabled", "").lower() == "true":
        return slices
    cores = max(_cores_now(session), _cores_promised(session))
    return min(slices, max(_EACH * cores, -(-slices // _MOST))) if cores else slices


def _cores_now(session: SparkSession) -> int:
    """Give how many cores there are, 0 if Spark does not tell."""
    # Into how many parts Spark cuts by itself is in plans; to ask it takes a SparkContext, which Connect does not have.
    try:
        (plan,) = session.sql("explain select id from range(1)").collect()
    except REFUSALS:
        return 0
    found = _SPLITS.search(plan[0])
    return 0 if found is None else int(found[1])


def _cores_promised(session: SparkSession) -> int:
    """Give how many cores there will be as far as settings tell: executors may register after the query is planned."""
    most, instances, each = (
        number(session, f"spark.{name}", 0) for name in ("cores.max", "executor.instances", "executor.cores")
    )
    return max(most, instances * each)
