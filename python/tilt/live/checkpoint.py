"""Sessions as bytes: what a native checkpoint leaves out, and the native checkpoint.

A native checkpoint has the state of a session. To go on without being told again how it was begun, its options, the
columns of its streams and its clock are written before it, as JSON with a checksum of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.errors import CheckpointError
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAGIC = b"TILTSESS"
_VERSION = 1
_HEAD = len(_MAGIC) + 4 + 4 + 4


def packed(about: Mapping[str, Any], native: bytes) -> bytes:
    """Put both together.

    >>> unpacked(packed({"mode": "final"}, b"rest"))
    ({'mode': 'final'}, b'rest')
    """
    import json  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    body = json.dumps(about, separators=(",", ":")).encode()
    head = _MAGIC + _VERSION.to_bytes(4, "little") + len(body).to_bytes(4, "little")
    return head + zlib.crc32(head + body).to_bytes(4, "little") + body + native


def is_packed(blob: bytes) -> bool:
    """Whether bytes begin as those that :func:`packed` gives.

    >>> is_packed(packed({}, b"")), is_packed(b"TILTLIVE")
    (True, False)
    """
    return blob.startswith(_MAGIC)


def unpacked(blob: object) -> tuple[dict[str, Any], bytes]:
    """Take both apart.

    Raises
    ------
    CheckpointError
        If the bytes are no checkpoint, or not a whole one.

    """
    import json  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    if not isinstance(blob, (bytes, bytearray, memoryview)):
        message = f"a checkpoint is bytes, not {type(blob).__name__}"
        raise TypeError(message)
    blob = bytes(blob)
    if not is_packed(blob):
        message = "this is no checkpoint of a session: it does not begin as one"
        raise CheckpointError(message)
    version, size, checksum = (int.from_bytes(blob[at : at + 4], "little") for at in range(len(_MAGIC), _HEAD, 4))
    body = blob[_HEAD : _HEAD + size]
    if len(body) < size or zlib.crc32(blob[: _HEAD - 4] + body) != checksum:
        message = "this is not a whole checkpoint of a session: its checksum is wrong"
        raise CheckpointError(message)
    if version != _VERSION:
        message = f"the checkpoint has version {version}, but only {_VERSION} is known; use the tilt that wrote it"
        raise CheckpointError(message)
    return json.loads(body), blob[_HEAD + size :]


def columns_text(columns: Table) -> str:
    """Write the names and types of columns.

    >>> import tilt as tl
    >>> columns_of(columns_text(tl.Table({"t": [1]})[:0])).schema
    {'t': 'Int64'}
    """
    import base64  # noqa: PLC0415

    return base64.b64encode(columns._handle.to_ipc()).decode()


def columns_of(text: str) -> Table:
    """Read the names and types of columns."""
    import base64  # noqa: PLC0415

    return Table(_native.Table.from_ipc(base64.b64decode(text)))
