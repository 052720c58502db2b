"""Settings of runs: of the process, and of blocks of code."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

_NAMES = ("threads", "progress", "memory")
_process: dict[str, Any] = dict.fromkeys(_NAMES)
_blocks: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("tilt.Config", default=())
"""The settings of the blocks that this thread or coroutine is in, the innermost last."""


def _setting(name: str) -> Any:  # noqa: ANN401
    for settings in reversed(_blocks.get()):
        if name in settings:
            return settings[name]
    return _process[name]


class _Settings(type):
    """What holds here and now, as attributes of the class."""

    @property
    def threads(cls) -> int | None:
        """How many threads a run uses; ``None`` leaves it to ``TILT_THREADS`` and the cores."""
        return _setting("threads")  # type: ignore[no-any-return]

    @property
    def progress(cls) -> bool | Callable[[float], object] | None:
        """Whether runs show a bar; ``None`` shows one on terminals."""
        return _setting("progress")  # type: ignore[no-any-return]

    @property
    def memory(cls) -> str | int | None:
        """About how many bytes runs use that read rows as they go; ``None`` is half of what the machine has."""
        return _setting("memory")  # type: ignore[no-any-return]


@final
class Config(metaclass=_Settings):
    """What runs use unless they are told otherwise: ``threads``, ``progress`` and ``memory``.

    ``with`` changes it for what this thread or coroutine runs in the block, and for nobody else; :meth:`set` does for
    the whole process, also for threads of pools. A generator has the settings of whoever goes through it.

    >>> import tilt as tl
    >>> with tl.Config(threads=1):
    ...     tl.Config.threads
    1
    >>> tl.Config.threads is None
    True
    """

    __slots__ = ("_settings",)

    def __init__(self, **settings: object) -> None:
        """Name the settings of a block: ``threads``, ``progress`` and ``memory``. Without ``with`` nothing changes."""
        self._settings = _known(settings)

    @staticmethod
    def set(**settings: object) -> None:
        """Change settings of the process, which hold outside of such blocks, in all threads; ``None`` resets one.

        >>> import tilt as tl
        >>> tl.Config.set(threads=2)
        >>> tl.Config.threads
        2
        >>> tl.Config.set(threads=None)
        """
        _process.update(_known(settings))

    def __enter__(self) -> Config:
        _blocks.set((*_blocks.get(), self._settings))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Blocks of generators may end in another order than they began.
        blocks = _blocks.get()
        last = max((at for at, settings in enumerate(blocks) if settings is self._settings), default=len(blocks))
        _blocks.set((*blocks[:last], *blocks[last + 1 :]))


def _known(settings: dict[str, object]) -> dict[str, object]:
    unknown = [name for name in settings if name not in _NAMES]
    if unknown:
        message = f"there is no setting {unknown[0]!r}; there are threads, progress and memory"
        raise TypeError(message)
    return settings
