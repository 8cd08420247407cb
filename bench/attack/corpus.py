"""Corpora by path: what content alone says of their texts, and what comes of them in a real store.

A path is a folder with a ``manifest.json`` (see :mod:`memguard.bench.attack.corpora`), or a JSON lines file whose
lines have a ``text`` and a ``label`` (attack or 1, benign or 0). Planted texts come from outside; honest ones are
written twice, by the user and from an honest page.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from memguard.bench.attack.agent import unfenced
from memguard.bench.attack.channels import PAGE, UNTRUSTED, USER, Claim, claim_of
from memguard.bench.attack.content import ContentRow, rows_of
from memguard.bench.attack.corpora import Corpus, read
from memguard.bench.attack.rows import AttackRow
from memguard.bench.attack.run import quietly
from memguard.bench.attack.targets import STORE, Target, opened
from memguard.errors import ConfigError

#: Texts of one source that are judged by content and that go into a store, quick and full.
QUICK, FULL = (100, 20), (1000, 150)
PLACES = ("n", "stored", "readable", "served_for_action", "succeeded")
BENIGN = ("benign_n", "benign_readable", "benign_withheld", "benign_own_n", "benign_for_action")
#: Cut for the store, so that one source with long pages does not take all the time.
LONGEST = 20_000


def load(paths: Sequence[Path]) -> list[Corpus]:
    """Every source of every path.

    Raises:
        ConfigError: MG101 or MG102, a path is no corpus.
    """
    found: list[Corpus] = []
    for path in paths:
        found += list(read(path).values()) if path.is_dir() else _lines(path)
    return found


def _lines(path: Path) -> list[Corpus]:
    texts: dict[bool, list[str]] = {True: [], False: []}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                entry = json.loads(line)
                texts[{"attack": True, "benign": False, 1: True, 0: False}[entry["label"]]].append(
                    str(entry["text"])
                )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "this is no corpus",
            code="MG102",
            where=str(path),
            why="A file has JSON lines with text and label, which is attack or benign (or 1 or 0).",
            do="Give such a file, or a folder with a manifest.json.",
        ) from error
    names = {True: f"{path.stem}-attack", False: f"{path.stem}-benign"}
    return [Corpus(names[p], p, "as given", str(path.name), tuple(t)) for p, t in texts.items() if t]


def sampled(corpus: Corpus, most: int, seed: int) -> Corpus:
    """At most so many texts of a source, drawn without looking at them."""
    texts = corpus.texts
    if len(texts) > most:
        texts = tuple(random.Random(f"{seed} {corpus.name}").sample(texts, most))
    return replace(corpus, texts=texts)


def content(corpora: Sequence[Corpus], most: int, seed: int) -> list[ContentRow]:
    """What the released sanitizer says. Sources that its weights were fitted on are not held out here."""
    from memguard.guards.statistical import load as scorer

    return [row for corpus in corpora for row in rows_of(sampled(corpus, most, seed), scorer())]


def stored(
    corpora: Sequence[Corpus], configurations: Sequence[str], most: int, seed: int, jobs: int = 1
) -> list[AttackRow]:
    """What comes of the texts in a SqliteStore: one row for each source and configuration.

    Args:
        most: texts of a source, at most.
        jobs: processes; 1 runs everything in this one.
    """
    tasks = [(name, sampled(corpus, most, seed)) for name in configurations for corpus in corpora]
    if jobs <= 1:
        return [_row(*task) for task in tasks]
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(_row, *zip(*tasks, strict=True)))


def _row(configuration: str, corpus: Corpus) -> AttackRow:
    about = {
        "configuration": configuration,
        "sut": STORE,
        "channel": UNTRUSTED,
        "family": f"corpus {corpus.name}",
    }
    counts = dict.fromkeys((*PLACES, *BENIGN), 0)
    # The user's own and the page's are never in one home: a text that a page has as well is not the user's own word.
    for own in (True, False) if not corpus.planted else (False,):
        folder = Path(mkdtemp(prefix="memguard-corpus-"))
        try:
            with quietly(), opened(STORE, configuration, folder) as target:
                for at, text in enumerate(corpus.texts):
                    found = _honest if not corpus.planted else _planted
                    for name, value in found(target, at, text[:LONGEST], own).items():
                        counts[name] += int(value)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    source = "outside" if corpus.planted else "user"
    return AttackRow.model_validate({**about, "source": source, **counts}).bounded()


def _planted(target: Target, at: int, text: str, own: bool) -> Mapping[str, bool]:
    space = f"{at}/s"
    same, acting = _passed(target, space, text, claim_of(UNTRUSTED, at))
    unquoted = unfenced(target.prompt(target.context(space, text)))
    done = acting or (same is True and text in unquoted)
    counted = (True, target.stored(space, "k"), same is True, acting, done)
    return dict(zip(PLACES, counted, strict=True))


def _honest(target: Target, at: int, text: str, own: bool) -> Mapping[str, bool]:
    same, acting = _passed(target, f"{at}/s", text, Claim(USER if own else PAGE))
    return dict(zip(BENIGN, (True, same is True, same is None, own, own and acting), strict=True))


def _passed(target: Target, space: str, text: str, claim: Claim) -> tuple[bool | None, bool]:
    """Whether it is served as it was (None: not at all), and whether for action."""
    target.write(space, "k", text, claim)
    served = {s.key: s.text for s in target.context(space, text)}
    acting = any(s.text == text for s in target.acting(space, text))
    return (served["k"] == text if "k" in served else None), acting
