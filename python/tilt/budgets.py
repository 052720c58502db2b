"""How much memory a run may use."""

from __future__ import annotations

import os
import re

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_LEAST = 1 << 30


def budget_bytes(memory: str | int) -> int:
    """Give a number of bytes, which may be written as ``"512MB"`` or ``"4GiB"``.

    >>> from tilt.budgets import budget_bytes
    >>> budget_bytes("1.5GB"), budget_bytes("64MiB"), budget_bytes(1000)
    (1500000000, 67108864, 1000)
    """
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return memory
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(memory), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        message = f"a budget of memory is a number of bytes or a text such as '512MB' or '4GiB', not {memory!r}"
        raise ValueError(message)
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


def default_budget() -> int:
    """Give half of the memory that the machine has, and 1 GiB at least."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _LEAST
    return max(_LEAST, machine // 2)
