"""A store in a dictionary and everything around it that can be lost: the integrity core needs no framework."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from memguard.anchorlog import AnchorLog
from memguard.anchors.locks import ThreadLock
from memguard.custody import Change, Custody, Pair
from memguard.effects import Operation, drive
from memguard.events import Bus
from memguard.integrity.index import MAIN, MEMBER, pack_key
from memguard.integrity.tag import NOTHING, Seal
from memguard.integrity.verifier import Claim, Context
from memguard.ports import Cursor, KeyRing
from memguard.settings import Integrity
from memguard.slot import MemorySlot
from memguard.testing.anchors import MemoryAnchor
from memguard.testing.keys import MemoryKeyRing

CONTEXT = '["ck","t",""]'


class Died(BaseException):
    """The process is gone; not an Exception, so that nothing settles it on the way."""


class Stored(NamedTuple):
    """A row of the dictionary."""

    group: bytes
    member: bytes
    seal: str
    content: bytes


class Table:
    """The store: rows by context and (group, member). ``erase`` and ``scan`` are what custody asks for."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[bytes, bytes], Stored]] = {}

    def of(self, context: str) -> dict[tuple[bytes, bytes], Stored]:
        return self.rows.setdefault(context, {})

    def claims(self, context: str) -> list[Claim]:
        return [
            Claim(
                b"xx",
                r.group,
                r.member,
                r.group,
                r.seal,
                (r.member,),
                "a record",
                hashlib.sha256(r.content).digest(),
            )
            for r in self.of(context).values()
        ]

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        return self.claims(context.id)
        yield

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        if removes is None:
            self.of(context.id).clear()
        for group, cell in removes or ():
            self.of(context.id).pop((group, cell[:MEMBER]), None)
        return
        yield

    def copy(self) -> Table:
        made = Table()
        made.rows = copy.deepcopy(self.rows)
        return made


class DurableAnchor(MemoryAnchor):
    """An anchor that knows how much of its log a power cut would leave."""

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        cursor = super().append(records, sync=sync)
        if sync:
            self._mark()
        return cursor

    def sync(self) -> None:
        super().sync()
        self._mark()

    def _mark(self) -> None:
        self._log.durable = len(self._log.records)  # type: ignore[attr-defined]

    def second(self) -> DurableAnchor:
        return DurableAnchor(self._log)

    def after_power_cut(self) -> DurableAnchor:
        made = DurableAnchor()
        made._log.records = self._log.records[: self._log.durable]  # type: ignore[attr-defined]
        made._mark()
        return made


def rows_of(
    context: Context,
    items: Sequence[tuple[str, str, bytes]],
    *,
    fence: int | None = None,
    generation: int | None = None,
) -> list[tuple[Stored, Pair, Seal]]:
    """Seal (key, member, content) items as one operation on a context."""
    made = []
    for key, member, content in items:
        group = pack_key(key)
        name = MAIN if member == "" else hashlib.sha256(member.encode()).digest()[:MEMBER]
        old = context.index.member(group, name)
        seal = context.sealer(b"xx").seal(
            group,
            generation=context.head.generation + 1 if generation is None else generation,
            fence=context.head.fence if fence is None else fence,
            size=len(items),
            prev=context.commitment,
            replaced=old[MEMBER:] if old else NOTHING,
            content=hashlib.sha256(content).digest(),
            bound=(name,),
        )
        made.append((Stored(group, name, seal.encode(), content), (group, context.cell(name, seal)), seal))
    return made


class Desk:
    """One process's custody over a table. ``crash`` gives the next process, ``power_cut`` the next boot."""

    def __init__(
        self,
        table: Table,
        anchor: DurableAnchor,
        keys: KeyRing,
        slot: MemorySlot,
        boot: bytes = b"boot-1".ljust(16),
        **settings: Any,
    ) -> None:
        self.table, self.anchor, self.keys, self.slot, self.boot, self.settings = (
            table,
            anchor,
            keys,
            slot,
            boot,
            settings,
        )
        AnchorLog.begin(anchor, keys)
        self.bus = Bus()
        self.heard: list[Any] = []
        self.bus.subscribe(self.heard.append)
        self.log = AnchorLog(anchor, keys)
        self.custody = Custody(
            "store",
            keys=keys,
            log=self.log,
            lock=ThreadLock(),
            rows=table,
            settings=Integrity(**settings),
            bus=self.bus,
            boot=boot,
            slot=slot,
        )

    # -- operations --------------------------------------------------------------------------

    def write(
        self, *items: tuple[str, str, bytes], context: str = CONTEXT, die: str = "", commit: int | None = None
    ) -> None:
        """One operation. ``die`` before or after the store's commit; ``commit`` rows of it only."""
        made: list[tuple[Stored, Pair, Seal]] = []

        def prepare(contexts: list[Context]) -> list[Change]:
            made[:] = rows_of(contexts[0], items)
            return [Change("put", [pair for _, pair, _ in made], latest=made[0][1][0])]

        def perform() -> Operation[None]:
            if die == "before":
                raise Died
            for stored, _, _ in made[:commit]:
                self.table.of(context)[stored.group, stored.member] = stored
            if die == "after":
                raise Died
            return
            yield

        drive(self.custody.operate([context], prepare, perform))

    def put(self, key: str, content: str, **options: Any) -> None:
        self.write((key, "", content.encode()), **options)

    def delete(self, context: str = CONTEXT, die: str = "", rows: int | None = None) -> None:
        def prepare(contexts: list[Context]) -> list[Change]:
            return [Change("delete", horizon=contexts[0].head.latest)]

        def perform() -> Operation[None]:
            if die == "before":
                raise Died
            for place in list(self.table.of(context))[:rows]:
                del self.table.of(context)[place]
            if die == "after":
                raise Died
            return
            yield

        drive(self.custody.operate([context], prepare, perform))

    def prune(
        self, keys: Sequence[str], context: str = CONTEXT, die: str = "", rows: int | None = None
    ) -> None:
        groups = [pack_key(key) for key in keys]

        def pairs(found: Context) -> list[Pair]:
            return [(g, c) for g, c in found.index.items() if g in groups]

        def prepare(contexts: list[Context]) -> list[Change]:
            return [Change("prune", candidates=pairs(contexts[0]))]

        def perform() -> Operation[None]:
            if die == "before":
                raise Died
            for place in [p for p in self.table.of(context) if p[0] in groups][:rows]:
                del self.table.of(context)[place]
            if die == "after":
                raise Died
            return
            yield

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            return [replace(changes[0], removes=pairs(contexts[0]), horizon=max(groups))]
            yield

        drive(self.custody.operate([context], prepare, perform, settle))

    def read(self, context: str = CONTEXT) -> dict[str, bytes]:
        """Everything of a context, verified; keys with their member."""

        def fetch() -> Operation[list[Stored]]:
            return list(self.table.of(context).values())
            yield

        def judge(found: Context, stored: list[Stored]) -> dict[str, bytes]:
            checked = [found.check(claim) for claim in self.table.claims(context)]
            for group in {r.group for r in checked} | set(found.index.groups):
                found.verify_group([r for r in checked if r.group == group], group, "a record")
            return {r.group[1:].decode() + ("" if r.member == MAIN else "+"): r.content for r in stored}

        answer: dict[str, bytes] = drive(
            self.custody.read(context, fetch, judge, lambda stored: {"served": b"unchecked"}, "a record")
        )
        return answer

    def head(self, context: str = CONTEXT) -> Any:
        known = self.log.head(("store", context))
        return None if known is None else known[1]

    # -- ends --------------------------------------------------------------------------------

    def crash(self, **settings: Any) -> Desk:
        """The process died: log, note and table are as they are."""
        return Desk(
            self.table, self.anchor.second(), self.keys, self.slot, self.boot, **{**self.settings, **settings}
        )

    def power_cut(
        self, table: Table | None = None, boot: bytes | None = None, keys: KeyRing | None = None
    ) -> Desk:
        """The machine lost power: only what was synced of the log is left, no note, and of the table what is given."""
        return Desk(
            table if table is not None else self.table,
            self.anchor.after_power_cut(),
            keys or self.keys,
            MemorySlot(),
            boot or bytes([self.boot[0] + 1]) + self.boot[1:],
            **self.settings,
        )


@pytest.fixture
def keys() -> KeyRing:
    return MemoryKeyRing()


@pytest.fixture
def desk(keys: KeyRing) -> Desk:
    return Desk(Table(), DurableAnchor(), keys, MemorySlot())


@pytest.fixture
def new_desk(keys: KeyRing) -> Callable[..., Desk]:
    return lambda **settings: Desk(Table(), DurableAnchor(), keys, MemorySlot(), **settings)


@pytest.fixture(scope="session")
def died() -> type[BaseException]:
    return Died


@pytest.fixture(scope="session")
def seal_rows() -> Callable[..., Any]:
    return rows_of
