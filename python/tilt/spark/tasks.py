"""How many tasks run the slices of a query.

A slice is a unit of memory and of meaning, a task one of scheduling: starting one costs as much as some ten thousand
rows, so slices that follow each other share a task where there are more of them than keep the cores busy.
"""

from __future__ import annotations

import contextlib
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EACH = 2
"""How many tasks there are for a core, so that those which end early do not leave it idle for long."""
_SPLITS = re.compile(r"splits=(?:Some\()?(\d+)")


def enough_tasks(session: SparkSession) -> int | None:
    """Give how many tasks keep all cores busy, ``None`` if the session may get more cores than it has."""
    if str(session.conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        return None
    # Into how many parts Spark cuts by itself is in plans; to ask it takes a SparkContext, which Connect does not have.
    found = _SPLITS.search(plan_of(session.sql("select id from range(1)")))
    return None if found is None else _EACH * int(found[1])


def plan_of(frame: DataFrame) -> str:
    """Give the plan of Spark as it shows it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    return text.getvalue().rstrip()
