"""Crashes at any call that changes a disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Crash(BaseException):
    """As a process that is killed: nobody handles it."""


def crashing(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call that changes a disk be the last one: the so-manieth half of all calls is done."""
    calls = iter(range(1 << 30))

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **kwargs: object) -> object:
            number = next(calls)
            if number > at // 2 or 2 * number == at:
                raise Crash
            result = function(*args, **kwargs)
            if 2 * number + 1 == at:
                raise Crash
            return result

        return call

    for name in ("fsync", "pwrite", "ftruncate"):
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, wrapped(getattr(Path, name)))
