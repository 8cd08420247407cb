"""``memguard calibrate STORE|FILE``: thresholds of the statistical tier from a deployment's own memories."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from memguard.cli import exits
from memguard.cli.output import Report, reporting
from memguard.cli.session import Session, with_session
from memguard.errors import ConfigError, UnsupportedError
from memguard.guards.calibration import FLAG_SHARE, MOST_RAISED, Threshold

#: Keys of a JSON line that hold the memory, in this order.
_KEYS = ("text", "content", "memory", "value")
_MOST_BYTES = 1 << 30


@click.command("calibrate")
@click.argument("source", metavar="STORE|FILE")
@click.option("--apply", is_flag=True, help="Write the thresholds and seal the configuration.")
@with_session
@reporting
def calibrate(session: Session, source: str, apply: bool) -> Report:
    """Set the statistical tier's thresholds by your own memories.

    The memories are those of a store (the NAME of a [stores.NAME] table, or module:attr of a guarded object) or of a
    file: JSON lines, or one memory a line. Flag is set so that 1 % of the memories lie above it, quarantine so that
    0.1 % do. Memories that a rule holds are left out, and no threshold rises above a fixed bound, because some of
    them may be poison. Without --apply a plan is printed.
    """
    from memguard.config import load
    from memguard.guards.calibration import thresholds
    from memguard.guards.statistical import load as released

    config = load(session.target()).config
    scorer = released(config.guards.limits.statistical_chars)
    found = _Memories(config, _texts(session, source), scorer)
    if not found.scores:
        raise ConfigError(
            "there are no memories to calibrate on",
            code="MG252",
            where=source,
            do="Give a store or a file that holds memories of this deployment.",
        )
    flag, quarantine = thresholds(found.scores.values(), scorer)
    own = config.guards.sanitizer.calibration
    rows = [
        _row("flag", flag, own.flag if own else scorer.flag, found),
        _row("quarantine", quarantine, own.quarantine if own else scorer.quarantine, found),
    ]
    notes = [f"{row['threshold']}: {row['note']}" for row in rows if row["note"]]
    if flag.n * FLAG_SHARE < 1:
        notes.append(
            f"{flag.n} memories cannot show a share of 1 %: the smallest they show is {flag.resolution:.1%}"
        )
    if apply:
        _write(session, flag, quarantine)
    else:
        notes.append("nothing was changed: --apply writes these to memguard.toml and seals it")
    facts = {
        "memories": found.read,
        "distinct": found.distinct,
        "held_by_rules": found.held,
        "counted": flag.n,
        "applied": apply,
    }
    columns = ("threshold", "now", "above_now", "new", "above_new", "asked_for", "released", "resolution")
    return Report("calibrate", code=exits.CLEAN, facts=facts, columns=columns, rows=rows, notes=notes)


class _Memories:
    """Scores of distinct memories; those that a rule holds against are counted and left out."""

    def __init__(self, config: Any, texts: Iterable[str], scorer: Any) -> None:
        from memguard.guards.lookalikes import unmix
        from memguard.guards.normal import normalise
        from memguard.guards.sanitizer import Sanitizer

        rules = Sanitizer(max_chars=config.guards.limits.max_chars)
        self.read = self.held = 0
        self.scores: dict[str, float] = {}
        seen: set[str] = set()
        for text in texts:
            self.read += 1
            copy = unmix(normalise(text))
            if not copy or copy in seen:
                continue
            seen.add(copy)
            if next(rules.findings(text), None) is not None:
                self.held += 1
            else:
                self.scores[copy] = scorer.score(copy)
        self.distinct = len(seen)

    def above(self, threshold: float) -> int:
        """Memories at or above a threshold."""
        return sum(score >= threshold for score in self.scores.values())


def _row(name: str, found: Threshold, now: float, memories: _Memories) -> dict[str, Any]:
    return {
        "threshold": name,
        "now": now,
        "above_now": f"{memories.above(now) / found.n:.2%}",
        "new": found.value,
        "above_new": f"{found.above / found.n:.2%}",
        "asked_for": found.wanted,
        "released": found.released,
        "resolution": f"{found.resolution:.2%}",
        "upper_bound_of_none": f"{found.bound:.2%}",
        "most_raised_logits": MOST_RAISED,
        "note": found.note,
    }


def _texts(session: Session, source: str) -> Iterator[str]:
    path = Path(source)
    if path.is_file():
        yield from _lines(path)
        return
    from memguard import unwrap
    from memguard.cli.stores import kind_of, opened

    with session.guard() as mg, opened(session, mg, source) as target:
        texts = getattr(kind_of(unwrap(target)), "texts", None)
        if texts is None:
            raise UnsupportedError(
                "the memories of this kind of store cannot be listed",
                where=source,
                do="Write them to a file, one JSON object with a text a line.",
            )
        yield from texts(target)


def _lines(path: Path) -> Iterator[str]:
    """The memories of a file, one a line; JSON where the suffix says so."""
    from memguard.record import text_of

    if path.stat().st_size > _MOST_BYTES:
        raise ConfigError("the file is too large", code="MG252", where=str(path), do="Give a sample of it.")
    as_json = path.suffix in (".jsonl", ".ndjson", ".json")
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if not as_json:
                yield line.strip()
                continue
            try:
                value = json.loads(line)
            except ValueError:
                raise ConfigError(
                    "a line is not JSON", code="MG252", where=f"{path}:{number}", do="One JSON value a line."
                ) from None
            if isinstance(value, dict):
                value = next((value[key] for key in _KEYS if key in value), value)
            yield text_of(value)


def _write(session: Session, flag: Threshold, quarantine: Threshold) -> None:
    from memguard.cli.sealing import home_file, keys_of, reseal, with_values

    path = home_file(session)
    own = {
        "flag": flag.value,
        "quarantine": quarantine.value,
        "n": flag.n,
        "date": datetime.datetime.now(datetime.UTC).date(),
    }
    values = {"guards": {"sanitizer": {"calibration": own}}}
    keys = keys_of(session)
    reseal(path, keys, with_values(path, keys, values))
