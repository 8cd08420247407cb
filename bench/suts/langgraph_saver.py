"""LangGraph's SQLite checkpointers: sync, async, and with the serializer that encrypts.

One record is one checkpoint of a thread whose state grows by one message, with metadata and pending writes as a
graph run leaves them. Ids and times follow from the record, so that two runs seed the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record

#: AES key of the encrypted saver. A fixed test key: the adversary never uses it.
_AES_KEY = b"memguard-bench-fixed-test-key-32"


def thread_of(owner: str) -> str:
    """Thread id of an owner."""
    return f"thread-{owner}"


def checkpoint_id(record: Record) -> str:
    """A UUIDv6-shaped id that sorts by ``n`` within every context."""
    return f"1f0{record.n:05x}-0a00-6000-8000-{ord(record.context[0]):012x}"


def config_of(owner: str, cid: str | None = None) -> dict[str, Any]:
    """The configurable part that names a thread and, if given, one of its checkpoints."""
    inner = {"thread_id": thread_of(owner), "checkpoint_ns": ""}
    return {"configurable": inner if cid is None else {**inner, "checkpoint_id": cid}}


class SaverSut(Guarded):
    """A synchronous SQLite checkpointer, bare or guarded."""

    kind = "sqlite-saver"
    component = "langgraph-checkpoint-sqlite"

    def __init__(self, cell: Path, name: Name, *, encrypted: bool = False) -> None:
        super().__init__(cell, name, "checkpoints")
        self._encrypted = encrypted
        self._conn: Any = None
        self._saver: Any = None

    def versions(self) -> dict[str, str]:
        """Versions of the saver, of LangGraph and, where used, of the cipher and the guard."""
        names = ["langgraph-checkpoint-sqlite", "langgraph-checkpoint", "langgraph"]
        names += ["pycryptodome"] if self._encrypted else []
        return self.package_versions(*names, *(["memguard-middleware"] if self.guarded else []))

    def backend(self) -> str:
        """SQLite, in the mode the saver sets."""
        return f"SQLite {sqlite3.sqlite_version}, WAL"

    def features(self) -> dict[str, str]:
        """Encryption (LangGraph's own, off by default) and the guard."""
        cipher = "on (off by default)" if self._encrypted else "off (off by default)"
        return {"encryption (EncryptedSerializer, AES-EAX)": cipher, **self.guard_features()}

    def _serde(self) -> Any:
        if not self._encrypted:
            return None
        from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

        return EncryptedSerializer.from_pycryptodome_aes(key=_AES_KEY)

    def is_integrity_error(self, error: BaseException) -> bool:
        """The guard's errors; with encryption on, the cipher's own failed authentication as well."""
        if self._encrypted and type(error) is ValueError and "MAC check failed" in str(error):
            return True
        return super().is_integrity_error(error)

    def start(self) -> None:
        """Connect, build the saver, guard it."""
        self._conn = sqlite3.connect(self.database, check_same_thread=False)
        inner = SqliteSaver(self._conn, serde=self._serde())
        inner.setup()
        self._saver = self.wrap(inner)

    def stop(self) -> None:
        """Close the guard, then the connection; SQLite folds its log into the file."""
        self.unwrap()
        conn, self._conn, self._saver = self._conn, None, None
        if conn is not None:
            conn.close()

    def write(self, record: Record) -> None:
        """Put one checkpoint on top of the context's newest, as a graph step does."""
        known = self.records.setdefault(record.context, [])
        parent = checkpoint_id(known[-1]) if known else None
        self.put(config_of(record.owner, parent), self._checkpoint(record), self._metadata(record))
        known.append(record)

    def finish(self, context: str) -> None:
        """What a graph leaves when it stops to ask: pending writes and an interrupt on the newest checkpoint."""
        last = self.records[context][-1]
        config = config_of(last.owner, checkpoint_id(last))
        self.put_writes(
            config, [("messages", f"draft of {last.owner}"), ("notes", "kept")], f"task-{context}"
        )
        self.put_writes(config, [("__interrupt__", f"approve for {last.owner}?")], f"task-{context}")

    def replace(self, context: str) -> None:
        """Ask again: LangGraph replaces the interrupt of a task by a newer one."""
        last = self.records[context][-1]
        config = config_of(last.owner, checkpoint_id(last))
        self.put_writes(
            config, [("__interrupt__", f"approve once more for {last.owner}?")], f"task-{context}"
        )

    @staticmethod
    def _checkpoint(record: Record) -> dict[str, Any]:
        version = f"{record.n + 1:032}.0.5"
        return {
            "v": 4,
            "id": checkpoint_id(record),
            "ts": record.ts,
            "channel_values": {"messages": [*record.earlier, record.text], "owner": record.owner},
            "channel_versions": {"messages": version, "owner": f"{1:032}.0.5"},
            "versions_seen": {"agent": {"messages": version}},
            "updated_channels": ["messages"],
        }

    @staticmethod
    def _metadata(record: Record) -> dict[str, Any]:
        return {
            "source": "loop",
            "step": record.n,
            "parents": {},
            "owner": record.owner,
            "role": record.role,
            "origin": record.source,
        }

    def key(self, record: Record) -> str:
        """The checkpoint id."""
        return checkpoint_id(record)

    def body(self, record: Record) -> Mapping[str, Any]:
        """State, metadata, id and time of a record's checkpoint."""
        return {
            "messages": [*record.earlier, record.text],
            "owner": record.owner,
            "meta": self._metadata(record),
            "id": checkpoint_id(record),
            "ts": record.ts,
        }

    def paths(self) -> tuple[str, ...]:
        """The head as a resuming graph reads it, the history, each checkpoint by id, and a filtered list."""
        return ("head", "history", "by id", "filtered")

    def wide_paths(self) -> tuple[str, ...]:
        """The list over all threads, as a dashboard asks for it."""
        return ("everywhere",)

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path of a thread, or of all threads."""
        if path == "everywhere":
            return _items(self.listed(None, None))
        owner = OWNERS[context]
        if path == "head":
            return _items([self.get_tuple(config_of(owner))])
        if path == "by id":
            known = self.records.get(context, [])
            return _items([self.get_tuple(config_of(owner, checkpoint_id(r))) for r in known])
        chosen = {"owner": owner} if path == "filtered" else None
        return _items(self.listed(config_of(owner), chosen))

    # --- the four calls that differ between sync and async ------------------------------------------------

    def put(self, config: Any, checkpoint: Any, metadata: Any) -> None:
        """``saver.put``."""
        self._saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])

    def put_writes(self, config: Any, writes: list[tuple[str, Any]], task: str) -> None:
        """``saver.put_writes``."""
        self._saver.put_writes(config, writes, task)

    def get_tuple(self, config: Any) -> Any:
        """``saver.get_tuple``."""
        return self._saver.get_tuple(config)

    def listed(self, config: Any, chosen: dict[str, Any] | None) -> list[Any]:
        """``saver.list``, exhausted."""
        return list(self._saver.list(config, filter=chosen))

    def delete(self, context: str) -> None:
        """``saver.delete_thread``."""
        self._saver.delete_thread(thread_of(OWNERS[context]))


class AsyncSaverSut(SaverSut):
    """The asynchronous SQLite checkpointer; one event loop per life of the SUT."""

    _runner: asyncio.Runner | None = None

    def _do(self, coroutine: Any) -> Any:
        assert self._runner is not None
        return self._runner.run(coroutine)

    def start(self) -> None:
        """Open a loop, connect, build the saver, guard it."""
        self._runner = asyncio.Runner()

        async def begin() -> None:
            import aiosqlite
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            self._conn = await aiosqlite.connect(self.database)
            inner = AsyncSqliteSaver(self._conn)
            await inner.setup()
            self._saver = self.wrap(inner)

        self._do(begin())

    def stop(self) -> None:
        """Close the guard, the connection and the loop."""
        self.unwrap()
        conn, self._conn, self._saver = self._conn, None, None
        if self._runner is not None:
            if conn is not None:
                self._do(conn.close())
            self._runner.close()
            self._runner = None

    def versions(self) -> dict[str, str]:
        """Versions of the saver, of LangGraph, of the driver and, where used, of the guard."""
        return {**super().versions(), **self.package_versions("aiosqlite")}

    def put(self, config: Any, checkpoint: Any, metadata: Any) -> None:
        """``saver.aput``."""
        self._do(self._saver.aput(config, checkpoint, metadata, checkpoint["channel_versions"]))

    def put_writes(self, config: Any, writes: list[tuple[str, Any]], task: str) -> None:
        """``saver.aput_writes``."""
        self._do(self._saver.aput_writes(config, writes, task))

    def get_tuple(self, config: Any) -> Any:
        """``saver.aget_tuple``."""
        return self._do(self._saver.aget_tuple(config))

    def listed(self, config: Any, chosen: dict[str, Any] | None) -> list[Any]:
        """``saver.alist``, exhausted."""

        async def collect() -> list[Any]:
            return [entry async for entry in self._saver.alist(config, filter=chosen)]

        found: list[Any] = self._do(collect())
        return found

    def delete(self, context: str) -> None:
        """``saver.adelete_thread``."""
        self._do(self._saver.adelete_thread(thread_of(OWNERS[context])))

    def audit(self) -> list[str]:
        """The guard's audit, called where an async program would: in the loop's thread pool, or awaited."""
        mg, target = self._mg, self._wrapped
        if mg is None:
            return super().audit()
        report = self._do(mg.aaudit(target))
        return [f"{f.code} {f.case} {f.record}" for f in report.findings]


def _items(tuples: Any) -> list[Item]:
    return [_item(entry) for entry in tuples if entry is not None]


def _item(entry: CheckpointTuple) -> Item:
    """A served checkpoint as plain values. It may be anything an adversary made of it, so nothing is assumed."""
    state: Any = entry.checkpoint
    values = state.get("channel_values") if isinstance(state, dict) else None
    values = values if isinstance(values, dict) else {"unreadable": repr(state)}
    meta = dict(entry.metadata or {})
    meta.pop("memguard", None)
    parent = (entry.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    body = {
        "messages": values.get("messages"),
        "owner": values.get("owner"),
        "other": {k: v for k, v in values.items() if k not in ("messages", "owner")},
        "meta": meta,
        "id": state.get("id") if isinstance(state, dict) else None,
        "ts": state.get("ts") if isinstance(state, dict) else None,
    }
    stamps = {"parent": parent, "writes": [list(write) for write in entry.pending_writes or []]}
    key = str(entry.config.get("configurable", {}).get("checkpoint_id"))
    return Item(key, _plain(body), _plain(stamps))


def _plain(value: Any) -> Any:
    """JSON values only, so that views can be compared, stored and counted."""
    return json.loads(json.dumps(value, default=repr, sort_keys=True))


OWNERS = {"A": "alice", "B": "bob", "C": "mallory"}


def sqlite(cell: Path, name: Name) -> SaverSut:
    """SqliteSaver."""
    return SaverSut(cell, name)


def async_sqlite(cell: Path, name: Name) -> AsyncSaverSut:
    """AsyncSqliteSaver."""
    return AsyncSaverSut(cell, name)


def encrypted(cell: Path, name: Name) -> SaverSut:
    """SqliteSaver with EncryptedSerializer; needs pycryptodome."""
    import Crypto  # noqa: F401 - fails here, with its name, rather than in the middle of a run

    return SaverSut(cell, name, encrypted=True)
