"""What a bench asks of a system under test (SUT), small enough to implement in an hour.

A SUT lives in one folder (its *cell*) with fixed sub-folders, so that "what the adversary holds" is a list of
folder names and a fresh copy of a seeded SUT is a copy of the folder:

    cell/store/    the database file and every sidecar of it
    cell/home/     the guard's own folder (guarded SUTs)
    cell/anchor/   the guard's anchor, unless it is kept beside the store on purpose
    cell/keys/     key files: never in an adversary's hands

Everything between :meth:`Sut.start` and :meth:`Sut.stop` goes through the SUT's own write and read paths. The
adversary's side (raw rows, edits) is in :mod:`memguard.bench.integrity.edits` and loads no SUT.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STORE, HOME, ANCHOR, KEYS = "store", "home", "anchor", "keys"

#: Read paths whose answer is a ranked or cut selection, so that one more record may rightly change it.
SELECTIVE = frozenset({"query"})


@dataclass(frozen=True, slots=True)
class Record:
    """One memory that the bench writes; ``n`` is its place in its context (0 is the oldest)."""

    context: str
    n: int
    text: str
    owner: str
    role: str
    source: str
    ts: str
    topic: str
    #: Texts of the records before it, oldest first: the state that a history's record carries along.
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One record as the SUT served it: ``body`` follows from what was written, ``stamps`` from when."""

    key: str
    body: Mapping[str, Any]
    stamps: Mapping[str, Any] = field(default_factory=dict)


#: Read path -> the items it served, in the order in which it served them.
View = dict[str, list[Item]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A read or write that raised: the error's class, whether it is an integrity error of this SUT, its code."""

    error: str
    integrity: bool
    code: str = ""
    case: str = ""


class NotApplicable(Exception):
    """This SUT cannot express the case; the text is the reason that the report prints."""


class Sut(ABC):
    """A memory subsystem in one configuration.

    Args:
        cell: the folder it lives in. It may be created, copied and removed between runs, always at this path.
    """

    #: The published name, such as ``langgraph-sqlite-saver+memguard``.
    name: str
    #: Which kind of store it is: the key of the adversary's edits for it.
    kind: str
    guarded: bool = False
    #: A ``memguard.bench.integrity.edits.scene.Kind`` of its own, for a kind of store that the bench does not know.
    edits: Any = None
    #: Loggers whose records at WARNING or above are this SUT's documented integrity signals.
    signal_loggers: tuple[str, ...] = ()
    #: Whether the SUT has a separate audit command.
    has_audit: bool = False

    def __init__(self, cell: Path) -> None:
        self.cell = cell
        self._file = "agent.db"
        #: What was written so far, by context: an agent knows its own keys.
        self.records: dict[str, list[Record]] = {}

    # --- what it is ---------------------------------------------------------------------------------------

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Exact versions of the memory component and of what it stands on."""

    @abstractmethod
    def backend(self) -> str:
        """The store under it, with its version."""

    @abstractmethod
    def features(self) -> dict[str, str]:
        """Protective features: ``on`` or ``off``, and whether off is the default."""

    @property
    def adversary_holds(self) -> tuple[str, ...]:
        """Sub-folders of the cell that the adversary may read, change, copy and restore."""
        return (STORE,)

    @property
    def keeps_head(self) -> bool:
        """Whether the SUT keeps a head of its histories, in :attr:`anchor_folder`."""
        return False

    @property
    def anchor_folder(self) -> str:
        """Where the head is kept, relative to the cell."""
        return ANCHOR

    @property
    def database(self) -> Path:
        """The database file."""
        return self.cell / STORE / self._file

    # --- its life -----------------------------------------------------------------------------------------

    def setup(self) -> None:
        """Make the folders; called once, before the first :meth:`start`."""
        (self.cell / STORE).mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def start(self) -> None:
        """Open everything as new objects."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything. Must work after a failed start, and twice."""

    # --- its own write and read paths ---------------------------------------------------------------------

    @abstractmethod
    def write(self, record: Record) -> None:
        """Add one record to its context, after those already there."""

    def finish(self, context: str) -> None:
        """Called once per seeded context after its last record: whatever else the SUT leaves there."""
        return None

    @abstractmethod
    def delete(self, context: str) -> None:
        """Delete memory of the context through the SUT's own interface (a record, or the whole context)."""

    @abstractmethod
    def replace(self, context: str) -> None:
        """Write something of the context again, under the same identifiers, with a newer value."""

    @abstractmethod
    def sister(self, context: str) -> None:
        """Write the context's records, and a newer one, into a second store of the same program (another name)."""

    def sweep(self) -> None:
        """Run the SUT's housekeeping, if it has any."""
        return None

    @abstractmethod
    def paths(self) -> tuple[str, ...]:
        """Names of its read paths."""

    def wide_paths(self) -> tuple[str, ...]:
        """Names of read paths that serve every context at once; only cases that name them read them."""
        return ()

    @abstractmethod
    def read(self, context: str, path: str) -> list[Item]:
        """Serve the context on one read path. Raises whatever the SUT raises."""

    @abstractmethod
    def key(self, record: Record) -> str:
        """The key under which an item that serves ``record`` appears."""

    @abstractmethod
    def body(self, record: Record) -> Mapping[str, Any]:
        """What an item that serves ``record`` must contain, at least: the part that follows from the record."""

    # --- signals ------------------------------------------------------------------------------------------

    def audit(self) -> list[str]:
        """Findings of the SUT's audit command (empty: clean)."""
        raise NotApplicable("this subsystem has no audit command")

    def is_integrity_error(self, error: BaseException) -> bool:
        """Whether the SUT documents this error as an integrity refusal. By default it documents none."""
        return False

    def refusal(self, error: BaseException) -> Refusal:
        """The error in the words of the report; no text of it, since texts may quote memory content."""
        code, case = getattr(error, "code", ""), getattr(error, "case", "")
        return Refusal(
            type(error).__name__,
            self.is_integrity_error(error),
            code if isinstance(code, str) else "",
            case if isinstance(case, str) else "",
        )


def view_of(sut: Sut, context: str, paths: Sequence[str] | None = None) -> View:
    """Everything the SUT serves for a context, path by path, and over all contexts."""
    return {path: sut.read(context, path) for path in (paths or (*sut.paths(), *sut.wide_paths()))}
