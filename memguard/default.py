"""The MemGuard of a program that does not name one: ``guard(x)`` after ``memguard init``."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

from memguard.care import handle_of
from memguard.engine import MemGuard
from memguard.errors import AlreadyGuardedError

T = TypeVar("T")

_default: MemGuard | None = None
_default_mutex = threading.Lock()


def default() -> MemGuard:
    """The MemGuard that :func:`guard` uses: discovered once (see :mod:`memguard.config`)."""
    global _default
    with _default_mutex:
        if _default is None or _default._closed:
            _default = MemGuard.open()
        return _default


def guard(obj: T, name: str | None = None, **overrides: Any) -> T:
    """:meth:`MemGuard.guard` on the default MemGuard (``memguard init`` makes its home)."""
    if handle_of(obj) is not None:
        raise AlreadyGuardedError(f"this {type(obj).__name__} is guarded already.", do="Use it as it is.")
    return default().guard(obj, name, **overrides)
