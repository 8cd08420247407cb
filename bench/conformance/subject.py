"""A store under test, as its maintainer describes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from memguard.bench.conformance.raw import RawStore

if TYPE_CHECKING:
    from memguard import MemGuard

#: A served record: its key in its context, and the value as it was served.
Served = tuple[str, dict[str, Any]]


class Subject(ABC):
    """One store in one folder. Subclass it.

    A context is one owner's memory (a user, a thread, a session), a key names a record in it, a value is an object of
    JSON values. ``write`` adds a record or replaces the one of that key.

    Args:
        folder: where the store's files are. It exists when the store is opened, and may be copied and restored while
            it is closed.
    """

    #: What the report calls the store.
    name: ClassVar[str] = "store"
    #: Exact versions, such as ``{"my-store": "1.2"}``.
    versions: ClassVar[Mapping[str, str]] = {}
    #: What it stands on, such as ``SQLite 3.45``.
    backend: ClassVar[str] = ""
    #: Protective features, on or off: ``{"encryption": "off (off by default)"}``.
    features: ClassVar[Mapping[str, str]] = {}
    #: Errors that the store documents as integrity refusals. Any other exception on reading is a stray one.
    integrity_errors: ClassVar[tuple[type[BaseException], ...]] = ()
    #: Loggers on which the store documents integrity signals, at WARNING or above.
    loggers: ClassVar[tuple[str, ...]] = ()
    #: Records are served in the order in which they were written; one that is written again stands at the end.
    ordered: ClassVar[bool] = True
    #: The store lives in its process and has no file: edits are made under the running store, and the row says so.
    in_process: ClassVar[bool] = False
    #: How the data look at rest, and how they are edited there without the store's code.
    raw: RawStore
    #: Edits of the maintainer's own, by case: a function of the folder (of the open store for an in-process one)
    #: that takes the place of the kit's edit.
    edits: ClassVar[Mapping[str, Callable[[Any], None]]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def open(self) -> Any:
        """The store as a new object over :attr:`folder`."""

    @abstractmethod
    def close(self, store: Any) -> None:
        """Close it; after that its files are complete."""

    @abstractmethod
    def write(self, store: Any, context: str, key: str, value: dict[str, Any]) -> None:
        """Store one record through the store's own interface."""

    @abstractmethod
    def read(self, store: Any, context: str) -> list[Served]:
        """Everything that the store serves for a context, in its order."""

    @abstractmethod
    def delete(self, store: Any, context: str, key: str) -> None:
        """Delete one record through the store's own interface."""

    def get(self, store: Any, context: str, key: str) -> dict[str, Any] | None:
        """One record by its key; by default, found among all of its context."""
        return dict(self.read(store, context)).get(key)

    def contexts(self, store: Any) -> list[str]:
        """Contexts that have records. Write it if the store can tell: a list of contexts is then read too."""
        raise NotImplementedError

    def audit(self, store: Any) -> list[str]:
        """Findings of the store's own audit command. Write it if there is one: it gets a row of its own."""
        raise NotImplementedError

    def guard(self, mg: MemGuard, store: Any) -> Any:
        """The guarded store, used in its place in every other method; None to have the kit guard it by its keys.

        By default ``mg.guard(store)`` where memguard has an adapter for the store's type.
        """
        from memguard import registry

        return mg.guard(store, name=self.name) if registry.adapters.match(store) else None


#: What the fixture ``subject`` gives: makes the store's description for a folder.
Factory = Callable[[Path], Subject]
