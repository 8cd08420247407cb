"""What a guarded PostgreSQL store knows of the rows that it has looked at: whether anybody else touched them since.

A change hint of a context is ``(start of the server, rows, sum of their versions)``. It is compared with the one
that the database tells; what this process writes is added to its own, row by row, so that its own writes do not
make it read a namespace again. No hint is kept of what was not verified: only one that the custody has taken
(``Context.reads``) is carried on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memguard.integrations.langgraph.store_rows import Namespace

Sum = tuple[str, int, int]
_NOTHING = (0, 0)
#: Contexts whose rows' versions are remembered, and namespaces whose sums are, at most.
_MOST = 4096


class Versions:
    """The versions of the rows of one context, as last read."""

    __slots__ = ("count", "rows", "total")

    def __init__(self, rows: Iterable[tuple[str, int, int]]) -> None:
        self.rows: dict[str, tuple[int, int]] = {}
        self.count = self.total = 0
        for key, count, version in rows:
            self.put(key, (int(count), int(version)))

    def put(self, key: str, row: tuple[int, int]) -> None:
        """Count a row in the place of the one of that key; nothing for one that is gone."""
        old = self.rows.pop(key, _NOTHING)
        if row != _NOTHING:
            self.rows[key] = row
        self.count += row[0] - old[0]
        self.total += row[1] - old[1]


class Seen:
    """See the module."""

    def __init__(self) -> None:
        #: Snapshot and start of the server when the sums were told.
        self.at: tuple[str, str] = ("", "")
        self._sums: dict[str, tuple[int, int]] = {}
        self._versions: dict[str, Versions] = {}
        self._expected: dict[str, set[str]] = {}
        self.listed_at: str | None = None
        self._listed: list[Namespace] = []

    # -- hints -------------------------------------------------------------------------------

    def snapshot(self, prefixes: Sequence[str]) -> str | None:
        """The snapshot at which the sums of all these are known."""
        sums = self._sums
        return self.at[0] if all(prefix in sums for prefix in prefixes) else None

    def tell(
        self, at: tuple[str, str], asked: str | None, prefixes: Sequence[str], found: Sequence[Sequence[Any]]
    ) -> bool:
        """What the database told; False if it must be asked for the sums, since it was started again.

        Args:
            asked: the snapshot for which no sums were wanted.
        """
        if asked is not None and at[0] == asked:
            if at == self.at:
                return True
            self.at, self._sums = at, {}
            return False
        sums = dict(self._sums) if at == self.at and len(self._sums) < _MOST else {}
        sums.update(dict.fromkeys(prefixes, _NOTHING))
        for prefix, count, version in found:
            if prefix is not None:
                sums[prefix] = (int(count), int(version))
        self.at, self._sums = at, sums
        return True

    def sums(self, prefix: str) -> Sum:
        """The hint of a namespace, once it was told."""
        return (self.at[1], *self._sums[prefix])

    def list(self, found: Sequence[Sequence[Any]]) -> Sequence[Namespace]:
        """The namespaces, from what the database told: nothing but the snapshot if they are those of last time."""
        if found[0][0] != self.listed_at:
            self._listed = [tuple(str(prefix).split(".")) for _, prefix in found if prefix is not None]
            self.listed_at = found[0][0]
        return self._listed

    # -- own writes --------------------------------------------------------------------------

    def read(self, context: str, rows: Sequence[tuple[str, int, int]]) -> None:
        """Every row of a context was read."""
        if len(self._versions) >= _MOST:
            self._versions.clear()
        self._versions[context] = Versions(rows)
        self._expected.pop(context, None)

    def expect(self, context: str, key: str) -> None:
        """A row was put and will be read back."""
        self._expected.setdefault(context, set()).add(key)

    def expecting(self, context: str) -> bool:
        """Whether rows of a context were put and not read back yet."""
        return context in self._expected

    def wrote(self, context: str, held: Any, rows: Sequence[tuple[str, int, int]]) -> None:
        """Rows that this process put stand as read back (what was read is compared with what was put by who asked)."""
        mine = self._expected.get(context, set())
        read = {key: (int(n), int(version)) for key, n, version in rows if key in mine}
        mine -= read.keys()
        if not mine:
            self._expected.pop(context, None)
        self._carry(context, held, read)

    def deleted(self, context: str, held: Any, key: str) -> None:
        """This process deleted a row."""
        self._carry(context, held, {key: _NOTHING})

    def _carry(self, context: str, held: Any, rows: Mapping[str, tuple[int, int]]) -> None:
        versions = self._versions.get(context)
        if versions is None:
            return
        before = (versions.count, versions.total)
        for key, row in rows.items():
            versions.put(key, row)
        if held is not None and isinstance(held.reads, tuple) and held.reads[1:] == before:
            held.reads = (held.reads[0], versions.count, versions.total)
