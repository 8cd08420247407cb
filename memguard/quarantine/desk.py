"""``mg.quarantine``: what an operator does with withheld writes.

Looking at metadata and dropping need nothing but the home. Reading content, releasing and exporting it need the
review key's private half, which is opened for the one call and not kept.
"""

from __future__ import annotations

import asyncio
import getpass
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from memguard.decision import Decision
from memguard.effects import Operation
from memguard.errors import ConfigError, ForgottenError, TamperedError, UnsupportedError
from memguard.events import Event, Reviewed
from memguard.labels import Label
from memguard.ledger.chain import GENESIS, verify_chain
from memguard.ports import Ledger, LedgerEntry
from memguard.quarantine.entry import DROPPED, PURGED, RELEASED, WAITING, Entry, Kept
from memguard.quarantine.review import Opening
from memguard.quarantine.vault import Vault
from memguard.record import FIRST_HAND, Lineage, Source, Trust, did_you_mean, text_of

#: Operations of a ledger that may take a record away.
_TAKING = ("delete", "remove", "prune")


class Releasing(Protocol):
    """What an adapter offers so that a withheld record can go back to its place."""

    def put_back(
        self, kept: Kept, label: Label, since: float, entry: str, *, replace: bool
    ) -> Operation[bool]:
        """Store the record with this label; False if it stands there already.

        Raises:
            RefusedError: MG351, a newer value stands there; MG353, it has expired since.
        """
        ...

    def absent(self, kept: Kept) -> Operation[bool]:
        """Whether nothing stands in the record's place."""
        ...

    def take_out(self, kept: Kept, entry: str) -> Operation[bool]:
        """Delete the record if it is still the one that was released; False if it is gone.

        Raises:
            RefusedError: MG351, something else stands there now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """One entry with its content."""

    entry: Entry
    kept: Kept = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the record."""
        return text_of(self.kept.value)


#: What adds a text to the allow-list: (text, rule code, reason, by).
Allow = Callable[[str, str, str, str], object]
#: Raises ForgottenError if a record must not come back: (store, kept).
Tombstone = Callable[[str, Kept], None]


class Quarantine:
    """The face of the vault. ``ids`` may be one id or several.

    Args:
        vault: where entries are.
        review_key: URI of the private half, from the configuration.
        ledger: the history of operations, in which deletions are looked up.
        emit: is told what was done.
    """

    def __init__(
        self, vault: Vault, review_key: str | None, ledger: Ledger, emit: Callable[[Event], None]
    ) -> None:
        self.vault, self._ledger, self._emit = vault, ledger, emit
        #: URI of the private half, a relative path made whole.
        self.review_key = review_key
        self._targets: dict[str, weakref.ref[Any]] = {}
        #: Set by whoever keeps the allow-list; None while there is none.
        self.allow: Allow | None = None
        #: Asked before every release, after the ledger.
        self.tombstones: list[Tombstone] = []

    # -- for adapters ------------------------------------------------------------------------

    def know(self, store: str, guarded: object) -> None:
        """Remember (weakly) which guarded object a store's records go back to."""
        self._targets[store] = weakref.ref(guarded)

    def keep(
        self,
        store: str,
        context: str,
        key: str,
        value: Any,
        decision: Decision,
        *,
        source: Source,
        trust: Trust | None,
        lineage: Lineage = FIRST_HAND,
        ttl: float | None = None,
        index: Any = None,
    ) -> str:
        """See :meth:`Vault.keep <memguard.quarantine.vault.Vault.keep>`."""
        level = trust or Trust.UNKNOWN
        return self.vault.keep(
            store,
            context,
            key,
            value,
            decision,
            source=source,
            trust=level,
            lineage=lineage,
            ttl=ttl,
            index=index,
        )

    # -- looking -----------------------------------------------------------------------------

    def list(self, state: str | None = WAITING) -> Sequence[Entry]:
        """What may be seen of the entries, oldest first; destroys first what is past its age.

        Args:
            state: waiting, released, dropped or purged; None for all.

        Raises:
            IntegrityError: MG346, the vault is not as it was left.
        """
        self.vault.expire()
        return self.vault.entries(state)

    def show(self, id: str, *, review_key: str | None = None) -> Shown:
        """One entry with its content.

        Args:
            review_key: URI of the review key, instead of the configured one.

        Raises:
            ConfigError: MG342, the review key is not here; MG347, no such entry; MG348, its content is destroyed.
            UnknownKeyError: MG343, it is sealed to another review key.
        """
        return Shown(self.vault.entry(id), self.vault.open(id, self._opening(review_key)))

    def _opening(self, uri: str | None) -> Opening:
        return Opening.at(uri or self.review_key)

    # -- acting ------------------------------------------------------------------------------

    def release(
        self,
        ids: str | Iterable[str],
        target: object = None,
        *,
        by: str | None = None,
        reason: str = "",
        trust: str | None = None,
        replace: bool = False,
        allow_text: bool = False,
        review_key: str | None = None,
    ) -> Sequence[Entry]:
        """Put withheld records back in their places, with their lineage, no longer flagged.

        Args:
            target: the guarded store; default the one that was guarded under the entry's store name.
            by: who says so; default the operating system's user.
            trust: the trust of the record from now on. Default: what its source is worth; a release alone never
                raises it.
            replace: also over a value that was written at its key since.
            allow_text: let this text pass from now on (needs a ``reason``).

        Raises:
            ForgottenError: the record's key was deleted since.
            TamperedError: MG430, the history in which deletions are looked up was edited.
            RefusedError: MG351, a newer value stands there; MG353, it has expired since.
            UnsupportedError: MG350, it cannot be rebuilt; MG352, the store cannot take it back.
            ConfigError: as :meth:`show`; MG349, it does not wait; MG354, no target.
        """
        who, level = by or operator(), _level(trust)
        if allow_text and not reason.strip():
            raise ConfigError(
                "allowing a text needs a reason.", code="MG355", do="Say why, in a few words: --reason TEXT."
            )
        opening = self._opening(review_key)
        done: Sequence[Entry] = ()
        if allow_text and self.allow is None:
            raise UnsupportedError("there is no allow-list here.", code="MG355", do="Release without it.")
        for id in _several(ids):
            entry = self._in(id, (WAITING,), "release")
            kept = self.vault.open(id, opening)
            if not kept.exact:
                raise UnsupportedError(
                    "this record cannot be rebuilt.",
                    code="MG350",
                    where=id,
                    why="Its value was more than JSON can hold; what was kept is its text.",
                    do=f"memguard quarantine show {id} shows the text; write it again, or drop it.",
                )
            guarded = self._target(entry.store, target)
            self._not_forgotten(guarded, entry, kept)
            said, granted = f"{entry.id} by {who}", level is not None
            label = Label(kept.source, level or kept.trust, None, kept.lineage, said, granted)
            guarded.run(self._releasing(guarded).put_back(kept, label, entry.time, id, replace=replace))
            done = (*done, *self.vault.act([id], "release", who, reason, only=(WAITING,)))
            self._emit(Reviewed((id,), "release", who))
            if allow_text and self.allow is not None:
                self.allow(text_of(kept.value), entry.code, reason, who)
        return done

    def drop(
        self, ids: str | Iterable[str], *, by: str | None = None, reason: str = "", purge: bool = False
    ) -> Sequence[Entry]:
        """Decide that records stay out. Their content is kept sealed for ``undo_days``, then destroyed.

        Args:
            purge: destroy it now. What is left is a stub without content; this cannot be undone.

        Raises:
            ConfigError: MG347, no such entry; MG349, it is in another state.
        """
        who, several = by or operator(), _several(ids)
        states = (WAITING, DROPPED, RELEASED) if purge else (WAITING,)
        done = self.vault.act(several, "purge" if purge else "drop", who, reason, only=states)
        self._emit(Reviewed(tuple(several), "purge" if purge else "drop", who))
        return done

    def undo(
        self, id: str, target: object = None, *, by: str | None = None, review_key: str | None = None
    ) -> Entry:
        """Take back a release or a drop: the entry waits again, and a released record leaves the store.

        Raises:
            RefusedError: MG351, the released record was written over since.
            ForgottenError: the released record was deleted since.
            ConfigError: MG348, its content was destroyed meanwhile; MG349, there is nothing to undo.
        """
        who = by or operator()
        entry = self._in(id, (RELEASED, DROPPED), "undo")
        if entry.state == RELEASED:
            kept = self.vault.open(id, self._opening(review_key))
            guarded = self._target(entry.store, target)
            if not guarded.run(self._releasing(guarded).take_out(kept, id)):
                raise ForgottenError(
                    "a released record was deleted from its store.",
                    where=id,
                    why="It stays deleted: an undo would let it be released again.",
                    do="There is nothing to take back.",
                )
        (done,) = self.vault.act([id], "undo", who, only=(entry.state,))
        self._emit(Reviewed((id,), "undo", who))
        return done

    def export(
        self,
        path: str | Path,
        *,
        state: str | None = None,
        content: bool = False,
        review_key: str | None = None,
    ) -> int:
        """Write entries to a sqlite-utils database with views; see :mod:`memguard.quarantine.export`.

        Args:
            content: with the records as they were, in clear. Needs the review key.

        Returns:
            How many entries were written.
        """
        from memguard.quarantine.export import write

        entries = self.list(state)
        opened: Mapping[str, Kept] = {}
        if content:
            opening = self._opening(review_key)
            opened = {e.id: self.vault.open(e.id, opening) for e in entries if e.state != "purged"}
        write(Path(path), entries, opened, with_content=content)
        return len(entries)

    # -- the parts ---------------------------------------------------------------------------

    def _in(self, id: str, states: tuple[str, ...], verb: str) -> Entry:
        entry = self.vault.entry(id)
        if entry.state not in states:
            raise ConfigError(
                f"{id} is {entry.state}; {verb} is for entries that are {' or '.join(states)}.",
                code="MG349",
                where=id,
                do=f"memguard quarantine show {id} tells who did that and when.",
            )
        return entry

    def _target(self, store: str, target: object) -> Any:
        known = self._targets.get(store)
        guarded = target if target is not None else known() if known is not None else None
        handle = guarded.__dict__.get("_memguard") if hasattr(guarded, "__dict__") else None
        if handle is None or handle.custody.store != store:
            raise ConfigError(
                f"the store {store!r} is not open here.",
                code="MG354",
                why="A released record goes back through the guarded store it was withheld from.",
                do=f"guard(store, name={store!r}) first, or give that object as target.",
            )
        return handle

    def _releasing(self, handle: Any) -> Releasing:
        found: Releasing | None = getattr(handle.rows, "releasing", None)
        if found is None:
            raise UnsupportedError(
                "this kind of store cannot take a record back.",
                code="MG352",
                where=handle.custody.store,
                do="Read it with memguard quarantine show, and write it yourself.",
            )
        return found

    def _not_forgotten(self, handle: Any, entry: Entry, kept: Kept) -> None:
        """Refuse to bring back what was deleted after it was withheld."""
        for check in self.tombstones:
            check(entry.store, kept)
        log = handle.custody.log
        if not log.recorded:
            return  # a store in memory has no history beyond what stands in it
        for done in self._history(handle.custody, kept.context):
            if done.operation in _TAKING and done.time >= max(entry.time, entry.withdrawn):
                # An operation too large to spell out names nobody: it may have been this one.
                if not done.records or kept.key in done.records:
                    if handle.run(self._releasing(handle).absent(kept)):
                        raise ForgottenError(
                            "a quarantined record's key was deleted, or expired, after it was withheld.",
                            where=entry.id,
                            why="What was deleted stays deleted: a release does not bring it back.",
                            do=f"memguard quarantine drop {entry.id}",
                        )
                    return

    def _history(self, custody: Any, context: str) -> Sequence[LedgerEntry]:
        """What was done in a context, proved: an edit of the history would bring back what was deleted."""
        log = custody.log
        log.refresh()
        head = log.newest((custody.store, context))
        log.harvest()
        entries = [*self._ledger.entries(f"{custody.store} {context}")]
        broken = verify_chain(lambda kid: log.keys.subkey("chain", kid), entries)
        # Another thread may have gone on meanwhile: the head is among them, not always the last.
        if broken is None and (head is None or head.chain in (GENESIS, *(e.chain for e in entries))):
            return entries
        raise TamperedError(
            "the history of a context is not as it was left.",
            case="state",
            record=f"{custody.store} {context}",
            code="MG430",
            why="Nobody can tell whether a withheld record's key was deleted since.",
            do="Restore state.db; or read the record with memguard quarantine show, and write it yourself.",
        )

    # -- async -------------------------------------------------------------------------------

    async def alist(self, state: str | None = WAITING) -> Sequence[Entry]:
        """Async :meth:`list`."""
        return await asyncio.to_thread(self.list, state)

    async def ashow(self, id: str, **options: Any) -> Shown:
        """Async :meth:`show`."""
        return await asyncio.to_thread(self.show, id, **options)

    async def arelease(
        self, ids: str | Iterable[str], target: object = None, **options: Any
    ) -> Sequence[Entry]:
        """Async :meth:`release`."""
        return await asyncio.to_thread(self.release, ids, target, **options)

    async def adrop(self, ids: str | Iterable[str], **options: Any) -> Sequence[Entry]:
        """Async :meth:`drop`."""
        return await asyncio.to_thread(self.drop, ids, **options)

    async def aundo(self, id: str, target: object = None, **options: Any) -> Entry:
        """Async :meth:`undo`."""
        return await asyncio.to_thread(self.undo, id, target, **options)

    async def aexport(self, path: str | Path, **options: Any) -> int:
        """Async :meth:`export`."""
        return await asyncio.to_thread(self.export, path, **options)

    def close(self) -> None:
        """Release the vault. Idempotent."""
        self.vault.close()


def _several(ids: str | Iterable[str]) -> list[str]:
    return [ids] if isinstance(ids, str) else [*dict.fromkeys(ids)]


def _level(trust: str | None) -> Trust | None:
    if trust is None:
        return None
    try:
        return Trust(trust)
    except ValueError:
        raise ConfigError(
            f"{trust[:40]!r} is not a level of trust.", code="MG356", do=did_you_mean(trust, list(Trust))
        ) from None


def operator() -> str:
    """Who is at the keyboard, as far as the operating system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def age_in_words(seconds: float) -> str:
    """An age for a screen: minutes, hours or days."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "now"


def summary(entries: Iterable[Entry], now: float | None = None) -> dict[str, Any]:
    """Numbers for ``status`` and ``doctor``: what waits, since when, and what was destroyed unreviewed."""
    moment, every = time.time() if now is None else now, [*entries]
    waiting = [entry for entry in every if entry.state == WAITING]
    oldest = min((entry.time for entry in waiting), default=None)
    return {
        "waiting": len(waiting),
        "held": sum(entry.state != PURGED for entry in every),
        "oldest": None if oldest is None else age_in_words(moment - oldest),
        "bytes": sum(entry.size for entry in every),
        "expired": sum(entry.state == "purged" and not entry.by for entry in every),
    }
