"""Stores that keep or give back objects: InMemoryStore, and any other through its own methods."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, SearchOp

from memguard.custody import Custody
from memguard.effects import Call, Operation, Twin
from memguard.errors import TamperedError
from memguard.integrations.langgraph.store_forms import Form, ObjectForm
from memguard.integrations.langgraph.store_rows import Namespace, Stored, namespace_of
from memguard.integrations.langgraph.store_table import Here, Hit, reading, searched
from memguard.integrations.langgraph.store_values import Forms, ObjectForms
from memguard.integrity.canonical import frame

_PAGE = 1000


class MemoryTable(Here):
    """InMemoryStore: its two dictionaries, which its authors promise not to rename."""

    sql = ordered = expiring = cached = False
    custody: Custody

    def __init__(self, store: Any) -> None:
        self.store, self.vectored = store, bool(store.index_config)
        self.form: Form = ObjectForm(ObjectForms(), plain=False)

    def hint(self, names: Iterable[str]) -> Operation[object]:
        """Namespaces that hold more or fewer items than their heads count: normally none.

        Who replaces an item in the dictionary without changing their number is noticed when it is served.
        """
        drifting = []
        for name in names:
            context = self.custody.peek(name)
            if context is not None:
                namespace = namespace_of(name)
                if len(self.store._data.get(namespace, ())) != context.index.cells:
                    drifting.append(name)
        return tuple(drifting)
        yield  # makes this an operation like its siblings

    def sound(self, hint: object) -> Operation[None]:
        return
        yield

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        return [namespace for namespace, items in list(self.store._data.items()) if items]
        yield

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        with reading(f"namespace {'/'.join(namespace)!r}"):
            items = list(self.store._data.get(namespace, {}).items())
            return [self._stored(namespace, key, item) for key, item in items]
        yield

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        items = self.store._data.get(namespace, {})
        with reading(f"namespace {'/'.join(namespace)!r}"):
            return {key: self._stored(namespace, key, items[key]) for key in keys if key in items}
        yield

    def _stored(self, namespace: Namespace, key: str, item: Any) -> Stored:
        if item.key != key or item.namespace != namespace:
            raise TamperedError(
                "an item lies under another name than its own.",
                case="T6",
                record=f"namespace {'/'.join(namespace)!r}",
            )
        created, updated = item.created_at.isoformat(), item.updated_at.isoformat()
        return Stored(key, item.value, created, updated, vectors=self._digest(namespace, key))

    def _digest(self, namespace: Namespace, key: str) -> bytes:
        found = self.store._vectors.get(namespace, {}).get(key) if self.store.index_config else None
        if not found:
            return b""
        parts = [
            frame(str(path).encode("utf-8", "surrogatepass"), repr(list(v)).encode())
            for path, v in found.items()
        ]
        return hashlib.sha256(frame(*sorted(parts))).digest()

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        answer: list[Any] = yield Twin(self.store.batch, self.store.abatch, ops)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        return (yield from searched(self, op))

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        found = {key: self._digest(namespace, key) for key in keys}
        return {key: digest for key, digest in found.items() if digest}
        yield

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        for key in keys:
            self.store._vectors.get(namespace, {}).pop(key, None)
        return
        yield

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        return ()
        yield

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        return
        yield


class GeneralTable(Here):
    """Any other store: through its own ``batch``. Values are JSON; vectors and expiry cannot be seen."""

    sql, ordered, expiring, cached, vectored = True, False, False, False, False

    def __init__(self, store: Any, *, is_async: bool) -> None:
        self.store, self._async = store, is_async
        self.form: Form = ObjectForm(Forms(), plain=True)

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        answer: list[Any]
        if self._async:
            answer = yield Call(self.store.abatch, ops)
        else:
            answer = yield Twin(self.store.batch, self.store.abatch, ops)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        return (yield from searched(self, op))

    def hint(self, names: Iterable[str]) -> Operation[object]:
        return None
        yield

    def sound(self, hint: object) -> Operation[None]:
        return
        yield

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        found: list[Namespace] = []
        while True:
            ops = [ListNamespacesOp(limit=_PAGE, offset=len(found))]
            (page,) = yield from self.batch(ops)
            found += [tuple(ns) for ns in page]
            if len(page) < _PAGE:
                return found

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        found: list[Stored] = []
        offset = 0
        with reading(f"namespace {'/'.join(namespace)!r}"):
            while True:
                op = SearchOp(namespace, limit=_PAGE, offset=offset, refresh_ttl=False)
                (page,) = yield from self.batch([op])
                found += [_seen(item) for item in page if tuple(item.namespace) == namespace]
                offset += len(page)
                if len(page) < _PAGE:
                    return found

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        with reading(f"namespace {'/'.join(namespace)!r}"):
            answer = yield from self.batch([GetOp(namespace, key, refresh_ttl=False) for key in keys])
            found = [item for item in answer if item is not None and tuple(item.namespace) == namespace]
            return {item.key: _seen(item) for item in found}

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        return {}
        yield

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        return
        yield

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        return ()
        yield

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        return
        yield


def _seen(item: Item) -> Stored:
    return Stored(item.key, item.value, item.created_at.isoformat(), item.updated_at.isoformat())
