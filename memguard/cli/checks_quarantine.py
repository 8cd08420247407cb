"""Checks of ``memguard doctor`` on the quarantine: who can open it, and what waits in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memguard.cli.checks import FAIL, PASS, WARN, Check
from memguard.cli.place import access, inside, local_path
from memguard.errors import MemguardError
from memguard.quarantine.desk import summary

if TYPE_CHECKING:
    from memguard.engine import MemGuard

#: The share of the places from which on a vault is called nearly full, and the days after which waiting is long.
NEARLY_FULL, LONG = 0.8, 14.0


def quarantine(mg: MemGuard, stores: list[Path]) -> Iterator[Check]:
    """Where the review key is, whether the vault is as it was left, and how much waits."""
    yield from _key(mg, stores)
    try:
        entries = mg.quarantine.list(None)
    except MemguardError as error:
        yield Check(FAIL, "the quarantine is as it was left", error.what, error.code)
        return
    now, settings = time.time(), mg.config.quarantine
    found = summary(entries, now)
    waiting = [entry for entry in entries if entry.state == "waiting"]
    held = [entry for entry in entries if entry.state != "purged"]
    age = "less than a minute" if found["oldest"] == "now" else found["oldest"]
    detail = f"{found['waiting']} wait" + (f", the oldest for {age}" if age else "")
    if found["expired"]:
        detail += f"; {found['expired']} were destroyed by age and never reviewed"
    full = max(len(held) / settings.max_entries, found["bytes"] / settings.max_bytes)
    long = any(now - entry.time > LONG * 86_400 for entry in waiting)
    if full >= NEARLY_FULL:
        yield Check(
            WARN,
            "the quarantine is nearly full",
            f"{full:.0%}; at its limit writes are refused: {detail}",
            "MG345",
        )
    elif long or found["expired"]:
        yield Check(WARN, "the quarantine is not reviewed", f"{detail}: memguard quarantine list", "MG359")
    else:
        yield Check(PASS, "the quarantine", detail)


def _key(mg: MemGuard, stores: list[Path]) -> Iterator[Check]:
    settings, uri = mg.config.quarantine, mg.quarantine.review_key
    if settings.review_public is None:
        detail = "what a guard withholds cannot be kept and is refused: memguard quarantine key --apply"
        yield Check(WARN, "there is no review key", detail, "MG341")
        return
    path = local_path(uri) if uri is not None else None
    if path is None or not path.exists():
        yield Check(PASS, "the review key is not on this machine", "what was withheld is read where it is")
        return
    for holder, what in ((Path(mg.home), "the home"), *((store.parent, "the store") for store in stores)):
        if inside(path, holder):
            detail = f"{path}: whoever holds {holder} reads what was withheld"
            yield Check(WARN, f"the review key lies with {what}", detail, "MG340")
            return
    detail = f"{path}, mode {access(path).mode:04o}: so can the program; move or wrap it"
    yield Check(WARN, "the review key can be read here", detail, "MG340")
