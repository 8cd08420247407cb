"""What every guarded object shows of the one it wraps."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from memguard.care import handle_of


class Face:
    """The front of a guarded object: it passes for what it wraps, and lets users reach what is listed and no more.

    ``isinstance(guarded, TheirType)`` holds, as tools expect of a drop-in; ``type()`` stays the truth.

    Attributes:
        inner: the wrapped object, unchanged and unguarded.
        reachable: names of its public attributes that frameworks and users reach.
    """

    inner: Any
    reachable: ClassVar[Collection[str]] = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.inner)

    def __repr__(self) -> str:
        handle = handle_of(self)
        return f"guarded {type(self.inner).__name__}" + (f" {handle.custody.store!r}" if handle else "")

    def __getattr__(self, name: str) -> Any:
        if name in type(self).reachable:
            return getattr(self.inner, name)
        raise AttributeError(
            f"{type(self).__name__!r} has no attribute {name!r} (the wrapped object is .inner)"
        )
