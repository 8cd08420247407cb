"""From a session of the OpenAI Agents SDK to its guarded twin: which rows to read, and how they are encrypted."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from memguard.binding import binding, taken
from memguard.care import Handle, handle_of
from memguard.collection import Collection, CollectionCare
from memguard.engine import MemGuard
from memguard.errors import AlreadyGuardedError, UnsupportedError
from memguard.integrations.openai_agents import alchemy, sqlite
from memguard.integrations.openai_agents.alchemy import AlchemyBackend
from memguard.integrations.openai_agents.backends import GeneralBackend
from memguard.integrations.openai_agents.codecs import PlainCodec, SealedCodec
from memguard.integrations.openai_agents.operations import SessionOperations
from memguard.integrations.openai_agents.session import guarded_type
from memguard.integrations.openai_agents.sqlite import SqliteBackend
from memguard.integrations.openai_agents.table import SessionTable

KIND = "openai-agents-sqlite"


def guard_session(mg: MemGuard, session: Any, name: str | None, overrides: Mapping[str, Any]) -> Any:
    """Guard a session. The session itself is unchanged.

    Raises:
        UnsupportedError: MG587, its items are kept by a service; MG588, it encrypts for a session that compacts.
        AlreadyGuardedError: the session that it wraps is guarded.
        ConfigError: its scope map cannot be used (MG225).
    """
    classes = {cls.__name__ for cls in type(session).__mro__ if cls.__module__.startswith("agents.")}
    if "OpenAIConversationsSession" in classes:
        raise UnsupportedError(
            "the items of an OpenAIConversationsSession are kept by the service.",
            code="MG587",
            why="It takes no field that it does not know, so a seal has no place there.",
            do="Keep the history in a session of your own, such as SQLiteSession, and guard that.",
        )
    if "OpenAIResponsesCompactionSession" in classes:
        return _compacting(mg, session, name, overrides)
    encrypts = "EncryptedSession" in classes
    base = session.underlying_session if encrypts else session
    if encrypts:
        _unguarded(base)
        if any(cls.__name__ == "OpenAIResponsesCompactionSession" for cls in type(base).__mro__):
            raise UnsupportedError(
                "this EncryptedSession encrypts for a session that compacts its history.",
                code="MG588",
                why="Compaction would rewrite items beneath the guard.",
                do="Compact outside: OpenAIResponsesCompactionSession(id, guard(EncryptedSession(id, session, key))).",
            )
    places, overrides = taken(overrides)
    backend, holder, place = _backend(base)
    # The key of an encrypted session is derived from its id, so it opens no other one.
    alone = encrypts or not backend.reaches
    codec = SealedCodec(session) if encrypts else PlainCodec()
    table = SessionTable(backend, codec, mg.config.guards.limits.max_nodes, alone=base if alone else None)
    collection = Collection(mg, table, conversation=True)
    collection.open(holder, name, kind=KIND, place=place, overrides=overrides)
    if alone:
        _only_its_own(collection, base)
    bound = binding(mg, collection.store, places, "thread")
    operations = SessionOperations(session, base, collection, bound)
    made = guarded_type(type(session), whole=backend.reaches, encrypted=encrypts)
    guarded = made(session, operations)
    mg.quarantine.know(collection.store, guarded)
    return mg.attach(
        guarded, Handle(mg, collection.custody, CollectionCare(collection), guarded._run, session)
    )


def _backend(base: Any) -> tuple[Any, object, str | None]:
    """How a session's rows are read, the object whose head it is where it lies in memory, and where it lies."""
    if sqlite.shipped(base):
        backend = SqliteBackend(base)
        return backend, base, backend.place
    if alchemy.shipped(base):
        of_engine = AlchemyBackend(base)
        return of_engine, base.engine.sync_engine, of_engine.place
    return GeneralBackend(base), base, f"{type(base).__module__}.{type(base).__qualname__}"


def _only_its_own(collection: Collection, base: Any) -> None:
    """Heads of other sessions under the same name are theirs to check: this one cannot see their items."""
    custody = collection.custody
    every = custody.known
    custody.known = lambda: [name for name in every() if name == base.session_id]  # type: ignore[method-assign]


def _compacting(mg: MemGuard, session: Any, name: str | None, overrides: Mapping[str, Any]) -> Any:
    """A compaction session over a guarded one: a copy of it, of its own type, whose storage is guarded."""
    _unguarded(session.underlying_session)
    inside = mg.guard(session.underlying_session, name, **overrides)
    made = copy.copy(session)
    made.underlying_session, made._mutation_lock = inside, asyncio.Lock()
    made._session_items = made._compaction_candidate_items = None  # what was cached was read unchecked
    made.inner = session
    handle = handle_of(inside)
    assert handle is not None
    made.__dict__["_memguard"] = Handle(mg, handle.custody, handle.rows, handle.run, session)
    mg.quarantine.know(handle.custody.store, made)
    return made


def _unguarded(session: object) -> None:
    handle = handle_of(session)
    if handle is not None:
        raise AlreadyGuardedError(
            f"the {type(session).__name__} inside is guarded already.",
            where=handle.custody.store,
            do="Guard the outermost session that stores, once.",
        )
