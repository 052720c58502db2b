"""Numbers of keys, by which rows go to partitions."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tilt.spark.packing import values_of

if TYPE_CHECKING:
    from tilt.spark.packing import Numbers


def is_light(dtype: pa.DataType) -> bool:
    """Whether a task hashes keys of a type in less time than it takes to be handed hashes by Spark, besides the keys.

    >>> import pyarrow as pa
    >>> from tilt.spark.hashing import is_light
    >>> is_light(pa.int32()), is_light(pa.string())
    (True, False)
    """
    return pa.types.is_integer(dtype)  # type: ignore[no-any-return]


def hashes_of(keys: pa.Array) -> Numbers:
    """Give numbers that are the same for equal keys, also of integers and of floats that differ in width.

    >>> import pyarrow as pa
    >>> from tilt.spark.hashing import hashes_of
    >>> one, other, missing = hashes_of(pa.array([7, 8, None])).tolist()
    >>> hashes_of(pa.array([7], pa.int8())).tolist() == [one], one == other
    (True, False)
    """
    if pa.types.is_string(keys.type):
        known = keys.dictionary_encode()
        texts = known.dictionary.to_pylist()
        table = np.array([zlib.crc32(text.encode()) for text in texts] + [0], np.uint64)
        numbers = table[np.asarray(known.indices.fill_null(len(texts)))]
    elif pa.types.is_floating(keys.type):
        # Equal keys may differ in their bits.
        floats = np.asarray(keys.cast(pa.float64()).fill_null(0.0)) + 0.0
        numbers = np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    else:
        whole = keys.cast(pa.int64(), safe=False) if pa.types.is_integer(keys.type) else keys
        numbers = values_of(whole).astype(np.uint64, copy=False)
        if keys.null_count:
            numbers = np.where(np.asarray(keys.is_valid()), numbers, np.uint64(0))
    with np.errstate(over="ignore"):
        mixed: Numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    # They are not negative.
    return (mixed >> np.uint64(24)).view(np.int64)
