"""Checks of ``memguard doctor`` on the home: configuration, keys, anchor, and what shadows the package.

Each check answers with :class:`Check` lines and never raises for what it finds.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memguard.cli.place import access, inside, local_path, same_volume, split_uri
from memguard.errors import ConfigError
from memguard.ports import SharedAnchor
from memguard.scopes import ScopeMap

if TYPE_CHECKING:
    from memguard.engine import MemGuard

PASS, WARN, FAIL, SKIP = "PASS", "WARN", "FAIL", "SKIP"


@dataclass(frozen=True, slots=True)
class Check:
    """One line: the result, what was looked at, what was seen, and the code to explain."""

    result: str
    check: str
    detail: str = ""
    code: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"result": self.result, "check": self.check, "detail": self.detail, "code": self.code}


def shadowing() -> Iterator[Check]:
    """Whether another installed distribution also provides a top-level ``memguard``."""
    from importlib.metadata import packages_distributions

    others = sorted(set(packages_distributions().get("memguard", ())) - {"memguard-middleware"})
    if others:
        yield Check(
            WARN,
            "another distribution provides memguard",
            f"{', '.join(others)}: uninstall one of the two",
            "MG161",
        )
    else:
        yield Check(PASS, "memguard is the one that is imported")


def keys(mg: MemGuard, stores: list[Path]) -> Iterator[Check]:
    """Where the key comes from, who may read it, and whether the store's adversary holds it."""
    scheme, path = split_uri(mg.keys.uri)[0], local_path(mg.keys.uri)
    if scheme == "memory":
        yield Check(
            WARN, "keys live in memory", "nothing written now can be verified after this process", "MG163"
        )
        return
    if scheme != "file" or path is None:
        yield Check(PASS, "key source", f"{scheme}:, id {mg.keys.current}")
        return
    yield Check(PASS, "key source", f"{path}, id {mg.keys.current}, mode {access(path).mode:04o}")
    folder = access(path.parent)
    if folder.group_or_other_write:
        yield Check(
            WARN, "the key's folder can be written by others", f"mode {folder.mode:04o}: chmod go-w", "MG163"
        )
    for holder, what in _holders(mg, stores):
        if inside(path, holder):
            yield Check(
                FAIL,
                f"the key lies with {what}",
                f"whoever edits {holder} holds it and can forge every tag",
                "MG164",
            )
            return


def _holders(mg: MemGuard, stores: list[Path]) -> Iterator[tuple[Path, str]]:
    """Folders that the store's adversary holds by assumption."""
    yield Path(mg.home), "the home"
    for store in stores:
        yield store.parent, "the store"


def anchor(mg: MemGuard, stores: list[Path]) -> Iterator[Check]:
    """Where the heads are kept, measured by volume and by folder."""
    uri = mg.anchor.uri
    place = local_path(uri)
    if isinstance(mg.anchor, SharedAnchor):
        from memguard.cli import checks_postgres

        yield from checks_postgres.anchor(mg)
        return
    if place is None:
        yield Check(
            WARN, "the anchor is not a local file", f"{uri}: its place cannot be looked at from here", "MG412"
        )
        return
    for holder, what in _holders(mg, stores):
        if inside(place, holder):
            detail = (
                f"{place}: T9 not covered, both can be put back. memguard anchor set file:/mnt/other/anchor"
            )
            yield Check(WARN, f"the anchor lies with {what}", detail, "MG412")
            return
    together = [what for holder, what in _holders(mg, stores) if same_volume(place, holder)]
    if together:
        detail = f"{place}: T9 not covered. memguard anchor set file:/mnt/other/anchor"
        yield Check(
            WARN, f"the anchor is on the volume of {' and '.join(dict.fromkeys(together))}", detail, "MG412"
        )
    else:
        yield Check(PASS, "the anchor is on another volume", f"{place}")
    if access(place).group_or_other_write:
        yield Check(WARN, "the anchor can be written by others", f"mode {access(place).mode:04o}", "MG163")


def trust_roots(mg: MemGuard, origins: dict[str, str]) -> Iterator[Check]:
    """Whether keys and anchor are named from the home, which the store's adversary may rewrite."""
    home = Path(mg.home).resolve()
    named = [name for name in ("keys", "anchor") if _below(origins.get(name, ""), home)]
    if named:
        detail = "set MEMGUARD_KEY_FILE and MEMGUARD_ANCHOR, or pass them in code: those win"
        yield Check(WARN, f"{' and '.join(named)} are named by a file in the home", detail, "MG165")
    else:
        yield Check(PASS, "keys and anchor are named from outside the home")


def _below(origin: str, home: Path) -> bool:
    path = Path(origin.rpartition(":")[0] or origin)
    return path.is_absolute() and path.resolve().is_relative_to(home)


def _scopes(config: Any) -> Iterator[Check]:
    """Whether each scope map can be used by its kind of store, and is."""
    mapped = {name: store for name, store in config.stores.items() if store.scope}
    for name, store in mapped.items():
        saver = store.kind.endswith("saver")
        try:
            ScopeMap.parse(name, store.scope).only(*(("thread", "metadata") if saver else ("namespace",)))
        except ConfigError as error:
            yield Check(FAIL, "scope map cannot be used", error.what, error.code)
    for stage in ("read", "write"):
        mode = getattr(config, stage).scope
        if mapped and mode not in ("enforce", "reject", "quarantine"):
            detail = f'{stage}.scope = "{mode}": principals bind nothing in {", ".join(mapped)}'
            yield Check(WARN, "scope maps are not enforced", detail, "MG166")


def policy(config: Any, today: datetime.date) -> Iterator[Check]:
    """Scope maps, and observing for longer than was meant."""
    without = [name for name, store in config.stores.items() if not store.scope]
    if without:
        detail = f"principal(user=...) restricts nothing in {', '.join(without)}"
        yield Check(WARN, "no scope map", detail, "MG166")
    yield from _scopes(config)
    if config.integrity.mode != "enforce":
        yield Check(
            WARN,
            "integrity is not enforced",
            f'integrity.mode = "{config.integrity.mode}": edits are served',
            "MG167",
        )
    observing = [
        f"{stage}.{name}"
        for stage in ("write", "read", "act")
        for name, mode in getattr(config, stage).model_dump().items()
        if mode == "observe"
    ]
    expires = config.observe.expires
    if observing and expires is not None and expires < today:
        yield Check(WARN, "observing was to end", f"on {expires}: {', '.join(observing)}", "MG167")
    elif observing:
        until = f"until {expires}" if expires else "with no end: set observe.expires"
        yield Check(
            WARN if expires is None else PASS, "observing", f"{', '.join(observing)}, {until}", "MG167"
        )
