"""Queries on data frames of Spark.

>>> import tilt.spark as ts
>>> ts.run(query, frame, time="ts", key="symbol")  # doctest: +SKIP
"""

from tilt.spark.errors import ShippingError, errors
from tilt.spark.inputs import FrameSource, source
from tilt.spark.parquet import ParquetSource, scan_parquet
from tilt.spark.run import explain, run, tune

__all__ = [
    "FrameSource",
    "ParquetSource",
    "ShippingError",
    "errors",
    "explain",
    "run",
    "scan_parquet",
    "source",
    "tune",
]
