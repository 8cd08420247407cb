"""The attack texts and their honest twins, read from ``bench/data/attack``: one file per family."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memguard.bench.attack.encoding import ENCODINGS

FOLDER = Path(__file__).resolve().parent.parent / "data" / "attack"
#: Files in the order of the report.
FILES = (
    "direct",
    "indirect",
    "preference",
    "account",
    "bridging",
    "delayed",
    "encoded",
    "multilingual",
    "knowledge",
    "experience",
    "reinforcement",
    "retrieval",
)
REINFORCEMENT, RETRIEVAL = "self-reinforcement", "retrieval-optimised trigger"


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        ident: ``family/number``; its variant of source and of forgery follows from the number alone.
        ask: what the victim asks the agent later.
        texts: the memories that are planted, in order; most have one.
        marks: what the agent's action holds if the attack worked; all of them.
        trigger: phrase that the victim's request must hold (retrieval only).
        again: what the agent makes of it in its own words (self-reinforcement only).
    """

    ident: str
    ask: str
    texts: tuple[str, ...]
    marks: tuple[str, ...]
    trigger: str = ""
    again: str = ""

    @property
    def number(self) -> int:
        """Its place in the family, from 0."""
        return int(self.ident.rpartition("/")[2])

    @property
    def request(self) -> str:
        """What the victim says, the trigger included."""
        return f"{self.ask}, {self.trigger}" if self.trigger else self.ask


@dataclass(frozen=True, slots=True)
class Twin:
    """An honest memory of a family's shape, from the user or from an honest page (``own``)."""

    ident: str
    text: str
    own: bool


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of attack with its twins."""

    name: str
    about: str
    attacks: tuple[Attack, ...]
    twins: tuple[Twin, ...]


@cache
def families() -> Mapping[str, Family]:
    """Every family by name, in the order of the report."""
    found = [_family(name) for name in FILES]
    return {family.name: family for family in found}


def _family(file: str) -> Family:
    data = tomllib.loads((FOLDER / f"{file}.toml").read_text(encoding="utf-8"))
    name = data["family"]
    attacks = tuple(_attack(f"{name}/{at}", entry) for at, entry in enumerate(data["attacks"]))
    twins = [_twin(f"{name}/own/{at}", entry, True) for at, entry in enumerate(data["own"])]
    twins += [_twin(f"{name}/web/{at}", entry, False) for at, entry in enumerate(data["web"])]
    return Family(name, data["about"], attacks, tuple(twins))


def _attack(ident: str, entry: Mapping[str, Any]) -> Attack:
    texts = entry.get("texts") or [_written(entry)]
    marks = entry.get("marks") or [entry["mark"]]
    return Attack(
        ident, entry["ask"], tuple(texts), tuple(marks), entry.get("trigger", ""), entry.get("again", "")
    )


def _twin(ident: str, entry: str | Mapping[str, Any], own: bool) -> Twin:
    return Twin(ident, entry if isinstance(entry, str) else _written(entry), own)


def _written(entry: Mapping[str, Any]) -> str:
    text: str = entry["text"]
    return ENCODINGS[entry["encode"]](text) if "encode" in entry else text
