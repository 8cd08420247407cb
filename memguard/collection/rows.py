"""Records of a collection as claims: what an adapter shows, what it is handed, and how the two are bound. Pure.

A context is one list or set of records (a session, an owner's memories, a folder); a record has a key in it, and is a
group of one cell. The seal and memguard's members stand in one reserved field of the record, or beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from memguard.decision import Decision
from memguard.effects import Operation
from memguard.errors import IntegrityError, TamperedError
from memguard.integrity.canonical import canonical_json
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.tag import EXTRA, unpack
from memguard.integrity.verifier import Claim
from memguard.labels import Label
from memguard.record import Lineage, Scope, Source

#: The kind of row, as the tag binds it.
KIND = b"cr"
#: The reserved field of a record.
FIELD = "memguard"


class Stored(NamedTuple):
    """A record as the store shows it, unbelieved.

    Attributes:
        key: its name in its context.
        content: canonical bytes of all that the tag covers, without memguard's own field.
        seal: what stands where the seal should: text, or anything else that was found; None for nothing.
        own: canonical JSON of memguard's members beside the seal; bound by the tag.
        place: what the store sets by itself (timestamps, vectors): in the head's cell and not in the tag, which is
            made before them; read back after the commit.
        value: the adapter's own: what it makes an answer of.
        flaw: what is wrong with the record already as it stands.
    """

    key: str
    content: bytes
    seal: object
    own: bytes = b"{}"
    place: bytes = b""
    value: Any = None
    flaw: IntegrityError | None = None


@dataclass(slots=True)
class Put:
    """One record on its way into the store.

    Attributes:
        key: None has the collection give one that sorts behind all before it; it then stands in ``own["key"]`` too.
        value: the adapter's own, without memguard's field.
        content: as :attr:`Stored.content` will be read back.
        text: what the content guards read.
        source, lineage: where it is from; None takes what the program declared.
        claims: a label that the value brought along, which nobody has to believe; None for none.
        place: what a signature is checked over beside the value; default context and key.
        scope: whose the record is, where a scope map says so.
        own, seal: filled in here; the adapter stores both (:meth:`field`).
    """

    context: str
    key: str | None
    value: Any
    content: bytes
    text: str
    source: Source | None = None
    lineage: Lineage | None = None
    claims: Any = None
    place: Sequence[str] | None = None
    scope: Scope | None = None
    own: dict[str, Any] = field(default_factory=dict)
    seal: str = ""

    @property
    def field(self) -> dict[str, Any]:
        """What stands in the record's reserved field."""
        return {"seal": self.seal, **self.own}

    @property
    def name(self) -> str:
        """Its key, once it has one."""
        assert self.key is not None
        return self.key


class Entry(NamedTuple):
    """A record that was verified, or in report and off modes one that was not."""

    context: str
    stored: Stored
    label: Label | None

    @property
    def key(self) -> str:
        """Its name in its context."""
        return self.stored.key

    @property
    def value(self) -> Any:
        """The adapter's own."""
        return self.stored.value


class Withheld(NamedTuple):
    """A put that was not stored: what was said, and where the quarantine keeps it."""

    put: Put
    decision: Decision
    entry: str


@dataclass(slots=True)
class Written:
    """What came of a write: the puts that were stored, with keys and labels, and those that were withheld."""

    stored: list[Put] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)


class Table(Protocol):
    """What a collection asks of an adapter. Methods are operations; they decide nothing."""

    #: Records of a context stand in the order in which they were written, and :meth:`rows` shows them in it.
    ordered: bool
    #: :meth:`commit` does all of it or nothing. Where it cannot, every record is an operation of its own.
    atomic: bool

    def contexts(self) -> Operation[Sequence[str]]:
        """Contexts that have records."""
        ...

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        """Every record of a context, in the store's own order."""
        ...

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        """Those of these keys that are there."""
        ...

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        """Something that differs after anybody else changed these contexts; None where that cannot be told, and
        then every search looks at every record."""
        ...

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        """Store and delete, through the wrapped object."""
        ...

    def remade(self, put: Put, value: Any) -> Put:
        """The same put with another value: for guards that cut something out. ``value`` has the shape of
        ``put.value``."""
        ...

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        """Put the reserved field beside records that stand already; for ``adopt``.

        Raises:
            UnsupportedError: MG148, it cannot.
        """
        ...


def opened(found: object) -> tuple[object, bytes]:
    """The seal and the canonical members of a reserved field as it was found."""
    if isinstance(found, Mapping):
        own = {str(name): value for name, value in found.items() if name != "seal"}
        try:
            return found.get("seal"), canonical_json(own)
        except (TypeError, ValueError, RecursionError):
            return None, b"{}"
    return found, b"{}"


def members(own: bytes) -> dict[str, Any]:
    """memguard's members; ``{}`` where they are not an object."""
    try:
        found = json.loads(own)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def label_in(own: bytes) -> Label | None:
    """The label among verified members."""
    found = members(own).get("label")
    return None if found is None else Label.from_dict(found)


def named(store: str, context: str, key: object) -> str:
    """How errors name a record: identifiers only."""
    return f"record {key!r} of {context!r} in {store!r}"


def claim_of(store: str, context: str, stored: Stored) -> Claim:
    """The claim of a record as found. Not to be decoded before it was checked."""
    key = stored.key if isinstance(stored.key, str) else repr(stored.key)
    return Claim(
        KIND,
        pack_key(key),
        MAIN,
        key.encode("utf-8", "surrogatepass"),
        stored.seal,
        (stored.own,),
        named(store, context, key),
        hashlib.sha256(stored.content).digest(),
        stored.place,
        stored.flaw,
    )


def order_of(claim: Claim) -> bytes | None:
    """What records are ordered by: operation, then place in it. None without a seal that parses."""
    try:
        _, packed = unpack(claim.seal, claim.record)
    except TamperedError:
        return None
    return packed[:8] + packed[EXTRA:]


def position(at: int) -> bytes:
    """The place of a record in its operation, as the tag binds it."""
    return at.to_bytes(4, "big")


def disordered(record: str) -> TamperedError:
    """The error for records that do not stand in the order in which they were written."""
    return TamperedError(
        "records of a context are out of order.",
        case="T4",
        record=record,
        why="They stand in the order in which they were written; the tags say another order.",
        do="memguard audit STORE shows it.",
    )
