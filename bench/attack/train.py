"""Make the weights of the statistical tier:

    python -m memguard.bench.attack.train --corpora DIR -o statistical.bin

Trained on the sources below and on this project's notes. Thresholds are chosen on honest texts that were not
trained on: every family of sources is left out in turn, and the worst kind of text decides, not the average.
Which sources and settings are used was decided in the same way; docs/model-card.md has the figures.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memguard.bench.attack.corpora import Corpus, family, notes, read
from memguard.bench.attack.fit import Plan, Sample, fit, sample
from memguard.guards.normal import normalise
from memguard.guards.statistical import Scorer, pack

#: The sources that are trained on. Left out because every source that was held back came off worse with them:
#: ASB and BIPIA's tasks (ordinary requests in any other place), jailbreaks of chatbots, and false facts.
TRAINED = (
    "bastioncorpus_ben",
    "bastioncorpus_mal",
    "bipia_email_ctx",
    "mg_hard_benign_share",
    "mg_subtle_poison_share",
    "notinject_one",
    "spc_personas",
    "spc_utterances",
    "taskmaster4",
)
#: Sources that count more than their size says.
FACTORS = {"notes_letters": 2.0, "notes_requests": 2.0}
#: What honest texts are of one kind. A set of fewer than 100 cannot tell 1 %, so hard ones are taken together.
KINDS: Mapping[str, tuple[str, ...]] = {
    "hard negatives": ("notinject_one", "bastioncorpus_ben", "mg_hard_benign_share"),
    "personas": ("spc_personas",),
    "dialogue": ("spc_utterances",),
    "task dialogue": ("taskmaster4",),
    "e-mails": ("bipia_email_ctx",),
    # What agents note down. No corpus has enough of it, so the honest notes of this project stand in, each judged by a
    # model that has not seen its template.
    "notes": ("notes_honest", "notes_technical"),
}
#: Of how many texts one may be flagged. The notes are look-alikes on purpose, so there it is one in fifty.
ONE_IN: Mapping[str, int] = {"notes": 50}
#: Models that judge the notes.
NOTE_FOLDS = 4
#: Added to what was found, in logits, because thresholds do not travel well to kinds of text that are not here;
#: more before anything may be withheld, since a thousandth cannot be seen in kinds of a few hundred texts.
FLAG_MARGIN, QUARANTINE_MARGIN = 0.2, 1.0
SEED = 1


@dataclass(frozen=True, slots=True)
class Fold:
    """A model, the sources that it has not seen, and scores of notes under models that saw neither those nor them."""

    scorer: Scorer
    held: frozenset[str]
    notes: Mapping[str, Sequence[float]] = field(default_factory=dict)


def samples(corpora: Mapping[str, Corpus], seed: int = SEED) -> dict[str, Sample]:
    """The windows of every source that is trained on, this project's notes with them."""
    used = {name: corpora[name] for name in TRAINED if name in corpora} | notes(seed)
    return {name: sample(c.texts, c.planted, FACTORS.get(name, 1.0), c.templates) for name, c in used.items()}


def folds(found: Mapping[str, Sample], plan: Plan) -> list[Fold]:
    """One model for each family of sources, fitted without it."""
    groups = {family(name) for name in found if not name.startswith("notes_")}
    return [fold(found, held, plan) for held in sorted(groups, key=sorted)]


def fold(found: Mapping[str, Sample], held: frozenset[str], plan: Plan) -> Fold:
    """The model of everything but ``held``."""
    used = {name: s for name, s in found.items() if name not in held}
    return Fold(fit(used, plan), held, note_scores(used, plan))


def note_scores(found: Mapping[str, Sample], plan: Plan) -> dict[str, list[float]]:
    """Scores of this project's honest notes, each under a model fitted without a quarter of the templates, its own
    among them."""
    scored: dict[str, list[float]] = {name: [] for name in KINDS["notes"] if name in found}
    for part in range(NOTE_FOLDS):
        others = {
            name: s if not name.startswith("notes_") else _part(s, part, False) for name, s in found.items()
        }
        model = fit(others, plan)
        for name, values in scored.items():
            values += [logistic(model.logit(window)) for window in _part(found[name], part, True).windows]
    return scored


def _part(whole: Sample, part: int, inside: bool) -> Sample:
    kept = [
        (window, template)
        for window, template in zip(whole.windows, whole.templates, strict=True)
        if (template[0] % NOTE_FOLDS == part) is inside
    ]
    return replace(whole, windows=tuple(w for w, _ in kept), templates=tuple(t for _, t in kept))


def scores(scorer: Scorer, texts: Iterable[str]) -> list[float]:
    """Scores, falling."""
    return sorted((scorer.score(normalise(text)) for text in texts), reverse=True)


def held_out(corpora: Mapping[str, Corpus], parts: Sequence[Fold]) -> dict[str, list[float]]:
    """Scores of every source under the model that has not seen it."""
    return {
        name: scores(fold.scorer, corpora[name].texts)
        for fold in parts
        for name in sorted(fold.held)
        if name in corpora
    }


def thresholds(found: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """(flag, quarantine) from scores of honest texts that were held back, by source.

    ``flag``: of no kind more than 1 % lie above it, of the notes 2 %. ``quarantine``: no honest text at all. Each has
    its margin.
    """
    flag, highest = 0.5, 0.5
    for label, members in KINDS.items():
        kind = sorted((score for name in members for score in found.get(name, ())), reverse=True)
        if kind:
            flag = max(flag, kind[len(kind) // ONE_IN.get(label, 100)])
            highest = max(highest, kind[0])
    return moved(flag, FLAG_MARGIN), moved(highest, QUARANTINE_MARGIN)


def logit(score: float) -> float:
    """The inverse of :func:`logistic`."""
    return math.log(score / (1 - score))


def logistic(value: float) -> float:
    """1 / (1 + exp(-value))."""
    return 1 / (1 + math.exp(-value))


def moved(score: float, margin: float) -> float:
    """A score moved up by so many logits, and rounded up to four digits."""
    return math.ceil(logistic(logit(score) + margin) * 10_000) / 10_000


def make(corpora: Mapping[str, Corpus], plan: Plan, seed: int = SEED) -> tuple[bytes, list[Fold]]:
    """The weight file, and the models that its thresholds come from."""
    found = samples(corpora, seed)
    parts = folds(found, plan)
    whole = fold(found, frozenset(), plan)
    flag, quarantine = thresholds({**held_out(corpora, parts), **whole.notes})
    model = whole.scorer
    header = {"bias": model.bias, "scale": model.scale, "flag": flag, "quarantine": quarantine, "seed": seed}
    return pack(header, model.weights), parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, write the file and print its digest and thresholds."""
    parser = argparse.ArgumentParser(description="Make the weights of the statistical tier.")
    parser.add_argument("--corpora", type=Path, required=True, help="folder with manifest.json")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the weight file to write")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args(arguments)
    content, _ = make(read(given.corpora), Plan(seed=given.seed), given.seed)
    given.output.write_bytes(content)
    head = content.partition(b"\n")[0].decode("ascii")
    sys.stdout.write(f"{hashlib.sha256(content).hexdigest()}  {len(content)} bytes\n{head}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
