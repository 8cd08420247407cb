"""What scopes wrote before, as statistics: for telling how a new record stands against them.

Per store and scope: the last :data:`KEPT` embeddings in eight bits a number, the sum of all of them, the spread of
their distances, when each source wrote, and what trusted records say (slots). All of it is bounded, and scopes do not
share any of it, so no scope's results depend on what another one wrote. Scopes that were not used for a while
are written to ``home/state.db`` and read back; rows are tagged with their place. A row that is missing or does not
verify is a scope without history, which costs a signal and withholds nothing.
"""

from __future__ import annotations

import hmac
import json
import logging
import math
import sqlite3
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from operator import itemgetter, mul
from pathlib import Path
from typing import Any

from memguard.errors import AnchorError
from memguard.guard import Compare, Standing
from memguard.integrity.canonical import frame
from memguard.integrity.mac import same
from memguard.ports import KeyRing
from memguard.slots import Slot, contradiction
from memguard.statedb import State, state_at

#: Embeddings, sources and slots kept per scope, and scopes kept in memory.
KEPT, SOURCES, SLOTS, SCOPES = 32, 64, 256, 512
#: Embeddings after which a scope's centre is known, and of how many trusted records then one is embedded.
SAMPLED, EVERY = 64, 4
_MINUTE = 60.0
_SCHEMA = """CREATE TABLE IF NOT EXISTS histories (
    scope TEXT PRIMARY KEY, embedder TEXT NOT NULL, value TEXT NOT NULL, kid TEXT NOT NULL, tag TEXT NOT NULL
    ) WITHOUT ROWID"""
_KEEP = """INSERT INTO histories VALUES (?, ?, ?, ?, ?) ON CONFLICT (scope) DO UPDATE SET
    embedder = excluded.embedder, value = excluded.value, kid = excluded.kid, tag = excluded.tag"""


class Rounded:
    """A kept embedding in eight bits a number: a fifth of a per cent off in a cosine, and small."""

    __slots__ = ("norm", "values")

    def __init__(self, values: array[int]) -> None:
        self.values = values
        self.norm = math.sqrt(sum(map(mul, values, values)))


class Vector:
    """A new embedding, made a unit vector, as the numbers that are not zero: a hashed text is mostly zeros."""

    __slots__ = ("_at", "numbers", "places", "rounded", "size")

    def __init__(self, vector: Sequence[float]) -> None:
        self.size = len(vector)
        norm = math.sqrt(sum(map(mul, vector, vector)))
        # A vector that is no direction (zero, infinite, not a number) is like nothing.
        sound = math.isfinite(norm) and norm > 0
        self.places = [at for at, x in enumerate(vector) if x] if sound else []
        self.numbers = [vector[at] / norm for at in self.places]
        # itemgetter answers with a tuple from two on.
        self._at = itemgetter(*self.places, *self.places[:1]) if self.places else None
        scale = max(map(abs, self.numbers), default=1.0)
        values = array("b", bytes(self.size))
        for at, x in zip(self.places, self.numbers, strict=True):
            values[at] = round(127 * x / scale)
        self.rounded = Rounded(values)

    def dot(self, other: Sequence[float]) -> float:
        """The scalar product; the first number is asked for twice and counted once."""
        return sum(map(mul, self.numbers, self._at(other))) if self._at is not None else 0.0

    def cosine(self, other: Rounded) -> float:
        """In [-1, 1]; 0 with a zero vector."""
        return self.dot(other.values) / other.norm if other.norm else 0.0


class History:
    """One scope's. ``compare`` first, then ``add``."""

    __slots__ = (
        "count",
        "dirty",
        "distance",
        "length",
        "recent",
        "seen",
        "slots",
        "sources",
        "square",
        "total",
    )

    def __init__(self) -> None:
        #: Sum of all embeddings, and its length.
        self.total: list[float] = []
        self.length = 0.0
        #: The last embeddings, rounded.
        self.recent: list[Rounded] = []
        #: Records, and those of them whose embedding was added.
        self.seen = self.count = 0
        #: Mean distance from the centre, and mean of its square.
        self.distance = self.square = 0.0
        #: Source to [moment of its window's start, records in it, the most in a window before].
        self.sources: dict[str, list[float]] = {}
        #: What trusted records say, oldest first.
        self.slots: dict[Slot, None] = {}
        self.dirty = False

    def fit(self, dimensions: int) -> None:
        """Make room for embeddings of this many numbers; those of another size are forgotten."""
        if len(self.total) != dimensions:
            self.total, self.length, self.recent = [0.0] * dimensions, 0.0, []
            self.count, self.distance, self.square = 0, 0.0, 0.0

    def compare(self, record: Compare, vector: Vector) -> Standing:
        """How the record stands against what was added before."""
        if not self.seen:
            return Standing(known_source=False)
        spread = math.sqrt(max(self.square - self.distance**2, 1e-4))
        source = self.sources.get(str(record.source))
        recent = 1 + int(source[1]) if source and record.moment - source[0] < _MINUTE else 1
        return Standing(
            self.count,
            max(map(vector.cosine, self.recent), default=None),
            (self._away(vector) - self.distance) / spread,
            recent,
            int(source[2]) if source else 0,
            source is not None,
            bool(record.slots) and contradiction(record.slots, tuple(self.slots)) is not None,
        )

    def _away(self, vector: Vector) -> float:
        """One minus the cosine to the centre."""
        return 1.0 - vector.dot(self.total) / self.length if self.length else 0.0

    def add(self, record: Compare, vector: Vector) -> None:
        """Remember it."""
        self.dirty = True
        self.seen += 1
        if self.count:
            weight, away = 1 / self.count, self._away(vector)
            self.distance += (away - self.distance) * weight
            self.square += (away * away - self.square) * weight
        self.count += 1
        for at, x in zip(vector.places, vector.numbers, strict=True):
            self.total[at] += x
        self.length = math.sqrt(sum(map(mul, self.total, self.total)))
        self.recent = [*self.recent[1 - KEPT :], vector.rounded]
        self._heard(record)

    def pass_by(self, record: Compare) -> bool:
        """Remember a trusted record without its embedding; False if that is wanted, and then nothing is remembered.

        The centre of a scope is well known by :data:`SAMPLED` embeddings; afterwards one of :data:`EVERY` will do.
        """
        if self.count < SAMPLED or self.seen % EVERY == 0:
            return False
        self.dirty = True
        self.seen += 1
        self._heard(record)
        return True

    def _heard(self, record: Compare) -> None:
        self._wrote(str(record.source), record.moment)
        if record.trusted:
            for slot in record.slots:
                # The newest word of a trusted record on a thing takes the place of the older ones.
                for older in [s for s in self.slots if contradiction((slot,), (s,)) or s == slot]:
                    del self.slots[older]
                self.slots[slot] = None
            while len(self.slots) > SLOTS:
                del self.slots[next(iter(self.slots))]

    def _wrote(self, source: str, moment: float) -> None:
        window = self.sources.pop(source, None)
        if window is None:
            window = [moment, 0.0, 0.0]
        elif moment - window[0] >= _MINUTE:
            window = [moment, 0.0, max(window[1], window[2])]
        window[1] += 1
        self.sources[source] = window
        while len(self.sources) > SOURCES:
            del self.sources[next(iter(self.sources))]

    def as_json(self) -> str:
        """Everything, as text."""
        total = [round(x, 5) for x in self.total]
        recent = [r.values.tobytes().hex() for r in self.recent]
        values = (total, recent, self.seen, self.count, self.distance, self.square)
        slots = [[sorted(slot.about), slot.kind, slot.value] for slot in self.slots]
        return json.dumps([*values, self.sources, slots], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> History:
        """What :meth:`as_json` wrote."""
        made = cls()
        made.total, recent, made.seen, made.count, *spread, made.sources, slots = json.loads(text)
        made.distance, made.square = spread
        made.length = math.sqrt(sum(map(mul, made.total, made.total)))
        made.slots = {Slot(frozenset(about), kind, _tuple(value)): None for about, kind, value in slots}
        made.recent = [Rounded(array("b", bytes.fromhex(values))) for values in recent]
        return made


class Histories:
    """The histories of a home's scopes. Threads may share it.

    Args:
        path: state.db, or where else the home's tables are.
        keys: name and tag the rows; a scope's name stands there as a keyed hash only.
        embedder: its name: vectors of different embedders are never compared.
    """

    def __init__(self, path: Path | State, keys: KeyRing, embedder: str) -> None:
        self._state, self._keys, self._embedder = state_at(path), keys, embedder
        self._mutex = threading.Lock()
        self._scopes: OrderedDict[str, History] = OrderedDict()

    def compare(self, record: Compare) -> Standing:
        """Compare and remember: the performer of :class:`~memguard.guard.Compare`."""
        return self._stand(record, remember=True)

    def look(self, record: Compare) -> Standing:
        """Compare only."""
        return self._stand(record, remember=False)

    def _stand(self, record: Compare, *, remember: bool) -> Standing:
        if record.vector is None:
            with self._mutex:
                return Standing(wanted=not remember or not self._of(record).pass_by(record))
        vector = Vector(record.vector)
        with self._mutex:
            history = self._of(record)
            history.fit(vector.size)
            standing = history.compare(record, vector)
            if remember:
                history.add(record, vector)
        return standing

    def _of(self, record: Compare) -> History:
        place = frame(
            b"memguard/history/1",
            *(
                ("" if part is None else f"={part}").encode("utf-8", "surrogatepass")
                for part in (record.store, record.scope.tenant, record.scope.user)
            ),
        )
        scope = hmac.digest(self._keys.subkey("history", self._keys.ids[0]), place, "sha256")[:16].hex()
        history = self._scopes.get(scope)
        if history is None:
            history = self._read(scope) or History()
            self._scopes[scope] = history
            while len(self._scopes) > SCOPES:
                self._write([self._scopes.popitem(last=False)])
        self._scopes.move_to_end(scope)
        return history

    def _read(self, scope: str) -> History | None:
        with closing(self._state.connect(_SCHEMA, full=False, busy=10)) as conn:
            row = conn.execute(
                "SELECT value, kid, tag FROM histories WHERE scope = ? AND embedder = ?",
                (scope, self._embedder),
            ).fetchone()
        if row is None or row[1] not in self._keys.ids:
            return None
        value, kid, tag = row
        true = isinstance(value, str) and same(self._tag(scope, value, kid), tag)
        return History.from_json(value) if true else None

    def _write(self, histories: list[tuple[str, History]]) -> None:
        kid, rows = self._keys.current, []
        for scope, history in histories:
            if history.dirty:
                value = history.as_json()
                rows.append((scope, self._embedder, value, kid, self._tag(scope, value, kid)))
                history.dirty = False
        if not rows:
            return
        try:
            with closing(self._state.connect(_SCHEMA, full=False, busy=10)) as conn, conn.transaction():
                conn.executemany(_KEEP, rows)
        except (
            sqlite3.Error,
            AnchorError,
        ) as error:  # statistics: to lose them is no reason to fail a write or a close
            logging.getLogger("memguard").warning(
                "the histories of sources cannot be written (%s)", type(error).__name__
            )

    def _tag(self, scope: str, value: str, kid: str) -> str:
        parts = (scope.encode(), self._embedder.encode(), value.encode("utf-8", "surrogatepass"))
        return hmac.digest(
            self._keys.subkey("history", kid), frame(b"memguard/history/1", *parts), "sha256"
        ).hex()

    def close(self) -> None:
        """Write down what changed. A crash before it costs this process's share of the statistics."""
        with self._mutex:
            self._write(list(self._scopes.items()))


def _tuple(value: Any) -> Any:
    """What JSON made of nested tuples, as they were."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
