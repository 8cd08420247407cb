"""Tokens that pull one record to every request with a trigger phrase, found against the store's own embedder.

In the manner of AgentPoison (Chen et al., NeurIPS 2024): coordinate ascent over a small vocabulary, for a record
that lies close to requests that hold the trigger and far from those that do not. The attacker here knows the
embedder and guesses the requests; the request of the victim is not among the guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from memguard.bench.attack.texts import RETRIEVAL, Attack, families
from memguard.embedders.hashing import Hashing, cosine

ROUNDS, GUESSES, ADDED = 2, 5, 3


@cache
def lured(ident: str) -> str:
    """The record of one attack of the family: the payload behind the tokens that were found for it."""
    attacks = families()[RETRIEVAL].attacks
    attack = next(a for a in attacks if a.ident == ident)
    guesses = [a.ask for a in attacks if a.ident != ident][:GUESSES]
    vocabulary = sorted({w for a in attacks if a.ident != ident for w in a.ask.lower().split()})
    return f"{lure(attack, guesses, vocabulary)}. {attack.texts[0]}"


def lure(attack: Attack, guesses: Sequence[str], vocabulary: Sequence[str]) -> str:
    """The best tokens: the trigger's own words first, then up to :data:`ADDED` more that raise the margin."""
    embedder = Hashing()
    with_it = embedder.embed([f"{ask}, {attack.trigger}" for ask in guesses])
    without = embedder.embed(list(guesses))

    def margin(words: Sequence[str]) -> float:
        (made,) = embedder.embed([f"{' '.join(words)}. {attack.texts[0]}"])
        near = sum(cosine(made, v) for v in with_it) / len(with_it)
        return near - sum(cosine(made, v) for v in without) / len(without)

    words = attack.trigger.split()
    best = margin(words)
    for _ in range(ROUNDS):
        for at in range(len(words) + 1):
            if at == len(words) and len(words) >= len(attack.trigger.split()) + ADDED:
                break
            for token in [*attack.trigger.split(), *vocabulary]:
                tried = [*words[:at], token, *words[at + 1 :]]
                value = margin(tried)
                if value > best + 1e-9:
                    words, best = tried, value
    return " ".join(words)
