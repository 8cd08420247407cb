"""Recall measured: how much laundered text it tells, and how many honest people it lowers.

The texts are read by path and are not part of the project. Run as a program it prints the figures.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memguard.config import Config
from memguard.keys import open_keys
from memguard.recall import Recall, words_of
from memguard.record import Record, Source, Trust

DATA = Path(os.environ.get("MEMGUARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
WEB, BOT, USER = Source("web", "https://a.example"), Source("assistant"), Source("user", "u")

HOW: dict[str, Callable[[str], str]] = {
    "verbatim": lambda text: text,
    "quoted in a note": lambda text: (
        f"Noted on Monday for later use, as the page has it: {text} That was all."
    ),
    "first two thirds": lambda text: " ".join(text.split()[: len(text.split()) * 2 // 3]),
    "inside forty sentences": lambda text: f"{'We spoke about trains. ' * 20}{text}{' Tea was served.' * 20}",
}


def fresh() -> Recall:
    config = Config.model_validate({"guards": {"recall": {"records": 1_000_000}}})
    return Recall(open_keys("memory:measured", create=True), None, config)


def attacks() -> Iterator[tuple[str, list[str]]]:
    """Texts of each attacking source."""
    manifest = json.loads((DATA / "corpora" / "manifest.json").read_text())
    for entry in manifest:
        if entry["label"] == "attack":
            lines = (DATA / "corpora" / entry["file"]).read_text(encoding="utf-8").split("\n")
            yield entry["file"], [str(json.loads(line)["text"]) for line in lines[:400] if line]


def told(texts: list[str], how: Callable[[str], str]) -> tuple[int, int]:
    """Of the texts with ten words or more, how many are told when the assistant writes them again."""
    recall = fresh()
    long = [text for text in texts if min(len(words_of(text)), len(words_of(how(text)))) >= 10]
    for number, text in enumerate(long):
        recall.note(Record(text, "m", f"page-{number}", WEB), Trust.UNTRUSTED)
    found = sum(bool(recall.attached(Record(how(text), "m", "copy", BOT)).lineage) for text in long)
    return found, len(long)


def lowered() -> tuple[int, int, int]:
    """LoCoMo: what one speaker said was read on the web; and whom that lowers."""
    talks = []
    for sample in json.loads((DATA / "locomo" / "locomo10.json").read_text(encoding="utf-8")):
        talk = sample["conversation"]
        sessions = [talk[key] for key in talk if key.startswith("session_") and isinstance(talk[key], list)]
        talks.append([(turn["speaker"], turn["text"]) for session in sessions for turn in session])
    wrong = partners = 0
    count = 0
    for number, talk in enumerate(talks):
        first = talk[0][0]
        own = fresh()
        for at, (speaker, text) in enumerate(talk):
            if speaker == first:
                own.note(Record(text, "m", f"web-{at}", WEB), Trust.UNTRUSTED)
        others = fresh()
        for at, other in enumerate(talks):
            for place, (_, text) in enumerate(other if at != number else ()):
                others.note(Record(text, "m", f"web-{at}-{place}", WEB), Trust.UNTRUSTED)
        for speaker, text in talk:
            count += 1
            wrong += bool(others.attached(Record(text, "m", "own", USER)).lineage)
            partners += speaker != first and bool(own.attached(Record(text, "m", "own", USER)).lineage)
    return wrong, partners, count


def _needs(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"not run: {path.name} is absent (set MEMGUARD_DATA to the folder that holds it)")


@pytest.mark.parametrize("how", HOW)
def test_laundered_text_of_every_corpus_is_told(how: str) -> None:
    _needs(DATA / "corpora" / "manifest.json")
    for source, texts in attacks():
        found, count = told(texts, HOW[how])
        assert count >= 5, source
        assert found == count, (source, found, count)


def test_honest_people_are_not_lowered() -> None:
    _needs(DATA / "locomo" / "locomo10.json")
    wrong, partners, count = lowered()
    assert count > 5000
    # Talk is full of pleasantries ("Let me know if you need any help"): five thousand of them, all untrusted, are the
    # worst that can stand beside a person's own words.
    assert wrong <= 0.002 * count
    assert partners <= 0.0005 * count


if __name__ == "__main__":
    for source, texts in attacks():
        for how, change in HOW.items():
            found, count = told(texts, change)
            sys.stdout.write(f"{source:40} {how:24} {found:4} of {count}\n")
    sys.stdout.write(
        "LoCoMo lowered: {} by other people's words, {} by the partner's, of {}\n".format(*lowered())
    )
