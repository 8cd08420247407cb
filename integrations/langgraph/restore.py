"""Values that would come back as something else: checked once per type at write, and signed for the read.

A serializer that does not know a class any more, or is not allowed to make it, gives back a
mapping and says nothing; the program goes on with the wrong thing. So each type of a program's own
is tried once, and what was stored is bound by the tag: ``{channel: [type, ...]}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memguard.errors import UnsupportedError

#: Types that every serializer of LangGraph restores: Python's own, and messages.
_KNOWN = ("builtins", "langchain_core")
_COLLECTIONS = frozenset({list, tuple, set, frozenset})


def _named(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _samples(value: Any) -> dict[type, Any]:
    """The value, or one element of each type in a list or mapping of one level, by type."""
    kind = type(value)
    if kind in _COLLECTIONS:
        return dict(zip(map(type, value), value, strict=True))
    if isinstance(value, Mapping) and kind.__module__ == "builtins":
        return {type(item): item for item in value.values()}
    return {kind: value}


class Restoring:
    """What one serializer gives back."""

    def __init__(self, serde: Any, *, refuse: bool) -> None:
        self._serde, self._refuse = serde, refuse
        self._proved: dict[type, bool] = {}
        #: Of the types that every serializer restores, those that were met.
        self._common: set[type] = set()

    def types(self, channel_values: Mapping[str, Any]) -> dict[str, list[str]]:
        """The types of the program's own in each channel, as far as the serializer restores them.

        Raises:
            UnsupportedError: one of them does not come back, and ``refuse`` is set (preset strict).
        """
        found: dict[str, list[str]] = {}
        for channel, value in channel_values.items():
            samples = _samples(value)
            if samples.keys() <= self._common:
                continue
            names = []
            for kind, item in samples.items():
                if kind.__module__.startswith(_KNOWN):
                    self._common.add(kind)
                elif self._restored(channel, item):
                    names.append(_named(kind))
            if names:
                found[channel] = sorted(names)
        return found

    def _restored(self, channel: str, item: Any) -> bool:
        kind = type(item)
        if kind not in self._proved:
            self._proved[kind] = type(self._serde.loads_typed(self._serde.dumps_typed(item))) is kind
        if not self._proved[kind] and self._refuse:
            raise lost(channel, [_named(kind)], "It did not come back from the serializer when it was tried.")
        return self._proved[kind]

    @staticmethod
    def check(signed: Any, channel_values: Mapping[str, Any], record: str) -> None:
        """That a decoded checkpoint holds the types that were signed.

        Raises:
            UnsupportedError: a value came back as something else. The stored bytes are as they were written.
        """
        for channel, names in signed.items() if isinstance(signed, Mapping) else ():
            if channel not in channel_values:
                continue
            seen = {_named(kind) for kind in _samples(channel_values[channel])}
            missing = [name for name in names if name not in seen]
            if missing:
                why = "The bytes are intact; this program does not make the type."
                raise lost(f"{channel} of {record}", missing, why)


def lost(where: str, names: Iterable[str], why: str) -> UnsupportedError:
    """The error for a type that is not restored."""
    return UnsupportedError(
        f"a value of type {', '.join(names)} does not come back as what it was.",
        code="MG149",
        where=where,
        why=why,
        do="Import the class where it was, and allow it where LANGGRAPH_STRICT_MSGPACK is set (compile does that).",
    )
