"""Rows as bytes, so that a shuffle moves few large values instead of many rows.

The rows of a place are cut into blocks, and each column of a block is the bytes of its values, one after the other. A
batch of blocks that Spark hands to a task has them side by side in one buffer: there they are a column again, without a
copy and without a loop over blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tilt.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers = np.ndarray[Any, np.dtype[Any]]
PLACE = "tilt place"
"""The column that says to which partition a block goes."""
TAG, NUMBER = "tilt tag", "tilt number"
"""Of which input a block is, and where it stands among all blocks of that.

Blocks with a negative tag have no rows and are about the slice: their number is a fact, and :data:`HEADER` says which.
"""
HEADER = {"lo": -1, "hi": -2, "start": -3, "end": -4, "slice": -5}
OFFSETS = -6
"""The tag of the first total that is carried to a slice; others follow downward."""
_WIDE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_MOST_TEXT = (1 << 31) - 1
"""How many bytes of text a column of one place has at most: the offsets of its values have 32 bits."""
BLOCK = 256
"""How many rows a block has at most. Spark makes batches of some thousand blocks, whatever these hold."""
_TEXT = 1 << 15
"""How many bytes of text a block has at most, about."""


def movable(dtype: pa.DataType) -> bool:
    """Whether values of a type can be moved as bytes.

    >>> import pyarrow as pa
    >>> from tilt.spark.packing import movable
    >>> movable(pa.float64()), movable(pa.string()), movable(pa.list_(pa.int8()))
    (True, True, False)
    """
    return _is_text(dtype) or pa.types.is_boolean(dtype) or _width(dtype) in {1, 2, 4, 8}


def narrowed(batch: pa.RecordBatch, names: Sequence[str] | None = None) -> pa.RecordBatch:
    """Give columns whose offsets have 32 bits: ``spark.sql.execution.arrow.useLargeVarTypes`` makes them wider.

    >>> import pyarrow as pa
    >>> from tilt.spark.packing import narrowed
    >>> narrowed(pa.record_batch({"x": pa.array(["a"], pa.large_string())}), ["a.b"]).schema
    a.b: string
    """
    columns = batch.columns
    if any(dtype in _WIDE for dtype in batch.schema.types):
        columns = [column.cast(_WIDE.get(column.type, column.type)) for column in columns]
    elif names is None:
        return batch
    return pa.record_batch(columns, [*(names or batch.schema.names)])


def packed_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Give the columns of blocks that may be of several inputs."""
    parts = max(sum(map(_parts, schema.types)) for schema in schemas)
    fields = [(PLACE, pa.int32()), (TAG, pa.int32()), (NUMBER, pa.int64())]
    return pa.schema(fields + [(f"bytes {at}", pa.binary()) for at in range(parts)])


def cut_blocks(counts: Numbers, rows: pa.Table | pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Cut rows, of which a number after the other belongs together: give of which number a block is, and the edges.

    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from tilt.spark.packing import cut_blocks
    >>> cut_blocks(np.array([2, 0, 300]), pa.table({"x": range(302)}))
    (array([0, 2, 2]), array([  0,   2, 258, 302]))
    """
    texts = [column.nbytes for column in rows.columns if _is_text(column.type)]
    size = max(min(BLOCK, _TEXT * rows.num_rows // max(*texts, 1, 1)), 1)
    number = -(-counts // size)
    of = np.repeat(np.arange(len(counts)), number)
    starts = np.cumsum(counts) - counts
    within = np.arange(len(of)) - (np.cumsum(number) - number)[of]
    return of, np.append(starts[of] + within * size, counts.sum())


def packed_column(column: pa.Array, order: Numbers | None, edges: Numbers) -> list[pa.Array]:
    """Give the parts of a column, for each block its bytes; its values are taken in an order first."""
    dtype = column.type
    present = None
    if column.null_count:
        present = np.asarray(column.is_valid()).view(np.uint8)
        present = _binary(present if order is None else present[order], edges)
    empty = pa.nulls(len(edges) - 1, pa.binary()) if present is None else present
    if _is_text(dtype):
        texts = column if order is None else column.take(pa.array(order))
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
        raw = texts.buffers()[2]
        raw = np.frombuffer(raw, np.uint8) if raw is not None else np.empty(0, np.uint8)
        lengths = np.ascontiguousarray(np.diff(offsets))
        return [_binary(lengths, edges), _binary(raw, offsets[edges]), empty]
    values = values_of(column)
    return [_binary(values if order is None else values[order], edges), empty]


def values_of(column: pa.Array) -> Numbers:
    """Give the values of a column as numbers of the same width."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    width = np.dtype(f"u{_width(column.type)}")
    return np.frombuffer(column.buffers()[1], width)[column.offset :][: len(column)]


def _binary(values: Numbers, edges: Numbers) -> pa.Array:
    """Give stretches of values as bytes."""
    offsets = (edges * values.itemsize).astype(np.int32)
    values = np.ascontiguousarray(values)
    return pa.BinaryArray.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def unpacked(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Give the rows of blocks of one input, in the order in which they stood."""
    if not batches:
        return schema.empty_table()
    whole = pa.Table.from_batches(batches)
    numbers = whole.column(NUMBER).to_numpy()
    parts = whole.columns[whole.schema.get_field_index(NUMBER) + 1 :]
    counts = _lengths(parts[0]) // _stored(schema.types[0])
    order = None
    if not (numbers[1:] > numbers[:-1]).all():
        sequence = np.argsort(numbers)
        moved = counts[sequence]
        starts = (np.cumsum(counts) - counts)[sequence]
        order = np.repeat(starts - (np.cumsum(moved) - moved), moved) + np.arange(counts.sum())
    columns = []
    for field in schema:
        own, parts = parts[: _parts(field.type)], parts[_parts(field.type) :]
        if _is_text(field.type) and (size := int(_lengths(own[1]).sum())) > _MOST_TEXT:
            message = (
                f"column `{field.name}` has {size:,} bytes of text in one slice or partition, which holds "
                f"{_MOST_TEXT:,} at most; give more of them: slices= or partitions="
            )
            raise SchemaError(message, column=field.name)
        columns.append(_unpacked(field.type, own, order, counts))
    return pa.table(columns, schema)


def _unpacked(dtype: pa.DataType, parts: Sequence[pa.ChunkedArray], order: Numbers | None, counts: Numbers) -> pa.Array:
    """Give the column of some parts, in an order."""
    total = int(counts.sum())
    *held, present = parts
    mask = None
    if present.null_count < len(present):
        known = np.ones(total, np.uint8)
        known[np.repeat(np.asarray(present.is_valid()), counts)] = _joined(present, np.dtype(np.uint8))
        mask = pa.py_buffer(np.packbits(known, bitorder="little"))
    values = _joined(held[0], np.dtype(f"u{_stored(dtype)}"))
    if _is_text(dtype):
        offsets = np.zeros(total + 1, np.int64)
        np.cumsum(values, out=offsets[1:])
        raw = pa.py_buffer(_joined(held[1], np.dtype(np.uint8)))
        column = pa.LargeStringArray.from_buffers(total, pa.py_buffer(offsets), raw, mask)
    elif pa.types.is_boolean(dtype):
        column = pa.Array.from_buffers(dtype, total, [mask, pa.py_buffer(np.packbits(values, bitorder="little"))])
    elif mask is None:
        return pa.Array.from_buffers(dtype, total, [None, pa.py_buffer(values if order is None else values[order])])
    else:
        column = pa.Array.from_buffers(dtype, total, [mask, pa.py_buffer(values)])
    return (column if order is None else column.take(pa.array(order))).cast(dtype)


def _joined(blocks: pa.ChunkedArray, dtype: np.dtype[Any]) -> Numbers:
    """Give the values of all blocks, which stand side by side in the buffers of a batch."""
    found = []
    for chunk in blocks.chunks:
        _, offsets, raw = chunk.buffers()
        if raw is None or not len(chunk):
            continue
        edges = np.frombuffer(offsets, np.int32)[chunk.offset :][: len(chunk) + 1]
        found.append(np.frombuffer(raw, np.uint8)[edges[0] : edges[-1]])
    if len(found) == 1 and found[0].ctypes.data % dtype.itemsize == 0:
        return found[0].view(dtype)
    # A buffer need not begin where a number may.
    return np.concatenate(found).view(dtype) if found else np.empty(0, dtype)


def _lengths(blocks: pa.ChunkedArray) -> Numbers:
    """Give how many bytes each block has."""
    chunks = [chunk for chunk in blocks.chunks if len(chunk)]
    edges = [np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1] for chunk in chunks]
    return np.concatenate([np.diff(each) for each in edges])


def _parts(dtype: pa.DataType) -> int:
    """Give how many parts a column has: its values, those of texts after their lengths, and which of them are there."""
    return 3 if _is_text(dtype) else 2


def _stored(dtype: pa.DataType) -> int:
    """Give how many bytes a value, or the length of a text, takes."""
    return 4 if _is_text(dtype) else 1 if pa.types.is_boolean(dtype) else _width(dtype)


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype)  # type: ignore[no-any-return]


def _width(dtype: pa.DataType) -> int:
    """Give how many bytes a value has, 0 if they are not all as long."""
    try:
        return dtype.bit_width // 8  # type: ignore[no-any-return]
    except ValueError:
        return 0
