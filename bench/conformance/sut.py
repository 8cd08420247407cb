"""A subject as the system under test that the integrity bench asks for, bare or guarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memguard.bench.conformance import edits as kit
from memguard.bench.conformance import rest
from memguard.bench.conformance.keyed import KeyedGuard
from memguard.bench.conformance.raw import RawRecord
from memguard.bench.conformance.subject import Factory, Subject
from memguard.bench.integrity.edits.scene import COPY, Inexpressible, Kind, Scene
from memguard.bench.integrity.edits.steps import Remove, Replace, Restore, Step
from memguard.bench.integrity.seeding import OWNERS
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import HOME, STORE, Item, NotApplicable, Record

_NO_ORDER = "this store keeps its records in no order"


def key_of(n: int) -> str:
    """Key of the n-th record."""
    return f"m-{n}"


class SubjectSut(Guarded):
    """A store under test through its subject.

    Args:
        cell: the folder that everything lies in.
        factory: makes the subject.
        guarded: behind memguard, the anchor elsewhere.
    """

    kind = "conformance"

    def __init__(self, cell: Path, factory: Factory, guarded: bool) -> None:
        self.subject: Subject = factory(cell / STORE)
        super().__init__(cell, Name(self.subject.name, guarded), self.subject.name)
        self.name = f"{self.subject.name}+memguard" if guarded else self.subject.name
        if not guarded:
            self.signal_loggers = self.subject.loggers
            self.has_audit = _overridden(self.subject, "audit")
        self._order = rest.Order(self.subject.ordered)
        self._store: Any = None
        self._handle: Any = None
        self.copied: list[RawRecord] = []

    # --- what it is ---------------------------------------------------------------------------------------

    def versions(self) -> dict[str, str]:
        """The maintainer's versions, and the guard's."""
        ours = self.package_versions("memguard-middleware") if self.guarded else {}
        return {**self.subject.versions, **ours}

    def backend(self) -> str:
        """As the maintainer says."""
        return self.subject.backend or "not stated"

    def features(self) -> dict[str, str]:
        """As the maintainer says, and the guard."""
        return {**self.subject.features, **self.guard_features()}

    # --- its life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open, and guard. A store in its process that runs already goes on."""
        if self._handle is not None and self.subject.in_process:
            return
        (self.cell / STORE).mkdir(parents=True, exist_ok=True)
        self._store = self.subject.open()
        self._handle = self.wrap(self._store)

    def wrap(self, inner: Any) -> Any:
        """The store itself, or guarded by the adapter for its type, or by its keys."""
        if not self.guarded:
            return inner
        from memguard import MemGuard

        self._mg = MemGuard.open(self.cell / HOME)
        guarded = self.subject.guard(self._mg, inner)
        self._wrapped = KeyedGuard(self._mg, self.subject, inner) if guarded is None else guarded
        return self._wrapped

    def stop(self) -> None:
        """Close everything; a store in its process goes on until :meth:`end`."""
        if not self.subject.in_process:
            self.end()

    def end(self) -> None:
        """Close everything."""
        self.unwrap()
        store, self._store, self._handle = self._store, None, None
        if store is not None:
            self.subject.close(store)

    # --- its own write and read paths ---------------------------------------------------------------------

    def _do(self, verb: str, *what: Any) -> Any:
        if isinstance(self._handle, KeyedGuard):
            return getattr(self._handle, verb)(*what)
        return getattr(self.subject, verb)(self._handle, *what)

    def write(self, record: Record) -> None:
        """One record under its key."""
        self._do("write", record.owner, key_of(record.n), dict(self.body(record)))
        self.records.setdefault(record.context, []).append(record)

    def delete(self, context: str) -> None:
        """The second record."""
        self._do("delete", OWNERS[context], key_of(1))

    def replace(self, context: str) -> None:
        """The third record again, with another text."""
        old = self.records[context][2]
        value = {**self.body(old), "text": f"{old.text} (withdrawn, ask first)"}
        self._do("write", old.owner, key_of(2), value)

    def sister(self, context: str) -> None:
        """The kit opens one store."""
        raise NotApplicable(kit.WHY_NOT["X51"])

    def key(self, record: Record) -> str:
        """The record's key."""
        return key_of(record.n)

    def body(self, record: Record) -> Mapping[str, Any]:
        """The value that is written."""
        parts = ("text", "owner", "role", "source", "topic", "ts")
        return {name: getattr(record, name) for name in parts}

    def paths(self) -> tuple[str, ...]:
        """By key, and everything of a context."""
        return ("get", "list")

    def wide_paths(self) -> tuple[str, ...]:
        """The list of contexts, where the store has one."""
        return ("contexts",) if _overridden(self.subject, "contexts") else ()

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path."""
        if path == "contexts":
            return [Item(name, {}) for name in sorted(self._do("contexts") or [])]
        owner = OWNERS[context]
        if path == "list":
            found = self._do("read", owner)
        else:
            keys = [key_of(r.n) for r in self.records.get(context, [])]
            found = [(key, self._do("get", owner, key)) for key in keys]
        return [Item(key, _body(value)) for key, value in found if value is not None]

    # --- signals ------------------------------------------------------------------------------------------

    def audit(self) -> list[str]:
        """Findings of the store's own audit, or of the guard's."""
        if self.guarded:
            return super().audit()
        return self.subject.audit(self._store)

    def is_integrity_error(self, error: BaseException) -> bool:
        """The errors that the store documents, and memguard's."""
        return isinstance(error, self.subject.integrity_errors) or super().is_integrity_error(error)

    # --- the adversary's side -----------------------------------------------------------------------------

    def raw_records(self) -> list[RawRecord]:
        """The records as they lie there."""
        where = self._store if self.subject.in_process else self.cell / STORE
        return self.subject.raw.load(where)

    @property
    def edits(self) -> Kind:
        """The edits of this store: the maintainer's own, else the kit's."""
        own = {case: self._own(edit) for case, edit in self.subject.edits.items()}
        made = {case: self._edit(edit) for case, edit in kit.EDITS.items()}
        why = dict(kit.WHY_NOT)
        if not self.subject.ordered:
            why |= dict.fromkeys(("T2", "T4", "X11"), _NO_ORDER)
        if not self.wide_paths():
            why |= dict.fromkeys(("X49", "X50"), "this subject lists no contexts")
        if self.subject.in_process:
            why |= dict.fromkeys(kit.FOLDERS, "this store lives in its process and has no files to put back")
            made["T9"] = lambda _: [self._rewrite(self.copied)]
            why.pop("T9", None)
        else:
            made |= self._folders()
        return Kind(
            self.kind,
            rest.TABLE,
            lambda _: rest.state(self.raw_records(), self._order),
            lambda owner: owner,
            {**made, **own},
            {case: reason for case, reason in why.items() if case not in own},
        )

    def _rewrite(self, after: list[RawRecord]) -> Any:
        live = self._store if self.subject.in_process else None
        return rest.Rewrite(self.subject.raw, tuple(self.raw_records()), tuple(after), live)

    def _edit(self, edit: kit.Edit) -> Callable[[Scene], list[Step]]:
        def steps(scene: Scene) -> list[Step]:
            copy = scene.cell / COPY / STORE
            copied = self.subject.raw.load(copy) if copy.exists() else self.copied
            try:
                return [self._rewrite(edit(kit.Hands(scene, self.raw_records(), copied)))]
            except (IndexError, StopIteration, TypeError, AttributeError) as error:
                raise Inexpressible(
                    f"the records at rest are not what this edit needs ({type(error).__name__})"
                ) from error

        return steps

    def _own(self, edit: Callable[[Any], None]) -> Callable[[Scene], list[Any]]:
        return lambda _: [rest.Own(edit, self._store if self.subject.in_process else None)]

    def _folders(self) -> dict[str, Callable[[Scene], list[Step]]]:
        """Edits that put folders back, remove them, or change a file of the guard."""

        def back(scene: Scene) -> list[Step]:
            return self._edit(kit.EDITS["X02"])(scene)

        def switched(scene: Scene) -> list[Step]:
            scene.need_guard("configuration beside it")
            change = Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"')
            return [change, *self._edit(kit.EDITS["T1"])(scene)]

        def removed(scene: Scene) -> list[Step]:
            scene.need_guard("state file")
            files = sorted(
                p.relative_to(scene.cell).as_posix() for p in (scene.cell / HOME).glob("state.db*")
            )
            return [Remove(tuple(files)), *back(scene)]

        def older(scene: Scene) -> list[Step]:
            scene.need_guard("state file")
            if not scene.changed_since_copy(HOME):
                raise Inexpressible(
                    "this configuration keeps nothing about the deletion in the guard's folder"
                )
            return [Restore((HOME,)), *back(scene)]

        return {
            **dict.fromkeys(("T9", "X12", "X13"), Scene.whole),
            "X14": lambda scene: [Remove((scene.need_anchor(),))],
            "X15": lambda scene: [Restore((scene.need_anchor(),))],
            "X33": switched,
            "X34": removed,
            "X38": lambda scene: [Remove((STORE,))],
            "X44": older,
            "X56": lambda scene: [Restore((STORE,))],
        }


def _overridden(subject: Subject, name: str) -> bool:
    """Whether the maintainer has written an optional method."""
    return getattr(type(subject), name, None) not in (None, getattr(Subject, name))


def _body(value: Any) -> dict[str, Any]:
    """A served value as plain JSON, without the guard's field."""
    if not isinstance(value, dict):
        return {"unreadable": repr(value)}
    return {name: part for name, part in value.items() if name != kit.FIELD}
