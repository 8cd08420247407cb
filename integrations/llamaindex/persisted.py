"""``SimpleChatStore`` between processes: the heads of what was written to its file lie in the anchor.

The store lives in memory and so do its heads, which follow every message. What a program has not persisted is lost
with it, as without the guard, and that is no rollback. So the anchor learns of the heads when the store is
persisted, and an object that is guarded later under the same name has to hold exactly that.

A crash may come between the file and the anchor. The heads of the file are therefore announced before it is
written: an object may also hold what was announced, if it holds it whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from memguard.collection import Collection
from memguard.effects import Acquire, Block, Operation
from memguard.errors import IntegrityError
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord

Known = dict[str, tuple[str, Head]]


class Persisted:
    """The heads of one store's file.

    Args:
        log: the anchor's log of the home (the collection has one of its own, in memory).
    """

    def __init__(self, log: Any, collection: Collection) -> None:
        self._log, self._of = log, collection
        # Names that begin with @ are heads of the guard's own, without a history in the ledger.
        self._done, self._next = f"@simple {collection.store}", f"@simple-next {collection.store}"

    def load(self) -> Operation[None]:
        """Have the store's heads be those of the file that was persisted last, if there is one.

        What does not match them is refused when it is read, like any other edit.
        """
        custody = self._of.custody
        self._log.refresh()
        done, announced = self._heads(self._done), self._heads(self._next)
        if not done and not announced:
            return
        if custody.log.places(custody.store):
            return  # this object was guarded before in this process, and its heads have gone on from there
        self._take(done)
        newer = {key: one for key, one in announced.items() if one != done.get(key)}
        if not newer:
            return
        try:
            for key in done:
                yield from self._of.all(key)
        except IntegrityError:
            pass
        else:
            return  # the file of the announcement was never written
        self._take(newer)
        try:
            for key in announced:
                yield from self._of.all(key)
        except IntegrityError:  # neither: it is refused as what was persisted last
            self._take(done, above=newer)
            return
        yield Block(self._write, self._done, announced)

    def persist(self, work: Callable[[], None]) -> Operation[None]:
        """Write the file with ``work``, and have the anchor know it.

        Raises:
            IntegrityError: the store in memory is not as it was left; nothing was written.
        """
        custody = self._of.custody
        if not custody.anchored or custody.settings.mode == "off":
            yield Block(work)
            return
        for key in (yield from self._of.names()):
            yield from self._of.all(key)
        yield Acquire(custody.lock, self)  # no message comes between the heads and the file
        try:
            heads: Known = {}
            for key in custody.known():
                held = custody.peek(key)
                if held is not None:
                    head = held.head._replace(total=custody.recounted(held, held.index))
                    heads[key] = (self._log.keys.current, head)
            yield Block(self._write, self._next, heads)
            yield Block(work)
            yield Block(self._write, self._done, heads)
        finally:
            custody.lock.release()

    # -- inside ------------------------------------------------------------------------------

    def _heads(self, place: str) -> Known:
        found: Known = {}
        for key in self._log.places(place):
            known = self._log.head((place, key))
            if known is not None:
                found[key] = known
        return found

    def _take(self, heads: Known, above: Known | None = None) -> None:
        """Make them the heads of the store in memory."""
        custody = self._of.custody
        records = []
        for key, (kid, head) in heads.items():
            if above and key in above:  # a head never goes back in a log: it is taken as one that came later
                head = head._replace(fence=max(head.fence, above[key][1].fence))
            records.append(HeadRecord(custody.store, "load", time.time(), kid, head, None))
            custody.drop(key)
        if records:
            custody.log.write(records, sync=True)

    def _write(self, place: str, heads: Known) -> None:
        now = time.time()
        records = [HeadRecord(place, "persist", now, kid, head, None) for kid, head in heads.values()]
        if records:
            self._log.write(records, sync=True)
