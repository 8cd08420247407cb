"""MemGuard: one home, one key ring, one anchor, and the stores that are guarded with them.

The facade that adapters and users call. It connects what the floors below it decide: it reads the
configuration, opens keys and anchor, gives every guarded store its custody, and runs the write and
read chains of guards.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from memguard import context, registry, statedb
from memguard.allowlist import AllowList
from memguard.anchorlog import AnchorLog
from memguard.anchors import open_anchor
from memguard.anchors.locks import ThreadLock, home_lock
from memguard.attested import Used
from memguard.background import Scrubber
from memguard.boot import boot_id
from memguard.care import AuditReport, Handle, Plan, handle_of, handled
from memguard.caretaking import Caretaker
from memguard.config import Config, Loaded, load, seal, write_toml
from memguard.config import preset as preset_of
from memguard.custody import Custody, Rows, Slot, entry_of
from memguard.decision import Decision
from memguard.effects import Lock
from memguard.errors import (
    AlreadyGuardedError,
    AnchorError,
    ConfigError,
    IntegrityError,
    TamperedError,
    UnsupportedError,
)
from memguard.events import Adopted, AnchorCompacted, Bus, ReadRefused, Reverted, StartLine
from memguard.guard import Spend
from memguard.home import (
    CONFIG,
    LOCKS,
    SEAL,
    beside,
    check_newest,
    check_seal,
    note_configuration,
)
from memguard.home import PLACE as CONFIG_PLACE
from memguard.integrity.logview import HeadRecord
from memguard.keys import open_keys
from memguard.labelbook import LabelBook, digest_of
from memguard.labels import Label, label_of
from memguard.performers import Performers
from memguard.ports import Anchor, KeyRing, SharedAnchor
from memguard.quarantine.desk import Quarantine, operator
from memguard.quarantine.review import prepared
from memguard.quarantine.vault import Vault
from memguard.reading import Reading
from memguard.recall import Recall
from memguard.record import MAX_ID, Record, Source, Trust, text_of
from memguard.reverting import Wanted, revert
from memguard.screening import Hook, Screening
from memguard.slot import FileSlot, MemorySlot
from memguard.tally import Tally
from memguard.testing.anchors import MemoryAnchor

T = TypeVar("T")
_MESSAGE_KINDS = {"human": "user", "ai": "assistant", "tool": "tool", "function": "tool", "system": "system"}

#: Heads of objects that live in memory only: they live and die with the object.
_heads_of_objects: WeakKeyDictionary[object, tuple[MemoryAnchor, Lock, Slot]] = WeakKeyDictionary()
#: Records of such a log before it is compacted.
_MEMORY_LOG = 4096


class MemGuard:
    """Guards stores under one home. Get one from :meth:`create` or :meth:`open`.

    Attributes:
        home: folder of memguard.toml and state.db.
        config: the configuration in force (frozen).
        keys, anchor: what proves; ``events`` tells what happened.
    """

    def __init__(
        self,
        home: Path,
        config: Config,
        keys: KeyRing,
        anchor: Anchor,
        *,
        on_decision: Hook | None = None,
    ) -> None:
        self.home, self.config, self.keys, self.anchor = home, config, keys, anchor
        self.events = Bus()
        self._closed = False
        self._guarded: dict[str, tuple[object, str | None, Custody]] = {}
        self._scrubbers: list[Scrubber] = []
        self._mutex = threading.Lock()
        #: Where the home's own tables are.
        self.state = statedb.opened(home, config.state, anchor)
        self._ledger = self.state.ledger()
        self._log = AnchorLog(
            anchor,
            keys,
            compact_bytes=config.integrity.compact_bytes,
            harvest=self._harvest,
            settle=self._ledger.sync,
            compacted=lambda before, after: self.events.emit(AnchorCompacted(anchor.uri, before, after)),
        )
        #: Labels of messages that differ from what their kind says.
        self.labels = LabelBook(self.state, keys, self._log)
        self.tally = Tally(self.state)
        vault = Vault(self.state, keys, self._log, config.quarantine, emit=self.events.emit)
        #: Withheld writes: list, show, release, drop, undo, export.
        self.quarantine = Quarantine(vault, self._review_key(), self._ledger, self.events.emit)
        self.quarantine.allow = self._allow
        #: Text that the stores hold below user trust, and how often it was written again.
        self.recall = Recall(keys, self.state, config)
        #: Texts that a person has reviewed and allowed.
        self.allowlist = AllowList(self.state, keys, self._log)
        self._used = Used(self._log)
        #: What the guards say of records.
        self.screening = Screening(
            config,
            self.events,
            tally=self.tally,
            allowlist=self.allowlist,
            hook=on_decision,
            recall=self.recall,
        )
        self.screening.perform(Spend, self._used.spend, look=lambda spend: True)
        self._performers = Performers(config, keys, self.state)
        self._performers.register(self.screening)
        #: What is served of what was read, and under which label.
        self.reading = Reading(
            config, self.screening.reading, self.screening.read, self.events, again=self.screening.reread
        )

    # -- life --------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        home: str | os.PathLike[str],
        *,
        preset: str = "balanced",
        anchor: str,
        keys: str,
        config: Mapping[str, Any] | None = None,
        on_decision: Hook | None = None,
    ) -> MemGuard:
        """Make a home: memguard.toml, state.db, an anchor, and a key if there is none.

        Args:
            home: a folder that is missing or empty.
            preset: off, observe, balanced or strict.
            anchor: ``file:FOLDER``, ``sqlite:PATH`` or ``memory:``; made new.
            keys: ``file:PATH``, ``env:NAME`` or ``memory:``; an existing key is used, never overwritten.
            config: laid over the preset, such as ``{"write": {"sanitizer": "off"}}``.
            on_decision: called as ``on_decision(decision, record)`` with every finished decision of a guard chain;
                answers with a Disposition to put in its place, or None. One that raises counts as a failed guard.

        Raises:
            ConfigError: the home is not empty, or an argument is wrong; nothing was made.
            AnchorError: the anchor exists or cannot be made.
        """
        folder = Path(home).expanduser().absolute()
        # Runs of a bench may have been kept there before: they are nobody's state.
        if folder.exists() and (not folder.is_dir() or any(f.name != "runs" for f in folder.iterdir())):
            raise ConfigError(
                "the home is not empty.",
                code="MG103",
                where=str(folder),
                why="create never writes over anything.",
                do="MemGuard.open(home) opens one that was made before.",
            )
        # A relative path is relative to where create is called; the file says where that is.
        here = Path.cwd()
        anchor, keys = beside(anchor, here), beside(keys, here)
        made = preset_of(preset, {**(config or {}), "anchor": anchor, "keys": keys})
        made = prepared(made, folder)
        ring = open_keys(_known(registry.keys, keys), create=True)
        store = open_anchor(_known(registry.anchors, anchor), create=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        AnchorLog.begin(store, ring)
        text = write_toml(made).encode()
        (folder / CONFIG).write_bytes(text)
        (folder / SEAL).write_bytes(seal(text, ring.subkey("config")))
        log = AnchorLog(store, ring)
        note_configuration(log, text)
        return cls(folder, made, ring, store, on_decision=on_decision)

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | Config | None = None,
        *,
        anchor: str | None = None,
        keys: str | None = None,
        config: Mapping[str, Any] | None = None,
        on_decision: Hook | None = None,
    ) -> MemGuard:
        """Open a home, a memguard.toml, or (None) what is discovered from the working directory.

        Keywords win over environment and file. A missing anchor or key is an error, never made anew.
        ``on_decision`` as for :meth:`create`.

        Raises:
            ConfigError, AnchorError, UnknownKeyError, TamperedError (memguard.toml was edited
            without the key: ``memguard config seal`` after a change of your own).
        """
        keywords = {**(config or {}), **_given(anchor=anchor, keys=keys)}
        if isinstance(home, Config):
            found = Loaded(home if not keywords else preset_of(home.preset, {**home.plain(), **keywords}), {})
        else:
            found = load(home, keywords=keywords)
        settings = found.config
        folder = found.home or (found.file.parent if found.file else None)
        if folder is None or settings.keys is None or settings.anchor is None:
            missing = [
                n
                for n, v in (("home", folder), ("keys", settings.keys), ("anchor", settings.anchor))
                if not v
            ]
            raise ConfigError(
                f"there is nothing to open: no {' and no '.join(missing)}.",
                code="MG102",
                do="memguard init makes a home; or give MemGuard.open its folder.",
            )
        ring = open_keys(_known(registry.keys, beside(settings.keys, folder)))
        log = open_anchor(_known(registry.anchors, beside(settings.anchor, folder)))
        try:
            if found.file is not None and found.file.name == CONFIG:
                check_seal(folder, found.content, ring)
        except TamperedError:
            AnchorLog(log, ring).close()  # another key is not tampering: the log says whose records it holds
            raise
        made = cls(folder.absolute(), settings, ring, log, on_decision=on_decision)
        if found.file is not None and found.file.name == CONFIG:
            try:
                check_newest(made._log, found.content)
                if made._log.head(CONFIG_PLACE) is not None:
                    note_configuration(made._log, found.content)  # after a rotation: under the current key
                made._used.rekey()
                made._rekey()
            except BaseException:
                made.close()
                raise
        return made

    def _rekey(self) -> None:
        """After a rotation: the home's own tables under the current key.

        One that was edited, or cannot be written, is left as it is: the log says so, whoever looks into it is
        told, and the home has to open for whoever settles it.
        """
        for table in (self.labels, self.allowlist, self.quarantine.vault):
            try:
                table.rekey()
            except AnchorError:
                raise
            except IntegrityError as error:
                what = type(table).__name__
                self.events.emit(ReadRefused("@home", what, error.record or what, error.case, error.code))

    def close(self) -> None:
        """Finish what is pending and let go. Idempotent; never touches a wrapped object."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        with ExitStack() as last_first:  # one that fails does not keep the others open
            last_first.callback(self._ledger.close)
            last_first.callback(self._log.close)  # after the tables, which may be in the anchor's database
            last_first.callback(self.tally.close)
            last_first.callback(self._performers.close)
            last_first.callback(self.labels.close)
            last_first.callback(self.allowlist.close)
            last_first.callback(self.recall.close)
            last_first.callback(self.quarantine.close)
            for _, _, custody in self._guarded.values():
                last_first.callback(custody.close)
            for scrubber in self._scrubbers:
                last_first.callback(scrubber.stop)

    def __enter__(self) -> MemGuard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MemGuard({str(self.home)!r}, preset={self.config.preset!r}, anchor={self.anchor.uri!r})"

    def _allow(self, text: str, code: str, reason: str, by: str) -> None:
        """A release with ``allow_text``: let this text pass from now on."""
        self.allowlist.add(text, reason=reason, author=by)

    def _review_key(self) -> str | None:
        uri = self.config.quarantine.review_key
        return None if uri is None else beside(uri, self.home)

    def _harvest(self, records: Sequence[HeadRecord]) -> None:
        # Names that begin with @ are the guard's own heads (labels, configuration): they have no history.
        of_stores = [r for r in records if not r.store.startswith("@")]
        self._ledger.append(
            [entry_of(r.store, r.head, r.operation, r.delta, r.kid, r.time) for r in of_stores]
        )

    # -- guarding ----------------------------------------------------------------------------

    def guard(self, obj: T, name: str | None = None, **overrides: Any) -> T:
        """The same object, guarded: everything it writes is sealed, everything it reads is checked.

        Args:
            obj: a LangGraph checkpointer or store.
            name: the identity of the store under this home, bound into every tag. May be left out
                where the configuration names exactly one store of that kind.
            overrides: settings of ``[integrity]`` for this store, such as ``sync="lag"``.

        Raises:
            AlreadyGuardedError, UnsupportedError (no adapter), ConfigError (name).
        """
        if self._closed:
            raise ConfigError(
                "this MemGuard is closed.", code="MG121", do="MemGuard.open(home) opens it again."
            )
        if handle_of(obj) is not None:
            raise AlreadyGuardedError(
                f"this {type(obj).__name__} is guarded already.",
                where=handle_of(obj).custody.store,  # type: ignore[union-attr]
                do="Use it as it is, or memguard.unwrap(obj) first.",
            )
        adapter = registry.adapters.match(obj)
        if adapter is None:
            raise UnsupportedError(
                f"there is no adapter for {type(obj).__module__}.{type(obj).__qualname__}.",
                code="MG130",
                why="memguard guards LangGraph checkpointers and stores.",
                do="Give the checkpointer or store itself; a plug-in can add adapters.",
            )
        made: T = registry.load("adapter", adapter)(self, obj, name, overrides)
        return made

    def custody(
        self,
        obj: object,
        name: str | None,
        rows: Rows,
        *,
        kind: str,
        place: str | None,
        overrides: Mapping[str, Any],
    ) -> Custody:
        """For adapters: the custody of a store under a name.

        Args:
            obj: the wrapped object (the head of an in-memory one lives with it).
            kind: its kind in ``[stores.NAME]``, for finding the name.
            place: where it is, if that can be said (a file's path); None for one in memory.
        """
        store = name or self._only_name(kind)
        settings = self.config.integrity
        if overrides:
            values = {**settings.model_dump(), **overrides}
            settings = preset_of(self.config.preset, {"integrity": values}).integrity
        with self._mutex:
            held = self._guarded.get(store)
            if held is not None and not _same(held, obj, place):
                raise ConfigError(
                    f"two stores are guarded under the name {store!r}.",
                    code="MG122",
                    why="A name is the identity of one store and is bound into its tags.",
                    do="Give each its own name.",
                )
            log: AnchorLog = self._log
            lock: Lock
            slot: Slot
            boot: bytes | Callable[[], bytes] = boot_id()
            if place is None:
                anchor, lock, slot = _heads_of_objects.setdefault(
                    obj, (MemoryAnchor(), ThreadLock(), MemorySlot())
                )
                AnchorLog.begin(anchor, self.keys)
                log = AnchorLog(anchor, self.keys, compact_bytes=_MEMORY_LOG)
            elif isinstance(self.anchor, SharedAnchor):  # writers of several hosts, and what one of them left
                lock = slot = self.anchor.lease(store)
                boot = self.anchor.life
            else:
                lock = home_lock(self.home, f"{store}.lock")
                slot = FileSlot(str(self.home / LOCKS / f"{store}.note"))
            custody = Custody(
                store,
                keys=self.keys,
                log=log,
                lock=lock,
                rows=rows,
                settings=settings,
                bus=self.events,
                boot=boot,
                slot=slot,
            )
            self._guarded[store] = (obj, place, custody)
        self.events.emit(
            StartLine(
                store,
                type(obj).__name__,
                self.config.preset,
                self.screening.observing,
                self.screening.absent,
                self.anchor.uri,
                self.config.digest(),
            )
        )
        return custody

    def attach(self, guarded: T, handle: Handle) -> T:
        """For adapters: make an object a guarded one, and have it scrubbed if that is configured."""
        guarded.__dict__["_memguard"] = handle
        custody, seconds = handle.custody, handle.custody.settings.scrub_seconds
        custody.mending = handle.rows
        if seconds and custody.settings.mode != "off":
            self._scrubbers.append(
                Scrubber(lambda: handle.run(custody.complete(custody.known(), None)), seconds)
            )
        return guarded

    def _only_name(self, kind: str) -> str:
        names = [n for n, s in self.config.stores.items() if s.kind == kind]
        if len(names) == 1:
            return names[0]
        raise ConfigError(
            "guard needs a name for this store.",
            code="MG123",
            why=f"The configuration names {len(names) or 'no'} store(s) of kind {kind}; a name is a store's identity.",
            do='guard(obj, name="checkpoints").',
        )

    # -- guards ------------------------------------------------------------------------------

    def check(self, text: object, source: str | None = None) -> Decision:
        """What the rules say of a text, whatever the mode. Stores nothing.

        Args:
            text: a text, or a value as a store would take it.
            source: ``kind:id``; default: the source in force, else unknown.
        """
        declared = context.source(source).value if source else context.current_source()
        record = Record(content := text_of(text))
        if declared is not None:
            record = Record(content, source=declared.source, lineage=declared.lineage)
        return self.screening.check(record)

    def label(self, item: object) -> Label | None:
        """The label a guarded object gave an item, or that a message was stored with; None if it has none.

        A message is found by its id and what it says. One that was never labelled otherwise is what its
        type says: a human's, an assistant's, a tool's, the system's.
        """
        found = label_of(item)
        return found if found is not None else self._message_label(item)

    def _message_label(self, item: object) -> Label | None:
        kind = _MESSAGE_KINDS.get(str(getattr(item, "type", "")))
        if kind is None or not hasattr(item, "content"):
            return None
        noted = self.labels.find(str(getattr(item, "id", "") or ""), digest_of(text_of(item.content)))
        if noted is not None:
            return noted
        name = str(getattr(item, "name", "") or "") if kind == "tool" else ""
        source = Source(kind, name if name.isprintable() and len(name) <= MAX_ID else "")
        return Label(source, self.screening.trust(source) or Trust.UNKNOWN)

    # -- care --------------------------------------------------------------------------------

    def audit(self, target: object) -> AuditReport:
        """Check every row of a guarded object, content included, against its head. Changes nothing."""
        handle, caretaker = self._caretaker(target)
        report: AuditReport = handle.run(caretaker.audit())
        return report

    def adopt(self, target: object, apply: bool = False) -> Plan:
        """Seal data that was there before the guard: a plan, or with ``apply`` the signed, one-time act."""
        handle, caretaker = self._caretaker(target)
        plan: Plan = handle.run(caretaker.adopt(apply))
        if apply and plan.actions:
            records = sum(int(a["records"]) for a in plan.actions)
            self.events.emit(Adopted(plan.store, len(plan.actions), records))
        return plan

    def repair(self, target: object, apply: bool = False) -> Plan:
        """Drop rows that the head does not count: a plan, or with ``apply`` the act."""
        handle, caretaker = self._caretaker(target)
        plan: Plan = handle.run(caretaker.repair(apply))
        return plan

    def accept(self, target: object, reason: str, apply: bool = False) -> Plan:
        """An operator's word that what stands is right (a restored backup): signed, with the reason.

        Raises:
            ConfigError: no reason was given.
        """
        if not reason.strip():
            raise ConfigError(
                "accepting a store needs a reason.", code="MG125", do="Say why, in a few words."
            )
        handle, caretaker = self._caretaker(target)
        plan: Plan = handle.run(caretaker.accept(reason, apply))
        lost = self.labels.lost()
        if lost:  # of all stores: they share one table, so the plan says it whichever store is named
            if apply:
                self.labels.write_off(reason)
            line = {"context": "labels of messages in state.db", "records": lost, "action": "write off"}
            plan = replace(plan, actions=(*plan.actions, line))
        return plan

    def revert(
        self,
        target: object,
        *,
        source: str | None = None,
        since: str | float | datetime | None = None,
        to: str | float | datetime | None = None,
        thread: str | None = None,
        apply: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> Plan:
        """Take records back out: a plan, or with ``apply`` the act, noted under a signature in the anchor's log.

        Args:
            source: everything from this source (``kind:id``, ``*`` for any characters) and everything derived
                from it. A checkpointer's threads are cut in front of the first checkpoint that holds any of it.
            since: everything written from this moment on (seconds, a datetime, or ISO 8601 text, UTC).
            to: the last state to keep: a checkpoint's id, or a moment.
            thread: of a checkpointer, this thread only.

        Raises:
            ConfigError: MG357, not exactly one of source, since and to. UnsupportedError: MG352, MG358.
            IntegrityError: the store is not as it was left (a checkpointer goes back to a checkpoint all the same).
        """
        handle, wanted = handled(target), Wanted.of(source, since, to, thread)
        who = by or operator()
        plan: Plan = handle.run(revert(handle, wanted, self._ledger, apply=apply, by=who, reason=reason))
        if apply and plan.actions:
            self.events.emit(Reverted(plan.store, sum(int(a["records"]) for a in plan.actions), who))
        return plan

    async def arevert(self, target: object, **options: Any) -> Plan:
        """Async :meth:`revert`."""
        return await asyncio.to_thread(lambda: self.revert(target, **options))

    def _caretaker(self, target: object) -> tuple[Handle, Caretaker]:
        handle = handled(target)
        log = handle.custody.log
        return handle, Caretaker(handle.custody, handle.rows, self.keys, log, self._ledger)

    async def aaudit(self, target: object) -> AuditReport:
        """Async :meth:`audit`."""
        return await asyncio.to_thread(self.audit, target)

    async def aadopt(self, target: object, apply: bool = False) -> Plan:
        """Async :meth:`adopt`."""
        return await asyncio.to_thread(self.adopt, target, apply)

    async def arepair(self, target: object, apply: bool = False) -> Plan:
        """Async :meth:`repair`."""
        return await asyncio.to_thread(self.repair, target, apply)


def _same(held: tuple[object, str | None, Custody], obj: object, place: str | None) -> bool:
    return held[0] is obj or (place is not None and held[1] == place)


def _given(**values: str | None) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _known(schemes: registry.Registry, uri: str) -> str:
    """The URI, once the plug-ins that may bring its scheme had their say."""
    if uri.partition(":")[0] not in schemes:
        registry.load_plugins()
    return uri
