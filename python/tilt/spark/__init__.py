"""Queries on data frames of Spark.

>>> import tilt.spark as ts
>>> ts.run(query, frame, time="ts", key="symbol")  # doctest: +SKIP
"""

from tilt.spark.inputs import FrameSource, source
from tilt.spark.run import explain, run

__all__ = ["FrameSource", "explain", "run", "source"]
