"""``memguard doctor``: is the guard in the path, does it refuse, and does an adversary hold what it trusts."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memguard.cli import checks, exits
from memguard.cli.checks import FAIL, PASS, SKIP, WARN, Check
from memguard.cli.checks_quarantine import quarantine
from memguard.cli.output import Report, plain, progress, reporting
from memguard.cli.session import Session, with_session
from memguard.cli.stores import Handle, StoreKind, check_open, configured, handles, kind_of
from memguard.errors import MemguardError

if TYPE_CHECKING:
    from memguard.engine import MemGuard


_WIDTH = 110
#: What a kind that does not say it itself is asked about: SQLite's PRAGMA.
_SYNCHRONOUS = (
    "synchronous=FULL",
    "synchronous is below FULL: a power cut loses acknowledged records",
)


@click.command("doctor")
@click.argument("store", nargs=-1)
@with_session
@reporting
def doctor(session: Session, store: tuple[str, ...]) -> Report:
    """Prove with a canary that the guard is in the path.

    STORE is a name from [stores.NAME], or module:attr of a compiled graph, a saver or a store; without one,
    every configured store is looked at. The canary runs on a copy; your store is not written.
    Exit code 1 if anything fails; warnings do not change it.
    """
    progress("looking ...")
    found = list(_run(session, store))
    counts = {word: sum(check.result == word for check in found) for word in (PASS, WARN, FAIL, SKIP)}
    summary = f"{counts[PASS]} pass, {counts[WARN]} warn, {counts[FAIL]} fail"
    if counts[SKIP]:
        summary += f", {counts[SKIP]} not looked at"
    failed = [check.check for check in found if check.result == FAIL]
    return Report(
        "doctor",
        code=exits.FINDINGS if failed else exits.CLEAN,
        reason="; ".join(failed),
        columns=("result", "check", "detail", "code"),
        rows=[check.as_dict() for check in found],
        notes=[summary],
        text="\n".join([*_lines(found), summary]),
    )


def _lines(found: list[Check]) -> Iterator[str]:
    """One line a check, and a second one for a detail that would not fit."""
    pad = max((len(plain(check.check)) for check in found), default=0)
    for check in found:
        line = f"{check.result}  {plain(check.check):<{pad}}"
        detail = plain(check.detail)
        end = f"  {check.code}" if check.code else ""
        if len(line) + 2 + len(detail) + len(end) <= _WIDTH:
            yield f"{line}  {detail}{end}".rstrip()
        else:
            yield f"{line}{end}".rstrip()
            yield f"      {detail}"


def _run(session: Session, specs: tuple[str, ...]) -> Iterator[Check]:
    from memguard.config import load

    yield from checks.shadowing()
    with ExitStack() as stack:
        try:
            loaded = load(session.target())
            mg = stack.enter_context(session.guard())
        except MemguardError as error:
            yield Check(FAIL, "the home opens", f"{type(error).__name__}: {error.what}", error.code)
            return
        yield Check(PASS, "the home opens", f'{mg.home}, preset "{mg.config.preset}"')
        found = _Found(session, mg, stack)
        store_checks = [check for spec in specs or tuple(mg.config.stores) for check in found.look(spec)]
        yield from checks.keys(mg, found.paths)
        yield from checks.anchor(mg, found.paths)
        yield from checks.trust_roots(mg, dict(loaded.origins))
        yield from quarantine(mg, found.paths)
        yield from checks.policy(mg.config, datetime.datetime.now(datetime.UTC).date())
        yield from store_checks
        if not store_checks:
            yield Check(
                SKIP, "no store was named", "memguard doctor app:graph, or add a [stores.NAME] table", "MG150"
            )


class _Found:
    """Looks at stores, and remembers where their files are."""

    def __init__(self, session: Session, mg: MemGuard, stack: ExitStack) -> None:
        self._session, self._mg, self._stack = session, mg, stack
        self.paths: list[Path] = []

    def look(self, spec: str) -> Iterator[Check]:
        """Every check of one store or program."""
        try:
            if ":" in spec:
                for handle in handles(spec):
                    yield from self._handle(handle)
            else:
                kind, uri = configured(self._session, spec)
                inner = self._stack.enter_context(kind.open(uri))
                note = "opened by doctor; name module:attr to look at your program"
                yield Check(SKIP, f"{spec}: the program guards it", note, "MG160")
                yield from self._store(spec, kind, inner)
        except MemguardError as error:
            detail = f"{type(error).__name__}: {error.what.rstrip('.')}. {error.why or ''} {error.do or ''}"
            yield Check(FAIL, f"{spec} opens", " ".join(detail.split()), error.code)

    def _handle(self, handle: Handle) -> Iterator[Check]:
        kind = kind_of(handle.inner)
        name = type(handle.inner).__name__
        if handle.is_guarded:
            yield Check(PASS, f"{handle.label}: writes reach the guard", f"guarded {name}")
        else:
            bare = f"bare {name}: put guard(...) around it"
            yield Check(FAIL, f"{handle.label}: writes reach the guard", bare, "MG160")
        if kind is None:
            yield Check(
                SKIP, f"{handle.label}: canary", f"no kind of store is registered for {name}", "MG105"
            )
            return
        check_open(handle, kind)
        yield from self._store(handle.label, kind, handle.inner)

    def _store(self, label: str, kind: StoreKind, inner: object) -> Iterator[Check]:
        durable, swept, path = kind.durable(inner), kind.swept(inner), kind.path(inner)
        if durable is not None:
            good, bad = getattr(kind, "durability", _SYNCHRONOUS)
            yield (
                Check(PASS, f"{label}: commits are durable", good)
                if durable
                else Check(
                    WARN,
                    f"{label}: commits are not durable",
                    bad,
                    "MG162",
                )
            )
        if swept is not None:
            yield (
                Check(PASS, f"{label}: expired items are swept")
                if swept
                else Check(
                    WARN,
                    f"{label}: no sweeper runs",
                    "expired items stay in the store (never served)",
                    "MG168",
                )
            )
        if path is None:
            yield Check(SKIP, f"{label}: canary", "it has no file that could be copied")
            return
        self.paths.append(path)
        from memguard.cli.canary import policy_of, prove

        config = self._mg.config
        for check in prove(kind, path, preset=config.preset, policy=policy_of(config)):
            yield Check(check.result, f"{label}: {check.check}", check.detail, check.code)
