"""Bugs on purpose, one at a time: each must be caught by a check of this folder, or the check is worth nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import memguard.anchors.logfile as logfile
import memguard.custody.contexts as custody_module
from memguard.anchorlog import AnchorLog
from memguard.custody import Custody
from memguard.integrity.logview import Intent, LogView
from memguard.integrity.recovery import Verdict, decide
from memguard.integrity.tag import Sealer
from memguard.integrity.verifier import Context


def skip_fsync() -> None:
    """The anchor's log is never synced."""

    def datasync(self: logfile.LogFile) -> None:
        self.durable = max(self.durable, self.mark[0])

    logfile.LogFile.datasync = datasync  # type: ignore[method-assign]


def skip_intent() -> None:
    """Ordinary writes are not announced."""
    Custody._note = lambda self, items: None  # type: ignore[method-assign]


def keep_fence() -> None:
    """A recovery does not raise the fence."""
    original = Custody._settle

    def settle(self: Custody, context: Context, seen: Any, operation: str, generation: int) -> Any:
        context.head = context.head._replace(fence=context.head.fence - 1)
        return (yield from original(self, context, seen, operation, generation))

    Custody._settle = settle  # type: ignore[method-assign]


def believe_newer() -> None:
    """Rows ahead of the head are taken for an unfinished write even if none was announced."""

    def credulous(*args: Any, new_boot: bool, **options: Any) -> Any:
        return decide(*args, new_boot=True, **options)

    custody_module.decide = credulous  # type: ignore[attr-defined]


def serve_unburnt() -> None:
    """A recovery that found nothing missing writes nothing down: what it did not see may come later."""

    def lazy(*args: Any, **options: Any) -> Verdict:
        verdict = decide(*args, **options)
        return Verdict("clean") if verdict.action == "burn" else verdict

    custody_module.decide = lazy  # type: ignore[attr-defined]


def drop_context() -> None:
    """A tag does not say whose row it is."""

    original = Sealer.__init__

    def init(self: Sealer, key: bytes, kid: str, kind: bytes, store: str, context: str) -> None:
        original(self, key, kid, kind, store, "")

    Sealer.__init__ = init  # type: ignore[method-assign]


def forget_head() -> None:
    """A compaction leaves one context's head out."""
    original = LogView.compacted

    def compacted(self: LogView, time: float) -> list[bytes]:
        first = next(iter(self.heads))
        kept = self.heads.pop(first)
        try:
            return original(self, time)
        finally:
            self.heads[first] = kept

    LogView.compacted = compacted  # type: ignore[method-assign]


def index_first() -> None:
    """The index learns of a write before the store has it, and keeps it when the store refuses."""
    original = Custody._announce

    def announce(self: Custody, live: Any) -> Any:
        for context, change in live:
            for group, cell in change.adds:
                context.index.add(group, cell)
        return original(self, live)

    Custody._announce = announce  # type: ignore[method-assign]
    Custody._resolve = _nothing  # type: ignore[method-assign,assignment]
    Context.doubt = property(lambda self: False, lambda self, value: None)  # type: ignore[assignment]


def _nothing(self: Custody, live: Any) -> Any:
    return
    yield


def unsettled_ledger() -> None:
    """A compaction drops operations from the log that the history does not hold durably."""
    original = AnchorLog.__init__

    def init(self: AnchorLog, *args: Any, **options: Any) -> None:
        original(self, *args, **{**options, "settle": None})

    AnchorLog.__init__ = init  # type: ignore[method-assign]


def half_announced() -> None:
    """A delete of several namespaces is announced by one record each."""
    original = LogView.intent
    inner = AnchorLog._records

    def records(self: AnchorLog, items: Any) -> list[bytes]:
        intents = [original(self._view, item) for item in items if isinstance(item, Intent)]
        return intents + inner(self, [item for item in items if not isinstance(item, Intent)])

    AnchorLog._records = records  # type: ignore[method-assign]


MUTATIONS: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (
        skip_fsync, skip_intent, keep_fence, serve_unburnt, believe_newer, drop_context, forget_head, index_first,
        unsettled_ledger, half_announced,
    )
}  # fmt: skip


def apply(name: str) -> None:
    """Put a bug into this process."""
    MUTATIONS[name]()
