"""The conformance kit for stores that others maintain: subclass one suite, give one fixture.

    from memguard.testing.conformance import JsonFile, StoreConformance, Subject

The names are those of :mod:`memguard.bench.conformance`, which stands above this floor; each is fetched through the
registry when it is asked for, and nothing of the bench, of pytest or of a framework is imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memguard import registry

if TYPE_CHECKING:
    from memguard.bench.conformance.measure import measure
    from memguard.bench.conformance.raw import Functions, JsonFile, RawRecord, RawStore, SqliteTable
    from memguard.bench.conformance.subject import Subject
    from memguard.bench.conformance.suite import StoreConformance

__all__ = [
    "Functions",
    "JsonFile",
    "RawRecord",
    "RawStore",
    "SqliteTable",
    "StoreConformance",
    "Subject",
    "measure",
]


def __getattr__(name: str) -> Any:
    """A part of the kit.

    Raises:
        AttributeError: there is none of that name.
        UnsupportedError: MG133, pytest is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return registry.kits.get(name)
