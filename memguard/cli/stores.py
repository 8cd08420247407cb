"""From what a user types as STORE to a guarded object.

STORE is the NAME of a ``[stores.NAME]`` table, or ``module:attr`` of a guarded object or of a compiled graph in
the user's own program. Kinds come from :data:`memguard.registry.kinds`; this module knows no framework.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memguard import registry
from memguard.cli.exits import place_of
from memguard.cli.place import beside
from memguard.cli.session import Session
from memguard.errors import ConfigError, MemguardError, UnsupportedError
from memguard.record import did_you_mean

if TYPE_CHECKING:
    from memguard.engine import MemGuard


class Canary(Protocol):
    """One record of a name of its own, through the guard and behind its back."""

    def write(self, guarded: Any, text: str) -> None:
        """Store ``text`` through the guard."""
        ...

    def read(self, guarded: Any) -> str | None:
        """The text as the guard serves it; None if it serves nothing."""
        ...

    async def aread(self, guarded: Any) -> str | None:
        """The same through the asynchronous twin."""
        ...

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Edit the store at ``uri`` with generic tooling; whether the edit landed."""
        ...


class StoreKind(Protocol):
    """What a kind of store offers the command line. Register it in :data:`memguard.registry.kinds`."""

    name: str

    def canary(self, token: str) -> Canary:
        """A canary whose record no user's record can be."""
        ...

    def accepts(self, inner: object) -> bool:
        """Whether a bare object is of this kind."""
        ...

    def open(self, uri: str) -> AbstractContextManager[Any]:
        """The bare object at ``uri``; raises ConfigError and makes nothing if it is not there."""
        ...

    def aopen(self, uri: str) -> AbstractAsyncContextManager[Any]:
        """The same inside a running loop, as the asynchronous type where the kind has one."""
        ...

    def path(self, inner: Any) -> Path | None:
        """The local file of an open bare object, if it has one."""
        ...

    def durable(self, inner: Any) -> bool | None:
        """Whether its commits survive a power cut; None if unknown."""
        ...

    def swept(self, inner: Any) -> bool | None:
        """Whether expired records are swept; None if nothing expires."""
        ...

    def copy(self, path: Path, folder: Path) -> str:
        """A consistent copy of the file at ``path`` in ``folder``; its URI."""
        ...


@dataclass(frozen=True, slots=True)
class Handle:
    """One memory object of a program: where it was found, the object, and whether it is guarded."""

    label: str
    guarded: Any
    inner: Any

    @property
    def is_guarded(self) -> bool:
        """Whether the program's object is a guarded one."""
        return self.guarded is not self.inner


def kind_of(inner: object) -> StoreKind | None:
    """The registered kind of a bare object; a kind whose framework is missing cannot be it."""
    for name in registry.kinds.names():
        try:
            kind: StoreKind = registry.kinds.get(name)
        except UnsupportedError:
            continue
        if kind.accepts(inner):
            return kind
    return None


def load_attribute(spec: str) -> Any:
    """The object behind ``module:attr`` (dots allowed), imported from the working directory as Python would.

    Raises:
        ConfigError: MG152, the module or the attribute is not there, or importing it raised.
    """
    module, _, path = spec.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # a user's module may raise anything, and its text hold anything
        raise ConfigError(
            f"{module} cannot be imported ({type(error).__name__}).",
            code="MG152",
            where=spec,
            why=_reason(error),
            do="Run it from the folder that holds the module, in the environment of the program.",
        ) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            names = [n for n in dir(found) if not n.startswith("_")]
            raise ConfigError(
                f"there is no {name} in {spec.partition(':')[0]}",
                code="MG152",
                where=spec,
                do=did_you_mean(name, names),
            ) from None
    return found


def _reason(error: Exception) -> str:
    """Why an import failed. Only texts that cannot hold memory content are repeated: ours, and a missing name's."""
    if isinstance(error, (MemguardError, ImportError)):
        return f"It says: {str(error).rstrip('.')}."
    return f"It was raised at {place_of(error)}."


def check_open(handle: Handle, kind: StoreKind) -> None:
    """Refuse an object whose connection was closed when its module had run.

    Raises:
        ConfigError: MG158.
    """
    try:
        kind.path(handle.inner)
    except sqlite3.ProgrammingError as error:
        raise ConfigError(
            f"the connection of {handle.label} is closed.",
            code="MG158",
            why="Its module closed it at its end, as a with block does.",
            do="Build the graph outside of the with block, or give the name of a [stores.NAME] table.",
        ) from error


def handles(spec: str) -> list[Handle]:
    """The memory objects behind ``module:attr``: the object itself, or a compiled graph's checkpointer and store.

    Raises:
        ConfigError: MG152, it has neither.
    """
    from memguard import unwrap

    found = load_attribute(spec)
    parts = [(f"{spec}.{name}", getattr(found, name, None)) for name in ("checkpointer", "store")]
    graph = [(label, part) for label, part in parts if part is not None and not isinstance(part, bool)]
    every = graph or [(spec, found)]
    result = [Handle(label, part, unwrap(part)) for label, part in every]
    if not graph and not result[0].is_guarded and kind_of(found) is None:
        raise ConfigError(
            f"{type(found).__name__} is no guarded object, no store and no graph with one",
            code="MG152",
            where=spec,
            do="Name the compiled graph, the checkpointer or the store.",
        )
    return result


def table_wanted(session: Session) -> str:
    """What to do where a [stores.NAME] table is missing: the file that needs it, and its seal."""
    from memguard.config import load

    file = load(session.target()).file
    return (
        f"Add a [stores.NAME] table to {file or 'memguard.toml'}, such as kind = "
        '"langgraph-sqlite-saver" and uri = "sqlite:agent.db", '
        "then renew the seal: memguard config seal --apply"
    )


def configured(session: Session, name: str) -> tuple[StoreKind, str]:
    """Kind and URI of ``[stores.NAME]``; a relative path of the URI is made absolute, so that errors show it whole.

    Raises:
        ConfigError: MG150, no such table; MG105, no such kind.
    """
    from memguard.config import load

    stores = load(session.target()).config.stores
    if name not in stores:
        near = f"{did_you_mean(name, stores)} " if stores else ""
        raise ConfigError(
            f"the configuration has no [stores.{name}]", code="MG150", do=near + table_wanted(session)
        )
    return registry.kinds.get(stores[name].kind), beside(stores[name].uri, Path.cwd())


@contextmanager
def opened(session: Session, mg: MemGuard, spec: str) -> Iterator[Any]:
    """The guarded object that STORE names; what this opens it closes.

    Raises:
        ConfigError: it names none, an unguarded one, or more than one.
    """
    if ":" in spec:
        every = handles(spec)
        guarded = [handle for handle in every if handle.is_guarded]
        if not guarded:
            raise ConfigError(
                f"{spec} is not guarded",
                code="MG160",
                do="Put guard(...) around it, or give the name of a [stores.NAME] table.",
            )
        if len(guarded) > 1:
            choices = " or ".join(handle.label for handle in guarded)
            raise ConfigError(
                f"{spec} has more than one guarded store", code="MG150", do=f"Name one: {choices}."
            )
        kind = kind_of(guarded[0].inner)
        if kind is not None:
            check_open(guarded[0], kind)
        yield guarded[0].guarded
        return
    kind, uri = configured(session, spec)
    with kind.open(uri) as inner:
        yield mg.guard(inner, name=spec)
