"""What is written into a store before anybody edits it.

Two contexts, six records each, every text distinct across both, and one distinctive fact per context: FA and FB.
Contexts and texts follow from the seed alone, so that two runs put the same questions.
"""

from __future__ import annotations

import random
from dataclasses import replace

from memguard.bench.suts.protocol import Record, Sut

CONTEXTS = ("A", "B")
OWNERS = {"A": "alice", "B": "bob", "C": "mallory"}
PER_CONTEXT = 6
#: Place of the distinctive fact in its context: neither first nor last.
FACT_AT = 3
_TOPICS = ("travel", "billing", "access", "limits", "devices", "contacts")
_PLACES = (
    "Lisbon",
    "Oslo",
    "Quito",
    "Hanoi",
    "Dakar",
    "Turin",
    "Perth",
    "Kyoto",
    "Malmo",
    "Cusco",
    "Accra",
    "Leeds",
)


def _texts(context: str, rng: random.Random, places: list[str]) -> list[str]:
    code, limit = rng.randrange(1000, 9999), rng.randrange(100, 900)
    owner = OWNERS[context]
    return [
        f"{owner} flies to {places.pop()} in week {rng.randrange(1, 52)}",
        f"invoice {code} of {owner} goes to the office in {places.pop()}",
        f"{owner} may open door {rng.randrange(10, 99)} in {places.pop()}",
        f"the approved spending limit of {owner} is an amount of {limit} euro",
        f"{owner} reads mail on the tablet from {places.pop()}",
        f"the doctor of {owner} lives in {places.pop()}, phone {rng.randrange(10**6, 10**7)}",
    ]


def records(seed: int) -> dict[str, list[Record]]:
    """The seeded records of both contexts, oldest first."""
    rng = random.Random(seed)
    places = list(_PLACES)
    rng.shuffle(places)
    found: dict[str, list[Record]] = {}
    for context in CONTEXTS:
        texts = _texts(context, rng, places)
        found[context] = [_record(context, n, texts) for n in range(PER_CONTEXT)]
    return found


def _record(context: str, n: int, texts: list[str]) -> Record:
    return Record(
        context=context,
        n=n,
        text=texts[n],
        owner=OWNERS[context],
        role="user" if n % 2 == 0 else "assistant",
        source=f"user:{OWNERS[context]}" if n % 2 == 0 else "tool:notes",
        ts=f"2026-01-{10 + n:02}T09:00:00+00:00",
        topic=_TOPICS[n % len(_TOPICS)],
        earlier=tuple(texts[:n]),
    )


def next_record(sut: Sut, context: str, text: str | None = None) -> Record:
    """A further genuine record of a context, after everything the SUT wrote there."""
    known = sut.records[context]
    last = known[-1]
    n = last.n + 1
    return replace(
        last,
        n=n,
        text=text or f"{last.owner} added note {n} after the seeding",
        ts=f"2026-02-{n:02}T09:00:00+00:00",
        earlier=(*last.earlier, last.text),
        topic="notes",
    )


def fact(context: str, seed: int) -> str:
    """The distinctive fact of a context."""
    return records(seed)[context][FACT_AT].text


def seed(sut: Sut, seed_number: int) -> None:
    """Write the seeded records through the SUT's own write path, turn by turn; the SUT is started."""
    by_context = records(seed_number)
    for n in range(PER_CONTEXT):
        for context in CONTEXTS:
            sut.write(by_context[context][n])
    for context in CONTEXTS:
        sut.finish(context)
