"""The read chain around a guarded store's operations: what was verified is judged, ordered and labelled.

Wraps the operations once, inside the binding to a principal and outside verification. Where nothing reads, every
call passes straight through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import GetOp, Item, PutOp, SearchItem, SearchOp

from memguard.effects import Block, Operation
from memguard.integrations.langgraph.store_items import relabelled
from memguard.integrations.langgraph.store_rows import name
from memguard.labels import Label, label_of
from memguard.reader import Candidate
from memguard.reading import Page, Reading, Search
from memguard.record import text_of


class ReadStore:
    """The operations of a guarded store, read through the chain. Everything else is the wrapped operations'.

    Args:
        store: the name under which it is guarded.
        max_nodes: nodes of one value that are read for text.
    """

    def __init__(self, inner: Any, reading: Reading, store: str, *, max_nodes: int) -> None:
        self._inner, self._reading = inner, reading
        self._store, self._max_nodes = store, max_nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def batch(self, ops: Iterable[Any]) -> Operation[list[Any]]:
        """Any mixture of operations; results in their order. Reads see the state before the puts."""
        ops = list(ops)
        if self._reading.idle or not any(isinstance(op, GetOp | SearchOp) for op in ops):
            passed: list[Any] = yield from self._inner.batch(ops)
            return passed
        if len(ops) == 1 and isinstance(ops[0], SearchOp):
            return [(yield from self._search(ops[0]))]
        results: list[Any] = [None] * len(ops)
        searches = [at for at, op in enumerate(ops) if isinstance(op, SearchOp)]
        puts = [at for at, op in enumerate(ops) if isinstance(op, PutOp)]
        others = [at for at in range(len(ops)) if not isinstance(ops[at], SearchOp | PutOp)]
        yield from self._fill(results, ops, others)
        for at in searches:
            results[at] = yield from self._search(ops[at])
        yield from self._fill(results, ops, puts)
        return results

    def _fill(self, results: list[Any], ops: Sequence[Any], places: Sequence[int]) -> Operation[None]:
        if not places:
            return
        found = yield from self._inner.batch([ops[at] for at in places])
        for at, result in zip(places, found, strict=True):
            got = isinstance(ops[at], GetOp) and result is not None
            results[at] = (yield from self._one(result)) if got else result

    # -- get ---------------------------------------------------------------------------------

    def _one(self, item: Item) -> Operation[Item | None]:
        """The item with the label of this read; None where it is withheld, as if it were not there."""
        search = self._reading.search(1)
        candidates, labels = [self._candidate(item)], [label_of(item)]
        page: Page = yield from self._judged(search, candidates, labels)
        self._tell(page, [item])
        return relabelled(item, page.labels[0]) if page.served else None

    # -- search ------------------------------------------------------------------------------

    def _search(self, op: SearchOp) -> Operation[list[SearchItem]]:
        """As many as were asked for, made up from those behind where some are taken out."""
        refreshing = op.refresh_ttl and self._inner._refreshing
        search, every = self._reading.search(op.offset + op.limit, op.query), op.limit < 0
        window = op.limit if every else search.window
        while True:
            # Only what is served lives longer by having been read.
            asked = op._replace(limit=window, offset=op.offset if every else 0, refresh_ttl=False)
            (found,) = yield from self._inner.batch([asked])
            if every:
                search = self._reading.search(len(found), op.query)
            labels = [label_of(item) for item in found]
            candidates = [self._candidate(item) for item in found]
            page: Page = yield from self._judged(search, candidates, labels)
            more = search.more(page, candidates, every or len(found) < window)
            if more is None:
                break
            window = more
        if op.offset and not every and page.untouched:
            # The store's own page: with a query, some stores cut pages behind the first in a way of their own.
            (found,) = yield from self._inner.batch([op._replace(refresh_ttl=False)])
            labels, candidates = [label_of(item) for item in found], [self._candidate(item) for item in found]
            page = yield from self._judged(search, candidates, labels)
            every = True
        self._tell(page, found)
        kept = page.served if every else page.served[op.offset :]
        answer = [relabelled(found[at], page.labels[at]) for at in kept]
        if refreshing:
            yield from self._inner._refresh([GetOp(item.namespace, item.key) for item in answer])
        return answer

    # -- the chain ---------------------------------------------------------------------------

    def _judged(
        self, search: Search, candidates: list[Candidate], labels: list[Label | None]
    ) -> Operation[Page]:
        if self._reading.waits:  # guards of others may ask a model: not in an event loop's thread
            page: Page = yield Block(search.page, candidates, labels)
            return page
        return search.page(candidates, labels)

    def _candidate(self, item: Item) -> Candidate:
        value = item.value
        return self._reading.candidate(
            self._store,
            item.key,
            text_of(value, max_items=self._max_nodes),
            label_of(item),
            value if isinstance(value, dict) else None,
            space="/".join(item.namespace),
        )

    def _tell(self, page: Page, items: Sequence[Item]) -> None:
        if page.remarkable:
            self._reading.tell(self._store, [name(item.namespace, item.key) for item in items], page)
