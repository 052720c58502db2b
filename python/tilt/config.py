"""Settings of the process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class Config(contextlib.AbstractContextManager["Config"]):
    """What runs use unless they are told otherwise: from now on, or within ``with``.

    >>> import tilt as tl
    >>> with tl.Config(threads=1):
    ...     tl.Config.threads
    1
    >>> tl.Config.threads is None
    True
    """

    threads: ClassVar[int | None] = None
    """How many threads a run uses; ``None`` leaves it to ``TILT_THREADS`` and the cores."""
    progress: ClassVar[bool | Callable[[float], object] | None] = None
    """Whether runs show a bar; ``None`` shows one on terminals."""
    memory: ClassVar[str | int | None] = None
    """About how many bytes runs use that read rows as they go; ``None`` is half of what the machine has."""

    def __init__(self, **settings: object) -> None:
        """Change settings: ``threads``, ``progress`` and ``memory``."""
        unknown = settings.keys() - {"threads", "progress", "memory"}
        if unknown:
            message = f"there is no setting {unknown.pop()!r}; there are threads, progress and memory"
            raise TypeError(message)
        self._before = {name: getattr(Config, name) for name in settings}
        for name, value in settings.items():
            setattr(Config, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the settings from before."""
        for name, value in self._before.items():
            setattr(Config, name, value)
