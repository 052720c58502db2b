"""Queries on data frames of Spark.

>>> import tilt.spark as ts
>>> ts.run(query, frame, time="ts", key="symbol")  # doctest: +SKIP
"""

from tilt.spark.batches import each_batch
from tilt.spark.errors import ShippingError, errors
from tilt.spark.parquet import ParquetSource, scan_parquet
from tilt.spark.run import explain, run, tune
from tilt.spark.sources import FrameSource, source
from tilt.spark.streaming import rest, run_stream

__all__ = [
    "FrameSource",
    "ParquetSource",
    "ShippingError",
    "each_batch",
    "errors",
    "explain",
    "rest",
    "run",
    "run_stream",
    "scan_parquet",
    "source",
    "tune",
]
