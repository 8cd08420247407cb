"""What content alone tells: the sanitizer on planted and honest texts, source by source, nothing pooled.

    python -m memguard.bench.attack.content --corpora DIR [--locomo PATH] [--json FILE]

The statistical tier is held out: the model that judges a source was fitted without every source of the same
author, and its thresholds were chosen on honest texts of other authors. The rules are the released ones: they
are written by hand and cannot be held out, so what they catch here may be a little more than elsewhere.

Three tiers are counted: ``rules`` alone, ``statistics`` alone, and ``both`` as released. Anything but allow counts
as flagged; ``withheld`` are the quarantined, rewritten and rejected ones among them. Statistics alone withhold nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from memguard.bench.attack.corpora import KNOWLEDGE, Corpus, family, locomo, read
from memguard.bench.attack.fit import Plan
from memguard.bench.attack.intervals import clopper_pearson
from memguard.bench.attack.train import Fold, fold, folds, held_out, samples, thresholds
from memguard.decision import Disposition
from memguard.errors import MemguardError
from memguard.guard import GuardContext, Stage
from memguard.guards.normal import normalise
from memguard.guards.sanitizer import Sanitizer
from memguard.guards.statistical import Scorer
from memguard.record import Record

Kind = Literal["planted", "knowledge", "honest"]
Tier = Literal["rules", "statistics", "both"]


class ContentRow(BaseModel):
    """One tier on one source. Shares are of ``n``, with exact 95 % intervals; of a zero the high end is the bound.

    ``flag`` and ``quarantine`` are the thresholds that the statistical tier was held to on this source, null for
    the rules alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    kind: Kind
    tier: Tier
    n: int
    flagged: int
    flagged_low: float
    flagged_high: float
    withheld: int
    withheld_low: float
    withheld_high: float
    flag: float | None = None
    quarantine: float | None = None


def measure(
    corpora: Mapping[str, Corpus], *, others: Iterable[Corpus] = (), plan: Plan | None = None
) -> list[ContentRow]:
    """Rows of every source, the three tiers of each.

    Args:
        corpora: the sources, of which the trained ones are held out in turn.
        others: sources that are never trained on, such as LoCoMo's turns.
        plan: how to fit; the released one by default.
    """
    how = plan or Plan()
    found = samples(corpora)
    parts = folds(found, how)
    honest = {n: s for n, s in held_out(corpora, parts).items() if not corpora[n].planted}
    whole = _calibrated(fold(found, frozenset(), how), honest)
    rows: list[ContentRow] = []
    for corpus in [*corpora.values(), *others]:
        part = next((p for p in parts if p.held & family(corpus.name)), None)
        scorer = whole if part is None else _calibrated(part, honest)
        rows += rows_of(corpus, scorer)
    return rows


def rows_of(corpus: Corpus, scorer: Scorer) -> list[ContentRow]:
    """The three tiers on one source, under a scorer with its thresholds."""
    rules, both = Sanitizer(), Sanitizer(statistical=scorer)
    return [
        _row(corpus, "rules", [_decided(rules, text) for text in corpus.texts], None),
        _row(corpus, "statistics", [_scored(scorer, text) for text in corpus.texts], scorer),
        _row(corpus, "both", [_decided(both, text) for text in corpus.texts], scorer),
    ]


def _calibrated(part: Fold, honest: Mapping[str, Sequence[float]]) -> Scorer:
    """A fold's model with thresholds from honest texts of other authors than those it is to judge."""
    others = {name: s for name, s in honest.items() if name not in part.held}
    flag, quarantine = thresholds({**others, **part.notes})
    return replace(part.scorer, flag=flag, quarantine=quarantine)


def _decided(guard: Sanitizer, text: str) -> Disposition:
    return guard.decide(Record(text), GuardContext(Stage.WRITE)).full


def _scored(scorer: Scorer, text: str) -> Disposition:
    return Disposition.FLAG if scorer.score(normalise(text)) >= scorer.flag else Disposition.ALLOW


def _row(corpus: Corpus, tier: Tier, said: Sequence[Disposition], scorer: Scorer | None) -> ContentRow:
    n = len(said)
    flagged = sum(d is not Disposition.ALLOW for d in said)
    withheld = sum(d not in (Disposition.ALLOW, Disposition.FLAG) for d in said)
    low, high = clopper_pearson(flagged, n)
    least, most = clopper_pearson(withheld, n)
    planted: Kind = "knowledge" if corpus.name in KNOWLEDGE else "planted"
    return ContentRow(
        source=corpus.name,
        kind=planted if corpus.planted else "honest",
        tier=tier,
        n=n,
        flagged=flagged,
        flagged_low=low,
        flagged_high=high,
        withheld=withheld,
        withheld_low=least,
        withheld_high=most,
        flag=scorer.flag if scorer else None,
        quarantine=scorer.quarantine if scorer else None,
    )


def table(rows: Sequence[ContentRow]) -> str:
    """The rows as a Markdown table: flagged and withheld of each tier, in percent with their interval."""
    lines = ["| source | kind | n | tier | flagged % | withheld % |", "|---|---|---|---|---|---|"]
    order = {"planted": 0, "knowledge": 1, "honest": 2}
    for row in sorted(rows, key=lambda r: order[r.kind]):
        flagged = _share(row.flagged, row.n, row.flagged_low, row.flagged_high)
        withheld = _share(row.withheld, row.n, row.withheld_low, row.withheld_high)
        lines.append(f"| {row.source} | {row.kind} | {row.n} | {row.tier} | {flagged} | {withheld} |")
    return "\n".join(lines)


def _share(count: int, n: int, low: float, high: float) -> str:
    if not count:
        return f"0 (< {100 * high:.3g})"
    return f"{100 * count / n:.3g} ({100 * low:.3g} to {100 * high:.3g})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the rows."""
    parser = argparse.ArgumentParser(description="What content alone tells, source by source.")
    parser.add_argument("--corpora", type=Path, required=True, help="folder with manifest.json")
    parser.add_argument("--locomo", type=Path, help="locomo10.json, whose turns are honest memories")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args(arguments)
    try:
        others = [locomo(given.locomo)] if given.locomo else []
        rows = measure(read(given.corpora), others=others)
    except MemguardError as error:
        sys.stderr.write(f"memguard: {error}\n")
        return 2
    if given.json:
        document = {"schema": "memguard.bench/1", "bench": "content", "rows": [r.model_dump() for r in rows]}
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(table(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
