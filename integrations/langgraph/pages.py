"""A list read in pages: newest first, each page beginning below the last id of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple, get_checkpoint_id

from memguard.effects import Operation
from memguard.integrations.langgraph.operations import Operations

#: Rows of a page.
PAGE = 200


class Pages:
    """The state of one listing. Savers that list thread by thread are read in one page."""

    def __init__(
        self, operations: Operations, config: Any, filter: Any, before: Any, limit: int | None
    ) -> None:
        self._ops, self._config, self._filter, self._before, self._limit = (
            operations,
            config,
            filter,
            before,
            limit,
        )
        self._size = PAGE
        #: Whether there may be another page.
        self.more = True

    def next(self) -> Operation[Sequence[CheckpointTuple]]:
        """The operation that reads the next page."""
        return self._ops.list(self._config, self._filter, self._before, self._ask())

    def _ask(self) -> int | None:
        if not self._ops.pageable:
            return self._limit
        return self._size if self._limit is None else min(self._limit, self._size)

    def take(self, found: Sequence[CheckpointTuple]) -> Sequence[CheckpointTuple]:
        """What of a page the caller gets now. An id that may go on in the next page is left for it."""
        asked = self._ask()
        if asked is None or len(found) < asked or asked == self._limit:
            self.more = False
            return found
        last = get_checkpoint_id(found[-1].config)
        whole = [item for item in found if get_checkpoint_id(item.config) != last]
        if not whole:
            self._size *= 2  # one id in so many namespaces: read again, further
            return []
        self._before = whole[-1].config
        if self._limit is not None:
            self._limit -= len(whole)
        return whole
