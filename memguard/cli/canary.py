"""The canary of ``memguard doctor``: a copy of the store is written, edited behind the guard's back, and read.

The user's store, home, key and anchor are never touched: the copy gets a home, a key and an anchor of its own
in a temporary folder, under the user's policy. What is proven is that this policy, over this kind of store, with
this version of the framework, refuses an edited record; whether the program uses the guard is another check.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memguard.cli.checks import FAIL, PASS, WARN, Check
from memguard.cli.stores import Canary, StoreKind
from memguard.errors import IntegrityError, MemguardError

_COPIED = ("integrity", "write", "read", "act", "guards", "policy", "sources", "log")
#: Of one length, so that an edit in place is possible in every serialisation.
_TRUE, _FALSE = "the limit is 100 euros", "the limit is 999 euros"


def policy_of(config: Any) -> dict[str, Any]:
    """The parts of a configuration that decide, without its places."""
    plain = config.plain()
    return {name: plain[name] for name in _COPIED}


class Copy:
    """A copy of a store under a guard of its own."""

    def __init__(
        self, kind: StoreKind, path: Path, folder: Path, preset: str, policy: dict[str, Any]
    ) -> None:
        from memguard.engine import MemGuard

        self.kind, self.home = kind, folder / "home"
        self.uri = kind.copy(path, folder)
        MemGuard.create(
            self.home,
            preset=preset,
            anchor=f"file:{folder / 'anchor'}",
            keys=f"file:{folder / 'key.json'}",
            config=policy,
        ).close()

    @contextmanager
    def guarded(self) -> Iterator[Any]:
        """The copy behind a guard that has seen nothing yet, as after a restart."""
        from memguard.engine import MemGuard

        with self.kind.open(self.uri) as inner:
            mg = MemGuard.open(self.home)
            try:
                yield mg.guard(inner, name="doctor")
            finally:
                mg.close()

    async def aread(self, canary: Canary) -> str | None:
        """The canary's text through the asynchronous path."""
        from memguard.engine import MemGuard

        async with self.kind.aopen(self.uri) as inner:
            mg = MemGuard.open(self.home)
            try:
                return await canary.aread(mg.guard(inner, name="doctor"))
            finally:
                mg.close()


def prove(kind: StoreKind, path: Path, *, preset: str, policy: dict[str, Any]) -> Iterator[Check]:
    """Write, read, edit and read again on a copy of the store at ``path``; one line per step."""
    token = f"mg-canary-{secrets.token_hex(3)}"
    canary = kind.canary(token)
    with TemporaryDirectory(prefix="memguard-doctor-") as name, _hushed():
        try:
            copy = Copy(kind, path, Path(name), preset, policy)
            with copy.guarded() as guarded:
                canary.write(guarded, _TRUE)
                served = canary.read(guarded)
            aserved = asyncio.run(copy.aread(canary))
        except MemguardError as error:
            yield Check(
                FAIL, "a genuine record is served", f"{type(error).__name__}: {error.what}", error.code
            )
            return
        yield _served("a genuine record is served", served, token)
        yield _served("and served by the asynchronous twin", aserved, token)
        if not canary.tamper(copy.uri, _TRUE, _FALSE):
            yield Check(
                FAIL,
                "an edit of the copy landed",
                "the written text is not in the store as expected",
                "MG169",
            )
            return

        def read() -> str | None:
            with copy.guarded() as guarded:
                return canary.read(guarded)

        mode = str(policy["integrity"]["mode"])
        yield _refused("an edited record is refused", read, mode)
        yield _refused("and refused by the asynchronous twin", lambda: asyncio.run(copy.aread(canary)), mode)


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep the alarms of the copy out of the log: they are what is hoped for, and look like the real thing."""
    logger = logging.getLogger("memguard")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _served(what: str, text: str | None, token: str) -> Check:
    if text == _TRUE:
        return Check(PASS, what, f"on a copy of the store ({token})")
    return Check(FAIL, what, "something else was served than was written", "MG169")


def _refused(what: str, read: Callable[[], str | None], mode: str) -> Check:
    try:
        read()
    except IntegrityError as error:
        return Check(PASS, what, f"{type(error).__name__} {error.code}, on a copy of the store")
    except MemguardError as error:
        return Check(FAIL, what, f"refused, but not as an integrity error: {error.code}", "MG169")
    if mode == "enforce":
        return Check(FAIL, what, "the edited record was served", "MG169")
    return Check(WARN, what, f'it was served, because integrity.mode = "{mode}"', "MG167")
